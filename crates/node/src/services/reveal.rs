//! From a request with stand-ins to one that can be sent: the moment secrets come in.

use bytes::Bytes;
use outlast_expressions::{Value, value};
use outlast_workflow::secret::{self, Revealed};
use outlast_workflow::{
    Fault, FaultKind, Request, ResolvedAuthentication, percent_encode, scalar_text,
};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderName, HeaderValue, USER_AGENT};
use reqwest::{Method, StatusCode, Url};

use super::authentication::unchallenged;
use super::secrets::{self, SecretSource};

const DEFAULT_KEY_HEADER: &str = "Idempotency-Key";

/// The header with the key of the call that a request undoes.
const UNDOES_HEADER: &str = "Outlast-Undoes";

/// A request as it goes over the wire, before its origin is mapped.
pub(super) struct Outgoing {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: Vec<Header>,
    pub(super) body: Option<Bytes>,
    /// Answers challenges; what needs none is among the headers.
    pub(super) authentication: Option<ResolvedAuthentication>,
    pub(super) key: String,
    body_is_secret: bool,
}

/// A header, and whether it may only be seen by the origin it was meant for.
pub(super) struct Header {
    pub(super) name: HeaderName,
    pub(super) value: HeaderValue,
    personal: bool,
}

/// What is to be sent, with stand-ins.
pub(super) struct Plain<'a> {
    pub(super) method: &'a str,
    pub(super) uri: &'a str,
    pub(super) headers: &'a [(String, String)],
    pub(super) body: &'a Value,
    /// Whether texts and null are sent as JSON too.
    pub(super) json_body: bool,
    pub(super) authentication: Option<&'a ResolvedAuthentication>,
}

/// Puts the secrets in. Gives what to send, and what to look for in the answer.
pub(super) fn prepare(
    request: &Request,
    plain: &Plain<'_>,
    source: &dyn SecretSource,
) -> Result<(Outgoing, Revealed), Fault> {
    let mut secrets = Unlocked { salt: &request.salt, source, revealed: Revealed::default() };
    let url = secrets.uri(plain.uri)?;
    let mut headers = secrets.headers(plain.headers)?;
    let authentication =
        plain.authentication.map(|given| secrets.authentication(given)).transpose()?;
    if let Some(text) = authentication.as_ref().and_then(unchallenged) {
        headers.push(Header { personal: true, ..header(AUTHORIZATION.as_str(), &text)? });
    }
    let (body, body_is_secret) = secrets.body(plain)?;
    add_own_headers(&mut headers, request, plain, body.is_some())?;
    let method = Method::from_bytes(plain.method.as_bytes())
        .map_err(|_| unusable(&format!("`{}` is not a method", plain.method)))?;
    let key = request.key_text();
    let outgoing = Outgoing { method, url, headers, body, authentication, key, body_is_secret };
    Ok((outgoing, secrets.revealed))
}

impl Outgoing {
    /// The request that a redirect asks for, without what only the first origin may see.
    pub(super) fn redirected(mut self, status: StatusCode, url: Url) -> Result<Self, Fault> {
        if changes_method(status, &self.method) {
            self.method = Method::GET;
            self.body = None;
            self.body_is_secret = false;
            self.headers.retain(|header| header.name != CONTENT_TYPE);
        }
        if url.origin() != self.url.origin() {
            if self.body_is_secret {
                let detail = format!(
                    "a redirect to {} would carry a secret in the body to another origin",
                    url.origin().ascii_serialization()
                );
                return Err(Fault::new(FaultKind::Authorization, "Redirect is not safe", detail));
            }
            self.headers.retain(|header| !header.personal);
            self.authentication = None;
        }
        self.url = url;
        Ok(self)
    }
}

/// Whether a redirect means "it is done, look there" rather than "do it there".
pub(super) fn changes_method(status: StatusCode, method: &Method) -> bool {
    match status {
        StatusCode::SEE_OTHER => *method != Method::GET && *method != Method::HEAD,
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => *method == Method::POST,
        _ => false,
    }
}

struct Unlocked<'a> {
    salt: &'a [u8; 16],
    source: &'a dyn SecretSource,
    revealed: Revealed,
}

impl Unlocked<'_> {
    fn text(&mut self, text: &str) -> Result<String, Fault> {
        let (source, revealed) = (self.source, &mut self.revealed);
        let text = secret::substitute(self.salt, text, |stand_in, name, path| {
            let secret = secrets::reveal(source, name, path)?;
            revealed.note(&secret, stand_in);
            Ok(secret)
        })?;
        Ok(text.into_owned())
    }

    fn uri(&mut self, uri: &str) -> Result<Url, Fault> {
        let (source, revealed) = (self.source, &mut self.revealed);
        let filled = secret::substitute(self.salt, uri, |stand_in, name, path| {
            let secret = secrets::reveal(source, name, path)?;
            let encoded = percent_encode(&secret);
            revealed.note(&secret, stand_in);
            Ok(encoded)
        })?;
        let url = Url::parse(&filled).map_err(|error| unusable(&format!("`{uri}`: {error}")))?;
        if matches!(url.scheme(), "http" | "https") && url.has_host() {
            Ok(url)
        } else {
            Err(unusable(&format!("`{uri}` is not an http or https URI")))
        }
    }

    fn headers(&mut self, given: &[(String, String)]) -> Result<Vec<Header>, Fault> {
        let mut headers = Vec::with_capacity(given.len() + 4);
        for (name, text) in given {
            let filled = self.text(text)?;
            let found = header(name, &filled)?;
            let personal = filled != *text || found.name == AUTHORIZATION || found.name == COOKIE;
            headers.push(Header { personal, ..found });
        }
        Ok(headers)
    }

    fn authentication(
        &mut self,
        given: &ResolvedAuthentication,
    ) -> Result<ResolvedAuthentication, Fault> {
        Ok(match given {
            ResolvedAuthentication::Basic(username, password) => {
                let filled =
                    ResolvedAuthentication::Basic(self.text(username)?, self.text(password)?);
                // The pair is sent in another alphabet, so its echo must be known in that one too.
                if let Some(token) = secret::find_stand_ins(password).first()
                    && let Some(header) = unchallenged(&filled)
                {
                    self.revealed
                        .note(header.trim_start_matches("Basic "), &password[token.clone()]);
                }
                filled
            }
            ResolvedAuthentication::Bearer(token) => {
                ResolvedAuthentication::Bearer(self.text(token)?)
            }
            ResolvedAuthentication::Digest(username, password) => {
                ResolvedAuthentication::Digest(self.text(username)?, self.text(password)?)
            }
        })
    }

    fn body(&mut self, plain: &Plain<'_>) -> Result<(Option<Bytes>, bool), Fault> {
        let text = match plain.body {
            Value::Null if !plain.json_body => return Ok((None, false)),
            Value::TStr(bytes) if !plain.json_body => {
                let text = String::from_utf8_lossy(bytes).into_owned();
                let filled = self.text(&text)?;
                return Ok((Some(Bytes::from(filled.clone())), filled != text));
            }
            other => value::to_text(other),
        };
        if secret::find_stand_ins(&text).is_empty() {
            return Ok((Some(Bytes::from(text)), false));
        }
        let filled = value::to_text(&self.value(plain.body)?);
        let secret = filled != text;
        Ok((Some(Bytes::from(filled)), secret))
    }

    fn value(&mut self, given: &Value) -> Result<Value, Fault> {
        match given {
            Value::TStr(_) => {
                let text = scalar_text(given).unwrap_or_default();
                Ok(value::string(&self.text(&text)?))
            }
            Value::Arr(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Obj(members) => {
                let mut filled = Vec::with_capacity(members.len());
                for (name, member) in members.iter() {
                    filled.push((name.clone(), self.value(member)?));
                }
                Ok(Value::obj(filled.into_iter().collect()))
            }
            other => Ok(other.clone()),
        }
    }
}

fn add_own_headers(
    headers: &mut Vec<Header>,
    request: &Request,
    plain: &Plain<'_>,
    has_body: bool,
) -> Result<(), Fault> {
    let key_header = request.key_header.as_deref().unwrap_or(DEFAULT_KEY_HEADER);
    let content_type = match plain.body {
        Value::TStr(_) if !plain.json_body => "text/plain; charset=utf-8",
        _ => "application/json",
    };
    let mut own = vec![
        header(key_header, &request.key_text())?,
        header(USER_AGENT.as_str(), concat!("outlast/", env!("CARGO_PKG_VERSION")))?,
    ];
    if let Some(undone) = request.undoes_text() {
        own.push(header(UNDOES_HEADER, &undone)?);
    }
    if has_body {
        own.push(header(CONTENT_TYPE.as_str(), content_type)?);
    }
    // What the document says itself is left as it says it.
    own.retain(|own| !headers.iter().any(|given| given.name == own.name));
    headers.append(&mut own);
    Ok(())
}

fn header(name: &str, text: &str) -> Result<Header, Fault> {
    // The text may be secret, so it is not shown.
    let error =
        || unusable(&format!("the header `{}` cannot be sent as it is", name.escape_debug()));
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| error())?;
    let value = HeaderValue::from_bytes(text.as_bytes()).map_err(|_| error())?;
    Ok(Header { name, value, personal: false })
}

fn unusable(detail: &str) -> Fault {
    Fault::new(FaultKind::Configuration, "Request cannot be sent", detail)
}
