//! Few runs of each figure: the directions of the paper's claims, and what is drawn at random.

use std::time::Duration;

use outlast_engine::Acknowledge;

use super::svg::Scale;
use super::workload::{self, Workload, exponential, half_normal};
use super::{Case, Experiment, Figure, Measured, Mode, Results, Row, Stage, failures};
use crate::{FaultKind, Random};

fn experiment(figure: Figure, replicas: usize, seed: u64) -> Experiment {
    let acknowledge = Acknowledge::Majority;
    Experiment { figure, replicas: vec![replicas], runs: 1, seed, acknowledge }
}

fn measure(experiment: &Experiment, stage: &Stage, case: Case, run: u32) -> Measured {
    let measured = experiment.measure(stage, case, run);
    assert_eq!(measured.finding, None, "{case:?}, seed {}, run {run}", experiment.seed);
    measured
}

fn results(experiment: &Experiment) -> Results {
    let stage = Stage::new();
    let row = |case| Row::of(case, &[measure(experiment, &stage, case, 0)]);
    Results { figure: experiment.figure, rows: experiment.cases().into_iter().map(row).collect() }
}

#[test]
fn without_a_majority_only_passive_stands_still() {
    let results = results(&experiment(Figure::NoMajority, 5, 7));
    for claim in results.claims() {
        assert!(claim.holds, "{}: {}", claim.paper, claim.measured);
    }
}

#[test]
fn without_failures_only_active_pays() {
    let (experiment, stage) = (experiment(Figure::Failures, 3, 7), Stage::new());
    for case in experiment.cases().into_iter().filter(|case| case.failures == 0) {
        let measured = measure(&experiment, &stage, case, 0);
        let expected = if case.mode == Mode::Active { 200.0 } else { 0.0 };
        let percent = measured.compensation_percent;
        assert!((percent - expected).abs() < 2.0, "{case:?}: {percent} %");
        // What is left is the journal at work, and the decision on the result.
        assert!(measured.unavailable < Duration::from_secs(2), "{case:?}: {measured:?}");
    }
}

/// Section 5: "With only one failure, the availability of active replication and all partition-tolerant
/// replication approaches is basically unaffected"; "Any replicated execution easily outperforms the
/// non-replicated execution"; and "With replication degree 3, our partition-tolerant replication with t_v = 1
/// reaches nearly the availability of active replication." Few runs show these; what a failure costs one node,
/// and what each vote buys, need the hundreds of the experiment itself.
#[test]
fn replicas_outlast_failures_and_one_vote_does_nearly_as_well_as_active() {
    const RUNS: u32 = 8;
    let (experiment, stage) = (experiment(Figure::Failures, 3, 7), Stage::new());
    let row = |case| {
        let runs = (0..RUNS).map(|run| measure(&experiment, &stage, case, run));
        Row::of(case, &runs.collect::<Vec<_>>())
    };
    let rows = experiment.cases().into_iter().map(row).collect();
    let claims = Results { figure: Figure::Failures, rows }.claims();
    for words in ["with only one failure", "any replicated execution", "with t_v = 1 availability"]
    {
        let claim = claims.iter().find(|claim| claim.paper.starts_with(words));
        let claim = claim.expect("it is among the claims");
        assert!(claim.holds, "{}: {}", claim.paper, claim.measured);
    }
}

/// A replica that was to undo a second effect of a lost line while it undid the first took the second
/// for one that never was, because its line had not been told of it yet.
#[test]
fn what_is_undone_after_something_else_is_not_taken_for_void() {
    let (experiment, stage) = (experiment(Figure::Failures, 9, 50), Stage::new());
    measure(&experiment, &stage, Case { replicas: 9, mode: Mode::Passive, failures: 5 }, 8);
}

/// Section 5: "each failure delays the non-replicated execution by the mean-time-to-recovery, i.e., 30s".
#[test]
fn one_node_loses_the_time_that_it_is_down_which_is_thirty_seconds_on_average() {
    let (experiment, stage) = (experiment(Figure::Failures, 3, 7), Stage::new());
    let case = |failures| Case { replicas: 1, mode: Mode::None, failures };
    let mut random = Random::new(3);
    let down: Vec<_> = failures::of_one_node(&mut random, 3, Duration::from_secs(40));
    assert!(down.windows(2).all(|pair| pair[0].ends() <= pair[1].at), "one after the other");
    let draws =
        (0..1_000).flat_map(|_| failures::of_one_node(&mut random, 3, Duration::from_secs(40)));
    let total: Duration = draws.map(|fault| fault.duration).sum();
    let mean = total.as_secs_f64() / 3_000.0;
    assert!((28.5..=31.5).contains(&mean), "{mean} s");
    let (calm, failed) =
        (measure(&experiment, &stage, case(0), 0), measure(&experiment, &stage, case(3), 0));
    let lost = failed.execution_time.saturating_sub(calm.execution_time);
    assert!(lost.abs_diff(failed.unavailable) < Duration::from_secs(3), "{lost:?} {failed:?}");
}

#[test]
fn the_same_run_measures_the_same() {
    let (experiment, stage) = (experiment(Figure::Failures, 3, 11), Stage::new());
    let case = Case { replicas: 3, mode: Mode::PartitionTolerant(1), failures: 3 };
    let measured = measure(&experiment, &stage, case, 5);
    assert_eq!(measured, measure(&experiment, &stage, case, 5));
    assert_ne!(measured, measure(&experiment, &stage, case, 6));
}

#[test]
fn figure_4_has_a_row_for_every_mode_and_number_of_failures() {
    let cases = experiment(Figure::Failures, 5, 1).cases();
    // One node, passive, active and t_v from one to three, with none to five failures.
    assert_eq!(cases.len(), 6 * 6);
    assert!(cases.contains(&Case { replicas: 5, mode: Mode::PartitionTolerant(3), failures: 5 }));
}

#[test]
fn failures_are_four_crashes_to_one_partition_and_last_thirty_seconds_on_average() {
    let mut random = Random::new(1);
    let (mut splits, mut total, mut count) = (0, Duration::ZERO, 0);
    for _ in 0..1_000 {
        let faults = failures::at_random(&mut random, 9, 9, Duration::from_secs(40));
        for fault in &faults {
            let sides = fault.nodes.count_ones();
            match fault.kind {
                FaultKind::Split => assert!((1..9).contains(&sides), "two groups, none empty"),
                _ => assert_eq!(sides, 1, "a crash takes one replica"),
            }
        }
        splits += faults.iter().filter(|fault| fault.kind == FaultKind::Split).count();
        total += faults.iter().map(|fault| fault.duration).sum();
        count += 9;
    }
    assert!((1_700..=1_900).contains(&splits), "{splits} of {count}");
    let mean = total.as_secs_f64() / f64::from(count);
    assert!((29.0..=31.0).contains(&mean), "{mean} s");
}

#[test]
fn no_partition_is_left_a_majority() {
    let mut random = Random::new(1);
    for _ in 0..100 {
        let faults = failures::no_majority(&mut random, 5, Duration::from_secs(40));
        let (side, crashed) = (faults[0].nodes, faults[1].nodes);
        let primary = 1 << workload::first_primary(5);
        assert_eq!((side.count_ones(), crashed), (2, primary), "the primary and 2 | 2");
        assert_eq!(side & crashed, 0);
    }
}

#[test]
fn random_numbers_have_the_distributions_of_the_paper() {
    let mut random = Random::new(1);
    let mean = |draw: &mut dyn FnMut() -> f64| (0..20_000).map(|_| draw()).sum::<f64>() / 20_000.0;
    let exponential = mean(&mut || exponential(&mut random));
    assert!((0.98..=1.02).contains(&exponential), "{exponential}");
    // The mean of |N(0, 1)| is the root of two by pi, its mean square is one.
    let normal = mean(&mut || half_normal(&mut random));
    assert!((0.788..=0.808).contains(&normal), "{normal}");
    let square = mean(&mut || half_normal(&mut random).powi(2));
    assert!((0.97..=1.03).contains(&square), "{square}");
    let workload = Workload::draw(&mut random);
    assert!((workload.percent(0..100) - 100.0).abs() < 1e-9);
}

/// A figure of made-up rows.
fn drawn(figure: Figure, replicas: usize) -> String {
    let row = |case: Case| {
        let value = case.failures as f64;
        Row {
            case,
            executions: 1,
            execution_time: 40.0 + value,
            unavailable: value,
            compensation: value * 10.0,
            parked: 0,
        }
    };
    let rows = experiment(figure, replicas, 1).cases().into_iter().map(row).collect();
    Results { figure, rows }.draw()
}

#[test]
fn figures_have_a_line_for_every_mode_and_a_bar_for_every_case() {
    let failures = drawn(Figure::Failures, 5);
    // Six modes in two diagrams and in the legend.
    assert_eq!(failures.matches("<polyline").count(), 6 * 3);
    assert!(failures.ends_with("</svg>\n"));
    let no_majority = drawn(Figure::NoMajority, 5);
    // The ground, and three bars in two diagrams.
    assert_eq!(no_majority.matches("<rect").count(), 1 + 3 * 2);
}

#[test]
fn a_figure_of_one_number_of_replicas_has_room_for_its_words() {
    let number = |text: &str, name: &str| -> f64 {
        let rest = text.split_once(&format!("{name}=\"")).unwrap().1;
        rest.split_once('"').unwrap().0.parse().unwrap()
    };
    for replicas in [2, 3, 9, 32] {
        let figure = drawn(Figure::Failures, replicas);
        let (width, height) = (number(&figure, "width"), number(&figure, "height"));
        assert!(560.0 <= width, "the heading is not cut off");
        let names = figure.lines().filter(|line| line.contains("text-anchor=\"start\""));
        let places: Vec<_> = names.map(|line| (number(line, " x"), number(line, " y"))).collect();
        assert_eq!(places.len(), 3 + replicas / 2 + 1);
        assert!(places.iter().all(|(x, y)| x + 90.0 <= width && y + 10.0 <= height), "{places:?}");
        for pair in places.windows(2) {
            let [(x, y), (next, below)] = pair else { unreachable!("a window of two") };
            assert!(y < below || x + 120.0 <= *next, "{replicas} replicas: {pair:?}");
        }
    }
}

#[test]
fn what_ends_before_active_ends_sooner() {
    let row = |case: Case| Row {
        case,
        executions: 1,
        execution_time: match case.mode {
            Mode::PartitionTolerant(votes) => 39.0 + votes as f64,
            _ => 40.5,
        },
        unavailable: 0.0,
        compensation: 0.0,
        parked: 0,
    };
    let experiment = experiment(Figure::Failures, 3, 1);
    let rows = experiment.cases().into_iter().map(row).collect();
    let claims = Results { figure: Figure::Failures, rows }.claims();
    let said = |claim: &&super::Claim| claim.paper.starts_with("with t_v = 1 availability");
    let words = &claims.iter().find(said).unwrap().measured;
    assert!(words.contains("0.5 s sooner than active"), "{words}");
    assert!(words.ends_with("with a majority of votes 0.5 s later"), "{words}");
}

/// Of numbers of replicas that were not run nothing is said to hold.
#[test]
fn claims_are_about_the_replicas_that_were_run() {
    for (replicas, over, costs) in
        [(2, "over 0 %", "costs 100 %"), (3, "over 100 %", "costs 200 %")]
    {
        let claims = |figure: Figure| {
            let experiment = experiment(figure, replicas, 1);
            let row = |case| Row {
                case,
                executions: 1,
                execution_time: 40.0,
                unavailable: 0.0,
                compensation: 0.0,
                parked: 0,
            };
            let rows = experiment.cases().into_iter().map(row).collect();
            let claims = Results { figure, rows }.claims();
            claims.into_iter().map(|claim| claim.paper).collect::<Vec<_>>().join("\n")
        };
        let (pays, calm) = (claims(Figure::NoMajority), claims(Figure::Failures));
        assert!(pays.contains(&format!("{over} with {replicas} replicas")), "{pays}");
        assert!(calm.contains(&format!("{costs} with {replicas} replicas")), "{calm}");
        for other in ["5", "9", "800"] {
            assert!(!pays.contains(other) && !calm.contains(other), "{pays}\n{calm}");
        }
    }
}

#[test]
fn scales_end_at_round_numbers() {
    assert_eq!(Scale::up_to(312.0), Scale { step: 100.0, steps: 4 });
    assert_eq!(Scale::up_to(0.0).steps, 1);
    assert!(Scale::up_to(59.9).top() >= 59.9);
}
