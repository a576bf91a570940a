//! Progress on stderr: a spinner or a bar on a terminal, plain lines elsewhere (MS-CLI-06).

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use mainstay_oci::Progress as Transferred;

use crate::errors::{Exit, Failure, note};
use crate::images::OnProgress;

/// What is being done, step by step.
pub struct Progress {
    bar: Option<ProgressBar>,
    last: String,
}

impl Progress {
    /// Begins.
    pub fn start() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Self { bar, last: String::new() }
    }

    /// Told how far a transfer is; nothing where nobody would see it.
    pub fn transfer(&self, what: &str) -> Option<OnProgress> {
        let (bar, what) = (self.bar.clone()?, what.to_owned());
        let told = move |now: Transferred| bar.set_message(format!("{what} ({} of {} KiB)", now.done / 1024, now.total / 1024));
        Some(Arc::new(told))
    }

    /// Something is going on; the same text again is not said again.
    pub fn doing(&mut self, what: &str) {
        let what = what.lines().next().unwrap_or_default();
        if self.last == what {
            return;
        }
        what.clone_into(&mut self.last);
        match &self.bar {
            Some(bar) => bar.set_message(what.to_owned()),
            None => note(format!("  {what}")),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Asks on a terminal; elsewhere `--yes` must have been given.
pub fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
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
