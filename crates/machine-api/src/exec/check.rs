//! The conformance list of a program that is a provider: what the controllers rely on, tried with one machine of its own.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::answer::Answer;
use super::call::{CallError, Limits, call};
use super::{GROUP, KIND, Operation, input};
use crate::provider::ProviderError;

/// Name of the machine that is tried.
pub const MACHINE: &str = "mainstay-provider-check";

/// The interval at which it is asked whether the instance is gone.
const LOOK: Duration = Duration::from_secs(1);

/// A rule that was tried.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Tried {
    /// The rule.
    pub rule: &'static str,
    /// Why it does not hold; `None` if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// A rule that a program breaks.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("{}", mainstay_diagnostics::chain(.0))]
    Call(#[from] CallError),
    #[error("{operation}: {source}")]
    Answer { operation: &'static str, source: ProviderError },
    #[error("exists says {0}")]
    Exists(bool),
    #[error("exists does not say whether the instance exists")]
    Unsaid,
    #[error("create tells no providerID")]
    Nameless,
    #[error("{what} tells {}, the first create told {}", .found.as_deref().unwrap_or("none"), .known.as_deref().unwrap_or("none"))]
    Another { what: &'static str, found: Option<String>, known: Option<String> },
}

/// Tries a program. An instance is made and removed again; `uid` must be new. What does not hold is told, and the instance is removed all the
/// same.
pub async fn check(program: &Path, provider: &str, parameters: &Value, uid: &str, limits: Limits) -> Vec<Tried> {
    let machine = |uid: &str, id: Option<&str>| {
        let value = json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": KIND, "provider": provider, "parameters": parameters});
        let mut spec = json!({"providerSpec": {"value": value}});
        if let Some(id) = id {
            spec["providerID"] = json!(id);
        }
        json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "metadata": {"name": MACHINE, "namespace": "openshift-machine-api", "uid": uid}, "spec": spec,
        })
    };
    let ask = async |machine: &Value, operation: Operation| -> Result<Answer, Broken> {
        let answer = call(program, operation, &input(machine, None), limits).await?;
        answer.judge().map_err(|source| Broken::Answer { operation: operation.name(), source })
    };
    let exists = async |machine: &Value, wanted: bool| match ask(machine, Operation::Exists).await?.exists {
        Some(found) if found == wanted => Ok(()),
        Some(found) => Err(Broken::Exists(found)),
        None => Err(Broken::Unsaid),
    };
    let mut tried = Vec::new();
    let mut note = |rule: &'static str, result: Result<(), Broken>| {
        tried.push(Tried { rule, broken: result.err().map(|broken| broken.to_string()) });
    };
    let own = machine(uid, None);
    let other = machine(&format!("{uid}-other"), None);
    note("capabilities are told", ask(&own, Operation::Capabilities).await.map(drop));
    note("the parameters are valid", ask(&own, Operation::Validate).await.map(drop));
    note("an instance that was never made does not exist", exists(&own, false).await);
    note("the deletion of nothing succeeds", ask(&other, Operation::Delete).await.map(drop));
    let first = ask(&own, Operation::Create).await.map(Answer::instance);
    let id = first.as_ref().ok().and_then(|instance| instance.provider_id.clone());
    note("an instance is made and has a name", first.and_then(|instance| instance.provider_id.map(drop).ok_or(Broken::Nameless)));
    let same = |what: &'static str, found: Option<String>| {
        if found == id { Ok(()) } else { Err(Broken::Another { what, found, known: id.clone() }) }
    };
    let again = ask(&own, Operation::Create).await.map(|answer| answer.instance().provider_id);
    note("a second create makes no second instance", again.and_then(|again| same("it", again)));
    let known = machine(uid, id.as_deref());
    note("the instance exists", exists(&known, true).await);
    let updated = ask(&known, Operation::Update).await.map(|answer| answer.instance().provider_id);
    note("update tells of the same instance", updated.and_then(|updated| same("update", updated)));
    note("another machine has no instance", exists(&other, false).await);
    note("the instance is deleted", ask(&known, Operation::Delete).await.map(drop));
    note("after its deletion it does not exist", gone(async || exists(&known, false).await, limits.call).await);
    note("a second deletion succeeds", ask(&known, Operation::Delete).await.map(drop));
    tried
}

/// Asks until the instance is gone: a deletion may take its time.
async fn gone(exists: impl AsyncFn() -> Result<(), Broken>, within: Duration) -> Result<(), Broken> {
    let until = Instant::now() + within;
    loop {
        match exists().await {
            Err(_) if Instant::now() + LOOK < until => tokio::time::sleep(LOOK).await,
            answer => return answer,
        }
    }
}
