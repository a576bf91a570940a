//! The behaviour of the simulated nodes: intended failures, and the images that exist (KAPI-WL-03).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clap::Args;
use mainstay_oci::{Client, Reference};
use mainstay_terminal::errors::Failure;
use mainstay_terminal::images;
use mainstay_workloads::{ImageFault, PullError, Registries, Script};

use crate::durations;

/// Arguments.
#[derive(Clone, Debug, Default, Args)]
#[group(skip)]
#[command(next_help_heading = "Simulated nodes")]
pub struct Arguments {
    /// How long pods take to start: 500ms, 10s, 2m
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = durations::parse)]
    start_delay: Duration,
    /// Time that a node takes to reboot for a new configuration
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = durations::parse)]
    reboot_delay: Duration,
    /// What goes wrong with the containers of an image, * standing for anything; may be repeated
    ///
    /// Faults are image-pull, config-error, crash-loop[=CODE], oom, never-ready, slow-start=TIME, slow-stop=TIME, exit-code=CODE and
    /// run-for=TIME, several with commas between them. The annotation mainstay.dev/fault on a pod or its template scripts the same
    /// for its containers (`CONTAINER:FAULT` for one of them); on a node it may be not-ready, silent, memory-pressure, disk-pressure
    /// or pid-pressure.
    #[arg(long = "fault", value_name = "IMAGE=FAULT")]
    faults: Vec<ImageFault>,
    /// Pods whose image no registry holds wait for it (ErrImagePull, ImagePullBackOff), as on real nodes
    ///
    /// Registries are asked with the credentials and mirrors that mainstay uses for catalogs and bundles.
    #[arg(long)]
    verify_images: bool,
    /// Machines with the provider specs of clouds (AWS, Azure, Google, vSphere ...) get simulated instances; for rehearsals
    ///
    /// The component machine-api has to run. No cloud is asked, and what is made says mainstay.dev/simulated.
    #[arg(long)]
    simulate_cloud: bool,
}

impl Arguments {
    /// The behaviour of pods.
    pub fn script(&self) -> Script {
        Script { start_delay: self.start_delay, faults: self.faults.clone() }
    }

    /// Whether the machines of clouds are simulated, too.
    pub fn clouds(&self) -> bool {
        self.simulate_cloud
    }

    /// The time that a node takes to reboot.
    pub fn reboot_delay(&self) -> Duration {
        self.reboot_delay
    }

    /// The registries that are asked for images.
    ///
    /// # Errors
    /// The user's credentials or mirrors cannot be read.
    pub fn registries(&self) -> Result<Option<Arc<dyn Registries>>, Failure> {
        if !self.verify_images {
            return Ok(None);
        }
        Ok(Some(Arc::new(Asked { client: images::client()? })))
    }
}

struct Asked {
    client: Client,
}

#[async_trait]
impl Registries for Asked {
    async fn check(&self, image: &str) -> Result<(), PullError> {
        let reference = Reference::parse_familiar(image)?;
        match self.client.resolve(&reference).await {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("failed to resolve reference {:?}: {error}", reference.to_string()).into()),
        }
    }
}
