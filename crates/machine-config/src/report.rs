//! ClusterOperator `machine-config`: the versions that nodes have reached, and what keeps pools from theirs (MACH-OPER-02, MACH-OPER-03).

use mainstay_api::cluster_operator::{self, Problem, Related, Report, Version};
use mainstay_machine_config_core::generated::{CONTROLLER_VERSION, RELEASE_VERSION};
use mainstay_objects::{ObjectRef, condition, is_condition_true};
use mainstay_runtime::Outcome;
use serde_json::{Map, Value, json};

use crate::controller::Operator;
use crate::places::{GROUP, name};
use crate::release::{Release, VERSION};
use crate::{Error, NAMESPACE};

/// Name of the ClusterOperator.
const OPERATOR: &str = "machine-config";
/// The label of pools that an update waits for.
const REQUIRED: &str = "operator.machineconfiguration.openshift.io/required-for-upgrade";

/// The facts that the report depends on.
struct Facts<'a> {
    pools: &'a [Value],
    release: &'a Release,
    /// The versions of the release's manifest; none where no release is applied.
    expected: Option<Vec<Version>>,
    /// The versions that are reported.
    reported: Vec<Version>,
    /// True if the operator has said that it is on its way (CVO-CO-04).
    has_begun: bool,
    /// True if nodes are told to use the first version of cgroups.
    is_on_cgroup_v1: bool,
    /// The MachineConfigs that pools have, by name.
    configs: &'a dyn Fn(&str) -> Option<Value>,
}

/// The report, and what has more words than that all is well.
struct Told {
    report: Report,
    versions: Option<Vec<Version>>,
    words: Vec<(&'static str, String, String)>,
    extension: Value,
}

impl Operator {
    /// Writes the ClusterOperator, where the kind is served.
    pub(crate) async fn report(&self) -> Result<Outcome, Error> {
        if !self.is_known() || !self.operators.is_known() || self.operators.objects().is_none() {
            return Ok(Outcome::Done);
        }
        let expected = self.config.release.as_ref().and_then(|release| {
            let release = release.borrow();
            let manifest = release.iter().find(|manifest| manifest["kind"] == "ClusterOperator" && name(manifest) == OPERATOR)?;
            Some(versions(manifest))
        });
        let own = cluster_operator::object(OPERATOR);
        let live = match self.writer.get(&ObjectRef::of(&own)?).await? {
            Some(live) => live,
            // That of a release is made by who applies it.
            None if self.config.release.is_some() => return Ok(Outcome::Done),
            None => self.writer.create(&own).await?,
        };
        let pools = Self::all(&self.pools, "MachineConfigPool")?;
        let release = self.release()?;
        let now = self.env.now_seconds();
        let (told, wait, is_of_release) = {
            let configs = |wanted: &str| self.configs.named(wanted).and_then(|config| serde_json::to_value(&*config).ok());
            let has_begun = is_condition_true(&live, "Progressing");
            let settings = Self::named(&self.node_settings, "cluster")?;
            let is_on_cgroup_v1 = settings.is_some_and(|settings| settings["spec"]["cgroupMode"] == "v1");
            let reported = versions(&live);
            let facts = Facts { pools: &pools, release: &release, expected, reported, has_begun, is_on_cgroup_v1, configs: &configs };
            let problem = blocked(&facts);
            let (degraded, wait) = self.with(|state| state.inertia.judge(problem.clone(), now).split());
            (told(&facts, problem.as_ref(), degraded), wait, facts.expected.is_some())
        };
        let mut status = if is_of_release {
            cluster_operator::status_of_release(&live, &told.report, told.versions.as_deref(), now)
        } else {
            cluster_operator::status(&live, &told.report, now)
        };
        for (kind, reason, message) in &told.words {
            cluster_operator::say(&mut status, kind, reason, message);
        }
        status["extension"] = told.extension;
        if self.writer.update_status(&live, &status).await?.is_some()
            && let Some(note) = cluster_operator::transitions(&live, &status)
        {
            self.tell(&live, false, "OperatorStatusChanged", &note);
        }
        Ok(wait.map_or(Outcome::Done, Outcome::After))
    }
}

fn versions(object: &Value) -> Vec<Version> {
    let all = object.pointer("/status/versions").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|each| Some(Version::new(each["name"].as_str()?, each["version"].as_str()?))).collect()
}

fn is_true(pool: &Value, kind: &str) -> bool {
    is_condition_true(pool, kind)
}

fn count(pool: &Value, field: &str) -> i64 {
    pool["status"][field].as_i64().unwrap_or_default()
}

/// The state of a pool, in upstream's words.
fn pool_status(pool: &Value) -> String {
    let said = |kind: &str, what: &str| {
        let of = |field: &str| condition(pool, kind).and_then(|one| one[field].as_str()).unwrap_or_default().to_owned();
        format!("pool is degraded because {what} with {:?}: {:?}", of("reason"), of("message"))
    };
    let configuration = |part: &str| pool[part]["configuration"]["name"].as_str().unwrap_or_default().to_owned();
    if is_true(pool, "RenderDegraded") {
        said("RenderDegraded", "rendering fails")
    } else if is_true(pool, "NodeDegraded") {
        said("NodeDegraded", "nodes fail")
    } else if is_true(pool, "Updated") {
        format!("all {} nodes are at latest configuration {}", count(pool, "machineCount"), configuration("status"))
    } else if is_true(pool, "Updating") {
        let (updated, ready, all) = (count(pool, "updatedMachineCount"), count(pool, "readyMachineCount"), count(pool, "machineCount"));
        format!("{updated} (ready {ready}) out of {all} nodes are updating to latest configuration {}", configuration("spec"))
    } else {
        "<unknown>".to_owned()
    }
}

/// The obstacles between the pools and the release, in upstream's words.
fn blocked(facts: &Facts<'_>) -> Option<Problem> {
    let text = facts.pools.iter().find_map(|pool| {
        let (total, ready) = (count(pool, "machineCount"), count(pool, "readyMachineCount"));
        let (updated, unavailable) = (count(pool, "updatedMachineCount"), count(pool, "unavailableMachineCount"));
        let pool_name = name(pool);
        if is_true(pool, "Degraded") {
            let reason = condition(pool, "Degraded").and_then(|one| one["message"].as_str()).unwrap_or_default();
            return Some(format!(
                "error MachineConfigPool {pool_name} is not ready, retrying. Status: (pool degraded: true total: {total}, ready {ready}, \
                 updated: {updated}, unavailable: {unavailable}, reason: {reason})"
            ));
        }
        pool["metadata"]["labels"].get(REQUIRED)?;
        if let Some(why) = outdated(pool, facts) {
            return Some(format!("MachineConfigPool {pool_name} has not progressed to latest configuration: {why}, retrying"));
        }
        let is_seen = pool["metadata"]["generation"].as_i64() <= pool["status"]["observedGeneration"].as_i64();
        if is_seen && is_true(pool, "Updated") {
            return None;
        }
        if pool["spec"]["paused"] == true {
            return Some(format!("error required MachineConfigPool {pool_name} is paused and cannot sync until it is unpaused"));
        }
        let degraded = count(pool, "degradedMachineCount");
        Some(format!(
            "error required MachineConfigPool {pool_name} is not ready, retrying. Status: (total: {total}, ready {ready}, updated: {updated}, \
             unavailable: {unavailable}, degraded: {degraded})"
        ))
    })?;
    Some(Problem::new("RequiredPoolsFailed", format!("error during syncRequiredMachineConfigPools: {text}")))
}

/// Why a pool's nodes are not at the release, in upstream's words; none if they are.
fn outdated(pool: &Value, facts: &Facts<'_>) -> Option<String> {
    let configuration = |part: &str| pool[part]["configuration"]["name"].as_str().filter(|name| !name.is_empty());
    let (pool_name, state) = (name(pool), pool_status(pool));
    if configuration("spec").is_none() {
        return Some(format!("configuration spec for pool {pool_name} is empty: {state}"));
    }
    let Some(rendered) = configuration("status") else {
        return Some(format!("configuration status for pool {pool_name} is empty: {state}"));
    };
    let Some(config) = (facts.configs)(rendered) else {
        return Some(format!("machineconfig.machineconfiguration.openshift.io {rendered:?} not found"));
    };
    let annotation = |key: &str| config["metadata"]["annotations"].get(key).and_then(Value::as_str);
    match annotation(CONTROLLER_VERSION) {
        None => return Some(format!("{rendered} must be created by controller version {VERSION}: {state}")),
        Some(other) if other != VERSION => {
            return Some(format!("controller version mismatch for {rendered} expected {VERSION} has {other}: {state}"));
        }
        Some(_) => {}
    }
    let (expected, got) = (&facts.release.os_image, config["spec"]["osImageURL"].as_str().unwrap_or_default());
    let is_overridden = annotation("machineconfiguration.openshift.io/os-image-url-overridden").is_some();
    if got != expected && !is_overridden {
        return Some(format!("osImageURL mismatch for {pool_name} in {rendered} expected: {expected} got: {got}"));
    }
    let (expected, got) = (&facts.release.version, annotation(RELEASE_VERSION).unwrap_or_default());
    (got != expected).then(|| format!("release image version mismatch for {pool_name} in {rendered} expected: {expected} got: {got}"))
}

/// The obstacle to an upgrade, in upstream's words: the first pool that has something to say outranks the cluster's setting.
fn not_upgradeable(pools: &[Value], is_on_cgroup_v1: bool) -> Option<Problem> {
    for pool in pools {
        let (reason, what) = match (is_true(pool, "Degraded"), is_true(pool, "BuildInterrupted")) {
            (true, _) => ("DegradedPool", "pools are degraded"),
            (false, true) => ("InterruptedBuild", "pools' builds have been interrupted"),
            (false, false) => continue,
        };
        let message =
            format!("One or more machine config {what}, please see `oc get mcp` for further details and resolve before upgrading");
        return Some(Problem::new(reason, message));
    }
    let message = "Cluster is using deprecated cgroup v1 and is not upgradable. Please update the `CgroupMode` in the \
                   `nodes.config.openshift.io` object to 'v2'. Once upgraded, the cluster cannot be changed back to cgroup v1";
    is_on_cgroup_v1.then(|| Problem::new("ClusterOnCgroupV1", message))
}

fn told(facts: &Facts<'_>, problem: Option<&Problem>, degraded: Option<Problem>) -> Told {
    let own = vec![Version::new("operator", VERSION)];
    let wanted = facts.expected.clone().unwrap_or(own);
    let version = wanted.iter().find(|each| each.name == "operator").map_or(VERSION, |each| &each.version).to_owned();
    let is_there = wanted.iter().all(|version| facts.reported.contains(version));
    // The ConfigMap with the images comes with the release, before its ClusterOperator.
    let arrives = problem.is_none() && facts.release.version == version && (is_there || facts.has_begun || facts.expected.is_none());
    let mut words = Vec::new();
    let progressing = (!is_there && !arrives).then(|| {
        let message = if degraded.is_some() { format!("Unable to apply {version}") } else { format!("Working towards {version}") };
        Problem::new(cluster_operator::AS_EXPECTED, message)
    });
    if progressing.is_none() {
        let message =
            if degraded.is_some() { format!("Error while reconciling {version}") } else { format!("Cluster version is {version}") };
        words.push(("Progressing", cluster_operator::AS_EXPECTED.to_owned(), message));
    }
    let shown: Vec<String> = wanted.iter().map(|version| format!("{{{} {}}}", version.name, version.version)).collect();
    words.push(("Available", cluster_operator::AS_EXPECTED.to_owned(), format!("Cluster has deployed [{}]", shown.join(" "))));
    let degraded = degraded.map(|problem| {
        let before = if is_there { format!("Failed to resync {version} because: ") } else { format!("Unable to apply {version}: ") };
        Problem::new(problem.reason, format!("{before}{}", problem.message))
    });
    let not_upgradeable = not_upgradeable(facts.pools, facts.is_on_cgroup_v1);
    let mut extension: Map<String, Value> = facts.pools.iter().map(|pool| (name(pool).to_owned(), json!(pool_status(pool)))).collect();
    if let Some(problem) = problem {
        extension.insert("lastSyncError".to_owned(), json!(problem.message));
    }
    let kinds = ["machineconfigpools", "controllerconfigs", "kubeletconfigs", "containerruntimeconfigs", "machineconfigs"];
    let mut related = vec![Related::new("", "namespaces", "", NAMESPACE)];
    related.extend(kinds.map(|kind| Related::new(GROUP, kind, "", "")));
    related.push(Related::new("operator.openshift.io", "machineconfigurations", "", ""));
    related.push(Related::new("", "nodes", "", ""));
    let is_told = facts.expected.is_none();
    Told {
        report: Report { unavailable: None, progressing, degraded, not_upgradeable, version: is_told.then_some(version), related },
        versions: arrives.then_some(wanted),
        words,
        extension: Value::Object(extension),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MACH-OPER-03: degraded pools, interrupted builds and the first version of cgroups forbid an upgrade, in this order.
    #[test]
    fn what_forbids_an_upgrade() {
        let pool = |kinds: &[&str]| {
            let conditions: Vec<Value> = kinds.iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
            json!({"metadata": {"name": "worker"}, "status": {"conditions": conditions}})
        };
        let reason = |pools: &[Value], cgroups: bool| not_upgradeable(pools, cgroups).map(|problem| problem.reason);
        let (fine, degraded, interrupted) = (pool(&["Updated"]), pool(&["Degraded"]), pool(&["BuildInterrupted"]));
        assert_eq!(reason(&[fine.clone(), fine.clone()], false), None);
        assert_eq!(reason(std::slice::from_ref(&fine), true).as_deref(), Some("ClusterOnCgroupV1"));
        assert_eq!(reason(&[fine.clone(), degraded.clone()], true).as_deref(), Some("DegradedPool"));
        assert_eq!(reason(&[interrupted.clone(), degraded], false).as_deref(), Some("InterruptedBuild"));
        assert_eq!(reason(&[pool(&["Degraded", "BuildInterrupted"])], false).as_deref(), Some("DegradedPool"));
        let told = not_upgradeable(&[interrupted], false).map(|problem| problem.message).unwrap_or_default();
        assert_eq!(
            told,
            "One or more machine config pools' builds have been interrupted, please see `oc get mcp` for further details and resolve before upgrading"
        );
    }
}
