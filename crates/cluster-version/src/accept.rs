//! A wished release on its way into the cluster: verified, retrieved, read, and let through by preconditions (CVO-COND-06, CVO-FLOW-01).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use mainstay_api::config_v1::ClusterVersion;
use mainstay_cluster_version_core::error::PayloadProblem;
use mainstay_cluster_version_core::load::{Load, Step};
use mainstay_cluster_version_core::precondition::{Found, unmet, verdict};
use mainstay_cluster_version_core::wanted::Wanted;
use mainstay_oci::OutboundConfig;
use mainstay_release::signature::SignatureConfigMap;
use mainstay_release::{Capabilities, Files, LoadError, implied};
use mainstay_release_source::signature::CustomStore;
use tokio::time::Instant;

use crate::accepted::{Accepted, Circumstances};
use crate::source::{Genuine, Proof, Releases};

/// The time for one attempt to retrieve a release, of which its verification may take half (CVO-RET-05).
const DEADLINE: Duration = Duration::from_secs(240);
/// The time that a source has to say in its own words that it is late.
const MOMENT: Duration = Duration::from_secs(1);

/// The facts that an acceptance depends on.
pub(crate) struct Facts<'a> {
    pub releases: &'a dyn Releases,
    pub circumstances: &'a Circumstances,
    /// The release in force; none when the operator's own one is loaded.
    pub running: Option<&'a Accepted>,
    pub cluster_version: &'a ClusterVersion,
    pub capabilities: &'a Capabilities,
    pub signatures: &'a Signatures,
    pub now: Timestamp,
}

/// The places where signatures are looked for.
#[derive(Debug, Default)]
pub(crate) struct Signatures {
    pub config_maps: Vec<SignatureConfigMap>,
    pub stores: Option<Vec<CustomStore>>,
    pub outbound: OutboundConfig,
}

/// Loads a release. `step` hears of every step; the last one says why nothing came of it.
pub(crate) async fn accept(wanted: Wanted, facts: &Facts<'_>, step: impl Fn(&Load)) -> (Load, Option<Arc<Accepted>>) {
    let mut load = Load { wanted: wanted.clone(), local: facts.running.is_none(), ..Load::default() };
    let to = |load: &mut Load, next: Step| {
        load.step = Some(next);
        step(load);
    };
    to(&mut load, Step::Retrieving);
    let deadline = Instant::now() + DEADLINE;
    if let Some(running) = facts.running {
        match verify(&wanted, running, facts).await {
            Ok(Proof::Signed) => load.verified = true,
            Ok(Proof::Given) => {
                let Wanted { version, image, .. } = &wanted;
                let quote = mainstay_golang::quote;
                load.accept(&format!(
                    "Target release version={} image={} has no signature: it was given to this program by name",
                    quote(version),
                    quote(image)
                ));
            }
            Err(problem) if wanted.force => {
                let Wanted { version, image, .. } = &wanted;
                let quote = mainstay_golang::quote;
                let risk = format!(
                    "Target release version={} image={} cannot be verified, but continuing anyway because the update was forced: {problem}",
                    quote(version),
                    quote(image)
                );
                load.accept(&risk);
                to(&mut load, Step::Unverified { risk });
            }
            Err(problem) => {
                to(&mut load, Step::NotRetrieved { cause: problem.to_string() });
                return (load, None);
            }
        }
    }
    let files = match retrieve(&wanted, deadline, facts.releases).await {
        Ok(files) => files,
        Err(problem) => {
            to(&mut load, Step::NotRetrieved { cause: problem.to_string() });
            return (load, None);
        }
    };
    to(&mut load, Step::Loading);
    let mut accepted = match read(wanted.clone(), files, facts.circumstances).await {
        Ok(accepted) => accepted,
        Err(error) => {
            to(&mut load, Step::NotLoaded { cause: error.to_string() });
            return (load, None);
        }
    };
    let found = accepted.version().to_owned();
    if !wanted.version.is_empty() && wanted.version != found {
        to(&mut load, Step::OtherVersion { found });
        return (load, None);
    }
    if load.local {
        // The operator knows its own version by its content alone.
        load.wanted.version.clone_from(&found);
        accepted.wanted.version.clone_from(&found);
    }
    if let Some(running) = facts.running {
        let unmet = unmet(Found::ClusterVersion(facts.cluster_version), &found);
        match verdict(&unmet, wanted.force) {
            Some(verdict) if verdict.blocks => {
                to(&mut load, Step::Blocked { summary: verdict.summary });
                return (load, None);
            }
            Some(verdict) => {
                load.accept(&verdict.summary);
                to(&mut load, Step::Warned { summary: verdict.summary });
            }
            None => {}
        }
        to(&mut load, Step::Passed);
        accepted.implied = implied(accepted.manifests(), running.manifests(), facts.capabilities);
    }
    let architecture = Some(accepted.architecture().to_owned());
    to(&mut load, Step::Loaded { architecture });
    (load, Some(Arc::new(accepted)))
}

async fn verify(wanted: &Wanted, running: &Accepted, facts: &Facts<'_>) -> Result<Proof, PayloadProblem> {
    let Signatures { config_maps, stores, outbound } = facts.signatures;
    let question = Genuine {
        image: &wanted.image,
        by: running.image(),
        running: running.manifests(),
        config_maps,
        stores: stores.as_deref(),
        outbound,
        now: facts.now,
    };
    let cause = match tokio::time::timeout(DEADLINE / 2, facts.releases.verify(question)).await {
        Ok(Ok(proof)) => return Ok(proof),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "context deadline exceeded".to_owned(),
    };
    Err(PayloadProblem::NotVerified { cause })
}

async fn retrieve(wanted: &Wanted, deadline: Instant, releases: &dyn Releases) -> Result<Files, PayloadProblem> {
    let cause = match tokio::time::timeout_at(deadline + MOMENT, releases.files(wanted, deadline)).await {
        Ok(Ok(files)) => return Ok(files),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "context deadline exceeded".to_owned(),
    };
    Err(PayloadProblem::NotRetrieved { cause })
}

/// Reads a payload beside the other work: it may have thousands of files.
async fn read(wanted: Wanted, files: Files, circumstances: &Circumstances) -> Result<Accepted, ReadError> {
    let circumstances = circumstances.clone();
    let loaded = tokio::task::spawn_blocking(move || Accepted::load(wanted, &files, &circumstances)).await;
    Ok(loaded??)
}

/// The reason why a payload cannot be read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    /// Its content.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The program ends.
    #[error("the reading was given up")]
    Task(#[from] tokio::task::JoinError),
}
