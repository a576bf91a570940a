//! The server as a whole: start, pages, discovery, identities, the end, and a real client over the router.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::needless_pass_by_value)]

use crate::common::{Cluster, MAPS, map, open, send};
use axum::body::Body;
use http::StatusCode;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use mainstay_rbac::UserInfo;
use serde_json::json;

/// KAPI-SRV-03, KAPI-SRV-08: health, version, metrics; the built-in objects exist.
#[tokio::test]
async fn the_server_is_ready_with_its_objects() {
    let cluster = Cluster::new().await;
    for path in ["/healthz", "/livez", "/readyz", "/livez/ping", "/readyz/etcd"] {
        assert_eq!(cluster.get(path).await.text, "ok", "{path}");
    }
    assert!(cluster.get("/readyz?verbose").await.text.ends_with("readyz check passed\n"));
    assert_eq!(cluster.get("/livez/nothing").await.status, StatusCode::NOT_FOUND);
    let version = cluster.get("/version").await.ok();
    assert_eq!((&version["major"], &version["minor"], &version["emulationMinor"]), (&json!("1"), &json!("34"), &json!("34")));
    assert!(cluster.get("/metrics").await.text.contains("subresource=\"\",verb=\"GET\""));
    for path in [
        "/api/v1/namespaces/kube-node-lease",
        "/api/v1/namespaces/default/services/kubernetes",
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin",
        "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
        "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps",
        "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication",
    ] {
        assert_eq!(cluster.get(path).await.status, StatusCode::OK, "{path}");
    }
}

/// KAPI-SRV-08: the server itself brings back the Service `kubernetes`, its endpoints and the built-in namespaces.
#[tokio::test]
async fn what_the_server_keeps_comes_back() {
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let cluster = Cluster::new().await;
    let watch = |collection: &str| format!("{collection}?watch=1&fieldSelector=metadata.name=kubernetes");
    for collection in [SERVICES, "/api/v1/namespaces/default/endpoints", SLICES] {
        let before = cluster.get(&format!("{collection}/kubernetes")).await.ok();
        let mut events = cluster.watch(&watch(collection)).await;
        assert_eq!(events.take(1).await, ["ADDED kubernetes"]);
        cluster.delete(&format!("{collection}/kubernetes")).await.ok();
        assert_eq!(events.take(1).await, ["DELETED kubernetes"]);
        let back = events.next().await.unwrap();
        assert_eq!(back["type"], "ADDED", "{collection}");
        assert_ne!(back["object"]["metadata"]["uid"], before["metadata"]["uid"]);
        for field in ["spec", "subsets", "endpoints", "ports"] {
            assert_eq!(back["object"][field], before[field], "{collection} {field}");
        }
    }
    // The address of the Service is nobody else's.
    let taken = json!({"metadata": {"name": "other"}, "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 1}]}});
    let refused = cluster.post(SERVICES, taken).await;
    assert!(refused.message().contains("provided IP is already allocated"), "{}", refused.text);

    let mut events = cluster.watch("/api/v1/namespaces?watch=1&fieldSelector=metadata.name=kube-node-lease").await;
    assert_eq!(events.take(1).await, ["ADDED kube-node-lease"]);
    cluster.delete("/api/v1/namespaces/kube-node-lease").await.ok();
    let mut ending = events.next().await.unwrap()["object"].take();
    ending["spec"] = json!({});
    cluster.put("/api/v1/namespaces/kube-node-lease/finalize", ending).await.ok();
    while events.next().await.unwrap()["type"] != "DELETED" {}
    assert_eq!(events.take(1).await, ["ADDED kube-node-lease"]);

    // What others write into the endpoints is put right.
    let mut events = cluster.watch(&watch(SLICES)).await;
    assert_eq!(events.take(1).await, ["ADDED kubernetes"]);
    cluster.patch(&format!("{SLICES}/kubernetes"), "merge", json!({"endpoints": [{"addresses": ["10.9.9.9"]}]})).await.ok();
    for address in ["10.9.9.9", "127.0.0.1"] {
        assert_eq!(events.next().await.unwrap()["object"]["endpoints"][0]["addresses"], json!([address]));
    }
}

/// KAPI-SRV-01, KAPI-SRV-05, KAPI-STORE-02: one process a data directory; what was acknowledged is there after a new start.
#[tokio::test]
async fn a_data_directory_has_one_holder_and_a_memory() {
    let cluster = Cluster::new().await;
    cluster.define("t.example.com", json!({"type": "object"}), json!({})).await;
    cluster.post(MAPS, map("kept", json!({"x": "1"}))).await.ok();
    let refused = open(cluster.directory.path()).await.err().unwrap().to_string();
    assert!(refused.contains(&format!("is in use by process {}", std::process::id())), "{refused}");
    let Cluster { server, admin, directory } = cluster;
    drop(admin);
    let (ca, kubeconfig) = (server.ca_certificate().to_owned(), server.write_kubeconfig("https://127.0.0.1:6443").unwrap());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(kubeconfig).unwrap().permissions().mode() & 0o777, 0o600);
    }
    server.close().await;
    let server = open(directory.path()).await.unwrap();
    assert_eq!(server.ca_certificate(), ca, "the CA stays");
    let admin = server.in_process(UserInfo::new("admin", &["system:masters"]));
    let kept = send(&admin, "GET", &format!("{MAPS}/kept"), &[], Body::empty()).await.ok();
    assert_eq!(kept["data"]["x"], "1");
    assert_eq!(send(&admin, "GET", "/apis/t.example.com/v1/things", &[], Body::empty()).await.status, StatusCode::OK);
}

/// KAPI-SRV-04: the end closes watches by itself.
#[tokio::test]
async fn the_end_ends_watches() {
    let cluster = Cluster::new().await;
    let mut events = cluster.watch(&format!("{MAPS}?watch=true")).await;
    cluster.server.end_watches();
    assert!(events.next().await.is_none());
}

/// KAPI-DISC-01: aggregated discovery has an ETag and answers 304 to it.
#[tokio::test]
async fn discovery_is_aggregated_and_tagged() {
    let cluster = Cluster::new().await;
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let full = cluster.send("GET", "/apis", &[("accept", accept)], "").await;
    let tag = full.headers["etag"].to_str().unwrap().to_owned();
    assert_eq!(full.ok()["kind"], "APIGroupDiscoveryList");
    let again = cluster.send("GET", "/apis", &[("accept", accept), ("if-none-match", &tag)], "").await;
    assert_eq!(again.status, StatusCode::NOT_MODIFIED);
    let plain = cluster.get("/apis").await.ok();
    assert_eq!((&plain["kind"], &plain["groups"][0]["name"]), (&json!("APIGroupList"), &json!("apiregistration.k8s.io")));
    assert_eq!(cluster.get("/nothing").await.text, "404 page not found\n");
}

/// KAPI-DISC-02: OpenAPI v3 has an index with hashes, and documents with extensions; v2 is one document.
#[tokio::test]
async fn openapi_describes_kinds() {
    let cluster = Cluster::new().await;
    let index = cluster.get("/openapi/v3").await.ok();
    assert!(index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap().starts_with("/openapi/v3/apis/apps/v1?hash="));
    let apps = cluster.get("/openapi/v3/apis/apps/v1").await.ok();
    let deployment = &apps["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(deployment["x-kubernetes-group-version-kind"][0]["kind"], "Deployment");
    assert!(cluster.get("/openapi/v2").await.ok()["definitions"]["io.k8s.api.core.v1.Pod"].is_object());
}

/// KAPI-AUTH-02, KAPI-AUTHZ-01, KAPI-AUTHZ-03: nobody without a credential; others as far as roles go; impersonation; reviews.
#[tokio::test]
async fn permissions_are_enforced() {
    let cluster = Cluster::new().await;
    let anonymous = send(&cluster.server.router(), "GET", MAPS, &[], Body::empty()).await;
    assert_eq!(anonymous.status, StatusCode::UNAUTHORIZED);
    assert_eq!(send(&cluster.server.router(), "GET", "/livez", &[], Body::empty()).await.status, StatusCode::OK);
    let ann = cluster.server.in_process(UserInfo::new("ann", &["system:authenticated"]));
    let denied = send(&ann, "GET", MAPS, &[], Body::empty()).await;
    assert_eq!(
        denied.message(),
        "configmaps is forbidden: User \"ann\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"ns\""
    );
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/ns";
    cluster
        .post(
            &format!("{rbac}/roles"),
            json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]}),
        )
        .await
        .ok();
    let subject = json!([{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}]);
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"});
    cluster.post(&format!("{rbac}/rolebindings"), json!({"metadata": {"name": "b"}, "roleRef": role, "subjects": subject})).await.ok();
    assert_eq!(send(&ann, "GET", MAPS, &[], Body::empty()).await.status, StatusCode::OK);
    let as_ben = cluster.send("GET", MAPS, &[("impersonate-user", "ben")], "").await;
    assert_eq!(as_ben.status, StatusCode::FORBIDDEN);
    let review = json!({"spec": {"user": "ann", "resourceAttributes": {"namespace": "ns", "verb": "list", "resource": "configmaps"}}});
    let answer = cluster.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review).await.ok();
    assert_eq!(answer["status"]["allowed"], true);
}

/// KAPI-AUTHZ-01: an update or an apply that creates needs the right to create as well.
#[tokio::test]
async fn writes_that_create_need_the_right_to_create() {
    let cluster = Cluster::new().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/ns";
    let grant = async |name: &str, verbs: &[&str]| {
        let rules = json!([{"apiGroups": ["", "coordination.k8s.io"], "resources": ["configmaps", "leases"], "verbs": verbs}]);
        cluster.post(&format!("{rbac}/roles"), json!({"metadata": {"name": name}, "rules": rules})).await.ok();
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
        let subjects = json!([{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}]);
        cluster
            .post(&format!("{rbac}/rolebindings"), json!({"metadata": {"name": name}, "roleRef": role, "subjects": subjects}))
            .await
            .ok();
    };
    grant("change", &["get", "update", "patch"]).await;
    let ann = cluster.server.in_process(UserInfo::new("ann", &["system:authenticated"]));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}).to_string();
    let apply = [("content-type", "application/apply-patch+yaml")];
    let path = format!("{MAPS}/a?fieldManager=ann");
    let denied = send(&ann, "PATCH", &path, &apply, map.clone()).await;
    assert_eq!(denied.status, StatusCode::FORBIDDEN);
    assert_eq!(
        denied.message(),
        "configmaps \"a\" is forbidden: User \"ann\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"ns\""
    );
    let leases = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l";
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}).to_string();
    let put = [("content-type", "application/json")];
    assert_eq!(send(&ann, "PUT", leases, &put, lease.clone()).await.status, StatusCode::FORBIDDEN);
    grant("create", &["create"]).await;
    assert_eq!(send(&ann, "PATCH", &path, &apply, map).await.status, StatusCode::CREATED);
    assert_eq!(send(&ann, "PUT", leases, &put, lease).await.status, StatusCode::CREATED);
}

/// KAPI-AUTH-02: an account's token identifies it.
#[tokio::test]
async fn tokens_identify_accounts() {
    let cluster = Cluster::new().await;
    let request = cluster.post("/api/v1/namespaces/ns/serviceaccounts/default/token", json!({"spec": {}})).await.ok();
    let bearer = format!("Bearer {}", request["status"]["token"].as_str().unwrap());
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let who = send(&cluster.server.router(), "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", &headers, review.to_string())
        .await
        .ok();
    assert_eq!(who["status"]["userInfo"]["username"], "system:serviceaccount:ns:default");
}

/// KAPI-CLIENT-02: kube-rs works over the router without a socket.
#[tokio::test]
async fn a_real_client_needs_no_socket() {
    let cluster = Cluster::new().await;
    let client = kube::Client::new(cluster.admin.clone(), "ns");
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let object: ConfigMap = serde_json::from_value(map("a", json!({"x": "1"}))).unwrap();
    maps.create(&PostParams::default(), &object).await.unwrap();
    let applied = maps.patch("a", &PatchParams::apply("kube-rs").force(), &Patch::Apply(map("a", json!({"x": "2"})))).await.unwrap();
    assert_eq!(applied.data.unwrap()["x"], "2");
    assert_eq!(maps.list(&ListParams::default().fields("metadata.name=a")).await.unwrap().items.len(), 1);
    assert!(maps.get_opt("none").await.unwrap().is_none());
}
