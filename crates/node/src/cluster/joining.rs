//! The joiner's side: it finds the inviter, makes sure who it is, and asks.
//!
//! Reaching the inviter and asking it are two steps, because a token is used up when it is shown: what may
//! keep the joiner from being a member, it finds out in between, by the connection it will be shown on.
//! The node's private key is on the disk before the first question, so that a joiner that was
//! interrupted asks the same again and gets the same answer.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use outlast_lineage::NodeId;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::net::TcpStream;
use tokio::time::error::Elapsed;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::admission::{Admitted, Answer, Request};
use super::authority::{Authority, PrivateKey};
use super::folder::Folder;
use super::members::Members;
use super::token::{Fingerprint, JoinToken};
use super::{ClusterError, NotJoined};
use crate::transport::{
    ClusterId, Connection, FrameError, Identity, JOINING, Kind, checked_addresses, name_of,
    provider, trusting,
};

/// How long one address may take to connect.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long the whole conversation may take.
const CONVERSATION_MAX: Duration = Duration::from_secs(15);
/// The longest answer: certificates, and the addresses of many members.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// The cluster of the node of a data directory, if it is a member of the one that a token is of: it stays
/// what it is, and shows the token to nobody.
pub fn joined(directory: &Path, token: &JoinToken) -> Result<Option<ClusterId>, ClusterError> {
    let Some(credentials) = Folder::of(directory).credentials()? else { return Ok(None) };
    let cluster = credentials.identity.cluster;
    match cluster == token.cluster {
        true => Ok(Some(cluster)),
        false => Err(ClusterError::MemberElsewhere { cluster }),
    }
}

/// The node that gave out a token, which has shown that it is that one and was shown nothing yet.
pub struct Inviter<'a> {
    token: &'a JoinToken,
    address: &'a str,
    local: SocketAddr,
    connection: Connection<TlsStream<TcpStream>>,
}

impl<'a> Inviter<'a> {
    /// Connects with the inviter at the addresses given, or else at those in the token.
    pub async fn reach(token: &'a JoinToken, at: &'a [String]) -> Result<Self, ClusterError> {
        let addresses = if at.is_empty() { &token.addresses } else { at };
        let mut last = NotJoined::NoAddress;
        for address in addresses {
            let connecting = tokio::time::timeout(CONNECT_MAX, TcpStream::connect(address));
            match in_time(connecting).await {
                Ok(stream) => match Self::greet(token, address, stream).await {
                    Ok(inviter) => return Ok(inviter),
                    Err(source) => last = NotJoined::at(address, source),
                },
                Err(source) => last = NotJoined::at(address, source),
            }
        }
        Err(ClusterError::NotJoined(last))
    }

    async fn greet(token: &'a JoinToken, address: &'a str, stream: TcpStream) -> io::Result<Self> {
        let local = stream.local_addr()?;
        let config = config(token).map_err(io::Error::other)?;
        let name = ServerName::try_from(name_of(token.cluster, token.inviter))
            .expect("digits and dots make a name");
        let handshake = TlsConnector::from(Arc::new(config)).connect(name, stream);
        let stream = in_time(tokio::time::timeout(CONVERSATION_MAX, handshake)).await?;
        Ok(Self { token, address, local, connection: Connection::new(stream) })
    }

    /// This end of the connection: an address of this machine that is on the way to the cluster.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Shows the token, and makes the node of a data directory a member, which is to be found at some addresses and
    /// listens there; if none are given, it is not looked for.
    pub async fn join(
        self,
        directory: &Path,
        node: NodeId,
        addresses: &[String],
    ) -> Result<ClusterId, ClusterError> {
        let folder = Folder::of(directory);
        let key = folder.node_key()?;
        let (token, address) = (self.token, self.address);
        let request = Request::new(token, node, &key).reached_at(addresses);
        let conversation = self.converse(&request);
        let answer = in_time(tokio::time::timeout(CONVERSATION_MAX, conversation)).await;
        match answer.map_err(|source| ClusterError::NotJoined(NotJoined::at(address, source)))? {
            Answer::Admitted(admitted) => enter(&folder, node, token, &key, admitted),
            Answer::Refused(reason) => Err(ClusterError::NotJoined(NotJoined::Refused(reason))),
        }
    }

    async fn converse(mut self, request: &Request) -> io::Result<Answer> {
        self.connection.allow(ANSWER_BYTES_MAX);
        let request = minicbor::to_vec(request).expect("writing to memory does not fail");
        self.connection.send(Kind::JoinRequest, &request).await?;
        let frame = self.connection.next(CONVERSATION_MAX).await.map_err(ended)?;
        self.connection.finish().await;
        minicbor::decode(&frame.payload).map_err(io::Error::other)
    }
}

impl NotJoined {
    /// What came of asking at an address.
    fn at(address: &str, source: io::Error) -> Self {
        let address = address.to_owned();
        // What it says is no TLS of ours, or not the inviter's.
        match source.kind() {
            io::ErrorKind::InvalidData => Self::SomebodyElse { address, source },
            _ => Self::Unreachable { address, source },
        }
    }
}

/// How the conversation ended. Whoever went away after it was shown the token may come back, and gives the same
/// answer then; whoever breaks the rules would do so again.
fn ended(error: FrameError) -> io::Error {
    match error {
        FrameError::Closed => io::Error::new(io::ErrorKind::ConnectionAborted, error),
        FrameError::Silent(_) => io::Error::new(io::ErrorKind::TimedOut, error),
        FrameError::Io(source) if source.kind() != io::ErrorKind::InvalidData => source,
        error => io::Error::other(error),
    }
}

/// What takes too long has failed.
async fn in_time<T>(
    limited: impl Future<Output = Result<io::Result<T>, Elapsed>>,
) -> io::Result<T> {
    limited.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Checks the answer and writes it down.
fn enter(
    folder: &Folder,
    node: NodeId,
    token: &JoinToken,
    key: &PrivateKey,
    admitted: Admitted,
) -> Result<ClusterId, ClusterError> {
    let nonsense = || ClusterError::NotJoined(NotJoined::Nonsense);
    let identity = Identity::from_pem(&admitted.certificate, &admitted.authority, &key.to_pem())
        .map_err(|_| nonsense())?;
    let authority_certificate =
        CertificateDer::from_pem_slice(admitted.authority.as_bytes()).map_err(|_| nonsense())?;
    let ours = identity.cluster == token.cluster
        && identity.node == node
        && Fingerprint::of(&authority_certificate) == token.fingerprint;
    let authority =
        Authority::from_pem(identity.cluster, &admitted.authority, &admitted.authority_key);
    let authority = authority.filter(|_| ours).ok_or_else(nonsense)?;
    let places = admitted
        .members
        .into_iter()
        .filter_map(|place| Some((NodeId(place.node), checked_addresses(place.addresses)?)));
    Members::open(folder)?.learn(places)?;
    folder.keep(&admitted.certificate, &authority)?;
    Ok(identity.cluster)
}

fn config(token: &JoinToken) -> Result<ClientConfig, rustls::Error> {
    let pinned = Pinned { fingerprint: token.fingerprint, provider: provider() };
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pinned))
        .with_no_client_auth();
    config.alpn_protocols = vec![JOINING.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Trusts the one authority whose certificate has the digest in the token.
#[derive(Debug)]
struct Pinned {
    fingerprint: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let authority = intermediates.iter().find(|it| Fingerprint::of(it) == self.fingerprint);
        let authority = authority.ok_or(CertificateError::UnknownIssuer)?;
        trusting(authority.clone().into_owned())?.verify_server_cert(
            end_entity,
            &[],
            server_name,
            ocsp_response,
            now,
        )
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
