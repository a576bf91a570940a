//! Rules of a Butane config itself, and keys in it that no field has.

use std::collections::BTreeSet;

use mainstay_yaml::{Marked, Shape};

use super::mode::is_meant_in_octal;
use super::paths::{Way, then, way};
use super::report::{In, Report, key_text};
use super::variant::Variant;
use crate::data::{Data, Struct};
use crate::model::Spec;
use crate::report::{Path, Severity, Step};
use crate::validate;

const DECIMAL_MODE: &str = "unreasonable mode would be reasonable if specified in octal; remember to add a leading zero";
const TWO_CONTENTS: &str = "only one of the following can be set: contents, contents_local";
const CEX_ARGUMENT: &str = "rd.luks.key=/etc/luks/cex.key";

/// Keys that no field has.
pub(super) fn unused_keys(config: &Struct, tree: &Marked, report: &mut Report) {
    unused(config, Some(tree), &Vec::new(), report);
}

fn resolved(node: &Marked) -> &Marked {
    match &node.shape {
        Shape::Alias(inner) => resolved(inner),
        _ => node,
    }
}

fn member<'m>(node: &'m Marked, name: &str) -> Option<&'m Marked> {
    let Shape::Mapping(members) = &resolved(node).shape else { return None };
    members.iter().rfind(|(key, _)| key_text(key) == Some(name)).map(|(_, value)| value)
}

fn item(node: &Marked, index: usize) -> Option<&Marked> {
    match &resolved(node).shape {
        Shape::Sequence(items) => items.get(index),
        _ => None,
    }
}

fn unused(of: &Struct, node: Option<&Marked>, at: &Way, report: &mut Report) {
    let Some(node) = node else { return };
    let Shape::Mapping(members) = &resolved(node).shape else {
        let shown: Path = at.iter().cloned().collect();
        report.warning(at.clone(), format_args!(
                "context tree does not match content tree at {shown}. Line and column reporting may be inconsistent. Unused keys may not be reported"
            ));
        return;
    };
    let keys: BTreeSet<&str> = members.iter().filter_map(|(key, _)| key_text(key)).collect();
    for key in keys.into_iter().filter(|key| of.of().index(key).is_none()) {
        report.warning(then(at, Step::Key(key.to_owned())), format_args!("unused key {key}"));
    }
    for (field, value) in of.entries() {
        let (child, at) = (member(node, &field.name), then(at, field.name.as_str()));
        match value {
            Data::Struct(inner) => unused(inner, child, &at, report),
            Data::List(items) => {
                for (index, inner) in items.iter().enumerate() {
                    if let Data::Struct(inner) = inner {
                        unused(inner, child.and_then(|child| item(child, index)), &then(&at, index), report);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The rules of a config and of all in it.
pub(super) fn check(config: &Struct, variant: Variant, report: &mut Report) {
    values(config, variant, &Vec::new(), report);
}

fn values(of: &Struct, variant: Variant, at: &Way, report: &mut Report) {
    rules(of, variant, at, report);
    for (field, value) in of.entries() {
        let at = then(at, field.name.as_str());
        match value {
            Data::Struct(inner) => values(inner, variant, &at, report),
            Data::List(items) => {
                for (index, inner) in items.iter().enumerate() {
                    if let Data::Struct(inner) = inner {
                        values(inner, variant, &then(&at, index), report);
                    }
                }
            }
            _ => {}
        }
    }
}

fn rules(of: &Struct, variant: Variant, at: &Way, report: &mut Report) {
    match of.of().name.as_str() {
        "Resource" => resource(of, variant, at, report),
        "Filesystem" if of.is_true("with_mount_unit") => {
            let format = of.get("format").not_empty();
            if format.is_none() {
                report.error(then(at, "format"), "format is required if with_mount_unit is true");
            } else if format != Some("swap") && of.get("path").not_empty().is_none() {
                report.error(then(at, "path"), "path is required if with_mount_unit is true and format is not swap");
            }
        }
        name @ ("Directory" | "File") if of.int("mode").is_some_and(|mode| is_meant_in_octal(mode, name == "Directory")) => {
            report.warning(then(at, "mode"), DECIMAL_MODE);
        }
        "Tree" if of.text_or_empty("local").is_empty() => report.error(at.clone(), "local is required"),
        "Unit" | "Dropin" if of.has("contents") && of.has("contents_local") => report.error(then(at, "contents_local"), TWO_CONTENTS),
        "Config" => match variant {
            Variant::Fcos1_6 => reuse_and_mounts(of, report),
            Variant::OpenShift(19..) => cex_argument(of, report),
            _ => {}
        },
        "BootDevice" => boot_device(of, variant, at, report),
        "BootDeviceMirror" => mirror(of, at, report),
        "GrubUser" => {
            if of.text_or_empty("name").is_empty() {
                report.error(then(at, "name"), "field \"name\" is required");
            }
            if of.get("password_hash").not_empty().is_none() {
                report.error(then(at, "password_hash"), "field \"password_hash\" is required");
            }
        }
        "Metadata" => {
            if of.text_or_empty("name").is_empty() {
                report.error(then(at, "name"), "metadata.name is required");
            }
            let role = match of.get("labels") {
                Data::Texts(labels) => labels.get("machineconfiguration.openshift.io/role").filter(|role| !role.is_empty()),
                _ => None,
            };
            if role.is_none() {
                report.error(then(at, "labels"), "machineconfiguration.openshift.io/role label is required");
            }
        }
        "OpenShift" if !matches!(of.text_or_empty("kernel_type"), "" | "default" | "realtime") => {
            report.error(then(at, "kernel_type"), "must be empty, \"default\", or \"realtime\"");
        }
        _ => {}
    }
}

fn resource(of: &Struct, variant: Variant, at: &Way, report: &mut Report) {
    let set: Vec<&str> = ["local", "inline", "source"].into_iter().filter(|field| of.has(field)).collect();
    let Some(last) = set.last() else { return };
    if set.len() > 1 {
        return report.error(then(at, *last), "only one of the following can be set: inline, local, source");
    }
    if *last == "inline" && at.starts_with(&way("ignition.config")) {
        embedded_config(of.text_or_empty("inline"), variant.spec(), at, report);
    }
}

/// The rules of an Ignition config that another one embeds.
fn embedded_config(text: &str, spec: Spec, at: &Way, report: &mut Report) {
    match crate::config::report_as(text, spec) {
        Ok(None) => {
            let words = "skipping validation for the merge/replace ignition config due to an unkown version";
            report.warning(then(at, "version"), words);
        }
        Ok(Some(found)) => embedded_findings(&found, report),
        Err(problem) => {
            embedded_findings(&problem.report, report);
            report.error(then(at, "inline"), problem.error);
        }
    }
}

/// The findings of an embedded config stand at their way in it, as if it were one in this config.
fn embedded_findings(found: &crate::Report, report: &mut Report) {
    for entry in &found.entries {
        report.add(entry.severity, In::Result, entry.path.steps().to_vec(), &entry.message);
    }
}

fn reuse_and_mounts(config: &Struct, report: &mut Report) {
    let Some(storage) = config.child("storage") else { return };
    for (index, disk) in storage.structs("disks").enumerate() {
        if disk.text_or_empty("device") == "/dev/disk/by-id/coreos-boot-disk" || disk.is_true("wipe_table") {
            continue;
        }
        for (number, partition) in disk.structs("partitions").enumerate() {
            if partition.int("number") == Some(0) && partition.has("label") {
                report.warning(
                    way(&format!("storage.disks.{index}.partitions.{number}.number")),
                    "partitions cannot be reused by label; number must be specified except on boot disk (/dev/disk/by-id/coreos-boot-disk) or when wipe_table is true",
                );
            }
        }
    }
    let is_allowed = |path: &str| {
        let rest = path.strip_prefix("/etc").or_else(|| path.strip_prefix("/var"));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    for (index, filesystem) in storage.structs("filesystems").enumerate() {
        if filesystem.is_true("with_mount_unit") && filesystem.text("path").is_some_and(|path| !is_allowed(path)) {
            report.error(way(&format!("storage.filesystems.{index}.path")), "path must be under /etc or /var if with_mount_unit is true");
        }
    }
}

fn enables_cex(of: Option<&Struct>) -> bool {
    of.and_then(|of| of.child("cex")).is_some_and(|cex| cex.is_true("enabled"))
}

fn cex_argument(config: &Struct, report: &mut Report) {
    if config.child("openshift").is_some_and(|openshift| openshift.texts("kernel_arguments").any(|argument| argument == CEX_ARGUMENT)) {
        return;
    }
    let words = "'rd.luks.key=/etc/luks/cex.key' must be set as kernel argument when CEX is enabled for the boot device";
    let of_boot_device = enables_cex(config.child("boot_device").and_then(|device| device.child("luks")));
    let of_root = config
        .child("storage")
        .is_some_and(|storage| storage.structs("luks").any(|luks| enables_cex(Some(luks)) && luks.text("name") == Some("root")));
    for _ in [of_boot_device, of_root].into_iter().filter(|enabled| *enabled) {
        report.error(way("openshift.kernel_arguments"), words);
    }
}

fn boot_device(of: &Struct, variant: Variant, at: &Way, report: &mut Report) {
    let layout = of.text("layout");
    let on_mainframe = layout.is_some_and(|layout| layout.starts_with("s390x"));
    if let Some(layout) = layout {
        let device = of.child("luks").and_then(|luks| luks.get("device").not_empty());
        // Upstream looks for the device's name at the end of the text.
        let is_named = |prefix: &str| {
            device.is_some_and(|device| {
                let rest = device.rfind(prefix).map(|start| &device[start + prefix.len()..]);
                rest.is_some_and(|rest| rest.len() == 1 && rest.as_bytes()[0].is_ascii_lowercase())
            })
        };
        let found = match layout {
            "aarch64" | "ppc64le" | "x86_64" => None,
            "s390x-virt" if variant.has_cex() => None,
            "s390x-eckd" | "s390x-zfcp" if variant.has_cex() => {
                let prefix = if layout == "s390x-eckd" { "/dev/dasd" } else { "/dev/sd" };
                match device {
                    None => Some("device is required for layouts: s390x-eckd, s390x-zfcp"),
                    Some(_) if is_named(prefix) => None,
                    Some(_) => Some("device name must start with /dev/dasd on s390x-eckd layout or /dev/sd on s390x-zfcp layout"),
                }
            }
            _ => Some("layout must be one of: aarch64, ppc64le, s390x-eckd, s390x-virt, s390x-zfcp, x86_64"),
        };
        if let Some(words) = found {
            report.error(then(at, "layout"), words);
        }
        let mirrors = of.child("mirror").is_some_and(|mirror| !mirror.list("devices").is_empty());
        if on_mainframe && mirrors && variant.has_cex() {
            report.error(then(at, "layout"), "mirroring not supported on layouts: s390x-eckd, s390x-zfcp, s390x-virt");
        }
    }
    if let Some(luks) = of.child("luks").filter(|luks| enables_cex(Some(luks))) {
        let words = "when using cex the targeted architecture must match s390x";
        if layout.is_none() {
            report.error(then(&then(at, "luks"), "cex"), words);
        } else if !on_mainframe {
            report.error(then(at, "layout"), words);
        }
        if !luks.list("tang").is_empty() || luks.is_true("tpm2") {
            report.error(then(at, "luks"), validate::CEX_WITH_CLEVIS);
        }
    }
    if let Some(devices) = of.child("mirror") {
        mirror(devices, &then(at, "mirror"), report);
    }
}

fn mirror(of: &Struct, at: &Way, report: &mut Report) {
    if of.list("devices").len() == 1 {
        report.add(Severity::Error, In::Source, then(at, "devices"), "mirroring requires at least two devices");
    }
}
