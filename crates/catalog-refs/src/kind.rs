//! Kinds of references.

use std::fmt;

/// The content of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Content {
    /// A file-based catalog.
    Catalog,
    /// A registry+v1 bundle.
    Bundle,
    /// An index database.
    Database,
}

/// The place of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// A directory.
    Directory,
    /// A file.
    File,
    /// An image of a registry.
    Image,
    /// An image of an OCI layout directory.
    Layout,
    /// An image of an archive made by `podman save`, `docker save` or `skopeo`.
    Archive,
}

/// The kind of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind {
    /// Its content.
    pub content: Content,
    /// Its place.
    pub place: Place,
}

impl Kind {
    const fn new(content: Content, place: Place) -> Self {
        Self { content, place }
    }

    /// A directory of a file-based catalog.
    pub const CATALOG_DIRECTORY: Self = Self::new(Content::Catalog, Place::Directory);
    /// One file of a file-based catalog.
    pub const CATALOG_FILE: Self = Self::new(Content::Catalog, Place::File);
    /// An image of a file-based catalog.
    pub const CATALOG_IMAGE: Self = Self::new(Content::Catalog, Place::Image);
    /// A directory of a bundle.
    pub const BUNDLE_DIRECTORY: Self = Self::new(Content::Bundle, Place::Directory);
    /// A bundle's image.
    pub const BUNDLE_IMAGE: Self = Self::new(Content::Bundle, Place::Image);
    /// A database file.
    pub const DATABASE_FILE: Self = Self::new(Content::Database, Place::File);
    /// An image of an index database.
    pub const DATABASE_IMAGE: Self = Self::new(Content::Database, Place::Image);

    /// Kinds that `opm render` takes.
    pub const OPM_RENDER: &'static [Self] = &[
        Self::CATALOG_DIRECTORY,
        Self::CATALOG_IMAGE,
        Self::BUNDLE_DIRECTORY,
        Self::BUNDLE_IMAGE,
        Self::DATABASE_FILE,
        Self::DATABASE_IMAGE,
    ];
    /// Kinds that `opm alpha list` and `opm alpha render-graph` take.
    pub const OPM_INDEX: &'static [Self] = &[Self::CATALOG_DIRECTORY, Self::CATALOG_IMAGE, Self::DATABASE_FILE, Self::DATABASE_IMAGE];
    /// Kinds of a template's bundles.
    pub const OPM_TEMPLATE: &'static [Self] = &[Self::BUNDLE_IMAGE];
    /// Catalogs, wherever they lie.
    pub const CATALOGS: &'static [Self] = &[
        Self::CATALOG_DIRECTORY,
        Self::CATALOG_FILE,
        Self::CATALOG_IMAGE,
        Self::new(Content::Catalog, Place::Layout),
        Self::new(Content::Catalog, Place::Archive),
        Self::DATABASE_FILE,
        Self::DATABASE_IMAGE,
        Self::new(Content::Database, Place::Layout),
        Self::new(Content::Database, Place::Archive),
    ];
    /// Bundles, wherever they lie.
    pub const BUNDLES: &'static [Self] = &[
        Self::BUNDLE_DIRECTORY,
        Self::BUNDLE_IMAGE,
        Self::new(Content::Bundle, Place::Layout),
        Self::new(Content::Bundle, Place::Archive),
    ];
    /// All kinds.
    pub const ANY: &'static [Self] = &[
        Self::CATALOG_DIRECTORY,
        Self::CATALOG_FILE,
        Self::CATALOG_IMAGE,
        Self::new(Content::Catalog, Place::Layout),
        Self::new(Content::Catalog, Place::Archive),
        Self::BUNDLE_DIRECTORY,
        Self::BUNDLE_IMAGE,
        Self::new(Content::Bundle, Place::Layout),
        Self::new(Content::Bundle, Place::Archive),
        Self::DATABASE_FILE,
        Self::DATABASE_IMAGE,
        Self::new(Content::Database, Place::Layout),
        Self::new(Content::Database, Place::Archive),
    ];
}

/// Formats the kind as `opm` calls it.
impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let content = match self.content {
            Content::Catalog => "declarative config",
            Content::Bundle => "bundle",
            Content::Database => "sqlite",
        };
        let place = match self.place {
            Place::Directory => "directory",
            Place::File => "file",
            Place::Image => "image",
            Place::Layout => "image layout",
            Place::Archive => "image archive",
        };
        write!(out, "{content} {place}")
    }
}
