//! Errors of workflows, in the form of RFC 7807.

use minicbor::{Decode, Encode};
use outlast_expressions::Value;
use outlast_expressions::value;

/// The standard error types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// The document or the deployment is not set up for this.
    Configuration,
    /// Data does not fit its schema.
    Validation,
    /// An expression has no value.
    Expression,
    /// Who is calling could not be shown.
    Authentication,
    /// The caller may not do this.
    Authorization,
    /// It took too long.
    Timeout,
    /// A service could not be reached or refused.
    Communication,
    /// Anything else.
    Runtime,
}

impl FaultKind {
    const ALL: [Self; 8] = [
        Self::Configuration,
        Self::Validation,
        Self::Expression,
        Self::Authentication,
        Self::Authorization,
        Self::Timeout,
        Self::Communication,
        Self::Runtime,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Validation => "validation",
            Self::Expression => "expression",
            Self::Authentication => "authentication",
            Self::Authorization => "authorization",
            Self::Timeout => "timeout",
            Self::Communication => "communication",
            Self::Runtime => "runtime",
        }
    }

    const fn status(self) -> u16 {
        match self {
            Self::Configuration | Self::Validation | Self::Expression => 400,
            Self::Authentication => 401,
            Self::Authorization => 403,
            Self::Timeout => 408,
            Self::Communication | Self::Runtime => 500,
        }
    }

    /// The type's URI as the specification spells it.
    pub fn uri(self) -> String {
        format!("https://open-workflow-specification.org/spec/1.0.0/errors/{}", self.word())
    }

    /// The standard type a URI names, in any of its four spellings: two hosts, two paths.
    pub fn of_uri(uri: &str) -> Option<Self> {
        let path = ["https://open-workflow-specification.org", "https://serverlessworkflow.io"]
            .iter()
            .find_map(|host| uri.strip_prefix(host))?;
        let word = ["/spec/1.0.0/errors/", "/dsl/errors/types/"]
            .iter()
            .find_map(|prefix| path.strip_prefix(prefix))?;
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// An error raised in a workflow.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Fault {
    /// A URI.
    #[n(0)]
    pub kind: String,
    /// As in HTTP.
    #[n(1)]
    pub status: u16,
    /// A few words.
    #[n(2)]
    pub title: Option<String>,
    /// What happened and what to do.
    #[n(3)]
    pub detail: Option<String>,
    /// JSON pointer to the task that raised it.
    #[n(4)]
    pub instance: Option<String>,
}

impl Fault {
    /// A standard error.
    pub fn new(kind: FaultKind, title: &str, detail: impl Into<String>) -> Self {
        Self {
            kind: kind.uri(),
            status: kind.status(),
            title: Some(title.to_owned()),
            detail: Some(detail.into()),
            instance: None,
        }
    }

    /// The same with another status, such as that of an HTTP answer.
    pub fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// Whether it is of a standard type, however that is spelled.
    pub fn is(&self, kind: FaultKind) -> bool {
        FaultKind::of_uri(&self.kind) == Some(kind)
    }

    /// What it says, in the most words there are.
    pub fn reason(&self) -> &str {
        self.detail.as_deref().or(self.title.as_deref()).unwrap_or_default()
    }

    /// The error object that expressions see.
    pub fn to_value(&self) -> Value {
        let optional = |text: &Option<String>| text.as_deref().map(value::string);
        let members = [
            ("type", Some(value::string(&self.kind))),
            ("status", Some(value::integer(i64::from(self.status)))),
            ("title", optional(&self.title)),
            ("detail", optional(&self.detail)),
            ("instance", optional(&self.instance)),
        ];
        value::object(members.into_iter().filter_map(|(name, value)| Some((name, value?))))
    }
}
