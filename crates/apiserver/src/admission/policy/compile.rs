//! A policy, compiled, and what it says of one object.

use mainstay_cel::{Activation, AdmissionVariables, Composition, RUNTIME_BUDGET, Value as Cel, admission_env};
use serde_json::Value;

use super::params;
use crate::admission::expressions::{Bindings, Expression, ExpressionError, MatchConditions, OutOfBudget, Wanted};
use crate::admission::matching::Matching;

/// The longest message that an expression may make.
const MAX_MESSAGE: usize = 5 * 1024;
/// The longest value of an audit annotation.
const MAX_ANNOTATION: usize = 10 * 1024;

/// A compiled policy.
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) matching: Matching,
    /// `failurePolicy: Ignore`.
    pub(super) ignores_failures: bool,
    pub(super) params: Option<params::Kind>,
    conditions: MatchConditions,
    variables: Composition,
    validations: Vec<Validation>,
    annotations: Vec<(String, Expression)>,
}

struct Validation {
    expression: Expression,
    told: Option<Expression>,
    message: String,
    reason: Option<String>,
}

/// The verdict of a policy on one object with one parameter.
#[derive(Default)]
pub(super) struct Verdict {
    pub(super) denials: Vec<Decision>,
    pub(super) annotations: Vec<Annotation>,
}

/// A validation that does not hold, or could not be decided.
pub(super) struct Decision {
    /// Its place among the policy's validations.
    pub(super) index: usize,
    /// `None` where the policy gives none.
    pub(super) reason: Option<String>,
    pub(super) message: String,
}

/// A note for the audit log.
pub(super) enum Annotation {
    Publish {
        key: String,
        value: String,
    },
    /// It could not be made, which denies the request.
    Fail(String),
}

impl Policy {
    pub(super) fn compile(object: &Value) -> Self {
        let spec = &object["spec"];
        let text = |holder: &Value, field: &str| holder.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let list = |field: &str| spec.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
        let params = spec.get("paramKind").filter(|kind| kind.is_object()).map(params::Kind::read);
        let has_params = params.is_some();
        let variables: Vec<(String, String)> =
            list("variables").iter().map(|variable| (text(variable, "name"), text(variable, "expression"))).collect();
        let named = || variables.iter().map(|(name, expression)| (name.as_str(), expression.as_str()));
        let full = AdmissionVariables { params: has_params, authorizer: true };
        let (variables, env) = Composition::compile(named(), &admission_env(full));
        let (_, env_of_messages) = Composition::compile(named(), &admission_env(AdmissionVariables { authorizer: false, ..full }));
        let validation = |validation: &Value| {
            let told = text(validation, "messageExpression");
            Validation {
                expression: Expression::compile(&text(validation, "expression"), &env, Wanted::Bool),
                told: (!told.is_empty()).then(|| Expression::compile(&told, &env_of_messages, Wanted::Text)),
                message: text(validation, "message").trim().to_owned(),
                reason: validation.get("reason").and_then(Value::as_str).map(str::to_owned),
            }
        };
        let annotation = |annotation: &Value| {
            let expression = Expression::compile(&text(annotation, "valueExpression"), &env, Wanted::TextOrNull);
            (text(annotation, "key"), expression)
        };
        Self {
            name: text(&object["metadata"], "name"),
            matching: Matching::of_resources(&spec["matchConstraints"]),
            ignores_failures: spec["failurePolicy"] == "Ignore",
            params,
            conditions: MatchConditions::compile(spec, &env),
            validations: list("validations").iter().map(validation).collect(),
            annotations: list("auditAnnotations").iter().map(annotation).collect(),
            variables,
        }
    }

    /// The verdict with one parameter; `activation` is what all parameters share.
    pub(super) fn validate(&self, activation: &Activation, param: Option<&Value>) -> Verdict {
        let activation = activation.clone().with("params", param.map_or(Cel::Null, Cel::from_json));
        let fresh = || Bindings::composed(self.variables.bind(activation.clone()));
        if !self.conditions.is_empty() {
            match self.conditions.hold(&fresh()) {
                Ok(true) => {}
                Ok(false) => return Verdict::default(),
                Err(error) => return self.undecided(error.to_string()),
            }
        }
        let bindings = fresh();
        let mut budget = RUNTIME_BUDGET;
        let mut results = Vec::with_capacity(self.validations.len());
        for validation in &self.validations {
            match validation.expression.evaluate(&bindings, &mut budget) {
                Ok(result) => results.push(result),
                Err(error) => return self.undecided(error.to_string()),
            }
        }
        let messages = self.messages(&fresh(), budget);
        let mut verdict = Verdict::default();
        for (index, (validation, result)) in self.validations.iter().zip(results).enumerate() {
            let failed = |message: String| (!self.ignores_failures).then_some(Decision { index, reason: None, message });
            let decision = match (result, &messages) {
                (Err(error), _) => failed(error.to_string()),
                (Ok(_), Err(error)) => failed(format!("failed messageExpression: {error}")),
                (Ok(Cel::Bool(true)), _) => None,
                (Ok(_), Ok(messages)) => {
                    let message = validation.message_or(messages.get(index).and_then(Option::as_deref));
                    Some(Decision { index, reason: validation.reason.clone(), message })
                }
            };
            verdict.denials.extend(decision);
        }
        let mut budget = RUNTIME_BUDGET;
        let bindings = fresh();
        for (key, expression) in &self.annotations {
            match expression.evaluate(&bindings, &mut budget) {
                Ok(result) => verdict.annotations.extend(self.annotation(key, result)),
                Err(error) => return self.undecided(error.to_string()),
            }
        }
        verdict
    }

    /// Nothing could be decided at all.
    fn undecided(&self, message: String) -> Verdict {
        let denials = if self.ignores_failures { Vec::new() } else { vec![Decision { index: 0, reason: None, message }] };
        Verdict { denials, annotations: Vec::new() }
    }

    /// The messages that expressions make, where they can.
    fn messages(&self, bindings: &Bindings, mut budget: u64) -> Result<Vec<Option<String>>, OutOfBudget> {
        let mut out = Vec::with_capacity(self.validations.len());
        for validation in &self.validations {
            let Some(told) = &validation.told else {
                out.push(None);
                continue;
            };
            let result = told.evaluate(bindings, &mut budget)?;
            out.push(match result {
                Ok(Cel::Text(text)) => Some(text.trim().to_owned()),
                _ => None,
            });
        }
        Ok(out)
    }

    fn annotation(&self, key: &str, result: Result<Cel, ExpressionError>) -> Option<Annotation> {
        match result {
            Ok(Cel::Text(text)) => {
                let value = text.trim();
                let mut end = value.len().min(MAX_ANNOTATION);
                while !value.is_char_boundary(end) {
                    end -= 1;
                }
                (!value.is_empty()).then(|| Annotation::Publish { key: key.to_owned(), value: value[..end].to_owned() })
            }
            Ok(_) => None,
            Err(_) if self.ignores_failures => None,
            Err(error) => Some(Annotation::Fail(error.to_string())),
        }
    }
}

impl Validation {
    /// The message: what the expression made, if it is fit to print, else the fixed one, else the expression itself.
    fn message_or(&self, told: Option<&str>) -> String {
        let fit = told.filter(|text| !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n'));
        match (fit, self.message.as_str()) {
            (Some(text), _) => text.to_owned(),
            (None, "") => format!("failed expression: {}", self.expression.text.trim()),
            (None, message) => message.to_owned(),
        }
    }
}
