//! Migrations of a catalog's blobs to newer forms (CATLG-32: `--migrate-level`).

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainstay_bundle::{Csv, go};
use mainstay_catalog::{Bundle, Catalog, Property};
use serde_json::value::RawValue;

use crate::error::Error;

const OBJECT: &str = "olm.bundle.object";
const METADATA: &str = "olm.csv.metadata";

/// Level of migration of a catalog.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No migration.
    #[default]
    None,
    /// Replaces manifests embedded in bundles by the parts of the CSV that users see.
    BundleObjectToCsvMetadata,
}

impl Level {
    /// All migrations.
    pub const ALL: Self = Self::BundleObjectToCsvMetadata;
    /// The levels in order, with what each one does.
    pub const LEVELS: [(Self, &'static str); 2] =
        [(Self::None, "do nothing"), (Self::BundleObjectToCsvMetadata, r#"migrates bundles' "olm.bundle.object" to "olm.csv.metadata""#)];
}

impl fmt::Display for Level {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::None => "none",
            Self::BundleObjectToCsvMetadata => "bundle-object-to-csv-metadata",
        })
    }
}

/// A level that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown migration level {0:?}")]
pub struct UnknownLevel(String);

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        match text {
            "all" => Ok(Self::ALL),
            other => Self::LEVELS
                .iter()
                .map(|(level, _)| *level)
                .find(|level| level.to_string() == other)
                .ok_or_else(|| UnknownLevel(other.to_owned())),
        }
    }
}

/// Brings every bundle of a catalog to a level.
pub fn migrate(catalog: &mut Catalog, level: Level) -> Result<(), Error> {
    if level >= Level::BundleObjectToCsvMetadata {
        catalog.bundles.iter_mut().try_for_each(to_csv_metadata)?;
    }
    Ok(())
}

/// Replaces a bundle's embedded manifests by the metadata of its CSV. A bundle without image keeps its manifests, since they are nowhere
/// else; one that already has the metadata is left unchanged.
fn to_csv_metadata(bundle: &mut Bundle) -> Result<(), Error> {
    if bundle.image.is_empty() || bundle.properties.iter().any(|property| property.kind == METADATA) {
        return Ok(());
    }
    let Some(csv) = embedded_csv(bundle) else { return Ok(()) };
    let refuse = |problem: String| Error::Migrate { bundle: bundle.name.to_string(), problem };
    let csv = Csv::parse(&go::fold("operators.ClusterServiceVersion", &csv)).map_err(|mismatch| refuse(mismatch.to_string()))?;
    let value = RawValue::from_string(csv.catalog_metadata_text()).map_err(|error| refuse(error.to_string()))?;
    bundle.properties.retain(|property| property.kind != OBJECT);
    bundle.properties.push(Property { kind: METADATA.to_owned(), value });
    Ok(())
}

/// Returns the CSV that a bundle embeds as one of its objects. Unreadable objects are passed over, as upstream does.
pub fn embedded_csv(bundle: &Bundle) -> Option<serde_json::Value> {
    bundle.properties.iter().filter(|property| property.kind == OBJECT).find_map(csv_of)
}

fn csv_of(property: &Property) -> Option<serde_json::Value> {
    let value: serde_json::Value = serde_json::from_str(property.value.get()).ok()?;
    let bytes = STANDARD.decode(value["data"].as_str()?).ok()?;
    let object = mainstay_yaml::parse(std::str::from_utf8(&bytes).ok()?).ok()?;
    (object["kind"] == "ClusterServiceVersion").then_some(object)
}
