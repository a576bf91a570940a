//! Golden runs of what curators ask of catalogs: diff, lint, filter, search, why, compose, ci.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::{Path, PathBuf};

use crate::common::{self, Run, command, run};
use mainstay_oci::registry::Registry;
use serde_json::Value;
use snapbox::{assert_data_eq, str};

/// Two packages: `pump` with a chain and a range, which needs `valve`.
const CATALOG: &str = r#"---
schema: olm.package
name: pump
defaultChannel: stable
---
schema: olm.channel
package: pump
name: stable
entries:
- name: pump.v1.0.0
- {name: pump.v1.1.0, replaces: pump.v1.0.0, skipRange: ">=0.9.0 <1.0.0"}
- {name: pump.v2.0.0, replaces: pump.v1.1.0}
---
schema: olm.channel
package: pump
name: candidate
entries: [{name: pump.v2.0.0}]
---
schema: olm.bundle
package: pump
name: pump.v1.0.0
image: registry.example/pump@sha256:1111111111111111111111111111111111111111111111111111111111111111
properties: [{type: olm.package, value: {packageName: pump, version: 1.0.0}}]
---
schema: olm.bundle
package: pump
name: pump.v1.1.0
image: registry.example/pump@sha256:2222222222222222222222222222222222222222222222222222222222222222
properties: [{type: olm.package, value: {packageName: pump, version: 1.1.0}}]
---
schema: olm.bundle
package: pump
name: pump.v2.0.0
image: registry.example/pump:v2.0.0
properties:
- {type: olm.package, value: {packageName: pump, version: 2.0.0}}
- {type: olm.gvk, value: {group: pump.example, version: v1, kind: WaterPump}}
- {type: olm.package.required, value: {packageName: valve, versionRange: ">=1.0.0"}}
---
schema: olm.package
name: valve
defaultChannel: stable
---
schema: olm.channel
package: valve
name: stable
entries: [{name: valve.v1.0.0}]
---
schema: olm.bundle
package: valve
name: valve.v1.0.0
image: registry.example/valve@sha256:3333333333333333333333333333333333333333333333333333333333333333
properties: [{type: olm.package, value: {packageName: valve, version: 1.0.0}}]
"#;

struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        desk.write("old/index.yaml", CATALOG);
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Another catalog: the first one with parts of its text replaced.
    fn changed(&self, name: &str, changes: &[(&str, &str)]) {
        let mut text = CATALOG.to_owned();
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        self.write(&format!("{name}/index.yaml"), &text);
    }

    fn run(&self, args: &[&str], code: i32) -> Run {
        let run = run(command().current_dir(self.0.path()).arg("catalog").args(args));
        assert_eq!(run.code, code, "{args:?}\n{}\n{}", run.stdout, run.stderr);
        run
    }

    fn json(&self, args: &[&str], code: i32) -> Value {
        serde_json::from_str(&self.run(&[args, &["-o", "json"]].concat(), code).stdout).unwrap()
    }
}

/// CATLG-34, CATLG-67: what changed and whom it strands, and when that fails a pipeline.
#[test]
fn diff() {
    let desk = Desk::new();
    desk.changed(
        "new",
        &[("- name: pump.v1.0.0\n", ""), ("replaces: pump.v1.0.0, ", ""), ("registry.example/pump:v2.0.0", "registry.example/pump:v2")],
    );
    let told = desk.run(&["diff", "old", "new"], 0);
    assert_data_eq!(
        told.stdout,
        str![[r"
~ package pump
  ~ channel stable
    - pump.v1.0.0
    ~ pump.v1.1.0  (replaces pump.v1.0.0 -> none)
  ~ bundle pump.v2.0.0
    ~ image registry.example/pump:v2.0.0 -> registry.example/pump:v2
error: stranded: package pump, channel stable, bundle pump.v1.0.0: is no longer in the channel, and no entry on the way to the head pump.v2.0.0 updates it
hint: let an entry on the way to the head replace or skip pump.v1.0.0
error: bundle-changed: package pump, bundle pump.v2.0.0: was published already, and has changed: image registry.example/pump:v2 was registry.example/pump:v2.0.0
hint: publish a new bundle with an update edge from this one, and leave this one as it was

"]]
    );
    for (criteria, code) in [("stranded", 4), ("bundle-changed", 4), ("any", 4), ("error", 4), ("package-removed,head-back", 0)] {
        desk.run(&["diff", "old", "new", "--fail-on", criteria], code);
    }
    assert_eq!(desk.json(&["diff", "old", "new"], 0)["findings"][0]["rule"], "stranded");
    assert_eq!(desk.run(&["diff", "old", "old", "--fail-on", "any"], 0).stdout, "The catalogs say the same.\n");
    assert_eq!(desk.run(&["diff", "old", "new", "--package", "valve"], 0).stdout, "The catalogs say the same.\n");
    desk.run(&["diff", "old", "new", "--fail-on", "nonsense"], 2);
    desk.run(&["diff", "old", "absent.yaml"], 1);
}

/// CATLG-33, CATLG-69: findings with file and line, by level, and their rules explained.
#[test]
fn lint() {
    let desk = Desk::new();
    let told = desk.run(&["lint", "old", "--skip", "metadata-missing", "--skip", "related-images-missing"], 0);
    assert_data_eq!(
        told.stdout,
        str![[r"
old/index.yaml:31: warning: image-by-tag: package pump, bundle pump.v2.0.0: image registry.example/pump:v2.0.0 has no digest
hint: refer to bundle images by digest (NAME@sha256:...)
0 errors, 1 warning, 3 infos (more with --show info)

"]]
    );
    desk.run(&["lint", "old", "--rule", "image-by-tag", "--level", "warning"], 4);
    desk.run(&["lint", "old", "--rule", "image-by-tag", "--level", "warning", "--package", "valve"], 0);
    desk.changed("broken", &[("replaces: pump.v1.1.0", "replaces: pump.v1.9.0")]);
    let found = desk.json(&["lint", "broken"], 4);
    assert_eq!((&found["errors"], &found["findings"][0]["rule"]), (&Value::from(1), &Value::from("multiple-heads")));
    assert_eq!(found["findings"][0]["line"], 6);
    let rules = desk.run(&["lint", "--list-rules"], 0).stdout;
    assert!(rules.contains("skip-range-newer"), "{rules}");
    assert!(desk.run(&["lint", "--explain", "stranded"], 0).stdout.contains("hint: "));
    desk.run(&["lint", "--explain", "nonsense"], 2);
    desk.run(&["lint"], 2);
    desk.run(&["lint", "absent.yaml"], 1);
}

/// CATLG-32, CATLG-33: blobs beside the bundle directories that they were rendered from.
#[test]
fn lint_compares_bundles() {
    let Some(bundles) = common::unpacked("bundles.tar.gz") else { return };
    let desk = Desk::new();
    let directory = bundles.path().join("bundles/etcd/0.9.4");
    assert!(directory.is_dir(), "{}", directory.display());
    let rendered = run(command().args(["opm", "render", "-o", "json"]).arg(&directory));
    assert_eq!(rendered.code, 0, "{}", rendered.stderr);
    let package = "{\"schema\": \"olm.package\", \"name\": \"etcd\", \"defaultChannel\": \"c\"}\n";
    let channel =
        "{\"schema\": \"olm.channel\", \"package\": \"etcd\", \"name\": \"c\", \"entries\": [{\"name\": \"etcdoperator.v0.9.4\"}]}\n";
    let image = rendered.stdout.replacen("\"image\": \"\"", "\"image\": \"registry.example/etcd:v1\"", 1);
    let compare = |text: String| {
        desk.write("etcd/index.json", &format!("{package}{channel}{text}"));
        let arguments = ["lint", "etcd", "--rule", "bundle-mismatch", "--bundles", bundles.path().to_str().unwrap()];
        let run = run(command().current_dir(desk.0.path()).arg("catalog").args(arguments));
        assert!(run.stderr.ends_with("1 of 1 bundle were compared with their directories\n"), "{}", run.stderr);
        run.code
    };
    assert_eq!(compare(image.clone()), 0);
    assert_eq!(compare(image.replacen("EtcdBackup", "EtcdBackupp", 1)), 4);
}

/// CATLG-35, OLM1-BUILD-08: a smaller catalog, on stdout and as a tree, valid as it is.
#[test]
fn filter() {
    let desk = Desk::new();
    let small = desk.run(&["filter", "old", "--package", "pump:stable@1.0.0 || 2.0.0", "-o", "json"], 0);
    assert!(
        small.stderr.contains("warning: package pump: channel stable keeps pump.v1.1.0 too, because updates lead over them"),
        "{}",
        small.stderr
    );
    assert!(small.stderr.contains("needs package valve \">=1.0.0\", which is not selected"), "{}", small.stderr);
    let done = desk.run(&["filter", "old", "-p", "pump@>=2.0.0", "--with-dependencies", "--keep-path-from", "0.9.5", "--out", "small"], 0);
    assert_eq!(done.stdout, "small: 2 packages, 3 bundles\n");
    assert!(desk.path("small/valve/catalog.yaml").is_file());
    assert_eq!(run(command().args(["opm", "validate"]).arg(desk.path("small"))).code, 0);
    desk.run(&["filter", "old", "-p", "pump", "--out", "small"], 1);
    desk.write("selection.yaml", "packages:\n- {name: pump, channels: [{name: candidate}]}\n");
    let chosen = desk.run(&["filter", "old", "--config", "selection.yaml"], 0);
    assert!(chosen.stdout.contains("defaultChannel: candidate") && !chosen.stdout.contains("pump.v1.0.0"), "{}", chosen.stdout);
    for (selection, code) in [("pumb", 3), ("pump:fast", 3), ("pump@>9.0.0", 4), ("pump@what", 2)] {
        desk.run(&["filter", "old", "-p", selection], code);
    }
    desk.run(&["filter", "old", "-p", "pump@1.0.0 || 2.0.0", "--exact"], 4);
    desk.run(&["filter", "old", "-p", "pump@2.0.0", "--keep-path-from", "0.1.0"], 4);
    desk.run(&["filter", "old", "-p", "pump", "--keep-path-from", "valve=1.0.0"], 2);
    desk.run(&["filter", "old"], 2);
}

/// CATLG-35, OLM1-BUILD-09: every package of a large catalog, from its middle version on, is a valid catalog of its own.
#[test]
fn filter_of_published_packages() {
    let Some(bytes) = mainstay_testing::data::bytes("catalog-60.json.gz") else { return };
    let desk = Desk::new();
    std::fs::write(desk.path("all.json"), &bytes).unwrap();
    let found = desk.json(&["search", "--catalog", "./all.json"], 0);
    let names: Vec<&str> = found.as_array().unwrap().iter().map(|found| found["package"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 60);
    let mut arguments = vec!["filter", "all.json", "--out", "small"];
    let selections: Vec<String> = names.iter().map(|name| format!("{name}@>=0.3.0 !1.1.0")).collect();
    for selection in &selections {
        arguments.extend(["-p", selection]);
    }
    let refused = desk.run(&arguments, 4);
    assert!(refused.stderr.contains("no bundle of it is selected; the versions are"), "{}", refused.stderr);
    arguments.truncate(4);
    for name in names {
        arguments.extend(["-p", name]);
    }
    assert_eq!(desk.run(&arguments, 0).stdout, "small: 60 packages, 707 bundles\n");
    assert_eq!(desk.run(&["diff", "all.json", "small"], 0).stdout, "The catalogs say the same.\n");
}

/// MS-CLI-05: packages are found by what they provide, without a cluster.
#[test]
fn search() {
    let desk = Desk::new();
    assert_data_eq!(
        desk.run(&["search", "waterpump", "--catalog", "./old"], 0).stdout,
        str![[r"
PACKAGE   VERSION   DEFAULT CHANNEL   CATALOG   DISPLAY NAME   MATCHED
pump      2.0.0     stable            ./old     -              kind WaterPump

"]]
    );
    assert_eq!(desk.json(&["search", "", "--catalog", "./old"], 0).as_array().unwrap().len(), 2);
    desk.run(&["search", "nothing", "--catalog", "./old"], 3);
    desk.run(&["search", "pump", "--catalog", "./old", "--catalog", "team"], 2);
}

/// OLM1-QUERY-02, OLM1-QUERY-03, OLM1-QUERY-04: questions about content, with one compact object a line.
#[test]
fn query() {
    let desk = Desk::new();
    assert_data_eq!(
        desk.run(&["query", "old", "--schema", "olm.bundle", "--package", "valve", "--fields", "name,image", "-o", "json"], 0).stdout,
        str![[r#"
{"name":"valve.v1.0.0","image":"registry.example/valve@sha256:3333333333333333333333333333333333333333333333333333333333333333"}

"#]]
    );
    assert_data_eq!(
        desk.run(&["query", "old", "--schema", "olm.channel"], 0).stdout,
        str![[r"
SCHEMA        PACKAGE   NAME
olm.channel   pump      stable
olm.channel   pump      candidate
olm.channel   valve     stable

"]]
    );
    let Some(bytes) = mainstay_testing::data::bytes("catalog-60.json.gz") else { return };
    std::fs::write(desk.path("all.json"), &bytes).unwrap();
    let told = desk.run(&["query", "all.json", "--install-mode", "AllNamespaces", "--without-webhooks", "-o", "json"], 0).stdout;
    let packages: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(packages.len() > 20 && packages.iter().all(|package| package["webhooks"] == "unknown"), "{told}");
}

/// OLM1-QUERY-02: ways, and why there is none.
#[test]
fn why() {
    let desk = Desk::new();
    assert_data_eq!(
        desk.run(&["why", "pump", "0.9.5", "2.0.0", "-c", "old"], 0).stdout,
        str![[r#"
channel stable: 0.9.5 to pump.v2.0.0 in 2 updates
  pump.v1.1.0   updates versions ">=0.9.0 <1.0.0"
  pump.v2.0.0   replaces pump.v1.1.0

"#]]
    );
    assert_data_eq!(
        desk.run(&["why", "pump", "1.1.0", "-c", "old", "--channel", "candidate"], 4).stdout,
        str![[r"
channel candidate: no way from pump.v1.1.0 to pump.v2.0.0
  because pump.v2.0.0 replaces nothing
  because pump.v2.0.0 has no skipRange
  because no entry of the channel updates pump.v1.1.0, which is not in the channel
hint: channel stable leads from pump.v1.1.0 to pump.v2.0.0

"]]
    );
    assert_eq!(desk.json(&["why", "pump", "1.0.0", "1.1.0", "-c", "old"], 0)["channels"][0]["path"][0]["edge"]["kind"], "replaces");
    for arguments in [&["why", "pomp", "1.0.0", "-c", "old"][..], &["why", "pump", "pump.v1.0.O", "-c", "old"]] {
        let told = desk.run(arguments, 3).stderr;
        assert!(told.contains("hint: there is a "), "{told}");
    }
}

fn files(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut todo = vec![root.to_owned()];
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { todo.push(path) } else { found.push(path.strip_prefix(root).unwrap().display().to_string()) }
        }
    }
    found.sort();
    found
}

/// CATLG-66, CATLG-05, OLM1-FBC-16: a catalog of several, whole or not at all.
#[test]
fn compose() {
    let desk = Desk::new();
    desk.run(&["filter", "old", "-p", "valve", "--out", "valve"], 0);
    desk.run(&["filter", "old", "-p", "pump", "--out", "pump"], 0);
    desk.write(
        "team.yaml",
        "name: team\nrepo: registry.example/team\nreferences:\n- {name: a, image: ./pump}\n- {name: b, image: ./valve}\n",
    );
    assert_eq!(desk.run(&["compose", "team.yaml", "--out", "made"], 0).stdout, "made/team\n");
    assert_eq!(files(&desk.path("made")), ["team.Dockerfile", "team/a/index.yaml", "team/b/index.yaml"]);
    assert_eq!(desk.run(&["diff", "old", "made/team"], 0).stdout, "The catalogs say the same.\n");
    let again = desk.run(&["compose", "team.yaml", "--out", "made"], 1);
    assert!(again.stderr.contains("hint: --replace writes over it"), "{}", again.stderr);
    desk.run(&["compose", "team.yaml", "--out", "made", "--replace", "-o", "json"], 0);
    assert_eq!(files(&desk.path("made")), ["team.Dockerfile", "team/a/index.json", "team/b/index.json"]);
    // What somebody put there is not removed.
    desk.write("made/team/README.md", "mine");
    desk.run(&["compose", "team.yaml", "--out", "made", "--replace"], 1);
    assert!(desk.path("made/team/README.md").is_file());
    // Each problem once, with everybody who has it.
    desk.write("bad.yaml", "name: bad\nreferences:\n- {name: a, image: ./no}\n- {name: b, image: ./no}\n- {name: c, image: ./old}\n");
    let told = desk.run(&["compose", "bad.yaml"], 1).stderr;
    assert_eq!(told.matches("./no").count(), 1, "{told}");
    assert!(told.contains("reference a, b: "), "{told}");
    desk.write("twice.yaml", "name: twice\nreferences:\n- {name: a, image: ./old}\n- {name: b, image: ./valve}\n");
    let told = desk.run(&["compose", "twice.yaml"], 1).stderr;
    assert!(told.contains("package valve is in references a and b"), "{told}");
    assert!(!desk.path("twice").exists());
    desk.write("team.yaml", "name: team\nreferences:\n- {name: a, image: ./pump}\n");
    let told = desk.run(&["compose", "team.yaml", "--push"], 1).stderr;
    assert!(told.contains("repo is missing"), "{told}");
}

/// CATLG-69, OLM1-FBC-18: the checks of a change, for people and for machines.
#[test]
fn ci() {
    let desk = Desk::new();
    desk.changed("new", &[("registry.example/pump@sha256:1", "registry.example/pomp@sha256:1")]);
    assert_data_eq!(
        desk.run(&["ci", "old", "new", "--allow-package", "valve"], 4).stdout,
        str![[r"
1 package changed: pump
packages   1 problem
  package pump: has changed, and is not among the packages that may change
  hint: take the change back, or ask the owner of pump
valid      passed
immutable  1 problem
  package pump, bundle pump.v1.0.0: was published already, and has changed: image registry.example/pomp@sha256:1111111111111111111111111111111111111111111111111111111111111111 was registry.example/pump@sha256:1111111111111111111111111111111111111111111111111111111111111111
  hint: publish a new bundle with an update edge from this one, and leave this one as it was
updates    passed
lint       passed

"]]
    );
    let report = desk.json(&["ci", "old", "new", "--allow-package", "pump"], 4);
    assert_eq!((&report["passed"], &report["checks"][0]["passed"]), (&Value::from(false), &Value::from(true)));
    desk.run(&["ci", "old", "old"], 0);
    desk.run(&["ci", "old", "absent.yaml"], 1);
}

/// CATLG-51, CATLG-66, CATLG-69: catalogs and bundles are compared with, composed from and pushed to a registry.
#[test]
fn against_a_registry() {
    let desk = Desk::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let host = listener.local_addr().unwrap().to_string();
    runtime.spawn(Registry::in_memory().serve(listener, std::future::pending()));
    let own = |args: &[&str]| {
        let run = run(command().args(args));
        assert_eq!(run.code, 0, "{args:?}\n{}", run.stderr);
        run.stdout.trim_end().to_owned()
    };
    let bundle = own(&["bundle", "build", "examples/bundles/beacon/1.0.0", "--push", &format!("{host}/beacon:v1")]);
    let rendered = own(&["opm", "render", &bundle, "-o", "json"]);
    let head = "{\"schema\": \"olm.package\", \"name\": \"beacon\", \"defaultChannel\": \"c\"}\n\
        {\"schema\": \"olm.channel\", \"package\": \"beacon\", \"name\": \"c\", \"entries\": [{\"name\": \"beacon.v1.0.0\"}]}\n";
    desk.write("beacon/index.json", &format!("{head}{rendered}"));
    let checked = ["--check-images", "--rule", "bundle-mismatch", "--rule", "bundle-unread"];
    desk.run(&[&["lint", "beacon"], &checked[..]].concat(), 0);
    desk.write("changed/index.json", &format!("{head}{}", rendered.replacen("\"kind\": \"Beacon\"", "\"kind\": \"Bacon\"", 1)));
    let told = desk.run(&[&["lint", "changed"], &checked[..]].concat(), 4).stdout;
    assert!(told.contains("bundle-mismatch: package beacon, bundle beacon.v1.0.0: "), "{told}");
    desk.write("gone/index.json", &format!("{head}{}", rendered.replace("/beacon@", "/bacon@")));
    let told = desk.run(&[&["lint", "gone"], &checked[..]].concat(), 4).stdout;
    assert!(told.contains("bundle-unread: "), "{told}");

    let published = own(&["catalog", "build", "examples/catalog", "--push", &format!("{host}/examples:v1")]);
    let passed = desk.json(&["ci", &published, "beacon", "--check-images"], 4);
    assert_eq!(passed["checks"][4], serde_json::json!({"check": "images", "passed": true, "problems": []}));
    let failed = desk.json(&["ci", &published, "gone", "--check-images"], 4);
    assert_eq!(failed["checks"][4]["problems"][0]["bundle"], "beacon.v1.0.0");

    desk.run(&["filter", "old", "-p", "valve", "--out", "valve"], 0);
    desk.write(
        "team.yaml",
        &format!("name: team\nrepo: {host}/team/catalog\ntag: v1\nreferences:\n- {{name: a, image: '{published}'}}\n- {{name: b, image: ./valve}}\n"),
    );
    let pushed = desk.run(&["compose", "team.yaml", "--push"], 0).stdout;
    assert!(pushed.starts_with(&format!("{host}/team/catalog@sha256:")), "{pushed}");
    assert_eq!(desk.run(&["diff", pushed.trim_end(), "team", "--fail-on", "any"], 0).stdout, "The catalogs say the same.\n");
}
