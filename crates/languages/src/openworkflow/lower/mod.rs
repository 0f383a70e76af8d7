//! A checked document to a `Program`.
//!
//! Lowering goes over the whole document even where it has problems, so that all of them are
//! reported together; what cannot be lowered becomes a stand-in, and the program is then not given
//! out. Numbers of tasks are fixed beforehand (`tasks::Numbers`), so that a call of a function
//! further down or a jump back needs no second pass.

mod bounds;
mod call;
mod compensation;
mod errors;
mod event;
mod flow;
mod names;
mod references;
mod scopes;
mod survival;
mod task;
mod transform;

use std::collections::{BTreeMap, BTreeSet};

use outlast_expressions::value::{self, Deferred};
use outlast_lineage::Digest;
use outlast_workflow::program::{Kind, OnFault, Task, Transform};
use outlast_workflow::{Program, TaskId};

use super::expression::Compiler;
use super::scope::{Scope, Site};
use super::tasks::{self, Numbers};
use crate::Diagnostic;
use crate::text::Cursor;
use flow::Siblings;
use names::Names;

/// A document being lowered.
pub(super) struct Lowering<'a> {
    document: Cursor<'a>,
    names: Names<'a>,
    numbers: Numbers,
    compiler: Compiler<'a>,
    tasks: BTreeMap<TaskId, Task>,
    /// The pointers of the tasks around the one being lowered.
    pointers: BTreeMap<TaskId, String>,
    /// Whether all jumps and tasks are understood, so that the flow as a whole can be judged.
    flow_is_known: bool,
    /// Jumps that have been reported already, by pointer.
    reported_jumps: BTreeSet<String>,
}

/// What lowering gives: a program, fit to run only if there are no errors, and the problems.
pub(super) struct Lowered {
    pub(super) program: Program,
    pub(super) found: Vec<Diagnostic>,
    pub(super) flow_is_known: bool,
}

/// Lowers a document. `text` is what it was read from.
pub(super) fn lower(document: &Cursor<'_>, text: &str) -> Lowered {
    let names = Names::of(document);
    let lowering = Lowering {
        document: document.clone(),
        compiler: Compiler::new(text, names.secrets.clone()),
        names,
        numbers: Numbers::of(document),
        tasks: BTreeMap::new(),
        pointers: BTreeMap::new(),
        flow_is_known: true,
        reported_jumps: BTreeSet::new(),
    };
    lowering.run(text)
}

impl<'a> Lowering<'a> {
    fn run(mut self, text: &str) -> Lowered {
        let document = self.document.clone();
        let outer = Scope::default();
        if let Some(list) = document.get("do") {
            self.sequence(&list, &outer);
        }
        for function in tasks::functions(&document) {
            self.task(&function, &Siblings::default(), &outer);
        }
        let (input, output) = (document.get("input"), document.get("output"));
        let input = self.transform(input.as_ref(), "from", Site::WorkflowInput, &outer);
        let output = self.transform(output.as_ref(), "as", Site::WorkflowOutput, &outer);
        let timeout = document.get("timeout");
        let timeout = timeout.and_then(|it| self.timeout(&it, Site::WorkflowInput, &outer));
        self.check_schedule(&outer);
        self.check_unused_names(&outer);
        self.check_dsl();
        self.check_evaluation();
        let program = self.program(text, input, output, timeout);
        self.finish(program)
    }

    fn program(
        &mut self,
        text: &str,
        input: Transform,
        output: Transform,
        timeout: Option<outlast_workflow::program::Template>,
    ) -> Program {
        let header = self.document.get("document");
        let say = |name: &str| {
            header.as_ref().and_then(|it| it.text_of(name)).unwrap_or_default().to_owned()
        };
        let block = self.document.clone().follow("/document/metadata/outlast");
        let block = Some(block).filter(|it| it.pointer == "/document/metadata/outlast");
        let on_fault = match block.as_ref().and_then(|it| it.text_of("onFault")) {
            Some("compensate") => OnFault::Compensate,
            _ => OnFault::Leave,
        };
        if let Some(block) = &block {
            self.document_block(block);
        }
        Program {
            digest: Digest::of(text.as_bytes()),
            namespace: say("namespace"),
            name: say("name"),
            version: say("version"),
            dsl: say("dsl"),
            definition: Deferred::put_away(value::from_json(self.document.node.to_json())),
            tasks: self.all_tasks(),
            input,
            output,
            timeout,
            on_fault,
            secrets: self.names.secrets.clone(),
            extension: block.map_or(value::null(), |it| value::from_json(it.node.to_json())),
            linked: Default::default(),
        }
    }

    /// All tasks by number; what could not be lowered is a stand-in.
    fn all_tasks(&mut self) -> Vec<Task> {
        let count = u32::try_from(self.numbers.len()).expect("numbers are small");
        let mut lowered = std::mem::take(&mut self.tasks);
        let stand_in = || {
            let kind = Kind::Unsupported("a task that could not be read".to_owned());
            task::bare(String::new(), Default::default(), kind)
        };
        let task = |number| lowered.remove(&TaskId(number)).unwrap_or_else(stand_in);
        (0..count).map(task).collect()
    }

    /// The checks that need the whole program.
    fn finish(mut self, mut program: Program) -> Lowered {
        scopes::imply(&mut program);
        self.check_references(&program);
        bounds::check(&program).into_iter().for_each(|found| self.report(found));
        Lowered {
            program,
            found: self.compiler.found.into_list(),
            flow_is_known: self.flow_is_known,
        }
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.compiler.found.push(diagnostic);
    }
}
