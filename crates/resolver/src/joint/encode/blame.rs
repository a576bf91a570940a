//! The least sets of facts that cannot all hold.

use std::collections::{BTreeSet, HashMap, HashSet};

use batsat::{Lit, SolverInterface, lbool};

use super::super::universe::Key;
use super::{Asked, Encoding, Undecided};

/// Answers in which all but one fact of an explanation hold, by the fact that was left out. Many roots often need one fact in the
/// same way, and the answer for the first of them shows it for the others without a search.
#[derive(Default)]
pub(super) struct Witnesses(HashMap<Lit, Vec<Vec<lbool>>>);

impl Encoding {
    /// Returns a least set of facts that cannot all hold together with the roots; `None` if they can. It is deterministic: facts are left out in
    /// their order, and one is kept only if the others can all hold without it.
    ///
    /// Each fact costs a question to the solver, which `questions` counts down. When there are none left, the answer is the facts that the solver
    /// used: they cannot all hold either, but some of them may be needless.
    pub(in super::super) fn blame(&mut self, wanted: &BTreeSet<usize>, questions: &mut usize) -> Result<Option<Vec<Key>>, Undecided> {
        self.least(wanted, &[], questions)
    }

    /// Does the same as [`Self::blame`], with entities taken.
    pub(in super::super) fn blame_with(
        &mut self,
        wanted: &BTreeSet<usize>,
        entities: &[usize],
        questions: &mut usize,
    ) -> Result<Option<Vec<Key>>, Undecided> {
        let taken: Vec<Lit> = entities.iter().map(|at| self.lits[*at]).collect();
        self.least(wanted, &taken, questions)
    }

    /// Returns whether roots could have a bundle if the facts that `left_out` names did not hold. This is one question to the existing solver,
    /// before a whole problem is built to find the exact outcome.
    pub(in super::super) fn possible_without(&mut self, wanted: &BTreeSet<usize>, left_out: impl Fn(&Key) -> bool) -> bool {
        let asked = |key: &Key| !matches!(key, Key::Wanted(root) if !wanted.contains(root));
        let assumed: Vec<Lit> = self.guards.iter().filter(|(key, _)| asked(key) && !left_out(key)).map(|(_, lit)| *lit).collect();
        Asked::from(self.solver.solve_limited(&assumed)) == Asked::Possible
    }

    fn least(&mut self, wanted: &BTreeSet<usize>, taken: &[Lit], questions: &mut usize) -> Result<Option<Vec<Key>>, Undecided> {
        let asked = |key: &Key| !matches!(key, Key::Wanted(root) if !wanted.contains(root));
        let facts: Vec<Lit> = self.guards.iter().filter(|(key, _)| asked(key)).map(|(_, lit)| *lit).collect();
        let Some(mut core) = self.core(&facts, taken)? else { return Ok(None) };
        // The roots come first in the order and are tried first: the remaining facts explain themselves without them.
        let mut at = 0;
        while at < core.len() && *questions > 0 {
            let left_out = core[at];
            let fewer = [&core[..at], &core[at + 1..]].concat();
            if self.witnessed(left_out, taken, &fewer) {
                at += 1;
                continue;
            }
            *questions -= 1;
            match self.core(&fewer, taken) {
                Ok(Some(smaller)) => core = smaller,
                Ok(None) => {
                    let model = self.solver.get_model().to_vec();
                    self.witnesses.0.entry(left_out).or_default().push(model);
                    at += 1;
                }
                // The fact may be needless, but it stays.
                Err(Undecided) => at += 1,
            }
        }
        let core: HashSet<Lit> = core.into_iter().collect();
        Ok(Some(self.guards.iter().filter(|(_, lit)| core.contains(lit)).map(|(key, _)| key.clone()).collect()))
    }

    /// Returns whether the taken entities and the facts hold in an answer that was found when the same fact was left out.
    fn witnessed(&self, left_out: Lit, taken: &[Lit], facts: &[Lit]) -> bool {
        let models = self.witnesses.0.get(&left_out).into_iter().flatten();
        models.into_iter().any(|model| {
            let is = |lit: &Lit| model.get(lit.var().idx() as usize) == Some(if lit.sign() { &lbool::TRUE } else { &lbool::FALSE });
            // A fact holds, switched on or not, if all its clauses do.
            let holds = |lit: &Lit| is(lit) || self.says.get(lit).is_some_and(|says| says.iter().all(|clause| clause.iter().any(is)));
            taken.iter().chain(facts).all(holds)
        })
    }

    /// Returns the facts, in their order, with which the solver found that they cannot all hold; `None` if they can.
    fn core(&mut self, facts: &[Lit], taken: &[Lit]) -> Result<Option<Vec<Lit>>, Undecided> {
        let assumed: Vec<Lit> = taken.iter().chain(facts).copied().collect();
        match Asked::from(self.solver.solve_limited(&assumed)) {
            Asked::Possible => Ok(None),
            Asked::Impossible => Ok(Some(facts.iter().copied().filter(|lit| self.solver.unsat_core_contains_var(lit.var())).collect())),
            Asked::Undecided => Err(Undecided),
        }
    }

    /// Returns whether facts can all hold.
    #[cfg(test)]
    pub(in super::super) fn all_hold(&mut self, keys: &[Key]) -> bool {
        let facts: Vec<Lit> = keys.iter().map(|key| self.guards[key]).collect();
        self.core(&facts, &[]) == Ok(None)
    }
}
