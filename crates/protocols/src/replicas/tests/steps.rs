//! Words for step tests: one replica, one input, what it says.

use std::time::Duration;

use outlast_lineage::{
    BranchId, Digest, EffectId, Epoch, ExecutionId, Head, Lineage, NodeId, OperationKey, Point,
    Time,
};

use super::super::{
    Choice, Held, Input, Message, Mode, Note, Output, Replica, Setup, Standing, Timer,
};
use super::world::Terms;

pub(super) const NOW: Time = Time::from_millis(1000);

pub(super) fn setup(me: u64, replicas: u64, votes: usize) -> Setup {
    Terms::of(replicas, votes, 0).setup(NodeId(me))
}

pub(super) fn acknowledging(me: u64, replicas: u64) -> Setup {
    Setup { acknowledge: true, ..setup(me, replicas, 1) }
}

pub(super) fn active(me: u64, replicas: u64) -> Setup {
    Setup { mode: Mode::Active, ..setup(me, replicas, 1) }
}

/// A replica that has heard of the execution.
pub(super) fn begun(setup: Setup) -> Replica {
    let mut replica = Replica::new(setup);
    replica.step(NOW, Input::Begun);
    replica
}

pub(super) fn receive(replica: &mut Replica, from: u64, message: Message) -> Vec<Output> {
    replica.step(NOW, Input::Received { from: NodeId(from), message })
}

pub(super) fn fire(replica: &mut Replica, timer: Timer) -> Vec<Output> {
    replica.step(NOW, Input::TimerFired(timer))
}

/// It loses its primary and asks for votes.
pub(super) fn lose(replica: &mut Replica, peer: u64) -> Vec<Output> {
    replica.step(NOW, Input::PeerLost(NodeId(peer)))
}

/// It asks for votes, gets these and becomes primary. Says what it did when it did.
pub(super) fn elect(replica: &mut Replica, lost: u64, voters: &[u64]) -> Vec<Output> {
    lose(replica, lost);
    let term = replica.standing().term;
    for voter in voters {
        receive(replica, *voter, vote(term, None));
    }
    let outputs = fire(replica, Timer::ElectionOver);
    assert_eq!(replica.leads(), Some(term));
    outputs
}

pub(super) fn vote(term: Epoch, held: Option<Held>) -> Message {
    Message::Vote { term, head: Head::default(), held, confirmed: None }
}

pub(super) fn request(term: u64, head: Head) -> Message {
    Message::RequestVote { term: Epoch(term), head, reaches: None }
}

/// The same, of one who reaches so many.
pub(super) fn request_reaching(term: u64, head: Head, reaches: u32) -> Message {
    Message::RequestVote { term: Epoch(term), head, reaches: Some(reaches) }
}

pub(super) fn lead(term: u64, head: Head) -> Message {
    Message::Lead { head, term: Epoch(term), ended: false }
}

/// A whole state of a primary.
pub(super) fn state(term: u64, head: Head) -> Message {
    Message::State { held: held(head), term: Some(Epoch(term)) }
}

pub(super) fn held(head: Head) -> Held {
    Held { head, ended: false, state: b"state".to_vec() }
}

pub(super) fn point(author: u64, epoch: u64, number: u64) -> Point {
    Point { author: NodeId(author), epoch: Epoch(epoch), number }
}

/// A head: runs of states as (author, term, how many), and a progress.
pub(super) fn head(runs: &[(u64, u64, u64)], progress: u64) -> Head {
    Head { lineage: line(runs), progress, origin: None }
}

pub(super) fn line(runs: &[(u64, u64, u64)]) -> Lineage {
    let mut lineage = Lineage::default();
    for (author, epoch, states) in runs {
        for _ in 0..*states {
            lineage.extend(NodeId(*author), Epoch(*epoch));
        }
    }
    lineage
}

/// An update by which an author goes on from a state to the next one.
pub(super) fn update(base: Option<Point>, next: Point, progress: u64) -> Message {
    Message::Update {
        base,
        next,
        progress,
        ended: false,
        urgent: false,
        delta: b"delta".to_vec().into(),
        beginning: base.is_none().then_some(1),
    }
}

/// The primary goes on.
pub(super) fn advance(replica: &mut Replica, progress: u64, notes: Vec<Note>) -> Vec<Output> {
    replica.step(NOW, Input::Advanced { bytes: 5, progress, ended: false, notes })
}

pub(super) fn finish(replica: &mut Replica, progress: u64) -> Vec<Output> {
    replica.step(NOW, Input::Advanced { bytes: 5, progress, ended: true, notes: Vec::new() })
}

/// An effect that a state intends.
pub(super) fn effect(author: u64, epoch: u64, number: u64) -> EffectId {
    EffectId { branch: BranchId::TRUNK, point: point(author, epoch, number) }
}

pub(super) fn key(name: &str) -> OperationKey {
    let digest = Digest::of(name.as_bytes());
    OperationKey::new(ExecutionId::from_bytes([0; 16]), &digest, &digest)
}

pub(super) fn intended(effect: EffectId, name: &str, deduplicated: bool) -> Note {
    Note::Intended { effect, key: key(name), deduplicated, cost: None, pivot: false }
}

pub(super) fn done(effect: EffectId) -> Note {
    Note::Done { effect, cost: 10.0 }
}

pub(super) fn decide(replica: &mut Replica, instance: u32, line: Lineage) -> Vec<Output> {
    let choice = Choice { lineage: line, is_final: true };
    replica.step(NOW, Input::Decided { instance, choice })
}

/// What is said to one peer.
pub(super) fn said_to(outputs: &[Output], peer: u64) -> Vec<&Message> {
    let said = outputs.iter().filter_map(|output| match output {
        Output::Send { to, message } if to.0 == peer => Some(message),
        _ => None,
    });
    said.collect()
}

/// The standing that is made from what was ordered to be written.
pub(super) fn written(outputs: &[Output], mut standing: Standing) -> Standing {
    for output in outputs {
        if let Output::Persist(change) = output {
            standing.apply(change);
        }
    }
    standing
}

pub(super) fn timer_at(outputs: &[Output], which: Timer) -> Option<Duration> {
    outputs.iter().find_map(|output| match output {
        Output::SetTimer { timer, at } if *timer == which => Some(at.since(NOW)),
        _ => None,
    })
}
