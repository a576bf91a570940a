//! The conditions of a ClusterExtension (OLM1-CTRL-02..06).

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mainstay_api::condition::{self, Condition, Status};
use mainstay_api::olm_v1::{BundleMetadata, ClusterExtension, ClusterExtensionStatus, InstallStatus};
use mainstay_lifecycle::revision::{History, InstalledBundle};
use mainstay_resolver::Resolution;

use super::facts::UnreadableHistory;
use super::plan::{Plan, Verdict};
use crate::text::bounded;

/// The four deprecation types, the roll-up first.
const DEPRECATIONS: [&str; 4] = ["Deprecated", "PackageDeprecated", "ChannelDeprecated", "BundleDeprecated"];

/// The status after a plan; `history` is the install records, or the reason why they cannot be read.
pub fn status(
    extension: &ClusterExtension,
    plan: &Plan,
    verdict: &Verdict,
    history: Result<&History, &UnreadableHistory>,
    now: Timestamp,
) -> ClusterExtensionStatus {
    let mut conditions = extension.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    let generation = extension.metadata.generation;
    let mut set = |kind: &str, status: Status, reason: &str, message: &str| {
        let condition = Condition {
            kind: kind.to_owned(),
            status,
            reason: reason.to_owned(),
            message: bounded(message, &format!("mainstay explain {}", extension.metadata.name.as_deref().unwrap_or_default())),
            last_transition_time: Time(now),
            observed_generation: generation,
        };
        condition::set(&mut conditions, condition);
    };
    let bundle = history.ok().and_then(History::installed).map(|revision| &revision.record.bundle);
    match &plan.resolution {
        Some(resolution) => {
            for (kind, message) in DEPRECATIONS.into_iter().zip(deprecations(resolution)) {
                let status = if message.is_empty() { Status::False } else { Status::True };
                set(kind, status, "Deprecated", &message);
            }
        }
        None => {
            if let Verdict::Retrying(problem) | Verdict::Blocked(problem) = verdict {
                let known = extension.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
                let problem = problem.to_string();
                for kind in DEPRECATIONS.into_iter().filter(|kind| condition::get(known, kind).is_none()) {
                    set(kind, Status::False, "Failed", &problem);
                }
            }
        }
    }
    match verdict {
        Verdict::NoAccount { account, namespace } => {
            let message = format!(
                "service account {account:?} not found in namespace {namespace:?}: unable to authenticate with the Kubernetes cluster."
            );
            set("Installed", Status::Unknown, "Failed", &message);
        }
        Verdict::Unreadable(problem) => set("Installed", Status::Unknown, "Failed", &problem.to_string()),
        _ => match bundle {
            Some(bundle) => set("Installed", Status::True, "Succeeded", &installed_message(bundle)),
            None => set("Installed", Status::False, "Failed", "No bundle installed"),
        },
    }
    match verdict {
        Verdict::Reached => set("Progressing", Status::True, "Succeeded", "desired state reached"),
        Verdict::Retrying(reason) => set("Progressing", Status::True, "Retrying", &reason.to_string()),
        Verdict::Blocked(reason) => set("Progressing", Status::False, "Blocked", &reason.to_string()),
        Verdict::NoAccount { .. } => {
            set("Progressing", Status::True, "Retrying", "installation cannot proceed due to missing ServiceAccount");
        }
        Verdict::Unreadable(_) => set("Progressing", Status::True, "Retrying", "retrying to get installed bundle"),
    }
    let shown = !matches!(verdict, Verdict::NoAccount { .. } | Verdict::Unreadable(_));
    let install = bundle
        .filter(|_| shown)
        .map(|bundle| InstallStatus { bundle: BundleMetadata { name: bundle.name.clone(), version: bundle.version.clone() } });
    ClusterExtensionStatus { conditions, install }
}

fn installed_message(bundle: &InstalledBundle) -> String {
    format!("Installed bundle {} successfully", bundle.reference)
}

/// The messages of the four types, in their order; empty if nothing is deprecated (OLM1-CTRL-05).
fn deprecations(resolution: &Resolution) -> [String; 4] {
    let found = &resolution.deprecations;
    let line = |message: &String| format!("\n{message}");
    let package = found.package.as_ref().map(line).unwrap_or_default();
    let channel: String = found.channels.iter().map(|(_, message)| line(message)).collect();
    let bundle = found.bundle.as_ref().map(line).unwrap_or_default();
    let all: Vec<&str> = [&package, &channel, &bundle].into_iter().filter(|text| !text.is_empty()).map(String::as_str).collect();
    [all.join(";"), package, channel, bundle]
}
