//! Waiting until a Subscription has come to what it asks for: an installed CSV, an InstallPlan that a person has to approve, or a problem.

use std::time::{Duration, Instant};

use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_objects::condition;
use serde_json::Value;

use super::approval::set_approved;
use super::objects::{CSV, INSTALL_PLAN, SUBSCRIPTION, find, get, text};
use crate::progress::Progress;
use crate::session::Session;

/// Interval between two looks.
const LOOK: Duration = Duration::from_millis(250);
/// Time after which a problem is believed that the next resolution may lift.
const BELIEVED: Duration = Duration::from_secs(8);

/// The state that a caller expects of a Subscription.
#[derive(Debug, Clone, Default)]
pub(super) struct Expected {
    /// Approves the InstallPlan that installs exactly these CSVs, because they were shown before.
    pub approve: Option<Vec<String>>,
    /// The CSV that is waited for, once its InstallPlan is approved; a later InstallPlan may wait for a person then.
    pub csv: Option<String>,
    /// The InstallPlan that was there before: another one is waited for.
    pub after: Option<String>,
}

/// The end of a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// A CSV is installed and healthy.
    Installed {
        /// The CSV.
        csv: String,
    },
    /// An InstallPlan waits for an approval.
    AwaitsApproval {
        /// The InstallPlan.
        plan: String,
        /// The CSVs that it installs.
        csvs: Vec<String>,
    },
}

/// The result of one look.
enum Look {
    /// It is over.
    Done(Ending),
    /// It goes on, and waits for this.
    Waits(String),
    /// It may go on, but not by itself.
    Problem(String),
    /// Nothing changes, unless a resolution is still to come; this CSV is installed.
    Quiet(String),
    /// It does not go on without a change.
    Failed(String),
}

/// Waits, `timeout` at most.
pub(super) async fn settle(
    session: &Session,
    namespace: &str,
    name: &str,
    expected: &Expected,
    timeout: Duration,
    progress: &mut dyn Progress,
) -> Result<Ending, Failure> {
    let (begun, mut problem_since) = (Instant::now(), None);
    // Without a plan to approve, its approval was given before.
    let mut approved = expected.approve.is_none();
    let subject = format!("subscription {namespace}/{name}");
    let explain = format!("mainstay explain subscription {name} -n {namespace}");
    loop {
        let (waits, is_problem) = match look(session, namespace, name, expected, &mut approved).await? {
            Look::Done(ending) => return Ok(ending),
            Look::Failed(why) => {
                return Err(Failure::new(FailureKind::Impossible, subject, why).hint(format!("{explain} says what to do")));
            }
            Look::Problem(why) => (why, true),
            Look::Quiet(csv) => {
                let since: Instant = *problem_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= BELIEVED {
                    return Ok(Ending::Installed { csv });
                }
                progress.doing(&format!("{subject}: the resolution"));
                tokio::time::sleep(LOOK).await;
                continue;
            }
            Look::Waits(waits) => (waits, false),
        };
        if is_problem {
            let since: Instant = *problem_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= BELIEVED {
                return Err(Failure::new(FailureKind::Impossible, subject, waits).hint(format!("{explain} says what to do")));
            }
        } else {
            problem_since = None;
        }
        if begun.elapsed() >= timeout {
            return Err(Failure::new(FailureKind::TimedOut, subject, format!("is not installed after {} s", timeout.as_secs()))
                .because(waits)
                .hint(format!("the cluster goes on trying; {explain} says what it waits for")));
        }
        progress.doing(&format!("{subject}: {waits}"));
        tokio::time::sleep(LOOK).await;
    }
}

async fn look(session: &Session, namespace: &str, name: &str, expected: &Expected, approved: &mut bool) -> Result<Look, Failure> {
    let subscription = get(session, SUBSCRIPTION, namespace, name).await?;
    let status = &subscription["status"];
    let reference = text(status, "/installPlanRef/name");
    if reference.is_empty() || Some(&reference) == expected.after.as_ref() {
        return Ok(unplanned(&subscription));
    }
    let current = text(status, "/currentCSV");
    if let Some(plan) = find(session, INSTALL_PLAN, namespace, &reference).await? {
        match plan["status"]["phase"].as_str().unwrap_or_default() {
            "RequiresApproval" => {
                let csvs = super::approval::csvs(&plan);
                if plan["spec"]["approved"] == true {
                    return Ok(Look::Waits(format!("installplan {reference}, which was approved")));
                }
                if expected.approve.as_ref() == Some(&csvs) && !*approved {
                    set_approved(session, &plan).await?;
                    *approved = true;
                    return Ok(Look::Waits(format!("installplan {reference}, which was approved")));
                }
                if *approved && let Some(wanted) = expected.csv.as_ref().filter(|wanted| !csvs.contains(wanted)) {
                    return judged(session, namespace, wanted, true).await;
                }
                return Ok(Look::Done(Ending::AwaitsApproval { plan: reference, csvs }));
            }
            "Failed" => {
                let told = condition(&plan, "Installed").map(|condition| text(condition, "/message"));
                return Ok(Look::Failed(format!(
                    "installplan {reference} failed: {}",
                    told.unwrap_or_else(|| text(&plan, "/status/message"))
                )));
            }
            "Complete" => {}
            phase => {
                let message = text(&plan, "/status/message");
                let more = if message.is_empty() { String::new() } else { format!(": {message}") };
                return Ok(Look::Waits(format!("installplan {reference} {phase}{more}")));
            }
        }
    }
    judged(session, namespace, &current, status["state"] == "AtLatestKnown").await
}

/// The progress of a CSV. It is installed only where its Subscription has taken notice of it.
async fn judged(session: &Session, namespace: &str, name: &str, is_noticed: bool) -> Result<Look, Failure> {
    let current = name.to_owned();
    let Some(csv) = find(session, CSV, namespace, name).await? else { return Ok(Look::Waits(format!("csv {current}"))) };
    let (phase, reason, message) = (text(&csv, "/status/phase"), text(&csv, "/status/reason"), text(&csv, "/status/message"));
    Ok(match phase.as_str() {
        "Succeeded" if is_noticed => Look::Done(Ending::Installed { csv: current }),
        "Failed" => Look::Problem(format!("csv {current} {phase} ({reason}): {message}")),
        "Pending" if reason == "OperatorConditionNotUpgradeable" => Look::Problem(format!("csv {current}: {message}")),
        "Pending" if reason == "RequirementsNotMet" => Look::Problem(format!("csv {current} {phase} ({reason}): {message}")),
        _ => Look::Waits(format!("csv {current} {phase}: {message}")),
    })
}

/// A Subscription without a plan: what keeps it from one.
fn unplanned(subscription: &Value) -> Look {
    let holds = |kind: &str| condition(subscription, kind).filter(|condition| condition["status"] == "True");
    let message = |condition: &Value| text(condition, "/message");
    if let Some(failed) = holds("ResolutionFailed") {
        return Look::Problem(message(failed));
    }
    if let Some(failed) = holds("BundleUnpackFailed") {
        return Look::Failed(message(failed));
    }
    if let Some(unhealthy) = holds("CatalogSourcesUnhealthy") {
        return Look::Problem(message(unhealthy));
    }
    match holds("BundleUnpacking") {
        None if subscription["status"]["state"] == "AtLatestKnown" => Look::Quiet(text(subscription, "/status/installedCSV")),
        Some(unpacking) => Look::Waits(format!("its bundle, which is being unpacked {}", message(unpacking)).trim().to_owned()),
        None => Look::Waits("the resolution".to_owned()),
    }
}
