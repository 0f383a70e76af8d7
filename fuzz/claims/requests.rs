//! Any arguments of an HTTP call, and any answer to it.
//!
//! An input has up to three parts with a line `---` between them: the arguments in JSON, the task's
//! input in JSON, and the answer: a line with its status, its headers, an empty line, its body. The
//! call used a secret, which no judgement of the answer may show.

use outlast_expressions::{Value, value};
use outlast_workflow::program::HttpOutput;
use outlast_workflow::secret::{Revealed, stand_in};
use outlast_workflow::{Answer, Seen, Sent, Target, build_http, judge};

const SEPARATOR: &[u8] = b"\n---\n";

/// It holds what is treated in its own way by JSON, by URIs, and by headers that are given twice.
const SECRET: &str = "open, \"sesame\"/é";

pub(crate) fn hold(bytes: &[u8]) {
    let (arguments, rest) = split_once(bytes, SEPARATOR);
    let (input, answer) = split_once(rest, SEPARATOR);
    let arguments = value::parse(arguments).unwrap_or_default();
    let input = value::parse(input).unwrap_or_default();
    for output in [HttpOutput::Raw, HttpOutput::Content, HttpOutput::Response] {
        let built = build_http(&arguments, &input, output, false, None);
        let Ok(target) = built else { continue };
        can_be_sent(&target);
        keeps_the_secret(&target, answer);
    }
    let nothing = Target::Http {
        method: "GET".to_owned(),
        uri: "http://localhost/".to_owned(),
        headers: Vec::new(),
        body: Value::Null,
        output: HttpOutput::Response,
        redirect: true,
        authentication: None,
    };
    keeps_the_secret(&nothing, answer);
}

/// Nothing in a request can be taken for more than it is by whoever reads it off a wire.
fn can_be_sent(target: &Target) {
    let Target::Http { method, uri, headers, .. } = target else { panic!("{target:?}") };
    assert!(!method.is_empty() && method.bytes().all(|it| it.is_ascii_uppercase() || it == b'-'));
    let scheme = uri.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    assert!(["http", "https"].contains(&scheme.unwrap_or_default().as_str()), "{uri:?}");
    assert!(!uri.contains(|it: char| it.is_control()), "{uri:?}");
    for (name, text) in headers {
        assert!(name.bytes().all(|it| it.is_ascii_graphic() && it != b':'), "{name:?}");
        assert!(!text.contains(['\r', '\n', '\0']), "{text:?}");
    }
}

fn keeps_the_secret(target: &Target, answer: &[u8]) {
    let Target::Http { method, uri, headers, output, redirect, .. } = target else { return };
    let (output, redirect) = (*output, *redirect);
    // Whoever writes the secret into a document shows it there.
    if [uri, method].iter().any(|text| text.contains(SECRET))
        || headers.iter().any(|(name, text)| name.contains(SECRET) || text.contains(SECRET))
    {
        return;
    }
    let sent = Sent { method, uri, headers, output, redirect };
    let mut revealed = Revealed::default();
    revealed.note(SECRET, &stand_in(&[7; 16], "door", "word"));
    for seen in seen(answer) {
        let shown = match judge(&sent, seen, &revealed) {
            Answer::Succeeded(made) | Answer::TooLarge(made, _) => shown_by(&made),
            Answer::Failed(fault) | Answer::Unknown(fault) => {
                [fault.title, fault.detail].into_iter().flatten().collect()
            }
        };
        assert!(!shown.iter().any(|text| text.contains(SECRET)), "{shown:?}");
    }
}

/// All texts in a value, the names of members included.
fn shown_by(value: &Value) -> Vec<String> {
    match value {
        Value::Arr(items) => items.iter().flat_map(shown_by).collect(),
        Value::Obj(_) => value::members(value)
            .flat_map(|(name, member)| [vec![name.to_owned()], shown_by(member)].concat())
            .collect(),
        other => value::as_str(other).map(str::to_owned).into_iter().collect(),
    }
}

/// What a socket can have seen of an answer.
fn seen(answer: &[u8]) -> [Seen; 4] {
    let (head, body) = split_once(answer, b"\n\n");
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.parse().ok()).unwrap_or(200);
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, text)| (name.to_ascii_lowercase(), text.to_owned()))
        .collect();
    let reason = String::from_utf8_lossy(body).into_owned();
    [
        Seen::Answered { status, headers, body: body.to_vec() },
        Seen::Truncated { status, reason: reason.clone() },
        Seen::NotSent { reason: reason.clone() },
        Seen::Lost { reason },
    ]
}

fn split_once<'a>(bytes: &'a [u8], separator: &[u8]) -> (&'a [u8], &'a [u8]) {
    let found = bytes.windows(separator.len()).position(|window| window == separator);
    match found {
        Some(at) => (&bytes[..at], &bytes[at + separator.len()..]),
        None => (bytes, &[]),
    }
}
