//! A file that a long command writes at its end, opened at its beginning: minutes are not spent on one
//! that cannot be written, and what was in it stays until there is something better.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// A file that is open and will be written.
pub(crate) struct Output {
    file: File,
    path: PathBuf,
}

impl Output {
    /// Opens a file, which is made if it is not there.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Replaces what is in it.
    pub(crate) fn write(mut self, text: &str) -> anyhow::Result<()> {
        // What is no plain file (`/dev/stdout`) has no length that could be set.
        let is_plain = self.file.metadata().is_ok_and(|metadata| metadata.is_file());
        let emptied = if is_plain { self.file.set_len(0) } else { Ok(()) };
        let written = emptied.and_then(|()| self.file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_stays_until_something_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figure.svg");
        std::fs::write(&path, "an old figure").unwrap();
        let output = Output::open(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "an old figure");
        output.write("new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert!(Output::open(&folder.path().join("nowhere/figure.svg")).is_err());
    }
}
