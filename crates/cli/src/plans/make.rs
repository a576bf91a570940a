//! From what is asked to what would be written, and what the cluster would make of it.

use k8s_openapi::api::rbac::v1::{ClusterRole, Role};
use kube::api::{Api, ListParams};
use mainstay_api::lifecycle::CRD_UPGRADE_SAFETY;
use mainstay_api::olm_v1::{ClusterExtension, NAME_LABEL, WATCH_NAMESPACE};
use mainstay_bundle::rights::{Grant, Installer, Scope, manifests, missing};
use mainstay_catalog::near::nearest;
use mainstay_lifecycle::policy::PolicyFact;
use mainstay_lifecycle::preview::{Kind, Preview, Problem};
use mainstay_lifecycle::revision::History;
use mainstay_lifecycle::rollback::Class;
use mainstay_merge::merge_patch;
use mainstay_objects::ObjectRef;
use mainstay_olm_v1::manifests::TOKEN_LABEL;
use mainstay_olm_v1_core::extension::dependencies;
use mainstay_olm_v1_core::extension::facts::Fact;
use mainstay_olm_v1_core::extension::owned::Tie;
use mainstay_olm_v1_core::extension::plan::{WARN, account_name};
use mainstay_olm_v1_core::extension::preview;
use mainstay_rbac::parse_rules;
use mainstay_resolver::Request;
use serde_json::{Value, json};

use super::choices::{self, Choice};
use super::facts::instances;
use super::world::{Depth, Rights as Counted, Walked, World, objects};
use super::{Change, CrdSafety, InstallWish, Planned, Rights, Write, advice};
use crate::cluster::{Session, refused};
use crate::commands::rollback;
use crate::errors::{Exit, Failure};
use crate::extensions::{self, API_VERSION};
use crate::market::only;
use crate::ownership;
use crate::progress::Progress;

/// The label of accounts and roles that install and upgrade made: the extension they are for.
pub const INSTALLER_LABEL: &str = "lifecycle.mainstay.dev/installer-of";

/// Plans a change. `sizes` asks registries what every image weighs.
pub async fn plan(session: &Session, change: &Change, sizes: bool, progress: &mut Progress) -> Result<Planned, Failure> {
    let depth = if sizes { Depth::Everything } else { Depth::Objects };
    let mut making = Making { world: Box::pin(World::open(session, progress)).await?, depth, progress };
    match change {
        Change::Install(wish) => Box::pin(making.install(change, wish)).await,
        Change::Upgrade { name, version, channels, grant, crd_safety } => {
            let wish = UpgradeWish { version: version.as_deref(), channels, grant: *grant, crd_safety: *crd_safety };
            Box::pin(making.upgrade(change, name, wish)).await
        }
        Change::Rollback { name, to_revision, force } => Box::pin(making.rollback(change, name, *to_revision, *force)).await,
        Change::Uninstall { name, keep_crds, even_if_needed } => {
            Box::pin(making.uninstall(change, name, *keep_crds, *even_if_needed)).await
        }
        Change::Object { extension, with } => Box::pin(making.object(change, extension, with)).await,
    }
}

/// What an upgrade is asked for.
struct UpgradeWish<'a> {
    version: Option<&'a str>,
    channels: &'a [String],
    grant: Option<Rights>,
    crd_safety: Option<CrdSafety>,
}

/// What an install writes.
struct Prepared {
    /// The extension.
    typed: ClusterExtension,
    /// It, and what it needs on the cluster.
    writes: Vec<Write>,
    /// The rights of its account, in words.
    rights: Vec<String>,
    /// Whose rights the plan counts with.
    counted: Counted,
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
        let mut wish = wish.clone();
        let mut choices = Vec::new();
        let mut writes = Vec::new();
        if wish.with_dependencies {
            Box::pin(self.along(&wish, &mut writes, &mut choices)).await?;
        }
        let prepared = self.prepare(&mut wish, &mut choices).await?;
        writes.extend(prepared.writes);
        let mut path = self.world.walk(&prepared.typed, &prepared.counted, self.depth, self.progress).await?;
        if wish.with_dependencies {
            for walked in &mut path {
                // What would have to be approved is what is asked for here; an approval that a policy of others wants stays.
                let only = |approval: &preview::Approval| approval.reasons.iter().all(|reason| reason.starts_with("also installs "));
                walked.step.approval = walked.step.approval.take().filter(|approval| !only(approval));
            }
        }
        let mut planned = self.planned(change, &prepared.typed, writes, prepared.rights, path).await?;
        if offers_dependencies(&planned.preview, &wish.package) {
            let works = Box::pin(self.works_with_dependencies(&wish)).await;
            offer_dependencies(&mut planned.preview, &wish.package, works);
        }
        planned.choices = choices;
        Ok(planned)
    }

    /// What an install writes: namespace, account, rights, extension; with what was decided where nobody said it.
    async fn prepare(&mut self, wish: &mut InstallWish, choices: &mut Vec<String>) -> Result<Prepared, Failure> {
        let name = wish.name.clone();
        if let Some(catalog) = &wish.catalog {
            self.known_catalog(catalog)?;
        }
        if wish.channels.is_empty()
            && let Some(choice) = self.followed(wish)
        {
            wish.channels.extend(choice.value);
            choices.push(format!("{name} {}", choice.said));
        }
        let own = format!("{}-system", wish.package);
        let provisional = read(&extension(wish, wish.namespace.as_deref().unwrap_or(&own), "none"))?;
        let bundle = self.world.bundle(&provisional, self.progress).await?;
        let suggested = || bundle.as_ref().and_then(|bundle| bundle.facts().suggested_namespace).filter(|namespace| !namespace.is_empty());
        let namespace = wish.namespace.clone().or_else(suggested).unwrap_or(own);
        if wish.watch_namespace.is_none()
            && self.world.gate("SingleOwnNamespaceInstallSupport")
            && let Some(choice) = bundle.as_ref().and_then(|bundle| choices::watched(bundle, &namespace))
        {
            wish.watch_namespace = Some(choice.value);
            choices.push(format!("{name} {}", choice.said));
        }
        let account = wish.service_account.clone().unwrap_or_else(|| format!("{name}-installer"));
        let wanted = extension(wish, &namespace, &account);
        let typed = read(&wanted)?;
        let mut writes = vec![Write::Once(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))];
        let mut rights = Vec::new();
        let access = self.world.token_access(&name, (&namespace, &account)).await;
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
                    let made: Vec<Value> = made.into_iter().map(|object| labelled(object, &name)).collect();
                    writes.extend(made.iter().cloned().map(Write::Apply));
                    Counted::With(made)
                }
                // What is in the way has nothing to do with rights: they would only hide it.
                None => Counted::All,
            }
        };
        writes.extend(access.into_iter().map(|object| Write::Apply(labelled(object, &name))));
        writes.push(Write::Create(wanted));
        Ok(Prepared { typed, writes, rights, counted })
    }

    /// The channel that is followed where none was asked for: the package's default.
    /// Refuses a catalog that the cluster does not have: a directory or an image is none.
    fn known_catalog(&self, name: &str) -> Result<(), Failure> {
        let catalogs = self.world.market.catalogs();
        if catalogs.iter().any(|catalog| catalog.name == name) {
            return Ok(());
        }
        let failure = Failure::new(Exit::NotFound, format!("clustercatalog {name}"), "the cluster has no catalog of this name");
        let failure = if name.contains(['/', ':']) || std::path::Path::new(name).exists() {
            failure.because("what is installed comes from the cluster's catalogs; mainstay catalog add makes one of an image")
        } else {
            failure
        };
        Err(match nearest(name, catalogs.iter().map(|catalog| catalog.name.as_str())) {
            Some(near) => failure.hint(format!("did you mean {near}?")),
            None => failure.hint("mainstay catalog list shows the catalogs"),
        })
    }

    fn followed(&self, wish: &InstallWish) -> Option<Choice<Option<String>>> {
        let market = &self.world.market;
        let request = Request {
            package: wish.package.clone(),
            version: wish.version.clone(),
            selector: only(wish.catalog.as_deref()),
            ..Request::default()
        };
        // Why there is none the plan itself says.
        let free = market.resolve(&request).ok()?;
        let stall = market.catalogs().iter().find(|stall| stall.name == free.choice.catalog)?;
        let facts = stall.content.as_ref().ok()?.index.package_facts(&wish.package)?;
        let default = facts.default_channel.filter(|channel| !channel.is_empty());
        let within = default.and_then(|channel| market.resolve(&Request { channels: vec![channel.to_owned()], ..request }).ok());
        Some(choices::followed(&wish.package, default, &free, within.as_ref()))
    }

    /// Whether the same would be doable together with what it needs. The policy that this counts with stays with this plan.
    async fn works_with_dependencies(&mut self, wish: &InstallWish) -> bool {
        let mut wish = wish.clone();
        if Box::pin(self.along(&wish, &mut Vec::new(), &mut Vec::new())).await.is_err() {
            return false;
        }
        let Ok(prepared) = self.prepare(&mut wish, &mut Vec::new()).await else { return false };
        let path = self.world.walk(&prepared.typed, &prepared.counted, Depth::Plan, self.progress).await;
        path.is_ok_and(|path| path.iter().all(|walked| walked.step.problem.is_none()))
    }

    /// What the extension needs and no extension installs yet, dependencies first, each with an account of its own; and the policy that
    /// resolves them together.
    async fn along(&mut self, wish: &InstallWish, writes: &mut Vec<Write>, choices: &mut Vec<String>) -> Result<(), Failure> {
        let policy_name = format!("{}-with-dependencies", wish.name);
        let policy = |packages: &[String]| {
            json!({"apiVersion": "lifecycle.mainstay.dev/v1alpha1", "kind": "LifecyclePolicy", "metadata": {"name": policy_name},
                "spec": {"packages": packages, "resolveDependencies": "Plan"}})
        };
        let fact = |object: &Value| -> Result<PolicyFact, Failure> {
            let spec = serde_json::from_value(object["spec"].clone()).map_err(|error| Failure::failed("lifecyclepolicy", &error))?;
            Ok(PolicyFact { name: policy_name.clone(), spec })
        };
        let mut packages = vec![wish.package.clone()];
        self.world.with_policy(fact(&policy(&packages))?);
        let mut probe = wish.clone();
        if let Some(choice) = self.followed(wish).filter(|_| wish.channels.is_empty()) {
            probe.channels.extend(choice.value);
        }
        let own = wish.namespace.clone().unwrap_or_else(|| format!("{}-system", wish.package));
        let typed = read(&extension(&probe, &own, "none"))?;
        let path = self.world.walk(&typed, &Counted::All, Depth::Plan, self.progress).await?;
        let mut needed: Vec<preview::Dependency> = Vec::new();
        for dependency in path.into_iter().flat_map(|walked| walked.step.dependencies) {
            if !needed.iter().any(|other| other.bundle.package == dependency.bundle.package) {
                needed.push(dependency);
            }
        }
        packages.extend(needed.iter().map(|dependency| dependency.bundle.package.clone()));
        let object = policy(&packages);
        self.world.with_policy(fact(&object)?);
        writes.push(Write::Apply(labelled(object, &wish.name)));
        for preview::Dependency { bundle, .. } in needed {
            let mut along = InstallWish {
                package: bundle.package.clone(),
                name: bundle.package.clone(),
                // What was shown and no other; mainstay upgrade lets go of it.
                version: Some(bundle.version.clone()),
                catalog: Some(bundle.catalog.clone()).filter(|catalog| !catalog.is_empty()),
                grant: wish.grant,
                ..InstallWish::default()
            };
            if self.world.look(&place(&along.name)).await?.is_some() {
                let message = format!("installs another package, and {} needs this name", bundle.name);
                return Err(Failure::new(Exit::Impossible, format!("clusterextension {}", along.name), message).hint(format!(
                    "mainstay install {} --name NAME --version {} makes it under another name",
                    bundle.package, bundle.version
                )));
            }
            choices.push(format!(
                "{} {} is installed along with it, and stays there until mainstay upgrade {}",
                bundle.package, bundle.version, along.name
            ));
            writes.extend(self.prepare(&mut along, choices).await?.writes);
        }
        Ok(())
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

    async fn upgrade(&mut self, change: &Change, name: &str, wish: UpgradeWish<'_>) -> Result<Planned, Failure> {
        let UpgradeWish { version, channels, grant, crd_safety } = wish;
        let live = self.existing(name).await?;
        if live.pointer("/spec/source/catalog").is_none() {
            return Err(Failure::new(Exit::Impossible, format!("clusterextension {name}"), "has no catalog as its source"));
        }
        let kept = live.pointer("/spec/source/catalog/channels").cloned().unwrap_or_default();
        let channels = if channels.is_empty() { kept } else { Value::from(channels.to_vec()) };
        let mut patch = json!({"spec": {"source": {"catalog": {"version": version, "channels": channels}}}});
        let mut choices = Vec::new();
        match crd_safety {
            None => {}
            Some(CrdSafety::Strict) => patch["metadata"] = json!({"annotations": {CRD_UPGRADE_SAFETY: null}}),
            Some(CrdSafety::Warn) => {
                let accepted = self.unsafe_bundles(&live, &patch).await?;
                if accepted.is_empty() {
                    choices.push("the check of CRDs stays as it is: it finds nothing to accept".to_owned());
                } else {
                    patch["metadata"] = json!({"annotations": {CRD_UPGRADE_SAFETY: format!("{WARN}:{}", accepted.join(","))}});
                    choices.push(format!("unsafe changes of CRDs are accepted for {}, and for no other bundle", accepted.join(", ")));
                }
            }
        }
        let mut planned = self.patched(change, live, patch, grant).await?;
        planned.choices.extend(choices);
        Ok(planned)
    }

    /// The bundles of the path that change CRDs in a way that the check refuses.
    async fn unsafe_bundles(&mut self, live: &Value, patch: &Value) -> Result<Vec<String>, Failure> {
        let mut wanted = merged(live.clone(), patch);
        wanted["metadata"]["annotations"][CRD_UPGRADE_SAFETY] = WARN.into();
        let path = self.world.walk(&read(&wanted)?, &Counted::All, Depth::Plan, self.progress).await?;
        let finds = |walked: &&Walked| walked.step.custom_resource_definitions.iter().any(|crd| !crd.findings.is_empty());
        Ok(path.iter().filter(finds).filter_map(|walked| Some(walked.step.bundle.as_ref()?.name.clone())).collect())
    }

    async fn rollback(&mut self, change: &Change, name: &str, to: Option<u32>, force: bool) -> Result<Planned, Failure> {
        let live = self.existing(name).await?;
        let typed = read(&live)?;
        let way = rollback::look(self.world.session, &typed, to, self.progress).await?;
        let mut patch = json!({"spec": {"source": {"catalog": {"version": way.version, "upgradeConstraintPolicy": "SelfCertified"}}}});
        if !way.verdict.preflight.is_empty() {
            patch["spec"]["install"] = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}});
        }
        let mut planned = self.patched(change, live, patch, None).await?;
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
                step.problem = Some(Problem { message, causes: lines, hints, ..Problem::default() });
                planned.preview.doable = false;
            }
        }
        planned.rollback = Some(way);
        Ok(planned)
    }

    async fn patched(&mut self, change: &Change, live: Value, patch: Value, grant: Option<Rights>) -> Result<Planned, Failure> {
        let name = change.extension().to_owned();
        let wanted = read(&merged(live, &patch))?;
        let (mut writes, mut rights) = (Vec::new(), Vec::new());
        let granted = Granted::read(self.world.session, &wanted).await?;
        let installer = || Installer {
            extension: name.clone(),
            service_account: account_name(&wanted).to_owned(),
            namespace: wanted.spec.namespace.clone(),
        };
        // An account that install did not make gets something when that is asked for.
        let granted = granted.or_else(|| (grant == Some(Rights::Minimal)).then(|| Granted { installer: installer(), grants: Vec::new() }));
        let counted = match granted {
            _ if grant == Some(Rights::Admin) => {
                rights.push("everything (cluster-admin)".to_owned());
                let mut made: Vec<Value> = administrator(&installer()).into_iter().map(|object| labelled(object, &name)).collect();
                // A binding that is there is to another role, and keeps it.
                made.retain(|object| object["kind"] != "ServiceAccount");
                for binding in &mut made {
                    binding["metadata"]["name"] = format!("{name}-installer-admin").into();
                }
                writes.extend(made.iter().cloned().map(Write::Apply));
                Counted::With(made)
            }
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
                    let mut made: Vec<Value> =
                        manifests(&all, &granted.installer).into_iter().map(|object| labelled(object, &name)).collect();
                    // The account is there; if it is the user's, an uninstall must not take it for ours.
                    made.retain(|object| object["kind"] != "ServiceAccount");
                    self.check_bindings(&name, &made).await?;
                    writes.extend(made.iter().cloned().map(Write::Apply));
                    Counted::With(made)
                }
            }
        };
        let account = (wanted.spec.namespace.as_str(), account_name(&wanted));
        if self.world.may_act_as(account).await == Some(false) {
            let access = self.world.token_access(&name, account).await;
            writes.extend(access.into_iter().map(|object| Write::Apply(labelled(object, &name))));
        }
        writes.push(Write::Patch(place(&name), patch));
        let path = self.world.walk(&wanted, &counted, self.depth, self.progress).await?;
        self.planned(change, &wanted, writes, rights, path).await
    }

    /// Refuses to bind anew what is bound to another role, as where the account was made an administrator: the API does not let a binding's
    /// role be changed.
    async fn check_bindings(&mut self, name: &str, made: &[Value]) -> Result<(), Failure> {
        for binding in made.iter().filter(|object| object["kind"].as_str().is_some_and(|kind| kind.ends_with("RoleBinding"))) {
            let target = ObjectRef::of(binding).map_err(|error| Failure::failed("binding", &error))?;
            let Some(live) = self.world.look(&target).await? else { continue };
            if live["roleRef"]["kind"] == binding["roleRef"]["kind"] && live["roleRef"]["name"] == binding["roleRef"]["name"] {
                continue;
            }
            let (kind, role) = (target.kind.to_lowercase(), live["roleRef"]["name"].as_str().unwrap_or_default());
            let place = if target.namespace.is_empty() { String::new() } else { format!(" -n {}", target.namespace) };
            let message = format!("binds the account of extension {name} to {role}, and the role of a binding cannot be changed");
            return Err(Failure::new(Exit::Impossible, format!("{kind} {}", target.name), message)
                .because(format!("the least permissions are granted by a {} of this name", target.kind))
                .hint(format!("kubectl delete {kind} {}{place} && mainstay upgrade {name} --grant minimal", target.name)));
        }
        Ok(())
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
        let owned = self.owned(&typed, snapshot.history.is_ok()).await?;
        for (crd, _) in owned.iter().flatten().filter(|(object, _)| object["kind"] == "CustomResourceDefinition") {
            let found = instances(self.world.session, crd).await;
            self.world.extra.instances.insert(crd["metadata"]["name"].as_str().unwrap_or_default().to_owned(), found);
        }
        let mut objects: Vec<Value> =
            snapshot.history.iter().flat_map(History::may_be_live).flat_map(|revision| revision.record.objects.iter().cloned()).collect();
        objects.extend(owned.iter().flatten().map(|(object, _)| object.clone()));
        self.world.extra.owned = Some(owned);
        let (others, unknown) = extensions::others(self.world.session, name).await?;
        self.world.notes.extend(unknown);
        let needs = self.world.needed_by(&mut snapshot, &objects, &others, self.progress).await;
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
            choices: Vec::new(),
            notes: self.world.notes.clone(),
            rollback: None,
        })
    }

    /// What the extension owns on the cluster: its CRDs, and everything where no record tells.
    async fn owned(&mut self, extension: &ClusterExtension, recorded: bool) -> Result<Result<Vec<(Value, Tie)>, String>, Failure> {
        self.progress.doing("look at what it owns on the cluster");
        let mut owned = match ownership::definitions(self.world.session, extension).await {
            Ok(owned) => owned,
            Err(failure) => return Ok(Err(failure.to_line())),
        };
        if !recorded {
            let kinds = self.world.kinds().await?;
            let (objects, notes) = ownership::objects(self.world.session, extension, kinds).await;
            owned.extend(objects.into_iter().filter(|(object, _)| object["kind"] != "CustomResourceDefinition"));
            self.world.notes.extend(notes);
        }
        Ok(Ok(owned))
    }

    async fn existing(&mut self, name: &str) -> Result<Value, Failure> {
        let found = self.world.look(&place(name)).await?;
        found.ok_or_else(|| {
            Failure::new(Exit::NotFound, format!("clusterextension {name}"), "not found").hint("mainstay list shows what is installed")
        })
    }

    async fn planned(
        &mut self,
        change: &Change,
        extension: &ClusterExtension,
        writes: Vec<Write>,
        installer_rights: Vec<String>,
        mut path: Vec<Walked>,
    ) -> Result<Planned, Failure> {
        self.advise(change, &mut path).await;
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
            choices: Vec::new(),
            notes: self.world.notes.clone(),
            rollback: None,
        })
    }
}

impl Making<'_, '_> {
    /// What would help against a refusal, tried and as commands, in the place of what the plan supposes.
    async fn advise(&mut self, change: &Change, path: &mut [Walked]) {
        let Some(walked) = path.last_mut() else { return };
        let Some(snapshot) = walked.refused.take() else { return };
        let package = snapshot.extension.spec.source.catalog.as_ref().map(|catalog| catalog.package_name.clone()).unwrap_or_default();
        let hints = Box::pin(advice::hints(&mut self.world, change, snapshot, walked.plan.clone(), self.progress)).await;
        let Some(problem) = &mut walked.step.problem else { return };
        // What an install offers in the place of the policy is decided by it; what only shows something needs no trial.
        let policy = dependencies::following(&package);
        let shows = |hint: &String| hint.starts_with("mainstay graph ");
        let install = matches!(change, Change::Install(_));
        problem.hints.retain(|hint| (install && *hint == policy) || (hints.is_empty() && shows(hint)));
        if problem.unknown_package && hints.is_empty() {
            problem.hints.push("mainstay catalog search shows the packages that there are".to_owned());
        }
        problem.hints.extend(hints.iter().map(|(command, what)| format!("{command} {what}")));
        problem.tried = hints;
    }
}

/// Whether it is refused for what it needs, and a policy would have it planned.
fn offers_dependencies(preview: &Preview, package: &str) -> bool {
    let policy = dependencies::following(package);
    preview.steps.iter().filter_map(|step| step.problem.as_ref()).any(|problem| problem.hints.contains(&policy))
}

/// Where what is missing can be had, the flag that brings it stands for the policy that would have to be written; elsewhere neither is advice.
fn offer_dependencies(preview: &mut Preview, package: &str, works: bool) {
    let policy = dependencies::following(package);
    for problem in preview.steps.iter_mut().filter_map(|step| step.problem.as_mut()) {
        problem.hints.retain(|hint| *hint != policy);
        if works {
            let flag = (format!("mainstay install {package} --with-dependencies"), "installs what is missing along with it".to_owned());
            problem.hints.insert(0, format!("{} {}", flag.0, flag.1));
            problem.tried.insert(0, flag);
        }
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
    for (label, value) in [(INSTALLER_LABEL, extension), ("app.kubernetes.io/managed-by", "mainstay")] {
        object["metadata"]["labels"][label] = value.into();
    }
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
        // What lets the controller act as the account is no permission of the account.
        let ours = ListParams::default().labels(&format!("{INSTALLER_LABEL}={name},!{TOKEN_LABEL}"));
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
