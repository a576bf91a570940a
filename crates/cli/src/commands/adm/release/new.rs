//! `mainstay adm release new` (CVO-RELN).

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use mainstay_oci::{Client, Platform};
use mainstay_release::compose::{
    ComposeError, Composed, Description, Mappings, ReferenceMode, Rules, check_component_versions, compose, prune,
};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::{output, runtime};
use serde_json::Map;

use super::inputs::{self, Asked, Sourced};
use super::registry::Options;
use super::written::{Base, Image, Target};
use super::{Refused, moved, refuse, tell, written};

/// The longest file of images that is read.
const MAX_MAPPINGS: u64 = 4 << 20;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay adm release new --from-release quay.example/release:4.19.44 cli=quay.example/me/cli:test \\
    --name 4.19.45-test --to-image quay.example/me/release
  mainstay adm release new -f stream.yaml --name 4.20.0 --previous 4.19.44 --to-image quay.example/me/release:4.20.0
  mainstay adm release new --from-dir operators --name 4.20.0 --to-file release.tar.gz
  mainstay adm release new operator=quay.example/me/operator:1 --name 0.1.0 --to-image-base-tag operator --to-dir payload
  mainstay adm release new --from-release quay.example/release:4.19.44      check that it can be reproduced

Manifests come from the folder /manifests of images with the label io.openshift.release.operator=true. A file whose name does not begin with
0000_ is named 0000_50_NAME_FILE. Pull specs that the file image-references of an operator lists are replaced by those of the release, and
0.0.1-snapshot by its version. Images that no operator mentions are left out. The same inputs give the same digest; the time of a release is
that of its newest input. Without a target nothing is written, and the digest is printed.

Exit codes: 0 done, 1 refused.")]
#[expect(clippy::struct_excessive_bools, reason = "one per flag")]
pub struct Arguments {
    /// Images by name, in place of those of the same name
    #[arg(value_name = "NAME=IMAGE")]
    images: Vec<String>,
    /// A file with images by name
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    mapping_file: Vec<PathBuf>,
    /// Take the images of an image stream of the cluster
    #[arg(long, value_name = "NAME")]
    pub(super) from_image_stream: Option<String>,
    /// The namespace of the image stream
    #[arg(short, long, value_name = "NAME")]
    pub(super) namespace: Option<String>,
    /// Take the images of an image stream in a file; - is standard input
    #[arg(short = 'f', long, value_name = "FILE")]
    pub(super) from_image_stream_file: Option<PathBuf>,
    /// Take manifests from this folder, which has a folder for each operator
    #[arg(long, value_name = "DIR")]
    pub(super) from_dir: Option<PathBuf>,
    /// Take the images of this release
    #[arg(long, value_name = "IMAGE")]
    pub(super) from_release: Option<String>,
    /// Pull specs of an image stream: public (of its public repository) or source (where each image was imported from)
    #[arg(long, value_name = "MODE", default_value = "", hide_default_value = true)]
    reference_mode: String,
    /// Versions of components that no image tells: NAME=VERSION,...
    #[arg(long, value_name = "VERSIONS", default_value = "", hide_default_value = true)]
    pub(super) component_versions: String,
    /// Names of components for people: NAME=TEXT,...
    #[arg(long, value_name = "NAMES", default_value = "", hide_default_value = true)]
    pub(super) component_versions_display_names: String,
    /// The version of the release
    #[arg(long, value_name = "VERSION")]
    name: Option<String>,
    /// Versions that may update to it
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    previous: Vec<String>,
    /// Versions that it may update to
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    next: Vec<String>,
    /// More about the release, as a JSON object
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
    /// Has no effect: release-metadata is always written
    #[arg(long)]
    release_manifest: bool,
    /// Keep images for several platforms as they are, and make a release for all platforms of its base
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set, hide_default_value = true, hide_possible_values = true)]
    pub(super) keep_manifest_list: bool,
    /// Allow operators to mention images that the release does not have
    #[arg(long)]
    allow_missing_images: bool,
    /// Do not read the manifests
    #[arg(long)]
    skip_manifest_check: bool,
    /// Images to leave out
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    exclude: Vec<String>,
    /// Images to keep although no operator mentions them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    include: Vec<String>,
    /// Change nothing in registries
    #[arg(long)]
    dry_run: bool,
    /// Copy all images to this repository, and name them there
    #[arg(long, value_name = "REPOSITORY")]
    mirror: Option<String>,
    /// Write the files to this folder
    #[arg(long, value_name = "DIR", group = "target")]
    to_dir: Option<PathBuf>,
    /// Write the files to this archive; - is standard output
    #[arg(long, value_name = "FILE", group = "target")]
    to_file: Option<PathBuf>,
    /// Push the release to this image
    #[arg(long, value_name = "IMAGE", group = "target")]
    to_image: Option<String>,
    /// The image to build the release on
    #[arg(long, value_name = "IMAGE")]
    to_image_base: Option<String>,
    /// The image of the release to build it on; an empty name is no base
    #[arg(long, value_name = "NAME", default_value = "cluster-version-operator")]
    to_image_base_tag: String,
    /// Write what is to be signed to this file
    #[arg(long, value_name = "FILE")]
    to_signature: Option<PathBuf>,
    /// Print the images as an ImageStream, and make no release
    #[arg(short, long, value_name = "FORMAT", value_parser = ["json"])]
    output: Option<String>,
    #[command(flatten)]
    pub(super) registries: Options,
}

/// Runs it.
pub(super) fn run(arguments: &Arguments, cluster: &ClusterArgs) -> Result<(), Failure> {
    runtime::block_on(async {
        let asked = arguments.asked()?;
        arguments.registries.check()?;
        let mut client = arguments.registries.client()?;
        if arguments.keep_manifest_list {
            // Manifests are the same on all platforms.
            client = client.for_platform(Platform { os: "linux".to_owned(), architecture: "amd64".to_owned(), variant: None });
        }
        let mut sourced = inputs::read(arguments, &asked, &client, cluster).await?;
        if arguments.output.is_some() {
            let name = arguments.version(&sourced);
            return output::json(&(sourced.inputs.references_text(&name) + "\n"));
        }
        let operators = inputs::look(arguments, &client, &mut sourced).await?;
        let description = arguments.description(&sourced).map_err(|error| refuse(&error))?;
        let rules = arguments.rules();
        prune(&mut sourced.inputs, &operators, &rules).map_err(|error| refuse(&error))?.iter().for_each(|note| tell(note));
        let base = match arguments.target(&description.version)? {
            Target::Image(_) => arguments.base(&sourced)?,
            Target::Folder(_) | Target::File(_) => Base::None,
        };
        if let Some(repository) = &arguments.mirror {
            let copying = moved::Copying { client: &client, parallel: arguments.registries.max_per_registry, dry_run: arguments.dry_run };
            copying.to(repository, &description.version, &mut sourced.inputs).await?;
        }
        let composed = compose(&sourced.inputs, operators, &description, &rules).map_err(|error| refuse(&error))?;
        composed.notes.iter().for_each(|note| tell(note));
        arguments.write(&client, &sourced, &description, &composed, base).await
    })
}

impl Arguments {
    /// Checks what can be checked without any input.
    fn asked(&self) -> Result<Asked, Failure> {
        let sources =
            [self.from_image_stream.is_some(), self.from_image_stream_file.is_some(), self.from_release.is_some(), self.from_dir.is_some()];
        let mut mappings = Mappings::default();
        for path in &self.mapping_file {
            let text = super::extract::read_small(path, MAX_MAPPINGS)?;
            mappings.add_file(&path.display().to_string(), &text).map_err(|error| refuse(&error))?;
        }
        self.images.iter().try_for_each(|word| mappings.add(word)).map_err(|error| refuse(&error))?;
        let usage = match sources.iter().filter(|source| **source).count() {
            0 if mappings.all().is_empty() => Some("must specify image mappings when no other source is defined"),
            0 | 1 => None,
            _ => Some("only one of --from-image-stream, --from-image-stream-file, --from-release, or --from-dir may be specified"),
        };
        let usage = usage.or_else(|| match () {
            () if self.to_signature.is_some() && self.to_image.is_none() => Some("--to-signature requires --to-image"),
            () if self.mirror.is_some() && !["", "public"].contains(&self.reference_mode.as_str()) => {
                Some("--reference-mode must be public or empty when using --mirror")
            }
            () => None,
        });
        if let Some(usage) = usage {
            return Err(refuse(&Refused::Usage(usage)));
        }
        let checked = || {
            check_component_versions(&self.component_versions, &self.component_versions_display_names)?;
            let metadata = self.metadata.as_deref().map(Description::metadata).transpose()?;
            let name = self.name.as_deref().unwrap_or("0.0.1");
            Description::new(name, &self.previous, &self.next, metadata.unwrap_or_default())?;
            Ok::<_, ComposeError>(())
        };
        checked().map_err(|error| refuse(&error))?;
        if let Some(image) = &self.to_image {
            written::check_target(image)?;
        }
        let mode = ReferenceMode::parse(&self.reference_mode).map_err(|error| refuse(&error))?;
        let exclude: BTreeSet<String> = self.exclude.iter().cloned().collect();
        Ok(Asked { mappings, exclude, mode, is_changed: self.changes_a_release() })
    }

    /// Returns true if a release that it is made from would be changed.
    fn changes_a_release(&self) -> bool {
        let texts = [&self.component_versions, &self.component_versions_display_names].iter().any(|text| !text.is_empty());
        let lists = [&self.previous, &self.next, &self.images, &self.exclude, &self.include].iter().any(|list| !list.is_empty());
        let options = [&self.name, &self.metadata, &self.to_image_base, &self.mirror].iter().any(|option| option.is_some());
        texts || lists || options || !self.mapping_file.is_empty()
    }

    /// The version of the release; if it was not told, it is made of the time of the newest input.
    fn version(&self, sourced: &Sourced) -> String {
        let of_release = || sourced.release.as_ref().map(|release| release.name.clone()).filter(|name| !name.is_empty());
        let of_time = || format!("0.0.1-{}", sourced.inputs.created().strftime("%Y-%m-%d-%H%M%S"));
        self.name.clone().or_else(of_release).unwrap_or_else(of_time)
    }

    fn description(&self, sourced: &Sourced) -> Result<Description, ComposeError> {
        let before = sourced.release.as_ref().and_then(|release| release.metadata.as_ref());
        let list = |own: &[String], before: Option<&Vec<String>>| {
            if own.is_empty() { before.cloned().unwrap_or_default() } else { own.to_vec() }
        };
        let metadata = match &self.metadata {
            Some(text) => Description::metadata(text)?,
            None => before.map_or_else(Map::new, |before| before.metadata.clone()),
        };
        let previous = list(&self.previous, before.and_then(|before| before.previous.as_ref()));
        let next = list(&self.next, before.map(|before| &before.next));
        Description::new(&self.version(sourced), &previous, &next, metadata)
    }

    fn rules(&self) -> Rules {
        let base = Some(&self.to_image_base_tag).filter(|tag| !tag.is_empty());
        Rules {
            include: self.include.iter().chain(base).cloned().collect(),
            allow_missing_images: self.allow_missing_images,
            skip_manifest_check: self.skip_manifest_check,
        }
    }

    fn target(&self, version: &str) -> Result<Target<'_>, Failure> {
        Ok(match (&self.to_dir, &self.to_file) {
            (Some(folder), _) => Target::Folder(folder),
            (None, Some(file)) => Target::File(file),
            (None, None) => Target::Image(self.to_image.as_deref().map(|image| written::tagged(image, version)).transpose()?),
        })
    }

    /// The image that the release is built on.
    fn base(&self, sourced: &Sourced) -> Result<Base, Failure> {
        if let Some(image) = &self.to_image_base {
            return Ok(Base::Image(image.clone()));
        }
        if let Some(digest) = sourced.release.as_ref().and_then(|release| release.base_digest.clone()) {
            return match sourced.inputs.by_digest(&digest) {
                Some(image) => Ok(Base::Image(image.to_owned())),
                None if self.keep_manifest_list => Ok(Base::Image(self.from_release.clone().unwrap_or_default())),
                None => Err(refuse(&Refused::NoBase(digest))),
            };
        }
        if self.to_image_base_tag.is_empty() {
            return Ok(Base::None);
        }
        let image = sourced.inputs.image(&self.to_image_base_tag);
        let missing = || refuse(&Refused::NoBaseTag(self.to_image_base_tag.clone()));
        Ok(Base::Image(image.ok_or_else(missing)?.to_owned()))
    }

    async fn write(
        &self,
        client: &Client,
        sourced: &Sourced,
        description: &Description,
        composed: &Composed,
        base: Base,
    ) -> Result<(), Failure> {
        let image = match self.target(&description.version)? {
            Target::Folder(folder) => return written::folder(folder, composed),
            Target::File(file) => return written::file(file, composed),
            Target::Image(image) => image,
        };
        let release = Image {
            client,
            base,
            keep_manifest_list: self.keep_manifest_list,
            version: &description.version,
            created: sourced.inputs.created(),
        };
        let reproduced = sourced.release.as_ref().filter(|release| release.is_canonical);
        let built = release.build(composed).await?;
        if let Some(reproduced) = reproduced {
            // Nothing that differs from what it is said to be is pushed.
            reproduced.compare(&built.digest, composed)?;
        }
        if let Some(target) = image.as_ref().filter(|_| !self.dry_run) {
            release.push(&built, target).await?;
            tell(&format!("info: Pushed to {target}"));
        }
        if let (Some(file), Some(target)) = (&self.to_signature, &image) {
            written::signature(file, &built.digest, target, release.created)?;
        }
        output::line(format!("{} {} {}", built.digest, description.version, release.created))
    }
}
