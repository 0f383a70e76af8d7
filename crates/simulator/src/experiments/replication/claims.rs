//! What the paper says, as sentences about the rows: each with the numbers measured, and whether it
//! holds. The bounds are the reader's, written down before anything was measured.

use super::failures::RECOVERY;
use super::{Mode, Results, Row, majority};

/// Times that differ by less are said to be hardly different: a tenth of the time to recovery.
const HARDLY: f64 = RECOVERY.as_secs() as f64 / 10.0;

/// Costs that differ by less are the same, in per cent of the cost of the whole workflow.
const COST_TOLERANCE: f64 = 2.0;

/// Times that differ by less are the same, in seconds.
const TIME_TOLERANCE: f64 = 0.25;

/// One sentence of the paper, and what was measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// What the paper says, of as many replicas as there were.
    pub paper: String,
    /// What was measured, as words with numbers.
    pub measured: String,
    /// Whether it holds.
    pub holds: bool,
}

/// The sentences about figure 2.
pub(super) fn of_no_majority(results: &Results) -> Vec<Claim> {
    let mut claims = Vec::new();
    for replicas in results.replicas() {
        let row = |mode| results.row(replicas, mode, 2);
        let modes = (row(Mode::Passive), row(Mode::Active), row(Mode::PartitionTolerant(1)));
        let (Some(passive), Some(active), Some(tolerant)) = modes else { continue };
        let recovery = RECOVERY.as_secs_f64();
        let (stands, goes, nearly) =
            (passive.unavailable, active.unavailable, tolerant.unavailable);
        claims.push(Claim {
            paper: "passive replication is unavailable for the complete failure time of 30 s"
                .to_owned(),
            measured: format!("{replicas} replicas: {stands:.1} s without progress"),
            holds: recovery - HARDLY <= stands,
        });
        claims.push(Claim {
            paper: "the availability of active replication is not impacted".to_owned(),
            measured: format!("{replicas} replicas: {goes:.1} s without progress"),
            holds: goes < HARDLY,
        });
        let least = (replicas - 2) as f64 * 100.0;
        claims.push(Claim {
            paper: format!("active replication pays over {least:.0} % with {replicas} replicas"),
            measured: format!(
                "{replicas} replicas: {:.0} %, which is to be over (n - 2) · 100 %",
                active.compensation
            ),
            holds: least < active.compensation,
        });
        claims.push(Claim {
            paper: "with t_v = 1 the execution nearly does not stand still".to_owned(),
            measured: format!("{replicas} replicas: {nearly:.1} s without progress"),
            holds: nearly < HARDLY,
        });
        let (pays, less) = (active.compensation, tolerant.compensation);
        claims.push(Claim {
            paper: "with t_v = 1 it pays far less than active replication".to_owned(),
            measured: format!("{replicas} replicas: {less:.0} % against {pays:.0} %"),
            holds: less < pays / 2.0,
        });
    }
    claims
}

/// The sentences about figure 4.
pub(super) fn of_failures(results: &Results) -> Vec<Claim> {
    let mut claims = vec![loss_of_one_node(results), no_cost_without_failures(results)];
    for replicas in results.replicas() {
        claims.push(cost_of_active(results, replicas));
    }
    for replicas in results.replicas() {
        claims.push(one_failure(results, replicas));
    }
    for replicas in results.replicas() {
        claims.push(better_than_one_node(results, replicas));
    }
    for replicas in results.replicas() {
        claims.push(approaches_active(results, replicas));
    }
    for replicas in results.replicas() {
        claims.push(votes_buy_availability(results, replicas));
        claims.push(votes_save_cost(results, replicas));
    }
    claims
}

fn loss_of_one_node(results: &Results) -> Claim {
    let alone: Vec<&Row> = results.rows.iter().filter(|row| row.case.mode == Mode::None).collect();
    let loss = match (alone.first(), alone.last()) {
        (Some(none), Some(most)) if 0 < most.case.failures => {
            (most.execution_time - none.execution_time) / most.case.failures as f64
        }
        _ => f64::NAN,
    };
    Claim {
        paper:
            "each failure delays the non-replicated execution by the mean time to recovery, 30 s"
                .to_owned(),
        measured: format!("{loss:.1} s for each failure"),
        holds: (loss - RECOVERY.as_secs_f64()).abs() < HARDLY,
    }
}

fn no_cost_without_failures(results: &Results) -> Claim {
    let calm = results.rows.iter();
    let calm = calm.filter(|row| row.case.failures == 0 && row.case.mode != Mode::Active);
    let most = calm.map(|row| row.compensation).fold(0.0, f64::max);
    Claim {
        paper: "without failures only active replication causes compensation cost".to_owned(),
        measured: format!("at most {most:.2} % in all other modes"),
        holds: most == 0.0,
    }
}

fn cost_of_active(results: &Results, replicas: usize) -> Claim {
    let expected = (replicas - 1) as f64 * 100.0;
    let cost = value(results.row(replicas, Mode::Active, 0), |row| row.compensation);
    Claim {
        paper: format!(
            "without failures active replication costs {expected:.0} % with {replicas} replicas"
        ),
        measured: format!("{replicas} replicas: {cost:.1} %"),
        holds: (cost - expected).abs() < COST_TOLERANCE,
    }
}

fn one_failure(results: &Results, replicas: usize) -> Claim {
    let delay = |mode: &Mode| {
        let time =
            |failures| value(results.row(replicas, *mode, failures), |row| row.execution_time);
        time(1) - time(0)
    };
    let most = results.modes(replicas).iter().map(delay).fold(0.0, f64::max);
    Claim {
        paper: "with only one failure the availability of all replicated executions is basically \
                unaffected"
            .to_owned(),
        measured: format!("{replicas} replicas: at most {most:.2} s later than without"),
        holds: most < HARDLY,
    }
}

fn better_than_one_node(results: &Results, replicas: usize) -> Claim {
    let saved = results.rows.iter().filter(|row| row.case.replicas == replicas);
    let saved = saved.filter(|row| 0 < row.case.failures).map(|row| {
        let alone = results.row(1, Mode::None, row.case.failures);
        value(alone, |alone| alone.execution_time - row.execution_time)
    });
    let least = saved.fold(f64::INFINITY, f64::min);
    Claim {
        paper: "any replicated execution easily outperforms the non-replicated execution"
            .to_owned(),
        measured: format!("{replicas} replicas: at least {least:.1} s sooner, whatever failed"),
        holds: 0.0 < least,
    }
}

fn approaches_active(results: &Results, replicas: usize) -> Claim {
    let time = |mode| mean_over_failures(results, replicas, mode, |row| row.execution_time);
    let active = time(Mode::Active);
    let one = time(Mode::PartitionTolerant(1)) - active;
    let most = time(Mode::PartitionTolerant(majority(replicas))) - active;
    // The paper tells 3 replicas from 5 and 9.
    let nearly = if replicas <= 3 { "nearly" } else { "almost" };
    Claim {
        paper: format!("with t_v = 1 availability is {nearly} that of active replication"),
        measured: format!(
            "{replicas} replicas: {} than active on average over two and more failures, with a \
             majority of votes {}",
            later(one),
            later(most)
        ),
        holds: one < HARDLY && one < most,
    }
}

fn votes_buy_availability(results: &Results, replicas: usize) -> Claim {
    let times = by_votes(results, replicas, |row| row.execution_time);
    Claim {
        paper: "the lower t_v, the higher the availability".to_owned(),
        measured: format!("{replicas} replicas: {}", listed(&times, "s")),
        // Execution times fall as fewer votes are needed.
        holds: times.windows(2).all(|pair| pair[0] < pair[1] + TIME_TOLERANCE)
            && times.first() < times.last(),
    }
}

fn votes_save_cost(results: &Results, replicas: usize) -> Claim {
    let costs = by_votes(results, replicas, |row| row.compensation);
    Claim {
        paper: "the lower t_v, the higher the compensation cost".to_owned(),
        measured: format!("{replicas} replicas: {}", listed(&costs, "%")),
        holds: costs.windows(2).all(|pair| pair[1] < pair[0] + COST_TOLERANCE)
            && costs.last() < costs.first(),
    }
}

/// The means over two and more failures, from one vote to a majority.
fn by_votes(results: &Results, replicas: usize, of: impl Fn(&Row) -> f64) -> Vec<f64> {
    let votes = 1..=majority(replicas);
    votes
        .map(|votes| mean_over_failures(results, replicas, Mode::PartitionTolerant(votes), &of))
        .collect()
}

/// The mean over the rows of a mode with two and more failures.
fn mean_over_failures(
    results: &Results,
    replicas: usize,
    mode: Mode,
    of: impl Fn(&Row) -> f64,
) -> f64 {
    let rows = (2..=replicas).filter_map(|failures| results.row(replicas, mode, failures));
    let values: Vec<f64> = rows.map(of).collect();
    values.iter().sum::<f64>() / values.len() as f64
}

/// How much later something ends, or how much sooner.
fn later(seconds: f64) -> String {
    let word = if seconds < 0.0 { "sooner" } else { "later" };
    format!("{:.1} s {word}", seconds.abs())
}

fn value(row: Option<&Row>, of: impl Fn(&Row) -> f64) -> f64 {
    row.map_or(f64::NAN, of)
}

fn listed(values: &[f64], unit: &str) -> String {
    let words = values.iter().enumerate();
    let words: Vec<_> =
        words.map(|(index, value)| format!("t_v = {}: {value:.1} {unit}", index + 1)).collect();
    words.join(", ")
}
