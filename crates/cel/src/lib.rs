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

mod ast;
mod check;
mod convert;
mod error;
mod eval;
mod field_path;
mod functions;
mod lexer;
mod library;
mod parser;
mod program;
mod rules;
mod signatures;
mod types;
mod value;

pub use convert::from_schema;
pub use error::{CompileError, EvalError};
pub use program::{Activation, Env, Program};
pub use rules::{CompiledRules, Reason, RuleError, Violation, validate_rules};
pub use types::Type;
pub use value::{Key, List, Value};
