//! Whether what the ledger shows is exactly one run, or exactly its compensation.

use std::collections::BTreeMap;

use outlast_node::fixture::ledger::{Entry, Kind, Outcome, Verdict, check};

use crate::flows::{End, Flow};

/// What a run went through.
#[derive(Clone, Copy, Default)]
pub(crate) struct Course {
    /// The ledger was told to fail calls that the document does not expect.
    pub(crate) disturbed: bool,
    /// So many of its lives ended with a kill.
    pub(crate) kills: u64,
}

/// Everything that is wrong with an ended run; empty if nothing is.
pub(crate) fn problems(flow: &Flow, entries: &[Entry], course: Course) -> Vec<String> {
    let mut problems = Vec::new();
    match check(entries, &flow.expected()) {
        Ok(verdict) if verdict != verdict_of(flow.end) => {
            problems.push(format!("the ledger shows {verdict:?}"));
        }
        Ok(_) => {}
        Err(found) => problems.extend(found.iter().map(|problem| format!("{problem:?}"))),
    }
    problems.extend(calls_without_key(entries));
    problems.extend(wrong_counts(flow, entries, course));
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
/// a failure may leave deeds out. A provider without keys acts again each time it is asked again:
/// once for every death, and once more if the deed is asked about in order to undo it.
fn wrong_counts(flow: &Flow, entries: &[Entry], course: Course) -> Vec<String> {
    let mut counts: BTreeMap<&str, u64> = flow.deeds.iter().map(|name| (*name, 0)).collect();
    for deed in deeds(entries) {
        *counts.entry(&deed.name).or_default() += 1;
    }
    let may_lack = course.disturbed && flow.end == End::Compensated;
    let asked_max = 1 + course.kills + u64::from(flow.end == End::Compensated);
    let wrong = counts.into_iter().filter(|(name, count)| match count {
        0 => !may_lack,
        1 => false,
        _ if flow.keyless.contains(name) => asked_max < *count,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::{KEYLESS, LOOP, ROLLBACK, SAGA, SCOPE, TIMERS};

    /// Entries from words: `+a` does a, `-a` undoes the last a, `.` lets 200 ms pass.
    fn entries(words: &str) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut time_us = 0;
        for word in words.split_whitespace() {
            if word == "." {
                time_us += 200_000;
                continue;
            }
            let (sign, name) = word.split_at(1);
            let kind = if sign == "+" { Kind::Do } else { Kind::Undo };
            let last = entries.iter().rev().find(|it| it.name == name && it.kind == Kind::Do);
            let of = last.map(|entry| entry.number).filter(|_| kind == Kind::Undo);
            let number = entries.len() as u64 + 1;
            entries.push(Entry {
                number,
                time_us,
                method: "POST".into(),
                path: format!("/{name}"),
                kind,
                name: name.to_owned(),
                key: Some(format!("k{number}")),
                request: String::new(),
                outcome: Outcome::Done,
                of,
                others: Vec::new(),
                status: 200,
                answered: true,
                undoes: None,
                caller: None,
            });
        }
        entries
    }

    fn judged(flow: &Flow, words: &str) -> String {
        problems(flow, &entries(words), Course::default()).join("; ")
    }

    const SAILED: &str = "+sail-1 +land-1 +sail-2 +land-2 +sail-3 +land-3 +sail-4 +land-4 +sail-5";

    #[test]
    fn accepts_a_whole_run_and_finds_what_is_missing_or_too_much() {
        assert_eq!(judged(&LOOP, &format!("{SAILED} +land-5")), "");
        assert!(judged(&LOOP, SAILED).contains("land-5 was done 0 times"));
        assert!(judged(&LOOP, &format!("{SAILED} +land-5 +sail-1")).contains("done 2 times"));
        assert!(judged(&LOOP, &format!("{SAILED} +land-5 -land-5")).contains("WrongEffects"));
    }

    #[test]
    fn finds_a_deed_before_what_it_builds_on() {
        let early = format!("+land-5 {SAILED}");
        assert!(judged(&LOOP, &early).contains("land-5 was done before sail-5"));
    }

    #[test]
    fn finds_a_wait_that_was_cut_short() {
        assert_eq!(judged(&TIMERS, "+early . +later . +overdue . +short +long +finish"), "");
        let cut = judged(&TIMERS, "+early +later . +overdue . +short +long +finish");
        assert_eq!(cut, "later came 0 ms after early, not 120");
    }

    #[test]
    fn a_rollback_must_have_been_done_and_undone_whole_and_in_order() {
        let deeds = "+first +second +left-1 +left-2 +right +several-1 +several-2 +several-3";
        let undos = "-several-3 -several-2 -several-1 -right -left-2 -left-1 -second";
        assert_eq!(judged(&ROLLBACK, &format!("{deeds} {undos} -first")), "");
        assert!(judged(&ROLLBACK, &format!("{deeds} {undos}")).contains("WrongEffects"));
        assert!(judged(&ROLLBACK, &format!("{deeds} -first {undos}")).contains("UndoOrder"));
        assert!(judged(&ROLLBACK, "+first -first").contains("second was done 0 times"));
        assert!(judged(&ROLLBACK, "+first -first +first -first").contains("first was done 2"));
    }

    #[test]
    fn a_scope_leaves_what_is_outside_and_attempts_may_be_made_again() {
        let scope = "+before +flight +hotel -hotel -flight +train +after";
        assert_eq!(judged(&SCOPE, scope), "");
        assert!(judged(&SCOPE, "+before +flight +hotel -hotel +train +after").contains("flight"));
        assert_eq!(judged(&SAGA, "+reserve -reserve +reserve +pack +pay +ship"), "");
        assert!(judged(&SAGA, "+reserve +reserve +pack +pay +ship").contains("left: 2"));
    }

    #[test]
    fn a_provider_without_keys_acts_once_more_for_each_death_at_most() {
        let mut entries = entries("+note +note +left +right-1 +right-2 +finish");
        entries[1].key = entries[0].key.clone();
        let judged = |kills| problems(&KEYLESS, &entries, Course { kills, disturbed: false });
        assert_eq!(judged(1), Vec::<String>::new());
        assert_eq!(judged(0), ["note was done 2 times"]);
    }
}
