//! What was done to the outside: every act, and which act undid which.

use std::collections::{BTreeMap, BTreeSet};

use outlast_lineage::{
    BranchId, EffectId, Epoch, ExecutionId, Lineage, NodeId, OperationKey, Point, Time,
};

/// One thing that a service did.
#[derive(Clone, Debug)]
pub struct Act {
    /// When.
    pub time: Time,
    /// Which node asked for it.
    pub node: NodeId,
    /// Whose it is.
    pub execution: ExecutionId,
    /// The key it was asked with.
    pub key: OperationKey,
    /// What was done, as `Ledger::operation` tells, with what it was given.
    pub operation: u32,
    /// The same without what it was given.
    pub name: u32,
    /// The effect that the execution had in mind.
    pub effect: EffectId,
    /// Whether it undoes something.
    pub undo: bool,
    /// Whether it only reads.
    pub readonly: bool,
    /// The act it undoes, if that is known.
    pub undoes: Option<usize>,
    /// The key of what it undoes, whether that was ever done or not.
    pub names: Option<OperationKey>,
    /// The act that undid it: of an undo that makes several calls, the last one so far.
    pub undone_by: Option<usize>,
    /// Whether the answer reached the one who asked and was written down. If not, it will be asked
    /// for again, which a service without a memory for keys cannot tell from a new act.
    pub is_certain: bool,
    /// Whether its answer is on the disk of the one who asked: it never asks again.
    pub is_settled: bool,
    /// Whether the node that asked for it lost its disk, so that perhaps nobody knows of it.
    pub is_orphan: bool,
    /// The states of lines that several nodes hold in which it was asked for, unless the flow says that
    /// its provider knows no keys.
    pub intended: Vec<Point>,
    /// The state of such a line that took its answer up.
    pub taken_up: Option<Point>,
    /// The line that undid something, if several nodes hold it and it was not lost.
    pub line: Option<Lineage>,
}

/// On which line of several a call is made, and in which of its states it was intended.
#[derive(Clone, Debug, Default)]
pub(crate) struct MadeOn {
    pub(crate) line: Option<Lineage>,
    pub(crate) intended: Option<Point>,
}

/// One branch of one author's term, of an execution.
type Term = (ExecutionId, BranchId, NodeId, Epoch);

/// Everything that was done, in order.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    acts: Vec<Act>,
    operations: Vec<String>,
    numbers: BTreeMap<String, u32>,
    receipts: BTreeMap<String, usize>,
    /// Acts that are not undone, by what they are about and execution; the latest is last. Here and
    /// below what tells most apart comes first: a world has few executions.
    standing: BTreeMap<(String, ExecutionId), Vec<usize>>,
    by_execution: BTreeMap<ExecutionId, Vec<usize>>,
    /// Acts that undo nothing, by where they were intended.
    by_term: BTreeMap<Term, Vec<usize>>,
    /// Acts whose answers are on the disks of those who asked, by key and execution.
    settled: BTreeMap<(OperationKey, ExecutionId), usize>,
    /// The executions that may ask again for what is settled.
    asked_again: BTreeSet<ExecutionId>,
    /// Nodes that lost their disks.
    orphaned: BTreeSet<NodeId>,
    /// What undid an act, by its place, in order: all that an undo calls is part of it.
    undos: BTreeMap<usize, Vec<usize>>,
    /// The last undo that named a key as that of what it undoes, whether that was done by then or not.
    named: BTreeMap<(OperationKey, ExecutionId), usize>,
    /// How often a key was acted on.
    counts: BTreeMap<(OperationKey, ExecutionId), u32>,
    /// How many undos there were of which nobody can tell what they undid.
    pub unpaired: u64,
}

impl Ledger {
    /// The number of an operation.
    pub(crate) fn intern(&mut self, operation: &str) -> u32 {
        if let Some(number) = self.numbers.get(operation) {
            return *number;
        }
        let number = u32::try_from(self.operations.len()).expect("flows are finite");
        self.operations.push(operation.to_owned());
        self.numbers.insert(operation.to_owned(), number);
        number
    }

    /// What an operation is called.
    pub fn operation(&self, number: u32) -> &str {
        &self.operations[number as usize]
    }

    /// All acts, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Act> {
        self.acts.iter()
    }

    /// How many acts there were.
    pub const fn len(&self) -> usize {
        self.acts.len()
    }

    /// Whether nothing was done.
    pub const fn is_empty(&self) -> bool {
        self.acts.is_empty()
    }

    /// The acts of an execution, in order.
    pub fn of(&self, execution: ExecutionId) -> impl Iterator<Item = &Act> {
        let places = self.by_execution.get(&execution);
        places.into_iter().flatten().map(|place| &self.acts[*place])
    }

    /// What the same author did in the same branch and term as an act, in order.
    pub(crate) fn on_the_line_of(&self, act: &Act) -> impl Iterator<Item = &Act> {
        let places = self.by_term.get(&term_of(act));
        places.into_iter().flatten().map(|place| &self.acts[*place])
    }

    /// Whoever had anything done.
    pub fn executions(&self) -> impl Iterator<Item = ExecutionId> {
        self.by_execution.keys().copied()
    }

    /// An act by its place.
    pub fn act(&self, place: usize) -> &Act {
        &self.acts[place]
    }

    /// What undid an act first.
    pub fn first_undo(&self, place: usize) -> Option<usize> {
        self.undos.get(&place)?.first().copied()
    }

    /// Whether the key of an act was acted on before.
    pub(crate) fn repeats(&self, act: &Act) -> bool {
        self.counts.get(&(act.key, act.execution)).is_some_and(|count| 1 < *count)
    }

    /// A key was acted on, or answered again, for a call that was made on a line.
    pub(crate) fn made_on(&mut self, execution: ExecutionId, key: OperationKey, on: MadeOn) {
        let places = self.by_execution.get(&execution).into_iter().flatten();
        let Some(place) = places.rev().find(|place| self.acts[**place].key == key) else { return };
        let act = &mut self.acts[*place];
        act.intended.extend(on.intended);
        if act.line.is_none() {
            act.line = on.line.filter(|_| act.undo);
        }
    }

    /// A state of a line took up the answer of an act.
    pub(crate) fn taken_up(&mut self, place: usize, by: Point) {
        self.acts[place].taken_up = Some(by);
    }

    /// The one who asked does not know what became of an act.
    pub(crate) fn doubt(&mut self, place: usize) {
        self.acts[place].is_certain = false;
    }

    /// The answer of an act is on the disk of the one who asked.
    pub(crate) fn settle(&mut self, place: usize) {
        self.acts[place].is_settled = true;
        self.settled.insert((self.acts[place].key, self.acts[place].execution), place);
    }

    /// The act with a key whose answer is on the disk of the one who asked for it.
    pub(crate) fn known_of(&self, execution: ExecutionId, key: OperationKey) -> Option<&Act> {
        let known = self.settled.get(&(key, execution)).map(|place| &self.acts[*place]);
        known.filter(|_| !self.asked_again.contains(&execution))
    }

    /// Whoever runs an execution may ask again for what it knows the answers of, from now on.
    pub(crate) fn allow_asking_again(&mut self, execution: ExecutionId) {
        self.asked_again.insert(execution);
    }

    /// A node lost its disk: perhaps nobody knows what it did.
    pub(crate) fn orphan(&mut self, node: NodeId) {
        self.orphaned.insert(node);
        for act in self.acts.iter_mut().filter(|act| act.node == node) {
            act.is_orphan = true;
        }
        self.settled.retain(|_, place| self.acts[*place].node != node);
    }

    /// Enters an act with its receipt and what it is about, and pairs it with the act it undoes. Says
    /// where it is, and what must not be.
    pub(crate) fn enter(
        &mut self,
        act: Act,
        receipt: String,
        subject: &str,
        carried: Option<&str>,
    ) -> (usize, Option<String>) {
        let place = self.acts.len();
        // A call may have been on its way when the disk was lost that knew of it.
        let is_orphan = self.orphaned.contains(&act.node);
        let act = Act { is_orphan, ..act };
        let (undo, execution) = (act.undo, act.execution);
        *self.counts.entry((act.key, execution)).or_default() += 1;
        self.acts.push(act);
        self.by_execution.entry(execution).or_default().push(place);
        if undo {
            let finding = self.pair(place, subject, carried);
            return (place, finding);
        }
        self.by_term.entry(term_of(&self.acts[place])).or_default().push(place);
        self.receipts.insert(receipt, place);
        self.standing.entry((subject.to_owned(), execution)).or_default().push(place);
        (place, None)
    }

    fn pair(&mut self, undo: usize, subject: &str, carried: Option<&str>) -> Option<String> {
        let (execution, undoes) = (self.acts[undo].execution, self.acts[undo].names);
        self.named.extend(undoes.map(|key| ((key, execution), undo)));
        let by_receipt = carried.and_then(|receipt| self.receipts.get(receipt).copied());
        let by_subject = || {
            let standing = self.standing.get(&(subject.to_owned(), execution))?;
            standing.iter().rev().find(|place| self.acts[**place].undone_by.is_none()).copied()
        };
        let by_key = |key| {
            let acts = self.by_execution.get(&execution).into_iter().flatten();
            acts.copied()
                .rev()
                .find(|place| !self.acts[*place].undo && self.acts[*place].key == key)
        };
        let named = by_receipt.or_else(|| undoes.and_then(by_key));
        if named.is_none() && undoes.is_some() {
            // What it names never ran so far: it undoes nothing, as a tolerant undo may.
            return None;
        }
        let Some(undone) = named.or_else(by_subject) else {
            self.unpaired += u64::from(!self.repeats(&self.acts[undo]));
            return None;
        };
        self.acts[undo].undoes = Some(undone);
        self.acts[undone].undone_by = Some(undo);
        self.undos.entry(undone).or_default().push(undo);
        self.is_undone_twice(undone, undo).then(|| {
            let operation = self.operation(self.acts[undone].operation);
            format!("{operation} of {execution} was undone twice")
        })
    }

    /// An act whose undo is tolerant was done: if that was made before, nothing of it stands. Says
    /// whether it was.
    pub(crate) fn comes_after_its_undo(&mut self, place: usize) -> bool {
        let act = &self.acts[place];
        let Some(undo) = self.named.get(&(act.key, act.execution)).copied() else { return false };
        self.acts[undo].undoes.get_or_insert(place);
        self.acts[place].undone_by = Some(undo);
        self.undos.entry(place).or_default().push(undo);
        true
    }

    /// Whether what undoes an act has been done to it before.
    fn is_undone_twice(&self, undone: usize, undo: usize) -> bool {
        let second = &self.acts[undo];
        let before = self.undos[&undone].iter().filter(|place| **place != undo);
        let same = |first: &&Act| first.operation == second.operation;
        // Asking again with the same key is all that can be done when the answer was lost.
        let may_ask_again = |first: &Act| first.key == second.key && !first.is_certain;
        let first = before.map(|place| &self.acts[*place]).rfind(same);
        first.is_some_and(|first| !may_ask_again(first))
    }
}

const fn term_of(act: &Act) -> Term {
    let point = act.effect.point;
    (act.execution, act.effect.branch, point.author, point.epoch)
}
