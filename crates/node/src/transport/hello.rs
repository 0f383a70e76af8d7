//! The handshake after that of TLS: which version is spoken, and in which life a node is.
//!
//! The one who dials says hello, and is answered with a hello or with the reason why not. Only then
//! does the connection count: with TLS 1.3 the one who dials is done before its certificate has been
//! looked at.

use minicbor::{Decode, Encode};
use outlast_lineage::NodeId;

use super::address::checked_addresses;
use super::identity::{ClusterId, Identity};

/// The version of what is spoken between members.
pub(super) const VERSION: u32 = 1;
/// The longest hello, and the longest of whatever is said before it is known who speaks.
pub(super) const BYTES_MAX: usize = 4096;

/// What both sides say first.
#[derive(Clone, PartialEq, Eq, Encode, Decode, Debug)]
pub(super) struct Hello {
    #[n(0)]
    version: u32,
    #[cbor(n(1), with = "minicbor::bytes")]
    cluster: [u8; 16],
    #[n(2)]
    node: u64,
    /// Rises with every start of the node.
    #[n(3)]
    pub(super) incarnation: u64,
    /// Where the one who speaks can be dialled.
    #[n(4)]
    pub(super) addresses: Vec<String>,
    /// Drawn at random by every process: two that speak as one node in one life are told apart by it.
    /// Members of 0.1 do not say it.
    #[n(5)]
    pub(super) process: Option<u64>,
}

/// What is wrong with a hello.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum BadHello {
    #[error("the hello cannot be read")]
    Unreadable,
    #[error("version {0} is spoken, and here it is version {VERSION}")]
    Version(u32),
    #[error("the hello is of another cluster or node than the certificate")]
    AnotherName,
    #[error("the addresses in the hello cannot be dialled")]
    Addresses,
}

impl Hello {
    pub(super) fn new(
        identity: &Identity,
        incarnation: u64,
        addresses: Vec<String>,
        process: u64,
    ) -> Self {
        Self {
            version: VERSION,
            cluster: *identity.cluster.as_bytes(),
            node: identity.node.0,
            incarnation,
            addresses,
            process: Some(process),
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to memory does not fail")
    }

    /// Reads what the node that a certificate names has said.
    pub(super) fn read(
        bytes: &[u8],
        (cluster, node): (ClusterId, NodeId),
    ) -> Result<Self, BadHello> {
        let hello: Self = minicbor::decode(bytes).map_err(|_| BadHello::Unreadable)?;
        if hello.version != VERSION {
            return Err(BadHello::Version(hello.version));
        }
        if ClusterId::from_bytes(hello.cluster) != cluster || hello.node != node.0 {
            return Err(BadHello::AnotherName);
        }
        let addresses = checked_addresses(hello.addresses).ok_or(BadHello::Addresses)?;
        Ok(Self { addresses, ..hello })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: (ClusterId, NodeId) = (ClusterId::from_bytes([1; 16]), NodeId(2));

    fn hello() -> Hello {
        let addresses = vec!["host:1".to_owned()];
        let process = Some(4);
        Hello { version: VERSION, cluster: [1; 16], node: 2, incarnation: 3, addresses, process }
    }

    /// A hello as members of 0.1 say and read it.
    #[derive(PartialEq, Eq, Encode, Decode, Debug)]
    struct Older(
        #[n(0)] u32,
        #[cbor(n(1), with = "minicbor::bytes")] [u8; 16],
        #[n(2)] u64,
        #[n(3)] u64,
        #[n(4)] Vec<String>,
    );

    #[test]
    fn members_that_do_not_say_which_process_they_are_understand_and_are_understood() {
        let older = Older(VERSION, [1; 16], 2, 3, hello().addresses);
        let bytes = minicbor::to_vec(&older).unwrap();
        assert_eq!(Hello::read(&bytes, WHO), Ok(Hello { process: None, ..hello() }));
        assert_eq!(minicbor::decode::<Older>(&hello().to_bytes()).unwrap(), older);
    }

    #[test]
    fn a_hello_must_be_of_the_node_that_the_certificate_names() {
        assert_eq!(Hello::read(&hello().to_bytes(), WHO), Ok(hello()));
        for other in [Hello { node: 9, ..hello() }, Hello { cluster: [9; 16], ..hello() }] {
            assert_eq!(Hello::read(&other.to_bytes(), WHO), Err(BadHello::AnotherName));
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let later = Hello { version: 2, ..hello() };
        assert_eq!(Hello::read(&later.to_bytes(), WHO), Err(BadHello::Version(2)));
        let nowhere = Hello { addresses: vec!["nowhere".into()], ..hello() };
        assert_eq!(Hello::read(&nowhere.to_bytes(), WHO), Err(BadHello::Addresses));
        assert_eq!(Hello::read(b"garbage", WHO), Err(BadHello::Unreadable));
        assert_eq!(Hello::read(b"", WHO), Err(BadHello::Unreadable));
    }
}
