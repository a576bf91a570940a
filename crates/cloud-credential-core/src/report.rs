//! ClusterOperator cloud-credential and the metrics (COP-CRED-05, COP-CRED-07).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use mainstay_api::cluster_operator::{Problem, Related, Report};
use mainstay_versions::Version;
use serde_json::Value;

use crate::conditions::Condition;
use crate::{Cloud, Mode, NAMESPACE, ROOT_NAMESPACE, Settings, SettingsError, UPGRADEABLE_TO, plan};

/// The time for which a request fails before it counts.
pub const GRACE: Duration = Duration::from_secs(300);

/// The facts behind the report.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The settings, or why they are not known.
    pub settings: Result<&'a Settings, &'a SettingsError>,
    /// All requests.
    pub requests: &'a [Value],
    /// True if the root Secret of the platform is there.
    pub has_root: bool,
    /// ClusterVersion, if the cluster has that kind.
    pub version: Option<&'a Value>,
    /// The release of the program.
    pub release: &'a str,
    /// The present time.
    pub now: Timestamp,
}

/// Builds the report, and the time after which it may change by itself.
pub fn report(facts: &Facts<'_>) -> (Report, Option<Duration>) {
    let mut report = Report {
        unavailable: None,
        progressing: None,
        degraded: None,
        not_upgradeable: None,
        version: Some(facts.release.to_owned()),
        related: related(facts.requests),
    };
    let settings = match &facts.settings {
        Ok(settings) => settings,
        Err(problem) => {
            report.degraded = Some(Problem::new("SettingsUnknown", problem.to_string()));
            return (report, None);
        }
    };
    report.not_upgradeable = not_upgradeable(settings, facts);
    if settings.mode == Mode::Manual {
        return (report, None);
    }
    let counted: Vec<&Value> = facts.requests.iter().filter(|request| is_counted(request, settings)).collect();
    let status = |request: &Value| request.get("status").cloned().unwrap_or_default();
    let limit = facts.now.checked_sub(GRACE).unwrap_or(Timestamp::MIN);
    let all = counted.len();
    let failing = counted.iter().filter(|request| plan::fails_since(&status(request), limit)).count();
    let provisioned = counted.iter().filter(|request| status(request)["provisioned"] == true).count();
    let moving = counted.iter().filter(|request| request["metadata"]["generation"] != status(request)["lastSyncGeneration"]).count();
    if failing > 0 {
        report.degraded = Some(Problem::new("CredentialsFailing", format!("{failing} of {all} credentials requests are failing to sync.")));
    }
    if provisioned < all || moving > 0 {
        let message = format!("{provisioned} of {all} credentials requests provisioned, {failing} reporting errors.");
        report.progressing = Some(Problem::new("Reconciling", message));
    }
    let fails_now = counted.iter().filter(|request| plan::fails_since(&status(request), facts.now)).count();
    (report, (fails_now > failing).then_some(GRACE + Duration::from_secs(1)))
}

/// Only requests of the operator's namespace count, and only those of the cluster's platform.
fn is_counted(request: &Value, settings: &Settings) -> bool {
    request["metadata"]["namespace"] == NAMESPACE
        && settings.cloud().is_some_and(|cloud| request["spec"]["providerSpec"]["kind"] == cloud.provider_spec())
}

fn related(requests: &[Value]) -> Vec<Related> {
    let mut related =
        vec![Related::new("", "namespaces", "", NAMESPACE), Related::new("operator.openshift.io", "cloudcredentials", "", "cluster")];
    let own = requests.iter().filter(|request| request["metadata"]["namespace"] == NAMESPACE);
    related.extend(own.filter_map(|request| {
        Some(Related::new("cloudcredential.openshift.io", "credentialsrequests", NAMESPACE, request["metadata"]["name"].as_str()?))
    }));
    related
}

fn not_upgradeable(settings: &Settings, facts: &Facts<'_>) -> Option<Problem> {
    let history = facts.version?.pointer("/status/history").and_then(Value::as_array)?;
    let current = history.iter().find(|entry| entry["state"] == "Completed")?["version"].as_str()?;
    let Ok(current) = Version::parse(current) else {
        return Some(Problem::new("ErrorDeterminingUpgradeable", format!("Unable to decode cluster version: v{current}")));
    };
    let allowed = settings.upgradeable_to.as_deref().and_then(minor);
    if allowed.is_some_and(|allowed| allowed > (current.major(), current.minor())) {
        return None;
    }
    if settings.mode == Mode::Manual {
        return Some(Problem::new(
            "MissingUpgradeableAnnotation",
            format!(
                "Upgradeable annotation {UPGRADEABLE_TO} on cloudcredential.operator.openshift.io/cluster object needs updating before upgrade. \
                 See Manually Creating IAM documentation for instructions on preparing a cluster for upgrade."
            ),
        ));
    }
    let cloud = settings.cloud().filter(|_| !facts.has_root)?;
    Some(Problem::new(
        "MissingRootCredential",
        format!("Parent credentials secret must be restored prior to upgrade: {ROOT_NAMESPACE}/{}", cloud.root_secret()),
    ))
}

/// The minor version that an annotation names, with or without a `v` and a patch version.
fn minor(text: &str) -> Option<(u64, u64)> {
    let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The values of the metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Requests by cloud.
    pub clouds: BTreeMap<&'static str, i64>,
    /// Requests by condition that is true.
    pub conditions: BTreeMap<&'static str, i64>,
    /// The mode.
    pub mode: &'static str,
}

/// Counts requests, their conditions, and tells the mode. In Manual mode only what is stale is told, as upstream does.
pub fn measure(facts: &Facts<'_>, root_mark: Option<&str>) -> Measured {
    let mut measured = Measured { mode: "unknown", ..Measured::default() };
    let tracked = Condition::FAILURES.into_iter().chain([Condition::StaleCredentials]);
    for condition in tracked {
        measured.conditions.insert(condition.name(), 0);
    }
    let manual = facts.settings.as_ref().is_ok_and(|settings| settings.mode == Mode::Manual);
    for request in facts.requests {
        let kind = request.pointer("/spec/providerSpec/kind").and_then(Value::as_str).unwrap_or_default();
        *measured.clouds.entry(Cloud::of_provider_spec(kind).map_or("unknown", Cloud::metric)).or_default() += 1;
        let Some(status) = request.get("status") else { continue };
        let all =
            Condition::FAILURES.into_iter().chain([Condition::Ignored, Condition::OrphanedCloudResource, Condition::StaleCredentials]);
        for condition in all.filter(|condition| (*condition == Condition::StaleCredentials) == manual) {
            if condition.is_true(status) {
                *measured.conditions.entry(condition.name()).or_default() += 1;
            }
        }
    }
    if let Ok(settings) = &facts.settings {
        measured.mode = match (settings.mode, root_mark) {
            (Mode::Manual, _) if settings.issuer.is_some() => "manualpodidentity",
            (Mode::Manual, _) => "manual",
            _ if settings.cloud().is_none() => "unknown",
            _ if !facts.has_root => "credsremoved",
            (_, Some("insufficient")) => "degraded",
            (_, Some("passthrough")) | (Mode::Passthrough, None) => "passthrough",
            (_, Some("mint")) | (Mode::Mint | Mode::Default, None) => "mint",
            (_, Some(_)) => "unknown",
        };
    }
    measured
}
