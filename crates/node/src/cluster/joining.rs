//! The joiner's side: it finds the inviter, makes sure who it is, and asks.
//!
//! The node's private key is on the disk before the first question, so that a joiner that was
//! interrupted asks the same again and gets the same answer.

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
use tokio_rustls::TlsConnector;

use super::admission::{Admitted, Answer, Request};
use super::authority::{Authority, PrivateKey};
use super::folder::Folder;
use super::members::Members;
use super::token::{Fingerprint, JoinToken};
use super::{ClusterError, NotJoined};
use crate::transport::{
    ClusterId, Connection, Identity, JOINING, Kind, checked_addresses, name_of, provider, trusting,
};

/// How long one address may take to connect.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long the whole conversation may take.
const CONVERSATION_MAX: Duration = Duration::from_secs(15);
/// The longest answer: certificates, and the addresses of many members.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Makes the node of a data directory a member of the cluster that a token is of. Tried at the
/// addresses given, or else at those in the token. A member of that cluster stays what it is.
pub async fn join(
    directory: &Path,
    node: NodeId,
    token: &JoinToken,
    at: &[String],
) -> Result<ClusterId, ClusterError> {
    let folder = Folder::of(directory);
    if let Some(credentials) = folder.credentials()? {
        let cluster = credentials.identity.cluster;
        return match cluster == token.cluster {
            true => Ok(cluster),
            false => Err(ClusterError::MemberElsewhere { cluster }),
        };
    }
    let key = folder.node_key()?;
    let addresses = if at.is_empty() { &token.addresses } else { at };
    let request = Request::new(token, node, &key);
    let mut last = NotJoined::NoAddress;
    for address in addresses {
        match ask(address, token, &request).await {
            Ok(admitted) => return enter(&folder, node, token, &key, admitted),
            // It was the inviter who said so; others would say the same.
            Err(refused @ NotJoined::Refused(_)) => return Err(ClusterError::NotJoined(refused)),
            Err(error) => last = error,
        }
    }
    Err(ClusterError::NotJoined(last))
}

async fn ask(address: &str, token: &JoinToken, request: &Request) -> Result<Admitted, NotJoined> {
    let unreachable = |source: std::io::Error| {
        let address = address.to_owned();
        // What it says is no TLS of ours, or not the inviter's.
        match source.kind() {
            std::io::ErrorKind::InvalidData => NotJoined::SomebodyElse { address, source },
            _ => NotJoined::Unreachable { address, source },
        }
    };
    let slow = || unreachable(std::io::ErrorKind::TimedOut.into());
    let connecting = tokio::time::timeout(CONNECT_MAX, TcpStream::connect(address));
    let stream = connecting.await.map_err(|_| slow())?.map_err(unreachable)?;
    let conversation = tokio::time::timeout(CONVERSATION_MAX, converse(stream, token, request));
    match conversation.await.map_err(|_| slow())?.map_err(unreachable)? {
        Answer::Admitted(admitted) => Ok(admitted),
        Answer::Refused(reason) => Err(NotJoined::Refused(reason)),
    }
}

async fn converse(
    stream: TcpStream,
    token: &JoinToken,
    request: &Request,
) -> std::io::Result<Answer> {
    let config = config(token).map_err(std::io::Error::other)?;
    let name = ServerName::try_from(name_of(token.cluster, token.inviter))
        .expect("digits and dots make a name");
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let mut connection = Connection::new(stream);
    connection.allow(ANSWER_BYTES_MAX);
    let request = minicbor::to_vec(request).expect("writing to memory does not fail");
    connection.send(Kind::JoinRequest, &request).await?;
    let frame = connection.next(CONVERSATION_MAX).await.map_err(std::io::Error::other)?;
    connection.finish().await;
    minicbor::decode(&frame.payload).map_err(std::io::Error::other)
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
