//! Bodies that are too large or too deep, over a real connection: the client gets its answer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::needless_pass_by_value)]

use crate::common::{Cluster, MAPS, map};
use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Either, Full, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use mainstay_serve::Server;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const LIMIT: usize = 3 << 20;

/// One request on a connection of its own, its length told before or not.
async fn ask(port: u16, method: &str, path: &str, kind: &str, body: Vec<u8>, told: bool) -> (StatusCode, Value) {
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let body = Bytes::from(body);
    let body = if told {
        Either::Left(Full::new(body))
    } else {
        let pieces: Vec<_> =
            body.chunks(64 << 10).map(|piece| Ok::<_, std::convert::Infallible>(Frame::data(body.slice_ref(piece)))).collect();
        Either::Right(StreamBody::new(futures::stream::iter(pieces).boxed()))
    };
    let request = Request::builder().method(method).uri(path).header("host", "localhost").header("content-type", kind);
    let answer = sender.send_request(request.body(body).unwrap()).await.expect("an answer");
    let status = answer.status();
    let bytes = answer.into_body().collect().await.expect("a whole answer").to_bytes();
    connection.abort();
    (status, serde_json::from_slice(&bytes).unwrap())
}

/// KAPI-SRV-06, KAPI-REST-04: more than 3 MiB is 413 for every verb and every form, however much more it is and whether its length is
/// told before; the answer arrives although the client was still sending. Exactly 3 MiB is read.
#[tokio::test(flavor = "multi_thread")]
async fn too_large() {
    let cluster = Cluster::new().await;
    cluster.post(MAPS, map("a", json!({}))).await.ok();
    let server = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let port = server.address().port();
    let stop = CancellationToken::new();
    let running = tokio::spawn(server.run(cluster.admin.clone(), stop.clone()));
    let one = format!("{MAPS}/a");
    for size in [LIMIT + 1, 4 << 20, 20 << 20] {
        for told in [true, false] {
            for (method, path, kind) in [
                ("POST", MAPS, "application/json"),
                ("POST", MAPS, "application/yaml"),
                ("POST", MAPS, "application/vnd.kubernetes.protobuf"),
                ("PUT", &one, "application/json"),
                ("PATCH", &one, "application/merge-patch+json"),
                ("PATCH", &one, "application/apply-patch+yaml"),
                ("DELETE", &one, "application/json"),
            ] {
                let (status, answer) = ask(port, method, path, kind, vec![b' '; size], told).await;
                let message = "Request entity too large: limit is 3145728";
                assert_eq!((status, &answer["message"]), (StatusCode::PAYLOAD_TOO_LARGE, &json!(message)), "{method} {kind} {size}");
                assert_eq!(answer["reason"], "RequestEntityTooLarge");
            }
        }
    }
    let mut fits = map("fits", json!({})).to_string().into_bytes();
    fits.resize(LIMIT, b' ');
    assert_eq!(ask(port, "POST", MAPS, "application/json", fits, false).await.0, StatusCode::CREATED);
    stop.cancel();
    running.await.unwrap();
}

/// KAPI-REST-04: what nests deeper than is read is refused in every form that can nest, as 400 with the reason, and the server lives.
#[tokio::test]
async fn too_deep() {
    let cluster = Cluster::new().await;
    cluster.define("example.com", json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}), json!({})).await;
    let things = "/apis/example.com/v1/namespaces/ns/things";
    let nested = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    let thing = |depth: usize| {
        format!("{{\"apiVersion\":\"example.com/v1\",\"kind\":\"Thing\",\"metadata\":{{\"name\":\"deep\"}},\"spec\":{}}}", nested(depth))
    };
    let post = async |kind: &str, body: String| cluster.send("POST", things, &[("content-type", kind)], body).await;
    post("application/json", thing(100)).await.ok();
    let read = cluster.get(&format!("{things}/deep")).await.ok();
    assert_eq!(read["spec"], serde_json::from_str::<Value>(&nested(100)).unwrap(), "what is accepted comes back");
    for kind in ["application/json", "application/yaml"] {
        let refused = post(kind, thing(100_000)).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{kind}: {}", &refused.text[..200]);
        assert_eq!(refused.body["reason"], "BadRequest");
    }
    let one = format!("{things}/deep");
    for (kind, body) in [
        ("application/merge-patch+json", nested(100_000)),
        ("application/json-patch+json", format!("[{{\"op\":\"add\",\"path\":\"/spec\",\"value\":{}}}]", nested(100_000))),
        ("application/apply-patch+yaml", thing(100_000)),
    ] {
        let refused = cluster.send("PATCH", &format!("{one}?fieldManager=test"), &[("content-type", kind)], body).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{kind}: {}", &refused.text[..refused.text.len().min(200)]);
    }
    // What is built up step by step ends before it cannot be read any more.
    let path = |depth: usize| format!("/spec{}", "/a".repeat(depth));
    let value: Value = serde_json::from_str(&nested(90)).unwrap();
    let refused = cluster.patch(&one, "json", json!([{"op": "replace", "path": path(100), "value": value}])).await;
    let words = "the object nests too deeply: with its managed fields, at most 120 levels are stored";
    assert_eq!((refused.status, refused.message()), (StatusCode::BAD_REQUEST, words));
    for depth in 110..127 {
        let answer = post("application/json", thing(depth).replace("\"deep\"", &format!("\"deep-{depth}\""))).await;
        if answer.status == StatusCode::CREATED {
            continue;
        }
        assert_eq!((answer.status, answer.message()), (StatusCode::BAD_REQUEST, words), "{depth}");
    }
    // Whatever was taken can be read, alone and in lists of every form, changed and deleted.
    for accept in ["application/json", "application/yaml"] {
        let list = cluster.send("GET", &format!("{things}?pretty=true"), &[("accept", accept)], "").await;
        assert!(list.status.is_success() && list.text.contains("deep-110"), "{accept}: {}", list.status);
    }
    let list = cluster.get(things).await.ok();
    for item in list["items"].as_array().unwrap() {
        let one = format!("{things}/{}", item["metadata"]["name"].as_str().unwrap());
        cluster.get(&one).await.ok();
        cluster.patch(&one, "merge", json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
        cluster.delete(&one).await.ok();
    }
}
