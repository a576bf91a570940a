//! Objects of both kinds: listing, and deletion one after the other.

use kube::Resource;
use kube::api::Api;
use kube::core::ClusterResourceScope;
use mainstay_objects::{Expect, ObjectRef, Propagation, Step};
use mainstay_operations::refused;
use mainstay_terminal::errors::{Exit, Failure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::shared::{Context, SELF, failed};
use super::{Doomed, selected, text};

/// An object of the cluster with its types.
pub fn value<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Result<Value, Failure> {
    let failure = |error| Failure::failed(K::kind(&()).to_lowercase(), &error);
    let mut value = serde_json::to_value(object).map_err(failure)?;
    value["apiVersion"] = K::api_version(&()).into();
    value["kind"] = K::kind(&()).into();
    Ok(value)
}

/// All objects of a kind that a selector takes.
pub async fn all<K>(context: &Context, selector: Option<&String>) -> Result<Vec<Value>, Failure>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Serialize + DeserializeOwned + Clone + std::fmt::Debug,
{
    let api: Api<K> = Api::all(context.session.client.clone());
    let list = api.list(&selected(selector)).await.map_err(|error| refused(K::plural(&()), &error))?;
    list.items.iter().map(value).collect()
}

/// A list of objects as the API has it.
pub fn listed<K: Resource<DynamicType = ()>>(items: &[Value]) -> Value {
    json!({"apiVersion": K::api_version(&()), "kind": format!("{}List", K::kind(&())), "metadata": {}, "items": items})
}

/// Deletes one object, or all; `noun` and `failure` are the plugin's words, `get` finds one by its name.
pub async fn delete<K>(
    context: &Context,
    arguments: &Doomed,
    (noun, failure): (&str, &str),
    get: impl AsyncFn(&str) -> Result<K, Failure>,
) -> Result<(), Failure>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Serialize + DeserializeOwned + Clone + std::fmt::Debug,
{
    for name in doomed(arguments, &all::<K>(context, None).await?, noun)? {
        let object =
            ObjectRef { api_version: K::api_version(&()).into(), kind: K::kind(&()).into(), namespace: String::new(), name: name.clone() };
        let step = Step::Delete { object, expect: Expect::default(), propagation: Propagation::Background };
        let outcome = match get(&name).await {
            Ok(found) => arguments.dry.carry_out(context, &step).await.map(|()| found),
            Err(problem) => Err(problem),
        };
        let found = match outcome {
            Ok(found) => value(&found)?,
            Err(problem) => return failed(failure, Err(problem)),
        };
        arguments.dry.say(&format!("{noun} {name:?} deleted"), &found)?;
    }
    Ok(())
}

/// The names that `delete` means.
fn doomed(arguments: &Doomed, all: &[Value], noun: &str) -> Result<Vec<String>, Failure> {
    match (&arguments.name, arguments.all) {
        (Some(name), _) => Ok(vec![name.clone()]),
        (None, true) if all.is_empty() => Err(Failure::new(Exit::NotFound, SELF, format!("failed to delete {noun}: no resources found"))),
        (None, true) => Ok(all.iter().map(|one| text(&one["metadata"]["name"])).collect()),
        (None, false) => {
            Err(Failure::new(Exit::Usage, SELF, format!("failed to delete {noun}: no {noun} name is given, and --all is not, either")))
        }
    }
}
