//! What became of an HTTP call, judged from what its socket saw.
//!
//! The one question that matters is whether the provider may have acted. It has definitely not when
//! the request never left, and it has said so when it answered with an error. In every other case
//! without a usable answer the outcome is unknown, and the engine finds out by asking again with
//! the same key, by undoing, or by asking a person.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use outlast_expressions::{Value, value};

use crate::program::HttpOutput;
use crate::secret::Revealed;
use crate::{Answer, Fault, FaultKind};

/// How much of an error's body is quoted in a fault.
const QUOTED_CHARACTERS_MAX: usize = 200;

/// What was sent, as the document has it: stand-ins in place of secrets, the origin before mapping.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// Upper case.
    pub method: &'a str,
    /// The whole URI.
    pub uri: &'a str,
    /// Header names and values.
    pub headers: &'a [(String, String)],
    /// What of the answer is wanted.
    pub output: HttpOutput,
    /// Whether 3xx is a success.
    pub redirect: bool,
}

/// What a socket saw of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// A whole answer.
    Answered {
        /// Its status.
        status: u16,
        /// Its headers, with names in lower case.
        headers: Vec<(String, String)>,
        /// Its body.
        body: Vec<u8>,
    },
    /// A status, but not the whole body: the connection broke, or there was too much.
    Truncated {
        /// Its status.
        status: u16,
        /// Why the rest is missing.
        reason: String,
    },
    /// The request never left: no such host, refused, no secure connection.
    NotSent {
        /// Why.
        reason: String,
    },
    /// The request may have left, and the connection ended without an answer.
    Lost {
        /// Why.
        reason: String,
    },
    /// The request may have left, and nobody waits any longer.
    TimedOut {
        /// How long it was waited for.
        after: Duration,
    },
}

/// Says what became of a call.
pub fn judge(sent: &Sent<'_>, seen: Seen, revealed: &Revealed) -> Answer {
    let answer = match seen {
        Seen::Answered { status, headers, body } if is_success(status, sent.redirect) => {
            return success(sent, status, headers, body, revealed);
        }
        Seen::Answered { status, headers, body } => refusal(sent, status, &headers, &body),
        Seen::Truncated { status, reason } if !is_success(status, sent.redirect) => {
            refusal(sent, status, &[], reason.as_bytes())
        }
        Seen::Truncated { status, reason } => Answer::Unknown(fault(
            sent,
            "Answer is incomplete",
            &format!("answered {status}, but not the whole answer could be read: {reason}"),
        )),
        Seen::NotSent { reason } => {
            Answer::Failed(fault(sent, "Service cannot be reached", &reason))
        }
        Seen::Lost { reason } => Answer::Unknown(fault(
            sent,
            "Service did not answer",
            &format!("the connection ended before an answer came: {reason}"),
        )),
        Seen::TimedOut { after } => Answer::Unknown(Fault::new(
            FaultKind::Timeout,
            "Service did not answer in time",
            format!("{} {} did not answer within {after:?}", sent.method, sent.uri),
        )),
    };
    masked(answer, revealed)
}

fn is_success(status: u16, redirect: bool) -> bool {
    let first_error = if redirect { 400 } else { 300 };
    (200..first_error).contains(&status)
}

fn success(
    sent: &Sent<'_>,
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    revealed: &Revealed,
) -> Answer {
    if sent.output == HttpOutput::Raw {
        return Answer::Succeeded(base64_text(revealed.mask_bytes(body)));
    }
    let content = match decode(&headers, body, revealed) {
        Ok(content) => content,
        // The provider has acted, so this is no failure; what it said is lost.
        Err(problem) => {
            let detail = format!("answered {status} with a body that is not JSON: {problem}");
            let answer = Answer::Unknown(fault(sent, "Answer cannot be read", &detail));
            return masked(answer, revealed);
        }
    };
    Answer::Succeeded(match sent.output {
        HttpOutput::Response => response(sent, status, &headers, content, revealed),
        _ => content,
    })
}

/// Decodes a body by its content type: JSON, text, or base64 for everything else.
fn decode(
    headers: &[(String, String)],
    body: Vec<u8>,
    revealed: &Revealed,
) -> Result<Value, value::ParseError> {
    let essence = header(headers, "content-type")
        .and_then(|content_type| content_type.split(';').next())
        .map(|essence| essence.trim().to_ascii_lowercase())
        .unwrap_or_default();
    if essence.starts_with("text/") && !essence.ends_with("/json") {
        return Ok(value::string(&revealed.mask(&String::from_utf8_lossy(&body))));
    }
    if body.is_empty() {
        return Ok(Value::Null);
    }
    if essence.ends_with("/json") || essence.ends_with("+json") {
        return value::parse(&body).map(|decoded| revealed.mask_value(decoded));
    }
    Ok(base64_text(revealed.mask_bytes(body)))
}

fn response(
    sent: &Sent<'_>,
    status: u16,
    headers: &[(String, String)],
    content: Value,
    revealed: &Revealed,
) -> Value {
    let request = value::object([
        ("method", value::string(sent.method)),
        ("uri", value::string(sent.uri)),
        ("headers", header_object(sent.headers)),
    ]);
    value::object([
        ("request", request),
        ("statusCode", value::integer(i64::from(status))),
        ("headers", revealed.mask_value(header_object(headers))),
        ("content", content),
    ])
}

/// Headers as an object with names in lower case; repeated ones are joined by a comma.
fn header_object(headers: &[(String, String)]) -> Value {
    let mut joined: Vec<(String, String)> = Vec::new();
    for (name, text) in headers {
        let name = name.to_ascii_lowercase();
        match joined.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => {
                known.push_str(", ");
                known.push_str(text);
            }
            None => joined.push((name, text.clone())),
        }
    }
    value::object(joined.iter().map(|(name, text)| (name.as_str(), value::string(text))))
}

fn refusal(sent: &Sent<'_>, status: u16, headers: &[(String, String)], body: &[u8]) -> Answer {
    let mut detail = format!("answered {status}");
    if let Some(wait) = header(headers, "retry-after") {
        detail.push_str(&format!(" and asks to try again after {wait}"));
    }
    if let Some(quote) = quoted(body) {
        detail.push_str(&format!(": {quote}"));
    }
    let fault = fault(sent, "Service answered with an error", &detail).with_status(status);
    match status {
        // A gateway says that it does not know what became of the request behind it.
        502 | 504 => Answer::Unknown(fault),
        _ => Answer::Failed(fault),
    }
}

fn fault(sent: &Sent<'_>, title: &str, what: &str) -> Fault {
    let detail = format!("{} {}: {what}", sent.method, sent.uri);
    Fault::new(FaultKind::Communication, title, detail)
}

fn masked(answer: Answer, revealed: &Revealed) -> Answer {
    let mask = |fault: Fault| Fault {
        detail: fault.detail.map(|detail| revealed.mask(&detail).into_owned()),
        ..fault
    };
    match answer {
        Answer::Failed(fault) => Answer::Failed(mask(fault)),
        Answer::Unknown(fault) => Answer::Unknown(mask(fault)),
        succeeded => succeeded,
    }
}

fn quoted(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut quote: String = text.chars().take(QUOTED_CHARACTERS_MAX).collect();
    if quote.len() < text.len() {
        quote.push('…');
    }
    (!quote.is_empty()).then_some(quote)
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, text)| text.as_str())
}

fn base64_text(bytes: Vec<u8>) -> Value {
    value::string(&STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(output: HttpOutput) -> Sent<'static> {
        Sent { method: "POST", uri: "http://x/y", headers: &[], output, redirect: false }
    }

    fn answered(status: u16, content_type: &str, body: &str) -> Seen {
        let headers = vec![("content-type".to_owned(), content_type.to_owned())];
        Seen::Answered { status, headers, body: body.as_bytes().to_vec() }
    }

    fn judged(seen: Seen) -> Answer {
        judge(&sent(HttpOutput::Content), seen, &Revealed::default())
    }

    fn output(output: HttpOutput, seen: Seen) -> String {
        match judge(&sent(output), seen, &Revealed::default()) {
            Answer::Succeeded(value) => value::to_text(&value),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn decodes_content_by_its_type() {
        let content =
            |content_type, body| output(HttpOutput::Content, answered(200, content_type, body));
        assert_eq!(content("application/json; charset=utf-8", r#"{"a": 1}"#), r#"{"a":1}"#);
        assert_eq!(content("application/problem+json", "[]"), "[]");
        assert_eq!(content("text/json", "2"), "2");
        assert_eq!(content("text/plain", "hé"), r#""hé""#);
        assert_eq!(content("text/plain", ""), r#""""#);
        assert_eq!(content("application/octet-stream", "hi"), r#""aGk=""#);
        assert_eq!(content("application/json", ""), "null");
    }

    #[test]
    fn raw_output_is_base64_whatever_the_type() {
        assert_eq!(output(HttpOutput::Raw, answered(200, "application/json", "hi")), r#""aGk=""#);
    }

    #[test]
    fn the_response_output_tells_the_whole_exchange() {
        let headers = vec![
            ("Content-Type".to_owned(), "text/plain".to_owned()),
            ("set-cookie".to_owned(), "a".to_owned()),
            ("Set-Cookie".to_owned(), "b".to_owned()),
        ];
        let seen = Seen::Answered { status: 201, headers, body: b"ok".to_vec() };
        assert_eq!(
            output(HttpOutput::Response, seen),
            concat!(
                r#"{"request":{"method":"POST","uri":"http://x/y","headers":{}},"statusCode":201,"#,
                r#""headers":{"content-type":"text/plain","set-cookie":"a, b"},"content":"ok"}"#
            )
        );
    }

    #[test]
    fn an_error_status_is_a_definite_failure_with_that_status() {
        let Answer::Failed(fault) = judged(answered(404, "text/plain", "no\n such  pet")) else {
            panic!("must fail");
        };
        assert!(fault.is(FaultKind::Communication));
        assert_eq!(fault.status, 404);
        assert_eq!(fault.detail.unwrap(), "POST http://x/y: answered 404: no such pet");
    }

    #[test]
    fn a_long_error_body_is_quoted_in_part() {
        let Answer::Failed(fault) = judged(answered(500, "text/plain", &"ü".repeat(5000))) else {
            panic!("must fail");
        };
        assert!(fault.detail.unwrap().chars().count() < QUOTED_CHARACTERS_MAX + 50);
    }

    #[test]
    fn tells_when_the_provider_asks_to_wait() {
        let headers = vec![("retry-after".to_owned(), "30".to_owned())];
        let Answer::Failed(fault) =
            judged(Seen::Answered { status: 503, headers, body: Vec::new() })
        else {
            panic!("must fail");
        };
        assert_eq!(fault.status, 503);
        assert!(fault.detail.unwrap().ends_with("asks to try again after 30"));
    }

    #[test]
    fn a_redirect_is_an_error_unless_redirects_are_wanted() {
        assert!(matches!(judged(answered(304, "", "")), Answer::Failed(_)));
        let wanted = Sent { redirect: true, ..sent(HttpOutput::Content) };
        let answer = judge(&wanted, answered(304, "", ""), &Revealed::default());
        assert_eq!(answer, Answer::Succeeded(Value::Null));
    }

    #[test]
    fn what_never_left_has_failed() {
        let answer = judged(Seen::NotSent { reason: "connection refused".into() });
        assert!(matches!(answer, Answer::Failed(fault) if fault.is(FaultKind::Communication)));
    }

    #[test]
    fn what_may_have_left_without_an_answer_is_unknown() {
        let lost = judged(Seen::Lost { reason: "reset".into() });
        assert!(matches!(lost, Answer::Unknown(fault) if fault.is(FaultKind::Communication)));
        let late = judged(Seen::TimedOut { after: Duration::from_secs(3) });
        assert!(matches!(late, Answer::Unknown(fault) if fault.is(FaultKind::Timeout)));
        let cut = judged(Seen::Truncated { status: 200, reason: "too large".into() });
        assert!(matches!(cut, Answer::Unknown(_)));
        let garbled = judged(answered(200, "application/json", "{"));
        assert!(matches!(garbled, Answer::Unknown(_)));
    }

    #[test]
    fn a_gateway_that_gave_up_leaves_the_outcome_unknown() {
        for status in [502, 504] {
            let answer = judged(answered(status, "text/html", "bad gateway"));
            assert!(matches!(answer, Answer::Unknown(fault) if fault.status == status));
        }
    }

    #[test]
    fn an_error_status_is_definite_even_if_its_body_is_cut() {
        let answer = judged(Seen::Truncated { status: 422, reason: "reset".into() });
        assert!(matches!(answer, Answer::Failed(fault) if fault.status == 422));
    }

    #[test]
    fn no_secret_comes_back_in_any_form() {
        let mut revealed = Revealed::default();
        revealed.note("hunter2", "⟦T⟧");
        for output in [HttpOutput::Raw, HttpOutput::Content, HttpOutput::Response] {
            for (status, content_type) in
                [(200, "text/plain"), (200, "application/json"), (200, "a/b"), (401, "text/plain")]
            {
                let headers = vec![
                    ("content-type".to_owned(), content_type.to_owned()),
                    ("x-echo".to_owned(), "hunter2".to_owned()),
                ];
                let body = br#"{"echo": "hunter2"}"#.to_vec();
                let seen = Seen::Answered { status, headers, body };
                let answer = format!("{:?}", judge(&sent(output), seen, &revealed));
                assert!(!answer.contains("hunter2"), "{output:?} {content_type} {answer}");
                assert!(!answer.contains("aHVudGVyMg"), "{output:?} {content_type} {answer}");
            }
        }
    }
}
