//! Many packages that contradict each other, each with almost every other one.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod language;

use std::fmt::Write as _;

use language::World;
use mainstay_resolver::joint::{Component, Problem, solve};

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
        writeln!(text, "wish w{package} p{package}").unwrap();
    }
    World::read(&text)
}

/// MS-EXPL-01, MS-EXPL-05: a dense net of contradictions is answered, each wish by itself, and every time in the same way.
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

/// MS-EXPL-05: whoever asks about one wish is told about that one; what is chosen is the same.
#[test]
fn one_wish_is_asked_about() {
    let world = world();
    let catalogs = world.candidates();
    let all = solve(&world.problem(&catalogs));
    let about = &world.wishes[PACKAGES / 2].subject;
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
