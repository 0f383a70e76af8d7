//! Writing records, messages and states to memory.
//!
//! Most of what is written are numbers of a byte, thousands of them for each workflow. The writer that
//! comes with minicbor copies each of them by a call; this one is inlined, and a byte is put in place.

use std::convert::Infallible;

use minicbor::Encode;
use minicbor::encode::Write;

struct Memory(Vec<u8>);

impl Write for Memory {
    type Error = Infallible;

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        match bytes {
            [byte] => self.0.push(*byte),
            bytes => self.0.extend_from_slice(bytes),
        }
        Ok(())
    }
}

/// Writes a value behind bytes that are there. Whoever has an idea of how much it will be makes room for
/// it: growing by and by costs more than the rest.
pub(crate) fn write_behind(bytes: Vec<u8>, value: &impl Encode<()>) -> Vec<u8> {
    let mut memory = Memory(bytes);
    minicbor::encode(value, &mut memory).expect("writing to memory does not fail");
    memory.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_what_the_other_writer_would_behind_what_is_there() {
        let value = (1u8, 300u64, "text", Some(-5i32), vec![0u8; 40]);
        let mut expected = vec![9];
        expected.extend(minicbor::to_vec(&value).unwrap());
        assert_eq!(write_behind(vec![9], &value), expected);
    }
}
