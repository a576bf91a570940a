//! The plan for one request (COP-CRED-01 to COP-CRED-04, OLM0-TOKEN-04, OLM0-TOKEN-07).

use std::time::Duration;

use jiff::Timestamp;
use mainstay_objects::ObjectRef;
use serde_json::{Value, json};

use crate::conditions::{self, Condition, Provisioned};
use crate::provider::{self, Minted, Order, ProviderError};
use crate::token::{self, Asked};
use crate::{Cloud, Contents, FINALIZER, Mode, REQUEST_MARK, ROOT_MODE, Request, Settings};

/// The interval at which a request that is in order is synced again.
pub const SYNC: Duration = Duration::from_secs(3600);

/// The facts that a plan is made of.
#[derive(Clone, Debug)]
pub struct Snapshot<'a> {
    /// The CredentialsRequest.
    pub object: &'a Value,
    /// The same, read.
    pub request: &'a Request,
    /// The settings of the cluster.
    pub settings: &'a Settings,
    /// True if the namespace of the Secret exists.
    pub has_namespace: bool,
    /// The Secret.
    pub secret: Option<&'a Value>,
    /// The root Secret of the platform.
    pub root: Option<&'a Value>,
    /// True if there is a provider that mints credentials.
    pub can_mint: bool,
    /// The answer of the provider to [`Plan::Need`].
    pub answer: Option<&'a Answer>,
    /// The present time, in whole seconds.
    pub now: Timestamp,
}

/// The provider's part before a plan can be made.
#[derive(Clone, Debug, PartialEq)]
pub enum Need {
    /// Credentials.
    Mint(Box<Order>),
    /// The removal of the identity that these notes name.
    Release(Value),
}

/// The answer of the provider.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Credentials, or why there are none.
    Minted(Result<Minted, ProviderError>),
    /// The identity is gone, or why it is not.
    Released(Result<(), ProviderError>),
}

/// A write of the Secret.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// A new Secret.
    Create(Value),
    /// A merge patch of the Secret that was read.
    Patch(Value),
}

/// The plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Nothing is to be done.
    Nothing,
    /// The finalizer is to be added.
    AddFinalizer,
    /// The provider is needed.
    Need(Need),
    /// The Secret and the status are to be written.
    Sync {
        /// The Secret, unless it is in order.
        secret: Option<Write>,
        /// The status.
        status: Value,
        /// The time after which to look again.
        again: Option<Duration>,
        /// Why the request cannot be granted; it is tried again with back-off.
        failure: Option<String>,
    },
    /// The request is being deleted: the Secret goes, then the finalizer.
    Remove {
        /// The Secret and its UID, if it was written for the request.
        secret: Option<(ObjectRef, String)>,
        /// The status before the removal.
        status: Value,
    },
}

/// Returns the plan.
pub fn plan(snapshot: &Snapshot<'_>) -> Plan {
    let Snapshot { object, request, settings, now, .. } = snapshot;
    let token_mode = settings.is_token_mode();
    if settings.mode == Mode::Manual && !token_mode {
        return Plan::Nothing;
    }
    let mut status = status_of(object);
    let matches = settings.cloud().is_some() && request.cloud() == settings.cloud();
    let Some(cloud) = settings.cloud().filter(|_| matches) else {
        conditions::ignored(&mut status, &settings.platform, *now);
        return sync(None, status);
    };
    conditions::not_ignored(&mut status, &settings.platform, *now);
    let has_finalizer = finalizers(object).any(|finalizer| finalizer == FINALIZER);
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return if has_finalizer { removal(snapshot, status) } else { Plan::Nothing };
    }
    if !has_finalizer {
        return Plan::AddFinalizer;
    }
    conditions::namespace(&mut status, &request.secret_namespace, !snapshot.has_namespace, *now);
    if !snapshot.has_namespace {
        return sync(None, status);
    }
    if token_mode { by_token(snapshot, status) } else { by_root(snapshot, cloud, status) }
}

fn by_token(snapshot: &Snapshot<'_>, status: Value) -> Plan {
    match token::asked(snapshot.request, snapshot.settings.universe.as_deref()) {
        // The Secret is made by somebody else; upstream calls that provisioned.
        Asked::Nothing => settled(snapshot, None, status),
        Asked::Wrong(problem) => failed(snapshot, status, Provisioned::Failed(problem)),
        Asked::For(contents) => granted(snapshot, &contents, status),
    }
}

fn by_root(snapshot: &Snapshot<'_>, cloud: Cloud, mut status: Value) -> Plan {
    let Some(root) = snapshot.root else {
        // An administrator may take the root credentials away after all requests were granted.
        if is_minted(&status, snapshot) {
            return settled(snapshot, None, status);
        }
        let name = cloud.root_secret();
        return failed(snapshot, status, Provisioned::Failed(format!("unable to fetch root cloud cred secret: Secret {name:?} not found")));
    };
    let mark = root.pointer("/metadata/annotations").and_then(|all| all.get(ROOT_MODE)).and_then(Value::as_str);
    let contents = Contents::read(root);
    let missing = cloud.root_keys().iter().find(|key| !contents.has(key));
    let mode = match (mark, snapshot.settings.mode) {
        (Some("insufficient"), _) => return failed(snapshot, status, Provisioned::Insufficient),
        (Some("passthrough"), _) | (None, Mode::Passthrough) => Mode::Passthrough,
        (Some("mint"), _) | (None, Mode::Mint) => Mode::Mint,
        (None, _) if snapshot.can_mint => Mode::Mint,
        (None, _) => {
            return failed(snapshot, status, Provisioned::Failed("cannot proceed without cloud cred secret annotation".to_owned()));
        }
        (Some(_), _) => {
            let problem = format!("unexpected value or missing {ROOT_MODE} annotation on admin credentials Secret");
            return failed(snapshot, status, Provisioned::Failed(problem));
        }
    };
    if let Some(missing) = missing {
        let problem = format!("secret {}/{}: key {missing} is missing or empty", crate::ROOT_NAMESPACE, cloud.root_secret());
        return failed(snapshot, status, Provisioned::Failed(problem));
    }
    if mode == Mode::Passthrough {
        let plan = granted(snapshot, &passed_through(cloud, &contents), status.clone());
        return left_behind(snapshot, plan, &status);
    }
    if !snapshot.can_mint {
        let problem =
            format!("no provider of platform {} mints credentials here; set credentialsMode to Passthrough or Manual", cloud.platform());
        return failed(snapshot, status, Provisioned::Failed(problem));
    }
    if let Some(problem) = foreign(snapshot) {
        return failed(snapshot, status, Provisioned::Failed(problem));
    }
    match snapshot.answer {
        None if is_minted(&status, snapshot) && !is_due(snapshot, &status, root) => settled(snapshot, None, status),
        Some(Answer::Minted(Ok(minted))) => {
            status["providerStatus"] = minted.notes.clone();
            granted(snapshot, &minted.contents, status)
        }
        Some(Answer::Minted(Err(problem))) => {
            failed(snapshot, status, Provisioned::Failed(format!("error syncing creds in mint-mode: {problem}")))
        }
        _ => {
            let held = status.get("providerStatus").filter(|held| provider::identity_of(held).is_some()).cloned();
            let order = provider::order(snapshot.request, cloud, &snapshot.settings.infrastructure, held, contents);
            Plan::Need(Need::Mint(Box::new(order)))
        }
    }
}

/// Returns true if the provider made credentials, and the Secret has them.
fn is_minted(status: &Value, snapshot: &Snapshot<'_>) -> bool {
    let has_identity = status.get("providerStatus").and_then(provider::identity_of).is_some();
    let cloud = snapshot.request.cloud();
    let complete = |secret: &Value| {
        let contents = Contents::read(secret);
        snapshot.request.owns(secret) && cloud.is_some_and(|cloud| cloud.root_keys().iter().all(|key| contents.has(key)))
    };
    has_identity && snapshot.secret.is_some_and(complete)
}

/// Returns true if new credentials are due: the request or the root credentials changed.
fn is_due(snapshot: &Snapshot<'_>, status: &Value, root: &Value) -> bool {
    let generation = &snapshot.object["metadata"]["generation"];
    let version = &root["metadata"]["resourceVersion"];
    status["lastSyncGeneration"] != *generation || status["lastSyncCloudCredsSecretResourceVersion"] != *version
}

/// The contents of a Secret that passes the root credentials on, in the form that components expect.
fn passed_through(cloud: Cloud, root: &Contents) -> Contents {
    match cloud {
        Cloud::Aws => {
            provider::aws_keys(root.text("aws_access_key_id").unwrap_or_default(), root.text("aws_secret_access_key").unwrap_or_default())
        }
        Cloud::Azure => {
            let keys = [
                "azure_client_id",
                "azure_client_secret",
                "azure_region",
                "azure_resourcegroup",
                "azure_resource_prefix",
                "azure_subscription_id",
                "azure_tenant_id",
            ];
            Contents::of(keys.map(|key| (key, root.text(key).unwrap_or_default().to_owned())))
        }
        Cloud::Gcp => Contents::of([("service_account.json", root.text("service_account.json").unwrap_or_default().to_owned())]),
        _ => root.clone(),
    }
}

/// An identity that was minted before the mode became Passthrough is removed; if that fails, it is said, and the request is granted still.
fn left_behind(snapshot: &Snapshot<'_>, plan: Plan, before: &Value) -> Plan {
    let Some(notes) = before.get("providerStatus").filter(|notes| provider::identity_of(notes).is_some()) else { return plan };
    let identity = provider::identity_of(notes).unwrap_or_default();
    let Plan::Sync { secret, mut status, again, failure } = plan else { return plan };
    match snapshot.answer {
        _ if failure.is_some() => {}
        Some(Answer::Released(Ok(()))) => status["providerStatus"] = json!({}),
        Some(Answer::Released(Err(problem))) => {
            let outcome = Provisioned::Orphaned(format!("unable to clean up {identity}: {problem}"));
            conditions::provisioned(&mut status, &outcome, snapshot.now);
        }
        _ if snapshot.can_mint => return Plan::Need(Need::Release(notes.clone())),
        _ => {
            let outcome = Provisioned::Orphaned(format!("unable to clean up {identity}: no provider mints credentials here"));
            conditions::provisioned(&mut status, &outcome, snapshot.now);
        }
    }
    Plan::Sync { secret, status, again, failure }
}

fn removal(snapshot: &Snapshot<'_>, mut status: Value) -> Plan {
    let held = status.get("providerStatus").filter(|notes| provider::identity_of(notes).is_some()).cloned();
    match (held, snapshot.answer) {
        (Some(_), Some(Answer::Released(Err(problem)))) => {
            let told = problem.to_string();
            conditions::deprovisioned(&mut status, Some(&told), snapshot.now);
            return Plan::Sync { secret: None, status, again: None, failure: Some(format!("failed to deprovision resource: {problem}")) };
        }
        (Some(_), Some(Answer::Released(Ok(())))) | (None, _) => {}
        (Some(notes), _) if snapshot.can_mint => return Plan::Need(Need::Release(notes)),
        (Some(_), _) => {
            let problem = "no provider mints credentials here";
            conditions::deprovisioned(&mut status, Some(problem), snapshot.now);
            return Plan::Sync { secret: None, status, again: None, failure: Some(format!("failed to deprovision resource: {problem}")) };
        }
    }
    conditions::deprovisioned(&mut status, None, snapshot.now);
    let written = snapshot.secret.filter(|secret| snapshot.request.owns(secret));
    let secret = written.map(|secret| (snapshot.request.secret(), secret["metadata"]["uid"].as_str().unwrap_or_default().to_owned()));
    Plan::Remove { secret, status }
}

/// The request gets a Secret with these contents. A Secret that was not written for it is left alone.
fn granted(snapshot: &Snapshot<'_>, contents: &Contents, status: Value) -> Plan {
    let wanted = secret(snapshot.request, contents);
    match snapshot.secret {
        None => settled(snapshot, Some(Write::Create(wanted)), status),
        Some(live) => match foreign(snapshot) {
            Some(problem) => failed(snapshot, status, Provisioned::Failed(problem)),
            None => settled(snapshot, difference(live, &wanted).map(Write::Patch), status),
        },
    }
}

/// The problem with a Secret that was not written for the request.
fn foreign(snapshot: &Snapshot<'_>) -> Option<String> {
    let live = snapshot.secret.filter(|live| !snapshot.request.owns(live))?;
    let owner = live.pointer("/metadata/annotations").and_then(|all| all.get(REQUEST_MARK)).and_then(Value::as_str);
    let owner = owner.map(|owner| format!(" for CredentialsRequest {owner}")).unwrap_or_default();
    Some(format!("error processing secret: secrets {:?} already exists{owner}", snapshot.request.secret_name))
}

fn secret(request: &Request, contents: &Contents) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {
            "name": request.secret_name, "namespace": request.secret_namespace,
            "labels": {REQUEST_MARK: "true"}, "annotations": {REQUEST_MARK: request.id()},
        },
        "data": contents.data(),
    })
}

/// The merge patch that puts a Secret right; keys of others stay.
fn difference(live: &Value, wanted: &Value) -> Option<Value> {
    let mut patch = json!({});
    for pointer in ["labels", "annotations"] {
        if live["metadata"][pointer].get(REQUEST_MARK) != wanted["metadata"][pointer].get(REQUEST_MARK) {
            patch["metadata"][pointer] = wanted["metadata"][pointer].clone();
        }
    }
    for (key, value) in wanted["data"].as_object().into_iter().flatten() {
        if live["data"].get(key) != Some(value) {
            patch["data"][key] = value.clone();
        }
    }
    if patch == json!({}) {
        return None;
    }
    patch["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    Some(patch)
}

/// A sync that succeeded. Its time is written if something changed, or after [`SYNC`].
fn settled(snapshot: &Snapshot<'_>, secret: Option<Write>, mut status: Value) -> Plan {
    conditions::provisioned(&mut status, &Provisioned::Done, snapshot.now);
    status["provisioned"] = json!(true);
    let metadata = |object: Option<&Value>, field: &str| object.map(|object| object["metadata"][field].clone());
    status["lastSyncGeneration"] =
        metadata(Some(snapshot.object), "generation").filter(|value| value.is_i64() || value.is_u64()).unwrap_or(json!(0));
    if !snapshot.settings.is_token_mode() {
        if let Some(version) = metadata(snapshot.root, "resourceVersion") {
            status["lastSyncCloudCredsSecretResourceVersion"] = version;
        }
        status["lastSyncInfrastructureResourceVersion"] = json!(snapshot.settings.infrastructure_version);
    }
    let last: Option<Timestamp> = status["lastSyncTimestamp"].as_str().and_then(|text| text.parse().ok());
    let is_old = last.is_none_or(|last| snapshot.now.duration_since(last).unsigned_abs() >= SYNC);
    if is_old || secret.is_some() || status != status_of(snapshot.object) {
        status["lastSyncTimestamp"] = json!(snapshot.now.to_string());
    }
    Plan::Sync { secret, status, again: Some(SYNC), failure: None }
}

fn failed(snapshot: &Snapshot<'_>, mut status: Value, outcome: Provisioned) -> Plan {
    conditions::provisioned(&mut status, &outcome, snapshot.now);
    status["provisioned"] = json!(false);
    let failure = match outcome {
        Provisioned::Failed(problem) => problem,
        _ => "cloud credentials insufficient to satisfy credentials request".to_owned(),
    };
    Plan::Sync { secret: None, status, again: None, failure: Some(failure) }
}

fn sync(secret: Option<Write>, status: Value) -> Plan {
    Plan::Sync { secret, status, again: None, failure: None }
}

/// The status of a request, with what a status must have.
fn status_of(object: &Value) -> Value {
    let mut status = object.get("status").filter(|status| status.is_object()).cloned().unwrap_or_else(|| json!({}));
    if !status["provisioned"].is_boolean() {
        status["provisioned"] = json!(false);
    }
    if !status["lastSyncGeneration"].is_i64() && !status["lastSyncGeneration"].is_u64() {
        status["lastSyncGeneration"] = json!(0);
    }
    status
}

fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object.pointer("/metadata/finalizers").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Returns true if a request counts as failing since before `limit`.
pub fn fails_since(status: &Value, limit: Timestamp) -> bool {
    Condition::FAILURES.into_iter().any(|condition| condition.true_since(status).is_some_and(|since| since <= limit))
}
