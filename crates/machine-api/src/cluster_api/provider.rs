//! The provider: it makes, reads and deletes Machines of Cluster API.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::api::GroupVersionKind;
use mainstay_apply::{WriteError, Writer, gvk};
use mainstay_machine_core::cluster_api::{self, Config, Version, belongs, objects};
use mainstay_machine_core::lifecycle::Instance;
use mainstay_machine_core::machine::Machine;
use mainstay_objects::{Expect, ObjectRef, Patch, Propagation, meta};
use mainstay_runtime::{KindError, Kinds};
use serde_json::Value;

use crate::provider::{Provider, ProviderError};
use crate::user_data;

/// The wait until a clone of a template is gone that no machine took.
const LEFTOVER: Duration = Duration::from_secs(5);

/// Cluster API as a provider.
pub struct ClusterApiProvider {
    writer: Writer,
    /// Asked anew when an object is not found: a kind that is gone says nothing about instances.
    kinds: Kinds,
}

/// The state of a machine in Cluster API.
enum Found {
    /// It is not installed.
    NotInstalled,
    /// It has no machine of this name.
    None(Version),
    /// It has one that was not made for this machine.
    Foreign(String),
    /// Its Machine.
    Made(Value),
}

impl ClusterApiProvider {
    /// Creates the provider.
    pub fn new(writer: Writer) -> Self {
        let kinds = Kinds::new(writer.client().clone());
        Self { writer, kinds }
    }

    async fn find(&self, machine: &Value) -> Result<Found, ProviderError> {
        for version in Version::ALL {
            let place = objects::machine_place(machine, version);
            match self.writer.get(&place).await {
                Ok(Some(made)) if belongs(&made, &uid(machine)) => return Ok(Found::Made(made)),
                Ok(Some(_)) => return Ok(Found::Foreign(format!("machine {} of Cluster API was not made for this machine", place.name))),
                Ok(None) if self.is_served(&gvk(&place)).await? => return Ok(Found::None(version)),
                Ok(None) => {}
                Err(error) if is_unknown_kind(&error) => {}
                Err(error) => return Err(failed(&error)),
            }
        }
        Ok(Found::NotInstalled)
    }

    async fn is_served(&self, kind: &GroupVersionKind) -> Result<bool, ProviderError> {
        self.kinds.forget(kind);
        match self.kinds.served(kind).await {
            Ok(_) => Ok(true),
            Err(KindError::NotServed { .. }) => Ok(false),
            Err(error) => Err(failed(&error)),
        }
    }

    async fn make(&self, machine: &Value, config: &Config, version: Version) -> Result<Value, ProviderError> {
        let cluster = ObjectRef { kind: "Cluster".to_owned(), name: config.cluster.clone(), ..objects::machine_place(machine, version) };
        self.required(&cluster).await?;
        let template = self.required(&objects::template_place(machine, config)).await?;
        let clone = objects::clone(machine, config, &template).map_err(|error| ProviderError::Retryable(error.to_string()))?;
        if self.ours(&objects::secret_place(machine), machine).await?.is_none() {
            let data = user_data::read(&self.writer, machine, &config.user_data).await?;
            let is_ignition = STANDARD.decode(&data).is_ok_and(|data| objects::is_ignition(&data));
            self.write(&objects::secret(machine, config, &data, is_ignition)).await?;
        }
        if self.ours(&objects::clone_place(machine, config), machine).await?.is_none() {
            self.write(&clone).await?;
        }
        // Last, because it is what says that the instance exists.
        self.write(&objects::machine(machine, config, version)).await
    }

    async fn required(&self, place: &ObjectRef) -> Result<Value, ProviderError> {
        let found = self.writer.get(place).await.map_err(|error| failed(&error))?;
        found
            .ok_or_else(|| ProviderError::Retryable(format!("{} {} is not found in namespace {}", place.kind, place.name, place.namespace)))
    }

    /// Reads an object that was made for a machine.
    async fn ours(&self, place: &ObjectRef, machine: &Value) -> Result<Option<Value>, ProviderError> {
        match self.writer.get(place).await.map_err(|error| failed(&error))? {
            Some(found) if !belongs(&found, &uid(machine)) => {
                let foreign = format!("{} {} was not made for this machine, and is left alone", place.kind, place.name);
                Err(ProviderError::Retryable(foreign))
            }
            found => Ok(found),
        }
    }

    async fn write(&self, object: &Value) -> Result<Value, ProviderError> {
        self.writer.create(object).await.map_err(|error| failed(&error))
    }

    /// The account of an instance. Its size is shown if it can be read.
    async fn told(&self, machine: &Value, config: &Config, made: &Value) -> Instance {
        let clone = match objects::named_clone(machine, config, made) {
            Some(place) => self.writer.get(&place).await.unwrap_or_else(|error| {
                tracing::debug!(%error, "the size of an instance cannot be read");
                None
            }),
            None => None,
        };
        cluster_api::instance(made, clone.as_ref())
    }

    /// Deletes an object that was made for a machine; returns whether it is gone.
    async fn remove(&self, place: &ObjectRef, machine: &Value) -> Result<bool, ProviderError> {
        for _ in 0..2 {
            let found = match self.writer.get(place).await {
                Ok(found) => found,
                Err(error) if is_unknown_kind(&error) => None,
                Err(error) => return Err(failed(&error)),
            };
            let Some(found) = found.filter(|found| belongs(found, &uid(machine))) else { return Ok(true) };
            if found["metadata"].get("deletionTimestamp").is_some() {
                return Ok(false);
            }
            self.writer.delete(place, &Expect::uid_of(&found), Propagation::Background).await.map_err(|error| failed(&error))?;
        }
        Ok(false)
    }

    /// Removes what is left of a machine that Cluster API does not have any more, or never had.
    async fn sweep(&self, machine: &Value) -> Result<(), ProviderError> {
        // Without a readable spec it is not known what was cloned; a clone that no machine took is no instance.
        if let Ok(config) = Config::of(machine) {
            let place = objects::clone_place(machine, &config);
            if !self.remove(&place, machine).await? {
                return Err(ProviderError::RequeueAfter {
                    wait: LEFTOVER,
                    message: format!("{} {} is being deleted", place.kind, place.name),
                });
            }
        }
        let place = objects::secret_place(machine);
        if self.remove(&place, machine).await? {
            return Ok(());
        }
        Err(ProviderError::RequeueAfter { wait: LEFTOVER, message: format!("secret {} is being deleted", place.name) })
    }
}

impl Provider for ClusterApiProvider {
    fn create<'a>(&'a self, machine: &'a Value) -> BoxFuture<'a, Result<Instance, ProviderError>> {
        async move {
            let config = config(machine)?;
            let made = match self.find(machine).await? {
                Found::NotInstalled => return Err(not_installed()),
                Found::Foreign(message) => return Err(ProviderError::Retryable(message)),
                Found::None(version) => self.make(machine, &config, version).await?,
                Found::Made(made) => made,
            };
            Ok(self.told(machine, &config, &made).await)
        }
        .boxed()
    }

    fn update<'a>(&'a self, machine: &'a Value) -> BoxFuture<'a, Result<Instance, ProviderError>> {
        async move {
            let config = config(machine)?;
            let Found::Made(mut made) = self.find(machine).await? else {
                return Err(ProviderError::Retryable("Cluster API has no machine of this name any more".to_owned()));
            };
            if let Some(repair) = objects::repair(&made) {
                let place = ObjectRef::of(&made).map_err(|error| failed(&error))?;
                made = self.writer.patch(&place, "", &Patch::Merge(repair)).await.map_err(|error| failed(&error))?;
            }
            Ok(self.told(machine, &config, &made).await)
        }
        .boxed()
    }

    fn delete<'a>(&'a self, machine: &'a Value) -> BoxFuture<'a, Result<(), ProviderError>> {
        async move {
            match self.find(machine).await? {
                Found::NotInstalled if Machine::of(machine).is_provisioned() => Err(not_installed()),
                Found::NotInstalled | Found::None(_) | Found::Foreign(_) => self.sweep(machine).await,
                Found::Made(made) => {
                    let place = ObjectRef::of(&made).map_err(|error| failed(&error))?;
                    if self.remove(&place, machine).await? { self.sweep(machine).await } else { Ok(()) }
                }
            }
        }
        .boxed()
    }

    fn exists<'a>(&'a self, machine: &'a Value) -> BoxFuture<'a, Result<bool, ProviderError>> {
        async move {
            match self.find(machine).await? {
                // Of an instance that was made, nothing is known.
                Found::NotInstalled if Machine::of(machine).is_provisioned() => Err(not_installed()),
                Found::NotInstalled | Found::None(_) | Found::Foreign(_) => Ok(false),
                Found::Made(_) => Ok(true),
            }
        }
        .boxed()
    }
}

fn config(machine: &Value) -> Result<Config, ProviderError> {
    Config::of(machine).map_err(|error| ProviderError::InvalidConfiguration(error.to_string()))
}

fn uid(machine: &Value) -> String {
    meta(machine, "uid").unwrap_or_default()
}

fn not_installed() -> ProviderError {
    let versions = Version::ALL.map(Version::api_version).join(" or ");
    ProviderError::Retryable(format!("Cluster API is not installed: the cluster serves no Machine of {versions}"))
}

fn is_unknown_kind(error: &WriteError) -> bool {
    matches!(error, WriteError::Kind { source: KindError::NotServed { .. }, .. })
}

fn failed(error: &dyn std::error::Error) -> ProviderError {
    ProviderError::Retryable(mainstay_diagnostics::chain(error))
}
