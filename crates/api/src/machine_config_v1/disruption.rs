//! MachineConfiguration: settings of the Machine Config Operator, node disruption policies above all (MACH-DISR-06).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::condition::Condition;

/// Rules of a service or unit: rule and message.
const SERVICE: [(&str, &str); 2] = [
    (
        r"self.matches('\\.(service|socket|device|mount|automount|swap|target|path|timer|snapshot|slice|scope)$')",
        r#"Invalid ${SERVICETYPE} in service name. Expected format is ${NAME}${SERVICETYPE}, where ${SERVICETYPE} must be one of ".service", ".socket", ".device", ".mount", ".automount", ".swap", ".target", ".path", ".timer",".snapshot", ".slice" or ".scope"."#,
    ),
    (
        r"self.matches('^[a-zA-Z0-9:._\\\\-]+\\..')",
        r#"Invalid ${NAME} in service name. Expected format is ${NAME}${SERVICETYPE}, where {NAME} must be atleast 1 character long and can only consist of alphabets, digits, ":", "-", "_", ".", and "\""#,
    ),
];

/// The name of a service or unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, extend("maxLength" = 255, "x-kubernetes-validations" = [
    {"rule": SERVICE[0].0, "message": SERVICE[0].1}, {"rule": SERVICE[1].0, "message": SERVICE[1].1}]))]
pub struct ServiceName(pub String);

/// A service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    /// Its name.
    pub service_name: ServiceName,
}

macro_rules! action {
    ($(#[$doc:meta])* $name:ident $list:ident, $types:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[schemars(extend("x-kubernetes-validations" = [
            {"rule": "has(self.type) && self.type == 'Reload' ? has(self.reload) : !has(self.reload)",
             "message": "reload is required when type is Reload, and forbidden otherwise"},
            {"rule": "has(self.type) && self.type == 'Restart' ? has(self.restart) : !has(self.restart)",
             "message": "restart is required when type is Restart, and forbidden otherwise"}]))]
        pub struct $name {
            /// Its type.
            #[serde(rename = "type")]
            #[schemars(extend("enum" = $types))]
            pub kind: String,
            /// The service that reads its configuration again.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub reload: Option<Service>,
            /// The service that is restarted.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub restart: Option<Service>,
        }

        /// Actions, in their order.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        #[schemars(inline, extend("maxItems" = 10, "x-kubernetes-list-type" = "atomic", "x-kubernetes-validations" = [
            {"rule": "self.exists(x, x.type=='Reboot') ? size(self) == 1 : true",
             "message": "Reboot action can only be specified standalone, as it will override any other actions"},
            {"rule": "self.exists(x, x.type=='None') ? size(self) == 1 : true",
             "message": "None action can only be specified standalone, as it will override any other actions"}]))]
        pub struct $list(pub Vec<$name>);
    };
}

action! {
    /// An action that a user asks for.
    Action Actions, ["Reboot", "Drain", "Reload", "Restart", "DaemonReload", "None"]
}
action! {
    /// An action of the cluster's policies.
    StatusAction StatusActions, ["Reboot", "Drain", "Reload", "Restart", "DaemonReload", "None", "Special"]
}

macro_rules! policies {
    ($(#[$doc:meta])* $policies:ident, $file:ident $unit:ident $key:ident, $actions:ident, $most:literal) => {
        /// The actions when a file, or one below a directory, changes.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub struct $file {
            /// The file or directory.
            pub path: String,
            /// The actions.
            pub actions: $actions,
        }

        /// The actions when a unit changes.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub struct $unit {
            /// The unit.
            pub name: ServiceName,
            /// The actions.
            pub actions: $actions,
        }

        /// The actions when SSH keys change.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub struct $key {
            /// The actions.
            pub actions: $actions,
        }

        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub struct $policies {
            /// Policies of files.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            #[schemars(length(max = $most), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["path"]))]
            pub files: Vec<$file>,
            /// Policies of units.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            #[schemars(length(max = $most), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            pub units: Vec<$unit>,
            /// The policy of SSH keys.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub sshkey: Option<$key>,
        }
    };
}

policies! {
    /// A user's node disruption policies.
    NodeDisruptionPolicy, FilePolicy UnitPolicy SshKeyPolicy, Actions, 50
}
policies! {
    /// The node disruption policies of the cluster: a user's over the defaults.
    ClusterPolicies, FileStatusPolicy UnitStatusPolicy SshKeyStatusPolicy, StatusActions, 100
}

/// Settings of the operator. Further fields of the kind are kept as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct MachineConfigurationSpec {
    /// The management state: `Managed`, `Unmanaged`, `Force` or `Removed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^(Managed|Unmanaged|Force|Removed)$"))]
    pub management_state: Option<String>,
    /// Level of the logs of operands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Normal", "enum" = ["", "Normal", "Debug", "Trace", "TraceAll"]))]
    pub log_level: Option<String>,
    /// Level of the operator's logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Normal", "enum" = ["", "Normal", "Debug", "Trace", "TraceAll"]))]
    pub operator_log_level: Option<String>,
    /// Settings that the operator found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "std::collections::BTreeMap<String, Value>", extend("additionalProperties" = null, "x-kubernetes-preserve-unknown-fields" = true, "x-nullable" = true))]
    pub observed_config: Option<Value>,
    /// Overrides without support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "std::collections::BTreeMap<String, Value>", extend("additionalProperties" = null, "x-kubernetes-preserve-unknown-fields" = true, "x-nullable" = true))]
    pub unsupported_config_overrides: Option<Value>,
    /// A text whose change starts another roll-out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_redeployment_reason: Option<String>,
    /// Number of failed revisions that are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_revision_limit: Option<i32>,
    /// Number of succeeded revisions that are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded_revision_limit: Option<i32>,
    /// The policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_disruption_policy: Option<NodeDisruptionPolicy>,
}

/// The state of the settings. Further fields of the kind are kept as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct MachineConfigurationStatus {
    /// The generation that was last acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The policies that count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_disruption_policy_status: Option<NodeDisruptionPolicyStatus>,
}

/// The policies that count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeDisruptionPolicyStatus {
    /// A user's policies over the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_policies: Option<ClusterPolicies>,
}
