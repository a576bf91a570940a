//! The facts of an explanation, as the asking user sees them. Nothing is decided here.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use mainstay_api::lifecycle::ChangePlan;
use mainstay_api::olm_v1::{ClusterCatalog, ClusterExtension};
use mainstay_diagnostics::Failure;
use mainstay_lifecycle::explanation::Outcome;
use mainstay_objects::ObjectRef;
use mainstay_olm_v1_core::extension::account_name;
use mainstay_olm_v1_core::extension::explain::{CatalogFacts, EventFact, Facts, Observed, PackageFacts, Trial};
use mainstay_olm_v1_core::extension::request::candidates;
use mainstay_resolver::{PackageSource as _, Request, resolve};
use mainstay_versions::Version;

use crate::catalogs::{CatalogSnapshot, Unavailable};
use crate::change::{Change, InstallRequest};
use crate::extensions;
use crate::failure::{not_written, refused};
use crate::plan::plan;
use crate::progress::Progress;
use crate::session::Session;
use crate::view::{AssumedPermissions, ClusterView};

/// Time limit for the facts of the plan; a registry that does not answer must not delay an explanation.
const PLAN: Duration = Duration::from_secs(60);
/// Number of objects that are read at a time.
const READERS: usize = 8;

/// Reads everything about an extension, and the view of the cluster that it was read in.
pub(super) async fn extension<'s>(
    session: &'s Session,
    extension: ClusterExtension,
    progress: &mut dyn Progress,
) -> Result<(Facts, ClusterView<'s>), Failure> {
    let name = extension.metadata.name.clone().unwrap_or_default();
    progress.doing(&format!("{name}: look at the cluster"));
    let catalogs = catalogs(session).await?;
    let mut view = ClusterView::open(session, progress).await?;
    let mut snapshot = view.begin(&extension, &AssumedPermissions::Live).await?;
    let plan = match tokio::time::timeout(PLAN, view.ready(&mut snapshot, progress)).await {
        Ok(Ok(plan)) => Ok(plan),
        Ok(Err(failure)) => Err(failure.into()),
        Err(_) => Err(format!("it took more than {} s", PLAN.as_secs()).into()),
    };
    snapshot.extension = Arc::new(extension);
    let installed = snapshot.history.as_ref().ok().and_then(|history| history.installed().or(history.latest()));
    let targets: Vec<ObjectRef> =
        installed.into_iter().flat_map(|revision| &revision.record.objects).filter_map(|object| ObjectRef::of(object).ok()).collect();
    let objects = futures::stream::iter(targets).map(|target| observed(session, target)).buffered(READERS).collect::<Vec<_>>().await;
    let namespace = &snapshot.extension.spec.namespace;
    let namespaces: Api<Namespace> = Api::all(session.client.clone());
    let events = events(session, "ClusterExtension", &name).await?;
    let facts = Facts {
        plan,
        objects: objects.into_iter().collect::<Result<_, _>>()?,
        events,
        catalogs,
        change_plans: change_plans(session).await,
        // Stays unknown for users who may not read namespaces.
        namespace_exists: namespaces.get_metadata_opt(namespace).await.ok().map(|found| found.is_some()),
        may_act: view.may_act_as((namespace, account_name(&snapshot.extension))).await,
        platform: view.extra.platform,
        simulation: view.simulation.clone(),
        now: Timestamp::now(),
        snapshot,
    };
    Ok((facts, view))
}

/// Reads everything about a catalog.
pub(super) async fn catalog(session: &Session, name: &str) -> Result<CatalogFacts, Failure> {
    let api: Api<ClusterCatalog> = Api::all(session.client.clone());
    let catalog = api.get(name).await.map_err(|error| {
        let failure = refused(format!("clustercatalog {name}"), &error);
        failure.hint("mainstay catalog list shows the catalogs")
    })?;
    let snapshot = CatalogSnapshot::open(session, Some(name)).await?;
    let served = snapshot.catalogs().first();
    let content = served.and_then(|catalog| match &catalog.content {
        Ok(content) => Some(Ok((content.index.packages().len(), usize::try_from(content.index.bundle_count()).unwrap_or(usize::MAX)))),
        Err(Unavailable::Failed(problem)) => Some(Err(problem.to_string().into())),
        Err(Unavailable::Off | Unavailable::NotServing(_) | Unavailable::Broken(_)) => None,
    });
    let packages: Vec<&str> =
        served.and_then(|catalog| catalog.content.as_ref().ok()).map(|content| content.index.package_names()).unwrap_or_default();
    let used_by = extensions::all(session)
        .await?
        .iter()
        .filter(|extension| packages.contains(&extensions::package(extension)))
        .filter_map(|extension| extension.metadata.name.clone())
        .collect();
    let events = events(session, "ClusterCatalog", name).await?;
    Ok(CatalogFacts { catalog, content, used_by, events, now: Timestamp::now() })
}

/// Reads everything about a package.
pub(super) async fn package(session: &Session, name: &str, progress: &mut dyn Progress) -> Result<PackageFacts, Failure> {
    let catalogs = catalogs(session).await?;
    let snapshot = CatalogSnapshot::open(session, None).await?;
    let held = snapshot.facts();
    let outcome = resolve(&Request { package: name.to_owned(), ..Request::default() }, &candidates(&held));
    let (mut offers, mut channels) = (Vec::new(), Vec::new());
    for catalog in snapshot.catalogs() {
        let Ok(content) = &catalog.content else { continue };
        let Some(found) = content.index.package_facts(name) else { continue };
        let mut versions: Vec<&str> = found.bundles.iter().filter_map(|bundle| bundle.version).collect();
        versions.sort_by(|one, other| Version::parse(other).ok().cmp(&Version::parse(one).ok()));
        offers.push((catalog.name.clone(), versions.into_iter().map(str::to_owned).collect()));
        let mut names: Vec<String> = found.channels.iter().map(|channel| channel.name.to_owned()).collect();
        names.sort_by_key(|channel| found.default_channel != Some(channel.as_str()));
        names.retain(|channel| !channels.contains(channel));
        channels.extend(names);
    }
    let extensions = extensions::all(session)
        .await?
        .iter()
        .filter(|extension| extensions::package(extension) == name)
        .map(|extension| {
            (extension.metadata.name.clone().unwrap_or_default(), extensions::installed(extension).map(|bundle| bundle.version))
        })
        .collect();
    let mut facts =
        PackageFacts { package: name.to_owned(), outcome, offers, channels, catalogs, trial: None, extensions, now: Timestamp::now() };
    if facts.outcome.is_ok() && facts.extensions.is_empty() {
        facts.trial = Some(trial(session, name, progress).await);
    }
    Ok(facts)
}

/// Plans what `mainstay install` of a package would do.
async fn trial(session: &Session, package: &str, progress: &mut dyn Progress) -> Trial {
    let request = InstallRequest { package: package.to_owned(), name: package.to_owned(), ..InstallRequest::default() };
    let unknown = |why: String| Trial { outcome: Outcome::Unknown(why), causes: Vec::new(), hints: Vec::new() };
    let planned = match tokio::time::timeout(PLAN, Box::pin(plan(session, &Change::Install(request), false, progress))).await {
        Ok(Ok(planned)) => planned,
        Ok(Err(failure)) => return unknown(failure.to_line()),
        Err(_) => return unknown(format!("it took more than {} s", PLAN.as_secs())),
    };
    match planned.preview.steps.into_iter().find_map(|step| step.problem) {
        None => Trial { outcome: Outcome::Works, causes: Vec::new(), hints: Vec::new() },
        Some(problem) => Trial { outcome: Outcome::Refused(problem.message), causes: problem.causes, hints: problem.tried },
    }
}

async fn catalogs(session: &Session) -> Result<Vec<ClusterCatalog>, Failure> {
    let api: Api<ClusterCatalog> = Api::all(session.client.clone());
    Ok(api.list(&ListParams::default()).await.map_err(|error| refused("clustercatalogs", &error))?.items)
}

/// Lists changes that are held; none if the cluster does not have the kind.
async fn change_plans(session: &Session) -> Vec<ChangePlan> {
    let api: Api<ChangePlan> = Api::all(session.client.clone());
    api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default()
}

async fn observed(session: &Session, target: ObjectRef) -> Result<Observed, Failure> {
    let live = session.writer.get(&target).await.map_err(|error| not_written(&error))?;
    let pods = match &live {
        Some(live) if target.kind == "Deployment" => {
            extensions::pods(session, &target.namespace, &live["spec"]["selector"]["matchLabels"]).await?
        }
        _ => Vec::new(),
    };
    Ok(Observed { target, live, pods })
}

/// Events about a cluster-wide object, oldest first; they are kept in namespace `default`.
async fn events(session: &Session, kind: &str, name: &str) -> Result<Vec<EventFact>, Failure> {
    let found = raw_events(session, kind, name).await?;
    let fact = |event: &Event| EventFact {
        warning: event.type_.as_deref() == Some("Warning"),
        reason: event.reason.clone().unwrap_or_default(),
        note: event.note.clone().unwrap_or_default(),
        since: event.event_time.as_ref().map(|time| time.0).or_else(|| event.metadata.creation_timestamp.as_ref().map(|time| time.0)),
        at: last_seen(event),
    };
    Ok(found.iter().map(fact).collect())
}

/// Returns the time when an event was last seen.
pub fn last_seen(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref().map(|series| series.last_observed_time.0);
    let old = || event.deprecated_last_timestamp.as_ref().map(|time| time.0);
    let once = || event.event_time.as_ref().map(|time| time.0);
    series.or_else(once).or_else(old).or_else(|| event.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

/// Reads the events about a cluster-wide object, oldest first.
pub async fn raw_events(session: &Session, kind: &str, name: &str) -> Result<Vec<Event>, Failure> {
    let api: Api<Event> = Api::namespaced(session.client.clone(), "default");
    let mut found = api.list(&ListParams::default()).await.map_err(|error| refused("events", &error))?.items;
    found.retain(|event| {
        event.regarding.as_ref().is_some_and(|about| about.kind.as_deref() == Some(kind) && about.name.as_deref() == Some(name))
    });
    found.sort_by_key(last_seen);
    Ok(found)
}
