//! The processor, shared by user: requests are worked on in turns, and what takes long leaves the async workers alone (KAPI-SRV-06).
//!
//! A request is a future; each step of it takes a turn. While there are as many turns as workers nobody waits. When a user asks for more
//! than the processor can do, the turns go round between users, so that somebody else's request waits for one step of theirs, not for all.
//! Work that is known to be long (large bodies, large lists, documents) has turns of its own, fewer than there are processors, and is done
//! beside the async workers, which go on with connections and health checks meanwhile.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use mainstay_serve::fair::{Asked, Fair, Rules, Share};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use crate::caller::Caller;

/// The most requests that may wait for a turn: more than there are, which is bounded elsewhere.
const WAITING: usize = 1 << 20;

/// The processor of one server, and the turns on it.
#[derive(Debug)]
pub struct Processor {
    short: Arc<Fair>,
    long: Arc<Fair>,
}

impl Default for Processor {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        let turns = |count: usize| Fair::new(Rules { capacity: count, share: count, waiting_each: WAITING, waiting: WAITING });
        Self { short: turns(processors.clamp(2, 4)), long: turns(processors.saturating_sub(1).max(1)) }
    }
}

/// The weight of a request's work: long once it was marked so.
#[derive(Debug, Default)]
pub struct Weight(AtomicBool);

impl Weight {
    /// Marks what follows as long: the next step of the request takes its turn among the long ones.
    pub async fn long(&self) {
        if !self.0.swap(true, Ordering::Relaxed) {
            // Not tokio's own: the task is woken at once, and takes its turn among the long ones.
            let mut yielded = false;
            std::future::poll_fn(|cx| {
                if std::mem::replace(&mut yielded, true) {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        }
    }

    fn is_long(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Processor {
    /// Works on a request in turns.
    pub fn share<'a, F: Future>(&'a self, caller: &'a Caller, weight: &'a Weight, work: Pin<&'a mut F>) -> Sharing<'a, F> {
        Sharing { processor: self, caller, weight, work, wait: None, turn: None }
    }
}

/// A request that is worked on in turns.
pub struct Sharing<'a, F> {
    processor: &'a Processor,
    caller: &'a Caller,
    weight: &'a Weight,
    work: Pin<&'a mut F>,
    wait: Option<oneshot::Receiver<Share>>,
    turn: Option<Share>,
}

impl<F: Future> Future for Sharing<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let long = this.weight.is_long();
        if !this.caller.exempt && this.turn.is_none() {
            let given = match this.wait.take() {
                Some(wait) => Asked::Wait(wait),
                None => (if long { &this.processor.long } else { &this.processor.short }).ask(&this.caller.user, 1),
            };
            match given {
                Asked::Granted(turn) => this.turn = Some(turn),
                Asked::Wait(mut wait) => match Pin::new(&mut wait).poll(cx) {
                    // The sender lives as long as the turns, which live as long as this.
                    Poll::Ready(turn) => this.turn = turn.ok(),
                    Poll::Pending => {
                        this.wait = Some(wait);
                        return Poll::Pending;
                    }
                },
                // As many as fit into memory wait already: whoever comes now is not kept out.
                Asked::Full => {}
            }
        }
        let step = if long { aside(|| this.work.as_mut().poll(cx)) } else { this.work.as_mut().poll(cx) };
        this.turn = None;
        step
    }
}

/// Does something that takes long where the async workers do not wait for it.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    // Only a runtime of several workers can give the others of a worker's tasks to another thread.
    let several = Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if several { tokio::task::block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn caller(user: &str) -> Caller {
        Caller { user: user.into(), exempt: false, place: None }
    }

    /// KAPI-SRV-06: one user with many requests, each of many steps, does not keep another one's waiting for more than a few of them.
    #[tokio::test]
    async fn another_user_waits_for_one_step() {
        let one = || Fair::new(Rules { capacity: 1, share: 1, waiting_each: WAITING, waiting: WAITING });
        let processor = Arc::new(Processor { short: one(), long: one() });
        let steps = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let run = |user: &'static str, count: usize| {
            let (processor, steps) = (processor.clone(), steps.clone());
            async move {
                let work = async {
                    for _ in 0..count {
                        steps.fetch_add(1, Ordering::Relaxed);
                        tokio::task::yield_now().await;
                    }
                };
                let (caller, weight) = (caller(user), Weight::default());
                processor.share(&caller, &weight, std::pin::pin!(work)).await;
            }
        };
        // Its turn is held meanwhile, so that everything waits.
        let Asked::Granted(held) = processor.short.ask(&"holder".into(), 1) else { unreachable!() };
        let many: Vec<_> = (0..100).map(|_| tokio::spawn(run("many", 100))).collect();
        tokio::task::yield_now().await;
        let few = tokio::spawn(run("few", 3));
        tokio::task::yield_now().await;
        drop(held);
        few.await.unwrap();
        let before = steps.load(Ordering::Relaxed);
        // Four steps; the runtime looks at tasks that yielded every 61 others.
        assert!(before < 1_000, "{before} of 10,000 steps came first");
        for task in many {
            task.await.unwrap();
        }
        assert_eq!(steps.load(Ordering::Relaxed), 10_003);
    }

    /// KAPI-SRV-06: work that is long goes on beside the workers: theirs is not kept waiting.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn long_work_leaves_the_workers_alone() {
        let processor = Arc::new(Processor::default());
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let told = std::sync::Mutex::new(told);
        let blocked = tokio::spawn({
            let processor = processor.clone();
            async move {
                let (caller, weight) = (caller("a"), Weight::default());
                let work = async {
                    weight.long().await;
                    told.lock().unwrap().recv().unwrap();
                };
                processor.share(&caller, &weight, std::pin::pin!(work)).await;
            }
        });
        // The only worker is free to run this, which ends the wait of the other.
        tokio::spawn(async move { tell.send(()).unwrap() }).await.unwrap();
        blocked.await.unwrap();
    }
}
