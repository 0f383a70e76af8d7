//! `outlast history`: what happened in an execution, line by line, and as it happens.

use anyhow::Context as _;
use reqwest::Response;
use serde_json::Value as Json;

use crate::client::{Client, Connection};
use crate::exit::Exit;
use crate::table;

/// How many lines are asked for at once.
const PAGE: usize = 1000;
/// A line of the stream that is longer is no line of a history.
const LINE_BYTES_MAX: usize = 32 << 20;

/// Show what happened in an execution
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast history orders/order-17                what happened so far: time, what, task
  outlast history orders/order-17 --follow       and what happens from now on, until its end")]
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
    let mut from: Option<String> = None;
    loop {
        let mut query = vec![("limit", PAGE.to_string())];
        query.extend(from.take().map(|from| ("from", from)));
        let page = client.get(&path, &query).await?;
        for line in page.get("lines").and_then(Json::as_array).into_iter().flatten() {
            print_line(line, arguments.connection.json);
        }
        from = page.get("next").filter(|next| !next.is_null()).map(ToString::to_string);
        if from.is_none() {
            return Ok(());
        }
    }
}

/// Reads the stream of events until the node ends it with the execution.
async fn follow(client: &Client, arguments: &Arguments) -> anyhow::Result<()> {
    let path = ["v1", "executions", &arguments.execution, "events"];
    let mut events = Events::new(client.get_response(&path, &[]).await?);
    while let Some(event) = events.next().await? {
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
            match self.response.chunk().await.context("the stream of events broke off")? {
                Some(chunk) => self.pending.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }
}

fn print_line(line: &Json, json: bool) {
    let said = if json { line.to_string() } else { describe(line) };
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
    fn a_line_tells_time_what_and_task() {
        let line = json!({"time": "2026-01-01T00:00:00Z", "what": "taskCompleted", "task": "pay"});
        assert_eq!(describe(&line), "2026-01-01T00:00:00Z  task completed        pay");
        let line =
            json!({"time": "T", "what": "taskRetried", "task": "a", "index": 3, "detail": "x"});
        assert_eq!(describe(&line), "T  task retried          a[3]  x");
    }
}
