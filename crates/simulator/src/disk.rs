//! A disk that forgets what was not synced, and may tear what it was writing.
//!
//! The journal is a run of frames: length, digest, record. Reading stops at the first frame that is
//! cut off or does not fit its digest; what follows is dropped, as a node does with a torn tail.
//! Snapshots are kept beside it and replaced all at once, as by a transaction.

use std::collections::BTreeMap;

use outlast_engine::Position;
use outlast_lineage::Digest;

use crate::Random;

/// The bytes before a record: four of length, eight of digest.
const FRAME_HEAD: usize = 12;

/// What survives of a node.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// Frames that a sync made safe.
    synced: Vec<(Position, Vec<u8>)>,
    /// Frames that were written since.
    written: Vec<(Position, Vec<u8>)>,
    snapshots: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Changes of snapshots that are not committed: a new one, or none.
    pending: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// How often something was synced.
    pub syncs: u64,
}

impl Disk {
    /// Appends a record to the journal.
    pub fn append(&mut self, position: Position, record: &[u8]) {
        let length = u32::try_from(record.len()).expect("records are bounded");
        let digest = Digest::of(record).short();
        let frame = [&length.to_be_bytes()[..], &digest.to_be_bytes(), record].concat();
        self.written.push((position, frame));
    }

    /// The last record that was written, if it is not synced.
    pub fn unsynced(&self) -> Option<Position> {
        self.written.last().map(|(position, _)| *position)
    }

    /// How many records are written and not synced.
    pub const fn unsynced_count(&self) -> usize {
        self.written.len()
    }

    /// Makes everything safe that was written up to a record.
    pub fn sync(&mut self, up_to: Position) {
        self.syncs += 1;
        let safe = self.written.iter().take_while(|(position, _)| *position <= up_to).count();
        self.synced.extend(self.written.drain(..safe));
    }

    /// Loses what was not synced, but for the first `survive` frames; the next one may be torn.
    pub fn crash(&mut self, survive: usize, torn: bool) {
        self.pending.clear();
        let mut lost = std::mem::take(&mut self.written).into_iter();
        self.synced.extend(lost.by_ref().take(survive));
        if let Some((position, mut frame)) = lost.next().filter(|_| torn) {
            frame.truncate(frame.len() - frame.len() / 3);
            self.synced.push((position, frame));
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
        let (_, frame) = &mut self.synced[random.index(old)];
        let byte = random.index(frame.len());
        frame[byte] ^= 1 << random.between(0, 7);
        true
    }

    /// Whether a record that others follow is not what was written.
    pub fn is_rotten(&self) -> bool {
        let older = self.synced.len().saturating_sub(1);
        self.synced[..older].iter().any(|(_, frame)| !is_whole(frame))
    }

    /// The records of the journal; a torn tail is cut off.
    pub fn records(&mut self) -> Vec<Vec<u8>> {
        let whole = self.synced.iter().take_while(|(_, frame)| is_whole(frame)).count();
        self.synced.truncate(whole);
        self.synced.iter().map(|(_, frame)| frame[FRAME_HEAD..].to_vec()).collect()
    }

    /// Replaces or drops a snapshot, from the next commit on.
    pub fn change_snapshot(&mut self, key: Vec<u8>, snapshot: Option<Vec<u8>>) {
        self.pending.push((key, snapshot));
    }

    /// Makes all changes of snapshots safe, and drops records that are no longer needed.
    pub fn compact(&mut self, replay_from: Position) {
        for (key, snapshot) in self.pending.drain(..) {
            match snapshot {
                Some(bytes) => drop(self.snapshots.insert(key, bytes)),
                None => drop(self.snapshots.remove(&key)),
            }
        }
        self.synced.retain(|(position, _)| *position >= replay_from);
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

fn is_whole(frame: &[u8]) -> bool {
    let Some((head, record)) = frame.split_at_checked(FRAME_HEAD) else { return false };
    let length = u32::from_be_bytes(head[..4].try_into().expect("a head has twelve bytes"));
    let digest = u64::from_be_bytes(head[4..].try_into().expect("a head has twelve bytes"));
    record.len() as u64 == u64::from(length) && Digest::of(record).short() == digest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> Disk {
        let mut disk = Disk::default();
        for number in 1..=4 {
            disk.append(Position(number), &[u8::try_from(number).unwrap(); 20]);
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
        disk.append(Position(4), &[9; 20]);
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
