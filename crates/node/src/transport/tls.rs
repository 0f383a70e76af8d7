//! What TLS is told: version 1.3, the cluster's authority and nobody else, and what is spoken inside.
//!
//! Two things are spoken, told apart by the protocol that a caller names in its first bytes:
//! `outlast/1` between members, who both show certificates, and `outlast-join/1`, where only the node
//! that is called shows one. Sessions are never resumed: every connection is checked anew.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};

use super::identity::{Identity, provider, trusting};

/// Spoken between members.
pub(super) const MEMBERS: &[u8] = b"outlast/1";
/// Spoken with those who have a token and want to join.
pub(crate) const JOINING: &[u8] = b"outlast-join/1";

/// How a node of one cluster dials and is dialled.
#[derive(Clone)]
pub(super) struct Tls {
    /// For dialling members.
    pub(super) dial: Arc<ClientConfig>,
    /// For members that dial.
    pub(super) accept: Arc<ServerConfig>,
    /// For those who want to join.
    pub(super) admit: Arc<ServerConfig>,
}

impl Tls {
    pub(super) fn new(identity: &Identity) -> Result<Self, rustls::Error> {
        let own = vec![identity.certificate.clone()];
        // A joiner knows only the digest of the authority's certificate, so it is sent along.
        let chain = vec![identity.certificate.clone(), identity.authority.clone()];
        Ok(Self {
            dial: Arc::new(dialling(identity, own.clone())?),
            accept: Arc::new(accepting(identity, own)?),
            admit: Arc::new(admitting(identity, chain)?),
        })
    }
}

fn dialling(
    identity: &Identity,
    own: Vec<CertificateDer<'static>>,
) -> Result<ClientConfig, rustls::Error> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_webpki_verifier(trusting(identity.authority.clone())?)
        .with_client_auth_cert(own, PrivateKeyDer::Pkcs8(identity.key()))?;
    config.alpn_protocols = vec![MEMBERS.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn accepting(
    identity: &Identity,
    own: Vec<CertificateDer<'static>>,
) -> Result<ServerConfig, rustls::Error> {
    let verifier = WebPkiClientVerifier::builder_with_provider(identity.roots()?, provider())
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(own, PrivateKeyDer::Pkcs8(identity.key()))?;
    Ok(without_sessions(config, MEMBERS))
}

fn admitting(
    identity: &Identity,
    chain: Vec<CertificateDer<'static>>,
) -> Result<ServerConfig, rustls::Error> {
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::Pkcs8(identity.key()))?;
    Ok(without_sessions(config, JOINING))
}

fn without_sessions(mut config: ServerConfig, protocol: &[u8]) -> ServerConfig {
    config.alpn_protocols = vec![protocol.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config
}
