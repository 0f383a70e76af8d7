//! The end of a connection that is written to, by whoever has something for the peer.
//!
//! Whoever gives a message writes it out at once, as far as the socket takes it without waiting: handing it to
//! a task would cost both a switch between threads, and that is more than the writing. What the socket does not take
//! is left to the connection's task, and so is what comes while that has something left.

use std::io;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use tokio::io::AsyncWrite;

use super::frame::{self, Kind};
use super::queue::Queue;
use super::statistics::PeerCounters;

/// A buffer that has grown beyond this is not kept.
const BUFFER_BYTES_KEPT: usize = 1024 * 1024;
/// With more than this waiting, the connection's task does the work: it has the time.
const AT_ONCE_BYTES_MAX: usize = 64 * 1024;

type Writer = Pin<Box<dyn AsyncWrite + Send>>;

/// Where messages for a peer leave, while it is connected.
#[derive(Default)]
pub(super) struct Outlet(Mutex<Option<Writing>>);

/// What is being written.
struct Writing {
    writer: Writer,
    buffer: BytesMut,
    /// How many messages were put into the buffer.
    count: u64,
    /// Whether what was written may still be on its way to the socket.
    is_unflushed: bool,
    /// Whether the connection's task was left with something.
    is_left_to_task: bool,
    /// When all was written that there was.
    last: Instant,
}

/// An outlet that is open until this is dropped.
pub(super) struct Open<'a>(&'a Outlet);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

impl Outlet {
    /// Opens it onto a connection.
    pub(super) fn open(&self, writer: impl AsyncWrite + Send + 'static) -> Open<'_> {
        *self.lock() = Some(Writing {
            writer: Box::pin(writer),
            buffer: BytesMut::new(),
            count: 0,
            is_unflushed: false,
            is_left_to_task: false,
            last: Instant::now(),
        });
        Open(self)
    }

    /// Writes what waits as far as that needs no waiting, and leaves the rest to the connection's task.
    pub(super) fn write_at_once(&self, queue: &Queue, counters: &PeerCounters) {
        let mut open = match self.0.try_lock() {
            Ok(open) => open,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Whoever writes now may have looked at the queue before.
            Err(TryLockError::WouldBlock) => return queue.call(),
        };
        // Without a connection it waits for one.
        let Some(writing) = open.as_mut().filter(|writing| !writing.is_left_to_task) else {
            return;
        };
        let waits = AT_ONCE_BYTES_MAX < queue.bytes()
            || !matches!(
                writing.poll(queue, counters, &mut Context::from_waker(Waker::noop())),
                Poll::Ready(Ok(()))
            );
        if waits {
            writing.is_left_to_task = true;
            drop(open);
            queue.call();
        }
    }

    /// For the connection's task: writes all that waits.
    pub(super) fn poll(
        &self,
        queue: &Queue,
        counters: &PeerCounters,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut open = self.lock();
        let writing = open.as_mut().expect("its task has it open");
        ready!(writing.poll(queue, counters, context))?;
        writing.is_left_to_task = false;
        Poll::Ready(Ok(()))
    }

    /// For the connection's task, when it has written all there was: has a heartbeat written next, if nothing was for
    /// so long. Says when that is to be looked at again.
    pub(super) fn beat_after(&self, silence: Duration) -> Instant {
        let mut open = self.lock();
        let writing = open.as_mut().expect("its task has it open");
        let due = writing.last + silence;
        if due <= Instant::now() && writing.buffer.is_empty() {
            frame::put(&mut writing.buffer, Kind::Heartbeat, &[]);
            writing.is_left_to_task = true;
        }
        due
    }

    fn lock(&self) -> MutexGuard<'_, Option<Writing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writing {
    /// Writes what is left of the buffer, then what waits, until nothing does.
    fn poll(
        &mut self,
        queue: &Queue,
        counters: &PeerCounters,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.buffer.is_empty() && !self.is_unflushed {
                self.count = queue.drain_into(&mut self.buffer);
                if self.count == 0 {
                    return Poll::Ready(Ok(()));
                }
            }
            while !self.buffer.is_empty() {
                let written = ready!(self.writer.as_mut().poll_write(context, &self.buffer))?;
                if written == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.buffer.advance(written);
                self.is_unflushed = true;
            }
            ready!(self.writer.as_mut().poll_flush(context))?;
            self.is_unflushed = false;
            self.last = Instant::now();
            queue.note_written();
            counters.sent.add(std::mem::take(&mut self.count));
            self.buffer.clear();
            if BUFFER_BYTES_KEPT < self.buffer.capacity() {
                self.buffer = BytesMut::new();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use bytes::Bytes;
    use tokio::io::{AsyncReadExt, DuplexStream, duplex};

    use super::*;

    struct Line {
        outlet: Outlet,
        queue: Queue,
        counters: PeerCounters,
    }

    impl Line {
        fn new() -> Self {
            let queue = Queue::new(1000, 1 << 20);
            Self { outlet: Outlet::default(), queue, counters: PeerCounters::default() }
        }

        /// As whoever has something for the peer does.
        fn send(&self, message: &'static [u8]) {
            self.queue.push([Bytes::from_static(message)]);
            self.outlet.write_at_once(&self.queue, &self.counters);
        }

        /// As the connection's task does.
        async fn write(&self) -> io::Result<()> {
            poll_fn(|context| self.outlet.poll(&self.queue, &self.counters, context)).await
        }
    }

    fn frames(kind: Kind, payloads: &[&[u8]]) -> Vec<u8> {
        let mut bytes = BytesMut::new();
        payloads.iter().for_each(|payload| frame::put(&mut bytes, kind, payload));
        bytes.to_vec()
    }

    async fn read(end: &mut DuplexStream, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        end.read_exact(&mut bytes).await.unwrap();
        bytes
    }

    #[tokio::test]
    async fn whoever_gives_a_message_writes_it() {
        let line = Line::new();
        let (ours, mut theirs) = duplex(1024);
        let open = line.outlet.open(ours);
        line.send(b"one");
        line.send(b"two");
        let expected = frames(Kind::Message, &[b"one", b"two"]);
        assert_eq!(read(&mut theirs, expected.len()).await, expected);
        assert_eq!((line.counters.sent.get(), line.queue.level()), (2, (0, 0)));
        drop(open);
        line.send(b"three");
        assert_eq!(line.queue.level().0, 1, "without a connection it waits for one");
    }

    #[tokio::test]
    async fn what_the_socket_does_not_take_is_left_to_the_task_and_so_is_what_comes_then() {
        let line = Line::new();
        let (ours, mut theirs) = duplex(8);
        let _open = line.outlet.open(ours);
        line.send(b"longer than eight bytes");
        line.queue.called().await;
        line.send(b"next");
        assert_eq!((line.counters.sent.get(), line.queue.level().0), (0, 1));
        let expected = frames(Kind::Message, &[b"longer than eight bytes", b"next"]);
        let (written, bytes) = tokio::join!(line.write(), read(&mut theirs, expected.len()));
        written.unwrap();
        assert_eq!(bytes, expected);
        assert_eq!(line.counters.sent.get(), 2);
        line.send(b"3");
        assert_eq!(line.counters.sent.get(), 3, "the task is done, and this fits");
    }

    #[tokio::test]
    async fn whoever_has_much_leaves_it_to_the_task() {
        static MUCH: [u8; AT_ONCE_BYTES_MAX + 1] = [7; AT_ONCE_BYTES_MAX + 1];
        let line = Line::new();
        let (ours, _theirs) = duplex(1 << 20);
        let _open = line.outlet.open(ours);
        line.send(&MUCH);
        assert_eq!(line.queue.level().0, 1);
        line.queue.called().await;
        line.write().await.unwrap();
        assert_eq!((line.counters.sent.get(), line.queue.level().0), (1, 0));
    }

    #[tokio::test]
    async fn a_heartbeat_is_written_after_silence_only() {
        let line = Line::new();
        let (ours, mut theirs) = duplex(1024);
        let _open = line.outlet.open(ours);
        let hour = Duration::from_secs(3600);
        assert!(Instant::now() < line.outlet.beat_after(hour));
        line.write().await.unwrap();
        line.outlet.beat_after(Duration::ZERO);
        line.send(b"waits for the heartbeat");
        line.write().await.unwrap();
        let heartbeat = frames(Kind::Heartbeat, &[b""]);
        assert_eq!(read(&mut theirs, heartbeat.len()).await, heartbeat);
        let message = frames(Kind::Message, &[b"waits for the heartbeat"]);
        assert_eq!(read(&mut theirs, message.len()).await, message);
    }

    #[tokio::test]
    async fn the_task_learns_of_a_broken_connection() {
        let line = Line::new();
        let (ours, theirs) = duplex(1024);
        let _open = line.outlet.open(ours);
        drop(theirs);
        line.send(b"lost");
        line.queue.called().await;
        line.queue.push([Bytes::from_static(b"lost, too")]);
        assert!(line.write().await.is_err());
    }
}
