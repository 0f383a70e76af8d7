//! Who a node is on the wire: its cluster and its number, as its certificate says them.
//!
//! A certificate names its node as `NODE.CLUSTER.outlast`, both in hexadecimal. The name has the form
//! of a host name, so that the ordinary checks of TLS find out whether the node that was dialled is
//! the one that answers. Nobody but the cluster's own authority is trusted.

use std::fmt;
use std::sync::Arc;

use outlast_lineage::NodeId;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};

const SUFFIX: &str = "outlast";

/// A cluster: drawn at random when it is founded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterId([u8; 16]);

impl ClusterId {
    /// Takes 16 bytes as they are.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    fn parse(text: &str) -> Option<Self> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = digits.then(|| u128::from_str_radix(text, 16).ok())??;
        Some(Self(number.to_be_bytes()))
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// The name of a node of a cluster, as it stands in the node's certificate.
pub fn name_of(cluster: ClusterId, node: NodeId) -> String {
    format!("{:016x}.{cluster}.{SUFFIX}", node.0)
}

fn parse_name(name: &str) -> Option<(ClusterId, NodeId)> {
    let (node, rest) = name.split_once('.')?;
    let (cluster, suffix) = rest.split_once('.')?;
    let digits = node.len() == 16 && node.bytes().all(|byte| byte.is_ascii_hexdigit());
    let node = digits.then(|| u64::from_str_radix(node, 16).ok())??;
    (suffix == SUFFIX).then_some((ClusterId::parse(cluster)?, NodeId(node)))
}

/// The one node that a certificate names. Says nothing about who signed it.
pub(crate) fn named_in(certificate: &CertificateDer<'_>) -> Option<(ClusterId, NodeId)> {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
    let mut names = certificate.valid_dns_names();
    let (Some(name), None) = (names.next(), names.next()) else { return None };
    parse_name(name)
}

/// Why a certificate and its key are no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A text is not PEM, or not of what it should be.
    #[error("the {what} is not readable")]
    Unreadable {
        /// Which text.
        what: &'static str,
    },
    /// The certificate names no node of a cluster.
    #[error("the node's certificate names no node")]
    Nameless,
    /// The authority has not signed it, it has expired, or the key is another's.
    #[error("the node's certificate is not valid")]
    Invalid(#[source] rustls::Error),
}

/// Who a node is, and what proves it. The private key is never shown.
#[derive(Clone)]
pub struct Identity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node.
    pub node: NodeId,
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) authority: CertificateDer<'static>,
    key: Arc<PrivatePkcs8KeyDer<'static>>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&name_of(self.cluster, self.node))
    }
}

impl Identity {
    /// The identity that a certificate of the authority and its private key give; all in PEM.
    pub fn from_pem(certificate: &str, authority: &str, key: &str) -> Result<Self, IdentityError> {
        let unreadable = |what| move |_| IdentityError::Unreadable { what };
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())
            .map_err(unreadable("node's certificate"))?;
        let authority = CertificateDer::from_pem_slice(authority.as_bytes())
            .map_err(unreadable("authority's certificate"))?;
        let key = PrivatePkcs8KeyDer::from_pem_slice(key.as_bytes())
            .map_err(unreadable("node's private key"))?;
        let (cluster, node) = named_in(&certificate).ok_or(IdentityError::Nameless)?;
        let identity = Self { cluster, node, certificate, authority, key: Arc::new(key) };
        identity.check().map_err(IdentityError::Invalid)?;
        Ok(identity)
    }

    /// One that nobody would believe.
    #[cfg(test)]
    pub(super) fn unchecked(certificate: &str, authority: &str, key: &str) -> Self {
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        let authority = CertificateDer::from_pem_slice(authority.as_bytes()).unwrap();
        let key = PrivatePkcs8KeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let (cluster, node) = named_in(&certificate).unwrap();
        Self { cluster, node, certificate, authority, key: Arc::new(key) }
    }

    /// The private key, for those who sign with it.
    pub(super) fn key(&self) -> PrivatePkcs8KeyDer<'static> {
        self.key.clone_key()
    }

    /// The name under which a node of this cluster is dialled.
    pub(super) fn name_of(&self, node: NodeId) -> ServerName<'static> {
        ServerName::try_from(name_of(self.cluster, node)).expect("digits and dots make a name")
    }

    pub(super) fn roots(&self) -> Result<Arc<RootCertStore>, rustls::Error> {
        roots(self.authority.clone())
    }

    fn check(&self) -> Result<(), rustls::Error> {
        let name = self.name_of(self.node);
        verifier(self.roots()?)?.verify_server_cert(
            &self.certificate,
            &[],
            &name,
            &[],
            UnixTime::now(),
        )?;
        super::tls::Tls::new(self).map(drop)
    }
}

fn roots(authority: CertificateDer<'static>) -> Result<Arc<RootCertStore>, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(authority)?;
    Ok(Arc::new(roots))
}

fn verifier(roots: Arc<RootCertStore>) -> Result<Arc<WebPkiServerVerifier>, rustls::Error> {
    WebPkiServerVerifier::builder_with_provider(roots, provider())
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))
}

/// What checks that a server's certificate was signed by one authority.
pub(crate) fn trusting(
    authority: CertificateDer<'static>,
) -> Result<Arc<WebPkiServerVerifier>, rustls::Error> {
    verifier(roots(authority)?)
}

/// The cryptography that all connections between nodes use.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back() {
        let (cluster, node) = (ClusterId::from_bytes([7; 16]), NodeId(u64::MAX - 1));
        assert_eq!(parse_name(&name_of(cluster, node)), Some((cluster, node)));
    }

    #[test]
    fn other_names_name_no_node() {
        let good = name_of(ClusterId::from_bytes([7; 16]), NodeId(5));
        for bad in [
            "",
            "outlast",
            "localhost",
            &good[1..],
            &good.replace(".outlast", ".example"),
            &format!("{good}.example"),
            &good.replacen('0', "+", 1),
        ] {
            assert_eq!(parse_name(bad), None, "{bad}");
        }
    }
}
