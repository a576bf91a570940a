//! Every situation that explanations know, one after another, as text: `explained.txt` beside this file. `UPDATE_EXPECT=1` writes it again.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

use std::fmt::Write as _;
use std::path::Path;

use jiff::Timestamp;
use mainstay_olm_classic_core::explain::{
    CatalogSourceFacts, CsvFacts, Explanation, InstallPlanFacts, OperatorGroupFacts, SubscriptionFacts, catalog_source, csv, install_plan,
    operator_group, subscription,
};
use mainstay_olm_classic_core::package::Package;
use serde_json::{Value, json};

fn group(name: &str, namespaces: Value) -> Value {
    json!({"metadata": {"namespace": "lights", "name": name}, "spec": {}, "status": {"namespaces": namespaces}})
}

fn catalog(status: Value) -> Value {
    json!({"metadata": {"namespace": "market", "name": "team"}, "spec": {"sourceType": "grpc", "image": "registry.example.com/catalog:v1"}, "status": status})
}

fn ready() -> Value {
    catalog(json!({"connectionState": {"address": "team.market.svc:50051", "lastObservedState": "READY"}}))
}

fn unreadable(message: &str) -> Value {
    catalog(json!({"reason": "RegistryServerError", "message": message,
        "connectionState": {"address": "team.market.svc:50051", "lastObservedState": "TRANSIENT_FAILURE"}}))
}

fn package() -> Package {
    let channel = |name: &str, entries: &[&str]| {
        let entries: Vec<Value> = entries.iter().map(|version| json!({"name": format!("beacon.v{version}"), "version": version})).collect();
        json!({"name": name, "currentCSV": entries[0]["name"], "currentCSVDesc": {"version": entries[0]["version"]}, "entries": entries})
    };
    Package::read(&json!({"metadata": {"name": "beacon"}, "status": {
        "catalogSource": "team", "catalogSourceNamespace": "market", "defaultChannel": "stable",
        "channels": [channel("stable", &["3.0.0", "2.0.0", "1.0.0"]), channel("old", &["0.9.0"])],
    }}))
}

fn member(name: &str, phase: &str, reason: &str, message: &str) -> Value {
    json!({
        "metadata": {"namespace": "lights", "name": name},
        "spec": {"version": name.split_once(".v").map_or("", |(_, version)| version), "replaces": "",
            "installModes": [{"type": "OwnNamespace", "supported": true}, {"type": "AllNamespaces", "supported": false}],
            "customresourcedefinitions": {"owned": [{"name": "beacons.example.com"}]}},
        "status": {"phase": phase, "reason": reason, "message": message},
    })
}

fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    *object.pointer_mut(pointer).unwrap() = value;
    object
}

/// A group whose account is missing.
fn without_account() -> Value {
    json!({"metadata": {"namespace": "lights", "name": "lights"}, "spec": {"serviceAccountName": "installer"}, "status": {"namespaces": ["lights"]}})
}

fn of_csv(object: &Value, groups: &[Value], others: &[Value], conditions: &[Value], deployments: &[Value]) -> Explanation {
    let csvs: Vec<Value> = others.to_vec();
    csv(&CsvFacts { csv: object, groups, csvs: &csvs, conditions, deployments, pods: &[] })
}

fn subscribed(spec: Value, status: Value) -> Value {
    let mut object = json!({"metadata": {"namespace": "lights", "name": "beacon"},
        "spec": {"name": "beacon", "channel": "stable", "source": "team", "sourceNamespace": "market"}, "status": status});
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object
}

fn condition(kind: &str, reason: &str, message: &str) -> Value {
    json!({"conditions": [{"type": kind, "status": "True", "reason": reason, "message": message}]})
}

/// The message of OLM about a step whose kind the cluster does not serve.
fn not_served(kind: &str) -> String {
    format!(
        "api-server resource not found installing Thing a: GroupVersionKind {kind} not found on the cluster. This API may have been deprecated"
    )
}

/// The CSVs: install modes, groups, requirements, permissions, copies, upgrades (MS-EXPL-02, OLM0-TENANT-06).
fn csvs() -> Vec<Explanation> {
    let one = [group("lights", json!([""]))];
    let failed = |reason: &str, message: &str| member("beacon.v1.0.0", "Failed", reason, message);
    let requirement = |value: Value| {
        let mut object = member("beacon.v1.0.0", "Pending", "RequirementsNotMet", "one or more requirements couldn't be found");
        object["status"]["requirementStatus"] = json!([value]);
        object
    };
    let copy = with(
        member("beacon.v1.0.0", "Succeeded", "Copied", ""),
        "/metadata",
        json!({"namespace": "other", "name": "beacon.v1.0.0", "labels": {"olm.copiedFrom": "lights"}}),
    );
    let next = with(
        member("beacon.v2.0.0", "Pending", "OperatorConditionNotUpgradeable", "operator is not upgradeable"),
        "/spec/replaces",
        json!("beacon.v1.0.0"),
    );
    let busy = json!({"metadata": {"namespace": "lights", "name": "beacon.v1.0.0", "generation": 1},
        "status": {"conditions": [{"type": "Upgradeable", "status": "False", "message": "a migration is running", "observedGeneration": 1}]}});
    let rival = with(member("harbour.v1.0.0", "Succeeded", "InstallSucceeded", ""), "/metadata/namespace", json!("ports"));
    let deployment = json!({"kind": "Deployment", "metadata": {"namespace": "lights", "name": "beacon", "generation": 1}, "spec": {"replicas": 1},
        "status": {"observedGeneration": 1, "conditions": [{"type": "Available", "status": "False", "message": "minimum availability not reached"}]}});
    let scoped = [without_account()];
    let own_crd = with(
        requirement(
            json!({"kind": "CustomResourceDefinition", "name": "beacons.example.com", "version": "v1", "status": "NotPresent", "message": "CRD is not present"}),
        ),
        "/metadata",
        json!({"namespace": "lights", "name": "beacon.v1.0.0", "annotations": {
            "operatorframework.io/properties": "{\"properties\":[{\"type\":\"olm.package\",\"value\":{\"packageName\":\"beacon\",\"version\":\"1.0.0\"}}]}"}}),
    );
    let waiting =
        "installing: waiting for deployment beacon to become ready: deployment \"beacon\" not available: minimum availability not reached";
    let installing = member("beacon.v1.0.0", "Installing", "InstallWaiting", waiting);
    let mut unplaced = deployment.clone();
    unplaced["spec"]["selector"] = json!({"matchLabels": {"app": "beacon"}});
    let pod = json!({"metadata": {"namespace": "lights", "name": "beacon-x"}, "status": {"conditions": [{"type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."}]}});
    let forbidden = "install strategy failed: deployments.apps \"beacon\" is forbidden: User \"system:serviceaccount:lights:installer\" cannot \
                     create resource \"deployments\" in API group \"apps\" in the namespace \"lights\"";
    vec![
        of_csv(&failed("NoOperatorGroup", "csv in namespace with no operatorgroups"), &[], &[], &[], &[]),
        of_csv(
            &failed("TooManyOperatorGroups", "csv created in namespace with multiple operatorgroups, can't pick one automatically"),
            &[group("one", json!([""])), group("two", json!([""]))],
            &[],
            &[],
            &[],
        ),
        of_csv(
            &failed("UnsupportedOperatorGroup", "AllNamespaces InstallModeType not supported, cannot configure to watch all namespaces"),
            &one,
            &[],
            &[],
            &[],
        ),
        of_csv(
            &failed("NoTargetNamespaces", "no targetNamespaces are matched operatorgroups namespace selection"),
            &[group("lights", json!([]))],
            &[],
            &[],
            &[],
        ),
        of_csv(&failed("InterOperatorGroupOwnerConflict", "intersecting operatorgroups provide the same apis"), &one, &[rival], &[], &[]),
        of_csv(
            &requirement(
                json!({"kind": "CustomResourceDefinition", "name": "buoys.example.com", "version": "v1", "status": "NotPresent", "message": "CRD is not present"}),
            ),
            &one,
            &[],
            &[],
            &[],
        ),
        of_csv(
            &requirement(
                json!({"kind": "CustomResourceDefinition", "name": "buoys.example.com", "version": "v2", "status": "PresentNotSatisfied", "message": "CRD version not served"}),
            ),
            &one,
            &[],
            &[],
            &[],
        ),
        of_csv(
            &requirement(
                json!({"kind": "ServiceAccount", "name": "beacon", "status": "NotPresent", "message": "Service account does not exist"}),
            ),
            &one,
            &[],
            &[],
            &[],
        ),
        of_csv(
            &requirement(
                json!({"kind": "ServiceAccount", "name": "beacon", "status": "PresentNotSatisfied", "message": "Policy rule not satisfied for service account",
                "dependents": [{"kind": "PolicyRule", "status": "NotSatisfied", "message": "namespaced rule:{\"verbs\":[\"get\"],\"apiGroups\":[\"\"],\"resources\":[\"pods\"]}"},
                    {"kind": "PolicyRule", "status": "NotSatisfied", "message": "cluster rule:{\"verbs\":[\"get\"],\"nonResourceURLs\":[\"/metrics\"]}"}]}),
            ),
            &one,
            &[],
            &[],
            &[],
        ),
        of_csv(&own_crd, &one, &[], &[], &[]),
        of_csv(
            &member("beacon.v1.0.0", "InstallReady", "AllRequirementsMet", "all requirements found, attempting install"),
            &scoped,
            &[],
            &[],
            &[],
        ),
        of_csv(&member("beacon.v1.0.0", "Succeeded", "InstallSucceeded", ""), &scoped, &[], &[], &[]),
        of_csv(&next, &one, &[], &[busy], &[]),
        of_csv(&failed("InstallComponentFailedNoRetry", forbidden), &one, &[], &[], &[]),
        of_csv(&failed("ComponentUnhealthy", "installing: waiting for deployment beacon to become ready"), &one, &[], &[], &[deployment]),
        csv(&CsvFacts { csv: &installing, groups: &one, csvs: &[], conditions: &[], deployments: &[unplaced], pods: &[pod] }),
        of_csv(&copy, &one, &[], &[], &[]),
        of_csv(&member("beacon.v1.0.0", "Succeeded", "InstallSucceeded", "install strategy completed with no errors"), &one, &[], &[], &[]),
    ]
}

/// The Subscriptions: groups, catalogs, resolution, unpacking, approval, updates (MS-EXPL-04, OLM0-UPG-17).
fn subscriptions() -> Vec<Explanation> {
    let one = [group("lights", json!([""]))];
    let known = package();
    let healthy = ready();
    let ask = |object: &Value,
               groups: &[Value],
               catalog: Option<&Value>,
               package: Option<&Package>,
               plan: Option<&Value>,
               csv: Option<&Value>| {
        subscription(&SubscriptionFacts {
            namespace: None,
            subscription: object,
            siblings: &[],
            groups,
            catalog,
            catalogs: &[],
            package,
            plan,
            csv: csv.map(|csv| CsvFacts { csv, groups, csvs: &[], conditions: &[], deployments: &[], pods: &[] }),
        })
    };
    let fresh = subscribed(json!({}), json!({}));
    let unsatisfiable = "constraints not satisfiable: subscription beacon requires @team/market/stable/beacon.v3.0.0, beacon.v3.0.0 requires an operator providing an API with group: example.com, version: v1, kind: Buoy";
    let unknown =
        |message: &str| condition("ResolutionFailed", "ConstraintsNotSatisfiable", &format!("constraints not satisfiable: {message}"));
    let waiting = json!({"metadata": {"namespace": "lights", "name": "install-x"}, "spec": {"clusterServiceVersionNames": ["beacon.v3.0.0"]}, "status": {"phase": "RequiresApproval"}});
    let pending = json!({"state": "UpgradePending", "currentCSV": "beacon.v3.0.0", "installedCSV": "beacon.v2.0.0", "installPlanRef": {"name": "install-x"}});
    let begun = subscribed(
        json!({}),
        json!({"state": "AtLatestKnown", "currentCSV": "beacon.v3.0.0", "installedCSV": "beacon.v3.0.0", "installPlanRef": {"name": "install-x"}}),
    );
    let failing = with(
        waiting.clone(),
        "/status",
        json!({"phase": "Installing", "conditions": [{"type": "Installed", "status": "False", "message": not_served("apiextensions.k8s.io/v1beta1, Kind=CustomResourceDefinition")}]}),
    );
    let at = |csv: &str| subscribed(json!({}), json!({"state": "AtLatestKnown", "currentCSV": csv, "installedCSV": csv}));
    let done = |name: &str| member(name, "Succeeded", "InstallSucceeded", "");
    vec![
        ask(&fresh, &[], Some(&healthy), Some(&known), None, None),
        ask(&fresh, &one, None, None, None, None),
        ask(&fresh, &one, Some(&unreadable("dial tcp: lookup registry.example.com: no such host")), None, None, None),
        ask(
            &subscribed(json!({}), unknown("no operators found in package beacon in the catalog referenced by subscription beacon")),
            &one,
            Some(&healthy),
            None,
            None,
            None,
        ),
        ask(
            &subscribed(
                json!({"channel": "stabel"}),
                unknown("no operators found in channel stabel of package beacon in the catalog referenced by subscription beacon"),
            ),
            &one,
            Some(&healthy),
            Some(&known),
            None,
            None,
        ),
        ask(
            &subscribed(json!({"startingCSV": "beacon.v0.9.0"}), unknown("no operators found with name beacon.v0.9.0 in channel stable")),
            &one,
            Some(&healthy),
            Some(&known),
            None,
            None,
        ),
        ask(
            &subscribed(json!({}), condition("ResolutionFailed", "ConstraintsNotSatisfiable", unsatisfiable)),
            &one,
            Some(&healthy),
            Some(&known),
            None,
            None,
        ),
        ask(
            &subscribed(
                json!({}),
                unknown(
                    "bundle beacon.v3.0.0 requires an operator with package: buoy and with version in range: >=1.0.0, subscription beacon exists",
                ),
            ),
            &one,
            Some(&healthy),
            Some(&known),
            None,
            None,
        ),
        ask(
            &subscribed(
                json!({}),
                unknown(
                    "@existing/lights//harbour.v1.0.0 and team/market/stable/beacon.v3.0.0 provide Beacon (example.com/v1), subscription beacon exists",
                ),
            ),
            &one,
            Some(&healthy),
            Some(&known),
            None,
            None,
        ),
        ask(
            &subscribed(json!({}), condition("ResolutionFailed", "ErrorPreventedResolution", "failed to list bundles")),
            &one,
            Some(&healthy),
            Some(&known),
            None,
            None,
        ),
        ask(
            &subscribed(json!({}), condition("BundleUnpacking", "UnpackingInProgress", "")),
            &one,
            Some(&healthy),
            Some(&known),
            None,
            None,
        ),
        ask(
            &subscribed(
                json!({}),
                condition(
                    "BundleUnpacking",
                    "UnpackingInProgress",
                    "unpack job not completed: Unpack pod(market/x) container(pull) is pending. Reason: ImagePullBackOff, Message: dial tcp: lookup registry.example.com: no such host",
                ),
            ),
            &one,
            Some(&healthy),
            Some(&known),
            None,
            None,
        ),
        ask(
            &subscribed(
                json!({}),
                condition(
                    "BundleUnpackFailed",
                    "BundleUnpackFailed",
                    "bundle unpacking failed. Reason: DeadlineExceeded, and Message: Job was active longer than specified deadline",
                ),
            ),
            &one,
            Some(&healthy),
            Some(&known),
            None,
            None,
        ),
        ask(
            &subscribed(
                json!({}),
                condition("BundleUnpackFailed", "BundleUnpackFailed", "bundle unpacking failed. Reason: manifest unknown"),
            ),
            &one,
            Some(&healthy),
            Some(&known),
            None,
            None,
        ),
        ask(&subscribed(json!({}), pending.clone()), &one, Some(&healthy), Some(&known), Some(&waiting), None),
        ask(&subscribed(json!({}), pending), &one, Some(&healthy), Some(&known), None, None),
        ask(&at("beacon.v3.0.0"), &one, Some(&healthy), Some(&known), None, Some(&done("beacon.v3.0.0"))),
        ask(&at("beacon.v1.0.0"), &one, Some(&healthy), Some(&known), None, Some(&done("beacon.v1.0.0"))),
        ask(&at("beacon.v0.9.0"), &one, Some(&healthy), Some(&known), None, Some(&done("beacon.v0.9.0"))),
        ask(&at("beacon.v3.0.0"), &one, Some(&healthy), Some(&known), None, None),
        ask(&begun, &one, Some(&healthy), Some(&known), Some(&failing), None),
    ]
}

/// The InstallPlans (OLM0-ADMIN-33, OLM0-IP-03).
fn plans() -> Vec<Explanation> {
    let one = [group("lights", json!([""]))];
    let scoped = [without_account()];
    let escalation = "error creating role beacon: roles.rbac.authorization.k8s.io \"beacon\" is forbidden: user \"system:serviceaccount:lights:installer\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"example.com\"], Resources:[\"beacons\"], Verbs:[\"get\" \"list\"]}";
    let plan = |status: Value| json!({"metadata": {"namespace": "lights", "name": "install-x"}, "spec": {"clusterServiceVersionNames": ["beacon.v1.0.0"]}, "status": status});
    let installed = |message: &str| json!({"phase": "Failed", "conditions": [{"type": "Installed", "status": "False", "reason": "InstallComponentFailed", "message": message}]});
    let forbidden = "error creating role binding: clusterrolebindings.rbac.authorization.k8s.io \"b\" is forbidden: User \"system:serviceaccount:lights:installer\" cannot create resource \"clusterrolebindings\" in API group \"rbac.authorization.k8s.io\" at the cluster scope";
    let lookups = json!({"phase": "Planning", "bundleLookups": [{"path": "registry.example.com/beacon:v1",
        "conditions": [{"type": "BundleLookupPending", "status": "True", "reason": "JobIncomplete", "message": "unauthorized: authentication required"}]}]});
    let ask = |status: Value, groups: &[Value]| install_plan(&InstallPlanFacts { plan: &plan(status), groups });
    vec![
        ask(json!({"phase": "RequiresApproval"}), &one),
        ask(installed(forbidden), &one),
        ask(installed(escalation), &one),
        ask(installed("error validating existing CRs against new CRD's schema"), &one),
        ask(installed(&not_served("monitoring.coreos.com/v1, Kind=PrometheusRule")), &one),
        ask(installed(""), &[]),
        ask(json!({"phase": "Installing"}), &scoped),
        ask(json!({"phase": "Installing"}), &[group("lights", json!([]))]),
        ask(lookups, &one),
        ask(json!({"phase": "Complete"}), &one),
    ]
}

/// CatalogSources and OperatorGroups (OLM0-ADMIN-22, OLM0-TENANT-02).
fn others() -> Vec<Explanation> {
    let source = |source: &Value| catalog_source(&CatalogSourceFacts { source, subscriptions: &[subscribed(json!({}), json!({}))] });
    let refused = member(
        "beacon.v1.0.0",
        "Failed",
        "UnsupportedOperatorGroup",
        "AllNamespaces InstallModeType not supported, cannot configure to watch all namespaces",
    );
    let of_group = |group: &Value, csvs: &[Value]| {
        operator_group(&OperatorGroupFacts { group, groups: std::slice::from_ref(group), csvs, account_rules: &[] })
    };
    let scoped = without_account();
    let refused_login = with(
        unreadable("unauthorized: authentication required"),
        "/spec",
        json!({"sourceType": "grpc", "image": "registry.example.com/catalog:v1", "secrets": ["login"]}),
    );
    let no_node =
        unreadable("pod market/team-x has no node: 0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.");
    let unplaced = with(
        no_node,
        "/spec",
        json!({"sourceType": "grpc", "image": "registry.example.com/catalog:v1", "grpcPodConfig": {"nodeSelector": {"node-role.kubernetes.io/master": ""}}}),
    );
    let of_map = with(
        catalog(json!({"reason": "ConfigMapError", "message": "failed to get catalog config map team: configmaps \"team\" not found"})),
        "/spec",
        json!({"sourceType": "configmap", "configMap": "team"}),
    );
    vec![
        source(&ready()),
        source(&catalog(
            json!({"reason": "SpecInvalidError", "message": "image and address unset: at least one must be set for sourcetype: grpc"}),
        )),
        source(&unreadable("unauthorized: authentication required")),
        source(&unplaced),
        source(&refused_login),
        source(&of_map),
        source(&unreadable("manifest unknown")),
        source(&unreadable("x509: certificate signed by unknown authority")),
        source(&unreadable("catalog.yaml: package beacon has no default channel")),
        of_group(&group("lights", json!(["lights"])), &[]),
        of_group(&group("lights", json!([])), &[]),
        of_group(&group("lights", json!([""])), &[refused]),
        of_group(&scoped, &[]),
    ]
}

/// An instance of an operator in a namespace of its own: its version, the version of its CRD (empty for none), and further fields of its spec.
fn instance(namespace: &str, version: &str, crd: &str, more: Value) -> Value {
    let mut csv = member(&format!("beacon.v{version}"), "Succeeded", "InstallSucceeded", "install strategy completed with no errors");
    csv["metadata"]["namespace"] = namespace.into();
    let owned = if crd.is_empty() { json!([]) } else { json!([{"name": "beacons.example.com", "version": crd}]) };
    csv["spec"]["customresourcedefinitions"] = json!({"owned": owned});
    for (key, value) in more.as_object().unwrap() {
        csv["spec"][key] = value.clone();
    }
    csv
}

/// The notes and the alternatives about instances beside a CSV.
fn about_instances(csv: &Value, others: &[Value]) -> (Vec<String>, usize) {
    let found = of_csv(csv, &[group("lights", json!(["lights"]))], others, &[], &[]);
    (found.notes, found.alternatives.len())
}

/// OLM0-TENANT-05: instances beside each other are fine at one version, without dependencies and without a conversion webhook; each precondition
/// that is not met is named, with a remedy. A copy, and an operator that is there once, have none.
#[test]
fn preconditions_of_instances() {
    let plain = |namespace: &str| instance(namespace, "1.0.0", "v1", json!({}));
    let none = (Vec::new(), 0);
    assert_eq!(about_instances(&plain("a"), &[plain("a"), plain("b")]), none);
    let needs = json!({"customresourcedefinitions": {"owned": [{"name": "beacons.example.com", "version": "v1"}],
        "required": [{"name": "buoys.example.com", "version": "v1"}]}});
    let needing = |namespace: &str| instance(namespace, "1.0.0", "v1", needs.clone());
    assert_eq!(about_instances(&needing("a"), &[needing("a")]), none);
    let (notes, actions) = about_instances(&needing("a"), &[needing("a"), needing("b")]);
    assert_eq!(
        notes,
        [
            "it is installed several times (also csv b/beacon.v1.0.0), and needs API buoys.example.com v1: instances beside each other are supported only for an operator without dependencies"
        ]
    );
    assert_eq!(actions, 1);
    let mut by_property = plain("a");
    by_property["metadata"]["annotations"] = json!({"operatorframework.io/properties":
        "{\"properties\":[{\"type\":\"olm.package.required\",\"value\":{\"packageName\":\"harbour\",\"versionRange\":\">=1.0.0\"}}]}"});
    assert!(about_instances(&by_property, &[plain("b")]).0[0].contains("needs package harbour:"));
    let webhook =
        json!({"webhookdefinitions": [{"type": "ConversionWebhook", "generateName": "cbeacon"}, {"type": "ValidatingAdmissionWebhook"}]});
    let converting = |namespace: &str| instance(namespace, "1.0.0", "v1", webhook.clone());
    assert_eq!(about_instances(&converting("a"), &[converting("a")]), none);
    let (notes, actions) = about_instances(&converting("a"), &[converting("b")]);
    assert!(notes.len() == 1 && notes[0].contains("converts its custom resources by webhook cbeacon"), "{notes:?}");
    assert_eq!(actions, 1);
    let mut copy = converting("b");
    copy["metadata"]["labels"] = json!({"olm.copiedFrom": "a"});
    assert_eq!(about_instances(&converting("a"), &[copy]), none);
    // Another operator of the same dependencies is none of it.
    let mut other = needing("b");
    other["metadata"]["name"] = "harbour.v1.0.0".into();
    other["spec"]["customresourcedefinitions"]["owned"] = json!([{"name": "harbours.example.com", "version": "v1"}]);
    assert_eq!(about_instances(&needing("a"), &[other]), none);
}

/// OLM0-TENANT-07: different versions beside each other are fine with exactly the same CRDs, and with none; everything else is named.
#[test]
fn mixes_of_versions() {
    let none = (Vec::new(), 0);
    let of = |namespace: &str, version: &str, crd: &str| instance(namespace, version, crd, json!({}));
    assert_eq!(about_instances(&of("a", "1.0.0", "v1"), &[of("b", "1.1.0", "v1")]), none);
    assert_eq!(about_instances(&of("a", "1.0.0", ""), &[of("b", "1.1.0", "")]), none);
    let (notes, actions) = about_instances(&of("a", "1.0.0", "v1"), &[of("b", "2.0.0", "v2"), of("c", "1.0.0", "v1")]);
    assert_eq!(
        notes,
        [
            "csv b/beacon.v2.0.0 is of version 2.0.0, and its CRDs are not the same ones (only csv a/beacon.v1.0.0 has beacons.example.com v1; only csv b/beacon.v2.0.0 has beacons.example.com v2): different versions beside each other are supported only with exactly the same CRDs, or none"
        ]
    );
    assert_eq!(actions, 1);
    assert_eq!(about_instances(&of("a", "1.0.0", "v1"), &[of("b", "1.1.0", "")]).0.len(), 1);
    let found = of_csv(&of("a", "10.0.0", "v2"), &[], &[of("b", "9.0.0", "v1")], &[], &[]);
    let remedy = &found.alternatives[0];
    assert_eq!(remedy.commands, ["mainstay explain csv beacon.v9.0.0 -n b"]);
    let groups = [json!({"metadata": {"namespace": "a", "name": "a"}, "spec": {}, "status": {"namespaces": ["a"]}})];
    let csvs = [of("a", "1.0.0", "v1"), of("b", "2.0.0", "v2")];
    let of_group = operator_group(&OperatorGroupFacts { group: &groups[0], groups: &groups, csvs: &csvs, account_rules: &[] });
    assert!(of_group.notes.iter().any(|note| note.starts_with("csv beacon.v1.0.0: csv b/beacon.v2.0.0 is of version")), "{of_group:#?}");
}

/// OLM0-TENANT-02: strangers in a namespace for all namespaces share their policy, and the remedy is a namespace of its own; dependencies are no
/// strangers, and neither are the operators of a namespace that watches itself.
#[test]
fn default_placement() {
    let ask = |object: &Value, siblings: &[Value], targets: Value| {
        let groups = [group("global-operators", targets)];
        subscription(&SubscriptionFacts {
            namespace: None,
            subscription: object,
            siblings,
            groups: &groups,
            catalog: None,
            catalogs: &[],
            package: None,
            plan: None,
            csv: None,
        })
    };
    let remedies = |found: &Explanation| found.alternatives.iter().flat_map(|action| action.commands.clone()).collect::<Vec<_>>();
    let own = subscribed(json!({}), json!({}));
    let other = |approval: &str| with(subscribed(json!({"installPlanApproval": approval}), json!({})), "/metadata/name", json!("harbour"));
    let found = ask(&own, &[other("Automatic")], json!([""]));
    assert_eq!(
        remedies(&found),
        [
            "mainstay uninstall beacon --classic -n lights",
            "mainstay install beacon --classic -n beacon --create-namespace --all-namespaces --channel stable --catalog team/market"
        ]
    );
    assert!(
        found.notes.iter().any(|note| note.contains("shares its update policy with subscription harbour (one that is set to Manual")),
        "{found:#?}"
    );
    let found = ask(&own, &[other("Manual")], json!([""]));
    assert!(found.notes.iter().any(|note| note.contains("because subscription harbour is Manual")), "{found:#?}");
    let mut dependency = other("Automatic");
    dependency["metadata"]["annotations"] = json!({"olm.generated-by": "install-x"});
    for (object, siblings, targets) in [
        (&own, vec![], json!([""])),
        (&own, vec![dependency.clone()], json!([""])),
        (&dependency, vec![own.clone()], json!([""])),
        (&own, vec![other("Automatic")], json!(["lights"])),
    ] {
        let found = ask(object, &siblings, targets);
        assert_eq!(remedies(&found), Vec::<String>::new(), "{siblings:?}");
        assert!(!found.notes.iter().any(|note| note.contains("update policy")), "{found:#?}");
    }
}

/// OLM0-ADMIN-30: the account of a group that may write CRDs is warned of.
#[test]
fn accounts_of_groups() {
    let scoped = json!({"metadata": {"namespace": "lights", "name": "lights"}, "spec": {"serviceAccountName": "installer"},
        "status": {"namespaces": ["lights"], "serviceAccountRef": {"kind": "ServiceAccount", "name": "installer", "namespace": "lights"}}});
    let told = |verbs: &[&str]| {
        let rules = [mainstay_rbac::PolicyRule::resources(verbs, &["apiextensions.k8s.io"], &["customresourcedefinitions"])];
        let groups = [scoped.clone()];
        operator_group(&OperatorGroupFacts { group: &scoped, groups: &groups, csvs: &[], account_rules: &rules }).notes
    };
    assert!(told(&["create"])[0].starts_with("serviceaccount lights/installer may write CustomResourceDefinitions"));
    assert_eq!(told(&["get", "list"]), Vec::<String>::new());
}

/// Operators beside each other (OLM0-TENANT-02, OLM0-TENANT-05, OLM0-TENANT-07).
fn tenants() -> Vec<Explanation> {
    let global = [group("lights", json!([""]))];
    let needs = json!({"customresourcedefinitions": {"owned": [{"name": "beacons.example.com", "version": "v1"}],
        "required": [{"name": "buoys.example.com", "version": "v1"}]}});
    let together = subscription(&SubscriptionFacts {
        namespace: None,
        subscription: &subscribed(json!({}), json!({})),
        siblings: &[with(subscribed(json!({"installPlanApproval": "Manual"}), json!({})), "/metadata/name", json!("harbour"))],
        groups: &global,
        catalog: None,
        catalogs: &[],
        package: None,
        plan: None,
        csv: None,
    });
    let needing = |namespace: &str| instance(namespace, "1.0.0", "v1", needs.clone());
    vec![
        together,
        of_csv(&needing("a"), &[], &[needing("b")], &[], &[]),
        of_csv(&instance("a", "1.0.0", "v1", json!({})), &[], &[instance("b", "2.0.0", "v2", json!({}))], &[], &[]),
    ]
}

/// MS-EXPL-02, MS-EXPL-04, OLM0-ADMIN-12, OLM0-ADMIN-33, OLM0-UPG-17, OLM0-TENANT-06: every situation has its cause and one next action.
#[test]
fn situations() {
    let all: Vec<Explanation> = [csvs(), subscriptions(), plans(), others(), tenants()].concat();
    let mut text = String::new();
    for each in &all {
        let is_quiet = matches!(each.situation, "healthy" | "complete" | "unpacking" | "install-plan-missing");
        assert!(is_quiet || each.next.is_some(), "{} has no next action: {each:#?}", each.situation);
        writeln!(text, "# {}\n{}", each.situation, each.text(Timestamp::UNIX_EPOCH)).unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/explained.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert!(text == expected, "explained.txt differs; UPDATE_EXPECT=1 writes it again:\n{text}");
}

/// MS-EXPL-05: the unhealthy catalog of others is to blame only where the cluster says that it stops this Subscription.
#[test]
fn blame_lands_on_one_object() {
    let one = [group("lights", json!([""]))];
    let (healthy, bad) = (ready(), with(unreadable("no such host"), "/metadata/name", json!("other")));
    let known = package();
    let csv = member("beacon.v3.0.0", "Succeeded", "InstallSucceeded", "");
    let ask = |object: &Value| {
        let facts = CsvFacts { csv: &csv, groups: &one, csvs: &[], conditions: &[], deployments: &[], pods: &[] };
        subscription(&SubscriptionFacts {
            namespace: None,
            subscription: object,
            siblings: &[],
            groups: &one,
            catalog: Some(&healthy),
            catalogs: std::slice::from_ref(&bad),
            package: Some(&known),
            plan: None,
            csv: Some(facts),
        })
    };
    let settled = json!({"state": "AtLatestKnown", "currentCSV": "beacon.v3.0.0", "installedCSV": "beacon.v3.0.0"});
    assert_eq!(ask(&subscribed(json!({}), settled)).situation, "healthy");
    let stopped =
        ask(&subscribed(json!({}), condition("ResolutionFailed", "ErrorPreventedResolution", "error using catalogsource market/other")));
    assert_eq!(stopped.situation, "catalog-unhealthy");
    assert!(stopped.why.iter().any(|why| why.starts_with("catalogsource market/other")), "{stopped:#?}");
    assert_eq!(stopped.notes, ["it goes on without that catalog: kubectl delete catalogsource other -n market"]);
}
