//! Templates that compile to catalogs (CATLG-64, CATLG-65; OLM1-FBC-19). Bundle images are rendered by a function handed in.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_versions::Version;
use serde_json::Value;

use crate::decode::Shape;
use crate::error::LoadError;
use crate::facts::version_of;
use crate::load::Blob;
use crate::model::{Bundle, BundleName, Catalog, Channel, ChannelName, Entry, Package, PackageName, SCHEMA_BUNDLE};

/// Schema of the template that orders bundles by version.
pub const SCHEMA_SEMVER: &str = "olm.semver";
/// Schema of the template that only shortens bundles to their images.
pub const SCHEMA_BASIC: &str = "olm.template.basic";

/// Gives the bundles that an image or directory renders to; the error says why it can not be rendered.
pub type RenderBundle<'r> = dyn FnMut(&str) -> Result<Vec<Bundle>, String> + 'r;

/// Why a template gives no catalog.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The schema is not the one of a template.
    #[error("readFile: input file has unknown schema, should be \"{expected}\"")]
    Schema {
        /// Schema of the template.
        expected: &'static str,
    },
    /// A key that the template does not have.
    #[error("unknown field \"{field}\"; known are {known}")]
    UnknownField {
        /// Path of the key.
        field: String,
        /// Keys that exist there.
        known: &'static str,
    },
    /// A value of another shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The preferred kind of default channel is not generated.
    #[error(
        "schema attribute mismatch: DefaultChannelTypePreference set to '{kind}' doesn't make sense if not generating {kind}-version channels"
    )]
    Preference {
        /// `major` or `minor`.
        kind: &'static str,
    },
    /// The preferred kind of default channel does not exist.
    #[error("unknown DefaultChannelTypePreference: {0:?}\nValid values are 'major' or 'minor'")]
    UnknownPreference(String),
    /// A bundle can not be rendered.
    #[error("bundle reference {reference:?}: {reason}")]
    Render {
        /// Image or directory.
        reference: String,
        /// Why.
        reason: String,
    },
    /// A reference gives no bundle, or several.
    #[error("bundle reference {reference:?} resulted in {count} bundles, expected 1")]
    Count {
        /// Image or directory.
        reference: String,
        /// Bundles it gave.
        count: usize,
    },
    /// No bundles at all.
    #[error("render: no bundles specified or no bundles could be rendered")]
    NoBundles,
    /// Bundles of several packages.
    #[error("bundle {bundle:?} belongs to package {found:?}, the ones before it to {expected:?}; a semver template holds one package")]
    Packages {
        /// The bundle.
        bundle: String,
        /// Its package.
        found: String,
        /// Package of the bundles before it.
        expected: String,
    },
    /// The version of a bundle can not be read.
    #[error("bundle {bundle:?}: {reason}")]
    Version {
        /// The bundle.
        bundle: String,
        /// Why.
        reason: String,
    },
    /// Versions whose order is not defined.
    #[error("versions of {first:?} and {second:?} differ only in build metadata, so they can not be ordered")]
    SameVersion {
        /// One bundle.
        first: String,
        /// The other.
        second: String,
    },
    /// A blob of a basic template is invalid.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// A value of another shape than the template says.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ShapeError(Shape);

/// Compiles a basic template: entries that are bundles with nothing but an image are rendered, all others are taken as they are.
pub fn basic(template: &Value, render: &mut RenderBundle<'_>) -> Result<Catalog, TemplateError> {
    let fields = Keys::of(template, "", &["schema", "entries"], "schema, entries")?;
    if fields.text("schema")? != SCHEMA_BASIC {
        return Err(TemplateError::Schema { expected: SCHEMA_BASIC });
    }
    let mut catalog = Catalog::default();
    for (i, entry) in fields.list("entries")?.iter().enumerate() {
        let at = format!("entries[{i}]");
        let text = |key: &str| get(entry, key).and_then(Value::as_str).unwrap_or("");
        if text("schema") == SCHEMA_BUNDLE && entry.as_object().is_some_and(|members| members.len() == 2) && !text("image").is_empty() {
            catalog.bundles.push(one(text("image"), render)?);
            continue;
        }
        let (schema, package, name) = (text("schema"), text("package"), text("name"));
        if schema.is_empty() {
            return Err(LoadError::MissingSchema { path: at, line: 1, object: entry.to_string() }.into());
        }
        catalog.add(&Blob { path: &at, line: 1, schema, package, name, json: &entry.to_string() })?;
    }
    Ok(catalog)
}

/// Compiles a semver template to a package, its bundles, and channels by major and minor version.
pub fn semver(template: &Value, render: &mut RenderBundle<'_>) -> Result<Catalog, TemplateError> {
    let settings = Settings::read(template)?;
    let mut bundles: BTreeMap<String, Bundle> = BTreeMap::new();
    let mut channels: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
    let mut default: Option<(Version, String)> = None;
    let mut package: Option<String> = None;
    // The most stable archetype comes last and has the last word about the default channel.
    for archetype in ["candidate", "fast", "stable"] {
        let mut versions: Vec<(Version, BundleName)> = Vec::new();
        for image in settings.images(archetype)? {
            let bundle = one(&image, render)?;
            let expected = package.get_or_insert_with(|| bundle.package.to_string());
            if bundle.package.as_str() != expected {
                let (found, expected) = (bundle.package.to_string(), expected.clone());
                return Err(TemplateError::Packages { bundle: bundle.name.to_string(), found, expected });
            }
            versions.push((version(&bundle)?, bundle.name.clone()));
            bundles.insert(bundle.name.to_string(), bundle);
        }
        versions.sort();
        if let Some(pair) = versions.windows(2).find(|pair| pair[0].0.cmp_precedence(&pair[1].0).is_eq()) {
            return Err(TemplateError::SameVersion { first: pair[0].1.to_string(), second: pair[1].1.to_string() });
        }
        for kind in settings.kinds() {
            let channel = |version: &Version| match kind {
                Kind::Major => format!("{archetype}-v{}", version.major()),
                Kind::Minor => format!("{archetype}-v{}.{}", version.major(), version.minor()),
            };
            link(&versions, &mut |version, entry| channels.entry(channel(version)).or_default().push(entry));
            if kind == settings.preferred
                && let Some((newest, _)) = versions.last()
            {
                default = Some((newest.clone(), channel(newest)));
            }
        }
    }
    let (Some(package), Some((_, default_channel))) = (package, default) else { return Err(TemplateError::NoBundles) };
    let name = PackageName::new(package);
    let channel = |(channel, entries): (String, Vec<Entry>)| Channel {
        package: name.clone(),
        name: ChannelName::from(channel),
        entries,
        properties: Vec::new(),
    };
    Ok(Catalog {
        packages: vec![Package { name: name.clone(), default_channel: ChannelName::new(default_channel), ..Package::default() }],
        channels: channels.into_iter().map(channel).collect(),
        bundles: bundles.into_values().collect(),
        ..Catalog::default()
    })
}

/// Gives each version its entry. Only the newest patch of a minor version has edges: it replaces the newest patch of the minor before it,
/// and skips everything else of its major version below it. Nothing leads from one major version to the next.
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

fn version(bundle: &Bundle) -> Result<Version, TemplateError> {
    let failed = |reason: String| TemplateError::Version { bundle: bundle.name.to_string(), reason };
    let text = version_of(bundle.properties.iter().map(|p| (p.kind.as_str(), p.value.get())));
    let text = text.ok_or_else(|| failed("it needs exactly one olm.package property with a version".to_owned()))?;
    Version::parse(&text).map_err(|reason| failed(format!("version {text:?} can not be read: {reason}")))
}

fn one(reference: &str, render: &mut RenderBundle<'_>) -> Result<Bundle, TemplateError> {
    let bundles = render(reference).map_err(|reason| TemplateError::Render { reference: reference.to_owned(), reason })?;
    let count = bundles.len();
    match <[Bundle; 1]>::try_from(bundles) {
        Ok([bundle]) => Ok(bundle),
        Err(_) => Err(TemplateError::Count { reference: reference.to_owned(), count }),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Major,
    Minor,
}

/// The settings of a semver template.
struct Settings<'t> {
    keys: Keys<'t>,
    major: bool,
    minor: bool,
    preferred: Kind,
}

const SEMVER_KEYS: [&str; 7] =
    ["schema", "generateMajorChannels", "generateMinorChannels", "defaultChannelTypePreference", "candidate", "fast", "stable"];

impl<'t> Settings<'t> {
    fn read(template: &'t Value) -> Result<Self, TemplateError> {
        let known = "schema, generateMajorChannels, generateMinorChannels, defaultChannelTypePreference, candidate, fast, stable";
        let keys = Keys::of(template, "", &SEMVER_KEYS, known)?;
        if keys.text("schema")? != SCHEMA_SEMVER {
            return Err(TemplateError::Schema { expected: SCHEMA_SEMVER });
        }
        let major = keys.flag("generateMajorChannels")?;
        let minor = keys.flag("generateMinorChannels")? || !major;
        let preferred = match keys.text("defaultChannelTypePreference")? {
            "" | "minor" if minor => Kind::Minor,
            "" | "major" if major => Kind::Major,
            "minor" => return Err(TemplateError::Preference { kind: "minor" }),
            "major" => return Err(TemplateError::Preference { kind: "major" }),
            other => return Err(TemplateError::UnknownPreference(other.to_owned())),
        };
        Ok(Self { keys, major, minor, preferred })
    }

    fn kinds(&self) -> impl Iterator<Item = Kind> {
        [(self.major, Kind::Major), (self.minor, Kind::Minor)].into_iter().filter(|(wanted, _)| *wanted).map(|(_, kind)| kind)
    }

    fn images(&self, archetype: &str) -> Result<Vec<String>, TemplateError> {
        let Some(block) = self.keys.get(archetype) else { return Ok(Vec::new()) };
        let block = Keys::of(block, archetype, &["bundles"], "bundles")?;
        let mut images = Vec::new();
        for (i, bundle) in block.list("bundles")?.iter().enumerate() {
            let at = format!("{archetype}.bundles[{i}]");
            images.push(Keys::of(bundle, &at, &["image"], "image")?.text("image")?.to_owned());
        }
        Ok(images)
    }
}

/// A mapping whose keys were checked against those that are known, case ignored.
struct Keys<'v> {
    at: String,
    value: &'v Value,
}

impl<'v> Keys<'v> {
    fn of(value: &'v Value, at: &str, known: &[&str], listed: &'static str) -> Result<Self, TemplateError> {
        let Some(members) = value.as_object() else {
            return Err(shape(if at.is_empty() { "(root)" } else { at }, "a mapping", value));
        };
        let keys = Self { at: at.to_owned(), value };
        match members.keys().find(|key| !known.iter().any(|known| known.eq_ignore_ascii_case(key))) {
            Some(unknown) => Err(TemplateError::UnknownField { field: keys.path(unknown), known: listed }),
            None => Ok(keys),
        }
    }

    fn path(&self, key: &str) -> String {
        if self.at.is_empty() { key.to_owned() } else { format!("{}.{key}", self.at) }
    }

    fn get(&self, key: &str) -> Option<&'v Value> {
        get(self.value, key)
    }

    fn text(&self, key: &str) -> Result<&'v str, TemplateError> {
        self.get(key).map_or(Ok(""), |value| value.as_str().ok_or_else(|| shape(&self.path(key), "a string", value)))
    }

    fn flag(&self, key: &str) -> Result<bool, TemplateError> {
        self.get(key).map_or(Ok(false), |value| value.as_bool().ok_or_else(|| shape(&self.path(key), "true or false", value)))
    }

    fn list(&self, key: &str) -> Result<&'v [Value], TemplateError> {
        let list = |value: &'v Value| value.as_array().map(Vec::as_slice);
        self.get(key).map_or(Ok(&[][..]), |value| list(value).ok_or_else(|| shape(&self.path(key), "a list", value)))
    }
}

/// A member by its name, case ignored, unless it is null.
fn get<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    let members = value.as_object()?;
    let folded = || members.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value);
    members.get(key).or_else(folded).filter(|value| !value.is_null())
}

fn shape(field: &str, expected: &'static str, value: &Value) -> TemplateError {
    TemplateError::Shape(ShapeError(Shape { field: field.to_owned(), expected, found: crate::decode::kind_of(&value.to_string()) }))
}
