//! A new life: the others are asked where the execution is, and whom to follow.

use outlast_lineage::{Epoch, Head, NodeId};

use super::{Change, Held, Message, Outputs, Replica, Role, Timer};

impl Replica {
    /// A new life: the others are asked where the execution is.
    pub(super) fn restart(&mut self, out: &mut Outputs) {
        if self.standing.final_choice().is_some() {
            return self.conclude(out);
        }
        if !self.has_followers() {
            let term = Epoch(self.standing.term.0 + 1);
            self.change(out, Change::Term(term));
            return self.lead(out, term);
        }
        self.role = Role::Backup { leader: None };
        self.tell_all(out, &Message::RecoveryRequest { head: self.standing.head.clone() });
        out.timer(Timer::RetryElection, self.setup.election_wait);
    }

    pub(super) fn help_recovery(&mut self, out: &mut Outputs, from: NodeId, head: &Head) {
        if self.role == (Role::Backup { leader: Some(from) }) {
            // Whoever restarts is no longer primary.
            self.role = Role::Backup { leader: None };
            self.stand(out);
        }
        if !self.has_followers() {
            return;
        }
        self.pass_on(out);
        let held = self.is_further_than((head, false)).then(|| self.held());
        out.send(from, Message::RecoveryReply { leader: self.leader(), held });
    }

    pub(super) fn take_help(
        &mut self,
        out: &mut Outputs,
        from: NodeId,
        leader: Option<NodeId>,
        held: Option<Held>,
    ) {
        let reachable = |leader: &NodeId| *leader != self.setup.me && !self.lost.contains(leader);
        let leader = leader.filter(reachable);
        if self.leads().is_some() {
            return self.take_reference(out, from, leader, held);
        }
        if !matches!(self.role, Role::Backup { .. }) {
            return;
        }
        // Where acknowledgements count, a state is taken over from a primary or with enough votes.
        if let Some(held) = held.filter(|_| !self.setup.acknowledge) {
            self.take_state(out, from, held, None);
        }
        if let Some(leader) = leader
            && self.role == (Role::Backup { leader: None })
        {
            self.heed(out, leader);
            out.send(leader, Message::Inquire);
        }
    }

    /// A backup of another primary holds more than this one, which follows that one too; if it cannot
    /// be reached from here, this replica goes on from what it was shown as any primary would.
    fn take_reference(
        &mut self,
        out: &mut Outputs,
        from: NodeId,
        leader: Option<NodeId>,
        held: Option<Held>,
    ) {
        let Some(held) = held.filter(|_| self.has_followers() && !self.setup.acknowledge) else {
            return;
        };
        let better = self.is_better(held.reached(), self.reached());
        let Some(leader) = leader.filter(|_| better) else {
            return self.take_state(out, from, held, None);
        };
        self.stand_down(out, Some(leader));
        if !self.keeps_line_from(&held.head) {
            self.adopt(out, held);
        }
        out.send(leader, Message::Inquire);
    }
}
