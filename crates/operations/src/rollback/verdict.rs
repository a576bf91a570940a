//! The verdict about a rollback in words and for programs, with the reasons why it is safe (MS-RB-01).

use std::collections::BTreeMap;

use mainstay_diagnostics::{Failure, counted};
use mainstay_lifecycle::Instances;
use mainstay_lifecycle::rollback::{Class, Verdict};
use serde_json::Value;

/// The verdict about going back to an older bundle: whether it is possible, and what would be lost.
pub struct RollbackVerdict {
    /// The installed bundle.
    pub from: String,
    /// The bundle that the extension goes back to.
    pub to: String,
    /// The version of that bundle.
    pub version: String,
    /// The verdict: safe, or why not.
    pub verdict: Verdict,
    /// The command that restores the extension's spec as it was before.
    pub undo: String,
    /// The reasons why the rollback is safe, if it is.
    pub(super) reasons: Vec<String>,
}

impl RollbackVerdict {
    /// Returns the verdict in one line.
    pub fn headline(&self) -> String {
        format!("from {} to {}: {}", self.from, self.to, self.verdict.verdict)
    }

    /// Returns the reasons why the rollback is safe, if it is, and the checks that are set aside for it.
    pub fn assurances(&self) -> Vec<String> {
        let first = |finding: &String| finding.lines().next().unwrap_or_default().to_owned();
        let aside = |finding: &String| format!("the preflight refuses, and is set aside: {}", first(finding));
        self.reasons.iter().cloned().chain(self.verdict.preflight.iter().map(aside)).collect()
    }

    /// Returns the verdict, the reasons against the rollback, and those for it.
    pub fn lines(&self) -> Vec<String> {
        let risks = self.verdict.risks.iter().map(ToString::to_string);
        let below = risks.chain(self.assurances()).map(|line| format!("  {line}"));
        std::iter::once(self.headline()).chain(below).collect()
    }

    /// Returns the verdict for programs.
    pub fn document(&self) -> Result<Value, Failure> {
        let mut document = serde_json::to_value(&self.verdict).map_err(|error| Failure::failed("verdict", &error))?;
        document["from"] = self.from.clone().into();
        document["to"] = self.to.clone().into();
        if self.verdict.verdict == Class::Safe {
            document["reasons"] = self.reasons.clone().into();
        }
        Ok(document)
    }
}

/// Returns the reasons why nothing is lost: what was checked, and found to be harmless.
pub(super) fn reasons(to: &[Value], definitions: &BTreeMap<String, Value>, instances: &BTreeMap<String, Instances>) -> Vec<String> {
    if definitions.is_empty() {
        return vec!["no custom resource definition is concerned".to_owned()];
    }
    let older = |name: &str| to.iter().any(|object| object["kind"] == "CustomResourceDefinition" && object["metadata"]["name"] == name);
    let reason = |name: &String| {
        let why = match instances.get(name) {
            _ if !older(name) => "is not in the older bundle and is deleted; it has no custom resources".to_owned(),
            Some(Instances::Known(items)) if items.is_empty() => {
                "the older one knows or allows less; it has no custom resources".to_owned()
            }
            Some(Instances::Known(items)) => {
                format!("the older one knows or allows less; {} looked at, and nothing is lost", counted(items.len(), "custom resource"))
            }
            // A rollback is not called safe if the custom resources cannot be read.
            Some(Instances::Unreadable(_)) | None => "the older one takes nothing away".to_owned(),
        };
        format!("CustomResourceDefinition {name}: {why}")
    };
    definitions.keys().map(reason).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// MS-RB-01: a safe way says what was looked at.
    #[test]
    fn what_makes_it_safe() {
        let crd = |name: &str| json!({"kind": "CustomResourceDefinition", "metadata": {"name": name}});
        let to = ["same", "unused", "used"].map(crd);
        let definitions: BTreeMap<String, Value> = ["gone", "same", "unused", "used"].map(|name| (name.to_owned(), crd(name))).into();
        let known = |count: usize| Instances::Known(vec![json!({}); count]);
        let instances = [("gone".to_owned(), known(0)), ("unused".to_owned(), known(0)), ("used".to_owned(), known(1))].into();
        assert_eq!(
            reasons(&to, &definitions, &instances),
            [
                "CustomResourceDefinition gone: is not in the older bundle and is deleted; it has no custom resources",
                "CustomResourceDefinition same: the older one takes nothing away",
                "CustomResourceDefinition unused: the older one knows or allows less; it has no custom resources",
                "CustomResourceDefinition used: the older one knows or allows less; 1 custom resource looked at, and nothing is lost",
            ]
        );
        assert_eq!(reasons(&to, &BTreeMap::new(), &instances), ["no custom resource definition is concerned"]);
    }
}
