//! The way from a Butane config to its result: rules, translation, what is short for something longer, and rules of the result.

use super::files::Files;
use super::paths::{Paths, merged, way};
use super::report::{In, Report};
use super::variant::Variant;
use super::{ButaneError, Making, Translation, boot_device, mount_unit, openshift, rules, translate, trees};
use crate::data::{Data, Struct};
use crate::model::{Spec, Type};
use crate::report::Severity;
use crate::validate;

/// A struct with these values, as a value.
pub(super) fn built<'v>(of: Option<&'static Type>, values: impl IntoIterator<Item = (&'v str, Data)>) -> Data {
    let Some(of) = of else { return Data::Absent };
    let mut made = Struct::new(of);
    for (name, value) in values {
        made.set(name, value);
    }
    Data::Struct(made)
}

/// Translates a config, and judges it before and after.
pub(super) fn translated(config: &Struct, variant: Variant, raw: bool, files: &dyn Files) -> Translation {
    let mut report = Report::default();
    let result = steps(config, variant, raw, files, &mut report);
    Translation { report, result }
}

fn steps(config: &Struct, variant: Variant, raw: bool, files: &dyn Files, report: &mut Report) -> Result<Struct, ButaneError> {
    rules::check(config, variant, report);
    if report.is_fatal() {
        return Err(ButaneError::Source);
    }
    let wraps = variant.is_openshift() && !raw;
    let mut found = Report::default();
    let Some(making) = made(config, variant, raw, files, &mut found) else {
        report.append(found.traced(&Paths::default()));
        return Err(ButaneError::Source);
    };
    let Making { config: made, paths } = making;
    report.append(found.traced(&paths));
    if report.is_fatal() {
        return Err(ButaneError::Source);
    }
    let mut found = Report::default();
    if wraps {
        openshift::filtered(&made, &mut found);
        report.append(found.traced(&paths));
        if report.is_fatal() {
            return Err(ButaneError::Source);
        }
    }
    let prefix = if wraps { way(openshift::CONFIG) } else { Vec::new() };
    let mut found = Report::default();
    if wraps {
        openshift::repeated(config, &mut found);
    }
    // Newer rules of Ignition than those that this program has for 3.4; they are those of 3.5.
    let judged = [validate::repeated(&made), validate::rules_only(&made, Spec::V3_5)];
    for entry in judged.into_iter().flat_map(|report| report.entries) {
        let at = prefix.iter().cloned().chain(entry.path.steps().iter().cloned()).collect();
        found.add(entry.severity, In::Result, at, entry.message);
    }
    report.append(found.traced(&paths));
    if report.is_fatal() { Err(ButaneError::Generated) } else { Ok(made) }
}

/// The result; none if it could not be made at all.
fn made(config: &Struct, variant: Variant, raw: bool, files: &dyn Files, report: &mut Report) -> Option<Making> {
    let mut making = translate::base(config, variant, files, report);
    mount_unit::add(config, &mut making);
    trees::add(config, &mut making, files, report);
    if report.is_fatal() {
        return None;
    }
    boot_device::add(config, variant, &mut making);
    partition_numbers(&making.config, report);
    grub(config, &mut making);
    if variant.is_openshift() {
        making.paths = openshift::wrap(config, making.paths);
        openshift::fips_options(config, variant, &mut making);
        openshift::support(&making.config, report);
        if raw {
            openshift::elided(config, &making.paths, report);
            making.paths = making.paths.of_part(&way(openshift::CONFIG));
        }
    }
    Some(making)
}

/// Partitions whose labels are those of the system's, with other numbers.
fn partition_numbers(made: &Struct, report: &mut Report) {
    let disks = made.child("storage").into_iter().flat_map(|storage| storage.structs("disks")).enumerate();
    for (index, disk) in disks.filter(|(_, disk)| !disk.is_true("wipeTable")) {
        for (place, partition) in disk.structs("partitions").enumerate() {
            let number = match partition.text("label") {
                Some("BIOS-BOOT" | "PowerPC-PReP-boot") => 1,
                Some("EFI-SYSTEM") => 2,
                Some("boot") => 3,
                Some("root") => 4,
                _ => continue,
            };
            if partition.int("number") != Some(number) {
                let words = "incorrect partition number; a new partition will be created using reserved label";
                let at = way(&format!("storage.disks.{index}.partitions.{place}.label"));
                report.add(Severity::Warning, In::Result, at, words);
            }
        }
    }
}

/// Adds the users of the boot loader.
fn grub(config: &Struct, making: &mut Making) {
    let root = making.config.of();
    let mut rendered = Struct::new(root);
    let mut paths = Paths::default();
    let users: Vec<&Struct> = config.child("grub").into_iter().flat_map(|grub| grub.structs("users")).collect();
    if !users.is_empty() {
        let names: Vec<&str> = users.iter().map(|user| user.text_or_empty("name")).collect();
        let commands: Vec<String> = users
            .iter()
            .map(|user| format!("password_pbkdf2 {} {}", user.text_or_empty("name"), user.text_or_empty("password_hash")))
            .collect();
        let content = format!("# Generated by Butane\n\nset superusers=\"{}\"\n{}\n", names.join(" "), commands.join("\n"));
        let (url, compression) = translate::as_url(content.as_bytes(), None);
        let of = root.child("storage");
        let of_file = of.and_then(|of| of.child("files"));
        let text = |text: &str| Data::Text(text.to_owned());
        let filesystem = built(
            of.and_then(|of| of.child("filesystems")),
            [("device", text("/dev/disk/by-label/boot")), ("format", text("ext4")), ("path", text("/boot"))],
        );
        let resource = built(
            of_file.and_then(|of| of.child("append")),
            [("source", Data::Text(url)), ("compression", compression.map_or(Data::Absent, text))],
        );
        let file = built(of_file, [("path", text("/boot/grub2/user.cfg")), ("append", Data::List(vec![resource]))]);
        let storage = built(of, [("filesystems", Data::List(vec![filesystem])), ("files", Data::List(vec![file]))]);
        paths.add_all(&way("grub.users"), &way("storage"), &storage);
        rendered.set("storage", storage);
    }
    (making.config, making.paths) = merged(&rendered, &paths, &making.config, &making.paths);
}
