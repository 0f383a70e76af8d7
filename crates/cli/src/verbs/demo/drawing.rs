//! The drawing: a lane for each node from left to right in time, and below what remains.
//!
//! One SVG without anything from elsewhere. Whoever points at something reads what it is.

use std::fmt::Write as _;

use super::stage::STEP;
use super::story::{Event, Story, What, sides_text};

const WIDTH: f64 = 1200.0;
/// Where time begins; the names of the lanes are left of it.
const LEFT: f64 = 84.0;
const RIGHT: f64 = 20.0;
/// Above the lanes there is room for what is about all of them.
const TOP: f64 = 44.0;
const LANE: f64 = 62.0;
const GAP: f64 = 6.0;
/// Within a lane: marks above, steps in the middle, undos below.
const MARKS: f64 = 11.0;
const STEPS: f64 = 20.0;
const STEP_HEIGHT: f64 = 20.0;
const UNDOS: f64 = 49.0;
/// Between the lanes and what remains.
const AXIS: f64 = 26.0;
const REMAINS: f64 = 74.0;
const LEGEND: f64 = 34.0;
const STYLE: &str = include_str!("drawing.css");

/// Draws a story.
pub(super) fn svg(story: &Story) -> String {
    let canvas = Canvas::new(story);
    let mut text = String::new();
    canvas.frame(&mut text);
    canvas.lanes(&mut text);
    canvas.cuts(&mut text);
    canvas.deaths(&mut text);
    canvas.axis(&mut text);
    canvas.steps(&mut text);
    canvas.marks(&mut text);
    canvas.faults(&mut text);
    canvas.remains(&mut text);
    canvas.legend(&mut text);
    text.push_str("</svg>\n");
    text
}

/// Adds a line of SVG.
macro_rules! draw {
    ($text:expr, $($part:tt)*) => { writeln!($text, $($part)*).expect("text grows") };
}

struct Canvas<'a> {
    story: &'a Story,
    /// The whole time, in microseconds.
    span: f64,
}

/// When a node was dead, or the nodes were apart.
struct Span<'a> {
    from: &'a Event,
    to: u64,
}

impl<'a> Canvas<'a> {
    fn new(story: &'a Story) -> Self {
        let last = story.events.last().map_or(0, |event| event.at);
        Self { story, span: (last as f64 * 1.01).max(1e6) }
    }

    fn x(&self, at: u64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (at as f64 / self.span)
    }

    fn lane(number: usize) -> f64 {
        TOP + number as f64 * (LANE + GAP)
    }

    fn bottom(&self) -> f64 {
        Self::lane(self.story.nodes) - GAP
    }

    fn height(&self) -> f64 {
        self.bottom() + AXIS + REMAINS + LEGEND
    }

    /// What lasted until something else happened, or to the end.
    fn spans(
        &self,
        begins: impl Fn(&What) -> bool,
        ends: impl Fn(&Event, &Event) -> bool,
    ) -> Vec<Span<'a>> {
        let events = &self.story.events;
        let began = events.iter().enumerate().filter(|(_, event)| begins(&event.what));
        let spans = began.map(|(place, from)| {
            let end = events[place..].iter().find(|event| ends(from, event));
            Span { from, to: end.or(events.last()).map_or(from.at, |event| event.at) }
        });
        spans.collect()
    }

    fn killed(&self) -> Vec<Span<'a>> {
        self.spans(
            |what| *what == What::Killed,
            |from, event| event.what == What::Restarted && event.node == from.node,
        )
    }

    fn apart(&self) -> Vec<Span<'a>> {
        self.spans(
            |what| matches!(what, What::Cut(_)),
            |_, event| matches!(event.what, What::Healed),
        )
    }

    fn frame(&self, text: &mut String) {
        let height = self.height();
        draw!(
            text,
            "<svg class=\"demo\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} \
             {height}\" role=\"img\" aria-label=\"Timeline of {} nodes\">",
            self.story.nodes
        );
        draw!(text, "<style>\n{STYLE}</style>");
        draw!(
            text,
            "<defs><pattern id=\"hatch\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><line class=\"hatch\" y2=\"7\"/></pattern></defs>"
        );
        draw!(text, "<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>");
    }

    fn lanes(&self, text: &mut String) {
        let width = WIDTH - LEFT - RIGHT;
        for number in 0..self.story.nodes {
            let y = Self::lane(number);
            draw!(
                text,
                "<g class=\"node\"><rect class=\"lane\" x=\"{LEFT}\" y=\"{y}\" \
                 width=\"{width}\" height=\"{LANE}\"/><text class=\"name\" x=\"14\" \
                 y=\"{}\">node {}</text></g>",
                y + LANE / 2.0 + 5.0,
                number + 1
            );
        }
    }

    /// While the nodes are apart, each lane has the colour of its side.
    fn cuts(&self, text: &mut String) {
        for Span { from, to } in self.apart() {
            let What::Cut(sides) = &from.what else { continue };
            let (x, width) = (self.x(from.at), self.x(to) - self.x(from.at));
            for (side, number) in sides
                .iter()
                .enumerate()
                .flat_map(|(side, numbers)| numbers.iter().map(move |number| (side, *number)))
            {
                draw!(
                    text,
                    "<rect class=\"cut side-{side}\" x=\"{x:.1}\" y=\"{}\" width=\"{width:.1}\" \
                     height=\"{LANE}\"><title>node {} is cut off from other sides: {}</title></rect>",
                    Self::lane(number),
                    number + 1,
                    sides_text(sides)
                );
            }
        }
    }

    fn deaths(&self, text: &mut String) {
        for Span { from, to } in self.killed() {
            let Some(number) = from.node else { continue };
            let (x, y) = (self.x(from.at), Self::lane(number));
            let middle = y + STEPS + STEP_HEIGHT / 2.0;
            draw!(
                text,
                "<g class=\"killed\"><title>node {} is dead for {:.1} s: its process was killed with \
                 -9</title><rect class=\"dead\" x=\"{x:.1}\" y=\"{y}\" width=\"{:.1}\" \
                 height=\"{LANE}\"/>",
                number + 1,
                (to - from.at) as f64 / 1e6,
                self.x(to) - x
            );
            draw!(
                text,
                "<path class=\"kill\" d=\"M{:.1} {:.1}l14 14m0 -14l-14 14\"/></g>",
                x + 3.0,
                middle - 7.0
            );
        }
    }

    fn axis(&self, text: &mut String) {
        let (top, bottom) = (TOP, self.bottom());
        let every = if self.span < 15e6 { 1 } else { 2 };
        let seconds = (self.span / 1e6) as u64;
        for second in (0..=seconds).step_by(every) {
            let x = self.x(second * 1_000_000);
            draw!(
                text,
                "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>\
                 <text class=\"soft\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{second} \
                 s</text>",
                bottom + 16.0
            );
        }
    }

    fn steps(&self, text: &mut String) {
        let (undone, killed) = (self.story.undone(), self.killed());
        for event in &self.story.events {
            let Some(number) = event.node else { continue };
            let (x, y) = (self.x(event.at), Self::lane(number));
            match event.what {
                What::Stepped { step, effect } => {
                    let (fate, said) = match undone.contains(&effect) {
                        true => ("undone", "it was taken back"),
                        false => ("kept", "it remains"),
                    };
                    let title = format!("step {step}, done by {}; {said}", place(number, event));
                    let width = (self.x(end_of_call(event, &killed)) - x).max(3.0);
                    bar(text, fate, &title, (x, y + STEPS), width, step);
                }
                What::Refused { step } => {
                    let title = format!("step {step} of {} came too late", place(number, event));
                    bar(text, "refused", &title, (x, y + STEPS), 8.0, step);
                }
                What::Undid { step, .. } => draw!(
                    text,
                    "<g class=\"undo\"><title>step {step} is taken back by {}</title><path \
                     d=\"M{x:.1} {:.1}l8 -5v10z\"/></g>",
                    place(number, event),
                    y + UNDOS
                ),
                _ => {}
            }
        }
    }

    fn marks(&self, text: &mut String) {
        for event in &self.story.events {
            let Some(number) = event.node else { continue };
            let (x, y) = (self.x(event.at), Self::lane(number) + MARKS);
            let mark = |class: &str, path: &str, more: &str| {
                format!(
                    "<g class=\"{class}\"><title>node {} at {:.2} s {}</title><path d=\"M{x:.1} \
                     {y:.1}{path}\"/>{more}</g>",
                    number + 1,
                    event.at as f64 / 1e6,
                    event.what.sentence()
                )
            };
            let drawn = match event.what {
                What::Candidacy => mark("candidacy", "m0 -5l5 5l-5 5l-5 -5z", ""),
                What::Leads | What::Elected => mark("elected", "m0 -5l5 5l-5 5l-5 -5z", ""),
                What::LineLost => {
                    let label =
                        format!("<text x=\"{:.1}\" y=\"{:.1}\">lost</text>", x + 7.0, y + 4.0);
                    mark("lost", "m-4 -4l8 8m0 -8l-8 8", &label)
                }
                What::Decided => mark("knows", "m-5 0l4 4l7 -8", ""),
                _ => continue,
            };
            draw!(text, "{drawn}");
        }
    }

    /// What is about all nodes: lines from top to bottom.
    fn faults(&self, text: &mut String) {
        for Span { from, to } in self.apart() {
            let What::Cut(sides) = &from.what else { continue };
            self.line(text, "fault", from.at, &format!("cut {}", sides_text(sides)), "start");
            if self.story.events.iter().any(|event| event.what == What::Healed) {
                self.line(text, "fault", to, "healed", "start");
            }
        }
        if let Some(first) = self.story.events.iter().find(|event| event.what == What::Decided) {
            self.line(text, "decision", first.at, "decided: one run counts", "end");
        }
    }

    fn line(&self, text: &mut String, class: &str, at: u64, label: &str, anchor: &str) {
        let (x, bottom) = (self.x(at), self.bottom());
        draw!(
            text,
            "<line class=\"{class}-line\" x1=\"{x:.1}\" y1=\"{}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>\
             <text class=\"{class}\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{label}</text>",
            TOP - 10.0,
            TOP - 16.0
        );
    }

    /// Each step once, and who did it.
    fn remains(&self, text: &mut String) {
        let y = self.bottom() + AXIS + 12.0;
        let kept = self.story.kept();
        let width = (WIDTH - LEFT - RIGHT) / self.story.steps as f64;
        draw!(text, "<text class=\"name\" x=\"14\" y=\"{}\">remains</text>", y + 15.0);
        let mut runs: Vec<(usize, u64, u64)> = Vec::new();
        for step in 1..=self.story.steps {
            let by = kept.get(&step).map(Vec::as_slice).unwrap_or_default();
            let (class, title) = match by {
                [node] => ("kept", format!("step {step} was done once, by node {}", node + 1)),
                others => ("wrong", format!("step {step} was done {} times", others.len())),
            };
            if let [node] = by {
                match runs.last_mut() {
                    Some((who, _, last)) if who == node && *last + 1 == step => *last = step,
                    _ => runs.push((*node, step, step)),
                }
            }
            let x = LEFT + (step - 1) as f64 * width;
            bar(text, class, &title, (x + 0.5, y), width - 1.0, step);
        }
        for (node, first, last) in runs {
            let (from, to) = (LEFT + (first - 1) as f64 * width, LEFT + last as f64 * width);
            let words = if to - from < 44.0 { "" } else { "node " };
            draw!(
                text,
                "<path class=\"run\" d=\"M{:.1} {}H{:.1}\"/><text x=\"{:.1}\" y=\"{}\" \
                 text-anchor=\"middle\">{words}{}</text>",
                from + 1.5,
                y + 26.0,
                to - 1.5,
                (from + to) / 2.0,
                y + 42.0,
                node + 1
            );
        }
    }

    fn legend(&self, text: &mut String) {
        let y = self.height() - 14.0;
        let bar = |class: &str| {
            format!(
                "<g class=\"step {class}\"><rect y=\"-10\" width=\"12\" height=\"13\"/>\
                 <text x=\"6\" y=\"0\">7</text></g>"
            )
        };
        let sign =
            |class: &str, path: &str| format!("<g class=\"{class}\"><path d=\"{path}\"/></g>");
        let items = [
            (bar("kept"), "a step that remains"),
            (bar("undone"), "taken back later"),
            (sign("undo", "M1 -4l8 -5v10z"), "taking back"),
            (sign("candidacy", "M6 -9l5 5l-5 5l-5 -5z"), "asks for votes"),
            (sign("elected", "M6 -9l5 5l-5 5l-5 -5z"), "leads"),
            (sign("lost", "M2 -8l8 8m0 -8l-8 8"), "line lost"),
            (sign("knows", "M1 -4l4 4l7 -8"), "knows the decision"),
            ("<rect class=\"dead\" y=\"-11\" width=\"14\" height=\"14\"/>".to_owned(), "killed (-9)"),
            (
                "<rect class=\"side-0\" y=\"-11\" width=\"7\" height=\"14\"/><rect class=\"side-1\" \
                 x=\"7\" y=\"-11\" width=\"7\" height=\"14\"/>"
                    .to_owned(),
                "cut into sides",
            ),
        ];
        let mut x = LEFT;
        for (symbol, words) in items {
            draw!(
                text,
                "<g transform=\"translate({x:.0} {y})\">{symbol}<text class=\"soft\" \
                 x=\"18\">{words}</text></g>"
            );
            x += 40.0 + words.len() as f64 * 6.2;
        }
    }
}

/// Who and when.
fn place(number: usize, event: &Event) -> String {
    format!("node {} at {:.2} s", number + 1, event.at as f64 / 1e6)
}

/// When the answer to a call came, or its node died.
fn end_of_call(call: &Event, killed: &[Span<'_>]) -> u64 {
    let end = call.at + u64::try_from(STEP.as_micros()).expect("a step is short");
    let deaths = killed.iter().filter(|span| span.from.node == call.node);
    let deaths = deaths.map(|span| span.from.at).filter(|at| (call.at..end).contains(at));
    deaths.min().unwrap_or(end)
}

/// A step: a bar with its number, if there is room for it.
fn bar(text: &mut String, class: &str, title: &str, at: (f64, f64), width: f64, step: u64) {
    let (x, y) = at;
    draw!(
        text,
        "<g class=\"step {class}\"><title>{title}</title><rect x=\"{x:.1}\" y=\"{y}\" \
         width=\"{width:.1}\" height=\"{STEP_HEIGHT}\"/>"
    );
    if step.to_string().len() as f64 * 5.4 <= width {
        draw!(text, "<text x=\"{:.1}\" y=\"{}\">{step}</text>", x + width / 2.0, y + 13.5);
    }
    draw!(text, "</g>");
}

#[cfg(test)]
mod tests {
    use super::super::story::tests::sample;
    use super::*;

    #[test]
    fn there_is_a_lane_for_each_node_and_a_bar_for_each_step() {
        let drawing = svg(&sample());
        assert_eq!(drawing.matches("class=\"node\"").count(), 3);
        // Five steps were done, four remain, and the legend shows one of each kind.
        assert_eq!(drawing.matches("class=\"step kept\"").count(), 4 + 4 + 1);
        assert_eq!(drawing.matches("class=\"step undone\"").count(), 1 + 1);
        assert!(!drawing.contains("wrong\""));
    }

    #[test]
    fn faults_elections_and_the_decision_are_in_it() {
        let drawing = svg(&sample());
        for part in ["cut 1 | 2 3", "is dead for 4.0 s", "is elected", "decided: one run"] {
            assert!(drawing.contains(part), "{part}");
        }
    }

    #[test]
    fn nothing_comes_from_elsewhere() {
        let drawing = svg(&sample()).replace("http://www.w3.org/2000/svg", "");
        assert!(!drawing.contains("http") && !drawing.contains("@import"));
    }
}
