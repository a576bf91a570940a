//! `opm alpha bundle unpack`: the files of a bundle image into a directory.

use std::path::{Path, PathBuf};

use clap::Args;
use mainstay_bundle::validators::{self, Finding, Manifests, Options};
use mainstay_oci::{Client, ClientConfig, Layer, Modes, UnpackOptions, unpack};
use mainstay_terminal::bundles;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::{images, runtime};

use super::super::super::Global;
use super::super::super::init::words;
use super::super::super::server_log::{Level, ServerLog};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  opm alpha bundle unpack quay.io/example/operator:v0.1.0 --out bundle/")]
pub struct Arguments {
    /// The bundle image
    #[arg(value_name = "BUNDLE_NAME[:TAG|@DIGEST]")]
    bundle: String,
    /// Directory in which to unpack operator bundle content
    #[arg(short, long, value_name = "string", default_value = "./")]
    out: PathBuf,
    /// Disable bundle validation
    #[arg(short = 'v', long)]
    skip_validation: bool,
    /// File path of a root CA to use when communicating with image registries
    #[arg(short = 'c', long, value_name = "string")]
    root_ca: Option<PathBuf>,
    /// Use plain HTTP
    #[arg(short = 's', hide = true, long_help = "deprecated: use --use-http and --skip-tls-verify instead")]
    plain: bool,
    /// Enable debug log output
    #[arg(short, long)]
    debug: bool,
}

/// Unpacks the bundle.
pub fn run(arguments: &Arguments, global: Global) -> Result<(), Failure> {
    let global = Global { skip_tls: global.skip_tls || arguments.plain, ..global };
    global.check()?;
    let failed = |message: String| Failure::new(Exit::Failed, "bundle", message);
    let level = if arguments.debug { Level::Debug } else { Level::Info };
    let log = ServerLog::new(level).with(&[("cmd", "unpack")]);
    match std::fs::metadata(&arguments.out) {
        Ok(metadata) if !metadata.is_dir() => return Err(failed(format!("out {} is not a directory", arguments.out.display()))),
        Ok(_) => {}
        Err(_) => std::fs::create_dir_all(&arguments.out)
            .map_err(|error| failed(format!("mkdir {}: {}", arguments.out.display(), words(&error))))?,
    }
    let mut config = global.config()?;
    if let Some(path) = &arguments.root_ca {
        let bytes = std::fs::read(path).map_err(|error| failed(format!("open {}: {}", path.display(), words(&error))))?;
        config = ClientConfig { authorities: vec![(path.display().to_string(), bytes)], ..config };
    }
    let client = Client::new(config).map_err(|error| images::failure("registry client", &error))?;
    let scratch = tempfile::Builder::new().prefix("bundle-").tempdir().map_err(|error| failed(words(&error)))?;
    pull(&client, &arguments.bundle, scratch.path())?;
    if arguments.skip_validation {
        log.write(Level::Info, "skipping bundle validation", &[]);
    } else {
        let manifests = read(scratch.path())?;
        for (what, findings) in [("format", format(&manifests, &log)), ("content", content(&manifests, &[], &log))] {
            if let Some(text) = findings {
                return Err(failed(format!("bundle {what} validation failed: {text}")));
            }
        }
    }
    copy(scratch.path(), &arguments.out)
        .map_err(|error| failed(format!("failed to copy unpacked content to output directory: {}", words(&error))))
}

/// Pulls an image and unpacks all of it.
pub fn pull(client: &Client, image: &str, directory: &Path) -> Result<(), Failure> {
    let subject = format!("image {image}");
    let failed = |error: mainstay_oci::Error| images::failure(&subject, &error);
    runtime::block_on(async {
        let reference = client.reference(image).map_err(failed)?;
        let workspace = client.workspace().map_err(failed)?;
        let image = client.pull(&reference, workspace.store()).await.map_err(failed)?;
        unpack(&Layer::of(&image, workspace.store()), directory, &UnpackOptions { modes: Modes::Umask, ..UnpackOptions::default() })
            .map_err(failed)
    })
    .map(|_| ())
}

/// The files of an unpacked bundle.
pub fn read(directory: &Path) -> Result<Manifests, Failure> {
    let files = bundles::whole_directory(directory)?;
    Manifests::read(files.iter().map(|(path, bytes)| (path, bytes))).map_err(|error| Failure::failed("bundle", &error))
}

/// The problem of the layout, as opm puts it; opm stops there.
pub fn format(manifests: &Manifests, log: &ServerLog) -> Option<String> {
    for what in ["Found manifests directory", "Found metadata directory", "Getting mediaType info from manifests directory"] {
        log.write(Level::Debug, what, &[]);
    }
    summary(&validators::format(manifests))
}

/// The problem of the manifests, as opm puts it.
pub fn content(manifests: &Manifests, optional: &[&str], log: &ServerLog) -> Option<String> {
    log.write(Level::Debug, "Validating bundle contents", &[]);
    summary(&validators::content(manifests, "", optional, &Options::default()))
}

fn summary(findings: &[Finding]) -> Option<String> {
    let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| format!("Bundle validation errors: {}", texts.join(",")))
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        // Unpacking has made only folders and files.
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
