//! Frames: how messages lie on a connection.
//!
//! ```text
//! length of the payload   4 bytes, big-endian
//! kind                    1 byte
//! payload                 as many bytes as were announced
//! ```
//!
//! The length is checked before room is made for it, and room is made only for what has arrived. A
//! kind that is not known, or a length beyond the bound, ends the connection.

use std::io;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes before each payload.
pub(super) const HEADER_BYTES: usize = 5;
/// How much is read at a time. A message keeps alive what it was read with, so this is not more than
/// one record of TLS.
const READ_BYTES: usize = 16 * 1024;

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The first frame of either side.
    Hello = 1,
    /// Nothing, but in time.
    Heartbeat = 2,
    /// A message for the engine.
    Message = 3,
    /// Why there will be no conversation.
    Refused = 4,
    /// Of someone who has a token.
    JoinRequest = 5,
    /// What such a one is told.
    JoinAnswer = 6,
}

impl Kind {
    const fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Hello,
            2 => Self::Heartbeat,
            3 => Self::Message,
            4 => Self::Refused,
            5 => Self::JoinRequest,
            6 => Self::JoinAnswer,
            _ => return None,
        })
    }
}

/// A frame that has arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) payload: Bytes,
}

/// Why there is no further frame.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("the connection was closed")]
    Closed,
    #[error("nothing was heard for {0:?}")]
    Silent(Duration),
    #[error("a frame of {length} bytes, and {max} are allowed")]
    TooLarge { length: usize, max: usize },
    #[error("a frame of the unknown kind {0}")]
    UnknownKind(u8),
    #[error("the connection broke")]
    Io(#[source] io::Error),
}

impl From<io::Error> for FrameError {
    /// A process that ends closes its connections without a word of goodbye in TLS. Frames say how
    /// long they are, so nothing can be taken for whole that was cut short.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

impl FrameError {
    /// Whether the other end has broken the rules, rather than gone away.
    pub(super) const fn is_garbage(&self) -> bool {
        matches!(self, Self::TooLarge { .. } | Self::UnknownKind(_))
    }
}

/// Appends a frame.
pub(crate) fn put(buffer: &mut BytesMut, kind: Kind, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("payloads are bounded far below 4 GiB");
    buffer.reserve(HEADER_BYTES + payload.len());
    buffer.put_u32(length);
    buffer.put_u8(kind as u8);
    buffer.put_slice(payload);
}

/// Reads frames.
pub(crate) struct FrameReader<R> {
    reader: R,
    buffer: BytesMut,
    /// The longest payload.
    bytes_max: usize,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(crate) fn new(reader: R, bytes_max: usize) -> Self {
        Self { reader, buffer: BytesMut::new(), bytes_max }
    }

    /// Allows other lengths from now on.
    pub(super) const fn allow(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// The next frame; any byte that arrives breaks the silence.
    pub(crate) async fn next(&mut self, silence_max: Duration) -> Result<Frame, FrameError> {
        loop {
            if let Some(frame) = self.take()? {
                return Ok(frame);
            }
            self.buffer.reserve(READ_BYTES);
            let reading = self.reader.read_buf(&mut self.buffer);
            let read = tokio::time::timeout(silence_max, reading)
                .await
                .map_err(|_| FrameError::Silent(silence_max))??;
            if read == 0 {
                return Err(FrameError::Closed);
            }
        }
    }

    /// A frame that is there already.
    fn take(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(header) = self.buffer.get(..HEADER_BYTES) else { return Ok(None) };
        let length = u32::from_be_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let kind = Kind::of(header[4]).ok_or(FrameError::UnknownKind(header[4]))?;
        if self.bytes_max < length {
            return Err(FrameError::TooLarge { length, max: self.bytes_max });
        }
        if self.buffer.len() < HEADER_BYTES + length {
            return Ok(None);
        }
        self.buffer.advance(HEADER_BYTES);
        Ok(Some(Frame { kind, payload: self.buffer.split_to(length).freeze() }))
    }

    #[cfg(test)]
    fn room(&self) -> usize {
        self.buffer.capacity()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use proptest::prelude::*;
    use tokio::io::{AsyncWriteExt, ReadBuf};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    /// Reads what was sent in pieces.
    async fn read(pieces: Vec<Vec<u8>>, bytes_max: usize) -> (Vec<Frame>, FrameError) {
        let (mut sender, receiver) = tokio::io::duplex(64);
        let sending = tokio::spawn(async move {
            for piece in pieces {
                if sender.write_all(&piece).await.is_err() {
                    return;
                }
            }
        });
        let mut reader = FrameReader::new(receiver, bytes_max);
        let mut frames = Vec::new();
        let error = loop {
            match reader.next(SECOND).await {
                Ok(frame) => frames.push(frame),
                Err(error) => break error,
            }
        };
        sending.abort();
        (frames, error)
    }

    proptest! {
        #[test]
        fn frames_are_read_back_however_they_are_cut(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8),
            piece in 1..50usize,
        ) {
            let mut bytes = BytesMut::new();
            payloads.iter().for_each(|payload| put(&mut bytes, Kind::Message, payload));
            let pieces = bytes.chunks(piece).map(<[u8]>::to_vec).collect();
            let (frames, error) = runtime().block_on(read(pieces, 200));
            let read: Vec<_> = frames.iter().map(|frame| frame.payload.to_vec()).collect();
            prop_assert_eq!(read, payloads);
            prop_assert!(matches!(error, FrameError::Closed));
        }

        #[test]
        fn any_bytes_end_in_an_error_and_not_in_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let (frames, _) = runtime().block_on(read(vec![bytes], 100));
            prop_assert!(frames.iter().all(|frame| frame.payload.len() <= 100));
        }
    }

    /// The end of a connection without a goodbye, as TLS tells it.
    struct Gone;

    impl AsyncRead for Gone {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let said = "peer closed connection without sending TLS close_notify: https://docs.rs";
            Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, said)))
        }
    }

    #[test]
    fn an_end_without_a_goodbye_is_an_end() {
        let error = runtime().block_on(FrameReader::new(Gone, 8).next(SECOND)).unwrap_err();
        assert!(matches!(error, FrameError::Closed), "{error:?}");
        let reset = FrameError::from(io::Error::from(io::ErrorKind::ConnectionReset));
        assert!(matches!(reset, FrameError::Io(_)), "that is none");
    }

    #[test]
    fn an_oversized_length_is_refused_before_room_is_made() {
        runtime().block_on(async {
            let (mut sender, receiver) = tokio::io::duplex(1024);
            let mut reader = FrameReader::new(receiver, 8 * 1024 * 1024);
            sender.write_all(&[0xff, 0xff, 0xff, 0xff, Kind::Message as u8, 1, 2]).await.unwrap();
            let error = reader.next(SECOND).await.unwrap_err();
            assert!(matches!(error, FrameError::TooLarge { .. }), "{error}");
            assert!(error.is_garbage());
            assert!(reader.room() <= 2 * READ_BYTES, "{}", reader.room());
        });
    }

    #[test]
    fn an_announced_frame_takes_no_more_room_than_has_arrived() {
        runtime().block_on(async {
            let (mut sender, receiver) = tokio::io::duplex(1024);
            let mut reader = FrameReader::new(receiver, 8 * 1024 * 1024);
            let announced = (8 * 1024 * 1024_u32).to_be_bytes();
            sender.write_all(&announced).await.unwrap();
            sender.write_all(&[Kind::Message as u8]).await.unwrap();
            let error = reader.next(Duration::from_millis(20)).await.unwrap_err();
            assert!(matches!(error, FrameError::Silent(_)), "{error}");
            assert!(reader.room() <= 2 * READ_BYTES, "{}", reader.room());
        });
    }
}
