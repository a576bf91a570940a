//! Changes that wait for an approval (MS-POL-01, MS-POL-02).
//!
//! ```text
//!   change ── digest ──┬── a kept ChangePlan has it, approved ─────► the gate is open
//!                      ├── a kept ChangePlan has it, not approved ─► closed: the subject waits, what is installed is kept as it is
//!                      └── none has it ─► closed: a ChangePlan is to be kept; plans of other changes are superseded
//! ```
//!
//! An approval is the digest, repeated by the approver. The digest is computed from the facts of each reconcile, so it holds for this very change
//! and no other. An approval is used up with its change: a plan that was applied or superseded approves nothing any more. An additional bundle is
//! approved only for the one object that the approval names, by uid.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kube_core::ResourceExt;
use mainstay_api::lifecycle::{Approval, BundleRef, ChangePlan, ChangePlanPhase, ChangePlanSpec, ChangeSummary, DependencyRef, Subject};
use sha2::{Digest, Sha256};

use crate::change::Action;
use crate::policy::Ruling;
use crate::reason::Reason;
use crate::revision::{InstalledBundle, Record, Revision};

/// A bundle that a change depends on and that is not installed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdditionalBundle {
    /// The bundle.
    pub bundle: BundleRef,
    /// The bundles that need it, each with what it is needed for.
    pub because: Vec<String>,
}

/// A change that needs an approval or has one.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// The ChangePlan's name.
    pub name: String,
    /// The ChangePlan's spec, always without an approval.
    pub spec: ChangePlanSpec,
    /// True if the ChangePlan is kept already.
    pub kept: bool,
    /// True if the change can be applied.
    pub open: bool,
    /// The reasons why the change needs an approval.
    pub reasons: Vec<ApprovalReason>,
}

/// A reason why a change needs an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalReason {
    /// The change also installs these bundles.
    Installs(Vec<String>),
    /// These policies require an approval for every change.
    EveryChange(Vec<String>),
    /// These policies require an approval for a change that grants more permissions than the installed version has.
    GrantsMore(Vec<String>),
}

impl fmt::Display for ApprovalReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = |names: &[String]| match names {
            [] => String::new(),
            names => format!(" (lifecyclepolicy {})", names.join(", ")),
        };
        match self {
            Self::Installs(bundles) => write!(out, "also installs {}", bundles.join(", ")),
            Self::EveryChange(policies) => write!(out, "every change waits{}", by(policies)),
            Self::GrantsMore(policies) => write!(out, "grants more than the installed version has{}", by(policies)),
        }
    }
}

/// The phase that a kept ChangePlan has to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The ChangePlan's name.
    pub name: String,
    /// The phase.
    pub phase: ChangePlanPhase,
    /// The reason for the phase.
    pub message: String,
}

/// A change whose approval is decided.
pub struct Proposal<'a> {
    /// The object whose content changes.
    pub subject: &'a Subject,
    /// The subject's settings that decide what may be written and that are not rendered, such as the installing account.
    pub settings: &'a [String],
    /// The approved plan for which the subject was created as a dependency; see [`approving_plan`].
    pub made_for: Option<&'a ChangePlan>,
    /// The installed revision.
    pub installed: Option<&'a Revision>,
    /// The record of the wanted content.
    pub record: &'a Record,
    /// The catalog that the bundle comes from.
    pub catalog: &'a str,
    /// Bundles that the change depends on and that are not installed yet, dependencies first.
    pub missing: &'a [BundleRef],
    /// The bundle of every other subject, by package.
    pub others: &'a BTreeMap<String, String>,
}

impl Proposal<'_> {
    /// Computes `sha256:...` over everything that identifies this change. The number of the installed revision is part of it, so that an approval
    /// is used up once the change was applied.
    fn digest(&self, dependencies: &[BundleRef]) -> String {
        let mut hash = Sha256::new();
        let mut take = |text: &str| {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text.as_bytes());
        };
        take(&self.subject.uid);
        self.settings.iter().for_each(|setting| take(setting));
        match self.installed {
            None => take("nothing"),
            Some(revision) => {
                take(&revision.number.to_string());
                bundle_texts(&revision.record.bundle).into_iter().for_each(&mut take);
            }
        }
        bundle_texts(&self.record.bundle).into_iter().for_each(&mut take);
        take(&self.record.digest());
        let mut dependencies: Vec<&BundleRef> = dependencies.iter().collect();
        dependencies.sort_by_key(|each| (&each.package, &each.name));
        for BundleRef { package, name, version, image, catalog } in dependencies {
            for text in [package, name, version, image, catalog] {
                take(text);
            }
        }
        hash.finalize().iter().fold(String::from("sha256:"), |text, byte| text + &format!("{byte:02x}"))
    }

    /// Returns the kept plan of this very change. A listed dependency that another extension has brought meanwhile does not make it another
    /// change.
    fn kept<'p>(&self, plans: &'p [Arc<ChangePlan>]) -> Option<&'p ChangePlan> {
        plans.iter().map(|plan| &**plan).find(|plan| {
            let spec = &plan.spec;
            let listed = &spec.summary.dependencies;
            own(plan, self.subject)
                && !is_used_up(plan)
                && self.missing.iter().all(|bundle| listed.contains(bundle))
                && listed.iter().all(|bundle| self.missing.contains(bundle) || self.others.get(&bundle.package) == Some(&bundle.name))
                && spec.digest == self.digest(listed)
        })
    }

    /// Returns the reasons why the change needs an approval; empty if it needs none.
    fn reasons(&self, ruling: &Ruling, gained: &[String]) -> Vec<ApprovalReason> {
        let mut reasons = Vec::new();
        if !self.missing.is_empty() {
            reasons.push(ApprovalReason::Installs(self.missing.iter().map(|bundle| bundle.name.clone()).collect()));
        }
        // Going back to exactly what is installed after a failed attempt is a repair.
        let repair = self
            .installed
            .is_some_and(|installed| installed.record.bundle == self.record.bundle && installed.record.digest() == self.record.digest());
        match ruling.approval {
            Approval::Always if !repair => reasons.push(ApprovalReason::EveryChange(ruling.approval_by.clone())),
            Approval::RightsIncrease if !repair && self.installed.is_some() && !gained.is_empty() => {
                reasons.push(ApprovalReason::GrantsMore(ruling.approval_by.clone()));
            }
            Approval::Always | Approval::RightsIncrease | Approval::Automatic => {}
        }
        reasons
    }
}

fn bundle_texts(bundle: &InstalledBundle) -> [&str; 4] {
    [&bundle.package, &bundle.name, &bundle.version, &bundle.reference]
}

/// Returns true if a plan belongs to this very subject, not to an earlier one of the same name.
fn own(plan: &ChangePlan, subject: &Subject) -> bool {
    plan.spec.subject == *subject
}

/// Returns true if the plan was approved, which takes the plan's own digest and nothing else.
pub fn approved(plan: &ChangePlan) -> bool {
    plan.spec.approved_digest.as_ref() == Some(&plan.spec.digest)
}

/// Returns true if a plan of this very subject is approved, and the change is still to be made.
pub fn is_under_way(plan: &ChangePlan, subject: &Subject) -> bool {
    own(plan, subject) && approved(plan) && !is_used_up(plan)
}

/// Returns true if the plan is used up: it was applied, or approved and then superseded. Such a plan approves nothing any more (MS-POL-01). A
/// plan that was superseded before its approval may wait again.
fn is_used_up(plan: &ChangePlan) -> bool {
    match plan.status.as_ref().map(|status| status.phase).unwrap_or_default() {
        ChangePlanPhase::Applied => true,
        ChangePlanPhase::Superseded => approved(plan),
        ChangePlanPhase::Pending | ChangePlanPhase::Approved => false,
    }
}

/// Returns the approved plan for which an object was created as a dependency: the object names the plan, and the plan's approval names this very
/// object.
pub fn approving_plan<'p>(name: &str, own: &DependencyRef, plans: &'p [Arc<ChangePlan>]) -> Option<&'p ChangePlan> {
    let lists = |plan: &ChangePlan| plan.spec.summary.dependencies.iter().any(|bundle| bundle.package == own.package);
    let names = |plan: &ChangePlan| plan.spec.approved_dependencies.contains(own);
    let mut all = plans.iter().map(|plan| &**plan);
    all.find(|plan| plan.metadata.name.as_deref() == Some(name) && approved(plan) && names(plan) && lists(plan))
}

/// Returns true if the approved plan of another subject installs this bundle as a dependency. That approval covers the bundle until the other
/// change is done.
fn allowed_elsewhere(proposal: &Proposal<'_>) -> bool {
    let bundle = &proposal.record.bundle;
    let listed = |plan: &ChangePlan| {
        let same = |each: &BundleRef| [each.package.as_str(), &each.name, &each.version, &each.image] == bundle_texts(bundle);
        plan.spec.summary.dependencies.iter().any(same)
    };
    proposal.installed.is_none() && proposal.made_for.is_some_and(|plan| !is_used_up(plan) && listed(plan))
}

/// Returns the change's approval gate, or none if it needs no approval. `summary` describes the change for people.
///
/// # Errors
/// [`Reason::PlanNameTaken`] if the ChangePlan's name belongs to a plan of another change.
pub fn gate(proposal: &Proposal<'_>, ruling: &Ruling, plans: &[Arc<ChangePlan>], summary: &ChangeSummary) -> Result<Option<Gate>, Reason> {
    let reasons = proposal.reasons(ruling, &summary.permissions_gained);
    let kept = proposal.kept(plans);
    if reasons.is_empty() || allowed_elsewhere(proposal) {
        // A plan that was approved, or for which dependencies were created already, stands until its change is applied, although no approval is
        // needed any more.
        let stands = |plan: &&ChangePlan| approved(plan) || !plan.spec.summary.dependencies.is_empty();
        return Ok(kept.filter(stands).map(|plan| of_kept(plan, true, Vec::new())));
    }
    if let Some(plan) = kept {
        return Ok(Some(of_kept(plan, approved(plan), reasons)));
    }
    let digest = proposal.digest(proposal.missing);
    let base = plan_name(&proposal.subject.name, &digest);
    let Some(name) = free_name(proposal.subject, plans, &base) else {
        return Err(Reason::PlanNameTaken(base));
    };
    let bundle = |bundle: &InstalledBundle, catalog: &str| BundleRef {
        package: bundle.package.clone(),
        name: bundle.name.clone(),
        version: bundle.version.clone(),
        image: bundle.reference.clone(),
        catalog: catalog.to_owned(),
    };
    let spec = ChangePlanSpec {
        subject: proposal.subject.clone(),
        digest,
        from: proposal.installed.map(|revision| bundle(&revision.record.bundle, "")),
        to: bundle(&proposal.record.bundle, proposal.catalog),
        summary: summary.clone(),
        approved_digest: None,
        approved_dependencies: Vec::new(),
    };
    Ok(Some(Gate { name, spec, kept: false, open: false, reasons }))
}

fn of_kept(plan: &ChangePlan, open: bool, reasons: Vec<ApprovalReason>) -> Gate {
    let spec = ChangePlanSpec { approved_digest: None, approved_dependencies: Vec::new(), ..plan.spec.clone() };
    Gate { name: plan.name_any(), spec, kept: true, open, reasons }
}

impl Gate {
    /// Returns the condition's message while the gate is closed.
    pub fn message(&self) -> String {
        let from = self.spec.from.as_ref().map(|from| format!("from {} ", from.name)).unwrap_or_default();
        let verb = if self.spec.from.is_some() { "change" } else { "install" };
        let reasons: Vec<String> = self.reasons.iter().map(ToString::to_string).collect();
        let reasons = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
        format!(
            "waits for approval of change plan {name}: {verb} {from}{to}{reasons}\nmainstay approve {name} shows and approves it",
            name = self.name,
            to = if self.spec.from.is_some() { format!("to {}", self.spec.to.name) } else { self.spec.to.name.clone() },
        )
    }
}

/// Returns `<subject>-<first digits of the digest>`, within the length limit of a name.
fn plan_name(subject: &str, digest: &str) -> String {
    const ROOM: usize = 240;
    let short: String = digest.trim_start_matches("sha256:").chars().take(12).collect();
    let cut = subject.get(..ROOM.min(subject.len())).unwrap_or_default().trim_end_matches(['.', '-']);
    format!("{cut}-{short}")
}

/// Maximum number of successive plans of the same change.
const REPEATS: usize = 100;

/// Returns the name under which a change is kept: its own, or the next one if used-up plans of this subject had that name.
fn free_name(subject: &Subject, plans: &[Arc<ChangePlan>], base: &str) -> Option<String> {
    for turn in 1..=REPEATS {
        let name = if turn == 1 { base.to_owned() } else { format!("{base}-{turn}") };
        match plans.iter().find(|plan| plan.metadata.name.as_ref() == Some(&name)) {
            None => return Some(name),
            Some(plan) if own(plan, subject) && is_used_up(plan) => {}
            Some(_) => return None,
        }
    }
    None
}

/// Returns the phases that the subject's kept plans have to show now. An approved plan whose content is installed was applied; a plan that is no
/// longer the current change was superseded.
pub fn marks(
    subject: &Subject,
    plans: &[Arc<ChangePlan>],
    gate: Option<&Gate>,
    action: &Action,
    installed: Option<&Revision>,
) -> Vec<Mark> {
    let mut marks = Vec::new();
    for plan in plans.iter().filter(|plan| own(plan, subject)) {
        let status = plan.status.clone().unwrap_or_default();
        let (phase, message) = if gate.is_some_and(|gate| gate.name == plan.name_any()) {
            let open = approved(plan);
            (if open { ChangePlanPhase::Approved } else { ChangePlanPhase::Pending }, String::new())
        } else if matches!(status.phase, ChangePlanPhase::Applied | ChangePlanPhase::Superseded) {
            continue;
        } else if done(plan, action, installed) {
            (ChangePlanPhase::Applied, APPLIED.to_owned())
        } else {
            let message = match gate {
                Some(gate) if !gate.open => format!("change plan {} took its place", gate.name),
                None if action.brings_content() => "the next change needs no approval".to_owned(),
                _ => "the cluster changed since; this is no longer the next change".to_owned(),
            };
            (ChangePlanPhase::Superseded, message)
        };
        if status.phase != phase || status.message != message || plan.status.is_none() {
            marks.push(Mark { name: plan.name_any(), phase, message });
        }
    }
    marks
}

/// Returns true if the approved content is installed, even if the next step of the update path is due already. For a change within one bundle,
/// the installed bundle proves nothing: such a change is done when nothing is left to apply.
fn done(plan: &ChangePlan, action: &Action, installed: Option<&Revision>) -> bool {
    let settled = *action == Action::Reassert || plan.spec.from.as_ref() != Some(&plan.spec.to);
    approved(plan) && settled && installed.is_some_and(|revision| is_to(plan, &revision.record.bundle))
}

/// Message of an applied plan.
pub const APPLIED: &str = "the change was done";

fn is_to(plan: &ChangePlan, bundle: &InstalledBundle) -> bool {
    let to = &plan.spec.to;
    [to.package.as_str(), &to.name, &to.version, &to.image] == bundle_texts(bundle)
}
