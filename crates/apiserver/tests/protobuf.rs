//! Protobuf bodies and answers, as typed clients send and ask for them.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use crate::common::{Cluster, MAPS, map};
use axum::body::Body;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use mainstay_protobuf::{Limits, MEDIA_TYPE, decode, encode};
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// What kubectl's typed commands and controller-runtime ask for.
const ACCEPT: &str = "application/vnd.kubernetes.protobuf,application/json";
const PARTIAL: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Sends a body and answers status, headers and the object, from protobuf or JSON.
async fn call(cluster: &Cluster, method: &str, path: &str, accept: &str, body: Option<&Value>) -> (StatusCode, HeaderMap, Value) {
    let request = Request::builder().method(method).uri(path).header("accept", accept).header("content-type", MEDIA_TYPE);
    let bytes = body.map(|body| encode(body).unwrap()).unwrap_or_default();
    let response = cluster.admin.clone().oneshot(request.body(Body::from(bytes)).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let value = if parts.headers["content-type"] == MEDIA_TYPE {
        decode(&bytes, &Limits::default()).unwrap()
    } else {
        serde_json::from_slice(&bytes).unwrap()
    };
    (parts.status, parts.headers, value)
}

/// KAPI-SRV-07: create, read, list, replace and delete in protobuf say the same as in JSON.
#[tokio::test]
async fn built_in_kinds_come_and_go_as_protobuf() {
    let cluster = Cluster::new().await;
    let deployments = "/apis/apps/v1/namespaces/ns/deployments";
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "example.com/web:1", "ports": [{"containerPort": 80}]}]},
            },
        },
    });
    let (status, headers, created) = call(&cluster, "POST", deployments, ACCEPT, Some(&deployment)).await;
    assert_eq!((status, headers["content-type"].to_str().unwrap()), (StatusCode::CREATED, MEDIA_TYPE), "{created}");
    // Defaults fill what an empty value stood for.
    assert_eq!(created["spec"]["replicas"], 1);
    assert_eq!(created["spec"]["strategy"]["type"], "RollingUpdate");
    assert_eq!(created["spec"]["template"]["spec"]["restartPolicy"], "Always");
    let json = cluster.get(&format!("{deployments}/web")).await.ok();
    assert_eq!(created, json);
    let from_json = cluster
        .send("POST", &format!("{deployments}?dryRun=All"), &[("content-type", "application/json")], {
            let mut other = deployment.clone();
            other["metadata"]["name"] = json!("other");
            other.to_string()
        })
        .await
        .ok();
    assert_eq!(created["spec"], from_json["spec"], "a body in protobuf means what it means in JSON");

    let mut wanted = created;
    wanted["spec"]["replicas"] = json!(0);
    let (status, _, updated) = call(&cluster, "PUT", &format!("{deployments}/web"), ACCEPT, Some(&wanted)).await;
    assert_eq!((status, &updated["spec"]["replicas"]), (StatusCode::OK, &json!(0)));
    let (_, headers, list) = call(&cluster, "GET", deployments, ACCEPT, None).await;
    assert_eq!((headers["content-type"].to_str().unwrap(), &list["kind"]), (MEDIA_TYPE, &json!("DeploymentList")));
    assert_eq!(list["items"][0]["metadata"]["name"], "web");
    let (_, _, scale) = call(&cluster, "GET", &format!("{deployments}/web/scale"), ACCEPT, None).await;
    assert_eq!((&scale["kind"], &scale["status"]["selector"]), (&json!("Scale"), &json!("app=web")));
    let (_, _, partial) = call(&cluster, "GET", deployments, &PARTIAL.replace("Metadata;", "MetadataList;"), None).await;
    assert_eq!(partial["kind"], "PartialObjectMetadataList");
    let options = json!({"apiVersion": "apps/v1", "kind": "DeleteOptions", "preconditions": {"uid": "another"}});
    let (status, headers, conflict) = call(&cluster, "DELETE", &format!("{deployments}/web"), ACCEPT, Some(&options)).await;
    assert_eq!((status, headers["content-type"].to_str().unwrap()), (StatusCode::CONFLICT, MEDIA_TYPE), "{conflict}");
    let (status, headers, missing) = call(&cluster, "GET", &format!("{deployments}/none"), ACCEPT, None).await;
    assert_eq!((status, headers["content-type"].to_str().unwrap()), (StatusCode::NOT_FOUND, MEDIA_TYPE));
    assert_eq!((&missing["reason"], &missing["details"]["name"]), (&json!("NotFound"), &json!("none")));
    // A table has no message: the next type of the list is taken.
    let table = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1;g=meta.k8s.io";
    let (_, headers, table) = call(&cluster, "GET", deployments, table, None).await;
    assert_eq!((headers["content-type"].to_str().unwrap(), &table["kind"]), ("application/json", &json!("Table")));
}

/// KAPI-SRV-07: a list in protobuf, which is written item by item, is the list in JSON; so is one of metadata.
#[tokio::test]
async fn lists_are_those_of_json() {
    let cluster = Cluster::new().await;
    for name in ["a", "b", "c"] {
        cluster.post(MAPS, map(name, json!({"k": name.repeat(9)}))).await.ok();
    }
    for path in [MAPS.to_owned(), format!("{MAPS}?labelSelector=none"), "/api/v1/services".into()] {
        for shape in ["", ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"] {
            let (_, headers, listed) = call(&cluster, "GET", &path, &format!("{MEDIA_TYPE}{shape}"), None).await;
            assert_eq!(headers["content-type"], MEDIA_TYPE);
            let (_, _, mut wanted) = call(&cluster, "GET", &path, &format!("application/json{shape}"), None).await;
            // A list of metadata without items is null in JSON.
            if wanted["items"].is_null() {
                wanted["items"] = json!([]);
            }
            // Items of typed lists state no kind of their own; those of metadata do in JSON alone.
            for item in wanted["items"].as_array_mut().unwrap() {
                item.as_object_mut().unwrap().retain(|key, _| key != "kind" && key != "apiVersion");
            }
            assert_eq!(listed, wanted, "{path}{shape}");
        }
    }
}

/// KAPI-DISC-02: `/openapi/v2` as protobuf has a type and a tag of its own; a type that it does not have is refused.
#[tokio::test]
async fn openapi_v2_goes_out_as_protobuf() {
    let cluster = Cluster::new().await;
    let ask = async |accept: &str| {
        let request = Request::builder().uri("/openapi/v2").header("accept", accept).body(Body::empty()).unwrap();
        let (parts, body) = cluster.admin.clone().oneshot(request).await.unwrap().into_parts();
        (parts.status, parts.headers, body.collect().await.unwrap().to_bytes())
    };
    let (_, json_headers, json) = ask("application/json").await;
    for accept in [
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
        "application/com.github.proto-openapi.spec.v2.v1.0+protobuf, */*;q=0.1",
    ] {
        let (status, headers, bytes) = ask(accept).await;
        assert_eq!((status, headers["content-type"].to_str().unwrap()), (StatusCode::OK, mainstay_protobuf::OPENAPI_V2_MEDIA_TYPE));
        assert_ne!(headers["etag"], json_headers["etag"]);
        let document: Value = serde_json::from_slice(&json).unwrap();
        assert!(bytes == mainstay_protobuf::encode_openapi_v2(&document).unwrap());
    }
    assert_eq!(ask("*/*").await.1["content-type"], "application/json");
    assert_eq!(ask("text/html").await.0, StatusCode::NOT_ACCEPTABLE);
}

/// KAPI-REST-06: a scale as a table has the columns of a scale.
#[tokio::test]
async fn scales_are_tables_of_their_own() {
    let cluster = Cluster::new().await;
    let body = json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "web"}, "spec": {"replicas": 3, "selector": {"a": "b"},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let controllers = "/api/v1/namespaces/ns/replicationcontrollers";
    cluster.post(controllers, body).await.ok();
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let (_, _, table) = call(&cluster, "GET", &format!("{controllers}/web/scale"), table, None).await;
    let names: Vec<_> = table["columnDefinitions"].as_array().unwrap().iter().map(|column| column["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Name", "Desired", "Available", "Age"]);
    assert_eq!((&table["rows"][0]["cells"][0], &table["rows"][0]["cells"][1]), (&json!("web"), &json!(3)));
}

/// KAPI-SRV-07: custom resources are JSON and YAML; only their metadata goes out as protobuf.
#[tokio::test]
async fn custom_resources_are_not_protobuf() {
    let cluster = Cluster::new().await;
    cluster.define("example.com", json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}), json!({})).await;
    let things = "/apis/example.com/v1/namespaces/ns/things";
    cluster.post(things, json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}})).await.ok();
    let (_, headers, list) = call(&cluster, "GET", things, ACCEPT, None).await;
    assert_eq!((headers["content-type"].to_str().unwrap(), &list["kind"]), ("application/json", &json!("ThingList")));
    assert_eq!(call(&cluster, "GET", things, MEDIA_TYPE, None).await.0, StatusCode::NOT_ACCEPTABLE);
    let (status, _, answer) = call(&cluster, "POST", things, ACCEPT, Some(&map("b", json!({})))).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(
        answer["message"],
        "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml"
    );
    let (_, headers, partial) = call(&cluster, "GET", &format!("{things}/a"), PARTIAL, None).await;
    assert_eq!((headers["content-type"].to_str().unwrap(), &partial["metadata"]["name"]), (MEDIA_TYPE, &json!("a")));
    let options = json!({"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"});
    assert_eq!(call(&cluster, "DELETE", &format!("{things}/a"), ACCEPT, Some(&options)).await.0, StatusCode::OK);
}

/// KAPI-SRV-07, KAPI-WATCH-01: a watch in protobuf tells what one in JSON tells.
#[tokio::test]
async fn watches_come_as_frames() {
    let cluster = Cluster::new().await;
    let revision = cluster.get(MAPS).await.ok()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    cluster.post(MAPS, map("a", json!({"x": "1"}))).await.ok();
    cluster.patch(&format!("{MAPS}/a"), "merge", json!({"data": {"x": "2"}})).await.ok();
    cluster.delete(&format!("{MAPS}/a")).await.ok();
    let path = format!("{MAPS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion={revision}");
    let mut json = cluster.watch(&path).await;
    let request = Request::builder().uri(&path).header("accept", "application/vnd.kubernetes.protobuf;stream=watch,application/json");
    let response = cluster.admin.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/vnd.kubernetes.protobuf;stream=watch");
    let mut rest = response.into_body().collect().await.unwrap().to_bytes().to_vec();
    let mut kinds = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
        let event: Vec<u8> = rest.drain(..4 + length).skip(4).collect();
        let kind = String::from_utf8(event[2..2 + usize::from(event[1])].to_vec()).unwrap();
        let at = event.windows(4).position(|part| part == b"k8s\0").unwrap();
        let object = decode(&event[at..], &Limits::default()).unwrap();
        let told = json.next().await.unwrap();
        assert_eq!(told["type"], kind.as_str());
        assert_eq!(
            told["object"]["metadata"]["name"].as_str().unwrap_or_default(),
            object["metadata"]["name"].as_str().unwrap_or_default()
        );
        if kind != "BOOKMARK" {
            assert_eq!(told["object"], object);
        }
        kinds.push(kind);
    }
    assert_eq!(kinds[..3], ["ADDED", "MODIFIED", "DELETED"]);
}

/// KAPI-SRV-07: bytes that are no object are 400 with their place.
#[tokio::test]
async fn broken_bodies_are_refused() {
    let cluster = Cluster::new().await;
    let mut bytes = encode(&map("a", json!({"k": "zz"}))).unwrap();
    let at = bytes.iter().position(|byte| *byte == b'z').unwrap();
    bytes[at] = 0xff;
    let answer = cluster.send("POST", MAPS, &[("content-type", MEDIA_TYPE)], bytes).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        answer.message(),
        "the object provided is unrecognized (must be of type ConfigMap): ConfigMap.data[k]: the string is not UTF-8"
    );
    let pod = encode(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}})).unwrap();
    assert_eq!(cluster.send("POST", MAPS, &[("content-type", MEDIA_TYPE)], pod).await.status, StatusCode::BAD_REQUEST);
}
