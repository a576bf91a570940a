//! Findings as a tree of text (CATLG-25): a node's own findings first, then its children by name.

use std::collections::BTreeMap;
use std::fmt;

use mainstay_golang::quote;

use super::Finding;

#[derive(Default)]
struct Node {
    leaves: Vec<String>,
    children: BTreeMap<String, Node>,
}

pub(super) fn draw(findings: &[Finding], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut root = Node::default();
    for finding in findings {
        let scope = &finding.scope;
        let mut node = &mut root;
        for (kind, name) in [("package", &scope.package), ("channel", &scope.channel), ("bundle", &scope.bundle)] {
            if let Some(name) = name {
                node = node.children.entry(format!("invalid {kind} {}", quote(name))).or_default();
            }
        }
        node.leaves.push(finding.text.clone());
    }
    f.write_str("invalid index:")?;
    draw_children(&root, "", f)
}

fn draw_children(node: &Node, indent: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let count = node.leaves.len() + node.children.len();
    let mut drawn = 0;
    let mut branch = |f: &mut fmt::Formatter<'_>, text: &str| -> Result<&'static str, fmt::Error> {
        drawn += 1;
        let last = drawn == count;
        write!(f, "\n{indent}{}{text}", if last { "└── " } else { "├── " })?;
        Ok(if last { "    " } else { "│   " })
    };
    for leaf in &node.leaves {
        branch(f, leaf)?;
    }
    for (name, child) in &node.children {
        let below = branch(f, &format!("{name}:"))?;
        draw_children(child, &format!("{indent}{below}"), f)?;
    }
    Ok(())
}
