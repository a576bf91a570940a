//! Why the cluster's version is as it is.

use mainstay_lifecycle::explanation::{Newer, State};
use serde_json::{Value, json};

use super::{Action, Explanation, conditions, pools};
use crate::cluster_version::{Condition, list, not_recommended, sort_by_version, text};

/// The most updates that are named.
const MOST: usize = 5;

/// The facts about the cluster's version.
#[derive(Clone, Copy, Debug)]
pub struct VersionFacts<'a> {
    /// The ClusterVersion.
    pub cluster_version: &'a Value,
    /// The ClusterOperators.
    pub operators: &'a [Value],
    /// The MachineConfigPools.
    pub pools: &'a [Value],
}

/// Explains the ClusterVersion.
pub fn version(facts: &VersionFacts<'_>) -> Explanation {
    let object = facts.cluster_version;
    let mut found = find(facts);
    let desired = &object["status"]["desired"];
    found.installed = Some(("release".to_owned(), text(&desired["version"]).to_owned())).filter(|(_, version)| !version.is_empty());
    found.newer = newer(object);
    found.notes.extend(notes(facts));
    found.evidence.extend(conditions(object));
    found
}

fn find(facts: &VersionFacts<'_>) -> Explanation {
    let object = facts.cluster_version;
    let all = &object["status"]["conditions"];
    let is = |kind: &str, status: &str| Condition::find(all, kind).filter(|condition| condition.status() == status);
    let answer = |situation, state, summary: String| Explanation::new("clusterversion version".to_owned(), situation, state, summary);
    let current = text(&object["status"]["desired"]["version"]);
    let wish = &object["spec"]["desiredUpdate"];
    let wished = [text(&wish["version"]), text(&wish["image"])].into_iter().find(|text| !text.is_empty());
    let clear = || Action::new("Take the wish back: the cluster stays where it is").command("mainstay adm upgrade --clear");
    if let Some(invalid) = is("Invalid", "True") {
        let found = answer("invalid", State::Held, "has a spec that is not acted on; the current release is kept".to_owned());
        let found = told(found, invalid);
        return match wished {
            Some(_) => found.then(clear()),
            None => found.then(Action::new("Correct the spec").command("kubectl edit clusterversion version")),
        };
    }
    if let Some(refused) = is("ReleaseAccepted", "False") {
        let what = wished.unwrap_or("the release");
        let found = answer("not-accepted", State::Held, format!("stays at {current}: {what} is not accepted"));
        let found = told(found, refused);
        let text = match refused.reason() {
            "PreconditionChecks" => "Mend what the preconditions name: the update goes on by itself then",
            "RetrievePayload" => "Mend the registry, the pull secret or the signature that the message names: it is tried again by itself",
            "VerifyPayloadVersion" => "Ask for the version that the image has",
            _ => "See the events of the release",
        };
        let events = "kubectl get events -n openshift-cluster-version --sort-by .lastTimestamp";
        return found.then(Action::new(text).command(events)).or(clear());
    }
    let failing = Condition::find(all, "Failing");
    if let Some(failing) = failing.filter(|condition| condition.status() == "True") {
        let summary = match is("Progressing", "True") {
            Some(_) => format!("does not get to {current}"),
            None => format!("is at {current}, and cannot keep everything as the release says"),
        };
        return blame(told(answer("failing", State::Degraded, summary), failing), facts, failing.message());
    }
    if let Some(progressing) = is("Progressing", "True") {
        let slow = failing.filter(|condition| condition.status() == "Unknown");
        let (situation, summary) = match slow {
            Some(_) => ("slow", format!("is on its way to {current}, and waits for longer than usual")),
            None => ("updating", format!("is on its way to {current}")),
        };
        let mut found = told(answer(situation, State::Working, summary), progressing);
        found.waits_for = Some(progressing.message().to_owned());
        let message = slow.unwrap_or(progressing).message().to_owned();
        return blame(found, facts, &message);
    }
    if let Some(blocked) = is("Upgradeable", "False") {
        let found =
            answer("not-upgradeable", State::Held, format!("is at {current}; the next minor version is held back, patch versions are not"));
        let found = told(found, blocked);
        if let Some(action) = gate(all) {
            return found.then(action);
        }
        let says_no = |operator: &&Value| {
            Condition::find(&operator["status"]["conditions"], "Upgradeable").is_some_and(|one| one.status() == "False")
        };
        return match facts.operators.iter().find(says_no) {
            Some(operator) => found.then(see(operator)),
            None if !list(&object["spec"]["overrides"]).is_empty() => {
                found.then(Action::new("Remove spec.overrides before an update").command("kubectl edit clusterversion version"))
            }
            None => found,
        };
    }
    if let Some(unknown) = is("RetrievedUpdates", "False") {
        return no_updates(
            told(answer("no-updates", State::Held, format!("is at {current}, and does not know newer releases")), unknown),
            object,
            unknown,
        );
    }
    if Condition::find(all, "Available").is_none_or(|available| available.status() != "True") {
        let mut found = answer("installing", State::Working, "is not installed yet".to_owned());
        found.waits_for = Some("the Cluster Version Operator to apply the release".to_owned());
        return found;
    }
    answer("healthy", State::Healthy, format!("is at {current}"))
}

fn told(mut found: Explanation, condition: Condition<'_>) -> Explanation {
    found.since = condition.since();
    let words = [condition.reason(), condition.message()].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(": ");
    if words.is_empty() { found } else { found.because(words) }
}

/// Adds the operators that the message names, the first one as the next thing to look at (CVO-TRB-04, CVO-TRB-05).
fn blame(mut found: Explanation, facts: &VersionFacts<'_>, message: &str) -> Explanation {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let words: Vec<&str> = message.split(|c| !is_word(c)).collect();
    let named = facts.operators.iter().filter(|operator| words.contains(&text(&operator["metadata"]["name"]))).take(MOST);
    for operator in named {
        let name = text(&operator["metadata"]["name"]);
        for kind in ["Available", "Degraded", "Progressing"] {
            let Some(condition) = Condition::find(&operator["status"]["conditions"], kind) else { continue };
            let expected = if kind == "Available" { "True" } else { "False" };
            if condition.status() != expected {
                found = found.because(format!("clusteroperator {name}: {kind}={} {}", condition.status(), condition.message()));
            }
        }
        found = if found.next.is_none() { found.then(see(operator)) } else { found.or(see(operator)) };
        if name == pools::OPERATOR {
            found = pools::held(found, facts.pools);
            found.notes.push("the nodes are updated last: kubectl get machineconfigpools says which pool waits for which node".to_owned());
        }
    }
    found
}

fn see(operator: &Value) -> Action {
    let name = text(&operator["metadata"]["name"]);
    Action::new(format!("See why {name} is as it is")).command(format!("mainstay explain clusteroperator {name}"))
}

/// The answer to an administrator's gate.
fn gate(conditions: &Value) -> Option<Action> {
    let asked = Condition::find(conditions, "UpgradeableAdminAckRequired").or_else(|| Condition::find(conditions, "Upgradeable"));
    let asked = asked.filter(|condition| condition.status() == "False" && condition.reason() == "AdminAckRequired")?;
    let gates = "kubectl get configmap admin-gates -n openshift-config-managed -o yaml";
    let acknowledge =
        "kubectl patch configmap admin-acks -n openshift-config --type merge -p '{\"data\": {\"<key of the gate>\": \"true\"}}'";
    let action = Action::new(format!("Do what the gate asks ({}), then acknowledge it by its key", asked.message())).command(gates);
    Some(action.command(acknowledge))
}

/// CVO-TRB-01.
fn no_updates(found: Explanation, object: &Value, unknown: Condition<'_>) -> Explanation {
    let channels: Vec<&str> = list(&object["status"]["desired"]["channels"]).iter().map(text).collect();
    let channel = |name: &str| format!("mainstay adm upgrade channel {name}");
    match unknown.reason() {
        "NoChannel" | "VersionNotFound" => {
            let text = match unknown.reason() {
                "NoChannel" => "Choose a channel: without one, updates are not asked for",
                _ => "Choose a channel that has the current version",
            };
            let current = crate::cluster_version::text(&object["spec"]["channel"]);
            let mut others = channels.iter().filter(|name| **name != current);
            match others.next() {
                Some(first) => found.then(Action::new(text).command(channel(first))),
                None => found.then(Action::new(text).command("mainstay adm upgrade channel --help")),
            }
        }
        "NoUpstream" | "InvalidURI" => found.then(Action::new("Correct spec.upstream").command("kubectl edit clusterversion version")),
        "InvalidID" => found.then(Action::new("Correct spec.clusterID").command("kubectl edit clusterversion version")),
        _ => found.then(
            Action::new("See whether the update service can be reached; it is asked again by itself")
                .command("kubectl get clusterversion version -o jsonpath={.spec.upstream}"),
        ),
    }
}

/// The newest update, or the newest one with a risk (CVO-TRB-02).
fn newer(object: &Value) -> Option<Newer<std::convert::Infallible>> {
    let status = &object["status"];
    // After an update the lists are those of the release before, until the service is asked again.
    let is_other = |release: &Value| release["version"] != status["desired"]["version"];
    let mut available: Vec<&Value> = list(&status["availableUpdates"]).iter().filter(|release| is_other(release)).collect();
    sort_by_version(&mut available, |update| text(&update["version"]));
    let mut risky: Vec<&Value> = list(&status["conditionalUpdates"])
        .iter()
        .filter(|update| is_other(&update["release"]) && not_recommended(update).is_some())
        .collect();
    sort_by_version(&mut risky, |update| text(&update["release"]["version"]));
    if let Some(first) = available.first() {
        let version = text(&first["version"]);
        return Some(Newer {
            version: version.to_owned(),
            held_back_by: "administrator",
            why: "it is recommended, and waits to be asked for".to_owned(),
            action: Some(Action::new(format!("Update to {version}")).command(format!("mainstay adm upgrade --to {version}"))),
        });
    }
    let first = risky.first()?;
    let version = text(&first["release"]["version"]);
    let why = not_recommended(first).map(|condition| format!("{}: {}", condition.reason(), condition.message())).unwrap_or_default();
    let action = Action::new(format!("Update to {version} in spite of the risk"))
        .command(format!("mainstay adm upgrade --to {version} --allow-not-recommended"))
        .warns("the risk is real for this cluster, or could not be evaluated");
    Some(Newer { version: version.to_owned(), held_back_by: "risk", why, action: Some(action) })
}

fn notes(facts: &VersionFacts<'_>) -> Vec<String> {
    let object = facts.cluster_version;
    let mut notes = Vec::new();
    let mut risky: Vec<&Value> =
        list(&object["status"]["conditionalUpdates"]).iter().filter(|update| not_recommended(update).is_some()).collect();
    sort_by_version(&mut risky, |update| text(&update["release"]["version"]));
    for update in risky.iter().take(MOST) {
        if let Some(condition) = not_recommended(update) {
            let version = text(&update["release"]["version"]);
            notes.push(format!("{version} is there, and not recommended: {}: {}", condition.reason(), condition.message()));
        }
    }
    let overrides = list(&object["spec"]["overrides"]).iter().filter(|one| one["unmanaged"] == json!(true)).count();
    if overrides > 0 {
        notes.push(format!(
            "spec.overrides leaves {overrides} of the release's objects to others; all other changes by hand are taken back"
        ));
    }
    for entry in list(&object["status"]["history"]) {
        let (version, risks) = (text(&entry["version"]), text(&entry["acceptedRisks"]));
        if !risks.is_empty() {
            notes.push(format!("{version} was accepted with risks: {risks}"));
        }
        if entry["verified"] == json!(false) && !risks.is_empty() {
            notes.push(format!("{version} was forced: its image was not verified"));
        }
    }
    let is_done = Condition::find(&object["status"]["conditions"], "Progressing").is_some_and(|one| one.status() == "False");
    notes.extend(facts.pools.iter().filter(|_| is_done).filter_map(pools::left));
    notes
}
