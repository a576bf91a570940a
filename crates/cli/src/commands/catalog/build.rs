//! `mainstay catalog build`: a file-based catalog as an image (CATLG-27, CATLG-31, CATLG-51).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use mainstay_catalog::Source as _;
use mainstay_catalog::{Catalog, Limits, MemorySource, validate, visible_files};
use mainstay_catalog_serve::cache::Cache;
use mainstay_catalog_serve::opm_cache;
use mainstay_catalog_store::DirectorySource;
use mainstay_oci::{ImageBuilder, Platform};
use mainstay_terminal::errors::InvalidArgument;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::images::{self, CATALOG_LABEL, Foundation, Target};
use mainstay_terminal::progress::Progress;
use mainstay_terminal::{output, runtime};

/// The path of the catalog in the image (CATLG-31).
const CONFIGS: &str = "/configs";
/// The path of opm's cache of it.
const CACHE: &str = "/tmp/cache";

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay catalog build examples/catalog --push REGISTRY/catalog:latest
  mainstay catalog build examples/catalog --layout out/
  mainstay catalog build examples/catalog --archive catalog.tar --compression zstd
  mainstay catalog build examples/catalog --base-image quay.io/operator-framework/opm:latest \\
      --platform linux/amd64,linux/arm64 --push REGISTRY/catalog:latest

The catalog is checked as `opm validate` checks it before anything is written. No container engine is needed: with --base-image the layers
of the base are mounted by the registry, or copied where it does not hold them.

Without a base image there is no program in the image: clusters read its content (a CatalogSource says so with
grpcPodConfig.extractContent). With one, /bin/opm of the base serves the catalog, from the cache that `opm generate dockerfile` would
have it make.")]
pub struct Arguments {
    /// The directory of the catalog
    directory: PathBuf,
    #[command(flatten)]
    output: Output,
    /// The image to build on; it has to hold /bin/opm
    #[arg(short = 'i', long, value_name = "REF")]
    base_image: Option<String>,
    /// The machines to build for, as linux/arm64; several make one image for all of them
    #[arg(long, value_name = "OS/ARCH", value_delimiter = ',')]
    platform: Vec<Platform>,
    /// How the catalog's layer is compressed
    #[arg(long, value_enum, default_value_t = Compression::Gzip)]
    compression: Compression,
    /// Which kind of image to write
    #[arg(long, value_enum, default_value_t = ImageFormat::Oci)]
    format: ImageFormat,
    /// A label more; can be repeated
    #[arg(short = 'l', long = "extra-label", alias = "extra-labels", value_name = "KEY=VALUE", value_parser = label, value_delimiter = ',')]
    labels: Vec<(String, String)>,
}

/// Where the image goes.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Output {
    /// Where to push the image
    #[arg(long, value_name = "REF")]
    push: Option<String>,
    /// An OCI layout directory to write the image into
    #[arg(long, value_name = "DIR")]
    layout: Option<PathBuf>,
    /// A file to write, which `podman load` and `skopeo` read
    #[arg(long, value_name = "FILE")]
    archive: Option<PathBuf>,
    /// A file to write, which `docker load` reads too
    #[arg(long, value_name = "FILE[:NAME:TAG]")]
    docker_archive: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Compression {
    Gzip,
    Zstd,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ImageFormat {
    Oci,
    Docker,
}

/// Builds the image, pushes or writes it, and prints its reference by digest.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut builder = image(&arguments.directory)?
        .labels(arguments.labels.clone())
        .compression(match arguments.compression {
            Compression::Gzip => mainstay_oci::Compression::Gzip,
            Compression::Zstd => mainstay_oci::Compression::Zstd,
            Compression::None => mainstay_oci::Compression::None,
        })
        .format(match arguments.format {
            ImageFormat::Oci => mainstay_oci::Format::Oci,
            ImageFormat::Docker => mainstay_oci::Format::Docker,
        });
    if arguments.base_image.is_some() {
        builder = serving(builder, &arguments.directory)?;
    }
    let target = arguments.output.target()?;
    let foundation = Foundation { base: arguments.base_image.clone(), platforms: arguments.platform.clone() };
    let progress = Progress::start();
    let told = progress.transfer("catalog image");
    let reference = runtime::block_on(images::deliver_on(&foundation, &builder, &target, told))?;
    drop(progress);
    output::line(reference)
}

/// Lets opm of the base image serve the catalog, with the cache that it would make itself (CATLG-31). The base's own catalog and cache are hidden.
fn serving(builder: ImageBuilder, directory: &Path) -> Result<ImageBuilder, Failure> {
    let subject = format!("catalog {}", directory.display());
    let source = DirectorySource::of_user(directory).map_err(|error| Failure::failed(&subject, &error))?;
    let mut files = BTreeMap::new();
    for path in visible_files(&source).map_err(|error| Failure::failed(&subject, &error))? {
        let bytes = source.read(&path).map_err(|error| Failure::failed(&subject, &error))?.into_owned();
        files.insert(path, bytes);
    }
    let cached = with_cache(builder, &subject, &files, CACHE)?;
    Ok(cached.emptied(CONFIGS).entrypoint(["/bin/opm"]).command(["serve".to_owned(), CONFIGS.to_owned(), format!("--cache-dir={CACHE}")]))
}

/// Puts opm's cache of a catalog's files into the image, in place of the base's cache.
pub fn with_cache(builder: ImageBuilder, subject: &str, files: &BTreeMap<String, Vec<u8>>, folder: &str) -> Result<ImageBuilder, Failure> {
    let scratch = tempfile::tempdir().map_err(|error| Failure::failed(subject, &error))?;
    let source = files.iter().fold(MemorySource::new(), |source, (path, bytes)| source.with(path, bytes.clone()));
    let stored = Cache::open(scratch.path()).and_then(|cache| cache.build(&source)).map_err(|error| Failure::failed(subject, &error))?;
    let cache = opm_cache(&stored, files).map_err(|error| Failure::failed(subject, &error))?;
    let inside = folder.trim_matches('/');
    Ok(cache.into_iter().fold(builder.emptied(inside), |builder, (path, bytes)| builder.file(format!("{inside}/{path}"), bytes)))
}

impl Output {
    fn target(&self) -> Result<Target, Failure> {
        Ok(match (&self.push, &self.layout, &self.archive, &self.docker_archive) {
            (Some(reference), ..) => Target::Push(reference.clone()),
            (_, Some(directory), ..) => Target::Layout(directory.clone()),
            (_, _, Some(file), _) => Target::OciArchive(file.clone()),
            (.., Some(text)) => match text.split_once(':') {
                Some((file, name)) => Target::DockerArchive(file.into(), Some(name.to_owned())),
                None => Target::DockerArchive(text.into(), None),
            },
            _ => return Err(Failure::new(Exit::Usage, "catalog build", "needs --push, --layout, --archive or --docker-archive")),
        })
    }
}

/// Parses a label as `key=value`.
fn label(text: &str) -> Result<(String, String), InvalidArgument> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(InvalidArgument(format!("invalid label {text:?}, expected key=value"))),
    }
}

/// The image of a catalog directory that is valid.
pub fn image(directory: &Path) -> Result<ImageBuilder, Failure> {
    let subject = format!("catalog {}", directory.display());
    let source = DirectorySource::of_user(directory).map_err(|error| Failure::failed(&subject, &error))?;
    let catalog = Catalog::load(&source, &Limits::default()).map_err(|error| Failure::failed(&subject, &error))?;
    if catalog.packages.is_empty() {
        return Err(Failure::new(Exit::Failed, subject, "there is no package in it"));
    }
    validate(&catalog).map_err(|validation| Failure::new(Exit::Failed, &subject, validation.to_string()))?;
    let mut builder = ImageBuilder::new().label(CATALOG_LABEL, CONFIGS);
    for path in visible_files(&source).map_err(|error| Failure::failed(&subject, &error))? {
        let bytes = source.read(&path).map_err(|error| Failure::failed(&subject, &error))?.into_owned();
        builder = builder.file(format!("configs/{path}"), bytes);
    }
    Ok(builder)
}
