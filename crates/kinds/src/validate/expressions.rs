//! The expressions (CEL) of webhooks and admission policies: they must compile, and to the type that their place demands.

use mainstay_cel::{AdmissionVariables, Composer, Env, Program, Type, admission_env};
use mainstay_schema::field::{Error, Path};

/// The names that expressions of a webhook's match conditions may use.
pub(super) fn conditions() -> Env {
    admission_env(AdmissionVariables { params: false, authorizer: true })
}

/// The names that the expressions of a policy may use, to which its variables are added one by one.
pub(super) fn of_policy(params: bool) -> Composer {
    Composer::new(&admission_env(AdmissionVariables { params, authorizer: true }))
}

/// The type that a place demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Bool,
    Text,
    TextOrNull,
}

/// The finding about an expression that is not empty.
pub(super) fn problem(text: &str, env: &Env, wanted: Wanted, path: &Path) -> Option<Error> {
    let program = match Program::compile(text, env) {
        Ok(program) => program,
        Err(error) => return Some(Error::invalid(path, text, error.to_string())),
    };
    let (fits, name) = match (wanted, program.kind()) {
        (Wanted::Bool, kind) => (matches!(kind, Type::Bool), "bool"),
        (Wanted::Text, kind) => (matches!(kind, Type::String), "string"),
        (Wanted::TextOrNull, kind) => (matches!(kind, Type::String | Type::Null), "one of [string null_type]"),
    };
    // A value whose type only shows when it runs fits only if any type does.
    (!fits).then(|| Error::invalid(path, text, format!("must evaluate to {name} but got {}", program.kind())))
}
