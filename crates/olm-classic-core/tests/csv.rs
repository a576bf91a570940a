//! The state machine of ClusterServiceVersions: every edge of OLM0-CSV-05, and the group checks of OLM0-CSV-04 in their order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use mainstay_olm_classic_core::csv::{
    Action, ApiServiceFacts, Definition, Facts, Group, Member, PermissionFacts, Phase, Plan, Serving, Transition, WebhookConfiguration,
    api_labels, desired, next_status, plan,
};
use mainstay_olm_classic_core::deployments::{Authority, Write};
use mainstay_olm_classic_core::groups::OperatorGroup;
use mainstay_olm_classic_core::overrides::SubscriptionConfig;
use serde_json::{Value, json};

const NOW: i64 = 10_000;

/// A namespace `home` with one CSV, `widgets.v1`, whose requirements are met.
struct World {
    csv: Value,
    siblings: Vec<Value>,
    groups: Vec<Value>,
    providers: Vec<OperatorGroup>,
    version: &'static str,
    definitions: BTreeMap<String, Arc<Definition>>,
    api_services: BTreeMap<String, ApiServiceFacts>,
    accounts: BTreeMap<String, Value>,
    policy: Vec<Value>,
    deployments: BTreeMap<String, Value>,
    services: BTreeSet<String>,
    certificates: BTreeMap<String, Serving>,
    webhooks: Vec<WebhookConfiguration>,
    condition: Option<Value>,
    changed: bool,
}

fn csv(name: &str, phase: &str, reason: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "namespace": "home", "uid": name, "annotations":
            {"olm.operatorGroup": "g", "olm.operatorNamespace": "home", "olm.targetNamespaces": ""}},
        "spec": {
            "displayName": "Widgets", "version": "1.0.0",
            "installModes": [{"type": "AllNamespaces", "supported": true}],
            "customresourcedefinitions": {"owned": [{"name": "widgets.example.com", "kind": "Widget", "version": "v1"}]},
            "install": {"strategy": "deployment", "spec": {
                "clusterPermissions": [{"serviceAccountName": "widgets", "rules": [
                    {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}]}],
                "deployments": [{"name": "widgets", "spec": {
                    "replicas": 1, "selector": {"matchLabels": {"app": "widgets"}},
                    "template": {"metadata": {"labels": {"app": "widgets"}}, "spec": {"serviceAccountName": "widgets",
                        "containers": [{"name": "manager", "image": "example.com/widgets:1"}]}}}}],
            }},
        },
        "status": {"phase": phase, "reason": reason, "lastTransitionTime": Timestamp::from_second(NOW).unwrap().to_string()},
    })
}

fn group(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "home", "annotations": {"olm.providedAPIs": "Widget.v1.example.com"}},
        "spec": {}, "status": {"namespaces": [""]}})
}

impl World {
    fn at(phase: &str, reason: &str) -> Self {
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "b"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "widgets", "namespace": "home"}]});
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
        let definition =
            Definition { uid: "crd".to_owned(), served: BTreeSet::from(["v1".to_owned()]), is_established: true, ..Definition::default() };
        Self {
            csv: csv("widgets.v1", phase, reason),
            siblings: Vec::new(),
            groups: vec![group("g")],
            providers: Vec::new(),
            version: "v1.33.1",
            definitions: BTreeMap::from([("widgets.example.com".to_owned(), Arc::new(definition))]),
            api_services: BTreeMap::new(),
            accounts: BTreeMap::from([("widgets".to_owned(), json!([]))]),
            policy: vec![binding, role],
            deployments: BTreeMap::new(),
            services: BTreeSet::new(),
            certificates: BTreeMap::new(),
            webhooks: Vec::new(),
            condition: None,
            changed: false,
        }
    }

    fn with<T>(&self, now: i64, read: impl FnOnce(&Facts<'_>) -> T) -> T {
        let mut member = Member::read(&self.csv);
        if self.csv["metadata"]["labels"].is_null() {
            let labels = api_labels(member.provided.as_deref().unwrap_or(&BTreeSet::new()), &member.required);
            Arc::make_mut(&mut member.csv).labels = labels;
        }
        let siblings: Vec<_> = self.siblings.iter().map(|sibling| Arc::new(Member::read(sibling))).collect();
        let groups: Vec<_> = self.groups.iter().map(|group| Arc::new(Group::read(group))).collect();
        let mut permissions = PermissionFacts { accounts: self.accounts.clone(), ..PermissionFacts::default() };
        let demanding = mainstay_olm_classic_core::rules::Demanding { name: member.name(), uid: &member.uid };
        for object in &self.policy {
            permissions.granted.add(object, demanding).unwrap();
        }
        let config = SubscriptionConfig::default();
        read(&Facts {
            now: Timestamp::from_second(now).unwrap(),
            csv: &member,
            siblings: &siblings,
            groups: &groups,
            providers: &self.providers,
            server_version: self.version,
            definitions: &self.definitions,
            api_services: &self.api_services,
            served: &BTreeSet::new(),
            permissions: &permissions,
            deployments: &self.deployments,
            services: &self.services,
            certificates: &self.certificates,
            webhooks: &self.webhooks,
            config: &config,
            proxy: &[],
            condition: self.condition.as_ref(),
            permissions_changed: self.changed,
        })
    }

    fn plan(&self) -> Plan {
        self.with(NOW, plan)
    }

    /// The Deployments as the installation made them, available.
    fn install(&mut self) {
        let authority = self.certificates.values().next().map(|serving| serving.authority.clone());
        let wanted = self.with(NOW, |facts| desired(facts, authority.as_ref())).unwrap();
        for mut deployment in wanted.deployments {
            deployment["status"] = json!({"replicas": 1, "updatedReplicas": 1, "conditions": [{"type": "Available", "status": "True"}]});
            self.deployments.insert(deployment["metadata"]["name"].as_str().unwrap().to_owned(), deployment);
        }
        for write in wanted.after {
            if let Write::Create { resource, object } = write {
                let label = |name: &str| object["metadata"]["labels"][name].as_str().unwrap_or_default().to_owned();
                self.webhooks.push(WebhookConfiguration {
                    resource,
                    name: "made".to_owned(),
                    generate_name: label("olm.webhook-description-generate-name"),
                    hash: label("olm.webhook-description-hash"),
                    bundle: object["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap().to_owned(),
                });
            }
        }
    }

    fn deployment(&mut self) -> &mut Value {
        self.deployments.get_mut("widgets").unwrap()
    }

    /// A webhook, and a certificate for its Deployment.
    fn webhook(&mut self) {
        self.csv["spec"]["webhookdefinitions"] = json!([{"type": "ValidatingAdmissionWebhook", "generateName": "check.example.com",
            "deploymentName": "widgets", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["widgets"]}]}]);
        self.services.insert("widgets-service".to_owned());
        let authority = Authority { bundle: "Q0E=".to_owned(), hash: "abc".to_owned() };
        let rotates_at = Timestamp::from_second(NOW + 3600).unwrap();
        self.certificates.insert("widgets".to_owned(), Serving { told_hash: authority.hash.clone(), authority, is_due: false, rotates_at });
    }
}

#[track_caller]
fn leads(world: &World, phase: &str, reason: &str, message: &str) -> Plan {
    let plan = world.plan();
    let to = plan.transition.clone().unwrap_or_else(|| panic!("no transition: {plan:?}"));
    assert_eq!((to.phase.as_str(), to.reason.as_str(), to.message.as_str()), (phase, reason, message));
    plan
}

#[track_caller]
fn waits(world: &World) -> Plan {
    let plan = world.plan();
    assert_eq!((&plan.transition, &plan.action), (&None, &Action::None));
    plan
}

fn sibling(name: &str, phase: &str, replaces: &str) -> Value {
    let mut other = csv(name, phase, "InstallSucceeded");
    other["spec"]["replaces"] = json!(replaces);
    other
}

/// OLM0-CSV-04: no group, several groups, annotations, targets, duplicate and unsupported modes, in this order.
#[test]
fn group_checks() {
    let mut world = World::at("Succeeded", "InstallSucceeded");
    world.groups.clear();
    leads(&world, "Failed", "NoOperatorGroup", "csv in namespace with no operatorgroups");
    world.groups = vec![group("g"), group("h")];
    let several = "csv created in namespace with multiple operatorgroups, can't pick one automatically";
    leads(&world, "Failed", "TooManyOperatorGroups", several);
    world.groups = vec![group("h")];
    let Action::Mark { annotations, labels } = world.plan().action else { panic!("the annotations differ") };
    assert_eq!((annotations.len(), annotations.get("olm.operatorGroup").map(String::as_str), labels.len()), (1, Some("h"), 0));
    world.groups = vec![group("g")];
    world.groups[0]["status"] = json!({});
    waits(&world);
    world.groups[0]["status"] = json!({"namespaces": []});
    let none = "no targetNamespaces are matched operatorgroups namespace selection";
    leads(&world, "Failed", "NoTargetNamespaces", none);
    world.groups = vec![group("g")];
    world.csv["spec"]["installModes"] = json!([{"type": "OwnNamespace", "supported": true}, {"type": "OwnNamespace", "supported": true}]);
    let twice = "InstallMode list contains duplicates, cannot make set: [{OwnNamespace true} {OwnNamespace true}]";
    leads(&world, "Failed", "InvalidInstallModes", twice);
    world.csv["spec"]["installModes"] = json!([{"type": "OwnNamespace", "supported": true}]);
    let unsupported = "AllNamespaces InstallModeType not supported, cannot configure to watch all namespaces";
    assert!(!leads(&world, "Failed", "UnsupportedOperatorGroup", unsupported).is_active);
}

/// OLM0-CSV-07: the labels of APIs come first.
#[test]
fn api_labels_are_set() {
    let mut world = World::at("", "");
    world.csv["metadata"]["labels"] = json!({"own": "label"});
    let Action::Mark { labels, .. } = world.plan().action else { panic!("labels are missing") };
    assert!(labels.iter().all(|(key, value)| key.starts_with("olm.api.") && value == "provided") && labels.len() == 1, "{labels:?}");
}

/// OLM0-OG-23: all rows of the table of intersections.
#[test]
fn intersections() {
    let other = |provided: &str| OperatorGroup::new("other", "away", &[String::new()], provided);
    let mut world = World::at("Succeeded", "InstallSucceeded");
    world.groups[0]["metadata"]["annotations"] = json!({});
    let Action::Provide { apis, group: of } = world.plan().action else { panic!("the APIs join") };
    assert_eq!((apis.as_str(), of.as_str()), ("Widget.v1.example.com", "g"));
    world.groups[0]["spec"]["staticProvidedAPIs"] = json!(true);
    let fixed = "static provided api operatorgroup cannot be modified by these apis";
    let plan = leads(&world, "Failed", "CannotModifyStaticOperatorGroupProvidedAPIs", fixed);
    assert_eq!(plan.action, Action::RemoveDeployments(vec!["widgets".to_owned()]));
    world.providers = vec![other("Widget.v1.example.com")];
    let plan = leads(&world, "Failed", "InterOperatorGroupOwnerConflict", "intersecting operatorgroups provide the same apis");
    assert_eq!(plan.action, Action::RemoveDeployments(vec!["widgets".to_owned()]));
    world.groups[0] = group("g");
    let Action::Provide { apis, .. } = world.plan().action else { panic!("the APIs leave") };
    assert_eq!(apis, "");
    world.groups[0]["spec"]["staticProvidedAPIs"] = json!(true);
    leads(&world, "Failed", "CannotModifyStaticOperatorGroupProvidedAPIs", fixed);
}

/// OLM0-CSV-05: from nothing to `Pending`, and from there to `InstallReady` when all requirements are met.
#[test]
fn first_phases() {
    leads(&World::at("", ""), "Pending", "RequirementsUnknown", "requirements not yet checked");
    let mut world = World::at("Pending", "RequirementsUnknown");
    let plan = leads(&world, "InstallReady", "AllRequirementsMet", "all requirements found, attempting install");
    let statuses = plan.requirements.unwrap();
    assert_eq!(statuses[0]["message"], "CRD is present and Established condition is true");
    assert_eq!((&statuses[0]["uuid"], &statuses[1]["kind"]), (&json!("crd"), &json!("ServiceAccount")));
    let rule = "cluster rule:{\"verbs\":[\"get\"],\"apiGroups\":[\"example.com\"],\"resources\":[\"widgets\"]}";
    assert_eq!((&statuses[1]["dependents"][0]["message"], &statuses[1]["dependents"][0]["status"]), (&json!(rule), &json!("Satisfied")));
    world.csv["spec"]["install"]["strategy"] = json!("image");
    leads(&world, "Failed", "InvalidInstallStrategy", "install strategy invalid: unrecognized install strategy");
}

/// OLM0-CSV-09, OLM0-CSV-10: every kind of requirement, with its status and words.
#[test]
fn requirements() {
    let missing = |change: &dyn Fn(&mut World), status: &str, message: &str| {
        let mut world = World::at("Pending", "RequirementsUnknown");
        change(&mut world);
        let plan = leads(&world, "Pending", "RequirementsNotMet", "one or more requirements couldn't be found");
        let statuses = plan.requirements.unwrap();
        let found = statuses.iter().any(|each| each["status"] == status && each["message"] == message);
        assert!(found, "{status} {message}: {statuses:#?}");
    };
    let definition = |change: fn(&mut Definition)| {
        move |world: &mut World| change(Arc::make_mut(world.definitions.get_mut("widgets.example.com").unwrap()))
    };
    missing(&|world| world.definitions.clear(), "NotPresent", "CRD is not present");
    missing(&definition(|crd| crd.served.clear()), "NotPresent", "CRD version not served");
    let unestablished = "CRD is present but the Established condition is False (not available)";
    missing(&definition(|crd| crd.is_established = false), "PresentNotAvailable", unestablished);
    let alongside = |world: &mut World| {
        definition(|crd| crd.alongside = vec![("home".to_owned(), "widgets.v0".to_owned())])(world);
        world.csv["spec"]["replaces"] = json!("widgets.v0");
        world.siblings.push(sibling("widgets.v0", "Succeeded", ""));
    };
    missing(&alongside, "PresentNotSatisfied", "CRD installed alongside other CSV(s): widgets.v0");
    missing(&|world| world.accounts.clear(), "NotPresent", "Service account does not exist");
    let foreign = |world: &mut World| {
        world.accounts.insert("widgets".to_owned(), json!([{"kind": "ClusterServiceVersion", "name": "x", "uid": "x"}]));
    };
    missing(&foreign, "PresentNotSatisfied", "Service account is owned by another ClusterServiceVersion");
    missing(&|world| world.policy.clear(), "PresentNotSatisfied", "Policy rule not satisfied for service account");
    let newer = |world: &mut World| world.csv["spec"]["minKubeVersion"] = json!("1.34.0");
    missing(&newer, "PresentNotSatisfied", "CSV version requirement not met: minKubeVersion (1.34.0) > server version (1.33.1)");
    let native = |world: &mut World| world.csv["spec"]["nativeAPIs"] = json!([{"group": "batch", "version": "v9", "kind": "Job"}]);
    missing(&native, "NotPresent", "Native API does not exist");
    let mut world = World::at("Pending", "RequirementsUnknown");
    native(&mut world);
    assert!(world.plan().again.is_some(), "no watch reports the APIs of others");
    let required = |world: &mut World| {
        world.csv["spec"]["apiservicedefinitions"] = json!({"required": [{"name": "x", "group": "a.b", "version": "v1", "kind": "X"}]});
    };
    missing(&required, "NotPresent", "");
    let owned = |world: &mut World| {
        world.csv["spec"]["apiservicedefinitions"] =
            json!({"owned": [{"name": "x", "group": "a.b", "version": "v1", "kind": "X", "deploymentName": "none"}]});
        world.groups[0]["metadata"]["annotations"]["olm.providedAPIs"] = json!("Widget.v1.example.com,X.v1.a.b");
    };
    missing(&owned, "DeploymentNotFound", "");
    let mut world = World::at("Pending", "RequirementsUnknown");
    world.csv["spec"]["minKubeVersion"] = json!("1.20.0");
    let plan = world.plan();
    assert_eq!(plan.requirements.unwrap()[0]["message"], "CSV minKubeVersion (1.20.0) less than server version (v1.33.1)");
}

/// OLM0-CSV-05, OLM0-COND-05, OLM0-WEBHOOK-03: what else keeps a CSV in `Pending`, or fails it there.
#[test]
fn pending() {
    let mut world = World::at("Pending", "RequirementsUnknown");
    world.csv["spec"]["replaces"] = json!("widgets.v0");
    world.siblings = vec![sibling("widgets.v0", "Succeeded", "")];
    assert_eq!(waits(&world).wake, ["widgets.v0"]);
    world.condition = Some(json!({"spec": {"overrides": [{"type": "Upgradeable", "status": "False", "message": "not now"}]}}));
    let blocked = "operator is not upgradeable: the operator is not upgradeable: not now";
    leads(&world, "Pending", "OperatorConditionNotUpgradeable", blocked);
    world.condition = None;
    world.siblings = vec![sibling("widgets.v0", "Replacing", "")];
    leads(&world, "InstallReady", "AllRequirementsMet", "all requirements found, attempting install");
    world.siblings.push(sibling("gadgets.v1", "Succeeded", ""));
    leads(&world, "Failed", "OwnerConflict", "conflicting CRD owner in namespace");
    world.siblings.clear();
    world.webhook();
    world.csv["spec"]["webhookdefinitions"][0]["rules"][0]["apiGroups"] = json!(["*"]);
    leads(&world, "Failed", "InvalidWebhookDescription", "webhook rules cannot include all groups");
    world.csv["spec"]["webhookdefinitions"][0]["rules"][0]["apiGroups"] = json!(["operators.coreos.com"]);
    leads(&world, "Failed", "InvalidWebhookDescription", "webhook rules cannot include the OLM group");
    let good = json!({"type": "ValidatingAdmissionWebhook", "generateName": "a", "deploymentName": "widgets", "sideEffects": "None"});
    world.csv["spec"]["webhookdefinitions"] = json!([good, good]);
    leads(&world, "Failed", "InvalidWebhookDescription", "CSV contains repeated WebhookDescription name");
}

/// OLM0-CSV-05: an installation, and how it becomes healthy or fails.
#[test]
fn installing() {
    let world = World::at("InstallReady", "AllRequirementsMet");
    assert_eq!(world.plan().action, Action::Install { authority: None });
    let mut world = World::at("Installing", "InstallSucceeded");
    leads(&world, "Installing", "InstallWaiting", "installing: missing deployment with name=widgets");
    world.install();
    leads(&world, "Succeeded", "InstallSucceeded", "install strategy completed with no errors");
    world.deployment()["status"]["conditions"] = json!([{"type": "Available", "status": "False", "message": "no pods"}]);
    let waiting = "installing: waiting for deployment widgets to become ready: deployment \"widgets\" not available: no pods";
    assert!(leads(&world, "Installing", "InstallWaiting", waiting).again.is_some());
    let late = world.with(NOW + 300, plan).transition.unwrap();
    assert_eq!(late, Transition::new(Phase::Failed, late.reason, "install timeout"));
    assert_eq!(late.reason.as_str(), "InstallCheckFailed");
    world.deployment()["status"] = json!({"conditions": [{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]});
    let deadline = "install failed: deployment widgets not ready before timeout: deployment \"widgets\" exceeded its progress deadline";
    leads(&world, "Failed", "InstallCheckFailed", deadline);
    world.install();
    world.deployment()["metadata"]["labels"]["olm.deployment-spec-hash"] = json!("other");
    let plan = world.plan().transition.unwrap();
    assert_eq!((plan.phase, plan.reason.as_str()), (Phase::InstallReady, "InstallWaiting"));
    assert!(plan.message.starts_with("installing: deployment changed old hash=other, new hash="), "{}", plan.message);
    world.install();
    world.deployment()["spec"]["template"]["metadata"]["annotations"]["olm.operatorGroup"] = json!("old");
    let annotation = "installing: unexpected annotation on deployment. Expected olm.operatorGroup:g, found olm.operatorGroup:old";
    leads(&world, "InstallReady", "InstallWaiting", annotation);
}

/// OLM0-ADMIN-06, OLM0-API-16: a Deployment that the Subscription's `spec.config` now wants otherwise is written again at once, although its pods have never
/// become ready, and also after their deadline.
#[test]
fn corrected_while_unfinished() {
    for status in [
        json!({"replicas": 2, "updatedReplicas": 1}),
        json!({"conditions": [{"type": "Available", "status": "False", "message": "no node takes its pods"}]}),
        json!({"conditions": [{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]}),
    ] {
        for (phase, reason) in [("Installing", "InstallWaiting"), ("Failed", "InstallCheckFailed")] {
            let mut world = World::at(phase, reason);
            world.install();
            world.deployment()["status"] = status.clone();
            let plan = world.plan().transition;
            assert!(plan.is_none_or(|to| to.phase != Phase::InstallReady), "{phase}: the same Deployment is not written again");
            world.deployment()["metadata"]["labels"]["olm.deployment-spec-hash"] = json!("other");
            let plan = world.plan().transition.unwrap();
            assert_eq!(plan.phase, Phase::InstallReady, "{phase}");
            assert!(plan.message.starts_with("installing: deployment changed old hash=other, new hash="), "{}", plan.message);
        }
    }
}

/// OLM0-CSV-05: how a CSV leaves `Succeeded`.
#[test]
fn succeeded() {
    let mut world = World::at("Succeeded", "InstallSucceeded");
    leads(&world, "Failed", "ComponentUnhealthy", "installing: missing deployment with name=widgets");
    world.install();
    let plan = leads(&world, "Succeeded", "InstallSucceeded", "install strategy completed with no errors");
    assert_eq!((plan.action, plan.is_active), (Action::ApiRoles, true));
    world.definitions.clear();
    leads(&world, "Failed", "RequirementsNotMet", "requirements no longer met");
    world.siblings = vec![sibling("widgets.v2", "Pending", "widgets.v1")];
    let plan = leads(&world, "Replacing", "BeingReplaced", "being replaced by csv: widgets.v2");
    assert_eq!((plan.is_upgrade, plan.wake), (true, vec!["widgets.v2".to_owned()]));
}

/// OLM0-WEBHOOK-05, OLM0-WEBHOOK-06: certificates that are due, and APIs whose objects are missing.
#[test]
fn certificates() {
    let mut world = World::at("Succeeded", "InstallSucceeded");
    world.webhook();
    world.install();
    let plan = leads(&world, "Succeeded", "InstallSucceeded", "install strategy completed with no errors");
    assert_eq!(plan.again.map(|wait| wait.as_secs()), Some(3600), "the rotation is due then");
    world.services.clear();
    leads(&world, "Failed", "ComponentUnhealthy", "webhooks not installed");
    world.services.insert("widgets-service".to_owned());
    world.webhooks.clear();
    leads(&world, "Failed", "ComponentUnhealthy", "webhooks not installed");
    world.certificates.get_mut("widgets").unwrap().is_due = true;
    leads(&world, "Pending", "NeedsCertRotation", "CSV owns resources that require a cert refresh");
    world.csv["status"]["phase"] = json!("Failed");
    leads(&world, "Pending", "NeedsCertRotation", "owned APIServices need cert refresh");
    world.csv["status"]["phase"] = json!("Installing");
    leads(&world, "Pending", "NeedsReinstall", "calculated deployment install is bad");
    let mut world = World::at("Succeeded", "InstallSucceeded");
    world.csv["spec"]["apiservicedefinitions"] =
        json!({"owned": [{"name": "x", "group": "a.b", "version": "v1", "kind": "X", "deploymentName": "widgets"}]});
    world.groups[0]["metadata"]["annotations"]["olm.providedAPIs"] = json!("Widget.v1.example.com,X.v1.a.b");
    let problem = "apiservice.apiregistration.k8s.io \"v1.a.b\" not found";
    leads(&world, "Failed", "APIServiceResourceIssue", problem);
    world.csv["status"]["phase"] = json!("Failed");
    leads(&world, "Pending", "APIServiceResourcesNeedReinstall", problem);
    world.api_services.insert("v1.a.b".to_owned(), ApiServiceFacts::default());
    waits(&world);
    world.csv["status"]["phase"] = json!("Pending");
    leads(&world, "Failed", "OwnerConflict", "unable to adopt APIService");
}

/// OLM0-CSV-05, OLM0-CSV-06, OLM0-UPG-16: how a CSV leaves `Failed`.
#[test]
fn failed() {
    let supported = "InstallModes now support target namespaces";
    for (reason, message) in [
        ("NoOperatorGroup", supported),
        ("TooManyOperatorGroups", supported),
        ("NoTargetNamespaces", supported),
        ("UnsupportedOperatorGroup", supported),
        ("InvalidInstallModes", supported),
        ("InterOperatorGroupOwnerConflict", "OperatorGroup no longer intersecting with conflicting owner"),
        ("CannotModifyStaticOperatorGroupProvidedAPIs", "static OperatorGroup and intersecting groups now support providedAPIs"),
    ] {
        leads(&World::at("Failed", reason), "Pending", "RequirementsUnknown", message);
    }
    let mut world = World::at("Failed", "ComponentUnhealthy");
    leads(&world, "Pending", "NeedsReinstall", "installing: missing deployment with name=widgets");
    world.install();
    leads(&world, "Succeeded", "InstallSucceeded", "install strategy completed with no errors");
    world.accounts.clear();
    leads(&world, "Pending", "RequirementsNotMet", "requirements not met");
    world.siblings = vec![sibling("widgets.v2", "Pending", "widgets.v1")];
    leads(&world, "Pending", "RequirementsNotMet", "requirements not met");
    world.groups[0]["spec"]["upgradeStrategy"] = json!("TechPreviewUnsafeFailForward");
    let forward = "Fail Forward is enabled, allowing Failed csv to be replaced by csv: widgets.v2";
    assert!(leads(&world, "Replacing", "BeingReplaced", forward).is_upgrade);
    let mut world = World::at("Failed", "OwnerConflict");
    world.siblings = vec![sibling("gadgets.v1", "Succeeded", "")];
    leads(&world, "Failed", "OwnerConflict", "conflicting CRD owner in namespace");
    world.siblings.clear();
    leads(&world, "Pending", "NeedsReinstall", "installing: missing deployment with name=widgets");
    let mut world = World::at("Failed", "InvalidWebhookDescription");
    world.webhook();
    world.csv["spec"]["webhookdefinitions"][0]["rules"][0]["apiGroups"] = json!(["*"]);
    leads(&world, "Failed", "InvalidWebhookDescription", "webhook rules cannot include all groups");
    let mut world = World::at("Failed", "InstallComponentFailedNoRetry");
    waits(&world);
    world.changed = true;
    leads(&world, "Pending", "DetectedClusterChange", "Cluster resources changed state");
    let world = World::at("Failed", "InstallComponentFailed");
    assert!(waits(&world).again.is_some(), "the next attempt comes a little later");
    let later = world.with(NOW + 6, plan).transition.unwrap();
    assert_eq!((later.phase, later.reason.as_str()), (Phase::Pending, "NeedsReinstall"));
}

/// OLM0-CSV-23: the oldest of a chain goes, once its successor has succeeded.
#[test]
fn replacing() {
    let mut world = World::at("Replacing", "BeingReplaced");
    waits(&world);
    world.siblings = vec![sibling("widgets.v2", "Installing", "widgets.v1")];
    waits(&world);
    world.siblings = vec![sibling("widgets.v2", "Succeeded", "widgets.v1")];
    let replaced = "has been replaced by a newer ClusterServiceVersion that has successfully installed.";
    leads(&world, "Deleting", "Replaced", replaced);
    world.siblings = vec![sibling("widgets.v2", "Failed", "widgets.v1"), sibling("widgets.v3", "Succeeded", "widgets.v2")];
    waits(&world);
    world.groups[0]["spec"]["upgradeStrategy"] = json!("TechPreviewUnsafeFailForward");
    leads(&world, "Deleting", "Replaced", replaced);
    world.csv["spec"]["replaces"] = json!("widgets.v0");
    world.siblings.push(sibling("widgets.v0", "Replacing", ""));
    waits(&world);
    assert_eq!(World::at("Deleting", "Replaced").plan().action, Action::Delete);
}

/// OLM0-CSV-05: a CSV by itself reaches `Succeeded`, and then changes nothing.
#[test]
fn settles() {
    let mut world = World::at("", "");
    world.csv["status"] = Value::Null;
    let mut phases = Vec::new();
    for _ in 0..10 {
        let planned = world.plan();
        let to = match planned.action {
            Action::Install { .. } => {
                world.install();
                Some(mainstay_olm_classic_core::csv::installed())
            }
            _ => planned.transition,
        };
        let Some(to) = to.filter(|to| !to.is_reached(&world.csv["status"])) else { break };
        phases.push(to.phase.as_str());
        world.csv["status"] = next_status(&world.csv["status"], &to, Timestamp::from_second(NOW).unwrap());
    }
    assert_eq!(phases, ["Pending", "InstallReady", "Installing", "Succeeded"]);
}
