//! Answers that upstream's own code gave.

use mainstay_machine_config_core::cases;

use crate::support::{all_equal, survives_mutation};

/// MACH-MCP-04, MACH-MCP-05, MACH-MCP-07, MACH-MCP-08: every recorded choice of nodes.
#[test]
fn candidates() {
    all_equal("candidates", cases::candidates);
}

/// MACH-MCP-05, MACH-MCP-09, MACH-MCP-10, MACH-MCP-11: every recorded status of a pool.
#[test]
fn pool_status() {
    all_equal("pool-status", cases::pool_status);
}

/// MACH-MCP-03: every recorded membership of nodes.
#[test]
fn pool_membership() {
    all_equal("pool-membership", cases::pool_membership);
}

/// MACH-MCP-01: for any input, the answer is a value or an error that names the field.
#[test]
fn strange_pools() {
    survives_mutation("candidates", cases::candidates);
    survives_mutation("pool-status", cases::pool_status);
    survives_mutation("pool-membership", cases::pool_membership);
}

/// MACH-MC-06, MACH-DISR-02: every recorded set of files for registries.
#[test]
fn registries_conf() {
    all_equal("registries-conf", cases::registries_conf);
    survives_mutation("registries-conf", cases::registries_conf);
}

/// MACH-MC-06: every recorded KubeletConfig.
#[test]
fn kubelet_conf() {
    all_equal("kubelet-conf", cases::kubelet_conf);
    survives_mutation("kubelet-conf", cases::kubelet_conf);
}

/// MACH-MC-06: every recorded ContainerRuntimeConfig.
#[test]
fn container_runtime() {
    all_equal("container-runtime", cases::container_runtime);
    survives_mutation("container-runtime", cases::container_runtime);
}

/// MACH-MC-02, MACH-MC-03, MACH-MC-08: renders, their names, and the words about what cannot be rendered.
#[test]
fn merges() {
    all_equal("merge", cases::merge);
    survives_mutation("merge", cases::merge);
}

/// MACH-NODE-03: which changes are done in place, and what differs.
#[test]
fn reconcilable() {
    all_equal("reconcilable", cases::reconcilable);
    survives_mutation("reconcilable", cases::reconcilable);
}

/// MACH-DISR-01, MACH-DISR-02, MACH-DISR-03, MACH-DISR-04, MACH-DISR-05, MACH-DISR-06, MACH-DISR-07: actions and drains.
#[test]
fn disruptions() {
    all_equal("disruption", cases::disruption);
    survives_mutation("disruption", cases::disruption);
}

/// MACH-MC-09: what Butane configs become.
#[test]
fn butane() {
    all_equal("butane", cases::butane);
    survives_mutation("butane", cases::butane);
}
