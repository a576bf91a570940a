//! Programs of a release: `adm release extract --tools` and `--command` (CVO-RELX-02).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;
use mainstay_oci::{Client, Layer, Modes, UnpackLimits, UnpackOptions, Workspace, unpack};
use mainstay_release::info::{Columns, Info};
use mainstay_release::tools::{Request, Tool, not_found, select};
use mainstay_release_source::Release;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::images;

use super::packed::{self, Facts};
use super::signing::Signing;
use super::{Refused, refuse, tell};

/// The largest program, and all of one image together, in bytes.
const MAX_PROGRAM: u64 = 4 << 30;
const MAX_PROGRAMS: u64 = 16 << 30;
const SUMS: &str = "sha256sum.txt";
const DESCRIPTION: &str = "release.txt";

/// The programs that are asked for.
#[derive(Debug, Args)]
pub struct Programs {
    /// Extract all programs of the release as archives, with their checksums
    #[arg(long)]
    pub(super) tools: bool,
    /// Extract one program, such as oc, openshift-install or ccoctl
    #[arg(long, value_name = "NAME")]
    pub(super) command: Option<String>,
    /// The system of the programs: linux, mac, windows, linux/arm64, ... or * for all
    #[arg(long, value_name = "OS")]
    command_os: Option<String>,
    #[command(flatten)]
    signing: Signing,
}

impl Programs {
    /// Returns true if programs are asked for.
    pub(super) fn are_wanted(&self) -> bool {
        self.tools || self.command.is_some()
    }

    /// Extracts the programs.
    pub(super) async fn extract(&self, release: &Release, image: &str, folder: &Path, client: &Client) -> Result<(), Failure> {
        let key = self.signing.key()?;
        let info = Info::read(image, &release.files, release.image.as_ref()).map_err(|error| refuse(&error))?;
        let here = mainstay_oci::Platform::default();
        let system = if cfg!(target_os = "macos") { "darwin" } else { &here.os };
        let request = Request {
            command: self.command.as_deref(),
            system: self.command_os.as_deref(),
            here: (system, &here.architecture),
            release: release.image.as_ref().map(mainstay_release::ReleaseImage::architecture).unwrap_or_default(),
            version: info.name(),
            asked: image,
        };
        let selected = select(&request, |name| info.image_for(name).is_ok()).map_err(|error| refuse(&error))?;
        if !selected.missing.is_empty() {
            let missing: Vec<&str> = selected.missing.iter().copied().collect();
            tell(&format!("warning: Some commands can not be extracted due to missing images: {}", missing.join(", ")));
        }
        super::extract::make_folder(folder)?;
        let mut by_image = BTreeMap::<&str, Vec<&Tool>>::new();
        for tool in &selected.tools {
            by_image.entry(tool.image).or_default().push(tool);
        }
        let extraction = Extraction { folder, client, info: &info };
        let (mut sums, mut missing) = (BTreeMap::new(), BTreeSet::new());
        for (name, tools) in by_image {
            extraction.image(name, &tools, &mut sums, &mut missing).await?;
        }
        if selected.tools.iter().any(|tool| tool.archive.is_some()) {
            let text = describe(&info);
            sums.insert(
                DESCRIPTION.to_owned(),
                packed::write(&folder.join(DESCRIPTION), text.as_bytes()).map_err(|error| at(folder, &error))?,
            );
            let lines = sums.iter().fold(String::new(), |lines, (file, sum)| format!("{lines}{sum}  {file}\n"));
            packed::write(&folder.join(SUMS), lines.as_bytes()).map_err(|error| at(folder, &error))?;
            if let Some(key) = key {
                let signature = key.detached(lines.as_bytes()).map_err(|error| Failure::failed("signing key", &error))?;
                packed::write(&folder.join(format!("{SUMS}.asc")), signature.as_bytes()).map_err(|error| at(folder, &error))?;
            }
        }
        not_found(&missing).map_or(Ok(()), |error| Err(refuse(&error)))
    }
}

fn at(folder: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("folder {}", folder.display()), error)
}

/// The description of the release beside its programs.
fn describe(info: &Info<'_>) -> String {
    format!(
        "Programs of a release\n---------------------\n\nTo check the files of this folder: sha256sum --check {SUMS}\nThe installer among them installs this \
         release:\n\n---\n\n{}",
        info.describe(Columns::PullSpecs, &|_| None)
    )
}

/// An extraction under way.
struct Extraction<'a> {
    folder: &'a Path,
    client: &'a Client,
    info: &'a Info<'a>,
}

impl Extraction<'_> {
    /// Extracts the programs of one image.
    async fn image(
        &self,
        name: &str,
        tools: &[&Tool],
        sums: &mut BTreeMap<String, String>,
        missing: &mut BTreeSet<&'static str>,
    ) -> Result<(), Failure> {
        let spec = self.info.image_for(name).map_err(|error| refuse(&error))?;
        let failed = |error: mainstay_oci::Error| images::failure(&format!("image {spec}"), &error);
        let reference = self.client.reference(spec).map_err(failed)?;
        let workspace: Workspace = self.client.workspace().map_err(failed)?;
        let pulled = self.client.pull(&reference, workspace.store()).await.map_err(failed)?;
        let unpacked = tempfile::tempdir().map_err(|error| at(self.folder, &error))?;
        let root = unpacked.path().join("root");
        // A program may be a link to that of another system release.
        let keep = tools.iter().flat_map(|tool| ["", ".rhel8", ".rhel9"].map(|end| format!("{}{end}", tool.path))).collect();
        let limits = UnpackLimits {
            total_bytes: MAX_PROGRAMS,
            file_bytes: MAX_PROGRAM,
            read_bytes: 2 * MAX_PROGRAMS,
            written_bytes: 2 * MAX_PROGRAMS,
            ..UnpackLimits::default()
        };
        let options = UnpackOptions { keep, limits, modes: Modes::Private };
        let layers = Layer::of(&pulled, workspace.store());
        let folder = root.clone();
        let unpacking = tokio::task::spawn_blocking(move || unpack(&layers, &folder, &options).map(drop));
        match unpacking.await {
            Ok(outcome) => outcome.map_err(failed)?,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => return Err(Failure::failed(format!("image {spec}"), &error)),
            },
        }
        for tool in tools {
            match program(&root, tool.path) {
                Some(program) => {
                    if let Some(sum) = self.program(&program, tool)? {
                        sums.insert(tool.file.clone(), sum);
                    }
                }
                None if tool.is_optional => {}
                None => drop(missing.insert(tool.path)),
            }
        }
        Ok(())
    }

    /// Writes one program; the checksum of its archive is returned.
    fn program(&self, program: &Path, tool: &Tool) -> Result<Option<String>, Failure> {
        let path = self.folder.join(&tool.file);
        if std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
            return Err(refuse(&Refused::Link(path)));
        }
        let platform = self.info.platform();
        let marks = tool.marks.with(&self.info.pull_spec(), self.info.name(), &platform).map_err(|error| refuse(&error))?;
        let facts = Facts { tool, marks: &marks, created: created(self.info) };
        let subject = format!("file {}", path.display());
        let written = File::open(program).map_err(Into::into).and_then(|file| packed::program(&path, file, &facts));
        let (missing, sum) = written.map_err(|error: mainstay_release::tools::MarkError| Failure::failed(&subject, &error))?;
        if !missing.is_empty() {
            let names: Vec<&str> = missing.into_iter().collect();
            tell(&format!("warning: Unable to make all expected replacements in {}.  Remaining: {}", tool.command, names.join(", ")));
        }
        Ok(sum)
    }
}

/// The time of the release, for files that are packed.
fn created(info: &Info<'_>) -> u64 {
    let created = info.image.and_then(|image| image.created()).and_then(|created| created.parse::<jiff::Timestamp>().ok());
    created.and_then(|created| u64::try_from(created.as_second()).ok()).unwrap_or_default()
}

/// A program below the folder that an image was unpacked to; a link must stay there.
fn program(root: &Path, path: &str) -> Option<PathBuf> {
    let root = root.canonicalize().ok()?;
    let found = root.join(path).canonicalize().ok()?;
    (found.starts_with(&root) && found.is_file()).then_some(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// CVO-RELX-02, CVO-RELX-04: a link out of the image's folder is no program.
    #[test]
    fn links() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        std::fs::create_dir_all(root.join("usr/bin")).unwrap();
        std::fs::write(place.path().join("secret"), "x").unwrap();
        std::fs::write(root.join("usr/bin/oc.rhel9"), "x").unwrap();
        std::os::unix::fs::symlink("oc.rhel9", root.join("usr/bin/oc")).unwrap();
        std::os::unix::fs::symlink("../../../secret", root.join("usr/bin/out")).unwrap();
        assert!(program(&root, "usr/bin/oc").unwrap().ends_with("usr/bin/oc.rhel9"));
        assert_eq!(program(&root, "usr/bin/out"), None);
        assert_eq!(program(&root, "usr/bin/none"), None);
    }
}
