//! A catalog as a template (CATLG-50).

use mainstay_golang::json as golang;

use super::Kind;
use crate::blob::Limits;
use crate::error::LoadError;
use crate::json::Cursor;
use crate::json::write::{Layout, Writer, write_string};
use crate::load::load;
use crate::model::{Catalog, SCHEMA_BUNDLE};
use crate::source::Source;

/// Kind of template that a catalog is converted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// A basic template: bundles are shortened to their images.
    Basic,
    /// A template for substitutions, without any yet.
    Substitutes,
}

/// Converts a catalog's files to a template: JSON, indented by four blanks, with the escapes that upstream uses for this command alone.
pub fn convert(source: &dyn Source, limits: &Limits, destination: Destination) -> Result<String, LoadError> {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out, Layout::Indented);
    writer.open(b'{');
    let kind = match destination {
        Destination::Basic => Kind::Basic,
        Destination::Substitutes => Kind::Substitutes,
    };
    member(&mut writer, true, "schema");
    write_string(kind.schema(), writer.out);
    member(&mut writer, false, "entries");
    let mut count = 0_usize;
    load(source, limits, &mut |blob| {
        if count == 0 {
            writer.open(b'[');
        }
        writer.item(count == 0);
        count += 1;
        if destination == Destination::Basic && blob.schema == SCHEMA_BUNDLE {
            let mut catalog = Catalog::default();
            catalog.add(&blob)?;
            writer.open(b'{');
            member(&mut writer, true, "schema");
            write_string(SCHEMA_BUNDLE, writer.out);
            member(&mut writer, false, "image");
            write_string(catalog.bundles.first().map_or("", |bundle| bundle.image.as_str()), writer.out);
            writer.close(b'}', false);
            return Ok(());
        }
        // The blob is borrowed for this call only, while a writer is bound to one text.
        let mut own = Vec::new();
        let mut inner = Writer::new(&mut own, Layout::Line);
        let broken =
            |syntax: crate::json::Syntax| LoadError::Json { path: blob.path.to_owned(), line: blob.line, reason: syntax.reason.to_owned() };
        inner.value(&mut Cursor::new(blob.json)).map_err(broken)?;
        indented(&own, 2, writer.out);
        Ok(())
    })?;
    if count == 0 {
        writer.out.extend_from_slice(b"null");
    } else {
        writer.close(b']', false);
    }
    if destination == Destination::Substitutes {
        member(&mut writer, false, "substitutions");
        writer.out.extend_from_slice(b"[]");
    }
    writer.close(b'}', false);
    let mut escaped = String::with_capacity(out.len());
    golang::write_html_escaped(&mut escaped, &String::from_utf8_lossy(&out));
    Ok(escaped)
}

fn member(writer: &mut Writer<'_, '_>, first: bool, name: &str) {
    writer.item(first);
    write_string(name, writer.out);
    writer.colon();
}

/// Copies one-line JSON with a line for each member and element, `level` levels deep.
fn indented(line: &[u8], mut level: usize, out: &mut Vec<u8>) {
    let new_line = |out: &mut Vec<u8>, level: usize| {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', level * 4));
    };
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in line.iter().enumerate() {
        if quoted {
            out.push(*byte);
            quoted = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
            continue;
        }
        let next = line.get(at + 1);
        let last = at.checked_sub(1).and_then(|before| line.get(before));
        match byte {
            b'{' | b'[' => {
                out.push(*byte);
                level += 1;
                if !matches!(next, Some(b'}' | b']')) {
                    new_line(out, level);
                }
            }
            b'}' | b']' => {
                level -= 1;
                if !matches!(last, Some(b'{' | b'[')) {
                    new_line(out, level);
                }
                out.push(*byte);
            }
            b',' => {
                out.push(b',');
                new_line(out, level);
            }
            b':' => out.extend_from_slice(b": "),
            _ => {
                quoted = *byte == b'"';
                out.push(*byte);
            }
        }
    }
}
