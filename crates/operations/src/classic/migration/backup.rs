//! The file of a migration: everything that changes as it was before, and what is written instead. It is also the record from which an
//! interrupted migration goes on, and from which the way back begins.

use std::io::Read as _;
use std::path::Path;

use mainstay_diagnostics::{Failure, FailureKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The format of the file.
const FORMAT: &str = "mainstay-migration/1";
/// Maximum size of the file.
const BYTES: u64 = 512 << 20;

/// The progress of a migration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// Begun, and perhaps interrupted.
    #[default]
    Begun,
    /// The extension has taken over.
    Done,
    /// OLM classic has taken over again.
    Back,
}

/// The content of the file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backup {
    /// The format.
    pub format: String,
    /// The cluster's identity: the uid of namespace `kube-system`.
    pub cluster: String,
    /// The progress of the migration.
    pub state: State,
    /// The operator's namespace.
    pub namespace: String,
    /// The package.
    pub package: String,
    /// The CSV's name, which is the bundle's, too.
    pub csv_name: String,
    /// The name of the ClusterExtension.
    pub extension_name: String,
    /// True if the version stays pinned.
    pub keep_pin: bool,
    /// The objects that are applied before the extension: account and permissions.
    pub with: Vec<Value>,
    /// The ClusterExtension as it is created.
    pub extension: Value,
    /// The objects of the bundle, as they are rendered.
    pub rendered: Vec<Value>,
    /// The Subscription.
    pub subscription: Value,
    /// The CSV.
    pub csv: Value,
    /// The OperatorGroup.
    pub group: Value,
    /// The OperatorCondition; null if there is none.
    pub condition: Value,
    /// The objects that the CSV owns.
    pub owned: Vec<Value>,
    /// The CRDs.
    pub definitions: Vec<Value>,
    /// The custom resources.
    pub custom_resources: Vec<Value>,
}

impl Backup {
    /// A backup in the current format.
    pub fn new() -> Self {
        Self { format: FORMAT.to_owned(), ..Self::default() }
    }

    /// Writes the file, which others cannot read, in one step.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let subject = || format!("backup {}", path.display());
        let text = serde_json::to_string(self).map_err(|error| Failure::failed(subject(), &error))?;
        mainstay_apiserver::access::write_private(path, (text + "\n").as_bytes()).map_err(|error| Failure::failed(subject(), &error))
    }

    /// Reads the file; `None` if there is none.
    pub fn find(path: &Path) -> Result<Option<Self>, Failure> {
        let subject = || format!("backup {}", path.display());
        let file = match std::fs::File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::failed(subject(), &error)),
        };
        let mut text = String::new();
        file.take(BYTES + 1).read_to_string(&mut text).map_err(|error| Failure::failed(subject(), &error))?;
        if text.len() as u64 > BYTES {
            return Err(Failure::new(FailureKind::Failed, subject(), format!("is larger than {BYTES} bytes")));
        }
        let backup: Self = serde_json::from_str(&text).map_err(|error| Failure::failed(subject(), &error))?;
        if backup.format != FORMAT {
            return Err(Failure::new(FailureKind::Failed, subject(), format!("has format {:?}, expected {FORMAT:?}", backup.format)));
        }
        Ok(Some(backup))
    }

    /// Reads the file.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        Self::find(path)?
            .ok_or_else(|| Failure::new(FailureKind::NotFound, format!("backup {}", path.display()), "no such file or directory"))
    }
}

impl Backup {
    /// Refuses a backup of another cluster.
    pub async fn check_cluster(&self, session: &crate::session::Session) -> Result<(), Failure> {
        use crate::classic::objects::{NAMESPACE, get, text};
        let uid = text(&get(session, NAMESPACE, "", "kube-system").await?, "/metadata/uid");
        if uid == self.cluster {
            return Ok(());
        }
        Err(Failure::new(
            FailureKind::Impossible,
            format!("operator {}/{}", self.namespace, self.csv_name),
            "the backup is of another cluster",
        ))
    }
}
