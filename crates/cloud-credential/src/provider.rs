//! Providers: what makes and removes credentials in a cloud (COP-CRED-03).

use async_trait::async_trait;
use mainstay_cloud_credential_core::provider::{self, Minted, Order, ProviderError};
use mainstay_runtime::Env;
use serde_json::Value;

/// A cloud that makes limited credentials.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Makes credentials, or a new key for those that the order holds.
    ///
    /// # Errors
    /// The words of the condition, without secrets.
    async fn mint(&self, order: &Order) -> Result<Minted, ProviderError>;

    /// Removes the identity that these notes name, with its keys.
    ///
    /// # Errors
    /// The words of the condition, without secrets.
    async fn release(&self, notes: &Value) -> Result<(), ProviderError>;
}

/// A provider whose credentials open nothing.
pub struct Simulated {
    env: Env,
}

impl Simulated {
    /// A provider with this randomness.
    pub fn new(env: Env) -> Self {
        Self { env }
    }
}

#[async_trait]
impl Provider for Simulated {
    async fn mint(&self, order: &Order) -> Result<Minted, ProviderError> {
        provider::simulate(order, || self.env.random())
    }

    async fn release(&self, notes: &Value) -> Result<(), ProviderError> {
        tracing::info!(identity = provider::identity_of(notes).unwrap_or_default(), "a simulated identity was removed");
        Ok(())
    }
}
