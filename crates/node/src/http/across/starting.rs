//! Starting anywhere: whoever knows an execution of that id or name answers; whoever cannot take it
//! lets another one take it.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use outlast_engine::{Ask, Reply, Which};
use outlast_expressions::{Value, value};

use super::{Api, CHANGE_TIME_MAX, Problem, Whole, no_answer, one, response};
use crate::relay::{Relay, Unanswered};

/// Starts an execution, here if possible.
pub(super) async fn answer(
    api: &Arc<Api>,
    relay: &Relay,
    mut whole: Whole,
    next: Next,
) -> Result<Response, Problem> {
    let Ok(body) = value::parse(&whole.body) else { return Ok(next.run(whole.request()).await) };
    match named(&body) {
        Some(which) => {
            let here = api.node.ask(Ask::Show(which.clone())).await?;
            let known = !matches!(here, Reply::Refused(_));
            // Asking again elsewhere starts nothing twice.
            if !known && let Ok(holder) = one::find(relay, &segment(&which)).await {
                let asked = relay.ask(holder, whole.passed(), CHANGE_TIME_MAX).await;
                return asked.map(response).map_err(|unanswered| no_answer(holder, unanswered));
            }
        }
        None => whole.body = with_id(api, &body).into(),
    }
    let here = next.run(whole.request()).await;
    let cannot =
        [StatusCode::NOT_FOUND, StatusCode::INSUFFICIENT_STORAGE, StatusCode::SERVICE_UNAVAILABLE];
    if !cannot.contains(&here.status()) {
        return Ok(here);
    }
    for (node, _) in relay.others().into_iter().filter(|(_, connected)| *connected) {
        match relay.ask(node, whole.passed(), CHANGE_TIME_MAX).await {
            Ok(answer) if !cannot.iter().any(|status| *status == answer.status) => {
                return Ok(response(answer));
            }
            Ok(_) | Err(Unanswered::Unsent) => {}
            // It may have been started there, and is not to be started twice.
            Err(unanswered) => return Err(no_answer(node, unanswered)),
        }
    }
    Ok(here)
}

/// The execution that the starter names.
fn named(body: &Value) -> Option<Which> {
    let text = |name: &str| value::get(body, name).and_then(value::as_str);
    if let Some(name) = text("name") {
        let namespace = text("namespace")?.to_owned();
        return Some(Which::Named { namespace, name: name.to_owned() });
    }
    text("id")?.parse().ok().map(Which::Id)
}

/// The name of an execution as a segment of a path.
fn segment(which: &Which) -> String {
    let text = which.to_string();
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

/// The same with an id, so that whoever starts it, it is one.
fn with_id(api: &Api, body: &Value) -> Vec<u8> {
    let id = value::string(&api.node.new_id().to_string());
    let members = value::members(body).filter(|(name, _)| *name != "id");
    let members = members.map(|(name, value)| (name, value.clone()));
    value::to_text(&value::object(members.chain([("id", id)]))).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_segment_of_a_path() {
        let which = Which::Named { namespace: "test".to_owned(), name: "order 17/ü".to_owned() };
        assert_eq!(segment(&which), "test%2Forder%2017%2F%C3%BC");
    }
}
