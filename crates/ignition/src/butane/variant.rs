//! The variants and versions of Butane configs.

use std::sync::LazyLock;

use super::ButaneError;
use crate::model::{Spec, Type, read_named};
use crate::version::Version;

/// The variants and versions that are supported here.
pub(super) const SUPPORTED: &str = "fcos 1.5.0 and 1.6.0, openshift 4.14.0 to 4.20.0";

/// Those that upstream knows besides.
const ELSEWHERE: [(&str, &[&str]); 6] = [
    ("fcos", &["1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.7.0-experimental"]),
    ("flatcar", &["1.0.0", "1.1.0", "1.2.0-experimental"]),
    ("openshift", &["4.8.0", "4.9.0", "4.10.0", "4.11.0", "4.12.0", "4.13.0", "4.21.0-experimental"]),
    ("r4e", &["1.0.0", "1.1.0", "1.2.0-experimental"]),
    ("fiot", &["1.0.0", "1.1.0-experimental"]),
    ("", &[]),
];

/// A variant in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Fcos1_5,
    Fcos1_6,
    /// OpenShift 4 in a minor version.
    OpenShift(i64),
}

impl Variant {
    pub(super) fn find(name: &str, version: &Version) -> Result<Self, ButaneError> {
        let written = version.to_string();
        let plain = version.pre_release.is_empty() && version.metadata.is_empty();
        match (name, version.numbers) {
            ("fcos", [1, 5, 0]) if plain => return Ok(Variant::Fcos1_5),
            ("fcos", [1, 6, 0]) if plain => return Ok(Variant::Fcos1_6),
            ("openshift", [4, minor @ 14..=20, 0]) if plain => return Ok(Variant::OpenShift(minor)),
            ("rhcos", [0, 1, 0]) if plain => return Err(ButaneError::Rhcos),
            _ => {}
        }
        let (variant, version) = (name.to_owned(), written);
        let elsewhere = ELSEWHERE.iter().any(|(known, versions)| *known == name && versions.contains(&version.as_str()));
        Err(if elsewhere { ButaneError::Unsupported { variant, version } } else { ButaneError::UnknownVersion { variant, version } })
    }

    pub(super) fn is_openshift(self) -> bool {
        matches!(self, Variant::OpenShift(_))
    }

    /// Returns true if it knows encryption by CEX cards, and the other rules that came with it.
    pub(super) fn has_cex(self) -> bool {
        matches!(self, Variant::Fcos1_6 | Variant::OpenShift(19..))
    }

    /// Returns true if FIPS changes the options of LUKS volumes.
    pub(super) fn adds_fips_options(self) -> bool {
        matches!(self, Variant::OpenShift(..20))
    }

    /// The version of the Ignition config that it becomes.
    pub(super) fn spec(self) -> Spec {
        if self.has_cex() { Spec::V3_5 } else { Spec::V3_4 }
    }

    /// The type of a config.
    pub(super) fn schema(self) -> &'static Type {
        static SCHEMAS: LazyLock<Vec<&'static Type>> = LazyLock::new(|| {
            let mut schemas = vec![read_named(include_str!("schema/fcos_1_5.txt")), read_named(include_str!("schema/fcos_1_6.txt"))];
            for minor in 14..=20 {
                // The versions differ in the name that messages have for their package.
                let (table, package) = match minor {
                    ..19 => (include_str!("schema/openshift_4_14.txt"), "v4_14."),
                    _ => (include_str!("schema/openshift_4_19.txt"), "v4_19."),
                };
                schemas.push(read_named(&table.replace(package, &format!("v4_{minor}."))));
            }
            schemas
        });
        let index = match self {
            Variant::Fcos1_5 => 0,
            Variant::Fcos1_6 => 1,
            Variant::OpenShift(minor) => 2 + (minor - 14) as usize,
        };
        SCHEMAS[index]
    }
}
