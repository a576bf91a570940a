//! A process that runs the controllers: its clock, its end, and who follows it.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};

use mainstay_olm_v1::Setup;
use mainstay_runtime::{Clock, Env};
use tokio_util::sync::CancellationToken;

use super::wire::{Fault, Wire};

/// How wrong a machine's clock is.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// By so many seconds.
    pub off: i64,
    /// Somebody sets it by further seconds after it was looked at so often.
    pub jump: (usize, i64),
}

impl Clocks {
    pub const RIGHT: Self = Self { off: 0, jump: (0, 0) };
}

struct Wrong {
    by: Clocks,
    looks: AtomicUsize,
}

impl Clock for Wrong {
    fn now(&self) -> jiff::Timestamp {
        let jumped = self.looks.fetch_add(1, Ordering::SeqCst) >= self.by.jump.0;
        let seconds = self.by.off + if jumped { self.by.jump.1 } else { 0 };
        jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds)
    }
}

/// A clock that is so wrong, and chance.
pub fn env(clocks: Clocks, seed: u64) -> Env {
    Env::new(Wrong { by: clocks, looks: AtomicUsize::default() }, seed)
}

/// The controllers of one process.
pub struct Process {
    running: tokio::task::JoinHandle<()>,
    stop: CancellationToken,
}

impl Process {
    /// What a process that was killed in the middle was doing on a thread for blocking work goes on, as a real kill would not have it: files that
    /// vanish while its caches are looked at are looked at again.
    pub fn start(settings: impl Fn() -> Setup) -> Self {
        let stop = CancellationToken::new();
        let mut tries = 0;
        let ready = loop {
            match settings().open() {
                Ok(ready) => break ready,
                Err(error) => {
                    tries += 1;
                    assert!(tries < 1_000 && mainstay_diagnostics::chain(&error).contains("No such file"), "{error:?}");
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            }
        };
        Self { running: tokio::spawn(ready.run(stop.clone())), stop }
    }

    pub async fn end(self) {
        self.stop.cancel();
        self.running.await.unwrap();
    }

    /// Ends, or is killed where a last write after the goal is the one at which it is to be.
    pub async fn end_over(mut self, wire: &Wire) {
        self.stop.cancel();
        tokio::select! {
            ended = &mut self.running => ended.unwrap(),
            () = wire.over.notified() => self.kill().await,
        }
    }

    /// Whatever runs of it is dropped where it stands.
    pub async fn kill(self) {
        self.running.abort();
        let _ = self.running.await;
        self.stop.cancel();
    }
}

/// Runs a process on a faulty wire until the goal is reached, or it is killed or replaced: then another one reaches it. True where the
/// writes of a replaced one came after all that, so that the next reconcile has to look. `start` is told which process it is, from 0, and
/// gives the third one a right clock.
pub async fn chain<G, F>(fault: Fault, start: impl Fn(Option<&Wire>, usize) -> Process, goal: G) -> bool
where
    G: Fn() -> F,
    F: Future<Output = ()>,
{
    let wire = Wire::new(fault);
    let first = start(Some(&wire), 0);
    let over = tokio::select! {
        () = wire.over.notified() => true,
        () = goal() => false,
    };
    if !over {
        first.end_over(&wire).await;
        // A fault may have met the look after the last change: the next one tells.
        let next = start(None, 2);
        goal().await;
        next.end().await;
        return false;
    }
    let replaced = matches!(fault, Fault::Replaced { .. });
    let mut first = Some(first);
    if !replaced {
        first.take().unwrap().kill().await;
    }
    let second = start(None, 1);
    goal().await;
    if let Some(first) = first {
        // The writes of the old leader arrive now; then it notices that it is none any more.
        wire.release();
        first.end().await;
    }
    second.end().await;
    replaced
}
