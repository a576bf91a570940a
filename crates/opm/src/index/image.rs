//! The image of an index: its database taken out, its Dockerfile, and building it (CATLG-62).

use std::path::{Path, PathBuf};
use std::process::Command;

use mainstay_catalog_refs::{CATALOG_LABEL, DATABASE_LABEL};
use mainstay_oci::{Client, ImageBuilder, Layer, Reference, UnpackOptions, unpack};
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::{images, runtime};
use tempfile::{TempDir, TempPath};

use super::super::Global;
use super::super::databases;
use super::super::server_log::{Level, ServerLog};

/// The image that contains opm.
const BINARY_IMAGE: &str = "quay.io/operator-framework/opm:latest";
/// The path of the database in the image.
const DATABASE: &str = "/database/index.db";
const DOCKERFILE: &str = "index.Dockerfile";
const TAG: &str = "operator-registry-index:latest";

/// The engine that builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BuildTool {
    Docker,
    Podman,
}

impl BuildTool {
    /// The engine of this name; every other name means podman, as with opm.
    pub(super) fn named(text: &str) -> Self {
        if text == "docker" { Self::Docker } else { Self::Podman }
    }

    fn program(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }

    /// The arguments of the call.
    fn words<'a>(self, dockerfile: &'a str, tag: &'a str) -> Vec<&'a str> {
        let format: &[&str] = if self == Self::Podman { &["--format", "docker"] } else { &[] };
        [&["build"], format, &["-f", dockerfile, "-t", tag, "."]].concat()
    }

    fn is_there(self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(self.program()).is_file())
    }
}

/// The folder of Dockerfile and database: below the current folder, as an engine requires.
#[derive(Debug)]
pub(super) struct Workplace {
    /// The folder as the Dockerfile names it.
    directory: String,
    dockerfile: String,
    _directory: Option<TempDir>,
    _dockerfile: Option<TempPath>,
}

impl Workplace {
    /// A workplace whose files stay (`--generate`).
    pub(super) fn kept(dockerfile: &str) -> Self {
        let dockerfile = if dockerfile.is_empty() { DOCKERFILE } else { dockerfile };
        Self { directory: String::new(), dockerfile: dockerfile.to_owned(), _directory: None, _dockerfile: None }
    }

    /// A workplace whose files are removed when the image is built.
    pub(super) fn temporary(dockerfile: &str) -> Result<Self, Failure> {
        let io = |error: std::io::Error| Failure::failed("current folder", &error);
        let directory = tempfile::Builder::new().prefix("index_build_tmp").tempdir_in(".").map_err(io)?;
        let name = directory.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (dockerfile, temporary) = if dockerfile.is_empty() {
            let file = tempfile::Builder::new().prefix(DOCKERFILE).tempfile_in(".").map_err(io)?.into_temp_path();
            (file.file_name().unwrap_or_default().to_string_lossy().into_owned(), Some(file))
        } else {
            (dockerfile.to_owned(), None)
        };
        Ok(Self { directory: format!("{name}/"), dockerfile, _directory: Some(directory), _dockerfile: temporary })
    }

    fn place(&self) -> String {
        format!("{}database/index.db", self.directory)
    }

    /// The path of the database's file; its folder is created.
    pub(super) fn database(&self) -> Result<PathBuf, Failure> {
        let path = PathBuf::from(self.place());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| Failure::failed(format!("folder {}", folder.display()), &error))?;
        }
        Ok(path)
    }

    /// Writes the Dockerfile.
    pub(super) fn write_dockerfile(&self, binary_image: &str, log: &ServerLog) -> Result<(), Failure> {
        log.write(Level::Info, &format!("writing dockerfile: {}", self.dockerfile), &[]);
        std::fs::write(&self.dockerfile, dockerfile(base(binary_image), &self.place()))
            .map_err(|error| Failure::failed(format!("file {}", self.dockerfile), &error))
    }
}

/// The text of the Dockerfile.
fn dockerfile(base: &str, database: &str) -> String {
    format!(
        "FROM {base}\nLABEL {DATABASE_LABEL}={DATABASE}\nADD {database} {DATABASE}\nEXPOSE 50051\nENTRYPOINT [\"/bin/opm\"]\n\
         CMD [\"registry\", \"serve\", \"--database\", \"{DATABASE}\"]\n"
    )
}

fn base(binary_image: &str) -> &str {
    if binary_image.is_empty() { BINARY_IMAGE } else { binary_image }
}

/// Pulls an index and copies its database.
pub(super) fn extract(client: &Client, reference: &str, to: &Path) -> Result<(), Failure> {
    let subject = format!("image {reference}");
    let failed = |error: mainstay_oci::Error| failure(&subject, &error);
    runtime::block_on(async {
        let parsed = client.reference(reference).map_err(failed)?;
        let workspace = client.workspace().map_err(failed)?;
        let image = client.pull(&parsed, workspace.store()).await.map_err(failed)?;
        let labels = &image.config.config.labels;
        let Some(location) = labels.get(DATABASE_LABEL) else {
            return Err(if labels.contains_key(CATALOG_LABEL) { file_based() } else { unlabelled(reference) });
        };
        let kept = location.trim_matches('/').to_owned();
        let layers = Layer::of(&image, workspace.store());
        let directory = tempfile::tempdir().map_err(|error| Failure::failed(&subject, &error))?;
        let options = UnpackOptions { keep: vec![kept.clone()], ..UnpackOptions::default() };
        unpack(&layers, directory.path(), &options).map_err(failed)?;
        let found = directory.path().join(&kept);
        // A link in the image could lead out of it.
        let plain = std::fs::symlink_metadata(&found).is_ok_and(|metadata| metadata.is_file());
        if !plain {
            return Err(Failure::new(Exit::Failed, &subject, format!("there is no file {location} in it")));
        }
        std::fs::copy(&found, to).map_err(|error| Failure::failed(format!("file {}", to.display()), &error))?;
        Ok(())
    })
}

/// A failure with opm's exit code: the other codes say that a bundle is there already.
fn failure(subject: &str, error: &mainstay_oci::Error) -> Failure {
    images::failure(subject, error).exits(Exit::Failed)
}

/// The refusal of a file-based catalog (CATLG-59).
fn file_based() -> Failure {
    let text = "`opm index prune` only supports sqlite-based catalogs. See \
        https://github.com/redhat-openshift-ecosystem/community-operators-prod/issues/793 for instructions on pruning a plaintext files \
        backed catalog.";
    Failure::new(Exit::Failed, "opm index", text)
        .hint("file-based catalogs are changed by editing their files: mainstay catalog filter keeps some packages, opm render prints them")
}

fn unlabelled(reference: &str) -> Failure {
    Failure::new(Exit::Failed, "opm index", format!("index image {reference} missing label {DATABASE_LABEL}"))
}

/// Builds the image: by the engine if it is on this machine, else here, and then it is pushed.
pub(super) fn build(
    workplace: &Workplace,
    binary_image: &str,
    tag: &str,
    tool: BuildTool,
    global: Global,
    log: &ServerLog,
) -> Result<(), Failure> {
    let tag = if tag.is_empty() { TAG } else { tag };
    if !tool.is_there() {
        return build_here(workplace, base(binary_image), tag, tool, global);
    }
    let words = tool.words(&workplace.dockerfile, tag);
    log.write(Level::Info, &format!("running {} build", tool.program()), &[]);
    log.write(Level::Info, &format!("[{} {}]", tool.program(), words.join(" ")), &[]);
    let subject = format!("image {tag}");
    let output = Command::new(tool.program()).args(words).output().map_err(|error| Failure::failed(&subject, &error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    Err(Failure::new(Exit::Failed, subject, format!("error building image: {}. {}", said.trim_end(), output.status)))
}

fn build_here(workplace: &Workplace, base: &str, tag: &str, tool: BuildTool, global: Global) -> Result<(), Failure> {
    let subject = format!("image {tag}");
    let program = tool.program();
    let names_registry = tag.split_once('/').is_some_and(|(host, _)| host.contains(['.', ':']) || host == "localhost");
    if !names_registry {
        return Err(Failure::new(
            Exit::Failed,
            subject,
            format!("{program} is not on this machine, and the reference names no registry to push to"),
        )
        .hint("--tag REGISTRY/NAME:TAG, or --generate and build the Dockerfile elsewhere"));
    }
    note(format!("{program} is not on this machine: building here, and pushing to {tag}"));
    let place = workplace.place();
    let bytes = std::fs::read(&place).map_err(|error| Failure::failed(format!("file {place}"), &error))?;
    let client = databases::client(global, "")?;
    let failed = |error: mainstay_oci::Error| failure(&subject, &error);
    let pushed = runtime::block_on(async {
        let target = client.reference(tag).map_err(failed)?;
        let mut builder = ImageBuilder::new()
            .label(DATABASE_LABEL, DATABASE)
            .file(DATABASE, bytes)
            .port("50051/tcp")
            .entrypoint(["/bin/opm"])
            .command(["registry", "serve", "--database", DATABASE]);
        let workspace = client.workspace().map_err(failed)?;
        let mut origins: Vec<Reference> = Vec::new();
        if base != "scratch" {
            let parsed = client.reference(base).map_err(|error| failure(&format!("base image {base}"), &error))?;
            let inspected = client.inspect(&parsed, workspace.store()).await;
            let image =
                inspected.map_err(|error| failure(&format!("base image {base}"), &error).hint("--binary-image names another one"))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// CATLG-62: the Dockerfile of an index.
    #[test]
    fn dockerfile_text() {
        assert_eq!(
            dockerfile("quay.io/operator-framework/opm:latest", "database/index.db"),
            "FROM quay.io/operator-framework/opm:latest\n\
             LABEL operators.operatorframework.io.index.database.v1=/database/index.db\n\
             ADD database/index.db /database/index.db\n\
             EXPOSE 50051\n\
             ENTRYPOINT [\"/bin/opm\"]\n\
             CMD [\"registry\", \"serve\", \"--database\", \"/database/index.db\"]\n"
        );
    }

    /// CATLG-54: engines are called as opm calls them.
    #[test]
    fn engines() {
        assert_eq!(BuildTool::named("docker").words("f", "t"), ["build", "-f", "f", "-t", "t", "."]);
        assert_eq!(BuildTool::named("").words("f", "t"), ["build", "--format", "docker", "-f", "f", "-t", "t", "."]);
    }
}
