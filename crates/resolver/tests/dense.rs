//! Many packages that contradict each other, each with almost every other one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::fmt::Write as _;

use crate::language::World;
use mainstay_resolver::joint::{Component, Problem, solve};
use serde_json::json;

const PACKAGES: usize = 50;
const VERSIONS: usize = 4;

/// Every version of every package says which versions of every other package it goes with, and hardly two agree.
fn world() -> World {
    let mut text = "catalog main\n".to_owned();
    for package in 0..PACKAGES {
        for version in 1..=VERSIONS {
            write!(text, "p{package} {version}.0.0 @stable").unwrap();
            for other in (0..PACKAGES).filter(|other| *other != package) {
                let range = match (package * 7 + other * 3 + version) % 5 {
                    0 => "<2.0.0",
                    1 => ">=3.0.0",
                    2 => "<3.0.0",
                    3 => ">=2.0.0",
                    _ => ">=1.0.0",
                };
                write!(text, " package=p{other}:\"{range}\"").unwrap();
            }
            text.push('\n');
        }
    }
    for package in 0..PACKAGES {
        writeln!(text, "root w{package} p{package}").unwrap();
    }
    World::read(&text)
}

/// MS-EXPL-01, MS-EXPL-05: a dense net of contradictions is answered, each root by itself, and every time in the same way.
#[test]
fn a_dense_net_of_contradictions_is_explained() {
    let world = world();
    let catalogs = world.candidates();
    let components = solve(&world.problem(&catalogs));
    let subjects: Vec<&String> = components.iter().flat_map(|component| &component.subjects).collect();
    assert_eq!(subjects.len(), PACKAGES);
    let explained = |component: &Component| component.outcome.as_ref().err().is_none_or(|conflict| !conflict.facts.is_empty());
    assert!(components.iter().all(explained));
    assert_eq!(format!("{components:?}"), format!("{:?}", solve(&world.problem(&catalogs))));
}

/// MS-EXPL-05: a caller who asks about one root is told about that one; what is chosen is the same.
#[test]
fn one_root_is_asked_about() {
    let world = world();
    let catalogs = world.candidates();
    let all = solve(&world.problem(&catalogs));
    let about = &world.roots[PACKAGES / 2].subject;
    let one = solve(&Problem { about: Some(about), ..world.problem(&catalogs) });
    let bare = |components: &[Component]| {
        let of = |component: &Component| (component.subjects.clone(), component.outcome.as_ref().ok().map(|found| format!("{found:?}")));
        components.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(bare(&all), bare(&one));
    let told = |components: &[Component]| {
        let own = components.iter().find(|component| component.subjects.contains(about)).unwrap();
        own.outcome.as_ref().err().map(ToString::to_string)
    };
    assert!(told(&one).is_some_and(|text| text.contains("requires package")), "{:?}", told(&one));
    let others = one.iter().filter(|component| !component.subjects.contains(about));
    assert!(others.filter_map(|component| component.outcome.as_ref().err()).all(|conflict| conflict.facts.len() == 1));
}

/// More pigeons than holes: `large` and `also` require packages of which each requires a version of its own of one of too few others. Nothing but
/// trying shows that there is no way.
fn pigeons(holes: usize) -> World {
    let mut text = "catalog main\nhealthy 1.0.0 @stable package=other:\">=1.0.0\"\nother 1.0.0 @stable\n".to_owned();
    let requires: String = (0..=holes).map(|pigeon| format!(" package=pigeon{pigeon}:\"1.0.0\"")).collect::<Vec<_>>().concat();
    for package in ["large", "also"] {
        writeln!(text, "{package} 1.0.0 @stable{requires}").unwrap();
    }
    for pigeon in 0..=holes {
        let package =
            |hole: usize| json!({"package": {"packageName": format!("hole{hole}"), "versionRange": format!("{}.0.0", pigeon + 1)}});
        let any = json!({"failureMessage": "none", "any": {"constraints": (0..holes).map(package).collect::<Vec<_>>()}});
        writeln!(text, "pigeon{pigeon} 1.0.0 @stable constraint={any}").unwrap();
        for hole in 0..holes {
            writeln!(text, "hole{hole} {}.0.0 @stable", pigeon + 1).unwrap();
        }
    }
    text.push_str("add-missing\nroot first large\nroot second healthy\nroot third also\n");
    World::read(&text)
}

/// MS-EXPL-05: requirements that take for ever to be tried are given up with words for it, every time in the same way, and stand in
/// nobody's way; those that can be tried are explained.
#[test]
fn requirements_that_take_for_ever_are_given_up() {
    for (holes, told) in [(3, "requires package"), (12, "too many combinations to try them all")] {
        let world = pigeons(holes);
        let catalogs = world.candidates();
        let components = solve(&world.problem(&catalogs));
        for component in &components {
            match (&component.subjects[..], &component.outcome) {
                ([one], Ok(solution)) if one.ends_with("second") => assert_eq!(solution.added.len(), 1),
                ([one], Err(conflict)) if !one.ends_with("second") => assert!(conflict.to_string().contains(told), "{holes}: {conflict}"),
                other => panic!("{holes}: {other:?}"),
            }
        }
        assert_eq!(components.len(), 3);
        assert_eq!(format!("{components:?}"), format!("{:?}", solve(&world.problem(&catalogs))));
    }
}
