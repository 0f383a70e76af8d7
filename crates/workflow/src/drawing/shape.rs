//! How the tasks of a program nest, what follows what, and what is said of each.

use super::text::Size;
use super::words;
use crate::program::{Case, Class, Flow, Graph, Kind, Source, Task, Undo};
use crate::{Program, TaskId};

/// A whole program.
pub(super) struct Shape {
    /// Namespace, name and version.
    pub(super) title: String,
    /// The document's `do`.
    pub(super) body: Lane,
}

/// One task.
pub(super) struct Block {
    pub(super) task: TaskId,
    pub(super) name: String,
    /// What it does, in a few words.
    pub(super) caption: String,
    /// More about it, a line each.
    pub(super) notes: Vec<String>,
    pub(super) body: Body,
}

impl Block {
    /// All lines of text, the name first.
    pub(super) fn lines(&self) -> impl Iterator<Item = (&str, Size)> {
        let small = std::iter::once(&self.caption).chain(&self.notes);
        std::iter::once((self.name.as_str(), Size::Name))
            .chain(small.map(|line| (line.as_str(), Size::Note)))
    }
}

/// What is inside a task.
pub(super) enum Body {
    /// Nothing that is drawn.
    Nothing,
    /// One list after the other, from left to right.
    Lanes(Frame, Vec<Lane>),
    /// Steps in layers: each is below everything it needs.
    Layers(Vec<Vec<Block>>, Vec<Dependence>),
}

/// How the lanes of a task belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Frame {
    /// One lane, run once.
    Once,
    /// One lane, run again and again.
    Again,
    /// All lanes at the same time.
    Together {
        /// The first to finish stops the others.
        compete: bool,
    },
    /// The first lane, and another one if it fails.
    Otherwise,
}

/// A list of tasks, one below the other.
pub(super) struct Lane {
    pub(super) title: Option<String>,
    pub(super) items: Vec<Block>,
    pub(super) edges: Vec<Edge>,
}

/// An arrow between two tasks of a lane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The line of the task the arrow starts from, if it is about one line: a case of a switch.
    pub(super) line: Option<usize>,
    pub(super) label: Option<String>,
}

impl Edge {
    /// Whether it leads anywhere but to the next task.
    pub(super) const fn is_jump(&self) -> bool {
        self.to != self.from + 1
    }
}

/// An arrow between two steps of a graph region: layer and index in it, twice.
pub(super) struct Dependence {
    pub(super) from: (usize, usize),
    pub(super) to: (usize, usize),
    /// A transition condition, or plain order, rather than data.
    pub(super) control: bool,
}

/// The shape of a program.
pub(super) fn of(program: &Program) -> Shape {
    let title = format!("{}/{} {}", program.namespace, program.name, program.version);
    Shape { title, body: Sketch { program }.lane(None, Program::ROOT) }
}

/// Reads a program.
struct Sketch<'a> {
    program: &'a Program,
}

impl Sketch<'_> {
    /// The tasks of a sequence; a task that is none stands alone.
    fn lane(&self, title: Option<String>, body: TaskId) -> Lane {
        let alone = [body];
        let list = match &self.program.task(body).kind {
            Kind::Sequence(list) => list.as_slice(),
            _ => &alone,
        };
        let items = list.iter().map(|task| self.block(*task, list)).collect();
        Lane { title, items, edges: self.edges(list) }
    }

    fn branch(&self, task: TaskId) -> Lane {
        Lane { title: None, items: vec![self.block(task, &[task])], edges: Vec::new() }
    }

    fn block(&self, id: TaskId, siblings: &[TaskId]) -> Block {
        let task = self.program.task(id);
        Block {
            task: id,
            name: task.name.clone(),
            caption: self.caption(task),
            notes: self.notes(task, siblings),
            body: self.body(task),
        }
    }

    fn body(&self, task: &Task) -> Body {
        match &task.kind {
            Kind::Sequence(list) => {
                let items = list.iter().map(|item| self.block(*item, list)).collect();
                let lane = Lane { title: None, items, edges: self.edges(list) };
                Body::Lanes(Frame::Once, vec![lane])
            }
            Kind::Loop { body, .. } => Body::Lanes(Frame::Again, vec![self.lane(None, *body)]),
            Kind::Fork { branches, compete } => {
                let lanes = branches.iter().map(|branch| self.branch(*branch)).collect();
                Body::Lanes(Frame::Together { compete: *compete }, lanes)
            }
            Kind::Try { body, catch } => {
                let mut lanes = vec![self.lane(None, *body)];
                let title = Some(words::catch(catch));
                lanes.push(match catch.body {
                    Some(handler) => self.lane(title, handler),
                    None => Lane { title, items: Vec::new(), edges: Vec::new() },
                });
                Body::Lanes(Frame::Otherwise, lanes)
            }
            Kind::Listen { each: Some(each), .. } => match each.body {
                Some(body) => Body::Lanes(Frame::Again, vec![self.lane(None, body)]),
                None => Body::Nothing,
            },
            Kind::Graph(graph) => self.layers(graph),
            _ => Body::Nothing,
        }
    }

    fn caption(&self, task: &Task) -> String {
        match &task.kind {
            Kind::Sequence(_) => "do".to_owned(),
            Kind::Set(_) => "set".to_owned(),
            Kind::Switch(_) => "switch".to_owned(),
            Kind::Loop { each, items, concurrency, .. } => {
                let pace = if *concurrency == 1 {
                    String::new()
                } else {
                    format!(", {concurrency} at once")
                };
                format!("for each ${each} in {}{pace}", words::template(items))
            }
            Kind::Fork { compete: false, .. } => "fork: all".to_owned(),
            Kind::Fork { compete: true, .. } => "fork: the first wins".to_owned(),
            Kind::Try { .. } => "try".to_owned(),
            Kind::Raise(error) => format!("raise {}", words::error(error)),
            Kind::Wait(duration) => format!("wait {}", words::duration(duration)),
            Kind::Emit(event) => {
                format!("emit {}", words::member(event, "type").unwrap_or_default())
            }
            Kind::Listen { to, .. } => words::listen(to),
            Kind::Call { service, arguments } => words::call(service, arguments.as_ref()),
            Kind::Function { body, .. } => format!("call {}", self.program.task(*body).name),
            Kind::Compensate { scope, until, .. } => self.compensate_words(*scope, *until),
            Kind::RunWorkflow { namespace, name, version, .. } => {
                format!("run {namespace}/{name} {version}")
            }
            Kind::Graph(graph) => format!("graph of {} steps", graph.steps.len()),
            Kind::Unsupported(what) => format!("{what} (not run by this release)"),
        }
    }

    fn compensate_words(&self, scope: Option<TaskId>, until: Option<TaskId>) -> String {
        let name = |task: TaskId| self.program.task(task).name.as_str();
        let scope = scope.map_or_else(String::new, |task| format!(" {}", name(task)));
        let until = until.map_or_else(String::new, |task| format!(" back to {}", name(task)));
        format!("compensate{scope}{until}")
    }

    /// The cases of a switch come first: arrows start from these lines.
    fn notes(&self, task: &Task, siblings: &[TaskId]) -> Vec<String> {
        let mut notes = Vec::new();
        if let Kind::Switch(cases) = &task.kind {
            notes.extend(cases.iter().map(|case| self.case_words(case, siblings)));
        }
        if let Kind::Loop { condition: Some(condition), .. } = &task.kind {
            notes.push(format!("while {}", condition.filter.source()));
        }
        notes.extend(
            task.condition.as_ref().map(|condition| format!("if {}", condition.filter.source())),
        );
        notes.extend(self.trait_notes(task));
        if task.then != Flow::Continue {
            notes.push(format!("then {}", self.flow_words(task.then, siblings)));
        }
        notes
    }

    fn trait_notes(&self, task: &Task) -> Vec<String> {
        let mut notes = Vec::new();
        let name = |task: &TaskId| self.program.task(*task).name.clone();
        if !task.traits.alternatives.is_empty() {
            let names: Vec<String> = task.traits.alternatives.iter().map(name).collect();
            notes.push(format!("or else {}", names.join(", ")));
        }
        if let Some(Undo::Run(undo)) = task.traits.compensation.as_ref().map(|how| &how.undo) {
            let name = Some(name(undo)).filter(|name| !name.is_empty());
            notes.push(format!("undone by {}", name.as_deref().unwrap_or("tasks of its own")));
        }
        if task.traits.class == Some(Class::Pivot) {
            notes.push("pivot: cannot be undone".to_owned());
        }
        notes
    }

    fn case_words(&self, case: &Case, siblings: &[TaskId]) -> String {
        let when = case.when.as_ref().map_or("otherwise", |when| when.filter.source());
        format!("{}: {when} → {}", case.name, self.flow_words(case.then, siblings))
    }

    fn flow_words(&self, flow: Flow, siblings: &[TaskId]) -> String {
        match flow {
            Flow::Continue => "next".to_owned(),
            Flow::Exit => "exit".to_owned(),
            Flow::End => "end".to_owned(),
            Flow::Goto(index) => match siblings.get(index as usize) {
                Some(task) => self.program.task(*task).name.clone(),
                None => "end of list".to_owned(),
            },
        }
    }

    fn edges(&self, list: &[TaskId]) -> Vec<Edge> {
        let mut edges: Vec<Edge> = Vec::new();
        for (from, task) in list.iter().enumerate() {
            for (flow, line, label) in exits(self.program.task(*task)) {
                let to = match flow {
                    Flow::Continue => from + 1,
                    Flow::Goto(index) => index as usize,
                    Flow::Exit | Flow::End => continue,
                };
                let edge = Edge { from, to, line, label };
                // Several ways to the next task are one arrow.
                let mut ours = edges.iter().rev().take_while(|known| known.from == from);
                let known = !edge.is_jump() && ours.any(|known| known.to == to);
                if to < list.len() && !known {
                    edges.push(edge);
                }
            }
        }
        edges
    }

    fn layers(&self, graph: &Graph) -> Body {
        let dependences = dependences(graph);
        let depth = depths(graph.steps.len(), &dependences);
        let mut layers: Vec<Vec<Block>> = Vec::new();
        let mut places = vec![(0, 0); graph.steps.len()];
        layers.resize_with(depth.iter().max().map_or(0, |deepest| deepest + 1), Vec::new);
        for (index, step) in graph.steps.iter().enumerate() {
            let layer = &mut layers[depth[index]];
            places[index] = (depth[index], layer.len());
            let mut block = self.block(step.task, &[step.task]);
            block
                .notes
                .extend(step.when.as_ref().map(|when| format!("when {}", when.filter.source())));
            block.notes.extend(
                step.scatter.as_ref().map(|scatter| format!("scatter {}", scatter.over.join(", "))),
            );
            layer.push(block);
        }
        let place = |(from, to, control): (usize, usize, bool)| Dependence {
            from: places[from],
            to: places[to],
            control,
        };
        Body::Layers(layers, dependences.into_iter().map(place).collect())
    }
}

/// Where a task can lead, the line that says so, and why.
fn exits(task: &Task) -> Vec<(Flow, Option<usize>, Option<String>)> {
    let mut exits = Vec::new();
    match &task.kind {
        Kind::Switch(cases) => {
            // The name and the caption stand above the cases.
            let exit = |(index, case): (usize, &Case)| {
                (case.then, Some(index + 2), Some(case.name.clone()))
            };
            exits.extend(cases.iter().enumerate().map(exit));
            if cases.iter().any(|case| case.when.is_none()) {
                return exits;
            }
        }
        Kind::Try { catch, .. } => {
            exits.extend(catch.then.map(|flow| (flow, None, Some("caught".to_owned()))));
        }
        // Nothing comes after an error but whoever catches it.
        Kind::Raise(_) => return exits,
        _ => {}
    }
    exits.push((task.then, None, None));
    exits
}

fn dependences(graph: &Graph) -> Vec<(usize, usize, bool)> {
    let mut found = Vec::new();
    for (to, step) in graph.steps.iter().enumerate() {
        for (_, source) in &step.inputs {
            if let Source::Step { step: from, .. } = source
                && !found.contains(&(*from, to, false))
            {
                found.push((*from, to, false));
            }
        }
    }
    found.extend(graph.links.iter().map(|link| (link.from, link.to, true)));
    found
}

/// How many steps come before each at most. As many rounds as steps are enough; a cycle, which
/// checks refuse elsewhere, ends here as well.
fn depths(steps: usize, dependences: &[(usize, usize, bool)]) -> Vec<usize> {
    let mut depths = vec![0; steps];
    for _ in 0..steps {
        let before = depths.clone();
        for (from, to, _) in dependences {
            depths[*to] = depths[*to].max(depths[*from] + 1).min(steps - 1);
        }
        if depths == before {
            break;
        }
    }
    depths
}
