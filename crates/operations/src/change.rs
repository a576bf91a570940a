//! Changes of an extension as they are asked for: the same for what shows and for what does.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A change of one extension.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "camelCase")]
pub enum Change {
    /// A package is installed.
    Install(InstallRequest),
    /// Another version or channel.
    #[serde(rename_all = "camelCase")]
    Upgrade {
        /// The extension.
        name: String,
        /// The versions that will do; none lets go of a pin.
        version: Option<String>,
        /// The channels that will do; none leaves them.
        channels: Vec<String>,
        /// The permissions that the account is to have; none leaves an account of the user's alone.
        #[serde(default)]
        grant: Option<InstallerPermissions>,
        /// Whether CRDs may change although objects may lose data; none leaves it as the extension says.
        #[serde(default)]
        crd_safety: Option<CrdSafety>,
    },
    /// Back to an earlier revision.
    #[serde(rename_all = "camelCase")]
    Rollback {
        /// The extension.
        name: String,
        /// The revision; none is the one before.
        to_revision: Option<u32>,
        /// Whether it may be unsafe.
        force: bool,
    },
    /// Removal.
    #[serde(rename_all = "camelCase")]
    Uninstall {
        /// The extension.
        name: String,
        /// Whether its CRDs are kept; none if the request does not say.
        keep_crds: Option<bool>,
        /// Whether it is removed although other extensions need it.
        #[serde(default)]
        even_if_needed: bool,
    },
    /// An extension as a file has it, with the objects beside it in the file.
    #[serde(rename_all = "camelCase")]
    Object {
        /// The ClusterExtension.
        extension: Value,
        /// What is applied before it: namespaces, accounts, roles.
        with: Vec<Value>,
    },
}

/// A request to install a package.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstallRequest {
    /// The package.
    pub package: String,
    /// The extension's name.
    pub name: String,
    /// The channels that will do.
    pub channels: Vec<String>,
    /// The versions that will do.
    pub version: Option<String>,
    /// The only catalog.
    pub catalog: Option<String>,
    /// The namespace; none is what the bundle suggests.
    pub namespace: Option<String>,
    /// The only namespace that is watched.
    pub watch_namespace: Option<String>,
    /// An account that exists.
    pub service_account: Option<String>,
    /// The permissions of the account that is made.
    pub grant: InstallerPermissions,
    /// Whether what it needs is installed in addition.
    #[serde(default)]
    pub with_dependencies: bool,
}

/// The permissions of the installer's account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum InstallerPermissions {
    /// What this bundle needs.
    #[default]
    Minimal,
    /// Everything.
    Admin,
}

/// The treatment of CRD changes through which existing objects may lose data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CrdSafety {
    /// They stop the upgrade.
    Strict,
    /// The plan names them and the objects, and the upgrade goes on, for these bundles and no later ones.
    Warn,
}

impl Change {
    /// The extension's name.
    pub fn extension(&self) -> &str {
        match self {
            Self::Install(request) => &request.name,
            Self::Upgrade { name, .. } | Self::Rollback { name, .. } | Self::Uninstall { name, .. } => name,
            Self::Object { extension, .. } => extension["metadata"]["name"].as_str().unwrap_or_default(),
        }
    }

    /// The package, if it is named.
    pub fn package(&self) -> Option<&str> {
        match self {
            Self::Install(request) => Some(&request.package),
            Self::Object { extension, .. } => extension.pointer("/spec/source/catalog/packageName").and_then(Value::as_str),
            _ => None,
        }
    }

    /// Its name: `install`, `upgrade`.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Install(_) => "install",
            Self::Upgrade { .. } => "upgrade",
            Self::Rollback { .. } => "rollback",
            Self::Uninstall { .. } => "uninstall",
            Self::Object { .. } => "apply",
        }
    }
}
