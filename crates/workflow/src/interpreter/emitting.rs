//! Events that are told: `emit`.
//!
//! Alone, a node takes an event in with the record in which the execution learns that it was
//! published. Where several nodes hold an execution, its line may still be lost: what it emits is kept
//! in its value, and leaves when the engine releases it. After the end, when one of them goes on with it,
//! that node is alone.

use outlast_expressions::{Value, value};
use outlast_lineage::Digester;

use super::evaluation::{Sight, evaluated};
use super::{Machine, Turn};
use crate::execution::{Activity, Branch, Exchange, ExchangePatch, Outgoing};
use crate::program::{Class, Template};
use crate::{Command, Fault, FaultKind, Happening, TaskId};

impl Machine<'_> {
    pub(super) fn begin_emit(&mut self, branch: &mut Branch, template: &Template) -> Turn {
        let sight = Sight::from_top(branch, self.value(branch.data()));
        let given = evaluated!(self, branch, self.evaluate(branch, template, &sight));
        let event = self.complete_event(branch, &given);
        let kind = value::get(&event, "type").and_then(value::as_str).unwrap_or("").to_owned();
        let task = branch.top().expect("a task is being run").task;
        if self.may_be_lost() {
            return self.emit_later(branch, task, kind, event);
        }
        self.happenings.push(Happening::Published(task, kind));
        let ticket = branch.ticket();
        self.commands.push(Command::Publish { ticket, event: event.clone() });
        let event = self.intern(event);
        self.set_activity(branch, Activity::Publishing { ticket, event });
        Turn::Wait
    }

    /// Keeps an event until it is released; the run goes on at once.
    fn emit_later(
        &mut self,
        branch: &mut Branch,
        task: TaskId,
        kind: String,
        event: Value,
    ) -> Turn {
        let number = match self.number_in_outbox() {
            Ok(number) => number,
            Err(fault) => return self.raise(branch, fault),
        };
        self.happenings.push(Happening::Published(task, kind));
        let class = self.program.task(task).traits.class;
        let at_once = class.is_some_and(|class| class != Class::Pivot);
        let event = self.intern(event);
        let emitted = self.now;
        let outgoing = Outgoing { number, event: event.clone(), emitted, at_once, start: None };
        self.exchange(ExchangePatch { emitted: vec![outgoing], ..ExchangePatch::default() });
        branch.set_data(event);
        self.complete(branch)
    }

    /// Whether several nodes hold the execution, so that another line of it may be decided on.
    pub(super) fn may_be_lost(&self) -> bool {
        self.execution.is_shared() && self.execution.head.revivals.is_none()
    }

    /// The number of what is to leave next, where several nodes hold the execution.
    pub(super) fn number_in_outbox(&self) -> Result<u64, Fault> {
        let exchange = self.execution.exchange.as_ref().expect("the caller has seen it");
        exchange.next_number().ok_or_else(|| {
            let detail = "what is emitted or started leaves when it is decided that its line \
                          counts, which needs a majority of the nodes that hold the execution";
            Fault::new(FaultKind::Runtime, "too much waits to leave", detail)
        })
    }

    /// Something has left: it need not be kept any more.
    pub(super) fn released(&mut self, number: u64) {
        let waits = |exchange: &Exchange| exchange.outbox().any(|known| known.number == number);
        if self.execution.exchange.as_deref().is_some_and(waits) {
            self.exchange(ExchangePatch { released: vec![number], ..ExchangePatch::default() });
        }
    }

    pub(super) fn exchange(&mut self, patch: ExchangePatch) {
        if let Some(exchange) = &mut self.execution.exchange {
            exchange.apply(&patch);
            self.touched.exchange.extend(patch);
        }
    }

    /// Fills in what the document leaves to the runtime. The id is derived, so that receivers can
    /// tell an event that is published again after a restart.
    fn complete_event(&self, branch: &Branch, given: &Value) -> Value {
        let frame = branch.top().expect("a task is being run");
        let (path, part) = (frame.path, self.program.linked.around(frame.task));
        let digest = Digester::new("event")
            .field(self.execution.id.as_bytes())
            .number(path.0)
            .number(self.incarnation(branch));
        let id = format!("{:016x}", digest.finish().short());
        let own = (&self.program.namespace, &self.program.name);
        let (namespace, name) = part.map_or(own, |part| (&part.namespace, &part.name));
        let source = format!("/{namespace}/{name}");
        let defaults = [
            ("id", value::string(&id)),
            ("specversion", value::string("1.0")),
            ("source", value::string(&source)),
            ("time", value::string(&crate::moment::iso8601(self.now))),
        ];
        let missing = defaults.into_iter().filter(|(name, _)| value::get(given, name).is_none());
        let given = value::members(given).map(|(name, value)| (name, value.clone()));
        value::object(missing.chain(given).collect::<Vec<_>>())
    }

    /// The event is stored: it is the task's output.
    pub(super) fn published(&mut self, branch: &mut Branch) -> Turn {
        let Some(Activity::Publishing { event, .. }) = branch.top().map(|f| &f.activity) else {
            unreachable!("the caller has seen it")
        };
        let event = event.clone();
        branch.set_data(event);
        self.complete(branch)
    }
}
