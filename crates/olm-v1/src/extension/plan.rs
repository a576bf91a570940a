//! The decision: what is to be done for an extension, and why (OLM1-CTRL-01).

use std::collections::BTreeSet;
use std::sync::Arc;

use std::time::Duration;

use mainstay_api::olm_v1::{ClusterExtension, Enforcement, UpgradeConstraintPolicy, WATCH_NAMESPACE};
use mainstay_apply::{Expect, ObjectRef, Owner, Propagation, Step, Until, install_order, stale};
use mainstay_bundle::{Bundle, RenderOptions, gates, render};
use mainstay_rbac::UserInfo;
use mainstay_resolver::{CandidateCatalog, CatalogState, LabelSelector, Request, Resolution, SelectorRequirement, resolve};
use serde_json::{Value, json};

use super::facts::{Answer, CatalogContent, Fact, Live, Snapshot};
use super::object;
use super::permissions;
use super::record::{self, History, InstalledBundle, Record, Revision, State};

/// The finalizers, in the order in which they are added (OLM1-CTRL-07).
pub const FINALIZERS: [&str; 2] =
    ["olm.operatorframework.io/cleanup-unpack-cache", "olm.operatorframework.io/cleanup-contentmanager-cache"];

/// What is to be done for one extension.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What kind of change it is.
    pub action: Action,
    /// The changes, in order.
    pub steps: Vec<Planned>,
    /// Which bundle was chosen, and why; absent where the plan ends before.
    pub resolution: Option<Resolution>,
    /// The record that the change leaves; absent where nothing is installed.
    pub record: Option<Record>,
    /// What the conditions will say.
    pub verdict: Verdict,
    /// What a person should know although nothing is wrong.
    pub warnings: Vec<String>,
}

/// What kind of change a plan is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put these finalizers on the extension, and nothing else (OLM1-CTRL-07).
    AddFinalizers(Vec<String>),
    /// Clean up and take these finalizers off; what was applied goes by owner references (OLM1-INST-15).
    Finalize(Vec<String>),
    /// Only say how things are.
    Report,
    /// Nothing is installed yet.
    Install,
    /// Another bundle, or other content, is installed; or an attempt was left half-way.
    Upgrade,
    /// The right content is installed; what is missing or changed is put right (OLM1-INST-14).
    Reassert,
}

/// One change, ready to be executed.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// The object.
    pub target: ObjectRef,
    /// What is done.
    pub step: Step,
    /// How the object compares with the live one.
    pub change: Change,
}

/// How an object compares with the live one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is not there.
    Create,
    /// It is there, and differs.
    Update,
    /// It is there as wanted.
    Same,
    /// The bundle does not hold it any more.
    Delete,
    /// Nothing; the API is given time to take the change in.
    Wait,
}

/// What the conditions say (OLM1-CTRL-03).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The desired state, once the steps are done.
    Reached,
    /// An error; tried again.
    Retrying(String),
    /// An error that a person has to mend.
    Blocked(String),
    /// The account is missing.
    NoAccount {
        /// Its name; empty where the extension names none.
        account: String,
        /// The extension's namespace.
        namespace: String,
    },
    /// The install records cannot be read.
    Unreadable(String),
}

/// Decides for the snapshot, or says which facts are missing.
pub fn plan(snapshot: &Snapshot) -> Answer<Plan> {
    let mut planner = Planner { snapshot, resolution: None };
    match planner.decide() {
        Ok(plan) => Answer::Ready(plan),
        Err(Stop::Need(facts)) => Answer::Need(facts),
        Err(Stop::Plan(plan)) => Answer::Ready(*plan),
    }
}

/// Why the planner goes no further: facts are missing, or the plan is a report.
enum Stop {
    Need(Vec<Fact>),
    Plan(Box<Plan>),
}

struct Planner<'a> {
    snapshot: &'a Snapshot,
    resolution: Option<Resolution>,
}

impl Planner<'_> {
    fn decide(&mut self) -> Result<Plan, Stop> {
        let snapshot = self.snapshot;
        let extension = &*snapshot.extension;
        if let Some(action) = finalizing(extension) {
            return Ok(Plan { action, ..self.report(Verdict::Reached) });
        }
        let history = match &snapshot.history {
            Ok(history) => history,
            Err(problem) => return Err(self.stop(Verdict::Unreadable(problem.clone()))),
        };
        self.account(extension)?;
        self.resolution = Some(resolved(snapshot, history.installed()).map_err(|problem| self.stop(Verdict::Retrying(problem)))?);
        let bundle = self.bundle()?;
        let objects = self.rendered(&bundle)?;
        self.permitted(&objects)?;
        let record = Record { bundle: self.installed_bundle(), csv_annotations: bundle.csv.annotations.clone(), objects };
        let action = action(history, &record);
        let gone = vanished(history, &record);
        let live = self.live(&record, &gone)?;
        let warnings = self.checked(&action, &record, &live)?;
        let steps = steps(&action, &record, &gone, &live, &self.owner());
        Ok(Plan { action, steps, resolution: self.resolution.take(), record: Some(record), verdict: Verdict::Reached, warnings })
    }

    fn account(&self, extension: &ClusterExtension) -> Result<(), Stop> {
        if self.snapshot.ignore_service_account {
            return Ok(());
        }
        let account = account_name(extension);
        let missing = || Verdict::NoAccount { account: account.to_owned(), namespace: extension.spec.namespace.clone() };
        if account.is_empty() {
            return Err(self.stop(missing()));
        }
        match &self.snapshot.known.account {
            None => Err(Stop::Need(vec![Fact::Account])),
            Some(Ok(true)) => Ok(()),
            Some(Ok(false)) => Err(self.stop(missing())),
            Some(Err(problem)) => Err(self.stop(Verdict::Retrying(problem.clone()))),
        }
    }

    /// The bundle's content; what upstream says about a dependency comes before anything is pulled (OLM1-INST-04).
    fn bundle(&self) -> Result<Arc<Bundle>, Stop> {
        let Some(resolution) = &self.resolution else {
            return Err(self.stop(Verdict::Retrying("nothing was resolved".to_owned())));
        };
        let choice = &resolution.choice;
        let dependency =
            self.snapshot.catalogs.iter().find(|catalog| catalog.name == choice.catalog).and_then(|catalog| match &catalog.content {
                CatalogContent::Held(source) => {
                    let facts = source.package(&choice.package)?;
                    let bundle = facts.bundles.iter().find(|bundle| bundle.name == choice.bundle)?;
                    bundle.dependency.map(|kind| json!({"type": kind}))
                }
                _ => None,
            });
        gates::check_dependencies(&choice.bundle, dependency.iter()).map_err(|refusal| self.fail(&refusal.to_string()))?;
        match self.snapshot.known.bundles.get(&choice.image) {
            None => Err(Stop::Need(vec![Fact::Bundle(choice.image.clone())])),
            Some(Ok(bundle)) => Ok(bundle.clone()),
            Some(Err(failure)) if failure.terminal => Err(self.stop(Verdict::Blocked(self.with_bundle(&failure.message)))),
            Some(Err(failure)) => Err(self.fail(&failure.message)),
        }
    }

    /// The objects as they are applied, in order.
    fn rendered(&self, bundle: &Bundle) -> Result<Vec<Value>, Stop> {
        let extension = &*self.snapshot.extension;
        gates::check(bundle, &self.snapshot.gates.bundle()).map_err(|refusal| self.fail(&refusal.to_string()))?;
        let watch = extension.metadata.annotations.as_ref().and_then(|all| all.get(WATCH_NAMESPACE)).map(String::as_str);
        let watch = watch.filter(|_| self.snapshot.gates.on("SingleOwnNamespaceInstallSupport"));
        let options = RenderOptions {
            install_namespace: extension.spec.namespace.clone(),
            target_namespaces: gates::target_namespaces(watch).map_err(|refusal| self.fail(&refusal.to_string()))?,
            certificates: self.snapshot.gates.certificates(),
        };
        let owner = self.owner();
        let objects = render(bundle, &options).map_err(|error| self.fail(&error.to_string()))?;
        let mut objects: Vec<Value> = objects.into_iter().map(|object| object::owned(object, &owner)).collect();
        install_order(&mut objects);
        Ok(objects)
    }

    fn permitted(&self, objects: &[Value]) -> Result<(), Stop> {
        let extension = &*self.snapshot.extension;
        if !self.snapshot.gates.on("PreflightPermissions") || self.snapshot.ignore_service_account {
            return Ok(());
        }
        let Some(policy) = &self.snapshot.known.policy else {
            return Err(Stop::Need(vec![Fact::Policy]));
        };
        let user = UserInfo::service_account(&extension.spec.namespace, account_name(extension));
        let report = permissions::check(policy, &user, &self.owner().name, objects);
        if report.is_empty() { Ok(()) } else { Err(self.fail(&report.text())) }
    }

    /// The live objects of everything that is applied or deleted.
    fn live(&self, record: &Record, gone: &[ObjectRef]) -> Result<LiveObjects<'_>, Stop> {
        let targets: Vec<ObjectRef> = record.objects.iter().map(object::place).chain(gone.iter().cloned()).collect();
        let known = &self.snapshot.known.live;
        let missing: BTreeSet<&ObjectRef> = targets.iter().filter(|target| !known.contains_key(target)).collect();
        if missing.is_empty() { Ok(LiveObjects { known }) } else { Err(Stop::Need(missing.into_iter().cloned().map(Fact::Live).collect())) }
    }

    /// Nothing is written before all of this holds: kinds are served, objects can be read and are free or the extension's own
    /// (OLM1-OWN-03), and CRDs change without losing data (OLM1-CRD-01). Returns warnings.
    fn checked(&self, action: &Action, record: &Record, live: &LiveObjects<'_>) -> Result<Vec<String>, Stop> {
        let owner = self.owner();
        let mut unsafe_changes = Vec::new();
        for object in &record.objects {
            let target = object::place(object);
            match live.get(&target) {
                Live::Absent => {}
                Live::NotServed if brought_along(&target, &record.objects) => {}
                Live::NotServed => {
                    return Err(self.fail(&format!(
                        "resource mapping not found for name: {:?} namespace: {:?} from \"\": no matches for kind {:?} in version {:?}\nensure CRDs are installed first",
                        target.name,
                        target.namespace,
                        target.kind,
                        target.api_version
                    )));
                }
                Live::Unreadable(problem) => return Err(self.fail(problem)),
                Live::Present(found) => {
                    if let Err(refusal) = owner.check(found)
                        && !self.was_applied(&target, found)
                    {
                        return Err(self.fail(&refusal.to_string()));
                    }
                    if target.kind == "CustomResourceDefinition"
                        && matches!(action, Action::Install | Action::Upgrade)
                        && self.strict()
                        && let Err(problem) = crate::crd_safety(found, object)
                    {
                        unsafe_changes.push(problem);
                    }
                }
            }
        }
        if !unsafe_changes.is_empty() {
            return Err(self.fail(&unsafe_changes.join("\n")));
        }
        let lost = |target: &ObjectRef| target.kind == "CustomResourceDefinition";
        let gone = self.snapshot.history.as_ref().map(|history| vanished(history, record)).unwrap_or_default();
        Ok(gone
            .iter()
            .filter(|target| lost(target))
            .map(|target| format!("{target} is not in the new bundle and is deleted with all its custom resources"))
            .collect())
    }

    /// An object that an earlier revision applied is still the extension's when somebody only took its labels off.
    fn was_applied(&self, target: &ObjectRef, found: &Value) -> bool {
        let controlled = found
            .pointer("/metadata/ownerReferences")
            .and_then(Value::as_array)
            .is_some_and(|all| all.iter().any(|owner| owner["controller"] == json!(true)));
        let installed = self.snapshot.history.as_ref().ok().and_then(History::installed);
        !controlled && installed.is_some_and(|revision| revision.record.objects.iter().any(|object| object::place(object).same(target)))
    }

    fn strict(&self) -> bool {
        let preflight = self.snapshot.extension.spec.install.as_ref().and_then(|install| install.preflight.as_ref());
        preflight.is_none_or(|preflight| preflight.crd_upgrade_safety.enforcement == Enforcement::Strict)
    }

    fn owner(&self) -> Owner {
        object::owner(&self.snapshot.extension)
    }

    fn installed_bundle(&self) -> InstalledBundle {
        let text = |pick: fn(&Resolution) -> &String| self.resolution.as_ref().map(pick).cloned().unwrap_or_default();
        InstalledBundle {
            package: text(|resolution| &resolution.choice.package),
            name: text(|resolution| &resolution.choice.bundle),
            version: text(|resolution| &resolution.choice.version),
            reference: text(|resolution| &resolution.choice.image),
        }
    }

    /// An error after resolution carries the bundle (OLM1-CTRL-04).
    fn with_bundle(&self, problem: &str) -> String {
        with_bundle(problem, self.resolution.as_ref())
    }

    fn fail(&self, problem: &str) -> Stop {
        self.stop(Verdict::Retrying(self.with_bundle(problem)))
    }

    fn stop(&self, verdict: Verdict) -> Stop {
        Stop::Plan(Box::new(self.report(verdict)))
    }

    fn report(&self, verdict: Verdict) -> Plan {
        Plan { action: Action::Report, steps: Vec::new(), resolution: self.resolution.clone(), record: None, verdict, warnings: Vec::new() }
    }
}

struct LiveObjects<'a> {
    known: &'a std::collections::HashMap<ObjectRef, Live>,
}

impl LiveObjects<'_> {
    fn get(&self, target: &ObjectRef) -> &Live {
        self.known.get(target).unwrap_or(&Live::Absent)
    }
}

/// The problem with the chosen bundle's name and version behind it (OLM1-CTRL-04).
pub fn with_bundle(problem: &str, resolution: Option<&Resolution>) -> String {
    match resolution {
        Some(Resolution { choice, .. }) => format!("{problem} for resolved bundle {:?} with version {:?}", choice.bundle, choice.version),
        None => problem.to_owned(),
    }
}

/// The account that the extension names; empty where it names none (OLM1-API-07).
pub fn account_name(extension: &ClusterExtension) -> &str {
    extension.spec.service_account.as_ref().and_then(|account| account.name.as_deref()).unwrap_or_default()
}

/// Finalizers come first, at the beginning and at the end (OLM1-CTRL-07).
fn finalizing(extension: &ClusterExtension) -> Option<Action> {
    let present = extension.metadata.finalizers.as_deref().unwrap_or_default();
    let has = |name: &&str| present.iter().any(|finalizer| finalizer == name);
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    if extension.metadata.deletion_timestamp.is_some() {
        return Some(Action::Finalize(owned(FINALIZERS.into_iter().filter(has).collect())));
    }
    let missing: Vec<&str> = FINALIZERS.into_iter().filter(|name| !has(name)).collect();
    (!missing.is_empty()).then(|| Action::AddFinalizers(owned(missing)))
}

/// The extension's wish as a question to the catalogs.
pub fn request(extension: &ClusterExtension, installed: Option<&Revision>) -> Option<Request> {
    let catalog = extension.spec.source.catalog.as_ref()?;
    let selector = catalog.selector.as_ref().map(|selector| LabelSelector {
        match_labels: selector.match_labels.clone(),
        match_expressions: selector
            .match_expressions
            .iter()
            .map(|each| SelectorRequirement { key: each.key.clone(), operator: each.operator.clone(), values: each.values.clone() })
            .collect(),
    });
    Some(Request {
        package: catalog.package_name.clone(),
        channels: catalog.channels.iter().map(|channel| channel.0.clone()).collect(),
        version: catalog.version.clone(),
        selector,
        policy: match catalog.upgrade_constraint_policy {
            UpgradeConstraintPolicy::CatalogProvided => mainstay_resolver::UpgradeConstraintPolicy::CatalogProvided,
            UpgradeConstraintPolicy::SelfCertified => mainstay_resolver::UpgradeConstraintPolicy::SelfCertified,
        },
        installed: installed.map(|revision| {
            let bundle = &revision.record.bundle;
            mainstay_resolver::InstalledBundle { name: bundle.name.clone(), version: bundle.version.clone() }
        }),
    })
}

fn resolved(snapshot: &Snapshot, installed: Option<&Revision>) -> Result<Resolution, String> {
    let request = request(&snapshot.extension, installed).ok_or("spec.source.catalog is missing")?;
    let candidates: Vec<CandidateCatalog<'_>> = snapshot
        .catalogs
        .iter()
        .map(|catalog| CandidateCatalog {
            name: &catalog.name,
            labels: &catalog.labels,
            priority: catalog.priority,
            state: match &catalog.content {
                CatalogContent::Unavailable => CatalogState::Unavailable,
                CatalogContent::NotServing => CatalogState::NotServing,
                CatalogContent::Failed(problem) => CatalogState::Failed(problem),
                CatalogContent::Held(source) => CatalogState::Content(&**source),
            },
        })
        .collect();
    resolve(&request, &candidates).map_err(|refusal| refusal.to_string())
}

/// Compares what is wanted with the records (OLM1-CTRL-01 step 8, OLM1-INST-14).
fn action(history: &History, record: &Record) -> Action {
    match (history.installed(), history.latest()) {
        (None, _) => Action::Install,
        (Some(installed), Some(latest))
            if latest.state == State::Deployed
                && installed.record.bundle == record.bundle
                && installed.record.digest() == record::digest(&record.objects) =>
        {
            Action::Reassert
        }
        _ => Action::Upgrade,
    }
}

/// What the installed revision, or an attempt after it, applied and the new one does not hold, in the order of removal.
fn vanished(history: &History, record: &Record) -> Vec<ObjectRef> {
    let wanted: Vec<ObjectRef> = record.objects.iter().map(object::place).collect();
    let earlier: Vec<ObjectRef> = history.may_be_live().flat_map(|revision| revision.record.objects.iter().map(object::place)).collect();
    stale(&earlier, &wanted)
}

/// Whether the manifest itself holds the CRD of an object that is not served yet.
fn brought_along(target: &ObjectRef, objects: &[Value]) -> bool {
    objects.iter().any(|object| {
        object["kind"] == json!("CustomResourceDefinition")
            && object["spec"]["group"] == json!(target.group())
            && object["spec"]["names"]["kind"] == json!(target.kind)
    })
}

/// How long a CRD may take until it is served.
const ESTABLISHED: Duration = Duration::from_secs(30);

fn steps(action: &Action, record: &Record, gone: &[ObjectRef], live: &LiveObjects<'_>, owner: &Owner) -> Vec<Planned> {
    let mut steps = Vec::new();
    for object in &record.objects {
        let target = object::place(object);
        let (change, expect) = match live.get(&target) {
            Live::Present(found) if object::holds(object, found) => (Change::Same, Expect::uid_of(found)),
            Live::Present(found) => (Change::Update, Expect::uid_of(found)),
            _ => (Change::Create, Expect::default()),
        };
        // An upgrade applies everything once: fields that the new content dropped are only let go of by applying.
        if change == Change::Same && *action == Action::Reassert {
            continue;
        }
        steps.push(Planned { target: target.clone(), step: Step::Apply { object: object.clone(), force: true, expect }, change });
        if target.kind == "CustomResourceDefinition" {
            let until = Until::Condition { name: "Established".to_owned(), status: "True".to_owned() };
            steps.push(Planned { step: Step::Wait { object: target.clone(), until, timeout: ESTABLISHED }, target, change: Change::Wait });
        }
    }
    for target in gone {
        if let Live::Present(found) = live.get(target) {
            let kept = found.pointer("/metadata/annotations/helm.sh~1resource-policy").and_then(Value::as_str) == Some("keep");
            if owner.owns(found) && !kept && found["metadata"]["deletionTimestamp"].is_null() {
                let step = Step::Delete { object: target.clone(), expect: Expect::uid_of(found), propagation: Propagation::Background };
                steps.push(Planned { target: target.clone(), step, change: Change::Delete });
            }
        }
    }
    steps
}
