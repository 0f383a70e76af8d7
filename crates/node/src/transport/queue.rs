//! What waits to be sent to one peer: bounded in number and in bytes.
//!
//! Messages are soft: protocols repeat what matters, and a lost one is legal. When the queue is full,
//! the oldest make room, because the newest say more about how things are; they are counted. And what
//! has waited long for a peer to come back is let go when it does: after a cut, it is told how things
//! are, not how they were.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;

use super::frame::{self, Kind};

/// What a message costs besides its bytes.
const OVERHEAD_BYTES: usize = 64;
/// Messages are written together up to about this many bytes.
const BATCH_BYTES: usize = 128 * 1024;

/// What waits to be sent to one peer.
pub(super) struct Queue {
    messages_max: usize,
    bytes_max: usize,
    state: Mutex<State>,
    filled: Notify,
    written: Notify,
}

#[derive(Default)]
struct State {
    messages: VecDeque<(Instant, Bytes)>,
    bytes: usize,
    /// Whether some were taken out and are not yet written.
    writing: bool,
}

impl Queue {
    pub(super) fn new(messages_max: usize, bytes_max: usize) -> Self {
        let (filled, written) = (Notify::new(), Notify::new());
        Self { messages_max, bytes_max, state: Mutex::default(), filled, written }
    }

    /// Takes messages in; returns how many older ones had to go. The newest always stays.
    pub(super) fn push(&self, messages: impl IntoIterator<Item = Bytes>) -> u64 {
        let mut state = self.state();
        let (now, mut displaced) = (Instant::now(), 0);
        for message in messages {
            state.bytes += cost(&message);
            state.messages.push_back((now, message));
            while 1 < state.messages.len()
                && (self.messages_max < state.messages.len() || self.bytes_max < state.bytes)
            {
                state.pop();
                displaced += 1;
            }
        }
        displaced
    }

    /// Calls whoever writes what waits here.
    pub(super) fn call(&self) {
        self.filled.notify_one();
    }

    /// Waits until called.
    pub(super) async fn called(&self) {
        self.filled.notified().await;
    }

    /// How many bytes wait, about.
    pub(super) fn bytes(&self) -> usize {
        self.state().bytes
    }

    /// Moves messages into a buffer, as frames; returns how many.
    pub(super) fn drain_into(&self, buffer: &mut BytesMut) -> u64 {
        let mut state = self.state();
        let mut count = 0;
        while buffer.len() < BATCH_BYTES {
            let Some(message) = state.pop() else { break };
            frame::put(buffer, Kind::Message, &message);
            count += 1;
        }
        state.writing = 0 < count;
        count
    }

    /// What was moved into a buffer is written, or lost with its connection.
    pub(super) fn note_written(&self) {
        self.state().writing = false;
        self.written.notify_waiters();
    }

    /// Waits until everything is written that was taken in.
    pub(super) async fn all_written(&self) {
        loop {
            let written = self.written.notified();
            tokio::pin!(written);
            // Whatever is written from here on is noticed.
            written.as_mut().enable();
            if self.is_written() {
                return;
            }
            written.await;
        }
    }

    /// Lets go what has waited since before a time; returns how many messages.
    pub(super) fn drop_before(&self, time: Instant) -> u64 {
        let mut state = self.state();
        let mut count = 0;
        while state.messages.front().is_some_and(|(since, _)| *since < time) {
            state.pop();
            count += 1;
        }
        count
    }

    /// Lets everything go; returns how many messages.
    pub(super) fn clear(&self) -> u64 {
        let state = std::mem::take(&mut *self.state());
        state.messages.len() as u64
    }

    /// How many messages wait, and how many bytes they have.
    pub(super) fn level(&self) -> (usize, usize) {
        let state = self.state();
        (state.messages.len(), state.messages.iter().map(|(_, message)| message.len()).sum())
    }

    fn is_written(&self) -> bool {
        let state = self.state();
        state.messages.is_empty() && !state.writing
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn pop(&mut self) -> Option<Bytes> {
        let (_, message) = self.messages.pop_front()?;
        self.bytes -= cost(&message);
        Some(message)
    }
}

fn cost(message: &Bytes) -> usize {
    message.len() + OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: usize) -> Bytes {
        Bytes::from(vec![length as u8; length])
    }

    #[test]
    fn the_oldest_make_room() {
        let queue = Queue::new(3, 1 << 20);
        assert_eq!((1..=5).map(|length| queue.push([message(length)])).sum::<u64>(), 2);
        let mut buffer = BytesMut::new();
        assert_eq!(queue.drain_into(&mut buffer), 3);
        assert_eq!(buffer.len(), 3 * frame::HEADER_BYTES + 3 + 4 + 5);
        assert_eq!(queue.level(), (0, 0));
    }

    #[test]
    fn those_given_together_are_bounded_like_those_given_one_by_one() {
        let queue = Queue::new(3, 1 << 20);
        assert_eq!(queue.push((1..=5).map(message)), 2);
        assert_eq!(queue.level(), (3, 3 + 4 + 5));
        assert_eq!(queue.push([]), 0);
    }

    #[test]
    fn bytes_are_bounded_and_the_newest_stays() {
        let queue = Queue::new(100, 1000);
        (0..10).for_each(|_| _ = queue.push([message(300)]));
        assert_eq!(queue.level(), (2, 600));
        assert_eq!(queue.push([message(5000)]), 2);
        assert_eq!(queue.level(), (1, 5000));
        assert_eq!(queue.clear(), 1);
        assert_eq!(queue.push([message(1)]), 0);
    }

    #[test]
    fn what_has_waited_too_long_is_let_go() {
        let queue = Queue::new(100, 1 << 20);
        queue.push([message(1)]);
        queue.push([message(2)]);
        let later = Instant::now();
        while Instant::now() <= later {}
        queue.push([message(3)]);
        assert_eq!(queue.drop_before(later), 2);
        assert_eq!((queue.level(), queue.drop_before(later)), ((1, 3), 0));
    }

    #[test]
    fn a_batch_is_bounded() {
        let queue = Queue::new(1000, 1 << 30);
        (0..100).for_each(|_| _ = queue.push([message(10_000)]));
        let mut buffer = BytesMut::new();
        assert_eq!(queue.drain_into(&mut buffer), 14);
        assert!(buffer.len() < BATCH_BYTES + 10_000 + frame::HEADER_BYTES);
    }
}
