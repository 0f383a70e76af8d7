//! Retry policies.

use super::{Expression, Template};

/// When and how often something that failed is tried again.
#[derive(Clone, Debug, Default)]
pub struct RetryPolicy {
    /// Only if this holds.
    pub when: Option<Expression>,
    /// Not if this holds.
    pub except_when: Option<Expression>,
    /// The base delay; nothing is no delay.
    pub delay: Option<Template>,
    /// How the delay grows.
    pub backoff: Backoff,
    /// How many retries at most; the first try does not count.
    pub attempts: Option<u64>,
    /// How long one attempt may take.
    pub attempt_duration: Option<Template>,
    /// How long all attempts and delays may take, from the first try.
    pub duration: Option<Template>,
    /// Bounds of the random addition to each delay.
    pub jitter: Option<(Template, Template)>,
}

/// How the delay grows with the number k of the retry, from one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backoff {
    /// d
    #[default]
    Constant,
    /// d · k
    Linear,
    /// d · 2^(k−1)
    Exponential,
}
