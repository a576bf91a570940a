//! Obstacles of an update, present and possible (CVO-STAT-07, CVO-STAT-08).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use mainstay_golang::sort_slice;
use serde_json::Value;

use super::span::Span;
use crate::cluster_version::{list, text as string, time};
use crate::tabs::{Layout, aligned};

/// Alerts that are shown even if they began before the update.
const KNOWN_TO_AFFECT: [&str; 2] = ["PodDisruptionBudgetLimit", "PodDisruptionBudgetAtLimit"];
/// The width of the names in a description.
const PAD: usize = "Description: ".len();

/// Something that an administrator should know of.
#[derive(Clone, Debug)]
pub struct Insight {
    /// Since when it is so; none if that is not known.
    pub since: Option<Timestamp>,
    /// Its severity.
    pub level: Level,
    /// The quality that it touches.
    pub impact: Impact,
    /// One sentence.
    pub summary: String,
    /// More of it; an insight without a description is not shown.
    pub description: String,
    /// A page about it; an insight without one is not shown.
    pub reference: String,
    /// The objects that it is about.
    pub resources: Vec<Resource>,
}

/// An object.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the fields are those of the object")]
pub struct Resource {
    pub kind: &'static str,
    pub group: &'static str,
    pub namespace: String,
    pub name: String,
}

/// The severity of an insight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are those that are shown")]
pub enum Level {
    Info,
    Warning,
    Error,
    Critical,
}

/// The quality that an insight touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those that are shown")]
pub enum Impact {
    None,
    Unknown,
    ApiAvailability,
    UpdateSpeed,
    UpdateStalled,
}

impl Impact {
    fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Unknown => "Unknown",
            Self::ApiAvailability => "API Availability",
            Self::UpdateSpeed => "Update Speed",
            Self::UpdateStalled => "Update Stalled",
        }
    }
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Info => "Info",
            Self::Warning => "Warning",
            Self::Error => "Error",
            Self::Critical => "Critical",
        }
    }
}

/// Returns the insights of firing alerts: of those that began during the update, and of those that are known to affect updates.
pub fn of_alerts(answer: &Value, started: Option<Timestamp>) -> Vec<Insight> {
    let mut insights = Vec::new();
    for alert in list(&answer["data"]["alerts"]) {
        let (labels, annotations) = (&alert["labels"], &alert["annotations"]);
        let name = string(&labels["alertname"]);
        let since = time(&alert["activeAt"]);
        let during = started < since;
        let mut description = match (KNOWN_TO_AFFECT.contains(&name), during) {
            (true, true) => "Alert known to affect updates started firing during the update.",
            (true, false) => "Alert known to affect updates has been firing since before the update started.",
            (false, true) => "Alert started firing during the update.",
            (false, false) => continue,
        }
        .to_owned();
        let level = match string(&labels["severity"]) {
            "warning" => Level::Warning,
            "critical" => Level::Critical,
            _ => continue,
        };
        if name.is_empty() || alert["state"] == "pending" {
            continue;
        }
        let texts = [string(&annotations["description"]), string(&annotations["message"])].into_iter().filter(|text| !text.is_empty());
        let told = texts.collect::<Vec<_>>().join(" | ");
        if told.is_empty() {
            description.push_str(" The alert has no description.");
        } else {
            description.push_str(" The alert description is: ");
            description.push_str(&told);
        }
        let or = |text: &str, other: &str| if text.is_empty() { other.to_owned() } else { text.to_owned() };
        insights.push(Insight {
            since,
            level,
            impact: Impact::Unknown,
            summary: format!("Alert is firing: {}", or(string(&annotations["summary"]), name)),
            description,
            reference: or(string(&annotations["runbook_url"]), "<alert does not have a runbook_url annotation>"),
            resources: vec![Resource {
                kind: "Alert",
                group: "config.openshift.io",
                namespace: string(&labels["namespace"]).to_owned(),
                name: name.to_owned(),
            }],
        });
    }
    insights
}

/// Writes the insights, the gravest first, and of those the newest.
pub fn text(insights: Vec<Insight>, updating_for: Span, now: Timestamp, detailed: bool) -> String {
    let mut shown: Vec<Insight> =
        insights.into_iter().filter(|one| !one.description.is_empty() && !one.summary.is_empty() && !one.reference.is_empty()).collect();
    sort_slice(&mut shown, |left, right| left.since > right.since);
    shown.sort_by_key(|insight| std::cmp::Reverse(insight.level));
    let mut out = "= Update Health =\n".to_owned();
    let since = |insight: &Insight| match insight.since {
        None => "-".to_owned(),
        since => Span::between(since, Some(now)).truncated(Span::SECOND).short(),
    };
    if detailed && !shown.is_empty() {
        let blocks: Vec<String> = shown.iter().map(|insight| block(insight, &since(insight))).collect();
        out.push_str(&blocks.join("\n"));
        return out;
    }
    let mut rows = vec![["SINCE", "LEVEL", "IMPACT", "MESSAGE"].map(str::to_owned).to_vec()];
    rows.extend(shown.iter().map(|one| vec![since(one), one.level.name().to_owned(), one.impact.name().to_owned(), one.summary.clone()]));
    if shown.is_empty() {
        let since = updating_for.truncated(Span::SECOND).short();
        rows.push(vec![since, Level::Info.name().to_owned(), Impact::None.name().to_owned(), "Update is proceeding well".to_owned()]);
    }
    out.push_str(&aligned(&rows, Layout { least: 0, gap: 3 }));
    if rows.len() > 2 || shown.iter().any(|one| one.level != Level::Info) {
        out.push_str("\nRun with --details=health for additional description and links to related online documentation\n");
    }
    out
}

fn block(insight: &Insight, since: &str) -> String {
    let mut out = format!("Message: {}\n", insight.summary);
    let mut line = |name: &str, value: &str| {
        // Writing to a text cannot fail.
        let _written = writeln!(out, "  {name:<PAD$}{value}");
    };
    line("Since:", since);
    line("Level:", insight.level.name());
    line("Impact:", insight.impact.name());
    line("Reference:", &insight.reference);
    let mut resources = BTreeMap::<String, Vec<String>>::new();
    for Resource { kind, group, namespace, name } in &insight.resources {
        let kind = kind.to_lowercase();
        let kind = if group.is_empty() { format!("{kind}s: ") } else { format!("{kind}s.{group}: ") };
        resources.entry(kind).or_default().push(if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") });
    }
    if !resources.is_empty() {
        out.push_str("  Resources:\n");
        let width = resources.keys().map(String::len).max().unwrap_or_default();
        for (kind, mut names) in resources {
            names.sort();
            let _written = writeln!(out, "    {kind:<width$}{}", names.join(", "));
        }
    }
    let description = insight.description.replace('\n', &format!("\n{}, ", " ".repeat(PAD + 2)));
    let _written = writeln!(out, "  {:<PAD$}{description}", "Description:");
    out
}
