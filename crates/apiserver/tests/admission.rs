//! The built-in admission plugins at the server, beyond what the recorded answers show.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use crate::common::{self, Answer, Cluster, config, send};
use http::StatusCode;
use mainstay_apiserver::Server;
use mainstay_apiserver::admission::Plugins;
use mainstay_rbac::UserInfo;
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/ns/pods";
const CLAIMS: &str = "/api/v1/namespaces/ns/persistentvolumeclaims";

fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "i"}]}});
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

fn warnings(answer: &Answer) -> Vec<String> {
    answer.headers.get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned()).collect()
}

impl Cluster {
    /// Everything that was written is shown by the watch cache.
    async fn settled(&self) {
        self.server.api().objects.cache.catch_up().await.unwrap();
    }
}

/// KAPI-ADM-03: PodSecurity warns writers of templates, and of the pods in a namespace that becomes stricter; labels must mean something.
#[tokio::test]
async fn pod_security_warns() {
    let cluster = Cluster::new().await;
    cluster.post(PODS, pod("old", &json!({"hostNetwork": true}))).await.ok();
    cluster.settled().await;
    let label = |level: &str| json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}});
    let refused = cluster.patch("/api/v1/namespaces/ns", "merge", label("strict")).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        refused.message(),
        "Namespace \"ns\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of privileged, baseline, restricted"
    );
    let changed = cluster.patch("/api/v1/namespaces/ns", "merge", label("baseline")).await;
    assert_eq!(
        warnings(&changed),
        [
            "299 - \"existing pods in namespace \\\"ns\\\" violate the new PodSecurity enforce level \\\"baseline:latest\\\"\"",
            "299 - \"old: host namespaces\"",
        ]
    );
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"hostPID": true, "containers": [{"name": "main", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let created = cluster.post("/apis/apps/v1/namespaces/ns/deployments", deployment).await;
    assert_eq!(created.status, StatusCode::CREATED);
    assert_eq!(warnings(&created), ["299 - \"would violate PodSecurity \\\"baseline:latest\\\": host namespaces (hostPID=true)\""]);
    // A pod that is there may still be labelled.
    let labelled = cluster.patch(&format!("{PODS}/old"), "merge", json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(labelled.status, StatusCode::OK);
}

/// KAPI-ADM-03: one PriorityClass at most is the default, and pods get it.
#[tokio::test]
async fn one_default_priority() {
    let cluster = Cluster::new().await;
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class = |name: &str| json!({"metadata": {"name": name}, "value": 7, "globalDefault": true, "preemptionPolicy": "Never"});
    cluster.post(classes, class("a")).await.ok();
    cluster.settled().await;
    let second = cluster.post(classes, class("b")).await;
    assert_eq!(
        second.message(),
        "priorityclasses.scheduling.k8s.io \"b\" is forbidden: PriorityClass a is already marked as default. Only one default can exist"
    );
    cluster.patch(&format!("{classes}/a"), "merge", json!({"description": "still the default"})).await.ok();
    let spec = cluster.post(PODS, pod("p", &json!({}))).await.ok()["spec"].clone();
    assert_eq!((&spec["priority"], &spec["priorityClassName"], &spec["preemptionPolicy"]), (&json!(7), &json!("a"), &json!("Never")));
    let refused = cluster.post(PODS, pod("q", &json!({"preemptionPolicy": "PreemptLowerPriority"}))).await;
    assert_eq!(
        refused.message(),
        "pods \"q\" is forbidden: the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; priority admission controller computed Never from the given PriorityClass name"
    );
}

/// KAPI-ADM-03: claims get the newest default class, are protected, and grow only where their class allows it.
#[tokio::test]
async fn claims() {
    let cluster = Cluster::new().await;
    let class = |name: &str, grows: bool| {
        json!({"metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "example.com/p", "allowVolumeExpansion": grows})
    };
    let classes = "/apis/storage.k8s.io/v1/storageclasses";
    cluster.post(classes, class("b", true)).await.ok();
    cluster.post(classes, class("a", false)).await.ok();
    cluster.settled().await;
    let claim = |name: &str| json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let made = cluster.post(CLAIMS, claim("c")).await.ok();
    assert!(["a", "b"].contains(&made["spec"]["storageClassName"].as_str().unwrap()), "made in one second or in two");
    assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    let mut growing = claim("g");
    growing["spec"]["storageClassName"] = json!("b");
    cluster.post(CLAIMS, growing).await.ok();
    let grow = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    for name in ["g", "fixed"] {
        if name == "fixed" {
            let mut fixed = claim(name);
            fixed["spec"]["storageClassName"] = json!("a");
            cluster.post(CLAIMS, fixed).await.ok();
        }
        let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
        cluster.patch(&format!("{CLAIMS}/{name}"), "merge", json!({"spec": {"volumeName": "v"}})).await.ok();
        cluster.patch(&format!("{CLAIMS}/{name}/status"), "merge", bound).await.ok();
    }
    cluster.patch(&format!("{CLAIMS}/g"), "merge", grow.clone()).await.ok();
    let refused = cluster.patch(&format!("{CLAIMS}/fixed"), "merge", grow).await;
    assert_eq!(
        refused.message(),
        "persistentvolumeclaims \"fixed\" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
    );
}

/// KAPI-ADM-03: overhead is the runtime class's, and nobody else's.
#[tokio::test]
async fn overhead() {
    let cluster = Cluster::new().await;
    let class = json!({"metadata": {"name": "r"}, "handler": "h", "overhead": {"podFixed": {"cpu": "1"}}});
    cluster.post("/apis/node.k8s.io/v1/runtimeclasses", class).await.ok();
    let refused = cluster.post(PODS, pod("a", &json!({"overhead": {"cpu": "1"}}))).await;
    assert_eq!(
        refused.message(),
        "pods \"a\" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    );
    let refused = cluster.post(PODS, pod("a", &json!({"runtimeClassName": "r", "overhead": {"cpu": "2"}}))).await;
    assert_eq!(refused.message(), "pods \"a\" is forbidden: pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead");
    cluster.post(PODS, pod("a", &json!({"runtimeClassName": "r", "overhead": {"cpu": "1000m"}}))).await.ok();
}

/// KAPI-ADM-03: a pod waits for the account that every namespace gets.
#[tokio::test]
async fn a_pod_waits_for_the_default_account() {
    let cluster = Cluster::new().await;
    cluster.post("/api/v1/namespaces", json!({"metadata": {"name": "new"}})).await.ok();
    let pods = cluster.post("/api/v1/namespaces/new/pods", pod("p", &json!({})));
    let account = cluster.post("/api/v1/namespaces/new/serviceaccounts", json!({"metadata": {"name": "default"}}));
    let (pod, account) = tokio::join!(pods, account);
    account.ok();
    assert_eq!(pod.ok()["spec"]["serviceAccountName"], "default");
}

/// KAPI-ADM-03: an Ingress gets the default class, unless it names one.
#[tokio::test]
async fn ingress_classes() {
    let cluster = Cluster::new().await;
    let class = json!({"metadata": {"name": "nginx", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
        "spec": {"controller": "example.com/c"}});
    cluster.post("/apis/networking.k8s.io/v1/ingressclasses", class).await.ok();
    cluster.settled().await;
    let ingresses = "/apis/networking.k8s.io/v1/namespaces/ns/ingresses?dryRun=All";
    let ingress = |annotations: Value, spec: Value| {
        let mut ingress = json!({"metadata": {"name": "i", "annotations": annotations}, "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}});
        for (field, value) in spec.as_object().unwrap() {
            ingress["spec"][field] = value.clone();
        }
        ingress
    };
    for (annotations, spec, expected) in [
        (json!({}), json!({}), json!("nginx")),
        (json!({}), json!({"ingressClassName": "other"}), json!("other")),
        (json!({"kubernetes.io/ingress.class": "old"}), json!({}), Value::Null),
    ] {
        assert_eq!(cluster.post(ingresses, ingress(annotations, spec)).await.ok()["spec"]["ingressClassName"], expected);
    }
}

/// KAPI-ADM-03: OwnerReferencesPermissionEnforcement and DenyServiceExternalIPs are options; what is disabled is not asked.
#[tokio::test]
async fn options() {
    let directory = tempfile::tempdir().unwrap();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let plugins = Plugins::choose(
        &names(&["OwnerReferencesPermissionEnforcement", "DenyServiceExternalIPs", "AlwaysPullImages"]),
        &names(&["Priority", "ServiceAccount"]),
    );
    let mut config = config(directory.path());
    config.plugins = plugins.unwrap();
    let server = Server::open(config).await.unwrap();
    let admin = server.in_process(UserInfo::new("admin", &["system:masters", "system:authenticated"]));
    let user = server.in_process(UserInfo::new("u", &["system:authenticated"]));
    let json_body = [("content-type", "application/json")];
    let post = async |router: &axum::Router, path: &str, body: Value| send(router, "POST", path, &json_body, body.to_string()).await;
    post(&admin, "/api/v1/namespaces", json!({"metadata": {"name": "ns"}})).await.ok();
    let made = post(&admin, PODS, pod("p", &json!({}))).await.ok();
    assert_eq!(made["spec"]["containers"][0]["imagePullPolicy"], "Always");
    assert_eq!((&made["spec"]["priority"], &made["spec"]["serviceAccountName"]), (&Value::Null, &Value::Null));
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "externalIPs": ["192.0.2.1"]}});
    let refused = post(&admin, "/api/v1/namespaces/ns/services", service).await;
    assert_eq!(refused.message(), "services \"s\" is forbidden: Use of external IPs is denied by admission control");

    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch"]}]);
    post(&admin, "/apis/rbac.authorization.k8s.io/v1/clusterroles", json!({"metadata": {"name": "r"}, "rules": rules})).await.ok();
    let binding = json!({"metadata": {"name": "b"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "u"}]});
    post(&admin, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await.ok();
    let owned = |name: &str, block: bool, kind: &str| {
        json!({"metadata": {"name": name, "ownerReferences": [
            {"apiVersion": "v1", "kind": kind, "name": "p", "uid": "u", "blockOwnerDeletion": block}]}})
    };
    post(&user, common::MAPS, owned("free", false, "Pod")).await.ok();
    for (body, expected) in [
        (
            owned("x", true, "Pod"),
            "configmaps \"x\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>",
        ),
        (
            owned("x", true, "Nonsense"),
            "configmaps \"x\" is forbidden: cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion v1 Kind Nonsense: no matches for kind \"Nonsense\" in version \"v1\"",
        ),
    ] {
        assert_eq!(post(&user, common::MAPS, body).await.message(), expected);
    }
    let merge = [("content-type", "application/merge-patch+json")];
    let no_owner = json!({"metadata": {"ownerReferences": []}}).to_string();
    let refused = send(&user, "PATCH", &format!("{}/free", common::MAPS), &merge, no_owner).await;
    assert_eq!(refused.message(), "configmaps \"free\" is forbidden: cannot set an ownerRef on a resource you can't delete: , <nil>");
    post(&admin, common::MAPS, owned("blocked", true, "Pod")).await.ok();
    server.close().await;
}

/// KAPI-ADM-03: who approves and signs certificates must be allowed to for their signer.
#[tokio::test]
async fn signers() {
    let cluster = Cluster::new().await;
    let user = cluster.server.in_process(UserInfo::new("u", &["system:authenticated"]));
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([{"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/approval", "certificatesigningrequests/status"], "verbs": ["patch"]},
        {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": ["example.com/*"], "verbs": ["approve"]}]);
    cluster.post(&format!("{rbac}/clusterroles"), json!({"metadata": {"name": "r"}, "rules": rules})).await.ok();
    let binding = json!({"metadata": {"name": "b"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "u"}]});
    cluster.post(&format!("{rbac}/clusterrolebindings"), binding).await.ok();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::OrganizationName, "system:masters");
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    let request = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pem);
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let csr = |name: &str, signer: &str| json!({"metadata": {"name": name}, "spec": {"signerName": signer, "usages": ["client auth"], "request": request}});
    let refused = cluster.post(requests, csr("m", "kubernetes.io/kube-apiserver-client")).await;
    assert_eq!(
        refused.message(),
        "certificatesigningrequests.certificates.k8s.io \"m\" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    );
    let merge = [("content-type", "application/merge-patch+json")];
    let approve = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "r", "message": "m"}]}});
    for (name, signer, sub, expected) in [
        ("a", "example.com/one", "approval", ""),
        (
            "b",
            "example.org/one",
            "approval",
            "certificatesigningrequests.certificates.k8s.io \"b\" is forbidden: user not permitted to approve requests with signerName \"example.org/one\"",
        ),
        (
            "c",
            "example.com/one",
            "status",
            "certificatesigningrequests.certificates.k8s.io \"c\" is forbidden: user not permitted to sign requests with signerName \"example.com/one\"",
        ),
    ] {
        cluster.post(requests, csr(name, signer)).await.ok();
        let body = if sub == "status" { json!({"status": {"certificate": "AAAA"}}) } else { approve.clone() };
        let answer = send(&user, "PATCH", &format!("{requests}/{name}/{sub}"), &merge, body.to_string()).await;
        assert_eq!(answer.message(), expected, "{}", answer.text);
    }
}
