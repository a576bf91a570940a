//! `x-kubernetes-validations` of a whole schema (KAPI-CRD-03): compiled once, run over objects.
//!
//! A rule that mentions `oldSelf` runs only if the old value can be found: under objects, maps and keyed lists, not below other
//! lists. A failure at a value that did not change is forgiven, as Kubernetes does, so that tightened rules do not lock old objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstay_golang::json::{self, Html};
use mainstay_schema::{Additional, ListType, Schema, SchemaRef, Type as Kind, ValidationRule};
use serde_json::Value as Json;

use crate::convert::from_schema;
use crate::cost::decl::{Decl, multiplier};
use crate::cost::{RULE_ESTIMATE_LIMIT, RUNTIME_BUDGET, SCHEMA_ESTIMATE_LIMIT};
use crate::field_path;
use crate::program::{Activation, Env, Program};
use crate::types::{Type, with_metadata};
use crate::value::Value;

/// The longest message that an expression may make.
const MAX_MESSAGE: usize = 5 * 1024;

/// Every rule of a schema, compiled.
#[derive(Clone, Debug)]
pub struct CompiledRules {
    root: Option<Node>,
}

/// A rule that is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{path}: {detail}")]
pub struct RuleError {
    /// Path of the rule: `properties[spec].x-kubernetes-validations[0].rule`, below the prefix given.
    pub path: String,
    /// The reason for refusing it: `FieldValueInvalid`, `FieldValueRequired` ...
    pub reason: Reason,
    /// The refused value as JSON text, member order and escapes as the API server prints them; absent when something is missing.
    pub value: Option<String>,
    /// The problem in words.
    pub detail: String,
}

/// The kind of a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reason {
    /// `FieldValueInvalid`
    #[default]
    Invalid,
    /// `FieldValueForbidden`
    Forbidden,
    /// `FieldValueRequired`
    Required,
    /// `FieldValueDuplicate`
    Duplicate,
    /// `FieldValueNotSupported`
    NotSupported,
}

impl Reason {
    /// The reason's name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Forbidden => "FieldValueForbidden",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotSupported => "FieldValueNotSupported",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "FieldValueInvalid" => Self::Invalid,
            "FieldValueForbidden" => Self::Forbidden,
            "FieldValueRequired" => Self::Required,
            "FieldValueDuplicate" => Self::Duplicate,
            _ => return None,
        })
    }
}

/// A value that breaks a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// The field, as Kubernetes writes paths; empty for the whole object.
    pub path: String,
    /// The kind, as the rule states it.
    pub reason: Reason,
    /// The message of the rule.
    pub message: String,
    /// The rule's text.
    pub rule: String,
    /// The offending value; absent for objects and lists, whose values are not repeated in messages.
    pub value: Option<Json>,
}

#[derive(Clone, Debug)]
struct Node {
    schema: SchemaRef,
    rules: Vec<Rule>,
    properties: BTreeMap<String, Node>,
    values: Option<Box<Node>>,
    items: Option<Box<Node>>,
    all_of: Vec<Node>,
}

#[derive(Clone, Debug)]
struct Rule {
    program: Program,
    /// The text of the program.
    source: String,
    message_program: Option<Program>,
    /// The text of that program.
    message_source: String,
    uses_old: bool,
    optional_old: bool,
    reason: Reason,
    field_path: String,
    /// The message without an expression.
    message: String,
    /// The name of the rule in errors.
    name: String,
}

impl CompiledRules {
    /// Compiles the rules of a custom resource's whole schema, or tells every one that cannot be; paths of errors begin with `prefix`.
    /// Their cost is not checked: a rule that was accepted once stays in force.
    pub fn compile(schema: &Schema, prefix: &str) -> Result<Self, Vec<RuleError>> {
        let (root, compiler) = Compiler::run(schema, prefix, u64::MAX);
        if compiler.errors.is_empty() { Ok(Self { root }) } else { Err(compiler.errors) }
    }

    /// Everything for which a new schema's rules are refused: what [`CompiledRules::compile`] tells, and estimates over the limits.
    pub fn refusals(schema: &Schema, prefix: &str) -> Vec<RuleError> {
        let (_, mut compiler) = Compiler::run(schema, prefix, RULE_ESTIMATE_LIMIT);
        compiler.whole_schema(prefix);
        compiler.errors
    }

    /// Returns true if there are no rules at all.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Runs every rule over an object; `old` is the object before an update.
    pub fn validate(&self, value: &Json, old: Option<&Json>) -> Vec<Violation> {
        self.run(value, old).0
    }

    /// The same, with what it cost.
    pub(crate) fn run(&self, value: &Json, old: Option<&Json>) -> (Vec<Violation>, u64) {
        let mut pass = Pass { found: Vec::new(), budget: RUNTIME_BUDGET, ended: false };
        if let Some(root) = &self.root {
            root.validate(value, old, false, "", &mut pass);
        }
        (pass.found, RUNTIME_BUDGET - pass.budget)
    }
}

/// One pass over an object, with what it may still cost.
struct Pass {
    found: Vec<Violation>,
    budget: u64,
    /// No further rules are run.
    ended: bool,
}

impl Pass {
    /// Takes the cost of a run; says whether the budget was enough.
    fn pays(&mut self, cost: u64) -> bool {
        let rest = self.budget.checked_sub(cost);
        self.ended |= rest.is_none();
        self.budget = rest.unwrap_or_default();
        rest.is_some()
    }
}

/// Compiles and runs the rules of a schema over one object.
pub fn validate_rules(schema: &Schema, value: &Json, old: Option<&Json>) -> Result<Vec<Violation>, Vec<RuleError>> {
    Ok(CompiledRules::compile(schema, "")?.validate(value, old))
}

struct Compiler {
    errors: Vec<RuleError>,
    /// The most that one rule may be estimated at.
    limit: u64,
    /// The estimate of all rules together.
    total: u64,
    /// The paths of those that count, with their estimates.
    expensive: Vec<(String, u64)>,
}

/// Rules that are named when all together are too expensive.
const NAMED: usize = 4;

fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

impl Compiler {
    fn run(schema: &Schema, prefix: &str, limit: u64) -> (Option<Node>, Self) {
        let mut compiler = Self { errors: Vec::new(), limit, total: 0, expensive: Vec::new() };
        let full = with_metadata(&SchemaRef::new(schema.clone()));
        let root = compiler.node(&full, Some(&full), prefix, &Above { blind: None, times: Some(1) });
        (root, compiler)
    }

    /// The estimates of all rules together.
    fn whole_schema(&mut self, prefix: &str) {
        if self.total <= SCHEMA_ESTIMATE_LIMIT {
            return;
        }
        self.expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        for (path, _) in std::mem::take(&mut self.expensive).into_iter().take(NAMED) {
            let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            self.refuse(path, Reason::Forbidden, None, detail);
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        self.refuse(prefix.to_owned(), Reason::Forbidden, None, over_budget(what, self.total, SCHEMA_ESTIMATE_LIMIT));
    }

    /// Weighs the estimate of one expression.
    fn weigh(&mut self, path: &str, what: &str, cost: u64) {
        if cost > self.limit {
            self.refuse(path.to_owned(), Reason::Forbidden, None, over_budget(what, cost, self.limit));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_ESTIMATE_LIMIT / 100 {
            self.expensive.push((path.to_owned(), cost));
        }
    }

    /// `typed` is the node whose type the rules see, which differs from `schema` only below `allOf`.
    fn node(&mut self, schema: &SchemaRef, typed: Option<&SchemaRef>, path: &str, above: &Above<'_>) -> Option<Node> {
        let typed = typed.unwrap_or(schema);
        let blind = above.blind;
        let times = above.times.zip(multiplier(schema)).map(|(times, more)| times.saturating_mul(more));
        let below = Above { blind, times };
        let mut node =
            Node { schema: typed.clone(), rules: Vec::new(), properties: BTreeMap::new(), values: None, items: None, all_of: Vec::new() };
        for (name, property) in &schema.properties {
            let typed = typed.properties.get(name);
            if let Some(inner) = self.node(property, typed, &format!("{}[{name}]", child(path, "properties")), &below) {
                node.properties.insert(name.clone(), inner);
            }
        }
        if let Additional::Schema(values) = &schema.additional {
            node.values = self.node(values, None, &child(path, "additionalProperties"), &below).map(Box::new);
        }
        if let Some(items) = &schema.items {
            let blind = if typed.list_type() == ListType::Map { blind } else { blind.or(Some(path)) };
            node.items = self.node(items, None, &child(path, "items"), &Above { blind, times }).map(Box::new);
        }
        for (index, part) in schema.all_of.iter().enumerate() {
            node.all_of.extend(self.node(part, Some(typed), &format!("{}[{index}]", child(path, "allOf")), above));
        }
        if !schema.validations.is_empty() {
            let sizes = Decl::of_schema(typed, typed.embedded_resource);
            for (index, rule) in schema.validations.iter().enumerate() {
                let path = format!("{}[{index}]", child(path, "x-kubernetes-validations"));
                node.rules.extend(self.rule(rule, typed, sizes.clone(), &path, above));
            }
        }
        let empty =
            node.rules.is_empty() && node.properties.is_empty() && node.values.is_none() && node.items.is_none() && node.all_of.is_empty();
        (!empty).then_some(node)
    }

    fn refuse(&mut self, path: String, reason: Reason, value: Option<String>, detail: impl Into<String>) {
        self.errors.push(RuleError { path, reason, value, detail: detail.into() });
    }

    /// Refuses a flag about the old value in a rule that does not use it.
    fn refuse_flag(&mut self, rule: &ValidationRule, path: &str) {
        if let Some(flag) = rule.optional_old_self {
            let detail = "may not be set if oldSelf is not used in rule";
            self.refuse(format!("{path}.optionalOldSelf"), Reason::Invalid, Some(flag.to_string()), detail);
        }
    }

    fn rule(&mut self, rule: &ValidationRule, schema: &SchemaRef, sizes: Option<Arc<Decl>>, path: &str, above: &Above<'_>) -> Option<Rule> {
        let before = self.errors.len();
        let field_path = self.shape(rule, schema, path);
        if self.errors.len() > before {
            return None;
        }
        let kind = Type::of_schema(schema).unwrap_or(Type::Dyn);
        let optional_old = rule.optional_old_self.unwrap_or(false);
        let old_kind = if optional_old { Type::Optional(Arc::new(kind.clone())) } else { kind.clone() };
        // A rule below lists without a limit may run as often as its value fits into a request.
        let times = above.times.unwrap_or_else(|| sizes.as_ref().map_or(1, |sizes| sizes.most_in_request()));
        let env = Env::new().variable("self", kind).variable("oldSelf", old_kind).with_sizes(sizes);
        let program = match Program::compile_bool(&rule.rule, &env) {
            Ok(program) => program,
            Err(error) => {
                self.refuse(format!("{path}.rule"), Reason::Invalid, Some(rule_json(rule)), error.to_string());
                // Of what does not compile, upstream takes it that it does not use the old value.
                self.refuse_flag(rule, path);
                return None;
            }
        };
        let cost = program.estimate().map_or(0, |estimate| estimate.max.saturating_mul(times));
        self.weigh(&format!("{path}.rule"), "estimated rule cost", cost);
        let message_program = match rule.message_expression.as_deref().map(|text| Program::compile_string(text, &env)) {
            None => None,
            Some(Ok(program)) => {
                let cost = program.estimate().map_or(0, |estimate| estimate.max);
                self.weigh(&format!("{path}.messageExpression"), "estimated messageExpression cost", cost);
                Some(program)
            }
            Some(Err(error)) => {
                let detail = match error {
                    crate::CompileError::WrongType(_) => "messageExpression must evaluate to a string".to_owned(),
                    other => format!("messageExpression {other}"),
                };
                self.refuse(format!("{path}.messageExpression"), Reason::Invalid, Some(rule_json(rule)), detail);
                return None;
            }
        };
        let uses_old = program.uses("oldSelf");
        if uses_old && let Some(blind) = above.blind {
            let detail = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {blind}");
            self.refuse(format!("{path}.rule"), Reason::Invalid, Some(go_json(&rule.rule)), detail);
        } else if !uses_old {
            self.refuse_flag(rule, path);
        }
        if self.errors.len() > before {
            return None;
        }
        let name = rule.message.as_deref().unwrap_or(&rule.rule).trim().to_owned();
        let message = if rule.message.is_some() { name.clone() } else { format!("failed rule: {name}") };
        let reason = rule.reason.as_deref().and_then(Reason::parse).unwrap_or_default();
        let message_source = rule.message_expression.clone().unwrap_or_default();
        let source = rule.rule.clone();
        Some(Rule { program, source, message_program, message_source, uses_old, optional_old, reason, field_path, message, name })
    }

    /// Everything about a rule but its expressions; the answer is the field path to append.
    fn shape(&mut self, rule: &ValidationRule, schema: &SchemaRef, path: &str) -> String {
        let has_newline = |text: &str| text.contains(['\n', '\r']);
        let message = rule.message.as_deref().map(str::trim);
        if rule.rule.trim().is_empty() {
            self.refuse(format!("{path}.rule"), Reason::Required, None, "rule is not specified");
        } else if let Some(text) = message
            && (text.is_empty() || has_newline(text))
        {
            let detail = if text.is_empty() { "must be non-empty if specified" } else { "must not contain line breaks" };
            self.refuse(format!("{path}.message"), Reason::Invalid, rule.message.as_deref().map(go_json), detail);
        } else if has_newline(rule.rule.trim()) && message.is_none() {
            let detail = "message must be specified if rule contains line breaks";
            self.refuse(format!("{path}.message"), Reason::Required, None, detail);
        }
        if rule.message_expression.as_deref().is_some_and(|text| text.trim().is_empty()) {
            let detail = "messageExpression must be non-empty if specified";
            self.refuse(format!("{path}.messageExpression"), Reason::Required, None, detail);
        }
        if let Some(reason) = rule.reason.as_deref()
            && Reason::parse(reason).is_none()
        {
            let detail =
                "supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\"";
            self.refuse(format!("{path}.reason"), Reason::NotSupported, Some(go_json(reason)), detail);
        }
        let Some(given) = rule.field_path.as_deref() else { return String::new() };
        let problem = if given.trim().is_empty() {
            "must be non-empty if specified"
        } else if has_newline(given) {
            "must not contain line breaks"
        } else {
            match field_path::normalize(given, schema) {
                Some(normal) => return normal,
                None => "must be a valid path",
            }
        };
        self.refuse(format!("{path}.fieldPath"), Reason::Invalid, Some(go_json(given)), problem);
        String::new()
    }
}

/// The context above a node.
struct Above<'a> {
    /// The list below which old values cannot be found.
    blind: Option<&'a str>,
    /// Most values that there can be; `None` without a limit.
    times: Option<u64>,
}

/// Says how many times over a limit an estimate is, with what would help.
fn over_budget(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// Text as JSON, as Go prints it.
fn go_json(text: &str) -> String {
    json::string(text, Html::Escaped)
}

fn rule_json(rule: &ValidationRule) -> String {
    let text = |text: Option<&str>| go_json(text.unwrap_or_default());
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        go_json(&rule.rule),
        text(rule.message.as_deref()),
        text(rule.message_expression.as_deref()),
        rule.reason.as_deref().map_or("null".to_owned(), go_json),
        text(rule.field_path.as_deref()),
        rule.optional_old_self.map_or("null".to_owned(), |flag| flag.to_string()),
    )
}

impl Node {
    fn validate(&self, value: &Json, old: Option<&Json>, unchanged: bool, path: &str, out: &mut Pass) {
        if value.is_null() || out.ended {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        let unchanged = old.map_or(unchanged, |old| old == value);
        self.run(value, old, unchanged, path, out);
        if out.ended {
            return;
        }
        for part in &self.all_of {
            part.validate(value, old, unchanged, path, out);
        }
        match value {
            Json::Object(fields) => {
                for (name, inner) in fields {
                    let old = old.and_then(|old| old.get(name));
                    if let Some(node) = self.properties.get(name) {
                        node.validate(inner, old, unchanged, &child(path, name), out);
                    } else if let Some(node) = self.values.as_deref().filter(|_| !self.schema.properties.contains_key(name)) {
                        node.validate(inner, old, unchanged, &format!("{path}[{name}]"), out);
                    }
                }
            }
            Json::Array(items) => {
                let Some(node) = self.items.as_deref() else { return };
                let old = old.and_then(Json::as_array).filter(|_| self.schema.list_type() == ListType::Map);
                for (index, item) in items.iter().enumerate() {
                    let old = old.and_then(|old| old.iter().find(|old| self.same_keys(old, item)));
                    node.validate(item, old, unchanged, &format!("{path}[{index}]"), out);
                }
            }
            _ => {}
        }
    }

    fn same_keys(&self, left: &Json, right: &Json) -> bool {
        self.schema.list_map_keys.iter().all(|key| left.get(key) == right.get(key))
    }

    fn run(&self, value: &Json, old: Option<&Json>, unchanged: bool, path: &str, pass: &mut Pass) {
        if self.rules.is_empty() {
            return;
        }
        let this = from_schema(value, &self.schema);
        let old_this = old.map(|old| from_schema(old, &self.schema));
        let plain = Activation::new().with("self", this);
        let with_old = match &old_this {
            Some(old) => plain.clone().with("oldSelf", old.clone()),
            None => plain.clone(),
        };
        let with_optional = plain.with("oldSelf", Value::Optional(old_this.map(Arc::new)));
        for rule in &self.rules {
            if rule.uses_old && old.is_none() && !rule.optional_old {
                continue;
            }
            let activation = if rule.optional_old { &with_optional } else { &with_old };
            let run = rule.program.run(activation);
            if !pass.pays(run.cost) {
                let message = "validation failed due to running out of cost budget, no further validation rules will be run".to_owned();
                pass.found.push(self.failure(rule, path, message));
                return;
            }
            match run.result {
                Ok(Value::Bool(true)) => {}
                Ok(_) if unchanged && !rule.uses_old => {}
                Ok(_) => {
                    let violation = self.violation(rule, activation, value, path, pass);
                    pass.found.push(violation);
                }
                Err(error) => {
                    let name = &rule.name;
                    let message = if error.is_overload() {
                        format!(
                            "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {name}"
                        )
                    } else if error.is_cost_limit() {
                        pass.ended = true;
                        format!("'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {name}")
                    } else {
                        format!("{error} evaluating rule: {name}")
                    };
                    pass.found.push(self.failure(rule, path, message));
                }
            }
            if pass.ended {
                return;
            }
        }
    }

    /// The violation by a rule that could not be run to its end; the value's type takes the place of the value.
    fn failure(&self, rule: &Rule, path: &str, message: String) -> Violation {
        let type_name = Json::String(self.schema.kind.map_or("", Kind::as_str).to_owned());
        Violation { path: path.to_owned(), reason: Reason::Invalid, message, rule: rule.source.clone(), value: Some(type_name) }
    }

    fn violation(&self, rule: &Rule, activation: &Activation, value: &Json, path: &str, pass: &mut Pass) -> Violation {
        let separator = if path.is_empty() || rule.field_path.is_empty() || rule.field_path.starts_with('[') { "" } else { "." };
        let path = format!("{path}{separator}{}", rule.field_path);
        let mut message = rule.message.clone();
        if let Some(program) = &rule.message_program {
            let run = program.run(activation);
            if !pass.pays(run.cost) {
                let words =
                    "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
                return self.failure(rule, &path, words.to_owned());
            }
            match run.result {
                Err(error) if error.is_cost_limit() => {
                    pass.ended = true;
                    let words = "no further validation rules will be run due to call cost exceeds limit for messageExpression";
                    return self.failure(rule, &path, format!("{words}: {}", go_json(&rule.message_source)));
                }
                // An expression that fails, or makes nothing fit to print, leaves the fixed message in force.
                Ok(Value::Text(text)) => {
                    let text = text.trim();
                    if !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n') {
                        text.clone_into(&mut message);
                    }
                }
                _ => {}
            }
        }
        let compound = matches!(self.schema.kind, Some(Kind::Object | Kind::Array));
        Violation { path, reason: rule.reason, message, rule: rule.source.clone(), value: (!compound).then(|| value.clone()) }
    }
}
