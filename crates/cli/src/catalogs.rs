//! Catalogs from directories, files and registries, for commands that work without a cluster.

use std::io::Read as _;
use std::path::Path;

use mainstay_catalog::{Index, Limits, MemorySource, Source};
use mainstay_catalog_store::DirectorySource;

use crate::errors::{Exit, Failure};
use crate::{images, runtime};

/// The largest file that is read whole.
const MAX_FILE: u64 = 1 << 30;

/// A catalog, indexed.
pub struct Catalog {
    /// What it is called in answers.
    pub name: String,
    /// Its index.
    pub index: Index<Vec<u8>>,
}

/// Opens catalogs; two that would have one name get numbers.
pub fn open_all(places: &[String]) -> Result<Vec<Catalog>, Failure> {
    let mut all: Vec<Catalog> = Vec::new();
    for place in places {
        let mut catalog = index(place, source(place)?.as_ref())?;
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

/// The files of a catalog: a directory, a file (also one packed with gzip), or an image.
pub fn source(place: &str) -> Result<Box<dyn Source>, Failure> {
    let subject = format!("catalog {place}");
    let path = Path::new(place);
    if path.is_dir() {
        return match DirectorySource::new(path) {
            Ok(source) => Ok(Box::new(source)),
            Err(error) => Err(Failure::failed(subject, &error)),
        };
    }
    if path.is_file() {
        let bytes = file(path).map_err(|error| Failure::failed(&subject, &error))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        return Ok(Box::new(MemorySource::of(name.strip_suffix(".gz").unwrap_or(&name), bytes)));
    }
    if looks_like_a_path(place) {
        return Err(Failure::new(Exit::Failed, subject, "no such file or directory"));
    }
    runtime::block_on(pull(place))
}

/// Whether a text that is no file was meant as one.
pub fn looks_like_a_path(text: &str) -> bool {
    let extension = Path::new(text).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    text.starts_with(['.', '/', '~']) || matches!(extension, "json" | "yaml" | "yml" | "gz") || !text.contains(['/', ':'])
}

async fn pull(reference: &str) -> Result<Box<dyn Source>, Failure> {
    let mut root = String::new();
    let files = images::read(&images::client()?, reference, |labels| {
        labels.get(images::CATALOG_LABEL).map_or("configs", String::as_str).trim_matches('/').clone_into(&mut root);
        vec![root.clone()]
    })
    .await?;
    let prefix = format!("{root}/");
    let below = files.into_iter().filter_map(|(path, bytes)| Some((path.strip_prefix(&prefix)?.to_owned(), bytes)));
    Ok(Box::new(below.fold(MemorySource::new(), |source, (path, bytes)| source.with(&path, bytes))))
}

fn index(place: &str, source: &dyn Source) -> Result<Catalog, Failure> {
    let subject = || format!("catalog {place}");
    let mut content = Counter::default();
    let bytes = mainstay_catalog::store(source, &Limits::default(), &mut content).map_err(|error| Failure::failed(subject(), &error))?;
    let index = Index::open(bytes, content.bytes()).map_err(|error| Failure::failed(subject(), &error))?;
    Ok(Catalog { name: name(place), index })
}

/// `./catalogs/team.json.gz` is `team`, `registry/org/catalog:v1` is `catalog`.
fn name(place: &str) -> String {
    let last = place.trim_end_matches('/').rsplit('/').next().unwrap_or(place);
    let stem = last.split(['@', ':']).next().unwrap_or(last);
    let stem = stem.strip_suffix(".gz").unwrap_or(stem);
    let stem = ["json", "yaml", "yml"].iter().find_map(|extension| stem.strip_suffix(extension)?.strip_suffix('.')).unwrap_or(stem);
    if stem.is_empty() || stem == "." || stem == ".." { "catalog".to_owned() } else { stem.to_owned() }
}

/// A file's bytes, unpacked when they are packed with gzip.
fn file(path: &Path) -> std::io::Result<Vec<u8>> {
    let too_large = || std::io::Error::other(format!("larger than {MAX_FILE} bytes"));
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut unpacked = Vec::new();
        flate2::read::MultiGzDecoder::new(bytes.as_slice()).take(MAX_FILE + 1).read_to_end(&mut unpacked)?;
        bytes = unpacked;
    }
    if bytes.len() as u64 > MAX_FILE { Err(too_large()) } else { Ok(bytes) }
}

/// Counts what is written, where the content itself is not needed.
#[derive(Debug, Default)]
pub struct Counter(u64);

impl Counter {
    /// How much was written.
    pub fn bytes(&self) -> u64 {
        self.0
    }
}

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
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
