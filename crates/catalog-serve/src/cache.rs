//! The cache of `opm serve` (CATLG-45): the stored form of a directory's catalog, and a digest that tells if both are unchanged.
//!
//! ```text
//!   <cache-dir>/mainstay.v1/digest          of the directory's files and of everything below catalog/
//!                           catalog/...     one entry of a catalog store: content and index
//! ```
//!
//! A cache is usually filled while an image is built and read by a process that may not write; it is served only when the
//! digest says that neither the catalog nor the cache changed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use mainstay_catalog::{Blob, Catalog, Limits, MetaQuery, PackageView, SCHEMA_PACKAGE, Source, validate};
use mainstay_catalog_store::{CatalogStore, Counted, DirectorySource, StoredCatalog, digest};

use crate::ServeError;
use crate::grpc::Registry;

/// Name of this program's form of the cache.
pub const FORMAT: &str = "mainstay.v1";
/// Names that other programs use in a cache directory; they are left alone.
const FOREIGN: [&str; 3] = ["pogreb.v1", "cache", "digest"];

/// A cache directory.
#[derive(Debug)]
pub struct Cache {
    directory: PathBuf,
    folder: PathBuf,
    store: CatalogStore,
}

impl Cache {
    /// Opens a cache in `directory`, which need not exist yet. A directory whose content comes from no catalog server is refused.
    pub fn open(directory: &Path) -> Result<Self, ServeError> {
        let mut names = Vec::new();
        match fs::read_dir(directory) {
            Ok(entries) => {
                for entry in entries {
                    names.push(entry?.file_name().to_string_lossy().into_owned());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(ServeError::DetectCache(error)),
        }
        names.sort();
        if !names.is_empty() && !names.iter().any(|name| name == FORMAT || FOREIGN.contains(&name.as_str())) {
            return Err(ServeError::UnexpectedCache { names: names.join(",") });
        }
        let folder = directory.join(FORMAT);
        Ok(Self { store: CatalogStore::unchecked(&folder.join("catalog")), directory: directory.to_owned(), folder })
    }

    /// Returns true if the cache holds content of this program.
    pub fn is_present(&self) -> bool {
        self.folder.is_dir()
    }

    /// Checks that the cache was made from this catalog and neither has changed since.
    pub fn check_integrity(&self, source: &dyn Source) -> Result<(), ServeError> {
        let path = self.folder.join("digest");
        let existing = fs::read_to_string(&path).map_err(|source| ServeError::CacheDigest { path, source })?;
        let existing = existing.trim().to_owned();
        let computed = self.compute_digest(source)?;
        if existing == computed { Ok(()) } else { Err(ServeError::Stale { existing, computed }) }
    }

    fn compute_digest(&self, source: &dyn Source) -> Result<String, ServeError> {
        let content = DirectorySource::of_image(&self.folder.join("catalog")).map_err(mainstay_catalog::LoadError::from)?;
        Ok(digest(&[(source, Counted::Visible), (&content, Counted::All)])?.hex().to_owned())
    }

    /// Opens the catalog in the cache.
    pub fn load(&self) -> Result<StoredCatalog, ServeError> {
        let stored = match self.store.digests()?.first() {
            Some(digest) => self.store.get(digest)?,
            None => None,
        };
        stored.ok_or(ServeError::EmptyCache)
    }

    /// Fills the cache from a catalog, which must be valid. The previous content is removed, even if this fails. Of several processes that
    /// fill the same cache, one does it; the others wait and use the result.
    pub fn build(&self, source: &dyn Source) -> Result<StoredCatalog, ServeError> {
        let written = |path: &Path| {
            let path = path.to_owned();
            move |source| ServeError::Cache { path, source }
        };
        fs::create_dir_all(&self.directory).map_err(written(&self.directory))?;
        let alone = File::open(&self.directory).map_err(written(&self.directory))?;
        match alone.lock() {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                tracing::warn!(path = %self.directory.display(), "cache: its file system has no locks; do not fill it twice at once");
            }
            locked => locked.map_err(written(&self.directory))?,
        }
        if self.check_integrity(source).is_ok() {
            return self.load();
        }
        if self.is_present() {
            fs::remove_dir_all(&self.folder).map_err(written(&self.folder))?;
        }
        let catalog = self.folder.join("catalog");
        fs::create_dir_all(&catalog).map_err(written(&catalog))?;
        let of_source = digest(&[(source, Counted::Visible)])?;
        self.store.retain(&BTreeSet::new())?;
        let stored = self.store.put(&of_source, source, &Limits::default())?;
        check(&stored)?;
        let path = self.folder.join("digest");
        fs::write(&path, self.compute_digest(source)?).map_err(written(&path))?;
        share(&self.folder).map_err(written(&self.folder))?;
        Ok(stored)
    }
}

/// Gives the group the permissions of the owner: images are built by one user and run by another one of the same group.
fn share(path: &Path) -> io::Result<()> {
    let is_folder = path.symlink_metadata()?.is_dir();
    fs::set_permissions(path, fs::Permissions::from_mode(if is_folder { 0o770 } else { 0o660 }))?;
    if is_folder {
        for entry in fs::read_dir(path)? {
            share(&entry?.path())?;
        }
    }
    Ok(())
}

/// Validates a stored catalog package by package, on all cores, as a server does before it answers: each bundle must also be one that can
/// be sent. The returned error is that of the first package by name.
pub fn check(catalog: &StoredCatalog) -> Result<(), ServeError> {
    let mut names: Vec<&str> = catalog.index().packages().map(PackageView::name).collect();
    // Blobs without a package are invalid too, unless their schemas are unknown.
    names.push("");
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<(usize, ServeError)>> = Mutex::new(None);
    let registry = Registry::new(catalog.clone());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(name) = names.get(at) else { return };
            let outcome = check_package(catalog, name).and_then(|()| registry.check_package(name));
            if let Err(error) = outcome {
                let mut failed = failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if failed.as_ref().is_none_or(|(first, _)| at < *first) {
                    *failed = Some((at, error));
                }
                return;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
        work();
    });
    match failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        None => Ok(()),
        Some((at, error)) => Err(ServeError::Process { package: names[at].to_owned(), source: Box::new(error) }),
    }
}

fn check_package(stored: &StoredCatalog, name: &str) -> Result<(), ServeError> {
    let mut catalog = Catalog::default();
    let mut add = |schema: &str, package: &str, range| {
        let json = stored.read_blob(range)?;
        catalog.add(&Blob { path: "catalog", line: 1, schema, package, name: "", json: &json })?;
        Ok::<_, ServeError>(())
    };
    let named = |schema: Option<&str>, package: Option<&str>, name: Option<&str>| MetaQuery {
        schema: schema.map(str::to_owned),
        package: package.map(str::to_owned),
        name: name.map(str::to_owned),
    };
    for range in stored.index().metas(&named(Some(SCHEMA_PACKAGE), None, Some(name))) {
        add(SCHEMA_PACKAGE, "", range)?;
    }
    for schema in ["olm.channel", "olm.bundle", "olm.deprecations"] {
        for range in stored.index().metas(&named(Some(schema), Some(name), None)) {
            add(schema, name, range)?;
        }
    }
    validate(&catalog).map_err(|refusal| ServeError::Invalid(refusal.to_string()))
}
