//! `mainstay catalog compose`: a catalog of several catalogs, from a configuration file (CATLG-66).

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use futures::StreamExt as _;
use mainstay_catalog::compose::{Composition, Part, conflicts, merge};
use mainstay_catalog::{Catalog, Format, Limits, render, validate};
use mainstay_catalog_refs::{Access, Kind};
use mainstay_diagnostics::counted;
use mainstay_opm::generate::{OPM_IMAGE, dockerfile};
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::images::{self, Target};
use mainstay_terminal::{catalogs, output, runtime};

use super::build;
use super::filter::FileFormat;

/// References that are opened at the same time.
const AT_ONCE: usize = 4;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay catalog compose catalog.yaml                      writes NAME/REFERENCE/index.yaml and NAME.Dockerfile
  mainstay catalog compose catalog.yaml --out build --replace
  mainstay catalog compose catalog.yaml --push               and pushes the image to REPO:TAG, without a container engine

The configuration file:
  name: team-catalog
  repo: reg.example/team/catalog
  tag: latest
  references:
  - {name: alpha-op, image: \"reg.example/alpha/index@sha256:...\"}
  - {name: beta-op, image: ./beta}                            # directories and files too

Nothing is written unless all references can be read, no package is in two of them, and the whole is valid.")]
pub struct Arguments {
    /// The configuration file
    config: PathBuf,
    /// The directory to write to
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Write over what an earlier run has written
    #[arg(long)]
    replace: bool,
    /// Build the image and push it to REPO:TAG
    #[arg(long)]
    push: bool,
    /// json or yaml
    #[arg(short, long, value_enum, default_value_t = FileFormat::Yaml, value_name = "FORMAT")]
    output: FileFormat,
    /// Base image of the Dockerfile
    #[arg(short = 'i', long, default_value = OPM_IMAGE, value_name = "IMAGE")]
    base_image: String,
    /// Builder image of the Dockerfile
    #[arg(short, long, default_value = OPM_IMAGE, value_name = "IMAGE")]
    builder_image: String,
}

/// Composes the catalog, writes it, and pushes it if asked to.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let composition = read(&arguments.config)?;
    let image = match (arguments.push, composition.image()) {
        (true, None) => {
            let failure = Failure::new(Exit::Failed, subject(&arguments.config), "repo is missing, so there is nowhere to push to");
            return Err(failure.hint("set repo, and tag if it should not be latest"));
        }
        (true, Some(image)) => Some(image),
        (false, _) => None,
    };
    let parts = open(&composition)?;
    check(&composition, &parts)?;
    let directory = arguments.out.join(&composition.name);
    write(&directory, &composition, &parts, arguments)?;
    let packages: usize = parts.iter().map(|part| part.packages.len()).sum();
    note(format!("{}: {} of {}", directory.display(), counted(packages, "package"), counted(parts.len(), "reference")));
    match image {
        None => output::line(directory.display().to_string()),
        Some(image) => {
            let builder = build::image(&directory)?;
            output::line(runtime::block_on(images::deliver(&builder, &Target::Push(image), None))?)
        }
    }
}

fn subject(path: &Path) -> String {
    format!("configuration {}", path.display())
}

fn read(path: &Path) -> Result<Composition, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::failed(subject(path), &error))?;
    Composition::from_yaml(&text).map_err(|errors| several(&subject(path), "is not a composition", &errors))
}

/// One failure of several problems.
fn several(subject: &str, message: &str, problems: &[impl ToString]) -> Failure {
    match problems {
        [only] => Failure::new(Exit::Failed, subject, only.to_string()),
        _ => problems
            .iter()
            .fold(Failure::new(Exit::Failed, subject, message), |failure, problem| failure.because(problem.to_string().as_str())),
    }
}

/// The catalogs of all references, or the reasons why some cannot be opened; one reason per cause, even if several references have it.
fn open(composition: &Composition) -> Result<Vec<Catalog>, Failure> {
    let opened = runtime::block_on(async {
        let open = |part: Part| async move {
            let access = Access::new(&catalogs::client, Kind::CATALOGS);
            let opened = mainstay_catalog_refs::open(&part.image, &access).await;
            let read = opened.and_then(|opened| opened.into_catalog(&Limits::default()));
            (part.name, read)
        };
        Ok(futures::stream::iter(composition.references.clone()).map(open).buffered(AT_ONCE).collect::<Vec<_>>().await)
    })?;
    let mut catalogs = Vec::new();
    let mut problems: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, read) in opened {
        match read {
            Ok(catalog) => catalogs.push(catalog),
            Err(error) => problems.entry(catalogs::failure(&name, &error).message().to_owned()).or_default().push(name),
        }
    }
    if problems.is_empty() {
        return Ok(catalogs);
    }
    let told: Vec<String> = problems.into_iter().map(|(problem, names)| format!("reference {}: {problem}", names.join(", "))).collect();
    Err(several(&format!("catalog {}", composition.name), "not every reference can be opened", &told))
}

fn check(composition: &Composition, parts: &[Catalog]) -> Result<(), Failure> {
    let subject = format!("catalog {}", composition.name);
    let named: Vec<(&str, &Catalog)> = composition.references.iter().map(|part| part.name.as_str()).zip(parts).collect();
    let twice: Vec<String> = conflicts(&named)
        .into_iter()
        .map(|(package, names)| format!("package {package} is in references {}", names.join(" and ")))
        .collect();
    if !twice.is_empty() {
        return Err(several(&subject, "has packages that are in several references", &twice)
            .hint("mainstay catalog filter takes a package out of a catalog"));
    }
    let empty: Vec<String> =
        named.iter().filter(|(_, part)| part.packages.is_empty()).map(|(name, _)| format!("reference {name} has no package")).collect();
    if !empty.is_empty() {
        return Err(several(&subject, "has references without packages", &empty));
    }
    validate(&merge(parts.iter().cloned())).map_err(|validation| Failure::new(Exit::Failed, &subject, validation.to_string()))
}

/// Writes everything beside its place, and moves it there when it is complete.
fn write(directory: &Path, composition: &Composition, parts: &[Catalog], arguments: &Arguments) -> Result<(), Failure> {
    let subject = format!("directory {}", directory.display());
    let failed = |error: std::io::Error| Failure::failed(&subject, &error);
    let docker = arguments.out.join(format!("{}.Dockerfile", composition.name));
    let exists = |path: &Path| path.symlink_metadata().is_ok();
    if let Some(path) = [directory, docker.as_path()].into_iter().find(|path| exists(path))
        && !arguments.replace
    {
        return Err(Failure::new(Exit::Failed, path.display().to_string(), "is there already").hint("--replace writes over it"));
    }
    if exists(directory) && !is_composed(directory).map_err(failed)? {
        return Err(Failure::new(Exit::Failed, subject, "holds files that compose does not write, so it is not replaced")
            .hint("remove the directory, or name another one with --out"));
    }
    std::fs::create_dir_all(&arguments.out).map_err(failed)?;
    let fresh = tempfile::Builder::new().prefix(".compose-").tempdir_in(&arguments.out).map_err(failed)?;
    let content = fresh.path().join("content");
    for (part, catalog) in composition.references.iter().zip(parts) {
        let folder = content.join(&part.name);
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let name = match arguments.output {
            FileFormat::Json => "index.json",
            FileFormat::Yaml => "index.yaml",
        };
        let mut file = std::io::BufWriter::new(std::fs::File::create_new(folder.join(name)).map_err(failed)?);
        render(catalog, Format::from(arguments.output), &mut file).and_then(|()| file.flush()).map_err(failed)?;
    }
    if exists(directory) {
        std::fs::rename(directory, fresh.path().join("old")).map_err(failed)?;
    }
    std::fs::rename(&content, directory).map_err(failed)?;
    let text = dockerfile(&arguments.builder_image, &arguments.base_image, &composition.name, &BTreeMap::new());
    std::fs::write(&docker, text).map_err(|error| Failure::failed(docker.display().to_string(), &error))
}

/// Returns true if a directory holds only what compose writes: folders with one index each.
fn is_composed(directory: &Path) -> std::io::Result<bool> {
    if !directory.is_dir() {
        return Ok(false);
    }
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            return Ok(false);
        }
        for file in std::fs::read_dir(entry.path())? {
            let name = file?.file_name();
            if name != "index.yaml" && name != "index.json" {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
