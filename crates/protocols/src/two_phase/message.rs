//! What coordinators and participants say to each other. Numbers are never used twice.

use minicbor::{Decode, Encode};

/// What is said about one forgetting.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub enum Message {
    /// A coordinator asks whether the participant needs nothing any more.
    #[n(0)]
    Prepare,
    /// The participant is ready, and stays so.
    #[n(1)]
    Prepared,
    /// A coordinator orders: all are ready, so forget.
    #[n(2)]
    Forget,
    /// The participant has forgotten, which also says that all were ready.
    #[n(3)]
    Forgotten,
    /// A participant that is ready asks what became of it; answered with `Forget` if that is known.
    #[n(4)]
    Inquire,
}
