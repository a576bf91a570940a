//! That explanations are least.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;

use super::encode::Encoding;
use super::explain::Explainer;
use super::universe::{Input, Key, Universe};

#[allow(dead_code, reason = "the integration tests use the rest of it")]
#[path = "../../tests/language/mod.rs"]
mod language;

/// MS-EXPL-01: no fact of an explanation could be left out. In every universe of the test files, whoever can not be met is explained
/// by facts that can not all hold, and without any one of them the others can.
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
            explained += check(&language::World::read(&format!("{shared}\n{universe}")));
        }
    }
    assert!(explained > 30, "{explained} explanations");
}

fn check(world: &language::World) -> usize {
    let catalogs = world.candidates();
    let problem = world.problem(&catalogs);
    let input = Input::read(&problem);
    let (fixed, open): (BTreeSet<usize>, BTreeSet<usize>) = (0..input.asked.len()).partition(|wish| input.asked[*wish].is_err());
    let mut wanted = BTreeSet::new();
    let mut explained = 0;
    for wish in open {
        wanted.insert(wish);
        let Some(core) = Explainer::new(&input, &fixed).encoding.blame(&wanted, &mut usize::MAX.clone()) else { continue };
        explained += 1;
        wanted.remove(&wish);
        // Each question is put to a solver that was asked nothing before.
        let all_hold = |keys: &[Key]| Encoding::of(&mut Universe::build(&input, &fixed, true)).all_hold(keys);
        assert!(!all_hold(&core), "{core:?}");
        for left_out in &core {
            let others: Vec<Key> = core.iter().filter(|key| *key != left_out).cloned().collect();
            assert!(all_hold(&others), "{core:?} without {left_out:?}");
        }
    }
    explained
}
