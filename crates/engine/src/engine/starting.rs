//! Registering definitions and starting executions.

use std::sync::Arc;
use std::time::Duration;

use outlast_expressions::Value;
use outlast_lineage::{Digest, ExecutionId};
use outlast_workflow::program::bundle;
use outlast_workflow::{Execution, Program, Start};

use super::certain::Before;
use super::custody::{Begin, Terms, Wish};
use super::definitions::Defined;
use super::entry::{Entry, Origin, State, encode_state};
use super::running::{sent_by, touches_parking};
use super::{Engine, Step, Work, sizes};
use crate::{
    Ask, Caller, Condition, Definition, Happenings, Parent, Position, Quota, RecordKind, Refusal,
    Reply, StartAsk, Started, Subject, Survival, WorkflowVersion,
};

/// An execution that may be started: everything has been checked.
#[derive(Debug)]
pub(super) struct NewExecution {
    pub(super) id: ExecutionId,
    pub(super) name: Option<String>,
    pub(super) input: Value,
    /// The digest of the input.
    pub(super) digest: Digest,
    pub(super) salt: [u8; 16],
    pub(super) parent: Option<Parent>,
}

/// A refusal that says to try later.
pub(super) fn busy(reason: impl Into<String>) -> Refusal {
    Refusal::Busy { reason: reason.into(), retry_after: Some(Duration::from_secs(1)) }
}

impl Engine {
    pub(super) fn define(
        &mut self,
        step: &mut Step,
        caller: Caller,
        program: Arc<Program>,
        text: &str,
    ) -> Result<(), Refusal> {
        let (bytes, limit) = (text.len(), self.options.limits.definition_bytes);
        if bytes > limit {
            return Err(Refusal::TooLarge { what: "the definition", bytes, limit });
        }
        if bundle::is_bundle(text) {
            let reason = "a definition is one document; what it runs is registered on its own";
            return Err(Refusal::Invalid(reason.to_owned()));
        }
        let digest = program.digest;
        let Program { namespace, name, version, .. } = &*program;
        // Also of a text that is known: two nodes may have registered one each, and one of them is meant.
        self.definitions.check_meant(namespace, name, version, digest)?;
        if let Some(known) = self.definitions.get(&digest) {
            let after = Some(known.position);
            step.reply(after, caller, Reply::Defined { digest, new: false });
            return Ok(());
        }
        let definition = Definition {
            digest,
            namespace: program.namespace.clone(),
            name: program.name.clone(),
            version: program.version.clone(),
            text: text.to_owned(),
        };
        let position = self.insert_definition(step, definition, program);
        self.spread_definition(step, digest);
        step.reply(Some(position), caller, Reply::Defined { digest, new: true });
        Ok(())
    }

    /// Records a definition that is new here.
    pub(super) fn insert_definition(
        &mut self,
        step: &mut Step,
        definition: Definition,
        program: Arc<Program>,
    ) -> Position {
        let digest = definition.digest;
        let (position, kind) = self.record(step, RecordKind::Defined(definition));
        let RecordKind::Defined(definition) = kind else { unreachable!("it was just made") };
        if self.definitions.insert(definition, program, position) {
            self.teaching.is_new(digest);
        }
        self.unsaved.mark(Subject::Definition(digest), position);
        position
    }

    pub(super) fn start(
        &mut self,
        step: &mut Step,
        caller: Caller,
        ask: StartAsk,
    ) -> Result<(), Refusal> {
        self.check_name(&ask)?;
        let bytes = sizes::bytes_of(&ask.input);
        let limit = self.options.limits.input_bytes;
        if bytes > limit {
            return Err(Refusal::TooLarge { what: "the input", bytes, limit });
        }
        let digest = sizes::digest_of(&ask.input);
        if let Some(id) = self.started_before(&ask, digest)? {
            self.acknowledge_start(step, caller, id, false);
            return Ok(());
        }
        if let WorkflowVersion::Pinned { version, digest } = &ask.version {
            self.definitions.check_meant(&ask.namespace, &ask.workflow, version, *digest)?;
        }
        let defined = self.definitions.find(&ask.namespace, &ask.workflow, &ask.version).cloned();
        let Some(defined) = defined else {
            let what = format!("{}/{} ({})", ask.namespace, ask.workflow, ask.version);
            return Err(Refusal::UnknownDefinition(what));
        };
        self.check_quota(&ask.namespace)?;
        let survival = ask.survival.clone().unwrap_or_else(|| Survival::of(&defined.program));
        if survival.is_replicated() {
            return self.start_among_nodes(step, caller, defined, ask, survival);
        }
        let (execution, definition) = (ask.id, defined.definition.digest);
        let StartAsk { id, name, input, salt, .. } = ask;
        let new = NewExecution { id, name, input, digest, salt, parent: None };
        let position = self.begin(step, defined, new);
        let reply = Reply::Started { execution, definition, new: true };
        step.reply(Some(position), caller, reply);
        Ok(())
    }

    /// Starts an execution that several nodes are to hold, if this node is the one to do that.
    fn start_among_nodes(
        &mut self,
        step: &mut Step,
        caller: Caller,
        defined: Arc<Defined>,
        mut ask: StartAsk,
        survival: Survival,
    ) -> Result<(), Refusal> {
        let replicas = usize::from(survival.replicas);
        let execution = self.shared_id(&ask, replicas)?;
        if self.tombstones.contains(execution) {
            return Err(Refusal::Forgotten(ask.name.unwrap_or_else(|| execution.to_string())));
        }
        let holders = self.holders_of(execution, replicas)?;
        if ask.given || ask.name.is_some() {
            let placed = self.check_place(&holders);
            if let Err(Refusal::Elsewhere { nodes }) = &placed {
                // Whoever is asked next must know what it is to start.
                let digest = defined.definition.digest;
                nodes.iter().for_each(|node| self.teach(step, *node, digest));
            }
            placed?;
        }
        let Some(defined) = self.bundled(step, &defined)? else {
            let ask = Box::new(Ask::Start(Box::new(ask)));
            self.queue_own(Work::Answer { caller, ask });
            return Ok(());
        };
        let may_be_known = ask.given || ask.name.is_some();
        if may_be_known {
            let wish = Wish::Start(caller, Box::new(ask));
            let others = holders.iter().copied();
            match self.look_round(step, execution, others, wish) {
                Some((Wish::Start(_, at_once), _)) => ask = *at_once,
                _ => return Ok(()),
            }
        }
        let members = holders.into_iter().rev().collect();
        let definition = defined.definition.digest;
        let StartAsk { name, input, salt, .. } = ask;
        let (started, terms) = (step.now, Terms { survival, members });
        let parent = None;
        let begin = Begin { execution, name, definition, input, salt, started, terms, parent };
        self.start_replicated(step, defined, begin);
        self.acknowledge_start(step, caller, execution, true);
        Ok(())
    }

    fn check_name(&self, ask: &StartAsk) -> Result<(), Refusal> {
        let Some(name) = &ask.name else { return Ok(()) };
        if name.is_empty() {
            return Err(Refusal::Invalid("a name has at least one character".to_owned()));
        }
        let (bytes, limit) = (name.len(), self.options.limits.name_bytes);
        if bytes > limit {
            return Err(Refusal::TooLarge { what: "the name", bytes, limit });
        }
        Ok(())
    }

    /// The execution that was started before by the same start, if there is one.
    fn started_before(
        &self,
        ask: &StartAsk,
        digest: Digest,
    ) -> Result<Option<ExecutionId>, Refusal> {
        let named = ask.name.as_ref().and_then(|name| self.roster.named(&ask.namespace, name));
        let id = named.unwrap_or(ask.id);
        if self.tombstones.contains(id) {
            return Err(Refusal::Forgotten(ask.name.clone().unwrap_or_else(|| id.to_string())));
        }
        let Some(entry) = self.roster.get(id) else { return Ok(None) };
        let same_name = entry.name.as_deref() == ask.name.as_deref();
        if same_name && entry.input == digest && is_meant(&entry.defined, ask) {
            return Ok(Some(id));
        }
        let called = ask.name.clone().unwrap_or_else(|| id.to_string());
        Err(Refusal::Conflict(format!(
            "{called} is taken by an execution of {} {} with another definition, name or input",
            entry.defined.definition.name, entry.defined.definition.version
        )))
    }

    pub(super) fn quota(&self, namespace: &str) -> &Quota {
        self.options.quotas.get(namespace).unwrap_or(&self.options.quota)
    }

    /// Refuses new work of a namespace that has used up its share.
    fn check_quota(&self, namespace: &str) -> Result<(), Refusal> {
        let (quota, share) = (self.quota(namespace), self.roster.share(namespace));
        let queued = self.work.len_of(namespace);
        let used_up = [
            (share.live, quota.live, "executions that have not ended"),
            (share.running, quota.running, "executions under way"),
            (queued, quota.queued, "units of work waiting"),
        ];
        match used_up.into_iter().find(|(used, most, _)| used >= most) {
            None => Ok(()),
            Some((used, _, what)) => Err(busy(format!("namespace {namespace} has {used} {what}"))),
        }
    }

    /// Starts an execution and records it.
    pub(super) fn begin(
        &mut self,
        step: &mut Step,
        defined: Arc<Defined>,
        new: NewExecution,
    ) -> Position {
        let NewExecution { id, name, input, digest, salt, parent } = new;
        let keep_plan = parent.is_some_and(|parent| parent.waits);
        let start = Start { id, input, salt, keep_plan, shared: false, depth: 0 };
        let (execution, advance) = Execution::start(&defined.program, start, self.author, step.now);
        let parking = advance.happenings.iter().any(touches_parking);
        let state = encode_state(&execution);
        let weight = state.len();
        let started = Started {
            execution: id,
            name,
            definition: defined.definition.digest,
            input: digest,
            parent,
            state: state.into(),
            happenings: Happenings::from(&advance.happenings[..]),
            sent: sent_by(&advance.commands),
        };
        let (position, kind) = self.record(step, RecordKind::Started(Box::new(started)));
        let RecordKind::Started(started) = kind else { unreachable!("it was just made") };
        let entry = Entry {
            name: started.name.map(String::into_boxed_str),
            weight,
            ..Entry::new(defined, digest, parent, step.now, position, execution)
        };
        self.roster.insert(id, entry);
        self.certain.changed(position, id, Before::Absent);
        self.wake(id);
        self.counters.started += 1;
        self.conclude(step, id, position, (started.happenings, parking), advance.commands);
        self.deliver(position, &started.sent);
        position
    }
}

/// Whether a caller who asks for this start could mean this definition.
fn is_meant(defined: &Defined, ask: &StartAsk) -> bool {
    let known = &defined.definition;
    let version = match &ask.version {
        // `latest` was decided when it was started; it stays what it was then.
        WorkflowVersion::Latest => true,
        WorkflowVersion::Exactly(version) => *version == known.version,
        WorkflowVersion::Digest(digest) => [known.digest, defined.document].contains(digest),
        WorkflowVersion::Pinned { version, digest } => {
            *version == known.version && *digest == defined.document
        }
    };
    version && known.namespace == ask.namespace && known.name == ask.workflow
}

impl Entry {
    /// A running execution without a name, as after its first record.
    pub(super) fn new(
        defined: Arc<Defined>,
        input: Digest,
        parent: Option<Parent>,
        now: outlast_lineage::Time,
        position: Position,
        execution: Execution,
    ) -> Self {
        Self {
            name: None,
            defined,
            input,
            held: parent.is_some_and(|parent| parent.waits),
            parent: parent.map(Box::new),
            started: now,
            changed: now,
            condition: Condition::Running,
            position,
            timers: Vec::new(),
            subscriptions: Vec::new(),
            cancel_wanted: false,
            parked: false,
            lagging: None,
            weight: 0,
            rollbacks: Vec::new(),
            touched: 0,
            custody: None,
            copies: None,
            slept_with: None,
            unclaimed: Vec::new(),
            state: State::Awake(Box::new(execution), Origin::Changed),
        }
    }
}
