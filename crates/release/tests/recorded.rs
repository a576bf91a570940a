//! Upstream's recorded answers on two real payloads.

use std::collections::BTreeMap;

use mainstay_release::{
    Capabilities, FileName, Files, Filter, Load, Manifest, Payload, Values, cases, named_capabilities, platform_operator,
};
use mainstay_testing::data;
use serde_json::{Value, json};

const IMAGE: &str = "registry.example/release@sha256:0000000000000000000000000000000000000000000000000000000000000000";
const PROFILE: &str = "self-managed-high-availability";

/// The files of each recorded payload by version.
fn payloads() -> Option<BTreeMap<String, Files>> {
    let mut payloads = BTreeMap::<String, Files>::new();
    for (path, content) in data::archive("payload.tar.gz")? {
        let Some((version, file)) = path.strip_prefix("payload/").and_then(|rest| rest.split_once('/')) else { continue };
        payloads.entry(version.to_owned()).or_default().add(file, content).unwrap();
    }
    assert_eq!(payloads.len(), 2);
    Some(payloads)
}

fn all(files: &Files, profile: &str) -> Vec<Manifest> {
    Payload::all(files, Values { release_image: IMAGE, cluster_profile: profile }, "the archive").unwrap()
}

/// Compares an answer with its recorded line.
fn assert_same(ours: &Value, recorded: &Value, what: &str) {
    if ours == recorded {
        return;
    }
    for (key, value) in recorded.as_object().unwrap() {
        let (ours, theirs) = (ours[key].to_string(), value.to_string());
        assert!(ours == theirs, "{what}, {key}:\n  ours     {ours:.2000}\n  recorded {theirs:.2000}");
    }
    panic!("{what}: more than was recorded");
}

/// CVO-INC-01, CVO-INC-02, CVO-INC-03, CVO-INC-06, CVO-REL-05: which manifests belong to 150 clusters, and why others do not.
#[test]
fn inclusion() {
    let (Some(payloads), Some(lines)) = (payloads(), data::json_lines("cluster-version/include.jsonl.gz")) else { return };
    let manifests: BTreeMap<&str, Vec<Manifest>> =
        payloads.iter().map(|(version, files)| (version.as_str(), all(files, PROFILE))).collect();
    for line in &lines {
        let answer = cases::include(line, &manifests[line["payload"].as_str().unwrap()]).unwrap();
        let mut recorded = line.clone();
        // The recorded library is newer than 4.19 and knows one more feature set.
        if line["config"]["featureGates"].is_null() && line["type"] == "case" {
            let excluded = recorded["excluded"].as_object().unwrap().clone();
            recorded["excluded"] =
                excluded.into_iter().map(|(reason, at)| (reason.replace("DevPreviewNoUpgrade,OKD,", "DevPreviewNoUpgrade,"), at)).collect();
        }
        assert_same(&answer, &recorded, &format!("case {}", line["case"]));
    }
    assert_eq!(lines.len(), 152);
}

/// CVO-GRAPH-02..05, CVO-REL-06: the graphs of real and of invented payloads, node by node.
#[test]
fn task_graphs() {
    let (Some(payloads), Some(lines)) = (payloads(), data::json_lines("cluster-version/order.jsonl.gz")) else { return };
    let mut orders = cases::Orders::default();
    let mut manifests = BTreeMap::new();
    let mut graphs = 0;
    for line in &lines {
        let mut own = &Vec::new();
        if let (Some(version), Some(profile)) = (line["payload"].as_str(), line["profile"].as_str()) {
            own = manifests.entry((version, profile)).or_insert_with(|| all(&payloads[version], profile));
        }
        let answer = orders.answer(line, own).unwrap();
        graphs += usize::from(line["type"] == "graph");
        if line["mode"] != "reconciling" {
            assert_same(&answer, line, &format!("{} {}", line["id"], line["mode"]));
            continue;
        }
        // The order within a step is that of Go's generator: the groups and what they wait for are compared.
        let shape = |answer: &Value| {
            let nodes = answer["nodes"].as_array().unwrap();
            let tasks = |node: &Value| nodes[usize::try_from(node.as_u64().unwrap()).unwrap()]["t"].to_string();
            let names = |list: &Value| {
                let mut names: Vec<String> = list.as_array().into_iter().flatten().map(tasks).collect();
                names.sort();
                names
            };
            let mut shape: Vec<_> = nodes.iter().map(|node| (node["t"].to_string(), names(&node["in"]), names(&node["out"]))).collect();
            shape.sort();
            shape
        };
        assert_eq!(shape(&answer), shape(line), "{} attempt {}", line["id"], line["attempt"]);
    }
    assert_eq!(graphs, 972);
}

/// CVO-CAP-01..05: enabled, known and implicitly enabled capabilities.
#[test]
fn capabilities() {
    let (Some(payloads), Some(lines)) = (payloads(), data::json_lines("cluster-version/others.jsonl.gz")) else { return };
    let mut compared = [0, 0];
    // The recorded program is older than the annotation of feature sets.
    let loaded = |version: &str, profile: &str| {
        let filter = Filter { exclude_identifier: Some(""), profile: Some(profile), ..Filter::default() };
        let mut manifests = all(&payloads[version], profile);
        manifests.retain(|manifest| filter.exclusion(manifest).is_none());
        manifests
    };
    let mut manifests = BTreeMap::new();
    for line in &lines {
        if line["type"] == "capability.set" {
            assert_same(&cases::capabilities(line).unwrap(), line, &format!("case {}", line["case"]));
            compared[0] += 1;
        } else if line["type"] == "capability.implicit" {
            let text = |field: &str| line[field].as_str().unwrap();
            for version in [text("current"), text("update")] {
                manifests.entry((version, text("profile"))).or_insert_with(|| loaded(version, text("profile")));
            }
            let of = |version: &str| manifests[&(text(version), text("profile"))].as_slice();
            let answer = cases::implicit(line, of("current"), of("update")).unwrap();
            assert_same(&answer, line, &format!("case {}", line["case"]));
            compared[1] += 1;
        }
    }
    assert_eq!(compared, [60, 45]);
}

/// CVO-REL-02..06: both payloads load whole, with the default filters.
#[test]
fn real_payloads_load() {
    let Some(payloads) = payloads() else { return };
    let known = Capabilities::of(&json!({}), Vec::<String>::new()).unwrap();
    for (version, files) in &payloads {
        let load =
            Load { image: IMAGE, profile: PROFILE, exclude_identifier: "", feature_set: "", known_capabilities: Some(&known), place: "/" };
        let payload = Payload::load(files, load).unwrap();
        assert_eq!(&payload.metadata.version_text, version);
        assert!(payload.manifests.len() > 600 && payload.excluded.len() > 50 && payload.references.images.len() > 100, "{version}");
        assert_eq!(payload.duplicates(), [], "{version}");
    }
}

/// COP-G-12, COP-G-15: each ClusterOperator of the recorded payloads is in the data file, at its runlevel and under its capability.
#[test]
fn platform_operators_of_payloads() {
    let Some(payloads) = payloads() else { return };
    for (version, files) in &payloads {
        for manifest in all(files, PROFILE).iter().filter(|manifest| manifest.id().kind == "ClusterOperator") {
            let name = manifest.id().name.as_str();
            let operator = platform_operator(name).unwrap_or_else(|| panic!("{version}: {name} is missing"));
            let level = FileName::parse(manifest.file()).unwrap().level;
            assert_eq!(level.to_string().trim_start_matches('0'), operator.runlevel.to_string(), "{version}: {name}");
            let needed: Vec<&str> = named_capabilities(manifest);
            assert!(
                needed.iter().all(|one| operator.capabilities.iter().any(|own| own == one)) || name == "marketplace",
                "{name}: {needed:?}"
            );
        }
    }
}
