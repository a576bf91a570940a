//! `opm alpha bundle validate`: deprecated upstream, and `mainstay bundle validate` says more.

use clap::Args;
use mainstay_terminal::errors::{Exit, Failure, note};

use super::super::super::Global;
use super::super::super::server_log::{Level, ServerLog};
use super::unpack::{content, format, pull, read};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  opm alpha bundle validate --tag quay.io/test/test-operator:latest --image-builder none")]
pub struct Arguments {
    /// The path of a registry to pull from, image name and its tag
    #[arg(short, long, value_name = "string")]
    tag: String,
    /// Tool used to pull and unpack bundle images. One of: [none, docker, podman]
    // Whichever is named, the image is pulled without an engine: an engine, too, would ask the registry first.
    #[arg(short = 'b', long, value_name = "string", default_value = "docker")]
    image_builder: String,
    /// Specifies optional validations to be run. One or more of: [operatorhub, bundle-objects]
    #[arg(short, long, value_name = "string", default_value = "", hide_default_value = true)]
    optional_validators: String,
}

/// Validates the bundle.
pub fn run(arguments: &Arguments, global: Global) -> Result<(), Failure> {
    note(
        "Command \"validate\" is deprecated, This subcommand is deprecated and will be removed in a future release. Migrate to operator-sdk bundle validate",
    );
    global.check()?;
    let log = ServerLog::new(Level::Debug).with(&[("container-tool", &arguments.image_builder)]);
    let failed = |message: String| Failure::new(Exit::Failed, "bundle", message);
    let scratch = tempfile::Builder::new().prefix("bundle-").tempdir().map_err(|error| Failure::failed("temporary folder", &error))?;
    log.write(Level::Info, &format!("Create a temp directory at {}", scratch.path().display()), &[]);
    log.write(Level::Debug, "Pulling and unpacking container image", &[]);
    let client = global.client().map_err(|error| failed(error.to_string()))?;
    pull(&client, &arguments.tag, scratch.path())?;
    log.write(Level::Info, "Unpacked image layers, validating bundle image format & contents", &[]);
    let manifests = read(scratch.path())?;
    let optional: Vec<&str> = arguments.optional_validators.split(',').map(str::trim).collect();
    if let Some(text) = format(&manifests, &log).or_else(|| content(&manifests, &optional, &log)) {
        return Err(failed(text).hint("mainstay bundle validate says file, line and what would work"));
    }
    log.write(Level::Info, "All validation tests have been completed successfully", &[]);
    Ok(())
}
