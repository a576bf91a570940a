//! Queries of the content of a catalog, without a cluster and without `jq` (OLM1-QUERY-02 to OLM1-QUERY-04).
//!
//! A query selects blobs as `/api/v1/metas` does ([`MetaQuery`]), and bundles by the install modes and webhooks in their metadata.
//! Only the CSV tells of webhooks: a bundle whose CSV is not in the catalog (`olm.bundle.object`) is [`Webhooks::Unknown`].

use serde::Serialize;
use serde_json::Value;

use crate::blob::Limits;
use crate::decode::Fields;
use crate::error::LoadError;
use crate::index::MetaQuery;
use crate::load::load;
use crate::model::Bundle;
use crate::properties::{Facts, object, values};
use crate::source::Source;

/// One selected blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Its schema.
    pub schema: String,
    /// Its package, empty when it has none.
    pub package: String,
    /// Its name, empty when it has none.
    pub name: String,
    /// The blob, or its requested fields, as one line of JSON.
    pub json: String,
}

/// Returns the blobs that a query selects, in the order of the files. With `fields`, only these members of a blob, in this order.
pub fn blobs(source: &dyn Source, limits: &Limits, query: &MetaQuery, fields: &[String]) -> Result<Vec<Hit>, LoadError> {
    let mut hits = Vec::new();
    load(source, limits, &mut |blob| {
        let agrees = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        if agrees(&query.schema, blob.schema) && agrees(&query.package, blob.package) && agrees(&query.name, blob.name) {
            hits.push(Hit {
                schema: blob.schema.to_owned(),
                package: blob.package.to_owned(),
                name: blob.name.to_owned(),
                json: if fields.is_empty() { blob.json.to_owned() } else { members(blob.json, fields) },
            });
        }
        Ok(())
    })?;
    Ok(hits)
}

/// Some members of a mapping, in the requested order; missing ones are left out.
fn members(json: &str, fields: &[String]) -> String {
    // Every loaded blob is a mapping; any other value has no members.
    let Ok(all) = Fields::read(json, "") else { return "{}".to_owned() };
    let mut out = String::from("{");
    for field in fields {
        let Some(value) = all.get(field) else { continue };
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&Value::from(field.as_str()).to_string());
        out.push(':');
        out.push_str(value.get());
    }
    out.push('}');
    out
}

/// Presence of webhooks in a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Webhooks {
    /// The bundle has webhooks.
    Yes,
    /// The bundle has no webhooks.
    No,
    /// The catalog does not hold the CSV of the bundle.
    Unknown,
}

impl Webhooks {
    /// Its name in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the webhook state according to the CSV of a bundle, if the catalog has the CSV.
    pub fn of(bundle: &Bundle) -> Self {
        for json in values(bundle, "olm.bundle.object") {
            // An object that cannot be read is ignored; validation reports it.
            let Ok(Some(object)) = object(json) else { continue };
            if object["kind"] == "ClusterServiceVersion" {
                let webhooks = object.pointer("/spec/webhookdefinitions").and_then(Value::as_array);
                return if webhooks.is_some_and(|list| !list.is_empty()) { Self::Yes } else { Self::No };
            }
        }
        Self::Unknown
    }
}

/// Returns the support of an install mode that a bundle declares; `None` if it declares none that can be read.
pub fn supports(bundle: &Bundle, mode: &str) -> Option<bool> {
    let facts = Facts::of(bundle).ok().flatten()?;
    Some(facts.install_modes.iter().any(|of| of.kind == mode && of.supported))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use base64::Engine as _;

    use super::*;
    use crate::{Catalog, MemorySource};

    /// OLM1-QUERY-02, OLM1-QUERY-03: blobs by schema, package and name, whole or some fields in the order asked for.
    #[test]
    fn selections() {
        let text = "{\"schema\":\"olm.package\",\"name\":\"p\"}\n{\"schema\":\"olm.bundle\",\"package\":\"p\",\"name\":\"p.v1\",\"image\":\"i@sha256:0\",\"properties\":[]}\n{\"schema\":\"olm.channel\",\"package\":\"p\",\"name\":\"c\",\"entries\":[]}\n";
        let source = MemorySource::of("c.json", text);
        let ask = |schema: Option<&str>, package: Option<&str>, name: Option<&str>, fields: &[&str]| {
            let owned = |text: Option<&str>| text.map(str::to_owned);
            let query = MetaQuery { schema: owned(schema), package: owned(package), name: owned(name) };
            let fields: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
            blobs(&source, &Limits::default(), &query, &fields).unwrap().into_iter().map(|hit| hit.json).collect::<Vec<_>>()
        };
        assert_eq!(
            ask(Some("olm.bundle"), Some("p"), None, &["name", "image", "absent"]),
            ["{\"name\":\"p.v1\",\"image\":\"i@sha256:0\"}"]
        );
        assert_eq!(ask(Some("olm.package"), None, Some("p"), &[]).len(), 1);
        // The package blob itself has no package.
        assert_eq!(ask(None, Some("p"), None, &["name"]), ["{\"name\":\"p.v1\"}", "{\"name\":\"c\"}"]);
        assert_eq!(ask(None, None, None, &[]).len(), 3);
        assert_eq!(ask(None, Some("q"), None, &[]), Vec::<String>::new());
    }

    /// OLM1-QUERY-04: webhooks are unknown unless the CSV is in the catalog.
    #[test]
    fn webhooks() {
        let of = |properties: Value| {
            let blob = serde_json::json!({"schema": "olm.bundle", "package": "p", "name": "b", "properties": properties});
            let catalog = Catalog::load(&MemorySource::of("c.json", blob.to_string()), &Limits::default()).unwrap();
            (Webhooks::of(&catalog.bundles[0]), supports(&catalog.bundles[0], "AllNamespaces"))
        };
        let csv = |spec: Value| {
            let object = serde_json::json!({"kind": "ClusterServiceVersion", "spec": spec}).to_string();
            serde_json::json!([{"type": "olm.bundle.object", "value": {"data": base64::engine::general_purpose::STANDARD.encode(object)}}])
        };
        assert_eq!(of(csv(serde_json::json!({"webhookdefinitions": [{}], "installModes": []}))), (Webhooks::Yes, Some(false)));
        assert_eq!(of(csv(serde_json::json!({"webhookdefinitions": []}))), (Webhooks::No, Some(false)));
        let metadata =
            serde_json::json!([{"type": "olm.csv.metadata", "value": {"installModes": [{"type": "AllNamespaces", "supported": true}]}}]);
        assert_eq!(of(metadata), (Webhooks::Unknown, Some(true)));
        assert_eq!(of(serde_json::json!([])), (Webhooks::Unknown, None));
    }
}
