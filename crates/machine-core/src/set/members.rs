//! Which machines are a set's.

use mainstay_objects::LabelSelector;

use crate::machine::Machine;

/// Why a set leaves a machine out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// Another object controls it.
    Controlled,
    /// It is being deleted.
    Deleting,
    /// Its labels do not match; an empty selector matches nothing, and neither does an invalid one.
    Labels,
}

/// Returns why a set with this UID and selector leaves a machine out; `None` if the machine is one of its own. One without a controller is
/// to be adopted (MACH-SET-02).
pub fn left_out(set: &str, selector: &LabelSelector, machine: &Machine) -> Option<LeftOut> {
    if machine.controller.as_deref().is_some_and(|controller| controller != set) {
        Some(LeftOut::Controlled)
    } else if machine.deleting {
        Some(LeftOut::Deleting)
    } else if selector.is_empty() || selector.validate().is_err() || !selector.matches(&machine.labels) {
        Some(LeftOut::Labels)
    } else {
        None
    }
}
