//! `opm validate` as a curator and their scripts meet it.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::fs;
use std::path::Path;

use crate::common::{Run, mainstay};
use serde_json::{Value, json};

const GOOD: &str = "---\nschema: olm.package\nname: p\ndefaultChannel: c\n---\nschema: olm.channel\npackage: p\nname: c\nentries:\n- name: p.v1\n---\n\
                    schema: olm.bundle\npackage: p\nname: p.v1\nimage: q.io/p:v1\nproperties:\n- type: olm.package\n  value: {packageName: p, version: 1.0.0}\n";

fn catalog(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

fn validate(directory: &Path, flags: &[&str]) -> Run {
    let mut arguments = vec!["opm".as_ref(), "validate".as_ref(), directory.as_os_str()];
    arguments.extend(flags.iter().map(std::ffi::OsStr::new));
    mainstay(arguments)
}

/// CATLG-22, CATLG-05, OLM1-BUILD-07: no word about a valid catalog, unless a verdict is asked for; copies of two catalogs side by side are one.
#[test]
fn valid() {
    let other = GOOD.replace(": p\n", ": q\n").replace("p.v1", "q.v1").replace("packageName: p", "packageName: q");
    let directory =
        catalog(&[("p/index.yaml", GOOD), ("q/index.yaml", &other), ("q/.indexignore", "*.md\n"), ("q/notes.md", "no catalog")]);
    let run = validate(directory.path(), &[]);
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, "", ""));
    let run = validate(directory.path(), &["-o", "json"]);
    assert_eq!((run.code, serde_json::from_str::<Value>(&run.stdout).unwrap()), (0, json!({"passed": true})));
    assert_eq!(validate(directory.path(), &["--output", "yaml"]).stdout, "passed: true\n");
}

/// CATLG-22: the first hit in opm's words, on stderr or as a verdict; exit code 1.
#[test]
fn first_hit() {
    let directory =
        catalog(&[("a.yaml", GOOD), ("b.yaml", "schema: olm.package\nname: p\n---\nschema: olm.channel\npackage: q\nname: c\n")]);
    let run = validate(directory.path(), &[]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert!(run.stderr.ends_with("duplicate package \"p\"\n"), "{}", run.stderr);
    let run = validate(directory.path(), &["-o", "json"]);
    let expected = json!({"passed": false, "error": {"message": "duplicate package \"p\""}});
    assert_eq!((run.code, run.stderr.as_str(), serde_json::from_str::<Value>(&run.stdout).unwrap()), (1, "", expected));
    assert_eq!(validate(directory.path(), &["-o", "yaml"]).stdout, "error:\n  message: duplicate package \"p\"\npassed: false\n");
}

/// CATLG-22, OLM1-FBC-20: with --all every finding, with its place, its blob, its rule and what to do.
#[test]
fn everything() {
    let directory =
        catalog(&[("a.yaml", GOOD), ("b.yaml", "schema: olm.package\nname: p\n---\nschema: olm.channel\npackage: q\nname: c\n")]);
    let run = validate(directory.path(), &["--all"]);
    assert_eq!(run.code, 1);
    let tree =
        "invalid index:\n├── unknown package \"q\" for channel \"c\"\n└── invalid package \"p\":\n    └── duplicate package \"p\"\n\n";
    let places = "b.yaml:1: olm.package \"p\": duplicate-package: duplicate package \"p\"\n\
                  b.yaml:4: olm.channel \"c\" of package \"q\": unknown-package: unknown package \"q\" for channel \"c\"\n";
    for part in [tree, places, "hint: duplicate-package: ", "hint: unknown-package: "] {
        assert!(run.stderr.contains(part), "{part}\nis not in\n{}", run.stderr);
    }
    let run = validate(directory.path(), &["--all", "-o", "json"]);
    let verdict: Value = serde_json::from_str(&run.stdout).unwrap();
    let finding = &verdict["error"]["findings"][1];
    let told = ["file", "line", "schema", "package", "name", "rule", "requirement"].map(|key| finding[key].clone());
    assert_eq!(json!(told), json!(["b.yaml", 4, "olm.channel", "q", "c", "unknown-package", "CATLG-23"]));
    assert!(finding["fix"].as_str().is_some_and(|fix| !fix.is_empty()));
}

/// CATLG-22: what is no directory, and what cannot be loaded, is refused in the same two ways.
#[test]
fn not_to_be_loaded() {
    let directory = catalog(&[("a.json", "{\"schema\": \"olm.package\",\n \"name\": }\n")]);
    let run = validate(directory.path(), &["-o", "json"]);
    let verdict: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, &verdict["error"]["message"]), (1, &json!("a.json:2: not valid JSON: expected a value")));
    // A blob that opm cannot decode is told in its words, and the place beside them.
    let wrong = catalog(&[("a.yaml", GOOD), ("b.yaml", "schema: olm.package\nname: q\ndefaultChannel: [c]\n")]);
    let run = validate(wrong.path(), &[]);
    let (words, place) = (
        "parse package: json: cannot unmarshal array into Go struct field Package.defaultChannel of type string",
        "b.yaml:1: olm.package \"q\": field defaultChannel must be a string, found a list",
    );
    assert_eq!((run.code, run.stderr), (1, format!("Error: {words}\nhint: {place}\n")));
    let verdict: Value = serde_json::from_str(&validate(wrong.path(), &["-o", "json"]).stdout).unwrap();
    assert_eq!(verdict["error"]["message"], words);
    assert!(validate(wrong.path(), &["--all"]).stderr.contains(place));
    let file = directory.path().join("a.json");
    let run = validate(&file, &[]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.ends_with(&format!("\"{}\" is not a directory\n", file.display())), "{}", run.stderr);
    let run = validate(&directory.path().join("nowhere"), &[]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.ends_with("/nowhere: no such file or directory\n"), "{}", run.stderr);
    let run = validate(directory.path(), &["-o", "xml"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.ends_with("invalid --output value \"xml\", expected (json|yaml)\n"), "{}", run.stderr);
}
