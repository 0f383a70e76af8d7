//! Talking to a node over its HTTP API: where it is, who asks, and errors that say what to do next.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use outlast_node::http::read_token;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde_json::Value as Json;

use crate::directories;
use crate::exit::{Exit, Failure};
use crate::patience::{PATIENCE, Patience, Silent};
use crate::table;

/// Where a node listens unless it is told otherwise.
const DEFAULT_NODE: &str = "http://127.0.0.1:7180";
/// How long a connection may take to stand; a node that is there answers at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a node says that it is there to whoever waits for an end. Several nodes may pass the wait on, so it is
/// not asked for more often.
const SIGN_WITHIN: Duration = Duration::from_secs(10);
/// What is asked for changes nothing, or was done already.
const LOOK: bool = false;
/// How the cause begins if what answers does not speak HTTP.
const NO_HTTP: &str = "invalid HTTP";

/// Which node, and who asks.
#[derive(clap::Args, Clone)]
pub(crate) struct Connection {
    /// The address of the node [env: OUTLAST_NODE] [default: http://127.0.0.1:7180]
    #[arg(long, value_name = "URL")]
    node: Option<String>,
    /// The token that the node wants to see [env: OUTLAST_TOKEN] [default: the one in the data
    /// directory of a node on this machine, which OUTLAST_DATA names]
    // One of 64 tokens begins with a hyphen.
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    token: Option<String>,
    /// Print the node's answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Connection {
    /// Runs a conversation with the node to its end.
    pub(crate) fn talk<T>(
        &self,
        conversation: impl AsyncFnOnce(Client) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the runtime")?;
        runtime.block_on(conversation(Client::new(self)?))
    }

    /// Has the node change an execution, and says what becomes of that.
    pub(crate) fn change(
        &self,
        execution: &str,
        change: &str,
        body: &Json,
        said: &str,
    ) -> anyhow::Result<Exit> {
        let path = ["v1", "executions", execution, change];
        let answer = self.talk(async |client| client.post(&path, body).await)?;
        if self.json {
            table::print_json(&answer);
            return Ok(Exit::Completed);
        }
        tell!("{execution} {said}");
        if let Some(provisional) = answer.get("provisional").and_then(Json::as_str) {
            tell!("but {provisional}");
        }
        Ok(Exit::Completed)
    }

    /// The address given, or where a node listens unless it is told otherwise.
    fn address(&self) -> Result<Url, Failure> {
        let given = self.node.clone().or_else(|| variable("OUTLAST_NODE"));
        parse_address(given.as_deref().unwrap_or(DEFAULT_NODE))
    }

    /// The token given, or that of a node on this machine.
    fn token(&self) -> Result<Option<String>, Failure> {
        let flag = self.token.clone().map(|token| ("--token", token));
        let given = flag.or_else(|| Some(("OUTLAST_TOKEN", variable("OUTLAST_TOKEN")?)));
        if let Some((by, token)) = given {
            return check_token(by, &token).map(Some);
        }
        let kept = data_directory(None).ok().and_then(|directory| read_token(&directory).ok());
        Ok(kept.filter(|token| can_be_shown(token)))
    }
}

/// What a node did not do, for whoever goes on by what kind of refusal it is.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    /// The kind of the problem.
    kind: String,
    reason: String,
}

impl Refused {
    /// Whether the node says that it is there, and has no answer yet.
    fn is_no_answer_yet(&self) -> bool {
        self.kind == "urn:outlast:problem:no-answer-yet"
    }

    /// Whether the node says that it will be otherwise in a moment, by itself.
    pub(crate) fn may_pass(&self) -> bool {
        ["urn:outlast:problem:not-yet", "urn:outlast:problem:leaderless"].contains(&&*self.kind)
    }
}

/// A node that can be asked.
pub(crate) struct Client {
    http: reqwest::Client,
    node: Url,
    token: Option<String>,
    patience: Patience,
}

impl Client {
    fn new(connection: &Connection) -> anyhow::Result<Self> {
        Self::open(connection.address()?, connection.token()?)
    }

    fn open(node: Url, token: Option<String>) -> anyhow::Result<Self> {
        // Whoever installed a provider first has installed the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .no_proxy()
            .build()
            .context("cannot set up the connection to the node")?;
        Ok(Self { http, node, token, patience: PATIENCE })
    }

    /// A node without a token at an address of this machine.
    pub(crate) fn at(address: SocketAddr) -> anyhow::Result<Self> {
        Self::open(parse_address(&address.to_string())?, None)
    }

    /// Asks for something; nothing that is not said is sent.
    pub(crate) async fn get(
        &self,
        path: &[&str],
        query: &[(&str, String)],
    ) -> anyhow::Result<Json> {
        self.read_json(self.get_response(path, query).await?).await
    }

    /// Asks for something that may come in a long time. The node says on the same connection that it is there: it
    /// may have none to spare for whoever asks that beside it, because others wait on all of them.
    pub(crate) async fn get_late(&self, path: &[&str]) -> anyhow::Result<Json> {
        let Patience { quiet, silence } = self.patience;
        let patience = Patience { quiet: quiet + SIGN_WITHIN, silence };
        let prefer = format!("wait={}", SIGN_WITHIN.as_secs());
        loop {
            let request = self.request(Method::GET, path, &[]).header("prefer", &prefer);
            match self.send_with(&patience, request).await {
                Err(error) if error.downcast_ref().is_some_and(Refused::is_no_answer_yet) => {}
                answered => return self.read_json(answered?).await,
            }
        }
    }

    /// Asks for something that is no JSON.
    pub(crate) async fn get_text(
        &self,
        path: &[&str],
        query: &[(&str, String)],
    ) -> anyhow::Result<String> {
        let response = self.get_response(path, query).await?;
        Ok(self.answered(response.text(), LOOK).await??)
    }

    /// Asks for something that is read as it comes.
    pub(crate) async fn get_response(
        &self,
        path: &[&str],
        query: &[(&str, String)],
    ) -> anyhow::Result<Response> {
        self.send(self.request(Method::GET, path, query)).await
    }

    /// Wants something done.
    pub(crate) async fn post(&self, path: &[&str], body: &Json) -> anyhow::Result<Json> {
        let request = self
            .request(Method::POST, path, &[])
            .header("content-type", "application/json")
            .body(body.to_string());
        self.read_json(self.send(request).await?).await
    }

    /// Wants something to be so.
    pub(crate) async fn put(&self, path: &[&str], body: &Json) -> anyhow::Result<Json> {
        let request = self
            .request(Method::PUT, path, &[])
            .header("content-type", "application/json")
            .body(body.to_string());
        self.read_json(self.send(request).await?).await
    }

    /// Gives a document.
    pub(crate) async fn post_document(&self, path: &[&str], text: &str) -> anyhow::Result<Json> {
        let request = self
            .request(Method::POST, path, &[])
            .header("content-type", "application/yaml")
            .body(text.to_owned());
        self.read_json(self.send(request).await?).await
    }

    /// Wants something gone.
    pub(crate) async fn delete(
        &self,
        path: &[&str],
        query: &[(&str, String)],
    ) -> anyhow::Result<Json> {
        self.read_json(self.send(self.request(Method::DELETE, path, query)).await?).await
    }

    fn request(&self, method: Method, path: &[&str], query: &[(&str, String)]) -> RequestBuilder {
        let mut url = self.node.clone();
        url.path_segments_mut().expect("checked to be http").pop_if_empty().extend(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.http.request(method, url);
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    async fn send(&self, request: RequestBuilder) -> anyhow::Result<Response> {
        self.send_with(&self.patience, request).await
    }

    async fn send_with(
        &self,
        patience: &Patience,
        request: RequestBuilder,
    ) -> anyhow::Result<Response> {
        let request = request.build().context("the request cannot be made")?;
        let is_change = request.method() != Method::GET;
        let sent = self.http.execute(request);
        let answered = self.answered_with(patience, sent, is_change).await?;
        let response = answered.map_err(|error| self.unreachable(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.refused(response).await)
    }

    /// Waits for a part of an answer, but not for a node that is silent.
    async fn answered<T>(
        &self,
        answer: impl Future<Output = T>,
        is_change: bool,
    ) -> anyhow::Result<T> {
        self.answered_with(&self.patience, answer, is_change).await
    }

    async fn answered_with<T>(
        &self,
        patience: &Patience,
        answer: impl Future<Output = T>,
        is_change: bool,
    ) -> anyhow::Result<T> {
        let shows_life = async || {
            // It may have room for few connections: this one is not to stay.
            let health = self.request(Method::GET, &["health"], &[]).header("connection", "close");
            health.send().await.is_ok()
        };
        let answered = patience.wait_for(answer, shows_life).await;
        answered.map_err(|Silent| anyhow!(silent_at(&self.node, is_change)))
    }

    async fn read_json(&self, response: Response) -> anyhow::Result<Json> {
        let body = self.answered(response.bytes(), LOOK).await?;
        let body = body.context("the node's answer broke off")?;
        if body.is_empty() {
            return Ok(Json::Null);
        }
        serde_json::from_slice(&body)
            .context("the node's answer is no JSON; is it an Outlast node?")
    }

    fn unreachable(&self, error: &reqwest::Error) -> anyhow::Error {
        let node = &self.node;
        let root = root_cause(error);
        // Something speaks there, and no HTTP: it was no node's API from the start.
        if !error.is_connect() && !error.is_timeout() && !root.starts_with(NO_HTTP) {
            return anyhow!(
                "the connection to {node} broke before there was an answer ({root})\n  whether it was done is not \
                 known: look, or ask again"
            );
        }
        anyhow!("no node answers at {node} ({root})\n  {}", advice_on(&root))
    }

    /// Why the node did not do it, and what to do next.
    async fn refused(&self, response: Response) -> anyhow::Error {
        let status = response.status();
        let body = match self.answered(response.text(), LOOK).await {
            Ok(body) => body.unwrap_or_default(),
            Err(silent) => return silent,
        };
        let said = serde_json::from_str::<Json>(&body).unwrap_or_default();
        let text = |name| said.get(name).and_then(Json::as_str);
        let reason = text("rendered").or_else(|| text("detail")).map(ToOwned::to_owned);
        let reason = reason.unwrap_or_else(|| format!("the node answered {status}"));
        match status {
            StatusCode::UNAUTHORIZED => anyhow!("{reason}\n  {}", self.token_advice()),
            StatusCode::BAD_REQUEST => Failure::usage(reason).into(),
            StatusCode::INSUFFICIENT_STORAGE => Failure::storage(reason).into(),
            _ => {
                let kind = text("type").unwrap_or_default().to_owned();
                Refused { status, kind, reason }.into()
            }
        }
    }

    const fn token_advice(&self) -> &'static str {
        match self.token {
            Some(_) => {
                "another node's token was sent: `outlast token --data DIR` prints the right one"
            }
            None => {
                "the node wants a token: give --token or OUTLAST_TOKEN (`outlast token --data DIR` \
                 prints it), or name its data directory with OUTLAST_DATA"
            }
        }
    }
}

fn parse_address(text: &str) -> Result<Url, Failure> {
    let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    Url::parse(&full)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| {
            Failure::usage(format!("--node {text}: expected an address such as {DEFAULT_NODE}"))
        })
}

/// A token as it is shown to a node. What cannot be one is not sent: whoever is told that no node answers, or
/// that another node's was sent, looks for the mistake elsewhere.
fn check_token(by: &str, text: &str) -> Result<String, Failure> {
    let token = text.trim();
    if can_be_shown(token) {
        return Ok(token.to_owned());
    }
    let wrong = match token {
        "" => "is empty",
        _ => "has a line break or another character that no token has",
    };
    let advice = "`outlast token --data DIR` prints that of a node";
    Err(Failure::usage(format!("the token given by {by} {wrong}: {advice}")))
}

/// Whether a token fits into a request.
fn can_be_shown(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

/// What to do about a node that takes connections and answers nothing.
fn silent_at(node: &Url, is_change: bool) -> String {
    let meanwhile = match is_change {
        true => "what was asked for may still be done there when it goes on; ",
        false => "",
    };
    format!(
        "{node} takes connections and does not answer, not even whether it is there: the node's process is stopped or \
         hangs, has as many connections as it may (--connections), or it is no node\n  {meanwhile}ask another node of \
         its cluster with --node URL, or look after that one"
    )
}

/// What to do when no node answers, by the cause.
fn advice_on(cause: &str) -> &'static str {
    // Nodes speak TLS to each other.
    if cause.starts_with(NO_HTTP) {
        "what listens there may be the port of a node for other nodes (`--cluster-listen`); say where its API is \
         (`--listen`) with --node URL or OUTLAST_NODE"
    } else {
        "start one with `outlast node`, or say where it is with --node URL or OUTLAST_NODE"
    }
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// The exit code that an execution's condition stands for.
pub(crate) fn exit_of(condition: &str) -> Exit {
    match condition {
        "faulted" => Exit::Faulted,
        "compensated" => Exit::Compensated,
        "cancelled" => Exit::Cancelled,
        _ => Exit::Completed,
    }
}

/// What a variable of the environment says. One that is set to nothing says nothing, which is why it is
/// not left to the command line's parser.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.trim().is_empty())
}

/// The data directory given, or the one that OUTLAST_DATA names, or where a node on this machine keeps
/// it. As everywhere, a variable that is set to nothing names none.
pub(crate) fn data_directory(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let said = std::env::var_os("OUTLAST_DATA").filter(|path| !path.is_empty());
    match given.map(Path::to_owned).or_else(|| said.map(PathBuf::from)) {
        Some(directory) => Ok(directory),
        None => directories::node(),
    }
}

/// The token of the node that keeps its data in a directory.
pub(crate) fn token_in(directory: &Path) -> anyhow::Result<String> {
    read_token(directory).with_context(|| {
        format!(
            "there is no token in {}: is it the data directory of a node that was started?",
            directory.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn an_address_needs_no_scheme() {
        assert_eq!(parse_address("localhost:7180").unwrap().as_str(), "http://localhost:7180/");
        assert_eq!(parse_address("https://a.example").unwrap().as_str(), "https://a.example/");
    }

    #[test]
    fn whoever_asks_at_the_port_for_other_nodes_is_told_so() {
        assert!(advice_on("invalid HTTP version parsed").contains("--cluster-listen"));
        assert!(advice_on("Connection refused (os error 111)").starts_with("start one with"));
    }

    #[test]
    fn a_connection_that_breaks_is_told_from_a_node_that_is_not_there() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let node = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 16];
            stream.read_exact(&mut asked).unwrap();
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = Client::at(address).unwrap();
        let told =
            || runtime.block_on(client.get(&["v1", "cluster"], &[])).unwrap_err().to_string();
        let broken = told();
        node.join().unwrap();
        assert!(broken.contains("broke before there was an answer"), "{broken}");
        assert!(!broken.contains("start one"), "{broken}");
        let gone = told();
        assert!(gone.starts_with("no node answers") && gone.contains("start one"), "{gone}");
    }

    #[test]
    fn a_node_that_takes_connections_and_does_not_answer_is_told_from_one_that_is_not_there() {
        // As it is when the process is stopped: the operating system takes connections for it.
        let stopped = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = stopped.local_addr().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (quiet, silence) = (Duration::from_millis(10), Duration::from_millis(100));
        let patience = Patience { quiet, silence };
        let client = Client { patience, ..Client::at(address).unwrap() };
        let looked = runtime.block_on(client.get(&["v1", "cluster"], &[])).unwrap_err();
        let looked = looked.to_string();
        assert!(looked.starts_with(&format!("http://{address}/ takes connections")), "{looked}");
        assert!(looked.contains("ask another node of its cluster with --node"), "{looked}");
        assert!(!looked.contains("may still be done"), "{looked}");
        let changed = runtime.block_on(client.post(&["v1", "cluster", "drain"], &Json::Null));
        let changed = changed.unwrap_err().to_string();
        assert!(changed.contains("may still be done there"), "{changed}");
    }

    #[test]
    fn an_end_is_waited_for_while_the_node_says_that_there_is_none_yet() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let node = thread::spawn(move || {
            // One connection, as if it took no other.
            let (mut stream, _) = listener.accept().unwrap();
            let not_yet = r#"{"type":"urn:outlast:problem:no-answer-yet"}"#;
            for (status, body) in [("504 -", not_yet), ("504 -", not_yet), ("200 OK", "{}")] {
                let mut asked = Vec::new();
                while !asked.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    asked.extend(byte);
                }
                let asked = String::from_utf8(asked).unwrap();
                assert!(asked.contains("prefer: wait=10\r\n"), "{asked}");
                let length = body.len();
                write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}")
                    .unwrap();
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = Client::at(address).unwrap();
        let path = ["v1", "executions", "order", "wait"];
        assert_eq!(runtime.block_on(client.get_late(&path)).unwrap(), serde_json::json!({}));
        node.join().unwrap();
    }

    #[test]
    fn rejects_what_is_no_address() {
        for text in ["", "ftp://x", "http://"] {
            assert!(parse_address(text).is_err(), "{text}");
        }
    }
}
