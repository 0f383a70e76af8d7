//! Copies of a data directory: made of a stopped node or of a running one, and restored.
//!
//! A backup is a directory like the one it was made of, with a manifest that is written last and
//! names every file with its digest. Restoring checks the manifest first, and gives the data a new
//! incarnation: the node starts in an epoch that its former life cannot have used.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use outlast_lineage::{Digest, Digester};
use serde::{Deserialize, Serialize};

use super::check::check_claimed;
use super::{DataError, Meta, claim, journal_path, lock, store_path};
use crate::journal::segment::{create_directory, sync_directory};
use crate::journal::{self, Journal};
use crate::store::Store;

const MANIFEST_FILE: &str = "backup.json";
const FORMAT: u32 = 1;

/// What a backup consists of.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    /// File, relative to the backup, and digest.
    files: BTreeMap<PathBuf, String>,
}

/// Copies the data of a stopped node. Data that is damaged is not copied.
pub fn backup(directory: &Path, target: &Path) -> Result<(), DataError> {
    let (_lock, meta) = claim(directory)?;
    let report = check_claimed(directory, &meta)?;
    if let Some(problem) = report.problems.first() {
        let (directory, problem) = (directory.to_owned(), problem.to_string());
        return Err(DataError::Damaged { directory, problem });
    }
    let store = Store::open(&store_path(directory))?;
    copy_into(target, &meta, &store, |target| {
        journal::copy_segments(&journal_path(directory), target, u64::MAX)
    })
}

/// Copies the data of a running node: a moment of the store, and the journal as far as it is
/// durable. The node goes on meanwhile; only truncating the journal waits.
pub fn backup_running(
    meta: &Meta,
    store: &Store,
    journal: &Journal,
    target: &Path,
) -> Result<(), DataError> {
    // The store first, and no truncation in between: so the journal reaches back to its mark.
    let kept = journal.keep_segments();
    copy_into(target, meta, store, |target| kept.copy_to(target))
}

fn copy_into(
    target: &Path,
    meta: &Meta,
    store: &Store,
    copy_journal: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), DataError> {
    make_empty_directory(target)?;
    store.copy_to(&store_path(target))?;
    let journal = journal_path(target);
    create_directory(&journal)
        .and_then(|()| copy_journal(&journal))
        .map_err(DataError::io("copy the journal to", &journal))?;
    meta.write(target)?;
    write_manifest(target).map_err(DataError::io("write the manifest of", target))
}

/// Makes a data directory of a backup, from a random number. The directory must be new or empty.
pub fn restore(backup: &Path, directory: &Path, random: u64) -> Result<Meta, DataError> {
    verify(backup)?;
    let bad = |why: &str| DataError::BadBackup { directory: backup.to_owned(), why: why.into() };
    let meta = Meta::read(backup)?.ok_or_else(|| bad("it has no meta.json"))?.restored(random);
    make_empty_directory(directory)?;
    let store = store_path(directory);
    fs::copy(store_path(backup), &store)
        .and_then(|_| File::open(&store)?.sync_all())
        .map_err(DataError::io("write", &store))?;
    let journal = journal_path(directory);
    create_directory(&journal)
        .and_then(|()| journal::adopt_segments(&journal_path(backup), &journal, meta.incarnation))
        .map_err(DataError::io("write", &journal))?;
    // Last: without it this is no data directory, and a restore that was interrupted is noticed.
    meta.write(directory)?;
    Ok(meta)
}

fn make_empty_directory(directory: &Path) -> Result<(), DataError> {
    create_directory(directory).map_err(DataError::io("create", directory))?;
    let mut entries = fs::read_dir(directory).map_err(DataError::io("read", directory))?;
    match entries.next() {
        Some(_) => Err(DataError::NotEmpty { directory: directory.to_owned() }),
        None => Ok(()),
    }
}

fn write_manifest(target: &Path) -> io::Result<()> {
    let mut files = BTreeMap::new();
    for path in files_of(target)? {
        files.insert(path.clone(), digest_of(&target.join(path))?.to_string());
    }
    let manifest = Manifest { format: FORMAT, files };
    let text = serde_json::to_vec_pretty(&manifest)?;
    let mut file = File::create(target.join(MANIFEST_FILE))?;
    file.write_all(&text)?;
    file.sync_all()?;
    sync_directory(target)
}

/// Checks that a backup is exactly what its manifest says.
fn verify(backup: &Path) -> Result<(), DataError> {
    let bad = |why: String| DataError::BadBackup { directory: backup.to_owned(), why };
    let text = fs::read(backup.join(MANIFEST_FILE))
        .map_err(|error| bad(format!("its manifest {MANIFEST_FILE} cannot be read ({error})")))?;
    let manifest: Manifest = serde_json::from_slice(&text)
        .map_err(|error| bad(format!("its manifest {MANIFEST_FILE} cannot be read ({error})")))?;
    if FORMAT < manifest.format {
        return Err(bad(format!("it has format {} of a later release", manifest.format)));
    }
    let there = files_of(backup).map_err(DataError::io("read", backup))?;
    if let Some(file) = there.iter().find(|file| !manifest.files.contains_key(*file)) {
        return Err(bad(format!("{} is not in its manifest", file.display())));
    }
    for (file, digest) in &manifest.files {
        let found = digest_of(&backup.join(file))
            .map_err(|error| bad(format!("{} cannot be read ({error})", file.display())))?;
        if found.to_string() != *digest {
            return Err(bad(format!("{} is not what was written", file.display())));
        }
    }
    Ok(())
}

/// The files of a backup that its manifest names, relative to it.
fn files_of(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in ["", "journal"] {
        for entry in fs::read_dir(directory.join(folder))? {
            let entry = entry?;
            let name = entry.file_name();
            let is_ours = name != MANIFEST_FILE && name != lock::LOCK_FILE;
            if is_ours && entry.file_type()?.is_file() {
                files.push(Path::new(folder).join(name));
            }
        }
    }
    Ok(files)
}

fn digest_of(path: &Path) -> io::Result<Digest> {
    const PIECE: u64 = 1024 * 1024;
    let file = File::open(path)?;
    let mut digester = Digester::new("backup file");
    let mut piece = Vec::new();
    while 0 < (&file).take(PIECE).read_to_end(&mut piece)? {
        digester = digester.field(&piece);
        piece.clear();
    }
    Ok(digester.finish())
}
