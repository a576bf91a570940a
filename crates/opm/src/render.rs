//! `opm render` (CATLG-32, OLM1-BUILD-03..05).

use clap::Args;
use mainstay_catalog::{Catalog, Format, Limits, Part, RenderError, render_parts};
use mainstay_catalog_refs::{Access, Content, Error, ImageTemplate, Kind, Level, Opened, Payload, migrate, open};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::{output, runtime};

use super::Global;

/// Arguments.
#[derive(Debug, Args)]
#[command(
    long_about = "\
Print the catalog blobs of catalogs and bundles: of images and directories of either, and of index databases.

Index databases are deprecated. Turn them into file-based catalogs with `opm migrate`.",
    after_help = "\
Examples:
  opm render quay.io/team/my-operator-bundle:v0.1.0 --output=yaml >> catalog/index.yaml
  opm render quay.io/team/catalog:latest | jq 'select(.schema == \"olm.package\").name'
  opm render catalog/ --migrate-level=bundle-object-to-csv-metadata -o yaml"
)]
pub struct Arguments {
    /// Images, directories and files
    #[arg(required = true, num_args = 1.., value_name = "[catalog-image | catalog-directory | bundle-image | bundle-directory | sqlite-file]...")]
    references: Vec<String>,
    /// Output format (json|yaml)
    #[arg(short, long, default_value = "json")]
    output: String,
    /// Bring the blobs to the newest form
    #[arg(long, conflicts_with = "migrate_level")]
    migrate: bool,
    #[arg(long, default_value = "", help = level_help())]
    migrate_level: String,
    /// Image reference of bundles that have none yet, made of {{.Package}}, {{.Name}} and {{.Version}}
    #[arg(long, default_value = "", hide = true)]
    alpha_image_ref_template: String,
}

/// Prints the blobs.
pub fn run(arguments: &Arguments, global: Global) -> Result<(), Failure> {
    let format = parse_output(&arguments.output)?;
    global.check()?;
    let template = match arguments.alpha_image_ref_template.as_str() {
        "" => None,
        pattern => Some(ImageTemplate::parse(pattern).map_err(|error| Failure::failed("image template", &error))?),
    };
    let level = if arguments.migrate { Level::ALL } else { parse_level(&arguments.migrate_level)? };
    let client = || global.client();
    let access = Access { image_template: template.as_ref(), ..Access::as_opm(&client, Kind::OPM_RENDER) };
    let mut all = Vec::new();
    for reference in &arguments.references {
        all.push(Loaded::of(reference, &access, level)?);
    }
    let parts: Vec<Part<'_>> = all.iter().map(Loaded::part).collect();
    let mut bad = None;
    output::stream(format, |out| match render_parts(&parts, &Limits::default(), format, out) {
        Ok(()) => Ok(()),
        Err(RenderError::Write(error)) => Err(error),
        Err(RenderError::Load(error)) => {
            bad = Some(error);
            Ok(())
        }
    })?;
    match bad {
        // The file's path tells which of several references it was.
        Some(error) => Err(failure(&arguments.references.join(" "), &error.into())),
        None => Ok(()),
    }
}

/// A reference on the way to its text: files as they are, or blobs if there are no files or they had to be changed.
enum Loaded {
    Files(Opened),
    Blobs(Catalog),
}

impl Loaded {
    fn of(reference: &str, access: &Access<'_>, level: Level) -> Result<Self, Failure> {
        let opened = open_with(reference, access, |error| failure(reference, error))?;
        if level == Level::None && !matches!(opened.payload, Payload::Catalog(_)) {
            return Ok(Self::Files(opened));
        }
        let mut catalog = opened.into_catalog(&Limits::default()).map_err(|error| failure(reference, &error))?;
        migrate(&mut catalog, level).map_err(|error| Failure::new(Exit::Failed, "catalog", error.to_line()))?;
        Ok(Self::Blobs(catalog))
    }

    fn part(&self) -> Part<'_> {
        match self {
            Self::Blobs(catalog) => Part::Catalog(catalog),
            Self::Files(opened) => match &opened.payload {
                Payload::Directory(source, _) => Part::Source(source),
                Payload::Memory(source) => Part::Source(source),
                Payload::Catalog(catalog) => Part::Catalog(catalog),
            },
        }
    }
}

/// Opens a reference and reads it, with the errors that opm has for it.
pub(super) fn load(reference: &str, access: &Access<'_>) -> Result<Catalog, Failure> {
    load_with(reference, access, |error| failure(reference, error))
}

/// The same as [`load`] with another form of failures.
pub(super) fn load_with(reference: &str, access: &Access<'_>, failure: impl Fn(&Error) -> Failure) -> Result<Catalog, Failure> {
    let opened = open_with(reference, access, &failure)?;
    opened.into_catalog(&Limits::default()).map_err(|error| failure(&error))
}

fn open_with(reference: &str, access: &Access<'_>, failure: impl Fn(&Error) -> Failure) -> Result<Opened, Failure> {
    let opened = runtime::block_on(async { open(reference, access).await.map_err(|error| failure(&error)) })?;
    if opened.kind.content == Content::Database {
        super::databases::deprecation_notice();
    }
    Ok(opened)
}

/// The message of opm for a reference that cannot be opened.
pub(super) fn failure(reference: &str, error: &Error) -> Failure {
    let failure = Failure::new(Exit::Failed, "catalog", format!("render reference {reference:?}: {}", error.to_line()));
    match error.image().and_then(mainstay_oci::Error::hint) {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Adds the blobs of one catalog to those of another.
pub(super) fn append(all: &mut Catalog, more: Catalog) {
    all.packages.extend(more.packages);
    all.channels.extend(more.channels);
    all.bundles.extend(more.bundles);
    all.others.extend(more.others);
    all.deprecations.extend(more.deprecations);
}

/// `--migrate-level`; an empty one is none.
pub(super) fn parse_level(text: &str) -> Result<Level, Failure> {
    match text {
        "" => Ok(Level::None),
        text => text.parse().map_err(|error| Failure::failed("catalog", &error)),
    }
}

/// The values that `--migrate-level` takes.
pub(super) fn level_help() -> String {
    let width = Level::LEVELS.iter().map(|(level, _)| level.to_string().len()).max().unwrap_or_default();
    let levels: Vec<String> = Level::LEVELS.iter().map(|(level, about)| format!("  - {:width$} : {about}", level.to_string())).collect();
    format!("Bring the blobs to this form and no further (default: none):\n{}", levels.join("\n"))
}

/// `-o json|yaml` of opm.
pub(super) fn parse_output(text: &str) -> Result<Format, Failure> {
    match text {
        "json" => Ok(Format::Json),
        "yaml" => Ok(Format::Yaml),
        other => Err(Failure::new(Exit::Failed, "output", format!("invalid --output value {other:?}, expected (json|yaml)"))),
    }
}
