//! InstallPlans that people write: the CSVs that they name, and what these require (OLM0-IP-19).

use std::collections::{BTreeSet, VecDeque};

use crate::api::Api;
use crate::source::SourceKey;

use super::channel;
use super::entry::{Entry, GVK, api_of};
use super::error::ResolveError;
use super::finder::{EntryRef, Finder};
use super::snapshot::Snapshot;
use super::step::ResolvedSteps;
use super::variables::Resolved;

/// Something that a plan needs and no catalog has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotOffered {
    /// A CSV.
    #[error("clusterserviceversion {csv} is in none of the catalogs that were asked: {}", names(.catalogs))]
    Csv {
        /// The CSV.
        csv: String,
        /// The catalogs.
        catalogs: Vec<SourceKey>,
    },
    /// An API that a CSV requires.
    #[error("clusterserviceversion {csv} requires {api}, which none of the catalogs that were asked provides: {}", names(.catalogs))]
    Api {
        /// The CSV.
        csv: String,
        /// The API.
        api: Api,
        /// The catalogs.
        catalogs: Vec<SourceKey>,
    },
    /// The content of a bundle cannot be read.
    #[error(transparent)]
    Content(#[from] Box<ResolveError>),
}

fn names(catalogs: &[SourceKey]) -> String {
    let names: Vec<String> = catalogs.iter().map(|key| format!("{}/{}", key.namespace, key.name)).collect();
    if names.is_empty() { "there are none".to_owned() } else { names.join(", ") }
}

/// The content of a plan for these CSVs, from one catalog or from all that the namespace sees. Nothing but the names chooses among versions.
pub fn requested(snapshot: &Snapshot, csvs: &[String], catalog: Option<&SourceKey>) -> Result<ResolvedSteps, NotOffered> {
    let finder = Finder::new(snapshot);
    let asked: Vec<SourceKey> = match catalog {
        Some(catalog) => vec![catalog.clone()],
        None => finder.catalogs(),
    };
    let scope = catalog.map_or(super::finder::Scope::All, |catalog| finder.scope(catalog));
    let offered = |at: &EntryRef| !finder.key(*at).is_existing();
    let installed = |name: &str| snapshot.csvs.iter().any(|csv| csv.namespace == snapshot.namespace && csv.name == name);
    let mut open: VecDeque<String> = csvs.iter().cloned().collect();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut chosen: Vec<EntryRef> = Vec::new();
    while let Some(name) = open.pop_front() {
        if !seen.insert(name.clone()) || installed(&name) {
            continue;
        }
        let Some(at) = finder.named(scope, &name).into_iter().find(offered) else {
            return Err(NotOffered::Csv { csv: name, catalogs: asked });
        };
        chosen.push(at);
        for api in required(finder.entry(at)) {
            let provides = |at: &EntryRef| finder.entry(*at).apis().contains(&api);
            let present = finder.all(super::finder::Scope::All).into_iter().filter(|at| !offered(at)).any(|at| provides(&at));
            if present || chosen.iter().any(provides) {
                continue;
            }
            let providers: Vec<EntryRef> = finder.all(scope).into_iter().filter(|at| offered(at) && provides(at)).collect();
            // A channel without order has no head; then the first that provides the API will do.
            let first = channel::sort_all(&finder, &providers).ok().and_then(|sorted| sorted.first().copied());
            let Some(provider) = first.or_else(|| providers.first().copied()) else {
                return Err(NotOffered::Api { csv: name, api, catalogs: asked });
            };
            open.push_back(finder.entry(provider).name.clone());
        }
    }
    let bundles = chosen.into_iter().map(|at| Resolved::of(finder.entry(at), finder.key(at)));
    Ok(ResolvedSteps::of_bundles(snapshot, bundles).map_err(Box::new)?)
}

/// The APIs that a bundle requires.
fn required(entry: &Entry) -> Vec<Api> {
    let properties = entry.properties().iter().filter(|property| property.kind == "olm.gvk.required");
    properties.filter_map(|property| GVK.read(&property.value).ok()).map(|value| api_of(&value)).collect()
}
