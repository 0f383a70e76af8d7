//! Which nodes hold an execution: that follows from its id and from who is in the cluster, and from
//! nothing else, so that whoever is asked for the same start chooses the same nodes.
//!
//! A digest of the execution and the node ranks all members; the first so many are the holders, and
//! the first of all is its highest replica, which leads it. So every node leads as many as any other.
//! The first of them that can be reached starts it, and a node that is not that one says where to go:
//! so two starts of one id or name meet in one place. Whether a node can be reached decides only who
//! starts, never who holds. An id that nobody asked for is varied until it falls to nodes that are
//! there and is led by this one: whoever was asked need not ask another, and the nodes that clients
//! turn to share the work as the clients do.

use outlast_lineage::{Digester, ExecutionId, NodeId};

use super::super::Engine;
use super::super::starting::busy;
use crate::{Refusal, StartAsk};

/// How many ids are looked at for one that falls to the right nodes.
const DRAWS_MAX: u64 = 512;
/// How many of those are to be led by this node: in a large cluster few are.
const DRAWS_TO_LEAD: u64 = 384;

impl Engine {
    /// The id of an execution that several nodes are to hold. What is named is named by its id, too:
    /// otherwise two nodes that are asked at once would make two executions of one name.
    pub(in crate::engine) fn shared_id(
        &self,
        ask: &StartAsk,
        replicas: usize,
    ) -> Result<ExecutionId, Refusal> {
        match &ask.name {
            _ if ask.given => Ok(ask.id),
            Some(name) => Ok(named_id(&ask.namespace, name)),
            None => self.draw_id(ask.id, replicas),
        }
    }

    /// The nodes that hold an execution, the highest replica first: it should start it.
    pub(in crate::engine) fn holders_of(
        &self,
        execution: ExecutionId,
        replicas: usize,
    ) -> Result<Vec<NodeId>, Refusal> {
        let mut holders = ranked(execution, self.peers.all().chain([self.options.node]));
        if holders.len() < replicas {
            let reason = format!(
                "{replicas} replicas are wanted and this node knows of {}, itself included: others \
                 join with a token of `outlast cluster invite`",
                holders.len()
            );
            // Members are soon known of, once they have joined; but nobody joins because somebody waits.
            return Err(Refusal::Busy { reason, retry_after: None });
        }
        holders.truncate(replicas);
        Ok(holders)
    }

    /// Refuses to start an execution that is for another node to start.
    pub(in crate::engine) fn check_place(&self, holders: &[NodeId]) -> Result<(), Refusal> {
        let me = self.options.node;
        let fit = |node: &NodeId| *node == me || !self.is_unfit(*node);
        if holders.iter().copied().find(fit) == Some(me) {
            return Ok(());
        }
        let (near, far): (Vec<NodeId>, Vec<NodeId>) =
            holders.iter().filter(|node| **node != me).partition(|node| fit(node));
        Err(Refusal::Elsewhere { nodes: [near, far].concat() })
    }

    /// Varies an id until the fewest of its holders are out of reach and this node is the first of
    /// them, or at least one.
    fn draw_id(&self, id: ExecutionId, replicas: usize) -> Result<ExecutionId, Refusal> {
        let mut best = None;
        for number in 0..DRAWS_MAX {
            let candidate = varied(id, number);
            let may_be_led = DRAWS_TO_LEAD <= number && best.is_none();
            if !may_be_led && !self.is_first_of(candidate) {
                continue;
            }
            let holders = self.holders_of(candidate, replicas)?;
            if !holders.contains(&self.options.node) {
                continue;
            }
            let unfit: u32 = holders.iter().map(|node| self.unfitness(*node)).sum();
            if best.is_none_or(|(fewest, _)| unfit < fewest) {
                best = Some((unfit, candidate));
            }
            // With so many members out of reach no choice avoids all of them.
            if unfit <= self.unavoidable(replicas) {
                break;
            }
        }
        best.map(|(_, id)| id).ok_or_else(|| busy("no id was found that falls to this node"))
    }

    /// Whether this node comes before all others for an execution.
    fn is_first_of(&self, execution: ExecutionId) -> bool {
        let own = rank(execution, self.options.node);
        self.peers.all().all(|peer| own <= rank(execution, peer))
    }

    /// How unfit holders are together at least, whatever the id.
    fn unavoidable(&self, replicas: usize) -> u32 {
        let others = self.peers.all().map(|node| self.unfitness(node));
        let mut all: Vec<u32> = others.chain([0]).collect();
        all.sort_unstable();
        all.into_iter().take(replicas).sum()
    }

    /// Whether another node cannot be reached, or is about to stop.
    fn is_unfit(&self, node: NodeId) -> bool {
        0 < self.unfitness(node)
    }

    /// How unfit a node is to hold something new: one that is about to stop still answers.
    fn unfitness(&self, node: NodeId) -> u32 {
        match node {
            node if node == self.options.node => 0,
            node if self.peers.is_lost(node) => 2,
            node => u32::from(self.gossip.is_draining(node)),
        }
    }
}

/// Nodes in the order in which they are asked to hold an execution. The first leads it.
pub fn ranked(execution: ExecutionId, nodes: impl IntoIterator<Item = NodeId>) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = nodes.into_iter().collect();
    nodes.sort_by_cached_key(|node| rank(execution, *node));
    nodes
}

/// What decides who comes before whom for an execution: the least comes first.
fn rank(execution: ExecutionId, node: NodeId) -> [u8; 32] {
    let digest = Digester::new("holder").field(execution.as_bytes()).number(node.0);
    *digest.finish().as_bytes()
}

/// The id of an execution that is known by its name.
fn named_id(namespace: &str, name: &str) -> ExecutionId {
    let digest = Digester::new("named").field(namespace.as_bytes()).field(name.as_bytes());
    let bytes = digest.finish().as_bytes()[..16].try_into().expect("a digest has 32 bytes");
    ExecutionId::from_bytes(bytes)
}

/// Another id of the same time; the first is the id itself.
fn varied(id: ExecutionId, number: u64) -> ExecutionId {
    if number == 0 {
        return id;
    }
    let mut milliseconds = [0; 8];
    milliseconds[2..].copy_from_slice(&id.as_bytes()[..6]);
    let digest = Digester::new("varied").field(id.as_bytes()).number(number).finish();
    let random = digest.as_bytes()[..10].try_into().expect("a digest has 32 bytes");
    ExecutionId::from_time(u64::from_be_bytes(milliseconds), random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_varied_id_is_of_the_same_time() {
        let id = ExecutionId::from_time(1_700_000_000_000, [9; 10]);
        assert_eq!(varied(id, 0), id);
        let other = varied(id, 1);
        assert!(other != id && other != varied(id, 2));
        assert_eq!(other.as_bytes()[..6], id.as_bytes()[..6]);
        assert_eq!(other.to_string().as_bytes()[14], b'7', "a UUID of version 7");
    }

    #[test]
    fn every_node_comes_first_as_often_as_any_other() {
        let mut led = [0_u32; 5];
        for number in 0..=u8::MAX {
            let first = ranked(ExecutionId::from_bytes([number; 16]), (0..5).map(NodeId))[0];
            led[usize::try_from(first.0).unwrap()] += 1;
        }
        assert!(led.iter().all(|led| (35..=70).contains(led)), "of 256, 51 each: {led:?}");
    }

    #[test]
    fn names_of_two_namespaces_are_two() {
        assert_ne!(named_id("a", "bc"), named_id("ab", "c"));
        assert_eq!(named_id("a", "b"), named_id("a", "b"));
    }
}
