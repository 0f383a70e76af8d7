//! The two public services that the kit calls, on loopback: six routes of a pet store and of an
//! echo service. Reached through the origin map, so the documents stay as they are.

use std::net::SocketAddr;

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Serves until the runtime ends, and says where.
pub(crate) async fn start() -> SocketAddr {
    let router = Router::new()
        .route("/v2/pet/findByStatus", get(async || Json(json!([pet(1), pet(2)]))))
        .route("/v2/pet/{id}", get(async |Path(id): Path<u32>| Json(pet(id))))
        .route("/v2/pet/getPetByName/{name}", get(async || StatusCode::NOT_FOUND))
        .route("/basic-auth/{user}/{password}", get(authenticate));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback can be listened on");
    let address = listener.local_addr().expect("a listener has an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

fn pet(id: u32) -> Value {
    json!({"id": id, "name": format!("pet {id}"), "status": "available"})
}

async fn authenticate(
    Path((user, password)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let expected = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
    let given = headers.get("authorization").and_then(|header| header.to_str().ok());
    if given == Some(&expected) {
        Json(json!({"authenticated": true, "user": user})).into_response()
    } else {
        StatusCode::UNAUTHORIZED.into_response()
    }
}
