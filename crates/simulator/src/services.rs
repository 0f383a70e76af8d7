//! The services of the world: they do what they are told by the name of the operation, and write
//! everything down.
//!
//! An operation is `http://HOST/WORD/NAME`, or a service type called `WORD NAME`, and the word says
//! how it goes: `fail` definitely fails, `flaky` definitely fails twice and then works, anything
//! else works.

use std::collections::BTreeMap;

use outlast_expressions::{Value, value};
use outlast_lineage::{Digest, ExecutionId, Time};
use outlast_workflow::{Answer, Fault, FaultKind, Request, Target};

/// How often a `flaky` operation fails before it works.
const FLAKY_FAILURES: usize = 2;

/// One request that reached a service.
#[derive(Clone, PartialEq, Debug)]
pub struct Visit {
    /// When.
    pub time: Time,
    /// Whose.
    pub execution: ExecutionId,
    /// The key it carried.
    pub key: String,
    /// What was asked: the method, the path and the body.
    pub operation: String,
    /// The digest of the whole request.
    pub request: Digest,
    /// Whether the service acted: not if it failed, nor if it had acted on this key before.
    pub acted: bool,
}

/// All services, and the ledger of what they were asked.
#[derive(Clone, Debug)]
pub struct Services {
    /// Whether a key that was acted on gets the same answer again and nothing more happens.
    pub deduplicating: bool,
    /// Everything that was asked, in order.
    pub ledger: Vec<Visit>,
    answers: BTreeMap<String, Answer>,
    failures: BTreeMap<(ExecutionId, String), usize>,
}

impl Services {
    /// Services that nobody has asked yet.
    pub const fn new(deduplicating: bool) -> Self {
        Self {
            deduplicating,
            ledger: Vec::new(),
            answers: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }

    /// Does what is asked, and answers.
    pub fn visit(&mut self, now: Time, execution: ExecutionId, request: &Request) -> Answer {
        let key = request.key_text();
        let (word, operation) = operation_of(&request.target);
        let known = self.answers.get(&key).filter(|_| self.deduplicating).cloned();
        let answer = known.clone().unwrap_or_else(|| self.act(execution, &word, &operation));
        self.ledger.push(Visit {
            time: now,
            execution,
            key: key.clone(),
            operation,
            request: Digest::of(format!("{:?}", request.target).as_bytes()),
            acted: known.is_none() && matches!(answer, Answer::Succeeded(_)),
        });
        // A key is bound to what was done with it; a refusal did nothing.
        if matches!(answer, Answer::Succeeded(_)) {
            self.answers.insert(key, answer.clone());
        }
        answer
    }

    fn act(&mut self, execution: ExecutionId, word: &str, operation: &str) -> Answer {
        let failed = match word {
            "fail" => true,
            "flaky" => {
                let failures = self.failures.entry((execution, operation.to_owned())).or_default();
                *failures += 1;
                *failures <= FLAKY_FAILURES
            }
            _ => false,
        };
        if failed {
            let detail = format!("{operation} is out of order");
            let fault = Fault::new(FaultKind::Communication, "Service failed", detail);
            return Answer::Failed(fault.with_status(503));
        }
        Answer::Succeeded(value::object([("done", value::string(operation))]))
    }

    /// Everything that services acted on, with how often, whoever asked.
    pub fn acts(&self) -> BTreeMap<String, usize> {
        let mut acts = BTreeMap::new();
        for visit in self.ledger.iter().filter(|visit| visit.acted) {
            *acts.entry(visit.operation.clone()).or_default() += 1;
        }
        acts
    }
}

/// How an operation goes, and what it is called.
fn operation_of(target: &Target) -> (String, String) {
    match target {
        Target::Http { method, uri, body, .. } => {
            let path = uri.splitn(4, '/').nth(3).unwrap_or_default();
            let word = path.split('/').next().unwrap_or_default().to_owned();
            let body = match body {
                Value::Null => String::new(),
                body => format!(" {body}"),
            };
            (word, format!("{method} {path}{body}"))
        }
        Target::Catalog { name, version, arguments } => {
            let word = name.split(' ').next().unwrap_or_default().to_owned();
            (word, format!("{name}:{version} {arguments}"))
        }
    }
}
