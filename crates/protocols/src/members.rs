//! Who takes part in an execution, from the lowest replica to the highest.
//!
//! The order is one of the execution, not of the nodes: a node may be the highest replica of one
//! execution and the lowest of the next, so that not one node leads them all. Whoever makes an
//! execution known says the order with it.

use std::collections::BTreeSet;
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

    /// How many decide, without those that are gone for good: a majority, so that no others can decide anything else;
    /// or all that are left, if that is fewer. Two who have not heard of the same losses yet never decide without
    /// each other then, because whoever is left counts for both.
    pub fn quorum(&self, gone: &BTreeSet<NodeId>) -> usize {
        let left = self.iter().filter(|member| !gone.contains(member)).count();
        left.min(self.len() / 2 + 1)
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
    fn a_majority_decides_or_all_that_are_left_if_that_is_fewer() {
        let members = members(&[1, 2, 3, 4, 5]);
        let quorum = |gone: &[u64]| members.quorum(&gone.iter().copied().map(NodeId).collect());
        assert_eq!(quorum(&[]), 3);
        assert_eq!(quorum(&[9]), 3, "a stranger is none of them");
        assert_eq!(quorum(&[1, 2]), 3);
        assert_eq!((quorum(&[1, 2, 3]), quorum(&[1, 2, 3, 4])), (2, 1));
    }

    /// Whoever is left is left to everybody, whatever losses somebody has heard of by then.
    #[test]
    fn two_quorums_of_whatever_losses_they_know_have_a_member_in_common() {
        for all in 1..=5_u32 {
            let members: Members = (0..u64::from(all)).map(NodeId).collect();
            let set_of = |bits: u32| -> BTreeSet<NodeId> {
                (0..all).filter(|bit| bits >> bit & 1 == 1).map(|bit| NodeId(bit.into())).collect()
            };
            let decides = |heads: &BTreeSet<NodeId>, gone: &BTreeSet<NodeId>| {
                heads.is_disjoint(gone) && members.quorum(gone) <= heads.len()
            };
            let subsets = || 0..1 << all;
            for (one, other) in subsets().flat_map(|one| subsets().map(move |other| (one, other))) {
                // Each has heard of a part of the losses; somebody is left.
                if one | other == (1 << all) - 1 {
                    continue;
                }
                let (gone, more) = (set_of(one), set_of(other));
                let quorums = |gone: &BTreeSet<NodeId>| -> Vec<BTreeSet<NodeId>> {
                    subsets().map(set_of).filter(|heads| decides(heads, gone)).collect()
                };
                for ours in quorums(&gone) {
                    // Nobody who was lost speaks any more when the second ones decide.
                    let theirs = quorums(&more);
                    let mut apart = theirs.iter().filter(|theirs| theirs.is_disjoint(&ours));
                    let only_lost = |heads: &BTreeSet<NodeId>| {
                        heads.iter().all(|head| gone.contains(head) || more.contains(head))
                    };
                    assert!(apart.all(|theirs| only_lost(theirs) || only_lost(&ours)));
                }
            }
        }
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
