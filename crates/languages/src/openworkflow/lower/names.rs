//! The names a document declares under `use`.

use std::collections::BTreeMap;

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
        Self {
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
