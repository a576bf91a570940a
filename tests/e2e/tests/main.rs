//! The tests of this crate from outside, as one program: linking is what costs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod approvals;
mod backpressure;
mod backup;
mod bad_input;
mod catalogs;
mod choices;
mod classic;
mod classic_admin;
mod classic_advice;
mod classic_cli;
mod classic_pods;
mod classic_tenants;
mod cluster_operators;
mod crash;
mod demo_cluster_update;
mod durability;
mod ending;
mod etcd;
mod etcd_backup;
#[path = "../../../crates/store/tests/common/etcd.rs"]
mod etcd_process;
mod explain;
mod full_disk;
mod go_operator;
mod helm;
mod history;
mod kube_rs;
mod kubectl;
mod machine_config;
mod machines;
mod migration;
mod node_agent;
mod oc;
mod operators;
#[path = "../../../crates/apiserver/tests/common/peer.rs"]
mod peer;
mod placement;
mod plans;
mod private;
mod procedure;
mod processes;
mod python;
mod recording;
mod registry_grpc;
mod releases;
mod replay;
mod rollback;
mod run;
mod serve_local;
mod support_data;
mod token_auth;
mod verbs;
mod walk;
mod webhooks;
mod websockets;
