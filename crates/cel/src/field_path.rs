//! The `fieldPath` of a rule: `.spec.names['a-b']`, relative to the rule's own field.

use std::fmt::Write as _;

use mainstay_schema::{Additional, SchemaRef};

/// The path as messages write it (`spec.names[a-b]`); `None` when the schema has no such field.
pub(crate) fn normalize(text: &str, schema: &SchemaRef) -> Option<String> {
    let mut out = String::new();
    let mut schema = schema.clone();
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let name;
        (name, rest) = step(rest)?;
        if let Some(property) = schema.properties.get(&name).cloned() {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&name);
            schema = property;
        } else if let Additional::Schema(values) = &schema.additional {
            // Writing to a string cannot fail.
            let _ = write!(out, "[{name}]");
            schema = values.clone();
        } else {
            return None;
        }
    }
    Some(out)
}

/// The next name and what follows it.
fn step(text: &str) -> Option<(String, &str)> {
    if let Some(quoted) = text.strip_prefix("['") {
        let mut name = String::new();
        let mut letters = quoted.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => name.push(letters.next()?.1),
                '\'' => return quoted[at + 1..].strip_prefix(']').map(|rest| (name, rest)),
                other => name.push(other),
            }
        }
        return None;
    }
    let name = text.strip_prefix('.')?;
    let end = name.find(['.', '[']).unwrap_or(name.len());
    if end == 0 {
        return None;
    }
    Some((name[..end].to_owned(), &name[end..]))
}
