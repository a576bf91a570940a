//! The rules of 2.2, and those of 2.3, through which upstream's translation goes.

use std::collections::HashSet;

use mainstay_golang::{quote, url};

use super::report::{Kind, Report};
use crate::data::Struct;
use crate::data_url;
use crate::unit::{Reader, sections};
use crate::validate::{UNIT_ENDINGS, guid, hash_fits, is_raid_level, label_length, no_install_section, overlap_of, path_ending};
use crate::version::Version;

/// Which rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flavor {
    /// Those of 2.2, for a config that is read.
    Read,
    /// Those of 2.3, for a config of 2.2 that is on its way to 3.x.
    Translate,
}

const RELATIVE: &str = "path not absolute";

fn error(report: &mut Report, words: &str) {
    report.add(Kind::Error, words);
}

fn found(result: Result<(), &str>) -> Report {
    let mut report = Report::default();
    if let Err(words) = result {
        error(&mut report, words);
    }
    report
}

/// The rules of a struct as a whole.
pub(super) fn of_struct(of: &Struct, flavor: Flavor) -> Report {
    let mut report = Report::default();
    match of.of().name.as_str() {
        "Config" => config(of, &mut report),
        "Ignition" if flavor == Flavor::Read && Version::parse(of.text_or_empty("version")).is_none() => {
            error(&mut report, "invalid config version (couldn't parse)");
        }
        "File" if of.is_true("overwrite") && of.is_true("append") => error(&mut report, "cannot set both append and overwrite to true"),
        "NodeUser" | "NodeGroup" if of.has("id") && !of.text_or_empty("name").is_empty() => {
            error(&mut report, "cannot set both id and name");
        }
        "Filesystem" => filesystem(of, &mut report),
        "Mount" if !matches!(of.text_or_empty("format"), "ext4" | "btrfs" | "xfs" | "swap" | "vfat") => {
            error(&mut report, "invalid filesystem format");
        }
        "PasswdUser" => user(of, &mut report),
        "SystemdDropin" | "NetworkdDropin" => part(of, &[".conf"], of.of().name.starts_with("Systemd"), &mut report),
        "Networkdunit" => {
            unit_contents(of, &mut report);
            if ![".link", ".netdev", ".network"].contains(&path_ending(of.text_or_empty("name"))) {
                error(&mut report, "invalid networkd unit extension");
            }
        }
        "Verification" => {
            if let Some(Err(words)) = of.text("hash").map(|hash| hash_fits(hash, false)) {
                error(&mut report, words);
            }
        }
        _ => {}
    }
    report
}

/// The rules of a field; none if there are no rules for it, which matters for the place of what is found inside it.
pub(super) fn of_field(of: &Struct, field: &str, flavor: Flavor) -> Option<Report> {
    let text = of.text_or_empty(field);
    Some(match (of.of().name.as_str(), field) {
        ("CaReference" | "ConfigReference", "source") => source(text, None),
        ("FileContents", "source") => source(text, Some(flavor)),
        ("FileContents", "compression") => found(match text {
            "" | "gzip" => Ok(()),
            _ => Err("invalid compression method"),
        }),
        ("File" | "Directory", "mode") => mode(of),
        ("File" | "Directory" | "Link", "filesystem") => found(if text.is_empty() { Err("no filesystem specified") } else { Ok(()) }),
        ("File" | "Directory" | "Link", "path") | ("Mount", "device") => found(absolute(text)),
        ("Disk", "device") => found(if text.is_empty() { Err("disk device is required") } else { absolute(text) }),
        ("Disk", "partitions") => partitions(of, flavor),
        ("Partition", "size" | "start") if flavor == Flavor::Translate => {
            let mut report = Report::default();
            let newer = if field == "size" { "sizeMB" } else { "startMB" };
            // In 2.3 the two may be absent; those from 2.2 have them.
            report.add(Kind::Deprecated, format_args!("{field} is deprecated; use {newer} instead"));
            report
        }
        ("Partition", "label") => label(text),
        ("Partition", "guid" | "typeGuid") => found(guid(text)),
        ("Filesystem", "path") => filesystem_path(of, flavor),
        ("Mount", "label") => found(of.text(field).map_or(Ok(()), |label| label_length(of.text_or_empty("format"), label))),
        ("Raid", "level") => found(match text {
            "linear" | "raid0" | "0" | "stripe" if of.int("spares") != Some(0) => {
                Err("spares unsupported for arrays with a level greater than 0")
            }
            level if is_raid_level(level) => Ok(()),
            _ => Err("unrecognized raid level"),
        }),
        ("Raid", "devices") => {
            let mut report = Report::default();
            for _ in of.texts("devices").filter(|device| absolute(device).is_err()) {
                error(&mut report, RELATIVE);
            }
            report
        }
        ("Unit", "contents") => unit(of),
        ("Unit", "name") => found(if UNIT_ENDINGS.contains(&path_ending(text)) { Ok(()) } else { Err("invalid systemd unit extension") }),
        _ => return None,
    })
}

fn absolute(path: &str) -> Result<(), &'static str> {
    if path.starts_with('/') { Ok(()) } else { Err(RELATIVE) }
}

fn config(of: &Struct, report: &mut Report) {
    let Some(storage) = of.child("storage") else { return };
    let mut known: HashSet<&str> = storage.structs("filesystems").map(|filesystem| filesystem.text_or_empty("name")).collect();
    known.insert("root");
    for (list, kind) in [("files", "File"), ("links", "Link"), ("directories", "Directory")] {
        for node in storage.structs(list) {
            let (filesystem, path) = (node.text_or_empty("filesystem"), node.text_or_empty("path"));
            if !filesystem.is_empty() && !known.contains(filesystem) {
                let (path, filesystem) = (quote(path), quote(filesystem));
                report.add(
                    Kind::Warning,
                    format_args!(
                        "{kind} {path} references nonexistent filesystem {filesystem}. (This is ok if it is defined in a referenced config)"
                    ),
                );
            }
        }
    }
    let mut seen = HashSet::from(["root"]);
    for filesystem in storage.structs("filesystems") {
        let name = filesystem.text_or_empty("name");
        if !seen.insert(name) {
            report.add(Kind::Warning, format_args!("Filesystem {} shadows exising filesystem definition", quote(name)));
        }
    }
}

fn filesystem(of: &Struct, report: &mut Report) {
    let mount = of.child("mount");
    if mount.is_none() && !of.has("path") {
        error(report, "filesystem is missing mount or path");
    }
    let Some(mount) = mount else { return };
    if of.has("path") {
        error(report, "filesystem has both mount and path defined");
    }
    if !mount.has("create") {
        return;
    }
    if mount.is_true("wipeFilesystem") {
        error(report, "cannot use both create object and wipeFilesystem field");
    }
    if !mount.list("options").is_empty() {
        error(report, "cannot use both create object and mount-level options field");
    }
    report.add(Kind::Warning, "the create object has been deprecated in favor of mount-level options");
}

fn filesystem_path(of: &Struct, flavor: Flavor) -> Report {
    let mut report = Report::default();
    if of.text("path").is_some_and(|path| absolute(path).is_err()) {
        match flavor {
            Flavor::Read => error(&mut report, RELATIVE),
            Flavor::Translate => {
                let name = quote(of.text_or_empty("name"));
                report.add(Kind::Error, format_args!("filesystem {name}: {RELATIVE}"));
            }
        }
    }
    report
}

fn user(of: &Struct, report: &mut Report) {
    if !of.has("create") {
        return;
    }
    report.add(Kind::Warning, "the create object has been deprecated in favor of user-level options");
    let said = |field: &str| match field {
        "groups" => !of.list(field).is_empty(),
        "uid" => of.has(field),
        "noCreateHome" | "noLogInit" | "noUserGroup" | "system" => of.is_true(field),
        field => !of.text_or_empty(field).is_empty(),
    };
    let fields = ["gecos", "groups", "homeDir", "noCreateHome", "noLogInit", "noUserGroup", "primaryGroup", "shell", "system", "uid"];
    for field in fields.into_iter().filter(|field| said(field)) {
        report.add(Kind::Error, format_args!("cannot use both the create object and the user-level {field} field"));
    }
}

fn mode(of: &Struct) -> Report {
    let mut report = Report::default();
    match of.int("mode") {
        None => report.add(Kind::Warning, "permissions unset, defaulting to 0000"),
        Some(mode) if !(0..=0o7777).contains(&mode) => error(&mut report, "illegal file mode"),
        Some(_) => {}
    }
    report
}

fn label(text: &str) -> Report {
    let mut report = Report::default();
    if text.len() > 36 {
        error(&mut report, "partition labels may not exceed 36 characters");
    }
    if text.contains(':') {
        report.add(Kind::Warning, "partition label will be truncated to text before the colon");
    }
    report
}

fn partitions(of: &Struct, flavor: Flavor) -> Report {
    let mut report = Report::default();
    let partitions: Vec<&Struct> = of.structs("partitions").collect();
    let number = |partition: &Struct, field: &str| partition.int(field).unwrap_or_default();
    let mut numbers = HashSet::new();
    if partitions.iter().any(|partition| number(partition, "number") != 0 && !numbers.insert(number(partition, "number"))) {
        error(&mut report, "partition numbers collide");
    }
    let extents: Vec<_> = partitions
        .iter()
        .map(|partition| {
            let (start, size) = (number(partition, "start"), number(partition, "size"));
            (start != 0).then(|| (start, if size == 0 { start } else { start.wrapping_add(size).wrapping_sub(1) }))
        })
        .collect();
    // 2.2 takes two partitions of the same values for one.
    let same = |one: usize, other: usize| match flavor {
        Flavor::Read => partitions[one] == partitions[other],
        Flavor::Translate => one == other,
    };
    if overlap_of(&extents, same).is_some() {
        error(&mut report, "partitions overlap");
    }
    if partitions.iter().any(|partition| number(partition, "start") & 2047 != 0) {
        error(&mut report, "partitions misaligned");
    }
    report
}

fn source(text: &str, of_file: Option<Flavor>) -> Report {
    let mut report = Report::default();
    if let Err(problem) = source_fits(text) {
        match of_file {
            Some(Flavor::Translate) => report.add(Kind::Error, format_args!("invalid url {}: {problem}", quote(text))),
            _ => report.add(Kind::Error, problem),
        }
    }
    report
}

/// The fault in the address of a content.
#[derive(Debug, thiserror::Error)]
enum SourceError {
    #[error("unable to parse url")]
    Url,
    #[error("invalid url scheme")]
    Scheme,
    #[error("invalid S3 object VersionId")]
    VersionId,
    #[error(transparent)]
    Data(#[from] data_url::DataUrlError),
}

fn source_fits(text: &str) -> Result<(), SourceError> {
    if text.is_empty() {
        return Ok(());
    }
    let url = url::parse(text).map_err(|_| SourceError::Url)?;
    match url.scheme.as_str() {
        "http" | "https" | "oem" | "tftp" => Ok(()),
        "s3" => match url.pairs().get("versionId") {
            Some(values) if values.first().is_none_or(String::is_empty) => Err(SourceError::VersionId),
            _ => Ok(()),
        },
        "data" => Ok(data_url::decode(text).map(drop)?),
        _ => Err(SourceError::Scheme),
    }
}

/// Adds what is wrong with a unit's text; returns its sections otherwise.
fn unit_contents(of: &Struct, report: &mut Report) -> Vec<String> {
    sections(of.text_or_empty("contents"), Reader::Old).unwrap_or_else(|error| {
        report.add(Kind::Error, format_args!("invalid unit content: {error}"));
        Vec::new()
    })
}

fn part(of: &Struct, endings: &[&str], is_systemd: bool, report: &mut Report) {
    unit_contents(of, report);
    if !endings.contains(&path_ending(of.text_or_empty("name"))) {
        let kind = if is_systemd { "systemd" } else { "networkd" };
        report.add(Kind::Error, format_args!("invalid {kind} drop-in extension"));
    }
}

fn unit(of: &Struct) -> Report {
    let mut report = Report::default();
    let found = unit_contents(of, &mut report);
    let is_enabled = of.is_true("enable") || of.is_true("enabled");
    // A unit without any option is not warned about.
    if is_enabled && !found.is_empty() && !found.iter().any(|section| section == "Install") {
        report.add(Kind::Warning, no_install_section(of.text_or_empty("name")));
    }
    report
}
