//! The membership of a CSV in the one group of its namespace: the checks before every step (OLM0-CSV-04, OLM0-OG-23).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Action, Facts, GROUP, GROUP_NAMESPACE, Group, Plan, Reason, TARGETS};
use crate::groups::{Reconciliation, annotation, apis};
use crate::install_modes::{InstallModes, Unsupported};

/// The group of an active member, or the step of a CSV that is none.
pub(super) fn check<'a>(facts: &'a Facts<'_>) -> Result<&'a Arc<Group>, Box<Plan>> {
    let csv = facts.csv;
    let group = match facts.groups {
        [] => return Err(Plan::failed(Reason::NoOperatorGroup, "csv in namespace with no operatorgroups").into()),
        [group] => group,
        _ => {
            let problem = "csv created in namespace with multiple operatorgroups, can't pick one automatically";
            return Err(Plan::failed(Reason::TooManyOperatorGroups, problem).into());
        }
    };
    let mut wanted = BTreeMap::from([(GROUP, group.name.clone()), (GROUP_NAMESPACE, group.namespace.clone())]);
    if group.namespaces.as_deref().is_some_and(|all| !all.is_empty()) {
        wanted.insert(TARGETS, group.targets());
    }
    let differing: BTreeMap<String, String> = wanted
        .into_iter()
        .filter(|(key, value)| csv.csv.annotations.get(*key) != Some(value))
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    if !differing.is_empty() {
        return Err(Plan { action: Action::Mark { labels: BTreeMap::new(), annotations: differing }, ..Plan::default() }.into());
    }
    match group.namespaces.as_deref() {
        // The group's own look comes first, and wakes the CSV.
        None => return Err(Plan::default().into()),
        Some([]) => {
            let problem = "no targetNamespaces are matched operatorgroups namespace selection";
            return Err(Plan::failed(Reason::NoTargetNamespaces, problem).into());
        }
        Some(namespaces) => match InstallModes::new(&csv.csv.install_modes).and_then(|modes| modes.supports(&csv.namespace, namespaces)) {
            Ok(()) => {}
            Err(error @ Unsupported::Duplicates(_)) => return Err(Plan::failed(Reason::InvalidInstallModes, error.to_string()).into()),
            Err(error) => return Err(Plan::failed(Reason::UnsupportedOperatorGroup, error.to_string()).into()),
        },
    }
    match intersection(facts, group) {
        Some(plan) => Err(plan.into()),
        None => Ok(group),
    }
}

/// The step of a CSV whose APIs are not the group's, or another group's too (OLM0-OG-23).
fn intersection(facts: &Facts<'_>, group: &Group) -> Option<Plan> {
    let provided = apis(&annotation(facts.csv.provided.as_deref()?));
    let surface = group.surface();
    let decision = surface.reconcile(&provided, facts.providers);
    let fails = |reason: Reason, problem: &str| {
        let deployments = facts.csv.csv.deployments.iter().map(|deployment| deployment.name.clone()).collect();
        let mut plan = Plan::failed(reason, problem);
        // The two reasons take turns if each replaces the other.
        if facts.csv.reason() == Some(Reason::InterOperatorGroupOwnerConflict) {
            plan.transition = None;
        } else {
            plan.action = Action::RemoveDeployments(deployments);
        }
        Some(plan)
    };
    let writes = |apis: String| Some(Plan { action: Action::Provide { group: group.name.clone(), apis }, ..Plan::default() });
    match decision {
        Reconciliation::AddApis | Reconciliation::RemoveApis if group.is_static => {
            fails(Reason::CannotModifyStaticOperatorGroupProvidedApis, "static provided api operatorgroup cannot be modified by these apis")
        }
        Reconciliation::Conflict => fails(Reason::InterOperatorGroupOwnerConflict, "intersecting operatorgroups provide the same apis"),
        Reconciliation::AddApis => {
            let union = annotation(&surface.provided.union(&provided).cloned().collect());
            if union == group.provided { None } else { writes(union) }
        }
        Reconciliation::RemoveApis => writes(annotation(&surface.provided.difference(&provided).cloned().collect())),
        Reconciliation::NoConflict => None,
    }
}
