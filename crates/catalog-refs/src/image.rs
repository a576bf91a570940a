//! Images: pulled or found in a layout, told apart by their labels, and unpacked only to the needed extent.

use std::path::{Path, PathBuf};

use mainstay_catalog::SourceError;
use mainstay_catalog_store::DirectorySource;
use mainstay_oci::{Client, Image, Layer, Layout, Platform, Reference, UnpackLimits, UnpackOptions, Workspace, read_files, unpack};
use tempfile::TempDir;

use crate::access::{Access, Names};
use crate::bundle::{self, BundleFiles};
use crate::error::{BoxError, Error};
use crate::kind::{Content, Kind, Place};
use crate::open::{Opened, Payload};
use crate::{BUNDLE_LABEL, CATALOG_LABEL, DATABASE_LABEL};

/// An image whose layers are on this machine.
pub(crate) struct Local {
    pub(crate) reference: String,
    pub(crate) place: Place,
    image: Image,
    layers: Vec<Layer>,
    hold: Hold,
}

/// Owner of the layers on this machine until they are read.
#[allow(dead_code, reason = "removes what it holds when it goes")]
enum Hold {
    /// They belong to a layout of the user.
    Nothing,
    /// They were pulled, and are shared with the next pull.
    Pulled(Workspace),
    /// They came out of an archive.
    Scratch(TempDir),
}

impl Local {
    /// Pulls an image.
    pub(crate) async fn pull(reference: &str, access: &Access<'_>) -> Result<Self, Error> {
        let failed = |source: BoxError| Error::Pull { reference: reference.to_owned(), source };
        // A client is made last: an invalid reference needs none.
        let (client, parsed) = match access.names {
            Names::Canonical => {
                let parsed = Reference::parse(reference).map_err(|error| failed(reference_problem(error)))?;
                ((access.client)().map_err(failed)?, parsed)
            }
            Names::Familiar => {
                let client = (access.client)().map_err(failed)?;
                let parsed = client.reference(reference).map_err(|error| failed(reference_problem(error)))?;
                (client, parsed)
            }
        };
        Self::pull_with(&client, reference, &parsed).await
    }

    async fn pull_with(client: &Client, reference: &str, parsed: &Reference) -> Result<Self, Error> {
        let failed = |source: BoxError| Error::Pull { reference: reference.to_owned(), source };
        let workspace = client.workspace().map_err(|error| failed(error.into()))?;
        let image = client.pull(parsed, workspace.store()).await.map_err(|error| failed(error.into()))?;
        let layers = Layer::of(&image, workspace.store());
        Ok(Self { reference: reference.to_owned(), place: Place::Image, image, layers, hold: Hold::Pulled(workspace) })
    }

    /// The image of a layout directory: the only one, or the one named after a colon.
    pub(crate) fn of_layout(reference: &str, directory: &Path, name: Option<&str>) -> Result<Self, Error> {
        let failed = |error: mainstay_oci::Error| Error::Pull { reference: reference.to_owned(), source: error.into() };
        let layout = Layout::open(directory).map_err(failed)?;
        let image = layout.image(name, &data_platform()).map_err(failed)?;
        let layers = Layer::of(&image, layout.store());
        Ok(Self { reference: reference.to_owned(), place: Place::Layout, image, layers, hold: Hold::Nothing })
    }

    /// The image of an archive: the only one, or the one named after a colon.
    pub(crate) async fn of_archive(reference: &str, archive: &Path, name: Option<&str>) -> Result<Self, Error> {
        let failed = |error: mainstay_oci::Error| Error::Pull { reference: reference.to_owned(), source: error.into() };
        let scratch = scratch()?;
        let (archive, directory) = (archive.to_owned(), scratch.path().join("layout"));
        let layout = joined(tokio::task::spawn_blocking(move || Layout::read_archive(&archive, &directory)).await).map_err(failed)?;
        let image = layout.image(name, &data_platform()).map_err(|error| match error {
            // The path of the scratch folder does not help the user; the existing names do.
            mainstay_oci::Error::Content { problem, .. } => {
                let names = layout.names().map(|names| names.into_keys().collect::<Vec<_>>().join(", ")).unwrap_or_default();
                let names = if names.is_empty() { names } else { format!(" (the images are called {names})") };
                Error::Pull { reference: reference.to_owned(), source: format!("{problem}{names}").into() }
            }
            other => failed(other),
        })?;
        let layers = Layer::of(&image, layout.store());
        Ok(Self { reference: reference.to_owned(), place: Place::Archive, image, layers, hold: Hold::Scratch(scratch) })
    }

    /// Opens the image as the kind that its labels tell (CATLG-32).
    pub(crate) async fn open(self, access: &Access<'_>) -> Result<Opened, Error> {
        let labels = &self.image.config.config.labels;
        let content = if labels.contains_key(DATABASE_LABEL) {
            Content::Database
        } else if labels.contains_key(CATALOG_LABEL) {
            Content::Catalog
        } else if labels.contains_key(BUNDLE_LABEL) {
            Content::Bundle
        } else {
            return Err(Error::UnknownImage { reference: self.reference, labels: labels.clone() });
        };
        let kind = Kind { content, place: self.place };
        if !access.accept.contains(&kind) {
            return Err(Error::NotAllowed { reference: self.reference, kind });
        }
        let digest = Some(self.image.digest.clone());
        let payload = match content {
            Content::Catalog => self.catalog().await?,
            Content::Database => self.database().await?,
            Content::Bundle => {
                let reference = self.reference.clone();
                let files = self.bundle_files().await?;
                Payload::Catalog(bundle::entry(&files, &reference)?)
            }
        };
        Ok(Opened { kind, payload, digest })
    }

    async fn catalog(self) -> Result<Payload, Error> {
        let folder = self.label(CATALOG_LABEL).to_owned();
        let reference = self.reference.clone();
        let (directory, scratch) = self.unpack(&folder).await?;
        // The path of the scratch folder does not help the user.
        let named = |error: SourceError| SourceError { path: format!("{reference} {folder}"), reason: error.reason };
        let source = DirectorySource::of_image(&directory).map_err(named)?;
        Ok(Payload::Directory(source, Some(scratch)))
    }

    async fn database(self) -> Result<Payload, Error> {
        let file = self.label(DATABASE_LABEL).to_owned();
        let reference = self.reference.clone();
        let (path, scratch) = self.unpack(&file).await?;
        let read = tokio::task::spawn_blocking(move || {
            let catalog = crate::open::database(&reference, &path);
            drop(scratch);
            catalog
        });
        joined(read.await).map(Payload::Catalog)
    }

    /// Returns the files of a bundle, below `manifests/` and `metadata/` wherever the labels place them.
    pub(crate) async fn bundle_files(self) -> Result<BundleFiles, Error> {
        let folders = bundle::folders(&self.image.config.config.labels);
        // Limits of a bundle; all of it is held in memory.
        let most = mainstay_bundle::Limits::default();
        let limits = UnpackLimits { total_bytes: most.total_bytes as u64, file_bytes: most.file_bytes as u64, ..UnpackLimits::default() };
        let options =
            UnpackOptions { keep: folders.iter().map(|(folder, _)| folder.clone()).collect(), limits, ..UnpackOptions::default() };
        let Self { reference, layers, hold, .. } = self;
        let read = tokio::task::spawn_blocking(move || {
            let files = read_files(&layers, &options);
            drop(hold);
            files
        });
        let files = joined(read.await).map_err(|error| Error::Unpack { reference, source: error.into() })?;
        Ok(bundle::placed(files, &folders))
    }

    /// Unpacks one path of the image and returns its place on this machine.
    async fn unpack(self, path: &str) -> Result<(PathBuf, TempDir), Error> {
        let Self { reference, layers, hold, .. } = self;
        let scratch = scratch()?;
        let root = scratch.path().join("root");
        let kept = path.trim_matches('/').to_owned();
        let options =
            UnpackOptions { keep: Some(kept.clone()).filter(|path| !path.is_empty()).into_iter().collect(), ..UnpackOptions::default() };
        let directory = root.clone();
        let read = tokio::task::spawn_blocking(move || {
            mainstay_oci::private::folder(&directory).map_err(BoxError::from)?;
            let unpacked = unpack(&layers, &directory, &options).map_err(BoxError::from);
            drop(hold);
            unpacked
        });
        joined(read.await).map_err(|source| Error::Unpack { reference, source })?;
        Ok((if kept.is_empty() { root } else { root.join(kept) }, scratch))
    }

    fn label(&self, key: &str) -> &str {
        self.image.config.config.labels.get(key).map(String::as_str).unwrap_or_default()
    }
}

/// Returns the files of a bundle's image, for callers that already have a client.
pub async fn pull_files(client: &Client, reference: &str) -> Result<BundleFiles, Error> {
    let failed = |error: mainstay_oci::Error| Error::Pull { reference: reference.to_owned(), source: reference_problem(error) };
    let parsed = client.reference(reference).map_err(failed)?;
    Local::pull_with(client, reference, &parsed).await?.bundle_files().await
}

/// Bundle and catalog images hold no programs; one platform makes them the same everywhere.
fn data_platform() -> Platform {
    Platform { os: "linux".to_owned(), architecture: "amd64".to_owned(), variant: None }
}

/// Returns the problem of a reference, in `opm`'s words, which leave the reference to the surrounding sentence.
fn reference_problem(error: mainstay_oci::Error) -> BoxError {
    match error {
        mainstay_oci::Error::InvalidReference { problem, .. } => problem.into(),
        other => other.into(),
    }
}

pub(crate) fn scratch() -> Result<TempDir, Error> {
    let directory = std::env::temp_dir();
    let failed = |error: std::io::Error| Error::Io { path: directory.display().to_string(), reason: error.to_string() };
    mainstay_oci::private::temporary(&directory, "mainstay-image-").map_err(failed)
}

/// Returns the value of a task. Tasks here neither panic nor are cancelled; a panic would be passed on to the caller.
pub(crate) fn joined<T>(outcome: Result<T, tokio::task::JoinError>) -> T {
    match outcome {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => unreachable!("blocking tasks are not cancelled"),
        },
    }
}
