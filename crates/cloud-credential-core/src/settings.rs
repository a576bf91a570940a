//! The settings of the whole cluster: the mode, the platform, and whether tokens open the cloud (OLM0-TOKEN-03, COP-CRED-02).

use serde_json::Value;

use crate::Cloud;

/// The mode in which credentials are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// As the root Secret allows.
    #[default]
    Default,
    /// By somebody else, unless tokens open the cloud.
    Manual,
    /// The provider makes limited credentials.
    Mint,
    /// The root credentials are copied.
    Passthrough,
}

impl Mode {
    /// The name in CloudCredential.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "",
            Self::Manual => "Manual",
            Self::Mint => "Mint",
            Self::Passthrough => "Passthrough",
        }
    }
}

/// Why the settings are not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// An object is not there.
    #[error("{0} cluster not found")]
    Missing(&'static str),
    /// The mode is none that is known.
    #[error("CloudCredential cluster: spec.credentialsMode: unknown mode {0:?}; there are Manual, Mint, Passthrough and the empty one")]
    Mode(String),
    /// The ConfigMap of older releases disagrees with CloudCredential.
    #[error(
        "ConfigMap openshift-cloud-credential-operator/cloud-credential-operator-config disables what CloudCredential cluster wants in mode {0:?}: delete its key disabled"
    )]
    Conflict(&'static str),
}

/// The settings of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The mode in which credentials are made.
    pub mode: Mode,
    /// The issuer of service account tokens, if the cluster has one of its own.
    pub issuer: Option<String>,
    /// The name of the platform.
    pub platform: String,
    /// The name of the cluster in the cloud.
    pub infrastructure: String,
    /// The resource version of Infrastructure.
    pub infrastructure_version: String,
    /// The domain of Google's services.
    pub universe: Option<String>,
    /// The minor version that an administrator allowed an update to.
    pub upgradeable_to: Option<String>,
}

impl Settings {
    /// Reads the settings from CloudCredential, Authentication, Infrastructure, and the ConfigMap of older releases.
    ///
    /// # Errors
    /// An object is missing, or they contradict each other.
    pub fn read(
        credential: Option<&Value>,
        authentication: Option<&Value>,
        infrastructure: Option<&Value>,
        legacy: Option<&Value>,
    ) -> Result<Self, SettingsError> {
        let credential = credential.ok_or(SettingsError::Missing("CloudCredential"))?;
        let infrastructure = infrastructure.ok_or(SettingsError::Missing("Infrastructure"))?;
        let text = |object: &Value, pointer: &str| {
            object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let mode = match text(credential, "/spec/credentialsMode").as_deref() {
            None => Mode::Default,
            Some("Manual") => Mode::Manual,
            Some("Mint") => Mode::Mint,
            Some("Passthrough") => Mode::Passthrough,
            Some(other) => return Err(SettingsError::Mode(other.to_owned())),
        };
        let disabled = legacy.is_some_and(|legacy| legacy.pointer("/data/disabled").and_then(Value::as_str) == Some("true"));
        let mode = match (mode, disabled) {
            (Mode::Default, true) => Mode::Manual,
            (mode @ (Mode::Mint | Mode::Passthrough), true) => return Err(SettingsError::Conflict(mode.name())),
            (mode, _) => mode,
        };
        let platform = text(infrastructure, "/status/platformStatus/type").or_else(|| text(infrastructure, "/status/platform"));
        Ok(Self {
            mode,
            issuer: authentication.and_then(|object| text(object, "/spec/serviceAccountIssuer")),
            platform: platform.unwrap_or_else(|| "None".to_owned()),
            infrastructure: text(infrastructure, "/status/infrastructureName").unwrap_or_default(),
            infrastructure_version: text(infrastructure, "/metadata/resourceVersion").unwrap_or_default(),
            universe: text(infrastructure, "/status/platformStatus/gcp/universeDomain"),
            upgradeable_to: credential
                .pointer("/metadata/annotations")
                .and_then(|all| all.get(crate::UPGRADEABLE_TO))
                .and_then(Value::as_str)
                .map(str::to_owned),
        })
    }

    /// Returns true if tokens of service accounts open the cloud (OLM0-TOKEN-03).
    pub fn is_token_mode(&self) -> bool {
        self.mode == Mode::Manual && self.issuer.is_some()
    }

    /// The cloud of the platform.
    pub fn cloud(&self) -> Option<Cloud> {
        Cloud::of_platform(&self.platform)
    }
}
