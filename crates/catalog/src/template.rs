//! Templates that compile to catalogs, and catalogs that become templates (CATLG-50, CATLG-64, CATLG-65; OLM1-FBC-19).
//!
//! ```text
//!   text ── Template::parse ── compile ─┬─ basic        bundles shortened to their images
//!                                ▲      ├─ semver       channels by version, default channel, edges
//!                RenderBundle ───┘      └─ substitutes  one bundle in the place of another
//!   catalog files ── convert ── template as JSON
//! ```
//!
//! A function of the caller renders bundle images. The compiled catalogs and the error messages are upstream's.

mod basic;
mod convert;
mod keys;
mod semver;
mod substitutes;

use serde_json::Value;

use crate::error::LoadError;
use crate::model::{Bundle, Catalog, Icon};
use crate::validate::Validation;

pub use convert::{Destination, convert};
pub use keys::ShapeError;

/// A kind of template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Shortens bundles to their images.
    Basic,
    /// Orders bundles by version.
    Semver,
    /// Substitutes bundles by others.
    Substitutes,
}

impl Kind {
    /// Every kind, in the order of their names.
    pub const ALL: [Self; 3] = [Self::Basic, Self::Semver, Self::Substitutes];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Semver => "semver",
            Self::Substitutes => "substitutes",
        }
    }

    /// Returns the kind of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The `schema` of its files.
    pub fn schema(self) -> &'static str {
        match self {
            Self::Basic => "olm.template.basic",
            Self::Semver => "olm.semver",
            Self::Substitutes => "olm.template.substitutes",
        }
    }
}

/// The result of rendering a bundle reference.
#[derive(Debug, Clone, Default)]
pub struct Rendered {
    /// Its entries; exactly one in a valid result.
    pub bundles: Vec<Bundle>,
    /// `spec.description` of the first bundle's CSV.
    pub description: String,
    /// The first of `spec.icon` of the first bundle's CSV.
    pub icon: Option<Icon>,
}

impl From<Vec<Bundle>> for Rendered {
    fn from(bundles: Vec<Bundle>) -> Self {
        Self { bundles, ..Self::default() }
    }
}

/// Renders an image or directory.
pub type RenderBundle<'r> = dyn FnMut(&str) -> Result<Rendered, RenderError> + 'r;

/// The reason why an image or directory could not be rendered.
pub type RenderError = Box<dyn std::error::Error + Send + Sync>;

/// The error for a text without a document.
const END: &str = "EOF";

/// A parsed template.
#[derive(Debug, Clone)]
pub struct Template {
    value: Value,
    /// The duplicate keys.
    duplicates: Vec<mainstay_yaml::Duplicate>,
}

impl From<Value> for Template {
    fn from(value: Value) -> Self {
        Self { value, duplicates: Vec::new() }
    }
}

impl Template {
    /// Reads the first document of a text, JSON or YAML.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        match mainstay_yaml::stream(text).next() {
            Some(document) => {
                let document = document.map_err(|error| TemplateError::Decode(error.to_string()))?;
                Ok(Self { value: document.value, duplicates: document.duplicates })
            }
            None => Err(TemplateError::Decode(END.to_owned())),
        }
    }

    /// [`Template::parse`] for a known kind, with upstream's messages for that case.
    pub fn parse_as(kind: Kind, text: &str) -> Result<Self, TemplateError> {
        match (Self::parse(text), kind) {
            (Err(TemplateError::Decode(reason)), Kind::Semver) if reason == END => Ok(Self::from(Value::Null)),
            (Err(TemplateError::Decode(reason)), Kind::Semver) => Err(TemplateError::Semver(Box::new(SemverError::Text(reason)))),
            (Err(TemplateError::Decode(reason)), Kind::Basic) => Err(TemplateError::DecodeSchema(reason)),
            (Err(TemplateError::Decode(reason)), Kind::Substitutes) => {
                Err(TemplateError::Parse(Box::new(TemplateError::DecodeSchema(reason))))
            }
            (parsed, _) => parsed,
        }
    }

    /// The kind that its `schema` names.
    pub fn kind(&self) -> Result<Kind, TemplateError> {
        let schema = match keys::get(&self.value, "schema") {
            None => "",
            Some(schema) => schema.as_str().ok_or_else(|| keys::shape("schema", "a string", schema))?,
        };
        if schema.is_empty() {
            return Err(TemplateError::NoSchema);
        }
        Kind::ALL.into_iter().find(|kind| kind.schema() == schema).ok_or_else(|| TemplateError::UnknownSchema(schema.to_owned()))
    }

    /// Compiles the template as one of that kind.
    pub fn compile(&self, kind: Kind, render: &mut RenderBundle<'_>) -> Result<Catalog, TemplateError> {
        match kind {
            Kind::Basic => basic::compile(&self.value, render),
            Kind::Semver => semver::compile(self, render),
            Kind::Substitutes => substitutes::compile(&self.value, render),
        }
    }
}

/// Reason why a template cannot be compiled to a catalog.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The text is neither JSON nor YAML.
    #[error("decoding template input: {0}")]
    Decode(String),
    /// The text of a template whose kind is known is neither JSON nor YAML.
    #[error("decoding template schema: {0}")]
    DecodeSchema(String),
    /// The `schema` is missing.
    #[error("template input missing required 'schema' field")]
    NoSchema,
    /// The schema does not belong to any template.
    #[error("unknown template schema: {0}")]
    UnknownSchema(String),
    /// The schema differs from that of the requested kind.
    #[error("template has unknown schema ({found:?}), should be {expected:?}")]
    Schema {
        /// The schema as written.
        found: String,
        /// Schema of the kind.
        expected: &'static str,
    },
    /// A semver template that cannot be read.
    #[error("render: unable to read file: {0}")]
    Semver(#[source] Box<SemverError>),
    /// A value has the wrong shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A bundle cannot be rendered.
    #[error("{0}")]
    Render(#[source] RenderError),
    /// A part of the template has the wrong shape.
    #[error("render: unable to parse template: {0}")]
    Parse(#[source] Box<TemplateError>),
    /// A reference gives no bundle, or several.
    #[error("bundle reference {reference:?} resulted in {count} bundles, expected 1")]
    Count {
        /// Image or directory.
        reference: String,
        /// Bundles it gave.
        count: usize,
    },
    /// No bundles were given or rendered.
    #[error("render: no bundles specified or no bundles could be rendered")]
    NoBundles,
    /// Bundles that do not fit together.
    #[error("render: unable to post-process bundle info: {0}")]
    Versions(#[source] Box<VersionsError>),
    /// A bundle of a basic template that is neither an image alone nor complete.
    #[error("unexpected fields present in basic template bundle")]
    UnexpectedFields,
    /// Entries that do not form a catalog.
    #[error("render: unable to create declarative config from entries: {0}")]
    Entries(#[source] LoadError),
    /// Entries that do not form a valid catalog.
    #[error("render: entries are not valid FBC: {0}")]
    Invalid(String),
    /// A substitution that cannot be made.
    #[error("render: error processing substitution {base}->{name}: {problem}")]
    Substitution {
        /// The bundle to be substituted.
        base: String,
        /// The image that takes its place.
        name: String,
        /// The problem.
        #[source]
        problem: Box<SubstitutionError>,
    },
    /// A blob is invalid.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Why a bundle cannot take the place of another one.
#[derive(Debug, thiserror::Error)]
pub enum SubstitutionError {
    /// The image is not named.
    #[error("substitution name cannot be empty")]
    NoName,
    /// The bundle is not named.
    #[error("substitution base cannot be empty")]
    NoBase,
    /// Both are the same.
    #[error("substitution name and base cannot be the same")]
    Same,
    /// The image cannot be rendered.
    #[error("failed to render bundle image reference {name:?}: {source}")]
    Render {
        /// The image.
        name: String,
        /// The reason.
        source: RenderError,
    },
    /// The image holds no bundle.
    #[error("rendered bundle image reference {0:?} contains no bundles")]
    NoBundle(String),
    /// The version of the new bundle cannot be read.
    #[error("failed to get composite version for substitute bundle {name:?}: {source}")]
    SubstituteVersion {
        /// The image.
        name: String,
        /// The reason.
        source: CompositeVersionError,
    },
    /// The catalog has no such bundle.
    #[error("base bundle {0:?} does not exist in catalog")]
    UnknownBase(String),
    /// The version of the old bundle cannot be read.
    #[error("failed to get composite version for base bundle {base:?}: {source}")]
    BaseVersion {
        /// The bundle.
        base: String,
        /// The reason.
        source: CompositeVersionError,
    },
    /// The new bundle has the same name or no higher version.
    #[error("base bundle {base:?} is not less than substitute bundle {name:?}")]
    NotLess {
        /// The bundle.
        base: String,
        /// The image.
        name: String,
    },
    /// The catalog is invalid afterwards.
    #[error("resulting config is not valid FBC: {0}")]
    Invalid(#[source] Validation),
}

/// Why the version of a bundle cannot be compared, with its release.
#[derive(Debug, thiserror::Error)]
pub enum CompositeVersionError {
    /// The bundle has no package property, or several.
    #[error("bundle {bundle:?} must have exactly 1 \"olm.package\" property, found {count}")]
    Count {
        /// The bundle.
        bundle: String,
        /// Its package properties.
        count: usize,
    },
    /// The property is no JSON.
    #[error("parse properties for bundle {bundle:?}: {source}")]
    Property {
        /// The bundle.
        bundle: String,
        /// The reason.
        source: serde_json::Error,
    },
    /// The version is none.
    #[error("bundle {bundle:?} has invalid version {version:?}: {source}")]
    Version {
        /// The bundle.
        bundle: String,
        /// Its version.
        version: String,
        /// The reason.
        source: mainstay_versions::Error,
    },
    /// The release has build metadata.
    #[error("bundle {bundle:?} release version {release:?} cannot contain build metadata")]
    BuildMetadata {
        /// The bundle.
        bundle: String,
        /// Its release.
        release: String,
    },
    /// The release is none.
    #[error("error parsing bundle {bundle:?} release version {release:?}: {source}")]
    Release {
        /// The bundle.
        bundle: String,
        /// Its release.
        release: String,
        /// The reason.
        source: mainstay_versions::Error,
    },
}

/// Problem with the text of a semver template.
#[derive(Debug, thiserror::Error)]
pub enum SemverError {
    /// The schema is not that of a semver template.
    #[error("readFile: input file has unknown schema, should be {:?}", Kind::Semver.schema())]
    Schema,
    /// The text is neither JSON nor YAML.
    #[error("error converting YAML to JSON: yaml: {0}")]
    Text(String),
    /// A key that the template does not have.
    #[error("error unmarshaling JSON: while decoding JSON: json: unknown field {field:?}; known{} are {known}", inside(at))]
    UnknownField {
        /// The key.
        field: String,
        /// Path of the mapping that contains it.
        at: String,
        /// Keys that exist there.
        known: &'static str,
    },
    /// A duplicate key.
    #[error("error converting YAML to JSON: yaml: unmarshal errors:\n  line {line}: key {key:?} already set in map")]
    Duplicate {
        /// The line of the second one.
        line: usize,
        /// The key.
        key: String,
    },
    /// A value has the wrong shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The preferred kind of default channel is not generated.
    #[error(
        "schema attribute mismatch: DefaultChannelTypePreference set to '{0}' doesn't make sense if not generating {0}-version channels"
    )]
    Preference(&'static str),
    /// The preferred kind of default channel does not exist.
    #[error("unknown DefaultChannelTypePreference: {0:?}\nValid values are 'major' or 'minor'")]
    UnknownPreference(String),
}

fn inside(at: &str) -> String {
    if at.is_empty() { String::new() } else { format!(" in {at}") }
}

/// Reason why bundles cannot be ordered by version.
#[derive(Debug, thiserror::Error)]
pub enum VersionsError {
    /// A bundle does not have exactly one version.
    #[error("bundle {bundle:?} has multiple \"olm.package\" properties, expected exactly 1")]
    Properties {
        /// The bundle.
        bundle: String,
    },
    /// A version that cannot be parsed.
    #[error("bundle {bundle:?} has invalid version {version:?}: {reason}")]
    Version {
        /// The bundle.
        bundle: String,
        /// Its version as written.
        version: String,
        /// The problem.
        reason: String,
    },
    /// Bundles of several packages.
    #[error("bundle {found:?} does not belong to this package: {expected:?}")]
    Packages {
        /// Package of the bundle.
        found: String,
        /// Package of the bundles before it.
        expected: String,
    },
    /// A bundle occurs twice in one place.
    #[error("duplicate bundle name {0:?}")]
    Duplicate(String),
    /// Versions whose order is not defined.
    #[error("encountered bundle versions which differ only by build metadata, which cannot be ordered: {0}")]
    BuildMetadata(String),
}

/// Renders a reference that must give exactly one bundle.
fn one(reference: &str, render: &mut RenderBundle<'_>) -> Result<(Bundle, Rendered), TemplateError> {
    let mut rendered = render(reference).map_err(TemplateError::Render)?;
    let bundles = std::mem::take(&mut rendered.bundles);
    let count = bundles.len();
    match <[Bundle; 1]>::try_from(bundles) {
        Ok([bundle]) => Ok((bundle, rendered)),
        Err(_) => Err(TemplateError::Count { reference: reference.to_owned(), count }),
    }
}
