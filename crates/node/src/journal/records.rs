//! The records of a journal, read again in order after the survey found them in order.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;

use super::error::{Damage, DamageKind, JournalError, TornTail};
use super::frame::{self, Kind};
use super::segment::HEADER_BYTES;
use super::survey::Extent;

/// One record as it was appended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Its number.
    pub position: u64,
    /// What was appended.
    pub bytes: Vec<u8>,
}

/// What opening a journal found.
#[derive(Debug)]
pub struct Recovered {
    /// Every record that is kept, in order. Read while you go: one segment is in memory at a time.
    /// Use it up before calling `truncate_before`.
    pub records: Records,
    /// How many there are.
    pub count: u64,
    /// The half-written end that was cut off, if there was one.
    pub torn: Option<TornTail>,
    /// Whether the last process to write here had closed the journal in good order.
    pub closed: bool,
}

/// Reads records segment by segment.
#[derive(Debug)]
pub struct Records {
    segments: VecDeque<Extent>,
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    extent: Extent,
    bytes: Vec<u8>,
    offset: usize,
}

impl Records {
    pub(super) fn new(segments: Vec<Extent>) -> Self {
        Self { segments: segments.into(), current: None }
    }

    fn load(extent: Extent) -> Result<Current, JournalError> {
        let mut bytes = Vec::new();
        File::open(&extent.file)
            .and_then(|file| file.take(extent.end).read_to_end(&mut bytes))
            .map_err(JournalError::io("read", &extent.file))?;
        Ok(Current { extent, bytes, offset: HEADER_BYTES as usize })
    }
}

impl Iterator for Records {
    type Item = Result<Record, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.current.as_mut().and_then(Current::next) {
                return Some(record);
            }
            match Self::load(self.segments.pop_front()?) {
                Ok(current) => self.current = Some(current),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Current {
    fn next(&mut self) -> Option<Result<Record, JournalError>> {
        while self.offset < self.extent.end as usize {
            let rest = self.bytes.get(self.offset..).unwrap_or_default();
            let Some(frame) = frame::decode(rest, self.extent.header.salt) else {
                return Some(Err(self.changed_under_us()));
            };
            self.offset += frame.size();
            if frame.kind == Kind::Record {
                let bytes = frame.payload.to_vec();
                return Some(Ok(Record { position: frame.position, bytes }));
            }
        }
        None
    }

    /// The survey saw a right frame here a moment ago.
    fn changed_under_us(&mut self) -> JournalError {
        let offset = std::mem::replace(&mut self.offset, usize::MAX) as u64;
        let file = self.extent.file.clone();
        let position = self.extent.header.first;
        JournalError::Damaged(Damage { file, offset, position, kind: DamageKind::Record })
    }
}
