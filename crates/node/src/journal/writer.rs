//! The one thread that writes: a batch, a sync, the mark; and the next segment when one is full.
//!
//! A full disk is waited out: the batch is kept and written again from the last durable offset.
//! Any other failure, and any failure of a sync, ends the thread for good.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::frame::{self, Frame, Kind};
use super::queue::Queue;
use super::segment::{self, HEADER_BYTES, Header, Prepared, Preparing};
use super::{Event, Options};

/// Buffers that grew over this are given back once they are written.
const BUFFER_BYTES_KEPT: usize = 1024 * 1024;

/// A segment that records can be in: its number and the position of its first record.
pub(super) type Segments = Arc<Mutex<Vec<(u64, u64)>>>;

pub(super) struct Writer {
    pub(super) directory: PathBuf,
    pub(super) options: Options,
    pub(super) queue: Arc<Queue>,
    pub(super) segments: Segments,
    pub(super) on_event: Box<dyn FnMut(Event) + Send>,
    /// The segment that is being written, and where its next frame goes.
    pub(super) file: File,
    pub(super) header: Header,
    pub(super) offset: u64,
    /// Whether the last frame says that the journal was closed, or there is no record at all.
    pub(super) closed: bool,
    pub(super) preparing: Option<Preparing>,
}

/// Why a batch was not stored.
enum Failure {
    /// No space; nothing is lost and nothing has to be doubted.
    Full(Arc<str>),
    /// The disk failed.
    Broken(Arc<str>),
}

impl Failure {
    /// Of anything but syncing records.
    fn of(action: &str) -> impl Fn(io::Error) -> Self {
        move |error| {
            let reason = format!("{action}: {error}").into();
            match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full(reason),
                _ => Self::Broken(reason),
            }
        }
    }
}

impl Writer {
    /// Writes until the journal is closed or the disk fails.
    pub(super) fn run(mut self) {
        if self.store_batches() {
            self.state_that_it_is_closed();
        }
        // The next to open this journal makes a file of the same name.
        if let Some(preparing) = self.preparing.take() {
            let _ = preparing.finish();
        }
        let _ = segment::remove_prepared(&self.directory);
    }

    /// Stores all that comes. Says whether all of it was stored.
    fn store_batches(&mut self) -> bool {
        let (mut empty, mut sync) = (Vec::new(), Duration::ZERO);
        while let Some(batch) = self.queue.take(empty, sync) {
            let began = Instant::now();
            if !self.store(&batch) {
                return false;
            }
            sync = began.elapsed();
            empty = batch;
            empty.clear();
            empty.shrink_to(BUFFER_BYTES_KEPT);
        }
        true
    }

    /// Stores a batch however long it takes. Says whether to go on.
    fn store(&mut self, batch: &[u8]) -> bool {
        let mut stored = 0;
        let mut refused = false;
        loop {
            match self.write(batch, &mut stored) {
                Ok(()) => return true,
                Err(Failure::Full(reason)) => {
                    self.queue.refuse(reason.clone());
                    if !refused {
                        let from = frame::position_of_first(&batch[stored..]);
                        (self.on_event)(Event::Refused { from, reason });
                    }
                    refused = true;
                    if !self.queue.pause(self.options.full_retry) {
                        return false;
                    }
                }
                Err(Failure::Broken(reason)) => {
                    self.queue.poison(reason.clone());
                    (self.on_event)(Event::Poisoned { reason });
                    return false;
                }
            }
        }
    }

    /// Writes what is left of a batch, in as many parts as it takes segments.
    fn write(&mut self, batch: &[u8], stored: &mut usize) -> Result<(), Failure> {
        while *stored < batch.len() {
            let rest = &batch[*stored..];
            let (bytes, frames) = self.fitting(rest);
            if frames == 0 {
                self.begin_segment(rest)?;
                continue;
            }
            self.write_part(&rest[..bytes])?;
            *stored += bytes;
            let durable = frame::position_of_first(rest) + frames - 1;
            self.queue.publish(durable);
            (self.on_event)(Event::Durable(durable));
        }
        self.prepare_next_segment();
        Ok(())
    }

    /// How many bytes, and how many frames, of a batch fit into the segment.
    fn fitting(&self, batch: &[u8]) -> (usize, u64) {
        let room = (self.header.capacity - self.offset) as usize;
        let (mut bytes, mut frames) = (0, 0);
        while bytes < batch.len() {
            let size = frame::size_of_first(&batch[bytes..]);
            if room < bytes + size {
                break;
            }
            bytes += size;
            frames += 1;
        }
        (bytes, frames)
    }

    /// One write and one sync.
    fn write_part(&mut self, part: &[u8]) -> Result<(), Failure> {
        self.file.write_all_at(part, self.offset).map_err(Failure::of("write"))?;
        self.file
            .sync_data()
            .map_err(|error| Failure::Broken(format!("fdatasync: {error}").into()))?;
        self.offset += part.len() as u64;
        self.closed = false;
        Ok(())
    }

    /// Goes on in a new segment, large enough for the next frame.
    fn begin_segment(&mut self, rest: &[u8]) -> Result<(), Failure> {
        let needed = HEADER_BYTES + frame::size_of_first(rest) as u64;
        let prepared = self.prepared(needed).map_err(Failure::of("make a segment"))?;
        let header = Header {
            number: self.header.number + 1,
            first: frame::position_of_first(rest),
            capacity: prepared.capacity(),
            ..self.header
        };
        prepared.name(&self.directory, &header).map_err(Failure::of("name a segment"))?;
        self.file = prepared.into_file();
        self.offset = HEADER_BYTES;
        self.header = header;
        let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        segments.push((header.number, header.first));
        Ok(())
    }

    /// The segment made in the background if it will do, or one made now.
    fn prepared(&mut self, needed: u64) -> io::Result<Prepared> {
        let waiting = self.preparing.take().map(Preparing::finish).transpose()?;
        match waiting {
            Some(prepared) if needed <= prepared.capacity() => Ok(prepared),
            _ => Prepared::make(&self.directory, self.next_capacity().max(round_up(needed))),
        }
    }

    /// Segments double up to their usual size, so that a node with little to do uses little disk.
    fn next_capacity(&self) -> u64 {
        (self.header.capacity * 2).min(self.options.segment_bytes_max)
    }

    fn prepare_next_segment(&mut self) {
        if self.preparing.is_none() && self.header.capacity / 2 < self.offset {
            // If no thread can be had, the segment is made when it is needed.
            self.preparing =
                Prepared::make_in_background(&self.directory, self.next_capacity()).ok();
        }
    }

    /// Leaves word that all there is had been synced, so that damage to the last batch will be
    /// told from a torn tail. Whether this succeeds makes no difference to what is promised.
    fn state_that_it_is_closed(&mut self) {
        if self.closed {
            return;
        }
        let position = self.queue.next();
        let closing = Frame { position, batch: position, kind: Kind::Closed, payload: &[] };
        let mut bytes = Vec::new();
        frame::encode(&mut bytes, self.queue.salt(), &closing);
        if self.fitting(&bytes).1 == 1 {
            let _ = self.write_part(&bytes);
        }
    }
}

/// Whole blocks.
fn round_up(bytes: u64) -> u64 {
    bytes.next_multiple_of(HEADER_BYTES)
}
