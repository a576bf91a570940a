//! The choice of variables under constraints whose candidates stand in an order of preference (OLM0-RES-05).
//!
//! OLM classic's resolver is defined by its search: the mandatory variables are guessed first, then, in the order in which guesses open them, one
//! candidate for each dependency, the earliest that leaves the rest satisfiable; what was not guessed is not chosen. Upstream backtracks to
//! find that. Here each guess is put to a solver at once: a candidate that leaves the rest satisfiable is never taken back later, so the
//! answers are the same, and a guess costs one question.

use std::collections::{HashMap, HashSet, VecDeque};

use batsat::{Lit, Solver, SolverInterface, SolverOpts, lbool};

use crate::effort::{Asked, Effort};

/// A thing that is chosen or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its constraints.
    pub constraints: Vec<Constraint>,
}

/// A rule about a variable, its subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    /// The rule.
    pub rule: Rule,
    /// The rule in words.
    pub text: String,
}

/// Rules. Variables are named by their place in the list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The subject is chosen.
    Mandatory,
    /// The subject is not chosen.
    Prohibited,
    /// With the subject one of these is chosen, an earlier one rather than a later one.
    Dependency(Vec<usize>),
    /// The subject and this one are not both chosen.
    Conflict(usize),
    /// At most one of these is chosen. One that is listed twice can never be.
    AtMostOne(Vec<usize>),
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The chosen variables, ascending.
    Chosen(Vec<usize>),
    /// There is none.
    Unsatisfiable(Conflict),
    /// The question was given up.
    Undecided,
}

/// Constraints that cannot all hold, as text in alphabetical order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Those by which the search found that, as upstream tells them: what is chosen or not for sure counts, needed or not.
    pub found: Vec<String>,
    /// Some of them, of which none could be left out (MS-EXPL-01).
    pub least: Vec<String>,
}

/// Chooses. Equal input gives the equal answer.
pub fn solve(variables: &[Variable]) -> Answer {
    match Search::new(variables).run() {
        Ok(chosen) => Answer::Chosen(chosen),
        Err(Stopped::Undecided) => Answer::Undecided,
        Err(Stopped::Impossible) => conflict(variables).map_or(Answer::Undecided, Answer::Unsatisfiable),
    }
}

enum Stopped {
    Impossible,
    Undecided,
}

struct Search<'a> {
    variables: &'a [Variable],
    encoding: Encoding,
    guesses: Vec<Lit>,
    chosen: HashSet<usize>,
    choices: VecDeque<&'a [usize]>,
}

impl<'a> Search<'a> {
    fn new(variables: &'a [Variable]) -> Self {
        let mut encoding = Encoding::new(variables.len());
        for (subject, variable) in variables.iter().enumerate() {
            for constraint in &variable.constraints {
                encoding.add(None, subject, &constraint.rule);
            }
        }
        Self { variables, encoding, guesses: Vec::new(), chosen: HashSet::new(), choices: VecDeque::new() }
    }

    fn run(mut self) -> Result<Vec<usize>, Stopped> {
        if !self.possible(None)? {
            return Err(Stopped::Impossible);
        }
        let mandatory = |variable: &Variable| variable.constraints.iter().any(|constraint| constraint.rule == Rule::Mandatory);
        for (at, _) in self.variables.iter().enumerate().filter(|(_, variable)| mandatory(variable)) {
            self.guess(at);
        }
        while let Some(candidates) = self.choices.pop_front() {
            if candidates.iter().any(|candidate| self.chosen.contains(candidate)) {
                continue;
            }
            for &candidate in candidates {
                if self.possible(Some(candidate))? {
                    self.guess(candidate);
                    break;
                }
            }
        }
        let mut chosen: Vec<usize> = self.chosen.into_iter().collect();
        chosen.sort_unstable();
        Ok(chosen)
    }

    /// Takes a variable that leaves the rest satisfiable, and opens the choices that it needs.
    fn guess(&mut self, at: usize) {
        if !self.chosen.insert(at) {
            return;
        }
        self.guesses.push(self.encoding.lits[at]);
        for constraint in &self.variables[at].constraints {
            if let Rule::Dependency(candidates) = &constraint.rule {
                self.choices.push_back(candidates);
            }
        }
    }

    fn possible(&mut self, candidate: Option<usize>) -> Result<bool, Stopped> {
        // The last answer already shows it for a candidate that is part of it.
        if candidate.is_some_and(|at| self.encoding.model.get(at).copied().unwrap_or(false)) {
            return Ok(true);
        }
        let assumed: Vec<Lit> = self.guesses.iter().copied().chain(candidate.map(|at| self.encoding.lits[at])).collect();
        match self.encoding.ask(&assumed) {
            Asked::Possible => Ok(true),
            Asked::Impossible => Ok(false),
            Asked::Undecided => Err(Stopped::Undecided),
        }
    }
}

/// The constraints that leave no answer; `None` if the solver gives up.
fn conflict(variables: &[Variable]) -> Option<Conflict> {
    let mut encoding = Encoding::new(variables.len());
    let mut texts: HashMap<Lit, &str> = HashMap::new();
    let mut guards: Vec<Lit> = Vec::new();
    let mut known: HashMap<Meaning, Lit> = HashMap::new();
    for (subject, variable) in variables.iter().enumerate() {
        for constraint in &variable.constraints {
            // Of constraints that say the same, upstream knows the text of the last.
            let guard = *known.entry(Meaning::of(subject, &constraint.rule)).or_insert_with(|| {
                let guard = encoding.fresh();
                encoding.add(Some(guard), subject, &constraint.rule);
                guards.push(guard);
                guard
            });
            texts.insert(guard, &constraint.text);
        }
    }
    let told = |core: &[Lit]| {
        let mut told: Vec<String> = core.iter().map(|guard| texts[guard].to_owned()).collect();
        told.sort();
        told
    };
    let mut core = encoding.core(&guards)?;
    let found = told(&core);
    let mut at = 0;
    while at < core.len() {
        let fewer = [&core[..at], &core[at + 1..]].concat();
        match encoding.core(&fewer) {
            Some(smaller) => core = smaller,
            // It is needed, or was not shown to be needless.
            None => at += 1,
        }
    }
    let mut least = told(&core);
    // Bundles of several channels say the same more than once.
    least.dedup();
    Some(Conflict { found, least })
}

/// The meaning of a rule, by which constraints are the same.
#[derive(PartialEq, Eq, Hash)]
enum Meaning {
    Chosen(usize),
    NotChosen(usize),
    NotBoth(usize, usize),
    Rule(usize, Rule),
}

impl Meaning {
    fn of(subject: usize, rule: &Rule) -> Self {
        match rule {
            Rule::Mandatory => Self::Chosen(subject),
            Rule::Prohibited => Self::NotChosen(subject),
            Rule::Dependency(candidates) if candidates.is_empty() => Self::NotChosen(subject),
            Rule::Conflict(other) => Self::NotBoth(subject.min(*other), subject.max(*other)),
            Rule::AtMostOne(of) if of.len() == 2 => Self::NotBoth(of[0].min(of[1]), of[0].max(of[1])),
            Rule::Dependency(_) | Rule::AtMostOne(_) => Self::Rule(subject, rule.clone()),
        }
    }
}

struct Encoding {
    solver: Solver<Effort>,
    lits: Vec<Lit>,
    /// By variable: its value in the last answer.
    model: Vec<bool>,
}

impl Encoding {
    fn new(variables: usize) -> Self {
        let mut solver = Solver::new(SolverOpts::default(), Effort::default());
        // Variables that need not be chosen are left out by preference.
        let lits = (0..variables).map(|_| Lit::new(solver.new_var(lbool::FALSE, true), true)).collect();
        Self { solver, lits, model: Vec::new() }
    }

    fn fresh(&mut self) -> Lit {
        Lit::new(self.solver.new_var(lbool::FALSE, true), true)
    }

    fn clause(&mut self, guard: Option<Lit>, lits: impl IntoIterator<Item = Lit>) {
        let mut clause: Vec<Lit> = guard.map(|guard| !guard).into_iter().chain(lits).collect();
        // A clause that can never hold leaves the solver without any answer, which the next question shows.
        self.solver.add_clause_reuse(&mut clause);
    }

    fn add(&mut self, guard: Option<Lit>, subject: usize, rule: &Rule) {
        let subject = self.lits[subject];
        match rule {
            Rule::Mandatory => self.clause(guard, [subject]),
            Rule::Prohibited => self.clause(guard, [!subject]),
            Rule::Dependency(candidates) => {
                let candidates: Vec<Lit> = candidates.iter().map(|at| self.lits[*at]).collect();
                self.clause(guard, std::iter::once(!subject).chain(candidates));
            }
            Rule::Conflict(other) => {
                let other = self.lits[*other];
                self.clause(guard, [!subject, !other]);
            }
            Rule::AtMostOne(of) => {
                // A chain of "one of the first k", so that the clauses grow with the variables and not with their pairs.
                let mut before: Option<Lit> = None;
                for at in of {
                    let lit = self.lits[*at];
                    if let Some(before) = before {
                        self.clause(guard, [!before, !lit]);
                    }
                    let upto = self.fresh();
                    self.clause(None, [!lit, upto]);
                    if let Some(before) = before {
                        self.clause(None, [!before, upto]);
                    }
                    before = Some(upto);
                }
            }
        }
    }

    fn ask(&mut self, assumed: &[Lit]) -> Asked {
        let asked = Asked::from(self.solver.solve_limited(assumed));
        if asked == Asked::Possible {
            let model = self.solver.get_model();
            let value = |lit: &Lit| model.get(lit.var().idx() as usize) == Some(&lbool::TRUE);
            self.model = self.lits.iter().map(value).collect();
        }
        asked
    }

    /// The guards, in their order, with which the solver found that they cannot all hold; `None` if they can, or if it gave up.
    fn core(&mut self, guards: &[Lit]) -> Option<Vec<Lit>> {
        if self.ask(guards) != Asked::Impossible {
            return None;
        }
        Some(guards.iter().copied().filter(|lit| self.solver.unsat_core_contains_var(lit.var())).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(of: usize) -> impl Strategy<Value = Rule> {
        let list = || prop::collection::vec(0..of, 0..4);
        prop_oneof![
            1 => Just(Rule::Mandatory),
            1 => Just(Rule::Prohibited),
            4 => list().prop_map(Rule::Dependency),
            2 => (0..of).prop_map(Rule::Conflict),
            1 => list().prop_map(Rule::AtMostOne),
        ]
    }

    fn problem() -> impl Strategy<Value = Vec<Variable>> {
        (2..8_usize).prop_flat_map(|of| {
            let variable = prop::collection::vec(rule(of), 0..3);
            prop::collection::vec(variable, of).prop_map(|variables| {
                let constraint = |(at, (place, rule)): (usize, (usize, Rule))| Constraint { text: format!("{at}/{place} {rule:?}"), rule };
                let variable = |(at, rules): (usize, Vec<Rule>)| Variable {
                    constraints: rules.into_iter().enumerate().map(|rule| constraint((at, rule))).collect(),
                };
                variables.into_iter().enumerate().map(variable).collect()
            })
        })
    }

    fn holds(chosen: u32, subject: usize, rule: &Rule) -> bool {
        let is = |at: &usize| chosen >> at & 1 == 1;
        match rule {
            Rule::Mandatory => is(&subject),
            Rule::Prohibited => !is(&subject),
            Rule::Dependency(of) => !is(&subject) || of.iter().any(is),
            Rule::Conflict(other) => !(is(&subject) && is(other)),
            Rule::AtMostOne(of) => of.iter().filter(|at| is(at)).count() <= 1,
        }
    }

    fn satisfiable(variables: &[Variable], left_out: &dyn Fn(&str) -> bool, guessed: &[usize]) -> bool {
        (0..1_u32 << variables.len()).any(|chosen| {
            guessed.iter().all(|at| chosen >> at & 1 == 1)
                && variables.iter().enumerate().all(|(subject, variable)| {
                    variable.constraints.iter().all(|one| left_out(&one.text) || holds(chosen, subject, &one.rule))
                })
        })
    }

    /// Upstream's search, with its guesses and its backtracking, over every set of variables.
    fn backtracking(variables: &[Variable]) -> Option<Vec<usize>> {
        fn go(variables: &[Variable], guessed: &mut Vec<usize>, choices: &VecDeque<Vec<usize>>) -> bool {
            if !satisfiable(variables, &|_| false, guessed) {
                return false;
            }
            let mut choices = choices.clone();
            let Some(candidates) = choices.pop_front() else { return true };
            if candidates.iter().any(|candidate| guessed.contains(candidate)) {
                return go(variables, guessed, &choices);
            }
            for candidate in candidates {
                let mut after = choices.clone();
                for one in &variables[candidate].constraints {
                    match &one.rule {
                        Rule::Dependency(of) if !of.is_empty() => after.push_back(of.clone()),
                        _ => {}
                    }
                }
                guessed.push(candidate);
                if go(variables, guessed, &after) {
                    return true;
                }
                guessed.pop();
            }
            go(variables, guessed, &choices)
        }
        let mandatory = |at: &usize| variables[*at].constraints.iter().any(|one| one.rule == Rule::Mandatory);
        let choices = (0..variables.len()).filter(mandatory).map(|at| vec![at]).collect();
        let mut guessed = Vec::new();
        go(variables, &mut guessed, &choices).then(|| {
            guessed.sort_unstable();
            guessed
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// OLM0-RES-05: the answer is that of a search with backtracking; a conflict is one, and a least one.
        #[test]
        fn as_the_search_with_backtracking(variables in problem()) {
            match (solve(&variables), backtracking(&variables)) {
                (Answer::Chosen(chosen), Some(expected)) => prop_assert_eq!(chosen, expected),
                (Answer::Unsatisfiable(conflict), None) => {
                    let texts: Vec<(usize, Rule, String)> = variables.iter().enumerate().flat_map(|(subject, variable)| {
                        variable.constraints.iter().map(move |one| (subject, one.rule.clone(), one.text.clone()))
                    }).collect();
                    let same = |left: &str, right: &str| {
                        let meaning = |text: &str| texts.iter().find(|one| one.2 == text).map(|one| Meaning::of(one.0, &one.1));
                        meaning(left) == meaning(right)
                    };
                    prop_assert!(!satisfiable(&variables, &|text| !conflict.found.iter().any(|one| one == text), &[]));
                    let told = |text: &str| conflict.least.iter().any(|one| one == text);
                    prop_assert!(!satisfiable(&variables, &|text| !told(text), &[]));
                    for one in &conflict.least {
                        prop_assert!(satisfiable(&variables, &|text| same(text, one) || !told(text), &[]), "{} is needless", one);
                    }
                }
                (ours, expected) => prop_assert!(false, "{:?} instead of {:?}", ours, expected),
            }
        }
    }
}
