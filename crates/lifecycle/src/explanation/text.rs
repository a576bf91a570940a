//! Explanations as text for people.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::{Action, Explanation, State};

/// Maximum number of reasons shown on a terminal; the formats for programs have all.
const LINES: usize = 40;

/// Returns the time since `then`, in one unit.
pub fn ago(now: Timestamp, then: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

impl<R> Explanation<R> {
    /// Returns the text for a terminal.
    pub fn text(&self, now: Timestamp) -> String {
        let mut out = format!("{}: {}\n", self.subject, self.summary).trim_end().replace('\n', "\n  ") + "\n";
        let mut fact = |key: &str, value: &str| {
            // Writing to a string does not fail.
            let _written = writeln!(out, "  {key:<11}{}", value.replace('\n', "\n    "));
        };
        if let Some((name, _)) = &self.installed {
            let stays = if self.state == State::Held && self.waits_for.is_some() { ", which stays meanwhile" } else { "" };
            fact("installed", &format!("{name}{stays}"));
        }
        if let Some(waits_for) = &self.waits_for {
            fact("waits for", waits_for);
        }
        if let Some(since) = self.since {
            fact("since", &ago(now, since));
        }
        section(&mut out, "Why", &self.why);
        if let Some(next) = &self.next {
            out.push_str("\nWhat to do\n");
            action(&mut out, next, "  ");
        }
        if !self.alternatives.is_empty() {
            out.push_str("\nAlso possible\n");
            for other in &self.alternatives {
                action(&mut out, other, "  ");
            }
        }
        if let Some(newer) = &self.newer {
            let _written = write!(out, "\nWhy not {}?\n  {}\n", newer.version, newer.why);
            if let Some(let_come) = &newer.action {
                action(&mut out, let_come, "  ");
            }
        }
        section(&mut out, "Good to know", &self.notes);
        if !self.evidence.is_empty() {
            out.push_str("\nEvidence\n");
            for evidence in &self.evidence {
                let at = evidence.at.map(|at| format!(" ({})", ago(now, at))).unwrap_or_default();
                let says = if evidence.says.is_empty() { String::new() } else { format!(": {}", evidence.says) };
                let _written = writeln!(out, "  {}{at}{}", evidence.what, says.replace('\n', "\n    "));
            }
        }
        out
    }
}

fn section(out: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _written = writeln!(out, "\n{title}");
    for line in lines.iter().take(LINES).flat_map(|line| line.lines()) {
        let _written = writeln!(out, "  {line}");
    }
    if lines.len() > LINES {
        let _written = writeln!(out, "  and {} more; -o yaml shows all", lines.len() - LINES);
    }
}

fn action<R>(out: &mut String, action: &Action<R>, indent: &str) {
    let _written = writeln!(out, "{indent}{}", action.text);
    for command in &action.commands {
        let _written = writeln!(out, "{indent}  {command}");
    }
    let remarks = [
        ("warning", &action.warning),
        ("would be refused", &action.refused),
        ("after that", &action.after),
        ("not checked", &action.not_checked),
    ];
    for (title, remark) in remarks {
        if let Some(remark) = remark {
            let _written = writeln!(out, "{indent}  {title}: {remark}");
        }
    }
}
