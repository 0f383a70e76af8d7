//! The authority of a cluster: it signs the certificates that make a node a member.
//!
//! Every member holds the authority's key, so that any of them can invite others and the loss of none
//! of them matters (`docs/cluster.md` says what that means for trust). Keys are Ed25519.

use std::fmt;

use outlast_lineage::NodeId;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ED25519, PublicKeyData, SerialNumber,
    SignatureAlgorithm, SigningKey, date_time_ymd,
};
use rustls::SignatureScheme;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;

use crate::random;
use crate::transport::{ClusterId, name_of, provider};

/// Certificates are valid from a day that no clock is before, if it was ever set, to one that no
/// cluster sees: a member is shut out by a new authority, not by waiting, and a node whose clock is
/// wrong is not to fall out of its cluster.
const FIRST_YEAR: i32 = 2000;
const LAST_YEAR: i32 = 2100;

/// The public key of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ED25519
    }
}

impl PublicKey {
    /// Whether a signature of a message was made with the private key to this one.
    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let algorithms = provider().signature_verification_algorithms;
        let mut known = algorithms.mapping.iter();
        let (_, ed25519) = known
            .find(|(scheme, _)| *scheme == SignatureScheme::ED25519)
            .expect("the provider verifies Ed25519");
        ed25519.iter().any(|it| it.verify_signature(&self.0, message, signature).is_ok())
    }
}

/// A private key, of a node or of an authority. It is never shown.
pub struct PrivateKey(KeyPair);

impl fmt::Debug for PrivateKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the private key of {:?}", self.public())
    }
}

impl PrivateKey {
    /// A new one.
    pub fn draw() -> Self {
        Self(KeyPair::generate_for(&PKCS_ED25519).expect("the operating system has random bytes"))
    }

    /// Reads one in PEM.
    pub fn from_pem(text: &str) -> Option<Self> {
        let bytes = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).ok()?;
        KeyPair::from_pkcs8_der_and_sign_algo(&bytes, &PKCS_ED25519).ok().map(Self)
    }

    /// In PEM, for the file it is kept in.
    pub(crate) fn to_pem(&self) -> String {
        self.0.serialize_pem()
    }

    /// The public key to it.
    pub fn public(&self) -> PublicKey {
        let bytes = self.0.der_bytes().try_into().expect("a key of Ed25519 has 32 bytes");
        PublicKey(bytes)
    }

    pub(super) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.0.sign(message).expect("Ed25519 signs whatever it is given")
    }
}

/// What signs the certificates of a cluster's nodes.
#[derive(Debug)]
pub struct Authority {
    /// The cluster it is of.
    pub cluster: ClusterId,
    certificate: String,
    key: PrivateKey,
}

impl Authority {
    /// Of a new cluster.
    pub fn found() -> Self {
        let cluster = ClusterId::from_bytes(random::bytes());
        let key = PrivateKey::draw();
        let certificate = own_params(cluster)
            .self_signed(&key.0)
            .expect("the parameters are ours, and they are right")
            .pem();
        Self { cluster, certificate, key }
    }

    /// Of a cluster that was founded before; nothing if the key is no key. The certificate is the
    /// one that goes with it.
    pub fn from_pem(cluster: ClusterId, certificate: &str, key: &str) -> Option<Self> {
        let key = PrivateKey::from_pem(key)?;
        Some(Self { cluster, certificate: certificate.to_owned(), key })
    }

    /// Its certificate, in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Its private key, in PEM: for a file, and for a node that joins.
    pub(super) fn key_pem(&self) -> String {
        self.key.to_pem()
    }

    /// The certificate of a node that has a key, in PEM.
    pub fn certify(&self, node: NodeId, key: PublicKey) -> String {
        let years = (FIRST_YEAR, LAST_YEAR);
        self.certify_between(node, key, years)
    }

    pub(crate) fn certify_between(
        &self,
        node: NodeId,
        key: PublicKey,
        (first, last): (i32, i32),
    ) -> String {
        let name = name_of(self.cluster, node);
        let mut params =
            CertificateParams::new(vec![name]).expect("digits and dots make a host name");
        params.distinguished_name = named(&format!("outlast node {:016x}", node.0));
        params.not_before = date_time_ymd(first, 1, 1);
        params.not_after = date_time_ymd(last, 1, 1);
        params.serial_number = Some(SerialNumber::from_slice(&random::bytes::<16>()));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let issuer = Issuer::new(own_params(self.cluster), &self.key.0);
        params.signed_by(&key, &issuer).expect("the parameters are ours, and they are right").pem()
    }
}

/// What an authority's certificate says; of one cluster always the same.
fn own_params(cluster: ClusterId) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(&format!("outlast cluster {cluster}"));
    params.not_before = date_time_ymd(FIRST_YEAR, 1, 1);
    params.not_after = date_time_ymd(LAST_YEAR, 1, 1);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{Identity, IdentityError};

    #[test]
    fn certifies_nodes_that_are_then_members() {
        let authority = Authority::found();
        let key = PrivateKey::draw();
        let certificate = authority.certify(NodeId(7), key.public());
        let identity =
            Identity::from_pem(&certificate, authority.certificate(), &key.to_pem()).unwrap();
        assert_eq!((identity.cluster, identity.node), (authority.cluster, NodeId(7)));
    }

    #[test]
    fn goes_on_after_it_was_read_back() {
        let founded = Authority::found();
        let read = Authority::from_pem(founded.cluster, founded.certificate(), &founded.key_pem());
        let key = PrivateKey::draw();
        let certificate = read.unwrap().certify(NodeId(8), key.public());
        Identity::from_pem(&certificate, founded.certificate(), &key.to_pem()).unwrap();
    }

    #[test]
    fn another_authority_another_key_and_another_time_make_no_member() {
        let (authority, other) = (Authority::found(), Authority::found());
        let (key, another) = (PrivateKey::draw(), PrivateKey::draw());
        let refused = |certificate: &str, key: &PrivateKey| {
            let identity = Identity::from_pem(certificate, authority.certificate(), &key.to_pem());
            matches!(identity, Err(IdentityError::Invalid(_)))
        };
        assert!(refused(&other.certify(NodeId(7), key.public()), &key));
        assert!(refused(&authority.certify(NodeId(7), key.public()), &another));
        let expired = authority.certify_between(NodeId(7), key.public(), (2000, 2001));
        assert!(refused(&expired, &key));
    }

    #[test]
    fn private_keys_are_not_shown() {
        let authority = Authority::found();
        let secret = authority.key.0.serialize_der();
        let shown = format!("{authority:?}");
        let digits = format!("{:?}", &secret[16..48]);
        assert!(!shown.contains("PRIVATE") && !shown.contains(digits.trim_matches(['[', ']'])));
    }

    #[test]
    fn a_signature_is_of_one_key_and_one_message() {
        let key = PrivateKey::draw();
        let signature = key.sign(b"message");
        assert!(key.public().has_signed(b"message", &signature));
        assert!(!key.public().has_signed(b"another", &signature));
        assert!(!PrivateKey::draw().public().has_signed(b"message", &signature));
        assert!(!key.public().has_signed(b"message", b""));
    }
}
