//! Registries with the user's settings: credentials, mirrors, and the content of images.

use std::path::{Path, PathBuf};

use mainstay_oci::{
    BlobCache, Client, ClientConfig, Credentials, Error, ImageBuilder, ImageIndex, Layout, Platform, Reference, Settings,
    write_docker_archive,
};
use mainstay_operations::{ClusterRegistries, OnTransfer, Registries, images as operations};

use crate::errors::{Exit, Failure};

/// The label that names the folder of a catalog's files (OLM1-CAT-06).
pub const CATALOG_LABEL: &str = "operators.operatorframework.io.index.configs.v1";

/// Size limit of the cache of pulled images, in bytes.
const CACHE_BYTES: u64 = 4 << 30;

/// Creates a client with the user's credentials and mirrors.
pub fn client() -> Result<Client, Failure> {
    Client::new(config()?).map_err(|error| failure("registry client", &error))
}

/// Creates a client with the user's credentials and mirrors, without a cache.
pub fn plain_client() -> Result<Client, Error> {
    Client::new(settings().load()?)
}

/// Returns the user's credentials, mirrors, certificate authorities and cache.
pub fn config() -> Result<ClientConfig, Failure> {
    let config = settings().load().map_err(|error| failure("settings of container tools", &error))?;
    Ok(ClientConfig { cache: cache()?, ..config })
}

/// Returns the user's settings.
pub fn settings() -> Settings {
    Settings::of(variable, Path::new("/etc"))
}

fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name)
}

/// Returns the platform of bundle and catalog images. They hold no programs, so one platform makes them the same everywhere.
pub fn data_platform() -> Platform {
    Platform { os: "linux".to_owned(), architecture: "amd64".to_owned(), variant: None }
}

/// The target of a built image.
pub enum Target {
    /// A registry.
    Push(String),
    /// An OCI layout directory.
    Layout(PathBuf),
    /// A file: an OCI layout in a tar archive.
    OciArchive(PathBuf),
    /// A file in the format of `docker load`, under a name if there is one.
    DockerArchive(PathBuf, Option<String>),
}

/// The base of an image, and its platforms.
#[derive(Debug, Clone, Default)]
pub struct Foundation {
    /// The base image, by reference; `None` means from scratch.
    pub base: Option<String>,
    /// The platforms, one image for each; several become an index. Empty means the platform of [`data_platform`] without a base, and Linux
    /// on this machine's architecture on a base.
    pub platforms: Vec<Platform>,
}

/// Builds an image and delivers it to its target. Returns the reference by digest, or only the digest if the target is no registry.
pub async fn deliver(builder: &ImageBuilder, target: &Target, on_progress: Option<OnTransfer>) -> Result<String, Failure> {
    deliver_on(&Foundation::default(), builder, target, on_progress).await
}

/// Builds and delivers an image on a base, and for several platforms. The registry mounts the base's layers if it can; otherwise they are
/// copied.
pub async fn deliver_on(
    foundation: &Foundation,
    builder: &ImageBuilder,
    target: &Target,
    on_progress: Option<OnTransfer>,
) -> Result<String, Failure> {
    let mut client = client()?;
    if let Some(on_progress) = on_progress {
        client = client.with_progress(on_progress);
    }
    let subject = target.subject();
    let failed = |error: Error| failure(&subject, &error);
    let workspace = client.workspace().map_err(failed)?;
    let base = match &foundation.base {
        None => None,
        Some(text) => Some(client.reference(text).map_err(|error| failure(&format!("base image {text}"), &error))?),
    };
    let mut images = Vec::new();
    let chosen = match foundation.platforms.as_slice() {
        [] if base.is_some() => vec![Platform::default()],
        [] => vec![data_platform()],
        platforms => platforms.to_vec(),
    };
    for platform in chosen {
        let mut builder = builder.clone().platform(platform.clone());
        if let Some(base) = &base {
            let inspected = client.for_platform(platform.clone()).inspect(base, workspace.store()).await;
            let image = inspected.map_err(|error| failure(&format!("base image {base}"), &error))?;
            if image.config.os != platform.os || image.config.architecture != platform.architecture {
                let found = image.config.platform();
                return Err(Failure::new(Exit::Failed, format!("base image {base}"), format!("it is for {found}, not for {platform}"))
                    .hint(format!("--platform {found}, or a base image for {platform}")));
            }
            builder = builder.base(image);
        }
        images.push(builder.build(workspace.store()).map_err(failed)?);
    }
    let origins: Vec<Reference> = base.into_iter().collect();
    if let Target::Push(text) = target {
        let reference = client.reference(text).map_err(failed)?;
        let digest = if let [only] = images.as_slice() {
            client.push_built(only, workspace.store(), &reference, &origins).await
        } else {
            let index = ImageIndex::build(images, workspace.store()).map_err(failed)?;
            client.push_index(&index, workspace.store(), &reference, &origins).await
        };
        return Ok(reference.at(digest.map_err(failed)?).to_string());
    }
    let folder = workspace.directory().join("layout");
    let (directory, name) = match target {
        Target::Layout(directory) => (directory.as_path(), "latest"),
        _ => (folder.as_path(), "latest"),
    };
    let layout = Layout::create(directory).map_err(failed)?;
    let root = match images.as_slice() {
        [only] => only.descriptor.clone(),
        _ => ImageIndex::build(images.clone(), workspace.store()).map_err(failed)?.descriptor,
    };
    for image in &images {
        client.gather(image, workspace.store(), &origins).await.map_err(failed)?;
    }
    layout.take(&root, workspace.store()).map_err(failed)?;
    layout.add_descriptor(name, &root).map_err(failed)?;
    match target {
        Target::OciArchive(path) => layout.write_archive(path).map_err(failed)?,
        Target::DockerArchive(path, name) => {
            let [only] = images.as_slice() else {
                return Err(Failure::new(Exit::Usage, subject, "a docker archive holds images of one platform")
                    .hint("name one --platform, or write an OCI archive"));
            };
            let names: Vec<String> = name.iter().cloned().collect();
            write_docker_archive(only, layout.store(), &names, path).map_err(failed)?;
        }
        Target::Layout(_) | Target::Push(_) => {}
    }
    Ok(root.digest.to_string())
}

impl Target {
    fn subject(&self) -> String {
        match self {
            Self::Push(text) => format!("image {text}"),
            Self::Layout(path) => format!("layout {}", path.display()),
            Self::OciArchive(path) | Self::DockerArchive(path, _) => format!("archive {}", path.display()),
        }
    }
}

/// Returns the failure of an error, with the exit code and the hint of its kind.
pub fn failure(subject: &str, error: &Error) -> Failure {
    operations::failure(subject, error).into()
}

/// The registries of this program's user, for operations.
pub struct UserRegistries;

impl Registries for UserRegistries {
    fn client(&self) -> Result<Client, mainstay_diagnostics::Failure> {
        client().map_err(Failure::into_told)
    }

    fn client_of(&self, cluster: &ClusterRegistries) -> Result<Client, mainstay_diagnostics::Failure> {
        let mut config = config().map_err(Failure::into_told)?;
        let failed = |subject: &str, error: &Error| operations::failure(subject, error);
        if let Some(secret) = &cluster.pull_secret {
            let subject = "secret openshift-config/pull-secret";
            config.credentials.extend(Credentials::parse(subject, secret).map_err(|error| failed(subject, &error))?);
        }
        config.registries.add_mirror_sets(&cluster.mirrors).map_err(|error| failed("mirrors of the cluster", &error))?;
        Client::new(config).map_err(|error| failed("registry client", &error))
    }
}

/// Returns the cache of blobs for later commands: `MAINSTAY_CACHE_DIR`, or the user's cache folder. `None` if neither is known.
fn cache() -> Result<Option<BlobCache>, Failure> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("MAINSTAY_CACHE_DIR")
        .or_else(|| set("XDG_CACHE_HOME").map(|folder| folder.join("mainstay")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/mainstay")));
    let Some(folder) = folder else { return Ok(None) };
    crate::private::own_cache(&folder.join("images"))?;
    match BlobCache::open(folder.join("images"), CACHE_BYTES) {
        Ok(cache) => Ok(Some(cache)),
        // A home that cannot be written to, as in many containers, is no reason to refuse a pull.
        Err(Error::Io { path, source }) if is_read_only(&source) => {
            tracing::info!(path = %path.display(), error = %source, "images are not kept for the next command");
            Ok(None)
        }
        Err(error) => Err(failure("cache of images", &error)),
    }
}

fn is_read_only(error: &std::io::Error) -> bool {
    use std::io::ErrorKind as Kind;
    matches!(error.kind(), Kind::PermissionDenied | Kind::ReadOnlyFilesystem | Kind::NotADirectory | Kind::StorageFull)
}
