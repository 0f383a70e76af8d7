//! Places whose expressions are evaluated in place, and so must be bounded.
//!
//! Most expressions may run as long as a worker lets them. Conditions of handlers and listeners,
//! timeouts, delays, keys, credentials, costs and what a tolerant undo captures are needed in the middle of a step, where nothing waits
//! for a worker; the interpreter refuses unbounded ones there, and so does the check.

use outlast_expressions::Judgement;
use outlast_workflow::Program;
use outlast_workflow::program::{
    Authentication, EventFilter, EventStrategy, Expression, Kind, RetryPolicy, Secretive, Service,
    Task, Template, Until,
};

use crate::Diagnostic;

/// An error for every expression that has to be bounded and is not.
pub(super) fn check(program: &Program) -> Vec<Diagnostic> {
    let mut places = Places(Vec::new());
    places.template(program.timeout.as_ref());
    program.tasks.iter().for_each(|task| places.task(task));
    places.0.into_iter().filter_map(unbounded).collect()
}

fn unbounded(expression: &Expression) -> Option<Diagnostic> {
    let Judgement::Unbounded(reason) = expression.filter.judgement() else { return None };
    let message = format!("the expression has no bound, and is needed in place here: {reason}");
    let found = Diagnostic::error("unbounded-expression", expression.place.clone(), message);
    Some(found.help("compute it in a `set` or `export` before, and read the result here"))
}

/// Expressions that are evaluated in place.
struct Places<'p>(Vec<&'p Expression>);

impl<'p> Places<'p> {
    fn expression(&mut self, expression: Option<&'p Expression>) {
        self.0.extend(expression);
    }

    fn template(&mut self, template: Option<&'p Template>) {
        if let Some(Template::Computed(expression)) = template {
            self.0.push(expression);
        }
    }

    fn task(&mut self, task: &'p Task) {
        self.template(task.timeout.as_ref());
        match &task.kind {
            Kind::Loop { condition, concurrency, .. } if *concurrency > 1 => {
                self.expression(condition.as_ref());
            }
            Kind::Try { catch, .. } => {
                self.expression(catch.when.as_ref());
                self.expression(catch.except_when.as_ref());
                self.retry(catch.retry.as_deref());
            }
            Kind::Listen { to, .. } => self.strategy(to),
            Kind::Call { service: Service::Http { authentication, .. }, .. } => {
                self.authentication(authentication.as_ref());
            }
            _ => {}
        }
        if let Some(compensation) = &task.traits.compensation {
            if compensation.tolerant {
                self.template(compensation.capture.as_ref());
            }
            self.template(compensation.cost.as_ref());
            self.template(compensation.timeout.as_ref());
            self.retry(compensation.retry.as_deref());
        }
        self.template(task.traits.idempotency.as_ref().and_then(|it| it.key.as_ref()));
    }

    fn retry(&mut self, policy: Option<&'p RetryPolicy>) {
        let Some(policy) = policy else { return };
        self.expression(policy.when.as_ref());
        self.expression(policy.except_when.as_ref());
        self.template(policy.delay.as_ref());
        self.template(policy.attempt_duration.as_ref());
        self.template(policy.duration.as_ref());
        if let Some((from, to)) = &policy.jitter {
            self.template(Some(from));
            self.template(Some(to));
        }
    }

    fn strategy(&mut self, strategy: &'p EventStrategy) {
        match strategy {
            EventStrategy::All(filters) => filters.iter().for_each(|it| self.filter(it)),
            EventStrategy::One(filter) => self.filter(filter),
            EventStrategy::Any(filters, until) => {
                filters.iter().for_each(|it| self.filter(it));
                match until {
                    Some(Until::Condition(condition)) => self.expression(Some(condition)),
                    Some(Until::Consumed(inner)) => self.strategy(inner),
                    None => {}
                }
            }
        }
    }

    fn filter(&mut self, filter: &'p EventFilter) {
        filter.with.iter().for_each(|(_, template)| self.template(Some(template)));
        for (_, from, expect) in &filter.correlate {
            self.expression(Some(from));
            self.template(expect.as_ref());
        }
    }

    fn authentication(&mut self, authentication: Option<&'p Authentication>) {
        let fields: Vec<&'p Secretive> = match authentication {
            None => Vec::new(),
            Some(Authentication::Bearer(token)) => vec![token],
            Some(
                Authentication::Basic { username, password }
                | Authentication::Digest { username, password },
            ) => vec![username, password],
        };
        for field in fields {
            if let Secretive::Given(template) = field {
                self.template(Some(template));
            }
        }
    }
}
