//! Copies of the images of a new release in another repository (`--mirror`).

use mainstay_oci::Client;
use mainstay_release::ImageReferences;
use mainstay_release::compose::Inputs;
use mainstay_release::mirror::{Destination, Mapping, Mirrored, ReleaseTarget, plan, repository};
use mainstay_terminal::errors::Failure;
use mainstay_terminal::images;

use super::copy::{self, Source, Target};
use super::{Refused, refuse, tell};

/// Settings of copies of images.
pub(super) struct Copying<'a> {
    pub client: &'a Client,
    pub parallel: usize,
    pub dry_run: bool,
}

impl Copying<'_> {
    /// Copies all images to a repository, and names them there.
    pub(super) async fn to(&self, target: &str, version: &str, inputs: &mut Inputs) -> Result<(), Failure> {
        let destination = Destination::parse(target).map_err(|error| refuse(&error))?;
        let references = ImageReferences::parse(inputs.references_text(version).as_bytes()).map_err(|error| refuse(&error))?;
        let mirrored = Mirrored { source: "", digest: "", architecture: None };
        let plan = plan(&references, mirrored, &destination, ReleaseTarget::Skipped).map_err(|error| refuse(&error))?;
        tell(&format!("info: Mirroring {} images to {target} ...", plan.images.len()));
        if !self.dry_run {
            self.copy(&plan.images).await?;
        }
        let of = |name: &str| plan.images.iter().find(|mapping| mapping.component.as_deref() == Some(name));
        inputs.moved(|name| of(name).map(|mapping| format!("{}@{}", repository(&mapping.target), mapping.digest)));
        Ok(())
    }

    async fn copy(&self, mappings: &[Mapping]) -> Result<(), Failure> {
        let mut failed = 0;
        let done = |mapping: &Mapping, outcome: Result<(), mainstay_oci::Error>| {
            if let Err(error) = outcome {
                tell(&format!("error: unable to mirror {}: {}", mapping.source, mainstay_diagnostics::chain(&error)));
                failed += 1;
            }
        };
        let copied = copy::all(self.client, &Source::Registries, &Target::Registries, mappings, self.parallel.clamp(1, 64), done).await;
        copied.map_err(|error| images::failure("mirror", &error))?;
        if failed > 0 { Err(refuse(&Refused::NotMirrored { failed, all: mappings.len() })) } else { Ok(()) }
    }
}
