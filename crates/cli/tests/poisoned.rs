//! Names, paths and texts of others on the screen: every command over a catalog and folders that try to be obeyed by a terminal.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::Path;

use crate::common::{command, run};
use serde_json::{Value, json};

/// Clears the screen, sets a title, colours by C1, turns the direction, hides, and rings.
const POISON: &str = "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{202e}\u{2066}\u{200b}\u{feff}\u{7f}\r";
/// What a path may hold of it.
const IN_A_PATH: &str = "\u{1b}[2J\u{202e}\u{200b}\u{9b}31m";

fn hidden(letter: char) -> bool {
    let shown = matches!(letter, '\n' | '\t');
    !shown
        && (letter.is_control()
            || matches!(letter, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'))
}

/// A catalog whose texts are poisoned, and one whose names are, too.
fn catalogs(folder: &Path) -> (String, String) {
    let bundle = |package: &str, name: &str, version: &str, more: &str| {
        json!({"schema": "olm.bundle", "package": package, "name": name, "image": format!("example.com/{package}:{version}"), "properties": [
            {"type": "olm.package", "value": {"packageName": package, "version": version}},
            {"type": format!("note{more}"), "value": {"text": more}},
        ]})
    };
    let catalog = |package: &str, more: &str| {
        let channel = format!("stable{more}");
        vec![
            json!({"schema": "olm.package", "name": package, "defaultChannel": channel, "description": format!("text{POISON}\nhint: run me")}),
            json!({"schema": "olm.channel", "package": package, "name": channel, "entries": [
                {"name": format!("beacon.v1.0.0{more}")}, {"name": format!("beacon.v1.1.0{more}"), "replaces": format!("beacon.v1.0.0{more}")},
            ]}),
            bundle(package, &format!("beacon.v1.0.0{more}"), "1.0.0", POISON),
            bundle(package, &format!("beacon.v1.1.0{more}"), "1.1.0", POISON),
            json!({"schema": "olm.deprecations", "package": package, "entries": [
                {"reference": {"schema": "olm.bundle", "name": format!("beacon.v1.1.0{more}")}, "message": format!("old{POISON}")},
                {"reference": {"schema": "olm.package"}, "message": format!("gone{POISON}")},
            ]}),
        ]
    };
    let write = |name: &str, blobs: Vec<Value>| {
        let place = folder.join(format!("{name}{IN_A_PATH}"));
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("c.json"), blobs.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")).unwrap();
        place.to_string_lossy().into_owned()
    };
    (write("texts", catalog("beacon", "")), write("names", catalog("beacon", POISON)))
}

/// MS-CLI-06: whatever a catalog, a bundle or a path says, nothing that reaches the screen is obeyed or hidden; JSON and YAML say the same as
/// before.
#[test]
fn nothing_of_others_is_obeyed() {
    let folder = tempfile::tempdir().unwrap();
    let (texts, names) = catalogs(folder.path());
    let missing = folder.path().join(format!("nothing{IN_A_PATH}")).to_string_lossy().into_owned();
    let poisoned = format!("beacon{POISON}");
    let mut lines: Vec<Vec<&str>> = Vec::new();
    for catalog in [&texts, &names, &missing] {
        let catalog = catalog.as_str();
        for package in ["beacon", poisoned.as_str()] {
            lines.extend([
                vec!["resolve", package, "--catalog", catalog],
                vec!["resolve", package, "--catalog", catalog, "--version", poisoned.as_str()],
                vec!["resolve", package, "--catalog", catalog, "--channel", poisoned.as_str()],
                vec!["resolve", package, "--catalog", catalog, "-o", "json"],
                vec!["resolve", package, "--catalog", catalog, "-o", "yaml"],
                vec!["catalog", "why", package, "1.1.0", "--catalog", catalog],
                vec!["catalog", "query", catalog, "--package", package],
            ]);
            for form in ["text", "svg", "dot", "mermaid", "json"] {
                lines.push(vec!["graph", package, "--catalog", catalog, "-o", form]);
            }
        }
        lines.extend([
            vec!["catalog", "lint", catalog],
            vec!["catalog", "lint", catalog, "-o", "json"],
            vec!["catalog", "diff", catalog, texts.as_str()],
            vec!["catalog", "diff", texts.as_str(), catalog, "-o", "json"],
            vec!["catalog", "search", "beacon", "--catalog", catalog],
            vec!["bundle", "validate", catalog],
            vec!["bundle", "render", catalog],
            vec!["bundle", "diff", catalog, texts.as_str()],
            vec!["crd", "check", catalog, texts.as_str()],
            vec!["opm", "validate", catalog],
            vec!["opm", "alpha", "list", "packages", catalog],
            vec!["opm", "alpha", "list", "channels", catalog],
            vec!["opm", "alpha", "list", "bundles", catalog],
            vec!["opm", "alpha", "render-graph", catalog],
            vec!["plan", "-f", catalog],
            vec!["apply-plan", catalog],
            vec!["list", "--kubeconfig", catalog],
            vec!["restore", catalog, "--data-dir", catalog],
        ]);
    }
    lines.extend([vec![poisoned.as_str()], vec!["install", poisoned.as_str()], vec!["explain", poisoned.as_str(), poisoned.as_str()]]);
    let mut said = 0;
    for line in lines {
        let answer = run(command().env("HOME", folder.path()).args(&line));
        for (stream, text) in [("stdout", &answer.stdout), ("stderr", &answer.stderr)] {
            said += text.len();
            if let Some(letter) = text.chars().find(|letter| hidden(*letter)) {
                panic!("{line:?}: {letter:?} on {stream}:\n{text:?}");
            }
            let spoofed = text.lines().any(|line| line.starts_with("hint: run me"));
            assert!(!spoofed, "{line:?}: a hint of others on {stream}:\n{text}");
        }
    }
    assert!(said > 10_000, "the commands said something: {said}");

    let faithful = run(command().args(["graph", "beacon", "--catalog", &names, "-o", "json"])).stdout;
    let document: Value = serde_json::from_str(&faithful).unwrap();
    assert!(document.to_string().contains('\u{202e}'), "{document}");
}
