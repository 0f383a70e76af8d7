//! A node with its API, and a client that shows its token.

use std::path::Path;

use outlast_node::http::{self, Server, rotate_token};
use outlast_node::{Configuration, Node, NodeHandle, Stopped};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Handle;

/// A workflow that waits for an event of type `go`, then answers.
pub(crate) const WAITS: &str = "
document: { dsl: '1.0.3', namespace: tests, name: waits, version: '1.0.0' }
do:
  - first:
      call: echo:1.0.0@default
      with: { said: '${ .word }' }
  - hold:
      listen:
        to: { one: { with: { type: go } } }
  - last:
      set: { ok: true }
";

pub(crate) struct Running {
    pub(crate) node: NodeHandle,
    pub(crate) server: Server,
    pub(crate) token: String,
    client: reqwest::Client,
    directory: TempDir,
}

impl Running {
    pub(crate) async fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap()).await
    }

    pub(crate) async fn start_in(directory: TempDir) -> Self {
        let configuration = Configuration::new(directory.path());
        Self::start_with(configuration, directory).await
    }

    pub(crate) async fn start_with(configuration: Configuration, directory: TempDir) -> Self {
        let node = Node::start(configuration, &Handle::current()).unwrap();
        let token = rotate_token(directory.path()).unwrap();
        let options = http::Options {
            listen: ([127, 0, 0, 1], 0).into(),
            token: Some(directory.path().to_owned()),
            ..http::Options::default()
        };
        let server = http::serve(node.clone(), options).await.unwrap();
        // Whoever installed a provider first has installed the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        Self { node, server, token, client, directory }
    }

    /// Stops the node and gives the directory back.
    pub(crate) async fn stop(self) -> TempDir {
        self.server.stop().await;
        assert_eq!(self.node.shutdown().await, Stopped::Asked);
        self.directory
    }

    pub(crate) fn uri(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.address())
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, self.uri(path)).bearer_auth(&self.token)
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        answer(self.request(Method::GET, path)).await
    }

    pub(crate) async fn get_status(&self, path: &str) -> StatusCode {
        self.request(Method::GET, path).send().await.unwrap().status()
    }

    /// Where the node keeps its data.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        answer(self.request(Method::POST, path).body(body.to_string())).await
    }

    pub(crate) async fn define(&self, text: &str) -> (StatusCode, Value) {
        answer(self.request(Method::POST, "/v1/definitions").body(text.to_owned())).await
    }

    /// Registers and starts the workflow that waits, under a name.
    pub(crate) async fn start_waiting(&self, name: &str) -> String {
        let (status, _) = self.define(WAITS).await;
        assert!(status.is_success(), "{status}");
        let body = json!({
            "namespace": "tests", "workflow": "waits", "name": name, "input": { "word": "hi" },
        });
        let (status, started) = self.post("/v1/executions", &body).await;
        assert_eq!(status, StatusCode::CREATED, "{started}");
        started["execution"].as_str().unwrap().to_owned()
    }
}

/// The status and the body, which is JSON whatever the status.
pub(crate) async fn answer(request: reqwest::RequestBuilder) -> (StatusCode, Value) {
    let response = request.send().await.unwrap();
    let status = response.status();
    let body = response.bytes().await.unwrap();
    let body = serde_json::from_slice(&body)
        .unwrap_or_else(|error| panic!("{status} with a body that is no JSON ({error}): {body:?}"));
    (status, body)
}
