//! The default catalogs of a platform (OLM1-CAT-10 to OLM1-CAT-12).

use mainstay_api::olm_v1::NAME_LABEL;
use serde_json::{Value, json};

use super::compat::Platform;

/// A catalog that a distribution brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultCatalog {
    /// Its name.
    pub name: String,
    /// Its priority.
    pub priority: i32,
    /// The image without tag; the tag is `v<major>.<minor>` of the platform.
    pub repository: String,
    /// Interval between two polls of the tag, in minutes.
    pub poll_minutes: u32,
    /// Description for people: its content and its support.
    pub description: String,
}

/// The set of OpenShift.
pub fn openshift() -> Vec<DefaultCatalog> {
    let rows = [
        ("openshift-redhat-operators", -100, "redhat-operator-index", "Red Hat products, supported by Red Hat."),
        (
            "openshift-certified-operators",
            -200,
            "certified-operator-index",
            "Products of independent software vendors, supported by them; Red Hat partners with them for packaging and delivery.",
        ),
        (
            "openshift-redhat-marketplace",
            -300,
            "redhat-marketplace-index",
            "Certified software that can be bought from Red Hat Marketplace, supported by its vendors.",
        ),
        (
            "openshift-community-operators",
            -400,
            "community-operator-index",
            "Software that its communities maintain in the community operators repository; no official support.",
        ),
    ];
    let catalog = |(name, priority, index, description): (&str, i32, &str, &str)| DefaultCatalog {
        name: name.to_owned(),
        priority,
        repository: format!("registry.redhat.io/redhat/{index}"),
        poll_minutes: 10,
        description: description.to_owned(),
    };
    rows.into_iter().map(catalog).collect()
}

/// The content and support of a default catalog of OpenShift; `None` for any other catalog.
pub fn description(name: &str) -> Option<String> {
    openshift().into_iter().find(|catalog| catalog.name == name).map(|catalog| catalog.description)
}

impl DefaultCatalog {
    /// The object with the fields that are kept as they are; every other field is the user's. It has the label with its name (OLM1-CAT-03), so
    /// that it can be created while the webhook that sets the label is unavailable.
    pub fn object(&self, platform: Platform) -> Value {
        json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
            "metadata": {"name": self.name, "labels": {NAME_LABEL: self.name}},
            "spec": {
                "priority": self.priority,
                "source": {"type": "Image", "image": {
                    "ref": format!("{}:v{platform}", self.repository), "pollIntervalMinutes": self.poll_minutes,
                }},
            },
        })
    }
}

/// The objects to apply now: those that are missing, and those that differ in a listed field. None unless OLM's
/// `spec.managementState` is `Managed`.
pub fn plan(set: &[DefaultCatalog], platform: Platform, olm: &Value, live: &[Value]) -> Vec<Value> {
    if olm.pointer("/spec/managementState") != Some(&json!("Managed")) {
        return Vec::new();
    }
    let differs = |wanted: &Value| {
        let same = |live: &&Value| live["metadata"]["name"] == wanted["metadata"]["name"];
        live.iter().find(same).is_none_or(|live| !is_kept(wanted, live))
    };
    set.iter().map(|catalog| catalog.object(platform)).filter(differs).collect()
}

/// Returns true if a live catalog has every field that is kept as it is.
pub fn is_kept(wanted: &Value, live: &Value) -> bool {
    holds(live, &wanted["spec"], "/spec")
}

/// Returns true if an object has these fields with these values below a path, whatever else it has.
fn holds(live: &Value, wanted: &Value, place: &str) -> bool {
    match wanted {
        // The names of these fields contain nothing that a pointer would have to escape.
        Value::Object(fields) => fields.iter().all(|(name, wanted)| holds(live, wanted, &format!("{place}/{name}"))),
        wanted => live.pointer(place) == Some(wanted),
    }
}
