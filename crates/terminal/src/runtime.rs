//! The async runtime, started only by commands that need one, and Ctrl-C (MS-CLI-08).

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};

use crate::errors::{Exit, Failure};

/// Runs a future on two to four worker threads.
pub fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    mainstay_serve::raise_file_limit();
    let workers = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed("async runtime", &error))?;
    let outcome = runtime.block_on(future);
    // Running tasks (a transfer that was given up) must not delay the end of the program.
    runtime.shutdown_background();
    outcome
}

/// Asks the kernel for small pages. The allocator wants huge ones for its arenas, which costs an idle cluster a quarter of its memory, and
/// the validation of a catalog most of it.
pub fn decline_huge_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "huge pages stay");
    }
}

/// Runs a future until Ctrl-C; `interrupted` then says what was done and how to continue (MS-CLI-08).
pub async fn until_interrupt<T>(
    future: impl Future<Output = Result<T, Failure>>,
    interrupted: impl FnOnce() -> Vec<String>,
) -> Result<T, Failure> {
    // From here on Ctrl-C does not end the process by itself.
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| Failure::failed("Ctrl-C", &error))?;
    tokio::select! {
        outcome = future => outcome,
        _ = interrupt.recv() => {
            let failure = Failure::new(Exit::Failed, "interrupted", "stopped before the end");
            Err(interrupted().into_iter().fold(failure, Failure::hint))
        }
    }
}
