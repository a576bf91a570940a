//! Composition of a catalog from facts about bundles (`mainstay catalog from-bundles`).
//!
//! A bundle names its channels in its annotations. The update edges come from the bundles' own fields ([`Mode::Replaces`]) or from the
//! order of their versions. The result is an ordinary [`Catalog`]: validate it, render it, serve it.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use mainstay_versions::Version;

use crate::model::{Bundle, BundleName, Catalog, Channel, ChannelName, Entry, Icon, Package, PackageName, Property, RelatedImage};

/// Source of the update edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// `replaces`, `skips` and `skipRange` of each bundle.
    #[default]
    Replaces,
    /// Each version replaces the one before it in the channel.
    Semver,
    /// Only the newest patch of each minor version is on the chain; it skips the older patches.
    SemverSkipPatch,
}

/// Options for composing a catalog.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Source of the update edges.
    pub mode: Mode,
    /// Channel of bundles without channels.
    pub fallback_channel: Option<String>,
    /// Default channel of every package, instead of the one that the bundles name.
    pub default_channel: Option<String>,
}

/// Facts about one bundle.
#[derive(Debug, Clone, Default)]
pub struct BundleInput {
    /// Package of the bundle.
    pub package: String,
    /// Name of its CSV.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Pull spec of its image.
    pub image: String,
    /// Channels it belongs to.
    pub channels: Vec<String>,
    /// Default channel it names.
    pub default_channel: Option<String>,
    /// Bundle it replaces.
    pub replaces: Option<String>,
    /// Bundles it skips.
    pub skips: Vec<String>,
    /// Versions it updates.
    pub skip_range: Option<String>,
    /// Its properties, the `olm.package` property included.
    pub properties: Vec<Property>,
    /// Images it needs.
    pub related_images: Vec<RelatedImage>,
    /// Description of the operator.
    pub description: String,
    /// Picture of the operator.
    pub icon: Option<Icon>,
}

/// Reason why no catalog can be composed from the bundles.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AuthorError {
    /// No bundles were given.
    #[error("no bundles given; name at least one bundle directory or image")]
    NoBundles,
    /// A part of the facts is missing.
    #[error("bundle {bundle}: {what} is missing")]
    Missing {
        /// Name or image of the bundle.
        bundle: String,
        /// The missing part.
        what: &'static str,
    },
    /// A version cannot be parsed.
    #[error("bundle {bundle}: version {version:?} is not a semantic version: {reason}")]
    Version {
        /// Name of the bundle.
        bundle: String,
        /// Its version.
        version: String,
        /// The problem.
        reason: String,
    },
    /// A bundle is given twice.
    #[error("package {package}: bundle {bundle} is given twice")]
    Duplicate {
        /// The package.
        package: String,
        /// The bundle.
        bundle: String,
    },
    /// Two bundles whose order is not defined.
    #[error("package {package}: versions of {first} and {second} differ only in build metadata, so their order is not defined")]
    SameVersion {
        /// The package.
        package: String,
        /// One bundle.
        first: String,
        /// The other.
        second: String,
    },
    /// A bundle in no channel.
    #[error(
        "bundle {bundle}: names no channel; set annotation operators.operatorframework.io.bundle.channels.v1 in its metadata/annotations.yaml or give a channel"
    )]
    NoChannel {
        /// Name of the bundle.
        bundle: String,
    },
    /// The default channel has no bundles.
    #[error("package {package}: default channel {channel} has no bundle; its channels are {channels}")]
    DefaultChannel {
        /// The package.
        package: String,
        /// The channel.
        channel: String,
        /// Channels that exist, comma-separated.
        channels: String,
    },
}

/// Composes the blobs of all packages that the bundles belong to.
pub fn compose(options: &Options, bundles: Vec<BundleInput>) -> Result<Catalog, AuthorError> {
    if bundles.is_empty() {
        return Err(AuthorError::NoBundles);
    }
    let mut packages: BTreeMap<String, Vec<Versioned>> = BTreeMap::new();
    for bundle in bundles {
        let versioned = Versioned::new(bundle)?;
        packages.entry(versioned.input.package.clone()).or_default().push(versioned);
    }
    let mut catalog = Catalog::default();
    for (package, bundles) in packages {
        compose_package(options, &package, bundles, &mut catalog)?;
    }
    Ok(catalog)
}

struct Versioned {
    version: Version,
    input: BundleInput,
}

impl Versioned {
    fn new(input: BundleInput) -> Result<Self, AuthorError> {
        let label = if input.name.is_empty() { input.image.clone() } else { input.name.clone() };
        for (what, text) in [("the package name", &input.package), ("the name", &input.name), ("the image", &input.image)] {
            if text.is_empty() {
                return Err(AuthorError::Missing { bundle: label, what });
            }
        }
        match Version::parse(&input.version) {
            Ok(version) => Ok(Self { version, input }),
            Err(reason) => Err(AuthorError::Version { bundle: label, version: input.version, reason: reason.to_string() }),
        }
    }
}

fn compose_package(options: &Options, package: &str, mut bundles: Vec<Versioned>, catalog: &mut Catalog) -> Result<(), AuthorError> {
    bundles.sort_by(|a, b| a.version.cmp(&b.version).then_with(|| a.input.name.cmp(&b.input.name)));
    let mut names = HashSet::new();
    if let Some(twice) = bundles.iter().find(|bundle| !names.insert(bundle.input.name.as_str())) {
        return Err(AuthorError::Duplicate { package: package.to_owned(), bundle: twice.input.name.clone() });
    }
    let same = bundles.windows(2).find(|pair| pair[0].version.cmp_precedence(&pair[1].version).is_eq());
    if let (true, Some(pair)) = (options.mode != Mode::Replaces, same) {
        let (first, second) = (pair[0].input.name.clone(), pair[1].input.name.clone());
        return Err(AuthorError::SameVersion { package: package.to_owned(), first, second });
    }
    let mut channels: BTreeMap<&str, Vec<&Versioned>> = BTreeMap::new();
    for bundle in &bundles {
        let said = bundle.input.channels.iter().map(|channel| channel.trim()).filter(|channel| !channel.is_empty());
        let mut own: BTreeSet<&str> = said.collect();
        if own.is_empty() {
            own.extend(options.fallback_channel.as_deref());
        }
        if own.is_empty() {
            return Err(AuthorError::NoChannel { bundle: bundle.input.name.clone() });
        }
        for channel in own {
            channels.entry(channel).or_default().push(bundle);
        }
    }
    let default_channel = default_channel(options, package, &bundles, &channels)?;
    let shown = channels.get(default_channel.as_str()).and_then(|bundles| bundles.last()).map(|bundle| &bundle.input);
    catalog.packages.push(Package {
        name: PackageName::new(package),
        default_channel: ChannelName::new(default_channel),
        description: shown.map_or(String::new(), |input| input.description.clone()),
        icon: shown.and_then(|input| input.icon.clone()),
        properties: Vec::new(),
    });
    for (name, bundles) in channels {
        let entries = match options.mode {
            Mode::Replaces => as_said(&bundles),
            Mode::Semver => by_version(&bundles),
            Mode::SemverSkipPatch => by_minor_version(&bundles),
        };
        catalog.channels.push(Channel {
            package: PackageName::new(package),
            name: ChannelName::new(name),
            entries,
            properties: Vec::new(),
        });
    }
    for bundle in bundles {
        let input = bundle.input;
        catalog.bundles.push(Bundle {
            package: PackageName::new(input.package),
            name: BundleName::new(input.name),
            image: input.image,
            properties: input.properties,
            related_images: input.related_images,
        });
    }
    Ok(())
}

/// The requested channel; else the one that the newest bundle names, if it exists; else the first channel of the newest bundle.
fn default_channel(
    options: &Options,
    package: &str,
    bundles: &[Versioned],
    channels: &BTreeMap<&str, Vec<&Versioned>>,
) -> Result<String, AuthorError> {
    if let Some(wanted) = &options.default_channel {
        if channels.contains_key(wanted.as_str()) {
            return Ok(wanted.clone());
        }
        let known = channels.keys().copied().collect::<Vec<_>>().join(", ");
        return Err(AuthorError::DefaultChannel { package: package.to_owned(), channel: wanted.clone(), channels: known });
    }
    let newest_first = || bundles.iter().rev().map(|bundle| &bundle.input);
    let named = newest_first().filter_map(|input| input.default_channel.as_deref()).find(|name| channels.contains_key(name));
    let own = newest_first().flat_map(|input| &input.channels).map(|name| name.trim()).find(|name| channels.contains_key(name));
    let any = channels.keys().next().copied();
    Ok(named.or(own).or(any).unwrap_or_default().to_owned())
}

fn entry(bundle: &Versioned) -> Entry {
    Entry { name: BundleName::new(bundle.input.name.clone()), ..Entry::default() }
}

fn as_said(bundles: &[&Versioned]) -> Vec<Entry> {
    let said = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let entries = bundles.iter().map(|bundle| Entry {
        replaces: said(&bundle.input.replaces).map(BundleName::new),
        skips: bundle.input.skips.iter().filter(|skip| !skip.is_empty()).map(|skip| BundleName::new(skip.clone())).collect(),
        skip_range: said(&bundle.input.skip_range),
        ..entry(bundle)
    });
    entries.collect()
}

/// Creates entries by version. The bundles' own `replaces` and `skips` are left out: they could cut the chain and strand older versions.
fn by_version(bundles: &[&Versioned]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::with_capacity(bundles.len());
    for bundle in bundles {
        let replaces = entries.last().map(|previous| previous.name.clone());
        entries.push(Entry { replaces, skip_range: bundle.input.skip_range.clone().filter(|range| !range.is_empty()), ..entry(bundle) });
    }
    entries
}

fn by_minor_version(bundles: &[&Versioned]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::with_capacity(bundles.len());
    let mut previous: Option<BundleName> = None;
    for minor in bundles.chunk_by(|a, b| (a.version.major(), a.version.minor()) == (b.version.major(), b.version.minor())) {
        let Some((newest, older)) = minor.split_last() else { continue };
        entries.extend(older.iter().map(|bundle| entry(bundle)));
        let head = Entry { replaces: previous.take(), skips: older.iter().map(|bundle| entry(bundle).name).collect(), ..entry(newest) };
        previous = Some(head.name.clone());
        entries.push(head);
    }
    entries
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn bundle(version: &str, channels: &[&str]) -> BundleInput {
        BundleInput {
            package: "app".into(),
            name: format!("app.v{version}"),
            version: version.into(),
            image: format!("quay.io/app/bundle:v{version}"),
            channels: channels.iter().map(ToString::to_string).collect(),
            properties: vec![Property::new("olm.package", &serde_json::json!({"packageName": "app", "version": version})).unwrap()],
            ..BundleInput::default()
        }
    }

    fn edges(catalog: &Catalog, channel: &str) -> Vec<String> {
        let channel = catalog.channels.iter().find(|c| c.name.as_str() == channel).unwrap();
        let entries = channel.entries.iter().map(|e| {
            let skips: Vec<&str> = e.skips.iter().map(BundleName::as_str).collect();
            format!("{} <- {} skips [{}]", e.name, e.replaces.as_ref().map_or("-", BundleName::as_str), skips.join(" "))
        });
        entries.collect()
    }

    /// OLM1-FBC-19: an ordered list of versions becomes a valid update graph in each mode.
    #[test]
    fn modes() {
        let versions = ["1.1.1", "1.0.0", "1.1.0", "2.0.0"];
        let bundles = || versions.iter().map(|v| bundle(v, &["stable"])).collect::<Vec<_>>();
        let semver = compose(&Options { mode: Mode::Semver, ..Options::default() }, bundles()).unwrap();
        crate::validate(&semver).unwrap();
        let chain = ["app.v1.0.0 <- - skips []", "app.v1.1.0 <- app.v1.0.0 skips []", "app.v1.1.1 <- app.v1.1.0 skips []"];
        assert_eq!(edges(&semver, "stable")[..3], chain);
        let skip_patch = compose(&Options { mode: Mode::SemverSkipPatch, ..Options::default() }, bundles()).unwrap();
        crate::validate(&skip_patch).unwrap();
        let expected = [
            "app.v1.0.0 <- - skips []",
            "app.v1.1.0 <- - skips []",
            "app.v1.1.1 <- app.v1.0.0 skips [app.v1.1.0]",
            "app.v2.0.0 <- app.v1.1.1 skips []",
        ];
        assert_eq!(edges(&skip_patch, "stable"), expected);
        let replaces = compose(&Options::default(), bundles()).unwrap();
        let error = crate::validate(&replaces).unwrap_err().to_string();
        assert!(error.contains("multiple channel heads"), "{error}");
    }

    /// OLM1-FBC-19: the default channel is what the newest bundle names, or its own when that does not exist.
    #[test]
    fn default_channels() {
        let options = Options::default();
        let of = |options: &Options, bundles| compose(options, bundles).map(|c| c.packages[0].default_channel.to_string());
        let mut named = bundle("1.0.0", &["alpha", "stable"]);
        named.default_channel = Some("stable".into());
        assert_eq!(of(&options, vec![named.clone()]).unwrap(), "stable");
        named.default_channel = Some("gone".into());
        assert_eq!(of(&options, vec![named.clone()]).unwrap(), "alpha");
        let wanted = Options { default_channel: Some("beta".into()), ..Options::default() };
        assert!(matches!(of(&wanted, vec![named]), Err(AuthorError::DefaultChannel { .. })));
        assert!(matches!(of(&options, vec![bundle("1.0.0", &[])]), Err(AuthorError::NoChannel { .. })));
        let fallback = Options { fallback_channel: Some("stable".into()), ..Options::default() };
        assert_eq!(of(&fallback, vec![bundle("1.0.0", &[])]).unwrap(), "stable");
    }

    /// OLM1-FBC-19: facts that make no sense are refused by name.
    #[test]
    fn refusals() {
        let semver = Options { mode: Mode::Semver, ..Options::default() };
        assert_eq!(compose(&semver, vec![]).unwrap_err(), AuthorError::NoBundles);
        let twice = compose(&semver, vec![bundle("1.0.0", &["a"]), bundle("1.0.0", &["a"])]).unwrap_err();
        assert!(matches!(twice, AuthorError::Duplicate { .. }));
        let build = compose(&semver, vec![bundle("1.0.0+a", &["a"]), bundle("1.0.0+b", &["a"])]).unwrap_err();
        assert!(matches!(build, AuthorError::SameVersion { .. }));
        assert!(matches!(compose(&semver, vec![bundle("one", &["a"])]).unwrap_err(), AuthorError::Version { .. }));
    }
}
