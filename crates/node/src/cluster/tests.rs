//! Joining, over real connections on loopback.

use std::fs;
use std::future::Future;
use std::net::SocketAddr;

use tempfile::TempDir;

use super::admission::{Answer, Request};
use super::token::Secret;
use super::*;
use crate::transport::{Admission, Reply};

const HOUR: Duration = Duration::from_secs(3600);
/// Longer than anything here takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn run<T>(conversation: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, conversation).await });
    runtime.shutdown_background();
    ended.expect("the test takes too long")
}

/// A data directory, of which only the folder of the cluster matters here.
struct Home {
    directory: TempDir,
    node: NodeId,
}

impl Home {
    fn new(node: u64) -> Self {
        Self { directory: tempfile::tempdir().unwrap(), node: NodeId(node) }
    }

    /// The first member of a new cluster.
    fn founder() -> Self {
        let home = Self::new(1);
        found(home.path(), home.node).unwrap();
        home
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    async fn start(&self) -> (Cluster, mpsc::Receiver<Event>) {
        Cluster::start(self.path(), self.node, Settings::default(), anywhere().await)
            .unwrap()
            .expect("a member")
    }

    async fn join(&self, token: &JoinToken) -> Result<ClusterId, ClusterError> {
        self.join_at(token, &[]).await
    }

    async fn join_at(&self, token: &JoinToken, at: &[String]) -> Result<ClusterId, ClusterError> {
        match joined(self.path(), token)? {
            Some(cluster) => Ok(cluster),
            None => Inviter::reach(token, at).await?.join(self.path(), self.node, &[]).await,
        }
    }

    /// Opens what is on the disk, as the next life of the node does.
    fn admissions(&self) -> Arc<Admissions> {
        let folder = Folder::of(self.path());
        let credentials = folder.credentials().unwrap().unwrap();
        Admissions::open(&folder, self.node, credentials.authority).unwrap()
    }

    fn key(&self) -> PrivateKey {
        Folder::of(self.path()).node_key().unwrap()
    }
}

/// Listens at any free port.
async fn anywhere() -> TcpListener {
    listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap()
}

fn reason(joined: Result<ClusterId, ClusterError>) -> String {
    match joined {
        Err(ClusterError::NotJoined(NotJoined::Refused(reason))) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn whoever_is_invited_becomes_a_member_and_both_know_where_the_other_is() {
    run(async {
        let (first, second) = (Home::founder(), Home::new(2));
        let (one, mut events) = first.start().await;
        let invitation = one.invite(HOUR).unwrap();
        let text = invitation.token.to_text();
        let cluster = second.join(&text.parse().unwrap()).await.unwrap();
        assert_eq!(cluster, one.transport().identity().cluster);
        let (two, _events) = second.start().await;
        // The second knows the first from the answer, dials it, and so becomes known.
        while !matches!(events.recv().await.unwrap(), Event::Connected { peer: NodeId(2), .. }) {}
        assert_eq!(one.places(), two.places());
        assert_eq!(one.places()[&NodeId(2)], two.transport().advertised());
        // And a third one is told of both.
        let third = Home::new(3);
        third.join(&two.invite(HOUR).unwrap().token).await.unwrap();
        let (three, _events) = third.start().await;
        assert_eq!(three.places().len(), 3);
    });
}

#[test]
fn members_find_each_other_again_after_a_start() {
    run(async {
        let (first, second) = (Home::founder(), Home::new(2));
        let (one, _events) = first.start().await;
        second.join(&one.invite(HOUR).unwrap().token).await.unwrap();
        let (two, mut events) = second.start().await;
        while !matches!(events.recv().await.unwrap(), Event::Connected { peer: NodeId(1), .. }) {}
        one.stop();
        let known = two.places()[&NodeId(1)].clone();
        two.stop();
        let (two, _events) = second.start().await;
        assert_eq!(two.places()[&NodeId(1)], known);
    });
}

#[test]
fn a_token_is_worth_nothing_to_a_second_node() {
    run(async {
        let (first, second, third) = (Home::founder(), Home::new(2), Home::new(3));
        let (one, _events) = first.start().await;
        let token = one.invite(HOUR).unwrap().token;
        second.join(&token).await.unwrap();
        let refused = reason(third.join(&token).await);
        assert!(refused.contains("used by another node"), "{refused}");
        assert!(!is_member(third.path()));
        // The one who has joined may say it again, as when its service is started again.
        second.join(&token).await.unwrap();
    });
}

#[test]
fn an_expired_token_and_a_guessed_one_are_refused() {
    run(async {
        let (first, second) = (Home::founder(), Home::new(2));
        let (one, _events) = first.start().await;
        let expired = one.invite(Duration::ZERO).unwrap().token;
        let refused = reason(second.join(&expired).await);
        assert!(refused.contains("expired"), "{refused}");
        let mut guess = one.invite(HOUR).unwrap().token;
        guess.secret = Secret([0; 32]);
        let refused = reason(second.join(&guess).await);
        assert!(refused.contains("not valid"), "{refused}");
        assert!(!is_member(second.path()));
    });
}

#[test]
fn whoever_guesses_often_is_not_even_heard() {
    run(async {
        let (first, second) = (Home::founder(), Home::new(2));
        let (one, _events) = first.start().await;
        let mut guess = one.invite(HOUR).unwrap().token;
        for number in 0..100 {
            guess.secret = Secret([number; 32]);
            assert!(second.join(&guess).await.is_err());
        }
        let counted = one.transport().statistics();
        assert!(counted.joining <= 60 && 40 <= counted.joining_too_often, "{counted:?}");
    });
}

#[test]
fn an_impostor_does_not_get_to_see_the_secret() {
    run(async {
        let (first, impostor, second) = (Home::founder(), Home::founder(), Home::new(2));
        let (one, _events) = first.start().await;
        let (other, _events) = impostor.start().await;
        let token = one.invite(HOUR).unwrap().token;
        let at = other.transport().advertised();
        let joined = second.join_at(&token, at).await;
        let Err(ClusterError::NotJoined(why @ NotJoined::SomebodyElse { .. })) = joined else {
            panic!("it was not the inviter: {joined:?}")
        };
        assert!(!why.may_pass(), "asking an impostor again is of no use: {why:?}");
        assert_eq!(other.transport().statistics().joining, 0);
        // The token is still good.
        second.join(&token).await.unwrap();
    });
}

#[test]
fn after_a_crash_between_mark_and_answer_only_the_same_joiner_is_answered() {
    let (first, second, third) = (Home::founder(), Home::new(2), Home::new(3));
    let now = SystemTime::now();
    let admissions = first.admissions();
    let (invitation, secret) = admissions.invite(now, HOUR).unwrap();
    let token = JoinToken {
        cluster: Folder::of(first.path()).credentials().unwrap().unwrap().identity.cluster,
        inviter: first.node,
        addresses: Vec::new(),
        fingerprint: Fingerprint([0; 32]),
        invitation,
        secret,
    };
    let ask = |admissions: &Admissions, home: &Home| {
        let request = Request::new(&token, home.node, &home.key());
        admissions.answer(now, &minicbor::to_vec(request).unwrap())
    };
    let Answer::Admitted(answered) = ask(&admissions, &second) else { panic!("not admitted") };
    // The answer was never sent, and the inviter is gone; all that is left is the disk.
    drop(admissions);
    let admissions = first.admissions();
    assert!(matches!(ask(&admissions, &third), Answer::Refused(_)));
    let Answer::Admitted(again) = ask(&admissions, &second) else { panic!("not admitted again") };
    assert_eq!(again, answered);
}

#[test]
fn a_joiner_that_went_away_asks_again_and_gets_in() {
    run(async {
        let (first, second) = (Home::founder(), Home::new(2));
        let (one, _events) = first.start().await;
        let token = one.invite(HOUR).unwrap().token;
        // It has asked, its answer is lost, and so is everything but its key.
        let request = Request::new(&token, second.node, &second.key());
        let answer = first_answer(&one, &request);
        assert!(matches!(answer, Answer::Admitted(_)));
        assert!(!is_member(second.path()));
        second.join(&token).await.unwrap();
        assert!(is_member(second.path()));
    });
}

#[test]
fn whoever_was_certified_and_has_not_come_is_no_member_and_may_still_come() {
    run(async {
        let (first, second, third) = (Home::founder(), Home::new(2), Home::new(3));
        let (one, _events) = first.start().await;
        let token = one.invite(HOUR).unwrap().token;
        // It is killed before it has written down what it was answered.
        let request = Request::new(&token, second.node, &second.key());
        assert!(matches!(first_answer(&one, &request), Answer::Admitted(_)));
        assert_eq!(one.others(), BTreeSet::new());
        assert!(!one.has_heard_of(second.node));
        // The next life of the inviter counts it as little.
        one.stop();
        let (one, mut events) = first.start().await;
        assert_eq!(one.others(), BTreeSet::new());
        assert_eq!(others_of(first.path(), first.node).unwrap().0, BTreeSet::new());
        // Nor is anybody told of it who joins meanwhile.
        third.join(&one.invite(HOUR).unwrap().token).await.unwrap();
        let (three, mut events_of_three) = third.start().await;
        while !matches!(events.recv().await.unwrap(), Event::Connected { peer: NodeId(3), .. }) {}
        assert_eq!(three.others(), [first.node].into());
        // With the same token it gets in after all, and may come to another member first.
        second.join_at(&token, one.transport().advertised()).await.unwrap();
        assert_eq!(one.others(), [third.node].into());
        one.stop();
        let (two, _events) = second.start().await;
        let of_three = &mut events_of_three;
        while !matches!(of_three.recv().await.unwrap(), Event::Connected { peer: NodeId(2), .. }) {}
        assert!(three.others().contains(&second.node));
        assert!(two.others().contains(&third.node));
    });
}

/// Admits a node, and is gone before it could say so.
struct Dying(Arc<Admissions>);

impl Admission for Dying {
    fn admit(&self, request: &[u8]) -> Reply {
        let answer = self.0.answer(SystemTime::now(), request);
        assert!(matches!(answer, Answer::Admitted(_)));
        // Nothing comes of this request; its connection is closed.
        std::panic::resume_unwind(Box::new("killed"))
    }
}

#[test]
fn an_inviter_that_goes_away_before_it_answers_is_asked_again() {
    run(async {
        let (first, second) = (Home::founder(), Home::new(2));
        let identity = Folder::of(first.path()).credentials().unwrap().unwrap().identity;
        let (cluster, fingerprint) = (identity.cluster, Fingerprint::of(&identity.authority));
        let admissions = first.admissions();
        let (invitation, secret) = admissions.invite(SystemTime::now(), HOUR).unwrap();
        let dying = Some(Arc::new(Dying(admissions)) as _);
        let listener = anywhere().await;
        let at = listener.local_addr().unwrap().to_string();
        let (life, _events) =
            Transport::start(identity, Settings::default(), listener, dying).unwrap();
        let (inviter, addresses) = (first.node, vec![at]);
        let token = JoinToken { cluster, inviter, addresses, fingerprint, invitation, secret };
        let joined = second.join(&token).await;
        let Err(ClusterError::NotJoined(why)) = joined else { panic!("{joined:?}") };
        assert!(why.may_pass(), "{why:?}");
        life.stop();
        let (one, _events) = first.start().await;
        assert_eq!(second.join_at(&token, one.transport().advertised()).await.unwrap(), cluster);
    });
}

fn first_answer(cluster: &Cluster, request: &Request) -> Answer {
    cluster.admissions.answer(SystemTime::now(), &minicbor::to_vec(request).unwrap())
}

#[test]
fn an_id_that_somebody_has_is_not_given_away() {
    run(async {
        let first = Home::founder();
        let (one, _events) = first.start().await;
        Home::new(2).join(&one.invite(HOUR).unwrap().token).await.unwrap();
        // Copies of the data of a member and of the inviter itself.
        for node in [2, 1] {
            let refused = reason(Home::new(node).join(&one.invite(HOUR).unwrap().token).await);
            assert!(refused.contains("is a member already"), "{refused}");
        }
    });
}

#[test]
fn a_removed_member_stays_out_over_starts() {
    run(async {
        let (first, second) = (Home::founder(), Home::new(2));
        let (one, mut events) = first.start().await;
        second.join(&one.invite(HOUR).unwrap().token).await.unwrap();
        let (two, _events) = second.start().await;
        while !matches!(events.recv().await.unwrap(), Event::Connected { peer: NodeId(2), .. }) {}
        one.remove(NodeId(2)).unwrap();
        assert!(!one.places().contains_key(&NodeId(2)));
        one.stop();
        let (one, _events) = first.start().await;
        two.transport().know(NodeId(1), one.transport().advertised().to_vec());
        while one.transport().statistics().refused == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!one.places().contains_key(&NodeId(2)));
        let again = Request::new(&one.invite(HOUR).unwrap().token, NodeId(2), &second.key());
        assert!(matches!(first_answer(&one, &again), Answer::Refused(_)));
    });
}

#[test]
fn a_request_must_be_signed_by_the_key_it_asks_for() {
    run(async {
        let first = Home::founder();
        let (one, _events) = first.start().await;
        let token = one.invite(HOUR).unwrap().token;
        let mut request = Request::new(&token, NodeId(2), &PrivateKey::draw());
        request.node = 3;
        let Answer::Refused(reason) = first_answer(&one, &request) else { panic!("admitted") };
        assert!(reason.contains("signature"), "{reason}");
        let garbage = one.admissions.answer(SystemTime::now(), b"garbage");
        assert!(matches!(garbage, Answer::Refused(_)));
    });
}

#[test]
fn a_node_is_in_one_cluster_only() {
    run(async {
        let (first, other) = (Home::founder(), Home::founder());
        let (one, _events) = first.start().await;
        let joined = other.join(&one.invite(HOUR).unwrap().token).await;
        assert!(matches!(joined, Err(ClusterError::MemberElsewhere { .. })), "{joined:?}");
        let founded = found(first.path(), first.node);
        assert!(matches!(founded, Err(ClusterError::Member { .. })), "{founded:?}");
        let settings = Settings::default();
        let started = Cluster::start(other.path(), NodeId(99), settings, anywhere().await);
        assert!(matches!(started, Err(ClusterError::AnotherNode { .. })), "{started:?}");
    });
}

#[cfg(unix)]
#[test]
fn nobody_else_can_read_what_is_kept() {
    use std::os::unix::fs::PermissionsExt;

    run(async {
        let first = Home::founder();
        let (one, _events) = first.start().await;
        one.invite(HOUR).unwrap();
        let folder = first.path().join("cluster");
        let mut files = 0;
        for folder in [folder.clone(), folder.join("invitations")] {
            assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
            for entry in fs::read_dir(folder).unwrap() {
                let file = entry.unwrap().metadata().unwrap();
                if file.is_file() {
                    assert_eq!(file.permissions().mode() & 0o777, 0o600);
                    files += 1;
                }
            }
        }
        assert_eq!(files, 6, "two keys, two certificates, the members and an invitation");
    });
}
