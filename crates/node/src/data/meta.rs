//! Who a data directory belongs to: the node, its incarnation, its epoch.
//!
//! The epoch is raised durably at every start, before anything else is done, so that no state id is
//! ever produced twice. A restored backup gets a new incarnation, and an epoch that leaps past every
//! one that can have been used since the backup was made.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use outlast_lineage::{Epoch, NodeId};
use serde::{Deserialize, Serialize};

use crate::journal::segment::sync_directory;

const META_FILE: &str = "meta.json";
/// What the meta file is called until it is whole.
pub(super) const UNFINISHED_FILE: &str = "meta.json.tmp";
const FORMAT: u32 = 1;
/// More starts than a node makes between a backup and the day it is restored.
const RESTORE_LEAP_MIN: u64 = 1 << 20;
/// The random part of the leap: two restores of one backup do not land on the same epochs.
const RESTORE_LEAP_SPREAD: u64 = 1 << 40;

/// Who a data directory belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meta {
    /// The node.
    pub node: NodeId,
    /// Which life of its data this is: a new one after every restore.
    pub incarnation: u64,
    /// How often it was started, with a leap at every restore.
    pub epoch: Epoch,
    /// Whether journal and store have been made. Once they have, their absence is a loss.
    pub ready: bool,
}

/// Why the meta file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum MetaError {
    /// It is not what was written.
    #[error("{} is damaged ({why}); restore a backup (`outlast data restore`)", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It was written by a later release.
    #[error(
        "{} has format {format} of a later release, and this one reads up to {FORMAT}; start the \
         later release",
        path.display()
    )]
    FutureFormat {
        /// The file.
        path: PathBuf,
        /// The format found.
        format: u32,
    },
    /// The operating system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What it said.
        #[source]
        source: io::Error,
    },
}

/// The file as it is written; numbers that JSON readers would round are in hexadecimal.
#[derive(Serialize, Deserialize)]
struct Document {
    format: u32,
    node: String,
    incarnation: String,
    epoch: u64,
    ready: bool,
    checksum: String,
}

impl Meta {
    /// Of a new directory, from a random number.
    pub fn new(random: u64) -> Self {
        Self { node: NodeId(random), incarnation: random, epoch: Epoch(0), ready: false }
    }

    /// The same node's data in its next life, from a random number.
    pub(super) fn restored(&self, random: u64) -> Self {
        let leap = RESTORE_LEAP_MIN + random % RESTORE_LEAP_SPREAD;
        Self { incarnation: random, epoch: Epoch(self.epoch.0 + leap), ..self.clone() }
    }

    /// Reads the meta file of a directory; nothing if there is none.
    pub fn read(directory: &Path) -> Result<Option<Self>, MetaError> {
        let path = directory.join(META_FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(MetaError::Io { action: "read", path, source }),
        };
        let damaged = |why: String| MetaError::Damaged { path: path.clone(), why };
        let document: Document =
            serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        if document.checksum != document.expected_checksum() {
            return Err(damaged("its checksum is wrong".to_owned()));
        }
        if FORMAT < document.format {
            return Err(MetaError::FutureFormat { path, format: document.format });
        }
        let number = |text: &str| u64::from_str_radix(text, 16).map_err(|e| damaged(e.to_string()));
        Ok(Some(Self {
            node: NodeId(number(&document.node)?),
            incarnation: number(&document.incarnation)?,
            epoch: Epoch(document.epoch),
            ready: document.ready,
        }))
    }

    /// Writes the meta file, so that after a crash either the old or the new one is there.
    pub(super) fn write(&self, directory: &Path) -> Result<(), MetaError> {
        let path = directory.join(META_FILE);
        let written = directory.join(UNFINISHED_FILE);
        let text = serde_json::to_vec_pretty(&self.document()).expect("numbers and texts encode");
        let write = || {
            let mut file = File::create(&written)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&written, &path)?;
            sync_directory(directory)
        };
        write().map_err(|source| MetaError::Io { action: "write", path: path.clone(), source })
    }

    fn document(&self) -> Document {
        let mut document = Document {
            format: FORMAT,
            node: format!("{:016x}", self.node.0),
            incarnation: format!("{:016x}", self.incarnation),
            epoch: self.epoch.0,
            ready: self.ready,
            checksum: String::new(),
        };
        document.checksum = document.expected_checksum();
        document
    }
}

impl Document {
    fn expected_checksum(&self) -> String {
        let Self { format, node, incarnation, epoch, ready, .. } = self;
        let fields = format!("{format} {node} {incarnation} {epoch} {ready}");
        format!("{:08x}", crc32fast::hash(fields.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_it_wrote() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Meta::read(directory.path()).unwrap(), None);
        let meta = Meta { epoch: Epoch(7), ready: true, ..Meta::new(u64::MAX) };
        meta.write(directory.path()).unwrap();
        assert_eq!(Meta::read(directory.path()).unwrap(), Some(meta));
    }

    #[test]
    fn notices_an_edited_file() {
        let directory = tempfile::tempdir().unwrap();
        Meta::new(5).write(directory.path()).unwrap();
        let path = directory.path().join(META_FILE);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"epoch\": 0", "\"epoch\": 9")).unwrap();
        let error = Meta::read(directory.path()).unwrap_err();
        assert!(matches!(error, MetaError::Damaged { .. }), "{error}");
    }

    #[test]
    fn a_restored_node_never_meets_the_epochs_of_its_former_life() {
        let backed_up = Meta { epoch: Epoch(5), ..Meta::new(1) };
        let restored = backed_up.restored(77);
        assert!(Epoch(5 + (1 << 20)) <= restored.epoch);
        assert_ne!(restored.epoch, backed_up.restored(78).epoch);
        assert_ne!(restored.incarnation, backed_up.incarnation);
        assert_eq!(restored.node, backed_up.node);
    }
}
