//! What a step did to the ledger, for those who keep an account of it over several lines.

use minicbor::{Decode, Encode};
use outlast_lineage::{EffectId, OperationKey};

/// Something a step did to the ledger. Readonly calls and the calls of undos are not in it.
///
/// One effect may be intended again (asked for with the same id and key): the note says the same.
#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
pub enum EffectNote {
    /// A call is about to leave.
    #[n(0)]
    Intended {
        /// Named by the state that intended it; `Request::effect` of the call.
        #[n(0)]
        effect: EffectId,
        /// What its provider is given.
        #[n(1)]
        key: OperationKey,
        /// Whether the provider may be asked again with the same key.
        #[n(2)]
        deduplicated: bool,
        /// Whether it can be neither undone nor repeated.
        #[n(3)]
        pivot: bool,
        /// Where in the flow it is, iterations included and attempts not: the same on every line.
        #[n(4)]
        place: u64,
        /// What undoing it will cost, if the document says so without looking at what it gives.
        #[n(5)]
        cost: Option<f64>,
    },
    /// It happened.
    #[n(1)]
    Done {
        /// Which.
        #[n(0)]
        effect: EffectId,
        /// What undoing it costs, as far as that is known yet (`Costs` says it later).
        #[n(1)]
        cost: f64,
    },
    /// What undoing an effect costs that was done in an earlier step.
    #[n(2)]
    Costs {
        /// Which.
        #[n(0)]
        effect: EffectId,
        /// What undoing it costs.
        #[n(1)]
        cost: f64,
    },
    /// It is known not to have happened, or it is undone, or a person gave it up.
    #[n(3)]
    Gone {
        /// Which.
        #[n(0)]
        effect: EffectId,
    },
    /// It may have happened, and this line goes on without it: it is the debt of its author.
    #[n(4)]
    Disowned {
        /// Which.
        #[n(0)]
        effect: EffectId,
    },
}
