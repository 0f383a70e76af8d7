//! Registered definitions: pinned by digest, found by namespace, name and version.

use std::collections::BTreeMap;
use std::sync::Arc;

use outlast_lineage::Digest;
use outlast_workflow::Program;
use outlast_workflow::program::bundle;

use crate::{Definition, DefinitionSummary, Position, Refusal, WorkflowVersion};

/// A definition, compiled.
#[derive(Debug)]
pub(super) struct Defined {
    pub(super) definition: Definition,
    /// The digest of the document itself, without what is bundled with it.
    pub(super) document: Digest,
    pub(super) text: Arc<str>,
    pub(super) namespace: Arc<str>,
    pub(super) program: Arc<Program>,
    /// The record that registered it.
    pub(super) position: Position,
}

/// All registered definitions.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    by_digest: BTreeMap<Digest, Arc<Defined>>,
    versions: BTreeMap<(String, String), BTreeMap<Precedence, Digest>>,
}

impl Definitions {
    /// Adds a definition; says whether it is a document, and no bundle. Where two nodes that could not hear of each
    /// other registered different texts as one version, all that have both mean the same one by it.
    pub(super) fn insert(
        &mut self,
        mut definition: Definition,
        program: Arc<Program>,
        position: Position,
    ) -> bool {
        let text: Arc<str> = Arc::from(std::mem::take(&mut definition.text));
        let namespace = Arc::from(definition.namespace.as_str());
        let digest = definition.digest;
        // A bundle is meant by nobody: whoever names its workflow means the document.
        let document = match bundle::is_bundle(&text) {
            true => Digest::of(bundle::split(&text).0.as_bytes()),
            false => {
                let name = (definition.namespace.clone(), definition.name.clone());
                let versions = self.versions.entry(name).or_default();
                let meant = versions.entry(Precedence::of(&definition.version)).or_insert(digest);
                *meant = digest.min(*meant);
                digest
            }
        };
        let is_document = document == digest;
        let defined = Defined { definition, document, text, namespace, program, position };
        self.by_digest.insert(digest, Arc::new(defined));
        is_document
    }

    /// The digests of all documents that somebody may mean.
    pub(super) fn documents(&self) -> impl Iterator<Item = Digest> {
        self.versions.values().flat_map(BTreeMap::values).copied()
    }

    pub(super) fn get(&self, digest: &Digest) -> Option<&Arc<Defined>> {
        self.by_digest.get(digest)
    }

    /// The definition a caller means; `latest` is the highest version there is now.
    pub(super) fn find(
        &self,
        namespace: &str,
        name: &str,
        version: &WorkflowVersion,
    ) -> Option<&Arc<Defined>> {
        let named = |defined: &&Arc<Defined>| {
            defined.definition.namespace == namespace && defined.definition.name == name
        };
        if let WorkflowVersion::Digest(digest) | WorkflowVersion::Pinned { digest, .. } = version {
            return self.by_digest.get(digest).filter(named);
        }
        let versions = self.versions.get(&(namespace.to_owned(), name.to_owned()))?;
        let digest = match version {
            WorkflowVersion::Exactly(text) => versions.get(&Precedence::of(text))?,
            _ => versions.last_key_value()?.1,
        };
        self.by_digest.get(digest)
    }

    /// Refuses a document if its version means another one here. Whoever has it would have the other one started.
    pub(super) fn check_meant(
        &self,
        namespace: &str,
        name: &str,
        version: &str,
        digest: Digest,
    ) -> Result<(), Refusal> {
        let meant = self.find(namespace, name, &WorkflowVersion::Exactly(version.to_owned()));
        let Some(meant) = meant.map(|meant| meant.definition.digest) else { return Ok(()) };
        if meant == digest {
            return Ok(());
        }
        let (meant, digest) = (meant.short(), digest.short());
        Err(Refusal::Conflict(format!(
            "{namespace}/{name} version {version} is registered with another text (digest {meant:016x}…, and \
             {digest:016x}… of this one); give the document a new version"
        )))
    }

    /// All definitions of a namespace, or of all, that are in the records up to one, in order of
    /// namespace, name and version.
    pub(super) fn summaries(
        &self,
        namespace: Option<&str>,
        up_to: Position,
    ) -> Vec<DefinitionSummary> {
        self.versions
            .iter()
            .filter(|((of, _), _)| namespace.is_none_or(|wanted| wanted == of))
            .flat_map(|(_, versions)| versions.values())
            .map(|digest| &self.by_digest[digest])
            .filter(|defined| defined.position <= up_to)
            .map(|defined| defined.summary())
            .collect()
    }
}

impl Defined {
    /// What it is called.
    pub(super) fn summary(&self) -> DefinitionSummary {
        DefinitionSummary {
            namespace: self.definition.namespace.clone(),
            name: self.definition.name.clone(),
            version: self.definition.version.clone(),
            digest: self.definition.digest,
        }
    }

    /// The definition with its text, for a record or a snapshot.
    pub(super) fn stored(&self) -> Definition {
        Definition { text: self.text.as_ref().to_owned(), ..self.definition.clone() }
    }
}

/// The order of versions: semantic versioning's, and by text among those that are equal in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Precedence {
    numbers: [u64; 3],
    /// A release comes after all its pre-releases.
    released: bool,
    pre: Vec<Identifier>,
    text: String,
}

/// One part of a pre-release: numbers come before words.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Identifier {
    Number(u64),
    Word(String),
}

impl Precedence {
    fn of(text: &str) -> Self {
        let plain = text.split('+').next().unwrap_or_default();
        let (release, pre) = plain.split_once('-').unwrap_or((plain, ""));
        let mut numbers = [0; 3];
        for (number, part) in numbers.iter_mut().zip(release.split('.')) {
            *number = part.parse().unwrap_or(0);
        }
        let identifier = |part: &str| match part.parse() {
            Ok(number) => Identifier::Number(number),
            Err(_) => Identifier::Word(part.to_owned()),
        };
        let pre: Vec<_> = pre.split('.').filter(|part| !part.is_empty()).map(identifier).collect();
        Self { numbers, released: pre.is_empty(), pre, text: text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_semantic_versioning_says() {
        // The example of semver.org, section 11, with a few numbers around it.
        let ascending = [
            "0.9.0",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
            "1.2.0",
            "1.10.0",
        ];
        let mut sorted = ascending.map(Precedence::of).to_vec();
        sorted.reverse();
        sorted.sort();
        let texts: Vec<_> = sorted.iter().map(|precedence| precedence.text.as_str()).collect();
        assert_eq!(texts, ascending);
    }
}
