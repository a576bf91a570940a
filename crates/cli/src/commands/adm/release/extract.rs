//! `mainstay adm release extract`.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use mainstay_objects::ObjectRef;
use mainstay_release::Folder;
use mainstay_release::extract::{Described, Inclusion, Wanted, clouds, extract};
use mainstay_release_source::Release;
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::screen::Kind;
use mainstay_terminal::{output, runtime};
use serde_json::Value;

use super::registry::Options;
use super::{Refused, refuse, resolve, session, sources, tell, tools};

/// The longest install-config that is read.
const MAX_CONFIG: u64 = 4 << 20;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay adm release extract quay.example/release:4.19.44 --to payload
  mainstay adm release extract quay.example/release:4.19.44 --file release-metadata
  mainstay adm release extract quay.example/release:4.19.44 --credentials-requests --cloud aws --to requests
  mainstay adm release extract quay.example/release:4.19.44 --included --install-config install-config.yaml --to payload

A release is an image, an OCI layout or archive, a tar file, or a folder; without one it is that of the cluster. Flags, words and exit codes
are those of oc.

Exit codes: 0 done, 1 refused.")]
pub struct Arguments {
    /// The release
    #[arg(value_name = "IMAGE")]
    images: Vec<String>,
    /// The release
    #[arg(long, value_name = "IMAGE")]
    from: Option<String>,
    /// The folder that is written to
    #[arg(long, value_name = "DIR", default_value = ".")]
    to: PathBuf,
    /// Print one file of the release
    #[arg(long, value_name = "NAME")]
    file: Option<String>,
    /// Only CredentialsRequests
    #[arg(long)]
    credentials_requests: bool,
    /// Only CredentialsRequests of this cloud
    #[arg(long, value_name = "CLOUD")]
    cloud: Option<String>,
    /// Only what belongs to the cluster, or to the one that --install-config describes
    #[arg(long)]
    included: bool,
    /// An install-config that describes the cluster
    #[arg(long, value_name = "FILE")]
    install_config: Option<PathBuf>,
    /// Check the source code of all images out below this folder
    #[arg(long, value_name = "DIR")]
    git: Option<PathBuf>,
    /// With --git: print each repository with its commit instead of checking it out
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<String>,
    #[command(flatten)]
    tools: tools::Programs,
    #[command(flatten)]
    pub(super) registries: Options,
}

/// Runs it.
pub(super) fn run(arguments: &Arguments, cluster: &ClusterArgs) -> Result<(), Failure> {
    runtime::block_on(async {
        if arguments.images.len() > 1 || arguments.from.is_some() && !arguments.images.is_empty() {
            return Err(refuse(&Refused::OneImage));
        }
        let named: Vec<String> = arguments.from.iter().chain(&arguments.images).cloned().collect();
        let image = resolve(&named, cluster).await?.swap_remove(0);
        arguments.check().map_err(|error| refuse(&error))?;
        arguments.registries.check()?;
        let client = arguments.registries.client()?;
        if let Some(folder) = &arguments.git {
            let release = arguments.registries.read(&image, &client).await.map_err(|error| refuse(&error))?;
            return sources::check_out(&release, &image, folder, arguments.output.is_some());
        }
        if arguments.tools.are_wanted() {
            let release = arguments.registries.read(&image, &client).await.map_err(|error| refuse(&error))?;
            return arguments.tools.extract(&release, &image, &arguments.to, &client).await;
        }
        if let Some(file) = &arguments.file {
            let release = arguments.registries.read(&image, &client).await.map_err(|error| refuse(&error))?;
            let found = release.files.in_folder(Folder::Release).find(|(name, _)| name == file);
            let (_, content) = found.ok_or_else(|| refuse(&Refused::NoFile(file.clone())))?;
            return output::stream(Kind::Text, |out| out.write_all(content));
        }
        let (included, context, running) = arguments.inclusion(cluster).await?;
        let wanted = Wanted { credentials_requests: arguments.credentials_requests, cloud: arguments.cloud.clone(), included };
        // What can be refused without the image is.
        extract(&mainstay_release::Files::default(), &wanted, &context).map_err(|error| refuse(&error))?;
        make_folder(&arguments.to)?;
        let release = arguments.registries.read(&image, &client).await.map_err(|error| refuse(&error))?;
        let mut wanted = wanted;
        if let (Some(included), Some(running)) = (&mut wanted.included, running) {
            arguments.imply(included, &release, &running, &client).await;
        }
        let extracted = extract(&release.files, &wanted, &context).map_err(|error| refuse(&error))?;
        write_files(&arguments.to, &extracted.files)?;
        output::line(summary(&image, &release))?;
        if let Some(errors) = extracted.errors() {
            tell(&errors);
        }
        Ok(())
    })
}

impl Arguments {
    fn check(&self) -> Result<(), Refused> {
        if self.output.is_some() && self.git.is_none() {
            return Err(Refused::Usage("--output is only supported with --git"));
        }
        if self.output.as_deref().is_some_and(|format| format != "commit") {
            return Err(Refused::Usage("the only supported option for --output is 'commit'"));
        }
        if self.install_config.is_some() && !self.included {
            return Err(Refused::Usage("--install-config is only supported with --included"));
        }
        if let Some(cloud) = &self.cloud {
            if !self.credentials_requests && !self.included {
                return Err(Refused::Usage("--cloud is only supported with --credentials-requests or --included"));
            }
            if !clouds().any(|known| known == cloud) {
                return Err(Refused::Cloud(clouds().collect::<Vec<_>>().join(" ")));
            }
        }
        if self.credentials_requests && !self.included {
            tell(
                "warning: if you intend to pass CredentialsRequests to ccoctl, you should use --included to filter out requests that your \
                 cluster is not expected to need.",
            );
        }
        let sources = [self.credentials_requests, self.file.is_some(), self.git.is_some(), self.tools.tools, self.tools.command.is_some()];
        if sources.iter().filter(|source| **source).count() > 1 {
            return Err(Refused::Usage("only one of --tools, --command, --credentials-requests, --file, or --git may be specified"));
        }
        if self.file.is_some() && self.to != Path::new(".") {
            return Err(Refused::Usage("only one of --to and --file may be set"));
        }
        Ok(())
    }

    /// The cluster whose manifests are wanted, and where its description comes from.
    /// Of a connected cluster, its running release is returned, too.
    async fn inclusion(&self, cluster: &ClusterArgs) -> Result<(Option<Inclusion>, String, Option<String>), Failure> {
        if !self.included {
            return Ok((None, String::new(), None));
        }
        if let Some(path) = &self.install_config {
            let context = path.display().to_string();
            let described = Described::of_install_config(&context, &read_small(path, MAX_CONFIG)?).map_err(|error| refuse(&error))?;
            described.notes.iter().for_each(|note| log(note));
            return Ok((Some(described.inclusion), context, None));
        }
        let Some(session) = session(cluster).await else {
            tell("The connection to the server localhost:8080 was refused - did you specify the right host or port?");
            return Err(Failure::silent(mainstay_terminal::errors::Exit::Failed));
        };
        let get = async |api_version: &str, kind: &str, namespace: &str, name: &str| {
            let place = ObjectRef {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            };
            let found = session.writer.get(&place).await.map_err(|error| refuse(&error))?;
            found.ok_or_else(|| refuse(&NotFound { kind: kind.to_lowercase(), name: name.to_owned() }))
        };
        let feature_gate: Value = get("config.openshift.io/v1", "FeatureGate", "", "cluster").await?;
        let cluster_version = get("config.openshift.io/v1", "ClusterVersion", "", "version").await?;
        let infrastructure = get("config.openshift.io/v1", "Infrastructure", "", "cluster").await?;
        let deployment = get("apps/v1", "Deployment", "openshift-cluster-version", "cluster-version-operator").await?;
        let included = Inclusion::of_cluster(&feature_gate, &cluster_version, &infrastructure, &deployment);
        let running = cluster_version["status"]["desired"]["image"].as_str().filter(|image| !image.is_empty()).map(str::to_owned);
        Ok((Some(included.map_err(|error| refuse(&error))?), "connected cluster".to_owned(), running))
    }

    /// Adds the capabilities that an update from the running release would switch on. If that release cannot be read, it is told.
    async fn imply(&self, included: &mut Inclusion, release: &Release, running: &str, client: &mainstay_oci::Client) {
        if release.image.as_ref().is_some_and(|image| running.ends_with(&image.listed)) {
            return;
        }
        match self.registries.read(running, client).await {
            Ok(current) => included.imply(&release.files, &current.files),
            Err(error) => tell(&format!(
                "warning: capabilities that an update would implicitly enable are not known, since the running release cannot be read: {error}"
            )),
        }
    }
}

/// An object that the cluster does not have.
#[derive(Debug, thiserror::Error)]
#[error("{kind} {name:?} not found")]
struct NotFound {
    kind: String,
    name: String,
}

/// A line in the form of Kubernetes' log, which `oc` tells notes in.
fn log(note: &str) {
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).strftime("%m%d %H:%M:%S%.6f").to_string();
    tell(&format!("I{now} {:>7} extract.go:1] {note}", std::process::id()));
}

fn summary(image: &str, release: &Release) -> String {
    let Some(facts) = &release.image else { return format!("Extracted release payload from {image}") };
    let created = facts.created().unwrap_or("0001-01-01T00:00:00Z");
    if image.contains('@') {
        format!("Extracted release payload created at {created}")
    } else {
        format!("Extracted release payload from digest {} created at {created}", facts.digest)
    }
}

/// Makes a folder, with those above it.
pub(super) fn make_folder(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| Failure::failed(format!("folder {}", folder.display()), &error))
}

/// Writes the files; their names have no folders.
pub(super) fn write_files(folder: &Path, files: &[(String, Vec<u8>)]) -> Result<(), Failure> {
    for (name, content) in files {
        let path = folder.join(name);
        // A link in the folder could lead anywhere.
        if std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
            return Err(refuse(&Refused::Link(path)));
        }
        let written = std::fs::File::create(&path).and_then(|mut file| file.write_all(content));
        written.map_err(|error| Failure::failed(format!("file {}", path.display()), &error))?;
    }
    Ok(())
}

/// Reads a text file of at most `most` bytes.
pub(super) fn read_small(path: &Path, most: u64) -> Result<String, Failure> {
    let subject = format!("file {}", path.display());
    let mut text = String::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(most + 1).read_to_string(&mut text));
    read.map_err(|error| Failure::failed(&subject, &error))?;
    if text.len() as u64 > most {
        return Err(Failure::new(mainstay_terminal::errors::Exit::Failed, subject, format!("is larger than {most} bytes")));
    }
    Ok(text)
}
