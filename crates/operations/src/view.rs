//! The cluster as this user sees it, and the controller's plan for it. Nothing is decided here.
//!
//! ```text
//!   open ── begin ──► Snapshot ── ready: plan, fetch what it needs, plan again ──► Plan ── path: the next bundle, until it rests
//! ```

mod cluster;
mod path;
mod pulled;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use kube::api::{ApiResource, DynamicObject};
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_lifecycle::Live;
use mainstay_lifecycle::policy::PolicyFact;
use mainstay_lifecycle::preview::FactRevision;
use mainstay_lifecycle::preview::rendering;
use mainstay_lifecycle::removal;
use mainstay_lifecycle::revision::Record;
use mainstay_objects::ObjectRef;
use mainstay_oci::Client;
use mainstay_olm_v1::extension::lifecycle;
use mainstay_olm_v1::extension::observe::{Observer, PolicySource};
use mainstay_olm_v1_core::extension::KIND;
use mainstay_olm_v1_core::extension::account_name;
use mainstay_olm_v1_core::extension::dependencies;
use mainstay_olm_v1_core::extension::facts::{Answer, Fact, Lifecycle, Snapshot};
use mainstay_olm_v1_core::extension::plan::{self, Plan};
use mainstay_olm_v1_core::extension::preview::{self, Extra};
use mainstay_olm_v1_core::extension::webhooks::{Simulation, Unanswered};
use mainstay_olm_v1_core::gates::{FeatureGates, Profile};
use mainstay_rbac::PolicyIndex;
use serde_json::{Value, json};

use crate::catalogs::{CatalogSnapshot, Unavailable};
use crate::failure::{not_written, refused};
use crate::progress::Progress;
use crate::session::Session;
use crate::settings::Settings;
use crate::{records, token_access};

pub use path::{Depth, PlannedBundle, objects};
use pulled::Pulled;

/// Maximum number of times that a plan may ask for facts.
const ROUNDS: usize = 16;

/// The permissions that a plan assumes.
pub enum AssumedPermissions {
    /// The permissions on the cluster.
    Live,
    /// The permissions with these objects applied: the account exists, and has what they grant.
    With(Vec<Value>),
    /// All permissions, to learn which are needed.
    All,
}

/// A cluster as this user sees it. Each fact is fetched once, so that all plans of one command describe the same moment.
pub struct ClusterView<'s> {
    /// The connection.
    pub session: &'s Session,
    /// Its catalogs.
    pub catalogs: CatalogSnapshot,
    client: Client,
    policy: Result<Arc<PolicyIndex>, Failure>,
    settings: Settings,
    lifecycle: Lifecycle,
    bundles: Pulled,
    live: HashMap<ObjectRef, Live>,
    revisions: BTreeMap<String, FactRevision>,
    /// Facts that no decision rests on.
    pub extra: Extra,
    /// The nodes; empty if they cannot be read, or are too many.
    nodes: Vec<DynamicObject>,
    /// The simulated nodes of the cluster; `None` if they cannot be read.
    pub simulation: Option<Simulation>,
    /// The webhooks of the cluster that nothing answers.
    unanswered: Vec<Unanswered>,
    /// Labels of the namespaces that were read.
    namespaces: HashMap<String, BTreeMap<String, String>>,
    /// Set if the server did not say what it serves.
    silent: bool,
    /// Notes about what could not be read.
    pub notes: Vec<String>,
}

impl<'s> ClusterView<'s> {
    /// Reads catalogs, roles and the server's version.
    pub async fn open(session: &'s Session, progress: &mut dyn Progress) -> Result<Self, Failure> {
        progress.doing("look at the cluster's catalogs and roles");
        let (catalogs, policy, settings, version, system, lifecycle, platform, nodes, simulation) = tokio::join!(
            CatalogSnapshot::open(session, None),
            cluster::policy(session),
            Box::pin(Settings::read(session)),
            session.client.apiserver_version(),
            cluster::system(session),
            Box::pin(lifecycle::read(&session.client)),
            cluster::platform(session),
            Box::pin(cluster::nodes(session)),
            Box::pin(cluster::simulation(session))
        );
        let mut client = session.registries.client()?;
        if let Some(observer) = progress.transfer("pull the bundle") {
            client = client.with_progress(observer);
        }
        let catalogs = catalogs?;
        let mut notes = settings.notes.clone();
        if let Err(problem) = &policy {
            notes.push(format!("whether the account may do it was not checked: {problem}"));
        }
        let lifecycle = lifecycle.unwrap_or_else(|error| {
            notes.push(format!(
                "whether it waits for an approval or for other extensions was not checked: {}",
                refused("lifecyclepolicies", &error).to_line()
            ));
            Lifecycle::default()
        });
        let version = version.map_err(|error| refused("server", &error))?;
        let platform = platform.unwrap_or_else(|problem| {
            notes.push(format!("the platform's version is not known: {problem}"));
            None
        });
        let nodes_known = nodes.is_ok();
        let nodes = nodes.unwrap_or_else(|problem| {
            notes.push(format!("whether nodes take the pods was not checked: {problem}"));
            Vec::new()
        });
        let (simulation, unanswered) = match simulation {
            Ok((simulation, unanswered)) => (Some(simulation), unanswered),
            Err(problem) => {
                // A note says already that the nodes cannot be read.
                if nodes_known {
                    notes.push(format!("whether webhooks have simulated pods was not checked: {problem}"));
                }
                (None, Vec::new())
            }
        };
        let server_version = Some(version.git_version.trim_start_matches('v').to_owned());
        let extra = Extra { platform, server_version, ..Extra::default() };
        let mut revisions: BTreeMap<String, FactRevision> =
            catalogs.revisions().into_iter().map(|revision| (revision.fact.clone(), revision)).collect();
        revisions.insert("cluster".to_owned(), system?);
        revisions.insert("feature gates".to_owned(), FactRevision::of("feature gates", settings.fact()));
        let bundles = Pulled::new(client.clone());
        Ok(Self {
            session,
            catalogs,
            client,
            policy,
            settings,
            lifecycle,
            bundles,
            live: HashMap::new(),
            revisions,
            extra,
            nodes,
            simulation,
            unanswered,
            namespaces: HashMap::new(),
            silent: false,
            notes,
        })
    }

    fn observer(&self) -> Observer<'_> {
        Observer {
            own: &self.session.client,
            account: Some(&self.session.writer),
            bundles: &self.bundles,
            policy: self,
            system_namespace: &self.settings.system_namespace,
        }
    }

    /// Returns the objects that let the controller act as an account, named by namespace and name, if it may not
    /// ([`token_access::needed`]).
    pub async fn token_access(&self, extension: &str, account: (&str, &str)) -> Vec<Value> {
        token_access::needed(self.session, &self.settings, extension, account).await
    }

    /// Returns whether the controller may act as an account; `None` if that cannot be checked.
    pub async fn may_act_as(&self, account: (&str, &str)) -> Option<bool> {
        token_access::may_act_as(self.session, &self.settings, account).await
    }

    /// Reads the facts that a plan begins with.
    pub async fn begin(&self, extension: &ClusterExtension, permissions: &AssumedPermissions) -> Result<Snapshot, Failure> {
        let mut gates = self.settings.gates.clone();
        if self.policy.is_err() {
            let off = format!("{gates},PreflightPermissions=false");
            gates = FeatureGates::parse(Profile::Run, &off).map_err(|error| Failure::failed("plan", &error))?;
        }
        let extension = Arc::new(preview::hypothetical(extension.clone()));
        let mut snapshot = self.observer().begin(extension.clone(), gates, self.settings.own_account, self.catalogs.facts(), None).await;
        // The controller looks in its own namespace only; this view reads records wherever they are kept.
        snapshot.history = records::history(self.session, &extension).await;
        snapshot.known.lifecycle = self.lifecycle.clone();
        let added = match permissions {
            AssumedPermissions::Live => return Ok(snapshot),
            AssumedPermissions::With(objects) => objects.clone(),
            AssumedPermissions::All => everything(&snapshot.extension),
        };
        snapshot.known.account = Some(Ok(true));
        let mut index = self.policy.as_deref().cloned().unwrap_or_default();
        let grants = |object: &&Value| object["kind"].as_str().is_some_and(|kind| kind.ends_with("Role") || kind.ends_with("RoleBinding"));
        for object in added.iter().filter(grants) {
            index.apply(object).map_err(|error| Failure::failed("roles of the installer", &error))?;
        }
        snapshot.known.policy = Some(Arc::new(index));
        Ok(snapshot)
    }

    /// Plans as the controller does for a snapshot, and fetches the facts that the plan needs on the way.
    pub async fn ready(&mut self, snapshot: &mut Snapshot, progress: &mut dyn Progress) -> Result<Plan, Failure> {
        for _ in 0..ROUNDS {
            match plan::plan(snapshot) {
                Answer::Ready(plan) => return Ok(plan),
                Answer::Need(facts) => self.fetch(snapshot, facts, progress).await,
            }
        }
        let name = snapshot.extension.metadata.name.clone().unwrap_or_default();
        Err(Failure::new(FailureKind::Failed, format!("clusterextension {name}"), "the plan did not come to an end"))
    }

    /// Fetches facts. Live objects are fetched only once, so that all plans of one command describe the same moment.
    pub async fn fetch(&mut self, snapshot: &mut Snapshot, facts: Vec<Fact>, progress: &mut dyn Progress) {
        let mut missing = Vec::new();
        for fact in facts {
            match &fact {
                Fact::Live(target) if self.live.contains_key(target) => {
                    snapshot.known.live.insert(target.clone(), self.live[target].clone());
                }
                Fact::Bundle(image) => {
                    if !self.bundles.holds(&image.reference) {
                        progress.doing(&format!("pull {}", image.reference));
                    }
                    missing.push(fact);
                }
                _ => missing.push(fact),
            }
        }
        let asked: Vec<ObjectRef> = missing
            .iter()
            .filter_map(|fact| match fact {
                Fact::Live(target) => Some(target.clone()),
                _ => None,
            })
            .collect();
        self.observer().fetch(snapshot, missing).await;
        for target in asked {
            if let Some(live) = snapshot.known.live.get(&target) {
                let revision = FactRevision::live(&target, live);
                self.revisions.insert(revision.fact.clone(), revision);
                self.live.insert(target, live.clone());
            }
        }
    }

    /// Reads one live object, as a fact of the plan.
    pub async fn look(&mut self, target: &ObjectRef) -> Result<Option<Value>, Failure> {
        let found = self.session.writer.get(target).await;
        let found = match found {
            // A namespace or a kind that does not exist has no objects.
            Err(error) if error.is_not_found() => None,
            found => found.map_err(|error| not_written(&error))?,
        };
        let revision = FactRevision::object(target.to_string(), found.as_ref());
        self.revisions.insert(revision.fact.clone(), revision);
        Ok(found)
    }

    /// Assumes a policy that does not exist yet.
    pub fn with_policy(&mut self, policy: PolicyFact) {
        self.lifecycle.policies.retain(|other| other.name != policy.name);
        self.lifecycle.policies.push(policy);
    }

    /// Returns whether the controller has this feature gate on.
    pub fn gate(&self, name: &str) -> bool {
        self.settings.gates.on(name)
    }

    /// Lists every kind that is served.
    pub async fn kinds(&self) -> Result<Vec<ApiResource>, Failure> {
        self.observer().served().await.map_err(|error| refused("discovery", &error))
    }

    /// Looks for the extensions that need this one, and names them; `objects` are those that it installed, `others` are the extensions with
    /// an installed bundle.
    pub async fn needed_by(
        &mut self,
        snapshot: &mut Snapshot,
        objects: &[Value],
        others: &[(String, Arc<Record>)],
        progress: &mut dyn Progress,
    ) -> Vec<String> {
        progress.doing("look at who needs it");
        self.fetch(snapshot, vec![Fact::Apis], progress).await;
        if let Some(Err(problem)) = &snapshot.known.apis {
            self.notes.push(format!("which APIs would be there without it is not known: {problem}"));
        }
        let silent =
            self.catalogs.catalogs().iter().filter(|catalog| {
                matches!(catalog.content, Err(Unavailable::NotServing(_) | Unavailable::Broken(_) | Unavailable::Failed(_)))
            });
        self.notes.extend(silent.map(|catalog| format!("catalog {} cannot be asked who needs it", catalog.name)));
        let package = snapshot.extension.spec.source.catalog.as_ref().map_or("", |catalog| &catalog.package_name);
        removal::needed_by(KIND, objects, package, others, &dependencies::needed_by(snapshot))
    }

    fn note_facts(&mut self, snapshot: &Snapshot, plan: &Plan, permissions: &AssumedPermissions) {
        let made = !matches!(permissions, AssumedPermissions::Live);
        let facts = preview::revisions(snapshot).into_iter().filter(|revision| !made || revision.fact == "install records");
        let mut all: Vec<FactRevision> = facts.collect();
        all.extend(plan.record.as_deref().map(rendering));
        self.revisions.extend(all.into_iter().map(|revision| (revision.fact.clone(), revision)));
    }

    /// Returns the revisions of all facts that were read.
    pub fn revisions(&self) -> Vec<FactRevision> {
        self.revisions.values().cloned().collect()
    }
}

#[async_trait]
impl PolicySource for ClusterView<'_> {
    async fn index(&self) -> Arc<PolicyIndex> {
        // If the roles cannot be read, the check is off and the index is not used.
        self.policy.as_ref().map(Arc::clone).unwrap_or_default()
    }
}

/// Returns a role with all permissions for the extension's account.
fn everything(extension: &ClusterExtension) -> Vec<Value> {
    let name = "mainstay-plan-everything";
    let account = json!({"kind": "ServiceAccount", "name": account_name(extension), "namespace": extension.spec.namespace});
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}]);
    vec![
        json!({"kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}),
        json!({"kind": "ClusterRoleBinding", "metadata": {"name": name}, "subjects": [account],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}}),
    ]
}
