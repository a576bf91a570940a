//! Update graphs of clusters (`docs/spec/cluster-version.md`, sections 6, 7 and 23), as functions of facts. No client and no runtime.
//!
//! ```text
//!   release-metadata ─┐
//!   graph-data files ─┴─ build ──> BuiltGraph ── answer(channel, arch) ──> Graph (the protocol)       the update service
//!                     └─ lint  ──> findings
//!
//!   Query ── request ──> URL      answer ── retrieve ──> Retrieved ── evaluate(rule answers) ──> Updates      the cluster
//!                                                                          RuleCache: one query a second
//! ```
//!
//! A recorded answer of upstream's own code outranks the text of the specification. [`cases`] answers inputs in the form of those records.

mod answer;
mod build;
mod cycle;
mod edges;
mod evaluate;
mod graph;
pub mod graph_data;
mod labels;
pub mod lint;
mod read_graph;
mod release;
mod release_list;
mod request;
mod retrieve;
mod risk;
mod rule_cache;

pub mod cases;

pub use answer::{AnswerError, Parameters, answer};
pub use build::{BuildError, BuiltGraph, BuiltNode, ConditionalGroup, DifferentRisks, InvalidLabel, LabelProblem, build};
pub use evaluate::{ConditionalUpdate, Recommended, Status, Updates, evaluate, evaluate_accepting, name_cluster};
pub use graph::{ConditionalEdge, ConditionalEdges, Graph, GraphLimits, Node};
pub use graph_data::GraphData;
pub use labels::{ARCHITECTURE, CHANNELS, MANIFEST_REF, MULTI, RELEASE_ARCHITECTURE};
pub use read_graph::{InvalidGraph, MAX_GRAPH_BYTES, TargetGraph};
pub use release::{InvalidReleaseMetadata, Release, ReleaseMetadata};
pub use release_list::{InvalidReleaseList, ListedRelease, read_release_list};
pub use request::{ACCEPT, InvalidUuid, Query, Request};
pub use retrieve::{ClusterRelease, Condition, RetrievalError, Retrieved, retrieve, retrieved_condition, status_text};
pub use risk::{EvaluationError, MatchingRule, Promql, Risk, Verdict, join_errors, judge, valid_rules};
pub use rule_cache::{Asked, RuleCache};
