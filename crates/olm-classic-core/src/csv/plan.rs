//! One step of the state machine (OLM0-CSV-04, OLM0-CSV-05).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;

use super::health::{self, Health};
use super::install::{self, InstallError};
use super::{Facts, Group, Member, Phase, Reason, Transition, api_labels, membership, replace, requirements, resources, webhook_rules};
use crate::condition;
use crate::deployments::Authority;

/// The time in which an installation must become healthy.
const INSTALL_WITHIN: SignedDuration = SignedDuration::from_mins(5);
/// The time before an installation that failed for the first time is tried again.
const RETRY_INSTALL: SignedDuration = SignedDuration::from_secs(5);
/// The interval at which the server's version is asked for, while it is too old.
const ASK_VERSION: Duration = Duration::from_secs(300);
/// The interval at which APIs are looked for that no watch reports.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// One step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// The phase to write, if it differs.
    pub transition: Option<Transition>,
    /// `status.requirementStatus`, if it was checked.
    pub requirements: Option<Vec<Value>>,
    /// The work before the status is written.
    pub action: Action,
    /// When to look again, besides at every change.
    pub again: Option<Duration>,
    /// CSVs of the namespace that this step concerns.
    pub wake: Vec<String>,
    /// True if the CSV begins to be replaced (`csv_upgrade_count`).
    pub is_upgrade: bool,
    /// True if the CSV is an active member of its group, so that it may be copied and its roles lifted.
    pub is_active: bool,
}

/// The work of a step besides the status.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Action {
    /// Nothing.
    #[default]
    None,
    /// Labels and annotations of the CSV itself.
    Mark {
        /// Labels to set.
        labels: BTreeMap<String, String>,
        /// Annotations to set.
        annotations: BTreeMap<String, String>,
    },
    /// The annotation `olm.providedAPIs` of the group.
    Provide {
        /// The group.
        group: String,
        /// Its text.
        apis: String,
    },
    /// The installation; [`install::desired`] says what it writes.
    Install {
        /// The authority of its certificates if they are good; if the CSV has endpoints and there is none, it is to be made.
        authority: Option<Authority>,
    },
    /// Deletes the Deployments of the CSV.
    RemoveDeployments(Vec<String>),
    /// Ensures the roles of its APIs, which the caller finds with [`crate::operator_group::api_roles`].
    ApiRoles,
    /// Deletes the CSV.
    Delete,
}

impl Plan {
    fn to(phase: Phase, reason: Reason, message: impl Into<String>) -> Self {
        Self { transition: Some(Transition::new(phase, reason, message)), ..Self::default() }
    }

    fn pending(reason: Reason, message: impl Into<String>) -> Self {
        Self::to(Phase::Pending, reason, message)
    }

    pub(super) fn failed(reason: Reason, message: impl Into<String>) -> Self {
        Self::to(Phase::Failed, reason, message)
    }
}

/// Decides the next step of a CSV that is no copy and is not being deleted.
pub fn plan(facts: &Facts<'_>) -> Plan {
    let csv = facts.csv;
    if csv.reason() == Some(Reason::InstallComponentFailedNoRetry) {
        if facts.permissions_changed {
            return Plan::pending(Reason::DetectedClusterChange, "Cluster resources changed state");
        }
        return Plan::default();
    }
    // A CSV with the name of a CRD that is none needs an edit; upstream leaves it as it is.
    let Some(provided) = &csv.provided else { return Plan::default() };
    let missing: BTreeMap<String, String> =
        api_labels(provided, &csv.required).into_iter().filter(|(key, value)| csv.csv.labels.get(key) != Some(value)).collect();
    if !missing.is_empty() {
        return Plan { action: Action::Mark { labels: missing, annotations: BTreeMap::new() }, ..Plan::default() };
    }
    match membership::check(facts) {
        Ok(group) => {
            let mut plan = by_phase(facts, group);
            plan.is_active = true;
            plan
        }
        Err(plan) => *plan,
    }
}

/// The status after an installation that succeeded.
pub fn installed() -> Transition {
    Transition::new(Phase::Installing, Reason::InstallSucceeded, "waiting for install components to report healthy")
}

/// The status after an installation that failed.
pub fn failed(error: &InstallError) -> Transition {
    let reason = match error {
        InstallError::Failed(_) => Reason::InstallComponentFailed,
        InstallError::Forbidden(_) => Reason::InstallComponentFailedNoRetry,
    };
    Transition::new(Phase::Failed, reason, format!("install strategy failed: {error}"))
}

fn by_phase(facts: &Facts<'_>, group: &Group) -> Plan {
    match facts.csv.phase() {
        Phase::None => Plan::pending(Reason::RequirementsUnknown, "requirements not yet checked"),
        Phase::Pending => pending(facts),
        Phase::InstallReady => install_ready(facts),
        Phase::Installing => installing(facts),
        Phase::Succeeded => succeeded(facts),
        Phase::Failed => after_failure(facts, group),
        Phase::Replacing => replacing(facts, group),
        Phase::Deleting => Plan { action: Action::Delete, ..Plan::default() },
        Phase::Unknown => Plan::default(),
    }
}

fn pending(facts: &Facts<'_>) -> Plan {
    let csv = facts.csv;
    let former = replace::replacing(csv, facts.siblings);
    if former.is_some()
        && let Err(error) = condition::upgradeable(facts.condition)
    {
        return Plan::pending(Reason::OperatorConditionNotUpgradeable, format!("operator is not upgradeable: {error}"));
    }
    let (met, statuses) = match requirements::check(facts) {
        Ok(checked) => checked,
        Err(error) => return invalid(&error),
    };
    // The predecessor looks at its successor, and steps aside.
    let wake: Vec<String> =
        former.filter(|former| former.phase() == Phase::Succeeded).map(|former| former.name().to_owned()).into_iter().collect();
    let with = |plan: Plan| Plan { requirements: Some(statuses.clone()), wake: wake.clone(), ..plan };
    if !met {
        let plan = Plan::pending(Reason::RequirementsNotMet, "one or more requirements couldn't be found");
        return with(Plan { again: unwatched(csv), ..plan });
    }
    if let Some(refused) = refused(facts) {
        return with(refused);
    }
    if former.is_some_and(|former| former.phase() != Phase::Replacing) {
        return with(Plan::default());
    }
    with(Plan::to(Phase::InstallReady, Reason::AllRequirementsMet, "all requirements found, attempting install"))
}

/// The step of a CSV whose webhooks are invalid, or whose APIs another CSV has.
fn refused(facts: &Facts<'_>) -> Option<Plan> {
    let csv = facts.csv;
    if let Err(error) = webhook_rules::check(&csv.csv.webhooks) {
        return Some(Plan::failed(Reason::InvalidWebhookDescription, error.to_string()));
    }
    let chain = replace::chain(csv, facts.siblings);
    let owns = |other: &str| csv.csv.owned_crds.iter().any(|crd| crd.name == other);
    let mut foreign = facts.siblings.iter().filter(|other| !chain.contains(other.name()));
    if foreign.any(|other| other.csv.owned_crds.iter().any(|crd| owns(&crd.name))) {
        return Some(Plan::failed(Reason::OwnerConflict, "conflicting CRD owner in namespace"));
    }
    let mut owned = csv.csv.owned_api_services.iter().filter_map(|api| facts.api_services.get(&format!("{}.{}", api.version, api.group)));
    owned.any(|service| !resources::is_adoptable(facts, service)).then(|| Plan::failed(Reason::OwnerConflict, "unable to adopt APIService"))
}

/// The time after which requirements that no watch reports are asked for again.
fn unwatched(csv: &Member) -> Option<Duration> {
    let has_native = csv.csv.object["spec"]["nativeAPIs"].as_array().is_some_and(|all| !all.is_empty());
    if has_native || !csv.csv.required_api_services.is_empty() {
        return Some(LOOK_AGAIN);
    }
    (!csv.csv.min_kube_version.is_empty()).then_some(ASK_VERSION)
}

fn invalid(error: &requirements::InvalidStrategy) -> Plan {
    Plan::failed(Reason::InvalidInstallStrategy, format!("install strategy invalid: {error}"))
}

fn install_ready(facts: &Facts<'_>) -> Plan {
    if let Err(error) = requirements::strategy(facts.csv) {
        return invalid(&error);
    }
    let authority = if facts.csv.has_endpoints() { install::authority(facts) } else { None };
    Plan { action: Action::Install { authority }, ..Plan::default() }
}

/// The wanted state of an installation that was done; `None` if it cannot be known, because certificates are missing.
fn wanted(facts: &Facts<'_>) -> Option<install::Install> {
    let authority = if facts.csv.has_endpoints() { Some(install::authority(facts)?) } else { None };
    install::desired(facts, authority.as_ref()).ok()
}

fn bad() -> Plan {
    Plan::pending(Reason::NeedsReinstall, "calculated deployment install is bad")
}

fn installing(facts: &Facts<'_>) -> Plan {
    if let Err(error) = requirements::strategy(facts.csv) {
        return invalid(&error);
    }
    let Some(wanted) = wanted(facts) else { return bad() };
    let mut plan = judged(&health::check_unfinished(facts, &wanted), Phase::Installing, Reason::InstallWaiting);
    if plan.transition.as_ref().is_some_and(|to| to.phase != Phase::Installing && to.phase != Phase::InstallReady) {
        return plan;
    }
    let since = facts.csv.time("lastTransitionTime").map_or(SignedDuration::ZERO, |since| facts.now.duration_since(since));
    if since >= INSTALL_WITHIN {
        return Plan::failed(Reason::InstallCheckFailed, "install timeout");
    }
    plan.again = Some((INSTALL_WITHIN - since).unsigned_abs() + Duration::from_millis(100));
    plan
}

/// The step that the state of an installation asks for; what waits or is missing leads to `phase`.
fn judged(health: &Health, phase: Phase, reason: Reason) -> Plan {
    match health {
        Health::Healthy => Plan::to(Phase::Succeeded, Reason::InstallSucceeded, "install strategy completed with no errors"),
        Health::Failed(error) => Plan::failed(Reason::InstallCheckFailed, format!("install failed: {error}")),
        Health::ApisMissing => Plan { again: Some(LOOK_AGAIN), ..Plan::to(phase, reason, "apiServices not installed") },
        Health::WebhooksFailed(error) => Plan::to(Phase::InstallReady, reason, format!("Webhook install failed: {error}")),
        Health::WebhooksMissing => Plan::to(phase, reason, "webhooks not installed"),
        Health::Changed(error) => Plan::to(Phase::InstallReady, reason, format!("installing: {error}")),
        Health::Waiting(error) => Plan::to(phase, reason, format!("installing: {error}")),
    }
}

/// Returns whether a certificate of the CSV is missing, damaged or due.
fn certificates_due(facts: &Facts<'_>) -> bool {
    facts.csv.has_endpoints() && !install::serving_deployments(facts).is_empty() && install::authority(facts).is_none()
}

fn succeeded(facts: &Facts<'_>) -> Plan {
    let csv = facts.csv;
    if let Some(next) = replace::replaced_by(csv, facts.siblings) {
        let plan = Plan::to(Phase::Replacing, Reason::BeingReplaced, format!("being replaced by csv: {}", next.name()));
        return Plan { is_upgrade: true, wake: vec![next.name().to_owned()], ..plan };
    }
    if let Err(error) = requirements::strategy(csv) {
        return invalid(&error);
    }
    if let Err(error) = resources::check(facts) {
        return Plan::failed(Reason::ApiServiceResourceIssue, error.to_string());
    }
    if certificates_due(facts) {
        return Plan::pending(Reason::NeedsCertRotation, "CSV owns resources that require a cert refresh");
    }
    match requirements::check(facts) {
        Err(error) => return invalid(&error),
        Ok((false, statuses)) => {
            return Plan { requirements: Some(statuses), ..Plan::failed(Reason::RequirementsNotMet, "requirements no longer met") };
        }
        Ok((true, _)) => {}
    }
    let Some(wanted) = wanted(facts) else { return bad() };
    let mut plan = judged(&health::check(facts, &wanted), Phase::Failed, Reason::ComponentUnhealthy);
    if plan.transition.as_ref().is_some_and(|to| to.phase == Phase::Succeeded) {
        plan.action = Action::ApiRoles;
        let rotation = facts.certificates.values().map(|serving| serving.rotates_at.duration_since(facts.now)).min();
        plan.again = rotation.map(|wait| wait.max(SignedDuration::from_secs(1)).unsigned_abs());
    }
    plan
}

fn after_failure(facts: &Facts<'_>, group: &Group) -> Plan {
    let csv = facts.csv;
    if group.fails_forward
        && let Some(next) = replace::replaced_by(csv, facts.siblings)
    {
        let message = format!("Fail Forward is enabled, allowing {} csv to be replaced by csv: {}", csv.phase(), next.name());
        let plan = Plan::to(Phase::Replacing, Reason::BeingReplaced, message);
        return Plan { is_upgrade: true, wake: vec![next.name().to_owned()], ..plan };
    }
    let again = match csv.reason() {
        Some(
            Reason::NoTargetNamespaces | Reason::NoOperatorGroup | Reason::TooManyOperatorGroups | Reason::UnsupportedOperatorGroup
            // Upstream leaves this one, which OLM0-CSV-06 names.
            | Reason::InvalidInstallModes,
        ) => Some("InstallModes now support target namespaces"),
        Some(Reason::InterOperatorGroupOwnerConflict) => Some("OperatorGroup no longer intersecting with conflicting owner"),
        Some(Reason::CannotModifyStaticOperatorGroupProvidedApis) => {
            Some("static OperatorGroup and intersecting groups now support providedAPIs")
        }
        _ => None,
    };
    if let Some(message) = again {
        return Plan::pending(Reason::RequirementsUnknown, message);
    }
    if let Err(error) = requirements::strategy(csv) {
        return invalid(&error);
    }
    if csv.reason() == Some(Reason::InstallComponentFailed)
        && let Some(wait) = retry_in(facts)
    {
        return Plan { again: Some(wait), ..Plan::default() };
    }
    match requirements::check(facts) {
        Err(error) => return invalid(&error),
        Ok((false, statuses)) => {
            return Plan { requirements: Some(statuses), ..Plan::pending(Reason::RequirementsNotMet, "requirements not met") };
        }
        Ok((true, _)) => {}
    }
    if matches!(csv.reason(), Some(Reason::InvalidWebhookDescription | Reason::OwnerConflict))
        && let Some(refused) = refused(facts)
    {
        // Upstream would go to `Pending` and back without end.
        return refused;
    }
    if let Err(error) = resources::check(facts) {
        let plan = Plan::pending(Reason::ApiServiceResourcesNeedReinstall, error.to_string());
        return if error.is_actionable() { plan } else { Plan::default() };
    }
    if certificates_due(facts) {
        return Plan::pending(Reason::NeedsCertRotation, "owned APIServices need cert refresh");
    }
    let Some(wanted) = wanted(facts) else { return bad() };
    judged(&health::check_unfinished(facts, &wanted), Phase::Pending, Reason::NeedsReinstall)
}

/// The time until an installation that failed is tried again; it doubles with each failure that the history shows.
fn retry_in(facts: &Facts<'_>) -> Option<Duration> {
    let failed = Reason::InstallComponentFailed.as_str();
    let status = facts.csv.status.value();
    let history = status["conditions"].as_array().into_iter().flatten();
    let failures = history.filter(|entry| entry["reason"] == failed).count().saturating_sub(1).min(5);
    let wait = RETRY_INSTALL * (1_i32 << failures);
    let left = wait - facts.now.duration_since(facts.csv.time("lastTransitionTime")?);
    left.is_positive().then(|| left.unsigned_abs())
}

fn replacing(facts: &Facts<'_>, group: &Group) -> Plan {
    let csv = facts.csv;
    if replace::replacing(csv, facts.siblings).is_some() {
        // The oldest of a chain goes first, so that the chain does not break.
        return Plan::default();
    }
    let Some(mut next) = replace::replaced_by(csv, facts.siblings) else {
        // Upstream reports "marked as replacement, but no replacement CSV found in cluster" in its log alone. A successor wakes this one.
        return Plan::default();
    };
    if group.fails_forward {
        next = replace::last_of_chain(next, facts.siblings);
    }
    if next.phase() != Phase::Succeeded {
        return Plan::default();
    }
    let message = "has been replaced by a newer ClusterServiceVersion that has successfully installed.";
    Plan::to(Phase::Deleting, Reason::Replaced, message)
}
