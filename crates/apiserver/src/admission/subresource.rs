//! Objects that are posted to a subresource and never stored themselves: an Eviction, a Binding. They are admitted like creations.

use mainstay_kinds::Gvk;
use serde_json::Value;

use super::chain::Chain;
use super::step::Request;
use crate::error::Result;
use crate::served::Served;

/// Admits what is posted to a subresource of an object; admission may change it.
pub async fn posted(chain: &Chain, request: &Request<'_>, object: &mut Value) -> Result<()> {
    name_kind(request.served, request.subresource, object);
    chain.mutate(request, object).await?;
    chain.validate(request, Some(object)).await
}

/// Says what the object is: a body may leave that out, those who are asked about it rely on it.
fn name_kind(served: &Served, subresource: &str, object: &mut Value) {
    let (Value::Object(map), Some(sub)) = (object, served.subresource(subresource)) else { return };
    let facts = &served.facts;
    let gvk = Gvk::new(sub.group.as_ref().unwrap_or(&facts.group), sub.version.as_ref().unwrap_or(&facts.version), &sub.kind);
    map.insert("apiVersion".into(), gvk.api_version().into());
    map.insert("kind".into(), gvk.kind.into());
}
