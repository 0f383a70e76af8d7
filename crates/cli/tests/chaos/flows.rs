//! The flows that are run, and what each must leave in the ledger.

use std::path::{Path, PathBuf};

use outlast_node::fixture::ledger::{Expected, UndoOrder};

/// A document, and what a run of it looks like from outside.
pub(crate) struct Flow {
    pub(crate) name: &'static str,
    /// Definitions that it runs as sub-workflows.
    pub(crate) children: &'static [&'static str],
    pub(crate) end: End,
    /// What it does on its way, each once. Of these, a completed run leaves all but `undone`.
    pub(crate) deeds: &'static [&'static str],
    /// What a completed run takes back.
    pub(crate) undone: &'static [&'static str],
    /// Deeds of which the second builds on the first.
    pub(crate) order: &'static [(&'static str, &'static str)],
    /// Between these two deeds lies a wait of so many milliseconds.
    pub(crate) waits: &'static [(&'static str, &'static str, u64)],
    /// Whether a few failing calls, whichever they are, change nothing about the end.
    pub(crate) tolerant: bool,
    /// Whether deeds may be taken back and done again.
    pub(crate) repeats: bool,
    /// Deeds at a provider that knows no keys: whoever was killed meanwhile asks again, and it acts
    /// again.
    pub(crate) keyless: &'static [&'static str],
    /// Deeds, and the type of the event that someone publishes as soon as each is done.
    pub(crate) told: &'static [(&'static str, &'static str)],
    /// A path that fails until a person is asked and repairs it.
    pub(crate) broken: Option<&'static str>,
}

/// How a run ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Completed,
    Compensated,
}

impl End {
    /// The exit code of `outlast run`.
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Completed => 0,
            Self::Compensated => 3,
        }
    }
}

/// What most flows have in common.
const PLAIN: Flow = Flow {
    name: "",
    children: &[],
    end: End::Completed,
    deeds: &[],
    undone: &[],
    order: &[],
    waits: &[],
    tolerant: false,
    repeats: false,
    keyless: &[],
    told: &[],
    broken: None,
};

pub(crate) static FORK: Flow = Flow {
    name: "fork",
    deeds: &[
        "begin",
        "left-1",
        "left-2",
        "middle-1",
        "middle-here",
        "middle-there",
        "middle-2",
        "right",
        "finish",
    ],
    order: &[
        ("begin", "left-1"),
        ("left-1", "left-2"),
        ("begin", "middle-1"),
        ("middle-1", "middle-here"),
        ("middle-1", "middle-there"),
        ("middle-here", "middle-2"),
        ("middle-there", "middle-2"),
        ("left-2", "finish"),
        ("middle-2", "finish"),
        ("right", "finish"),
    ],
    waits: &[("begin", "right", 25)],
    ..PLAIN
};

pub(crate) static LOOP: Flow = Flow {
    name: "loop",
    deeds: &[
        "sail-1", "land-1", "sail-2", "land-2", "sail-3", "land-3", "sail-4", "land-4", "sail-5",
        "land-5",
    ],
    order: &[
        ("sail-1", "land-1"),
        ("land-1", "sail-2"),
        ("sail-2", "land-2"),
        ("land-2", "sail-3"),
        ("sail-3", "land-3"),
        ("land-3", "sail-4"),
        ("sail-4", "land-4"),
        ("land-4", "sail-5"),
        ("sail-5", "land-5"),
    ],
    ..PLAIN
};

pub(crate) static WINDOW: Flow = Flow {
    name: "window",
    deeds: &[
        "take-1", "put-1", "take-2", "put-2", "take-3", "put-3", "take-4", "put-4", "take-5",
        "put-5", "take-6", "put-6", "take-7", "put-7", "take-8", "put-8", "take-9", "put-9",
        "finish",
    ],
    order: &[
        ("take-1", "put-1"),
        ("take-2", "put-2"),
        ("take-3", "put-3"),
        ("take-4", "put-4"),
        ("take-5", "put-5"),
        ("take-6", "put-6"),
        ("take-7", "put-7"),
        ("take-8", "put-8"),
        ("take-9", "put-9"),
        ("put-1", "finish"),
        ("put-9", "finish"),
        ("put-5", "finish"),
    ],
    ..PLAIN
};

pub(crate) static RETRY: Flow = Flow {
    name: "retry",
    deeds: &["fragile", "steady", "instead", "finish"],
    order: &[("fragile", "steady"), ("steady", "instead"), ("instead", "finish")],
    tolerant: true,
    ..PLAIN
};

pub(crate) static TIMERS: Flow = Flow {
    name: "timers",
    deeds: &["early", "later", "overdue", "short", "long", "finish"],
    order: &[
        ("early", "later"),
        ("later", "overdue"),
        ("overdue", "short"),
        ("overdue", "long"),
        ("short", "finish"),
        ("long", "finish"),
    ],
    waits: &[
        ("early", "later", 120),
        ("later", "overdue", 90),
        ("overdue", "short", 40),
        ("overdue", "long", 100),
    ],
    ..PLAIN
};

pub(crate) static CHILDREN: Flow = Flow {
    name: "children",
    children: &["child"],
    deeds: &[
        "row-1-1", "row-1-2", "row-2-1", "row-2-2", "left-1", "left-2", "right-1", "right-2",
        "finish",
    ],
    order: &[
        ("row-1-1", "row-1-2"),
        ("row-1-2", "row-2-1"),
        ("row-2-1", "row-2-2"),
        ("row-2-2", "left-1"),
        ("row-2-2", "right-1"),
        ("left-1", "left-2"),
        ("right-1", "right-2"),
        ("left-2", "finish"),
        ("right-2", "finish"),
    ],
    waits: &[("row-1-1", "row-1-2", 15), ("row-2-1", "row-2-2", 15)],
    ..PLAIN
};

pub(crate) static ROLLBACK: Flow = Flow {
    name: "rollback",
    end: End::Compensated,
    deeds: &["first", "second", "left-1", "left-2", "right", "several-1", "several-2", "several-3"],
    order: &[
        ("first", "second"),
        ("second", "left-1"),
        ("left-1", "left-2"),
        ("second", "right"),
        ("left-2", "several-1"),
        ("right", "several-1"),
        ("several-1", "several-2"),
        ("several-2", "several-3"),
        ("first", "several-3"),
    ],
    tolerant: true,
    ..PLAIN
};

pub(crate) static SCOPE: Flow = Flow {
    name: "scope",
    deeds: &["before", "flight", "hotel", "train", "after"],
    undone: &["flight", "hotel"],
    order: &[("before", "flight"), ("flight", "hotel"), ("hotel", "train"), ("train", "after")],
    ..PLAIN
};

pub(crate) static SAGA: Flow = Flow {
    name: "saga",
    deeds: &["reserve", "pack", "pay", "ship"],
    order: &[("reserve", "pack"), ("pack", "pay"), ("pay", "ship")],
    tolerant: true,
    repeats: true,
    ..PLAIN
};

pub(crate) static BREACH: Flow = Flow {
    name: "breach",
    end: End::Compensated,
    // Whether the slow branch comes to its second deed is a matter of time.
    deeds: &["first"],
    order: &[("first", "slow-1"), ("slow-1", "slow-2"), ("first", "slow-2")],
    tolerant: true,
    ..PLAIN
};

pub(crate) static FAMILY: Flow = Flow {
    name: "family",
    children: &["heir"],
    end: End::Compensated,
    deeds: &["first", "elder-1", "elder-2", "younger-1", "younger-2"],
    order: &[
        ("first", "elder-1"),
        ("elder-1", "elder-2"),
        ("elder-2", "younger-1"),
        ("younger-1", "younger-2"),
        ("first", "younger-2"),
    ],
    ..PLAIN
};

pub(crate) static RACE: Flow = Flow {
    name: "race",
    // How far the slow branch comes is a matter of time; whatever it did is undone.
    deeds: &["first", "quick", "finish"],
    order: &[("first", "slow-1"), ("slow-1", "slow-2"), ("first", "quick"), ("quick", "finish")],
    waits: &[("first", "quick", 40)],
    ..PLAIN
};

pub(crate) static CROWD: Flow = Flow {
    name: "crowd",
    deeds: &[
        "stock-1", "stock-2", "stock-3", "credit-1", "credit-2", "credit-3", "book-1", "book-2",
        "book-3", "finish",
    ],
    order: &[
        ("stock-1", "book-1"),
        ("credit-1", "book-1"),
        ("stock-2", "book-2"),
        ("credit-2", "book-2"),
        ("stock-3", "book-3"),
        ("credit-3", "book-3"),
        ("book-1", "finish"),
        ("book-2", "finish"),
        ("book-3", "finish"),
    ],
    tolerant: true,
    repeats: true,
    ..PLAIN
};

pub(crate) static NEWS: Flow = Flow {
    name: "news",
    children: &["herald"],
    deeds: &["say-1", "say-2", "say-3", "hear-1", "hear-2", "hear-3", "finish"],
    order: &[
        ("say-1", "say-2"),
        ("say-2", "say-3"),
        ("say-1", "hear-1"),
        ("say-2", "hear-2"),
        ("say-3", "hear-3"),
        ("hear-1", "hear-2"),
        ("hear-2", "hear-3"),
        ("hear-3", "finish"),
    ],
    ..PLAIN
};

pub(crate) static CHOICE: Flow = Flow {
    name: "choice",
    deeds: &["seat", "train", "tent", "finish"],
    undone: &["seat", "train"],
    order: &[("seat", "train"), ("train", "tent"), ("tent", "finish")],
    ..PLAIN
};

pub(crate) static KEYLESS: Flow = Flow {
    name: "keyless",
    deeds: &["note", "left", "right-1", "right-2", "finish"],
    order: &[
        ("note", "left"),
        ("note", "right-1"),
        ("right-1", "right-2"),
        ("left", "finish"),
        ("right-2", "finish"),
    ],
    keyless: &["note", "left", "right-1", "finish"],
    ..PLAIN
};

pub(crate) static BOOKING: Flow = Flow {
    name: "booking",
    end: End::Compensated,
    // How far the slow branch comes is a matter of time.
    deeds: &["room"],
    order: &[("room", "table"), ("table", "show-1"), ("show-1", "show-2"), ("room", "show-2")],
    keyless: &["room", "table", "show-1", "show-2"],
    ..PLAIN
};

/// Waits to be told. Like the two after it, it needs a node, and someone who talks to it.
pub(crate) static SIGNAL: Flow = Flow {
    name: "signal",
    deeds: &["ask", "heard", "finish"],
    order: &[("ask", "heard"), ("heard", "finish")],
    told: &[
        ("ask", "test.chaos.reply"),
        ("heard", "test.chaos.right"),
        ("heard", "test.chaos.left"),
    ],
    ..PLAIN
};

pub(crate) static PIVOT: Flow = Flow {
    name: "pivot",
    deeds: &["first", "launch", "log-1", "log-2", "log-3", "log-4"],
    order: &[
        ("first", "launch"),
        ("launch", "log-1"),
        ("log-1", "log-2"),
        ("log-2", "log-3"),
        ("log-3", "log-4"),
    ],
    ..PLAIN
};

pub(crate) static STUCK: Flow = Flow {
    name: "stuck",
    end: End::Compensated,
    deeds: &["first", "second"],
    order: &[("first", "second")],
    broken: Some("/undo/second"),
    ..PLAIN
};

/// One long wait. Not for random kills: it would make them slow.
pub(crate) static CLOCK: Flow = Flow {
    name: "clock",
    deeds: &["early", "later"],
    order: &[("early", "later")],
    waits: &[("early", "later", 1500)],
    ..PLAIN
};

/// Much data in the journal. Not for random kills, for the same reason.
pub(crate) static HEAVY: Flow = Flow {
    name: "heavy",
    deeds: &[
        "carry-1", "carry-2", "carry-3", "carry-4", "carry-5", "carry-6", "carry-7", "carry-8",
        "carry-9", "carry-10", "carry-11", "carry-12", "carry-13", "carry-14", "carry-15",
        "carry-16", "carry-17", "carry-18", "carry-19", "carry-20",
    ],
    order: &[("carry-1", "carry-2"), ("carry-9", "carry-10"), ("carry-19", "carry-20")],
    ..PLAIN
};

/// One of many executions on a node; its input says what it does.
pub(crate) static ORDER: Flow = Flow { name: "order", ..PLAIN };

/// All flows for random kills; a seed picks one.
pub(crate) static ALL: [&Flow; 17] = [
    &FORK, &LOOP, &WINDOW, &RETRY, &TIMERS, &CHILDREN, &ROLLBACK, &SCOPE, &SAGA, &BREACH, &FAMILY,
    &RACE, &CROWD, &NEWS, &CHOICE, &KEYLESS, &BOOKING,
];

/// All flows for random kills of a node that someone talks to.
pub(crate) static SERVED: [&Flow; 3] = [&SIGNAL, &PIVOT, &STUCK];

impl Flow {
    /// The file of its document.
    pub(crate) fn file(&self) -> PathBuf {
        file_of(self.name)
    }

    /// The files of its sub-workflows.
    pub(crate) fn child_files(&self) -> impl Iterator<Item = PathBuf> {
        self.children.iter().map(|name| file_of(name))
    }

    /// What a completed run leaves in the ledger, and in which order things are undone.
    pub(crate) fn expected(&self) -> Expected {
        let left = self.deeds.iter().filter(|name| !self.undone.contains(name));
        let pair = |(earlier, later): &(&str, &str)| ((*earlier).to_owned(), (*later).to_owned());
        Expected {
            effects: left.map(|name| ((*name).to_owned(), 1)).collect(),
            undo_order: UndoOrder::Pairs(self.order.iter().map(pair).collect()),
            keyless: self.keyless.iter().map(|name| (*name).to_owned()).collect(),
        }
    }
}

fn file_of(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chaos/flows");
    folder.join(format!("{name}.yaml"))
}

#[test]
fn every_document_is_accepted_without_a_word() {
    for flow in ALL.into_iter().chain(SERVED).chain([&CLOCK, &HEAVY, &ORDER]) {
        for file in [flow.file()].into_iter().chain(flow.child_files()) {
            let text = std::fs::read_to_string(&file).unwrap();
            let report = outlast_languages::openworkflow::check(flow.name, &text);
            assert!(report.diagnostics.is_empty(), "{}", report.render(&text, false));
        }
    }
}
