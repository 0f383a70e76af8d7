//! A directory for one measurement, gone afterwards.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// A directory that is removed when it goes out of scope.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// A new directory below the one given, or below the system's place for temporary files.
    pub(super) fn new(below: Option<&Path>) -> anyhow::Result<Self> {
        let below = below.map_or_else(std::env::temp_dir, Path::to_owned);
        let path = below.join(format!("outlast-bench-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }

    /// A directory in it; the caller makes it.
    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The directory.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tell!("outlast: {} could not be removed: {error}", self.0.display());
        }
    }
}
