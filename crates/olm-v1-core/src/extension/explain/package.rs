//! A package: its catalogs, the bundle that would be installed, and the obstacles to that.

use jiff::Timestamp;
use mainstay_api::olm_v1::ClusterCatalog;
use mainstay_resolver::{Change, Refusal, RefusalKind, Resolution};

use super::super::dependencies::following;
use super::catalog::trouble;
use super::{Action, Explanation, Outcome, State, listed, shell_word};

/// The facts that an explanation of a package rests on.
pub struct PackageFacts {
    /// Its name.
    pub package: String,
    /// The choice of an install without further options.
    pub outcome: Result<Resolution, Box<Refusal>>,
    /// Catalogs that have it, each with its versions, the newest first.
    pub offers: Vec<(String, Vec<String>)>,
    /// Its channels; the default one first.
    pub channels: Vec<String>,
    /// The catalogs' objects.
    pub catalogs: Vec<ClusterCatalog>,
    /// The result of planning such an install, if that was tried.
    pub trial: Option<Trial>,
    /// Extensions that name it, each with the installed version.
    pub extensions: Vec<(String, Option<String>)>,
    /// The present time.
    pub now: Timestamp,
}

/// The result of planning an install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The outcome for the install.
    pub outcome: Outcome,
    /// Further causes of a refusal, a line each.
    pub causes: Vec<String>,
    /// Alternatives that would work: a command, and its effect.
    pub hints: Vec<(String, String)>,
}

/// Explains a package.
pub fn explain_package(facts: &PackageFacts) -> Explanation {
    let package = &facts.package;
    let subject = format!("package {package}");
    let mut answer = match &facts.outcome {
        Ok(found) => {
            let summary = format!("{} can be installed from catalog {}", found.choice.version, found.choice.catalog);
            let mut answer = Explanation::new(subject, "available", State::Healthy, summary);
            answer.why.extend(found.reasons.iter().cloned());
            let deprecations = &found.deprecations;
            answer.notes.extend(deprecations.package.iter().map(|message| format!("the package is deprecated: {}", message.trim())));
            answer.notes.extend(deprecations.bundle.iter().map(|message| format!("this version is deprecated: {}", message.trim())));
            if facts.extensions.is_empty() { installing(facts, answer) } else { answer }
        }
        Err(refusal) => refused(facts, subject, refusal),
    };
    for (catalog, versions) in &facts.offers {
        answer.why.push(format!("catalog {catalog} has {}", listed(versions.iter().map(String::as_str), 8)));
    }
    if !facts.channels.is_empty() {
        answer.why.push(format!("channels: {}", listed(facts.channels.iter().map(String::as_str), 8)));
    }
    for (name, version) in &facts.extensions {
        answer.notes.push(match version {
            Some(version) => format!("clusterextension {name} has installed {version}; mainstay explain {name} says more"),
            None => format!("clusterextension {name} is about it and has nothing installed; mainstay explain {name} says why"),
        });
    }
    answer
}

/// The explanation with an install as it stands. "Install it" is said only if that was tried, or if nothing is known against it.
fn installing(facts: &PackageFacts, answer: Explanation) -> Explanation {
    let package = &facts.package;
    let install = Action::new("Install it:").command(format!("mainstay install {}", shell_word(package)));
    let Some(trial) = &facts.trial else { return answer.then(install) };
    match &trial.outcome {
        Outcome::Works | Outcome::Further(_) => answer.then(install),
        Outcome::Unknown(why) => answer.then(Action { not_checked: Some(why.clone()), ..install }),
        Outcome::Refused(why) => {
            let summary = format!("{}, and that is refused", answer.summary);
            let mut answer = Explanation { situation: "refused", state: State::Held, summary, ..answer }.because(why.clone());
            answer.why.extend(trial.causes.iter().cloned());
            let see = Action::new("See everything that is in the way:").command(format!("mainstay plan install {}", shell_word(package)));
            let works = trial.hints.iter().map(|(command, what)| Action::new(format!("This {what}:")).command(command.clone()));
            works.fold(answer, Explanation::or).or(see).first()
        }
    }
}

fn refused(facts: &PackageFacts, subject: String, refusal: &Refusal) -> Explanation {
    let package = &facts.package;
    let near = refusal.hints.iter().flat_map(|hint| &hint.changes).find_map(|change| match change {
        Change::Package(near) => Some(near),
        _ => None,
    });
    match &refusal.kind {
        RefusalKind::NoSingleBundle { tied, .. } if !tied.is_empty() => {
            let names = listed(tied.iter().map(String::as_str), 8);
            let first = tied.first().map(String::as_str).unwrap_or_default();
            Explanation::new(
                subject,
                "equal-catalogs",
                State::Held,
                format!("the catalogs {names} all have it, and none goes before the others"),
            )
            .then(Action::new("Say which one, for example:").command(format!("mainstay install {package} --catalog {first}")))
        }
        RefusalKind::NoSingleBundle { .. } => {
            let answer = Explanation::new(subject, "unknown-package", State::NotInstalled, "no catalog has it");
            match near {
                Some(near) => answer.then(Action::new(format!("Did you mean {near}?")).command(format!("mainstay explain package {near}"))),
                None if facts.catalogs.is_empty() => answer.then(
                    Action::new("The cluster has no catalog. Add one:").command("mainstay catalog add NAME --ref REGISTRY/CATALOG:TAG"),
                ),
                None => answer.then(Action::new("Look for the right name:").command("mainstay catalog search")),
            }
        }
        RefusalKind::CatalogFailed { catalog, reason, .. } => {
            let known = facts.catalogs.iter().find(|found| found.metadata.name.as_deref() == Some(catalog)).and_then(trouble);
            let answer = Explanation::new(subject, "catalog-not-serving", State::Held, format!("catalog {catalog} cannot be asked"));
            match known {
                Some(known) => Explanation { next: known.next, ..answer.because(format!("catalog {catalog}: {}", known.summary)) },
                None => answer
                    .because(reason.clone())
                    .then(Action::new("See what the catalog waits for:").command(format!("mainstay explain clustercatalog {catalog}"))),
            }
        }
        RefusalKind::UnsupportedDependency { bundle, property } => {
            Explanation::new(subject, "dependency", State::Held, format!("{bundle} needs others, which are not installed with it"))
                .because(format!("the bundle says so with the property {property}"))
                .then(
                    Action::new("Let what it needs be installed in addition, by a policy for this package:")
                        .command(following(package))
                        .command(format!("mainstay install {package}")),
                )
                .or(Action::new("Look at what it needs:").command(format!("mainstay catalog show --package {package}")))
        }
        other => Explanation::new(subject, "refused", State::Held, other.to_string()),
    }
}
