//! What happened, as it is written.

use std::fmt;

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};
use outlast_workflow::Happening;

use crate::writing::write_behind;

/// About how many bytes one needs.
const BYTES_USUAL: usize = 32;

/// What happened in one step of an execution, or in several: for people, who seldom ask.
///
/// It goes from an execution to journals, backups and histories without anybody's looking at it, and as values it is
/// many times as large. So it is written once, and read when somebody wants to know.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Happenings {
    count: u64,
    /// One behind the other, as CBOR.
    bytes: Vec<u8>,
}

impl Happenings {
    /// Whether nothing happened.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many bytes it needs.
    pub const fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Reads what happened, oldest first. What a later release wrote there, and this one does not know, is left out.
    pub fn read(&self) -> Vec<Happening> {
        let mut decoder = Decoder::new(&self.bytes);
        // How many there are is what another node says: no room is made for what may be unknown here.
        let mut read = Vec::new();
        while decoder.position() < self.bytes.len() {
            let from = decoder.position();
            match decoder.decode() {
                Ok(happening) => read.push(happening),
                Err(_) => {
                    let length = length_of(1, &self.bytes[from..]);
                    decoder.set_position(from + length.expect("it was measured when it came in"));
                }
            }
        }
        read
    }

    /// The same and what happened later.
    pub(crate) fn and_then(&mut self, later: &Self) {
        self.count += later.count;
        self.bytes.extend_from_slice(&later.bytes);
    }
}

impl From<&[Happening]> for Happenings {
    fn from(happenings: &[Happening]) -> Self {
        let bytes = Vec::with_capacity(BYTES_USUAL * happenings.len());
        let bytes = happenings.iter().fold(bytes, write_behind);
        Self { count: happenings.len() as u64, bytes }
    }
}

impl fmt::Debug for Happenings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read().fmt(formatter)
    }
}

/// As a list of them is written.
impl<C> Encode<C> for Happenings {
    fn encode<W: Write>(
        &self,
        encoder: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        encoder.array(self.count)?;
        encoder.writer_mut().write_all(&self.bytes).map_err(EncodeError::write)
    }
}

impl<'b, C> Decode<'b, C> for Happenings {
    fn decode(decoder: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        let count = decoder.array()?;
        let count = count.ok_or_else(|| DecodeError::message("a list without its length"))?;
        let from = decoder.position();
        let rest = &decoder.input()[from..];
        let length = length_of(count, rest).ok_or_else(|| DecodeError::message("no list"))?;
        decoder.set_position(from + length);
        Ok(Self { count, bytes: rest[..length].to_vec() })
    }
}

/// How many bytes so many items take that bytes begin with; nothing if there are not so many, or one has no
/// length of its own, as none does that we write. Backups do this with all that they are told: minicbor's way costs
/// as much as reading them.
fn length_of(count: u64, bytes: &[u8]) -> Option<usize> {
    let (mut missing, mut at) = (count, 0_usize);
    while 0 < missing {
        missing -= 1;
        let head = *bytes.get(at)?;
        at += 1;
        let argument = match head & 31 {
            small @ 0..=23 => u64::from(small),
            size @ 24..=27 => {
                let length = 1 << (size - 24);
                let bytes = bytes.get(at..at + length)?;
                at += length;
                bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
            }
            _ => return None,
        };
        match head >> 5 {
            2 | 3 => at = at.checked_add(usize::try_from(argument).ok()?)?,
            4 => missing = missing.checked_add(argument)?,
            5 => missing = missing.checked_add(argument.checked_mul(2)?)?,
            6 => missing = missing.checked_add(1)?,
            _ => {}
        }
    }
    (at <= bytes.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use outlast_workflow::TaskId;

    use super::*;

    fn some() -> [Happening; 3] {
        let called = Happening::Called(TaskId(7), "key".to_owned());
        [Happening::Started, called, Happening::TaskStarted(TaskId(300), Some(2))]
    }

    #[test]
    fn is_written_and_read_as_a_list_of_happenings_is() {
        let list = some();
        let (happenings, written) = (Happenings::from(&list[..]), minicbor::to_vec(&list).unwrap());
        assert_eq!(minicbor::to_vec(&happenings).unwrap(), written);
        assert_eq!(minicbor::decode::<Happenings>(&written).unwrap(), happenings);
        assert_eq!(happenings.read(), list);
        assert!(Happenings::default().is_empty() && !happenings.is_empty());
    }

    #[test]
    fn what_happened_in_several_steps_is_one_list() {
        let list = some();
        let mut all = Happenings::from(&list[..1]);
        all.and_then(&Happenings::from(&list[1..]));
        assert_eq!(all, Happenings::from(&list[..]));
    }

    #[test]
    fn of_what_a_later_release_tells_the_rest_is_read() {
        let mut later = Happenings::from(&some()[..1]);
        let unknown = minicbor::to_vec((9999u32, ("what", 1u8))).unwrap();
        later.and_then(&Happenings { count: 1, bytes: unknown });
        later.and_then(&Happenings::from(&some()[1..]));
        let written = minicbor::to_vec(&later).unwrap();
        assert_eq!(minicbor::decode::<Happenings>(&written).unwrap().read(), some());
    }

    /// A byte each in a message, and many times that as values.
    #[test]
    fn no_room_is_made_for_what_is_not_known() {
        let zeros = Happenings { count: 100_000, bytes: vec![0; 100_000] };
        let written = minicbor::to_vec(&zeros).unwrap();
        let read = minicbor::decode::<Happenings>(&written).unwrap().read();
        assert_eq!((read.len(), read.capacity()), (0, 0));
    }

    #[test]
    fn what_is_cut_off_is_not_taken() {
        let written = minicbor::to_vec(Happenings::from(&some()[..])).unwrap();
        for length in 0..written.len() {
            assert!(minicbor::decode::<Happenings>(&written[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn what_has_no_length_or_a_length_beyond_reason_is_not_taken() {
        let endless = [0x9f, 0x00, 0xff].as_slice();
        let many = [0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00].as_slice();
        let within = [0x81, 0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff].as_slice();
        let pairs = [0x81, 0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff].as_slice();
        let text = [0x81, 0x7b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff].as_slice();
        for bytes in [endless, many, within, pairs, text, &[0x81, 0x1c], &[0x81, 0x81, 0x9f]] {
            assert!(minicbor::decode::<Happenings>(bytes).is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn items_of_every_kind_are_measured() {
        let value = (1u8, 300u64, -7i32, 1.5f64, "text", vec![(true, None::<u8>); 30]);
        let mut bytes = minicbor::to_vec(&value).unwrap();
        bytes.extend(minicbor::to_vec(minicbor::bytes::ByteVec::from(vec![7; 70_000])).unwrap());
        // A map and a tag.
        bytes.extend([0xa1, 0x01, 0x02, 0xc1, 0x19, 0x01, 0x00]);
        assert_eq!(length_of(4, &bytes), Some(bytes.len()));
        let mut decoder = Decoder::new(&bytes);
        for count in 1..=4 {
            decoder.skip().unwrap();
            assert_eq!(length_of(count, &bytes), Some(decoder.position()));
        }
    }
}
