//! Faults as text, for command lines and files.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{Fault, FaultKind};
use crate::Places;

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, duration) = (seconds(self.at), seconds(self.duration));
        write!(formatter, "{}@{at}+{duration}", self.kind.word())?;
        if self.nodes != 0 {
            let nodes: Vec<_> = self.places().map(|place| (place + 1).to_string()).collect();
            write!(formatter, ":{}", nodes.join(","))?;
        }
        if self.amount != 0 {
            write!(formatter, "={}", self.amount)?;
        }
        Ok(())
    }
}

fn seconds(duration: Duration) -> String {
    let text = format!("{}.{:06}", duration.as_secs(), duration.subsec_micros());
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |what: &str| {
            format!("{text}: {what}; a fault is written KIND@START+DURATION:NODES=AMOUNT")
        };
        let (word, rest) = text.split_once('@').ok_or_else(|| bad("no @"))?;
        let kind = FaultKind::ALL.into_iter().find(|kind| kind.word() == word);
        let kind = kind.ok_or_else(|| bad("no such kind"))?;
        let (rest, amount) = match rest.split_once('=') {
            Some((rest, amount)) => {
                (rest, amount.parse().map_err(|_| bad("the amount is no number"))?)
            }
            None => (rest, 0),
        };
        let (times, nodes) = match rest.split_once(':') {
            Some((times, nodes)) => (times, parse_nodes(nodes).ok_or_else(|| bad("no nodes"))?),
            None => (rest, 0),
        };
        let (at, duration) = times.split_once('+').unwrap_or((times, "0"));
        let at = parse_seconds(at).ok_or_else(|| bad("the start is no time"))?;
        let duration = parse_seconds(duration).ok_or_else(|| bad("the duration is no time"))?;
        let fault = Self { kind, at, duration, nodes, amount };
        fault.check().map_err(|reason| bad(&reason))?;
        Ok(fault)
    }
}

fn parse_nodes(text: &str) -> Option<Places> {
    text.split(',').try_fold(0, |nodes, number| {
        let number: u32 = number.parse().ok().filter(|number| (1..=64).contains(number))?;
        Some(nodes | 1 << (number - 1))
    })
}

/// Whole seconds and up to six digits of a fraction.
fn parse_seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 6 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let micros: u32 = format!("{fraction:0<6}").parse().ok()?;
    Some(Duration::new(whole.parse().ok()?, micros * 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_written_as_it_is_read() {
        for text in [
            "crash@1.25+2:3",
            "split@0.5+3:1,2",
            "loss@0.2+10=150",
            "clock-jump@1+0:2=-5000000",
            "outage@7+0.000001",
        ] {
            let fault: Fault = text.parse().unwrap();
            assert_eq!(fault.to_string(), text);
        }
    }

    #[test]
    fn says_what_is_wrong_with_a_text() {
        for text in ["crash", "bang@1", "crash@x", "crash@1+1:0", "crash@1+1:65", "loss@1=much"] {
            assert!(text.parse::<Fault>().unwrap_err().contains("KIND@START"), "{text}");
        }
        assert!(FaultKind::parse_list("crash,meteor").unwrap_err().contains("meteor"));
    }

    #[test]
    fn groups_stand_for_their_kinds() {
        use FaultKind::{Bridge, Crash, Flap, Isolate, OneWay, Split};
        let kinds = FaultKind::parse_list("partition,crash").unwrap();
        assert_eq!(kinds, [Crash, Split, OneWay, Bridge, Flap, Isolate]);
        assert_eq!(FaultKind::parse_list("none").unwrap(), []);
        assert!(FaultKind::parse_list("none,crash").unwrap_err().contains("stands alone"));
        assert_eq!(FaultKind::parse_list("all").unwrap(), FaultKind::ALL);
    }
}
