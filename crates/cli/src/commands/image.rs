//! `mainstay image`: this program as an OCI image, and the files of any image, without a container engine (MS-CLI-04).

mod elf;
mod extract;

use std::fs;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use mainstay_oci::{ImageBuilder, ImageFile, Platform};
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::images::{self, Foundation, Target};
use mainstay_terminal::progress::Progress;
use mainstay_terminal::{output, runtime};

/// A user without privileges, whom clusters with restricted pods accept.
const USER: &str = "65532:65532";
/// The largest program, in bytes.
const MAX_PROGRAM: u64 = 1 << 30;

/// Arguments.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write an image of this program
    Build(Build),
    /// Write an image's files into a directory
    Extract(extract::Extract),
}

/// Arguments of `mainstay image build`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay image build --base REGISTRY/base:tag --push REGISTRY/mainstay:1.0
  mainstay image build --program target/x86_64-unknown-linux-musl/release/mainstay --layout out/

A static program needs no base. One that is linked against the C library of its system, as it usually is, needs a base image that has this
library in the same version or a newer one; which, is said where the base is missing. Authorities of registries come from the base, too: without
one, clusters say with --pull-cas-dir whom to trust.")]
struct Build {
    #[command(flatten)]
    target: To,
    /// The image to build on
    #[arg(long, value_name = "REF")]
    base: Option<String>,
    /// Another program than the one that runs now
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct To {
    /// An OCI layout directory to write the image into
    #[arg(long, value_name = "DIR")]
    layout: Option<PathBuf>,
    /// Where to push the image
    #[arg(long, value_name = "REF")]
    push: Option<String>,
}

/// Runs one of the commands.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Build(arguments) => build(arguments),
        Command::Extract(arguments) => extract::run(arguments),
    }
}

fn build(build: &Build) -> Result<(), Failure> {
    let program = match &build.program {
        Some(program) => program.clone(),
        None => std::env::current_exe().map_err(|error| Failure::failed("this program", &error))?,
    };
    let subject = format!("program {}", program.display());
    let failed = |error: std::io::Error| Failure::failed(&subject, &error);
    if fs::metadata(&program).map_err(failed)?.len() > MAX_PROGRAM {
        return Err(Failure::new(Exit::Failed, &subject, format!("it has more than {MAX_PROGRAM} bytes")));
    }
    let bytes = fs::read(&program).map_err(failed)?;
    let needs = elf::read(&bytes).map_err(|error| Failure::failed(&subject, &error))?;
    if let (Some(missing), None) = (needs.base(), &build.base) {
        return Err(Failure::new(Exit::Usage, "--base", format!("the program needs a base image: {missing}"))
            .hint("--base REF names one; a program that was built for a musl target needs none"));
    }
    let platform = Platform { os: "linux".to_owned(), architecture: needs.architecture.to_owned(), variant: None };
    let builder = ImageBuilder::new()
        .file("usr/local/bin/mainstay", ImageFile { bytes, executable: true })
        .entrypoint(["/usr/local/bin/mainstay"])
        .user(USER)
        .label("org.opencontainers.image.title", "mainstay")
        .label("org.opencontainers.image.version", env!("CARGO_PKG_VERSION"));
    let target = match (&build.target.layout, &build.target.push) {
        (Some(layout), _) => Target::Layout(layout.clone()),
        (None, Some(reference)) => Target::Push(reference.clone()),
        // clap requires one of the two.
        (None, None) => return Err(Failure::new(Exit::Usage, "image", "neither --layout nor --push is given")),
    };
    let foundation = Foundation { base: build.base.clone(), platforms: vec![platform] };
    let progress = Progress::start();
    let written = runtime::block_on(images::deliver_on(&foundation, &builder, &target, progress.transfer("image")))?;
    drop(progress);
    if let Some(missing) = needs.base() {
        note(format!("the base image has to have: {missing}"));
    }
    output::print(&format!("{written}\n"))
}
