//! The graph-data of the sample releases: which edges are recommended, which have a risk, and which is blocked.
//!
//! ```text
//!   4.18.1 ─► 4.18.2 ─► 4.18.3                     recommended
//!   4.18.1 ─► 4.18.3        SlowWidgetRestarts     Always
//!   4.18.2, 4.18.3 ─► 4.19.0  LegacyWidgetStorage  PromQL
//!   4.18.1 ─► 4.19.0                               blocked
//! ```

use std::collections::BTreeMap;

use serde_json::json;

use crate::payload::releases;

/// The query of the risk that metrics decide.
pub const QUERY: &str = "max(sample_widgets_legacy_storage) > bool 0";
/// The channels, the one to begin with first.
pub const CHANNELS: [&str; 3] = ["fast-4.18", "fast-4.19", "stable-4.18"];

/// Returns the files, by their path below the folder.
pub fn files() -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::from([("version".to_owned(), b"1.2.0\n".to_vec())]);
    let all = releases();
    let patches: Vec<&str> = all.iter().filter(|release| release.minor() == "4.18").map(|release| release.version).collect();
    let everything: Vec<&str> = all.iter().map(|release| release.version).collect();
    for channel in CHANNELS {
        let versions = match channel {
            "stable-4.18" => &patches,
            _ => &everything,
        };
        let channel_file = json!({"name": channel, "versions": versions});
        files.insert(format!("channels/{channel}.yaml"), mainstay_yaml::to_string(&channel_file).into_bytes());
    }
    let page = |name: &str| format!("https://risks.example/mainstay-sample/{name}");
    let edges = [
        (
            "4.18.3-slow-widget-restarts",
            json!({
                "to": "4.18.3", "from": "^4[.]18[.]1([+]|$)", "url": page("SlowWidgetRestarts"), "name": "SlowWidgetRestarts",
                "message": "Widgets restart one after the other, which takes long.", "matchingRules": [{"type": "Always"}],
            }),
        ),
        (
            "4.19.0-legacy-widget-storage",
            json!({
                "to": "4.19.0", "from": "^4[.]18[.][23]([+]|$)", "url": page("LegacyWidgetStorage"), "name": "LegacyWidgetStorage",
                "message": "Clusters with widgets in legacy storage lose access to them.",
                "matchingRules": [{"type": "PromQL", "promql": {"promql": QUERY}}],
            }),
        ),
        ("4.19.0-from-4.18.1", json!({"to": "4.19.0", "from": "^4[.]18[.]1([+]|$)"})),
    ];
    for (name, edge) in edges {
        files.insert(format!("blocked-edges/{name}.yaml"), mainstay_yaml::to_string(&edge).into_bytes());
    }
    files
}
