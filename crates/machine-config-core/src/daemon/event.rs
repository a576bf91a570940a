//! Reports of a daemon about its node, in upstream's words (MACH-NODE-05, MACH-DISR-08).

use std::fmt;

use crate::policy::{Action, Verb};

/// The service of CRI-O, as upstream names it in events about registries.
const CRIO: &str = "crio";
/// Most changes that an event names.
const CAUSES: usize = 10;

/// An event on a node; its message is the `Display`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// The configuration cannot be reached in place.
    FailedToReconcile(String),
    /// The disk is not as its configuration says.
    Drift(String),
    /// A cordon was asked for.
    Cordon,
    /// A drain was asked for.
    Drain,
    /// A drain would be of no use: there is one node.
    NoDrain,
    /// The drain did not end in its time.
    FailedToDrain(String),
    /// The uncordoning did not end in its time.
    FailedToUncordon(String),
    /// The operating system changes to this image.
    Upgrade(String),
    /// Changes of the operating system begin.
    OsUpdateStarted(String),
    /// Changes of the operating system count from the next boot.
    OsUpdateStaged,
    /// Nothing is done after the files were written.
    SkipReboot,
    /// A service read its configuration again.
    Reloaded(String),
    /// A service was restarted.
    Restarted(String),
    /// A service could not be reloaded or restarted.
    FailedAction {
        /// `reload` or `restart`.
        verb: Verb,
        /// The service.
        service: String,
        /// The words of the service manager.
        problem: String,
    },
    /// Files got no owner, because the agent may not give them one.
    OwnershipNotApplied(Vec<String>),
    /// The node has to reboot into a configuration, because of these changes; upstream leaves that to the daemon's log.
    RebootRequired {
        /// The configuration.
        config: String,
        /// The changes, such as `file /etc/motd`.
        by: Vec<String>,
    },
    /// The node reboots into a configuration.
    Reboot(String),
    /// The node takes pods again.
    Uncordon(String),
    /// The node has its configuration.
    Done {
        /// The node.
        node: String,
        /// The configuration.
        config: String,
    },
}

impl NodeEvent {
    /// The event of an action; none of those that are told otherwise.
    pub fn of(action: &Action) -> Option<Self> {
        match action {
            Action::None => Some(Self::SkipReboot),
            Action::Reload(service) => Some(Self::Reloaded(service.clone())),
            Action::Restart(service) => Some(Self::Restarted(service.clone())),
            Action::DaemonReload => Some(Self::Reloaded("daemon-reload".to_owned())),
            Action::Special => Some(Self::Reloaded(CRIO.to_owned())),
            Action::Drain | Action::Reboot => None,
        }
    }

    /// Returns whether it is a warning.
    pub fn is_warning(&self) -> bool {
        matches!(
            self,
            Self::FailedToReconcile(_)
                | Self::Drift(_)
                | Self::FailedToDrain(_)
                | Self::FailedToUncordon(_)
                | Self::FailedAction { .. }
                | Self::OwnershipNotApplied(_)
        )
    }

    /// Returns whether it tells of an effect outside the configuration's files, which a simulated node does not have.
    pub fn is_effect(&self) -> bool {
        matches!(
            self,
            Self::Reloaded(_) | Self::Restarted(_) | Self::Reboot(_) | Self::Upgrade(_) | Self::OsUpdateStarted(_) | Self::OsUpdateStaged
        )
    }

    /// Returns the reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::FailedToReconcile(_) => "FailedToReconcile",
            Self::Drift(_) => "ConfigDriftDetected",
            Self::Cordon => "Cordon",
            Self::Drain | Self::NoDrain => "Drain",
            Self::FailedToDrain(_) => "FailedToDrain",
            Self::FailedToUncordon(_) => "FailedToUncordon",
            Self::Upgrade(_) => "InClusterUpgrade",
            Self::OsUpdateStarted(_) => "OSUpdateStarted",
            Self::OsUpdateStaged => "OSUpdateStaged",
            Self::SkipReboot => "SkipReboot",
            Self::Reloaded(_) => "ServiceReload",
            Self::Restarted(_) => "ServiceRestart",
            Self::FailedAction { verb: Verb::Reload, .. } => "FailedServiceReload",
            Self::FailedAction { verb: Verb::Restart, .. } => "FailedServiceRestart",
            Self::OwnershipNotApplied(_) => "OwnershipNotApplied",
            Self::RebootRequired { .. } => "RebootRequired",
            Self::Reboot(_) => "Reboot",
            Self::Uncordon(_) => "Uncordon",
            Self::Done { .. } => "NodeDone",
        }
    }
}

impl fmt::Display for NodeEvent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FailedToReconcile(text) | Self::Drift(text) | Self::FailedToDrain(text) | Self::FailedToUncordon(text) => {
                out.write_str(text)
            }
            Self::Cordon => out.write_str("Cordoned node to apply update"),
            Self::Drain => out.write_str("Draining node to update config."),
            Self::NoDrain => out.write_str("Drain not required, skipping"),
            Self::Upgrade(image) => write!(out, "Updating from oscontainer {image}"),
            Self::OsUpdateStarted(changes) => out.write_str(changes),
            Self::OsUpdateStaged => out.write_str("Changes to OS staged"),
            Self::SkipReboot => out.write_str("Config changes do not require reboot."),
            Self::Reloaded(service) => write!(out, "Config changes do not require reboot. Service {service} was reloaded."),
            Self::Restarted(service) => write!(out, "Config changes do not require reboot. Service {service} was restarted."),
            Self::FailedAction { verb, service, problem } => match verb {
                Verb::Reload => write!(out, "Reloading service {service} failed. Error: {problem}"),
                Verb::Restart => write!(out, "Restarting {service} service failed. Error: {problem}"),
            },
            Self::OwnershipNotApplied(paths) => write!(out, "no permission to change the owner of {}", paths.join(", ")),
            Self::RebootRequired { config, by } => {
                write!(out, "Node has to reboot into config {config} because of {}", by[..by.len().min(CAUSES)].join(", "))?;
                match by.len().saturating_sub(CAUSES) {
                    0 => Ok(()),
                    more => write!(out, " and {more} more"),
                }
            }
            Self::Reboot(config) => write!(out, "Node will reboot into config {config}"),
            Self::Uncordon(config) => write!(out, "Update completed for config {config} and node has been uncordoned"),
            Self::Done { node, config } => write!(out, "Setting node {node}, currentConfig {config} to Done"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MACH-TRB-08: an event about a reboot names what needs it, in bounds.
    #[test]
    fn causes_of_a_reboot() {
        let event =
            |count: usize| NodeEvent::RebootRequired { config: "c".to_owned(), by: (0..count).map(|n| format!("file /{n}")).collect() };
        assert_eq!(event(2).to_string(), "Node has to reboot into config c because of file /0, file /1");
        assert!(event(12).to_string().ends_with("file /9 and 2 more"));
        assert!(!event(1).is_warning() && !event(1).is_effect());
    }
}
