//! Fetching what a pod's processes need, and laying it out in the pod's directory (KAPI-WL-07).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use mainstay_runtime::Key;
use serde_json::{Value, json};

use super::directory::Directory;
use super::environment::{Environment, command_line, environment};
use super::error::ProcessError;
use super::fields::Addresses;
use super::launch::Launch;
use super::probe::Probe;
use super::run::{Message, Probes};
use super::sources::{self, Held, Holder, TokenSpec, content};
use super::volumes::{Tokens, Volume, mounts, volumes};
use super::{Links, Machine, Resident};
use crate::api::builtin;
use crate::object::{Object, Read as _, items};

/// The oldest token that is not renewed.
const OLDEST: SignedDuration = SignedDuration::from_hours(24);
/// The variables of this program that every process gets: programs are found by them, and speak the user's language.
const INHERITED: [&str; 9] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE"];

/// The volumes of a pod, laid out.
pub struct Prepared {
    volumes: BTreeMap<String, Volume>,
}

/// A container that can start.
pub struct Ready {
    pub launch: Launch,
    pub probes: Probes,
    pub message: Message,
}

/// The tokens of a pod, with the times of their issue.
#[derive(Default)]
pub struct Kept(BTreeMap<TokenSpec, (String, Timestamp)>);

impl Kept {
    /// Returns a token that needs no renewal: before four fifths of its life, and within a day.
    fn fresh(&self, spec: &TokenSpec, now: Timestamp) -> Option<String> {
        let (token, issued) = self.0.get(spec)?;
        let age = now.duration_since(*issued);
        (age < OLDEST && age.as_secs() < spec.1 * 4 / 5).then(|| token.clone())
    }
}

impl Machine {
    /// Fetches what the volumes of a pod hold, and writes them.
    pub(super) async fn prepare(&self, links: &Links, pod: &DynamicObject, addresses: &Addresses) -> Result<Prepared, ProcessError> {
        let wanted = sources::of_volumes(pod);
        let held = held(links, pod, &wanted.objects).await?;
        let tokens = self.tokens(links, pod, &wanted.tokens).await?;
        let volumes = volumes(pod, &held, &tokens, addresses)?;
        let directory = self.directory(pod.uid());
        let written = directory.make().and_then(|()| directory.fill(&volumes));
        written.map_err(|error| format!("its directory below {} cannot be written: {error}", self.base().display()))?;
        Ok(Prepared { volumes })
    }

    /// Brings the volumes of a pod up to date: changed ConfigMaps and Secrets, and tokens that get old.
    pub(in crate::node) async fn refresh(&self, links: &Links, pod: &DynamicObject, addresses: &Addresses) {
        if let Err(why) = self.prepare(links, pod, addresses).await {
            // What is there stays, as the kubelet keeps it.
            tracing::debug!(pod = %Key::of(pod), %why, "the volumes of a process are not brought up to date");
        }
    }

    async fn tokens(&self, links: &Links, pod: &DynamicObject, wanted: &BTreeSet<TokenSpec>) -> Result<Tokens, ProcessError> {
        let mut all = Tokens::new();
        for spec in wanted {
            let now = links.env.now();
            let kept = self.pods().get(pod.uid()).and_then(|resident| resident.tokens.fresh(spec, now));
            let token = if let Some(token) = kept {
                token
            } else {
                let token = issue(links, pod, spec).await?;
                let mut pods = self.pods();
                let resident = pods.entry(pod.uid().to_owned()).or_insert_with(|| Resident::of(pod));
                resident.tokens.0.insert(spec.clone(), (token.clone(), now));
                token
            };
            all.insert(spec.clone(), token);
        }
        Ok(all)
    }

    /// Lays out one container: its root, its environment, its words.
    pub(super) async fn container(
        &self,
        links: &Links,
        pod: &Object,
        name: &str,
        prepared: &Prepared,
        addresses: &Addresses,
    ) -> Result<Ready, (&'static str, String)> {
        let config = |why: ProcessError| ("CreateContainerConfigError", why.to_string());
        let create = |why: String| ("CreateContainerError", why);
        let container = items(pod, "/spec/initContainers").chain(items(pod, "/spec/containers")).find(|one| one["name"] == name);
        let container = container.ok_or_else(|| create("the pod has no such container".to_owned()))?;
        let image = container["image"].as_str().unwrap_or_default();
        let mapping = self.program(image).ok_or_else(|| create(format!("no program stands for image {image:?}")))?;
        if container.pointer("/securityContext/privileged") == Some(&json!(true)) {
            return Err(create("privileged containers are not run as processes of this machine".to_owned()));
        }
        let held = held(links, pod, &sources::of_environment(container)).await.map_err(config)?;
        let directory = self.directory(pod.uid());
        let root = directory.root(name);
        let base = self.base_environment(&root.display().to_string(), &directory.kubeconfig(name).display().to_string());
        let environment = environment(pod, container, base, &held, addresses).map_err(config)?;
        let mounts = mounts(container, &|text| environment.expand(text)).map_err(config)?;
        let written = |error: std::io::Error| create(format!("its directory below {} cannot be written: {error}", self.base().display()));
        directory.mount(name, &mounts, &prepared.volumes).map_err(written)?;
        let kubeconfig = self.kubeconfig(pod, container, &root);
        Directory::write(&directory.kubeconfig(name), kubeconfig.to_string().as_bytes()).map_err(written)?;
        let message = message(container, &root).map_err(config)?;
        // What an earlier run left says nothing about this one.
        Directory::write(&message.path, b"").map_err(written)?;
        let working = match container["workingDir"].as_str().map(|at| at.trim_matches('/')).filter(|at| !at.is_empty()) {
            Some(at) => {
                let at = root.join(super::volumes::safe(at).map_err(config)?);
                std::fs::create_dir_all(&at).map_err(written)?;
                Some(at)
            }
            None => None,
        };
        let probe = |kind: &str| Probe::of(container, kind, &environment).map_err(config);
        let probes = Probes { startup: probe("startupProbe")?, readiness: probe("readinessProbe")?, liveness: probe("livenessProbe")? };
        let words = command_line(mapping, container, &environment);
        let launch = Launch { supervisor: self.0.settings.supervisor.clone(), words, environment, directory: working };
        Ok(Ready { launch, probes, message })
    }

    /// Returns the variables that every process gets.
    fn base_environment(&self, root: &str, kubeconfig: &str) -> Environment {
        let mut base = Environment::default();
        for name in INHERITED {
            if let Ok(value) = std::env::var(name) {
                base.set(name, value);
            }
        }
        if let Some(reached) = self.reached() {
            base.set("KUBERNETES_SERVICE_HOST", reached.host);
            for name in ["KUBERNETES_SERVICE_PORT", "KUBERNETES_SERVICE_PORT_HTTPS"] {
                base.set(name, reached.port.to_string());
            }
        }
        base.set("MAINSTAY_ROOT", root.to_owned());
        base.set("KUBECONFIG", kubeconfig.to_owned());
        base
    }

    /// Returns the kubeconfig of a container: its service account's token, if it is mounted; else no user, as in a pod.
    fn kubeconfig(&self, pod: &DynamicObject, container: &Value, root: &std::path::Path) -> Value {
        let user = token_path(pod, container).map_or_else(|| json!({}), |path| json!({"tokenFile": root.join(path)}));
        let cluster = self.reached().map_or_else(
            || json!({}),
            |reached| {
                let host = if reached.host.contains(':') { format!("[{}]", reached.host) } else { reached.host };
                json!({"server": format!("https://{host}:{}", reached.port), "certificate-authority-data": STANDARD.encode(reached.ca_pem)})
            },
        );
        let context = json!({"cluster": "mainstay", "user": "pod", "namespace": pod.namespace()});
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "pod",
            "clusters": [{"name": "mainstay", "cluster": cluster}],
            "users": [{"name": "pod", "user": user}],
            "contexts": [{"name": "pod", "context": context}],
        })
    }
}

/// Returns the path, below the root of a container, of a token for the API server.
fn token_path(pod: &DynamicObject, container: &Value) -> Option<String> {
    let mounts = mounts(container, &str::to_owned).ok()?;
    items(pod, "/spec/volumes").find_map(|volume| {
        let part = sources::parts(volume).into_iter().find(|part| sources::token(part).is_some_and(|(audience, _)| audience.is_empty()))?;
        let mount = mounts.iter().find(|mount| volume["name"] == mount.volume.as_str() && mount.below.is_empty())?;
        Some(format!("{}/{}", mount.path, part["serviceAccountToken"]["path"].as_str()?))
    })
}

fn message(container: &Value, root: &std::path::Path) -> Result<Message, ProcessError> {
    let path = container["terminationMessagePath"].as_str().filter(|path| !path.is_empty()).unwrap_or("/dev/termination-log");
    let path: PathBuf = root.join(super::volumes::safe(path.trim_start_matches('/'))?);
    Ok(Message { path, from_logs: container["terminationMessagePolicy"] == "FallbackToLogsOnError" })
}

async fn held(links: &Links, pod: &DynamicObject, wanted: &BTreeSet<(Holder, String)>) -> Result<Held, ProcessError> {
    let mut all = Held::new();
    for (kind, name) in wanted {
        let served = match kind {
            Holder::ConfigMap => builtin("v1", "ConfigMap", "configmaps", true),
            Holder::Secret => builtin("v1", "Secret", "secrets", true),
        };
        let object = links.api.get(&served, &Key::new(pod.namespace(), name)).await.map_err(|error| error.message())?;
        let object = object.map(|mut object| {
            object["kind"] = json!(served.resource.kind);
            content(&object)
        });
        all.insert((*kind, name.clone()), object);
    }
    Ok(all)
}

async fn issue(links: &Links, pod: &DynamicObject, (audience, life): &TokenSpec) -> Result<String, ProcessError> {
    let account = pod.text("/spec/serviceAccountName");
    let account = if account.is_empty() { "default" } else { account };
    let served = builtin("v1", "ServiceAccount", "serviceaccounts", true);
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": pod.name(), "uid": pod.uid()});
    let mut spec = json!({"expirationSeconds": life, "boundObjectRef": bound});
    spec["audiences"] = if audience.is_empty() { json!([]) } else { json!([audience]) };
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    let made = links.api.post(&served, &Key::new(pod.namespace(), account), "token", &body).await;
    let made = made.map_err(|error| format!("serviceaccount {account:?}: {}", error.message()))?;
    let token = made.pointer("/status/token").and_then(Value::as_str).map(str::to_owned);
    Ok(token.ok_or_else(|| format!("serviceaccount {account:?}: the answer to a TokenRequest has no token"))?)
}
