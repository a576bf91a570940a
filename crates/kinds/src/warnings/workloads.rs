//! Warnings of Pods and of what holds a template of Pods.

use mainstay_schema::field::Path;
use serde_json::Value;

use super::{annotation, part, pod, storage};
use crate::Gvk;
use crate::validate::{int, list, names, text};

pub(super) fn pod(object: &Value) -> Vec<String> {
    let mut found = name(object, "the Pod's hostname");
    found.extend(pod::warnings(object, &Path::root()));
    found
}

fn name(object: &Value, purpose: &str) -> Vec<String> {
    let messages = names::label(text(part(object, "metadata"), "name"));
    if messages.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in {purpose}, which can result in surprising behavior; a DNS label is recommended: [{}]",
        messages.join(" ")
    )]
}

/// Returns true if Kubernetes looks at the template of a changed object.
fn changed(gvk: &Gvk, new: &Value, old: &Value) -> bool {
    if gvk.kind == "DaemonSet" {
        let count = |object| annotation(object, "deprecated.daemonset.template.generation").map(str::to_owned);
        return count(new) != count(old);
    }
    part(part(new, "metadata"), "generation") != part(part(old, "metadata"), "generation")
}

pub(super) fn of(gvk: &Gvk, new: &Value, old: Option<&Value>) -> Vec<String> {
    let named = matches!(gvk.kind.as_str(), "Deployment" | "ReplicaSet" | "ReplicationController" | "Job" | "CronJob");
    let mut found = if named && old.is_none() { name(new, "Pod names and hostnames") } else { Vec::new() };
    let spec = part(new, "spec");
    let path = Path::new("spec");
    if old.is_none_or(|old| changed(gvk, new, old)) {
        found.extend(match (gvk.kind.as_str(), old) {
            ("PodTemplate", _) => pod::warnings(part(new, "template"), &Path::new("template")),
            ("Job", _) => job(spec, &path),
            ("CronJob", _) => job(part(part(spec, "jobTemplate"), "spec"), &path.children(&["jobTemplate", "spec"])),
            // Kubernetes looks at the template that is replaced.
            ("ReplicationController", Some(old)) => pod::warnings(part(part(old, "spec"), "template"), &path.child("template")),
            _ => pod::warnings(part(spec, "template"), &path.child("template")),
        });
    }
    match gvk.kind.as_str() {
        "StatefulSet" => {
            for (index, claim) in list(spec, "volumeClaimTemplates").iter().enumerate() {
                let path = path.child("volumeClaimTemplates").index(index);
                // Kubernetes writes the path in these two ways.
                let path = if old.is_some() { path.child("Spec") } else { path };
                found.extend(storage::claim_spec(part(claim, "spec"), &path));
            }
            if int(spec, "revisionHistoryLimit").is_some_and(|limit| limit < 0) {
                let text = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";
                found.push(text.to_owned());
            }
        }
        "CronJob" if old.is_some() && text(spec, "schedule").contains("TZ") => found.push(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                .to_owned(),
        ),
        _ => {}
    }
    found
}

fn job(spec: &Value, path: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let count = |field| int(spec, field).unwrap_or_default();
    if text(spec, "completionMode") == "Indexed" && count("completions") > 100_000 && count("parallelism") > 10_000 {
        found.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    found.extend(pod::warnings(part(spec, "template"), &path.child("template")));
    found
}
