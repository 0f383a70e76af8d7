//! What comes with a request: its body within bounds of size and time, its query, its path.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use futures_util::StreamExt;
use outlast_engine::Which;
use outlast_expressions::{Value, value};
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// The largest body: somewhat more than the largest value the engine takes.
const BODY_BYTES_MAX: usize = 6 * 1024 * 1024;
/// How long a body may take to arrive.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// A body, and what the headers say about it.
pub(super) struct Payload {
    pub(super) headers: HeaderMap,
    pub(super) bytes: Bytes,
}

impl Payload {
    /// The body as text.
    pub(super) fn text(&self) -> Result<&str, Problem> {
        std::str::from_utf8(&self.bytes)
            .map_err(|_| Problem::invalid("the body is not text in UTF-8"))
    }

    /// The body as JSON; no body is an empty object.
    pub(super) fn json(&self) -> Result<Value, Problem> {
        if self.bytes.is_empty() {
            return Ok(value::object([]));
        }
        value::parse(&self.bytes)
            .map_err(|error| Problem::invalid(format!("the body is not JSON: {error}")))
    }

    /// The media type, without its parameters.
    pub(super) fn media_type(&self) -> &str {
        let given = self.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
        given.and_then(|given| given.split(';').next()).unwrap_or_default().trim()
    }
}

impl<S: Send + Sync> FromRequest<S> for Payload {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (Parts { headers, .. }, body) = request.into_parts();
        let announced = headers.get(header::CONTENT_LENGTH).and_then(|it| it.to_str().ok());
        if announced
            .and_then(|it| it.parse().ok())
            .is_some_and(|bytes: usize| BODY_BYTES_MAX < bytes)
        {
            return Err(too_large());
        }
        let mut stream = body.into_data_stream();
        let reading = async {
            let mut bytes = Vec::new();
            while let Some(part) = stream.next().await {
                let part =
                    part.map_err(|error| Problem::invalid(format!("half a request: {error}")))?;
                if BODY_BYTES_MAX < bytes.len() + part.len() {
                    return Err(too_large());
                }
                bytes.extend_from_slice(&part);
            }
            Ok(bytes)
        };
        match tokio::time::timeout(BODY_TIME_MAX, reading).await {
            Ok(bytes) => Ok(Self { headers, bytes: bytes?.into() }),
            Err(_) => {
                let detail = format!("the body did not arrive within {BODY_TIME_MAX:?}");
                Err(Problem::new(StatusCode::REQUEST_TIMEOUT, detail))
            }
        }
    }
}

fn too_large() -> Problem {
    let detail = format!("the body is larger than {BODY_BYTES_MAX} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
}

/// The query of a request.
pub(super) struct Parameters<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Query(query) = Query::from_request_parts(parts, state)
            .await
            .map_err(|error| Problem::invalid(error.body_text()))?;
        Ok(Self(query))
    }
}

/// The execution that a text names: an id, `namespace/name`, or a name that only one has.
pub(super) fn which(text: &str) -> Result<Which, Problem> {
    if let Ok(id) = text.parse() {
        return Ok(Which::Id(id));
    }
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Ok(Which::Named { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        None if !text.is_empty() => {
            Ok(Which::Named { namespace: String::new(), name: text.to_owned() })
        }
        _ => Err(Problem::invalid(format!("{text} is neither an id nor namespace/name"))),
    }
}
