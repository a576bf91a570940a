//! The words of OLM, and where they are used.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use crate::common::{mainstay, workspace};

/// The terms of OLM1-GEN-13.
const TERMS: [&str; 17] = [
    "bundle",
    "bundle image",
    "catalog source",
    "channel",
    "channel head",
    "ClusterServiceVersion (CSV)",
    "dependency",
    "extension",
    "index image",
    "install plan",
    "multi-tenancy",
    "Operator",
    "operator group",
    "package",
    "registry",
    "subscription",
    "update graph",
];
/// Those that only OLM classic has.
const CLASSIC: [&str; 4] = ["install plan", "operator group", "subscription", "catalog source"];

/// OLM1-GEN-13: every term has one entry in the glossary, in order, and those of OLM classic alone say so.
#[test]
fn every_term_is_explained_once() {
    let text = std::fs::read_to_string(workspace().join("docs/glossary.md")).unwrap();
    let entries: Vec<(&str, &str)> = text.lines().filter_map(|line| line.strip_prefix("- **")?.split_once("**: ")).collect();
    let names: Vec<&str> = entries.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, TERMS);
    for (name, said) in entries {
        assert!(said.len() > 40, "{name}: {said}");
        assert_eq!(said.contains("OLM classic only"), CLASSIC.contains(&name), "{name}: {said}");
    }
    assert!(text.contains("update edges") && text.contains("update paths"), "the other names of the update graph");
}

/// The help of a command, and that of all below it.
fn helps(words: &[String], into: &mut Vec<(String, String)>) {
    let run = mainstay(words.iter().map(String::as_str).chain(["--help"]));
    assert_eq!(run.code, 0, "{words:?}: {}", run.stderr);
    // The first page has groups of them.
    let groups = run.stdout.split_once("\n\n").map_or("", |(_, rest)| rest.split("\nOptions:").next().unwrap_or_default());
    let listed = run.stdout.split_once("\nCommands:\n").map_or("", |(_, rest)| rest.split("\n\n").next().unwrap_or_default());
    let commands = if words.is_empty() { groups } else { listed };
    for line in commands.lines() {
        let Some(name) = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')).and_then(|rest| rest.split(' ').next()) else {
            continue;
        };
        if name != "help" && !(words.is_empty() && ["opm", "completion"].contains(&name)) {
            helps(&[words, &[name.to_owned()]].concat(), into);
        }
    }
    into.push((words.join(" "), run.stdout));
}

/// OLM1-GEN-13: what only OLM classic has stands in the help of no command for OLM v1, and where a command serves both, the help says whose words
/// they are. `opm` is upstream's own, word for word.
#[test]
fn help_of_olm_v1_has_no_words_of_olm_classic() {
    let mut all = Vec::new();
    helps(&[], &mut all);
    for known in ["", "install", "catalog add", "bundle render", "run", "explain"] {
        assert!(all.iter().any(|(name, _)| name == known), "mainstay {known} --help was not looked at");
    }
    let classic = ["csv", "operator", "operatorgroup", "resolve"];
    let serve_both =
        ["adm", "approve", "deploy", "describe", "explain", "install", "list", "migrate", "plan", "run", "uninstall", "up", "upgrade"];
    for (command, help) in all {
        let first = command.split(' ').next().unwrap_or_default();
        // Azure has subscriptions of its own.
        if classic.contains(&first) || command == "adm credentials render" {
            continue;
        }
        // Lines are broken anywhere.
        let joined = |lines: Vec<&str>| lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        let rest = joined(help.lines().filter(|line| !line.contains("OLM classic")).collect());
        let serves_both = serve_both.contains(&first) || command == "catalog serve-address";
        let is_explained = serves_both && joined(help.lines().collect()).contains("olm classic");
        for term in CLASSIC {
            assert!(is_explained || !rest.contains(term), "mainstay {command} --help says {term}:\n{rest}");
            // The kinds themselves: where something is made that clusters with OLM classic take, too.
            let (kind, for_both) = (term.replace(' ', ""), ["catalog build", "catalog mirror"].contains(&command.as_str()));
            assert!(is_explained || for_both || !rest.contains(&kind), "mainstay {command} --help says {kind}:\n{rest}");
        }
    }
}
