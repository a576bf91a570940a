//! Small universes as text files, and what is chosen in them or why nothing is.
//!
//! A file begins with what its universes share. Each universe begins with `== what it shows`, and the answer follows after `--`.
//! `UPDATE_UNIVERSES=1` writes the answers that were found; read them before you believe them.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::fmt::Write;
use std::path::PathBuf;

use crate::language::World;
use mainstay_resolver::joint::{Component, solve};
use mainstay_resolver::{RefusalKind, resolve, why_not_newer};

/// What is chosen, added, refused and hinted at, one a line.
fn answer(world: &World) -> String {
    let catalogs = world.candidates();
    let problem = world.problem(&catalogs);
    let components = solve(&problem);
    if let [root] = problem.roots {
        agrees_with_resolve(&resolve(&root.request, &catalogs), &components[0]);
    }
    let mut text = String::new();
    for component in &components {
        if component.subjects.len() > 1 {
            writeln!(text, "together: {}", component.subjects.join(", ")).unwrap();
        }
        match &component.outcome {
            Ok(solution) => {
                for added in &solution.added {
                    writeln!(text, "+ {}, because {}", added.choice, added.because.join("; ")).unwrap();
                }
                for (subject, resolution) in &solution.chosen {
                    let edge = resolution.edge.as_ref().map_or(String::new(), |edge| format!(", {edge}"));
                    writeln!(text, "{subject}: {}{}{edge}", resolution.choice, if resolution.stays { ", stays" } else { "" }).unwrap();
                    for reason in resolution.reasons.iter().filter(|reason| reason.contains("held back")) {
                        writeln!(text, "  {reason}").unwrap();
                    }
                    for (what, message) in [("package", &resolution.deprecations.package), ("bundle", &resolution.deprecations.bundle)] {
                        if let Some(message) = message {
                            writeln!(text, "  deprecated {what}: {message}").unwrap();
                        }
                    }
                    for (channel, message) in &resolution.deprecations.channels {
                        writeln!(text, "  deprecated channel {channel}: {message}").unwrap();
                    }
                }
            }
            Err(conflict) => {
                writeln!(text, "{}: no: {conflict}", component.subjects.join(", ")).unwrap();
                for hint in &conflict.hints {
                    writeln!(text, "  hint: {hint}").unwrap();
                }
            }
        }
    }
    for at in &world.why {
        for obstacle in why_not_newer(&world.roots[*at].request, &catalogs) {
            let newer = obstacle.newer.map_or("catalog".to_owned(), |choice| choice.to_string());
            let changes: Vec<String> = obstacle.changes.iter().map(ToString::to_string).collect();
            writeln!(text, "why not {newer}: {:?}: {}", obstacle.kind, obstacle.text).unwrap();
            if !changes.is_empty() {
                writeln!(text, "  change: {}", changes.join(" and ")).unwrap();
            }
            if !obstacle.path.is_empty() {
                writeln!(text, "  path: {}", obstacle.path.join(" -> ")).unwrap();
            }
        }
    }
    text
}

/// One root alone is answered as `resolve` answers it, unless something is needed.
fn agrees_with_resolve(alone: &Result<mainstay_resolver::Resolution, Box<mainstay_resolver::Refusal>>, component: &Component) {
    match (alone, &component.outcome) {
        (Ok(resolution), Ok(solution)) => {
            assert_eq!(solution.chosen.values().collect::<Vec<_>>(), [resolution]);
            assert!(solution.added.is_empty());
        }
        (Err(refusal), outcome) if !matches!(refusal.kind, RefusalKind::UnsupportedDependency { .. }) => {
            assert_eq!(outcome.as_ref().unwrap_err().to_string(), refusal.to_string());
        }
        (Ok(resolution), Err(conflict)) => panic!("{} alone, but together {conflict}", resolution.choice),
        (Err(_), _) => {}
    }
}

fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/universes").join(file)
}

fn text(file: &str) -> String {
    std::fs::read_to_string(path(file)).unwrap()
}

/// Reads the universes of one file and checks each.
fn check(file: &str) {
    let text = text(file);
    let mut parts = text.split("\n== ");
    let shared = parts.next().unwrap();
    let mut written = shared.to_owned();
    let mut wrong = Vec::new();
    let mut count = 0;
    for part in parts {
        count += 1;
        let (title, body) = part.split_once('\n').unwrap();
        let (universe, expected) = body.split_once("\n--\n").unwrap_or((body.trim_end(), ""));
        let found = answer(&World::read(&format!("{shared}\n{universe}")));
        if found.trim_end() != expected.trim_end() {
            wrong.push(format!("{file}: {title}\n  expected\n{expected}\n  found\n{found}"));
        }
        write!(written, "\n== {title}\n{}\n--\n{}", universe.trim_end(), found).unwrap();
    }
    if std::env::var_os("UPDATE_UNIVERSES").is_some() {
        std::fs::write(path(file), written).unwrap();
    } else {
        assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
    }
}

/// There are at least 150 universes, and no file is forgotten.
#[test]
fn all_files_are_asked() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/universes");
    let mut files: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    let mut listed: Vec<&str> = FILES.to_vec();
    listed.sort_unstable();
    assert_eq!(files, listed);
    let count: usize = files.iter().map(|file| text(file).matches("\n== ").count()).sum();
    assert!(count >= 150, "{count} universes");
}

const FILES: [&str; 18] = [
    "conflicts.txt",
    "inst-04-apis.txt",
    "inst-04-constraints.txt",
    "inst-04-package.txt",
    "inst-04-without-adding.txt",
    "inst-04-pitfalls.txt",
    "sel-02-candidates.txt",
    "sel-03-selectors.txt",
    "sel-06-order.txt",
    "together-updates.txt",
    "upg-01-targets.txt",
    "upg-05-successors.txt",
    "upg-06-differences.txt",
    "upg-09-ranges.txt",
    "upg-10-edge-cases.txt",
    "upg-10-order.txt",
    "upg-11-forced.txt",
    "why-not-newer.txt",
];

/// MS-EXPL-01, MS-EXPL-05: a least set of facts, verified hints, and neighbours that go on.
#[test]
fn conflicts() {
    check("conflicts.txt");
}

/// OLM0-RES-07, OLM0-RES-19, OLM1-OWN-02: APIs are needed, and provided once.
#[test]
fn apis_that_are_needed() {
    check("inst-04-apis.txt");
}

/// OLM0-RES-09, OLM0-RES-10, OLM0-RES-11, OLM0-RES-12, OLM0-RES-14: package, gvk, CEL, all, any, not.
#[test]
fn constraints() {
    check("inst-04-constraints.txt");
}

/// OLM0-RES-07, OLM0-RES-08, OLM0-RES-16: packages in ranges are added, dependencies first.
#[test]
fn packages_that_are_needed() {
    check("inst-04-package.txt");
}

/// MS-EXPL-01: what is missing is named, with a hint that was solved.
#[test]
fn nothing_may_be_added() {
    check("inst-04-without-adding.txt");
}

/// OLM0-RES-11, OLM0-RES-19, OLM1-SEL-07, OLM1-SEL-11, OLM1-UPG-11, MS-EXPL-05: ties, what no catalog has any more, one package twice,
/// pre-releases, nested constraints, and upgrades that take an API away from somebody.
#[test]
fn pitfalls() {
    check("inst-04-pitfalls.txt");
}

/// OLM1-SEL-02, OLM1-SEL-11: catalogs that are off, down, or two of one priority.
#[test]
fn candidate_catalogs() {
    check("sel-02-candidates.txt");
}

/// OLM1-SEL-03, OLM1-SEL-04, OLM1-SEL-05: by name, by label, exclusion.
#[test]
fn selectors() {
    check("sel-03-selectors.txt");
}

/// OLM1-SEL-01, OLM1-SEL-06, OLM1-SEL-07, OLM1-SEL-08, OLM1-SEL-09: deprecation before priority before version; ties are refused.
#[test]
fn order_across_catalogs() {
    check("sel-06-order.txt");
}

/// OLM0-RES-02, OLM0-RES-26, OLM0-RES-27: what needs each other moves together, or not at all.
#[test]
fn updates_together() {
    check("together-updates.txt");
}

/// OLM1-UPG-01, OLM1-UPG-04: channels, pins, ranges, and what does not exist.
#[test]
fn targets() {
    check("upg-01-targets.txt");
}

/// OLM1-UPG-05, OLM1-UPG-07: replaces, skips, skipRange; one step; staying is filtered too.
#[test]
fn successors() {
    check("upg-05-successors.txt");
}

/// OLM1-UPG-06: the highest successor, entries that are skipped themselves included.
#[test]
fn skipped_entries_are_targets() {
    check("upg-06-differences.txt");
}

/// OLM1-UPG-09: wildcards, tilde and caret.
#[test]
fn ranges() {
    check("upg-09-ranges.txt");
}

/// OLM1-UPG-08, OLM1-UPG-10: every row of the table of edge cases.
#[test]
fn edge_cases_of_ranges() {
    check("upg-10-edge-cases.txt");
}

/// OLM1-UPG-03, OLM1-UPG-10, OLM1-SEL-12: pre-releases, build metadata, versions that cannot be read.
#[test]
fn order_of_versions() {
    check("upg-10-order.txt");
}

/// OLM1-UPG-11, OLM1-UPG-12: without update edges, up and down; majors follow edges otherwise.
#[test]
fn forced_moves() {
    check("upg-11-forced.txt");
}

/// MS-EXPL-04: each single thing that holds a healthy extension back.
#[test]
fn why_not_newer_is_told() {
    check("why-not-newer.txt");
}
