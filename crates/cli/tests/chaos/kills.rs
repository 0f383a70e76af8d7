//! Kill -9 at random points, a few hundred times: nothing is lost and nothing is done twice.
//!
//! `OUTLAST_KILLS` says how many kills (200 by default), `OUTLAST_SEED` repeats one seed.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use outlast_node::fixture::ledger::{Entry, Kind, Outcome, Traffic};

use crate::flows::{End, Flow};
use crate::judge::{self, Course};
use crate::life::{Ended, Life, Waited};
use crate::plan::{Death, Plan, When};
use crate::world::{PATIENCE, World, table};

/// How many kills are made unless something else is said.
const KILLS: u64 = 200;
/// How many executions are under way at a time.
const WORKERS: usize = 3;
/// Seeds need not be tried for ever: one in three kills comes too late at worst.
const SEEDS_PER_KILL_MAX: u64 = 3;

/// What a suite of kills must have seen to mean anything.
const INTERESTING: [&str; 9] = [
    "before the first record",
    "with a call in flight that had its effect",
    "with a call in flight that had none yet",
    "while undoing",
    "during a wait",
    "between a sub-workflow's steps",
    "twice or more in one execution",
    "after failures of the service",
    ACTED_AGAIN,
];

/// What is not promised without keys, and must be seen to be judged.
const ACTED_AGAIN: &str = "(and a provider without keys acted again)";

/// How often each kind of situation was met.
#[derive(Default)]
pub(crate) struct Situations(Mutex<BTreeMap<&'static str, u64>>);

impl Situations {
    pub(crate) fn met(&self, situation: &'static str) {
        *self.0.lock().unwrap().entry(situation).or_default() += 1;
    }

    fn count(&self, situation: &str) -> u64 {
        self.0.lock().unwrap().get(situation).copied().unwrap_or(0)
    }
}

/// All kills so far.
#[derive(Default)]
pub(crate) struct Suite {
    pub(crate) situations: Situations,
    pub(crate) kills: AtomicU64,
    pub(crate) executions: AtomicU64,
}

#[test]
fn no_kill_loses_anything_or_does_anything_twice() {
    let suite = Suite::default();
    if let Some(seed) = number("OUTLAST_SEED") {
        return suite.try_seed(seed);
    }
    let wanted = number("OUTLAST_KILLS").unwrap_or(KILLS);
    let wanted_situations = if KILLS <= wanted { &INTERESTING[..] } else { &[] };
    let begin = Instant::now();
    suite.go_on_until(wanted, wanted_situations, |seed| suite.try_seed(seed));
    suite.report(begin.elapsed());
}

/// A number that the environment names.
pub(crate) fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}

impl Suite {
    /// Tries one seed after the other, several at a time, until there were enough kills and they
    /// have met what matters: a suite that happens to miss it proves nothing.
    pub(crate) fn go_on_until(
        &self,
        wanted: u64,
        situations: &[&str],
        try_seed: impl Fn(u64) + Sync,
    ) {
        let next = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| {
                    // Every plan runs to its end, so there may be a few kills more than wanted.
                    while let Some(lack) = self.lacks(wanted, situations) {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        assert!(seed < wanted * SEEDS_PER_KILL_MAX, "the plans miss: {lack}");
                        try_seed(seed);
                    }
                });
            }
        });
    }

    /// What there was too little of so far.
    fn lacks<'a>(&self, wanted: u64, situations: &[&'a str]) -> Option<&'a str> {
        if self.kills.load(Ordering::Relaxed) < wanted {
            return Some("kills that come in time");
        }
        situations.iter().find(|situation| self.situations.count(situation) == 0).copied()
    }

    fn try_seed(&self, seed: u64) {
        let (flow, plan) = Plan::of(seed);
        let mut trial = Trial { suite: self, seed, plan, world: World::new(flow), kills: 0 };
        trial.run();
        self.executions.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn report(&self, time: Duration) {
        let kills = self.kills.load(Ordering::Relaxed);
        let executions = self.executions.load(Ordering::Relaxed);
        eprintln!("{kills} kills of {executions} executions in {:.1} s", time.as_secs_f64());
        for (situation, count) in self.situations.0.lock().unwrap().iter() {
            eprintln!("{count:6}  {situation}");
        }
    }
}

/// One execution from its first life to its end.
struct Trial<'a> {
    suite: &'a Suite,
    seed: u64,
    plan: Plan,
    world: World,
    kills: u64,
}

impl Trial<'_> {
    fn run(&mut self) {
        let disturbed = self.plan.disturbs();
        let lives = std::mem::take(&mut self.plan.lives);
        let early = lives.iter().find_map(|death| self.live(death));
        self.world.ledger.control(|control| *control = Default::default());
        let ended = early.unwrap_or_else(|| self.start().end(PATIENCE));
        let entries = self.world.settled_entries();
        let flow = self.world.flow;
        let mut problems = judge::problems(flow, &entries, Course { disturbed, kills: self.kills });
        if ended.code != Some(flow.end.code()) && !ended.was_killed() {
            problems.push(format!("not {:?}, as it should be", flow.end));
        }
        if self.plan.asked_again {
            problems.extend(self.ask_again(&ended, &entries));
        }
        if !problems.is_empty() {
            self.fail(&problems, &ended, &entries);
        }
        self.note_ending(&entries);
    }

    fn start(&self) -> Life {
        let mut command = self.world.command(self.plan.named);
        Life::start(&mut command)
    }

    /// Lives until its death; tells if it came to its end before, or at least said so.
    fn live(&mut self, death: &Death) -> Option<Ended> {
        self.world.ledger.control(|control| *control = death.control());
        let before = self.world.ledger.traffic();
        let mut life = self.start();
        if wait_for(death.when, &mut life, &self.world, before) == Waited::Ended {
            return Some(life.end(PATIENCE));
        }
        let now = self.world.ledger.traffic();
        let entries = self.world.ledger.entries();
        let ended = life.kill();
        if !ended.was_killed() {
            return Some(ended);
        }
        self.kills += 1;
        self.suite.kills.fetch_add(1, Ordering::Relaxed);
        self.note_kill(before, now, &entries);
        // Who has heard the end would not run it again: without a name, that would be a new run.
        let heard = !self.plan.named && ended.told(self.world.flow.end);
        if heard {
            self.suite.situations.met("after its last word");
        }
        heard.then_some(ended)
    }

    /// What was going on when it died. Calls of earlier lives that are still under way do not count.
    fn note_kill(&self, before: Traffic, now: Traffic, entries: &[Entry]) {
        let situations = &self.suite.situations;
        let flow = self.world.flow;
        if self.world.has_no_record() {
            situations.met("before the first record");
        }
        let held_over = before.arrived - before.answered;
        let unanswered = (now.recorded - now.answered).saturating_sub(held_over);
        let unrecorded = (now.arrived - now.recorded).saturating_sub(held_over);
        if 0 < unanswered {
            situations.met("with a call in flight that had its effect");
        }
        if 0 < unrecorded {
            situations.met("with a call in flight that had none yet");
        }
        if is_undoing(flow, entries) {
            situations.met("while undoing");
        }
        if now.arrived == now.answered && is_waiting(flow, entries) {
            situations.met("during a wait");
        }
        if is_within_a_child(flow, entries) {
            situations.met("between a sub-workflow's steps");
        }
        if 1 < self.kills {
            situations.met("twice or more in one execution");
        }
        if entries.iter().any(|entry| entry.outcome == Outcome::Failed) {
            situations.met("after failures of the service");
        }
    }

    fn note_ending(&self, entries: &[Entry]) {
        let situations = &self.suite.situations;
        if entries.iter().any(|entry| entry.outcome == Outcome::Repeated) {
            situations.met("(and a call came twice and acted once)");
        }
        if entries
            .iter()
            .any(|entry| (entry.kind, entry.outcome) == (Kind::Undo, Outcome::Repeated))
        {
            situations.met("(and an undo came twice and acted once)");
        }
        let keyless = self.world.flow.keyless.iter();
        let repeated =
            |name: &&str| 1 < judge::deeds(entries).filter(|it| it.name == **name).count();
        if keyless.copied().any(|name| repeated(&name)) {
            situations.met(ACTED_AGAIN);
        }
        if self.world.flow.end == End::Compensated && 0 < self.kills {
            situations.met("(of an execution that was rolled back)");
        }
    }

    /// Running an ended execution again gives the same end and calls nobody.
    fn ask_again(&self, ended: &Ended, entries: &[Entry]) -> Vec<String> {
        let again = self.start().end(PATIENCE);
        let mut problems = Vec::new();
        if (again.code, &again.stdout) != (ended.code, &ended.stdout) {
            problems.push(format!("run again, it ends otherwise: {}", again.story()));
        }
        if self.world.settled_entries().len() != entries.len() {
            problems.push("run again, it calls services again".into());
        }
        problems
    }

    fn fail(&mut self, problems: &[String], ended: &Ended, entries: &[Entry]) -> ! {
        let kept = self.world.keep().display().to_string();
        panic!(
            "seed {}, flow {}, killed {} times:\n  {}\n{}\nledger:\n{}plan: {:?}\ndata kept in {}\n\
             repeat: OUTLAST_SEED={} cargo test -p outlast --test chaos kills\n",
            self.seed,
            self.world.flow.name,
            self.kills,
            problems.join("\n  "),
            ended.story(),
            table(entries),
            Plan::of(self.seed).1,
            kept,
            self.seed,
        );
    }
}

/// Waits for the moment of death.
fn wait_for(when: When, life: &mut Life, world: &World, before: Traffic) -> Waited {
    let ledger = &world.ledger;
    let waited = match when {
        When::After(delay) => life.lasts(delay),
        When::Arrived(more) => {
            life.until(PATIENCE, || before.arrived + more <= ledger.traffic().arrived)
        }
        When::Recorded(more) => {
            life.until(PATIENCE, || before.recorded + more <= ledger.traffic().recorded)
        }
        When::Answered(more, later) => {
            match life.until(PATIENCE, || before.answered + more <= ledger.traffic().answered) {
                Waited::Holds => life.lasts(later),
                waited => waited,
            }
        }
    };
    let stuck = waited == Waited::TimeOver && !matches!(when, When::After(_) | When::Answered(..));
    assert!(!stuck, "stuck: {}\n{}", life.stderr(), table(&ledger.entries()));
    waited
}

/// Whether the flow has come to one of its waits and not beyond it.
fn is_waiting(flow: &Flow, entries: &[Entry]) -> bool {
    let done = |name: &str| judge::deeds(entries).any(|deed| deed.name == name);
    flow.waits.iter().any(|(before, after, _)| done(before) && !done(after))
}

/// Whether something was undone, and something is left that must be.
fn is_undoing(flow: &Flow, entries: &[Entry]) -> bool {
    let owed =
        |deed: &&Entry| flow.end == End::Compensated || flow.undone.contains(&deed.name.as_str());
    let undone = judge::undos(entries).count();
    0 < undone && undone < judge::deeds(entries).filter(owed).count()
}

/// Whether a sub-workflow has done its first deed and not its second.
fn is_within_a_child(flow: &Flow, entries: &[Entry]) -> bool {
    let done = |name: &str| judge::deeds(entries).any(|deed| deed.name == name);
    let mut steps = flow.order.iter().filter(|(one, two)| {
        matches!((one.strip_suffix("-1"), two.strip_suffix("-2")), (Some(a), Some(b)) if a == b)
    });
    !flow.children.is_empty() && steps.any(|(one, two)| done(one) && !done(two))
}
