//! The frame around one record: length, checksum, position, batch and kind.
//!
//! The checksum covers everything but itself and starts from the journal's salt, so bytes that
//! merely look like a frame (a copy of another journal inside a payload) are not taken for one.
//! `behind` says how many records of the same write lie before this one. Writes are made one after
//! the other, each synced before the next begins, so a frame proves that everything before its
//! batch had reached the disk: this is what tells a torn tail from rot.

/// Bytes of a frame before its payload.
pub(super) const OVERHEAD: usize = 21;

/// The longest record; larger values belong into a store of values, not into a log.
pub const RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How far ahead of the expected position a frame may lie and still be one of this segment: far
/// more than fit, far less than a random number would be.
const PLAUSIBLE_LEAP: u64 = 1 << 32;

/// What a frame holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A record.
    Record,
    /// The journal was closed in good order: every record before this frame was durable.
    Closed,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Record),
            2 => Some(Self::Closed),
            _ => None,
        }
    }

    fn byte(self) -> u8 {
        match self {
            Self::Record => 1,
            Self::Closed => 2,
        }
    }
}

/// A frame that was read and whose checksum is right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Frame<'a> {
    /// Of a record: its own position. Of a closing frame: the position of the next record.
    pub(super) position: u64,
    /// The first position of the write this frame was part of.
    pub(super) batch: u64,
    pub(super) kind: Kind,
    pub(super) payload: &'a [u8],
}

impl Frame<'_> {
    /// Bytes on disk.
    pub(super) fn size(&self) -> usize {
        OVERHEAD + self.payload.len()
    }
}

/// Appends a frame to a buffer.
pub(super) fn encode(buffer: &mut Vec<u8>, salt: u32, frame: &Frame<'_>) {
    let length = u32::try_from(frame.payload.len()).expect("a record is at most 64 MiB");
    let behind = u32::try_from(frame.position - frame.batch).expect("a batch is bounded by bytes");
    let start = buffer.len();
    buffer.reserve(frame.size());
    buffer.extend_from_slice(&length.to_le_bytes());
    buffer.extend_from_slice(&[0; 4]);
    buffer.extend_from_slice(&frame.position.to_le_bytes());
    buffer.extend_from_slice(&behind.to_le_bytes());
    buffer.push(frame.kind.byte());
    buffer.extend_from_slice(frame.payload);
    let checksum = checksum(salt, &buffer[start..]);
    buffer[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
}

/// Reads the frame at the start of these bytes; nothing if there is none whose checksum is right.
pub(super) fn decode(bytes: &[u8], salt: u32) -> Option<Frame<'_>> {
    let fields = Fields::of(bytes)?;
    let whole = bytes.get(..OVERHEAD + fields.length)?;
    let stored = u32::from_le_bytes(whole[4..8].try_into().expect("four bytes"));
    if stored != checksum(salt, whole) {
        return None;
    }
    let batch = fields.position.checked_sub(u64::from(fields.behind))?;
    let payload = &whole[OVERHEAD..];
    Some(Frame { position: fields.position, batch, kind: fields.kind, payload })
}

/// The bytes the first frame of a well-formed buffer takes.
pub(super) fn size_of_first(buffer: &[u8]) -> usize {
    let length = u32::from_le_bytes(buffer[..4].try_into().expect("four bytes"));
    OVERHEAD + length as usize
}

/// The position of the first frame of a well-formed buffer.
pub(super) fn position_of_first(buffer: &[u8]) -> u64 {
    u64::from_le_bytes(buffer[8..16].try_into().expect("eight bytes"))
}

/// The first whole frame at or after `from` that could follow a record `expected`, and where it is.
pub(super) fn find_later(
    bytes: &[u8],
    from: usize,
    salt: u32,
    expected: u64,
) -> Option<(usize, Frame<'_>)> {
    (from..content_end(bytes)).find_map(|offset| {
        let fields = Fields::of(&bytes[offset..])?;
        let leap = fields.position.checked_sub(expected)?;
        let frame = (leap < PLAUSIBLE_LEAP).then(|| decode(&bytes[offset..], salt))??;
        Some((offset, frame))
    })
}

/// Where the zeros begin that reach to the end.
pub(super) fn content_end(bytes: &[u8]) -> usize {
    const BLOCK: usize = 4096;
    static ZEROS: [u8; BLOCK] = [0; BLOCK];
    let mut end = bytes.len();
    while BLOCK <= end && bytes[end - BLOCK..end] == ZEROS {
        end -= BLOCK;
    }
    bytes[..end].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// The parts of a frame that can be judged without reading its payload.
struct Fields {
    length: usize,
    position: u64,
    behind: u32,
    kind: Kind,
}

impl Fields {
    fn of(bytes: &[u8]) -> Option<Self> {
        let head: &[u8; OVERHEAD] = bytes.first_chunk()?;
        let kind = Kind::from_byte(head[20])?;
        let length = u32::from_le_bytes(head[..4].try_into().expect("four bytes")) as usize;
        let position = u64::from_le_bytes(head[8..16].try_into().expect("eight bytes"));
        let behind = u32::from_le_bytes(head[16..20].try_into().expect("four bytes"));
        (length <= bytes.len() - OVERHEAD).then_some(Self { length, position, behind, kind })
    }
}

/// Over the salt and the whole frame but the checksum's own four bytes.
fn checksum(salt: u32, frame: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(salt);
    hasher.update(&frame[..4]);
    hasher.update(&frame[8..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(position: u64, batch: u64, payload: &[u8]) -> Frame<'_> {
        Frame { position, batch, kind: Kind::Record, payload }
    }

    #[test]
    fn the_bytes_of_a_frame_stay_as_version_one_wrote_them() {
        let mut buffer = Vec::new();
        encode(&mut buffer, 7, &record(3, 2, b"abc"));
        let golden =
            [3, 0, 0, 0, 13, 59, 131, 214, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 97, 98, 99];
        assert_eq!(buffer, golden);
        assert_eq!(decode(&golden, 7), Some(record(3, 2, b"abc")));
    }

    #[test]
    fn a_frame_of_another_journal_is_none_of_ours() {
        let mut buffer = Vec::new();
        encode(&mut buffer, 7, &record(3, 2, b"abc"));
        assert_eq!(decode(&buffer, 8), None);
    }

    #[test]
    fn zeros_are_no_frame() {
        assert_eq!(decode(&[0; 64], 0), None);
        assert_eq!(content_end(&[0; 10_000]), 0);
        let mut bytes = vec![0; 10_000];
        bytes[5_000] = 1;
        assert_eq!(content_end(&bytes), 5_001);
    }

    #[test]
    fn finds_a_frame_behind_garbage() {
        let mut buffer = vec![0xff; 33];
        encode(&mut buffer, 7, &record(9, 9, b"later"));
        let found = find_later(&buffer, 1, 7, 5).map(|(offset, frame)| (offset, frame.position));
        assert_eq!(found, Some((33, 9)));
        assert_eq!(find_later(&buffer, 1, 7, 10), None);
    }
}
