//! The versions that the images of a release say of their components.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_golang::quote;
use mainstay_versions::Version;
use serde::Serialize;
use serde_json::Value;

use super::Tag;

const VERSIONS: &str = "io.openshift.build.versions";
const DISPLAY_NAMES: &str = "io.openshift.build.version-display-names";
/// The component that many images carry; those that are published decide.
const KUBECTL: &str = "kubectl";
const KUBECTL_IMAGES: [&str; 2] = ["cli", "cli-artifacts"];

/// The version of a component, and its name for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Component {
    /// The version, without build metadata.
    #[serde(rename = "Version")]
    pub version: String,
    /// The name for people; empty if it has none.
    #[serde(rename = "DisplayName")]
    pub display_name: String,
}

/// A label that does not say what it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// A display name without `=`.
    #[error("the display name pair {} must be NAME=DISPLAYNAME", quote(.0))]
    NamePair(String),
    /// A component name that is too short.
    #[error("the version name {} must be at least 2 characters", quote(.0))]
    Short(String),
    /// A component name with other letters.
    #[error("the version name {} must only be ASCII alphanumerics and internal hyphens", quote(.0))]
    Letters(String),
    /// A display name with other letters.
    #[error("the display name {} must only be alphanumerics, spaces, and symbols in [():-]", quote(.0))]
    DisplayName(String),
    /// A version without `=`.
    #[error("the version pair {} must be NAME=VERSION", quote(.0))]
    Pair(String),
    /// A version that is no semantic one.
    #[error("the version pair {} must have a valid semantic version: {error}", quote(.pair))]
    Version {
        /// The pair.
        pair: String,
        /// The rule that it breaks.
        error: mainstay_versions::Error,
    },
}

/// What was read of all images.
#[derive(Debug, Default)]
pub struct Read {
    /// The components by name.
    pub components: BTreeMap<String, Component>,
    /// Labels that cannot be read, and components with several versions.
    pub warnings: Vec<String>,
    /// What is told on standard error.
    pub notices: Vec<String>,
}

/// Reads the labels of all images of a release.
pub fn components(references: &Value) -> Read {
    let mut read = Read::default();
    let (mut versions, mut names) = (BTreeMap::<String, BTreeSet<String>>::new(), BTreeMap::<String, BTreeSet<String>>::new());
    let mut kubectl = BTreeMap::<String, BTreeSet<&str>>::new();
    for tag in references["spec"]["tags"].as_array().into_iter().flatten().map(Tag) {
        if tag.0["annotations"].get(VERSIONS).is_none() {
            continue;
        }
        let all = match parse_versions(tag.annotation(VERSIONS), tag.annotation(DISPLAY_NAMES)) {
            Ok(all) => all,
            Err(error) => {
                read.warnings.push(format!("the referenced image {} had an invalid version annotation: {error}", tag.name()));
                continue;
            }
        };
        for (name, component) in all {
            if name == KUBECTL {
                kubectl.entry(component.version.clone()).or_default().insert(tag.name());
                if !KUBECTL_IMAGES.contains(&tag.name()) {
                    continue;
                }
            }
            versions.entry(name.clone()).or_default().insert(component.version);
            names.entry(name).or_default().insert(component.display_name);
        }
    }
    if kubectl.len() > 2 {
        let told: Vec<String> =
            kubectl.iter().map(|(version, tags)| format!("{version} ({})", tags.iter().copied().collect::<Vec<_>>().join(", "))).collect();
        read.notices.push(format!("warning: multiple versions reported for the kubectl: {}", told.join(", ")));
    }
    let mut several = BTreeSet::new();
    for (name, versions) in versions {
        let displayed = names.remove(&name).unwrap_or_default();
        if versions.len() > 1 || displayed.len() > 1 {
            several.insert(name.clone());
        }
        let first = |set: BTreeSet<String>| set.into_iter().next().unwrap_or_default();
        read.components.insert(name, Component { version: first(versions), display_name: first(displayed) });
    }
    if !several.is_empty() {
        read.warnings.push(format!(
            "multiple versions or display names reported for the following component(s): {}",
            several.into_iter().collect::<Vec<_>>().join(",  ")
        ));
    }
    read.warnings.sort();
    read
}

/// Reads the labels with versions and with display names.
pub fn parse_versions(versions: &str, display_names: &str) -> Result<BTreeMap<String, Component>, LabelError> {
    let versions = versions.trim();
    let mut all = BTreeMap::new();
    if versions.is_empty() {
        return Ok(all);
    }
    let mut names = BTreeMap::new();
    if !display_names.is_empty() {
        for pair in display_names.split(',').map(str::trim) {
            let (name, displayed) = pair.split_once('=').ok_or_else(|| LabelError::NamePair(pair.to_owned()))?;
            check_name(name)?;
            let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-:() \t\n\r\u{c}".contains(letter);
            if displayed.is_empty() || !displayed.chars().all(allowed) {
                return Err(LabelError::DisplayName(displayed.to_owned()));
            }
            names.insert(name, displayed);
        }
    }
    for pair in versions.split(',').map(str::trim) {
        let (name, version) = pair.split_once('=').ok_or_else(|| LabelError::Pair(pair.to_owned()))?;
        check_name(name)?;
        let parsed = Version::parse(version).map_err(|error| LabelError::Version { pair: pair.to_owned(), error })?.to_string();
        let version = parsed.split('+').next().unwrap_or_default().to_owned();
        let display_name = names.get(name).map(|name| (*name).to_owned()).unwrap_or_default();
        all.insert(name.to_owned(), Component { version, display_name });
    }
    Ok(all)
}

fn check_name(name: &str) -> Result<(), LabelError> {
    if name.len() < 2 {
        return Err(LabelError::Short(name.to_owned()));
    }
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    let ends = bytes.first().is_some_and(|&byte| plain(byte)) && bytes.last().is_some_and(|&byte| plain(byte));
    if ends && bytes.iter().all(|&byte| plain(byte) || byte == b'-') { Ok(()) } else { Err(LabelError::Letters(name.to_owned())) }
}
