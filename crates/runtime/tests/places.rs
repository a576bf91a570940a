//! Reconciles that take long, and the others.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use mainstay_runtime::{Env, Outcome, Queue, run};
use tokio_util::sync::CancellationToken;

/// Four reconciles that never end hold nobody: the others are worked on, and each key is still worked on once at a time.
#[tokio::test(start_paused = true)]
async fn what_takes_long_gives_its_place_to_others() {
    let (queue, stop) = (Queue::default(), CancellationToken::new());
    for key in 0..104_u32 {
        queue.add(key);
    }
    let done: Arc<Mutex<Vec<u32>>> = Arc::default();
    let (seen, ended) = (done.clone(), stop.clone());
    let reconcile = move |key: u32| {
        let (seen, ended) = (seen.clone(), ended.clone());
        async move {
            if key < 4 {
                ended.cancelled().await;
            }
            let all = {
                let mut seen = seen.lock().unwrap();
                seen.push(key);
                seen.len()
            };
            if all == 100 {
                ended.cancel();
            }
            Ok::<_, std::fmt::Error>(Outcome::Done)
        }
    };
    run("test", queue, 4, Env::system(), stop, reconcile).await;
    let mut done = done.lock().unwrap().clone();
    assert!(done[..100].iter().all(|key| *key >= 4), "{done:?}");
    done.sort_unstable();
    assert_eq!(done, (0..104).collect::<Vec<_>>());
}
