//! What a replica may not forget, and how it changes: stable storage in the paper's words.
//!
//! The owner writes every `Change` down before anything that was ordered after it leaves, and makes
//! the standing again by applying them in order.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use minicbor::{Decode, Encode};
use outlast_lineage::{EffectId, Epoch, Head, Lineage, NodeId, OperationKey, Point};

use super::message::Choice;

/// A candidate's try. Which of two is the later one, `Replica::order` says.
pub type Term = (Epoch, NodeId);

/// Everything a replica may not forget.
#[derive(Clone, PartialEq, Debug, Default, Encode, Decode)]
pub struct Standing {
    /// The state it holds.
    #[n(0)]
    pub head: Head,
    /// Whether that state is the end of a run.
    #[n(1)]
    pub ended: bool,
    /// The highest term it stood in or heard of (the failover counter).
    #[n(2)]
    pub term: Epoch,
    /// It acknowledges nothing of primaries below this one, if acknowledgements count.
    #[n(3)]
    pub promised: Option<Term>,
    /// Its own effects on the line it holds (the execution history).
    #[n(4)]
    pub records: BTreeMap<EffectId, Record>,
    /// Lines it lost, by its last term there, with its own effects on each.
    #[n(5)]
    pub remnants: BTreeMap<Epoch, Remnant>,
    /// How many decisions were made.
    #[n(6)]
    pub decisions: u32,
    /// The last of them: every later one goes on from it.
    #[n(8)]
    pub choice: Option<Choice>,
    /// Whether all that it did is kept or undone.
    #[n(7)]
    pub settled: bool,
    /// The last primary whose line the state held was made the same as, if acknowledgements count:
    /// whatever a majority acknowledged is where this is highest.
    #[n(9)]
    pub confirmed: Option<Term>,
    /// The decision for which it proposed the line held, or agreed to it: until it is made, that line is
    /// kept, or nobody might hold what is decided on.
    #[n(10)]
    pub pledged: Option<u32>,
}

/// One effect of this replica (the paper's execution record). Written before the call leaves.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Record {
    /// The key that its provider was given.
    #[n(1)]
    pub key: OperationKey,
    /// Whether the provider acts once for each key.
    #[n(2)]
    pub deduplicated: bool,
    /// The number of the state in which it was intended: what depends on it came later.
    #[n(3)]
    pub intended: u64,
    /// The number of the state that took its result up: where it counts.
    #[n(4)]
    pub committed: Option<u64>,
    /// What undoing it costs.
    #[n(5)]
    pub cost: f64,
    /// What is to become of it; nothing as long as that is open.
    #[n(6)]
    pub verdict: Option<Verdict>,
    /// Whether it can be neither undone nor repeated, so that nobody makes it anew.
    #[n(7)]
    #[cbor(default, skip_if = "is_not")]
    pub pivot: bool,
}

/// Most effects are no pivots: that is not written down.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "what encodes it passes a reference")]
const fn is_not(flag: &bool) -> bool {
    !*flag
}

/// What becomes of an effect once a run was decided on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum Verdict {
    /// It belongs to the decided run.
    #[n(0)]
    Kept,
    /// It is undone.
    #[n(1)]
    Compensated,
    /// It never was, so that whoever else did the same by the same key still has to undo it.
    #[n(2)]
    Void,
}

/// A line that was lost.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Remnant {
    /// The line.
    #[n(0)]
    pub lineage: Lineage,
    /// The replica's own effects on it that do not count if the line stays lost.
    #[n(1)]
    pub records: BTreeMap<EffectId, Record>,
}

/// What a step of the primary did to the world outside.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum Note {
    /// A call is about to leave.
    #[n(0)]
    Intended {
        /// The effect.
        #[n(0)]
        effect: EffectId,
        /// Its key.
        #[n(1)]
        key: OperationKey,
        /// Whether the provider acts once for each key.
        #[n(2)]
        deduplicated: bool,
        /// What undoing it will cost, if that is known before.
        #[n(3)]
        cost: Option<f64>,
        /// Whether it can be neither undone nor repeated.
        #[n(4)]
        #[cbor(default, skip_if = "is_not")]
        pivot: bool,
    },
    /// It happened.
    #[n(1)]
    Done {
        /// The effect.
        #[n(0)]
        effect: EffectId,
        /// What undoing it costs.
        #[n(1)]
        cost: f64,
    },
    /// It did not happen, or it is undone.
    #[n(2)]
    Gone {
        /// The effect.
        #[n(0)]
        effect: EffectId,
    },
}

/// A change of what a replica may not forget.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum Change {
    /// It stood in a term, or heard of it.
    #[n(0)]
    Term(#[n(0)] Epoch),
    /// It promised to acknowledge nothing below, which is no less than it promised before.
    #[n(1)]
    Promised(#[n(0)] Epoch, #[n(1)] NodeId),
    /// The state went on, by whoever is primary; with what this replica itself did, if it is.
    #[n(2)]
    Extended {
        /// The new state. All between the one held and this one are of the same author and term.
        #[n(0)]
        point: Point,
        /// How many activities are complete.
        #[n(1)]
        progress: u64,
        /// Whether that is the end.
        #[n(2)]
        ended: bool,
        /// What the replica did.
        #[n(3)]
        notes: Vec<Note>,
    },
    /// It took another state over.
    #[n(3)]
    Adopted {
        /// Which one.
        #[n(0)]
        head: Head,
        /// Whether that is the end.
        #[n(1)]
        ended: bool,
        /// Under which term the line it held is kept, if it must be.
        #[n(2)]
        remnant: Option<Epoch>,
    },
    /// Something was decided, as the how manieth decision of this execution.
    #[n(4)]
    Decided(#[n(0)] u32, #[n(1)] Choice),
    /// It is known what becomes of effects.
    #[n(5)]
    Judged {
        /// What.
        #[n(0)]
        verdict: Verdict,
        /// The effects.
        #[n(1)]
        effects: Vec<EffectId>,
    },
    /// All that the replica did is kept or undone.
    #[n(6)]
    Settled,
    /// The line held goes on without what was asked for on it and not taken up.
    #[n(7)]
    Spared {
        /// Under which term the state held is kept.
        #[n(0)]
        remnant: Epoch,
    },
    /// The state held is the one of this primary, who is none that it promised not to acknowledge.
    #[n(8)]
    Confirmed(#[n(0)] Epoch, #[n(1)] NodeId),
    /// It is about to propose the line held for a decision, or has agreed to it.
    #[n(9)]
    Pledged(#[n(0)] u32),
}

impl Standing {
    /// Makes a change.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Term(term) => self.term = self.term.max(*term),
            Change::Promised(term, node) => self.promised = Some((*term, *node)),
            Change::Extended { point, progress, ended, notes } => {
                let states = point.number.checked_sub(self.head.lineage.number());
                if let Some(states) = states.and_then(NonZeroU64::new) {
                    self.head.lineage.extend_by(point.author, point.epoch, states);
                }
                self.head.progress = *progress;
                self.ended = *ended;
                self.term = self.term.max(point.epoch);
                notes.iter().for_each(|note| self.take_note(point.number, note));
            }
            Change::Adopted { head, ended, remnant } => self.adopt(head, *ended, *remnant),
            Change::Decided(instance, choice) => {
                self.decisions = instance + 1;
                self.choice = Some(choice.clone());
            }
            Change::Judged { verdict, effects } => {
                for effect in effects {
                    self.open_records(effect).for_each(|record| record.verdict = Some(*verdict));
                }
            }
            Change::Settled => self.settled = true,
            Change::Spared { remnant } => self.spare(*remnant),
            Change::Pledged(instance) => self.pledged = Some(*instance),
            Change::Confirmed(term, node) => {
                self.promised = Some((*term, *node));
                self.confirmed = self.promised;
            }
        }
    }

    fn take_note(&mut self, number: u64, note: &Note) {
        match note {
            Note::Intended { effect, key, deduplicated, cost, pivot } => {
                // Asked again: what was written down first stays.
                self.records.entry(*effect).or_insert(Record {
                    key: *key,
                    deduplicated: *deduplicated,
                    intended: number,
                    committed: None,
                    cost: cost.unwrap_or(0.0).max(0.0),
                    verdict: None,
                    pivot: *pivot,
                });
            }
            Note::Done { effect, cost } => {
                if let Some(record) = self.records.get_mut(effect) {
                    record.committed = record.committed.or(Some(number));
                    record.cost = cost.max(record.cost);
                }
            }
            Note::Gone { effect } => self.note_gone(effect),
        }
    }

    /// An effect never was, or is undone. Of one that was undone the key stays known: a line that lost
    /// and did the same by the same key has nothing left to undo.
    fn note_gone(&mut self, effect: &EffectId) {
        match self.records.get_mut(effect) {
            Some(record) if record.deduplicated && record.committed.is_some() => {
                record.verdict = Some(Verdict::Compensated);
                record.cost = 0.0;
            }
            _ => drop(self.records.remove(effect)),
        }
    }

    fn adopt(&mut self, head: &Head, ended: bool, remnant: Option<Epoch>) {
        let common = self.head.lineage.common_prefix(&head.lineage);
        let (lost, held) = std::mem::take(&mut self.records)
            .into_iter()
            .partition(|(_, record)| record.is_lost_after(common));
        // What was asked for on the common part and is not lost is the business of whoever goes on.
        self.records = held;
        if let Some(term) = remnant {
            let lineage = self.head.lineage.clone();
            self.remnants.insert(term, Remnant { lineage, records: lost });
        }
        self.regain(&head.lineage);
        self.head = head.clone();
        self.ended = ended;
        let highest = head.lineage.segments().iter().map(|segment| segment.epoch).max();
        self.term = self.term.max(highest.unwrap_or_default());
    }

    /// A line that was lost may come back, because someone else went on from it: what it had taken
    /// up counts again.
    fn regain(&mut self, line: &Lineage) {
        for remnant in self.remnants.values_mut() {
            let common = remnant.lineage.common_prefix(line);
            let (lost, regained) = std::mem::take(&mut remnant.records)
                .into_iter()
                .partition(|(_, record)| record.is_lost_after(common));
            remnant.records = lost;
            self.records.extend(regained);
        }
    }

    fn spare(&mut self, remnant: Epoch) {
        let open = std::mem::take(&mut self.records);
        let (open, held) = open.into_iter().partition(|(_, record)| record.is_in_the_air());
        self.records = held;
        let lineage = self.head.lineage.clone();
        self.remnants.insert(remnant, Remnant { lineage, records: open });
    }

    /// Every effect of this replica, on whatever line.
    pub fn all_records(&self) -> impl Iterator<Item = (&EffectId, &Record)> {
        self.records.iter().chain(self.remnants.values().flat_map(|remnant| &remnant.records))
    }

    /// The records of an effect without a verdict. What another replica had asked for and this one
    /// asked again each time it went on, with the same key, is one effect on several lines.
    fn open_records(&mut self, effect: &EffectId) -> impl Iterator<Item = &mut Record> {
        let lines = self.remnants.values_mut().map(|remnant| &mut remnant.records);
        let records = std::iter::once(&mut self.records).chain(lines);
        let records = records.filter_map(|line| line.get_mut(effect));
        records.filter(|record| record.verdict.is_none())
    }

    /// The final decision, if there is one.
    pub fn final_choice(&self) -> Option<&Choice> {
        self.choice.as_ref().filter(|choice| choice.is_final)
    }

    /// The line that every run must go on from.
    pub fn pinned(&self) -> Option<&Lineage> {
        self.choice.as_ref().map(|choice| &choice.lineage)
    }

    /// Whether no decision was ever made on the state in which an effect was intended, of this replica
    /// and at a provider without keys, so that it was intended once: what is decided later goes on from
    /// what was decided before.
    pub fn is_undecided(&self, effect: &EffectId) -> bool {
        let mut records = self.all_records().filter(|(id, _)| *id == effect);
        self.is_intended_off(effect, self.pinned())
            && records.all(|(_, record)| !record.deduplicated)
    }

    /// Whether the line held has none of the states in which this replica intended an effect, its own or one of
    /// somebody else that it asked for again by the same key.
    pub fn is_off_the_line(&self, effect: &EffectId) -> bool {
        self.is_intended_off(effect, Some(&self.head.lineage))
    }

    /// Whether this replica intended an effect, and a line has none of the states in which it did.
    fn is_intended_off(&self, effect: &EffectId, line: Option<&Lineage>) -> bool {
        let held = std::iter::once((&self.head.lineage, &self.records));
        let lost = self.remnants.values().map(|remnant| (&remnant.lineage, &remnant.records));
        let mut states = held
            .chain(lost)
            .filter_map(|(line, records)| line.at(records.get(effect)?.intended))
            .peekable();
        let is_known = states.peek().is_some();
        is_known && !states.any(|state| line.is_some_and(|line| line.contains(&state)))
    }
}

impl Record {
    /// Whether nobody knows what became of it, and asking again could do it twice: whoever goes on
    /// makes a new call, and this one stays the debt of its author.
    pub const fn is_in_the_air(&self) -> bool {
        self.committed.is_none() && !self.goes_with_its_line()
    }

    /// Whether whoever goes on from where it was asked for answers for it: asks again with the same key, or
    /// has a person find out what became of a pivot, which nobody makes anew.
    const fn goes_with_its_line(&self) -> bool {
        self.deduplicated || self.pivot
    }

    /// Whether the effect does not count on a line that has only the states up to a number in
    /// common with the one it was made on. What whoever goes on from the common part answers for counts
    /// there.
    pub fn is_lost_after(&self, common: u64) -> bool {
        let taken_up = self.committed.is_some_and(|number| number <= common);
        !taken_up && (common < self.intended || !self.goes_with_its_line())
    }
}
