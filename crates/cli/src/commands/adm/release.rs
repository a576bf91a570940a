//! `mainstay adm release`: what `oc adm release` says of release images, and does with them (CVO-RELX, CVO-RELI, CVO-RELM, CVO-RELN).

mod changes;
mod copy;
mod extract;
mod git;
mod info;
mod inputs;
mod install;
mod mirror;
mod moved;
mod new;
mod packed;
mod registry;
mod signatures;
mod signing;
mod sources;
mod template;
mod tools;
mod written;

use clap::Subcommand;
use mainstay_operations::Session;
use mainstay_operations::cluster_update as operations;
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::screen::{self, Kind};
use mainstay_versions::Version;
use serde_json::Value;

/// Verbs.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// Show what a release holds, or the difference of two releases
    Info(Box<info::Arguments>),
    /// Write the manifests of a release to a folder
    Extract(Box<extract::Arguments>),
    /// Install the first release of a cluster that has none
    Install(Box<install::Arguments>),
    /// Copy a release with all its images to another registry or to a directory
    Mirror(Box<mirror::Arguments>),
    /// Make a release of the manifests and images of its operators
    New(Box<new::Arguments>),
    /// A verb that is not part of this version
    #[command(external_subcommand)]
    Other(Vec<String>),
}

/// Runs a verb.
pub fn run(command: &Commands, cluster: &ClusterArgs) -> Result<(), Failure> {
    match command {
        Commands::Info(arguments) => info::run(arguments, cluster),
        Commands::Extract(arguments) => extract::run(arguments, cluster),
        Commands::Install(arguments) => install::run(arguments, cluster),
        Commands::Mirror(arguments) => mirror::run(arguments, cluster),
        Commands::New(arguments) => new::run(arguments, cluster),
        Commands::Other(words) => {
            let verb = words.first().map_or("", String::as_str);
            Err(Failure::new(Exit::Usage, format!("adm release {verb}"), "is not part of this version of mainstay")
                .hint("mainstay adm release --help shows what there is"))
        }
    }
}

/// A request that `oc` refuses, in its words.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("info expects one argument, or a connection to an OpenShift 4.x server")]
    NoRelease,
    #[error("the server is not reporting a release image at this time, please specify an image to view")]
    NotReported,
    #[error("the semantic version {0:?} is not present in the cluster version status or in the official versions list, cannot be resolved")]
    UnknownVersion(String),
    #[error("you may only specify a single image via --from or argument")]
    OneImage,
    #[error("icsp-file and idms-file are mutually exclusive")]
    MirrorFiles,
    #[error("{0}")]
    Usage(&'static str),
    #[error("--output only supports {0}")]
    Output(&'static str),
    #[error("--cloud value not recognized, must be one of: [{0}]")]
    Cloud(String),
    #[error("image did not contain {0}")]
    NoFile(String),
    #[error("unrecognized output mode: {0}")]
    OutputMode(String),
    #[error("the release image failed content verification and may have been tampered with")]
    Tampered,
    #[error("image {0:?} not found: manifest unknown: manifest unknown")]
    NotFound(String),
    #[error("unable to read image {image}: {cause}")]
    Unreadable { image: String, cause: String },
    #[error("creating configmap {0}: configmaps {0:?} already exists; --overwrite replaces it")]
    SignaturesExist(String),
    #[error("{0} is a folder or a plain tar file; only an image can be mirrored")]
    NoImage(String),
    #[error("failed to retrieve cached signatures")]
    NoSignatures,
    #[error("{failed} of {all} images could not be mirrored; the same command goes on where it stopped")]
    NotMirrored { failed: usize, all: usize },
    #[error("directory {folder} holds {count} releases; name one with --from:{names}")]
    Releases { folder: String, count: usize, names: String },
    #[error("directory {folder} holds no release {name}; it holds:{names}")]
    NoKeptRelease { folder: String, name: String, names: String },
    #[error("imagestreams.image.openshift.io {0:?} not found")]
    NoStream(String),
    #[error("{0} images could not be read")]
    ImagesNotRead(usize),
    #[error("unable to find an image within the release that matches the base image manifest {0:?}, please specify --to-image-base")]
    NoBase(String),
    #[error("the base image tag {0:?} could not be found in the input, cannot build a release image")]
    NoBaseTag(String),
    #[error("the release could not be reproduced from its inputs; other files came out:{0}")]
    NotReproduced(String),
    #[error("{} is a link; nothing is written through it", .0.display())]
    Link(std::path::PathBuf),
}

/// Says a refusal as `oc` does.
fn refuse(error: &dyn std::error::Error) -> Failure {
    tell(&format!("error: {error}"));
    Failure::silent(Exit::Failed)
}

fn tell(line: &str) {
    let end = if line.ends_with('\n') { "" } else { "\n" };
    screen::err(&format!("{line}{end}"), Kind::Text);
}

/// Replaces versions by the images that the cluster knows for them; without any argument it is the cluster's own release.
async fn resolve(arguments: &[String], cluster: &ClusterArgs) -> Result<Vec<String>, Failure> {
    let is_version = |argument: &String| Version::parse(argument).is_ok();
    if !arguments.is_empty() && !arguments.iter().any(is_version) {
        return Ok(arguments.to_vec());
    }
    let known = match session(cluster).await {
        Some(session) => operations::cluster_version(&session).await?,
        None => None,
    };
    let missing = || match arguments.iter().find(|argument| is_version(argument)) {
        Some(version) => refuse(&Refused::UnknownVersion(version.clone())),
        None => refuse(&Refused::NoRelease),
    };
    let known = known.ok_or_else(missing)?;
    if arguments.is_empty() {
        let image = ["/status/desired/image", "/spec/desiredUpdate/image"].iter().find_map(|path| known.pointer(path)?.as_str());
        let image = image.filter(|image| !image.is_empty()).ok_or_else(|| refuse(&Refused::NotReported))?;
        return Ok(vec![image.to_owned()]);
    }
    let found = |argument: &String| {
        if is_version(argument) {
            image_of(&known, argument).ok_or_else(|| refuse(&Refused::UnknownVersion(argument.clone())))
        } else {
            Ok(argument.clone())
        }
    };
    arguments.iter().map(found).collect()
}

/// The image of a version that the ClusterVersion names.
fn image_of(cluster_version: &Value, version: &str) -> Option<String> {
    let status = &cluster_version["status"];
    let lists = ["availableUpdates", "history"].into_iter().filter_map(|name| status[name].as_array()).flatten();
    let mut all = std::iter::once(&status["desired"]).chain(lists).filter(|release| release["version"] == version);
    all.find_map(|release| release["image"].as_str().filter(|image| !image.is_empty())).map(str::to_owned)
}

async fn session(cluster: &ClusterArgs) -> Option<Session> {
    match cluster.open().await {
        Ok(session) => Some(session),
        Err(failure) => {
            tracing::debug!(failure = failure.to_line(), "no cluster");
            None
        }
    }
}
