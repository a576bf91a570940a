//! The defaults of every namespace (a `default` ServiceAccount, the CA's certificate), and tokens in Secrets (KAPI-AUTH-03).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::DynamicObject;
use mainstay_runtime::{Key, Outcome, Queue, Scope};
use serde_json::{Value, json};

use crate::Result;
use crate::api::{Delete, Patch};
use crate::live::Live;
use crate::object::Read as _;
use crate::replicaset::settle;
use crate::world::{World, wake_self};

const CA_MAP: &str = "kube-root-ca.crt";
const DEFAULT: &str = "default";
/// The annotation of a token Secret with the name of its ServiceAccount.
const ACCOUNT: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// The longest lifetime that can be requested, in seconds: tokens in Secrets live as long as the Secret.
const TOKEN_SECONDS: u64 = 1 << 32;

#[derive(Clone)]
struct Publisher {
    namespaces: Live,
    accounts: Live,
    maps: Live,
    ca: std::sync::Arc<str>,
}

/// Keeps the default ServiceAccount and the CA's certificate in every namespace.
pub async fn run_namespaces(world: World, namespaces: Live, accounts: Live, ca_pem: &[u8]) {
    let scope = Scope { fields: Some(format!("metadata.name={CA_MAP}")), ..Scope::default() };
    let maps = world.follow_some("v1", "ConfigMap", "configmaps", true, &scope);
    let queue: Queue<Key> = Queue::default();
    for live in [&namespaces, &accounts, &maps] {
        live.ready().await;
    }
    wake_self(&namespaces, &queue);
    for (live, name) in [(&accounts, DEFAULT), (&maps, CA_MAP)] {
        let queue = queue.clone();
        live.on_change(move |change| {
            if let Some(object) = change.object().filter(|object| object.name() == name) {
                queue.add(Key::new("", object.namespace()));
            }
        });
    }
    let publisher = Publisher { namespaces, accounts, maps, ca: String::from_utf8_lossy(ca_pem).into() };
    mainstay_runtime::run("serviceaccount", queue, 2, world.env.clone(), world.stop.clone(), move |key| {
        let publisher = publisher.clone();
        async move { settle(publisher.reconcile(&key).await) }
    })
    .await;
}

impl Publisher {
    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(namespace) = self.namespaces.get(key) else { return Ok(Outcome::Done) };
        if namespace.deleting() || namespace.text("/status/phase") == "Terminating" {
            return Ok(Outcome::Done);
        }
        let name = namespace.name();
        if self.accounts.get(&Key::new(name, DEFAULT)).is_none() {
            let account = json!({"metadata": {"name": DEFAULT, "namespace": name}});
            self.accounts.create(name, &account).await?;
        }
        let data = json!({"ca.crt": *self.ca});
        match self.maps.get(&Key::new(name, CA_MAP)) {
            None => {
                let note = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the \
                            internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes \
                            clusters.";
                let map = json!({
                    "metadata": {"name": CA_MAP, "namespace": name, "annotations": {"kubernetes.io/description": note}},
                    "data": data,
                });
                self.maps.create(name, &map).await?;
            }
            Some(map) if *map.at("/data") != data => {
                let patch = Patch::Json(json!([{"op": "add", "path": "/data", "value": data}]));
                self.maps.patch(&Key::of(&map), "", &patch).await?;
            }
            Some(_) => {}
        }
        Ok(Outcome::Done)
    }
}

#[derive(Clone)]
struct Tokens {
    accounts: Live,
    secrets: Live,
    ca: std::sync::Arc<[u8]>,
}

/// Fills Secrets of type `kubernetes.io/service-account-token`, and deletes them with their ServiceAccount.
pub async fn run_tokens(world: World, accounts: Live, ca_pem: &[u8]) {
    let scope = Scope { fields: Some("type=kubernetes.io/service-account-token".to_owned()), ..Scope::default() };
    let secrets = world.follow_some("v1", "Secret", "secrets", true, &scope);
    let queue: Queue<Key> = Queue::default();
    accounts.ready().await;
    secrets.ready().await;
    wake_self(&secrets, &queue);
    let (wake, all) = (queue.clone(), secrets.clone());
    accounts.on_change(move |change| {
        let Some(account) = change.object() else { return };
        for secret in all.in_namespace(account.namespace()) {
            if secret.annotation(ACCOUNT) == Some(account.name()) {
                wake.add(Key::of(&secret));
            }
        }
    });
    let tokens = Tokens { accounts, secrets, ca: ca_pem.into() };
    mainstay_runtime::run("serviceaccount-token", queue, 1, world.env.clone(), world.stop.clone(), move |key| {
        let tokens = tokens.clone();
        async move { settle(tokens.reconcile(&key).await) }
    })
    .await;
}

impl Tokens {
    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(secret) = self.secrets.get(key).filter(|secret| !secret.deleting()) else { return Ok(Outcome::Done) };
        let Some(name) = secret.annotation(ACCOUNT) else { return Ok(Outcome::Done) };
        let place = Key::new(&key.namespace, name);
        let known = self.accounts.get(&place).map(|account| account.uid().to_owned());
        let fits = |uid: &str| secret.annotation(ACCOUNT_UID).is_none_or(|wanted| wanted == uid);
        let Some(uid) = known.filter(|uid| fits(uid)) else {
            // The cache may lag: only the server knows if the account exists.
            let live = self.accounts.api().get_metadata(self.accounts.served(), &place).await?;
            let there = live.as_ref().and_then(|live| live["metadata"]["uid"].as_str()).is_some_and(fits);
            if !there {
                self.secrets.delete(key, &Delete::uid(secret.uid())).await?;
                return Ok(Outcome::Done);
            }
            return Ok(Outcome::Retry);
        };
        let ca = STANDARD.encode(&self.ca);
        let namespace = STANDARD.encode(&key.namespace);
        let data = secret.at("/data");
        let mut wanted = json!({});
        if data["ca.crt"].as_str() != Some(ca.as_str()) {
            wanted["ca.crt"] = json!(ca);
        }
        if data["namespace"].as_str().is_none_or(str::is_empty) {
            wanted["namespace"] = json!(namespace);
        }
        if data["token"].as_str().is_none_or(str::is_empty) {
            wanted["token"] = json!(STANDARD.encode(self.token(&secret, &place).await?));
        }
        let mut patch = json!({"metadata": {"uid": secret.uid()}});
        if wanted != json!({}) {
            patch["data"] = wanted;
        }
        if secret.annotation(ACCOUNT_UID) != Some(uid.as_str()) {
            patch["metadata"]["annotations"] = json!({ACCOUNT_UID: uid});
        }
        if patch.get("data").is_some() || patch.pointer("/metadata/annotations").is_some() {
            self.secrets.patch(key, "", &Patch::Merge(patch)).await?;
        }
        Ok(Outcome::Done)
    }

    /// Requests a token that is bound to the Secret, and is invalid once the Secret is gone.
    async fn token(&self, secret: &DynamicObject, account: &Key) -> Result<String> {
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "expirationSeconds": TOKEN_SECONDS,
                "boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": secret.name(), "uid": secret.uid()},
            },
        });
        let answer = self.accounts.api().post(self.accounts.served(), account, "token", &request).await?;
        let token = answer.pointer("/status/token").and_then(Value::as_str).filter(|token| !token.is_empty());
        token.map(str::to_owned).ok_or_else(|| crate::Error::Object {
            kind: "TokenRequest".into(),
            key: account.clone(),
            problem: "the answer holds no token".into(),
        })
    }
}
