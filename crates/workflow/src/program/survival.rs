//! The bounds of a `survival` block: what a document is checked for, and what a start is held to.

use std::time::Duration;

/// How many replicas there are if nothing is said.
pub const REPLICAS: u16 = 3;
/// More replicas than anyone needs: every change goes to each of them.
pub const REPLICAS_MAX: u16 = 64;
/// No message comes back sooner; and none at all stands for the default of the node.
pub const ELECTION_WAIT_MIN: Duration = Duration::from_millis(1);
/// Whoever waits longer for objections stands still: nobody executes meanwhile.
pub const ELECTION_WAIT_MAX: Duration = Duration::from_secs(3600);

/// Why a candidate cannot wait so long, in words that follow what says it.
pub fn refuse_election_wait(wait: Duration) -> Option<&'static str> {
    if wait < ELECTION_WAIT_MIN {
        return Some("must be at least PT0.001S");
    }
    (ELECTION_WAIT_MAX < wait).then_some("must be at most PT1H")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::duration;
    use outlast_expressions::value;

    #[test]
    fn a_refusal_names_the_bound_that_there_is() {
        for (bound, beyond) in
            [(ELECTION_WAIT_MIN, Duration::ZERO), (ELECTION_WAIT_MAX, ELECTION_WAIT_MAX * 2)]
        {
            assert_eq!(refuse_election_wait(bound), None);
            let refusal = refuse_election_wait(beyond).unwrap();
            let named = refusal.rsplit(' ').next().unwrap();
            assert_eq!(duration(&value::string(named)), Ok(bound));
        }
    }
}
