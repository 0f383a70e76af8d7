//! Snapshots: what the journal need not keep any longer.
//!
//! A snapshot is a version byte, eight bytes of a digest over the rest, and the rest in CBOR. It
//! holds its subject as of the newest record at the time, whatever record last changed it; so where
//! snapshots are taken makes no difference to what is recovered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use minicbor::{Decode, Encode};
use outlast_lineage::{Digest, Epoch, ExecutionId};
use outlast_workflow::Command;

use super::custody::Custody;
use super::entry::Header;
use super::retention::Tombstone;
use super::{Engine, Step};
use crate::record::RECORD_VERSION;
use crate::writing::write_behind;
use crate::{Action, Definition, Position, Publication, RecordError, Subject};

/// A snapshot of one subject.
#[derive(Debug, Encode, Decode)]
pub(super) struct Snapshot {
    #[n(0)]
    pub(super) as_of: Position,
    #[n(1)]
    pub(super) content: Content,
}

/// What a snapshot holds.
#[derive(Debug, Encode, Decode)]
pub(super) enum Content {
    #[n(0)]
    Node {
        #[n(0)]
        epoch: Epoch,
        #[n(1)]
        next_event: u64,
    },
    #[n(1)]
    Definition {
        #[n(0)]
        definition: Definition,
        #[n(1)]
        position: Position,
    },
    #[n(2)]
    Execution {
        #[n(0)]
        id: ExecutionId,
        #[n(1)]
        header: Box<Header>,
    },
    #[n(3)]
    Tombstone {
        #[n(0)]
        id: ExecutionId,
        #[n(1)]
        tombstone: Tombstone,
    },
    #[n(4)]
    Event(#[n(0)] Publication),
}

impl Snapshot {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = write_behind(vec![0; 9], self);
        let check = Digest::of(&bytes[9..]).short();
        bytes[0] = RECORD_VERSION;
        bytes[1..9].copy_from_slice(&check.to_be_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let (&version, rest) = bytes.split_first().ok_or(RecordError::Empty)?;
        if version != RECORD_VERSION {
            return Err(RecordError::Version { found: version });
        }
        let (check, content) = rest.split_first_chunk().ok_or(RecordError::Damaged)?;
        if Digest::of(content).short() != u64::from_be_bytes(*check) {
            return Err(RecordError::Damaged);
        }
        Ok(minicbor::decode(content)?)
    }

    /// What it is a snapshot of.
    pub(super) const fn subject(&self) -> Subject {
        match &self.content {
            Content::Node { .. } => Subject::Node,
            Content::Definition { definition, .. } => Subject::Definition(definition.digest),
            Content::Execution { id, .. } | Content::Tombstone { id, .. } => {
                Subject::Execution(*id)
            }
            Content::Event(publication) => Subject::Event(publication.number),
        }
    }
}

/// What has changed since its last snapshot, and since which record.
#[derive(Debug, Default)]
pub(super) struct Unsaved {
    since: BTreeMap<Subject, Position>,
    by_position: BTreeSet<(Position, Subject)>,
    /// Executions of which snapshots were ordered and are not known to be durable, and their newest
    /// record then; slice by slice.
    leaving: VecDeque<Vec<(ExecutionId, Position)>>,
}

impl Unsaved {
    /// A record changed a subject.
    pub(super) fn mark(&mut self, subject: Subject, position: Position) {
        if let std::collections::btree_map::Entry::Vacant(vacant) = self.since.entry(subject) {
            vacant.insert(position);
            self.by_position.insert((position, subject));
        }
    }

    /// The subject is saved, or no longer there.
    pub(super) fn clear(&mut self, subject: &Subject) {
        if let Some(position) = self.since.remove(subject) {
            self.by_position.remove(&(position, *subject));
        }
    }

    /// The subject that has been unsaved for longest, and since when.
    pub(super) fn first(&self) -> Option<(Position, Subject)> {
        self.by_position.first().copied()
    }

    /// Whether the subject has changed since its last snapshot was ordered.
    pub(super) fn contains(&self, subject: &Subject) -> bool {
        self.since.contains_key(subject)
    }

    /// The slice that was ordered longest ago is durable; gives what it held.
    pub(super) fn stored(&mut self) -> Vec<(ExecutionId, Position)> {
        self.leaving.pop_front().unwrap_or_default()
    }

    pub(super) fn assert_invariants(&self) {
        assert_eq!(self.since.len(), self.by_position.len(), "each is unsaved since one record");
    }
}

impl Engine {
    /// Orders snapshots of what has been unsaved for longest.
    pub(super) fn snapshot(&mut self, step: &mut Step, max: usize) {
        let (mut over, mut saved) = (Vec::new(), false);
        for _ in 0..max {
            let Some((_, subject)) = self.unsaved.first() else { break };
            self.unsaved.clear(&subject);
            let Some(content) = self.content_of(step, subject) else {
                step.order(Some(self.position), Action::Forget(subject));
                continue;
            };
            if let Content::Execution { id, header } = &content
                && header.is_over()
            {
                over.push((*id, header.position));
            }
            saved = true;
            self.order_snapshot(step, subject, content);
        }
        // What changed may all be gone by now. The journal is cut behind it all the same, so
        // something must say how far it had come.
        if !saved && let Some(content) = self.content_of(step, Subject::Node) {
            self.order_snapshot(step, Subject::Node, content);
        }
        self.unsaved.leaving.push_back(over);
        let replay_from =
            self.unsaved.first().map_or(self.position.next(), |(position, _)| position);
        step.order(Some(self.position), Action::Compactable { replay_from });
    }

    fn order_snapshot(&self, step: &mut Step, subject: Subject, content: Content) {
        let as_of = self.position;
        let bytes = Snapshot { as_of, content }.encode();
        step.order(Some(as_of), Action::Snapshot { subject, as_of, bytes });
    }

    fn content_of(&mut self, step: &Step, subject: Subject) -> Option<Content> {
        match subject {
            Subject::Node => {
                Some(Content::Node { epoch: self.author.epoch, next_event: self.events.next })
            }
            Subject::Definition(digest) => {
                let defined = self.definitions.get(&digest)?;
                let (definition, position) = (defined.stored(), defined.position);
                Some(Content::Definition { definition, position })
            }
            Subject::Event(number) => self.events.get(number).cloned().map(Content::Event),
            Subject::Execution(id) => match self.tombstones.get(id) {
                Some(tombstone) => Some(Content::Tombstone { id, tombstone: tombstone.clone() }),
                None => Some(Content::Execution { id, header: Box::new(self.header(step, id)?) }),
            },
        }
    }

    fn header(&mut self, step: &Step, id: ExecutionId) -> Option<Header> {
        let rests = self.roster.get(id)?.rests();
        if !rests && !self.wake(id) {
            return None;
        }
        let entry = self.roster.known(id);
        let busy = !rests && {
            let (execution, program) = (entry.execution(), &entry.defined.program);
            let open = execution.open_commands(program, step.now);
            open.iter().any(|command| !is_indexed(command))
                || !execution.doubtful_calls(program).is_empty()
        };
        let state = entry.state_bytes()?;
        entry.weight = state.len();
        Some(Header {
            name: entry.name.as_deref().map(str::to_owned),
            definition: entry.defined.definition.digest,
            input: entry.input,
            parent: entry.parent.as_deref().copied(),
            started: entry.started,
            changed: entry.changed,
            condition: entry.condition,
            position: entry.position,
            timers: entry.timers.clone(),
            subscriptions: entry.subscriptions.clone(),
            cancel_wanted: entry.cancel_wanted,
            held: entry.held,
            parked: entry.parked,
            busy,
            state: state.into(),
            custody: entry.custody.as_ref().map(Custody::stored),
            copies: entry.copies.as_deref().map(<[_]>::to_vec),
        })
    }
}

/// Whether a header holds enough to ask for this again.
pub(super) const fn is_indexed(command: &Command) -> bool {
    matches!(command, Command::SetTimer { .. } | Command::Subscribe { .. })
}
