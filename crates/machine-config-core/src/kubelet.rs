//! KubeletConfig: what a user may set, and the files that are made of it over the configuration before (MACH-MC-06).

mod forms;
mod merge;
mod table;

use mainstay_golang::json_reader::{self, SyntaxError};
use mainstay_golang::typed::Misfit;
use serde_json::{Map, Value, json};

use table::KUBELET_CONFIGURATION;

/// Path of the kubelet's configuration.
pub const KUBELET_CONF: &str = "/etc/kubernetes/kubelet.conf";
/// Path of the file with the level of logs.
pub const LOG_LEVEL: &str = "/etc/systemd/system/kubelet.service.d/20-logging.conf";
/// Path of the file with reserved resources.
pub const NODE_SIZING: &str = "/etc/node-sizing-enabled.env";

const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
const KIND: &str = "KubeletConfiguration";

/// `spec` of a KubeletConfig.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KubeletSpec {
    /// The configuration, as JSON exactly as it was written.
    pub config: Option<String>,
    /// Level of the kubelet's logs.
    pub log_level: Option<i32>,
    /// True if reserved resources are calculated on the node.
    pub auto_sizing: Option<bool>,
}

/// Why a KubeletConfig is not accepted, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KubeletError {
    /// The level of logs is out of range.
    #[error("KubeletConfig's LogLevel is not valid [1,10]: {0}")]
    LogLevel(i32),
    /// The configuration cannot be read.
    #[error("KubeletConfig could not be unmarshalled, err: {0}")]
    Config(#[from] ConfigError),
    /// A field is the cluster's to set.
    #[error("KubeletConfiguration: {field} is not allowed to be set, but contains: {value}")]
    NotAllowed {
        /// The field.
        field: &'static str,
        /// Its value, as Go prints it.
        value: String,
    },
    /// Resources cannot be both calculated and said.
    #[error("KubeletConfiguration: autoSizingReserved and systemdReserved cannot be set together")]
    AutoSizing,
}

/// A configuration that cannot be read, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It is no JSON.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// A field has another type.
    #[error(transparent)]
    Misfit(#[from] Misfit),
}

/// Why there are no files, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilesError {
    /// The configuration before cannot be read.
    #[error("could not deserialize the original Kubelet config: {0}")]
    Original(#[source] ConfigError),
    /// The user's configuration cannot be read.
    #[error("could not deserialize the new Kubelet config: {0}")]
    New(#[source] ConfigError),
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its path.
    pub path: &'static str,
    /// Its content.
    pub text: String,
}

/// The files of a KubeletConfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeletFiles {
    /// The kubelet's configuration.
    pub config: File,
    /// The level of logs, if it is set.
    pub log_level: Option<File>,
    /// Reserved resources, if they are set or calculated.
    pub sizing: Option<File>,
}

/// Checks what a user set: the cluster's own settings would make nodes unreachable.
///
/// # Errors
/// See [`KubeletError`].
pub fn validate(spec: &KubeletSpec) -> Result<(), KubeletError> {
    if let Some(level) = spec.log_level.filter(|level| !(1..=10).contains(level)) {
        return Err(KubeletError::LogLevel(level));
    }
    let Some(config) = &spec.config else { return Ok(()) };
    let config = read(config)?;
    for field in ["cgroupDriver", "clusterDNS", "clusterDomain", "featureGates", "staticPodPath"] {
        // Fields without a value are not written.
        if let Some(value) = config.get(field).filter(|value| !is_empty(value)) {
            return Err(KubeletError::NotAllowed { field, value: mainstay_golang::value::plain(value) });
        }
    }
    if spec.auto_sizing == Some(true) && config.get("systemReserved").is_some_and(|reserved| !is_empty(reserved)) {
        return Err(KubeletError::AutoSizing);
    }
    Ok(())
}

/// Makes the files of a KubeletConfig over the configuration before.
///
/// # Errors
/// A configuration cannot be read.
pub fn files(spec: &KubeletSpec, original: &Value) -> Result<KubeletFiles, FilesError> {
    let mut merged = decode(original).map_err(FilesError::Original)?;
    let mut reserved = Reserved::default();
    if let Some(text) = &spec.config {
        let mut config = read(text).map_err(FilesError::New)?;
        reserved = Reserved::taken(&mut config);
        // Features are set by the cluster's own object.
        config.remove("featureGates");
        // False is written as nothing; this one is true before, and must become false when it is said.
        if text.contains("\"protectKernelDefaults\":false") {
            merged.remove("protectKernelDefaults");
        }
        merge::merge(&mut merged, &config, &KUBELET_CONFIGURATION);
    }
    merged.insert("apiVersion".to_owned(), json!(API_VERSION));
    merged.insert("kind".to_owned(), json!(KIND));
    let log_level = spec.log_level.map(|level| format!("[Service]\nEnvironment=\"KUBELET_LOG_LEVEL={level}\"\n"));
    let sizing = match spec.auto_sizing {
        _ if !reserved.is_empty() => Some(reserved.text(false)),
        Some(auto) => Some(reserved.text(auto)),
        None => None,
    };
    Ok(KubeletFiles {
        config: File { path: KUBELET_CONF, text: mainstay_yaml::to_string(&Value::Object(merged)) },
        log_level: log_level.map(|text| File { path: LOG_LEVEL, text }),
        sizing: sizing.map(|text| File { path: NODE_SIZING, text }),
    })
}

fn read(text: &str) -> Result<Map<String, Value>, ConfigError> {
    decode(&json_reader::parse(text.as_bytes())?)
}

fn decode(value: &Value) -> Result<Map<String, Value>, ConfigError> {
    match KUBELET_CONFIGURATION.from_json(value)? {
        Value::Object(fields) => Ok(fields),
        _ => Ok(Map::new()),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Resources that a user reserves for the system, which go into a file of their own.
#[derive(Default)]
struct Reserved {
    memory: Option<String>,
    cpu: Option<String>,
    storage: Option<String>,
}

impl Reserved {
    /// Takes the resources out of a configuration.
    fn taken(config: &mut Map<String, Value>) -> Self {
        let Some(Value::Object(reserved)) = config.get_mut("systemReserved") else { return Self::default() };
        let mut take = |name: &str| reserved.remove(name).and_then(|value| value.as_str().map(str::to_owned));
        let taken = Self { memory: take("memory"), cpu: take("cpu"), storage: take("ephemeral-storage") };
        if reserved.is_empty() {
            config.remove("systemReserved");
        }
        taken
    }

    fn is_empty(&self) -> bool {
        self.memory.is_none() && self.cpu.is_none() && self.storage.is_none()
    }

    fn text(&self, auto: bool) -> String {
        let or =
            |value: &Option<String>, default: &str| value.clone().filter(|value| !value.is_empty()).unwrap_or_else(|| default.to_owned());
        format!(
            "NODE_SIZING_ENABLED={auto}\nSYSTEM_RESERVED_MEMORY={}\nSYSTEM_RESERVED_CPU={}\nSYSTEM_RESERVED_ES={}\n",
            or(&self.memory, "1Gi"),
            or(&self.cpu, "500m"),
            or(&self.storage, "1Gi")
        )
    }
}
