//! From what is asked to what would be written, and what the cluster would make of it.

use k8s_openapi::api::rbac::v1::{ClusterRole, Role};
use kube::api::{Api, ListParams};
use mainstay_api::olm_v1::{ClusterExtension, NAME_LABEL, WATCH_NAMESPACE};
use mainstay_apply::ObjectRef;
use mainstay_bundle::rights::{Grant, Installer, Scope, manifests, missing};
use mainstay_merge::merge_patch;
use mainstay_olm_v1::extension::facts::{Fact, Live};
use mainstay_olm_v1::extension::plan::account_name;
use mainstay_olm_v1::extension::preview::{self, Kind, Preview, Problem};
use mainstay_olm_v1::extension::rollback::Class;
use mainstay_rbac::parse_rules;
use serde_json::{Value, json};

use super::facts::instances;
use super::world::{Depth, Rights as Counted, Walked, World, objects};
use super::{Change, InstallWish, Planned, Rights, Write};
use crate::cluster::{Session, refused};
use crate::commands::rollback;
use crate::errors::{Exit, Failure};
use crate::extensions::{self, API_VERSION};
use crate::progress::Progress;

/// The label of accounts and roles that install and upgrade made: the extension they are for.
pub const INSTALLER_LABEL: &str = "lifecycle.mainstay.dev/installer-of";

/// Plans a change. `sizes` asks registries what every image weighs.
pub async fn plan(session: &Session, change: &Change, sizes: bool, progress: &mut Progress) -> Result<Planned, Failure> {
    let depth = if sizes { Depth::Everything } else { Depth::Objects };
    let mut making = Making { world: Box::pin(World::open(session, progress)).await?, depth, progress };
    match change {
        Change::Install(wish) => Box::pin(making.install(change, wish)).await,
        Change::Upgrade { name, version, channels } => Box::pin(making.upgrade(change, name, version.as_deref(), channels)).await,
        Change::Rollback { name, to_revision, force } => Box::pin(making.rollback(change, name, *to_revision, *force)).await,
        Change::Uninstall { name, keep_crds, even_if_needed } => {
            Box::pin(making.uninstall(change, name, *keep_crds, *even_if_needed)).await
        }
        Change::Object { extension, with } => Box::pin(making.object(change, extension, with)).await,
    }
}

struct Making<'s, 'p> {
    world: World<'s>,
    depth: Depth,
    progress: &'p mut Progress,
}

impl Making<'_, '_> {
    async fn install(&mut self, change: &Change, wish: &InstallWish) -> Result<Planned, Failure> {
        let name = &wish.name;
        if self.world.look(&place(name)).await?.is_some() {
            return Err(Failure::new(Exit::Impossible, format!("clusterextension {name}"), "exists already")
                .hint(format!("mainstay upgrade {name} changes its version or channel"))
                .hint("--name NAME installs the package under another name"));
        }
        if self.world.market.catalogs().is_empty() {
            return Err(no_catalog(&wish.package));
        }
        let namespace = match &wish.namespace {
            Some(namespace) => namespace.clone(),
            None => self.suggested(wish).await?,
        };
        let account = wish.service_account.clone().unwrap_or_else(|| format!("{name}-installer"));
        let wanted = extension(wish, &namespace, &account);
        let typed = read(&wanted)?;
        let mut writes = vec![Write::Once(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))];
        let mut rights = Vec::new();
        let counted = if wish.service_account.is_some() {
            Counted::Live
        } else {
            let installer = Installer { extension: name.clone(), service_account: account.clone(), namespace: namespace.clone() };
            let made = match wish.grant {
                Rights::Minimal => self.needed(&typed).await?.map(|needed| {
                    rights = needed.iter().map(ToString::to_string).collect();
                    manifests(&needed, &installer)
                }),
                Rights::Admin => {
                    rights.push("everything (cluster-admin)".to_owned());
                    Some(administrator(&installer))
                }
            };
            match made {
                Some(made) => {
                    let made: Vec<Value> = made.into_iter().map(|object| labelled(object, name)).collect();
                    writes.extend(made.iter().cloned().map(Write::Apply));
                    Counted::With(made)
                }
                // What is in the way has nothing to do with rights: they would only hide it.
                None => Counted::All,
            }
        };
        writes.push(Write::Create(wanted));
        let path = self.world.walk(&typed, &counted, self.depth, self.progress).await?;
        self.planned(change, &typed, writes, rights, path).await
    }

    /// The namespace that the bundle suggests.
    async fn suggested(&mut self, wish: &InstallWish) -> Result<String, Failure> {
        let own = format!("{}-system", wish.package);
        let provisional = read(&extension(wish, &own, "none"))?;
        let bundle = self.world.bundle(&provisional, self.progress).await?;
        let suggested = bundle.and_then(|bundle| bundle.facts().suggested_namespace).filter(|namespace| !namespace.is_empty());
        Ok(suggested.unwrap_or(own))
    }

    /// The least rights that every bundle of the path needs; none where the path is not doable whatever the rights.
    async fn needed(&mut self, extension: &ClusterExtension) -> Result<Option<Vec<Grant>>, Failure> {
        let name = extension.metadata.name.clone().unwrap_or_default();
        let path = self.world.walk(extension, &Counted::All, Depth::Plan, self.progress).await?;
        if path.iter().any(|walked| walked.step.problem.is_some()) {
            return Ok(None);
        }
        let grants = path.iter().flat_map(|walked| extensions::rights(&objects(walked.plan.record.as_ref()), &name)).collect::<Vec<_>>();
        Ok(Some(missing(&[], &grants)))
    }

    async fn upgrade(&mut self, change: &Change, name: &str, version: Option<&str>, channels: &[String]) -> Result<Planned, Failure> {
        let live = self.existing(name).await?;
        if live.pointer("/spec/source/catalog").is_none() {
            return Err(Failure::new(Exit::Impossible, format!("clusterextension {name}"), "has no catalog as its source"));
        }
        let kept = live.pointer("/spec/source/catalog/channels").cloned().unwrap_or_default();
        let channels = if channels.is_empty() { kept } else { Value::from(channels.to_vec()) };
        let patch = json!({"spec": {"source": {"catalog": {"version": version, "channels": channels}}}});
        self.patched(change, live, patch).await
    }

    async fn rollback(&mut self, change: &Change, name: &str, to: Option<u32>, force: bool) -> Result<Planned, Failure> {
        let live = self.existing(name).await?;
        let typed = read(&live)?;
        let way = rollback::look(self.world.session, &typed, to, self.progress).await?;
        let mut patch = json!({"spec": {"source": {"catalog": {"version": way.version, "upgradeConstraintPolicy": "SelfCertified"}}}});
        if !way.verdict.preflight.is_empty() {
            patch["spec"]["install"] = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}});
        }
        let mut planned = self.patched(change, live, patch).await?;
        let step = planned.preview.steps.first_mut();
        if let Some(step) = step.filter(|step| step.problem.is_none()) {
            let lines: Vec<String> = way.verdict.risks.iter().map(ToString::to_string).collect();
            let message = match way.verdict.verdict {
                Class::Safe => String::new(),
                Class::Unsafe if force => {
                    step.warnings.extend(lines.iter().cloned());
                    String::new()
                }
                Class::Unsafe => format!("rolling back from {} to {} is unsafe", way.from, way.to),
                Class::Impossible => format!("{} cannot be rolled back to {}", way.from, way.to),
            };
            if !message.is_empty() {
                let hints =
                    if way.verdict.verdict == Class::Unsafe { vec!["--force plans it all the same".to_owned()] } else { Vec::new() };
                step.problem = Some(Problem { message, causes: lines, hints, unknown_package: false });
                planned.preview.doable = false;
            }
        }
        planned.rollback = Some(way);
        Ok(planned)
    }

    async fn patched(&mut self, change: &Change, live: Value, patch: Value) -> Result<Planned, Failure> {
        let name = change.extension().to_owned();
        let wanted = read(&merged(live, &patch))?;
        let (mut writes, mut rights) = (Vec::new(), Vec::new());
        let granted = Granted::read(self.world.session, &wanted).await?;
        let counted = match granted {
            None => Counted::Live,
            Some(granted) => {
                let needed = self.needed(&wanted).await?;
                let beyond = needed.as_deref().map(|needed| missing(&granted.grants, needed)).unwrap_or_default();
                rights = beyond.iter().map(ToString::to_string).collect();
                if needed.is_none() {
                    Counted::All
                } else if beyond.is_empty() {
                    Counted::Live
                } else {
                    let all: Vec<Grant> = granted.grants.into_iter().chain(beyond).collect();
                    let made: Vec<Value> = manifests(&all, &granted.installer).into_iter().map(|object| labelled(object, &name)).collect();
                    writes.extend(made.iter().cloned().map(Write::Apply));
                    Counted::With(made)
                }
            }
        };
        writes.push(Write::Patch(place(&name), patch));
        let path = self.world.walk(&wanted, &counted, self.depth, self.progress).await?;
        self.planned(change, &wanted, writes, rights, path).await
    }

    async fn object(&mut self, change: &Change, wanted: &Value, with: &[Value]) -> Result<Planned, Failure> {
        let name = change.extension().to_owned();
        let live = self.world.look(&place(&name)).await?;
        // What an apply leaves of the live object decides, not the file alone.
        let typed = read(&live.map_or_else(|| wanted.clone(), |live| merged(live, wanted)))?;
        let rbac: Vec<Value> = with
            .iter()
            .filter(|object| object["apiVersion"].as_str().is_some_and(|version| version.starts_with("rbac.")))
            .cloned()
            .collect();
        let account = account_name(&typed);
        let brings = with.iter().any(|object| {
            object["kind"] == "ServiceAccount"
                && object["metadata"]["name"] == account
                && object["metadata"]["namespace"] == typed.spec.namespace.as_str()
        });
        let counted = if brings { Counted::With(rbac) } else { Counted::Live };
        let mut writes: Vec<Write> = with.iter().cloned().map(Write::Apply).collect();
        writes.push(Write::Apply(wanted.clone()));
        let path = self.world.walk(&typed, &counted, self.depth, self.progress).await?;
        self.planned(change, &typed, writes, Vec::new(), path).await
    }

    async fn uninstall(&mut self, change: &Change, name: &str, keep_crds: Option<bool>, even_if_needed: bool) -> Result<Planned, Failure> {
        let live = self.existing(name).await?;
        let typed = read(&live)?;
        let mut snapshot = self.world.begin(&typed, &Counted::Live).await?;
        let applied = snapshot.history.as_ref().map(preview::applied).unwrap_or_default();
        let facts = applied.iter().cloned().map(Fact::Live).collect();
        self.world.fetch(&mut snapshot, facts, self.progress).await;
        for target in applied.iter().filter(|target| target.kind == "CustomResourceDefinition") {
            if let Some(Live::Present(crd)) = snapshot.known.live.get(target) {
                let found = instances(self.world.session, crd).await;
                self.world.extra.instances.insert(target.name.clone(), found);
            }
        }
        let others = extensions::others(self.world.session, name).await?;
        let needs = self.world.needed_by(&mut snapshot, &others, self.progress).await;
        let step = preview::needed(preview::uninstall(&snapshot, &self.world.extra, keep_crds), &needs, even_if_needed);
        let preview = Preview { extension: name.to_owned(), doable: step.problem.is_none(), steps: vec![step], ..Preview::default() };
        Ok(Planned {
            change: change.clone(),
            preview,
            writes: Vec::new(),
            path: Vec::new(),
            objects: Vec::new(),
            account: (typed.spec.namespace.clone(), account_name(&typed).to_owned()),
            revisions: self.world.revisions(),
            notes: self.world.notes.clone(),
            rollback: None,
        })
    }

    async fn existing(&mut self, name: &str) -> Result<Value, Failure> {
        let found = self.world.look(&place(name)).await?;
        found.ok_or_else(|| {
            Failure::new(Exit::NotFound, format!("clusterextension {name}"), "there is none of this name")
                .hint("mainstay list shows what is installed")
        })
    }

    async fn planned(
        &mut self,
        change: &Change,
        extension: &ClusterExtension,
        writes: Vec<Write>,
        installer_rights: Vec<String>,
        path: Vec<Walked>,
    ) -> Result<Planned, Failure> {
        let mut shown = Vec::new();
        for write in &writes {
            let (target, wanted) = match write {
                Write::Once(object) | Write::Create(object) | Write::Apply(object) => {
                    let target = ObjectRef::of(object).map_err(|error| Failure::failed("plan", &error))?;
                    (target, object.clone())
                }
                Write::Patch(target, patch) => (target.clone(), patch.clone()),
            };
            let live = self.world.look(&target).await?;
            shown.push(match (write, &live) {
                (Write::Once(_), Some(_)) => preview::write(&target, &Value::Object(serde_json::Map::new()), live.as_ref()),
                _ => preview::write(&target, &wanted, live.as_ref()),
            });
        }
        let doable = path.iter().all(|walked| walked.step.problem.is_none());
        let objects = objects(path.last().and_then(|walked| walked.plan.record.as_ref()));
        let steps = path.iter().map(|walked| walked.step.clone()).collect();
        let preview =
            Preview { extension: change.extension().to_owned(), doable, writes: shown, installer_rights, steps, ..Preview::default() };
        Ok(Planned {
            change: change.clone(),
            preview,
            writes,
            path: path.into_iter().map(|walked| walked.plan.steps).collect(),
            objects,
            account: (extension.spec.namespace.clone(), account_name(extension).to_owned()),
            revisions: self.world.revisions(),
            notes: self.world.notes.clone(),
            rollback: None,
        })
    }
}

/// What a plan of nothing but `Nothing` comes to.
pub(super) fn stays(planned: &Planned) -> bool {
    planned.preview.steps.iter().all(|step| matches!(step.kind, Kind::Nothing | Kind::Repair))
}

pub(super) fn place(name: &str) -> ObjectRef {
    ObjectRef { api_version: API_VERSION.to_owned(), kind: "ClusterExtension".to_owned(), namespace: String::new(), name: name.to_owned() }
}

fn merged(mut live: Value, patch: &Value) -> Value {
    merge_patch(&mut live, patch);
    live
}

fn read(object: &Value) -> Result<ClusterExtension, Failure> {
    serde_json::from_value(object.clone()).map_err(|error| Failure::failed("clusterextension", &error))
}

fn no_catalog(package: &str) -> Failure {
    Failure::new(Exit::NotFound, format!("package {package}"), "the cluster has no catalog")
        .hint("mainstay catalog add NAME --ref REGISTRY/CATALOG:TAG adds one")
}

/// The extension that install makes.
fn extension(wish: &InstallWish, namespace: &str, account: &str) -> Value {
    let mut catalog = json!({"packageName": wish.package});
    if let Some(version) = &wish.version {
        catalog["version"] = version.as_str().into();
    }
    if !wish.channels.is_empty() {
        catalog["channels"] = wish.channels.clone().into();
    }
    if let Some(only) = &wish.catalog {
        catalog["selector"] = json!({"matchLabels": {NAME_LABEL: only}});
    }
    let mut extension = json!({
        "apiVersion": API_VERSION, "kind": "ClusterExtension", "metadata": {"name": wish.name},
        "spec": {"namespace": namespace, "serviceAccount": {"name": account}, "source": {"sourceType": "Catalog", "catalog": catalog}},
    });
    if let Some(watched) = &wish.watch_namespace {
        extension["metadata"]["annotations"] = json!({WATCH_NAMESPACE: watched});
    }
    extension
}

/// An account's object as install writes it.
pub fn labelled(mut object: Value, extension: &str) -> Value {
    object["metadata"]["labels"] = json!({INSTALLER_LABEL: extension, "app.kubernetes.io/managed-by": "mainstay"});
    object
}

fn administrator(installer: &Installer) -> Vec<Value> {
    let Installer { extension, service_account, namespace } = installer;
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": service_account, "namespace": namespace}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": format!("{extension}-installer-binding")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": service_account, "namespace": namespace}],
        }),
    ]
}

/// What the account that install made may do.
pub struct Granted {
    /// The account.
    pub installer: Installer,
    /// What it may do.
    pub grants: Vec<Grant>,
}

impl Granted {
    /// Nothing where the account is not ours, or is an administrator.
    pub async fn read(session: &Session, extension: &ClusterExtension) -> Result<Option<Self>, Failure> {
        let name = extension.metadata.name.clone().unwrap_or_default();
        let ours = ListParams::default().labels(&format!("{INSTALLER_LABEL}={name}"));
        let subject = || format!("roles of the installer of {name}");
        let cluster_roles: Api<ClusterRole> = Api::all(session.client.clone());
        let roles: Api<Role> = Api::all(session.client.clone());
        let mut grants = Vec::new();
        for role in cluster_roles.list(&ours).await.map_err(|error| refused(subject(), &error))? {
            grants.extend(rules(&role, &Scope::Cluster)?);
        }
        for role in roles.list(&ours).await.map_err(|error| refused(subject(), &error))? {
            grants.extend(rules(&role, &Scope::Namespace(role.metadata.namespace.clone().unwrap_or_default()))?);
        }
        let account = account_name(extension).to_owned();
        let installer = Installer { extension: name, service_account: account, namespace: extension.spec.namespace.clone() };
        Ok((!grants.is_empty()).then_some(Self { installer, grants }))
    }
}

fn rules(role: &impl serde::Serialize, scope: &Scope) -> Result<Vec<Grant>, Failure> {
    let value = serde_json::to_value(role).map_err(|error| Failure::failed("role", &error))?;
    let rules = parse_rules(&value).map_err(|error| Failure::failed("role", &error))?;
    Ok(rules.into_iter().map(|rule| Grant { scope: scope.clone(), rule }).collect())
}
