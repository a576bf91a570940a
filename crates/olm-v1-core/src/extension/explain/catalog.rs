//! A ClusterCatalog: the reason if it is not serving (OLM1-CAT-08).

use jiff::Timestamp;
use mainstay_api::condition::{self, Condition, Status};
use mainstay_api::olm_v1::{AvailabilityMode, ClusterCatalog};
use mainstay_diagnostics::{SharedError, counted};
use serde_json::json;

use super::super::facts::PullProblem;
use super::super::told::CatalogProblem;
use super::words::{certificate, dated, first_line};
use super::{Action, EventFact, Evidence, Explanation, State, events, listed};

/// The facts that an explanation of a catalog rests on.
pub struct CatalogFacts {
    /// The catalog.
    pub catalog: ClusterCatalog,
    /// The numbers of packages and bundles in its content, or the reason why it could not be fetched; none if it is not serving.
    pub content: Option<Result<(usize, usize), SharedError>>,
    /// Names of extensions whose packages it has.
    pub used_by: Vec<String>,
    /// Events about it.
    pub events: Vec<EventFact>,
    /// The present time.
    pub now: Timestamp,
}

/// Explains a catalog.
pub fn explain_catalog(facts: &CatalogFacts) -> Explanation {
    let catalog = &facts.catalog;
    let name = catalog.metadata.name.as_deref().unwrap_or_default();
    let mut answer = match (trouble(catalog), &facts.content) {
        (Some(trouble), _) => trouble,
        (None, Some(Err(problem))) => Explanation {
            state: State::Degraded,
            situation: "content-unreachable",
            ..Explanation::new(subject(name), "", State::Degraded, "it serves, but its content cannot be fetched from here")
        }
        .because(first_line(&problem.to_string()).to_owned())
        .then(
            Action::new("See whether the address that the catalog names can be reached:")
                .command(format!("kubectl get clustercatalog {name} -o jsonpath={{.status.urls.base}}")),
        ),
        (None, content) => {
            let held = match content {
                Some(Ok((packages, bundles))) => {
                    format!("it serves {} with {}", counted(*packages, "package"), counted(*bundles, "bundle"))
                }
                _ => "it serves".to_owned(),
            };
            Explanation::new(subject(name), "healthy", State::Healthy, held)
        }
    };
    if !facts.used_by.is_empty() {
        answer.notes.push(format!("extensions whose packages it has: {}", listed(facts.used_by.iter().map(String::as_str), 10)));
    }
    let conditions = catalog.status.iter().flat_map(|status| &status.conditions);
    answer.evidence.extend(conditions.map(|condition| Evidence {
        what: format!("condition {}={:?} {}", condition.kind, condition.status, condition.reason),
        says: first_line(&condition.message).to_owned(),
        at: Some(condition.last_transition_time.0),
    }));
    answer.evidence.extend(events(&facts.events));
    answer
}

fn subject(name: &str) -> String {
    format!("clustercatalog {name}")
}

/// The explanation of a catalog's problem, if it has one.
pub(super) fn trouble(catalog: &ClusterCatalog) -> Option<Explanation> {
    let name = catalog.metadata.name.as_deref().unwrap_or_default();
    let all = catalog.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let (progressing, serving) = (condition::get(all, "Progressing"), condition::get(all, "Serving"));
    let serves = serving.is_some_and(|serving| serving.status == Status::True);
    let since = |condition: Option<&Condition>| condition.map(|condition| condition.last_transition_time.0);
    if catalog.metadata.deletion_timestamp.is_some() {
        return Some(Explanation {
            since: catalog.metadata.deletion_timestamp.as_ref().map(|time| time.0),
            ..Explanation::new(subject(name), "removing", State::Removing, "it is being removed")
        });
    }
    if catalog.spec.availability_mode == AvailabilityMode::Unavailable {
        let on = json!({"spec": {"availabilityMode": "Available"}});
        let answer =
            Explanation { since: since(serving), ..Explanation::new(subject(name), "switched-off", State::Held, "it is switched off") };
        return Some(
            answer
                .because("availabilityMode is Unavailable: for every extension it is as if it were not there")
                .then(Action::new("Switch it on:").command(format!("kubectl patch clustercatalog {name} --type merge -p '{on}'"))),
        );
    }
    if let Some(problem) = progressing.filter(|progressing| matches!(progressing.reason.as_str(), "Retrying" | "Blocked")) {
        let summary =
            if serves { "its newest content cannot be had; older content is served meanwhile" } else { "its content cannot be had" };
        let state = if serves { State::Degraded } else { State::NotInstalled };
        let blocked = problem.reason == "Blocked";
        let answer = Explanation {
            since: since(Some(problem)),
            waits_for: Some(if blocked { "a user's action".to_owned() } else { "the next attempt, which is made by itself".to_owned() }),
            ..Explanation::new(subject(name), if blocked { "blocked" } else { "not-pulled" }, state, summary)
        };
        let image = catalog.spec.source.image.as_ref().map(|image| image.reference.as_str()).unwrap_or_default();
        return Some(answer.because(dated(first_line(&problem.message))).then(remedy(name, image, &problem.message, serves)));
    }
    if !serves {
        return Some(Explanation {
            since: since(serving).or_else(|| catalog.metadata.creation_timestamp.as_ref().map(|time| time.0)),
            waits_for: Some("its image, which is being unpacked".to_owned()),
            next: Some(
                Action::new("A large catalog takes a minute. If it stays so, see whether the controller runs:").command("mainstay status"),
            ),
            ..Explanation::new(subject(name), "unpacking", State::Working, "it does not serve yet")
        });
    }
    None
}

/// The remedy for a pull that failed or content that is invalid. A catalog that still serves older content is not to be replaced because its
/// image is unavailable.
fn remedy(name: &str, image: &str, problem: &str, serves: bool) -> Action {
    let registry = image.split('/').next().unwrap_or_default();
    // The name is free again once the catalog is removed. Only the user knows which image was meant.
    let removed = format!("mainstay catalog remove {name}");
    match CatalogProblem::told(problem) {
        CatalogProblem::NoCatalog => {
            Action::new(format!("{image} is no catalog image. Remove the catalog, and add it again with an image that is one:"))
                .command(removed)
        }
        CatalogProblem::Pull(PullProblem::Credentials) => {
            Action::new(format!("The registry {registry} wants credentials: put them into the controller's pull secret."))
        }
        CatalogProblem::Pull(PullProblem::Missing) if serves => {
            Action::new(format!("{image} is no longer in the registry. Push it again; it is looked for by itself."))
        }
        CatalogProblem::Pull(PullProblem::Missing) => {
            Action::new(format!("{image} is not in the registry. Push it, and it is found by itself; or remove the catalog:"))
                .command(removed)
        }
        CatalogProblem::Pull(PullProblem::Certificate(problem)) => certificate(registry, problem),
        CatalogProblem::Pull(PullProblem::Reference) => {
            Action::new("The reference is none. Remove the catalog, and add it again with one of the form REGISTRY/CATALOG:TAG:")
                .command(removed)
        }
        CatalogProblem::Content => {
            Action::new("The content is at fault; the message names file and rule. Check it before it is pushed again:")
                .command("mainstay catalog lint DIRECTORY")
        }
        CatalogProblem::Pull(PullProblem::Other) => {
            Action::new(format!("See whether {registry} can be reached from the cluster; it is tried again by itself."))
        }
    }
}
