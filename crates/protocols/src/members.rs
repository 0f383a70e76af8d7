//! Who takes part in an execution, from the lowest replica to the highest.
//!
//! The order is one of the execution, not of the nodes: a node may be the highest replica of one
//! execution and the lowest of the next, so that not one node leads them all. Whoever makes an
//! execution known says the order with it.

use std::sync::Arc;

use minicbor::{Decode, Decoder, Encode, Encoder};
use outlast_lineage::{Digester, NodeId};

/// The replicas of one execution, from the lowest to the highest. Cheap to copy.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Members {
    nodes: Arc<[NodeId]>,
    mark: u32,
}

impl Members {
    fn new(nodes: Arc<[NodeId]>) -> Self {
        let mark = nodes.iter().fold(Digester::new("members"), |mark, node| mark.number(node.0));
        #[allow(clippy::cast_possible_truncation, reason = "a part of a digest is one, too")]
        let mark = mark.finish().short() as u32;
        Self { nodes, mark }
    }

    /// What tells them from other members, or the same in another order.
    pub const fn mark(&self) -> u32 {
        self.mark
    }

    /// The one that begins, and that others let go first.
    pub fn highest(&self) -> Option<NodeId> {
        self.nodes.last().copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many are lower than a node; nothing if it is no member.
    pub fn rank(&self, node: NodeId) -> Option<usize> {
        self.nodes.iter().position(|member| *member == node)
    }

    /// Whether a node is a member.
    pub fn contains(&self, node: NodeId) -> bool {
        self.nodes.contains(&node)
    }

    /// Whether the first of two is the higher one. Whoever is no member is lower than all.
    pub fn outranks(&self, one: NodeId, other: NodeId) -> bool {
        self.rank(other) < self.rank(one)
    }

    /// All, from the lowest to the highest.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = NodeId> + Clone {
        self.nodes.iter().copied()
    }

    /// All but one.
    pub fn others(&self, me: NodeId) -> impl DoubleEndedIterator<Item = NodeId> + Clone {
        self.iter().filter(move |member| *member != me)
    }
}

impl FromIterator<NodeId> for Members {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        Self::new(nodes.into_iter().collect())
    }
}

impl<C> Encode<C> for Members {
    fn encode<W: minicbor::encode::Write>(
        &self,
        to: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        self.nodes[..].encode(to, context)
    }
}

impl<'b, C> Decode<'b, C> for Members {
    fn decode(from: &mut Decoder<'b>, context: &mut C) -> Result<Self, minicbor::decode::Error> {
        let nodes = Vec::<NodeId>::decode(from, context)?;
        let is_twice = |(place, node)| nodes[..place].contains(node);
        // A quorum counts heads: nobody has two.
        if nodes.iter().enumerate().any(is_twice) {
            return Err(minicbor::decode::Error::message("a replica is named twice"));
        }
        Ok(Self::new(nodes.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(nodes: &[u64]) -> Members {
        nodes.iter().copied().map(NodeId).collect()
    }

    #[test]
    fn the_order_is_the_executions_and_not_that_of_ids() {
        let members = members(&[2, 3, 1]);
        assert_eq!(members.highest(), Some(NodeId(1)));
        assert!(members.outranks(NodeId(1), NodeId(3)) && members.outranks(NodeId(3), NodeId(2)));
        assert!(!members.outranks(NodeId(1), NodeId(1)));
        assert!(members.outranks(NodeId(2), NodeId(9)), "a stranger is lower than all");
    }

    #[test]
    fn other_members_and_another_order_have_another_mark() {
        let mark = |nodes| members(nodes).mark();
        assert_eq!(mark(&[1, 2, 3]), mark(&[1, 2, 3]));
        assert_ne!(mark(&[1, 2, 3]), mark(&[1, 3, 2]));
        assert_ne!(mark(&[1, 2, 3]), mark(&[1, 2]));
    }

    #[test]
    fn the_order_survives_being_written() {
        let written = minicbor::to_vec(members(&[2, 3, 1])).unwrap();
        assert_eq!(minicbor::decode::<Members>(&written).unwrap(), members(&[2, 3, 1]));
    }

    #[test]
    fn nobody_counts_twice() {
        let written = minicbor::to_vec([NodeId(2), NodeId(1), NodeId(2)]).unwrap();
        assert!(minicbor::decode::<Members>(&written).is_err());
    }
}
