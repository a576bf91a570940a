//! Merging the embedded cluster into the user's kubeconfig (`--kubeconfig-merge`).

use std::fs;
use std::path::{Path, PathBuf};

use mainstay_terminal::cluster::default_path;
use mainstay_terminal::errors::{Exit, Failure};
use serde_json::{Value, json};

/// The first file of `$KUBECONFIG`, else `~/.kube/config`.
pub fn of_the_user() -> Result<PathBuf, Failure> {
    if let Some(first) =
        std::env::var_os("KUBECONFIG").and_then(|list| std::env::split_paths(&list).find(|path| !path.as_os_str().is_empty()))
    {
        return Ok(first);
    }
    default_path().ok_or_else(|| Failure::new(Exit::Failed, "home directory", "is not known; set HOME or KUBECONFIG"))
}

/// Writes `content` where only its owner may read it.
pub fn write(path: &Path, content: &str) -> Result<(), Failure> {
    let failed = |error: &dyn std::error::Error| Failure::new(Exit::Failed, format!("kubeconfig {}", path.display()), error.to_string());
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(|error| failed(&error))?;
    }
    mainstay_apiserver::access::write_private(path, content.as_bytes()).map_err(|error| failed(&error))
}

/// Puts the cluster, user and context of `ours` into `into`; the current context stays what it is, unless there is none.
pub fn merge(ours: &Path, into: &Path) -> Result<(), Failure> {
    let read = |path: &Path| -> Result<Value, Failure> {
        let subject = format!("kubeconfig {}", path.display());
        match fs::read_to_string(path) {
            Ok(text) => mainstay_yaml::parse(&text).map_err(|error| Failure::failed(subject, &error)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Value::Null),
            Err(error) => Err(Failure::failed(subject, &error)),
        }
    };
    write(into, &mainstay_yaml::to_string(&merged(&read(ours)?, read(into)?)))
}

fn merged(ours: &Value, theirs: Value) -> Value {
    let mut all = if theirs.is_object() { theirs } else { json!({"apiVersion": "v1", "kind": "Config"}) };
    for list in ["clusters", "users", "contexts"] {
        let mut entries = all[list].as_array().cloned().unwrap_or_default();
        for entry in ours[list].as_array().into_iter().flatten() {
            entries.retain(|other| other["name"] != entry["name"]);
            entries.push(entry.clone());
        }
        all[list] = Value::Array(entries);
    }
    if all["current-context"].as_str().unwrap_or_default().is_empty() {
        all["current-context"] = ours["current-context"].clone();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MS-CLI-03: merging keeps what is there, replaces our own entries, and does not change the current context.
    #[test]
    fn merging() {
        let ours = json!({"clusters": [{"name": "m", "cluster": 2}], "users": [{"name": "a"}], "contexts": [{"name": "a@m"}], "current-context": "a@m"});
        let theirs = json!({"clusters": [{"name": "prod"}, {"name": "m", "cluster": 1}], "current-context": "prod"});
        let all = merged(&ours, theirs);
        assert_eq!(all["clusters"], json!([{"name": "prod"}, {"name": "m", "cluster": 2}]));
        assert_eq!(all["current-context"], "prod");
        assert_eq!(merged(&ours, Value::Null)["current-context"], "a@m");
    }
}
