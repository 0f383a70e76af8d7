//! Invitations: given out, redeemed once, and then only ever answered to the one who redeemed them.
//!
//! Of the secret only a digest is kept. The mark that an invitation is used carries the certificate
//! that was made for it, and is durable before that certificate is given out: after a crash in
//! between, the same joiner gets the same certificate, and nobody else gets any.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outlast_lineage::{Digest, NodeId};
use serde::{Deserialize, Serialize};

use super::ClusterError;
use super::authority::PublicKey;
use super::folder::{Folder, read, write};
use super::token::Secret;
use crate::random;

/// How many invitations may be out at a time.
const OPEN_MAX: usize = 1024;
/// How long an invitation may be valid.
pub(crate) const VALID_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// An invitation that is out, as its file has it.
#[derive(Clone, Serialize, Deserialize, Debug)]
struct Invitation {
    /// The digest of the secret.
    secret: String,
    /// In milliseconds since 1970.
    expires: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    used: Option<Used>,
}

/// Who has redeemed an invitation, and what for.
#[derive(Clone, Serialize, Deserialize, Debug)]
struct Used {
    node: String,
    key: String,
    certificate: String,
}

/// Why an invitation is not redeemed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum NotInvited {
    /// There is no such invitation, or the secret is wrong: which of them is not said.
    #[error("the token is not valid here")]
    Unknown,
    #[error("the token has expired; ask for another one (`outlast cluster invite`)")]
    Expired,
    #[error("the token was used by another node; ask for another one (`outlast cluster invite`)")]
    Used,
}

/// All invitations that a node has given out and that have not expired.
#[derive(Debug)]
pub(super) struct Invitations {
    folder: PathBuf,
    open: BTreeMap<u64, Invitation>,
}

/// An invitation that may be redeemed.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Redeemable {
    /// Nobody has yet.
    Unused,
    /// The same joiner has, and this is the certificate it was given.
    Again(String),
}

impl Invitations {
    /// Reads the invitations that are out.
    pub(super) fn open(folder: &Folder) -> Result<Self, ClusterError> {
        let folder_of_files = folder.path("invitations");
        folder.create(&folder_of_files)?;
        let mut open = BTreeMap::new();
        let failed = || ClusterError::io("read", &folder_of_files);
        for entry in fs::read_dir(&folder_of_files).map_err(failed())? {
            let path = entry.map_err(failed())?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let number = name.strip_suffix(".json").map(|it| u64::from_str_radix(it, 16));
            // Whatever else is there was left by a crash while a file was being written.
            let Some(Ok(number)) = number else { continue };
            let text = read(&path)?.unwrap_or_default();
            let invitation =
                serde_json::from_str(&text).map_err(|_| ClusterError::damaged(&path))?;
            open.insert(number, invitation);
        }
        Ok(Self { folder: folder_of_files, open })
    }

    /// Makes an invitation; its number and its secret go into the token.
    pub(super) fn issue(
        &mut self,
        now: SystemTime,
        valid: Duration,
    ) -> Result<(u64, Secret), ClusterError> {
        self.drop_expired(now);
        if OPEN_MAX <= self.open.len() {
            return Err(ClusterError::TooManyInvitations { open: self.open.len() });
        }
        let (number, secret) = (u64::from_be_bytes(random::bytes()), Secret(random::bytes()));
        let expires = milliseconds(now + valid.min(VALID_MAX));
        let secret_digest = Digest::of(&secret.0).to_string();
        self.keep(number, Invitation { secret: secret_digest, expires, used: None })?;
        Ok((number, secret))
    }

    /// Whether someone may redeem an invitation.
    pub(super) fn check(
        &self,
        now: SystemTime,
        (number, secret): (u64, &Secret),
        (node, key): (NodeId, PublicKey),
    ) -> Result<Redeemable, NotInvited> {
        let given = Digest::of(&secret.0).to_string();
        let invitation = self.open.get(&number).ok_or(NotInvited::Unknown)?;
        if !equal(invitation.secret.as_bytes(), given.as_bytes()) {
            return Err(NotInvited::Unknown);
        }
        if invitation.expires <= milliseconds(now) {
            return Err(NotInvited::Expired);
        }
        match &invitation.used {
            None => Ok(Redeemable::Unused),
            Some(used) if used.node == text_of(node) && used.key == STANDARD.encode(key.0) => {
                Ok(Redeemable::Again(used.certificate.clone()))
            }
            Some(_) => Err(NotInvited::Used),
        }
    }

    /// Marks an invitation as used, durably.
    pub(super) fn mark_used(
        &mut self,
        number: u64,
        (node, key): (NodeId, PublicKey),
        certificate: &str,
    ) -> Result<(), ClusterError> {
        let mut invitation = self.open.get(&number).cloned().expect("it was checked before");
        invitation.used = Some(Used {
            node: text_of(node),
            key: STANDARD.encode(key.0),
            certificate: certificate.to_owned(),
        });
        self.keep(number, invitation)
    }

    fn keep(&mut self, number: u64, invitation: Invitation) -> Result<(), ClusterError> {
        let text = serde_json::to_vec_pretty(&invitation).expect("texts and numbers encode");
        write(&self.path(number), &text)?;
        self.open.insert(number, invitation);
        Ok(())
    }

    fn drop_expired(&mut self, now: SystemTime) {
        let now = milliseconds(now);
        let expired = self.open.extract_if(.., |_, invitation| invitation.expires <= now);
        let numbers: Vec<u64> = expired.map(|(number, _)| number).collect();
        for number in numbers {
            // A file that stays is read as expired at the next start.
            let _ = fs::remove_file(self.path(number));
        }
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:016x}.json"))
    }
}

fn text_of(node: NodeId) -> String {
    format!("{:016x}", node.0)
}

fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Whether two texts are equal, in a time that does not tell where they differ.
fn equal(one: &[u8], other: &[u8]) -> bool {
    let differ = one.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differ) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const ALICE: (NodeId, PublicKey) = (NodeId(1), PublicKey([1; 32]));
    const BOB: (NodeId, PublicKey) = (NodeId(2), PublicKey([2; 32]));

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    fn invitations(directory: &tempfile::TempDir) -> Invitations {
        let folder = Folder::of(directory.path());
        folder.create(&folder.path("")).unwrap();
        Invitations::open(&folder).unwrap()
    }

    #[test]
    fn an_invitation_is_redeemed_once_and_answered_again_to_the_same_joiner() {
        let directory = tempfile::tempdir().unwrap();
        let mut open = invitations(&directory);
        let (number, secret) = open.issue(at(0), HOUR).unwrap();
        assert_eq!(open.check(at(1), (number, &secret), ALICE), Ok(Redeemable::Unused));
        open.mark_used(number, ALICE, "certificate").unwrap();
        // As after a crash: only what is on the disk counts.
        for open in [&open, &invitations(&directory)] {
            let again = Redeemable::Again("certificate".to_owned());
            assert_eq!(open.check(at(2), (number, &secret), ALICE), Ok(again));
            assert_eq!(open.check(at(2), (number, &secret), BOB), Err(NotInvited::Used));
            let same_id_other_key = (ALICE.0, BOB.1);
            let refused = open.check(at(2), (number, &secret), same_id_other_key);
            assert_eq!(refused, Err(NotInvited::Used));
        }
    }

    #[test]
    fn an_expired_invitation_and_a_guess_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let mut open = invitations(&directory);
        let (number, secret) = open.issue(at(0), HOUR).unwrap();
        let check = |now, number, secret| open.check(at(now), (number, &secret), ALICE);
        assert_eq!(check(3599, number, secret), Ok(Redeemable::Unused));
        assert_eq!(check(3600, number, secret), Err(NotInvited::Expired));
        assert_eq!(check(1, number, Secret([0; 32])), Err(NotInvited::Unknown));
        assert_eq!(check(1, number ^ 1, secret), Err(NotInvited::Unknown));
        // Whether it has expired is told only to those who know the secret.
        assert_eq!(check(3600, number, Secret([0; 32])), Err(NotInvited::Unknown));
    }

    #[test]
    fn the_secret_is_not_on_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let mut open = invitations(&directory);
        let (number, secret) = open.issue(at(0), HOUR).unwrap();
        let text = fs::read_to_string(open.path(number)).unwrap();
        assert!(text.contains(&Digest::of(&secret.0).to_string()));
        let hex: String = secret.0.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!text.contains(&hex) && !text.contains(&STANDARD.encode(secret.0)));
    }

    #[test]
    fn expired_invitations_make_room_and_there_is_a_bound() {
        let directory = tempfile::tempdir().unwrap();
        let mut open = invitations(&directory);
        let (number, _) = open.issue(at(0), HOUR).unwrap();
        let template = open.open[&number].clone();
        open.open.extend((0..OPEN_MAX as u64).map(|other| (other, template.clone())));
        let refused = open.issue(at(1), HOUR);
        assert!(matches!(refused, Err(ClusterError::TooManyInvitations { .. })));
        open.issue(at(3601), HOUR).unwrap();
        assert_eq!(open.open.len(), 1);
        assert!(!open.path(number).exists());
    }

    #[test]
    fn texts_of_other_lengths_differ() {
        assert!(equal(b"same", b"same"));
        assert!(!equal(b"same", b"sama") && !equal(b"same", b"sam") && !equal(b"", b"x"));
    }
}
