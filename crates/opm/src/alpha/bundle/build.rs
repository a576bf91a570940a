//! `opm alpha bundle build`: generates the metadata, then builds an image: by the engine if it is on this machine, else here, and then the image is
//! pushed.

use std::process::Command;

use clap::Args;
use mainstay_oci::{ImageBuilder, ImageFile, Reference};
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::{images, runtime};

use super::super::super::Global;
use super::super::super::server_log::{Level, ServerLog};
use super::generate::{BundleFlags, DOCKERFILE, Existing, Generated, files, generate};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  opm alpha bundle build --directory /test/0.1.0/ --tag quay.io/example/operator:v0.1.0 --package test-operator --channels stable

Where the builder is not on this machine, the image is built here without an engine and pushed to the tag.")]
pub struct Arguments {
    /// What the bundle is called and where it lies.
    #[command(flatten)]
    bundle: BundleFlags,
    /// The image tag applied to the bundle image
    #[arg(short, long, value_name = "string")]
    tag: String,
    /// Tool used to manage container images. One of: [docker, podman, buildah]
    #[arg(short = 'b', long, value_name = "string", default_value = "docker")]
    image_builder: String,
    /// To overwrite annotations.yaml locally if existed
    #[arg(short, long)]
    overwrite: bool,
}

/// Generates and builds.
pub fn run(arguments: &Arguments, global: Global) -> Result<(), Failure> {
    let log = ServerLog::new(Level::Info);
    let existing = if arguments.overwrite { Existing::Replace } else { Existing::Keep };
    let generated = generate(&arguments.bundle, existing, &log)?;
    log.write(Level::Info, "Building bundle image", &[]);
    let (builder, tag) = (arguments.image_builder.as_str(), arguments.tag.as_str());
    let words: Vec<&str> = match builder {
        "docker" | "podman" => vec!["build", "-f", DOCKERFILE, "-t", tag, "."],
        "buildah" => vec!["bud", "--format=docker", "-f", DOCKERFILE, "-t", tag, "."],
        _ => return Err(Failure::new(Exit::Failed, "bundle", format!("{builder} is not supported image builder"))),
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|directory| directory.join(builder).is_file()) {
        return build_here(&generated, tag, builder, global);
    }
    let status = Command::new(builder).args(&words).status();
    let problem = match status {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => status.code().map_or_else(|| status.to_string(), |code| format!("exit status {code}")),
        Err(error) => error.to_string(),
    };
    let quoted: Vec<String> = std::iter::once(builder).chain(words).map(|word| format!("{word:?}")).collect();
    Err(Failure::new(Exit::Failed, "bundle", format!("Failed to exec []string{{{}}}: {problem}", quoted.join(", "))))
}

fn build_here(generated: &Generated, tag: &str, program: &str, global: Global) -> Result<(), Failure> {
    let subject = format!("image {tag}");
    let failed = |error: mainstay_oci::Error| images::failure(&subject, &error);
    note(format!("{program} is not on this machine: building here, and pushing to {tag}"));
    let mut builder = ImageBuilder::new().platform(images::data_platform());
    for (key, value) in generated.description.entries() {
        builder = builder.label(key, value);
    }
    for (folder, directory) in [("manifests", &generated.manifests), ("metadata", &generated.metadata)] {
        for (name, bytes) in files(directory)? {
            builder = builder.file(format!("{folder}/{name}"), ImageFile::from(bytes));
        }
    }
    let client = global.client().map_err(|error| Failure::new(Exit::Failed, &subject, error.to_string()))?;
    let base = generated.base_image.as_str();
    let pushed = runtime::block_on(async {
        let target = client.reference(tag).map_err(failed)?;
        let workspace = client.workspace().map_err(failed)?;
        let mut origins: Vec<Reference> = Vec::new();
        if base != "scratch" {
            let below = |error: mainstay_oci::Error| images::failure(&format!("base image {base}"), &error);
            let parsed = client.reference(base).map_err(below)?;
            let image = client.inspect(&parsed, workspace.store()).await.map_err(below)?;
            builder = builder.platform(image.config.platform()).base(image);
            origins.push(parsed);
        }
        let image = builder.build(workspace.store()).map_err(failed)?;
        let digest = client.push_built(&image, workspace.store(), &target, &origins).await.map_err(failed)?;
        Ok(target.at(digest))
    })?;
    note(format!("pushed {pushed}"));
    Ok(())
}
