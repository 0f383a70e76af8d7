//! Small programs, written as trees.

use std::sync::Arc;

use outlast_expressions::{Filter, Value, value};
use outlast_lineage::Digest;
use outlast_workflow::program::{
    self as graph, Backoff, Catch, Class, Compensation, CompensationOrder, ErrorFilter, Expression,
    Flow, Graph, Idempotency, Kind, Link, OnFailure, OnFault, Place, RetryPolicy, Scatter,
    ScatterMethod, Service, Source, Task, Template, Traits, Transform, Undo,
};
use outlast_workflow::{Program, TaskId};

/// What a program is made of.
#[derive(Clone, Debug)]
pub enum Node {
    /// Calls the service with this name; undone by the service of the same name with a bar. Inside
    /// loops and handlers both are told where, by the variables that are visible there.
    Invoke(&'static str),
    /// The same, and only a worker can work out what its undo is told.
    Intricate(&'static str),
    /// Like `Invoke`, with a provider that knows no keys.
    Once(&'static str),
    /// The same, undone by a service that cancels the name whether it was called or not.
    Cancellable(&'static str),
    /// Calls the service with this name; undone by what is given.
    UndoneBy(&'static str, Box<Self>),
    /// Calls a service that is not undone.
    Plain(&'static str),
    /// Calls a service that only reads.
    Read(&'static str),
    /// Calls a service that can be neither undone nor repeated.
    Pivot(&'static str),
    /// Calls a service; the alternatives are tried when it fails.
    Choice(&'static str, Vec<&'static str>),
    /// Sets the data.
    Set(&'static str),
    /// Adds a member to the context.
    Export(&'static str),
    /// Waits, in milliseconds.
    Wait(i64),
    /// One after the other.
    Sequence(Vec<Self>),
    /// Side by side.
    Fork(Vec<Self>),
    /// The first wins.
    Compete(Vec<Self>),
    /// So many times; so many at once.
    Loop(usize, u32, Box<Self>),
    /// A scope: body, retries, and what handles an error.
    Try(Box<Self>, u64, Option<Box<Self>>),
    /// A scope without a handler.
    Scope(Box<Self>),
    /// Takes too long after so many milliseconds.
    Within(i64, Box<Self>),
    /// The same for a task itself, without one around it.
    Limited(i64, Box<Self>),
    /// Rolls back the innermost scope.
    Compensate,
    /// Rolls back in parallel.
    CompensateParallel,
    /// Raises an error.
    Raise(u16),
    /// Runs another workflow.
    Child(&'static str),
    /// Runs a workflow without waiting for its end.
    Detach(&'static str),
    /// The first if the data is truthy under this expression.
    If(&'static str, Box<Self>),
    /// Steps ordered by data and by links `(from, to, condition)`.
    Graph(Vec<Step>, Vec<(usize, usize, Option<&'static str>)>),
    /// Any task, for what the others cannot say.
    Task(Box<Task>),
}

/// One step of a graph.
#[derive(Clone, Debug)]
pub struct Step {
    pub node: Node,
    pub inputs: Vec<(&'static str, From)>,
    pub when: Option<&'static str>,
    pub scatter: Option<(Vec<&'static str>, ScatterMethod, u32)>,
}

/// Where an input of a step comes from.
#[derive(Clone, Debug)]
pub enum From {
    /// An expression on the region's input.
    Region(&'static str),
    /// The output of a step.
    Step(usize),
    /// A part of the output of a step.
    Part(usize, &'static str),
}

impl Step {
    pub fn new(node: Node) -> Self {
        Self { node, inputs: Vec::new(), when: None, scatter: None }
    }

    pub fn input(mut self, name: &'static str, from: From) -> Self {
        self.inputs.push((name, from));
        self
    }

    pub fn when(mut self, condition: &'static str) -> Self {
        self.when = Some(condition);
        self
    }

    pub fn scatter(mut self, over: &[&'static str], method: ScatterMethod, window: u32) -> Self {
        self.scatter = Some((over.to_vec(), method, window));
        self
    }
}

pub fn program(root: Node) -> Arc<Program> {
    program_with(root, OnFault::Leave)
}

pub fn program_with(root: Node, on_fault: OnFault) -> Arc<Program> {
    program_named("built", root, on_fault)
}

pub fn program_named(name: &str, root: Node, on_fault: OnFault) -> Arc<Program> {
    Arc::new(bare_program(name, root, on_fault))
}

/// A program whose parts can still be changed.
pub fn bare_program(name: &str, root: Node, on_fault: OnFault) -> Program {
    let mut builder = Builder { tasks: Vec::new(), variables: Vec::new() };
    let text = format!("{root:?}{on_fault:?}");
    let root_id = builder.reserve();
    let child = builder.add(root);
    builder.tasks[root_id.0 as usize] = Some(task("", "/do", Kind::Sequence(vec![child])));
    let tasks = builder.tasks.into_iter().map(|task| task.expect("every number is used"));
    Program {
        digest: Digest::of(text.as_bytes()),
        namespace: "test".into(),
        name: name.into(),
        version: "1.0.0".into(),
        dsl: "1.0.3".into(),
        definition: Value::default().into(),
        tasks: tasks.collect(),
        input: Transform::default(),
        output: Transform::default(),
        timeout: None,
        on_fault,
        secrets: Vec::new(),
        extension: Value::default(),
        linked: Default::default(),
    }
}

struct Builder {
    tasks: Vec<Option<Task>>,
    variables: Vec<String>,
}

impl Builder {
    fn run(&mut self, name: &str, wait: bool) -> TaskId {
        let kind = Kind::RunWorkflow {
            namespace: "test".into(),
            name: name.into(),
            version: "1.0.0".into(),
            input: None,
            wait,
        };
        self.put(task(name, "/child", kind))
    }

    fn reserve(&mut self) -> TaskId {
        self.tasks.push(None);
        TaskId(self.tasks.len() as u32 - 1)
    }

    fn put(&mut self, task: Task) -> TaskId {
        let id = self.reserve();
        self.tasks[id.0 as usize] = Some(task);
        id
    }

    fn body(&mut self, node: Node) -> TaskId {
        let child = self.add(node);
        self.put(task("", "/body", Kind::Sequence(vec![child])))
    }

    fn add(&mut self, node: Node) -> TaskId {
        match node {
            Node::Invoke(name) => self.undoable(name, "bar", false, None),
            Node::Intricate(name) => {
                let id = self.undoable(name, "bar", false, None);
                let capture =
                    self.template(&format!("{} + {{last: last(range(3))}}", self.place()));
                let task = self.tasks[id.0 as usize].as_mut().expect("it was just put there");
                let compensation = task.traits.compensation.as_mut().expect("it is undone");
                compensation.capture = Some(capture);
                id
            }
            Node::UndoneBy(name, undo) => {
                let undo = self.body(*undo);
                let id = self.undoable(name, "bar", false, None);
                let task = self.tasks[id.0 as usize].as_mut().expect("it was just put there");
                let compensation = task.traits.compensation.as_mut().expect("it is undone");
                compensation.undo = Undo::Run(undo);
                id
            }
            Node::Cancellable(name) => self.undoable(name, "cancel", true, None),
            Node::Once(name) => {
                let none = Idempotency { key: None, header: None, none: true };
                self.undoable(name, "bar", false, Some(none))
            }
            Node::Plain(name) => self.put(call(name)),
            Node::Read(name) => self.classed(name, Class::Readonly),
            Node::Pivot(name) => self.classed(name, Class::Pivot),
            Node::Choice(name, alternatives) => {
                let alternatives = alternatives.into_iter().map(|a| self.put(call(a))).collect();
                let mut task = call(name);
                task.traits.alternatives = alternatives;
                self.put(task)
            }
            Node::Set(source) => {
                let template = self.template(source);
                self.put(task("set", "/set", Kind::Set(template)))
            }
            Node::Export(source) => {
                let template = self.template(source);
                let mut task = task("export", "/export", Kind::Set(self.template(".")));
                task.export.template = Some(template);
                self.put(task)
            }
            Node::Wait(milliseconds) => {
                let wait = value::object([("milliseconds", value::integer(milliseconds))]);
                self.put(task("wait", "/wait", Kind::Wait(Template::Literal(wait))))
            }
            Node::Sequence(nodes) => {
                let tasks = nodes.into_iter().map(|node| self.add(node)).collect();
                self.put(task("sequence", "/sequence", Kind::Sequence(tasks)))
            }
            Node::Fork(nodes) => self.fork(nodes, false),
            Node::Compete(nodes) => self.fork(nodes, true),
            Node::Loop(count, concurrency, body) => self.repeat(count, concurrency, *body),
            Node::Try(body, retries, handler) => self.attempt(*body, retries, handler),
            Node::Scope(body) => {
                let child = self.add(*body);
                let mut task = task("scope", "/scope", Kind::Sequence(vec![child]));
                task.traits.scope = true;
                self.put(task)
            }
            Node::Within(milliseconds, body) => {
                let child = self.add(*body);
                let mut task = task("within", "/within", Kind::Sequence(vec![child]));
                let after = value::object([("milliseconds", value::integer(milliseconds))]);
                task.timeout = Some(Template::Literal(after));
                self.put(task)
            }
            Node::Limited(milliseconds, node) => {
                let id = self.add(*node);
                let after = value::object([("milliseconds", value::integer(milliseconds))]);
                let task = self.tasks[id.0 as usize].as_mut().expect("it was just put there");
                task.timeout = Some(Template::Literal(after));
                id
            }
            Node::Compensate => self.compensate(CompensationOrder::Reverse),
            Node::CompensateParallel => self.compensate(CompensationOrder::Parallel),
            Node::Raise(status) => {
                let error = value::object([
                    ("type", value::string("https://example.org/error")),
                    ("status", value::integer(i64::from(status))),
                ]);
                self.put(task("raise", "/raise", Kind::Raise(Template::Literal(error))))
            }
            Node::Child(name) => self.run(name, true),
            Node::Detach(name) => self.run(name, false),
            Node::If(source, body) => {
                let child = self.add(*body);
                let condition = self.expression(source);
                let mut task = task("if", "/if", Kind::Sequence(vec![child]));
                task.condition = Some(condition);
                self.put(task)
            }
            Node::Graph(steps, links) => self.graph(steps, links),
            Node::Task(task) => self.put(*task),
        }
    }

    fn graph(
        &mut self,
        steps: Vec<Step>,
        links: Vec<(usize, usize, Option<&'static str>)>,
    ) -> TaskId {
        let steps = steps.into_iter().map(|step| graph::Step {
            inputs: step
                .inputs
                .iter()
                .map(|(name, from)| ((*name).to_owned(), self.source(from)))
                .collect(),
            when: step.when.map(|when| self.expression(when)),
            scatter: step.scatter.map(|(over, method, window)| Scatter {
                over: over.into_iter().map(str::to_owned).collect(),
                method,
                window,
            }),
            task: self.add(step.node),
        });
        let steps = steps.collect();
        let links = links.into_iter().map(|(from, to, when)| Link {
            from,
            to,
            when: when.map(|when| self.expression(when)),
        });
        let links = links.collect();
        self.put(task("graph", "/graph", Kind::Graph(Graph { steps, links, output: None })))
    }

    fn source(&self, from: &From) -> Source {
        match from {
            From::Region(source) => Source::Region(self.template(source)),
            From::Step(step) => Source::Step { step: *step, part: None },
            From::Part(step, part) => {
                Source::Step { step: *step, part: Some(self.expression(part)) }
            }
        }
    }

    fn undoable(
        &mut self,
        name: &str,
        undo: &str,
        tolerant: bool,
        idempotency: Option<Idempotency>,
    ) -> TaskId {
        let mut undo = call(&format!("{name}-{undo}"));
        undo.traits.idempotency = idempotency.clone();
        let undo = self.put(undo);
        let mut task = call(name);
        if let Kind::Call { arguments, .. } = &mut task.kind {
            *arguments = self.whereabouts();
        }
        task.traits.class = Some(Class::Compensatable);
        task.traits.idempotency = idempotency;
        task.traits.compensation = Some(Compensation {
            undo: Undo::Run(undo),
            capture: self.whereabouts(),
            cost: Some(Template::Literal(value::integer(1))),
            retry: None,
            timeout: None,
            tolerant,
        });
        self.put(task)
    }

    /// Where a task stands, by the loops and handlers around it, if there are any.
    fn whereabouts(&self) -> Option<Template> {
        let place = self.place();
        (place != "{}").then(|| self.template(&place))
    }

    /// The same as an expression: `{at: […]}`, or `{}`.
    fn place(&self) -> String {
        let parts = self.variables.iter().filter_map(|name| match name.as_str() {
            "error" => Some("$error.status".to_owned()),
            name if name.starts_with("item") => Some(format!("${name}")),
            _ => None,
        });
        let parts: Vec<String> = parts.collect();
        match parts.is_empty() {
            true => "{}".to_owned(),
            false => format!("{{at: [{}]}}", parts.join(", ")),
        }
    }

    fn classed(&mut self, name: &str, class: Class) -> TaskId {
        let mut task = call(name);
        task.traits.class = Some(class);
        self.put(task)
    }

    fn fork(&mut self, nodes: Vec<Node>, compete: bool) -> TaskId {
        let branches = nodes.into_iter().map(|node| self.add(node)).collect();
        self.put(task("fork", "/fork", Kind::Fork { branches, compete }))
    }

    fn repeat(&mut self, count: usize, concurrency: u32, body: Node) -> TaskId {
        // The loops inside have names of their own: `item1`, `index1`.
        let depth = self.variables.iter().filter(|name| name.starts_with("item")).count();
        let suffix = if depth == 0 { String::new() } else { depth.to_string() };
        let (each, at) = (format!("item{suffix}"), format!("index{suffix}"));
        self.variables.extend([each.clone(), at.clone()]);
        let body = self.body(body);
        self.variables.truncate(self.variables.len() - 2);
        let items = value::array((0..count).map(|n| value::integer(n as i64)).collect::<Vec<_>>());
        self.put(task(
            "loop",
            "/loop",
            Kind::Loop {
                each,
                at,
                items: Template::Literal(items),
                condition: None,
                body,
                concurrency,
            },
        ))
    }

    fn attempt(&mut self, body: Node, retries: u64, handler: Option<Box<Node>>) -> TaskId {
        let body = self.body(body);
        self.variables.push("error".to_owned());
        let handler = handler.map(|handler| self.body(*handler));
        self.variables.pop();
        let policy = RetryPolicy {
            delay: Some(Template::Literal(value::string("PT0.1S"))),
            backoff: Backoff::Exponential,
            attempts: Some(retries),
            ..RetryPolicy::default()
        };
        let catch = Catch {
            errors: ErrorFilter::default(),
            variable: "error".into(),
            when: None,
            except_when: None,
            retry: (retries > 0).then_some(Box::new(policy)),
            body: handler,
            then: None,
        };
        let mut task = task("try", "/try", Kind::Try { body, catch });
        task.traits.scope = true;
        self.put(task)
    }

    fn compensate(&mut self, order: CompensationOrder) -> TaskId {
        let kind =
            Kind::Compensate { scope: None, until: None, order, on_failure: OnFailure::Raise };
        self.put(task("compensate", "/compensate", kind))
    }

    fn template(&self, source: &str) -> Template {
        Template::Computed(self.expression(source))
    }

    fn expression(&self, source: &str) -> Expression {
        let fixed = [
            "context",
            "input",
            "output",
            "task",
            "workflow",
            "runtime",
            "secrets",
            "authorization",
        ];
        let own = self.variables.iter().map(String::as_str);
        let names: Vec<&str> = fixed.into_iter().chain(own).collect();
        let filter = Filter::compile(source, &names).expect("the test's expression compiles");
        Expression { filter, place: Place::default() }
    }
}

/// An expression that sees no variables of loops or handlers.
pub fn expression(source: &str) -> Expression {
    Builder { tasks: Vec::new(), variables: Vec::new() }.expression(source)
}

pub fn call(name: &str) -> Task {
    let service = Service::Catalog { name: name.into(), version: "1.0.0".into() };
    task(name, &format!("/do/{name}"), Kind::Call { service, arguments: None })
}

pub fn task(name: &str, pointer: &str, kind: Kind) -> Task {
    Task {
        name: name.into(),
        place: Place { pointer: pointer.into(), ..Place::default() },
        condition: None,
        input: Transform::default(),
        output: Transform::default(),
        export: Transform::default(),
        timeout: None,
        then: Flow::Continue,
        kind,
        traits: Traits::default(),
    }
}

/// Makes a task one that runs a function, which makes a call, and is undone by another.
pub fn make_function<'a>(
    program: &'a mut Program,
    name: &str,
    (body, undo): (&'static str, &'static str),
    tolerant: bool,
) -> &'a mut Task {
    let (body, undo) = (add_call(program, body), add_call(program, undo));
    let task = program.tasks.iter_mut().find(|task| task.name == name).expect("it was built");
    task.kind = Kind::Function { body, arguments: None };
    task.traits.class = Some(Class::Compensatable);
    task.traits.compensation = Some(Compensation {
        undo: Undo::Run(undo),
        capture: None,
        cost: None,
        retry: None,
        timeout: None,
        tolerant,
    });
    task
}

/// Adds a call that nothing runs yet.
pub fn add_call(program: &mut Program, name: &'static str) -> TaskId {
    program.tasks.push(call(name));
    TaskId(program.tasks.len() as u32 - 1)
}
