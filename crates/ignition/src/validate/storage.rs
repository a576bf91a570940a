//! Rules of files, directories and links.

use std::collections::{HashMap, HashSet};

use super::Rule;
use crate::data::Struct;
use crate::model::Spec;
use crate::report::{Report, Severity, Trail};

/// The path without dots and doubled slashes, as Go's `path.Clean` has it.
pub fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if rooted => {}
            part => parts.push(part),
        }
    }
    match (rooted, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    }
}

/// The ending of a name from its last dot on, as Go's `path.Ext` has it.
pub(crate) fn ending(name: &str) -> &str {
    let base = name.rfind('/').map_or(0, |slash| slash + 1);
    name[base..].rfind('.').map_or("", |dot| &name[base + dot..])
}

/// An absolute, simple path.
pub(crate) fn path(path: &str) -> Rule {
    if path.is_empty() {
        Err("path not specified")
    } else if !path.starts_with('/') {
        Err("path not absolute")
    } else if clean(path) != path {
        Err("path is not fully simplified")
    } else {
        Ok(())
    }
}

fn mode(of: &Struct, spec: Spec, path: &Trail<'_>, report: &mut Report) {
    let Some(mode) = of.int("mode") else { return };
    if !(0..=0o7777).contains(&mode) {
        report.add(Severity::Error, path.then("mode"), "illegal file mode");
    }
    if spec < Spec::V3_4 && mode & 0o7000 != 0 {
        let words = "setuid/setgid/sticky bits are not supported in spec versions older than 3.4.0";
        report.add(Severity::Warning, path.then("mode"), words);
    }
    if spec == Spec::V3_5 && mode & 0o7000 != 0 {
        let words = "setuid/setgid/sticky bits are not supported or functional in spec versions older than 3.6.0";
        report.add(Severity::Warning, path.then("mode"), words);
    }
}

pub(super) fn node(of: &Struct, at: &Trail<'_>, report: &mut Report) {
    report.add_error(at.then("path"), path(of.text_or_empty("path")));
}

pub(super) fn owner(of: &Struct, path: &Trail<'_>, report: &mut Report) {
    if of.has("id") && of.get("name").not_empty().is_some() {
        report.add(Severity::Error, *path, "cannot set both id and name");
    }
}

pub(super) fn directory(of: &Struct, spec: Spec, path: &Trail<'_>, report: &mut Report) {
    node(of, path, report);
    mode(of, spec, path, report);
}

pub(super) fn file(of: &Struct, spec: Spec, path: &Trail<'_>, report: &mut Report) {
    node(of, path, report);
    mode(of, spec, path, report);
    if of.is_true("overwrite") && !of.child("contents").is_some_and(|contents| contents.has("source")) {
        report.add(Severity::Error, path.then("overwrite"), "overwrite must be false if source is unspecified");
    }
}

/// Paths that are those of units and drop-ins.
pub(super) fn units_and_paths(config: &Struct, path: &Trail<'_>, report: &mut Report) {
    let mut units = HashSet::new();
    for unit in config.child("systemd").into_iter().flat_map(|systemd| systemd.structs("units")) {
        let name = unit.text_or_empty("name");
        if unit.get("contents").not_empty().is_some() {
            units.insert(format!("/etc/systemd/system/{name}"));
        }
        for dropin in unit.structs("dropins").filter(|dropin| dropin.get("contents").not_empty().is_some()) {
            units.insert(format!("/etc/systemd/system/{name}.d/{}", dropin.text_or_empty("name")));
        }
    }
    let Some(storage) = config.child("storage") else { return };
    for list in ["files", "directories", "links"] {
        for (index, node) in storage.structs(list).enumerate() {
            if units.contains(node.text_or_empty("path")) {
                let words = "path conflicts with systemd unit or dropin";
                report.add(Severity::Error, path.then("storage").then(list).then(index).then("path"), words);
            }
        }
    }
}

pub(super) fn storage(of: &Struct, path: &Trail<'_>, report: &mut Report) {
    let links: Vec<String> = of.structs("links").map(|link| format!("{}/", link.text_or_empty("path"))).collect();
    let through_links = |list: &str, words: &str, report: &mut Report| {
        for (index, node) in of.structs(list).enumerate() {
            for _ in links.iter().filter(|link| node.text_or_empty("path").starts_with(link.as_str())) {
                report.add(Severity::Error, path.then(list).then(index), words);
            }
        }
    };
    through_links("directories", "directory path includes link in config", report);
    through_links("files", "file path includes link in config", report);
    for (index, link) in of.structs("links").enumerate() {
        let links_path = path.then("links");
        let path = links_path.then(index);
        for _ in links.iter().filter(|other| link.text_or_empty("path").starts_with(other.as_str())) {
            report.add(Severity::Error, path, "link path includes link in config");
        }
        self::link(of, link, &path, report);
    }
    filesystems(of, path, report);
}

fn link(storage: &Struct, link: &Struct, path: &Trail<'_>, report: &mut Report) {
    // Before 3.3 the target is a text that is always there.
    let is_optional = link.of().fields.iter().any(|field| field.name == "target" && field.omit_empty);
    if is_optional && link.get("target").not_empty().is_none() {
        return report.add(Severity::Error, path.then("target"), "link target is required");
    }
    if !link.is_true("hard") {
        return;
    }
    let written = link.text_or_empty("target");
    let mut target = clean(written);
    if !target.starts_with('/') {
        target = joined(link.text_or_empty("path"), written);
    }
    for _ in storage.structs("directories").filter(|directory| directory.text_or_empty("path") == target) {
        report.add(Severity::Error, *path, "hard link target is a directory");
    }
    for (kind, field) in [("user", "id"), ("user", "name"), ("group", "id"), ("group", "name")] {
        if link.child(kind).is_some_and(|owner| owner.has(field)) {
            report.add(Severity::Warning, path.then(kind).then(field), "user/group ignored for hard link");
        }
    }
}

/// Two paths as one, as Go's `path.Join` has it.
pub(crate) fn joined(first: &str, second: &str) -> String {
    match (first.is_empty(), second.is_empty()) {
        (true, true) => String::new(),
        (true, false) => clean(second),
        (false, true) => clean(first),
        (false, false) => clean(&format!("{first}/{second}")),
    }
}

fn filesystems(of: &Struct, path: &Trail<'_>, report: &mut Report) {
    let disks: HashMap<&str, &Struct> = of.structs("disks").map(|disk| (disk.text_or_empty("device"), disk)).collect();
    for (index, filesystem) in of.structs("filesystems").enumerate() {
        let Some(disk) = disks.get(filesystem.text_or_empty("device")) else { continue };
        let (list, device) = (path.then("filesystems"), "device");
        let filesystem_path = list.then(index);
        let path = filesystem_path.then(device);
        if !disk.list("partitions").is_empty() {
            report.add(Severity::Warning, path, "filesystem overwrites partitioned device");
        } else if !filesystem.is_true("wipeFilesystem") && disk.is_true("wipeTable") {
            report.add(Severity::Warning, path, "device matches disk with wipeTable enabled; filesystem will be wiped");
        }
    }
}
