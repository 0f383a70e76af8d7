//! A disk that forgets what was not synced, and may tear what it was writing.
//!
//! The journal is a run of frames: length, checksum, record. Reading stops at the first frame that is
//! cut off or does not fit its checksum; what follows is dropped, as a node does with a torn tail.
//! Snapshots are kept beside it and replaced all at once, as by a transaction.

use std::collections::BTreeMap;

use outlast_engine::Position;

use crate::Random;

/// The bytes before a record: four of length, eight of checksum.
const FRAME_HEAD: usize = 12;

/// A record as it is on the disk.
#[derive(Clone, Debug)]
struct Frame {
    position: Position,
    head: [u8; FRAME_HEAD],
    record: Vec<u8>,
}

/// What survives of a node.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// Frames that a sync made safe.
    synced: Vec<Frame>,
    /// Frames that were written since.
    written: Vec<Frame>,
    snapshots: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Changes of snapshots that are not committed: a new one, or none.
    pending: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// How often something was synced.
    pub syncs: u64,
    /// How often the journal was cut.
    pub compactions: u64,
}

impl Disk {
    /// Appends a record to the journal.
    pub fn append(&mut self, position: Position, record: Vec<u8>) {
        let length = u32::try_from(record.len()).expect("records are bounded");
        let mut head = [0; FRAME_HEAD];
        head[..4].copy_from_slice(&length.to_be_bytes());
        head[4..].copy_from_slice(&checksum(&record).to_be_bytes());
        self.written.push(Frame { position, head, record });
    }

    /// The last record that was written, if it is not synced.
    pub fn unsynced(&self) -> Option<Position> {
        self.written.last().map(|frame| frame.position)
    }

    /// How many records are written and not synced.
    pub const fn unsynced_count(&self) -> usize {
        self.written.len()
    }

    /// Makes everything safe that was written up to a record.
    pub fn sync(&mut self, up_to: Position) {
        self.syncs += 1;
        let safe = self.written.iter().take_while(|frame| frame.position <= up_to).count();
        self.synced.extend(self.written.drain(..safe));
    }

    /// Loses what was not synced, but for the first `survive` frames; the next one may be torn.
    pub fn crash(&mut self, survive: usize, torn: bool) {
        self.pending.clear();
        let mut lost = std::mem::take(&mut self.written).into_iter();
        self.synced.extend(lost.by_ref().take(survive));
        if let Some(mut frame) = lost.next().filter(|_| torn) {
            let length = FRAME_HEAD + frame.record.len();
            frame.record.truncate(frame.record.len().saturating_sub((length / 3).max(1)));
            self.synced.push(frame);
        }
    }

    /// Flips a bit of a record that others follow; says whether there is one.
    ///
    /// A bit of the very last record is left alone: its rot cannot be told from a torn write, which
    /// is what a journal's own format has to take care of.
    pub fn rot(&mut self, random: &mut Random) -> bool {
        let Some(old) = self.synced.len().checked_sub(1).filter(|old| *old > 0) else {
            return false;
        };
        let frame = &mut self.synced[random.index(old)];
        let byte = random.index(FRAME_HEAD + frame.record.len());
        let bit = 1 << random.between(0, 7);
        match byte.checked_sub(FRAME_HEAD) {
            Some(byte) => frame.record[byte] ^= bit,
            None => frame.head[byte] ^= bit,
        }
        true
    }

    /// Whether a record that others follow is not what was written.
    pub fn is_rotten(&self) -> bool {
        let older = self.synced.len().saturating_sub(1);
        self.synced[..older].iter().any(|frame| !frame.is_whole())
    }

    /// The records of the journal; a torn tail is cut off.
    pub fn records(&mut self) -> Vec<Vec<u8>> {
        let whole = self.synced.iter().take_while(|frame| frame.is_whole()).count();
        self.synced.truncate(whole);
        self.synced.iter().map(|frame| frame.record.clone()).collect()
    }

    /// Replaces or drops a snapshot, from the next commit on.
    pub fn change_snapshot(&mut self, key: Vec<u8>, snapshot: Option<Vec<u8>>) {
        self.pending.push((key, snapshot));
    }

    /// Makes all changes of snapshots safe, and drops records that are no longer needed.
    pub fn compact(&mut self, replay_from: Position) {
        self.compactions += 1;
        for (key, snapshot) in self.pending.drain(..) {
            match snapshot {
                Some(bytes) => drop(self.snapshots.insert(key, bytes)),
                None => drop(self.snapshots.remove(&key)),
            }
        }
        self.synced.retain(|frame| frame.position >= replay_from);
    }

    /// The committed snapshot under a key.
    pub fn snapshot(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.snapshots.get(key).cloned()
    }

    /// All snapshots.
    pub fn snapshots(&self) -> Vec<Vec<u8>> {
        self.snapshots.values().cloned().collect()
    }
}

impl Frame {
    fn is_whole(&self) -> bool {
        let (length, check) = self.head.split_at(4);
        length == u32::try_from(self.record.len()).unwrap_or(u32::MAX).to_be_bytes()
            && check == checksum(&self.record).to_be_bytes()
    }
}

/// A number that another content hardly has, and that no flipped bit leaves the same: every step can
/// be undone. Worlds write many records, and nobody in them forges any.
fn checksum(bytes: &[u8]) -> u64 {
    let mix =
        |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let words = bytes.chunks_exact(8);
    let rest = words.remainder().iter().fold(1, |rest, byte| rest << 8 | u64::from(*byte));
    let sum = words.fold(bytes.len() as u64, |sum, word| {
        mix(sum, u64::from_be_bytes(word.try_into().expect("a chunk has eight bytes")))
    });
    mix(sum, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> Disk {
        let mut disk = Disk::default();
        for number in 1..=4 {
            disk.append(Position(number), vec![u8::try_from(number).unwrap(); 20]);
        }
        disk.sync(Position(2));
        disk
    }

    fn firsts(disk: &mut Disk) -> Vec<u8> {
        disk.records().iter().map(|record| record[0]).collect()
    }

    #[test]
    fn loses_what_was_not_synced() {
        let mut disk = disk();
        disk.crash(0, false);
        assert_eq!(firsts(&mut disk), [1, 2]);
    }

    #[test]
    fn may_keep_what_was_not_synced() {
        let mut disk = disk();
        disk.crash(1, false);
        assert_eq!(firsts(&mut disk), [1, 2, 3]);
    }

    #[test]
    fn cuts_a_torn_record_off() {
        let mut disk = disk();
        disk.crash(1, true);
        assert_eq!(firsts(&mut disk), [1, 2, 3]);
        disk.append(Position(4), vec![9; 20]);
        disk.sync(Position(4));
        assert_eq!(firsts(&mut disk), [1, 2, 3, 9]);
    }

    #[test]
    fn tells_rot_from_a_torn_tail() {
        let mut torn = disk();
        torn.crash(1, true);
        assert!(!torn.is_rotten());
        for seed in 0..20 {
            let mut disk = disk();
            assert!(disk.rot(&mut Random::new(seed)));
            assert!(disk.is_rotten(), "seed {seed}");
        }
    }

    #[test]
    fn commits_snapshots_all_at_once() {
        let mut disk = disk();
        disk.change_snapshot(vec![1], Some(vec![10]));
        disk.crash(0, false);
        assert!(disk.snapshots().is_empty());
        disk.change_snapshot(vec![1], Some(vec![10]));
        disk.compact(Position(2));
        assert_eq!(disk.snapshots(), [[10]]);
        assert_eq!(firsts(&mut disk), [2]);
    }
}
