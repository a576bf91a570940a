//! `mainstay bundle`: render and build bundles (MS-CLI-09, MS-CLI-05).

pub mod diff;
pub mod images;
pub mod permissions;
pub mod validate;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use mainstay_bundle::{Bundle, CertificateProvider, RenderOptions, render};
use mainstay_oci::ImageBuilder;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::images::{self as registries, Target};
use mainstay_terminal::output::{self, Format};
use mainstay_terminal::{bundles, runtime};
use serde_json::Value;

use crate::cases;

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// The objects that install a bundle
    Render(Render),
    /// Make a bundle image of a bundle directory, without a container engine
    Build(Build),
    /// Check a bundle with upstream's validators
    Validate(validate::Arguments),
    /// What changed between two bundles
    Diff(diff::Arguments),
    /// The images that a bundle needs
    Images(images::Arguments),
    /// Show the permissions of a bundle's operator, and which of them are risky
    Permissions(permissions::Arguments),
}

/// Arguments of `bundle render`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay bundle render examples/bundles/beacon/1.0.0 --install-namespace beacon
  mainstay bundle render REGISTRY/BUNDLE:TAG --install-namespace ops --watch-namespace team-a -o json
  mainstay bundle render --cases questions.jsonl --root bundles/

With --cases every line is {\"bundle\": a directory below --root, \"installNamespace\", \"targetNamespaces\": null, [\"\"] or names,
\"certificates\": null, cert-manager or openshift-service-ca}; the answer is a list of objects, or {\"error\": {\"message\"}}.
Exit codes: 0 rendered, 4 the bundle cannot be installed that way, 1 bad input.")]
pub struct Render {
    /// A bundle directory or image
    #[arg(required_unless_present = "cases", value_name = "DIR|REF")]
    bundle: Option<String>,
    /// The namespace of the operator itself
    #[arg(long, value_name = "NAMESPACE", required_unless_present = "cases")]
    install_namespace: Option<String>,
    /// A namespace that the operator watches, \"\" for all; can be repeated; the bundle's default when not given
    #[arg(long, value_name = "NAMESPACE")]
    watch_namespace: Vec<String>,
    /// Answer many questions: a file of JSON lines, - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["bundle", "install_namespace", "watch_namespace"])]
    cases: Option<PathBuf>,
    /// The directory that bundles of cases are below [default: .]
    #[arg(long, value_name = "DIR", conflicts_with = "bundle")]
    root: Option<PathBuf>,
    /// yaml, json, name or jsonpath=PATH
    #[arg(short, long, default_value = "yaml", value_name = "FORMAT", value_parser = output::among("yaml, json, name or jsonpath=PATH"))]
    output: Format,
}

/// Arguments of `bundle build`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay bundle build examples/bundles/beacon/1.0.0 --push REGISTRY/beacon-bundle:v1.0.0
  mainstay bundle build examples/bundles/beacon/1.0.0 --layout out/")]
pub struct Build {
    /// The bundle directory
    directory: PathBuf,
    /// Where to push the image
    #[arg(long, value_name = "REF", required_unless_present = "layout", conflicts_with = "layout")]
    push: Option<String>,
    /// An OCI layout directory to write the image into
    #[arg(long, value_name = "DIR")]
    layout: Option<PathBuf>,
}

/// Runs one of the commands.
pub fn run(command: Commands) -> Result<(), Failure> {
    match command {
        Commands::Render(arguments) => run_render(&arguments),
        Commands::Build(arguments) => run_build(&arguments),
        Commands::Validate(arguments) => validate::run(&arguments),
        Commands::Diff(arguments) => diff::run(&arguments),
        Commands::Images(arguments) => images::run(&arguments),
        Commands::Permissions(arguments) => permissions::run(&arguments),
    }
}

fn run_render(arguments: &Render) -> Result<(), Failure> {
    if let Some(path) = &arguments.cases {
        cases::check_format(&arguments.output, &Format::Yaml)?;
        return cases::answer(path, |case| {
            let place = arguments.root.as_deref().unwrap_or(Path::new(".")).join(cases::required(case, "bundle")?);
            let options = RenderOptions {
                install_namespace: cases::required(case, "installNamespace")?,
                target_namespaces: cases::list(case, "targetNamespaces")?,
                certificates: certificates(cases::text(case, "certificates")?.as_deref())?,
                deployment: None,
            };
            let files = bundles::directory(&place)?;
            // A bundle that upstream does not load is an answer, not a bad question.
            let outcome = match Bundle::read(files.iter().map(|(path, bytes)| (path, bytes))) {
                Ok(bundle) => render(&bundle, &options).map_err(|error| Failure::of(Exit::Impossible, "bundle", &error)),
                Err(error) => Err(Failure::of(Exit::Impossible, "bundle", &error)),
            };
            Ok(outcome.map_or_else(|failure| failure.to_json(), Value::Array))
        });
    }
    let place = arguments.bundle.clone().unwrap_or_default();
    let bundle = match bundles::open(&place) {
        Err(failure) if arguments.output == Format::Json => return Err(answered(&failure)?),
        outcome => outcome?,
    };
    let options = RenderOptions {
        install_namespace: arguments.install_namespace.clone().unwrap_or_default(),
        target_namespaces: (!arguments.watch_namespace.is_empty()).then(|| arguments.watch_namespace.clone()),
        certificates: CertificateProvider::None,
        deployment: None,
    };
    let objects = match render(&bundle, &options) {
        Ok(objects) => objects,
        Err(error) => {
            let failure = Failure::of(Exit::Impossible, format!("bundle {place}"), &error);
            return Err(if arguments.output == Format::Json { answered(&failure)? } else { failure });
        }
    };
    for warning in &bundle.warnings {
        mainstay_terminal::errors::warn(&format!("bundle {place}"), warning);
    }
    match &arguments.output {
        Format::Yaml | Format::Table | Format::Wide => output::yaml(&objects),
        Format::Name => objects.iter().try_for_each(|object| output::value(&Format::Name, object)),
        other => output::value(other, &Value::Array(objects)),
    }
}

/// The certificate provider of a case.
fn certificates(name: Option<&str>) -> Result<CertificateProvider, Failure> {
    match name {
        None | Some("") => Ok(CertificateProvider::None),
        Some("cert-manager") => Ok(CertificateProvider::CertManager),
        Some("openshift-service-ca") => Ok(CertificateProvider::OpenshiftServiceCa),
        Some(other) => Err(Failure::new(
            Exit::Failed,
            "case",
            format!("field certificates: expected cert-manager or openshift-service-ca, found {other:?}"),
        )),
    }
}

/// Prints the refusal as an answer on stdout; only its exit code remains.
fn answered(failure: &Failure) -> Result<Failure, Failure> {
    output::value(&Format::Json, &failure.to_json())?;
    Ok(Failure::silent(failure.exit))
}

fn run_build(arguments: &Build) -> Result<(), Failure> {
    let (builder, _) = image(&arguments.directory)?;
    let target = match (&arguments.push, &arguments.layout) {
        (Some(reference), _) => Target::Push(reference.clone()),
        (None, Some(directory)) => Target::Layout(directory.clone()),
        (None, None) => return Err(Failure::new(Exit::Usage, "bundle build", "needs --push REF or --layout DIR")),
    };
    output::line(runtime::block_on(registries::deliver(&builder, &target, None))?)
}

/// The image of a bundle directory: its files and, as labels, its annotations; and the bundle. A directory that is no installable bundle is refused.
pub fn image(directory: &Path) -> Result<(ImageBuilder, Bundle), Failure> {
    image_of(&format!("bundle {}", directory.display()), bundles::directory(directory)?)
}

/// The image of a bundle's files, and the bundle.
pub fn image_of(subject: &str, files: bundles::Files) -> Result<(ImageBuilder, Bundle), Failure> {
    let bundle = bundles::read_for_catalog(subject, &files)?;
    let findings = bundle.check();
    if !findings.is_empty() {
        let failure = Failure::new(Exit::Failed, subject, "cannot be installed");
        return Err(findings.into_iter().fold(failure, Failure::because));
    }
    let builder = ImageBuilder::new().files(files).labels(bundle.annotations.clone());
    Ok((builder, bundle))
}
