//! The consent to a plan: approvals, and the work of other extensions that has to come first (MS-POL-01, MS-POL-02).

use mainstay_api::lifecycle::ChangeSummary;
use mainstay_lifecycle::approval::{self, Proposal};
use mainstay_lifecycle::policy::Ruling;
use mainstay_lifecycle::revision::{History, Record};
use mainstay_lifecycle::{LiveObjects, Reason as Lifecycle, preflight};
use mainstay_rbac::UserInfo;

use super::super::approval::{made_for, settings};
use super::super::dependencies::Dependencies;
use super::super::permissions;
use super::super::{preview, ruling, subject};
use super::{Plan, Planner, Reason, Stop, Verdict, Waits, account_name};

impl Planner<'_> {
    /// The plan with the approvals that it waits for, and with the plan to carry out meanwhile.
    pub(super) fn consented(&self, mut plan: Plan, history: &History, live: LiveObjects<'_>) -> Result<Plan, Stop> {
        let snapshot = self.snapshot;
        let (extension, lifecycle) = (&*snapshot.extension, &snapshot.known.lifecycle);
        let (changes, subject) = (plan.action.brings_content(), subject(extension));
        if changes && let Some(problem) = &lifecycle.problem {
            return Err(self.fail(Lifecycle::UnknownPolicies(problem.clone())));
        }
        let installed = history.installed();
        let mut hold = None;
        plan.consent.additional = self.dependencies.as_ref().map(|dependencies| dependencies.missing.clone()).unwrap_or_default();
        if let (true, Some(record)) = (changes, &plan.record) {
            let nothing = Dependencies::default();
            let dependencies = self.dependencies.as_ref().unwrap_or(&nothing);
            let missing = dependencies.bundles();
            let ruling = ruling(extension, &lifecycle.policies);
            let asks = ruling
                != Ruling { dependencies: ruling.dependencies, dependencies_by: ruling.dependencies_by.clone(), ..Ruling::default() };
            let summary = if asks || !dependencies.missing.is_empty() { self.told(&plan, record) } else { ChangeSummary::default() };
            let proposal = Proposal {
                subject: &subject,
                settings: &settings(extension),
                made_for: made_for(extension, &lifecycle.plans),
                installed,
                record,
                catalog: self.resolution.as_ref().map_or("", |resolution| &resolution.choice.catalog),
                missing: &missing,
                others: &dependencies.others,
            };
            let gate = approval::gate(&proposal, &ruling, &lifecycle.plans, &summary).map_err(|taken| self.fail(taken))?;
            hold = match &gate {
                Some(gate) if !gate.open => Some(Verdict::Blocked(Lifecycle::Approval(Box::new(gate.clone())).into())),
                gate => waits(dependencies, gate.as_ref().map(|gate| gate.name.as_str()))
                    .map(|waits| Verdict::Retrying(Reason::Waits(waits).of_bundle(self.resolution.as_ref()))),
            };
            plan.consent.gate = gate;
        }
        plan.consent.marks = approval::marks(&subject, &lifecycle.plans, plan.consent.gate.as_ref(), &plan.action, installed);
        if let Some(verdict) = hold {
            plan.consent.meanwhile = Some(Box::new(self.meanwhile(history, live, verdict.clone())));
            plan.verdict = verdict;
        }
        Ok(plan)
    }

    /// The summary of the change for people.
    fn told(&self, plan: &Plan, record: &Record) -> ChangeSummary {
        let snapshot = self.snapshot;
        let mut shown = Plan { resolution: self.resolution.clone(), ..plan.clone() };
        if let (Some(policy), false) = (&snapshot.known.policy, snapshot.ignore_service_account) {
            let extension = &*snapshot.extension;
            let (namespace, account) = (&extension.spec.namespace, account_name(extension));
            let user = UserInfo::service_account(namespace, account);
            let needed = permissions::needed(&record.objects, &self.owner().name);
            let excess = preflight::excess(policy, &user, namespace, &record.objects, needed);
            if !excess.is_empty() {
                shown.warnings.push(format!("the account {namespace}/{account} may do more than this change needs: {}", excess.join("; ")));
            }
        }
        preview::summary(snapshot, &shown)
    }
}

/// Bundles that have to be installed first.
fn waits(dependencies: &Dependencies, plan: Option<&str>) -> Option<Waits> {
    let bundles: Vec<String> = dependencies.missing.iter().map(|additional| additional.bundle.name.clone()).collect();
    if !bundles.is_empty() {
        return Some(Waits::Missing { bundles, plan: plan.map(str::to_owned) });
    }
    (!dependencies.waits.is_empty()).then(|| Waits::Others(dependencies.waits.clone()))
}
