//! The controller: it watches the inputs of the plans, and carries the plans out.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use mainstay_api::cluster_operator::{self, Inertia};
use mainstay_apply::{EventKind, Reason, Recorder, WriteError, Writer};
use mainstay_diagnostics::chain;
use mainstay_objects::{Expect, ObjectRef, Patch};
use mainstay_runtime::{Cache, Change, Cluster, Env, Key, Kinds, Optional, Outcome, Part, Queue, Scope};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::authority::{self, BUNDLE, SECRET};
use crate::certificates::Authority;
use crate::inject::{self, Taker};
use crate::report::{self, Facts};
use crate::{ACCOUNT, Error, NAMESPACE, annotations, serving};

/// Keys that are reconciled concurrently.
const WORKERS: usize = 2;
/// The longest wait: even work that is due in a year is checked daily, because clocks are set and laptops sleep.
const LOOK: Duration = Duration::from_secs(24 * 3600);
/// The interval at which a given-up Service is checked again, in case its cause is gone.
const LOOK_GIVEN_UP: Duration = Duration::from_secs(600);
/// The interval at which a missing namespace is looked for. It is short, because the user who creates it waits for the result.
const LOOK_FOR_HOME: Duration = Duration::from_secs(5);

/// Runs the service CA until `stop` is cancelled.
pub async fn run(cluster: Cluster, env: Env, stop: CancellationToken) -> Result<(), Error> {
    let queue: Queue<Work> = Queue::default();
    let ca = Arc::new(ServiceCa::start(&cluster.client()?, env.clone(), &queue, &stop));
    queue.add(Work::Authority);
    let reconcile = move |work: Work| {
        let ca = ca.clone();
        async move { ca.reconcile(work).await }
    };
    mainstay_runtime::run("service-ca", queue, WORKERS, env, stop, reconcile).await;
    Ok(())
}

/// The items of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Work {
    /// The CA itself.
    Authority,
    /// The certificate of a Service.
    Service(Key),
    /// An object that receives the bundle.
    Take(Taker, Key),
    /// The ClusterOperator.
    Report,
}

impl fmt::Display for Work {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Authority => out.write_str("the signing key"),
            Self::Service(key) => write!(out, "Service {key}"),
            Self::Take(taker, key) => write!(out, "{} {key}", taker.resource().kind),
            Self::Report => write!(out, "ClusterOperator {ACCOUNT}"),
        }
    }
}

struct ServiceCa {
    writer: Writer,
    env: Env,
    queue: Queue<Work>,
    services: Cache,
    takers: BTreeMap<Taker, Cache>,
    config: Optional,
    operators: Optional,
    recorder: Recorder,
    state: Mutex<State>,
}

/// The state since the start.
#[derive(Default)]
struct State {
    authority: Option<Arc<Authority>>,
    facts: Facts,
    inertia: Inertia,
}

impl ServiceCa {
    fn start(client: &Client, env: Env, queue: &Queue<Work>, stop: &CancellationToken) -> Self {
        let services = Cache::start(client, &core("Service", "services"), &Scope::default(), stop).shown(env.metrics());
        let woken = queue.clone();
        services.on_change(move |change| {
            if let Some(service) = &change.now
                && asks(change)
            {
                woken.add(Work::Service(Key::of(service)));
            }
        });
        follow_secrets(client, &services, queue, &env, stop);
        let takers = Taker::ALL.map(|taker| (taker, follow_taker(client, taker, queue, &env, stop)));
        let optional = |group: &str, version: &str, kind: &str, plural: &str, work: Work| {
            let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
            let woken = queue.clone();
            Optional::start(client, resource, stop, move || woken.add(work.clone())).shown(env.metrics())
        };
        let writer = Writer::new(client.clone(), Kinds::new(client.clone()), ACCOUNT);
        Self {
            recorder: Recorder::new(writer.clone(), env.clone(), ACCOUNT, "mainstay"),
            writer,
            queue: queue.clone(),
            services,
            takers: takers.into(),
            config: optional("operator.openshift.io", "v1", "ServiceCA", "servicecas", Work::Authority),
            operators: optional("config.openshift.io", "v1", "ClusterOperator", "clusteroperators", Work::Report),
            state: Mutex::default(),
            env,
        }
    }

    async fn reconcile(&self, work: Work) -> Result<Outcome, Error> {
        match work {
            Work::Authority => {
                let outcome = self.authority().await;
                self.note(outcome.as_ref().err().map(|error| chain(error)));
                match outcome {
                    Err(error @ Error::NoHome) => {
                        tracing::warn!(retry_in = ?LOOK_FOR_HOME, "{error}");
                        Ok(Outcome::After(LOOK_FOR_HOME))
                    }
                    outcome => outcome,
                }
            }
            Work::Service(key) => self.service(&key).await,
            Work::Take(taker, key) => self.take(taker, &key).await,
            Work::Report => self.report().await,
        }
    }

    async fn authority(&self) -> Result<Outcome, Error> {
        if !self.config.is_known() {
            // The cache wakes this item once it is known. Without it, a rotation that was requested earlier would be done twice.
            return Ok(Outcome::Done);
        }
        let config = self.config.named("cluster").map(|config| serde_json::to_value(&*config)).transpose()?;
        let forced = config.as_ref().and_then(authority::forced_reason);
        let place = secret_at(NAMESPACE, SECRET);
        let live = self.writer.get(&place).await?;
        let now = self.env.now_seconds();
        let (next, told) = match authority::plan(live.as_ref(), forced, now) {
            authority::Plan::Keep { authority, again } => {
                self.show(&authority).await?;
                self.hold(authority);
                return Ok(Outcome::After(until(again, now)));
            }
            authority::Plan::Create { why } => (Authority::create(now, authority::ends(now))?, Some(("SigningKeyCreated", why))),
            authority::Plan::Rotate { authority, why } => (authority.rotate(now, authority::ends(now))?, Some(("SigningKeyRotated", why))),
            authority::Plan::Forget { authority } => (authority, None),
        };
        let wanted = authority::secret(&next, forced);
        let written = match &live {
            None => match self.writer.create(&wanted).await {
                // A Secret that is being created can lack nothing else.
                Err(error) if error.is_not_found() => return Err(Error::NoHome),
                created => created?,
            },
            Some(live) => self.writer.patch(&place, "", &Patch::Merge(replacing(wanted, live))).await?,
        };
        if let Some((reason, why)) = told {
            tracing::info!(reason, why, "the signing key is written");
            self.tell(&written, EventKind::Normal, reason, &why);
        }
        // The Secret is read again before it is used.
        self.queue.add(Work::Authority);
        Ok(Outcome::Done)
    }

    /// Keeps the ConfigMap with the bundle up to date.
    async fn show(&self, authority: &Authority) -> Result<(), Error> {
        let wanted = authority::bundle(authority);
        let live = self.writer.get(&Taker::ConfigMap.place(&Key::new(NAMESPACE, BUNDLE))).await?;
        if live.is_none_or(|live| live.get("data") != wanted.get("data")) {
            self.writer.apply(&wanted, true, &Expect::default()).await?;
        }
        Ok(())
    }

    /// Uses this CA from now on. If it differs from the previous one, everything that depends on it is reconciled again.
    fn hold(&self, authority: Authority) {
        let changed = self.with(|state| {
            let changed = state.authority.as_deref() != Some(&authority);
            if changed {
                state.authority = Some(Arc::new(authority));
            }
            changed
        });
        if !changed {
            return;
        }
        for service in self.services.all() {
            self.queue.add(Work::Service(Key::of(&service)));
        }
        for (taker, cache) in &self.takers {
            for object in cache.all().iter().filter(|object| annotated(object, annotations::INJECT)) {
                self.queue.add(Work::Take(*taker, Key::of(object)));
            }
        }
    }

    async fn service(&self, key: &Key) -> Result<Outcome, Error> {
        let (Some(service), Some(authority)) = (self.services.get(key), self.with(|state| state.authority.clone())) else {
            return Ok(Outcome::Done);
        };
        let service = serde_json::to_value(&*service)?;
        let Some(name) = serving::secret_name(&service) else { return Ok(Outcome::Done) };
        let place = secret_at(&key.namespace, name);
        let live = self.writer.get(&place).await?;
        // The cache may lag. A user who withdraws the request and then writes the Secret must not find it overwritten. So the Secret is
        // read first, and written only if it is unchanged.
        let Some(service) = self.writer.get(&service_at(key)).await?.filter(|now| serving::secret_name(now) == Some(name)) else {
            // The change wakes this item again.
            return Ok(Outcome::Done);
        };
        let now = self.env.now_seconds();
        match serving::plan(&service, live.as_ref(), &authority, now) {
            serving::Plan::NotWanted => Ok(Outcome::Done),
            serving::Plan::GivenUp => Ok(Outcome::After(LOOK_GIVEN_UP)),
            serving::Plan::Keep { again, service } => {
                self.annotate(key, service).await?;
                Ok(Outcome::After(until(again, now)))
            }
            serving::Plan::Refuse { problem, service: service_patch } => {
                self.annotate(key, Some(service_patch)).await?;
                self.tell(&service, EventKind::Warning, "CertificateRefused", &problem);
                Err(Error::Refused { service: key.to_string(), problem })
            }
            serving::Plan::Issue { terms, service: success } => {
                tracing::info!(service = %key, secret = terms.secret, why = terms.why, "a serving certificate is issued");
                let issued = authority.issue(&terms.names, &terms.common_name, now, terms.until)?;
                let wanted = serving::secret(&service, live.as_ref(), &terms, &issued, &authority);
                let written = match live {
                    None => self.writer.create(&wanted).await,
                    Some(_) => self.writer.patch(&place, "", &Patch::Merge(wanted)).await,
                };
                match written {
                    Ok(_) => {
                        self.annotate(key, success).await?;
                        let note = format!("secret {}: {}", terms.secret, terms.why);
                        self.tell(&service, EventKind::Normal, "CertificateIssued", &note);
                        // The Secret is read again to learn when its renewal is due.
                        self.queue.add(Work::Service(key.clone()));
                        Ok(Outcome::Done)
                    }
                    Err(error) if is_refused(&error) => {
                        self.annotate(key, Some(serving::failure(&service, &error.to_string()))).await?;
                        self.tell(&service, EventKind::Warning, "CertificateRefused", &error.to_string());
                        Err(Error::Refused { service: key.to_string(), problem: error.to_string() })
                    }
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    async fn annotate(&self, key: &Key, patch: Option<Value>) -> Result<(), Error> {
        if let Some(patch) = patch {
            self.writer.patch(&service_at(key), "", &Patch::Merge(patch)).await?;
        }
        Ok(())
    }

    async fn take(&self, taker: Taker, key: &Key) -> Result<Outcome, Error> {
        let asks = self.takers.get(&taker).and_then(|cache| cache.get(key)).is_some_and(|object| annotated(&object, annotations::INJECT));
        let (true, Some(authority)) = (asks, self.with(|state| state.authority.clone())) else {
            return Ok(Outcome::Done);
        };
        let place = taker.place(key);
        // The cache holds only metadata, which is enough to see the request; the content comes from the object itself.
        let Some(object) = self.writer.get(&place).await? else { return Ok(Outcome::Done) };
        if let Some(patch) = inject::plan(taker, &object, &authority.bundle_pem()) {
            self.writer.patch(&place, "", &Patch::Json(patch)).await?;
            self.tell(&object, EventKind::Normal, "CABundleInjected", "the CA bundle was put in");
        }
        Ok(Outcome::Done)
    }

    /// Records the outcome of the work on the CA, and wakes the report if it changed.
    fn note(&self, failing: Option<String>) {
        let changed = self.with(|state| {
            let facts = Facts { has_authority: state.authority.is_some(), failing };
            std::mem::replace(&mut state.facts, facts.clone()) != facts
        });
        if changed {
            self.queue.add(Work::Report);
        }
    }

    async fn report(&self) -> Result<Outcome, Error> {
        if !self.operators.is_known() || self.operators.objects().is_none() {
            return Ok(Outcome::Done);
        }
        let now = self.env.now_seconds();
        let (facts, (degraded, wait)) = self.with(|state| {
            let facts = state.facts.clone();
            let problem = facts.problem();
            (facts, state.inertia.judge(problem, now).split())
        });
        let report = report::report(&facts, degraded);
        let written =
            self.writer.keep_status(&cluster_operator::object(ACCOUNT), |live| cluster_operator::status(live, &report, now)).await?;
        if let Some((live, status)) = written
            && let Some(note) = cluster_operator::transitions(&live, &status)
        {
            self.tell(&live, EventKind::Normal, "OperatorStatusChanged", &note);
        }
        Ok(wait.map_or(Outcome::Done, Outcome::After))
    }

    /// Reports an event; failing to report never fails the work.
    fn tell(&self, about: &Value, kind: EventKind, reason: &str, note: &str) {
        if let Err(error) = self.recorder.record(about, kind, reason, "Reconciling", note) {
            tracing::warn!(error = %error, reason, "an event could not be reported");
        }
    }

    fn with<T>(&self, what: impl FnOnce(&mut State) -> T) -> T {
        what(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Wakes the CA, and the Services that request a Secret that changed, whichever object it belongs to.
fn follow_secrets(client: &Client, services: &Cache, queue: &Queue<Work>, env: &Env, stop: &CancellationToken) {
    // Secrets of other types, install records among them, are large and never the service CA's.
    let scope = Scope { part: Part::Metadata, fields: Some("type=kubernetes.io/tls".to_owned()), ..Scope::default() };
    let (services, woken) = (services.clone(), queue.clone());
    Cache::start(client, &core("Secret", "secrets"), &scope, stop).shown(env.metrics()).on_change(move |change| {
        let Some(key) = change.object().map(|secret| Key::of(secret)) else { return };
        if key == Key::new(NAMESPACE, SECRET) {
            woken.add(Work::Authority);
        }
        let names = annotations::spellings(annotations::SECRET_NAME);
        let wants = |service: &DynamicObject| {
            let annotations = service.metadata.annotations.as_ref();
            names.iter().any(|name| annotations.and_then(|all| all.get(name)) == Some(&key.name))
        };
        for service in services.matching(&key.namespace, wants) {
            woken.add(Work::Service(Key::of(&service)));
        }
    });
}

/// Follows the objects that request the bundle. A cluster has far more ConfigMaps and definitions than requests, so only metadata is kept.
fn follow_taker(client: &Client, taker: Taker, queue: &Queue<Work>, env: &Env, stop: &CancellationToken) -> Cache {
    // Every namespace has this ConfigMap, and it never requests another bundle.
    let fields = (taker == Taker::ConfigMap).then(|| "metadata.name!=kube-root-ca.crt".to_owned());
    let scope = Scope { part: Part::Metadata, fields, ..Scope::default() };
    let cache = Cache::start(client, &taker.resource(), &scope, stop).shown(env.metrics());
    let woken = queue.clone();
    cache.on_change(move |change| {
        let Some(object) = change.object() else { return };
        let key = Key::of(object);
        if taker == Taker::ConfigMap && key == Key::new(NAMESPACE, BUNDLE) {
            woken.add(Work::Authority);
        } else if change.now.is_some() && annotated(object, annotations::INJECT) {
            woken.add(Work::Take(taker, key));
        }
    });
    cache
}

/// Returns true if a change of a Service needs work. The count of failed attempts that this controller writes does not: the queue schedules
/// the next attempt.
fn asks(change: &Change) -> bool {
    let told = |service: &DynamicObject| {
        let annotations = service.metadata.annotations.as_ref();
        let read = |name: &str| annotations::spellings(name).map(|name| annotations.and_then(|all| all.get(&name)).cloned());
        let failing = read(annotations::ERROR_NUMBER).map(|number| number.is_some());
        let spec = service.data.pointer("/spec/clusterIP").cloned();
        (read(annotations::SECRET_NAME), read(annotations::SIGNED_BY), failing, spec, service.metadata.uid.clone())
    };
    let Some(now) = &change.now else { return false };
    annotated(now, annotations::SECRET_NAME) && change.before.as_ref().is_none_or(|before| told(before) != told(now))
}

fn annotated(object: &DynamicObject, name: &str) -> bool {
    let annotations = object.metadata.annotations.as_ref();
    annotations::spellings(name).iter().any(|name| annotations.is_some_and(|all| all.contains_key(name)))
}

/// Returns true if an unchanged request would be refused again.
fn is_refused(error: &WriteError) -> bool {
    matches!(error.reason(), Some(Reason::Invalid(_) | Reason::BadRequest | Reason::Forbidden))
}

/// Returns a merge patch that makes the Secret exactly this one, provided that it is still the version that was read.
fn replacing(mut wanted: Value, live: &Value) -> Value {
    for key in live.get("data").and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key) {
        if wanted["data"].get(key).is_none() {
            wanted["data"][key] = Value::Null;
        }
    }
    wanted["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    wanted
}

/// Returns the time to wait until `at`, at most [`LOOK`] and a second.
fn until(at: Timestamp, now: Timestamp) -> Duration {
    let wait = at.duration_since(now);
    // One second more, so that the time has certainly come.
    if wait.is_positive() { wait.unsigned_abs().min(LOOK) + Duration::from_secs(1) } else { Duration::from_secs(1) }
}

fn core(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", kind), plural)
}

fn secret_at(namespace: &str, name: &str) -> ObjectRef {
    ObjectRef { api_version: "v1".to_owned(), kind: "Secret".to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

fn service_at(key: &Key) -> ObjectRef {
    ObjectRef { kind: "Service".to_owned(), ..secret_at(&key.namespace, &key.name) }
}
