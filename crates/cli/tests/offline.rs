//! Golden runs of the commands that need no cluster.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use crate::common::{Run, command, lines, mainstay, run, workspace};
use serde_json::{Value, json};
use snapbox::{assert_data_eq, str};

fn check(args: &[&str], code: i32) -> Run {
    let run = mainstay(args);
    assert_eq!(run.code, code, "{args:?}\n{}\n{}", run.stdout, run.stderr);
    run
}

fn parsed(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap()
}

/// MS-CLI-09, MS-CLI-06: resolve for people and for programs, and its exit codes.
#[test]
fn resolve() {
    let yes = check(&["resolve", "beacon", "--catalog", "examples/catalog", "--installed", "beacon.v1.0.0", "--channel", "stable"], 0);
    assert_data_eq!(
        yes.stdout,
        str![[r"
PACKAGE   BUNDLE          VERSION   CHANNELS   CATALOG
beacon    beacon.v1.1.0   1.1.0     stable     catalog

why:
  beacon.v1.1.0 is the newest of 3 bundles that fit
  beacon.v1.0.0 is installed; beacon.v1.1.0 skips it in channel stable
  it is in channel stable

"]]
    );
    let answer = parsed(&check(&["resolve", "beacon", "--catalog", "examples/catalog", "--version", "1.2.x", "-o", "json"], 0));
    assert_eq!(answer["bundle"], "beacon.v1.2.0");
    assert_eq!(answer["channels"], json!(["candidate", "stable"]));
    assert!(!answer["reasons"].as_array().unwrap().is_empty());

    let no = check(&["resolve", "becon", "--catalog", "examples/catalog"], 4);
    assert_eq!(no.stdout, "");
    assert_data_eq!(
        no.stderr,
        str![[r#"
error: package becon: no bundles found for package "becon"
  because catalog catalog (priority 0): does not have the package
hint: with package name beacon there would be something to choose from

"#]]
    );
    let no = parsed(&check(&["resolve", "beacon", "--catalog", "examples/catalog", "--version", ">9", "-o", "json"], 4));
    assert_eq!(no["error"]["message"], "no bundles found for package \"beacon\" matching version \">9\"");
    assert!(no["error"]["hints"][0].as_str().unwrap().starts_with("without a version range it would be beacon.v1.3.0"));

    check(&["resolve", "beacon", "--catalog", "examples/catalog", "--version", "not a range"], 1);
    check(&["resolve", "beacon", "--catalog", "no/such/directory.yaml"], 1);
    check(&["resolve", "beacon", "--catalog", "examples/catalog", "--installed", "beacon.v7.0.0"], 1);
    check(&["resolve", "beacon"], 2);
}

/// MS-CLI-09: one answer a line, in order, also for lines that are no questions; the exit code says that there were some.
#[test]
fn cases_are_answered_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cases.jsonl");
    std::fs::write(&file, "{\"package\":\"lantern\"}\n\n{\"package\":7}\nnot json\n{\"package\":\"cellar\",\"version\":\"0.5.0\"}\n")
        .unwrap();
    let run = mainstay([&"resolve".into(), &"--catalog".into(), &"examples/catalog".into(), &"--cases".into(), &file]);
    assert_eq!(run.code, 1);
    let answers = lines(&run.stdout);
    assert_eq!(answers.len(), 4);
    assert_eq!(answers[0]["bundle"], "lantern.v1.1.1");
    assert_eq!(answers[1]["error"]["message"], "field package: expected text, found 7");
    assert!(answers[2]["error"]["message"].as_str().unwrap().starts_with("line 4: "));
    assert_eq!(answers[3]["bundle"], "cellar.v0.5.0");
}

/// MS-CLI-09: versions match, in both dialects.
#[test]
fn versions_match() {
    assert_data_eq!(
        check(&["versions", "match", ">=1.0.0 <2.0.0", "1.5.0", "2.0.0"], 4).stdout,
        str![[r"
VERSION   MATCHES
1.5.0     yes
2.0.0     no

"]]
    );
    check(&["versions", "match", "--dialect", "extension", "^1.2, !=1.2.5", "1.9.0"], 0);
    assert_eq!(
        parsed(&check(&["versions", "match", "--dialect", "extension", "1.x", "1.9.0-rc1", "-o", "json"], 4)),
        json!({"matches": false, "versions": [{"version": "1.9.0-rc1", "matches": false}]})
    );
    check(&["versions", "match", "1.x.y.z", "1.0.0"], 1);
    check(&["versions", "match", ">1.0.0", "one"], 1);
    check(&["versions", "match"], 2);
}

/// MS-CLI-09, OLM1-INST-07: bundle render as a stream of documents, as a list, and refused.
#[test]
fn bundle_render() {
    let names = check(&["bundle", "render", "examples/bundles/cellar/0.5.0", "--install-namespace", "ops", "-o", "name"], 0).stdout;
    assert!(names.contains("deployment.apps/cellar-operator\n") && names.contains("configmap/cellar-defaults\n"), "{names}");
    let yaml = check(&["bundle", "render", "examples/bundles/cellar/0.5.0", "--install-namespace", "ops"], 0).stdout;
    assert!(yaml.contains("\n---\n"));
    let own = parsed(&check(
        &["bundle", "render", "examples/bundles/cellar/0.5.0", "--install-namespace", "ops", "--watch-namespace", "ops", "-o", "json"],
        0,
    ));
    assert!(own.as_array().unwrap().iter().any(|object| object["kind"] == "Role"));
    let refused = check(
        &["bundle", "render", "examples/bundles/beacon/1.0.0", "--install-namespace", "ops", "--watch-namespace", "ops", "-o", "json"],
        4,
    );
    assert!(parsed(&refused)["error"]["message"].is_string());
    check(&["bundle", "render", "examples/bundles/beacon/1.0.0", "--install-namespace", "ops", "--watch-namespace", "ops"], 4);
    check(&["bundle", "render", "./nowhere", "--install-namespace", "ops"], 1);
}

/// MS-CLI-09: the versions that objects are stored in, which no file says, can be given; a version that goes is told of where they are not.
#[test]
fn crd_check_with_stored_versions() {
    let folder = tempfile::tempdir().unwrap();
    let crd = |name: &str, versions: &[&str]| {
        let version = |name: &&str| json!({"name": name, "served": true, "storage": *name == "v1", "schema": {"openAPIV3Schema": {"type": "object"}}});
        let object = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "as.example.com"}, "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "as", "kind": "A"}, "versions": versions.iter().map(version).collect::<Vec<_>>()}});
        let path = folder.path().join(name);
        std::fs::write(&path, object.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (old, new) = (crd("old.yaml", &["v1alpha1", "v1"]), crd("new.yaml", &["v1"]));
    let silent = check(&["crd", "check", &old, &new], 0);
    let told = "warning: crd as.example.com: version v1alpha1 is no longer defined; --stored-versions says if objects are stored in it";
    assert!(silent.stderr.contains(told), "{}", silent.stderr);
    assert_eq!(check(&["crd", "check", &old, &new, "--stored-versions", "v1"], 0).stderr, "");
    let lost = parsed(&check(&["crd", "check", &old, &new, "--stored-versions", "v1alpha1,v1", "-o", "json"], 4));
    assert_eq!(
        (&lost["findings"][0]["rule"], &lost["findings"][0]["message"]),
        (&json!("storedVersionRemoval"), &json!("stored versions removed : [v1alpha1]"))
    );
    let wrong = check(&["crd", "check", &old, &new, "--stored-versions", "v2"], 1).stderr;
    assert!(wrong.contains("defines no version v2") && wrong.contains("hint: its versions are v1alpha1, v1"), "{wrong}");
    let cases = folder.path().join("cases.jsonl");
    std::fs::write(&cases, format!("{}\n", json!({"old": "old.yaml", "new": "new.yaml", "storedVersions": ["v1alpha1"]}))).unwrap();
    let words = ["crd", "check", "--cases", cases.to_str().unwrap(), "--root", folder.path().to_str().unwrap()];
    assert_eq!(parsed(&check(&words, 0))["safe"], false);
}

/// MS-CLI-06: options that would be ignored together are refused.
#[test]
fn what_would_be_ignored_is_refused() {
    for words in [
        &["crd", "check", "--cases", "f", "--stored-versions", "v1"][..],
        &["crd", "check", "a", "b", "--root", "d"],
        &["crd", "check", "--cases", "f", "-o", "yaml"],
        &["versions", "match", "--cases", "f", "-o", "jsonpath={.a}"],
        &["resolve", "--cases", "f", "--catalog", "examples/catalog", "--version", "1"],
        &["resolve", "--cases", "f", "--catalog", "examples/catalog", "-o", "yaml"],
        &["bundle", "render", "--cases", "f", "--install-namespace", "n"],
        &["bundle", "render", "b", "--install-namespace", "n", "--root", "d"],
        &["bundle", "validate", "--list-optional", "examples/bundles/beacon/1.0.0"],
        &["restore", "f", "--verify", "--bump-revision", "7"],
        &["registry", "serve", "--password", "x"],
        &["install", "p", "--no-wait", "--timeout", "5m"],
        &["upgrade", "p", "--no-wait", "--watch"],
        &["approve", "--yes"],
        &["graph", "beacon", "--catalog", "examples/catalog", "-o", "svg", "--ascii"],
        &["graph", "beacon", "--catalog", "examples/catalog", "--out", "x.json", "--ascii"],
        &["log-level", "--at", "https://127.0.0.1:1", "--token-file", "t", "--context", "c"],
        &["describe", "x", "-o", "name"],
        &["status", "-o", "wide"],
        &["catalog", "mirror", "a", "b", "-o", "jsonpath={.a}"],
    ] {
        let refused = check(words, 2);
        assert!(refused.stdout.is_empty() && refused.stderr.starts_with("error: "), "{words:?}: {}", refused.stderr);
    }
}

/// MS-CLI-09: crd check says what is not safe.
#[test]
fn crd_check() {
    let crd = |version| format!("examples/bundles/cellar/{version}/manifests/cellars.storage.example.mainstay.dev.yaml");
    let (first, next, last) = (crd("0.4.0"), crd("0.5.1"), crd("2.0.0"));
    assert_eq!(parsed(&check(&["crd", "check", &first, &next, "-o", "json"], 0)), json!({"safe": true, "findings": [], "message": ""}));
    let unsafe_change = parsed(&check(&["crd", "check", &next, &last, "-o", "json"], 4));
    let rules: Vec<&str> = unsafe_change["findings"].as_array().unwrap().iter().map(|finding| finding["rule"].as_str().unwrap()).collect();
    assert!(rules.contains(&"existingFieldRemoval") && rules.contains(&"enum"), "{rules:?}");
    check(&["crd", "check", &first, "examples/README.md"], 1);
}

/// MS-CLI-05: the catalog beside the example bundles is what from-bundles makes of them, and it is valid.
#[test]
fn the_example_catalog_is_up_to_date() {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().to_str().unwrap();
    check(
        &[
            "catalog",
            "from-bundles",
            "examples/bundles",
            "--registry",
            "registry.example.com/mainstay/examples",
            "--out",
            path,
            "--no-push",
        ],
        0,
    );
    for package in ["beacon", "cellar", "lantern"] {
        let made = std::fs::read_to_string(out.path().join(package).join("catalog.yaml")).unwrap();
        let kept = std::fs::read_to_string(workspace().join("examples/catalog").join(package).join("catalog.yaml")).unwrap();
        assert!(made == kept, "examples/catalog/{package} is not what from-bundles makes of examples/bundles");
    }
    check(&["opm", "validate", "examples/catalog"], 0);
}

/// MS-CLI-06: bundles that do not say what they replace make no channel; the hint names the mode that orders them, and it does.
#[test]
fn bundles_in_no_order() {
    let scratch = tempfile::tempdir().unwrap();
    let bundles = scratch.path().join("bundles");
    for version in ["1.0.0", "1.2.0"] {
        for part in ["manifests", "metadata"] {
            let (from, to) = (workspace().join("examples/bundles/beacon").join(version).join(part), bundles.join(version).join(part));
            std::fs::create_dir_all(&to).unwrap();
            for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
                std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    }
    let (bundles, out) = (bundles.to_str().unwrap(), scratch.path().join("out"));
    let made = ["catalog", "from-bundles", bundles, "--registry", "registry.example.com", "--out", out.to_str().unwrap(), "--no-push"];
    let refused = check(&made, 1).stderr;
    assert!(refused.contains("multiple channel heads found in graph: beacon.v1.0.0, beacon.v1.2.0"), "{refused}");
    assert!(refused.contains("hint: --mode semver makes each version replace the one before it"), "{refused}");
    check(&[made.as_slice(), &["--mode", "semver"]].concat(), 0);
}

/// MS-CLI-05: images are built without a container engine, the same bytes every time.
#[test]
fn images_into_a_layout() {
    let out = tempfile::tempdir().unwrap();
    let layout = |name: &str| out.path().join(name).to_str().unwrap().to_owned();
    let first = check(&["catalog", "build", "examples/catalog", "--layout", &layout("a")], 0).stdout;
    assert_eq!(first, check(&["catalog", "build", "examples/catalog", "--layout", &layout("b")], 0).stdout);
    assert!(first.starts_with("sha256:"));
    assert!(check(&["bundle", "build", "examples/bundles/beacon/1.0.0", "--layout", &layout("c")], 0).stdout.starts_with("sha256:"));
    check(&["bundle", "build", "examples/catalog", "--layout", &layout("d")], 1);
    check(&["catalog", "build", "examples/bundles", "--layout", &layout("e")], 1);
}

/// MS-CLI-01: links named after other tools, and what is not there yet.
#[test]
fn other_tools() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("opm");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_mainstay"), &link).unwrap();
    let linked = run(std::process::Command::new(&link).args(["validate", "examples/catalog"]).current_dir(workspace()));
    assert_eq!(linked.code, 0, "{}", linked.stderr);
    for words in [&["operator-sdk", "init"][..], &["adm", "node-logs"]] {
        assert!(check(words, 2).stderr.contains("is not part of this version of mainstay"));
    }
}

/// MS-CLI-07: a mistyped command is told the nearest one, and shells complete.
#[test]
fn suggestions_and_completion() {
    assert!(check(&["resolv"], 2).stderr.contains("'resolve'"));
    for shell in ["bash", "zsh", "fish", "powershell"] {
        assert!(check(&["completion", shell], 0).stdout.contains("mainstay"));
    }
    assert!(check(&["resolve", "--help"], 0).stdout.contains("Examples:"));
}

/// MS-CLI-06: no colour unless on a terminal or asked for; NO_COLOR counts.
#[test]
fn colour() {
    let args = ["resolve", "nothing", "--catalog", "examples/catalog"];
    assert!(!mainstay(args).stderr.contains('\x1b'));
    assert!(run(command().args(args).args(["--color", "always"])).stderr.contains('\x1b'));
    assert!(!run(command().args(args).env("NO_COLOR", "1")).stderr.contains('\x1b'));
}

/// CATLG-48: a bundle generated where its manifests already lie keeps them; opm empties them there.
#[test]
fn generating_in_place_keeps_the_manifests() {
    let folder = tempfile::tempdir().unwrap();
    let manifests = folder.path().join("manifests");
    std::fs::create_dir(&manifests).unwrap();
    let csv = workspace().join("examples/bundles/beacon/1.0.0/manifests/beacon.clusterserviceversion.yaml");
    let written = std::fs::read(csv).unwrap();
    std::fs::write(manifests.join("csv.yaml"), &written).unwrap();
    let arguments = ["opm", "alpha", "bundle", "generate", "-d", "manifests", "-p", "beacon", "-c", "stable", "-u", "."];
    let made = run(command().current_dir(folder.path()).args(arguments));
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert!(folder.path().join("metadata/annotations.yaml").is_file());
    assert_eq!(std::fs::read(manifests.join("csv.yaml")).unwrap(), written);
}

/// MS-CLI-06: a path that is not there is said once, in one wording, by every command that takes one.
#[test]
fn missing_paths_are_said_once() {
    for (args, exit) in [
        (&["resolve", "beacon", "--catalog", "/no/such"][..], 1),
        (&["graph", "beacon", "--catalog", "/no/such"], 1),
        (&["catalog", "lint", "/no/such"], 1),
        (&["catalog", "diff", "/no/such", "/no/such"], 1),
        (&["catalog", "build", "/no/such", "--push", "127.0.0.1:1/a"], 1),
        (&["bundle", "validate", "/no/such"], 1),
        (&["bundle", "diff", "/no/such", "/no/such"], 1),
        (&["crd", "check", "/no/such", "/no/such"], 1),
        (&["plan", "-f", "/no/such", "--kubeconfig", "/no/such"], 1),
        (&["list", "--kubeconfig", "/no/such"], 1),
        (&["apply-plan", "/no/such", "--kubeconfig", "/no/such"], 3),
    ] {
        let told = check(args, exit).stderr;
        assert_eq!(told.matches("/no/such").count(), 1, "{args:?}: {told}");
        assert!(told.starts_with("error: ") && told.ends_with("/no/such: no such file or directory\n"), "{args:?}: {told}");
    }
}
