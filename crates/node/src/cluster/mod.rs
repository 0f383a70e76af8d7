//! A cluster: who its members are, who may become one, and the connections between them.
//!
//! `found` makes a cluster of one node, with an authority of its own. A member invites others
//! (`Cluster::invite`), and whoever has such a token may join once (`Inviter`). `Cluster::start` then
//! brings up the connections of a member and keeps its address book. What is trusted, and what is on the
//! disk, is in `docs/cluster.md`.

mod admission;
mod authority;
mod folder;
mod invitations;
mod joining;
mod members;
#[cfg(test)]
mod tests;
mod token;
mod way;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use outlast_lineage::NodeId;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

pub use authority::{Authority, PrivateKey, PublicKey};
pub(crate) use invitations::VALID_MAX;
pub use joining::{Inviter, joined};
pub use token::{JoinToken, NoToken};
pub use way::{Way, way_to_others};

use crate::transport::{ClusterId, Event, IdentityError, Settings, Transport};
use admission::Admissions;
use folder::Folder;
use members::Members;
use token::Fingerprint;

/// How long a node that goes waits for its last words to leave: they are few, and a peer that does not
/// read them is not to hold it up.
const FAREWELL_MAX: Duration = Duration::from_millis(500);

/// Why something about a cluster could not be done.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The operating system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What it said.
        #[source]
        source: io::Error,
    },
    /// A file is not what was written.
    #[error("{} is damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// A file of a member is not there.
    #[error("{} is missing", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A member's certificate is not there, or a node ended while it joined.
    #[error(
        "{certificate} is missing, though {left} says that the node is in a cluster or was joining one, so it does not \
         go on alone: put the file back; or start the node with --token and a token of the member that let it in, the \
         one it joined with or a new one (`outlast cluster invite` there); if that is refused, this machine joins as \
         a new node, with an empty directory"
    )]
    Uncertified {
        /// The certificate's file.
        certificate: PathBuf,
        /// What there is.
        left: PathBuf,
    },
    /// A cluster was founded in part.
    #[error(
        "{certificate} is missing, though {left} is there: `outlast cluster init` did not come to its end, or the file \
         was lost; run that again before the node is started"
    )]
    Unfounded {
        /// The certificate's file.
        certificate: PathBuf,
        /// What there is.
        left: PathBuf,
    },
    /// Others can read a private key: they can be the node, or let in whom they like.
    #[error("others can read the private key {path} (mode {mode:03o}); run: chmod 600 {path}")]
    Exposed {
        /// The key's file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The certificate and the key are no identity.
    #[error("{} cannot be used", path.display())]
    Identity {
        /// The certificate's file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: IdentityError,
    },
    /// The node's data and its certificate are of two nodes.
    #[error(
        "the data directory is of node {node:016x}, and its certificate of node {certified:016x}; \
         they do not belong together"
    )]
    AnotherNode {
        /// Whose data it is.
        node: u64,
        /// Whom the certificate names.
        certified: u64,
    },
    /// Another process was heard as the node.
    #[error(
        "another process was heard as the node of this data directory, so it does not start: keep the one that is \
         heard (`outlast cluster status` at a member says where that is), and have this machine join as a new node, \
         with an empty directory and a token (`outlast cluster invite`). Only if the other one is gone for good, \
         and was not heard while this one was down, delete {} and start it again",
        path.display()
    )]
    PutAside {
        /// The file that says so.
        path: PathBuf,
    },
    /// The node is a member already.
    #[error("the node is a member of cluster {cluster} already")]
    Member {
        /// Of which cluster.
        cluster: ClusterId,
    },
    /// The node is a member, but of another cluster.
    #[error(
        "the node is a member of cluster {cluster}, and the token is of another one; a node is in \
         one cluster only"
    )]
    MemberElsewhere {
        /// Of which cluster.
        cluster: ClusterId,
    },
    /// Too many invitations are out.
    #[error("{open} invitations are out; wait until some have expired")]
    TooManyInvitations {
        /// How many.
        open: usize,
    },
    /// Nobody would know where to go with an invitation.
    #[error("nobody is told where this node is; start it with --cluster-address HOST:PORT")]
    NotReachable,
    /// The node could not join.
    #[error("the node could not join")]
    NotJoined(#[source] NotJoined),
    /// The connections could not be brought up.
    #[error("cannot talk to other nodes")]
    Connections(#[source] io::Error),
    /// Others could not come here.
    #[error("cannot listen for other nodes on {listen}")]
    Listen {
        /// Where.
        listen: SocketAddr,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
}

/// Why a node could not join.
#[derive(Debug, thiserror::Error)]
pub enum NotJoined {
    /// Neither the token nor anybody says where to.
    #[error("neither the token nor --join says where the cluster is")]
    NoAddress,
    /// Somebody else answered.
    #[error(
        "it is not the node that gave out the token who answers at {address}; give that one's address, \
         with its port for other nodes (--cluster-address there), or leave --join out"
    )]
    SomebodyElse {
        /// Where.
        address: String,
        /// What came of it.
        #[source]
        source: io::Error,
    },
    /// The inviter was not reached.
    #[error("the node that gave out the token does not answer at {address}")]
    Unreachable {
        /// Where it was tried.
        address: String,
        /// What came of it.
        #[source]
        source: io::Error,
    },
    /// The inviter said no.
    #[error("{0}")]
    Refused(String),
    /// The inviter's answer makes no member.
    #[error("the answer does not make this node a member")]
    Nonsense,
}

impl NotJoined {
    /// Whether nobody answered: that may be different in a moment. Who is not the inviter will not
    /// become it.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { source, .. } => source.kind() != io::ErrorKind::Other,
            Self::SomebodyElse { .. } | Self::NoAddress | Self::Refused(_) | Self::Nonsense => {
                false
            }
        }
    }
}

impl ClusterError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// Whether what the folder says of the cluster cannot be used.
    pub const fn is_of_the_folder(&self) -> bool {
        matches!(
            self,
            Self::Io { .. }
                | Self::Damaged { .. }
                | Self::Missing { .. }
                | Self::Uncertified { .. }
                | Self::Unfounded { .. }
                | Self::Exposed { .. }
                | Self::Identity { .. }
                | Self::AnotherNode { .. }
                | Self::PutAside { .. }
        )
    }

    fn damaged(path: &Path) -> Self {
        Self::Damaged { path: path.to_owned() }
    }
}

/// Whether the node of a data directory is a member of a cluster.
pub fn is_member(directory: &Path) -> bool {
    Folder::of(directory).is_member()
}

/// The other members that the node of a data directory has heard of, and those of them that were
/// removed; none if it is no member.
pub(crate) fn others_of(
    directory: &Path,
    node: NodeId,
) -> Result<(BTreeSet<NodeId>, BTreeSet<NodeId>), ClusterError> {
    let folder = Folder::of(directory);
    if !folder.is_member() {
        return Ok(Default::default());
    }
    let members = Members::open(&folder)?;
    let others = members.iter().map(|(member, _)| member).filter(|member| *member != node);
    Ok((others.collect(), members.removed().into_iter().collect()))
}

/// Keeps the node of a data directory from starting again, because another process is heard as it: two that took
/// turns would write in one name. Only a person knows which of them is the copy.
pub fn put_aside(directory: &Path, why: &str) -> Result<(), ClusterError> {
    Folder::of(directory).put_aside(why)
}

/// Whether the node of a data directory may start: a member whose place in the cluster cannot be used is told so
/// before it goes on with anything.
pub fn may_start(directory: &Path) -> Result<(), ClusterError> {
    let folder = Folder::of(directory);
    match folder.put_aside_by() {
        Some(path) => Err(ClusterError::PutAside { path }),
        None => folder.credentials().map(drop),
    }
}

/// Whether the node of a data directory, which is no member and is not told to join, may go on alone: what is left of
/// a membership says that others count on it.
pub fn may_be_alone(directory: &Path) -> Result<(), ClusterError> {
    let folder = Folder::of(directory);
    folder.check_whole()?;
    folder.check_founded()
}

/// Listens for other nodes; port 0 takes any free one.
pub async fn listen(listen: SocketAddr) -> Result<TcpListener, ClusterError> {
    TcpListener::bind(listen).await.map_err(|source| ClusterError::Listen { listen, source })
}

/// Makes a cluster whose only member is the node of a data directory.
pub fn found(directory: &Path, node: NodeId) -> Result<ClusterId, ClusterError> {
    let folder = Folder::of(directory);
    if let Some(credentials) = folder.credentials()? {
        return Err(ClusterError::Member { cluster: credentials.identity.cluster });
    }
    // Its authority may be the only copy there is.
    folder.check_whole()?;
    let authority = Authority::found();
    let certificate = authority.certify(node, folder.node_key()?.public());
    folder.keep(&certificate, &authority)?;
    Ok(authority.cluster)
}

/// A member that is connected to the others. Cheap to clone; it runs until it is stopped.
#[derive(Clone)]
pub struct Cluster {
    transport: Transport,
    admissions: Arc<Admissions>,
    fingerprint: Fingerprint,
    keeping: AbortHandle,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Cluster").field(self.transport.identity()).finish()
    }
}

/// A token, and when it is worth nothing any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invitation {
    /// What the joiner needs.
    pub token: JoinToken,
    /// Until when.
    pub expires: SystemTime,
}

impl Cluster {
    /// Brings up the connections of the member that keeps its data in a directory, which listens for the
    /// others already; nothing if it is no member. Events must be read for as long as it runs.
    pub fn start(
        directory: &Path,
        node: NodeId,
        settings: Settings,
        listener: TcpListener,
    ) -> Result<Option<(Self, mpsc::Receiver<Event>)>, ClusterError> {
        let folder = Folder::of(directory);
        let Some(credentials) = folder.credentials()? else { return Ok(None) };
        let identity = credentials.identity;
        if identity.node != node {
            let (node, certified) = (node.0, identity.node.0);
            return Err(ClusterError::AnotherNode { node, certified });
        }
        let fingerprint = Fingerprint::of(&identity.authority);
        let admissions = Admissions::open(&folder, node, credentials.authority)?;
        let (transport, events) =
            Transport::start(identity, settings, listener, Some(Arc::clone(&admissions) as _))
                .map_err(ClusterError::Connections)?;
        admissions.removed().into_iter().for_each(|removed| transport.shut_out(removed));
        for (member, addresses) in admissions.places() {
            transport.know(member, addresses);
        }
        // The first to know where this node is: whoever joins is told.
        admissions.learn([(node, transport.advertised().to_vec())])?;
        let keeping = tokio::spawn(keep_book(transport.clone(), Arc::clone(&admissions)));
        let keeping = keeping.abort_handle();
        Ok(Some((Self { transport, admissions, fingerprint, keeping }, events)))
    }

    /// Invites one node, for a time.
    pub fn invite(&self, valid: Duration) -> Result<Invitation, ClusterError> {
        let addresses = self.transport.advertised().to_vec();
        if addresses.is_empty() {
            return Err(ClusterError::NotReachable);
        }
        let now = SystemTime::now();
        let valid = valid.min(invitations::VALID_MAX);
        let (invitation, secret) = self.admissions.invite(now, valid)?;
        let identity = self.transport.identity();
        let token = JoinToken {
            cluster: identity.cluster,
            inviter: identity.node,
            addresses,
            fingerprint: self.fingerprint,
            invitation,
            secret,
        };
        Ok(Invitation { token, expires: now + valid })
    }

    /// The connections.
    pub const fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Where every member is that this node has heard of, itself included.
    pub fn places(&self) -> BTreeMap<NodeId, Vec<String>> {
        let mut places = self.transport.places();
        places.insert(self.transport.identity().node, self.transport.advertised().to_vec());
        places
    }

    /// The other members that this node has heard of and that were not removed.
    pub(crate) fn others(&self) -> BTreeSet<NodeId> {
        let (kept, met) = (self.admissions.places(), self.transport.places());
        let mut others: BTreeSet<_> = kept.into_iter().map(|(node, _)| node).collect();
        others.extend(met.into_keys());
        others.remove(&self.transport.identity().node);
        others
    }

    /// Nodes that were let in and have not come, as far as this one knows: whoever lets a node in knows that
    /// alone, until it comes.
    pub(crate) fn expected(&self) -> BTreeSet<NodeId> {
        let met = self.places();
        let expected = self.admissions.expected().into_iter();
        expected.filter(|node| !met.contains_key(node)).collect()
    }

    /// Whether a node is a member as far as this one has heard, or was one until it was removed.
    pub(crate) fn has_heard_of(&self, node: NodeId) -> bool {
        node == self.transport.identity().node
            || self.others().contains(&node)
            || self.admissions.removed().contains(&node)
    }

    /// Removes a member that is lost for good: this node does not hear it any more, nor lets its id
    /// in again. The other members are to be told the same. Writes to the disk.
    pub fn remove(&self, node: NodeId) -> Result<(), ClusterError> {
        self.admissions.remove(node)?;
        self.transport.shut_out(node);
        Ok(())
    }

    /// Lets the node's last words leave, and closes all connections: that it goes is the last that the
    /// others hear of it, and whoever hears nothing takes it for lost.
    pub async fn leave(&self) {
        self.transport.flush(FAREWELL_MAX).await;
        self.stop();
    }

    /// Closes all connections.
    pub fn stop(&self) {
        self.keeping.abort();
        self.transport.stop();
    }
}

/// Keeps where peers are on the disk, whenever that changes.
async fn keep_book(transport: Transport, admissions: Arc<Admissions>) {
    let mut news = transport.news();
    while news.changed().await.is_ok() {
        let (places, admissions) = (transport.places(), Arc::clone(&admissions));
        let kept = tokio::task::spawn_blocking(move || admissions.learn(places)).await;
        // What is not kept now is kept with the next news, or learned again.
        if let Ok(Err(error)) = kept {
            tracing::warn!(%error, "the addresses of members could not be kept");
        }
    }
}
