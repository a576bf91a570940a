//! Configs of 3.4 as configs of an older version, or of 3.5, for systems that read no other (MACH-MCS-01).
//!
//! Upstream goes down step by step (3.4, 3.3, 3.2, then 3.1 or 2.2), and refuses at the first step that has no word for something.

use crate::Config;
use crate::data::{Data, Struct};
use crate::model::Spec;
use crate::report::Report;
use crate::translate::{moved, special_bits};
use crate::v2;
use crate::validate::config as validate;

/// The reason why a config cannot be said in another version, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untranslatable {
    /// The config breaks rules of its own version.
    #[error("Invalid input config:\n{0}")]
    Invalid(Report),
    /// The config uses something that the older version does not have.
    #[error("{0}")]
    Unsupported(#[from] Unsupported),
    /// The result breaks rules of the older version.
    #[error("Converted spec has unexpected fatal error:\n{0}")]
    Result(Report),
    /// The result breaks rules of 2.2.
    #[error("Converted spec has unexpected fatal error:\n{0}")]
    OldResult(v2::Report),
    /// Configs of 3.0 are not written: the server never promised them.
    #[error("version 3.0.0 is not written")]
    Version,
}

/// A part of a config that an older version does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// Advertisements of Tang servers.
    #[error("Invalid input config: tang offline provisioning is not supported in spec v3.3")]
    TangAdvertisement,
    /// Encrypted volumes that pass discards on.
    #[error("Invalid input config: luks discard is not supported in spec v3.3")]
    LuksDiscard,
    /// Options for opening encrypted volumes.
    #[error("Invalid input config: luks openOptions is not supported in spec v3.3")]
    LuksOpenOptions,
    /// Set-user-ID, set-group-ID and sticky bits of files.
    #[error("Invalid input config: special mode bits are not supported in spec v3.3")]
    FileModeBits,
    /// The same of directories.
    #[error("Invalid input config: special mode bits are not supported in spec v3.3")]
    DirectoryModeBits,
    /// Sources that are ARNs.
    #[error("Invalid input config: arn: scheme for s3 is not supported in spec v3.3")]
    Arn,
    /// Kernel arguments.
    #[error("KernelArguments is not supported on 3.2")]
    KernelArguments,
    /// Encrypted volumes.
    #[error("LUKS is not supported on {0}")]
    Luks(Target),
    /// Users that shall not exist.
    #[error("ShouldExist in Passwd.Users is not supported on {0}")]
    UserRemoval(Target),
    /// Groups that shall not exist.
    #[error("ShouldExist in Passwd.Groups is not supported on {0}")]
    GroupRemoval(Target),
    /// Partitions that grow.
    #[error("Resize in Storage.Disks.Partitions is not supported on {0}")]
    Resize(Target),
    /// Partitions whose size and start are said in MiB.
    #[error("SizeMiB and StartMiB in Storage.Disks.Partitions is not supported on 2.2")]
    PartitionSize,
    /// Compressed content at this place.
    #[error("Compression in {0} is not supported on 2.2")]
    Compression(&'static str),
    /// Headers of requests for content at this place.
    #[error("HTTPHeaders in {0} are not supported on 2.2")]
    Headers(&'static str),
    /// Proxies.
    #[error("HTTP proxies in Ignition.Proxy are not supported on 2.2")]
    Proxies,
    /// Options of mounts.
    #[error("MountOptions in Storage.Filesystems is not supported on 2.2")]
    MountOptions,
}

/// A version, as messages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Target {
    /// 3.1.
    #[error("3.1")]
    V3_1,
    /// 2.2.
    #[error("2.2")]
    V2_2,
}

impl Config {
    /// This config in another version.
    ///
    /// # Errors
    /// The config breaks rules, or says something that the other version has no word for.
    pub fn in_version(&self, wanted: Spec) -> Result<Struct, Untranslatable> {
        let config = self.values();
        match wanted {
            Spec::V3_5 => return Ok(written_as(config, Spec::V3_5)),
            Spec::V3_4 => return Ok(config.clone()),
            Spec::V3_0 => return Err(Untranslatable::Version),
            _ => {}
        }
        valid(config, Spec::V3_4)?;
        newer_than_3_3(config)?;
        let config = stepped(config, Spec::V3_3)?;
        if wanted == Spec::V3_3 {
            return Ok(config);
        }
        if ["shouldExist", "shouldNotExist"].iter().any(|list| !entries(&config, "kernelArguments", list).is_empty()) {
            return Err(Unsupported::KernelArguments.into());
        }
        let config = stepped(&config, Spec::V3_2)?;
        match wanted {
            Spec::V3_2 => Ok(config),
            Spec::V2_2 => v2::from_newer(&config),
            _ => {
                older_than_3_2(&config, Target::V3_1)?;
                stepped(&config, Spec::V3_1)
            }
        }
    }
}

fn stepped(config: &Struct, to: Spec) -> Result<Struct, Untranslatable> {
    let new = written_as(config, to);
    let report = validate(&new, to, None);
    if report.is_fatal() { Err(Untranslatable::Result(report)) } else { Ok(new) }
}

fn written_as(config: &Struct, to: Spec) -> Struct {
    let mut new = moved(config, to.root());
    if let Some(Data::Struct(ignition)) = new.get_mut("ignition") {
        ignition.set("version", Data::Text(to.text().to_owned()));
    }
    new
}

fn valid(config: &Struct, spec: Spec) -> Result<(), Untranslatable> {
    let report = validate(config, spec, None);
    if report.is_fatal() { Err(Untranslatable::Invalid(report)) } else { Ok(()) }
}

/// The entries of a list of a section.
pub(crate) fn entries<'c>(config: &'c Struct, section: &str, list: &str) -> &'c [Data] {
    config.child(section).map_or(&[], |section| section.list(list))
}

/// The structs of a list of a section.
pub(crate) fn structs<'c>(config: &'c Struct, section: &str, list: &str) -> impl Iterator<Item = &'c Struct> {
    entries(config, section, list).iter().filter_map(Data::as_struct)
}

/// Refuses what 3.4 brought, wherever it stands.
fn newer_than_3_3(of: &Struct) -> Result<(), Unsupported> {
    match of.of().name.as_str() {
        "Tang" if of.get("advertisement").not_empty().is_some() => return Err(Unsupported::TangAdvertisement),
        "Luks" if of.is_true("discard") => return Err(Unsupported::LuksDiscard),
        "Luks" if !of.list("openOptions").is_empty() => return Err(Unsupported::LuksOpenOptions),
        "File" if special_bits(of) => return Err(Unsupported::FileModeBits),
        "Directory" if special_bits(of) => return Err(Unsupported::DirectoryModeBits),
        "Resource" if of.text("source").is_some_and(is_arn) => return Err(Unsupported::Arn),
        _ => {}
    }
    of.entries().try_for_each(|(_, value)| match value {
        Data::Struct(inner) => newer_than_3_3(inner),
        Data::List(items) => items.iter().filter_map(Data::as_struct).try_for_each(newer_than_3_3),
        _ => Ok(()),
    })
}

fn is_arn(source: &str) -> bool {
    source.split_once(':').is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("arn"))
}

/// Refuses what 3.2 brought.
pub(crate) fn older_than_3_2(config: &Struct, target: Target) -> Result<(), Unsupported> {
    if !entries(config, "storage", "luks").is_empty() {
        return Err(Unsupported::Luks(target));
    }
    let is_removed = |of: &Struct| of.bool("shouldExist") == Some(false);
    if structs(config, "passwd", "users").any(is_removed) {
        return Err(Unsupported::UserRemoval(target));
    }
    if structs(config, "passwd", "groups").any(is_removed) {
        return Err(Unsupported::GroupRemoval(target));
    }
    for partition in structs(config, "storage", "disks").flat_map(|disk| disk.structs("partitions")) {
        if target == Target::V2_2 && (partition.has("sizeMiB") || partition.has("startMiB")) {
            return Err(Unsupported::PartitionSize);
        }
        if partition.is_true("resize") {
            return Err(Unsupported::Resize(target));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use serde_json::{Value, json};

    fn as_version(config: &Value, wanted: Spec) -> Result<Value, String> {
        let config = crate::parse(&config.to_string()).unwrap().config;
        let written = config.in_version(wanted).map_err(|error| error.to_string())?;
        Ok(serde_json::from_str(&written.to_json()).unwrap())
    }

    /// MACH-MCS-01: a plain config is the same in all versions of 3.x, but for its number; one of 2.2 has filesystems and explicit refusals to
    /// overwrite.
    #[test]
    fn plain_configs_are_written_in_every_version() {
        let file = json!({"path": "/etc/a", "mode": 0o600, "overwrite": true, "contents": {"source": "data:,a"}, "user": {"name": "core"}});
        let unit = json!({"name": "a.service", "enabled": true, "contents": "[Service]\nType=oneshot", "dropins": [{"name": "b.conf", "contents": "[Unit]"}]});
        let user = json!({"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 key"]});
        let of = |version: &str| json!({"ignition": {"version": version}, "storage": {"files": [file]}, "systemd": {"units": [unit]}, "passwd": {"users": [user]}});
        let config = of("3.4.0");
        for spec in [Spec::V3_1, Spec::V3_2, Spec::V3_3, Spec::V3_4, Spec::V3_5] {
            assert_eq!(as_version(&config, spec), Ok(of(spec.text())));
        }
        let mut old = of("2.2.0");
        old["storage"]["files"][0]["filesystem"] = json!("root");
        assert_eq!(as_version(&config, Spec::V2_2), Ok(old));
        let mut unsaid = config.clone();
        unsaid["storage"]["files"][0].as_object_mut().unwrap().remove("overwrite");
        assert_eq!(as_version(&unsaid, Spec::V2_2).unwrap()["storage"]["files"][0]["overwrite"], false);
    }

    /// MACH-MCS-01: what a version has no word for is refused, not left out.
    #[test]
    fn nothing_is_left_out() {
        let with = |path: &str, value: Value| {
            let mut config = json!({"ignition": {"version": "3.4.0"}});
            let (section, list) = path.split_once('.').unwrap();
            config[section][list] = value;
            config
        };
        let partition = |more: &str, value: Value| {
            let mut partition = json!({"number": 1, "label": "a"});
            partition[more] = value;
            with("storage.disks", json!([{"device": "/dev/sda", "partitions": [partition]}]))
        };
        let cases = [
            (with("kernelArguments.shouldExist", json!(["quiet"])), Spec::V3_3, None),
            (with("kernelArguments.shouldExist", json!(["quiet"])), Spec::V3_2, Some("KernelArguments is not supported on 3.2")),
            (
                with("storage.luks", json!([{"name": "a", "device": "/dev/a", "discard": true, "clevis": {"tpm2": true}}])),
                Spec::V3_3,
                Some("Invalid input config: luks discard is not supported in spec v3.3"),
            ),
            (with("storage.luks", json!([{"name": "a", "device": "/dev/a", "clevis": {"tpm2": true}}])), Spec::V3_2, None),
            (
                with("storage.luks", json!([{"name": "a", "device": "/dev/a", "clevis": {"tpm2": true}}])),
                Spec::V3_1,
                Some("LUKS is not supported on 3.1"),
            ),
            (
                with("storage.files", json!([{"path": "/a", "mode": 0o4755, "contents": {"source": "data:,"}}])),
                Spec::V3_3,
                Some("Invalid input config: special mode bits are not supported in spec v3.3"),
            ),
            (
                with("passwd.users", json!([{"name": "a", "shouldExist": false}])),
                Spec::V3_1,
                Some("ShouldExist in Passwd.Users is not supported on 3.1"),
            ),
            (partition("sizeMiB", json!(10)), Spec::V3_1, None),
            (partition("sizeMiB", json!(10)), Spec::V2_2, Some("SizeMiB and StartMiB in Storage.Disks.Partitions is not supported on 2.2")),
            (with("ignition.proxy", json!({"httpProxy": "http://proxy"})), Spec::V2_2, Some("unsupported")),
        ];
        for (config, spec, refusal) in cases {
            // The section of the version was replaced by the list's.
            let mut config = config;
            config["ignition"]["version"] = json!("3.4.0");
            match (as_version(&config, spec), refusal) {
                (Ok(written), None) => assert_eq!(written["ignition"]["version"], spec.text()),
                (Err(error), Some("unsupported")) => assert_eq!(error, "HTTP proxies in Ignition.Proxy are not supported on 2.2"),
                (Err(error), Some(wanted)) => assert_eq!(error, wanted),
                (other, wanted) => panic!("{config}: {other:?}, not {wanted:?}"),
            }
        }
    }
}
