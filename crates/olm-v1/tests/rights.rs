//! The derived rights of real bundles: enough for the preflight and the real API, and none of them to spare.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

#[path = "../../bundle/tests/common/mod.rs"]
mod common;
mod support;

use std::collections::{BTreeMap, BTreeSet};

use axum::http::Request;
use kube::Client;
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_apply::{Expect, ObjectRef, Owner, Propagation, install_order};
use mainstay_bundle::rights::{self, ExtensionRef, Grant, Installer, Scope};
use mainstay_bundle::{Bundle, CertificateProvider, RenderOptions, kinds, render};
use mainstay_olm_v1::extension::object;
use mainstay_olm_v1::extension::permissions::{self, Report};
use mainstay_rbac::{PolicyIndex, PolicyRule, RBAC_GROUP, UserInfo, breakdown, covers};
use mainstay_runtime::{Accounts, Cluster, Env, Key};
use serde_json::{Value, json};
use support::{Api, extension_object, namespace, operator_controller};

/// A bundle as it is installed, and the rights for it.
struct Case {
    name: String,
    extension: String,
    work: String,
    watched: String,
    objects: Vec<Value>,
    grants: Vec<Grant>,
}

impl Case {
    /// Renders a bundle in the first mode that it supports; `None` where it can not be read or rendered.
    fn of(name: &str, files: &common::Files, number: usize, uid: &str) -> Option<Self> {
        let bundle = Bundle::read(files).ok()?;
        let (extension, work, watched) = (format!("e{number}"), format!("work-{number}"), format!("watched-{number}"));
        let targets = if bundle.csv.supports("AllNamespaces") {
            None
        } else if bundle.csv.supports("SingleNamespace") {
            Some(vec![watched.clone()])
        } else {
            Some(vec![work.clone()])
        };
        let options = RenderOptions {
            install_namespace: work.clone(),
            target_namespaces: targets,
            certificates: CertificateProvider::OpenshiftServiceCa,
        };
        let rendered = render(&bundle, &options).ok()?;
        let mut definition = extension_object(&extension, "p", &work);
        definition["metadata"]["uid"] = json!(uid);
        let owner: Owner = object::owner(&serde_json::from_value::<ClusterExtension>(definition).unwrap());
        let mut objects: Vec<Value> = rendered.into_iter().map(|object| object::owned(object, &owner)).collect();
        install_order(&mut objects);
        let grants = rights::derive(&objects, &ExtensionRef { name: extension.clone() });
        Some(Self { name: name.to_owned(), extension, work, watched, objects, grants })
    }

    fn installer(&self) -> Installer {
        Installer { extension: self.extension.clone(), service_account: "installer".to_owned(), namespace: self.work.clone() }
    }

    fn user(&self) -> UserInfo {
        UserInfo::service_account(&self.work, "installer")
    }

    /// What the preflight says when these rights are granted.
    fn preflight(&self, grants: &[Grant]) -> Report {
        let mut policy = PolicyIndex::default();
        for object in rights::manifests(grants, &self.installer()).iter().filter(|object| object["kind"] != "ServiceAccount") {
            policy.apply(object).unwrap();
        }
        permissions::check(&policy, &self.user(), &self.extension, &self.objects)
    }

    /// Whether the account writes a role by the right to escalate it.
    fn escalates(&self, role: &Value) -> bool {
        let name = role["metadata"]["name"].as_str().unwrap();
        let by_name =
            |rule: &PolicyRule| rule.verbs.iter().any(|verb| verb == "escalate") && rule.resource_names.iter().any(|each| each == name);
        is_role(role) && self.grants.iter().any(|grant| by_name(&grant.rule))
    }

    /// Every way to take one verb of one rule away: which rule of what scope, and what is left.
    fn reductions(&self) -> impl Iterator<Item = (Grant, Vec<Grant>)> + '_ {
        self.grants.iter().enumerate().flat_map(move |(index, grant)| {
            grant.rule.verbs.iter().map(move |verb| {
                let mut left = self.grants.clone();
                left[index].rule.verbs.retain(|each| each != verb);
                if left[index].rule.verbs.is_empty() {
                    left.remove(index);
                }
                let taken = PolicyRule { verbs: vec![verb.clone()], ..grant.rule.clone() };
                (Grant { scope: grant.scope.clone(), rule: taken }, left)
            })
        })
    }
}

fn cases() -> Option<Vec<Case>> {
    let bundles = common::bundles()?;
    Some(bundles.iter().enumerate().filter_map(|(number, (name, files))| Case::of(name, files, number, "uid")).collect())
}

/// Without these, what they stand for is reported: whoever may not `bind` or `escalate` must hold the rules.
fn stands_for_rules(taken: &PolicyRule) -> bool {
    taken.verbs.iter().any(|verb| verb == "bind" || verb == "escalate")
}

/// MS-RBAC-01, OLM1-PERM-05, OLM1-PERM-08, OLM1-PERM-09, OLM1-PERM-10, OLM1-PERM-11: the derived rights of every real bundle satisfy the
/// preflight.
#[test]
fn derived_rights_satisfy_the_preflight() {
    let Some(cases) = cases() else { return };
    assert!(cases.len() > 110, "{}", cases.len());
    for case in &cases {
        let report = case.preflight(&case.grants);
        assert!(report.is_empty(), "{}: {}", case.name, report.text());
    }
    eprintln!("{} bundles", cases.len());
}

/// MS-RBAC-01, OLM1-PERM-05, OLM1-PERM-10, OLM1-PERM-11, OLM1-PERM-12: no right is to spare: with any verb of any rule taken away the
/// preflight names this verb and resource and nothing else. A sample of bundles; `RIGHTS=all` takes all.
#[test]
fn no_derived_right_is_to_spare() {
    let Some(cases) = cases() else { return };
    let every = std::env::var("RIGHTS").as_deref() == Ok("all");
    let (mut bundles, mut reductions) = (0, 0);
    for case in cases.iter().filter(|case| case.grants.len() < 60 || every).step_by(if every { 1 } else { 6 }) {
        bundles += 1;
        for (taken, left) in case.reductions() {
            reductions += 1;
            let report = case.preflight(&left);
            let missing: Vec<PolicyRule> = report.missing.values().flatten().cloned().collect();
            assert!(!report.is_empty(), "{}: {taken:?} is not needed", case.name);
            if !stands_for_rules(&taken.rule) {
                // A name that is missing belongs to the rule that was taken; what a wildcard stood for is more than can be listed.
                let nameless = PolicyRule { resource_names: Vec::new(), ..taken.rule.clone() };
                let beyond = covers(&[nameless], &missing);
                assert!(beyond.is_empty(), "{}: without {taken:?} also missing: {beyond:?}", case.name);
                let wild = |list: &[String]| list.iter().any(|each| each.contains('*'));
                let exact = !(wild(&taken.rule.verbs)
                    || wild(&taken.rule.resources)
                    || wild(&taken.rule.api_groups)
                    || wild(&taken.rule.non_resource_urls));
                let unnamed: Vec<PolicyRule> = breakdown(&taken.rule).into_iter().filter(|atom| exact && !missing.contains(atom)).collect();
                assert!(unnamed.is_empty(), "{}: not reported: {unnamed:?}\n{}", case.name, report.text());
            }
        }
    }
    eprintln!("{reductions} rights of {bundles} bundles");
}

/// The answer of the API: its code and message.
async fn ask(client: &Client, method: &str, path: &str, content_type: &str, body: Option<&Value>) -> (u16, String) {
    let bytes = body.map(Value::to_string).unwrap_or_default().into_bytes();
    let request = Request::builder().method(method).uri(path).header("content-type", content_type).body(bytes.into()).unwrap();
    let response = client.send(request).await.unwrap();
    let code = response.status().as_u16();
    if code < 400 {
        // Of a watch only the beginning matters.
        return (code, String::new());
    }
    let bytes = response.into_body().collect_bytes().await.unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let message = serde_json::from_slice::<Value>(&bytes).ok().and_then(|status| status["message"].as_str().map(str::to_owned));
    (code, message.unwrap_or(text))
}

/// Where an object is.
struct Address {
    group: String,
    resource: String,
    everywhere: String,
    collection: String,
    name: String,
}

fn address(object: &Value) -> Address {
    let place = ObjectRef::of(object).unwrap();
    let row = kinds::rendered(&place.kind).unwrap();
    let root = if place.group().is_empty() { format!("/api/{}", place.api_version) } else { format!("/apis/{}", place.api_version) };
    let everywhere = format!("{root}/{}", row.resource);
    let collection = if row.namespaced { format!("{root}/namespaces/{}/{}", place.namespace, row.resource) } else { everywhere.clone() };
    Address { group: place.group().to_owned(), resource: row.resource.to_owned(), everywhere, collection, name: place.name.clone() }
}

const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";

/// A refusal, or another answer that is no success.
#[derive(Debug)]
#[allow(dead_code, reason = "shown when a test fails")]
struct Refused {
    what: String,
    code: u16,
    message: String,
}

/// One verb on an object, really or dry; what is refused.
async fn try_verb(client: &Client, verb: &str, object: &Value, live: &Value, dry: bool) -> Option<Refused> {
    let at = address(object);
    let one = format!("{}/{}", at.collection, at.name);
    let query = if dry { "?dryRun=All" } else { "?" };
    let manager = format!("{query}&fieldManager=operator-controller");
    let (code, message) = match verb {
        "get" => ask(client, "GET", &one, JSON, None).await,
        "list" => ask(client, "GET", &at.everywhere, JSON, None).await,
        "watch" => ask(client, "GET", &format!("{}?watch=true&timeoutSeconds=1", at.everywhere), JSON, None).await,
        "create" => ask(client, "POST", &format!("{}{manager}", at.collection), JSON, Some(object)).await,
        "patch" => ask(client, "PATCH", &format!("{one}{manager}&force=true"), APPLY, Some(object)).await,
        "update" => ask(client, "PUT", &format!("{one}{manager}"), JSON, Some(live)).await,
        "delete" => ask(client, "DELETE", &format!("{one}{query}"), JSON, None).await,
        other => panic!("{other}"),
    };
    let exists = verb == "create" && code == 409;
    (code >= 400 && !exists).then(|| Refused { what: format!("{verb} {}/{} {}", at.group, at.resource, at.name), code, message })
}

const VERBS: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|each| each == "*" || each == wanted)
}

/// Kinds that no cluster has by itself get a definition that lets everything through.
async fn define(api: &Api, object: &Value, defined: &mut BTreeSet<String>) {
    let place = ObjectRef::of(object).unwrap();
    let row = kinds::rendered(&place.kind).unwrap();
    let builtin = [
        "",
        "apps",
        RBAC_GROUP,
        "apiextensions.k8s.io",
        "policy",
        "networking.k8s.io",
        "scheduling.k8s.io",
        "admissionregistration.k8s.io",
    ];
    let version = place.api_version.rsplit('/').next().unwrap();
    let crd = format!("{}.{}", row.resource, place.group());
    if builtin.contains(&place.group()) || !defined.insert(crd.clone()) {
        return;
    }
    api.apply(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": crd},
        "spec": {"group": place.group(), "names": {"kind": place.kind, "plural": row.resource}, "scope": if row.namespaced { "Namespaced" } else { "Cluster" },
            "versions": [{"name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}))
        .await;
    api.established(&crd).await;
}

/// Grants these rights to the case's account and waits until the API decides by them.
async fn grant(api: &Api, case: &Case, before: &[Grant], grants: &[Grant], step: usize) {
    let marker = PolicyRule::resources(&[&format!("step-{step}")], &["marker.example.com"], &["markers"]);
    let mut scopes: BTreeMap<&Scope, bool> = BTreeMap::new();
    for grant in before.iter().chain(grants) {
        scopes.insert(&grant.scope, true);
    }
    for (scope, changed) in &mut scopes {
        let of = |grants: &[Grant]| grants.iter().filter(|grant| grant.scope == **scope).cloned().collect::<Vec<_>>();
        *changed = of(before) != of(grants);
    }
    let mut marked = grants.to_vec();
    for (scope, _) in scopes.iter().filter(|(_, changed)| **changed) {
        marked.push(Grant { scope: (*scope).clone(), rule: marker.clone() });
    }
    let changed: BTreeSet<Option<&str>> = scopes
        .iter()
        .filter(|(_, changed)| **changed)
        .map(|(scope, _)| match scope {
            Scope::Cluster => None,
            Scope::Namespace(name) => Some(name.as_str()),
        })
        .collect();
    for object in rights::manifests(&marked, &case.installer()) {
        let first = step == 0;
        let role = matches!(object["kind"].as_str(), Some("Role" | "ClusterRole"));
        if first || role && changed.contains(&object["metadata"]["namespace"].as_str()) {
            api.apply(object).await;
        }
    }
    for namespace in changed {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
            "user": case.user().name, "groups": case.user().groups,
            "resourceAttributes": {"verb": format!("step-{step}"), "group": "marker.example.com", "resource": "markers", "namespace": namespace.unwrap_or_default()}}});
        let mut tries = 0;
        loop {
            let bytes = review.to_string().into_bytes();
            let request =
                Request::post("/apis/authorization.k8s.io/v1/subjectaccessreviews").header("content-type", JSON).body(bytes).unwrap();
            let answer: Value = api.admin.client().request(request).await.unwrap();
            if answer["status"]["allowed"] == true {
                break;
            }
            tries += 1;
            assert!(tries < 5000, "the policy is not taken in: {answer}");
            tokio::task::yield_now().await;
        }
    }
}

/// Others have kinds of these names too.
fn is_rbac(object: &Value, kinds: [&str; 2]) -> bool {
    object["apiVersion"].as_str().is_some_and(|version| version.starts_with(RBAC_GROUP))
        && object["kind"].as_str().is_some_and(|kind| kinds.contains(&kind))
}

fn is_role(object: &Value) -> bool {
    is_rbac(object, ["Role", "ClusterRole"])
}

fn is_binding(object: &Value) -> bool {
    is_rbac(object, ["RoleBinding", "ClusterRoleBinding"])
}

/// Whether a role says something of what was taken away.
fn concerns(role: &Value, taken: &PolicyRule) -> bool {
    let rules = role["rules"].as_array().cloned().unwrap_or_default();
    let rules: Vec<PolicyRule> = rules.into_iter().map(|rule| serde_json::from_value(rule).unwrap()).collect();
    let meet = |left: &[String], right: &[String]| left.iter().any(|each| has(right, each)) || right.iter().any(|each| has(left, each));
    !taken.non_resource_urls.is_empty()
        || rules.iter().any(|rule| meet(&rule.api_groups, &taken.api_groups) && meet(&rule.resources, &taken.resources))
}

/// Everything that the API refuses of what concerns the right that was taken away.
async fn refusals(client: &Client, case: &Case, live: &[Value], taken: &PolicyRule) -> Vec<Refused> {
    let mut refused = Vec::new();
    let mut listed = BTreeSet::new();
    for (object, live) in case.objects.iter().zip(live) {
        let at = address(object);
        if !(has(&taken.api_groups, &at.group) && has(&taken.resources, &at.resource)) {
            continue;
        }
        for verb in VERBS.into_iter().filter(|verb| has(&taken.verbs, verb)) {
            let once = matches!(verb, "list" | "watch" | "create").then(|| (verb, at.collection.clone()));
            let named = taken.resource_names.is_empty() || taken.resource_names.contains(&at.name);
            if named && once.is_none_or(|once| listed.insert(once)) {
                refused.extend(try_verb(client, verb, object, live, true).await);
            }
        }
    }
    if has(&taken.resources, "clusterextensions/finalizers") && has(&taken.api_groups, "olm.operatorframework.io") {
        let path = format!("/apis/olm.operatorframework.io/v1/clusterextensions/{}/finalizers", case.extension);
        let (code, message) = ask(client, "PUT", &path, JSON, Some(&json!({}))).await;
        if code == 403 {
            refused.push(Refused { what: "update clusterextensions/finalizers".to_owned(), code, message });
        }
    }
    // Under another name a role or binding is new, so that all it grants is looked at.
    for object in case.objects.iter().filter(|object| is_role(object) || is_binding(object)) {
        let mut copy = object.clone();
        // The right to escalate a role is one by name.
        let verb = if case.escalates(object) {
            copy["metadata"]["labels"]["changed"] = json!("yes");
            "patch"
        } else {
            copy["metadata"]["name"] = json!(format!("{}-copy", object["metadata"]["name"].as_str().unwrap()));
            "create"
        };
        if is_binding(object) || concerns(object, taken) || verb == "patch" {
            refused.extend(try_verb(client, verb, &copy, &copy, true).await);
        }
    }
    refused
}

/// Whether the refusal names one of the verbs on one of the resources.
fn names(refused: &Refused, atoms: &[PolicyRule]) -> bool {
    let quoted = |text: &str| format!("\"{text}\"");
    atoms.iter().any(|atom| {
        let direct = atom.resources.iter().any(|resource| {
            let resource = resource.split('/').next().unwrap_or_default();
            atom.verbs.iter().any(|verb| {
                let verb_fits =
                    if verb == "*" { refused.message.contains(" cannot ") } else { refused.message.contains(&format!(" cannot {verb} ")) };
                verb_fits && (resource == "*" || refused.message.contains(&format!("resource \"{resource}")))
            })
        });
        let granted = refused.message.contains("is attempting to grant RBAC permissions not currently held")
            && atom
                .verbs
                .iter()
                .chain(&atom.resources)
                .chain(&atom.non_resource_urls)
                .all(|text| text == "*" || refused.message.contains(&quoted(text)));
        direct || granted
    })
}

/// Installs a bundle with the derived rights, and takes them away one by one. Returns how many rights were looked at.
async fn prove(api: &Api, case: &Case, client: &Client, reductions: bool) -> Result<usize, String> {
    let mut live = Vec::new();
    for object in &case.objects {
        for verb in ["patch", "get", "list", "watch"] {
            if let Some(refused) = try_verb(client, verb, object, object, false).await {
                return Err(format!("{}: {refused:?}", case.name));
            }
        }
        if object["kind"] == "CustomResourceDefinition" {
            api.established(object["metadata"]["name"].as_str().unwrap()).await;
        }
        let mut current = api.get(&ObjectRef::of(object).unwrap()).await.unwrap();
        // Others may write in between.
        current["metadata"]["resourceVersion"] = Value::Null;
        live.push(current);
    }
    for role in case.objects.iter().filter(|object| object["aggregationRule"].is_object()) {
        // As the aggregating controller would.
        let rules = json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
        api.admin.patch(&ObjectRef::of(role).unwrap(), "", &mainstay_apply::Patch::Merge(rules)).await.unwrap();
    }
    for (object, current) in case.objects.iter().zip(&live) {
        if let Some(refused) = try_verb(client, "update", object, &with_version(api, current).await, false).await {
            return Err(format!("{}: {refused:?}", case.name));
        }
    }
    let mut tried = 0;
    let mut before = case.grants.clone();
    let mut problems = Vec::new();
    for (taken, left) in case.reductions().filter(|_| reductions) {
        tried += 1;
        grant(api, case, &before, &left, tried).await;
        before.clone_from(&left);
        let refused = refusals(client, case, &live, &taken.rule).await;
        let report = case.preflight(&left);
        let predicted: Vec<PolicyRule> = report.missing.values().flatten().cloned().collect();
        let forbidden = refused.iter().all(|refused| refused.code == 403);
        if refused.is_empty() || !forbidden {
            problems.push(format!("{}: without {:?} the API answers {refused:?}", case.name, taken));
            continue;
        }
        if report.is_empty() {
            problems.push(format!("{}: without {:?} the preflight says nothing, but {refused:?}", case.name, taken));
            continue;
        }
        let expected = if stands_for_rules(&taken.rule) { predicted.clone() } else { breakdown(&taken.rule) };
        for refused in &refused {
            let aggregated = refused.message.contains("must have cluster-admin privileges");
            if !names(refused, &expected) && !aggregated {
                problems.push(format!("{}: without {:?} another refusal: {refused:?}", case.name, taken));
            }
            if !names(refused, &predicted) && !aggregated {
                problems.push(format!("{}: not predicted: {refused:?}\n{}", case.name, report.text()));
            }
        }
        for atom in predicted.iter().filter(|_| !stands_for_rules(&taken.rule)) {
            if !refused.iter().any(|refused| names(refused, std::slice::from_ref(atom))) {
                problems.push(format!("{}: predicted, but not refused: {atom:?}: {refused:?}", case.name));
            }
        }
    }
    if reductions {
        grant(api, case, &before, &case.grants, tried + 1).await;
    }
    for (object, current) in case.objects.iter().zip(&live).rev() {
        if let Some(refused) = try_verb(client, "delete", object, current, false).await.filter(|refused| refused.code != 404) {
            problems.push(format!("{}: {refused:?}", case.name));
        }
    }
    if problems.is_empty() { Ok(tried) } else { Err(problems.join("\n")) }
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

/// MS-RBAC-01, OLM1-PERM-01, OLM1-PERM-05, OLM1-PERM-06, OLM1-PERM-09, OLM1-PERM-11: with the derived rights the account can do against
/// the real API whatever an install, its upkeep and its removal need; without any one of them the API answers 403 on that verb and
/// resource, and the preflight predicts it. Six bundles of different shapes; `RIGHTS=all` takes all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn derived_rights_are_enough_and_none_is_to_spare() {
    let Some(bundles) = common::bundles() else { return };
    let every = std::env::var("RIGHTS").as_deref() == Ok("all");
    let chosen = std::env::var("RIGHTS").ok().filter(|_| !every);
    let api = Api::start().await;
    let cluster = Cluster::Embedded { router: api.server.router(), identity: operator_controller };
    let accounts = Accounts::new(cluster.clone(), api.admin.client().clone(), Env::system());
    let (mut defined, mut problems, mut installed, mut tried) = (BTreeSet::new(), Vec::new(), 0, 0);
    for (number, (name, files)) in bundles.iter().enumerate() {
        if !(every || chosen.as_ref().map_or(SHAPES.contains(&name.as_str()), |chosen| name.starts_with(chosen))) {
            continue;
        }
        let Some(probe) = Case::of(name, files, number, "uid") else { continue };
        if probe.objects.iter().any(|object| object["apiVersion"] == "apiextensions.k8s.io/v1beta1") {
            eprintln!("{name}: definitions of a version that Kubernetes has not served since 1.22");
            continue;
        }
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
        match prove(&api, &case, &client, true).await {
            Ok(count) => tried += count,
            Err(problem) => {
                eprintln!("{problem}");
                problems.push(problem);
            }
        }
        installed += 1;
        eprintln!("{name}: {} objects, {} rules, {:?}", case.objects.len(), case.grants.len(), started.elapsed());
        // CRDs are shared between versions of an operator: the next one finds none.
        for object in case.objects.iter().rev() {
            let target = ObjectRef::of(object).unwrap();
            if let Ok(true) = api.admin.delete(&target, &Expect::default(), Propagation::Background).await {
                api.gone(&target).await;
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(every || chosen.is_some() || installed == SHAPES.len(), "{installed}");
    eprintln!("{installed} bundles, {tried} rights");
    api.close().await;
}
