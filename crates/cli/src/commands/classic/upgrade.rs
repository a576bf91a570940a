//! `mainstay plan upgrade --classic` and `mainstay upgrade --classic`: the next InstallPlan, and the channel (OLM0-UPG-12, OLM0-ADMIN-08).

use jiff::Timestamp;
use mainstay_operations::Session;
use mainstay_operations::classic::next::Next;
use mainstay_operations::classic::upgrade::{Planned, carry_out, foresee, plan};
use mainstay_terminal::errors::{Failure, note_drawn};
use mainstay_terminal::output::{self, Format};
use mainstay_terminal::progress::Progress;
use serde_json::json;

use super::{install, preview};
use crate::commands::flags::Carrying;
use crate::plan_text;

/// The Subscription, and what is wanted of it.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The Subscription, package or CSV.
    pub name: &'a str,
    /// The channel to follow.
    pub channel: Option<&'a str>,
    /// The version to come to.
    pub to: Option<&'a str>,
}

/// Prints what the next InstallPlan would bring, or all up to a version.
pub async fn dry_run(session: &Session, wanted: &Wanted<'_>, format: &Format) -> Result<(), Failure> {
    let Wanted { namespace, name, channel, to } = *wanted;
    let planned = foresee(session, (namespace, name), channel, to, &mut Progress::start()).await?;
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
    let Next { updates, refused, notes } = &planned.next;
    let steps = updates.iter().map(|one| json!({"csv": one.csv, "version": one.version, "installPlan": preview::document(&one.preview)}));
    document["next"] = steps.collect();
    if let Some(refused) = refused {
        document["refused"] = json!(refused);
    }
    if !notes.is_empty() {
        document["notes"] = json!(notes);
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
        if planned.next.updates.is_empty() && planned.next.refused.is_none() {
            lines.push(
                "  which CSV follows is decided by the next resolution: the nearest to the head that replaces or skips the installed one"
                    .to_owned(),
            );
        }
    }
    let Next { updates, refused, notes } = &planned.next;
    if let Some(waiting) = &planned.waiting {
        lines.extend(preview::lines(waiting));
    } else if updates.is_empty() && planned.channel.is_none() {
        lines.extend(planned.explanation.text(Timestamp::now()).lines().map(str::to_owned));
    }
    for (at, update) in updates.iter().enumerate() {
        lines.push(match updates.len() {
            1 => format!("next: {} ({})", update.csv, update.version),
            all => format!("update {} of {all}: {} ({})", at + 1, update.csv, update.version),
        });
        lines.extend(preview::lines(&update.preview));
    }
    if let Some(refused) = refused {
        lines.push("not resolved:".to_owned());
        lines.extend(refused.lines().map(|line| format!("  {line}")));
    }
    if !notes.is_empty() {
        lines.push("good to know:".to_owned());
        lines.extend(notes.iter().map(|note| format!("  {note}")));
    }
    lines
}
