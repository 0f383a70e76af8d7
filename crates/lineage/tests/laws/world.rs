//! A world of replicas for property tests: a random interleaving of steps, forks, joins, calls,
//! take-overs and restarts, with everything the crate keeps in short form also kept in full.

use std::collections::{BTreeMap, BTreeSet};

use outlast_lineage::{
    BranchId, Digest, Digester, Effect, EffectId, EffectState, Epoch, ExecutionId, Head, Knowledge,
    Lineage, NodeId, OperationKey, Point, StateId,
};
use proptest::prelude::*;

/// How many random worlds each law is tried on: all of them together take a few seconds.
pub(crate) const CASES: u32 = 64;
pub(crate) const NODES: usize = 4;
pub(crate) const BRANCHES: [BranchId; 4] = [BranchId::TRUNK, BranchId(1), BranchId(2), BranchId(3)];
/// Where each branch but the trunk is forked off: the last one is a branch of a branch.
const FORKS: [(BranchId, BranchId); 3] =
    [(BranchId(1), BranchId::TRUNK), (BranchId(2), BranchId::TRUNK), (BranchId(3), BranchId(1))];

/// One thing that happens. Numbers are taken modulo what there is; what cannot be is left out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happening {
    /// A node advances a branch by a local step.
    Step(usize, usize),
    /// A node forks a branch off its parent.
    Fork(usize, usize),
    /// A branch's parent takes up all that it did.
    Join(usize, usize),
    /// A node writes down that it will call out.
    Intend(usize, usize),
    /// A node takes up the answer of an open call.
    Commit(usize, usize),
    /// A node learns that a call happened, when nobody waits for it any more.
    LateAnswer(usize, usize),
    /// A line takes an effect back.
    Withdraw(usize, usize),
    /// A node restarts.
    Restart(usize),
    /// A node goes on from another one's state, in a new term.
    TakeOver(usize, usize),
    /// A node learns what another one knows.
    Gossip(usize, usize),
}

pub(crate) fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    use Happening::*;
    let pair = || (0..NODES, 0..64_usize);
    let one = prop_oneof![
        4 => pair().prop_map(|(node, other)| Step(node, other)),
        2 => pair().prop_map(|(node, other)| Fork(node, other)),
        1 => pair().prop_map(|(node, other)| Join(node, other)),
        5 => pair().prop_map(|(node, other)| Intend(node, other)),
        5 => pair().prop_map(|(node, other)| Commit(node, other)),
        1 => pair().prop_map(|(node, other)| LateAnswer(node, other)),
        1 => pair().prop_map(|(node, other)| Withdraw(node, other)),
        1 => (0..NODES).prop_map(Restart),
        3 => pair().prop_map(|(node, other)| TakeOver(node, other)),
        1 => pair().prop_map(|(node, other)| Gossip(node, other)),
    ];
    prop::collection::vec(one, 0..80)
}

/// One branch as a node has it: the short form and the naive one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) lineage: Lineage,
    pub(crate) points: Vec<Point>,
    pub(crate) progress: u64,
    pub(crate) forked_from: Vec<StateId>,
    /// The effects whose results have gone into this state, however indirectly.
    pub(crate) past: BTreeSet<EffectId>,
    /// The calls this line has made: the next one's place.
    pub(crate) calls: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) epoch: Epoch,
    pub(crate) lines: BTreeMap<BranchId, Line>,
    pub(crate) joined: BTreeSet<BranchId>,
    pub(crate) open: Vec<EffectId>,
    pub(crate) knowledge: Knowledge,
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) nodes: Vec<Node>,
    /// Every state of every branch that was ever made.
    pub(crate) produced: Vec<StateId>,
    /// Every line as it was after some step.
    pub(crate) snapshots: Vec<Line>,
    /// What had gone into the state from which each effect was intended.
    pub(crate) past: BTreeMap<EffectId, BTreeSet<EffectId>>,
}

impl World {
    pub(crate) fn after(happenings: &[Happening]) -> Self {
        let mut world = Self {
            nodes: (0..NODES).map(|index| Node::new(NodeId(index as u64))).collect(),
            produced: Vec::new(),
            snapshots: vec![Line::default()],
            past: BTreeMap::new(),
        };
        happenings.iter().for_each(|happening| world.happen(*happening));
        world
    }

    /// What all nodes know together.
    pub(crate) fn knowledge(&self) -> Knowledge {
        let mut all = Knowledge::default();
        self.nodes.iter().for_each(|node| all.merge(&node.knowledge));
        all
    }

    fn happen(&mut self, happening: Happening) {
        use Happening::*;
        match happening {
            Step(node, pick) => {
                let branch = self.nodes[node].open_branch(pick);
                self.extend(node, branch);
            }
            Fork(node, pick) => self.fork(node, pick),
            Join(node, pick) => self.join(node, pick),
            Intend(node, pick) => self.intend(node, pick),
            Commit(node, pick) => self.commit(node, pick),
            LateAnswer(node, pick) => {
                let ledger = &mut self.nodes[node].knowledge.ledger;
                let id = ledger.iter().map(|(id, _)| *id).nth(pick % ledger.len().max(1));
                id.into_iter().for_each(|id| ledger.raise(&id, EffectState::Done));
            }
            Withdraw(node, pick) => self.withdraw(node, pick),
            Restart(node) => self.nodes[node].epoch.0 += 1,
            TakeOver(node, from) => self.take_over(node, from % NODES),
            Gossip(node, from) => {
                let theirs = self.nodes[from % NODES].knowledge.clone();
                self.nodes[node].knowledge.merge(&theirs);
            }
        }
    }

    fn extend(&mut self, node: usize, branch: BranchId) -> StateId {
        let node = &mut self.nodes[node];
        let line = node.lines.get_mut(&branch).expect("the branch is open");
        let point = line.lineage.extend(node.id, node.epoch);
        line.points.push(point);
        self.snapshots.push(line.clone());
        let state = StateId { branch, point };
        self.produced.push(state);
        node.learn_own_heads();
        state
    }

    fn fork(&mut self, node: usize, pick: usize) {
        let (child, parent) = FORKS[pick % FORKS.len()];
        let running = &self.nodes[node];
        let parent_runs = running.lines.contains_key(&parent) && !running.joined.contains(&parent);
        if !parent_runs || running.lines.contains_key(&child) {
            return;
        }
        let origin = self.extend(node, parent);
        let node = &mut self.nodes[node];
        let from = &node.lines[&parent];
        let mut forked_from = from.forked_from.clone();
        forked_from.push(origin);
        let line = Line { forked_from, past: from.past.clone(), ..Line::default() };
        node.lines.insert(child, line);
        node.learn_own_heads();
    }

    fn join(&mut self, node: usize, pick: usize) {
        let (child, _) = FORKS[pick % FORKS.len()];
        let Some(parent) = self.nodes[node].parent_of(child) else { return };
        if self.nodes[node].is_parent_of_open(child) {
            return;
        }
        let state = self.extend(node, parent);
        let node = &mut self.nodes[node];
        let line = node.lines[&child].clone();
        node.joined.insert(child);
        let taken: Vec<_> = node
            .knowledge
            .ledger
            .iter()
            .map(|(id, _)| *id)
            .filter(|id| line.past.contains(id))
            .filter(|id| !node.lines[&parent].past.contains(id))
            .collect();
        for id in taken {
            node.knowledge.ledger.commit(&id, state);
        }
        node.lines.get_mut(&parent).expect("it has a parent").past.extend(&line.past);
    }

    fn intend(&mut self, node: usize, pick: usize) {
        let branch = self.nodes[node].open_branch(pick);
        let past = self.nodes[node].lines[&branch].past.clone();
        let state = self.extend(node, branch);
        let node = &mut self.nodes[node];
        let line = node.lines.get_mut(&branch).expect("the branch is open");
        let task = (branch.0 * 100 + line.calls) as u32;
        line.calls += 1;
        let id = EffectId { branch, point: state.point };
        let forked_from = line.forked_from.clone();
        node.knowledge.ledger.record(id, Effect::intended(key(task), task));
        node.knowledge.ledger.fork_from(&id, forked_from);
        node.open.push(id);
        self.past.insert(id, past);
    }

    fn commit(&mut self, node: usize, pick: usize) {
        let Some(id) = self.nodes[node].take_open(pick) else { return };
        let state = self.extend(node, id.branch);
        let node = &mut self.nodes[node];
        node.knowledge.ledger.commit(&id, state);
        let line = node.lines.get_mut(&id.branch).expect("the branch is open");
        line.progress += 1;
        line.past.insert(id);
        node.learn_own_heads();
    }

    fn withdraw(&mut self, node: usize, pick: usize) {
        let branch = self.nodes[node].open_branch(pick);
        let line = &self.nodes[node].lines[&branch];
        let Some(id) = line.past.iter().nth(pick % line.past.len().max(1)).copied() else { return };
        let state = self.extend(node, branch);
        self.nodes[node].knowledge.ledger.withdraw(&id, state);
    }

    fn take_over(&mut self, node: usize, from: usize) {
        if node == from {
            return;
        }
        let from = self.nodes[from].clone();
        let node = &mut self.nodes[node];
        node.epoch.0 += 1;
        node.lines = from.lines;
        node.joined = from.joined;
        node.open = from.open;
        node.knowledge.merge(&from.knowledge);
    }
}

impl Node {
    fn new(id: NodeId) -> Self {
        Self {
            id,
            epoch: Epoch(0),
            lines: BTreeMap::from([(BranchId::TRUNK, Line::default())]),
            joined: BTreeSet::new(),
            open: Vec::new(),
            knowledge: Knowledge::default(),
        }
    }

    /// A branch that is still running.
    fn open_branch(&self, pick: usize) -> BranchId {
        let open: Vec<_> =
            self.lines.keys().filter(|branch| !self.joined.contains(*branch)).collect();
        *open[pick % open.len()]
    }

    /// The branch that an open branch was forked off.
    fn parent_of(&self, child: BranchId) -> Option<BranchId> {
        let line = self.lines.get(&child).filter(|_| !self.joined.contains(&child))?;
        line.forked_from.last().map(|state| state.branch)
    }

    fn is_parent_of_open(&self, branch: BranchId) -> bool {
        BRANCHES.iter().any(|child| self.parent_of(*child) == Some(branch))
    }

    fn take_open(&mut self, pick: usize) -> Option<EffectId> {
        let open: Vec<_> = (0..self.open.len())
            .filter(|index| !self.joined.contains(&self.open[*index].branch))
            .collect();
        let index = *open.get(pick % open.len().max(1))?;
        Some(self.open.remove(index))
    }

    fn learn_own_heads(&mut self) {
        for (branch, line) in &self.lines {
            let head = Head {
                lineage: line.lineage.clone(),
                progress: line.progress,
                origin: line.forked_from.last().copied(),
            };
            self.knowledge.heads.insert(*branch, head);
        }
    }
}

/// The key of the call that a branch makes at a place: the same on all lines.
pub(crate) fn key(task: u32) -> OperationKey {
    let place = Digester::new("place").number(u64::from(task)).finish();
    OperationKey::new(ExecutionId::from_bytes([7; 16]), &place, &Digest::of(b"request"))
}

/// The ledgers and heads of all nodes, as they stand.
pub(crate) fn copies(world: &World) -> Vec<Knowledge> {
    world.nodes.iter().map(|node| node.knowledge.clone()).collect()
}
