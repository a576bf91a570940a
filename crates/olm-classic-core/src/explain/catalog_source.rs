//! Why a CatalogSource is as it is (OLM0-CAT-04, OLM0-CAT-18, OLM0-ADMIN-21, OLM0-ADMIN-22).

use mainstay_lifecycle::explanation::{Evidence, State};
use serde_json::Value;

use super::told::{self, PullProblem};
use super::{Action, Explanation, answer, string, subject, timestamp};
use crate::catalog_source::is_ready;
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
            found.notes.push(format!(
                "other Subscriptions of the namespaces that see it ({others}) may wait, too: an unhealthy catalog could hide a better provider"
            ));
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
            return answer(subject, "config-map-error", State::Degraded, format!("ConfigMap {namespace}/{map} cannot be used"))
                .because(message)
                .then(Action::new("Look at it:").command(format!("kubectl get configmap {map} -n {namespace} -o yaml")));
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
        Some(PullProblem::Unauthorized) => (
            "the registry wants other credentials",
            Action::new("Make a Secret with credentials in its namespace, and name it in spec.secrets:").commands(vec![
                format!("kubectl create secret docker-registry {name}-pull -n {namespace} --docker-server=HOST --docker-username=USER --docker-password=PASSWORD"),
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
        None => ("its content cannot be used", Action::new("Check the content, and publish it again:").command(format!("mainstay catalog lint {image}"))),
    };
    answer(subject, "catalog-unhealthy", State::Degraded, format!("{what} cannot be read")).because(cause).because(message).then(action)
}

fn edit(name: &str, namespace: &str) -> Action {
    Action::new("Correct spec.image:").command(format!("kubectl edit catalogsource {name} -n {namespace}"))
}
