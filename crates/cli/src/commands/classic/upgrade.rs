//! `mainstay plan upgrade --classic` and `mainstay upgrade --classic`: the next InstallPlan, and the channel (OLM0-UPG-12, OLM0-ADMIN-08).

use jiff::Timestamp;
use mainstay_operations::Session;
use mainstay_operations::classic::upgrade::{Planned, carry_out, plan};
use mainstay_terminal::errors::{Failure, note_drawn};
use mainstay_terminal::output::{self, Format};
use mainstay_terminal::progress::Progress;
use serde_json::json;

use super::{install, preview};
use crate::commands::flags::Carrying;
use crate::plan_text;

/// Prints what the next InstallPlan would bring.
pub async fn dry_run(session: &Session, namespace: &str, name: &str, channel: Option<&str>, format: &Format) -> Result<(), Failure> {
    let planned = plan(session, namespace, name, channel).await?;
    if format.is_table() {
        return output::drawn(&format!("{}\n", plan_text::painted_lines(lines(&planned))));
    }
    let (namespace, name) = planned.place();
    let explanation = serde_json::to_value(&planned.explanation).map_err(|error| Failure::failed(&planned.explanation.subject, &error))?;
    let mut document = json!({
        "kind": "Plan", "operation": "upgrade", "subscription": name, "namespace": namespace, "installed": planned.installed(),
        "head": planned.head, "explanation": explanation,
    });
    if let Some(channel) = &planned.channel {
        document["channel"] = json!(channel);
    }
    if let Some(waiting) = &planned.waiting {
        document["installPlan"] = preview::document(waiting);
    }
    output::value(format, &document)
}

/// Shows what the next InstallPlan brings, asks, and carries it out.
pub async fn perform(session: &Session, namespace: &str, name: &str, channel: Option<&str>, carrying: &Carrying) -> Result<(), Failure> {
    let planned = plan(session, namespace, name, channel).await?;
    note_drawn(plan_text::painted_lines(lines(&planned)));
    if planned.channel.is_some() || planned.waiting.is_some() {
        carrying.consent.ask("upgrade?")?;
    }
    let (namespace, name) = planned.place();
    let outcome = carry_out(session, &planned, carrying.waiting.limit(), &mut Progress::start()).await?;
    install::finish(session, &carrying.shown.format, &namespace, &name, outcome).await
}

fn lines(planned: &Planned) -> Vec<String> {
    let (namespace, name) = planned.place();
    let mut lines = vec![format!("Subscription {namespace}/{name}")];
    let installed = planned.installed();
    lines.push(format!("  installed: {}", if installed.is_empty() { "nothing" } else { &installed }));
    if let Some(channel) = &planned.channel {
        lines.push(format!("  change    spec.channel to {channel}, whose head is {}", planned.head));
        lines.push(
            "  which CSV follows is decided by the next resolution: the nearest to the head that replaces or skips the installed one"
                .to_owned(),
        );
    }
    match &planned.waiting {
        Some(waiting) => lines.extend(preview::lines(waiting)),
        None if planned.channel.is_none() => lines.extend(planned.explanation.text(Timestamp::now()).lines().map(str::to_owned)),
        None => {}
    }
    lines
}
