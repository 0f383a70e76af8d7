//! Being primary no longer: standing down, retiring, and hearing that another one did.

use outlast_lineage::NodeId;

use super::{Message, Output, Outputs, Replica, Role, Situation};

/// How often whoever is about to stop lets others stand.
const LEFT_TO_OTHERS_MAX: u32 = 2;

impl Replica {
    /// A primary said that it is no longer one.
    pub(super) fn take_resignation(
        &mut self,
        out: &mut Outputs,
        from: NodeId,
        leader: Option<NodeId>,
    ) {
        if self.role != (Role::Backup { leader: Some(from) }) {
            return;
        }
        match leader.filter(|leader| !self.lost.contains(leader)) {
            // It was named as the one to go on.
            Some(leader) if leader == self.setup.me => self.stand(out),
            Some(leader) => {
                self.heed(out, leader);
                out.send(leader, Message::Inquire);
            }
            None => {
                self.role = Role::Backup { leader: None };
                self.wait_for_a_leader(out);
            }
        }
    }

    /// Leaves being primary to others, as long as there are any, or is ready for it again.
    pub(super) fn retire(&mut self, out: &mut Outputs, retiring: bool) {
        self.retiring = retiring;
        if let Some(successor) = self.successor().filter(|_| self.is_elected_mode()) {
            self.stand_down(out, Some(successor));
        }
    }

    /// Who is to go on instead of a replica whose node is about to stop: the highest that can be
    /// reached, as it would win anyway.
    pub(super) fn successor(&self) -> Option<NodeId> {
        let mut reachable = self.peers().rev().filter(|peer| !self.lost.contains(peer));
        reachable.next().filter(|_| self.retiring)
    }

    /// Whether others are to stand instead: not for ever, as all of them may be about to stop.
    pub(super) fn leaves_it_to_others(&self) -> bool {
        self.left_to_others < LEFT_TO_OTHERS_MAX && self.successor().is_some()
    }

    /// Stops executing.
    pub(super) fn stand_down(&mut self, out: &mut Outputs, leader: Option<NodeId>) {
        if self.leads().is_none() {
            return;
        }
        out.report(Situation::StoodDown);
        self.wanted = None;
        self.proposed = None;
        out.list.push(Output::Stop);
        self.tell_all(out, &Message::StoodDown { leader });
        if let Some(leader) = leader {
            return self.heed(out, leader);
        }
        self.role = Role::Backup { leader };
        self.wait_for_a_leader(out);
    }
}
