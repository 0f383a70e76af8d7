//! What nodes say to each other about requests that one passes on: a mark, a version and one word.
//!
//! Fields and variants are numbered; numbers are never used twice.

use minicbor::{Decode, Encode};

/// The first byte. The engine's messages begin with the version of their format, which stays below.
const MARK: u8 = 0xF0;
/// The version of the encoding, in the second byte.
const VERSION: u8 = 1;

/// What one node says to another.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub(super) enum Word {
    /// Answer this as if it had come to you.
    #[n(0)]
    Ask(#[n(0)] u64, #[n(1)] Request),
    /// The answer to the request of that number.
    #[n(1)]
    Answer(#[n(0)] u64, #[n(1)] Answer),
}

/// A request of the HTTP API.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub(crate) struct Request {
    #[n(0)]
    pub(crate) method: String,
    /// Path and query.
    #[n(1)]
    pub(crate) path: String,
    /// The media type of the body.
    #[n(2)]
    pub(crate) media: String,
    #[cbor(n(3), with = "minicbor::bytes")]
    pub(crate) body: Vec<u8>,
    /// How long the other one waits for the answer.
    #[n(4)]
    pub(crate) patience_ms: u64,
}

impl Request {
    /// Whether it is answered only when an execution has ended.
    pub(super) fn awaits_an_end(&self) -> bool {
        let path = self.path.split('?').next().unwrap_or_default();
        self.method == "GET" && self.body.is_empty() && path.ends_with("/wait")
    }
}

/// What it was answered.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub(crate) struct Answer {
    #[n(0)]
    pub(crate) status: u16,
    #[n(1)]
    pub(crate) media: String,
    #[cbor(n(2), with = "minicbor::bytes")]
    pub(crate) body: Vec<u8>,
}

/// Whether a message is one of these, and not the engine's.
pub(crate) fn is_word(message: &[u8]) -> bool {
    message.first() == Some(&MARK)
}

impl Word {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![MARK, VERSION];
        minicbor::encode(self, &mut bytes).expect("writing to memory does not fail");
        bytes
    }

    /// Reads a word; nothing if it is of another version or damaged.
    pub(super) fn decode(message: &[u8]) -> Option<Self> {
        match message {
            [MARK, VERSION, rest @ ..] => minicbor::decode(rest).ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back_and_garbage_is_not() {
        let answer = Answer { status: 200, media: "text/plain".into(), body: b"yes".to_vec() };
        let word = Word::Answer(7, answer);
        let bytes = word.encode();
        assert!(is_word(&bytes));
        assert_eq!(Word::decode(&bytes), Some(word));
        assert_eq!(Word::decode(&bytes[..bytes.len() - 1]), None);
        assert_eq!(Word::decode(&[MARK, VERSION + 1]), None);
        assert!(!is_word(&[1, 0]) && !is_word(&[]));
    }
}
