//! Why a namespace cannot be resolved, in upstream's sentences.

use std::collections::BTreeSet;
use std::fmt;

use mainstay_golang::json_reader::{SyntaxError, TypeError, Unreadable};
use mainstay_golang::quote;
use mainstay_resolver::ordered::Conflict;

use crate::source::SourceKey;

use super::channel::InvalidChannel;

/// Why a catalog gives no content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogFailure {
    /// There is no connection to it.
    #[error("no registry client established for catalogsource {namespace}/{name}", namespace = .0.namespace, name = .0.name)]
    NoConnection(SourceKey),
    /// Its bundles cannot be listed; the text is the registry's.
    #[error("failed to list bundles: {0}")]
    List(String),
    /// The installed CSVs cannot be read.
    #[error(transparent)]
    Existing(Box<ExistingFailure>),
}

/// Why the installed CSVs of a namespace cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExistingFailure {
    /// There is not exactly one OperatorGroup.
    #[error("found {0} operatorGroups, expected 1")]
    Groups(usize),
    /// The annotation with the properties is none.
    #[error("failed to retrieve properties of csv {}: failed to unmarshal properties annotation: {error}", quote(.csv))]
    Properties {
        /// The CSV.
        csv: String,
        /// The problem.
        error: Unreadable,
    },
    /// The name of a CRD lacks its group.
    #[error("error parsing crd name: {0}")]
    CrdName(String),
    /// A CSV in the middle of a chain of replacements is not being replaced.
    #[error("csv {namespace}/{name} in phase {phase} instead of Replacing")]
    NotReplacing {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its phase.
        phase: String,
    },
    /// CSVs replace each other in a circle.
    #[error("csv {namespace}/{name} has already been seen")]
    Circle {
        /// The namespace.
        namespace: String,
        /// The CSV that was seen twice.
        name: String,
    },
}

/// One problem of a resolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// A catalog gives no content (OLM0-CAT-21).
    Catalog(SourceKey, CatalogFailure),
    /// A channel has no order (OLM0-UPG-15).
    Channel(InvalidChannel),
    /// A requirement cannot be read.
    Requirement(RequirementError),
    /// A dependency cannot be made a property.
    Dependency {
        /// Its type.
        kind: String,
        /// The problem.
        error: Unreadable,
    },
    /// Several CSVs have the name that a Subscription's status names.
    SeveralInstalled {
        /// `namespace/name` of the Subscription.
        subscription: String,
        /// The CSVs.
        csvs: Vec<String>,
    },
    /// No bundle was found for a Subscription of this package.
    NoBundles(String),
    /// An identifier with a slash too much.
    Identifier(String),
    /// The number of entries that one identifier names is not one.
    NotOneOperator(usize),
    /// The number of OperatorGroups is not one (OLM0-RES-03).
    Groups(usize),
    /// The steps of a bundle cannot be made.
    Steps(crate::steps::StepError),
    /// The properties of a bundle cannot be written as annotation.
    Properties(String, crate::properties::AnnotationError),
    /// Several problems, told as one.
    Several(Vec<Problem>),
}

/// Why a requirement cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequirementError {
    /// A property of the older kinds.
    #[error(transparent)]
    Legacy(#[from] Unreadable),
    /// A range of versions.
    #[error(transparent)]
    Range(#[from] mainstay_versions::Error),
    /// `olm.constraint` is no JSON.
    #[error("parse olm.constraint: {0}")]
    Syntax(#[from] SyntaxError),
    /// `olm.constraint` has fields that do not fit.
    #[error("parse olm.constraint: {0}")]
    Type(#[from] TypeError),
    /// `olm.constraint` is too long (OLM0-RES-13).
    #[error("parse olm.constraint: olm.constraint value is greater than max constraint size {0} bytes")]
    TooLong(usize),
    /// A part of `olm.constraint` is nothing that is known.
    #[error("convert olm.constraint to resolver predicate: constraint is empty")]
    Empty,
    /// A range in `olm.constraint`.
    #[error("convert olm.constraint to resolver predicate: {0}")]
    ConstraintRange(mainstay_versions::Error),
    /// A rule in `olm.constraint` that does not compile.
    #[error("convert olm.constraint to resolver predicate: {}", compile_error(.0))]
    Rule(mainstay_cel::CompileError),
}

/// The compiler's words without those that Kubernetes puts before them.
fn compile_error(error: &mainstay_cel::CompileError) -> String {
    match error {
        mainstay_cel::CompileError::Invalid(text) => text.clone(),
        mainstay_cel::CompileError::WrongType(_) => "cel expressions must have type Bool".to_owned(),
        other => other.to_string(),
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Catalog(key, failure) => write!(f, "error using catalogsource {}/{}: {failure}", key.namespace, key.name),
            Self::Channel(error) => error.fmt(f),
            Self::Requirement(error) => error.fmt(f),
            Self::Dependency { kind, error } => {
                write!(f, "failed to translate legacy dependencies to properties: failed to unmarshal legacy '{kind}' dependency: {error}")
            }
            Self::SeveralInstalled { subscription, csvs } => {
                write!(f, "multiple name matches for status.installedCSV of subscription {subscription}: {}", csvs.join(", "))
            }
            Self::NoBundles(package) => write!(f, "could not find any potential bundles for subscription: {package}"),
            Self::Identifier(id) => {
                write!(f, "error determining origin of operator: unable to parse identifier {id} for source info")
            }
            Self::NotOneOperator(found) => write!(f, "expected exactly one operator, got {found}"),
            Self::Groups(found) => write!(f, "expected 1 OperatorGroup in the namespace, found {found}"),
            Self::Steps(error) => write!(f, "failed to turn bundle into steps: {error}"),
            Self::Properties(name, error) => write!(f, "failed to serialize operator properties for {}: {error}", quote(name)),
            Self::Several(problems) => aggregate(problems, f),
        }
    }
}

impl std::error::Error for Problem {}

/// Writes several problems as one: each text once, in brackets if there is more than one.
fn aggregate(problems: &[Problem], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    fn visit(problems: &[Problem], seen: &mut BTreeSet<String>, texts: &mut Vec<String>) {
        for problem in problems {
            if let Problem::Several(inner) = problem {
                visit(inner, seen, texts);
                continue;
            }
            let text = problem.to_string();
            if seen.insert(text.clone()) {
                texts.push(text);
            }
        }
    }
    if let [problem] = problems {
        return write!(f, "{problem}");
    }
    let mut texts = Vec::new();
    visit(problems, &mut BTreeSet::new(), &mut texts);
    match texts.as_slice() {
        [one] => f.write_str(one),
        several => write!(f, "[{}]", several.join(", ")),
    }
}

/// Why a namespace has no resolution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// Constraints that cannot all hold (OLM0-RES-25).
    #[error("constraints not satisfiable: {}", .0.found.join(", "))]
    Unsatisfiable(Conflict),
    /// Problems that were found while constraints were gathered.
    #[error("{}", Problem::Several(.0.clone()))]
    Several(Vec<Problem>),
    /// A problem that ends the resolution at once.
    #[error(transparent)]
    One(#[from] Problem),
    /// The search was given up: there is a limit on the work for a namespace, since catalogs come from outside.
    #[error("the requirements in namespace {0} take too much work to be decided")]
    Undecided(String),
}
