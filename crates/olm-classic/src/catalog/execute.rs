//! The execution of an InstallPlan's steps, in order, as OLM or as the account of the OperatorGroup (OLM0-IP-05, OLM0-IP-08, OLM0-IP-14).

mod crd;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mainstay_apply::{EventKind, Reason, Warnings, WriteError, Writer};
use mainstay_diagnostics::chain;
use mainstay_objects::{Expect, ObjectRef, Patch, meta};
use mainstay_olm_classic_core::install_plan::reference::BundleReference;
use mainstay_olm_classic_core::install_plan::step::{self, PlannedStep, Scene, StepProblem, Treatment, treatment};
use mainstay_olm_classic_core::install_plan::{self, Failure};
use mainstay_olm_classic_core::source::SourceKey;
use mainstay_olm_classic_core::steps::Step;
use mainstay_runtime::{AccountError, Key, KindError};
use serde_json::{Value, json};

use super::bundles::unpacked;
use super::caches::GROUP;
use super::images::ImageFailure;
use super::parts::Parts;

/// The longest time in which the content of a bundle is loaded again; mostly it is on this machine.
const LOAD: Duration = Duration::from_secs(120);

/// The status code with which kube-apiserver refuses to apply a field that the kind does not declare.
const UNDECLARED: u16 = 500;

/// The end of an execution.
pub struct Executed {
    /// The status, with the states of the steps.
    pub status: Value,
    /// Why it stopped.
    pub failure: Option<Failure>,
}

/// Why a step is not done.
#[derive(Debug, thiserror::Error)]
enum StepFailure {
    /// A kind that OLM does not install (OLM0-IP-12).
    #[error("the InstallPlan contains invalid data")]
    Unsupported,
    /// The object cannot be made.
    #[error(transparent)]
    Problem(#[from] StepProblem),
    /// The CRD may not be replaced.
    #[error(transparent)]
    Crd(#[from] mainstay_olm_classic_core::install_plan::crd::CrdRefusal),
    /// A write was refused.
    #[error("error {doing} {noun} {name}: {}", told(.error))]
    Write { doing: &'static str, noun: &'static str, name: String, error: WriteError },
    /// A read was refused.
    #[error("{}", told(.0))]
    Read(#[from] WriteError),
    /// A Secret for pulling images is not there.
    #[error("secret {name} does not exist - secrets {name:?} not found in namespace {namespace}")]
    NoSecret { name: String, namespace: String },
    /// The server does not serve the object's kind.
    #[error(
        "api-server resource not found installing {kind} {name}: GroupVersionKind {gvk} not found on the cluster. This API may have been deprecated and removed, see https://kubernetes.io/docs/reference/using-api/deprecation-guide/ for more information."
    )]
    NotServed { kind: String, name: String, gvk: String },
    /// The account cannot be used.
    #[error("{}", chain(.0))]
    Account(#[from] AccountError),
    /// The content of a bundle cannot be had.
    #[error("error loading the bundle of {csv}: {problem}")]
    Bundle { csv: String, problem: String },
    /// The bundle does not contain the step.
    #[error("couldn't find unpacked step for {kind} {name}")]
    NoStep { kind: String, name: String },
}

/// The server's words, without ours around them.
fn told(error: &WriteError) -> String {
    match error {
        WriteError::Refused { message, .. } => message.clone(),
        other => chain(other),
    }
}

/// An InstallPlan that is being executed.
pub struct Execution<'a> {
    parts: &'a Arc<Parts>,
    plan: &'a Value,
    namespace: String,
    warnings: Warnings,
    bundles: HashMap<String, Vec<Step>>,
    csv_uids: HashMap<String, String>,
}

impl<'a> Execution<'a> {
    /// Prepares the execution of a plan.
    pub fn of(parts: &'a Arc<Parts>, plan: &'a Value) -> Self {
        let namespace = meta(plan, "namespace").unwrap_or_default();
        Self { parts, plan, namespace, warnings: Warnings::default(), bundles: HashMap::new(), csv_uids: HashMap::new() }
    }

    /// Executes the steps that are not done, until one fails.
    pub async fn run(mut self) -> Executed {
        let mut status = self.plan["status"].clone();
        let count = status["plan"].as_array().map_or(0, Vec::len);
        let writer = match self.writer().await {
            Ok(writer) => writer,
            Err(error) => return stopped(status, &error),
        };
        for at in 0..count {
            let planned = status["plan"][at].clone();
            let step = PlannedStep::of(&planned);
            if step.is_done() {
                continue;
            }
            let done = self.step(&step, &writer).await;
            self.tell_warnings(&step);
            match done {
                Ok(state) => status["plan"][at]["status"] = json!(state),
                Err(error) => {
                    if matches!(error, StepFailure::Unsupported) {
                        status["plan"][at]["status"] = json!("UnsupportedResource");
                    }
                    return stopped(status, &error);
                }
            }
        }
        Executed { status, failure: None }
    }

    /// The writer for everything but CRDs and Secrets that are copied.
    async fn writer(&self) -> Result<Writer, StepFailure> {
        let own = self.parts.writer.noting(&self.warnings);
        let account = &self.plan["status"]["attenuatedServiceAccountRef"];
        let (Some(name), Some(namespace)) = (account["name"].as_str(), account["namespace"].as_str()) else { return Ok(own) };
        let client = self.parts.accounts.client(&Key::new(namespace, name)).await?;
        Ok(Writer::new(client, self.parts.kinds.clone(), super::parts::FIELD_MANAGER).noting(&self.warnings))
    }

    async fn step(&mut self, step: &PlannedStep<'_>, writer: &Writer) -> Result<&'static str, StepFailure> {
        match treatment(step.kind) {
            Treatment::Unsupported => Err(StepFailure::Unsupported),
            Treatment::PullSecret if step.manifest.is_empty() => self.pull_secret(step, writer).await,
            Treatment::Crd => {
                self.is_namespaced(step).await?;
                let manifest = self.manifest(step).await?;
                let scene = Scene { plan: "", namespace: &self.namespace, csv_uid: None, namespaced: false };
                let wanted = step::object(step, &manifest, &scene)?;
                self.definition(step, wanted).await
            }
            Treatment::Csv | Treatment::Subscription => {
                let wanted = self.object(step, true).await?;
                match writer.create(&wanted).await {
                    Ok(made) => {
                        self.remember(&made);
                        Ok("Created")
                    }
                    Err(error) if error.reason() == Some(&Reason::AlreadyExists) => Ok("Present"),
                    Err(error) => Err(write_failed("creating", step, error)),
                }
            }
            Treatment::Object | Treatment::PullSecret => {
                let namespaced = self.is_namespaced(step).await?;
                let wanted = self.object(step, namespaced).await?;
                match writer.create(&wanted).await {
                    Ok(_) => Ok("Created"),
                    Err(error) if error.reason() == Some(&Reason::AlreadyExists) => {
                        // The CSV that is being replaced needs its account until it goes, and an apply would take from it what an earlier one gave.
                        let wanted = if step.kind == "ServiceAccount" { shared(writer, &wanted).await? } else { wanted };
                        update(writer, &wanted).await.map_err(|error| write_failed("updating", step, error))?;
                        Ok("Present")
                    }
                    Err(error) => Err(write_failed("creating", step, error)),
                }
            }
        }
    }

    /// The object of a step that the CSV owns.
    async fn object(&mut self, step: &PlannedStep<'_>, namespaced: bool) -> Result<Value, StepFailure> {
        let manifest = self.manifest(step).await?;
        let uid = match treatment(step.kind) {
            Treatment::Object | Treatment::PullSecret if namespaced => self.csv_uid(step.resolving).await?,
            _ => None,
        };
        let plan = meta(self.plan, "name").unwrap_or_default();
        let scene = Scene { plan: &plan, namespace: &self.namespace, csv_uid: uid.as_deref(), namespaced };
        Ok(step::object(step, &manifest, &scene)?)
    }

    /// Copies a Secret for pulling images from the catalog's namespace.
    async fn pull_secret(&self, step: &PlannedStep<'_>, writer: &Writer) -> Result<&'static str, StepFailure> {
        let place = |namespace: &str| ObjectRef {
            api_version: "v1".to_owned(),
            kind: "Secret".to_owned(),
            namespace: namespace.to_owned(),
            name: step.name.to_owned(),
        };
        let Some(source) = writer.get(&place(step.catalog_namespace)).await? else {
            return Err(StepFailure::NoSecret { name: step.name.to_owned(), namespace: step.catalog_namespace.to_owned() });
        };
        let wanted = step::pull_secret(step.name, &self.namespace, &source);
        match writer.create(&wanted).await {
            Ok(_) => Ok("Created"),
            // It stays as it is, as upstream leaves it.
            Err(error) if error.reason() == Some(&Reason::AlreadyExists) => Ok("Present"),
            Err(error) => Err(write_failed("creating", step, error)),
        }
    }

    /// The manifest of a step, from the bundle if it is a reference.
    async fn manifest(&mut self, step: &PlannedStep<'_>) -> Result<String, StepFailure> {
        let Some(reference) = BundleReference::parse(step.manifest) else { return Ok(step.manifest.to_owned()) };
        if !self.bundles.contains_key(&reference.name) {
            let steps = self.bundle(step.resolving, &reference).await?;
            self.bundles.insert(reference.name.clone(), steps);
        }
        let same = |one: &&Step| (&*one.kind, &*one.group, &*one.version, &*one.name) == (step.kind, step.group, step.version, step.name);
        let found = self.bundles.get(&reference.name).and_then(|steps| steps.iter().find(same));
        let missing = || StepFailure::NoStep { kind: step.kind.to_owned(), name: step.name.to_owned() };
        found.map(|step| step.manifest.clone()).ok_or_else(missing)
    }

    async fn bundle(&self, csv: &str, reference: &BundleReference) -> Result<Vec<Step>, StepFailure> {
        let catalog = SourceKey { name: reference.catalog.clone(), namespace: reference.catalog_namespace.clone() };
        let source = self.parts.caches.sources.get(&Key::new(&*catalog.namespace, &*catalog.name));
        let secrets = source.iter().flat_map(|source| source.data["spec"]["secrets"].as_array().into_iter().flatten());
        let secrets: Vec<String> = secrets.filter_map(|secret| secret.as_str().map(str::to_owned)).collect();
        let failed = |problem: String| StepFailure::Bundle { csv: csv.to_owned(), problem };
        let loaded = if let Some(image) = &reference.image {
            let loading = self.parts.images.bundle(&catalog.namespace, image, &secrets);
            let over = |_| failed(format!("no answer after {} s", LOAD.as_secs()));
            tokio::time::timeout(LOAD, loading).await.map_err(over)?.map_err(|failure: ImageFailure| failed(failure.message))?
        } else {
            let found = unpacked(self.parts, &catalog.namespace, &reference.name).await.map_err(|error| failed(chain(&error)))?;
            let missing = || failed(format!("configmaps {:?} not found in namespace {}", reference.name, catalog.namespace));
            Arc::new(found.ok_or_else(missing)?)
        };
        install_plan::unpacked(&self.namespace, &reference.lookup(csv), &loaded).map_err(|error| failed(error.to_string()))
    }

    /// Returns whether objects of a step's kind live in namespaces; an error if the server does not serve the kind.
    async fn is_namespaced(&self, step: &PlannedStep<'_>) -> Result<bool, StepFailure> {
        let ((group, version), kind) = (step.group_version(), step.object_kind());
        let gvk = kube::api::GroupVersionKind::gvk(group, version, kind);
        match self.parts.kinds.served(&gvk).await {
            Ok(served) => Ok(served.namespaced),
            Err(KindError::NotServed { .. }) => Err(StepFailure::NotServed {
                kind: kind.to_owned(),
                name: step.name.to_owned(),
                gvk: format!("{}, Kind={kind}", step.api_version()),
            }),
            Err(source) => {
                let (api_version, namespace) = (step.api_version(), String::new());
                let place = ObjectRef { api_version, kind: kind.to_owned(), namespace, name: step.name.to_owned() };
                Err(WriteError::Kind { object: Box::new(place), source }.into())
            }
        }
    }

    /// The uid of a CSV of the plan's namespace.
    async fn csv_uid(&mut self, name: &str) -> Result<Option<String>, StepFailure> {
        if let Some(uid) = self.csv_uids.get(name) {
            return Ok(Some(uid.clone()));
        }
        let place = ObjectRef {
            api_version: format!("{GROUP}/v1alpha1"),
            kind: "ClusterServiceVersion".to_owned(),
            namespace: self.namespace.clone(),
            name: name.to_owned(),
        };
        let found = self.parts.writer.get(&place).await?;
        if let Some(csv) = &found {
            self.remember(csv);
        }
        Ok(self.csv_uids.get(name).cloned())
    }

    fn remember(&mut self, object: &Value) {
        if object["kind"] == "ClusterServiceVersion"
            && let (Some(name), Some(uid)) = (meta(object, "name"), meta(object, "uid"))
        {
            self.csv_uids.insert(name, uid);
        }
    }

    /// Reports the server's warnings about a step (OLM0-IP-13).
    fn tell_warnings(&self, step: &PlannedStep<'_>) {
        let warnings = self.warnings.take();
        if warnings.is_empty() {
            return;
        }
        let note = format!(
            "{} warning(s) generated during installation of operator {:?} ({} {:?}): {}",
            warnings.len(),
            step.resolving,
            step.kind,
            step.name,
            warnings.join(", ")
        );
        self.parts.metrics.warned(warnings.len());
        if let Err(error) = self.parts.recorder.record(self.plan, EventKind::Warning, "AppliedWithWarnings", "Applying", &note) {
            tracing::warn!(%error, "an event could not be recorded");
        }
    }
}

/// Brings an object that exists to the content of a step.
async fn update(writer: &Writer, wanted: &Value) -> Result<(), WriteError> {
    match writer.apply(wanted, true, &Expect::default()).await {
        // Server-side apply refuses a field that the kind does not declare, of which a create says nothing: an object that could be made by
        // one plan must not fail the next one.
        Err(refusal) if refusal.reason() == Some(&Reason::Other(UNDECLARED)) => {
            let place = ObjectRef::of(wanted)?;
            let Some(live) = writer.get(&place).await? else { return Err(refusal) };
            writer.patch(&place, "", &Patch::Merge(step::over(wanted, &live))).await.map(drop)
        }
        outcome => outcome.map(drop),
    }
}

/// An object with the owners that it has besides.
async fn shared(writer: &Writer, wanted: &Value) -> Result<Value, WriteError> {
    let live = writer.get(&ObjectRef::of(wanted)?).await?.unwrap_or_default();
    Ok(step::over(wanted, &live))
}

fn write_failed(doing: &'static str, step: &PlannedStep<'_>, error: WriteError) -> StepFailure {
    StepFailure::Write { doing, noun: step::noun(step.kind), name: step.name.to_owned(), error }
}

fn stopped(status: Value, error: &StepFailure) -> Executed {
    let terminal = matches!(error, StepFailure::Unsupported);
    Executed { status, failure: Some(Failure { message: error.to_string(), terminal }) }
}
