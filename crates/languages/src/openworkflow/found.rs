//! What has been found so far, bounded: nobody reads hundreds of problems.

use crate::{Diagnostic, Severity};

/// After this many problems of a kind more are not kept, and looking for suggestions would only
/// cost time.
const KEPT_MAX: usize = 300;

/// The problems of a document as they are found.
#[derive(Default)]
pub(super) struct Found {
    list: Vec<Diagnostic>,
    errors: usize,
}

impl Found {
    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        let is_error = diagnostic.severity == Severity::Error;
        let kept = if is_error { self.errors } else { self.list.len() - self.errors };
        if kept < KEPT_MAX {
            self.errors += usize::from(is_error);
            self.list.push(diagnostic);
        }
    }

    /// Whether the document is rejected by so many errors that another need not be explained.
    pub(super) const fn is_hopeless(&self) -> bool {
        self.errors >= KEPT_MAX
    }

    /// Whether there is so much that a suggestion is not worth looking for.
    pub(super) const fn is_crowded(&self) -> bool {
        self.list.len() >= KEPT_MAX
    }

    pub(super) fn into_list(self) -> Vec<Diagnostic> {
        self.list
    }
}
