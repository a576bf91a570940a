//! The extension's namespace, created if it is missing and the extension requests that (OLM1-API-02).
//!
//! ```text
//!   account exists ─────────────────────► the plan, as without the annotation
//!   account missing, namespace exists ──► the account is missing
//!   account missing, namespace missing ─► bundle chosen ─► the namespace as that bundle wants it; then the account is missing
//!   no account needed ──────────────────► the plan, with the namespace before everything else
//! ```
//!
//! The controller creates it itself, since an account can only be in an existing namespace. The namespace is not managed by any extension, so
//! what people put into it is not lost with an extension.

use std::collections::BTreeMap;

use mainstay_api::lifecycle::{Approval, MADE_FOR, MISSING_NAMESPACE};
use mainstay_bundle::Bundle;
use mainstay_lifecycle::Live;
use mainstay_lifecycle::revision::History;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::facts::Fact;
use super::super::ruling;
use super::{InvalidAnnotation, NamespaceProblem, Plan, Planner, Stop, Verdict};

/// The only value of [`MISSING_NAMESPACE`].
const CREATE: &str = "Create";
/// The annotation of a ClusterServiceVersion with the namespace that its operator wants, as JSON.
const TEMPLATE: &str = "operatorframework.io/suggested-namespace-template";

/// The used part of [`TEMPLATE`]: the name is the extension's choice.
#[derive(Debug, Default, Deserialize)]
struct Template {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Debug, Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Planner<'_> {
    /// Returns true if the namespace is missing and is to be created.
    pub(super) fn lacks_namespace(&self) -> Result<bool, Stop> {
        let extension = &*self.snapshot.extension;
        let name = &extension.spec.namespace;
        match extension.metadata.annotations.as_ref().and_then(|all| all.get(MISSING_NAMESPACE)).map(String::as_str) {
            None => return Ok(false),
            Some(CREATE) => {}
            Some(other) => {
                let invalid =
                    InvalidAnnotation { annotation: MISSING_NAMESPACE, expected: CREATE, found: other.to_owned(), consequence: None };
                return Err(self.stop(Verdict::Blocked(invalid.into())));
            }
        }
        let unusable = |problem: NamespaceProblem| Err(self.stop(Verdict::Retrying(problem.into())));
        match &self.snapshot.known.namespace {
            None => Err(Stop::Need(vec![Fact::Namespace])),
            Some(Live::Absent) => Ok(true),
            Some(Live::Present(found)) if found["metadata"]["deletionTimestamp"].is_null() => Ok(false),
            Some(Live::Present(_)) => unusable(NamespaceProblem::Terminating(name.clone())),
            Some(Live::Unreadable(problem)) => unusable(NamespaceProblem::Unknown { name: name.clone(), problem: problem.clone() }),
            Some(Live::NotServed) => unusable(NamespaceProblem::NotServed),
        }
    }

    /// The plan that creates the namespace and nothing else, since without it there is no account to act as.
    pub(super) fn namespace_alone(&mut self, history: &History, verdict: Verdict) -> Result<Plan, Stop> {
        let lifecycle = &self.snapshot.known.lifecycle;
        if lifecycle.problem.is_some() || ruling(&self.snapshot.extension, &lifecycle.policies).approval == Approval::Always {
            let namespace = &self.snapshot.extension.spec.namespace;
            let why = format!(
                "namespace {namespace} is not made: the install may need an approval, which can be asked for only with the account there"
            );
            return Ok(Plan { warnings: vec![why], ..self.report(verdict) });
        }
        self.choose(history.installed())?;
        let bundle = self.bundle()?;
        let (namespace, warnings) = self.namespace(&bundle);
        Ok(Plan { namespace: Some(namespace), warnings, ..self.report(verdict) })
    }

    /// The namespace as the bundle wants it, and warnings about an invalid template.
    pub(super) fn namespace(&self, bundle: &Bundle) -> (Value, Vec<String>) {
        let extension = &*self.snapshot.extension;
        let template = bundle.csv.annotations.get(TEMPLATE).map(|text| serde_json::from_str::<Template>(text));
        let (template, warning) = match template {
            None => (Template::default(), None),
            Some(Ok(template)) => (template, None),
            Some(Err(error)) => {
                let warning = format!("annotation {TEMPLATE} of {} is no namespace, and does not count: {error}", bundle.csv.name);
                (Template::default(), Some(warning))
            }
        };
        let Metadata { labels, mut annotations } = template.metadata;
        annotations.insert(MADE_FOR.to_owned(), extension.metadata.name.clone().unwrap_or_default());
        let metadata = json!({"name": extension.spec.namespace, "labels": labels, "annotations": annotations});
        (json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}), warning.into_iter().collect())
    }
}
