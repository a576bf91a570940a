//! The global pull secret: one Secret, written to a private auth file for every pull (OLM1-GEN-10).
//!
//! ```text
//!   Secret NS/NAME ──► auth_file_change ──► write the file | remove it | log the problem and keep it
//! ```

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use kube::api::{ApiResource, DynamicObject};
use mainstay_runtime::{Cache, Env, Key, Outcome, Queue, Scope};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// The key of a Secret of type `kubernetes.io/dockerconfigjson`.
const KEY: &str = ".dockerconfigjson";
/// Longest time that pulls wait for the Secret after a start. One that cannot be read must not block every pull.
const START_WAIT: Duration = Duration::from_secs(5);

/// Reason why the auth file differs from the Secret; writing is tried again.
#[derive(Debug, thiserror::Error)]
pub enum GlobalPullSecretError {
    /// The folder or the file cannot be written.
    #[error("the auth file of the global pull secret cannot be written")]
    File(#[from] std::io::Error),
}

/// Auth file that follows the global pull secret.
pub struct GlobalPullSecret {
    client: Client,
    secret: Key,
    env: Env,
    folder: TempDir,
}

/// Change of the auth file that the Secret asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum AuthFileChange {
    /// Write this content.
    Write(Vec<u8>),
    /// Remove the file: pulls are anonymous.
    Remove,
    /// Keep the file as it is, because the Secret is malformed in this way.
    Keep(String),
}

/// Decides how the auth file changes for this Secret; `None` if there is no Secret.
pub fn auth_file_change(secret: Option<&DynamicObject>) -> AuthFileChange {
    let Some(secret) = secret else { return AuthFileChange::Remove };
    let Some(encoded) = secret.data.pointer("/data/.dockerconfigjson").and_then(serde_json::Value::as_str) else {
        return AuthFileChange::Keep(format!("it has no key {KEY}"));
    };
    match STANDARD.decode(encoded) {
        Ok(content) => match mainstay_oci::Credentials::parse(KEY, &String::from_utf8_lossy(&content)) {
            Ok(_) => AuthFileChange::Write(content),
            Err(error) => AuthFileChange::Keep(mainstay_diagnostics::chain(&error)),
        },
        Err(error) => AuthFileChange::Keep(format!("{KEY} is no base64: {error}")),
    }
}

impl GlobalPullSecret {
    /// Makes the auth file's folder, which only this user can enter and which is removed with the value. `client` reads the Secret.
    pub fn new(client: Client, secret: Key, env: Env) -> Result<Self, GlobalPullSecretError> {
        let own = fs::Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("mainstay-auth-").permissions(own).tempdir()?;
        Ok(Self { client, secret, env, folder })
    }

    /// Returns the path of the auth file; it need not exist.
    pub fn auth_file(&self) -> PathBuf {
        self.folder.path().join("auth.json")
    }

    /// Starts to watch the Secret; pulls should wait for [`GlobalPullSecretWatch::known`].
    pub fn watch(self: Arc<Self>, stop: CancellationToken) -> GlobalPullSecretWatch {
        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Secret>(&());
        let fields = Some(format!("metadata.name={}", self.secret.name));
        let scope = Scope { namespace: Some(self.secret.namespace.clone()), fields, ..Scope::default() };
        let cache = Cache::start(&self.client, &resource, &scope, &stop);
        GlobalPullSecretWatch { secret: self, cache, stop }
    }

    fn apply(&self, change: AuthFileChange) -> Result<(), GlobalPullSecretError> {
        let path = self.auth_file();
        match change {
            AuthFileChange::Write(content) => {
                if fs::read(&path).ok().as_ref() != Some(&content) {
                    replace(self.folder.path(), &path, &content)?;
                    tracing::info!(secret = %self.secret, "the global pull secret counts from the next pull on");
                }
            }
            AuthFileChange::Remove => match fs::remove_file(&path) {
                Ok(()) => tracing::info!(secret = %self.secret, "the global pull secret is gone; pulls are anonymous"),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            },
            AuthFileChange::Keep(problem) => tracing::error!(secret = %self.secret, problem, "the global pull secret cannot be used"),
        }
        Ok(())
    }
}

/// Replaces the file in one step, so that no pull reads half of it. Temporary files are readable by this user only.
fn replace(folder: &Path, path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(content)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Watch of the global pull secret.
pub struct GlobalPullSecretWatch {
    secret: Arc<GlobalPullSecret>,
    cache: Cache,
    stop: CancellationToken,
}

impl GlobalPullSecretWatch {
    /// Waits until the Secret is read and the auth file follows it, at most five seconds.
    pub async fn known(&self) {
        if tokio::time::timeout(START_WAIT, self.cache.ready()).await.is_err() {
            tracing::warn!(secret = %self.secret.secret, "the global pull secret cannot be read yet; images are pulled without it");
        } else if let Err(error) = self.secret.apply(auth_file_change(self.cache.get(&self.secret.secret).as_deref())) {
            tracing::error!(error = mainstay_diagnostics::chain(&error), "the global pull secret is not in force");
        }
    }

    /// Keeps the auth file as the Secret says until the watch is stopped.
    pub async fn run(self) {
        let queue: Queue<Key> = Queue::default();
        let woken = queue.clone();
        self.cache.on_change(move |change| {
            if let Some(object) = change.object() {
                woken.add(Key::of(object));
            }
        });
        let (env, secret, cache) = (self.secret.env.clone(), self.secret, self.cache);
        let reconcile = move |key: Key| {
            let (secret, cache) = (secret.clone(), cache.clone());
            async move { secret.apply(auth_file_change(cache.get(&key).as_deref())).map(|()| Outcome::Done) }
        };
        mainstay_runtime::run("pull-secret", queue, 1, env, self.stop, reconcile).await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn secret(data: &serde_json::Value) -> DynamicObject {
        serde_json::from_value(
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull", "namespace": "config"}, "data": data}),
        )
        .unwrap()
    }

    /// OLM1-GEN-10: written as it is; gone with the Secret; left alone where the key is missing or makes no sense.
    #[test]
    fn the_file_follows_the_secret() {
        let content = r#"{"auths": {"quay.example": {"auth": "YTpi"}}}"#;
        assert_eq!(auth_file_change(Some(&secret(&json!({KEY: STANDARD.encode(content)})))), AuthFileChange::Write(content.into()));
        assert_eq!(auth_file_change(None), AuthFileChange::Remove);
        assert_eq!(auth_file_change(Some(&secret(&json!({"other": ""})))), AuthFileChange::Keep("it has no key .dockerconfigjson".into()));
        for odd in ["%%%", &STANDARD.encode("no JSON")] {
            assert!(matches!(auth_file_change(Some(&secret(&json!({KEY: odd})))), AuthFileChange::Keep(_)), "{odd}");
        }
    }

    /// OLM1-GEN-10: written for this user alone; left as it is, also where nothing is, when the Secret makes no sense; removed with the Secret.
    #[test]
    fn the_file_is_private() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let cluster = mainstay_runtime::Cluster::Embedded { router: axum::Router::new(), identity: |_| {} };
        let kept = GlobalPullSecret::new(cluster.client().unwrap(), Key::new("config", "pull"), Env::system()).unwrap();
        let (file, read) = (kept.auth_file(), || fs::read(kept.auth_file()).ok());
        kept.apply(AuthFileChange::Keep("it has no key".into())).unwrap();
        assert_eq!(read(), None);
        kept.apply(AuthFileChange::Write(b"one".to_vec())).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((read(), mode(&file), mode(file.parent().unwrap())), (Some(b"one".to_vec()), 0o600, 0o700));
        kept.apply(AuthFileChange::Keep("it has no key".into())).unwrap();
        assert_eq!(read(), Some(b"one".to_vec()));
        kept.apply(AuthFileChange::Remove).unwrap();
        assert_eq!(read(), None);
        kept.apply(AuthFileChange::Remove).unwrap();
        let folder = file.parent().unwrap().to_owned();
        drop(kept);
        assert!(!folder.exists());
    }
}
