//! The global pull secret: one Secret, written to a private auth file for every pull (OLM1-GEN-10).
//!
//! ```text
//!   Secret NS/NAME ──► plan ──► write the file | remove it | say what is wrong and leave it
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
/// How long pulls wait at the start for the Secret. One that cannot be read must not keep everything from being pulled.
const FIRST: Duration = Duration::from_secs(5);

/// Why the auth file is not as the Secret says; tried again.
#[derive(Debug, thiserror::Error)]
pub enum PullSecretError {
    /// The folder or the file cannot be written.
    #[error("the auth file of the global pull secret cannot be written")]
    File(#[from] std::io::Error),
}

/// Keeps the auth file.
pub struct PullSecret {
    client: Client,
    secret: Key,
    env: Env,
    folder: TempDir,
}

/// What is to be done with the file.
#[derive(Debug, PartialEq, Eq)]
pub enum Plan {
    /// It holds this from now on.
    Write(Vec<u8>),
    /// It goes: pulls are anonymous.
    Remove,
    /// It stays as it is, because the Secret makes no sense.
    Leave(String),
}

/// Decides by the Secret; `None` when there is none.
pub fn plan(secret: Option<&DynamicObject>) -> Plan {
    let Some(secret) = secret else { return Plan::Remove };
    let Some(encoded) = secret.data.pointer("/data/.dockerconfigjson").and_then(serde_json::Value::as_str) else {
        return Plan::Leave(format!("it has no key {KEY}"));
    };
    match STANDARD.decode(encoded) {
        Ok(content) => match mainstay_oci::Credentials::parse(KEY, &String::from_utf8_lossy(&content)) {
            Ok(_) => Plan::Write(content),
            Err(error) => Plan::Leave(mainstay_diagnostics::chain(&error)),
        },
        Err(error) => Plan::Leave(format!("{KEY} is no base64: {error}")),
    }
}

impl PullSecret {
    /// Watches with `client`; the file lies in a folder that only this user can enter, and goes with the value.
    pub fn new(client: Client, secret: Key, env: Env) -> Result<Self, PullSecretError> {
        let own = fs::Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("mainstay-auth-").permissions(own).tempdir()?;
        Ok(Self { client, secret, env, folder })
    }

    /// The auth file; it need not be there.
    pub fn auth_file(&self) -> PathBuf {
        self.folder.path().join("auth.json")
    }

    /// Starts watching; pulls should wait for [`Watch::known`].
    pub fn watch(self: Arc<Self>, stop: CancellationToken) -> Watch {
        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Secret>(&());
        let fields = Some(format!("metadata.name={}", self.secret.name));
        let scope = Scope { namespace: Some(self.secret.namespace.clone()), fields, ..Scope::default() };
        let cache = Cache::start(&self.client, &resource, &scope, &stop);
        Watch { secret: self, cache, stop }
    }

    fn act(&self, plan: Plan) -> Result<(), PullSecretError> {
        let path = self.auth_file();
        match plan {
            Plan::Write(content) => {
                if fs::read(&path).ok().as_ref() != Some(&content) {
                    replace(self.folder.path(), &path, &content)?;
                    tracing::info!(secret = %self.secret, "the global pull secret counts from the next pull on");
                }
            }
            Plan::Remove => match fs::remove_file(&path) {
                Ok(()) => tracing::info!(secret = %self.secret, "the global pull secret is gone; pulls are anonymous"),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            },
            Plan::Leave(problem) => tracing::error!(secret = %self.secret, problem, "the global pull secret cannot be used"),
        }
        Ok(())
    }
}

/// In one go, so that no pull reads half of it. Temporary files are made for this user alone.
fn replace(folder: &Path, path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(content)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// A Secret that is watched.
pub struct Watch {
    secret: Arc<PullSecret>,
    cache: Cache,
    stop: CancellationToken,
}

impl Watch {
    /// Waits until the Secret is known and the file as it says, but not for long.
    pub async fn known(&self) {
        if tokio::time::timeout(FIRST, self.cache.ready()).await.is_err() {
            tracing::warn!(secret = %self.secret.secret, "the global pull secret cannot be read yet; images are pulled without it");
        } else if let Err(error) = self.secret.act(plan(self.cache.get(&self.secret.secret).as_deref())) {
            tracing::error!(error = mainstay_diagnostics::chain(&error), "the global pull secret is not in force");
        }
    }

    /// Follows the Secret until the end.
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
            async move { secret.act(plan(cache.get(&key).as_deref())).map(|()| Outcome::Done) }
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
        assert_eq!(plan(Some(&secret(&json!({KEY: STANDARD.encode(content)})))), Plan::Write(content.into()));
        assert_eq!(plan(None), Plan::Remove);
        assert_eq!(plan(Some(&secret(&json!({"other": ""})))), Plan::Leave("it has no key .dockerconfigjson".into()));
        for odd in ["%%%", &STANDARD.encode("no JSON")] {
            assert!(matches!(plan(Some(&secret(&json!({KEY: odd})))), Plan::Leave(_)), "{odd}");
        }
    }

    /// OLM1-GEN-10: written for this user alone; left as it is, also where nothing is, when the Secret makes no sense; removed with the Secret.
    #[test]
    fn the_file_is_private() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let cluster = mainstay_runtime::Cluster::Embedded { router: axum::Router::new(), identity: |_| {} };
        let kept = PullSecret::new(cluster.client().unwrap(), Key::new("config", "pull"), Env::system()).unwrap();
        let (file, read) = (kept.auth_file(), || fs::read(kept.auth_file()).ok());
        kept.act(Plan::Leave("it has no key".into())).unwrap();
        assert_eq!(read(), None);
        kept.act(Plan::Write(b"one".to_vec())).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((read(), mode(&file), mode(file.parent().unwrap())), (Some(b"one".to_vec()), 0o600, 0o700));
        kept.act(Plan::Leave("it has no key".into())).unwrap();
        assert_eq!(read(), Some(b"one".to_vec()));
        kept.act(Plan::Remove).unwrap();
        assert_eq!(read(), None);
        kept.act(Plan::Remove).unwrap();
        let folder = file.parent().unwrap().to_owned();
        drop(kept);
        assert!(!folder.exists());
    }
}
