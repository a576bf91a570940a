//! The bundle itself: an image that cannot be pulled, content that cannot be installed as requested (OLM1-INST-02, OLM1-INST-03).

use mainstay_api::olm_v1::ClusterExtension;
use mainstay_bundle::{Bundle, RenderError};

use super::super::facts::{PullFailure, PullProblem};
use super::super::plan::ContentError;
use super::super::supported::Refusal;
use super::remedy::ByRemedy as _;
use super::words::{OrNearby as _, certificate, dated, first_line, held};
use super::{Action, Explanation, Facts, Remedy, name, overview};

pub(super) fn pull(facts: &Facts, image: &str, failure: &PullFailure) -> Explanation {
    let registry = image.split('/').next().unwrap_or_default();
    let answer =
        held(facts, "image-unavailable", format!("the image {image} cannot be pulled")).because(dated(first_line(&failure.message)));
    let answer = answer.then(match failure.problem {
        PullProblem::Credentials => Action::new(format!(
            "The registry {registry} wants credentials: put them into the controller's pull secret, and it is tried again."
        )),
        PullProblem::Missing => {
            Action::new(format!("The image is not at {registry}: push or mirror it there, or use a catalog that names the right place:"))
                .command("mainstay catalog mirror --help")
        }
        PullProblem::Certificate(problem) => certificate(registry, problem),
        PullProblem::Reference | PullProblem::Other if failure.terminal => Action::new(
            "Trying again does not help: the bundle itself is at fault. Ask for another version, and tell the catalog's maintainers.",
        ),
        PullProblem::Reference | PullProblem::Other => {
            Action::new(format!("See whether {registry} can be reached from the cluster; it is tried again by itself."))
        }
    });
    // The bundle is at fault; the bundle of another version may not be.
    if failure.terminal { answer.or_nearby(facts) } else { answer }
}

pub(super) fn content(facts: &Facts, error: &ContentError, bundle: Option<&Bundle>) -> Explanation {
    let extension = &*facts.snapshot.extension;
    let (name, bundle_name) = (name(extension), chosen_name(facts, bundle));
    let supports = |mode: &str| bundle.is_some_and(|bundle| bundle.csv.supports(mode));
    let other = || Action::new("Ask for a version that does without, if there is one:").command(overview(facts));
    let gate = |gate: &'static str| Action::new("Turn the feature on where the controller is started:").by(extension, Remedy::Gate(gate));
    let unsupported = |summary: String| held(facts, "unsupported-bundle", summary);
    match error {
        ContentError::Refused(Refusal::ApiServices) => {
            unsupported(format!("{bundle_name} brings an aggregated API server, which extensions cannot have"))
                .then(other())
                .or_nearby(facts)
        }
        ContentError::Refused(Refusal::Webhooks) => {
            unsupported(format!("{bundle_name} has webhooks, and nothing here issues their certificates"))
                .then(gate("WebhookProviderOpenshiftServiceCA"))
        }
        ContentError::Refused(Refusal::NotAllNamespaces) => {
            unsupported(format!("{bundle_name} cannot watch all namespaces, and watching one is switched off"))
                .then(gate("SingleOwnNamespaceInstallSupport"))
        }
        ContentError::Refused(Refusal::NoInstallMode) => {
            unsupported(format!("{bundle_name} can only watch several chosen namespaces, which extensions cannot ask for"))
                .then(other())
                .or_nearby(facts)
        }
        ContentError::Refused(Refusal::WatchNamespace { namespace, reasons }) => {
            held(facts, "watch-namespace", format!("{namespace:?} cannot be the name of a namespace"))
                .because(reasons.clone())
                .then(watch(extension, &extension.spec.namespace))
        }
        ContentError::Render(RenderError::TargetNamespaces { problem, .. }) => {
            let answer = held(facts, "watch-namespace", format!("{bundle_name} cannot watch the namespaces it is asked to"));
            let answer = answer.because(problem.clone());
            if supports("OwnNamespace") {
                answer.then(watch(extension, &extension.spec.namespace))
            } else if supports("AllNamespaces") {
                answer.then(Action::new("Let it watch all namespaces:").by(extension, Remedy::Watch(None)))
            } else {
                answer.then(watch(extension, if extension.spec.namespace == "default" { "kube-public" } else { "default" }))
            }
        }
        ContentError::Refused(refusal @ Refusal::Dependency { .. }) => unsupported(refusal.to_string()).then(other()).or_nearby(facts),
        ContentError::Config(error) => {
            held(facts, "invalid-configuration", format!("{bundle_name} does not take the configuration of the extension"))
                .because(error.to_string())
                .then(Action::new("Mend spec.config.inline:").command(format!("kubectl edit clusterextension {name}")))
        }
        ContentError::Render(error) => held(facts, "invalid-bundle", format!("the content of {bundle_name} is not in order"))
            .because(first_line(&error.to_string()).to_owned())
            .then(Action::new("The bundle is at fault: ask for another version, and tell its maintainers.").command(overview(facts)))
            .or_nearby(facts),
    }
}

/// The bundle's name; the catalog's name for it until the bundle is read.
fn chosen_name<'a>(facts: &'a Facts, bundle: Option<&'a Bundle>) -> &'a str {
    let chosen = || Some(facts.plan.as_ref().ok()?.resolution.as_ref()?.choice.bundle.as_str());
    bundle.map(|bundle| bundle.csv.name.as_str()).or_else(chosen).unwrap_or_default()
}

fn watch(extension: &ClusterExtension, namespace: &str) -> Action {
    Action::new("Let it watch one namespace:").by(extension, Remedy::Watch(Some(namespace.to_owned())))
}
