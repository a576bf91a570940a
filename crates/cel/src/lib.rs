//! The Common Expression Language in Kubernetes' environments.
//!
//! Parser, type checker and evaluator are our own, because Kubernetes' dialect needs all three: refusals carry the texts that people
//! know, types come from schemas, and lists compare by what their schema says (sets, keyed lists).
//!
//! ```text
//!   text ── lexer, parser ── syntax tree ── check (signatures, types) ── Program
//!                                                                          │ eval (functions, library)
//!   JSON + schema ── convert ── Value ── Activation ───────────────────────┤
//!                                                                          └── Value
//!   rules: x-kubernetes-validations of a whole schema, compiled once, run over objects (KAPI-CRD-03)
//! ```

mod admission;
mod ast;
mod check;
mod composition;
mod convert;
mod cost;
mod device;
mod error;
mod eval;
mod field_path;
mod findings;
mod fold;
mod functions;
mod lexer;
mod library;
mod parser;
mod program;
mod rules;
mod signatures;
mod types;
mod value;

pub use admission::{AdmissionVariables, admission_env, typed_admission_env};
pub use composition::{Composed, Composer, Composition};
pub use convert::from_schema;
pub use cost::range::Range;
pub use cost::{MATCH_CONDITIONS_BUDGET, PER_CALL_LIMIT, RUNTIME_BUDGET};
pub use device::device_env;
pub use error::{CompileError, EvalError};
pub use findings::Evaluated;
pub use library::authz::{AccessCheck, AccessDecision, AccessQuestion, Authorizer};
pub use program::{Activation, Env, Program, Run};
pub use rules::{CompiledRules, Reason, RuleError, Violation, validate_rules};
pub use types::{Record, Type};
pub use value::{Fields, Key, List, Value};
