//! Looking round before a start by an id or name that others may know.
//!
//! Which nodes hold an execution follows from who is in the cluster. If that changed since it was started,
//! the node that is asked for the same start now may never have heard of it, and it would lead it: so it
//! first asks the others that are to hold it. All but one of those held it before, however one node
//! joined. Whoever cannot be reached is not waited for long: nobody is kept from starting by a cut. A
//! node that is to lead what another one has started asks, too: the other may have been cut off.
//!
//! Nothing of it is written down. A node that dies meanwhile has started nothing, and its caller asks again.

use std::collections::{BTreeMap, BTreeSet};

use outlast_lineage::{ExecutionId, NodeId, Time};

use super::super::{Engine, Step, Work};
use super::{Begin, Envelope};
use crate::{Action, Ask, Caller, Refusal, Reply, StartAsk};

/// How often whoever is silent is asked.
const QUESTIONS: u32 = 2;

/// What waits for the answers.
#[derive(Debug)]
pub(in crate::engine) enum Wish {
    /// A caller wants an execution started.
    Start(Caller, Box<StartAsk>),
    /// A node wants this one to lead an execution that it has started.
    Begin(NodeId, Box<Begin>),
}

/// Starts that wait until it is known whether others hold the execution.
#[derive(Debug, Default)]
pub(in crate::engine) struct Looking {
    by_execution: BTreeMap<ExecutionId, Search>,
    /// When each is looked at again: a burst of starts is not gone through for every step.
    due: BTreeSet<(Time, ExecutionId)>,
}

#[derive(Debug)]
struct Search {
    wishes: Vec<Wish>,
    /// Who was asked, and since when: what was asked before no longer counts.
    asked: BTreeSet<NodeId>,
    since: Time,
    /// Who has not answered.
    silent: BTreeSet<NodeId>,
    /// Whether someone holds it, on the terms that this node was told.
    known: bool,
    questions: u32,
    /// When it is looked at again.
    due: Time,
}

impl Looking {
    /// When a search is looked at again next.
    pub(in crate::engine) fn next(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    fn insert(&mut self, id: ExecutionId, search: Search) {
        self.due.insert((search.due, id));
        self.by_execution.insert(id, search);
    }

    fn remove(&mut self, id: ExecutionId) -> Option<Search> {
        let search = self.by_execution.remove(&id)?;
        self.due.remove(&(search.due, id));
        Some(search)
    }

    /// Takes one that is due.
    fn take_due(&mut self, now: Time) -> Option<(ExecutionId, Search)> {
        let (_, id) = self.due.first().filter(|(due, _)| *due <= now).copied()?;
        self.remove(id).map(|search| (id, search))
    }
}

impl Engine {
    /// Has a wish wait until others have said whether they know the execution; gives it back when it need
    /// not wait any more, and whether someone does.
    pub(in crate::engine) fn look_round(
        &mut self,
        step: &mut Step,
        execution: ExecutionId,
        others: impl IntoIterator<Item = NodeId>,
        wish: Wish,
    ) -> Option<(Wish, bool)> {
        if let Some(search) = self.looking.by_execution.get_mut(&execution) {
            if !search.silent.is_empty() {
                search.wishes.push(wish);
                return None;
            }
            let (known, is_old) = (search.known, search.due <= step.now);
            self.looking.remove(execution);
            // A full disk may have kept the wish waiting: what others said then need not be so now.
            if !is_old {
                return Some((wish, known));
            }
        }
        let me = self.options.node;
        let near = |node: &NodeId| *node != me && !self.peers.is_lost(*node);
        let silent: BTreeSet<NodeId> = others.into_iter().filter(near).collect();
        if silent.is_empty() {
            // Whoever started it without this node knows it, if nobody else does.
            let known = matches!(wish, Wish::Begin(..));
            return Some((wish, known));
        }
        let due = step.now.after(self.options.times.patience);
        let (asked, since) = (silent.clone(), step.now);
        let wishes = vec![wish];
        let search = Search { wishes, asked, since, silent, known: false, questions: 1, due };
        ask_all(step, execution, &search.silent);
        self.looking.insert(execution, search);
        None
    }

    /// Another node wants to know whether an execution is known here.
    pub(super) fn take_question(
        &mut self,
        step: &mut Step,
        from: NodeId,
        id: ExecutionId,
        asked: Option<Time>,
    ) {
        if self.holding(id).is_some() {
            return self.say_otherwise(step, from, id);
        }
        // What is over may be where only the store has it.
        let was_here = self.roster.get(id).is_some() || self.tombstones.contains(id);
        let answer = match was_here {
            true => Envelope::Otherwise(id, None),
            false => Envelope::Unknown(id, asked),
        };
        let message = answer.encode();
        step.order(Some(self.position), Action::Send { to: from, message });
    }

    /// Another node does not know an execution, as it was asked. Whoever hears that late, because it stood
    /// still itself, has heard how things were: it asks again, or has done so. What a node says of it
    /// unasked may be as old.
    pub(super) fn hear_unknown(
        &mut self,
        now: Time,
        from: NodeId,
        id: ExecutionId,
        asked: Option<Time>,
    ) {
        let (Some(search), Some(asked)) = (self.looking.by_execution.get(&id), asked) else {
            return;
        };
        if search.since <= asked && now < search.due {
            self.hear_answer(now, from, id);
        }
    }

    fn hear_answer(&mut self, now: Time, from: NodeId, id: ExecutionId) {
        let Some(mut search) = self.looking.remove(id) else { return };
        search.silent.remove(&from);
        let all_answered = search.silent.is_empty();
        if all_answered {
            // What was said counts from now on: the last answer may come when it was about to be asked for
            // again, and would be too old at once.
            search.due = now.after(self.options.times.patience);
        }
        self.looking.insert(id, search);
        if all_answered {
            self.start_after_all(id);
        }
    }

    /// Another node knows an execution: whoever wants to start it is sent there, and whoever was told to
    /// begin it on other terms does not.
    pub(super) fn hear_known(
        &mut self,
        step: &mut Step,
        from: NodeId,
        id: ExecutionId,
        begin: Option<&Begin>,
    ) {
        let Some(search) = self.looking.by_execution.get_mut(&id) else { return };
        let is_same = |wish: &Wish| match (wish, begin) {
            (Wish::Begin(_, wanted), Some(begin)) => wanted.terms.members == begin.terms.members,
            _ => false,
        };
        if search.wishes.iter().any(is_same) {
            search.known = true;
            return self.hear_answer(step.now, from, id);
        }
        let Some(search) = self.looking.remove(id) else { return };
        let me = self.options.node;
        let holders = begin.into_iter().flat_map(|begin| begin.terms.members.others(me).rev());
        let nodes: Vec<NodeId> =
            [from].into_iter().chain(holders.filter(|node| *node != from)).collect();
        for wish in search.wishes {
            let Wish::Start(caller, _) = wish else { continue };
            let refusal = Refusal::Elsewhere { nodes: nodes.clone() };
            step.reply(Some(self.position), caller, Reply::Refused(refusal));
        }
    }

    /// Asks again who has not answered, and waits no longer than that.
    pub(in crate::engine) fn ring_looking(&mut self, step: &mut Step) {
        while let Some((id, mut search)) = self.looking.take_due(step.now) {
            if search.silent.is_empty() {
                // Whoever was to start it could not.
                continue;
            }
            // Whoever comes to it so late stood still, or its disk was full: all may have changed meanwhile.
            if search.due.after(self.options.times.patience) <= step.now {
                search.silent.clone_from(&search.asked);
                search.since = step.now;
                search.questions = 0;
            }
            search.silent.retain(|node| !self.peers.is_lost(*node));
            if search.questions == QUESTIONS {
                search.silent.clear();
            }
            search.questions += 1;
            search.due = step.now.after(self.options.times.patience);
            ask_all(step, id, &search.silent);
            let nobody_is_asked = search.silent.is_empty();
            self.looking.insert(id, search);
            if nobody_is_asked {
                self.start_after_all(id);
            }
        }
    }

    /// Nobody knows it on other terms. What another node has started is joined first, so that whoever
    /// asked for it finds it started; if nobody has, the first who asked starts it.
    fn start_after_all(&mut self, id: ExecutionId) {
        let Some(search) = self.looking.by_execution.get_mut(&id) else { return };
        let mut wishes = std::mem::take(&mut search.wishes);
        wishes.sort_by_key(|wish| matches!(wish, Wish::Start(..)));
        for wish in wishes {
            self.queue_own(match wish {
                Wish::Start(caller, ask) => Work::Answer { caller, ask: Box::new(Ask::Start(ask)) },
                Wish::Begin(from, begin) => Work::Begin { from, begin },
            });
        }
    }
}

fn ask_all(step: &mut Step, execution: ExecutionId, nodes: &BTreeSet<NodeId>) {
    for to in nodes {
        let message = Envelope::Knows(execution, Some(step.now)).encode();
        step.order(None, Action::Send { to: *to, message });
    }
}
