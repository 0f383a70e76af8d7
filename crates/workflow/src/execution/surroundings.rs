//! What a task sees of the place it stands in, for when it is taken up again elsewhere.

use minicbor::{Decode, Encode};

use super::branch::{Branch, Nested};
use super::datum::Datum;

/// What is visible around a task that was taken out of its place: a call that may have happened is
/// asked about, or undone, long after the loop around it is gone.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Surroundings {
    /// Loop items, indexes and caught errors, the innermost last.
    #[n(0)]
    pub(crate) variables: Vec<(String, Datum)>,
    #[n(1)]
    pub(crate) context: Datum,
    /// The workflow that it is a part of, if that is not the execution's own.
    #[n(2)]
    pub(crate) workflow: Option<Box<Nested>>,
}

impl Branch {
    /// The context where the innermost task stands.
    pub(crate) fn context(&self) -> &Datum {
        self.surroundings().map_or(self.own_context(), |around| &around.context)
    }

    /// Sets the context where the innermost task stands; of a task that was taken out of its place,
    /// nothing of it is left when the task ends.
    pub(crate) fn set_context(&mut self, context: Datum) {
        let inside = self.frames().iter().rposition(|frame| frame.around.is_some());
        let around = inside.and_then(|depth| self.frame_mut(depth).around.as_mut());
        match around {
            Some(around) => around.context = context,
            None => self.set_own_context(context),
        }
    }

    /// The workflow that the innermost task is a part of, if that is not the execution's own.
    pub(crate) fn workflow(&self) -> Option<&Nested> {
        match self.surroundings() {
            Some(around) => around.workflow.as_deref(),
            None => self.birth.workflow.as_deref(),
        }
    }

    /// What undos of the workflow that the innermost task is a part of see, wherever they run; nothing if
    /// that is the execution's own. No variables: a compensation sees none.
    pub(crate) fn part_around(&self) -> Option<Surroundings> {
        let workflow = self.workflow()?.clone();
        let (variables, context) = (Vec::new(), self.context().clone());
        Some(Surroundings { variables, context, workflow: Some(Box::new(workflow)) })
    }

    /// The same, if the innermost task was taken out of its place.
    pub(crate) fn part_taken_from(&self) -> Option<Box<Surroundings>> {
        self.surroundings()?;
        self.part_around().map(Box::new)
    }

    fn surroundings(&self) -> Option<&Surroundings> {
        self.frames().iter().rev().find_map(|frame| frame.around.as_deref())
    }
}
