//! `mainstay catalog filter`: a smaller catalog.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use mainstay_catalog::filter::{Choice, Dependencies, FilterError, Filtered, NoticeKind, Selection, filter};
use mainstay_catalog::{Catalog, Format, render};
use mainstay_diagnostics::counted;
use mainstay_terminal::errors::{Exit, Failure, warn};
use mainstay_terminal::output;

use super::content;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay catalog filter REGISTRY/catalog:v1 --package beacon --package 'lantern:stable@>=1.2.0 <2.0.0' --out small/
  mainstay catalog filter ./catalog --package beacon --with-dependencies -o json > small.json
  mainstay catalog filter ./catalog --package beacon@>=2.0.0 --keep-path-from beacon=1.4.2 --out small/
  mainstay catalog filter ./catalog --config selection.yaml --out small/

A selection is PACKAGE[:CHANNEL[,CHANNEL...]][@RANGE]. The result is valid, and from every bundle in it updates lead to the head of its
channel: entries that this takes are kept too, and named on stderr. --exact refuses instead.

The configuration file:
  withDependencies: true
  packages:
  - name: beacon
    channels:
    - {name: stable, minVersion: 1.2.0, maxVersion: 2.0.0}   # or range: \">=1.2.0 <2.0.0\"; all may be left out
    defaultChannel: stable
    keepPathFrom: [1.1.0]

Exit codes: 0 done, 1 the catalog or the configuration cannot be read, 3 a package or channel does not exist, 4 it cannot be done.")]
pub struct Arguments {
    /// The catalog: a directory, a file or an image
    catalog: String,
    /// What to keep; may be given again
    #[arg(long = "package", short = 'p', value_name = "SELECTION", value_parser = choice, required_unless_present = "config")]
    packages: Vec<Choice>,
    /// A file that says what to keep
    #[arg(long, value_name = "FILE", conflicts_with_all = ["packages", "with_dependencies", "keep_path_from"])]
    config: Option<PathBuf>,
    /// Keep what the kept bundles need, too
    #[arg(long)]
    with_dependencies: bool,
    /// An installed version or bundle that must be able to update to the heads; may be given again
    #[arg(long, value_name = "[PACKAGE=]VERSION", requires = "packages")]
    keep_path_from: Vec<String>,
    /// Refuse when entries have to be kept that were not selected
    #[arg(long)]
    exact: bool,
    /// json or yaml
    #[arg(short, long, value_enum, default_value_t = FileFormat::Yaml, value_name = "FORMAT")]
    output: FileFormat,
    /// A directory that does not exist yet: one folder a package is written into it
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// How a catalog is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    /// Objects one after another.
    Json,
    /// Documents that begin with `---`.
    Yaml,
}

fn choice(text: &str) -> Result<Choice, FilterError> {
    text.parse()
}

/// Filters and writes.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let selection = selection(arguments)?;
    let catalog = content::open(&arguments.catalog)?;
    let filtered = filter(&catalog, &selection).map_err(|error| failure(&arguments.catalog, &error))?;
    tell(&filtered, arguments)?;
    if let Some(directory) = &arguments.out {
        return write(&filtered.catalog, directory, arguments.output);
    }
    let mut bytes = Vec::new();
    render(&filtered.catalog, arguments.output.into(), &mut bytes).map_err(|error| Failure::failed("catalog", &error))?;
    output::stream(Format::from(arguments.output), |out| out.write_all(&bytes))
}

fn selection(arguments: &Arguments) -> Result<Selection, Failure> {
    if let Some(path) = &arguments.config {
        let subject = || format!("configuration {}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| Failure::failed(subject(), &error))?;
        return Selection::from_yaml(&text).map_err(|error| Failure::failed(subject(), &error));
    }
    let dependencies = if arguments.with_dependencies { Dependencies::Include } else { Dependencies::Leave };
    let mut selection = Selection { packages: arguments.packages.clone(), dependencies };
    for text in &arguments.keep_path_from {
        let (package, from) = match (text.split_once('='), selection.packages.as_slice()) {
            (Some((package, from)), _) => (package.to_owned(), from),
            (None, [only]) => (only.package.clone(), text.as_str()),
            (None, _) => {
                let failure = Failure::new(Exit::Usage, format!("--keep-path-from {text}"), "does not say of which package");
                return Err(failure.hint(format!("write --keep-path-from PACKAGE={text}")));
            }
        };
        match selection.packages.iter_mut().find(|choice| choice.package == package) {
            Some(choice) => choice.keep_path_from.push(from.to_owned()),
            None => {
                return Err(Failure::new(Exit::Usage, format!("--keep-path-from {text}"), format!("package {package} is not selected")));
            }
        }
    }
    Ok(selection)
}

/// A failure with the exit code and the hint for its kind.
pub fn failure(place: &str, error: &FilterError) -> Failure {
    let (exit, hint) = match error {
        FilterError::NoPackage { .. } => (Exit::NotFound, Some(format!("mainstay catalog search --catalog {place} shows the packages"))),
        FilterError::NoChannel { .. } => (Exit::NotFound, None),
        FilterError::NoBundle { .. } | FilterError::Nothing => (Exit::Impossible, None),
        FilterError::Apart { .. } => {
            (Exit::Impossible, Some("widen the range upwards, until it has an entry that updates all of them".to_owned()))
        }
        FilterError::NoPath { .. } => (Exit::Impossible, Some("mainstay catalog why says which edge is missing".to_owned())),
        FilterError::Syntax { .. } | FilterError::Config { .. } | FilterError::Twice(_) => (Exit::Failed, None),
        FilterError::Invalid(_) => (Exit::Failed, Some(format!("mainstay catalog lint {place} shows what is wrong with it"))),
    };
    let failure = Failure::of(exit, format!("catalog {place}"), error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn tell(filtered: &Filtered, arguments: &Arguments) -> Result<(), Failure> {
    let beyond: Vec<_> = filtered.notices.iter().filter(|notice| notice.kind == NoticeKind::KeptBetween).collect();
    if arguments.exact
        && let Some(first) = beyond.first()
    {
        let failure = Failure::new(Exit::Impossible, format!("catalog {}", arguments.catalog), first.to_string());
        return Err(failure.hint("without --exact they are kept"));
    }
    for notice in &filtered.notices {
        warn(&format!("package {}", notice.package), &notice.message);
    }
    Ok(())
}

impl From<FileFormat> for Format {
    fn from(format: FileFormat) -> Self {
        match format {
            FileFormat::Json => Self::Json,
            FileFormat::Yaml => Self::Yaml,
        }
    }
}

/// Writes a folder for each package (CATLG-09).
fn write(catalog: &Catalog, directory: &Path, format: FileFormat) -> Result<(), Failure> {
    let subject = || format!("directory {}", directory.display());
    let failed = |error: std::io::Error| Failure::failed(subject(), &error);
    let occupied = match std::fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        Err(error) => return Err(failed(error)),
    };
    if occupied {
        return Err(Failure::new(Exit::Failed, subject(), "is not empty").hint("name a directory that does not exist yet"));
    }
    let name = match format {
        FileFormat::Json => "catalog.json",
        FileFormat::Yaml => "catalog.yaml",
    };
    for package in &catalog.packages {
        let of = |other: &str| other == package.name.as_str();
        let part = Catalog {
            packages: vec![package.clone()],
            channels: catalog.channels.iter().filter(|channel| of(channel.package.as_str())).cloned().collect(),
            bundles: catalog.bundles.iter().filter(|bundle| of(bundle.package.as_str())).cloned().collect(),
            deprecations: catalog.deprecations.iter().filter(|blob| of(blob.package.as_str())).cloned().collect(),
            others: catalog.others.iter().filter(|other| of(&other.package)).cloned().collect(),
        };
        write_file(&part, &directory.join(package.name.as_str()).join(name), format).map_err(failed)?;
    }
    let loose = Catalog { others: catalog.others.iter().filter(|other| other.package.is_empty()).cloned().collect(), ..Catalog::default() };
    if !loose.others.is_empty() {
        write_file(&loose, &directory.join(name), format).map_err(failed)?;
    }
    output::line(format!(
        "{}: {}, {}",
        directory.display(),
        counted(catalog.packages.len(), "package"),
        counted(catalog.bundles.len(), "bundle")
    ))
}

fn write_file(catalog: &Catalog, path: &Path, format: FileFormat) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut file = std::io::BufWriter::new(std::fs::File::create_new(path)?);
    render(catalog, format.into(), &mut file)?;
    std::io::Write::flush(&mut file)
}
