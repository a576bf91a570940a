//! The additions of OpenShift to a config: the MachineConfig around it, and the fields that its machines do not support.

use mainstay_golang::url;

use super::Making;
use super::paths::{Paths, Way, joined, then, way};
use super::report::{In, Report};
use super::variant::Variant;
use crate::data::{Data, Struct};
use crate::report::Severity;

/// Where the Ignition config stands in a MachineConfig.
pub(super) const CONFIG: &str = "spec.config";

const USER_FIELDS: &str =
    "fields other than \"name\", \"ssh_authorized_keys\", and \"password_hash\" (4.13.0+) are not supported in this spec version";

/// Fields that must be empty, by their way without the places in lists.
const FILTERS: [(&str, &str); 16] = [
    ("kernelArguments", "this section cannot be used for kernel arguments in this spec version; use openshift.kernel_arguments instead"),
    ("passwd.groups", "groups are not supported in this spec version"),
    ("passwd.users.gecos", USER_FIELDS),
    ("passwd.users.groups", USER_FIELDS),
    ("passwd.users.homeDir", USER_FIELDS),
    ("passwd.users.noCreateHome", USER_FIELDS),
    ("passwd.users.noLogInit", USER_FIELDS),
    ("passwd.users.noUserGroup", USER_FIELDS),
    ("passwd.users.primaryGroup", USER_FIELDS),
    ("passwd.users.shell", USER_FIELDS),
    ("passwd.users.shouldExist", USER_FIELDS),
    ("passwd.users.system", USER_FIELDS),
    ("passwd.users.uid", USER_FIELDS),
    ("storage.directories", "directories are not supported in this spec version"),
    ("storage.files.append", "appending to files is not supported in this spec version"),
    ("storage.links", "links are not supported in this spec version"),
];

/// A filter that is no name of a field of its own everywhere.
const HEADERS: (&str, &str) = ("storage.files.contents.httpHeaders", "file HTTP headers are not supported in this spec version");

/// Fields of the config's section `openshift`, and those of the MachineConfig that they become, in the order of the latter.
const FIELDS: [(&str, &str); 4] =
    [("kernel_arguments", "kernelArguments"), ("extensions", "extensions"), ("fips", "fips"), ("kernel_type", "kernelType")];

/// Puts the ways of an Ignition config into a MachineConfig.
pub(super) fn wrap(config: &Struct, paths: Paths) -> Paths {
    let mut paths = paths.below(&way(CONFIG));
    for (from, to) in [
        ("version", "apiVersion"),
        ("version", "kind"),
        ("metadata", "metadata"),
        ("metadata.name", "metadata.name"),
        ("metadata.labels", "metadata.labels"),
        ("version", "spec"),
        ("", CONFIG),
    ] {
        paths.add(&way(from), &way(to));
    }
    let Some(openshift) = config.child("openshift") else { return paths };
    for (from, to) in FIELDS {
        let (from, to, value) = (then(&way("openshift"), from), then(&way("spec"), to), openshift.get(from));
        if *value != Data::Absent {
            paths.add_all(&from, &to, value);
        }
    }
    paths
}

/// Adds the options of encrypted volumes that FIPS asks for.
pub(super) fn fips_options(config: &Struct, variant: Variant, making: &mut Making) {
    let has_fips = config.child("openshift").is_some_and(|openshift| openshift.is_true("fips"));
    if !variant.adds_fips_options() || !has_fips {
        return;
    }
    let Some(Data::Struct(storage)) = making.config.get_mut("storage") else { return };
    let Some(Data::List(volumes)) = storage.get_mut("luks") else { return };
    let from = way("openshift.fips");
    for (index, volume) in volumes.iter_mut().enumerate() {
        let Data::Struct(volume) = volume else { continue };
        if volume.texts("options").any(|option| matches!(option, "--cipher" | "-c") || option.starts_with("--cipher=")) {
            continue;
        }
        let mut options = volume.list("options").to_vec();
        let to = way(&format!("{CONFIG}.storage.luks.{index}.options"));
        if options.is_empty() {
            making.paths.add(&from, &to);
        }
        for option in ["--cipher", "aes-cbc-essiv:sha256"] {
            making.paths.add(&from, &then(&to, options.len()));
            options.push(Data::Text(option.to_owned()));
        }
        volume.set("options", Data::List(options));
    }
}

/// The fields that machines and their operator do not support.
pub(super) fn support(config: &Struct, report: &mut Report) {
    let mut error = |at: String, words: &str| report.add(Severity::Error, In::Result, way(&format!("{CONFIG}.{at}")), words);
    let storage = config.child("storage");
    for (format, words) in
        [("btrfs", "btrfs is not supported in this spec version"), ("none", "format \"none\" is not supported in this spec version")]
    {
        for (index, filesystem) in storage.into_iter().flat_map(|storage| storage.structs("filesystems")).enumerate() {
            if filesystem.text("format") == Some(format) {
                error(format!("storage.filesystems.{index}.format"), words);
            }
        }
    }
    for (index, file) in storage.into_iter().flat_map(|storage| storage.structs("files")).enumerate() {
        let source = file.child("contents").and_then(|contents| contents.text("source"));
        if source.is_some_and(|source| url::parse(source).is_ok_and(|url| url.scheme != "data")) {
            let words = "file contents source must be data URL in this spec version";
            error(format!("storage.files.{index}.contents.source"), words);
        }
        if file.int("mode").is_some_and(|mode| mode & !0o777 != 0) {
            error(format!("storage.files.{index}.mode"), "special mode bits are not supported in this spec version");
        }
    }
    for (index, user) in config.child("passwd").into_iter().flat_map(|passwd| passwd.structs("users")).enumerate() {
        if user.text("name") != Some("core") {
            error(format!("passwd.users.{index}.name"), "users other than \"core\" are not supported in this spec version");
        }
    }
}

/// Fields that must be empty and are not.
pub(super) fn filtered(config: &Struct, report: &mut Report) {
    for_fields(config, "", &way(CONFIG), report);
}

fn for_fields(of: &Struct, names: &str, at: &Way, report: &mut Report) {
    for (field, value) in of.entries() {
        let names = if names.is_empty() { field.name.clone() } else { format!("{names}.{}", field.name) };
        let at = then(at, field.name.as_str());
        let filter = FILTERS.iter().chain([&HEADERS]).find(|(name, _)| *name == names);
        match (filter, value) {
            (Some((_, words)), value) => {
                if !value.is_empty(&field.kind) {
                    report.add(Severity::Error, In::Result, at, words);
                }
            }
            (None, Data::Struct(inner)) => for_fields(inner, &names, &at, report),
            (None, Data::List(items)) => {
                for (index, inner) in items.iter().enumerate() {
                    if let Data::Struct(inner) = inner {
                        for_fields(inner, &names, &then(&at, index), report);
                    }
                }
            }
            (None, _) => {}
        }
    }
}

/// Fields that an Ignition config has no place for.
pub(super) fn elided(config: &Struct, paths: &Paths, report: &mut Report) {
    let Some(openshift) = config.child("openshift") else { return };
    let mut found = Report::default();
    for (from, to) in FIELDS {
        if openshift.has(from) {
            found.add(Severity::Warning, In::Result, joined(&way("spec"), &way(to)), "field ignored in raw mode");
        }
    }
    report.append(found.traced(paths));
}

/// Entries that stand twice in the lists of a MachineConfig.
pub(super) fn repeated(config: &Struct, report: &mut Report) {
    let Some(openshift) = config.child("openshift") else { return };
    for (from, to) in FIELDS {
        let mut seen = std::collections::BTreeSet::new();
        for (index, text) in openshift.texts(from).enumerate() {
            if !seen.insert(text) {
                report.add(Severity::Error, In::Result, then(&then(&way("spec"), to), index), "duplicate entry defined");
            }
        }
    }
}
