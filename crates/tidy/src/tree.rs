//! The text files of the workspace.

use std::fs;
use std::io;
use std::path::Path;

/// Where the workspace keeps what people wrote; everything else (build output, data) is not read.
const ROOTS: [&str; 7] = ["crates", "docs", "examples", "fuzz", ".cargo", ".ci", ".github"];

/// Folders inside them that are made by tools.
const MADE: [&str; 4] = ["target", "corpus", "artifacts", "node_modules"];

/// A text file.
pub struct File {
    /// Its path relative to the workspace, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Reads every text file of the workspace, in order of their paths.
pub fn read(workspace: &Path) -> io::Result<Vec<File>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(workspace)? {
        let entry = entry?;
        // In a linked worktree `.git` is a file that says where the repository is.
        if entry.file_type()?.is_file() && entry.file_name() != ".git" {
            read_file(&entry.path(), workspace, &mut files)?;
        }
    }
    for root in ROOTS.map(|root| workspace.join(root)).iter().filter(|root| root.is_dir()) {
        read_folder(root, workspace, &mut files)?;
    }
    files.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(files)
}

fn read_folder(folder: &Path, workspace: &Path, files: &mut Vec<File>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let made = path.file_name().is_some_and(|name| MADE.iter().any(|made| name == *made));
        if path.is_dir() && !made {
            read_folder(&path, workspace, files)?;
        } else if path.is_file() {
            read_file(&path, workspace, files)?;
        }
    }
    Ok(())
}

/// Adds a file if it is text; golden journals and the like are not.
fn read_file(path: &Path, workspace: &Path, files: &mut Vec<File>) -> io::Result<()> {
    if let Ok(text) = String::from_utf8(fs::read(path)?) {
        let relative = path.strip_prefix(workspace).unwrap_or(path);
        let path = relative.to_string_lossy().replace('\\', "/");
        files.push(File { path, text });
    }
    Ok(())
}
