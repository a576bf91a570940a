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

/// Annotation of machines that names the provider of the instance, from before it is made (MACH-PROV-12).
pub const MAKER: &str = "mainstay.dev/provider";

/// The groups of providers that the embedded cluster has, and no other (MACH-PROV-12).
const EMBEDDED: [&str; 2] = [crate::simulated::GROUP, "local.mainstay.dev"];

/// Why a machine has no provider here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotServed {
    /// None serves the kind of its provider spec.
    #[error("no provider serves {asked}; this program serves {known}")]
    Unknown {
        /// The kind and its group.
        asked: String,
        /// The kinds that there are providers for.
        known: String,
    },
    /// The kind is one of the embedded cluster.
    #[error(
        "{asked} makes nothing that a real cluster could use, and is served on the embedded cluster alone (mainstay up); here are {known}"
    )]
    Embedded {
        /// The kind and its group.
        asked: String,
        /// The kinds that there are providers for.
        known: String,
    },
    /// The instance is another provider's, and is never handed over.
    #[error(
        "{asked} cannot take over the instance of {maker} (annotation {MAKER}): nothing is done until spec.providerSpec.value is put back"
    )]
    MadeByAnother {
        /// The provider that made it.
        maker: String,
        /// The kind and its group.
        asked: String,
    },
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
    /// There is none for the kind of its provider spec, or the instance is another provider's.
    pub fn of(&self, machine: &Value) -> Result<Arc<dyn Provider>, NotServed> {
        let (group, kind) = spec_kind(machine);
        let asked = if kind.is_empty() { "a provider spec without a kind".to_owned() } else { format!("{kind} of {group}") };
        let maker = machine.pointer("/metadata/annotations").and_then(|all| all.get(MAKER)).and_then(Value::as_str);
        if let Some(maker) = maker.filter(|maker| !maker.is_empty() && *maker != maker_of(machine)) {
            return Err(NotServed::MadeByAnother { maker: maker.to_owned(), asked });
        }
        self.0.get(&(group.to_owned(), kind.to_owned())).cloned().ok_or_else(|| {
            let known: Vec<String> = self.0.keys().map(|(group, kind)| format!("{kind} of {group}")).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            if EMBEDDED.contains(&group) { NotServed::Embedded { asked, known } } else { NotServed::Unknown { asked, known } }
        })
    }
}

/// Returns the provider that a machine names, as [`MAKER`] holds it: kind and group, and of programs the name.
pub fn maker_of(machine: &Value) -> String {
    let (group, kind) = spec_kind(machine);
    match machine.pointer("/spec/providerSpec/value/provider").and_then(Value::as_str) {
        Some(name) if group == crate::exec::GROUP => format!("{kind}.{group}/{name}"),
        _ => format!("{kind}.{group}"),
    }
}

fn spec_kind(machine: &Value) -> (&str, &str) {
    let text = |field: &str| machine.pointer(&format!("/spec/providerSpec/value/{field}")).and_then(Value::as_str).unwrap_or_default();
    (text("apiVersion").split_once('/').map_or("", |(group, _)| group), text("kind"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    struct Nothing;

    impl Provider for Nothing {
        fn create<'a>(&'a self, _: &'a Value) -> BoxFuture<'a, Result<Instance, ProviderError>> {
            Box::pin(async { Ok(Instance::default()) })
        }

        fn update<'a>(&'a self, _: &'a Value) -> BoxFuture<'a, Result<Instance, ProviderError>> {
            Box::pin(async { Ok(Instance::default()) })
        }

        fn delete<'a>(&'a self, _: &'a Value) -> BoxFuture<'a, Result<(), ProviderError>> {
            Box::pin(async { Ok(()) })
        }

        fn exists<'a>(&'a self, _: &'a Value) -> BoxFuture<'a, Result<bool, ProviderError>> {
            Box::pin(async { Ok(true) })
        }
    }

    fn machine(group: &str, kind: &str, name: Option<&str>, maker: Option<&str>) -> Value {
        let mut machine = json!({"metadata": {}, "spec": {"providerSpec": {"value": {"apiVersion": format!("{group}/v1"), "kind": kind}}}});
        if let Some(name) = name {
            machine["spec"]["providerSpec"]["value"]["provider"] = json!(name);
        }
        if let Some(maker) = maker {
            machine["metadata"]["annotations"] = json!({MAKER: maker});
        }
        machine
    }

    /// MACH-PROV-03, MACH-PROV-12: the kind of the spec chooses; an unknown one is told with those that there are; an instance stays with the
    /// provider, and with the program, that made it.
    #[test]
    fn chosen_and_never_handed_over() {
        let providers =
            Providers::default().with("a.io", "A", Arc::new(Nothing)).with(crate::exec::GROUP, crate::exec::KIND, Arc::new(Nothing));
        let of = |machine: &Value| providers.of(machine).map(drop).map_err(|error| error.to_string());
        assert_eq!(of(&machine("a.io", "A", None, None)), Ok(()));
        let unknown = "no provider serves B of b.io; this program serves A of a.io, ExecProviderConfig of exec.mainstay.dev";
        assert_eq!(of(&machine("b.io", "B", None, None)), Err(unknown.to_owned()));
        let embedded = of(&machine("sim.mainstay.dev", "SimProviderConfig", None, None)).unwrap_err();
        assert!(embedded.starts_with("SimProviderConfig of sim.mainstay.dev makes nothing that a real cluster could use"), "{embedded}");
        assert!(of(&machine("local.mainstay.dev", "LocalProviderConfig", None, None)).unwrap_err().contains("embedded cluster alone"));
        let nameless = of(&json!({})).unwrap_err();
        assert!(nameless.starts_with("no provider serves a provider spec without a kind; "), "{nameless}");
        assert!(Providers::default().of(&json!({})).map(drop).unwrap_err().to_string().ends_with("this program serves none"));
        for (name, maker, fits) in [
            (None, Some("A.a.io"), true),
            (Some("x"), Some("A.a.io"), true),
            (None, Some(""), true),
            (None, Some("B.b.io"), false),
            (None, Some("ExecProviderConfig.exec.mainstay.dev/x"), false),
        ] {
            assert_eq!(of(&machine("a.io", "A", name, maker)).is_ok(), fits, "{name:?} {maker:?}");
        }
        let program =
            |name: &str| of(&machine(crate::exec::GROUP, crate::exec::KIND, Some(name), Some("ExecProviderConfig.exec.mainstay.dev/x")));
        assert_eq!(program("x"), Ok(()));
        assert!(program("y").unwrap_err().contains("cannot take over the instance of ExecProviderConfig.exec.mainstay.dev/x"));
    }
}
