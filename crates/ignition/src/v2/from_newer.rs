//! Configs of 3.2 as configs of 2.2.

use crate::data::{Data, Struct};
use crate::model::Spec;
use crate::older::{Target, Unsupported, Untranslatable, entries, older_than_3_2, structs};
use crate::translate::moved;

use super::{rules::Flavor, walk};

/// A config of 3.2 in 2.2.
pub(crate) fn from_newer(config: &Struct) -> Result<Struct, Untranslatable> {
    check(config)?;
    let mut old = moved(config, Spec::V2_2.root());
    if let Some(Data::Struct(ignition)) = old.get_mut("ignition") {
        ignition.set("version", Data::Text(Spec::V2_2.text().to_owned()));
        references(ignition, config);
    }
    let mounts: Vec<&str> = structs(config, "storage", "filesystems").filter_map(|filesystem| filesystem.text("path")).collect();
    if let Some(Data::Struct(storage)) = old.get_mut("storage") {
        filesystems(storage, config);
        for list in ["directories", "links"] {
            if let Some(Data::List(nodes)) = storage.get_mut(list) {
                for node in nodes {
                    place(node, &mounts);
                }
            }
        }
        files(storage, config, &mounts);
    }
    let report = walk::config(&old, None, Flavor::Read);
    if report.is_fatal() { Err(Untranslatable::OldResult(report)) } else { Ok(old) }
}

fn check(config: &Struct) -> Result<(), Unsupported> {
    let ignition = config.child("ignition");
    let replaced = ignition.and_then(|ignition| ignition.child("config"));
    let plain = |resource: &Struct, place: &'static str| {
        if resource.has("compression") {
            return Err(Unsupported::Compression(place));
        }
        if resource.has("httpHeaders") { Err(Unsupported::Headers(place)) } else { Ok(()) }
    };
    for resource in replaced.into_iter().flat_map(|config| config.structs("merge")) {
        plain(resource, "Ignition.Config.Merge")?;
    }
    if let Some(resource) = replaced.and_then(|config| config.child("replace")) {
        plain(resource, "Ignition.Config.Replace")?;
    }
    let tls = ignition.and_then(|ignition| ignition.child("security")?.child("tls"));
    for resource in tls.into_iter().flat_map(|tls| tls.structs("certificateAuthorities")) {
        plain(resource, "Ignition.Security.TLS.CertificateAuthorities")?;
    }
    if ignition.and_then(|ignition| ignition.child("proxy")).is_some_and(|proxy| !proxy.is_zero()) {
        return Err(Unsupported::Proxies);
    }
    older_than_3_2(config, Target::V2_2)?;
    if structs(config, "storage", "filesystems").any(|filesystem| filesystem.has("mountOptions")) {
        return Err(Unsupported::MountOptions);
    }
    for file in structs(config, "storage", "files") {
        if file.child("contents").is_some_and(|contents| contents.has("httpHeaders")) {
            return Err(Unsupported::Headers("Storage.Files.Contents"));
        }
        if file.structs("append").any(|appended| appended.has("httpHeaders")) {
            return Err(Unsupported::Headers("Storage.Files.Append.*"));
        }
    }
    Ok(())
}

/// Configs that are merged were appended, and one that replaces stands there only if it has a source.
fn references(ignition: &mut Struct, config: &Struct) {
    let Some(newer) = config.child("ignition").and_then(|ignition| ignition.child("config")) else { return };
    let Some(Data::Struct(older)) = ignition.get_mut("config") else { return };
    let Some(of) = older.of().child("append") else { return };
    let appended: Vec<Data> = newer.structs("merge").map(|resource| Data::Struct(moved(resource, of))).collect();
    if !appended.is_empty() {
        older.set("append", Data::List(appended));
    }
    if newer.child("replace").is_some_and(|replace| !replace.has("source")) {
        older.set("replace", Data::Absent);
    }
}

/// Filesystems have names: their paths, or numbers.
fn filesystems(storage: &mut Struct, config: &Struct) {
    let (Some(of), mut number) = (storage.of().child("filesystems"), 0) else { return };
    let Some(mount_of) = of.child("mount") else { return };
    let mut named = Vec::new();
    for filesystem in structs(config, "storage", "filesystems") {
        let name = filesystem.text("path").map_or_else(
            || {
                number += 1;
                number.to_string()
            },
            str::to_owned,
        );
        let mut one = Struct::new(of);
        one.set("name", Data::Text(name));
        one.set("mount", Data::Struct(moved(filesystem, mount_of)));
        named.push(Data::Struct(one));
    }
    if !named.is_empty() {
        storage.set("filesystems", Data::List(named));
    }
}

/// Puts a node onto the filesystem with the longest path that its own begins with.
fn place(node: &mut Data, mounts: &[&str]) {
    let Data::Struct(node) = node else { return };
    let path = node.text_or_empty("path").to_owned();
    let mut on = "";
    for mount in mounts.iter().filter(|mount| path.starts_with(**mount)) {
        if mount.len() > on.len() {
            on = mount;
        }
    }
    let below = path.strip_prefix(on).unwrap_or(&path).to_owned();
    node.set("filesystem", Data::Text(if on.is_empty() { "root" } else { on }.to_owned()));
    node.set("path", Data::Text(below));
}

/// Each content of a file is an entry of its own. An older config overwrites unless it says no, a newer one the other way round.
fn files(storage: &mut Struct, config: &Struct, mounts: &[&str]) {
    let Some(of) = storage.of().child("files") else { return };
    let Some(contents_of) = of.child("contents") else { return };
    let mut all = Vec::new();
    for file in structs(config, "storage", "files") {
        let mut bare = file.clone();
        bare.set("append", Data::Absent);
        if let Some(contents_of) = bare.of().child("contents") {
            bare.set("contents", Data::Struct(Struct::new(contents_of)));
        }
        let mut one = Data::Struct(moved(&bare, of));
        place(&mut one, mounts);
        let Data::Struct(mut one) = one else { continue };
        if !file.has("overwrite") {
            one.set("overwrite", Data::Bool(false));
        }
        if let Some(contents) = file.child("contents").filter(|contents| contents.has("source")) {
            one.set("contents", Data::Struct(moved(contents, contents_of)));
            all.push(Data::Struct(one.clone()));
        }
        for appended in file.structs("append") {
            let mut entry = one.clone();
            entry.set("contents", Data::Struct(moved(appended, contents_of)));
            entry.set("append", Data::Bool(true));
            entry.set("overwrite", Data::Bool(false));
            all.push(Data::Struct(entry));
        }
    }
    storage.set("files", if all.is_empty() && entries(config, "storage", "files").is_empty() { Data::Absent } else { Data::List(all) });
}
