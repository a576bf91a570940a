//! The catalog that is mirrored: from its image, with the selected packages, or from a directory of an earlier run.

use std::collections::BTreeMap;
use std::path::Path;

use mainstay_catalog::filter::{Dependencies, Selection, filter};
use mainstay_catalog::{Catalog, Format, Limits, render};
use mainstay_catalog_refs::looks_like_a_path;
use mainstay_catalog_store::DirectorySource;
use mainstay_oci::mirror::Record;
use mainstay_oci::{Client, Descriptor, Image, ImageBuilder, ImageIndex, Layer, Layout, Reference, Tree, UnpackOptions, Workspace, unpack};
use mainstay_terminal::errors::{Exit, Failure, warn};
use mainstay_terminal::images::{self, CATALOG_LABEL, data_platform};

use super::super::build::with_cache;
use super::{Arguments, FILE};

/// The file that describes the content of a directory.
pub const RECORD: &str = "mirror.json";
/// The folder of a catalog's files, unless the label names another.
const CONFIGS: &str = "/configs";

/// A catalog and the images it names.
pub struct Opened {
    /// The catalog's own image first, then all others.
    pub images: Vec<Reference>,
    /// The source of the images.
    pub source: Source,
    /// The catalog's image by digest, as it was read; its tag may move meanwhile.
    pub fixed: Reference,
    /// The catalog's image, if it was rebuilt because packages were selected.
    pub rebuilt: Option<Rebuilt>,
    /// The folder of the catalog's files, if the image has no program that could serve them.
    pub content_only: Option<String>,
    /// References in the catalog that are no image, in words.
    pub skipped: Vec<String>,
}

/// The source of images.
pub enum Source {
    /// The registries in their names.
    Registries,
    /// A directory, by their names.
    Directory(Layout),
}

/// A catalog's image with only some of its packages.
pub struct Rebuilt {
    /// The image or index.
    pub root: Descriptor,
    /// The store, which has all of it except the base's layers.
    pub workspace: Workspace,
}

impl Opened {
    /// The catalog's image.
    pub fn catalog(&self) -> &Reference {
        // The first is always the catalog: both ways of opening put it there.
        &self.images[0]
    }

    /// Reads the catalog that the arguments name.
    pub async fn open(client: &Client, arguments: &Arguments) -> Result<Self, Failure> {
        match arguments.source.strip_prefix(FILE) {
            Some(directory) if arguments.packages.is_empty() => Self::of_directory(Path::new(directory)),
            Some(_) => Err(Failure::new(Exit::Usage, "catalog mirror", "--package chooses from a catalog's image, not from a directory")
                .hint("choose packages when the directory is written")),
            None => Self::of_image(client, arguments).await,
        }
    }

    fn of_directory(directory: &Path) -> Result<Self, Failure> {
        let subject = format!("directory {}", directory.display());
        let failed = |error: mainstay_oci::Error| images::failure(&subject, &error);
        let path = directory.join(RECORD);
        let bytes = std::fs::read(&path).map_err(|error| {
            Failure::failed(&subject, &error)
                .hint(format!("`mainstay catalog mirror CATALOG {FILE}{}` makes such a directory", directory.display()))
        })?;
        let record = Record::read(&path.display().to_string(), &bytes).map_err(failed)?;
        let layout = Layout::open(directory).map_err(failed)?;
        let mut names = vec![record.catalog.clone()];
        names.extend(record.images.iter().map(|image| image.source.clone()).filter(|source| *source != record.catalog));
        let images: Vec<Reference> = names.iter().map(|name| Reference::parse(name)).collect::<Result<_, _>>().map_err(failed)?;
        let catalog = layout.image(Some(&images[0].to_string()), &data_platform()).map_err(failed)?;
        Ok(Self {
            fixed: images[0].clone(),
            images,
            source: Source::Directory(layout),
            rebuilt: None,
            content_only: content_only(&catalog),
            skipped: Vec::new(),
        })
    }

    async fn of_image(client: &Client, arguments: &Arguments) -> Result<Self, Failure> {
        let subject = format!("catalog {}", arguments.source);
        let failed = |error: mainstay_oci::Error| images::failure(&subject, &error);
        if Path::new(&arguments.source).exists() {
            let message = "is no image, and a mirror keeps the catalog's image as it is";
            return Err(Failure::new(Exit::Failed, subject, message).because(
                "mainstay catalog build --push makes an image of a directory; file://DIR is a directory that an earlier mirror wrote",
            ));
        }
        if looks_like_a_path(&arguments.source) {
            return Err(Failure::new(Exit::Failed, subject, "no such file or directory"));
        }
        let named = client.reference(&arguments.source).map_err(failed)?;
        // From here on the tag may move; the digest that it has now is mirrored.
        let fixed = client.resolve(&named).await.map_err(failed)?.reference;
        let Read { catalog, folder, content_only } = read(client, &subject, &fixed).await?;
        let (catalog, rebuilt) = if arguments.packages.is_empty() {
            (catalog, None)
        } else {
            let dependencies = if arguments.with_dependencies { Dependencies::Include } else { Dependencies::Leave };
            let selection = Selection { packages: arguments.packages.clone(), dependencies };
            let filtered = filter(&catalog, &selection).map_err(|error| Failure::of(exit(&error), &subject, &error))?;
            for notice in &filtered.notices {
                warn(&subject, &notice.to_string());
            }
            let rebuilt = rebuild(client, &subject, &fixed, &filtered.catalog, &folder).await?;
            (filtered.catalog, Some(rebuilt))
        };
        let mut skipped = Vec::new();
        let mut images = vec![named];
        for (bundle, image) in images_of(&catalog) {
            match Reference::parse(image) {
                Ok(reference) => images.push(reference),
                Err(error) => skipped.push(format!("bundle {bundle}: {error}; it is left out")),
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        images.retain(|image| seen.insert(image.to_string()));
        Ok(Self { images, source: Source::Registries, fixed, rebuilt, content_only, skipped })
    }
}

/// Every image that the catalog names, with a bundle that names it.
fn images_of(catalog: &Catalog) -> impl Iterator<Item = (&str, &str)> {
    catalog.bundles.iter().flat_map(|bundle| {
        let related = bundle.related_images.iter().map(|related| related.image.as_str());
        std::iter::once(bundle.image.as_str()).chain(related).filter(|image| !image.is_empty()).map(|image| (bundle.name.as_str(), image))
    })
}

fn exit(error: &mainstay_catalog::filter::FilterError) -> Exit {
    use mainstay_catalog::filter::FilterError as Error;
    match error {
        Error::NoPackage { .. } | Error::NoChannel { .. } => Exit::NotFound,
        Error::Syntax { .. } | Error::Nothing | Error::Twice(_) | Error::Config { .. } => Exit::Usage,
        _ => Exit::Impossible,
    }
}

/// The content of a catalog's image.
struct Read {
    catalog: Catalog,
    folder: String,
    content_only: Option<String>,
}

/// The folder of the files in an image without a program.
fn content_only(image: &Image) -> Option<String> {
    let run = &image.config.config;
    let folder = run.labels.get(CATALOG_LABEL).map_or(CONFIGS, String::as_str);
    (run.entrypoint.is_empty() && run.command.is_empty()).then(|| folder.to_owned())
}

async fn read(client: &Client, subject: &str, reference: &Reference) -> Result<Read, Failure> {
    let failed = |error: mainstay_oci::Error| images::failure(subject, &error);
    let client = client.for_platform(data_platform());
    let workspace = client.workspace().map_err(failed)?;
    let image = client.inspect(reference, workspace.store()).await.map_err(failed)?;
    let Some(folder) = image.config.config.labels.get(CATALOG_LABEL).cloned() else {
        return Err(Failure::new(Exit::Failed, subject, format!("the image is no file-based catalog: it lacks the label {CATALOG_LABEL}"))
            .hint("a catalog in a database becomes one by `mainstay opm migrate`"));
    };
    let image = client.pull(&reference.at(image.digest), workspace.store()).await.map_err(failed)?;
    let content_only = content_only(&image);
    let inside = folder.trim_matches('/').to_owned();
    let directory = workspace.directory().join("content");
    let layers = Layer::of(&image, workspace.store());
    let root = directory.join(&inside);
    let read = tokio::task::spawn_blocking(move || -> Result<Catalog, Failure> {
        let keep = if inside.is_empty() { Vec::new() } else { vec![inside] };
        std::fs::create_dir_all(&directory).map_err(|error| Failure::failed("content of the catalog", &error))?;
        unpack(&layers, &directory, &UnpackOptions { keep, ..UnpackOptions::default() })
            .map_err(|error| images::failure("content of the catalog", &error))?;
        let source = DirectorySource::of_image(&root).map_err(|error| Failure::failed("content of the catalog", &error))?;
        Catalog::load(&source, &Limits::default()).map_err(|error| Failure::failed("content of the catalog", &error))
    });
    let catalog = read.await.map_err(|error| Failure::failed(subject, &error))??;
    Ok(Read { catalog, folder, content_only })
}

/// Rebuilds the catalog's image for each of its platforms, with other content in place of its own.
async fn rebuild(client: &Client, subject: &str, reference: &Reference, catalog: &Catalog, folder: &str) -> Result<Rebuilt, Failure> {
    let failed = |error: mainstay_oci::Error| images::failure(subject, &error);
    let workspace = client.workspace().map_err(failed)?;
    let store = workspace.store();
    let tree = client.survey(reference, store).await.map_err(failed)?;
    let mut content = Vec::new();
    render(catalog, Format::Json, &mut content).map_err(|error| Failure::failed(subject, &error))?;
    let inside = folder.trim_matches('/');
    let inside = if inside.is_empty() { CONFIGS.trim_matches('/') } else { inside };
    let files = BTreeMap::from([("catalog.json".to_owned(), content)]);
    let mut images = Vec::new();
    for base in client.images(reference, &tree, store).await.map_err(failed)? {
        let cache = base.config.config.command.iter().find_map(|word| word.strip_prefix("--cache-dir=")).map(str::to_owned);
        let mut builder = ImageBuilder::new()
            .platform(base.config.platform())
            .base(base)
            .emptied(inside)
            .files(files.iter().map(|(path, bytes)| (format!("{inside}/{path}"), bytes.clone())))
            .label(CATALOG_LABEL, format!("/{inside}"));
        if let Some(cache) = cache {
            // The image's own cache is of the whole catalog, and opm refuses one that does not match.
            builder = with_cache(builder, subject, &files, &cache)?;
        }
        images.push(builder.build(store).map_err(failed)?);
    }
    let root = match images.as_slice() {
        [] => return Err(Failure::new(Exit::Failed, subject, "the image has no platform")),
        [only] if tree.manifests.len() == 1 => only.descriptor.clone(),
        _ => ImageIndex::build(images, store).map_err(failed)?.descriptor,
    };
    Ok(Rebuilt { root, workspace })
}

impl Rebuilt {
    /// The image with all its manifests.
    pub fn tree(&self) -> Result<Tree, mainstay_oci::Error> {
        Tree::read("catalog", self.workspace.store(), &self.root)
    }
}
