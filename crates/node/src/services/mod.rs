//! Calls to services: the one place where requests of executions meet real sockets.
//!
//! `Caller` makes a `Request` and says what became of it. What is sent and how an answer is judged is
//! pure and shared (`outlast_workflow::build_http`, `judge`); here are the connections, the policy
//! which addresses may be reached, the secrets, and the services a node offers by itself.
//!
//! Invariants:
//! - Every call carries its key, undo calls included, and a redirect or a challenge keeps it.
//! - An address is checked where it is connected to, after names are resolved, at every hop.
//! - No secret is in an answer, a fault or a log.

mod address;
mod authentication;
mod caller;
mod catalog;
mod exchange;
mod origin;
mod resolver;
mod reveal;
mod secrets;
#[cfg(test)]
mod tests;

pub use address::{AddressPolicy, Denied, Rule, RuleError};
pub use caller::{Caller, Options};
pub use catalog::{Builtin, Calling, Catalog};
pub use origin::{OriginError, OriginMap};
pub use secrets::{NoSecrets, SecretSource, Secrets, SecretsError};
