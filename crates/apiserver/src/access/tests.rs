//! Access against what a real API server answered, as far as it can be asked without one.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use jiff::{Timestamp, ToSpan as _};
use mainstay_rbac::{PolicyIndex, UserInfo, bootstrap};
use mainstay_testing::transcripts;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use super::pki::{Pki, ServingNames};
use super::*;
use crate::error::ApiError;
use crate::request::{Query, RequestInfo};

/// Objects of one test, by `kind/namespace/name`.
#[derive(Default)]
struct Objects(Mutex<BTreeMap<String, LivePod>>);

impl Objects {
    fn add(&self, key: &str, uid: &str) {
        let object = LiveObject { uid: uid.to_owned(), deletion_timestamp: None };
        let pod = LivePod { object, service_account: "default".to_owned(), node: "n1".to_owned() };
        self.0.lock().unwrap().insert(key.to_owned(), pod);
    }

    fn remove(&self, key: &str) {
        self.0.lock().unwrap().remove(key);
    }

    fn find(&self, kind: &str, namespace: &str, name: &str) -> Option<LivePod> {
        self.0.lock().unwrap().get(&format!("{kind}/{namespace}/{name}")).cloned()
    }
}

impl TokenObjects for Objects {
    fn service_account(&self, namespace: &str, name: &str) -> Option<LiveObject> {
        Some(self.find("sa", namespace, name)?.object)
    }
    fn pod(&self, namespace: &str, name: &str) -> Option<LivePod> {
        self.find("pod", namespace, name)
    }
    fn secret(&self, namespace: &str, name: &str) -> Option<LiveObject> {
        Some(self.find("secret", namespace, name)?.object)
    }
    fn node(&self, name: &str) -> Option<LiveObject> {
        Some(self.find("node", "", name)?.object)
    }
}

struct World {
    pki: Pki,
    objects: Arc<Objects>,
    authenticator: Authenticator,
    _dir: tempfile::TempDir,
}

fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::open(dir.path(), &ServingNames::default(), Timestamp::now()).unwrap();
    let objects = Arc::new(Objects::default());
    let key = Pki::open(dir.path(), &ServingNames::default(), Timestamp::now()).unwrap().signing_key;
    let authority = ClientAuthority::from_pem(&pki.ca.certificate).unwrap();
    let authenticator = Authenticator::new(authority, Arc::new(Tokens::new(key)), objects.clone());
    World { pki, objects, authenticator, _dir: dir }
}

fn cluster() -> PolicyIndex {
    let mut index = PolicyIndex::default();
    for object in bootstrap::objects() {
        index.apply(&object).unwrap();
    }
    index
}

fn bearer(token: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    headers
}

fn ask(world: &World, headers: &HeaderMap, path: &str, certificates: &[CertificateDer<'static>]) -> Result<UserInfo, u16> {
    let request = Credentials { headers, path, certificates };
    world.authenticator.authenticate(&request, Timestamp::now()).map_err(|e: ApiError| e.code.as_u16())
}

/// The user that a step is made as, with the groups that impersonation gives.
fn acting(step: &Value) -> UserInfo {
    match step["as"]["user"].as_str() {
        Some(user) => UserInfo::new(user, &["system:authenticated"]),
        None => UserInfo::new("admin", &["system:masters", "system:authenticated"]),
    }
}

/// Answers of reviews carry managedFields, which the registry adds.
fn without_managed_fields(answer: &Value) -> Value {
    let mut answer = answer.clone();
    if let Some(metadata) = answer.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    answer
}

/// KAPI-AUTH-01: certificates of the CA are identities, others are a 401, never anonymous.
#[test]
fn certificates() {
    let world = world();
    let chain = |pem: &str| vec![CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()];
    let none = HeaderMap::new();
    let admin = ask(&world, &none, "/api", &chain(&world.pki.admin.certificate)).unwrap();
    assert_eq!(
        (admin.name.as_str(), admin.groups.as_slice()),
        ("admin", &["system:masters".to_owned(), "system:authenticated".to_owned()][..])
    );
    assert!(admin.extra["authentication.kubernetes.io/credential-id"][0].starts_with("X509SHA256="));
    let dev = world.pki.client("dev", Some("devs"), Timestamp::now()).unwrap();
    assert_eq!(ask(&world, &none, "/api", &chain(&dev.certificate)).unwrap().groups, ["devs", "system:authenticated"]);
    // Of another CA, for servers, and run out.
    assert_eq!(ask(&world, &none, "/version", &chain(&world.pki.front_proxy.certificate)), Err(401));
    assert_eq!(ask(&world, &none, "/version", &chain(&world.pki.serving.certificate)), Err(401));
    let past = Timestamp::now().checked_sub((24 * 800).hours()).unwrap();
    let old = world.pki.client("old", None, past).unwrap();
    assert_eq!(ask(&world, &none, "/version", &chain(&old.certificate)), Err(401));
}

/// KAPI-AUTH-01: without credentials health and version are open, the rest is not unless enabled.
#[test]
fn anonymous() {
    let mut world = world();
    let none = HeaderMap::new();
    for path in ["/healthz", "/livez", "/readyz", "/livez/ping", "/version", "/version/"] {
        assert_eq!(ask(&world, &none, path, &[]).unwrap(), UserInfo::anonymous(), "{path}");
    }
    for path in ["/", "/api", "/versions", "/metrics", "/api/v1/pods"] {
        assert_eq!(ask(&world, &none, path, &[]), Err(401), "{path}");
    }
    assert_eq!(ask(&world, &bearer("nonsense"), "/version", &[]), Err(401));
    let mut basic = HeaderMap::new();
    basic.insert("authorization", "Basic YTpi".parse().unwrap());
    assert_eq!(ask(&world, &basic, "/version", &[]), Err(401));
    // OLM0-TOKEN-21: clouds read the keys of the issuer, and nothing else.
    world.authenticator = world.authenticator.anonymous(AnonymousAccess::IssuerKeys);
    for path in ["/.well-known/openid-configuration", "/openid/v1/jwks", "/healthz"] {
        assert_eq!(ask(&world, &none, path, &[]).unwrap(), UserInfo::anonymous(), "{path}");
    }
    for path in ["/api", "/openid/v1/jwks/x", "/openid/v1"] {
        assert_eq!(ask(&world, &none, path, &[]), Err(401), "{path}");
    }
    world.authenticator = world.authenticator.anonymous(AnonymousAccess::Everything);
    assert_eq!(ask(&world, &none, "/api", &[]).unwrap(), UserInfo::anonymous());
    assert_eq!(unauthorized().status()["message"], "Unauthorized");
}

/// KAPI-AUTH-01, KAPI-AUTH-02: a token ends with its account and with the object it is bound to, by time and by audience.
#[test]
fn token_life() {
    let world = world();
    let now = Timestamp::now();
    let tokens = world.authenticator.tokens().clone();
    world.objects.add("sa/ns/sa", "u1");
    world.objects.add("secret/ns/s", "u2");
    let request = |spec: Value| request_token(&tokens, &*world.objects, "ns", "sa", &json!({ "spec": spec }), now).unwrap();
    let plain = request(json!({}));
    let token = |answer: &Value| answer["status"]["token"].as_str().unwrap().to_owned();
    assert_eq!(plain["spec"]["expirationSeconds"], 3600);
    let user = ask(&world, &bearer(&token(&plain)), "/api", &[]).unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("system:serviceaccount:ns:sa", "u1"));
    assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]);
    assert!(user.extra["authentication.kubernetes.io/credential-id"][0].starts_with("JTI="));

    let bound = token(&request(json!({ "boundObjectRef": { "kind": "Secret", "apiVersion": "v1", "name": "s" } })));
    assert!(ask(&world, &bearer(&bound), "/api", &[]).is_ok());
    world.objects.remove("secret/ns/s");
    assert_eq!(ask(&world, &bearer(&bound), "/api", &[]), Err(401));
    world.objects.add("secret/ns/s", "again");
    assert_eq!(ask(&world, &bearer(&bound), "/api", &[]), Err(401));

    let other = token(&request(json!({ "audiences": ["vault"] })));
    assert_eq!(ask(&world, &bearer(&other), "/api", &[]), Err(401));
    let review = json!({ "spec": { "token": other, "audiences": ["vault", "x"] } });
    let answer = review_token(&world.authenticator, &review, now).unwrap();
    assert_eq!((&answer["status"]["authenticated"], &answer["status"]["audiences"]), (&json!(true), &json!(["vault"])));
    let answer = review_token(&world.authenticator, &json!({ "spec": { "token": other } }), now).unwrap();
    assert_eq!(answer["status"]["user"], json!({}));
    assert!(answer["status"]["error"].as_str().unwrap().contains("audiences"));

    let request_later = Credentials { headers: &bearer(&token(&plain)), path: "/api", certificates: &[] };
    let later = now.checked_add(2.hours()).unwrap();
    assert!(world.authenticator.authenticate(&request_later, later).is_err());
    let mut forged = token(&plain);
    forged.truncate(forged.len() - 6);
    forged.push_str("AAAAAA");
    assert_eq!(ask(&world, &bearer(&forged), "/api", &[]), Err(401));
    world.objects.remove("sa/ns/sa");
    assert_eq!(ask(&world, &bearer(&token(&plain)), "/api", &[]), Err(401));
}

/// KAPI-AUTH-01: tokens bound to pods say where the pod runs; internal and static tokens.
#[test]
fn other_tokens() {
    let mut world = world();
    world.objects.add("sa/ns/default", "u1");
    world.objects.add("pod/ns/p", "u2");
    world.objects.add("node//n1", "u3");
    let request = json!({ "spec": { "boundObjectRef": { "kind": "Pod", "apiVersion": "v1", "name": "p" } } });
    let tokens = world.authenticator.tokens().clone();
    let answer = request_token(&tokens, &*world.objects, "ns", "default", &request, Timestamp::now()).unwrap();
    let user = ask(&world, &bearer(answer["status"]["token"].as_str().unwrap()), "/api", &[]).unwrap();
    for (key, value) in [("pod-name", "p"), ("pod-uid", "u2"), ("node-name", "n1"), ("node-uid", "u3")] {
        assert_eq!(user.extra[&format!("authentication.kubernetes.io/{key}")], [value]);
    }
    let mut fixed = StaticTokens::default();
    fixed.insert("fixed", UserInfo::new("ann", &["devs"]));
    world.authenticator = world.authenticator.static_tokens(fixed);
    assert_eq!(ask(&world, &bearer("fixed"), "/api", &[]).unwrap().groups, ["devs", "system:authenticated"]);
    let internal = world.authenticator.issue_internal(UserInfo::new("system:inside", &["system:masters"]));
    assert_eq!(ask(&world, &bearer(&internal), "/api", &[]).unwrap().name, "system:inside");
}

/// KAPI-AUTH-02: refused token requests, in the recorded words.
#[test]
fn token_request_errors() {
    let Some(steps) = transcripts::steps("authn/token-request-errors") else { return };
    let world = world();
    world.objects.add("sa/${ns}/default", "u1");
    world.objects.add("secret/${ns}/s", "u2");
    let mut checked = 0;
    for step in steps {
        let path = step["path"].as_str().unwrap();
        if !path.ends_with("/token") {
            continue;
        }
        let account = path.split('/').rev().nth(1).unwrap();
        let tokens = world.authenticator.tokens();
        let error = request_token(tokens, &*world.objects, "${ns}", account, &step["body"], Timestamp::now()).unwrap_err();
        let mut expected = step["answer"]["body"].clone();
        if expected["details"].is_null() {
            expected.as_object_mut().unwrap().remove("details");
        }
        assert_eq!(error.status(), expected);
        checked += 1;
    }
    assert_eq!(checked, 7);
}

/// KAPI-AUTH-02: impersonation is allowed name by name, in the recorded words; whoami.
#[test]
fn impersonation() {
    let mut index = cluster();
    let sa = UserInfo::service_account("team", "imp");
    let mut checked = 0;
    for name in ["authn/impersonation", "authn/whoami"] {
        let Some(steps) = transcripts::steps(name) else { return };
        // The placeholder is no name of a namespace, and such an account cannot exist.
        let steps: Vec<Value> = serde_json::from_str(&serde_json::to_string(&steps).unwrap().replace("${ns}", "team")).unwrap();
        for step in steps {
            let body = &step["body"];
            if body["kind"].as_str().is_some_and(|kind| kind.starts_with("ClusterRole")) {
                index.apply(body).unwrap();
                continue;
            }
            let mut headers = HeaderMap::new();
            let mut add = |name: &str, value: &Value| {
                if let Some(value) = value.as_str() {
                    headers.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_str(value).unwrap());
                }
            };
            add("impersonate-user", &step["as"]["user"]);
            add("impersonate-uid", &step["as"]["uid"]);
            step["as"]["groups"].as_array().into_iter().flatten().for_each(|group| add("impersonate-group", group));
            for (key, values) in step["as"]["extra"].as_object().into_iter().flatten() {
                let name = format!("impersonate-extra-{}", key.replace('/', "%2f"));
                values.as_array().unwrap().iter().for_each(|value| add(&name, value));
            }
            for (name, value) in step["headers"].as_object().into_iter().flatten() {
                add(&name.to_lowercase(), value);
            }
            if headers.is_empty() {
                continue;
            }
            let requestor = if step["auth"].is_null() { acting(&json!({})) } else { sa.clone() };
            let (status, expected) = (step["answer"]["status"].as_u64().unwrap(), &step["answer"]["body"]);
            match impersonate(&index, &requestor, &headers) {
                Ok(user) => {
                    assert_eq!(status, 201, "{step}");
                    let answer = review_own_identity(&user.unwrap(), body, Timestamp::now()).unwrap();
                    assert_eq!(answer["status"], expected["status"]);
                }
                Err(error) => assert_eq!(&error.status(), expected),
            }
            checked += 1;
        }
    }
    assert!(checked >= 12, "{checked}");
}

/// KAPI-AUTHZ-03: access reviews, in the recorded words.
#[test]
fn access_reviews() {
    let mut checked = 0;
    for name in ["authz/sar", "authz/self-sar", "authz/rules-review", "authz/discovery-for-all"] {
        let Some(steps) = transcripts::steps(name) else { return };
        let mut index = cluster();
        for step in steps {
            let (path, body) = (step["path"].as_str().unwrap(), &step["body"]);
            let user = acting(&step);
            let answer = match path.rsplit('/').next().unwrap() {
                "roles" | "rolebindings" => {
                    let mut object = body.clone();
                    object["metadata"]["namespace"] = "${ns}".into();
                    index.apply(&object).unwrap();
                    continue;
                }
                "subjectaccessreviews" => review_access(&index, body),
                "localsubjectaccessreviews" => review_local_access(&index, "${ns}", body),
                "selfsubjectaccessreviews" => review_own_access(&index, &user, body),
                "selfsubjectrulesreviews" => review_own_rules(&index, &user, body),
                _ => continue,
            };
            let expected = &step["answer"]["body"];
            match answer {
                Ok(answer) if step["only"].is_null() => {
                    let mut answer = answer;
                    if answer["metadata"].is_null() {
                        answer["metadata"] = json!({});
                    }
                    assert_eq!(answer, without_managed_fields(expected), "{path}");
                }
                Ok(answer) => {
                    for (pointer, wanted) in expected.as_object().unwrap() {
                        assert_eq!(answer.pointer(pointer), Some(wanted), "{path} {pointer}");
                    }
                }
                Err(error) => assert_eq!(&error.status(), expected, "{path}"),
            }
            checked += 1;
        }
    }
    assert!(checked >= 16, "{checked}");
}

/// KAPI-AUTHZ-01, KAPI-AUTHZ-03: requests are decided and refused as recorded.
#[test]
fn requests() {
    for (name, at_least) in
        [("authz/forbidden-cluster", 10), ("authz/resource-names", 6), ("authz/cluster-role-binding", 5), ("authz/bind", 3)]
    {
        let Some(steps) = transcripts::steps(name) else { return };
        let mut index = cluster();
        let view = bootstrap::cluster_roles().into_iter().find(|r| r["metadata"]["name"] == "system:aggregate-to-view").unwrap();
        index.apply(&json!({ "kind": "ClusterRole", "metadata": { "name": "view" }, "rules": view["rules"] })).unwrap();
        let mut checked = 0;
        for step in steps {
            let (path, body) = (step["path"].as_str().unwrap(), &step["body"]);
            let mut object = body.clone();
            let namespaced = path.contains("/namespaces/${ns}/");
            if step["as"].is_null() {
                if path.contains("rbac.authorization.k8s.io") {
                    if namespaced {
                        object["metadata"]["namespace"] = "${ns}".into();
                    }
                    index.apply(&object).unwrap();
                }
                continue;
            }
            let mut user = acting(&step);
            if let Some(account) = user.name.strip_prefix("system:serviceaccount:").map(str::to_owned) {
                let (namespace, name) = account.split_once(':').unwrap();
                user = UserInfo::service_account(namespace, name);
            }
            user.groups.extend(step["as"]["groups"].as_array().into_iter().flatten().map(|g| g.as_str().unwrap().to_owned()));
            let pairs: Vec<String> =
                step["query"].as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", value.as_str().unwrap())).collect();
            let query = pairs.join("&");
            let method: Method = step["method"].as_str().unwrap().parse().unwrap();
            let info = RequestInfo::new(&method, path, &Query::parse(&query));
            let mut decided = require(&index, &attributes(&user, &info));
            if decided.is_ok() && info.verb == "create" && info.resource == "rolebindings" {
                object["metadata"]["namespace"] = "${ns}".into();
                decided = check_binding_write(&index, &user, "rolebindings", &object, None);
            }
            let status = step["answer"]["status"].as_u64().unwrap();
            match decided {
                Ok(()) => assert!(status != 403, "{path} is allowed"),
                Err(error) => assert_eq!(error.status(), step["answer"]["body"], "{path}"),
            }
            checked += 1;
        }
        assert!(checked >= at_least, "{name}: {checked}");
    }
}

/// KAPI-AUTHZ-01: roles are written by those who hold their rules, or may escalate.
#[test]
fn role_writes() {
    let mut index = cluster();
    let ann = UserInfo::new("ann", &["system:authenticated"]);
    let grant = |index: &mut PolicyIndex, rules: Value| {
        index.apply(&json!({ "kind": "Role", "metadata": { "name": "g", "namespace": "ns" }, "rules": rules })).unwrap();
    };
    let reference = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "g" });
    let subjects = json!([{ "kind": "User", "name": "ann" }]);
    let binding =
        json!({ "kind": "RoleBinding", "metadata": { "name": "g", "namespace": "ns" }, "roleRef": reference, "subjects": subjects });
    index.apply(&binding).unwrap();
    grant(&mut index, json!([{ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] }]));
    let role = |verbs: Value| {
        let rules = json!([{ "verbs": verbs, "apiGroups": [""], "resources": ["pods"] }]);
        json!({ "kind": "Role", "metadata": { "name": "r", "namespace": "ns" }, "rules": rules })
    };
    assert!(check_role_write(&index, &ann, "roles", "", &role(json!(["get"])), None).is_ok());
    let wide = role(json!(["get", "list", "watch"]));
    let error = check_role_write(&index, &ann, "roles", "", &wide, None).unwrap_err();
    assert_eq!(
        error.message,
        "roles.rbac.authorization.k8s.io \"r\" is forbidden: user \"ann\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC \
         permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\" \"watch\"]}"
    );
    let mut collected = wide.clone();
    collected["metadata"]["finalizers"] = json!([]);
    assert!(check_role_write(&index, &ann, "roles", "r", &collected, Some(&wide)).is_ok());
    grant(
        &mut index,
        json!([{ "verbs": ["escalate"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "resourceNames": ["r"] }]),
    );
    assert!(check_role_write(&index, &ann, "roles", "", &wide, None).is_err());
    assert!(check_role_write(&index, &ann, "roles", "r", &wide, Some(&role(json!(["get"])))).is_ok());
    let aggregated = json!({ "kind": "ClusterRole", "metadata": { "name": "a" }, "aggregationRule": { "clusterRoleSelectors": [] } });
    let error = check_role_write(&index, &ann, "clusterroles", "", &aggregated, None).unwrap_err();
    assert!(error.message.ends_with("must have cluster-admin privileges to use the aggregationRule"), "{}", error.message);
}

/// KAPI-AUTHZ-03: selectors of the access that is asked about are checked (1.34 asks for them), and do not change what RBAC says.
#[test]
fn reviews_with_selectors() {
    let view = mainstay_rbac::PolicyIndex::default();
    let master = UserInfo::new("root", &["system:masters"]);
    let ask = |selectors: Value| {
        let mut review = json!({ "spec": { "resourceAttributes": { "verb": "list", "resource": "pods" } } });
        for (key, value) in selectors.as_object().unwrap() {
            review["spec"]["resourceAttributes"][key] = value.clone();
        }
        review_own_access(&view, &master, &review)
    };
    for good in [
        json!({ "fieldSelector": { "rawSelector": "spec.nodeName=a" } }),
        json!({ "fieldSelector": { "requirements": [{ "key": "spec.nodeName", "operator": "In", "values": ["a"] }] } }),
        json!({ "labelSelector": { "requirements": [{ "key": "app", "operator": "Exists" }] } }),
    ] {
        assert_eq!(ask(good).unwrap()["status"]["allowed"], true);
    }
    let own = "spec.resourceAttributes";
    for (bad, field, words) in [
        (json!({ "fieldSelector": {} }), "fieldSelector.requirements", "requirements or rawSelector is required"),
        (
            json!({ "labelSelector": { "rawSelector": "a", "requirements": [{ "key": "a", "operator": "Exists" }] } }),
            "labelSelector.rawSelector",
            "may not specified at the same time as requirements",
        ),
        (
            json!({ "labelSelector": { "requirements": [{ "key": "a", "operator": "In" }] } }),
            "labelSelector.requirements[0].values",
            "must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (
            json!({ "fieldSelector": { "requirements": [{ "key": "a", "operator": "Exists", "values": ["b"] }] } }),
            "fieldSelector.requirements[0].values",
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
    ] {
        let error = ask(bad).unwrap_err();
        let cause = &error.details.as_ref().unwrap().causes[0];
        assert_eq!(cause.field, format!("{own}.{field}"));
        assert!(cause.message.contains(words), "{}", cause.message);
    }
}
