//! How much data an execution may hold.
//!
//! What comes in from outside is bounded where it comes in. What expressions make of it is bounded
//! here: a value that is too large is an error of the expression, and so is one with which the
//! execution would hold too much. Otherwise one flow that adds to its data in a loop would come to a
//! state that no record and no message holds.

use outlast_expressions::{Value, value};

use super::{Machine, Turn};
use crate::execution::{Branch, DATA_BYTES_MAX, Datum, SHARED_DATA_BYTES_MAX};
use crate::{Fault, FaultKind};

impl Machine<'_> {
    /// How much this execution may hold.
    const fn data_max(&self) -> usize {
        if self.execution.exchange.is_some() { SHARED_DATA_BYTES_MAX } else { DATA_BYTES_MAX }
    }

    /// A value that an expression gave, unless it is too large to be held.
    pub(super) fn bounded(&self, value: Value) -> Result<Value, String> {
        let most = self.data_max();
        match value::weight(&value, most) <= most {
            true => Ok(value),
            false => Err(self.excess("the value")),
        }
    }

    /// After something added data: if it is too much, the task that added it fails, and its data is
    /// dropped.
    pub(super) fn bound_data(&mut self, branch: &mut Branch) -> Turn {
        let fault = self.excess_of_data(branch).filter(|_| branch.top().is_some());
        let Some(fault) = fault else { return Turn::Again };
        branch.set_data(Datum::null());
        self.drop_unnamed(branch);
        self.raise(branch, fault)
    }

    /// Gives a branch another context, unless the execution would hold too much with it: then the one
    /// that it had stays.
    pub(super) fn change_context(&mut self, branch: &mut Branch, to: Value) -> Result<(), Fault> {
        let context = self.share(to);
        if matches!(context, Datum::Small(_)) || self.execution.large.bytes() <= self.data_max() {
            branch.set_context(context);
            return Ok(());
        }
        let before = self.value(branch.context());
        branch.set_context(context);
        let Some(fault) = self.excess_of_data(branch) else { return Ok(()) };
        let before = self.share(before);
        branch.set_context(before);
        self.drop_unnamed(branch);
        Err(fault)
    }

    /// Why the data is too much, after what nothing names any more is dropped. What is rolled back is not
    /// kept from it by its size.
    fn excess_of_data(&mut self, branch: &Branch) -> Option<Fault> {
        let most = self.data_max();
        if self.execution.large.bytes() <= most {
            return None;
        }
        self.drop_unnamed(branch);
        if self.execution.large.bytes() <= most || !self.is_forward() {
            return None;
        }
        let detail = self.excess("the data of the execution");
        Some(Fault::new(FaultKind::Runtime, "too much data", detail))
    }

    fn drop_unnamed(&mut self, branch: &Branch) {
        let named = self.execution.named_beside(Some(branch));
        self.execution.large.sweep(&named);
    }

    fn excess(&self, what: &str) -> String {
        let most = self.data_max() / (1024 * 1024);
        let whose = match self.execution.exchange.is_some() {
            true => "an execution that several nodes hold",
            false => "an execution",
        };
        format!(
            "{what} has more than {most} MiB, which is all that {whose} may hold; keep it elsewhere, \
             and pass on where it is"
        )
    }
}
