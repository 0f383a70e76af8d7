//! The interpreter: one event in, what changed and what is to be done out.
//!
//! A step takes the branch an event is for, moves it on until it waits (or the fuel is spent), then
//! the branches that became ready by it. Every expression in a task is evaluated at a place where
//! the branch can be left and taken up again, because it may have to be evaluated elsewhere.

mod authorizing;
mod bounding;
mod calling;
mod children;
mod compensation;
mod composite;
mod conduct;
mod emitting;
mod ending;
mod evaluation;
mod events;
mod excess;
mod gathering;
mod graphs;
mod noting;
mod open;
mod parking;
mod parts;
mod placing;
mod portions;
mod raising;
mod requests;
mod taking_over;
mod task;
mod timers;
mod trying;
mod unwinding;
mod withdrawing;

pub(crate) use portions::{effect_of, effect_under_way};

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use outlast_expressions::Value;
use outlast_lineage::{BranchId, Time};

use crate::execution::{
    Activity, Advance, Birth, Branch, BranchState, Datum, Exchange, Execution, Join, JoinId, Path,
    Plan, PlanId, Stage, Touched,
};
use crate::{Author, Command, EffectNote, Event, Fault, Happening, Program, Start, Ticket};

/// How many turns a step may take before others get theirs.
const FUEL: u32 = 1000;

/// One step under way.
pub(crate) struct Machine<'a> {
    program: &'a Program,
    execution: &'a mut Execution,
    author: Author,
    now: Time,
    commands: Vec<Command>,
    happenings: Vec<Happening>,
    effects: Vec<EffectNote>,
    touched: Touched,
    ready: VecDeque<BranchId>,
    /// The result of a worker's evaluation, for the branch that takes the next turn.
    given: Option<Result<Value, String>>,
    /// Calls that are held back and never left.
    unsent: BTreeSet<Ticket>,
}

/// What a turn left behind.
pub(crate) enum Turn {
    /// The branch can take another.
    Again,
    /// It waits.
    Wait,
    /// It has ended.
    Gone,
    /// It raised an error that nothing in it catches.
    Raised(Fault),
}

impl Execution {
    /// Begins a run.
    pub fn start(
        program: &Arc<Program>,
        start: Start,
        author: Author,
        now: Time,
    ) -> (Self, Advance) {
        let mut execution = Self::unstarted(program, start, now);
        let advance = execution.begin(program, author, now);
        (execution, advance)
    }

    /// Begins a run that is before its beginning.
    pub fn begin(&mut self, program: &Program, author: Author, now: Time) -> Advance {
        assert_eq!(self.definition, program.digest, "an execution is pinned to its definition");
        let mut machine = Machine::new(self, program, author, now);
        machine.begin();
        machine.finish()
    }

    /// Takes one event.
    pub fn advance(
        &mut self,
        program: &Program,
        event: Event,
        author: Author,
        now: Time,
    ) -> Advance {
        assert_eq!(self.definition, program.digest, "an execution is pinned to its definition");
        let mut machine = Machine::new(self, program, author, now);
        machine.take_event(event);
        machine.finish()
    }

    /// A run before its beginning: whoever only keeps it holds it like this, until it is told what
    /// became of it.
    pub fn unstarted(program: &Program, start: Start, now: Time) -> Self {
        let mut large = crate::execution::LargeValues::default();
        let input = large.intern(start.input);
        let plan = PlanId(Ticket { branch: BranchId::TRUNK, number: 0 });
        let birth = Birth {
            id: BranchId::TRUNK,
            parent: None,
            slot: 0,
            path: Path::START,
            variables: Vec::new(),
            plan,
            incarnation: 0,
            workflow: None,
            undo: None,
            policy: false,
        };
        let trunk = Branch::new(birth, input.clone(), Datum::null());
        let mut unstarted = Self {
            id: start.id,
            definition: program.digest,
            salt: start.salt,
            started_at: now,
            input,
            keep_plan: start.keep_plan,
            head: Default::default(),
            branches: [(BranchId::TRUNK, trunk)].into(),
            plans: [(plan, Plan::new())].into(),
            joins: Default::default(),
            ledger: Default::default(),
            large,
            consumed: Default::default(),
            passed: 0,
            exchange: start.shared.then(|| Box::new(Exchange::new(start.depth))),
        };
        // Whoever is told how it begins has this already.
        unstarted.forget_changes();
        unstarted
    }
}

impl<'a> Machine<'a> {
    fn new(execution: &'a mut Execution, program: &'a Program, author: Author, now: Time) -> Self {
        let ready = std::mem::take(&mut execution.head.ready).into();
        Self {
            program,
            execution,
            author,
            now,
            commands: Vec::new(),
            happenings: Vec::new(),
            effects: Vec::new(),
            touched: Touched::default(),
            ready,
            given: None,
            unsent: BTreeSet::new(),
        }
    }

    fn begin(&mut self) {
        self.happenings.push(Happening::Started);
        self.touched.plans.insert(PlanId(Ticket { branch: BranchId::TRUNK, number: 0 }));
        let mut trunk = self.take(BranchId::TRUNK).expect("a new execution has a trunk");
        self.enter(&mut trunk, Program::ROOT, 0);
        self.put(trunk);
        self.set_run_deadline();
        self.ready.push_back(BranchId::TRUNK);
    }

    fn take_event(&mut self, event: Event) {
        let event = match event {
            Event::WhileHeldBack { unsent, event } => {
                self.unsent = unsent;
                *event
            }
            event => event,
        };
        if self.is_withdrawal(&event) {
            return self.take_event_of_loser(event);
        }
        let ended = self.execution.head.stage == Stage::Ended;
        match event {
            Event::TimerFired(_) | Event::Arrived { .. } if ended => {}
            Event::Answered { ticket, answer } => self.take_answer(ticket, answer),
            Event::AnsweredElsewhere { ticket, effect, first, answer } => {
                self.take_answer_from_elsewhere((ticket, effect), first, answer);
            }
            Event::Evaluated { ticket, result } => self.take_evaluation(ticket, result),
            Event::TimerFired(ticket) => self.take_timer(ticket),
            Event::Arrived { number, event } => self.take_arrival(number, event),
            Event::ChildEnded { ticket, outcome } => self.take_child_end(ticket, outcome),
            Event::Continue => {}
            Event::Released(number) => self.released(number),
            Event::CancelRequested => self.cancel(),
            Event::CompensateRequested(reason) => self.roll_back_on_request(&reason),
            Event::SuspendRequested => self.suspend(true),
            Event::ResumeRequested => self.suspend(false),
            Event::RetryRequested => self.retry_failed(),
            Event::Resolved { effect, resolution } => self.take_resolution(effect, resolution),
            Event::Returned { branch, epoch, remote } => self.take_back(branch, epoch, *remote),
            Event::TakenOver { never_left } => self.take_over(&never_left),
            Event::ClockDiffers { ahead } => self.shift_alarms(ahead),
            Event::LineLost | Event::Withdrawn { .. } | Event::WithdrawalClosed => {
                unreachable!("they end a line")
            }
            Event::WhileHeldBack { .. } => unreachable!("what happened is taken out of it, once"),
        }
    }

    /// Whether this line has lost against another, or does so now.
    const fn is_withdrawal(&self, event: &Event) -> bool {
        matches!(self.execution.head.stage, Stage::Lost(_) | Stage::Withdrawing | Stage::Withdrawn)
            || matches!(event, Event::LineLost | Event::Withdrawn { .. } | Event::WithdrawalClosed)
    }

    /// Moves on every branch that can, and reads off what changed.
    fn finish(mut self) -> Advance {
        let ready_before = !self.ready.is_empty();
        self.hush();
        // What an answer that comes late makes ready goes on when a faulted run is tried again.
        if !self.execution.head.suspended && self.execution.head.stage != Stage::Ended {
            self.run();
        }
        if self.execution.head.stage == Stage::Ended {
            // Then the timers of what waits are set, too.
            self.commands.retain(|command| !matches!(command, Command::SetTimer { .. }));
        }
        if self.execution.large.wants_sweep() {
            let named = self.execution.named_large_values();
            self.execution.large.sweep(&named);
        }
        self.execution.head.ready = self.ready.into();
        self.touched.head |= ready_before || !self.execution.head.ready.is_empty();
        let delta = self.execution.collect(self.touched);
        Advance {
            delta,
            commands: self.commands,
            happenings: self.happenings,
            effects: self.effects,
        }
    }

    fn run(&mut self) {
        let mut fuel = FUEL;
        // What the event itself has added was not looked at yet.
        let mut held =
            if self.execution.large.has_grown() { 0 } else { self.execution.large.len() };
        while let Some(id) = self.ready.pop_front() {
            let Some(mut branch) = self.take(id) else { continue };
            let turn = loop {
                let bounded = match held < self.execution.large.len() {
                    true => self.bound_data(&mut branch),
                    false => Turn::Again,
                };
                held = self.execution.large.len();
                match bounded {
                    Turn::Again if fuel == 0 => break Turn::Again,
                    Turn::Again => {}
                    turn => break turn,
                }
                fuel -= 1;
                match self.turn(&mut branch) {
                    Turn::Again => {}
                    turn => break turn,
                }
            };
            self.given = None;
            match turn {
                Turn::Again => {
                    self.put(branch);
                    // The branches beside it have their turn first.
                    self.ready.push_back(id);
                    self.commands.push(Command::Yield);
                    return;
                }
                turn => self.settle(branch, turn),
            }
        }
    }

    /// Takes a branch out to work on it; adds a state to its line the first time in a step.
    fn take(&mut self, id: BranchId) -> Option<Branch> {
        let mut branch = self.execution.branches.remove(&id)?;
        if matches!(branch.small.state, BranchState::Away { .. }) {
            self.execution.branches.insert(id, branch);
            return None;
        }
        if self.touched.branches.insert(id) {
            branch.extend(self.author.node, self.author.epoch);
        }
        Some(branch)
    }

    /// Takes the branch that waits for a ticket. What nobody waits for any more must not even add a
    /// state: it would be written down for nothing.
    fn take_waiting(&mut self, ticket: Ticket) -> Option<Branch> {
        let branch = self.execution.branches.get(&ticket.branch)?;
        let waits = branch.frames().iter().any(|frame| frame.waits_for(ticket));
        if waits { self.take(ticket.branch) } else { None }
    }

    fn put(&mut self, branch: Branch) {
        self.execution.branches.insert(branch.id(), branch);
    }

    fn put_waiting(&mut self, mut branch: Branch) {
        if branch.small.state != BranchState::Waiting {
            branch.set_state(BranchState::Waiting);
        }
        self.put(branch);
    }

    /// Lets a branch move on.
    fn wake(&mut self, mut branch: Branch) {
        if branch.small.state != BranchState::Ready {
            branch.set_state(BranchState::Ready);
        }
        let id = branch.id();
        self.put(branch);
        if !self.ready.contains(&id) {
            self.ready.push_back(id);
        }
    }

    /// A branch that is no more; its plan must have been taken over.
    fn drop_branch(&mut self, branch: Branch) {
        self.execution.plans.remove(&branch.birth.plan);
        self.touched.plans.insert(branch.birth.plan);
        self.ready.retain(|id| *id != branch.id());
        self.close_if_done();
    }

    fn plan_mut(&mut self, id: PlanId) -> &mut Plan {
        self.touched.plans.insert(id);
        self.execution.plans.entry(id).or_insert_with(Plan::new)
    }

    fn join_mut(&mut self, id: JoinId) -> &mut Join {
        self.touched.joins.insert(id);
        self.execution.joins.entry(id).or_default()
    }

    fn drop_join(&mut self, id: JoinId) -> Join {
        self.touched.joins.insert(id);
        self.execution.joins.remove(&id).unwrap_or_default()
    }

    fn intern(&mut self, value: Value) -> Datum {
        self.execution.large.intern(value)
    }

    /// Takes in a value that is copied or rewritten again and again.
    fn share(&mut self, value: Value) -> Datum {
        self.execution.large.share(value)
    }

    fn value(&self, datum: &Datum) -> Value {
        self.execution.large.value(datum)
    }

    fn is_forward(&self) -> bool {
        self.execution.head.stage == Stage::Forward
    }

    /// Takes one turn: moves the innermost frame of a branch on by one thing.
    fn turn(&mut self, branch: &mut Branch) -> Turn {
        let Some(frame) = branch.top() else { return self.branch_done(branch) };
        if frame.evaluating.is_some() && self.given.is_none() {
            return Turn::Wait;
        }
        match &frame.activity {
            Activity::Condition => self.decide_condition(branch),
            Activity::Input => self.transform_input(branch),
            Activity::Begin => self.begin_kind(branch),
            Activity::Sequence { .. } => self.next_of_sequence(branch),
            Activity::Switch(_) => self.next_case(branch),
            Activity::Loop { .. } => self.next_iteration(branch),
            Activity::Compensating(_) => self.next_undo(branch),
            Activity::Item(..) => self.next_item_phase(branch),
            Activity::Scatter { join, step } => self.begin_scatter(branch, *join, *step),
            Activity::Output => self.transform_output(branch),
            Activity::Capture => self.capture(branch),
            Activity::Export => self.export(branch),
            Activity::Function { .. }
            | Activity::Try(_)
            | Activity::Gather(_)
            | Activity::Waiting(_)
            | Activity::Calling(_)
            | Activity::Publishing { .. }
            | Activity::Listening(_)
            | Activity::Child { .. }
            | Activity::Undoing(_)
            | Activity::Parked { .. }
            | Activity::Again(..)
            | Activity::Asking(..)
            | Activity::Raising(_)
            | Activity::Failed(..) => Turn::Wait,
        }
    }
}
