//! Lists in pages whose history goes while they are read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::needless_pass_by_value)]

use crate::common::{Cluster, MAPS, map};
use http::StatusCode;
use serde_json::{Value, json};

const TOO_OLD: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
                       the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
                       Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
                       deleted between the time the first chunk was returned and now may show up in the list.";

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

fn token(list: &Value) -> &str {
    list["metadata"]["continue"].as_str().unwrap_or_default()
}

impl Cluster {
    async fn forget(&self) {
        let store = self.server.api().objects.store.clone();
        let latest = *store.revision().borrow();
        store.compact(latest).await.unwrap();
    }
}

/// KAPI-REST-02: pages show one revision; when its history is gone the answer is 410 with a token that goes on where the last page
/// ended, at whatever revision is the latest, and never expires itself.
#[tokio::test]
async fn tokens_expire() {
    let cluster = Cluster::new().await;
    for name in ["a", "c", "e", "g", "i"] {
        cluster.post(MAPS, json!({"metadata": {"name": name, "labels": {"odd": "yes"}}})).await.ok();
    }
    for query in ["limit=2", "limit=2&labelSelector=odd%3Dyes"] {
        let first = cluster.get(&format!("{MAPS}?{query}")).await.ok();
        assert_eq!(names(&first), ["a", "c"]);
        for name in ["b", "d", "f"] {
            cluster.post(MAPS, json!({"metadata": {"name": name, "labels": {"odd": "yes"}}})).await.ok();
        }
        cluster.delete(&format!("{MAPS}/g")).await.ok();
        let second = cluster.get(&format!("{MAPS}?{query}&continue={}", token(&first))).await.ok();
        assert_eq!(names(&second), ["e", "g"], "what happened meanwhile does not show");
        assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
        let revision = first["metadata"]["resourceVersion"].as_str().unwrap();
        let exact = format!("{MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact");
        assert_eq!(names(&cluster.get(&exact).await.ok()), ["a", "c", "e", "g", "i"]);

        cluster.forget().await;
        let gone = cluster.get(&format!("{MAPS}?{query}&continue={}", token(&first))).await;
        assert_eq!((gone.status, &gone.body["reason"], gone.message()), (StatusCode::GONE, &json!("Expired"), TOO_OLD));
        let fresh = token(&gone.body).to_owned();
        assert!(!fresh.is_empty(), "{}", gone.text);
        // The token is good whatever is forgotten until it is used.
        cluster.post(MAPS, map("z", json!({}))).await.ok();
        cluster.forget().await;
        let mut rest = cluster.get(&format!("{MAPS}?{query}&continue={fresh}")).await.ok();
        assert_eq!(names(&rest), ["d", "e"], "what is there now, after the last page");
        let latest = rest["metadata"]["resourceVersion"].clone();
        let mut seen = Vec::new();
        while !token(&rest).is_empty() {
            rest = cluster.get(&format!("{MAPS}?{query}&continue={}", token(&rest))).await.ok();
            assert_eq!(rest["metadata"]["resourceVersion"], latest, "these pages are consistent again");
            seen.extend(names(&rest).into_iter().map(str::to_owned));
        }
        assert_eq!(seen[..2], ["f", "i"]);

        let gone = cluster.get(&exact).await;
        assert_eq!((gone.status, gone.message()), (StatusCode::GONE, "The resourceVersion for the provided list is too old."));
        assert_eq!(token(&gone.body), "", "there is nothing to go on with");
        for name in ["b", "d", "f", "z"] {
            cluster.delete(&format!("{MAPS}/{name}")).await.ok();
        }
        cluster.post(MAPS, json!({"metadata": {"name": "g", "labels": {"odd": "yes"}}})).await.ok();
    }
}

/// KAPI-REST-02: the same across namespaces and for custom resources, as tables, too.
#[tokio::test]
async fn tokens_of_all_namespaces_expire() {
    let cluster = Cluster::new().await;
    cluster.define("example.com", json!({"type": "object"}), json!({})).await;
    for namespace in ["n1", "n2"] {
        cluster.post("/api/v1/namespaces", json!({"metadata": {"name": namespace}})).await.ok();
        for name in ["a", "b"] {
            let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}});
            cluster.post(&format!("/apis/example.com/v1/namespaces/{namespace}/things"), thing).await.ok();
        }
    }
    let all = "/apis/example.com/v1/things";
    let first = cluster.get(&format!("{all}?limit=3")).await.ok();
    assert_eq!((names(&first), &first["metadata"]["remainingItemCount"]), (vec!["a", "b", "a"], &json!(1)));
    cluster.post(MAPS, map("a", json!({}))).await.ok();
    cluster.forget().await;
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let gone = cluster.send("GET", &format!("{all}?limit=3&continue={}", token(&first)), &table, "").await;
    assert_eq!((gone.status, gone.message()), (StatusCode::GONE, TOO_OLD));
    let rest = cluster.send("GET", &format!("{all}?limit=3&continue={}", token(&gone.body)), &table, "").await.ok();
    assert_eq!((rest["rows"].as_array().unwrap().len(), &rest["rows"][0]["cells"][0]), (1, &json!("b")));
}
