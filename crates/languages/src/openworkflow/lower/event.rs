//! Events: emitting them and listening for them.

use outlast_workflow::program::{
    EventFilter, EventStrategy, Kind, ListenEach, ReadMode, Template, Until,
};

use super::Lowering;
use crate::Diagnostic;
use crate::openworkflow::scope::{Scope, Site};
use crate::text::{Cursor, did_you_mean};

/// The attributes every CloudEvent may have; others are extensions of lower-case letters and digits.
const ATTRIBUTES: [&str; 9] = [
    "id",
    "source",
    "specversion",
    "type",
    "time",
    "subject",
    "datacontenttype",
    "dataschema",
    "data",
];

impl<'a> Lowering<'a> {
    pub(super) fn emit(&mut self, at: &Cursor<'a>, scope: &Scope) -> Kind {
        let with = at.get("event").and_then(|it| it.get("with"));
        if let Some(with) = &with {
            self.check_attributes(with);
        }
        match with {
            Some(with) => Kind::Emit(self.template(&with, scope)),
            None => Kind::Emit(Template::Literal(outlast_expressions::value::null())),
        }
    }

    pub(super) fn listen(&mut self, task: &Cursor<'a>, at: &Cursor<'a>, scope: &Scope) -> Kind {
        let read = match at.text_of("read") {
            Some("envelope") => ReadMode::Envelope,
            Some("raw") => ReadMode::Raw,
            _ => ReadMode::Data,
        };
        let to = at.get("to");
        let to = to.map_or(EventStrategy::All(Vec::new()), |it| {
            self.strategy(&it, Site::Definition, scope)
        });
        let each = task.get("foreach").map(|it| self.foreach(&it, scope));
        Kind::Listen { to, read, each }
    }

    fn foreach(&mut self, at: &Cursor<'a>, scope: &Scope) -> ListenEach {
        let item = self.variable(at.get("item"), "item");
        let index = self.variable(at.get("at"), "index");
        let inner = scope.with(&[&item, &index]);
        ListenEach {
            body: at.get("do").and_then(|it| self.sequence(&it, &inner)),
            output: self.transform(at.get("output").as_ref(), "as", Site::Output, &inner),
            export: self.transform(at.get("export").as_ref(), "as", Site::Export, &inner),
            item,
            at: index,
        }
    }

    pub(super) fn strategy(&mut self, at: &Cursor<'a>, site: Site, scope: &Scope) -> EventStrategy {
        if let Some(all) = at.get("all") {
            self.only_with_any(at);
            return EventStrategy::All(self.filters(&all, site, scope));
        }
        if let Some(one) = at.get("one") {
            self.only_with_any(at);
            return EventStrategy::One(self.filter(&one, site, scope));
        }
        let Some(any) = at.get("any") else { return EventStrategy::All(Vec::new()) };
        let filters = self.filters(&any, site, scope);
        let until = at.get("until").and_then(|it| self.until(&it, site, scope));
        EventStrategy::Any(filters, until)
    }

    fn until(&mut self, at: &Cursor<'a>, site: Site, scope: &Scope) -> Option<Until> {
        if at.text().is_some() {
            return self.compiler.expression(at, site, scope).map(Until::Condition);
        }
        if let Some(inner) = at.get("until") {
            let message =
                "the events that end a listener cannot themselves be listened for `until`";
            let found = Diagnostic::error("bad-value", inner.key_place(), message);
            self.report(found.help("remove the inner `until`"));
        }
        Some(Until::Consumed(Box::new(self.strategy(at, site, scope))))
    }

    fn only_with_any(&mut self, at: &Cursor<'a>) {
        if let Some(until) = at.get("until") {
            let message =
                "`until` ends a listener for `any` events; `all` and `one` end by themselves";
            let found = Diagnostic::error("conflicting-keys", until.key_place(), message);
            self.report(found.help("remove `until`, or listen to `any`"));
        }
    }

    fn filters(&mut self, list: &Cursor<'a>, site: Site, scope: &Scope) -> Vec<EventFilter> {
        list.items().map(|it| self.filter(&it, site, scope)).collect()
    }

    fn filter(&mut self, at: &Cursor<'a>, site: Site, scope: &Scope) -> EventFilter {
        let with = at.get("with");
        if let Some(with) = &with {
            self.check_attributes(with);
            if with.is_map() && with.entries().next().is_none() {
                let message = "an event filter without attributes fits nothing in particular";
                let found = Diagnostic::error("empty-filter", with.key_place(), message);
                self.report(found.help("say at least the `type`; for every event write `any: []`"));
            }
        }
        let attributes = with.into_iter().flat_map(|it| it.entries());
        let with = attributes.filter_map(|it| {
            let template = self.compiler.template(&it, site, scope)?;
            Some((it.name().to_owned(), template))
        });
        let with = with.collect();
        let correlations = at.get("correlate").into_iter().flat_map(|it| it.entries());
        let correlate = correlations.filter_map(|it| {
            let from = self.compiler.expression(&it.get("from")?, site, scope)?;
            let expect = it.get("expect").and_then(|it| self.compiler.template(&it, site, scope));
            Some((it.name().to_owned(), from, expect))
        });
        EventFilter { with, correlate: correlate.collect() }
    }

    /// Attributes of CloudEvents are lower-case letters and digits; others are slips of the pen.
    fn check_attributes(&mut self, with: &Cursor<'a>) {
        for attribute in with.entries() {
            let name = attribute.name();
            let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            if !name.is_empty() && name.bytes().all(fits) {
                continue;
            }
            let message = format!("`{name}` is not an attribute that a CloudEvent can have");
            let help = did_you_mean(name, ATTRIBUTES, "");
            let found = Diagnostic::warning("event-attribute", attribute.key_place(), message);
            self.report(found.help(help));
        }
    }

    /// The schedule is recorded, not compiled; its filters are checked all the same.
    pub(super) fn check_schedule(&mut self, scope: &Scope) {
        let Some(schedule) = self.document.get("schedule") else { return };
        if let Some(on) = schedule.get("on") {
            self.strategy(&on, Site::WorkflowInput, scope);
        }
        if let (Some(read), false) = (schedule.get("read"), schedule.has("on")) {
            let message = "`read` says how events are read, and this schedule has none";
            let found = Diagnostic::error("conflicting-keys", read.key_place(), message);
            self.report(found.help("add `on`, or remove `read`"));
        }
        let message = "this release records the schedule and does not start anything by it";
        let found = Diagnostic::warning("unsupported", schedule.key_place(), message);
        self.report(found.help("start the workflow with `outlast start`"));
    }
}
