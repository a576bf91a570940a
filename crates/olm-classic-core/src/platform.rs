//! The newest platform version that an operator supports (OLM0-BUNDLE-12, OLM0-MET-06).

use mainstay_golang::json_reader::Unreadable;
use mainstay_versions::Version;

use crate::properties;

/// The property of a bundle that names it.
pub const PROPERTY: &str = "olm.maxOpenShiftVersion";

/// Why the version cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMaximum {
    /// The annotation is none.
    #[error("failed to unmarshal properties annotation: {0}")]
    Annotation(#[from] Unreadable),
    /// There are several.
    #[error("defining more than one \"{PROPERTY}\" property is not allowed")]
    Several,
    /// It is empty.
    #[error("value cannot be \"\" (an empty string)")]
    Empty,
    /// It is no version.
    #[error("failed to parse \"{value}\" as semver: {error}")]
    Version {
        /// The value.
        value: String,
        /// The problem.
        error: mainstay_versions::Error,
    },
    /// It is more than major and minor.
    #[error("property {PROPERTY} must specify only <major>.<minor> version, got invalid value {0}")]
    Patch(Version),
}

/// The newest version in the properties of a CSV's annotation; `None` if it names none.
pub fn maximum(annotation: Option<&str>) -> Result<Option<Version>, InvalidMaximum> {
    let Some(annotation) = annotation else { return Ok(None) };
    let properties = properties::read(annotation)?;
    let mut values = properties.iter().filter(|property| property.kind == PROPERTY).map(|property| &property.value);
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(InvalidMaximum::Several);
    }
    // Authors quote it once or twice.
    let value = value.trim_matches('"');
    if value.is_empty() {
        return Err(InvalidMaximum::Empty);
    }
    let version = Version::parse_tolerant(value).map_err(|error| InvalidMaximum::Version { value: value.to_owned(), error })?;
    let truncated = Version::new(version.major(), version.minor(), 0);
    if version.cmp_precedence(&truncated).is_eq() { Ok(Some(truncated)) } else { Err(InvalidMaximum::Patch(version)) }
}
