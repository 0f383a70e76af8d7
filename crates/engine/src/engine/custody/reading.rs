//! Reading what other replicas send: nothing that cannot be read reaches a machine, and nothing is read
//! twice.
//!
//! A machine decides by what a message says of a state whether that is taken over; by then the state
//! must be known to be readable. What was read is kept until then. After an election, the same state
//! comes from everyone who voted, so the last one is kept even longer, unless it is large.

use outlast_lineage::Digest;
use outlast_workflow::Execution;

use super::Passed;

/// Larger states than this are not kept once they were looked at.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// What was read of messages and not applied yet.
#[derive(Debug, Default)]
pub(in crate::engine) struct Reading {
    delta: Option<Passed>,
    state: Option<(Vec<u8>, Execution)>,
}

impl Reading {
    /// Reads a delta; says whether it could be read, and fits the state that it is to be applied to, if
    /// it is.
    pub(super) fn read_delta(&mut self, delta: &[u8], to: Option<&Execution>) -> bool {
        let fits = |read: &Passed| to.is_none_or(|execution| execution.can_take(&read.delta));
        self.delta = Passed::decode(delta).filter(fits);
        self.delta.is_some()
    }

    /// The delta that was read last.
    pub(super) fn take_delta(&mut self) -> Passed {
        self.delta.take().expect("a delta is read before a machine hears of it")
    }

    /// Reads a state; gives the digest of the definition that it runs, if it could be read.
    pub(super) fn read_state(&mut self, bytes: &[u8]) -> Option<Digest> {
        if let Some((known, execution)) = &self.state
            && known == bytes
        {
            return Some(execution.definition());
        }
        let execution: Execution = minicbor::decode(bytes).ok()?;
        let definition = execution.definition();
        self.state = (bytes.len() <= KEPT_BYTES_MAX).then(|| (bytes.to_vec(), execution));
        Some(definition)
    }

    /// A state that could be read.
    pub(super) fn take_state(&mut self, bytes: &[u8]) -> Execution {
        match self.state.take_if(|(known, _)| known == bytes) {
            Some((_, execution)) => execution,
            None => minicbor::decode(bytes).expect("a state is looked at before it is taken"),
        }
    }
}

#[cfg(test)]
mod tests {
    use outlast_expressions::Value;
    use outlast_lineage::{ExecutionId, Time};
    use outlast_workflow::program::{OnFault, Transform, bundle};
    use outlast_workflow::{Program, Start};

    use super::*;

    fn state(number: u8) -> Vec<u8> {
        let program = Program {
            digest: Digest::of(b"nothing to do"),
            namespace: String::new(),
            name: String::new(),
            version: String::new(),
            dsl: String::new(),
            definition: Value::default().into(),
            tasks: Vec::new(),
            input: Transform::default(),
            output: Transform::default(),
            timeout: None,
            on_fault: OnFault::default(),
            secrets: Vec::new(),
            extension: Value::default(),
            linked: bundle::Linked::default(),
        };
        let start = Start {
            id: ExecutionId::from_bytes([number; 16]),
            input: Value::default(),
            salt: [0; 16],
            keep_plan: true,
            shared: true,
            depth: 0,
        };
        let execution = Execution::unstarted(&program, start, Time::from_millis(1));
        minicbor::to_vec(&execution).unwrap()
    }

    #[test]
    fn a_state_that_is_taken_is_the_one_asked_for_whatever_was_read_since() {
        let mut reading = Reading::default();
        let (one, other) = (state(1), state(2));
        assert!(reading.read_state(&one).is_some() && reading.read_state(&other).is_some());
        assert_eq!(reading.take_state(&one).id(), ExecutionId::from_bytes([1; 16]));
        assert_eq!(reading.take_state(&other).id(), ExecutionId::from_bytes([2; 16]));
        assert_eq!(reading.take_state(&other).id(), ExecutionId::from_bytes([2; 16]));
    }

    #[test]
    fn what_is_damaged_is_not_taken_for_what_was_read_before() {
        let mut reading = Reading::default();
        let whole = state(1);
        assert!(reading.read_state(&whole).is_some());
        assert_eq!(reading.read_state(&whole[..whole.len() - 1]), None);
        assert!(!reading.read_delta(&[0xff], None));
    }
}
