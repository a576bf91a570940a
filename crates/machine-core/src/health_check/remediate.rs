//! The step for an unhealthy machine (MACH-MHC-04).

use super::check::HealthCheck;
use super::target::{EXTERNAL_ANNOTATION, Target};
use crate::machine::phase;

/// The step for a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remediation {
    /// The machine is deleted.
    Delete,
    /// The machine is annotated with [`EXTERNAL_ANNOTATION`] for the controller of bare-metal hosts.
    Annotate,
    /// A request is made from the check's template, unless there is one.
    Request,
    /// Nothing: the annotation is there already.
    AnnotatedBefore,
    /// Nothing: no controller would replace it.
    NoController,
    /// Nothing: its deletion was asked for already.
    DeletedBefore,
}

/// Decides what is done about an unhealthy machine. One that failed is deleted even if hosts are remediated otherwise.
pub fn remediation(target: &Target<'_>, check: &HealthCheck) -> Remediation {
    let machine = target.machine;
    if check.template.is_some() {
        Remediation::Request
    } else if check.asks_host_controller() && !machine.is_in(phase::FAILED) {
        if machine.is_annotated(EXTERNAL_ANNOTATION) { Remediation::AnnotatedBefore } else { Remediation::Annotate }
    } else if machine.controller.is_none() {
        Remediation::NoController
    } else if machine.deleting {
        Remediation::DeletedBefore
    } else {
        Remediation::Delete
    }
}
