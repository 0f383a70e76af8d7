//! A connection that stands, from either end: frames one way, heartbeats both ways.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;

use super::frame::{self, Frame, FrameError, FrameReader, Kind};
use super::hello;

/// A connection, read and written by frames.
pub(crate) struct Connection<S> {
    pub(super) reader: FrameReader<ReadHalf<S>>,
    pub(super) writer: WriteHalf<S>,
}

impl<S: AsyncRead + AsyncWrite> Connection<S> {
    /// One that has not yet been greeted on: only short frames are taken.
    pub(crate) fn new(stream: S) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self { reader: FrameReader::new(reader, hello::BYTES_MAX), writer }
    }

    /// Sends one frame now.
    pub(crate) async fn send(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        let mut buffer = BytesMut::new();
        frame::put(&mut buffer, kind, payload);
        self.writer.write_all(&buffer).await?;
        self.writer.flush().await
    }

    /// The next frame.
    pub(crate) async fn next(&mut self, silence_max: Duration) -> Result<Frame, FrameError> {
        self.reader.next(silence_max).await
    }

    /// Takes longer frames from now on.
    pub(crate) const fn allow(&mut self, bytes_max: usize) {
        self.reader.allow(bytes_max);
    }

    /// Says that nothing more will come.
    pub(crate) async fn finish(mut self) {
        // Whoever has all it needs may be gone by now.
        let _ = self.writer.shutdown().await;
    }
}

/// Sets a socket up: small frames leave at once.
///
/// `TCP_USER_TIMEOUT` is not set: it would also end connections whose other end takes its time to
/// read, and our own heartbeats notice a cut as soon.
pub(super) fn prepare(stream: &TcpStream) {
    // Without it, connections only work less well.
    let _ = stream.set_nodelay(true);
}

/// Sends heartbeats and nothing else, until the connection breaks.
pub(super) async fn keep_alive<S: AsyncRead + AsyncWrite>(
    writer: &mut WriteHalf<S>,
    pause: Duration,
) -> io::Error {
    let mut heartbeat = BytesMut::new();
    frame::put(&mut heartbeat, Kind::Heartbeat, &[]);
    loop {
        let written = async {
            writer.write_all(&heartbeat).await?;
            writer.flush().await
        };
        if let Err(error) = written.await {
            return error;
        }
        tokio::time::sleep(pause).await;
    }
}
