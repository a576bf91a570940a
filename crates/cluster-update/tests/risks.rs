//! Updates that are not recommended, as the command line shows them.

use mainstay_cluster_update::{Allowances, Asked, Style, request, summary};
use serde_json::{Value, json};

/// A conditional update with the condition that the operator wrote.
fn update(version: &str, status: &str, reason: &str, message: &str) -> Value {
    let condition = json!({"type": "Recommended", "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    json!({
        "release": {"version": version, "image": format!("registry.example/release@sha256:{version}"), "channels": ["stable-4.18"]},
        "risks": [{"name": reason, "message": message, "url": "https://kb.example/1", "matchingRules": [{"type": "Always"}]}],
        "conditions": [condition],
    })
}

fn cluster() -> Value {
    let unknown = "Could not evaluate exposure to update risk LegacyWidgets (no metrics endpoint is configured)\n  LegacyWidgets description: Old widgets stop.\n  LegacyWidgets URL: https://kb.example/2";
    let several = "Widgets are slow. https://kb.example/1\n\nGadgets are lost. https://kb.example/3";
    json!({
        "spec": {"channel": "stable-4.18"},
        "status": {
            "desired": {"version": "4.18.1", "image": "registry.example/release@sha256:1", "channels": ["stable-4.18"]},
            "history": [{"state": "Completed", "version": "4.18.1", "image": "registry.example/release@sha256:1"}],
            "conditions": [
                {"type": "Available", "status": "True"}, {"type": "Failing", "status": "False"},
                {"type": "Progressing", "status": "False", "message": "Cluster version is 4.18.1"}, {"type": "RetrievedUpdates", "status": "True"},
            ],
            "availableUpdates": [{"version": "4.18.2", "image": "registry.example/release@sha256:2"}],
            "conditionalUpdates": [
                update("4.18.2", "True", "NotExposedToRisks", "The update is recommended."),
                update("4.18.3", "False", "SlowWidgets", "Widgets are slow. https://kb.example/1"),
                update("4.18.4", "Unknown", "EvaluationFailed", unknown),
                update("4.18.5", "False", "MultipleReasons", several),
            ],
        },
    })
}

/// CVO-RISK-08: of each update that is not recommended, its reason, its message and its link are shown, in the list and before it is asked for.
#[test]
fn each_risk_is_shown() {
    for style in [Style::V4_19, Style::V4_12] {
        let screen = summary(&cluster(), true, style).text;
        for (version, reason, message, links) in [
            ("4.18.3", "SlowWidgets", "Widgets are slow.", &["https://kb.example/1"][..]),
            ("4.18.4", "EvaluationFailed", "LegacyWidgets description: Old widgets stop.", &["https://kb.example/2"]),
            ("4.18.5", "MultipleReasons", "Gadgets are lost.", &["https://kb.example/1", "https://kb.example/3"]),
        ] {
            let from = screen.find(&format!("\n  Version: {version}\n")).expect(version);
            let block = screen[from + 1..].split("\n\n  Version").next().unwrap();
            let block = block.split("\n\n  Version: ").next().unwrap();
            assert!(block.contains(&format!("  Reason: {reason}\n  Message: ")), "{block}");
            assert!(block.contains(message) && links.iter().all(|link| block.contains(link)), "{block}");
            let asked = Asked { to: Some(version.to_owned()), ..Asked::default() };
            let refused = request(&asked, &cluster()).unwrap_err().to_string();
            assert!(refused.contains(&format!("Reason: {reason}\n")) && refused.contains(message), "{refused}");
            assert!(refused.contains("--allow-not-recommended") && links.iter().all(|link| refused.contains(link)), "{refused}");
            let allowed = Asked { allow: Allowances { not_recommended: true, ..Allowances::default() }, ..asked };
            let said = request(&allowed, &cluster()).unwrap();
            assert!(said.patch.is_some() && said.warnings.contains(reason) && said.warnings.contains(message), "{}", said.warnings);
        }
        assert!(!screen.contains("  Version: 4.18.2\n"), "it is recommended: {screen}");
    }
    // Without the flag there is a word of them.
    let screen = summary(&cluster(), false, Style::V4_19).text;
    assert!(screen.contains("--include-not-recommended") && !screen.contains("SlowWidgets"), "{screen}");
}
