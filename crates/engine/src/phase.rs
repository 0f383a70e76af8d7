//! What a node does for an execution that it holds together with others: one word, and one sentence
//! where someone would ask why nothing moves.

/// What a node does for an execution that several hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// It advances it.
    Leading,
    /// It follows another node.
    Following,
    /// It leads and stands still: what no majority knows of would cost more to undo than the budget.
    Paused,
    /// It follows nobody for the moment: who goes on is being found out, and enough nodes can be reached
    /// for that.
    Electing,
    /// It follows nobody, and too few nodes can be reached to lead.
    WithoutVotes,
    /// It leads or has a complete run, and what comes next waits until a majority knows of it, which
    /// cannot be reached.
    WithoutMajority,
    /// The run it holds is complete; consensus has to decide which run counts.
    Agreeing,
    /// A run was decided on: what is not part of it is being undone.
    Compensating,
    /// All that it did is kept or undone; it forgets together with the others.
    Forgetting,
}

impl Phase {
    /// The word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Leading => "leading",
            Self::Following => "following",
            Self::Paused => "paused",
            Self::Electing => "electing",
            Self::WithoutVotes => "without-votes",
            Self::WithoutMajority => "without-majority",
            Self::Agreeing => "agreeing",
            Self::Compensating => "compensating",
            Self::Forgetting => "forgetting",
        }
    }

    /// Why it stands still, and what makes it go on, if it does.
    pub const fn why_it_waits(self) -> Option<&'static str> {
        match self {
            Self::Paused => Some(
                "undoing what no majority knows of would cost more than the budget; it goes on when a \
                 majority of its nodes can be reached",
            ),
            Self::WithoutVotes => Some(
                "too few of its nodes can be reached to go on; it goes on by itself when enough can",
            ),
            Self::WithoutMajority => Some(
                "what comes next waits until a majority of its nodes knows of it, and too few can be \
                 reached; it goes on by itself when enough can",
            ),
            _ => None,
        }
    }
}
