//! Registries as this user reaches them: credentials, mirrors, and what images hold.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstay_oci::{
    BlobStore, Client, ClientConfig, Credentials, Error, ErrorKind, Layer, Layout, Platform, Progress, Reference, Registries,
    UnpackOptions, read_files,
};

use crate::errors::{Exit, Failure};

/// Told how far a transfer is.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// The label that names the folder of a catalog's files (OLM1-CAT-06).
pub const CATALOG_LABEL: &str = "operators.operatorframework.io.index.configs.v1";

/// A client with the user's credentials and mirrors.
pub fn client() -> Result<Client, Failure> {
    Client::new(config()?).map_err(|error| failure("registry client", &error))
}

/// The user's credentials and mirrors.
pub fn config() -> Result<ClientConfig, Failure> {
    Ok(ClientConfig { credentials: credentials()?, registries: registries()?, ..ClientConfig::default() })
}

/// Bundle and catalog images hold no programs; one platform makes them the same everywhere.
pub fn data_platform() -> Platform {
    Platform { os: "linux".to_owned(), architecture: "amd64".to_owned(), variant: None }
}

/// Pulls an image and reads the files below the folders that `keep` chooses from its labels.
pub async fn read(
    client: &Client,
    reference: &str,
    keep: impl FnOnce(&BTreeMap<String, String>) -> Vec<String>,
) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
    let subject = format!("image {reference}");
    let parsed = Reference::parse_familiar(reference).map_err(|error| failure(&subject, &error))?;
    let directory = tempfile::tempdir().map_err(|error| Failure::failed(&subject, &error))?;
    let store = BlobStore::open(directory.path()).map_err(|error| failure(&subject, &error))?;
    let image = client.pull(&parsed, &store).await.map_err(|error| failure(&subject, &error))?;
    let options = UnpackOptions { keep: keep(&image.config.config.labels), ..UnpackOptions::default() };
    let layers = Layer::of(&image, &store);
    let read = tokio::task::spawn_blocking(move || read_files(&layers, &options)).await;
    read.map_err(|error| Failure::failed(&subject, &error))?.map_err(|error| failure(&subject, &error))
}

/// Where a built image goes.
pub enum Target {
    /// To a registry.
    Push(String),
    /// Into an OCI layout directory.
    Layout(PathBuf),
}

/// Builds an image and puts it where it should go; gives the reference by digest, or the digest for a layout.
pub async fn deliver(builder: &mainstay_oci::ImageBuilder, target: &Target, on_progress: Option<OnProgress>) -> Result<String, Failure> {
    let builder = builder.clone().platform(data_platform());
    match target {
        Target::Push(text) => {
            let subject = format!("image {text}");
            let reference = Reference::parse_familiar(text).map_err(|error| failure(&subject, &error))?;
            let directory = tempfile::tempdir().map_err(|error| Failure::failed(&subject, &error))?;
            let store = BlobStore::open(directory.path()).map_err(|error| failure(&subject, &error))?;
            let image = builder.build(&store).map_err(|error| failure(&subject, &error))?;
            let mut client = client()?;
            if let Some(on_progress) = on_progress {
                client = client.with_progress(on_progress);
            }
            let digest = client.push(&image, &store, &reference).await.map_err(|error| failure(&subject, &error))?;
            Ok(reference.at(digest).to_string())
        }
        Target::Layout(directory) => {
            let subject = format!("layout {}", directory.display());
            let layout = Layout::create(directory).map_err(|error| failure(&subject, &error))?;
            let image = builder.build(layout.store()).map_err(|error| failure(&subject, &error))?;
            layout.add("latest", &image).map_err(|error| failure(&subject, &error))?;
            Ok(image.digest.to_string())
        }
    }
}

/// A failure with the exit code and the hint that its kind deserves.
pub fn failure(subject: &str, error: &Error) -> Failure {
    let exit = match error.kind() {
        ErrorKind::NotFound => Exit::NotFound,
        ErrorKind::Timeout => Exit::TimedOut,
        _ => Exit::Failed,
    };
    let failure = Failure::of(exit, subject, error);
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// What the user's container tools have stored; the first file that knows a registry counts.
fn credentials() -> Result<Credentials, Failure> {
    let mut places: Vec<PathBuf> = Vec::new();
    places.extend(std::env::var_os("REGISTRY_AUTH_FILE").map(PathBuf::from));
    places.extend(std::env::var_os("XDG_RUNTIME_DIR").map(|directory| Path::new(&directory).join("containers/auth.json")));
    places.extend(std::env::var_os("DOCKER_CONFIG").map(|directory| Path::new(&directory).join("config.json")));
    places.extend(home().map(|home| home.join(".config/containers/auth.json")));
    places.extend(home().map(|home| home.join(".docker/config.json")));
    let mut all = Credentials::default();
    for place in places.iter().rev() {
        if let Some(text) = read_if_there(place)? {
            let subject = place.display().to_string();
            all.extend(Credentials::parse(&subject, &text).map_err(|error| failure(&subject, &error))?);
        }
    }
    Ok(all)
}

fn registries() -> Result<Registries, Failure> {
    let mut places: Vec<PathBuf> = Vec::new();
    places.extend(std::env::var_os("CONTAINERS_REGISTRIES_CONF").map(PathBuf::from));
    places.extend(home().map(|home| home.join(".config/containers/registries.conf")));
    places.push(PathBuf::from("/etc/containers/registries.conf"));
    for place in &places {
        if let Some(text) = read_if_there(place)? {
            let subject = place.display().to_string();
            return Registries::parse(&subject, &text).map_err(|error| failure(&subject, &error));
        }
    }
    Ok(Registries::default())
}

fn read_if_there(path: &Path) -> Result<Option<String>, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory | std::io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(Failure::failed(path.display().to_string(), &error)),
    }
}

fn home() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| !home.as_os_str().is_empty())
}
