//! Catalogs from directories, files and registries, for commands that work without a cluster.

use mainstay_catalog::{Index, Limits, Source};
use mainstay_catalog_refs::{Access, BoxError, Error, Kind, Opened};
use mainstay_oci::Client;
use mainstay_operations::catalogs::ByteCounter;
use mainstay_operations::images::reference_failure;

use crate::errors::Failure;
use crate::{images, progress, runtime};

/// An indexed catalog.
pub struct Catalog {
    /// Its name in answers.
    pub name: String,
    /// Its index.
    pub index: Index<Vec<u8>>,
}

/// Opens catalogs; two with the same name get numbers.
pub fn open_all(places: &[String]) -> Result<Vec<Catalog>, Failure> {
    let mut all: Vec<Catalog> = Vec::new();
    for place in places {
        let opened = open(place, Kind::CATALOGS)?;
        let source = opened.source().map_err(|error| failure(&format!("catalog {place}"), &error))?;
        let mut catalog = index(place, source.as_ref())?;
        let name = catalog.name.clone();
        for number in 2.. {
            if all.iter().all(|other| other.name != catalog.name) {
                break;
            }
            catalog.name = format!("{name}-{number}");
        }
        all.push(catalog);
    }
    Ok(all)
}

/// Opens the catalog that a command names; `accept` lists the accepted kinds.
pub fn open(place: &str, accept: &[Kind]) -> Result<Opened, Failure> {
    open_with(place, &Access::new(&client, accept))
}

/// Opens a catalog as [`open`] does, with other settings.
pub fn open_with(place: &str, access: &Access<'_>) -> Result<Opened, Failure> {
    runtime::block_on(async { mainstay_catalog_refs::open(place, access).await.map_err(|error| failure(place, &error)) })
}

/// Creates the user's client, when it turns out to be needed.
pub fn client() -> Result<Client, BoxError> {
    images::config().map_err(|failure| BoxError::from(failure.to_line())).and_then(|config| Ok(progress::shown(Client::new(config)?)))
}

/// Returns the failure of an error, with the exit code and the hint of its kind.
pub fn failure(subject: &str, error: &Error) -> Failure {
    reference_failure(subject, error).into()
}

fn index(place: &str, source: &dyn Source) -> Result<Catalog, Failure> {
    let subject = || format!("catalog {place}");
    let mut content = ByteCounter::default();
    let bytes = mainstay_catalog::store(source, &Limits::default(), &mut content).map_err(|error| Failure::failed(subject(), &error))?;
    let index = Index::open(bytes, content.bytes()).map_err(|error| Failure::failed(subject(), &error))?;
    Ok(Catalog { name: name(place), index })
}

/// Returns the name of a catalog: `./catalogs/team.json.gz` is `team`, `registry/org/catalog:v1` is `catalog`.
pub fn name(place: &str) -> String {
    let last = place.trim_end_matches('/').rsplit('/').next().unwrap_or(place);
    let stem = last.split(['@', ':']).next().unwrap_or(last);
    let stem = stem.strip_suffix(".gz").unwrap_or(stem);
    let stem = ["json", "yaml", "yml"].iter().find_map(|extension| stem.strip_suffix(extension)?.strip_suffix('.')).unwrap_or(stem);
    if stem.is_empty() || stem == "." || stem == ".." { "catalog".to_owned() } else { stem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MS-CLI-09: what a catalog is called when it is given as a path or a reference.
    #[test]
    fn names() {
        for (place, expected) in [
            ("./catalogs/team.json.gz", "team"),
            ("catalog.yaml", "catalog"),
            ("examples/catalog/", "catalog"),
            ("registry.example/org/index:v1", "index"),
            ("registry.example:5000/org/index@sha256:00", "index"),
            (".", "catalog"),
        ] {
            assert_eq!(name(place), expected);
        }
    }
}
