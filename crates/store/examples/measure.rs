//! What the store costs, without a server: `cargo run -p mainstay-store --profile demo --example measure [DIR]`.
//!
//! Single durable writes, writes by many writers at once, reads, and a restart with 100,000 keys of 1 KiB.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mainstay_store::{Embedded, Expect, Options, Range, Store};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let dir = std::env::args().nth(1).map_or_else(|| std::env::temp_dir().join("mainstay-measure"), Into::into);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("store");
    let value = Bytes::from(vec![b'x'; 1024]);
    let store = Arc::new(Embedded::open(&path, &Options::default()).unwrap());

    let mut times = Vec::new();
    for number in 0..2_000 {
        let begun = Instant::now();
        store.put(&format!("/registry/core/configmaps/default/one-{number}"), value.clone(), Expect::Absent).await.unwrap();
        times.push(begun.elapsed());
    }
    show("put, one writer", times);

    for writers in [16, 64, 256] {
        let begun = Instant::now();
        let each = 64_000 / writers;
        let tasks: Vec<_> = (0..writers)
            .map(|writer| {
                let (store, value) = (store.clone(), value.clone());
                tokio::spawn(async move {
                    let mut times = Vec::with_capacity(each);
                    for number in 0..each {
                        let begun = Instant::now();
                        let key = format!("/registry/core/configmaps/default/many-{writer}-{}", number % 100);
                        store.put(&key, value.clone(), Expect::Any).await.unwrap();
                        times.push(begun.elapsed());
                    }
                    times
                })
            })
            .collect();
        let mut times = Vec::new();
        for task in tasks {
            times.extend(task.await.unwrap());
        }
        let rate = times.len() as f64 / begun.elapsed().as_secs_f64();
        show(&format!("put, {writers} writers ({rate:.0}/s)"), times);
    }

    let mut times = Vec::new();
    for number in 0..20_000 {
        let begun = Instant::now();
        store.get(&format!("/registry/core/configmaps/default/one-{}", number % 2_000)).await.unwrap().0.unwrap();
        times.push(begun.elapsed());
    }
    show("get", times);

    let begun = Instant::now();
    let tasks: Vec<_> = (0..100)
        .map(|writer| {
            let (store, value) = (store.clone(), value.clone());
            tokio::spawn(async move {
                for number in 0..1_000 {
                    store.put(&format!("/registry/core/configmaps/big/{writer}-{number}"), value.clone(), Expect::Any).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    println!("100,000 keys written in {:?}, memory {} KiB", begun.elapsed(), memory());
    let begun = Instant::now();
    let listing = store.list(Range { prefix: "/registry/".into(), ..Range::default() }).await.unwrap();
    println!("{} keys listed in {:?}", listing.items.len(), begun.elapsed());
    println!("{:?}", store.metrics().await.unwrap());
    drop(listing);
    store.close().await;
    drop(store);
    let begun = Instant::now();
    let store = Embedded::open(&path, &Options::default()).unwrap();
    println!("opened again in {:?}, memory {} KiB", begun.elapsed(), memory());
    store.close().await;
}

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort();
    println!("{what}: p50 {:?}, p99 {:?}", times[times.len() / 2], times[times.len() * 99 / 100]);
}

fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
