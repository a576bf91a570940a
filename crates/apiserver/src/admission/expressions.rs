//! Expressions (CEL) of admission: their variables for one request, their budgets, match conditions.

use std::fmt;
use std::sync::Arc;

use mainstay_cel::{
    AccessCheck, AccessDecision, AccessQuestion, Activation, Authorizer, CompileError, Composed, Env, MATCH_CONDITIONS_BUDGET, Program,
    Type, Value as Cel,
};
use mainstay_rbac::UserInfo;
use serde_json::Value;

use super::lookup::Lookup;
use super::matching::namespace_of;
use super::review::{View, admission_request};
use super::step::Request;
use crate::request::RequestInfo;

/// Why an expression has no value, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct ExpressionError(pub(super) String);

/// An expression of a configuration, compiled.
pub(super) struct Expression {
    pub(super) text: String,
    program: Result<Program, ExpressionError>,
}

/// The type that an expression must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Bool,
    Text,
    TextOrNull,
}

/// No further expression is run: the budget of the object is spent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("validation failed due to running out of cost budget, no further validation rules will be run")]
pub(super) struct OutOfBudget;

impl Expression {
    pub(super) fn compile(text: &str, env: &Env, wanted: Wanted) -> Self {
        let words = |error: CompileError| ExpressionError(error.to_string());
        let program = Program::compile(text, env).map_err(words).and_then(|program| {
            let (fits, names) = match (wanted, program.kind()) {
                (Wanted::Bool, kind) => (matches!(kind, Type::Bool), "bool"),
                (Wanted::Text, kind) => (matches!(kind, Type::String), "string"),
                (Wanted::TextOrNull, kind) => (matches!(kind, Type::String | Type::Null), "one of [string null_type]"),
            };
            if fits { Ok(program) } else { Err(ExpressionError(format!("must evaluate to {names} but got {}", program.kind()))) }
        });
        Self { text: text.to_owned(), program }
    }

    /// Its value, or why there is none; what it took is taken from the budget.
    pub(super) fn evaluate(&self, bindings: &Bindings, budget: &mut u64) -> Result<Result<Cel, ExpressionError>, OutOfBudget> {
        let program = match &self.program {
            Ok(program) => program,
            Err(error) => return Ok(Err(ExpressionError(format!("compilation error: {error}")))),
        };
        let run = program.run(&bindings.activation);
        let composed = bindings.composed.as_ref().map_or(0, |composed| composed.take_cost());
        *budget = budget.checked_sub(composed).and_then(|rest| rest.checked_sub(run.cost)).ok_or(OutOfBudget)?;
        Ok(run.result.map_err(|error| ExpressionError(format!("expression '{}' resulted in error: {error}", self.text))))
    }
}

/// The values of all variables for one request.
pub(super) struct Bindings {
    activation: Activation,
    composed: Option<Arc<Composed>>,
}

impl Bindings {
    /// Without variables of the configuration's own.
    pub(super) fn plain(activation: Activation) -> Self {
        Self { activation, composed: None }
    }

    /// With composed variables.
    pub(super) fn composed(composed: Arc<Composed>) -> Self {
        Self { activation: composed.activation(), composed: Some(composed) }
    }
}

/// The variables of every expression about a request.
pub(super) fn activation(request: &Request<'_>, view: &View<'_>, namespace: Option<&Value>) -> Activation {
    let shown = |object: Option<&Value>| object.map_or(Cel::Null, Cel::from_json);
    let authorizer: Arc<dyn Authorizer> =
        Arc::new(RequestAuthorizer { lookup: request.lookup.clone(), user: request.api_request.user.clone() });
    Activation::new()
        .with("object", shown(view.object.as_deref()))
        .with("oldObject", shown(view.old.as_deref()))
        .with("request", Cel::from_json(&admission_request(request, &view.served, "")))
        .with("namespaceObject", shown(namespace))
        .with("authorizer", Cel::authorizer(authorizer.clone()))
        .with("authorizer.requestResource", Cel::request_authorizer(authorizer, request_resource(request)))
}

fn request_resource(request: &Request<'_>) -> AccessCheck {
    let facts = &request.served.facts;
    AccessCheck::Resource {
        group: facts.group.clone(),
        resource: facts.plural.clone(),
        subresource: request.subresource.to_owned(),
        namespace: namespace_of(request).to_owned(),
        name: request.name.clone(),
        field_selector: String::new(),
        label_selector: String::new(),
    }
}

/// The permissions of the request's user, or of a ServiceAccount.
struct RequestAuthorizer {
    lookup: Arc<dyn Lookup>,
    user: Arc<UserInfo>,
}

impl fmt::Debug for RequestAuthorizer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("RequestAuthorizer").field("user", &self.user.name).finish_non_exhaustive()
    }
}

impl Authorizer for RequestAuthorizer {
    fn decide(&self, question: &AccessQuestion) -> AccessDecision {
        let account = question.service_account.as_ref().map(|(namespace, name)| UserInfo::service_account(namespace, name));
        let mut info = RequestInfo { verb: question.verb.clone(), ..RequestInfo::default() };
        match &question.check {
            AccessCheck::Path(path) => path.clone_into(&mut info.path),
            // Rules of roles know no selectors, so these narrow nothing here.
            AccessCheck::Resource { group, resource, subresource, namespace, name, .. } => {
                info.is_resource = true;
                "*".clone_into(&mut info.version);
                group.clone_into(&mut info.group);
                resource.clone_into(&mut info.resource);
                subresource.clone_into(&mut info.subresource);
                namespace.clone_into(&mut info.namespace);
                name.clone_into(&mut info.name);
            }
        }
        let decision = self.lookup.decide(account.as_ref().unwrap_or(&self.user), &info);
        AccessDecision { allowed: decision.allowed, reason: decision.reason, error: None }
    }
}

/// Conditions that all must hold for a request to be meant.
pub(super) struct MatchConditions {
    conditions: Vec<Expression>,
    /// `failurePolicy: Ignore`: conditions that fail mean no match.
    ignores_failures: bool,
}

impl MatchConditions {
    pub(super) fn compile(holder: &Value, env: &Env) -> Self {
        let conditions = holder.get("matchConditions").and_then(Value::as_array).into_iter().flatten();
        let text = |condition: &Value| condition.get("expression").and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            conditions: conditions.map(|condition| Expression::compile(&text(condition), env, Wanted::Bool)).collect(),
            ignores_failures: holder.get("failurePolicy").and_then(Value::as_str) == Some("Ignore"),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// One that does not hold decides; failures count only when none does.
    pub(super) fn hold(&self, bindings: &Bindings) -> Result<bool, ExpressionError> {
        let mut budget = MATCH_CONDITIONS_BUDGET;
        let mut failures = Vec::new();
        let mut results = Vec::with_capacity(self.conditions.len());
        for condition in &self.conditions {
            match condition.evaluate(bindings, &mut budget) {
                Ok(result) => results.push(result),
                Err(_) if self.ignores_failures => return Ok(false),
                Err(error) => return Err(ExpressionError(error.to_string())),
            }
        }
        for result in results {
            match result {
                Ok(Cel::Bool(false)) => return Ok(false),
                Ok(_) => {}
                Err(error) => failures.push(error),
            }
        }
        match &failures[..] {
            [] => Ok(true),
            _ if self.ignores_failures => Ok(false),
            [only] => Err(only.clone()),
            many => {
                let many: Vec<String> = many.iter().map(ToString::to_string).collect();
                Err(ExpressionError(format!("[{}]", many.join(", "))))
            }
        }
    }
}

/// The namespace that expressions see, without what belongs to its owners alone.
pub(super) fn namespace_object(mut namespace: Value) -> Value {
    if let Some(metadata) = namespace.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        metadata.remove("ownerReferences");
    }
    namespace
}

/// The conditions of a webhook, for one request.
pub(super) fn of_webhook(request: &Request<'_>, view: &View<'_>) -> Bindings {
    Bindings::plain(activation(request, view, None))
}
