//! The content of the InstallPlan of a namespace (OLM0-RES-22, OLM0-RES-24, OLM0-IP-01).

use std::collections::BTreeSet;

use crate::properties;
use crate::source::SourceKey;
use crate::steps::{self, BundleContent, Step};

use super::error::{Problem, ResolveError};
use super::snapshot::{Snapshot, Subscription};
use super::variables::{Resolved, resolve};

/// A bundle whose content must be pulled before there are steps for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleLookup {
    /// The image.
    pub path: String,
    /// The CSV.
    pub identifier: String,
    /// The CSV that it replaces.
    pub replaces: String,
    /// The catalog.
    pub catalog: SourceKey,
    /// The properties as text of the annotation.
    pub properties: String,
}

/// A Subscription that moves on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdatedSubscription {
    /// Its name.
    pub name: String,
    /// The new `status.currentCSV`.
    pub current_csv: String,
}

/// The content of an InstallPlan; nothing if all is as it should be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResolvedSteps {
    /// The steps whose content is known, in the order of execution.
    pub steps: Vec<Step>,
    /// The bundles to pull.
    pub lookups: Vec<BundleLookup>,
    /// The Subscriptions that move on.
    pub updated: Vec<UpdatedSubscription>,
}

/// Resolves a namespace into the content of its next InstallPlan.
pub fn resolve_steps(snapshot: &Snapshot) -> Result<ResolvedSteps, ResolveError> {
    one_group(snapshot)?;
    steps_of(snapshot, resolve(snapshot)?)
}

/// Refuses a namespace without exactly one OperatorGroup (OLM0-RES-03).
pub(super) fn one_group(snapshot: &Snapshot) -> Result<(), ResolveError> {
    match snapshot.operator_groups.len() {
        1 => Ok(()),
        found => Err(Problem::Groups(found).into()),
    }
}

/// The content of the InstallPlan that brings bundles to a namespace.
pub(super) fn steps_of(snapshot: &Snapshot, bundles: Vec<Resolved>) -> Result<ResolvedSteps, ResolveError> {
    let mut subscriptions: Vec<Subscription> = snapshot.subscriptions.clone();
    subscriptions.sort_by(|a, b| a.name.cmp(&b.name));
    let csvs: BTreeSet<&str> =
        snapshot.csvs.iter().filter(|csv| csv.namespace == snapshot.namespace).map(|csv| csv.name.as_str()).collect();
    let mut found = ResolvedSteps::default();
    for bundle in bundles {
        let owning: Vec<usize> = (0..subscriptions.len()).filter(|at| owns(&subscriptions[*at], &bundle)).collect();
        let is_current = |at: &usize| {
            let current = &subscriptions[*at].current_csv;
            csvs.contains(current.as_str()) && *current == bundle.name
        };
        if !owning.is_empty() && owning.iter().all(is_current) {
            continue;
        }
        found.content(snapshot, &bundle)?;
        if owning.is_empty() {
            let Resolved { package, channel, catalog, name, .. } = &bundle;
            found.steps.push(steps::subscription(&snapshot.namespace, package, channel, catalog, name));
        }
        for at in owning {
            let subscription = &mut subscriptions[at];
            if subscription.current_csv != bundle.name {
                subscription.current_csv.clone_from(&bundle.name);
                let (name, current_csv) = (subscription.name.clone(), bundle.name.clone());
                found.updated.push(UpdatedSubscription { name, current_csv });
            }
        }
    }
    found.steps = steps::ordered(found.steps);
    Ok(found)
}

/// Returns whether a bundle is an answer to a Subscription.
fn owns(subscription: &Subscription, bundle: &Resolved) -> bool {
    subscription.package == bundle.package
        && (subscription.channel.is_empty() || subscription.channel == bundle.channel)
        && (subscription.catalog.is_empty() || subscription.catalog == bundle.catalog)
}

impl ResolvedSteps {
    /// The content of bundles, without Subscriptions for them.
    pub(super) fn of_bundles(snapshot: &Snapshot, bundles: impl Iterator<Item = Resolved>) -> Result<Self, ResolveError> {
        let mut found = Self::default();
        for bundle in bundles {
            found.content(snapshot, &bundle)?;
        }
        found.steps = steps::ordered(found.steps);
        Ok(found)
    }

    /// Adds the steps of a bundle, or its lookup.
    fn content(&mut self, snapshot: &Snapshot, bundle: &Resolved) -> Result<(), ResolveError> {
        if let Some(inline) = &bundle.inline {
            let content =
                BundleContent { name: &bundle.name, csv_json: &inline.csv_json, objects: &inline.objects, properties: &inline.properties };
            let steps = steps::of_bundle(content, &snapshot.namespace, &bundle.replaces, &bundle.catalog);
            self.steps.extend(steps.map_err(Problem::Steps)?);
            return Ok(());
        }
        let written = properties::annotation(&bundle.properties).map_err(|error| Problem::Properties(bundle.name.clone(), error))?;
        self.lookups.push(BundleLookup {
            path: bundle.bundle_path.clone(),
            identifier: bundle.name.clone(),
            replaces: bundle.replaces.clone(),
            catalog: bundle.catalog.clone(),
            properties: written,
        });
        Ok(())
    }
}
