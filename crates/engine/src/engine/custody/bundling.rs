//! Sub-workflows of executions in custody: pinned with them, as one bundle.
//!
//! A child with a custody of its own would stand still where the parent's replicas are too few to
//! decide on anything, and its effects would not be those of the parent's line. So what an execution
//! in custody runs is part of its own program, as it is registered when it is started.

use std::sync::Arc;

use outlast_lineage::Digest;
use outlast_workflow::program::bundle;

use super::super::definitions::Defined;
use super::super::{Engine, Step};
use crate::{Definition, Refusal, WorkflowVersion};

impl Engine {
    /// A definition together with all that it runs. Nothing if that had to be recorded first: the
    /// step has its record then, and whoever wants the bundle asks again.
    pub(in crate::engine) fn bundled(
        &mut self,
        step: &mut Step,
        defined: &Arc<Defined>,
    ) -> Result<Option<Arc<Defined>>, Refusal> {
        if !defined.program.linked.is_empty() {
            return Ok(Some(Arc::clone(defined)));
        }
        let definitions = &self.definitions;
        let members = bundle::gather(&defined.program, |namespace, name, version| {
            let found = definitions.find(namespace, name, &WorkflowVersion::of(version));
            let unknown =
                || Refusal::UnknownDefinition(bundle::reference(namespace, name, version));
            found.map(|found| Arc::clone(&found.program)).ok_or_else(unknown)
        })?;
        if members.is_empty() {
            return Ok(Some(Arc::clone(defined)));
        }
        let texts = members.iter().map(|(names, program)| {
            let member = definitions.get(&program.digest).expect("it was just found");
            (names.clone(), member.text.as_ref())
        });
        let text = bundle::join(&defined.text, texts);
        let (bytes, limit) = (text.len(), self.options.limits.definition_bytes);
        if limit < bytes {
            let what = "the definition with all that it runs";
            return Err(Refusal::TooLarge { what, bytes, limit });
        }
        let digest = Digest::of(text.as_bytes());
        if let Some(known) = definitions.get(&digest) {
            return Ok(Some(Arc::clone(known)));
        }
        let program = Arc::new(bundle::link(digest, &defined.program, &members));
        let definition = Definition { digest, text, ..defined.definition.clone() };
        self.insert_definition(step, definition, program);
        self.spread_definition(step, digest);
        Ok(None)
    }
}
