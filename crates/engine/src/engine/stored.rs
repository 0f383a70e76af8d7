//! States that only the store holds: those of executions that are over and have been saved.
//!
//! Of such an execution the engine keeps what lists show, what tells a repeated start, and what
//! forgetting needs. Whatever needs more waits while the driver fetches the snapshot.
//!
//! Invariant: a stored state is the newest one, so nothing of its execution is unsaved.

use outlast_lineage::ExecutionId;
use outlast_workflow::{Event, Execution};

use super::snapshots::{Content, Snapshot};
use super::{Engine, Step, Work};
use crate::{Action, Ask, Caller, Position, Refusal, Reply, Subject, Which};

impl Work {
    /// The child whose state it needs.
    pub(super) fn child(&self) -> Option<ExecutionId> {
        match self {
            Self::StartChild(start) => Some(start.child),
            Self::CompensateChild { child, .. } => Some(*child),
            _ => None,
        }
    }

    fn is_of(&self, caller: Caller) -> bool {
        matches!(self, Self::Answer { caller: of, .. } if *of == caller)
    }
}

impl Engine {
    /// Whether the state of an execution is only in the store.
    pub(super) fn is_stored(&self, id: ExecutionId) -> bool {
        self.roster.get(id).is_some_and(super::entry::Entry::is_stored)
    }

    /// The execution that a request is about, if its state is needed and only in the store.
    pub(super) fn stored_subject(&self, ask: &Ask) -> Option<ExecutionId> {
        let id = self.find(needed(ask)?).ok()?;
        self.is_stored(id).then_some(id)
    }

    /// The oldest slice of snapshots is durable: what is over and has not changed since is dropped.
    pub(super) fn leave_to_the_store(&mut self) {
        for (id, position) in self.unsaved.stored() {
            let Some(entry) = self.roster.get(id) else { continue };
            let unchanged = entry.position == position && entry.is_over();
            if unchanged && !self.unsaved.contains(&Subject::Execution(id)) {
                self.roster.store(id);
            }
        }
    }

    /// Asks for the state of an execution, and does the work when it is here.
    pub(super) fn fetch(&mut self, step: &mut Step, id: ExecutionId, work: Work) {
        let waiting = self.fetching.entry(id).or_default();
        waiting.push(work);
        if waiting.len() == 1 {
            step.order(None, Action::Fetch(id));
        }
    }

    /// The caller went away.
    pub(super) fn stop_fetching_for(&mut self, caller: Caller) {
        for waiting in self.fetching.values_mut() {
            waiting.retain(|work| !work.is_of(caller));
        }
    }

    /// A state is here again, or cannot be had: does what waited for it, as far as one step may.
    pub(super) fn fetched(
        &mut self,
        step: &mut Step,
        id: ExecutionId,
        snapshot: Result<Vec<u8>, String>,
    ) {
        let Some(waiting) = self.fetching.remove(&id) else { return };
        // Meanwhile it may have been forgotten: then that is the answer.
        if let Some(position) = self.roster.get(id).filter(|entry| entry.is_stored()) {
            let position = position.position;
            match snapshot.and_then(|bytes| state_in(&bytes, id, position)) {
                Ok(execution) => self.roster.fetched(id, execution),
                Err(reason) => return self.refuse_waiting(step, id, waiting, &reason),
            }
        }
        for work in waiting {
            let reading = matches!(work, Work::Answer { .. });
            if step.recorded || (self.storage_full && !reading) {
                self.queue_own(work);
            } else {
                self.perform(step, work);
            }
        }
    }

    /// Nothing that waited can be done. Parents ask again after a restart.
    fn refuse_waiting(
        &mut self,
        step: &mut Step,
        execution: ExecutionId,
        waiting: Vec<Work>,
        reason: &str,
    ) {
        for work in waiting {
            if let Work::Answer { caller, .. } = work {
                self.counters.refused += 1;
                let refusal = Refusal::Unreadable { execution, reason: reason.to_owned() };
                step.reply(None, caller, Reply::Refused(refusal));
            }
        }
    }

    /// Something happened to an execution that is over and whose state is only in the store. It
    /// waits for no answer, timer, event or child; anything else it must be there for.
    pub(super) fn advance_stored(&mut self, step: &mut Step, execution: ExecutionId, event: Event) {
        let late = matches!(
            event,
            Event::Answered { .. }
                | Event::Evaluated { .. }
                | Event::TimerFired(_)
                | Event::Arrived { .. }
                | Event::ChildEnded { .. }
                | Event::Continue
        );
        if !late {
            self.fetch(step, execution, Work::Advance { execution, event });
        }
    }
}

/// The execution whose state a request needs.
const fn needed(ask: &Ask) -> Option<&Which> {
    match ask {
        Ask::Show(which)
        | Ask::Wait(which)
        | Ask::Cancel(which)
        | Ask::Compensate { which, .. }
        | Ask::Suspend(which)
        | Ask::Resume(which)
        | Ask::Retry(which) => Some(which),
        Ask::Define { .. }
        | Ask::Definitions { .. }
        | Ask::Definition { .. }
        | Ask::Start(_)
        | Ask::List(_)
        | Ask::Signal { .. }
        | Ask::Publish { .. }
        | Ask::Parked(_)
        | Ask::Resolve { .. }
        | Ask::Delete(_)
        | Ask::GiveUp(_)
        | Ask::Standing
        | Ask::Remove(_)
        | Ask::Drain(_) => None,
    }
}

/// The state of an execution in its snapshot, which must be the one of its newest record.
fn state_in(bytes: &[u8], id: ExecutionId, position: Position) -> Result<Execution, String> {
    let snapshot = Snapshot::decode(bytes).map_err(|error| error.to_string())?;
    match snapshot.content {
        Content::Execution { id: of, header } if of == id && header.position == position => {
            minicbor::decode(&header.state).map_err(|error| error.to_string())
        }
        _ => Err("another snapshot is stored in its place".to_owned()),
    }
}
