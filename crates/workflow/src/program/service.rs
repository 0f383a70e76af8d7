//! What a call is made to.

use super::Template;

/// What a call is made to. Arguments are one template beside it (`Kind::Call`).
#[derive(Clone, Debug)]
pub enum Service {
    /// An HTTP request. Arguments: `{method, endpoint, headers?, query?, body?}`; `endpoint` may be
    /// a URI template, filled from the task's transformed input.
    Http {
        /// What of the answer becomes the task's output.
        output: HttpOutput,
        /// Whether 3xx answers are followed; if not, they are errors.
        redirect: bool,
        /// How the caller shows who it is.
        authentication: Option<Authentication>,
    },
    /// A service type of the default catalog that nodes offer (`name:version@default`).
    /// Arguments: the value of `with`, or the task's transformed input.
    Catalog {
        /// The service type's name.
        name: String,
        /// Its version.
        version: String,
    },
}

/// What of an HTTP answer becomes the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, minicbor::Encode, minicbor::Decode)]
#[cbor(index_only)]
pub enum HttpOutput {
    /// The body, base64.
    #[n(0)]
    Raw,
    /// The decoded body.
    #[default]
    #[n(1)]
    Content,
    /// `{request, statusCode, headers, content}`.
    #[n(2)]
    Response,
}

/// How a caller shows who it is. Values may be secrets, which are named and never held.
#[derive(Clone, Debug)]
pub enum Authentication {
    /// User name and password.
    Basic {
        /// User name.
        username: Secretive,
        /// Password.
        password: Secretive,
    },
    /// A token.
    Bearer(Secretive),
    /// User name and password, never sent in the clear.
    Digest {
        /// User name.
        username: Secretive,
        /// Password.
        password: Secretive,
    },
}

/// A value given in the document (perhaps computed) or a field of a secret.
#[derive(Clone, Debug)]
pub enum Secretive {
    /// Given or computed.
    Given(Template),
    /// A field of a secret: name of the secret, and the field in it.
    Secret(String, String),
}
