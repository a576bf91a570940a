//! The permissions that a bundle asks for, as text and as JSON (OLM0-ADMIN-30).

use mainstay_bundle::audit::Asked;
use mainstay_diagnostics::counted;
use mainstay_terminal::output::Table;
use serde_json::{Value, json};

/// The risky permissions as lines, and the number of the others.
pub fn lines(all: &[Asked]) -> Vec<String> {
    let mut lines: Vec<String> = all.iter().filter(|asked| !asked.risks.is_empty()).map(ToString::to_string).collect();
    let others = all.len() - lines.len();
    if others > 0 {
        lines.push(format!("{} without a known risk", counted(others, if lines.is_empty() { "permission" } else { "more permission" })));
    }
    lines
}

/// The permissions as a table.
pub fn table(all: &[Asked]) -> Table {
    let mut table = Table::new(&["HOLDER", "WHERE", "PERMISSION", "RISKS"]);
    for asked in all {
        let risks: Vec<&str> = asked.risks.iter().map(|risk| risk.id()).collect();
        table.row([asked.holder.clone(), asked.place().to_owned(), asked.permission(), risks.join(", ")]);
    }
    table
}

/// The permissions as a document.
pub fn document(all: &[Asked]) -> Value {
    let one = |asked: &Asked| {
        let risks: Vec<Value> = asked.risks.iter().map(|risk| json!({"risk": risk.id(), "text": risk.to_string()})).collect();
        json!({"holder": asked.holder, "allNamespaces": asked.everywhere, "text": asked.permission(), "rule": asked.rule, "risks": risks})
    };
    all.iter().map(one).collect()
}
