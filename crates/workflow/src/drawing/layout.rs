//! A rectangle for every task and corners for every arrow.
//!
//! A task without a body is as large as its text. A lane stacks its tasks over one middle; jumps
//! run beside them, each in a track of its own, downward ones on the right, upward ones on the
//! left. A task with lanes puts them side by side under its own text. Everything is placed at the
//! origin first and moved when the size of what surrounds it is known.
//!
//! Invariants: what is in a task lies inside its rectangle; tasks of one parent do not overlap.

use super::layers;
use super::shape::{Block, Body, Edge, Frame, Lane, Shape};
use super::text::{self, Size};

/// Space between a frame and what is in it.
const PADDING: i32 = 14;
/// Space between two tasks of a lane: room for an arrow.
const GAP: i32 = 26;
/// Space between two lanes or two steps of a layer.
pub(super) const LANE_GAP: i32 = 18;
/// Space between a tried lane and its handler: room for the arrow of errors.
const ERROR_GAP: i32 = 30;
/// Space between two tracks of jumps.
const TRACK: i32 = 12;
/// Space between the tasks of a lane and its first track.
const TRACK_MARGIN: i32 = 14;
/// Height of a line of text.
pub(super) const LINE: i32 = 16;
/// Space above the first line of text and below the last.
pub(super) const TEXT_MARGIN: i32 = 8;
/// Space left of the text: the mark of the state.
pub(super) const TEXT_INDENT: i32 = 30;
/// Space right of the text; the name's line also has room for a count.
const TEXT_END: i32 = 12;
/// Room for a count at the end of the name's line.
pub(super) const COUNT_ROOM: i32 = 34;
/// Widest text; longer text is cut.
pub(super) const TEXT_MAX: i32 = 260;
const BLOCK_MIN: i32 = 120;
/// Height of a lane's title.
pub(super) const TITLE: i32 = 22;
/// Space between a titled lane's border and its tasks.
const INSET: i32 = 10;
/// Radius of the marks where a program starts and ends.
pub(super) const MARK: i32 = 7;

/// A rectangle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Area {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) width: i32,
    pub(super) height: i32,
}

impl Area {
    pub(super) const fn right(&self) -> i32 {
        self.x + self.width
    }

    pub(super) const fn bottom(&self) -> i32 {
        self.y + self.height
    }

    pub(super) const fn middle(&self) -> i32 {
        self.x + self.width / 2
    }
}

/// A whole program with places.
pub(super) struct Picture<'a> {
    pub(super) area: Area,
    pub(super) lane: PlacedLane<'a>,
    /// Where it starts and ends.
    pub(super) marks: [(i32, i32); 2],
    pub(super) wires: Vec<Wire>,
}

/// A task with its place.
pub(super) struct Placed<'a> {
    pub(super) block: &'a Block,
    pub(super) area: Area,
    pub(super) lanes: Vec<PlacedLane<'a>>,
    pub(super) wires: Vec<Wire>,
    /// Where lanes begin and end together.
    pub(super) bars: Vec<Area>,
}

/// A lane with its place.
pub(super) struct PlacedLane<'a> {
    pub(super) title: Option<&'a str>,
    pub(super) area: Area,
    pub(super) items: Vec<Placed<'a>>,
    pub(super) wires: Vec<Wire>,
}

/// A line through corners.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    pub(super) kind: WireKind,
    pub(super) corners: Vec<(i32, i32)>,
}

/// What a line means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WireKind {
    /// What comes next.
    Next,
    /// What comes next, without an arrow's head.
    Plain,
    /// A jump.
    Jump,
    /// Data from one step to another, as a curve.
    Data,
    /// A link between two steps, as a curve.
    Link,
    /// The way of an error.
    Error,
}

/// Places a program.
pub(super) fn place(shape: &Shape) -> Picture<'_> {
    let mut lane = place_lane(&shape.body);
    let top = MARK * 2 + GAP;
    lane.shift(0, top);
    let middle = lane.middle();
    let marks = [(middle, MARK), (middle, lane.area.bottom() + GAP + MARK)];
    let ends = lane.ends().unwrap_or((lane.area.y, lane.area.bottom()));
    let wire =
        |from, to| Wire { kind: WireKind::Next, corners: vec![(middle, from), (middle, to)] };
    let mut wires = vec![wire(MARK * 2, ends.0), wire(ends.1, marks[1].1 - MARK)];
    if lane.items.is_empty() {
        wires.truncate(1);
        wires[0] = wire(MARK * 2, marks[1].1 - MARK);
    }
    let height = marks[1].1 + MARK;
    Picture { area: Area { x: 0, y: 0, width: lane.area.width, height }, lane, marks, wires }
}

pub(super) fn place_block(block: &Block) -> Placed<'_> {
    let (text_width, text_height) = text_size(block);
    let mut placed = match &block.body {
        Body::Nothing => {
            let area = Area { x: 0, y: 0, width: text_width, height: text_height };
            return Placed { block, area, lanes: Vec::new(), wires: Vec::new(), bars: Vec::new() };
        }
        Body::Lanes(frame, lanes) => place_lanes(block, *frame, lanes),
        Body::Layers(layers, dependences) => layers::place(block, layers, dependences),
    };
    let inner = placed.area;
    let width = text_width.max(inner.width + 2 * PADDING);
    placed.shift((width - inner.width) / 2, text_height);
    placed.area = Area { x: 0, y: 0, width, height: text_height + inner.height + PADDING };
    placed
}

/// The size of a task's own text.
fn text_size(block: &Block) -> (i32, i32) {
    let widest = block
        .lines()
        .map(|(line, size)| {
            let count = if size == Size::Name { COUNT_ROOM } else { 0 };
            text::width(line, size).min(TEXT_MAX) + count
        })
        .max()
        .unwrap_or_default();
    let lines = i32::try_from(block.lines().count()).expect("a task has few lines");
    ((widest + TEXT_INDENT + TEXT_END).max(BLOCK_MIN), lines * LINE + 2 * TEXT_MARGIN)
}

fn place_lanes<'a>(block: &'a Block, frame: Frame, lanes: &'a [Lane]) -> Placed<'a> {
    let mut placed: Vec<PlacedLane<'a>> = lanes.iter().map(place_lane).collect();
    let margin = if frame == Frame::Once || frame == Frame::Otherwise { 0 } else { GAP };
    let mut x = if frame == Frame::Again { TRACK_MARGIN } else { 0 };
    let gap = if frame == Frame::Otherwise { ERROR_GAP } else { LANE_GAP };
    for lane in &mut placed {
        lane.shift(x, margin);
        x = lane.area.right() + gap;
    }
    let height = placed.iter().map(|lane| lane.area.bottom()).max().unwrap_or_default() + margin;
    let area = Area { x: 0, y: 0, width: (x - gap).max(0), height };
    let (wires, bars) = match frame {
        Frame::Once => (Vec::new(), Vec::new()),
        Frame::Again => (loop_wires(&placed, area), Vec::new()),
        Frame::Together { .. } => fork_wires(&placed, area),
        Frame::Otherwise => (error_wires(&placed), Vec::new()),
    };
    Placed { block, area, lanes: placed, wires, bars }
}

/// From below the last task up beside the lane and into the first.
fn loop_wires(lanes: &[PlacedLane<'_>], area: Area) -> Vec<Wire> {
    let Some((lane, (top, bottom))) = lanes.first().and_then(|lane| Some((lane, lane.ends()?)))
    else {
        return Vec::new();
    };
    let middle = lane.middle();
    let (above, below) = (top - GAP / 2, area.bottom() - GAP / 2);
    let back = vec![
        (middle, bottom),
        (middle, below),
        (0, below),
        (0, above),
        (middle, above),
        (middle, top),
    ];
    vec![Wire { kind: WireKind::Next, corners: back }]
}

/// From one bar down into every lane, and from every lane down to another.
fn fork_wires(lanes: &[PlacedLane<'_>], area: Area) -> (Vec<Wire>, Vec<Area>) {
    let middles: Vec<i32> = lanes.iter().map(PlacedLane::middle).collect();
    let (Some(left), Some(right)) = (middles.iter().min(), middles.iter().max()) else {
        return (Vec::new(), Vec::new());
    };
    let (top, bottom) = (6, area.bottom() - 6);
    let bar = |y| Area { x: left - 16, y: y - 2, width: right - left + 32, height: 4 };
    let wires = lanes.iter().filter_map(|lane| Some((lane.middle(), lane.ends()?))).flat_map(
        |(middle, (first, last))| {
            let down = vec![(middle, top + 2), (middle, first)];
            let join = vec![(middle, last), (middle, bottom - 2)];
            [
                Wire { kind: WireKind::Next, corners: down },
                Wire { kind: WireKind::Plain, corners: join },
            ]
        },
    );
    (wires.collect(), vec![bar(top), bar(bottom)])
}

/// From all along the tried lane into the handler's title.
fn error_wires(lanes: &[PlacedLane<'_>]) -> Vec<Wire> {
    let [tried, handler] = lanes else { return Vec::new() };
    if tried.items.is_empty() {
        return Vec::new();
    }
    let (x, y) = (tried.area.right() + ERROR_GAP / 3, handler.area.y + TITLE / 2);
    let corners = vec![(x, tried.area.bottom()), (x, y), (handler.area.x, y)];
    vec![Wire { kind: WireKind::Error, corners }]
}

fn place_lane(lane: &Lane) -> PlacedLane<'_> {
    let mut items: Vec<Placed<'_>> = lane.items.iter().map(place_block).collect();
    let (title, inset) = if lane.title.is_some() { (TITLE, INSET) } else { (0, 0) };
    let tracks = Tracks::new(&lane.edges);
    let title_width =
        lane.title.as_deref().map_or(0, |title| text::width(title, Size::Note).min(TEXT_MAX));
    let widest = items.iter().map(|item| item.area.width).max().unwrap_or_default();
    let column = widest.max(title_width - tracks.left() - tracks.right());
    let left = inset + tracks.left();
    let middle = left + column / 2;
    let mut y = title;
    for item in &mut items {
        item.shift(middle - item.area.width / 2, y);
        y = item.area.bottom() + GAP;
    }
    let height = items.last().map_or(title, |item| item.area.bottom() + inset);
    let area = Area { x: 0, y: 0, width: left + column + tracks.right() + inset, height };
    let wires = lane_wires(&lane.edges, &items, &tracks, (left, left + column));
    PlacedLane { title: lane.title.as_deref(), area, items, wires }
}

/// Which jumps run beside a lane, and on which side.
struct Tracks {
    down: Vec<Edge>,
    up: Vec<Edge>,
}

impl Tracks {
    fn new(edges: &[Edge]) -> Self {
        let jumps = || edges.iter().filter(|edge| edge.is_jump()).cloned();
        let (mut down, mut up): (Vec<Edge>, Vec<Edge>) =
            jumps().partition(|edge| edge.from < edge.to);
        // Shorter jumps run nearer to the tasks, so that fewer lines cross.
        down.sort_by_key(|edge| edge.to - edge.from);
        up.sort_by_key(|edge| edge.from - edge.to);
        Self { down, up }
    }

    fn left(&self) -> i32 {
        Self::room(&self.up)
    }

    fn right(&self) -> i32 {
        Self::room(&self.down)
    }

    fn room(jumps: &[Edge]) -> i32 {
        match i32::try_from(jumps.len()).expect("a list of tasks is short") {
            0 => 0,
            count => TRACK_MARGIN + count * TRACK,
        }
    }

    /// How far from the tasks the track of a jump is.
    fn distance(jumps: &[Edge], edge: &Edge) -> i32 {
        let index = jumps.iter().position(|jump| jump == edge).unwrap_or_default();
        TRACK_MARGIN + i32::try_from(index).expect("a list of tasks is short") * TRACK
    }
}

/// The arrows of a lane whose tasks are between `column.0` and `column.1`.
fn lane_wires(
    edges: &[Edge],
    items: &[Placed<'_>],
    tracks: &Tracks,
    column: (i32, i32),
) -> Vec<Wire> {
    let wire = |edge: &Edge| {
        let (from, to) = (items[edge.from].area, items[edge.to].area);
        if !edge.is_jump() {
            let corners = vec![(from.middle(), from.bottom()), (to.middle(), to.y)];
            return Wire { kind: WireKind::Next, corners };
        }
        let line = i32::try_from(edge.line.unwrap_or_default()).expect("a task has few lines");
        let out = from.y + TEXT_MARGIN + line * LINE + LINE / 2;
        let enter = to.y + TEXT_MARGIN + LINE / 2;
        let corners = if edge.from < edge.to {
            let x = column.1 + Tracks::distance(&tracks.down, edge);
            vec![(from.right(), out), (x, out), (x, enter), (to.right(), enter)]
        } else {
            let x = column.0 - Tracks::distance(&tracks.up, edge);
            // A jump to itself must not arrive where it leaves.
            let out = if edge.from == edge.to { from.bottom() - TEXT_MARGIN } else { out };
            vec![(from.x, out), (x, out), (x, enter), (to.x, enter)]
        };
        Wire { kind: WireKind::Jump, corners }
    };
    edges.iter().map(wire).collect()
}

impl Placed<'_> {
    pub(super) fn shift(&mut self, x: i32, y: i32) {
        shift_area(&mut self.area, x, y);
        self.bars.iter_mut().for_each(|bar| shift_area(bar, x, y));
        shift_wires(&mut self.wires, x, y);
        self.lanes.iter_mut().for_each(|lane| lane.shift(x, y));
    }
}

impl PlacedLane<'_> {
    fn shift(&mut self, x: i32, y: i32) {
        shift_area(&mut self.area, x, y);
        shift_wires(&mut self.wires, x, y);
        self.items.iter_mut().for_each(|item| item.shift(x, y));
    }

    /// The line that goes through the middle of all tasks.
    fn middle(&self) -> i32 {
        self.items.first().map_or(self.area.middle(), |item| item.area.middle())
    }

    /// Where the first task begins and the last one ends.
    fn ends(&self) -> Option<(i32, i32)> {
        Some((self.items.first()?.area.y, self.items.last()?.area.bottom()))
    }
}

fn shift_area(area: &mut Area, x: i32, y: i32) {
    area.x += x;
    area.y += y;
}

fn shift_wires(wires: &mut [Wire], x: i32, y: i32) {
    for corner in wires.iter_mut().flat_map(|wire| &mut wire.corners) {
        corner.0 += x;
        corner.1 += y;
    }
}
