//! A catalog together with the positions of its blobs.

use std::collections::HashMap;

use crate::blob::{Blob, Limits};
use crate::error::LoadError;
use crate::model::Catalog;
use crate::source::Source;

/// A catalog with its files and lines.
#[derive(Debug, Default)]
pub struct Placed {
    /// The catalog.
    pub catalog: Catalog,
    /// The positions of its blobs.
    pub places: Places,
}

impl Placed {
    /// Loads all files of a source.
    pub fn load(source: &dyn Source, limits: &Limits) -> Result<Self, LoadError> {
        let mut placed = Self::default();
        crate::load::load(source, limits, &mut |blob| {
            placed.places.add(&blob);
            placed.catalog.add(&blob)
        })?;
        Ok(placed)
    }
}

/// Position and size of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    file: u32,
    /// Line where it begins, from 1.
    pub line: u32,
    /// Its size as one line of JSON, in bytes.
    pub bytes: u32,
}

/// Positions of the blobs of a catalog.
#[derive(Debug, Default)]
pub struct Places {
    files: Vec<String>,
    blobs: HashMap<(String, String, String), Place>,
}

impl Places {
    fn add(&mut self, blob: &Blob<'_>) {
        if self.files.last().is_none_or(|last| last != blob.path) {
            self.files.push(blob.path.to_owned());
        }
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let place = Place { file: small(self.files.len() - 1), line: small(blob.line), bytes: small(blob.json.len()) };
        // A package blob belongs to the package that it names. Of blobs with one name the first one counts.
        let package = if blob.schema == crate::SCHEMA_PACKAGE { blob.name } else { blob.package };
        self.blobs.entry((blob.schema.to_owned(), package.to_owned(), blob.name.to_owned())).or_insert(place);
    }

    /// The place of a blob.
    pub fn of(&self, schema: &str, package: &str, name: &str) -> Option<Place> {
        self.blobs.get(&(schema.to_owned(), package.to_owned(), name.to_owned())).copied()
    }

    /// The file of a place, below the root of the catalog.
    pub fn path(&self, place: Place) -> &str {
        self.files.get(place.file as usize).map_or("", String::as_str)
    }
}
