//! InstallPlans that people write get their content (OLM0-IP-19).

use mainstay_objects::meta;
use mainstay_olm_classic_core::install_plan::{self, Content};
use mainstay_olm_classic_core::resolve::requested;
use mainstay_olm_classic_core::source::SourceKey;
use mainstay_olm_classic_core::steps;
use mainstay_runtime::Outcome;
use serde_json::{Value, json};

use super::super::bundles::Unpacked;
use super::super::snapshot;
use super::{Controller, NamespaceError};

impl Controller {
    /// Gives every written plan its content, or says why it has none. Returns when the namespace is looked at again, if a plan waits.
    pub(super) async fn fill(&self, namespace: &str, plans: &[Value]) -> Result<Option<Outcome>, NamespaceError> {
        let mut again = None;
        for plan in plans.iter().filter(|plan| install_plan::is_request(plan) && plan["metadata"]["deletionTimestamp"].is_null()) {
            let (status, waits) = self.content(namespace, plan).await?;
            if let Some(mut status) = status {
                // Times of what is reported again do not count.
                let held = &plan["status"]["bundleLookups"];
                if plan["status"]["phase"] == status["phase"] && same_but_times(held, &status["bundleLookups"]) {
                    status = plan["status"].clone();
                }
                self.write_status(plan, &status).await?;
            }
            again = again.or(waits);
        }
        Ok(again)
    }

    /// The status of a written plan, if it changes, and when to look again.
    async fn content(&self, namespace: &str, plan: &Value) -> Result<(Option<Value>, Option<Outcome>), NamespaceError> {
        let visible = snapshot::visible(&self.parts, namespace);
        if visible.iter().any(|catalog| catalog.healthy && self.parts.contents.get(&catalog.namespace, &catalog.name).is_none()) {
            return Ok((None, None));
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let spec = &plan["spec"];
        let names: Vec<String> =
            spec["clusterServiceVersionNames"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        let catalog = Some(text(&spec["source"])).filter(|name| !name.is_empty()).map(|name| {
            let of = Some(text(&spec["sourceNamespace"])).filter(|of| !of.is_empty()).unwrap_or_else(|| namespace.to_owned());
            SourceKey { name, namespace: of }
        });
        let facts = snapshot::snapshot(&self.parts, namespace, &[]).snapshot;
        let resolving = tokio::task::spawn_blocking(move || requested(&facts, &names, catalog.as_ref()));
        let found = resolving.await.map_err(|error| NamespaceError::Abnormal(namespace.to_owned(), error))?;
        let now = self.parts.env.now_seconds();
        let found = match found {
            Ok(found) => found,
            Err(error) => return Ok((Some(install_plan::refused("DependenciesConflict", &error.to_string(), now)), None)),
        };
        let terms = self.unpack_terms(namespace);
        let mut content = Content { steps: found.steps, lookups: found.lookups.clone() };
        for lookup in &found.lookups {
            let waits = |problem: Option<&str>| Some(install_plan::planning(&found.lookups, problem, now));
            match self.bundles.unpack(&self.parts, namespace, lookup, terms).await {
                Unpacked::Ready(loaded) => match self.steps_of(namespace, lookup, &loaded) {
                    Ok(steps) => content.steps.extend(steps),
                    Err(error) => return Ok((Some(install_plan::refused("InstallCheckFailed", &error.to_string(), now)), None)),
                },
                Unpacked::Pulling => return Ok((waits(None), None)),
                Unpacked::Failing(problem) => return Ok((waits(Some(&problem)), Some(Outcome::Retry))),
                Unpacked::Failed { message, .. } => {
                    return Ok((Some(install_plan::refused("InstallCheckFailed", &message, now)), None));
                }
            }
        }
        content.steps = steps::ordered(content.steps);
        let approved = spec["approved"] == true;
        let name = meta(plan, "name").unwrap_or_default();
        tracing::info!(plan = name, namespace, csvs = ?content.csvs(), "a written InstallPlan has its content");
        Ok((Some(content.status(approved)), None))
    }
}

/// Returns whether two lists of lookups say the same.
fn same_but_times(one: &Value, other: &Value) -> bool {
    let said = |lookups: &Value| -> Vec<Value> {
        let lookups = lookups.as_array().into_iter().flatten();
        lookups.map(|lookup| json!([lookup["path"], lookup["conditions"][0]["message"]])).collect()
    };
    !one.is_null() && said(one) == said(other)
}
