//! The names a document declares under `use`.

use std::collections::{BTreeMap, BTreeSet};

use outlast_workflow::program::Place;

use crate::openworkflow::tasks;
use crate::text::Cursor;

/// The reusable parts of a document by name.
pub(super) struct Names<'a> {
    pub(super) authentications: BTreeMap<&'a str, Cursor<'a>>,
    pub(super) errors: BTreeMap<&'a str, Cursor<'a>>,
    pub(super) functions: BTreeMap<&'a str, Cursor<'a>>,
    pub(super) retries: BTreeMap<&'a str, Cursor<'a>>,
    pub(super) timeouts: BTreeMap<&'a str, Cursor<'a>>,
    pub(super) catalogs: BTreeMap<&'a str, Cursor<'a>>,
    pub(super) secrets: Vec<String>,
    /// Where a task of each name stands: the first, and the pointers of all.
    pub(super) tasks: BTreeMap<&'a str, (Place, Vec<String>)>,
    /// What `near` may name: tasks, functions, services and hosts.
    pub(super) places: BTreeSet<String>,
    /// Extensions: what they extend, and their names.
    pub(super) extensions: Vec<(&'a str, &'a str)>,
}

impl<'a> Names<'a> {
    pub(super) fn of(document: &Cursor<'a>) -> Self {
        let section = |name: &str| document.get("use").and_then(|it| it.get(name));
        let named = |name: &str| {
            let entries = section(name).into_iter().flat_map(|it| it.entries());
            entries.map(|entry| (entry.name(), entry)).collect()
        };
        let secrets = section("secrets").into_iter().flat_map(|it| it.items());
        let extensions = section("extensions").into_iter().flat_map(|it| it.named_items());
        let mut tasks: BTreeMap<&'a str, (Place, Vec<String>)> = BTreeMap::new();
        let mut places = BTreeSet::new();
        tasks::visit(document, |task| {
            let entry = tasks.entry(task.name()).or_insert_with(|| (task.key_place(), Vec::new()));
            entry.1.push(task.pointer.clone());
            places.insert(task.name().to_owned());
            places.extend(service(task));
        });
        Self {
            tasks,
            places,
            authentications: named("authentications"),
            errors: named("errors"),
            functions: named("functions"),
            retries: named("retries"),
            timeouts: named("timeouts"),
            catalogs: named("catalogs"),
            secrets: secrets.filter_map(|it| it.text().map(str::to_owned)).collect(),
            extensions: extensions
                .filter_map(|it| Some((it.text_of("extend")?, it.name())))
                .collect(),
        }
    }

    /// The extension that would change tasks of a kind, if there is one.
    pub(super) fn extension_of(&self, kind: &str) -> Option<&'a str> {
        let composite = ["do", "for", "fork", "try"].contains(&kind);
        self.extensions
            .iter()
            .find(|(extended, _)| {
                *extended == "all" || *extended == kind || (*extended == "composite" && composite)
            })
            .map(|(_, name)| *name)
    }
}

/// The service or host that a task calls.
fn service(task: &Cursor<'_>) -> Option<String> {
    let called = task.text_of("call")?;
    if let Some((service, _)) = called.split_once(':') {
        return Some(service.to_owned());
    }
    let endpoint = task.get("with")?.get("endpoint")?;
    let uri = endpoint.text().or_else(|| endpoint.text_of("uri"))?;
    let rest = uri.split_once("://")?.1;
    let host = rest.split(['/', ':', '?', '{']).next()?;
    (!host.is_empty()).then(|| host.to_owned())
}
