//! Where records wait for the writer: one growing buffer of frames, swapped out whole.
//!
//! Appending encodes the frame straight into the buffer, so a record is copied once on its way to
//! the disk. What is in the buffer when the writer takes it becomes one batch: one write, one sync.
//!
//! Records that nobody waits for linger until somebody waits for a later one, so that they share its
//! sync; but not for long.
//!
//! When a sync is over and others wait for the next one already, those that were just stored are about to
//! bring their next records: until whoever appends has taken note of the sync, they are waited for, but not
//! for long. Otherwise two groups would form that wait for each other's syncs, each half as large as it could
//! be.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::error::JournalError;
use super::frame::{self, Frame, Kind, OVERHEAD, RECORD_BYTES_MAX};
use crate::bell::Bell;

/// How long records linger that nobody waits for.
const LINGER: Duration = Duration::from_millis(20);
/// With so many bytes together they linger no longer.
const LINGER_BYTES: usize = 256 * 1024;

/// Which part of a sync's time the next one waits for those that the last one has let go on.
const COMPANY_PART: u32 = 4;
/// It waits no longer than this, however slow the disk is.
const COMPANY_MAX: Duration = Duration::from_micros(300);

/// Whether somebody waits for records to be durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Haste {
    /// They are written at once.
    Awaited,
    /// They may share the sync of later ones.
    Lingering,
}

/// Shared by those who append and the writer.
#[derive(Debug)]
pub(super) struct Queue {
    salt: u32,
    bytes_max: usize,
    state: Mutex<State>,
    /// The writer has something to do.
    filled: Bell,
    /// There is room in the buffer again.
    drained: Bell,
    /// The durable mark or the condition has changed.
    settled: Bell,
}

#[derive(Debug)]
struct State {
    pending: Vec<u8>,
    /// The position of the first record in `pending`, and of the next one to come.
    batch: u64,
    next: u64,
    durable: u64,
    condition: Condition,
    closing: bool,
    /// Whether somebody waits for a record in `pending`.
    awaited: bool,
    /// When the oldest record that waits for a sync was appended.
    pending_since: Option<Instant>,
    writing_since: Option<Instant>,
    syncs: u64,
    /// Up to where whoever appends has taken note that records are durable.
    noted: u64,
    /// Whether the writer waits for that to be all there is.
    expecting: bool,
}

/// Whether the journal can store anything.
#[derive(Clone, Debug)]
enum Condition {
    Accepting,
    Full(Arc<str>),
    Poisoned(Arc<str>),
}

impl Condition {
    fn check(&self) -> Result<(), JournalError> {
        match self {
            Self::Accepting => Ok(()),
            Self::Full(reason) => Err(JournalError::Full(reason.clone())),
            Self::Poisoned(reason) => Err(JournalError::Poisoned(reason.clone())),
        }
    }
}

impl State {
    /// Whether nobody waits for what is pending, and it is not much.
    const fn may_linger(&self) -> bool {
        !self.awaited && !self.closing && self.pending.len() < LINGER_BYTES
    }

    /// For how long the writer, back from a sync that took so long, waits for those that it let go on: not
    /// at all if nobody waits for the next sync, or if they had the time to bring what they have.
    fn waits_for_company(&self, sync: Duration) -> Duration {
        match self.awaited && !self.closing && self.noted < self.durable {
            true => (sync / COMPANY_PART).min(COMPANY_MAX),
            false => Duration::ZERO,
        }
    }

    /// Whether the writer waits for nobody any more.
    const fn is_company_complete(&self) -> bool {
        self.expecting && self.durable <= self.noted
    }

    /// For how long what is pending may linger.
    fn lingers_for(&self, now: Instant) -> Duration {
        let since = self.pending_since.filter(|_| self.may_linger());
        since.map_or(Duration::ZERO, |since| {
            LINGER.saturating_sub(now.saturating_duration_since(since))
        })
    }
}

impl Queue {
    pub(super) fn new(salt: u32, bytes_max: usize, next: u64) -> Self {
        let state = State {
            pending: Vec::new(),
            batch: next,
            next,
            durable: next - 1,
            condition: Condition::Accepting,
            closing: false,
            awaited: false,
            pending_since: None,
            writing_since: None,
            syncs: 0,
            noted: next - 1,
            expecting: false,
        };
        Self {
            salt,
            bytes_max,
            state: Mutex::new(state),
            filled: Bell::default(),
            drained: Bell::default(),
            settled: Bell::default(),
        }
    }

    /// The state is whole between any two statements, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn salt(&self) -> u32 {
        self.salt
    }

    /// Queues records and gives the position of the last one: all of them, or on an error none.
    pub(super) fn append<R: AsRef<[u8]>>(
        &self,
        records: &[R],
        haste: Haste,
    ) -> Result<u64, JournalError> {
        let mut bytes = 0;
        for record in records {
            let length = record.as_ref().len();
            if RECORD_BYTES_MAX < length {
                return Err(JournalError::TooLarge { bytes: length, limit: RECORD_BYTES_MAX });
            }
            bytes += length + OVERHEAD;
        }
        let mut state = self.room_for(bytes)?;
        let (was_empty, lingered) = (state.pending.is_empty(), state.may_linger());
        for record in records {
            let (position, batch) = (state.next, state.batch);
            let frame = Frame { position, batch, kind: Kind::Record, payload: record.as_ref() };
            frame::encode(&mut state.pending, self.salt, &frame);
            state.next += 1;
        }
        let last = state.next - 1;
        if state.pending.is_empty() {
            return Ok(last);
        }
        state.awaited |= haste == Haste::Awaited;
        if was_empty {
            state.pending_since = Some(Instant::now());
        }
        if was_empty || state.is_company_complete() || (lingered && !state.may_linger()) {
            self.filled.ring(state);
        }
        Ok(last)
    }

    /// Whoever appends has taken note of what is durable: it has brought what follows from that, or is about
    /// to.
    pub(super) fn note(&self, durable: u64) {
        let mut state = self.lock();
        state.noted = durable.max(state.noted);
        if state.is_company_complete() {
            self.filled.ring(state);
        }
    }

    /// Somebody waits for what was appended before.
    pub(super) fn hasten(&self) {
        let mut state = self.lock();
        if !state.pending.is_empty() && !std::mem::replace(&mut state.awaited, true) {
            self.filled.ring(state);
        }
    }

    /// Waits for room while the disk is merely slow; a full disk is the caller's to know.
    fn room_for(&self, bytes: usize) -> Result<MutexGuard<'_, State>, JournalError> {
        let mut state = self.lock();
        loop {
            if let Condition::Poisoned(_) = state.condition {
                state.condition.check()?;
            }
            if state.pending.is_empty() || state.pending.len() + bytes <= self.bytes_max {
                return Ok(state);
            }
            state.condition.check()?;
            state = self.drained.wait(state);
        }
    }

    /// Waits until a record is durable.
    pub(super) fn wait_durable(&self, position: u64) -> Result<(), JournalError> {
        self.hasten();
        let mut state = self.lock();
        while state.durable < position {
            state.condition.check()?;
            state = self.settled.wait(state);
        }
        Ok(())
    }

    pub(super) fn condition(&self) -> Result<(), JournalError> {
        self.lock().condition.check()
    }

    pub(super) fn durable(&self) -> u64 {
        self.lock().durable
    }

    pub(super) fn next(&self) -> u64 {
        self.lock().next
    }

    pub(super) fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// How long the oldest record that is not durable has been waiting.
    pub(super) fn lag(&self) -> Duration {
        let state = self.lock();
        let since = state.writing_since.or(state.pending_since);
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closing = true;
        self.filled.ring(state);
    }

    /// For the writer: waits for records and takes all there are, leaving an empty buffer in their
    /// place. Nothing when the journal is closing and all is written. `sync` is how long the last one took.
    pub(super) fn take(&self, empty: Vec<u8>, sync: Duration) -> Option<Vec<u8>> {
        assert!(empty.is_empty());
        let mut state = self.lock();
        state.writing_since = None;
        let company = state.waits_for_company(sync);
        if !company.is_zero() {
            state.expecting = true;
            let is_alone = |state: &mut State| state.noted < state.durable && !state.closing;
            state = self.filled.wait_while(state, Some(company), is_alone);
            state.expecting = false;
        }
        let nothing = |state: &mut State| state.pending.is_empty() && !state.closing;
        state = self.filled.wait_while(state, None, nothing);
        let linger = state.lingers_for(Instant::now());
        if !linger.is_zero() {
            state = self.filled.wait_while(state, Some(linger), |state| state.may_linger());
        }
        if state.pending.is_empty() {
            return None;
        }
        state.awaited = false;
        state.batch = state.next;
        state.writing_since = state.pending_since.take();
        let batch = std::mem::replace(&mut state.pending, empty);
        self.drained.ring(state);
        Some(batch)
    }

    /// For the writer: everything up to here is on disk.
    pub(super) fn publish(&self, durable: u64) {
        let mut state = self.lock();
        assert!(state.durable < durable && durable < state.next);
        state.durable = durable;
        state.condition = Condition::Accepting;
        state.syncs += 1;
        self.settled.ring(state);
    }

    /// For the writer: there is no room on the disk.
    pub(super) fn refuse(&self, reason: Arc<str>) {
        self.change(Condition::Full(reason));
    }

    /// For the writer: the disk cannot be trusted any more.
    pub(super) fn poison(&self, reason: Arc<str>) {
        self.change(Condition::Poisoned(reason));
    }

    fn change(&self, condition: Condition) {
        let mut state = self.lock();
        state.condition = condition;
        self.settled.ring(state);
        self.drained.ring(self.lock());
    }

    /// For the writer: lets some time pass. Says whether to go on.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let state = self.filled.wait_while(self.lock(), Some(time), |state| !state.closing);
        !state.closing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue {
        Queue::new(7, 1 << 20, 1)
    }

    fn take(queue: &Queue) -> Option<Vec<u8>> {
        queue.take(Vec::new(), Duration::ZERO)
    }

    /// For how long the pending records linger, if that is looked at some time after they came.
    fn lingers(queue: &Queue, after: Duration) -> Duration {
        let state = queue.lock();
        let since = state.pending_since.expect("something is pending");
        state.lingers_for(since + after)
    }

    #[test]
    fn what_nobody_waits_for_lingers_but_not_for_long() {
        let queue = queue();
        assert_eq!(queue.append(&[b"a"], Haste::Lingering).unwrap(), 1);
        assert_eq!(lingers(&queue, LINGER / 4), LINGER * 3 / 4);
        assert_eq!(lingers(&queue, LINGER), Duration::ZERO);
        assert!(take(&queue).is_some(), "the writer gets it without anyone's waiting");
    }

    #[test]
    fn whoever_waits_for_a_later_record_hastens_the_earlier_ones() {
        let queue = queue();
        queue.append(&[b"a"], Haste::Lingering).unwrap();
        queue.append(&[b"b"], Haste::Awaited).unwrap();
        queue.append(&[b"c"], Haste::Lingering).unwrap();
        assert_eq!(lingers(&queue, Duration::ZERO), Duration::ZERO);
        let batch = take(&queue).unwrap();
        assert_eq!(batch.len(), 3 * (1 + OVERHEAD), "all three are one batch");
        queue.append(&[b"d"], Haste::Lingering).unwrap();
        assert_eq!(lingers(&queue, Duration::ZERO), LINGER, "nobody waits for the next one");
    }

    #[test]
    fn whoever_begins_to_wait_hastens_what_lingers() {
        let queue = queue();
        queue.append(&[b"a"], Haste::Lingering).unwrap();
        queue.hasten();
        assert_eq!(lingers(&queue, Duration::ZERO), Duration::ZERO);
    }

    /// A queue of which the first record is durable, and a later one awaited.
    fn stored_once() -> Queue {
        let queue = queue();
        queue.append(&[b"a"], Haste::Awaited).unwrap();
        assert!(take(&queue).is_some());
        queue.append(&[b"b"], Haste::Awaited).unwrap();
        queue.publish(1);
        queue
    }

    fn company(queue: &Queue, sync: Duration) -> Duration {
        queue.lock().waits_for_company(sync)
    }

    #[test]
    fn a_sync_waits_for_those_that_the_last_one_let_go_on_if_others_wait_for_it_already() {
        let queue = stored_once();
        assert_eq!(company(&queue, COMPANY_MAX), COMPANY_MAX / COMPANY_PART);
        assert_eq!(company(&queue, COMPANY_MAX * 100), COMPANY_MAX);
        queue.note(1);
        assert_eq!(
            company(&queue, COMPANY_MAX),
            Duration::ZERO,
            "they have brought what they have"
        );
    }

    #[test]
    fn a_sync_that_nobody_waits_for_waits_for_nobody() {
        let lingering = queue();
        lingering.append(&[b"a"], Haste::Awaited).unwrap();
        assert!(take(&lingering).is_some());
        lingering.append(&[b"b"], Haste::Lingering).unwrap();
        lingering.publish(1);
        let closing = stored_once();
        closing.close();
        for queue in [lingering, closing] {
            assert_eq!(company(&queue, COMPANY_MAX), Duration::ZERO);
        }
    }

    #[test]
    fn records_of_those_who_have_not_noted_the_last_sync_are_not_all_that_is_waited_for() {
        let queue = stored_once();
        queue.lock().expecting = true;
        queue.append(&[b"c"], Haste::Awaited).unwrap();
        assert!(!queue.lock().is_company_complete());
        queue.note(1);
        assert!(queue.lock().is_company_complete());
    }

    #[test]
    fn much_does_not_linger_and_nothing_does_when_the_journal_closes() {
        let much = queue();
        much.append(&[vec![0; LINGER_BYTES]], Haste::Lingering).unwrap();
        assert_eq!(lingers(&much, Duration::ZERO), Duration::ZERO);
        let closing = queue();
        closing.append(&[b"a"], Haste::Lingering).unwrap();
        closing.close();
        assert_eq!(lingers(&closing, Duration::ZERO), Duration::ZERO);
        assert!(take(&closing).is_some() && take(&closing).is_none());
    }
}
