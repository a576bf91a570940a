//! Semantic versions in strict form: three numbers, no leading `v`, no leading zeros.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use semver::{BuildMetadata, Prerelease};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use mainstay_golang::quote;

use crate::Error;

/// The longest version in bytes; a handwritten one is shorter.
const MAX_BYTES: usize = 512;

/// A semantic version.
///
/// Ordered by precedence; versions that differ only in build metadata have the same precedence and are then ordered by it, so that
/// sorting is deterministic. Use [`Version::cmp_precedence`] for the specification's own order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(semver::Version);

impl Version {
    /// A release.
    pub const fn new(major: u64, minor: u64, patch: u64) -> Self {
        Self(semver::Version::new(major, minor, patch))
    }

    /// Reads a version, strictly.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return fail("Version string empty");
        }
        if text.len() > MAX_BYTES {
            return fail(format!("version is longer than {MAX_BYTES} bytes"));
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return fail("No Major.Minor.Patch elements found");
        };
        let major = number(major, "major", "Major")?;
        let minor = number(minor, "minor", "Minor")?;
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (patch, pre) = match rest.split_once('-') {
            Some((patch, pre)) => (patch, Some(pre)),
            None => (rest, None),
        };
        let patch = number(patch, "patch", "Patch")?;
        let mut version = semver::Version::new(major, minor, patch);
        if let Some(pre) = pre {
            for part in pre.split('.') {
                prerelease_part(part)?;
            }
            version.pre = Prerelease::new(pre).map_err(|error| Error(error.to_string()))?;
        }
        if let Some(build) = build {
            for part in build.split('.') {
                if part.is_empty() {
                    return fail("Build meta data is empty");
                }
                if !part.bytes().all(is_identifier) {
                    return fail(format!("Invalid character(s) found in build meta data {}", quote(part)));
                }
            }
            version.build = BuildMetadata::new(build).map_err(|error| Error(error.to_string()))?;
        }
        Ok(Self(version))
    }

    /// Reads a version leniently: blanks and a `v` in front, leading zeros, and missing parts are allowed.
    pub fn parse_tolerant(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
        for part in parts.iter_mut().filter(|part| part.len() > 1) {
            let rest = part.trim_start_matches('0');
            let digit = rest.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
            *part = if digit { rest.to_owned() } else { format!("0{rest}") };
        }
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return fail("Short version cannot contain PreRelease/Build meta data");
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }

    /// The first number.
    pub fn major(&self) -> u64 {
        self.0.major
    }

    /// The second number.
    pub fn minor(&self) -> u64 {
        self.0.minor
    }

    /// The third number.
    pub fn patch(&self) -> u64 {
        self.0.patch
    }

    /// The part after `-`; empty if there is none.
    pub fn prerelease(&self) -> &str {
        self.0.pre.as_str()
    }

    /// The part after `+`; empty if there is none.
    pub fn build(&self) -> &str {
        self.0.build.as_str()
    }

    /// Returns whether it is a pre-release.
    pub fn is_prerelease(&self) -> bool {
        !self.0.pre.is_empty()
    }

    /// The order of the specification, which ignores build metadata.
    pub fn cmp_precedence(&self, other: &Self) -> Ordering {
        self.0.cmp_precedence(&other.0)
    }

    pub(crate) fn with_prerelease(major: u64, minor: u64, patch: u64, pre: &str) -> Result<Self, Error> {
        let mut version = semver::Version::new(major, minor, patch);
        version.pre = Prerelease::new(pre).map_err(|error| Error(error.to_string()))?;
        Ok(Self(version))
    }

    pub(crate) fn compare_prerelease(&self, other: &Self) -> Ordering {
        self.0.pre.cmp(&other.0.pre)
    }
}

fn fail<T>(problem: impl Into<String>) -> Result<T, Error> {
    Err(Error(problem.into()))
}

fn is_identifier(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn number(text: &str, name: &str, capitalised: &str) -> Result<u64, Error> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return fail(format!("Invalid character(s) found in {name} number {}", quote(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return fail(format!("{capitalised} number must not contain leading zeroes {}", quote(text)));
    }
    match text.parse() {
        Ok(number) => Ok(number),
        Err(_) if text.is_empty() => fail("strconv.ParseUint: parsing \"\": invalid syntax"),
        Err(_) => fail(format!("strconv.ParseUint: parsing {}: value out of range", quote(text))),
    }
}

fn prerelease_part(part: &str) -> Result<(), Error> {
    if part.is_empty() {
        return fail("Prerelease is empty");
    }
    if part.bytes().all(|byte| byte.is_ascii_digit()) {
        if part.len() > 1 && part.starts_with('0') {
            return fail(format!("Numeric PreRelease version must not contain leading zeroes {}", quote(part)));
        }
        if part.parse::<u64>().is_err() {
            return fail(format!("strconv.ParseUint: parsing {}: value out of range", quote(part)));
        }
    } else if !part.bytes().all(is_identifier) {
        return fail(format!("Invalid character(s) found in prerelease {}", quote(part)));
    }
    Ok(())
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        // The build part is a tie-break of this crate, not a statement about precedence.
        self.cmp_precedence(other).then_with(|| self.0.build.cmp(&other.0.build))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}
