//! Catalogs and bundles whose registry is down, wants a login, and comes back: seen and put right with kubectl, however catalogs are served.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use mainstay_e2e::bundles::{Toy, condition, publish};
use mainstay_e2e::{Cluster, Registry, eventually, need_embedded, need_kubectl};
use mainstay_oci::registry::Access;
use serde_json::{Value, json};

const MARKET: &str = "openshift-marketplace";
/// The longest wait for what a back-off delays.
const PATIENCE: Duration = Duration::from_secs(180);

/// A cluster, and a registry that is not always there.
struct World {
    cluster: Cluster,
    folder: PathBuf,
    port: u16,
    image: String,
    by_pods: bool,
}

impl World {
    /// A registry that had a catalog and a bundle, and is down.
    fn start(serving: &str) -> Self {
        let cluster = Cluster::up(&["--catalog-serving", serving]);
        let folder = cluster.folder().join("registry");
        let registry = Registry::kept(&folder, 0, Access::Open);
        let bundles = cluster.folder().join("bundles");
        Toy::new("gadget", "1.0.0").write(&bundles);
        let image = publish(&registry, &bundles, cluster.folder(), "latest");
        let port = registry.port();
        drop(registry);
        cluster.kubectl(&["create", "namespace", "gadgets"]).ok();
        let mut world = Self { cluster, folder, port, image, by_pods: serving == "pods" };
        world.group(&json!({}));
        world
    }

    fn registry(&self, access: Access) -> Registry {
        Registry::kept(&self.folder, self.port, access)
    }

    fn locked(&self) -> Registry {
        self.registry(Access::Basic { user: "me".into(), password: "secret".into() })
    }

    fn group(&mut self, annotations: &Value) {
        let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "group", "namespace": "gadgets", "annotations": annotations}, "spec": {"targetNamespaces": ["gadgets"]}});
        self.cluster.apply(&group.to_string());
    }

    fn subscribe(&self) {
        let subscription = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": "gadget", "namespace": "gadgets"},
            "spec": {"name": "gadget", "channel": "stable", "source": "team-catalog", "sourceNamespace": MARKET}});
        self.cluster.apply(&subscription.to_string());
    }

    fn add_catalog(&self) {
        let source = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": "team-catalog", "namespace": MARKET}, "spec": {"sourceType": "grpc", "image": self.image}});
        self.cluster.apply(&source.to_string());
    }

    fn until_state(&self, state: &str) {
        self.cluster.until(&format!("the catalog is {state}"), &["catalogsource", "team-catalog", "-n", MARKET], |source| {
            source["status"]["connectionState"]["lastObservedState"] == state
        });
    }

    /// Waits until a table has a line that begins with a name and has these words.
    fn until_line(&self, arguments: &[&str], name: &str, words: &[&str]) -> Vec<String> {
        eventually(&format!("{name} has {words:?}"), PATIENCE, || {
            let table = self.cluster.kubectl(arguments).ok();
            let lines = table.lines().map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
            let mut found = lines.filter(|line| line.first().is_some_and(|first| first.starts_with(name)));
            found.find(|line| words.iter().all(|word| line.iter().any(|found| found == word))).ok_or(table.clone())
        })
    }

    /// Waits until the description of what stands for the catalog has all of these texts: of its pod, or of the source itself.
    fn until_described(&self, texts: &[&str]) {
        eventually(&format!("{texts:?}"), PATIENCE, || {
            let described = if self.by_pods {
                self.cluster.kubectl(&["describe", "pods", "-n", MARKET, "-l", "olm.catalogSource=team-catalog"]).ok()
            } else {
                self.cluster.kubectl(&["describe", "catalogsource", "team-catalog", "-n", MARKET]).ok()
            };
            match texts.iter().find(|text| !described.contains(**text)) {
                Some(missing) => Err(format!("{missing} is not in:\n{described}")),
                None => Ok(()),
            }
        });
    }

    /// A Secret with the login, made as the documents say.
    fn login(&self, name: &str, password: &str) {
        let file = self.cluster.folder().join(format!("{name}.json"));
        let auth = json!({"auths": {(format!("127.0.0.1:{}", self.port)): {"username": "me", "password": password}}});
        std::fs::write(&file, auth.to_string()).expect("the file is written");
        let from = format!("--from-file=.dockerconfigjson={}", file.display());
        self.cluster.kubectl(&["create", "secret", "generic", name, "-n", MARKET, &from, "--type=kubernetes.io/dockerconfigjson"]).ok();
    }

    /// The global pull secret, with a login for what begins with this.
    fn global_login(&self, prefix: &str, password: &str) {
        let file = self.cluster.folder().join("global.json");
        let auth = base64::engine::general_purpose::STANDARD.encode(format!("me:{password}"));
        std::fs::write(&file, json!({"auths": {(prefix): {"auth": auth}}}).to_string()).expect("the file is written");
        let from = format!("--from-file=.dockerconfigjson={}", file.display());
        let secret = ["secret", "generic", "pull-secret", "-n", "openshift-config", &from, "--type=kubernetes.io/dockerconfigjson"];
        if self.cluster.get(&["namespace", "openshift-config"]).is_none() {
            self.cluster.kubectl(&["create", "namespace", "openshift-config"]).ok();
        }
        let made = self.cluster.kubectl(&[&["create", "--dry-run=client", "-o", "yaml"][..], &secret[..]].concat()).ok();
        self.cluster.apply(&made);
    }

    fn patch_source(&self, patch: &Value) {
        self.cluster
            .kubectl(&["patch", "catalogsource", "team-catalog", "-n", MARKET, "--type", "merge", "--patch", &patch.to_string()])
            .ok();
    }

    fn until_succeeded(&self) {
        self.cluster
            .until("the operator is there", &["csv", "gadget.v1.0.0", "-n", "gadgets"], |csv| csv["status"]["phase"] == "Succeeded");
    }
}

/// A catalog whose registry is down, then wants a login that it gets.
fn a_catalog_in_trouble(serving: &str) {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let world = World::start(serving);
    // It counts last: the login that the catalog names is preferred.
    world.global_login(&format!("127.0.0.1:{}", world.port), "guess");
    world.add_catalog();
    world.subscribe();
    let (image, at) = (&world.image, format!("127.0.0.1:{}", world.port));
    let down = format!(
        "Failed to pull image \"{image}\": rpc error: code = Unknown desc = error pinging docker registry {at}: Get \"https://{at}/v2/\": dial tcp {at}: connect: connection refused"
    );
    let pulling = format!("Pulling image \"{image}\"");
    let back_off = format!("Back-off pulling image \"{image}\"");
    world.until_described(&[&pulling, &down, "Error: ErrImagePull", &back_off]);
    world.until_state("TRANSIENT_FAILURE");
    let unhealthy = world.cluster.until("the Subscription tells", &["sub", "gadget", "-n", "gadgets"], |sub| {
        condition(sub, "CatalogSourcesUnhealthy")["status"] == "True"
    });
    assert_eq!(condition(&unhealthy, "CatalogSourcesUnhealthy")["reason"], "UnhealthyCatalogSourceFound");
    let pods = ["get", "pods", "-n", MARKET];
    if world.by_pods {
        world.until_line(&pods, "team-catalog-", &["0/1", "ImagePullBackOff"]);
        world.until_described(&["Error: ImagePullBackOff"]);
    }

    // It comes back, and wants a login; the wrong one does not help.
    let _registry = world.locked();
    let refused = format!(
        "Failed to pull image \"{image}\": rpc error: code = Unknown desc = reading manifest latest in {at}/tests/catalog: unauthorized: "
    );
    world.until_described(&[&refused]);
    world.login("wrong", "guess");
    world.patch_source(&json!({"spec": {"secrets": ["wrong"]}}));
    world.until_described(&[&refused]);
    world.login("right", "secret");
    world.patch_source(&json!({"spec": {"secrets": ["right"]}}));
    world.until_state("READY");
    if world.by_pods {
        world.until_line(&pods, "team-catalog-", &["1/1", "Running"]);
        let account = world.cluster.get(&["serviceaccount", "team-catalog", "-n", MARKET]).unwrap_or_default();
        let secrets = account["imagePullSecrets"].as_array().cloned().unwrap_or_default();
        assert!(secrets.contains(&json!({"name": "right"})) && !secrets.contains(&json!({"name": "wrong"})), "{account}");
    } else {
        assert!(!world.cluster.kubectl(&pods).ok().contains("team-catalog"), "no pod serves it");
    }
    // Its registry server answers on this machine: a source by address reads it.
    let address = world.cluster.mainstay(&["catalog", "serve-address", "team-catalog"]).ok();
    let by_address = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": "by-address", "namespace": MARKET}, "spec": {"sourceType": "grpc", "address": address.trim()}});
    world.cluster.apply(&by_address.to_string());
    world.cluster.until("the server answers", &["catalogsource", "by-address", "-n", MARKET], |source| {
        source["status"]["connectionState"]["lastObservedState"] == "READY"
    });
    world.cluster.kubectl(&["delete", "catalogsource", "by-address", "-n", MARKET]).ok();
    // The login counts for its bundles as well, and is not shown to the operator's namespace.
    world.until_succeeded();
    assert!(world.cluster.get(&["secret", "right", "-n", "gadgets"]).is_none());
}

/// OLM0-ADMIN-22, OLM0-ADMIN-35, OLM0-ADMIN-36, OLM0-CAT-10, OLM0-CAT-36, OLM0-IP-14: a catalog in trouble, as its pod shows it.
#[test]
fn a_catalog_in_trouble_shows_at_its_pod() {
    a_catalog_in_trouble("pods");
}

/// OLM0-ADMIN-22, OLM0-ADMIN-35, OLM0-ADMIN-36, OLM0-CAT-10, OLM0-CAT-34, OLM0-IP-14: a catalog in trouble that has no pod shows the same at itself.
#[test]
fn a_catalog_in_trouble_shows_at_itself() {
    a_catalog_in_trouble("in-process");
}

/// OLM0-ADMIN-37, OLM0-CAT-10: the global pull secret counts for catalogs that name none, whichever way its path is spelled, and from the next
/// pull on.
#[test]
fn the_global_pull_secret() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let world = World::start("pods");
    let _registry = world.locked();
    for path in ["tests", "tests/"] {
        world.global_login(&format!("127.0.0.1:{}/other", world.port), "secret");
        world.add_catalog();
        world.until_described(&["unauthorized: "]);
        world.global_login(&format!("127.0.0.1:{}/{path}", world.port), "secret");
        world.until_state("READY");
        world.cluster.kubectl(&["delete", "catalogsource", "team-catalog", "-n", MARKET]).ok();
        eventually("its pod is gone", PATIENCE, || {
            let pods = world.cluster.kubectl(&["get", "pods", "-n", MARKET, "-l", "olm.catalogSource=team-catalog", "-o", "name"]).ok();
            if pods.is_empty() { Ok(()) } else { Err(pods) }
        });
    }
}

/// A Subscription whose bundle cannot be pulled, refreshed once it can.
fn a_failing_subscription(serving: &str) {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let mut world = World::start(serving);
    let registry = world.registry(Access::Open);
    world.add_catalog();
    world.until_state("READY");
    drop(registry);
    world.group(&json!({"operatorframework.io/bundle-unpack-timeout": "8s"}));
    world.subscribe();
    let sub = ["sub", "gadget", "-n", "gadgets"];
    let failed = world.cluster.until("it is given up", &sub, |sub| condition(sub, "BundleUnpackFailed")["status"] == "True");
    let told = condition(&failed, "BundleUnpackFailed")["message"].as_str().unwrap_or_default().to_owned();
    assert!(told.starts_with("bundle unpacking failed. Reason: DeadlineExceeded, and Message: "), "{told}");
    let _registry = world.registry(Access::Open);
    let both = ["get", "job,configmap", "-n", MARKET, "-o", "name"];
    let named = |kind: &str| {
        let names = world.cluster.kubectl(&both).ok();
        names.lines().filter_map(|line| line.strip_prefix(kind)).find(|name| name.len() == 63).map(str::to_owned)
    };
    if world.by_pods {
        let (job, map) = (named("job.batch/"), named("configmap/"));
        assert!(job.is_some() && job == map, "{job:?} {map:?}");
        // The registry is back, which helps nothing: a failed Job stays.
        let still = world.cluster.get(&sub).unwrap_or_default();
        assert_eq!(condition(&still, "BundleUnpackFailed")["status"], "True");
    }
    world.cluster.kubectl(&["get", "sub,csv", "-n", "gadgets"]).ok();
    world.cluster.kubectl(&["delete", "subscription.operators.coreos.com", "gadget", "-n", "gadgets"]).ok();
    if let Some(name) = named("job.batch/") {
        world.cluster.kubectl(&["delete", "job", &name, "-n", MARKET]).ok();
        world.cluster.kubectl(&["delete", "configmap", &name, "-n", MARKET]).ok();
    }
    world.subscribe();
    world.until_succeeded();
    let table = world.cluster.kubectl(&["get", "sub,csv,installplan", "-n", "gadgets"]).ok();
    assert!(table.contains("gadget.v1.0.0") && table.contains("installplan"), "{table}");
    assert_eq!(named("job.batch/").is_some(), world.by_pods);
}

/// OLM0-ADMIN-12, OLM0-CAT-32, OLM0-CAT-31: a failing Subscription is refreshed by deleting it, its Job and its ConfigMap.
#[test]
fn a_failing_subscription_is_refreshed() {
    a_failing_subscription("pods");
}

/// OLM0-ADMIN-12, OLM0-CAT-34: without a Job it is refreshed by deleting it.
#[test]
fn a_failing_subscription_is_refreshed_without_job() {
    a_failing_subscription("in-process");
}
