//! Copying segments: into a backup as far as they are durable, and out of one into a new life.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{MutexGuard, PoisonError};

use super::Journal;
use super::frame;
use super::segment::{self, HEADER_BYTES, Header};

/// As long as this lives, no segment is deleted.
pub(crate) struct KeptSegments<'a> {
    journal: &'a Journal,
    _truncation: MutexGuard<'a, ()>,
}

impl Journal {
    /// Holds off truncation.
    pub(crate) fn keep_segments(&self) -> KeptSegments<'_> {
        let truncation = self.truncation.lock().unwrap_or_else(PoisonError::into_inner);
        KeptSegments { journal: self, _truncation: truncation }
    }
}

impl KeptSegments<'_> {
    /// Copies every record that is durable by now, while others are being appended.
    pub(crate) fn copy_to(&self, target: &Path) -> io::Result<()> {
        // The mark is read first: all up to it is in the segments that are found afterwards.
        let durable = self.journal.durable();
        copy_segments(&self.journal.directory, target, durable)
    }
}

/// Copies every record up to a position, and nothing that lies behind.
pub(crate) fn copy_segments(from: &Path, to: &Path, last: u64) -> io::Result<()> {
    for number in segment::list(from)? {
        let bytes = fs::read(segment::path(from, number))?;
        let header = readable(&bytes)?;
        let end = end_of_records(&bytes, &header, last);
        let mut file = File::create(segment::path(to, number))?;
        file.write_all(&bytes[..end])?;
        file.set_len(header.capacity)?;
        file.sync_all()?;
    }
    segment::sync_directory(to)
}

/// Copies segments into the data of another incarnation.
pub(crate) fn adopt_segments(from: &Path, to: &Path, incarnation: u64) -> io::Result<()> {
    for number in segment::list(from)? {
        let mut bytes = fs::read(segment::path(from, number))?;
        let header = Header { incarnation, ..readable(&bytes)? }.encode();
        bytes[..header.len()].copy_from_slice(&header);
        let mut file = File::create(segment::path(to, number))?;
        file.write_all(&bytes)?;
        file.sync_all()?;
    }
    segment::sync_directory(to)
}

fn readable(bytes: &[u8]) -> io::Result<Header> {
    Header::decode(bytes)
        .map_err(|damage| io::Error::new(io::ErrorKind::InvalidData, format!("{damage:?}")))
}

fn end_of_records(bytes: &[u8], header: &Header, last: u64) -> usize {
    let mut end = HEADER_BYTES as usize;
    while let Some(frame) = frame::decode(&bytes[end..], header.salt)
        && frame.position <= last
    {
        end += frame.size();
    }
    end
}
