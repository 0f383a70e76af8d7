//! Executions whose end nobody has been told yet.
//!
//! A run without an id finds its execution again while it is not finished. But a process can also
//! die after the last record and before its last word: whoever then runs it again wants to hear how
//! it ended, not to have it all done once more. So every such execution has a file of its name, from
//! before it is started until its end was told.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use outlast_lineage::ExecutionId;

/// Notes of a data directory.
pub(super) struct Untold {
    folder: PathBuf,
}

impl Untold {
    /// The notes in a data directory.
    pub(super) fn of(directory: &Path) -> Self {
        Self { folder: directory.join("untold") }
    }

    /// Executions that were started, or were about to be, and of whose end nobody was told.
    pub(super) fn executions(&self) -> io::Result<Vec<ExecutionId>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut executions = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            executions.extend(name.to_str().and_then(|name| name.parse::<ExecutionId>().ok()));
        }
        executions.sort_unstable();
        Ok(executions)
    }

    /// An execution is about to be started.
    pub(super) fn note(&self, execution: ExecutionId) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        File::create(self.path(execution))?.sync_all()?;
        File::open(&self.folder)?.sync_all()
    }

    /// Its end was told. If that is lost in a crash, it is told again.
    pub(super) fn told(&self, execution: ExecutionId) -> io::Result<()> {
        match fs::remove_file(self.path(execution)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn path(&self, execution: ExecutionId) -> PathBuf {
        self.folder.join(execution.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_what_was_noted_until_it_was_told() {
        let directory = tempfile::tempdir().unwrap();
        let untold = Untold::of(directory.path());
        let [one, two] = [1, 2].map(|byte| ExecutionId::from_bytes([byte; 16]));
        assert_eq!(untold.executions().unwrap(), []);
        untold.note(two).unwrap();
        untold.note(one).unwrap();
        fs::write(directory.path().join("untold/something else"), "").unwrap();
        assert_eq!(untold.executions().unwrap(), [one, two]);
        untold.told(one).unwrap();
        untold.told(one).unwrap();
        assert_eq!(untold.executions().unwrap(), [two]);
    }
}
