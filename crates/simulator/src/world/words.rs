//! What occurs, in words, for the trace.

use outlast_engine::{Ask, Reply, Spoken};
use outlast_lineage::ExecutionId;
use outlast_workflow::Answer;

use crate::services::Visited;

/// What is asked of a node.
pub(super) fn of_ask(ask: &Ask) -> String {
    match ask {
        Ask::Define { program, .. } => format!("to know {}", program.name),
        Ask::Start(start) => format!("to start {}", start.id),
        Ask::Wait(which) => format!("how {which} ends"),
        Ask::Show(which) => format!("about {which}"),
        Ask::Publish { .. } => "to publish an event".to_owned(),
        other => format!("{other:?}"),
    }
}

/// What a node tells the client.
pub(super) fn of_reply(reply: &Reply) -> String {
    match reply {
        Reply::Defined { .. } => "that it knows the definition".to_owned(),
        Reply::Started { execution, .. } => format!("that {execution} is started"),
        Reply::Shown(detail) => {
            format!("that {} is {}", detail.summary.execution, detail.summary.condition.word())
        }
        Reply::Refused(refusal) => format!("no: {refusal}"),
        other => format!("{other:?}"),
    }
}

/// What a service does when it is asked.
pub(super) const fn of_visit(visited: &Visited) -> &'static str {
    match (&visited.answer, visited.act, visited.repeated) {
        (_, Some(_), _) => "acts",
        (_, _, true) => "only answers again",
        _ => "fails",
    }
}

/// What an answer says.
pub(super) const fn of_answer(answer: &Answer) -> &'static str {
    match answer {
        Answer::Succeeded(_) | Answer::TooLarge(..) => "that it was done",
        Answer::Failed(_) => "that it failed",
        Answer::Unknown(_) => "by nobody: what became of it is not known",
    }
}

/// The name of an execution in a trace: the beginning of its id.
pub(super) fn short(execution: ExecutionId) -> String {
    let mut id = execution.to_string();
    id.truncate(8);
    id
}

/// What nodes tell each other.
pub(super) fn of_message(message: &[u8]) -> String {
    let bytes = message.len();
    match Spoken::of(message) {
        Some(Spoken { kind, execution: Some(id) }) => {
            format!("{kind} ({bytes} bytes)  #{}", short(id))
        }
        Some(Spoken { kind, execution: None }) => format!("{kind} ({bytes} bytes)"),
        None => format!("{bytes} bytes"),
    }
}
