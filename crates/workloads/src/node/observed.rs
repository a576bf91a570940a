//! Processes of containers as their runner saw them last, and what a plan asks of it (KAPI-WL-07).

use jiff::Timestamp;
use serde_json::Value;

/// A process of a container, as its runner saw it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Process {
    /// None was started since the program started.
    Absent,
    /// It could not be started.
    Blocked {
        /// The reason, as it stands in the container's status.
        reason: &'static str,
        /// The cause, for people.
        message: String,
        /// The time of the attempt.
        since: Timestamp,
    },
    /// It runs.
    Running {
        /// The run.
        run: Run,
        /// True if it has passed its startup probe, or has none.
        started: bool,
        /// True if it is ready.
        ready: bool,
    },
    /// It has ended.
    Ended {
        /// The run.
        run: Run,
        /// The end.
        exit: Exit,
    },
}

/// One run of a container's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The ID of the run, as the container's status shows it.
    pub id: String,
    /// The ID of the process.
    pub pid: u32,
    /// The restarts before it.
    pub attempt: i64,
    /// The time of its start.
    pub since: Timestamp,
    /// The end of the run before it; null if there was none.
    pub last: Value,
}

/// The end of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code; 128 and the number of the signal that ended it.
    pub code: i32,
    /// The termination message.
    pub message: String,
    /// The time of the end.
    pub at: Timestamp,
}

/// The start of a process that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The restarts before it.
    pub attempt: i64,
    /// The end of the run before it; null if there was none.
    pub last: Value,
}

/// The work that a plan asks of the runner of processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// The processes to start, by the names of their containers.
    pub start: Vec<(String, Start)>,
    /// The containers whose processes are to stop.
    pub stop: Vec<String>,
    /// Set if all processes of the pod are to stop.
    pub stop_all: bool,
}
