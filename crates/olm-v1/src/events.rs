//! Events of both controllers: every transition that a person would want to know of.

use mainstay_apply::{EventKind, Recorder};
use serde::Serialize;
use serde_json::Value;

use crate::text::{chain, noted};

/// Reports events; failing to report never fails the work.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
}

impl Events {
    /// Reports through a recorder.
    pub fn new(recorder: Recorder) -> Self {
        Self { recorder }
    }

    /// Something went as it should.
    pub async fn normal(&self, about: &impl Serialize, reason: &str, note: &str) {
        self.report(about, EventKind::Normal, reason, note).await;
    }

    /// Something asks for attention.
    pub async fn warning(&self, about: &impl Serialize, reason: &str, note: &str) {
        self.report(about, EventKind::Warning, reason, note).await;
    }

    async fn report(&self, about: &impl Serialize, kind: EventKind, reason: &str, note: &str) {
        let object = match serde_json::to_value(about) {
            Ok(object) => object,
            Err(error) => return tracing::warn!(%error, reason, "an event could not be written"),
        };
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_lowercase();
        let note = noted(note, format!("mainstay explain {} {}", text("/kind"), text("/metadata/name")).trim_end());
        if let Err(error) = self.recorder.record(&object, kind, reason, "Reconciling", &note).await {
            tracing::warn!(error = %chain(&error), reason, "an event could not be written");
        }
    }
}
