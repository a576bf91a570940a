//! The machine approver: certificate requests of nodes that a machine stands for are approved (MACH-CSR-01 to MACH-CSR-06).

use std::sync::Arc;

use jiff::Timestamp;
use kube::api::{Api, DynamicObject, PostParams};
use mainstay_machine_core::approval::{self, APPROVED, CLIENT_SIGNER, Request, SERVING_SIGNER, Verdict};
use mainstay_machine_core::machine::Machine;
use mainstay_runtime::{Cache, Key, Outcome, Queue, Scope};
use mainstay_workloads::certificates::request;
use serde_json::{Value, json};

use crate::Error;
use crate::kinds::{CONFIG_MAP, NAMESPACE, REQUEST};
use crate::shared::{Shared, named, settled};

/// The place of the settings.
const SETTINGS: (&str, &str) = ("openshift-cluster-machine-approver", "machine-approver-config");

/// Runs the approver.
pub(crate) async fn run(shared: Shared) {
    let queue: Queue<Key> = Queue::default();
    let requests = Cache::start(shared.writer.client(), &REQUEST.resource(), &Scope::default(), &shared.stop).shown(shared.env.metrics());
    let woken = queue.clone();
    requests.on_change(move |change| {
        if let Some(request) = change.now.as_ref().filter(|request| is_waiting(&request.data)) {
            woken.add(Key::of(request));
        }
    });
    // A machine that gets its address or its node may be what a request waits for.
    let (woken, waiting) = (queue.clone(), requests.clone());
    shared.machines.on_change(move |_| {
        waiting.all().iter().filter(|request| is_waiting(&request.data)).for_each(|request| woken.add(Key::of(request)));
    });
    let (env, stop) = (shared.env.clone(), shared.stop.clone());
    let approver = Arc::new(Approver { shared, requests });
    mainstay_runtime::run("machine-approver", queue, 1, env, stop, move |key| {
        let approver = approver.clone();
        async move { settled(approver.reconcile(&key).await) }
    })
    .await;
}

struct Approver {
    shared: Shared,
    requests: Cache,
}

impl Approver {
    async fn reconcile(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(live) = self.shared.get(REQUEST, key).await?.filter(is_waiting) else { return Ok(Outcome::Done) };
        let machines: Vec<Machine> = self.shared.machines_now(NAMESPACE).await?.iter().map(Machine::of).collect();
        let now = self.shared.env.now();
        let is_pending = |request: &&Arc<DynamicObject>| {
            let created = request.metadata.creation_timestamp.as_ref().map(|time| time.0);
            is_waiting(&request.data) && approval::is_recent(created, now)
        };
        let pending = self.requests.all().iter().filter(is_pending).count();
        let most = approval::most_pending(machines.len(), self.shared.nodes.len());
        if pending > most {
            tracing::warn!(pending, most, "too many certificate requests of nodes wait: none is approved");
            return Ok(Outcome::Blocked);
        }
        let request = match read(&live) {
            Ok(request) => request,
            Err(refusal) => {
                tracing::warn!(request = %key, %refusal, "the certificate request cannot be read");
                return Ok(Outcome::Blocked);
            }
        };
        if !approval::is_considered(&request) {
            return Ok(Outcome::Done);
        }
        let clients = self.takes_clients().await?;
        let exists = |node: &str| self.shared.nodes.get(&Key::new("", node)).is_some();
        match approval::verdict(&request, &machines, exists, clients) {
            Verdict::Approve => self.approve(&live, key).await,
            Verdict::LeaveAlone(unfit) => {
                tracing::info!(request = %key, %unfit, "a certificate request is left alone");
                Ok(Outcome::Done)
            }
            Verdict::Retry(missing) => {
                tracing::info!(request = %key, %missing, "a certificate request waits");
                Ok(Outcome::Retry)
            }
        }
    }

    /// Reads whether client certificates are approved (MACH-CSR-06).
    async fn takes_clients(&self) -> Result<bool, Error> {
        let settings = self.shared.get(CONFIG_MAP, &Key::new(SETTINGS.0, SETTINGS.1)).await?;
        let text = settings.as_ref().and_then(|settings| settings.pointer("/data/config.yaml")).and_then(Value::as_str);
        let Some(text) = text else { return Ok(true) };
        match mainstay_yaml::parse(text) {
            Ok(settings) => Ok(settings.pointer("/nodeClientCert/disabled") != Some(&Value::Bool(true))),
            Err(error) => {
                tracing::warn!(%error, "ConfigMap {}/{} cannot be read and does not count", SETTINGS.0, SETTINGS.1);
                Ok(true)
            }
        }
    }

    async fn approve(&self, live: &Value, key: &Key) -> Result<Outcome, Error> {
        let now = format!("{:.0}", self.shared.env.now_seconds());
        let mut body = live.clone();
        let mut conditions = live.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        let (reason, message) = APPROVED;
        conditions.push(json!({
            "type": "Approved", "status": "True", "reason": reason, "message": message, "lastUpdateTime": now, "lastTransitionTime": now,
        }));
        body["status"]["conditions"] = Value::Array(conditions);
        let api: Api<DynamicObject> = Api::all_with(self.shared.writer.client().clone(), &REQUEST.resource());
        match api.replace_subresource("approval", &key.name, &PostParams::default(), &body).await {
            Ok(approved) => {
                tracing::info!(request = %key, user = %named(&approved, REQUEST)?["spec"]["username"], "a certificate request is approved");
                Ok(Outcome::Done)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Outcome::Retry),
            Err(source) => Err(Error::Api { what: format!("the approval of certificate request {key}"), source: Box::new(source) }),
        }
    }
}

/// Returns true if a request of a node is not decided yet.
fn is_waiting(request: &Value) -> bool {
    let signer = request.pointer("/spec/signerName").and_then(Value::as_str).unwrap_or_default();
    let conditions = request.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let is_decided = conditions.into_iter().any(|condition| condition["type"] == "Approved" || condition["type"] == "Denied");
    [CLIENT_SIGNER, SERVING_SIGNER].contains(&signer) && !is_decided
}

fn read(live: &Value) -> Result<Request, request::Refusal> {
    let text = |pointer: &str| live.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let texts = |pointer: &str| {
        let list = live.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let asked = request::Request::read(text("/spec/request"))?;
    Ok(Request {
        created: text("/metadata/creationTimestamp").parse::<Timestamp>().ok(),
        username: text("/spec/username").to_owned(),
        groups: texts("/spec/groups"),
        signer: text("/spec/signerName").to_owned(),
        usages: texts("/spec/usages"),
        common_name: asked.common_name,
        organizations: asked.organizations,
        dns_names: asked.dns_names,
        ip_addresses: asked.ip_addresses,
        has_email: asked.names.email,
    })
}
