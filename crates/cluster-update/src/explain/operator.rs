//! Why a ClusterOperator is as it is, or is not there.

use mainstay_lifecycle::explanation::{Evidence, State};
use mainstay_release::{Class, PlatformOperator, platform_operator};
use serde_json::{Value, json};

use super::{Action, Explanation, conditions, pools};
use crate::cluster_version::{Condition, list, text};

/// The annotation of a ClusterOperator that is played.
const SIMULATED: &str = "mainstay.dev/simulated";

/// The facts about a ClusterOperator.
#[derive(Clone, Copy, Debug)]
pub struct OperatorFacts<'a> {
    /// The name.
    pub name: &'a str,
    /// The object; none if it is missing.
    pub object: Option<&'a Value>,
    /// The ClusterVersion; none if the cluster has none.
    pub cluster_version: Option<&'a Value>,
    /// The MachineConfigPools, for the operator that reports them.
    pub pools: &'a [Value],
}

/// Explains a ClusterOperator; none if it neither is there nor belongs to a release.
pub fn operator(facts: &OperatorFacts<'_>) -> Option<Explanation> {
    let row = platform_operator(facts.name);
    let mut found = match (facts.object, row) {
        (Some(object), _) => present(facts, object, row),
        (None, Some(row)) => absent(facts, row),
        (None, None) => return None,
    };
    if let Some(row) = row {
        found.notes.extend(notes(row));
    } else {
        found.notes.push("it is none of the platform's own operators: its release says what it does".to_owned());
    }
    Some(found)
}

/// The class, and what is played and real.
fn notes(row: &PlatformOperator) -> Vec<String> {
    let letters: Vec<&str> = row.classes.iter().map(|class| class.letter()).collect();
    let class = |class: &Class| format!("class {}: {}", class.letter(), class.meaning());
    let mut notes: Vec<String> = row.classes.iter().map(class).collect();
    notes.push(format!("{} ({}) has class {}, as {}", row.name, row.id, letters.join(" and "), row.reason));
    notes.push(format!("played in the embedded cluster: {}", row.played));
    if let Some(missing) = &row.missing {
        notes.push(format!("not part of this version: {missing}; meanwhile its status is played"));
    }
    notes.push(format!("on a real cluster: {}", row.real));
    notes
}

fn subject(name: &str) -> String {
    format!("clusteroperator {name}")
}

fn absent(facts: &OperatorFacts<'_>, row: &PlatformOperator) -> Explanation {
    let answer = |situation, summary: String| Explanation::new(subject(facts.name), situation, State::NotInstalled, summary);
    let Some(cluster_version) = facts.cluster_version else {
        let found = answer("no-release", "is not there: this cluster has no ClusterVersion, so that no release brings it".to_owned());
        return found.because("only a cluster that runs a release has ClusterOperators of the platform");
    };
    let status = &cluster_version["status"]["capabilities"];
    let enabled: Vec<&str> = list(&status["enabledCapabilities"]).iter().map(text).collect();
    let off: Vec<&str> = row.capabilities.iter().map(String::as_str).filter(|name| !enabled.contains(name)).collect();
    if let Some(first) = off.first().filter(|_| off.len() == row.capabilities.len()) {
        let mut wanted: Vec<&str> =
            list(&cluster_version["spec"]["capabilities"]["additionalEnabledCapabilities"]).iter().map(text).collect();
        wanted.push(first);
        let patch = json!({"spec": {"capabilities": {"additionalEnabledCapabilities": wanted}}});
        let action = Action::new(format!("Enable capability {first}: its manifests are applied at the next sync"))
            .command(format!("kubectl patch clusterversion version --type merge -p '{patch}'"))
            .warns("a capability cannot be switched off again");
        let found = answer("capability-off", format!("is not there: capability {first} is off"));
        let mut found = found.because("the manifests of an optional operator are left out while its capability is off").then(action);
        found.evidence.push(Evidence {
            what: "clusterversion version".to_owned(),
            says: format!("enabled: {}", enabled.join(", ")),
            at: None,
        });
        return found;
    }
    let found = answer("excluded", "is not there, although no capability of it is off".to_owned());
    let found = found.because("the release has no manifest of it, or the manifest is left out for this profile or feature set");
    found.then(
        Action::new("See which manifests of the release's payload belong to this cluster, and why others do not")
            .command("mainstay release include --help"),
    )
}

fn present(facts: &OperatorFacts<'_>, object: &Value, row: Option<&PlatformOperator>) -> Explanation {
    let name = facts.name;
    let all = &object["status"]["conditions"];
    let is = |kind: &str, status: &str| Condition::find(all, kind).filter(|condition| condition.status() == status);
    let version =
        list(&object["status"]["versions"]).iter().find(|version| version["name"] == "operator").map(|version| text(&version["version"]));
    let wanted = facts.cluster_version.map(|version| text(&version["status"]["desired"]["version"])).filter(|wanted| !wanted.is_empty());
    let is_played = object.pointer("/metadata/annotations").and_then(|all| all.get(SIMULATED)).is_some_and(|mark| mark == "true");
    let look = || look(name, object, row, is_played);
    let answer = |situation, state, summary: String| Explanation::new(subject(name), situation, state, summary);

    let mut found = if let Some(available) = is("Available", "False") {
        let found = answer("unavailable", State::Degraded, "is not available: its operands do not work".to_owned());
        told(found, available).then(look())
    } else if let Some(degraded) = is("Degraded", "True") {
        let found = answer("degraded", State::Degraded, "works, and is degraded".to_owned());
        let found = told(found, degraded).then(look());
        found.because("an update waits for it, and fails when it stays degraded for 40 minutes")
    } else if let Some(progressing) = is("Progressing", "True") {
        let summary = match (version, wanted) {
            (Some(version), Some(wanted)) if version != wanted => format!("is on its way from {version} to {wanted}"),
            (_, Some(wanted)) => format!("is on its way to {wanted}"),
            _ => "is rolling out a change".to_owned(),
        };
        let mut found = told(answer("progressing", State::Working, summary), progressing);
        found.waits_for = Some("every operand to run the new version".to_owned());
        found
    } else if let Some(upgradeable) = is("Upgradeable", "False") {
        let found = answer("not-upgradeable", State::Held, "works, and holds back the next minor version".to_owned());
        let action = match upgradeable.reason() {
            "IncompatibleOperatorsInstalled" => {
                Action::new("Upgrade or remove the operators that the message names").command("mainstay status".to_owned())
            }
            _ => Action::new("Mend what the message names; patch versions can still be installed")
                .command(format!("kubectl get clusteroperator {name} -o yaml")),
        };
        told(found, upgradeable).then(action)
    } else if Condition::find(all, "Available").is_none() {
        let found = answer("silent", State::Working, "has reported nothing yet".to_owned());
        let mut found = found.then(look());
        found.waits_for = Some("its operator to report".to_owned());
        found
    } else if let (Some(version), Some(wanted)) = (version, wanted)
        && version != wanted
    {
        let mut found = answer("old", State::Working, format!("is at {version}, and the cluster goes to {wanted}"));
        found.waits_for = Some("its turn: the manifests of its runlevel".to_owned());
        found
    } else {
        answer("healthy", State::Healthy, "is available".to_owned())
    };
    if name == pools::OPERATOR && (found.situation == "degraded" || found.situation == "progressing") {
        found = pools::held(found, facts.pools);
    }
    found.installed = version.map(|version| (name.to_owned(), version.to_owned()));
    if is_played {
        found.notes.push("simulated: no operand is running, and its conditions are played by the status player".to_owned());
    }
    found.evidence.extend(conditions(object));
    found
}

fn told(mut found: Explanation, condition: Condition<'_>) -> Explanation {
    found.since = condition.since();
    let words = [condition.reason(), condition.message()].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(": ");
    if words.is_empty() { found } else { found.because(words) }
}

/// Where to look at an operator that does not work.
fn look(name: &str, object: &Value, row: Option<&PlatformOperator>, is_played: bool) -> Action {
    if is_played {
        return Action::new("Nothing runs here: the script of the status player says what it plays")
            .command(format!("kubectl get clusteroperator {name} -o yaml"));
    }
    let related = list(&object["status"]["relatedObjects"]).iter();
    let namespace = related
        .filter(|one| one["resource"] == "namespaces")
        .map(|one| text(&one["name"]))
        .find(|name| !name.is_empty())
        .or_else(|| row.and_then(|row| row.namespaces.first()).map(String::as_str));
    let action = Action::new("Look at its pods, and collect what belongs to it");
    let action = match namespace {
        Some(namespace) => action.command(format!("kubectl get pods -n {namespace}")),
        None => action,
    };
    action.command(format!("mainstay adm inspect clusteroperator/{name}"))
}
