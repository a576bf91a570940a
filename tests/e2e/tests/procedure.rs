//! The procedures of OLM v1 as its users type them: plain YAML, kubectl, and requests for what a catalog holds.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::Path;

use mainstay_e2e::bundles::{self, Toy, condition, offline, publish, read_yaml, until_installed, until_serving};
use mainstay_e2e::client::{JSON, Target};
use mainstay_e2e::{Cluster, Options, Registry, need_calls, need_embedded, need_kubectl};
use serde_json::{Value, json};

/// Asks without credentials, trusting the cluster's CA alone; status and body.
fn ask(cluster: &Cluster, base: &str, path: &str) -> (u16, String) {
    let own = read_yaml(cluster.kubeconfig());
    let url: http::Uri = base.parse().unwrap();
    let server = format!("https://{}", url.authority().unwrap());
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {
            "server": server, "certificate-authority-data": own["clusters"][0]["cluster"]["certificate-authority-data"],
        }}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    let file = cluster.folder().join("anybody.kubeconfig");
    bundles::write(&file, &kubeconfig.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = Target::read(&file).unwrap().connect().await.unwrap();
        let (status, body) = connection.ask("GET", &format!("{}{path}", url.path()), JSON, bytes::Bytes::new()).await.unwrap();
        (status.as_u16(), String::from_utf8_lossy(&body).into_owned())
    })
}

/// The blobs that a query of a served catalog gives.
fn metas(cluster: &Cluster, query: &str) -> Vec<Value> {
    let live = until_serving(cluster, "team");
    let (status, body) = ask(cluster, live["status"]["urls"]["base"].as_str().unwrap(), &format!("/api/v1/metas?{query}"));
    assert_eq!(status, 200, "{body}");
    body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A catalog `team` with these versions of the package gadget, as YAML that a user applies.
fn team(cluster: &Cluster, registry: &Registry, versions: &[&'static str]) -> String {
    let folder = cluster.folder().join("bundles");
    for version in versions {
        let mut toy = Toy::new("gadget", version);
        toy.more.push(("metadata/properties.yaml".to_owned(), json!({"properties": [{"type": "example.com/colour", "value": "green"}]})));
        toy.write(&folder);
    }
    let reference = publish(registry, &folder, cluster.folder(), "latest");
    format!(
        "apiVersion: olm.operatorframework.io/v1
kind: ClusterCatalog
metadata:
  name: team
spec:
  source:
    type: Image
    image:
      ref: {reference}
"
    )
}

/// Who installs, as a user prepares it.
const INSTALLER: &str = "apiVersion: v1
kind: Namespace
metadata: {name: gadgets}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: gadget-installer, namespace: gadgets}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: gadget-installer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: gadget-installer, namespace: gadgets}]
";

fn gadget(version: &str) -> String {
    format!(
        "apiVersion: olm.operatorframework.io/v1
kind: ClusterExtension
metadata:
  name: gadget
spec:
  namespace: gadgets
  serviceAccount:
    name: gadget-installer
  source:
    sourceType: Catalog
    catalog:
      packageName: gadget
      channels: [stable]
      version: \"{version}\"
"
    )
}

/// OLM1-GEN-07, OLM1-API-04, OLM1-UPG-13: by kubectl and plain YAML alone a catalog and an extension are made, listed, read, changed and
/// removed; the update follows the documented steps, and the result lines are upstream's.
#[test]
fn an_update_by_kubectl_alone() {
    let Some(()) = need_calls() else { return };
    let Some(()) = need_kubectl() else { return };
    let cluster = Cluster::up(&[]);
    let registry = Registry::ours();
    let (extension, catalog) = ("clusterextension.olm.operatorframework.io", "clustercatalog.olm.operatorframework.io");
    let none = cluster.kubectl(&["get", "clusterextensions"]);
    assert_eq!((none.code, none.stdout.as_str(), none.stderr.trim()), (Some(0), "", "No resources found"));

    let yaml = team(&cluster, &registry, &["1.0.0", "1.1.0"]);
    assert_eq!(cluster.apply(&yaml).trim(), format!("{catalog}/team created"));
    until_serving(&cluster, "team");
    cluster.apply(INSTALLER);
    assert_eq!(cluster.apply(&gadget("1.0.0")).trim(), format!("{extension}/gadget created"));
    until_installed(&cluster, "gadget", "1.0.0");
    assert_eq!(
        cluster.kubectl(&["get", "clustercatalogs,clusterextensions", "-o", "name"]).ok(),
        format!("{catalog}/team\n{extension}/gadget\n")
    );

    // Channels, the versions of one, the resource as it is, the edit, the check.
    let channels = metas(&cluster, "schema=olm.channel&package=gadget");
    let stable = channels.iter().find(|channel| channel["name"] == "stable").unwrap_or_else(|| panic!("{channels:#?}"));
    let entries: Vec<&str> = stable["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert!(entries.contains(&"gadget.v1.0.0") && entries.contains(&"gadget.v1.1.0"), "{entries:?}");
    let current = cluster.get(&["clusterextension", "gadget"]).unwrap();
    assert_eq!(current["spec"]["source"]["catalog"]["version"], "1.0.0");
    assert_eq!(cluster.apply(&gadget("1.0.0")).trim(), format!("{extension}/gadget unchanged"));
    assert_eq!(cluster.apply(&gadget("1.1.0")).trim(), format!("{extension}/gadget configured"));
    let updated = until_installed(&cluster, "gadget", "1.1.0");
    assert_eq!(updated["status"]["install"]["bundle"]["name"], "gadget.v1.1.0");
    assert_eq!(condition(&updated, "Installed")["status"], "True");
    let patch = r#"{"spec":{"source":{"catalog":{"version":"1.x"}}}}"#;
    let patched = cluster.kubectl(&["patch", "clusterextension", "gadget", "--type=merge", "-p", patch]).ok();
    assert_eq!(patched.trim(), format!("{extension}/gadget patched"));
    until_installed(&cluster, "gadget", "1.1.0");

    let gone = cluster.kubectl(&["delete", "clusterextension", "gadget"]).ok();
    assert_eq!(gone.trim(), format!("{extension} \"gadget\" deleted"));
    cluster.until_gone(&["deployment", "gadget", "-n", "gadgets"]);
    assert_eq!(cluster.kubectl(&["delete", "clustercatalog", "team"]).ok().trim(), format!("{catalog} \"team\" deleted"));
    assert_eq!(cluster.kubectl(&["get", "clustercatalogs"]).stderr.trim(), "No resources found");
}

/// OLM1-PERM-04: from the package's name to the files of a bundle image: which images there are is asked of the catalog, and one is
/// unpacked by its digest.
#[test]
fn what_a_bundle_needs_is_read_from_its_image() {
    let Some(()) = need_calls() else { return };
    let Some(()) = need_kubectl() else { return };
    let cluster = Cluster::up(&[]);
    let registry = Registry::ours();
    cluster.apply(&team(&cluster, &registry, &["1.0.0", "1.1.0"]));
    let listed = metas(&cluster, "schema=olm.bundle&package=gadget&name=gadget.v1.1.0");
    assert_eq!(listed.len(), 1, "{listed:#?}");
    let image = listed[0]["image"].as_str().unwrap();
    assert!(image.contains("@sha256:"), "{image}");
    let out = cluster.folder().join("out");
    offline(&["opm", "alpha", "bundle", "unpack", image, "-o", &out.to_string_lossy()]).ok();
    let written = cluster.folder().join("bundles/gadget/1.1.0");
    let mut kinds = Vec::new();
    for folder in ["manifests", "metadata"] {
        let names = |at: &Path| {
            let mut names: Vec<_> = fs::read_dir(at.join(folder)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&out), names(&written));
        for name in names(&out) {
            let (ours, theirs) = (read_yaml(&out.join(folder).join(&name)), read_yaml(&written.join(folder).join(&name)));
            assert_eq!(ours, theirs, "{}", name.display());
            kinds.extend(ours["kind"].as_str().map(str::to_owned));
        }
    }
    kinds.sort();
    assert_eq!(kinds, ["ClusterServiceVersion", "ConfigMap", "CustomResourceDefinition"]);
    let annotations = read_yaml(&out.join("metadata/annotations.yaml"));
    assert_eq!(annotations["annotations"]["operators.operatorframework.io.bundle.package.v1"], "gadget");
    assert_eq!(read_yaml(&out.join("metadata/properties.yaml"))["properties"][0]["value"], "green");
}

/// OLM1-CAT-19, OLM1-CAT-18: catalogs are served beside the API, certified by the cluster's CA; after a restart at another port the status
/// follows, and the embedded operator-controller finds and trusts what it names.
#[test]
fn catalogs_are_served_where_the_api_is() {
    let Some(()) = need_embedded() else { return };
    let Some(()) = need_kubectl() else { return };
    let mut cluster = Cluster::with(&Options::default());
    let registry = Registry::ours();
    cluster.apply(&team(&cluster, &registry, &["1.0.0"]));
    let before = cluster.server().to_owned();
    let served = |cluster: &Cluster| {
        let wanted = format!("{}/catalogs/team", cluster.server());
        cluster.until("the status names the listener", &["clustercatalog", "team"], |object| object["status"]["urls"]["base"] == wanted);
        let (status, body) = ask(cluster, &wanted, "/api/v1/all");
        assert_eq!(status, 200, "{body}");
        assert!(body.contains("gadget.v1.0.0"), "{body}");
        assert_eq!(ask(cluster, &wanted, "/api/v1/nothing").0, 404);
    };
    served(&cluster);

    // Somebody else has the port meanwhile.
    assert_eq!(cluster.stop(), Some(0));
    let taken = std::net::TcpListener::bind(before.trim_start_matches("https://")).unwrap();
    cluster.start_again();
    assert_ne!(cluster.server(), before);
    served(&cluster);
    cluster.apply(INSTALLER);
    cluster.apply(&gadget("1.0.0"));
    until_installed(&cluster, "gadget", "1.0.0");
    drop(taken);
}

/// OLM1-CAT-19: with `--catalogs-server-addr` catalogs have a listener of their own, under the same CA, and the API's has none of them.
#[test]
fn catalogs_are_served_where_it_is_asked_for() {
    let Some(()) = need_embedded() else { return };
    let Some(()) = need_kubectl() else { return };
    let cluster = Cluster::up(&["--catalogs-server-addr", "127.0.0.2:0"]);
    let registry = Registry::ours();
    cluster.apply(&team(&cluster, &registry, &["1.0.0"]));
    let live = until_serving(&cluster, "team");
    let base = live["status"]["urls"]["base"].as_str().unwrap();
    assert!(base.starts_with("https://127.0.0.2:") && base.ends_with("/catalogs/team"), "{base}");
    let (status, body) = ask(&cluster, base, "/api/v1/all");
    assert!(status == 200 && body.contains("gadget.v1.0.0"), "{status}: {body}");
    let api = cluster.server();
    assert_ne!(ask(&cluster, &format!("{api}/catalogs/team"), "/api/v1/all").0, 200);
    let own = base.strip_suffix("/catalogs/team").unwrap();
    assert_eq!(ask(&cluster, &format!("{own}/api/v1/namespaces"), "").0, 404, "the API is not served there");
    cluster.apply(INSTALLER);
    cluster.apply(&gadget("1.0.0"));
    until_installed(&cluster, "gadget", "1.0.0");
}
