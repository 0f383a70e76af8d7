//! What the journal promises, on real files: order, torn tails, rot, gaps, truncation.

use std::fs;
use std::path::Path;
use std::sync::mpsc;

use proptest::prelude::*;

use super::frame::{self, Frame, Kind};
use super::segment::{self, HEADER_BYTES, Header};
use super::*;

const INCARNATION: u64 = 0xabcd;
const SALT: u32 = 0x1234_5678;

fn options() -> Options {
    Options {
        incarnation: INCARNATION,
        segment_bytes_min: 2 * HEADER_BYTES,
        segment_bytes_max: 2 * HEADER_BYTES,
        ..Options::default()
    }
}

fn open(directory: &Path) -> Result<(Journal, Recovered), JournalError> {
    Journal::open(directory, options(), |_| ())
}

fn payload(position: u64) -> Vec<u8> {
    format!("record {position} {}", "x".repeat((position % 50) as usize)).into_bytes()
}

/// Appends records, each in a batch of its own, and closes.
fn write(directory: &Path, count: u64) {
    let (journal, _) = open(directory).unwrap();
    for _ in 0..count {
        let position = journal.append(&payload(journal.next_position())).unwrap();
        journal.wait_durable(position).unwrap();
    }
    journal.close().unwrap();
}

/// Opens, checks that every record is as it was appended, and gives how many there are.
fn recover(directory: &Path) -> Result<(u64, Option<TornTail>), JournalError> {
    let (_journal, recovered) = open(directory)?;
    let mut count = 0;
    for record in recovered.records {
        let record = record?;
        count += 1;
        assert_eq!(record.position, count);
        assert_eq!(record.bytes, payload(count));
    }
    assert_eq!(count, recovered.count);
    Ok((count, recovered.torn))
}

fn damage_of(directory: &Path) -> Damage {
    match recover(directory) {
        Err(JournalError::Damaged(damage)) => damage,
        other => panic!("expected damage, found {other:?}"),
    }
}

/// A segment file made by hand: batches of records from position `first` on, never closed.
fn segment_of(number: u64, first: u64, batches: &[u64]) -> Vec<u8> {
    let capacity = 4 * HEADER_BYTES;
    let header = Header { number, first, incarnation: INCARNATION, capacity, salt: SALT };
    let mut bytes = header.encode().to_vec();
    bytes.resize(HEADER_BYTES as usize, 0);
    let mut position = first;
    for size in batches {
        let batch = position;
        for _ in 0..*size {
            let payload = payload(position);
            let frame = Frame { position, batch, kind: Kind::Record, payload: &payload };
            frame::encode(&mut bytes, SALT, &frame);
            position += 1;
        }
    }
    assert!(bytes.len() as u64 <= capacity);
    bytes
}

fn place(directory: &Path, number: u64, mut bytes: Vec<u8>) {
    bytes.resize(4 * HEADER_BYTES as usize, 0);
    fs::write(segment::path(directory, number), bytes).unwrap();
}

#[test]
fn gives_back_what_was_appended_over_many_segments() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), 300);
    assert!(3 < segment::list(directory.path()).unwrap().len());
    assert_eq!(recover(directory.path()).unwrap(), (300, None));
    write(directory.path(), 5);
    assert_eq!(recover(directory.path()).unwrap(), (305, None));
}

#[test]
fn segments_double_up_to_their_usual_size() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes_max: 8 * HEADER_BYTES, ..options() };
    let (journal, _) = Journal::open(directory.path(), options, |_| ()).unwrap();
    for position in 1..=800 {
        journal.append(&payload(position)).unwrap();
    }
    journal.close().unwrap();
    let lengths: Vec<u64> = segment::list(directory.path())
        .unwrap()
        .iter()
        .map(|n| fs::metadata(segment::path(directory.path(), *n)).unwrap().len() / HEADER_BYTES)
        .collect();
    assert_eq!(lengths[..3], [2, 4, 8]);
    assert!(lengths[3..].iter().all(|length| *length == 8));
    assert_eq!(recover(directory.path()).unwrap().0, 800);
}

#[test]
fn reports_the_mark_only_upwards_and_to_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let (sender, events) = mpsc::channel();
    let on_event = move |event| sender.send(event).unwrap();
    let (journal, _) = Journal::open(directory.path(), options(), on_event).unwrap();
    for position in 1..=500 {
        assert_eq!(journal.append(&payload(position)).unwrap(), position);
    }
    journal.close().unwrap();
    let marks: Vec<u64> = events
        .iter()
        .map(|event| match event {
            Event::Durable(mark) => mark,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(marks.is_sorted_by(|a, b| a < b));
    assert_eq!(marks.last(), Some(&500));
}

#[test]
fn a_record_longer_than_a_segment_gets_one_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let (journal, _) = open(directory.path()).unwrap();
    let long = vec![7; 100_000];
    journal.append(b"short").unwrap();
    journal.append(&long).unwrap();
    journal.append(b"short again").unwrap();
    journal.close().unwrap();
    let (_journal, recovered) = open(directory.path()).unwrap();
    let records: Vec<_> = recovered.records.map(|record| record.unwrap().bytes).collect();
    assert_eq!(records, [b"short".to_vec(), long, b"short again".to_vec()]);
}

#[test]
fn a_record_over_the_limit_is_refused_and_takes_no_position() {
    let directory = tempfile::tempdir().unwrap();
    let (journal, _) = open(directory.path()).unwrap();
    let refused = journal.append(&vec![0; RECORD_BYTES_MAX + 1]).unwrap_err();
    assert!(matches!(refused, JournalError::TooLarge { .. }), "{refused}");
    assert_eq!(journal.append(b"fits").unwrap(), 1);
}

#[test]
fn a_tail_torn_at_any_byte_is_cut_off_and_the_journal_goes_on() {
    let whole = segment_of(1, 1, &[1, 1, 1]);
    let last = whole.len() - frame::OVERHEAD - payload(3).len();
    for cut in last + 1..whole.len() {
        for shorten_the_file in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let torn = whole[..cut].to_vec();
            if shorten_the_file {
                fs::write(segment::path(directory.path(), 1), torn).unwrap();
            } else {
                place(directory.path(), 1, torn);
            }
            let (count, tail) = recover(directory.path()).unwrap();
            let tail = tail.expect("half a record is told of");
            assert_eq!((count, tail.offset, tail.position), (2, last as u64, 3), "cut at {cut}");
            write(directory.path(), 2);
            assert_eq!(recover(directory.path()).unwrap(), (4, None));
        }
    }
}

#[test]
fn a_tail_of_garbage_is_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    let mut bytes = segment_of(1, 1, &[2]);
    let end = bytes.len() as u64;
    bytes.extend([0xee; 100]);
    place(directory.path(), 1, bytes);
    let (count, tail) = recover(directory.path()).unwrap();
    assert_eq!((count, tail.map(|tail| (tail.offset, tail.bytes))), (2, Some((end, 100))));
}

#[test]
fn every_flipped_bit_of_a_record_in_the_middle_is_reported_with_its_place() {
    let whole = segment_of(1, 1, &[1, 1, 1]);
    let size = |position| frame::OVERHEAD + payload(position).len();
    let start = HEADER_BYTES as usize + size(1);
    for byte in start..start + size(2) {
        let directory = tempfile::tempdir().unwrap();
        let mut bytes = whole.clone();
        bytes[byte] ^= 1 << (byte % 8);
        place(directory.path(), 1, bytes);
        let damage = damage_of(directory.path());
        assert_eq!((damage.offset, damage.position), (start as u64, 2), "byte {byte}");
        assert_eq!(damage.kind, DamageKind::Record);
    }
}

#[test]
fn a_flipped_bit_in_the_last_record_of_a_closed_journal_is_damage_not_a_torn_tail() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), 3);
    let path = segment::path(directory.path(), 1);
    let mut bytes = fs::read(&path).unwrap();
    let last = HEADER_BYTES as usize
        + (1..=2).map(|position| frame::OVERHEAD + payload(position).len()).sum::<usize>();
    bytes[last + frame::OVERHEAD] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_eq!(damage_of(directory.path()).position, 3);
}

#[test]
fn a_flipped_bit_at_the_end_of_a_full_segment_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let mut first = segment_of(1, 1, &[3]);
    let last = first.len() - 1;
    first[last] ^= 4;
    place(directory.path(), 1, first);
    place(directory.path(), 2, segment_of(2, 4, &[1]));
    let damage = damage_of(directory.path());
    assert_eq!((damage.position, damage.kind), (3, DamageKind::MissingRecords { until: 4 }));
}

#[test]
fn a_batch_that_reached_the_disk_in_pieces_is_a_torn_tail() {
    let directory = tempfile::tempdir().unwrap();
    let mut bytes = segment_of(1, 1, &[1, 3]);
    let second = HEADER_BYTES as usize + frame::OVERHEAD + payload(1).len();
    // The disk kept the end of the batch and lost its beginning; none of it was acknowledged.
    bytes[second..second + 10].fill(0);
    place(directory.path(), 1, bytes);
    let (count, tail) = recover(directory.path()).unwrap();
    assert_eq!((count, tail.map(|tail| tail.position)), (1, Some(2)));
    write(directory.path(), 3);
    assert_eq!(recover(directory.path()).unwrap(), (4, None));
}

#[test]
fn a_crash_right_after_a_segment_was_made_is_no_damage() {
    let directory = tempfile::tempdir().unwrap();
    place(directory.path(), 1, segment_of(1, 1, &[3]));
    place(directory.path(), 2, segment_of(2, 4, &[]));
    assert_eq!(recover(directory.path()).unwrap(), (3, None));
    write(directory.path(), 2);
    assert_eq!(recover(directory.path()).unwrap(), (5, None));
}

#[test]
fn a_flipped_bit_in_a_closing_frame_costs_no_record() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), 1);
    write(directory.path(), 1);
    let path = segment::path(directory.path(), 1);
    let mut bytes = fs::read(&path).unwrap();
    let closing = HEADER_BYTES as usize + frame::OVERHEAD + payload(1).len();
    bytes[closing + 5] ^= 1;
    // The second process was killed: its closing frame, the last thing in the file, is not there.
    let end = frame::content_end(&bytes);
    bytes[end - frame::OVERHEAD..end].fill(0);
    fs::write(&path, bytes).unwrap();
    let damage = damage_of(directory.path());
    assert_eq!((damage.offset, damage.position), (closing as u64, 2));
}

#[test]
fn a_segment_of_a_later_format_is_refused_with_its_version() {
    let directory = tempfile::tempdir().unwrap();
    let mut bytes = segment_of(1, 1, &[1]);
    bytes[8] = 9;
    let checksum = crc32fast::hash(&bytes[..60]);
    bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
    place(directory.path(), 1, bytes);
    let error = open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("format 9 by a later release"), "{error}");
}

/// Written by the first release. Every later one must read it; never write it again.
#[test]
fn a_golden_journal_of_version_one_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let golden = include_bytes!("../../tests/golden/journal-version-1.segment");
    fs::write(segment::path(directory.path(), 1), golden).unwrap();
    assert_eq!(recover(directory.path()).unwrap(), (9, None));
}

#[test]
fn a_lost_segment_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), 300);
    fs::remove_file(segment::path(directory.path(), 2)).unwrap();
    let damage = damage_of(directory.path());
    assert_eq!(damage.kind, DamageKind::MissingSegment { number: 2 });
}

#[test]
fn a_journal_that_should_be_there_and_is_not_is_a_loss() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { may_be_new: false, ..options() };
    let error = Journal::open(directory.path(), options, |_| ()).unwrap_err();
    assert!(error.to_string().contains("segment 1 is missing"), "{error}");
}

#[test]
fn a_journal_that_does_not_reach_the_checkpoint_is_a_loss() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), 3);
    let open_at =
        |checkpoint| Journal::open(directory.path(), Options { checkpoint, ..options() }, |_| ());
    open_at(3).unwrap();
    let error = open_at(4).unwrap_err();
    assert!(error.to_string().contains("records from 4 up to 5 are missing"), "{error}");
}

#[test]
fn positions_missing_between_two_records_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let mut bytes = segment_of(1, 1, &[1, 1]);
    let tail = segment_of(1, 5, &[1]);
    bytes.extend_from_slice(&tail[HEADER_BYTES as usize..]);
    place(directory.path(), 1, bytes);
    let damage = damage_of(directory.path());
    assert_eq!((damage.position, damage.kind), (3, DamageKind::MissingRecords { until: 5 }));
}

#[test]
fn overlapping_segments_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    place(directory.path(), 1, segment_of(1, 1, &[5]));
    place(directory.path(), 2, segment_of(2, 4, &[1]));
    assert_eq!(damage_of(directory.path()).kind, DamageKind::Overlap { next: 4 });
}

#[test]
fn a_damaged_header_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), 300);
    for byte in [0, 9, 17, 63, 64, 4095] {
        let path = segment::path(directory.path(), 2);
        let whole = fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        bytes[byte] ^= 0x10;
        fs::write(&path, bytes).unwrap();
        let damage = damage_of(directory.path());
        assert_eq!((damage.file, damage.kind), (path.clone(), DamageKind::Header), "byte {byte}");
        fs::write(&path, whole).unwrap();
    }
    assert_eq!(recover(directory.path()).unwrap(), (300, None));
}

#[test]
fn a_segment_of_another_node_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), 1);
    let foreign = Options { incarnation: 1, ..options() };
    let error = Journal::open(directory.path(), foreign, |_| ()).unwrap_err().to_string();
    assert!(error.contains("belongs to incarnation 000000000000abcd"), "{error}");
}

#[test]
fn a_renamed_segment_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), 1);
    let path = |number| segment::path(directory.path(), number);
    fs::rename(path(1), path(2)).unwrap();
    assert_eq!(damage_of(directory.path()).kind, DamageKind::Misnamed { number: 1 });
}

#[test]
fn truncation_removes_whole_segments_that_are_not_needed() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), 300);
    let (journal, recovered) = open(directory.path()).unwrap();
    drop(recovered);
    assert_eq!(journal.truncate_before(1).unwrap(), 0);
    assert!(0 < journal.truncate_before(200).unwrap());
    let position = journal.append(&payload(301)).unwrap();
    journal.close().unwrap();
    assert_eq!(position, 301);

    let options = Options { checkpoint: 199, ..options() };
    let (journal, mut recovered) = Journal::open(directory.path(), options, |_| ()).unwrap();
    let first = recovered.records.next().unwrap().unwrap().position;
    assert!(1 < first && first <= 200, "{first}");
    assert_eq!(recovered.records.last().unwrap().unwrap().position, 301);
    drop(journal);

    let error = open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("is missing"), "without a checkpoint it is a loss: {error}");
}

#[test]
fn a_second_journal_on_one_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (_journal, _) = open(directory.path()).unwrap();
    let error = open(directory.path()).unwrap_err().to_string();
    assert!(error.contains(&format!("in use by process {}", std::process::id())), "{error}");
}

#[test]
fn opening_and_closing_without_records_leaves_the_disk_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), 3);
    let path = segment::path(directory.path(), 1);
    let before = fs::read(&path).unwrap();
    (0..3).for_each(|_| write(directory.path(), 0));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_panicking_callback_stops_the_journal_and_nobody_waits_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let on_event = |_| std::panic::resume_unwind(Box::new("the driver is broken"));
    let (journal, _) = Journal::open(directory.path(), options(), on_event).unwrap();
    journal.append(b"one").unwrap();
    let failed = journal.wait_durable(2).unwrap_err();
    assert!(matches!(failed, JournalError::Poisoned(_)), "{failed}");
    assert!(journal.append(b"two").is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A power cut keeps any sectors of the batch that was being written; all before it is synced.
    #[test]
    fn what_was_acknowledged_survives_a_power_cut(
        batches in prop::collection::vec(1u64..8, 0..6),
        last in 1u64..30,
        kept in prop::collection::vec(any::<bool>(), 32),
    ) {
        let acknowledged: u64 = batches.iter().sum();
        let mut image = segment_of(1, 1, &batches);
        let synced = image.len();
        image.resize(4 * HEADER_BYTES as usize, 0);
        let mut all = batches.clone();
        all.push(last);
        let mut written = segment_of(1, 1, &all);
        written.resize(image.len(), 0);
        for (sector, kept) in kept.iter().enumerate() {
            let range = sector * 512..(sector + 1) * 512;
            if *kept || range.end <= synced {
                image[range.clone()].copy_from_slice(&written[range]);
            }
        }
        let directory = tempfile::tempdir().unwrap();
        place(directory.path(), 1, image);
        let (count, _) = recover(directory.path()).unwrap();
        prop_assert!(acknowledged <= count && count <= acknowledged + last);
    }

    /// Whatever the bytes, opening neither panics nor invents a record.
    #[test]
    fn random_bytes_are_never_a_record(garbage in prop::collection::vec(any::<u8>(), 0..2000)) {
        let directory = tempfile::tempdir().unwrap();
        let mut bytes = segment_of(1, 1, &[2]);
        bytes.extend(garbage);
        place(directory.path(), 1, bytes);
        prop_assert_eq!(recover(directory.path()).unwrap().0, 2);
    }
}
