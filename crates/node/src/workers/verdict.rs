//! What a worker died of.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::Signal;

/// Whose fault the end of a worker is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// The expression's, which spent a budget.
    Expression(String),
    /// Nobody's who wrote the expression.
    Node(String),
}

/// Judges the end of a worker that was not killed by the pool, by its status and its last words.
pub(super) fn judge(status: ExitStatus, last_words: &str, memory_bytes: u64) -> Verdict {
    let signal = status.signal().and_then(Signal::from_named_raw);
    if signal == Some(Signal::XCPU) {
        return Verdict::Expression("the expression used up its processor time".to_owned());
    }
    let died_within = matches!(signal, Some(Signal::ABORT | Signal::SEGV | Signal::BUS));
    if died_within && last_words.contains("memory allocation of") {
        let memory = memory_bytes / (1024 * 1024);
        return Verdict::Expression(format!(
            "the expression needs more than {memory} MiB of memory"
        ));
    }
    if died_within {
        return Verdict::Expression("the expression recurses too deeply".to_owned());
    }
    Verdict::Node(format!("the worker ended with {status}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(raw: i32, last_words: &str) -> Verdict {
        judge(ExitStatus::from_raw(raw), last_words, 256 << 20)
    }

    #[test]
    fn tells_a_spent_budget_from_a_death_from_outside() {
        let overflow = "thread 'x' has overflowed its stack\nfatal runtime error: stack overflow";
        let expression = |message: &str| Verdict::Expression(message.to_owned());
        assert_eq!(verdict(6, overflow), expression("the expression recurses too deeply"));
        assert_eq!(
            verdict(6, "memory allocation of 99 bytes failed"),
            expression("the expression needs more than 256 MiB of memory")
        );
        assert_eq!(verdict(24, ""), expression("the expression used up its processor time"));
        for outside in [9, 15, 0, 1 << 8] {
            assert!(matches!(verdict(outside, ""), Verdict::Node(_)), "{outside}");
        }
    }
}
