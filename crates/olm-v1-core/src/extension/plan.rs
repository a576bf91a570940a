//! The decision for an extension, and its reason (OLM1-CTRL-01).

mod checks;
mod choice;
mod consent;
mod crd_safety;
mod health;
mod hold;
mod home;
mod reason;
mod release;

use std::sync::Arc;

use mainstay_api::olm_v1::{ClusterExtension, WATCH_NAMESPACE};
use mainstay_bundle::{Bundle, Config, ConfigError, RenderError, RenderOptions, render};
use mainstay_lifecycle::approval::{AdditionalBundle, Gate, Mark};
use mainstay_lifecycle::change::{self, Action, Change, PlannedStep};
use mainstay_lifecycle::health_gate::{HealthGate, HealthLimit, Outlook};
use mainstay_lifecycle::revision::Record;
use mainstay_lifecycle::{Fact as LiveFact, Reason as Lifecycle, object};
use mainstay_objects::{Owner, install_order};
use mainstay_resolver::Resolution;
use serde_json::Value;

use super::account_name;
use super::dependencies::Dependencies;
use super::facts::{Answer, Fact, Snapshot, UnreadableHistory};
use super::supported::{self, Refusal};

pub use checks::lacking;
pub use crd_safety::{WARN, crd_findings};
pub use hold::{hold, unheld};
pub use reason::{InvalidAnnotation, NamespaceProblem, Reason, Waits};
pub use release::{release, stays};

/// The finalizers, in the order in which they are added (OLM1-CTRL-07).
pub const FINALIZERS: [&str; 2] =
    ["olm.operatorframework.io/cleanup-unpack-cache", "olm.operatorframework.io/cleanup-contentmanager-cache"];

/// The decision for one extension.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The kind of change.
    pub action: Action,
    /// The extension's namespace, which the controller itself creates before everything else; none if it need not (OLM1-API-02).
    pub namespace: Option<Value>,
    /// The changes, in order.
    pub steps: Vec<PlannedStep>,
    /// The chosen bundle and the reason for it; none if the plan ends before the choice.
    pub resolution: Option<Resolution>,
    /// The record that the change leaves; none if nothing is installed.
    pub record: Option<Arc<Record>>,
    /// The verdict for the conditions.
    pub verdict: Verdict,
    /// Warnings for people although nothing is wrong.
    pub warnings: Vec<String>,
    /// The health gate of the newest revision (MS-RB-01).
    pub gate: HealthGate,
    /// Approvals and other extensions that the plan waits for (MS-POL-01).
    pub consent: Consent,
}

/// The verdict that the conditions show (OLM1-CTRL-03).
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The desired state, once the steps are done.
    Reached,
    /// An error; tried again.
    Retrying(Reason),
    /// An error that needs a person's action.
    Blocked(Reason),
    /// The account is missing.
    NoAccount {
        /// Its name; empty if the extension names none.
        account: String,
        /// The extension's namespace.
        namespace: String,
    },
    /// The install records cannot be read.
    Unreadable(UnreadableHistory),
}

impl Verdict {
    /// The reason why the desired state is not reached; none if the verdict itself says it.
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Retrying(reason) | Self::Blocked(reason) => Some(reason),
            Self::Reached | Self::NoAccount { .. } | Self::Unreadable(_) => None,
        }
    }
}

/// The approvals of a plan.
#[derive(Clone, Debug, Default)]
pub struct Consent {
    /// The change that was, or has to be, approved.
    pub gate: Option<Gate>,
    /// The phases that kept ChangePlans are to show.
    pub marks: Vec<Mark>,
    /// The plan to carry out while this one waits: it keeps the installed revision as it is.
    pub meanwhile: Option<Box<Plan>>,
    /// Bundles that are installed with it, dependencies first.
    pub additional: Vec<AdditionalBundle>,
}

/// Decides for the snapshot, or names the facts that are missing.
pub fn plan(snapshot: &Snapshot) -> Answer<Plan> {
    let mut planner = Planner { snapshot, resolution: None, dependencies: None, gate: HealthGate::default() };
    match planner.decide() {
        Ok(plan) => Answer::Ready(plan),
        Err(Stop::Need(facts)) => Answer::Need(facts),
        Err(Stop::Plan(plan)) => Answer::Ready(*plan),
    }
}

/// The cause for which the planner stops: facts are missing, or the plan is a report.
enum Stop {
    Need(Vec<Fact>),
    Plan(Box<Plan>),
}

impl From<Vec<LiveFact>> for Stop {
    fn from(missing: Vec<LiveFact>) -> Self {
        Self::Need(missing.into_iter().map(Fact::from).collect())
    }
}

struct Planner<'a> {
    snapshot: &'a Snapshot,
    resolution: Option<Resolution>,
    /// The result of the joint resolution; none if the extension is resolved alone.
    dependencies: Option<Dependencies>,
    /// The health of the newest revision, which is read whatever else is decided.
    gate: HealthGate,
}

impl Planner<'_> {
    fn decide(&mut self) -> Result<Plan, Stop> {
        let snapshot = self.snapshot;
        let extension = &*snapshot.extension;
        if let Some(action) = finalizing(extension) {
            return Ok(Plan { action, ..self.report(Verdict::Reached) });
        }
        let history = match &snapshot.history {
            Ok(history) => history,
            Err(problem) => return Err(self.stop(Verdict::Unreadable(problem.clone()))),
        };
        let homeless = match self.account(extension) {
            Err(Stop::Plan(plan)) if matches!(plan.verdict, Verdict::NoAccount { .. }) && self.lacks_namespace()? => {
                return self.namespace_alone(history, plan.verdict);
            }
            Err(stop) => return Err(stop),
            Ok(()) => snapshot.ignore_service_account && self.lacks_namespace()?,
        };
        let limit = HealthLimit::of(extension.metadata.annotations.as_ref());
        let (limit, complaint) = limit.map_or_else(|complaint| (None, Some(complaint)), |limit| (limit, None));
        let situation = self.situation(history, limit.as_ref());
        let (gate, stuck) = match situation.outlook()? {
            Outlook::Back(back) => return self.back(history, *back),
            Outlook::Well(gate) => (gate, None),
            Outlook::Stuck(gate, why) => (gate, Some(why)),
        };
        self.gate = gate;
        self.choose(history.installed())?;
        let bundle = self.bundle()?;
        let objects = self.rendered(&bundle)?;
        let record = Record { bundle: self.installed_bundle(), annotations: bundle.csv.annotations.clone(), objects };
        let mut record = Arc::new(record);
        let mut verdict = Verdict::Reached;
        if let Some((kept, back)) = self.situation(history, limit.as_ref()).held(&record) {
            verdict = Verdict::Blocked(Lifecycle::RolledBack(Box::new(back.clone())).into());
            record = Arc::clone(kept);
        }
        self.permitted(&record.objects)?;
        let action = change::action(history, &record);
        // Another bundle may be a remedy; the same one stays blocked.
        if let Some(why) = stuck.filter(|_| action == Action::Reassert || history.latest().is_some_and(|latest| latest.record == record)) {
            verdict = Verdict::Blocked(Lifecycle::from(why).into());
        }
        let gone = change::vanished(history, &record);
        let live = self.live(&record, &gone)?;
        let mut warnings = self.checked(&action, history, &record, live)?;
        warnings.extend(complaint.map(|invalid| invalid.to_string()));
        let reports = self.resolution.iter().flat_map(|resolution| &resolution.catalogs);
        warnings
            .extend(reports.filter_map(|report| Some(format!("catalog {} is left out: {}", report.catalog, report.left_out.as_ref()?))));
        let at_gate = change::stands_at_gate(history, &record);
        let owner = self.owner();
        let steps = change::steps(&Change {
            action: &action,
            objects: &record.objects.iter().collect::<Vec<_>>(),
            gone: &gone,
            live,
            owner: &owner,
            at_gate,
        });
        let namespace = homeless.then(|| {
            let (namespace, problems) = self.namespace(&bundle);
            warnings.extend(problems);
            namespace
        });
        let plan = Plan { action, namespace, steps, record: Some(record), warnings, ..self.report(verdict) };
        self.consented(plan, history, live)
    }

    fn account(&self, extension: &ClusterExtension) -> Result<(), Stop> {
        if self.snapshot.ignore_service_account {
            return Ok(());
        }
        let account = account_name(extension);
        let missing = || Verdict::NoAccount { account: account.to_owned(), namespace: extension.spec.namespace.clone() };
        if account.is_empty() {
            return Err(self.stop(missing()));
        }
        match &self.snapshot.known.account {
            None => Err(Stop::Need(vec![Fact::Account])),
            Some(Ok(true)) => Ok(()),
            Some(Ok(false)) => Err(self.stop(missing())),
            Some(Err(problem)) => Err(self.stop(Verdict::Retrying(Reason::UnknownAccount(problem.clone())))),
        }
    }

    /// The objects as they are applied, in order.
    fn rendered(&self, bundle: &Bundle) -> Result<Vec<Value>, Stop> {
        rendered(self.snapshot, bundle).map_err(|error| match error {
            // Trying again does not help: only another configuration does.
            ContentError::Config(_) => self.stop(Verdict::Blocked(Reason::Content(error).of_bundle(self.resolution.as_ref()))),
            error => self.fail(Reason::Content(error)),
        })
    }

    fn owner(&self) -> Owner {
        super::owner(&self.snapshot.extension)
    }

    /// A problem that is retried; after resolution it carries the bundle (OLM1-CTRL-04).
    fn fail(&self, reason: impl Into<Reason>) -> Stop {
        self.stop(Verdict::Retrying(reason.into().of_bundle(self.resolution.as_ref())))
    }

    fn stop(&self, verdict: Verdict) -> Stop {
        Stop::Plan(Box::new(self.report(verdict)))
    }

    fn report(&self, verdict: Verdict) -> Plan {
        Plan {
            action: Action::Report,
            namespace: None,
            steps: Vec::new(),
            resolution: self.resolution.clone(),
            record: None,
            verdict,
            warnings: Vec::new(),
            gate: self.gate.clone(),
            consent: Consent::default(),
        }
    }
}

/// Bundle content that cannot be installed as requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// Content that the controller does not support.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Content that cannot be rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// A configuration that the bundle does not accept.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// A bundle's objects as they are applied for the extension, in order.
pub fn rendered(snapshot: &Snapshot, bundle: &Bundle) -> Result<Vec<Value>, ContentError> {
    let extension = &*snapshot.extension;
    supported::check(bundle, &snapshot.gates)?;
    let config = configured(extension, bundle, snapshot)?;
    let annotated = extension.metadata.annotations.as_ref().and_then(|all| all.get(WATCH_NAMESPACE)).map(String::as_str);
    let annotated = annotated.filter(|_| snapshot.gates.on("SingleOwnNamespaceInstallSupport"));
    // The field is newer than the annotation.
    let watch = config.watch_namespace.as_deref().or(annotated);
    let options = RenderOptions {
        install_namespace: extension.spec.namespace.clone(),
        target_namespaces: supported::target_namespaces(watch)?,
        certificates: snapshot.gates.certificates(),
        deployment: config.deployment,
    };
    let owner = super::owner(extension);
    let mut objects: Vec<Value> = render(bundle, &options)?.into_iter().map(|object| object::owned(object, &owner)).collect();
    install_order(&mut objects);
    Ok(objects)
}

/// The configuration that the extension requests, in the bundle's form (OLM1-API-06).
fn configured(extension: &ClusterExtension, bundle: &Bundle, snapshot: &Snapshot) -> Result<Config, ConfigError> {
    match extension.spec.config.as_ref().and_then(|config| config.inline.as_ref()) {
        Some(inline) => Config::read(inline, &bundle.csv, snapshot.gates.on("DeploymentConfig")),
        None => Ok(Config::default()),
    }
}

/// The finalizers to add, or to remove when the extension is deleted; this is decided before everything else (OLM1-CTRL-07).
pub fn finalizing(extension: &ClusterExtension) -> Option<Action> {
    let present = extension.metadata.finalizers.as_deref().unwrap_or_default();
    let has = |name: &&str| present.iter().any(|finalizer| finalizer == name);
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    if extension.metadata.deletion_timestamp.is_some() {
        return Some(Action::Finalize(owned(FINALIZERS.into_iter().filter(has).collect())));
    }
    let missing: Vec<&str> = FINALIZERS.into_iter().filter(|name| !has(name)).collect();
    (!missing.is_empty()).then(|| Action::AddFinalizers(owned(missing)))
}
