//! `mainstay rollback`: back to an earlier revision, with a verdict first (MS-RB-01).
//!
//! The command changes the extension's wish and grants rights; the cluster does the rest, as for any other change.

mod verdict;

use std::collections::BTreeMap;
use std::time::Instant;

use clap::Args;
use kube::api::{Api, Patch, PatchParams};
use mainstay_api::olm_v1::{ClusterExtension, Enforcement, NAME_LABEL};
use mainstay_bundle::rights::{Grant, manifests, missing};
use mainstay_lifecycle::Instances;
use mainstay_lifecycle::live::INSTANCES_READ;
use mainstay_lifecycle::object;
use mainstay_lifecycle::preflight;
use mainstay_lifecycle::revision::{History, Revision};
use mainstay_lifecycle::rollback::{Class, Question, Verdict, concerned, judge};
use mainstay_rbac::{PolicyIndex, UserInfo};
use mainstay_resolver::UpgradeConstraintPolicy;
use serde_json::{Value, json};

use verdict::reasons;

use super::flags::{Consent, Patience, Shown, goes_on};
use super::install::{apply, finish, labelled};
use super::upgrade::Granted;
use crate::cluster::{ClusterArgs, MANAGER, Session, not_written, refused};
use crate::errors::{Exit, Failure, note, note_drawn};
use crate::extensions::{self, Chosen, Wanted};
use crate::output::{self, Format};
use crate::plans::{self, settings::Settings};
use crate::progress::Progress;
use crate::runtime;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay rollback beacon --dry-run           only the verdict: safe, unsafe or impossible
  mainstay rollback beacon                     to the bundle that was installed before
  mainstay rollback beacon --to-version 1.0.0
  mainstay rollback beacon --to-revision 3 --yes

The version is pinned and update edges are set aside (SelfCertified), so that the cluster goes back and stays there. What is unsafe is
done with --force alone (exit code 4 otherwise).")]
pub struct Arguments {
    /// The extension
    pub name: String,
    /// The revision of mainstay history to go back to
    #[arg(long, value_name = "N", conflicts_with = "to_version")]
    pub to_revision: Option<u32>,
    /// The version to go back to
    #[arg(long, value_name = "VERSION")]
    pub to_version: Option<String>,
    /// Only say whether it is safe (exit code 4 where it is not)
    #[arg(long)]
    pub dry_run: bool,
    /// Do what is unsafe
    #[arg(long)]
    pub force: bool,
    /// Whether to ask.
    #[command(flatten)]
    pub consent: Consent,
    /// How long to wait.
    #[command(flatten)]
    pub patience: Patience,
    /// How the verdict of a dry run, or the extension at the end, is shown.
    #[command(flatten)]
    pub shown: Shown,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Rolls back.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = if arguments.dry_run { arguments.cluster.open().await? } else { arguments.cluster.open_to_change().await? };
        let extension = extensions::get(&session, &arguments.name).await?;
        let hints = || vec![goes_on(&arguments.name), format!("{} undoes it", restoring(&extension))];
        runtime::until_interrupt(Box::pin(rollback(&session, arguments, &extension)), hints).await
    })
}

impl Arguments {
    /// What a plan of it says.
    fn planned(name: &str, to_revision: Option<u32>, force: bool, patience: Patience) -> Self {
        let (name, cluster, shown) = (name.to_owned(), ClusterArgs::default(), Shown { format: Format::Table });
        Self { name, to_revision, to_version: None, dry_run: false, force, consent: Consent::GIVEN, patience, shown, cluster }
    }
}

/// The way that a plan is about, with its verdict.
pub async fn look(session: &Session, extension: &ClusterExtension, to: Option<u32>, progress: &mut Progress) -> Result<Way, Failure> {
    let name = extension.metadata.name.as_deref().unwrap_or_default();
    let history = extensions::history(session, extension).await?;
    let Some(installed) = history.installed() else {
        return Err(Failure::new(Exit::Impossible, format!("clusterextension {name}"), "nothing is installed"));
    };
    let (version, revision) = target(name, to, None, &history, installed)?;
    let ours = Granted::read(session, extension).await?.is_some();
    way(session, extension, installed, version, revision, ours, progress).await
}

/// Does what a plan of it says.
pub async fn perform(session: &Session, name: &str, to: Option<u32>, force: bool, patience: Patience) -> Result<(), Failure> {
    let extension = extensions::get(session, name).await?;
    rollback(session, &Arguments::planned(name, to, force, patience), &extension).await
}

/// What the verdict is about.
pub struct Way {
    /// The installed bundle.
    pub from: String,
    /// The one it goes back to.
    pub to: String,
    /// Its version.
    pub version: String,
    /// Whether that is safe.
    pub verdict: Verdict,
    /// Why it is, where it is.
    reasons: Vec<String>,
    /// The objects of the older bundle; none where it cannot be had.
    objects: Vec<Value>,
}

async fn rollback(session: &Session, arguments: &Arguments, extension: &ClusterExtension) -> Result<(), Failure> {
    let begun = Instant::now();
    let name = &arguments.name;
    let subject = || format!("clusterextension {name}");
    let history = extensions::history(session, extension).await?;
    let Some(installed) = history.installed() else {
        return Err(Failure::new(Exit::Impossible, subject(), "nothing is installed").hint(format!("mainstay describe {name} shows why")));
    };
    let (version, revision) = target(name, arguments.to_revision, arguments.to_version.as_deref(), &history, installed)?;
    let mut progress = Progress::start();
    let granted = Granted::read(session, extension).await?;
    let way = way(session, extension, installed, version, revision, granted.is_some(), &mut progress).await?;
    drop(progress);
    if arguments.dry_run {
        show(arguments, &way)?;
        return if way.verdict.verdict == Class::Safe { Ok(()) } else { Err(Failure::no()) };
    }
    note_drawn(plans::painted_lines(way.lines()));
    let refusal = |problem: String| {
        way.verdict.risks.iter().fold(Failure::new(Exit::Impossible, subject(), problem), |failure, risk| failure.because(risk.to_string()))
    };
    match way.verdict.verdict {
        Class::Impossible => return Err(refusal(format!("{} cannot be rolled back to {}", way.from, way.to))),
        Class::Unsafe if !arguments.force => {
            let failure = refusal(format!("rolling back from {} to {} is unsafe; nothing was changed", way.from, way.to));
            return Err(failure.hint("--force does it all the same; a backup of what is named above comes first"));
        }
        Class::Safe | Class::Unsafe => {}
    }
    let beyond = granted.as_ref().map(|granted| missing(&granted.grants, &extensions::rights(&way.objects, name))).unwrap_or_default();
    for grant in &beyond {
        note(format!("the installer gets in addition: {}", extensions::in_words(grant)));
    }
    arguments.consent.ask(&format!("roll {name} back to {}?", way.to))?;
    let mut progress = Progress::start();
    if let Some(granted) = granted.filter(|_| !beyond.is_empty()) {
        let all: Vec<Grant> = granted.grants.into_iter().chain(beyond).collect();
        for object in manifests(&all, &granted.installer) {
            apply(session, &labelled(object, name)).await?;
        }
    }
    let preflight_off = !way.verdict.preflight.is_empty() && enforcement(extension) == Enforcement::Strict;
    let mut patch = json!({"spec": {"source": {"catalog": {"version": way.version, "upgradeConstraintPolicy": "SelfCertified"}}}});
    if preflight_off {
        note("the preflight of CRDs is off for this change");
        patch["spec"]["install"] = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}});
    }
    write(session, name, &patch).await?;
    let settled = extensions::settle(session, name, &way.to, &way.objects, arguments.patience.limit(), &mut progress).await;
    let mut after = settled.map_err(|failure| {
        let failure = failure.hint(format!("{} undoes it", restoring(extension)));
        if preflight_off { failure.hint("spec.install.preflight.crdUpgradeSafety.enforcement is None until that") } else { failure }
    })?;
    if preflight_off {
        // Later changes are looked at again.
        let before = extension.spec.install.as_ref().map_or(Ok(Value::Null), serde_json::to_value);
        let before = before.map_err(|error| Failure::failed(subject(), &error))?;
        after = write(session, name, &json!({"spec": {"install": before}})).await?;
    }
    drop(progress);
    finish(&arguments.shown.format, &after, || {
        format!("clusterextension {name}: {} rolled back to {} in {:.1} s", way.from, way.to, begun.elapsed().as_secs_f64())
    })?;
    note(format!("it stays at {}; to follow the catalog again: {}", way.version, automatic(name)));
    Ok(())
}

/// Which version, and the revision of it where there is one.
fn target<'h>(
    name: &str,
    to_revision: Option<u32>,
    to_version: Option<&str>,
    history: &'h History,
    installed: &Revision,
) -> Result<(String, Option<&'h Revision>), Failure> {
    let subject = format!("clusterextension {name}");
    let hint = format!("mainstay history {name} shows the revisions");
    let was_deployed = |revision: &&Revision| revision.was_deployed();
    let found = if let Some(number) = to_revision {
        let found = history.revisions.iter().find(|revision| revision.number == number);
        let Some(found) = found else {
            return Err(Failure::new(Exit::NotFound, subject, format!("there is no revision {number}")).hint(hint));
        };
        if !was_deployed(&found) {
            let problem = format!("revision {number} is {} and was never deployed", found.state.as_str());
            return Err(Failure::new(Exit::Impossible, subject, problem).hint(hint));
        }
        found
    } else if let Some(version) = to_version {
        let found = history.revisions.iter().rev().filter(was_deployed).find(|revision| revision.record.bundle.version == version);
        match found {
            Some(found) => found,
            None => return Ok((version.to_owned(), None)),
        }
    } else {
        let earlier = history.revisions.iter().rev().filter(|revision| revision.number < installed.number).filter(was_deployed);
        let mut other = earlier.filter(|revision| revision.record.bundle.name != installed.record.bundle.name);
        other
            .next()
            .ok_or_else(|| Failure::new(Exit::Impossible, subject.clone(), "there is no earlier bundle to go back to").hint(hint.clone()))?
    };
    if found.record.bundle == installed.record.bundle {
        let problem = format!("{} is what is installed", found.record.bundle.name);
        return Err(Failure::new(Exit::Impossible, subject, problem).hint(hint));
    }
    Ok((found.record.bundle.version.clone(), Some(found)))
}

/// Gathers what the verdict rests on.
async fn way(
    session: &Session,
    extension: &ClusterExtension,
    installed: &Revision,
    version: String,
    revision: Option<&Revision>,
    ours: bool,
    progress: &mut Progress,
) -> Result<Way, Failure> {
    let from = installed.record.bundle.name.clone();
    let wanted_name = revision.map(|revision| revision.record.bundle.name.clone());
    let named = wanted_name.clone().unwrap_or_else(|| format!("{} {version}", extensions::package(extension)));
    let unavailable = |problem: &str| Way {
        from: from.clone(),
        to: named.clone(),
        version: version.clone(),
        verdict: Verdict::unavailable(&named, problem),
        reasons: Vec::new(),
        objects: Vec::new(),
    };
    let chosen = match choose(session, extension, &version, progress).await {
        Ok(chosen) => chosen,
        // No catalog has it, or its image is gone.
        Err(failure) => return Ok(unavailable(&failure.to_line())),
    };
    let choice = &chosen.resolution.choice;
    if let Some(wanted) = wanted_name.filter(|wanted| *wanted != choice.bundle) {
        return Ok(unavailable(&format!("the catalogs offer {} as {version} instead of {wanted}", choice.bundle)));
    }
    let settings = Settings::read(session).await;
    let (namespace, watched) = (&extension.spec.namespace, extensions::watch_namespace(extension));
    let objects = extensions::rendered(&chosen.bundle, namespace, watched, settings.gates.certificates())?;
    progress.doing("look at CRDs and custom resources");
    let from_objects = &installed.record.objects;
    let mut definitions = BTreeMap::new();
    for crd in from_objects.iter().chain(&objects).filter(|object| object["kind"] == "CustomResourceDefinition") {
        let place = object::place(crd);
        if let Some(live) = session.writer.get(&place).await.map_err(|error| not_written(&error))? {
            definitions.insert(place.name, live);
        }
    }
    let mut instances = BTreeMap::new();
    for (crd, kind) in concerned(from_objects, &objects, &definitions) {
        let found = session.writer.list(&mainstay_apply::gvk(&kind), INSTANCES_READ).await;
        instances.insert(crd, found.map_or_else(|error| Instances::Unreadable(error.to_string()), Instances::Known));
    }
    let lacking = if ours { Vec::new() } else { lacking(session, extension, &objects).await? };
    let verdict =
        judge(&Question { from: from_objects, to: &objects, definitions: &definitions, instances: &instances, lacking: &lacking });
    let reasons = if verdict.verdict == Class::Safe { reasons(&objects, &definitions, &instances) } else { Vec::new() };
    Ok(Way { from, to: choice.bundle.clone(), version, verdict, reasons, objects })
}

async fn choose(session: &Session, extension: &ClusterExtension, version: &str, progress: &mut Progress) -> Result<Chosen, Failure> {
    let catalog = extension.spec.source.catalog.as_ref();
    let only = catalog.and_then(|catalog| catalog.selector.as_ref()).and_then(|selector| selector.match_labels.get(NAME_LABEL).cloned());
    let wanted = Wanted {
        package: extensions::package(extension).to_owned(),
        channels: catalog.iter().flat_map(|catalog| &catalog.channels).map(|channel| channel.0.clone()).collect(),
        version: Some(version.to_owned()),
        catalog: only,
        policy: UpgradeConstraintPolicy::SelfCertified,
        installed: extensions::installed(extension),
    };
    extensions::choose(session, &wanted, progress).await
}

/// What an account that is not ours lacks for the older bundle.
async fn lacking(session: &Session, extension: &ClusterExtension, objects: &[Value]) -> Result<Vec<String>, Failure> {
    /// More roles than any cluster has.
    const MOST: usize = 50_000;
    let Some(account) = extension.spec.service_account.as_ref().and_then(|account| account.name.as_deref()) else {
        return Ok(Vec::new());
    };
    let mut policy = PolicyIndex::default();
    for kind in ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"] {
        let gvk = kube::api::GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", kind);
        for object in session.writer.list(&gvk, MOST).await.map_err(|error| not_written(&error))? {
            policy.apply(&object).map_err(|error| Failure::failed(kind.to_lowercase(), &error))?;
        }
    }
    let user = UserInfo::service_account(&extension.spec.namespace, account);
    let name = extension.metadata.name.as_deref().unwrap_or_default();
    Ok(permissions::check(&policy, &user, name, objects).lines())
}

async fn write(session: &Session, name: &str, patch: &Value) -> Result<ClusterExtension, Failure> {
    let api: Api<ClusterExtension> = Api::all(session.client.clone());
    let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    api.patch(name, &parameters, &Patch::Merge(patch)).await.map_err(|error| refused(format!("clusterextension {name}"), &error))
}

fn show(arguments: &Arguments, way: &Way) -> Result<(), Failure> {
    if arguments.shown.format.is_table() {
        return output::drawn(&format!("{}\n", plans::painted_lines(way.lines())));
    }
    let mut document = way.document()?;
    document["kind"] = "RollbackVerdict".into();
    document["name"] = arguments.name.clone().into();
    output::value(&arguments.shown.format, &document)
}

fn enforcement(extension: &ClusterExtension) -> Enforcement {
    let preflight = extension.spec.install.as_ref().and_then(|install| install.preflight.as_ref());
    preflight.map_or(Enforcement::Strict, |preflight| preflight.crd_upgrade_safety.enforcement)
}

/// The command that puts the wish back as it was before.
fn restoring(extension: &ClusterExtension) -> String {
    let name = extension.metadata.name.as_deref().unwrap_or_default();
    let catalog = extension.spec.source.catalog.as_ref();
    let version = catalog.and_then(|catalog| catalog.version.clone());
    let policy = catalog.map(|catalog| json!(catalog.upgrade_constraint_policy)).unwrap_or_default();
    let mut spec = json!({"source": {"catalog": {"version": version, "upgradeConstraintPolicy": policy}}});
    if enforcement(extension) == Enforcement::Strict {
        spec["install"] = Value::Null;
    }
    patching(name, &json!({"spec": spec}))
}

/// The command after which update edges lead again.
fn automatic(name: &str) -> String {
    patching(name, &json!({"spec": {"source": {"catalog": {"version": null, "upgradeConstraintPolicy": "CatalogProvided"}}}}))
}

fn patching(name: &str, patch: &Value) -> String {
    format!("kubectl patch clusterextension {name} --type merge -p '{patch}'")
}
