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

/// MACH-MCP-01: whatever stands in an input, the answer is a value or an error that names the field.
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
