//! What `outlast cluster invite` prints: all that a node needs to join, in one word.
//!
//! It names the node that gives it out, which alone can redeem it, and carries the digest of the
//! authority's certificate, so that the joiner knows whom it talks to before it shows the secret.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use minicbor::{Decode, Encode};
use outlast_lineage::NodeId;
use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};

use crate::transport::{ClusterId, checked_addresses};

const PREFIX: &str = "outlast-join-1.";
/// Longer than any token: what is longer is not even decoded.
const LENGTH_MAX: usize = 4096;

/// The digest of an authority's certificate (SHA-256).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fingerprint(pub(super) [u8; 32]);

impl Fingerprint {
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

/// A secret that is not shown when a token is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Secret(pub(super) [u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("…")
    }
}

/// An invitation, as the joiner gets it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JoinToken {
    /// The cluster to join.
    pub cluster: ClusterId,
    /// Who gave it out.
    pub inviter: NodeId,
    /// Where the inviter can be reached.
    pub addresses: Vec<String>,
    pub(super) fingerprint: Fingerprint,
    pub(super) invitation: u64,
    pub(super) secret: Secret,
}

/// The text is no token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("this is no join token; `outlast cluster invite` prints one, and all of it is needed")]
pub struct NoToken;

#[derive(Encode, Decode)]
struct Wire {
    #[cbor(n(0), with = "minicbor::bytes")]
    cluster: [u8; 16],
    #[n(1)]
    inviter: u64,
    #[n(2)]
    addresses: Vec<String>,
    #[cbor(n(3), with = "minicbor::bytes")]
    fingerprint: [u8; 32],
    #[n(4)]
    invitation: u64,
    #[cbor(n(5), with = "minicbor::bytes")]
    secret: [u8; 32],
}

impl JoinToken {
    /// The token as one word. It is a secret: show it to whom it is meant for.
    pub fn to_text(&self) -> String {
        let wire = Wire {
            cluster: *self.cluster.as_bytes(),
            inviter: self.inviter.0,
            addresses: self.addresses.clone(),
            fingerprint: self.fingerprint.0,
            invitation: self.invitation,
            secret: self.secret.0,
        };
        let bytes = minicbor::to_vec(wire).expect("writing to memory does not fail");
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for JoinToken {
    type Err = NoToken;

    fn from_str(text: &str) -> Result<Self, NoToken> {
        let text = text.trim();
        let encoded = text.strip_prefix(PREFIX).filter(|_| text.len() <= LENGTH_MAX);
        let bytes = URL_SAFE_NO_PAD.decode(encoded.ok_or(NoToken)?).map_err(|_| NoToken)?;
        let wire: Wire = minicbor::decode(&bytes).map_err(|_| NoToken)?;
        Ok(Self {
            cluster: ClusterId::from_bytes(wire.cluster),
            inviter: NodeId(wire.inviter),
            addresses: checked_addresses(wire.addresses).ok_or(NoToken)?,
            fingerprint: Fingerprint(wire.fingerprint),
            invitation: wire.invitation,
            secret: Secret(wire.secret),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> JoinToken {
        JoinToken {
            cluster: ClusterId::from_bytes([1; 16]),
            inviter: NodeId(2),
            addresses: vec!["node.example:7181".into(), "[::1]:7181".into()],
            fingerprint: Fingerprint([3; 32]),
            invitation: 4,
            secret: Secret([5; 32]),
        }
    }

    #[test]
    fn a_token_is_one_word_that_is_read_back() {
        let text = token().to_text();
        assert!(!text.contains(char::is_whitespace), "{text}");
        assert_eq!(format!(" {text}\n").parse(), Ok(token()));
    }

    #[test]
    fn a_part_of_a_token_is_no_token() {
        let text = token().to_text();
        for end in 0..text.len() {
            assert_eq!(text[..end].parse::<JoinToken>(), Err(NoToken), "{end}");
        }
        assert_eq!(format!("{text}{}", "A".repeat(LENGTH_MAX)).parse::<JoinToken>(), Err(NoToken));
    }

    #[test]
    fn a_shown_token_keeps_its_secret() {
        let shown = format!("{:?}", token());
        assert!(!shown.contains("5, 5"), "{shown}");
    }
}
