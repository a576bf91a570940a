//! Changes of an extension as they are asked for. Previews and execution use the same values.

use mainstay_lifecycle::removal::Choices;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A change of one extension.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "camelCase")]
pub enum Change {
    /// Installation of a package.
    Install(InstallRequest),
    /// Change to another version or channel.
    #[serde(rename_all = "camelCase")]
    Upgrade {
        /// The extension.
        name: String,
        /// The acceptable versions; `None` removes a pin.
        version: Option<String>,
        /// The channels to follow; an empty list leaves them as they are.
        channels: Vec<String>,
        /// The permissions to grant to the account; `None` leaves an account of the user's own as it is.
        #[serde(default)]
        grant: Option<InstallerPermissions>,
        /// Treatment of CRD changes through which objects may lose data; `None` leaves it as the extension says.
        #[serde(default)]
        crd_safety: Option<CrdSafety>,
    },
    /// Return to an earlier revision.
    #[serde(rename_all = "camelCase")]
    Rollback {
        /// The extension.
        name: String,
        /// The bundle to go back to.
        #[serde(flatten)]
        to: Destination,
        /// Goes on although the rollback is unsafe.
        force: bool,
    },
    /// Staying at the installed version.
    #[serde(rename_all = "camelCase")]
    Pin {
        /// The extension.
        name: String,
    },
    /// Removal.
    #[serde(rename_all = "camelCase")]
    Uninstall {
        /// The extension.
        name: String,
        /// The choices of the request.
        #[serde(flatten)]
        choices: Choices,
    },
    /// An extension as it stands in a file, with the objects beside it.
    #[serde(rename_all = "camelCase")]
    Object {
        /// The ClusterExtension.
        extension: Value,
        /// The objects that are applied before it: namespaces, accounts, roles.
        with: Vec<Value>,
    },
}

/// The bundle that a rollback leads to; without a revision or a version, the one that was installed before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Destination {
    /// The bundle of a revision in the history.
    pub to_revision: Option<u32>,
    /// The bundle of a version, in the history or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_version: Option<String>,
}

/// A request to install a package.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstallRequest {
    /// The package.
    pub package: String,
    /// The extension's name.
    pub name: String,
    /// The channels to follow.
    pub channels: Vec<String>,
    /// The acceptable versions.
    pub version: Option<String>,
    /// The only catalog to choose from.
    pub catalog: Option<String>,
    /// The namespace; `None` is the one that the bundle suggests.
    pub namespace: Option<String>,
    /// The only namespace that the operator watches.
    pub watch_namespace: Option<String>,
    /// An existing service account.
    pub service_account: Option<String>,
    /// The permissions of the account that is created.
    pub grant: InstallerPermissions,
    /// Installs missing dependencies in addition.
    #[serde(default)]
    pub with_dependencies: bool,
}

/// The permissions of the installer's account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum InstallerPermissions {
    /// The permissions that this bundle needs.
    #[default]
    Minimal,
    /// All permissions.
    Admin,
}

/// The treatment of CRD changes through which existing objects may lose data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CrdSafety {
    /// Lossy changes stop the upgrade.
    Strict,
    /// The plan names them and the objects, and the upgrade goes on, for these bundles and no later ones.
    Warn,
}

impl Change {
    /// Returns the extension's name.
    pub fn extension(&self) -> &str {
        match self {
            Self::Install(request) => &request.name,
            Self::Upgrade { name, .. } | Self::Rollback { name, .. } | Self::Pin { name } | Self::Uninstall { name, .. } => name,
            Self::Object { extension, .. } => extension["metadata"]["name"].as_str().unwrap_or_default(),
        }
    }

    /// Returns the package, if the change names one.
    pub fn package(&self) -> Option<&str> {
        match self {
            Self::Install(request) => Some(&request.package),
            Self::Object { extension, .. } => extension.pointer("/spec/source/catalog/packageName").and_then(Value::as_str),
            _ => None,
        }
    }

    /// Returns the name of the operation: `install`, `upgrade`.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Install(_) => "install",
            Self::Upgrade { .. } => "upgrade",
            Self::Rollback { .. } => "rollback",
            Self::Pin { .. } => "pin",
            Self::Uninstall { .. } => "uninstall",
            Self::Object { .. } => "apply",
        }
    }
}
