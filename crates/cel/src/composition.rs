//! Named expressions that others build on: the `variables` of an admission policy. Each is computed at most once for an object, and
//! only when something asks for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crate::error::{CompileError, EvalError};
use crate::program::{Activation, Env, Program};
use crate::types::{Record, Type};
use crate::value::{Fields, Value};

/// The name by which expressions know them.
const VARIABLES: &str = "variables";

/// A name with its expression.
type Variable = (Arc<str>, Result<Program, CompileError>);

/// Compiled variables, each of which may use those before it.
#[derive(Clone, Debug, Default)]
pub struct Composition {
    variables: Arc<[Variable]>,
}

impl Composition {
    /// Compiles variables in their order. The environment that comes back declares them; one that does not compile has any type,
    /// and fails whatever uses it.
    pub fn compile<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>, env: &Env) -> (Self, Env) {
        let mut fields: Vec<(Arc<str>, Type)> = Vec::new();
        let mut compiled = Vec::new();
        let declare = |fields: &[(Arc<str>, Type)]| {
            env.clone().variable(VARIABLES, Record::new("kubernetes.variables", fields.iter().cloned()).kind())
        };
        for (name, expression) in variables {
            let program = Program::compile(expression, &declare(&fields));
            let kind = program.as_ref().map_or(Type::Dyn, |program| program.kind().clone());
            fields.push((name.into(), kind));
            compiled.push((name.into(), program));
        }
        let env = declare(&fields);
        (Self { variables: compiled.into() }, env)
    }

    /// The variables for one activation.
    pub fn bind(&self, activation: Activation) -> Arc<Composed> {
        Arc::new_cyclic(|this| Composed {
            variables: self.variables.clone(),
            values: self.variables.iter().map(|_| OnceLock::new()).collect(),
            cost: AtomicU64::new(0),
            activation,
            this: this.clone(),
        })
    }
}

/// The variables of one object.
#[derive(Debug)]
pub struct Composed {
    variables: Arc<[Variable]>,
    values: Vec<OnceLock<Result<Value, EvalError>>>,
    cost: AtomicU64,
    activation: Activation,
    this: Weak<Composed>,
}

impl Composed {
    /// The activation with `variables` in it.
    pub fn activation(&self) -> Activation {
        self.activation.clone().with(VARIABLES, Value::Lazy(Arc::new(View(self.this.clone()))))
    }

    /// What computing variables took since this was last asked.
    pub fn take_cost(&self) -> u64 {
        self.cost.swap(0, Ordering::Relaxed)
    }

    fn compute(&self, index: usize) -> Result<Value, EvalError> {
        let (name, program) = &self.variables[index];
        let program = match program {
            Ok(program) => program,
            Err(error) => return Err(EvalError::new(format!("composited variable \"{name}\" fails to compile: {error}"))),
        };
        let run = program.run(&self.activation());
        self.cost.fetch_add(run.cost, Ordering::Relaxed);
        run.result.map_err(|error| EvalError::new(format!("composited variable \"{name}\" fails to evaluate: {error}")))
    }
}

/// The variables as expressions hold them. A variable may be `variables` itself, so this does not keep them alive.
#[derive(Debug)]
struct View(Weak<Composed>);

impl Fields for View {
    fn field(&self, name: &str) -> Result<Option<Value>, EvalError> {
        let Some(composed) = self.0.upgrade() else { return Ok(None) };
        let Some(index) = composed.variables.iter().position(|(known, _)| &**known == name) else { return Ok(None) };
        // A variable sees only those before it, so this never waits for itself.
        composed.values[index].get_or_init(|| composed.compute(index)).clone().map(Some)
    }
}
