//! What replicas of one execution say to each other. Numbers are never used twice.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use outlast_lineage::{EffectId, Epoch, Head, Lineage, NodeId, OperationKey, Point, Segment};

use super::Term;

/// The highest count that is believed, of terms, states or activities: beyond it someone counts wrongly,
/// and no execution gets there.
const COUNT_MAX: u64 = u64::MAX / 2;

/// The highest decision that is believed.
const INSTANCE_MAX: u32 = u32::MAX / 2;

/// What one replica says to another.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum Message {
    /// The primary advanced the state, perhaps several times (the paper's UPDATE).
    #[n(0)]
    Update {
        /// The state that it went on from; nothing is before the beginning.
        #[n(0)]
        base: Option<Point>,
        /// The state that it came to. All between are of the same author and term.
        #[n(1)]
        next: Point,
        /// How many activities are complete there.
        #[n(2)]
        progress: u64,
        /// Whether that is the end of the run.
        #[n(3)]
        ended: bool,
        /// Whether someone waits for the acknowledgement.
        #[n(4)]
        urgent: bool,
        /// What changed, from the one to the other, filled in before it leaves.
        #[n(7)]
        delta: ByteVec,
        /// What it began as, if that is where it went on from.
        #[n(8)]
        beginning: Option<u64>,
    },
    /// The sender is primary and has come this far.
    #[n(1)]
    Lead {
        /// Its state.
        #[n(0)]
        head: Head,
        /// The term in which it is primary.
        #[n(1)]
        term: Epoch,
        /// Whether that is the end of the run.
        #[n(2)]
        ended: bool,
    },
    /// The sender wants the whole state of the receiver.
    #[n(2)]
    Want,
    /// A whole state (the paper's UPDATE to a backup without the base).
    #[n(3)]
    State {
        /// Which one.
        #[n(0)]
        held: Held,
        /// The term in which the sender is primary, if it is.
        #[n(1)]
        term: Option<Epoch>,
    },
    /// The sender has this state on its disk.
    #[n(4)]
    Ack {
        /// The state.
        #[n(0)]
        point: Point,
        /// The primary whose line it was made the same as, if acknowledgements count.
        #[n(1)]
        confirmed: Option<Term>,
    },
    /// The sender wants to be primary (REQ_VOTE).
    #[n(5)]
    RequestVote {
        /// The term it would be primary in.
        #[n(0)]
        term: Epoch,
        /// How far it has come.
        #[n(1)]
        head: Head,
        /// How many replicas it can reach, itself included.
        #[n(2)]
        reaches: Option<u32>,
    },
    /// The sender has no objection (VOTE).
    #[n(6)]
    Vote {
        /// The term of the request.
        #[n(0)]
        term: Epoch,
        /// How far the voter has come.
        #[n(1)]
        head: Head,
        /// Its state, if it has come further than the candidate.
        #[n(2)]
        held: Option<Held>,
        /// The last primary whose line that state was made the same as, if acknowledgements count.
        #[n(3)]
        confirmed: Option<Term>,
    },
    /// The sender objects (REJECT); also what it answers to a primary whose time it knows to be over.
    #[n(7)]
    Reject {
        /// The term of the request.
        #[n(0)]
        term: Epoch,
        /// The highest term it knows of.
        #[n(1)]
        known: Epoch,
        /// The primary it follows, or itself.
        #[n(2)]
        leader: Option<NodeId>,
    },
    /// The sender was restarted and asks where the execution is (RECOV_REQ).
    #[n(8)]
    RecoveryRequest {
        /// How far it had come.
        #[n(0)]
        head: Head,
    },
    /// Where it is (RECOV_RPLY).
    #[n(9)]
    RecoveryReply {
        /// The primary that the sender follows, or itself.
        #[n(0)]
        leader: Option<NodeId>,
        /// Its state, if it has come further.
        #[n(1)]
        held: Option<Held>,
    },
    /// This was decided (DECISION).
    #[n(10)]
    Decided {
        /// The how manieth decision of this execution.
        #[n(0)]
        instance: u32,
        /// What.
        #[n(1)]
        choice: Choice,
    },
    /// May these effects of the sender be undone (COMP_REQ)? Carries the decision, so that whoever
    /// does not know it yet neither runs nor votes any more.
    #[n(11)]
    MayUndo {
        /// The how manieth decision the final one was.
        #[n(0)]
        instance: u32,
        /// The final decision.
        #[n(1)]
        choice: Choice,
        /// The effects.
        #[n(2)]
        effects: Vec<Asked>,
    },
    /// Nothing here depends on them any more (ALLOW; the paper's algorithm says COMP).
    #[n(12)]
    Allow {
        /// The effects.
        #[n(0)]
        effects: Vec<EffectId>,
    },
    /// There is nothing to undo: the decided run has the same effects by the same keys (KEEP), or the
    /// sender has undone them.
    #[n(13)]
    Keep {
        /// The effects.
        #[n(0)]
        effects: Vec<EffectId>,
    },
    /// The sender is no longer primary.
    #[n(14)]
    StoodDown {
        /// Who is, as far as it knows.
        #[n(0)]
        leader: Option<NodeId>,
    },
    /// Are you primary? Answered with `Lead` or `StoodDown`.
    #[n(15)]
    Inquire,
    /// Nothing here depends on them any more, but the sender has lost the same effects by the same
    /// keys, and undoes them for both.
    #[n(16)]
    Leave {
        /// The effects.
        #[n(0)]
        effects: Vec<EffectId>,
    },
    /// What was asked for again is still not granted, and for how many rounds nothing has moved here.
    #[n(17)]
    Still {
        /// Nought if something is being undone.
        #[n(0)]
        rounds: u32,
    },
    /// The sender follows the receiver, which somebody has lost who stands in its place.
    #[n(18)]
    Missed {
        /// How many replicas that one can reach, or the sender, whichever are more.
        #[n(0)]
        reaches: u32,
    },
}

/// A whole state, and which one it is.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Held {
    /// Which state.
    #[n(0)]
    pub head: Head,
    /// Whether it is the end of the run.
    #[n(1)]
    pub ended: bool,
    /// The state. The machine leaves it empty: whoever sends the message fills it in.
    #[cbor(n(2), with = "minicbor::bytes")]
    pub state: Vec<u8>,
}

/// What consensus decides: the line that counts up to here.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Choice {
    /// The line. What is decided later goes on from it.
    #[n(0)]
    pub lineage: Lineage,
    /// Whether that is the end of the run: nothing is decided after it.
    #[n(1)]
    pub is_final: bool,
}

impl Choice {
    /// Whether it can have been decided on, as the how manieth decision.
    pub(super) fn is_believable(&self, instance: u32) -> bool {
        instance <= INSTANCE_MAX && is_line_believable(&self.lineage)
    }
}

fn is_line_believable(line: &Lineage) -> bool {
    let counted = |segment: &Segment| segment.epoch.0 <= COUNT_MAX;
    line.number() <= COUNT_MAX && line.segments().iter().all(counted)
}

fn is_head_believable(head: &Head) -> bool {
    is_line_believable(&head.lineage) && head.progress <= COUNT_MAX
}

/// An effect that its author wants to undo.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Asked {
    /// The effect.
    #[n(0)]
    pub effect: EffectId,
    /// The state of the execution in which it was intended.
    #[n(1)]
    pub intended: Point,
    /// The key that its provider was given, if the provider acts once for each key.
    #[n(2)]
    pub key: Option<OperationKey>,
}

impl Message {
    /// Whether all that it counts can be counted on from.
    pub(super) fn is_believable(&self) -> bool {
        let counted = |count: &u64| *count <= COUNT_MAX;
        let term = |term: &Epoch| counted(&term.0);
        let point = |point: &Point| term(&point.epoch) && counted(&point.number);
        let confirmed = |confirmed: &Option<Term>| confirmed.is_none_or(|(of, _)| term(&of));
        let held = |held: &Held| is_head_believable(&held.head);
        match self {
            Self::Update { base, next, progress, .. } => {
                base.iter().chain([next]).all(point) && counted(progress)
            }
            Self::Lead { head, term: of, .. } | Self::RequestVote { term: of, head, .. } => {
                term(of) && is_head_believable(head)
            }
            Self::State { held: state, term: of } => of.iter().all(term) && held(state),
            Self::Ack { point: stored, confirmed: by } => point(stored) && confirmed(by),
            Self::Vote { term: of, head, held: state, confirmed: by } => {
                let states = is_head_believable(head) && state.iter().all(held);
                term(of) && states && confirmed(by)
            }
            Self::Reject { term: of, known, .. } => term(of) && term(known),
            Self::RecoveryRequest { head } => is_head_believable(head),
            Self::RecoveryReply { held: state, .. } => state.iter().all(held),
            Self::Decided { instance, choice } | Self::MayUndo { instance, choice, .. } => {
                choice.is_believable(*instance)
            }
            // What these name is looked for, and not counted on from.
            Self::Want
            | Self::Allow { .. }
            | Self::Keep { .. }
            | Self::Leave { .. }
            | Self::Still { .. }
            | Self::Missed { .. }
            | Self::StoodDown { .. }
            | Self::Inquire => true,
        }
    }

    /// How many bytes of states and deltas it carries.
    pub fn bytes_carried(&self) -> usize {
        match self {
            Self::Update { delta, .. } => delta.len(),
            Self::State { held, .. } => held.state.len(),
            Self::Vote { held, .. } | Self::RecoveryReply { held, .. } => {
                held.as_ref().map_or(0, |held| held.state.len())
            }
            _ => 0,
        }
    }

    /// What changed, which is to be filled in before the message leaves.
    pub fn delta_mut(&mut self) -> Option<&mut ByteVec> {
        match self {
            Self::Update { delta, .. } => Some(delta),
            _ => None,
        }
    }

    /// The state that is to be filled in before the message leaves.
    pub fn held_mut(&mut self) -> Option<&mut Held> {
        match self {
            Self::State { held, .. } => Some(held),
            Self::Vote { held, .. } | Self::RecoveryReply { held, .. } => held.as_mut(),
            _ => None,
        }
    }
}
