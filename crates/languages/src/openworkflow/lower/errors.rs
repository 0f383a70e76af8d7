//! Errors: raising, catching and trying again.

use outlast_expressions::value;
use outlast_workflow::program::{Backoff, Catch, ErrorFilter, Kind, RetryPolicy, Template};

use super::Lowering;
use super::flow::Siblings;
use crate::Diagnostic;
use crate::openworkflow::scope::{Scope, Site};
use crate::text::{Cursor, NodeKind, did_you_mean};

impl<'a> Lowering<'a> {
    pub(super) fn raise(&mut self, at: &Cursor<'a>, scope: &Scope) -> Kind {
        let Some(error) = at.get("error") else { return Kind::Raise(nothing()) };
        let definition = match error.text() {
            None => error.clone(),
            Some(name) => match self.names.errors.get(name) {
                Some(definition) => definition.clone(),
                None => {
                    let message = format!("there is no error `{name}` in `use.errors`");
                    let names = self.names.errors.keys().copied();
                    let help = did_you_mean(name, names, "add it there, or define the error here");
                    self.report(
                        Diagnostic::error("unknown-error", error.place(), message).help(help),
                    );
                    return Kind::Raise(nothing());
                }
            },
        };
        if let Some(status) = definition.get("status")
            && let NodeKind::Number(number) = &status.node.kind
            && number.as_u64().is_none_or(|status| !(100..=599).contains(&status))
        {
            let message = format!("`{number}` is not a status as HTTP has them");
            let found = Diagnostic::error("bad-value", status.place(), message);
            self.report(found.help("use a number from 400 to 599"));
        }
        Kind::Raise(self.template(&definition, scope))
    }

    pub(super) fn try_task(
        &mut self,
        task: &Cursor<'a>,
        at: &Cursor<'a>,
        siblings: &Siblings<'_>,
        scope: &Scope,
    ) -> Kind {
        let body = self.sequence(at, scope);
        let catch = task.get("catch");
        let lowered = catch.as_ref().map(|it| self.catch(it, siblings, scope));
        match (body, lowered) {
            (Some(body), Some(catch)) => Kind::Try { body, catch },
            _ => Kind::Sequence(Vec::new()),
        }
    }

    fn catch(&mut self, at: &Cursor<'a>, siblings: &Siblings<'_>, scope: &Scope) -> Catch {
        let variable = self.variable(at.get("as"), "error");
        let inner = scope.with(&[&variable]);
        let mut expression = |name: &str| {
            let at = at.get(name)?;
            self.compiler.expression(&at, Site::Definition, &inner)
        };
        let (when, except_when) = (expression("when"), expression("exceptWhen"));
        let then = at.get("then");
        Catch {
            errors: self.error_filter(at),
            when,
            except_when,
            retry: at.get("retry").and_then(|it| self.retry(&it, &inner)),
            body: at.get("do").and_then(|it| self.sequence(&it, &inner)),
            then: then.as_ref().map(|it| self.flow(Some(it), siblings)),
            variable,
        }
    }

    fn error_filter(&mut self, catch: &Cursor<'a>) -> ErrorFilter {
        let Some(with) = catch.get("errors").and_then(|it| it.get("with")) else {
            return ErrorFilter::default();
        };
        let text = |name: &str| with.text_of(name).map(str::to_owned);
        let status = with.get("status").and_then(|it| it.count());
        ErrorFilter {
            kind: text("type"),
            status: status.and_then(|it| u16::try_from(it).ok()),
            instance: text("instance"),
            title: text("title"),
            detail: text("detail"),
        }
    }

    /// A retry policy, or the name of one in `use.retries`.
    pub(super) fn retry(&mut self, at: &Cursor<'a>, scope: &Scope) -> Option<Box<RetryPolicy>> {
        let definition = match at.text() {
            None => at.clone(),
            Some(name) => match self.names.retries.get(name) {
                Some(definition) => definition.clone(),
                None => {
                    let message = format!("there is no retry policy `{name}` in `use.retries`");
                    let names = self.names.retries.keys().copied();
                    let help = did_you_mean(name, names, "add it there, or define the policy here");
                    self.report(Diagnostic::error("unknown-retry", at.place(), message).help(help));
                    return None;
                }
            },
        };
        Some(Box::new(self.retry_policy(&definition, scope)))
    }

    pub(super) fn retry_policy(&mut self, at: &Cursor<'a>, scope: &Scope) -> RetryPolicy {
        let compiler = &mut self.compiler;
        let mut expression = |name: &str| {
            let at = at.get(name)?;
            compiler.expression(&at, Site::Definition, scope)
        };
        let (when, except_when) = (expression("when"), expression("exceptWhen"));
        let mut duration = |path: &[&str]| {
            let at = path.iter().try_fold(at.clone(), |at, step| at.get(step))?;
            compiler.template(&at, Site::Definition, scope)
        };
        RetryPolicy {
            when,
            except_when,
            delay: duration(&["delay"]),
            attempt_duration: duration(&["limit", "attempt", "duration"]),
            duration: duration(&["limit", "duration"]),
            jitter: duration(&["jitter", "from"]).zip(duration(&["jitter", "to"])),
            backoff: backoff(at),
            attempts: attempts(at),
        }
    }
}

fn backoff(at: &Cursor<'_>) -> Backoff {
    match at.get("backoff") {
        Some(backoff) if backoff.has("linear") => Backoff::Linear,
        Some(backoff) if backoff.has("exponential") => Backoff::Exponential,
        _ => Backoff::Constant,
    }
}

fn attempts(at: &Cursor<'_>) -> Option<u64> {
    at.get("limit")?.get("attempt")?.get("count")?.count()
}

/// A stand-in for what could not be compiled.
fn nothing() -> Template {
    Template::Literal(value::null())
}
