//! The needs of a bundle, which others must meet (OLM0-RES-07 to OLM0-RES-13).

use std::fmt;

use mainstay_catalog::PropertyFacts;
use mainstay_cel::{Activation, Env, Program, Type, Value as CelValue};
use mainstay_versions::{CatalogRange, Version};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Why a property's requirements cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidConstraint(String);

/// The longest `olm.constraint` value in bytes that is read (OLM0-RES-13).
const MAX_CONSTRAINT: usize = 65_536;
/// The deepest nesting of constraints.
const MAX_DEPTH: usize = 32;

/// Group, version and kind of an API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub(crate) struct Api {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}/{}", self.kind, self.group, self.version)
    }
}

/// One condition that must hold for a bundle to be chosen.
#[derive(Debug)]
pub(crate) struct Need {
    pub(crate) rule: Rule,
    /// True if no other bundle may meet the rule; otherwise one must.
    pub(crate) forbids: bool,
    /// The author's message for when it cannot be met.
    pub(crate) message: Option<String>,
}

/// A test of one bundle.
#[derive(Debug)]
pub(crate) enum Rule {
    Package { name: String, range: CatalogRange },
    Api(Api),
    Cel { text: String, program: Box<Program> },
    All(Vec<Rule>),
    Any(Vec<Rule>),
    Not(Vec<Rule>),
}

/// A bundle as the rules see it.
pub(crate) trait Subject {
    fn package(&self) -> &str;
    fn version(&self) -> Option<&Version>;
    fn provides(&self, api: &Api) -> bool;
    fn properties(&self) -> CelValue;
}

impl Rule {
    pub(crate) fn holds(&self, of: &dyn Subject) -> bool {
        match self {
            Self::Package { name, range } => of.package() == name && of.version().is_some_and(|version| range.matches(version)),
            Self::Api(api) => of.provides(api),
            // An expression that fails at run time is not met (OLM0-RES-10).
            Self::Cel { program, .. } => {
                let run = program.eval(&Activation::new().with("properties", of.properties()));
                matches!(run, Ok(CelValue::Bool(true)))
            }
            Self::All(rules) => rules.iter().all(|rule| rule.holds(of)),
            Self::Any(rules) => rules.iter().any(|rule| rule.holds(of)),
            Self::Not(rules) => !rules.iter().any(|rule| rule.holds(of)),
        }
    }

    /// Collects the packages and APIs of the only bundles that can meet it, or that it may be any bundle.
    pub(crate) fn targets<'r>(&'r self, found: &mut Targets<'r>) {
        match self {
            Self::Package { name, .. } => found.packages.push(name),
            Self::Api(api) => found.apis.push(api),
            // A bundle that meets all meets the first one that names packages or APIs.
            Self::All(rules) => {
                let positive = rules.iter().map(|rule| {
                    let mut targets = Targets::default();
                    rule.targets(&mut targets);
                    targets
                });
                match positive.min_by_key(|targets| (targets.anything, !targets.apis.is_empty())) {
                    Some(least) => found.extend(least),
                    None => found.anything = true,
                }
            }
            Self::Any(rules) => rules.iter().for_each(|rule| rule.targets(found)),
            Self::Cel { .. } | Self::Not(_) => found.anything = true,
        }
    }
}

/// The places to look for bundles that meet a rule.
#[derive(Debug, Default)]
pub(crate) struct Targets<'r> {
    pub(crate) packages: Vec<&'r str>,
    pub(crate) apis: Vec<&'r Api>,
    pub(crate) anything: bool,
}

impl Targets<'_> {
    fn extend(&mut self, other: Self) {
        // The lifetimes of both are those of the rule.
        let Targets { packages, apis, anything } = other;
        self.anything |= anything;
        self.packages.extend(packages);
        self.apis.extend(apis);
    }
}

/// Reads the needs of one property; none if its type declares no need. The error is the reason why it cannot be read.
pub(crate) fn read(property: PropertyFacts<'_>) -> Result<Vec<Need>, InvalidConstraint> {
    let wrong = |reason: &dyn fmt::Display| InvalidConstraint(format!("property {} cannot be read: {reason}", property.kind));
    let single = |rule: Rule| vec![Need { rule, forbids: false, message: None }];
    match property.kind {
        "olm.package.required" => {
            let required: Required = serde_json::from_str(property.value).map_err(|error| wrong(&error))?;
            required.rule().map(single).map_err(|reason| wrong(&reason))
        }
        "olm.gvk.required" => serde_json::from_str(property.value).map(|api| single(Rule::Api(api))).map_err(|error| wrong(&error)),
        "olm.constraint" => {
            if property.value.len() > MAX_CONSTRAINT {
                return Err(InvalidConstraint(format!("olm.constraint value is greater than max constraint size {MAX_CONSTRAINT} bytes")));
            }
            let value: Value = serde_json::from_str(property.value).map_err(|error| wrong(&error))?;
            let mut needs = Vec::new();
            top(value, None, 0, &mut needs).map_err(|reason| wrong(&reason))?;
            Ok(needs)
        }
        _ => Ok(Vec::new()),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Required {
    #[serde(alias = "name")]
    package_name: String,
    version_range: String,
}

impl Required {
    fn rule(self) -> Result<Rule, InvalidConstraint> {
        if self.package_name.is_empty() {
            return Err(InvalidConstraint("the name of the package is empty".to_owned()));
        }
        let range = CatalogRange::parse(&self.version_range)
            .map_err(|reason| InvalidConstraint(format!("range {:?}: {reason}", self.version_range)))?;
        Ok(Rule::Package { name: self.package_name, range })
    }
}

/// The value of `olm.constraint`: exactly one of six.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Constraint {
    failure_message: Option<String>,
    gvk: Option<Api>,
    package: Option<Required>,
    cel: Option<Cel>,
    all: Option<Constraints>,
    any: Option<Constraints>,
    not: Option<Constraints>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cel {
    rule: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Constraints {
    constraints: Vec<Value>,
}

/// The form of a constraint, once it is known that it has exactly one.
enum Form {
    Leaf(Rule),
    All(Vec<Value>),
    Any(Vec<Value>),
    Not(Vec<Value>),
}

fn form(value: Value, depth: usize) -> Result<(Form, Option<String>), InvalidConstraint> {
    if depth > MAX_DEPTH {
        return Err(InvalidConstraint(format!("constraints are nested deeper than {MAX_DEPTH}")));
    }
    let constraint: Constraint = serde_json::from_value(value).map_err(|error| InvalidConstraint(error.to_string()))?;
    let Constraint { failure_message, gvk, package, cel, all, any, not } = constraint;
    let list = |list: Constraints, word| match list.constraints {
        empty if empty.is_empty() => Err(InvalidConstraint(format!("{word} has no constraints"))),
        constraints => Ok(constraints),
    };
    let form = match (gvk, package, cel, all, any, not) {
        (Some(api), None, None, None, None, None) => Form::Leaf(Rule::Api(api)),
        (None, Some(required), None, None, None, None) => Form::Leaf(required.rule()?),
        (None, None, Some(cel), None, None, None) => Form::Leaf(expression(cel.rule)?),
        (None, None, None, Some(all), None, None) => Form::All(list(all, "all")?),
        (None, None, None, None, Some(any), None) => Form::Any(list(any, "any")?),
        (None, None, None, None, None, Some(not)) => Form::Not(list(not, "not")?),
        _ => return Err(InvalidConstraint("a constraint is exactly one of gvk, package, cel, all, any and not".to_owned())),
    };
    Ok((form, failure_message.filter(|message| !message.is_empty())))
}

/// Reads a constraint that the set of bundles must meet: the parts of `all` one by one, each by a bundle of its own (OLM0-RES-11), and those of
/// `not` by none.
fn top(value: Value, outer: Option<&str>, depth: usize, needs: &mut Vec<Need>) -> Result<(), InvalidConstraint> {
    let (form, message) = form(value, depth)?;
    let message = message.or_else(|| outer.map(str::to_owned));
    match form {
        Form::Leaf(rule) => needs.push(Need { rule, forbids: false, message }),
        Form::All(values) => return values.into_iter().try_for_each(|value| top(value, message.as_deref(), depth + 1, needs)),
        Form::Any(values) => needs.push(Need { rule: Rule::Any(rules(values, depth)?), forbids: false, message }),
        Form::Not(values) => {
            let rules = rules(values, depth)?;
            needs.extend(rules.into_iter().map(|rule| Need { rule, forbids: true, message: message.clone() }));
        }
    }
    Ok(())
}

fn rules(values: Vec<Value>, depth: usize) -> Result<Vec<Rule>, InvalidConstraint> {
    values.into_iter().map(|value| rule(value, depth + 1)).collect()
}

/// Reads a constraint that one bundle must meet.
fn rule(value: Value, depth: usize) -> Result<Rule, InvalidConstraint> {
    Ok(match form(value, depth)?.0 {
        Form::Leaf(rule) => rule,
        Form::All(values) => Rule::All(rules(values, depth)?),
        Form::Any(values) => Rule::Any(rules(values, depth)?),
        Form::Not(values) => Rule::Not(rules(values, depth)?),
    })
}

fn expression(text: String) -> Result<Rule, InvalidConstraint> {
    let property = Type::Map(Arc::new(Type::String), Arc::new(Type::Dyn));
    let env = Env::new().variable("properties", Type::List(Arc::new(property))).with_catalog_functions();
    let program = Program::compile_bool(&text, &env).map_err(|error| InvalidConstraint(format!("rule {text:?}: {error}")))?;
    Ok(Rule::Cel { text, program: Box::new(program) })
}

/// Properties in the form that an expression reads.
pub(crate) fn properties<'p>(facts: impl Iterator<Item = (&'p str, Value)>) -> CelValue {
    CelValue::from_json(&facts.map(|(kind, value)| json!({"type": kind, "value": value})).collect())
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said(false))
    }
}

impl Need {
    /// The rule in words, about one bundle or several.
    pub(crate) fn said(&self, several: bool) -> String {
        let verb = match (self.forbids, several) {
            (false, false) => "requires",
            (false, true) => "require",
            (true, false) => "does not go together with",
            (true, true) => "do not go together with",
        };
        let message = self.message.as_ref().map_or(String::new(), |message| format!(" ({message})"));
        format!("{verb} {}{message}", self.rule)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, rules: &[Self], word: &str| {
            rules.iter().enumerate().try_for_each(|(i, rule)| write!(f, "{}{rule}", if i == 0 { "" } else { word }))
        };
        match self {
            Self::Package { name, range } => write!(f, "package {name} {range}"),
            Self::Api(api) => write!(f, "API {api}"),
            Self::Cel { text, .. } => write!(f, "a bundle with {text}"),
            Self::All(rules) => {
                f.write_str("one bundle that is all of [")?;
                list(f, rules, ", ")?;
                f.write_str("]")
            }
            Self::Any(rules) => {
                f.write_str("one of [")?;
                list(f, rules, ", ")?;
                f.write_str("]")
            }
            Self::Not(rules) => {
                f.write_str("none of [")?;
                list(f, rules, ", ")?;
                f.write_str("]")
            }
        }
    }
}
