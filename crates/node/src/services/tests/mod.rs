//! Calls against servers on loopback that misbehave in every way we know of.

mod behaviour;
mod policy;
mod redirects;
mod secrets;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlast_expressions::{Value, value};
use outlast_lineage::{
    BranchId, Digest, EffectId, Epoch, ExecutionId, NodeId, OperationKey, Point, Time,
};
use outlast_workflow::program::HttpOutput;
use outlast_workflow::{Answer, Fault, Request, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{AddressPolicy, Builtin, Caller, NoSecrets, Options};

const SALT: [u8; 16] = [9; 16];

/// What a server does with a request once it has read it.
enum Script {
    /// Answers, and keeps the connection.
    Answer(String),
    /// Sends these bytes and ends the connection.
    Close(Vec<u8>),
    /// Sends these bytes and resets the connection.
    Reset(Vec<u8>),
    /// Sends these bytes and then nothing more.
    Hang(Vec<u8>),
    /// Sends the first bytes, then the others again and again, waiting in between.
    Repeat(Vec<u8>, Vec<u8>, Duration),
}

fn answer(status: u16, headers: &str, body: &str) -> Script {
    let length = body.len();
    Script::Answer(format!(
        "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    ))
}

fn text(body: &str) -> Script {
    answer(200, "content-type: text/plain\r\n", body)
}

/// A server on loopback, and what it saw.
struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
    bytes_sent: Arc<AtomicUsize>,
}

impl Server {
    /// Starts a server; the script gets the number of the request, from zero, and its text.
    async fn start(script: impl Fn(usize, &str) -> Script + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            requests: Arc::default(),
            connections: Arc::default(),
            bytes_sent: Arc::default(),
        };
        let script = Arc::new(script);
        let (requests, connections, bytes_sent) = (
            Arc::clone(&server.requests),
            Arc::clone(&server.connections),
            Arc::clone(&server.bytes_sent),
        );
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                let (script, requests) = (Arc::clone(&script), Arc::clone(&requests));
                let bytes_sent = Arc::clone(&bytes_sent);
                tokio::spawn(async move {
                    // A client that goes away ends its connection and nothing else.
                    let _ = converse(stream, &*script, &requests, &bytes_sent).await;
                });
            }
        });
        server
    }

    fn uri(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    fn only_request(&self) -> String {
        let requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.into_iter().next().unwrap()
    }
}

async fn converse(
    mut stream: TcpStream,
    script: &(dyn Fn(usize, &str) -> Script + Send + Sync),
    requests: &Mutex<Vec<String>>,
    bytes_sent: &AtomicUsize,
) -> std::io::Result<()> {
    while let Some(request) = read_request(&mut stream).await? {
        let step = {
            let mut requests = requests.lock().unwrap();
            requests.push(request);
            script(requests.len() - 1, &requests[requests.len() - 1])
        };
        match step {
            Script::Answer(text) => stream.write_all(text.as_bytes()).await?,
            Script::Close(bytes) => {
                stream.write_all(&bytes).await?;
                return stream.shutdown().await;
            }
            Script::Reset(bytes) => {
                stream.write_all(&bytes).await?;
                stream.flush().await?;
                return stream.set_zero_linger();
            }
            Script::Hang(bytes) => {
                stream.write_all(&bytes).await?;
                std::future::pending::<()>().await;
            }
            Script::Repeat(first, again, pause) => {
                stream.write_all(&first).await?;
                loop {
                    stream.write_all(&again).await?;
                    bytes_sent.fetch_add(again.len(), Ordering::SeqCst);
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }
    Ok(())
}

async fn read_request(stream: &mut TcpStream) -> std::io::Result<Option<String>> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| {
                    line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok()
                })
                .unwrap_or(0);
            if length <= body.len() {
                return Ok(Some(text));
            }
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    }
}

fn caller(change: impl FnOnce(&mut Options)) -> Caller {
    let mut options = Options { answer_bytes_max: 64 << 10, ..Options::default() };
    change(&mut options);
    Caller::new(options, Arc::new(Builtin))
}

fn closed() -> AddressPolicy {
    AddressPolicy { allow_loopback: false, ..AddressPolicy::default() }
}

fn hosts(pairs: &[(&str, &str)]) -> BTreeMap<String, Vec<std::net::IpAddr>> {
    pairs
        .iter()
        .map(|(name, address)| ((*name).to_owned(), vec![address.parse().unwrap()]))
        .collect()
}

fn request(target: Target) -> Request {
    let execution = ExecutionId::from_bytes([1; 16]);
    let point = Point { author: NodeId(1), epoch: Epoch(1), number: 1 };
    Request {
        effect: EffectId { branch: BranchId::TRUNK, point },
        key: OperationKey::new(execution, &Digest::of(b"place"), &Digest::of(b"request")),
        own_key: None,
        key_header: None,
        deadline: None,
        readonly: false,
        undo: false,
        target,
        salt: SALT,
        undoes: None,
        own_undoes: None,
    }
}

fn http(method: &str, uri: &str) -> Target {
    Target::Http {
        method: method.into(),
        uri: uri.into(),
        headers: Vec::new(),
        body: Value::Null,
        output: HttpOutput::Content,
        redirect: false,
        authentication: None,
    }
}

fn get(uri: &str) -> Request {
    request(http("GET", uri))
}

/// A GET that follows redirects.
fn follow(method: &str, uri: &str) -> Request {
    let mut target = http(method, uri);
    if let Target::Http { redirect, .. } = &mut target {
        *redirect = true;
    }
    request(target)
}

fn within(request: Request, time: Duration) -> Request {
    let now = (Options::default().clock)();
    Request { deadline: Some(now.after(time)), ..request }
}

async fn call(request: Request) -> Answer {
    caller(|_| ()).call(request, &NoSecrets).await
}

fn succeeded(answer: Answer) -> String {
    match answer {
        Answer::Succeeded(value) => value::to_text(&value),
        other => panic!("{other:?}"),
    }
}

fn failed(answer: Answer) -> Fault {
    match answer {
        Answer::Failed(fault) => fault,
        other => panic!("{other:?}"),
    }
}

fn unknown(answer: Answer) -> Fault {
    match answer {
        Answer::Unknown(fault) => fault,
        other => panic!("{other:?}"),
    }
}

fn past() -> Time {
    Time::from_millis(1)
}
