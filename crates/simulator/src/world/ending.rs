//! How a world comes to rest: the faults stop, everything heals, and every node is asked.

use std::time::Duration;

use outlast_lineage::Time;

use super::World;
use super::occurrence::Occurrence;
use crate::checkers;

/// How often it is looked whether everything has settled.
const LOOK: Duration = Duration::from_millis(250);

/// How often it is looked whether gossip has settled.
const LOOK_AROUND: Duration = Duration::from_secs(2);

/// How long after the last fault, or its own start, an execution may have two primaries at most.
const ONE_PRIMARY: Duration = Duration::from_secs(60);

/// How often people look at what waits for them, once the faults are over.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// How often something may have to run from its beginning: through the faults and once they are over, until it
/// has settled, and as often as people come back to what failed.
const STAGES: u32 = 8;

/// How long replicas are watched after everything has settled, for what they might still do.
const WATCH: Duration = Duration::from_secs(10);

impl World {
    /// Runs through all faults and on until the client is content and everything has settled, then
    /// asks every node about every execution. All of that takes a bounded time, or is a finding.
    pub fn run_to_rest(&mut self, is_settled: &dyn Fn(&Self) -> bool) {
        while self.faults_open > 0 && self.goes_on() && self.step() {}
        self.run_until_content("once the faults were over");
        self.let_everything_settle(is_settled);
        let plan = self.client.plan();
        if (0..plan.starts.len()).any(|start| plan.survival(start).is_replicated()) {
            let until = self.now.after(WATCH);
            self.run_until(until);
        }
        self.let_gossip_settle();
        for wish in self.client.asks_everyone() {
            self.agenda.note(self.now, Occurrence::Wished(wish));
        }
        self.run_until_content("when every node was asked about every execution");
        // Whoever was just told something, and has not come to it yet, is not judged in between.
        self.let_everything_settle(is_settled);
    }

    /// Runs on until every node is up and done with what it has, for as long as healing may take.
    pub(super) fn let_everything_settle(&mut self, is_settled: &dyn Fn(&Self) -> bool) {
        let until = self.now.after(self.healing());
        while self.goes_on() && self.now < until {
            // Who is about to come up may have more to do than anyone can tell.
            let all_up = self.machines.iter().all(|machine| machine.node.is_up());
            if all_up && is_settled(self) && !self.waits_for_people() {
                break;
            }
            let look = self.now.after(LOOK);
            self.run_until(look);
            self.people_look();
        }
    }

    /// Looks at the cluster from every node until all see the same, for as long as healing may take.
    fn let_gossip_settle(&mut self) {
        let until = self.now.after(self.healing());
        while self.options.gossip && self.goes_on() && self.now < until {
            self.ask_for_standings();
            let look = self.now.after(LOOK_AROUND);
            self.run_until(look);
            if checkers::everyone_knows_who_is_there(self).is_ok() {
                return;
            }
        }
    }

    /// How long healing may take. A call that left while services were slow takes two hundred times as long as
    /// others, and some that are drawn take ten times as long as that. What was lost with a fault may have to run
    /// from its beginning, which takes as long as it takes when nothing fails.
    pub(crate) fn healing(&self) -> Duration {
        let slowest = Duration::from_micros(self.options.service.usual()) * 2500;
        self.options.healing.max(slowest) + self.run_lasts()
    }

    /// How long a run may take by itself, if that is known.
    fn run_lasts(&self) -> Duration {
        self.expected().map_or(Duration::ZERO, |calm| calm.lasts + calm.delays)
    }

    /// How long the world may take at most: each of its stages, and each time that people come back to what
    /// failed, may take a run's time.
    pub(super) fn patience(&self) -> Duration {
        self.options.patience + self.run_lasts() * STAGES
    }

    const fn goes_on(&self) -> bool {
        self.finding.is_none()
    }

    fn run_until_content(&mut self, when: &str) {
        let until = self.now.after(self.healing());
        let mut look = self.now.after(ONE_PRIMARY);
        let mut people_look = self.now.after(LOOK_AFTER);
        while !self.client.is_content() && self.goes_on() {
            if look <= self.now {
                look = self.now.after(LOOK);
                self.look_for_primaries(when);
            }
            let next = self.agenda.next_time().filter(|at| *at <= until);
            if people_look <= until && next.is_none_or(|at| people_look < at) {
                self.now = self.now.max(people_look);
                people_look = self.now.after(LOOK_AFTER);
                self.people_look();
            } else if next.is_none() || !self.step() {
                let waits = self.client.waits_for();
                let bound = self.healing().as_secs();
                self.found(format!("after {bound} s {when}, the client still waits for {waits}"));
            }
        }
    }

    fn look_for_primaries(&mut self, when: &str) {
        if let Err(finding) = checkers::nobody_leads_beside_another(self, ONE_PRIMARY) {
            let bound = ONE_PRIMARY.as_secs();
            self.found(format!("{bound} s and more {when}, {finding}"));
        }
    }

    /// Runs for a while, or to a finding.
    pub(crate) fn run_for(&mut self, duration: Duration) {
        self.run_until(self.now.after(duration));
    }

    fn run_until(&mut self, until: Time) {
        while self.goes_on() && self.agenda.next_time().is_some_and(|at| at <= until) {
            if !self.step() {
                return;
            }
        }
        self.now = self.now.max(until);
    }
}
