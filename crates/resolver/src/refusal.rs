//! Refusals: upstream's words, facts per catalog, hints.

use std::fmt;

use mainstay_diagnostics::counted;

use crate::hints::Hint;

/// The reason why resolution gave no bundle. `Display` is the text for the `Progressing` condition, to the character (OLM1-SEL-09).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The kind of refusal.
    pub kind: RefusalKind,
    /// The offers of each catalog, by name (OLM1-SEL-10).
    pub catalogs: Vec<CatalogReport>,
    /// Changes that were tried and would work.
    pub hints: Vec<Hint>,
}

/// Kinds of refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalKind {
    /// The version range cannot be read.
    InvalidVersionRange {
        /// As written.
        range: String,
        /// The parser's words.
        reason: String,
    },
    /// The catalog selector is invalid.
    InvalidSelector {
        /// Kubernetes' words.
        reason: String,
    },
    /// A candidate catalog could not be asked (OLM1-SEL-02).
    CatalogFailed {
        /// Package that was requested.
        package: String,
        /// The catalog.
        catalog: String,
        /// The reason.
        reason: String,
    },
    /// The version of the installed bundle cannot be read, so no bundle can follow it.
    InvalidInstalledVersion {
        /// The bundle.
        bundle: String,
        /// Its version.
        version: String,
        /// The parser's words.
        reason: String,
    },
    /// No bundle, or bundles in several catalogs of one priority.
    NoSingleBundle {
        /// Version that is installed.
        installed: Option<String>,
        /// Package that was requested.
        package: String,
        /// Range that was requested.
        version: Option<String>,
        /// Channels that were requested.
        channels: Vec<String>,
        /// Catalogs of one priority that all have a bundle, by name; empty when none has.
        tied: Vec<String>,
    },
    /// The only bundle that fits has no readable version.
    InvalidBundleVersion {
        /// The bundle.
        bundle: String,
        /// The reason.
        reason: String,
    },
    /// The bundle declares a dependency (OLM1-INST-04).
    UnsupportedDependency {
        /// The bundle.
        bundle: String,
        /// Type of the property.
        property: String,
    },
}

/// The offers of one catalog.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CatalogReport {
    /// Name of the catalog.
    pub catalog: String,
    /// Its priority.
    pub priority: i32,
    /// True if the selector chose it.
    pub selected: bool,
    /// True if its content was available.
    pub available: bool,
    /// True if it has the package.
    pub package_found: bool,
    /// Bundles of the package.
    pub bundles: usize,
    /// Of those, bundles in the channels.
    pub in_channels: usize,
    /// Of those in the channels, bundles in the version range.
    pub in_range: usize,
    /// Of those, bundles that may follow the installed one: the ones that fit.
    pub matching: usize,
    /// The reason why it cannot be asked, and why the choice can be made without it (MS-EXPL-05); `None` if it took part.
    pub left_out: Option<String>,
}

impl fmt::Display for CatalogReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "catalog {} (priority {}): ", self.catalog, self.priority)?;
        if !self.selected {
            return f.write_str("not selected");
        }
        if let Some(why) = &self.left_out {
            return write!(f, "left out: {why}");
        }
        if !self.available {
            return f.write_str("not available");
        }
        if !self.package_found {
            return f.write_str("does not have the package");
        }
        write!(
            f,
            "{}, {} in the channels, {} of them in the version range, {} of them allowed by update edges",
            counted(self.bundles, "bundle"),
            self.in_channels,
            self.in_range,
            self.matching
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for RefusalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidVersionRange { range, reason } => write!(f, "desired version range {range:?} is invalid: {reason}"),
            Self::InvalidSelector { reason } => write!(f, "desired catalog selector is invalid: {reason}"),
            Self::CatalogFailed { package, catalog, reason } => {
                write!(f, "error walking catalogs: error getting package \"{package}\" from catalog \"{catalog}\": {reason}")
            }
            Self::InvalidInstalledVersion { bundle, version, reason } => {
                write!(f, "error walking catalogs: parsing installed bundle \"{bundle}\" version \"{version}\": {reason}")
            }
            Self::NoSingleBundle { installed, package, version, channels, tied } => {
                if let Some(installed) = installed {
                    write!(f, "error upgrading from currently installed version \"{installed}\": ")?;
                }
                f.write_str(if tied.is_empty() { "no bundles found" } else { "found bundles" })?;
                write!(f, " for package \"{package}\"")?;
                if let Some(version) = version {
                    write!(f, " matching version \"{version}\"")?;
                }
                if !channels.is_empty() {
                    write!(f, " in channels [{}]", channels.join(" "))?;
                }
                if !tied.is_empty() {
                    write!(f, " in multiple catalogs with the same priority [{}]", tied.join(" "))?;
                }
                Ok(())
            }
            Self::InvalidBundleVersion { bundle, reason } => {
                write!(f, "error getting resolved bundle version for bundle \"{bundle}\": {reason}")
            }
            Self::UnsupportedDependency { bundle, property } => write!(
                f,
                "validating bundle \"{bundle}\": bundle \"{bundle}\" has a dependency declared via property \"{property}\" which is currently not supported"
            ),
        }
    }
}
