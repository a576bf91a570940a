//! Providers: what makes and removes instances (MACH-PROV-01 to MACH-PROV-03).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use mainstay_machine_core::lifecycle::Instance;
use serde_json::Value;

/// Why a provider did not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// It never can: the machine's provider spec is wrong.
    #[error("{0}")]
    InvalidConfiguration(String),
    /// It asks to be called again after a time.
    #[error("{message}")]
    RequeueAfter {
        /// The time.
        wait: Duration,
        /// The cause.
        message: String,
    },
    /// It failed, and may not the next time.
    #[error("{0}")]
    Retryable(String),
}

/// A provider. All calls are idempotent, and for one machine there is one at a time.
pub trait Provider: Send + Sync {
    /// Makes the instance, unless it exists.
    fn create<'a>(&'a self, machine: &'a Value) -> BoxFuture<'a, Result<Instance, ProviderError>>;

    /// Brings an instance that exists up to date, and tells what is known of it.
    fn update<'a>(&'a self, machine: &'a Value) -> BoxFuture<'a, Result<Instance, ProviderError>>;

    /// Begins to remove the instance. One that does not exist is removed.
    fn delete<'a>(&'a self, machine: &'a Value) -> BoxFuture<'a, Result<(), ProviderError>>;

    /// Returns whether the instance exists. An answer that is not known is an error, because "no" means that the machine may go.
    fn exists<'a>(&'a self, machine: &'a Value) -> BoxFuture<'a, Result<bool, ProviderError>>;
}

/// A sort of provider spec: its group and kind.
pub type SpecKind = (String, String);

/// The providers of a process, by the kind of `spec.providerSpec.value`.
#[derive(Clone, Default)]
pub struct Providers(BTreeMap<SpecKind, Arc<dyn Provider>>);

impl Providers {
    /// Adds a provider for a kind of provider spec.
    #[must_use]
    pub fn with(mut self, group: &str, kind: &str, provider: Arc<dyn Provider>) -> Self {
        self.0.insert((group.to_owned(), kind.to_owned()), provider);
        self
    }

    /// Finds the provider of a machine.
    ///
    /// # Errors
    /// There is none for the kind of its provider spec; the message lists those that there are.
    pub fn of(&self, machine: &Value) -> Result<Arc<dyn Provider>, ProviderError> {
        let text = |field: &str| machine.pointer(&format!("/spec/providerSpec/value/{field}")).and_then(Value::as_str).unwrap_or_default();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let group = version.split_once('/').map_or("", |(group, _)| group);
        self.0.get(&(group.to_owned(), kind.to_owned())).cloned().ok_or_else(|| {
            let known: Vec<String> = self.0.keys().map(|(group, kind)| format!("{kind} of {group}")).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let asked = if kind.is_empty() { "a provider spec without a kind".to_owned() } else { format!("{kind} of {group}") };
            ProviderError::InvalidConfiguration(format!("no provider serves {asked}; this program serves {known}"))
        })
    }
}
