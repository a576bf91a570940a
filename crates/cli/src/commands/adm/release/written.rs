//! Where a new release goes: a folder, an archive, an image.

use std::io::Write as _;
use std::path::Path;

use jiff::Timestamp;
use mainstay_oci::{Client, Digest, Format, ImageBuilder, ImageIndex, Reference, Workspace, media_type};
use mainstay_release::Folder;
use mainstay_release::compose::Composed;
use mainstay_release::mirror::repository;
use mainstay_release::signature::{ReleaseDigest, unsigned_claim};
use mainstay_terminal::errors::Failure;
use mainstay_terminal::screen::Kind;
use mainstay_terminal::{images, output};

use super::inputs::BASE_DIGEST;
use super::{Refused, refuse};

/// The label of a release with its version.
const RELEASE: &str = "io.openshift.release";
const COMMENT: &str = "Release image";

/// The target of a release.
pub(super) enum Target<'a> {
    Folder(&'a Path),
    File(&'a Path),
    /// An image; none if it is only built.
    Image(Option<String>),
}

/// The image that a release is built on.
pub(super) enum Base {
    None,
    Image(String),
}

/// An image that is to be built.
pub(super) struct Image<'a> {
    pub client: &'a Client,
    pub base: Base,
    pub keep_manifest_list: bool,
    pub version: &'a str,
    pub created: Timestamp,
}

/// An image that was built.
pub(super) struct Built {
    pub digest: Digest,
    workspace: Workspace,
    index: Option<ImageIndex>,
    images: Vec<mainstay_oci::Image>,
    origins: Vec<Reference>,
}

/// Refuses a target that is no tag of a registry.
pub(super) fn check_target(image: &str) -> Result<(), Failure> {
    if image.contains('@') {
        return Err(refuse(&Refused::Usage("--to-image may only point to a repository or tag, not a digest")));
    }
    Reference::parse_familiar(image).map(drop).map_err(|error| images::failure("--to-image", &error))
}

/// The target with a tag: its own, or the version of the release.
pub(super) fn tagged(image: &str, version: &str) -> Result<String, Failure> {
    // A tag has no plus sign.
    let text = if repository(image) == image { format!("{image}:{}", version.replace('+', "_")) } else { image.to_owned() };
    check_target(&text).map(|()| text)
}

/// Writes the files to a folder.
pub(super) fn folder(folder: &Path, composed: &Composed) -> Result<(), Failure> {
    let files: Vec<(String, Vec<u8>)> =
        composed.files.in_folder(Folder::Release).map(|(name, content)| (name.to_owned(), content.to_vec())).collect();
    super::extract::make_folder(folder)?;
    super::extract::write_files(folder, &files)
}

/// Writes the files to an archive, as a layer has them.
pub(super) fn file(file: &Path, composed: &Composed) -> Result<(), Failure> {
    let subject = format!("file {}", file.display());
    let archive = builder(composed).archive().map_err(|error| images::failure(&subject, &error))?;
    if file == Path::new("-") {
        return output::stream(Kind::Text, |out| out.write_all(&archive));
    }
    replace(file, &archive).map_err(|error| Failure::failed(subject, &error))
}

/// Writes what is to be signed.
pub(super) fn signature(file: &Path, digest: &Digest, target: &str, created: Timestamp) -> Result<(), Failure> {
    let subject = format!("file {}", file.display());
    let digest = ReleaseDigest::parse(digest.as_str()).ok_or_else(|| refuse(&Refused::NoSignatures))?;
    let creator = format!("mainstay-adm-release-new/{}", env!("CARGO_PKG_VERSION"));
    let text = unsigned_claim(&creator, created, &digest, &format!("{}@{}", repository(target), digest.as_str()));
    replace(file, text.as_bytes()).map_err(|error| Failure::failed(subject, &error))
}

/// Writes a file as a whole: under another name first, so that no reader finds half of it.
fn replace(file: &Path, content: &[u8]) -> std::io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut written = tempfile::NamedTempFile::new_in(folder)?;
    written.write_all(content)?;
    #[cfg(unix)]
    std::fs::set_permissions(written.path(), std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    written.persist(file).map(drop).map_err(|error| error.error)
}

fn builder(composed: &Composed) -> ImageBuilder {
    let path = |(name, content): (&str, &[u8])| (format!("{}/{name}", Folder::Release.name()), content.to_vec());
    ImageBuilder::new().files(composed.files.in_folder(Folder::Release).map(path))
}

impl Image<'_> {
    /// Builds the image.
    pub(super) async fn build(&self, composed: &Composed) -> Result<Built, Failure> {
        let failed = |error: mainstay_oci::Error| images::failure("release image", &error);
        let workspace = self.client.workspace().map_err(failed)?;
        let builder = builder(composed).label(RELEASE, self.version).origin(self.created.to_string(), COMMENT);
        let (mut built, mut origins) = (Vec::new(), Vec::new());
        match &self.base {
            Base::None => built.push(builder.platform(images::data_platform()).build(workspace.store()).map_err(failed)?),
            Base::Image(text) => {
                let failed = |error: mainstay_oci::Error| images::failure(&format!("base image {text}"), &error);
                let reference = self.client.reference(text).map_err(failed)?;
                for base in self.bases(&reference, &workspace).await.map_err(failed)? {
                    let docker = base.descriptor.media_type == media_type::DOCKER_MANIFEST;
                    let mut builder = builder.clone().label(BASE_DIGEST, base.descriptor.digest.to_string());
                    if base.config.config.labels.contains_key(RELEASE) {
                        // The files of another release are no part of this one.
                        builder = builder.emptied(Folder::Release.name());
                    }
                    builder = builder.format(if docker { Format::Docker } else { Format::Oci }).base(base);
                    built.push(builder.build(workspace.store()).map_err(failed)?);
                }
                origins.push(reference);
            }
        }
        let index = match built.as_slice() {
            [_] => None,
            _ => Some(ImageIndex::build(built.clone(), workspace.store()).map_err(failed)?),
        };
        let digest = index.as_ref().map(|index| &index.descriptor).or_else(|| built.first().map(|image| &image.descriptor));
        let digest =
            digest.ok_or_else(|| refuse(&Refused::Usage("the base image has no platform that a release can be built on")))?.digest.clone();
        Ok(Built { digest, workspace, index, images: built, origins })
    }

    /// The images of the base: one, or that of each platform.
    async fn bases(&self, reference: &Reference, workspace: &Workspace) -> Result<Vec<mainstay_oci::Image>, mainstay_oci::Error> {
        if !self.keep_manifest_list {
            return Ok(vec![self.client.inspect(reference, workspace.store()).await?]);
        }
        let tree = self.client.survey(reference, workspace.store()).await?;
        self.client.images(&reference.at(tree.root.digest.clone()), &tree, workspace.store()).await
    }

    /// Pushes the image.
    pub(super) async fn push(&self, built: &Built, target: &str) -> Result<(), Failure> {
        let failed = |error: mainstay_oci::Error| images::failure(&format!("image {target}"), &error);
        let (reference, store) = (self.client.reference(target).map_err(failed)?, built.workspace.store());
        let pushed = match (&built.index, built.images.as_slice()) {
            (Some(index), _) => self.client.push_index(index, store, &reference, &built.origins).await,
            (None, [image, ..]) => self.client.push_built(image, store, &reference, &built.origins).await,
            (None, []) => return Ok(()),
        };
        pushed.map(drop).map_err(failed)
    }
}
