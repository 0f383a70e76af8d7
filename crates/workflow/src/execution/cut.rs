//! Cutting a branch off for another node, and taking it back.
//!
//! The branch goes as an execution of its own with the same id: its subtree, what it names, and a
//! stub of the way back. The trunk keeps `Away` with the epoch; what comes back under any other
//! epoch changes nothing but the ledger.

use std::collections::BTreeSet;

use outlast_lineage::{BranchId, Epoch, NodeId};

use super::questions::Names;
use super::{Branch, BranchState, Execution, Head, LargeValues, Stage, Touched};
use crate::{Advance, Author};

impl Execution {
    /// Gives a branch to other nodes: what they advance, and what this copy changed.
    ///
    /// Nothing if there is no such branch here, or it is the trunk.
    pub fn cut(
        &mut self,
        id: BranchId,
        epoch: Epoch,
        holders: Vec<NodeId>,
        author: Author,
    ) -> Option<(Self, Advance)> {
        let branch = self.branches.get(&id)?;
        branch.birth.parent?;
        if matches!(branch.small.state, BranchState::Away { .. }) {
            return None;
        }
        let subtree = self.subtree(id);
        let mut remote = self.part(&subtree);
        remote.head.ready =
            self.head.ready.iter().copied().filter(|ready| subtree.contains(ready)).collect();
        let mut touched = Touched { head: true, ..Touched::default() };
        self.head.ready.retain(|ready| !subtree.contains(ready));
        self.drop_part(&subtree, id, &mut touched);
        let branch = self.branches.get_mut(&id).expect("the branch itself stays as a stub");
        branch.extend(author.node, author.epoch);
        branch.set_state(BranchState::Away { epoch, holders });
        touched.branches.insert(id);
        let delta = self.collect(touched);
        let (commands, happenings, effects) = Default::default();
        Some((remote, Advance { delta, commands, happenings, effects }))
    }

    /// A branch and everything forked inside it.
    fn subtree(&self, id: BranchId) -> BTreeSet<BranchId> {
        let mut inside = BTreeSet::from([id]);
        loop {
            let more: Vec<BranchId> = self
                .branches
                .values()
                .filter(|branch| branch.birth.parent.is_some_and(|p| inside.contains(&p)))
                .map(Branch::id)
                .filter(|child| !inside.contains(child))
                .collect();
            if more.is_empty() {
                return inside;
            }
            inside.extend(more);
        }
    }

    /// The part of an execution that belongs to some branches.
    fn part(&self, branches: &BTreeSet<BranchId>) -> Self {
        let mut part = Self {
            id: self.id,
            definition: self.definition,
            salt: self.salt,
            started_at: self.started_at,
            input: self.input.clone(),
            keep_plan: true,
            head: Head { stage: Stage::Forward, ..Head::default() },
            branches: self
                .branches
                .iter()
                .filter(|(id, _)| branches.contains(id))
                .map(|(id, b)| (*id, b.clone()))
                .collect(),
            plans: self
                .plans
                .iter()
                .filter(|(id, _)| branches.contains(&id.0.branch))
                .map(|(id, p)| (*id, p.clone()))
                .collect(),
            joins: self
                .joins
                .iter()
                .filter(|(id, _)| branches.contains(&id.0.branch))
                .map(|(id, j)| (*id, j.clone()))
                .collect(),
            ledger: Default::default(),
            large: LargeValues::default(),
            consumed: self.consumed.clone(),
            passed: self.passed,
            exchange: self.exchange.as_ref().map(|exchange| Box::new(exchange.part())),
        };
        for (id, effect) in self.ledger.iter().filter(|(id, _)| branches.contains(&id.branch)) {
            part.ledger.record(*id, effect.clone());
        }
        part.large = self.large.subset(&part.named_large_values());
        part
    }

    /// Drops what was given away, but for the stub.
    fn drop_part(&mut self, part: &BTreeSet<BranchId>, stub: BranchId, touched: &mut Touched) {
        for id in part.iter().filter(|id| **id != stub) {
            self.branches.remove(id);
            touched.branches.insert(*id);
        }
        let plans: Vec<_> =
            self.plans.keys().filter(|id| part.contains(&id.0.branch)).copied().collect();
        for id in plans {
            self.plans.remove(&id);
            touched.plans.insert(id);
        }
        let joins: Vec<_> =
            self.joins.keys().filter(|id| part.contains(&id.0.branch)).copied().collect();
        for id in joins {
            self.joins.remove(&id);
            touched.joins.insert(id);
        }
    }

    /// Puts a part that comes back in the place of its stub.
    pub(crate) fn rejoin(&mut self, remote: Self, touched: &mut Touched) {
        let mut names = Names(BTreeSet::new());
        for (id, mut branch) in remote.branches {
            names.branch(&branch);
            branch.mark_born();
            touched.branches.insert(id);
            self.branches.insert(id, branch);
        }
        for (id, mut plan) in remote.plans {
            plan.mark_new();
            touched.plans.insert(id);
            self.plans.insert(id, plan);
        }
        for (id, mut join) in remote.joins {
            join.mark_new();
            touched.joins.insert(id);
            self.joins.insert(id, join);
        }
        for (id, effect) in remote.ledger.iter() {
            self.ledger.record(*id, effect.clone());
            touched.effects.insert(*id);
        }
        self.large.absorb(&remote.large);
        for number in remote.consumed.difference(&self.consumed.clone()) {
            self.consumed.insert(*number);
            touched.consumed.push(*number);
        }
        if let (Some(exchange), Some(part)) = (&mut self.exchange, &remote.exchange) {
            let news = exchange.news_of(part);
            exchange.apply(&news);
            touched.exchange.extend(news);
        }
    }
}
