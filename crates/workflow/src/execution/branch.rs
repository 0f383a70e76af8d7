//! Branches: a stack of frames, the data flowing through it, and who advanced it.

use std::num::NonZeroU64;

use minicbor::{Decode, Encode};
use outlast_lineage::{BranchId, EffectId, Epoch, ExecutionId, Lineage, NodeId, Time};

use super::datum::Datum;
use super::few;
use super::frame::{Activity, Frame, Path};
use super::plan::PlanId;
use crate::Ticket;
use crate::interpreter::effect_of;

/// One line of control in an execution.
#[derive(Clone, Debug, Encode, Decode)]
pub(crate) struct Branch {
    #[n(0)]
    pub(crate) birth: Birth,
    #[cbor(n(1), decode_with = "few::decode")]
    frames: Vec<Frame>,
    #[n(2)]
    data: Datum,
    #[n(3)]
    context: Datum,
    #[n(4)]
    pub(crate) lineage: Lineage,
    #[n(5)]
    pub(crate) small: Small,
    #[cbor(skip)]
    touch: Touch,
}

impl PartialEq for Branch {
    fn eq(&self, other: &Self) -> bool {
        self.birth == other.birth
            && self.frames == other.frames
            && self.data == other.data
            && self.context == other.context
            && self.lineage == other.lineage
            && self.small == other.small
    }
}

/// What a branch is born with and keeps.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Birth {
    #[n(0)]
    pub(crate) id: BranchId,
    /// The branch that waits for it, if one does.
    #[n(1)]
    pub(crate) parent: Option<BranchId>,
    /// Its slot in the parent's join.
    #[n(2)]
    pub(crate) slot: u32,
    #[n(3)]
    pub(crate) path: Path,
    /// The variables visible where it was forked.
    #[n(4)]
    pub(crate) variables: Vec<(String, Datum)>,
    /// Its compensation continuation.
    #[n(5)]
    pub(crate) plan: PlanId,
    /// The attempts under way where it was forked: part of the incarnation of calls inside.
    #[n(6)]
    pub(crate) incarnation: u64,
    /// The workflow that it runs a part of, if that is not the execution's own.
    #[n(7)]
    pub(crate) workflow: Option<Box<Nested>>,
    /// The undo that it was forked in, if it was.
    #[n(8)]
    pub(crate) undo: Option<AroundUndo>,
    /// Whether a `try` around where it was forked says how often what fails is tried again.
    #[n(9)]
    #[cbor(default, skip_if = "is_not")]
    pub(crate) policy: bool,
}

/// Whether a flag need not be written down.
fn is_not(flag: &bool) -> bool {
    !flag
}

/// An undo, as what runs inside it knows it.
#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
pub(crate) struct AroundUndo {
    /// What it takes back, if that has a name.
    #[n(0)]
    pub(crate) effect: Option<EffectId>,
}

/// A workflow that is run as part of another.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Nested {
    /// What `$workflow.id` is.
    #[n(0)]
    pub(crate) id: ExecutionId,
    /// Which part of the program it is.
    #[n(1)]
    pub(crate) part: u32,
    /// Its raw input.
    #[n(2)]
    pub(crate) input: Datum,
    #[n(3)]
    pub(crate) started: Time,
    /// How many workflows are around it.
    #[n(4)]
    pub(crate) depth: u32,
}

/// The parts of a branch that are so small that they travel whole.
#[derive(Clone, Debug, PartialEq, Default, Encode, Decode)]
pub(crate) struct Small {
    #[n(0)]
    pub(crate) state: BranchState,
    #[n(1)]
    next_number: u32,
    /// Whether `then: end` is on its way out.
    #[n(2)]
    pub(crate) ending: bool,
}

/// Whether a branch can move on.
#[derive(Clone, Debug, PartialEq, Default, Encode, Decode)]
pub(crate) enum BranchState {
    /// It can.
    #[default]
    #[n(0)]
    Ready,
    /// It waits for something.
    #[n(1)]
    Waiting,
    /// Another node advances it.
    #[n(2)]
    Away {
        #[n(0)]
        epoch: Epoch,
        #[n(1)]
        holders: Vec<NodeId>,
    },
}

/// What a step touched of a branch.
#[derive(Clone, Debug, Default)]
struct Touch {
    born: bool,
    /// Frames below this are as they were.
    frames: Option<usize>,
    data: bool,
    context: bool,
    extended: bool,
    any: bool,
}

impl Branch {
    pub(crate) fn new(birth: Birth, data: Datum, context: Datum) -> Self {
        let touch = Touch { born: true, any: true, ..Touch::default() };
        Self {
            birth,
            frames: Vec::new(),
            data,
            context,
            lineage: Lineage::default(),
            small: Small::default(),
            touch,
        }
    }

    pub(crate) fn id(&self) -> BranchId {
        self.birth.id
    }

    /// Adds a state by an author; once per step that lays hands on the branch.
    pub(crate) fn extend(&mut self, author: NodeId, epoch: Epoch) {
        self.touch.any = true;
        self.touch.extended = true;
        self.lineage.extend(author, epoch);
    }

    pub(crate) fn ticket(&mut self) -> Ticket {
        self.touch.any = true;
        self.small.next_number += 1;
        Ticket { branch: self.birth.id, number: self.small.next_number }
    }

    /// Leaves out numbers that an earlier branch of this name may have given.
    pub(crate) fn skip_tickets(&mut self, number: u32) {
        self.touch.any = true;
        self.small.next_number = number;
    }

    pub(crate) fn set_state(&mut self, state: BranchState) {
        self.touch.any = true;
        self.small.state = state;
    }

    pub(crate) fn set_ending(&mut self) {
        self.touch.any = true;
        self.small.ending = true;
    }

    pub(crate) fn frames(&self) -> &[Frame] {
        &self.frames
    }

    pub(crate) fn top(&self) -> Option<&Frame> {
        self.frames.last()
    }

    /// When the first of its tasks has taken too long.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.frames.iter().filter_map(|frame| frame.deadline).map(|alarm| alarm.at).min()
    }

    /// The innermost undo that its innermost task is a part of.
    pub(crate) fn undo(&self) -> Option<AroundUndo> {
        let own = self.frames.iter().rev().find_map(|frame| match &frame.activity {
            Activity::Undoing(undoing) => Some(AroundUndo { effect: effect_of(&undoing.entry) }),
            _ => None,
        });
        own.or(self.birth.undo)
    }

    pub(crate) fn top_mut(&mut self) -> Option<&mut Frame> {
        let index = self.frames.len().checked_sub(1)?;
        Some(self.frame_mut(index))
    }

    pub(crate) fn frame_mut(&mut self, index: usize) -> &mut Frame {
        self.touch_frames(index);
        &mut self.frames[index]
    }

    pub(crate) fn push(&mut self, frame: Frame) {
        self.touch_frames(self.frames.len());
        self.frames.push(frame);
    }

    pub(crate) fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.pop()?;
        self.touch_frames(self.frames.len());
        Some(frame)
    }

    pub(crate) fn data(&self) -> &Datum {
        &self.data
    }

    pub(crate) fn set_data(&mut self, data: Datum) {
        self.touch.any = true;
        self.touch.data = true;
        self.data = data;
    }

    /// The context of the branch itself, whatever was put into it from elsewhere.
    pub(crate) fn own_context(&self) -> &Datum {
        &self.context
    }

    pub(crate) fn set_own_context(&mut self, context: Datum) {
        self.touch.any = true;
        self.touch.context = true;
        self.context = context;
    }

    /// The next delta must carry the whole branch.
    pub(crate) fn mark_born(&mut self) {
        self.touch = Touch { born: true, any: true, ..Touch::default() };
    }

    fn touch_frames(&mut self, index: usize) {
        self.touch.any = true;
        self.touch.frames = Some(self.touch.frames.map_or(index, |lowest| lowest.min(index)));
    }

    /// What changed since this was last asked, and nothing if nothing did.
    pub(crate) fn take_changes(&mut self) -> Option<BranchPatch> {
        let touch = std::mem::take(&mut self.touch);
        if !touch.any {
            return None;
        }
        let kept = if touch.born { 0 } else { touch.frames.unwrap_or(self.frames.len()) };
        let data = (touch.born || touch.data).then_some(&self.data);
        let given = data.zip(self.frames[kept..].last());
        let given = given.is_some_and(|(data, top)| data.is_same(&top.raw));
        Some(BranchPatch {
            id: self.birth.id,
            born: touch.born.then(|| self.birth.clone()),
            kept: kept as u32,
            frames: self.frames[kept..].to_vec(),
            data: data.filter(|_| !given).cloned(),
            context: (touch.born || touch.context).then(|| self.context.clone()),
            author: touch
                .extended
                .then(|| self.lineage.head().map(|p| (p.author, p.epoch)))
                .flatten(),
            lineage: touch.born.then(|| self.lineage.clone()),
            small: self.small.clone(),
            then: Vec::new(),
            given,
        })
    }

    /// A branch as a patch says it was born.
    pub(crate) fn from_patch(patch: BranchPatch, birth: Birth) -> Self {
        let mut branch = Self::new(birth, Datum::null(), Datum::null());
        branch.touch = Touch::default();
        branch.apply(patch);
        branch
    }

    pub(crate) fn apply(&mut self, patch: BranchPatch) {
        self.frames.truncate(patch.kept as usize);
        self.frames.extend(patch.frames);
        if let Some(data) = patch.data {
            self.data = data;
        } else if patch.given
            && let Some(top) = self.frames.last()
        {
            self.data = top.raw.clone();
        }
        if let Some(context) = patch.context {
            self.context = context;
        }
        match patch.lineage {
            Some(lineage) => self.lineage = lineage,
            None => drop(patch.author.map(|(node, epoch)| self.lineage.extend(node, epoch))),
        }
        for (node, epoch, states) in patch.then {
            self.lineage.extend_by(node, epoch, states);
        }
        self.small = patch.small;
    }
}

impl BranchPatch {
    /// Whether a branch with this line can go on as the patch says.
    pub(super) fn can_follow(&self, line: &Lineage) -> bool {
        match (&self.lineage, self.author) {
            (Some(whole), _) => whole.can_extend_by(&self.then),
            (None, None) => line.can_extend_by(&self.then),
            (None, Some((node, epoch))) => {
                let first = (node, epoch, NonZeroU64::MIN);
                match &self.then[..] {
                    [] => line.can_extend_by(&[first]),
                    then => line.can_extend_by(&[&[first], then].concat()),
                }
            }
        }
    }
}

/// What a step changed of one branch.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct BranchPatch {
    #[n(0)]
    pub(crate) id: BranchId,
    #[n(1)]
    pub(crate) born: Option<Birth>,
    /// Frames below this are as they were.
    #[n(2)]
    pub(super) kept: u32,
    #[cbor(n(3), decode_with = "few::decode")]
    pub(super) frames: Vec<Frame>,
    #[n(4)]
    pub(super) data: Option<Datum>,
    #[n(5)]
    pub(super) context: Option<Datum>,
    /// Who made the state of this step; one more than the last.
    #[n(6)]
    pub(super) author: Option<(NodeId, Epoch)>,
    /// The whole line, if the branch was born or came back.
    #[n(8)]
    pub(super) lineage: Option<Lineage>,
    #[n(7)]
    pub(super) small: Small,
    /// Who made the states after that, and how many each, if the patch is of several steps.
    #[n(9)]
    #[cbor(default, skip_if = "Vec::is_empty")]
    pub(super) then: Vec<(NodeId, Epoch, NonZeroU64)>,
    /// Whether the data changed to what the innermost task was given. A task that has just begun was
    /// given the data, so that is most often so, and written down once.
    #[n(10)]
    #[cbor(default, skip_if = "is_not")]
    pub(super) given: bool,
}
