//! Lines of calls, each of which can be undone, and what must be left of them in the ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;

use outlast_node::fixture::ledger::{Entry, Kind, Outcome};

use super::nodes::Cluster;
use super::processes::{holds_in_time, until};

/// A document of calls one after the other.
pub(crate) struct Line {
    name: &'static str,
    steps: usize,
    provider: Provider,
}

/// What the service does when it is asked for the same thing again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Provider {
    /// It acts once for each key: what two parts do is one effect.
    Keyed,
    /// It acts each time: what two parts do are two effects, one of which must be undone.
    Keyless,
}

impl Line {
    pub(crate) fn new(name: &'static str, steps: usize, provider: Provider) -> Self {
        Self { name, steps, provider }
    }

    /// The document. Only the calls that do something are treated as the provider treats them: an
    /// undo is always known by its key, so that it may be asked for again after a death.
    pub(crate) fn document(&self) -> String {
        let Self { name, steps, provider } = self;
        let mut text = format!(
            "document: {{ dsl: '1.0.3', namespace: test, name: {name}, version: '1.0.0' }}\n\
             use: {{ retries: {{ stubborn: {{ delay: {{ milliseconds: 50 }}, \
             limit: {{ attempt: {{ count: 50 }} }} }} }} }}\ndo:\n"
        );
        let (treatment, keys) = match provider {
            Provider::Keyed => ("deduplicate: true", ""),
            Provider::Keyless => ("deduplicate: false", "idempotency: { none: true }, "),
        };
        for step in 1..=*steps {
            let post = |verb: &str, body: &str| {
                let endpoint = format!("http://ledger.test/{verb}/{name}-{step}");
                format!(
                    "call: http, with: {{ method: post, endpoint: '{endpoint}', body: {body} }}"
                )
            };
            let deed = post("do", &format!("{{ ledger: {{ {treatment} }} }}"));
            let undo = post("undo", "'${ { of } }'");
            let compensation = format!(
                "do: [ {{ undo: {{ {undo} }} }} ], capture: '${{ {{ of: .number }} }}', \
                 retry: stubborn"
            );
            writeln!(
                text,
                "  - step{step}: {{ {deed}, metadata: {{ outlast: {{ class: compensatable, {keys}\
                 compensation: {{ {compensation} }} }} }} }}"
            )
            .unwrap();
        }
        text
    }

    /// Waits until so many of its calls have had their effect.
    pub(crate) fn until_done(&self, cluster: &Cluster, count: usize) {
        until("calls have their effect", || count <= self.deeds(&cluster.entries()).count());
    }

    /// Waits until nodes with these addresses have together done so many things after a call.
    pub(crate) fn until_done_by(
        &self,
        cluster: &Cluster,
        who: &[IpAddr],
        after: u64,
        count: usize,
    ) {
        until("a part goes on", || count <= self.deeds_by(&cluster.entries(), who, after));
    }

    /// How much nodes with these addresses have done after a call.
    pub(crate) fn deeds_by(&self, entries: &[Entry], who: &[IpAddr], after: u64) -> usize {
        let theirs = |entry: &&Entry| from(entry).is_some_and(|from| who.contains(&from));
        self.deeds(entries).filter(|entry| after < entry.number).filter(theirs).count()
    }

    /// Waits until so many more things are done, and gives who did them.
    pub(crate) fn who_goes_on(&self, cluster: &Cluster, count: usize) -> BTreeSet<IpAddr> {
        let from_here = last_number(&cluster.entries());
        let later = |entry: &&Entry| from_here < entry.number;
        until("it goes on", || count <= self.deeds(&cluster.entries()).filter(later).count());
        let entries = cluster.entries();
        self.deeds(&entries).filter(later).filter_map(from).collect()
    }

    /// What was done, by whomever, whether it was undone or not.
    fn deeds<'a>(&self, entries: &'a [Entry]) -> impl Iterator<Item = &'a Entry> {
        let start = format!("{}-", self.name);
        entries.iter().filter(move |entry| {
            entry.kind == Kind::Do
                && matches!(entry.outcome, Outcome::Done | Outcome::Repeated)
                && entry.name.starts_with(&start)
        })
    }

    /// Waits until exactly the effects of one run are left, then asks that each other one was
    /// undone once. Gives how many were undone.
    pub(crate) fn one_run_remains(&self, cluster: &Cluster) -> usize {
        let expected: BTreeMap<String, usize> =
            (1..=self.steps).map(|step| (format!("{}-{step}", self.name), 1)).collect();
        let settled = holds_in_time(|| self.left(&cluster.entries()) == expected);
        let entries = cluster.entries();
        if !settled {
            let mut left = self.left(&entries);
            left.retain(|name, count| expected.get(name) != Some(count));
            let parked = cluster.parked();
            panic!("not one run: {left:?}, parked: {parked:?}\n{}", story(&entries));
        }
        let undos: Vec<&Entry> = self.undos(&entries).collect();
        let acted = undos.iter().filter(|undo| undo.outcome == Outcome::Done).count();
        let in_vain = undos.iter().find(|undo| undo.outcome == Outcome::Nothing);
        assert!(in_vain.is_none(), "undone twice: {in_vain:?}\n{}", story(&entries));
        acted
    }

    /// How many effects of each name stand.
    fn left(&self, entries: &[Entry]) -> BTreeMap<String, usize> {
        let undone: Vec<u64> = self.undos(entries).flat_map(Entry::undone).collect();
        let mut left = BTreeMap::new();
        for deed in self.deeds(entries).filter(|deed| deed.outcome == Outcome::Done) {
            if !undone.contains(&deed.number) {
                *left.entry(deed.name.clone()).or_default() += 1;
            }
        }
        left
    }

    fn undos<'a>(&self, entries: &'a [Entry]) -> impl Iterator<Item = &'a Entry> {
        let start = format!("{}-", self.name);
        let ours = move |entry: &&Entry| entry.kind == Kind::Undo && entry.name.starts_with(&start);
        entries.iter().filter(ours)
    }

    /// Asks that whatever was undone was undone by who did it, and the last of each line first.
    pub(crate) fn undone_in_reverse_order(&self, cluster: &Cluster) {
        let entries = cluster.entries();
        let undos = self.undos(&entries).filter(|undo| undo.outcome == Outcome::Done);
        let undone: BTreeMap<u64, &Entry> =
            undos.filter_map(|undo| undo.of.map(|of| (of, undo))).collect();
        for line in self.lines(&entries) {
            let undos: Vec<&Entry> =
                line.iter().filter_map(|deed| undone.get(&deed.number).copied()).collect();
            let by_itself = undos.iter().all(|undo| undo.caller == line[0].caller);
            assert!(by_itself, "everybody undoes its own\n{}", story(&entries));
            let in_order = undos.is_sorted_by(|earlier, later| later.number < earlier.number);
            assert!(in_order, "the last is undone first: {undos:#?}\n{}", story(&entries));
        }
    }

    /// What each node did one after the other. Where a step was left out, the node had taken over
    /// what another one had done, so that it was on another line from there on.
    fn lines<'a>(&self, entries: &'a [Entry]) -> Vec<Vec<&'a Entry>> {
        let mut of_nodes: BTreeMap<Option<&str>, Vec<&Entry>> = BTreeMap::new();
        for deed in self.deeds(entries) {
            of_nodes.entry(deed.caller.as_deref()).or_default().push(deed);
        }
        let step = |deed: &Entry| deed.name[self.name.len() + 1..].parse::<usize>().unwrap();
        let follows = |first: &&Entry, second: &&Entry| step(first) + 1 == step(second);
        let lines = of_nodes
            .into_values()
            .flat_map(|deeds| deeds.chunk_by(follows).map(<[&Entry]>::to_vec).collect::<Vec<_>>());
        lines.collect()
    }
}

/// Which node made a call.
pub(crate) fn from(entry: &Entry) -> Option<IpAddr> {
    entry.caller.as_deref()?.parse().ok()
}

/// A ledger for people, one call a line.
fn story(entries: &[Entry]) -> String {
    let mut text = String::new();
    for Entry { number, path, outcome, of, caller, .. } in entries {
        writeln!(text, "{number} {path} {outcome:?} {of:?} by {caller:?}").unwrap();
    }
    text
}

/// The number of the last call so far.
pub(crate) fn last_number(entries: &[Entry]) -> u64 {
    entries.last().map_or(0, |entry| entry.number)
}
