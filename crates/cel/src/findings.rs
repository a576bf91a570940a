//! Violations of rules as findings of an object's validation (KAPI-CRD-03): one path from a violation to the words that people read, for
//! the API server and for clients that ask beforehand what it would say.

use mainstay_schema::field::{BadValue, Error as FieldError, Kind, Path};
use mainstay_schema::validate::blocks_rules;
use serde_json::Value;

use crate::rules::{CompiledRules, Reason, RuleError, Violation};

/// The result of running rules over an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluated {
    /// The rules that the object breaks.
    pub violations: Vec<Violation>,
    /// The cost in CEL's units; never more than [`RUNTIME_BUDGET`](crate::RUNTIME_BUDGET), at which the rules end with a violation.
    pub cost: u64,
}

impl CompiledRules {
    /// Runs the rules over an object whose schema found `errors`; if these make rules meaningless, the finding that says so. `old` is the
    /// object before an update; without it, rules about `oldSelf` do not run, unless they say `optionalOldSelf`.
    pub fn evaluate(&self, value: &Value, old: Option<&Value>, errors: &[FieldError]) -> Result<Evaluated, FieldError> {
        if self.is_empty() {
            return Ok(Evaluated::default());
        }
        // Values of the wrong type make rules meaningless: say so instead of evaluating them.
        if let Some(blocked) = blocks_rules(errors) {
            return Err(blocked);
        }
        let (violations, cost) = self.run(value, old);
        Ok(Evaluated { violations, cost })
    }

    /// Adds the findings about an object to those of its schema, as [`CompiledRules::evaluate`] tells them.
    pub fn check(&self, value: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        match self.evaluate(value, old, errors) {
            Ok(evaluated) => errors.extend(evaluated.violations.into_iter().map(FieldError::from)),
            Err(blocked) => errors.push(blocked),
        }
    }
}

impl From<Violation> for FieldError {
    fn from(violation: Violation) -> Self {
        let path = if violation.path.is_empty() { Path::root() } else { Path::new(violation.path) };
        finding(violation.reason, &path, violation.value.map_or(BadValue::Omitted, BadValue::Value), violation.message)
    }
}

impl From<RuleError> for FieldError {
    fn from(error: RuleError) -> Self {
        finding(error.reason, &Path::new(error.path), error.value.map_or(BadValue::Omitted, BadValue::Json), error.detail)
    }
}

fn finding(reason: Reason, path: &Path, value: BadValue, detail: String) -> FieldError {
    let kind = match reason {
        Reason::Invalid => Kind::Invalid,
        Reason::Forbidden => Kind::Forbidden,
        Reason::Required => Kind::Required,
        Reason::Duplicate => Kind::Duplicate,
        Reason::NotSupported => Kind::NotSupported,
    };
    // For a duplicate, Kubernetes shows the value alone.
    let detail = if kind == Kind::Duplicate { String::new() } else { detail };
    FieldError::new(kind, path, value, detail)
}

#[cfg(test)]
mod tests {
    use mainstay_schema::Schema;
    use serde_json::json;

    use super::*;

    fn check(value: &Value, old: Option<&Value>) -> Vec<String> {
        let schema = Schema::from_json(&json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["size"],
            "properties": {"size": {"type": "integer"}}, "x-kubernetes-validations": [
                {"rule": "self.size < 10", "message": "too large"},
                {"rule": "self.size >= oldSelf.size", "message": "never smaller"}]}}}));
        let compiled = schema.map(|schema| CompiledRules::compile(&schema, ""));
        let Ok(Ok(rules)) = compiled else { return vec![format!("{compiled:?}")] };
        let evaluated = rules.evaluate(value, old, &[]);
        assert!(evaluated.is_ok_and(|found| found.cost > 0 && found.cost < crate::RUNTIME_BUDGET));
        let mut errors = Vec::new();
        rules.check(value, old, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    /// KAPI-CRD-03: an object on its own is not held against rules about what it was before; an update is.
    #[test]
    fn transitions_need_an_old_object() {
        let (small, large) = (json!({"spec": {"size": 1}}), json!({"spec": {"size": 11}}));
        assert_eq!(check(&large, None), ["spec: Invalid value: too large"]);
        assert_eq!(check(&small, None), Vec::<String>::new());
        assert_eq!(check(&small, Some(&json!({"spec": {"size": 2}}))), ["spec: Invalid value: never smaller"]);
    }
}
