//! The journal: an own write-ahead log with group commit.
//!
//! Records are bytes with a position, a dense number that rises over all segments. Appending
//! returns at once; one writer thread takes everything that waits, writes it with one write and
//! one fdatasync into a preallocated segment, and reports how far the journal is durable. What the
//! records mean is no business of the journal. The format is described in `docs/journal.md`.
//!
//! Invariants:
//! - The durable mark never passes a record that a successful sync has not covered.
//! - A batch is written only after the batch before it was synced.
//! - After a failed sync the mark never moves again.

mod copy;
mod error;
mod floor;
mod frame;
mod open;
mod queue;
mod records;
pub(crate) mod segment;
pub(crate) mod survey;
#[cfg(test)]
mod tests;
mod writer;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) use copy::{adopt_segments, copy_segments};
pub use error::{Damage, DamageKind, JournalError, TornTail};
pub use floor::{FloorReport, bench_floor};
pub use frame::RECORD_BYTES_MAX;
pub use queue::Haste;
pub use records::{Record, Records, Recovered};

use crate::data::Lock;
use queue::Queue;
use writer::Segments;

/// How a journal is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which life of which node this is; segments of another are refused.
    pub incarnation: u64,
    /// The position up to which everything is kept elsewhere: the journal must reach from the
    /// next one, or earlier, to at least here.
    pub checkpoint: u64,
    /// Whether there may be no journal yet. Otherwise finding none is a loss.
    pub may_be_new: bool,
    /// Bytes of the first segment; each next one is twice as long.
    pub segment_bytes_min: u64,
    /// Bytes of a segment at most, unless one record needs more.
    pub segment_bytes_max: u64,
    /// Bytes that may wait for the writer before `append` waits as well.
    pub queue_bytes_max: usize,
    /// How long to wait on a full disk before trying again.
    pub full_retry: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            incarnation: 0,
            checkpoint: 0,
            may_be_new: true,
            segment_bytes_min: 1024 * 1024,
            segment_bytes_max: 16 * 1024 * 1024,
            queue_bytes_max: 16 * 1024 * 1024,
            full_retry: Duration::from_millis(250),
        }
    }
}

/// What the writer reports, from its own thread. Be quick: the next batch waits meanwhile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Every record up to this position is on disk. Also says that a full disk has room again.
    Durable(u64),
    /// The disk is full. The records from this one on are not stored and nothing after them will
    /// be acknowledged; they are kept and written again as soon as there is room. Take no new work
    /// until `Durable` comes.
    Refused {
        /// The first record that is not stored.
        from: u64,
        /// What the operating system said.
        reason: Arc<str>,
    },
    /// The disk failed. Nothing will be stored any more: stop the node.
    Poisoned {
        /// What the operating system said.
        reason: Arc<str>,
    },
}

/// A journal that is open for appending. Closes in good order when dropped.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    queue: Arc<Queue>,
    segments: Segments,
    /// Held while segments are deleted, or must not be.
    truncation: Mutex<()>,
    writer: Option<JoinHandle<()>>,
    _lock: Lock,
}

impl Journal {
    /// Opens the journal in a directory and finds the records in it, or makes a new one.
    ///
    /// A torn tail is cut off and told of in the result. Any other damage is an error that says
    /// where and what to do; then nothing was changed. All that is recovered has been synced, and
    /// counts as durable.
    pub fn open(
        directory: &Path,
        options: Options,
        on_event: impl FnMut(Event) + Send + 'static,
    ) -> Result<(Self, Recovered), JournalError> {
        open::open(directory, options, Box::new(on_event))
    }

    /// Queues a record and returns its position. It is durable when the mark has reached that.
    ///
    /// Waits only if more than `queue_bytes_max` are waiting already. Fails if the disk failed; if
    /// the record is too large; or if that much is waiting because the disk is full.
    pub fn append(&self, record: &[u8]) -> Result<u64, JournalError> {
        self.queue.append(&[record], Haste::Awaited)
    }

    /// Queues records so that they go to the disk together, and returns the position of the last
    /// one. Otherwise as `append`: all of them are queued, or on an error none. Those that nobody
    /// waits for may linger for some milliseconds, to share the sync of others.
    pub fn append_all<R: AsRef<[u8]>>(
        &self,
        records: &[R],
        haste: Haste,
    ) -> Result<u64, JournalError> {
        self.queue.append(records, haste)
    }

    /// Whoever appends has taken note of what is durable, and appended what follows from that: the next sync
    /// need not wait for it.
    pub fn note(&self, durable: u64) {
        self.queue.note(durable);
    }

    /// Has written at once what was appended: now somebody waits for it.
    pub fn hasten(&self) {
        self.queue.hasten();
    }

    /// Waits until the record at a position is on disk. Fails as soon as that cannot be promised.
    pub fn wait_durable(&self, position: u64) -> Result<(), JournalError> {
        self.queue.wait_durable(position)
    }

    /// Whether new work may be taken: an error while the disk is full, and after it has failed.
    pub fn condition(&self) -> Result<(), JournalError> {
        self.queue.condition()
    }

    /// Every record up to this position is on disk.
    pub fn durable(&self) -> u64 {
        self.queue.durable()
    }

    /// The position the next record will get.
    pub fn next_position(&self) -> u64 {
        self.queue.next()
    }

    /// How long the oldest record that is not durable yet has been waiting.
    pub fn lag(&self) -> Duration {
        self.queue.lag()
    }

    /// How many syncs of records there have been.
    pub fn syncs(&self) -> u64 {
        self.queue.syncs()
    }

    /// Deletes the segments that hold only records before a position, oldest first, and says how
    /// many. Call it after a checkpoint has been stored elsewhere.
    pub fn truncate_before(&self, position: u64) -> Result<usize, JournalError> {
        let _truncation = self.truncation.lock().unwrap_or_else(PoisonError::into_inner);
        let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        let mut removed = 0;
        while let [(number, _), (_, next), ..] = segments[..]
            && next <= position
        {
            let path = segment::path(&self.directory, number);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(JournalError::io("remove", &path)(error));
                }
                _ => segments.remove(0),
            };
            removed += 1;
        }
        if 0 < removed {
            segment::sync_directory(&self.directory)
                .map_err(JournalError::io("sync", &self.directory))?;
        }
        Ok(removed)
    }

    /// Writes what is waiting, leaves word that the journal was closed, and ends the writer.
    /// Fails if something could not be stored.
    pub fn close(mut self) -> Result<(), JournalError> {
        self.end_writer();
        self.queue.condition()
    }

    fn end_writer(&mut self) {
        self.queue.close();
        if let Some(writer) = self.writer.take() {
            // A panic of the writer has poisoned the queue, which is how it is told.
            let _ = writer.join();
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.end_writer();
    }
}
