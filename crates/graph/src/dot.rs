//! A picture in Graphviz's language.

use std::fmt::{self, Write as _};

use crate::error::Error;
use crate::model::{Line, Mark, Node, Picture, Tone};

/// Writes a picture as a directed graph, each panel a cluster.
pub fn dot(picture: &Picture) -> Result<String, Error> {
    picture.check()?;
    let mut out = String::new();
    put(
        &mut out,
        format_args!(
            "digraph {} {{\n  rankdir=BT;\n  node [shape=box, style=\"rounded,filled\", fillcolor=\"#f6f8fa\", color=\"#c4ccd4\", fontname=\"sans-serif\"];\n",
            quoted(&picture.title)
        ),
    );
    for (number, panel) in picture.panels.iter().enumerate() {
        put(&mut out, format_args!("  subgraph cluster_{number} {{\n    label={};\n", quoted(&panel.name)));
        for (position, node) in panel.nodes.iter().enumerate() {
            put(&mut out, format_args!("    p{number}n{position} [label={}{}];\n", quoted(&label(node)), look(node)));
        }
        for edge in &panel.edges {
            let kind = &picture.kinds[edge.kind];
            let words = if edge.note.is_empty() { kind.name.clone() } else { format!("{}: {}", kind.name, edge.note) };
            let style = match kind.line {
                Line::Solid => "solid",
                Line::Dashed => "dashed",
                Line::Dotted => "dotted",
            };
            put(
                &mut out,
                format_args!(
                    "    p{number}n{} -> p{number}n{} [style={style}, color={}, tooltip={}];\n",
                    edge.from,
                    edge.to,
                    quoted(colour(kind.tone)),
                    quoted(&words)
                ),
            );
        }
        out.push_str("  }\n");
    }
    out.push_str("}\n");
    Ok(out)
}

fn label(node: &Node) -> String {
    let mut lines = vec![node.label.clone()];
    lines.extend(node.details.iter().cloned());
    let marks = node.marks.words();
    if !marks.is_empty() {
        lines.push(format!("[{}]", marks.join(", ")));
    }
    lines.join("\n")
}

fn look(node: &Node) -> &'static str {
    let looks = [
        (Mark::Installed, ", fillcolor=\"#b6e3ff\", color=\"#0969da\", penwidth=2"),
        (Mark::Start, ", fillcolor=\"#b6e3ff\", color=\"#0969da\""),
        (Mark::Blocked, ", color=\"#cf222e\", style=\"rounded,filled,dashed\""),
        (Mark::Next, ", fillcolor=\"#ddf4ff\", color=\"#0550ae\""),
        (Mark::Reachable, ", fillcolor=\"#ddf4ff\", color=\"#54aeff\""),
        (Mark::Deprecated, ", fillcolor=\"#fff8c5\", color=\"#d4a72c\""),
        (Mark::Head, ", color=\"#1a7f37\", penwidth=2"),
    ];
    looks.into_iter().find(|(mark, _)| node.marks.has(*mark)).map_or("", |(_, look)| look)
}

fn colour(tone: Tone) -> &'static str {
    match tone {
        Tone::Main => "#6e7781",
        Tone::Second => "#8250df",
        Tone::Third => "#0a7ea4",
        Tone::Warning => "#cf222e",
    }
}

/// A quoted string of the language: only quotes, backslashes and line ends have a meaning in it.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            letter if letter.is_control() => out.push(' '),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

fn put(out: &mut String, text: fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _written = out.write_fmt(text);
}
