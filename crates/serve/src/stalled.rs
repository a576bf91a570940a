//! A time limit for connections whose client does not read.
//!
//! HTTP has no deadline for the reader of an answer, and a stalled connection holds its buffers for ever. Writes without progress for a while break
//! the connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A stream whose writes fail after a time without progress.
pub struct Stalled<S> {
    stream: S,
    patience: Duration,
    /// The timer, which runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Stalled<S> {
    /// Creates a stream whose writes may wait for `patience`.
    pub fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, waiting: None }
    }

    /// Polls the timer of a waiting write, and resets it after progress.
    fn watch<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + patience)));
        match waiting.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalled<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalled<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch(cx, written)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch(cx, ended)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// KAPI-SRV-06: who reads slowly is served, who does not read at all is not waited for.
    #[tokio::test(start_paused = true)]
    async fn writes_to_nobody_fail() {
        let (ours, mut theirs) = tokio::io::duplex(10);
        let mut ours = Stalled::new(ours, Duration::from_secs(60));
        let writer = tokio::spawn(async move { (ours.write_all(&[1; 40]).await, ours.write_all(&[2; 40]).await) });
        let mut buffer = [0; 10];
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_secs(50)).await;
            theirs.read_exact(&mut buffer).await.unwrap();
        }
        let (slow, never) = writer.await.unwrap();
        slow.unwrap();
        assert_eq!(never.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
