//! The plan of a cluster's update and its readiness, on a live cluster (MS-PLAN-01, MS-READY-01, CVO-SIM-03). Everything is read; nothing is written.
//!
//! ```text
//!   ClusterVersion, both releases ── concerned objects ── read ──► Plan::against
//!   operators, pools, nodes, pods, budgets, CRDs with their objects ── read, each for itself ──┐
//!   next content of catalogs, images of the release ── asked of registries ───────────────────┴──► readiness::check
//! ```

mod answers;
mod catalogs;
mod certificates;
mod facts;
mod images;
mod saved;

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use mainstay_api::config_v1::ClusterVersion;
use mainstay_apply::WriteError;
use mainstay_cluster_version_core::apply::{Change, ClusterVersionRef, change};
use mainstay_cluster_version_core::plan::{Cluster, Effect, Live, Plan, Side, concerned};
use mainstay_cluster_version_core::readiness::{self, CrdFacts, Estimate, Facts, ImageAnswers, Read, Release, Report, Target, estimate};
use mainstay_diagnostics::{Failure, FailureKind, SharedError};
use mainstay_objects::ObjectRef;
use mainstay_release::info::components;
use mainstay_release::{Capabilities, Files, Filter, Manifest, Metadata, Override, Payload, Values};
use mainstay_versions::Version;
use mainstay_workloads::node::object::SIMULATED;
use serde_json::{Value, json};

pub use answers::{Answers, InvalidAnswers};
pub use saved::{SavedUpdate, Update};

use crate::cluster_update::cluster_version;
use crate::failure::not_written;
use crate::progress::Progress;
use crate::session::{ClusterRegistries, Session};
use catalogs::Releases;
use facts::{ClusterFacts, text};

/// Objects that are read at once.
const AT_A_TIME: usize = 16;
const DEFINITION: &str = "CustomResourceDefinition";

/// The releases of an update, by their images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// The version that the cluster has.
    pub current_version: String,
    /// Its image.
    pub current: String,
    /// The image of the wanted one, if the cluster knows it.
    pub target: Option<String>,
    /// The cluster's identity.
    pub cluster: String,
}

/// The content of a release.
#[derive(Debug)]
pub struct Content {
    /// Its files.
    pub files: Files,
    /// The place, for messages.
    pub place: String,
    /// The pull spec that the cluster knows it by, or else its place.
    pub image: String,
}

/// The contents of both releases.
#[derive(Debug)]
pub struct Contents {
    /// That of the cluster.
    pub current: Content,
    /// The wanted one.
    pub target: Content,
}

/// The update that is asked about.
#[derive(Debug)]
pub struct Question<'a> {
    /// The wanted version.
    pub version: &'a str,
    /// The releases, or why they cannot be read: the checks of content are not made then.
    pub contents: Result<&'a Contents, SharedError>,
    /// The profile of the cluster.
    pub profile: &'a str,
    /// Answers of metrics to the queries of risks; none if the cluster's own evaluation counts.
    pub answers: Option<&'a Answers>,
}

/// The facts about an update before it is asked for.
#[derive(Debug)]
pub struct Assessment {
    /// The objects that it writes; none if the releases cannot be read.
    pub plan: Option<Plan>,
    /// The findings: what blocks it, and what it risks.
    pub report: Report,
    /// The parts that take time.
    pub estimate: Estimate,
}

/// Returns the images of an update.
///
/// # Errors
/// The cluster runs no release.
pub async fn images(session: &Session, version: &str) -> Result<Images, Failure> {
    let (live, found) = observed(session).await?;
    let status = &found.status;
    let known = status.available_updates.iter().flatten().chain(status.conditional_updates.iter().map(|update| &update.release));
    let known = known.map(|release| (&release.version, &release.image));
    let known = known.chain(status.history.iter().map(|entry| (&entry.version, &entry.image)));
    let target = known.into_iter().find(|(known, _)| *known == version).map(|(_, image)| image.clone());
    Ok(Images {
        current_version: status.desired.version.clone(),
        current: status.desired.image.clone(),
        target,
        cluster: text(&live, "/spec/clusterID").to_owned(),
    })
}

/// Reads what the update depends on, plans it and makes every check.
///
/// # Errors
/// The ClusterVersion, a release or an object that the update writes cannot be read. Other facts that cannot be read are named in the report.
pub async fn assess(session: &Session, question: &Question<'_>, progress: &mut dyn Progress) -> Result<Assessment, Failure> {
    let (live, cluster_version) = observed(session).await?;
    progress.doing("read the cluster");
    let read = Box::pin(facts::read(session)).await;
    let content = match &question.contents {
        Ok(contents) => Ok(planned(session, contents, question.profile, (&live, &cluster_version), progress).await?),
        Err(error) => Err(error.clone()),
    };
    let answered_risks = question.answers.and_then(|answers| answers.recommended(&live, question.version));
    let estimate = estimate(&cluster_version, read.pools.as_deref().unwrap_or_default(), read.nodes.as_deref().unwrap_or_default());
    let release: Read<Release<'_>> = match &content {
        Ok(content) => Ok(Release { plan: &content.plan, kubernetes: content.kubernetes.clone(), crds: content.crds.clone() }),
        Err(error) => Err(error.clone()),
    };
    let current = cluster_version.status.desired.version.as_str();
    let releases =
        Releases { from: current, to: question.version, kubernetes: release.as_ref().ok().and_then(|release| release.kubernetes.as_ref()) };
    let catalog_operators = read.sources.operators();
    let next_catalogs = read.sources.next(session, &catalog_operators, &releases, progress).await;
    let images = image_answers(session, question, &read, progress).await;
    let target = Target { version: question.version, release };
    let report = readiness::check(&Facts {
        cluster_version: &cluster_version,
        target,
        answered_risks,
        operators: read.operators,
        pools: read.pools,
        nodes: read.nodes,
        pods: read.pods,
        budgets: read.budgets,
        gates: read.gates,
        acks: read.acks,
        operator_limits: read.operator_limits,
        deprecated_requests: read.deprecated_requests,
        webhooks: read.webhooks,
        ready_services: read.ready_services,
        failing_health: read.failing_health,
        now: Timestamp::now(),
        certificates: read.certificates,
        catalog_operators,
        next_catalogs,
        images,
    });
    Ok(Assessment { plan: content.ok().map(|content| content.plan), report, estimate })
}

/// Asks the registries for the images of the wanted release, unless nothing pulls them.
async fn image_answers(session: &Session, question: &Question<'_>, read: &ClusterFacts, progress: &mut dyn Progress) -> Read<ImageAnswers> {
    let contents = question.contents.as_ref().map_err(Clone::clone)?;
    let is_simulated = |node: &Value| node["metadata"]["labels"][SIMULATED] == "true";
    if read.nodes.as_ref().is_ok_and(|nodes| nodes.iter().all(is_simulated)) {
        return Ok(ImageAnswers::NotPulled);
    }
    let wanted = images::of_release(&contents.target.files)?;
    progress.doing(&format!("ask for the {} images of the release", wanted.len()));
    let cluster = ClusterRegistries { mirrors: read.mirrors.clone(), pull_secret: facts::pull_secret(session).await };
    Ok(images::ask(&session.registries.client_of(&cluster)?, wanted).await)
}

async fn observed(session: &Session) -> Result<(Value, ClusterVersion), Failure> {
    let Some(live) = cluster_version(session).await? else {
        let failure = Failure::new(FailureKind::NotFound, "clusterversion version", "not found");
        return Err(failure.because("this cluster runs no release").hint("mainstay up --help names --release"));
    };
    let typed = serde_json::from_value(live.clone()).map_err(|error| Failure::failed("clusterversion version", &error))?;
    Ok((live, typed))
}

/// The plan with what only it needs.
struct Planned {
    plan: Plan,
    kubernetes: Option<Version>,
    crds: Vec<CrdFacts>,
}

/// A release that was read.
struct Loaded {
    metadata: Metadata,
    manifests: Vec<Manifest>,
}

impl Loaded {
    fn of(content: &Content, profile: &str) -> Result<Self, Failure> {
        let subject = format!("release {}", content.place);
        let metadata = content.files.release("release-metadata");
        let metadata = metadata.ok_or_else(|| Failure::new(FailureKind::Failed, &*subject, "has no release-metadata"))?;
        let metadata = Metadata::parse(metadata).map_err(|error| Failure::failed(&subject, &error))?;
        let values = Values { release_image: &content.image, cluster_profile: profile };
        let manifests = Payload::all(&content.files, values, &content.place).map_err(|error| Failure::failed(&subject, &error))?;
        Ok(Self { metadata, manifests })
    }

    fn side(&self) -> Side<'_> {
        Side { version: &self.metadata.version_text, manifests: &self.manifests }
    }
}

async fn planned(
    session: &Session,
    contents: &Contents,
    profile: &str,
    (live, cluster_version): (&Value, &ClusterVersion),
    progress: &mut dyn Progress,
) -> Result<Planned, Failure> {
    let (current, target) = (Loaded::of(&contents.current, profile)?, Loaded::of(&contents.target, profile)?);
    let invalid = |error: &(dyn std::error::Error + 'static)| Failure::failed("clusterversion version", error);
    let enabled = cluster_version.status.capabilities.enabled_capabilities.iter().map(|one| one.0.clone());
    let capabilities = Capabilities::of(&live["spec"]["capabilities"], enabled).map_err(|error| invalid(&error))?;
    let overrides = live["spec"]["overrides"].clone();
    let overrides: Option<Vec<Override>> = serde_json::from_value(overrides).map_err(|error| invalid(&error))?;
    let overrides = overrides.unwrap_or_default();
    let feature_set = facts::feature_set(session).await?;
    let filter = Filter {
        exclude_identifier: Some(""),
        feature_set: Some(&feature_set),
        profile: Some(profile),
        overrides: &overrides,
        ..Filter::default()
    };
    progress.doing("read the objects that the update is about");
    let objects = read(session, &concerned(&target.manifests, &filter)).await?;
    let settings = facts::settings(session).await?;
    let uid = live["metadata"]["uid"].as_str().unwrap_or_default();
    let owner = ClusterVersionRef { name: "version", uid };
    let cluster = Cluster { objects: &objects, owner, settings: &settings };
    let plan = Plan::against(cluster, current.side(), target.side(), &target.metadata.previous, &filter, &capabilities);
    progress.doing("read the objects of the definitions that change");
    let crds = changed(session, &plan, &target.manifests, &objects).await;
    Ok(Planned { plan, kubernetes: kubernetes(&contents.target.files), crds })
}

/// Reads the objects that manifests are about.
async fn read(session: &Session, manifests: &[&Manifest]) -> Result<Live, Failure> {
    let one = |manifest: &Manifest| {
        let id = manifest.id().clone();
        let (namespace, name) = (id.namespace.clone(), id.name.clone());
        let place = ObjectRef { api_version: manifest.api_version(), kind: id.kind.clone(), namespace, name };
        async move {
            match session.writer.get(&place).await {
                // Its kind comes with the release.
                Err(WriteError::Kind { .. }) => Ok((id, None)),
                found => found.map(|found| (id, found)).map_err(|error| not_written(&error)),
            }
        }
    };
    let reads: Vec<_> = manifests.iter().map(|manifest| one(manifest)).collect();
    let found: Vec<_> = futures::stream::iter(reads).buffer_unordered(AT_A_TIME).try_collect().await?;
    Ok(found.into_iter().filter_map(|(id, object)| Some((id, object?))).collect())
}

/// The definitions whose versions the update changes, with the objects of their kinds.
async fn changed(session: &Session, plan: &Plan, manifests: &[Manifest], objects: &Live) -> Vec<CrdFacts> {
    let updated = plan.groups.iter().flat_map(|group| &group.objects);
    let updated = updated.filter(|object| object.id.kind == DEFINITION && matches!(object.effect, Effect::Update { .. }));
    let files: BTreeMap<&str, &str> = updated.map(|object| (object.file.as_str(), object.id.name.as_str())).collect();
    let mut crds = Vec::new();
    for manifest in manifests.iter().filter(|manifest| files.get(manifest.file()) == Some(&manifest.id().name.as_str())) {
        let Some(live) = objects.get(manifest.id()) else { continue };
        let Ok(Change::Update(wanted)) = change(Some(live), &manifest.object()) else { continue };
        if wanted["spec"] == live["spec"] {
            continue;
        }
        let instances = crate::facts::instances(session, live).await.map_err(SharedError::from);
        crds.push(CrdFacts { live: live.clone(), wanted, instances });
    }
    crds
}

/// The version of Kubernetes that the images of a release name.
fn kubernetes(files: &Files) -> Option<Version> {
    let references: Value = serde_json::from_slice(files.release("image-references")?).unwrap_or(json!({}));
    components(&references).components.get("kubernetes").and_then(|component| Version::parse(&component.version).ok())
}
