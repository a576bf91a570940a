//! The parts of a new release: the manifests that an image of a component, or a folder of it, brings (CVO-RELN-02).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use jiff::Timestamp;
use mainstay_oci::{Client, Layer, Reference, read_contents};
use mainstay_release::compose::{Operator, is_operator};
use mainstay_release::{FilesError, Folder, ReleaseImage};

use crate::Limits;
use crate::error::ReadError;
use crate::folder::{MAX_ENTRIES, MAX_FILE};
use crate::image::{check_size, facts, kept};
use crate::place::joined;

/// An image of a component.
#[derive(Debug)]
pub struct ComponentImage {
    /// The image.
    pub image: ReleaseImage,
    /// The files of its folder `manifests`; none if it is not labelled as an operator.
    pub files: Option<BTreeMap<String, Vec<u8>>>,
}

/// Reads the image of a component. Its layers are fetched only if its label says that it brings manifests.
pub async fn component(client: &Client, reference: &Reference, limits: &Limits) -> Result<ComponentImage, ReadError> {
    let read = read(client, reference, limits);
    let outcome = tokio::time::timeout(limits.deadline, read).await;
    outcome.unwrap_or_else(|_| Err(ReadError::Deadline { image: reference.to_string(), deadline: limits.deadline }))
}

async fn read(client: &Client, reference: &Reference, limits: &Limits) -> Result<ComponentImage, ReadError> {
    let subject = reference.to_string();
    let failed = |error| ReadError::image(&subject, error);
    let workspace = client.workspace().map_err(failed)?;
    let found = client.inspect(reference, workspace.store()).await.map_err(failed)?;
    let image = facts(&found, workspace.store(), &subject)?;
    if !is_operator(&image.labels()) {
        return Ok(ComponentImage { image, files: None });
    }
    check_size(&subject, &found, limits)?;
    let pulled = client.pull(&reference.at(found.digest), workspace.store()).await.map_err(failed)?;
    let (subject, limits) = (subject.clone(), *limits);
    let files = tokio::task::spawn_blocking(move || {
        let options = kept(&limits, &[Folder::Operator]);
        let contents =
            read_contents(&Layer::of(&pulled, workspace.store()), &options).map_err(|error| ReadError::image(&subject, error))?;
        let own = |path: &str| {
            let name = path.strip_prefix(Folder::Operator.name()).and_then(|rest| rest.strip_prefix('/'))?;
            (!name.is_empty() && !name.contains('/')).then(|| name.to_owned())
        };
        if let Some(path) = contents.broken_links.into_iter().find(|path| own(path).is_some() || path == Folder::Operator.name()) {
            return Err(ReadError::Link { subject, path });
        }
        Ok(contents.files.into_iter().filter_map(|(path, content)| Some((own(&path)?, content))).collect())
    });
    Ok(ComponentImage { image, files: Some(joined(files.await)?) })
}

/// The manifests of a folder, by the folders below it, and its own file `image-references`.
#[derive(Debug, Default)]
pub struct ComponentFolders {
    /// One for each folder, even if it is empty.
    pub operators: Vec<Operator>,
    /// `image-references`.
    pub references: Option<Vec<u8>>,
    /// The time of the newest file.
    pub newest: Option<Timestamp>,
}

/// Reads a folder with one folder for each operator. Blocks.
pub fn folders(path: &Path) -> Result<ComponentFolders, ReadError> {
    let mut read = ComponentFolders::default();
    let mut budget = Budget::default();
    for (name, below) in entries(path)? {
        if below.is_dir() {
            let mut operator = Operator { name, ..Operator::default() };
            for (file, content) in entries(&below)? {
                if content.is_file() {
                    operator.files.insert(file, budget.read(&content, &mut read.newest)?);
                }
            }
            read.operators.push(operator);
        } else if name == "image-references" {
            read.references = Some(budget.read(&below, &mut read.newest)?);
        }
    }
    Ok(read)
}

/// The entries of a folder by name; those whose name is no text are left out.
fn entries(path: &Path) -> Result<BTreeMap<String, std::path::PathBuf>, ReadError> {
    let mut all = BTreeMap::new();
    for (number, entry) in std::fs::read_dir(path).map_err(ReadError::io(path))?.enumerate() {
        if number == MAX_ENTRIES {
            return Err(ReadError::Entries(path.to_owned()));
        }
        let entry = entry.map_err(ReadError::io(path))?;
        if let Ok(name) = entry.file_name().into_string() {
            all.insert(name, entry.path());
        }
    }
    Ok(all)
}

/// The bytes that may still be read.
struct Budget {
    left: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: Limits::default().payload_bytes }
    }
}

impl Budget {
    fn read(&mut self, path: &Path, newest: &mut Option<Timestamp>) -> Result<Vec<u8>, ReadError> {
        let io = || ReadError::io(path);
        let file = File::open(path).map_err(io())?;
        let changed = file.metadata().and_then(|facts| facts.modified()).map_err(io())?;
        *newest = (*newest).max(Timestamp::try_from(changed).ok());
        let mut content = Vec::new();
        file.take(MAX_FILE).read_to_end(&mut content).map_err(io())?;
        if content.len() as u64 == MAX_FILE {
            return Err(FilesError::File { path: path.display().to_string(), bytes: content.len() }.into());
        }
        self.left = self.left.checked_sub(content.len() as u64).ok_or(FilesError::Bytes)?;
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// CVO-RELN-01: a folder for each operator; what lies deeper and beside is left out; the newest file gives the time.
    #[test]
    fn folders_of_operators() {
        let place = tempfile::tempdir().unwrap();
        for name in ["a/x.yaml", "a/image-references", "a/more/y.yaml", "b/z.json", "image-references", "README"] {
            let path = place.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, name).unwrap();
            let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(name.len() as u64);
            File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        }
        std::fs::create_dir(place.path().join("empty")).unwrap();
        let read = folders(place.path()).unwrap();
        let names: Vec<String> = read.operators.iter().map(|operator| format!("{} {}", operator.name, operator.files.len())).collect();
        assert_eq!(names, ["a 2", "b 1", "empty 0"]);
        assert_eq!(read.references.as_deref(), Some(b"image-references".as_slice()));
        assert_eq!(read.newest, Some(Timestamp::from_second("a/image-references".len() as i64).unwrap()));
        assert!(folders(&place.path().join("none")).unwrap_err().to_string().contains("none"));
    }
}
