//! Whatever people get wrong: the condition says what and why, and nothing that ran before stops.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use mainstay_objects::{Expect, Patch, Propagation};
use mainstay_testing::widgets::{Content, files};
use serde_json::{Value, json};

use crate::support;
use crate::support::bench::{Bench, cluster_extension};
use crate::support::{condition, extension, extension_object, place};

const RBAC: &str = "rbac.authorization.k8s.io";

/// A cluster with `widgets` 1.0.0 installed, and a catalog with more versions, made by `change`.
async fn installed(more: &[(&str, Vec<(String, String)>)]) -> (Bench, Value) {
    let bench = Bench::start().await;
    let mut bundles = vec![("1.0.0", bench.bundle("widgets", "1.0.0", files("1.0.0", &Content::default())).await)];
    for (version, files) in more {
        bundles.push((version, bench.bundle("widgets", version, files.clone()).await));
    }
    let bundles: Vec<(&str, &str)> = bundles.iter().map(|(version, image)| (*version, image.as_str())).collect();
    bench.catalog("test", "widgets", &bundles).await;
    bench.install("1.0.0").await;
    let deployment = bench.api.get(&place("apps/v1", "Deployment", "work", "widgets")).await.unwrap();
    (bench, deployment)
}

/// What ran before runs on: the very same Deployment, unchanged, and the extension still says that it is installed.
async fn runs_on(bench: &Bench, before: &Value, what: &str) {
    let now = bench.api.get(&place("apps/v1", "Deployment", "work", "widgets")).await.unwrap();
    assert_eq!((&now["metadata"]["uid"], &now["spec"]), (&before["metadata"]["uid"], &before["spec"]), "{what}");
    let found = bench.api.get(&extension("widgets")).await.unwrap();
    assert_eq!(condition(&found, "Installed")["status"], "True", "{what}: {found:#}");
    assert_eq!(found["status"]["install"]["bundle"]["version"], "1.0.0", "{what}");
}

async fn change(bench: &Bench, catalog: Value) {
    let patch = Patch::Merge(json!({"spec": {"source": {"catalog": catalog}}}));
    bench.api.admin.patch(&extension("widgets"), "", &patch).await.unwrap();
}

/// OLM1-CTRL-03, OLM1-SEL-09: an unknown package, channel or version and a range that nothing matches are named, with what is installed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_catalog_has() {
    let (bench, before) = installed(&[]).await;
    let stuck = "error upgrading from currently installed version \"1.0.0\": no bundles found for package \"widgets\"";
    let cases = [
        (json!({"version": "7.7.7"}), format!("{stuck} matching version \"7.7.7\"")),
        (json!({"version": ">=2.0.0 <3.0.0"}), format!("{stuck} matching version \">=2.0.0 <3.0.0\"")),
        (json!({"version": null, "channels": ["fast"]}), format!("{stuck} in channels [fast]")),
        (json!({"version": "1.x", "channels": ["fast", "slow"]}), format!("{stuck} matching version \"1.x\" in channels [fast slow]")),
    ];
    for (wanted, text) in cases {
        change(&bench, wanted.clone()).await;
        let (found, said) = bench.progressing("widgets", "Retrying", &text).await;
        assert_eq!(said, text, "{wanted}");
        assert_eq!(condition(&found, "Progressing")["status"], "True", "{wanted}");
        runs_on(&bench, &before, &text).await;
    }
    bench.api.apply(cluster_extension("others", "nothing-of-the-kind", None)).await;
    let (found, said) = bench.progressing("others", "Retrying", "").await;
    assert_eq!(said, "no bundles found for package \"nothing-of-the-kind\"");
    assert_eq!(condition(&found, "Installed")["status"], "False");
    runs_on(&bench, &before, "an unknown package").await;
    change(&bench, json!({"version": "1.0.0", "channels": null})).await;
    bench.installed("widgets", "1.0.0").await;
    bench.end().await;
}

/// OLM1-SEL-07, OLM1-CTRL-03, OLM1-CAT-09: two catalogs of one priority, and a catalog that does not serve: nothing is chosen, and the
/// text names them; a priority, or the catalog's return, is enough to go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn catalogs_that_leave_no_choice() {
    let (bench, before) = installed(&[("1.1.0", files("1.1.0", &Content::default()))]).await;
    let image = bench.bundle("widgets", "1.1.0", files("1.1.0", &Content::default())).await;
    bench.catalog("other", "widgets", &[("1.1.0", &image)]).await;
    change(&bench, json!({"version": "1.1.0", "upgradeConstraintPolicy": "SelfCertified"})).await;
    let (_, said) = bench.progressing("widgets", "Retrying", "same priority").await;
    assert!(said.contains("other") && said.contains("test"), "{said}");
    runs_on(&bench, &before, &said).await;
    change(&bench, json!({"version": "1.0.0"})).await;

    // Not serving: an image that is not there.
    bench.api.apply(support::catalog_object("broken", &format!("{}/test/nowhere:latest", bench.registry))).await;
    bench.api.until(&support::catalog("broken"), |object| condition(object, "Serving")["status"] == "False").await;
    for name in ["test", "other"] {
        bench
            .api
            .admin
            .patch(&support::catalog(name), "", &Patch::Merge(json!({"spec": {"availabilityMode": "Unavailable"}})))
            .await
            .unwrap();
    }
    change(&bench, json!({"version": "1.1.0"})).await;
    let (_, said) = bench.progressing("widgets", "Retrying", "").await;
    assert!(said.contains("broken") || said.contains("no bundles found"), "{said}");
    runs_on(&bench, &before, &said).await;
    bench.api.delete(&support::catalog("broken")).await;
    bench.api.gone(&support::catalog("broken")).await;
    bench.api.admin.patch(&support::catalog("other"), "", &Patch::Merge(json!({"spec": {"availabilityMode": "Available"}}))).await.unwrap();
    bench.installed("widgets", "1.1.0").await;
    bench.end().await;
}

/// OLM1-PERM-02, OLM1-PERM-09, OLM1-PERM-12, OLM1-PERM-14: an account that loses its permissions, or is lost itself, midway: the upgrade stops
/// with what is missing, what is installed stays, and the grant alone lets it go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_that_lose_what_they_had() {
    let (bench, before) = installed(&[("1.1.0", files("1.1.0", &Content::default()))]).await;
    let binding = place("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "installer");
    bench.api.admin.delete(&binding, &Expect::default(), Propagation::Background).await.unwrap();
    change(&bench, json!({"version": "1.1.0"})).await;
    let (_, said) = bench.progressing("widgets", "Retrying", "pre-authorization failed: ").await;
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "pre-authorization failed: service account requires the following permissions to manage cluster extension:");
    for line in [
        "  Namespace:\"work\" APIGroups:[apps] Resources:[deployments] ResourceNames:[widgets] Verbs:[delete,get,patch,update]",
        "  Namespace:\"work\" APIGroups:[apps] Resources:[deployments] Verbs:[create]",
        "  Namespace:\"\" APIGroups:[example.com] Resources:[widgets] Verbs:[get,list,watch]",
        "  Namespace:\"\" APIGroups:[olm.operatorframework.io] Resources:[clusterextensions/finalizers] ResourceNames:[widgets] Verbs:[update]",
    ] {
        assert!(lines.iter().any(|each| each.starts_with(line)), "{line} is not in\n{said}");
    }
    assert!(said.ends_with(" for resolved bundle \"widgets.v1.1.0\" with version \"1.1.0\""), "{said}");
    runs_on(&bench, &before, &said).await;

    // The account itself.
    bench.api.delete(&place("v1", "ServiceAccount", "work", "installer")).await;
    let labelled = json!({"metadata": {"annotations": {"example.com/look": "again"}}});
    bench.api.admin.patch(&extension("widgets"), "", &Patch::Merge(labelled)).await.unwrap();
    let gone = "service account \"installer\" not found in namespace \"work\": unable to authenticate with the Kubernetes cluster.";
    bench.api.until(&extension("widgets"), |found| condition(found, "Installed")["message"] == gone).await;
    let deployment = bench.api.get(&place("apps/v1", "Deployment", "work", "widgets")).await.unwrap();
    assert_eq!(deployment["metadata"]["uid"], before["metadata"]["uid"]);

    bench.account().await;
    bench.administrator().await;
    let upgraded = bench.installed("widgets", "1.1.0").await;
    assert_eq!(condition(&upgraded, "Installed")["status"], "True");
    bench.end().await;
}

/// OLM1-PERM-01, OLM1-PERM-06, OLM1-CTRL-09: without the preflight the API itself refuses, in its words; the upgrade stops and is finished
/// when the right is granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permissions_that_only_the_api_misses() {
    let gates =
        mainstay_olm_v1_core::gates::FeatureGates::parse(mainstay_olm_v1_core::gates::Profile::Up, "PreflightPermissions=false").unwrap();
    let bench = Bench::with(|settings| settings.gates = gates).await;
    let image = bench.bundle("widgets", "1.0.0", files("1.0.0", &Content::default())).await;
    bench.catalog("test", "widgets", &[("1.0.0", &image)]).await;
    bench.account().await;
    let may =
        |rules: Value| json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": "some"}, "rules": rules});
    let all_but_roles = json!([
        {"apiGroups": ["", "apps", "apiextensions.k8s.io", "olm.operatorframework.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [RBAC], "resources": ["*"], "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]},
    ]);
    bench.api.apply(may(all_but_roles)).await;
    bench
        .api
        .apply(json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "some"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "some"},
            "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": "work"}]}))
        .await;
    bench.api.apply(cluster_extension("widgets", "widgets", None)).await;
    let (found, said) = bench.progressing("widgets", "Retrying", "is attempting to grant RBAC permissions not currently held").await;
    assert!(said.contains("{APIGroups:[\"example.com\"], Resources:[\"widgets\"], Verbs:[\"get\" \"list\" \"watch\"]}"), "{said}");
    assert_eq!(condition(&found, "Installed")["status"], "False");
    bench.api.apply(may(json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]))).await;
    bench.installed("widgets", "1.0.0").await;
    bench.end().await;
}

/// A bundle of another package with a CRD or none, whose objects have these names.
fn gadgets(crd: bool, deployment: &str) -> Vec<(String, String)> {
    let content = Content { without_crd: !crd, ..Content::default() };
    let renamed =
        |text: String| text.replace("\"name\":\"widgets\"", &format!("\"name\":\"{deployment}\"")).replace("widgets.v1", "gadgets.v1");
    let package = |text: String| text.replace("bundle.package.v1\":\"widgets\"", "bundle.package.v1\":\"gadgets\"");
    let account = |text: String| text.replace("\"serviceAccountName\":\"widgets\"", &format!("\"serviceAccountName\":\"{deployment}\""));
    files("1.0.0", &content).into_iter().map(|(path, text)| (path, account(package(renamed(text))))).collect()
}

/// OLM1-OWN-01, OLM1-OWN-02, OLM1-OWN-03, OLM1-OWN-04: a CRD or a name that another extension has, and an object that somebody made by
/// hand: the second install names it and touches nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_that_are_taken() {
    let (bench, before) = installed(&[]).await;
    let cases = [
        (
            "same-crd",
            gadgets(true, "gadgets"),
            "CustomResourceDefinition 'widgets.example.com' already exists in namespace '' and cannot be managed by operator-controller",
        ),
        (
            "same-name",
            gadgets(false, "widgets"),
            "'widgets' already exists in namespace 'work' and cannot be managed by operator-controller",
        ),
        (
            "by-hand",
            gadgets(false, "mine"),
            "Deployment 'mine' already exists in namespace 'work' and cannot be managed by operator-controller",
        ),
    ];
    let by_hand = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "mine", "namespace": "work"}, "spec": {
        "selector": {"matchLabels": {"app": "mine"}},
        "template": {"metadata": {"labels": {"app": "mine"}}, "spec": {"containers": [{"name": "main", "image": "example.com/mine:1"}]}}}});
    let mine = bench.api.apply(by_hand).await;
    for (name, files, text) in cases {
        let image = bench.bundle(name, "1.0.0", files).await;
        bench.catalog(name, name, &[("1.0.0", &image)]).await;
        bench.api.apply(cluster_extension(name, name, None)).await;
        let (found, said) = bench.progressing(name, "Retrying", text).await;
        assert_eq!(condition(&found, "Installed")["status"], "False", "{said}");
        runs_on(&bench, &before, &said).await;
        let labels = format!("olm.operatorframework.io%2Fowner-name%3D{name}");
        for path in ["/apis/apps/v1/deployments", "/api/v1/serviceaccounts", "/apis/rbac.authorization.k8s.io/v1/clusterroles"] {
            let (_, list) = bench.ask(&[], "GET", &format!("{path}?labelSelector={labels}"), None).await;
            assert_eq!(list["items"].as_array().map(Vec::len), Some(0), "{name}: something was written before the check: {list}");
        }
    }
    let now = bench.api.get(&place("apps/v1", "Deployment", "work", "mine")).await.unwrap();
    assert_eq!(now["metadata"]["resourceVersion"], mine["metadata"]["resourceVersion"]);
    bench.end().await;
}

/// MS-EXPL-06, OLM1-PERM-12: a report that no condition can hold is cut at a whole character, says so, and names the command for the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_that_are_too_long() {
    let more = (0..400).map(|number| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("a-config-map-with-a-rather-long-name-number-{number}")}, "data": {}})
    });
    let (bench, before) = installed(&[("1.1.0", files("1.1.0", &Content { more: more.collect(), ..Content::default() }))]).await;
    bench.api.delete(&place("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "installer")).await;
    change(&bench, json!({"version": "1.1.0"})).await;
    let (_, said) = bench.progressing("widgets", "Retrying", "pre-authorization failed: ").await;
    assert!(said.len() <= 32_768 && said.len() > 32_000, "{}", said.len());
    let end = said.lines().last().unwrap();
    assert!(end.starts_with("... (") && end.contains(" bytes in all; the whole text: mainstay ") && end.ends_with(" widgets)"), "{end}");
    runs_on(&bench, &before, "a long text").await;
    bench.end().await;
}

/// OLM1-CTRL-03, OLM1-CTRL-04, OLM1-CTRL-11, OLM1-INST-14: a bundle whose Deployment the API refuses: its words, the bundle, a failed
/// attempt in the record, the installed version untouched; a request for what is installed, or for a better version, ends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_that_the_api_refuses() {
    let broken = files("1.1.0", &Content::default());
    let broken = broken
        .into_iter()
        .map(|(path, text)| (path, text.replace("\"matchLabels\":{\"app\":\"widgets\"}", "\"matchLabels\":{\"app\":\"other\"}")));
    let (bench, before) = installed(&[("1.1.0", broken.collect()), ("1.2.0", files("1.2.0", &Content::default()))]).await;
    change(&bench, json!({"version": "1.1.0"})).await;
    let (_, said) = bench.progressing("widgets", "Retrying", "`selector` does not match template `labels`").await;
    assert!(said.ends_with(" for resolved bundle \"widgets.v1.1.0\" with version \"1.1.0\""), "{said}");
    runs_on(&bench, &before, &said).await;
    change(&bench, json!({"version": "1.2.0", "upgradeConstraintPolicy": "SelfCertified"})).await;
    bench.installed("widgets", "1.2.0").await;
    bench.end().await;
}

/// OLM1-API-02, OLM1-CTRL-03: a namespace or an account that is missing is named; nothing is made in their place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_that_are_missing() {
    let (bench, before) = installed(&[]).await;
    let image = bench.bundle("gadgets", "1.0.0", gadgets(false, "gadgets")).await;
    bench.catalog("gadgets", "gadgets", &[("1.0.0", &image)]).await;
    let mut nowhere = extension_object("nowhere", "gadgets", "nowhere");
    nowhere["spec"]["serviceAccount"] = json!({"name": "installer"});
    let mut nobody = extension_object("nobody", "gadgets", "work");
    nobody["spec"]["serviceAccount"] = json!({"name": "nobody"});
    for (name, object, text) in [
        (
            "nowhere",
            nowhere,
            "service account \"installer\" not found in namespace \"nowhere\": unable to authenticate with the Kubernetes cluster.",
        ),
        (
            "nobody",
            nobody,
            "service account \"nobody\" not found in namespace \"work\": unable to authenticate with the Kubernetes cluster.",
        ),
    ] {
        bench.api.apply(object).await;
        let found = bench.api.until(&extension(name), |found| condition(found, "Installed")["message"] == text).await;
        assert_eq!(condition(&found, "Installed")["status"], "Unknown");
        assert_eq!(condition(&found, "Progressing")["message"], "installation cannot proceed due to missing ServiceAccount");
        runs_on(&bench, &before, text).await;
    }
    assert!(bench.api.get(&place("v1", "Namespace", "", "nowhere")).await.is_none());
    assert!(bench.api.get(&place("v1", "ServiceAccount", "work", "nobody")).await.is_none());
    bench.end().await;
}

/// OLM1-INST-05: nothing provides the OperatorConditions of OLM classic: no such API, no hint of it in the operator's pod.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_no_operator_conditions() {
    let (bench, deployment) = installed(&[]).await;
    for version in ["v1", "v2"] {
        let path = format!("/apis/operators.coreos.com/{version}/namespaces/work/operatorconditions");
        assert_eq!(bench.ask(&[], "GET", &path, None).await.0, 404);
    }
    let env = deployment["spec"]["template"]["spec"]["containers"][0]["env"].to_string();
    assert!(!env.contains("OPERATOR_CONDITION_NAME"), "{env}");
    bench.end().await;
}
