//! The paper's figures 2 and 4, redrawn from the rows.

use super::svg::{Anchor, Picture, Scale};
use super::{Mode, Results, Row};

const GREY: &str = "#d9d9d9";
const INK: &str = "#333333";

/// How a mode is drawn: its name in the paper's words, colour, dashes and corners of its marker.
struct Style {
    name: String,
    colour: &'static str,
    dashes: &'static str,
    corners: usize,
}

fn style(mode: Mode) -> Style {
    // Colours that people see differently who see colours differently (Okabe and Ito).
    const BY_VOTES: [&str; 5] = ["#009e73", "#e69f00", "#cc79a7", "#56b4e9", "#8c6d31"];
    match mode {
        Mode::None => Style::new("NR (one node)".to_owned(), "#000000", "2 3", 0),
        Mode::Active => Style::new("ACT (active)".to_owned(), "#d55e00", "none", 4),
        Mode::Passive => Style::new("passive".to_owned(), "#0072b2", "6 3", 3),
        Mode::PartitionTolerant(votes) => {
            let colour = BY_VOTES[(votes - 1) % BY_VOTES.len()];
            Style::new(format!("t_v = {votes}"), colour, "none", votes + 4)
        }
    }
}

impl Style {
    const fn new(name: String, colour: &'static str, dashes: &'static str, corners: usize) -> Self {
        Self { name, colour, dashes, corners }
    }
}

/// A place for a diagram: its corner above to the left, its size, and its scale upwards.
struct Panel {
    at: (f64, f64),
    size: (f64, f64),
    scale: Scale,
}

impl Panel {
    fn frame(&self, picture: &mut Picture, axis: &str) {
        let ((left, top), (width, height)) = (self.at, self.size);
        for tick in self.scale.ticks() {
            let y = self.y(tick);
            picture.line((left, y), (left + width, y), GREY);
            picture.words((left - 6.0, y + 4.0), Anchor::End, &format!("{tick}"));
        }
        picture.line((left, top), (left, top + height), INK);
        picture.line((left, top + height), (left + width, top + height), INK);
        picture.upwards((left - 44.0, top + height / 2.0), axis);
    }

    fn y(&self, value: f64) -> f64 {
        self.at.1 + self.size.1 * (1.0 - value / self.scale.top())
    }

    /// The middle of one of several columns.
    fn column(&self, number: usize, of: usize) -> f64 {
        self.at.0 + self.size.0 * (number as f64 + 0.5) / of as f64
    }
}

/// Figure 2: unavailability and compensation cost of passive, active and t_v = 1, side by side.
pub(super) fn no_majority(results: &Results) -> String {
    const SIZE: (f64, f64) = (300.0, 220.0);
    let groups = results.replicas();
    let height = 90.0 + groups.len() as f64 * 300.0;
    let mut picture = Picture::new(800.0, height, "Seed 0, figure 2: no majority anywhere");
    picture.heading((400.0, 26.0), "No partition holds a majority for 30 s [lower is better]");
    for (number, replicas) in groups.iter().enumerate() {
        let top = 70.0 + number as f64 * 300.0;
        let words = format!("{replicas} replicas: one partition plus one crash, of the primary");
        picture.words((400.0, top - 20.0), Anchor::Middle, &words);
        let rows: Vec<&Row> =
            results.rows.iter().filter(|row| row.case.replicas == *replicas).collect();
        let unavailable = |row: &Row| row.unavailable;
        let compensation = |row: &Row| row.compensation;
        bars(&mut picture, ((80.0, top), SIZE), "unavailability [s]", &rows, unavailable);
        bars(&mut picture, ((470.0, top), SIZE), "compensation cost [%]", &rows, compensation);
    }
    picture.finish()
}

fn bars(
    picture: &mut Picture,
    (at, size): ((f64, f64), (f64, f64)),
    axis: &str,
    rows: &[&Row],
    of: impl Fn(&Row) -> f64,
) {
    const WIDTH: f64 = 52.0;
    let most = rows.iter().map(|row| of(row)).fold(0.0, f64::max);
    let panel = Panel { at, size, scale: Scale::up_to(most * 1.08) };
    panel.frame(picture, axis);
    for (number, row) in rows.iter().enumerate() {
        let (value, style) = (of(row), style(row.case.mode));
        let (x, y) = (panel.column(number, rows.len()), panel.y(value));
        let below = at.1 + size.1;
        picture.rectangle((x - WIDTH / 2.0, y), (WIDTH, below - y), style.colour);
        picture.words((x, y - 5.0), Anchor::Middle, &format!("{value:.1}"));
        picture.words((x, below + 18.0), Anchor::Middle, &style.name);
    }
}

/// Figure 4: execution time and compensation cost over the number of failures, a column of diagrams
/// for each number of replicas and a line for each mode.
pub(super) fn failures(results: &Results) -> String {
    const SIZE: (f64, f64) = (290.0, 230.0);
    // The heading takes as much, also above one diagram.
    const WIDTH_MIN: f64 = 560.0;
    let groups = results.replicas();
    let taken = 30.0 + groups.len() as f64 * 360.0;
    let width = taken.max(WIDTH_MIN);
    let legend = Legend::of(results, width);
    let height = 670.0 + legend.height();
    let mut picture = Picture::new(width, height, "Seed 0, figure 4: failures at random times");
    picture.heading(
        (width / 2.0, 24.0),
        "Replicated executions in the presence of failures [lower is better]",
    );
    for (number, replicas) in groups.iter().copied().enumerate() {
        let left = 70.0 + (width - taken) / 2.0 + number as f64 * 360.0;
        picture.words((left + SIZE.0 / 2.0, 50.0), Anchor::Middle, &format!("{replicas} replicas"));
        let lines = lines_of(results, replicas);
        let time = |row: &Row| row.execution_time;
        let cost = |row: &Row| row.compensation;
        lines_over_failures(&mut picture, ((left, 64.0), SIZE), "execution time [s]", &lines, time);
        lines_over_failures(
            &mut picture,
            ((left, 356.0), SIZE),
            "compensation cost [%]",
            &lines,
            cost,
        );
    }
    legend.draw(&mut picture, 658.0);
    picture.finish()
}

/// The rows of each mode, by failures; those of one node as far as there are replicas.
fn lines_of(results: &Results, replicas: usize) -> Vec<(Mode, Vec<&Row>)> {
    let modes = std::iter::once(Mode::None).chain(results.modes(replicas));
    let of = |mode| {
        let nodes = if mode == Mode::None { 1 } else { replicas };
        let rows = (0..=replicas).filter_map(|failures| results.row(nodes, mode, failures));
        (mode, rows.collect())
    };
    modes.map(of).collect()
}

fn lines_over_failures(
    picture: &mut Picture,
    (at, size): ((f64, f64), (f64, f64)),
    axis: &str,
    lines: &[(Mode, Vec<&Row>)],
    of: impl Fn(&Row) -> f64,
) {
    let rows = lines.iter().flat_map(|(_, rows)| rows);
    let most = rows.map(|row| of(row)).fold(0.0, f64::max);
    let panel = Panel { at, size, scale: Scale::up_to(most) };
    panel.frame(picture, axis);
    let columns = lines.iter().map(|(_, rows)| rows.len()).max().unwrap_or(0);
    let below = at.1 + size.1;
    for failures in 0..columns {
        let x = panel.column(failures, columns);
        picture.words((x, below + 16.0), Anchor::Middle, &failures.to_string());
    }
    picture.words((at.0 + size.0 / 2.0, below + 32.0), Anchor::Middle, "number of failures");
    for (mode, rows) in lines {
        let style = style(*mode);
        let place = |row: &&Row| (panel.column(row.case.failures, columns), panel.y(of(row)));
        let points: Vec<(f64, f64)> = rows.iter().map(place).collect();
        picture.path(&points, style.colour, style.dashes);
        for point in points {
            picture.marker(point, style.corners, style.colour);
        }
    }
}

/// What the lines mean, in as many rows as it takes.
struct Legend {
    modes: Vec<Mode>,
    /// How many stand in a row.
    columns: usize,
    /// From one to the next.
    between: f64,
}

impl Legend {
    /// The longest name and its line take so much.
    const ENTRY: f64 = 130.0;
    const ROW: f64 = 20.0;
    const MARGIN: f64 = 30.0;

    fn of(results: &Results, width: f64) -> Self {
        let mut modes: Vec<Mode> =
            results.replicas().into_iter().flat_map(|replicas| results.modes(replicas)).collect();
        modes.push(Mode::None);
        modes.sort_unstable();
        modes.dedup();
        let room = width - 2.0 * Self::MARGIN;
        let fit = (1..=modes.len()).filter(|columns| Self::ENTRY * *columns as f64 <= room);
        let columns = fit.max().unwrap_or(1);
        Self { modes, columns, between: room / columns as f64 }
    }

    fn height(&self) -> f64 {
        self.modes.len().div_ceil(self.columns) as f64 * Self::ROW
    }

    fn draw(&self, picture: &mut Picture, top: f64) {
        for (number, mode) in self.modes.iter().enumerate() {
            let (row, column) = (number / self.columns, number % self.columns);
            let x = Self::MARGIN + column as f64 * self.between;
            let y = top + row as f64 * Self::ROW;
            let style = style(*mode);
            picture.path(&[(x, y), (x + 26.0, y)], style.colour, style.dashes);
            picture.marker((x + 13.0, y), style.corners, style.colour);
            picture.words((x + 32.0, y + 4.0), Anchor::Start, &style.name);
        }
    }
}
