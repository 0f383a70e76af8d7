//! Expressions: what they see, and where they are evaluated.

use outlast_expressions::{Judgement, Value, value};
use outlast_lineage::Time;

use super::Machine;
use super::gathering::element;
use crate::execution::{Activity, Branch, Datum, Evaluating, Frame, Nested, TryStage};
use crate::program::{Expression, Kind, Template};
use crate::{Fault, FaultKind, Ticket, secret};

/// How much of an expression is quoted in a message.
const QUOTED_MAX: usize = 200;

/// What an expression sees besides the frames around it.
pub(super) struct Sight<'s> {
    /// What `.` is.
    pub(super) input: Value,
    /// What `$output` is, where there is one.
    pub(super) output: Option<Value>,
    /// How many frames are visible.
    pub(super) depth: usize,
    /// An error that is about to be caught, under its name.
    pub(super) error: Option<(&'s str, &'s Fault)>,
}

impl Sight<'_> {
    /// Everything the innermost task of a branch sees.
    pub(super) fn from_top(branch: &Branch, input: Value) -> Self {
        Self { input, output: None, depth: branch.frames().len(), error: None }
    }
}

/// A value now, or later.
pub(super) enum Evaluated {
    Value(Value),
    /// A worker evaluates it; the branch waits.
    Later,
    /// It has none.
    Fault(Fault),
}

/// Takes the value of an evaluation, or leaves the function with the turn that is due.
macro_rules! evaluated {
    ($machine:expr, $branch:expr, $evaluated:expr) => {
        match $evaluated {
            $crate::interpreter::evaluation::Evaluated::Value(value) => value,
            $crate::interpreter::evaluation::Evaluated::Later => {
                return $crate::interpreter::Turn::Wait;
            }
            $crate::interpreter::evaluation::Evaluated::Fault(fault) => {
                return $machine.raise($branch, fault);
            }
        }
    };
}
pub(super) use evaluated;

impl Machine<'_> {
    /// Evaluates a template at the innermost frame: in place if it is bounded, by a worker if not.
    pub(super) fn evaluate(
        &mut self,
        branch: &mut Branch,
        template: &Template,
        sight: &Sight<'_>,
    ) -> Evaluated {
        match template {
            Template::Literal(value) => Evaluated::Value(value.clone()),
            Template::Computed(expression) => self.evaluate_expression(branch, expression, sight),
        }
    }

    pub(super) fn evaluate_expression(
        &mut self,
        branch: &mut Branch,
        expression: &Expression,
        sight: &Sight<'_>,
    ) -> Evaluated {
        if let Some(result) = self.given.take() {
            branch.top_mut().expect("something is being evaluated").evaluating = None;
            return match result {
                Ok(value) => Evaluated::Value(value),
                Err(message) => {
                    Evaluated::Fault(self.expression_fault(branch, expression, &message))
                }
            };
        }
        match expression.filter.judgement() {
            Judgement::Bounded => match self.evaluate_here(branch, expression, sight) {
                Ok(value) => Evaluated::Value(value),
                Err(fault) => Evaluated::Fault(fault),
            },
            Judgement::Unbounded(_) => {
                self.evaluate_elsewhere(branch, expression, sight);
                Evaluated::Later
            }
        }
    }

    fn evaluate_elsewhere(
        &mut self,
        branch: &mut Branch,
        expression: &Expression,
        sight: &Sight<'_>,
    ) {
        let ticket = branch.ticket();
        let names = expression.filter.uses().iter();
        let bindings: Vec<(String, Value)> = names
            .map(|name| (name.clone(), self.binding(branch, expression, name, sight)))
            .collect();
        let evaluating = Evaluating {
            ticket,
            source: expression.filter.source().to_owned(),
            input: self.intern(sight.input.clone()),
            bindings: bindings.into_iter().map(|(name, v)| (name, self.intern(v))).collect(),
        };
        self.commands.push(self.execution.evaluation_command(&evaluating));
        branch.top_mut().expect("a task is being run").evaluating = Some(Box::new(evaluating));
    }

    /// Evaluates in place, for the places where a branch cannot be left: they take only what is
    /// bounded.
    pub(super) fn evaluate_here(
        &self,
        branch: &Branch,
        expression: &Expression,
        sight: &Sight<'_>,
    ) -> Result<Value, Fault> {
        if let Judgement::Unbounded(reason) = expression.filter.judgement() {
            let message = format!("only a bounded expression may stand here: {reason}");
            return Err(self.expression_fault(branch, expression, &message));
        }
        expression
            .filter
            .evaluate(&sight.input, &|name| self.binding(branch, expression, name, sight))
            .map_err(|error| error.message)
            .and_then(|value| self.bounded(value))
            .map_err(|message| self.expression_fault(branch, expression, &message))
    }

    pub(super) fn evaluate_template_here(
        &self,
        branch: &Branch,
        template: &Template,
        sight: &Sight<'_>,
    ) -> Result<Value, Fault> {
        match template {
            Template::Literal(value) => Ok(value.clone()),
            Template::Computed(expression) => self.evaluate_here(branch, expression, sight),
        }
    }

    /// A worker's answer: the branch takes its turn again with the value in hand.
    pub(super) fn take_evaluation(&mut self, ticket: Ticket, result: Result<Value, String>) {
        let Some(mut branch) = self.take_waiting(ticket) else { return };
        let waits = |frame: &Frame| frame.evaluating.as_ref().is_some_and(|e| e.ticket == ticket);
        if !branch.top().is_some_and(waits) {
            return self.put(branch);
        }
        self.given = Some(result);
        let turn = self.turn(&mut branch);
        self.settle(branch, turn);
    }

    /// An expression without a value, quoted as its author wrote it, which may be part of a larger one
    /// by now.
    fn expression_fault(&self, branch: &Branch, expression: &Expression, message: &str) -> Fault {
        let document = match branch.top() {
            Some(frame) => self.program.document_of(frame.task),
            None => self.program.definition.value(),
        };
        let written = at_pointer(document, &expression.place.pointer);
        let written = match value::as_str(&written) {
            Some(text) => text.to_owned(),
            None if written == Value::default() => expression.filter.source().to_owned(),
            None => value::to_text(&written),
        };
        let line = match expression.place.span.line {
            0 => String::new(),
            line => format!(" (line {line})"),
        };
        let detail = format!("{message}, in `{}`{line}", shortened(&written, QUOTED_MAX));
        Fault::new(FaultKind::Expression, "the expression has no value", detail)
    }

    /// The value of a variable where an expression stands.
    fn binding(
        &self,
        branch: &Branch,
        expression: &Expression,
        name: &str,
        sight: &Sight<'_>,
    ) -> Value {
        match name {
            "context" => self.value(branch.context()),
            "input" => self.frame_input(branch, sight),
            "output" => sight.output.clone().unwrap_or_default(),
            "authorization" => self.describe_authorization(branch, sight),
            "task" => self.describe_task(branch, sight),
            "workflow" => self.describe_workflow(branch),
            "runtime" => value::object([
                ("name", value::string("outlast")),
                ("version", value::string(env!("CARGO_PKG_VERSION"))),
                ("metadata", value::object([])),
            ]),
            "secrets" => secret::stand_ins(&self.execution.salt, expression.filter.source()),
            _ => self.variable(branch, name, sight).unwrap_or_default(),
        }
    }

    fn frame_input(&self, branch: &Branch, sight: &Sight<'_>) -> Value {
        match sight.depth.checked_sub(1) {
            Some(top) => self.value(branch.frames()[top].input()),
            None => Value::default(),
        }
    }

    fn describe_task(&self, branch: &Branch, sight: &Sight<'_>) -> Value {
        let Some(top) = sight.depth.checked_sub(1) else { return Value::default() };
        let frame = &branch.frames()[top];
        let task = self.program.task(frame.task);
        let mut members = vec![
            ("name", value::string(&task.name)),
            ("reference", value::string(&task.place.pointer)),
            ("definition", at_pointer(self.program.document_of(frame.task), &task.place.pointer)),
            ("input", self.value(&frame.raw)),
            ("startedAt", describe_time(frame.started)),
        ];
        if let Some(output) = &sight.output {
            members.push(("output", output.clone()));
        }
        value::object(members)
    }

    fn describe_workflow(&self, branch: &Branch) -> Value {
        let (id, definition, input, started) = match branch.workflow() {
            Some(Nested { id, part, input, started, .. }) => {
                (*id, &self.program.linked.part(*part).definition, input, *started)
            }
            None => {
                let execution = &*self.execution;
                let definition = &self.program.definition;
                (execution.id, definition, &execution.input, execution.started_at)
            }
        };
        value::object([
            ("id", value::string(&id.to_string())),
            ("definition", definition.value().clone()),
            ("input", self.value(input)),
            ("startedAt", describe_time(started)),
        ])
    }

    /// A loop item, an index or a caught error, from the inside out.
    fn variable(&self, branch: &Branch, name: &str, sight: &Sight<'_>) -> Option<Value> {
        if let Some((variable, fault)) = sight.error
            && variable == name
        {
            return Some(fault.to_value());
        }
        let mut outermost = &branch.birth.variables;
        for frame in branch.frames()[..sight.depth].iter().rev() {
            if let Some(value) = self.variable_of(frame, name) {
                return Some(value);
            }
            if let Some(around) = &frame.around {
                outermost = &around.variables;
                break;
            }
        }
        let (_, datum) = outermost.iter().rev().find(|(variable, _)| variable == name)?;
        Some(self.value(datum))
    }

    fn variable_of(&self, frame: &Frame, name: &str) -> Option<Value> {
        match (&frame.activity, &self.program.task(frame.task).kind) {
            (Activity::Loop { items, index, .. }, Kind::Loop { each, at, .. }) => {
                if name == each {
                    element(&self.value(items), *index as usize)
                } else {
                    (name == at).then(|| value::integer(*index as i64))
                }
            }
            (Activity::Try(trying), Kind::Try { catch, .. }) => match &trying.stage {
                TryStage::Handling(fault) if name == catch.variable => Some(fault.to_value()),
                _ => None,
            },
            (Activity::Item(listening, _), Kind::Listen { each: Some(each), .. }) => {
                if name == each.item {
                    listening.item.as_ref().map(|item| self.value(item))
                } else {
                    (name == each.at).then(|| value::integer(i64::from(listening.count)))
                }
            }
            _ => None,
        }
    }

    /// All variables that are visible at the top of a branch, for branches that are forked there.
    pub(super) fn visible_at_top(&mut self, branch: &Branch) -> Vec<(String, Datum)> {
        self.visible_variables(branch, branch.frames().iter())
    }

    /// All variables that are visible inside some frames, the outermost of a branch first.
    pub(super) fn visible_variables<'f>(
        &mut self,
        branch: &Branch,
        frames: impl Iterator<Item = &'f Frame>,
    ) -> Vec<(String, Datum)> {
        let mut variables = branch.birth.variables.clone();
        for frame in frames {
            if let Some(around) = &frame.around {
                variables = around.variables.clone();
            }
            let names: Vec<&str> = match &self.program.task(frame.task).kind {
                Kind::Loop { each, at, .. } => vec![each, at],
                Kind::Try { catch, .. } => vec![&catch.variable],
                Kind::Listen { each: Some(each), .. } => vec![&each.item, &each.at],
                _ => continue,
            };
            for name in names {
                if let Some(value) = self.variable_of(frame, name) {
                    variables.retain(|(known, _)| known != name);
                    let datum = self.intern(value);
                    variables.push((name.to_owned(), datum));
                }
            }
        }
        variables
    }
}

/// The beginning of a text, for a message.
pub(super) fn shortened(text: &str, characters_max: usize) -> String {
    match text.char_indices().nth(characters_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A point in time as expressions see it.
pub(super) fn describe_time(time: Time) -> Value {
    let milliseconds = time.as_millis() as i64;
    value::object([
        ("iso8601", value::string(&crate::moment::iso8601(time))),
        (
            "epoch",
            value::object([
                ("seconds", value::integer(milliseconds / 1000)),
                ("milliseconds", value::integer(milliseconds)),
            ]),
        ),
    ])
}

/// The part of a document a JSON pointer names.
fn at_pointer(document: &Value, pointer: &str) -> Value {
    let mut value = document;
    for token in pointer.split('/').skip(1) {
        let name = token.replace("~1", "/").replace("~0", "~");
        let index = name.parse::<usize>().ok();
        let element = index.and_then(|index| value::as_array(value)?.get(index));
        match element.or_else(|| value::get(value, &name)) {
            Some(part) => value = part,
            None => return Value::default(),
        }
    }
    value.clone()
}
