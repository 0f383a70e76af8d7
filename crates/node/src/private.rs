//! Files that nobody but their owner is to read: secrets, private keys, the token of the API.
//!
//! The node makes its own so. What a copy, a volume or a hand has opened to others since is refused, as ssh
//! refuses a private key: whoever has read one goes on to be the node, and nobody would notice.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

/// The text of such a file, and its permissions if they let others at it. These are of the very file that was read.
pub(crate) fn read(path: &Path) -> io::Result<(String, Option<u32>)> {
    let file = File::open(path)?;
    let exposed = exposed(&file.metadata()?);
    Ok((io::read_to_string(file)?, exposed))
}

/// The permissions of a file, if they let others than its owner at it.
#[cfg(unix)]
pub(crate) fn exposed(metadata: &Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    let mode = metadata.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
pub(crate) const fn exposed(_metadata: &Metadata) -> Option<u32> {
    None
}
