//! How a simulated pod behaves. Everything that a script may change of it goes through here.

use std::time::Duration;

use kube::api::DynamicObject;

use crate::object::Read as _;

/// What the containers of a pod do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// How long after binding they run.
    pub start_delay: Duration,
    /// Whether they end by themselves, with this exit code, as soon as they run.
    pub exit_code: Option<i32>,
}

impl Behaviour {
    /// Of a pod: containers that are not always started again end well, as those of Jobs do; all others run on.
    pub fn of(pod: &DynamicObject, start_delay: Duration) -> Self {
        let runs_on = matches!(pod.text("/spec/restartPolicy"), "" | "Always");
        Self { start_delay, exit_code: (!runs_on).then_some(0) }
    }
}
