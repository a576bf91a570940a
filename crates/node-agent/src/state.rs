//! The memory of the agent on the tree itself.

use jiff::Timestamp;
use mainstay_machine_config_core::daemon::Disk;
use mainstay_machine_config_core::layout::{CURRENT_CONFIG, Edit, File, Target};
use mainstay_machine_config_core::machine_config::MachineConfig;
use mainstay_machine_config_core::policy::Action;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Error;
use crate::error::KeptProblem;
use crate::root::Root;

/// The file of it.
pub(crate) const STATE: &str = "/etc/machine-config-daemon/node-agent.json";
const PRIVATE: u32 = 0o600;

/// The memory of the agent: what a node's disk has beside its files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct State {
    /// The system that ran when the last step was done.
    pub boot_id: String,
    /// Actions that the last write still needs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<Action>,
    /// Beginning of the reboot that is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebooting_since: Option<Timestamp>,
    /// Time at which the drain or uncordoning that is waited for was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<Timestamp>,
    /// Digest of the authority that the kubelet trusts, as the ControllerConfig had it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet_ca: Option<String>,
}

impl State {
    pub(crate) fn of(disk: &Disk) -> Self {
        Self {
            boot_id: disk.boot_id.clone(),
            pending: disk.pending.clone(),
            rebooting_since: disk.rebooting_since,
            asked: disk.asked,
            kubelet_ca: disk.kubelet_ca.clone(),
        }
    }

    pub(crate) fn read(root: &Root) -> Result<Self, Error> {
        match root.read(STATE)? {
            None => Ok(Self::default()),
            Some(text) => serde_json::from_slice(&text).map_err(|error| Error::Kept { path: STATE, problem: error.into() }),
        }
    }

    pub(crate) fn edit(&self) -> Result<Edit, Error> {
        Ok(Edit { path: STATE.to_owned(), to: Target::File(File::plain(PRIVATE, pretty(&serde_json::to_value(self)?))) })
    }
}

/// The configuration that was written last; none before the first one.
pub(crate) fn current_config(root: &Root) -> Result<Option<MachineConfig>, Error> {
    let Some(text) = root.read(CURRENT_CONFIG)? else { return Ok(None) };
    let failed = |problem: KeptProblem| Error::Kept { path: CURRENT_CONFIG, problem };
    let object: Value = serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
    Ok(Some(MachineConfig::from_object(&object).map_err(|error| failed(error.into()))?))
}

/// The edit that keeps a configuration as the one that was written last.
pub(crate) fn current_config_edit(config: &MachineConfig) -> Edit {
    let object = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": config.name, "labels": config.labels}, "spec": config.spec.to_object(),
    });
    Edit { path: CURRENT_CONFIG.to_owned(), to: Target::File(File::plain(PRIVATE, pretty(&object))) }
}

pub(crate) fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}
