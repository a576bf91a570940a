//! The sample pair with all operators, row by row of the reference.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use mainstay_release::{Capabilities, Class, FileName, Load, Manifest, Payload, platform_operators};
use mainstay_release_samples::{
    PLATFORM_QUERY, Release, platform_files, platform_graph_data, platform_releases, platform_retarget, write_files,
};
use mainstay_update_graph::GraphData;

const IMAGE: &str = "registry.example/sample@sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// The manifests of a release for a cluster of a profile, with all capabilities that are known.
fn loaded(release: &Release, profile: &str) -> Payload {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path(), &platform_files(release, IMAGE)).unwrap();
    let known = Capabilities::all();
    let load = Load { image: IMAGE, profile, exclude_identifier: "", feature_set: "", known_capabilities: Some(&known), place: "sample" };
    Payload::load(&mainstay_release_source::folder(folder.path()).unwrap(), load).unwrap()
}

fn operator<'a>(payload: &'a Payload, name: &str) -> Option<&'a Manifest> {
    payload.manifests.iter().find(|manifest| manifest.id().kind == "ClusterOperator" && manifest.id().name == name)
}

/// COP-G-12, COP-G-15, CVO-SIM-02: each operator of the reference has its ClusterOperators in both releases, at its runlevel, with its capabilities and its
/// namespaces, and for clusters of the usual profile alone.
#[test]
fn every_row_is_in_the_payload() {
    for release in platform_releases() {
        let payload = loaded(&release, "self-managed-high-availability");
        let other = loaded(&release, "ibm-cloud-managed");
        for row in platform_operators() {
            for name in &row.cluster_operators {
                let manifest = operator(&payload, name).unwrap_or_else(|| panic!("{name}"));
                let level = FileName::parse(manifest.file()).unwrap().level.0;
                assert_eq!(level, format!("{:02}", row.runlevel), "{name}: {}", manifest.file());
                assert_eq!(manifest.annotation("capability.openshift.io/name").unwrap_or_default(), row.capabilities.join("+"), "{name}");
                let object = manifest.object();
                assert_eq!(object["status"]["versions"][0]["version"], release.version, "{name}");
                assert!(operator(&other, name).is_none(), "{name}");
            }
            let has =
                |name: &String| payload.manifests.iter().any(|manifest| manifest.id().kind == "Namespace" && manifest.id().name == *name);
            assert!(row.cluster_operators.is_empty() || row.namespaces.iter().all(has), "{}", row.id);
        }
        let count = payload.manifests.iter().filter(|manifest| manifest.id().kind == "ClusterOperator").count();
        assert_eq!(count, platform_operators().iter().map(|row| row.cluster_operators.len()).sum::<usize>());
    }
}

/// The requirements that describe what is done here for the operators of class b.
const DONE: [(&str, &str); 10] = [
    ("COP-02", "COP-CRED-"),
    ("COP-04", "COP-CAS-"),
    ("COP-07", "COP-07"),
    ("COP-12", "COP-NET-"),
    ("COP-15", "CVO-"),
    ("COP-25", "COP-SVM-"),
    ("COP-28", "OLM0-HUB-"),
    ("COP-32", "OLM0-"),
    ("COP-33", "OLM1-"),
    ("COP-34", "COP-SCA-"),
];

/// Every Rust file below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// COP-G-15: what an operator of class b does has a test that names its requirement and runs against an API, or the data file says that this version does not
/// have it.
#[test]
fn every_row_of_class_b_has_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    sources(&root.join("tests/e2e/tests"), &mut files);
    for member in std::fs::read_dir(root.join("crates")).unwrap() {
        let tests = member.unwrap().path().join("tests");
        if tests.is_dir() {
            sources(&tests, &mut files);
        }
    }
    let lines: BTreeSet<String> = files
        .iter()
        .flat_map(|file| std::fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| line.trim_start().starts_with("///"))
        .collect();
    let done: BTreeMap<&str, &str> = DONE.into();
    for row in platform_operators().iter().filter(|row| row.classes.contains(&Class::B)) {
        let is_tested = done.get(row.id.as_str()).is_some_and(|prefix| lines.iter().any(|line| line.contains(prefix)));
        assert!(is_tested != row.missing.is_some(), "{}: {:?}", row.id, row.missing);
    }
}

/// CVO-SIM-02: the graph-data of the pair has a risk that metrics decide and one that always applies, and names no release that is not there.
#[test]
fn the_graph_data_of_the_pair() {
    let data = GraphData::read(&platform_graph_data()).unwrap();
    let known: Vec<String> = platform_releases().iter().chain([&platform_retarget()]).map(|release| release.version.to_owned()).collect();
    for channel in &data.channels {
        assert_eq!(channel.versions.iter().map(ToString::to_string).collect::<Vec<_>>(), known, "{}", channel.name);
    }
    let rules: Vec<String> = data.blocked_edges.iter().map(|edge| format!("{} {edge:?}", edge.to)).collect();
    assert_eq!(rules.len(), 2);
    assert!(rules[0].starts_with("4.19.0 ") && rules[0].contains(PLATFORM_QUERY), "{rules:?}");
    assert!(rules[1].starts_with("4.19.1 ") && rules[1].contains("Always"), "{rules:?}");
    let excluded = loaded(&platform_releases()[0], "self-managed-high-availability").excluded;
    assert_eq!(excluded.len(), 3, "the FeatureGates are for the Cluster Config Operator alone");
}
