//! `mainstay down`: stops an embedded cluster of this user (MS-CLI-03).

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::output;
use mainstay_terminal::registration::{Entry, running};
use rustix::process::{Pid, Signal, kill_process};

/// Limit for a cluster to stop (KAPI-SRV-04), with a margin.
const PATIENCE: Duration = Duration::from_secs(10);

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  mainstay down\n  mainstay down --data-dir /tmp/c\n  mainstay down --all")]
pub struct Arguments {
    /// The cluster with this data directory
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// All of them
    #[arg(long, conflicts_with = "data_dir")]
    all: bool,
}

/// Stops the clusters, and waits until they have stopped.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut found = running()?;
    if let Some(data_dir) = &arguments.data_dir {
        let same = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        found.retain(|entry| same(&entry.data_dir) == same(data_dir));
    }
    if found.is_empty() {
        return Err(Failure::new(Exit::NotFound, "cluster", "no such embedded cluster of yours is running"));
    }
    if found.len() > 1 && !arguments.all {
        let failure = Failure::new(Exit::Usage, "cluster", "several are running, and none was chosen")
            .hint("--data-dir DIR chooses one, --all all of them");
        return Err(found
            .iter()
            .fold(failure, |failure, entry| failure.because(format!("process {} in {}", entry.pid, entry.data_dir.display()))));
    }
    found.iter().try_for_each(end)
}

fn end(entry: &Entry) -> Result<(), Failure> {
    let subject = || format!("cluster of process {}", entry.pid);
    note(format!("cluster: {} ({})", entry.data_dir.display(), entry.server));
    let pid = i32::try_from(entry.pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Failure::new(Exit::Failed, subject(), "its process id is no process id"))?;
    kill_process(pid, Signal::TERM).map_err(|error| Failure::failed(subject(), &std::io::Error::from(error)))?;
    let begun = Instant::now();
    while running()?.iter().any(|other| other.pid == entry.pid) || entry.holds_its_data() {
        if begun.elapsed() > PATIENCE {
            return Err(Failure::new(Exit::TimedOut, subject(), format!("has not ended after {} s", PATIENCE.as_secs()))
                .hint("mainstay down again ends it at once"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    output::line(format!("the cluster in {} ended", entry.data_dir.display()))
}
