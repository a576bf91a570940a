//! What a bundle requires of another, as a test of one entry (OLM0-RES-06 to OLM0-RES-13).

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, LazyLock};

use mainstay_bundle::go::member;
use mainstay_cel::{Activation, Env, Program, Value as CelValue};
use mainstay_golang::json_reader::{self, Struct, Type, Unknown};
use mainstay_golang::quote;
use mainstay_versions::CatalogRange;
use serde_json::Value;

use crate::api::Api;
use crate::properties::Property;

use super::entry::{Entry, GVK, api_of, text};
use super::error::{Problem, RequirementError};

/// The longest `olm.constraint` in bytes that upstream reads (OLM0-RES-13 names half of it; upstream's answer counts).
const MAX_CONSTRAINT: usize = 2 << 16;

/// A test of one entry.
#[derive(Debug)]
pub enum Predicate {
    /// It is of a package.
    Package(String),
    /// Its version is in a range.
    Range(CatalogRange, String),
    /// It provides an API.
    Api(Api),
    /// It has a label.
    Label(String),
    /// An expression is true for it.
    Cel {
        /// The expression.
        rule: String,
        /// The author's message.
        message: String,
        /// The compiled expression.
        program: Box<Program>,
    },
    /// It passes all of these.
    All(Vec<Predicate>),
    /// It passes one of these.
    Any(Vec<Predicate>),
    /// It passes none of these.
    Not(Vec<Predicate>),
}

/// The work of a resolution. Catalogs come from outside, and a few of their expressions could keep a processor busy for hours.
#[derive(Debug, Default)]
pub(super) struct Work(Cell<u64>);

/// The most tests of an entry, and units of cost of expressions, that a resolution takes; about a second. Real namespaces take thousands, and
/// one expression over the largest catalogs half a million.
const MOST_WORK: u64 = 5_000_000;

impl Work {
    fn spend(&self, work: u64) {
        self.0.set(self.0.get().saturating_add(work));
    }

    /// Returns whether it was too much; answers do not count then.
    pub(super) fn is_over(&self) -> bool {
        self.0.get() > MOST_WORK
    }

    /// Sets it to zero.
    pub(super) fn reset(&self) {
        self.0.set(0);
    }
}

impl Predicate {
    /// Returns whether an entry passes.
    pub(super) fn holds(&self, entry: &Entry, work: &Work) -> bool {
        if work.is_over() {
            return false;
        }
        work.spend(1);
        match self {
            Self::Package(name) => entry.is_of_package(name),
            Self::Range(range, _) => {
                let versions = entry.packages().iter().filter_map(|(_, version)| version.as_ref());
                versions.chain(&entry.version).any(|version| range.matches(version))
            }
            Self::Api(api) => entry.apis().contains(api),
            Self::Label(label) => entry.has_label(label),
            // An expression that fails at run time is not met (OLM0-RES-10).
            Self::Cel { program, .. } => {
                let run = program.run(&Activation::new().with("properties", entry.cel_properties()));
                work.spend(run.cost);
                matches!(run.result, Ok(CelValue::Bool(true)))
            }
            Self::All(predicates) => predicates.iter().all(|one| one.holds(entry, work)),
            Self::Any(predicates) => predicates.iter().any(|one| one.holds(entry, work)),
            Self::Not(predicates) => !predicates.iter().any(|one| one.holds(entry, work)),
        }
    }

    /// A text that no other test has.
    pub(super) fn key(&self) -> String {
        let list = |word: &str, predicates: &[Self]| {
            let keys: Vec<String> = predicates.iter().map(Self::key).collect();
            format!("{word}({})", keys.join(","))
        };
        match self {
            Self::Package(name) => format!("package {name:?}"),
            Self::Range(_, text) => format!("range {text:?}"),
            Self::Api(api) => format!("{api:?}"),
            Self::Label(label) => format!("label {label:?}"),
            Self::Cel { rule, .. } => format!("cel {rule:?}"),
            Self::All(predicates) => list("all", predicates),
            Self::Any(predicates) => list("any", predicates),
            Self::Not(predicates) => list("not", predicates),
        }
    }

    /// The narrowest index that holds every entry that can pass; `None` if any entry can.
    pub(super) fn index(&self) -> Option<Vec<Index<'_>>> {
        match self {
            Self::Package(name) => Some(vec![Index::Package(name)]),
            Self::Api(api) => Some(vec![Index::Api(api)]),
            Self::All(predicates) => predicates.iter().find_map(Self::index),
            Self::Any(predicates) => predicates.iter().map(Self::index).collect::<Option<Vec<_>>>().map(|all| all.concat()),
            Self::Range(..) | Self::Label(_) | Self::Cel { .. } | Self::Not(_) => None,
        }
    }
}

/// A place to look for entries.
#[derive(Debug, Clone, Copy)]
pub(super) enum Index<'p> {
    Package(&'p str),
    Api(&'p Api),
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, predicates: &[Self], word: &str| {
            predicates.iter().enumerate().try_for_each(|(at, one)| write!(f, "{}{one}", if at == 0 { "" } else { word }))
        };
        match self {
            Self::Package(name) => write!(f, "with package: {name}"),
            Self::Range(_, text) => write!(f, "with version in range: {text}"),
            Self::Api(Api { group, version, kind }) => {
                write!(f, "providing an API with group: {group}, version: {version}, kind: {kind}")
            }
            Self::Label(label) => write!(f, "with label: {label}"),
            Self::Cel { rule, message, .. } => write!(f, "with constraint: {} and message: {}", quote(rule), quote(message)),
            Self::All(predicates) => list(f, predicates, " and "),
            Self::Any(predicates) => list(f, predicates, " or "),
            Self::Not(predicates) => list(f, predicates, " and not "),
        }
    }
}

/// Reads the requirements among properties, in their order. Types that are not known are none.
pub(super) fn read(properties: &[Property]) -> Result<Vec<Predicate>, Problem> {
    let read = |property: &Property| one(property).map_err(Problem::Requirement).transpose();
    properties.iter().filter_map(read).collect()
}

static PACKAGE: Struct = Struct {
    full_name: r#"struct { PackageName string "json:\"packageName\""; VersionRange string "json:\"versionRange\"" }"#,
    name: "",
    fields: &[("packageName", Type::Text), ("versionRange", Type::Text)],
};
static LABEL: Struct = Struct { full_name: r#"struct { Label string "json:\"label\"" }"#, name: "", fields: &[("label", Type::Text)] };

fn one(property: &Property) -> Result<Option<Predicate>, RequirementError> {
    let value = &property.value;
    Ok(match property.kind.as_str() {
        "olm.gvk.required" => Some(Predicate::Api(api_of(&GVK.read(value)?))),
        "olm.package.required" => {
            let value = PACKAGE.read(value)?;
            Some(package(&value)?)
        }
        "olm.label.required" => Some(Predicate::Label(text(&LABEL.read(value)?, "label"))),
        "olm.constraint" => {
            if value.len() > MAX_CONSTRAINT {
                return Err(RequirementError::TooLong(MAX_CONSTRAINT));
            }
            let value = json_reader::parse_first(value.as_bytes())?;
            CONSTRAINT.check(&value, Unknown::Refused)?;
            Some(constraint(&value)?)
        }
        _ => None,
    })
}

fn package(value: &Value) -> Result<Predicate, mainstay_versions::Error> {
    let range = text(value, "versionRange");
    let parsed = CatalogRange::parse(&range)?;
    Ok(Predicate::All(vec![Predicate::Package(text(value, "packageName")), Predicate::Range(parsed, range)]))
}

static CEL: Struct = Struct { full_name: "constraints.Cel", name: "Cel", fields: &[("rule", Type::Text)] };
static CONSTRAINT_GVK: Struct = Struct {
    full_name: "constraints.GVKConstraint",
    name: "GVKConstraint",
    fields: &[("group", Type::Text), ("kind", Type::Text), ("version", Type::Text)],
};
static CONSTRAINT_PACKAGE: Struct = Struct {
    full_name: "constraints.PackageConstraint",
    name: "PackageConstraint",
    fields: &[("packageName", Type::Text), ("versionRange", Type::Text)],
};
static COMPOUND: Struct =
    Struct { full_name: "constraints.CompoundConstraint", name: "CompoundConstraint", fields: &[("constraints", Type::List(&CONSTRAINT))] };
static CONSTRAINT: Struct = Struct {
    full_name: "constraints.Constraint",
    name: "Constraint",
    fields: &[
        ("failureMessage", Type::Text),
        ("cel", Type::Struct(&CEL)),
        ("package", Type::Struct(&CONSTRAINT_PACKAGE)),
        ("gvk", Type::Struct(&CONSTRAINT_GVK)),
        ("all", Type::Struct(&COMPOUND)),
        ("any", Type::Struct(&COMPOUND)),
        ("not", Type::Struct(&COMPOUND)),
    ],
};

/// Reads a constraint; of several forms in one, upstream takes the first in this order.
fn constraint(value: &Value) -> Result<Predicate, RequirementError> {
    let part = |name| Some(member(value, name)).filter(|part| part.is_object());
    let list = |part: &Value| {
        let constraints = member(part, "constraints").as_array().map_or(&[][..], Vec::as_slice);
        constraints.iter().map(constraint).collect::<Result<Vec<_>, _>>()
    };
    if let Some(gvk) = part("gvk") {
        Ok(Predicate::Api(api_of(gvk)))
    } else if let Some(of) = part("package") {
        package(of).map_err(RequirementError::ConstraintRange)
    } else if let Some(all) = part("all") {
        Ok(Predicate::All(list(all)?))
    } else if let Some(any) = part("any") {
        Ok(Predicate::Any(list(any)?))
    } else if let Some(not) = part("not") {
        Ok(Predicate::Not(list(not)?))
    } else if let Some(cel) = part("cel") {
        expression(text(cel, "rule"), text(value, "failureMessage"))
    } else {
        Err(RequirementError::Empty)
    }
}

fn expression(rule: String, message: String) -> Result<Predicate, RequirementError> {
    static ENV: LazyLock<Env> = LazyLock::new(|| {
        let property = mainstay_cel::Type::Map(Arc::new(mainstay_cel::Type::String), Arc::new(mainstay_cel::Type::Dyn));
        Env::new().variable("properties", mainstay_cel::Type::List(Arc::new(property))).with_catalog_functions()
    });
    let program = Program::compile_bool(&rule, &ENV).map_err(RequirementError::Rule)?;
    Ok(Predicate::Cel { rule, message, program: Box::new(program) })
}
