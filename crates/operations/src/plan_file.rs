//! Plans in files, with a digest by which an edited one is refused (MS-PLAN-02).

use std::path::Path;

use mainstay_diagnostics::{Failure, FailureKind};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Size limit of a file, in bytes.
const BYTES: u64 = 64 << 20;

/// A file with one plan.
#[derive(Serialize, Deserialize)]
struct File<T> {
    /// The kind of the plan.
    format: String,
    /// The digest of the plan; it does not match if the file was edited.
    digest: String,
    plan: T,
}

/// Writes a plan into a file that others cannot read: plans show the content of objects.
pub(crate) fn write(format: &str, plan: &impl Serialize, path: &Path) -> Result<(), Failure> {
    let subject = || format!("plan {}", path.display());
    let failed = |error: serde_json::Error| Failure::failed(subject(), &error);
    let plan = serde_json::to_value(plan).map_err(failed)?;
    let file = File { format: format.to_owned(), digest: digest(&plan), plan };
    let text = serde_json::to_string_pretty(&file).map_err(failed)?;
    mainstay_apiserver::access::write_private(path, (text + "\n").as_bytes()).map_err(|error| Failure::failed(subject(), &error))
}

/// Reads the plan in a file; `None` if the file holds no plan of this format. `again` is the command that makes a new one.
pub(crate) fn find<T: DeserializeOwned>(format: &str, path: &Path, again: &str) -> Result<Option<T>, Failure> {
    let subject = || format!("plan {}", path.display());
    // Other mistakes in the file are told by the reader of the other kind of plan.
    if std::fs::metadata(path).map_or(true, |metadata| metadata.len() > BYTES) {
        return Ok(None);
    }
    let text = std::fs::read_to_string(path).map_err(|error| Failure::failed(subject(), &error))?;
    let Ok(value) = serde_json::from_str::<Value>(&text) else { return Ok(None) };
    if value["format"] != format {
        return Ok(None);
    }
    // Of the text as it stands: what another version of this program wrote may read otherwise here.
    if value["digest"] != digest(&value["plan"]) {
        let failure = Failure::new(FailureKind::Impossible, subject(), "was changed after it was written; its digest does not fit");
        return Err(failure.hint(format!("{again} makes a new one")));
    }
    let file: File<T> = serde_json::from_value(value).map_err(|error| Failure::failed(subject(), &error))?;
    Ok(Some(file.plan))
}

/// The digest of plans in a file.
pub(crate) fn digest(plans: &Value) -> String {
    Sha256::digest(plans.to_string().as_bytes()).iter().fold(String::from("sha256:"), |text, byte| text + &format!("{byte:02x}"))
}

/// The failure of a plan that no longer fits.
pub(crate) fn moved_on(subject: &str, differences: impl IntoIterator<Item = String>, again: &str) -> Failure {
    let failure = Failure::new(FailureKind::Impossible, subject, "the cluster changed since the plan was saved; nothing was done");
    differences.into_iter().fold(failure, Failure::because).hint(format!("{again} makes a new one"))
}
