//! The members a node has heard of: where they are, and which keys it has certified for them.
//!
//! This is an address book, not a list of who is alive: membership is found out by gossip. It is
//! kept so that a node that starts again finds its cluster, and so that no id is certified twice.
//!
//! A node that was certified is none of the members yet: it may have died before it could write its
//! certificate down, and nobody would ever hear of it. It becomes one when it is known where it is, which it
//! says when it connects, and others by gossip.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outlast_lineage::NodeId;
use serde::{Deserialize, Serialize};

use super::ClusterError;
use super::authority::PublicKey;
use super::folder::{Folder, read, write};
use crate::transport::checked_addresses;

const FORMAT: u32 = 1;

/// One member.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Member {
    /// Where it can be reached; nothing until it was heard of.
    pub(super) addresses: Vec<String>,
    /// The key that this node has certified for it; nothing if another node has.
    pub(super) key: Option<PublicKey>,
    /// Whether it is lost for good; its id does not come back.
    pub(super) removed: bool,
}

impl Member {
    /// Whether it counts: it was heard of, and is not lost for good.
    const fn is_one(&self) -> bool {
        !self.removed && !self.addresses.is_empty()
    }
}

/// The members a node has heard of.
#[derive(Debug)]
pub(super) struct Members {
    path: PathBuf,
    members: BTreeMap<NodeId, Member>,
}

#[derive(Serialize, Deserialize)]
struct Document {
    format: u32,
    members: BTreeMap<String, Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    addresses: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    removed: bool,
}

impl Members {
    /// Reads the members that were kept.
    pub(super) fn open(folder: &Folder) -> Result<Self, ClusterError> {
        let path = folder.path("members.json");
        let mut members = BTreeMap::new();
        if let Some(text) = read(&path)? {
            let damaged = || ClusterError::damaged(&path);
            let document: Document = serde_json::from_str(&text).map_err(|_| damaged())?;
            if document.format != FORMAT {
                return Err(damaged());
            }
            for (node, entry) in document.members {
                let node = u64::from_str_radix(&node, 16).map_err(|_| damaged())?;
                members.insert(NodeId(node), entry.member().ok_or_else(damaged)?);
            }
        }
        Ok(Self { path, members })
    }

    /// Every member that was heard of and was not removed.
    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        let members = self.members.iter().map(|(node, member)| (*node, member));
        members.filter(|(_, member)| member.is_one())
    }

    /// Those that were let in, and were neither heard of since nor removed.
    pub(super) fn expected(&self) -> impl Iterator<Item = NodeId> {
        let silent = |member: &Member| !member.removed && member.addresses.is_empty();
        let expected = self.members.iter().filter(move |(_, member)| silent(member));
        expected.map(|(node, _)| *node)
    }

    /// Whether it is lost for good.
    pub(super) fn is_removed(&self, node: NodeId) -> bool {
        self.members.get(&node).is_some_and(|member| member.removed)
    }

    /// Those that are lost for good.
    pub(super) fn removed(&self) -> Vec<NodeId> {
        let removed = self.members.iter().filter(|(_, member)| member.removed);
        removed.map(|(node, _)| *node).collect()
    }

    /// Whether an id belongs to someone with another key, as far as this node knows.
    pub(super) fn is_taken(&self, node: NodeId, key: PublicKey) -> bool {
        self.members.get(&node).is_some_and(|member| member.removed || member.key != Some(key))
    }

    /// Remembers durably for whom an id was certified.
    pub(super) fn certify(&mut self, node: NodeId, key: PublicKey) -> Result<(), ClusterError> {
        let known = self.members.get(&node).is_some_and(|member| member.key == Some(key));
        if known {
            return Ok(());
        }
        let member = Member { key: Some(key), ..Member::default() };
        let before = self.members.insert(node, member);
        self.write().inspect_err(|_| match before {
            Some(before) => drop(self.members.insert(node, before)),
            None => drop(self.members.remove(&node)),
        })
    }

    /// Remembers durably that a member is lost for good.
    pub(super) fn remove(&mut self, node: NodeId) -> Result<(), ClusterError> {
        self.members.entry(node).or_default().removed = true;
        self.write()
    }

    /// Takes over where members are, and keeps it if that is news. Whoever is named without a place, as by an
    /// inviter of an earlier release, is none yet.
    pub(super) fn learn(
        &mut self,
        found: impl IntoIterator<Item = (NodeId, Vec<String>)>,
    ) -> Result<(), ClusterError> {
        let mut news = false;
        for (node, addresses) in found.into_iter().filter(|(_, addresses)| !addresses.is_empty()) {
            let member = self.members.entry(node).or_default();
            news |= member.addresses != addresses;
            member.addresses = addresses;
        }
        if news { self.write() } else { Ok(()) }
    }

    fn write(&self) -> Result<(), ClusterError> {
        let members = self.members.iter().map(|(node, member)| {
            let (addresses, removed) = (member.addresses.clone(), member.removed);
            let key = member.key.map(|key| STANDARD.encode(key.0));
            (format!("{:016x}", node.0), Entry { addresses, key, removed })
        });
        let document = Document { format: FORMAT, members: members.collect() };
        let text = serde_json::to_vec_pretty(&document).expect("texts encode");
        write(&self.path, &text)
    }
}

impl Entry {
    fn member(self) -> Option<Member> {
        let addresses = checked_addresses(self.addresses)?;
        let key = match self.key {
            Some(text) => Some(PublicKey(STANDARD.decode(text).ok()?.try_into().ok()?)),
            None => None,
        };
        Some(Member { addresses, key, removed: self.removed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> Vec<String> {
        vec!["127.0.0.1:7181".to_owned()]
    }

    #[test]
    fn members_are_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::of(directory.path());
        folder.create(&folder.path("")).unwrap();
        let mut members = Members::open(&folder).unwrap();
        members.certify(NodeId(u64::MAX), PublicKey([1; 32])).unwrap();
        members.learn([(NodeId(5), addresses()), (NodeId(u64::MAX), addresses())]).unwrap();
        let read = Members::open(&folder).unwrap();
        assert_eq!(read.members, members.members);
        assert_eq!(read.members.len(), 2);
        assert_eq!(read.members[&NodeId(u64::MAX)].key, Some(PublicKey([1; 32])));
    }

    #[test]
    fn an_id_is_taken_by_whoever_has_it_with_another_key() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::of(directory.path());
        folder.create(&folder.path("")).unwrap();
        let mut members = Members::open(&folder).unwrap();
        members.certify(NodeId(1), PublicKey([1; 32])).unwrap();
        members.learn([(NodeId(2), addresses())]).unwrap();
        assert!(!members.is_taken(NodeId(1), PublicKey([1; 32])));
        assert!(members.is_taken(NodeId(1), PublicKey([2; 32])));
        assert!(members.is_taken(NodeId(2), PublicKey([2; 32])), "certified by another node");
        assert!(!members.is_taken(NodeId(3), PublicKey([2; 32])));
    }

    #[test]
    fn the_id_of_a_removed_member_never_comes_back() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::of(directory.path());
        folder.create(&folder.path("")).unwrap();
        let mut members = Members::open(&folder).unwrap();
        members.certify(NodeId(1), PublicKey([1; 32])).unwrap();
        members.remove(NodeId(1)).unwrap();
        let read = Members::open(&folder).unwrap();
        assert_eq!((read.removed(), read.iter().count()), (vec![NodeId(1)], 0));
        assert!(read.is_taken(NodeId(1), PublicKey([1; 32])));
    }

    #[test]
    fn a_member_counts_once_it_is_known_where_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::of(directory.path());
        folder.create(&folder.path("")).unwrap();
        // As earlier releases wrote it: one certified here, and one that such an inviter has told of.
        let key = STANDARD.encode([1; 32]);
        let kept = format!(
            r#"{{ "format": 1, "members": {{
                "0000000000000001": {{ "addresses": [], "key": "{key}" }},
                "0000000000000002": {{ "addresses": [] }}
            }} }}"#
        );
        write(&folder.path("members.json"), kept.as_bytes()).unwrap();
        let mut members = Members::open(&folder).unwrap();
        members.certify(NodeId(3), PublicKey([3; 32])).unwrap();
        members.learn([(NodeId(4), Vec::new())]).unwrap();
        for members in [&members, &Members::open(&folder).unwrap()] {
            assert_eq!(members.iter().count(), 0);
            assert_eq!(members.expected().collect::<Vec<_>>(), [1, 2, 3].map(NodeId));
            // Their ids are theirs nevertheless.
            assert!(members.is_taken(NodeId(1), PublicKey([9; 32])));
            assert!(members.is_taken(NodeId(2), PublicKey([9; 32])));
            assert!(members.is_taken(NodeId(3), PublicKey([9; 32])));
            assert!(!members.is_taken(NodeId(3), PublicKey([3; 32])));
            assert!(!members.is_taken(NodeId(4), PublicKey([9; 32])), "nothing was said of it");
        }
        members.learn([(NodeId(3), addresses())]).unwrap();
        let read = Members::open(&folder).unwrap();
        assert_eq!(read.iter().map(|(node, _)| node).collect::<Vec<_>>(), [NodeId(3)]);
        members.remove(NodeId(2)).unwrap();
        assert_eq!(members.expected().collect::<Vec<_>>(), [NodeId(1)], "the others came, or went");
    }

    #[test]
    fn a_damaged_file_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::of(directory.path());
        folder.create(&folder.path("")).unwrap();
        write(&folder.path("members.json"), b"{\"format\":1,\"members\":{\"x\":{}}}").unwrap();
        assert!(matches!(Members::open(&folder), Err(ClusterError::Damaged { .. })));
    }
}
