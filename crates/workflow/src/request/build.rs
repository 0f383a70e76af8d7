//! From the evaluated arguments of an HTTP call to the request that is to be made.

use outlast_expressions::{Value, value};

use super::uri::{expand, with_query};
use super::{ResolvedAuthentication, Target};
use crate::program::HttpOutput;
use crate::{Fault, FaultKind};

/// Makes the request of an HTTP call.
///
/// `arguments` is the evaluated `with`: method, endpoint (a URI template, or an object of `uri` and
/// `authentication`), headers, query and body. `input` is the task's transformed input, from which
/// the endpoint is filled in. Authentication given here wins over that in the endpoint object.
pub fn build_http(
    arguments: &Value,
    input: &Value,
    output: HttpOutput,
    redirect: bool,
    authentication: Option<ResolvedAuthentication>,
) -> Result<Target, Fault> {
    let endpoint = value::get(arguments, "endpoint").unwrap_or(&Value::Null);
    let own_authentication = match authentication {
        Some(authentication) => Some(authentication),
        None => value::get(endpoint, "authentication").map(inline_authentication).transpose()?,
    };
    Ok(Target::Http {
        method: method(value::get(arguments, "method"))?,
        uri: uri(endpoint, value::get(arguments, "query"), input)?,
        headers: headers(value::get(arguments, "headers"))?,
        body: value::get(arguments, "body").cloned().unwrap_or(Value::Null),
        output,
        redirect,
        authentication: own_authentication,
    })
}

/// The text of a text, a number or a boolean; nothing for anything else.
pub fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::TStr(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::Num(_) | Value::Bool(_) => Some(value::to_text(value)),
        _ => None,
    }
}

fn method(given: Option<&Value>) -> Result<String, Fault> {
    let text = given.and_then(scalar_text).unwrap_or_default();
    // CONNECT and TRACE never reach a service: one is for proxies, the other echoes credentials.
    let usable = !text.is_empty()
        && text.chars().all(|character| character.is_ascii_alphabetic() || character == '-')
        && !["CONNECT", "TRACE"].iter().any(|never| text.eq_ignore_ascii_case(never));
    if !usable {
        let detail = format!("`{text}` is not a method; use get, post, put, patch, delete or head");
        return Err(Fault::new(FaultKind::Configuration, "HTTP method is not usable", detail));
    }
    Ok(text.to_ascii_uppercase())
}

fn uri(endpoint: &Value, query: Option<&Value>, input: &Value) -> Result<String, Fault> {
    let template = match endpoint {
        Value::Obj(_) => value::get(endpoint, "uri").and_then(value::as_str),
        plain => value::as_str(plain),
    };
    let Some(template) = template else {
        let detail = "`endpoint` must be a URI or an object with a `uri`";
        return Err(Fault::new(FaultKind::Configuration, "Endpoint is missing", detail));
    };
    let uri = with_query(expand(template, input)?, &query_parameters(query)?);
    let scheme = uri.split_once("://").map_or("", |(scheme, _)| scheme);
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        let detail = format!("`{uri}` is not an absolute http or https URI");
        return Err(Fault::new(FaultKind::Configuration, "Endpoint is not usable", detail));
    }
    Ok(uri)
}

fn query_parameters(query: Option<&Value>) -> Result<Vec<(String, String)>, Fault> {
    let mut parameters = Vec::new();
    for (name, given) in members(query, "query")? {
        match given {
            Value::Arr(items) => {
                for item in items.iter() {
                    parameters.extend(pair("query", name.clone(), item)?);
                }
            }
            single => parameters.extend(pair("query", name, single)?),
        }
    }
    Ok(parameters)
}

fn headers(given: Option<&Value>) -> Result<Vec<(String, String)>, Fault> {
    let mut headers = Vec::new();
    for (name, given) in members(given, "headers")? {
        let is_token = |character: char| {
            character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(character)
        };
        let found = pair("headers", name, given)?;
        if let Some((name, text)) = &found
            && (name.is_empty() || !name.chars().all(is_token) || text.contains(['\r', '\n', '\0']))
        {
            let detail = format!("the header `{}` cannot be sent as it is", name.escape_debug());
            return Err(Fault::new(FaultKind::Configuration, "Header is not usable", detail));
        }
        headers.extend(found);
    }
    Ok(headers)
}

fn pair(part: &str, name: String, given: &Value) -> Result<Option<(String, String)>, Fault> {
    if matches!(given, Value::Null) {
        return Ok(None);
    }
    match scalar_text(given) {
        Some(text) => Ok(Some((name, text))),
        None => {
            let detail = format!("`{name}` in `{part}` must be a text, a number or a boolean");
            Err(Fault::new(FaultKind::Expression, "Value cannot be sent", detail))
        }
    }
}

fn members<'a>(given: Option<&'a Value>, part: &str) -> Result<Vec<(String, &'a Value)>, Fault> {
    match given {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(object @ Value::Obj(_)) => {
            Ok(value::members(object).map(|(name, member)| (name.to_owned(), member)).collect())
        }
        Some(_) => {
            let detail = format!("`{part}` must be an object");
            Err(Fault::new(FaultKind::Expression, "Value cannot be sent", detail))
        }
    }
}

/// Authentication written into the endpoint; named and delegated ones are resolved by the compiler.
fn inline_authentication(given: &Value) -> Result<ResolvedAuthentication, Fault> {
    let field = |scheme: &str, name: &str| {
        value::get(given, scheme)
            .and_then(|scheme| value::get(scheme, name))
            .and_then(value::as_str)
    };
    let pair = |scheme| Some((field(scheme, "username")?, field(scheme, "password")?));
    if let Some((username, password)) = pair("basic") {
        return Ok(ResolvedAuthentication::Basic(username.to_owned(), password.to_owned()));
    }
    if let Some(token) = field("bearer", "token") {
        return Ok(ResolvedAuthentication::Bearer(token.to_owned()));
    }
    if let Some((username, password)) = pair("digest") {
        return Ok(ResolvedAuthentication::Digest(username.to_owned(), password.to_owned()));
    }
    let detail = "`endpoint.authentication` must be basic or digest (username and password) or \
                  bearer (token)";
    Err(Fault::new(FaultKind::Configuration, "Authentication is not usable", detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Value {
        value::parse(text).unwrap()
    }

    fn build(arguments: &str) -> Result<Target, Fault> {
        build_http(&json(arguments), &json(r#"{"id": 5}"#), HttpOutput::Content, false, None)
    }

    #[test]
    fn builds_a_whole_request() {
        let target = build(
            r#"{"method": "post", "endpoint": "http://x/rounds/{id}",
                "headers": {"X-Count": 3, "X-None": null}, "query": {"tag": ["a", 2], "on": true},
                "body": {"a": 1}}"#,
        );
        let expected = Target::Http {
            method: "POST".into(),
            uri: "http://x/rounds/5?tag=a&tag=2&on=true".into(),
            headers: vec![("X-Count".into(), "3".into())],
            body: json(r#"{"a": 1}"#),
            output: HttpOutput::Content,
            redirect: false,
            authentication: None,
        };
        assert_eq!(target, Ok(expected));
    }

    #[test]
    fn a_missing_body_is_no_body() {
        let Ok(Target::Http { body, .. }) = build(r#"{"method": "GET", "endpoint": "https://x"}"#)
        else {
            panic!("must build");
        };
        assert_eq!(body, Value::Null);
    }

    #[test]
    fn takes_authentication_from_the_endpoint_object() {
        let Ok(Target::Http { authentication, uri, .. }) = build(
            r#"{"method": "get", "endpoint": {"uri": "http://x/{id}",
                "authentication": {"basic": {"username": "u", "password": "p"}}}}"#,
        ) else {
            panic!("must build");
        };
        assert_eq!(uri, "http://x/5");
        assert_eq!(authentication, Some(ResolvedAuthentication::Basic("u".into(), "p".into())));
    }

    #[test]
    fn refuses_what_is_not_http() {
        for endpoint in ["file:///etc/passwd", "ftp://x", "/relative", "gopher://x", "x"] {
            let arguments = format!(r#"{{"method": "get", "endpoint": "{endpoint}"}}"#);
            assert!(build(&arguments).unwrap_err().is(FaultKind::Configuration), "{endpoint}");
        }
    }

    #[test]
    fn refuses_methods_that_are_none() {
        for method in ["", "ge t", "connect", "TRACE", "GET /"] {
            let arguments = format!(r#"{{"method": "{method}", "endpoint": "http://x"}}"#);
            assert!(build(&arguments).unwrap_err().is(FaultKind::Configuration), "{method}");
        }
    }

    #[test]
    fn refuses_headers_that_would_smuggle() {
        let arguments =
            r#"{"method": "get", "endpoint": "http://x", "headers": {"a": "b\r\nc: d"}}"#;
        assert!(build(arguments).unwrap_err().is(FaultKind::Configuration));
        let arguments = r#"{"method": "get", "endpoint": "http://x", "headers": {"a b": "c"}}"#;
        assert!(build(arguments).unwrap_err().is(FaultKind::Configuration));
    }

    #[test]
    fn a_query_of_objects_is_an_expression_fault() {
        let arguments = r#"{"method": "get", "endpoint": "http://x", "query": {"a": {"b": 1}}}"#;
        let fault = build(arguments).unwrap_err();
        assert!(fault.is(FaultKind::Expression));
        assert_eq!(fault.status, 400);
    }
}
