//! Who knows the execution that a start names, if it is not this node.
//!
//! What several nodes are to hold falls to the same nodes whoever is asked, and those ask each other. What
//! one node is to hold alone may be held by any: as long as one of them is silent, nobody can say that it is
//! not known, and it is not started a second time.

use std::time::Duration;

use axum::http::StatusCode;
use outlast_engine::{Ask, Reply, Survival, Which, WorkflowVersion};
use outlast_expressions::{Value, value};
use outlast_languages::openworkflow;
use outlast_lineage::NodeId;
use serde_json::Value as Json;
use tokio::time::Instant;

use super::copies::{self, NotFound};
use super::{Api, LOOK_TIME_MAX, Problem, ask_all, look};
use crate::relay::Relay;

/// For how long whoever is silent is asked: a node that was just started has its connections by then.
const TIME_MAX: Duration = Duration::from_secs(3);
/// How long to wait before all are asked again.
const PAUSE: Duration = Duration::from_millis(200);

/// The node that knows it, if one does; a problem if one that is silent may, and it would run twice.
pub(super) async fn find(
    api: &Api,
    relay: &Relay,
    which: &Which,
    start: &Value,
) -> Result<Option<NodeId>, Problem> {
    let deadline = Instant::now() + TIME_MAX;
    let mut alone = None;
    loop {
        let silent = match copies::find(relay, &segment(which)).await {
            Ok(found) => return Ok(Some(found.teller)),
            // It says that, as it would if it had been asked.
            Err(NotFound { deleted_at: Some(node), .. }) => return Ok(Some(node)),
            Err(NotFound { silent, .. }) if silent.is_empty() => return Ok(None),
            Err(NotFound { silent, .. }) => silent,
        };
        let alone = match alone {
            Some(alone) => alone,
            None => *alone.insert(is_held_alone(api, relay, start).await?),
        };
        if !alone {
            return Ok(None);
        }
        if deadline <= Instant::now() {
            return Err(may_be_known(which, &silent));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether one node is to hold what is started. Of what no node can say, whoever starts it says the rest.
async fn is_held_alone(api: &Api, relay: &Relay, start: &Value) -> Result<bool, Problem> {
    if let Some(said) = value::get(start, "survival").filter(|said| **said != Value::Null) {
        return Ok(Survival::read(said).is_ok_and(|survival| !survival.is_replicated()));
    }
    let Some(text) = definition(api, relay, start).await? else { return Ok(false) };
    let checked = tokio::task::spawn_blocking(move || openworkflow::check("document", &text));
    let program = checked.await.ok().and_then(|report| report.program);
    Ok(program.is_some_and(|program| !Survival::of(&program).is_replicated()))
}

/// The text of the definition, as this node knows it, or else another one.
async fn definition(api: &Api, relay: &Relay, start: &Value) -> Result<Option<String>, Problem> {
    let text = |name: &str| value::get(start, name).and_then(value::as_str);
    let (Some(namespace), Some(name)) = (text("namespace"), text("workflow")) else {
        return Ok(None);
    };
    let version = text("version").unwrap_or("latest");
    let ask = Ask::Definition {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        version: WorkflowVersion::of(version),
    };
    if let Reply::Definition { text, .. } = api.node.ask(ask).await? {
        return Ok(Some(text.to_string()));
    }
    let path = [namespace, name, version].map(escaped).join("/");
    let answers = ask_all(relay, &look(format!("/v1/definitions/{path}")), LOOK_TIME_MAX).await;
    let mut texts = answers.into_iter().filter_map(|(_, answered)| {
        let answer = answered.ok().filter(|answer| answer.status == 200)?;
        let shown: Json = serde_json::from_slice(&answer.body).ok()?;
        shown.get("text")?.as_str().map(str::to_owned)
    });
    Ok(texts.next())
}

/// Somebody who is silent may have started it.
fn may_be_known(which: &Which, silent: &[String]) -> Problem {
    let silent = silent.join(", ");
    let detail = format!(
        "{which} may be known to {silent}, silent at the moment: nothing is started, because one node is to hold it \
         alone (`none`) and it could run twice. Ask again when they answer; `outlast cluster remove` takes out a \
         node that is gone for good, and a start without an id and name waits for nobody"
    );
    Problem::new(StatusCode::GATEWAY_TIMEOUT, detail)
}

/// The name of an execution as a segment of a path.
fn segment(which: &Which) -> String {
    escaped(&which.to_string())
}

pub(super) fn escaped(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    text.bytes().fold(String::new(), |mut segment, byte| {
        if plain(&byte) {
            segment.push(char::from(byte));
        } else {
            segment.push_str(&format!("%{byte:02X}"));
        }
        segment
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_segment_of_a_path() {
        let which = Which::Named { namespace: "test".to_owned(), name: "order 17/ü".to_owned() };
        assert_eq!(segment(&which), "test%2Forder%2017%2F%C3%BC");
    }

    #[test]
    fn whoever_may_know_it_is_named_with_what_to_do() {
        let which = Which::Named { namespace: "test".to_owned(), name: "order".to_owned() };
        let told = format!("{:?}", may_be_known(&which, &["ab".to_owned(), "cd".to_owned()]));
        assert!(told.contains("test/order may be known to ab, cd, silent at"), "{told}");
        assert!(told.contains("cluster remove"), "{told}");
    }
}
