//! Services and reboots: what is done after the files were written.

use std::process::Stdio;
use std::time::Duration;

use mainstay_machine_config_core::policy::Action;
use tokio::process::Command;

use crate::Error;

/// The longest time of a command.
const LONGEST: Duration = Duration::from_secs(300);
/// The most bytes of a command's words that are repeated.
const MOST_WORDS: usize = 2048;

/// The commands of a host or tree; none where there is nothing to call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Services {
    /// Called with verb and unit.
    pub service: Option<Vec<String>>,
    /// Called to reboot.
    pub reboot: Option<Vec<String>>,
}

/// The outcome of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// It was done, or there is nothing to do.
    Run,
    /// There is no service manager below this root.
    NotRun,
}

impl Services {
    /// The commands of a host that systemd runs.
    pub fn of_host() -> Self {
        let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
        Self { service: words(&["systemctl"]), reboot: words(&["systemctl", "reboot"]) }
    }

    /// Does an action that is one of a service.
    ///
    /// # Errors
    /// The words of the command that failed.
    pub async fn run(&self, action: &Action) -> Result<Done, CommandError> {
        let arguments: Vec<String> = match action {
            Action::DaemonReload => vec!["daemon-reload".to_owned()],
            Action::None | Action::Drain | Action::Reboot => return Ok(Done::Run),
            other => match other.of_service() {
                Some((verb, service)) => vec![verb.to_string(), service.to_owned()],
                None => return Ok(Done::Run),
            },
        };
        let Some(command) = &self.service else { return Ok(Done::NotRun) };
        call(command, &arguments).await.map(|()| Done::Run)
    }

    /// Lets the service manager read its units again.
    ///
    /// # Errors
    /// The words of the command that failed.
    pub async fn reload_units(&self) -> Result<(), CommandError> {
        match &self.service {
            Some(command) => call(command, &["daemon-reload".to_owned()]).await,
            None => Ok(()),
        }
    }

    /// Begins a reboot. Returns whether there is a command for it.
    ///
    /// # Errors
    /// The command failed.
    pub async fn begin_reboot(&self) -> Result<bool, Error> {
        let Some(command) = &self.reboot else { return Ok(false) };
        call(command, &[]).await.map_err(|error| Error::Reboot(error.to_string()))?;
        Ok(true)
    }
}

/// The reason why a command did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It could not be started.
    #[error("{command}: {source}")]
    Start {
        /// The command.
        command: String,
        /// The system's words.
        source: std::io::Error,
    },
    /// It failed.
    #[error("{command}: {status}{words}")]
    Failed {
        /// The command.
        command: String,
        /// Its end.
        status: std::process::ExitStatus,
        /// Its words.
        words: String,
    },
    /// It took too long.
    #[error("{command}: not done within {} s", LONGEST.as_secs())]
    TooLong {
        /// The command.
        command: String,
    },
}

async fn call(command: &[String], arguments: &[String]) -> Result<(), CommandError> {
    let shown = command.iter().chain(arguments).cloned().collect::<Vec<_>>().join(" ");
    let Some((program, fixed)) = command.split_first() else { return Ok(()) };
    let mut running = Command::new(program);
    running.args(fixed).args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = match tokio::time::timeout(LONGEST, running.output()).await {
        Err(_) => return Err(CommandError::TooLong { command: shown }),
        Ok(Err(source)) => return Err(CommandError::Start { command: shown, source }),
        Ok(Ok(output)) => output,
    };
    if output.status.success() {
        return Ok(());
    }
    let said = if output.stderr.is_empty() { output.stdout } else { output.stderr };
    let text = String::from_utf8_lossy(&said[said.len().saturating_sub(MOST_WORDS)..]).trim().to_owned();
    let words = if text.is_empty() { String::new() } else { format!(": {text}") };
    Err(CommandError::Failed { command: shown, status: output.status, words })
}
