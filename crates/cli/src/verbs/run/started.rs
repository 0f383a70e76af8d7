//! What a run has started and does not wait for (`await: false`). The process that runs it goes on until
//! that has ended, too: nobody else would run it.

use anyhow::bail;
use outlast_engine::{Ask, Condition, Filter, Reply, Summary, Which};
use outlast_lineage::ExecutionId;

use super::{Event, Session};
use crate::verbs::run::progress::Progress;

/// The conditions in which an execution gets to its end by itself.
const UNDER_WAY: [Condition; 3] = [Condition::Running, Condition::Waiting, Condition::Compensating];

impl Session<'_> {
    /// Shows progress until what an ended execution has started has ended, too, or something ends the
    /// run before.
    pub(super) async fn watch_started(
        &self,
        execution: ExecutionId,
        ended: Event,
        progress: &mut Progress,
    ) -> anyhow::Result<Event> {
        if !matches!(ended, Event::Ended(_)) {
            return Ok(ended);
        }
        while let Some(started) = self.started_by(execution).await? {
            progress.say(&format!("waiting for  execution {started}, which it started"));
            match self.watch(started, progress).await? {
                Event::Ended(_) => {}
                other => return Ok(other),
            }
        }
        Ok(ended)
    }

    /// An execution under way that this one started, or one that this one started.
    async fn started_by(&self, execution: ExecutionId) -> anyhow::Result<Option<ExecutionId>> {
        for condition in UNDER_WAY {
            let mut filter = Filter { condition: Some(condition), ..Filter::default() };
            loop {
                let Reply::Listed { executions, next } =
                    self.ask(Ask::List(filter.clone())).await?
                else {
                    bail!("unexpected reply to a list");
                };
                for summary in &executions {
                    if self.descends(summary, execution).await {
                        return Ok(Some(summary.execution));
                    }
                }
                filter.after = next;
                if filter.after.is_none() {
                    break;
                }
            }
        }
        Ok(None)
    }

    async fn descends(&self, summary: &Summary, execution: ExecutionId) -> bool {
        let mut parent = summary.parent;
        while let Some(starter) = parent.filter(|starter| *starter != execution) {
            parent = match self.node.ask(Ask::Show(Which::Id(starter))).await {
                Ok(Reply::Shown(detail)) => detail.summary.parent,
                // Whoever is forgotten is not the one that has just ended.
                _ => None,
            };
        }
        parent.is_some()
    }
}
