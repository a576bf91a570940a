//! The universe as a question for the solver of Boolean formulas. Nothing outside of this file knows of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use batsat::{BasicSolver, Lit, SolverInterface, lbool};

use super::needs::Api;
use super::pool::NeedId;
use super::universe::{Key, Role, Universe};

/// A set of bundles to look for.
pub(super) struct Encoding {
    solver: BasicSolver,
    /// By entity: it is there.
    lits: Vec<Lit>,
    guards: BTreeMap<Key, Lit>,
    guarded: bool,
    /// What the last answer was.
    model: Vec<bool>,
    /// By number of additions: there are more than so many.
    more_than: Vec<Lit>,
}

impl Encoding {
    /// All rules over a universe. In a wide one each rule depends on the fact behind it.
    pub(super) fn of(universe: &mut Universe<'_>) -> Self {
        let mut encoding = Self {
            solver: BasicSolver::default(),
            lits: Vec::new(),
            guards: BTreeMap::new(),
            guarded: universe.wide,
            model: Vec::new(),
            more_than: Vec::new(),
        };
        encoding.lits = universe.entities.iter().map(|_| encoding.decided()).collect();
        encoding.roles(universe);
        encoding.packages(universe);
        encoding.needs(universe);
        encoding.providers(universe);
        encoding
    }

    /// A literal that follows from others. The solver need not decide it: what it leaves open can be taken as false, because every
    /// clause with such a literal holds then, or has made it follow.
    fn fresh(&mut self) -> Lit {
        Lit::new(self.solver.new_var(lbool::FALSE, false), true)
    }

    /// A literal that the solver decides. Nothing is there unless it must be.
    fn decided(&mut self) -> Lit {
        Lit::new(self.solver.new_var(lbool::FALSE, true), true)
    }

    fn clause(&mut self, guard: Option<Lit>, lits: impl IntoIterator<Item = Lit>) {
        let mut clause: Vec<Lit> = guard.map(|guard| !guard).into_iter().chain(lits).collect();
        // A clause that can never hold leaves the solver without any answer, which the next question tells.
        self.solver.add_clause_reuse(&mut clause);
    }

    /// The switch of a fact; nothing where facts are not switched.
    fn guard(&mut self, key: Key) -> Option<Lit> {
        if !self.guarded && !matches!(key, Key::Wanted(_)) {
            return None;
        }
        if let Some(lit) = self.guards.get(&key) {
            return Some(*lit);
        }
        let lit = self.fresh();
        self.guards.insert(key, lit);
        Some(lit)
    }

    fn roles(&mut self, universe: &Universe<'_>) {
        for (at, entity) in universe.entities.iter().enumerate() {
            let lit = self.lits[at];
            if let Role::Stays(wish) = entity.role {
                let guard = self.guard(Key::Stays(wish));
                self.clause(guard, [lit]);
            }
            for bar in &entity.bars {
                let guard = self.guard(bar.clone());
                self.clause(guard, [!lit]);
            }
            for reason in &entity.broken {
                let package = universe.pool.item(entity.item).package.clone();
                let guard = self.guard(Key::Broken(package, reason.clone()));
                self.clause(guard, [!lit]);
            }
        }
        for (wish, candidates) in &universe.candidates {
            let guard = self.guard(Key::Wanted(*wish));
            let lits: Vec<Lit> = candidates.iter().map(|at| self.lits[*at]).collect();
            self.clause(guard, lits);
        }
    }

    /// A package is there once.
    fn packages(&mut self, universe: &Universe<'_>) {
        for (package, entities) in &universe.by_package {
            let mut owners: BTreeMap<Option<usize>, Vec<Lit>> = BTreeMap::new();
            for at in entities {
                let owner = match universe.entities[*at].role {
                    Role::Candidate { wish, .. } | Role::Stays(wish) => Some(wish),
                    Role::Addable => None,
                };
                owners.entry(owner).or_default().push(self.lits[*at]);
            }
            let mut there = Vec::new();
            for lits in owners.values() {
                self.at_most_one(lits);
                if owners.len() > 1 {
                    let owned = self.fresh();
                    for lit in lits {
                        self.clause(None, [!*lit, owned]);
                    }
                    there.push(owned);
                }
            }
            for (i, a) in there.iter().enumerate() {
                for b in &there[i + 1..] {
                    let guard = self.guard(Key::OnePackage(package.clone()));
                    self.clause(guard, [!*a, !*b]);
                }
            }
        }
    }

    /// A chain of "one of the first so many", so that the number of clauses grows with the bundles and not with their pairs.
    fn at_most_one(&mut self, lits: &[Lit]) {
        let mut before: Option<Lit> = None;
        for (i, lit) in lits.iter().enumerate() {
            if let Some(before) = before {
                self.clause(None, [!before, !*lit]);
            }
            if i + 1 < lits.len() {
                let upto = self.fresh();
                self.clause(None, [!*lit, upto]);
                if let Some(before) = before {
                    self.clause(None, [!before, upto]);
                }
                before = Some(upto);
            }
        }
    }

    fn needs(&mut self, universe: &mut Universe<'_>) {
        let broken_bans: BTreeSet<NeedId> = {
            let needs: Vec<NeedId> = universe.meeting.keys().copied().collect();
            needs.into_iter().filter(|need| universe.broken_ban(*need)).collect()
        };
        let mut met: HashMap<NeedId, Lit> = HashMap::new();
        for (at, entity) in universe.entities.iter().enumerate() {
            let lit = self.lits[at];
            for need in &entity.needs {
                let Some(Some(meeting)) = universe.meeting.get(need) else { continue };
                let key = Key::Need(universe.pool.item(entity.item).package.clone(), *need);
                if universe.pool.need(*need).forbids {
                    let guard = self.guard(key);
                    if broken_bans.contains(need) {
                        self.clause(guard, [!lit]);
                    }
                    let others = meeting.iter().filter(|other| universe.entities[**other].item != entity.item);
                    for other in others {
                        let other = self.lits[*other];
                        self.clause(guard, [!lit, !other]);
                    }
                } else if !meeting.contains(&at) {
                    let guard = self.guard(key);
                    let met = *met.entry(*need).or_insert_with(|| {
                        let met = self.fresh();
                        let lits: Vec<Lit> = std::iter::once(!met).chain(meeting.iter().map(|other| self.lits[*other])).collect();
                        self.clause(None, lits);
                        met
                    });
                    self.clause(guard, [!lit, met]);
                }
            }
        }
    }

    /// An API has one provider (OLM1-OWN-02); what stays besides each other already is not questioned.
    fn providers(&mut self, universe: &Universe<'_>) {
        let mut providers: BTreeMap<&Api, BTreeMap<&str, (Vec<Lit>, bool)>> = BTreeMap::new();
        for (at, entity) in universe.entities.iter().enumerate() {
            let item = universe.pool.item(entity.item);
            for api in &item.provides {
                let (lits, moves) = providers.entry(api).or_default().entry(&item.package).or_default();
                lits.push(self.lits[at]);
                *moves |= !matches!(entity.role, Role::Stays(_));
            }
        }
        for (api, packages) in providers.into_iter().filter(|(_, packages)| packages.len() > 1) {
            let mut there: Vec<(Lit, bool)> = Vec::new();
            for (lits, moves) in packages.into_values() {
                let provides = self.fresh();
                for lit in lits {
                    self.clause(None, [!lit, provides]);
                }
                there.push((provides, moves));
            }
            for (i, (a, one)) in there.iter().enumerate() {
                for (b, other) in there[i + 1..].iter().filter(|(_, other)| *one || *other) {
                    debug_assert!(*one || *other);
                    let guard = self.guard(Key::OneProvider(api.clone()));
                    self.clause(guard, [!*a, !*b]);
                }
            }
        }
    }

    /// Whether the wishes can all have a bundle, with whatever was demanded before.
    pub(super) fn possible(&mut self, wanted: &BTreeSet<usize>) -> bool {
        let wanted: Vec<Lit> = wanted.iter().filter_map(|wish| self.guard(Key::Wanted(*wish))).collect();
        self.ask(&wanted)
    }

    fn ask(&mut self, assumed: &[Lit]) -> bool {
        if self.solver.solve_limited(assumed) != lbool::TRUE {
            return false;
        }
        self.model = self.lits.iter().map(|lit| self.solver.value_lit(*lit) == lbool::TRUE).collect();
        true
    }

    /// From now on the wishes must have a bundle.
    pub(super) fn demand(&mut self, wanted: &BTreeSet<usize>) {
        for wish in wanted {
            let guard = self.guard(Key::Wanted(*wish));
            self.clause(None, guard);
        }
    }

    /// Takes an entity for good, if it can be had.
    pub(super) fn take(&mut self, entity: usize) -> bool {
        let lit = self.lits[entity];
        let had = self.model[entity] || self.ask(&[lit]);
        self.clause(None, [if had { lit } else { !lit }]);
        had
    }

    /// Takes one of some entities for good, if one can be had.
    pub(super) fn take_one_of(&mut self, entities: &[usize]) -> bool {
        let one = self.fresh();
        let lits: Vec<Lit> = std::iter::once(!one).chain(entities.iter().map(|at| self.lits[*at])).collect();
        self.clause(None, lits);
        let had = entities.iter().any(|at| self.model[*at]) || self.ask(&[one]);
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
    pub(super) fn take_few_of(&mut self, entities: &[usize]) {
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

    /// `more_than[k]` holds whenever more than `k` of the entities are there, for every `k` up to `most`.
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
        // So many can not be reached.
        while before.len() <= most {
            let never = self.fresh();
            self.clause(None, [!never]);
            before.push(never);
        }
        self.more_than = before;
    }

    /// What is there in the last answer.
    pub(super) fn there(&self) -> Vec<usize> {
        (0..self.model.len()).filter(|at| self.model[*at]).collect()
    }

    /// A least set of facts that can not all hold together with the wishes; none when they can. Deterministic: facts are left out in their
    /// order, and one is kept only if the others can all hold without it.
    pub(super) fn blame(&mut self, wanted: &BTreeSet<usize>) -> Option<Vec<Key>> {
        self.least(wanted, &[])
    }

    /// The same, with entities taken.
    pub(super) fn blame_with(&mut self, wanted: &BTreeSet<usize>, entities: &[usize]) -> Option<Vec<Key>> {
        let taken: Vec<Lit> = entities.iter().map(|at| self.lits[*at]).collect();
        self.least(wanted, &taken)
    }

    fn least(&mut self, wanted: &BTreeSet<usize>, taken: &[Lit]) -> Option<Vec<Key>> {
        let keys: Vec<Key> =
            self.guards.keys().filter(|key| !matches!(key, Key::Wanted(wish) if !wanted.contains(wish))).cloned().collect();
        let mut core = self.core(&keys, taken)?;
        // The wishes come first in the order and are tried first: what is left explains itself without them.
        let mut at = 0;
        while at < core.len() {
            let mut fewer = core.clone();
            fewer.remove(at);
            match self.core(&fewer, taken) {
                Some(smaller) => core = smaller,
                None => at += 1,
            }
        }
        Some(core)
    }

    /// Those of the facts that the solver used to find that they can not all hold.
    fn core(&mut self, keys: &[Key], taken: &[Lit]) -> Option<Vec<Key>> {
        let assumed: Vec<Lit> = taken.iter().copied().chain(keys.iter().map(|key| self.guards[key])).collect();
        if self.ask(&assumed) {
            return None;
        }
        let used = keys.iter().zip(&assumed[taken.len()..]).filter(|(_, lit)| self.solver.unsat_core_contains_var(lit.var()));
        Some(used.map(|(key, _)| key.clone()).collect())
    }

    /// Whether facts can all hold.
    #[cfg(test)]
    pub(super) fn all_hold(&mut self, keys: &[Key]) -> bool {
        self.core(keys, &[]).is_none()
    }
}
