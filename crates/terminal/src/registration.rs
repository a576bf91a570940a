//! Registrations of this user's running embedded clusters, by which other commands find them (MS-CLI-02).

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::errors::Failure;
use crate::private;

/// A running cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its process ID.
    pub pid: u32,
    /// Its address: `https://ADDRESS:PORT`.
    pub server: String,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// Its data directory.
    pub data_dir: PathBuf,
    /// The components that run besides the API.
    pub components: Vec<String>,
    /// Number of simulated nodes.
    pub nodes: u32,
}

impl Entry {
    /// Returns whether a process holds the data directory, or the lock in it on systems where directories have none.
    pub fn holds_its_data(&self) -> bool {
        let held = |path: &Path| File::open(path).is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)));
        held(&self.data_dir) || held(&self.data_dir.join("lock"))
    }
}

/// The registration of this process's cluster.
pub struct Registration(PathBuf);

impl Registration {
    /// Registers a cluster.
    pub fn write(entry: &Entry) -> Result<Self, Failure> {
        let path = directory()?.join(format!("{}.json", entry.pid));
        let failed = |error: std::io::Error| Failure::failed(format!("note {}", path.display()), &error);
        let text = serde_json::to_vec_pretty(entry).map_err(|error| failed(error.into()))?;
        if let Some(parent) = path.parent() {
            private::own_all(parent)?;
        }
        // Readers see a complete registration or none.
        let partial = path.with_extension("partial");
        fs::write(&partial, text).and_then(|()| fs::rename(&partial, &path)).map_err(failed)?;
        Ok(Self(path))
    }

    /// Removes the registration.
    pub fn remove(&self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "the note of this cluster could not be removed");
        }
    }
}

/// Returns the running clusters; removes the registrations of others.
pub fn running() -> Result<Vec<Entry>, Failure> {
    let directory = directory()?;
    let subject = || format!("notes of clusters {}", directory.display());
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Failure::failed(subject(), &error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| Failure::failed(subject(), &error))?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let entry = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Entry>(&bytes).ok());
        match entry {
            Some(entry) if entry.holds_its_data() => found.push(entry),
            // A process that was killed could not remove it; another command may be faster, too.
            _ => drop(fs::remove_file(&path)),
        }
    }
    found.sort_by_key(|entry| entry.pid);
    Ok(found)
}

fn directory() -> Result<PathBuf, Failure> {
    state_home().map(|state| state.join("mainstay/clusters"))
}

/// Returns `$XDG_STATE_HOME`, else `~/.local/state`.
fn state_home() -> Result<PathBuf, Failure> {
    xdg("XDG_STATE_HOME", ".local/state")
}

/// Returns an XDG base directory.
pub fn xdg(variable: &str, default: &str) -> Result<PathBuf, Failure> {
    let given = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    given
        .or_else(|| home.map(|home| home.join(default)))
        .ok_or_else(|| Failure::new(crate::errors::Exit::Failed, "home directory", format!("is not known; set HOME or {variable}")))
}
