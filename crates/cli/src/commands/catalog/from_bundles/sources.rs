//! The bundles of a tree: directories with manifests and metadata, and folders of package manifests, which are converted.
//!
//! ```text
//!   bundles::find ──┬─ DIR/{manifests,metadata} ─────────────────────┐
//!                   └─ *.package.yaml beside version folders ────────┴─ read, check ─┬─ Source
//!                                                                                       └─ Fault (all of them, not the first)
//!   ci.yaml beside the bundles ── updateGraph ── where the package's edges come from
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use mainstay_bundle::Bundle;
use mainstay_bundle::InvalidDocument;
use mainstay_bundle::generate::{Description, Package, csv_of};
use mainstay_catalog::author::{BundleInput, Mode};
use mainstay_catalog_store::{Folder, FolderError, FolderLimits, Found, Links};
use mainstay_oci::ImageBuilder;
use mainstay_terminal::bundles::{self, Files};
use mainstay_terminal::errors::Failure;

use crate::commands::bundle;

/// Why a file beside bundles cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct InvalidFile(pub(super) String);

/// The file of a package's deprecations, beside its bundles.
pub const DEPRECATIONS: &str = "deprecations.yaml";
/// The file in which community catalogs name the source of a package's edges.
const SETTINGS: &str = "ci.yaml";
/// Suffixes of the package files of the older layout.
const PACKAGE_FILES: [&str; 2] = [".package.yaml", ".package.yml"];
/// Limits of a package in the older layout.
const LIMITS: FolderLimits = FolderLimits { entries: 20_000, depth: 2, file_bytes: 32 << 20, total_bytes: 512 << 20 };

/// A bundle to list. Its content is read again when it is needed: a tree has thousands of bundles.
pub struct Source {
    /// Its path.
    pub place: PathBuf,
    /// The catalog's input for it, without its image.
    pub input: BundleInput,
    layout: Layout,
}

/// The layout of a bundle in its folder.
enum Layout {
    /// Folders `manifests` and `metadata`.
    Bundle,
    /// A folder of manifests, with these annotations.
    Manifests(String),
}

impl Source {
    fn read(place: PathBuf, layout: Layout) -> Result<Self, Failure> {
        let (_, bundle) = image(&place, &layout)?;
        let input = super::input(&place, &bundle)?;
        Ok(Self { place, input, layout })
    }

    /// The image of the bundle.
    pub fn image(&self) -> Result<ImageBuilder, Failure> {
        image(&self.place, &self.layout).map(|(builder, _)| builder)
    }
}

fn image(place: &Path, layout: &Layout) -> Result<(ImageBuilder, Bundle), Failure> {
    match layout {
        Layout::Bundle => bundle::image(place),
        Layout::Manifests(annotations) => {
            let subject = format!("bundle {}", place.display());
            let folder = Folder::open(place, Links::Anywhere, LIMITS).map_err(|error| Failure::failed(&subject, &error))?;
            let mut files = files(&folder).map_err(|error| Failure::failed(&subject, &error))?;
            for (path, _) in &mut files {
                path.insert_str(0, "manifests/");
            }
            files.push(("metadata/annotations.yaml".to_owned(), annotations.clone().into_bytes()));
            bundle::image_of(&subject, files)
        }
    }
}

/// All files of a folder by path.
fn files(folder: &Folder) -> Result<Files, FolderError> {
    let found = folder.walk()?.into_iter().filter(|(_, found)| *found == Found::File);
    folder.read_all(found.map(|(path, _)| path))
}

/// A problem that keeps a part of the tree from being listed.
pub struct Fault {
    /// The path of the part.
    pub place: PathBuf,
    /// The problem.
    pub problem: String,
    /// Hints on how to solve it.
    pub hints: Vec<String>,
}

impl Fault {
    /// A fault without a hint.
    pub fn new(place: PathBuf, problem: String) -> Self {
        Self { place, problem, hints: Vec::new() }
    }

    /// The fault that a failure describes.
    pub fn of(place: &Path, failure: &Failure) -> Self {
        let hints = failure.hints().iter().map(|hint| hint.as_str().to_owned()).collect();
        Self { place: place.to_owned(), problem: failure.to_line(), hints }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.place.display(), self.problem)
    }
}

/// The content of a tree.
#[derive(Default)]
pub struct Sources {
    /// The bundles that can be listed.
    pub bundles: Vec<Source>,
    /// The problems of the parts that cannot be listed.
    pub faults: Vec<Fault>,
    /// Files with deprecations.
    pub deprecations: Vec<PathBuf>,
    /// Packages of which nothing can be listed, each with a fault.
    pub without: BTreeSet<String>,
    /// The source of the edges of each package, from its `ci.yaml`.
    pub modes: BTreeMap<String, Mode>,
}

/// Reads all of a tree; `doing` gets the progress.
pub fn read(root: &Path, mut doing: impl FnMut(&str)) -> Result<Sources, Failure> {
    let found = bundles::find(root)?;
    let mut sources = Sources::default();
    let named = |name: &'static str| found.files.iter().filter(move |path| path.file_name().is_some_and(|own| own == name)).cloned();
    sources.deprecations = named(DEPRECATIONS).collect();

    let mut places: Vec<(PathBuf, Layout)> = found.bundles.iter().map(|place| (place.clone(), Layout::Bundle)).collect();
    for file in found.files.iter().filter(|path| is_package_file(path)) {
        match versions(file.parent().unwrap_or(root)) {
            Ok(versions) => places.extend(versions),
            Err(problem) => sources.faults.push(Fault::new(file.clone(), problem.to_string())),
        }
    }
    let all = places.len();
    for (number, (place, layout)) in places.into_iter().enumerate() {
        doing(&format!("read {} of {all}: {}", number + 1, place.display()));
        match Source::read(place.clone(), layout) {
            Ok(source) => sources.bundles.push(source),
            Err(failure) => sources.faults.push(Fault::of(&place, &failure)),
        }
    }
    sources.refuse_doubles();
    for file in named(SETTINGS) {
        match mode(&file) {
            Ok(Some(mode)) => {
                let directory = file.parent().unwrap_or(root);
                let packages = sources.bundles.iter().filter(|source| source.place.starts_with(directory));
                let packages: BTreeSet<String> = packages.map(|source| source.input.package.clone()).collect();
                sources.modes.extend(packages.into_iter().map(|package| (package, mode)));
            }
            Ok(None) => {}
            Err(problem) => sources.faults.push(Fault::new(file, problem.to_string())),
        }
    }
    Ok(sources)
}

impl Sources {
    /// Refuses two bundles of one name, or of one version of a package, which would get one image: both places are named, and
    /// only the first bundle is listed.
    fn refuse_doubles(&mut self) {
        let mut names: BTreeMap<(String, String), PathBuf> = BTreeMap::new();
        let mut versions: BTreeMap<(String, String), PathBuf> = BTreeMap::new();
        let mut kept = Vec::new();
        for source in std::mem::take(&mut self.bundles) {
            let BundleInput { package, name, version, .. } = &source.input;
            let (name, version) = ((package.clone(), name.clone()), (package.clone(), version.clone()));
            let double = match (names.get(&name), versions.get(&version)) {
                (Some(other), _) => Some(format!("bundle {} of package {} is in {} too", name.1, name.0, other.display())),
                (None, Some(other)) => Some(format!("version {} of package {} is in {} too", version.1, version.0, other.display())),
                (None, None) => None,
            };
            if let Some(problem) = double {
                self.faults.push(Fault::new(source.place, problem));
            } else {
                names.insert(name, source.place.clone());
                versions.insert(version, source.place.clone());
                kept.push(source);
            }
        }
        self.bundles = kept;
    }
}

/// The value of `updateGraph` of a `ci.yaml`.
fn mode(file: &Path) -> Result<Option<Mode>, InvalidFile> {
    let text = std::fs::read_to_string(file).map_err(|error| InvalidFile(error.to_string()))?;
    let document = mainstay_yaml::stream(&text).next().transpose().map_err(|error| InvalidFile(error.to_string()))?;
    let document = document.map(|document| document.value).unwrap_or_default();
    match document["updateGraph"].as_str() {
        None if document["updateGraph"].is_null() => Ok(None),
        Some("replaces-mode") => Ok(Some(Mode::Replaces)),
        Some("semver-mode") => Ok(Some(Mode::Semver)),
        Some("semver-skippatch-mode" | "semver-skippatch") => Ok(Some(Mode::SemverSkipPatch)),
        _ => Err(InvalidFile(format!(
            "updateGraph: expected replaces-mode, semver-mode or semver-skippatch-mode, found {}",
            document["updateGraph"]
        ))),
    }
}

fn is_package_file(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| PACKAGE_FILES.iter().any(|ending| name.ends_with(ending)))
}

/// The folders of a package in the older layout that a channel leads to, with their generated annotations.
fn versions(directory: &Path) -> Result<Vec<(PathBuf, Layout)>, InvalidFile> {
    let folder = Folder::open(directory, Links::Anywhere, LIMITS).map_err(|error| InvalidFile(error.to_string()))?;
    let mut beside = Files::new();
    let mut versions: BTreeMap<String, Files> = BTreeMap::new();
    for (path, bytes) in files(&folder).map_err(|error| InvalidFile(error.to_string()))? {
        match path.split_once('/') {
            Some((version, name)) => versions.entry(version.to_owned()).or_default().push((name.to_owned(), bytes)),
            None if is_package_file(Path::new(&path)) => beside.push((path, bytes)),
            None => {}
        }
    }
    // Folders of bundles, tests and the like lie beside those of versions.
    versions.retain(|_, files| csv_of("", files).is_ok());
    let folders: Vec<(String, Files)> = versions.into_iter().collect();
    let shown = directory.display().to_string();
    let unreadable = |error: InvalidDocument| InvalidFile(error.to_string());
    let package = Package::read(&shown, &beside, &folders).map_err(unreadable)?;
    let mut found = Vec::new();
    for (version, files) in folders {
        let csv = csv_of(&format!("{shown}/{version}"), &files).map_err(unreadable)?;
        let channels = package.channels_of(csv["metadata"]["name"].as_str().unwrap_or_default()).join(",");
        // A version that no channel leads to was never served.
        if !channels.is_empty() {
            let description = Description {
                media_type: "registry+v1".to_owned(),
                package: package.name.clone(),
                channels,
                default_channel: package.default_channel.clone(),
            };
            found.push((directory.join(&version), Layout::Manifests(description.annotations())));
        }
    }
    Ok(found)
}
