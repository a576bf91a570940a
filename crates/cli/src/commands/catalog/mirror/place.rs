//! The destination of images, and the records of earlier runs there (CATLG-74).
//!
//! A registry keeps the record of each catalog in a repository of its own, as a small image; a directory keeps it in a file. So the next run of the
//! command, on whatever machine, knows what may be deleted.

use std::path::PathBuf;

use mainstay_oci::mirror::{Destination, Record};
use mainstay_oci::{Client, Digest, ErrorKind, ImageBuilder, Layer, Layout, Reference, UnpackOptions, read_files};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::images::{self, data_platform};
use tokio::sync::Mutex;

use super::open::RECORD;
use super::{FILE, Target};

/// The repository of the records, below the destination.
const RECORDS: &str = "mainstay-mirror";
/// The largest number of catalogs in one mirror.
const MAX_RECORDS: usize = 1000;

/// The destination of images.
pub enum Place {
    /// A registry.
    Registry {
        /// Its client.
        client: Client,
        /// The reference of this catalog's record.
        at: Reference,
        /// The images that an earlier run of this catalog put there.
        before: Option<Record>,
        /// The images that runs of other catalogs put there.
        others: Vec<Record>,
    },
    /// A directory.
    Directory {
        /// The images.
        layout: Layout,
        /// Held while the list of images is changed.
        list: Mutex<()>,
        /// The record's file.
        at: PathBuf,
        /// The images that an earlier run put there.
        before: Option<Record>,
    },
}

impl Place {
    /// Opens the destination and reads its records.
    pub async fn open(client: &Client, target: &Target, catalog: &Reference) -> Result<Self, Failure> {
        match target {
            Target::Registry(destination) => Self::registry(client, destination, catalog).await,
            Target::Directory(directory) => {
                let subject = format!("directory {}", directory.display());
                let failed = |error: mainstay_oci::Error| images::failure(&subject, &error);
                let layout = Layout::create(directory).map_err(failed)?;
                let at = directory.join(RECORD);
                let before = match std::fs::read(&at) {
                    Ok(bytes) => Some(Record::read(&at.display().to_string(), &bytes).map_err(failed)?),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                    Err(error) => return Err(Failure::failed(&subject, &error)),
                };
                if let Some(other) = before.as_ref().filter(|before| before.catalog != catalog.to_string()) {
                    return Err(Failure::new(Exit::Failed, subject, format!("it holds catalog {}", other.catalog))
                        .hint("name a directory for each catalog"));
                }
                Ok(Self::Directory { layout, list: Mutex::new(()), at, before })
            }
        }
    }

    async fn registry(client: &Client, destination: &Destination, catalog: &Reference) -> Result<Self, Failure> {
        let client = client.for_platform(data_platform());
        let repository = destination.repository(RECORDS).map_err(|error| images::failure("destination", &error))?;
        let subject = format!("mirror {repository}");
        let failed = |error: mainstay_oci::Error| images::failure(&subject, &error);
        let own = key(catalog);
        let tags = match client.tags(&repository).await {
            Ok(tags) => tags,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(error)),
        };
        if tags.len() > MAX_RECORDS {
            return Err(Failure::new(Exit::Failed, subject, format!("it holds more than {MAX_RECORDS} catalogs")));
        }
        let (mut before, mut others) = (None, Vec::new());
        for tag in tags {
            let reference = repository.tagged(&tag).map_err(failed)?;
            let record = read(&client, &reference).await?;
            if tag == own { before = Some(record) } else { others.push(record) }
        }
        let at = repository.tagged(&own).map_err(failed)?;
        Ok(Self::Registry { client, at, before, others })
    }

    /// The images that an earlier run of this catalog put there.
    pub fn before(&self) -> Option<&Record> {
        match self {
            Self::Registry { before, .. } | Self::Directory { before, .. } => before.as_ref(),
        }
    }

    /// Saves the record of this run.
    pub async fn keep(&self, record: &Record) -> Result<(), Failure> {
        let bytes = record.write().map_err(|error| images::failure("record of the mirror", &error))?;
        match self {
            Self::Directory { at, .. } => {
                let subject = || format!("file {}", at.display());
                let folder = at.parent().unwrap_or(at);
                let file = tempfile::NamedTempFile::new_in(folder).map_err(|error| Failure::failed(subject(), &error))?;
                std::fs::write(file.path(), bytes).map_err(|error| Failure::failed(subject(), &error))?;
                file.persist(at).map_err(|error| Failure::failed(subject(), &error.error))?;
                Ok(())
            }
            Self::Registry { client, at, .. } => {
                let failed = |error: mainstay_oci::Error| images::failure(&format!("record {at}"), &error);
                let workspace = client.workspace().map_err(failed)?;
                let builder = ImageBuilder::new().platform(data_platform()).file(RECORD, bytes);
                let image = builder.build(workspace.store()).map_err(failed)?;
                client.push(&image, workspace.store(), at).await.map_err(failed)?;
                Ok(())
            }
        }
    }
}

async fn read(client: &Client, reference: &Reference) -> Result<Record, Failure> {
    let subject = format!("record {reference}");
    let failed = |error: mainstay_oci::Error| images::failure(&subject, &error);
    let workspace = client.workspace().map_err(failed)?;
    let image = client.pull(reference, workspace.store()).await.map_err(failed)?;
    let options = UnpackOptions { keep: vec![RECORD.to_owned()], ..UnpackOptions::default() };
    let files = read_files(&Layer::of(&image, workspace.store()), &options).map_err(failed)?;
    let bytes = files.get(RECORD).ok_or_else(|| {
        Failure::new(Exit::Failed, &subject, "it is no record of a mirror")
            .hint(format!("the repository {RECORDS} is for such records only"))
    })?;
    Record::read(&subject, bytes).map_err(failed)
}

/// The identity of a catalog, independent of its content: its repository, and its tag if it has one.
fn key(catalog: &Reference) -> String {
    let tag = if catalog.digest().is_some() { None } else { catalog.tag() };
    let name = catalog.repository().rsplit('/').next().unwrap_or_default();
    let whole = Digest::of(format!("{}:{}", catalog.name(), tag.unwrap_or_default()).as_bytes());
    format!("{}-{}", name.chars().take(60).collect::<String>(), &whole.hex()[..12])
}

/// `file://DIR`, for messages.
pub fn directory_name(layout: &Layout) -> String {
    format!("{FILE}{}", layout.store().root().display())
}
