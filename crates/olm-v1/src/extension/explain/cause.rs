//! Which check refused: the planner's verdict is a text in upstream's words; here it gets its types back.
//!
//! Each check is asked again through the very function that the planner calls, and counts as the cause only where the verdict says the
//! same, so that the two cannot tell different stories.

use std::sync::Arc;

use mainstay_api::olm_v1::ClusterExtension;
use mainstay_apply::{NotOurs, ObjectRef};
use mainstay_bundle::Bundle;
use mainstay_rbac::{PolicyRule, UserInfo, parse_rules};
use mainstay_resolver::{CandidateCatalog, Refusal, resolve};
use mainstay_schema::upgrade::{self, UpgradeFinding};
use serde_json::Value;

use super::super::facts::{CatalogContent, CatalogFact, Live, PullFailure, Snapshot};
use super::super::plan::{ContentError, Plan, Verdict, account_name, candidate, rendered, request};
use super::super::record::History;
use super::super::{object, permissions};

/// Why nothing is applied.
#[derive(Clone, Debug)]
pub enum Cause {
    /// The account is not there; the name is empty where the extension names none.
    Account(String),
    /// The install records cannot be read.
    Record(String),
    /// The catalogs have no bundle for it.
    Refused(Box<Refusal>),
    /// The bundle's image cannot be had.
    Pull {
        /// The image.
        image: String,
        /// Why.
        failure: PullFailure,
    },
    /// The bundle's content is not installed as asked.
    Content {
        /// Why.
        error: ContentError,
        /// The bundle.
        bundle: Arc<Bundle>,
    },
    /// The account lacks rights.
    Rights {
        /// Which.
        report: permissions::Report,
        /// Whether some of them are what the bundle's own roles grant.
        granting: bool,
    },
    /// An object belongs to somebody else.
    Owned(NotOurs),
    /// CRDs would lose data; each with its findings.
    Crds(Vec<(String, Vec<UpgradeFinding>)>),
    /// The cluster does not serve the kind of an object.
    NotServed(ObjectRef),
    /// An object could not be read; the server's words.
    Unreadable(ObjectRef, String),
    /// Something else, in the planner's words.
    Other(String),
}

impl Cause {
    /// The cause behind a plan that does nothing.
    pub fn of(snapshot: &Snapshot, plan: &Plan) -> Self {
        let text = match &plan.verdict {
            Verdict::NoAccount { account, .. } => return Self::Account(account.clone()),
            Verdict::Unreadable(problem) => return Self::Record(problem.clone()),
            Verdict::Retrying(text) | Verdict::Blocked(text) => text.as_str(),
            Verdict::Reached => return Self::Other("nothing is in the way".to_owned()),
        };
        let cause = if plan.resolution.is_none() { refused(snapshot) } else { after_resolution(snapshot, plan, text) };
        cause.filter(|cause| cause.is_said_by(text)).unwrap_or_else(|| Self::Other(text.to_owned()))
    }

    /// Whether a verdict is about this very cause.
    fn is_said_by(&self, text: &str) -> bool {
        match self {
            Self::Refused(refusal) => text.contains(&refusal.to_string()),
            Self::Pull { failure, .. } => text.contains(&failure.message),
            Self::Content { error, .. } => text.contains(&error.to_string()),
            Self::Rights { report, .. } => text.contains(&report.text()),
            Self::Owned(refusal) => text.contains(&refusal.to_string()),
            Self::Crds(crds) => crds.iter().all(|(name, findings)| text.contains(&upgrade::message(name, findings))),
            Self::NotServed(target) => text.contains(&format!("no matches for kind {:?}", target.kind)),
            Self::Unreadable(_, problem) => text.contains(problem),
            Self::Account(_) | Self::Record(_) | Self::Other(_) => true,
        }
    }
}

/// The catalogs as the resolver takes them.
pub fn candidates(catalogs: &[CatalogFact]) -> Vec<CandidateCatalog<'_>> {
    catalogs.iter().map(candidate).collect()
}

/// The packages of the catalogs that bring a kind, each with its catalog.
pub fn providers<'a>(catalogs: &'a [CatalogFact], target: &ObjectRef) -> Vec<(&'a str, &'a str)> {
    let version = target.api_version.rsplit('/').next().unwrap_or_default();
    let held = catalogs.iter().filter_map(|catalog| match &catalog.content {
        CatalogContent::Held(source) => Some((catalog.name.as_str(), source)),
        _ => None,
    });
    held.flat_map(|(catalog, source)| source.providers(target.group(), version, &target.kind).into_iter().map(move |name| (name, catalog)))
        .collect()
}

fn refused(snapshot: &Snapshot) -> Option<Cause> {
    let installed = snapshot.history.as_ref().ok().and_then(History::installed);
    let request = request(&snapshot.extension, installed)?;
    resolve(&request, &candidates(&snapshot.catalogs)).err().map(Cause::Refused)
}

/// What the roles among the objects grant.
fn grants(objects: &[Value]) -> Vec<PolicyRule> {
    let roles = objects.iter().filter(|object| object["kind"] == "Role" || object["kind"] == "ClusterRole");
    roles.filter_map(|role| parse_rules(role).ok()).flatten().collect()
}

/// Whether two rules have a verb and a resource in common.
fn overlap(one: &PolicyRule, other: &PolicyRule) -> bool {
    let common = |one: &[String], other: &[String]| one.iter().any(|word| other.contains(word));
    common(&one.verbs, &other.verbs) && common(&one.api_groups, &other.api_groups) && common(&one.resources, &other.resources)
}

fn after_resolution(snapshot: &Snapshot, plan: &Plan, text: &str) -> Option<Cause> {
    let image = &plan.resolution.as_ref()?.choice.image;
    let bundle = match snapshot.known.bundles.get(image)? {
        Ok(bundle) => bundle.clone(),
        Err(failure) => return Some(Cause::Pull { image: image.clone(), failure: failure.clone() }),
    };
    let objects = match rendered(snapshot, &bundle) {
        Ok(objects) => objects,
        Err(error) => return Some(Cause::Content { error, bundle }),
    };
    if let Some(policy) = &snapshot.known.policy {
        let extension: &ClusterExtension = &snapshot.extension;
        let user = UserInfo::service_account(&extension.spec.namespace, account_name(extension));
        let report = permissions::check(policy, &user, extension.metadata.name.as_deref().unwrap_or_default(), &objects);
        let granting = grants(&objects).iter().any(|granted| report.missing.values().flatten().any(|rule| overlap(rule, granted)));
        let cause = Cause::Rights { report, granting };
        if cause.is_said_by(text) {
            return Some(cause);
        }
    }
    let owner = object::owner(&snapshot.extension);
    let mut crds = Vec::new();
    for wanted in &objects {
        let target = object::place(wanted);
        let cause = match snapshot.known.live.get(&target) {
            Some(Live::NotServed) => Some(Cause::NotServed(target)),
            Some(Live::Unreadable(problem)) => Some(Cause::Unreadable(target, problem.clone())),
            Some(Live::Present(live)) => {
                if target.kind == "CustomResourceDefinition"
                    && let Err(findings) = upgrade::check(live, wanted)
                {
                    crds.push((target.name.clone(), findings));
                }
                owner.check(live).err().map(Cause::Owned)
            }
            Some(Live::Absent) | None => None,
        };
        if let Some(cause) = cause.filter(|cause| cause.is_said_by(text)) {
            return Some(cause);
        }
    }
    (!crds.is_empty()).then_some(Cause::Crds(crds))
}
