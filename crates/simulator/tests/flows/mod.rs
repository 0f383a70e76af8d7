//! Flows written by hand, for the simulator's tests.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::sync::Arc;

use outlast_expressions::{Filter, Value, value};
use outlast_lineage::{Digest, ExecutionId};
use outlast_simulator::{Plan, StartPlan};
use outlast_workflow::program::{
    Backoff, Catch, Class, Compensation, ErrorFilter, EventFilter, EventStrategy, Expression, Flow,
    Idempotency, Kind, OnFault, Place, ReadMode, RetryPolicy, Service, Task, Template, Traits,
    Transform, Undo,
};
use outlast_workflow::{Program, TaskId};

/// Tasks with numbers, as they are added.
#[derive(Default)]
pub(crate) struct Tasks(Vec<Task>);

pub(crate) fn literal(text: &str) -> Template {
    Template::Literal(value::string(text))
}

impl Tasks {
    pub(crate) fn new() -> Self {
        // The root comes first and is filled in last.
        let mut tasks = Self::default();
        tasks.add("do", Kind::Sequence(Vec::new()));
        tasks
    }

    pub(crate) fn add(&mut self, name: &str, kind: Kind) -> TaskId {
        let id = TaskId(u32::try_from(self.0.len()).unwrap());
        self.0.push(Task {
            name: name.to_owned(),
            place: Place { pointer: format!("/do/{}/{name}", id.0), ..Place::default() },
            condition: None,
            input: Transform::default(),
            output: Transform::default(),
            export: Transform::default(),
            timeout: None,
            then: Flow::Continue,
            kind,
            traits: Traits::default(),
        });
        id
    }

    /// A call of a service whose first word says how it goes.
    pub(crate) fn call(&mut self, name: &str) -> TaskId {
        let service = Service::Catalog { name: name.to_owned(), version: "1.0.0".to_owned() };
        self.add(name, Kind::Call { service, arguments: Some(literal(name)) })
    }

    /// A call that is undone by another.
    pub(crate) fn undoable(&mut self, name: &str) -> TaskId {
        let undo = self.call(&format!("undo {name}"));
        let id = self.call(name);
        self.0[id.0 as usize].traits = Traits {
            class: Some(Class::Compensatable),
            compensation: Some(Compensation {
                undo: Undo::Run(undo),
                capture: None,
                cost: None,
                retry: None,
                timeout: None,
                tolerant: false,
            }),
            ..Traits::default()
        };
        id
    }

    /// Its provider acts every time it is asked, whatever the key.
    pub(crate) fn acts_every_time(&mut self, task: TaskId) {
        let none = Idempotency { key: None, header: None, none: true };
        self.0[task.0 as usize].traits.idempotency = Some(none);
        // Its undo says which of several acts it undoes: it carries the receipt.
        let compensation = self.0[task.0 as usize].traits.compensation.as_mut().unwrap();
        let filter = Filter::compile(".", &[]).unwrap();
        let capture = Expression { filter, place: Place::default() };
        compensation.capture = Some(Template::Computed(capture));
        compensation.tolerant = true;
        if let Undo::Run(undo) = compensation.undo
            && let Kind::Call { arguments, .. } = &mut self.0[undo.0 as usize].kind
        {
            *arguments = None;
        }
    }

    pub(crate) fn pivot(&mut self, name: &str) -> TaskId {
        let id = self.call(name);
        self.0[id.0 as usize].traits.class = Some(Class::Pivot);
        id
    }

    pub(crate) fn wait(&mut self, duration: &str) -> TaskId {
        self.add("wait", Kind::Wait(literal(duration)))
    }

    pub(crate) fn sequence(&mut self, tasks: Vec<TaskId>) -> TaskId {
        self.add("sequence", Kind::Sequence(tasks))
    }

    pub(crate) fn fork(&mut self, branches: Vec<TaskId>) -> TaskId {
        self.add("fork", Kind::Fork { branches, compete: false })
    }

    pub(crate) fn repeat(&mut self, times: i64, concurrency: u32, body: Vec<TaskId>) -> TaskId {
        let body = self.sequence(body);
        let items: Value = (0..times).map(value::integer).collect();
        self.add(
            "for",
            Kind::Loop {
                each: "item".to_owned(),
                at: "index".to_owned(),
                items: Template::Literal(items),
                condition: None,
                body,
                concurrency,
            },
        )
    }

    pub(crate) fn retried(&mut self, body: Vec<TaskId>) -> TaskId {
        let body = self.sequence(body);
        let retry = RetryPolicy {
            delay: Some(literal("PT1S")),
            backoff: Backoff::Exponential,
            attempts: Some(5),
            ..RetryPolicy::default()
        };
        let catch = Catch {
            errors: ErrorFilter::default(),
            variable: "error".to_owned(),
            when: None,
            except_when: None,
            retry: Some(Box::new(retry)),
            body: None,
            then: None,
        };
        self.add("try", Kind::Try { body, catch })
    }

    pub(crate) fn emit(&mut self, kind: &str) -> TaskId {
        let event = value::object([
            ("type", value::string(kind)),
            ("source", value::string("https://here.example")),
        ]);
        self.add("emit", Kind::Emit(Template::Literal(event)))
    }

    pub(crate) fn listen(&mut self, kind: &str) -> TaskId {
        let with = vec![("type".to_owned(), literal(kind))];
        let to = EventStrategy::One(EventFilter { with, correlate: Vec::new() });
        self.add("listen", Kind::Listen { to, read: ReadMode::Data, each: None })
    }

    pub(crate) fn child(&mut self, workflow: &str) -> TaskId {
        self.add(
            "run",
            Kind::RunWorkflow {
                namespace: "test".to_owned(),
                name: workflow.to_owned(),
                version: "latest".to_owned(),
                input: None,
                wait: true,
            },
        )
    }

    /// The program that runs some of the tasks one after the other.
    pub(crate) fn program(
        mut self,
        name: &str,
        order: Vec<TaskId>,
        on_fault: OnFault,
    ) -> Arc<Program> {
        self.0[0].kind = Kind::Sequence(order);
        let text = format!("{name} {:?}", self.0);
        Arc::new(Program {
            digest: Digest::of(text.as_bytes()),
            namespace: "test".to_owned(),
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            dsl: "1.0.3".to_owned(),
            definition: Value::Null.into(),
            tasks: self.0,
            input: Transform::default(),
            output: Transform::default(),
            timeout: None,
            on_fault,
            secrets: Vec::new(),
            extension: Value::Null,
            linked: Default::default(),
        })
    }
}

/// A plan that registers programs and starts the first of them so many times.
pub(crate) fn plan(programs: &[Arc<Program>], starts: u8) -> Plan {
    let first = &programs[0];
    let start = |number: u8| StartPlan {
        id: ExecutionId::from_bytes([number; 16]),
        namespace: first.namespace.clone(),
        workflow: first.name.clone(),
        input: value::object([("number", value::integer(i64::from(number)))]),
        survival: None,
        delay: std::time::Duration::ZERO,
    };
    Plan {
        definitions: programs
            .iter()
            .map(|program| (Arc::clone(program), Arc::from(program.name.as_str())))
            .collect(),
        starts: (1..=starts).map(start).collect(),
        events: Vec::new(),
    }
}
