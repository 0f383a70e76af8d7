//! Carrying out what nodes want done, and what happens around a node that dies.

use std::collections::BTreeSet;
use std::time::Duration;

use outlast_engine::{Action, Caller, Engine, Input, Phase, Reply, Report, Situation as Between};
use outlast_expressions::{Filter, Value};
use outlast_lineage::{ExecutionId, NodeId};
use outlast_workflow::{EvaluationRequest, Request};

use super::occurrence::{Call, Evaluated, Occurrence, Parcel};
use super::{Situation, World, words};
use crate::Latency;
use crate::client::Taken;
use crate::ledger::MadeOn;
use crate::services::{name_of, operation_of};

/// How long a worker takes to evaluate something.
const EVALUATION: Latency = Latency::Uniform(100, 5_000);

/// How long the store of a node takes for anything.
const DISK: Duration = Duration::from_millis(1);

impl World {
    /// Does what may leave; says whether the node is still up.
    pub(super) fn carry_out(&mut self, place: usize) -> bool {
        if !self.machines[place].node.has_ready() {
            return true;
        }
        let mut actions = std::mem::take(&mut self.released);
        self.machines[place].node.release(&mut actions);
        for action in actions.drain(..) {
            self.act(place, action);
        }
        self.released = actions;
        if !self.machines[place].node.outlives_its_outputs() {
            return false;
        }
        let per_mille = self.options.crash_per_mille;
        if per_mille > 0 && self.random.happens(per_mille) {
            self.fall(place);
            return false;
        }
        true
    }

    fn act(&mut self, place: usize, action: Action) {
        match action {
            Action::Call { execution, of, ticket, request } => {
                self.calls += 1;
                let machine = &mut self.machines[place];
                machine.calls += 1;
                let (life, node) = (machine.node.life, machine.id());
                if self.options.trace {
                    let operation = operation_of(&request.target);
                    self.say_of(place, of, format_args!("calls {operation}"));
                }
                self.check_name(of, &request);
                self.check_need(of, &request);
                let engine = self.machines[place].node.engine();
                let made_on = engine.map_or_else(MadeOn::default, |engine| MadeOn {
                    line: engine.line_at(execution).filter(|_| request.undo).cloned(),
                    intended: engine.intent_at(execution, request.effect),
                });
                self.services.sets_out(of, request.effect);
                let call = Call { place, life, node, execution, of, ticket, request, made_on };
                let at = self.drawn(self.service).after(self.work_on(&call.request));
                self.agenda.note(at, Occurrence::Reached(Box::new(call)));
            }
            Action::Abandon { execution, ticket } => {
                for act in self.machines[place].abandon(execution, ticket) {
                    self.services.ledger.doubt(act);
                }
            }
            Action::Evaluate { execution, ticket, request } => {
                let life = self.machines[place].node.life;
                let (at, result) = (self.drawn(EVALUATION), evaluate(&request));
                let evaluated = Evaluated { place, life, execution, ticket, result };
                self.agenda.note(at, Occurrence::Evaluated(Box::new(evaluated)));
            }
            Action::Send { to, message } | Action::Mention { to, message } => {
                self.send(place, to, message);
            }
            Action::Meet { node, .. } => self.meets(place, node),
            Action::ShutOut(node) => self.shuts_out(place, node),
            Action::Compile(definition) => {
                let life = self.machines[place].node.life;
                let compiled = Occurrence::Compiled { place, life, definition };
                let at = self.drawn(EVALUATION);
                self.agenda.note(at, compiled);
            }
            Action::SetAlarm(alarm) => {
                self.machines[place].alarm = alarm;
                self.ring_later(place);
            }
            Action::Reply { caller, reply } => self.reply(place, caller, reply),
            Action::Snapshot { subject, bytes, .. } => {
                self.machines[place].node.disk.change_snapshot(subject.key(), Some(bytes));
            }
            Action::Forget(subject) => {
                self.machines[place].node.disk.change_snapshot(subject.key(), None);
            }
            Action::Compactable { replay_from } => {
                let node = &mut self.machines[place].node;
                node.disk.compact(replay_from);
                let stored = Occurrence::Stored { place, life: node.life };
                self.agenda.note(self.now.after(DISK), stored);
                self.check_disk(place);
            }
            Action::Fetch(execution) => {
                let life = self.machines[place].node.life;
                let fetched = Occurrence::Fetched { place, life, execution };
                self.agenda.note(self.now.after(DISK), fetched);
            }
            Action::Persist { .. } => unreachable!("records are written, not released"),
            Action::Report(Report::Member { node, state }) => self.believes(place, node, state),
            Action::Report(report) => self.take_report(place, &report),
        }
    }

    fn take_report(&mut self, place: usize, report: &Report) {
        if let Some(situation) = Situation::of_report(report) {
            self.saw(situation);
        }
        if let Report::Custody { execution, situation } = report
            && let Some(situation) = self.among_others(place, *execution, *situation)
        {
            self.saw(situation);
        }
        if let Report::Published { event, .. } = report {
            self.hears(self.machines[place].id(), event);
        }
        if let Report::ConditionChanged { execution, condition } = report {
            self.judge_end(place, *execution, *condition);
        }
        if let Report::Happened { execution, .. } = report {
            self.learn_start(*execution);
        }
        self.learn(report);
    }

    /// What a change at one replica is, seen beside the others.
    fn among_others(&self, place: usize, id: ExecutionId, change: Between) -> Option<Situation> {
        let others = self.machines.iter().enumerate().filter(|(other, _)| *other != place);
        let mut others = others.filter_map(|(_, machine)| machine.node.engine());
        match change {
            // Where all execute there are always several, and that proves nothing.
            Between::StoodDown if !self.client.is_active(id) => {
                let leads = |engine: &Engine| engine.phase_of(id) == Some(Phase::Leading);
                others.any(leads).then_some(Situation::TwoPrimaries)
            }
            Between::Elected => {
                let own = self.machines[place].node.engine()?.line_at(id)?.number();
                let is_beyond =
                    |engine: &Engine| engine.line_at(id).is_some_and(|line| own < line.number());
                others.any(is_beyond).then_some(Situation::OldStateTaken)
            }
            _ => None,
        }
    }

    /// How long a service works on a request before it is done.
    fn work_on(&self, request: &Request) -> Duration {
        if self.options.work.is_empty() {
            return Duration::ZERO;
        }
        self.options.work.get(&name_of(&request.target)).copied().unwrap_or_default()
    }

    /// Where a node is, if it is anywhere.
    pub(super) fn place_of(&self, node: NodeId) -> Option<usize> {
        // Most are where they began.
        let first = usize::try_from(node.0).ok().and_then(|number| number.checked_sub(1));
        let is_there =
            |place: &usize| self.machines.get(*place).is_some_and(|machine| machine.id() == node);
        let anywhere = || self.machines.iter().position(|machine| machine.id() == node);
        first.filter(is_there).or_else(anywhere)
    }

    fn send(&mut self, from: usize, to: NodeId, message: Vec<u8>) {
        let bytes = message.len();
        let there = self.place_of(to).filter(|_| self.can_address(from, to));
        let Some(there) = there else {
            return self.say(Some(from), format_args!("cannot find node {}", to.0));
        };
        let arrivals = self.network.send(&mut self.random, self.now, (from, there), bytes);
        if self.options.trace {
            let fate = if arrivals[0].is_some() { "" } else { ", lost" };
            let what = words::of_message(&message);
            self.say(Some(from), format_args!("to node {}{fate}: {what}", to.0));
        }
        let [Some(at), again] = arrivals else {
            if self.network.is_cut(from, there) {
                self.saw(Situation::MessageCut);
            }
            return;
        };
        let id = self.machines[from].id();
        let life = self.machines[there].node.life;
        let parcel = Parcel { from: (from, id), to: (there, to), life, message };
        if let Some(at) = again {
            let copy = Parcel { message: parcel.message.clone(), ..parcel };
            self.agenda.note(at, Occurrence::Arrived(copy));
        }
        self.agenda.note(at, Occurrence::Arrived(parcel));
    }

    fn reply(&mut self, place: usize, caller: Caller, reply: Reply) {
        if self.options.trace {
            self.say(Some(place), format_args!("tells the client {}", words::of_reply(&reply)));
        }
        self.hear_promise(caller, &reply);
        let reply = match reply {
            Reply::Standing(standing) => return self.takes_standing(place, standing),
            Reply::Parked(items) => return self.people_hear(place, items),
            other => other,
        };
        let told = match &reply {
            Reply::Shown(detail) if detail.outcome.is_some() => Some(detail.summary.execution),
            _ => None,
        };
        let told = told.filter(|id| !self.client.ended.contains_key(id));
        let taken = self.client.takes(caller, reply);
        told.into_iter().for_each(|id| self.judge_told(id));
        match taken {
            Taken::Nothing => {}
            Taken::Fulfilled(next) => {
                for (wish, delay) in next {
                    self.agenda.note(self.now.after(delay), Occurrence::Wished(wish));
                }
            }
            Taken::Later(wish) => {
                self.saw(Situation::RefusedForNow);
                let at = self.soon(20_000, 200_000);
                self.agenda.note(at, Occurrence::Wished(wish));
            }
            Taken::Elsewhere(wish, nodes) => {
                self.saw(Situation::SentElsewhere);
                let there = |node| self.machines.iter().position(|machine| machine.id() == node);
                let there: Vec<usize> = nodes.into_iter().filter_map(there).collect();
                let hint = there.into_iter().find(|place| self.machines[*place].node.is_up());
                self.client.goes_to(wish, hint);
                let at = self.soon(1_000, 50_000);
                self.agenda.note(at, Occurrence::Wished(wish));
            }
            Taken::Wrong(finding) => self.found(finding),
        }
    }

    /// A node dies; it comes back after a time, if one is given.
    pub(crate) fn crash(&mut self, place: usize, back: Option<Duration>) {
        if self.machines[place].node.is_up() {
            self.fall(place);
            self.went_down(place, back);
        }
    }

    /// A node stops in good order: it says so, and everything it wrote is safe.
    pub(super) fn stop(&mut self, place: usize) {
        self.tell(place, Input::Leaving);
        let node = &mut self.machines[place].node;
        if !node.is_up() {
            return;
        }
        let up_to = node.disk.unsynced();
        if up_to.is_none_or(|up_to| node.synced(up_to)) && self.carry_out(place) {
            self.machines[place].node.crash(usize::MAX, false);
        }
        self.went_down(place, None);
    }

    /// A node dies: some of what it wrote may survive, and some of that may be torn.
    pub(super) fn fall(&mut self, place: usize) {
        self.saw_phases(place);
        let node = &mut self.machines[place].node;
        let unsynced = node.disk.unsynced_count();
        let survive = usize::try_from(self.random.between(0, unsynced as u64)).unwrap_or(0);
        let torn = self.random.happens(500);
        node.crash(survive, torn);
        if unsynced > 0 {
            self.saw(Situation::CrashWithUnsynced);
        }
        if torn && unsynced > survive {
            self.saw(Situation::TornRecord);
        }
    }

    /// Counts in the midst of what a node dies.
    pub(super) fn saw_phases(&mut self, place: usize) {
        let Some(engine) = self.machines[place].node.engine() else { return };
        let phases: BTreeSet<Phase> = engine.phases().map(|(_, phase)| phase).collect();
        for phase in phases {
            match phase {
                Phase::Agreeing => self.saw(Situation::CrashInAgreement),
                Phase::Compensating => self.saw(Situation::CrashInCompensation),
                Phase::Forgetting => self.saw(Situation::CrashInForgetting),
                Phase::Leading
                | Phase::Following
                | Phase::Paused
                | Phase::Electing
                | Phase::WithoutVotes
                | Phase::WithoutMajority => {}
            }
        }
    }

    /// What follows when a node has died.
    pub(super) fn went_down(&mut self, place: usize, back: Option<Duration>) {
        self.say(Some(place), format_args!("dies"));
        if self.machines[place].calls > 0 {
            self.calls -= self.machines[place].calls;
            self.saw(Situation::CrashWithCall);
        }
        for act in self.machines[place].went_down() {
            self.services.ledger.doubt(act);
        }
        if self.machines.len() > 1 && self.machines.iter().all(|other| !other.node.is_up()) {
            self.saw(Situation::AllDown);
        }
        for wish in self.client.hangs_up(place) {
            let at = self.soon(1_000, 100_000);
            self.agenda.note(at, Occurrence::Wished(wish));
        }
        if let Some(back) = back {
            self.agenda.note(self.now.after(back), Occurrence::Start(place));
        }
    }
}

fn evaluate(request: &EvaluationRequest) -> Result<Value, String> {
    let names: Vec<_> = request.bindings.iter().map(|(name, _)| name.as_str()).collect();
    let filter = Filter::compile(&request.source, &names).map_err(|error| error.to_string())?;
    let binding = |name: &str| {
        let bound = request.bindings.iter().find(|(of, _)| of == name);
        bound.map_or(Value::Null, |(_, value)| value.clone())
    };
    filter.evaluate(&request.input, &binding).map_err(|error| error.to_string())
}
