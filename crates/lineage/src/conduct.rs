//! What may be done about an effect whose outcome nobody knows.
//!
//! The call was written down and left; its node died, or the answer never came. Whether asking again,
//! undoing or neither is safe depends on the activity and its provider alone.

/// What happens at the provider when the same call is made again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Repetition {
    /// It acts once for each operation key and repeats its answer.
    Deduplicated,
    /// Nothing: the call only reads.
    Harmless,
    /// It acts again.
    Acts,
}

/// How an effect can be undone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reversal {
    /// There is nothing to undo.
    Needless,
    /// With what the call answered.
    WithResult,
    /// Even if it is not known whether the call ran, or known that it did not.
    Tolerant,
    /// Not at all: a pivot.
    Impossible,
}

/// How an activity and its provider behave.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Conduct {
    /// When it is called again.
    pub repetition: Repetition,
    /// When it is to be undone.
    pub reversal: Reversal,
}

impl Conduct {
    /// Whether two calls with one key are one effect in the world.
    pub fn deduplicates(self) -> bool {
        self.repetition == Repetition::Deduplicated
    }
}

/// What to do about an effect whose outcome is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Recourse {
    /// Nothing is owed.
    Nothing,
    /// Make the same call with the same key, and go by its answer.
    AskAgain,
    /// Undo it, whether it ran or not. If it is still wanted, call anew as the next incarnation.
    Undo,
    /// Leave it to a person.
    Park,
}

impl Conduct {
    /// What to do about an unknown effect whose result is still wanted.
    pub const fn recourse_if_wanted(self) -> Recourse {
        match (self.repetition, self.reversal) {
            (Repetition::Deduplicated | Repetition::Harmless, _) => Recourse::AskAgain,
            (Repetition::Acts, Reversal::Tolerant) => Recourse::Undo,
            // Asking again might act twice, and nothing would take the second one back.
            (
                Repetition::Acts,
                Reversal::Needless | Reversal::WithResult | Reversal::Impossible,
            ) => Recourse::Park,
        }
    }

    /// What to do about an unknown effect that must not stay.
    pub const fn recourse_if_unwanted(self) -> Recourse {
        match (self.repetition, self.reversal) {
            (Repetition::Harmless, _) | (_, Reversal::Needless) => Recourse::Nothing,
            (_, Reversal::Tolerant) => Recourse::Undo,
            // The answer is what it is undone with; if it never ran, it runs now and is undone.
            (Repetition::Deduplicated, Reversal::WithResult) => Recourse::AskAgain,
            // Asking again might run a pivot that nobody wants.
            (_, Reversal::Impossible) | (Repetition::Acts, Reversal::WithResult) => Recourse::Park,
        }
    }
}
