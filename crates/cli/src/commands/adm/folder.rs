//! A folder of collected support data.

use std::path::{Path, PathBuf};

use mainstay_operations::inspect::Summary;
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::output;

/// A folder that is filled with files that only their owner may read, as everything that these commands make (`dispatch::is_private`).
pub struct Folder(PathBuf);

impl Folder {
    /// Makes the folder; one that is there must be empty, so that two collections never mix.
    pub fn make(path: Option<&Path>, prefix: &str) -> Result<Self, Failure> {
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

    pub fn write(&self, path: &str, content: &[u8]) -> std::io::Result<()> {
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
    pub fn done(&self, summary: &Summary) -> Result<(), Failure> {
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
