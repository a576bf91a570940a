//! Plans before changes happen, saved, applied, and refused when the cluster changed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use mainstay_e2e::bundles::{self, Toy, publish, until_installed, until_serving};
use mainstay_e2e::{Cluster, Registry, eventually, need_embedded, need_kubectl};
use serde_json::{Value, json};

/// A cluster with a catalog of three versions, each replacing the one before; the last one is stricter about custom resources and brings
/// an object more.
fn world() -> (Cluster, Registry) {
    let registry = Registry::ours();
    let cluster = Cluster::up(&[]);
    let folder = cluster.folder().join("bundles");
    for version in ["1.0.0", "1.1.0", "1.2.0"] {
        let mut toy = Toy::new("gadget", version);
        if version != "1.0.0" {
            toy.spec_schema["properties"]["weight"] = json!({"type": "integer"});
        }
        if version == "1.2.0" {
            let more = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gadget-more"}, "data": {"a": "b"}});
            toy.more.push(("manifests/more.yaml".to_owned(), more));
        }
        toy.write(&folder);
    }
    let reference = publish(&registry, &folder.join("gadget"), cluster.folder(), "latest");
    cluster.apply(&bundles::catalog("toys", &reference, None));
    until_serving(&cluster, "toys");
    (cluster, registry)
}

#[track_caller]
fn plan(cluster: &Cluster, arguments: &[&str]) -> Value {
    let said = cluster.mainstay(&[&["plan"], arguments, &["--no-sizes", "-o", "json"]].concat()).ok();
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
}

fn changes(step: &Value, change: &str) -> Vec<String> {
    let objects = step["objects"].as_array().into_iter().flatten().filter(|object| object["change"] == change);
    objects.map(|object| format!("{} {}", object["kind"].as_str().unwrap(), object["name"].as_str().unwrap())).collect()
}

/// MS-PLAN-01, MS-PLAN-02, MS-CLI-06: an install is planned, saved and applied; the upgrade is planned with its path and fields; a saved
/// plan is refused when the cluster changed, and names what moved; one that was changed by hand is refused.
#[test]
fn planned_saved_applied_refused() {
    let Some(()) = need_kubectl() else { return };
    let (cluster, _registry) = world();

    // Nothing is there yet, and planning leaves nothing.
    cluster.mainstay(&["plan", "install", "nothing-like-it"]).exits(3);
    let refused = cluster.mainstay(&["plan", "install", "gadget", "--version", "9.x"]);
    assert_eq!(refused.code, Some(4), "{refused}");
    assert!(
        refused.stderr.contains("no bundles found for package \"gadget\" matching version \"9.x\"") && refused.stderr.contains("hint:"),
        "{refused}"
    );
    let install = plan(&cluster, &["install", "gadget", "--version", "1.0.0"]);
    assert_eq!((&install["kind"], &install["operation"], &install["doable"]), (&json!("Plan"), &json!("install"), &json!(true)));
    let step = &install["steps"][0];
    assert_eq!((&step["kind"], &step["bundle"]["name"]), (&json!("Install"), &json!("gadget.v1.0.0")));
    assert!(changes(step, "Created").contains(&"Deployment gadget".to_owned()), "{step:#}");
    assert!(!install["installerRights"].as_array().unwrap().is_empty());
    assert!(step["rightsGained"][0].as_str().unwrap().contains("gadgets.example.com"), "{step:#}");
    assert!(cluster.get(&["clusterextension", "gadget"]).is_none());
    assert!(cluster.get(&["namespace", "gadget-system"]).is_none());

    // Saved and applied.
    let file = cluster.folder().join("install.plan");
    let path = file.to_str().unwrap();
    let shown = cluster.mainstay(&["plan", "install", "gadget", "--version", "1.0.0", "--out", path]).ok();
    assert!(shown.contains("create    Deployment gadget-system/gadget") && shown.contains("images to pull:"), "{shown}");
    cluster.mainstay(&["apply-plan", path]).exits(2);
    let done = cluster.mainstay(&["apply-plan", path, "--yes"]).ok();
    assert!(done.contains("gadget.v1.0.0 installed in namespace gadget-system"), "{done}");
    until_installed(&cluster, "gadget", "1.0.0");
    let again = cluster.mainstay(&["apply-plan", path, "--yes"]);
    assert_eq!(again.code, Some(4), "{again}");
    assert!(again.stderr.contains("exists already"), "{again}");

    // The upgrade walks the edges, and says which fields change.
    let resource = json!({"apiVersion": "gadgets.example.com/v1", "kind": "Gadget", "metadata": {"name": "one", "namespace": "default"}, "spec": {"size": 1}});
    cluster.apply(&resource.to_string());
    let upgrade = plan(&cluster, &["upgrade", "gadget"]);
    let path_of = upgrade["steps"].as_array().unwrap().iter().map(|step| step["bundle"]["version"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(path_of, ["1.1.0", "1.2.0"], "{upgrade:#}");
    let (first, last) = (&upgrade["steps"][0], &upgrade["steps"][1]);
    assert!(changes(last, "Created").contains(&"ConfigMap gadget-more".to_owned()), "{last:#}");
    assert_eq!(first["customResourceDefinitions"][0]["existing"]["count"], 1, "{first:#}");
    let deployment = first["objects"].as_array().unwrap().iter().find(|object| object["kind"] == "Deployment").unwrap();
    let image = json!({"path": ".spec.template.spec.containers[name=manager].image", "from": "example.com/gadget:1.0.0", "to": "example.com/gadget:1.1.0"});
    assert_eq!(deployment["fields"], json!([image]), "{deployment:#}");
    assert_eq!(first["restarts"][0]["workload"], "Deployment gadget-system/gadget");

    // The world moves on: somebody scales the Deployment.
    let file = cluster.folder().join("upgrade.plan");
    let path = file.to_str().unwrap();
    cluster.mainstay(&["plan", "upgrade", "gadget", "--no-sizes", "--out", path]).ok();
    cluster.kubectl(&["annotate", "crd", "gadgets.gadgets.example.com", "note=seen"]).ok();
    let refused = cluster.mainstay(&["apply-plan", path, "--yes"]);
    assert_eq!(refused.code, Some(4), "{refused}");
    assert!(
        refused.stderr.contains("the cluster changed since the plan was saved")
            && refused.stderr.contains("CustomResourceDefinition gadgets.gadgets.example.com: was uid"),
        "{refused}"
    );
    assert_eq!(cluster.get(&["clusterextension", "gadget"]).unwrap()["status"]["install"]["bundle"]["version"], "1.0.0");

    // A file that was changed by hand is none.
    cluster.mainstay(&["plan", "upgrade", "gadget", "--no-sizes", "--out", path]).ok();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("1.2.0", "1.1.0")).unwrap();
    let refused = cluster.mainstay(&["apply-plan", path, "--yes"]);
    assert_eq!(refused.code, Some(4), "{refused}");
    assert!(refused.stderr.contains("was changed after it was written"), "{refused}");

    // As it was saved, it is done.
    std::fs::write(&file, text).unwrap();
    let done = cluster.mainstay(&["apply-plan", path, "--yes"]).ok();
    assert!(done.contains("gadget.v1.0.0 upgraded to gadget.v1.2.0"), "{done}");
    let nothing = plan(&cluster, &["upgrade", "gadget"]);
    assert_eq!((&nothing["steps"][0]["kind"], &nothing["doable"]), (&json!("Nothing"), &json!(true)), "{nothing:#}");

    // The way back, and away.
    let back = plan(&cluster, &["rollback", "gadget", "--force"]);
    assert_eq!(back["steps"][0]["bundle"]["version"], "1.1.0", "{back:#}");
    assert_eq!((&back["rollback"]["to"], back["rollback"]["verdict"].is_string()), (&json!("gadget.v1.1.0"), true), "{back:#}");
    let away = cluster.mainstay(&["plan", "uninstall", "gadget"]);
    assert_eq!(away.code, Some(4), "{away}");
    assert!(
        away.stdout.contains("delete    CustomResourceDefinition gadgets.gadgets.example.com")
            || away.stderr.contains("is deleted with its 1 custom resource"),
        "{away}"
    );
    let file = cluster.folder().join("uninstall.plan");
    cluster.mainstay(&["plan", "uninstall", "gadget", "--keep-crds", "--out", file.to_str().unwrap()]).ok();
    cluster.mainstay(&["apply-plan", file.to_str().unwrap(), "--yes"]).ok();
    assert!(cluster.get(&["clusterextension", "gadget"]).is_none());
    assert!(cluster.get(&["gadgets.gadgets.example.com", "one", "-n", "default"]).is_some());
}

/// MS-PLAN-03: each step is sent as a dry run: as the acting account where it exists, which shows a right that is taken away and a webhook
/// that refuses; as the user where it does not, which is said.
#[test]
fn verified_step_by_step() {
    let Some(()) = need_kubectl() else { return };
    let (cluster, _registry) = world();
    let install = plan(&cluster, &["install", "gadget", "--version", "1.0.0", "--verify"]);
    let verified = install["steps"][0]["verification"].as_array().unwrap();
    assert!(!verified.is_empty());
    assert!(verified.iter().all(|one| one["askedAs"].as_str().unwrap().contains("gadget-installer does not exist yet")), "{install:#}");
    let crd = verified.iter().find(|one| one["step"].as_str().unwrap().starts_with("create CustomResourceDefinition")).unwrap();
    assert_eq!(crd["accepted"], true, "{crd:#}");

    cluster.mainstay(&["install", "gadget", "--version", "1.0.0", "--yes"]).ok();
    let roles = || {
        let list = cluster.get(&["clusterroles,clusterrolebindings"]).unwrap();
        list["items"].as_array().unwrap().iter().map(|role| role["metadata"]["uid"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    let before = roles();
    let upgrade = plan(&cluster, &["upgrade", "gadget", "--version", "1.1.0", "--verify"]);
    let verified = upgrade["steps"][0]["verification"].as_array().unwrap();
    assert!(verified.iter().any(|one| one["step"].as_str().unwrap().starts_with("delete ClusterRole ")), "{upgrade:#}");
    assert_eq!(roles(), before, "a dry run deletes nothing");
    let asked_as = |kind: &str| {
        let step = verified.iter().find(|one| one["step"].as_str().unwrap().contains(kind)).unwrap();
        step["askedAs"].as_str().unwrap()
    };
    assert_eq!(asked_as("Deployment"), "service account gadget-system/gadget-installer");
    // Roles are made by name, which the account may once the plan has granted it; what they bind is not there in a dry run.
    assert_eq!(asked_as("create ClusterRole "), "you (the account gets the permission with this plan)");
    assert!(asked_as("create ClusterRoleBinding ").starts_with("you (what it binds is made by an earlier step"), "{upgrade:#}");
    assert!(verified.iter().all(|one| one["accepted"] == true), "{upgrade:#}");

    // Every bundle of the path is asked, not only the first; what a dry run cannot tell is said by object.
    let path = plan(&cluster, &["upgrade", "gadget", "--verify"]);
    let later = path["steps"][1]["verification"].as_array().unwrap();
    let said =
        |part: &str| later.iter().find(|one| one["step"].as_str().unwrap().contains(part)).unwrap_or_else(|| panic!("{part}: {path:#}"));
    assert_eq!(said("create ConfigMap gadget-system/gadget-more")["accepted"], true, "{path:#}");
    assert_eq!(said("change Deployment")["accepted"], true, "{path:#}");
    assert!(later.iter().all(|one| one["accepted"] != false), "{path:#}");
    // What the command writes itself is asked, too.
    let written = path["verification"].as_array().unwrap();
    assert!(written.iter().any(|one| one["step"] == "patch ClusterExtension gadget" && one["accepted"] == true), "{path:#}");

    // A policy that refuses the new image is only seen by asking.
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "images"},
        "spec": {"failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"]}]},
            "validations": [{"expression": "object.spec.template.spec.containers.all(c, !c.image.endsWith(':1.1.0'))", "message": "1.1.0 is not allowed here"}]}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "images"},
        "spec": {"policyName": "images", "validationActions": ["Deny"]}});
    cluster.apply(&format!("{policy}\n{binding}"));
    let refused = eventually("the policy holds", Duration::from_secs(60), || {
        let said = cluster.mainstay(&["plan", "upgrade", "gadget", "--version", "1.1.0", "--verify", "--no-sizes"]);
        if said.code == Some(4) { Ok(said) } else { Err(said.to_string()) }
    });
    assert!(refused.stdout.contains("1.1.0 is not allowed here"), "{refused}");
    assert_eq!(plan(&cluster, &["upgrade", "gadget", "--version", "1.1.0"])["doable"], true, "without --verify nobody asks");
}

/// MS-PLAN-01: rules of the new schema are run over live custom resources, and those that would lose data are named; the gates that the
/// plan counts with are those of the controller that runs.
#[test]
fn custom_resources_and_gates() {
    let Some(()) = need_embedded() else { return };
    let Some(()) = need_kubectl() else { return };
    let registry = Registry::ours();
    let cluster = Cluster::up(&["--feature-gates", "SingleOwnNamespaceInstallSupport=false"]);
    let folder = cluster.folder().join("bundles");
    for version in ["1.0.0", "1.1.0"] {
        let mut toy = Toy::new("gadget", version);
        if version == "1.1.0" {
            toy.spec_schema["properties"].as_object_mut().unwrap().remove("colour");
            toy.spec_schema["x-kubernetes-validations"] = json!([{"rule": "!has(self.size) || self.size < 10", "message": "too large"}]);
        }
        toy.write(&folder);
    }
    let reference = publish(&registry, &folder.join("gadget"), cluster.folder(), "latest");
    cluster.apply(&bundles::catalog("toys", &reference, None));
    until_serving(&cluster, "toys");
    cluster.mainstay(&["install", "gadget", "--version", "1.0.0", "--yes"]).ok();
    for (name, spec) in [("small", json!({"size": 1, "colour": "red"})), ("large", json!({"size": 11}))] {
        let resource = json!({"apiVersion": "gadgets.example.com/v1", "kind": "Gadget", "metadata": {"name": name, "namespace": "default"}, "spec": spec});
        cluster.apply(&resource.to_string());
    }
    let said = cluster.mainstay(&["plan", "upgrade", "gadget", "--no-sizes", "-o", "json"]);
    let upgrade: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let existing = &upgrade["steps"][0]["customResourceDefinitions"][0]["existing"];
    assert_eq!(
        existing["invalid"],
        json!(["default/large: spec: Invalid value: too large (rule: !has(self.size) || self.size < 10)"]),
        "{upgrade:#}"
    );
    assert_eq!(existing["losing"], json!(["default/small: spec.colour"]), "{upgrade:#}");
    let gates = upgrade["revisions"].as_array().unwrap().iter().find(|one| one["fact"] == "feature gates").unwrap();
    let was = gates["was"].as_str().unwrap();
    assert!(was.contains("SingleOwnNamespaceInstallSupport=false") && was.ends_with("(mainstay up)"), "{was}");
}

/// MS-PLAN-01, MS-PLAN-02: objects of a file, several at once, with the accounts beside them; what the plan says is what apply-plan does.
#[test]
fn objects_of_a_file() {
    let Some(()) = need_kubectl() else { return };
    let (cluster, _registry) = world();
    let file = cluster.folder().join("extension.json");
    std::fs::write(&file, bundles::extension("mine", "mine", "gadget", "1.1.0", None)).unwrap();
    let saved = cluster.folder().join("objects.plan");
    let begun = Instant::now();
    let shown = plan(&cluster, &["-f", file.to_str().unwrap(), "--out", saved.to_str().unwrap()]);
    eprintln!("planned in {} ms", begun.elapsed().as_millis());
    assert_eq!(shown["writes"].as_array().unwrap().len(), 4, "{shown:#}");
    assert_eq!((&shown["doable"], &shown["steps"][0]["bundle"]["version"]), (&json!(true), &json!("1.1.0")));
    cluster.mainstay(&["apply-plan", saved.to_str().unwrap(), "--yes"]).ok();
    until_installed(&cluster, "mine", "1.1.0");
    // The same file again changes nothing.
    let nothing = plan(&cluster, &["-f", file.to_str().unwrap()]);
    assert_eq!(nothing["steps"][0]["kind"], "Nothing", "{nothing:#}");
}

/// OLM1-CRD-07, MS-PLAN-01: an upgrade that changes a CRD unsafely is refused; it goes on when somebody says so, after the plan has named the
/// custom resources that lose data, and for the bundles of that plan alone.
#[test]
fn unsafe_definitions_are_accepted_knowingly() {
    let Some(()) = need_kubectl() else { return };
    let registry = Registry::ours();
    let cluster = Cluster::up(&[]);
    let folder = cluster.folder().join("bundles");
    for version in ["1.0.0", "1.1.0"] {
        let mut toy = Toy::new("gadget", version);
        if version == "1.0.0" {
            toy.spec_schema["properties"]["weight"] = json!({"type": "integer"});
        }
        toy.write(&folder);
    }
    let reference = publish(&registry, &folder.join("gadget"), cluster.folder(), "latest");
    cluster.apply(&bundles::catalog("toys", &reference, None));
    until_serving(&cluster, "toys");
    cluster.mainstay(&["install", "gadget", "--version", "1.0.0", "--yes"]).ok();
    let resource = json!({"apiVersion": "gadgets.example.com/v1", "kind": "Gadget", "metadata": {"name": "one", "namespace": "default"},
        "spec": {"size": 1, "weight": 7}});
    cluster.apply(&resource.to_string());

    let refused = cluster.mainstay(&["upgrade", "gadget", "--yes"]).exits(4);
    assert!(refused.contains("removed field : v1.^.spec.weight"), "{refused}");
    assert!(refused.contains("hint: mainstay upgrade gadget --crd-safety warn"), "{refused}");
    let warn = ["upgrade", "gadget", "--crd-safety", "warn"];
    let planned = cluster.mainstay(&[&["plan"], &warn[..], &["--no-sizes"]].concat()).ok();
    assert!(planned.contains("unsafe: v1: ^.spec.weight") || planned.contains("removed field : v1.^.spec.weight"), "{planned}");
    assert!(planned.contains("default/one") && planned.contains("1 custom resource would lose data"), "{planned}");
    assert!(planned.contains("unsafe changes of CRDs are accepted for gadget.v1.1.0, and for no other bundle"), "{planned}");
    cluster.mainstay(&[&warn[..], &["--yes"]].concat()).ok();
    let installed = until_installed(&cluster, "gadget", "1.1.0");
    let annotation = "lifecycle.mainstay.dev/crd-upgrade-safety";
    assert_eq!(installed["metadata"]["annotations"][annotation], "Warn:gadget.v1.1.0");

    let nothing = cluster.mainstay(&[&["plan"], &warn[..], &["--no-sizes"]].concat()).ok();
    assert!(nothing.contains("it finds nothing to accept"), "{nothing}");
    cluster.mainstay(&["upgrade", "gadget", "--crd-safety", "strict", "--yes"]).ok();
    assert_eq!(cluster.get(&["clusterextension", "gadget"]).unwrap()["metadata"]["annotations"][annotation], Value::Null);
}

/// OLM1-INST-15, MS-RB-02: what the extension asks to keep is shown before and stays, with the least permissions of its account, and an install
/// under the same name takes it up again.
#[test]
fn what_is_to_stay_stays() {
    let Some(()) = need_kubectl() else { return };
    let (cluster, _registry) = world();
    cluster.mainstay(&["install", "gadget", "--version", "1.0.0", "--yes"]).ok();
    let resource = json!({"apiVersion": "gadgets.example.com/v1", "kind": "Gadget", "metadata": {"name": "one", "namespace": "default"}, "spec": {"size": 1}});
    cluster.apply(&resource.to_string());
    let deployment = ["deployment", "gadget", "-n", "gadget-system"];
    let before = cluster.get(&deployment).unwrap();
    cluster.kubectl(&["annotate", "clusterextension", "gadget", "lifecycle.mainstay.dev/on-delete=Orphan"]).ok();

    let refused = cluster.mainstay(&["uninstall", "gadget", "--delete-crds", "--yes"]).exits(4);
    assert!(refused.contains("the extension asks that they stay"), "{refused}");
    let refused = cluster.mainstay(&["plan", "uninstall", "gadget", "--delete-crds"]).exits(4);
    assert!(refused.contains("the extension asks that they stay"), "{refused}");
    let planned = plan(&cluster, &["uninstall", "gadget"]);
    assert!(changes(&planned["steps"][0], "Deleted").is_empty(), "{planned:#}");
    assert!(changes(&planned["steps"][0], "Kept").contains(&"Deployment gadget".to_owned()), "{planned:#}");

    let done = cluster.mainstay(&["uninstall", "gadget", "--yes"]).ok();
    assert!(done.contains("everything that it installed was kept"), "{done}");
    assert!(cluster.get(&["clusterextension", "gadget"]).is_none());
    let left = cluster.get(&deployment).unwrap();
    assert_eq!((&left["metadata"]["uid"], &left["metadata"]["ownerReferences"]), (&before["metadata"]["uid"], &Value::Null));
    assert!(cluster.get(&["gadgets.gadgets.example.com", "one"]).is_some());

    cluster.mainstay(&["install", "gadget", "--version", "1.0.0", "--yes"]).ok();
    let again = until_installed(&cluster, "gadget", "1.0.0");
    let taken = cluster.get(&deployment).unwrap();
    assert_eq!(taken["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(taken["metadata"]["ownerReferences"][0]["uid"], again["metadata"]["uid"]);
}
