//! A picture as a Mermaid flow chart, for pages that draw Mermaid.

use std::fmt::{self, Write as _};

use crate::error::Error;
use crate::model::{Line, Mark, Node, Picture};

/// Marks, the most telling first: a box has only one class.
const TELLING: [Mark; 7] = [Mark::Installed, Mark::Start, Mark::Blocked, Mark::Next, Mark::Reachable, Mark::Deprecated, Mark::Head];

/// Writes a picture, each panel a sub-graph.
pub fn mermaid(picture: &Picture) -> Result<String, Error> {
    picture.check()?;
    let mut out = String::from(
        "flowchart BT\n  classDef head stroke:#1a7f37,stroke-width:2px\n  classDef installed fill:#b6e3ff,stroke:#0969da,stroke-width:3px,color:#1f2328\n  \
         classDef start fill:#b6e3ff,stroke:#0969da,color:#1f2328\n  classDef next fill:#ddf4ff,stroke:#0550ae,stroke-width:2px,color:#1f2328\n  classDef reachable fill:#ddf4ff,stroke:#54aeff,color:#1f2328\n  \
         classDef deprecated fill:#fff8c5,stroke:#d4a72c,color:#1f2328\n  classDef blocked stroke:#cf222e,stroke-dasharray:4\n",
    );
    for (number, panel) in picture.panels.iter().enumerate() {
        put(&mut out, format_args!("  subgraph p{number}[\"{}\"]\n", text(&panel.name)));
        for (position, node) in panel.nodes.iter().enumerate() {
            put(&mut out, format_args!("    p{number}n{position}[\"{}\"]\n", label(node)));
        }
        for edge in &panel.edges {
            let kind = &picture.kinds[edge.kind];
            let arrow = match kind.line {
                Line::Solid => "-->",
                Line::Dashed | Line::Dotted => "-.->",
            };
            put(&mut out, format_args!("    p{number}n{} {arrow}|\"{}\"| p{number}n{}\n", edge.from, text(&kind.name), edge.to));
        }
        out.push_str("  end\n");
    }
    for mark in TELLING {
        let mut members = Vec::new();
        for (number, panel) in picture.panels.iter().enumerate() {
            let of_class = |node: &&(usize, &Node)| class(node.1) == Some(mark);
            members.extend(
                panel.nodes.iter().enumerate().collect::<Vec<_>>().iter().filter(of_class).map(|(at, _)| format!("p{number}n{at}")),
            );
        }
        if !members.is_empty() {
            put(&mut out, format_args!("  class {} {}\n", members.join(","), mark.name()));
        }
    }
    Ok(out)
}

fn class(node: &Node) -> Option<Mark> {
    TELLING.into_iter().find(|mark| node.marks.has(*mark))
}

fn label(node: &Node) -> String {
    let mut lines = vec![text(&node.label)];
    lines.extend(node.details.iter().map(|detail| text(detail)));
    let marks = node.marks.words();
    if !marks.is_empty() {
        lines.push(format!("({})", marks.join(", ")));
    }
    lines.join("<br/>")
}

/// Text inside quotes: characters with a meaning to Mermaid or HTML become entities.
fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' | '<' | '>' | '&' | '#' | ';' | '`' | '\\' | '|' | '[' | ']' | '{' | '}' => {
                put(&mut out, format_args!("#{};", letter as u32));
            }
            letter if letter.is_control() => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}

fn put(out: &mut String, text: fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _written = out.write_fmt(text);
}
