//! `mainstay catalog from-bundles`: bundle directories become images and a catalog that refers to them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use mainstay_bundle::{Bundle, Content};
use mainstay_catalog::author::{BundleInput, Mode, Options, compose};
use mainstay_catalog::{Catalog, Format, Icon, Limits, MemorySource, Property, RelatedImage, Rule, Validation, render, validate};
use serde_json::Value;

use crate::commands::bundle;
use crate::errors::{Exit, Failure};
use crate::images::{self, Target};
use crate::output::Table;
use crate::progress::Progress;
use crate::runtime;

/// How deep bundles are looked for.
const MAX_DEPTH: usize = 8;
/// The file of a package's deprecations, beside its bundles.
const DEPRECATIONS: &str = "deprecations.yaml";

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay catalog from-bundles examples/bundles --registry localhost:5000/examples --out catalog/
  mainstay catalog from-bundles bundles/ --registry REGISTRY/ORG --out catalog/ --mode semver

Every directory below DIR that has manifests/ and metadata/ is a bundle; it is pushed as REGISTRY/PACKAGE-bundle:vVERSION and the
catalog refers to it by digest. A file deprecations.yaml beside the bundles of a package (one olm.deprecations blob) goes into the catalog.")]
pub struct Arguments {
    /// The directory with the bundle directories
    directory: PathBuf,
    /// The registry, and what precedes the repositories' names
    #[arg(long, value_name = "REGISTRY")]
    registry: String,
    /// The directory to write the catalog into, one file a package
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Where update edges come from
    #[arg(long, value_enum, default_value_t = Edges::Replaces)]
    mode: Edges,
    /// The channel of bundles that name none
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    /// Build the images in order to know their digests, but do not push them
    #[arg(long)]
    no_push: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Edges {
    /// replaces, skips and skipRange of the bundles
    Replaces,
    /// Each version replaces the one before it
    Semver,
    /// The newest patch of each minor version skips the older patches
    SemverSkippatch,
}

/// Builds, pushes, composes, writes.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mode = match arguments.mode {
        Edges::Replaces => Mode::Replaces,
        Edges::Semver => Mode::Semver,
        Edges::SemverSkippatch => Mode::SemverSkipPatch,
    };
    let options = Options { mode, fallback_channel: arguments.channel.clone(), default_channel: None };
    let made = runtime::block_on(make(&arguments.directory, &arguments.registry, &options, !arguments.no_push, &mut Progress::start()))?;
    write(&made.catalog, &arguments.out)?;
    let mut table = Table::new(&["PACKAGE", "BUNDLE", "VERSION", "IMAGE"]);
    for image in &made.images {
        table.row([&image.package, &image.name, &image.version, &image.image]);
    }
    table.print()
}

/// A catalog and the bundles in it.
pub struct Made {
    /// The catalog; valid.
    pub catalog: Catalog,
    /// Its bundles.
    pub images: Vec<Pushed>,
}

/// A bundle that was built.
pub struct Pushed {
    /// Its package.
    pub package: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its reference by digest.
    pub image: String,
}

/// Composes and checks the catalog; then builds the bundles' images, pushes them, and composes it with their digests.
pub async fn make(directory: &Path, registry: &str, options: &Options, push: bool, progress: &mut Progress) -> Result<Made, Failure> {
    let subject = format!("bundles {}", directory.display());
    let mut found = Found::default();
    search(directory, 0, &mut found).map_err(|error| Failure::failed(&subject, &error))?;
    if found.bundles.is_empty() {
        return Err(Failure::new(Exit::Failed, subject, "there is no directory with manifests and metadata below it"));
    }
    if push {
        // What makes no catalog is not pushed. The tags stand in for the digests, which are known after the push.
        let tagged = |place: &PathBuf| {
            let (_, bundle) = bundle::image(place)?;
            input(place, &bundle, tagged(&repository(registry, &bundle), &bundle))
        };
        let inputs = found.bundles.iter().map(tagged).collect::<Result<Vec<_>, _>>()?;
        composed(&subject, options, inputs, &found.deprecations)?;
    }
    let scratch = tempfile::tempdir().map_err(|error| Failure::failed(&subject, &error))?;
    let (mut inputs, mut pushed) = (Vec::new(), Vec::new());
    for place in &found.bundles {
        let (builder, bundle) = bundle::image(place)?;
        let facts = bundle.facts();
        let repository = repository(registry, &bundle);
        progress.doing(&format!("{}: {}", facts.name, if push { "push" } else { "build" }));
        let image = if push {
            let target = Target::Push(tagged(&repository, &bundle));
            images::deliver(&builder, &target, progress.transfer(&format!("{}: push", facts.name))).await?
        } else {
            format!("{repository}@{}", images::deliver(&builder, &Target::Layout(scratch.path().to_owned()), None).await?)
        };
        inputs.push(input(place, &bundle, image.clone())?);
        pushed.push(Pushed { package: facts.package, name: facts.name, version: facts.version, image });
    }
    Ok(Made { catalog: composed(&subject, options, inputs, &found.deprecations)?, images: pushed })
}

fn repository(registry: &str, bundle: &Bundle) -> String {
    format!("{}/{}-bundle", registry.trim_end_matches('/'), bundle.facts().package)
}

/// The image of a bundle by its version; a tag has no place for build metadata's plus sign.
fn tagged(repository: &str, bundle: &Bundle) -> String {
    format!("{repository}:v{}", bundle.facts().version.replace('+', "_"))
}

/// The catalog of the bundles; a valid one.
fn composed(subject: &str, options: &Options, inputs: Vec<BundleInput>, deprecations: &[PathBuf]) -> Result<Catalog, Failure> {
    let mut catalog = compose(options, inputs).map_err(|error| Failure::failed(subject, &error))?;
    for path in deprecations {
        let subject = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|error| Failure::failed(&subject, &error))?;
        let blobs =
            Catalog::load(&MemorySource::of(DEPRECATIONS, bytes), &Limits::default()).map_err(|error| Failure::failed(&subject, &error))?;
        if blobs.packages.len() + blobs.channels.len() + blobs.bundles.len() + blobs.others.len() > 0 {
            return Err(Failure::new(Exit::Failed, subject, "holds blobs of other schemas than olm.deprecations"));
        }
        catalog.deprecations.extend(blobs.deprecations);
    }
    validate(&catalog).map_err(|validation| invalid(subject, options.mode, &validation))?;
    Ok(catalog)
}

/// Why the bundles make no catalog; bundles that do not say what they replace do where their versions order them.
fn invalid(subject: &str, mode: Mode, validation: &Validation) -> Failure {
    let failure = Failure::new(Exit::Failed, subject, validation.to_string());
    let unordered = validation.findings().iter().any(|finding| finding.rule == Rule::SeveralHeads);
    if mode == Mode::Replaces && unordered {
        failure.hint("--mode semver makes each version replace the one before it; else let the bundles say what they replace or skip")
    } else {
        failure
    }
}

/// Writes one file a package; what was there of these packages is replaced.
pub fn write(catalog: &Catalog, out: &Path) -> Result<(), Failure> {
    for (package, part) in by_package(catalog) {
        let directory = out.join(&package);
        let path = directory.join("catalog.yaml");
        let subject = path.display().to_string();
        let mut text = Vec::new();
        render(&part, Format::Yaml, &mut text).map_err(|error| Failure::failed(&subject, &error))?;
        std::fs::create_dir_all(&directory)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|error| Failure::failed(&subject, &error))?;
    }
    Ok(())
}

fn by_package(catalog: &Catalog) -> BTreeMap<String, Catalog> {
    let mut parts: BTreeMap<String, Catalog> = BTreeMap::new();
    for package in &catalog.packages {
        parts.entry(package.name.to_string()).or_default().packages.push(package.clone());
    }
    for channel in &catalog.channels {
        parts.entry(channel.package.to_string()).or_default().channels.push(channel.clone());
    }
    for bundle in &catalog.bundles {
        parts.entry(bundle.package.to_string()).or_default().bundles.push(bundle.clone());
    }
    for deprecations in &catalog.deprecations {
        parts.entry(deprecations.package.to_string()).or_default().deprecations.push(deprecations.clone());
    }
    parts
}

#[derive(Default)]
struct Found {
    bundles: Vec<PathBuf>,
    deprecations: Vec<PathBuf>,
}

fn search(directory: &Path, depth: usize, found: &mut Found) -> std::io::Result<()> {
    if directory.join("manifests").is_dir() && directory.join("metadata").is_dir() {
        found.bundles.push(directory.to_owned());
        return Ok(());
    }
    if depth > MAX_DEPTH {
        return Err(std::io::Error::other(format!("{}: more than {MAX_DEPTH} folders deep", directory.display())));
    }
    let mut entries = std::fs::read_dir(directory)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_type()?.is_dir() {
            search(&entry.path(), depth + 1, found)?;
        } else if entry.file_name() == DEPRECATIONS {
            found.deprecations.push(entry.path());
        }
    }
    Ok(())
}

fn input(place: &Path, bundle: &Bundle, image: String) -> Result<BundleInput, Failure> {
    let subject = format!("bundle {}", place.display());
    let blob = bundle.catalog_blob(&image, Content::CsvMetadata).map_err(|error| Failure::failed(&subject, &error))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let property = |value: &Value| Property::new(value["type"].as_str().unwrap_or_default(), &value["value"]);
    let properties =
        list(&blob["properties"]).iter().map(property).collect::<Result<_, _>>().map_err(|error| Failure::failed(&subject, &error))?;
    let spec = &bundle.csv.object["spec"];
    let icon = &spec["icon"][0];
    let facts = bundle.facts();
    Ok(BundleInput {
        package: facts.package,
        name: facts.name,
        version: facts.version,
        image,
        channels: facts.channels,
        default_channel: facts.default_channel,
        replaces: facts.replaces,
        skips: facts.skips,
        skip_range: facts.skip_range,
        properties,
        related_images: list(&blob["relatedImages"])
            .iter()
            .map(|related| RelatedImage { name: text(&related["name"]), image: text(&related["image"]) })
            .collect(),
        description: text(&spec["description"]),
        icon: icon.is_object().then(|| Icon { base64data: text(&icon["base64data"]), mediatype: text(&icon["mediatype"]) }),
    })
}
