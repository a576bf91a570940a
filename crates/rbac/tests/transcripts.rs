//! The policy against what a real API server answered.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_rbac::{
    Attributes, PolicyIndex, Reconciled, UserInfo, aggregated_rules, authorize, binding_refusal, bootstrap, forbidden_message, reconcile,
    rules_for,
};
use mainstay_testing::transcripts;
use serde_json::{Value, json};

/// The default policy with its aggregated roles filled.
fn cluster() -> PolicyIndex {
    let mut roles = bootstrap::cluster_roles();
    // Roles aggregate into each other: view into edit into admin.
    for _ in 0..3 {
        for at in 0..roles.len() {
            if let Some(rules) = aggregated_rules(&roles[at], &roles).unwrap() {
                roles[at]["rules"] = json!(rules);
            }
        }
    }
    let mut index = PolicyIndex::default();
    for object in bootstrap::objects().iter().chain(&roles) {
        index.apply(object).unwrap();
    }
    index
}

/// KAPI-AUTHZ-02: the default roles and bindings are those of the recorded server.
#[test]
fn bootstrap_objects_equal_the_recorded_ones() {
    let Some(steps) = transcripts::steps("authz/bootstrap-roles") else { return };
    let objects = bootstrap::objects();
    for step in steps {
        let path = step["path"].as_str().unwrap();
        let parts: Vec<&str> = path.rsplit('/').collect();
        let kind = match parts[1] {
            "clusterroles" => "ClusterRole",
            "clusterrolebindings" => "ClusterRoleBinding",
            "roles" => "Role",
            other => panic!("{other}"),
        };
        let object = objects.iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == parts[0]).expect(path);
        for (pointer, wanted) in step["answer"]["body"].as_object().unwrap() {
            assert_eq!(object.pointer(pointer), Some(wanted), "{path} {pointer}");
        }
    }
}

/// KAPI-AUTHZ-02: names are unique and every binding leads to a role.
#[test]
fn bootstrap_is_closed() {
    let index = cluster();
    let mut seen = std::collections::BTreeSet::new();
    for object in bootstrap::objects() {
        let key = (object["kind"].to_string(), object["metadata"]["namespace"].to_string(), object["metadata"]["name"].to_string());
        assert!(seen.insert(key.clone()), "{key:?} twice");
        assert_eq!(reconcile(Some(&object), &object).unwrap(), Reconciled::Nothing);
    }
    for user in ["system:kube-scheduler", "system:kube-controller-manager", "system:kube-proxy"] {
        let granted = rules_for(&index, &UserInfo::new(user, &["system:authenticated"]), "kube-system");
        assert!(granted.errors.is_empty() && !granted.rules.is_empty(), "{user}");
    }
}

/// KAPI-AUTHZ-03: texts at the cluster scope.
#[test]
fn forbidden_texts() {
    let Some(steps) = transcripts::steps("authz/forbidden-cluster") else { return };
    let index = cluster();
    let ann = || UserInfo::new("ann-${sfx}", &["system:authenticated"]);
    let questions = [
        Attributes::resource(ann(), "list", "", "", "namespaces", ""),
        Attributes::resource(ann(), "get", "${ns}", "", "namespaces", "${ns}"),
        Attributes::resource(ann(), "get", "", "", "nodes", "n"),
        Attributes::resource(ann(), "list", "", "", "configmaps", ""),
        Attributes::resource(ann(), "list", "", "rbac.authorization.k8s.io", "clusterroles", ""),
        Attributes::resource(ann(), "delete", "", "apiextensions.k8s.io", "customresourcedefinitions", "x"),
        Attributes::url(ann(), "get", "/metrics"),
        Attributes::url(ann(), "get", "/nothing"),
        Attributes::resource(ann(), "list", "", "none.example.com", "things", ""),
        Attributes::resource(ann(), "create", "", "", "namespaces", ""),
    ];
    assert_eq!(steps.len(), questions.len());
    for (step, question) in steps.iter().zip(&questions) {
        let decision = authorize(&index, question);
        assert!(!decision.allowed);
        assert_eq!(forbidden_message(question, &decision.reason), step["answer"]["body"]["message"].as_str().unwrap());
    }
    for path in ["/api", "/apis/apps/v1", "/version", "/healthz", "/openapi/v3"] {
        assert!(authorize(&index, &Attributes::url(ann(), "get", path)).allowed, "{path}");
    }
    assert!(!authorize(&index, &Attributes::url(UserInfo::anonymous(), "get", "/api")).allowed);
    assert!(authorize(&index, &Attributes::url(UserInfo::anonymous(), "get", "/version")).allowed);
}

/// KAPI-AUTHZ-01: binding a role needs its rules; the text lists what is missing.
#[test]
fn escalation_texts() {
    let Some(steps) = transcripts::steps("authz/bind") else { return };
    let mut index = cluster();
    let ann = UserInfo::new("ann-${sfx}", &["system:authenticated"]);
    let mut checked = 0;
    let written = |body: &Value| mainstay_rbac::Binding { namespace: "${ns}".to_owned(), ..mainstay_rbac::parse_binding(body).unwrap() };
    for step in &steps {
        let (body, status) = (&step["body"], step["answer"]["status"].as_u64().unwrap());
        if body.is_null() {
            continue;
        }
        if step["as"].is_null() {
            let mut object = body.clone();
            object["metadata"]["namespace"] = "${ns}".into();
            index.apply(&object).unwrap();
        } else if status == 403 {
            let refusal = binding_refusal(&index, &index, &ann, &written(body)).unwrap().unwrap();
            let message = format!("rolebindings.rbac.authorization.k8s.io \"x\" is forbidden: {}", refusal.message(&ann));
            assert_eq!(message, step["answer"]["body"]["message"].as_str().unwrap());
            checked += 1;
        } else if status == 404 {
            assert!(binding_refusal(&index, &index, &ann, &written(body)).is_err());
            checked += 1;
        }
    }
    assert!(checked >= 3);
}

/// KAPI-AUTHZ-03: the reason names the binding, the role and the subject.
#[test]
fn reasons() {
    let mut index = cluster();
    let namespaced = json!({
        "kind": "RoleBinding", "metadata": {"name": "v", "namespace": "ns"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "ann"}, {"kind": "ServiceAccount", "name": "sa"}],
    });
    index.apply(&namespaced).unwrap();
    let check = |user: UserInfo, verb: &str, namespace: &str, resource: &str, expect: &str| {
        let decision = authorize(&index, &Attributes::resource(user, verb, namespace, "", resource, ""));
        assert_eq!((decision.allowed, decision.reason.as_str()), (!expect.is_empty(), expect));
    };
    let ann = || UserInfo::new("ann", &["system:authenticated"]);
    check(ann(), "list", "ns", "pods", r#"RBAC: allowed by RoleBinding "v/ns" of ClusterRole "view" to User "ann""#);
    check(
        UserInfo::service_account("ns", "sa"),
        "list",
        "ns",
        "pods/log",
        r#"RBAC: allowed by RoleBinding "v/ns" of ClusterRole "view" to ServiceAccount "sa/ns""#,
    );
    check(ann(), "list", "other", "pods", "");
    check(ann(), "list", "ns", "secrets", "");
    check(
        UserInfo::service_account("kube-system", "generic-garbage-collector"),
        "delete",
        "",
        "pods",
        "RBAC: allowed by ClusterRoleBinding \"system:controller:generic-garbage-collector\" of ClusterRole \
         \"system:controller:generic-garbage-collector\" to ServiceAccount \"generic-garbage-collector/kube-system\"",
    );
    let dangling = json!({
        "kind": "RoleBinding", "metadata": {"name": "w", "namespace": "ns"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "gone"},
        "subjects": [{"kind": "User", "name": "ann"}],
    });
    index.apply(&dangling).unwrap();
    let decision = authorize(&index, &Attributes::resource(ann(), "delete", "ns", "", "pods", ""));
    assert_eq!((decision.allowed, decision.reason.as_str()), (false, r#"RBAC: role.rbac.authorization.k8s.io "gone" not found"#));
}

/// KAPI-AUTHZ-02: upkeep adds what is missing, keeps what people added, and can be switched off.
#[test]
fn reconciliation() {
    let wanted = bootstrap::cluster_roles().into_iter().find(|r| r["metadata"]["name"] == "system:auth-delegator").unwrap();
    assert_eq!(reconcile(None, &wanted).unwrap(), Reconciled::Create(wanted.clone()));
    let mut live = wanted.clone();
    live["rules"] = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}, wanted["rules"][0]]);
    let Reconciled::Update(fixed) = reconcile(Some(&live), &wanted).unwrap() else { panic!() };
    assert_eq!(fixed["rules"].as_array().unwrap().len(), 3);
    assert_eq!(fixed["rules"][2], wanted["rules"][1]);
    assert_eq!(reconcile(Some(&fixed), &wanted).unwrap(), Reconciled::Nothing);
    live["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"] = "false".into();
    assert_eq!(reconcile(Some(&live), &wanted).unwrap(), Reconciled::Protected);

    let wanted = bootstrap::cluster_role_bindings().into_iter().find(|r| r["metadata"]["name"] == "cluster-admin").unwrap();
    let mut live = wanted.clone();
    live["subjects"] = json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "me"}]);
    let Reconciled::Update(fixed) = reconcile(Some(&live), &wanted).unwrap() else { panic!() };
    assert_eq!(fixed["subjects"].as_array().unwrap().len(), 2);
    live["roleRef"]["name"] = "view".into();
    assert_eq!(reconcile(Some(&live), &wanted).unwrap(), Reconciled::Recreate(wanted));
}
