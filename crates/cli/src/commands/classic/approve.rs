//! `mainstay approve installplan/NAME -n NAMESPACE`: what an InstallPlan would write, and its approval (OLM0-IP-03, OLM0-ADMIN-09).

use mainstay_operations::Session;
use mainstay_operations::classic::approval::{self, Preview};
use mainstay_operations::classic::objects::{INSTALL_PLAN, get, text};
use mainstay_terminal::errors::{Failure, note, note_drawn};
use mainstay_terminal::output::{self, Format, Table};
use mainstay_terminal::progress::Progress;
use serde_json::Value;

use super::{namespace, preview};
use crate::commands::flags::Consent;
use crate::plan_text;

/// The InstallPlan that words name, directly or by a Subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// By its own name.
    Plan(String),
    /// The one that a Subscription waits for.
    Subscription(String),
}

impl Target {
    /// Reads `installplan/NAME` or `subscription/NAME`; with a namespace a bare name is an InstallPlan.
    pub fn parse(word: &str, has_namespace: bool) -> Option<Self> {
        match word.split_once('/') {
            Some((kind, name)) => match kind.to_lowercase().split('.').next().unwrap_or_default() {
                "installplan" | "installplans" | "ip" => Some(Self::Plan(name.to_owned())),
                "subscription" | "subscriptions" | "sub" => Some(Self::Subscription(name.to_owned())),
                _ => None,
            },
            None => has_namespace.then(|| Self::Plan(word.to_owned())),
        }
    }
}

/// Shows the steps of an InstallPlan, asks, and approves it.
pub async fn approve(session: &Session, target: &Target, given: Option<&str>, consent: &Consent, format: &Format) -> Result<(), Failure> {
    let namespace = namespace("approve", given)?;
    let plan = match target {
        Target::Plan(name) => get(session, INSTALL_PLAN, namespace, name).await?,
        Target::Subscription(name) => approval::of_subscription(session, namespace, name).await?,
    };
    approval::is_waiting(&plan)?;
    let shown = approval::preview(session, plan).await?;
    show(&shown);
    consent.ask("approve?")?;
    let outcome = approval::approve(session, &shown, None, &mut Progress::start()).await?;
    if format.is_table() {
        output::line(outcome.line)?;
        let name = text(&shown.plan, "/metadata/name");
        note(format!("hint: mainstay explain installplan {name} -n {namespace} shows how it goes on"));
        return Ok(());
    }
    output::value(format, &get(session, INSTALL_PLAN, namespace, &text(&shown.plan, "/metadata/name")).await?)
}

/// Prints the steps on stderr.
pub fn show(shown: &Preview) {
    note_drawn(plan_text::painted_lines(preview::lines(shown)));
}

/// The InstallPlans that wait, as a table.
pub fn table(plans: &[Value]) -> Table {
    let mut table = Table::new(&["INSTALLPLAN", "NAMESPACE", "INSTALLS", "SINCE"]);
    for plan in plans {
        table.row([
            text(plan, "/metadata/name"),
            text(plan, "/metadata/namespace"),
            approval::csvs(plan).join(", "),
            text(plan, "/metadata/creationTimestamp"),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM0-ADMIN-09: how an InstallPlan is named.
    #[test]
    fn targets() {
        for (word, has_namespace, expected) in [
            ("installplan/install-x", false, Some(Target::Plan("install-x".to_owned()))),
            ("ip/install-x", true, Some(Target::Plan("install-x".to_owned()))),
            ("sub/gadget", true, Some(Target::Subscription("gadget".to_owned()))),
            ("install-x", true, Some(Target::Plan("install-x".to_owned()))),
            ("gadget-3f9c0d1a7b52", false, None),
        ] {
            assert_eq!(Target::parse(word, has_namespace), expected, "{word}");
        }
    }
}
