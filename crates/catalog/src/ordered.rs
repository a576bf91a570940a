//! Parallel work whose results are delivered in order.
//!
//! ```text
//!   next() ──┬── work() ──┐
//!            ├── work() ──┼── deliver(), in the order of next()
//!            └── ...    ──┘
//! ```
//!
//! Threads run ahead of delivery by a bounded number of items, so that memory stays bounded for every input.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Maximum number of threads: more would wait for the one that reads.
const MAX_THREADS: usize = 8;

/// Passes the items of `next` to `work`, on all cores, and the results to `deliver`, in order and on this thread. The first error in that
/// order stops the work and is returned.
pub(crate) fn ordered<I: Send, T: Send, E: Send>(
    next: impl FnMut() -> Result<Option<I>, E> + Send,
    work: impl Fn(I) -> Result<T, E> + Sync,
    mut deliver: impl FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let line = Line {
        input: Mutex::new(Input { next, taken: 0, over: false }),
        output: Mutex::new(Output { ready: BTreeMap::new(), delivered: 0, end: None, stopped: false }),
        changed: Condvar::new(),
        ahead: threads + 1,
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| line.work(&work));
        }
        let _stop = Stop(&line);
        while let Some(result) = line.take() {
            deliver(result?)?;
        }
        Ok(())
    })
}

struct Input<N> {
    next: N,
    taken: usize,
    over: bool,
}

struct Output<T, E> {
    ready: BTreeMap<usize, Result<T, E>>,
    delivered: usize,
    /// Number of items, once known.
    end: Option<usize>,
    stopped: bool,
}

struct Line<N, T, E> {
    input: Mutex<Input<N>>,
    output: Mutex<Output<T, E>>,
    changed: Condvar,
    /// Maximum number of items in work or waiting for delivery.
    ahead: usize,
}

/// Stops the threads when delivery ends, or when one of them panics.
struct Stop<'l, N, T, E>(&'l Line<N, T, E>);

impl<N, T, E> Drop for Stop<'_, N, T, E> {
    fn drop(&mut self) {
        lock(&self.0.output).stopped = true;
        self.0.changed.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The scope reports a panic on another thread; until then the state is read only to stop.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<N, T, E> Line<N, T, E> {
    fn work<I>(&self, work: &(impl Fn(I) -> Result<T, E> + Sync))
    where
        N: FnMut() -> Result<Option<I>, E>,
    {
        let guard = Stop(self);
        loop {
            let (number, item) = {
                let mut input = lock(&self.input);
                if input.over || !self.room_for(input.taken) {
                    break;
                }
                let item = (input.next)();
                input.over = !matches!(item, Ok(Some(_)));
                if let Ok(None) = item {
                    lock(&self.output).end = Some(input.taken);
                    self.changed.notify_all();
                    break;
                }
                input.taken += 1;
                (input.taken - 1, item)
            };
            let result = match item {
                Ok(Some(item)) => work(item),
                // The end was handled above.
                Ok(None) => break,
                Err(error) => Err(error),
            };
            lock(&self.output).ready.insert(number, result);
            self.changed.notify_all();
        }
        // This thread has ended normally; only a panic must stop the others.
        std::mem::forget(guard);
    }

    /// Waits until item `number` may begin; returns `false` after a stop.
    fn room_for(&self, number: usize) -> bool {
        let mut output = lock(&self.output);
        while !output.stopped && number >= output.delivered + self.ahead {
            output = self.changed.wait(output).unwrap_or_else(PoisonError::into_inner);
        }
        !output.stopped
    }

    /// Waits for the next result; `None` if all were taken, or no more will come.
    fn take(&self) -> Option<Result<T, E>> {
        let mut output = lock(&self.output);
        loop {
            let next = output.delivered;
            if let Some(result) = output.ready.remove(&next) {
                output.delivered += 1;
                drop(output);
                self.changed.notify_all();
                return Some(result);
            }
            if output.stopped || output.end == Some(next) {
                return None;
            }
            output = self.changed.wait(output).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn run(count: usize, bad_input: Option<usize>, bad_work: Option<usize>) -> (Vec<usize>, Result<(), String>) {
        let mut given = 0;
        let mut delivered = Vec::new();
        let next = || {
            given += 1;
            match given - 1 {
                number if Some(number) == bad_input => Err(format!("input {number}")),
                number => Ok((number < count).then_some(number)),
            }
        };
        let work = |number: usize| if Some(number) == bad_work { Err(format!("work {number}")) } else { Ok(number * 2) };
        let result = ordered(next, work, |number| {
            delivered.push(number);
            Ok(())
        });
        (delivered, result)
    }

    #[test]
    fn results_come_in_order_until_the_first_error() {
        let doubled = |count: usize| (0..count).map(|number| number * 2).collect::<Vec<_>>();
        assert_eq!(run(0, None, None), (vec![], Ok(())));
        assert_eq!(run(1000, None, None), (doubled(1000), Ok(())));
        assert_eq!(run(1000, Some(500), None), (doubled(500), Err("input 500".to_owned())));
        assert_eq!(run(1000, Some(500), Some(20)), (doubled(20), Err("work 20".to_owned())));
    }

    #[test]
    fn delivery_may_end_it() {
        let mut given = 0_u32;
        let next = || {
            given += 1;
            Ok(Some(given))
        };
        let result = ordered(next, Ok, |number| if number == 10 { Err("enough") } else { Ok(()) });
        assert_eq!(result, Err("enough"));
    }

    #[test]
    #[should_panic(expected = "scoped thread panicked")]
    fn a_panic_ends_it() {
        let mut given = 0_u32;
        let next = || {
            given += 1;
            Ok::<_, String>(Some(given))
        };
        let _result = ordered(next, |number| if number == 10 { panic!("ten") } else { Ok(()) }, |()| Ok(()));
    }
}
