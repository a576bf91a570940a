//! The expressions (CEL) of webhooks and admission policies: whether they compile, and to the type that their place demands.

use mainstay_cel::{CompileError, Env, Program, Type};
use mainstay_schema::field::{Error, Path};

/// What expressions of a webhook's or a policy's match conditions may name.
pub(super) fn conditions() -> Env {
    ["object", "oldObject", "request", "authorizer"].into_iter().fold(Env::new(), |env, name| env.variable(name, Type::Dyn))
}

/// What the validations of a policy may name.
pub(super) fn validations(with_params: bool) -> Env {
    let env = conditions().variable("namespaceObject", Type::Dyn).variable("variables", Type::Dyn);
    if with_params { env.variable("params", Type::Dyn) } else { env }
}

/// The type that a place demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Any,
    Bool,
    Text,
    TextOrNull,
}

/// What is wrong with an expression that is not empty.
pub(super) fn problem(text: &str, env: &Env, wanted: Wanted, path: &Path) -> Option<Error> {
    let program = match Program::compile(text, env) {
        Ok(program) => program,
        // Whether the authorizer's functions are used well is known where the policies run.
        Err(CompileError::Invalid(_)) if text.contains("authorizer") => return None,
        Err(error) => return Some(Error::invalid(path, text, error.to_string())),
    };
    let (fits, name) = match (wanted, program.kind()) {
        (Wanted::Any, _) => return None,
        (Wanted::Bool, kind) => (matches!(kind, Type::Bool), "bool"),
        (Wanted::Text, kind) => (matches!(kind, Type::String), "string"),
        (Wanted::TextOrNull, kind) => (matches!(kind, Type::String | Type::Null), "one of string or null"),
    };
    // A value whose type only shows when it runs fits nowhere but where any does.
    (!fits).then(|| Error::invalid(path, text, format!("must evaluate to {name} but got {}", program.kind())))
}
