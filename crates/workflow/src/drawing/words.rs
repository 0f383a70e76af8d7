//! What a task does, in a few words.

use outlast_expressions::value;

use crate::program::{Catch, ErrorFilter, EventStrategy, Service, Template};

/// A template as it was written, near enough.
pub(super) fn template(template: &Template) -> String {
    match template {
        Template::Literal(value) => value::to_text(value),
        Template::Computed(expression) => expression.filter.source().to_owned(),
    }
}

/// A member of a template that is known, as plain text.
pub(super) fn member(template: &Template, name: &str) -> Option<String> {
    let Template::Literal(value) = template else { return None };
    let found = value::get(value, name)?;
    Some(value::as_str(found).map_or_else(|| value::to_text(found), str::to_owned))
}

/// How long a `wait` waits.
pub(super) fn duration(duration: &Template) -> String {
    let Template::Literal(literal) = duration else { return template(duration) };
    if let Some(text) = value::as_str(literal) {
        return text.to_owned();
    }
    let parts: Vec<String> = value::members(literal)
        .map(|(unit, amount)| format!("{} {unit}", value::to_text(amount)))
        .collect();
    parts.join(" ")
}

/// What a `raise` raises.
pub(super) fn error(error: &Template) -> String {
    let kind = member(error, "type").unwrap_or_default();
    let word = kind.rsplit('/').next().unwrap_or_default();
    let status = member(error, "status").unwrap_or_default();
    format!("{word} {status}").trim().to_owned()
}

/// What a `listen` waits for.
pub(super) fn listen(to: &EventStrategy) -> String {
    match to {
        EventStrategy::All(filters) => format!("listen to all of {}", filters.len()),
        EventStrategy::Any(filters, _) if filters.is_empty() => "listen to any event".to_owned(),
        EventStrategy::Any(filters, _) => format!("listen to any of {}", filters.len()),
        EventStrategy::One(_) => "listen to one event".to_owned(),
    }
}

/// What is called.
pub(super) fn call(service: &Service, arguments: Option<&Template>) -> String {
    match service {
        Service::Catalog { name, version } => format!("call {name} {version}"),
        Service::Http { .. } => {
            let argument = |name| arguments.and_then(|arguments| member(arguments, name));
            match (argument("method"), argument("endpoint")) {
                (Some(method), Some(endpoint)) => format!("{} {endpoint}", method.to_uppercase()),
                _ => "call http".to_owned(),
            }
        }
    }
}

/// What a handler handles.
pub(super) fn catch(catch: &Catch) -> String {
    let ErrorFilter { kind, status, instance, title, detail } = &catch.errors;
    let status = status.map(|status| status.to_string());
    let kind = kind.as_deref().and_then(|kind| kind.rsplit('/').next());
    let texts = [kind, status.as_deref(), title.as_deref(), detail.as_deref(), instance.as_deref()];
    let filter: Vec<&str> = texts.into_iter().flatten().collect();
    let what = if filter.is_empty() { "any error".to_owned() } else { filter.join(" ") };
    let retry = match &catch.retry {
        None => String::new(),
        Some(policy) => match policy.attempts {
            Some(attempts) => format!(", after {attempts} retries"),
            None => ", after retries".to_owned(),
        },
    };
    format!("catch {what}{retry}")
}
