//! OLM classic: what users are advised before an installation and afterwards, each piece of advice followed as it stands.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_e2e::bundles::{Toy, publish, read_yaml, write};
use mainstay_e2e::{Cluster, Options, Registry, eventually, need_embedded, need_kubectl};
use serde_json::{Value, json};
use std::time::Duration;

const MARKET: &str = "openshift-marketplace";

/// A cluster, a registry, and catalog `team` of a publisher with these bundles, each changed before it is written.
fn scene(
    arguments: &[&str],
    publisher: &str,
    toys: &[(&'static str, &'static str)],
    change: impl Fn(&mut Value, &str),
) -> (Cluster, Registry) {
    let cluster = Cluster::with(&Options { arguments, ..Options::default() });
    let registry = Registry::ours();
    let bundles = cluster.folder().join("bundles");
    for (package, version) in toys {
        let folder = Toy::new(package, version).write(&bundles);
        for file in ["csv", "crd"] {
            let path = folder.join(format!("manifests/{file}.yaml"));
            let mut object = read_yaml(&path);
            change(&mut object, version);
            write(&path, &mainstay_yaml::to_string(&object));
        }
    }
    let reference = publish(&registry, &bundles, cluster.folder(), "latest");
    let source = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"name": "team", "namespace": MARKET},
        "spec": {"sourceType": "grpc", "image": reference, "displayName": "Team", "publisher": publisher}});
    cluster.apply(&source.to_string());
    cluster.until("the catalog is ready", &["catalogsource", "team", "-n", MARKET], |source| {
        source["status"]["connectionState"]["lastObservedState"] == "READY"
    });
    (cluster, registry)
}

fn json_of(cluster: &Cluster, words: &[&str]) -> Value {
    serde_json::from_str(&cluster.mainstay(words).ok()).unwrap()
}

fn notes(explained: &Value) -> Vec<String> {
    explained["notes"].as_array().into_iter().flatten().map(|note| note.as_str().unwrap().to_owned()).collect()
}

/// The commands of the alternatives of an explanation.
fn remedies(explained: &Value) -> Vec<String> {
    let actions = explained["alternatives"].as_array().into_iter().flatten();
    actions
        .flat_map(|action| action["commands"].as_array().into_iter().flatten())
        .map(|command| command.as_str().unwrap().to_owned())
        .collect()
}

/// Carries out a command of `mainstay` as it was advised.
fn follow(cluster: &Cluster, command: &str) -> String {
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words[0], "mainstay", "{command}");
    let asks = ["install", "uninstall"].contains(&words[1]);
    cluster.mainstay(&[&words[1..], if asks { &["--yes"] } else { &[] }].concat()).ok()
}

fn subscribe(cluster: &Cluster, namespace: &str, package: &str, more: &Value) {
    let mut spec = json!({"name": package, "channel": "stable", "source": "team", "sourceNamespace": MARKET});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let subscription = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": package, "namespace": namespace}, "spec": spec});
    cluster.apply(&subscription.to_string());
}

/// OLM0-ADMIN-18: `kubectl get deployment -o yaml | grep -i PROXY -A 2` shows the cluster's proxy, then the values of the Subscription that
/// override it, all three of them.
#[test]
fn overriding_proxies_are_seen() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let (cluster, _registry) = scene(&[], "Team", &[("gadget", "1.0.0")], |_, _| {});
    let proxy = json!({"spec": {"httpProxy": "http://cluster.example:3128", "httpsProxy": "http://cluster.example:3128", "noProxy": "inside.example"}});
    cluster.kubectl(&["patch", "proxy.config.openshift.io", "cluster", "--type", "merge", "-p", &proxy.to_string()]).ok();
    cluster.until("the proxy is in the status", &["proxy.config.openshift.io", "cluster"], |proxy| {
        proxy["status"]["httpProxy"] == "http://cluster.example:3128"
    });
    // What `grep -i PROXY -A 2` would leave.
    let seen = || {
        let yaml = cluster.kubectl(&["get", "deployment", "-n", "openshift-operators", "gadget", "-o", "yaml"]).ok();
        let lines: Vec<&str> = yaml.lines().map(str::trim).collect();
        let is_shown = |at: usize| (at.saturating_sub(2)..=at).any(|near| lines[near].to_uppercase().contains("PROXY"));
        (0..lines.len()).filter(|at| is_shown(*at)).map(|at| lines[at].to_owned()).collect::<Vec<_>>()
    };
    let until_seen = |wanted: &[&str], absent: &str| {
        eventually("the deployment shows the proxy", Duration::from_secs(60), || {
            let seen = seen();
            let has = |line: &&&str| !seen.iter().any(|shown| shown == **line);
            match wanted.iter().find(has) {
                Some(line) => Err(format!("{line} is not among {seen:#?}")),
                None if seen.iter().any(|line| line.contains(absent)) => Err(format!("{absent} is among {seen:#?}")),
                None => Ok(()),
            }
        });
    };
    subscribe(&cluster, "openshift-operators", "gadget", &json!({}));
    cluster.until("it is installed", &["csv", "gadget.v1.0.0", "-n", "openshift-operators"], |csv| csv["status"]["phase"] == "Succeeded");
    until_seen(&["- name: HTTP_PROXY", "value: http://cluster.example:3128", "- name: HTTPS_PROXY", "- name: NO_PROXY"], "own.example");
    let env = json!([{"name": "HTTP_PROXY", "value": "http://own.example:8080"}, {"name": "NO_PROXY", "value": ""}]);
    subscribe(&cluster, "openshift-operators", "gadget", &json!({"config": {"env": env}}));
    // One name overrides all three: nothing of the cluster's is left, also not the one that was not named.
    until_seen(&["- name: HTTP_PROXY", "value: http://own.example:8080"], "cluster.example");
    assert!(!seen().iter().any(|line| line.contains("HTTPS_PROXY")), "{:#?}", seen());
}

/// OLM0-TENANT-02: operators that were placed together share their policy; the advised commands give one a namespace of its own, and then nothing is said.
#[test]
fn operators_placed_together() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let (cluster, _registry) = scene(&[], "Team", &[("gadget", "1.0.0"), ("gizmo", "1.0.0")], |_, _| {});
    for package in ["gadget", "gizmo"] {
        cluster.mainstay(&["install", package, "--classic", "-n", "openshift-operators", "--yes"]).ok();
    }
    let explained = json_of(&cluster, &["explain", "subscription", "gadget", "-n", "openshift-operators", "-o", "json"]);
    assert!(notes(&explained).iter().any(|note| note.contains("shares its update policy with subscription gizmo")), "{explained:#}");
    let commands = remedies(&explained);
    assert_eq!(commands.len(), 2, "{explained:#}");
    for command in &commands {
        follow(&cluster, command);
    }
    cluster.until("it runs in its own namespace", &["csv", "gadget.v1.0.0", "-n", "gadget"], |csv| csv["status"]["phase"] == "Succeeded");
    let group = cluster.get(&["operatorgroup", "gadget", "-n", "gadget"]).unwrap();
    assert_eq!(group["status"]["namespaces"], json!([""]));
    for (package, namespace) in [("gadget", "gadget"), ("gizmo", "openshift-operators")] {
        let explained = json_of(&cluster, &["explain", "subscription", package, "-n", namespace, "-o", "json"]);
        assert!(!notes(&explained).iter().any(|note| note.contains("update policy")), "{explained:#}");
        assert_eq!((remedies(&explained), &explained["state"]), (Vec::new(), &json!("healthy")), "{explained:#}");
    }
}

/// An operator for each of two tenants.
fn for_tenants(cluster: &Cluster, version: &[(&str, &str)]) {
    for (tenant, version) in version {
        cluster.kubectl(&["create", "namespace", tenant]).ok();
        let home = format!("{tenant}-operator");
        let words = [
            "install",
            "gadget",
            "--classic",
            "-n",
            &home,
            "--create-namespace",
            "--watch-namespace",
            tenant,
            "--version",
            version,
            "--yes",
        ];
        cluster.mainstay(&words).ok();
    }
}

/// OLM0-TENANT-05: an operator with a dependency that is installed for two tenants is named, by its CSV and by its OperatorGroup; with one instance left,
/// as advised, nothing is said.
#[test]
fn instances_with_dependencies() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let (cluster, _registry) = scene(&[], "Team", &[("gadget", "1.0.0"), ("gizmo", "1.0.0")], |object, _| {
        if object["metadata"]["name"] == "gadget.v1.0.0" {
            object["spec"]["customresourcedefinitions"]["required"] =
                json!([{"name": "gizmos.gizmos.example.com", "kind": "Gizmo", "version": "v1"}]);
        }
    });
    for_tenants(&cluster, &[("red", "1.0.0"), ("blue", "1.0.0")]);
    let of_csv = |tenant: &str| json_of(&cluster, &["explain", "csv", "gadget.v1.0.0", "-n", &format!("{tenant}-operator"), "-o", "json"]);
    let explained = of_csv("red");
    let is_told = |explained: &Value| notes(explained).iter().any(|note| note.contains("needs API gizmos.gizmos.example.com v1"));
    assert!(is_told(&explained), "{explained:#}");
    let group = json_of(&cluster, &["explain", "operatorgroup", "blue-operator", "-n", "blue-operator", "-o", "json"]);
    assert!(is_told(&group), "{group:#}");
    // Its dependency is there for each tenant, too, and needs nothing.
    let commands = remedies(&of_csv("blue"));
    assert_eq!(commands, ["mainstay uninstall gadget.v1.0.0 --classic -n blue-operator --even-if-needed"]);
    follow(&cluster, &commands[0]);
    eventually("one instance is left", Duration::from_secs(60), || {
        let explained = of_csv("red");
        if is_told(&explained) { Err(format!("{explained:#}")) } else { Ok(()) }
    });
}

/// OLM0-TENANT-07: two versions with different CRDs beside each other are named, with the older one; when that is brought to the same version, nothing is said.
#[test]
fn mixes_of_versions() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let (cluster, _registry) = scene(&[], "Team", &[("gadget", "1.0.0"), ("gadget", "2.0.0")], |object, version| {
        if version != "2.0.0" {
            return;
        }
        if object["kind"] == "CustomResourceDefinition" {
            let mut second = object["spec"]["versions"][0].clone();
            second["name"] = "v2".into();
            second["storage"] = false.into();
            object["spec"]["versions"].as_array_mut().unwrap().push(second);
        } else {
            let mut second = object["spec"]["customresourcedefinitions"]["owned"][0].clone();
            second["version"] = "v2".into();
            object["spec"]["customresourcedefinitions"]["owned"].as_array_mut().unwrap().push(second);
        }
    });
    for_tenants(&cluster, &[("red", "1.0.0"), ("blue", "2.0.0")]);
    let explained = json_of(&cluster, &["explain", "csv", "gadget.v2.0.0", "-n", "blue-operator", "-o", "json"]);
    let is_told = |explained: &Value| notes(explained).iter().any(|note| note.contains("different versions beside each other"));
    assert!(is_told(&explained), "{explained:#}");
    assert_eq!(remedies(&explained), ["mainstay explain csv gadget.v1.0.0 -n red-operator"]);
    assert!(follow(&cluster, &remedies(&explained)[0]).contains("csv red-operator/gadget.v1.0.0"));
    cluster.mainstay(&["upgrade", "gadget", "--classic", "-n", "red-operator", "--yes"]).ok();
    cluster.until("it is updated", &["csv", "gadget.v2.0.0", "-n", "red-operator"], |csv| csv["status"]["phase"] == "Succeeded");
    cluster.until_gone(&["csv", "gadget.v1.0.0", "-n", "red-operator"]);
    let explained = json_of(&cluster, &["explain", "csv", "gadget.v2.0.0", "-n", "blue-operator", "-o", "json"]);
    assert!(!is_told(&explained), "{explained:#}");
}

/// OLM0-HUB-08, OLM0-ADMIN-30: the category of a catalog where packages are listed, its acknowledgement and the permissions with their risks before an
/// installation, in the plan and in the InstallPlan; and the account of a group that may write CRDs.
#[test]
fn what_is_known_before_an_installation() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let (cluster, _registry) = scene(&[], "OperatorHub.io", &[("gadget", "1.0.0")], |object, _| {
        if object["kind"] == "ClusterServiceVersion" {
            let rule = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]});
            object["spec"]["install"]["spec"]["clusterPermissions"][0]["rules"].as_array_mut().unwrap().push(rule);
        }
    });
    let listed = cluster.mainstay(&["operator", "list-available", "--category", "community", "-o", "wide"]).ok();
    assert!(listed.lines().next().unwrap().ends_with("CATEGORY") && listed.lines().nth(1).unwrap().ends_with("Community"), "{listed}");
    assert!(!cluster.mainstay(&["operator", "list-available", "--category", "Red Hat"]).ok().contains("gadget"));
    let sources = cluster.mainstay(&["operator", "catalog", "list", "-A", "-o", "wide"]).ok();
    assert!(sources.lines().any(|line| line.starts_with("team") && line.ends_with("Community")), "{sources}");

    let wanted = ["install", "gadget", "--classic", "-n", "lights", "--create-namespace", "--audit", "--approval", "Manual"];
    let plan = json_of(&cluster, &[&wanted[..], &["--dry-run", "-o", "json"]].concat());
    assert_eq!(plan["acknowledges"], "Community", "{plan:#}");
    let asked = plan["permissions"].as_array().unwrap();
    let risky: Vec<&Value> = asked.iter().filter(|each| each["risks"] != json!([])).collect();
    assert_eq!(risky.len(), 2, "{plan:#}");
    let names: Vec<&str> = risky.iter().map(|each| each["risks"][0]["risk"].as_str().unwrap()).collect();
    assert_eq!(names, ["wildcard", "reads-secrets"], "{plan:#}");
    // Without a terminal only --yes acknowledges.
    let refused = cluster.mainstay(&wanted).exits(2);
    assert!(refused.contains("is of category Community") && refused.contains("may read the secrets of all namespaces"), "{refused}");
    assert!(cluster.get(&["namespace", "lights"]).is_none());
    cluster.mainstay(&[&wanted[..], &["--yes"]].concat()).ok();
    let shown = cluster.mainstay(&["approve", "subscription/gadget", "-n", "lights"]).exits(2);
    assert!(shown.contains("permissions that they ask for:") && shown.contains("may read the secrets of all namespaces"), "{shown}");

    // An account that may do everything must not be the account of a group.
    cluster.kubectl(&["create", "namespace", "scoped"]).ok();
    cluster.kubectl(&["create", "serviceaccount", "installer", "-n", "scoped"]).ok();
    let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "scoped", "namespace": "scoped"},
        "spec": {"serviceAccountName": "installer", "targetNamespaces": ["scoped"]}});
    cluster.apply(&group.to_string());
    cluster.until("the group has its account", &["operatorgroup", "scoped", "-n", "scoped"], |group| {
        group["status"]["serviceAccountRef"].is_object()
    });
    let warned = || notes(&json_of(&cluster, &["explain", "operatorgroup", "scoped", "-n", "scoped", "-o", "json"])).join("\n");
    assert!(!warned().contains("may write"), "{}", warned());
    cluster.kubectl(&["create", "clusterrolebinding", "too-much", "--clusterrole=cluster-admin", "--serviceaccount=scoped:installer"]).ok();
    assert!(warned().contains("serviceaccount scoped/installer may write CustomResourceDefinitions"), "{}", warned());
    let plan = json_of(&cluster, &["install", "gadget", "--classic", "-n", "scoped", "--dry-run", "-o", "json"]);
    assert!(notes(&plan).iter().any(|note| note.contains("may write APIServices")), "{plan:#}");
}

/// OLM0-TOKEN-05, OLM0-TOKEN-12: variables of tokens by flags of their own; on a platform that is too old for the cloud's tokens, the plan and the explanation
/// say so, and on one that is not they do not.
#[test]
fn tokens_by_version() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let (cluster, _registry) = scene(&["--platform", "gcp-wif"], "Team", &[("gadget", "1.0.0")], |object, _| {
        if object["kind"] == "ClusterServiceVersion" {
            object["metadata"]["annotations"]["features.operators.openshift.io/token-auth-gcp"] = "true".into();
        }
    });
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "clusterversions.config.openshift.io"},
        "spec": {"group": "config.openshift.io", "scope": "Cluster", "names": {"kind": "ClusterVersion", "plural": "clusterversions"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}}]}});
    cluster.apply(&definition.to_string());
    cluster.until("the kind is served", &["crd", "clusterversions.config.openshift.io"], |crd| {
        crd["status"]["conditions"].as_array().into_iter().flatten().any(|each| each["type"] == "Established" && each["status"] == "True")
    });
    let version = |version: &str| {
        let object = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"}, "status": {"desired": {"version": version}}});
        cluster.apply(&object.to_string());
    };
    let wanted = ["install", "gadget", "--classic", "-n", "caches", "--create-namespace", "--approval", "Manual"];
    let plan = |more: &[&str]| json_of(&cluster, &[&wanted[..], more, &["--dry-run", "-o", "json"]].concat());
    let given = ["--audience", "42/pool/provider", "--service-account-email", "cache@prod.iam.gserviceaccount.com"];
    version("4.16.9");
    let old = plan(&given);
    assert!(notes(&old).iter().any(|note| note.contains("version 4.16.9") && note.contains("from 4.17.0 on")), "{old:#}");
    version("4.17.0");
    let lacking = plan(&[]);
    assert!(notes(&lacking)[0].contains("lacks AUDIENCE, SERVICE_ACCOUNT_EMAIL"), "{lacking:#}");
    let complete = plan(&given);
    assert_eq!(notes(&complete), Vec::<String>::new(), "{complete:#}");
    let audience = "//iam.googleapis.com/projects/42/locations/global/workloadIdentityPools/pool/providers/provider";
    let subscription = complete["writes"].as_array().unwrap().last().unwrap();
    let env =
        json!([{"name": "AUDIENCE", "value": audience}, {"name": "SERVICE_ACCOUNT_EMAIL", "value": "cache@prod.iam.gserviceaccount.com"}]);
    assert_eq!(subscription["spec"]["config"]["env"], env, "{complete:#}");
    let malformed = cluster.mainstay(&[&wanted[..], &["--role-arn", "cache", "--yes"]].concat()).exits(2);
    assert!(malformed.contains("arn:aws:iam::ACCOUNT:role/NAME"), "{malformed}");
    cluster.mainstay(&[&wanted[..], &given[..], &["--yes"]].concat()).ok();
    version("4.16.9");
    let explained = json_of(&cluster, &["explain", "subscription", "gadget", "-n", "caches", "-o", "json"]);
    assert!(notes(&explained).iter().any(|note| note.contains("from 4.17.0 on")), "{explained:#}");
}
