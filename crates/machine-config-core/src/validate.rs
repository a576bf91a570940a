//! Validation of one MachineConfig, as the render controller does it before it merges any.

use mainstay_ignition::{Config, Report, Struct, v2};

use crate::ignition::{ParseError, Parsed, parse};
use crate::machine_config::MachineConfigSpec;

/// Extensions that can be asked for, and the packages that each stands for.
pub const EXTENSIONS: [(&str, &[&str]); 8] = [
    ("ipsec", &["NetworkManager-libreswan", "libreswan"]),
    ("kerberos", &["krb5-workstation", "libkadm5"]),
    ("kernel-devel", &["kernel-devel", "kernel-headers"]),
    ("sandboxed-containers", &["kata-containers"]),
    ("sysstat", &["sysstat"]),
    ("two-node-ha", &["pacemaker", "pcs", "fence-agents-all"]),
    ("usbguard", &["usbguard"]),
    ("wasm", &["crun-wasm"]),
];

/// The fault in a MachineConfig, in upstream's words.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ValidationError {
    /// The type of the kernel is unknown.
    #[error("kernelType={0} is invalid")]
    KernelType(String),
    /// The Ignition config cannot be read.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The Ignition config breaks rules.
    #[error(transparent)]
    Ignition(#[from] IgnitionError),
    /// Extensions are unknown.
    #[error("invalid extensions found: [{}]", .0.join(" "))]
    Extensions(Vec<String>),
}

/// The fault in an Ignition config that was read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum IgnitionError {
    /// Rules of 3.4.
    #[error("invalid ignition V3 config found: {0}")]
    Current(Report),
    /// Rules of 2.2.
    #[error("invalid ignition V2 config found: {0}")]
    Old(v2::Report),
    /// A mode has bits that the operator does not set.
    #[error("invalid mode {mode} for {path}, cannot exceed 0777", mode = octal(*.mode))]
    Mode {
        /// The mode.
        mode: i64,
        /// The file.
        path: String,
    },
}

/// A number in octal as Go's `%#o` writes it.
fn octal(number: i64) -> String {
    if number < 0 { format!("-0{:o}", number.unsigned_abs()) } else { format!("0{number:o}") }
}

/// Checks a MachineConfig.
pub fn validate(spec: &MachineConfigSpec) -> Result<(), ValidationError> {
    if !matches!(spec.kernel_type.as_str(), "" | "default" | "realtime" | "64k-pages") {
        return Err(ValidationError::KernelType(spec.kernel_type.clone()));
    }
    let Some(text) = &spec.ignition else { return Ok(()) };
    match parse(text)? {
        Parsed::Current(config) => validate_ignition(&config)?,
        Parsed::Old(config) => validate_old(&config)?,
    }
    let unknown: Vec<String> = spec.extensions.iter().filter(|name| !EXTENSIONS.iter().any(|(known, _)| known == name)).cloned().collect();
    if unknown.is_empty() { Ok(()) } else { Err(ValidationError::Extensions(unknown)) }
}

/// Checks an Ignition config of 3.4 that was read, and maybe merged.
pub fn validate_ignition(config: &Config) -> Result<(), IgnitionError> {
    let report = mainstay_ignition::validate(config);
    if report.is_fatal() {
        return Err(IgnitionError::Current(report));
    }
    modes_fit(config.files())
}

fn validate_old(config: &v2::Config) -> Result<(), IgnitionError> {
    let report = v2::validate(config);
    if report.is_fatal() {
        return Err(IgnitionError::Old(report));
    }
    modes_fit(config.values().child("storage").into_iter().flat_map(|storage| storage.structs("files")))
}

fn modes_fit<'f>(mut files: impl Iterator<Item = &'f Struct>) -> Result<(), IgnitionError> {
    let too_high = files.find_map(|file| Some((file.int("mode").filter(|mode| *mode > 0o777)?, file)));
    match too_high {
        Some((mode, file)) => Err(IgnitionError::Mode { mode, path: file.text_or_empty("path").to_owned() }),
        None => Ok(()),
    }
}
