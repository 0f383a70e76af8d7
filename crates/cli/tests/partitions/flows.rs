//! Lines of calls, each of which can be undone, and what must be left of them in the ledger.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use outlast_node::fixture::ledger::{Entry, Kind, Outcome};

use super::nodes::{Cluster, until};

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
        let theirs = |entry: &&Entry| entry.from.is_some_and(|from| who.contains(&from));
        self.deeds(entries).filter(|entry| after < entry.number).filter(theirs).count()
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
        until(&format!("the effects of one run of {} are left", self.name), || {
            self.left(&cluster.entries()) == expected
        });
        let entries = cluster.entries();
        let undos: Vec<&Entry> = self.undos(&entries).collect();
        let acted = undos.iter().filter(|undo| undo.outcome == Outcome::Done).count();
        let in_vain = undos.iter().find(|undo| undo.outcome == Outcome::Nothing);
        assert!(in_vain.is_none(), "nothing is undone twice: {in_vain:?}\n{entries:#?}");
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

    /// Asks that what each node did on a line that was lost was undone by itself, the last first.
    /// Only where no node can have been on several lines that were lost.
    pub(crate) fn undone_in_reverse_order(&self, cluster: &Cluster) {
        let entries = cluster.entries();
        let mut last: BTreeMap<IpAddr, u64> = BTreeMap::new();
        for undo in self.undos(&entries).filter(|undo| undo.outcome == Outcome::Done) {
            let of = undo.of.expect("an undo that acted names its effect");
            let deed = &entries[usize::try_from(of).unwrap() - 1];
            assert_eq!((deed.number, deed.from), (of, undo.from), "everybody undoes its own");
            let from = undo.from.expect("the ledger knows its callers");
            let before = last.insert(from, of).unwrap_or(u64::MAX);
            assert!(
                of < before,
                "{of} was undone after {before}, which came before it\n{entries:#?}"
            );
        }
    }
}

/// The number of the last call so far.
pub(crate) fn last_number(entries: &[Entry]) -> u64 {
    entries.last().map_or(0, |entry| entry.number)
}
