//! One exchange over a socket: send, answer a challenge, follow redirects, read within limits.

use std::error::Error;

use outlast_workflow::{Fault, FaultKind, ResolvedAuthentication, Seen};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, LOCATION, WWW_AUTHENTICATE};
use reqwest::{Client, Response, StatusCode, Url};

use super::address::{AddressPolicy, Denied};
use super::authentication::{Asked, answer_challenge};
use super::origin::OriginMap;
use super::reveal::{Outgoing, changes_method};

/// More redirects than this are a circle.
const REDIRECTS_MAX: usize = 10;

/// What an exchange needs to know of its surroundings.
pub(super) struct Exchange<'a> {
    pub(super) client: &'a Client,
    pub(super) policy: &'a AddressPolicy,
    pub(super) origins: &'a OriginMap,
    pub(super) answer_bytes_max: usize,
    pub(super) follow: bool,
}

/// How an exchange ended.
pub(super) struct Ended {
    /// What the socket saw, or why nothing was sent to where it should have gone.
    pub(super) seen: Result<Seen, Fault>,
    /// Whether a redirect already said that the request was acted upon ("look there").
    pub(super) acted: bool,
}

impl Exchange<'_> {
    pub(super) async fn run(&self, mut outgoing: Outgoing) -> Ended {
        let mut acted = false;
        for _ in 0..=REDIRECTS_MAX {
            let response = match self.send(&outgoing).await {
                Ok(response) => response,
                Err(seen) => return Ended { seen: *seen, acted },
            };
            let Some(next) = self.next_hop(&response, &outgoing.url) else {
                return Ended { seen: Ok(self.read(response).await), acted };
            };
            acted |= changes_method(response.status(), &outgoing.method);
            outgoing = match outgoing.redirected(response.status(), next) {
                Ok(outgoing) => outgoing,
                Err(fault) => return Ended { seen: Err(fault), acted },
            };
        }
        let detail = format!("more than {REDIRECTS_MAX} redirects, the last to {}", outgoing.url);
        let fault = Fault::new(FaultKind::Communication, "Redirects lead nowhere", detail);
        Ended { seen: Err(fault), acted }
    }

    /// Sends a request, and once more if its first answer is a challenge.
    async fn send(&self, outgoing: &Outgoing) -> Result<Response, Box<Result<Seen, Fault>>> {
        let url = self.origins.apply(&outgoing.url);
        let host = url.host_str().unwrap_or_default();
        self.policy.check_host(host).map_err(|denied| Box::new(Err(refused(&denied))))?;
        let response = self.send_once(outgoing, &url, None).await?;
        match challenge_answer(outgoing, &url, &response) {
            Some(answer) => self.send_once(outgoing, &url, Some(answer)).await,
            None => Ok(response),
        }
    }

    async fn send_once(
        &self,
        outgoing: &Outgoing,
        url: &Url,
        authorization: Option<HeaderValue>,
    ) -> Result<Response, Box<Result<Seen, Fault>>> {
        let mut headers = HeaderMap::with_capacity(outgoing.headers.len() + 1);
        for header in &outgoing.headers {
            headers.append(&header.name, header.value.clone());
        }
        if let Some(authorization) = authorization {
            headers.insert(AUTHORIZATION, authorization);
        }
        let mut request =
            self.client.request(outgoing.method.clone(), url.clone()).headers(headers);
        if let Some(body) = &outgoing.body {
            request = request.body(body.clone());
        }
        request.send().await.map_err(|error| Box::new(seen_of(error)))
    }

    fn next_hop(&self, response: &Response, url: &Url) -> Option<Url> {
        let is_redirect = matches!(
            response.status(),
            StatusCode::MOVED_PERMANENTLY
                | StatusCode::FOUND
                | StatusCode::SEE_OTHER
                | StatusCode::TEMPORARY_REDIRECT
                | StatusCode::PERMANENT_REDIRECT
        );
        let location = response.headers().get(LOCATION)?.to_str().ok()?;
        let next = url.join(location).ok()?;
        let usable = matches!(next.scheme(), "http" | "https");
        (self.follow && is_redirect && usable).then_some(next)
    }

    /// Reads an answer, never holding more of its body than the limit.
    async fn read(&self, mut response: Response) -> Seen {
        let status = response.status().as_u16();
        let headers = response
            .headers()
            .iter()
            .map(|(name, text)| {
                (name.as_str().to_owned(), String::from_utf8_lossy(text.as_bytes()).into_owned())
            })
            .collect();
        let mut body = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if self.answer_bytes_max < body.len() + chunk.len() => {
                    let limit = self.answer_bytes_max;
                    let reason = format!("it has more than {limit} bytes, the most that is read");
                    return Seen::Truncated { status, reason };
                }
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => return Seen::Answered { status, headers, body },
                Err(error) => return Seen::Truncated { status, reason: reason(error) },
            }
        }
    }
}

fn challenge_answer(outgoing: &Outgoing, url: &Url, response: &Response) -> Option<HeaderValue> {
    let Some(ResolvedAuthentication::Digest(username, password)) = &outgoing.authentication else {
        return None;
    };
    (response.status() == StatusCode::UNAUTHORIZED).then_some(())?;
    let uri = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let asked = Asked {
        username,
        password,
        method: outgoing.method.as_str(),
        uri: &uri,
        key: &outgoing.key,
    };
    let challenges = response.headers().get_all(WWW_AUTHENTICATE);
    let texts = challenges.iter().filter_map(|text| text.to_str().ok());
    HeaderValue::from_bytes(answer_challenge(texts, &asked)?.as_bytes()).ok()
}

/// What an error of the client says about whether the request left.
fn seen_of(error: reqwest::Error) -> Result<Seen, Fault> {
    let mut source: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(inner) = source {
        if let Some(denied) = inner.downcast_ref::<Denied>() {
            return Err(refused(denied));
        }
        source = inner.source();
    }
    // Whatever ended before a connection stood cannot have reached the provider. Everything else
    // may have.
    if error.is_connect() || error.is_builder() {
        Ok(Seen::NotSent { reason: reason(error) })
    } else {
        Ok(Seen::Lost { reason: reason(error) })
    }
}

fn refused(denied: &Denied) -> Fault {
    Fault::new(FaultKind::Authorization, "Address is not allowed", denied.to_string())
}

/// The error and its causes in one line, without the URI, which may hold a secret.
fn reason(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut texts = vec![error.to_string()];
    let mut source = error.source();
    while let Some(inner) = source {
        let text = inner.to_string();
        if texts.last() != Some(&text) {
            texts.push(text);
        }
        source = inner.source();
    }
    texts.join(": ")
}
