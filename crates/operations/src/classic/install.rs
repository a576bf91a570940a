//! Installation of a package by a Subscription (OLM0-USER-05 to OLM0-USER-09).

use std::time::{Duration, Instant};

use mainstay_catalog::did_you_mean::nearest;
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_objects::Step;
use mainstay_olm_classic_core::csv::Group;
use mainstay_olm_classic_core::request::{self, Facts, Plan, Refusal, Request};

use super::objects::{NAMESPACE, OPERATOR_GROUP, SUBSCRIPTION, find, list, text};
use super::packages;
use super::platform::{account_rules, token_cloud, version};
use super::settle::{Ending, Expected, settle};
use crate::apply::execute;
use crate::progress::Progress;
use crate::session::Session;

/// The end of a change of a Subscription.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// A summary in one line.
    pub line: String,
    /// The InstallPlan that waits for an approval.
    pub awaits_approval: Option<String>,
    /// The CSV that is installed.
    pub csv: Option<String>,
}

/// Plans an installation. Nothing is written.
///
/// # Errors
/// The request cannot be met, with the reason and what would help.
pub async fn plan(session: &Session, request: &Request) -> Result<Plan, Failure> {
    match attempt(session, request).await? {
        Ok(plan) => Ok(plan),
        Err(refusal) => Err(refused(session, request, &refusal).await),
    }
}

/// Plans an installation as [`plan`] does; a request that cannot be met is answered by the refusal itself.
pub async fn attempt(session: &Session, request: &Request) -> Result<Result<Plan, Refusal>, Failure> {
    let namespace = request.namespace.as_str();
    let has_namespace = find(session, NAMESPACE, "", namespace).await?.is_some();
    // Also the first read of OLM classic's kinds: where they are missing, that is the reason.
    let subscriptions = list(session, SUBSCRIPTION, Some(namespace)).await?;
    let groups: Vec<Group> = list(session, OPERATOR_GROUP, Some(namespace)).await?.iter().map(Group::read).collect();
    let packages = packages::named(session, namespace, &request.package).await?;
    let token_cloud = token_cloud(session).await;
    let platform = if token_cloud.is_some() { version(session).await } else { None };
    let account_rules = account_rules(session, &groups).await;
    let facts = Facts {
        packages: &packages,
        has_namespace,
        groups: &groups,
        subscriptions: &subscriptions,
        token_cloud,
        platform: platform.as_ref(),
        account_rules: &account_rules,
    };
    Ok(request::plan(request, &facts))
}

/// The failure of a request that cannot be met, with the nearest name that there is.
pub async fn refused(session: &Session, request: &Request, refusal: &Refusal) -> Failure {
    let kind = if refusal.is_unknown() { FailureKind::NotFound } else { FailureKind::Impossible };
    let failure = Failure::new(kind, refusal.subject(&request.package), refusal.to_string());
    let near = |text: &str, all: &[String]| nearest(text, all.iter().map(String::as_str)).map(str::to_owned);
    let failure = match refusal {
        Refusal::UnknownPackage(name) => {
            // Without the other names there is no advice, and the refusal stays the same.
            let all = packages::all(session, &request.namespace, None).await.unwrap_or_default();
            let names: Vec<String> = all.iter().map(|manifest| text(manifest, "/metadata/name")).collect();
            match near(name, &names) {
                Some(near) => failure.hint(format!("did you mean {near}?")),
                None => failure,
            }
        }
        Refusal::UnknownChannel { channel, channels, .. } => match near(channel, channels) {
            Some(near) => failure.hint(format!("--channel {near} is the nearest")),
            None => failure,
        },
        Refusal::NotInChannel { wanted, is_version, listed, .. } => {
            let failure = failure.because(format!("the channel lists {}", listed.join(", ")));
            match near(wanted, listed) {
                Some(near) => failure.hint(format!("--{} {near} is the nearest", if *is_version { "version" } else { "starting-csv" })),
                None => failure,
            }
        }
        _ => failure,
    };
    refusal.hints().into_iter().fold(failure, Failure::hint)
}

/// Carries out a planned installation. `timeout` limits the time that the cluster may take; `None` does not wait.
pub async fn carry_out(session: &Session, plan: &Plan, timeout: Option<Duration>, progress: &mut dyn Progress) -> Result<Outcome, Failure> {
    let begun = Instant::now();
    let (namespace, name) = (&plan.namespace, &plan.name);
    for object in &plan.objects {
        progress.doing(&format!("create {}", crate::apply::named(object)));
        let step = if object["kind"] == "Subscription" { Step::Create(object.clone()) } else { Step::CreateOnce(object.clone()) };
        execute(session, &step).await?;
    }
    let Some(timeout) = timeout else {
        let line = format!("subscription {namespace}/{name} created; {} is being installed", plan.csv);
        return Ok(Outcome { line, ..Outcome::default() });
    };
    let expected = Expected {
        approve: plan.approves_first.then(|| vec![plan.csv.clone()]),
        csv: plan.approves_first.then(|| plan.csv.clone()),
        after: None,
    };
    match settle(session, namespace, name, &expected, timeout, progress).await? {
        Ending::Installed { csv, .. } => Ok(Outcome {
            line: format!("csv {namespace}/{csv} installed in {:.1} s: Succeeded", begun.elapsed().as_secs_f64()),
            awaits_approval: None,
            csv: Some(csv),
        }),
        Ending::AwaitsApproval { plan, csvs } => Ok(Outcome {
            line: format!("subscription {namespace}/{name} created; installplan {plan} waits for an approval: {}", csvs.join(", ")),
            awaits_approval: Some(plan),
            csv: None,
        }),
    }
}
