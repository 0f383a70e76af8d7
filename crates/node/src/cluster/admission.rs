//! The conversation of joining, and the inviter's side of it.
//!
//! The joiner sends one request: its invitation and the secret, its id, its public key, and a
//! signature that shows that it has the private key. It gets one answer: its certificate, the
//! authority, and where the members are; or why not. Nothing is looked at before the secret is known
//! to be right. The joiner must be found where it says that it is, and its id must not be somebody
//! else's; the key on record is durable before the mark that the invitation is used, and that mark
//! before the answer.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use minicbor::{Decode, Encode};
use outlast_lineage::NodeId;

use super::ClusterError;
use super::authority::{Authority, PrivateKey, PublicKey};
use super::folder::Folder;
use super::invitations::{Invitations, Redeemable};
use super::members::Members;
use super::token::{JoinToken, Secret};
use crate::transport::{Admission, ClusterId, Reply};

/// How many of a joiner's addresses are tried, how long one may take to connect, and all of them together: it
/// waits for its answer.
const ADDRESSES_TRIED: usize = 3;
const CONNECT_MAX: Duration = Duration::from_secs(2);
const REACH_MAX: Duration = Duration::from_secs(6);

/// What a joiner asks.
#[derive(Clone, Encode, Decode, Debug)]
pub(super) struct Request {
    #[n(0)]
    pub(super) invitation: u64,
    #[cbor(n(1), with = "minicbor::bytes")]
    secret: [u8; 32],
    #[n(2)]
    pub(super) node: u64,
    #[cbor(n(3), with = "minicbor::bytes")]
    key: [u8; 32],
    #[cbor(n(4), with = "minicbor::bytes")]
    signature: Vec<u8>,
    /// Where the others are to find it; it listens there already. Releases before did not say.
    #[n(5)]
    addresses: Option<Vec<String>>,
}

/// What it is answered.
#[derive(Clone, Encode, Decode, Debug)]
pub(super) enum Answer {
    #[n(0)]
    Admitted(#[n(0)] Admitted),
    #[n(1)]
    Refused(#[n(0)] String),
}

/// What makes a node a member; texts are PEM.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
pub(super) struct Admitted {
    #[n(0)]
    pub(super) certificate: String,
    #[n(1)]
    pub(super) authority: String,
    #[n(2)]
    pub(super) authority_key: String,
    #[n(3)]
    pub(super) members: Vec<Place>,
}

impl std::fmt::Debug for Admitted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Admitted").field("members", &self.members).finish_non_exhaustive()
    }
}

/// Where a member is.
#[derive(Clone, PartialEq, Eq, Encode, Decode, Debug)]
pub(super) struct Place {
    #[n(0)]
    pub(super) node: u64,
    #[n(1)]
    pub(super) addresses: Vec<String>,
}

impl Request {
    /// The request of a node that has a token and a key.
    pub(super) fn new(token: &JoinToken, node: NodeId, key: &PrivateKey) -> Self {
        let signature = key.sign(&signed(token.cluster, token.invitation, node));
        let (invitation, secret) = (token.invitation, token.secret.0);
        let (node, key) = (node.0, key.public().0);
        Self { invitation, secret, node, key, signature, addresses: None }
    }

    /// The same of a node that says where the others are to find it.
    pub(super) fn reached_at(self, addresses: &[String]) -> Self {
        let addresses = Some(addresses.to_vec()).filter(|addresses| !addresses.is_empty());
        Self { addresses, ..self }
    }

    fn is_signed(&self, cluster: ClusterId) -> bool {
        let message = signed(cluster, self.invitation, NodeId(self.node));
        PublicKey(self.key).has_signed(&message, &self.signature)
    }
}

/// What a joiner signs: nothing that could mean something elsewhere.
fn signed(cluster: ClusterId, invitation: u64, node: NodeId) -> Vec<u8> {
    format!("outlast join {cluster} {invitation:016x} {:016x}", node.0).into_bytes()
}

/// Decides who becomes a member.
#[derive(Debug)]
pub(super) struct Admissions {
    node: NodeId,
    authority: Authority,
    books: Mutex<Books>,
}

#[derive(Debug)]
struct Books {
    invitations: Invitations,
    members: Members,
}

impl Admissions {
    /// Of a member, with what its folder says.
    pub(super) fn open(
        folder: &Folder,
        node: NodeId,
        authority: Authority,
    ) -> Result<Arc<Self>, ClusterError> {
        let books =
            Books { invitations: Invitations::open(folder)?, members: Members::open(folder)? };
        Ok(Arc::new(Self { node, authority, books: Mutex::new(books) }))
    }

    /// Makes an invitation.
    pub(super) fn invite(
        &self,
        now: SystemTime,
        valid: Duration,
    ) -> Result<(u64, Secret), ClusterError> {
        self.books().invitations.issue(now, valid)
    }

    /// Where every member is that this node has heard of.
    pub(super) fn places(&self) -> Vec<(NodeId, Vec<String>)> {
        let books = self.books();
        books.members.iter().map(|(node, member)| (node, member.addresses.clone())).collect()
    }

    /// Takes over where members are.
    pub(super) fn learn(
        &self,
        places: impl IntoIterator<Item = (NodeId, Vec<String>)>,
    ) -> Result<(), ClusterError> {
        self.books().members.learn(places)
    }

    /// Those that were let in, as far as this node knows, and were never heard of.
    pub(super) fn expected(&self) -> Vec<NodeId> {
        self.books().members.expected().collect()
    }

    /// Those that are lost for good.
    pub(super) fn removed(&self) -> Vec<NodeId> {
        self.books().members.removed()
    }

    /// Remembers that a member is lost for good.
    pub(super) fn remove(&self, node: NodeId) -> Result<(), ClusterError> {
        self.books().members.remove(node)
    }

    /// Answers a request at a time.
    pub(super) fn answer(&self, now: SystemTime, request: &[u8]) -> Answer {
        let Ok(request) = minicbor::decode::<Request>(request) else {
            return Answer::Refused("the request cannot be read".to_owned());
        };
        match self.admit(now, &request) {
            Ok(admitted) => {
                tracing::info!(node = format!("{:016x}", request.node), "a node was admitted");
                Answer::Admitted(admitted)
            }
            Err(reason) => Answer::Refused(reason),
        }
    }

    fn admit(&self, now: SystemTime, request: &Request) -> Result<Admitted, String> {
        if check(&self.books(), now, request)? == Redeemable::Unused {
            // Of those who have a token only, and not while others wait for the books.
            let addresses = request.addresses.iter().flatten().map(String::as_str);
            check_reached(addresses.take(ADDRESSES_TRIED))?;
        }
        let mut books = self.books();
        let joiner = (NodeId(request.node), PublicKey(request.key));
        let redeemable = check(&books, now, request)?;
        let certificate = match redeemable {
            Redeemable::Again(_) if books.members.is_removed(joiner.0) => {
                return Err(format!(
                    "node {:016x} was removed from the cluster before it came; to take part it needs an empty \
                     data directory and a new token",
                    request.node
                ));
            }
            Redeemable::Again(certificate) => certificate,
            Redeemable::Unused => {
                self.check_joiner(&books, request, joiner)?;
                let certificate = self.authority.certify(joiner.0, joiner.1);
                books.note(request.invitation, joiner, &certificate).map_err(|error| {
                    tracing::error!(%error, "a node could not be admitted");
                    "the inviting node cannot write to its disk".to_owned()
                })?;
                certificate
            }
        };
        let places = books.members.iter().filter(|(node, _)| *node != joiner.0);
        let members = places
            .map(|(node, member)| Place { node: node.0, addresses: member.addresses.clone() })
            .collect();
        Ok(Admitted {
            certificate,
            authority: self.authority.certificate().to_owned(),
            authority_key: self.authority.key_pem(),
            members,
        })
    }

    fn check_joiner(
        &self,
        books: &Books,
        request: &Request,
        (node, key): (NodeId, PublicKey),
    ) -> Result<(), String> {
        if !request.is_signed(self.authority.cluster) {
            return Err("the signature is not of the key that asks for a certificate".to_owned());
        }
        if node == self.node || books.members.is_taken(node, key) {
            return Err(format!(
                "node {:016x} is a member already; a copied or restored data directory does not \
                 join: start with an empty one",
                node.0
            ));
        }
        Ok(())
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check(books: &Books, now: SystemTime, request: &Request) -> Result<Redeemable, String> {
    let joiner = (NodeId(request.node), PublicKey(request.key));
    let shown = (request.invitation, &Secret(request.secret));
    books.invitations.check(now, shown, joiner).map_err(|reason| reason.to_string())
}

/// Whether a node can be reached where it says. One that cannot would be counted, and waited for, as a member that is
/// down.
fn check_reached<'a>(addresses: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let deadline = Instant::now() + REACH_MAX;
    let mut failed = Vec::new();
    for address in addresses {
        match connect(address, deadline) {
            Ok(()) => return Ok(()),
            Err(error) => failed.push(format!("{address} ({error})")),
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the inviting node cannot reach the node that joins at {}, where the others would look for it: say with \
         --cluster-address where it is, and let its port be reached; the token was not used",
        failed.join(", ")
    ))
}

/// A name may be that of several addresses: one that answers is enough.
fn connect(address: &str, deadline: Instant) -> io::Result<()> {
    let mut last = io::Error::from(io::ErrorKind::TimedOut);
    for address in address.to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&address, left.min(CONNECT_MAX)) {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Books {
    fn note(
        &mut self,
        invitation: u64,
        joiner: (NodeId, PublicKey),
        certificate: &str,
    ) -> Result<(), ClusterError> {
        self.members.certify(joiner.0, joiner.1)?;
        self.invitations.mark_used(invitation, joiner, certificate)
    }
}

impl Admission for Admissions {
    fn admit(&self, request: &[u8]) -> Reply {
        let answer = self.answer(SystemTime::now(), request);
        let refused = match &answer {
            Answer::Admitted(_) => None,
            Answer::Refused(reason) => Some(reason.clone()),
        };
        let answer = minicbor::to_vec(answer).expect("writing to memory does not fail");
        Reply { answer, refused }
    }
}
