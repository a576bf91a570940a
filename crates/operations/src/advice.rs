//! Remedies that were tried before they are proposed (MS-EXPL-01): each remedy of an explanation is applied to a copy of the snapshot, and
//! planned. Advice is worded as a call of the command that gives it.

use std::time::Duration;

use jiff::Timestamp;
use mainstay_api::olm_v1::NAME_LABEL;
use mainstay_diagnostics::Failure;
use mainstay_lifecycle::explanation::Outcome;
use mainstay_lifecycle::revision::History;
use mainstay_olm_v1_core::extension::explain::{self, Action, Facts, Remedy, explain_refusal, judge, shell_word};
use mainstay_olm_v1_core::extension::facts::Snapshot;
use mainstay_olm_v1_core::extension::plan::Plan;
use mainstay_versions::{ExtensionRange, Version};
use serde_json::Value;

use crate::change::{Change, InstallRequest, InstallerPermissions};
use crate::progress::Progress;
use crate::view::ClusterView;

/// Time limit for all proposals together.
const PROPOSALS: Duration = Duration::from_secs(30);
/// Maximum number of hints of a refusal.
const HINTS: usize = 3;

/// Plans each of these remedies and returns its outcome. The account's permissions count as granted.
pub async fn outcomes(
    view: &mut ClusterView<'_>,
    snapshot: &Snapshot,
    before: &Plan,
    remedies: Vec<Remedy>,
    progress: &mut dyn Progress,
) -> Vec<(Remedy, Outcome)> {
    let end = tokio::time::Instant::now() + PROPOSALS;
    let mut all = Vec::new();
    for remedy in remedies {
        progress.doing("look at where the proposals lead");
        let outcome = match tokio::time::timeout_at(end, outcome(view, snapshot, before, &remedy, progress)).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(failure)) => Outcome::Unknown(failure.to_line()),
            Err(_) => Outcome::Unknown(format!("it took more than {} s", PROPOSALS.as_secs())),
        };
        all.push((remedy, outcome));
    }
    all
}

async fn outcome(
    view: &mut ClusterView<'_>,
    snapshot: &Snapshot,
    before: &Plan,
    remedy: &Remedy,
    progress: &mut dyn Progress,
) -> Result<Outcome, Failure> {
    let mut copy = match remedy.applied(snapshot) {
        Ok(copy) => copy,
        Err(untried) => return Ok(Outcome::Unknown(untried.to_string())),
    };
    let plan = view.ready(&mut copy, progress).await?;
    Ok(judge(remedy, before, &plan))
}

/// Finds remedies for the refusal of a change: commands that were tried, each with its effect; the mildest first.
pub async fn hints(
    view: &mut ClusterView<'_>,
    change: &Change,
    snapshot: Snapshot,
    plan: Plan,
    progress: &mut dyn Progress,
) -> Vec<(String, String)> {
    let exists = !matches!(change, Change::Install(_));
    let facts = Facts {
        plan: Ok(plan.clone()),
        snapshot,
        objects: Vec::new(),
        events: Vec::new(),
        catalogs: Vec::new(),
        change_plans: Vec::new(),
        namespace_exists: None,
        may_act: None,
        platform: None,
        simulation: None,
        now: Timestamp::now(),
    };
    let Some(answer) = explain_refusal(&facts) else { return Vec::new() };
    let history = facts.snapshot.history.as_ref().ok();
    let installed = history.and_then(|history| history.installed()).map(|revision| &revision.record.bundle);
    let stays = |action: &Action| {
        let leads_to = action.leads_to.as_ref().zip(installed);
        leads_to.is_some_and(|(to, installed)| to.package == installed.package && to.version == installed.version)
    };
    let hint = |action: &Action| if stays(action) { None } else { hint(change, exists, action) };
    let sayable = |action: &Action| hint(action).is_some();
    let remedies = answer.next.iter().chain(&answer.alternatives).filter(|action| sayable(action));
    let remedies: Vec<Remedy> = remedies.filter_map(|action| action.remedy.clone()).collect();
    let outcomes = outcomes(view, &facts.snapshot, &plan, remedies, progress).await;
    let answer = explain::weighed(answer, &facts, &outcomes);
    let works = answer.next.iter().chain(&answer.alternatives).filter(|action| action.remedy.is_some() && action.works());
    let mut hints: Vec<(String, String)> = Vec::new();
    // The package that was probably meant is worth a hint although something else is in its way.
    let meant = answer.alternatives.iter().filter(|action| action.refused.is_some()).find_map(|action| match &action.remedy {
        Some(Remedy::Package(near)) => Some(near),
        _ => None,
    });
    hints.extend(
        meant.map(|near| (format!("mainstay explain package {}", shell_word(near)), format!("shows {near}, if that is what is meant"))),
    );
    for hint in works.filter_map(hint) {
        if !hints.contains(&hint) && hints.len() < HINTS {
            hints.push(hint);
        }
    }
    hints.extend(history.and_then(|history| earlier(change, history)));
    hints
}

/// Returns the rollback to an earlier revision whose version an upgrade asks for: update edges lead forward, and going back has a verdict
/// of its own.
fn earlier(change: &Change, history: &History) -> Option<(String, String)> {
    let Change::Upgrade { name, version: Some(wanted), .. } = change else { return None };
    let wanted = ExtensionRange::parse(wanted).ok()?;
    let installed = history.installed()?;
    let fits =
        |version: &str| version != installed.record.bundle.version && Version::parse(version).is_ok_and(|version| wanted.matches(&version));
    let mut earlier = history.revisions.iter().rev().filter(|revision| revision.number < installed.number && revision.was_deployed());
    let bundle = &earlier.find(|revision| fits(&revision.record.bundle.version))?.record.bundle;
    let command = format!("mainstay rollback {} --to-version {} --dry-run", shell_word(name), shell_word(&bundle.version));
    Some((command, format!("shows whether it can go back to {} {}", bundle.package, bundle.version)))
}

/// Words an action for a change: a command and its effect. `None` if the change cannot say it, or if it would undo what is asked for.
fn hint(change: &Change, exists: bool, action: &Action) -> Option<(String, String)> {
    let remedy = action.remedy.as_ref()?;
    if matches!((change, remedy), (Change::Upgrade { .. }, Remedy::Request(_))) && action.leads_to.is_none() {
        // The extension stays without any command.
        return None;
    }
    let command = match worded(change, remedy) {
        Some(command) => command,
        None if concerns_extension(remedy) && !exists => return None,
        None if remedy.removes(change.extension()) => return None,
        None => action.commands.join(" && "),
    };
    let what = match (remedy, &action.leads_to) {
        (Remedy::Package(near), _) => format!("installs {near}, if that is what is meant"),
        (_, Some(leads_to)) => format!("leads to {leads_to}"),
        (Remedy::Grant { .. }, None) if !exists => "makes an account with the permissions that are needed".to_owned(),
        (remedy, None) => does(remedy),
    };
    let warning = action.warning.as_ref().map(|warning| format!(" ({warning})")).unwrap_or_default();
    Some((command, format!("{what}{warning}")))
}

/// Describes the effect of a remedy; it follows the command.
fn does(remedy: &Remedy) -> String {
    match remedy {
        Remedy::Request(_) | Remedy::Package(_) => "asks for something else".to_owned(),
        Remedy::AcceptedCrds => {
            "goes on all the same; its plan names the custom resources that would lose data, and it asks first".to_owned()
        }
        Remedy::Watch(Some(namespace)) => format!("lets it watch namespace {namespace}"),
        Remedy::Watch(None) => "lets it watch all namespaces".to_owned(),
        Remedy::Account(account) => format!("names the account {account}"),
        Remedy::Grant { .. } => "grants the account what this version needs, and no more".to_owned(),
        Remedy::Switch { catalog, on: true } => format!("switches catalog {catalog} on"),
        Remedy::Switch { catalog, on: false } | Remedy::RemoveCatalog(catalog) => format!("goes on without catalog {catalog}"),
        Remedy::Prefer(catalog) => format!("lets catalog {catalog} go before the others, for all extensions"),
        Remedy::HandOver(target) => format!("hands {} {} over to the extension", target.kind, target.name),
        Remedy::Delete(target) => format!("deletes {} {}, if it is not needed", target.kind, target.name),
        Remedy::Uninstall(extension) => format!("removes clusterextension {extension}, which has the object"),
        Remedy::Install { brings, .. } => format!("brings {} of {}, which is needed first", brings.kind, brings.api_version),
        Remedy::FollowDependencies => "lets what it needs be installed in addition".to_owned(),
        Remedy::Gate(gate) => format!("starts a cluster with the feature {gate}"),
        Remedy::All(all) => all.iter().map(does).collect::<Vec<_>>().join(", and "),
    }
}

/// Returns whether a remedy changes the extension itself, which then has to exist.
fn concerns_extension(remedy: &Remedy) -> bool {
    match remedy {
        // Another flag of install stands for dependencies.
        Remedy::Request(_)
        | Remedy::AcceptedCrds
        | Remedy::Watch(_)
        | Remedy::Account(_)
        | Remedy::Grant { .. }
        | Remedy::FollowDependencies => true,
        Remedy::All(all) => all.iter().any(concerns_extension),
        _ => false,
    }
}

/// Words the same change, with the remedy in it, as a command.
fn worded(change: &Change, remedy: &Remedy) -> Option<String> {
    match (change, remedy) {
        (Change::Install(request), Remedy::Request(patch)) => {
            let mut request = request.clone();
            for (key, value) in patch.as_object()? {
                match key.as_str() {
                    "version" => request.version = value.as_str().map(str::to_owned),
                    "channels" => request.channels = words(value),
                    "selector" => request.catalog = catalog(value)?,
                    _ => return None,
                }
            }
            Some(request.command())
        }
        (Change::Install(request), Remedy::Grant { .. }) if request.service_account.is_some() => {
            Some(InstallRequest { service_account: None, ..request.clone() }.command())
        }
        (Change::Install(request), Remedy::Package(near)) => {
            Some(InstallRequest { package: near.clone(), name: near.clone(), ..request.clone() }.command())
        }
        (Change::Install(request), Remedy::Watch(namespace)) => {
            Some(InstallRequest { watch_namespace: namespace.clone(), ..request.clone() }.command())
        }
        (Change::Upgrade { name, version, channels, .. }, Remedy::AcceptedCrds) => {
            Some(format!("{} --crd-safety warn", upgrade(name, version.as_deref(), channels)))
        }
        (Change::Upgrade { name, version, channels, .. }, Remedy::Request(patch)) => {
            let (mut version, mut channels) = (version.clone(), channels.clone());
            for (key, value) in patch.as_object()? {
                match key.as_str() {
                    "version" => version = value.as_str().map(str::to_owned),
                    // Without channels, those of the extension stay.
                    "channels" if !value.is_null() => channels = words(value),
                    _ => return None,
                }
            }
            Some(upgrade(name, version.as_deref(), &channels))
        }
        _ => None,
    }
}

fn upgrade(name: &str, version: Option<&str>, channels: &[String]) -> String {
    let mut command = format!("mainstay upgrade {}", shell_word(name));
    flag(&mut command, "version", version);
    for channel in channels {
        flag(&mut command, "channel", Some(channel));
    }
    command
}

fn words(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the catalog that a selector names. The inner `None` means that it names none, the outer one that it says something else.
#[allow(clippy::option_option, reason = "a selector that is taken out is not one that cannot be said")]
fn catalog(selector: &Value) -> Option<Option<String>> {
    if selector.is_null() {
        return Some(None);
    }
    selector["matchLabels"][NAME_LABEL].as_str().map(|name| Some(name.to_owned()))
}

fn flag(command: &mut String, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        command.extend([" --", name, " ", &shell_word(value)]);
    }
}

impl InstallRequest {
    /// Returns the command that asks for this change.
    pub fn command(&self) -> String {
        let mut command = format!("mainstay install {}", shell_word(&self.package));
        flag(&mut command, "name", Some(self.name.as_str()).filter(|name| *name != self.package));
        flag(&mut command, "version", self.version.as_deref());
        for channel in &self.channels {
            flag(&mut command, "channel", Some(channel));
        }
        flag(&mut command, "catalog", self.catalog.as_deref());
        flag(&mut command, "namespace", self.namespace.as_deref());
        flag(&mut command, "watch-namespace", self.watch_namespace.as_deref());
        flag(&mut command, "service-account", self.service_account.as_deref());
        flag(&mut command, "grant", (self.grant == InstallerPermissions::Admin).then_some("admin"));
        if self.with_dependencies {
            command.push_str(" --with-dependencies");
        }
        command
    }
}
