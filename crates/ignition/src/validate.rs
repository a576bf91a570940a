//! Validation of configs 3.x: each value by the rules of its type, then entries that stand twice, then keys that no field has.
//!
//! Findings come in upstream's order, because its reports are printed whole.

mod boot;
mod disk;
mod resource;
mod storage;
mod systemd;

use std::collections::{BTreeSet, HashMap};

use crate::data::{Data, Struct};
use crate::model::{Kind, Spec};
use crate::node::{Node, Value};
use crate::report::{Path, Report, Severity, Trail};

pub(crate) use disk::{CEX_WITH_CLEVIS, guid, is_raid_level, label_length, overlap_of};
pub(crate) use resource::hash_fits;
pub use storage::clean as clean_path;
pub(crate) use storage::{ending as path_ending, joined};
pub(crate) use systemd::{UNIT_ENDINGS, no_install_section};

/// The fault in a value, in upstream's words.
pub(crate) type Rule = Result<(), &'static str>;

/// Findings about a config. Without its text, places in it and unknown keys are not reported.
pub(crate) fn config(config: &Struct, spec: Spec, text: Option<&Node<'_>>) -> Report {
    let mut report = rules_only(config, spec);
    let root = Trail::default();
    repeats(config, &root, &mut report);
    if let Some(node) = text {
        unknown_keys(config, Some(node), &root, &mut report);
    }
    report
}

/// Values that break the rules of their types.
pub(crate) fn rules_only(config: &Struct, spec: Spec) -> Report {
    let mut report = Report::default();
    struct_values(config, spec, &Trail::default(), &mut report);
    report
}

/// Entries that stand twice.
pub(crate) fn repeated(config: &Struct) -> Report {
    let mut report = Report::default();
    repeats(config, &Trail::default(), &mut report);
    report
}

/// The rules of a value and of all in it.
fn values(value: &Data, kind: Option<&Kind>, spec: Spec, path: &Trail<'_>, report: &mut Report) {
    match value {
        Data::Text(text) => {
            if matches!(kind, Some(Kind::Text(Some(name))) if name == "Device") {
                report.add_error(*path, storage::path(text));
            }
        }
        Data::List(items) => {
            let item_kind = match kind {
                Some(Kind::List(_, item)) => Some(item.as_ref()),
                _ => None,
            };
            for (index, item) in items.iter().enumerate() {
                values(item, item_kind, spec, &path.then(index), report);
            }
        }
        Data::Struct(of) => struct_values(of, spec, path, report),
        Data::Absent | Data::Bool(_) | Data::Int(_) | Data::Texts(_) => {}
    }
}

fn struct_values(of: &Struct, spec: Spec, path: &Trail<'_>, report: &mut Report) {
    rules(of, spec, path, report);
    for (field, value) in of.entries() {
        values(value, Some(&field.kind), spec, &path.then(field.name.as_str()), report);
    }
}

/// The rules of a struct itself, by the name of its type.
fn rules(of: &Struct, spec: Spec, path: &Trail<'_>, report: &mut Report) {
    match of.of().name.as_str() {
        "Config" => storage::units_and_paths(of, path, report),
        "Ignition" => boot::version(of, spec, path, report),
        "IgnitionConfig" => boot::merged(of, spec, path, report),
        "Proxy" => boot::proxy(of, path, report),
        "TLS" => boot::authorities(of, spec, path, report),
        "Resource" | "FileContents" => resource::resource(of, spec, path, report),
        "ConfigReference" => report.add_error(path.then("source"), resource::url_or_none(of.text("source"), spec)),
        "CaReference" => report.add_error(path.then("source"), resource::url(of.text_or_empty("source"), spec)),
        "HTTPHeader" => resource::header(of, path, report),
        "Verification" => resource::verification(of, spec, path, report),
        "Storage" => storage::storage(of, path, report),
        "File" => storage::file(of, spec, path, report),
        "Directory" => storage::directory(of, spec, path, report),
        "Link" => storage::node(of, path, report),
        "NodeUser" | "NodeGroup" => storage::owner(of, path, report),
        "Disk" => disk::disk(of, path, report),
        "Partition" => disk::partition(of, path, report),
        "Filesystem" => disk::filesystem(of, spec, path, report),
        "Raid" => disk::raid(of, spec, path, report),
        "Luks" => disk::luks(of, spec, path, report),
        "ClevisCustom" => disk::clevis_custom(of, path, report),
        "Custom" => disk::old_clevis_custom(of, path, report),
        "Tang" => disk::tang(of, spec, path, report),
        "Systemd" => systemd::systemd(of, path, report),
        "Unit" => systemd::unit(of, path, report),
        "Dropin" => systemd::dropin(of, path, report),
        _ => {}
    }
}

/// Entries of a list, or of lists that belong together, with the same key.
fn repeats(of: &Struct, path: &Trail<'_>, report: &mut Report) {
    let mut seen: HashMap<&str, BTreeSet<String>> = HashMap::new();
    for (field, value) in of.entries() {
        let Data::List(items) = value else { continue };
        if of.of().keeps_repeats(&field.name) {
            continue;
        }
        let keys = seen.entry(of.of().unique_in(&field.name)).or_default();
        for (index, item) in items.iter().enumerate() {
            let key = match item {
                Data::Struct(item) => item.key(),
                Data::Text(text) => text.clone(),
                _ => continue,
            };
            if !keys.insert(key) {
                report.add(Severity::Error, path.then(field.name.as_str()).then(index), "duplicate entry defined");
            }
        }
    }
    for_structs(of, path, &mut |inner, path| repeats(inner, path, report));
}

/// Calls a function for each struct directly in a struct, or in a list of it.
fn for_structs(of: &Struct, path: &Trail<'_>, call: &mut dyn FnMut(&Struct, &Trail<'_>)) {
    for (field, value) in of.entries() {
        let path = path.then(field.name.as_str());
        match value {
            Data::Struct(inner) => call(inner, &path),
            Data::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    if let Data::Struct(inner) = item {
                        call(inner, &path.then(index));
                    }
                }
            }
            _ => {}
        }
    }
}

/// Keys that no field has; upstream lists them in any order, here they are sorted.
fn unknown_keys(of: &Struct, node: Option<&Node<'_>>, path: &Trail<'_>, report: &mut Report) {
    let Some(node) = node else { return };
    let Value::Object(members) = &node.value else {
        let shown = Path::from(*path);
        return report.add(Severity::Warning, *path, format_args!(
            "context tree does not match content tree at {shown}. Line and column reporting may be inconsistent. Unused keys may not be reported."
        ));
    };
    let keys: BTreeSet<&str> = members.iter().map(|member| member.key.as_str()).collect();
    for key in keys.into_iter().filter(|key| of.of().index(key).is_none()) {
        report.add(Severity::Warning, path.then_key(key), format_args!("Unused key {key}"));
    }
    for (field, value) in of.entries() {
        let child = node.member(&field.name).map(|member| &member.node);
        let path = path.then(field.name.as_str());
        match value {
            Data::Struct(inner) => unknown_keys(inner, child, &path, report),
            Data::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    if let Data::Struct(inner) = item {
                        unknown_keys(inner, child.and_then(|child| child.item(index)), &path.then(index), report);
                    }
                }
            }
            _ => {}
        }
    }
}
