//! `mainstay adm`: what `oc adm` does, as far as it is there (MS-CLI-10).

mod credentials;
mod inspect;
mod must_gather;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use mainstay_operations::inspect::Summary;
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::output;

use crate::dispatch::not_there;

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// Collect objects with events and logs of pods in a folder; of a simulated node, list its containers
    Inspect(inspect::Arguments),
    /// Collect the support data of a cluster: ClusterOperators and OLM, in a folder
    MustGather(must_gather::Arguments),
    /// Write Secrets and cloud-side documents for CredentialsRequests
    #[command(subcommand)]
    Credentials(Credentials),
    /// Whatever else oc adm has.
    #[command(external_subcommand)]
    Other(Vec<String>),
}

/// Commands of `credentials`.
#[derive(Debug, Subcommand)]
pub enum Credentials {
    /// Write what ccoctl writes in a dry run, without a call to a cloud
    Render(credentials::Arguments),
}

/// Runs a command.
pub fn run(command: &Commands) -> Result<(), Failure> {
    match command {
        Commands::Inspect(arguments) => inspect::run(arguments),
        Commands::MustGather(arguments) => must_gather::run(arguments),
        Commands::Credentials(Credentials::Render(arguments)) => credentials::render(arguments),
        Commands::Other(words) => Err(not_there("adm", words, "mainstay adm --help lists what is there")),
    }
}

/// A folder that is filled with files that only their owner may read, as everything that these commands make (`dispatch::is_private`).
struct Folder(PathBuf);

impl Folder {
    /// Makes the folder; one that is there must be empty, so that two collections never mix.
    fn make(path: Option<&Path>, prefix: &str) -> Result<Self, Failure> {
        let path = match path {
            Some(path) => path.to_owned(),
            None => PathBuf::from(format!("{prefix}.local.{}", jiff::Timestamp::now().as_second())),
        };
        let subject = format!("folder {}", path.display());
        if path.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(Failure::new(Exit::Failed, subject, "is not empty").hint("--dest-dir DIR takes another one"));
        }
        std::fs::create_dir_all(&path).map_err(|error| Failure::failed(subject, &error))?;
        Ok(Self(path))
    }

    fn write(&self, path: &str, content: &[u8]) -> std::io::Result<()> {
        // Names of objects are no paths, but what a server says may be anything.
        if Path::new(path).components().any(|part| !matches!(part, std::path::Component::Normal(_))) {
            return Err(std::io::Error::other("the path leads out of the folder"));
        }
        let at = self.0.join(path);
        if let Some(parent) = at.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(&at, content)
    }

    /// Says what was collected, and what could not be.
    fn done(&self, summary: &Summary) -> Result<(), Failure> {
        for failed in &summary.failed {
            note(format!("not collected: {failed}"));
        }
        let count = summary.gathered.len();
        output::line(format!(
            "collected {} in {}",
            if count == 1 { "1 object".to_owned() } else { format!("{count} objects") },
            self.0.display()
        ))?;
        if summary.failed.is_empty() {
            return Ok(());
        }
        Err(Failure::new(Exit::Failed, "support data", format!("is incomplete: {} could not be read", summary.failed.len())))
    }
}
