//! Automation of the project: `cargo xtask COMMAND`.
#![allow(clippy::print_stdout, reason = "a command line tool of the project's authors")]

#[cfg(test)]
mod circles;
mod embedded;
mod facts;
#[cfg(test)]
mod house;
mod manifests;
mod protobuf;
mod requirements;

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Automation of the project")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write the CRD manifests of crates/api.
    Manifests,
    /// Write the facts of the built-in kinds from recorded OpenAPI and discovery documents.
    Facts {
        /// The folder of the shared data.
        #[arg(default_value = "../shared/data")]
        data: PathBuf,
    },
    /// Write the table of protobuf messages from the sources of Kubernetes' API types.
    Protobuf {
        /// The folders of the Go modules k8s.io/api, k8s.io/apimachinery, k8s.io/apiextensions-apiserver and k8s.io/kube-aggregator.
        #[arg(required = true)]
        modules: Vec<PathBuf>,
    },
    /// Record README's first five minutes into docs/first-five-minutes.cast, with the program that is built (MAINSTAY_BIN, else the debug one).
    Record,
    /// Print requirement, test and result, and the holes.
    Requirements {
        /// Only requirements whose ID begins so.
        #[arg(long, default_value = "")]
        prefix: String,
        /// The output of `cargo test`, for results; without it only the tests are listed.
        #[arg(long)]
        results: Option<PathBuf>,
        /// Only the requirements that no test names.
        #[arg(long)]
        holes: bool,
    },
}

fn main() -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default();
    match Arguments::parse().command {
        Command::Manifests => manifests::write(&root),
        Command::Facts { data } => facts::run(&root.join(data), &root.join("crates/kinds/facts")),
        Command::Protobuf { modules } => {
            protobuf::run(&modules, &root.join("crates/kinds/facts/resources.json"), &root.join("crates/protobuf/facts"))
        }
        Command::Record => record(&root),
        Command::Requirements { prefix, results, holes } => requirements::print(&root, &prefix, results.as_deref(), holes),
    }
}

/// Makes the recording: the test that compares it writes it when told to.
fn record(root: &Path) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let test = ["test", "--package", "mainstay-e2e", "--test", "recording"];
    let status = std::process::Command::new(cargo).args(test).env("MAINSTAY_RECORD", "1").current_dir(root).status()?;
    anyhow::ensure!(status.success(), "the recording was not made: {status}");
    println!("docs/first-five-minutes.cast is written");
    Ok(())
}
