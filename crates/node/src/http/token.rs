//! The token of a node: 32 random bytes in a file that only its owner can read.
//!
//! Whoever can read the data directory can do everything to it anyway, so the commands on the same
//! machine take the token from there. The node keeps it nowhere else, and notices at once when the
//! file is written anew. It does not start with one that others can read.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use outlast_lineage::Digest;

use crate::{private, random};

/// The name of the token's file in a data directory.
const TOKEN_FILE: &str = "token";

/// Reads the token of the node that keeps its data in a directory.
pub fn read_token(directory: &Path) -> io::Result<String> {
    Ok(fs::read_to_string(directory.join(TOKEN_FILE))?.trim().to_owned())
}

/// Others can read the token of a node.
#[derive(Debug, thiserror::Error)]
#[error(
    "others can read the token {path} (mode {mode:03o}); run: chmod 600 {path}, and `outlast token --rotate` if \
     somebody may have read it"
)]
pub struct TokenExposed {
    path: PathBuf,
    mode: u32,
}

/// Refuses the token of the node that keeps its data in a directory if others can read it; there may be none.
pub fn check_token(directory: &Path) -> Result<(), TokenExposed> {
    let path = directory.join(TOKEN_FILE);
    // What cannot be read lets nobody in, and is told where it is read.
    match fs::metadata(&path).ok().as_ref().and_then(private::exposed) {
        Some(mode) => Err(TokenExposed { path, mode }),
        None => Ok(()),
    }
}

/// Makes a new token, which takes the place of the one before.
pub fn rotate_token(directory: &Path) -> io::Result<String> {
    let token = URL_SAFE_NO_PAD.encode(random::bytes::<32>());
    let unfinished = directory.join("token.tmp");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&unfinished)?;
    writeln!(file, "{token}")?;
    file.sync_all()?;
    fs::rename(&unfinished, directory.join(TOKEN_FILE))?;
    Ok(token)
}

/// The token as the node checks it.
#[derive(Debug)]
pub(super) struct Token {
    path: PathBuf,
}

impl Token {
    pub(super) fn new(directory: &Path) -> Self {
        Self { path: directory.join(TOKEN_FILE) }
    }

    /// Whether this is the token in the file as it is now; no token lets nobody in.
    ///
    /// The file is read each time: it is one small page in memory, and a time stamp cannot tell
    /// two tokens apart that were written within one tick of the file system's clock.
    pub(super) fn is(&self, given: &str) -> bool {
        let Ok(text) = fs::read_to_string(&self.path) else { return false };
        let token = text.trim();
        // Digests are compared, so that how long it takes tells nothing about the token.
        !token.is_empty() && Digest::of(token.as_bytes()) == Digest::of(given.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_token_is_the_token() {
        let directory = tempfile::tempdir().unwrap();
        let token = Token::new(directory.path());
        assert!(!token.is(""), "no token lets nobody in");
        let first = rotate_token(directory.path()).unwrap();
        assert!(token.is(&first) && !token.is("another"));
        let second = rotate_token(directory.path()).unwrap();
        assert_ne!(first, second);
        assert_eq!(read_token(directory.path()).unwrap(), second);
        assert!(token.is(&second) && !token.is(&first));
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_can_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        rotate_token(directory.path()).unwrap();
        let mode = fs::metadata(directory.path().join(TOKEN_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[cfg(unix)]
    #[test]
    fn a_token_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        check_token(directory.path()).expect("there is none yet");
        rotate_token(directory.path()).unwrap();
        check_token(directory.path()).expect("it is made so");
        let path = directory.path().join(TOKEN_FILE);
        for mode in [0o640, 0o604] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let said = check_token(directory.path()).unwrap_err().to_string();
            let advice = format!("(mode {mode:03o}); run: chmod 600 {}", path.display());
            assert!(said.contains(&advice), "{said}");
        }
    }
}
