//! A program as a Mermaid flowchart.
//!
//! Tasks with a body become subgraphs; Mermaid places everything. Ids are `t` and the number of
//! the task, so that a page can find a task in the drawing.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::shape::{Block, Body, Frame, Lane, Shape};
use super::{TaskState, TaskView};
use crate::TaskId;

/// Longest text of a line; Mermaid does not cut.
const LINE_CHARACTERS_MAX: usize = 60;

/// Writes a flowchart.
pub(super) fn write(shape: &Shape, view: &dyn Fn(TaskId) -> TaskView) -> String {
    let mut pen = Pen { out: String::new(), depth: 1, view, states: BTreeMap::new() };
    pen.line("start((\" \"))");
    pen.items(&shape.body);
    pen.line("finish(((\" \")))");
    pen.ends(&shape.body);
    pen.classes();
    format!("---\ntitle: {}\n---\nflowchart TB\n{}", quoted(&shape.title), pen.out)
}

struct Pen<'a> {
    out: String,
    depth: usize,
    view: &'a dyn Fn(TaskId) -> TaskView,
    states: BTreeMap<TaskState, Vec<String>>,
}

impl Pen<'_> {
    fn line(&mut self, text: impl AsRef<str>) {
        let indent = self.depth * 4;
        writeln!(self.out, "{:indent$}{}", "", text.as_ref())
            .expect("writing to a string cannot fail");
    }

    fn ends(&mut self, lane: &Lane) {
        match (lane.items.first(), lane.items.last()) {
            (Some(first), Some(last)) => {
                self.line(format!("start --> {}", id(first)));
                self.line(format!("{} --> finish", id(last)));
            }
            _ => self.line("start --> finish"),
        }
    }

    fn items(&mut self, lane: &Lane) {
        lane.items.iter().for_each(|item| self.block(item));
        for edge in &lane.edges {
            let (from, to) = (id(&lane.items[edge.from]), id(&lane.items[edge.to]));
            let label = edge.label.as_ref().map(|label| format!("|{}|", quoted(label)));
            let arrow = if edge.is_jump() { "-.->" } else { "-->" };
            self.line(format!("{from} {arrow}{} {to}", label.unwrap_or_default()));
        }
    }

    fn block(&mut self, block: &Block) {
        let view = (self.view)(block.task);
        self.states.entry(view.state).or_default().push(id(block));
        match &block.body {
            Body::Nothing => self.line(format!("{}[{}]", id(block), label(block, view))),
            Body::Lanes(frame, lanes) => self.subgraph(&id(block), &label(block, view), |pen| {
                pen.lanes(block, *frame, lanes);
            }),
            Body::Layers(layers, dependences) => {
                self.subgraph(&id(block), &label(block, view), |pen| {
                    layers.iter().flatten().for_each(|step| pen.block(step));
                    for dependence in dependences {
                        let step = |(layer, index): (usize, usize)| id(&layers[layer][index]);
                        let arrow = if dependence.control { "-.->" } else { "-->" };
                        pen.line(format!(
                            "{} {arrow} {}",
                            step(dependence.from),
                            step(dependence.to)
                        ));
                    }
                });
            }
        }
    }

    /// A single lane needs no subgraph of its own, nor do the branches of a fork.
    fn lanes(&mut self, block: &Block, frame: Frame, lanes: &[Lane]) {
        for (index, lane) in lanes.iter().enumerate() {
            match (&lane.title, frame) {
                (Some(title), Frame::Otherwise) => {
                    let lane_id = format!("{}_{index}", id(block));
                    self.subgraph(&lane_id, &quoted(title), |pen| pen.items(lane));
                    if let Some(tried) = lanes.first().and_then(|lane| lane.items.last()) {
                        self.line(format!("{} -. \"error\" .-> {lane_id}", id(tried)));
                    }
                }
                _ => self.items(lane),
            }
            if let (Frame::Again, Some(first), Some(last)) =
                (frame, lane.items.first(), lane.items.last())
            {
                self.line(format!("{} -. \"again\" .-> {}", id(last), id(first)));
            }
        }
    }

    fn subgraph(&mut self, id: &str, title: &str, body: impl FnOnce(&mut Self)) {
        self.line(format!("subgraph {id}[{title}]"));
        self.depth += 1;
        self.line("direction TB");
        let before = self.out.len();
        body(self);
        // Mermaid refuses a subgraph without anything in it.
        if self.out.len() == before {
            self.line(format!("{id}_empty[\" \"]"));
        }
        self.depth -= 1;
        self.line("end");
    }

    fn classes(&mut self) {
        let states = std::mem::take(&mut self.states);
        for (state, ids) in states {
            self.line(format!("classDef {} {}", state.class(), style(state)));
            self.line(format!("class {} {}", ids.join(","), state.class()));
        }
    }
}

fn id(block: &Block) -> String {
    format!("t{}", block.task.0)
}

/// The lines of a task, in quotes.
fn label(block: &Block, view: TaskView) -> String {
    let count = view.count.map_or_else(String::new, |count| format!(" ×{count}"));
    let lines = block.lines().skip(1).map(|(line, _)| format!("<br/>{}", escape(&cut(line))));
    format!("\"{}{count}{}\"", escape(&cut(&block.name)), lines.collect::<String>())
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LINE_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Text in quotes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", escape(text))
}

/// Mermaid reads `#name;` as a character; everything that means something to it is written so.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' => escaped.push_str("#quot;"),
            '<' => escaped.push_str("#lt;"),
            '>' => escaped.push_str("#gt;"),
            '&' => escaped.push_str("#amp;"),
            '#' => escaped.push_str("#35;"),
            '`' => escaped.push_str("#96;"),
            '\\' => escaped.push_str("#92;"),
            character if character.is_control() => escaped.push(' '),
            character => escaped.push(character),
        }
    }
    escaped
}

const fn style(state: TaskState) -> &'static str {
    match state {
        TaskState::NotStarted => "fill:#f8fafc,stroke:#94a3b8,color:#475569",
        TaskState::Running => "fill:#dbeafe,stroke:#2563eb,color:#1e3a8a",
        TaskState::Waiting => "fill:#fef3c7,stroke:#d97706,color:#78350f",
        TaskState::Completed => "fill:#dcfce7,stroke:#16a34a,color:#14532d",
        TaskState::Faulted => "fill:#fee2e2,stroke:#dc2626,color:#7f1d1d",
        TaskState::Skipped => "fill:#f8fafc,stroke:#94a3b8,color:#64748b,stroke-dasharray:4 3",
        TaskState::Cancelled => "fill:#e2e8f0,stroke:#64748b,color:#334155",
        TaskState::Compensated => "fill:#f3e8ff,stroke:#9333ea,color:#581c87",
    }
}
