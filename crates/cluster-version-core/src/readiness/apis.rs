//! Checks of the API: versions that go, definitions that change, webhooks that do not answer, the store.

use mainstay_lifecycle::preview::custom_resources::impact;
use mainstay_schema::upgrade;
use serde_json::Value;

use super::facts::{CrdFacts, Facts, Read, known, name, text};
use super::finding::{Check, Finding, Level, few};

/// The most objects that a finding names.
const MOST: usize = 5;

/// Requests to versions that the Kubernetes of the release does not have.
pub(super) fn removed(facts: &Facts<'_>) -> Read<Vec<Finding>> {
    let requests = known(&facts.deprecated_requests)?;
    if requests.is_empty() {
        return Ok(Vec::new());
    }
    let release = known(&facts.target.release)?;
    let Some(kubernetes) = &release.kubernetes else {
        return Err("the release does not say which Kubernetes is in it".into());
    };
    let target = (kubernetes.major(), kubernetes.minor());
    let finding = |one: &super::facts::DeprecatedRequests| {
        let removed_in = minor(&one.removed_in)?;
        if removed_in > target || one.requests == 0 {
            return None;
        }
        let by = if one.users.is_empty() { String::new() } else { format!(", by {}", one.users.join(", ")) };
        let evidence = format!(
            "{} requests{by}; Kubernetes {} removes it, and the release has {}.{}",
            one.requests, one.removed_in, target.0, target.1
        );
        let action = "let the programs use the version that replaces it: https://kubernetes.io/docs/reference/using-api/deprecation-guide/";
        Some(Finding::new(Check::RemovedApis, Level::Risk, &*one.resource, evidence, action))
    };
    Ok(requests.iter().filter_map(finding).collect())
}

/// The minor version in `1.32`.
fn minor(text: &str) -> Option<(u64, u64)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Versions in which objects may be stored, and that the new definition lacks: the API server refuses such a change.
pub(super) fn stored_versions(facts: &Facts<'_>) -> Read<Vec<Finding>> {
    let finding = |crd: &CrdFacts| {
        let wanted: Vec<&str> = list(&crd.wanted, "/spec/versions").iter().map(|version| text(version, "/name")).collect();
        let stored = list(&crd.live, "/status/storedVersions").iter().filter_map(Value::as_str);
        let gone: Vec<&str> = stored.filter(|version| !wanted.contains(version)).collect();
        (!gone.is_empty()).then(|| {
            let evidence = format!("objects may be stored as {}, which the new definition lacks", gone.join(", "));
            let object = format!("customresourcedefinition {}", name(&crd.live));
            let action = "store the objects again, then remove the version from status.storedVersions";
            Finding::new(Check::CrdStoredVersions, Level::Blocks, object, evidence, action)
        })
    };
    Ok(known(&facts.target.release)?.crds.iter().filter_map(finding).collect())
}

/// Custom resources that would be invalid or lose fields under the new definition, and changes that are unsafe in themselves.
pub(super) fn compatibility(facts: &Facts<'_>) -> Read<Vec<Finding>> {
    let mut findings = Vec::new();
    for CrdFacts { live, wanted, instances } in &known(&facts.target.release)?.crds {
        let object = format!("customresourcedefinition {}", name(live));
        let mut add = |level, evidence: String, action: &str| {
            findings.push(Finding::new(Check::CrdCompatibility, level, &*object, evidence, action));
        };
        let instances = instances.as_ref().map_err(Clone::clone)?;
        if instances.count == 0 {
            continue;
        }
        let outcome = impact(live, wanted, &instances.objects);
        if !outcome.invalid.is_empty() {
            let evidence =
                format!("{} of {} objects become invalid: {}", outcome.invalid.len(), instances.count, few(&outcome.invalid, MOST));
            add(Level::Risk, evidence, "correct the objects before the update");
        }
        if !outcome.losing.is_empty() {
            let evidence = format!("{} of {} objects lose fields: {}", outcome.losing.len(), instances.count, few(&outcome.losing, MOST));
            add(Level::Risk, evidence, "save what the fields hold");
        }
        if outcome.invalid.is_empty()
            && outcome.losing.is_empty()
            && let Err(unsafe_changes) = upgrade::check(live, wanted)
        {
            // A change that the comparison does not know is not stricter.
            let stricter = unsafe_changes.iter().filter(|change| change.rule != "unhandled");
            let told: Vec<String> = stricter.map(ToString::to_string).collect();
            if !told.is_empty() {
                let evidence =
                    format!("the definition becomes stricter, and the {} objects stay valid: {}", instances.count, few(&told, MOST));
                add(Level::Note, evidence, "look at what writes such objects");
            }
        }
        for note in outcome.notes.iter().take(MOST) {
            add(Level::Note, note.clone(), "nothing; this was not looked at");
        }
        if instances.objects.len() < instances.count {
            let evidence = format!("only {} of {} objects were looked at", instances.objects.len(), instances.count);
            add(Level::Note, evidence, "nothing; the others were not looked at");
        }
    }
    Ok(findings)
}

/// Webhooks that refuse everything while nothing answers for them.
pub(super) fn webhooks(facts: &Facts<'_>) -> Read<Vec<Finding>> {
    let ready = known(&facts.ready_services)?;
    let mut findings = Vec::new();
    for configuration in known(&facts.webhooks)? {
        let kind = text(configuration, "/kind").to_lowercase();
        for webhook in list(configuration, "/webhooks") {
            let service = (text(webhook, "/clientConfig/service/namespace"), text(webhook, "/clientConfig/service/name"));
            let fails_closed = text(webhook, "/failurePolicy") != "Ignore";
            if !fails_closed || service.1.is_empty() || ready.contains(&(service.0.to_owned(), service.1.to_owned())) {
                continue;
            }
            let evidence = format!(
                "{} fails closed, and service {}/{} has no ready endpoint: what it is asked about is refused",
                text(webhook, "/name"),
                service.0,
                service.1
            );
            let action = "bring its service back, or remove the configuration";
            findings.push(Finding::new(Check::Webhooks, Level::Risk, format!("{kind} {}", name(configuration)), evidence, action));
        }
    }
    Ok(findings)
}

/// Health checks of the API server that fail; the store is among them.
pub(super) fn store(facts: &Facts<'_>) -> Read<Vec<Finding>> {
    let finding = |failing: &String| {
        let evidence = format!("the health check {failing:?} fails");
        Finding::new(Check::EtcdOrStore, Level::Blocks, "API server", evidence, "kubectl get --raw '/readyz?verbose' shows all checks")
    };
    Ok(known(&facts.failing_health)?.iter().map(finding).collect())
}

fn list<'v>(object: &'v Value, pointer: &str) -> &'v [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
