//! Few runs of each figure: the directions of the paper's claims.

use std::time::Duration;

use outlast_engine::Acknowledge;

use super::workload::{Workload, half_normal};
use super::{Case, Experiment, Figure, Mode, Results, Row, Stage, failures};
use crate::{FaultKind, Random};

fn experiment(figure: Figure, replicas: usize, runs: u32) -> Experiment {
    let acknowledge = Acknowledge::Majority;
    Experiment { figure, replicas: vec![replicas], runs, seed: 7, acknowledge }
}

fn row(experiment: &Experiment, stage: &Stage, case: Case) -> Row {
    let measured: Vec<_> =
        (0..experiment.runs).map(|run| experiment.measure(stage, case, run)).collect();
    for (run, one) in measured.iter().enumerate() {
        assert_eq!(one.finding, None, "{case:?}, run {run}");
    }
    Row::of(case, &measured)
}

fn results(experiment: &Experiment) -> Results {
    let stage = Stage::new();
    let rows = experiment.cases().into_iter().map(|case| row(experiment, &stage, case));
    Results { figure: experiment.figure, rows: rows.collect() }
}

#[test]
fn without_a_majority_only_passive_stands_still() {
    let results = results(&experiment(Figure::NoMajority, 5, 1));
    for claim in results.claims() {
        assert!(claim.holds, "{}: {}", claim.paper, claim.measured);
    }
    assert!(results.draw().ends_with("</svg>\n"));
}
