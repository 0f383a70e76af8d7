//! The folder `cluster` of a data directory: what makes a node a member, in files of its owner's.
//!
//! ```text
//! node.key        the node's private key; made before it asks to join, so that asking again is
//!                 asking the same
//! authority.key   the authority's private key
//! authority.pem   the authority's certificate
//! node.pem        the node's certificate; written last: with it, the node is a member
//! members.json    the members this node has heard of, and where they are
//! turned-away     only if another process was heard as the node: why it does not start any more
//! invitations/    tokens that were given out, one file each
//! ```
//!
//! Every file is whole after a crash: either the old one or the new one. A private key that others can read is
//! not used.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::ClusterError;
use super::authority::{Authority, PrivateKey};
use crate::journal::segment::{create_directory, sync_directory};
use crate::private;
use crate::transport::Identity;

const NODE_KEY: &str = "node.key";
const NODE_CERTIFICATE: &str = "node.pem";
const AUTHORITY_KEY: &str = "authority.key";
const AUTHORITY_CERTIFICATE: &str = "authority.pem";
const TURNED_AWAY: &str = "turned-away";
/// What only members have, and whoever was admitted and ended before it was one.
const OF_MEMBERS: [&str; 2] = ["members.json", "invitations"];

/// The folder of a data directory.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

/// What is in the folder of a member.
pub(super) struct Credentials {
    pub(super) identity: Identity,
    pub(super) authority: Authority,
}

impl Folder {
    /// Of a data directory.
    pub(super) fn of(directory: &Path) -> Self {
        Self { path: directory.join("cluster") }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether this is the folder of a member.
    pub(super) fn is_member(&self) -> bool {
        self.path(NODE_CERTIFICATE).exists()
    }

    /// The node's private key; made if there is none.
    pub(super) fn node_key(&self) -> Result<PrivateKey, ClusterError> {
        let path = self.path(NODE_KEY);
        match read_private(&path)? {
            Some(text) => PrivateKey::from_pem(&text).ok_or_else(|| ClusterError::damaged(&path)),
            None => {
                let key = PrivateKey::draw();
                self.create(&self.path)?;
                write(&path, key.to_pem().as_bytes())?;
                Ok(key)
            }
        }
    }

    /// Makes the node a member.
    pub(super) fn keep(
        &self,
        certificate: &str,
        authority: &Authority,
    ) -> Result<(), ClusterError> {
        self.create(&self.path)?;
        write(&self.path(AUTHORITY_KEY), authority.key_pem().as_bytes())?;
        write(&self.path(AUTHORITY_CERTIFICATE), authority.certificate().as_bytes())?;
        write(&self.path(NODE_CERTIFICATE), certificate.as_bytes())
    }

    /// What is there of a membership without the certificate, which is written last; the node may neither be
    /// alone then, nor found a cluster.
    pub(super) fn check_whole(&self) -> Result<(), ClusterError> {
        let certificate = self.path(NODE_CERTIFICATE);
        match OF_MEMBERS.map(|name| self.path(name)).into_iter().find(|path| path.exists()) {
            Some(left) if !self.is_member() => Err(ClusterError::Uncertified { certificate, left }),
            _ => Ok(()),
        }
    }

    /// The same of a cluster that was being founded, which is to be founded again.
    pub(super) fn check_founded(&self) -> Result<(), ClusterError> {
        let certificate = self.path(NODE_CERTIFICATE);
        let of_founders = [AUTHORITY_KEY, AUTHORITY_CERTIFICATE].map(|name| self.path(name));
        match of_founders.into_iter().find(|path| path.exists()) {
            Some(left) if !self.is_member() => Err(ClusterError::Unfounded { certificate, left }),
            _ => Ok(()),
        }
    }

    /// What makes the node a member; nothing if it is none.
    pub(super) fn credentials(&self) -> Result<Option<Credentials>, ClusterError> {
        let certificate_path = self.path(NODE_CERTIFICATE);
        let Some(certificate) = read(&certificate_path)? else { return Ok(None) };
        let certificate_of_authority = self.needed(AUTHORITY_CERTIFICATE, read)?;
        let key = self.needed(NODE_KEY, read_private)?;
        let identity = Identity::from_pem(&certificate, &certificate_of_authority, &key)
            .map_err(|source| ClusterError::Identity { path: certificate_path, source })?;
        let key = self.needed(AUTHORITY_KEY, read_private)?;
        let authority = Authority::from_pem(identity.cluster, &certificate_of_authority, &key)
            .ok_or_else(|| ClusterError::damaged(&self.path(AUTHORITY_KEY)))?;
        Ok(Some(Credentials { identity, authority }))
    }

    /// The text of a file that every member has.
    fn needed(
        &self,
        name: &str,
        read: fn(&Path) -> Result<Option<String>, ClusterError>,
    ) -> Result<String, ClusterError> {
        let path = self.path(name);
        read(&path)?.ok_or(ClusterError::Missing { path })
    }

    /// Keeps the node from starting again, and why.
    pub(super) fn put_aside(&self, why: &str) -> Result<(), ClusterError> {
        write(&self.path(TURNED_AWAY), format!("{why}\n").as_bytes())
    }

    /// The file that keeps the node from starting, if there is one.
    pub(super) fn put_aside_by(&self) -> Option<PathBuf> {
        let path = self.path(TURNED_AWAY);
        path.exists().then_some(path)
    }

    pub(super) fn create(&self, path: &Path) -> Result<(), ClusterError> {
        create_directory(path).map_err(ClusterError::io("create", path))
    }
}

/// The text of a file; nothing if there is no such file.
pub(super) fn read(path: &Path) -> Result<Option<String>, ClusterError> {
    if_there(path, fs::read_to_string(path))
}

/// The same of a private key, which nobody else may be able to read.
fn read_private(path: &Path) -> Result<Option<String>, ClusterError> {
    match if_there(path, private::read(path))? {
        Some((_, Some(mode))) => Err(ClusterError::Exposed { path: path.to_owned(), mode }),
        found => Ok(found.map(|(text, _)| text)),
    }
}

fn if_there<T>(path: &Path, read: io::Result<T>) -> Result<Option<T>, ClusterError> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ClusterError::io("read", path)(error)),
    }
}

/// Writes a file that only its owner may read, durably, in place of the one before.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), ClusterError> {
    replace(path, bytes).map_err(ClusterError::io("write", path))
}

/// One at a time: a node that was told to stop may still be writing when its next life does.
static WRITING: Mutex<()> = Mutex::new(());

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let unfinished = path.with_extension("tmp");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    sync_directory(path.parent().expect("a file is in a folder"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_who_write_one_file_at_the_same_time_leave_what_one_of_them_wrote() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file.json");
        std::thread::scope(|scope| {
            for text in ["one", "other"] {
                let path = &path;
                scope.spawn(move || (0..50).for_each(|_| write(path, text.as_bytes()).unwrap()));
            }
        });
        let left = read(&path).unwrap().unwrap();
        assert!(["one", "other"].contains(&left.as_str()), "{left}");
    }
}
