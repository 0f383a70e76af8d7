//! Segment files: their names, their header, and how they come to be.
//!
//! A segment is made under another name, filled with zeros and synced, given its header, synced
//! again, and only then renamed. So a file with a segment's name always has a whole header, and
//! writing records into it changes no metadata, which makes a sync half as long. The header has a
//! block of its own that is never written again.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use super::error::DamageKind;

/// The format this program writes, and the latest it reads.
pub(super) const FORMAT_VERSION: u16 = 1;
/// The header's block; records begin after it.
pub(super) const HEADER_BYTES: u64 = 4096;
/// The part of the header block that is used, and keeps its layout in every version.
const HEADER_USED: usize = 64;
const MAGIC: &[u8; 8] = b"OUTLASTJ";
const EXTENSION: &str = "segment";
const PREPARED: &str = "prepared.tmp";
/// Zeros are written and synced in pieces, so that making a segment in the background does not hold
/// up the syncs of records for long.
const ZEROS_BYTES: usize = 1024 * 1024;

/// What the first block of a segment says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) number: u64,
    /// The position of its first record.
    pub(crate) first: u64,
    /// Which life of which node wrote it.
    pub(crate) incarnation: u64,
    /// Bytes of the file.
    pub(crate) capacity: u64,
    /// What the checksums of its records start from.
    pub(crate) salt: u32,
}

impl Header {
    /// The bytes of the header, without the zeros that fill its block.
    pub(crate) fn encode(&self) -> [u8; HEADER_USED] {
        let mut bytes = [0; HEADER_USED];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..10].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.salt.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.capacity.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..60]);
        bytes[60..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the header of a segment.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DamageKind> {
        let used: &[u8; HEADER_USED] = bytes.first_chunk().ok_or(DamageKind::Header)?;
        let number = |at: usize| u64::from_le_bytes(used[at..at + 8].try_into().expect("8 bytes"));
        let checksum = u32::from_le_bytes(used[60..].try_into().expect("4 bytes"));
        if &used[..8] != MAGIC || checksum != crc32fast::hash(&used[..60]) {
            return Err(DamageKind::Header);
        }
        let version = u16::from_le_bytes([used[8], used[9]]);
        if FORMAT_VERSION < version {
            return Err(DamageKind::FutureVersion { version });
        }
        Ok(Self {
            number: number(16),
            first: number(24),
            incarnation: number(32),
            capacity: number(40),
            salt: u32::from_le_bytes(used[12..16].try_into().expect("4 bytes")),
        })
    }
}

/// The file of a segment.
pub(crate) fn path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:016}.{EXTENSION}"))
}

/// The numbers of the segments in a directory, rising.
pub(crate) fn list(directory: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            numbers.extend(stem.and_then(|stem| stem.parse::<u64>().ok()));
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Makes a directory that only its owner may look into, and its name durable.
pub(crate) fn create_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    match directory.parent() {
        Some(parent) if parent != Path::new("") => sync_directory(parent),
        _ => sync_directory(Path::new(".")),
    }
}

/// Removes what a crash left of a segment that was being made.
pub(super) fn remove_prepared(directory: &Path) -> io::Result<()> {
    match fs::remove_file(directory.join(PREPARED)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A file of zeros that is on disk and waits to become a segment.
#[derive(Debug)]
pub(super) struct Prepared {
    file: File,
    capacity: u64,
}

impl Prepared {
    /// Makes one now. A file that could not be finished is removed: its room is needed.
    pub(super) fn make(directory: &Path, capacity: u64) -> io::Result<Self> {
        let path = directory.join(PREPARED);
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
        fill_with_zeros(&file, 0, capacity)
            .inspect_err(|_| drop(fs::remove_file(&path)))
            .map(|()| Self { file, capacity })
    }

    /// Makes one in a thread of its own.
    pub(super) fn make_in_background(directory: &Path, capacity: u64) -> io::Result<Preparing> {
        let directory = directory.to_owned();
        let thread = thread::Builder::new()
            .name("journal-prepare".into())
            .spawn(move || Self::make(&directory, capacity))?;
        Ok(Preparing(thread))
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Gives it its header and its name. Safe to repeat after a failure for want of space.
    pub(super) fn name(&self, directory: &Path, header: &Header) -> io::Result<()> {
        assert_eq!(header.capacity, self.capacity);
        self.file.write_all_at(&header.encode(), 0)?;
        self.file.sync_data()?;
        fs::rename(directory.join(PREPARED), path(directory, header.number))?;
        sync_directory(directory)
    }

    pub(super) fn into_file(self) -> File {
        self.file
    }
}

/// A segment that is being made in the background.
#[derive(Debug)]
pub(super) struct Preparing(JoinHandle<io::Result<Prepared>>);

impl Preparing {
    /// Waits for it.
    pub(super) fn finish(self) -> io::Result<Prepared> {
        self.0.join().unwrap_or_else(|_| Err(io::Error::other("preparing a segment panicked")))
    }
}

/// Writes zeros over a part of a file and syncs them.
pub(super) fn fill_with_zeros(file: &File, from: u64, to: u64) -> io::Result<()> {
    static ZEROS: [u8; ZEROS_BYTES] = [0; ZEROS_BYTES];
    let mut offset = from;
    while offset < to {
        let piece = (to - offset).min(ZEROS_BYTES as u64);
        file.write_all_at(&ZEROS[..piece as usize], offset)?;
        file.sync_data()?;
        offset += piece;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header =
        Header { number: 2, first: 9, incarnation: 0x0102, capacity: 8192, salt: 5 };

    #[test]
    fn the_bytes_of_a_header_stay_as_version_one_wrote_them() {
        let bytes = HEADER.encode();
        assert_eq!(&bytes[..16], b"OUTLASTJ\x01\0\0\0\x05\0\0\0");
        assert_eq!(bytes[60..], [170, 113, 243, 184]);
        assert_eq!(Header::decode(&bytes), Ok(HEADER));
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_noticed() {
        let bytes = HEADER.encode();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&flipped), Err(DamageKind::Header), "bit {bit}");
        }
    }

    #[test]
    fn a_later_format_is_refused_by_name() {
        let mut bytes = HEADER.encode();
        bytes[8] = 2;
        let checksum = crc32fast::hash(&bytes[..60]);
        bytes[60..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Header::decode(&bytes), Err(DamageKind::FutureVersion { version: 2 }));
    }
}
