//! Results: a row for each case, in the order of the cases.

use std::time::Duration;

use super::{Case, Claim, Figure, Measured, Mode, claims, figures};

/// What was measured of one case: means over its executions.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The case.
    pub case: Case,
    /// How many executions there were.
    pub executions: usize,
    /// From the start to the decided result at the client, in seconds.
    pub execution_time: f64,
    /// How much of that nobody executed any activity, in seconds.
    pub unavailable: f64,
    /// What undoing cost, in per cent of undoing the whole workflow once.
    pub compensation: f64,
    /// How many effects were left to a person, in all executions together.
    pub parked: u64,
}

impl Row {
    /// The means of what was measured of a case.
    pub fn of(case: Case, measured: &[Measured]) -> Self {
        let mean = |of: &dyn Fn(&Measured) -> f64| {
            measured.iter().map(of).sum::<f64>() / measured.len().max(1) as f64
        };
        Self {
            case,
            executions: measured.len(),
            execution_time: mean(&|one| seconds(one.execution_time)),
            unavailable: mean(&|one| seconds(one.unavailable)),
            compensation: mean(&|one| one.compensation_percent),
            parked: measured.iter().map(|one| one.parked).sum(),
        }
    }
}

const fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

/// All rows of an experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct Results {
    /// The figure that was repeated.
    pub figure: Figure,
    /// A row for each case.
    pub rows: Vec<Row>,
}

impl Results {
    /// The row of a case.
    pub fn row(&self, replicas: usize, mode: Mode, failures: usize) -> Option<&Row> {
        let case = Case { replicas, mode, failures };
        self.rows.iter().find(|row| row.case == case)
    }

    /// The numbers of replicas, in order.
    pub fn replicas(&self) -> Vec<usize> {
        let together = self.rows.iter().filter(|row| row.case.mode != Mode::None);
        let mut replicas: Vec<usize> = together.map(|row| row.case.replicas).collect();
        replicas.sort_unstable();
        replicas.dedup();
        replicas
    }

    /// The modes that were measured with so many replicas, in order.
    pub fn modes(&self, replicas: usize) -> Vec<Mode> {
        let together = self.rows.iter().filter(|row| row.case.replicas == replicas);
        let mut modes: Vec<Mode> = together.map(|row| row.case.mode).collect();
        modes.dedup();
        modes
    }

    /// What the paper says, beside what was measured.
    pub fn claims(&self) -> Vec<Claim> {
        match self.figure {
            Figure::NoMajority => claims::of_no_majority(self),
            Figure::Failures => claims::of_failures(self),
        }
    }

    /// The figure as an SVG picture.
    pub fn draw(&self) -> String {
        match self.figure {
            Figure::NoMajority => figures::no_majority(self),
            Figure::Failures => figures::failures(self),
        }
    }
}
