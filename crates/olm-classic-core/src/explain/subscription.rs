//! Why a Subscription is as it is (OLM0-API-17, OLM0-API-18, OLM0-ADMIN-12, OLM0-ADMIN-33, OLM0-UPG-17, MS-EXPL-04).

use mainstay_lifecycle::explanation::{Newer, State};
use serde_json::Value;

use super::csv::{CsvFacts, csv};
use super::install_plan::{self, InstallPlanFacts, install_plan, unpack_failed};
use super::told;
use super::{Action, Explanation, answer, catalog_source, evidence, groups_finding, passed_on, pods, string, subject, tenancy, timestamp};
use crate::catalog_source::is_ready;
use crate::overview::{condition, place, text};
use crate::package::{Channel, Package};
use crate::subscription::GENERATED_BY;

/// The CSVs of a channel that are named, so that one can be chosen.
const STARTS: usize = 10;

/// The facts about a Subscription.
#[derive(Debug, Clone, Copy)]
pub struct SubscriptionFacts<'a> {
    /// The Subscription.
    pub subscription: &'a Value,
    /// Its namespace, if that can be read.
    pub namespace: Option<&'a Value>,
    /// The other Subscriptions of its namespace.
    pub siblings: &'a [Value],
    /// The OperatorGroups of its namespace.
    pub groups: &'a [Value],
    /// The CatalogSource that it names, if it is there.
    pub catalog: Option<&'a Value>,
    /// The other CatalogSources that its namespace sees.
    pub catalogs: &'a [Value],
    /// The package in its catalog; none if the catalog does not have it, or is not read.
    pub package: Option<&'a Package>,
    /// The InstallPlan that its status refers to, if it is there.
    pub plan: Option<&'a Value>,
    /// The CSV that it leads to, or that is installed.
    pub csv: Option<CsvFacts<'a>>,
}

/// Explains a Subscription.
pub fn subscription(facts: &SubscriptionFacts<'_>) -> Explanation {
    let object = facts.subscription;
    let subject = subject("subscription", object);
    let status = &object["status"];
    let mut found = find(&subject, facts);
    if let Some(installed) = installed(facts) {
        let csv = facts.csv.filter(|facts| facts.csv["metadata"]["name"] == *installed);
        let version = csv.map(|facts| string(facts.csv, "/spec/version")).unwrap_or_default();
        found.installed = Some((installed, version));
    }
    for kind in ["PackageDeprecated", "ChannelDeprecated", "BundleDeprecated"] {
        if let Some(told) = condition(status, kind).filter(|condition| condition["status"] == "True") {
            found.notes.push(format!("{kind}: {}", text(&told["message"])));
        }
    }
    if let Some(by) = object["metadata"]["annotations"][GENERATED_BY].as_str() {
        found.notes.push(format!("it was brought as a dependency by installplan {by}"));
    }
    if let Some((note, action)) = tenancy::placement(object, facts.siblings, facts.groups) {
        found.notes.push(note);
        found.alternatives.push(action);
    } else if !facts.siblings.is_empty() {
        let names: Vec<String> = facts.siblings.iter().map(|other| text(&other["metadata"]["name"])).collect();
        let noun = if names.len() == 1 { "subscription" } else { "subscriptions" };
        found.notes.push(format!("its InstallPlans are also those of {noun} {} of the namespace", names.join(", ")));
    }
    if let Some(csv) = facts.csv {
        let (notes, actions) = tenancy::instances(csv.csv, csv.csvs);
        // The finding of a CSV that is passed on has them already.
        found.notes.extend(notes.into_iter().filter(|note| !found.notes.contains(note)).collect::<Vec<_>>());
        found.alternatives.extend(actions.into_iter().filter(|action| !found.alternatives.contains(action)).collect::<Vec<_>>());
        if !found.notes.iter().any(|note| note.contains("is simulated")) {
            found.notes.extend(pods::simulated(csv.pods));
        }
        found.notes.extend(facts.namespace.into_iter().flat_map(|namespace| pods::placement(namespace, csv.pods)));
    }
    found.evidence.extend(status["conditions"].as_array().into_iter().flatten().map(|condition| evidence("condition", condition)));
    found
}

/// The installed CSV. The status names one as soon as it exists, also while the InstallPlan that brings it has not got through, or while
/// the CSV that it replaces still runs.
fn installed(facts: &SubscriptionFacts<'_>) -> Option<String> {
    let name = string(facts.subscription, "/status/installedCSV");
    if let Some(next) = facts.csv.filter(|next| next.csv["metadata"]["name"] == *name && next.csv["status"]["phase"] != "Succeeded")
        && let Some(former) = former(&next)
    {
        return Some(string(former, "/metadata/name"));
    }
    let is_coming = |plan: &Value| plan["status"]["phase"] != "Complete" && install_plan::csvs(plan).contains(&name.as_str());
    (!name.is_empty() && !facts.plan.is_some_and(is_coming)).then_some(name)
}

/// True if something of it is installed.
fn is_installed(facts: &SubscriptionFacts<'_>) -> bool {
    installed(facts).is_some()
}

fn find(subject: &str, facts: &SubscriptionFacts<'_>) -> Explanation {
    let object = facts.subscription;
    let namespace = string(object, "/metadata/namespace");
    let blocked = if is_installed(facts) { State::Held } else { State::NotInstalled };
    if !object["metadata"]["deletionTimestamp"].is_null() {
        let finalizers: Vec<&str> = object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let found = answer(subject, "removing", State::Removing, "is being removed");
        return Explanation { waits_for: Some(format!("finalizers {}", finalizers.join(", "))), ..found };
    }
    if let Some(found) = groups_finding(subject, &namespace, facts.groups, blocked) {
        return found;
    }
    if let Some(found) = catalogs(subject, facts, blocked) {
        return found;
    }
    let holds = |kind: &str| condition(&object["status"], kind).filter(|condition| condition["status"] == "True");
    if let Some(found) = replacing(subject, facts) {
        return found;
    }
    if let Some(failed) = holds("ResolutionFailed") {
        return resolution_failed(subject, facts, failed, blocked);
    }
    if let Some(failed) = holds("BundleUnpackFailed") {
        let message = text(&failed["message"]);
        let again = if told::is_of_job(&message) { without_jobs(object) } else { again(object) };
        let found = unpack_failed(subject, None, &message, again);
        return Explanation { state: blocked, since: timestamp(&failed["lastTransitionTime"]), ..found };
    }
    if let Some(unpacking) = holds("BundleUnpacking") {
        let found = answer(
            subject,
            "unpacking",
            if is_installed(facts) { State::Working } else { State::NotInstalled },
            "the bundle is being unpacked",
        );
        let message = text(&unpacking["message"]);
        let found =
            Explanation { waits_for: Some("its bundle image".to_owned()), since: timestamp(&unpacking["lastTransitionTime"]), ..found };
        let advice = install_plan::pull_advice(&message);
        let found = if message.is_empty() { found } else { found.because(message) };
        return match advice {
            Some(advice) => found.because(advice).because("the pull is tried again by itself, until the time for unpacking is over"),
            None => found,
        };
    }
    planned(subject, facts, blocked)
}

/// The CSV that another one replaces, if it is still there.
fn former<'a>(next: &CsvFacts<'a>) -> Option<&'a Value> {
    let (namespace, _) = place(next.csv);
    let name = string(next.csv, "/spec/replaces");
    next.csvs.iter().find(|other| place(other) == (namespace.clone(), name.clone()))
}

/// An upgrade that is under way. Until the old CSV is gone, resolutions fail, because two CSVs of one package are there.
fn replacing(subject: &str, facts: &SubscriptionFacts<'_>) -> Option<Explanation> {
    let next = facts.csv?;
    let (namespace, name) = place(next.csv);
    let former = string(former(&next)?, "/metadata/name");
    let found = csv(&next);
    if found.situation != "healthy" {
        return Some(
            passed_on(found, subject, State::Working).because(format!("it replaces {former}, which stays until it has succeeded")),
        );
    }
    let found = answer(subject, "upgrading", State::Working, format!("{former} is being replaced by {name}, which has succeeded"));
    Some(Explanation { waits_for: Some(format!("the removal of csv {namespace}/{former}")), ..found })
}

/// The command by which unpack Jobs begin from the start: a failed one stays until it is deleted (OLM0-ADMIN-12).
fn without_jobs(subscription: &Value) -> Vec<String> {
    let market = text(&subscription["spec"]["sourceNamespace"]);
    vec![
        format!("kubectl get events -n {market} --field-selector reason=Failed"),
        format!("kubectl delete jobs -n {market} -l {} --field-selector status.successful=0", crate::unpack::LABEL),
    ]
}

/// Commands by which a Subscription begins from the start (OLM0-ADMIN-12).
fn again(subscription: &Value) -> Vec<String> {
    let (namespace, name) = place(subscription);
    let plan = string(subscription, "/status/installPlanRef/name");
    if plan.is_empty() {
        vec![
            format!("mainstay uninstall {name} --classic -n {namespace}"),
            format!("mainstay install {} --classic -n {namespace}", text(&subscription["spec"]["name"])),
        ]
    } else {
        vec![format!("kubectl delete installplan {plan} -n {namespace}")]
    }
}

/// The finding about catalogs: its own is missing or unhealthy, or another that the namespace sees.
fn catalogs(subject: &str, facts: &SubscriptionFacts<'_>, state: State) -> Option<Explanation> {
    let spec = &facts.subscription["spec"];
    let (source, place_of_source) = (text(&spec["source"]), text(&spec["sourceNamespace"]));
    let Some(own) = facts.catalog else {
        if source.is_empty() {
            return None;
        }
        let found = answer(subject, "catalog-missing", state, format!("catalogsource {place_of_source}/{source} is not there"));
        let others: Vec<String> = facts.catalogs.iter().map(place).map(|(namespace, name)| format!("{namespace}/{name}")).collect();
        let found = if others.is_empty() {
            found.because("its namespace sees no CatalogSource")
        } else {
            found.because(format!("its namespace sees {}", others.join(", ")))
        };
        return Some(found.then(
            Action::new("Create the CatalogSource, or name in spec.source and spec.sourceNamespace one that has the package:").command(
                format!(
                    "kubectl get packagemanifests -n {} --field-selector metadata.name={} -L catalog,catalog-namespace",
                    string(facts.subscription, "/metadata/namespace"),
                    text(&spec["name"])
                ),
            ),
        ));
    };
    if !is_ready(own) {
        return Some(passed_on(
            catalog_source::catalog_source(&catalog_source::CatalogSourceFacts { source: own, subscriptions: &[] }),
            subject,
            state,
        ));
    }
    let bad = facts.catalogs.iter().find(|catalog| !is_ready(catalog))?;
    // Another catalog matters only if the cluster itself says that it keeps this Subscription back.
    let failed = condition(&facts.subscription["status"], "ResolutionFailed").filter(|condition| condition["status"] == "True")?;
    if failed["reason"] == "ConstraintsNotSatisfiable" {
        return None;
    }
    let found = catalog_source::catalog_source(&catalog_source::CatalogSourceFacts { source: bad, subscriptions: &[] });
    let mut found = passed_on(found, subject, state)
        .because("its own catalog is healthy; OLM installs nothing in a namespace that sees an unhealthy one, because it could choose another provider");
    found.notes.push(format!("it goes on without that catalog: {}", catalog_source::without(bad)));
    Some(found)
}

/// A resolution that failed: a name that is unknown, or constraints that cannot hold together.
fn resolution_failed(subject: &str, facts: &SubscriptionFacts<'_>, failed: &Value, state: State) -> Explanation {
    let spec = &facts.subscription["spec"];
    let (namespace, name) = place(facts.subscription);
    let (package, channel, catalog) = (text(&spec["name"]), text(&spec["channel"]), text(&spec["source"]));
    let message = text(&failed["message"]);
    let since = timestamp(&failed["lastTransitionTime"]);
    let found = match facts.package {
        None if facts.catalog.is_some() => answer(subject, "unknown-package", state, format!("catalog {catalog} has no package {package}"))
            .then(Action::new("Look for its name among the packages:").command(format!("mainstay operator list-available -c {catalog}"))),
        Some(known) if !channel.is_empty() && known.channel(Some(&channel)).is_none() => {
            let channels: Vec<&str> = known.channels.iter().map(|channel| channel.name.as_str()).collect();
            answer(subject, "unknown-channel", state, format!("package {package} has no channel {channel}"))
                .because(format!("its channels are {}", channels.join(", ")))
                .then(Action::new("Follow a channel that it has:").command(format!(
                    "kubectl patch subscription.operators.coreos.com {name} -n {namespace} --type merge -p '{{\"spec\": {{\"channel\": \"{}\"}}}}'",
                    known.default_channel
                )))
        }
        Some(known) if !is_installed(facts) && starts_nowhere(spec, known) => {
            let csv = text(&spec["startingCSV"]);
            let elsewhere = known.channels_of(|entry| entry.csv == csv);
            let found = answer(subject, "unknown-starting-csv", state, format!("channel {channel} does not list {csv}"));
            let found = if elsewhere.is_empty() { found } else { found.because(format!("channel {} lists it", elsewhere.join(", "))) };
            let entries: Vec<&str> =
                listed(spec, known).into_iter().flat_map(|channel| &channel.entries).map(|entry| entry.csv.as_str()).collect();
            let more = if entries.len() > STARTS { ", ..." } else { "" };
            let found = found.because(format!("it lists {}{more}", entries.iter().take(STARTS).copied().collect::<Vec<_>>().join(", ")));
            found.then(Action::new("Name one of these, or none, which installs the head of the channel:").command(format!(
                "kubectl patch subscription.operators.coreos.com {name} -n {namespace} --type merge -p '{{\"spec\": {{\"startingCSV\": null}}}}'"
            )))
        }
        _ if failed["reason"] == "ConstraintsNotSatisfiable" => {
            let lines = conflict(&message);
            let found = answer(subject, "unsatisfiable", state, "no set of operators meets all that is asked for in the namespace");
            lines.into_iter().fold(found, Explanation::because).then(lift(facts, &message))
        }
        _ => answer(subject, "resolution-error", state, "the resolution did not come to a verdict").because(message.clone()).then(
            Action::new("It is tried again; look at the catalogs of the namespace meanwhile:").command("kubectl get catalogsources -A"),
        ),
    };
    let found = if found.why.iter().any(|why| message.contains(why.as_str())) { found } else { found.because(message) };
    Explanation { since, ..found }
}

/// The way out of constraints that cannot hold together.
fn lift(facts: &SubscriptionFacts<'_>, message: &str) -> Action {
    let (namespace, name) = place(facts.subscription);
    if let Some(package) = told::needed_package(message) {
        let text = format!("Add a CatalogSource that has package {package}, or install a version that does not need it; what is offered:");
        return Action::new(text).command(format!("kubectl get packagemanifests -n {namespace}"));
    }
    if told::is_provided_twice(message) && !is_installed(facts) {
        return Action::new(
            "Two operators of a namespace cannot provide the same API; withdraw this one, and install it elsewhere if need be:",
        )
        .command(format!("mainstay uninstall {name} --classic -n {namespace}"));
    }
    Action::new("Lift one of the constraints: another channel, no startingCSV, or without the operator that is in the way:")
        .command(format!("mainstay list --classic -n {namespace}"))
}

/// The channel that a Subscription follows.
fn listed<'a>(spec: &Value, package: &'a Package) -> Option<&'a Channel> {
    let channel = text(&spec["channel"]);
    package.channel(Some(channel.as_str()).filter(|channel| !channel.is_empty()))
}

fn starts_nowhere(spec: &Value, package: &Package) -> bool {
    let csv = text(&spec["startingCSV"]);
    !csv.is_empty() && listed(spec, package).is_some_and(|channel| !channel.lists(&csv))
}

/// The constraints of a message, one a line.
fn conflict(message: &str) -> Vec<String> {
    let list = message.split_once("constraints not satisfiable: ").map_or(message, |(_, list)| list);
    let mut lines: Vec<String> = Vec::new();
    for part in list.split(", ") {
        // An API is told as `group: G, version: V, kind: K`.
        match lines.last_mut() {
            Some(last) if part.starts_with("version: ") || part.starts_with("kind: ") => {
                last.push_str(", ");
                last.push_str(part);
            }
            _ => lines.push(part.to_owned()),
        }
    }
    lines
}

/// The explanation that InstallPlan and CSV give.
fn planned(subject: &str, facts: &SubscriptionFacts<'_>, blocked: State) -> Explanation {
    let status = &facts.subscription["status"];
    if let Some(found) = install_plan::account_finding(subject, facts.groups).filter(|_| !is_settled(facts)) {
        return Explanation { state: blocked, ..found };
    }
    let reference = string(status, "/installPlanRef/name");
    match facts.plan {
        None if !reference.is_empty() && !is_settled(facts) => {
            let namespace = string(facts.subscription, "/metadata/namespace");
            return answer(subject, "install-plan-missing", blocked, format!("installplan {namespace}/{reference} was deleted"))
                .because("another one is made with the next resolution");
        }
        Some(plan) if plan["status"]["phase"] != "Complete" => {
            let found = install_plan(&InstallPlanFacts { plan, groups: facts.groups });
            let state = match found.state {
                State::Held | State::Degraded => blocked,
                _ if is_installed(facts) => State::Working,
                _ => State::NotInstalled,
            };
            return passed_on(found, subject, state);
        }
        _ => {}
    }
    let Some(csv_facts) = &facts.csv else { return without_csv(subject, facts) };
    let found = csv(csv_facts);
    if found.situation != "healthy" {
        let state = if is_installed(facts) { found.state } else { State::NotInstalled };
        return passed_on(found, subject, state);
    }
    settled(subject, facts, csv_facts)
}

/// True if nothing is on its way.
fn is_settled(facts: &SubscriptionFacts<'_>) -> bool {
    facts.subscription["status"]["state"] == "AtLatestKnown"
}

fn without_csv(subject: &str, facts: &SubscriptionFacts<'_>) -> Explanation {
    let status = &facts.subscription["status"];
    let current = string(status, "/currentCSV");
    if current.is_empty() {
        return answer(subject, "not-looked-at", State::NotInstalled, "has not been resolved yet")
            .because("if it stays so, the catalog operator does not run")
            .then(Action::new("Look for the catalog operator:").command("kubectl get pods -A -l app=catalog-operator"));
    }
    let (namespace, name) = place(facts.subscription);
    answer(subject, "csv-missing", State::NotInstalled, format!("csv {namespace}/{current} is not there, and its InstallPlan is done"))
        .because("the CSV was deleted after the Subscription had seen it, and it is not installed again")
        .then(Action::new("Make the Subscription again:").commands(vec![
            format!("mainstay uninstall {name} --classic -n {namespace}"),
            format!("mainstay install {} --classic -n {namespace}", text(&facts.subscription["spec"]["name"])),
        ]))
}

/// A healthy operator, and what is newer (OLM0-UPG-17, MS-EXPL-04).
fn settled(subject: &str, facts: &SubscriptionFacts<'_>, csv_facts: &CsvFacts<'_>) -> Explanation {
    let spec = &facts.subscription["spec"];
    let (namespace, name) = place(facts.subscription);
    let installed = string(csv_facts.csv, "/metadata/name");
    let channel = text(&spec["channel"]);
    let found = |summary: String| answer(subject, "healthy", State::Healthy, summary);
    let Some(package) = facts.package else {
        return found(format!("{installed} is installed and healthy"))
            .because("its package is not in its catalog any more, so that no update can come");
    };
    let channel = Some(channel.as_str()).filter(|channel| !channel.is_empty());
    let Some(channel) = package.channel(channel) else {
        let text = format!("{installed} is installed and healthy");
        return found(text)
            .because(format!("its channel {} is not in its package any more, so that no update can come", channel.unwrap_or_default()));
    };
    if channel.head == installed {
        return found(format!("{installed} is installed and healthy, the head of channel {}", channel.name));
    }
    let mut found = found(format!("{installed} is installed and healthy"));
    let is_listed = channel.lists(&installed);
    let why = if is_listed {
        format!(
            "OLM finds no update from {installed} to {}, the head of channel {}: replaces, skips and skipRange of its entries do not lead \
             there, or a version on the way needs an operator or an API that no catalog of the namespace offers",
            channel.head, channel.name
        )
    } else {
        format!("channel {} does not list {installed}, and no entry of it says that it replaces or skips it", channel.name)
    };
    let goes_on = |other: &&crate::package::Channel| other.name != channel.name && other.head != installed && other.lists(&installed);
    let action = match package.channels.iter().find(goes_on).map(|other| other.name.as_str()) {
        Some(other) => Action::new("Follow a channel that goes on from it:").command(format!(
            "kubectl patch subscription.operators.coreos.com {name} -n {namespace} --type merge -p '{{\"spec\": {{\"channel\": \"{other}\"}}}}'"
        )),
        None => Action::new("Install the head from the start; the custom resources stay:")
            .commands(vec![
                format!("mainstay uninstall {name} --classic -n {namespace}"),
                format!("mainstay install {} --classic -n {namespace} --channel {}", package.name, channel.name),
            ])
            .warns("the operator does not run in between"),
    };
    let version = if channel.head_version.is_empty() { channel.head.clone() } else { channel.head_version.clone() };
    found.newer = Some(Newer { version, held_back_by: "no-update-path", why, action: Some(action) });
    found
}
