//! Situations that must come up now and then, or a swarm of worlds proves little.
//!
//! The world counts what it sees itself. What only an engine knows reaches it by reports and by the
//! engine's counters: `of_report` is the place to name such a situation.

use outlast_engine::{Report, Situation as Between};
use outlast_workflow::Happening;

macro_rules! situations {
    ($($(#[$doc:meta])* $name:ident => $words:literal,)*) => {
        /// Something that is interesting to have happened.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Situation {
            $($(#[$doc])* $name,)*
        }

        impl Situation {
            /// All situations, in order.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// What it is called.
            pub const fn words(self) -> &'static str {
                match self {
                    $(Self::$name => $words,)*
                }
            }
        }
    };
}

situations! {
    /// A node crashed while a record was written and not synced.
    CrashWithUnsynced => "crash with unsynced records",
    /// A node crashed while a call of it was under way.
    CrashWithCall => "crash with a call under way",
    /// A record was torn by a crash.
    TornRecord => "torn record",
    /// A record rotted on a disk, and a recovery noticed.
    RotFound => "rot found at recovery",
    /// A node lost its disk.
    DiskLost => "disk lost",
    /// A node that lost its disk was fenced out.
    Fenced => "lost node fenced out",
    /// An event was lost with the only disk that had it, and published again.
    EventLost => "event lost with its only disk",
    /// The founder of a cluster lost its disk before anybody had joined, and founded it anew.
    FoundedAnew => "cluster founded anew",
    /// A sync failed and the node stopped.
    SyncFailed => "sync failed",
    /// A write failed and the node stopped.
    WriteFailed => "write failed",
    /// A node could not read its journal and did not come up.
    StartUnreadable => "journal could not be read",
    /// A node could not read from its store what somebody asked for.
    ReadFailed => "store could not be read",
    /// A disk was full.
    DiskFull => "disk full",
    /// All nodes were down at once.
    AllDown => "all nodes down at once",
    /// A node woke up and found inputs that had waited.
    WokeToBacklog => "woke up to a backlog",
    /// A message was lost because its link was cut.
    MessageCut => "message cut off",
    /// A message that was on its way when its link was cut arrived nevertheless.
    MessageSlippedThrough => "message slipped through a cut",
    /// A message arrived that was meant for an earlier life of its receiver.
    MessageToNextLife => "message reached a later life",
    /// A service acted and its answer was lost.
    AnswerLost => "answer lost",
    /// A service was asked again with a key it had acted on, and acted no more.
    Deduplicated => "repeated call deduplicated",
    /// A service that knows no keys acted again on one.
    ActedAgain => "repeated call acted again",
    /// A service definitely failed because it was told to by a fault.
    ServiceFailed => "service failed",
    /// Something was undone.
    Undone => "act undone",
    /// Something waits for a person.
    Parked => "parked",
    /// What waited for a person was answered at the node that had made the call, which led no more.
    AnsweredElsewhere => "parked call answered at another node",
    /// Somebody stopped an execution in the midst of everything else.
    CancelWished => "cancel asked for",
    /// Somebody had an execution rolled back in the midst of everything else.
    RollbackWished => "rollback asked for",
    /// Somebody held an execution for a while.
    SuspensionWished => "suspension asked for",
    /// Somebody was told that an execution is stopped or rolled back.
    WishGranted => "told that it is stopped",
    /// Somebody said that a parked call did not happen, or gave it up, while its run went on.
    Denied => "parked call denied",
    /// Somebody had an execution that had failed tried again.
    TriedAgainLater => "failed execution tried again",
    /// Somebody had an execution that had failed taken back.
    TakenBackLater => "failed execution taken back",
    /// A client turned to another node.
    AskedElsewhere => "client asked elsewhere",
    /// A client was told which other nodes are to start what it wants.
    SentElsewhere => "client sent elsewhere",
    /// A client was refused for now, and asked again.
    RefusedForNow => "refused for now",
    /// Gossip found a member.
    Joined => "member joined",
    /// Gossip suspected a member.
    Suspected => "member suspected",
    /// A member that was suspected contradicted in time.
    SuspicionRefuted => "suspicion refuted",
    /// Gossip took a member for dead.
    TakenForDead => "member taken for dead",
    /// A member said that it goes.
    Left => "member left",
    /// A member that was taken for dead, or had left, was there again.
    Rejoined => "member rejoined",
    /// A replica became the primary.
    Elected => "primary elected",
    /// A replica had too few votes to go on, and waited.
    TooFewVotes => "waited for votes",
    /// A candidate was objected to.
    Rejected => "candidate rejected",
    /// A primary stood down while another was one, too.
    TwoPrimaries => "two primaries at once",
    /// Two primaries met that had come equally far.
    VoteTie => "tie of two primaries",
    /// A new primary took over what another had brought further.
    FurtherStateTaken => "further state taken over",
    /// A new primary went on from a state that another replica was beyond.
    OldStateTaken => "old state taken over",
    /// A replica lost a line with effects of its own on it.
    LineLost => "line with effects lost",
    /// The replicas decided on one run.
    RunDecided => "run decided",
    /// An undo waited for those of other replicas.
    UndoWithheld => "undo waited for others",
    /// An effect was kept because the decided run has it by the same key.
    KeptByKey => "kept by its key",
    /// A node crashed while the result was being agreed on.
    CrashInAgreement => "crash while agreeing on the result",
    /// A node crashed while losers were compensated.
    CrashInCompensation => "crash while compensating losers",
    /// A node crashed while an ended execution was being forgotten.
    CrashInForgetting => "crash while forgetting",
    /// A line was decided on before its end, for a pivot or an undo.
    LineDecided => "line decided before its end",
    /// An execution that several nodes hold was started by another one, which does not wait for it.
    Detached => "started by another",
    /// A primary paused because undoing what no majority knows of would have cost too much.
    BudgetPause => "paused for its budget",
    /// A node was lost for good, and those that are left of an execution's are no majority.
    Bereft => "majority lost for good",
    /// A primary that no majority hears stood down for somebody whom one does.
    GaveWay => "gave way to a majority",
}

impl Situation {
    /// The situation that a report of an engine tells of.
    pub fn of_report(report: &Report) -> Option<Self> {
        let happenings = match report {
            Report::Happened { happenings, .. } => happenings,
            Report::Custody { situation, .. } => return Self::of_custody(*situation),
            _ => return None,
        };
        happenings.read().iter().find_map(|happening| match happening {
            Happening::Parked(..) => Some(Self::Parked),
            Happening::Resolved(_, how) if how == Happening::ANSWERED_ELSEWHERE => {
                Some(Self::AnsweredElsewhere)
            }
            _ => None,
        })
    }

    /// The situation between the replicas of an execution.
    const fn of_custody(situation: Between) -> Option<Self> {
        match situation {
            // Whether it was an old state, and whether there was another primary, only the world knows.
            Between::Candidacy | Between::TookOverWithoutAll | Between::StoodDown => None,
            Between::TooFewVotes => Some(Self::TooFewVotes),
            Between::Rejected => Some(Self::Rejected),
            Between::Elected => Some(Self::Elected),
            Between::TookOverFurther => Some(Self::FurtherStateTaken),
            Between::Tie => Some(Self::VoteTie),
            Between::LineLost => Some(Self::LineLost),
            Between::LineDecided => Some(Self::LineDecided),
            Between::RunDecided => Some(Self::RunDecided),
            Between::UndoWithheld => Some(Self::UndoWithheld),
            Between::KeptByKey => Some(Self::KeptByKey),
            Between::OverBudget => Some(Self::BudgetPause),
            Between::Bereft => Some(Self::Bereft),
            Between::GaveWay => Some(Self::GaveWay),
        }
    }
}

/// How often each situation came up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Situations {
    counts: Vec<u64>,
}

impl Default for Situations {
    fn default() -> Self {
        Self { counts: vec![0; Situation::ALL.len()] }
    }
}

impl Situations {
    /// Counts one more.
    pub fn saw(&mut self, situation: Situation) {
        self.counts[situation as usize] += 1;
    }

    /// How often it came up.
    pub fn count(&self, situation: Situation) -> u64 {
        self.counts[situation as usize]
    }

    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Self) {
        for (all, more) in self.counts.iter_mut().zip(&other.counts) {
            *all += more;
        }
    }

    /// Every situation with how often it came up.
    pub fn iter(&self) -> impl Iterator<Item = (Situation, u64)> {
        Situation::ALL.iter().map(|situation| (*situation, self.count(*situation)))
    }
}
