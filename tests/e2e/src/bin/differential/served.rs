//! The kinds that the reference serves, from its aggregated discovery, and a valid object of each kind to begin from.

use anyhow::{Context as _, Result, anyhow, bail};
use mainstay_e2e::replay::{self, Json, Target};
use serde_json::{Map, Value, json};

/// The media type of aggregated discovery.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// One served resource of one version.
#[derive(Debug, Clone)]
pub struct Resource {
    /// API group; empty for core.
    pub group: String,
    /// Version.
    pub version: String,
    /// Plural name.
    pub plural: String,
    /// Kind.
    pub kind: String,
    /// True if its objects lie in namespaces.
    pub namespaced: bool,
    /// Verbs.
    pub verbs: Vec<String>,
    /// Names and verbs of its subresources.
    pub subresources: Vec<(String, Vec<String>)>,
    /// A valid object without apiVersion and kind; its name is `NAME` where any will do.
    sample: Value,
}

/// The placeholder of the name in a sample.
const NAME: &str = "NAME";

impl Resource {
    /// A resource that discovery does not know yet: one of a definition that a sequence makes.
    pub fn custom(group: &str, version: &str, namespaced: bool, sample: Value) -> Self {
        let text = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: "things".to_owned(),
            kind: "Thing".to_owned(),
            namespaced,
            verbs: text(&["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]),
            subresources: vec![
                ("status".to_owned(), text(&["get", "patch", "update"])),
                ("scale".to_owned(), text(&["get", "patch", "update"])),
            ],
            sample,
        }
    }

    /// `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// RESOURCE.GROUP.
    pub fn id(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// The path of the collection, in the sequence's own namespace.
    pub fn collection(&self) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let place = if self.namespaced { "/namespaces/${ns}" } else { "" };
        format!("{root}/{}{place}/{}", self.api_version(), self.plural)
    }

    /// The path of an object.
    pub fn item(&self, name: &str) -> String {
        format!("{}/{name}", self.collection())
    }

    /// Returns true if the verb is served.
    pub fn serves(&self, verb: &str) -> bool {
        self.verbs.iter().any(|one| one == verb)
    }

    /// The name of the sequence's object of that number: cluster-scoped ones are the sequence's by their suffix.
    pub fn name(&self, number: usize) -> String {
        let letter = ["a", "b", "c"][number % 3];
        match self.sample.pointer("/metadata/name").and_then(Value::as_str) {
            Some(NAME) if self.namespaced => letter.to_owned(),
            Some(NAME) if number == 0 => "${sfx}".to_owned(),
            Some(NAME) => format!("{letter}-${{sfx}}"),
            Some(given) => given.to_owned(),
            None => String::new(),
        }
    }

    /// A valid object of that number.
    pub fn object(&self, number: usize) -> Value {
        let mut object = self.sample.clone();
        object["apiVersion"] = self.api_version().into();
        object["kind"] = self.kind.clone().into();
        object["metadata"]["name"] = self.name(number).into();
        let labels = object["metadata"].as_object_mut().map(|metadata| metadata.entry("labels").or_insert_with(|| json!({})));
        if let Some(Value::Object(labels)) = labels {
            labels.insert("sequence".to_owned(), "${sfx}".into());
            labels.insert("number".to_owned(), number.to_string().into());
        }
        object
    }
}

/// Every resource that the reference serves, in the order of its discovery.
pub async fn resources(reference: &Target) -> Result<Vec<Resource>> {
    let samples = mainstay_yaml::parse(include_str!("samples.yaml")).map_err(|error| anyhow!("samples.yaml: {error}"))?;
    let samples = samples.as_object().context("samples.yaml is no object")?;
    let mut found = Vec::new();
    for root in ["/api", "/apis"] {
        let step = json!({"method": "GET", "path": root, "headers": {"accept": AGGREGATED}});
        let (status, body) = replay::ask(reference, &as_json(&step)?).await?;
        if status != 200 {
            bail!("GET {root}: {status} {body}");
        }
        let document: Value = serde_json::from_str(&body.to_string())?;
        for group in items(&document, "items") {
            for version in items(group, "versions") {
                let resources = items(version, "resources").map(|resource| read(group, version, resource, samples));
                found.extend(resources);
            }
        }
    }
    let unknown: Vec<&String> = samples.keys().filter(|id| found.iter().all(|resource| resource.id() != **id)).collect();
    if !unknown.is_empty() {
        eprintln!("differential: samples of kinds that the reference does not serve: {unknown:?}");
    }
    Ok(found)
}

fn read(group: &Value, version: &Value, resource: &Value, samples: &Map<String, Value>) -> Resource {
    let text = |of: &Value, pointer: &str| of.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let verbs = |of: &Value| items(of, "verbs").filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
    let subresources = items(resource, "subresources").map(|sub| (text(sub, "/subresource"), verbs(sub)));
    let mut read = Resource {
        group: text(group, "/metadata/name"),
        version: text(version, "/version"),
        plural: text(resource, "/resource"),
        kind: text(resource, "/responseKind/kind"),
        namespaced: text(resource, "/scope") == "Namespaced",
        verbs: verbs(resource),
        subresources: subresources.collect(),
        sample: Value::Null,
    };
    let mut sample = samples.get(&read.id()).cloned().unwrap_or_else(|| json!({}));
    let name = sample.as_object_mut().and_then(|sample| sample.remove("name"));
    if !sample["metadata"].is_object() {
        sample["metadata"] = json!({});
    }
    sample["metadata"]["name"] = name.unwrap_or_else(|| NAME.into());
    read.sample = sample;
    read
}

/// The form in which sequences are played.
pub fn as_json(value: &Value) -> Result<Json> {
    Ok(serde_json::from_str(&value.to_string())?)
}

fn items<'a>(of: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    of[name].as_array().into_iter().flatten()
}
