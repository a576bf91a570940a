//! `mainstay bundle` and `opm alpha bundle`, end to end.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Run, command, run, workspace};
use k8s_openapi::api::core::v1::ConfigMap;
use mainstay_oci::registry::Registry;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const EXAMPLE: &str = "examples/bundles/beacon/1.0.0";

fn check(command: &mut Command, code: i32) -> Run {
    let outcome = run(command);
    assert_eq!(outcome.code, code, "{command:?}\n{}\n{}", outcome.stdout, outcome.stderr);
    outcome
}

fn parsed(outcome: &Run) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap()
}

/// A copy of the example, to be broken.
fn copy(to: &Path) -> PathBuf {
    let target = to.join("bundle");
    for folder in ["manifests", "metadata"] {
        std::fs::create_dir_all(target.join(folder)).unwrap();
        for entry in std::fs::read_dir(workspace().join(EXAMPLE).join(folder)).unwrap() {
            let path = entry.unwrap().path();
            std::fs::copy(&path, target.join(folder).join(path.file_name().unwrap())).unwrap();
        }
    }
    target
}

fn replace(file: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(from));
    std::fs::write(file, text.replace(from, to)).unwrap();
}

fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                files.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// SDK-BUNDLE-20, SDK-BUNDLE-21, SDK-BUNDLE-23: findings in every form, with file, line, rule and fix; exit codes.
#[test]
fn validate() {
    let good = check(command().args(["bundle", "validate", EXAMPLE, "--select-optional", "name in (categories, good-practices)"]), 0);
    assert_eq!(good.stdout, "0 errors, 0 warnings\n");
    assert_eq!(good.stderr, "All validation tests have completed successfully\n");
    // Two validators of the suite find the same; it is told once.
    let suite = check(command().args(["bundle", "validate", EXAMPLE, "--select-optional", "suite=operatorframework"]), 0).stdout;
    assert!(suite.contains("removed in v1.25") && suite.ends_with("0 errors, 1 warning\n"), "{suite}");
    let none = check(command().args(["bundle", "validate", EXAMPLE, "-o", "json-alpha1"]), 0);
    assert_eq!(none.stdout, "{\n    \"passed\": true,\n    \"outputs\": null\n}\n");

    let folder = tempfile::tempdir().unwrap();
    let broken = copy(folder.path());
    replace(&broken.join("manifests/beacon.clusterserviceversion.yaml"), "minKubeVersion: 1.25.0", "minKubeVersion: v1");
    std::fs::write(broken.join("manifests/pod.yaml"), "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n").unwrap();
    let place = broken.to_str().unwrap();
    let shown = check(command().args(["bundle", "validate", place]), 1);
    assert_eq!(
        shown.stdout,
        "error: manifests/pod.yaml:2: Pod is not supported type for registryV1 bundle: manifests/pod.yaml [content/kind]\n  \
         fix: remove the object; an operator creates such objects itself\n\
         error: manifests/beacon.clusterserviceversion.yaml:16: (beacon.v1.0.0) csv.Spec.MinKubeVersion has an invalid value: v1 \
         [csv/min-kube-version]\n  fix: set spec.minKubeVersion to MAJOR.MINOR.PATCH\n2 errors, 0 warnings\n"
    );
    let answer = parsed(&check(command().args(["bundle", "validate", place, "-o", "json"]), 1));
    assert_eq!(answer["passed"], false);
    assert_eq!(
        answer["findings"][1],
        json!({
            "level": "error",
            "validator": "csv",
            "rule": "csv/min-kube-version",
            "message": "(beacon.v1.0.0) csv.Spec.MinKubeVersion has an invalid value: v1",
            "text": "Error: Value : (beacon.v1.0.0) csv.Spec.MinKubeVersion has an invalid value: v1",
            "file": "manifests/beacon.clusterserviceversion.yaml",
            "path": "spec.minKubeVersion",
            "line": 16,
            "fix": "set spec.minKubeVersion to MAJOR.MINOR.PATCH",
        })
    );
    let alpha = parsed(&check(command().args(["bundle", "validate", place, "-o", "json-alpha1"]), 1));
    assert_eq!(alpha["outputs"][1]["type"], "error");
    let text = check(command().args(["bundle", "validate", place, "-o", "text"]), 1).stdout;
    assert!(text.lines().all(|line| line.starts_with("time=\"") && line.contains("Z\" level=error msg=\"")), "{text}");

    let listed = check(command().args(["bundle", "validate", "--list-optional"]), 0).stdout;
    assert!(
        listed.starts_with("NAME") && listed.contains("good-practices          name=good-practices,suite=operatorframework"),
        "{listed}"
    );
    let wrong = check(command().args(["bundle", "validate", EXAMPLE, "--select-optional", "name=x"]), 1).stderr;
    assert!(wrong.contains("invalid command args: selector \"name=x\" does not match any validator labels"), "{wrong}");
    check(command().args(["bundle", "validate", "./nothing"]), 1);
    check(command().args(["bundle", "validate", EXAMPLE, "--optional-values", "x"]), 2);
}

/// SDK-BUNDLE-23, SDK-BUNDLE-24: categories of one's own, and validators that are programs.
#[cfg(unix)]
#[test]
fn validators_of_ones_own() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let categories = folder.path().join("categories.json");
    std::fs::write(&categories, r#"{"categories": ["Toys"]}"#).unwrap();
    let mut chosen = command();
    chosen.args(["bundle", "validate", EXAMPLE, "--select-optional", "name=categories"]).env("OPERATOR_BUNDLE_CATEGORIES", &categories);
    assert!(check(&mut chosen, 1).stdout.contains("value \"Developer Tools\" is not in the set of custom categories"));

    let program = folder.path().join("judge");
    let answer =
        r#"{"Name": "judge", "Errors": [{"Type": "T", "Level": "Error", "Field": "f", "BadValue": 7, "Detail": "no"}], "Warnings": null}"#;
    for (script, code, expected) in [
        (format!("#!/bin/sh\necho '{answer}'\n"), 1, "Error: Field f, Value 7: no"),
        ("#!/bin/sh\necho '{\"Surprise\": 1}'\n".to_owned(), 1, "unknown field `Surprise`"),
        ("#!/bin/sh\necho broken >&2; exit 3\n".to_owned(), 1, "broken"),
        ("#!/bin/sh\ntest -d \"$1/manifests\" && echo '{}'\n".to_owned(), 0, "\"passed\": true"),
    ] {
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut judged = command();
        judged.args(["bundle", "validate", EXAMPLE, "-o", "json-alpha1", "--alpha-select-external", program.to_str().unwrap()]);
        let outcome = check(&mut judged, code);
        assert!(format!("{}{}", outcome.stdout, outcome.stderr).contains(expected), "{}{}", outcome.stdout, outcome.stderr);
    }
}

/// MS-CLI-05, MS-CLI-06: the images of a bundle, and what changed between two.
#[test]
fn images_and_diff() {
    let answer = parsed(&check(command().args(["bundle", "images", EXAMPLE, "-o", "json"]), 0));
    assert_eq!(
        answer,
        json!({"bundle": "beacon.v1.0.0", "images": [{
            "image": "registry.example.com/mainstay/beacon-operator:v1.0.0",
            "repository": "registry.example.com/mainstay/beacon-operator",
            "tag": "v1.0.0",
            "digest": null,
            "mirrored": true,
            "named": ["deployment beacon-operator, container operator", "annotation containerImage"],
        }]})
    );
    let names = check(command().args(["bundle", "images", EXAMPLE, "-o", "name"]), 0);
    assert_eq!(names.stdout, "registry.example.com/mainstay/beacon-operator:v1.0.0\n");

    let newer = "examples/bundles/beacon/1.1.0";
    let shown = check(command().args(["bundle", "diff", EXAMPLE, newer]), 0).stdout;
    for line in [
        "beacon.v1.0.0 -> beacon.v1.1.0",
        "  ~ version: 1.0.0 -> 1.1.0",
        "  + account beacon-operator: get, list, watch configmaps in all namespaces",
        "  ~ registry.example.com/mainstay/beacon-operator: :v1.0.0 -> :v1.1.0",
        "  ~ beacons.signals.example.mainstay.dev: 2 fields, safe for objects that exist",
    ] {
        assert!(shown.lines().any(|found| found == line), "{line}\n{shown}");
    }
    check(command().args(["bundle", "diff", EXAMPLE, newer, "--fail-on-breaking"]), 0);
    let back = parsed(&check(command().args(["bundle", "diff", newer, EXAMPLE, "-o", "json", "--fail-on-breaking"]), 4));
    assert_eq!(back["breaking"], true);
    let lost = back["changes"].as_array().unwrap().iter().find(|change| change["section"] == "rights").unwrap();
    assert_eq!((&lost["change"], &lost["old"]["resources"]), (&json!("removed"), &json!(["configmaps"])));
    assert_eq!(check(command().args(["bundle", "diff", EXAMPLE, EXAMPLE]), 0).stdout, "beacon.v1.0.0 -> beacon.v1.0.0\nno differences\n");
}

/// CATLG-48: what generate writes, with everything named and with everything inferred.
#[test]
fn opm_generate() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = copy(folder.path());
    let manifests = bundle.join("manifests");
    let opm = |code: i32, words: &[&str]| {
        let mut called = command();
        called.current_dir(folder.path()).args(["opm", "alpha", "bundle"]).args(words);
        check(&mut called, code)
    };
    let shown = opm(0, &["generate", "-d", "bundle/manifests", "-p", "beacon", "-c", "stable,fast", "-e", "stable"]);
    let logged: Vec<&str> =
        shown.stderr.lines().filter_map(|line| line.split_once(" level=info msg=").map(|(_, message)| message)).collect();
    assert_eq!(logged[0], "\"Building annotations.yaml\"");
    assert_eq!(logged.len(), 4, "{}", shown.stderr);
    assert_eq!(
        std::fs::read_to_string(bundle.join("metadata/annotations.yaml")).unwrap(),
        "annotations:\n  operators.operatorframework.io.bundle.channel.default.v1: stable\n  \
         operators.operatorframework.io.bundle.channels.v1: stable,fast\n  operators.operatorframework.io.bundle.manifests.v1: manifests/\n  \
         operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n  operators.operatorframework.io.bundle.metadata.v1: metadata/\n  \
         operators.operatorframework.io.bundle.package.v1: beacon\n"
    );
    assert_eq!(
        std::fs::read_to_string(folder.path().join("bundle.Dockerfile")).unwrap(),
        "FROM scratch\n\nLABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1\n\
         LABEL operators.operatorframework.io.bundle.manifests.v1=manifests/\n\
         LABEL operators.operatorframework.io.bundle.metadata.v1=metadata/\nLABEL operators.operatorframework.io.bundle.package.v1=beacon\n\
         LABEL operators.operatorframework.io.bundle.channels.v1=stable,fast\n\
         LABEL operators.operatorframework.io.bundle.channel.default.v1=stable\n\nCOPY bundle/manifests /manifests/\n\
         COPY bundle/metadata /metadata/\n"
    );

    // A package in the older layout says channels and names itself.
    let package = folder.path().join("package");
    std::fs::create_dir_all(&package).unwrap();
    std::fs::rename(&manifests, package.join("1.0.0")).unwrap();
    let file = "packageName: beacon\ndefaultChannel: stable\nchannels:\n- {name: stable, currentCSV: beacon.v1.0.0}\n";
    std::fs::write(package.join("beacon.package.yaml"), file).unwrap();
    opm(0, &["generate", "-d", "package/1.0.0", "-u", "out"]);
    let files = tree(&folder.path().join("out"));
    assert_eq!(files.len(), 3);
    let annotations = String::from_utf8(files["metadata/annotations.yaml"].clone()).unwrap();
    assert!(annotations.contains("channels.v1: stable\n") && annotations.contains("package.v1: beacon\n"), "{annotations}");

    let refused = opm(1, &["generate", "-d", "nothing", "-p", "x", "-c", "y"]).stderr;
    assert!(refused.contains("Error: stat ") && refused.contains("/nothing: no such file or directory"), "{refused}");
    let refused = opm(1, &["generate", "-p", "x"]).stderr;
    assert!(refused.contains("Error: required flag(s) \"directory\" not set"), "{refused}");
    let refused = opm(1, &["build", "-d", "package/1.0.0", "-p", "x", "-c", "y", "-t", "t", "-b", "nothing"]).stderr;
    assert!(refused.contains("Error: nothing is not supported image builder"), "{refused}");
}

/// CATLG-48, OLM0-BUNDLE-13: without an engine the image is built here; unpack and validate read it back.
#[test]
fn opm_build_unpack_validate() {
    let runtime = Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let host = listener.local_addr().unwrap().to_string();
    runtime.spawn(Registry::in_memory().serve(listener, std::future::pending()));

    let folder = tempfile::tempdir().unwrap();
    let bundle = copy(folder.path());
    std::fs::remove_dir_all(bundle.join("metadata")).unwrap();
    let opm = |code: i32, words: &[&str]| {
        let mut called = command();
        called.env("PATH", folder.path()).env("HOME", folder.path()).current_dir(folder.path());
        check(called.args(["opm", "alpha", "bundle"]).args(words), code)
    };
    let image = format!("{host}/beacon:v1");
    let built = opm(0, &["build", "-d", "bundle/manifests", "-p", "beacon", "-c", "stable", "-t", &image, "-b", "podman"]);
    assert!(built.stderr.contains(&format!("podman is not on this machine: building here, and pushing to {image}")), "{}", built.stderr);
    opm(0, &["unpack", &image, "-o", "out"]);
    assert_eq!(tree(&folder.path().join("out")), tree(&bundle));
    let validated = opm(0, &["validate", "-t", &image, "-b", "none"]).stderr;
    assert!(validated.contains("Migrate to operator-sdk bundle validate"), "{validated}");
    assert!(validated.contains("msg=\"All validation tests have been completed successfully\" container-tool=none"), "{validated}");

    // Annotations that are there already must say the same; a bundle that is none is refused when it is unpacked.
    let refused = opm(1, &["build", "-d", "bundle/manifests", "-p", "other", "-c", "stable", "-t", &image]).stderr;
    assert!(
        refused.contains("Error: Expect field \"operators.operatorframework.io.bundle.package.v1\" to have value \"other\""),
        "{refused}"
    );
    std::fs::write(bundle.join("manifests/pod.yaml"), "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n").unwrap();
    let bad = format!("{host}/beacon:bad");
    opm(0, &["build", "-o", "-d", "bundle/manifests", "-p", "beacon", "-c", "stable", "-t", &bad]);
    let text = "Bundle validation errors: Pod is not supported type for registryV1 bundle: manifests/pod.yaml";
    assert!(opm(1, &["validate", "-t", &bad]).stderr.contains(&format!("Error: {text}")));
    let refused = opm(1, &["unpack", &bad, "-o", "bad"]).stderr;
    assert!(refused.contains(&format!("Error: bundle content validation failed: {text}")), "{refused}");
    assert!(tree(&folder.path().join("bad")).is_empty());
    assert!(opm(0, &["unpack", &bad, "-o", "bad", "-v"]).stderr.contains("msg=\"skipping bundle validation\" cmd=unpack"));
    assert_eq!(tree(&folder.path().join("bad")).len(), 4);

    let validated = check(command().env("HOME", folder.path()).args(["bundle", "validate", &bad]), 1).stdout;
    assert!(validated.contains("[content/kind]"), "{validated}");
    let listed = check(command().env("HOME", folder.path()).args(["bundle", "images", &image, "-o", "name"]), 0).stdout;
    assert_eq!(listed, format!("{image}\nregistry.example.com/mainstay/beacon-operator:v1.0.0\n"));
}

/// CATLG-48: extract writes a bundle into a ConfigMap, as text and compressed.
#[test]
fn opm_extract() {
    let folder = tempfile::tempdir().unwrap();
    let home = || {
        let mut called = command();
        called.env("HOME", folder.path()).env("XDG_STATE_HOME", folder.path().join("state"));
        called
    };
    let data = folder.path().join("data");
    let mut up = home();
    up.args(["up", "--detach", "--listen", "127.0.0.1:0", "--components", "none", "--data-dir", data.to_str().unwrap()]);
    let ready = check(&mut up, 0).stdout;
    let down = Down(folder.path().to_owned());
    let kubeconfig = ready.split_whitespace().find_map(|word| word.strip_prefix("kubeconfig=")).unwrap().to_owned();
    let runtime = Runtime::new().unwrap();
    let maps: kube::Api<ConfigMap> = runtime.block_on(async {
        let file = kube::config::Kubeconfig::read_from(&kubeconfig).unwrap();
        let config = kube::Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default()).await.unwrap();
        kube::Api::namespaced(kube::Client::try_from(config).unwrap(), "default")
    });
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "unpacked"}, "data": {"old": "x"}})).unwrap();
    runtime.block_on(maps.create(&kube::api::PostParams::default(), &map)).unwrap();

    let bundle = copy(folder.path());
    let place = format!("{}/", bundle.display());
    let extract = |code: i32, words: &[&str]| {
        let mut called = home();
        called.args(["opm", "alpha", "bundle", "extract", "-k", &kubeconfig, "-m", &place, "-n", "default"]).args(words);
        check(called.env("CONTAINER_IMAGE", "registry.example.com/beacon:v1"), code)
    };
    let shown = extract(0, &["-c", "unpacked"]).stderr;
    assert!(shown.contains("level=info msg=\"Reading file\" file="), "{shown}");
    let plain = runtime.block_on(maps.get("unpacked")).unwrap();
    let written = plain.data.unwrap();
    let files = tree(&bundle.join("manifests"));
    assert_eq!(written.keys().collect::<Vec<_>>(), files.keys().collect::<Vec<_>>());
    assert!(written.iter().all(|(name, text)| text.as_bytes() == files[name]));
    let annotations = plain.metadata.annotations.unwrap();
    assert_eq!(annotations["operators.operatorframework.io.bundle.package.v1"], "beacon");
    assert_eq!(annotations["olm.sourceImage"], "registry.example.com/beacon:v1");

    extract(0, &["-c", "unpacked", "--gzip"]);
    let packed = runtime.block_on(maps.get("unpacked")).unwrap();
    assert_eq!(packed.data, None);
    assert_eq!(packed.binary_data.unwrap().len(), files.len());
    assert_eq!(packed.metadata.annotations.unwrap()["olm.contentEncoding"], "gzip+base64");

    let small = extract(1, &["-c", "unpacked", "-l", "10"]).stderr;
    assert!(small.contains("Error: error loading manifests from directory: bundle files exceeded 10 bytes limit"), "{small}");
    let absent = extract(1, &["-c", "other"]).stderr;
    assert!(absent.contains("Error: error loading manifests from directory: configmaps \"other\" not found"), "{absent}");
    drop(down);
}

/// Ends the cluster of a home, also when a test failed half-way.
struct Down(PathBuf);

impl Drop for Down {
    fn drop(&mut self) {
        let mut called = command();
        let _ended = called.env("HOME", &self.0).env("XDG_STATE_HOME", self.0.join("state")).args(["down", "--all"]).output();
    }
}
