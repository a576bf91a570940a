//! One webhook of a configuration, compiled, and whether a request is its business.

use std::time::Duration;

use mainstay_cel::{AdmissionVariables, admission_env};
use serde_json::Value;

use crate::admission::expressions::{self, MatchConditions};
use crate::admission::matching::Matching;
use crate::admission::review::View;
use crate::admission::step::Request;
use crate::error::Result;
use crate::remote::{CallError, ClientConfig};

/// The webhooks of one configuration, in their order.
pub(super) struct Configuration {
    pub(super) hooks: Vec<Hook>,
}

/// One webhook.
pub(super) struct Hook {
    pub(super) name: String,
    /// The name of its configuration.
    pub(super) configuration: String,
    /// The ClusterExtension that the configuration belongs to.
    pub(super) extension: Option<String>,
    /// Unique among all webhooks.
    pub(super) id: String,
    /// The target of calls, or why there is none.
    pub(super) client: Result<ClientConfig, CallError>,
    pub(super) timeout: Duration,
    /// `failurePolicy: Ignore`.
    pub(super) ignores_failures: bool,
    /// Set if it may be asked about writes that are not stored.
    pub(super) allows_dry_run: bool,
    /// The version of AdmissionReview that it is sent; `None` when it knows none of ours.
    pub(super) review_version: Option<&'static str>,
    /// `reinvocationPolicy: IfNeeded`.
    pub(super) reinvoked: bool,
    matching: Matching,
    conditions: MatchConditions,
}

impl Configuration {
    pub(super) fn compile(object: &Value) -> Self {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let hooks = object["webhooks"].as_array().into_iter().flatten();
        Self { hooks: hooks.enumerate().map(|(index, hook)| Hook::compile(hook, object, name, index)).collect() }
    }
}

impl Hook {
    /// The owner of the webhook and the way to remove it, for users whom it stops.
    pub(super) fn whose(&self) -> String {
        match &self.extension {
            Some(name) => format!(
                "; webhook configuration {} belongs to clusterextension {name}: mainstay uninstall {name} removes it",
                self.configuration
            ),
            None => format!("; it belongs to webhook configuration {}, which kubectl delete removes", self.configuration),
        }
    }

    fn compile(hook: &Value, object: &Value, configuration: &str, index: usize) -> Self {
        let text = |field: &str| hook.get(field).and_then(Value::as_str).unwrap_or_default();
        let known = ["v1", "v1beta1"];
        let mut versions = hook["admissionReviewVersions"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let env = admission_env(AdmissionVariables { params: false, authorizer: true });
        Self {
            name: text("name").to_owned(),
            configuration: configuration.to_owned(),
            extension: extension_of(object),
            id: format!("{configuration}/{index}/{}", text("name")),
            client: ClientConfig::of_webhook(&hook["clientConfig"]),
            timeout: Duration::from_secs(hook["timeoutSeconds"].as_u64().unwrap_or(10)),
            ignores_failures: text("failurePolicy") == "Ignore",
            allows_dry_run: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            review_version: versions.find_map(|version| known.into_iter().find(|known| *known == version)),
            reinvoked: text("reinvocationPolicy") == "IfNeeded",
            matching: Matching::of_webhook(hook),
            conditions: MatchConditions::compile(hook, &env),
        }
    }

    /// The view that it gets of a request, if it is to be asked about it.
    pub(super) async fn view<'a>(&self, request: &Request<'a>, object: Option<&'a Value>) -> Result<Option<View<'a>>> {
        let Some(served) = self.matching.matches(request, object).await? else { return Ok(None) };
        let view = View::new(request, served, object).await?;
        if self.conditions.is_empty() {
            return Ok(Some(view));
        }
        let holds = self.conditions.hold(&expressions::of_webhook(request, &view));
        // A condition that fails closes the way; its own words are the refusal.
        Ok(holds.map_err(|error| request.forbidden(error.to_string()))?.then_some(view))
    }
}

/// The ClusterExtension that its labels name.
fn extension_of(object: &Value) -> Option<String> {
    let labels = &object["metadata"]["labels"];
    let owned = labels["olm.operatorframework.io/owner-kind"] == "ClusterExtension";
    labels["olm.operatorframework.io/owner-name"].as_str().filter(|_| owned).map(str::to_owned)
}
