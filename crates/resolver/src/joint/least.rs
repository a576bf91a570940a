//! Tests that explanations are least.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::encode::Encoding;
use super::explain::Explainer;
use super::universe::{Input, Key, Universe};

#[allow(dead_code, reason = "the integration tests use the rest of it")]
#[path = "../../tests/language/mod.rs"]
mod language;
#[allow(dead_code, missing_docs, reason = "the integration tests use the rest of it")]
#[path = "../../tests/sample/mod.rs"]
mod sample;

use super::conflict::FactKind;
use sample::{Rule, Sampled, cases, only, sampled};

/// MS-EXPL-01: no fact of an explanation could be left out. In every universe of the test files, a root that cannot be met is
/// explained by facts that cannot all hold, and without any one of them the others can.
#[test]
fn explanations_are_least() {
    let folder = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/universes");
    let mut explained = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let mut parts = text.split("\n== ");
        let shared = parts.next().unwrap();
        for part in parts {
            let universe = part.split_once('\n').unwrap().1.split("\n--\n").next().unwrap();
            explained += each(&language::World::read(&format!("{shared}\n{universe}")), |input, fixed, _, core| {
                // Each question is put to a solver that was asked nothing before.
                let all_hold = |keys: &[Key]| Encoding::of(&mut Universe::build(input, fixed, true)).all_hold(keys);
                assert!(!all_hold(core), "{core:?}");
                for left_out in core {
                    let others: Vec<Key> = core.iter().filter(|key| *key != left_out).cloned().collect();
                    assert!(all_hold(&others), "{core:?} without {left_out:?}");
                }
            });
        }
    }
    assert!(explained > 30, "{explained} explanations");
}

/// Shows every explanation: which roots keep what they have, which are wanted together, and the facts that contradict each other. Roots
/// are gone through as `solve` does, by one explainer a round, until the rest can be met.
fn each(world: &language::World, mut show: impl FnMut(&Input<'_>, &BTreeSet<usize>, &BTreeSet<usize>, &[Key])) -> usize {
    let catalogs = world.candidates();
    let problem = world.problem(&catalogs);
    let input = Input::read(&problem);
    let mut fixed: BTreeSet<usize> = (0..input.asked.len()).filter(|root| input.asked[*root].is_err()).collect();
    let mut explained = 0;
    loop {
        let mut explainer = Explainer::new(&input, &fixed);
        let (mut wanted, mut blamed): (BTreeSet<usize>, BTreeSet<usize>) = Default::default();
        let mut order: Vec<usize> = (0..input.asked.len()).filter(|root| !fixed.contains(root)).collect();
        order.sort_by_key(|root| (problem.roots[*root].request.installed.is_none(), *root));
        for root in order {
            wanted.insert(root);
            let Ok(Some(core)) = explainer.encoding.blame(&wanted, &mut usize::MAX.clone()) else { continue };
            explained += 1;
            show(&input, &fixed, &wanted, &core);
            let told = Explainer::new(&input, &fixed).conflict(&input, root, &wanted, &mut usize::MAX.clone());
            assert!(!told.facts.is_empty() && told.facts.iter().all(|fact| !fact.text.is_empty()));
            wanted.remove(&root);
            blamed.insert(root);
        }
        if blamed.is_empty() {
            return explained;
        }
        fixed.extend(blamed);
    }
}

/// A fact in the terms of the slow search.
fn rule(input: &Input<'_>, fixed: &BTreeSet<usize>, key: &Key) -> Rule {
    let package = |name: &str| name.strip_prefix('p').unwrap().parse().unwrap();
    match key {
        Key::Wanted(root) => Rule::Wanted(*root),
        Key::Filter(root, FactKind::Range) => Rule::Range(*root),
        Key::Filter(root, FactKind::Channels) => Rule::Channels(*root),
        Key::Filter(root, FactKind::Edges) => Rule::Edges(*root),
        Key::Filter(root, FactKind::NoWayBack) => Rule::NoWayBack(*root),
        Key::Stays(root) => Rule::Stays(*root),
        Key::Absent(root) => Rule::Absent(*root),
        Key::NotAsked(name) => Rule::NotAsked(package(name)),
        Key::Need(name, need) => Rule::Need(package(name), Universe::build(input, fixed, true).pool.need(*need).to_string()),
        Key::OneProvider(kind) => Rule::OneProvider(kind.kind.clone()),
        Key::Filter(..) | Key::OnePackage(_) | Key::Broken(..) => panic!("{key:?} is in no random universe"),
    }
}

proptest! {
    #![proptest_config(cases(200))]

    /// MS-EXPL-01: explanations are least in random universes, and not only for the solver: a slow search through every set of bundles finds
    /// none that keeps the facts of an explanation, and one as soon as any single fact is left out. Every fact is a rule of the universe.
    #[test]
    fn the_slow_search_finds_explanations_least(sampled in sampled()) {
        least_for_the_slow_search(&sampled);
    }
}

fn least_for_the_slow_search(sampled: &Sampled) {
    each(&language::World::read(&sampled.text()), |input, fixed, wanted, core| {
        let facts: BTreeSet<Rule> = core.iter().map(|key| rule(input, fixed, key)).collect();
        let rules = only(&sampled.rules(fixed), wanted);
        assert!(facts.is_subset(&rules), "{facts:?} are not all among {rules:?}");
        assert!(sampled.sets(fixed, &facts).is_empty(), "{facts:?} do not contradict each other");
        for left_out in &facts {
            let others = facts.iter().filter(|fact| *fact != left_out).cloned().collect();
            assert!(!sampled.sets(fixed, &others).is_empty(), "{facts:?} without {left_out:?}");
        }
    });
}
