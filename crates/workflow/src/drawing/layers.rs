//! Places for the steps of a graph region.
//!
//! Each layer is a row. An arrow that skips rows gets a narrow free cell in each of them, so that it
//! passes between the steps instead of behind them. Rows are put in order by where their arrows
//! come from, which keeps most arrows from crossing.

use super::layout::{Area, LANE_GAP, Placed, PlacedLane, Wire, WireKind, place_block};
use super::shape::{Block, Dependence};

/// Space between two rows: room for slanting arrows.
const ROW_GAP: i32 = 40;
/// Width of a cell that only an arrow passes through.
const PASSAGE: i32 = 8;

/// One cell of a row: a step, or a passage for an arrow.
struct Cell<'a> {
    step: Option<Placed<'a>>,
    /// The layer and index of a step, or the number of the arrow that passes.
    key: Key,
    width: i32,
    middle: i32,
    /// The cells of the row above that lead here.
    above: Vec<Key>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Key {
    Step(usize, usize),
    Passage(usize, usize),
}

/// Places a graph region.
pub(super) fn place<'a>(
    block: &'a Block,
    layers: &'a [Vec<Block>],
    dependences: &[Dependence],
) -> Placed<'a> {
    let mut rows = cells(layers, dependences);
    for index in 0..rows.len() {
        let (done, rest) = rows.split_at_mut(index);
        order(&mut rest[0], done.last());
        spread(&mut rest[0]);
    }
    let (area, heights) = stack(&mut rows);
    let wires = dependences
        .iter()
        .enumerate()
        .map(|(number, dependence)| wire(&rows, &heights, number, dependence))
        .collect();
    let items = rows.into_iter().flatten().filter_map(|cell| cell.step).collect();
    let lane = PlacedLane { title: None, area, items, wires };
    Placed { block, area, lanes: vec![lane], wires: Vec::new(), bars: Vec::new() }
}

fn cells<'a>(layers: &'a [Vec<Block>], dependences: &[Dependence]) -> Vec<Vec<Cell<'a>>> {
    let mut rows: Vec<Vec<Cell<'a>>> = Vec::new();
    for (layer, blocks) in layers.iter().enumerate() {
        let step = |(index, block)| {
            let step = place_block(block);
            let (key, width) = (Key::Step(layer, index), step.area.width);
            Cell { step: Some(step), key, width, middle: 0, above: Vec::new() }
        };
        rows.push(blocks.iter().enumerate().map(step).collect());
    }
    for (number, dependence) in dependences.iter().enumerate() {
        let mut before = Key::Step(dependence.from.0, dependence.from.1);
        for layer in passed(dependence) {
            let key = Key::Passage(number, layer);
            let above = vec![before];
            rows[layer].push(Cell { step: None, key, width: PASSAGE, middle: 0, above });
            before = key;
        }
        let to = Key::Step(dependence.to.0, dependence.to.1);
        let target = rows[dependence.to.0].iter_mut().find(|cell| cell.key == to);
        target.expect("an arrow leads to a step of the region").above.push(before);
    }
    rows
}

/// The rows an arrow only passes through.
fn passed(dependence: &Dependence) -> std::ops::Range<usize> {
    dependence.from.0 + 1..dependence.to.0.max(dependence.from.0 + 1)
}

/// Puts the cells of a row in the order of what leads to them.
fn order(row: &mut [Cell<'_>], above: Option<&Vec<Cell<'_>>>) {
    let Some(above) = above else { return };
    row.sort_by_key(|cell| {
        let middles: Vec<i32> = above
            .iter()
            .filter(|upper| cell.above.contains(&upper.key))
            .map(|upper| upper.middle)
            .collect();
        let count = i32::try_from(middles.len()).expect("a row has few cells");
        if count == 0 { 0 } else { middles.iter().sum::<i32>() / count }
    });
}

/// Gives the cells of a row their places around zero.
fn spread(row: &mut [Cell<'_>]) {
    let mut x = -row_width(row) / 2;
    for cell in row {
        cell.middle = x + cell.width / 2;
        x += cell.width + LANE_GAP;
    }
}

fn row_width(row: &[Cell<'_>]) -> i32 {
    let cells: i32 = row.iter().map(|cell| cell.width + LANE_GAP).sum();
    (cells - LANE_GAP).max(0)
}

/// Puts rows below each other; says where each begins and ends.
fn stack(rows: &mut [Vec<Cell<'_>>]) -> (Area, Vec<(i32, i32)>) {
    let width = rows.iter().map(|row| row_width(row)).max().unwrap_or_default();
    let mut heights = Vec::new();
    let mut y = 0;
    for row in rows {
        let steps = row.iter().filter_map(|cell| cell.step.as_ref());
        let height = steps.map(|step| step.area.height).max().unwrap_or_default();
        for cell in row.iter_mut() {
            cell.middle += width / 2;
            let x = cell.middle - cell.width / 2;
            if let Some(step) = &mut cell.step {
                step.shift(x, y);
            }
        }
        heights.push((y, y + height));
        y += height + ROW_GAP;
    }
    (Area { x: 0, y: 0, width, height: (y - ROW_GAP).max(0) }, heights)
}

fn wire(
    rows: &[Vec<Cell<'_>>],
    heights: &[(i32, i32)],
    number: usize,
    dependence: &Dependence,
) -> Wire {
    let cell = |layer: usize, key: Key| {
        let found = rows[layer].iter().find(|cell| cell.key == key);
        found.expect("every step and every passage has a cell")
    };
    let area = |(layer, index): (usize, usize)| {
        cell(layer, Key::Step(layer, index)).step.as_ref().expect("a step has a place").area
    };
    let (from, to) = (area(dependence.from), area(dependence.to));
    let mut corners = vec![(from.middle(), from.bottom())];
    for layer in passed(dependence) {
        let middle = cell(layer, Key::Passage(number, layer)).middle;
        corners.extend([(middle, heights[layer].0), (middle, heights[layer].1)]);
    }
    corners.push((to.middle(), to.y));
    let kind = if dependence.control { WireKind::Link } else { WireKind::Data };
    Wire { kind, corners }
}
