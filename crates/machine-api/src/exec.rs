//! Programs as providers (MACH-PROV-08): one call is one process, which gets a machine as JSON and answers as JSON.
//!
//! ```text
//!   machine, kind ExecProviderConfig, provider NAME ──► PROGRAM create|update|delete|exists ──► answer ──► Instance
//!                                                        stdin: {machine, userData, idempotencyKey}
//! ```
//!
//! An object names a provider and never a program: which program that is, the command line of the controller says. [`check`] tries a program by
//! itself.

mod answer;
mod call;
pub mod check;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use mainstay_apply::Writer;
use mainstay_machine_core::lifecycle::Instance;
use mainstay_machine_core::machine::Machine;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use self::answer::Answer;
pub use self::call::{CallError, Limits};
use crate::provider::{Provider, ProviderError};
use crate::user_data;

/// The group of the provider spec.
pub const GROUP: &str = "exec.mainstay.dev";
/// The kind of the provider spec.
pub const KIND: &str = "ExecProviderConfig";
/// Calls at once.
const AT_ONCE: usize = 10;

/// A call of a program, as its argument names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Makes the instance, unless it exists.
    Create,
    /// Brings an instance that exists up to date, and tells of it.
    Update,
    /// Removes the instance, if it exists.
    Delete,
    /// Says whether the instance exists.
    Exists,
    /// Says whether the parameters can be used.
    Validate,
    /// Fills in parameters that are not said.
    Default,
    /// Says what the program can do.
    Capabilities,
}

impl Operation {
    /// Returns the argument.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Exists => "exists",
            Self::Validate => "validate",
            Self::Default => "default",
            Self::Capabilities => "capabilities",
        }
    }
}

/// The providers that are programs.
pub struct ExecProvider {
    programs: BTreeMap<String, PathBuf>,
    writer: Writer,
    places: Arc<Semaphore>,
    limits: Limits,
}

impl ExecProvider {
    /// Creates a provider of programs by their names. User data is read as the writer's identity.
    pub fn new(programs: BTreeMap<String, PathBuf>, writer: Writer) -> Self {
        Self { programs, writer, places: Arc::new(Semaphore::new(AT_ONCE)), limits: Limits::default() }
    }

    async fn ask(&self, machine: &Value, operation: Operation) -> Result<Answer, ProviderError> {
        let text = |field: &str| machine.pointer(&format!("/spec/providerSpec/value/{field}")).and_then(Value::as_str).unwrap_or_default();
        let name = text("provider");
        let program = self.programs.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.programs.keys().map(String::as_str).collect();
            ProviderError::InvalidConfiguration(format!("spec.providerSpec.value.provider: {name:?} is none of {}", known.join(", ")))
        })?;
        let input = input(machine, self.user_data(machine, operation).await?);
        let Ok(_place) = self.places.acquire().await else {
            return Err(ProviderError::Retryable("the controller is stopping".to_owned()));
        };
        let answered = call::call(program, operation, &input, self.limits).await;
        Answer::judge(
            answered.map_err(|error| ProviderError::Retryable(format!("provider {name}: {}", mainstay_diagnostics::chain(&error))))?,
        )
    }

    /// Reads what the instance boots with. It is needed to make one, and never sent otherwise.
    async fn user_data(&self, machine: &Value, operation: Operation) -> Result<Option<String>, ProviderError> {
        let name = machine.pointer("/spec/providerSpec/value/userDataSecret/name").and_then(Value::as_str);
        match name.filter(|_| operation == Operation::Create) {
            Some(name) => user_data::read(&self.writer, machine, name).await.map(Some),
            None => Ok(None),
        }
    }
}

/// The input of a program.
fn input(machine: &Value, user_data: Option<String>) -> Value {
    let key = machine.pointer("/metadata/uid").cloned().unwrap_or(Value::Null);
    json!({"machine": machine, "userData": user_data.unwrap_or_else(|| STANDARD.encode("")), "idempotencyKey": key})
}

impl Provider for ExecProvider {
    fn create<'a>(&'a self, machine: &'a Value) -> BoxFuture<'a, Result<Instance, ProviderError>> {
        async move { Ok(self.ask(machine, Operation::Create).await?.instance()) }.boxed()
    }

    fn update<'a>(&'a self, machine: &'a Value) -> BoxFuture<'a, Result<Instance, ProviderError>> {
        async move { Ok(self.ask(machine, Operation::Update).await?.instance()) }.boxed()
    }

    fn delete<'a>(&'a self, machine: &'a Value) -> BoxFuture<'a, Result<(), ProviderError>> {
        async move { self.ask(machine, Operation::Delete).await.map(drop) }.boxed()
    }

    fn exists<'a>(&'a self, machine: &'a Value) -> BoxFuture<'a, Result<bool, ProviderError>> {
        async move {
            let answer = match self.ask(machine, Operation::Exists).await {
                // What can never be made is told by the call that would make it; of an instance that was made, nothing is known.
                Err(ProviderError::InvalidConfiguration(_)) if !Machine::of(machine).is_provisioned() => return Ok(false),
                answer => answer?,
            };
            answer.exists.ok_or_else(|| ProviderError::Retryable("the program does not say whether the instance exists".to_owned()))
        }
        .boxed()
    }
}
