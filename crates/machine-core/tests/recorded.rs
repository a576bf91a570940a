//! Answers that upstream's own code gave.

use mainstay_machine_core::cases;

use crate::support::{all_equal, survives_mutation};

/// MACH-SET-02, MACH-SET-03, MACH-SET-04: every recorded set.
#[test]
fn machine_sets() {
    all_equal("machineset", cases::machine_set);
}

/// MACH-MHC-02, MACH-MHC-03, MACH-MHC-04, MACH-MHC-05: every recorded reconcile of a health check.
#[test]
fn health_checks() {
    all_equal("machinehealthcheck", cases::health_check);
}

/// MACH-DRAIN-01, MACH-DRAIN-04, MACH-DRAIN-05: every recorded drain.
#[test]
fn drains() {
    all_equal("drain", cases::drain);
}

/// MACH-CPMS-02: every recorded control plane.
#[test]
fn control_planes() {
    all_equal("cpms-failure-domains", cases::control_plane);
}

/// MACH-API-02: for any input, the answer is a value or an error that names the field.
#[test]
fn strange_inputs() {
    survives_mutation("machineset", cases::machine_set);
    survives_mutation("machinehealthcheck", cases::health_check);
    survives_mutation("drain", cases::drain);
    survives_mutation("cpms-failure-domains", cases::control_plane);
}
