//! Fair sharing of the processor between the users of connections.
//!
//! A step of a connection decrypts the bytes of its socket, parses them into requests or frames, and writes answers. Each step takes a turn. While
//! there are as many turns as steps, no connection waits. Beyond that, users take turns, and unknown users by their address. So a thousand
//! connections of one user wait for each other, and another user waits for a single one of their steps. A step reads a bounded number of bytes, so
//! that steps are short for every kind of frame. Connections with reserved places never wait.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

use crate::fair::{Asked, Fair, Rules, Share};
use crate::places::Seat;

/// Bytes that a step reads before the next turn; a started read is completed.
const PORTION: usize = 16 << 10;
/// Connections that may wait for a turn: more than there are places.
const WAITING: usize = 1 << 20;

/// The turns of a listener.
#[derive(Debug)]
pub(crate) struct Steps(Arc<Fair>);

impl Default for Steps {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        Self::new(processors.clamp(2, 4))
    }
}

impl Steps {
    fn new(turns: usize) -> Self {
        Self(Fair::new(Rules { capacity: turns, share: turns, waiting_each: WAITING, waiting: WAITING }))
    }

    /// Runs the work of a connection in steps.
    pub fn take<'a, F: Future>(&'a self, seat: &'a Seat, portion: &'a Portion, work: Pin<&'a mut F>) -> InSteps<'a, F> {
        InSteps { steps: self, seat, portion, work, wait: None }
    }
}

/// The bytes that a connection may still read in the step in progress. Outside of steps there is no limit.
#[derive(Debug)]
pub(crate) struct Portion(AtomicUsize);

impl Default for Portion {
    fn default() -> Self {
        Self(AtomicUsize::new(usize::MAX))
    }
}

impl Portion {
    fn is_eaten(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    fn eat(&self, bytes: usize) {
        let left = self.0.load(Ordering::Relaxed);
        if left != usize::MAX {
            self.0.store(left.saturating_sub(bytes), Ordering::Relaxed);
        }
    }
}

/// Work that is done in steps, each of which takes a turn.
pub(crate) struct InSteps<'a, F> {
    steps: &'a Steps,
    seat: &'a Seat,
    portion: &'a Portion,
    work: Pin<&'a mut F>,
    wait: Option<oneshot::Receiver<Share>>,
}

impl<F: Future> Future for InSteps<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let mut turn = None;
        if let Some(user) = this.seat.sharer() {
            let asked = match this.wait.take() {
                Some(wait) => Asked::Wait(wait),
                None => this.steps.0.ask(&user, 1),
            };
            match asked {
                Asked::Granted(share) => turn = Some(share),
                Asked::Wait(mut wait) => match Pin::new(&mut wait).poll(cx) {
                    // The sender lives as long as the turns, which outlive this wait.
                    Poll::Ready(share) => turn = share.ok(),
                    Poll::Pending => {
                        this.wait = Some(wait);
                        return Poll::Pending;
                    }
                },
                // There are more connections than places: a new one is still served.
                Asked::Full => {}
            }
        }
        this.portion.0.store(PORTION, Ordering::Relaxed);
        let step = this.work.as_mut().poll(cx);
        this.portion.0.store(usize::MAX, Ordering::Relaxed);
        drop(turn);
        step
    }
}

/// A stream with bounded reads in each step.
pub(crate) struct Portioned<S> {
    stream: S,
    portion: Arc<Portion>,
}

impl<S> Portioned<S> {
    /// Creates a stream that reads at most a portion in a step.
    pub fn new(stream: S, portion: Arc<Portion>) -> Self {
        Self { stream, portion }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Portioned<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.portion.is_eaten() {
            // More data may be available: the next step begins as soon as it has a turn.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.portion.eat(buf.filled().len().saturating_sub(before));
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Portioned<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::places::Places;

    /// KAPI-SRV-06: a hundred connections of one user that have much to say wait for each other, and another one's for a step or two; the
    /// administrator's for none.
    #[tokio::test]
    async fn another_users_connection_waits_for_one_step() {
        let (steps, places, read) = (Arc::new(Steps::new(1)), Places::new(200, 1 << 20), Arc::new(AtomicUsize::new(0)));
        let connection = |name: &'static str, bytes: usize| {
            let (steps, read, place) = (steps.clone(), read.clone(), places.enter(std::net::Ipv4Addr::LOCALHOST.into()).unwrap());
            place.claim(&name.into(), name == "admin");
            async move {
                let (mut ours, theirs) = tokio::io::duplex(1 << 20);
                ours.write_all(&vec![7; bytes]).await.unwrap();
                drop(ours);
                let portion = Arc::new(Portion::default());
                let mut theirs = Portioned::new(theirs, portion.clone());
                let work = async {
                    let mut buffer = vec![0; 4 << 10];
                    while theirs.read(&mut buffer).await.unwrap() > 0 {
                        read.fetch_add(1, Ordering::Relaxed);
                    }
                };
                steps.take(place.seat(), &portion, std::pin::pin!(work)).await;
            }
        };
        // The only turn is held meanwhile, so that everybody waits.
        let Asked::Granted(held) = steps.0.ask(&"holder".into(), 1) else { unreachable!() };
        connection("admin", 4 << 10).await;
        assert_eq!(read.swap(0, Ordering::Relaxed), 1);
        let many: Vec<_> = (0..100).map(|_| tokio::spawn(connection("many", 256 << 10))).collect();
        tokio::task::yield_now().await;
        let few = tokio::spawn(connection("few", 4 << 10));
        tokio::task::yield_now().await;
        drop(held);
        few.await.unwrap();
        let before = read.load(Ordering::Relaxed);
        // Three steps of four reads each; the runtime looks at tasks that it was told of every 61 others.
        assert!(before < 400, "{before} of 6,400 reads came first");
        for task in many {
            task.await.unwrap();
        }
        assert_eq!(read.load(Ordering::Relaxed), 6_401);
    }
}
