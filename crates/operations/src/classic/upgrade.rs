//! The next InstallPlan of a Subscription, and the change of a channel (OLM0-UPG-12, OLM0-ADMIN-08).

use std::time::Duration;

use mainstay_catalog::did_you_mean::nearest;
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_objects::Patch;
use mainstay_olm_classic_core::explain::Explanation;
use serde_json::{Value, json};

use super::approval::{self, Preview};
use super::explain::{Subject, explain};
use super::install::Outcome;
use super::next::{Next, Question, next};
use super::objects::{INSTALL_PLAN, SUBSCRIPTION, find, text};
use super::settle::{Ending, Expected, settle};
use super::{packages, removal};
use crate::failure::not_written;
use crate::progress::Progress;
use crate::session::Session;

/// A planned upgrade.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The Subscription.
    pub subscription: Value,
    /// The channel that it will follow, if that changes.
    pub channel: Option<String>,
    /// The head of the channel that it follows then.
    pub head: String,
    /// The InstallPlan that waits, with what it would write.
    pub waiting: Option<Preview>,
    /// The updates that OLM would make next, where none waits.
    pub next: Next,
    /// Why it is as it is.
    pub explanation: Explanation,
}

impl Planned {
    /// Namespace and name of the Subscription.
    pub fn place(&self) -> (String, String) {
        (text(&self.subscription, "/metadata/namespace"), text(&self.subscription, "/metadata/name"))
    }

    /// The CSV that is installed.
    pub fn installed(&self) -> String {
        text(&self.subscription, "/status/installedCSV")
    }
}

/// Plans an upgrade as [`plan`] does, and asks what OLM would do next: the updates up to version `to`, or where no InstallPlan waits the next one.
///
/// # Errors
/// No update leads to the version, or a catalog or bundle that is needed for it cannot be read.
pub async fn foresee(
    session: &Session,
    (namespace, name): (&str, &str),
    channel: Option<&str>,
    to: Option<&str>,
    progress: &mut dyn Progress,
) -> Result<Planned, Failure> {
    let mut planned = plan(session, namespace, name, channel).await?;
    if to.is_some() || planned.waiting.is_none() || planned.channel.is_some() {
        let (namespace, subscription) = planned.place();
        let question = Question { namespace: &namespace, subscription: &subscription, channel, to };
        planned.next = match next(session, question, progress).await {
            // The Subscription is shown all the same.
            Err(failure) if to.is_none() => {
                Next { notes: vec![format!("what OLM would do next is not known: {}", failure.to_line())], ..Next::default() }
            }
            found => found?,
        };
    }
    Ok(planned)
}

/// Plans an upgrade of the Subscription that a name stands for. Nothing is written.
pub async fn plan(session: &Session, namespace: &str, name: &str, channel: Option<&str>) -> Result<Planned, Failure> {
    let (subscription, _) = removal::found(session, namespace, name).await?;
    let Some(subscription) = subscription else {
        return Err(Failure::new(
            FailureKind::Impossible,
            format!("csv {namespace}/{name}"),
            "no Subscription asks for it, so no update comes",
        ));
    };
    let name = text(&subscription, "/metadata/name");
    let package = text(&subscription, "/spec/name");
    let catalog = (text(&subscription, "/spec/source"), text(&subscription, "/spec/sourceNamespace"));
    let known = packages::of_catalog(session, namespace, &package, (&catalog.0, &catalog.1)).await;
    let now = text(&subscription, "/spec/channel");
    let wanted = channel.map_or_else(|| now.clone(), str::to_owned);
    let head = match &known {
        Some(known) => match known.channel(Some(wanted.as_str()).filter(|channel| !channel.is_empty())) {
            Some(found) => found.head.clone(),
            None if channel.is_some() => {
                let channels: Vec<&str> = known.channels.iter().map(|channel| channel.name.as_str()).collect();
                let failure = Failure::new(
                    FailureKind::NotFound,
                    format!("package {package}"),
                    format!("has no channel {wanted}; its channels are {}", channels.join(", ")),
                );
                return Err(match nearest(&wanted, channels) {
                    Some(near) => failure.hint(format!("--channel {near} is the nearest")),
                    None => failure,
                });
            }
            None => String::new(),
        },
        None => String::new(),
    };
    let reference = text(&subscription, "/status/installPlanRef/name");
    let pending = if reference.is_empty() { None } else { find(session, INSTALL_PLAN, namespace, &reference).await? };
    let pending = pending.filter(|plan| plan["status"]["phase"] == "RequiresApproval" && plan["spec"]["approved"] != true);
    let waiting = match pending {
        Some(plan) => Some(approval::preview(session, plan).await?),
        None => None,
    };
    let explanation = explain(session, Subject::Subscription, Some(namespace), &name).await?;
    let channel = channel.filter(|channel| *channel != now).map(str::to_owned);
    Ok(Planned { channel, subscription, head, waiting, next: Next::default(), explanation })
}

/// Waits for the next InstallPlan of a Subscription whose channel has a later head than what is installed, and plans again. The state
/// `AtLatestKnown` alone does not tell that none comes: it stands there from the end of an installation to the next resolution.
pub async fn awaited(session: &Session, planned: Planned, timeout: Duration, progress: &mut dyn Progress) -> Result<Planned, Failure> {
    if planned.waiting.is_some() || planned.head.is_empty() || planned.head == planned.installed() {
        return Ok(planned);
    }
    let (namespace, name) = planned.place();
    let before = text(&planned.subscription, "/status/installPlanRef/name");
    let expected = Expected { after: Some(before).filter(|before| !before.is_empty()), ..Expected::default() };
    settle(session, &namespace, &name, &expected, timeout, progress).await?;
    plan(session, &namespace, &name, None).await
}

/// Carries out an upgrade: follows the channel, and approves the InstallPlan that was shown.
pub async fn carry_out(
    session: &Session,
    planned: &Planned,
    timeout: Option<Duration>,
    progress: &mut dyn Progress,
) -> Result<Outcome, Failure> {
    let (namespace, name) = planned.place();
    if let Some(channel) = &planned.channel {
        let patch = json!({"spec": {"channel": channel}});
        let place = SUBSCRIPTION.place(&namespace, &name);
        session.writer.patch(&place, "", &Patch::Merge(patch)).await.map_err(|error| not_written(&error))?;
        let Some(timeout) = timeout else {
            return Ok(Outcome { line: format!("subscription {namespace}/{name} follows channel {channel}"), ..Outcome::default() });
        };
        let before = text(&planned.subscription, "/status/installPlanRef/name");
        let expected = Expected { after: Some(before).filter(|_| planned.head != planned.installed()), ..Expected::default() };
        return Ok(match settle(session, &namespace, &name, &expected, timeout, progress).await? {
            Ending::Installed { csv } if csv == planned.installed() && csv != planned.head => Outcome {
                line: format!(
                    "subscription {namespace}/{name} follows channel {channel}; {csv} stays, because no update leads from it to {}",
                    planned.head
                ),
                csv: Some(csv),
                awaits_approval: None,
            },
            Ending::Installed { csv } => Outcome {
                line: format!("subscription {namespace}/{name} follows channel {channel}: {csv} is installed"),
                csv: Some(csv),
                awaits_approval: None,
            },
            Ending::AwaitsApproval { plan, csvs } => Outcome {
                line: format!(
                    "subscription {namespace}/{name} follows channel {channel}; installplan {plan} waits for an approval: {}",
                    csvs.join(", ")
                ),
                awaits_approval: Some(plan),
                csv: None,
            },
        });
    }
    match &planned.waiting {
        Some(preview) => approval::approve(session, preview, timeout, progress).await,
        None => Ok(Outcome { line: format!("subscription {namespace}/{name}: {} stays", planned.installed()), ..Outcome::default() }),
    }
}
