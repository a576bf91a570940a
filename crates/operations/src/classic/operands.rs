//! Custom resources of the APIs that an operator owns.

use mainstay_diagnostics::Failure;
use mainstay_objects::{Expect, ObjectRef, Propagation, Step, Until};
use mainstay_olm_classic_core::csv::TARGETS;
use mainstay_olm_classic_core::removal;
use serde_json::Value;
use std::time::Duration;

use super::objects::{DEFINITION, find, text};
use crate::apply::execute;
use crate::ownership;
use crate::session::Session;

/// Lists the metadata of the custom resources of a CSV's APIs, in the namespaces that it watches.
pub async fn all(session: &Session, csv: &Value) -> Result<Vec<Value>, Failure> {
    let targets = csv["metadata"]["annotations"][TARGETS].as_str().unwrap_or_default().to_owned();
    let targets: Vec<&str> = targets.split(',').filter(|name| !name.is_empty()).collect();
    let mut all = Vec::new();
    for crd in removal::definitions(csv, "owned") {
        let Some(live) = find(session, DEFINITION, "", &crd).await? else { continue };
        let Some(resource) = ownership::stored_resource(&live) else { continue };
        all.extend(ownership::metadata(session, &resource, None).await?.unwrap_or_default());
    }
    all.retain(|object| {
        let namespace = text(object, "/metadata/namespace");
        targets.is_empty() || namespace.is_empty() || targets.contains(&namespace.as_str())
    });
    Ok(all)
}

/// Deletes custom resources, and waits until they are gone.
pub async fn delete(session: &Session, operands: &[Value], timeout: Duration) -> Result<(), Failure> {
    let places: Vec<ObjectRef> = operands.iter().filter_map(|object| ObjectRef::of(object).ok()).collect();
    for object in &places {
        execute(session, &Step::Delete { object: object.clone(), expect: Expect::default(), propagation: Propagation::Background }).await?;
    }
    for object in places {
        execute(session, &Step::Wait { object, until: Until::Gone, timeout }).await?;
    }
    Ok(())
}
