//! OLM classic as processes of their own, with nothing but the permissions that it is deployed with.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::process::Stdio;
use std::time::Duration;

use mainstay_e2e::bundles::{Toy, offline, publish, write};
use mainstay_e2e::calls::need_calls;
use mainstay_e2e::client::get;
use mainstay_e2e::{Cluster, Registry, eventually, mainstay, need_embedded, need_kubectl};
use serde_json::{Value, json};

use crate::run::world::{LONG, Replica, TIMES, free, kubeconfig};

const HOME: &str = "openshift-operator-lifecycle-manager";
const MARKET: &str = "openshift-marketplace";
const PACKAGES: &str = "openshift-operator-lifecycle-manager/packageserver-service";
const CATALOG_LEASE: &str = "catalog-operator-lock";
const OLM_LEASE: &str = "olm-operator-lock";
const ACCOUNT: &str = "olm-operator-serviceaccount";

/// A cluster to which OLM classic was deployed.
struct Deployed {
    cluster: Cluster,
    /// Where the API server looks for the package server.
    packages: u16,
}

impl Deployed {
    fn start() -> Option<Self> {
        let packages = free();
        let cluster = Cluster::without_olm_calling(PACKAGES, packages)?;
        let flags = ["deploy", "--components", "olm-classic", "--image", "example.com/mainstay:1"];
        let asked = cluster.mainstay(&[&flags[..], &["--dry-run"]].concat()).ok();
        assert!(asked.contains("not checked by the server"), "{asked}");
        assert!(cluster.get(&["crd", "clusterserviceversions.operators.coreos.com"]).is_none(), "a dry run keeps nothing");
        let said = cluster.mainstay(&flags).ok();
        assert!(said.contains("operatorhub/cluster created"), "{said}");
        // Again: nothing is in the way, and settings are left as they are.
        let again = cluster.mainstay(&flags).ok();
        assert!(again.contains("operatorhub/cluster left as it is"), "{again}");
        Some(Self { cluster, packages })
    }

    /// A process of `mainstay run` with the token of the deployed account.
    fn replica(&self, components: &str, number: usize, flags: &[&str]) -> Replica {
        let (health, metrics, name) = (free(), free(), format!("{}-{number}", components.replace(',', "-")));
        let file = |ending: &str| self.cluster.folder().join(format!("{name}{ending}"));
        let token = self.cluster.kubectl(&["create", "token", "-n", HOME, ACCOUNT]).ok();
        let own: Value = mainstay_yaml::parse(&fs::read_to_string(self.cluster.kubeconfig()).unwrap()).unwrap();
        let authority = &own["clusters"][0]["cluster"]["certificate-authority-data"];
        let server = json!({"server": self.cluster.server(), "certificate-authority-data": authority});
        write(&file(".kubeconfig"), &kubeconfig(&server, &json!({"token": token.trim()})));
        let log = file(".log");
        let mut command = self.cluster.command(mainstay());
        command
            .args(["run", components, "--leader-elect", "--log-format=json", "--install-plan-retry-timeout=10m"])
            .args(TIMES)
            .args(flags);
        command.arg("--kubeconfig").arg(file(".kubeconfig")).arg("--cache-dir").arg(file("-cache"));
        command.arg(format!("--health-probe-bind-address=127.0.0.1:{health}"));
        command.arg(format!("--metrics-bind-address=127.0.0.1:{metrics}"));
        command.arg(format!("--package-server-address=127.0.0.1:{}", self.packages));
        // As in a pod: the Service is to lead to the leader.
        command.env("POD_IP", "10.1.2.3");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        let replica = Replica { child: command.spawn().unwrap(), log, health, metrics, external: String::new() };
        eventually("a replica is ready", LONG, || match get(replica.health, "/readyz") {
            Ok(text) if text.contains("200 OK") => Ok(()),
            other => Err(format!("{other:?}")),
        });
        replica
    }

    /// The replica that holds a Lease.
    fn leader(&self, lease: &str, replicas: &[Replica]) -> usize {
        eventually("one of the replicas leads", LONG, || {
            let lease = self.cluster.get(&["lease", "-n", HOME, lease]).ok_or("there is no Lease")?;
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
            let holds = |replica: &Replica| holder.contains(&format!("_{}-", replica.child.id()));
            replicas.iter().position(holds).ok_or(format!("the holder is {holder:?}"))
        })
    }

    fn group(&self, namespace: &str) {
        self.cluster.kubectl(&["create", "namespace", namespace]).ok();
        let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "group", "namespace": namespace}, "spec": {"targetNamespaces": [namespace]}});
        self.cluster.apply(&group.to_string());
    }

    fn subscribe(&self, namespace: &str) {
        let spec = json!({"name": "gadget", "channel": "stable", "source": "team", "sourceNamespace": MARKET});
        let subscription = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": "gadget", "namespace": namespace}, "spec": spec});
        self.cluster.apply(&subscription.to_string());
    }

    fn until_succeeded(&self, namespace: &str, csv: &str) -> Value {
        self.cluster.until(&format!("{csv} succeeds"), &["csv", csv, "-n", namespace], |csv| csv["status"]["phase"] == "Succeeded")
    }

    /// The objects of an operator: CSV, Deployment, roles and bindings, as far as they say what was asked for.
    fn made(&self, namespace: &str) -> BTreeMap<String, Value> {
        let all = self.cluster.get(&["csv,deployment,serviceaccount,role,rolebinding", "-n", namespace]).unwrap_or_default();
        let stripped = |object: &Value| {
            let mut object = object.clone();
            let place = format!("{} {}", object["kind"], object["metadata"]["name"]);
            object.as_object_mut().unwrap().retain(|member, _| ["spec", "rules", "roleRef", "subjects"].contains(&member.as_str()));
            (place, object)
        };
        all["items"].as_array().unwrap().iter().map(stripped).collect()
    }

    /// Refuses every CSV of this name, and waits until that counts.
    fn hold(&self, csv: &str) {
        let rule = json!({"apiGroups": ["operators.coreos.com"], "apiVersions": ["v1alpha1"], "operations": ["CREATE"],
            "resources": ["clusterserviceversions"]});
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "held"},
            "spec": {"matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": format!("object.metadata.name != '{csv}'"), "message": "held by the test"}]},
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "held"},
            "spec": {"policyName": "held", "validationActions": ["Deny"]},
        });
        self.cluster.apply(&format!("{policy}\n{binding}"));
        let mut probe = Toy::new("gadget", "1.0.0").csv();
        probe["metadata"] = json!({"name": csv, "namespace": "default"});
        eventually("the policy holds", LONG, || {
            let said = self.cluster.kubectl_with(&["create", "--dry-run=server", "-f", "-"], &probe.to_string());
            if said.stderr.contains("held by the test") { Ok(()) } else { Err(said.to_string()) }
        });
    }

    fn release(&self) {
        self.cluster.kubectl(&["delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "held"]).ok();
    }

    fn catalog(&self, registry: &Registry, versions: &[&'static str], tag: &str) {
        let bundles = self.cluster.folder().join(format!("bundles-{tag}"));
        for version in versions {
            Toy::new("gadget", version).write(&bundles);
        }
        let image = publish(registry, &bundles, self.cluster.folder(), tag);
        let source = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"name": "team", "namespace": MARKET},
            "spec": {"sourceType": "grpc", "image": image, "displayName": "Team"},
        });
        self.cluster.apply(&source.to_string());
        self.cluster.until("the catalog is ready", &["catalogsource", "team", "-n", MARKET], |source| {
            source["status"]["connectionState"]["lastObservedState"] == "READY"
        });
    }

    fn until_listed(&self) {
        eventually("the package is listed", Duration::from_secs(90), || {
            let table = self.cluster.kubectl(&["get", "packagemanifests", "-n", MARKET]);
            if table.stdout.contains("gadget") { Ok(()) } else { Err(table.to_string()) }
        });
    }
}

/// MS-CLI-04, OLM0-API-01, OLM0-API-27, OLM0-API-33, OLM0-IP-11: deployed permissions suffice; of two processes one works. Killed in the middle of
/// an InstallPlan, it leaves a work that the other one brings to the same end; started again, it follows.
#[test]
fn one_of_two_processes_works() {
    let (Some(()), Some(()), Some(())) = (need_kubectl(), need_embedded(), need_calls()) else { return };
    let Some(deployed) = Deployed::start() else { return };
    let cluster = &deployed.cluster;
    let registry = Registry::ours();
    let mut both: Vec<Replica> = (0..2).map(|number| deployed.replica("olm-classic", number, &[])).collect();
    deployed.catalog(&registry, &["1.0.0"], "one");
    deployed.until_listed();
    let endpoints = cluster.get(&["endpoints", "packageserver-service", "-n", HOME]).unwrap_or_default();
    assert_eq!(endpoints["subsets"][0]["addresses"][0]["ip"], "10.1.2.3", "{endpoints}");
    let written = cluster.get(&["apiservice", "v1.packages.operators.coreos.com"]).unwrap_or_default();
    assert!(written["spec"]["caBundle"].is_string(), "the API server is told of the certificate");
    cluster.until("the marketplace reports", &["operatorhub", "cluster"], |hub| hub["status"]["sources"].is_array());
    deployed.group("gadgets");
    deployed.subscribe("gadgets");
    deployed.until_succeeded("gadgets", "gadget.v1.0.0");

    // The leader dies while a step of the next plan is refused.
    let working = deployed.leader(CATALOG_LEASE, &both);
    assert_eq!(deployed.leader(OLM_LEASE, &both), working, "one process takes all Leases");
    deployed.hold("gadget.v1.1.0");
    deployed.catalog(&registry, &["1.0.0", "1.1.0"], "two");
    let plan = cluster.until("the plan is at work", &["sub", "gadget", "-n", "gadgets"], |sub| {
        sub["status"]["currentCSV"] == "gadget.v1.1.0" && sub["status"]["installPlanRef"]["name"].is_string()
    });
    let plan = plan["status"]["installPlanRef"]["name"].as_str().unwrap().to_owned();
    cluster.until("its step is refused", &["installplan", &plan, "-n", "gadgets"], |plan| {
        plan["status"]["phase"] == "Installing" && plan["status"].to_string().contains("held by the test")
    });
    both[working].child.kill().unwrap();
    both[working].child.wait().unwrap();
    deployed.release();
    deployed.until_succeeded("gadgets", "gadget.v1.1.0");
    assert_eq!(deployed.leader(CATALOG_LEASE, &both), 1 - working);
    cluster.until_gone(&["csv", "gadget.v1.0.0", "-n", "gadgets"]);
    let subscription = cluster.until("it is up to date", &["sub", "gadget", "-n", "gadgets"], |sub| {
        sub["status"]["state"] == "AtLatestKnown" && sub["status"]["installedCSV"] == "gadget.v1.1.0"
    });
    assert_eq!(subscription["status"]["installPlanRef"]["name"], plan.as_str(), "the plan was gone on with");
    deployed.until_listed();
    let after = deployed.made("gadgets");

    // Started again, it follows; what is made where nothing goes wrong is the same.
    both[working] = deployed.replica("olm-classic", 2, &[]);
    assert_eq!(deployed.leader(CATALOG_LEASE, &both), 1 - working);
    cluster.kubectl(&["delete", "sub", "gadget", "-n", "gadgets"]).ok();
    cluster.kubectl(&["delete", "csv", "gadget.v1.1.0", "-n", "gadgets"]).ok();
    cluster.until_gone(&["deployment", "gadget", "-n", "gadgets"]);
    deployed.subscribe("gadgets");
    // The newest version is installed from the head of the channel.
    deployed.until_succeeded("gadgets", "gadget.v1.1.0");
    cluster.until("it is settled", &["sub", "gadget", "-n", "gadgets"], |sub| sub["status"]["state"] == "AtLatestKnown");
    let csv = format!("{:?} {:?}", json!("ClusterServiceVersion"), "gadget.v1.1.0");
    let without_replaced = |mut made: BTreeMap<String, Value>| {
        made.remove(&csv);
        made
    };
    assert_eq!(without_replaced(after), without_replaced(deployed.made("gadgets")));

    // Removal: while there are operators their definitions stay.
    let refused = cluster.mainstay(&["deploy", "--uninstall", "--components", "olm-classic", "--delete-crds"]).exits(4);
    assert!(refused.contains("subscription gadgets/gadget"), "{refused}");
    drop(both);
    cluster.mainstay(&["deploy", "--uninstall", "--components", "olm-classic"]).ok();
    assert!(cluster.get(&["apiservice", "v1.packages.operators.coreos.com"]).is_none());
    assert!(cluster.get(&["clusterrole", "system:controller:operator-lifecycle-manager"]).is_none());
    assert!(cluster.get(&["csv", "gadget.v1.1.0", "-n", "gadgets"]).is_some(), "operators stay");
    assert!(
        cluster.get(&["namespace", "openshift-operators"]).is_some() && cluster.get(&["operatorgroup", "group", "-n", "gadgets"]).is_some()
    );
}

/// OLM0-API-01, OLM0-MET-03, COP-OLM0-04: the OLM operator, which owns CSVs and OperatorGroups, by itself installs a CSV that was written by
/// hand; the catalog operator is another process.
#[test]
fn the_operators_run_apart() {
    let (Some(()), Some(()), Some(())) = (need_kubectl(), need_embedded(), need_calls()) else { return };
    let Some(deployed) = Deployed::start() else { return };
    let cluster = &deployed.cluster;
    let olm = deployed.replica("olm-operator", 0, &[]);
    // Without a certificate both are for anybody; log levels, which a user of their own changes, are not there.
    for (path, expected) in [("/healthz", "200 OK"), ("/metrics", "# TYPE csv_count gauge"), ("/mainstay/log-level", "404 Not Found")] {
        // The controller's own metrics are there as soon as it begins.
        eventually("an endpoint answers", LONG, || match get(olm.metrics, path) {
            Ok(answer) if answer.contains(expected) => Ok(()),
            other => Err(format!("{path}: {other:?}")),
        });
    }
    deployed.group("gadgets");
    let toy = Toy::new("gadget", "1.0.0");
    cluster.apply(&toy.crd().to_string());
    let mut csv = toy.csv();
    csv["metadata"]["namespace"] = "gadgets".into();
    cluster.apply(&csv.to_string());
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "gadget", "namespace": "gadgets"}});
    cluster.apply(&account.to_string());
    cluster.until("it lacks its permissions", &["csv", "gadget.v1.0.0", "-n", "gadgets"], |csv| csv["status"]["phase"] == "Pending");
    let rbac = "rbac.authorization.k8s.io";
    let rules = &toy.csv()["spec"]["install"]["spec"]["clusterPermissions"][0]["rules"];
    let role = json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": "gadget"}, "rules": rules});
    let binding = json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "gadget"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "gadget"},
        "subjects": [{"kind": "ServiceAccount", "name": "gadget", "namespace": "gadgets"}]});
    cluster.apply(&format!("{role}\n{binding}"));
    deployed.until_succeeded("gadgets", "gadget.v1.0.0");
    assert!(cluster.get(&["catalogsource", "team", "-n", MARKET]).is_none());

    let registry = Registry::ours();
    let _catalog = deployed.replica("catalog-operator,package-server", 1, &[]);
    deployed.catalog(&registry, &["1.0.0"], "one");
    deployed.until_listed();
    cluster.kubectl(&["delete", "csv", "gadget.v1.0.0", "-n", "gadgets"]).ok();
    cluster.until_gone(&["csv", "gadget.v1.0.0", "-n", "gadgets"]);
    deployed.subscribe("gadgets");
    deployed.until_succeeded("gadgets", "gadget.v1.0.0");
}

/// MS-CLI-04, OLM0-CAT-33: what deploying prints, and the mistakes that are told at once.
#[test]
fn without_a_cluster() {
    let printed =
        offline(&["deploy", "--components", "olm-classic", "--image", "example.com/mainstay:1", "-o", "yaml", "--service-monitor"]).ok();
    for kind in
        ["CustomResourceDefinition", "OperatorHub", "OperatorGroup", "Deployment", "PodDisruptionBudget", "APIService", "PrometheusRule"]
    {
        assert!(printed.contains(&format!("kind: {kind}\n")), "{kind} is missing");
    }
    rules_are_rules(&printed);
    offline(&["deploy", "--image", "example.com/mainstay:1", "--default-catalogs", "-o", "yaml"]).exits(2);
    let refused = offline(&["run", "package-server"]).exits(2);
    assert!(refused.contains("catalog-operator"), "{refused}");
}

/// OLM0-MET-04: Prometheus' own tool accepts the alerting rules, where it is; their form is looked at everywhere.
fn rules_are_rules(printed: &str) {
    let documents = printed.split("\n---\n").filter(|document| document.contains("kind: PrometheusRule\n"));
    let rules: Vec<Value> = documents.map(|document| mainstay_yaml::parse(document).unwrap()).collect();
    assert_eq!(rules.len(), 2);
    let folder = tempfile::tempdir().unwrap();
    for rule in &rules {
        for alert in rule["spec"]["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap()) {
            let expression = alert["expr"].as_str().unwrap();
            for (opens, closes) in [('(', ')'), ('{', '}'), ('[', ']')] {
                assert_eq!(expression.matches(opens).count(), expression.matches(closes).count(), "{expression}");
            }
            assert!(alert["alert"].is_string() && alert["labels"]["severity"] == "warning", "{alert}");
        }
        let file = folder.path().join("rules.yaml");
        write(&file, &mainstay_yaml::to_string(&rule["spec"]));
        match std::process::Command::new("promtool").args(["check", "rules"]).arg(&file).output() {
            Ok(checked) => assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr)),
            Err(error) => eprintln!("promtool cannot be run ({error}): only the form of the rules was looked at"),
        }
    }
}
