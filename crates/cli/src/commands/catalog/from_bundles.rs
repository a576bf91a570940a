//! `mainstay catalog from-bundles`: builds images of bundle directories and a catalog that refers to them.

mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use mainstay_bundle::{Bundle, Content};
use mainstay_catalog::author::{BundleInput, Mode, Options, compose};
use mainstay_catalog::{
    Catalog, Deprecations, Extent, Format, Icon, Invalid as NotValid, Limits, MemorySource, Property, RelatedImage, Rule, render,
    validate_source,
};
use mainstay_diagnostics::counted;
use mainstay_terminal::errors::{Exit, Failure, note, warn};
use mainstay_terminal::images::{self, Target};
use mainstay_terminal::output::Table;
use mainstay_terminal::progress::Progress;
use mainstay_terminal::runtime;
use serde_json::Value;

use self::sources::InvalidFile;
use self::sources::{DEPRECATIONS, Fault, Source, Sources};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay catalog from-bundles examples/bundles --registry localhost:5000/examples --out catalog/
  mainstay catalog from-bundles bundles/ --registry REGISTRY/ORG --out catalog/ --mode semver
  mainstay catalog from-bundles operators/ --registry REGISTRY/ORG --out catalog/ --skip-invalid

Every directory below DIR that has manifests/ and metadata/ is a bundle; it is pushed as REGISTRY/PACKAGE-bundle:vVERSION and the
catalog refers to it by digest. Folders of the older layout (NAME.package.yaml beside a folder for each version) are converted.
Without --mode, updateGraph in a file ci.yaml beside the bundles of a package says where its update edges come from, else the bundles do.
A file deprecations.yaml beside the bundles of a package (one olm.deprecations blob) goes into the catalog.
All faults are told at once, and nothing is pushed then; with --skip-invalid they are left out.
Exit codes: 0 written, 1 faults or bad input.")]
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
    #[arg(long, value_enum, value_name = "MODE")]
    mode: Option<Edges>,
    /// The channel of bundles that name none
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    /// Build the images in order to know their digests, but do not push them
    #[arg(long)]
    no_push: bool,
    /// Leave out what cannot be listed, and say so
    #[arg(long)]
    skip_invalid: bool,
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

impl From<Edges> for Mode {
    fn from(edges: Edges) -> Self {
        match edges {
            Edges::Replaces => Self::Replaces,
            Edges::Semver => Self::Semver,
            Edges::SemverSkippatch => Self::SemverSkipPatch,
        }
    }
}

/// Builds, pushes, composes and writes.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let request = Request {
        directory: &arguments.directory,
        registry: &arguments.registry,
        mode: arguments.mode.map(Mode::from),
        fallback_channel: arguments.channel.clone(),
        push: !arguments.no_push,
        invalid: if arguments.skip_invalid { Invalid::LeftOut } else { Invalid::Refused },
    };
    let made = runtime::block_on(make(&request, &mut Progress::start()))?;
    write(&made.catalog, &arguments.out)?;
    let mut table = Table::new(&["PACKAGE", "BUNDLE", "VERSION", "IMAGE"]);
    for image in &made.images {
        table.row([&image.package, &image.name, &image.version, &image.image]);
    }
    table.print()
}

/// The treatment of bundles that cannot be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalid {
    /// All of them are reported, and nothing is made.
    Refused,
    /// They are reported and left out.
    LeftOut,
}

/// A request for a catalog.
pub struct Request<'a> {
    /// The tree of bundles.
    pub directory: &'a Path,
    /// The registry, and what precedes the repositories' names.
    pub registry: &'a str,
    /// The source of all edges; without it, each package's `ci.yaml` names the source.
    pub mode: Option<Mode>,
    /// The channel of bundles that name none.
    pub fallback_channel: Option<String>,
    /// True if images are pushed.
    pub push: bool,
    /// The treatment of bundles that cannot be listed.
    pub invalid: Invalid,
}

/// A catalog and the bundles in it.
pub struct Made {
    /// The catalog; valid.
    pub catalog: Catalog,
    /// Its bundles.
    pub images: Vec<Pushed>,
}

/// A bundle whose image was built.
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
pub async fn make(request: &Request<'_>, progress: &mut Progress) -> Result<Made, Failure> {
    let subject = format!("bundles {}", request.directory.display());
    let mut sources = sources::read(request.directory, |step| progress.doing(step))?;
    if sources.bundles.is_empty() && sources.faults.is_empty() {
        return Err(Failure::new(Exit::Failed, subject, "there is no directory with manifests and metadata below it"));
    }
    // Nothing is pushed unless it makes a catalog. The tags stand in for the digests, which are known after the push.
    sources.compose(request, |source| tagged(&repository(request.registry, &source.input), &source.input));
    sources.judge(&subject, request.invalid)?;
    let scratch = tempfile::tempdir().map_err(|error| Failure::failed(&subject, &error))?;
    let mut references: BTreeMap<PathBuf, String> = BTreeMap::new();
    let mut pushed = Vec::new();
    let all = sources.bundles.len();
    for (number, source) in sources.bundles.iter().enumerate() {
        let builder = source.image()?;
        let input = &source.input;
        let repository = repository(request.registry, input);
        let verb = if request.push { "push" } else { "build" };
        progress.doing(&format!("{verb} {} of {all}: {}", number + 1, input.name));
        let image = if request.push {
            let target = Target::Push(tagged(&repository, input));
            images::deliver(&builder, &target, progress.transfer(&format!("{}: push", input.name))).await?
        } else {
            format!("{repository}@{}", images::deliver(&builder, &Target::Layout(scratch.path().to_owned()), None).await?)
        };
        references.insert(source.place.clone(), image.clone());
        let BundleInput { package, name, version, .. } = input.clone();
        pushed.push(Pushed { package, name, version, image });
    }
    let catalog = sources.compose(request, |source| references.get(&source.place).cloned().unwrap_or_default());
    sources.judge(&subject, Invalid::Refused)?;
    Ok(Made { catalog, images: pushed })
}

impl Sources {
    /// The catalog of all packages that make a valid one; any other package becomes a fault, and its bundles are no longer listed.
    fn compose(&mut self, request: &Request<'_>, image: impl Fn(&Source) -> String) -> Catalog {
        let mut packages: BTreeMap<String, Vec<Source>> = BTreeMap::new();
        for source in std::mem::take(&mut self.bundles) {
            packages.entry(source.input.package.clone()).or_default().push(source);
        }
        let mut deprecations = self.deprecations_by_package();
        deprecations.retain(|package, _| !self.without.contains(package));
        let mut catalog = Catalog::default();
        for (package, sources) in packages {
            let mode = request.mode.or_else(|| self.modes.get(&package).copied()).unwrap_or_default();
            let options = Options { mode, fallback_channel: request.fallback_channel.clone(), default_channel: None };
            let inputs = sources.iter().map(|source| with_image(&source.input, image(source))).collect();
            let blobs = deprecations.remove(&package).unwrap_or_default().into_iter().map(|(_, blob)| blob).collect();
            match composed(&format!("package {package}"), &options, inputs, blobs) {
                Ok(part) => {
                    catalog.packages.extend(part.packages);
                    catalog.channels.extend(part.channels);
                    catalog.bundles.extend(part.bundles);
                    catalog.deprecations.extend(part.deprecations);
                    self.bundles.extend(sources);
                }
                Err(failure) => {
                    let place = sources.first().map(|source| source.place.clone()).unwrap_or_default();
                    let place = place.parent().map(Path::to_owned).unwrap_or(place);
                    self.faults.push(Fault::of(&place, &failure));
                    self.without.insert(package);
                }
            }
        }
        for (package, blobs) in deprecations {
            let problem = format!("no bundle of package {package} can be listed");
            self.without.insert(package);
            self.faults.extend(blobs.into_iter().map(|(place, _)| Fault::new(place, problem.clone())));
        }
        catalog
    }

    /// The blobs of the files with deprecations; a file that is not valid becomes a fault.
    fn deprecations_by_package(&mut self) -> BTreeMap<String, Vec<(PathBuf, Deprecations)>> {
        let mut found: BTreeMap<String, Vec<(PathBuf, Deprecations)>> = BTreeMap::new();
        for path in std::mem::take(&mut self.deprecations) {
            match deprecations(&path) {
                Ok(blobs) => {
                    for blob in blobs {
                        found.entry(blob.package.to_string()).or_default().push((path.clone(), blob));
                    }
                    self.deprecations.push(path);
                }
                Err(problem) => self.faults.push(Fault::new(path, problem.to_string())),
            }
        }
        found
    }

    /// Reports every fault; faults end the command unless they are to be left out.
    fn judge(&mut self, subject: &str, invalid: Invalid) -> Result<(), Failure> {
        if self.faults.is_empty() {
            return Ok(());
        }
        self.faults.sort_by(|a, b| a.place.cmp(&b.place));
        let faults = std::mem::take(&mut self.faults);
        if invalid == Invalid::LeftOut && !self.bundles.is_empty() {
            for fault in &faults {
                warn("left out", &fault.to_string());
            }
            note(format!("{} left out, {} listed", counted(faults.len(), "fault"), counted(self.bundles.len(), "bundle")));
            return Ok(());
        }
        let message = format!("{}; {} could be listed", counted(faults.len(), "fault"), counted(self.bundles.len(), "bundle"));
        let failure = faults.iter().fold(Failure::new(Exit::Failed, subject, message), |failure, fault| failure.because(fault.to_string()));
        let hints: BTreeSet<&String> = faults.iter().flat_map(|fault| &fault.hints).collect();
        let failure = hints.into_iter().fold(failure, |failure, hint| failure.hint(hint.as_str()));
        Err(if self.bundles.is_empty() { failure } else { failure.hint("--skip-invalid leaves them out") })
    }
}

/// The blobs of one file with deprecations.
fn deprecations(path: &Path) -> Result<Vec<Deprecations>, InvalidFile> {
    let bytes = std::fs::read(path).map_err(|error| InvalidFile(error.to_string()))?;
    let blobs =
        Catalog::load(&MemorySource::of(DEPRECATIONS, bytes), &Limits::default()).map_err(|error| InvalidFile(error.to_string()))?;
    if blobs.packages.len() + blobs.channels.len() + blobs.bundles.len() + blobs.others.len() > 0 {
        return Err(InvalidFile("holds blobs of other schemas than olm.deprecations".to_owned()));
    }
    Ok(blobs.deprecations)
}

fn repository(registry: &str, input: &BundleInput) -> String {
    format!("{}/{}-bundle", registry.trim_end_matches('/'), input.package)
}

/// The image of a bundle, tagged with its version; a tag cannot contain the plus sign of build metadata.
fn tagged(repository: &str, input: &BundleInput) -> String {
    format!("{repository}:v{}", input.version.replace('+', "_"))
}

/// The valid catalog of the bundles of one package.
fn composed(subject: &str, options: &Options, inputs: Vec<BundleInput>, deprecations: Vec<Deprecations>) -> Result<Catalog, Failure> {
    let mut catalog = compose(options, inputs).map_err(|error| Failure::failed(subject, &error))?;
    catalog.deprecations.extend(deprecations);
    // The written text is checked, and not its source: some rules are about the text.
    let mut text = Vec::new();
    render(&catalog, Format::JsonLines, &mut text).map_err(|error| Failure::failed(subject, &error))?;
    let limits = Limits::default();
    let verdict = validate_source(&MemorySource::of("catalog.json", text), &limits, Extent::Opm);
    verdict.map_err(|problem| invalid(subject, options.mode, &problem))?;
    Ok(catalog)
}

/// The failure of bundles that make no catalog; for bundles that do not say what they replace, it advises the order of versions.
fn invalid(subject: &str, mode: Mode, problem: &NotValid) -> Failure {
    let failure = Failure::new(Exit::Failed, subject, problem.to_string());
    let findings = if let NotValid::Rules(validation) = problem { validation.findings() } else { &[] };
    let unordered = findings.iter().any(|finding| finding.rule == Rule::SeveralHeads);
    if mode == Mode::Replaces && unordered {
        failure.hint("--mode semver makes each version replace the one before it; else let the bundles say what they replace or skip")
    } else {
        failure
    }
}

/// Writes one file per package; existing files of these packages are replaced.
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

/// The same bundle with its image, which is also one of the images that it needs.
fn with_image(input: &BundleInput, image: String) -> BundleInput {
    let mut input = BundleInput { image, ..input.clone() };
    if !input.related_images.iter().any(|related| related.image == input.image) {
        input.related_images.push(RelatedImage { name: String::new(), image: input.image.clone() });
        input.related_images.sort_by(|a, b| a.image.cmp(&b.image));
    }
    input
}

/// The catalog's input for a bundle whose image is not known yet.
fn input(place: &Path, bundle: &Bundle) -> Result<BundleInput, Failure> {
    /// Stands in for the image.
    const UNKNOWN: &str = "unknown.invalid/bundle";
    let subject = format!("bundle {}", place.display());
    let problems = bundle.listing_problems().map_err(|error| Failure::failed(&subject, &error))?;
    if !problems.is_empty() {
        return Err(Failure::new(Exit::Failed, subject, problems.join("; ")));
    }
    let blob = bundle.catalog_blob(UNKNOWN, Content::CsvMetadata).map_err(|error| Failure::failed(&subject, &error))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let property = |value: &Value| Property::new(value["type"].as_str().unwrap_or_default(), &value["value"]);
    let properties =
        list(&blob["properties"]).iter().map(property).collect::<Result<_, _>>().map_err(|error| Failure::failed(&subject, &error))?;
    let spec = &bundle.csv.object["spec"];
    for loss in bundle.listing_losses() {
        warn(&subject, &loss);
    }
    let facts = bundle.facts();
    Ok(BundleInput {
        package: facts.package,
        name: facts.name,
        version: facts.version,
        image: String::new(),
        channels: facts.channels,
        default_channel: facts.default_channel,
        replaces: facts.replaces,
        skips: facts.skips,
        skip_range: facts.skip_range,
        properties,
        related_images: list(&blob["relatedImages"])
            .iter()
            .map(|related| RelatedImage { name: text(&related["name"]), image: text(&related["image"]) })
            .filter(|related| related.image != UNKNOWN)
            .collect(),
        description: text(&spec["description"]),
        icon: bundle.icon().map(|(base64data, mediatype)| Icon { base64data, mediatype }),
    })
}
