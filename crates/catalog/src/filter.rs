//! A smaller catalog: packages, channels and versions, with what they need (CATLG-34, CATLG-35, OLM1-BUILD-08, OLM1-BUILD-09).
//!
//! ```text
//!   Selection ── picks ──► channel::keep    the entries of a channel that stay, so that it is still a channel
//!                  ▲            │
//!                  └── needs ◄──┘           packages that kept bundles need, until nothing is missing
//!                               ▼
//!                           assemble        blobs, default channel, deprecations ──► validate
//! ```
//!
//! The result is valid; every selected bundle is in it; from every bundle of a channel updates lead to the channel's head; a version of
//! `keep_path_from` can update to the head as well. Edges are never invented: if a selection would tear a channel apart, the entries
//! between stay in it, and a [`Notice`] says so.

mod assemble;
mod channel;
mod config;
mod needs;
mod picks;

use std::fmt;
use std::str::FromStr;

use mainstay_versions::CatalogRange;
use serde::Serialize;

use crate::model::Catalog;
use crate::parts::Parts;

/// The part of a catalog to keep.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Packages.
    pub packages: Vec<Choice>,
    /// Handling of packages that the selected ones need.
    pub dependencies: Dependencies,
}

/// Handling of packages that others need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dependencies {
    /// They are left out unless selected.
    #[default]
    Leave,
    /// They are kept too, in the versions that are needed.
    Include,
}

/// The part of a package to keep.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Its name.
    pub package: String,
    /// Its channels; all of them when empty.
    pub channels: Vec<ChannelChoice>,
    /// Its versions; all of them without a range.
    pub range: Option<CatalogRange>,
    /// Its new default channel, instead of the present one.
    pub default_channel: Option<String>,
    /// Installed versions or bundles, from which updates must lead to the heads.
    pub keep_path_from: Vec<String>,
}

/// The part of a channel to keep.
#[derive(Debug, Clone, Default)]
pub struct ChannelChoice {
    /// Its name.
    pub name: String,
    /// Its versions; all of them without a range.
    pub range: Option<CatalogRange>,
}

/// A smaller catalog, with notices about changes beyond the selection.
#[derive(Debug, Clone, Default)]
pub struct Filtered {
    /// The catalog.
    pub catalog: Catalog,
    /// Notices for the curator.
    pub notices: Vec<Notice>,
}

/// A change that the selection did not ask for, or a need that it leaves open.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// The package.
    pub package: String,
    /// The kind of notice.
    pub kind: NoticeKind,
    /// The action that was or was not taken, and its reason.
    pub message: String,
}

/// Kinds of notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoticeKind {
    /// Entries that were not selected stay, because updates lead through them.
    KeptBetween,
    /// The package has another default channel.
    DefaultChannel,
    /// A package was added because others need it.
    Dependency,
    /// A required object is missing.
    Missing,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "package {}: {}", self.package, self.message)
    }
}

/// Reason why a selection cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// Nothing is selected.
    #[error("nothing is selected; name at least one package")]
    Nothing,
    /// A selection that cannot be read.
    #[error("selection {text:?}: {reason}; it is written PACKAGE[:CHANNEL[,CHANNEL...]][@RANGE]")]
    Syntax {
        /// The selection.
        text: String,
        /// The problem.
        reason: String,
    },
    /// A configuration that cannot be read.
    #[error("{path}: {reason}")]
    Config {
        /// Path in the file.
        path: String,
        /// The problem.
        reason: String,
    },
    /// A package is selected twice.
    #[error("package {0} is selected twice")]
    Twice(String),
    /// The catalog does not have the package.
    #[error("package {package} is not in the catalog{}", near.as_deref().map(|near| format!("; there is {near}")).unwrap_or_default())]
    NoPackage {
        /// The package.
        package: String,
        /// A package with a similar name.
        near: Option<String>,
    },
    /// The package does not have the channel.
    #[error("package {package} has no channel {channel}; it has {channels}")]
    NoChannel {
        /// The package.
        package: String,
        /// The channel.
        channel: String,
        /// The channels that exist.
        channels: String,
    },
    /// No bundle matches.
    #[error("package {package}: no bundle of {} is selected; the versions are {versions}", channel.as_deref().map_or("it".to_owned(), |channel| format!("channel {channel}")))]
    NoBundle {
        /// The package.
        package: String,
        /// The channel, if one was asked for.
        channel: Option<String>,
        /// Versions that exist.
        versions: String,
    },
    /// Selected bundles have no common update, so that they cannot be in one channel.
    #[error("package {package}, channel {channel}: no entry can be reached from all of {bundles}, so the channel would have several heads")]
    Apart {
        /// The package.
        package: String,
        /// The channel.
        channel: String,
        /// The bundles.
        bundles: String,
    },
    /// No update leads from an installed version to a head.
    #[error("package {package}: from {from} no update leads to the head of a selected channel")]
    NoPath {
        /// The package.
        package: String,
        /// The installed version or bundle.
        from: String,
    },
    /// The filtered catalog is not valid.
    #[error("the filtered catalog would not be valid, because the catalog itself is not: {0}")]
    Invalid(String),
}

impl FromStr for Choice {
    type Err = FilterError;

    /// `PACKAGE[:CHANNEL[,CHANNEL...]][@RANGE]`
    fn from_str(text: &str) -> Result<Self, FilterError> {
        let syntax = |reason: &str| FilterError::Syntax { text: text.to_owned(), reason: reason.to_owned() };
        let (named, range) = match text.split_once('@') {
            Some((named, range)) => (named, Some(CatalogRange::parse(range.trim()).map_err(|error| syntax(&error.to_string()))?)),
            None => (text, None),
        };
        let (package, channels) = match named.split_once(':') {
            Some((package, channels)) => (package, channels.split(',').map(str::trim).collect()),
            None => (named, Vec::new()),
        };
        if package.trim().is_empty() {
            return Err(syntax("names no package"));
        }
        if channels.iter().any(|name| name.is_empty()) {
            return Err(syntax("a channel has no name"));
        }
        let channels = channels.into_iter().map(|name| ChannelChoice { name: name.to_owned(), range: None }).collect();
        Ok(Self { package: package.trim().to_owned(), channels, range, ..Self::default() })
    }
}

impl Selection {
    /// Reads a configuration file: YAML or JSON.
    ///
    /// ```yaml
    /// withDependencies: true
    /// packages:
    /// - name: beacon
    ///   channels: [{name: stable, minVersion: 1.0.0}]   # range, or minVersion and maxVersion; all may be left out
    ///   range: ">=1.0.0 <2.0.0"
    ///   defaultChannel: stable
    ///   keepPathFrom: [0.9.0]
    /// ```
    pub fn from_yaml(text: &str) -> Result<Self, FilterError> {
        config::read(text)
    }
}

/// Makes a smaller catalog. The selection must belong to a catalog whose selected packages are valid.
pub fn filter(catalog: &Catalog, selection: &Selection) -> Result<Filtered, FilterError> {
    let packages = Parts::by_package(catalog);
    let mut picks = picks::of(selection, &packages)?;
    loop {
        let kept = picks.keep(&packages)?;
        if needs::extend(&mut picks, &kept, &packages, selection.dependencies) == needs::Found::New {
            continue;
        }
        let filtered = assemble::assemble(catalog, &packages, &picks, &kept);
        return match crate::validate(&filtered.catalog) {
            Ok(()) => Ok(filtered),
            Err(validation) => Err(FilterError::Invalid(validation.to_string())),
        };
    }
}
