//! `outlast simulate --replay`: a recorded run once more, one event at a time on a terminal, as lines in
//! a pipe; and whether every engine was given the same inputs and wanted the same.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use std::time::Instant;

use outlast_simulator::{Recording, Swarm, Verdict, Wanted, Watcher, World};

use super::report::Tally;
use crate::exit::{Exit, Failure};

/// Which lines of a run are shown. What is not said fits.
#[derive(clap::Args, Clone, Default)]
pub(super) struct Shown {
    /// Only what occurs from this second on (with --replay)
    #[arg(long, value_name = "SECONDS", requires = "replay")]
    from: Option<f64>,
    /// Only what occurs until this second (with --replay)
    #[arg(long, value_name = "SECONDS", requires = "replay")]
    to: Option<f64>,
    /// Only what occurs at this node, and faults (with --replay)
    #[arg(long, value_name = "NUMBER", requires = "replay")]
    node: Option<u64>,
    /// Only what is about this execution, by its id or the first eight digits of it, and faults (with
    /// --replay)
    #[arg(long, value_name = "ID", requires = "replay")]
    execution: Option<String>,
}

impl Shown {
    /// Refuses what is to be shown of a recording if there is none. The parser does so too, but not beside
    /// flags that a recording does not go with.
    pub(super) fn check_unused(&self) -> Result<(), Failure> {
        let given = [
            ("--from", self.from.is_some()),
            ("--to", self.to.is_some()),
            ("--node", self.node.is_some()),
            ("--execution", self.execution.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((flag, _)) => {
                Err(Failure::usage(format!("{flag}: there is nothing to show without --replay")))
            }
        }
    }

    /// Whether a line of a trace is shown.
    fn fits(&self, line: &str) -> bool {
        let time = line.split_whitespace().next();
        let time: f64 = time.and_then(|word| word.parse().ok()).unwrap_or(0.0);
        let node = place_of(line);
        let in_time =
            self.from.is_none_or(|from| from <= time) && self.to.is_none_or(|to| time <= to);
        // What goes wrong in the world concerns everyone.
        let here = node.is_none() || self.node.is_none() || node == self.node;
        let meant = node.is_none() || self.execution.as_deref().is_none_or(|id| names(line, id));
        in_time && here && meant
    }
}

/// Whether a line of a trace names an execution: by the beginning of its id behind a `#`, or in its words.
fn names(line: &str, id: &str) -> bool {
    let mut words = line.split_whitespace().skip(1);
    words.any(|word| match word.strip_prefix('#') {
        Some(short) => id.starts_with(short),
        None => 8 <= id.len() && word.starts_with(id),
    })
}

/// The node that a line of a trace is about, if it is about one.
fn place_of(line: &str) -> Option<u64> {
    let mut words = line.split_whitespace().skip(1);
    match (words.next(), words.next()) {
        (Some("node"), Some(number)) => number.parse().ok(),
        _ => None,
    }
}

/// Runs a world that was written down.
pub(super) fn replay(file: &Path, shown: &Shown, json: bool) -> anyhow::Result<Exit> {
    if let (Some(from), Some(to)) = (shown.from, shown.to)
        && to < from
    {
        return Err(Failure::usage(format!("--to {to} is before --from {from}")).into());
    }
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
    let unusable =
        |error| Failure::usage(format!("{} is not a recording: {error}", file.display()));
    let mut recording: Recording = text.parse().map_err(unusable)?;
    let flow = recording.workload().map_err(unusable)?;
    recording.scenario.options.trace = true;
    recording.scenario.options.records_run = !recording.run.is_empty();
    let mut swarm = Swarm::new(Wanted::default(), vec![flow]);
    let began = Instant::now();
    let watcher = (!json).then(|| watcher(shown.clone()));
    let verdict = swarm.run_watched(&recording.scenario, watcher);
    if verdict.stopped {
        return Ok(Exit::Completed);
    }
    let mut tally = Tally::new(true);
    tally.add(recording.scenario.options.seed, &verdict);
    tally.seconds = began.elapsed().as_secs_f64();
    tally.difference = difference(&recording.run, &verdict);
    tally.print(json);
    if !json && !verdict.trace.lines().any(|line| place_of(line).is_some() && shown.fits(line)) {
        tell!("nothing that occurred at a node fits what is to be shown");
    }
    if let Some(difference) = &tally.difference {
        tell!("this run is not the one that was recorded: {difference}");
    }
    let same = tally.difference.is_none() && verdict.finding.is_none();
    Ok(if same { Exit::Completed } else { Exit::Faulted })
}

/// The first event that is another one than was recorded; nothing if no events were.
fn difference(recorded: &[String], verdict: &Verdict) -> Option<String> {
    if recorded.is_empty() {
        return None;
    }
    let now: Vec<String> = verdict.run_events.iter().map(ToString::to_string).collect();
    let at = (0..recorded.len().max(now.len())).find(|at| recorded.get(*at) != now.get(*at))?;
    let said = |events: &[String]| events.get(at).cloned().unwrap_or_else(|| "nothing".to_owned());
    Some(format!("event {} was {}, and is {}", at + 1, said(recorded), said(&now)))
}

/// Whoever looks on: a person who steps, or a pipe.
fn watcher(shown: Shown) -> Watcher {
    let steps = io::stdin().is_terminal() && io::stdout().is_terminal();
    let mut stepper = Stepper::new(shown, steps);
    Box::new(move |world: &World| {
        let (input, output) = (io::stdin(), io::stdout());
        let seen = stepper.sees(world, &mut input.lock(), &mut output.lock());
        // A pipe that nobody reads any more wants no more.
        seen.unwrap_or(false)
    })
}

/// How far a person wants to go before the next question.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Pace {
    /// So many events.
    Events(u64),
    /// To this second.
    Until(f64),
    /// To the end.
    All,
}

const HELP: &str = "[enter] next event, NUMBER of events, @SECOND, c: to the end, q: quit > ";

struct Stepper {
    shown: Shown,
    pace: Pace,
    /// How much of the trace was looked at.
    read: usize,
}

impl Stepper {
    const fn new(shown: Shown, steps: bool) -> Self {
        Self { shown, pace: if steps { Pace::Events(1) } else { Pace::All }, read: 0 }
    }

    fn sees(
        &mut self,
        world: &World,
        input: &mut dyn BufRead,
        output: &mut dyn Write,
    ) -> io::Result<bool> {
        let news = world.trace[self.read..].to_owned();
        self.read = world.trace.len();
        self.takes(&news, world.elapsed().as_secs_f64(), &|| world.states(), input, output)
    }

    /// Shows what is new, and asks how to go on when the person went as far as they wanted.
    fn takes(
        &mut self,
        news: &str,
        time: f64,
        states: &dyn Fn() -> String,
        input: &mut dyn BufRead,
        output: &mut dyn Write,
    ) -> io::Result<bool> {
        let mut any = false;
        for line in news.lines().filter(|line| self.shown.fits(line)) {
            writeln!(output, "{line}")?;
            any = true;
        }
        let is_there = match &mut self.pace {
            Pace::All => false,
            Pace::Until(second) => *second <= time,
            Pace::Events(left) => {
                *left = left.saturating_sub(u64::from(any));
                *left == 0
            }
        };
        if !is_there || !any {
            return Ok(true);
        }
        write!(output, "{}", states())?;
        self.asks(input, output)
    }

    fn asks(&mut self, input: &mut dyn BufRead, output: &mut dyn Write) -> io::Result<bool> {
        loop {
            write!(output, "{HELP}")?;
            output.flush()?;
            let mut line = String::new();
            if input.read_line(&mut line)? == 0 {
                self.pace = Pace::All;
                return Ok(true);
            }
            match line.trim() {
                "q" => return Ok(false),
                word => {
                    if let Some(pace) = pace_of(word) {
                        self.pace = pace;
                        return Ok(true);
                    }
                }
            }
        }
    }
}

/// How far a word says to go, if it says so.
fn pace_of(word: &str) -> Option<Pace> {
    match word.strip_prefix('@') {
        Some(second) => second.parse().ok().map(Pace::Until),
        None if word.is_empty() => Some(Pace::Events(1)),
        None if word == "c" => Some(Pace::All),
        None => word.parse().ok().filter(|count| 0 < *count).map(Pace::Events),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: [&str; 6] = [
        "   0.000100  node 1  starts, life 0",
        "   0.000200  world   fault crash@0+1:1 begins",
        "   0.000300  node 2  calls POST ok/a  #01010101",
        "   0.000400  node 2  calls POST ok/b  #02020202",
        "   1.500000  node 1  calls POST ok/c  #01010101",
        "   1.600000  node 1  is asked how 01010101-0101-0101-0101-010101010101 ends",
    ];

    /// What a person sees who types this, and whether they saw everything.
    fn session(shown: Shown, typed: &str) -> (String, bool) {
        let mut stepper = Stepper::new(shown, true);
        let (mut input, mut output) = (typed.as_bytes(), Vec::new());
        for line in LINES {
            let time = line.split_whitespace().next().unwrap().parse().unwrap();
            let states = || "  node 1 up\n".to_owned();
            if !stepper.takes(line, time, &states, &mut input, &mut output).unwrap() {
                return (String::from_utf8(output).unwrap(), false);
            }
        }
        (String::from_utf8(output).unwrap(), true)
    }

    #[test]
    fn stops_at_every_event_and_shows_the_nodes() {
        let (seen, all) = session(Shown::default(), "\n\nq\n");
        assert!(!all);
        let lines: Vec<_> = seen.split(HELP).collect();
        assert_eq!(lines[0], format!("{}\n  node 1 up\n", LINES[0]));
        assert_eq!(lines[2], format!("{}\n  node 1 up\n", LINES[2]));
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn goes_as_far_as_it_is_told() {
        let (seen, all) = session(Shown::default(), "2\n@1\nc\n");
        assert!(all);
        assert_eq!(seen.matches(HELP).count(), 3);
        let (seen, _) = session(Shown::default(), "what?\nq\n");
        assert_eq!(seen.matches(HELP).count(), 2, "what is not understood is asked again");
    }

    #[test]
    fn shows_only_what_is_asked_for_and_faults() {
        let fitting = |shown: Shown| -> Vec<usize> {
            (0..LINES.len()).filter(|line| shown.fits(LINES[*line])).collect()
        };
        let none = Shown::default();
        assert_eq!(fitting(Shown { from: Some(0.0002), to: Some(1.0), ..none.clone() }), [1, 2, 3]);
        assert_eq!(fitting(Shown { node: Some(1), ..none.clone() }), [0, 1, 4, 5]);
        for id in ["01010101-0101-0101-0101-010101010101", "01010101"] {
            let execution = Some(id.to_owned());
            assert_eq!(fitting(Shown { execution, ..none.clone() }), [1, 2, 4, 5]);
        }
    }
}
