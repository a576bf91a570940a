//! The choice of bundles: one final decision after the other.

use std::collections::BTreeSet;

use batsat::{Lit, SolverInterface, lbool};

use super::super::universe::Key;
use super::{Asked, Encoding};

impl Encoding {
    /// Asks whether the roots can all have a bundle, with everything that was demanded before.
    pub(in super::super) fn possible(&mut self, wanted: &BTreeSet<usize>) -> Asked {
        let wanted: Vec<Lit> = wanted.iter().filter_map(|root| self.guard(Key::Wanted(*root))).collect();
        self.question(&wanted)
    }

    fn question(&mut self, assumed: &[Lit]) -> Asked {
        let found = Asked::from(self.solver.solve_limited(assumed));
        if found == Asked::Possible {
            self.model = self.lits.iter().map(|lit| self.solver.value_lit(*lit) == lbool::TRUE).collect();
        }
        found
    }

    /// Asks whether a better answer exists. If the question is given up, it does not count: the last answer, without it, still holds.
    fn ask(&mut self, assumed: &[Lit]) -> bool {
        self.question(assumed) == Asked::Possible
    }

    /// Returns whether the decisions so far already exclude a literal, which needs no search.
    fn settled_out(&self, lit: Lit) -> bool {
        self.solver.value_lvl_0(lit) == lbool::FALSE
    }

    /// Demands that the roots have a bundle from now on.
    pub(in super::super) fn demand(&mut self, wanted: &BTreeSet<usize>) {
        for root in wanted {
            let guard = self.guard(Key::Wanted(*root));
            self.clause(None, guard);
        }
    }

    /// Takes an entity for good, if possible; returns whether it was.
    pub(in super::super) fn take(&mut self, entity: usize) -> bool {
        let lit = self.lits[entity];
        let had = self.model[entity] || !self.settled_out(lit) && self.ask(&[lit]);
        self.clause(None, [if had { lit } else { !lit }]);
        had
    }

    /// Takes one of some entities for good, if possible; returns whether it was.
    pub(in super::super) fn take_one_of(&mut self, entities: &[usize]) -> bool {
        let one = self.fresh();
        let lits: Vec<Lit> = std::iter::once(!one).chain(entities.iter().map(|at| self.lits[*at])).collect();
        self.clause(None, lits);
        let had = entities.iter().any(|at| self.model[*at]) || !self.settled_out(one) && self.ask(&[one]);
        if had {
            self.clause(None, [one]);
        } else {
            self.leave_out(entities);
        }
        had
    }

    fn leave_out(&mut self, entities: &[usize]) {
        for at in entities {
            self.clause(None, [!self.lits[*at]]);
        }
    }

    /// Takes as few of some entities as possible, for good.
    pub(in super::super) fn take_few_of(&mut self, entities: &[usize]) {
        let count = |encoding: &Self| entities.iter().filter(|at| encoding.model[**at]).count();
        let mut least = count(self);
        if least == 0 {
            self.leave_out(entities);
            return;
        }
        self.count(entities, least);
        while least > 0 {
            let fewer = !self.more_than[least - 1];
            if !self.ask(&[fewer]) {
                break;
            }
            least = count(self);
        }
        let bound = !self.more_than[least];
        self.clause(None, [bound]);
    }

    /// Makes `more_than[k]` hold whenever more than `k` of the entities are there, for every `k` up to `most`.
    fn count(&mut self, entities: &[usize], most: usize) {
        let mut before: Vec<Lit> = Vec::new();
        for at in entities {
            let lit = self.lits[*at];
            let after: Vec<Lit> = (0..=most.min(before.len())).map(|_| self.fresh()).collect();
            for (k, more) in after.iter().enumerate() {
                if let Some(already) = before.get(k) {
                    self.clause(None, [!*already, *more]);
                }
                match k.checked_sub(1) {
                    None => self.clause(None, [!lit, *more]),
                    Some(fewer) => self.clause(None, [!lit, !before[fewer], *more]),
                }
            }
            before = after;
        }
        // This number cannot be reached.
        while before.len() <= most {
            let never = self.fresh();
            self.clause(None, [!never]);
            before.push(never);
        }
        self.more_than = before;
    }

    /// The entities that are there in the last answer.
    pub(in super::super) fn there(&self) -> Vec<usize> {
        (0..self.model.len()).filter(|at| self.model[*at]).collect()
    }
}
