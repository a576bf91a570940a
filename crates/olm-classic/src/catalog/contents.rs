//! The content of ready catalogs: as it is stored, and as the resolver reads it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use mainstay_catalog_serve::ServeError;
use mainstay_catalog_serve::grpc::{Registry, api};
use mainstay_catalog_store::{CatalogDigest, SourceContents, StoredCatalog};
use mainstay_olm_classic_core::api::Api;
use mainstay_olm_classic_core::properties::Property;
use mainstay_olm_classic_core::resolve::{Content, Deprecations, RegistryBundle};

/// The contents of all catalogs. The resolver's form of a content is made once for all sources that have it, and dropped with the last.
pub struct Contents {
    sources: SourceContents,
    read: Mutex<HashMap<CatalogDigest, Weak<Content>>>,
    /// Holds the forms of what is shown, by source.
    held: Mutex<HashMap<(String, String), Arc<Content>>>,
    /// Holds the last forms of sources that cannot be read now, if they count (OLM0-CAT-35).
    last: Option<Mutex<HashMap<(String, String), Remembered>>>,
}

/// The last content of a source, with its digest.
pub type Remembered = (CatalogDigest, Arc<Content>);

impl Contents {
    /// Makes the contents, which are shown in `sources`; the last content of a source that cannot be read is kept if `remembers`.
    pub fn new(sources: SourceContents, remembers: bool) -> Self {
        Self { sources, read: Mutex::default(), held: Mutex::default(), last: remembers.then(Mutex::default) }
    }

    /// Shows a content for a source. Blocks while it is read.
    pub fn show(&self, namespace: &str, name: &str, catalog: StoredCatalog) -> Result<(), ServeError> {
        let content = self.content(&catalog)?;
        self.forget(namespace, name);
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert((namespace.to_owned(), name.to_owned()), content);
        self.sources.set(namespace, name, Some(catalog));
        Ok(())
    }

    /// Shows no content for a source that cannot be read now.
    pub fn hide(&self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        if let (Some(last), Some(content), Some(stored)) = (&self.last, held, self.sources.get(namespace, name)) {
            last.lock().unwrap_or_else(PoisonError::into_inner).insert(key, (stored.digest().clone(), content));
        }
        self.sources.set(namespace, name, None);
    }

    /// Forgets the last content of a source: it is gone, or it names another content.
    pub fn forget(&self, namespace: &str, name: &str) {
        if let Some(last) = &self.last {
            last.lock().unwrap_or_else(PoisonError::into_inner).remove(&(namespace.to_owned(), name.to_owned()));
        }
    }

    /// Returns the last content of a source that cannot be read now, if it is kept.
    pub fn last(&self, namespace: &str, name: &str) -> Option<Remembered> {
        let last = self.last.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        last.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Returns the content of a source as the resolver reads it.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Content>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Returns the stored form of a source's content.
    pub fn stored(&self, namespace: &str, name: &str) -> Option<StoredCatalog> {
        self.sources.get(namespace, name)
    }

    /// Returns the digests of everything that is shown.
    pub fn digests(&self) -> std::collections::BTreeSet<CatalogDigest> {
        self.sources.all().into_values().map(|catalog| catalog.digest().clone()).collect()
    }

    fn content(&self, catalog: &StoredCatalog) -> Result<Arc<Content>, ServeError> {
        let known = |read: &HashMap<CatalogDigest, Weak<Content>>| read.get(catalog.digest()).and_then(Weak::upgrade);
        if let Some(content) = known(&self.read.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(content);
        }
        let content = Arc::new(resolver_content(catalog)?);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        // Two that read the same at once share the first.
        if let Some(content) = known(&read) {
            return Ok(content);
        }
        read.retain(|_, content| content.strong_count() > 0);
        read.insert(catalog.digest().clone(), Arc::downgrade(&content));
        Ok(content)
    }
}

/// Reads a catalog as its registry would list it.
pub fn resolver_content(catalog: &StoredCatalog) -> Result<Content, ServeError> {
    let registry = Registry::new(catalog.clone());
    let defaults = registry.default_channels();
    let deprecated = |package: &str, channel: &str| {
        let package = catalog.index().package(package)?;
        let of_channel = package.channel(channel).and_then(|channel| channel.deprecation().map(str::to_owned));
        Some((package.deprecation().map(str::to_owned), of_channel))
    };
    Ok(Content::of_registry(registry.listing()?.into_iter().map(|bundle| {
        let default = defaults.get(&bundle.package_name).is_some_and(|channel| *channel == bundle.channel_name);
        let (package, channel) = deprecated(&bundle.package_name, &bundle.channel_name).unwrap_or_default();
        registry_bundle(bundle, default, package, channel)
    })))
}

fn registry_bundle(bundle: api::Bundle, default_channel: bool, package: Option<String>, channel: Option<String>) -> RegistryBundle {
    let apis = |apis: Vec<api::GroupVersionKind>| {
        apis.into_iter().map(|api::GroupVersionKind { group, version, kind, .. }| Api { group, version, kind }).collect()
    };
    let properties = bundle.properties.into_iter().map(|property| Property { kind: property.r#type, value: property.value });
    let dependencies = bundle.dependencies.into_iter().map(|dependency| Property { kind: dependency.r#type, value: dependency.value });
    RegistryBundle {
        name: bundle.csv_name,
        package: bundle.package_name,
        version: bundle.version,
        channel: bundle.channel_name,
        default_channel,
        replaces: bundle.replaces,
        skips: bundle.skips,
        skip_range: bundle.skip_range,
        bundle_path: bundle.bundle_path,
        csv_json: bundle.csv_json,
        objects: bundle.object,
        properties: properties.collect(),
        dependencies: dependencies.collect(),
        provided_apis: apis(bundle.provided_apis),
        required_apis: apis(bundle.required_apis),
        deprecations: Deprecations { package, channel, bundle: bundle.deprecation.map(|deprecation| deprecation.message) },
    }
}
