//! Work beside the workers: it holds nobody, ends in time, and wakes who asked.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mainstay_runtime::Key;
use mainstay_runtime::jobs::{Asked, Jobs, Terms};
use tokio::time::Instant;

const TERMS: Terms = Terms { deadline: Duration::from_secs(60), fresh: Duration::ZERO };

fn who(name: &str) -> Key {
    Key::new("", name)
}

fn jobs(terms: Terms) -> (Arc<Jobs<String>>, Arc<Mutex<Vec<String>>>) {
    let jobs = Arc::new(Jobs::new(terms, |_| "overdue".to_owned()));
    let woken: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = woken.clone();
    jobs.wake_by(move |key| told.lock().unwrap().push(key.name));
    (jobs, woken)
}

async fn after(seconds: u64, text: &'static str) -> String {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    text.to_owned()
}

/// What is there at once is had at once, and nobody is woken for it; what takes longer holds nobody, is done once for all
/// who ask, wakes them, and is asked for anew afterwards.
#[tokio::test(start_paused = true)]
async fn a_job_holds_nobody() {
    let (jobs, woken) = jobs(TERMS);
    assert_eq!(jobs.ask("near", "r", &who("a"), || after(0, "here")).await, Asked::Ended("here".to_owned()));
    let begun = Instant::now();
    for name in ["a", "b"] {
        assert!(matches!(jobs.ask("far", "r", &who(name), || after(20, "far")).await, Asked::Running(_)), "{name}");
    }
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert!(woken.lock().unwrap().is_empty());
    tokio::time::sleep(Duration::from_secs(21)).await;
    let mut names = std::mem::take(&mut *woken.lock().unwrap());
    names.sort();
    assert_eq!(names, ["a", "b"]);
    for name in ["a", "b"] {
        assert_eq!(jobs.ask("far", "r", &who(name), || after(20, "again")).await, Asked::Ended("far".to_owned()));
    }
    assert!(matches!(jobs.ask("far", "r", &who("a"), || after(20, "again")).await, Asked::Running(_)));
}

/// A job without end is given up at its deadline, a panic is an end, and one origin takes no places of another.
#[tokio::test(start_paused = true)]
async fn what_never_ends_is_given_up() {
    let (jobs, woken) = jobs(TERMS);
    for at in 0..20 {
        let name = format!("stall-{at}");
        assert!(matches!(jobs.ask(&name, "bad", &who(&name), std::future::pending).await, Asked::Running(_)));
    }
    assert_eq!(jobs.ask("good", "good", &who("good"), || after(0, "fine")).await, Asked::Ended("fine".to_owned()));
    let panics = || async { if true { panic!("as the test wants it") } else { String::new() } };
    assert_eq!(jobs.ask("panics", "good", &who("good"), panics).await, Asked::Ended("overdue".to_owned()));
    // Eight begin at a time, and leave their places when they count as slow.
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(woken.lock().unwrap().len(), 0);
    tokio::time::sleep(Duration::from_secs(18)).await;
    assert_eq!((woken.lock().unwrap().len(), jobs.running()), (20, 0));
    assert_eq!(jobs.ask("stall-3", "bad", &who("stall-3"), std::future::pending).await, Asked::Ended("overdue".to_owned()));
}

/// OLM1-CTRL-09: jobs that stall do not hold up others of the same origin, unless they are many, and then for one deadline.
#[tokio::test(start_paused = true)]
async fn slow_jobs_leave_the_lane() {
    let (jobs, woken) = jobs(TERMS);
    let stall = async |range: std::ops::Range<usize>| {
        for at in range {
            let name = format!("stall-{at}");
            assert!(matches!(jobs.ask(&name, "r", &who(&name), std::future::pending).await, Asked::Running(_)));
        }
    };
    let good = async |name: &'static str, limit: u64| {
        let begun = Instant::now();
        if let Asked::Ended(found) = jobs.ask(name, "r", &who(name), || after(0, "fine")).await {
            assert_eq!(found, "fine");
            return;
        }
        while !woken.lock().unwrap().iter().any(|key| key == name) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(limit), "{name}: {took:?}");
        assert_eq!(jobs.ask(name, "r", &who(name), || after(0, "again")).await, Asked::Ended("fine".to_owned()));
    };
    stall(0..16).await;
    good("beside few", 5).await;
    stall(16..40).await;
    good("beside many", 61).await;
}

/// Who is gone waits for nothing, and what nobody waits for ends; a result may be good for all for a while.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_what_is_gone() {
    let (jobs, _) = jobs(Terms { fresh: Duration::from_secs(5), ..TERMS });
    for name in ["a", "b"] {
        assert!(matches!(jobs.ask("far", "r", &who(name), std::future::pending).await, Asked::Running(_)));
    }
    jobs.forget(&who("a"));
    assert_eq!(jobs.running(), 1);
    jobs.forget(&who("b"));
    assert_eq!(jobs.running(), 0);
    assert_eq!(jobs.ask("one", "r", &who("a"), || after(0, "first")).await, Asked::Ended("first".to_owned()));
    assert_eq!(jobs.ask("one", "r", &who("b"), || after(0, "second")).await, Asked::Ended("first".to_owned()));
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(jobs.ask("one", "r", &who("b"), || after(0, "second")).await, Asked::Ended("second".to_owned()));
}
