//! Events that are waited for: `listen`.

use outlast_expressions::{Value, value};

use super::evaluation::{Sight, evaluated};
use super::{Machine, Turn};
use crate::execution::{
    Activity, Branch, Datum, ExchangePatch, ItemPhase, JoinId, Listening, Slot,
};
use crate::program::{
    EventFilter, EventStrategy, Kind, ListenEach, ReadMode, Template, Transform, Until,
};
use crate::{Command, Fault, FaultKind, Happening};

/// How many events wait while an item is worked on; more is an error rather than memory without end.
const QUEUE_MAX: usize = 4096;

impl Machine<'_> {
    pub(super) fn begin_listen(&mut self, branch: &mut Branch) -> Turn {
        let ticket = branch.ticket();
        let collected = JoinId(branch.ticket());
        self.join_mut(collected);
        let listening = Listening {
            ticket,
            collected,
            count: 0,
            met: Default::default(),
            until_met: Default::default(),
            correlations: Vec::new(),
            queue: Vec::new(),
            item: None,
            closed: false,
        };
        let types = wanted_types(&self.definition(branch).kind);
        self.set_activity(branch, Activity::Listening(Box::new(listening)));
        self.commands.push(Command::Subscribe { ticket, types });
        Turn::Wait
    }

    pub(super) fn take_arrival(&mut self, number: u64, event: Value) {
        if self.has_consumed(number) {
            return;
        }
        let listeners: Vec<_> = self
            .execution
            .branches
            .values()
            .filter(|branch| self.is_for(branch, &event))
            .map(Branch::id)
            .collect();
        let mut consumed = false;
        for id in listeners {
            let Some(mut branch) = self.take(id) else { continue };
            match self.offer(&mut branch, &event) {
                Some(turn) => {
                    consumed = true;
                    self.settle(branch, turn);
                }
                None => self.put(branch),
            }
        }
        if !consumed {
            return;
        }
        if self.execution.exchange.is_some() {
            return self
                .exchange(ExchangePatch { heard: vec![number], ..ExchangePatch::default() });
        }
        self.execution.consumed.insert(number);
        self.execution.trim_consumed();
        self.touched.consumed.push(number);
    }

    fn has_consumed(&self, number: u64) -> bool {
        match &self.execution.exchange {
            Some(exchange) => exchange.has_heard(number),
            None => number < self.execution.passed || self.execution.consumed.contains(&number),
        }
    }

    /// Whether the listening task of a branch wants an event, or fails to say. Looks only: an event
    /// that nobody wants must change nothing.
    fn is_for(&self, branch: &Branch, event: &Value) -> bool {
        let mut frames = branch.frames().iter().rev();
        let Some(frame) = frames.find(|frame| listening(&frame.activity)) else { return false };
        let (Activity::Listening(state) | Activity::Item(state, _)) = &frame.activity else {
            return false;
        };
        let Kind::Listen { to, .. } = &self.program.task(frame.task).kind else { return false };
        let mut state = state.as_ref().clone();
        !state.closed && !matches!(self.wants(branch, to, &mut state, event), Ok(Wanted::No))
    }

    /// Offers an event to the listening task of a branch; nothing if it does not want it.
    fn offer(&mut self, branch: &mut Branch, event: &Value) -> Option<Turn> {
        let depth = branch.frames().iter().rposition(|frame| listening(&frame.activity))?;
        let frame = &branch.frames()[depth];
        let task = frame.task;
        let (state, idle) = match &frame.activity {
            Activity::Listening(state) => (state.as_ref().clone(), true),
            Activity::Item(state, _) => (state.as_ref().clone(), false),
            _ => return None,
        };
        if state.closed {
            return None;
        }
        let Kind::Listen { to, read, each } = &self.program.task(task).kind else { return None };
        let mut state = state;
        let wanted = match self.wants(branch, to, &mut state, event) {
            Ok(wanted) => wanted,
            Err(fault) => return Some(self.raise(branch, fault)),
        };
        if wanted == Wanted::No {
            return None;
        }
        let kind = value::get(event, "type").and_then(value::as_str).unwrap_or("");
        self.happenings.push(Happening::Consumed(task, kind.to_owned()));
        if wanted == Wanted::Item {
            let item = self.intern(read_event(event, *read));
            if QUEUE_MAX <= state.queue.len() {
                let detail = format!("more than {QUEUE_MAX} events wait while one is worked on");
                let title = "events come faster than they are worked on";
                return Some(self.raise(branch, Fault::new(FaultKind::Runtime, title, detail)));
            }
            state.queue.push(item);
        }
        if !idle {
            let Activity::Item(known, _) = &mut branch.frame_mut(depth).activity else {
                unreachable!("it was just seen")
            };
            **known = state;
            return Some(Turn::Wait);
        }
        Some(self.next_queued(branch, state, each.as_ref()))
    }

    /// Works on the next event in line, or waits, or ends.
    fn next_queued(
        &mut self,
        branch: &mut Branch,
        mut state: Listening,
        each: Option<&ListenEach>,
    ) -> Turn {
        while !state.queue.is_empty() {
            let item = state.queue.remove(0);
            if let Some(each) = each {
                state.item = Some(item.clone());
                branch.set_data(item);
                let activity = Activity::Item(Box::new(state), ItemPhase::Body);
                self.set_activity(branch, activity);
                if let Some(body) = each.body {
                    let Some(Activity::Item(state, _)) = branch.top().map(|f| &f.activity) else {
                        unreachable!("it was just set")
                    };
                    let turn = u64::from(state.count);
                    self.enter(branch, body, turn);
                    return Turn::Again;
                }
                return self.item_body_done(branch);
            }
            self.collect_item(&mut state, item);
            match self.until_holds(branch, &state) {
                Ok(true) => state.closed = true,
                Ok(false) => {}
                Err(fault) => return self.raise(branch, fault),
            }
        }
        if state.closed {
            return self.heard_all(branch, state);
        }
        self.set_activity(branch, Activity::Listening(Box::new(state)));
        Turn::Wait
    }

    fn collect_item(&mut self, state: &mut Listening, item: Datum) {
        let slot = Slot { data: item, context: None, plan: Vec::new(), ran: true };
        self.join_mut(state.collected).fill(state.count, slot);
        state.count += 1;
    }

    fn heard_all(&mut self, branch: &mut Branch, state: Listening) -> Turn {
        self.commands.push(Command::Unsubscribe(state.ticket));
        let join = self.drop_join(state.collected);
        let list: Vec<Value> = join.slots().values().map(|s| self.value(&s.data)).collect();
        let output = self.intern(value::array(list));
        branch.set_data(output);
        self.complete(branch)
    }

    pub(super) fn item_body_done(&mut self, branch: &mut Branch) -> Turn {
        self.set_item_phase(branch, ItemPhase::Output);
        self.next_item_phase(branch)
    }

    fn set_item_phase(&self, branch: &mut Branch, next: ItemPhase) {
        if let Activity::Item(_, phase) =
            &mut branch.top_mut().expect("a task is being run").activity
        {
            *phase = next;
        }
    }

    pub(super) fn next_item_phase(&mut self, branch: &mut Branch) -> Turn {
        let Kind::Listen { each: Some(each), .. } = &self.definition(branch).kind else {
            unreachable!("only listeners with foreach work on items")
        };
        let Some(Activity::Item(_, phase)) = branch.top().map(|frame| &frame.activity) else {
            unreachable!("the turn was given for an item")
        };
        match phase {
            // Events that arrive meanwhile wait in line; the body takes the turns.
            ItemPhase::Body => Turn::Wait,
            ItemPhase::Output => {
                if let Some(output) = self.item_transform(branch, &each.output) {
                    let output = evaluated!(self, branch, output);
                    let output = self.intern(output);
                    branch.set_data(output);
                }
                self.set_item_phase(branch, ItemPhase::Export);
                Turn::Again
            }
            ItemPhase::Export => {
                if let Some(context) = self.item_transform(branch, &each.export) {
                    let context = evaluated!(self, branch, context);
                    let context = self.share(context);
                    branch.set_context(context);
                }
                self.set_item_phase(branch, ItemPhase::Until);
                Turn::Again
            }
            ItemPhase::Until => self.item_done(branch, each),
        }
    }

    fn item_transform(
        &mut self,
        branch: &mut Branch,
        transform: &Transform,
    ) -> Option<super::evaluation::Evaluated> {
        let template = transform.template.as_ref()?;
        let output = self.value(branch.data());
        let mut sight = Sight::from_top(branch, output.clone());
        sight.output = Some(output);
        Some(self.evaluate(branch, template, &sight))
    }

    fn item_done(&mut self, branch: &mut Branch, each: &ListenEach) -> Turn {
        let Some(Activity::Item(state, _)) = branch.top().map(|frame| frame.activity.clone())
        else {
            unreachable!("the caller has seen it")
        };
        let mut state = *state;
        let item = branch.data().clone();
        self.collect_item(&mut state, item);
        state.item = None;
        if branch.small.ending {
            return self.heard_all(branch, state);
        }
        match self.until_holds(branch, &state) {
            Ok(holds) => state.closed |= holds,
            Err(fault) => return self.raise(branch, fault),
        }
        self.next_queued(branch, state, Some(each))
    }

    /// Whether an `until` condition holds on the list of what was consumed.
    fn until_holds(&mut self, branch: &Branch, state: &Listening) -> Result<bool, Fault> {
        let Kind::Listen { to: EventStrategy::Any(_, Some(Until::Condition(condition))), .. } =
            &self.definition(branch).kind
        else {
            return Ok(false);
        };
        let join = self.execution.joins.get(&state.collected);
        let slots = join.into_iter().flat_map(|join| join.slots().values());
        let list = value::array(slots.map(|slot| self.value(&slot.data)).collect::<Vec<_>>());
        let sight = Sight::from_top(branch, list);
        Ok(value::truthy(&self.evaluate_here(branch, condition, &sight)?))
    }

    /// Whether a strategy wants an event; notes in the state what was met and whether it is all.
    fn wants(
        &self,
        branch: &Branch,
        to: &EventStrategy,
        state: &mut Listening,
        event: &Value,
    ) -> Result<Wanted, Fault> {
        match to {
            EventStrategy::One(filter) => {
                let fits = self.fits(branch, filter, state, event)?;
                state.closed |= fits;
                Ok(if fits { Wanted::Item } else { Wanted::No })
            }
            EventStrategy::All(filters) => {
                let met = self.meet(branch, filters, state, event, |state| &mut state.met)?;
                state.closed |= state.met.len() == filters.len();
                Ok(if met { Wanted::Item } else { Wanted::No })
            }
            EventStrategy::Any(filters, until) => {
                if let Some(Until::Consumed(strategy)) = until
                    && self.ends(branch, strategy, state, event)?
                {
                    return Ok(Wanted::End);
                }
                let fits = self.fits_any(branch, filters, state, event)?;
                state.closed |= fits && until.is_none();
                Ok(if fits { Wanted::Item } else { Wanted::No })
            }
        }
    }

    /// Whether an event counts for `until`, and notes if that is all that was waited for.
    fn ends(
        &self,
        branch: &Branch,
        strategy: &EventStrategy,
        state: &mut Listening,
        event: &Value,
    ) -> Result<bool, Fault> {
        match strategy {
            EventStrategy::One(filter) => {
                let fits = self.fits(branch, filter, state, event)?;
                state.closed |= fits;
                Ok(fits)
            }
            EventStrategy::Any(filters, _) => {
                let fits = self.fits_any(branch, filters, state, event)?;
                state.closed |= fits;
                Ok(fits)
            }
            EventStrategy::All(filters) => {
                let met = self.meet(branch, filters, state, event, |s| &mut s.until_met)?;
                state.closed |= state.until_met.len() == filters.len();
                Ok(met)
            }
        }
    }

    fn fits_any(
        &self,
        branch: &Branch,
        filters: &[EventFilter],
        state: &mut Listening,
        event: &Value,
    ) -> Result<bool, Fault> {
        if filters.is_empty() {
            return Ok(true);
        }
        for filter in filters {
            if self.fits(branch, filter, state, event)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Meets the first filter that fits and has not been met.
    fn meet(
        &self,
        branch: &Branch,
        filters: &[EventFilter],
        state: &mut Listening,
        event: &Value,
        met: impl Fn(&mut Listening) -> &mut std::collections::BTreeSet<u32>,
    ) -> Result<bool, Fault> {
        for (index, filter) in filters.iter().enumerate() {
            let index = index as u32;
            if !met(state).contains(&index) && self.fits(branch, filter, state, event)? {
                met(state).insert(index);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn fits(
        &self,
        branch: &Branch,
        filter: &EventFilter,
        state: &mut Listening,
        event: &Value,
    ) -> Result<bool, Fault> {
        for (attribute, wanted) in &filter.with {
            let found = value::get(event, attribute).cloned().unwrap_or_default();
            let fits = match wanted {
                Template::Literal(wanted) => literal_fits(wanted, &found),
                Template::Computed(expression) => {
                    let sight = Sight::from_top(branch, found.clone());
                    match self.evaluate_here(branch, expression, &sight)? {
                        Value::Bool(holds) => holds,
                        wanted => value::equal(&wanted, &found),
                    }
                }
            };
            if !fits {
                return Ok(false);
            }
        }
        self.correlates(branch, filter, state, event)
    }

    /// The first event fixes what a correlation expects, unless the document says.
    fn correlates(
        &self,
        branch: &Branch,
        filter: &EventFilter,
        state: &mut Listening,
        event: &Value,
    ) -> Result<bool, Fault> {
        let mut fixed = Vec::new();
        for (name, from, expect) in &filter.correlate {
            let sight = Sight::from_top(branch, event.clone());
            let found = self.evaluate_here(branch, from, &sight)?;
            let known = state.correlations.iter().find(|(known, _)| known == name);
            let expected = match (expect, known) {
                (Some(template), _) => {
                    let sight = Sight::from_top(branch, self.value(branch.data()));
                    Some(self.evaluate_template_here(branch, template, &sight)?)
                }
                (None, Some((_, datum))) => Some(self.value(datum)),
                (None, None) => None,
            };
            match expected {
                Some(expected) if !value::equal(&expected, &found) => return Ok(false),
                Some(_) => {}
                None => fixed.push((name.clone(), Datum::small(found))),
            }
        }
        state.correlations.extend(fixed);
        Ok(true)
    }
}

/// Whether an event is for a listener.
#[derive(PartialEq)]
enum Wanted {
    No,
    /// It is part of the output.
    Item,
    /// It only counts for the end.
    End,
}

fn listening(activity: &Activity) -> bool {
    matches!(activity, Activity::Listening(_) | Activity::Item(..))
}

fn read_event(event: &Value, read: ReadMode) -> Value {
    match read {
        ReadMode::Envelope => event.clone(),
        ReadMode::Data | ReadMode::Raw => value::get(event, "data").cloned().unwrap_or_default(),
    }
}

/// Equal, or, where both are texts and the wanted one is a regular expression, matched as a whole.
fn literal_fits(wanted: &Value, found: &Value) -> bool {
    if value::equal(wanted, found) {
        return true;
    }
    let (Some(pattern), Some(text)) = (value::as_str(wanted), value::as_str(found)) else {
        return false;
    };
    regex_lite::Regex::new(&format!("^(?:{pattern})$")).is_ok_and(|regex| regex.is_match(text))
}

/// The event types a listener may want; nothing if it may want any.
pub(crate) fn wanted_types(kind: &Kind) -> Option<Vec<String>> {
    let Kind::Listen { to, .. } = kind else { return None };
    let mut types = Vec::new();
    collect_types(to, &mut types).then_some(types)
}

fn collect_types(strategy: &EventStrategy, types: &mut Vec<String>) -> bool {
    let (filters, until) = match strategy {
        EventStrategy::One(filter) => (std::slice::from_ref(filter), None),
        EventStrategy::All(filters) => (filters.as_slice(), None),
        EventStrategy::Any(filters, until) => (filters.as_slice(), until.as_ref()),
    };
    if filters.is_empty() {
        return false;
    }
    let named = filters.iter().all(|filter| {
        let wanted = filter.with.iter().find(|(attribute, _)| attribute == "type");
        match wanted {
            Some((_, Template::Literal(wanted))) => match value::as_str(wanted) {
                // A text that may be a pattern could want other types than itself.
                Some(text) if text.chars().all(|c| c.is_alphanumeric() || "._-/".contains(c)) => {
                    types.push(text.to_owned());
                    true
                }
                _ => false,
            },
            _ => false,
        }
    });
    named
        && match until {
            Some(Until::Consumed(strategy)) => collect_types(strategy, types),
            _ => true,
        }
}
