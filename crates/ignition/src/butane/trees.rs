//! Trees: folders beside a config whose files and links it embeds.

use super::files::{EntryKind, Files, FilesError};
use super::paths::{Way, then, way};
use super::report::Report;
use super::translate::as_url;
use super::{Making, sugar::built};
use crate::data::{Data, Struct};
use crate::validate::joined;

const EXISTS: &str = "matching filesystem node has existing contents or different type";

/// Adds the files and links of each tree.
pub(super) fn add(config: &Struct, making: &mut Making, files: &dyn Files, report: &mut Report) {
    let Some(storage) = config.child("storage") else { return };
    for (index, tree) in storage.structs("trees").enumerate() {
        let from = then(&way("storage.trees"), index);
        if !files.is_given() {
            return report.error(from, FilesError::NoFolder);
        }
        let entries = match files.tree(tree.text_or_empty("local")) {
            Ok(entries) => entries,
            Err(error) => {
                report.error(from, error);
                continue;
            }
        };
        let base = tree.get("path").not_empty().unwrap_or("/");
        for entry in entries {
            let path = joined(base, &entry.path);
            let added = match entry.kind {
                Ok(EntryKind::File { content, executable }) => file(making, &from, &path, &content, executable),
                Ok(EntryKind::Link { target }) => link(making, &from, &path, target),
                Err(error) => {
                    report.error(from.clone(), error);
                    continue;
                }
            };
            if let Err(words) = added {
                report.error(from.clone(), words);
            }
        }
    }
}

fn list<'m>(making: &'m mut Making, name: &str) -> Option<&'m mut Vec<Data>> {
    let Some(Data::Struct(storage)) = making.config.get_mut("storage") else { return None };
    let slot = storage.get_mut(name)?;
    if *slot == Data::Absent {
        *slot = Data::List(Vec::new());
    }
    match slot {
        Data::List(items) => Some(items),
        _ => None,
    }
}

/// The place of the node with this path in a list.
fn place(making: &Making, name: &str, path: &str) -> Option<usize> {
    let storage = making.config.child("storage")?;
    storage.list(name).iter().rposition(|node| node.as_struct().is_some_and(|node| node.text("path") == Some(path)))
}

/// The place of the node with this path; if there is none, it is added.
fn found_or_added(making: &mut Making, from: &Way, name: &'static str, path: &str) -> Result<usize, &'static str> {
    if let Some(index) = place(making, name, path) {
        return Ok(index);
    }
    if ["files", "directories", "links"].iter().any(|other| place(making, other, path).is_some()) {
        return Err(EXISTS);
    }
    let of = making.config.of().child("storage").and_then(|of| of.child(name));
    let node = built(of, [("path", Data::Text(path.to_owned()))]);
    let Some(items) = list(making, name) else { return Err(EXISTS) };
    let index = items.len();
    items.push(node.clone());
    let to = then(&way("storage"), name);
    making.paths.add_all(from, &then(&to, index), &node);
    if index == 0 {
        making.paths.add(from, &to);
    }
    Ok(index)
}

fn node<'m>(making: &'m mut Making, name: &str, index: usize) -> Option<&'m mut Struct> {
    match list(making, name)?.get_mut(index)? {
        Data::Struct(node) => Some(node),
        _ => None,
    }
}

fn file(making: &mut Making, from: &Way, path: &str, content: &[u8], executable: bool) -> Result<(), &'static str> {
    let existed = place(making, "files", path).is_some();
    let index = found_or_added(making, from, "files", path)?;
    let Some(file) = node(making, "files", index) else { return Err(EXISTS) };
    let contents = file.child("contents");
    if existed && contents.is_some_and(|contents| contents.get("source").not_empty().is_some()) {
        return Err(EXISTS);
    }
    let (url, compression) = as_url(content, contents.and_then(|contents| contents.get("compression").not_empty()));
    let needs_mode = !file.has("mode");
    if needs_mode {
        file.set("mode", Data::Int(if executable { 0o755 } else { 0o644 }));
    }
    if let Some(Data::Struct(contents)) = file.get_mut("contents") {
        contents.set("source", Data::Text(url));
        if let Some(compression) = compression {
            contents.set("compression", Data::Text(compression.to_owned()));
        }
    }
    let to = then(&way("storage.files"), index);
    let to_contents = then(&to, "contents");
    making.paths.add(from, &then(&to_contents, "source"));
    if compression.is_some() {
        making.paths.add(from, &then(&to_contents, "compression"));
    }
    making.paths.add(from, &to_contents);
    if needs_mode {
        making.paths.add(from, &then(&to, "mode"));
    }
    Ok(())
}

fn link(making: &mut Making, from: &Way, path: &str, target: String) -> Result<(), &'static str> {
    let existed = place(making, "links", path).is_some();
    let index = found_or_added(making, from, "links", path)?;
    let Some(link) = node(making, "links", index) else { return Err(EXISTS) };
    if existed && link.get("target").not_empty().is_some() {
        return Err(EXISTS);
    }
    link.set("target", Data::Text(target));
    making.paths.add(from, &then(&then(&way("storage.links"), index), "target"));
    Ok(())
}
