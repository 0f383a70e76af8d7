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
        // Whoever is none is not to be asked again.
        match leader.filter(|leader| *leader != from && !self.lost.contains(leader)) {
            // It was named as the one to go on.
            Some(leader) if leader == self.setup.me => self.stand(out),
            Some(leader) => {
                self.heed(out, leader);
                out.send(leader, Message::Inquire);
            }
            None => {
                self.role = Role::Backup { leader: None };
                if !self.answer_petition(out) {
                    self.wait_for_a_leader(out);
                }
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
        self.stop(out);
        self.tell_all(out, &Message::StoodDown { leader });
        if let Some(leader) = leader {
            return self.heed(out, leader);
        }
        self.role = Role::Backup { leader };
        self.wait_for_a_leader(out);
    }

    /// Where acknowledgements count: a primary hears that its term is over. If there is a newer one, it
    /// follows that, or waits for it as long as it cannot be reached: standing against it, this replica
    /// could only take over from it. Otherwise someone has promised a later term to a candidate, and
    /// acknowledges this primary again in a term that is later still.
    pub(super) fn be_outdated(&mut self, out: &mut Outputs, newer: Option<NodeId>) {
        let Some(newer) = newer.filter(|newer| self.is_heard(*newer)) else {
            return self.renew(out);
        };
        let reached = Some(newer).filter(|newer| !self.lost.contains(newer));
        self.stand_down(out, reached);
        if let Some(newer) = reached {
            out.send(newer, Message::Inquire);
        }
    }

    /// A primary asks for votes in a later term, and those who follow it are not told to look for
    /// another one: they vote for it.
    fn renew(&mut self, out: &mut Outputs) {
        if self.leaves_it_to_others() {
            self.stand_down(out, None);
            return self.stand(out);
        }
        self.stop(out);
        self.stand(out);
        if let Role::Candidate(candidacy) = &mut self.role {
            candidacy.renews = true;
        }
    }

    fn stop(&mut self, out: &mut Outputs) {
        self.wanted = None;
        self.proposed = None;
        self.challenge = None;
        out.list.push(Output::Stop);
    }
}
