//! Content digests: 256 bits of BLAKE3, shown as hexadecimal.

use std::fmt;

use minicbor::{Decode, Encode};

/// The digest of a definition, a value or a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Digest(#[cbor(n(0), with = "minicbor::bytes")] [u8; 32]);

impl Digest {
    /// Digests a run of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Takes 32 bytes as they are, such as those of a stored digest.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first eight bytes as a number: enough to tell the parts of one execution apart.
    pub fn short(&self) -> u64 {
        u64::from_be_bytes(self.0[..8].try_into().expect("a digest has 32 bytes"))
    }

    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let hash = blake3::Hash::from_hex(text).ok()?;
        Some(Self(*hash.as_bytes()))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hexadecimal(&self.0, formatter)
    }
}

/// Writes up to 32 bytes in hexadecimal, at once: formatting one after the other showed in profiles,
/// because every call has a key.
pub(crate) fn write_hexadecimal(bytes: &[u8], formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 64];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    let written = &text[..2 * bytes.len()];
    formatter.write_str(str::from_utf8(written).expect("digits are ASCII"))
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}…", self.short())
    }
}

/// Digests several fields so that no two lists of fields give the same bytes.
///
/// Each field is preceded by its length: `("ab", "c")` and `("a", "bc")` differ.
///
/// Most digests are of a few numbers. They are gathered and digested at once: a hasher that takes more and
/// more is two kilobytes large, and making and moving one costs more than the digest.
#[derive(Debug, Default)]
pub struct Digester {
    gathered: Vec<u8>,
    /// What takes the fields once there are many bytes of them.
    hasher: Option<Box<blake3::Hasher>>,
}

/// How many bytes are gathered at most.
const GATHERED_MAX: usize = 1024;

/// As many as the digests of places and keys have.
const GATHERED_USUALLY: usize = 192;

impl Digester {
    /// Starts a digest of a kind of thing; two kinds never share a digest.
    pub fn new(kind: &str) -> Self {
        let gathered = Vec::with_capacity(GATHERED_USUALLY);
        Self { gathered, hasher: None }.field(kind.as_bytes())
    }

    /// Adds one field.
    pub fn field(mut self, bytes: &[u8]) -> Self {
        let length = (bytes.len() as u64).to_be_bytes();
        if self.hasher.is_none() && self.gathered.len() + 8 + bytes.len() <= GATHERED_MAX {
            self.gathered.extend_from_slice(&length);
            self.gathered.extend_from_slice(bytes);
            return self;
        }
        let hasher = self.hasher.get_or_insert_with(|| {
            let mut hasher = Box::new(blake3::Hasher::new());
            hasher.update(&self.gathered);
            hasher
        });
        hasher.update(&length).update(bytes);
        self
    }

    /// Adds a number.
    pub fn number(self, number: u64) -> Self {
        self.field(&number.to_be_bytes())
    }

    /// The digest of everything added.
    pub fn finish(self) -> Digest {
        match self.hasher {
            None => Digest::of(&self.gathered),
            Some(hasher) => Digest(*hasher.finalize().as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_all_fields_with_their_lengths_however_many_bytes_there_are() {
        for length in [0, 1, 900, 1005, 1006, 1007, 5000] {
            let long = vec![7; length];
            let mut bytes = Vec::new();
            for field in [b"kind".as_slice(), &long, &5u64.to_be_bytes(), b"last"] {
                bytes.extend((field.len() as u64).to_be_bytes());
                bytes.extend(field);
            }
            let digested = Digester::new("kind").field(&long).number(5).field(b"last").finish();
            assert_eq!(digested, Digest::of(&bytes), "{length}");
        }
    }
}
