//! The screen of `oc adm upgrade` without a target (CVO-CLI-10 to CVO-CLI-14).

use serde_json::Value;

use crate::cluster_version::{Condition, list, not_recommended, sort_by_version, text};
use crate::screen::{Screen, indented};
use crate::tabs::{Layout, aligned};

/// The release whose words are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// 4.12: `Supported but not recommended updates`.
    V4_12,
    /// 4.19: `Updates with known issues`.
    #[default]
    V4_19,
}

/// Shows a ClusterVersion; with `risky` the updates that are not recommended, too.
pub fn summary(cluster_version: &Value, risky: bool, style: Style) -> Screen {
    let mut screen = Screen::default();
    let (spec, status) = (&cluster_version["spec"], &cluster_version["status"]);
    let condition = |name: &str| Condition::find(&status["conditions"], name);
    let block = |condition: Condition<'_>| format!("\n\n  Reason: {}\n  Message: {}\n", condition.reason(), indented(condition.message()));
    let unknown = |name: &str| format!("No current {name} info, see `oc describe clusterversion` for more details.");
    match condition("Failing") {
        Some(failing) if failing.status() != "False" => screen.say(format_args!("Failing={}:{}", failing.status(), block(failing))),
        Some(_) => {}
        None => screen.warn(unknown("Failing")),
    }
    match condition("Progressing").filter(|progressing| !progressing.message().is_empty()) {
        Some(progressing) if progressing.status() == "True" => {
            screen.say(format_args!("info: An upgrade is in progress. {}", progressing.message()));
        }
        Some(progressing) => screen.say(progressing.message()),
        None => screen.warn(unknown("Progressing")),
    }
    screen.say("");
    if let Some(upgradeable) = condition("Upgradeable").filter(|condition| condition.status() == "False") {
        screen.say(format_args!("Upgradeable=False{}", block(upgradeable)));
    }
    if let Some(accepted) = condition("ReleaseAccepted").filter(|condition| condition.status() != "True") {
        screen.say(format_args!("ReleaseAccepted={}{}", accepted.status(), block(accepted)));
    }
    let channel = text(&spec["channel"]);
    if !channel.is_empty() {
        match text(&spec["upstream"]) {
            "" => screen.say("Upstream is unset, so the cluster will use an appropriate default."),
            upstream => screen.say(format_args!("Upstream: {upstream}")),
        }
        match list(&status["desired"]["channels"]) {
            [] => screen.say(format_args!("Channel: {channel}")),
            channels => {
                let channels: Vec<&str> = channels.iter().map(text).collect();
                screen.say(format_args!("Channel: {channel} (available channels: {})", channels.join(", ")));
            }
        }
    }
    recommended(&mut screen, status);
    not_recommended_updates(&mut screen, status, risky, style);
    screen
}

fn recommended(screen: &mut Screen, status: &Value) {
    let stale = Condition::find(&status["conditions"], "RetrievedUpdates").filter(|condition| condition.status() == "False");
    let stale = stale.map(|condition| format!("\n  Reason: {}\n  Message: {}\n", condition.reason(), indented(condition.message())));
    let mut updates: Vec<&Value> = list(&status["availableUpdates"]).iter().collect();
    if updates.is_empty() {
        match stale {
            Some(stale) => screen.warn(format_args!("Cannot display available updates:{stale}")),
            None => screen.say(
                "No updates available. You may still upgrade to a specific release image with --to-image or wait for new updates to be available.",
            ),
        }
        return;
    }
    sort_by_version(&mut updates, |update| text(&update["version"]));
    let mut rows = vec![vec!["  VERSION".to_owned(), "IMAGE".to_owned()]];
    rows.extend(updates.iter().map(|update| vec![format!("  {}", text(&update["version"])), text(&update["image"]).to_owned()]));
    screen.say("\nRecommended updates:\n");
    screen.text.push_str(&aligned(&rows, Layout { least: 14, gap: 1 }));
    if let Some(stale) = stale {
        screen.warn(format_args!("Cannot refresh available updates:{stale}"));
    }
}

fn not_recommended_updates(screen: &mut Screen, status: &Value, shown: bool, style: Style) {
    let mut updates: Vec<&Value> = list(&status["conditionalUpdates"]).iter().collect();
    let any = updates.iter().any(|update| not_recommended(update).is_some());
    if !shown {
        if any {
            let unknown = updates.iter().filter_map(|update| not_recommended(update)).find(|condition| condition.status() != "False");
            let qualifier = unknown.map_or_else(String::new, |condition| {
                format!(", or where the recommended status is {},", mainstay_golang::quote(condition.status()))
            });
            screen.say(format_args!(
                "\nAdditional updates which are not recommended{qualifier} for your cluster configuration are available, to view those re-run the command with --include-not-recommended."
            ));
        }
        return;
    }
    if !any {
        screen.say("\nNo updates which are not recommended based on your cluster configuration are available.");
        return;
    }
    sort_by_version(&mut updates, |update| text(&update["release"]["version"]));
    screen.say(match style {
        Style::V4_12 => "\nSupported but not recommended updates:",
        Style::V4_19 => "\nUpdates with known issues:",
    });
    for (update, condition) in updates.iter().filter_map(|update| Some((update, not_recommended(update)?))) {
        screen.say(format_args!("\n  Version: {}\n  Image: {}", text(&update["release"]["version"]), text(&update["release"]["image"])));
        if style == Style::V4_12 {
            screen.say(format_args!("  Recommended: {}", condition.status()));
        }
        screen.say(format_args!("  Reason: {}\n  Message: {}", condition.reason(), indented(condition.message().trim())));
    }
}
