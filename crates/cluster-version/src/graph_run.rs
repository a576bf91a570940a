//! Runs a task graph: a node begins when all nodes before it have succeeded (CVO-GRAPH-06).

use std::future::Future;

use futures::stream::{FuturesUnordered, StreamExt as _};
use mainstay_release::TaskGraph;
use tokio_util::sync::CancellationToken;

/// The result of a graph.
#[derive(Debug)]
pub(crate) struct Outcome<E> {
    /// The errors of nodes, in the order in which they ended.
    pub errors: Vec<E>,
    /// The nodes that have not succeeded.
    pub incomplete: Vec<usize>,
}

/// The state of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Done,
    Failed,
}

/// Runs the nodes, at most `workers` at once. After an error the nodes that come after that one never begin; the others go on. Once `stop` is
/// cancelled no further node begins; those that run end by themselves.
pub(crate) async fn run<F, E>(graph: &TaskGraph, workers: usize, stop: &CancellationToken, mut work: impl FnMut(usize) -> F) -> Outcome<E>
where
    F: Future<Output = Result<(), E>>,
{
    let nodes = graph.nodes();
    let mut states = vec![State::Waiting; nodes.len()];
    let mut running = FuturesUnordered::new();
    let mut errors = Vec::new();
    loop {
        for number in 0..nodes.len() {
            if running.len() >= workers.max(1) || stop.is_cancelled() {
                break;
            }
            if states[number] == State::Waiting && nodes[number].before.iter().all(|before| states[*before] == State::Done) {
                states[number] = State::Running;
                let done = work(number);
                running.push(async move { (number, done.await) });
            }
        }
        match running.next().await {
            None => break,
            Some((number, Ok(()))) => states[number] = State::Done,
            Some((number, Err(error))) => {
                states[number] = State::Failed;
                errors.push(error);
            }
        }
    }
    let incomplete = (0..nodes.len()).filter(|number| states[*number] != State::Done).collect();
    Outcome { errors, incomplete }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use mainstay_release::{Cut, TaskGraph};

    use super::*;

    /// Files over two runlevels, two components each.
    const FILES: [&str; 5] = ["0000_10_a_0.yaml", "0000_10_a_1.yaml", "0000_10_b_0.yaml", "0000_20_c_0.yaml", "0000_20_d_0.yaml"];

    fn graph() -> TaskGraph {
        TaskGraph::of(&FILES, |_| false, Some(Cut::Levels))
    }

    async fn tasks(fails: Option<usize>, stop: &CancellationToken, stops_at: Option<usize>) -> (Vec<usize>, Outcome<usize>) {
        let graph = graph();
        let order = RefCell::new(Vec::new());
        let outcome = run(&graph, 16, stop, |number| {
            let (order, graph) = (&order, &graph);
            async move {
                for &task in &graph.nodes()[number].tasks {
                    tokio::task::yield_now().await;
                    order.borrow_mut().push(task);
                    if stops_at == Some(task) {
                        stop.cancel();
                    }
                    if fails == Some(task) {
                        return Err(task);
                    }
                }
                Ok(())
            }
        })
        .await;
        (order.into_inner(), outcome)
    }

    /// CVO-GRAPH-02, CVO-GRAPH-06: a level waits for all of the one before; within a level components go on side by side.
    #[tokio::test]
    async fn levels_wait() {
        let (order, outcome) = tasks(None, &CancellationToken::new(), None).await;
        assert!(outcome.errors.is_empty() && outcome.incomplete.is_empty());
        let place = |task: usize| order.iter().position(|one| *one == task).unwrap();
        assert!(place(0) < place(1) && [0, 1, 2].iter().all(|task| place(*task) < place(3).min(place(4))), "{order:?}");
    }

    /// CVO-GRAPH-06: after an error the independent component goes on, and nothing of the next level begins.
    #[tokio::test]
    async fn dependents_never_begin() {
        let (order, outcome) = tasks(Some(0), &CancellationToken::new(), None).await;
        assert_eq!((order.into_iter().collect::<BTreeSet<_>>(), outcome.errors), (BTreeSet::from([0, 2]), vec![0]));
        assert!(outcome.incomplete.len() >= 3);
    }

    /// CVO-GRAPH-06: once stopped nothing more begins.
    #[tokio::test]
    async fn nothing_begins_after_a_stop() {
        let (order, outcome) = tasks(None, &CancellationToken::new(), Some(2)).await;
        assert!(order.iter().all(|task| *task < 3) && outcome.errors.is_empty() && !outcome.incomplete.is_empty(), "{order:?}");
    }
}
