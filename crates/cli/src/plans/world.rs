//! The world as this user sees it, and the controller's plan made of it. Nothing is decided here.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_apply::WriteError;
use mainstay_bundle::Bundle;
use mainstay_lifecycle::Live;
use mainstay_lifecycle::change::Action;
use mainstay_lifecycle::policy::PolicyFact;
use mainstay_lifecycle::preview::{FactRevision, Step};
use mainstay_lifecycle::removal;
use mainstay_lifecycle::revision::Record;
use mainstay_objects::ObjectRef;
use mainstay_oci::Client;
use mainstay_olm_v1::extension::lifecycle;
use mainstay_olm_v1::extension::observe::{BundleSource, Observer, PolicySource};
use mainstay_olm_v1_core::cluster_operator::compat::Platform;
use mainstay_olm_v1_core::extension::dependencies;
use mainstay_olm_v1_core::extension::facts::{Answer, BundleImage, Fact, Lifecycle, PullFailure, Snapshot};
use mainstay_olm_v1_core::extension::plan::{self, Plan, Verdict, account_name};
use mainstay_olm_v1_core::extension::preview::{self, Extra};
use mainstay_olm_v1_core::extension::webhooks::{Simulation, Unanswered};
use mainstay_olm_v1_core::gates::{FeatureGates, Profile};
use mainstay_rbac::PolicyIndex;
use mainstay_runtime::KindError;
use serde_json::{Value, json};

use super::facts::{self, extra};
use super::placement;
use super::settings::Settings;
use crate::cluster::{Session, refused};
use crate::errors::{Exit, Failure};
use crate::market::{Market, Unavailable};
use crate::progress::Progress;
use crate::{bundles, images, records, simulated, token_access};

/// How often a plan may ask for facts.
const ROUNDS: usize = 16;
/// Nodes that pods are held against; in larger clusters that is not done.
const NODES: u32 = 200;
/// No path is so long; only a catalog that leads round in a circle is.
const STEPS: usize = 100;

/// Whose rights the plan counts with.
pub enum Rights {
    /// As the cluster has them.
    Live,
    /// With these objects applied: the account exists, and holds what they grant.
    With(Vec<Value>),
    /// Everything, to learn what is needed.
    All,
}

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Only what the plan needs.
    Plan,
    /// Custom resources, too.
    Objects,
    /// Also the digests and sizes of every image.
    Everything,
}

/// One bundle of the path.
pub struct Walked {
    /// What people see.
    pub step: Step,
    /// The plan.
    pub plan: Plan,
    /// The facts of a plan that is refused.
    pub refused: Option<Snapshot>,
}

/// The facts, each fetched once.
pub struct World<'s> {
    pub session: &'s Session,
    pub market: Market,
    pub client: Client,
    policy: Result<Arc<PolicyIndex>, String>,
    settings: Settings,
    lifecycle: Lifecycle,
    bundles: Pulled,
    live: HashMap<ObjectRef, Live>,
    revisions: BTreeMap<String, Revision>,
    pub extra: Extra,
    /// None where they are not known, or too many to be read.
    nodes: Vec<DynamicObject>,
    /// What the cluster says of simulated nodes; nothing where it was not said.
    pub simulation: Option<Simulation>,
    /// The webhooks of the cluster that nothing answers.
    unanswered: Vec<Unanswered>,
    /// Labels of namespaces that were looked at.
    namespaces: HashMap<String, BTreeMap<String, String>>,
    /// Whether the server did not say what it serves.
    silent: bool,
    pub notes: Vec<String>,
}

impl<'s> World<'s> {
    /// Looks at catalogs, roles and the server.
    pub async fn open(session: &'s Session, progress: &mut Progress) -> Result<Self, Failure> {
        progress.doing("look at the cluster's catalogs and roles");
        let (market, policy, settings, version, system, lifecycle, platform, nodes, simulation) = tokio::join!(
            Market::open(session, None),
            policy(session),
            Box::pin(Settings::read(session)),
            session.client.apiserver_version(),
            system(session),
            Box::pin(lifecycle::read(&session.client)),
            platform(session),
            Box::pin(nodes(session)),
            Box::pin(simulation(session))
        );
        let mut client = images::client()?;
        if let Some(told) = progress.transfer("pull the bundle") {
            client = client.with_progress(told);
        }
        let market = market?;
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
                // That nodes cannot be read is said already.
                if nodes_known {
                    notes.push(format!("whether webhooks have simulated pods was not checked: {problem}"));
                }
                (None, Vec::new())
            }
        };
        let server_version = Some(version.git_version.trim_start_matches('v').to_owned());
        let extra = Extra { platform, server_version, ..Extra::default() };
        let mut revisions: BTreeMap<String, Revision> =
            market.revisions().into_iter().map(|revision| (revision.fact.clone(), revision)).collect();
        revisions.insert("cluster".to_owned(), system?);
        revisions.insert("feature gates".to_owned(), Revision::of("feature gates", settings.fact()));
        let bundles = Pulled { client: client.clone(), held: Mutex::default() };
        Ok(Self {
            session,
            market,
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

    /// What lets the controller act as an account, named by namespace and name, where it may not ([`token_access::needed`]).
    pub async fn token_access(&self, extension: &str, account: (&str, &str)) -> Vec<Value> {
        token_access::needed(self.session, &self.settings, extension, account).await
    }

    /// Whether the controller may act as an account; `None` where that cannot be asked.
    pub async fn may_act_as(&self, account: (&str, &str)) -> Option<bool> {
        token_access::may_act_as(self.session, &self.settings, account).await
    }

    /// The facts that a plan begins with.
    pub async fn begin(&self, extension: &ClusterExtension, rights: &Rights) -> Result<Snapshot, Failure> {
        let mut gates = self.settings.gates.clone();
        if self.policy.is_err() {
            let off = format!("{gates},PreflightPermissions=false");
            gates = FeatureGates::parse(Profile::Run, &off).map_err(|error| Failure::failed("plan", &error))?;
        }
        let extension = Arc::new(preview::hypothetical(extension.clone()));
        let mut snapshot = self.observer().begin(extension.clone(), gates, self.settings.own_account, self.market.facts()).await;
        // The controller looks in its own namespace alone, and knows that it does.
        snapshot.history = match records::read(self.session, &extension).await {
            Ok(records) => match records.unknown(&extension) {
                Some(problem) => Err(problem),
                None => Ok(records.history),
            },
            Err(failure) => Err(failure.to_line()),
        };
        snapshot.known.lifecycle = self.lifecycle.clone();
        let added = match rights {
            Rights::Live => return Ok(snapshot),
            Rights::With(objects) => objects.clone(),
            Rights::All => everything(&snapshot.extension),
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

    /// The bundle that would be chosen, as far as one is; its content is asked for before anything on the cluster is.
    pub async fn bundle(&mut self, extension: &ClusterExtension, progress: &mut Progress) -> Result<Option<Arc<Bundle>>, Failure> {
        let mut snapshot = self.begin(extension, &Rights::All).await?;
        for _ in 0..ROUNDS {
            match plan::plan(&snapshot) {
                Answer::Ready(_) => break,
                Answer::Need(facts) if facts.iter().any(|fact| matches!(fact, Fact::Live(_))) => break,
                Answer::Need(facts) => self.fetch(&mut snapshot, facts, progress).await,
            }
        }
        let package = extension.spec.source.catalog.as_ref().map(|catalog| catalog.package_name.clone()).unwrap_or_default();
        let mut held = snapshot.known.bundles.values().filter_map(|bundle| bundle.as_ref().ok());
        Ok(held.clone().find(|bundle| bundle.package == package).or_else(|| held.next()).cloned())
    }

    /// Plans until the cluster has come to rest, one bundle after the other (OLM1-UPG-07).
    pub async fn walk(
        &mut self,
        extension: &ClusterExtension,
        rights: &Rights,
        depth: Depth,
        progress: &mut Progress,
    ) -> Result<Vec<Walked>, Failure> {
        let name = extension.metadata.name.clone().unwrap_or_default();
        progress.doing(&format!("{name}: plan"));
        let mut snapshot = self.begin(extension, rights).await?;
        let mut path: Vec<Walked> = Vec::new();
        while path.len() < STEPS {
            let plan = self.ready(&mut snapshot, progress).await?;
            if path.is_empty() && depth != Depth::Plan {
                self.note_facts(&snapshot, &plan, rights);
            }
            let rests = plan.verdict == Verdict::Reached && !matches!(plan.action, Action::Install | Action::Upgrade);
            if rests && !path.is_empty() {
                break;
            }
            if depth != Depth::Plan {
                self.look_at_served(progress).await;
                let unlooked = preview::unlooked(&snapshot, &plan);
                if !unlooked.is_empty() {
                    self.fetch(&mut snapshot, unlooked, progress).await;
                }
                let wanted = preview::wanted(&snapshot, &plan);
                extra(self.session, &self.client, wanted, depth == Depth::Everything, &mut self.extra, progress).await;
            }
            let mut step = preview::step(&snapshot, &plan, &self.extra);
            step.warnings.extend(placement::unplaced(&plan, &self.nodes));
            self.look_at_namespaces(&plan).await;
            step.warnings.extend(placement::stopped(&plan, &self.unanswered, &self.namespaces));
            step.warnings.extend(self.simulation.iter().flat_map(|simulation| placement::stopping(&plan, simulation)));
            let refused = (depth != Depth::Plan && step.problem.is_some()).then(|| snapshot.clone());
            let next = preview::advance(snapshot, &plan);
            path.push(Walked { step, plan, refused });
            match next {
                Some(next) => snapshot = next,
                None => break,
            }
        }
        Ok(path)
    }

    /// The labels of the namespaces that a plan's workloads are in, for webhooks that select by them.
    async fn look_at_namespaces(&mut self, plan: &Plan) {
        if self.unanswered.is_empty() {
            return;
        }
        let namespaces: Api<Namespace> = Api::all(self.session.client.clone());
        for name in placement::namespaces(plan) {
            if self.namespaces.contains_key(&name) {
                continue;
            }
            let labels = match namespaces.get_metadata_opt(&name).await {
                Ok(Some(found)) => found.metadata.labels.unwrap_or_default(),
                // It is made by the change, with the label that every namespace has.
                Ok(None) => BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), name.clone())]),
                Err(error) => {
                    let problem = refused(format!("namespace {name}"), &error).to_line();
                    self.notes.push(format!("whether webhooks stop pods in namespace {name} was not checked: {problem}"));
                    continue;
                }
            };
            self.namespaces.insert(name, labels);
        }
    }

    /// What the server serves, asked once.
    async fn look_at_served(&mut self, progress: &mut Progress) {
        if self.extra.served.is_some() || self.silent {
            return;
        }
        progress.doing("look at what the cluster serves");
        let found = facts::served(&self.observer()).await;
        match found {
            Ok(served) => self.extra.served = Some(served),
            Err(problem) => {
                self.silent = true;
                self.notes.push(format!("which kinds the cluster serves is not known: {problem}"));
            }
        }
    }

    /// The controller's plan for a snapshot.
    pub async fn ready(&mut self, snapshot: &mut Snapshot, progress: &mut Progress) -> Result<Plan, Failure> {
        for _ in 0..ROUNDS {
            match plan::plan(snapshot) {
                Answer::Ready(plan) => return Ok(plan),
                Answer::Need(facts) => self.fetch(snapshot, facts, progress).await,
            }
        }
        let name = snapshot.extension.metadata.name.clone().unwrap_or_default();
        Err(Failure::new(Exit::Failed, format!("clusterextension {name}"), "the plan did not come to an end"))
    }

    /// Fetches facts; live objects only once, so that all plans of one command speak of the same moment.
    pub async fn fetch(&mut self, snapshot: &mut Snapshot, facts: Vec<Fact>, progress: &mut Progress) {
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
                let revision = Revision::live(&target, live);
                self.revisions.insert(revision.fact.clone(), revision);
                self.live.insert(target, live.clone());
            }
        }
    }

    /// One live object, as fact of the plan.
    pub async fn look(&mut self, target: &ObjectRef) -> Result<Option<Value>, Failure> {
        let found = self.session.writer.get(target).await;
        let found = match found {
            // A namespace or a kind that is not there has no objects.
            Err(error) if error.is_not_found() => None,
            found => found.map_err(|error| crate::cluster::not_written(&error))?,
        };
        let revision = Revision::object(target.to_string(), found.as_ref());
        self.revisions.insert(revision.fact.clone(), revision);
        Ok(found)
    }

    /// Counts with a policy that is not there yet.
    pub fn with_policy(&mut self, policy: PolicyFact) {
        self.lifecycle.policies.retain(|other| other.name != policy.name);
        self.lifecycle.policies.push(policy);
    }

    /// Whether the controller has this feature gate on.
    pub fn gate(&self, name: &str) -> bool {
        self.settings.gates.on(name)
    }

    /// Every kind that is served.
    pub async fn kinds(&self) -> Result<Vec<ApiResource>, Failure> {
        self.observer().served().await.map_err(|error| refused("discovery", &error))
    }

    /// The extensions that need this one, in words; `objects` is what it brought, `others` are those that have something installed.
    pub async fn needed_by(
        &mut self,
        snapshot: &mut Snapshot,
        objects: &[Value],
        others: &[(String, Record)],
        progress: &mut Progress,
    ) -> Vec<String> {
        progress.doing("look at who needs it");
        self.fetch(snapshot, vec![Fact::Apis], progress).await;
        if let Some(Err(problem)) = &snapshot.known.apis {
            self.notes.push(format!("which APIs would be there without it is not known: {problem}"));
        }
        let silent = self
            .market
            .catalogs()
            .iter()
            .filter(|stall| matches!(stall.content, Err(Unavailable::NotServing(_) | Unavailable::Broken(_) | Unavailable::Failed(_))));
        self.notes.extend(silent.map(|stall| format!("catalog {} cannot be asked who needs it", stall.name)));
        let package = snapshot.extension.spec.source.catalog.as_ref().map_or("", |catalog| &catalog.package_name);
        removal::needed_by(objects, package, others, &dependencies::needed_by(snapshot))
    }

    fn note_facts(&mut self, snapshot: &Snapshot, plan: &Plan, rights: &Rights) {
        let made = !matches!(rights, Rights::Live);
        let facts = preview::revisions(snapshot).into_iter().filter(|revision| !made || revision.fact == "install records");
        let mut all: Vec<Revision> = facts.collect();
        all.extend(plan.record.as_ref().map(preview::rendering));
        self.revisions.extend(all.into_iter().map(|revision| (revision.fact.clone(), revision)));
    }

    /// Everything that was looked at.
    pub fn revisions(&self) -> Vec<Revision> {
        self.revisions.values().cloned().collect()
    }
}

#[async_trait]
impl PolicySource for World<'_> {
    async fn index(&self) -> Arc<PolicyIndex> {
        // Where they could not be read, the check is off and nobody asks.
        self.policy.clone().unwrap_or_default()
    }
}

/// A role with everything for the extension's account.
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

/// Roles and bindings, or why they cannot be read.
async fn policy(session: &Session) -> Result<Arc<PolicyIndex>, String> {
    let list = |kind: &'static str, plural: &'static str| {
        let gvk = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", kind);
        let api: Api<DynamicObject> = Api::all_with(session.client.clone(), &ApiResource::from_gvk_with_plural(&gvk, plural));
        async move {
            let found = api.list(&ListParams::default()).await.map_err(|error| refused(plural, &error).to_line())?;
            Ok::<_, String>((kind, found.items))
        }
    };
    let (roles, cluster_roles, bindings, cluster_bindings) = tokio::try_join!(
        list("Role", "roles"),
        list("ClusterRole", "clusterroles"),
        list("RoleBinding", "rolebindings"),
        list("ClusterRoleBinding", "clusterrolebindings"),
    )?;
    let mut index = PolicyIndex::default();
    for (kind, items) in [roles, cluster_roles, bindings, cluster_bindings] {
        for item in items {
            let mut object = serde_json::to_value(&item).map_err(|error| error.to_string())?;
            object["kind"] = kind.into();
            index.apply(&object).map_err(|error| error.to_string())?;
        }
    }
    Ok(Arc::new(index))
}

/// The platform's version; none where the cluster has no platform.
async fn platform(session: &Session) -> Result<Option<Platform>, String> {
    let place = ObjectRef {
        api_version: "config.openshift.io/v1".to_owned(),
        kind: "ClusterVersion".to_owned(),
        namespace: String::new(),
        name: "version".to_owned(),
    };
    match session.writer.get(&place).await {
        Ok(Some(found)) => Platform::of(&found).map_err(|error| error.to_string()),
        // A cluster without a platform does not serve the kind.
        Ok(None) | Err(WriteError::Kind { source: KindError::NotServed { .. }, .. }) => Ok(None),
        Err(error) => Err(crate::cluster::not_written(&error).to_line()),
    }
}

/// What the cluster says of simulated nodes, and its webhooks that nothing answers.
async fn simulation(session: &Session) -> Result<(Simulation, Vec<Unanswered>), String> {
    let simulation = simulated::read(session).await.map_err(|failure| failure.to_line())?;
    if !simulation.everywhere || simulation.passes_over {
        return Ok((simulation, Vec::new()));
    }
    let configurations = simulated::configurations(session).await.map_err(|failure| failure.to_line())?;
    let unanswered = simulation.unanswered(&configurations);
    Ok((simulation, unanswered))
}

/// The nodes; none of a cluster with so many that some node will do.
async fn nodes(session: &Session) -> Result<Vec<DynamicObject>, String> {
    let gvk = GroupVersionKind::gvk("", "v1", "Node");
    let api: Api<DynamicObject> = Api::all_with(session.client.clone(), &ApiResource::from_gvk_with_plural(&gvk, "nodes"));
    let found = api.list(&ListParams::default().limit(NODES)).await.map_err(|error| refused("nodes", &error).to_line())?;
    let more = found.metadata.continue_.is_some_and(|token| !token.is_empty());
    Ok(if more { Vec::new() } else { found.items })
}

/// Which cluster it is.
async fn system(session: &Session) -> Result<Revision, Failure> {
    let api: Api<Namespace> = Api::all(session.client.clone());
    let found = api.get_metadata_opt("kube-system").await.map_err(|error| refused("namespace kube-system", &error))?;
    let uid = found.and_then(|found| found.metadata.uid).unwrap_or_default();
    Ok(Revision::of("cluster", format!("the one whose namespace kube-system has uid {uid}")))
}

/// Bundles that were pulled by this process, with its user's credentials.
struct Pulled {
    client: Client,
    held: Mutex<HashMap<String, Arc<Bundle>>>,
}

impl Pulled {
    fn holds(&self, reference: &str) -> bool {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).contains_key(reference)
    }
}

#[async_trait]
impl BundleSource for Pulled {
    async fn bundle(&self, _extension: &str, image: &BundleImage) -> Result<Arc<Bundle>, PullFailure> {
        let reference = image.reference.as_str();
        if let Some(bundle) = self.held.lock().unwrap_or_else(PoisonError::into_inner).get(reference) {
            return Ok(bundle.clone());
        }
        let failed = |failure: &Failure| PullFailure { message: failure.to_line(), terminal: false };
        let files = bundles::pull_with(&self.client, reference).await.map_err(|failure| failed(&failure))?;
        let bundle = Arc::new(bundles::read(reference, &files).map_err(|failure| failed(&failure))?);
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(reference.to_owned(), bundle.clone());
        Ok(bundle)
    }

    async fn forget(&self, _extension: &str) -> Result<(), String> {
        Ok(())
    }
}

/// What a plan leaves recorded.
pub fn objects(record: Option<&Record>) -> Vec<Value> {
    record.map(|record| record.objects.clone()).unwrap_or_default()
}
