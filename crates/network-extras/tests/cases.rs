//! Answers of upstream's network operator: `answers.jsonl` has, a line each, a proxy, its inputs, and what `MergeUserSystemNoProxy` and the checks of
//! `ValidateProxyConfig` of openshift/cluster-network-operator said of them, called by a Go test with random inputs. `CASES=FILE` names more of them.

use mainstay_network_extras::proxy::{Inputs, ProxyError, status};
use serde_json::{Value, json};

/// COP-NET-02: the status, and the sentence of what is refused, are upstream's. How a URI is malformed is told in other words where Go's library has its own.
#[test]
fn upstream() {
    let more = std::env::var("CASES").map(|file| std::fs::read_to_string(file).unwrap()).unwrap_or_default();
    let (mut differences, mut all) = (Vec::new(), 0);
    for line in include_str!("answers.jsonl").lines().chain(more.lines()) {
        let case: Value = serde_json::from_str(line).unwrap();
        let proxy = json!({"spec": case["proxy"]});
        let inputs =
            Inputs { infrastructure: Some(&case["infrastructure"]), network: Some(&case["network"]), cluster: Some(&case["cluster"]) };
        let ours = status(&proxy, inputs);
        let fits = match &ours {
            Ok(status) => case.get("invalid").is_none() && case.get("error").is_none() && status.get("noProxy") == case.get("merged"),
            Err(ProxyError::Invalid(text)) => {
                let is_uri = |text: &str| text.contains("URI: ");
                case["invalid"] == text.to_string() || (is_uri(&text.to_string()) && case["invalid"].as_str().is_some_and(is_uri))
            }
            Err(ProxyError::Merge(text)) => case["error"] == text.to_string(),
            Err(_) => false,
        };
        all += 1;
        if !fits {
            differences.push(format!("{ours:?}\n  {} {} {} {}", case["proxy"], case["invalid"], case["merged"], case["error"]));
        }
    }
    assert!(differences.is_empty(), "{} of {all} differ:\n{}", differences.len(), differences[..differences.len().min(25)].join("\n"));
}
