//! Executions that several nodes hold: what becomes of calls and lines when one loses the others.

mod cluster;
mod driver;

use std::time::Duration;

use cluster::{Cluster, Provider, program_of};
use driver::id;
use outlast_engine::{Strategy, Survival};

const SECOND: Duration = Duration::from_secs(1);

/// Seen as seed 114: the decision was asked for again in every turn, as fast as the processor can.
#[test]
fn a_call_that_waits_for_a_decision_asks_for_it_once() {
    let program = program_of("pay", &[("pay", Provider::Pivot)]);
    let mut cluster = Cluster::new(3, &program);
    cluster.cut(3, &[1, 2]);
    cluster.start(&program, id(1), Survival::new(Strategy::PartitionTolerant, 3));
    cluster.pass();
    assert_eq!(cluster.open(3), [""; 0], "nobody else has its intent");
    cluster.heal();
    assert_eq!(cluster.run_answering(SECOND), [(3, "pay".to_owned())]);
}
