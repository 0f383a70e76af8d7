//! `outlast history`: what happened in an execution, line by line, and as it happens.

use std::time::Duration;

use anyhow::Context as _;
use reqwest::Response;
use serde_json::Value as Json;
use tokio::time::timeout;

use crate::client::{Client, Connection};
use crate::exit::Exit;
use crate::table;

/// How many records are asked for at once.
const PAGE: usize = 1000;
/// How long a stream may be silent: a node that has nothing to tell says three times as often that it is there.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// A line of the stream that is longer is no line of a history.
const LINE_BYTES_MAX: usize = 32 << 20;

/// Show what happened in an execution
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast history orders/order-17                what happened so far: time, what, task
  outlast history orders/order-17 --follow       and what happens from now on, until its end
  outlast history orders/order-17 --json         for programs

With --json every line is a JSON object of its own (JSON Lines), also without --follow.")]
pub(crate) struct Arguments {
    /// The execution: its id, or namespace/name
    execution: String,
    /// Go on with what happens, until the execution ends
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Prints lines; with `--json` one object a line.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    arguments.connection.talk(async |client| {
        if arguments.follow {
            follow(&client, arguments).await
        } else {
            print_all(&client, arguments).await
        }
    })?;
    Ok(Exit::Completed)
}

async fn print_all(client: &Client, arguments: &Arguments) -> anyhow::Result<()> {
    let path = ["v1", "executions", &arguments.execution, "history"];
    let (mut from, mut recorded) = (None, None);
    loop {
        let mut query = vec![("limit", PAGE.to_string())];
        query.extend(from.map(|from: u64| ("from", from.to_string())));
        let page = client.get(&path, &query).await?;
        for line in page.get("lines").and_then(Json::as_array).into_iter().flatten() {
            print_line(line, arguments.connection.json);
        }
        from = next_of(&page, &mut recorded);
        if from.is_none() {
            return Ok(());
        }
    }
}

/// Where the next page begins, if it has something of what was recorded when the first one was asked
/// for: an execution may go on faster than it is read.
fn next_of(page: &Json, recorded: &mut Option<u64>) -> Option<u64> {
    let number = |name| page.get(name).and_then(Json::as_u64);
    let recorded = *recorded.get_or_insert_with(|| number("recorded").unwrap_or(u64::MAX));
    number("next").filter(|next| *next <= recorded)
}

/// Reads the stream of events until the node ends it with the execution.
async fn follow(client: &Client, arguments: &Arguments) -> anyhow::Result<()> {
    let path = ["v1", "executions", &arguments.execution, "events"];
    let mut events = Events::new(client.get_response(&path, &[]).await?);
    let advice = || {
        let execution = &arguments.execution;
        format!(
            "nobody tells any more what happens; the execution is not affected: `outlast history \
             {execution} --follow` asks again, and --node URL another node of its cluster"
        )
    };
    while let Some(event) = events.next().await.with_context(advice)? {
        print_line(&event, arguments.connection.json);
    }
    Ok(())
}

/// The data of server-sent events, one JSON value each.
pub(crate) struct Events {
    response: Response,
    pending: Vec<u8>,
}

impl Events {
    /// The events of an answer.
    pub(crate) const fn new(response: Response) -> Self {
        Self { response, pending: Vec::new() }
    }

    /// The next one, or nothing at the end.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Json>> {
        loop {
            while let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                if let Some(data) = line.strip_prefix(b"data:") {
                    return Ok(Some(
                        serde_json::from_slice(data).context("an event that is no JSON")?,
                    ));
                }
            }
            anyhow::ensure!(
                self.pending.len() <= LINE_BYTES_MAX,
                "a line of the stream is too long"
            );
            let chunk = timeout(SILENCE_MAX, self.response.chunk()).await;
            let chunk = chunk.with_context(|| {
                format!("nothing was heard for {SILENCE_MAX:?}: the node is stopped or hangs")
            })?;
            match chunk.context("the stream of events broke off")? {
                Some(chunk) => self.pending.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }
}

fn print_line(line: &Json, json: bool) {
    let said = match json {
        true => table::harmless_json(&line.to_string()),
        false => table::harmless(&describe(line)),
    };
    table::print(&(said + "\n"));
}

/// One line for people: time, what, task, and what else there is to say.
fn describe(line: &Json) -> String {
    let text = |name| table::text(line, name);
    let mut said = format!("{}  {:<20}", text("time"), words(&text("what")));
    if let Some(task) = line.get("task").and_then(Json::as_str) {
        said.push_str(&format!("  {task}"));
    }
    if let Some(index) = line.get("index").and_then(Json::as_u64) {
        said.push_str(&format!("[{index}]"));
    }
    if let Some(detail) = line.get("detail").and_then(Json::as_str) {
        said.push_str(&format!("  {detail}"));
    }
    if line.get("lost").and_then(Json::as_bool) == Some(true) {
        said.push_str("  (of a run that does not count)");
    }
    said.trim_end().to_owned()
}

/// `taskCompleted` as people write it.
fn words(name: &str) -> String {
    let spaced = name.chars().map(|letter| match letter.is_ascii_uppercase() {
        true => format!(" {}", letter.to_ascii_lowercase()),
        false => letter.to_string(),
    });
    spaced.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reading_ends_with_what_was_there_at_first() {
        let mut recorded = None;
        let page = |next: Json, recorded| json!({ "next": next, "recorded": recorded });
        assert_eq!(next_of(&page(json!(10), 20), &mut recorded), Some(10));
        assert_eq!(next_of(&page(json!(20), 40), &mut recorded), Some(20));
        assert_eq!(next_of(&page(json!(21), 60), &mut recorded), None);
        assert_eq!(next_of(&page(Json::Null, 60), &mut recorded), None);
    }

    #[test]
    fn a_line_tells_time_what_and_task() {
        let line = json!({"time": "2026-01-01T00:00:00Z", "what": "taskCompleted", "task": "pay"});
        assert_eq!(describe(&line), "2026-01-01T00:00:00Z  task completed        pay");
        let line =
            json!({"time": "T", "what": "taskRetried", "task": "a", "index": 3, "detail": "x"});
        assert_eq!(describe(&line), "T  task retried          a[3]  x");
        let line = json!({"time": "T", "what": "undone", "task": "a", "lost": true});
        assert_eq!(describe(&line), "T  undone                a  (of a run that does not count)");
    }
}
