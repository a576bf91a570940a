//! A namespace after an InstallPlan, for plans of several updates (OLM0-UPG-12).

use crate::resolve::{Csv, Snapshot, Subscription, UpdatedSubscription};

use super::Content;

/// The namespace once an InstallPlan with this content has succeeded: CSVs are replaced, Subscriptions have what they move on to, and those of
/// dependencies are there.
///
/// # Errors
/// The manifest of a step is no JSON.
pub fn afterwards(snapshot: &Snapshot, content: &Content, updated: &[UpdatedSubscription]) -> Result<Snapshot, serde_json::Error> {
    let mut next = snapshot.clone();
    for step in &content.steps {
        match step.kind.as_str() {
            "ClusterServiceVersion" => {
                let csv = Csv::of(&serde_json::from_str(&step.manifest)?, "Succeeded");
                let is_over = |other: &Csv| other.namespace == snapshot.namespace && (other.name == csv.replaces || other.name == csv.name);
                next.csvs.retain(|other| !is_over(other));
                next.csvs.push(csv);
            }
            "Subscription" => {
                let mut subscription = Subscription::read(&serde_json::from_str(&step.manifest)?);
                subscription.installed_csv.clone_from(&step.resolving);
                subscription.current_csv.clone_from(&step.resolving);
                next.subscriptions.push(subscription);
            }
            _ => {}
        }
    }
    for one in &mut next.subscriptions {
        if let Some(UpdatedSubscription { current_csv, .. }) = updated.iter().find(|updated| updated.name == one.name) {
            one.installed_csv.clone_from(current_csv);
            one.current_csv.clone_from(current_csv);
        }
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;
    use crate::source::SourceKey;
    use crate::steps::{self, Step};

    /// OLM0-UPG-12: an update replaces its CSV alone, its Subscription moves on, and a dependency has a Subscription afterwards.
    #[test]
    fn updates_follow_each_other() {
        let csv = |name: &str, namespace: &str| Csv { name: name.to_owned(), namespace: namespace.to_owned(), ..Csv::default() };
        let catalog = SourceKey { name: "team".to_owned(), namespace: "market".to_owned() };
        let before = Snapshot {
            namespace: "lights".to_owned(),
            csvs: vec![csv("gadget.v1", "lights"), csv("gadget.v1", "other"), csv("lamp.v1", "lights")],
            subscriptions: vec![Subscription { name: "sub".to_owned(), current_csv: "gadget.v1".to_owned(), ..Subscription::default() }],
            ..Snapshot::default()
        };
        let manifest =
            json!({"metadata": {"name": "gadget.v2", "namespace": "lights"}, "spec": {"version": "2.0.0", "replaces": "gadget.v1"}});
        let step = Step {
            resolving: "gadget.v2".to_owned(),
            kind: "ClusterServiceVersion".to_owned(),
            group: "operators.coreos.com".to_owned(),
            version: "v1alpha1".to_owned(),
            name: "gadget.v2".to_owned(),
            catalog: catalog.clone(),
            manifest: manifest.to_string(),
        };
        let content =
            Content { steps: vec![step, steps::subscription("lights", "bulb", "stable", &catalog, "bulb.v1")], lookups: Vec::new() };
        let updated = [UpdatedSubscription { name: "sub".to_owned(), current_csv: "gadget.v2".to_owned() }];
        let after = afterwards(&before, &content, &updated).unwrap();
        let names: Vec<String> = after.csvs.iter().map(|csv| format!("{}/{} {}", csv.namespace, csv.name, csv.version)).collect();
        assert_eq!(names, ["other/gadget.v1 ", "lights/lamp.v1 ", "lights/gadget.v2 2.0.0"]);
        let subscribed: Vec<(&str, &str)> =
            after.subscriptions.iter().map(|one| (one.package.as_str(), one.installed_csv.as_str())).collect();
        assert_eq!(subscribed, [("", "gadget.v2"), ("bulb", "bulb.v1")]);
        assert_eq!(before.csvs.len(), 3, "the namespace itself stays as it is");
    }
}
