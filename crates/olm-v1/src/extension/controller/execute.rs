//! Execution of a plan, and the report of its result in status and events.

use std::time::Duration;

use kube::ResourceExt;
use mainstay_api::lifecycle::ChangePlanPhase;
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_apply::Writer;
use mainstay_diagnostics::SharedError;
use mainstay_lifecycle::Reason as LifecycleReason;
use mainstay_lifecycle::approval::{APPLIED, Mark};
use mainstay_lifecycle::change::Action;
use mainstay_lifecycle::revision::{History, State};
use mainstay_olm_v1_core::extension::facts::{Snapshot, UnreadableHistory};
use mainstay_olm_v1_core::extension::owner;
use mainstay_olm_v1_core::extension::plan::{FINALIZERS, NamespaceProblem, Plan, Reason, Verdict, unheld};
use mainstay_olm_v1_core::extension::status::status;
use mainstay_runtime::{Key, Outcome};
use serde_json::Value;

use super::super::act::{ActError, Actor};
use super::super::lifecycle;
use super::super::watches::Watches;
use super::decide::{Decided, kinds};
use super::{ExtensionError, Extensions};

/// The longest wait before an attempt in progress is examined again.
const LOOK: Duration = Duration::from_secs(5);
/// The slack for times that are kept in whole seconds.
const MOMENT: Duration = Duration::from_secs(1);

impl Extensions {
    /// Adds finalizers, or cleans up and removes them (OLM1-CTRL-07).
    pub(super) async fn finalizers(&self, live: &Value, key: &Key, action: &Action, watches: &Watches) -> Result<Outcome, ExtensionError> {
        let mut live = live.clone();
        match action {
            Action::AddFinalizers(missing) => {
                for finalizer in missing {
                    live = self.writer.add_finalizer(&live, finalizer).await?.unwrap_or(live);
                }
            }
            Action::Finalize(present) => {
                watches.forget(&key.name);
                self.forget(key);
                if present.iter().any(|finalizer| finalizer == FINALIZERS[0]) {
                    let forgotten = self.bundles.forget(&key.name).await;
                    forgotten.map_err(|source| ExtensionError::Forget { name: key.name.clone(), source })?;
                }
                for finalizer in present {
                    match self.writer.remove_finalizer(&live, finalizer).await? {
                        Some(now) => live = now,
                        None => break,
                    }
                }
            }
            Action::Report | Action::Install | Action::Upgrade | Action::Reassert => {}
        }
        Ok(Outcome::Done)
    }

    pub(super) async fn act(&self, live: &Value, decided: Decided, watches: &Watches) -> Result<Outcome, ExtensionError> {
        let Decided { mut snapshot, plan, account, held } = decided;
        let extension = &*snapshot.extension.clone();
        let name = extension.name_any();
        let gate = plan.consent.gate.clone();
        let plan = self.consented(&snapshot, plan).await?;
        let Snapshot { history, known, .. } = &mut snapshot;
        let homeless = match &plan.namespace {
            Some(namespace) => self.make_namespace(extension, namespace).await.err(),
            None => None,
        };
        let (verdict, applied) = match (&mut *history, &account, homeless) {
            (_, _, Some(problem)) => (Verdict::Retrying(Reason::Namespace(problem).of_bundle(plan.resolution.as_ref())), false),
            (Ok(history), Some(account), None) if plan.action != Action::Report => self.execute(extension, &plan, account, history).await,
            _ => (plan.verdict.clone(), false),
        };
        let problem = held.problem.filter(|_| !applied);
        let failing = problem.is_some();
        let verdict = match problem {
            Some(problem) => unheld(verdict, &problem),
            None => verdict,
        };
        if let (Some(record), true) = (&plan.record, applied)
            && held.record.as_ref().is_none_or(|kept| kinds(kept) != kinds(record))
        {
            watches.keep(&name, &self.identity(extension), &kinds(record));
        }
        self.report(live, extension, &plan, &verdict, history.as_ref()).await?;
        if let (Some(gate), Verdict::Reached) = (gate, &verdict) {
            let applied = Mark { name: gate.name, phase: ChangePlanPhase::Applied, message: APPLIED.to_owned() };
            lifecycle::mark(&self.writer, &self.events, &known.lifecycle, &applied).await?;
        }
        Ok(match verdict {
            // The upgrade to a direct successor is one step; the next one may be waiting (OLM1-UPG-07).
            Verdict::Reached if matches!(plan.action, Action::Install | Action::Upgrade) => Outcome::After(Duration::ZERO),
            // A failed repair is tried again, whatever else the extension waits for.
            Verdict::Blocked(_) if failing => Outcome::Retry,
            // The time in which the new Deployments have to become healthy is running.
            Verdict::Reached | Verdict::Blocked(_) if plan.gate.until.is_some() => Outcome::After(self.left(&plan)),
            // The attempt waits for its workloads. Their watch wakes it, and so does the end of their time.
            Verdict::Retrying(_) if applied && plan.gate.until.is_some() => Outcome::After(self.left(&plan).min(LOOK)),
            Verdict::Reached => Outcome::Done,
            Verdict::Blocked(_) => Outcome::Blocked,
            Verdict::Retrying(_) | Verdict::NoAccount { .. } | Verdict::Unreadable(_) => Outcome::Retry,
        })
    }

    /// Creates the extension's namespace as the controller. A namespace created by another client meanwhile is accepted.
    async fn make_namespace(&self, extension: &ClusterExtension, namespace: &Value) -> Result<(), NamespaceProblem> {
        let name = &extension.spec.namespace;
        match self.writer.create(namespace).await {
            Ok(_) => {
                self.events.normal(extension, "NamespaceMade", &format!("namespace {name}"));
                Ok(())
            }
            Err(error) if error.reason() == Some(&mainstay_apply::Reason::AlreadyExists) => Ok(()),
            Err(error) => Err(NamespaceProblem::NotMade { name: name.clone(), problem: SharedError::new(error) }),
        }
    }

    /// Restores the installed objects. Returns the reason if that fails.
    pub(super) async fn repair(
        &self,
        extension: &ClusterExtension,
        plan: &Plan,
        account: &Writer,
        history: &History,
    ) -> Option<SharedError> {
        let owner = owner(extension);
        let actor =
            Actor { own: &self.writer, account, system_namespace: &self.system_namespace, owner: &owner, now: self.env.now_seconds() };
        let (changed, problem) = actor.hold(plan).await;
        if changed > 0 {
            let bundle = history.installed().map(|installed| installed.record.bundle.name.as_str()).unwrap_or_default();
            let message = format!("{changed} objects of {bundle} that were missing or changed");
            self.events.normal(extension, "Repaired", &message);
        }
        problem.map(SharedError::new)
    }

    /// Keeps changes that need approval, updates the phases of kept plans, and returns what may be done now.
    async fn consented(&self, snapshot: &Snapshot, mut plan: Plan) -> Result<Plan, ExtensionError> {
        for mark in &plan.consent.marks {
            lifecycle::mark(&self.writer, &self.events, &snapshot.known.lifecycle, mark).await?;
        }
        let Some(mut meanwhile) = plan.consent.meanwhile.take() else { return Ok(plan) };
        if let Some(gate) = plan.consent.gate.as_ref().filter(|gate| !gate.kept)
            && let Err(error) = lifecycle::keep(&self.writer, &self.events, &snapshot.extension, gate).await
        {
            meanwhile.verdict =
                Verdict::Retrying(LifecycleReason::PlanNotKept { name: gate.name.clone(), problem: SharedError::new(error) }.into());
        }
        meanwhile.warnings = plan.warnings;
        Ok(*meanwhile)
    }

    /// Returns the time left for the plan's workloads to become healthy.
    fn left(&self, plan: &Plan) -> Duration {
        let until = plan.gate.until.unwrap_or_default();
        // A time in the past is negative, and no `Duration`. A time further ahead than the limit was written by another clock.
        let left = Duration::try_from(until.duration_since(self.env.now())).unwrap_or(Duration::ZERO);
        let longest = plan.gate.within.map_or(Duration::MAX, |within| Duration::try_from(within).unwrap_or(Duration::ZERO));
        left.min(longest) + MOMENT
    }

    async fn execute(&self, extension: &ClusterExtension, plan: &Plan, account: &Writer, history: &mut History) -> (Verdict, bool) {
        let owner = owner(extension);
        let actor =
            Actor { own: &self.writer, account, system_namespace: &self.system_namespace, owner: &owner, now: self.env.now_seconds() };
        let resolution = plan.resolution.as_ref();
        let bundle = resolution.map(|resolution| resolution.choice.to_string()).unwrap_or_default();
        // A repeated attempt was reported when it began.
        let begun = history.latest().is_some_and(|latest| latest.state != State::Deployed && plan.record.as_ref() == Some(&latest.record));
        if matches!(plan.action, Action::Install | Action::Upgrade) && plan.gate.rolled_back.is_none() && !begun {
            let reason =
                resolution.and_then(|resolution| resolution.reasons.first()).map(|reason| format!(": {reason}")).unwrap_or_default();
            self.events.normal(extension, "Resolved", &format!("{bundle}{reason}"));
        }
        match actor.act(plan, history).await {
            Ok(changed) => {
                match plan.action {
                    Action::Upgrade if plan.gate.rolled_back.is_some() => {
                        let message = plan.gate.rolled_back.as_ref().map(|back| back.message.clone()).unwrap_or_default();
                        self.events.warning(extension, "RolledBack", &message);
                    }
                    Action::Install => self.events.normal(extension, "Installed", &format!("{bundle}: {changed} objects")),
                    Action::Upgrade => self.events.normal(extension, "Upgraded", &format!("{bundle}: {changed} objects changed")),
                    Action::Reassert if changed > 0 => {
                        self.events.normal(extension, "Repaired", &format!("{changed} objects that were missing or changed"));
                    }
                    _ => {}
                }
                // A stuck attempt has completed after all.
                let ended = plan.action == Action::Upgrade && plan.gate.rolled_back.is_none();
                (if ended { Verdict::Reached } else { plan.verdict.clone() }, true)
            }
            // The applied objects are watched: when they become healthy, the extension wakes.
            Err(ActError::Waiting(_)) if matches!(plan.verdict, Verdict::Blocked(_)) && plan.gate.rolled_back.is_none() => {
                (plan.verdict.clone(), true)
            }
            Err(error) => {
                let waits = matches!(error, ActError::Waiting(_));
                (Verdict::Retrying(Reason::from(LifecycleReason::Failed(SharedError::new(error))).of_bundle(resolution)), waits)
            }
        }
    }

    pub(super) async fn report(
        &self,
        live: &Value,
        extension: &ClusterExtension,
        plan: &Plan,
        verdict: &Verdict,
        history: Result<&History, &UnreadableHistory>,
    ) -> Result<(), ExtensionError> {
        let now = status(extension, plan, verdict, history, self.env.now_seconds());
        let wanted = serde_json::to_value(&now).map_err(|source| ExtensionError::Form { name: extension.name_any(), source })?;
        let changed = match self.writer.update_status(live, &wanted).await {
            Ok(written) => written.is_some(),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if changed {
            match verdict {
                Verdict::Retrying(reason) => self.events.warning(extension, "Retrying", &reason.to_string()),
                Verdict::Blocked(reason) => self.events.warning(extension, "Blocked", &reason.to_string()),
                Verdict::NoAccount { account, namespace } => {
                    self.events.warning(
                        extension,
                        "ServiceAccountMissing",
                        &format!("service account {account:?} not found in namespace {namespace:?}"),
                    );
                }
                Verdict::Unreadable(problem) => self.events.warning(extension, "RecordUnreadable", &problem.to_string()),
                Verdict::Reached => {}
            }
            let before = extension.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
            self.events.transitions(extension, before, &now.conditions);
            for warning in &plan.warnings {
                self.events.warning(extension, "Warning", warning);
            }
        }
        Ok(())
    }
}
