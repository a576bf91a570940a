//! The verdict whether a new `registries.conf` can go into effect without a drain (MACH-DISR-03).

use std::collections::BTreeMap;

use mainstay_ignition::Config;
use mainstay_ignition::data_url::{self, DataUrlError};

use crate::policy::paths::REGISTRIES;
use crate::toml_reader::{self, Document, Table, TomlError, Value, key_name};

/// The one way to use a mirror that disturbs nothing when it is added.
const DIGEST_ONLY: &str = "digest-only";

/// A change for which a node is drained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsafe {
    /// The list of registries for short names is not the old one with more at its end.
    #[error("unqualified-search-registries changed other than by entries at its end")]
    SearchRegistries,
    /// A registry is gone.
    #[error("registry {0} has been removed")]
    RegistryRemoved(String),
    /// A setting of a registry changed.
    #[error("{field} of registry {registry} has changed")]
    RegistryChanged {
        /// The registry.
        registry: String,
        /// The setting.
        field: &'static str,
    },
    /// A registry came with a mirror that is used for tags.
    #[error("registry {0} has been added with mirrors that are not only used for digests")]
    RegistryAdded(String),
    /// A mirror is gone.
    #[error("mirror {mirror} of registry {registry} has been removed")]
    MirrorRemoved {
        /// The registry.
        registry: String,
        /// The mirror.
        mirror: String,
    },
    /// A mirror is used in another way, and not for digests only.
    #[error("pull-from-mirror of mirror {mirror} of registry {registry} has changed")]
    MirrorChanged {
        /// The registry.
        registry: String,
        /// The mirror.
        mirror: String,
    },
    /// A mirror came that is used for tags.
    #[error("mirror {mirror} of registry {registry} has been added, and is not only used for digests")]
    MirrorAdded {
        /// The registry.
        registry: String,
        /// The mirror.
        mirror: String,
    },
}

/// A `registries.conf` that cannot be read, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistriesError {
    /// The old one is no data URL.
    #[error("failed decoding Data URL scheme string: {0}")]
    OldUrl(DataUrlError),
    /// The new one is no data URL.
    #[error("failed decoding Data URL scheme string {0}")]
    NewUrl(DataUrlError),
    /// It is no TOML, or a value is of a wrong type.
    #[error("failed decoding TOML content from file {REGISTRIES}: {0}")]
    Toml(TomlProblem),
}

/// The fault in a TOML text, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TomlProblem(String);

impl std::fmt::Display for TomlProblem {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl From<TomlError> for TomlProblem {
    fn from(error: TomlError) -> Self {
        Self(error.to_string())
    }
}

#[derive(Debug, Default, PartialEq)]
struct Endpoint {
    location: String,
    insecure: bool,
    pull: String,
}

#[derive(Debug, Default, PartialEq)]
struct Registry {
    prefix: String,
    endpoint: Endpoint,
    mirrors: Option<Vec<Endpoint>>,
    blocked: bool,
    digest_only: bool,
}

#[derive(Debug, Default)]
struct Registries {
    registries: Vec<Registry>,
    search: Vec<String>,
}

/// Returns nothing if the change from one config's `registries.conf` to the other's is safe without a drain, else why it is not.
pub fn check(old: &Config, new: &Config) -> Result<Option<Unsafe>, RegistriesError> {
    let old_text = content(old).map_err(RegistriesError::OldUrl)?;
    let new_text = content(new).map_err(RegistriesError::NewUrl)?;
    let old = read(&old_text).map_err(RegistriesError::Toml)?;
    let new = read(&new_text).map_err(RegistriesError::Toml)?;
    Ok(compare(&old, &new))
}

/// The content of the file; compressed content is taken as it is, as upstream does.
fn content(config: &Config) -> Result<Vec<u8>, DataUrlError> {
    let sources =
        config.files().filter(|file| file.text("path") == Some(REGISTRIES)).filter_map(|file| file.child("contents")?.text("source"));
    sources.map(data_url::decode).next().unwrap_or_else(|| Ok(Vec::new()))
}

fn compare(old: &Registries, new: &Registries) -> Option<Unsafe> {
    if !new.search.starts_with(&old.search) {
        return Some(Unsafe::SearchRegistries);
    }
    let (old, new) = (by_scope(&old.registries), by_scope(&new.registries));
    if let Some(gone) = old.keys().find(|scope| !new.contains_key(*scope)) {
        return Some(Unsafe::RegistryRemoved((*gone).to_owned()));
    }
    new.iter().find_map(|(scope, registry)| match old.get(scope) {
        Some(before) if before == registry => None,
        Some(before) => registry_change(scope, before, registry),
        None if is_digest_only(registry) => None,
        None => Some(Unsafe::RegistryAdded((*scope).to_owned())),
    })
}

/// Registries by what they are for: the prefix, else the location; the last of several.
fn by_scope(registries: &[Registry]) -> BTreeMap<&str, &Registry> {
    let scope = |registry: &Registry| registry.prefix.is_empty();
    registries
        .iter()
        .map(|registry| (if scope(registry) { registry.endpoint.location.as_str() } else { registry.prefix.as_str() }, registry))
        .collect()
}

fn is_digest_only(registry: &Registry) -> bool {
    match registry.mirrors.as_deref().unwrap_or_default() {
        [] => registry.digest_only,
        mirrors => mirrors.iter().all(|mirror| mirror.pull == DIGEST_ONLY),
    }
}

fn registry_change(scope: &str, old: &Registry, new: &Registry) -> Option<Unsafe> {
    let settings = [
        ("prefix", old.prefix != new.prefix),
        ("location", old.endpoint.location != new.endpoint.location),
        ("blocked", old.blocked != new.blocked),
        ("insecure", old.endpoint.insecure != new.endpoint.insecure),
    ];
    let registry = || scope.to_owned();
    if let Some((field, _)) = settings.into_iter().find(|(_, changed)| *changed) {
        return Some(Unsafe::RegistryChanged { registry: registry(), field });
    }
    let (before, after) = (old.mirrors.as_deref().unwrap_or_default(), new.mirrors.as_deref().unwrap_or_default());
    let known = |mirror: &Endpoint, mirrors: &[Endpoint]| mirrors.iter().any(|other| other.location == mirror.location);
    if let Some(gone) = before.iter().find(|mirror| !known(mirror, after)) {
        return Some(Unsafe::MirrorRemoved { registry: registry(), mirror: gone.location.clone() });
    }
    after.iter().find_map(|mirror| {
        let location = || mirror.location.clone();
        match before.iter().find(|other| other.location == mirror.location) {
            Some(other) if mirror.pull != other.pull && mirror.pull != DIGEST_ONLY => {
                Some(Unsafe::MirrorChanged { registry: registry(), mirror: location() })
            }
            None if mirror.pull != DIGEST_ONLY && !new.digest_only => {
                Some(Unsafe::MirrorAdded { registry: registry(), mirror: location() })
            }
            _ => None,
        }
    })
}

fn read(text: &[u8]) -> Result<Registries, TomlProblem> {
    let document = toml_reader::read(text)?;
    let reader = Reader { document: &document, path: Vec::new() };
    let root = &document.root;
    let mut registries = Registries { search: reader.texts(root, "unqualified-search-registries")?, registries: Vec::new() };
    // These do not matter here, but must be of the right type.
    reader.texts(root, "credential-helpers")?;
    reader.text(root, "short-name-mode")?;
    reader.text(root, "additional-layer-store-auth-helper")?;
    if let Some((key, Value::Table(aliases))) = field(root, "aliases") {
        let inner = reader.below(key);
        for (alias, value) in aliases {
            inner.as_text(alias, value)?;
        }
    }
    for (reader, table) in reader.tables(root, "registry")? {
        registries.registries.push(registry(&reader, table)?);
    }
    Ok(registries)
}

fn registry(reader: &Reader<'_>, table: &Table) -> Result<Registry, TomlProblem> {
    let mirrors = match field(table, "mirror") {
        None => None,
        Some(_) => Some(reader.tables(table, "mirror")?.iter().map(|(reader, table)| endpoint(reader, table)).collect::<Result<_, _>>()?),
    };
    Ok(Registry {
        prefix: reader.text(table, "prefix")?,
        endpoint: endpoint(reader, table)?,
        mirrors,
        blocked: reader.truth(table, "blocked")?,
        digest_only: reader.truth(table, "mirror-by-digest-only")?,
    })
}

fn endpoint(reader: &Reader<'_>, table: &Table) -> Result<Endpoint, TomlProblem> {
    Ok(Endpoint {
        location: reader.text(table, "location")?,
        insecure: reader.truth(table, "insecure")?,
        pull: reader.text(table, "pull-from-mirror")?,
    })
}

/// The value of a key in any case; the last one that fits, as keys are gone through in order.
fn field<'t>(table: &'t Table, name: &str) -> Option<(&'t str, &'t Value)> {
    let entry = table.get_key_value(name).or_else(|| table.iter().rfind(|(key, _)| key.eq_ignore_ascii_case(name)));
    entry.map(|(key, value)| (key.as_str(), value))
}

/// A reader of typed values that knows where it is.
struct Reader<'d> {
    document: &'d Document,
    path: Vec<String>,
}

impl<'d> Reader<'d> {
    fn below(&self, key: &str) -> Reader<'d> {
        let mut path = self.path.clone();
        path.push(key.to_owned());
        Reader { document: self.document, path }
    }

    /// The words about a value of a wrong type.
    fn wrong(&self, key: &str, message: &str) -> TomlProblem {
        let name = key_name(&self.below(key).path);
        let shown = mainstay_golang::quote(&name);
        match self.document.lines.get(&name) {
            Some(line) if *line > 0 => TomlProblem(format!("toml: line {line} (last key {shown}): {message}")),
            _ => TomlProblem(format!("toml: (last key {shown}): {message}")),
        }
    }

    fn misfit(&self, key: &str, value: &Value, wanted: &str) -> TomlProblem {
        let found = value.go_type();
        self.wrong(key, &format!("incompatible types: TOML value has type {found}; destination has type {wanted}"))
    }

    fn as_text(&self, key: &str, value: &Value) -> Result<String, TomlProblem> {
        match value {
            Value::Text(text) => Ok(text.clone()),
            other => Err(self.misfit(key, other, "string")),
        }
    }

    fn text(&self, table: &Table, key: &str) -> Result<String, TomlProblem> {
        field(table, key).map_or_else(|| Ok(String::new()), |(key, value)| self.as_text(key, value))
    }

    fn truth(&self, table: &Table, key: &str) -> Result<bool, TomlProblem> {
        match field(table, key) {
            None => Ok(false),
            Some((_, Value::Bool(set))) => Ok(*set),
            Some((key, other)) => Err(self.misfit(key, other, "boolean")),
        }
    }

    fn texts(&self, table: &Table, key: &str) -> Result<Vec<String>, TomlProblem> {
        match field(table, key) {
            Some((key, Value::Array(items))) => items.iter().map(|item| self.as_text(key, item)).collect(),
            Some((key, tables @ Value::Tables(items))) if !items.is_empty() => Err(self.misfit(key, tables, "string").in_tables()),
            None | Some((_, Value::Tables(_))) => Ok(Vec::new()),
            Some((key, other)) => Err(self.misfit(key, other, "slice")),
        }
    }

    fn tables<'t>(&self, table: &'t Table, key: &str) -> Result<Vec<(Reader<'d>, &'t Table)>, TomlProblem> {
        let of = if key == "mirror" { "Endpoint" } else { "Registry" };
        match field(table, key) {
            None => Ok(Vec::new()),
            Some((key, Value::Tables(tables))) => Ok(tables.iter().map(|table| (self.below(key), table)).collect()),
            Some((key, Value::Array(items))) => items
                .iter()
                .map(|item| match item {
                    Value::Table(table) => Ok((self.below(key), table)),
                    other => {
                        let found = other.go_type();
                        Err(self.wrong(key, &format!("type mismatch for sysregistriesv2.{of}: expected table but found {found}")))
                    }
                })
                .collect(),
            Some((key, other)) => Err(self.misfit(key, other, "slice")),
        }
    }
}

impl TomlProblem {
    /// The same about the tables of a list one by one, which upstream looks at where it wants texts.
    fn in_tables(self) -> Self {
        Self(self.0.replace("[]map[string]any;", "map[string]any;"))
    }
}
