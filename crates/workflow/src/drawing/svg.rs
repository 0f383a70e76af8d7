//! A placed program as SVG.
//!
//! The picture carries its own style sheet, for light and dark, every rule under one class, so that
//! it can stand in a page without changing it. Each state has a colour and a sign, so that it can
//! be read without colours. Text that was cut is whole in the tooltip.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::layout::{
    Area, COUNT_ROOM, LINE, MARK, Picture, Placed, PlacedLane, TEXT_INDENT, TEXT_MARGIN, TITLE,
    Wire, WireKind,
};
use super::shape::{Body, Shape};
use super::text::{Size, escape, fit, width};
use super::{TaskState, TaskView};
use crate::TaskId;

const STYLE: &str = include_str!("style.css");

/// Space around the picture.
const MARGIN: i32 = 20;
/// Height of the heading.
const HEADING: i32 = 34;
/// Height of a line of the legend.
const LEGEND_LINE: i32 = 22;
/// Radius of rounded corners of lines.
const CORNER: i32 = 6;
const BOX_CORNER: i32 = 7;

/// Writes a picture.
pub(super) fn write(
    shape: &Shape,
    picture: &Picture<'_>,
    view: &dyn Fn(TaskId) -> TaskView,
) -> String {
    let mut pen = Pen { out: String::new(), view, seen: BTreeSet::new() };
    pen.picture(picture);
    let body = pen.out;
    let inner = picture.area.width.max(width(&shape.title, Size::Name) + 20);
    let legend = legend(&pen.seen, inner);
    let page = (inner + 2 * MARGIN, picture.area.height + HEADING + legend.height + 2 * MARGIN);
    let shift = MARGIN + (inner - picture.area.width) / 2;
    let title = escape(&shape.title);
    let legend_y = MARGIN + HEADING + picture.area.height;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"outlast-flow\" role=\"img\" \
         width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n{HEADS}\
         <rect class=\"page\" width=\"{0}\" height=\"{1}\" rx=\"8\"/>\n\
         <text class=\"heading\" x=\"{MARGIN}\" y=\"{2}\">{title}</text>\n\
         <g transform=\"translate({shift} {3})\">\n{body}</g>\n\
         <g transform=\"translate({MARGIN} {legend_y})\">\n{4}</g>\n</svg>\n",
        page.0,
        page.1,
        MARGIN + 12,
        MARGIN + HEADING,
        legend.text,
    )
}

/// The heads of arrows.
const HEADS: &str = concat!(
    "<defs>",
    "<marker id=\"outlast-head\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" ",
    "orient=\"auto\" markerUnits=\"userSpaceOnUse\"><path class=\"head\" d=\"M0 0L8 4L0 8z\"/></marker>",
    "<marker id=\"outlast-head-jump\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" ",
    "orient=\"auto\" markerUnits=\"userSpaceOnUse\"><path class=\"head-jump\" d=\"M0 0L8 4L0 8z\"/></marker>",
    "<marker id=\"outlast-head-error\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" ",
    "orient=\"auto\" markerUnits=\"userSpaceOnUse\"><path class=\"head-error\" d=\"M0 0L8 4L0 8z\"/></marker>",
    "</defs>\n",
);

struct Pen<'a> {
    out: String,
    view: &'a dyn Fn(TaskId) -> TaskView,
    seen: BTreeSet<TaskState>,
}

impl Pen<'_> {
    fn line(&mut self, arguments: std::fmt::Arguments<'_>) {
        writeln!(self.out, "{arguments}").expect("writing to a string cannot fail");
    }

    fn picture(&mut self, picture: &Picture<'_>) {
        self.wires(&picture.wires);
        self.lane(&picture.lane);
        let [(start_x, start_y), (end_x, end_y)] = picture.marks;
        self.line(format_args!(
            "<circle class=\"edge\" cx=\"{start_x}\" cy=\"{start_y}\" r=\"{MARK}\"/>\n\
             <circle class=\"disc\" cx=\"{end_x}\" cy=\"{end_y}\" r=\"{MARK}\"/>\
             <circle class=\"edge\" cx=\"{end_x}\" cy=\"{end_y}\" r=\"{}\"/>",
            MARK - 3
        ));
    }

    fn lane(&mut self, lane: &PlacedLane<'_>) {
        if let Some(title) = lane.title {
            let Area { x, y, width, height } = lane.area;
            let shown = escape(&fit(title, Size::Note, width - 12));
            self.line(format_args!(
                "<g><title>{}</title><rect class=\"box handler\" x=\"{x}\" y=\"{y}\" width=\"{width}\" \
                 height=\"{height}\" rx=\"{BOX_CORNER}\"/><text class=\"lane-title\" x=\"{}\" y=\"{}\">\
                 {shown}</text></g>",
                escape(title),
                x + 8,
                y + TITLE - 7,
            ));
        }
        self.wires(&lane.wires);
        lane.items.iter().for_each(|item| self.block(item));
    }

    fn block(&mut self, placed: &Placed<'_>) {
        let block = placed.block;
        let view = (self.view)(block.task);
        self.seen.insert(view.state);
        let Area { x, y, width, height } = placed.area;
        let frame = if matches!(block.body, Body::Nothing) { "" } else { " frame" };
        self.line(format_args!(
            "<g class=\"task {}\" data-task=\"{}\"><title>{}</title>\
             <rect class=\"box{frame}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" \
             rx=\"{BOX_CORNER}\"/>",
            view.state.class(),
            block.task.0,
            escape(&tooltip(placed, view)),
        ));
        self.out.push_str(&sign(view.state, x + 16, y + TEXT_MARGIN + LINE / 2));
        self.block_text(placed, view.count);
        self.line(format_args!("</g>"));
        for bar in &placed.bars {
            self.line(format_args!(
                "<rect class=\"bar\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"2\"/>",
                bar.x, bar.y, bar.width, bar.height
            ));
        }
        self.wires(&placed.wires);
        placed.lanes.iter().for_each(|lane| self.lane(lane));
    }

    fn block_text(&mut self, placed: &Placed<'_>, count: Option<u64>) {
        let Area { x, y, width, .. } = placed.area;
        let mut baseline = y + TEXT_MARGIN + 12;
        for (line, size) in placed.block.lines() {
            let (class, room) = match size {
                Size::Name => ("name", width - TEXT_INDENT - COUNT_ROOM),
                Size::Note => ("note", width - TEXT_INDENT - 6),
            };
            let shown = escape(&fit(line, size, room));
            self.line(format_args!(
                "<text class=\"{class}\" x=\"{}\" y=\"{baseline}\">{shown}</text>",
                x + TEXT_INDENT
            ));
            baseline += LINE;
        }
        if let Some(count) = count {
            self.line(format_args!(
                "<text class=\"count\" x=\"{}\" y=\"{}\">{}</text>",
                x + width - 8,
                y + TEXT_MARGIN + 12,
                count_text(count),
            ));
        }
    }

    fn wires(&mut self, wires: &[Wire]) {
        for wire in wires {
            let (class, head) = match wire.kind {
                WireKind::Next => ("wire", "head"),
                WireKind::Plain => ("wire", ""),
                WireKind::Data => ("wire data", "head"),
                WireKind::Jump => ("wire jump", "head-jump"),
                WireKind::Link => ("wire link", "head-jump"),
                WireKind::Error => ("wire error", "head-error"),
            };
            let head = match head {
                "" => String::new(),
                head => format!(" marker-end=\"url(#outlast-{head})\""),
            };
            let path = match wire.kind {
                WireKind::Data | WireKind::Link => curve(&wire.corners),
                _ => rounded(&wire.corners),
            };
            self.line(format_args!("<path class=\"{class}\" d=\"{path}\"{head}/>"));
        }
    }
}

/// A count in at most five characters, as there is room for.
fn count_text(count: u64) -> String {
    match count {
        0..=9_999 => format!("×{count}"),
        10_000..=999_999 => format!("×{}k", count / 1_000),
        1_000_000..=999_999_999 => format!("×{}M", count / 1_000_000),
        _ => "×1G+".to_owned(),
    }
}

fn tooltip(placed: &Placed<'_>, view: TaskView) -> String {
    let block = placed.block;
    let count = view.count.map_or_else(String::new, |count| format!(" ×{count}"));
    let notes: String = block.notes.iter().map(|note| format!("; {note}")).collect();
    format!("{}: {}{notes} ({}{count})", block.name, block.caption, view.state.words())
}

/// The sign of a state: a disc with something in it.
fn sign(state: TaskState, x: i32, y: i32) -> String {
    let glyph = match state {
        TaskState::NotStarted => "",
        TaskState::Running => "M-1.5 -3L3 0L-1.5 3z",
        TaskState::Waiting => "M0 -4V0L2.5 2",
        TaskState::Completed => "M-3 0L-1 2.5L3.2 -2.5",
        TaskState::Faulted => "M-2.5 -2.5L2.5 2.5M2.5 -2.5L-2.5 2.5",
        TaskState::Skipped => "M-3 0H3",
        TaskState::Cancelled => "M-2.2 -2.2H2.2V2.2H-2.2z",
        TaskState::Compensated => "M3 2.5V0.5A1.5 1.5 0 0 0 1.5 -1H-3M-1 -3L-3 -1L-1 1",
    };
    format!(
        "<g class=\"sign\" transform=\"translate({x} {y})\"><circle class=\"disc\" r=\"7\"/>\
         <path class=\"glyph\" d=\"{glyph}\"/></g>\n"
    )
    .replace("<path class=\"glyph\" d=\"\"/>", "")
}

/// A line with rounded corners.
fn rounded(corners: &[(i32, i32)]) -> String {
    let mut path = String::new();
    for (index, corner) in corners.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| corners[before]);
        let part = match (before, corners.get(index + 1)) {
            (None, _) => format!("M{} {}", corner.0, corner.1),
            (_, None) => format!("L{} {}", corner.0, corner.1),
            (Some(before), Some(after)) => {
                let (enter, leave) = (toward(*corner, before), toward(*corner, *after));
                format!(
                    "L{} {}Q{} {} {} {}",
                    enter.0, enter.1, corner.0, corner.1, leave.0, leave.1
                )
            }
        };
        path.push_str(&part);
    }
    path
}

/// The point a little way from a corner toward another; lines run straight across or down.
fn toward(corner: (i32, i32), other: (i32, i32)) -> (i32, i32) {
    let along = |from: i32, to: i32| {
        let half = (to - from) / 2;
        from + half.clamp(-CORNER, CORNER)
    };
    (along(corner.0, other.0), along(corner.1, other.1))
}

/// A curve through pairs of corners: it leaves downward and arrives downward.
fn curve(corners: &[(i32, i32)]) -> String {
    let Some((first, rest)) = corners.split_first() else { return String::new() };
    let mut path = format!("M{} {}", first.0, first.1);
    let mut before = *first;
    for (index, (x, y)) in rest.iter().enumerate() {
        let bend = (y - before.1) / 2;
        let part = if index % 2 == 0 {
            format!("C{} {} {x} {} {x} {y}", before.0, before.1 + bend, y - bend)
        } else {
            format!("L{x} {y}")
        };
        path.push_str(&part);
        before = (*x, *y);
    }
    path
}

struct Legend {
    text: String,
    height: i32,
}

/// The states that occur, in lines as wide as the picture.
fn legend(seen: &BTreeSet<TaskState>, room: i32) -> Legend {
    let mut text = String::new();
    let (mut x, mut y) = (0, LEGEND_LINE);
    for state in TaskState::ALL.into_iter().filter(|state| seen.contains(state)) {
        let taken = 22 + width(state.words(), Size::Note) + 14;
        if 0 < x && room < x + taken - 14 {
            (x, y) = (0, y + LEGEND_LINE);
        }
        let sign = sign(state, x + 7, y);
        let entry = format!(
            "<g class=\"{}\">{}<text class=\"note\" x=\"{}\" y=\"{}\">{}</text></g>\n",
            state.class(),
            sign.trim_end(),
            x + 20,
            y + 4,
            state.words()
        );
        text.push_str(&entry);
        x += taken;
    }
    Legend { text, height: y }
}
