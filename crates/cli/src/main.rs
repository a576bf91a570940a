//! The `mainstay` program: it parses, calls the library crates, and prints.
//!
//! ```text
//!   argv ── dispatch (which tool am I?) ── args (clap) ── commands::X ──► operations, and other library crates
//!                                                              │
//!                              output (stdout, results) ◄──────┤
//!                              progress, errors (stderr) ◄─────┘
//! ```

mod admin;
mod args;
mod cases;
mod commands;
mod copies;
mod dispatch;
mod durations;
mod logging;
mod named;
mod oc;
mod plan_text;
mod prompt;
mod up;
mod update_text;

use std::process::ExitCode;

use mainstay_terminal::runtime;

/// The API server spends a third of its time in the system's allocator, and a quarter less of it in this one: requests are trees of
/// small values that one worker makes and another one drops.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before anything else: this is a small process beside each real process of a simulated node (KAPI-WL-07).
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == mainstay_workloads::process::SUPERVISE) {
        return mainstay_workloads::process::supervise::supervise(words.collect());
    }
    runtime::decline_huge_pages();
    // It fails only when called a second time.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    dispatch::run(std::env::args_os().collect())
}
