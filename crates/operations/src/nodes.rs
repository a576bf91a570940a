//! Nodes: cordon, uncordon and drain, with what `kubectl` says about each step.

mod drain;

use std::fmt;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use mainstay_golang::quote;

pub use drain::{DrainRequest, Pending, drain};
pub use mainstay_drain::{Method, Options, Settings};

use crate::session::Session;

/// A line about a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A result.
    Out(String),
    /// A problem, or a step that is tried again.
    Problem(String),
    /// A warning.
    Warning(String),
}

/// The kind of a dry run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DryRun {
    /// None: everything is done.
    #[default]
    None,
    /// Nothing is sent.
    Client,
    /// The server is asked and keeps nothing.
    Server,
}

impl DryRun {
    /// Returns what `kubectl` adds to a result.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Client => " (dry run)",
            Self::Server => " (server dry run)",
        }
    }
}

/// Which nodes are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// Those of these names.
    Named(Vec<String>),
    /// Those with these labels, by a selector in its text form.
    Selected(String),
}

/// Why nodes cannot be read, in the words of `kubectl`.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The server refused.
    #[error("Error from server{}: {}", reason(.0), .0.message)]
    Refused(Box<kube::core::Status>),
    /// The server did not answer.
    #[error("error: {0}")]
    NoAnswer(Box<kube::Error>),
}

/// A reason as `kubectl` shows it; nothing if the server gives none.
fn reason(status: &kube::core::Status) -> String {
    if status.reason.is_empty() { String::new() } else { format!(" ({})", status.reason) }
}

impl From<kube::Error> for NodeError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            other => Self::NoAnswer(Box::new(other)),
        }
    }
}

/// A node that is worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its name.
    pub name: String,
    /// True if it takes no new pods.
    pub unschedulable: bool,
}

impl NodeInfo {
    fn of(object: &DynamicObject) -> Self {
        let unschedulable = object.data.pointer("/spec/unschedulable").and_then(serde_json::Value::as_bool).unwrap_or_default();
        Self { name: object.metadata.name.clone().unwrap_or_default(), unschedulable }
    }
}

impl fmt::Display for NodeInfo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "node/{}", self.name)
    }
}

/// Reads the chosen nodes.
///
/// # Errors
/// A node does not exist, or the server refuses.
pub async fn find(session: &Session, chosen: &Chosen) -> Result<Vec<NodeInfo>, NodeError> {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "Node"), "nodes");
    let api: Api<DynamicObject> = Api::all_with(session.client.clone(), &resource);
    match chosen {
        Chosen::Selected(selector) => {
            let all = api.list(&ListParams::default().labels(selector)).await?;
            Ok(all.items.iter().map(NodeInfo::of).collect())
        }
        Chosen::Named(names) => {
            let mut found = Vec::new();
            for name in names {
                found.push(NodeInfo::of(&api.get(name.strip_prefix("node/").unwrap_or(name)).await?));
            }
            Ok(found)
        }
    }
}

/// Cordons or uncordons nodes. A node that cannot be changed is told and left, as `kubectl` does; returns false if there was one.
pub async fn cordon(session: &Session, nodes: &[NodeInfo], unschedulable: bool, dry_run: DryRun, say: &dyn Fn(Said)) -> bool {
    let verb = if unschedulable { "cordon" } else { "uncordon" };
    let mut all = true;
    for node in nodes {
        let said = if node.unschedulable == unschedulable {
            Ok(false)
        } else if dry_run == DryRun::None {
            mainstay_drain::cordon(&session.client, &node.name, unschedulable).await
        } else {
            Ok(true)
        };
        match said {
            Ok(changed) => {
                let already = if changed { "" } else { "already " };
                say(Said::Out(format!("{node} {already}{verb}ed{}", dry_run.suffix())));
            }
            Err(error) => {
                all = false;
                say(Said::Problem(format!("error: unable to {verb} node {}: {error}", quote(&node.name))));
            }
        }
    }
    all
}
