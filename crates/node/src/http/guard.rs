//! Who may ask: the token, and requests that come from where they say.
//!
//! A page in a browser can be made to send requests to a node on the same machine, and a name that
//! its owner points at this machine (DNS rebinding) makes the page's requests look as if they were
//! for us. So the host that a request names must be an address, `localhost`, or a name that the node
//! was told is its own; and a request that a page made must come from the node's own.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Api;
use super::problem::Problem;
use crate::relay::PassedBy;

/// Paths that answer without a token: they tell nothing about anyone's work.
const OPEN: [&str; 3] = ["/health", "/ready", "/openapi.json"];

/// Lets a request through, or answers it.
pub(super) async fn check(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    match allowed(&api, &request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn allowed(api: &Api, request: &Request) -> Result<(), Problem> {
    // Who passes requests on is a member, which its certificate has shown.
    if request.extensions().get::<PassedBy>().is_some() {
        return Ok(());
    }
    let headers = request.headers();
    let host = check_host(headers, &api.options.hosts)?;
    check_origin(headers, &host)?;
    let Some(token) = &api.token else { return Ok(()) };
    if OPEN.contains(&request.uri().path()) {
        return Ok(());
    }
    let given = text(headers, header::AUTHORIZATION.as_str());
    let given = given.and_then(|text| text.strip_prefix("Bearer "));
    if given.is_some_and(|given| token.is(given.trim())) {
        return Ok(());
    }
    let detail = match given {
        Some(_) => "the token is not this node's; `outlast token` prints it",
        None => "send `Authorization: Bearer TOKEN`; `outlast token` prints the token",
    };
    Err(Problem::new(StatusCode::UNAUTHORIZED, detail))
}

/// The host that the request is for, if it is one of ours.
fn check_host(headers: &HeaderMap, own: &[String]) -> Result<String, Problem> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(Problem::invalid("a request names one host"));
    };
    let authority = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    let Some(authority) = authority else {
        return Err(Problem::invalid("the host of the request is no host"));
    };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    let ours = name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || own.iter().any(|own| own.eq_ignore_ascii_case(name));
    if ours {
        return Ok(authority.as_str().to_ascii_lowercase());
    }
    let detail = format!("{name} is not a name of this node; start it with --host {name} if it is");
    Err(Problem::new(StatusCode::FORBIDDEN, detail))
}

/// What a page sends must come from a page of this node.
fn check_origin(headers: &HeaderMap, host: &str) -> Result<(), Problem> {
    let Some(origin) = text(headers, header::ORIGIN.as_str()) else { return Ok(()) };
    let from = origin.split_once("://").map(|(_, from)| from.to_ascii_lowercase());
    if from.as_deref() == Some(host) {
        return Ok(());
    }
    let detail = format!("pages of {origin} may not send requests to this node");
    Err(Problem::new(StatusCode::FORBIDDEN, detail))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Whether everyone on the network could reach an address.
pub(super) fn is_public(address: &SocketAddr) -> bool {
    !address.ip().is_loopback()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(n, v)| (n.parse().unwrap(), HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn a_name_that_is_not_the_nodes_is_refused() {
        let own = ["outlast.example".to_owned()];
        for host in ["127.0.0.1:7180", "[::1]:7180", "localhost", "LOCALHOST:1", "outlast.example"]
        {
            assert!(check_host(&headers(&[("host", host)]), &own).is_ok(), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example:7180"] {
            let refused = check_host(&headers(&[("host", host)]), &own).unwrap_err();
            assert_eq!(refused.into_response().status(), StatusCode::FORBIDDEN, "{host}");
        }
        assert!(check_host(&headers(&[]), &own).is_err());
    }

    #[test]
    fn a_page_of_another_origin_is_refused() {
        let host = "127.0.0.1:7180";
        let from = |origin| check_origin(&headers(&[("origin", origin)]), host);
        assert!(check_origin(&headers(&[]), host).is_ok());
        assert!(from("http://127.0.0.1:7180").is_ok());
        assert!(from("http://127.0.0.1:8080").is_err());
        assert!(from("https://evil.example").is_err());
        assert!(from("null").is_err());
    }
}
