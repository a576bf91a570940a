//! Asking the API for everything that an install, its upkeep and its removal ask for, and what it refuses.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::Request;
use kube::Client;
use mainstay_bundle::kinds;
use mainstay_bundle::permissions::{Grant, Scope};
use mainstay_objects::ObjectRef;
use mainstay_olm_v1_core::extension::permissions;
use mainstay_rbac::{PolicyRule, RBAC_GROUP};
use serde_json::{Value, json};

use super::case::Case;
use crate::support::Api;

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
pub struct Address {
    pub group: String,
    pub resource: String,
    everywhere: String,
    collection: String,
    pub name: String,
}

pub fn address(object: &Value) -> Address {
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
pub struct Refused {
    what: String,
    /// The object, where the request names one.
    name: String,
    pub code: u16,
    pub message: String,
}

/// One verb on an object, really or dry; what is refused.
pub async fn try_verb(client: &Client, verb: &str, object: &Value, live: &Value, dry: bool) -> Option<Refused> {
    let at = address(object);
    let one = format!("{}/{}", at.collection, at.name);
    let query = if dry { "?dryRun=All" } else { "?" };
    let manager = format!("{query}&fieldManager=operator-controller");
    let (code, message) = match verb {
        "get" => ask(client, "GET", &one, JSON, None).await,
        "list" => ask(client, "GET", &at.everywhere, JSON, None).await,
        "watch" => ask(client, "GET", &format!("{}?watch=true&timeoutSeconds=1", at.everywhere), JSON, None).await,
        "create" => ask(client, "POST", &format!("{}{manager}", at.collection), JSON, Some(object)).await,
        "apply" => {
            let mut new = object.clone();
            new["metadata"]["resourceVersion"] = json!("9223372036854775807");
            ask(client, "PATCH", &format!("{one}{manager}&force=true"), APPLY, Some(&new)).await
        }
        "patch" => ask(client, "PATCH", &format!("{one}{manager}&force=true"), APPLY, Some(object)).await,
        "update" => ask(client, "PUT", &format!("{one}{manager}"), JSON, Some(live)).await,
        "delete" => ask(client, "DELETE", &format!("{one}{query}"), JSON, None).await,
        other => panic!("{other}"),
    };
    let exists = verb == "create" && code == 409;
    let named = !matches!(verb, "list" | "watch" | "create");
    (code >= 400 && !exists).then(|| Refused {
        what: format!("{verb} {}/{} {}", at.group, at.resource, at.name),
        name: if named { at.name.clone() } else { String::new() },
        code,
        message,
    })
}

const VERBS: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];

pub fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|each| each == "*" || each == wanted)
}

/// Kinds that no cluster has by itself get a definition that lets everything through.
pub async fn define(api: &Api, object: &Value, defined: &mut BTreeSet<String>) {
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

/// Grants these permissions to the case's account and waits until the API decides by them.
pub async fn grant(api: &Api, case: &Case, before: &[Grant], grants: &[Grant], step: usize) {
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
    for object in permissions::manifests(&marked, &case.installer()) {
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
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }
}

/// Others have kinds of these names too.
fn is_rbac(object: &Value, kinds: [&str; 2]) -> bool {
    object["apiVersion"].as_str().is_some_and(|version| version.starts_with(RBAC_GROUP))
        && object["kind"].as_str().is_some_and(|kind| kinds.contains(&kind))
}

pub fn is_role(object: &Value) -> bool {
    is_rbac(object, ["Role", "ClusterRole"])
}

pub fn is_binding(object: &Value) -> bool {
    is_rbac(object, ["RoleBinding", "ClusterRoleBinding"])
}

/// Whether a role says something of what was taken away.
pub fn concerns(role: &Value, taken: &PolicyRule) -> bool {
    let rules = role["rules"].as_array().cloned().unwrap_or_default();
    let rules: Vec<PolicyRule> = rules.into_iter().map(|rule| serde_json::from_value(rule).unwrap()).collect();
    let meet = |left: &[String], right: &[String]| left.iter().any(|each| has(right, each)) || right.iter().any(|each| has(left, each));
    !taken.non_resource_urls.is_empty()
        || rules.iter().any(|rule| meet(&rule.api_groups, &taken.api_groups) && meet(&rule.resources, &taken.resources))
}

/// Everything that the API refuses of what concerns the permissions that were taken away.
pub async fn refusals(client: &Client, case: &Case, live: &[Value], taken: &[Grant]) -> Vec<Refused> {
    let mut refused = Vec::new();
    let mut listed = BTreeSet::new();
    for (object, live) in case.objects.iter().zip(live) {
        let at = address(object);
        // What the API does not take although it may be written is no matter of permissions.
        let relevant = |refused: &Refused| !live.is_null() || refused.code == 403;
        let about = |rule: &PolicyRule| {
            has(&rule.api_groups, &at.group)
                && has(&rule.resources, &at.resource)
                && (rule.resource_names.is_empty() || rule.resource_names.contains(&at.name))
        };
        let rules: Vec<&PolicyRule> = taken.iter().map(|grant| &grant.rule).filter(|rule| about(rule)).collect();
        for verb in VERBS.into_iter().filter(|verb| rules.iter().any(|rule| has(&rule.verbs, verb))) {
            let once = matches!(verb, "list" | "watch" | "create").then(|| (verb, at.collection.clone()));
            if once.is_none_or(|once| listed.insert(once)) {
                let body = if live.is_null() { object } else { live };
                refused.extend(try_verb(client, verb, object, body, true).await.filter(relevant));
            }
        }
    }
    let finalizers =
        |rule: &PolicyRule| has(&rule.resources, "clusterextensions/finalizers") && has(&rule.api_groups, "olm.operatorframework.io");
    if taken.iter().any(|grant| finalizers(&grant.rule)) {
        let path = format!("/apis/olm.operatorframework.io/v1/clusterextensions/{}/finalizers", case.extension);
        let (code, message) = ask(client, "PUT", &path, JSON, Some(&json!({}))).await;
        if code == 403 {
            let what = "update clusterextensions/finalizers".to_owned();
            refused.push(Refused { what, name: case.extension.clone(), code, message });
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
        if is_binding(object) || taken.iter().any(|grant| concerns(object, &grant.rule)) || verb == "patch" {
            let answer = try_verb(client, verb, &copy, &copy, true).await;
            // What may not be created at all is not looked at; what is there may still be changed.
            if answer.as_ref().is_some_and(|refused| refused.message.contains(" cannot create ")) {
                copy = object.clone();
                copy["metadata"]["labels"]["changed"] = json!("yes");
                refused.extend(try_verb(client, "patch", &copy, &copy, true).await);
            }
            refused.extend(answer);
        }
    }
    refused
}

/// Whether the refusal is of one of the atoms: of its verb on its resource and name, or of granting it.
pub fn names(refused: &Refused, atoms: &[PolicyRule]) -> bool {
    let says = |text: &str| refused.message.contains(text);
    let direct = |atom: &PolicyRule| {
        let resource = |resource: &String| {
            let resource = resource.split('/').next().unwrap_or_default();
            resource == "*" || says(&format!("resource \"{resource}"))
        };
        let verb = |verb: &String| says(&if verb == "*" { " cannot ".to_owned() } else { format!(" cannot {verb} ") });
        let group = |group: &String| group == "*" || says(&format!("in API group \"{group}\""));
        atom.verbs.iter().any(verb)
            && atom.resources.iter().any(resource)
            && atom.api_groups.iter().any(group)
            && (atom.resource_names.is_empty() || atom.resource_names.contains(&refused.name))
    };
    let granting = says("is attempting to grant RBAC permissions not currently held");
    // A line of the refusal is one resource with all of its verbs.
    let granted = |atom: &PolicyRule| {
        let parts = [&atom.api_groups, &atom.resources, &atom.resource_names, &atom.verbs, &atom.non_resource_urls];
        let parts: Vec<String> = parts.into_iter().flatten().filter(|text| *text != "*").map(|text| format!("\"{text}\"")).collect();
        refused.message.lines().skip(1).any(|line| parts.iter().all(|part| line.contains(part)))
    };
    atoms.iter().any(|atom| direct(atom) || granting && granted(atom))
}
