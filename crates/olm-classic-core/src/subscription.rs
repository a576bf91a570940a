//! The status of Subscriptions: what the cluster shows about each, and what a resolution found (OLM0-API-17, OLM0-API-18, OLM0-IP-17, OLM0-IP-18).
//!
//! ```text
//!   InstallPlan, CSV, catalogs ── observed ──► status ──► is it pending? ── no ──► resolution ── failed | unpacking | planned ──► status
//! ```

mod conditions;
mod deprecation;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::catalog_source::time;
use crate::resolve::Deprecations;

pub use conditions::{CLEARED_BY_SUCCESS, Condition, remove_condition, set_condition};

/// The annotation of a Subscription that a dependency brought: its InstallPlan (OLM0-RES-22).
pub const GENERATED_BY: &str = "olm.generated-by";

/// A CatalogSource that a namespace sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisibleCatalog {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its uid.
    pub uid: String,
    /// Its version.
    pub resource_version: String,
    /// True if its content can be used.
    pub healthy: bool,
}

impl VisibleCatalog {
    /// Reads a CatalogSource.
    pub fn of(source: &Value) -> Self {
        let text = |field: &str| source["metadata"][field].as_str().unwrap_or_default().to_owned();
        Self {
            name: text("name"),
            namespace: text("namespace"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            healthy: crate::catalog_source::is_ready(source),
        }
    }
}

/// The facts about the objects that a Subscription refers to.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The catalogs that its namespace sees, by namespace and name.
    pub catalogs: &'a [VisibleCatalog],
    /// The InstallPlan that its status refers to, if it exists.
    pub install_plan: Option<&'a Value>,
    /// The InstallPlan that brought the Subscription, if it exists.
    pub generated_by: Option<&'a Value>,
    /// True if the CSV of `status.currentCSV` exists.
    pub current_csv_exists: bool,
    /// True if its OperatorGroup lets failed installations be replaced (OLM0-UPG-16).
    pub fails_forward: bool,
    /// The deprecations of the installed CSV in its catalog; none if the catalog does not list it.
    pub deprecations: Option<&'a Deprecations>,
}

/// The status of a Subscription as the cluster shows it.
pub fn observed(subscription: &Value, facts: &Facts<'_>, now: Timestamp) -> Value {
    let mut next = subscription.get("status").filter(|status| status.is_object()).cloned().unwrap_or_else(|| json!({}));
    install_plan(&mut next, facts, now);
    catalog_health(&mut next, &subscription["spec"], facts.catalogs, now);
    generated(&mut next, subscription, facts);
    csv(&mut next, facts);
    deprecation::apply(&mut next, &subscription["spec"], facts.deprecations, now);
    stamped(subscription, next, now)
}

/// Sets the time of the last update, if anything else differs from the present status.
pub fn stamped(subscription: &Value, mut next: Value, now: Timestamp) -> Value {
    let present = &subscription["status"];
    if let Some(conditions) = next["conditions"].as_array()
        && conditions.is_empty()
    {
        remove(&mut next, "conditions");
    }
    for field in ["conditions", "lastUpdated"] {
        if next[field].is_null() {
            remove(&mut next, field);
        }
    }
    let mut unstamped = present.as_object().cloned().unwrap_or_default();
    unstamped.remove("lastUpdated");
    let mut compared = next.as_object().cloned().unwrap_or_default();
    compared.remove("lastUpdated");
    // The time is required, so that even a status without news has one.
    if unstamped == compared && present["lastUpdated"].is_string() {
        next["lastUpdated"] = present["lastUpdated"].clone();
    } else {
        next["lastUpdated"] = json!(time(now));
    }
    next
}

/// Returns whether a Subscription waits for its InstallPlan, so that it causes no resolution.
pub fn is_pending(status: &Value) -> bool {
    status["installPlanRef"].is_object() && status["state"] == "UpgradePending"
}

/// Projects the state of the InstallPlan (OLM0-IP-17, OLM0-IP-18).
fn install_plan(status: &mut Value, facts: &Facts<'_>, now: Timestamp) {
    if !status["installPlanRef"].is_object() {
        return;
    }
    let Some(plan) = facts.install_plan else {
        remove_condition(status, "InstallPlanPending");
        remove_condition(status, "InstallPlanFailed");
        if status["state"] == "UpgradePending" {
            // A plan that was deleted before its end is made again.
            for field in ["installPlanRef", "installplan", "currentCSV", "state"] {
                remove(status, field);
            }
        } else {
            let missing = Condition { kind: "InstallPlanMissing", reason: "ReferencedInstallPlanNotFound", message: "", holds: true };
            set_condition(status, &missing, now);
        }
        return;
    };
    let phase = plan["status"]["phase"].as_str().unwrap_or_default();
    let message = plan_message(&plan["status"]);
    let (kind, reason) = match phase {
        "" => ("InstallPlanPending", "InstallPlanNotYetReconciled".to_owned()),
        "Planning" | "Installing" | "RequiresApproval" => ("InstallPlanPending", phase.to_owned()),
        "Failed" => {
            let installed = conditions::find(&plan["status"], "Installed").filter(|condition| condition["status"] == "False");
            let reason = installed.and_then(|condition| condition["reason"].as_str()).unwrap_or("InstallPlanFailed");
            ("InstallPlanFailed", reason.to_owned())
        }
        _ => ("", String::new()),
    };
    for other in ["InstallPlanMissing", "InstallPlanPending", "InstallPlanFailed"].into_iter().filter(|other| *other != kind) {
        remove_condition(status, other);
    }
    if !kind.is_empty() {
        set_condition(status, &Condition { kind, reason: &reason, message: &message, holds: true }, now);
    }
}

/// The message of an InstallPlan: that of its condition, or what its bundles wait for.
fn plan_message(status: &Value) -> String {
    let installed = conditions::find(status, "Installed").and_then(|condition| condition["message"].as_str()).unwrap_or_default();
    if !installed.is_empty() {
        return installed.to_owned();
    }
    let lookups = status["bundleLookups"].as_array().into_iter().flatten();
    let pending = lookups.filter_map(|lookup| conditions::find(lookup, "BundleLookupPending")?["message"].as_str());
    pending.filter(|message| !message.is_empty()).map(|message| format!("{message}.")).collect::<Vec<_>>().join(" ")
}

/// Sets the health of the catalogs (OLM0-CAT-20, OLM0-CAT-35).
fn catalog_health(status: &mut Value, spec: &Value, catalogs: &[VisibleCatalog], now: Timestamp) {
    let (source, namespace) = (spec["source"].as_str().unwrap_or_default(), spec["sourceNamespace"].as_str().unwrap_or_default());
    let is_target = |catalog: &&VisibleCatalog| catalog.name == source && catalog.namespace == namespace;
    let unhealthy = |catalog: &&VisibleCatalog| !catalog.healthy;
    let target = catalogs.iter().find(is_target);
    let bad = target.filter(unhealthy).or_else(|| catalogs.iter().find(unhealthy));
    let (holds, reason, message) = match (target, bad) {
        _ if catalogs.is_empty() => (true, "NoCatalogSourcesFound", "dependency resolution requires at least one catalogsource".to_owned()),
        // A Subscription without source takes any catalog.
        (None, _) if !source.is_empty() => {
            (true, "UnhealthyCatalogSourceFound", format!("targeted catalogsource {namespace}/{source} missing"))
        }
        (_, Some(bad)) => (true, "UnhealthyCatalogSourceFound", format!("targeted catalogsource {}/{} unhealthy", bad.namespace, bad.name)),
        (_, None) => (false, "AllCatalogSourcesHealthy", "all available catalogsources are healthy".to_owned()),
    };
    set_condition(status, &Condition { kind: "CatalogSourcesUnhealthy", reason, message: &message, holds }, now);
    let present = status["catalogHealth"].as_array().cloned().unwrap_or_default();
    let entry = |catalog: &VisibleCatalog| {
        let same = |held: &&Value| held["catalogSourceRef"]["uid"] == *catalog.uid && held["healthy"] == catalog.healthy;
        present.iter().find(same).cloned().unwrap_or_else(|| {
            json!({
                "catalogSourceRef": {
                    "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": catalog.name,
                    "namespace": catalog.namespace, "uid": catalog.uid, "resourceVersion": catalog.resource_version,
                },
                "healthy": catalog.healthy, "lastUpdated": time(now),
            })
        })
    };
    let health: Vec<Value> = catalogs.iter().map(entry).collect();
    if health.is_empty() {
        remove(status, "catalogHealth");
    } else {
        status["catalogHealth"] = json!(health);
    }
}

/// Takes over the InstallPlan that brought the Subscription.
fn generated(status: &mut Value, subscription: &Value, facts: &Facts<'_>) {
    let Some(plan) = facts.generated_by.filter(|_| !status["installPlanRef"].is_object() && !status["installplan"].is_object()) else {
        return;
    };
    refer(status, plan);
    let failed = facts.fails_forward && plan["status"]["phase"] == "Failed";
    status["state"] = json!(if failed { "UpgradeFailed" } else { "UpgradePending" });
    status["currentCSV"] = subscription["spec"]["startingCSV"].clone();
}

/// Refers to an InstallPlan, in both forms.
fn refer(status: &mut Value, plan: &Value) {
    let metadata = &plan["metadata"];
    let (api_version, kind) = ("operators.coreos.com/v1alpha1", "InstallPlan");
    status["installPlanRef"] = json!({
        "apiVersion": api_version, "kind": kind, "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
    });
    status["installplan"] = json!({"apiVersion": api_version, "kind": kind, "name": metadata["name"], "uuid": metadata["uid"]});
}

/// Sets the state by the existence of the current CSV.
fn csv(status: &mut Value, facts: &Facts<'_>) {
    let Some(current) = status["currentCSV"].as_str().filter(|current| !current.is_empty()).map(str::to_owned) else { return };
    let state = if facts.current_csv_exists {
        status["installedCSV"] = json!(current);
        "AtLatestKnown"
    } else if facts.fails_forward && facts.install_plan.is_some_and(|plan| plan["status"]["phase"] == "Failed") {
        "UpgradeFailed"
    } else {
        "UpgradePending"
    };
    status["state"] = json!(state);
}

/// The result of a resolution for a Subscription.
#[derive(Debug, Clone, Copy)]
pub enum Resolution<'a> {
    /// It failed (OLM0-RES-25): the constraints cannot hold, or something kept it from a verdict.
    Failed {
        /// True if the constraints cannot hold.
        unsatisfiable: bool,
        /// The sentence.
        message: &'a str,
    },
    /// The content of its bundles is being unpacked.
    Unpacking {
        /// The reason for waiting; empty if nothing went wrong.
        message: &'a str,
    },
    /// A bundle cannot be unpacked (OLM0-CAT-32).
    UnpackFailed {
        /// The reason.
        reason: &'a str,
        /// The sentence.
        message: &'a str,
    },
    /// All is well, and nothing changes.
    Current,
    /// An InstallPlan takes it to a CSV.
    Planned {
        /// The plan.
        plan: &'a Value,
        /// The plan's generation.
        generation: i64,
        /// The CSV.
        csv: &'a str,
    },
}

/// The status of a Subscription after a resolution.
pub fn resolved(subscription: &Value, resolution: &Resolution<'_>, now: Timestamp) -> Value {
    let mut status = subscription.get("status").filter(|status| status.is_object()).cloned().unwrap_or_else(|| json!({}));
    let mut set = |kind, reason, message| set_condition(&mut status, &Condition { kind, reason, message, holds: true }, now);
    match resolution {
        Resolution::Failed { unsatisfiable: true, message } => set("ResolutionFailed", "ConstraintsNotSatisfiable", *message),
        Resolution::Failed { unsatisfiable: false, message } => set("ResolutionFailed", "ErrorPreventedResolution", *message),
        Resolution::Unpacking { message } => set("BundleUnpacking", "UnpackingInProgress", *message),
        Resolution::UnpackFailed { reason, message } => set("BundleUnpackFailed", *reason, *message),
        Resolution::Current | Resolution::Planned { .. } => {}
    }
    match resolution {
        Resolution::Current | Resolution::Planned { .. } => {
            for kind in CLEARED_BY_SUCCESS {
                remove_condition(&mut status, kind);
            }
        }
        Resolution::Unpacking { .. } | Resolution::UnpackFailed { .. } => {
            remove_condition(&mut status, "ResolutionFailed");
            let other = if matches!(resolution, Resolution::Unpacking { .. }) { "BundleUnpackFailed" } else { "BundleUnpacking" };
            remove_condition(&mut status, other);
        }
        Resolution::Failed { .. } => {}
    }
    if let Resolution::Planned { plan, generation, csv } = resolution {
        refer(&mut status, plan);
        status["state"] = json!("UpgradePending");
        status["installPlanGeneration"] = json!(generation);
        status["currentCSV"] = json!(csv);
    }
    stamped(subscription, status, now)
}

fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}
