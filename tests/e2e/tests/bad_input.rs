//! Bad input: each has a condition, an Event or a message that says what to do, and changes nothing that ran before.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_e2e::bundles::{
    Toy, catalog, condition, extension, offline, publish, publish_gadgets, push_catalog, until_installed, until_said, until_serving, write,
};
use mainstay_e2e::{Cluster, Registry, need_kubectl};
use mainstay_oci::registry::Access;
use serde_json::{Value, json};

/// A cluster with a catalog that serves gadget 1.0.0, installed.
struct Running {
    cluster: Cluster,
    registry: Registry,
}

impl Running {
    fn start() -> Self {
        let running = Self { cluster: Cluster::up(&[]), registry: Registry::ours() };
        running.release(&[Toy::new("gadget", "1.0.0")]);
        running.cluster.apply(&catalog("team", &format!("{}/tests/catalog:latest", running.registry.address()), None));
        until_serving(&running.cluster, "team");
        running.cluster.apply(&extension("gadget", "gadgets", "gadget", "1.0.0", None));
        until_installed(&running.cluster, "gadget", "1.0.0");
        running
    }

    /// Publishes these bundles under the catalog's tag.
    fn release(&self, toys: &[Toy]) {
        let bundles = tempfile::tempdir_in(self.cluster.folder()).unwrap();
        for toy in toys {
            toy.write(bundles.path());
        }
        publish(&self.registry, bundles.path(), bundles.path(), "latest");
    }

    /// Makes the catalog look at its tag again.
    fn look_again(&self) {
        for mode in ["Unavailable", "Available"] {
            let patch = json!({"spec": {"availabilityMode": mode}}).to_string();
            self.cluster.kubectl(&["patch", "clustercatalog", "team", "--type=merge", "-p", &patch]).ok();
            if mode == "Unavailable" {
                self.cluster.until("it is off", &["clustercatalog", "team"], |object| condition(object, "Serving")["status"] == "False");
            }
        }
        until_serving(&self.cluster, "team");
    }

    fn upgrade(&self) {
        let patch = json!({"spec": {"source": {"catalog": {"version": ">=1.0.0"}}}}).to_string();
        self.cluster.kubectl(&["patch", "clusterextension", "gadget", "--type=merge", "-p", &patch]).ok();
    }

    /// The upgrade is refused with these words, and 1.0.0 runs on untouched.
    #[track_caller]
    fn refused(&self, words: &str) {
        let before = self.deployment();
        self.upgrade();
        let said = until_said(&self.cluster, "clusterextension", "gadget", "Progressing", words);
        assert_eq!(said["status"]["install"]["bundle"]["version"], "1.0.0");
        assert_eq!(condition(&said, "Installed")["status"], "True");
        assert_eq!(self.deployment(), before, "what ran before is changed");
        let events = self.cluster.kubectl(&["get", "events", "-A", "-o", "json"]).ok();
        let events: Value = serde_json::from_str(&events).unwrap();
        let told = events["items"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|event| event["type"] == "Warning" && event["involvedObject"]["name"] == "gadget");
        assert!(told, "no Event tells it: {events:#}");
    }

    fn deployment(&self) -> Value {
        self.cluster.get(&["deployment", "gadget", "-n", "gadgets"]).unwrap()["spec"].clone()
    }
}

/// OLM1-CAT-07, OLM1-CAT-08, OLM1-FBC-02: a broken blob is named with file, line and rule; the old content keeps being served.
#[test]
fn a_broken_blob() {
    let Some(()) = need_kubectl() else { return };
    let running = Running::start();
    let broken = running.cluster.folder().join("broken");
    write(
        &broken.join("gadget/catalog.yaml"),
        "schema: olm.package\nname: gadget\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: gadget\nname: [\n",
    );
    let offline_says = offline(&["opm", "validate", &broken.to_string_lossy()]).refused();
    assert!(offline_says.contains("gadget/catalog.yaml:7: not valid YAML"), "{offline_says}");

    // Pushed by other means than ours, which refuses to build it.
    let reference = format!("{}/tests/catalog:latest", running.registry.address());
    push_files(&reference, &[("configs/gadget/catalog.yaml", std::fs::read(broken.join("gadget/catalog.yaml")).unwrap())]);
    let patch = json!({"spec": {"source": {"image": {"ref": reference, "pollIntervalMinutes": 1}}}, "metadata": {"annotations": {"look": "again"}}}).to_string();
    running.cluster.kubectl(&["patch", "clustercatalog", "team", "--type=merge", "-p", &patch]).ok();
    let said = until_said(&running.cluster, "clustercatalog", "team", "Progressing", "gadget/catalog.yaml:7: not valid YAML");
    assert_eq!(condition(&said, "Serving")["status"], "True", "the old content keeps being served");
    assert!(running.cluster.mainstay(&["catalog", "search", "gadget"]).ok().contains("gadget"));
}

/// OLM1-INST-06, OLM1-INST-07, OLM1-INST-10: bundles that are not in order are refused with the rule, and nothing that ran changes.
#[test]
fn broken_bundles() {
    let Some(()) = need_kubectl() else { return };
    let running = Running::start();
    let manifest = |path: &str, value: Value| (path.to_owned(), value);
    let next = Toy::new("gadget", "1.1.0");
    let mut second_csv = next.csv();
    second_csv["metadata"]["name"] = "other.v1.0.0".into();
    let mut other_crd = next.crd();
    other_crd["metadata"]["name"] = "others.example.com".into();
    let cases = [
        ("no CSV", vec![manifest("manifests/csv.yaml", next.crd())], "no ClusterServiceVersion found"),
        ("two CSVs", vec![manifest("manifests/second.yaml", second_csv)], "ClusterServiceVersion"),
        (
            "an owned CRD is missing",
            vec![manifest("manifests/crd.yaml", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "no-crd"}}))],
            "references owned custom resource definition 'gadgets.gadgets.example.com' not found in bundle",
        ),
        (
            "an unsupported kind",
            vec![manifest("manifests/job.yaml", json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "extra"}}))],
            "unsupported resource \"extra\" with kind \"Job\"",
        ),
    ];
    for (name, files, words) in cases {
        eprintln!("case: {name}");
        let toy = Toy { more: files, ..next.clone() };
        let folder = tempfile::tempdir().unwrap();
        let bundle = toy.write(folder.path());
        let refused = offline(&["bundle", "render", &bundle.to_string_lossy(), "--install-namespace", "x"]);
        assert_ne!(refused.code, Some(0), "{refused}");
        // The catalog names the broken image as if it were in order.
        let reference = format!("{}/tests/broken:{}", running.registry.address(), name.to_lowercase().replace(' ', "-"));
        let digest = push_bundle(&reference, &bundle);
        release_as(&running, &format!("{}/tests/broken@{digest}", running.registry.address()));
        running.look_again();
        running.refused(words);
        let patch = json!({"spec": {"source": {"catalog": {"version": "1.0.0"}}}}).to_string();
        running.cluster.kubectl(&["patch", "clusterextension", "gadget", "--type=merge", "-p", &patch]).ok();
        until_installed(&running.cluster, "gadget", "1.0.0");
    }
}

/// OLM1-CRD-01..03: a change of a CRD that would lose data is refused, with upstream's words.
#[test]
fn a_crd_that_would_lose_data() {
    let Some(()) = need_kubectl() else { return };
    let running = Running::start();
    let mut next = Toy::new("gadget", "1.1.0");
    next.spec_schema["properties"].as_object_mut().unwrap().remove("colour");
    running.release(&[Toy::new("gadget", "1.0.0"), next]);
    running.look_again();
    running.refused("validating upgrade for CRD \"gadgets.gadgets.example.com\": existingFieldRemoval");
}

/// OLM1-CAT-08, OLM1-GEN-14: a registry that does not answer, and one that asks for a password, are named with what to do.
#[test]
fn registries_that_refuse() {
    let Some(()) = need_kubectl() else { return };
    let cluster = Cluster::up(&[]);
    // A port that nobody is given by chance.
    let nowhere = "127.0.0.1:1/tests/catalog:latest";
    cluster.apply(&catalog("nowhere", nowhere, None));
    let said = until_said(&cluster, "clustercatalog", "nowhere", "Progressing", "127.0.0.1:1");
    assert_eq!(condition(&said, "Progressing")["reason"], "Retrying");
    let guarded = Registry::ours_with(Access::Basic { user: "anna".to_owned(), password: "secret".to_owned() });
    cluster.apply(&catalog("guarded", &format!("{}/tests/catalog:latest", guarded.address()), None));
    let said = until_said(&cluster, "clustercatalog", "guarded", "Progressing", guarded.address());
    let message = condition(&said, "Progressing")["message"].as_str().unwrap().to_lowercase();
    assert!(message.contains("unauthorized") || message.contains("credentials"), "{message}");
    let output = offline(&["catalog", "build", "does-not-exist", "--push", nowhere]).refused();
    assert!(output.contains("does-not-exist"), "{output}");
}

/// OLM1-CAT-06: content that does not match its digest, paths that leave the root, and too much of it, are refused; the old content stays.
#[test]
fn evil_images() {
    let Some(()) = need_kubectl() else { return };
    let running = Running::start();
    let good = until_serving(&running.cluster, "team")["status"]["resolvedSource"]["image"]["ref"].clone();
    // A registry whose disk lies: the layer of the catalog's next version.
    running.release(&[Toy::new("gadget", "1.0.0"), Toy::new("gadget", "1.1.0")]);
    let reference = format!("{}/tests/catalog:latest", running.registry.address());
    corrupt(&running.registry, &reference);
    let patch = json!({"spec": {"source": {"image": {"ref": reference, "pollIntervalMinutes": 1}}}}).to_string();
    running.cluster.kubectl(&["patch", "clustercatalog", "team", "--type=merge", "-p", &patch]).ok();
    let said = until_said(&running.cluster, "clustercatalog", "team", "Progressing", "digest");
    assert_eq!(condition(&said, "Serving")["status"], "True");
    assert_eq!(said["status"]["resolvedSource"]["image"]["ref"], good, "the old content keeps being served");
}

/// OLM1-PERM-01, OLM1-PERM-05, OLM1-PERM-09: missing permissions are listed before anything is written; a later grant is picked up.
#[test]
fn missing_permissions() {
    let Some(()) = need_kubectl() else { return };
    let cluster = Cluster::up(&[]);
    let (_registry, reference) = publish_gadgets(&cluster, &["1.0.0"]);
    cluster.apply(&catalog("team", &reference, None));
    until_serving(&cluster, "team");
    let manifests = extension("gadget", "gadgets", "gadget", "1.0.0", None);
    let (without, binding): (Vec<&str>, Vec<&str>) = manifests.lines().partition(|one| !one.contains("ClusterRoleBinding"));
    let account = without.iter().position(|one| one.contains("\"ServiceAccount\"")).unwrap();
    let rest: Vec<&str> = without.iter().enumerate().filter(|(index, _)| *index != account).map(|(_, one)| *one).collect();

    cluster.apply(&rest.join("\n"));
    let words = "service account \"gadget-installer\" not found in namespace \"gadgets\"";
    until_said(&cluster, "clusterextension", "gadget", "Installed", words);
    cluster.apply(without[account]);
    let said = until_said(&cluster, "clusterextension", "gadget", "Progressing", "pre-authorization failed");
    assert!(condition(&said, "Progressing")["message"].as_str().unwrap().contains("Resources:[customresourcedefinitions]"), "{said:#}");
    assert!(cluster.get(&["deployment", "gadget", "-n", "gadgets"]).is_none());
    cluster.apply(&binding.join("\n"));
    until_installed(&cluster, "gadget", "1.0.0");
}

/// Pushes files as one image, as somebody else's tool would.
fn push_files(reference: &str, files: &[(&str, Vec<u8>)]) -> String {
    push(reference, files, &[("operators.operatorframework.io.index.configs.v1", "/configs")])
}

fn push_bundle(reference: &str, bundle: &std::path::Path) -> String {
    let mut files = Vec::new();
    for folder in ["manifests", "metadata"] {
        for entry in std::fs::read_dir(bundle.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            files.push((format!("{folder}/{}", path.file_name().unwrap().to_string_lossy()), std::fs::read(path).unwrap()));
        }
    }
    let files: Vec<(&str, Vec<u8>)> = files.iter().map(|(path, bytes)| (path.as_str(), bytes.clone())).collect();
    let labels = [
        ("operators.operatorframework.io.bundle.mediatype.v1", "registry+v1"),
        ("operators.operatorframework.io.bundle.manifests.v1", "manifests/"),
        ("operators.operatorframework.io.bundle.metadata.v1", "metadata/"),
        ("operators.operatorframework.io.bundle.package.v1", "gadget"),
    ];
    push(reference, &files, &labels)
}

fn push(reference: &str, files: &[(&str, Vec<u8>)], labels: &[(&str, &str)]) -> String {
    let reference = mainstay_oci::Reference::parse(reference).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = mainstay_oci::BlobStore::open(folder.path()).unwrap();
    let platform = mainstay_oci::Platform { os: "linux".to_owned(), architecture: "amd64".to_owned(), variant: None };
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let files = files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.clone()));
    let image = mainstay_oci::ImageBuilder::new().files(files).labels(labels).platform(platform).build(&store).unwrap();
    let client = mainstay_oci::Client::new(mainstay_oci::ClientConfig::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(client.push(&image, &store, &reference)).unwrap().to_string()
}

/// The catalog says that gadget 1.1.0 is this image.
fn release_as(running: &Running, image: &str) {
    let catalog = tempfile::tempdir().unwrap();
    let bundles = tempfile::tempdir().unwrap();
    for version in ["1.0.0", "1.1.0"] {
        Toy::new("gadget", version).write(bundles.path());
    }
    let at = format!("{}/tests", running.registry.address());
    let arguments = ["catalog", "from-bundles", &bundles.path().to_string_lossy(), "--registry", &at, "--mode", "semver", "--out"];
    offline(&[&arguments[..], &[&catalog.path().to_string_lossy()]].concat()).ok();
    let file = catalog.path().join("gadget/catalog.yaml");
    let documents: Vec<Value> =
        mainstay_yaml::stream(&std::fs::read_to_string(&file).unwrap()).map(|document| document.unwrap().value).collect();
    let changed = documents.into_iter().map(|mut document| {
        if document["name"] == "gadget.v1.1.0" {
            document["image"] = image.into();
        }
        document
    });
    write(&file, &mainstay_yaml::to_multi_string(&changed.collect::<Vec<_>>()));
    push_catalog(&running.registry, catalog.path(), "latest");
}

/// Puts other bytes under the digest of an image's first layer.
fn corrupt(registry: &Registry, reference: &str) {
    let reference = mainstay_oci::Reference::parse(reference).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = mainstay_oci::BlobStore::open(folder.path()).unwrap();
    let client = mainstay_oci::Client::new(mainstay_oci::ClientConfig::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let image = runtime.block_on(client.pull(&reference, &store)).unwrap();
    registry.inner().unwrap().corrupt(&image.manifest.layers[0].digest, "something else").unwrap();
}
