//! A Subscription that a person asks for: the objects that it takes, or why they cannot be made (OLM0-USER-05 to OLM0-USER-07, OLM0-TENANT-01).
//!
//! ```text
//!   package ── channel ── CSV        install modes ── OperatorGroup: the one that is there | a new one      ──► Namespace, OperatorGroup, Subscription
//! ```

mod refusal;
#[cfg(test)]
mod tests;

use mainstay_rbac::PolicyRule;
use mainstay_versions::Version;
use serde_json::{Value, json};

use crate::accounts;
use crate::category::Category;
use crate::csv::Group;
use crate::package::{Channel, Package};
use crate::token_auth::{self, TokenCloud};

pub use refusal::Refusal;

/// Namespaces that an operator is to watch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Watch {
    /// As its install modes suggest, or as the OperatorGroup that is there has them.
    #[default]
    Unsaid,
    /// All of them.
    All,
    /// These.
    Namespaces(Vec<String>),
}

/// A catalog by its name, and its namespace if it was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogName {
    /// The name.
    pub name: String,
    /// The namespace.
    pub namespace: Option<String>,
}

/// The request of a person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// The package.
    pub package: String,
    /// The Subscription's name; that of the package unless it is said.
    pub name: Option<String>,
    /// The namespace.
    pub namespace: String,
    /// The channel; the default one unless it is said.
    pub channel: Option<String>,
    /// The version that is installed first.
    pub version: Option<String>,
    /// The CSV that is installed first.
    pub starting_csv: Option<String>,
    /// `Manual` or `Automatic`, if it is said.
    pub approval: Option<Approval>,
    /// The catalog.
    pub catalog: Option<CatalogName>,
    /// Variables for the operator, by name and value.
    pub env: Vec<(String, String)>,
    /// The namespaces to watch.
    pub watch: Watch,
    /// Makes the namespace if it is missing.
    pub create_namespace: bool,
    /// Makes no OperatorGroup: one has to be there.
    pub needs_group: bool,
}

/// The approval of InstallPlans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approval {
    /// They go on by themselves.
    Automatic,
    /// They wait for a person.
    Manual,
}

impl Approval {
    /// Its text in objects.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Automatic => "Automatic",
            Self::Manual => "Manual",
        }
    }
}

/// The state of the cluster, as far as a request concerns it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Facts<'a> {
    /// The packages of this name, one for each catalog.
    pub packages: &'a [Package],
    /// True if the namespace is there.
    pub has_namespace: bool,
    /// The OperatorGroups of the namespace.
    pub groups: &'a [Group],
    /// The Subscriptions of the namespace.
    pub subscriptions: &'a [Value],
    /// The cloud, on a cluster where tokens of service accounts open it.
    pub token_cloud: Option<TokenCloud>,
    /// The version of the platform, if it is known.
    pub platform: Option<&'a Version>,
    /// The cluster-wide rules of the account that the OperatorGroup names, if it names one and they can be read.
    pub account_rules: &'a [PolicyRule],
}

/// The Subscription, and what comes with it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// The Subscription's name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// The objects that are made, in order.
    pub objects: Vec<Value>,
    /// The catalog as `NAME/NAMESPACE`.
    pub catalog: String,
    /// The channel.
    pub channel: String,
    /// The CSV that is installed first.
    pub csv: String,
    /// The version of that CSV.
    pub version: String,
    /// The CSV at the channel's head.
    pub head: String,
    /// True if the first InstallPlan is approved by the command, because what it installs was named.
    pub approves_first: bool,
    /// Decisions that the request left open, with their reasons.
    pub choices: Vec<String>,
    /// The other consequences.
    pub notes: Vec<String>,
    /// The category of the catalog, if it has to be acknowledged.
    pub acknowledges: Option<Category>,
    /// True if the operator watches all namespaces.
    pub watches_all: bool,
    /// Variables that the operator needs on this cluster, and that were not given.
    pub missing_variables: Vec<&'static str>,
}

/// Plans a Subscription.
///
/// # Errors
/// The request cannot be met as it is.
pub fn plan(request: &Request, facts: &Facts<'_>) -> Result<Plan, Refusal> {
    let namespace = &request.namespace;
    let name = request.name.clone().unwrap_or_else(|| request.package.clone());
    let mut choices = Vec::new();
    let package = package(request, facts.packages)?;
    let channel = channel(request, package, &mut choices)?;
    let (csv, version) = first(request, package, channel)?;
    if !facts.has_namespace && !request.create_namespace {
        return Err(Refusal::NoNamespace(namespace.clone()));
    }
    present(request, &name, facts.subscriptions)?;
    let mut objects = Vec::new();
    if !facts.has_namespace {
        objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
    }
    let made = group(request, channel, facts.groups, &mut choices)?;
    let watches_all = match &made {
        Some(made) => made["spec"] == json!({}),
        None => matches!(facts.groups, [group] if known_targets(group).is_some_and(|targets| targets == [String::new()])),
    };
    objects.extend(made);
    let is_older = csv != channel.head;
    let (approval, approves_first) = match request.approval {
        Some(approval) => (approval, false),
        None if is_older => {
            choices.push(format!(
                "installPlanApproval Manual, so that it stays at {csv}; the head of channel {} is {}",
                channel.name, channel.head
            ));
            (Approval::Manual, true)
        }
        None => (Approval::Automatic, false),
    };
    let mut spec = json!({
        "name": package.name, "channel": channel.name, "source": package.catalog, "sourceNamespace": package.catalog_namespace,
        "installPlanApproval": approval.as_str(),
    });
    if is_older || request.starting_csv.is_some() {
        spec["startingCSV"] = json!(csv);
    }
    let env: Vec<Value> = request.env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    if !env.is_empty() {
        spec["config"] = json!({"env": env});
    }
    objects.push(json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    }));
    let mut notes = Vec::new();
    if is_older && approval == Approval::Automatic {
        notes.push(format!("{csv} is installed first, and updated to {} at once", channel.head));
    }
    let acknowledgement = package.category.acknowledgement(&package.place());
    let acknowledges = acknowledgement.is_some().then_some(package.category);
    notes.extend(acknowledgement);
    let mut missing_variables = Vec::new();
    if let Some(cloud) = facts.token_cloud.filter(|cloud| cloud.is_declared(&channel.annotations)) {
        missing_variables = token_auth::missing(cloud, &env);
        notes.extend(facts.platform.and_then(|version| token_auth::unavailable(cloud, version)));
        notes.extend(token_auth::notes(cloud, &env, approval.as_str()));
    }
    if let [group] = facts.groups
        && let Some(account) = &group.service_account
    {
        notes.extend(accounts::excessive(namespace, account, facts.account_rules));
    }
    notes.extend(neighbours(approval, facts.subscriptions));
    notes.extend(channel.deprecation.iter().map(|message| format!("channel {} is deprecated: {message}", channel.name)));
    Ok(Plan {
        name,
        namespace: namespace.clone(),
        objects,
        catalog: package.place(),
        channel: channel.name.clone(),
        csv,
        version,
        head: channel.head.clone(),
        approves_first,
        choices,
        notes,
        acknowledges,
        watches_all,
        missing_variables,
    })
}

fn package<'a>(request: &Request, packages: &'a [Package]) -> Result<&'a Package, Refusal> {
    let name = &request.package;
    let fits = |package: &&Package| {
        request.catalog.as_ref().is_none_or(|catalog| {
            catalog.name == package.catalog && catalog.namespace.as_ref().is_none_or(|namespace| *namespace == package.catalog_namespace)
        })
    };
    let found: Vec<&Package> = packages.iter().filter(|package| package.name == *name).collect();
    let fitting: Vec<&Package> = found.iter().copied().filter(fits).collect();
    match (fitting.as_slice(), &request.catalog) {
        ([one], _) => Ok(one),
        ([], Some(catalog)) if !found.is_empty() => Err(Refusal::NotInCatalog {
            package: name.clone(),
            catalog: catalog.name.clone(),
            others: found.iter().map(|package| package.place()).collect(),
        }),
        ([], _) => Err(Refusal::UnknownPackage(name.clone())),
        (several, _) => {
            Err(Refusal::SeveralCatalogs { package: name.clone(), catalogs: several.iter().map(|package| package.place()).collect() })
        }
    }
}

fn channel<'a>(request: &Request, package: &'a Package, choices: &mut Vec<String>) -> Result<&'a Channel, Refusal> {
    if request.channel.is_none() {
        choices.push(format!("channel {}, the default of the package", package.default_channel));
    }
    package.channel(request.channel.as_deref()).ok_or_else(|| Refusal::UnknownChannel {
        package: package.name.clone(),
        channel: request.channel.clone().unwrap_or_else(|| package.default_channel.clone()),
        channels: package.channels.iter().map(|channel| channel.name.clone()).collect(),
    })
}

/// The CSV that is installed first, and its version.
fn first(request: &Request, package: &Package, channel: &Channel) -> Result<(String, String), Refusal> {
    let is_it = |csv: &str, version: &str| match (&request.starting_csv, &request.version) {
        (Some(wanted), _) => csv == wanted,
        (None, Some(wanted)) => version == wanted,
        (None, None) => csv == channel.head,
    };
    if is_it(&channel.head, &channel.head_version) {
        return Ok((channel.head.clone(), channel.head_version.clone()));
    }
    let found = channel.entries.iter().find(|entry| is_it(&entry.csv, &entry.version));
    found.map(|entry| (entry.csv.clone(), entry.version.clone())).ok_or_else(|| Refusal::NotInChannel {
        wanted: request.starting_csv.clone().or_else(|| request.version.clone()).unwrap_or_default(),
        is_version: request.starting_csv.is_none(),
        channel: channel.name.clone(),
        listed: channel
            .entries
            .iter()
            .map(|entry| if request.starting_csv.is_none() { entry.version.clone() } else { entry.csv.clone() })
            .collect(),
        elsewhere: package.channels_of(|entry| is_it(&entry.csv, &entry.version)).into_iter().map(str::to_owned).collect(),
    })
}

/// Refuses what is there already.
fn present(request: &Request, name: &str, subscriptions: &[Value]) -> Result<(), Refusal> {
    let named = |subscription: &Value| subscription["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if let Some(same) = subscriptions.iter().find(|subscription| named(subscription) == name) {
        let package = same["spec"]["name"].as_str().unwrap_or_default().to_owned();
        return Err(Refusal::Exists { name: name.to_owned(), namespace: request.namespace.clone(), package });
    }
    let same = subscriptions.iter().find(|subscription| subscription["spec"]["name"] == *request.package);
    same.map_or(Ok(()), |same| {
        Err(Refusal::PackageSubscribed { package: request.package.clone(), namespace: request.namespace.clone(), name: named(same) })
    })
}

/// The OperatorGroup that is made; none if one is there and fits.
fn group(request: &Request, channel: &Channel, groups: &[Group], choices: &mut Vec<String>) -> Result<Option<Value>, Refusal> {
    let namespace = &request.namespace;
    let place = |group: &Group| format!("{namespace}/{}", group.name);
    let unsupported = |group: Option<String>, targets: &[String], error: &crate::install_modes::Unsupported| Refusal::UnsupportedModes {
        csv: channel.head.clone(),
        group,
        targets: targets.to_vec(),
        why: error.to_string(),
        supported: channel.modes().into_iter().map(str::to_owned).collect(),
    };
    match groups {
        [] if request.needs_group => Err(Refusal::NoGroup(namespace.clone())),
        [] => {
            let targets = targets(request, channel, choices)?;
            channel.supports(namespace, &targets).map_err(|error| unsupported(None, &targets, &error))?;
            let spec = if targets == [String::new()] { json!({}) } else { json!({"targetNamespaces": targets}) };
            Ok(Some(json!({
                "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
                "metadata": {"name": namespace, "namespace": namespace}, "spec": spec,
            })))
        }
        [group] => {
            let Some(present) = known_targets(group) else {
                choices.push(format!("OperatorGroup {}, whose targets are not known yet", place(group)));
                return Ok(None);
            };
            if let Some(wanted) = wanted(&request.watch)
                && wanted != present
            {
                return Err(Refusal::OtherTargets { group: place(group), present, wanted });
            }
            channel.supports(namespace, &present).map_err(|error| unsupported(Some(place(group)), &present, &error))?;
            choices.push(format!("OperatorGroup {}, which is there: it watches {}", place(group), watched(&present)));
            Ok(None)
        }
        several => {
            Err(Refusal::SeveralGroups { namespace: namespace.clone(), groups: several.iter().map(|group| group.name.clone()).collect() })
        }
    }
}

/// The targets of a group, from its status, else from its spec; none if a selector has still to find them.
fn known_targets(group: &Group) -> Option<Vec<String>> {
    group.namespaces.clone().or_else(|| {
        let mut named = group.target_namespaces.clone();
        named.sort();
        match (named.is_empty(), &group.selector) {
            (false, _) => Some(named),
            (true, None) => Some(vec![String::new()]),
            (true, Some(_)) => None,
        }
    })
}

fn wanted(watch: &Watch) -> Option<Vec<String>> {
    match watch {
        Watch::Unsaid => None,
        Watch::All => Some(vec![String::new()]),
        Watch::Namespaces(names) => {
            let mut names = names.clone();
            names.sort();
            names.dedup();
            Some(names)
        }
    }
}

/// The targets of a new group: as wanted, else the widest that the install modes allow without naming other namespaces.
fn targets(request: &Request, channel: &Channel, choices: &mut Vec<String>) -> Result<Vec<String>, Refusal> {
    if let Some(wanted) = wanted(&request.watch) {
        return Ok(wanted);
    }
    let namespace = &request.namespace;
    for targets in [vec![String::new()], vec![namespace.clone()]] {
        if channel.supports(namespace, &targets).is_ok() {
            choices.push(format!("it watches {}, by its install modes ({})", watched(&targets), channel.modes().join(", ")));
            return Ok(targets);
        }
    }
    Err(Refusal::NamespacesNotSaid { csv: channel.head.clone(), supported: channel.modes().into_iter().map(str::to_owned).collect() })
}

/// Target namespaces in words.
pub fn watched(targets: &[String]) -> String {
    match targets {
        [one] if one.is_empty() => "all namespaces".to_owned(),
        [] => "no namespace".to_owned(),
        [one] => format!("namespace {one}"),
        several => format!("namespaces {}", several.join(", ")),
    }
}

/// The consequences that the Subscriptions of one namespace have for each other (OLM0-TENANT-01, OLM0-ADMIN-03).
fn neighbours(approval: Approval, subscriptions: &[Value]) -> Vec<String> {
    if subscriptions.is_empty() {
        return Vec::new();
    }
    let names = |manual: bool| {
        let is_manual = |each: &&Value| (each["spec"]["installPlanApproval"] == "Manual") == manual;
        subscriptions.iter().filter(is_manual).filter_map(|each| each["metadata"]["name"].as_str()).collect::<Vec<_>>()
    };
    let (manual, automatic) = (names(true), names(false));
    let mut notes = vec![format!(
        "the namespace's InstallPlans are also those of subscription {}",
        [manual.as_slice(), &automatic].concat().join(", ")
    )];
    match approval {
        Approval::Automatic if !manual.is_empty() => {
            notes.push(format!("they wait for an approval, because subscription {} is Manual", manual.join(", ")));
        }
        Approval::Manual if !automatic.is_empty() => {
            notes.push(format!("updates of subscription {} wait for an approval from now on, too", automatic.join(", ")));
        }
        _ => {}
    }
    notes
}
