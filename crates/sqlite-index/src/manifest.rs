//! The parts of a ClusterServiceVersion that an index database keeps.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::error::Error;

/// A ClusterServiceVersion as written, with queries for the parts that the tables hold.
#[derive(Debug, Clone)]
pub(crate) struct Manifest(Value);

/// An API that a bundle provides or requires.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Api {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
}

impl Manifest {
    pub(crate) fn new(object: Value) -> Self {
        Self(object)
    }

    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        serde_json::from_str(text).map(Self).map_err(|error| Error::content(error.to_string()))
    }

    /// The version; empty if there is none.
    pub(crate) fn version(&self) -> Result<String, Error> {
        self.text("version")
    }

    /// The bundle that this one replaces; empty if there is none.
    pub(crate) fn replaces(&self) -> Result<String, Error> {
        self.text("replaces")
    }

    /// The bundles that this one skips.
    pub(crate) fn skips(&self) -> Result<Vec<String>, Error> {
        match &self.0["spec"]["skips"] {
            Value::Null => Ok(Vec::new()),
            Value::Array(items) => items.iter().map(|item| as_text("skips", item)).collect(),
            other => Err(wrong("skips", other, "[]string")),
        }
    }

    /// An annotation; empty if there is none.
    pub(crate) fn annotation(&self, key: &str) -> &str {
        self.0["metadata"]["annotations"][key].as_str().unwrap_or_default()
    }

    /// The images of the operator's containers, if deployments install it, and its related images.
    pub(crate) fn images(&self) -> BTreeSet<String> {
        let mut images = BTreeSet::new();
        let install = &self.0["spec"]["install"];
        if install["strategy"] == "deployment" {
            for deployment in list(&install["spec"]["deployments"]) {
                let pod = &deployment["spec"]["template"]["spec"];
                for container in list(&pod["containers"]).iter().chain(list(&pod["initContainers"])) {
                    images.insert(string(&container["image"]));
                }
            }
        }
        images.extend(list(&self.0["spec"]["relatedImages"]).iter().map(|image| string(&image["image"])));
        images
    }

    /// The required APIs, sorted, each once.
    pub(crate) fn required(&self) -> Result<Vec<Api>, Error> {
        let mut required = BTreeSet::new();
        for crd in list(&self.0["spec"]["customresourcedefinitions"]["required"]) {
            let name = string(&crd["name"]);
            let Some((plural, group)) = name.split_once('.') else {
                return Err(Error::content(format!("couldn't parse plural.group from crd name: {name}")));
            };
            required.insert(Api {
                group: group.to_owned(),
                version: string(&crd["version"]),
                kind: string(&crd["kind"]),
                plural: plural.to_owned(),
            });
        }
        required.extend(list(&self.0["spec"]["apiservicedefinitions"]["required"]).iter().map(service));
        Ok(required.into_iter().collect())
    }

    /// The aggregated APIs that the operator serves itself.
    pub(crate) fn owned_services(&self) -> impl Iterator<Item = Api> + '_ {
        list(&self.0["spec"]["apiservicedefinitions"]["owned"]).iter().map(service)
    }

    fn text(&self, field: &str) -> Result<String, Error> {
        match &self.0["spec"][field] {
            Value::Null => Ok(String::new()),
            other => as_text(field, other),
        }
    }
}

impl Api {
    /// The versions of a CRD.
    pub(crate) fn of_crd(crd: &Value) -> Vec<Self> {
        let spec = &crd["spec"];
        let names = &spec["names"];
        let api = |version: &Value| Self {
            group: string(&spec["group"]),
            version: string(version),
            kind: string(&names["kind"]),
            plural: string(&names["plural"]),
        };
        let mut apis: Vec<Self> = list(&spec["versions"]).iter().map(|version| api(&version["name"])).collect();
        let beta = crd["apiVersion"].as_str().is_some_and(|version| version.ends_with("/v1beta1"));
        if beta && spec["version"].as_str().is_some_and(|version| !version.is_empty()) {
            apis.push(api(&spec["version"]));
        }
        apis
    }
}

fn service(entry: &Value) -> Api {
    Api { group: string(&entry["group"]), version: string(&entry["version"]), kind: string(&entry["kind"]), plural: string(&entry["name"]) }
}

fn as_text(field: &str, value: &Value) -> Result<String, Error> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Null => Ok(String::new()),
        other => Err(wrong(field, other, "string")),
    }
}

fn wrong(field: &str, value: &Value, expected: &str) -> Error {
    let found = match value {
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        _ => "string",
    };
    Error::content(format!("json: cannot unmarshal {found} into Go value of type {expected} (field {field})"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
