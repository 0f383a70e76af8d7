//! What a replica wants done, and what is worth telling.

use std::time::Duration;

use minicbor::bytes::ByteVec;
use outlast_lineage::{EffectId, Epoch, NodeId, Time};

use super::{Change, Choice, Message, Timer};

/// What a replica wants done. Each waits for all changes ordered before it. No change is ordered
/// after `Start`, `GoOn` or `Resume`, so an owner may go on while it still works the list off.
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// Write this change down.
    Persist(Change),
    /// Send a message. If it carries a state (`Message::held_mut`), the owner fills in the one that
    /// is held now.
    Send {
        /// To whom.
        to: NodeId,
        /// What.
        message: Message,
    },
    /// Give `Input::TimerFired` at this time.
    SetTimer {
        /// Which timer.
        timer: Timer,
        /// When.
        at: Time,
    },
    /// This replica is primary and nothing has happened yet: begin.
    Start,
    /// This replica is primary: go on from the state held, and ask again for all that is open.
    GoOn,
    /// This replica is primary again, and nothing has changed since it was: go on as if it had been
    /// all the time.
    Resume,
    /// Begin nothing new: this replica is no longer primary.
    Stop,
    /// The state held goes on by this delta.
    Apply(ByteVec),
    /// Keep a copy of the state held, under this term, for calls whose answers are still to come.
    Spare(Epoch),
    /// This state takes the place of the one held.
    Adopt {
        /// The state.
        state: Vec<u8>,
        /// Keep the one held before, under this term: own effects on it may have to be undone.
        remnant: Option<Epoch>,
    },
    /// Have consensus decide.
    Propose {
        /// The how manieth decision of this execution.
        instance: u32,
        /// What is proposed.
        choice: Choice,
    },
    /// The state held is the decided end: tell whoever waits.
    Concluded,
    /// Undo these effects on a lost line; `Input::Undone` follows when they are.
    Undo {
        /// The remnant.
        line: Epoch,
        /// The effects.
        effects: Vec<EffectId>,
    },
    /// All that this replica did is kept or undone: it could forget.
    Settled,
    /// Something worth telling happened.
    Report(Situation),
}

/// Situations that are worth telling, and that tests want to have seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Situation {
    /// It asked for votes.
    Candidacy,
    /// It has not enough votes and waits.
    TooFewVotes,
    /// Someone objected.
    Rejected,
    /// It became primary.
    Elected,
    /// It took over a state that someone else had brought further than itself.
    TookOverFurther,
    /// It took over an older state than another replica that it could not reach might hold.
    TookOverWithoutAll,
    /// It met another primary that had come further, and stopped.
    StoodDown,
    /// It met another primary with equal progress.
    Tie,
    /// It lost a line with effects of its own on it.
    LineLost,
    /// A line was decided on before the end, for a call that can be neither undone nor repeated, or for an undo.
    LineDecided,
    /// A run was decided on.
    RunDecided,
    /// An undo waits for those of others.
    UndoWithheld,
    /// An effect is kept because the decided run has it by the same key.
    KeptByKey,
    /// It pauses: undoing what no majority knows of would cost more than is tolerated.
    OverBudget,
    /// Those that are left are no majority any more.
    Bereft,
    /// A primary that no majority hears stood down for somebody whom one does.
    GaveWay,
}

impl Situation {
    /// One word for it, as programs read it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Candidacy => "candidacy",
            Self::TooFewVotes => "too-few-votes",
            Self::Rejected => "rejected",
            Self::Elected => "elected",
            Self::TookOverFurther => "took-over-further",
            Self::TookOverWithoutAll => "took-over-without-all",
            Self::StoodDown => "stood-down",
            Self::Tie => "tie",
            Self::LineLost => "line-lost",
            Self::LineDecided => "line-decided",
            Self::RunDecided => "run-decided",
            Self::UndoWithheld => "undo-withheld",
            Self::KeptByKey => "kept-by-key",
            Self::OverBudget => "over-budget",
            Self::Bereft => "bereft",
            Self::GaveWay => "gave-way",
        }
    }
}

/// What a step wants done so far.
#[derive(Debug)]
pub(super) struct Outputs {
    pub(super) now: Time,
    pub(super) list: Vec<Output>,
}

impl Outputs {
    pub(super) const fn new(now: Time) -> Self {
        Self { now, list: Vec::new() }
    }

    pub(super) fn send(&mut self, to: NodeId, message: Message) {
        self.list.push(Output::Send { to, message });
    }

    pub(super) fn timer(&mut self, timer: Timer, after: Duration) {
        self.list.push(Output::SetTimer { timer, at: self.now.after(after) });
    }

    pub(super) fn report(&mut self, situation: Situation) {
        self.list.push(Output::Report(situation));
    }
}
