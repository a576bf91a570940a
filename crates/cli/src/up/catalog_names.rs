//! The webhook of catalogs, in process (OLM1-CAT-03): on other clusters it is called over the network; here it is always reachable.

use std::sync::Arc;

use async_trait::async_trait;
use mainstay_api::olm_v1::NAME_LABEL;
use mainstay_apiserver::admission::{AdmissionStep, Request, Steps};
use mainstay_olm_v1::catalog::webhook::name_to_carry;
use serde_json::{Value, json};

use super::components::{Component, Components};

/// The steps of admission that the components bring.
pub fn steps(components: &Components) -> Steps {
    if components.has(Component::OlmV1) { Steps::new(vec![Arc::new(CatalogNames)]) } else { Steps::default() }
}

struct CatalogNames;

#[async_trait]
impl AdmissionStep for CatalogNames {
    async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> mainstay_apiserver::error::Result<()> {
        if request.writes("olm.operatorframework.io", "clustercatalogs") {
            label(object);
        }
        Ok(())
    }
}

/// Gives a catalog its missing label.
fn label(catalog: &mut Value) {
    let Some(metadata) = catalog.get_mut("metadata") else { return };
    let Some(name) = name_to_carry(metadata).map(str::to_owned) else { return };
    if metadata.get("labels").is_none_or(|labels| !labels.is_object()) {
        metadata["labels"] = json!({});
    }
    metadata["labels"][NAME_LABEL] = name.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM1-CAT-03: a catalog carries its name as a label, whatever its writer says.
    #[test]
    fn catalogs_carry_their_name() {
        for given in [json!({}), json!({"labels": null}), json!({"labels": {"team": "a"}}), json!({"labels": {NAME_LABEL: "other"}})] {
            let mut catalog = json!({"metadata": given});
            catalog["metadata"]["name"] = "mine".into();
            let team = catalog["metadata"]["labels"]["team"].clone();
            label(&mut catalog);
            assert_eq!((&catalog["metadata"]["labels"][NAME_LABEL], &catalog["metadata"]["labels"]["team"]), (&json!("mine"), &team));
        }
        let mut unnamed = json!({"metadata": {"generateName": "mine-"}});
        label(&mut unnamed);
        assert_eq!(unnamed, json!({"metadata": {"generateName": "mine-"}}));
    }
}
