//! `mainstay bundle` and `opm alpha bundle`, end to end.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Run, command, run, workspace};
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

/// MS-CLI-05, MS-CLI-06: one reader, one verdict: what cannot be built is not valid, and of what cannot be read no command says anything but that.
#[test]
fn every_command_has_the_same_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let scratch = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let all = |place: &str| {
        let (layout, out) = (scratch("layout"), scratch("out"));
        [
            vec!["bundle", "validate", place],
            vec!["bundle", "build", place, "--layout", &layout],
            vec!["bundle", "diff", place, EXAMPLE],
            vec!["bundle", "diff", EXAMPLE, place],
            vec!["bundle", "images", place],
            vec!["bundle", "render", place, "--install-namespace", "work"],
            vec!["catalog", "from-bundles", place, "--registry", "registry.example.com", "--out", &out, "--no-push"],
        ]
        .map(|words| run(command().args(&words)))
    };
    let codes = |place: &str| all(place).map(|run| run.code);
    let csv = "manifests/beacon.clusterserviceversion.yaml";
    #[allow(clippy::type_complexity, reason = "a table: what it is called, what is done to the bundle, exit codes")]
    let broken: [(&str, &dyn Fn(&Path), [i32; 7]); 5] = [
        ("nothing", &|_| {}, [0, 0, 0, 0, 0, 0, 0]),
        // A second document that is no object: catalogs take the first, installers all.
        ("document", &|bundle| append(&bundle.join(csv), "\n---\nnot: an object\n"), [1, 1, 1, 1, 1, 1, 1]),
        ("folder", &|bundle| std::fs::create_dir(bundle.join("manifests/more")).unwrap(), [0, 0, 0, 0, 0, 0, 0]),
        (
            "inner file",
            &|bundle| {
                std::fs::create_dir(bundle.join("manifests/more")).unwrap();
                std::fs::write(bundle.join("manifests/more/a.yaml"), "kind: A\n").unwrap();
            },
            [1, 1, 1, 1, 1, 1, 1],
        ),
        // It can be read, but nobody can install it: that has images and differences.
        ("name", &|bundle| replace(&bundle.join(csv), "- name: beacon-operator", "- name: Beacon_Operator"), [1, 1, 0, 0, 0, 4, 1]),
    ];
    for (what, harm, expected) in broken {
        let inner = folder.path().join(what.replace(' ', "-"));
        std::fs::create_dir(&inner).unwrap();
        let bundle = copy(&inner);
        harm(&bundle);
        let place = bundle.to_str().unwrap();
        assert_eq!(codes(place), expected, "{what}: {:?}", all(place).map(|run| format!("{}{}", run.stdout, run.stderr)));
    }
}

fn append(file: &Path, text: &str) {
    let whole = std::fs::read_to_string(file).unwrap() + text;
    std::fs::write(file, whole).unwrap();
}

/// CATLG-32: who names a folder may have links to files in it that lead elsewhere, as build tools make them; opm follows those too.
#[test]
fn links_out_of_a_named_folder() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = copy(folder.path());
    let store = folder.path().join("store");
    std::fs::create_dir(&store).unwrap();
    for part in ["manifests", "metadata"] {
        for entry in std::fs::read_dir(bundle.join(part)).unwrap().map(Result::unwrap) {
            let kept = store.join(entry.file_name());
            std::fs::rename(entry.path(), &kept).unwrap();
            std::os::unix::fs::symlink(&kept, entry.path()).unwrap();
        }
    }
    let place = bundle.to_str().unwrap();
    check(command().args(["bundle", "render", place, "--install-namespace", "work"]), 0);
    check(command().args(["bundle", "validate", place]), 0);
    check(command().args(["opm", "render", place]), 0);

    let catalog = folder.path().join("catalog");
    std::fs::create_dir(&catalog).unwrap();
    std::os::unix::fs::symlink(workspace().join("examples/catalog/beacon/catalog.yaml"), catalog.join("catalog.yaml")).unwrap();
    let place = catalog.to_str().unwrap();
    check(command().args(["opm", "validate", place]), 0);
    check(command().args(["opm", "render", place]), 0);
    check(command().args(["catalog", "query", place]), 0);
    // A link to a folder is not gone through: opm cannot read it as a file, and says so.
    std::os::unix::fs::symlink(".", catalog.join("again")).unwrap();
    let refused = check(command().args(["opm", "validate", place]), 1);
    assert!(refused.stderr.contains("again: Is a directory"), "{}", refused.stderr);
}

/// A folder for each version of the example, below a folder.
fn tree_of(root: &Path, versions: &[&str]) {
    for version in versions {
        for part in ["manifests", "metadata"] {
            let (from, to) = (workspace().join("examples/bundles/beacon").join(version).join(part), root.join(version).join(part));
            std::fs::create_dir_all(&to).unwrap();
            for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
                std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    }
}

/// MS-CLI-05: all faults of a tree are told at once, with both places of what is there twice; `--skip-invalid` leaves them out.
#[test]
fn from_bundles_tells_all_faults() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("operators");
    tree_of(&root.join("beacon"), &["1.0.0", "1.0.1"]);
    tree_of(&root.join("again"), &["1.0.0"]);
    tree_of(&root.join("broken"), &["1.1.0", "1.2.0"]);
    std::fs::write(root.join("broken/1.1.0/metadata/annotations.yaml"), "annotations: [").unwrap();
    std::fs::remove_file(root.join("broken/1.2.0/manifests/beacons.signals.example.mainstay.dev.yaml")).unwrap();
    std::fs::write(root.join("broken/ci.yaml"), "updateGraph: sideways\n").unwrap();
    std::fs::write(root.join("deprecations.yaml"), "schema: olm.package\nname: x\n").unwrap();
    let out = folder.path().join("out");
    let words = [
        "catalog",
        "from-bundles",
        root.to_str().unwrap(),
        "--registry",
        "registry.example.com",
        "--out",
        out.to_str().unwrap(),
        "--no-push",
        "--mode",
        "semver",
    ];
    let refused = check(command().args(words), 1).stderr;
    for part in [
        "5 faults; 2 bundles could be listed",
        "broken/1.1.0: Could not find annotations file",
        "broken/1.2.0: error checking provided apis in bundle beacon.v1.2.0: couldn't find signals.example.mainstay.dev/v1/Beacon",
        "broken/ci.yaml: updateGraph: expected replaces-mode, semver-mode or semver-skippatch-mode, found \"sideways\"",
        "deprecations.yaml: holds blobs of other schemas than olm.deprecations",
        "hint: --skip-invalid leaves them out",
        "read 5 of 5: ",
    ] {
        assert!(refused.contains(part), "{part}\n{refused}");
    }
    let (one, other) = (root.join("beacon/1.0.0"), root.join("again/1.0.0"));
    let double = format!("{}: bundle beacon.v1.0.0 of package beacon is in {} too", one.display(), other.display());
    assert!(refused.contains(&double), "{refused}");
    assert!(!out.exists());

    let made = check(command().args(words).arg("--skip-invalid"), 0);
    assert!(made.stderr.contains("5 faults left out, 2 bundles listed"), "{}", made.stderr);
    assert!(made.stdout.contains("beacon.v1.0.1") && !made.stdout.contains("beacon.v1.2.0"), "{}", made.stdout);
    check(command().args(["opm", "validate", out.to_str().unwrap()]), 0);
}

/// MS-CLI-05: what `opm validate` would refuse in the catalog is a fault of its bundle, and `bundle validate` says so too; deprecations of a
/// package that is left out are left out with it, before anything is pushed.
#[test]
fn from_bundles_writes_what_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("operators");
    tree_of(&root.join("beacon"), &["1.0.0", "1.0.1", "1.1.0"]);
    let csv = |version: &str| root.join("beacon").join(version).join("manifests/beacon.clusterserviceversion.yaml");
    let rewrite = |version: &str, change: fn(&str) -> String| {
        let lines: Vec<String> = std::fs::read_to_string(csv(version)).unwrap().lines().map(change).collect();
        std::fs::write(csv(version), lines.join("\n")).unwrap();
    };
    rewrite("1.0.0", |line| match line.split_once("base64data:") {
        Some((before, _)) => format!("{before}base64data: PHN2Zy8"),
        None => line.to_owned(),
    });
    rewrite("1.0.1", |line| if line == "  annotations:" { format!("{line}\n    olm.skipRange: '<v1.0.1'") } else { line.to_owned() });
    std::fs::write(root.join("beacon/1.1.0/metadata/properties.yaml"), "properties:\n- type: note\n  value: null\n").unwrap();
    for (version, message) in [
        (
            "1.0.1",
            "olm.skipRange \"<v1.0.1\" of the CSV: Could not parse Range \"<v1.0.1\": Could not parse comparator \"<v\" in \"<v1.0.1\"",
        ),
        ("1.1.0", "property or dependency of type \"note\" has no value"),
    ] {
        let place = root.join("beacon").join(version);
        let found = parsed(&check(command().args(["bundle", "validate", place.to_str().unwrap(), "-o", "json"]), 1));
        let findings = found["findings"].as_array().unwrap();
        assert!(findings.iter().any(|one| one["rule"] == "not-listable" && one["message"] == message), "{found:#}");
    }
    for (package, version) in [("lantern", "1.0.0"), ("lantern", "1.1.0")] {
        let place = folder.path().join("operators").join(package).join(version);
        for part in ["manifests", "metadata"] {
            copy_all(&workspace().join("examples/bundles").join(package).join(version).join(part), &place.join(part));
        }
    }
    // Two heads, so that nothing of the package can be listed.
    std::fs::write(root.join("lantern/ci.yaml"), "updateGraph: replaces-mode\n").unwrap();
    replace_all(&root.join("lantern/1.1.0/manifests"), "  replaces: lantern.v1.0.0\n", "");
    let deprecations = "schema: olm.deprecations\npackage: lantern\nentries:\n- reference: {schema: olm.package}\n  message: old\n";
    std::fs::write(root.join("lantern/deprecations.yaml"), deprecations).unwrap();
    let out = folder.path().join("out");
    let words = [
        "catalog",
        "from-bundles",
        root.to_str().unwrap(),
        "--registry",
        "registry.example.com",
        "--no-push",
        "--out",
        out.to_str().unwrap(),
    ];
    let found = check(command().args(["bundle", "validate", root.join("beacon/1.0.0").to_str().unwrap()]), 0);
    assert!((found.stdout + &found.stderr).contains("a catalog shows no icon"));
    let refused = check(command().args(words), 1).stderr;
    for part in [
        "beacon/1.0.0: spec.icon[0].base64data of the CSV is not base64",
        "beacon/1.0.1: olm.skipRange",
        "beacon/1.1.0: property or dependency of type",
        "multiple channel heads",
    ] {
        assert!(refused.contains(part), "{part}\n{refused}");
    }
    let made = check(command().args(words).arg("--skip-invalid"), 0);
    assert!(made.stdout.contains("beacon.v1.0.0") && !made.stdout.contains("lantern"), "{}{}", made.stdout, made.stderr);
    let mut files = std::fs::read_dir(out.join("beacon")).unwrap().map(|entry| entry.unwrap().path());
    assert!(files.all(|file| !std::fs::read_to_string(file).unwrap().contains("base64data")));
    check(command().args(["opm", "validate", out.to_str().unwrap()]), 0);
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Replaces a text in all files of a folder.
fn replace_all(folder: &Path, from: &str, to: &str) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let text = std::fs::read_to_string(entry.path()).unwrap();
        std::fs::write(entry.path(), text.replace(from, to)).unwrap();
    }
}

/// MS-CLI-05: where the edges come from stands in `ci.yaml`, and packages of the older layout are converted.
#[test]
fn from_bundles_of_a_community_tree() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("operators");
    tree_of(&root.join("beacon"), &["1.0.0", "1.2.0"]);
    std::fs::write(root.join("beacon/ci.yaml"), "---\nreviewers: [a]\nupdateGraph: semver-mode\n").unwrap();
    let old = root.join("lantern");
    for version in ["1.0.0", "1.1.0"] {
        let from = workspace().join("examples/bundles/lantern").join(version).join("manifests");
        std::fs::create_dir_all(old.join(version)).unwrap();
        for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
            std::fs::copy(entry.path(), old.join(version).join(entry.file_name())).unwrap();
        }
    }
    let package = "packageName: lantern\ndefaultChannel: bright\nchannels:\n- name: bright\n  currentCSV: lantern.v1.1.0\n";
    std::fs::write(old.join("lantern.package.yaml"), package).unwrap();
    let out = folder.path().join("out");
    let words = ["--registry", "registry.example.com", "--no-push", "--out", out.to_str().unwrap()];
    check(command().args(["catalog", "from-bundles", root.to_str().unwrap()]).args(words), 0);
    let of = |package: &str| std::fs::read_to_string(out.join(package).join("catalog.yaml")).unwrap();
    assert!(of("beacon").contains("replaces: beacon.v1.0.0"), "{}", of("beacon"));
    assert!(of("lantern").contains("defaultChannel: bright") && of("lantern").contains("replaces: lantern.v1.0.0"), "{}", of("lantern"));
    // What --mode says counts for all.
    let refused = check(command().args(["catalog", "from-bundles", root.to_str().unwrap(), "--mode", "replaces"]).args(words), 1);
    assert!(refused.stderr.contains("multiple channel heads"), "{}", refused.stderr);
}

/// MS-CLI-06: a command refuses what it cannot do; it does not do something else.
#[test]
fn what_cannot_be_done_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let catalog = "examples/catalog";
    let refused = check(command().args(["graph", "beacon", "--catalog", catalog, "--out", &at("a.png")]), 1).stderr;
    assert!(refused.contains("a graph cannot be written as .png; it can as .svg, .dot, .mmd, .json and .txt"), "{refused}");
    assert!(!Path::new(&at("a.png")).exists());
    check(command().args(["graph", "beacon", "--catalog", catalog, "-o", "svg", "--out", &at("a.png")]), 0);

    let crd = |version: &str| format!("examples/bundles/cellar/{version}/manifests/cellars.storage.example.mainstay.dev.yaml");
    let beacons = "examples/bundles/beacon/1.0.0/manifests/beacons.signals.example.mainstay.dev.yaml";
    let refused = check(command().args(["crd", "check", &crd("0.4.0"), beacons]), 1).stderr;
    assert!(refused.contains("which cannot replace cellars.storage.example.mainstay.dev"), "{refused}");
    let text = std::fs::read_to_string(workspace().join(beacons)).unwrap();
    for (what, text, said) in [
        ("two", format!("{text}\n---\n{text}"), "holds 2 objects; one definition a file is compared"),
        ("none", String::new(), "holds no object"),
        ("version", text.replace("  versions:", "  version:"), "spec.versions: expected a list of versions with names"),
        ("type", text.replace("scope: ", "scope: [] # "), "spec.scope: expected text"),
    ] {
        std::fs::write(at(what), text).unwrap();
        let refused = check(command().args(["crd", "check", beacons, &at(what)]), 1).stderr;
        assert!(refused.contains(said), "{what}: {refused}");
    }
    let unnamed = check(command().args(["crd", "check", beacons, beacons, "-o", "name"]), 2);
    assert_eq!(unnamed.stdout, "");

    let refused = check(command().args(["catalog", "diff", catalog, catalog, "--package", "becon"]), 3).stderr;
    assert!(refused.contains("hint: did you mean beacon?"), "{refused}");
    check(command().args(["catalog", "lint", catalog, "--package", "becon"]), 3);
    let refused = check(command().args(["catalog", "lint", catalog, "--bundles", "docs"]), 1).stderr;
    assert!(refused.contains("there is no directory with manifests and metadata below it"), "{refused}");
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
