//! The rules of the universe, as a problem for the solver of Boolean formulas. Nothing outside this module knows of the solver.

mod blame;
mod take;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use batsat::{Lit, Solver, SolverInterface, SolverOpts, lbool};

use self::blame::Witnesses;
use super::pool::NeedId;
use super::universe::{Key, Kind, Role, Universe};
use crate::effort::Effort;
pub(super) use crate::effort::{Asked, Undecided};

/// The solver's problem: to find a set of bundles that keeps the rules.
pub(super) struct Encoding {
    solver: Solver<Effort>,
    /// By entity: the literal that it is there.
    lits: Vec<Lit>,
    guards: BTreeMap<Key, Lit>,
    guarded: bool,
    /// The last answer.
    model: Vec<bool>,
    /// By number of additions: the literal that there are more than that number.
    more_than: Vec<Lit>,
    /// By switch: the clauses of its fact, if facts are switched.
    says: HashMap<Lit, Vec<Vec<Lit>>>,
    witnesses: Witnesses,
}

impl Encoding {
    /// Encodes all rules over a universe. In a wide one each rule depends on the fact behind it.
    pub(super) fn of(universe: &mut Universe<'_>) -> Self {
        let mut encoding = Self {
            solver: Solver::new(SolverOpts::default(), Effort::default()),
            lits: Vec::new(),
            guards: BTreeMap::new(),
            guarded: universe.wide,
            model: Vec::new(),
            more_than: Vec::new(),
            says: HashMap::new(),
            witnesses: Witnesses::default(),
        };
        encoding.lits = universe.entities.iter().map(|_| encoding.decided()).collect();
        encoding.roles(universe);
        encoding.packages(universe);
        encoding.needs(universe);
        encoding.providers(universe);
        encoding
    }

    /// A literal that follows from others. The solver need not decide it: if it leaves the literal open, the literal can be taken as false,
    /// because every clause with such a literal holds then, or has made it follow.
    fn fresh(&mut self) -> Lit {
        Lit::new(self.solver.new_var(lbool::FALSE, false), true)
    }

    /// A literal that the solver decides, false unless it must be true.
    fn decided(&mut self) -> Lit {
        Lit::new(self.solver.new_var(lbool::FALSE, true), true)
    }

    fn clause(&mut self, guard: Option<Lit>, lits: impl IntoIterator<Item = Lit>) {
        let mut clause: Vec<Lit> = guard.map(|guard| !guard).into_iter().chain(lits).collect();
        if let (true, Some(guard)) = (self.guarded, guard) {
            self.says.entry(guard).or_default().push(clause[1..].to_vec());
        }
        // A clause that can never hold leaves the solver without any answer, which the next question shows.
        self.solver.add_clause_reuse(&mut clause);
    }

    /// The switch of a fact; `None` unless facts are switched.
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
            if let Role::Stays(root) = entity.role {
                let guard = self.guard(Key::Stays(root));
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
        for (root, candidates) in &universe.candidates {
            let guard = self.guard(Key::Wanted(*root));
            let lits: Vec<Lit> = candidates.iter().map(|at| self.lits[*at]).collect();
            self.clause(guard, lits);
        }
    }

    /// Adds the rules that each package is there once.
    fn packages(&mut self, universe: &Universe<'_>) {
        for (package, entities) in &universe.by_package {
            let mut owners: BTreeMap<Option<usize>, Vec<Lit>> = BTreeMap::new();
            for at in entities {
                let owner = match universe.entities[*at].role {
                    Role::Candidate { root, .. } | Role::Stays(root) => Some(root),
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

    /// Adds the rule that at most one holds, as a chain of "one of the first k", so that the clauses grow with the bundles and not with their pairs.
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

    /// Adds the rules that each group and kind has one provider: all its versions are one CRD (OLM1-OWN-02). Providers that stay beside each other
    /// already are accepted.
    fn providers(&mut self, universe: &Universe<'_>) {
        #[derive(Default)]
        struct Package {
            stays: Vec<Lit>,
            moves: Vec<Lit>,
        }
        let mut providers: BTreeMap<Kind, BTreeMap<&str, Package>> = BTreeMap::new();
        for (at, entity) in universe.entities.iter().enumerate() {
            let item = universe.pool.item(entity.item);
            let kinds: BTreeSet<Kind> = item.provides.iter().map(Kind::of).collect();
            for kind in kinds {
                let package = providers.entry(kind).or_default().entry(&item.package).or_default();
                let lits = if matches!(entity.role, Role::Stays(_)) { &mut package.stays } else { &mut package.moves };
                lits.push(self.lits[at]);
            }
        }
        for (kind, packages) in providers.into_iter().filter(|(_, packages)| packages.len() > 1) {
            // By package: a bundle of it stays, another bundle of it provides the kind.
            let there: Vec<(Option<Lit>, Option<Lit>)> =
                packages.into_values().map(|Package { stays, moves }| (self.any_of(&stays), self.any_of(&moves))).collect();
            for (i, (a_stays, a_moves)) in there.iter().enumerate() {
                for (b_stays, b_moves) in &there[i + 1..] {
                    for (a, b) in [(a_moves, b_moves), (a_moves, b_stays), (a_stays, b_moves)] {
                        if let (Some(a), Some(b)) = (*a, *b) {
                            let guard = self.guard(Key::OneProvider(kind.clone()));
                            self.clause(guard, [!a, !b]);
                        }
                    }
                }
            }
        }
    }

    /// A literal that follows from each of some literals; `None` if there are none.
    fn any_of(&mut self, lits: &[Lit]) -> Option<Lit> {
        if let [] | [_] = lits {
            return lits.first().copied();
        }
        let any = self.fresh();
        for lit in lits {
            self.clause(None, [!*lit, any]);
        }
        Some(any)
    }
}
