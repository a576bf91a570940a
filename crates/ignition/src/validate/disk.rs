//! Rules of disks, partitions, filesystems, RAID and LUKS.

use std::collections::HashSet;

use mainstay_golang::url;

use super::{Rule, resource, storage};
use crate::data::Struct;
use crate::model::Spec;
use crate::report::{Report, Severity, Trail};

pub(super) fn disk(of: &Struct, path: &Trail<'_>, report: &mut Report) {
    let device = of.text_or_empty("device");
    if device.is_empty() {
        return report.add(Severity::Error, path.then("device"), "disk device is required");
    }
    report.add_error(path.then("device"), storage::path(device));
    let partitions: Vec<&Struct> = of.structs("partitions").collect();
    let at = path.then("partitions");
    if let Some(index) = same_number(&partitions) {
        report.add(Severity::Error, at.then(index), "partition numbers collide");
    }
    if let Some(index) = overlapping(&partitions) {
        report.add(Severity::Error, at.then(index), "partitions overlap");
    }
    let without_number = partitions.iter().any(|partition| partition.int("number") == Some(0));
    let absent = partitions.iter().any(|partition| partition.bool("shouldExist") == Some(false));
    if without_number && absent {
        let words = "shouldExist is false for a partition and other partition(s) has start or size 0";
        report.add(Severity::Error, at, words);
    }
    if let Some(index) = same_label(&partitions) {
        report.add(Severity::Error, at.then(index), "cannot use the same partition label twice");
    }
}

/// The second partition with a number that another one has. Of several such numbers upstream takes any; here it is the first one met.
fn same_number(partitions: &[&Struct]) -> Option<usize> {
    let mut seen = HashSet::new();
    partitions.iter().position(|partition| {
        let number = partition.int("number").unwrap_or_default();
        number != 0 && !seen.insert(number)
    })
}

fn same_label(partitions: &[&Struct]) -> Option<usize> {
    let mut seen = HashSet::new();
    partitions.iter().position(|partition| partition.text("label").is_some_and(|label| !seen.insert(label)))
}

/// The first and last unit of a partition that says both; a size of 0 takes what is free.
fn extent(partition: &Struct) -> Option<(i64, i64)> {
    let (start, size) = (partition.int("startMiB")?, partition.int("sizeMiB")?);
    (start != 0).then(|| (start, if size == 0 { start } else { start.wrapping_add(size).wrapping_sub(1) }))
}

/// The partition that another one overlaps.
pub(crate) fn overlap_of(extents: &[Option<(i64, i64)>], same: impl Fn(usize, usize) -> bool) -> Option<usize> {
    for (one, extent) in extents.iter().enumerate() {
        let Some((start, end)) = *extent else { continue };
        for (other, extent) in extents.iter().enumerate() {
            let Some((first, last)) = *extent else { continue };
            if same(one, other) {
                continue;
            }
            let inside = |at: i64| at >= first && at <= last;
            if inside(start) || inside(end) || start < first && end > last {
                return Some(other);
            }
        }
    }
    None
}

fn overlapping(partitions: &[&Struct]) -> Option<usize> {
    let extents: Vec<_> = partitions.iter().map(|partition| extent(partition)).collect();
    overlap_of(&extents, |one, other| one == other)
}

pub(super) fn partition(of: &Struct, path: &Trail<'_>, report: &mut Report) {
    let says_more = of.has("label")
        || of.get("typeGuid").not_empty().is_some()
        || of.get("guid").not_empty().is_some()
        || of.has("startMiB")
        || of.has("sizeMiB");
    if of.bool("shouldExist") == Some(false) && says_more {
        report.add(Severity::Error, *path, "shouldExist specified false with other options also specified");
    }
    if of.int("number") == Some(0) && !of.has("label") {
        report.add(Severity::Error, *path, "a partition number >= 1 or a label must be specified");
    }
    let label: Rule = match of.text("label") {
        Some(label) if label.len() > 36 => Err("partition labels may not exceed 36 characters"),
        Some(label) if label.contains(':') => Err("partition label will be truncated to text before the colon"),
        _ => Ok(()),
    };
    report.add_error(path.then("label"), label);
    for field in ["guid", "typeGuid"] {
        report.add_error(path.then(field), of.text(field).map_or(Ok(()), guid));
    }
}

/// An empty text or a GUID.
pub(crate) fn guid(text: &str) -> Rule {
    let parts: Vec<usize> = text.split('-').map(str::len).collect();
    let fits = text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') && parts == [8, 4, 4, 4, 12];
    if text.is_empty() || fits { Ok(()) } else { Err("doesn't match the form \"01234567-89AB-CDEF-EDCB-A98765432101\"") }
}

pub(super) fn filesystem(of: &Struct, spec: Spec, path: &Trail<'_>, report: &mut Report) {
    let mount: Rule = of.get("path").not_empty().map_or(Ok(()), storage::path);
    report.add_error(path.then("path"), mount);
    report.add_error(path.then("device"), storage::path(of.text_or_empty("device")));
    report.add_error(path.then("format"), format_fits(of, spec));
    report.add_error(path.then("label"), label_fits(of));
}

fn format_fits(of: &Struct, spec: Spec) -> Rule {
    let Some(format) = of.get("format").not_empty() else {
        let says_more = ["path", "label", "uuid"].iter().any(|field| of.get(field).not_empty().is_some())
            || of.is_true("wipeFilesystem")
            || !of.list("mountOptions").is_empty()
            || !of.list("options").is_empty();
        return if says_more {
            Err("format cannot be empty when path, label, uuid, wipeFilesystem, options, or mountOptions is specified")
        } else {
            Ok(())
        };
    };
    match format {
        "ext4" | "btrfs" | "xfs" | "swap" | "vfat" => Ok(()),
        "none" if spec >= Spec::V3_3 => Ok(()),
        _ => Err("invalid filesystem format"),
    }
}

fn label_fits(of: &Struct) -> Rule {
    let Some(label) = of.get("label").not_empty() else { return Ok(()) };
    match of.get("format").not_empty() {
        None => Err("filesystem must specify format if label is specified"),
        Some(format) => label_length(format, label),
    }
}

/// The length of a label that a format allows.
pub(crate) fn label_length(format: &str, label: &str) -> Rule {
    let (longest, words) = match format {
        "ext4" => (16, "filesystem labels cannot be longer than 16 characters when using ext4"),
        "btrfs" => (256, "filesystem labels cannot be longer than 256 characters when using btrfs"),
        "xfs" => (12, "filesystem labels cannot be longer than 12 characters when using xfs"),
        "swap" => (15, "filesystem labels cannot be longer than 15 characters when using swap"),
        "vfat" => (11, "filesystem labels cannot be longer than 11 characters when using vfat"),
        _ => return Ok(()),
    };
    if label.len() > longest { Err(words) } else { Ok(()) }
}

pub(super) fn raid(of: &Struct, spec: Spec, path: &Trail<'_>, report: &mut Report) {
    report.add_error(path.then("level"), raid_level(of, spec));
    if of.list("devices").is_empty() {
        report.add(Severity::Error, path.then("devices"), "raid devices required");
    }
}

fn raid_level(of: &Struct, spec: Spec) -> Rule {
    let level = match of.get("level").not_empty() {
        None if spec >= Spec::V3_3 => return Err("raid level is required"),
        level => level.unwrap_or_default(),
    };
    match level {
        "linear" | "raid0" | "0" | "stripe" if of.int("spares").is_some_and(|spares| spares != 0) => {
            Err("spares unsupported for linear and raid0 arrays")
        }
        level if is_raid_level(level) => Ok(()),
        _ => Err("unrecognized raid level"),
    }
}

/// The names of RAID levels.
pub(crate) fn is_raid_level(level: &str) -> bool {
    matches!(
        level,
        "linear" | "raid0" | "0" | "stripe" | "raid1" | "1" | "mirror" | "raid4" | "4" | "raid5" | "5" | "raid6" | "6" | "raid10" | "10"
    )
}

/// Returns whether Clevis unlocks a volume.
fn unlocks(clevis: &Struct) -> bool {
    clevis.child("custom").is_some_and(|custom| custom.get("pin").not_empty().is_some())
        || !clevis.list("tang").is_empty()
        || clevis.is_true("tpm2")
        || clevis.int("threshold").is_some_and(|threshold| threshold != 0)
}

/// Two ways to unlock a volume that exclude each other.
pub(crate) const CEX_WITH_CLEVIS: &str = "cannot use cex with clevis";

pub(super) fn luks(of: &Struct, spec: Spec, path: &Trail<'_>, report: &mut Report) {
    if of.text_or_empty("name").contains('/') {
        report.add(Severity::Error, path.then("name"), "device names cannot contain slashes");
    }
    if of.text_or_empty("label").len() > 47 {
        report.add(Severity::Error, path.then("label"), "luks device labels cannot be longer than 47 characters");
    }
    match of.get("device").not_empty() {
        None => report.add(Severity::Error, path.then("device"), "disk device is required"),
        Some(device) => report.add_error(path.then("device"), storage::path(device)),
    }
    if let Some(clevis) = of.child("clevis") {
        let is_custom = match clevis.child("custom") {
            Some(custom) => spec < Spec::V3_3 || custom.get("pin").not_empty().is_some(),
            None => false,
        };
        let has_others =
            !clevis.list("tang").is_empty() || clevis.is_true("tpm2") || clevis.int("threshold").is_some_and(|threshold| threshold != 0);
        if is_custom && has_others {
            let words = "cannot use custom clevis config with tpm2, tang, or threshold";
            report.add(Severity::Error, path.then("clevis"), words);
        }
    }
    if resource::url_or_none(of.child("keyFile").and_then(|file| file.text("source")), spec).is_err() {
        report.add(Severity::Error, path.then("keys"), "invalid key-file source");
    }
    if of.child("cex").is_some_and(|cex| cex.is_true("enabled")) {
        if of.child("clevis").is_some_and(unlocks) {
            report.add(Severity::Error, path.then("cex"), CEX_WITH_CLEVIS);
        }
        if of.child("keyFile").is_some_and(|file| file.get("source").not_empty().is_some()) {
            report.add(Severity::Error, path.then("cex"), "cannot use key file with cex");
        }
    }
}

pub(super) fn clevis_custom(of: &Struct, path: &Trail<'_>, report: &mut Report) {
    let (pin, config) = (of.get("pin").not_empty(), of.get("config").not_empty());
    if pin.is_none() && config.is_none() && !of.is_true("needsNetwork") {
        return;
    }
    match pin {
        None => report.add(Severity::Error, path.then("pin"), "missing required custom clevis pin"),
        Some(pin) => known_pin(pin, path, report),
    }
    if config.is_none() {
        report.add(Severity::Error, path.then("config"), "missing required custom clevis config");
    }
}

pub(super) fn old_clevis_custom(of: &Struct, path: &Trail<'_>, report: &mut Report) {
    let (pin, config) = (of.text_or_empty("pin"), of.text_or_empty("config"));
    if pin.is_empty() && config.is_empty() {
        return;
    }
    known_pin(pin, path, report);
    if config.is_empty() {
        report.add(Severity::Error, path.then("config"), "missing required custom clevis config");
    }
}

fn known_pin(pin: &str, path: &Trail<'_>, report: &mut Report) {
    if !matches!(pin, "tpm2" | "tang" | "sss") {
        report.add(Severity::Error, path.then("pin"), "unsupported clevis pin");
    }
}

pub(super) fn tang(of: &Struct, spec: Spec, path: &Trail<'_>, report: &mut Report) {
    let scheme = url::parse(of.text_or_empty("url")).map(|url| url.scheme);
    let found: Rule = match scheme.as_deref() {
        Err(_) => Err("unable to parse url"),
        Ok("http" | "https") => Ok(()),
        Ok(_) => Err("invalid url scheme"),
    };
    report.add_error(path.then("url"), found);
    if of.get("thumbprint").not_empty().is_none() {
        report.add(Severity::Error, path.then("thumbprint"), "thumbprint is required");
    }
    let is_json = |text: &str| mainstay_golang::json_reader::check_syntax(text.as_bytes()).is_ok();
    if spec >= Spec::V3_4 && of.get("advertisement").not_empty().is_some_and(|text| !is_json(text)) {
        report.add(Severity::Error, path.then("advertisement"), "advertisement is not valid JSON");
    }
}
