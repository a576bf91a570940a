//! The template that creates channels by version (CATLG-64).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mainstay_versions::Version;
use serde_json::Value;

use super::keys::Keys;
use super::{Kind, RenderBundle, Rendered, SemverError, Template, TemplateError, VersionsError, one};
use crate::model::{Bundle, BundleName, Catalog, Channel, ChannelName, Entry, Package, PackageName};

/// Compiles to a package, its bundles, and channels by major and minor version.
pub(super) fn compile(template: &Template, render: &mut RenderBundle<'_>) -> Result<Catalog, TemplateError> {
    let settings = Settings::read(template).map_err(|error| TemplateError::Semver(Box::new(error)))?;
    let mut by_image: HashMap<&str, (Bundle, Rendered)> = HashMap::new();
    let mut order: Vec<&str> = Vec::new();
    for image in settings.archetypes.iter().flat_map(|(_, images)| images) {
        if !by_image.contains_key(image.as_str()) {
            by_image.insert(image, one(image, render)?);
            order.push(image);
        }
    }
    if by_image.is_empty() {
        return Err(TemplateError::NoBundles);
    }
    let mut package: Option<String> = None;
    let mut highest = Highest::default();
    let mut channels: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
    // The most stable archetype comes last and decides about the default channel.
    for (rank, (archetype, images)) in settings.archetypes.iter().enumerate() {
        let bundles = images.iter().filter_map(|image| by_image.get(image.as_str())).map(|(bundle, _)| bundle);
        let versions = versions(bundles, &mut package).map_err(|error| TemplateError::Versions(Box::new(error)))?;
        for (version, _) in &versions {
            for stream in settings.streams() {
                let name = stream.channel(archetype, version);
                if !channels.contains_key(&name) {
                    channels.insert(name.clone(), Vec::new());
                    highest.consider(Candidate { rank, version: version.clone(), stream: Some(stream), name }, settings.preferred);
                }
            }
        }
        for stream in settings.streams() {
            link(&versions, &mut |version, entry| channels.entry(stream.channel(archetype, version)).or_default().push(entry));
        }
    }
    let name = PackageName::new(package.unwrap_or_default());
    let default_channel = highest.0.name;
    let head = channels.get(&default_channel).and_then(|entries| entries.last()).map(|entry| &entry.name);
    let shown = head.and_then(|head| order.iter().filter_map(|image| by_image.get(image)).find(|(bundle, _)| bundle.name == *head));
    let package = Package {
        name: name.clone(),
        default_channel: ChannelName::new(default_channel.clone()),
        description: shown.map(|(_, rendered)| rendered.description.clone()).unwrap_or_default(),
        icon: shown.and_then(|(_, rendered)| rendered.icon.clone()),
        properties: Vec::new(),
    };
    let channel = |(channel, entries): (String, Vec<Entry>)| Channel {
        package: name.clone(),
        name: ChannelName::from(channel),
        entries,
        properties: Vec::new(),
    };
    let channels = channels.into_iter().map(channel).collect();
    let bundles = order.into_iter().filter_map(|image| by_image.remove(image)).map(|(bundle, _)| bundle).collect();
    Ok(Catalog { packages: vec![package], channels, bundles, ..Catalog::default() })
}

/// The versions of one archetype's bundles, ascending.
fn versions<'b>(
    bundles: impl Iterator<Item = &'b Bundle>,
    package: &mut Option<String>,
) -> Result<Vec<(Version, BundleName)>, VersionsError> {
    let mut versions: Vec<(Version, BundleName)> = Vec::new();
    let mut names = BTreeSet::new();
    for bundle in bundles {
        let (name, version) = version_of(bundle)?;
        let expected = package.get_or_insert_with(|| name.clone());
        if *expected != name {
            return Err(VersionsError::Packages { found: name, expected: expected.clone() });
        }
        if !names.insert(&bundle.name) {
            return Err(VersionsError::Duplicate(bundle.name.to_string()));
        }
        versions.push((version, bundle.name.clone()));
    }
    versions.sort();
    let mut clashes = Vec::new();
    for same in versions.chunk_by(|a, b| a.0.cmp_precedence(&b.0).is_eq()) {
        let plain = |version: &Version| version.to_string().split('+').next().unwrap_or_default().to_owned();
        clashes.extend(
            same.iter()
                .skip(1)
                .map(|(version, _)| format!("bundle version {:?} cannot be compared to {:?}", version.to_string(), plain(version))),
        );
    }
    match clashes.as_slice() {
        [] => Ok(versions),
        [only] => Err(VersionsError::BuildMetadata(only.clone())),
        many => Err(VersionsError::BuildMetadata(format!("[{}]", many.join(", ")))),
    }
}

/// The package and version that a bundle's one `olm.package` property names.
fn version_of(bundle: &Bundle) -> Result<(String, Version), VersionsError> {
    let mut found = bundle.properties.iter().filter(|property| property.kind == "olm.package");
    let (Some(property), None) = (found.next(), found.next()) else {
        return Err(VersionsError::Properties { bundle: bundle.name.to_string() });
    };
    let value: Value = serde_json::from_str(property.value.get()).unwrap_or_default();
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let version = text("version");
    match Version::parse(&version) {
        Ok(parsed) => Ok((text("packageName"), parsed)),
        Err(reason) => Err(VersionsError::Version { bundle: bundle.name.to_string(), version, reason: reason.to_string() }),
    }
}

/// Creates the entry of each version. Only the newest patch of a minor version has edges: it replaces the newest patch of the minor before it,
/// and skips everything else of its major version below it. No edge leads from one major version to the next.
fn link(versions: &[(Version, BundleName)], put: &mut dyn FnMut(&Version, Entry)) {
    let (mut replaces, mut below): (Option<BundleName>, BTreeSet<BundleName>) = (None, BTreeSet::new());
    for (i, (version, name)) in versions.iter().enumerate() {
        let mut entry = Entry { name: name.clone(), ..Entry::default() };
        let next = versions.get(i + 1).map(|(next, _)| next);
        let same_major = next.is_some_and(|next| next.major() == version.major());
        if !(same_major && next.is_some_and(|next| next.minor() == version.minor())) {
            entry.replaces = replaces.replace(name.clone());
            entry.skips = below.iter().filter(|skip| Some(*skip) != entry.replaces.as_ref()).cloned().collect();
        }
        below.insert(name.clone());
        if !same_major {
            replaces = None;
            below.clear();
        }
        put(version, entry);
    }
}

/// Kind of channel: by the first number of the version, or by the first two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stream {
    Major,
    Minor,
}

impl Stream {
    fn channel(self, archetype: &str, version: &Version) -> String {
        match self {
            Self::Major => format!("{archetype}-v{}", version.major()),
            Self::Minor => format!("{archetype}-v{}.{}", version.major(), version.minor()),
        }
    }
}

/// A candidate for the default channel, with the lowest version in it.
struct Candidate {
    rank: usize,
    version: Version,
    stream: Option<Stream>,
    name: String,
}

/// The default channel: of the most stable archetype, then with the highest beginning, then of the preferred kind.
struct Highest(Candidate);

impl Default for Highest {
    fn default() -> Self {
        Self(Candidate { rank: 0, version: Version::new(0, 0, 0), stream: None, name: String::new() })
    }
}

impl Highest {
    fn consider(&mut self, candidate: Candidate, preferred: Stream) {
        let best = &self.0;
        let order = candidate.rank.cmp(&best.rank).then_with(|| candidate.version.cmp_precedence(&best.version));
        let preferred = |stream: Option<Stream>| (stream == Some(preferred), stream);
        if order.then_with(|| preferred(candidate.stream).cmp(&preferred(best.stream))).is_gt() {
            self.0 = candidate;
        }
    }
}

/// The settings of a semver template.
struct Settings {
    major: bool,
    minor: bool,
    preferred: Stream,
    /// The images of each archetype, the most stable one last.
    archetypes: [(&'static str, Vec<String>); 3],
}

impl Settings {
    fn read(template: &Template) -> Result<Self, SemverError> {
        if let Some(twice) = template.duplicates.first() {
            return Err(SemverError::Duplicate { line: twice.line, key: twice.key.clone() });
        }
        let known = "schema, generateMajorChannels, generateMinorChannels, defaultChannelTypePreference, candidate, fast, stable";
        let keys = Keys::of(&template.value, "", known)?;
        let read = |archetype| Ok::<_, SemverError>((archetype, images(&keys, archetype)?));
        let archetypes = [read("candidate")?, read("fast")?, read("stable")?];
        let (schema, preference) = (keys.text("schema")?, keys.text("defaultChannelTypePreference")?);
        let (major, minor) = (keys.flag("generateMajorChannels")?, keys.flag("generateMinorChannels")?);
        let minor = minor || !major;
        if schema != Kind::Semver.schema() {
            return Err(SemverError::Schema);
        }
        let preferred = match preference {
            "" | "minor" if minor => Stream::Minor,
            "" | "major" if major => Stream::Major,
            "minor" => return Err(SemverError::Preference("minor")),
            "major" => return Err(SemverError::Preference("major")),
            other => return Err(SemverError::UnknownPreference(other.to_owned())),
        };
        Ok(Self { major, minor, preferred, archetypes })
    }

    fn streams(&self) -> impl Iterator<Item = Stream> + use<> {
        [(self.major, Stream::Major), (self.minor, Stream::Minor)].into_iter().filter(|(wanted, _)| *wanted).map(|(_, stream)| stream)
    }
}

fn images(keys: &Keys<'_>, archetype: &str) -> Result<Vec<String>, SemverError> {
    let Some(block) = keys.get(archetype) else { return Ok(Vec::new()) };
    let block = Keys::of(block, archetype, "bundles")?;
    let mut images = Vec::new();
    for (i, bundle) in block.list("bundles")?.iter().enumerate() {
        images.push(Keys::of(bundle, &format!("{archetype}.bundles[{i}]"), "image")?.text("image")?.to_owned());
    }
    Ok(images)
}
