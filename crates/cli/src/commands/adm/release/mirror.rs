//! `mainstay adm release mirror` (CVO-RELM).

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use mainstay_oci::Layout;
use mainstay_release::ReleaseImage;
use mainstay_release::mirror::{Destination, Mapping, Mirrored, Plan, ReleaseTarget, instructions, plan, repository};
use mainstay_release::{Folder, ImageReferences};
use mainstay_release_source::Release;
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::progress::Progress;
use mainstay_terminal::{images, output, runtime};

use super::copy::{self, Kept, Source, Target};
use super::registry::Options;
use super::{Refused, refuse, resolve, signatures, tell};

/// The repository of a directory that images are named by, unless another one is asked for.
const IN_DIRECTORY: &str = "openshift/release";
/// The folder of a directory that signatures are kept in.
const CONFIG: &str = "config";
const REFERENCES: &str = "image-references";

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay adm release mirror quay.example/release:4.19.44 --to registry.example/ocp/release
  mainstay adm release mirror quay.example/release:4.19.44 --to registry.example/ocp/release --dry-run
  mainstay adm release mirror quay.example/release:4.19.44 --to-dir mirror
  mainstay adm release mirror --from-dir mirror --to registry.example/ocp/release --apply-release-image-signature

All digests stay the same. The release is verified before anything is copied, with the keys that it brings. What was copied already is not copied
again, so an interrupted command is simply repeated. A directory is an OCI layout; the signatures lie in its folder config.

Exit codes: 0 done, 1 refused, or an image could not be copied.")]
#[expect(clippy::struct_excessive_bools, reason = "one per flag")]
pub struct Arguments {
    /// The release
    #[arg(value_name = "IMAGE")]
    images: Vec<String>,
    /// The release; with --from-dir its name there
    #[arg(long, value_name = "IMAGE")]
    from: Option<String>,
    /// The directory that an earlier mirror was written to
    #[arg(long, value_name = "DIR")]
    from_dir: Option<PathBuf>,
    /// The repository to copy to, or a pattern such as registry.example/ocp:${version}-${component}
    #[arg(long, value_name = "REPOSITORY")]
    to: Option<String>,
    /// The directory to copy to
    #[arg(long, value_name = "DIR")]
    to_dir: Option<PathBuf>,
    #[arg(long, hide = true)]
    to_image_stream: Option<String>,
    /// Print what is to be copied where, for other programs
    #[arg(long)]
    to_mirror: bool,
    /// Another target of the release itself
    #[arg(long, value_name = "IMAGE")]
    to_release_image: Option<String>,
    /// Copy the images only
    #[arg(long)]
    skip_release_image: bool,
    /// Copy a release for several platforms as it is, instead of that of one platform
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set, hide_default_value = true, hide_possible_values = true)]
    keep_manifest_list: bool,
    /// Show what would be copied and written
    #[arg(long)]
    dry_run: bool,
    /// The configuration of clusters to show
    #[arg(long, value_name = "KIND", default_value = "idms")]
    print_mirror_instructions: Shown,
    /// Create the ConfigMap with the signatures on the cluster
    #[arg(long)]
    apply_release_image_signature: bool,
    /// Replace the ConfigMap on the cluster
    #[arg(long)]
    overwrite: bool,
    /// The directory that the ConfigMap with the signatures is written to
    #[arg(long, value_name = "DIR")]
    release_image_signature_to_dir: Option<PathBuf>,
    #[command(flatten)]
    registries: Options,
}

/// The configuration of clusters that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shown {
    /// An ImageContentSourcePolicy.
    Icsp,
    /// An ImageDigestMirrorSet.
    Idms,
    /// None.
    None,
}

/// The release that is to be mirrored.
struct Asked {
    release: Release,
    /// Its name to the user.
    named: String,
    /// The pull spec that clusters know it by; none for a release of a file.
    known: Option<String>,
    source: Source,
}

/// Runs it.
pub(super) fn run(arguments: &Arguments, cluster: &ClusterArgs) -> Result<(), Failure> {
    runtime::block_on(async {
        arguments.check().map_err(|error| refuse(&error))?;
        arguments.registries.check()?;
        let to = arguments.destination();
        let destination = Destination::parse(&to).map_err(|error| refuse(&error))?;
        let client = arguments.registries.client()?;
        let asked = arguments.asked(cluster, &client).await?;
        let content = asked.release.files.in_folder(Folder::Release).find(|(name, _)| *name == REFERENCES);
        let (_, content) = content.ok_or_else(|| refuse(&Refused::NoFile(REFERENCES.to_owned())))?;
        let references = ImageReferences::parse(content).map_err(|error| refuse(&error))?;
        let image = asked.release.image.as_ref().ok_or_else(|| refuse(&Refused::NoImage(asked.named.clone())))?;
        let digest = arguments.digest(image);
        let by_digest = format!("{}@{digest}", repository(asked.known.as_deref().unwrap_or(&asked.named)));

        let beside = arguments.from_dir.as_ref().map(|folder| folder.join(CONFIG));
        let verified = signatures::verify(&asked.release, &by_digest, beside.as_deref()).await?;
        let signatures_asked = arguments.apply_release_image_signature || arguments.release_image_signature_to_dir.is_some();
        if verified.is_none() && signatures_asked {
            return Err(refuse(&Refused::NoSignatures));
        }

        let mirrored = Mirrored { source: &by_digest, digest, architecture: Some(arguments.architecture(image)) };
        let plan = plan(&references, mirrored, &destination, arguments.release_target()).map_err(|error| refuse(&error))?;
        let mappings: Vec<Mapping> = plan.release.iter().chain(&plan.images).cloned().collect();
        if mappings.is_empty() {
            tell("warning: Release image contains no image references - is this a valid release?");
        }
        if arguments.to_mirror {
            return mappings.iter().try_for_each(|mapping| output::line(format!("{} {}", mapping.source, mapping.target)));
        }
        tell(&format!("info: Mirroring {} images to {to} ...", mappings.len()));
        if arguments.dry_run {
            mappings.iter().try_for_each(|mapping| output::line(format!("{} {}", mapping.digest, mapping.target)))?;
            tell("info: Dry run complete");
        } else {
            arguments.copy(&client, &asked.source, &mappings).await?;
        }
        arguments.report(&plan, &destination, asked.known.as_deref())?;
        let Some(verified) = verified else { return Ok(()) };
        let folder = arguments.signature_folder();
        let wanted = signatures::Wanted {
            folder: folder.as_deref(),
            cluster: arguments.apply_release_image_signature.then_some(cluster),
            overwrite: arguments.overwrite,
            dry_run: arguments.dry_run,
        };
        wanted.write(&verified).await
    })
}

impl Arguments {
    fn check(&self) -> Result<(), Refused> {
        if self.from.is_some() && !self.images.is_empty() {
            return Err(Refused::Usage("you may not specify an argument and --from"));
        }
        if self.images.len() > 1 {
            return Err(Refused::Usage("only one argument is accepted"));
        }
        if self.from.is_none() && self.images.is_empty() && self.from_dir.is_none() {
            return Err(Refused::Usage("must specify a release image with --from"));
        }
        if self.to_image_stream.is_some() {
            return Err(Refused::Usage(
                "--to-image-stream is not offered: an image stream is filled by the API server of OpenShift, which pulls the images itself; \
                 --to copies them to a registry",
            ));
        }
        if self.to.is_none() && self.to_dir.is_none() && !self.to_mirror {
            return Err(Refused::Usage("must specify an image repository or image stream to mirror the release to"));
        }
        if self.to_dir.is_some() && self.to.as_deref().is_some_and(|to| !to.starts_with("file://")) {
            return Err(Refused::Usage("only one of --to-dir and a registry in --to may be specified"));
        }
        if self.skip_release_image && self.to_release_image.is_some() {
            return Err(Refused::Usage("--skip-release-image and --to-release-image may not both be specified"));
        }
        if self.overwrite && !self.apply_release_image_signature {
            return Err(Refused::Usage("--overwrite is only valid when --apply-release-image-signature is specified"));
        }
        Ok(())
    }

    /// The directory that is written to.
    fn folder(&self) -> Option<PathBuf> {
        let here = || self.to.as_deref().is_some_and(|to| to.starts_with("file://")).then(|| PathBuf::from("."));
        self.to_dir.clone().or_else(here)
    }

    fn destination(&self) -> String {
        let to = self.to.as_deref().map_or(IN_DIRECTORY, |to| to.strip_prefix("file://").unwrap_or(to));
        to.to_owned()
    }

    fn signature_folder(&self) -> Option<PathBuf> {
        self.release_image_signature_to_dir.clone().or_else(|| self.to_dir.as_ref().map(|folder| folder.join(CONFIG)))
    }

    fn release_target(&self) -> ReleaseTarget<'_> {
        match &self.to_release_image {
            Some(image) => ReleaseTarget::Image(image),
            None if self.skip_release_image => ReleaseTarget::Skipped,
            None => ReleaseTarget::Destination,
        }
    }

    /// The digest of what is copied: the whole list of platforms, or the manifest of one.
    fn digest<'a>(&self, image: &'a ReleaseImage) -> &'a str {
        if self.keep_manifest_list { &image.listed } else { &image.digest }
    }

    fn architecture<'a>(&self, image: &'a ReleaseImage) -> &'a str {
        if self.keep_manifest_list && image.listed != image.digest { "multi" } else { image.architecture() }
    }

    /// Reads the release.
    async fn asked(&self, cluster: &ClusterArgs, client: &mainstay_oci::Client) -> Result<Asked, Failure> {
        let named = self.from.iter().chain(&self.images).next();
        let Some(folder) = &self.from_dir else {
            let named: Vec<String> = named.into_iter().cloned().collect();
            let named = resolve(&named, cluster).await?.swap_remove(0);
            let release = self.registries.read(&named, client).await.map_err(|error| refuse(&error))?;
            return Ok(Asked { release, known: Some(named.clone()), named, source: Source::Registries });
        };
        let kept = Kept::open(folder).map_err(|error| images::failure(&format!("directory {}", folder.display()), &error))?;
        let (name, known) = kept_release(folder, &kept, named.map(String::as_str))?;
        let named = format!("{}:{name}", folder.display());
        let release = self.registries.read(&named, client).await.map_err(|error| refuse(&error))?;
        Ok(Asked { release, named, known: Some(known), source: Source::Directory(kept) })
    }

    async fn copy(&self, client: &mainstay_oci::Client, source: &Source, mappings: &[Mapping]) -> Result<(), Failure> {
        let target = match self.folder() {
            None => Target::Registries,
            Some(folder) => {
                let layout = Layout::create(&folder);
                Target::Directory(layout.map_err(|error| images::failure(&format!("directory {}", folder.display()), &error))?)
            }
        };
        let (mut progress, mut lines, mut failed) = (Progress::start(), Vec::new(), 0);
        let done = |mapping: &Mapping, outcome: Result<(), mainstay_oci::Error>| match outcome {
            Ok(()) => {
                progress.doing(&format!("image {} of {}: {}", lines.len() + failed + 1, mappings.len(), mapping.target));
                lines.push(format!("{} {}", mapping.digest, mapping.target));
            }
            Err(error) => {
                tell(&format!("error: unable to mirror {}: {}", mapping.source, mainstay_diagnostics::chain(&error)));
                failed += 1;
            }
        };
        let parallel = self.registries.max_per_registry.clamp(1, 64);
        let copied = copy::all(client, source, &target, mappings, parallel, done).await;
        copied.map_err(|error| images::failure("mirror", &error))?;
        drop(progress);
        lines.iter().try_for_each(output::line)?;
        if failed > 0 { Err(refuse(&Refused::NotMirrored { failed, all: mappings.len() })) } else { Ok(()) }
    }

    /// Tells how the mirror is used.
    fn report(&self, plan: &Plan, destination: &Destination, known: Option<&str>) -> Result<(), Failure> {
        output::line(format!("\nSuccess\nUpdate image:  {}", plan.update_image))?;
        if let Some(folder) = self.folder() {
            return output::line(format!(
                "\nTo upload local images to a registry, run:\n\n    mainstay adm release mirror --from-dir={} --to=REGISTRY/REPOSITORY\n",
                folder.display()
            ));
        }
        let mirrors: Vec<String> = self.to.iter().chain(&self.to_release_image).cloned().collect();
        let word = if destination.is_repository() { "Mirror prefix" } else { "Mirrored to" };
        mirrors.iter().try_for_each(|mirror| output::line(format!("{word}: {mirror}")))?;
        let kind = match self.print_mirror_instructions {
            Shown::None => return Ok(()),
            Shown::Icsp => mainstay_release::mirror::Instructions::Icsp,
            Shown::Idms => mainstay_release::mirror::Instructions::Idms,
        };
        let mut repositories = plan.repositories.clone();
        repositories.extend(known.map(|image| repository(image).to_owned()));
        output::print(&instructions(kind, &repositories, &mirrors))?;
        match &self.release_image_signature_to_dir {
            Some(folder) => {
                output::line(format!("\n\nTo apply signature configmaps use 'oc apply' on files found in {}\n", folder.display()))
            }
            None => Ok(()),
        }
    }
}

/// Finds the release of a directory, and the pull spec that it was mirrored from.
fn kept_release(folder: &Path, kept: &Kept, named: Option<&str>) -> Result<(String, String), Failure> {
    let wanted = named.map(|name| name.strip_prefix("file://").unwrap_or(name));
    let all: Vec<_> = kept.releases().collect();
    let matches = |release: &&copy::KeptRelease<'_>| wanted.is_none_or(|wanted| release.name == wanted || release.source == wanted);
    let mut found = all.iter().filter(matches);
    let (first, more) = (found.next(), found.next().is_some());
    let folder = folder.display().to_string();
    let names = || all.iter().map(|release| format!("\n  {}", release.name)).collect::<Vec<_>>().concat();
    match first {
        Some(release) if !more => Ok((release.name.to_owned(), release.source.to_owned())),
        Some(_) => Err(refuse(&Refused::Releases { folder, count: all.len(), names: names() })),
        None => {
            let name = wanted.unwrap_or_default().to_owned();
            Err(refuse(&Refused::NoKeptRelease { folder, name, names: names() }))
        }
    }
}
