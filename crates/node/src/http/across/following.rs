//! Following an execution that other nodes hold: the history of one of them is read on until its end.
//!
//! A stream would have to be passed on message by message, over a connection that may break without a
//! word. Pages that are asked for again are bounded like any other question, and the one who asks knows
//! when nobody answers any more: then another holder's history is read on, from where the first one's was
//! left. If there is none, the stream breaks off, as it does when the node that is asked dies.
//!
//! A holder that was away is given the state that the others came to, and its history says so instead of how
//! they did (`adopted`): it has a gap. Whoever was there wrote that down, so another holder's history is
//! read on then, too. The gap is told if nobody who answers has a history without one.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use outlast_engine::Condition;
use outlast_lineage::NodeId;
use serde_json::Value as Json;
use tokio::time::Instant;

use super::super::{story, watch};
use super::copies::{find, is_connected, later_elsewhere, teller_besides};
use super::{Api, CHANGE_TIME_MAX, Problem, Whole, look};
use crate::relay::Relay;

/// How many records are asked for at once.
const PAGE: usize = 50;
/// How many of the lines that were told are remembered. Where two holders' histories part, they do so at
/// their ends: what the one that was lost had not yet told the others.
const REMEMBERED: usize = 1000;
/// How long to wait when there was nothing new.
const PAUSE: Duration = Duration::from_millis(200);

/// Nobody tells the history any more.
#[derive(Debug, thiserror::Error)]
#[error("no node that holds the execution answers any more")]
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
        Ok(found) => Ok(follow(relay, found.teller, execution)),
        Err(missing) => Err(missing.problem(execution)),
    }
}

fn follow(relay: &Relay, holder: NodeId, execution: &str) -> Response {
    let (relay, execution) = (relay.clone(), execution.to_owned());
    let gapped = BTreeSet::new();
    let reader =
        Reader { relay, holder, execution, pages: Pages::default(), gapped, told_by: None };
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
    /// Holders whose histories have gaps. If one of them is read all the same, its gaps are told.
    gapped: BTreeSet<NodeId>,
    /// Who told the last line.
    told_by: Option<NodeId>,
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
                Read::Nothing if self.pages.ended => match self.is_over().await {
                    Some(true) => return Ok(None),
                    Some(false) => tokio::time::sleep(PAUSE).await,
                    None => self.ask_another().await?,
                },
                Read::Nothing | Read::Busy => tokio::time::sleep(PAUSE).await,
                Read::Gone => return Ok(None),
                Read::Silent => self.ask_another().await?,
                Read::Gap => self.pass_gap().await?,
            }
        }
    }

    /// Reads on at another node that holds the execution.
    async fn ask_another(&mut self) -> Result<(), BrokenOff> {
        let teller = match self.teller_without_gap().await {
            Some(teller) => teller,
            None => find(&self.relay, &self.execution).await.map_err(|_| BrokenOff)?.teller,
        };
        self.read_on_at(teller);
        Ok(())
    }

    /// Reads on where the history has no gap. If that is nowhere, whoever has told all so far goes on with the
    /// gap: of the others more would be missing.
    async fn pass_gap(&mut self) -> Result<(), BrokenOff> {
        self.gapped.insert(self.holder);
        let goes_on =
            |node: &NodeId| self.gapped.contains(node) && is_connected(&self.relay, *node);
        match self.teller_without_gap().await.or_else(|| self.told_by.filter(goes_on)) {
            Some(teller) => self.read_on_at(teller),
            None => self.ask_another().await?,
        }
        Ok(())
    }

    /// Another one whose history has no gap, as far as is known.
    async fn teller_without_gap(&self) -> Option<NodeId> {
        teller_besides(&self.relay, &self.execution, &self.gapped).await
    }

    fn read_on_at(&mut self, teller: NodeId) {
        self.holder = teller;
        self.pages.begin_anew();
    }

    /// Whether the end that was told is one, as the other node sees it; nothing if it does not answer.
    async fn is_over(&self) -> Option<bool> {
        let request = look(format!("/v1/executions/{}", self.execution));
        let answer = self.relay.ask(self.holder, request, CHANGE_TIME_MAX).await.ok()?;
        let shown: Json = serde_json::from_slice(&answer.body).unwrap_or_default();
        let condition = shown.get("condition").and_then(Json::as_str).and_then(Condition::parse);
        Some(answer.status == StatusCode::NOT_FOUND || condition.is_some_and(Condition::is_end))
    }

    /// Reads on elsewhere if the holder is lost. If nobody else tells of it, the holder is waited for a while.
    async fn find_holder(&mut self) {
        let deadline = Instant::now() + CHANGE_TIME_MAX;
        while !is_connected(&self.relay, self.holder) && Instant::now() < deadline {
            if let Some(teller) = self.teller_without_gap().await {
                return self.read_on_at(teller);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn read(&mut self) -> Result<Read, BrokenOff> {
        self.find_holder().await;
        let (execution, from) = (&self.execution, self.pages.from);
        let path = format!("/v1/executions/{execution}/history?from={from}&limit={PAGE}");
        let asked = self.relay.ask(self.holder, look(path), CHANGE_TIME_MAX).await;
        let Ok(answer) = asked else { return Ok(Read::Silent) };
        match StatusCode::from_u16(answer.status) {
            Ok(StatusCode::OK) => {
                let page = serde_json::from_slice(&answer.body).map_err(|_| BrokenOff)?;
                let read = self.pages.turn(page, self.gapped.contains(&self.holder));
                if !self.pages.lines.is_empty() {
                    self.told_by = Some(self.holder);
                }
                Ok(read)
            }
            Ok(StatusCode::NOT_FOUND) => Ok(Read::Gone),
            Ok(StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT) => Ok(Read::Busy),
            _ => Err(BrokenOff),
        }
    }
}

/// What became of asking for a page.
#[derive(PartialEq, Eq, Debug)]
enum Read {
    /// There was something, or there is more to read.
    More,
    /// There is nothing new.
    Nothing,
    /// The other node has more to do than it can.
    Busy,
    /// The execution was deleted.
    Gone,
    /// The other node does not answer any more.
    Silent,
    /// The other node does not know how it came to what follows.
    Gap,
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
    /// What was read of this node's history.
    here: Told,
    /// What was told of the history of another node, until this one's goes beyond it.
    before: Option<Told>,
}

/// How much of a node's history was told.
#[derive(Default)]
struct Told {
    /// How many lines.
    count: usize,
    /// The last of them, without what each node says in its own way.
    last: VecDeque<Json>,
}

impl Told {
    fn note(&mut self, line: Json) {
        self.count += 1;
        self.last.push_back(line);
        if REMEMBERED < self.last.len() {
            self.last.pop_front();
        }
    }

    /// Whether the line at this place was told, as far as is remembered.
    fn has(&self, place: usize, line: &Json) -> bool {
        place < self.forgotten() || self.remembers(place, line)
    }

    /// Whether the line at this place was told for certain.
    fn remembers(&self, place: usize, line: &Json) -> bool {
        let place = place.checked_sub(self.forgotten());
        place.is_some_and(|place| self.last.get(place) == Some(line))
    }

    fn forgotten(&self) -> usize {
        self.count - self.last.len()
    }
}

/// A line as every node that holds the execution has it: each counts its own records, by its own clock.
fn shared(line: &Json) -> Json {
    let mut line = line.clone();
    if let Some(line) = line.as_object_mut() {
        line.remove("position");
        line.remove("time");
    }
    line
}

impl Pages {
    /// Takes the next page, up to a gap in it unless those are told.
    fn turn(&mut self, mut page: Json, tells_gaps: bool) -> Read {
        let next = page.get("next").and_then(Json::as_u64);
        let Some(Json::Array(lines)) = page.get_mut("lines").map(Json::take) else {
            return Read::Nothing;
        };
        let any = !lines.is_empty() || next.is_some();
        for line in lines {
            let what = line.get("what").and_then(Json::as_str).unwrap_or_default();
            if what == story::GAP && !tells_gaps && !self.was_told(&line) {
                return Read::Gap;
            }
            self.ended = story::is_ended_by(self.ended, what);
            let position = line.get("position").and_then(Json::as_u64);
            self.from = self.from.max(position.map_or(0, |position| position + 1));
            self.take(line);
        }
        self.from = self.from.max(next.unwrap_or(0));
        if any { Read::More } else { Read::Nothing }
    }

    /// Whether another node's history has told the line that comes next.
    fn was_told(&self, line: &Json) -> bool {
        let (place, line) = (self.here.count, shared(line));
        self.before.as_ref().is_some_and(|before| before.remembers(place, &line))
    }

    /// Tells a line, unless another node's history has told it.
    fn take(&mut self, line: Json) {
        let shared = shared(&line);
        let place = self.here.count;
        self.before.take_if(|before| !before.has(place, &shared));
        self.here.note(shared);
        if self.before.is_none() {
            self.lines.push_back(line);
        }
    }

    /// Another node's history is read, from its beginning.
    fn begin_anew(&mut self) {
        let here = std::mem::take(&mut self.here);
        // Whoever was lost before it had told all that was told has told nothing new.
        self.before.get_or_insert(here);
        self.from = 0;
        self.ended = false;
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
        let page = json!({ "lines": [line(3, "started"), line(3, "taskStarted")] });
        assert_eq!(pages.turn(page, false), Read::More);
        assert_eq!((pages.from, pages.lines.len()), (4, 2));
        assert_eq!(pages.turn(json!({ "lines": [], "next": null }), false), Read::Nothing);
        // Records of which there is nothing to tell are passed over.
        assert_eq!(pages.turn(json!({ "lines": [], "next": 60 }), false), Read::More);
        assert_eq!(pages.from, 60);
    }

    /// A page of these lines, each of a record of its own.
    fn page(words: &[&str], first: u64) -> Json {
        let lines: Vec<Json> =
            (first..).zip(words).map(|(place, what)| line(place, what)).collect();
        json!({ "lines": lines })
    }

    /// What is told of a history that begins with these lines.
    fn told(pages: &mut Pages, words: &[&str], first: u64) -> Vec<String> {
        assert_eq!(pages.turn(page(words, first), true), Read::More);
        pages.lines.drain(..).map(|line| line["what"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn another_history_goes_on_where_the_first_was_left() {
        let mut pages = Pages::default();
        assert_eq!(told(&mut pages, &["started", "a", "b"], 3).len(), 3);
        pages.begin_anew();
        assert_eq!(pages.from, 0);
        assert_eq!(told(&mut pages, &["started", "a", "b", "c"], 70), ["c"]);
        assert_eq!(told(&mut pages, &["d"], 80), ["d"]);
        // One that is lost before it has caught up has told nothing.
        pages.begin_anew();
        assert!(told(&mut pages, &["started", "a"], 5).is_empty());
        pages.begin_anew();
        assert!(told(&mut pages, &["started", "a", "b", "c", "d"], 9).is_empty());
        assert_eq!(told(&mut pages, &["e"], 20), ["e"]);
    }

    #[test]
    fn what_another_history_has_instead_is_told() {
        let mut pages = Pages::default();
        told(&mut pages, &["started", "a", "b"], 3);
        pages.begin_anew();
        assert_eq!(told(&mut pages, &["started", "a", "c", "b"], 3), ["c", "b"]);
    }

    #[test]
    fn what_a_holder_does_not_know_another_one_tells() {
        let mut pages = Pages::default();
        let gapped = ["started", "a", "adopted", "d"];
        assert_eq!(pages.turn(page(&gapped, 3), false), Read::Gap);
        assert_eq!(pages.lines.drain(..).count(), 2, "what was before it is told");
        pages.begin_anew();
        assert_eq!(told(&mut pages, &["started", "a", "b", "c", "d"], 70), ["b", "c", "d"]);
    }

    #[test]
    fn a_gap_that_all_have_is_told_by_whoever_has_told_all_before() {
        let mut pages = Pages::default();
        assert_eq!(pages.turn(page(&["started", "a", "adopted", "d"], 3), false), Read::Gap);
        assert_eq!(pages.lines.drain(..).count(), 2);
        pages.begin_anew();
        // One that knows less tells nothing, and nothing is forgotten for it.
        assert_eq!(pages.turn(page(&["adopted", "d"], 5), false), Read::Gap);
        assert!(pages.lines.is_empty());
        pages.begin_anew();
        assert_eq!(told(&mut pages, &["started", "a", "adopted", "d"], 3), ["adopted", "d"]);
        // Another one that has told the same is read on without a word of it.
        pages.begin_anew();
        let same = page(&["started", "a", "adopted", "d", "e"], 70);
        assert_eq!(pages.turn(same, false), Read::More);
        assert_eq!(pages.lines.len(), 1);
    }

    #[test]
    fn of_a_long_history_the_end_is_compared() {
        let mut pages = Pages::default();
        let words = vec!["again"; 3 * REMEMBERED];
        told(&mut pages, &words, 0);
        assert_eq!(pages.here.last.len(), REMEMBERED);
        pages.begin_anew();
        assert!(told(&mut pages, &words, 0).is_empty());
        assert_eq!(told(&mut pages, &["ended"], 9000), ["ended"]);
        assert!(pages.ended);
    }

    #[test]
    fn what_is_tried_again_after_its_end_goes_on() {
        let mut pages = Pages::default();
        pages.turn(json!({ "lines": [line(3, "ended")] }), false);
        assert!(pages.ended);
        pages.turn(page(&["retryRequested", "taskStarted"], 4), false);
        assert!(!pages.ended);
    }
}
