//! The services of the world: they do what they are told by the name of the operation, and write
//! everything down.
//!
//! An operation is `http://HOST/WORD/NAME`, or a service type called `WORD NAME`, and the word says
//! how it goes: `fail` definitely fails, `flaky` definitely fails twice and then works, anything
//! else works. Twice is by keys: a failure that is asked for again, because nobody knows the answer
//! any more, is the same failure. What was done is answered with a `receipt`, which names the act; an
//! undo that carries the receipt is known to undo that act. One without a receipt undoes the latest act
//! of its name: the same path with another method, or the name behind `undo`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use outlast_expressions::{Value, value};
use outlast_lineage::{EffectId, ExecutionId, NodeId, OperationKey, Time};
use outlast_workflow::{Answer, Fault, FaultKind, Request, Target};

use crate::ledger::{Act, Ledger};

/// How often a `flaky` operation fails before it works.
const FLAKY_FAILURES: usize = 2;

/// What a service is given to tell one operation from another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Key {
    Derived(OperationKey),
    Own(String),
}

/// How an operation is not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Failure {
    /// It was never done with this key, and will not be.
    Refusal,
    /// That says nothing of what was asked before.
    Outage,
}

/// What is known of a key.
#[derive(Clone, Debug)]
struct Known {
    /// The request it came with first.
    target: Target,
    operation: u32,
    name: u32,
    /// The answer it got when it was acted on.
    answer: Option<Answer>,
    acts: u32,
}

/// What came of a visit.
#[derive(Clone, PartialEq, Debug)]
pub struct Visited {
    /// The answer.
    pub answer: Answer,
    /// What was done, by its place in the ledger.
    pub act: Option<usize>,
    /// Whether it was only answered again, as nothing more was to be done.
    pub repeated: bool,
    /// What must not be.
    pub finding: Option<String>,
}

/// All services, and the ledger of what they did.
#[derive(Clone, Debug)]
pub struct Services {
    /// Whether a key that was acted on gets the same answer again and nothing more happens.
    pub deduplicating: bool,
    /// Everything that was done, in order.
    pub ledger: Ledger,
    /// How often someone asked for something.
    pub visits: u64,
    keys: BTreeMap<Key, Known>,
    /// The keys with which `flaky` operations failed.
    failures: BTreeMap<(ExecutionId, u32), Vec<OperationKey>>,
    /// Calls that have not reached their services yet, by what they are to do.
    under_way: BTreeMap<(ExecutionId, EffectId), usize>,
}

impl Services {
    /// Services that nobody has asked yet.
    pub fn new(deduplicating: bool) -> Self {
        Self {
            deduplicating,
            ledger: Ledger::default(),
            visits: 0,
            keys: BTreeMap::new(),
            failures: BTreeMap::new(),
            under_way: BTreeMap::new(),
        }
    }

    /// A call sets out for its service.
    pub(crate) fn sets_out(&mut self, execution: ExecutionId, effect: EffectId) {
        *self.under_way.entry((execution, effect)).or_default() += 1;
    }

    /// Whether a call is on its way that would have this effect.
    pub(crate) fn is_under_way(&self, execution: ExecutionId, effect: EffectId) -> bool {
        self.under_way.contains_key(&(execution, effect))
    }

    /// Does what is asked, unless it is to fail, and answers.
    pub fn visit(
        &mut self,
        now: Time,
        node: NodeId,
        execution: ExecutionId,
        request: &Request,
        fails: bool,
    ) -> Visited {
        self.visits += 1;
        self.has_arrived(execution, request.effect);
        let key = match &request.own_key {
            Some(text) => Key::Own(text.clone()),
            None => Key::Derived(request.key),
        };
        let mut known = self.keys.remove(&key).unwrap_or_else(|| self.new_key(&request.target));
        let finding = (known.target != request.target).then(|| {
            let first = self.ledger.operation(known.operation);
            let (key, then) = (request.key_text(), operation_of(&request.target));
            format!("key {key} carried {first} and then {then}")
        });
        // What a flow says of its activities, it does not say of their undos.
        let knows_keys = self.deduplicating || request.undo;
        let visited = match known.answer.clone().filter(|_| knows_keys) {
            Some(answer) => Visited { answer, act: None, repeated: true, finding: None },
            None => self.act(now, node, execution, (request, fails), &known),
        };
        // A key is bound to what was done with it; a refusal did nothing. Services that do not go by
        // keys remember too, for people who ask.
        if visited.act.is_some() {
            known.acts += 1;
            known.answer = Some(visited.answer.clone());
        }
        self.keys.insert(key, known);
        Visited { finding: finding.or(visited.finding), ..visited }
    }

    fn has_arrived(&mut self, execution: ExecutionId, effect: EffectId) {
        if let Entry::Occupied(mut calls) = self.under_way.entry((execution, effect)) {
            *calls.get_mut() -= 1;
            if *calls.get() == 0 {
                calls.remove();
            }
        }
    }

    /// What is known of a key that comes for the first time.
    fn new_key(&mut self, target: &Target) -> Known {
        let operation = self.ledger.intern(&operation_of(target));
        let is_given_nothing = matches!(target, Target::Http { body: Value::Null, .. });
        let name = if is_given_nothing { operation } else { self.ledger.intern(&name_of(target)) };
        Known { target: target.clone(), operation, name, answer: None, acts: 0 }
    }

    fn act(
        &mut self,
        now: Time,
        node: NodeId,
        execution: ExecutionId,
        (request, fails): (&Request, bool),
        known: &Known,
    ) -> Visited {
        let operation = known.operation;
        let failure =
            if fails { Some(Failure::Outage) } else { self.failure(execution, request, known) };
        if let Some(failure) = failure {
            let (status, does) = match failure {
                Failure::Refusal => (422, "refuses"),
                Failure::Outage => (503, "is out of order"),
            };
            let detail = format!("{} {does}", self.ledger.operation(operation));
            let fault = Fault::new(FaultKind::Communication, "Service failed", detail);
            let answer = Answer::Failed(fault.with_status(status));
            return Visited { answer, act: None, repeated: false, finding: None };
        }
        let receipt = receipt(request, known.acts);
        let answer = answer(self.ledger.operation(operation), &receipt, &request.target);
        let act = Act {
            time: now,
            node,
            execution,
            key: request.key,
            operation,
            name: known.name,
            effect: request.effect,
            undo: request.undo,
            readonly: request.readonly,
            undoes: None,
            names: request.undoes,
            undone_by: None,
            is_certain: true,
            is_settled: false,
            is_orphan: false,
            intended: Vec::new(),
            taken_up: None,
            line: None,
        };
        let carried = if request.undo { carried_receipt(payload(&request.target)) } else { None };
        let subject = subject_of(&request.target);
        let (place, finding) = self.ledger.enter(act, receipt, subject, carried.as_deref());
        Visited { answer: Answer::Succeeded(answer), act: Some(place), repeated: false, finding }
    }

    /// How an operation fails that is to fail by its name.
    fn failure(
        &mut self,
        execution: ExecutionId,
        request: &Request,
        known: &Known,
    ) -> Option<Failure> {
        match word_of(&request.target) {
            "fail" => Some(Failure::Refusal),
            "flaky" => {
                let failed = self.failures.entry((execution, known.operation)).or_default();
                // An undo has one key until it is done: of these, visits count.
                if !request.undo && failed.contains(&request.key) {
                    return Some(Failure::Refusal);
                }
                let fails = failed.len() < FLAKY_FAILURES;
                fails.then(|| failed.push(request.key)).map(|()| Failure::Outage)
            }
            _ => None,
        }
    }

    /// What was answered when an effect was done, if it was and stands.
    pub(crate) fn answer_of(&self, execution: ExecutionId, effect: EffectId) -> Option<Value> {
        let mut acts = self.ledger.of(execution);
        let act = acts.find(|act| !act.undo && act.effect == effect && act.undone_by.is_none())?;
        match &self.keys.get(&Key::Derived(act.key))?.answer {
            Some(Answer::Succeeded(answer)) => Some(answer.clone()),
            _ => None,
        }
    }

    /// Everything that services did, with how often, whoever asked.
    pub fn acts(&self) -> BTreeMap<String, usize> {
        let mut acts = BTreeMap::new();
        for act in self.ledger.iter() {
            *acts.entry(self.ledger.operation(act.operation).to_owned()).or_default() += 1;
        }
        acts
    }
}

/// Names an act: by its key, and by how often the key was acted on before.
fn receipt(request: &Request, before: u32) -> String {
    let key = match &request.own_key {
        Some(text) => outlast_lineage::Digest::of(text.as_bytes()).short(),
        None => request.key.digest().short(),
    };
    if before == 0 { format!("{key:016x}") } else { format!("{key:016x}-{before}") }
}

fn answer(operation: &str, receipt: &str, target: &Target) -> Value {
    let done = ("done", value::string(operation));
    let receipt = ("receipt", value::string(receipt));
    // Flows that count on what the activity before them gave hand a state on.
    match value::get(payload(target), "state").and_then(value::as_i64) {
        Some(state) => value::object([done, receipt, ("state", value::integer(state + 1))]),
        None => value::object([done, receipt]),
    }
}

/// The receipt that a request carries somewhere. What an undo captures without being told to is the
/// input and the output of its task, and the input may hold the receipt of the task before.
fn carried_receipt(payload: &Value) -> Option<String> {
    if let Some(receipt) = value::get(payload, "receipt").and_then(value::as_str) {
        return Some(receipt.to_owned());
    }
    if let Some(output) = value::get(payload, "output") {
        return carried_receipt(output);
    }
    value::members(payload).find_map(|(_, member)| carried_receipt(member))
}

const fn payload(target: &Target) -> &Value {
    match target {
        Target::Http { body, .. } => body,
        Target::Catalog { arguments, .. } => arguments,
    }
}

/// Whether an operation fails for the first keys with which it is asked for.
pub(crate) fn is_flaky(target: &Target) -> bool {
    word_of(target) == "flaky"
}

/// The word that says how an operation goes.
fn word_of(target: &Target) -> &str {
    match target {
        Target::Http { uri, .. } => path_of(uri).split('/').next().unwrap_or_default(),
        Target::Catalog { name, .. } => name.split(' ').next().unwrap_or_default(),
    }
}

/// What comes after the third slash.
fn path_of(uri: &str) -> &str {
    let mut slashes = uri.bytes().enumerate().filter(|(_, byte)| *byte == b'/');
    slashes.nth(2).map_or("", |(place, _)| &uri[place + 1..])
}

/// What an operation and its undo have in common.
fn subject_of(target: &Target) -> &str {
    match target {
        Target::Http { uri, .. } => path_of(uri),
        Target::Catalog { name, .. } => name.strip_prefix("undo ").unwrap_or(name),
    }
}

/// What an operation is called, whatever it is given.
pub(crate) fn name_of(target: &Target) -> String {
    match target {
        Target::Http { method, uri, .. } => format!("{method} {}", path_of(uri)),
        Target::Catalog { name, .. } => name.clone(),
    }
}

/// What an operation is called, with what it is given.
pub(crate) fn operation_of(target: &Target) -> String {
    match target {
        Target::Http { method, uri, body, .. } => match body {
            Value::Null => format!("{method} {}", path_of(uri)),
            body => format!("{method} {} {body}", path_of(uri)),
        },
        Target::Catalog { name, version, arguments } => format!("{name}:{version} {arguments}"),
    }
}
