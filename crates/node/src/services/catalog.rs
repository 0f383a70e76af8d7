//! Services a node offers by itself: the default catalog (`name:version@default`).

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use outlast_expressions::{Value, value};
use outlast_workflow::{Answer, Fault, FaultKind};

/// The longest a `sleep` takes; more would hold a call open for nothing.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// An answer on its way.
pub type Calling<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

/// A set of service types that are called without a socket.
pub trait Catalog: Send + Sync {
    /// Whether a service type is in it.
    fn offers(&self, name: &str, version: &str) -> bool;

    /// Answers at once if the service needs neither time nor IO; nothing if it must be awaited.
    fn call_inline(
        &self,
        name: &str,
        version: &str,
        arguments: &Value,
        key: &str,
    ) -> Option<Answer>;

    /// Calls a service type that is in it.
    fn call<'a>(
        &'a self,
        name: &'a str,
        version: &'a str,
        arguments: &'a Value,
        key: &'a str,
    ) -> Calling<'a>;
}

/// The services every node has: for examples, tests and measurements.
///
/// - `echo:1.0.0` answers its arguments, `noop:1.0.0` null.
/// - `fail:1.0.0` fails with `{status, title, detail}`; with `unknown: true` its outcome is unknown.
/// - `sleep:1.0.0` answers its arguments after `milliseconds`, at most a minute.
#[derive(Clone, Copy, Debug, Default)]
pub struct Builtin;

impl Catalog for Builtin {
    fn offers(&self, name: &str, version: &str) -> bool {
        version == "1.0.0" && matches!(name, "echo" | "noop" | "fail" | "sleep")
    }

    fn call_inline(
        &self,
        name: &str,
        version: &str,
        arguments: &Value,
        _key: &str,
    ) -> Option<Answer> {
        match name {
            _ if !self.offers(name, version) => None,
            "echo" => Some(Answer::Succeeded(arguments.clone())),
            "noop" => Some(Answer::Succeeded(Value::Null)),
            "fail" => Some(failure(arguments)),
            _ => None,
        }
    }

    fn call<'a>(
        &'a self,
        name: &'a str,
        version: &'a str,
        arguments: &'a Value,
        key: &'a str,
    ) -> Calling<'a> {
        Box::pin(async move {
            if let Some(answer) = self.call_inline(name, version, arguments, key) {
                return answer;
            }
            if !self.offers(name, version) {
                return Answer::Failed(not_offered(name, version));
            }
            let milliseconds = number(arguments, "milliseconds").unwrap_or(0);
            tokio::time::sleep(Duration::from_millis(milliseconds).min(SLEEP_MAX)).await;
            Answer::Succeeded(arguments.clone())
        })
    }
}

/// The fault of a call to a service type that is nowhere.
pub(super) fn not_offered(name: &str, version: &str) -> Fault {
    let detail = format!(
        "this node offers no service `{name}:{version}`; say where it is with `--service {name}:{version}=URL`"
    );
    Fault::new(FaultKind::Configuration, "Service is not offered", detail)
}

fn failure(arguments: &Value) -> Answer {
    let text =
        |name: &str| value::get(arguments, name).and_then(value::as_str).map(ToOwned::to_owned);
    let status = number(arguments, "status").and_then(|status| u16::try_from(status).ok());
    let title = text("title").unwrap_or_else(|| "Service failed".to_owned());
    let detail = text("detail").unwrap_or_else(|| "the service was told to fail".to_owned());
    let fault =
        Fault::new(FaultKind::Communication, &title, detail).with_status(status.unwrap_or(500));
    match value::get(arguments, "unknown") {
        Some(Value::Bool(true)) => Answer::Unknown(fault),
        _ => Answer::Failed(fault),
    }
}

fn number(arguments: &Value, name: &str) -> Option<u64> {
    u64::try_from(value::as_i64(value::get(arguments, name)?)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Value {
        value::parse(text).unwrap()
    }

    fn inline(name: &str, arguments: &str) -> Option<Answer> {
        Builtin.call_inline(name, "1.0.0", &json(arguments), "key")
    }

    #[test]
    fn what_needs_no_time_is_answered_inline() {
        assert_eq!(inline("echo", "[1]"), Some(Answer::Succeeded(json("[1]"))));
        assert_eq!(inline("noop", "[1]"), Some(Answer::Succeeded(Value::Null)));
        assert_eq!(inline("sleep", "{}"), None);
        assert_eq!(inline("nothing", "{}"), None);
    }

    #[test]
    fn fails_as_it_is_told() {
        let Some(Answer::Failed(fault)) = inline("fail", r#"{"status": 409, "title": "Taken"}"#)
        else {
            panic!("must fail");
        };
        assert_eq!((fault.status, fault.title.as_deref()), (409, Some("Taken")));
        assert!(matches!(inline("fail", r#"{"unknown": true}"#), Some(Answer::Unknown(_))));
    }

    #[tokio::test]
    async fn sleeps_and_answers_its_arguments() {
        let arguments = json(r#"{"milliseconds": 1}"#);
        let answer = Builtin.call("sleep", "1.0.0", &arguments, "key").await;
        assert_eq!(answer, Answer::Succeeded(arguments));
    }

    #[test]
    fn offers_only_what_it_has() {
        assert!(Builtin.offers("echo", "1.0.0"));
        assert!(!Builtin.offers("echo", "2.0.0"));
        assert!(!Builtin.offers("location", "1.0.0"));
    }
}
