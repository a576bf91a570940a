//! Upstream's recorded retrievals, in the words of release 4.19 where the recording module is older.

use mainstay_testing::data;
use mainstay_update_graph::cases;
use serde_json::{Value, json};

/// What 4.19 says in place of the recorded text (the README beside the records lists these differences).
fn in_the_words_of_4_19(case: &mut Value) {
    let condition = &mut case["condition"];
    for (old, new) in [
        ("No upstream server has been set to retrieve updates.", "No updateService server has been set to retrieve updates."),
        ("failed to parse upstream URL: ", "failed to parse update service URL: "),
        ("The set of architectures has not been configured.", "Architecture has not been configured."),
    ] {
        let text = condition["message"].as_str().unwrap().replace(old, new);
        condition["message"] = text.into();
    }
    let body: Value = serde_json::from_str(case["input"]["body"].as_str().unwrap()).unwrap_or_default();
    let nodes = body["nodes"].as_array().cloned().unwrap_or_default();
    let is_multi = |release: &Value| {
        let own = nodes.iter().find(|node| node["payload"] == release["image"] && node["version"] == release["version"]);
        own.is_some_and(|node| node["metadata"]["release.openshift.io/architecture"] == "multi")
    };
    let mark = |release: &mut Value| {
        if is_multi(release) {
            release["architecture"] = "Multi".into();
        }
    };
    mark(&mut case["current"]);
    for list in ["updates", "evaluatedUpdates"] {
        case[list].as_array_mut().into_iter().flatten().for_each(mark);
    }
    for list in ["conditionalUpdates", "evaluatedConditionalUpdates"] {
        for update in case[list].as_array_mut().into_iter().flatten() {
            mark(&mut update["release"]);
            let risks = update["risks"].as_array().cloned().unwrap_or_default();
            for condition in update.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
                evaluated_by_4_19(condition, &risks);
            }
        }
    }
}

fn evaluated_by_4_19(condition: &mut Value, risks: &[Value]) {
    if condition["reason"] == "AsExpected" {
        condition["reason"] = "NotExposedToRisks".into();
    }
    let mut message = condition["message"].as_str().unwrap().to_owned();
    for risk in risks {
        let text = |field: &str| risk[field].as_str().unwrap();
        let (name, description, url) = (text("name"), text("message"), text("url"));
        let start = format!("Exposure to {name} is unknown due to an evaluation failure: ");
        let end = format!("\n{description} {url}");
        let mut from = 0;
        while let Some(at) = message[from..].find(&start).map(|at| at + from) {
            let begin = at + start.len();
            let Some(length) = message[begin..].find(&end) else { break };
            let error = message[begin..begin + length].to_owned();
            let new = format!(
                "Could not evaluate exposure to update risk {name} ({error})\n  {name} description: {description}\n  {name} URL: {url}"
            );
            message.replace_range(at..begin + length + end.len(), &new);
            from = at + new.len();
        }
    }
    condition["message"] = message.into();
    if let Some(name) = condition["reason"].as_str()
        && risks.iter().any(|risk| risk["name"] == name)
        && !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':'))
    {
        condition["reason"] = "ExposedToRisks".into();
    }
}

/// CVO-USC-02, CVO-USC-07..13, CVO-RISK-02, CVO-RISK-03, CVO-RISK-06: every recorded retrieval.
#[test]
fn every_recorded_retrieval() {
    let Some(lines) = data::json_lines("cluster-version/others.jsonl.gz") else { return };
    let (mut count, mut crashed, mut different) = (0, 0, Vec::new());
    for mut case in lines.into_iter().filter(|line| line["type"] == "graph") {
        let answer = cases::answer(&case).unwrap();
        if case.get("panic").is_some() {
            crashed += 1;
            assert_eq!(answer["condition"]["reason"], "ResponseInvalid", "case {}", case["case"]);
            continue;
        }
        in_the_words_of_4_19(&mut case);
        count += 1;
        for field in ["request", "condition", "current", "updates", "conditionalUpdates", "evaluatedUpdates", "evaluatedConditionalUpdates"]
        {
            if answer[field] != case[field] {
                different.push(format!("case {}, {field}: {} instead of {}", case["case"], answer[field], case[field]));
            }
        }
    }
    assert!(different.is_empty(), "{} differences, first: {}", different.len(), different[0]);
    assert_eq!((count, crashed), (163, 3));
}

/// CVO-USC-12: a cluster that is to move to the release for several architectures is offered its own version alone; CVO-USC-11: such releases say so.
#[test]
fn moving_to_several_architectures() {
    let body = json!({
        "nodes": [
            {"version": "4.11.9", "payload": "r@sha256:a", "metadata": {"release.openshift.io/architecture": "multi", "url": "https://e.example/1",
                "io.openshift.upgrades.graph.release.channels": "stable-4.11,fast-4.11"}},
            {"version": "4.11.10", "payload": "r@sha256:b"},
        ],
        "edges": [[0, 1]],
    });
    let query = mainstay_update_graph::Query {
        update_service: "https://updates.example/graph".to_owned(),
        cluster_id: "5f7f6e8e-6a34-4c3e-9a71-0d9a3a0f5b11".to_owned(),
        desired_architecture: "Multi".to_owned(),
        current_architecture: "amd64".to_owned(),
        channel: "fast-4.11".to_owned(),
        version: "4.11.9".to_owned(),
    };
    let version = query.request().unwrap().version;
    let body = body.to_string();
    let found = mainstay_update_graph::retrieve(&query, &version, "200 OK", body.as_bytes()).unwrap();
    assert_eq!(
        json!(found.current),
        json!({"version": "4.11.9", "image": "r@sha256:a", "architecture": "Multi", "url": "https://e.example/1",
        "channels": ["fast-4.11", "stable-4.11"]})
    );
    assert_eq!(found.updates, std::slice::from_ref(&found.current));
    let moved = mainstay_update_graph::Query { current_architecture: "Multi".to_owned(), ..query };
    let found = mainstay_update_graph::retrieve(&moved, &version, "200 OK", body.as_bytes()).unwrap();
    assert_eq!(found.updates.iter().map(|update| update.version.as_str()).collect::<Vec<_>>(), ["4.11.10"]);
}
