//! What comes with a request: its body within bounds of size and time, its query, its path.

use std::time::Duration;

use axum::body::{BodyDataStream, Bytes};
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
/// Of what size the blocks are in which larger bodies are held until they are whole.
const BLOCK_BYTES: usize = 64 * 1024;
/// How much of a body that is too large is taken in and dropped, so that its sender hears why.
const DROPPED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long its sender may pause.
const DROPPED_PAUSE_MAX: Duration = Duration::from_millis(250);
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

    /// The body as an object with no other members than these. One that is not known is refused: it
    /// may be a misspelt one that says what is meant, and without it everything would be.
    pub(super) fn members(&self, known: &[&str]) -> Result<Members, Problem> {
        let body = self.json()?;
        if !matches!(body, Value::Obj(_)) {
            return Err(Problem::invalid("the body is not an object"));
        }
        let stranger = value::members(&body).map(|(name, _)| name).find(|it| !known.contains(it));
        match stranger {
            Some(name) => {
                let known = known.join(", ");
                Err(Problem::invalid(format!("`{name}` is not known here; there is {known}")))
            }
            None => Ok(Members(body)),
        }
    }

    /// The media type, without its parameters.
    pub(super) fn media_type(&self) -> &str {
        let given = self.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
        given.and_then(|given| given.split(';').next()).unwrap_or_default().trim()
    }
}

/// The members of a body.
pub(super) struct Members(Value);

impl Members {
    /// A member, if it is there.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        value::get(&self.0, name)
    }

    /// A text, if it is there; null is as good as none.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Problem> {
        match self.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(given) => match value::as_str(given) {
                Some(text) => Ok(Some(text.to_owned())),
                None => Err(Problem::invalid(format!("`{name}` is not a text"))),
            },
        }
    }
}

impl<S: Send + Sync> FromRequest<S> for Payload {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (Parts { headers, .. }, body) = request.into_parts();
        match tokio::time::timeout(BODY_TIME_MAX, read(body.into_data_stream())).await {
            Ok(bytes) => Ok(Self { headers, bytes: bytes?.into() }),
            Err(_) => {
                let detail = format!("the body did not arrive within {BODY_TIME_MAX:?}");
                Err(Problem::new(StatusCode::REQUEST_TIMEOUT, detail))
            }
        }
    }
}

/// Reads a body.
async fn read(mut stream: BodyDataStream) -> Result<Vec<u8>, Problem> {
    let mut arrived = Arrived::default();
    while let Some(part) = stream.next().await {
        let part = part.map_err(|error| Problem::invalid(format!("half a request: {error}")))?;
        if BODY_BYTES_MAX < arrived.length + part.len() {
            drop((arrived, part));
            drop_rest(stream).await;
            let detail = format!("the body is larger than {BODY_BYTES_MAX} bytes");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
        }
        arrived.add(&part);
    }
    Ok(arrived.whole())
}

/// What has arrived of a body, in blocks: a vector that grows is copied each time it doubles, and bodies
/// that are refused in the end would leave the allocator with several times their size to give back.
#[derive(Default)]
struct Arrived {
    length: usize,
    blocks: Vec<Vec<u8>>,
}

impl Arrived {
    /// Adds a part, however small: a body may come byte by byte.
    fn add(&mut self, part: &[u8]) {
        self.length += part.len();
        match self.blocks.last_mut() {
            Some(last) if part.len() <= last.capacity() - last.len() => {
                last.extend_from_slice(part)
            }
            Some(_) => {
                let mut block = Vec::with_capacity(BLOCK_BYTES.max(part.len()));
                block.extend_from_slice(part);
                self.blocks.push(block);
            }
            // Most bodies are small and arrive in one part: they need no more than their size.
            None => self.blocks.push(part.to_vec()),
        }
    }

    /// The body in one piece.
    fn whole(mut self) -> Vec<u8> {
        match self.blocks.len() {
            0 | 1 => self.blocks.pop().unwrap_or_default(),
            _ => self.blocks.concat(),
        }
    }
}

/// Takes in what is still being sent: whoever sends when the connection is closed hears no answer.
async fn drop_rest(mut stream: BodyDataStream) {
    let mut dropped = 0;
    while let Ok(Some(Ok(part))) = tokio::time::timeout(DROPPED_PAUSE_MAX, stream.next()).await {
        dropped += part.len();
        if DROPPED_BYTES_MAX < dropped {
            return;
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_put_together_from_parts_of_any_size() {
        for size in [1, 7, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES] {
            let sent: Vec<u8> = (0..4 * BLOCK_BYTES + 5).map(|at| at as u8).collect();
            let mut arrived = Arrived::default();
            sent.chunks(size).for_each(|part| arrived.add(part));
            let held: usize = arrived.blocks.iter().map(Vec::capacity).sum();
            assert!(held <= 2 * sent.len() + BLOCK_BYTES, "{held} bytes in parts of {size}");
            assert_eq!(arrived.length, sent.len());
            assert!(arrived.whole() == sent, "parts of {size}");
        }
        assert!(Arrived::default().whole().is_empty());
    }
}
