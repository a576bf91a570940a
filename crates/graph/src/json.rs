//! A picture as JSON for programs. The shape is stable: fields may be added, none change.
//!
//! ```text
//! {"title": TEXT, "description": TEXT, "kinds": [NAME...],
//!  "panels": [{"name": TEXT, "notes": [TEXT...],
//!              "nodes": [{"id": TEXT, "label": TEXT, "details": [TEXT...], "marks": [WORD...]}...],
//!              "edges": [{"from": ID, "to": ID, "kind": NAME, "note": TEXT?}...]}...]}
//! ```
//!
//! Nodes come from the lowest to the highest; an edge leads from the lower to the higher node.

use serde_json::{Value, json};

use crate::error::Error;
use crate::model::{Mark, Panel, Picture};

/// The document.
pub fn json(picture: &Picture) -> Result<Value, Error> {
    picture.check()?;
    let panel = |panel: &Panel| {
        let nodes = panel.nodes.iter().map(|node| {
            let marks: Vec<&str> = node.marks.iter().map(Mark::name).collect();
            json!({"id": node.id, "label": node.label, "details": node.details, "marks": marks})
        });
        let edges = panel.edges.iter().map(|edge| {
            let (from, to) = (&panel.nodes[edge.from].id, &panel.nodes[edge.to].id);
            let mut value = json!({"from": from, "to": to, "kind": picture.kinds[edge.kind].name});
            if !edge.note.is_empty() {
                value["note"] = edge.note.as_str().into();
            }
            value
        });
        json!({"name": panel.name, "notes": panel.notes, "nodes": nodes.collect::<Value>(), "edges": edges.collect::<Value>()})
    };
    Ok(json!({
        "title": picture.title,
        "description": picture.description,
        "kinds": picture.kinds.iter().map(|kind| kind.name.as_str()).collect::<Value>(),
        "panels": picture.panels.iter().map(panel).collect::<Value>(),
    }))
}
