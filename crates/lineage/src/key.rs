//! Operation keys: what a provider is told, so that it acts once however often it is asked.

use std::fmt;

use minicbor::{Decode, Encode};

use crate::digest::write_hexadecimal;
use crate::{Digest, Digester, ExecutionId};

/// Names one operation at a provider: execution, place in the flow, incarnation and request.
///
/// It stays the same over timeouts, restarts and take-overs. It is never the id of an effect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct OperationKey(#[n(0)] Digest);

impl OperationKey {
    /// The key of a request made at a place (task, iterations, incarnation) of an execution.
    pub fn new(execution: ExecutionId, place: &Digest, request: &Digest) -> Self {
        Self(
            Digester::new("operation")
                .field(execution.as_bytes())
                .field(place.as_bytes())
                .field(request.as_bytes())
                .finish(),
        )
    }

    /// The digest behind the key.
    pub const fn digest(&self) -> &Digest {
        &self.0
    }
}

impl fmt::Display for OperationKey {
    /// 32 hexadecimal digits: what is sent as `Idempotency-Key`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hexadecimal(&self.0.as_bytes()[..16], formatter)
    }
}

impl fmt::Debug for OperationKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "key {:08x}", self.0.short() >> 32)
    }
}
