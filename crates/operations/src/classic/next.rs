//! The next InstallPlans of a namespace before OLM makes them: the catalogs are read in this process, and the controller's own decision is asked
//! (OLM0-UPG-12).
//!
//! ```text
//!   Subscriptions, CSVs, groups ─┐
//!   catalogs, by image or gRPC ──┴─► resolve::decide ──► bundles pulled ──► steps ──► compared with the cluster
//!                                          ▲                                  │
//!                                          └── afterwards, until --to ◄───────┘
//! ```

use std::sync::Arc;

use mainstay_catalog::{MemorySource, Source};
use mainstay_catalog_refs::{Access, BoxError, Kind as Accepted, open_image};
use mainstay_catalog_serve::cache::Cache;
use mainstay_catalog_serve::grpc::RemoteRegistry;
use mainstay_diagnostics::{Failure, FailureKind, chain};
use mainstay_olm_classic::catalog::resolver_content;
use mainstay_olm_classic_core::catalog_source::is_ready;
use mainstay_olm_classic_core::install_plan::{self, Content, afterwards};
use mainstay_olm_classic_core::overview::is_copy;
use mainstay_olm_classic_core::resolve::{
    self, Catalog, CatalogFailure, Content as CatalogContent, Csv, EXCLUDE_GLOBAL, Isolation, OperatorGroup, Part, Snapshot, Subscription,
};
use mainstay_olm_classic_core::source::SourceKey;
use mainstay_olm_classic_core::steps;
use serde_json::Value;

use super::approval::{Preview, preview};
use super::explain::GLOBAL_CATALOGS;
use super::manifests::pulled;
use super::objects::{CATALOG_SOURCE, CSV, INSTALL_PLAN, OPERATOR_GROUP, SUBSCRIPTION, list, text};
use crate::progress::Progress;
use crate::session::Session;
use crate::{images, registry_addresses};

/// The longest chain of updates that is followed.
const MOST: usize = 200;

/// The question.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The Subscription.
    pub subscription: &'a str,
    /// The channel that it is to follow instead of its own.
    pub channel: Option<&'a str>,
    /// The version up to which updates are followed; the next one alone if none is given.
    pub to: Option<&'a str>,
}

/// An update of the Subscription, and what its InstallPlan would write.
#[derive(Debug, Clone)]
pub struct Update {
    /// The CSV that the Subscription moves on to.
    pub csv: String,
    /// Its version.
    pub version: String,
    /// The InstallPlan, compared with the cluster as it is now.
    pub preview: Preview,
}

/// The updates that follow.
#[derive(Debug, Clone, Default)]
pub struct Next {
    /// The updates in order; none if nothing follows.
    pub updates: Vec<Update>,
    /// Why OLM refuses to resolve the Subscription.
    pub refused: Option<String>,
    /// Notes on content that was passed over, or that concern other Subscriptions of the namespace.
    pub notes: Vec<String>,
}

/// Asks what OLM would do next. Nothing is written.
///
/// # Errors
/// A bundle cannot be read, or the wanted version is not reached.
pub async fn next(session: &Session, question: Question<'_>, progress: &mut dyn Progress) -> Result<Next, Failure> {
    let mut next = Next::default();
    let objects = list(session, SUBSCRIPTION, Some(question.namespace)).await?;
    let mut snapshot = snapshot(session, question, &objects, &mut next.notes, progress).await?;
    let plans = list(session, INSTALL_PLAN, Some(question.namespace)).await?;
    let newest = plans.iter().map(install_plan::generation).max().unwrap_or_default();
    let installed = |snapshot: &Snapshot, csv: &str| {
        snapshot.csvs.iter().find(|one| one.name == csv && one.namespace == question.namespace).map(|one| one.version.clone())
    };
    let begun = snapshot.subscriptions.iter().find(|one| one.name == question.subscription).map(|one| one.installed_csv.clone());
    if let (Some(to), Some(csv)) = (question.to, &begun)
        && installed(&snapshot, csv).as_deref() == Some(to)
    {
        next.notes.push(format!("{csv} is installed, which is version {to}"));
        return Ok(next);
    }
    for step in 1..=MOST {
        let asked = snapshot.clone();
        let decide = move || resolve::decide(&asked, Isolation::Component);
        let verdict = tokio::task::spawn_blocking(decide).await.map_err(|error| Failure::failed("resolution", &error))?;
        for refusal in verdict.refusals {
            if refusal.subscriptions.iter().any(|name| name == question.subscription) {
                next.refused = Some(refusal.error.to_string());
            } else if step == 1 {
                next.notes.push(format!("subscription {} cannot be resolved: {}", refusal.subscriptions.join(", "), refusal.error));
            }
        }
        let mine = verdict.parts.into_iter().find(|part| part.subscriptions.iter().any(|name| name == question.subscription));
        let update = mine.as_ref().and_then(|part| part.steps.updated.iter().find(|one| one.name == question.subscription));
        let (Some(part), Some(csv)) = (&mine, update.map(|update| update.current_csv.clone())) else { break };
        let content = content(session, question.namespace, part, progress).await?;
        let plan = made(question.namespace, newest + i64::try_from(step).unwrap_or(i64::MAX), &objects, &content);
        let mut shown = preview(session, plan).await?;
        shown.subscriptions = part.steps.updated.iter().map(|updated| updated.name.clone()).collect();
        snapshot = afterwards(&snapshot, &content, &part.steps.updated).map_err(|error| Failure::failed(format!("csv {csv}"), &error))?;
        let version = installed(&snapshot, &csv).unwrap_or_default();
        next.updates.push(Update { csv, version, preview: shown });
        if question.to.is_none_or(|to| next.updates.last().is_some_and(|last| last.version == to)) {
            break;
        }
    }
    match question.to {
        Some(to) if next.updates.last().is_none_or(|last| last.version != to) => Err(unreached(question, to, begun, &next)),
        _ => Ok(next),
    }
}

/// The failure for a version that no chain of updates comes to.
fn unreached(question: Question<'_>, to: &str, begun: Option<String>, next: &Next) -> Failure {
    let subject = format!("subscription {}/{}", question.namespace, question.subscription);
    let failure = Failure::new(FailureKind::Impossible, subject, format!("no update leads to version {to}"));
    let path: Vec<String> = begun.into_iter().filter(|csv| !csv.is_empty()).chain(next.updates.iter().map(|one| one.csv.clone())).collect();
    let failure = match path.as_slice() {
        [] => failure,
        [only] => failure.because(format!("nothing follows {only}")),
        path => failure.because(format!("updates lead over {}", path.join(", "))),
    };
    match &next.refused {
        Some(refused) => failure.because(refused.clone()),
        None => failure,
    }
}

/// The InstallPlan as OLM would make it; it has no name yet.
fn made(namespace: &str, generation: i64, subscriptions: &[Value], content: &Content) -> Value {
    let mut plan = install_plan::new(namespace, generation, subscriptions, content);
    plan["status"] = content.status(plan["spec"]["approved"] == true);
    plan
}

/// The content of the InstallPlan of a part: its bundles are pulled.
async fn content(session: &Session, namespace: &str, part: &Part, progress: &mut dyn Progress) -> Result<Content, Failure> {
    let mut found = part.steps.steps.clone();
    for lookup in &part.steps.lookups {
        progress.doing(&format!("{}: pull {}", lookup.identifier, lookup.path));
        let loaded = pulled(session, &lookup.path).await?;
        let steps = install_plan::unpacked(namespace, lookup, &loaded);
        found.extend(steps.map_err(|error| Failure::failed(format!("bundle {}", lookup.identifier), &error))?);
    }
    Ok(Content { steps: steps::ordered(found), lookups: part.steps.lookups.clone() })
}

/// The namespace as the controller would see it.
async fn snapshot(
    session: &Session,
    question: Question<'_>,
    subscriptions: &[Value],
    notes: &mut Vec<String>,
    progress: &mut dyn Progress,
) -> Result<Snapshot, Failure> {
    let namespace = question.namespace;
    let groups = list(session, OPERATOR_GROUP, Some(namespace)).await?;
    let groups: Vec<OperatorGroup> = groups
        .iter()
        .map(|group| {
            let excludes = group["metadata"]["annotations"][EXCLUDE_GLOBAL].as_str();
            OperatorGroup::read(&text(group, "/metadata/name"), excludes, &group["spec"])
        })
        .collect();
    let csvs = list(session, CSV, Some(namespace)).await?;
    let csvs = csvs.iter().filter(|csv| !is_copy(csv)).map(|csv| Csv::of(csv, csv["status"]["phase"].as_str().unwrap_or_default()));
    let csvs: Vec<Csv> = csvs.collect();
    let mut wanted: Vec<Subscription> = subscriptions.iter().map(Subscription::read).collect();
    // What an InstallPlan that waits would bring is asked once more.
    for one in wanted.iter_mut().filter(|one| !csvs.iter().any(|csv| csv.name == one.current_csv)) {
        one.current_csv.clone_from(&one.installed_csv);
    }
    if let (Some(channel), Some(one)) = (question.channel, wanted.iter_mut().find(|one| one.name == question.subscription)) {
        channel.clone_into(&mut one.channel);
    }
    let mut snapshot = Snapshot {
        namespace: namespace.to_owned(),
        global_namespace: GLOBAL_CATALOGS.to_owned(),
        operator_groups: groups,
        catalogs: Vec::new(),
        csvs,
        subscriptions: wanted,
    };
    let seen: Vec<String> = snapshot.namespaces().into_iter().map(str::to_owned).collect();
    for home in seen.iter().enumerate().filter(|(at, home)| !seen[..*at].contains(*home)).map(|(_, home)| home) {
        for source in list(session, CATALOG_SOURCE, Some(home.as_str())).await? {
            let key = SourceKey { name: text(&source, "/metadata/name"), namespace: home.clone() };
            let priority = source["spec"]["priority"].as_i64().unwrap_or_default();
            let content = if is_ready(&source) {
                progress.doing(&format!("read catalog {key}"));
                let content = read(session, &key, &source).await?;
                let skipped = content.skipped.iter();
                notes.extend(skipped.map(|one| format!("catalog {key}: bundle {} is passed over: {}", one.name, one.problem)));
                Ok(Arc::new(content))
            } else {
                Err(CatalogFailure::NoConnection(key.clone()))
            };
            snapshot.catalogs.push(Catalog { key, priority, content });
        }
    }
    Ok(snapshot)
}

/// The content of a catalog, as its registry would list it.
async fn read(session: &Session, key: &SourceKey, source: &Value) -> Result<CatalogContent, Failure> {
    let subject = format!("catalogsource {}/{}", key.namespace, key.name);
    // A cluster of mainstay up answers for the servers of all its catalogs.
    let address = match registry_addresses::of(session, &key.namespace, &key.name).await {
        Ok(address) => Some(address),
        Err(_) => Some(text(source, "/spec/address")).filter(|address| !address.is_empty()),
    };
    let image = text(source, "/spec/image");
    let task = match address {
        Some(address) => {
            let failed = |error: &dyn std::error::Error| {
                Failure::new(FailureKind::Failed, &subject, format!("its registry at {address} cannot be read: {}", chain(error)))
            };
            let mut registry = RemoteRegistry::connect(&address).await.map_err(|error| failed(&error))?;
            let content = registry.catalog().await.map_err(|error| failed(&error))?;
            tokio::task::spawn_blocking(move || stored(&subject, &MemorySource::of("catalog.json", content.into_bytes())))
        }
        None if !image.is_empty() => {
            let client = session.registries.client()?;
            let make = move || -> Result<mainstay_oci::Client, BoxError> { Ok(client.clone()) };
            let opened = open_image(&image, &Access::new(&make, Accepted::CATALOGS)).await;
            let opened = opened.map_err(|error| images::reference_failure(&subject, &error))?;
            tokio::task::spawn_blocking(move || {
                let source = opened.source().map_err(|error| images::reference_failure(&subject, &error))?;
                stored(&subject, source.as_ref())
            })
        }
        None => {
            let message = "its content cannot be read from here: it comes neither from an image nor from an address";
            return Err(Failure::new(FailureKind::Impossible, subject, message));
        }
    };
    task.await.map_err(|error| Failure::failed("catalog", &error))?
}

/// Indexes a catalog in a folder of its own, which is gone afterwards.
fn stored(subject: &str, source: &dyn Source) -> Result<CatalogContent, Failure> {
    let scratch = tempfile::tempdir().map_err(|error| Failure::failed(subject, &error))?;
    let stored = Cache::open(scratch.path()).and_then(|cache| cache.build(source)).map_err(|error| Failure::failed(subject, &error))?;
    resolver_content(&stored).map_err(|error| Failure::failed(subject, &error))
}
