//! The API of an extension and of its custom resources, as the people of a cluster meet it: definitions, defaults, rules, and permissions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value)]

use mainstay_objects::Patch;
use mainstay_runtime::{Cluster, Env};
use mainstay_testing::widgets::{Content, files};
use mainstay_workloads::Options;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support;
use crate::support::bench::{Bench, ask, cluster_extension};
use crate::support::{Api, extension, namespace, place};

const RBAC: &str = "rbac.authorization.k8s.io";
const WIDGETS: &str = "/apis/example.com/v1/namespaces";

fn role(name: &str, labels: Value, verbs: &[&str]) -> Value {
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": name, "labels": labels},
        "rules": [{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": verbs}]})
}

fn binding(namespace: &str, role: &str, subject: Value) -> Value {
    let (kind, mut metadata) = if namespace.is_empty() {
        ("ClusterRoleBinding", json!({"name": format!("{role}-binding")}))
    } else {
        ("RoleBinding", json!({"name": format!("{role}-binding"), "namespace": namespace}))
    };
    metadata["labels"] = json!({"made-by": "administrator"});
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}, "subjects": [subject]})
}

fn widget(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "namespace": namespace}, "spec": {"size": 1}})
}

/// Somebody's permissions on widgets of a namespace: one letter a verb, in the order get, list, watch, create, update, patch, delete.
async fn permissions(bench: &Bench, acting: &[(&str, &str)], namespace: &str) -> String {
    let (all, one) = (format!("{WIDGETS}/{namespace}/widgets"), format!("{WIDGETS}/{namespace}/widgets/one"));
    let (_, live) = bench.ask(&[], "GET", &one, None).await;
    let new = widget(namespace, "new");
    let asked = [
        ("g", "GET", one.clone(), None),
        ("l", "GET", all.clone(), None),
        ("w", "GET", format!("{all}?watch=true&timeoutSeconds=1"), None),
        ("c", "POST", format!("{all}?dryRun=All"), Some(&new)),
        ("u", "PUT", format!("{one}?dryRun=All"), Some(&live)),
        ("d", "DELETE", format!("{one}?dryRun=All"), None),
    ];
    let mut may = String::new();
    for (letter, method, path, body) in asked {
        match bench.ask(acting, method, &path, body).await {
            (200 | 201, _) => may.push_str(letter),
            (403, refusal) => assert!(refusal["message"].as_str().unwrap().contains("cannot"), "{refusal}"),
            other => panic!("{method} {path}: {other:?}"),
        }
    }
    let merge = "application/merge-patch+json";
    let patched = ask(&bench.api, acting, "PATCH", &format!("{one}?dryRun=All"), merge, Some(&json!({"spec": {"size": 2}}))).await;
    match patched.0 {
        200 => may.push('p'),
        code => assert_eq!(code, 403, "{}", patched.1),
    }
    may
}

/// Waits until somebody's permissions are these: the API takes roles in a moment after they are written.
async fn until_permissions(bench: &Bench, acting: &[(&str, &str)], namespace: &str, wanted: &str) {
    let mut found = String::new();
    for _ in 0..6_000 {
        found = permissions(bench, acting, namespace).await;
        if found == wanted {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("{acting:?} in {namespace}: {found:?} instead of {wanted:?}");
}

async fn installed() -> Bench {
    let bench = Bench::start().await;
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}});
    let image = bench.bundle("widgets", "1.0.0", files("1.0.0", &Content { more: vec![config], ..Content::default() })).await;
    bench.catalog("test", "widgets", &[("1.0.0", &image)]).await;
    bench.install("1.0.0").await;
    for name in ["work", "elsewhere"] {
        bench.api.apply(namespace(name)).await;
        bench.api.apply(widget(name, "one")).await;
    }
    bench
}

const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];

/// OLM1-ACCESS-01, OLM1-ACCESS-02, OLM1-ACCESS-04: after an install nobody but the administrator may touch the custom resources; view, edit
/// and admin roles give what their names say, to users and groups, everywhere or in one namespace; none of them gives permissions on roles.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_get_what_the_administrator_binds() {
    let bench = installed().await;
    let anna: &[(&str, &str)] = &[("User", "anna")];
    let bert: &[(&str, &str)] = &[("User", "bert"), ("Group", "builders")];
    let carl: &[(&str, &str)] = &[("User", "carl")];
    for who in [anna, bert, carl] {
        assert_eq!(permissions(&bench, who, "work").await, "", "{who:?}");
    }
    // Nothing that the install wrote binds anybody but the extension's own account.
    let (_, bindings) = bench.ask(&[], "GET", &format!("/apis/{RBAC}/v1/clusterrolebindings"), None).await;
    let mut owned = bindings["items"].as_array().unwrap().iter().filter(|each| !each["metadata"]["ownerReferences"].is_null());
    assert!(owned.all(|each| each["subjects"].as_array().unwrap().iter().all(|subject| subject["kind"] == "ServiceAccount")));

    for (name, verbs) in [("view", &READ[..]), ("edit", &WRITE[..]), ("admin", &["*"][..])] {
        bench.api.apply(role(&format!("{name}-custom-resource"), json!({}), verbs)).await;
    }
    let user = |name: &str| json!({"kind": "User", "apiGroup": RBAC, "name": name});
    bench.api.apply(binding("", "view-custom-resource", user("anna"))).await;
    let group = json!({"kind": "Group", "apiGroup": RBAC, "name": "builders"});
    bench.api.apply(binding("work", "edit-custom-resource", group)).await;
    bench.api.apply(binding("", "admin-custom-resource", user("carl"))).await;
    until_permissions(&bench, anna, "work", "glw").await;
    until_permissions(&bench, anna, "elsewhere", "glw").await;
    until_permissions(&bench, bert, "work", "glwcudp").await;
    until_permissions(&bench, bert, "elsewhere", "").await;
    until_permissions(&bench, carl, "elsewhere", "glwcudp").await;
    // Whoever is not of the group is not meant, whatever his name.
    assert_eq!(permissions(&bench, &[("User", "builders")], "work").await, "");
    for who in [anna, bert, carl] {
        let (code, _) = bench.ask(who, "GET", &format!("/apis/{RBAC}/v1/clusterroles"), None).await;
        assert_eq!(code, 403, "{who:?}");
        let more = role("more", json!({}), &["*"]);
        let (code, _) = bench.ask(who, "POST", &format!("/apis/{RBAC}/v1/clusterroles?dryRun=All"), Some(&more)).await;
        assert_eq!(code, 403, "{who:?}");
    }
    // What only admin has: every verb, deletecollection among them.
    let collection = format!("{WIDGETS}/work/widgets?dryRun=All");
    assert_eq!(bench.ask(bert, "DELETE", &collection, None).await.0, 403);
    assert_eq!(bench.ask(carl, "DELETE", &collection, None).await.0, 200);
    bench.end().await;
}

/// OLM1-ACCESS-03: an extension's CRDs, and its objects of every other kind, are found by its two labels.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extensions_objects_are_found_by_label() {
    let bench = installed().await;
    let labels = "olm.operatorframework.io%2Fowner-kind%3DClusterExtension%2Colm.operatorframework.io%2Fowner-name%3Dwidgets";
    let named = [
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "widgets.example.com"),
        ("/apis/apps/v1/deployments", "widgets"),
        ("/api/v1/serviceaccounts", "widgets"),
        ("/api/v1/configmaps", "settings"),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "widgets"),
        ("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "widgets"),
    ];
    for (path, begin) in named {
        let (code, list) = bench.ask(&[], "GET", &format!("{path}?labelSelector={labels}"), None).await;
        let names: Vec<&str> = list["items"].as_array().unwrap().iter().map(|each| each["metadata"]["name"].as_str().unwrap()).collect();
        assert_eq!((code, names.len()), (200, 1), "{path}: {names:?}");
        assert!(names[0].starts_with(begin), "{path}: {names:?}");
        let other = labels.replace("Dwidgets", "Dgadgets");
        let (_, list) = bench.ask(&[], "GET", &format!("{path}?labelSelector={other}"), None).await;
        assert_eq!(list["items"].as_array().unwrap().len(), 0, "{path}");
    }
    bench.end().await;
}

/// OLM1-ACCESS-05: labelled roles add their rules to the built-in admin, edit and view, so that who holds these needs no new binding.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_are_aggregated_to_the_built_in_ones() {
    let bench = installed().await;
    let stop = CancellationToken::new();
    let controllers = Options { scheduler: false, nodes: false, ..Options::default() };
    let user = mainstay_rbac::UserInfo::new("system:kube-controller-manager", &["system:masters"]);
    let cluster = Cluster::Embedded { router: bench.api.server.in_process(user), identity: |_| {} };
    let running = tokio::spawn(mainstay_workloads::run(cluster, controllers, Env::system(), stop.clone()));
    let people = [("view", "vera", "glw"), ("edit", "emil", "glwcudp"), ("admin", "ada", "glwcudp")];
    for (built_in, name, _) in people {
        let mut bound = binding("work", built_in, json!({"kind": "User", "apiGroup": RBAC, "name": name}));
        bound["metadata"]["name"] = json!(name);
        bench.api.apply(bound).await;
        assert_eq!(permissions(&bench, &[("User", name)], "work").await, "");
    }
    for (built_in, _, _) in people {
        let verbs = if built_in == "view" { &READ[..] } else { &WRITE[..] };
        let label = format!("{RBAC}/aggregate-to-{built_in}");
        bench.api.apply(role(&format!("widgets-{built_in}"), json!({label: "true"}), verbs)).await;
    }
    for (_, name, wanted) in people {
        until_permissions(&bench, &[("User", name)], "work", wanted).await;
        until_permissions(&bench, &[("User", name)], "elsewhere", "").await;
    }
    stop.cancel();
    running.await.unwrap().unwrap();
    bench.end().await;
}

/// The example of OLM1-API-05.
fn example() -> Value {
    json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": "widgets", "annotations": {"olm.operatorframework.io/watch-namespace": "widgets-work"}},
        "spec": {
            "namespace": "widgets", "serviceAccount": {"name": "widgets-installer"},
            "source": {"sourceType": "Catalog", "catalog": {
                "packageName": "widget-operator", "channels": ["stable"], "version": ">=1.11, <1.13",
                "selector": {"matchLabels": {"olm.operatorframework.io/metadata.name": "openshift-redhat-operators"}},
                "upgradeConstraintPolicy": "CatalogProvided"}},
            "install": {"preflight": {"crdUpgradeSafety": {"enforcement": "Strict"}}}}})
}

const EXTENSIONS: &str = "/apis/olm.operatorframework.io/v1/clusterextensions";

/// OLM1-API-05: the full example is stored as it is written, and read back into the type without loss; the server adds nothing to it.
/// What is left out is added: the policy by default, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_full_example_is_stored_as_written() {
    let api = Api::start().await;
    let (code, stored) =
        ask(&api, &[], "POST", &format!("{EXTENSIONS}?fieldValidation=Strict"), "application/json", Some(&example())).await;
    assert_eq!(code, 201, "{stored}");
    assert_eq!(stored["spec"], example()["spec"]);
    assert_eq!(stored["metadata"]["annotations"], example()["metadata"]["annotations"]);
    assert_eq!(stored["metadata"]["generation"], 1);
    let typed: mainstay_api::olm_v1::ClusterExtension = serde_json::from_value(stored).unwrap();
    assert_eq!(serde_json::to_value(&typed.spec).unwrap(), example()["spec"]);

    let least = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": "least"},
        "spec": {"namespace": "widgets", "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}}});
    let (code, stored) = ask(&api, &[], "POST", EXTENSIONS, "application/json", Some(&least)).await;
    let mut defaulted = least["spec"].clone();
    defaulted["source"]["catalog"]["upgradeConstraintPolicy"] = json!("CatalogProvided");
    assert_eq!((code, &stored["spec"]), (201, &defaulted));
    api.close().await;
}

/// Sets the value at a pointer; `Null` takes it away.
fn set(object: &mut Value, pointer: &str, value: &Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if value.is_null() {
        parent.remove(key);
    } else {
        parent.insert(key.to_owned(), value.clone());
    }
}

/// OLM1-API-01, OLM1-API-06: every rule of the definition is enforced by the API, in its words; fields that upstream added later are not
/// known here: dropped, with a warning, or refused where the client asks for strictness.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_field_is_checked() {
    let api = Api::start().await;
    let subdomain = |name: &str| {
        format!(
            "{name} must be a valid DNS1123 subdomain. It must contain only lowercase alphanumeric characters, hyphens (-) or periods (.), start and end with an alphanumeric character, and be no longer than 253 characters"
        )
    };
    let long = |length: usize| json!("a".repeat(length));
    let catalog = "/spec/source/catalog";
    let refused: Vec<(String, Value, String)> = vec![
        ("/spec/namespace".into(), Value::Null, "spec.namespace: Required value".into()),
        ("/spec/namespace".into(), long(64), "may not be more than 63".into()),
        ("/spec/namespace".into(), json!("Widgets"), "namespace must be a valid DNS1123 label".into()),
        ("/spec/namespace".into(), json!("a.b"), "namespace must be a valid DNS1123 label".into()),
        ("/spec/serviceAccount".into(), json!({}), "should have at least 1 properties".into()),
        ("/spec/serviceAccount/name".into(), json!(""), "should be at least 1 chars long".into()),
        ("/spec/serviceAccount/name".into(), json!("-a"), subdomain("name")),
        ("/spec/serviceAccount/name".into(), long(254), "may not be more than 253".into()),
        ("/spec/source".into(), Value::Null, "spec.source: Required value".into()),
        ("/spec/source/sourceType".into(), json!("Image"), "supported values: \"Catalog\"".into()),
        (catalog.into(), Value::Null, "catalog is required when sourceType is Catalog, and forbidden otherwise".into()),
        (format!("{catalog}/packageName"), Value::Null, "packageName: Required value".into()),
        (format!("{catalog}/packageName"), json!("Widget_Operator"), subdomain("packageName")),
        (format!("{catalog}/packageName"), long(254), "may not be more than 253".into()),
        (format!("{catalog}/version"), json!(""), "invalid version expression".into()),
        (format!("{catalog}/version"), json!("newest"), "invalid version expression".into()),
        (format!("{catalog}/version"), long(65), "may not be more than 64".into()),
        (format!("{catalog}/channels"), json!("stable"), "must be of type array".into()),
        (format!("{catalog}/channels"), json!(["Stable!"]), "channels entries must be valid DNS1123 subdomains".into()),
        (format!("{catalog}/channels"), json!(vec!["c"; 257]), "must have at most 256 items".into()),
        (format!("{catalog}/upgradeConstraintPolicy"), json!("Ignore"), "supported values: \"CatalogProvided\", \"SelfCertified\"".into()),
        ("/spec/install".into(), json!({}), "at least one of [preflight] are required when install is specified".into()),
        ("/spec/install/preflight".into(), json!({}), "preflight.crdUpgradeSafety: Required value".into()),
        ("/spec/install/preflight/crdUpgradeSafety".into(), json!({}), "enforcement: Required value".into()),
        ("/spec/install/preflight/crdUpgradeSafety/enforcement".into(), json!("Loose"), "supported values: \"None\", \"Strict\"".into()),
        ("/spec/config".into(), json!({}), "configType: Required value".into()),
        (
            "/spec/config".into(),
            json!({"configType": "Inline"}),
            "inline is required when configType is Inline, and forbidden otherwise".into(),
        ),
        ("/spec/config".into(), json!({"configType": "Inline", "inline": {}}), "should have at least 1 properties".into()),
        ("/spec/config".into(), json!({"configType": "Inline", "inline": "a"}), "must be of type object".into()),
        ("/spec/config".into(), json!({"configType": "Secret", "inline": {"a": 1}}), "supported values: \"Inline\"".into()),
    ];
    for (pointer, value, words) in refused {
        let mut object = example();
        set(&mut object, &pointer, &value);
        let (code, answer) = ask(&api, &[], "POST", &format!("{EXTENSIONS}?dryRun=All"), "application/json", Some(&object)).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(code == 422 && message.contains(&words), "{pointer} = {value}: {code} {message}");
    }
    let allowed = [
        ("/spec/serviceAccount", Value::Null),
        ("/spec/serviceAccount/name", json!("a.b-c")),
        ("/spec/install", Value::Null),
        ("/spec/install/preflight/crdUpgradeSafety/enforcement", json!("None")),
        ("/spec/source/catalog/channels", json!([])),
        ("/spec/source/catalog/version", json!("1.x || >=2.3.0 <3")),
        ("/spec/source/catalog/upgradeConstraintPolicy", json!("SelfCertified")),
        ("/spec/config", json!({"configType": "Inline", "inline": {"watchNamespace": "a", "unknown": {"kept": [1]}}})),
    ];
    for (pointer, value) in allowed {
        let mut object = example();
        set(&mut object, pointer, &value);
        let (code, answer) = ask(&api, &[], "POST", &format!("{EXTENSIONS}?dryRun=All"), "application/json", Some(&object)).await;
        assert_eq!(code, 201, "{pointer} = {value}: {answer}");
    }

    // A field of a later version of upstream.
    let mut object = example();
    object["spec"]["progressDeadlineMinutes"] = json!(10);
    let strict = format!("{EXTENSIONS}?dryRun=All&fieldValidation=Strict");
    let (code, answer) = ask(&api, &[], "POST", &strict, "application/json", Some(&object)).await;
    assert!(code == 400 && answer["message"].as_str().unwrap().contains("unknown field \"spec.progressDeadlineMinutes"), "{answer}");
    let (code, stored) = ask(&api, &[], "POST", &format!("{EXTENSIONS}?dryRun=All"), "application/json", Some(&object)).await;
    assert_eq!((code, &stored["spec"]), (201, &example()["spec"]));
    api.close().await;
}

/// OLM1-API-01: what cannot be changed, and what can; the status is checked as the spec is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn some_fields_never_change() {
    let api = Api::start().await;
    api.apply(example()).await;
    let merge = |patch: Value| Patch::Merge(patch);
    let refused = [
        (json!({"spec": {"namespace": "other"}}), "namespace is immutable"),
        (json!({"spec": {"source": {"catalog": {"packageName": "other"}}}}), "packageName is immutable"),
        (json!({"spec": {"serviceAccount": {"name": "other"}}}), "name is immutable once set but may be cleared"),
    ];
    for (patch, words) in refused {
        let problem = api.admin.patch(&extension("widgets"), "", &merge(patch.clone())).await.unwrap_err();
        assert!(format!("{problem:?}{problem}").contains(words), "{patch}: {problem:?}");
    }
    // Cleared, it may be set anew, to another name too.
    for patch in [
        json!({"spec": {"serviceAccount": null}}),
        json!({"spec": {"serviceAccount": {"name": "other"}}}),
        json!({"spec": {"source": {"catalog": {"version": "2.x", "channels": ["a", "b"]}}}}),
        json!({"spec": {"install": null}}),
    ] {
        api.admin.patch(&extension("widgets"), "", &merge(patch)).await.unwrap();
    }
    let install = |name: &str, version: &str| json!({"status": {"install": {"bundle": {"name": name, "version": version}}}});
    for (patch, words) in [
        (install("Widgets", "1.0.0"), "must be a valid DNS1123 subdomain"),
        (install("widgets.v1.0.0", "newest"), "version must be well-formed semver"),
        (json!({"status": {"install": {"bundle": {"name": "a"}}}}), "version: Required value"),
        (json!({"status": {"install": {}}}), "bundle: Required value"),
    ] {
        let problem = api.admin.patch(&extension("widgets"), "status", &merge(patch.clone())).await.unwrap_err();
        assert!(format!("{problem:?}{problem}").contains(words), "{patch}: {problem:?}");
    }
    api.admin.patch(&extension("widgets"), "status", &merge(install("widgets.v1.0.0", "1.0.0-rc.1+build"))).await.unwrap();
    api.close().await;
}

/// OLM1-API-02: the namespace is where the account is and where namespaced content goes; it is never made, and waited for; content that
/// names a namespace of its own is cluster-wide business of the same extension.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_namespace_is_never_made() {
    let bench = Bench::start().await;
    let image = bench.bundle("widgets", "1.0.0", files("1.0.0", &Content::default())).await;
    bench.catalog("test", "widgets", &[("1.0.0", &image)]).await;
    let mut object = cluster_extension("widgets", "widgets", None);
    object["spec"]["namespace"] = json!("later");
    bench.api.apply(object).await;
    let missing = "service account \"installer\" not found in namespace \"later\": unable to authenticate with the Kubernetes cluster.";
    bench.api.until(&extension("widgets"), |found| support::condition(found, "Installed")["message"] == missing).await;
    assert!(bench.api.get(&place("v1", "Namespace", "", "later")).await.is_none());

    bench.api.apply(namespace("later")).await;
    bench.api.apply(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer", "namespace": "later"}})).await;
    let mut permissions = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "later"}});
    permissions["roleRef"] = json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"});
    permissions["subjects"] = json!([{"kind": "ServiceAccount", "name": "installer", "namespace": "later"}]);
    bench.api.apply(permissions).await;
    bench.installed("widgets", "1.0.0").await;
    for (api_version, kind) in [("apps/v1", "Deployment"), ("v1", "ServiceAccount")] {
        assert!(bench.api.get(&place(api_version, kind, "later", "widgets")).await.is_some(), "{kind}");
        assert!(bench.api.get(&place(api_version, kind, "work", "widgets")).await.is_none(), "{kind}");
    }
    bench.end().await;
}

/// OLM1-GEN-07, OLM1-UPG-13, OLM1-PERM-07: every procedure is one of plain objects: what a generic client lists, writes and deletes is all
/// that catalog, account, permissions, extension, update and removal need. The permissions are the test-only shortcut with three stars.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_objects_are_enough() {
    let bench = Bench::start().await;
    let first = bench.bundle("widgets", "1.0.0", files("1.0.0", &Content::default())).await;
    let second = bench.bundle("widgets", "1.1.0", files("1.1.0", &Content::default())).await;
    bench.catalog("test", "widgets", &[("1.0.0", &first), ("1.1.0", &second)]).await;
    bench.account().await;
    let star = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let shortcut = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": "everything"}, "rules": star});
    bench.api.apply(shortcut).await;
    let account = json!({"kind": "ServiceAccount", "name": "installer", "namespace": "work"});
    bench.api.apply(binding("", "everything", account)).await;

    let (code, list) = bench.ask(&[], "GET", EXTENSIONS, None).await;
    assert_eq!((code, list["kind"].as_str(), list["items"].as_array().map(Vec::len)), (200, Some("ClusterExtensionList"), Some(0)));
    let (code, _) = bench.ask(&[], "POST", EXTENSIONS, Some(&cluster_extension("widgets", "widgets", Some("1.0.0")))).await;
    assert_eq!(code, 201);
    bench.installed("widgets", "1.0.0").await;

    // The update's procedure: query channels and versions where the catalog says it is served, read, edit, apply, verify.
    let (_, catalog) = bench.ask(&[], "GET", "/apis/olm.operatorframework.io/v1/clustercatalogs/test", None).await;
    let base = catalog["status"]["urls"]["base"].as_str().unwrap();
    let content = fetched(&bench, &format!("{base}/api/v1/all")).await;
    let of = |schema: &'static str| content.iter().filter(move |blob| blob["schema"] == schema);
    let channels: Vec<&str> = of("olm.channel").map(|channel| channel["name"].as_str().unwrap()).collect();
    assert_eq!(channels, ["stable"]);
    let entries = of("olm.channel").next().unwrap()["entries"].as_array().unwrap();
    let newest = entries.last().unwrap()["name"].as_str().unwrap().strip_prefix("widgets.v").unwrap();
    assert_eq!(newest, "1.1.0");
    let (_, mut live) = bench.ask(&[], "GET", &format!("{EXTENSIONS}/widgets"), None).await;
    live["spec"]["source"]["catalog"]["version"] = json!(newest);
    live["spec"]["source"]["catalog"]["channels"] = json!(channels);
    let (code, _) = bench.ask(&[], "PUT", &format!("{EXTENSIONS}/widgets"), Some(&live)).await;
    assert_eq!(code, 200);
    let updated = bench.installed("widgets", "1.1.0").await;
    assert_eq!(updated["status"]["install"]["bundle"]["name"], "widgets.v1.1.0");

    let (code, _) = bench.ask(&[], "DELETE", &format!("{EXTENSIONS}/widgets"), None).await;
    assert_eq!(code, 200);
    bench.api.gone(&extension("widgets")).await;
    bench.end().await;
}

/// The blobs behind an address of the catalog's own, by whatever base it announces.
async fn fetched(bench: &Bench, url: &str) -> Vec<Value> {
    use tower::ServiceExt as _;
    let path: axum::http::Uri = url.parse().unwrap();
    let request = axum::http::Request::get(path.path()).body(axum::body::Body::empty()).unwrap();
    let answer = bench.router.clone().oneshot(request).await.unwrap();
    assert_eq!(answer.status(), 200, "{url}");
    let bytes = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// OLM1-CAT-18: clients append the endpoint to whatever base the status names: a base with a path of its own, under which nothing is
/// assumed, serves the same content.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_base_of_a_catalog_is_opaque() {
    let bench = Bench::with(|settings| settings.external_address = "https://proxy.example.com:8443/some/where".to_owned()).await;
    let image = bench.bundle("widgets", "1.0.0", files("1.0.0", &Content::default())).await;
    let served = bench.catalog("test", "widgets", &[("1.0.0", &image)]).await;
    assert_eq!(served["status"]["urls"]["base"], "https://proxy.example.com:8443/some/where/catalogs/test");
    // What lies behind the base is the catalog, wherever a proxy puts it.
    let base = served["status"]["urls"]["base"].as_str().unwrap().replace("/some/where", "");
    assert_eq!(fetched(&bench, &format!("{base}/api/v1/all")).await.len(), 3);
    bench.end().await;
}
