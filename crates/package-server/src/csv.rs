//! A ClusterServiceVersion as package manifests show it (OLM0-API-28): the parts that people read, in the form of upstream's answers.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_versions::Version;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A ClusterServiceVersion as it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Csv {
    /// Its metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "or_default")]
    spec: Spec,
}

/// Metadata of a ClusterServiceVersion.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Its labels.
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(deserialize_with = "or_default")]
    display_name: String,
    #[serde(deserialize_with = "or_default")]
    version: String,
    #[serde(deserialize_with = "or_default")]
    description: String,
    #[serde(deserialize_with = "or_default")]
    maturity: String,
    #[serde(deserialize_with = "or_default")]
    min_kube_version: String,
    #[serde(deserialize_with = "or_default")]
    keywords: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    provider: Link,
    #[serde(deserialize_with = "or_default")]
    links: Vec<Link>,
    #[serde(deserialize_with = "or_default")]
    maintainers: Vec<Maintainer>,
    #[serde(deserialize_with = "or_default")]
    icon: Vec<Icon>,
    #[serde(deserialize_with = "or_default")]
    install_modes: Vec<InstallMode>,
    #[serde(deserialize_with = "or_default")]
    customresourcedefinitions: Served<Crd>,
    #[serde(deserialize_with = "or_default")]
    apiservicedefinitions: Served<ApiService>,
    #[serde(rename = "nativeAPIs", deserialize_with = "or_default")]
    native_apis: Vec<GroupVersionKind>,
    /// Read leniently: what has another form names no images.
    install: Value,
    related_images: Value,
}

/// A name with a page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    /// The name.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The page.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub url: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Maintainer {
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    email: String,
}

/// A picture, its bytes in base64.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Icon {
    /// The bytes.
    #[serde(deserialize_with = "or_default")]
    pub base64data: String,
    /// Their media type.
    #[serde(deserialize_with = "or_default")]
    pub mediatype: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct InstallMode {
    #[serde(rename = "type", deserialize_with = "or_default")]
    kind: String,
    #[serde(deserialize_with = "or_default")]
    supported: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct GroupVersionKind {
    #[serde(deserialize_with = "or_default")]
    group: String,
    #[serde(deserialize_with = "or_default")]
    version: String,
    #[serde(deserialize_with = "or_default")]
    kind: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(default, bound(deserialize = "T: Deserialize<'de> + Default"))]
struct Served<T> {
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    owned: Vec<T>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    required: Vec<T>,
}

impl<T> Default for Served<T> {
    fn default() -> Self {
        Self { owned: Vec::new(), required: Vec::new() }
    }
}

/// A custom resource without what is for forms only.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Crd {
    #[serde(deserialize_with = "or_default")]
    name: String,
    #[serde(deserialize_with = "or_default")]
    version: String,
    #[serde(deserialize_with = "or_default")]
    kind: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    display_name: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    description: String,
}

/// A kind of an aggregated API without what is for forms only.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ApiService {
    #[serde(deserialize_with = "or_default")]
    name: String,
    #[serde(deserialize_with = "or_default")]
    group: String,
    #[serde(deserialize_with = "or_default")]
    version: String,
    #[serde(deserialize_with = "or_default")]
    kind: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    display_name: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    description: String,
}

/// `currentCSVDesc`, in the order of upstream's fields. Icons are served apart (OLM0-API-31).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Description<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    display_name: &'a str,
    version: String,
    provider: &'a Link,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    keywords: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    links: &'a [Link],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    maintainers: &'a [Maintainer],
    #[serde(skip_serializing_if = "str::is_empty")]
    maturity: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    #[serde(rename = "description")]
    text: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    install_modes: &'a [InstallMode],
    customresourcedefinitions: &'a Served<Crd>,
    apiservicedefinitions: &'a Served<ApiService>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    native_apis: &'a [GroupVersionKind],
    #[serde(skip_serializing_if = "str::is_empty")]
    min_kube_version: &'a str,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    related_images: BTreeSet<&'a str>,
}

/// A ClusterServiceVersion that cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum CsvError {
    /// It is no JSON object of the expected form.
    #[error("the ClusterServiceVersion cannot be read")]
    Form(#[from] serde_json::Error),
    /// Its version is no semantic version.
    #[error("the version of the ClusterServiceVersion is invalid")]
    Version(#[from] mainstay_versions::Error),
}

impl Csv {
    /// Reads the JSON text of a ClusterServiceVersion.
    pub fn parse(text: &str) -> Result<Self, CsvError> {
        Ok(serde_json::from_str(text)?)
    }

    /// The organization that provides it.
    pub fn provider(&self) -> &Link {
        &self.spec.provider
    }

    /// Takes its picture: the first of several.
    pub fn into_icon(self) -> Option<Icon> {
        self.spec.icon.into_iter().next()
    }

    /// `currentCSVDesc` as JSON text.
    pub fn description(&self) -> Result<String, CsvError> {
        let spec = &self.spec;
        let version = if spec.version.is_empty() { "0.0.0".to_owned() } else { Version::parse(&spec.version)?.to_string() };
        let description = Description {
            display_name: &spec.display_name,
            version,
            provider: &spec.provider,
            annotations: &self.metadata.annotations,
            keywords: &spec.keywords,
            links: &spec.links,
            maintainers: &spec.maintainers,
            maturity: &spec.maturity,
            text: &spec.description,
            install_modes: &spec.install_modes,
            customresourcedefinitions: &spec.customresourcedefinitions,
            apiservicedefinitions: &spec.apiservicedefinitions,
            native_apis: &spec.native_apis,
            min_kube_version: &spec.min_kube_version,
            related_images: self.images(),
        };
        Ok(serde_json::to_string(&description)?)
    }

    /// The images of its Deployments and those that it names.
    fn images(&self) -> BTreeSet<&str> {
        let deployments = self.spec.install.pointer("/spec/deployments").and_then(Value::as_array).into_iter().flatten();
        let containers = deployments.flat_map(|deployment| {
            let pod = deployment.pointer("/spec/template/spec");
            ["containers", "initContainers"].into_iter().filter_map(move |part| pod?.get(part)?.as_array()).flatten()
        });
        let related = self.spec.related_images.as_array().into_iter().flatten();
        let images = containers.chain(related).filter_map(|holder| holder.get("image")?.as_str());
        images.filter(|image| !image.is_empty()).collect()
    }
}

/// A value, or its default where the text says null, as Go reads it.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    /// OLM0-API-28: the description has upstream's fields; forms, icons and nulls are left out, images come from Deployments too.
    #[test]
    fn descriptions() {
        let csv = json!({
            "metadata": {"name": "web.v1", "annotations": {"capabilities": "Basic Install"}, "labels": null},
            "spec": {
                "displayName": "Web", "version": "1.2.3", "icon": [{"base64data": "aGk=", "mediatype": "image/png"}],
                "customresourcedefinitions": {"owned": [{"name": "sites.web.io", "version": "v1", "kind": "Site", "specDescriptors": [{"path": "x"}]}]},
                "nativeAPIs": [{"group": "", "version": "v1", "kind": "Pod"}], "links": [{"name": "home"}],
                "install": {"strategy": "deployment", "spec": {"deployments": [
                    {"name": "d", "spec": {"template": {"spec": {"containers": [{"image": "b"}], "initContainers": [{"image": "a"}]}}}}]}},
                "relatedImages": [{"name": "r", "image": "c"}, {"name": "again", "image": "a"}],
            },
        });
        let csv = Csv::parse(&csv.to_string()).unwrap();
        let wanted = concat!(
            r#"{"displayName":"Web","version":"1.2.3","provider":{},"annotations":{"capabilities":"Basic Install"},"links":[{"name":"home"}],"#,
            r#""customresourcedefinitions":{"owned":[{"name":"sites.web.io","version":"v1","kind":"Site"}]},"apiservicedefinitions":{},"#,
            r#""nativeApis":[{"group":"","version":"v1","kind":"Pod"}],"relatedImages":["a","b","c"]}"#,
        );
        assert_eq!(csv.description().unwrap(), wanted);
        assert_eq!(csv.into_icon().unwrap().mediatype, "image/png");
        assert!(Csv::parse(r#"{"spec": {"version": "one"}}"#).unwrap().description().is_err());
        assert!(Csv::parse("").is_err());
        assert!(Csv::parse("{}").unwrap().description().unwrap().starts_with(r#"{"version":"0.0.0","#));
    }
}
