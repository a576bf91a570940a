//! InstallPlans: approval, accounts, failures, and what is left of them.

use mainstay_objects::Patch;
use mainstay_testing::widgets::Content;
use serde_json::{Value, json};

use super::bench::{Bench, condition, own, package, place};

async fn bench_with_widgets(content: &Content) -> Bench {
    let bench = Bench::start().await;
    let image = bench.bundle("1.0.0", content).await;
    let source = bench.catalog("openshift-marketplace", "test", &package("widgets", &[("1.0.0", &image)])).await;
    bench.ready(&source).await;
    bench
}

/// OLM0-IP-02, OLM0-IP-03, OLM0-IP-17, OLM0-IP-18, OLM0-UPG-13, OLM0-ADMIN-09: a manual plan waits; a deleted one is made again; an approved one is
/// executed.
#[tokio::test(flavor = "multi_thread")]
async fn a_manual_plan_waits_for_approval() {
    let bench = bench_with_widgets(&Content::default()).await;
    bench.group("work", json!({})).await;
    let subscription = bench.subscribe("work", "widgets", json!({"installPlanApproval": "Manual"})).await;
    let plan = bench.plan_of(&subscription, "RequiresApproval").await;
    assert_eq!((&plan["spec"]["approval"], &plan["spec"]["approved"]), (&json!("Manual"), &json!(false)));
    let waiting = bench.until(&subscription, |one| condition(one, "InstallPlanPending").is_object()).await;
    assert_eq!(condition(&waiting, "InstallPlanPending")["reason"], "RequiresApproval");
    assert_eq!(waiting["status"]["state"], "UpgradePending");
    let first = plan["metadata"]["name"].as_str().unwrap().to_owned();
    bench.delete(&own("v1alpha1", "InstallPlan", "work", &first)).await;
    let again = |one: &Value| one["status"]["installPlanRef"]["name"].as_str().is_some_and(|name| name != first);
    let again = bench.until(&subscription, again).await;
    let second = own("v1alpha1", "InstallPlan", "work", again["status"]["installPlanRef"]["name"].as_str().unwrap());
    bench.until(&second, |plan| plan["status"]["phase"] == "RequiresApproval").await;
    assert!(bench.get(&own("v1alpha1", "ClusterServiceVersion", "work", "widgets.v1.0.0")).await.is_none());
    bench.admin.patch(&second, "", &Patch::Merge(json!({"spec": {"approved": true}}))).await.unwrap();
    bench.until(&second, |plan| plan["status"]["phase"] == "Complete").await;
    bench
        .until(&subscription, |one| one["status"]["installedCSV"] == "widgets.v1.0.0" && condition(one, "InstallPlanPending").is_null())
        .await;
    bench.close().await;
}

/// OLM0-IP-08, OLM0-IP-10, OLM0-IP-11, OLM0-OG-25, OLM0-ADMIN-28, OLM0-ADMIN-33: a plan is executed as the account of the group; what the account may not
/// do is told in the server's words, and done when it may.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_executed_as_the_groups_account() {
    let bench = Bench::with(|setup| setup.retry_for = std::time::Duration::from_secs(2)).await;
    let image = bench.bundle("1.0.0", &Content::default()).await;
    let source = bench.catalog("openshift-marketplace", "test", &package("widgets", &[("1.0.0", &image)])).await;
    bench.ready(&source).await;
    let group = bench.group("work", json!({"serviceAccountName": "scoped"})).await;
    let subscription = bench.subscribe("work", "widgets", json!({})).await;
    let waiting = bench.plan_of(&subscription, "Installing").await;
    let name = waiting["metadata"]["name"].as_str().unwrap().to_owned();
    let plan = own("v1alpha1", "InstallPlan", "work", &name);
    let missing = bench.until(&plan, |plan| condition(plan, "Installed").is_object()).await;
    assert_eq!(condition(&missing, "Installed")["reason"], "InstallCheckFailed");
    assert_eq!(
        condition(&missing, "Installed")["message"],
        "attenuated service account query failed - please make sure the service account exists. sa=scoped operatorgroup=work/group"
    );
    bench.apply(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "scoped", "namespace": "work"}})).await;
    let reference = json!({"kind": "ServiceAccount", "namespace": "work", "name": "scoped", "apiVersion": "v1"});
    bench
        .write_status(&group, |group| {
            let mut status = group["status"].clone();
            status["serviceAccountRef"] = reference.clone();
            status
        })
        .await;
    let failed = bench.until(&plan, |plan| plan["status"]["phase"] == "Failed").await;
    assert_eq!(failed["status"]["attenuatedServiceAccountRef"]["name"], "scoped");
    let installed = condition(&failed, "Installed");
    assert_eq!((&installed["status"], &installed["reason"]), (&json!("False"), &json!("InstallComponentFailed")));
    assert_eq!(
        installed["message"],
        "error creating csv widgets.v1.0.0: clusterserviceversions.operators.coreos.com is forbidden: User \"system:serviceaccount:work:scoped\" cannot \
         create resource \"clusterserviceversions\" in API group \"operators.coreos.com\" in the namespace \"work\""
    );
    let told = bench.told(&subscription, "InstallPlanFailed").await;
    assert_eq!(told["reason"], "InstallComponentFailed");
    // More permissions in the namespace start the plan again (OLM0-IP-11), which fails at what is outside of it.
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let role = |kind: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "scoped", "namespace": "work"}});
    let mut wide = role("Role");
    wide["rules"] = rules.clone();
    bench.apply(wide).await;
    let subject = json!([{"kind": "ServiceAccount", "name": "scoped", "namespace": "work"}]);
    let mut binding = role("RoleBinding");
    binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "scoped"});
    binding["subjects"] = subject.clone();
    bench.apply(binding).await;
    let outside = |plan: &Value| {
        condition(plan, "Installed")["message"]
            .as_str()
            .is_some_and(|message| message.contains("\"clusterroles\" in API group \"rbac.authorization.k8s.io\" at the cluster scope"))
    };
    bench.until(&plan, outside).await;
    bench
        .apply(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "scoped"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}, "subjects": subject}))
        .await;
    // A change of cluster-wide permissions is not watched; any in the namespace starts the plan again.
    bench.apply(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "touch", "namespace": "work"}, "rules": []})).await;
    bench.until(&plan, |plan| plan["status"]["phase"] == "Complete").await;
    bench.close().await;
}

/// OLM0-IP-09, OLM0-OG-27, OLM0-RES-03, OLM0-IP-18: a plan that is there waits while its namespace has several groups or none, says so on itself and on
/// its Subscription, and goes on with one.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_waits_for_one_group() {
    let bench = bench_with_widgets(&Content::default()).await;
    let first = bench.group("work", json!({})).await;
    let subscription = bench.subscribe("work", "widgets", json!({"installPlanApproval": "Manual"})).await;
    let waiting = bench.plan_of(&subscription, "RequiresApproval").await;
    let plan = own("v1alpha1", "InstallPlan", "work", waiting["metadata"]["name"].as_str().unwrap());
    let second = bench.group_named("work", "second", json!({})).await;
    let several = "attenuated service account query failed - more than one operator group(s) are managing this namespace count=2";
    let none = "attenuated service account query failed - no operator group found that is managing this namespace";
    let says = |message: &'static str| move |plan: &Value| condition(plan, "Installed")["message"] == message;
    let told = bench.until(&plan, says(several)).await;
    assert_eq!(condition(&told, "Installed")["status"], "False");
    assert_eq!(condition(&told, "Installed")["reason"], "InstallCheckFailed");
    bench.admin.patch(&plan, "", &Patch::Merge(json!({"spec": {"approved": true}}))).await.unwrap();
    bench.until(&subscription, |one| condition(one, "InstallPlanPending")["message"] == several).await;
    bench.delete(&second).await;
    bench.until(&plan, |plan| plan["status"]["phase"] == "Complete").await;
    let goes_on = |one: &Value| one["status"]["installedCSV"] == "widgets.v1.0.0" && condition(one, "InstallPlanPending").is_null();
    let done = bench.until(&subscription, goes_on).await;
    assert!(condition(&done, "ResolutionFailed").is_null(), "{done:#}");

    // The plan of a person, without any group.
    bench.delete(&first).await;
    let written = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan", "metadata": {"name": "mine", "namespace": "alone"},
        "spec": {"clusterServiceVersionNames": ["widgets.v1.0.0"], "approval": "Automatic", "approved": true}});
    bench.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "alone"}})).await;
    bench.apply(written).await;
    let mine = own("v1alpha1", "InstallPlan", "alone", "mine");
    let told = bench.until(&mine, says(none)).await;
    assert_eq!((&told["status"]["phase"], &condition(&told, "Installed")["reason"]), (&json!("Installing"), &json!("InstallCheckFailed")));
    assert!(bench.get(&own("v1alpha1", "ClusterServiceVersion", "alone", "widgets.v1.0.0")).await.is_none());
    bench.group("alone", json!({})).await;
    bench.until(&mine, |plan| plan["status"]["phase"] == "Complete").await;
    bench.close().await;
}

/// OLM0-IP-12, OLM0-BUNDLE-08: a kind that OLM does not install fails the plan.
#[tokio::test(flavor = "multi_thread")]
async fn an_unsupported_kind_fails_the_plan() {
    let request =
        json!({"apiVersion": "cloudcredential.openshift.io/v1", "kind": "CredentialsRequest", "metadata": {"name": "keys"}, "spec": {}});
    let bench = bench_with_widgets(&Content { more: vec![request], ..Content::default() }).await;
    bench.group("work", json!({})).await;
    let subscription = bench.subscribe("work", "widgets", json!({})).await;
    let plan = bench.plan_of(&subscription, "Failed").await;
    assert!(plan["status"]["message"].as_str().unwrap().contains("the InstallPlan contains invalid data"), "{plan:#}");
    let steps = plan["status"]["plan"].as_array().unwrap();
    let step = steps.iter().find(|step| step["resource"]["kind"] == "CredentialsRequest").unwrap();
    assert_eq!(step["status"], "UnsupportedResource");
    bench.close().await;
}

/// OLM0-BUNDLE-06, OLM0-BUNDLE-07, OLM0-IP-14: optional objects of a bundle are created and owned by the CSV.
#[tokio::test(flavor = "multi_thread")]
async fn optional_objects_belong_to_the_csv() {
    let more = vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"a": "b"}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "metrics"}, "spec": {"ports": [{"port": 80}]}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "budget"}, "spec": {"maxUnavailable": 1}}),
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "widgets"}, "value": 10}),
    ];
    let bench = bench_with_widgets(&Content { more, ..Content::default() }).await;
    bench.group("work", json!({})).await;
    let subscription = bench.subscribe("work", "widgets", json!({})).await;
    bench.plan_of(&subscription, "Complete").await;
    let csv = bench.get(&own("v1alpha1", "ClusterServiceVersion", "work", "widgets.v1.0.0")).await.unwrap();
    for (version, kind, name) in [
        ("v1", "ConfigMap", "settings"),
        ("v1", "Secret", "keys"),
        ("v1", "Service", "metrics"),
        ("policy/v1", "PodDisruptionBudget", "budget"),
    ] {
        let object = bench.get(&place(version, kind, "work", name)).await.unwrap();
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], csv["metadata"]["uid"], "{kind}");
        assert_eq!(object["metadata"]["labels"]["olm.managed"], "true", "{kind}");
    }
    let class = bench.get(&place("scheduling.k8s.io/v1", "PriorityClass", "", "widgets")).await.unwrap();
    assert_eq!(class["metadata"]["labels"]["olm.owner"], "widgets.v1.0.0");
    bench.close().await;
}

/// OLM0-IP-05, OLM0-BUNDLE-06: an object with a field that its kind does not declare is created without it, and is no obstacle for a later plan
/// that meets it.
#[tokio::test(flavor = "multi_thread")]
async fn undeclared_fields_are_dropped_again() {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "viewer"}, "spec": {"chartPrefix": "a"},
        "rules": [{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}],
    });
    let bench = bench_with_widgets(&Content { more: vec![role.clone()], ..Content::default() }).await;
    bench.group("work", json!({})).await;
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other", "namespace": "work"}});
    let other = bench.apply(other).await;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": other["metadata"]["uid"]});
    let mut live = role;
    live.as_object_mut().unwrap().remove("spec");
    live["metadata"] = json!({"name": "viewer", "namespace": "work", "ownerReferences": [reference]});
    live["rules"] = json!([]);
    bench.apply(live).await;
    let subscription = bench.subscribe("work", "widgets", json!({})).await;
    let plan = bench.plan_of(&subscription, "Complete").await;
    let steps = plan["status"]["plan"].as_array().unwrap();
    assert_eq!(steps.iter().find(|step| step["resource"]["name"] == "viewer").unwrap()["status"], "Present");
    let role = bench.get(&place("rbac.authorization.k8s.io/v1", "Role", "work", "viewer")).await.unwrap();
    assert_eq!(role["rules"][0]["resources"], json!(["widgets"]));
    assert_eq!(role["metadata"]["ownerReferences"].as_array().unwrap().len(), 2);
    bench.close().await;
}

/// OLM0-RES-28, OLM0-RES-29: a CRD keeps the versions in which objects are stored, also if another CSV owns it.
#[tokio::test(flavor = "multi_thread")]
async fn a_crd_keeps_stored_versions() {
    let bench = bench_with_widgets(&Content::default()).await;
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    bench
        .apply(
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "names": {"kind": "Widget", "plural": "widgets"}, "scope": "Namespaced", "versions": [
                {"name": "v1alpha1", "served": true, "storage": true, "schema": schema}]}}),
        )
        .await;
    bench.group("work", json!({})).await;
    let subscription = bench.subscribe("work", "widgets", json!({})).await;
    let subscribed = bench.until(&subscription, |one| one["status"]["installPlanRef"].is_object()).await;
    let plan = own("v1alpha1", "InstallPlan", "work", subscribed["status"]["installPlanRef"]["name"].as_str().unwrap());
    let refused = bench.until(&plan, |plan| condition(plan, "Installed")["status"] == "False").await;
    assert_eq!(
        refused["status"]["message"],
        "retrying execution due to error: risk of data loss updating \"widgets.example.com\": new CRD removes version v1alpha1 that is listed as a stored \
         version on the existing CRD"
    );
    bench.close().await;
}

/// OLM0-IP-16: of many plans the oldest are forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn old_plans_are_forgotten() {
    let bench = bench_with_widgets(&Content::default()).await;
    for generation in 1..=8 {
        bench
            .apply(json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
                "metadata": {"name": format!("install-{generation}"), "namespace": "work"},
                "spec": {"approval": "Automatic", "approved": true, "clusterServiceVersionNames": ["a"], "generation": generation}}))
            .await;
    }
    for _ in 0..1000 {
        if bench.plans("work").await.len() == 5 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let left: Vec<i64> = bench.plans("work").await.iter().map(|plan| plan["spec"]["generation"].as_i64().unwrap()).collect();
    assert_eq!(left, [4, 5, 6, 7, 8]);
    bench.close().await;
}

/// OLM0-IP-19, OLM0-IP-06, COP-OLM0-02: a plan that a person writes is resolved, waits for its approval, and makes no Subscription; one that names what no
/// catalog has fails and says which were asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_written_plan_is_resolved() {
    let bench = bench_with_widgets(&Content::default()).await;
    bench.group("work", json!({})).await;
    let written = |name: &str, csv: &str| {
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan", "metadata": {"name": name, "namespace": "work"},
            "spec": {"clusterServiceVersionNames": [csv], "approval": "Manual", "approved": false}})
    };
    bench.apply(written("mine", "widgets.v1.0.0")).await;
    let place = own("v1alpha1", "InstallPlan", "work", "mine");
    let waiting = bench.until(&place, |plan| plan["status"]["phase"] == "RequiresApproval").await;
    assert_eq!(waiting["status"]["plan"][0]["resource"]["kind"], "ClusterServiceVersion");
    bench.admin.patch(&place, "", &Patch::Merge(json!({"spec": {"approved": true}}))).await.unwrap();
    bench.until(&place, |plan| plan["status"]["phase"] == "Complete").await;
    assert!(bench.get(&own("v1alpha1", "ClusterServiceVersion", "work", "widgets.v1.0.0")).await.is_some());
    let kind = kube::api::GroupVersionKind::gvk("operators.coreos.com", "v1alpha1", "Subscription");
    assert!(bench.admin.list(&kind, 10).await.unwrap().is_empty());
    bench.apply(written("wrong", "widgets.v9.9.9")).await;
    let failed = bench.until(&own("v1alpha1", "InstallPlan", "work", "wrong"), |plan| plan["status"]["phase"] == "Failed").await;
    let resolved = condition(&failed, "Resolved");
    assert_eq!((&resolved["status"], &resolved["reason"]), (&json!("False"), &json!("DependenciesConflict")));
    assert_eq!(
        resolved["message"],
        "clusterserviceversion widgets.v9.9.9 is in none of the catalogs that were asked: openshift-marketplace/test"
    );
    bench.close().await;
}

/// OLM0-IP-01: others write to a Subscription all the time while its plan is made; it refers to the plan all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_subscription_refers_to_its_plan() {
    let bench = bench_with_widgets(&Content::default()).await;
    let subscription = bench.subscribe("work", "widgets", json!({})).await;
    let busy = async {
        for turn in 0_u64.. {
            let label = Patch::Merge(json!({"metadata": {"labels": {"turn": turn.to_string()}}}));
            bench.admin.patch(&subscription, "", &label).await.unwrap();
        }
    };
    let installed = async {
        bench.group("work", json!({})).await;
        bench.until(&subscription, |one| one["status"]["installedCSV"] == "widgets.v1.0.0").await;
    };
    tokio::select! {
        () = busy => {}
        () = installed => {}
    }
    assert_eq!(bench.plans("work").await.len(), 1);
    bench.close().await;
}

/// OLM0-IP-01: a plan without content is what a controller that was stopped leaves; it is made again.
#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_plan_is_made_again() {
    let bench = bench_with_widgets(&Content::default()).await;
    let subscription = bench.subscribe("work", "widgets", json!({"installPlanApproval": "Manual"})).await;
    let live = bench.get(&subscription).await.unwrap();
    let left = own("v1alpha1", "InstallPlan", "work", "install-left");
    bench
        .apply(json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"name": "install-left", "namespace": "work", "ownerReferences": [{"apiVersion": "operators.coreos.com/v1alpha1",
                "kind": "Subscription", "name": "widgets", "uid": live["metadata"]["uid"]}]},
            "spec": {"approval": "Manual", "approved": false, "clusterServiceVersionNames": ["widgets.v1.0.0"], "generation": 1}}))
        .await;
    let pending = json!({"state": "UpgradePending", "currentCSV": "widgets.v1.0.0", "installPlanGeneration": 1,
        "installPlanRef": {"name": "install-left", "namespace": "work"}, "lastUpdated": "2026-01-01T00:00:00Z"});
    bench.write_status(&subscription, |_| pending.clone()).await;
    bench.group("work", json!({})).await;
    let renamed = |one: &Value| one["status"]["installPlanRef"]["name"].as_str().is_some_and(|name| name != "install-left");
    bench.until(&subscription, renamed).await;
    bench.plan_of(&subscription, "RequiresApproval").await;
    assert!(bench.get(&left).await.is_none());
    assert_eq!(bench.plans("work").await.len(), 1);
    bench.close().await;
}
