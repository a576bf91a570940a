//! The floors of the house (ARCHITECTURE.md): a crate depends only on crates below it, and a domain crate never depends on a runtime.
#![allow(clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The crates by floor, lowest first; on a floor, a crate may depend on those of earlier lines only.
const FLOORS: [(&str, &[&[&str]]); 6] = [
    (
        "domain",
        &[
            &["diagnostics", "golang", "graph", "promql", "yaml"],
            &["alerts", "versions", "rbac", "ignition"],
            &["schema", "objects"],
            &["cel", "merge", "api"],
            &["kinds", "bundle", "catalog", "release", "update-graph"],
            &["resolver", "lifecycle", "protobuf"],
            &[
                "cloud-credential-core",
                "cluster-update",
                "cluster-version-core",
                "machine-config-core",
                "machine-core",
                "olm-classic-core",
                "olm-v1-core",
            ],
            &["autoscaler-core"],
        ],
    ),
    (
        "effects",
        &[
            &["runtime", "serve", "store", "oci", "catalog-store"],
            &["apply", "drain", "sqlite-index", "catalog-serve", "image-source", "release-samples", "release-source", "update-client"],
            &["catalog-refs", "node-agent"],
        ],
    ),
    ("cluster", &[&["apiserver"], &["workloads"]]),
    (
        "loops",
        &[&[
            "autoscaler",
            "cloud-credential",
            "cluster-operators",
            "machine-api",
            "machine-config",
            "machine-config-server",
            "marketplace",
            "network-extras",
            "olm-classic",
            "olm-v1",
            "package-server",
            "service-ca",
            "update-service",
            "cluster-version",
        ]],
    ),
    ("operations", &[&["operations"]]),
    ("faces", &[&["terminal"], &["opm"], &["cli"]]),
];

/// Packages that no domain crate may depend on, directly or through others: runtimes, clients, sockets.
const IMPURE: [&str; 8] = ["tokio", "kube", "kube-client", "hyper", "reqwest", "axum", "tonic", "rustix"];

/// Normal dependencies of every package, by name.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked", "--filter-platform", &host])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("metadata");
    let all = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names: BTreeMap<String, String> =
        all(&metadata["packages"]).iter().map(|package| (text(&package["id"]), text(&package["name"]))).collect();
    let normal = |dependency: &Value| all(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
    let mut found = BTreeMap::<String, BTreeSet<String>>::new();
    for node in all(&metadata["resolve"]["nodes"]) {
        let needs = all(&node["deps"]);
        let needs = needs.iter().filter(|dependency| normal(dependency)).map(|one| names[&text(&one["pkg"])].clone());
        // Several versions of one package count as one.
        found.entry(names[&text(&node["id"])].clone()).or_default().extend(needs);
    }
    found
}

fn package(name: &str) -> String {
    format!("mainstay-{name}")
}

/// The path from a package to a forbidden one; `None` if there is none.
fn way_to_impure(from: &str, dependencies: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    let (mut seen, mut ways) = (BTreeSet::new(), vec![vec![from.to_owned()]]);
    while let Some(way) = ways.pop() {
        let last = way.last()?;
        if IMPURE.contains(&last.as_str()) {
            return Some(way);
        }
        for next in dependencies.get(last).into_iter().flatten().filter(|next| seen.insert((*next).clone())) {
            ways.push(way.iter().chain([next]).cloned().collect());
        }
    }
    None
}

/// A crate depends only on crates of lower floors and, on its own floor, of earlier lines.
#[test]
fn crates_depend_on_lower_floors_only() {
    let dependencies = dependencies();
    let mut below = BTreeSet::new();
    for (floor, lines) in FLOORS {
        for line in lines {
            for name in *line {
                let own = dependencies.get(&package(name)).unwrap_or_else(|| panic!("there is no crate {name}"));
                let above: Vec<&String> = own.iter().filter(|need| need.starts_with("mainstay-") && !below.contains(*need)).collect();
                assert!(above.is_empty(), "{name} ({floor}) depends on {above:?}, which are not below it");
            }
            below.extend(line.iter().map(|name| package(name)));
        }
    }
    let placed = |name: &&String| {
        below.contains(*name) || ["mainstay-e2e", "mainstay-fuzz", "mainstay-testing", "mainstay-testing-cluster"].contains(&name.as_str())
    };
    let homeless: Vec<&String> = dependencies.keys().filter(|name| name.starts_with("mainstay-")).filter(|name| !placed(name)).collect();
    assert!(homeless.is_empty(), "{homeless:?} are on no floor: say in FLOORS where they belong");
}

/// A domain crate knows no runtime, no client and no socket, directly or through its dependencies.
#[test]
fn domain_crates_are_pure() {
    let dependencies = dependencies();
    for name in FLOORS[0].1.iter().copied().flatten() {
        let way = way_to_impure(&package(name), &dependencies);
        assert!(way.is_none(), "{name} comes to know a runtime: {}", way.unwrap_or_default().join(" -> "));
    }
}

/// Only faces speak with a person: no crate below them reads a command line, paints or draws progress.
#[test]
fn only_faces_know_a_terminal() {
    let dependencies = dependencies();
    for (floor, lines) in FLOORS.iter().filter(|(floor, _)| *floor != "faces") {
        for name in lines.iter().copied().flatten() {
            let known = &dependencies[&package(name)];
            let of_faces = ["clap", "indicatif", "anstream", "owo-colors"].iter().find(|face| known.contains(**face));
            assert!(of_faces.is_none(), "{name} ({floor}) knows {}, which is for faces", of_faces.unwrap_or(&""));
        }
    }
}

/// The code below a folder that is no test, by file.
fn code(folder: &str) -> Vec<(PathBuf, String)> {
    let (mut folders, mut found) = (vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("source folder") {
            let path = entry.expect("source file").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
                let text = std::fs::read_to_string(&path).expect("source file");
                let lines = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default().lines();
                let lines: Vec<&str> = lines.filter(|line| !line.trim_start().starts_with("//")).collect();
                found.push((path, lines.join("\n")));
            }
        }
    }
    found
}

/// What every installer shares names the kind of none: it speaks of a subject. Tests may have examples.
#[test]
fn lifecycle_names_no_kind() {
    let kinds = ["ClusterExtension", "clusterextension", "Subscription", "ClusterVersion"];
    let mut named = Vec::new();
    for (path, code) in code("../crates/lifecycle/src") {
        let of_a_kind = |line: &&str| kinds.iter().any(|kind| line.contains(kind));
        named.extend(code.lines().filter(of_a_kind).map(|line| format!("{}: {}", path.display(), line.trim())));
    }
    assert!(named.is_empty(), "lifecycle names a kind:\n{}", named.join("\n"));
}

/// The error of a `Result<...>` whose arguments begin here, if it has two.
fn error_type(arguments: &str) -> Option<&str> {
    let (mut depth, mut comma, mut before) = (1, None, ' ');
    for (at, letter) in arguments.char_indices() {
        match letter {
            '<' | '(' | '[' => depth += 1,
            '>' if before == '-' => {}
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 1 => comma = Some(at + 1),
            _ => {}
        }
        if depth == 0 {
            return Some(arguments[comma?..at].trim());
        }
        before = letter;
    }
    None
}

#[test]
fn error_types_are_found() {
    assert_eq!(error_type("Vec<(u8, String)>, String> {"), Some("String"));
    assert_eq!(error_type("BTreeMap<String, String>, Error>"), Some("Error"));
    assert_eq!(error_type("Box<dyn Fn(&str) -> Option<u8>>, Failure>"), Some("Failure"));
    assert_eq!(error_type("(String, String)> {"), None);
}

/// Errors are types: a caller matches on them, and their sources stay.
#[test]
fn no_error_is_a_bare_text() {
    let mut bare = Vec::new();
    for (path, code) in code("../crates") {
        if path.components().any(|part| part.as_os_str() == "tests") {
            continue;
        }
        let results = code.match_indices("Result<").map(|(at, word)| (at, &code[at + word.len()..]));
        for (at, _) in results.filter(|(_, arguments)| error_type(arguments) == Some("String")) {
            bare.push(format!("{}:{}", path.display(), code[..at].lines().last().unwrap_or_default().trim()));
        }
    }
    assert!(bare.is_empty(), "give the error a type:\n{}", bare.join("\n"));
}
