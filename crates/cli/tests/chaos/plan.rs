//! What a seed means: the flow, how the ledger treats calls, and when each life ends.
//!
//! A plan is drawn from the seed alone, so the same seed tries the same again, as far as the
//! machine's own timing allows.

use std::time::Duration;

use outlast_node::fixture::ledger::{Behaviour, Control};
use outlast_simulator::Random;

use crate::flows::{self, Flow};

/// How often one execution is killed at most.
const KILLS_MAX: u64 = 6;

/// Everything a seed decides.
#[derive(Debug)]
pub(crate) struct Plan {
    /// One life after the other; after the last, one is left to run to its end.
    pub(crate) lives: Vec<Death>,
    /// Whether the execution is named, or found again by its text and input.
    pub(crate) named: bool,
    /// Whether it is run once more after its end.
    pub(crate) asked_again: bool,
}

/// How one life goes, and what ends it.
#[derive(Debug)]
pub(crate) struct Death {
    pub(crate) when: When,
    pub(crate) treatment: Treatment,
    /// So many of the next calls fail.
    pub(crate) failures: u64,
}

/// When a process is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum When {
    /// So long after its start.
    After(Duration),
    /// When so many more calls have come in; they may not have had their effect yet.
    Arrived(u64),
    /// When so many more calls have had their effect; they may not have been answered yet.
    Recorded(u64),
    /// When so many more calls were answered, and a little later.
    Answered(u64, Duration),
}

/// How the ledger treats calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Treatment {
    /// At once.
    Prompt,
    /// It takes its time, then acts and answers: the effect may come after the caller's death.
    SlowToAct(u64),
    /// It acts at once and takes its time to answer: the answer may find nobody.
    SlowToAnswer(u64),
}

impl Plan {
    /// What a seed means for `outlast run`.
    pub(crate) fn of(seed: u64) -> (&'static Flow, Self) {
        Self::among(&flows::ALL, seed)
    }

    /// What a seed means for some flows.
    pub(crate) fn among(flows: &[&'static Flow], seed: u64) -> (&'static Flow, Self) {
        let mut random = Random::new(seed);
        let which = random.next() % flows.len() as u64;
        let flow = flows[usize::try_from(which).unwrap()];
        let kills = random.between(1, KILLS_MAX);
        let lives = (0..kills).map(|_| Death::of(&mut random, flow)).collect();
        let named = random.happens(500);
        (flow, Self { lives, named, asked_again: named && random.happens(300) })
    }

    /// Whether the ledger fails calls that the document does not expect to fail.
    pub(crate) fn disturbs(&self) -> bool {
        self.lives.iter().any(|death| 0 < death.failures)
    }
}

impl Death {
    fn of(random: &mut Random, flow: &Flow) -> Self {
        let treatment = match random.between(0, 3) {
            0 | 1 => Treatment::Prompt,
            2 => Treatment::SlowToAct(random.between(5, 60)),
            _ => Treatment::SlowToAnswer(random.between(5, 60)),
        };
        let when = match random.between(0, 7) {
            0 => When::After(Duration::from_micros(random.between(0, 30_000))),
            1 | 2 => When::After(Duration::from_millis(random.between(20, 400))),
            3 => When::Arrived(random.between(1, 5)),
            4 | 5 => When::Recorded(random.between(1, 6)),
            _ => {
                let later = Duration::from_micros(random.between(0, 60_000));
                When::Answered(random.between(1, 6), later)
            }
        };
        let failures = if flow.tolerant && random.happens(250) { random.between(1, 3) } else { 0 };
        Self { when, treatment, failures }
    }

    /// What the ledger is told.
    pub(crate) fn control(&self) -> Control {
        let mut control = Control { all: self.treatment.behaviour(), ..Control::default() };
        if 0 < self.failures {
            control.next = Behaviour { fail: Some(503), ..Behaviour::default() };
            control.next_calls = self.failures;
        }
        control
    }
}

impl Treatment {
    fn behaviour(self) -> Behaviour {
        match self {
            Self::Prompt => Behaviour::default(),
            Self::SlowToAct(delay) => Behaviour { delay_ms: Some(delay), ..Behaviour::default() },
            Self::SlowToAnswer(delay) => {
                Behaviour { answer_after_ms: Some(delay), ..Behaviour::default() }
            }
        }
    }
}
