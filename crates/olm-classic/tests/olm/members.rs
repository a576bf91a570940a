//! Members of a group: which CSVs are, what they may do, and what they let users do.

use serde_json::{Value, json};

use crate::support::{Api, crd, csv, csv_at, labels, place};

const V1: &str = "operators.coreos.com/v1";
const RBAC: &str = "rbac.authorization.k8s.io/v1";
const WIDGETS: &str = "/apis/example.com/v1/namespaces";

/// A CSV with permissions and CRD, in a namespace of its own with a group.
async fn install(api: &Api, namespace: &str, operator: &str, group: Value, modes: &[&str]) -> Value {
    api.namespace(namespace, json!({})).await;
    api.apply(crd(operator)).await;
    api.group(namespace, "g", group).await;
    let object = api.apply(csv(namespace, operator, "1.0.0", modes)).await;
    api.permissions(&object).await;
    object
}

async fn bind(api: &Api, namespace: &str, role: &str, user: &str) {
    api.apply(json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": format!("{role}-{user}"), "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]}))
        .await;
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {}})
}

/// OLM0-OG-01, OLM0-OG-05: a CSV is a member of the group of its namespace, if its install modes support the group's targets; the words for every way in
/// which they do not, each left once the targets or the modes fit.
#[tokio::test(flavor = "multi_thread")]
async fn members() {
    let api = Api::start().await;
    for name in ["a", "b", "elsewhere"] {
        api.namespace(name, json!({"team": "x"})).await;
    }
    install(&api, "home", "widgets", json!({"targetNamespaces": ["home"]}), &["OwnNamespace"]).await;
    let name = "widgets.v1.0.0";
    api.phase("home", name, "Succeeded", "InstallSucceeded").await;
    // A group of another namespace with the same target does not make it a member.
    api.group("elsewhere", "other", json!({"targetNamespaces": ["home"]})).await;
    let at = place(V1, "OperatorGroup", "home", "g");
    let other = place(V1, "OperatorGroup", "elsewhere", "other");
    api.until(&other, |group| group["status"]["namespaces"] == json!(["home"])).await;
    let provided = |group: &Value| group["metadata"]["annotations"]["olm.providedAPIs"].clone();
    assert_eq!(provided(&api.until(&at, |group| provided(group) == "Widget.v1.example.com").await), "Widget.v1.example.com");
    assert_eq!(provided(&api.get(&other).await.unwrap()), Value::Null);
    let refused = [
        (json!(["a"]), "SingleNamespace InstallModeType not supported, cannot configure to watch one namespace"),
        (json!(["a", "b"]), "MultiNamespace InstallModeType not supported, cannot configure to watch 2 namespaces"),
        (json!([]), "AllNamespaces InstallModeType not supported, cannot configure to watch all namespaces"),
    ];
    for (targets, message) in refused {
        api.patch(&at, json!({"spec": {"targetNamespaces": targets}})).await;
        let told = |csv: &Value| csv["status"]["reason"] == "UnsupportedOperatorGroup" && csv["status"]["message"] == message;
        let failed = api.until(&csv_at("home", name), told).await;
        assert_eq!(failed["status"]["phase"], "Failed");
    }
    // The modes can be mended as well as the targets.
    let modes = |own: bool, all: bool| json!({"spec": {"installModes": [{"type": "OwnNamespace", "supported": own}, {"type": "AllNamespaces", "supported": all}]}});
    api.patch(&csv_at("home", name), modes(false, true)).await;
    api.phase("home", name, "Succeeded", "InstallSucceeded").await;
    api.patch(&at, json!({"spec": {"targetNamespaces": ["home"]}})).await;
    let own = "OwnNamespace InstallModeType not supported, cannot configure to watch own namespace";
    api.until(&csv_at("home", name), |csv| csv["status"]["message"] == own).await;
    api.patch(&csv_at("home", name), modes(true, false)).await;
    api.phase("home", name, "Succeeded", "InstallSucceeded").await;
    // A selector that selects nothing.
    api.patch(&at, json!({"spec": {"targetNamespaces": null, "selector": {"matchLabels": {"team": "y"}}}})).await;
    let none = api.phase("home", name, "Failed", "NoTargetNamespaces").await;
    assert_eq!(none["status"]["message"], "no targetNamespaces are matched operatorgroups namespace selection");
    api.close().await;
}

/// OLM0-OG-07: the short form of a selector is refused, and the message says what it lacks.
#[tokio::test(flavor = "multi_thread")]
async fn selectors_are_whole() {
    let api = Api::bare().await;
    api.namespace("home", json!({})).await;
    let group = |selector: Value| json!({"apiVersion": V1, "kind": "OperatorGroup", "metadata": {"name": "g", "namespace": "home"}, "spec": {"selector": selector}});
    let path = "/apis/operators.coreos.com/v1/namespaces/home/operatorgroups?fieldValidation=Strict";
    bind(&api, "home", "cluster-admin", "ada").await;
    let (code, refused) = api.send("ada", "POST", path, Some(group(json!({"cool.io/prod": "true"})))).await;
    assert_eq!(code, 400, "{refused}");
    let told = refused["message"].as_str().unwrap();
    assert!(told.contains("strict decoding error: unknown field \"spec.selector.cool.io/prod\""), "{told}");
    let known = &mainstay_api::classic_manifests()
        .unwrap()
        .into_iter()
        .find(|crd| crd.definition["spec"]["names"]["kind"] == "OperatorGroup")
        .unwrap()
        .definition;
    let selector = &known["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["selector"];
    let fields: Vec<&String> = selector["properties"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["matchExpressions", "matchLabels"], "kubectl explain names what there is");
    let expression =
        json!({"matchExpressions": [{"key": "env", "operator": "In", "values": ["a", "b"]}], "matchLabels": {"cool.io/prod": "true"}});
    api.admin.create(&group(expression)).await.unwrap();
    api.close().await;
}

/// OLM0-OG-09: annotations of members, sorted targets, Deployments, and what copies have of them.
#[tokio::test(flavor = "multi_thread")]
async fn annotations() {
    let api = Api::start().await;
    for name in ["b", "a", "c"] {
        api.namespace(name, json!({})).await;
    }
    install(&api, "home", "widgets", json!({"targetNamespaces": ["b", "c", "a"]}), &["MultiNamespace"]).await;
    let done = api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    let of = |object: &Value, name: &str| object["metadata"]["annotations"][name].clone();
    let all = |object: &Value| ["olm.operatorGroup", "olm.operatorNamespace", "olm.targetNamespaces"].map(|name| of(object, name));
    assert_eq!(all(&done), [json!("g"), json!("home"), json!("a,b,c")]);
    let deployment = api.get(&place("apps/v1", "Deployment", "home", "widgets")).await.unwrap();
    assert_eq!(all(&deployment["spec"]["template"]), all(&done));
    for target in ["a", "b", "c"] {
        let copy = api.until(&csv_at(target, "widgets.v1.0.0"), |copy| !copy.is_null()).await;
        assert_eq!(all(&copy), [json!("g"), json!("home"), Value::Null], "{target}");
    }
    api.patch(&place(V1, "OperatorGroup", "home", "g"), json!({"spec": {"targetNamespaces": ["c", "a"]}})).await;
    api.until(&csv_at("home", "widgets.v1.0.0"), |csv| of(csv, "olm.targetNamespaces") == "a,c").await;
    let rolled = |deployment: &Value| of(&deployment["spec"]["template"], "olm.targetNamespaces") == "a,c";
    api.until(&place("apps/v1", "Deployment", "home", "widgets"), rolled).await;
    api.gone(&csv_at("b", "widgets.v1.0.0")).await;
    let mut everywhere = csv("everywhere", "gadgets", "1.0.0", &["AllNamespaces"]);
    api.namespace("everywhere", json!({})).await;
    everywhere["metadata"]["annotations"] = json!({"team": "x"});
    api.apply(crd("gadgets")).await;
    api.group("everywhere", "all", json!({})).await;
    let object = api.apply(everywhere).await;
    api.permissions(&object).await;
    let done = api.phase("everywhere", "gadgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    assert_eq!(all(&done), [json!("all"), json!("everywhere"), json!("")]);
    assert_eq!(of(&done, "team"), "x");
    api.close().await;
}

/// OLM0-OG-13: API roles carry both labels, groups select by upstream's, sorted, and a group without APIs selects nothing.
#[tokio::test(flavor = "multi_thread")]
async fn aggregation() {
    let api = Api::start().await;
    let group = mainstay_olm_classic_core::csv::Group { name: "g".to_owned(), namespace: "home".to_owned(), ..Default::default() };
    let role = |level: &str| place(RBAC, "ClusterRole", "", &mainstay_olm_classic_core::operator_group::cluster_role_name(&group, level));
    api.namespace("home", json!({})).await;
    api.group("home", "g", json!({"targetNamespaces": ["home"]})).await;
    let empty = api.until(&role("view"), |found| !found.is_null()).await;
    assert!(empty["aggregationRule"].is_null(), "{empty:#}");
    for operator in ["widgets", "gadgets"] {
        api.apply(crd(operator)).await;
        let object = api.apply(csv("home", operator, "1.0.0", &["OwnNamespace"])).await;
        api.permissions(&object).await;
        api.phase("home", &format!("{operator}.v1.0.0"), "Succeeded", "InstallSucceeded").await;
    }
    for level in ["admin", "edit", "view"] {
        let selects = |found: &Value| found["aggregationRule"]["clusterRoleSelectors"].as_array().is_some_and(|all| all.len() == 2);
        let found = api.until(&role(level), selects).await;
        let selectors = found["aggregationRule"]["clusterRoleSelectors"].as_array().unwrap();
        let mut keys = Vec::new();
        for selector in selectors {
            let (key, value) = selector["matchLabels"].as_object().unwrap().iter().next().unwrap();
            assert_eq!(value, "true");
            let own = key.strip_prefix("olm.opgroup.permissions/aggregate-to-").and_then(|rest| rest.strip_suffix(&format!("-{level}")));
            assert!(own.is_some_and(|hash| hash.len() >= 8 && hash.chars().all(|letter| letter.is_ascii_hexdigit())), "{key}");
            keys.push(key.clone());
        }
        assert!(keys.is_sorted(), "{keys:?}");
        let mut carried = Vec::new();
        for operator in ["widgets", "gadgets"] {
            let api_role =
                api.until(&place(RBAC, "ClusterRole", "", &format!("{operator}.example.com-v1-{level}")), |found| !found.is_null()).await;
            let own = labels(&api_role);
            assert_eq!(own.get(&format!("olm.opgroup.permissions/aggregate-to-{level}")).map(String::as_str), Some("g"));
            carried.extend(keys.iter().filter(|key| own.get(*key).map(String::as_str) == Some("true")).cloned());
        }
        carried.sort();
        assert_eq!(carried, keys);
    }
    api.close().await;
}

/// OLM0-OG-15, OLM0-USER-02, OLM0-USER-11: who has `edit` or `admin` in a namespace may write the operator's objects there, who has `view` may read them, and
/// others may do neither; rules do not go from `view` up to `edit` by themselves.
#[tokio::test(flavor = "multi_thread")]
async fn users() {
    let api = Api::start().await;
    api.namespace("project", json!({})).await;
    api.namespace("stranger", json!({})).await;
    install(&api, "home", "widgets", json!({}), &["AllNamespaces"]).await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    for (role, user) in [("edit", "ed"), ("admin", "ada"), ("view", "vi")] {
        bind(&api, "project", role, user).await;
    }
    let has = |role: &Value, verbs: &[&str]| {
        let rules = role["rules"].as_array().cloned().unwrap_or_default();
        let own: Vec<Value> = rules.into_iter().filter(|rule| rule["resources"] == json!(["widgets"])).collect();
        verbs.iter().all(|verb| own.iter().any(|rule| rule["verbs"].as_array().unwrap().contains(&json!(verb))))
    };
    for (role, verbs) in [("view", &["list"][..]), ("edit", &["list", "create"][..]), ("admin", &["list", "create", "*"][..])] {
        api.until(&place(RBAC, "ClusterRole", "", role), |role| has(role, verbs)).await;
    }
    let list = format!("{WIDGETS}/project/widgets");
    for user in ["ed", "ada"] {
        let one = format!("{list}/{user}");
        assert_eq!(api.send(user, "POST", &list, Some(widget(user))).await.0, 201, "{user}");
        assert_eq!(api.send(user, "GET", &one, None).await.0, 200, "{user}");
        assert_eq!(api.send(user, "PATCH", &one, Some(json!({"spec": {"size": 3}}))).await.0, 200, "{user}");
        assert_eq!(api.send(user, "DELETE", &one, None).await.0, 200, "{user}");
        let (code, refused) = api.send(user, "POST", &format!("{WIDGETS}/stranger/widgets"), Some(widget(user))).await;
        assert_eq!(code, 403, "{refused}");
    }
    assert_eq!(api.send("ed", "POST", &list, Some(widget("kept"))).await.0, 201);
    assert_eq!(api.send("vi", "GET", &list, None).await.0, 200);
    assert_eq!(api.send("vi", "GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com", None).await.0, 403);
    assert_eq!(api.send("vi", "POST", &list, Some(widget("vi"))).await.0, 403);
    assert_eq!(api.send("vi", "DELETE", &format!("{list}/kept"), None).await.0, 403);
    assert_eq!(api.send("nobody", "GET", &list, None).await.0, 403);
    // What is given to `view` is in `edit` and `admin` too, and not the other way.
    let given = |name: &str, to: &str| {
        json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name, "labels": {format!("rbac.authorization.k8s.io/aggregate-to-{to}"): "true"}},
        "rules": [{"apiGroups": ["example.org"], "resources": [name], "verbs": ["get"]}]})
    };
    api.apply(given("lonely", "edit")).await;
    api.apply(given("shared", "view")).await;
    let names = |role: &Value, name: &str| role["rules"].to_string().contains(name);
    for role in ["edit", "admin"] {
        api.until(&place(RBAC, "ClusterRole", "", role), |role| names(role, "lonely") && names(role, "shared")).await;
    }
    let view = api.until(&place(RBAC, "ClusterRole", "", "view"), |role| names(role, "shared")).await;
    api.apply(given("nodeinfo", "cluster-reader")).await;
    let reads = |role: &Value| names(role, "nodeinfo") && names(role, "shared") && !names(role, "lonely");
    api.until(&place(RBAC, "ClusterRole", "", "cluster-reader"), reads).await;
    assert!(!names(&view, "lonely"), "{view:#}");
    api.close().await;
}

/// OLM0-CSV-18: what an operator may do follows its targets: within them for one namespace, everywhere for all.
#[tokio::test(flavor = "multi_thread")]
async fn permissions_follow_the_targets() {
    let api = Api::start().await;
    api.namespace("a", json!({})).await;
    api.namespace("b", json!({})).await;
    install(&api, "home", "widgets", json!({"targetNamespaces": ["a"]}), &["SingleNamespace", "AllNamespaces"]).await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    api.until(&csv_at("a", "widgets.v1.0.0"), |copy| !copy.is_null()).await;
    let account = "system:serviceaccount:home:widgets";
    let may = async |namespace: &str| api.send(account, "GET", &format!("{WIDGETS}/{namespace}/widgets"), None).await.0 == 200;
    // A role comes a moment after the copy.
    for _ in 0..500 {
        if may("a").await {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(may("a").await && may("home").await && !may("b").await);
    let namespaces = async || api.send(account, "GET", "/api/v1/namespaces", None).await.0;
    assert_eq!(namespaces().await, 403);
    api.patch(&place(V1, "OperatorGroup", "home", "g"), json!({"spec": {"targetNamespaces": []}})).await;
    api.until(&csv_at("home", "widgets.v1.0.0"), |csv| csv["metadata"]["annotations"]["olm.targetNamespaces"] == "").await;
    api.phase("home", "widgets.v1.0.0", "Succeeded", "InstallSucceeded").await;
    for _ in 0..500 {
        if may("b").await {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(may("b").await);
    assert_eq!(namespaces().await, 200, "an operator for all namespaces sees which there are");
    api.close().await;
}
