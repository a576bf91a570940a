//! Catalogs to ask about: package `p` with one channel and three bundles, and changes of it.

use mainstay_catalog::lint::Placed;
use mainstay_catalog::{Limits, MemorySource};
use serde_json::{Value, json};

pub fn placed(blobs: &[Value]) -> Placed {
    let text: String = blobs.iter().flat_map(|blob| [blob.to_string(), "\n".to_owned()]).collect();
    Placed::load(&MemorySource::of("index.json", text), &Limits::default()).unwrap()
}

pub const DIGEST: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

pub fn bundle(package: &str, version: &str) -> Value {
    let modes = json!([{"type": "AllNamespaces", "supported": true}]);
    let metadata = json!({"displayName": package.to_uppercase(), "description": "Does things.", "provider": {"name": "Team"},
        "installModes": modes, "annotations": {"categories": "Database", "description": "Things, done"}, "keywords": ["thing"]});
    json!({"schema": "olm.bundle", "package": package, "name": format!("{package}.v{version}"),
        "image": format!("registry.example/{package}-{version}@{DIGEST}"),
        "properties": [
            {"type": "olm.gvk", "value": {"group": format!("{package}.example"), "version": "v1", "kind": "Thing"}},
            {"type": "olm.package", "value": {"packageName": package, "version": version}},
            {"type": "olm.csv.metadata", "value": metadata}],
        "relatedImages": [{"name": "operator", "image": format!("registry.example/operator@{DIGEST}")}]})
}

pub fn channel(name: &str, entries: impl Into<Value>) -> Value {
    let entries: Value = entries.into();
    json!({"schema": "olm.channel", "package": "p", "name": name, "entries": entries})
}

pub fn entry(version: &str, replaces: &str, skips: &[&str], range: &str) -> Value {
    let mut entry = json!({"name": format!("p.v{version}"), "skips": skips.iter().map(|v| format!("p.v{v}")).collect::<Vec<_>>()});
    if !replaces.is_empty() {
        entry["replaces"] = format!("p.v{replaces}").into();
    }
    if !range.is_empty() {
        entry["skipRange"] = range.into();
    }
    entry
}

/// Package `p`: one channel `stable` with these entries, and bundles 1.0.0, 1.1.0 and 2.0.0.
pub fn catalog(entries: Value) -> Vec<Value> {
    let icon = json!({"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"});
    vec![
        json!({"schema": "olm.package", "name": "p", "defaultChannel": "stable", "icon": icon}),
        channel("stable", entries),
        bundle("p", "1.0.0"),
        bundle("p", "1.1.0"),
        bundle("p", "2.0.0"),
    ]
}

pub fn sound() -> Vec<Value> {
    catalog(json!([entry("1.0.0", "", &[], ""), entry("1.1.0", "1.0.0", &[], ""), entry("2.0.0", "1.1.0", &[], "")]))
}

pub fn changed(change: impl FnOnce(&mut Vec<Value>)) -> Placed {
    let mut blobs = sound();
    change(&mut blobs);
    placed(&blobs)
}
