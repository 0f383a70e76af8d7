//! Following an execution that other nodes hold: the history of one of them is read on until its end.
//!
//! A stream would have to be passed on message by message, over a connection that may break without a
//! word. Pages that are asked for again are bounded like any other question, and the one who asks knows
//! when nobody answers any more: then the stream breaks off, as it does when the node that is asked dies.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use outlast_lineage::NodeId;
use serde_json::Value as Json;

use super::super::{story, watch};
use super::one::{find, later_elsewhere, unknown};
use super::{Api, CHANGE_TIME_MAX, Problem, Whole, look};
use crate::relay::Relay;

/// How many records are asked for at once.
const PAGE: usize = 50;
/// How long to wait when there was nothing new.
const PAUSE: Duration = Duration::from_millis(200);

/// The node whose history is read no longer tells it.
#[derive(Debug, thiserror::Error)]
#[error("the node that holds the execution does not answer any more")]
struct BrokenOff;

/// Answers with everything that happens in an execution, wherever it is held.
pub(super) async fn answer(
    api: &Arc<Api>,
    relay: &Relay,
    execution: &str,
    whole: Whole,
    next: Next,
) -> Result<Response, Problem> {
    if let Some(holder) = later_elsewhere(api, relay, execution).await? {
        return Ok(follow(relay, holder, execution));
    }
    let here = next.run(whole.request()).await;
    if here.status() != StatusCode::NOT_FOUND {
        return Ok(here);
    }
    match find(relay, execution).await {
        Ok(holder) => Ok(follow(relay, holder, execution)),
        Err(silent) => Err(unknown(execution, &silent)),
    }
}

fn follow(relay: &Relay, holder: NodeId, execution: &str) -> Response {
    let (relay, execution) = (relay.clone(), execution.to_owned());
    let reader = Reader { relay, holder, execution, pages: Pages::default() };
    let events = stream::try_unfold(reader, async |mut reader| {
        let Some(line) = reader.next().await? else { return Ok::<_, BrokenOff>(None) };
        let event = Event::default().json_data(line).map_err(|_| BrokenOff)?;
        Ok(Some((event, reader)))
    });
    Sse::new(events).keep_alive(watch::keep_alive()).into_response()
}

/// Reads the history that another node has.
struct Reader {
    relay: Relay,
    holder: NodeId,
    /// As it stands in the path.
    execution: String,
    pages: Pages,
}

impl Reader {
    /// The next line, or nothing after the end.
    async fn next(&mut self) -> Result<Option<Json>, BrokenOff> {
        loop {
            if let Some(line) = self.pages.lines.pop_front() {
                return Ok(Some(line));
            }
            match self.read().await? {
                Read::More => {}
                Read::Nothing if self.pages.ended => return Ok(None),
                Read::Nothing | Read::Busy => tokio::time::sleep(PAUSE).await,
                Read::Gone => return Ok(None),
            }
        }
    }

    async fn read(&mut self) -> Result<Read, BrokenOff> {
        let (execution, from) = (&self.execution, self.pages.from);
        let path = format!("/v1/executions/{execution}/history?from={from}&limit={PAGE}");
        let asked = self.relay.ask(self.holder, look(path), CHANGE_TIME_MAX).await;
        let answer = asked.map_err(|_| BrokenOff)?;
        match StatusCode::from_u16(answer.status) {
            Ok(StatusCode::OK) => {
                let page = serde_json::from_slice(&answer.body).map_err(|_| BrokenOff)?;
                Ok(if self.pages.turn(page) { Read::More } else { Read::Nothing })
            }
            Ok(StatusCode::NOT_FOUND) => Ok(Read::Gone),
            Ok(StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT) => Ok(Read::Busy),
            _ => Err(BrokenOff),
        }
    }
}

/// What became of asking for a page.
enum Read {
    /// There was something, or there is more to read.
    More,
    /// There is nothing new.
    Nothing,
    /// The other node has more to do than it can.
    Busy,
    /// The execution was deleted.
    Gone,
}

/// How far a history was read.
#[derive(Default)]
struct Pages {
    /// The first record that was not read.
    from: u64,
    /// What was read and not yet told.
    lines: VecDeque<Json>,
    /// Whether the execution is at its end after what was read.
    ended: bool,
}

impl Pages {
    /// Takes the next page. Says whether there was anything in it, or is anything after it.
    fn turn(&mut self, mut page: Json) -> bool {
        let next = page.get("next").and_then(Json::as_u64);
        let Some(Json::Array(lines)) = page.get_mut("lines").map(Json::take) else { return false };
        for line in &lines {
            let position = line.get("position").and_then(Json::as_u64);
            self.from = self.from.max(position.map_or(0, |position| position + 1));
            let what = line.get("what").and_then(Json::as_str).unwrap_or_default();
            self.ended = story::is_ended_by(self.ended, what);
        }
        self.from = self.from.max(next.unwrap_or(0));
        let any = !lines.is_empty() || next.is_some();
        self.lines.extend(lines);
        any
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(position: u64, what: &str) -> Json {
        json!({ "position": position, "what": what })
    }

    #[test]
    fn every_record_is_read_once() {
        let mut pages = Pages::default();
        assert!(pages.turn(json!({ "lines": [line(3, "started"), line(3, "taskStarted")] })));
        assert_eq!((pages.from, pages.lines.len()), (4, 2));
        assert!(!pages.turn(json!({ "lines": [], "next": null })));
        // Records of which there is nothing to tell are passed over.
        assert!(pages.turn(json!({ "lines": [], "next": 60 })));
        assert_eq!(pages.from, 60);
    }

    #[test]
    fn what_is_tried_again_after_its_end_goes_on() {
        let mut pages = Pages::default();
        pages.turn(json!({ "lines": [line(3, "ended")] }));
        assert!(pages.ended);
        pages.turn(json!({ "lines": [line(4, "retryRequested"), line(4, "taskStarted")] }));
        assert!(!pages.ended);
    }
}
