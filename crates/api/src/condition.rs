//! Status conditions, as every group of the project uses them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One aspect of an object's state. The limits are those of Kubernetes' `metav1.Condition`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which aspect, in CamelCase.
    #[serde(rename = "type")]
    #[schemars(
        length(max = 316),
        regex(
            pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        )
    )]
    pub kind: String,
    /// Whether it holds.
    pub status: Status,
    /// Why, in CamelCase, for programs.
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    pub reason: String,
    /// Why, for people; may be empty.
    #[schemars(length(max = 32768))]
    pub message: String,
    /// When the status changed last.
    pub last_transition_time: Time,
    /// The `metadata.generation` that the condition speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[allow(missing_docs, reason = "the three states of a condition")]
pub enum Status {
    True,
    False,
    Unknown,
}

/// Sets a condition in a list that holds each type once; the transition time moves only when the status does. Says whether anything changed.
pub fn set(conditions: &mut Vec<Condition>, wanted: Condition) -> bool {
    let Some(found) = conditions.iter_mut().find(|condition| condition.kind == wanted.kind) else {
        conditions.push(wanted);
        return true;
    };
    let time = if found.status == wanted.status { found.last_transition_time.clone() } else { wanted.last_transition_time.clone() };
    let wanted = Condition { last_transition_time: time, ..wanted };
    let changed = *found != wanted;
    *found = wanted;
    changed
}

/// The condition of a type.
pub fn get<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}
