//! A call as data: everything a driver needs to make it, and nothing secret.
//!
//! `build_http` makes a target out of evaluated arguments; `judge` says what became of the call from
//! what the socket saw. Both are pure, so a simulated world and a real one decide alike.

mod build;
mod judge;
mod uri;

use minicbor::{Decode, Encode};
use outlast_expressions::{Value, value};
use outlast_lineage::{EffectId, OperationKey, Time};

use crate::program::HttpOutput;

pub use build::{build_http, scalar_text};
pub use judge::{Seen, Sent, judge};
pub use uri::percent_encode;

/// A call, ready to be made. Secrets in it are stand-ins that the driver replaces at the last moment.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Request {
    /// The effect it has.
    #[n(0)]
    pub effect: EffectId,
    /// The operation key: sent as `Idempotency-Key` unless the document says otherwise.
    #[n(1)]
    pub key: OperationKey,
    /// The key's text if the document gives one.
    #[n(2)]
    pub own_key: Option<String>,
    /// The header to send it in, if not `Idempotency-Key`.
    #[n(3)]
    pub key_header: Option<String>,
    /// When nobody waits any more; the call may end itself then.
    #[n(4)]
    pub deadline: Option<Time>,
    /// A readonly call need not wait until its intent is stored.
    #[n(5)]
    pub readonly: bool,
    /// Whether it undoes something.
    #[n(6)]
    pub undo: bool,
    /// Where it goes.
    #[n(7)]
    pub target: Target,
    /// The execution's salt: only stand-ins made with it are replaced by secrets.
    #[cbor(n(8), with = "minicbor::bytes")]
    pub salt: [u8; 16],
    /// The key of the call that it undoes: sent as `Outlast-Undoes`, so that a provider that does not
    /// know whether that call ran knows which one is meant.
    #[n(9)]
    pub undoes: Option<OperationKey>,
    /// The text of that key if the document gave it.
    #[n(10)]
    pub own_undoes: Option<String>,
}

impl Request {
    /// What is sent as the key.
    pub fn key_text(&self) -> String {
        self.own_key.clone().unwrap_or_else(|| self.key.to_string())
    }

    /// What was sent as the key of the call that it undoes.
    pub fn undoes_text(&self) -> Option<String> {
        self.own_undoes.clone().or_else(|| self.undoes.map(|key| key.to_string()))
    }
}

/// Where a call goes and what it carries.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum Target {
    /// An HTTP request.
    #[n(0)]
    Http {
        /// Upper case.
        #[n(0)]
        method: String,
        /// The whole URI, query included.
        #[n(1)]
        uri: String,
        /// Header names and values.
        #[n(2)]
        headers: Vec<(String, String)>,
        /// The body: strings as they are, anything else as JSON; null is no body.
        #[cbor(n(3), with = "value::codec")]
        body: Value,
        /// What of the answer is wanted.
        #[n(4)]
        output: HttpOutput,
        /// Whether to follow redirects.
        #[n(5)]
        redirect: bool,
        /// How to show who is calling.
        #[n(6)]
        authentication: Option<ResolvedAuthentication>,
    },
    /// A service type of the default catalog.
    #[n(1)]
    Catalog {
        /// Its name.
        #[n(0)]
        name: String,
        /// Its version.
        #[n(1)]
        version: String,
        /// Its arguments.
        #[cbor(n(2), with = "value::codec")]
        arguments: Value,
    },
}

impl Target {
    /// What it carries: the body or the arguments.
    pub(crate) const fn payload_mut(&mut self) -> &mut Value {
        match self {
            Self::Http { body, .. } => body,
            Self::Catalog { arguments, .. } => arguments,
        }
    }
}

/// How to show who is calling; values may be stand-ins for secrets.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum ResolvedAuthentication {
    /// User name and password.
    #[n(0)]
    Basic(#[n(0)] String, #[n(1)] String),
    /// A token.
    #[n(1)]
    Bearer(#[n(0)] String),
    /// User name and password, never sent in the clear.
    #[n(2)]
    Digest(#[n(0)] String, #[n(1)] String),
}
