//! Lineage: who advanced a branch, in which of its terms, from where on.
//!
//! A line is kept as runs of states by one author in one term, so its size grows with the number of
//! take-overs, not with the number of states, and two lines are compared run by run.
//!
//! Invariants:
//! - Runs are in order, begin at 1 and leave no gap; neighbours differ in author or term.
//! - The terms of one author never fall along a line.
//!
//! That a point names *one* state everywhere rests on a rule for authors which no single line can
//! check: an author begins a new term when it restarts, and when it goes on from a state that is not
//! the last one it made in this term.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use minicbor::{Decode, Decoder, Encode, decode};

use crate::{BranchId, Epoch, NodeId};

/// The most states that are believed of a line: beyond it someone counts wrongly, and there would be
/// nothing left to count on with.
const NUMBER_MAX: u64 = u64::MAX / 2;

/// One state of one branch: who made it, in which term, and which number it has.
///
/// Seed 0 calls this the state id (replica, failover counter, state number).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub struct Point {
    /// Who advanced the branch to this state.
    #[n(0)]
    pub author: NodeId,
    /// The author's term.
    #[n(1)]
    pub epoch: Epoch,
    /// The how manieth state of this line it is, counted from 1.
    #[n(2)]
    pub number: u64,
}

/// A state of an execution: a point of one of its branches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub struct StateId {
    /// The branch.
    #[n(0)]
    pub branch: BranchId,
    /// The state of that branch.
    #[n(1)]
    pub point: Point,
}

/// A run of states by one author in one term.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub struct Segment {
    /// Who advanced the branch.
    #[n(0)]
    pub author: NodeId,
    /// The author's term.
    #[n(1)]
    pub epoch: Epoch,
    /// The number of the first state of this run.
    #[n(2)]
    pub first: u64,
}

/// How two lineages stand to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The same state.
    Equal,
    /// The left one is a prefix of the right one.
    Before,
    /// The right one is a prefix of the left one.
    After,
    /// Two continuations of one point.
    Clash,
}

impl Order {
    /// The same relation, seen from the other side.
    pub const fn reversed(self) -> Self {
        match self {
            Self::Before => Self::After,
            Self::After => Self::Before,
            same => same,
        }
    }
}

/// The whole line of a branch: its segments and the number of its newest state.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Encode)]
pub struct Lineage {
    #[n(0)]
    segments: Vec<Segment>,
    #[n(1)]
    number: u64,
}

impl Lineage {
    /// The newest state, or nothing if the branch has never been advanced.
    pub fn head(&self) -> Option<Point> {
        let last = self.segments.last()?;
        Some(Point { author: last.author, epoch: last.epoch, number: self.number })
    }

    /// Adds one state by an author in a term and says which it is.
    ///
    /// # Panics
    /// If the author was on this line in a later term: it would resume a term it has left.
    pub fn extend(&mut self, author: NodeId, epoch: Epoch) -> Point {
        self.extend_by(author, epoch, NonZeroU64::MIN)
    }

    /// The same with several states, of which it gives the last.
    ///
    /// # Panics
    /// As `extend` does.
    pub fn extend_by(&mut self, author: NodeId, epoch: Epoch, states: NonZeroU64) -> Point {
        let number = self.number.checked_add(states.get());
        let number = number.expect("a line has fewer than 2^64 states");
        let first = self.number + 1;
        match self.segments.last() {
            Some(last) if (last.author, last.epoch) == (author, epoch) => {}
            _ => {
                assert!(
                    self.highest_epoch(author) <= Some(epoch),
                    "an author never resumes a term it has left"
                );
                self.segments.push(Segment { author, epoch, first });
            }
        }
        self.number = number;
        Point { author, epoch, number }
    }

    /// Whether so many states of these authors, one after the other, can be added. Whoever hears of them
    /// from somebody else asks before it adds them.
    pub fn can_extend_by(&self, runs: &[(NodeId, Epoch, NonZeroU64)]) -> bool {
        let added = runs.iter().map(|(_, _, states)| states.get()).fold(0, u64::saturating_add);
        let mut highest = BTreeMap::new();
        let mut goes_on = |(author, epoch, _): &(NodeId, Epoch, NonZeroU64)| {
            // Most often there is one: then nothing need be remembered.
            let before = (1 < runs.len()).then(|| highest.insert(*author, *epoch)).flatten();
            before.or_else(|| self.highest_epoch(*author)) <= Some(*epoch)
        };
        self.number.saturating_add(added) <= NUMBER_MAX && runs.iter().all(&mut goes_on)
    }

    /// How many states the line has: the number of its newest one.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The runs of the line, oldest first.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The latest term in which an author advanced this line. A take-over needs a later one.
    pub fn highest_epoch(&self, author: NodeId) -> Option<Epoch> {
        let by_author = self.segments.iter().rev().find(|segment| segment.author == author);
        by_author.map(|segment| segment.epoch)
    }

    /// The state with a number, if the line has come that far.
    pub fn at(&self, number: u64) -> Option<Point> {
        if number > self.number {
            return None;
        }
        let runs = self.segments.partition_point(|segment| segment.first <= number);
        let segment = self.segments[..runs].last()?;
        Some(Point { author: segment.author, epoch: segment.epoch, number })
    }

    /// Whether a state lies on this line.
    pub fn contains(&self, point: &Point) -> bool {
        self.at(point.number) == Some(*point)
    }

    /// The line as it was when it had this many states.
    ///
    /// # Panics
    /// If it never had as many.
    pub fn prefix(&self, number: u64) -> Self {
        assert!(number <= self.number, "a line has no states yet to come");
        let runs = self.segments.partition_point(|segment| segment.first <= number);
        Self { segments: self.segments[..runs].to_vec(), number }
    }

    /// The number of the last state that both lines went through; 0 if there is none.
    pub fn common_prefix(&self, other: &Self) -> u64 {
        let mut common = 0;
        for (run, (ours, theirs)) in self.segments.iter().zip(&other.segments).enumerate() {
            if ours != theirs {
                break;
            }
            // If the runs end apart, the next ones begin apart, so this is the last one in common.
            common = self.end_of(run).min(other.end_of(run));
        }
        common
    }

    /// How this line stands to another.
    pub fn compare(&self, other: &Self) -> Order {
        let common = self.common_prefix(other);
        match (common == self.number, common == other.number) {
            (true, true) => Order::Equal,
            (true, false) => Order::Before,
            (false, true) => Order::After,
            (false, false) => Order::Clash,
        }
    }

    /// Whether this line is the other one or goes on from it.
    pub fn extends(&self, other: &Self) -> bool {
        matches!(self.compare(other), Order::Equal | Order::After)
    }

    /// The number of the last state of a run.
    fn end_of(&self, run: usize) -> u64 {
        self.segments.get(run + 1).map_or(self.number, |next| next.first - 1)
    }

    /// Says which invariant does not hold, if any: lines come from disks and peers.
    fn flaw(&self) -> Option<&'static str> {
        let pairs = || self.segments.iter().zip(self.segments.iter().skip(1));
        let begins_at = self.segments.first().map_or(0, |segment| segment.first);
        if begins_at != self.number.min(1) {
            return Some("a lineage begins with state 1");
        }
        if pairs().any(|(one, next)| next.first <= one.first) {
            return Some("the segments of a lineage are in order");
        }
        if NUMBER_MAX < self.number {
            return Some("no lineage has so many states");
        }
        if self.segments.last().is_some_and(|last| last.first > self.number) {
            return Some("a lineage has no segment after its newest state");
        }
        if pairs().any(|(one, next)| (one.author, one.epoch) == (next.author, next.epoch)) {
            return Some("neighbouring segments of a lineage differ");
        }
        self.a_term_falls().then_some("an author never resumes a term it has left")
    }

    fn a_term_falls(&self) -> bool {
        let mut highest = BTreeMap::new();
        self.segments.iter().any(|segment| {
            let before = highest.insert(segment.author, segment.epoch);
            before > Some(segment.epoch)
        })
    }
}

/// A lineage as it was read, not yet known to be one.
#[derive(Decode)]
struct Unchecked {
    #[n(0)]
    segments: Vec<Segment>,
    #[n(1)]
    number: u64,
}

impl<'bytes, Context> Decode<'bytes, Context> for Lineage {
    fn decode(decoder: &mut Decoder<'bytes>, context: &mut Context) -> Result<Self, decode::Error> {
        let Unchecked { segments, number } = Unchecked::decode(decoder, context)?;
        let lineage = Self { segments, number };
        match lineage.flaw() {
            Some(flaw) => Err(decode::Error::message(flaw).at(decoder.position())),
            None => Ok(lineage),
        }
    }
}
