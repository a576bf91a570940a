//! Named expressions that others build on: the `variables` of an admission policy. Each is computed at most once for an object, and
//! only when something asks for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use crate::error::{CompileError, EvalError};
use crate::program::{Activation, Env, Program};
use crate::types::{Record, Type};
use crate::value::{Fields, Value};

/// The name by which expressions know them.
const VARIABLES: &str = "variables";

/// Most room on the stack for variables that ask for each other, in expressions within each other. What does not fit is computed
/// from the bottom of the stack: chains of variables have no bounds, stacks do.
const ROOM: usize = 128;

/// The room that one variable takes beside its expressions.
const ROOM_OF_VARIABLE: usize = 8;

/// Past this length, the message of a failed variable is not repeated within that of the one that asked for it.
const MAX_ERROR: usize = 2048;

/// A name with its expression.
#[derive(Clone, Debug)]
struct Variable {
    name: Arc<str>,
    program: Result<Program, CompileError>,
}

#[derive(Clone, Debug, Default)]
struct Variables {
    all: Vec<Variable>,
    /// The place of each name; of several variables of one name, the first counts.
    places: HashMap<Arc<str>, usize>,
}

/// Compiled variables, each of which may use those before it.
#[derive(Clone, Debug, Default)]
pub struct Composition(Arc<Variables>);

/// A composition that grows variable by variable.
#[derive(Debug)]
pub struct Composer {
    variables: Variables,
    env: Env,
}

impl Composer {
    /// Without variables yet, in an environment.
    pub fn new(env: &Env) -> Self {
        let none: [(&str, Type); 0] = [];
        let env = env.clone().variable(VARIABLES, Record::new("kubernetes.variables", none).kind());
        Self { variables: Variables::default(), env }
    }

    /// Compiles a variable, which may use those added before. One that does not compile has any type, and fails whatever uses it.
    pub fn add(&mut self, name: &str, expression: &str) -> Result<(), CompileError> {
        let program = Program::compile(expression, &self.env);
        let kind = program.as_ref().map_or(Type::Dyn, |program| program.kind().clone());
        let outcome = program.as_ref().map(|_| ()).map_err(CompileError::clone);
        let name: Arc<str> = name.into();
        self.env.add_field(VARIABLES, name.clone(), kind);
        self.variables.places.entry(name.clone()).or_insert(self.variables.all.len());
        self.variables.all.push(Variable { name, program });
        outcome
    }

    /// The variables, and the environment that declares them.
    pub fn finish(self) -> (Composition, Env) {
        (Composition(Arc::new(self.variables)), self.env)
    }
}

impl Composition {
    /// Compiles variables in their order. The environment that comes back declares them; one that does not compile has any type,
    /// and fails whatever uses it.
    pub fn compile<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>, env: &Env) -> (Self, Env) {
        let mut composer = Composer::new(env);
        for (name, expression) in variables {
            // Whatever uses it says what is wrong with it.
            let _ = composer.add(name, expression);
        }
        composer.finish()
    }

    /// The variables for one activation.
    pub fn bind(&self, activation: Activation) -> Arc<Composed> {
        Arc::new_cyclic(|this| Composed {
            variables: self.0.clone(),
            values: self.0.all.iter().map(|_| OnceLock::new()).collect(),
            progress: Mutex::default(),
            activation,
            this: this.clone(),
        })
    }
}

/// The variables of one object. One thread at a time may run expressions that use them.
#[derive(Debug)]
pub struct Composed {
    variables: Arc<Variables>,
    values: Vec<OnceLock<Result<Value, EvalError>>>,
    progress: Mutex<Progress>,
    activation: Activation,
    this: Weak<Composed>,
}

#[derive(Debug, Default)]
struct Progress {
    /// The cost of computing variables.
    cost: u64,
    /// The room that variables have taken which are being computed.
    taken: usize,
    /// A variable that was asked for when there was no room to compute it. Whatever is being computed is given up, and done again
    /// once this one has its value.
    wanted: Option<usize>,
}

impl Composed {
    /// The activation with `variables` in it.
    pub fn activation(&self) -> Activation {
        self.activation_before(self.values.len())
    }

    /// Returns the cost of computing variables since this was last asked.
    pub fn take_cost(&self) -> u64 {
        std::mem::take(&mut self.progress().cost)
    }

    /// The activation with the variables before one.
    fn activation_before(&self, end: usize) -> Activation {
        self.activation.clone().with(VARIABLES, Value::Lazy(Arc::new(View { composed: self.this.clone(), end })))
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a variable, which is computed if it has none yet.
    fn value(&self, index: usize) -> Result<Value, EvalError> {
        if let Some(value) = self.values[index].get() {
            return value.clone();
        }
        // Never seen: the expression that gets this is given up.
        let given_up = || EvalError::new("no room to compute a variable");
        let taken = {
            let mut progress = self.progress();
            if progress.wanted.is_some() {
                return Err(given_up());
            }
            if progress.taken > 0 && progress.taken + self.room(index) > ROOM {
                progress.wanted = Some(index);
                return Err(given_up());
            }
            progress.taken
        };
        if taken > 0 {
            return self.compute(index, taken).unwrap_or_else(|_| Err(given_up()));
        }
        // A variable sees only those before it, so that this ends.
        let mut waiting = Vec::new();
        let mut next = index;
        loop {
            match self.compute(next, 0) {
                Err(wanted) => {
                    self.progress().wanted = None;
                    waiting.push(std::mem::replace(&mut next, wanted));
                }
                Ok(value) => match waiting.pop() {
                    Some(waits) => next = waits,
                    None => return value,
                },
            }
        }
    }

    fn room(&self, index: usize) -> usize {
        ROOM_OF_VARIABLE + self.variables.all[index].program.as_ref().map_or(0, Program::height)
    }

    /// Computes a variable and keeps its value, with so much room taken; or says which variable must have its value before.
    fn compute(&self, index: usize, taken: usize) -> Result<Result<Value, EvalError>, usize> {
        let Variable { name, program } = &self.variables.all[index];
        let (outcome, cost) = match program {
            Ok(program) => {
                self.progress().taken = taken + self.room(index);
                let run = program.run(&self.activation_before(index));
                let outcome = run.result.map_err(|error| match &*error.0 {
                    long if long.len() > MAX_ERROR => error,
                    short => EvalError::new(format!("composited variable \"{name}\" fails to evaluate: {short}")),
                });
                (outcome, run.cost)
            }
            Err(error) => (Err(EvalError::new(format!("composited variable \"{name}\" fails to compile: {error}"))), 0),
        };
        let mut progress = self.progress();
        progress.taken = taken;
        if let Some(wanted) = progress.wanted {
            return Err(wanted);
        }
        progress.cost += cost;
        Ok(self.values[index].get_or_init(|| outcome).clone())
    }
}

/// The variables before one of them, as expressions hold them. A variable may be `variables` itself, so this does not keep them alive.
#[derive(Debug)]
struct View {
    composed: Weak<Composed>,
    end: usize,
}

impl Fields for View {
    fn field(&self, name: &str) -> Result<Option<Value>, EvalError> {
        let Some(composed) = self.composed.upgrade() else { return Ok(None) };
        match composed.variables.places.get(name) {
            Some(index) if *index < self.end => composed.value(*index).map(Some),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn evaluate(variables: &[(String, String)], expression: &str) -> (Result<Value, EvalError>, u64) {
        let (composition, env) =
            Composition::compile(variables.iter().map(|(name, expression)| (name.as_str(), expression.as_str())), &Env::new());
        let composed = composition.bind(Activation::new());
        let result = Program::compile(expression, &env).unwrap().eval(&composed.activation());
        (result, composed.take_cost())
    }

    fn chain(length: usize, first: &str, step: impl Fn(usize) -> String) -> Vec<(String, String)> {
        let expression = |index: usize| if index == 0 { first.to_owned() } else { step(index) };
        (0..length).map(|index| (format!("v{index}"), expression(index))).collect()
    }

    /// KAPI-ADM-02: variables that build on each other have values however many they are, and cost what they cost one by one.
    #[test]
    fn long_chains() {
        let step = |index: usize| format!("variables.v{} + 1", index - 1);
        let (result, cost) = evaluate(&chain(10_000, "0", step), "variables.v9999");
        assert!(matches!(result, Ok(Value::Int(9999))), "{result:?}");
        let (_, cost_of_two) = evaluate(&chain(2, "0", step), "variables.v1");
        assert_eq!(cost, cost_of_two * 9999);
    }

    /// KAPI-ADM-02: neither what an expression does with errors nor how deep it goes changes that.
    #[test]
    fn long_chains_of_deep_expressions() {
        let deep = |index: usize| format!("{}(variables.v{} || false){}", "[".repeat(40), index - 1, "][0]".repeat(40));
        let (result, _) = evaluate(&chain(300, "true", deep), "variables.v299");
        assert!(matches!(result, Ok(Value::Bool(true))), "{result:?}");
    }

    /// KAPI-ADM-02: the message of a variable that fails grows with those that need it, but not for ever.
    #[test]
    fn long_chains_that_fail() {
        let (result, _) = evaluate(&chain(3, "1 / int('0')", |index| format!("variables.v{}", index - 1)), "variables.v1");
        let wanted = "composited variable \"v1\" fails to evaluate: composited variable \"v0\" fails to evaluate: division by zero";
        assert_eq!(result.unwrap_err().to_string(), wanted);
        let (result, _) = evaluate(&chain(5000, "1 / int('0')", |index| format!("variables.v{}", index - 1)), "variables.v4999");
        let error = result.unwrap_err().to_string();
        assert!(error.len() < 2 * MAX_ERROR && error.ends_with("division by zero"), "{error}");
    }

    /// KAPI-ADM-02: only what is asked for is computed, and a variable sees only those before it, whatever type it takes them for.
    #[test]
    fn what_variables_see() {
        let named = |all: &[(&str, &str)]| -> Vec<(String, String)> {
            all.iter().map(|(name, expression)| ((*name).to_owned(), (*expression).to_owned())).collect()
        };
        let (result, cost) = evaluate(&named(&[("no", "1 / int('0')"), ("yes", "true || variables.no > 0")]), "variables.yes");
        assert!(matches!(result, Ok(Value::Bool(true))) && cost == 0, "{result:?} {cost}");
        let (result, _) = evaluate(&named(&[("own", "dyn(variables).own")]), "variables.own");
        assert_eq!(result.unwrap_err().to_string(), "composited variable \"own\" fails to evaluate: no such key: own");
        let (result, _) = evaluate(&named(&[("a", "1"), ("all", "variables"), ("b", "variables.all.a + 1")]), "variables.b");
        assert!(matches!(result, Ok(Value::Int(2))), "{result:?}");
        let (result, _) = evaluate(&named(&[("a", "1"), ("a", "2")]), "variables.a");
        assert!(matches!(result, Ok(Value::Int(1))), "{result:?}");
    }
}
