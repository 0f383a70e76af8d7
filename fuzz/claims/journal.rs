//! A good journal with any bytes changed, cut off, moved or lost.
//!
//! An input is a list of changes to one of two journals: the golden one of version 1, and one of
//! several segments that two processes wrote. Opening what is left gives the first of the records
//! that were written, each as it was, or says what is damaged; it never gives another record.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use outlast_node::journal::{Journal, JournalError, Options, Record};

/// Which life of which node wrote the journals.
const INCARNATION: u64 = 0xabcd;

/// Bytes of a segment: the header's block and another one.
const SEGMENT_BYTES: u64 = 8192;

/// Bytes of the frame that says that a journal was closed; its last one is not zero.
const CLOSING_BYTES: usize = 21;

const GOLDEN: &[u8] = include_bytes!("../../crates/node/tests/golden/journal-version-1.segment");

/// The files of a journal by the number of their segment.
type Segments = BTreeMap<u64, Vec<u8>>;

/// A journal as it was written.
struct Written {
    segments: Segments,
    records: Vec<Record>,
}

pub(crate) fn hold(bytes: &[u8]) {
    let Some((which, changes)) = bytes.split_first() else { return };
    let written = &written()[usize::from(which % 2)];
    let mut segments = written.segments.clone();
    for change in changes.as_chunks::<6>().0 {
        apply(*change, &mut segments);
    }
    let directory = directory();
    lay_out(directory.path(), &segments);
    match read(directory.path()) {
        Ok(records) => {
            assert!(written.records.starts_with(&records), "a record that was never written");
            let untouched = closing_frame(&segments) == closing_frame(&written.segments);
            assert!(!untouched || records == written.records, "a durable record was lost");
            let again = read(directory.path()).expect("a torn tail is cut off once");
            assert_eq!(again, records);
        }
        Err(JournalError::Damaged(damage)) => assert!(!damage.to_string().is_empty()),
        Err(other) => panic!("neither records nor damage: {other:?}"),
    }
}

/// One change: what is done, to which segment, where, and with what.
fn apply([what, segment, low, high, byte, length]: [u8; 6], segments: &mut Segments) {
    let number = u64::from(segment % 4) + 1;
    let Some(mut bytes) = segments.remove(&number) else { return };
    let at = usize::from(u16::from_le_bytes([low, high])) % (bytes.len() + 1);
    let end = (at + usize::from(length)).min(bytes.len());
    match what % 7 {
        0 => bytes[at..end].fill(byte),
        1 => bytes.truncate(at),
        2 => bytes[at..end].iter_mut().for_each(|it| *it ^= byte | 1),
        // A sector that was never written.
        3 => bytes.iter_mut().skip(at / 512 * 512).take(512).for_each(|it| *it = 0),
        // A part of the segment that lies elsewhere, as a wild write would leave it.
        4 => {
            let to = 4096 + usize::from(byte) * 16;
            let end = end.min((at + bytes.len()).saturating_sub(to));
            if at < end {
                bytes.copy_within(at..end, to);
            }
        }
        5 => return,
        _ => {
            // Under the name of another segment, which goes under this one's.
            let other = u64::from(byte % 4) + 1;
            let displaced = segments.insert(other, bytes);
            segments.extend(displaced.map(|bytes| (number, bytes)));
            return;
        }
    }
    segments.insert(number, bytes);
}

/// Both journals, read once before anything is changed.
fn written() -> &'static [Written; 2] {
    static WRITTEN: OnceLock<[Written; 2]> = OnceLock::new();
    WRITTEN.get_or_init(|| {
        let golden = directory();
        lay_out(golden.path(), &Segments::from([(1, GOLDEN.to_vec())]));
        let long = directory();
        (0..2).for_each(|_| write(long.path()));
        [golden.path(), long.path()].map(|directory| Written {
            records: read(directory).expect("nothing was changed yet"),
            segments: pick_up(directory),
        })
    })
}

/// What one process writes: records of several lengths, each in a write of its own.
fn write(directory: &Path) {
    let options = Options { may_be_new: true, ..options() };
    let (journal, _) = Journal::open(directory, options, |_| ()).expect("the disk has room");
    for length in (0..60).map(|number| (number * 37) % 150) {
        let bytes = vec![b'a' + length as u8 % 26; length];
        let position = journal.append(&bytes).expect("the disk has room");
        journal.wait_durable(position).expect("the disk has room");
    }
    journal.close().expect("the disk has room");
}

fn read(directory: &Path) -> Result<Vec<Record>, JournalError> {
    let (_journal, recovered) = Journal::open(directory, options(), |_| ())?;
    let (count, torn) = (recovered.count, recovered.torn);
    let records = recovered.records.collect::<Result<Vec<Record>, _>>()?;
    assert_eq!(records.len() as u64, count);
    assert!(torn.is_none_or(|torn| torn.position == count + 1));
    Ok(records)
}

/// The frame at the end of the last segment, which proves that all records before it were durable.
fn closing_frame(segments: &Segments) -> Option<(u64, usize, &[u8])> {
    let (number, bytes) = segments.last_key_value()?;
    let end = bytes.iter().rposition(|byte| *byte != 0)? + 1;
    let start = end.checked_sub(CLOSING_BYTES)?;
    Some((*number, start, &bytes[start..end]))
}

fn options() -> Options {
    Options {
        incarnation: INCARNATION,
        may_be_new: false,
        segment_bytes_min: SEGMENT_BYTES,
        segment_bytes_max: SEGMENT_BYTES,
        ..Options::default()
    }
}

/// In memory where there is such a place: a sync then costs nothing.
fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("there is a place for temporary files")
}

fn path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:016}.segment"))
}

fn lay_out(directory: &Path, segments: &Segments) {
    for (number, bytes) in segments {
        fs::write(path(directory, *number), bytes).expect("the disk has room");
    }
}

fn pick_up(directory: &Path) -> Segments {
    let file = |number| fs::read(path(directory, number)).ok().map(|bytes| (number, bytes));
    (1..=9).map_while(file).collect()
}
