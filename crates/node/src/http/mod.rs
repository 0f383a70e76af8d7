//! The HTTP API: JSON, server-sent events, metrics, and its own description.
//!
//! Every route is a function in the file of its subject, described there for `/openapi.json`; a test
//! keeps `docs/openapi.json` the same. A request is checked (`guard`) before its body is read, and
//! read within bounds (`payload`); whatever is refused is answered with a problem document.

mod across;
mod backups;
mod cluster;
mod definitions;
mod events;
mod executions;
mod guard;
mod health;
mod model;
mod parked;
mod payload;
mod problem;
mod removal;
mod serve;
mod story;
mod token;
mod watch;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post, put};
use outlast_engine::{Ask, Reply, Which, WorkflowVersion};
use outlast_lineage::{Digest, ExecutionId};
use outlast_workflow::Program;
use tokio::net::TcpListener;
use utoipa::openapi::{Content, Ref, ResponseBuilder};
use utoipa::{Modify, OpenApi};

pub use serve::Server;
pub use token::{TokenExposed, check_token, read_token, rotate_token};

use crate::cluster::Cluster;
use crate::node::NodeHandle;
use crate::relay::Relay;
use problem::Problem;
use token::Token;

/// How many compiled definitions are kept for drawings and histories.
const PROGRAMS_MAX: usize = 64;

/// How long what is asked for may take to be stored before a full disk is told.
const STORED_WITHIN: Duration = Duration::from_secs(5);
/// What whoever asked then hears.
const NOT_STORED_YET: &str = "there is no space left to record what was asked for; it is done as soon \
                              as there is: ask again, with the same id or name for a start";

/// How the API is served.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Names of this node, besides addresses and `localhost`.
    pub hosts: Vec<String>,
    /// The directory whose token requests must show; nothing asks for none.
    pub token: Option<PathBuf>,
    /// How many connections there are at most.
    pub connections_max: usize,
    /// The node's connections to others, if it is a member of a cluster.
    pub cluster: Option<Cluster>,
    /// How requests are passed on to the other members.
    pub relay: Option<Relay>,
    /// Whether tests may cut those connections.
    pub test_faults: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7180)),
            hosts: Vec::new(),
            token: None,
            connections_max: 512,
            cluster: None,
            relay: None,
            test_faults: false,
        }
    }
}

/// What every request can use.
struct Api {
    node: NodeHandle,
    options: Options,
    token: Option<Token>,
    programs: Mutex<BTreeMap<Digest, Arc<Program>>>,
}

/// Serves the API of a node until the server is stopped.
pub async fn serve(node: NodeHandle, options: Options) -> io::Result<Server> {
    let listener = listen(&options).await?;
    serve_at(listener, node, options)
}

/// Listens where the options say, without answering anybody yet.
pub async fn listen(options: &Options) -> io::Result<TcpListener> {
    if options.token.is_none() && guard::is_public(&options.listen) {
        let reason = "an API that others can reach needs a token";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    TcpListener::bind(options.listen).await
}

/// Serves the API of a node where somebody `listen`s already, until the server is stopped.
pub fn serve_at(listener: TcpListener, node: NodeHandle, options: Options) -> io::Result<Server> {
    let connections_max = options.connections_max;
    let token = options.token.as_deref().map(Token::new);
    let api = Arc::new(Api { node, options, token, programs: Mutex::default() });
    let relay = api.options.relay.clone();
    let router = router(api);
    if let Some(relay) = relay {
        relay.serve(router.clone());
    }
    Server::start(listener, router, connections_max)
}

fn router(api: Arc<Api>) -> Router {
    let execution = "/v1/executions/{execution}";
    let of = |rest: &str| format!("{execution}{rest}");
    let faults = match api.options.test_faults {
        true => Router::new().route("/v1/faults", put(cluster::cut)),
        false => Router::new(),
    };
    Router::new()
        .merge(faults)
        .route(
            "/v1/definitions",
            get(definitions::list).post(definitions::register).put(definitions::register),
        )
        .route("/v1/definitions/{namespace}/{name}/{version}", get(definitions::get))
        .route("/v1/executions", get(executions::list).post(executions::start))
        .route(execution, get(executions::show).delete(executions::delete))
        .route(&of("/wait"), get(executions::wait))
        .route(&of("/cancel"), post(executions::cancel))
        .route(&of("/compensate"), post(executions::compensate))
        .route(&of("/suspend"), post(executions::suspend))
        .route(&of("/resume"), post(executions::resume))
        .route(&of("/retry"), post(executions::retry))
        .route(&of("/signal"), post(events::signal))
        .route(&of("/history"), get(watch::history))
        .route(&of("/graph"), get(watch::graph))
        .route(&of("/events"), get(watch::follow))
        .route("/v1/events", get(watch::all).post(events::publish))
        .route("/v1/parked", get(parked::list))
        .route("/v1/parked/resolve", post(parked::resolve))
        .route("/v1/cluster", get(cluster::show))
        .route("/v1/cluster/invitations", post(cluster::invite))
        .route("/v1/cluster/members/{node}", delete(removal::remove))
        .route("/v1/cluster/drain", post(cluster::drain))
        .route("/v1/backups", post(backups::make))
        .route("/metrics", get(health::metrics))
        .route("/health", get(health::health))
        .route("/ready", get(health::ready))
        .route("/openapi.json", get(health::openapi))
        .fallback(async || Problem::new(StatusCode::NOT_FOUND, "there is no such path"))
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "the path does not take this method")
        })
        .layer(from_fn_with_state(Arc::clone(&api), across::pass))
        .layer(from_fn_with_state(Arc::clone(&api), guard::check))
        .with_state(api)
}

/// The description of the API.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Outlast",
        description = "A node's API. Executions are named by their id, or by `namespace/name` with \
                       the slash encoded. Requests show the node's token as `Authorization: Bearer`."
    ),
    modifiers(&Otherwise),
    paths(
        definitions::list,
        definitions::register,
        definitions::get,
        executions::list,
        executions::start,
        executions::show,
        executions::wait,
        executions::cancel,
        executions::compensate,
        executions::suspend,
        executions::resume,
        executions::retry,
        executions::delete,
        events::signal,
        watch::history,
        watch::graph,
        watch::follow,
        watch::all,
        events::publish,
        parked::list,
        parked::resolve,
        cluster::show,
        cluster::invite,
        removal::remove,
        cluster::drain,
        backups::make,
        health::metrics,
        health::health,
        health::ready,
    )
)]
struct Description;

/// Says of every request what it is answered with where nothing else is said: a problem.
struct Otherwise;

impl Modify for Otherwise {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let problem = Content::new(Some(Ref::from_schema_name("Problem")));
        let response = ResponseBuilder::new()
            .description("It is not done, and why")
            .content("application/problem+json", problem)
            .build();
        for item in api.paths.paths.values_mut() {
            let operations = [&mut item.get, &mut item.post, &mut item.put, &mut item.delete];
            for operation in operations.into_iter().flatten() {
                let responses = &mut operation.responses.responses;
                responses.insert("default".to_owned(), response.clone().into());
            }
        }
    }
}

/// The description of the API as JSON: what `/openapi.json` answers.
pub fn openapi() -> String {
    Description::openapi().to_pretty_json().expect("a description encodes")
}

impl Api {
    /// Asks the node; what it refuses is a problem.
    async fn ask(&self, ask: Ask) -> Result<Reply, Problem> {
        let waits_for_an_end = matches!(ask, Ask::Wait(_));
        let answer = self.node.ask(ask);
        tokio::pin!(answer);
        loop {
            match tokio::time::timeout(STORED_WITHIN, &mut answer).await {
                Ok(Ok(Reply::Refused(refusal))) => return Err(refusal.into()),
                Ok(reply) => return Ok(reply?),
                Err(_) if !waits_for_an_end && self.node.storage().is_err() => {
                    return Err(Problem::new(StatusCode::INSUFFICIENT_STORAGE, NOT_STORED_YET));
                }
                Err(_) => {}
            }
        }
    }

    /// An execution's id, and the program it runs.
    async fn program_of(&self, which: &Which) -> Result<(ExecutionId, Arc<Program>), Problem> {
        let summary = match self.ask(Ask::Show(which.clone())).await? {
            Reply::Shown(detail) => detail.summary,
            other => return Err(Problem::unexpected(&other)),
        };
        let digest = summary.definition;
        if let Some(program) = self.programs().get(&digest) {
            return Ok((summary.execution, Arc::clone(program)));
        }
        let (namespace, name) = (summary.namespace, summary.workflow);
        let version = WorkflowVersion::Digest(digest);
        let text = match self.ask(Ask::Definition { namespace, name, version }).await? {
            Reply::Definition { text, .. } => text,
            other => return Err(Problem::unexpected(&other)),
        };
        let program = outlast_languages::openworkflow::compile(&text)
            .map_err(|report| Problem::rejected(&report, &text))?;
        let mut programs = self.programs();
        if PROGRAMS_MAX <= programs.len() {
            programs.pop_first();
        }
        programs.insert(digest, Arc::clone(&program));
        Ok((summary.execution, program))
    }

    fn programs(&self) -> std::sync::MutexGuard<'_, BTreeMap<Digest, Arc<Program>>> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
