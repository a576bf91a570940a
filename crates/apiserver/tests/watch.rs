//! Watches: order, selectors, bookmarks, history.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::needless_pass_by_value)]

use crate::common::{Cluster, MAPS, map};
use http::StatusCode;
use serde_json::json;

/// KAPI-WATCH-01: the objects there are, then every change once and in order; a deletion shows the last state at its own revision.
#[tokio::test]
async fn a_watch_tells_everything_once() {
    let cluster = Cluster::new().await;
    cluster.post(MAPS, map("a", json!({}))).await.ok();
    let mut events = cluster.watch(&format!("{MAPS}?watch=true")).await;
    cluster.post(MAPS, map("b", json!({}))).await.ok();
    cluster.patch(&format!("{MAPS}/a"), "merge", json!({"data": {"x": "1"}})).await.ok();
    cluster.delete(&format!("{MAPS}/a")).await.ok();
    assert_eq!(events.take(3).await, ["ADDED a", "ADDED b", "MODIFIED a"]);
    let last = events.next().await.unwrap();
    assert_eq!((&last["type"], &last["object"]["data"]["x"]), (&json!("DELETED"), &json!("1")));
    let list = cluster.get(MAPS).await.ok();
    assert_eq!(last["object"]["metadata"]["resourceVersion"], list["metadata"]["resourceVersion"]);
}

/// KAPI-WATCH-01: from a revision, nothing before it is told and nothing after it is missed.
#[tokio::test]
async fn a_watch_begins_where_it_is_told() {
    let cluster = Cluster::new().await;
    let first = cluster.post(MAPS, map("a", json!({}))).await.ok();
    for index in 0..20 {
        cluster.patch(&format!("{MAPS}/a"), "merge", json!({"data": {"x": index.to_string()}})).await.ok();
    }
    let revision = first["metadata"]["resourceVersion"].as_str().unwrap();
    let mut events = cluster.watch(&format!("{MAPS}?watch=true&resourceVersion={revision}")).await;
    for index in 0..20 {
        let event = events.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["data"]["x"]), (&json!("MODIFIED"), &json!(index.to_string())));
    }
    let mut ahead = cluster.watch(&format!("{MAPS}?watch=true&resourceVersion=99999999&timeoutSeconds=1")).await;
    cluster.patch(&format!("{MAPS}/a"), "merge", json!({"data": {"x": "later"}})).await.ok();
    assert!(ahead.next().await.is_none(), "what is before the asked revision is not told");
}

/// KAPI-WATCH-01: an object that begins or ceases to match is added or deleted for the watcher.
#[tokio::test]
async fn selectors_turn_changes_into_additions_and_deletions() {
    let cluster = Cluster::new().await;
    let mut events = cluster.watch(&format!("{MAPS}?watch=true&labelSelector=w%3Dyes")).await;
    cluster.post(MAPS, map("a", json!({}))).await.ok();
    let path = format!("{MAPS}/a");
    cluster.patch(&path, "merge", json!({"metadata": {"labels": {"w": "yes"}}})).await.ok();
    cluster.patch(&path, "merge", json!({"data": {"x": "1"}})).await.ok();
    cluster.patch(&path, "merge", json!({"metadata": {"labels": {"w": null}}})).await.ok();
    cluster.delete(&path).await.ok();
    cluster.post(MAPS, json!({"metadata": {"name": "b", "labels": {"w": "yes"}}})).await.ok();
    assert_eq!(events.take(4).await, ["ADDED a", "MODIFIED a", "DELETED a", "ADDED b"]);
}

/// KAPI-WATCH-01: a watch-list ends its initial events with the annotated bookmark; a timeout ends the stream.
#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let cluster = Cluster::new().await;
    cluster.post(MAPS, map("a", json!({}))).await.ok();
    let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1";
    let mut events = cluster.watch(&format!("{MAPS}?{query}")).await;
    assert_eq!(events.take(1).await, ["ADDED a"]);
    let mark = events.next().await.unwrap();
    assert_eq!(
        (&mark["type"], &mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"]),
        (&json!("BOOKMARK"), &json!("true"))
    );
    while let Some(event) = events.next().await {
        assert_eq!(event["type"], "BOOKMARK");
    }
}

/// KAPI-WATCH-02: all watchers of a resource get every change.
#[tokio::test]
async fn many_watchers_see_a_change() {
    let cluster = Cluster::new().await;
    let mut watchers = Vec::new();
    for _ in 0..200 {
        watchers.push(cluster.watch(&format!("{MAPS}?watch=true&resourceVersion=0")).await);
    }
    cluster.post(MAPS, map("a", json!({}))).await.ok();
    for events in &mut watchers {
        assert_eq!(events.take(1).await, ["ADDED a"]);
    }
}

/// KAPI-WATCH-01, KAPI-STORE-01: a watch that begins before what is kept gets an ERROR event with 410.
#[tokio::test]
async fn a_compacted_revision_is_an_error_event() {
    let cluster = Cluster::new().await;
    let first = cluster.post(MAPS, map("a", json!({}))).await.ok();
    // More changes than the ring of recent ones holds, so that the store's history is asked.
    for index in 0..1_100 {
        let path = format!("{MAPS}/a");
        cluster.patch(&path, "merge", json!({"data": {"x": index.to_string()}})).await.ok();
    }
    let revision = first["metadata"]["resourceVersion"].as_str().unwrap();
    let mut events = cluster.watch(&format!("{MAPS}?watch=true&resourceVersion={revision}")).await;
    assert_eq!(events.next().await.unwrap()["object"]["data"]["x"], "0", "the store remembers what the ring forgot");
    let store = cluster.server.api().objects.store.clone();
    let latest = *store.revision().borrow();
    store.compact(latest).await.unwrap();
    let mut events = cluster.watch(&format!("{MAPS}?watch=true&resourceVersion={revision}")).await;
    let event = events.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["code"], &event["object"]["reason"]), (&json!("ERROR"), &json!(410), &json!("Expired")));
    let list = cluster.get(&format!("{MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact")).await;
    assert_eq!(list.status, StatusCode::GONE);
}
