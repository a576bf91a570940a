//! Node disruption policies: what is done when a file, a unit or the SSH keys change (MACH-DISR-06).

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use crate::machine_config::or_default;

/// Something that is done after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    None,
    /// The node is drained.
    Drain,
    /// A service reads its configuration again.
    Reload(String),
    /// A service is restarted.
    Restart(String),
    /// systemd reads its units again.
    DaemonReload,
    /// The node is drained and rebooted.
    Reboot,
    /// CRI-O reads its registries again, after a drain if their change asks for one. No user can ask for it.
    Special,
}

/// The task of a service manager with a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// To let it read its configuration again.
    Reload,
    /// To restart it.
    Restart,
}

impl std::fmt::Display for Verb {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Verb::Reload => "reload",
            Verb::Restart => "restart",
        })
    }
}

/// The service that reads registries.
const REGISTRIES_SERVICE: &str = "crio";

impl Action {
    /// The verb and the service of an action that is one of a service.
    pub fn of_service(&self) -> Option<(Verb, &str)> {
        match self {
            Action::Reload(service) => Some((Verb::Reload, service)),
            Action::Restart(service) => Some((Verb::Restart, service)),
            Action::Special => Some((Verb::Reload, REGISTRIES_SERVICE)),
            Action::None | Action::Drain | Action::DaemonReload | Action::Reboot => None,
        }
    }

    /// The verb, and the service or what stands for it in upstream's sentences.
    pub(crate) fn told_as(&self) -> Option<(Verb, &str)> {
        if *self == Action::DaemonReload { Some((Verb::Reload, "daemon-reload")) } else { self.of_service() }
    }

    fn kind(&self) -> &'static str {
        match self {
            Action::None => "None",
            Action::Drain => "Drain",
            Action::Reload(_) => "Reload",
            Action::Restart(_) => "Restart",
            Action::DaemonReload => "DaemonReload",
            Action::Reboot => "Reboot",
            Action::Special => "Special",
        }
    }

    /// The action as it stands in an object.
    pub fn to_value(&self) -> Value {
        match self {
            Action::Reload(service) => json!({"type": "Reload", "reload": {"serviceName": service}}),
            Action::Restart(service) => json!({"type": "Restart", "restart": {"serviceName": service}}),
            other => json!({"type": other.kind()}),
        }
    }
}

impl std::fmt::Display for Action {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Action::Reload(service) => write!(out, "reload {service}"),
            Action::Restart(service) => write!(out, "restart {service}"),
            Action::None => out.write_str("none"),
            Action::Drain => out.write_str("drain"),
            Action::DaemonReload => out.write_str("daemon-reload"),
            Action::Reboot => out.write_str("drain and reboot"),
            Action::Special => out.write_str("reload crio.service"),
        }
    }
}

impl Serialize for Action {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(to)
    }
}

/// An action that a user cannot ask for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The type is unknown.
    #[error("action type {0:?} is none of None, Drain, Reload, Restart, DaemonReload and Reboot")]
    Type(String),
    /// A service is missing.
    #[error("action {kind} needs {field}.serviceName")]
    Service {
        /// The type.
        kind: &'static str,
        /// The field.
        field: &'static str,
    },
}

#[derive(Deserialize)]
struct Service {
    #[serde(rename = "serviceName", default)]
    name: String,
}

#[derive(Deserialize)]
struct WrittenAction {
    #[serde(rename = "type", default)]
    kind: String,
    reload: Option<Service>,
    restart: Option<Service>,
}

impl TryFrom<WrittenAction> for Action {
    type Error = PolicyError;

    fn try_from(written: WrittenAction) -> Result<Self, PolicyError> {
        let missing = |kind, field| PolicyError::Service { kind, field };
        Ok(match written.kind.as_str() {
            "None" => Action::None,
            "Drain" => Action::Drain,
            "DaemonReload" => Action::DaemonReload,
            "Reboot" => Action::Reboot,
            // No user can ask for it: the definition of the kind refuses it in a user's policy.
            "Special" => Action::Special,
            "Reload" => Action::Reload(written.reload.ok_or_else(|| missing("Reload", "reload"))?.name),
            "Restart" => Action::Restart(written.restart.ok_or_else(|| missing("Restart", "restart"))?.name),
            _ => return Err(PolicyError::Type(written.kind)),
        })
    }
}

impl<'de> Deserialize<'de> for Action {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Action::try_from(WrittenAction::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// The actions when a file, or one below a directory, changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FilePolicy {
    /// The file or directory.
    pub path: String,
    /// The actions.
    #[serde(deserialize_with = "or_default")]
    pub actions: Vec<Action>,
}

/// The actions when a unit changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnitPolicy {
    /// The unit.
    pub name: String,
    /// The actions.
    #[serde(deserialize_with = "or_default")]
    pub actions: Vec<Action>,
}

/// The actions when SSH keys change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SshKeyPolicy {
    /// The actions.
    #[serde(deserialize_with = "or_default")]
    pub actions: Vec<Action>,
}

/// A user's policies, or those of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policies {
    /// Policies of files.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FilePolicy>,
    /// Policies of units.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<UnitPolicy>,
    /// The policy of SSH keys.
    #[serde(deserialize_with = "or_default")]
    pub sshkey: SshKeyPolicy,
}

/// The files and directories of a cluster's own policies.
pub mod paths {
    /// Credentials of the kubelet for registries.
    pub const KUBELET_AUTH: &str = "/var/lib/kubelet/config.json";
    /// The CA that the kubelet trusts.
    pub const KUBELET_CA: &str = "/etc/kubernetes/kubelet-ca.crt";
    /// Keys for signatures of images, changes of which need no reboot.
    pub const GPG_NO_REBOOT: &str = "/etc/machine-config-daemon/no-reboot/containers-gpg.pub";
    /// The policy about signatures of images.
    pub const POLICY: &str = "/etc/containers/policy.json";
    /// Registries and their mirrors.
    pub const REGISTRIES: &str = "/etc/containers/registries.conf";
    /// Where signatures of images are.
    pub const SIGSTORE: &str = "/etc/containers/registries.d";
    /// CRI-O's policies of namespaces.
    pub const CRIO_POLICIES: &str = "/etc/crio/policies";
    /// Network configuration.
    pub const NMSTATE: &str = "/etc/nmstate/openshift";
    /// CAs that a user trusts.
    pub const USER_CA: &str = "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt";
}

const CRIO: &str = "crio.service";

/// The policies that each cluster has.
pub fn defaults() -> Policies {
    let file = |path: &str, actions: Vec<Action>| FilePolicy { path: path.to_owned(), actions };
    let reload = || vec![Action::Reload(CRIO.to_owned())];
    let restart = |service: &str| Action::Restart(service.to_owned());
    Policies {
        files: vec![
            file(paths::KUBELET_AUTH, vec![Action::None]),
            file(paths::GPG_NO_REBOOT, reload()),
            file(paths::POLICY, reload()),
            file(paths::REGISTRIES, vec![Action::Special]),
            file(paths::SIGSTORE, reload()),
            file(paths::CRIO_POLICIES, reload()),
            file(paths::NMSTATE, vec![Action::None]),
            file(paths::USER_CA, vec![restart("coreos-update-ca-trust.service"), restart(CRIO)]),
        ],
        units: Vec::new(),
        sshkey: SshKeyPolicy { actions: vec![Action::None] },
    }
}

/// The cluster's policies with a user's over them: one of the same path replaces, others are added.
pub fn merged(user: &Policies) -> Policies {
    let mut merged = defaults();
    let own = merged.files.len();
    for policy in &user.files {
        match merged.files[..own].iter().position(|default| default.path == policy.path) {
            Some(index) => merged.files[index] = policy.clone(),
            None => merged.files.push(policy.clone()),
        }
    }
    merged.units.clone_from(&user.units);
    if !user.sshkey.actions.is_empty() {
        merged.sshkey = user.sshkey.clone();
    }
    merged
}

impl Policies {
    /// The policy of the longest path that is the file's, or that of a directory above it.
    pub fn of_file(&self, path: &str) -> Option<&FilePolicy> {
        let clean = clean(path);
        let mut found: Option<&FilePolicy> = None;
        for policy in &self.files {
            let covers = policy.path == path || clean.starts_with(&format!("{}/", self::clean(&policy.path)));
            if covers && policy.path.len() > found.map_or(0, |found| found.path.len()) {
                found = Some(policy);
            }
        }
        found
    }

    /// The first policy of a unit.
    pub fn of_unit(&self, name: &str) -> Option<&UnitPolicy> {
        self.units.iter().find(|policy| policy.name == name)
    }
}

/// A path without dots and doubled slashes, as Go's `filepath.Clean` has it.
pub(crate) fn clean(path: &str) -> String {
    mainstay_ignition::clean_path(path)
}
