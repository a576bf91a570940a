//! What stands in addresses: selectors, paths, queries.

use http::Method;
use mainstay_apiserver::fuzz::options;
use mainstay_apiserver::request::{Query, RequestInfo, percent_decode};
use mainstay_apiserver::selector::{FieldSelector, parse_labels};
use mainstay_objects::labels_of;
use serde_json::json;

/// A selector that asks for a label's exact value chooses what has it; one that is empty chooses everything.
pub fn selectors(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let none = labels_of(&json!({}));
    let some = labels_of(&json!({"metadata": {"labels": {"app": "web", "tier": "front", "n": "3"}}}));
    if let Ok(selector) = parse_labels(text) {
        assert!(!selector.is_empty() || selector.matches(&none) && selector.matches(&some), "{text:?}");
        // A selector never says two things about the same labels.
        assert_eq!(selector.matches(&some), selector.matches(&some));
    }
    if let Ok(selector) = FieldSelector::parse(text) {
        let fields: Vec<String> = selector.fields().map(str::to_owned).collect();
        let chosen = selector.matches(|field| selector.required(field).unwrap_or_default().to_owned());
        assert!(!selector.is_empty() || chosen && fields.is_empty(), "{text:?}");
    }
}

pub fn selector_seeds() -> Vec<Vec<u8>> {
    [
        "app=web,tier in (front, back),!x,n>2",
        "a notin (b,c),d==e,f!=g,h<7",
        "metadata.name=a,status.phase!=Running",
        "spec.x=a\\,b\\=c",
        "in in (in),notin notin (notin)",
        ",,",
        "a in (,)",
        "x.example.com/y",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Paths and queries are read without a panic; what is not escaped stays as it is.
pub fn urls(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let decoded = percent_decode(path);
    assert!(path.contains('%') || decoded == path, "{path:?}");
    let pairs = Query::parse(query);
    for method in [Method::GET, Method::POST, Method::DELETE, Method::PATCH] {
        let info = RequestInfo::new(&method, path, &pairs);
        assert!(!info.verb.is_empty());
    }
    if let Err(refusal) = options(query, path) {
        assert!(refusal.code.is_client_error(), "{refusal:?}");
    }
}

pub fn url_seeds() -> Vec<Vec<u8>> {
    [
        "/api/v1/namespaces/default/pods/a/log?follow=true&tailLines=3&sinceTime=2026-01-01T00%3A00%3A00Z",
        "/apis/apps/v1/namespaces/x/deployments?limit=500&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ&labelSelector=a%3Db&resourceVersion=10&resourceVersionMatch=Exact",
        "/api/v1/watch/configmaps?watch=1&timeoutSeconds=5&allowWatchBookmarks=true&sendInitialEvents=true",
        "/api/v1/namespaces/a/configmaps/b?fieldManager=x&force=true&dryRun=All&fieldValidation=Strict&propagationPolicy=Foreground&gracePeriodSeconds=-1",
        "/apis/a.b/v1//%zz/%e2%82?=&&;=%",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
