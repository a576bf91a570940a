//! Plans of updates.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mainstay_cluster_version_core::apply::ClusterVersionRef;
use mainstay_cluster_version_core::inject::{self, Settings};
use mainstay_cluster_version_core::plan::{Cluster, Effect, Live, Object, Plan, Side};
use mainstay_release::{Capabilities, Files, Filter, Manifest, Payload, Values};
use mainstay_testing::data;
use serde_json::json;

const PROFILE: &str = "self-managed-high-availability";

fn manifests(files: &[(&str, &str)]) -> Vec<Manifest> {
    let mut all = Files::default();
    for (name, content) in files {
        all.add(&format!("release-manifests/{name}"), (*content).into()).unwrap();
    }
    load(&all)
}

fn load(files: &Files) -> Vec<Manifest> {
    Payload::all(files, Values { release_image: "r.example/release@sha256:1", cluster_profile: PROFILE }, "test").unwrap()
}

fn capabilities(names: &[&str]) -> Capabilities {
    let spec = json!({"baselineCapabilitySet": "None", "additionalEnabledCapabilities": names});
    Capabilities::of(&spec, Vec::<String>::new()).unwrap()
}

fn plan(old: &[Manifest], new: &[Manifest], capabilities: &Capabilities) -> Plan {
    let filter = Filter { exclude_identifier: Some(""), feature_set: Some(""), profile: Some(PROFILE), ..Filter::default() };
    let previous = ["9.0.0".to_owned()];
    let (old, new) = (Side { version: "9.0.0", manifests: old }, Side { version: "9.1.0", manifests: new });
    Plan::new(old, new, &previous, &filter, capabilities)
}

/// A ConfigMap with one more annotation.
fn config_map(name: &str, annotation: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  namespace: demo\n  name: {name}\n  annotations:\n    \
         include.release.openshift.io/{PROFILE}: \"true\"\n{annotation}data:\n  key: {value}\n"
    )
}

fn objects(plan: &Plan) -> BTreeMap<&str, &Object> {
    plan.groups.iter().flat_map(|group| &group.objects).map(|object| (object.id.name.as_str(), object)).collect()
}

/// MS-PLAN-01, CVO-GRAPH-11, CVO-DEL-01, CVO-DEL-02, CVO-DEL-05, CVO-INC-05, CVO-CAP-05: every effect, the order, and what lies beside it.
#[test]
fn effects() {
    let delete = "    release.openshift.io/delete: \"true\"\n";
    let odd = "    release.openshift.io/delete: \"yes\"\n";
    let optional = "    capability.openshift.io/name: Insights\n";
    let job = format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  namespace: demo\n  name: migrate\n  annotations:\n    \
         include.release.openshift.io/{PROFILE}: \"true\"\nspec:\n  template:\n    spec:\n      containers: []\n"
    );
    let operator = format!(
        "apiVersion: config.openshift.io/v1\nkind: ClusterOperator\nmetadata:\n  name: demo\n  annotations:\n    \
         include.release.openshift.io/{PROFILE}: \"true\"\nstatus:\n  versions:\n  - name: operator\n    version: 9.1.0\n"
    );
    let old = manifests(&[
        ("0000_10_a_1.yaml", &config_map("same", "", "x")),
        ("0000_10_a_2.yaml", &config_map("changes", "", "x")),
        ("0000_10_a_3.yaml", &config_map("removed", "", "x")),
        ("0000_10_a_4.yaml", &config_map("tombstone", "", "x")),
        ("0000_10_a_5.yaml", &config_map("gone", delete, "x")),
        ("0000_10_a_6.yaml", &config_map("moves", "", "x")),
    ]);
    let new = manifests(&[
        ("0000_10_a_1.yaml", &config_map("same", "", "x")),
        ("0000_10_a_2.yaml", &config_map("changes", "", "z")),
        ("0000_10_a_6.yaml", &config_map("moves", optional, "x")),
        ("0000_10_b_7.yaml", &config_map("fresh", "", "x")),
        ("0000_10_b_8.yaml", &config_map("same", "", "x")),
        ("0000_20_c_1.yaml", &job),
        ("0000_20_c_2.yaml", &operator),
        ("0000_20_c_3.yaml", &config_map("never", "    capability.openshift.io/name: Storage\n", "x")),
        ("0000_99_a_4.yaml", &config_map("tombstone", delete, "x")),
        ("0000_99_a_5.yaml", &config_map("gone", delete, "x")),
        ("0000_99_a_6.yaml", &config_map("odd", odd, "x")),
    ]);
    let plan = plan(&old, &new, &capabilities(&["Console"]));
    assert!(plan.is_offered);
    assert_eq!(plan.implicit_capabilities.iter().collect::<Vec<_>>(), ["Insights"]);
    let steps: Vec<_> = plan
        .groups
        .iter()
        .map(|group| {
            let names: Vec<_> = group.objects.iter().map(|object| object.id.name.as_str()).collect();
            let alone = if group.barrier { " alone" } else { "" };
            format!("{} {} {}{alone}: {}", group.step, group.runlevels.join(","), group.components.join(","), names.join(" "))
        })
        .collect();
    assert_eq!(
        steps,
        ["1 10 a: same changes moves", "1 10 b: fresh same", "2 20 c alone: migrate", "3 20,99 c,a: demo tombstone gone odd"]
    );
    let objects = objects(&plan);
    for (name, effect) in [
        ("same", Effect::Unchanged),
        ("moves", Effect::Update { changes: Vec::new(), omitted: 0 }),
        ("changes", Effect::Update { changes: Vec::new(), omitted: 0 }),
        ("fresh", Effect::Create),
        ("tombstone", Effect::Delete),
        ("gone", Effect::Gone),
    ] {
        let found = &objects[name].effect;
        assert_eq!(std::mem::discriminant(found), std::mem::discriminant(&effect), "{name}: {found:?}");
    }
    let Effect::Update { changes, .. } = &objects["changes"].effect else { panic!("no change") };
    let shown: Vec<_> =
        changes.iter().map(|change| (change.path.as_str(), change.from.clone().unwrap(), change.to.clone().unwrap())).collect();
    assert_eq!(shown, [(".data.key", json!("x"), json!("z"))]);
    let Effect::Fault { reason } = &objects["odd"].effect else { panic!("no fault") };
    assert_eq!(reason, "Invalid delete annotation \"release.openshift.io/delete\" value: \"yes\"");
    assert_eq!(objects["demo"].wait.as_deref(), Some("Available, not Degraded, at operator 9.1.0"));
    assert_eq!((objects["migrate"].wait.as_deref(), &objects["fresh"].wait), (Some("not failed"), &None));
    assert_eq!(plan.left.iter().map(|left| left.id.name.as_str()).collect::<Vec<_>>(), ["removed"]);
    assert_eq!(plan.duplicates.len(), 1);
    assert_eq!(plan.duplicates[0].files, ["0000_10_a_1.yaml", "0000_10_b_8.yaml"]);
    assert_eq!(
        plan.excluded.iter().map(|one| (one.id.name.as_str(), one.reason.as_str())).collect::<Vec<_>>(),
        [("never", "disabled capabilities: Storage")]
    );
    assert_eq!((plan.summary.created, plan.summary.updated, plan.summary.deleted, plan.summary.faults), (3, 2, 1, 1));
}

/// MS-PLAN-01, CVO-GRAPH-11, CVO-SIM-04: two real releases; and 1,000 manifests in 200 ms of an optimized program.
#[test]
fn real_releases() {
    let Some(archive) = data::archive("payload.tar.gz") else { return };
    let mut payloads = BTreeMap::<String, Files>::new();
    for (path, content) in archive {
        let Some((version, file)) = path.strip_prefix("payload/").and_then(|rest| rest.split_once('/')) else { continue };
        payloads.entry(version.to_owned()).or_default().add(file, content).unwrap();
    }
    let (old, new) = (load(&payloads["4.18.54"]), load(&payloads["4.19.44"]));
    let all = Capabilities::of(&json!({}), Vec::<String>::new()).unwrap();
    let begun = Instant::now();
    let update = plan(&old, &new, &all);
    let took = begun.elapsed();
    let manifests = old.len() + new.len();
    eprintln!("{manifests} manifests in {took:?}: {:?}", update.summary);
    let most = if cfg!(debug_assertions) { Duration::from_secs(60) } else { Duration::from_millis(200) };
    assert!(manifests > 1000 && took < most, "{manifests} manifests in {took:?}");
    let planned: usize = update.groups.iter().map(|group| group.objects.len()).sum();
    assert_eq!(planned + update.excluded.len(), new.len());
    assert!(update.summary.updated > 100 && update.summary.created >= 10 && update.summary.faults == 0, "{:?}", update.summary);
    // Updating to the same release changes nothing, but for objects with several manifests.
    let none = plan(&new, &new, &all);
    assert_eq!((none.summary.created, none.summary.left), (0, 0));
    let touched: Vec<_> =
        none.groups.iter().flat_map(|group| &group.objects).filter(|object| matches!(object.effect, Effect::Update { .. })).collect();
    assert!(touched.iter().all(|object| none.duplicates.iter().any(|duplicate| duplicate.id == object.id)), "{touched:.2000?}");
}

/// MS-PLAN-01, CVO-APPLY-03: against a cluster that was read, an object as its operator writes it is unchanged, one that was changed by hand is restored,
/// one that is absent is created, and only what is there is deleted.
#[test]
fn against_a_cluster() {
    let delete = "    release.openshift.io/delete: \"true\"\n";
    let file = |text: String| manifests(&[("0000_50_demo_10.yaml", &text)]);
    let new = [config_map("same", "", "a"), config_map("changed", "", "a"), config_map("absent", "", "a"), config_map("old", delete, "a")];
    let new = file(format!("{}\n---\n{}\n---\n{}\n---\n{}", new[0], new[1], new[2], new[3]));
    let old = file(config_map("same", "", "a"));
    let (owner, settings) = (ClusterVersionRef { name: "version", uid: "u" }, Settings::default());
    let mut objects: Live = new.iter().map(|one| (one.id().clone(), inject::wanted(&one.object(), &owner, &settings).unwrap())).collect();
    objects.retain(|id, object| {
        if id.name == "changed" {
            object["data"]["key"] = json!("by hand");
        }
        id.name != "absent"
    });
    let filter = Filter { exclude_identifier: Some(""), feature_set: Some(""), profile: Some(PROFILE), ..Filter::default() };
    let plan = |objects: &Live| {
        let (old, new) = (Side { version: "9.0.0", manifests: &old }, Side { version: "9.1.0", manifests: &new });
        Plan::against(Cluster { objects, owner, settings: &settings }, old, new, &[], &filter, &Capabilities::all())
    };
    let planned = plan(&objects);
    let effects = |plan: &Plan| -> BTreeMap<String, String> {
        let told = |effect: &Effect| json!(effect)["effect"].as_str().unwrap().to_owned();
        self::objects(plan).into_iter().map(|(name, object)| (name.to_owned(), told(&object.effect))).collect()
    };
    let expected = [("absent", "create"), ("changed", "update"), ("old", "delete"), ("same", "unchanged")];
    assert_eq!(effects(&planned), expected.map(|(name, effect)| (name.to_owned(), effect.to_owned())).into());
    let Effect::Update { changes, .. } = &self::objects(&planned)["changed"].effect else { panic!("{planned:?}") };
    assert_eq!(changes.iter().map(|change| change.path.as_str()).collect::<Vec<_>>(), [".data.key"]);
    objects.retain(|id, _| id.name != "old");
    assert_eq!(effects(&plan(&objects))["old"], "gone");
}
