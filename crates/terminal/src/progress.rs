//! Progress on stderr: a spinner or a bar on a terminal, plain lines elsewhere (MS-CLI-06).

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use mainstay_oci::{Client, Digest, Progress as Transferred};
use mainstay_operations::OnTransfer;

use crate::errors::{Exit, Failure, note};
use crate::printable::printable_line;

/// Transfers shorter than this are not shown.
const SHORT: Duration = Duration::from_millis(500);

/// True if no progress is shown, for the whole process.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Stops showing progress from now on.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

fn quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Progress of an operation, step by step.
pub struct Progress {
    bar: Option<ProgressBar>,
    last: String,
}

impl Progress {
    /// Starts showing progress.
    pub fn start() -> Self {
        let bar = (std::io::stderr().is_terminal() && !quiet()).then(|| {
            let bar = spinner();
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Self { bar, last: String::new() }
    }

    /// Shows the current activity; the same text is not repeated.
    pub fn doing(&mut self, what: &str) {
        let what = what.lines().next().unwrap_or_default();
        if self.last == what || quiet() {
            return;
        }
        what.clone_into(&mut self.last);
        match &self.bar {
            Some(bar) => bar.set_message(printable_line(what).into_owned()),
            None => note(format!("  {what}")),
        }
    }

    /// Returns the observer that shows a transfer; `None` if stderr is no terminal.
    pub fn transfer(&self, what: &str) -> Option<OnTransfer> {
        let (bar, what) = (self.bar.clone()?, what.to_owned());
        let what = printable_line(&what).into_owned();
        let told = move |now: Transferred| bar.set_message(format!("{what} ({} of {} KiB)", now.done / 1024, now.total / 1024));
        Some(Arc::new(told))
    }
}

impl mainstay_operations::Progress for Progress {
    fn doing(&mut self, what: &str) {
        Self::doing(self, what);
    }

    fn transfer(&self, what: &str) -> Option<OnTransfer> {
        Self::transfer(self, what)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style);
    }
    bar
}

/// Returns a client that shows long transfers while they last, on a terminal; elsewhere the client as it is.
pub fn shown(client: Client) -> Client {
    if !std::io::stderr().is_terminal() || quiet() {
        return client;
    }
    let line = Mutex::new(Line::default());
    client.with_progress(Arc::new(move |now| line.lock().unwrap_or_else(PoisonError::into_inner).told(&now)))
}

/// The line of the running transfers.
#[derive(Default)]
struct Line {
    transfers: Transfers,
    bar: Option<ProgressBar>,
}

impl Line {
    fn told(&mut self, now: &Transferred) {
        match self.transfers.told(now, Instant::now()) {
            Some((done, total)) => {
                let bar = self.bar.get_or_insert_with(spinner);
                bar.set_message(format!("images ({} of {} KiB)", done / 1024, total / 1024));
                bar.tick();
            }
            None => self.clear(),
        }
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Progress of all running transfers.
#[derive(Default)]
struct Transfers {
    blobs: BTreeMap<Digest, (u64, u64)>,
    since: Option<Instant>,
}

impl Transfers {
    /// Records a report; returns the bytes so far and in all, or `None` if the transfers began a moment ago, or are complete.
    fn told(&mut self, now: &Transferred, at: Instant) -> Option<(u64, u64)> {
        self.blobs.insert(now.digest.clone(), (now.done, now.total));
        let (done, total) = self.blobs.values().fold((0, 0), |(done, total), blob| (done + blob.0, total + blob.1));
        if done >= total {
            *self = Self::default();
            return None;
        }
        let since = *self.since.get_or_insert(at);
        (at.duration_since(since) >= SHORT).then_some((done, total))
    }
}

/// Asks for confirmation on a terminal; elsewhere `--yes` is required.
pub fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !can_ask() {
        return Err(
            Failure::new(Exit::Usage, "confirmation", "there is no terminal to ask on").hint("--yes says yes to everything shown above")
        );
    }
    note(format!("{question} [y/N]"));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(|error| Failure::failed("confirmation", &error))?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(Failure::new(Exit::Failed, "confirmation", "was not given; nothing was changed"))
    }
}

/// Returns whether there is a terminal to ask on.
pub fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks for a line of text on a terminal; `None` at the end of the input.
pub fn ask(question: &str) -> Result<Option<String>, Failure> {
    note(format!("{question}:"));
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer).map_err(|error| Failure::failed("answer", &error))?;
    Ok((read > 0).then(|| answer.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MS-CLI-06: a line for transfers that take long, of all blobs that are on their way, and gone when they are here.
    #[test]
    fn long_transfers_are_told() {
        let start = Instant::now();
        let blob = |number: u8, done, total| Transferred { digest: Digest::of(&[number]), done, total };
        let later = start + SHORT;
        let mut transfers = Transfers::default();
        assert_eq!(transfers.told(&blob(1, 10, 10), start), None, "it was here already");
        assert_eq!(transfers.told(&blob(2, 1, 10), start), None, "it just began");
        assert_eq!(transfers.told(&blob(2, 5, 10), later), Some((5, 10)));
        assert_eq!(transfers.told(&blob(3, 1, 100), later), Some((6, 110)));
        assert_eq!(transfers.told(&blob(2, 10, 10), later), Some((11, 110)));
        assert_eq!(transfers.told(&blob(3, 100, 100), later), None, "all is here");
        assert_eq!(transfers.told(&blob(4, 1, 2), later), None, "another image begins anew");
    }
}
