//! Wishes to undo: everyone is asked whether something depends on an effect of a lost line, and who
//! undoes what several lost lines did by the same key.
//!
//! At a provider that acts once for each key, copies of one operation on several lines are one effect.
//! The decided line's copy keeps it. If all copies are on lost lines, the highest replica that has one
//! undoes it, once, for all: the others leave it to that one and hear when it is done (`Leave`, then
//! `Keep`). It waits until nothing is left that started from any of the copies. Branches that overtook
//! each other can make lines wait for each other in a circle that way, which `stillness` notices.

use std::collections::{BTreeMap, BTreeSet};

use outlast_lineage::{EffectId, Epoch, Lineage, NodeId, OperationKey, Point};

use super::stillness::Stillness;
use super::{Asked, Message, Outputs, Record, Remnant, Replica, Situation, Verdict};

/// How many effects one message asks about.
const ASKED_MAX: usize = 1000;
/// How many wishes of others are remembered at most; those beyond are asked again.
const REMEMBERED_MAX: usize = 4 * ASKED_MAX;

/// What is being sorted out after the decision. Not written down: it is asked for again.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Wishes {
    /// Who allowed the undo of which effect.
    allowed: BTreeMap<EffectId, BTreeSet<NodeId>>,
    /// Who undoes which effect for this replica, too.
    left_to: BTreeMap<EffectId, BTreeSet<NodeId>>,
    /// Effects whose undo was ordered.
    pub(super) ordered: BTreeSet<EffectId>,
    /// Where others had operations in mind that were lost here, too.
    elsewhere: BTreeMap<OperationKey, BTreeSet<Point>>,
    /// Wishes of others that are not answered for good, and whether they were told to leave it.
    open: BTreeMap<(NodeId, EffectId), (Asked, bool)>,
    /// How often it was asked in vain since anything changed.
    pub(super) rounds: u32,
    pub(super) stillness: Stillness,
}

impl Wishes {
    /// Something changed: it is asked often again, and nothing stands still.
    pub(super) fn stir(&mut self) {
        self.rounds = 0;
        self.stillness = Stillness::default();
    }
}

/// What is said to a wish.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reply {
    Allow,
    Leave,
    Keep,
    NotYet,
}

impl Replica {
    /// Asks everyone who can be reached about what it has not allowed.
    pub(super) fn ask_about_undos(&mut self, out: &mut Outputs) {
        let Some(choice) = self.standing.final_choice().cloned() else { return };
        let instance = self.standing.decisions - 1;
        let open = self.open_questions();
        let mut asked = false;
        let reachable: Vec<NodeId> =
            self.peers().filter(|peer| !self.lost.contains(peer)).collect();
        for peer in reachable {
            let missing: Vec<Asked> =
                open.iter().filter(|it| self.is_missing(peer, &it.effect)).cloned().collect();
            for effects in missing.chunks(ASKED_MAX) {
                let (choice, effects) = (choice.clone(), effects.to_vec());
                out.send(peer, Message::MayUndo { instance, choice, effects });
                asked = true;
            }
        }
        if asked || self.is_tangled() {
            self.expect_settling(out);
        }
    }

    /// Whose word on what is to be undone is missing.
    pub fn awaited(&self) -> impl Iterator<Item = NodeId> {
        let open = self.open_questions();
        self.peers().filter(move |peer| open.iter().any(|it| self.is_missing(*peer, &it.effect)))
    }

    /// Everything that is to be undone and not ordered yet.
    pub(super) fn open_questions(&self) -> Vec<Asked> {
        let questions = |remnant: &Remnant| {
            let open = remnant.records.iter().filter(|(effect, record)| {
                record.verdict.is_none() && !self.wishes.ordered.contains(effect)
            });
            let asked = open.filter_map(|(effect, record)| {
                let intended = remnant.lineage.at(record.intended)?;
                let key = record.deduplicated.then_some(record.key);
                Some(Asked { effect: *effect, intended, key })
            });
            asked.collect::<Vec<_>>()
        };
        self.standing.remnants.values().flat_map(questions).collect()
    }

    /// Whether a peer has to say something about an effect yet.
    fn is_missing(&self, peer: NodeId, effect: &EffectId) -> bool {
        let has = |by: Option<&BTreeSet<NodeId>>| by.is_some_and(|by| by.contains(&peer));
        !has(self.wishes.allowed.get(effect)) || has(self.wishes.left_to.get(effect))
    }

    /// Whether everyone allows the undo of an effect.
    pub(super) fn is_allowed(&self, effect: &EffectId) -> bool {
        let by = self.wishes.allowed.get(effect);
        self.peers().all(|peer| by.is_some_and(|by| by.contains(&peer)))
    }

    /// Whether another replica that may still come back undoes an effect for this one.
    pub(super) fn is_left_to_another(&self, effect: &EffectId) -> bool {
        let others = self.wishes.left_to.get(effect);
        others.is_some_and(|others| others.iter().any(|other| !self.fenced.contains(other)))
    }

    /// Others say that nothing there depends on effects of this replica any more; if they have them by
    /// the same keys, they undo them for this one, too.
    pub(super) fn take_permission(
        &mut self,
        out: &mut Outputs,
        from: NodeId,
        effects: Vec<EffectId>,
        leave: bool,
    ) {
        for effect in effects {
            let is_new = self.wishes.allowed.entry(effect).or_default().insert(from);
            let left_to = self.wishes.left_to.entry(effect).or_default();
            let changed = if leave { left_to.insert(from) } else { left_to.remove(&from) };
            if is_new || changed {
                self.wishes.stir();
            }
        }
        self.reconsider(out);
    }

    /// Others say that there is nothing to undo.
    pub(super) fn keep(&mut self, out: &mut Outputs, effects: Vec<EffectId>) {
        let kept: Vec<_> =
            effects.into_iter().filter(|effect| !self.wishes.ordered.contains(effect)).collect();
        if self.owed().any(|(effect, _)| kept.contains(effect)) {
            out.report(Situation::KeptByKey);
        }
        self.judge_owed(out, Verdict::Kept, kept);
    }

    /// Another replica wants to undo effects of its own.
    pub(super) fn take_wishes(&mut self, out: &mut Outputs, from: NodeId, effects: Vec<Asked>) {
        let mut again = false;
        for asked in effects {
            if let Some(key) = asked.key.filter(|key| self.copies(*key).next().is_some()) {
                self.wishes.elsewhere.entry(key).or_default().insert(asked.intended);
            }
            if self.wishes.open.len() < REMEMBERED_MAX {
                let before = self.wishes.open.insert((from, asked.effect), (asked, false));
                again |= before.is_some();
            }
        }
        self.answer_wishes(out);
        if !self.holds_the_end() {
            return;
        }
        let open = self.wishes.open.iter().filter(|((of, _), _)| *of == from);
        let left: Vec<bool> = open.map(|(_, (_, left))| *left).collect();
        if left.contains(&false) {
            out.report(Situation::UndoWithheld);
        }
        if again && !left.is_empty() {
            out.send(from, Message::Still { rounds: self.still_for() });
        }
    }

    /// Answers what can be answered now. What was done here on which line is sorted out once the
    /// decided state is held.
    pub(super) fn answer_wishes(&mut self, out: &mut Outputs) {
        if self.wishes.open.is_empty() || !self.holds_the_end() {
            return;
        }
        let open = std::mem::take(&mut self.wishes.open);
        let (settled, last) = (self.settled_keys(), self.last_owed());
        let mut still_open = BTreeMap::new();
        let mut answers: BTreeMap<(NodeId, Reply), Vec<EffectId>> = BTreeMap::new();
        for ((from, effect), (asked, left)) in open {
            let reply = self.reply_to(from, &asked, &settled, &last);
            if matches!(reply, Reply::NotYet | Reply::Leave) {
                let told = left || reply == Reply::Leave;
                still_open.insert((from, effect), (asked, told));
            }
            if reply != Reply::NotYet && !(left && reply == Reply::Leave) {
                answers.entry((from, reply)).or_default().push(effect);
            }
        }
        self.wishes.open = still_open;
        for ((to, reply), effects) in answers {
            let message = match reply {
                Reply::Allow => Message::Allow { effects },
                Reply::Leave => Message::Leave { effects },
                Reply::Keep => Message::Keep { effects },
                Reply::NotYet => unreachable!("nothing is said to what is not granted yet"),
            };
            out.send(to, message);
        }
    }

    fn reply_to(
        &self,
        from: NodeId,
        asked: &Asked,
        settled: &BTreeSet<OperationKey>,
        last: &[LastOwed<'_>],
    ) -> Reply {
        if asked.key.is_some_and(|key| settled.contains(&key)) {
            return Reply::Keep;
        }
        if last.iter().any(|owed| owed.came_after(&asked.intended, asked.key)) {
            return Reply::NotYet;
        }
        match asked.key.filter(|key| self.copies(*key).next().is_some()) {
            Some(_) if !self.is_below(from) => Reply::Leave,
            Some(key) if self.copies_wait(key, None) => Reply::NotYet,
            _ => Reply::Allow,
        }
    }

    /// The keys of operations, at providers that act once for each, that are kept or undone already.
    pub(super) fn settled_keys(&self) -> BTreeSet<OperationKey> {
        let lost = self.standing.remnants.values().flat_map(|remnant| remnant.records.values());
        let lost = lost
            .filter(|record| matches!(record.verdict, Some(Verdict::Kept | Verdict::Compensated)));
        let records = self.standing.records.values().chain(lost);
        records.filter(|record| record.deduplicated).map(|record| record.key).collect()
    }

    /// What this replica did on lost lines by a key and has not undone.
    pub(super) fn copies(
        &self,
        key: OperationKey,
    ) -> impl Iterator<Item = (Epoch, &EffectId, &Record)> {
        let of = move |record: &Record| {
            record.deduplicated && record.key == key && record.verdict.is_none()
        };
        self.standing.remnants.iter().flat_map(move |(line, remnant)| {
            let records = remnant.records.iter().filter(move |(_, record)| of(record));
            records.map(move |(effect, record)| (*line, effect, record))
        })
    }

    /// Whether something that started from a copy of an operation on one of the lines lost here, but
    /// for one, has to be undone first.
    pub(super) fn copies_wait(&self, key: OperationKey, besides: Option<Epoch>) -> bool {
        let insists = !self.is_in_a_circle();
        let others = self.copies(key).filter(|(line, _, _)| Some(*line) != besides);
        others.into_iter().any(|(line, effect, record)| {
            let Some(committed) = record.committed else { return false };
            let started = self.standing.remnants[&line].records.iter().filter(|(_, later)| {
                later.verdict.is_none() && committed <= later.intended && later.key != key
            });
            let ordered = |(effect, _): (&EffectId, &Record)| self.wishes.ordered.contains(effect);
            (insists && !self.is_allowed(effect))
                || started.into_iter().any(|it| insists || ordered(it))
        })
    }

    /// Where an effect is on its line: an operation that was asked for again by whoever went on from
    /// there is where it was asked for first.
    pub(super) fn place(&self, remnant: &Remnant, record: &Record) -> u64 {
        let elsewhere = self.wishes.elsewhere.get(&record.key).filter(|_| record.deduplicated);
        let on_line = elsewhere.into_iter().flatten().filter(|it| remnant.lineage.contains(it));
        on_line.map(|point| point.number).min().unwrap_or(record.intended).min(record.intended)
    }

    /// For each lost line, the newest effects that are still to be undone.
    pub(super) fn last_owed(&self) -> Vec<LastOwed<'_>> {
        let newest = |remnant: &Remnant, besides: Option<OperationKey>| {
            let open = remnant.records.values().filter(|record| record.verdict.is_none());
            let open = open.filter(|record| Some(record.key) != besides);
            open.map(|record| (self.place(remnant, record), record.key)).max()
        };
        let last = self.standing.remnants.iter().filter_map(|(line, remnant)| {
            let (number, key) = newest(remnant, None)?;
            let other = newest(remnant, Some(key)).map(|(number, _)| number);
            Some(LastOwed { line: *line, lineage: &remnant.lineage, number, key, other })
        });
        last.collect()
    }
}

/// The newest effects of a lost line that are still to be undone, by two keys.
#[derive(Debug)]
pub(super) struct LastOwed<'standing> {
    pub(super) line: Epoch,
    lineage: &'standing Lineage,
    number: u64,
    key: OperationKey,
    /// Where the newest one with another key is.
    other: Option<u64>,
}

impl LastOwed<'_> {
    /// Whether something came after a state; what has the same key is the same operation.
    pub(super) fn came_after(&self, state: &Point, key: Option<OperationKey>) -> bool {
        let newest = if Some(self.key) == key { self.other } else { Some(self.number) };
        newest.is_some_and(|number| state.number < number) && self.lineage.contains(state)
    }
}
