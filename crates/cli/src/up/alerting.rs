//! Alerts of the embedded cluster: its PrometheusRules over the metrics of this process (COP-11, CVO-MET-03).

use std::time::Duration;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use mainstay_alerts::{Alert, AlertState, Alerts, Report, Skipped, Target, rules_of, samples_of};
use mainstay_cluster_version_core::metrics::ALL as OPERATOR_METRICS;
use mainstay_runtime::Env;
use mainstay_runtime::metrics::Format;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::components::{Component, Components};
use crate::admin::ServedAlerts;

/// The interval of scrapes and evaluations; the platform's is 30 s.
const INTERVAL: Duration = Duration::from_secs(15);
/// Objects of one page of a list.
const PAGE: u32 = 500;
/// PrometheusRules that are read at most.
const MAX_OBJECTS: usize = 5000;
/// The metrics of the two operators of OLM (OLM0-MET-01).
const OLM_OPERATOR: [&str; 4] = ["csv_abnormal", "csv_succeeded", "csv_count", "csv_upgrade_count"];
const CATALOG_OPERATOR: [&str; 9] = [
    "catalog_source_count",
    "catalogsource_ready",
    "catalog_source_snapshots_total",
    "install_plan_count",
    "installplan_warnings_total",
    "olm_resolution_duration_seconds_sum",
    "olm_resolution_duration_seconds_count",
    "subscription_count",
    "subscription_sync_total",
];
/// The metrics of the Cloud Credential Operator (COP-CRED-07).
const CLOUD_CREDENTIAL: [&str; 3] = ["cco_credentials_requests", "cco_credentials_requests_conditions", "cco_credentials_mode"];

/// The metrics of the Machine Config Operator's parts (MACH-OPER-05), and of the Machine API (MACH-RUN-04).
const MACHINE_CONFIG_OPERATOR: [&str; 1] = ["mco_image_registry_drain_override_exists"];
const MACHINE_CONFIG_CONTROLLER: [&str; 3] = ["mcc_drain_err", "mcc_pool_alert", "os_image_url_override"];
const MACHINE_CONFIG_DAEMON: [&str; 2] = ["mcd_state", "mcd_missing_mc"];
const MACHINE_API: [&str; 5] = [
    "mapi_machine_created_timestamp_seconds",
    "mapi_machineset_created_timestamp_seconds",
    "mapi_mao_collector_up",
    "mapi_machinehealthcheck_short_circuit",
    "mapi_machinehealthcheck_nodes_covered",
];

/// The components that run, as Prometheus would scrape them.
fn targets(components: &Components) -> Vec<Target> {
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let mut targets = Vec::new();
    if components.has(Component::ClusterVersion) {
        let counted = |is_counter: bool, name: &str| if is_counter { format!("{name}_total") } else { name.to_owned() };
        let metrics = OPERATOR_METRICS.iter().map(|metric| counted(metric.is_counter, metric.name)).collect();
        targets.push(Target { job: "cluster-version-operator", namespace: "openshift-cluster-version", endpoint: "metrics", metrics });
    }
    if components.has(Component::OlmClassic) {
        let of = |job, metrics| Target { job, namespace: "openshift-operator-lifecycle-manager", endpoint: "https-metrics", metrics };
        targets.push(of("olm-operator-metrics", named(&OLM_OPERATOR)));
        targets.push(of("catalog-operator-metrics", named(&CATALOG_OPERATOR)));
    }
    if components.has(Component::CloudCredential) {
        let namespace = mainstay_cloud_credential::NAMESPACE;
        targets.push(Target { job: "cco-metrics", namespace, endpoint: "metrics", metrics: named(&CLOUD_CREDENTIAL) });
    }
    if components.has(Component::MachineConfig) {
        let namespace = mainstay_machine_config::NAMESPACE;
        for (job, metrics) in [
            ("machine-config-operator", named(&MACHINE_CONFIG_OPERATOR)),
            ("machine-config-controller", named(&MACHINE_CONFIG_CONTROLLER)),
            ("machine-config-daemon", named(&MACHINE_CONFIG_DAEMON)),
        ] {
            targets.push(Target { job, namespace, endpoint: "metrics", metrics });
        }
    }
    if components.has(Component::MachineApi) {
        let metrics = named(&MACHINE_API);
        targets.push(Target { job: "machine-api-operator", namespace: "openshift-machine-api", endpoint: "https", metrics });
    }
    targets
}

/// The rules of components that run, for a cluster without their objects.
fn own_rules(components: &Components) -> Vec<Value> {
    let mut rules = Vec::new();
    if components.has(Component::OlmClassic) {
        rules.extend(mainstay_olm_classic_core::alerts::rules());
    }
    if components.has(Component::CloudCredential) {
        rules.push(mainstay_cloud_credential_core::alerts::rule());
    }
    if components.has(Component::MachineConfig) {
        rules.extend(mainstay_machine_config_core::alerts::rules());
    }
    rules
}

/// Evaluates rules until it is stopped.
pub async fn run(client: kube::Client, components: Components, env: Env, served: ServedAlerts, stop: CancellationToken) {
    let targets = targets(&components);
    let own = own_rules(&components);
    let mut alerts = Alerts::new(targets.clone());
    let mut known: Option<Vec<(String, String, Option<String>)>> = None;
    let mut before = Report::default();
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while tokio::select! { _ = interval.tick() => true, () = stop.cancelled() => false } {
        let mut problems = Vec::new();
        match rules_on(&client).await {
            Ok(objects) => {
                let versions: Vec<_> = objects.iter().map(version_of).collect();
                if known.as_ref() != Some(&versions) {
                    let (evaluated, skipped) = chosen(&objects, &own, &targets);
                    alerts.set_rules(evaluated, skipped);
                    known = Some(versions);
                }
            }
            Err(error) => problems.push(format!("PrometheusRules cannot be read: {error}")),
        }
        let metrics = env.metrics().clone();
        // Sizes of caches are read from the disk.
        let page = tokio::task::spawn_blocking(move || metrics.page_as(Format::Text)).await;
        let samples = match page {
            Ok(Ok(page)) => samples_of(&page, |name| alerts.wants(name)).map_err(|error| error.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match samples {
            Ok(samples) => {
                let mut report = alerts.evaluate(env.now().as_millisecond(), samples);
                report.problems.extend(problems);
                log(&before, &report);
                before = report.clone();
                served.show(report);
            }
            Err(error) => tracing::warn!(error, "the page of metrics cannot be read; alerts are those of the last one"),
        }
    }
}

type RuleObject = Value;

async fn rules_on(client: &kube::Client) -> Result<Vec<RuleObject>, kube::Error> {
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("monitoring.coreos.com", "v1", "PrometheusRule"), "prometheusrules");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut objects = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let list = match api.list(&params).await {
            // The kind is not served: nothing on the cluster has rules.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
            outcome => outcome?,
        };
        for object in list.items {
            objects.push(serde_json::to_value(object).map_err(kube::Error::SerdeError)?);
        }
        match list.metadata.continue_.filter(|token| !token.is_empty() && objects.len() < MAX_OBJECTS) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(objects),
        }
    }
}

fn place_of(object: &Value) -> (String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

fn version_of(object: &RuleObject) -> (String, String, Option<String>) {
    let (namespace, name) = place_of(object);
    (namespace, name, object["metadata"]["resourceVersion"].as_str().map(str::to_owned))
}

/// The rules of the cluster, and ours that the cluster has no object of.
fn chosen(objects: &[RuleObject], own: &[Value], targets: &[Target]) -> (Vec<mainstay_alerts::Rule>, Vec<Skipped>) {
    let ours = own.iter().filter(|rule| !objects.iter().any(|object| place_of(object) == place_of(rule)));
    let (mut evaluated, mut skipped) = (Vec::new(), Vec::new());
    for object in objects.iter().chain(ours) {
        let rules = rules_of(object, targets);
        evaluated.extend(rules.evaluated);
        skipped.extend(rules.skipped);
    }
    (evaluated, skipped)
}

/// Tells of alerts that began and ended to fire.
fn log(before: &Report, now: &Report) {
    let firing =
        |report: &Report| -> Vec<Alert> { report.alerts.iter().filter(|alert| alert.state == AlertState::Firing).cloned().collect() };
    let (before, now) = (firing(before), firing(now));
    let is_in = |list: &[Alert], alert: &Alert| list.iter().any(|other| other.labels == alert.labels);
    for alert in now.iter().filter(|alert| !is_in(&before, alert)) {
        let summary = alert.annotations.get("summary").map_or("", String::as_str);
        tracing::warn!(alert = alert.labels["alertname"], summary, "an alert fires");
    }
    for alert in before.iter().filter(|alert| !is_in(&now, alert)) {
        tracing::info!(alert = alert.labels["alertname"], "an alert ended");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    /// COP-11: every rule that our components bring is evaluated where they run, and rules of the cluster stand for ours of the same name.
    #[test]
    fn own_rules_are_evaluated() {
        let all = Components::all();
        let (evaluated, skipped) = chosen(&[], &own_rules(&all), &targets(&all));
        assert_eq!(skipped, []);
        // OLM0-MET-04, COP-CRED-07, MACH-OPER-05.
        assert_eq!(evaluated.len(), 4 + 5 + 4);
        let other = json!({
            "metadata": {"namespace": "openshift-marketplace", "name": "marketplace-alert-rules"},
            "spec": {"groups": [{"rules": [{"alert": "Mine", "expr": "vector(1)"}]}]},
        });
        let (evaluated, _) = chosen(&[other], &own_rules(&all), &targets(&all));
        let names: Vec<&str> = evaluated.iter().map(|rule| rule.alert.as_str()).collect();
        assert!(names.contains(&"Mine") && !names.contains(&"OperatorHubSourceError"), "{names:?}");
    }

    /// COP-11: without its component a rule is not evaluated.
    #[test]
    fn rules_of_what_does_not_run() {
        let none: Components = "none".parse().unwrap();
        let (evaluated, skipped) = chosen(&[], &own_rules(&Components::all()), &targets(&none));
        assert!(evaluated.is_empty());
        assert!(skipped.iter().all(|rule| rule.reason.ends_with("is not measured here")), "{skipped:?}");
    }
}
