//! Flags that commands have in common: consent, timeouts, output formats.

use std::time::Duration;

use clap::{Args, ValueEnum};
use mainstay_operations::{CrdSafety, InstallerPermissions};
use mainstay_terminal::errors::Failure;
use mainstay_terminal::output::{self, Format};
use mainstay_terminal::progress;

use crate::durations;

/// Whether people are asked before something is changed.
#[derive(Clone, Debug, Default, Args)]
pub struct Consent {
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}

impl Consent {
    /// Asks on a terminal; elsewhere `--yes` must have been given.
    pub fn ask(&self, question: &str) -> Result<(), Failure> {
        progress::confirm(question, self.yes)
    }
}

/// How long a change is waited for, where it has to be.
#[derive(Clone, Copy, Debug, Args)]
pub struct Patience {
    /// How long to wait: 90s, 5m, 1h30m
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = durations::parse)]
    pub timeout: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(300) }
    }
}

impl Patience {
    /// The limit as a duration.
    pub fn limit(self) -> Duration {
        self.timeout
    }
}

/// Whether and how long a change is waited for.
#[derive(Clone, Copy, Debug, Args)]
pub struct Waiting {
    /// Do not wait until it is done
    #[arg(long, conflicts_with = "timeout")]
    pub no_wait: bool,
    /// How long.
    #[command(flatten)]
    pub patience: Patience,
}

impl Waiting {
    /// The limit of waiting; none if the command does not wait.
    pub fn limit(self) -> Option<Duration> {
        (!self.no_wait).then(|| self.patience.limit())
    }
}

/// How the answer is shown.
#[derive(Clone, Debug, Args)]
pub struct Shown {
    /// table, wide, json, yaml, name or jsonpath=PATH
    #[arg(short = 'o', long = "output", default_value = "table", value_name = "FORMAT", value_parser = output::among("table, wide, json, yaml, name or jsonpath=PATH"))]
    pub format: Format,
}

/// How a planned change of an extension is carried out: asked, waited for, shown.
#[derive(Clone, Debug, Args)]
pub struct Carrying {
    /// Whether to ask.
    #[command(flatten)]
    pub consent: Consent,
    /// Whether to wait.
    #[command(flatten)]
    pub waiting: Waiting,
    /// How the extension is shown at the end.
    #[command(flatten)]
    pub shown: Shown,
}

/// The message for a command that is interrupted after it has written.
pub fn goes_on(extension: &str) -> String {
    format!("what was written stays, and the cluster goes on; mainstay describe {extension} shows how it stands")
}

/// The permissions of the installer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum GrantFlag {
    /// What this bundle needs
    #[default]
    Minimal,
    /// Everything
    Admin,
}

impl From<GrantFlag> for InstallerPermissions {
    fn from(grant: GrantFlag) -> Self {
        match grant {
            GrantFlag::Minimal => Self::Minimal,
            GrantFlag::Admin => Self::Admin,
        }
    }
}

/// What becomes of CRD changes through which existing objects may lose data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SafetyFlag {
    /// They stop the upgrade
    Strict,
    /// The plan names them and the objects, and the upgrade goes on, for these bundles and no later ones
    Warn,
}

impl From<SafetyFlag> for CrdSafety {
    fn from(safety: SafetyFlag) -> Self {
        match safety {
            SafetyFlag::Strict => Self::Strict,
            SafetyFlag::Warn => Self::Warn,
        }
    }
}
