//! Explanations of MachineSets: why one grows, shrinks or does not (COP-CAS-05, MACH-SET-06).
//!
//! The reasons are those that the autoscaler's last pass wrote to ConfigMap `cluster-autoscaler-status`; what keeps it from a pass is found here, by its
//! own rules.

use jiff::{SignedDuration, Timestamp};
use mainstay_autoscaler_core::GroupId;
use mainstay_autoscaler_core::settings::{self, Settings};
use mainstay_autoscaler_core::status::{Reported, STATUS};
use mainstay_autoscaler_core::target::{MachineAutoscaler, bounds};
use mainstay_diagnostics::Failure;
use mainstay_lifecycle::explanation::{Action, Evidence, State};
use serde_json::Value;

use super::{Explanation, GROUP, served};
use crate::classic::objects::{Kind, find, list};
use crate::session::Session;

const SET: Kind = Kind { group: GROUP, version: "v1beta1", kind: "MachineSet", plural: "machinesets", word: "machineset" };
const MACHINE_AUTOSCALER: Kind = Kind {
    group: "autoscaling.openshift.io",
    version: "v1beta1",
    kind: "MachineAutoscaler",
    plural: "machineautoscalers",
    word: "machineautoscaler",
};
const CLUSTER_AUTOSCALER: Kind = Kind {
    group: "autoscaling.openshift.io",
    version: "v1",
    kind: "ClusterAutoscaler",
    plural: "clusterautoscalers",
    word: "clusterautoscaler",
};
const CONFIG_MAP: Kind = Kind { group: "", version: "v1", kind: "ConfigMap", plural: "configmaps", word: "configmap" };
/// The age of a status from which no autoscaler is at work: six passes.
const STALE: SignedDuration = SignedDuration::from_secs(60);

/// The facts that an explanation rests on.
struct SetFacts {
    set: Value,
    /// MachineAutoscalers that name the set.
    autoscalers: Vec<MachineAutoscaler>,
    /// ClusterAutoscaler `default`.
    cluster: Option<Value>,
    status: Option<Value>,
}

/// Explains a MachineSet.
///
/// # Errors
/// There is no such set, or the cluster cannot be read.
pub async fn explain_set(session: &Session, namespace: &str, name: &str, now: Timestamp) -> Result<Explanation, Failure> {
    let set = find(session, SET, namespace, name).await?;
    let set = set.ok_or_else(|| SET.not_found(namespace, name).hint(format!("kubectl get machinesets -n {namespace} lists them")))?;
    let all = served(list(session, MACHINE_AUTOSCALER, Some(namespace)).await)?.unwrap_or_default();
    let autoscalers = all.iter().map(MachineAutoscaler::of).filter(|one| one.target.is_supported() && one.target.name == name).collect();
    let cluster = served(find(session, CLUSTER_AUTOSCALER, "", settings::NAME).await)?.flatten();
    let status = find(session, CONFIG_MAP, namespace, STATUS).await?;
    Ok(explained(&SetFacts { set, autoscalers, cluster, status }, now))
}

fn command(text: impl Into<String>, commands: Vec<String>) -> Action<std::convert::Infallible> {
    Action { commands, ..Action::new(text) }
}

fn explained(facts: &SetFacts, now: Timestamp) -> Explanation {
    let text = |pointer: &str| facts.set.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let count = |pointer: &str| facts.set.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    let wanted = count("/spec/replicas");
    let has = format!("{} of {wanted} machines are ready", count("/status/readyReplicas"));
    let answer = |situation, state, summary: String| Explanation::new(format!("machineset {name}"), situation, state, summary);
    if !text("/status/errorMessage").is_empty() {
        return answer("failed", State::Degraded, has).because(text("/status/errorMessage"));
    }
    let Some((min, max)) = bounds(&facts.set) else {
        return without_bounds(facts, answer("not-scaled", State::Healthy, String::new()), &has);
    };
    let sizes = format!("{has}; it is kept between {min} and {max}");
    let Some(cluster) = &facts.cluster else {
        return answer("no-clusterautoscaler", State::Held, format!("{sizes}, but nothing scales"))
            .because("there is no ClusterAutoscaler default, without which no set grows or shrinks");
    };
    let settings = match Settings::of(cluster) {
        Ok(settings) => settings,
        Err(errors) => {
            let cause = settings::told(&errors);
            return answer("invalid-clusterautoscaler", State::Held, format!("{sizes}, but nothing scales"))
                .because(format!("ClusterAutoscaler default is not valid: {cause}"))
                .then(command("correct it", vec!["kubectl edit clusterautoscaler default".to_owned()]));
        }
    };
    let group = GroupId { namespace: namespace.to_owned(), name: name.to_owned() };
    let reported = facts.status.as_ref().and_then(|status| Reported::of(status, &group));
    let is_fresh = |reported: &Reported| reported.time.is_some_and(|time| now.duration_since(time) < STALE);
    let Some(reported) = reported.filter(is_fresh) else {
        return answer("no-autoscaler", State::Held, format!("{sizes}, but nothing scales"))
            .because(format!("ConfigMap {STATUS} does not tell of it, or is older than a minute: no autoscaler is at work"))
            .then(command("start one", vec!["mainstay run autoscaler".to_owned()]));
    };
    let (word, sentence) = reported.decision.clone().unwrap_or_default();
    let (situation, state, does) = situation(&word);
    let mut out = answer(situation, state, format!("{does}; {sizes}"));
    out.since = reported.since;
    if !sentence.is_empty() {
        out = out.because(sentence.clone());
    }
    if let Some(next) = remedy(&word, facts, namespace, name, max) {
        out = out.then(next);
    }
    if !settings.scale_down.is_enabled {
        out.notes.push("it does not shrink: scaleDown.enabled of ClusterAutoscaler default is not true".to_owned());
    }
    out.evidence.push(Evidence { what: format!("configmap {STATUS}"), says: format!("{word}: {sentence}"), at: reported.time });
    for (node, word, sentence) in reported.nodes {
        out.evidence.push(Evidence { what: format!("node {node}"), says: format!("{word}: {sentence}"), at: None });
    }
    out
}

/// A set without bounds has the size that a person gives it, unless a MachineAutoscaler means it and cannot have it.
fn without_bounds(facts: &SetFacts, mut answer: Explanation, has: &str) -> Explanation {
    let Some(autoscaler) = facts.autoscalers.first() else {
        has.clone_into(&mut answer.summary);
        answer.summary.push_str("; it has the size that it is given");
        return answer.because("no MachineAutoscaler names it, so that nothing scales it");
    };
    answer.summary = format!("{has}, and nothing scales it");
    answer.state = State::Held;
    let refused = autoscaler.check().err().or_else(|| autoscaler.claim(Some(&facts.set)).err());
    if let Some(error) = refused {
        answer.situation = "target-refused";
        return answer.because(format!("machineautoscaler {autoscaler}: {error}"));
    }
    answer.situation = "not-claimed";
    answer
        .because(format!("machineautoscaler {autoscaler} names it, and no autoscaler has written its bounds yet"))
        .then(command("start one, if none runs", vec!["mainstay run autoscaler".to_owned()]))
}

/// The situation, the state, and what the set does, by the word of the last decision.
fn situation(word: &str) -> (&'static str, State, &'static str) {
    match word {
        "NotNeeded" => ("not-needed", State::Healthy, "it does not grow"),
        "NodesUpcoming" => ("nodes-upcoming", State::Working, "it waits for its new nodes"),
        "ScaledUp" => ("scaled-up", State::Working, "it grows"),
        "ScaledUpToMinSize" => ("scaled-up-to-min-size", State::Working, "it grows"),
        "OtherGroupChosen" => ("other-group-chosen", State::Healthy, "it does not grow"),
        "ClusterUnhealthy" => ("cluster-unhealthy", State::Degraded, "it does not grow"),
        "MaxNodeGroupSizeReached" => ("max-size-reached", State::Held, "it does not grow"),
        "Backoff" => ("backoff", State::Degraded, "it does not grow"),
        "NotReady" => ("not-ready", State::Degraded, "it does not grow"),
        "MaxNodesTotalReached" => ("max-nodes-total-reached", State::Held, "it does not grow"),
        "MaxResourceLimitReached" => ("max-resource-limit-reached", State::Held, "it does not grow"),
        "TemplateUnknown" => ("template-unknown", State::Held, "it does not grow"),
        "PodsDoNotFit" => ("pods-do-not-fit", State::Held, "it does not grow"),
        _ => ("no-decision", State::Working, "nothing is decided yet"),
    }
}

/// The one thing that helps.
fn remedy(word: &str, facts: &SetFacts, namespace: &str, name: &str, max: usize) -> Option<Action<std::convert::Infallible>> {
    let edit = |text: &str| Some(command(text, vec!["kubectl edit clusterautoscaler default".to_owned()]));
    match word {
        "MaxNodeGroupSizeReached" => {
            let autoscaler = facts.autoscalers.first()?;
            let patch = format!("{{\"spec\":{{\"maxReplicas\":{}}}}}", max + 1);
            let raise = format!("kubectl patch machineautoscaler {} -n {namespace} --type merge -p '{patch}'", autoscaler.name);
            Some(command("raise its greatest size", vec![raise]))
        }
        "MaxNodesTotalReached" | "MaxResourceLimitReached" => edit("raise the limit of the cluster"),
        "Backoff" => Some(command("find out why its machines do not become nodes", vec![format!("mainstay machine list -n {namespace}")])),
        "TemplateUnknown" => {
            let annotate = format!(
                "kubectl annotate machineset {name} -n {namespace} machine.openshift.io/vCPU=4 machine.openshift.io/memoryMb=16384"
            );
            Some(command("say how large its machines are, for example", vec![annotate]))
        }
        "ClusterUnhealthy" | "NotReady" => Some(command("find out why nodes are not ready", vec!["kubectl get nodes".to_owned()])),
        "PodsDoNotFit" => {
            Some(command("see what the pods ask for", vec!["kubectl get pods -A --field-selector status.phase=Pending".to_owned()]))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    const MIN: &str = "machine.openshift.io/cluster-api-autoscaler-node-group-min-size";
    const MAX: &str = "machine.openshift.io/cluster-api-autoscaler-node-group-max-size";

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    fn facts(is_bound: bool) -> SetFacts {
        let annotations = if is_bound { json!({MIN: "1", MAX: "3"}) } else { json!({}) };
        let autoscaler = json!({
            "metadata": {"namespace": "m", "name": "workers"},
            "spec": {"minReplicas": 1, "maxReplicas": 3, "scaleTargetRef": {"kind": "MachineSet", "name": "set"}},
        });
        SetFacts {
            set: json!({
                "metadata": {"namespace": "m", "name": "set", "annotations": annotations}, "spec": {"replicas": 3},
                "status": {"readyReplicas": 2},
            }),
            autoscalers: vec![MachineAutoscaler::of(&autoscaler)],
            cluster: Some(json!({"metadata": {"name": "default"}, "spec": {}})),
            status: None,
        }
    }

    fn status(time: &str, reason: &str) -> Value {
        let text = format!(
            "time: {time}\nnodeGroups:\n- name: MachineSet/m/set\n  lastDecision:\n    reason: {reason}\n    message: the sentence\n    since: 2026-01-01T11:50:00Z\n  nodes:\n  - name: worker-1\n    reason: NotUnderutilized\n    message: used\n"
        );
        json!({"data": {"status": text}})
    }

    /// COP-CAS-05: why a set does not grow: what keeps the autoscaler from it.
    #[test]
    fn what_keeps_the_autoscaler() {
        let said = |facts: &SetFacts| {
            let answer = explained(facts, now());
            (answer.situation, answer.why.first().cloned().unwrap_or_default())
        };
        let mut alone = facts(false);
        alone.autoscalers.clear();
        assert_eq!(said(&alone), ("not-scaled", "no MachineAutoscaler names it, so that nothing scales it".to_owned()));
        assert_eq!(said(&facts(false)).0, "not-claimed");
        let mut owned = facts(false);
        owned.set["metadata"]["annotations"] = json!({"autoscaling.openshift.io/machineautoscaler": "m/other"});
        let (situation, why) = said(&owned);
        assert!(situation == "target-refused" && why.ends_with("already owned by another MachineAutoscaler"), "{why}");
        let mut idle = facts(true);
        idle.cluster = None;
        assert_eq!(said(&idle).0, "no-clusterautoscaler");
        idle.cluster = Some(json!({"metadata": {"name": "default"}, "spec": {"scaleUp": {"newPodScaleUpDelay": "-1s"}}}));
        assert_eq!(
            said(&idle),
            (
                "invalid-clusterautoscaler",
                "ClusterAutoscaler default is not valid: ScaleUp.NewPodScaleUpDelay: cannot use a negative time".to_owned()
            )
        );
        assert_eq!(said(&facts(true)).0, "no-autoscaler");
        let mut stale = facts(true);
        stale.status = Some(status("2026-01-01T11:58:59Z", "NotNeeded"));
        assert_eq!(said(&stale).0, "no-autoscaler");
    }

    /// COP-CAS-05: why a set does not grow: the reason of the last decision, with a command that helps.
    #[test]
    fn what_the_autoscaler_decided() {
        let mut full = facts(true);
        full.status = Some(status("2026-01-01T11:59:55Z", "MaxNodeGroupSizeReached"));
        let answer = explained(&full, now());
        assert_eq!((answer.situation, answer.state), ("max-size-reached", State::Held));
        assert_eq!(answer.summary, "it does not grow; 2 of 3 machines are ready; it is kept between 1 and 3");
        assert_eq!(answer.why, ["the sentence"]);
        let command = "kubectl patch machineautoscaler workers -n m --type merge -p '{\"spec\":{\"maxReplicas\":4}}'";
        assert_eq!(answer.next.unwrap().commands, [command]);
        assert!(answer.notes[0].contains("scaleDown.enabled"));
        assert_eq!((answer.evidence[1].what.as_str(), answer.evidence[1].says.as_str()), ("node worker-1", "NotUnderutilized: used"));
    }
}
