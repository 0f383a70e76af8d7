//! Events: what each says, whose disks have it, and what becomes of one whose only disk is lost.
//!
//! An event is acknowledged when one disk has it. If that disk is lost before the event has spread, it is
//! gone, as documented, and whoever listens for it waits. A real publisher who hears of the loss says it
//! again; here people do so once the faults are over. An event that any disk has is never said again, so
//! that nothing but this one case is excused.

use std::collections::BTreeSet;

use outlast_expressions::{Value, value};
use outlast_lineage::NodeId;

use super::World;
use super::occurrence::Occurrence;
use crate::Situation;

/// What is known of an event that some node has taken in.
#[derive(Debug)]
pub(super) struct Heard {
    /// What it says.
    data: String,
    /// The nodes on whose disks it is.
    disks: BTreeSet<NodeId>,
    /// Whether the last of them was lost, and nobody has said it again.
    is_lost: bool,
}

impl World {
    /// Some node has taken an event in. Lines that compete emit the same event with what each of them
    /// knows: only one of them may be heard.
    pub fn hears(&mut self, node: NodeId, event: &Value) {
        let (name, data) = (name_of(event), attribute(event, "data"));
        let new = || Heard { data: data.clone(), disks: BTreeSet::new(), is_lost: false };
        let told = self.told.entry(name.clone()).or_insert_with(new);
        told.disks.insert(node);
        told.is_lost = false;
        if told.data != data {
            let finding = format!("the event {name} says {} and {data}", told.data);
            self.found(finding);
        }
    }

    /// A disk is lost, and the events that were on it.
    pub(super) fn events_are_lost(&mut self, node: NodeId) {
        for told in self.told.values_mut() {
            told.is_lost |= told.disks.remove(&node) && told.disks.is_empty();
        }
    }

    /// Whoever published what no disk has any more, though one had it, does so again.
    pub(super) fn publish_again(&mut self) {
        let is_lost = |event: &Value| {
            let told = self.told.get_mut(&name_of(event));
            told.is_some_and(|told| std::mem::take(&mut told.is_lost))
        };
        for wish in self.client.publishes_again(is_lost) {
            self.saw(Situation::EventLost);
            self.agenda.note(self.now, Occurrence::Wished(wish));
        }
    }
}

fn attribute(event: &Value, name: &str) -> String {
    value::get(event, name).map(value::to_text).unwrap_or_default()
}

fn name_of(event: &Value) -> String {
    attribute(event, "source") + " " + &attribute(event, "id")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use outlast_engine::Survival;

    use super::*;
    use crate::{Workload, WorldOptions};

    /// A world at rest in which two nodes have taken in three events.
    fn world() -> World {
        let flows = Workload::built_in();
        let news = flows.iter().find(|flow| flow.name == "news").unwrap();
        let plan = news.plan(&[Duration::ZERO], &Survival::solo());
        let mut world = World::new(WorldOptions { nodes: 2, ..WorldOptions::default() }, plan);
        world.run_to_rest(&|_| true);
        assert_eq!(world.finding(), None);
        world
    }

    #[test]
    fn only_what_no_disk_has_any_more_is_said_again() {
        let mut world = world();
        world.events_are_lost(NodeId(1));
        world.publish_again();
        assert_eq!(world.situations.count(Situation::EventLost), 0, "the other node has it");
        world.events_are_lost(NodeId(2));
        world.publish_again();
        assert_eq!(world.situations.count(Situation::EventLost), 3);
        world.run();
        world.publish_again();
        assert_eq!(world.situations.count(Situation::EventLost), 3, "it was said again");
    }
}
