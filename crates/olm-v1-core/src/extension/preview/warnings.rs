//! Warnings although nothing is wrong: deprecations, and the bundle's statements about compatible clusters.

use mainstay_api::olm_v1::Enforcement;
use mainstay_bundle::Bundle;
use mainstay_lifecycle::change::Action;
use mainstay_versions::Version;
use serde_json::Value;

use super::super::facts::Snapshot;
use super::super::plan::{Plan, Verdict};
use super::{Extra, chosen_bundle};
use crate::cluster_operator::compat;

pub(super) fn warnings(snapshot: &Snapshot, plan: &Plan, extra: &Extra) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(resolution) = &plan.resolution {
        let deprecations = &resolution.deprecations;
        let package = &resolution.choice.package;
        all.extend(deprecations.package.iter().map(|message| format!("package {package} is deprecated: {message}")));
        all.extend(deprecations.channels.iter().map(|(channel, message)| format!("channel {channel} is deprecated: {message}")));
        all.extend(deprecations.bundle.iter().map(|message| format!("bundle {} is deprecated: {message}", resolution.choice.bundle)));
    }
    all.extend(plan.warnings.iter().cloned());
    match (&plan.consent.gate, &plan.verdict) {
        // The approval is shown separately.
        (Some(gate), _) if !gate.open => {}
        (_, Verdict::Retrying(reason)) if plan.consent.meanwhile.is_some() => all.push(reason.to_string()),
        _ => {}
    }
    if matches!(plan.action, Action::Install | Action::Upgrade | Action::Report)
        && let Some(bundle) = chosen_bundle(snapshot, plan)
    {
        all.extend(platform(&bundle, extra));
        all.extend(compatibility(&bundle, extra));
        all.extend(bundle.warnings.iter().cloned());
    }
    let preflight = snapshot.extension.spec.install.as_ref().and_then(|install| install.preflight.as_ref());
    if preflight.is_some_and(|preflight| preflight.crd_upgrade_safety.enforcement == Enforcement::None) {
        all.push("the upgrade check of CRDs is switched off for this extension; stored custom resources may break".to_owned());
    }
    all
}

/// The bundle's statements about compatible clusters (MS-POL-05).
fn compatibility(bundle: &Bundle, extra: &Extra) -> Vec<String> {
    let mut all = Vec::new();
    let needs = &bundle.csv.min_kube_version;
    if !needs.is_empty() {
        match (&extra.server_version, Version::parse(needs.trim_start_matches('v'))) {
            (_, Err(problem)) => all.push(format!("minKubeVersion {needs:?} of the bundle cannot be read: {problem}")),
            (Some(server), Ok(needed)) => match Version::parse(server) {
                Ok(has) if has < needed => {
                    all.push(format!("the bundle needs Kubernetes {needs} or newer (minKubeVersion), and the server has {server}"));
                }
                _ => {}
            },
            (None, Ok(_)) => {}
        }
    }
    all.extend(removed_apis(bundle));
    all
}

/// The platform versions that the bundle supports, and a warning if it blocks the platform's next update (OLM1-COMPAT-02, OLM1-COMPAT-06).
fn platform(bundle: &Bundle, extra: &Extra) -> Option<String> {
    let properties = declared(bundle);
    let told = match extra.platform {
        Some(platform) => {
            compat::blocks(Some(&properties), platform).map(|blocked| blocked.map(|blocked| format!("{blocked}: {}", blocked.remedy())))
        }
        None => Ok(None),
    };
    match told.and_then(|blocked| if blocked.is_some() { Ok(blocked) } else { limit(&properties) }) {
        Ok(told) => told,
        Err(problem) => Some(format!("which platform versions the bundle supports cannot be told: {problem}")),
    }
}

fn limit(properties: &str) -> Result<Option<String>, compat::CompatError> {
    let words = |max| {
        format!(
            "the bundle supports OpenShift up to {max} (olm.maxOpenShiftVersion): while it is installed, cluster updates beyond that are blocked"
        )
    };
    Ok(compat::max_version(Some(properties))?.map(words))
}

/// The limits that a bundle declares, in its CSV or beside it, each once, in the form of the CSV's annotation.
fn declared(bundle: &Bundle) -> String {
    let mut values: Vec<&str> = Vec::new();
    for property in bundle.csv_properties.iter().chain(&bundle.properties).filter(|property| property.kind == compat::PROPERTY) {
        if !values.contains(&property.value.get()) {
            values.push(property.value.get());
        }
    }
    let each: Vec<String> = values.iter().map(|value| format!(r#"{{"type": "{}", "value": {value}}}"#, compat::PROPERTY)).collect();
    format!("[{}]", each.join(","))
}

/// Warnings about the bundle's objects that use APIs that Kubernetes has removed.
fn removed_apis(bundle: &Bundle) -> Vec<String> {
    let mut all = Vec::new();
    for manifest in bundle.objects.iter().chain(&bundle.others) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&manifest["apiVersion"]), text(&manifest["kind"]));
        if let Some(release) = mainstay_bundle::validators::removed_in(&version, &kind) {
            let line = format!("{kind} {} uses {version}, which Kubernetes {release} removed", text(&manifest["metadata"]["name"]));
            if !all.contains(&line) {
                all.push(line);
            }
        }
    }
    all
}
