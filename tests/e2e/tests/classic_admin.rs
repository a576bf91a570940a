//! OLM classic: procedures for administrators and for those whom they let install, as the documentation describes them.

use std::time::Duration;

use mainstay_e2e::bundles::{Toy, condition, publish, push_catalog, read_yaml, write};
use mainstay_e2e::{Cluster, Registry, eventually, need_embedded, need_kubectl};
use serde_json::{Value, json};

const MARKET: &str = "openshift-marketplace";
const RBAC: &str = "rbac.authorization.k8s.io";

/// A cluster with a registry and catalog `team-catalog`.
struct Scene {
    cluster: Cluster,
    registry: Registry,
}

impl Scene {
    fn start(arguments: &[&str]) -> Option<Self> {
        let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return None };
        Some(Self { cluster: Cluster::up(arguments), registry: Registry::ours() })
    }

    /// Pushes a catalog of packages with these versions in `stable`, and further channels: name, package and versions.
    fn push(&self, tag: &str, packages: &[(&'static str, &[&'static str])], more: &[(&str, &str, &[&str])]) -> String {
        let bundles = self.cluster.folder().join(format!("bundles-{tag}"));
        for (package, versions) in packages {
            for version in *versions {
                let folder = Toy::new(package, version).write(&bundles);
                // Permissions for the namespace alone, as an operator for one namespace has them.
                let path = folder.join("manifests/csv.yaml");
                let mut csv = read_yaml(&path);
                let spec = &mut csv["spec"]["install"]["spec"];
                spec["permissions"] = spec["clusterPermissions"].take();
                spec.as_object_mut().unwrap().remove("clusterPermissions");
                let image = spec["deployments"][0]["spec"]["template"]["spec"]["containers"][0]["image"].clone();
                csv["spec"]["relatedImages"] = json!([{"name": "manager", "image": image}]);
                write(&path, &mainstay_yaml::to_string(&csv));
            }
        }
        let reference = publish(&self.registry, &bundles, self.cluster.folder(), tag);
        if more.is_empty() {
            return reference;
        }
        let folder = self.cluster.folder().join(format!("catalog-{tag}"));
        let stable = |package: &str| packages.iter().find(|(name, _)| *name == package).map_or(&[][..], |(_, versions)| versions);
        for (channel, package, versions) in more {
            let mut before = None;
            let mut entries = Vec::new();
            for version in *versions {
                assert!(stable(package).contains(version));
                let name = format!("{package}.v{version}");
                entries.push(before.map_or_else(|| json!({"name": name}), |before: String| json!({"name": name, "replaces": before})));
                before = Some(name);
            }
            let blob = json!({"schema": "olm.channel", "package": package, "name": channel, "entries": entries});
            write(&folder.join(format!("{package}-{channel}.json")), &blob.to_string());
        }
        push_catalog(&self.registry, &folder, tag)
    }

    fn source(&self, image: &str) {
        let source = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"name": "team-catalog", "namespace": MARKET},
            "spec": {"sourceType": "grpc", "image": image, "displayName": "Team Catalog", "publisher": "Team"},
        });
        self.cluster.apply(&source.to_string());
        self.cluster.until("the catalog is ready", &["catalogsource", "team-catalog", "-n", MARKET], |source| {
            source["spec"]["image"] == *image && source["status"]["connectionState"]["lastObservedState"] == "READY"
        });
    }

    fn group(&self, namespace: &str, spec: &Value) {
        if self.cluster.get(&["namespace", namespace]).is_none() {
            self.cluster.kubectl(&["create", "namespace", namespace]).ok();
        }
        self.cluster.apply(&group(namespace, spec));
    }

    fn subscribe(&self, namespace: &str, package: &str, change: &Value) {
        self.cluster.apply(&subscription(namespace, package, change));
    }

    fn succeeded(&self, namespace: &str, csv: &str) -> Value {
        self.cluster
            .until(&format!("{csv} succeeds in {namespace}"), &["csv", csv, "-n", namespace], |csv| csv["status"]["phase"] == "Succeeded")
    }

    /// The plan that waits for an approval and installs this CSV.
    fn waiting(&self, namespace: &str, csv: &str) -> Value {
        eventually(&format!("a plan for {csv} waits"), Duration::from_secs(60), || {
            let plans = self.cluster.get(&["installplans", "-n", namespace]).unwrap_or_default();
            let all = plans["items"].as_array().cloned().unwrap_or_default();
            let names =
                |plan: &Value| plan["spec"]["clusterServiceVersionNames"].as_array().is_some_and(|names| names.contains(&json!(csv)));
            let waits = |plan: &&Value| names(plan) && plan["status"]["phase"] == "RequiresApproval";
            all.iter().find(waits).cloned().ok_or_else(|| format!("{all:#?}"))
        })
    }

    fn approve(&self, namespace: &str, csv: &str) -> Value {
        let plan = self.waiting(namespace, csv);
        let name = plan["metadata"]["name"].as_str().unwrap_or_default();
        self.cluster
            .kubectl(&["patch", "installplan", name, "-n", namespace, "--type", "merge", "--patch", r#"{"spec":{"approved":true}}"#])
            .ok();
        plan
    }

    /// The outcome of `kubectl auth can-i` of a user.
    fn may(&self, user: &str, verb: &str, resource: &str, namespace: &str) -> bool {
        self.cluster.kubectl(&["auth", "can-i", verb, resource, "-n", namespace, "--as", user]).stdout.trim() == "yes"
    }
}

fn group(namespace: &str, spec: &Value) -> String {
    json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "group", "namespace": namespace}, "spec": spec}).to_string()
}

fn subscription(namespace: &str, package: &str, change: &Value) -> String {
    let mut spec = json!({"name": package, "channel": "stable", "source": "team-catalog", "sourceNamespace": MARKET});
    for (field, value) in change.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": {"name": package, "namespace": namespace}, "spec": spec})
        .to_string()
}

/// OLM0-ADMIN-01, OLM0-ADMIN-02, OLM0-ADMIN-03, OLM0-ADMIN-08: mode, channel, version and approval are chosen at the install; one manual operator makes those
/// of its namespace manual, and they are updated together, while one in another namespace goes on; the channel is changed later.
#[test]
fn choices_at_install() {
    let Some(scene) = Scene::start(&[]) else { return };
    scene.source(&scene.push("v1", &[("gadget", &["1.0.0"]), ("gizmo", &["1.0.0"])], &[]));
    scene.group("apps", &json!({"targetNamespaces": ["apps"]}));
    scene.group("apart", &json!({"targetNamespaces": ["apart"]}));
    scene.subscribe("apps", "gadget", &json!({"installPlanApproval": "Manual", "startingCSV": "gadget.v1.0.0"}));
    scene.approve("apps", "gadget.v1.0.0");
    scene.succeeded("apps", "gadget.v1.0.0");
    scene.subscribe("apps", "gizmo", &json!({"installPlanApproval": "Automatic"}));
    let plan = scene.approve("apps", "gizmo.v1.0.0");
    assert_eq!((&plan["spec"]["approval"], &plan["spec"]["approved"]), (&json!("Manual"), &json!(false)));
    scene.succeeded("apps", "gizmo.v1.0.0");
    scene.subscribe("apart", "gizmo", &json!({"installPlanApproval": "Automatic"}));
    scene.succeeded("apart", "gizmo.v1.0.0");
    let csv = scene.cluster.get(&["csv", "gadget.v1.0.0", "-n", "apps"]).unwrap_or_default();
    assert_eq!(csv["metadata"]["annotations"]["olm.targetNamespaces"], "apps");

    // Both have an update; the namespace of its own does not wait.
    let versions = ["1.0.0", "1.1.0", "2.0.0"];
    let fast: [(&str, &str, &[&str]); 1] = [("fast", "gadget", &["1.0.0", "1.1.0", "2.0.0"])];
    let image = scene.push("v2", &[("gadget", &versions), ("gizmo", &["1.0.0", "1.1.0"])], &fast);
    scene.source(&image);
    scene.succeeded("apart", "gizmo.v1.1.0");
    let plan = scene.waiting("apps", "gizmo.v1.1.0");
    let mut together: Vec<&str> = plan["spec"]["clusterServiceVersionNames"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    together.sort_unstable();
    assert_eq!(together, ["gadget.v1.1.0", "gizmo.v1.1.0"]);
    assert_eq!(scene.cluster.get(&["csv", "gizmo.v1.0.0", "-n", "apps"]).unwrap_or_default()["status"]["phase"], "Succeeded");
    scene.approve("apps", "gadget.v1.1.0");
    scene.succeeded("apps", "gadget.v1.1.0");
    scene.succeeded("apps", "gizmo.v1.1.0");
    // Another channel: its next version waits as the others did.
    let patch = ["patch", "sub", "gadget", "-n", "apps", "--type", "merge", "--patch", r#"{"spec":{"channel":"fast"}}"#];
    scene.cluster.kubectl(&patch).ok();
    scene.approve("apps", "gadget.v2.0.0");
    scene.succeeded("apps", "gadget.v2.0.0");
    scene.cluster.until("it follows its channel", &["sub", "gadget", "-n", "apps"], |sub| {
        sub["spec"]["channel"] == "fast" && sub["status"]["installedCSV"] == "gadget.v2.0.0" && sub["status"]["state"] == "AtLatestKnown"
    });
}

/// OLM0-ADMIN-07, OLM0-TENANT-03, OLM0-TENANT-04: an instance for each tenant, in a namespace that the tenant does not see, and a global namespace of one's own.
#[test]
fn tenants() {
    let Some(scene) = Scene::start(&[]) else { return };
    scene.source(&scene.push("v1", &[("gadget", &["1.0.0"]), ("gizmo", &["1.0.0"])], &[]));
    scene.group("shared-ops", &json!({}));
    scene.cluster.until("the group is global", &["operatorgroup", "group", "-n", "shared-ops"], |group| {
        group["status"]["namespaces"] == json!([""])
    });
    scene.subscribe("shared-ops", "gizmo", &json!({}));
    scene.succeeded("shared-ops", "gizmo.v1.0.0");
    for tenant in ["red", "blue"] {
        let home = format!("{tenant}-operator");
        scene.cluster.kubectl(&["create", "namespace", tenant]).ok();
        scene.group(&home, &json!({"targetNamespaces": [tenant]}));
        scene.subscribe(&home, "gadget", &json!({}));
        scene.succeeded(&home, "gadget.v1.0.0");
        scene
            .cluster
            .kubectl(&["create", "rolebinding", "users", "-n", tenant, "--clusterrole=edit", &format!("--user={tenant}-user")])
            .ok();
    }
    for (tenant, other) in [("red", "blue"), ("blue", "red")] {
        let (home, user) = (format!("{tenant}-operator"), format!("{tenant}-user"));
        scene.cluster.until("the tenant sees a copy", &["csv", "gadget.v1.0.0", "-n", tenant], |csv| csv["status"]["reason"] == "Copied");
        scene.cluster.until("and the global one", &["csv", "gizmo.v1.0.0", "-n", tenant], |csv| csv["status"]["reason"] == "Copied");
        let pods = scene.cluster.get(&["pods", "-n", tenant]).unwrap_or_default();
        assert_eq!(pods["items"], json!([]), "the operator's pods are elsewhere");
        let deployment = scene.cluster.get(&["deployment", "gadget", "-n", &home]).unwrap_or_default();
        assert_eq!(deployment["spec"]["template"]["metadata"]["annotations"]["olm.targetNamespaces"], tenant);
        eventually("the tenant may use the API", Duration::from_secs(30), || {
            if scene.may(&user, "create", "gadgets.gadgets.example.com", tenant) { Ok(()) } else { Err("not yet".to_owned()) }
        });
        assert!(!scene.may(&user, "get", "pods", &home) && !scene.may(&user, "create", "gadgets.gadgets.example.com", other));
        let account = format!("system:serviceaccount:{home}:gadget");
        eventually("the operator may work in its target", Duration::from_secs(30), || {
            if scene.may(&account, "update", "gadgets.gadgets.example.com", tenant) { Ok(()) } else { Err("not yet".to_owned()) }
        });
        assert!(!scene.may(&account, "get", "gadgets.gadgets.example.com", other));
    }
}

/// OLM0-ADMIN-13: a namespace that does not go because of a finalizer, and one because of a kind that cannot be read; what is told, and the way out; then the
/// operator is installed again.
#[test]
fn reinstalled_after_an_incomplete_removal() {
    let Some(scene) = Scene::start(&[]) else { return };
    let cluster = &scene.cluster;
    scene.source(&scene.push("v1", &[("gadget", &["1.0.0"])], &[]));
    scene.group("team", &json!({"targetNamespaces": ["team"]}));
    scene.subscribe("team", "gadget", &json!({}));
    scene.succeeded("team", "gadget.v1.0.0");
    let held = json!({"apiVersion": "gadgets.example.com/v1", "kind": "Gadget",
        "metadata": {"name": "held", "namespace": "team", "finalizers": ["example.com/hold"]}, "spec": {}});
    cluster.apply(&held.to_string());
    cluster.kubectl(&["delete", "namespace", "team", "--wait=false"]).ok();
    let told = cluster.until("the namespace says why it stays", &["namespace", "team"], |namespace| {
        condition(namespace, "NamespaceFinalizersRemaining")["status"] == "True"
    });
    assert_eq!(told["status"]["phase"], "Terminating");
    assert_eq!(condition(&told, "NamespaceFinalizersRemaining")["reason"], "SomeFinalizersRemain");
    assert_eq!(
        condition(&told, "NamespaceFinalizersRemaining")["message"],
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    );
    assert_eq!(condition(&told, "NamespaceContentRemaining")["reason"], "SomeResourcesRemain");
    assert_eq!(
        condition(&told, "NamespaceContentRemaining")["message"],
        "Some resources are remaining: gadgets.gadgets.example.com has 1 resource instances"
    );
    let table = cluster.kubectl(&["get", "namespaces"]).ok();
    assert!(table.lines().any(|line| line.split_whitespace().take(2).eq(["team", "Terminating"])), "{table}");
    // Nothing can be installed into it meanwhile.
    let refused = cluster.kubectl_with(&["create", "-f", "-"], &subscription("team", "gadget", &json!({})));
    assert!(refused.stderr.contains("because it is being terminated"), "{refused}");
    cluster
        .kubectl(&[
            "patch",
            "gadgets.gadgets.example.com",
            "held",
            "-n",
            "team",
            "--type",
            "merge",
            "--patch",
            r#"{"metadata":{"finalizers":null}}"#,
        ])
        .ok();
    cluster.until_gone(&["namespace", "team"]);

    // A kind whose conversion webhook does not answer.
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "relics.old.example.com"}, "spec": {
        "group": "old.example.com", "scope": "Namespaced", "names": {"kind": "Relic", "plural": "relics", "singular": "relic"},
        "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
            {"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    cluster.apply(&crd.to_string());
    cluster.kubectl(&["wait", "--for=condition=Established", "crd/relics.old.example.com"]).ok();
    cluster.kubectl(&["create", "namespace", "relic"]).ok();
    let relic = json!({"apiVersion": "old.example.com/v1", "kind": "Relic", "metadata": {"name": "one", "namespace": "relic"}});
    cluster.apply(&relic.to_string());
    // From now on v2 is stored, so that what was stored needs the webhook.
    let dead = json!([
        {"op": "replace", "path": "/spec/versions/0/storage", "value": false}, {"op": "replace", "path": "/spec/versions/1/storage", "value": true},
        {"op": "replace", "path": "/spec/versions/0/served", "value": false},
        {"op": "add", "path": "/spec/conversion", "value": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": "relic", "name": "gone", "path": "/convert"}}}}}]);
    cluster.kubectl(&["patch", "crd", "relics.old.example.com", "--type", "json", "--patch", &dead.to_string()]).ok();
    cluster.kubectl(&["delete", "namespace", "relic", "--wait=false"]).ok();
    let told = cluster.until("the namespace says what it cannot read", &["namespace", "relic"], |namespace| {
        condition(namespace, "NamespaceDeletionContentFailure")["status"] == "True"
    });
    let failure = condition(&told, "NamespaceDeletionContentFailure");
    assert_eq!(failure["reason"], "ContentDeletionFailed");
    let message = failure["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("Failed to delete all resource types, 1 remaining: "), "{message}");
    let crds = cluster.kubectl(&["get", "crds"]).ok();
    assert!(crds.contains("relics.old.example.com"), "{crds}");
    cluster.kubectl(&["delete", "crd", "relics.old.example.com", "--wait=false"]).ok();
    cluster.until_gone(&["namespace", "relic"]);

    scene.group("team", &json!({"targetNamespaces": ["team"]}));
    scene.subscribe("team", "gadget", &json!({}));
    scene.succeeded("team", "gadget.v1.0.0");
    let table = cluster.kubectl(&["get", "sub,csv,installplan", "-n", "team"]).ok();
    assert!(table.contains("gadget.v1.0.0") && table.contains("subscription.operators.coreos.com/gadget"), "{table}");
}

/// OLM0-ADMIN-27, OLM0-ADMIN-29: what the account of a group means in each of the six situations, with the minimum of permissions of the documentation.
#[test]
fn accounts_of_groups() {
    let Some(scene) = Scene::start(&[]) else { return };
    let cluster = &scene.cluster;
    scene.source(&scene.push("v1", &[("gadget", &["1.0.0"])], &[]));
    // 2 and 3: without an account everything is allowed.
    scene.group("team", &json!({"targetNamespaces": ["team"]}));
    scene.subscribe("team", "gadget", &json!({}));
    scene.succeeded("team", "gadget.v1.0.0");
    // 4: an account is added; what runs goes on, the update is made within its permissions.
    cluster.kubectl(&["create", "serviceaccount", "scoped", "-n", "team"]).ok();
    scene.group("team", &json!({"targetNamespaces": ["team"], "serviceAccountName": "scoped"}));
    cluster.until("the account is known", &["operatorgroup", "group", "-n", "team"], |group| {
        group["status"]["serviceAccountRef"]["name"] == "scoped"
    });
    scene.source(&scene.push("v2", &[("gadget", &["1.0.0", "1.1.0"])], &[]));
    let refused = eventually("the update is refused", Duration::from_secs(60), || {
        let plans = cluster.get(&["installplans", "-n", "team"]).unwrap_or_default();
        let told = plans["items"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|plan| plan["status"].to_string())
            .find(|status| status.contains("is forbidden"));
        told.ok_or_else(|| format!("{plans:#}"))
    });
    assert!(refused.contains("system:serviceaccount:team:scoped"), "{refused}");
    let running = cluster.get(&["csv", "gadget.v1.0.0", "-n", "team"]).unwrap_or_default();
    assert_eq!(running["status"]["phase"], "Succeeded", "the running operator keeps its permissions");
    // 5: the account gets the documented minimum, and what the operator itself may do.
    let every = ["list", "watch", "get", "create", "update", "patch", "delete"];
    let rules = json!([
        {"apiGroups": ["operators.coreos.com"], "resources": ["subscriptions", "clusterserviceversions"], "verbs": ["get", "create", "update", "patch"]},
        {"apiGroups": [""], "resources": ["services", "serviceaccounts", "configmaps"], "verbs": ["get", "create", "update", "patch"]},
        {"apiGroups": [RBAC], "resources": ["roles", "rolebindings"], "verbs": ["get", "create", "update", "patch"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": every},
        {"apiGroups": [""], "resources": ["pods"], "verbs": every},
        {"apiGroups": ["gadgets.example.com"], "resources": ["*"], "verbs": ["get", "list", "watch", "update"]},
    ]);
    let role =
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": {"name": "scoped", "namespace": "team"}, "rules": rules});
    let binding = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": {"name": "scoped", "namespace": "team"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "scoped"}, "subjects": [{"kind": "ServiceAccount", "name": "scoped", "namespace": "team"}]});
    cluster.apply(&format!("{role}\n{binding}"));
    scene.succeeded("team", "gadget.v1.1.0");
    cluster.until_gone(&["csv", "gadget.v1.0.0", "-n", "team"]);
    // 1: a new group whose account has what it needs.
    scene.group("second", &json!({"targetNamespaces": ["second"], "serviceAccountName": "scoped"}));
    cluster.kubectl(&["create", "serviceaccount", "scoped", "-n", "second"]).ok();
    cluster.apply(&format!("{role}\n{binding}").replace("\"team\"", "\"second\""));
    scene.subscribe("second", "gadget", &json!({}));
    scene.succeeded("second", "gadget.v1.1.0");
    // 6: without the account all is as before.
    cluster.kubectl(&["delete", "rolebinding", "scoped", "-n", "team"]).ok();
    scene.group("team", &json!({"targetNamespaces": ["team"]}));
    let patch = ["patch", "operatorgroup", "group", "-n", "team", "--type", "merge", "--patch", r#"{"spec":{"serviceAccountName":null}}"#];
    cluster.kubectl(&patch).ok();
    scene.source(&scene.push("v3", &[("gadget", &["1.0.0", "1.1.0", "1.2.0"])], &[]));
    scene.succeeded("team", "gadget.v1.2.0");
    scene.succeeded("second", "gadget.v1.2.0");
}

/// OLM0-USER-09: who may write Subscriptions in a namespace with a prepared group installs there; they make no group, and install nowhere else.
#[test]
fn who_may_install() {
    let Some(scene) = Scene::start(&[]) else { return };
    let cluster = &scene.cluster;
    scene.source(&scene.push("v1", &[("gadget", &["1.0.0"])], &[]));
    scene.group("project", &json!({"targetNamespaces": ["project"]}));
    cluster.kubectl(&["create", "namespace", "bare"]).ok();
    for namespace in ["project", "bare"] {
        cluster.kubectl(&["create", "rolebinding", "dev", "-n", namespace, "--clusterrole=edit", "--user=dev"]).ok();
    }
    let as_dev = |manifest: &str| cluster.kubectl_with(&["create", "--as=dev", "-f", "-"], manifest);
    eventually("the roles are complete", Duration::from_secs(30), || {
        if scene.may("dev", "create", "subscriptions.operators.coreos.com", "project") { Ok(()) } else { Err("not yet".to_owned()) }
    });
    as_dev(&subscription("project", "gadget", &json!({}))).ok();
    scene.succeeded("project", "gadget.v1.0.0");
    let refused = as_dev(&group("bare", &json!({})));
    assert!(refused.stderr.contains("cannot create resource \"operatorgroups\""), "{refused}");
    as_dev(&subscription("bare", "gadget", &json!({}))).ok();
    cluster.until("nothing is installed without a group", &["sub", "gadget", "-n", "bare"], |sub| {
        condition(sub, "ResolutionFailed")["message"] == "expected 1 OperatorGroup in the namespace, found 0"
    });
    let refused = as_dev(&subscription("openshift-operators", "gadget", &json!({})));
    assert!(refused.stderr.contains("cannot create resource \"subscriptions\""), "{refused}");
    // They may remove what they installed.
    cluster.kubectl(&["delete", "sub", "gadget", "-n", "project", "--as=dev"]).ok();
    cluster.kubectl(&["delete", "csv", "gadget.v1.0.0", "-n", "project", "--as=dev"]).ok();
    cluster.until_gone(&["deployment", "gadget", "-n", "project"]);
}

/// OLM0-USER-10, OLM0-USER-12: a custom resource of one's own: its paths, its names in any case, lists, finalizers; only administrators define kinds.
#[test]
fn custom_resources() {
    let Some(scene) = Scene::start(&["--nodes", "0"]) else { return };
    let cluster = &scene.cluster;
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"cronSpec": {"type": "string"}}}}}});
    let crd = |scope: &str, plural: &str, kind: &str, short: &str| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.stable.example.com")},
            "spec": {"group": "stable.example.com", "scope": scope, "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
                "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "shortNames": [short]}}})
        .to_string()
    };
    let refused = cluster.kubectl_with(&["create", "--as=dev", "-f", "-"], &crd("Namespaced", "crontabs", "CronTab", "ct"));
    assert!(refused.stderr.contains("cannot create resource \"customresourcedefinitions\""), "{refused}");
    let made = cluster.kubectl_with(&["create", "-f", "-"], &crd("Namespaced", "crontabs", "CronTab", "ct")).ok();
    assert_eq!(made.trim(), "customresourcedefinition.apiextensions.k8s.io/crontabs.stable.example.com created");
    cluster.kubectl_with(&["create", "-f", "-"], &crd("Cluster", "clocks", "Clock", "ck")).ok();
    for name in ["crontabs", "clocks"] {
        cluster.kubectl(&["wait", "--for=condition=Established", &format!("crd/{name}.stable.example.com")]).ok();
    }
    let object = json!({"apiVersion": "stable.example.com/v1", "kind": "CronTab",
        "metadata": {"name": "my-new-cron-object", "finalizers": ["stable.example.com/finalizer"]}, "spec": {"cronSpec": "* * * * /5"}});
    let made = eventually("the kind is served", Duration::from_secs(30), || {
        let made = cluster.kubectl_with(&["create", "-f", "-"], &object.to_string());
        if made.stdout.is_empty() { Err(made.to_string()) } else { Ok(made.stdout) }
    });
    assert_eq!(made.trim(), "crontab.stable.example.com/my-new-cron-object created");
    let raw = cluster.kubectl(&["get", "--raw", "/apis/stable.example.com/v1/namespaces/default/crontabs"]).ok();
    let list: Value = serde_json::from_str(&raw).unwrap();
    assert_eq!((&list["kind"], &list["items"][0]["metadata"]["name"]), (&json!("CronTabList"), &json!("my-new-cron-object")));
    let clocks: Value = serde_json::from_str(&cluster.kubectl(&["get", "--raw", "/apis/stable.example.com/v1/clocks"]).ok()).unwrap();
    assert_eq!(clocks["items"], json!([]));
    for name in ["crontabs", "crontab", "ct", "CronTab", "CRONTABS"] {
        let table = cluster.kubectl(&["get", name]).ok();
        let words: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!((words[0].as_slice(), words[1][0]), (["NAME", "AGE"].as_slice(), "my-new-cron-object"), "{name}: {table}");
    }
    let text = cluster.kubectl(&["get", "ct", "-o", "yaml"]).ok();
    let yaml = mainstay_yaml::parse(&text).unwrap();
    assert_eq!((&yaml["kind"], &yaml["items"][0]["spec"]["cronSpec"]), (&json!("List"), &json!("* * * * /5")));
    assert!(yaml["items"][0]["metadata"].get("selfLink").is_none() && yaml["items"][0]["metadata"].get("clusterName").is_none());
    cluster.kubectl(&["delete", "crontab", "my-new-cron-object", "--wait=false"]).ok();
    let waiting = cluster.get(&["crontab", "my-new-cron-object"]).unwrap_or_default();
    assert!(waiting["metadata"]["deletionTimestamp"].is_string(), "{waiting:#}");
    cluster.kubectl(&["patch", "ct", "my-new-cron-object", "--type", "merge", "--patch", r#"{"metadata":{"finalizers":[]}}"#]).ok();
    cluster.until_gone(&["crontab", "my-new-cron-object"]);
}

/// OLM0-ADMIN-40, COP-28: without the public registries: the default catalogs are switched off, a catalog comes from the mirror, and its bundles are pulled
/// from there though they name another registry.
#[test]
fn disconnected() {
    let Some(scene) = Scene::start(&["--default-catalogs"]) else { return };
    let cluster = &scene.cluster;
    cluster.until("the default catalogs are there", &["catalogsource", "redhat-operators", "-n", MARKET], |source| {
        source["metadata"]["annotations"]["operatorframework.io/managed-by"] == "marketplace-operator"
    });
    cluster.kubectl(&["delete", "catalogsource", "certified-operators", "-n", MARKET]).ok();
    cluster.until("a deleted default comes back", &["catalogsource", "certified-operators", "-n", MARKET], |source| {
        source["spec"]["image"].is_string()
    });
    let patch = r#"[{"op": "add", "path": "/spec/disableAllDefaultSources", "value": true}]"#;
    cluster.kubectl(&["patch", "OperatorHub", "cluster", "--type", "json", "-p", patch]).ok();
    for name in ["redhat-operators", "certified-operators", "community-operators"] {
        cluster.until_gone(&["catalogsource", name, "-n", MARKET]);
    }
    // The catalog's bundles are those of a registry that cannot be reached.
    let image = scene.push("v1", &[("gadget", &["1.0.0"])], &[]);
    let folder = cluster.folder().join("catalog-v1");
    let mut rewritten = 0;
    for entry in walk(&folder) {
        let text = std::fs::read_to_string(&entry).unwrap();
        let away = text.replace(scene.registry.address(), "registry.away.example");
        rewritten += usize::from(away != text);
        write(&entry, &away);
    }
    assert!(rewritten > 0, "{image}");
    let image = push_catalog(&scene.registry, &folder, "mirrored");
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "imagedigestmirrorsets.config.openshift.io"},
        "spec": {"group": "config.openshift.io", "scope": "Cluster",
            "names": {"kind": "ImageDigestMirrorSet", "plural": "imagedigestmirrorsets", "singular": "imagedigestmirrorset", "listKind": "ImageDigestMirrorSetList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    if cluster.get(&["crd", "imagedigestmirrorsets.config.openshift.io"]).is_none() {
        cluster.apply(&crd.to_string());
        cluster.kubectl(&["wait", "--for=condition=Established", "crd/imagedigestmirrorsets.config.openshift.io"]).ok();
    }
    let mirrors = json!({"apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet", "metadata": {"name": "mirror"},
        "spec": {"imageDigestMirrors": [{"source": "registry.away.example", "mirrors": [scene.registry.address()], "mirrorSourcePolicy": "NeverContactSource"}]}});
    cluster.apply(&mirrors.to_string());
    scene.source(&image);
    scene.group("team", &json!({"targetNamespaces": ["team"]}));
    scene.subscribe("team", "gadget", &json!({}));
    let csv = scene.succeeded("team", "gadget.v1.0.0");
    assert!(csv["spec"]["relatedImages"][0]["image"].is_string(), "{csv:#}");
    let plans = cluster.get(&["installplans", "-n", "team"]).unwrap_or_default();
    let path = plans["items"][0]["status"]["bundleLookups"][0]["path"].as_str().unwrap_or_default();
    assert!(path.starts_with("registry.away.example/") && path.contains("@sha256:"), "{path}");
}

/// The files below a folder.
fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
