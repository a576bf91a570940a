//! ValidatingAdmissionPolicies and their bindings.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common;
use crate::common::Cluster;
use serde_json::{Value, json};

const API: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/ns/configmaps";

async fn policy(cluster: &Cluster, name: &str, spec: Value) {
    let mut full = json!({"matchConstraints": {"resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]},
    ]}});
    for (key, value) in spec.as_object().unwrap() {
        full[key] = value.clone();
    }
    let body = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": full});
    cluster.post(&format!("{API}/validatingadmissionpolicies"), body).await.ok();
}

async fn bind(cluster: &Cluster, name: &str, more: Value) {
    let mut spec = json!({"policyName": name, "validationActions": ["Deny"]});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let body = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": spec});
    cluster.post(&format!("{API}/validatingadmissionpolicybindings"), body).await.ok();
    cluster.server.api().objects.cache.catch_up().await.unwrap();
}

async fn create(cluster: &Cluster, name: &str, data: Value) -> common::Answer {
    cluster.post(MAPS, json!({"metadata": {"name": name}, "data": data})).await
}

/// KAPI-ADM-02: parameters by labels: each is asked; reasons become codes; deletions show the old object alone.
#[tokio::test(flavor = "multi_thread")]
async fn parameters_reasons_and_deletions() {
    let cluster = Cluster::new().await;
    for (name, most) in [("p1", "3"), ("p2", "1")] {
        cluster.post(MAPS, json!({"metadata": {"name": name, "labels": {"limits": "yes"}}, "data": {"most": most}})).await.ok();
    }
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "variables": [{"name": "n", "expression": "has(object.data) ? size(object.data) : 0"}, {"name": "most", "expression": "int(params.data.most)"}],
        "matchConditions": [{"name": "not-deleted", "expression": "request.operation != 'DELETE'"}],
        "validations": [{"expression": "variables.n <= variables.most", "reason": "Forbidden", "messageExpression": "'at most ' + string(variables.most)"}],
    });
    policy(&cluster, "limits", spec).await;
    let reference = json!({"selector": {"matchLabels": {"limits": "yes"}}, "parameterNotFoundAction": "Deny", "namespace": "ns"});
    bind(&cluster, "limits", json!({"paramRef": reference})).await;
    create(&cluster, "small", json!({"a": "1"})).await.ok();
    let refused = create(&cluster, "large", json!({"a": "1", "b": "2"})).await;
    assert_eq!((refused.status.as_u16(), &refused.body["reason"]), (403, &json!("Forbidden")));
    assert_eq!(
        refused.message(),
        "configmaps \"large\" is forbidden: ValidatingAdmissionPolicy 'limits' with binding 'limits' denied request: at most 1"
    );
    cluster.delete(&format!("{MAPS}/small")).await.ok();
}

/// KAPI-ADM-02: what cannot be decided is denied or let in, as the failure policy says; expensive expressions are stopped.
#[tokio::test(flavor = "multi_thread")]
async fn failures_and_budgets() {
    let cluster = Cluster::new().await;
    policy(&cluster, "open", json!({"failurePolicy": "Ignore", "validations": [{"expression": "object.data.none == 'x'"}]})).await;
    bind(&cluster, "open", json!({})).await;
    create(&cluster, "one", json!({"a": "1"})).await.ok();
    let loops = "lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))";
    policy(&cluster, "costly", json!({"validations": [{"expression": loops}]})).await;
    bind(&cluster, "costly", json!({})).await;
    let refused = create(&cluster, "two", json!({})).await;
    assert!(refused.message().ends_with("resulted in error: operation cancelled: actual cost limit exceeded"), "{}", refused.text);
}

/// KAPI-ADM-02: exclusions, permissions of ServiceAccounts, and the resource of the request as a question.
#[tokio::test(flavor = "multi_thread")]
async fn exclusions_and_permissions() {
    let cluster = Cluster::new().await;
    let constraints = json!({
        "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps", "secrets"]}],
        "excludeResourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"], "resourceNames": ["free"]}],
    });
    let validations = json!([
        {"expression": "authorizer.requestResource.check('create').allowed()"},
        {"expression": "authorizer.serviceAccount('ns', 'default').group('').resource('secrets').namespace('ns').check('get').allowed()", "message": "the account may not read secrets"},
        {"expression": "!authorizer.path('/healthz').check('get').errored() && authorizer.path('/healthz').check('get').reason() == ''"},
    ]);
    policy(&cluster, "rights", json!({"matchConstraints": constraints, "validations": validations})).await;
    bind(&cluster, "rights", json!({})).await;
    create(&cluster, "free", json!({})).await.ok();
    let refused = create(&cluster, "other", json!({})).await;
    assert!(refused.message().ends_with("denied request: the account may not read secrets"), "{}", refused.text);
}

/// KAPI-ADM-02: the status names the generation that was looked at and what type checking found.
#[tokio::test(flavor = "multi_thread")]
async fn status() {
    let cluster = Cluster::new().await;
    policy(&cluster, "typed", json!({"validations": [{"expression": "object.nope == 1"}]})).await;
    let path = format!("{API}/validatingadmissionpolicies/typed");
    let found = loop {
        let found = cluster.get(&path).await.ok();
        if found["status"]["observedGeneration"] == 1 {
            break found;
        }
        tokio::task::yield_now().await;
    };
    let warnings = &found["status"]["typeChecking"]["expressionWarnings"];
    assert_eq!(warnings[0]["fieldRef"], "spec.validations[0].expression");
    assert_eq!(
        warnings[0]["warning"],
        "/v1, Kind=ConfigMap: ERROR: <input>:1:7: undefined field 'nope'\n | object.nope == 1\n | ......^\n"
    );
}

/// KAPI-ADM-04: mutating policies are not served.
#[tokio::test(flavor = "multi_thread")]
async fn mutating_policies() {
    let cluster = Cluster::new().await;
    for resource in ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"] {
        assert_eq!(cluster.get(&format!("{API}/{resource}")).await.status.as_u16(), 404);
    }
}
