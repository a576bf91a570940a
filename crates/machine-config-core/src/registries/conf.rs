//! registries.conf: read, and written as upstream writes it.

use crate::toml::{self, Fields, ReadError, Reader, Toml};

/// The uses of a mirror.
pub const DIGEST_ONLY: &str = "digest-only";
/// See [`DIGEST_ONLY`].
pub const TAG_ONLY: &str = "tag-only";

/// A place that images are pulled from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// Registry, or repository in one.
    pub location: String,
    /// True if it has no TLS, or certificates that are not checked.
    pub insecure: bool,
    /// The references that it is asked for: [`DIGEST_ONLY`], [`TAG_ONLY`], or everything.
    pub pull_from_mirror: String,
}

/// An entry of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registry {
    /// The scope, if it is not the location.
    pub prefix: String,
    /// The place itself.
    pub endpoint: Endpoint,
    /// Places that are asked first.
    pub mirrors: Vec<Endpoint>,
    /// True if nothing is pulled from it.
    pub blocked: bool,
    /// True if all mirrors are asked for digests only.
    pub mirror_by_digest_only: bool,
}

/// The file, in its second version. Lists that are there and empty are something else than none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistriesConf {
    /// Entries.
    pub registries: Option<Vec<Registry>>,
    /// Registries in which short names are searched.
    pub search: Option<Vec<String>>,
    /// Programs that know credentials.
    pub credential_helpers: Option<Vec<String>>,
    /// The treatment of names that could mean several images.
    pub short_name_mode: String,
    /// A program that knows credentials for additional layer stores.
    pub layer_store_auth_helper: String,
    /// Meanings of short names, by name.
    pub aliases: Option<Vec<(String, String)>>,
}

impl Registry {
    /// Returns the scope that the entry is about.
    pub fn scope(&self) -> &str {
        if self.prefix.is_empty() { &self.endpoint.location } else { &self.prefix }
    }

    fn read(table: Reader<'_>) -> Result<Self, ReadError> {
        Ok(Self {
            prefix: table.text("prefix")?,
            endpoint: Endpoint::read(table)?,
            mirrors: table.tables("mirror", Endpoint::read)?.unwrap_or_default(),
            blocked: table.bool("blocked")?,
            mirror_by_digest_only: table.bool("mirror-by-digest-only")?,
        })
    }

    fn fields(&self) -> Fields {
        let mut fields = vec![("prefix".to_owned(), Toml::Text(self.prefix.clone()))];
        fields.extend(self.endpoint.fields());
        if !self.mirrors.is_empty() {
            fields.push(("mirror".to_owned(), Toml::Tables(self.mirrors.iter().map(Endpoint::fields).collect())));
        }
        fields.extend(self.blocked.then(|| ("blocked".to_owned(), Toml::Bool(true))));
        fields.extend(self.mirror_by_digest_only.then(|| ("mirror-by-digest-only".to_owned(), Toml::Bool(true))));
        fields
    }
}

impl Endpoint {
    fn read(table: Reader<'_>) -> Result<Self, ReadError> {
        Ok(Self { location: table.text("location")?, insecure: table.bool("insecure")?, pull_from_mirror: table.text("pull-from-mirror")? })
    }

    fn fields(&self) -> Fields {
        let text = |name: &str, value: &str| (!value.is_empty()).then(|| (name.to_owned(), Toml::Text(value.to_owned())));
        let insecure = self.insecure.then(|| ("insecure".to_owned(), Toml::Bool(true)));
        [text("location", &self.location), insecure, text("pull-from-mirror", &self.pull_from_mirror)].into_iter().flatten().collect()
    }
}

impl RegistriesConf {
    /// Reads the file; unknown settings are dropped, as upstream does.
    ///
    /// # Errors
    /// It is no TOML, or a setting has another type.
    pub fn read(text: &str) -> Result<Self, ReadError> {
        toml::read(text, |table| {
            Ok(Self {
                registries: table.tables("registry", Registry::read)?,
                search: table.texts("unqualified-search-registries")?,
                credential_helpers: table.texts("credential-helpers")?,
                short_name_mode: table.text("short-name-mode")?,
                layer_store_auth_helper: table.text("additional-layer-store-auth-helper")?,
                aliases: table.text_table("aliases")?,
            })
        })
    }

    /// Returns the text of the file.
    pub fn write(&self) -> String {
        let texts = |name: &str, list: &Option<Vec<String>>| list.clone().map(|list| (name.to_owned(), Toml::Texts(list)));
        let registries = self.registries.as_ref().map(|registries| match registries.as_slice() {
            [] => Toml::Texts(Vec::new()),
            registries => Toml::Tables(registries.iter().map(Registry::fields).collect()),
        });
        let aliases = self
            .aliases
            .as_ref()
            .map(|aliases| Toml::Table(aliases.iter().map(|(name, value)| (name.clone(), Toml::Text(value.clone()))).collect()));
        let fields = [
            registries.map(|registries| ("registry".to_owned(), registries)),
            texts("unqualified-search-registries", &self.search),
            texts("credential-helpers", &self.credential_helpers),
            Some(("short-name-mode".to_owned(), Toml::Text(self.short_name_mode.clone()))),
            Some(("additional-layer-store-auth-helper".to_owned(), Toml::Text(self.layer_store_auth_helper.clone()))),
            aliases.map(|aliases| ("aliases".to_owned(), aliases)),
        ];
        toml::document(&fields.into_iter().flatten().collect())
    }
}
