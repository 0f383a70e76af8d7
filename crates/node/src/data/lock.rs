//! One process per directory: an advisory lock that ends with the process that holds it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The name of the lock file in a directory.
pub(crate) const LOCK_FILE: &str = "lock";

/// Why a directory could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error(
        "{} is in use by process {holder}; stop that first, or use another directory",
        directory.display()
    )]
    InUse {
        /// The directory.
        directory: PathBuf,
        /// The process that has it, as far as it is known.
        holder: String,
    },
    /// The operating system refused.
    #[error("cannot lock {}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What it said.
        #[source]
        source: io::Error,
    },
}

/// Held as long as this value lives, and no longer than the process.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "the lock is held while the file is open")] File);

impl Lock {
    /// Takes the lock of a directory, or says who has it.
    pub fn acquire(directory: &Path) -> Result<Self, LockError> {
        let path = directory.join(LOCK_FILE);
        let failed = |source| LockError::Io { path: path.clone(), source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::InUse {
                    directory: directory.to_owned(),
                    holder: holder(&mut file),
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        // The process id is for people; without it the lock holds as well, so that a full disk
        // does not keep a node from starting.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self(file))
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    match file.read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "(unknown)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_told_who_has_it() {
        let directory = tempfile::tempdir().unwrap();
        let lock = Lock::acquire(directory.path()).unwrap();
        let refused = Lock::acquire(directory.path()).unwrap_err().to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        drop(lock);
        Lock::acquire(directory.path()).unwrap();
    }
}
