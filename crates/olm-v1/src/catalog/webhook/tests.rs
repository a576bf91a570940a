#![allow(clippy::unwrap_used)]

use axum::body::{Body, to_bytes};
use axum::http::Method;
use tower::ServiceExt as _;

use super::*;

fn review(object: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u-1", "operation": "CREATE", "object": object,
            "resource": {"group": "olm.operatorframework.io", "version": "v1", "resource": "clustercatalogs"},
        },
    })
}

fn patched(object: &Value) -> Option<Value> {
    let answer = answer(review(object).to_string().as_bytes()).unwrap();
    let response = &answer["response"];
    assert_eq!((&answer["apiVersion"], &answer["kind"]), (&json!("admission.k8s.io/v1"), &json!("AdmissionReview")));
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("u-1"), &json!(true)));
    assert_eq!(response.get("patch").is_some(), response["patchType"] == "JSONPatch");
    let patch = response.get("patch")?.as_str().unwrap();
    Some(serde_json::from_slice(&STANDARD.decode(patch).unwrap()).unwrap())
}

async fn ask(router: &Router, method: Method, form: &str, body: Body) -> (StatusCode, String) {
    let request = Request::builder().method(method).uri(PATH).header(header::CONTENT_TYPE, form).body(body).unwrap();
    let (parts, body) = router.clone().oneshot(request).await.unwrap().into_parts();
    (parts.status, String::from_utf8(to_bytes(body, 1 << 20).await.unwrap().to_vec()).unwrap())
}

/// OLM1-CAT-03: the label is set where it is missing, put right where it is wrong, and everything else stays.
#[test]
fn the_label_is_what_the_name_is() {
    let key = "/metadata/labels/olm.operatorframework.io~1metadata.name";
    let put = |path: &str, value: Value| Some(json!([{"op": "add", "path": path, "value": value}]));
    let named = |labels: Value| json!({"metadata": {"name": "real", "labels": labels}});
    for (object, wanted) in [
        (json!({"metadata": {"name": "real"}}), put("/metadata/labels", json!({NAME_LABEL: "real"}))),
        (named(Value::Null), put("/metadata/labels", json!({NAME_LABEL: "real"}))),
        (named(json!({})), put(key, json!("real"))),
        (named(json!({"team": "a"})), put(key, json!("real"))),
        (named(json!({NAME_LABEL: "other"})), put(key, json!("real"))),
        (named(json!({NAME_LABEL: ""})), put(key, json!("real"))),
        (named(json!({NAME_LABEL: "real"})), None),
        // The server makes the name later, and tells nobody.
        (json!({"metadata": {"generateName": "real-"}}), None),
        (json!({"metadata": {"name": ""}}), None),
        // Deleted.
        (Value::Null, None),
    ] {
        assert_eq!(patched(&object), wanted, "{object}");
    }
}

/// OLM1-CAT-03: whatever is no review of a catalog is refused, with what is wrong.
#[test]
fn other_requests_are_refused() {
    let of = |change: fn(&mut Value)| {
        let mut review = review(&json!({"metadata": {"name": "real"}}));
        change(&mut review);
        answer(review.to_string().as_bytes())
    };
    for change in [
        (|review| review["apiVersion"] = "admission.k8s.io/v1beta1".into()) as fn(&mut Value),
        |review| review["kind"] = "Review".into(),
        |review| review["request"] = Value::Null,
    ] {
        assert!(matches!(of(change), Err(ReviewError::Kind { .. })));
    }
    for odd in ["", "null", "[]", "{\"kind\": 1}", &"[".repeat(10_000)] {
        assert!(matches!(answer(odd.as_bytes()), Err(ReviewError::Form(_))));
    }
    let other = of(|review| review["request"]["resource"]["resource"] = "clusterextensions".into()).unwrap();
    assert_eq!((&other["response"]["allowed"], &other["response"]["status"]["code"]), (&json!(false), &json!(400)));
    let status = of(|review| review["request"]["subResource"] = "status".into()).unwrap();
    assert_eq!(status["response"]["allowed"], false);
}

/// OLM1-CAT-03: the webhook is served as what it is, its requests are limited, and each is counted under its code.
#[tokio::test]
async fn served_within_limits() {
    let metrics = Metrics::default();
    let router = router(&metrics);
    let body = review(&json!({"metadata": {"name": "real"}})).to_string();
    let (status, text) = ask(&router, Method::POST, "application/json; charset=utf-8", body.clone().into()).await;
    assert!(status == StatusCode::OK && text.contains("JSONPatch"), "{status} {text}");
    assert_eq!(ask(&router, Method::POST, "text/plain", body.into()).await.0, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(ask(&router, Method::GET, "application/json", Body::empty()).await.0, StatusCode::METHOD_NOT_ALLOWED);
    let (status, text) = ask(&router, Method::POST, "application/json", "{}".into()).await;
    assert!(status == StatusCode::BAD_REQUEST && text.contains("the body is no AdmissionReview: missing field"), "{status} {text}");
    let large = Body::from(vec![b' '; MOST + 1]);
    assert_eq!(ask(&router, Method::POST, "application/json", large).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    let page = metrics.page().unwrap();
    for code in [200, 400, 405, 413, 415] {
        let line = format!("controller_runtime_webhook_requests_total{{webhook=\"{PATH}\",code=\"{code}\"}} 1\n");
        assert!(page.contains(&line), "{line} is missing: {page}");
    }
}

/// OLM1-CAT-03: a request whose body does not come is given up; the API server would have, too.
#[tokio::test]
async fn a_body_without_end_is_given_up() {
    assert_eq!(TIME, Duration::from_secs(10));
    let router = bounded(&Metrics::default(), Duration::from_millis(1));
    let endless = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
    assert_eq!(ask(&router, Method::POST, "application/json", endless).await.0, StatusCode::REQUEST_TIMEOUT);
}
