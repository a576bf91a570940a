//! Kubernetes' own versions: of its APIs (`v1beta1`) and of clusters (`v1.34.2`).

use std::cmp::Ordering;
use std::fmt;

use mainstay_golang::quote;

use crate::{Error, Version};

/// Orders names of API versions by preference, the preferred one first: stable before beta before alpha, then the higher one;
/// other names come last, alphabetically.
pub fn compare_api_versions(left: &str, right: &str) -> Ordering {
    match (ApiVersion::parse(left), ApiVersion::parse(right)) {
        (Some(left), Some(right)) => right.cmp(&left),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => left.cmp(right),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    Alpha,
    Beta,
    Stable,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ApiVersion {
    stability: Stability,
    major: u64,
    minor: u64,
}

impl ApiVersion {
    fn parse(name: &str) -> Option<Self> {
        let digits = |text: &str| -> Option<u64> {
            if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) { None } else { text.parse().ok() }
        };
        let rest = name.strip_prefix('v')?;
        for (word, stability) in [("alpha", Stability::Alpha), ("beta", Stability::Beta)] {
            if let Some((major, minor)) = rest.split_once(word) {
                return Some(Self { stability, major: digits(major)?, minor: digits(minor)? });
            }
        }
        Some(Self { stability: Stability::Stable, major: digits(rest)?, minor: 0 })
    }
}

/// The version of a cluster as it reports itself, or as a bundle requires it: `v1.34.2`, `1.27`, `v1.31.4+k3s1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubernetesVersion(Version);

impl KubernetesVersion {
    /// Reads a version; a leading `v` and a missing patch number are allowed.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let bare = text.strip_prefix('v').unwrap_or(text);
        let end = bare.find(['-', '+']).unwrap_or(bare.len());
        let full = match bare[..end].split('.').count() {
            2 => format!("{}.0{}", &bare[..end], &bare[end..]),
            _ => bare.to_owned(),
        };
        match Version::parse(&full) {
            Ok(version) => Ok(Self(version)),
            Err(error) => Err(Error(format!("{} is no Kubernetes version: {error}", quote(text)))),
        }
    }

    /// The version itself.
    pub fn version(&self) -> &Version {
        &self.0
    }

    /// Major and minor number, on which compatibility rests.
    pub fn minor(&self) -> (u64, u64) {
        (self.0.major(), self.0.minor())
    }

    /// Returns whether a cluster of this version meets the requirement `minimum`.
    pub fn is_at_least(&self, minimum: &Self) -> bool {
        self.0.cmp_precedence(&minimum.0).is_ge()
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}
