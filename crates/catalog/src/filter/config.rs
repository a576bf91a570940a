//! The configuration file of a selection.

use mainstay_versions::{CatalogRange, Version};
use serde::Deserialize;

use super::{ChannelChoice, Choice, Dependencies, FilterError, Selection};

/// Maximum size of the file, in bytes.
const MAX_BYTES: usize = 4 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct File {
    #[serde(default)]
    with_dependencies: bool,
    packages: Vec<PackageEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PackageEntry {
    name: String,
    #[serde(default)]
    channels: Vec<ChannelEntry>,
    range: Option<String>,
    min_version: Option<String>,
    max_version: Option<String>,
    default_channel: Option<String>,
    #[serde(default)]
    keep_path_from: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ChannelEntry {
    name: String,
    range: Option<String>,
    min_version: Option<String>,
    max_version: Option<String>,
}

pub(super) fn read(text: &str) -> Result<Selection, FilterError> {
    let config = |path: &str, reason: String| FilterError::Config { path: path.to_owned(), reason };
    if text.len() > MAX_BYTES {
        return Err(config("configuration", format!("is longer than {MAX_BYTES} bytes")));
    }
    let value = mainstay_yaml::parse(text).map_err(|error| config(&format!("line {}", error.line), error.problem.clone()))?;
    let file: File = serde_json::from_value(value).map_err(|error| config("configuration", error.to_string()))?;
    let dependencies = if file.with_dependencies { Dependencies::Include } else { Dependencies::Leave };
    let packages = file.packages.into_iter().map(choice).collect::<Result<_, _>>()?;
    Ok(Selection { packages, dependencies })
}

fn choice(entry: PackageEntry) -> Result<Choice, FilterError> {
    let at = format!("package {}", entry.name);
    let channels = entry.channels.into_iter().map(|channel| {
        let range = range(&format!("{at}, channel {}", channel.name), channel.range, channel.min_version, channel.max_version)?;
        Ok(ChannelChoice { name: channel.name, range })
    });
    Ok(Choice {
        channels: channels.collect::<Result<_, FilterError>>()?,
        range: range(&at, entry.range, entry.min_version, entry.max_version)?,
        package: entry.name,
        default_channel: entry.default_channel,
        keep_path_from: entry.keep_path_from,
    })
}

/// The given range, or the one between two versions, both included.
fn range(at: &str, range: Option<String>, min: Option<String>, max: Option<String>) -> Result<Option<CatalogRange>, FilterError> {
    let wrong = |reason: String| FilterError::Config { path: at.to_owned(), reason };
    let bounds = [(">=", min), ("<=", max)].into_iter().filter_map(|(sign, version)| Some((sign, version?)));
    let mut parts = Vec::new();
    for (sign, version) in bounds {
        Version::parse(&version).map_err(|error| wrong(format!("version {version:?}: {error}")))?;
        parts.push(format!("{sign}{version}"));
    }
    if range.is_some() && !parts.is_empty() {
        return Err(wrong("has a range, and minVersion or maxVersion; give one of them".to_owned()));
    }
    let text = range.or_else(|| (!parts.is_empty()).then(|| parts.join(" ")));
    text.map(|text| CatalogRange::parse(&text).map_err(|error| wrong(format!("range {text:?}: {error}")))).transpose()
}
