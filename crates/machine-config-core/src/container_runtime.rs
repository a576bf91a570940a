//! ContainerRuntimeConfig: what a user may set, and the files that are made of it: one drop-in of CRI-O for each setting, and storage.conf
//! (MACH-MC-06).

mod storage;

use mainstay_golang::quote;
use mainstay_schema::quantity::{Quantity, QuantityError, written};

use crate::toml::{self, ReadError, Toml};

pub use storage::storage_conf;

const LOG_LEVEL: &str = "/etc/crio/crio.conf.d/01-ctrcfg-logLevel";
const PIDS_LIMIT: &str = "/etc/crio/crio.conf.d/01-ctrcfg-pidsLimit";
const LOG_SIZE_MAX: &str = "/etc/crio/crio.conf.d/01-ctrcfg-logSizeMax";
const DEFAULT_RUNTIME: &str = "/etc/crio/crio.conf.d/01-ctrcfg-defaultRuntime";

const LEAST_PIDS: i64 = 20;
const LARGEST_USELESS_LOG: i64 = 8192;
const LOG_LEVELS: [&str; 7] = ["error", "fatal", "panic", "warn", "info", "debug", "trace"];
const RUNTIMES: [&str; 2] = ["crun", "runc"];

/// An amount of bytes, with the text that Kubernetes keeps of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Size {
    text: String,
    bytes: i64,
}

impl Size {
    /// Reads a quantity.
    ///
    /// # Errors
    /// The text is no quantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let amount = Quantity::parse(text)?;
        // Upstream reads an amount that does not fit as 0.
        let fits = Quantity::from_int(i64::MIN) <= amount && amount <= Quantity::from_int(i64::MAX);
        Ok(Self { text: written(text)?, bytes: if fits { amount.to_int() } else { 0 } })
    }
}

/// `spec.containerRuntimeConfig` of a ContainerRuntimeConfig.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuntimeSpec {
    /// The most processes of a container.
    pub pids_limit: Option<i64>,
    /// Level of CRI-O's logs; empty if not set.
    pub log_level: String,
    /// The largest size of a container's log.
    pub log_size_max: Option<Size>,
    /// The size of a container's root file system.
    pub overlay_size: Option<Size>,
    /// The runtime; empty if not set.
    pub default_runtime: String,
}

/// Why a ContainerRuntimeConfig is not accepted, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeError {
    /// Too few processes.
    #[error("invalid PidsLimit {0}")]
    PidsLimit(i64),
    /// Logs that hold nothing.
    #[error("invalid LogSizeMax {}, cannot be less than 8kB", quote(.0))]
    LogSizeMax(String),
    /// A negative size.
    #[error("invalid overlaySize {}, cannot be less than 0", quote(.0))]
    OverlaySize(String),
    /// A level that does not exist.
    #[error("invalid LogLevel {}, must be one of error, fatal, panic, warn, info, debug, or trace", quote(.0))]
    LogLevel(String),
    /// A runtime that does not exist.
    #[error("invalid DefaultRuntime {}, must be one of crun, runc", quote(.0))]
    DefaultRuntime(String),
}

/// Why storage.conf cannot be made, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// The file before cannot be read.
    #[error("error decoding crio config: {0}")]
    Base(#[from] ReadError),
    /// A negative size.
    #[error("invalid overlaySize config {}: the overlaySize should be larger than 0", quote(.0))]
    OverlaySize(String),
}

/// Checks what a user set.
///
/// # Errors
/// See [`RuntimeError`].
pub fn validate(spec: &RuntimeSpec) -> Result<(), RuntimeError> {
    if let Some(limit) = spec.pids_limit.filter(|limit| *limit != 0 && *limit < LEAST_PIDS) {
        return Err(RuntimeError::PidsLimit(limit));
    }
    if let Some(size) = spec.log_size_max.as_ref().filter(|size| (1..=LARGEST_USELESS_LOG).contains(&size.bytes)) {
        return Err(RuntimeError::LogSizeMax(size.text.clone()));
    }
    if let Some(size) = spec.overlay_size.as_ref().filter(|size| size.bytes < 0) {
        return Err(RuntimeError::OverlaySize(size.text.clone()));
    }
    if !spec.log_level.is_empty() && !LOG_LEVELS.contains(&spec.log_level.as_str()) {
        return Err(RuntimeError::LogLevel(spec.log_level.clone()));
    }
    if !spec.default_runtime.is_empty() && !RUNTIMES.contains(&spec.default_runtime.as_str()) {
        return Err(RuntimeError::DefaultRuntime(spec.default_runtime.clone()));
    }
    Ok(())
}

/// Returns paths and contents of CRI-O's drop-ins. Each setting has a file of its own, so that what is not set keeps its default.
pub fn drop_ins(spec: &RuntimeSpec) -> Vec<(&'static str, String)> {
    let text = |value: &str| (!value.is_empty()).then(|| Toml::Text(value.to_owned()));
    let settings = [
        (LOG_LEVEL, "log_level", text(&spec.log_level)),
        (PIDS_LIMIT, "pids_limit", spec.pids_limit.map(Toml::Int)),
        (LOG_SIZE_MAX, "log_size_max", spec.log_size_max.as_ref().filter(|size| size.bytes != 0).map(|size| Toml::Int(size.bytes))),
        (DEFAULT_RUNTIME, "default_runtime", text(&spec.default_runtime)),
    ];
    let file = |(path, name, value): (&'static str, &str, Option<Toml>)| {
        let runtime = Toml::Table(vec![(name.to_owned(), value?)]);
        let crio = Toml::Table(vec![("runtime".to_owned(), runtime)]);
        Some((path, toml::document(&vec![("crio".to_owned(), crio)])))
    };
    settings.into_iter().filter_map(file).collect()
}
