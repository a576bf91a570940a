//! Create, read, update, delete, lists and their options, over the router in process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::needless_pass_by_value)]

use crate::common::{Cluster, MAPS, map};
use base64::Engine as _;
use http::StatusCode;
use serde_json::{Value, json};

/// KAPI-REST-01: an object is created, read, changed and deleted; the server sets what is the server's.
#[tokio::test]
async fn objects_live() {
    let cluster = Cluster::new().await;
    let created = cluster.post(MAPS, map("a", json!({"x": "1"}))).await;
    assert_eq!(created.status, StatusCode::CREATED);
    let created = created.ok();
    assert_eq!(created["metadata"]["namespace"], "ns");
    assert!(created["metadata"]["uid"].is_string() && created["metadata"]["creationTimestamp"].is_string());
    let read = cluster.get(&format!("{MAPS}/a")).await.ok();
    assert_eq!(read, created);
    let mut next = read.clone();
    next["data"]["x"] = "2".into();
    let updated = cluster.put(&format!("{MAPS}/a"), next.clone()).await.ok();
    assert_ne!(updated["metadata"]["resourceVersion"], read["metadata"]["resourceVersion"]);
    // A change that changes nothing is none.
    let again = cluster.put(&format!("{MAPS}/a"), updated.clone()).await.ok();
    assert_eq!(again["metadata"]["resourceVersion"], updated["metadata"]["resourceVersion"]);
    let deleted = cluster.delete(&format!("{MAPS}/a")).await.ok();
    assert_eq!(deleted["details"], json!({"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]}));
    let gone = cluster.get(&format!("{MAPS}/a")).await;
    assert_eq!((gone.status, gone.message()), (StatusCode::NOT_FOUND, "configmaps \"a\" not found"));
}

/// KAPI-REST-01, KAPI-REST-04: what is refused, with status, reason and words.
#[tokio::test]
async fn refusals_have_the_upstream_words() {
    let cluster = Cluster::new().await;
    let first = cluster.post(MAPS, map("a", json!({}))).await.ok();
    cluster.patch(&format!("{MAPS}/a"), "merge", json!({"data": {"x": "1"}})).await.ok();
    let path = format!("{MAPS}/a");
    let stale = json!({"metadata": {"name": "a", "resourceVersion": first["metadata"]["resourceVersion"]}});
    let other = json!({"metadata": {"name": "a", "uid": "00000000-0000-4000-8000-000000000001"}});
    let cases: Vec<(&str, &str, Value, u16, &str, &str)> = vec![
        ("POST", MAPS, map("a", json!({})), 409, "AlreadyExists", "configmaps \"a\" already exists"),
        (
            "PUT",
            &path,
            stale,
            409,
            "Conflict",
            "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again",
        ),
        ("PUT", &path, other, 409, "Conflict", "UID in precondition: 00000000-0000-4000-8000-000000000001"),
        (
            "PUT",
            &path,
            json!({"metadata": {"name": "b"}}),
            400,
            "BadRequest",
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            "POST",
            MAPS,
            json!({"kind": "Secret", "apiVersion": "v1"}),
            400,
            "BadRequest",
            "Secret in version \"v1\" cannot be handled as a ConfigMap",
        ),
        (
            "POST",
            MAPS,
            json!({"metadata": {"name": "B_d"}}),
            422,
            "Invalid",
            "ConfigMap \"B_d\" is invalid: metadata.name: Invalid value: \"B_d\": a lowercase RFC 1123 subdomain",
        ),
        (
            "POST",
            MAPS,
            json!({"metadata": {"name": "n"}, "data": {"a": 1}}),
            400,
            "BadRequest",
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        ("POST", "/api/v1/namespaces/none/configmaps", map("a", json!({})), 404, "NotFound", "namespaces \"none\" not found"),
        ("POST", "/api/v1/namespaces/ns/nothings", json!({}), 404, "NotFound", "the server could not find the requested resource"),
        ("PUT", MAPS, json!({}), 405, "MethodNotAllowed", "the server does not allow this method on the requested resource"),
    ];
    for (method, path, body, status, reason, text) in cases {
        let answer = cluster.send(method, path, &[("content-type", "application/json")], body.to_string()).await;
        assert_eq!(
            (answer.status.as_u16(), answer.body["reason"].as_str().unwrap_or_default()),
            (status, reason),
            "{method} {path}: {}",
            answer.text
        );
        assert!(answer.message().contains(text), "{method} {path}: {}", answer.message());
    }
}

/// KAPI-REST-02: the words for versions and tokens that are none, and what limits a list.
#[tokio::test]
async fn lists_have_the_upstream_bounds() {
    let cluster = Cluster::new().await;
    for name in ["a", "b", "c"] {
        let map = json!({"metadata": {"name": name, "labels": {"of": "this"}}});
        cluster.post(MAPS, map).await.ok();
    }
    let token = |json: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(json);
    let own = format!("{MAPS}?labelSelector=of");
    let invalid = "invalid continue token: continue key is not valid";
    let number = "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax";
    for (path, status, text) in [
        (format!("{MAPS}/a?resourceVersion=abc"), 500, number.to_owned()),
        (format!("{own}&watch=1&resourceVersion=abc"), 500, number.to_owned()),
        (format!("{own}&resourceVersion=abc"), 400, format!("invalid resource version: {number}")),
        (
            format!("{own}&resourceVersionMatch=foo"),
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided, \
             resourceVersionMatch: Unsupported value: \"foo\": supported values: \"Exact\", \"NotOlderThan\", \"\"]"
                .to_owned(),
        ),
        (format!("{own}&continue={}", token("{}")), 400, format!("{invalid}: server does not recognize this encoded version ")),
        (
            format!("{own}&continue={}", token(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#)),
            400,
            format!("{invalid}: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
        ),
        (
            format!("{own}&resourceVersion=1&continue={}", token(r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"a"}"#)),
            400,
            "specifying resource version is not allowed when using continue".to_owned(),
        ),
    ] {
        let answer = cluster.get(&path).await;
        assert_eq!((answer.status.as_u16(), answer.message()), (status, text.as_str()), "{path}");
    }
    let count = |list: &Value| list["items"].as_array().unwrap().len();
    let paged = cluster.get(&format!("{own}&limit=1")).await.ok();
    assert_eq!((count(&paged), paged["metadata"]["continue"].is_string()), (1, true));
    // The cache has seen what a list of the latest has shown.
    assert_eq!(count(&cluster.get(&own).await.ok()), 3);
    let any = cluster.get(&format!("{own}&limit=1&resourceVersion=0")).await.ok();
    assert_eq!((count(&any), &any["metadata"]["continue"]), (3, &Value::Null), "the cache knows no limit");
    let one = cluster.get(&format!("{MAPS}?fieldSelector=metadata.name=a&limit=1")).await.ok();
    assert_eq!((count(&one), &one["metadata"]["continue"]), (1, &Value::Null), "one object has no second page");
    let latest = token(r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"b\u0000"}"#);
    assert_eq!(count(&cluster.get(&format!("{own}&continue={latest}")).await.ok()), 1, "a negative revision is the latest one");
    let deleted = cluster.delete(&format!("{own}&limit=1")).await.ok();
    assert_eq!((count(&deleted), deleted["metadata"]["continue"].is_string()), (1, true));
    assert_eq!(count(&cluster.get(&own).await.ok()), 2);
}

/// KAPI-REST-01, KAPI-REST-03: what may not be written or deleted, in the words of kube-apiserver v1.34.
#[tokio::test]
async fn writes_and_deletions_have_the_upstream_bounds() {
    let cluster = Cluster::new().await;
    let live = cluster.post(MAPS, map("a", json!({"x": "1"}))).await.ok();
    let uid = live["metadata"]["uid"].as_str().unwrap();
    let path = format!("{MAPS}/a");
    let preconditions = |what: Value| json!({"preconditions": what});
    let not_allowed = "the server does not allow this method on the requested resource";
    let moment = "2020-01-01T00:00:00Z";
    let immutable = format!("metadata.deletionTimestamp: Invalid value: \"{moment}\": field is immutable");
    for (method, path, body, status, text) in [
        ("DELETE", "/api/v1/configmaps", json!({}), 405, not_allowed.to_owned()),
        ("POST", "/api/v1/configmaps", map("x", json!({})), 405, not_allowed.to_owned()),
        (
            "POST",
            &format!("{MAPS}?dryRun="),
            map("x", json!({})),
            422,
            "dryRun: Unsupported value: [\"\"]: supported values: \"All\"".to_owned(),
        ),
        (
            "PUT",
            &path,
            json!({"metadata": {}}),
            400,
            "the name of the object (a based on URL) was undeterminable: name must be provided".to_owned(),
        ),
        ("PUT", &path, json!({"metadata": {"name": "a", "deletionTimestamp": moment}}), 422, immutable),
        (
            "DELETE",
            &path,
            preconditions(json!({"uid": "x"})),
            409,
            format!(
                "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (x) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
            ),
        ),
        (
            "DELETE",
            &path,
            preconditions(json!({"resourceVersion": "1"})),
            409,
            "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record".to_owned(),
        ),
        (
            "DELETE",
            &path,
            json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
            422,
            "Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set".to_owned(),
        ),
    ] {
        let answer = cluster.send(method, path, &[("content-type", "application/json")], body.to_string()).await;
        assert_eq!(answer.status.as_u16(), status, "{method} {path}: {}", answer.text);
        assert!(answer.message().contains(&text), "{method} {path}: {}", answer.message());
    }
    // What is held is accepted only, where the old option asks for dependents to go first.
    cluster.patch(&path, "merge", json!({"metadata": {"finalizers": ["a.b/c"]}})).await.ok();
    let held = cluster.send("DELETE", &path, &[("content-type", "application/json")], json!({"orphanDependents": false}).to_string()).await;
    assert_eq!(held.status, StatusCode::ACCEPTED, "{}", held.text);

    let pods = "/api/v1/namespaces/ns/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    cluster.post(pods, pod).await.ok();
    let ending = cluster.send("DELETE", &format!("{pods}/p?gracePeriodSeconds=-3"), &[], "").await.ok();
    assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], 1, "a negative period is the shortest one");

    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l", "resourceVersion": "5"}});
    let created = cluster.put("/apis/coordination.k8s.io/v1/namespaces/ns/leases/l", lease).await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.text);
}

/// KAPI-REST-03: fields that a patch names twice or does not know, for each kind of patch; warnings of built-in kinds.
#[tokio::test]
async fn patches_and_templates_are_warned_of() {
    let cluster = Cluster::new().await;
    cluster.post(MAPS, map("a", json!({"x": "1"}))).await.ok();
    let fields = r#"{"bad": 1, "bad": 2}"#;
    let operations = r#"[{"op": "add", "path": "/bad", "value": 2, "foo": 1, "op": "add"}]"#;
    let of_fields = ["duplicate field \"bad\"", "unknown field \"bad\""];
    let of_operations = ["json patch duplicate field \"[0].op\"", "json patch unknown field \"[0].foo\"", "unknown field \"bad\""];
    for (kind, body, expected) in
        [("merge", fields, &of_fields[..]), ("strategic-merge", fields, &of_fields), ("json", operations, &of_operations)]
    {
        let content_type = format!("application/{kind}-patch+json");
        let headers = [("content-type", content_type.as_str())];
        let warned = cluster.send("PATCH", &format!("{MAPS}/a"), &headers, body).await;
        let said: Vec<_> = warned.headers.get_all("warning").iter().map(|text| text.to_str().unwrap().replace('\\', "")).collect();
        let wanted: Vec<_> = expected.iter().map(|text| format!("299 - \"{text}\"")).collect();
        assert_eq!(said, wanted, "{kind}");
        let refused = cluster.send("PATCH", &format!("{MAPS}/a?fieldValidation=Strict"), &headers, body).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(refused.message().ends_with(&format!("strict decoding error: {}", expected.join(", "))), "{}", refused.message());
        assert_eq!(refused.message().contains("\"map[bad:2]\""), kind == "strategic-merge", "{}", refused.message());
    }
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"nodeSelector": {"beta.kubernetes.io/os": "linux"}, "containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let created = cluster.post("/apis/apps/v1/namespaces/ns/deployments", deployment).await;
    let said = created.headers.get("warning").unwrap().to_str().unwrap();
    assert!(said.starts_with("299 - \"spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14"), "{said}");
}

/// KAPI-REST-01: generated names, generations, finalizers.
#[tokio::test]
async fn names_generations_and_finalizers() {
    let cluster = Cluster::new().await;
    let named = cluster.post(MAPS, json!({"metadata": {"generateName": "gen-"}})).await.ok();
    let name = named["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("gen-") && name.len() == 9, "{name}");

    let policies = "/apis/networking.k8s.io/v1/namespaces/ns/networkpolicies";
    let made = cluster.post(policies, json!({"metadata": {"name": "p"}, "spec": {"podSelector": {}}})).await.ok();
    assert_eq!(made["metadata"]["generation"], 1);
    let labelled = cluster.patch(&format!("{policies}/p"), "merge", json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    assert_eq!(labelled["metadata"]["generation"], 1);
    let changed = cluster.patch(&format!("{policies}/p"), "merge", json!({"spec": {"policyTypes": ["Egress"]}})).await.ok();
    assert_eq!(changed["metadata"]["generation"], 2);

    cluster.post(MAPS, json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}})).await.ok();
    let path = format!("{MAPS}/held");
    let deleting = cluster.delete(&path).await.ok();
    assert_eq!(deleting["metadata"]["deletionGracePeriodSeconds"], 0);
    assert!(deleting["metadata"]["deletionTimestamp"].is_string());
    let refused = cluster.patch(&path, "merge", json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}})).await;
    assert!(refused.message().contains("no new finalizers can be added if the object is being deleted"), "{}", refused.text);
    cluster.patch(&path, "merge", json!({"metadata": {"finalizers": null}})).await.ok();
    assert_eq!(cluster.get(&path).await.status, StatusCode::NOT_FOUND);
}

/// KAPI-REST-02: selectors, pages at one revision, revisions asked for.
#[tokio::test]
async fn lists_select_and_page() {
    let cluster = Cluster::new().await;
    for index in 0..5 {
        let mut object = map(&format!("c{index}"), json!({"i": index.to_string()}));
        object["metadata"]["labels"] = json!({"odd": (index % 2 == 1).to_string()});
        cluster.post(MAPS, object).await.ok();
    }
    let names = |list: &Value| {
        list["items"].as_array().unwrap().iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let list = cluster.get(&format!("{MAPS}?labelSelector=odd%3Dtrue")).await.ok();
    assert_eq!(names(&list), ["c1", "c3"]);
    assert!(list["items"][0].get("kind").is_none(), "items of built-in lists have no kind");
    assert_eq!(names(&cluster.get(&format!("{MAPS}?fieldSelector=metadata.name%3Dc2")).await.ok()), ["c2"]);

    let page = cluster.get(&format!("{MAPS}?limit=2")).await.ok();
    assert_eq!((names(&page), &page["metadata"]["remainingItemCount"]), (vec!["c0".to_owned(), "c1".to_owned()], &json!(3)));
    // What happens between the pages does not show.
    cluster.delete(&format!("{MAPS}/c3")).await.ok();
    let token = page["metadata"]["continue"].as_str().unwrap();
    let rest = cluster.get(&format!("{MAPS}?limit=9&continue={token}")).await.ok();
    assert_eq!(names(&rest), ["c2", "c3", "c4"]);
    assert_eq!(rest["metadata"]["resourceVersion"], page["metadata"]["resourceVersion"]);

    let revision = page["metadata"]["resourceVersion"].as_str().unwrap();
    let exact = cluster.get(&format!("{MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact")).await.ok();
    assert_eq!(exact["items"].as_array().unwrap().len(), 5);
    for (query, status) in [
        ("resourceVersion=99999999", 504),
        ("resourceVersion=abc", 400),
        ("resourceVersionMatch=Exact", 422),
        ("fieldSelector=data.a%3D1", 400),
        ("labelSelector=a%20b", 400),
        ("continue=garbage", 400),
        ("limit=x", 400),
    ] {
        assert_eq!(cluster.get(&format!("{MAPS}?{query}")).await.status.as_u16(), status, "{query}");
    }
}

/// KAPI-REST-03: a dry run stores nothing; unknown and duplicate fields are named or refused.
#[tokio::test]
async fn dry_runs_and_strict_decoding() {
    let cluster = Cluster::new().await;
    cluster.post(&format!("{MAPS}?dryRun=All"), map("a", json!({}))).await.ok();
    assert_eq!(cluster.get(&format!("{MAPS}/a")).await.status, StatusCode::NOT_FOUND);
    let body = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"d","nme":"x"},"data":{"a":"1","a":"2"}}"#;
    let json = [("content-type", "application/json")];
    let strict = cluster.send("POST", &format!("{MAPS}?fieldValidation=Strict"), &json, body).await;
    assert_eq!(
        strict.message(),
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"metadata.nme\", duplicate field \"data.a\""
    );
    let warned = cluster.send("POST", MAPS, &json, body).await;
    let warnings: Vec<_> = warned.headers.get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned()).collect();
    assert_eq!(warnings, [r#"299 - "unknown field \"metadata.nme\"""#, r#"299 - "duplicate field \"data.a\"""#]);
    assert_eq!(warned.body["data"]["a"], "2");
}

/// KAPI-REST-05: status, scale, binding, eviction and finalize change what they are for, and nothing else.
#[tokio::test]
async fn subresources_change_their_part() {
    let cluster = Cluster::new().await;
    let deployments = "/apis/apps/v1/namespaces/ns/deployments";
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster
        .post(
            deployments,
            json!({"metadata": {"name": "d"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}}),
        )
        .await
        .ok();
    let scaled = cluster.patch(&format!("{deployments}/d/scale"), "merge", json!({"spec": {"replicas": 4}})).await.ok();
    assert_eq!((&scaled["kind"], &scaled["spec"]["replicas"], &scaled["status"]["selector"]), (&json!("Scale"), &json!(4), &json!("a=b")));
    let status =
        cluster.patch(&format!("{deployments}/d/status"), "merge", json!({"spec": {"replicas": 9}, "status": {"replicas": 4}})).await.ok();
    assert_eq!((&status["spec"]["replicas"], &status["status"]["replicas"]), (&json!(4), &json!(4)));

    let pods = "/api/v1/namespaces/ns/pods";
    cluster.post(pods, json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})).await.ok();
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}});
    assert_eq!(cluster.post(&format!("{pods}/p/binding"), binding.clone()).await.status, StatusCode::CREATED);
    assert_eq!(cluster.get(&format!("{pods}/p")).await.ok()["spec"]["nodeName"], "n1");
    assert_eq!(cluster.post(&format!("{pods}/p/binding"), binding).await.status, StatusCode::CONFLICT);
    let evicted = cluster.post(&format!("{pods}/p/eviction"), json!({"metadata": {"name": "p"}})).await;
    assert_eq!(evicted.status, StatusCode::CREATED, "{}", evicted.text);
    assert_eq!(cluster.get(&format!("{pods}/p")).await.ok()["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(cluster.send("GET", &format!("{pods}/p/exec"), &[], "").await.status, StatusCode::NOT_IMPLEMENTED);

    let held = cluster.delete("/api/v1/namespaces/ns").await.ok();
    assert_eq!((&held["status"]["phase"], &held["spec"]["finalizers"]), (&json!("Terminating"), &json!(["kubernetes"])));
    let late = cluster.post(MAPS, map("late", json!({}))).await;
    assert_eq!(
        late.message(),
        "configmaps \"late\" is forbidden: unable to create new content in namespace ns because it is being terminated"
    );
    cluster.put("/api/v1/namespaces/ns/finalize", json!({"metadata": {"name": "ns"}, "spec": {"finalizers": []}})).await.ok();
    assert_eq!(cluster.get("/api/v1/namespaces/ns").await.status, StatusCode::NOT_FOUND);
}

/// KAPI-REST-06, KAPI-SRV-07: tables, metadata alone, YAML.
#[tokio::test]
async fn answers_come_in_the_shape_asked_for() {
    let cluster = Cluster::new().await;
    cluster.post(MAPS, map("a", json!({"x": "1", "y": "2"}))).await.ok();
    let accept = |text: &'static str| [("accept", text)];
    let table = cluster.send("GET", MAPS, &accept("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"), "").await.ok();
    assert_eq!(table["columnDefinitions"][1]["name"], "Data");
    assert_eq!(table["rows"][0]["cells"][1], 2);
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let partial =
        cluster.send("GET", &format!("{MAPS}/a"), &accept("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"), "").await.ok();
    assert_eq!((&partial["kind"], partial.get("data")), (&json!("PartialObjectMetadata"), None));
    let yaml = cluster.send("GET", &format!("{MAPS}/a"), &accept("application/yaml"), "").await;
    assert_eq!(yaml.headers["content-type"], "application/yaml");
    assert!(yaml.text.contains("\n  name: a\n"), "{}", yaml.text);
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\ndata:\n  on: \"1\"\n";
    cluster.send("POST", MAPS, &[("content-type", "application/yaml")], body).await.ok();
    assert_eq!(cluster.send("GET", MAPS, &accept("application/vnd.example"), "").await.status, StatusCode::NOT_ACCEPTABLE);
    assert_eq!(cluster.send("POST", MAPS, &[("content-type", "text/plain")], "x").await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let large = vec![b' '; 3 * 1024 * 1024 + 1];
    assert_eq!(cluster.send("POST", MAPS, &[("content-type", "application/json")], large).await.status, StatusCode::PAYLOAD_TOO_LARGE);
}

/// KAPI-REST-07: every listed group version is served, and what is stored there can be listed.
#[tokio::test]
async fn every_listed_resource_is_served() {
    let cluster = Cluster::new().await;
    for group_version in [
        "api/v1",
        "apis/apps/v1",
        "apis/batch/v1",
        "apis/rbac.authorization.k8s.io/v1",
        "apis/apiextensions.k8s.io/v1",
        "apis/admissionregistration.k8s.io/v1",
        "apis/apiregistration.k8s.io/v1",
        "apis/coordination.k8s.io/v1",
        "apis/events.k8s.io/v1",
        "apis/policy/v1",
        "apis/networking.k8s.io/v1",
        "apis/discovery.k8s.io/v1",
        "apis/storage.k8s.io/v1",
        "apis/resource.k8s.io/v1",
        "apis/scheduling.k8s.io/v1",
        "apis/autoscaling/v1",
        "apis/autoscaling/v2",
        "apis/certificates.k8s.io/v1",
        "apis/node.k8s.io/v1",
        "apis/flowcontrol.apiserver.k8s.io/v1",
        "apis/authentication.k8s.io/v1",
        "apis/authorization.k8s.io/v1",
    ] {
        let list = cluster.get(&format!("/{group_version}")).await.ok();
        for resource in list["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            let listed = resource["verbs"].as_array().unwrap().iter().any(|verb| verb == "list");
            if listed {
                let answer = cluster.get(&format!("/{group_version}/{name}")).await;
                assert_eq!(answer.status, StatusCode::OK, "{group_version}/{name}: {}", answer.text);
            }
        }
    }
    let scaler = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}});
    cluster.post("/apis/autoscaling/v1/namespaces/ns/horizontalpodautoscalers", scaler).await.ok();
    let second = cluster.get("/apis/autoscaling/v2/namespaces/ns/horizontalpodautoscalers/h").await.ok();
    assert_eq!(second["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50);
}

/// KAPI-REST-07: events and autoscalers are stored once and shown in every version.
#[tokio::test]
async fn two_versions_show_one_object() {
    let cluster = Cluster::new().await;
    let event = json!({"metadata": {"name": "e"}, "eventTime": "2024-01-01T00:00:00.000000Z", "note": "said", "reason": "R", "action": "A",
        "type": "Normal", "reportingController": "example.com/c", "reportingInstance": "i", "regarding": {"kind": "Pod", "name": "p", "namespace": "ns"}});
    cluster.post("/apis/events.k8s.io/v1/namespaces/ns/events", event).await.ok();
    let core = cluster.get("/api/v1/namespaces/ns/events/e").await.ok();
    assert_eq!((&core["message"], &core["involvedObject"]["name"]), (&json!("said"), &json!("p")));
    let listed = cluster.get("/apis/events.k8s.io/v1/namespaces/ns/events").await.ok();
    assert_eq!((&listed["items"][0]["note"], &listed["items"][0]["regarding"]["name"]), (&json!("said"), &json!("p")));
    let spec = json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 70, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}});
    let path = "/namespaces/ns/horizontalpodautoscalers";
    cluster.post(&format!("/apis/autoscaling/v1{path}"), json!({"metadata": {"name": "h"}, "spec": spec})).await.ok();
    let newer = cluster.get(&format!("/apis/autoscaling/v2{path}/h")).await.ok();
    assert_eq!(newer["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 70);
    let older = cluster.get(&format!("/apis/autoscaling/v1{path}/h")).await.ok();
    assert_eq!(older["spec"]["targetCPUUtilizationPercentage"], 70);
}
