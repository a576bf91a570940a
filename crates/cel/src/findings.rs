//! What rules say of an object, as findings of its validation (KAPI-CRD-03): one way from a violation to the words that people read, for
//! the API server and for whoever asks beforehand what it would say.

use mainstay_schema::field::{BadValue, Error as FieldError, Kind, Path};
use mainstay_schema::validate::blocks_rules;
use serde_json::Value;

use crate::rules::{CompiledRules, Reason, RuleError};

impl CompiledRules {
    /// Adds the findings about an object to those of its schema, and says what the rules cost, in CEL's units; never more than
    /// [`RUNTIME_BUDGET`](crate::RUNTIME_BUDGET), where they end with a finding. `old` is the object before an update; without it, rules
    /// about `oldSelf` do not run, unless they say `optionalOldSelf`.
    pub fn check(&self, value: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) -> u64 {
        if self.is_empty() {
            return 0;
        }
        // Values of the wrong type make rules meaningless: say so instead of evaluating them.
        if let Some(blocked) = blocks_rules(errors) {
            errors.push(blocked);
            return 0;
        }
        let (violations, cost) = self.run(value, old);
        for violation in violations {
            let path = if violation.path.is_empty() { Path::root() } else { Path::new(violation.path) };
            errors.push(finding(violation.reason, &path, violation.value.map_or(BadValue::Omitted, BadValue::Value), violation.message));
        }
        cost
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
    // Of a duplicate Kubernetes says the value alone.
    let detail = if kind == Kind::Duplicate { String::new() } else { detail };
    FieldError::new(kind, path, value, detail)
}

#[cfg(test)]
mod tests {
    use mainstay_schema::Schema;
    use serde_json::json;

    use super::*;

    fn check(value: &Value, old: Option<&Value>) -> (Vec<String>, u64) {
        let schema = Schema::from_json(&json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["size"],
            "properties": {"size": {"type": "integer"}}, "x-kubernetes-validations": [
                {"rule": "self.size < 10", "message": "too large"},
                {"rule": "self.size >= oldSelf.size", "message": "never smaller"}]}}}));
        let compiled = schema.map(|schema| CompiledRules::compile(&schema, ""));
        let Ok(Ok(rules)) = compiled else { return (vec![format!("{compiled:?}")], 0) };
        let mut errors = Vec::new();
        let cost = rules.check(value, old, &mut errors);
        (errors.iter().map(ToString::to_string).collect(), cost)
    }

    /// KAPI-CRD-03: an object on its own is not held against rules about what it was before; an update is.
    #[test]
    fn transitions_need_an_old_object() {
        let (small, large) = (json!({"spec": {"size": 1}}), json!({"spec": {"size": 11}}));
        let (alone, cost) = check(&large, None);
        assert_eq!(alone, ["spec: Invalid value: too large"]);
        assert!(cost > 0 && cost < crate::RUNTIME_BUDGET, "{cost}");
        assert_eq!(check(&small, None).0, Vec::<String>::new());
        assert_eq!(check(&small, Some(&json!({"spec": {"size": 2}}))).0, ["spec: Invalid value: never smaller"]);
    }
}
