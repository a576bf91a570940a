//! `mainstay graph` and `opm alpha render-graph`, offline.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use crate::common::{Run, mainstay};
use serde_json::{Value, json};
use snapbox::{assert_data_eq, str};

const CATALOG: &str = "examples/catalog";

fn check(args: &[&str], code: i32) -> Run {
    let run = mainstay(args);
    assert_eq!(run.code, code, "{args:?}\n{}\n{}", run.stdout, run.stderr);
    run
}

/// MS-EXPL-03, OLM1-QUERY-02: the channels as rows, with the ways from a version.
#[test]
fn rows() {
    let drawn = check(&["graph", "beacon", "--catalog", CATALOG, "--from", "1.0.1", "--ascii"], 0);
    assert_data_eq!(
        drawn.stdout,
        str![[r"
Updates of beacon
From beacon.v1.0.1: 1 in one step, 3 reachable in all

channel stable (default)
4 bundles, newest 1.2.0
way to the head: 1.0.1 -> 1.1.0 -> 1.2.0
 *   1.2.0  beacon.v1.2.0  head  reachable
 *<. 1.1.0  beacon.v1.1.0  next
 @ ! 1.0.1  beacon.v1.0.1  start
 o-' 1.0.0  beacon.v1.0.0  deprecated  beacon 1.0.0 announces each message twice; update to 1.0.1 or newer

channel candidate
3 bundles, newest 1.3.0
way to the head: 1.0.1 -> 1.1.0 -> 1.3.0
 *--<. 1.3.0  beacon.v1.3.0  head  reachable  from >=1.1.0 <1.3.0
 *---+ 1.2.0  beacon.v1.2.0  reachable
 *<.-' 1.1.0  beacon.v1.1.0  next
 @ !   1.0.1  beacon.v1.0.1  start  not in this channel
   !
 .-'   1.0.0  beacon.v1.0.0  deprecated  not in this channel  beacon 1.0.0 announces each message twice; update to 1.0.1 or newer

| replaces   ! skips   : skipRange   < enters here; lines lead up   rows without a gap: the upper replaces the lower

"]]
    );
    let one = check(&["graph", "beacon", "--catalog", CATALOG, "--channel", "stable"], 0);
    assert!(one.stdout.contains("channel stable (default)") && !one.stdout.contains("channel candidate"), "{}", one.stdout);
    assert!(!one.stdout.contains('\u{1b}'), "colours in a pipe: {}", one.stdout);
}

/// MS-EXPL-03: pictures and documents; the ending of the file says which.
#[test]
fn forms() {
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name);
    for (file, begins) in [
        ("a.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\""),
        ("a.dot", "digraph \"Updates of beacon\" {"),
        ("a.mmd", "flowchart BT\n"),
        ("a.txt", "Updates of beacon\n"),
    ] {
        let path = out(file);
        let run = check(&["graph", "beacon", "--catalog", CATALOG, "--out", path.to_str().unwrap()], 0);
        assert_eq!(run.stdout, "");
        assert!(std::fs::read_to_string(path).unwrap().starts_with(begins), "{file}");
    }
    let drawn = check(&["graph", "beacon", "--catalog", CATALOG, "--from", "beacon.v1.0.1", "-o", "json"], 0);
    let drawn: Value = serde_json::from_str(&drawn.stdout).unwrap();
    assert_eq!(drawn["kinds"], json!(["replaces", "skips", "skipRange"]));
    let stable = &drawn["panels"][0];
    assert_eq!(stable["nodes"][0]["id"], "beacon.v1.0.0");
    assert_eq!(stable["nodes"][0]["marks"], json!(["deprecated"]));
    assert_eq!(stable["nodes"][1]["marks"], json!(["start"]));
    let edges = stable["edges"].as_array().unwrap();
    assert!(edges.contains(&json!({"from": "beacon.v1.0.0", "to": "beacon.v1.1.0", "kind": "skips"})), "{edges:?}");
    check(&["graph", "beacon", "--catalog", CATALOG, "--out", out("no/such/folder.svg").to_str().unwrap()], 1);
}

/// MS-EXPL-03: two catalogs that have the package are drawn beside each other.
#[test]
fn two_catalogs() {
    let drawn = check(&["graph", "beacon", "--catalog", CATALOG, "--catalog", CATALOG, "--channel", "stable"], 0).stdout;
    let asked = check(&["graph", "beacon", "--catalog", CATALOG, "--catalog", CATALOG, "--from", "1.2.0"], 0).stdout;
    assert!(asked.contains("\nIn catalog catalog-2: From beacon.v1.2.0: 1 in one step"), "{asked}");
    assert!(drawn.contains("channel stable (default) in catalog catalog\n"), "{drawn}");
    assert!(drawn.contains("channel stable (default) in catalog catalog-2\n"), "{drawn}");
}

/// MS-CLI-06, MS-CLI-07: names that are not there exit 3 and are told the nearest.
#[test]
fn names_that_are_not_there() {
    for (args, message) in [
        (&["becon"][..], "error: package becon: no catalog has it\nhint: did you mean beacon?\n"),
        (&["beacon", "--channel", "stabel"], "error: channel stabel: package beacon does not have it\nhint: did you mean stable?\n"),
        (
            &["beacon", "--from", "beacon.v1.1"],
            "error: bundle beacon.v1.1: no catalog has it, and it is no version\nhint: did you mean beacon.v1.1.0?\n",
        ),
    ] {
        let run = check(&[&["graph"], args, &["--catalog", CATALOG]].concat(), 3);
        assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("", message));
    }
    check(&["graph", "beacon", "--catalog", "no/such/directory"], 1);
    check(&["graph"], 2);
    // A version that no catalog has may still lie in a range.
    assert!(check(&["graph", "beacon", "--catalog", CATALOG, "--from", "1.1.7"], 0).stdout.contains("From 1.1.7: 1 in one step"));
}

/// CATLG-49: the drawing on stdout, flags, and what is refused.
#[test]
fn render_graph() {
    let whole = check(&["opm", "alpha", "render-graph", CATALOG], 0).stdout;
    assert!(whole.starts_with("graph LR\n  classDef deprecated fill:#E8960F\n"), "{whole}");
    assert!(
        whole.contains(
            "      beacon-stable-beacon.v1.0.1[\"beacon.v1.0.1\"]-- replace --> beacon-stable-beacon.v1.1.0[\"beacon.v1.1.0\"]\n"
        ),
        "{whole}"
    );
    let part =
        check(&["opm", "alpha", "render-graph", "-p", "beacon", "--minimum-edge", "beacon.v1.1.0", "--draw-v0-semantics", CATALOG], 0)
            .stdout;
    assert!(part.contains("beacon.v1.2.0") && !part.contains("beacon.v1.0.1") && !part.contains("lantern"), "{part}");
    let refused = check(&["opm", "alpha", "render-graph", CATALOG, "--minimum-edge", "beacon.v7"], 1);
    assert!(refused.stderr.contains("unknown minimum edge name: \"beacon.v7\""), "{}", refused.stderr);
    check(&["opm", "alpha", "render-graph"], 1);
}
