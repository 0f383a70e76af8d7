//! Whether what the ledger shows is exactly one run, or exactly its compensation.

use std::collections::BTreeMap;

use outlast_node::fixture::ledger::{Entry, Kind, Outcome, Verdict, check};

use crate::flows::{End, Flow};

/// Everything that is wrong with a ended run; empty if nothing is.
///
/// `disturbed` says that the ledger was told to fail calls that the document does not expect.
pub(crate) fn problems(flow: &Flow, entries: &[Entry], disturbed: bool) -> Vec<String> {
    let mut problems = Vec::new();
    match check(entries, &flow.expected()) {
        Ok(verdict) if verdict != verdict_of(flow.end) => {
            problems.push(format!("the ledger shows {verdict:?}"));
        }
        Ok(_) => {}
        Err(found) => problems.extend(found.iter().map(|problem| format!("{problem:?}"))),
    }
    problems.extend(calls_without_key(entries));
    problems.extend(wrong_counts(flow, entries, disturbed));
    problems.extend(wrong_order(flow, entries));
    problems.extend(short_waits(flow, entries));
    problems
}

fn verdict_of(end: End) -> Verdict {
    match end {
        End::Completed => Verdict::Complete,
        End::Compensated => Verdict::Compensated,
    }
}

fn calls_without_key(entries: &[Entry]) -> Vec<String> {
    let keyless = entries.iter().filter(|entry| entry.key.is_none());
    keyless.map(|entry| format!("call {} has no key", entry.number)).collect()
}

/// Each deed is done once, unless attempts are made again; a rollback that was brought forward by
/// a failure may leave deeds out.
fn wrong_counts(flow: &Flow, entries: &[Entry], disturbed: bool) -> Vec<String> {
    let mut counts: BTreeMap<&str, u64> = flow.deeds.iter().map(|name| (*name, 0)).collect();
    for deed in deeds(entries) {
        *counts.entry(&deed.name).or_default() += 1;
    }
    let may_lack = disturbed && flow.end == End::Compensated;
    let wrong = counts.into_iter().filter(|(_, count)| match count {
        0 => !may_lack,
        1 => false,
        _ => !flow.repeats,
    });
    wrong.map(|(name, count)| format!("{name} was done {count} times")).collect()
}

/// Nothing is done before what it builds on.
fn wrong_order(flow: &Flow, entries: &[Entry]) -> Vec<String> {
    let first = |name: &str| deeds(entries).find(|deed| deed.name == name).map(|deed| deed.number);
    let wrong = flow.order.iter().filter(|(earlier, later)| {
        matches!((first(earlier), first(later)), (None, Some(_)))
            || matches!((first(earlier), first(later)), (Some(one), Some(two)) if two < one)
    });
    wrong.map(|(earlier, later)| format!("{later} was done before {earlier}")).collect()
}

/// A wait is never shorter than it says, over however many lives.
fn short_waits(flow: &Flow, entries: &[Entry]) -> Vec<String> {
    let time = |name: &str| deeds(entries).find(|deed| deed.name == name).map(|deed| deed.time_us);
    let mut problems = Vec::new();
    for (before, after, milliseconds) in flow.waits {
        let (Some(begin), Some(end)) = (time(before), time(after)) else { continue };
        if end < begin + milliseconds * 1000 {
            let waited = end.saturating_sub(begin) / 1000;
            problems.push(format!("{after} came {waited} ms after {before}, not {milliseconds}"));
        }
    }
    problems
}

/// The calls that had an effect.
pub(crate) fn deeds(entries: &[Entry]) -> impl Iterator<Item = &Entry> {
    of_kind(entries, Kind::Do)
}

/// The calls that took an effect back.
pub(crate) fn undos(entries: &[Entry]) -> impl Iterator<Item = &Entry> {
    of_kind(entries, Kind::Undo)
}

fn of_kind(entries: &[Entry], kind: Kind) -> impl Iterator<Item = &Entry> {
    entries.iter().filter(move |entry| entry.kind == kind && entry.outcome == Outcome::Done)
}
