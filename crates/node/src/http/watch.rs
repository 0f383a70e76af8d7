//! Looking on: the history of an execution, its drawing, and what happens as it happens.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use outlast_engine::{Ask, Position, Reply, Report, Which};
use outlast_expressions::value;
use outlast_lineage::ExecutionId;
use outlast_workflow::drawing::{self, Progress};
use outlast_workflow::{Program, TaskId};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use utoipa::IntoParams;

use super::payload::{Parameters, which};
use super::{Api, Problem, story};

/// How many records a page of a history covers, unless the request says less.
const PAGE: usize = 1000;
/// How many lines a page has, give or take those of one reading.
const LINES: usize = 10_000;
/// How many records are read at once. One of a loop without effects has a thousand lines.
const READ: usize = 50;
/// Of how many executions a reader of everything knows the program.
const KNOWN_MAX: usize = 1024;
/// How often a silent stream shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Which part of a history.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    /// From this record on: where the page before ended.
    from: Option<u64>,
    /// At most this many records.
    limit: Option<usize>,
}

/// What happened in an execution, a page at a time.
#[utoipa::path(
    get, path = "/v1/executions/{execution}/history", tag = "executions",
    params(("execution" = String, Path), Part),
    responses((status = 200, body = story::History), (status = 404, body = Problem))
)]
pub(super) async fn history(
    State(api): State<Arc<Api>>,
    Path(execution): Path<String>,
    Parameters(Part { from, limit }): Parameters<Part>,
) -> Result<Json<story::History>, Problem> {
    let (execution, program) = api.program_of(&which(&execution)?).await?;
    let recorded = api.node.journal().durable.0;
    let mut left = limit.unwrap_or(PAGE).clamp(1, PAGE);
    let mut next = Some(from.unwrap_or(0));
    let mut lines = Vec::new();
    while let Some(from) = next
        && 0 < left
        && lines.len() < LINES
    {
        let wanted = left.min(READ);
        let records = api.node.history(execution, Position(from), wanted).await?;
        left -= records.len();
        let is_full = records.len() == wanted;
        next = records.last().filter(|_| is_full).map(|last| last.position.0 + 1);
        lines.extend(records.iter().flat_map(|record| story::lines(record, Some(&program))));
    }
    let recorded = next.map(|_| recorded);
    Ok(Json(story::History { lines, next, recorded }))
}

/// How to draw.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Style {
    /// svg (the default) or mermaid.
    format: Option<String>,
}

/// The workflow drawn with the state of each task.
#[utoipa::path(
    get, path = "/v1/executions/{execution}/graph", tag = "executions",
    params(("execution" = String, Path), Style),
    responses(
        (status = 200, description = "image/svg+xml, or text/vnd.mermaid", body = String),
        (status = 404, body = Problem),
    )
)]
pub(super) async fn graph(
    State(api): State<Arc<Api>>,
    Path(execution): Path<String>,
    Parameters(Style { format }): Parameters<Style>,
) -> Result<Response, Problem> {
    let (execution, program) = api.program_of(&which(&execution)?).await?;
    let progress = progress(&api, execution).await?;
    let view = |task: TaskId| progress.view(&program, task);
    match format.as_deref().unwrap_or("svg") {
        "svg" => Ok(drawn("image/svg+xml", drawing::svg(&program, &view))),
        "mermaid" => Ok(drawn("text/vnd.mermaid", drawing::mermaid(&program, &view))),
        other => Err(Problem::invalid(format!("{other}: there are svg and mermaid"))),
    }
}

fn drawn(kind: &'static str, drawing: String) -> Response {
    ([(header::CONTENT_TYPE, kind)], drawing).into_response()
}

async fn progress(api: &Api, execution: ExecutionId) -> Result<Progress, Problem> {
    let mut progress = Progress::default();
    let mut from = Position(0);
    loop {
        let records = api.node.history(execution, from, READ).await?;
        for happening in records.iter().flat_map(|record| &record.happenings) {
            progress.record(happening);
        }
        match records.last() {
            Some(last) if records.len() == READ => from = last.position.next(),
            _ => return Ok(progress),
        }
    }
}

/// What happened in an execution and what happens, until its end is decided on, as server-sent events.
#[utoipa::path(
    get, path = "/v1/executions/{execution}/events", tag = "executions",
    params(("execution" = String, Path)),
    responses((status = 200, description = "text/event-stream of lines", body = story::Line))
)]
pub(super) async fn follow(
    State(api): State<Arc<Api>>,
    Path(execution): Path<String>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let reports = api.node.subscribe();
    let (execution, program) = api.program_of(&which(&execution)?).await?;
    let from = Position(0);
    let waiting = VecDeque::new();
    let follower = Follower { api, execution, program, reports, from, waiting, ended: false };
    let events = stream::unfold(follower, async |mut follower| {
        let event = follower.next().await?;
        Some((Ok(event), follower))
    });
    Ok(Sse::new(events).keep_alive(keep_alive()))
}

/// How a silent stream shows that it is alive.
pub(super) fn keep_alive() -> KeepAlive {
    KeepAlive::new().interval(KEEP_ALIVE)
}

/// Reads the history again whenever a report says that there is more: so nothing is missed, however
/// slow the reader is.
struct Follower {
    api: Arc<Api>,
    execution: ExecutionId,
    program: Arc<Program>,
    reports: Receiver<Arc<Report>>,
    from: Position,
    waiting: VecDeque<Event>,
    ended: bool,
}

impl Follower {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            let read = self.read().await?;
            if !self.waiting.is_empty() {
                continue;
            }
            if self.ended && self.is_over().await {
                return None;
            }
            if read < READ && !self.wait().await {
                return None;
            }
        }
    }

    /// Reads on, and says how many records there were.
    async fn read(&mut self) -> Option<usize> {
        let records = self.api.node.history(self.execution, self.from, READ).await.ok()?;
        for record in &records {
            self.from = record.position.next();
            for happening in &record.happenings {
                self.ended = story::is_ended(self.ended, happening);
            }
            let lines = story::lines(record, Some(&self.program));
            self.waiting.extend(lines.filter_map(|line| Event::default().json_data(line).ok()));
        }
        Some(records.len())
    }

    /// Whether the end that was told is one: what several nodes hold may come to ends that do not count.
    async fn is_over(&self) -> bool {
        let ask = Ask::Show(Which::Id(self.execution));
        match self.api.node.ask(ask).await {
            Ok(Reply::Shown(detail)) => detail.summary.condition.is_end(),
            _ => true,
        }
    }

    /// Waits until there may be more. Says whether there ever will be.
    async fn wait(&mut self) -> bool {
        loop {
            match self.reports.recv().await {
                Ok(report) => match &*report {
                    Report::Happened { execution, .. }
                    | Report::ConditionChanged { execution, .. }
                        if *execution == self.execution =>
                    {
                        return true;
                    }
                    _ => {}
                },
                Err(RecvError::Lagged(_)) => return true,
                Err(RecvError::Closed) => return false,
            }
        }
    }
}

/// Everything that happens on the node from now on, as server-sent events: `happened`, `condition`,
/// `custody`, `published`, and `missed` if the reader is too slow.
#[utoipa::path(
    get, path = "/v1/events", tag = "events",
    responses((status = 200, description = "text/event-stream", body = Object))
)]
pub(super) async fn all(
    State(api): State<Arc<Api>>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let listener = Listener { reports: api.node.subscribe(), api, programs: BTreeMap::new() };
    let events = stream::unfold(listener, async |mut listener| {
        let event = listener.next().await?;
        Some((Ok(event), listener))
    });
    Sse::new(events).keep_alive(keep_alive())
}

/// Hears everything, and knows the names of the tasks it is about.
struct Listener {
    api: Arc<Api>,
    reports: Receiver<Arc<Report>>,
    /// The programs of executions heard of; nothing for one that is gone.
    programs: BTreeMap<ExecutionId, Option<Arc<Program>>>,
}

impl Listener {
    async fn next(&mut self) -> Option<Event> {
        let event = match self.reports.recv().await {
            Ok(report) => {
                let program = self.program_of(&report).await;
                told(&report, program.as_deref())
            }
            Err(RecvError::Lagged(missed)) => {
                Event::default().event("missed").json_data(json!({ "missed": missed }))
            }
            Err(RecvError::Closed) => return None,
        };
        Some(event.unwrap_or_default())
    }

    async fn program_of(&mut self, report: &Report) -> Option<Arc<Program>> {
        let Report::Happened { execution, .. } = report else { return None };
        if let Some(known) = self.programs.get(execution) {
            return known.clone();
        }
        let found = self.api.program_of(&Which::Id(*execution)).await;
        let program = found.ok().map(|(_, program)| program);
        if KNOWN_MAX <= self.programs.len() {
            self.programs.pop_first();
        }
        self.programs.insert(*execution, program.clone());
        program
    }
}

fn told(report: &Report, program: Option<&Program>) -> Result<Event, axum::Error> {
    let event = Event::default();
    match report {
        Report::Happened { execution, position, time, happenings } => {
            let line = crate::HistoryLine {
                position: *position,
                time: *time,
                happenings: happenings.read(),
            };
            let lines: Vec<_> = story::lines(&line, program).collect();
            let data = json!({ "execution": execution.to_string(), "lines": lines });
            event.event("happened").json_data(data)
        }
        Report::ConditionChanged { execution, condition } => event.event("condition").json_data(
            json!({ "execution": execution.to_string(), "condition": condition.word() }),
        ),
        Report::Custody { execution, situation } => event.event("custody").json_data(
            json!({ "execution": execution.to_string(), "situation": situation.word() }),
        ),
        Report::Member { node, state } => event
            .event("member")
            .json_data(json!({ "node": format!("{:016x}", node.0), "state": state })),
        Report::Published { number, event: published } => event
            .event("published")
            .json_data(json!({ "number": number, "event": value::to_json(published) })),
    }
}
