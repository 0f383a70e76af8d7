//! Calls and evaluations under way: each a task that answers into the inbox.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outlast_expressions::Value;
use outlast_lineage::ExecutionId;
use outlast_workflow::{Answer, EvaluationRequest, Request, Ticket};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::inbox::{Inbox, Message};
use crate::services::{Caller, SecretSource};
use crate::workers::{EvaluationFailure, Pool};

/// How often an evaluation is tried that failed through no fault of its own, and how long it waits
/// before each time but the first.
const EVALUATION_ATTEMPTS: u32 = 5;
const EVALUATION_PAUSE: Duration = Duration::from_millis(200);

/// Makes calls and evaluations, and breaks them off.
pub(super) struct Calls {
    runtime: Handle,
    caller: Arc<Caller>,
    secrets: Arc<dyn SecretSource>,
    pool: Pool,
    inbox: Arc<Inbox>,
    /// One permit for each call that may be under way.
    turns: Arc<Semaphore>,
    open: BTreeMap<(ExecutionId, Ticket), AbortHandle>,
}

impl Calls {
    pub(super) fn new(
        runtime: Handle,
        caller: Caller,
        secrets: Arc<dyn SecretSource>,
        pool: Pool,
        inbox: Arc<Inbox>,
        calls_max: usize,
    ) -> Self {
        Self {
            runtime,
            caller: Arc::new(caller),
            secrets,
            pool,
            inbox,
            turns: Arc::new(Semaphore::new(calls_max)),
            open: BTreeMap::new(),
        }
    }

    /// Makes a call. What needs neither time nor IO is answered at once, without a task.
    pub(super) fn call(
        &mut self,
        execution: ExecutionId,
        ticket: Ticket,
        request: Box<Request>,
    ) -> Option<Answer> {
        if let Some(answer) = self.caller.call_inline(&request) {
            return Some(answer);
        }
        let (caller, secrets) = (Arc::clone(&self.caller), Arc::clone(&self.secrets));
        let (turns, inbox) = (Arc::clone(&self.turns), Arc::clone(&self.inbox));
        let task = self.runtime.spawn(async move {
            let _turn = turns.acquire().await.expect("turns are never closed");
            let answer = caller.call(*request, &*secrets).await;
            inbox.give(Message::Answered { execution, ticket, answer });
        });
        self.open.insert((execution, ticket), task.abort_handle());
        None
    }

    /// Has a worker evaluate an expression.
    pub(super) fn evaluate(
        &mut self,
        execution: ExecutionId,
        ticket: Ticket,
        request: EvaluationRequest,
    ) {
        let (pool, inbox) = (self.pool.clone(), Arc::clone(&self.inbox));
        let task = self.runtime.spawn(async move {
            let result = evaluate(&pool, request).await;
            inbox.give(Message::Evaluated { execution, ticket, result });
        });
        self.open.insert((execution, ticket), task.abort_handle());
    }

    /// The call or evaluation has come to its end by itself.
    pub(super) fn ended(&mut self, execution: ExecutionId, ticket: Ticket) {
        self.open.remove(&(execution, ticket));
    }

    /// Nobody wants the answer any more.
    pub(super) fn abandon(&mut self, execution: ExecutionId, ticket: Ticket) {
        if let Some(task) = self.open.remove(&(execution, ticket)) {
            task.abort();
        }
    }

    /// How many are under way.
    pub(super) fn under_way(&self) -> usize {
        self.open.len()
    }

    /// Breaks everything off.
    pub(super) fn end(&mut self) {
        for task in std::mem::take(&mut self.open).into_values() {
            task.abort();
        }
    }
}

/// A worker's result. A fault of the node is tried again; only when that does not help does the
/// execution learn of it.
async fn evaluate(pool: &Pool, request: EvaluationRequest) -> Result<Value, String> {
    let mut pause = EVALUATION_PAUSE;
    for _ in 1..EVALUATION_ATTEMPTS {
        match pool.evaluate(request.clone()).await {
            Ok(value) => return Ok(value),
            Err(EvaluationFailure::Expression(reason)) => return Err(reason),
            Err(EvaluationFailure::NodeFault(reason)) => {
                tracing::warn!(%reason, "an evaluation is tried again");
            }
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    pool.evaluate(request).await.map_err(|failure| failure.to_string())
}
