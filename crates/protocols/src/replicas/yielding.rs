//! Giving way: a primary that no majority can hear lets somebody go on whom a majority can.
//!
//! Not everybody who reaches each other reaches a third one. Whoever follows a primary objects to a candidate that
//! has lost it, and tells the primary (`Missed`). If a majority hears that one, all is well, and the candidate alone is
//! cut off. If not, and the candidate or whoever objected to it reaches a majority, the primary stands down: by
//! itself it could neither have anything decided on nor, where acknowledgements count, make a call.
//!
//! Only whoever reaches no majority gives way, and only to somebody who does: so no two give way to each other.

use std::collections::BTreeSet;

use outlast_lineage::NodeId;

use super::{Message, Outputs, Replica, Situation, Timer};

/// For how many patiences a primary asks those whom it hears whether they hear it, too.
const ROUNDS: u32 = 4;
/// For how many waiting times whoever gave way leaves it to others to stand.
const WAITS: u32 = 8;

/// A primary asks who hears it, because somebody does not.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Challenge {
    heard: BTreeSet<NodeId>,
    rounds: u32,
}

impl Replica {
    /// Tells the primary that is followed here of a candidate that has lost it, if that one, or this replica, could
    /// go on where the primary perhaps cannot.
    pub(super) fn speak_of_loss(&self, out: &mut Outputs, leader: NodeId, reaches: u32) {
        let reaches = reaches.max(self.reach());
        if self.is_quorum(reaches) {
            out.send(leader, Message::Missed { reaches });
        }
    }

    /// How many of the replicas can be reached, as it is said to others.
    pub(super) fn reach(&self) -> u32 {
        u32::try_from(self.reachable()).unwrap_or(u32::MAX)
    }

    fn is_quorum(&self, count: u32) -> bool {
        usize::try_from(count).is_ok_and(|count| self.quorum() <= count)
    }

    /// A primary hears that somebody who reaches so many has lost it.
    pub(super) fn be_missed(&mut self, out: &mut Outputs, reaches: u32) {
        if self.leads().is_none() || !self.is_elected_mode() || !self.is_quorum(reaches) {
            return;
        }
        if !self.reaches_majority() {
            return self.give_way(out);
        }
        // It may hear those who do not hear it.
        if self.challenge.is_none() {
            self.challenge = Some(Challenge { heard: BTreeSet::new(), rounds: 0 });
            self.ask_who_hears(out);
        }
    }

    /// Somebody has answered a primary, and so hears it.
    pub(super) fn is_answered(&mut self, by: NodeId) {
        if let Some(challenge) = &mut self.challenge {
            challenge.heard.insert(by);
        }
    }

    /// Those had time to answer who hear this primary.
    pub(super) fn end_challenge(&mut self, out: &mut Outputs) {
        let Some(challenge) = &mut self.challenge else { return };
        challenge.rounds += 1;
        let (heard, rounds) = (challenge.heard.len() + 1, challenge.rounds);
        if self.quorum() <= heard {
            self.challenge = None;
        } else if rounds < ROUNDS {
            self.ask_who_hears(out);
        } else {
            self.give_way(out);
        }
    }

    fn ask_who_hears(&mut self, out: &mut Outputs) {
        let heard = self.challenge.as_ref().map(|it| it.heard.clone()).unwrap_or_default();
        let silent: Vec<NodeId> = self
            .peers()
            .filter(|peer| !self.lost.contains(peer) && !heard.contains(peer))
            .collect();
        for peer in silent {
            self.tell_lead(out, peer);
        }
        out.timer(Timer::ChallengeOver, self.setup.patience);
    }

    /// Leaves being primary to somebody whom a majority hears, and does not stand against that one.
    fn give_way(&mut self, out: &mut Outputs) {
        out.report(Situation::GaveWay);
        self.stand_down(out, None);
        let pause = self.setup.election_wait * WAITS;
        self.yields_until = out.now.after(pause);
        out.timer(Timer::RetryElection, pause);
    }
}
