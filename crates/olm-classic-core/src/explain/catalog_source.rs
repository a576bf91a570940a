//! Why a CatalogSource is as it is (OLM0-CAT-04, OLM0-CAT-18, OLM0-ADMIN-21, OLM0-ADMIN-22).

use mainstay_lifecycle::explanation::{Evidence, State};
use serde_json::Value;

use super::told::{self, PullProblem};
use super::{Action, Explanation, answer, string, subject, timestamp};
use crate::catalog_source::is_ready;
use crate::hub;
use crate::overview::place;

/// The facts about a CatalogSource.
#[derive(Debug, Clone, Copy)]
pub struct CatalogSourceFacts<'a> {
    /// The CatalogSource.
    pub source: &'a Value,
    /// The Subscriptions that see it.
    pub subscriptions: &'a [Value],
}

/// Explains a CatalogSource.
pub fn catalog_source(facts: &CatalogSourceFacts<'_>) -> Explanation {
    let source = facts.source;
    let subject = subject("catalogsource", source);
    let mut found = of_status(&subject, source);
    let connection = &source["status"]["connectionState"];
    found.since = timestamp(&connection["lastConnect"]);
    if let Some(state) = connection["lastObservedState"].as_str() {
        let says = format!("{state} at {}", string(connection, "/address"));
        found.evidence.push(Evidence { what: "connection".to_owned(), says, at: timestamp(&connection["lastConnect"]) });
    }
    if found.state != State::Healthy {
        let users = facts.subscriptions.iter().filter(|user| {
            user["spec"]["source"] == source["metadata"]["name"] && user["spec"]["sourceNamespace"] == source["metadata"]["namespace"]
        });
        let names: Vec<String> = users.map(place).map(|(namespace, name)| format!("{namespace}/{name}")).collect();
        if !names.is_empty() {
            found.notes.push(format!("subscription {} waits for it", names.join(", ")));
        }
        if facts.subscriptions.len() > names.len() {
            let others = facts.subscriptions.len() - names.len();
            let who = if others == 1 {
                "another Subscription sees it and may wait, too".to_owned()
            } else {
                format!("{others} other Subscriptions see it and may wait, too")
            };
            found
                .notes
                .push(format!("{who}: an unhealthy catalog could hide a better provider; without it they go on: {}", without(source)));
        }
    }
    found
}

fn of_status(subject: &str, source: &Value) -> Explanation {
    let status = &source["status"];
    let message = string(status, "/message");
    let (namespace, name) = place(source);
    let image = string(source, "/spec/image");
    match status["reason"].as_str().unwrap_or_default() {
        "SpecInvalidError" => {
            return answer(subject, "spec-invalid", State::Degraded, "its spec cannot be served")
                .because(message)
                .then(Action::new("Correct its spec:").command(format!("kubectl edit catalogsource {name} -n {namespace}")));
        }
        "ConfigMapError" => {
            let map = string(source, "/spec/configMap");
            let action = if told::is_missing(&message) {
                Action::new("Create it with keys customResourceDefinitions, clusterServiceVersions and packages, or name another in spec.configMap:")
                    .command(format!("kubectl edit catalogsource {name} -n {namespace}"))
            } else {
                Action::new("Look at it:").command(format!("kubectl get configmap {map} -n {namespace} -o yaml"))
            };
            let summary = format!("ConfigMap {namespace}/{map} cannot be used");
            return answer(subject, "config-map-error", State::Degraded, summary).because(message).then(action);
        }
        _ => {}
    }
    if is_ready(source) {
        let found = answer(subject, "healthy", State::Healthy, "serves its content");
        return match status["reason"].as_str() {
            Some("InvalidIntervalError") => found.because(message).then(
                Action::new("Correct spec.updateStrategy.registryPoll.interval:")
                    .command(format!("kubectl edit catalogsource {name} -n {namespace}")),
            ),
            _ => found,
        };
    }
    if status["connectionState"].is_null() && message.is_empty() {
        return answer(subject, "not-looked-at", State::Working, "has not been looked at yet")
            .because("if it stays so, the catalog operator does not run")
            .then(Action::new("Look for the catalog operator:").command("kubectl get pods -A -l app=catalog-operator"));
    }
    let what = if image.is_empty() { "its registry".to_owned() } else { format!("image {image}") };
    if message.is_empty() {
        let found = answer(subject, "connecting", State::Working, format!("{what} is being read"));
        return Explanation { waits_for: Some(what), ..found };
    }
    let (cause, action) = match told::pull(&message) {
        Some(PullProblem::Unauthorized) if source["spec"]["secrets"][0].is_string() => {
            let secret = string(source, "/spec/secrets/0");
            (
                "the registry refuses the credentials in the Secrets of spec.secrets",
                Action::new("Write the Secret again, from a file with credentials that the registry accepts:").command(format!(
                    "kubectl create secret generic {secret} -n {namespace} --type=kubernetes.io/dockerconfigjson --from-file=.dockerconfigjson=auth.json \
                     --dry-run=client -o yaml | kubectl apply -f -"
                )),
            )
        }
        Some(PullProblem::Unauthorized) => (
            "the registry wants other credentials",
            Action::new("Make a Secret with credentials in its namespace, and name it in spec.secrets:").commands(vec![
                format!(
                    "kubectl create secret docker-registry {name}-pull -n {namespace} --docker-server={} --docker-username=USER --docker-password=PASSWORD",
                    image.split('/').next().unwrap_or_default()
                ),
                format!("kubectl patch catalogsource {name} -n {namespace} --type merge -p '{{\"spec\": {{\"secrets\": [\"{name}-pull\"]}}}}'"),
            ]),
        ),
        Some(PullProblem::UnknownHost) => ("the host name of the registry does not resolve", edit(&name, &namespace)),
        Some(PullProblem::NotFound) => ("the registry does not have the image", edit(&name, &namespace)),
        Some(PullProblem::Certificate) => (
            "the certificate of the registry is not trusted",
            Action::new("Trust the authority of the registry where the catalog operator runs"),
        ),
        Some(PullProblem::Unreachable) => {
            ("the registry does not answer", Action::new("Check the registry, the network and the proxy; it is asked again by itself"))
        }
        None if told::has_no_node(&message) => ("no node takes its pod", unplaced(source)),
        None => ("its content cannot be used", Action::new("Check the content, and publish it again:").command(format!("mainstay catalog lint {image}"))),
    };
    answer(subject, "catalog-unhealthy", State::Degraded, format!("{what} cannot be read")).because(cause).because(message).then(action)
}

/// The command that takes a catalog away (OLM0-CAT-20); one of the default ones comes back unless it is switched off.
pub(super) fn without(source: &Value) -> String {
    let (namespace, name) = place(source);
    if is_default(source) {
        let patch = serde_json::json!({"spec": {"sources": [{"name": name, "disabled": true}]}});
        format!("kubectl patch operatorhub cluster --type merge -p '{patch}'")
    } else {
        format!("kubectl delete catalogsource {name} -n {namespace}")
    }
}

fn is_default(source: &Value) -> bool {
    source["metadata"]["annotations"][hub::MANAGED_BY.0] == hub::MANAGED_BY.1
}

/// The requirements of a catalog's pod on nodes, when no node takes it (OLM0-CAT-07).
fn unplaced(source: &Value) -> Action {
    let (namespace, name) = place(source);
    let selector = source["spec"]["grpcPodConfig"]["nodeSelector"].as_object().into_iter().flatten();
    let labels: Vec<String> = selector.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if labels.is_empty() {
        return Action::new("Change spec.grpcPodConfig, or the nodes:")
            .command(format!("kubectl edit catalogsource {name} -n {namespace}"));
    }
    Action::new("Give a node the labels that its spec.grpcPodConfig.nodeSelector asks for:")
        .command(format!("kubectl label $(kubectl get nodes -o name | tail -n 1) --overwrite {}", labels.join(" ")))
        .warns("choose the node yourself where that is not the one to serve catalogs")
}

fn edit(name: &str, namespace: &str) -> Action {
    Action::new("Correct spec.image:").command(format!("kubectl edit catalogsource {name} -n {namespace}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// OLM0-CAT-20, OLM0-HUB-05: a default catalog is switched off, since it comes back when it is deleted; another one is deleted.
    #[test]
    fn a_catalog_in_the_way() {
        let mut source = json!({"metadata": {"name": "team", "namespace": "market"}});
        assert_eq!(without(&source), "kubectl delete catalogsource team -n market");
        source["metadata"]["annotations"] = json!({hub::MANAGED_BY.0: hub::MANAGED_BY.1});
        let patch = r#"{"spec":{"sources":[{"disabled":true,"name":"team"}]}}"#;
        assert_eq!(without(&source), format!("kubectl patch operatorhub cluster --type merge -p '{patch}'"));
    }
}
