//! The derived permissions of real bundles: enough for the preflight and the real API, and none of them to spare.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod case;
mod requests;
mod settled;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use kube::Client;
use mainstay_bundle::permissions::Grant;
use mainstay_lifecycle::object;
use mainstay_lifecycle::preflight::Report;
use mainstay_objects::{Expect, ObjectRef, Propagation};
use mainstay_rbac::{PolicyIndex, PolicyRule, breakdown, covers};
use mainstay_runtime::{Accounts, Cluster, Env, Key};
use serde_json::{Value, json};

use crate::support::{Api, extension_object, namespace, operator_controller};
use case::{Case, cases, every, is_wild, stands_for_rules};
use requests::{Refused, define, grant, names, refusals, try_verb};

/// MS-RBAC-01, OLM1-PERM-05, OLM1-PERM-08, OLM1-PERM-09, OLM1-PERM-10, OLM1-PERM-11: the derived permissions of every real bundle satisfy the
/// preflight.
#[test]
fn derived_permissions_satisfy_the_preflight() {
    let Some(cases) = cases() else { return };
    assert!(cases.len() > 135, "{}", cases.len());
    for case in &cases {
        let report = case.preflight(&case.grants, &PolicyIndex::default());
        assert!(report.is_empty(), "{}: {}", case.name, report.text());
    }
    eprintln!("{} bundles", cases.len());
}

/// MS-RBAC-01, OLM1-PERM-05, OLM1-PERM-10, OLM1-PERM-11, OLM1-PERM-12: no right of any real bundle is to spare: with any verb of any rule
/// taken away the preflight names this verb and resource and nothing else.
#[test]
fn no_derived_right_is_to_spare() {
    let Some(cases) = cases() else { return };
    let (next, tried) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(4) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    for (taken, left) in case.reductions() {
                        tried.fetch_add(1, Ordering::Relaxed);
                        is_missed(case, &taken, &left);
                    }
                }
            });
        }
    });
    eprintln!("{tried:?} permissions of {} bundles", cases.len());
}

fn is_missed(case: &Case, taken: &Grant, left: &[Grant]) {
    let report = case.preflight(left, &PolicyIndex::default());
    let missing: Vec<PolicyRule> = report.missing.values().flatten().cloned().collect();
    assert!(!report.is_empty(), "{}: {taken:?} is not needed", case.name);
    if !stands_for_rules(&taken.rule) {
        // A name that is missing belongs to the rule that was taken; what a wildcard stood for is more than can be listed.
        let nameless = PolicyRule { resource_names: Vec::new(), ..taken.rule.clone() };
        let beyond = covers(&[nameless], &missing);
        assert!(beyond.is_empty(), "{}: without {taken:?} also missing: {beyond:?}", case.name);
        let atoms = breakdown(&taken.rule).into_iter();
        let unnamed: Vec<PolicyRule> = atoms.filter(|atom| !is_wild(&taken.rule) && !missing.contains(atom)).collect();
        assert!(unnamed.is_empty(), "{}: not reported: {unnamed:?}\n{}", case.name, report.text());
    }
}

/// What is taken away at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taking {
    /// One verb of one rule.
    Singly,
    /// As many as no request needs together.
    Batches,
}

/// Installs a bundle with the derived permissions, and takes them away. Returns how many permissions were looked at.
async fn prove(api: &Api, case: &Case, client: &Client, taking: Taking, cluster: &PolicyIndex) -> Result<usize, String> {
    let mut live = Vec::new();
    for object in &case.objects {
        // As the controller makes it: roles by a request that names them, everything else by one that does not.
        let made = if object::is_created_by_name(object) { "apply" } else { "create" };
        for verb in [made, "patch", "get", "list", "watch"] {
            match try_verb(client, verb, object, object, false).await {
                None => {}
                // Two bundles hold examples that their own definitions do not take.
                Some(refused) if refused.code == 422 || refused.code == 404 && verb == "get" => {
                    eprintln!("{}: {refused:?}", case.name);
                }
                Some(refused) => return Err(format!("{}: {refused:?}", case.name)),
            }
        }
        if object["kind"] == "CustomResourceDefinition" {
            api.established(object["metadata"]["name"].as_str().unwrap()).await;
        }
        let target = ObjectRef::of(object).unwrap();
        if requests::is_binding(object) && object["subjects"].as_array().is_some_and(|all| all.iter().any(|each| each["kind"] == "Group")) {
            // What the bundle lets everybody do, its installer among them, must not hide what the installer needs before.
            api.admin.patch(&target, "", &mainstay_objects::Patch::Merge(json!({"subjects": null}))).await.unwrap();
        }
        let mut current = api.get(&target).await.unwrap_or_default();
        if !current.is_null() {
            // Others may write in between.
            current["metadata"]["resourceVersion"] = Value::Null;
        }
        live.push(current);
    }
    for role in case.objects.iter().filter(|object| object["aggregationRule"].is_object()) {
        // As the aggregating controller would.
        let rules = json!({"rules": GATHERED.clone()});
        api.admin.patch(&ObjectRef::of(role).unwrap(), "", &mainstay_objects::Patch::Merge(rules)).await.unwrap();
    }
    for (object, current) in case.objects.iter().zip(&live).filter(|(_, current)| !current.is_null()) {
        if let Some(refused) = try_verb(client, "update", object, &with_version(api, current).await, false).await {
            return Err(format!("{}: {refused:?}", case.name));
        }
    }
    let held = case.held_anyway(cluster);
    let steps: Vec<(Vec<Grant>, Vec<Grant>)> = match taking {
        Taking::Singly => case.reductions().map(|(taken, left)| (vec![taken], left)).collect(),
        Taking::Batches => case.batches(),
    };
    let (mut tried, mut before, mut problems) = (0, case.grants.clone(), Vec::new());
    for (step, (taken, left)) in steps.iter().enumerate() {
        tried += taken.len();
        grant(api, case, &before, left, step + 1).await;
        before.clone_from(left);
        problems.extend(compare(case, client, &live, (taken, &held), &case.preflight(left, cluster)).await);
    }
    grant(api, case, &before, &case.grants, steps.len() + 1).await;
    for (object, current) in case.objects.iter().zip(&live).rev() {
        if let Some(refused) = try_verb(client, "delete", object, current, false).await.filter(|refused| refused.code != 404) {
            problems.push(format!("{}: {refused:?}", case.name));
        }
    }
    if problems.is_empty() { Ok(tried) } else { Err(problems.join("\n")) }
}

/// Without these permissions the API refuses each of them with 403, and the preflight predicts exactly the refusals.
async fn compare(case: &Case, client: &Client, live: &[Value], (taken, held): (&[Grant], &[PolicyRule]), report: &Report) -> Vec<String> {
    let mut problems = Vec::new();
    // What every account of a cluster may do is not refused to this one (1.x of one operator asks for such a right).
    let free = |taken: &Grant| covers(held, &breakdown(&taken.rule)).is_empty();
    let mut refused = refusals(client, case, live, taken).await;
    // Whoever may not `bind` must hold what the role grants; a role that is nowhere is looked for, and the answer is 404 (OLM1-PERM-13).
    let nowhere = |refused: &Refused| {
        let named = refused.message.split('"').nth(1).map(|name| format!("\"{name}\" not found"));
        refused.code == 404 && named.is_some_and(|named| report.errors.iter().any(|error| error.contains(&named)))
    };
    let bound = refused.iter().any(nowhere);
    refused.retain(|refused| !nowhere(refused));
    if bound && refused.is_empty() && report.missing.is_empty() {
        return problems;
    }
    let predicted: Vec<PolicyRule> = report.missing.values().flatten().cloned().collect();
    if let Some(other) = refused.iter().find(|refused| refused.code != 403) {
        return vec![format!("{}: without {taken:?} the API answers {other:?}", case.name)];
    }
    if report.is_empty() {
        return vec![format!("{}: without {taken:?} the preflight says nothing, but {refused:?}", case.name)];
    }
    let stands = taken.iter().any(|taken| stands_for_rules(&taken.rule));
    for taken in taken.iter().filter(|taken| !stands && !free(taken)) {
        if !refused.iter().any(|refused| names(refused, &breakdown(&taken.rule)) || is_aggregated(&refused.message)) {
            problems.push(format!("{}: without {taken:?} the API refuses nothing of it: {refused:?}", case.name));
        }
    }
    if refused.is_empty() {
        problems.push(format!("{}: without {taken:?} the API refuses nothing", case.name));
    }
    let expected = if stands { predicted.clone() } else { taken.iter().flat_map(|taken| breakdown(&taken.rule)).collect() };
    for refused in refused.iter().filter(|refused| !is_aggregated(&refused.message)) {
        if !names(refused, &expected) {
            problems.push(format!("{}: without {taken:?} another refusal: {refused:?}", case.name));
        }
        if !names(refused, &predicted) {
            problems.push(format!("{}: not predicted: {refused:?}\n{}", case.name, report.text()));
        }
    }
    for atom in predicted.iter().filter(|_| !stands) {
        if !refused.iter().any(|refused| names(refused, std::slice::from_ref(atom))) {
            problems.push(format!("{}: predicted, but not refused: {atom:?}: {refused:?}", case.name));
        }
    }
    problems
}

/// The server's words on a role that gathers others.
fn is_aggregated(message: &str) -> bool {
    message.contains("must have cluster-admin privileges")
}

/// What no installer holds.
static GATHERED: LazyLock<Value> =
    LazyLock::new(|| json!([{"apiGroups": ["gathered.example.com"], "resources": ["things"], "verbs": ["get"]}]));

/// The roles and bindings that the cluster has by itself. Those that gather others gather something, as the
/// aggregating controller would see to.
async fn policy(api: &Api) -> PolicyIndex {
    let mut all = PolicyIndex::default();
    for (plural, kind) in
        [("clusterroles", "ClusterRole"), ("roles", "Role"), ("clusterrolebindings", "ClusterRoleBinding"), ("rolebindings", "RoleBinding")]
    {
        let request = axum::http::Request::get(format!("/apis/rbac.authorization.k8s.io/v1/{plural}")).body(Vec::new()).unwrap();
        let list: Value = api.admin.client().request(request).await.unwrap();
        for role in list["items"].as_array().unwrap() {
            let mut role = role.clone();
            role["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
            role["kind"] = json!(kind);
            if role["aggregationRule"].is_object() {
                role["rules"] = GATHERED.clone();
                let rules = json!({"rules": role["rules"]});
                api.admin.patch(&ObjectRef::of(&role).unwrap(), "", &mainstay_objects::Patch::Merge(rules)).await.unwrap();
            }
            all.apply(&role).unwrap();
        }
    }
    all
}

async fn with_version(api: &Api, object: &Value) -> Value {
    let mut now = api.get(&ObjectRef::of(object).unwrap()).await.unwrap();
    now["metadata"]["managedFields"] = Value::Null;
    now
}

/// Bundles of different shapes: all namespaces, one namespace with Roles, several CRDs, webhooks, monitoring objects, bindings to roles
/// that the cluster has.
const SHAPES: [&str; 6] = [
    "ack-s3-controller/1.10.0",
    "aqua/2022.4.17",
    "grafana-operator/5.1.0",
    "node-maintenance-operator/0.21.0",
    "rabbitmq-cluster-operator/2.5.0",
    "skupper-operator/1.9.6",
];

/// MS-RBAC-01, OLM1-PERM-01, OLM1-PERM-05, OLM1-PERM-06, OLM1-PERM-09, OLM1-PERM-11: every real bundle installs on the API, which enforces
/// RBAC, with the derived permissions and without the preflight, is kept and removed; without any verb of any rule the API answers 403 on that
/// verb and resource, and the preflight predicts exactly these refusals. Six bundles of different shapes lose each right singly, all
/// others lose them in batches of which no request needs two. `RIGHTS=NAME` takes only the bundles that begin so, singly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn derived_permissions_are_enough_and_none_is_to_spare() {
    let Some(bundles) = every() else { return };
    let chosen = std::env::var("RIGHTS").ok();
    let api = Api::start().await;
    let cluster = Cluster::Embedded { router: api.server.router(), identity: operator_controller };
    let accounts = Accounts::new(cluster.clone(), api.admin.client().clone(), Env::system());
    let cluster_policy = policy(&api).await;
    let (mut defined, mut problems, mut installed, mut tried) = (BTreeSet::new(), Vec::new(), 0, 0);
    for (number, (name, files)) in bundles.iter().enumerate() {
        if chosen.as_ref().is_some_and(|chosen| !name.starts_with(chosen)) {
            continue;
        }
        let Some(probe) = Case::of(name, files, number, "uid") else { continue };
        if probe.objects.iter().any(|object| object["apiVersion"] == "apiextensions.k8s.io/v1beta1") {
            eprintln!("{name}: definitions of a version that Kubernetes has not served since 1.22");
            continue;
        }
        let taking = if chosen.is_some() || SHAPES.contains(&name.as_str()) { Taking::Singly } else { Taking::Batches };
        for name in [&probe.work, &probe.watched] {
            api.apply(namespace(name)).await;
        }
        let owner = api.apply(extension_object(&probe.extension, "p", &probe.work)).await;
        let case = Case::of(name, files, number, owner["metadata"]["uid"].as_str().unwrap()).unwrap();
        for object in &case.objects {
            define(&api, object, &mut defined).await;
        }
        grant(&api, &case, &[], &case.grants, 0).await;
        let client = accounts.client(&Key::new(case.work.clone(), "installer")).await.unwrap();
        let started = std::time::Instant::now();
        match prove(&api, &case, &client, taking, &cluster_policy).await {
            Ok(count) => {
                tried += count;
                eprintln!(
                    "{name}: {} objects, {} rules, {count} permissions, {:?}",
                    case.objects.len(),
                    case.grants.len(),
                    started.elapsed()
                );
            }
            Err(problem) => {
                eprintln!("{problem}");
                problems.push(problem);
            }
        }
        installed += 1;
        // CRDs are shared between versions of an operator: the next one finds none.
        for object in case.objects.iter().rev() {
            let target = ObjectRef::of(object).unwrap();
            if let Ok(true) = api.admin.delete(&target, &Expect::default(), Propagation::Background).await {
                api.gone(&target).await;
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(chosen.is_some() || installed > 110, "{installed}");
    eprintln!("{installed} bundles, {tried} permissions");
    api.close().await;
}
