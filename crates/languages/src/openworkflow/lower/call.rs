//! Calls and processes.

use outlast_workflow::program::{
    Authentication, CompensationOrder, HttpOutput, Kind, OnFailure, Secretive, Service, Template,
};
use serde_json::{Map, Value as Json};

use super::Lowering;
use crate::Diagnostic;
use crate::openworkflow::expression::literal_text;
use crate::openworkflow::scope::{Scope, Site};
use crate::text::{Cursor, closest, did_you_mean};

const COMPENSATE: &str = "compensate:1.0.0@default";
const BUILT_IN: [&str; 6] = ["http", "openapi", "grpc", "asyncapi", "a2a", "mcp"];

impl<'a> Lowering<'a> {
    pub(super) fn call(&mut self, task: &Cursor<'a>, scope: &Scope) -> Kind {
        let Some(at) = task.get("call") else { return unread() };
        let Some(function) = at.text() else { return unread() };
        let with = task.get("with");
        match function {
            "http" => self.http(task, with.as_ref(), scope),
            name if BUILT_IN.contains(&name) => {
                let what = format!("calls of `{name}`");
                self.unsupported_call(&at, with.as_ref(), &what, scope)
            }
            name if self.names.functions.contains_key(name) => {
                self.function(name, with.as_ref(), scope)
            }
            COMPENSATE => self.compensate(with.as_ref(), scope),
            url if url.contains("://") => {
                let what = format!("functions from the web, such as `{url}`");
                self.unsupported_call(&at, with.as_ref(), &what, scope)
            }
            name => self.cataloged(&at, name, with.as_ref(), scope),
        }
    }

    fn unsupported_call(
        &mut self,
        at: &Cursor<'a>,
        with: Option<&Cursor<'a>>,
        what: &str,
        scope: &Scope,
    ) -> Kind {
        if let Some(with) = with {
            let authentication = with.get("authentication");
            // Foreach and subscription expressions have variables of their own; they are checked
            // when this kind of call is supported.
            let parts = with.entries().filter(|it| it.name() != "subscription");
            for part in parts {
                self.compiler.leaves(&part, Site::Definition, scope);
            }
            authentication.map(|it| self.authentication(&it, scope));
        }
        self.unsupported(&at.place(), what)
    }

    fn function(&mut self, name: &str, with: Option<&Cursor<'a>>, scope: &Scope) -> Kind {
        let pointer = self.names.functions[name].pointer.clone();
        let arguments = with.map(|it| self.template(it, scope));
        match self.numbers.at(&pointer) {
            Some(body) => Kind::Function { body, arguments },
            None => unread(),
        }
    }

    /// `name:version@catalog`.
    fn cataloged(
        &mut self,
        at: &Cursor<'a>,
        name: &str,
        with: Option<&Cursor<'a>>,
        scope: &Scope,
    ) -> Kind {
        let parts = name
            .split_once('@')
            .and_then(|(function, catalog)| Some((function.split_once(':')?, catalog)));
        let Some(((function, version), catalog)) = parts else {
            self.unknown_function(at, name);
            return unread();
        };
        if self.names.catalogs.contains_key(catalog) {
            let what = format!("functions of the catalog `{catalog}`");
            return self.unsupported_call(at, with, &what, scope);
        }
        if catalog != "default" {
            let message = format!("there is no catalog `{catalog}` in `use.catalogs`");
            let names = self.names.catalogs.keys().copied().chain(["default"]);
            let help = did_you_mean(catalog, names, "");
            self.report(Diagnostic::error("unknown-catalog", at.place(), message).help(help));
            return unread();
        }
        if function == "compensate" {
            let message = format!("there is no `{name}`");
            let found = Diagnostic::error("unknown-function", at.place(), message);
            self.report(found.help(format!("did you mean `{COMPENSATE}`?")));
            return unread();
        }
        // Any other name may be a service of some node; a misspelt rollback would be missed too late.
        if closest(function, ["compensate"]).is_some() {
            let message =
                format!("`{name}` is no rollback, but a service that a node has to offer");
            let found = Diagnostic::warning("unknown-function", at.place(), message);
            self.report(found.help(format!("did you mean `{COMPENSATE}`?")));
        }
        let service = Service::Catalog { name: function.to_owned(), version: version.to_owned() };
        Kind::Call { service, arguments: with.map(|it| self.template(it, scope)) }
    }

    pub(super) fn unknown_function(&mut self, at: &Cursor<'a>, name: &str) {
        let message = format!("there is no function `{name}`");
        let help = match name.contains(':') {
            true => format!("functions that nodes offer are called `{name}@default`"),
            false => {
                let names = self.names.functions.keys().copied().chain(BUILT_IN);
                did_you_mean(name, names, "")
            }
        };
        self.report(Diagnostic::error("unknown-function", at.place(), message).help(help));
    }

    fn http(&mut self, task: &Cursor<'a>, with: Option<&Cursor<'a>>, scope: &Scope) -> Kind {
        let Some(with) = with else { return unread() };
        let endpoint = with.get("endpoint");
        let authentication = endpoint
            .as_ref()
            .and_then(|it| it.get("authentication"))
            .and_then(|it| self.authentication(&it, scope));
        let authentication = match authentication {
            None => None,
            Some(Ok(authentication)) => Some(authentication),
            Some(Err(kind)) => return kind,
        };
        let arguments = self.http_arguments(task, with, scope);
        let service = Service::Http {
            output: match with.text_of("output") {
                Some("raw") => HttpOutput::Raw,
                Some("response") => HttpOutput::Response,
                _ => HttpOutput::Content,
            },
            redirect: with.get("redirect").and_then(|it| it.boolean()).unwrap_or(false),
            authentication,
        };
        Kind::Call { service, arguments }
    }

    /// `{method, endpoint, headers?, query?, body?}` as one template.
    fn http_arguments(
        &mut self,
        task: &Cursor<'a>,
        with: &Cursor<'a>,
        scope: &Scope,
    ) -> Option<Template> {
        let mut members = Map::new();
        let mut sound = true;
        for name in ["method", "endpoint", "headers", "query", "body"] {
            let Some(part) = with.get(name) else { continue };
            let part = match name {
                "endpoint" => part.get("uri").unwrap_or(part),
                _ => part,
            };
            sound &= self.compiler.leaves(&part, Site::Definition, scope);
            if name == "endpoint" {
                self.check_uri_template(&part);
            }
            members.insert(name.to_owned(), part.node.to_json());
        }
        let place = task.get("with").map_or_else(|| task.place(), |it| it.place());
        let tree = Json::Object(members);
        sound.then(|| self.compiler.composed(&tree, place, Site::Definition, scope)).flatten()
    }

    /// `{name}` in an endpoint is filled from the task's input; only plain names can be.
    fn check_uri_template(&mut self, at: &Cursor<'a>) {
        let plain = |text: &&str| !text.contains("${") && !text.contains(char::is_whitespace);
        let Some(text) = at.text().filter(plain) else { return };
        let mut rest = text;
        while let Some(start) = rest.find(['{', '}']) {
            let after = &rest[start + 1..];
            let name = after.split_once('}').map(|(name, _)| name);
            let plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-%".contains(letter);
            match name {
                Some(name)
                    if rest[start..].starts_with('{')
                        && !name.is_empty()
                        && name.chars().all(plain) =>
                {
                    rest = &after[name.len() + 1..];
                }
                _ => {
                    let message = format!("`{text}` is not a URI template");
                    let help = "write `{name}` for a field of the task's input, or a whole \
                                expression: '${ \"http://host/\\(.name)\" }'";
                    let found = Diagnostic::error("bad-uri-template", at.place(), message);
                    return self.report(found.help(help));
                }
            }
        }
    }

    /// How a caller shows who it is; `Err` for what this release cannot do, nothing if unreadable.
    fn authentication(
        &mut self,
        at: &Cursor<'a>,
        scope: &Scope,
    ) -> Option<Result<Authentication, Kind>> {
        if let Some(name) = at.text_of("use") {
            let Some(definition) = self.names.authentications.get(name).cloned() else {
                let message =
                    format!("there is no authentication `{name}` in `use.authentications`");
                let names = self.names.authentications.keys().copied();
                let help = did_you_mean(name, names, "add it there, or define it here");
                let place = at.get("use").map_or_else(|| at.place(), |it| it.place());
                self.report(Diagnostic::error("unknown-authentication", place, message).help(help));
                return None;
            };
            return self.authentication(&definition, scope);
        }
        let policy = at.entries().next()?;
        let field = |lowering: &mut Self, name: &str| lowering.secretive(&policy, name, scope);
        Some(Ok(match policy.name() {
            "basic" => Authentication::Basic {
                username: field(self, "username")?,
                password: field(self, "password")?,
            },
            "digest" => Authentication::Digest {
                username: field(self, "username")?,
                password: field(self, "password")?,
            },
            "bearer" => Authentication::Bearer(field(self, "token")?),
            other => {
                if let Some(secret) = policy.get("use") {
                    self.check_secret(&secret);
                }
                self.compiler.leaves(&policy, Site::Definition, scope);
                let what = format!("authentication by `{other}`");
                return Some(Err(self.unsupported(&policy.key_place(), &what)));
            }
        }))
    }

    /// A field that is given, or that a secret holds under the same name.
    fn secretive(&mut self, policy: &Cursor<'a>, name: &str, scope: &Scope) -> Option<Secretive> {
        if let Some(secret) = policy.get("use") {
            self.check_secret(&secret);
            return Some(Secretive::Secret(secret.text()?.to_owned(), name.to_owned()));
        }
        let Some(field) = policy.get(name) else {
            let message = format!("`{}` authentication lacks `{name}`", policy.name());
            let found = Diagnostic::error("missing-key", policy.key_place(), message);
            self.report(found.help(format!("add `{name}`, or name a secret with `use`")));
            return None;
        };
        self.compiler.template(&field, Site::Definition, scope).map(Secretive::Given)
    }

    fn check_secret(&mut self, at: &Cursor<'a>) {
        if let Some(name) = at.text().filter(|name| !self.compiler.declares_secret(name)) {
            let found = self.compiler.unknown_secret(name, at.place());
            self.report(found);
        }
    }

    fn compensate(&mut self, with: Option<&Cursor<'a>>, scope: &Scope) -> Kind {
        let mut order = CompensationOrder::Reverse;
        let mut on_failure = OnFailure::Raise;
        let (mut target, mut until) = (None, None);
        for argument in with.into_iter().flat_map(|it| it.entries()) {
            match (argument.name(), argument.text().unwrap_or_default()) {
                ("scope", name) => target = self.enclosing(&argument, name, scope),
                ("until", _) => until = Some(argument),
                ("order", "reverse") | ("onFailure", "raise") => {}
                ("order", "parallel") => order = CompensationOrder::Parallel,
                ("onFailure", "continue") => on_failure = OnFailure::Continue,
                ("order", _) => self.bad_argument(&argument, "`reverse` or `parallel`"),
                ("onFailure", _) => self.bad_argument(&argument, "`raise` or `continue`"),
                (name, _) => {
                    let message = format!("`{name}` is not an argument of `{COMPENSATE}`");
                    let names = ["scope", "until", "order", "onFailure"];
                    let help = did_you_mean(name, names, "");
                    let found = Diagnostic::error("unknown-key", argument.key_place(), message);
                    self.report(found.help(help));
                }
            }
        }
        let until = until.and_then(|it| self.milestone(&it, target));
        Kind::Compensate { scope: target, until, order, on_failure }
    }

    fn bad_argument(&mut self, at: &Cursor<'a>, wanted: &str) {
        let message = format!("`{}` must be {wanted}", at.name());
        self.report(Diagnostic::error("bad-value", at.place(), message));
    }

    pub(super) fn run_process(&mut self, at: &Cursor<'a>, scope: &Scope) -> Kind {
        let Some(workflow) = at.get("workflow") else {
            // Any other key is a misspelt one, which is told already.
            let kind = ["container", "script", "shell"].into_iter().find_map(|kind| at.get(kind));
            let Some(kind) = kind else { return unread() };
            self.compiler.leaves(&kind, Site::Definition, scope);
            let what = format!("`run` of a `{}`", kind.name());
            return self.unsupported(&kind.key_place(), &what);
        };
        let say = |name: &str| workflow.text_of(name).unwrap_or_default().to_owned();
        Kind::RunWorkflow {
            namespace: say("namespace"),
            name: say("name"),
            version: say("version"),
            input: workflow.get("input").map(|it| self.template(&it, scope)),
            wait: at.get("await").and_then(|it| it.boolean()).unwrap_or(true),
        }
    }
}

/// A stand-in for a call that has been reported.
fn unread() -> Kind {
    Kind::Set(literal_text(""))
}
