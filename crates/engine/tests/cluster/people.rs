//! What people see of the calls of an execution that wait for them, and say of them.

use outlast_engine::{Ask, ParkedFilter, Reply, Which};
use outlast_workflow::Resolution;

use super::Cluster;
use crate::driver::id;

fn filter() -> ParkedFilter {
    ParkedFilter { which: Some(Which::Id(id(1))), ..ParkedFilter::default() }
}

/// How many calls wait for a person, as a node says.
pub(crate) fn parked(cluster: &mut Cluster, node: u64) -> usize {
    match cluster.node(node).ask(Ask::Parked(filter())) {
        Reply::Parked(items) => items.len(),
        other => panic!("{other:?}"),
    }
}

/// A person says at a node what became of the one that waits.
pub(crate) fn resolve(cluster: &mut Cluster, node: u64, resolution: Resolution) {
    let told = cluster.node(node).ask(Ask::Resolve { filter: filter(), resolution });
    assert!(matches!(&told, Reply::Resolved(items) if items.len() == 1), "{told:?}");
}
