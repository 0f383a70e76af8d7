//! What can go wrong with a journal, with its place and what to do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::data::LockError;

/// Why the journal did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The disk is full. Nothing that was not stored is acknowledged; the journal goes on by
    /// itself when there is room again.
    #[error("no space left for the journal ({0}); free some, and it goes on by itself")]
    Full(Arc<str>),
    /// The disk did not keep what it was given. The journal has stopped for good: a sync that
    /// failed once can no longer be trusted, so it is never tried again.
    #[error("the journal has stopped because its disk failed ({0}); check the disk, start again")]
    Poisoned(Arc<str>),
    /// A record over the limit.
    #[error("a record of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// Another process has the journal.
    #[error(transparent)]
    Locked(#[from] LockError),
    /// What is on disk is not what was written.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The operating system refused something.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What it said.
        #[source]
        source: io::Error,
    },
}

impl JournalError {
    /// Gives an error of the operating system its place.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}

/// Something on disk that is not what was written, and where.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// The byte in it.
    pub offset: u64,
    /// The position of the first record that is affected.
    pub position: u64,
    /// What is wrong.
    pub kind: DamageKind,
}

/// The kinds of damage.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase", tag = "what")]
pub enum DamageKind {
    /// The first block of a segment is not what was written.
    Header,
    /// A later format than this program knows.
    FutureVersion {
        /// The version found.
        version: u16,
    },
    /// The file belongs to another node, or to an earlier life of this one.
    ForeignIncarnation {
        /// The incarnation found.
        found: u64,
        /// The one of this node.
        expected: u64,
    },
    /// The name of the file and its header disagree about which segment it is.
    Misnamed {
        /// The number in the header.
        number: u64,
    },
    /// A segment between two others, or the whole journal, is not there.
    MissingSegment {
        /// Its number.
        number: u64,
    },
    /// A record that was safely on disk is not what was written.
    Record,
    /// Records that were safely on disk are not there.
    MissingRecords {
        /// The first position that is there again, or would be next.
        until: u64,
    },
    /// The same positions are in two segments.
    Overlap {
        /// The first position of the following segment.
        next: u64,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, position, kind } = self;
        write!(formatter, "{} at byte {offset}, record {position}: ", file.display())?;
        match kind {
            DamageKind::Header => formatter.write_str("the segment's header is damaged")?,
            DamageKind::FutureVersion { version } => {
                let known = super::segment::FORMAT_VERSION;
                return write!(
                    formatter,
                    "written in format {version} by a later release, and this one reads up to \
                     {known}; start the later release"
                );
            }
            DamageKind::ForeignIncarnation { found, expected } => {
                return write!(
                    formatter,
                    "belongs to incarnation {found:016x}, and this node is {expected:016x}; move \
                     the file away if it was copied here by mistake"
                );
            }
            DamageKind::Misnamed { number } => {
                return write!(formatter, "is segment {number} by its header; rename it back");
            }
            DamageKind::MissingSegment { number } => {
                write!(formatter, "segment {number} is missing")?;
            }
            DamageKind::Record => formatter.write_str("the record's checksum is wrong")?,
            DamageKind::MissingRecords { until } => {
                write!(formatter, "the records from {position} up to {until} are missing")?;
            }
            DamageKind::Overlap { next } => {
                write!(formatter, "goes on although the next segment begins at record {next}")?;
            }
        }
        formatter.write_str("; nothing was changed: restore a backup (`outlast data restore`)")
    }
}

impl std::error::Error for Damage {}

/// The end of the last segment that a crash left half written. None of it had been acknowledged.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TornTail {
    /// The file.
    pub file: PathBuf,
    /// Where it was cut.
    pub offset: u64,
    /// The position that will be written there next.
    pub position: u64,
    /// How many bytes were cut off.
    pub bytes: u64,
}

impl fmt::Display for TornTail {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}: {} bytes from byte {} on were half written when the node stopped; none of it had \
             been acknowledged, the journal goes on with record {}",
            self.file.display(),
            self.bytes,
            self.offset,
            self.position
        )
    }
}
