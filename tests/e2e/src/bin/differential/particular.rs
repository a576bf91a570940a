//! Requests that are no resource's, or touch several: discovery, health, reviews, quotas, limits, policies, permissions, protection.

use serde_json::{Value, json};

use crate::dice::Dice;
use crate::requests::{self, ACCEPTS, PATCHES, request};
use crate::sequences::account;
use crate::served::Resource;

/// A sequence of them.
pub fn steps(dice: &mut Dice, resources: &[Resource]) -> Vec<Value> {
    match dice.below(9) {
        0 => discovery(dice, resources),
        1 => paths(dice),
        2 => quota(dice),
        3 => limits(dice),
        4 => policy(dice),
        5 => permissions(dice),
        6 => namespace(dice),
        7 => pods(dice),
        _ => reviews(dice),
    }
}

fn discovery(dice: &mut Dice, resources: &[Resource]) -> Vec<Value> {
    let accepts = [
        "application/json",
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        "application/yaml",
        "text/html",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=APIGroupDiscoveryList;v=v9;g=apidiscovery.k8s.io,application/json",
    ];
    let mut steps = Vec::new();
    for _ in 0..4 {
        let resource = dice.one(resources);
        let root = if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
        let version = format!("{}/{}", if resource.group.is_empty() { "/api" } else { "/apis" }, resource.api_version());
        let path = dice
            .one(&[root.clone(), version.clone(), format!("{version}/"), format!("{root}/v9"), "/apis/none.example.com".to_owned()])
            .clone();
        let mut step = requests::accepting(request(dice.pick(&["GET", "GET", "GET", "POST", "HEAD"]), &path), dice.pick(&accepts));
        if path == root && !root.is_empty() {
            // Addresses are the server's own.
            step["ignore"] = json!(["/serverAddressByClientCIDRs"]);
        }
        steps.push(step);
    }
    steps
}

fn paths(dice: &mut Dice) -> Vec<Value> {
    let paths = [
        "/livez/ping",
        "/readyz/ping",
        "/healthz/ping",
        "/healthz",
        "/livez",
        "/readyz",
        "/livez/nonsense",
        "/healthz/log",
        "/readyz/etcd",
        "/livez/etcd",
        "/readyz/informer-sync",
        "/readyz/shutdown",
        "/readyz/poststarthook/start-apiextensions-controllers",
        "/version",
        "/version/",
        "/nonsense",
        "/api/v1/nonsense",
        "/api/v9",
        "/apis/apps/v1/nonsense",
        "/apis/apps/v9/deployments",
        "/",
        "/index.html",
        "/api/v1/namespaces/${ns}/pods/",
        "/api/v1//pods",
        "/api/v1/componentstatuses",
        "/api/v1/namespaces/${ns}/nonsense/x",
        "/api/v1/namespaces/${ns}/configmaps/x/status",
        "/api/v1/watch/namespaces/${ns}/nonsense",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        "/openapi/v3/nonsense",
        "/openapi/v3/api/v9",
        "/.well-known/openid-configuration",
        "/openid/v1/jwks",
        "/metrics/nonsense",
        "/logs",
        "/debug/pprof",
        "/ui",
        "/swaggerapi",
        "/api/v1/proxy/nodes/x",
        "/api/v1/namespaces/${ns}/services/s/proxy/x",
        "/apis/apps/v1/namespaces/${ns}/deployments/d/nonsense",
    ];
    let mut steps = Vec::new();
    for _ in 0..6 {
        let path = *dice.one(&paths);
        let mut step = request(dice.pick(&["GET", "GET", "GET", "GET", "POST", "DELETE", "PUT", "OPTIONS"]), path);
        if dice.percent(20) {
            step = requests::accepting(step, dice.pick(&ACCEPTS));
        }
        if path.contains("openid") || path.contains("jwks") {
            step["only"] = json!(["/subject_types_supported"]);
        }
        if path == "/" {
            step["only"] = json!([]);
        }
        if path == "/version" && dice.percent(50) {
            step["auth"] = "none".into();
        }
        steps.push(step);
    }
    steps
}

fn object(kind: &str, version: &str, name: &str, more: Value) -> Value {
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
    for (key, value) in more.as_object().cloned().unwrap_or_default() {
        object[key] = value;
    }
    object
}

fn post(path: &str, body: Value) -> Value {
    json!({"method": "POST", "path": path, "body": body})
}

const CORE: &str = "/api/v1/namespaces/${ns}";

fn pod(dice: &mut Dice, name: &str) -> Value {
    let mut container = json!({"name": "c", "image": "i"});
    if dice.percent(60) {
        container["resources"] = dice
            .one(&[
                json!({"requests": {"cpu": "1"}}),
                json!({"limits": {"cpu": "2", "memory": "1Gi"}}),
                json!({"requests": {"cpu": "3", "memory": "100Mi"}, "limits": {"cpu": "4"}}),
                json!({"limits": {"ephemeral-storage": "1Gi"}}),
            ])
            .clone();
    }
    let mut pod = object("Pod", "v1", name, json!({"spec": {"containers": [container]}}));
    if dice.percent(20) {
        pod["spec"]["activeDeadlineSeconds"] = 30.into();
    }
    if dice.percent(20) {
        pod["spec"]["priorityClassName"] = (*dice.one(&["system-node-critical", "none", "system-cluster-critical"])).into();
    }
    pod
}

fn quota(dice: &mut Dice) -> Vec<Value> {
    let quotas = [
        json!({"hard": {"pods": "1"}}),
        json!({"hard": {"requests.cpu": "2", "limits.memory": "1Gi"}}),
        json!({"hard": {"configmaps": "1", "count/secrets": "1"}}),
        json!({"hard": {"pods": "1"}, "scopes": ["BestEffort"]}),
        json!({"hard": {"pods": "1"}, "scopes": ["NotTerminating"]}),
        json!({"hard": {"pods": "1"}, "scopes": ["NotBestEffort", "Terminating"]}),
        json!({"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}}),
        json!({"hard": {"services.nodeports": "0", "services": "1"}}),
        json!({"hard": {"requests.storage": "1Gi", "persistentvolumeclaims": "1"}}),
        json!({"hard": {"resourcequotas": "1"}}),
    ];
    let spec = dice.one(&quotas).clone();
    let hard = spec["hard"].clone();
    let used: Value =
        hard.as_object().into_iter().flatten().map(|(key, _)| (key.clone(), json!("0"))).collect::<serde_json::Map<_, _>>().into();
    // No controller counts here; the status is what one would have written.
    let status = object("ResourceQuota", "v1", "q", json!({"spec": spec, "status": {"hard": hard, "used": used}}));
    let mut steps = vec![
        account(),
        post(&format!("{CORE}/resourcequotas"), object("ResourceQuota", "v1", "q", json!({"spec": spec}))),
        json!({"method": "PUT", "path": format!("{CORE}/resourcequotas/q/status"), "body": status}),
    ];
    for number in 0..4 {
        let name = format!("x{number}");
        let step = match dice.below(5) {
            0 => post(&format!("{CORE}/configmaps"), object("ConfigMap", "v1", &name, json!({}))),
            1 => post(&format!("{CORE}/secrets"), object("Secret", "v1", &name, json!({}))),
            2 => post(
                &format!("{CORE}/services"),
                object("Service", "v1", &name, json!({"spec": {"type": dice.one(&["NodePort", "ClusterIP"]), "ports": [{"port": 80}]}})),
            ),
            3 => post(&format!("{CORE}/resourcequotas"), object("ResourceQuota", "v1", &name, json!({"spec": {"hard": {"pods": "9"}}}))),
            _ => post(&format!("{CORE}/pods"), pod(dice, &name)),
        };
        steps.push(step);
    }
    steps.push(request("GET", &format!("{CORE}/resourcequotas/q")));
    steps
}

fn limits(dice: &mut Dice) -> Vec<Value> {
    let ranges = [
        json!([{"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "100m"}}]),
        json!([{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m", "memory": "1Mi"}}]),
        json!([{"type": "Pod", "max": {"cpu": "1", "memory": "1Gi"}}]),
        json!([{"type": "Container", "maxLimitRequestRatio": {"cpu": "1"}}]),
        json!([{"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]),
        json!([{"type": "Container", "max": {"cpu": "1"}}, {"type": "Container", "min": {"cpu": "2"}}]),
    ];
    let range = object("LimitRange", "v1", "l", json!({"spec": {"limits": dice.one(&ranges)}}));
    let mut steps = vec![account(), post(&format!("{CORE}/limitranges"), range)];
    for number in 0..3 {
        let pod = pod(dice, &format!("p{number}"));
        steps.push(post(&format!("{CORE}/pods"), pod));
    }
    let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}});
    steps.push(post(&format!("{CORE}/persistentvolumeclaims"), object("PersistentVolumeClaim", "v1", "c", claim)));
    steps
}

fn policy(dice: &mut Dice) -> Vec<Value> {
    let root = "/apis/admissionregistration.k8s.io/v1";
    let validations = [
        json!([{"expression": "object.metadata.name != 'x'"}]),
        json!([{"expression": "has(object.data) && object.data.size() < 2", "message": "at most one", "reason": "Forbidden"}]),
        json!([{"expression": "object.data.all(k, k.startsWith('a'))", "messageExpression": "'keys are ' + object.data.size().string()"}]),
        json!([{"expression": "request.userInfo.username == 'nobody'"}, {"expression": "variables.v", "message": "v"}]),
        json!([{"expression": "object.spec.replicas > 1"}]),
        json!([{"expression": "nonsense("}]),
        json!([{"expression": "1"}]),
    ];
    let spec = json!({
        "failurePolicy": dice.one(&["Fail", "Ignore"]),
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE", "DELETE"], "resources": ["configmaps"]}], "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "${ns}"}}},
        "variables": [{"name": "v", "expression": "object.metadata.name == 'good'"}],
        "validations": dice.one(&validations),
        "auditAnnotations": if dice.percent(20) { json!([{"key": "k", "valueExpression": "'v'"}]) } else { json!([]) },
        "matchConditions": if dice.percent(20) { json!([{"name": "not-default", "expression": "object.metadata.name != 'kube-root-ca.crt'"}]) } else { json!([]) },
    });
    let policy = object("ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1", "${sfx}", json!({"spec": spec}));
    let binding = object(
        "ValidatingAdmissionPolicyBinding",
        "admissionregistration.k8s.io/v1",
        "${sfx}",
        json!({"spec": {"policyName": "${sfx}", "validationActions": dice.one(&[json!(["Deny"]), json!(["Warn"]), json!(["Audit", "Warn"]), json!(["Deny", "Warn"])])}}),
    );
    let map = |name: &str, data: Value| post(&format!("{CORE}/configmaps"), object("ConfigMap", "v1", name, json!({"data": data})));
    vec![
        post(&format!("{root}/validatingadmissionpolicies"), policy),
        post(&format!("{root}/validatingadmissionpolicybindings"), binding),
        // Policies reach admission a moment later.
        json!({"sleep": 1.2}),
        map("x", json!({"a": "1"})),
        map("good", json!({"b": "1", "c": "2"})),
        map("y", json!({})),
        json!({"method": "PATCH", "path": format!("{CORE}/configmaps/good"), "headers": {"content-type": PATCHES[1]}, "body": {"data": {"b": null}}}),
        json!({"method": "DELETE", "path": format!("{CORE}/configmaps/good")}),
    ]
}

fn permissions(dice: &mut Dice) -> Vec<Value> {
    let root = "/apis/rbac.authorization.k8s.io/v1/namespaces/${ns}";
    let rules = [
        json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create"]}]),
        json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]),
        json!([{"apiGroups": [""], "resources": ["pods/log", "secrets"], "resourceNames": ["a"], "verbs": ["get"]}]),
        json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["create", "update", "patch"]}]),
        json!([{"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]}, {"apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["*"]}]),
    ];
    let user = json!({"user": "${sfx}-user", "groups": ["system:authenticated"]});
    let binding = json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "${sfx}-user", "apiGroup": "rbac.authorization.k8s.io"}]});
    let mut steps = vec![
        post(&format!("{root}/roles"), object("Role", "rbac.authorization.k8s.io/v1", "r", json!({"rules": dice.one(&rules)}))),
        post(&format!("{root}/rolebindings"), object("RoleBinding", "rbac.authorization.k8s.io/v1", "b", binding)),
        json!({"sleep": 0.3}),
    ];
    let mut requests = vec![
        request("GET", &format!("{CORE}/configmaps")),
        request("GET", &format!("{CORE}/secrets/a")),
        request("GET", &format!("{CORE}/secrets")),
        post(&format!("{CORE}/configmaps"), object("ConfigMap", "v1", "m", json!({}))),
        request("GET", "/api/v1/nodes"),
        request("GET", "/apis/apps/v1/namespaces/${ns}/deployments/d/scale"),
        request("DELETE", &format!("{CORE}/configmaps")),
        request("GET", "/metrics"),
        request("GET", "/version"),
        request("GET", &format!("{CORE}/pods/a/log")),
        post(&format!("{root}/roles"), object("Role", "rbac.authorization.k8s.io/v1", "more", json!({"rules": dice.one(&rules)}))),
        post(
            &format!("{root}/rolebindings"),
            object(
                "RoleBinding",
                "rbac.authorization.k8s.io/v1",
                "more",
                json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}, "subjects": []}),
            ),
        ),
        post(
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            object("SelfSubjectRulesReview", "authorization.k8s.io/v1", "", json!({"spec": {"namespace": "${ns}"}})),
        ),
        request("PATCH", "/apis/none.example.com/v1/namespaces/${ns}/things/x"),
    ];
    for _ in 0..5 {
        let mut step = requests.swap_remove(dice.below(requests.len()));
        step["as"] = user.clone();
        steps.push(step);
    }
    steps
}

fn namespace(dice: &mut Dice) -> Vec<Value> {
    let path = "/api/v1/namespaces/${sfx}";
    let mut steps = vec![post("/api/v1/namespaces", object("Namespace", "v1", "${sfx}", json!({})))];
    let changes = [
        json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "other"}}}),
        json!({"metadata": {"labels": {"kubernetes.io/metadata.name": null}}}),
        json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}),
        json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "nonsense"}}}),
        json!({"metadata": {"labels": null}}),
        json!({"metadata": {"finalizers": ["example.com/hold"]}}),
        json!({"spec": {"finalizers": []}}),
        json!({"status": {"phase": "Terminating"}}),
        json!({"metadata": {"annotations": {"scheduler.alpha.kubernetes.io/node-selector": "a=b"}}}),
    ];
    for _ in 0..3 {
        let sub = *dice.one(&["", "", "/status"]);
        steps.push(json!({"method": "PATCH", "path": format!("{path}{sub}"), "headers": {"content-type": dice.one(&PATCHES[1..3])}, "body": dice.one(&changes)}));
    }
    steps.push(json!({"method": "PUT", "path": format!("{path}/finalize"), "body": object("Namespace", "v1", "${sfx}", json!({"spec": {"finalizers": dice.one(&[json!(["kubernetes"]), json!([]), json!(["example.com/x"]), json!(["nonsense"])])}}))}));
    steps.push(json!({"method": "DELETE", "path": path}));
    steps.push(post("/api/v1/namespaces/${sfx}/configmaps", object("ConfigMap", "v1", "late", json!({}))));
    steps.push(request("GET", path));
    steps
}

fn pods(dice: &mut Dice) -> Vec<Value> {
    let two = object(
        "Pod",
        "v1",
        "p",
        json!({"metadata": {"name": "p", "labels": {"app": "a"}}, "spec": {"nodeName": dice.one(&["", "n"]), "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}], "terminationGracePeriodSeconds": dice.one(&[0, 1, 30])}}),
    );
    let mut steps = vec![account(), post(&format!("{CORE}/pods"), two)];
    let mut all = vec![
        request("GET", &format!("{CORE}/pods/p/log")),
        json!({"method": "GET", "path": format!("{CORE}/pods/p/log"), "query": {"container": "none"}}),
        json!({"method": "GET", "path": format!("{CORE}/pods/p/log"), "query": {"tailLines": "-1"}}),
        json!({"method": "GET", "path": format!("{CORE}/pods/p/log"), "query": {"sinceSeconds": "0", "sinceTime": "2026-01-01T00:00:00Z"}}),
        post(
            &format!("{CORE}/pods/p/binding"),
            json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": dice.one(&["Node", "Pod", ""]), "name": dice.one(&["m", ""])}}),
        ),
        post(
            &format!("{CORE}/bindings"),
            json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "m"}}),
        ),
        post(
            &format!("{CORE}/pods/p/eviction"),
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": dice.one(&["p", "q", ""])}, "deleteOptions": {"dryRun": ["All"]}}),
        ),
        json!({"method": "PATCH", "path": format!("{CORE}/pods/p/ephemeralcontainers"), "headers": {"content-type": PATCHES[2]}, "body": {"spec": {"ephemeralContainers": [{"name": "e", "image": "i", "targetContainerName": dice.one(&["c", "x"])}]}}}),
        json!({"method": "PATCH", "path": format!("{CORE}/pods/p/resize"), "headers": {"content-type": PATCHES[2]}, "body": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}}),
        json!({"method": "PATCH", "path": format!("{CORE}/pods/p"), "headers": {"content-type": PATCHES[1]}, "body": dice.one(&[json!({"spec": {"nodeName": "other"}}), json!({"spec": {"activeDeadlineSeconds": 5}}), json!({"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}), json!({"spec": {"containers": []}})])}),
        json!({"method": "PATCH", "path": format!("{CORE}/pods/p/status"), "headers": {"content-type": PATCHES[1]}, "body": {"status": {"phase": dice.one(&["Running", "Succeeded", "Odd"]), "podIP": dice.one(&["10.1.1.1", "x"]), "conditions": [{"type": "Ready", "status": "True"}]}}}),
        post(
            "/apis/policy/v1/namespaces/${ns}/poddisruptionbudgets",
            object(
                "PodDisruptionBudget",
                "policy/v1",
                "b",
                json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}}),
            ),
        ),
        json!({"method": "DELETE", "path": format!("{CORE}/pods/p"), "body": {"gracePeriodSeconds": dice.one(&[0, 5])}}),
        requests::accepting(request("GET", &format!("{CORE}/pods")), ACCEPTS[7]),
    ];
    for _ in 0..7 {
        steps.push(all.swap_remove(dice.below(all.len())));
    }
    steps
}

fn reviews(dice: &mut Dice) -> Vec<Value> {
    let token = post(
        &format!("{CORE}/serviceaccounts/default/token"),
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": dice.one(&[json!({}), json!({"expirationSeconds": 5}), json!({"audiences": ["a", "b"], "expirationSeconds": 700}), json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "none"}}), json!({"boundObjectRef": {"kind": "Nonsense", "name": "x"}}), json!({"expirationSeconds": 4_294_967_297_i64})])}),
    );
    let mut token = token;
    token["save"] = json!({"token": "/status/token"});
    token["ignore"] = json!(["/status/token"]);
    let review = |group: &str, kind: &str, resource: &str, spec: Value| {
        let version = format!("{group}/v1");
        post(&format!("/apis/{version}/{resource}"), json!({"apiVersion": version, "kind": kind, "spec": spec}))
    };
    let attributes = [
        json!({"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods"}}),
        json!({"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods"}, "nonResourceAttributes": {"path": "/x", "verb": "get"}}),
        json!({"user": "u"}),
        json!({"groups": ["system:masters"], "nonResourceAttributes": {"path": "/x", "verb": "get"}}),
        json!({"user": "u", "resourceAttributes": {"verb": "list", "resource": "pods", "fieldSelector": {"rawSelector": "a=b"}, "labelSelector": {"requirements": [{"key": "a", "operator": "Nonsense"}]}}}),
        json!({}),
    ];
    let mut whoami = review("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews", json!({}));
    whoami["as"] = json!({"user": "${sfx}-user", "groups": ["g"], "uid": "u-1", "extra": {"example.com/k": ["v"]}});
    vec![
        account(),
        token,
        review("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews", dice.one(&attributes).clone()),
        review("authorization.k8s.io", "SelfSubjectAccessReview", "selfsubjectaccessreviews", dice.one(&attributes).clone()),
        post(
            "/apis/authorization.k8s.io/v1/namespaces/${ns}/localsubjectaccessreviews",
            json!({"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview", "metadata": {"namespace": dice.one(&["${ns}", "other"])}, "spec": dice.one(&attributes)}),
        ),
        whoami,
        review(
            "authentication.k8s.io",
            "TokenReview",
            "tokenreviews",
            dice.one(&[json!({"token": "x"}), json!({}), json!({"token": "x", "audiences": ["a"]})]).clone(),
        ),
    ]
}
