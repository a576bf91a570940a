//! The built-in resources and their schemas, read from the embedded facts.
//!
//! The resources are read at first use. Definitions stay text until a kind is asked for; then it and what it
//! mentions are read once and shared.

use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, PoisonError, RwLock};

use mainstay_schema::{Additional, Schema, SchemaRef, Type};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::Gvk;

const RESOURCES: &str = include_str!("../facts/resources.json");
const DEFINITIONS: &str = include_str!("../facts/definitions.json");

/// A group with its versions, the preferred one first.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "the fields are those of the Kubernetes API")]
pub struct Group {
    pub name: String,
    pub versions: Vec<String>,
}

impl Group {
    /// The version that clients use unless told otherwise.
    pub fn preferred_version(&self) -> &str {
        self.versions.first().map_or("", String::as_str)
    }
}

/// One built-in resource of one group version.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the fields are those of the Kubernetes API")]
pub struct Resource {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub singular: String,
    #[serde(default)]
    pub short_names: Vec<String>,
    #[serde(default)]
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    #[serde(default)]
    pub subresources: Vec<Subresource>,
    /// Absent if nothing is stored (reviews, bindings).
    pub storage_version_hash: Option<String>,
}

/// One subresource of a resource.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "the fields are those of the Kubernetes API")]
pub struct Subresource {
    pub name: String,
    pub kind: String,
    pub verbs: Vec<String>,
    /// The kind's group, unless it is the resource's own.
    pub group: Option<String>,
    /// The kind's version, unless it is the resource's own.
    pub version: Option<String>,
}

impl Resource {
    /// The kind of its objects.
    pub fn gvk(&self) -> Gvk {
        Gvk::new(&self.group, &self.version, &self.kind)
    }

    /// The group of its type in Kubernetes' code, which findings name: events of both groups are of one type.
    pub fn go_group(&self) -> &str {
        if self.group == "events.k8s.io" { "" } else { &self.group }
    }

    /// Returns true if objects are stored: reviews and bindings only answer.
    pub fn is_stored(&self) -> bool {
        self.verbs.iter().any(|verb| verb == "get")
    }

    /// Its subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }
}

impl Subresource {
    /// The kind that requests and answers have; that of `resource` if none is stated.
    pub fn gvk(&self, resource: &Resource) -> Gvk {
        match (&self.group, &self.version) {
            (group, Some(version)) => Gvk::new(group.clone().unwrap_or_default(), version, &self.kind),
            _ => Gvk::new(&resource.group, &resource.version, &self.kind),
        }
    }
}

/// All built-in groups, resources and schemas.
pub struct Registry {
    groups: Vec<Group>,
    resources: Vec<Resource>,
    by_name: HashMap<(String, String, String), usize>,
    by_kind: HashMap<Gvk, usize>,
    definitions: BTreeMap<&'static str, &'static RawValue>,
    /// Kind to definition.
    named: HashMap<Gvk, &'static str>,
    schemas: RwLock<HashMap<&'static str, SchemaRef>>,
}

/// The built-in kinds.
pub fn registry() -> &'static Registry {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
        // The facts are generated and checked in; a test reads every one of them.
        #[allow(clippy::expect_used, reason = "embedded text, read by every test of this crate")]
        Registry::read().expect("the embedded facts are JSON of their documented form")
    });
    &REGISTRY
}

#[derive(Deserialize)]
struct ResourcesFile {
    groups: Vec<Group>,
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Kinds {
    #[serde(default, rename = "x-kubernetes-group-version-kind")]
    kinds: Vec<KindEntry>,
}

#[derive(Deserialize)]
struct KindEntry {
    group: String,
    version: String,
    kind: String,
}

impl Registry {
    fn read() -> serde_json::Result<Self> {
        let ResourcesFile { groups, resources } = serde_json::from_str(RESOURCES)?;
        let definitions: BTreeMap<&'static str, &'static RawValue> = serde_json::from_str(DEFINITIONS)?;
        let mut named = HashMap::new();
        for (name, text) in &definitions {
            // Most definitions are no kinds of their own: looking for the key is cheaper than reading them.
            if text.get().contains("x-kubernetes-group-version-kind") {
                let Kinds { kinds } = serde_json::from_str(text.get())?;
                if let [one] = kinds.as_slice() {
                    named.insert(Gvk::new(&one.group, &one.version, &one.kind), *name);
                }
            }
        }
        let mut by_name = HashMap::new();
        let mut by_kind = HashMap::new();
        for (at, resource) in resources.iter().enumerate() {
            by_name.insert((resource.group.clone(), resource.version.clone(), resource.plural.clone()), at);
            by_kind.insert(resource.gvk(), at);
        }
        Ok(Self { groups, resources, by_name, by_kind, definitions, named, schemas: RwLock::default() })
    }

    /// The groups in the order of `/apis`, the core group first.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The group of that name.
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// Every resource, in the order of discovery.
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// The resources of one group version, in the order of discovery.
    pub fn resources_of<'a>(&'a self, group: &'a str, version: &'a str) -> impl Iterator<Item = &'a Resource> {
        self.resources.iter().filter(move |resource| resource.group == group && resource.version == version)
    }

    /// The resource of that plural name.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Resource> {
        self.by_name.get(&(group.to_owned(), version.to_owned(), plural.to_owned())).map(|at| &self.resources[*at])
    }

    /// The resource whose objects are of that kind.
    pub fn resource_of_kind(&self, gvk: &Gvk) -> Option<&Resource> {
        self.by_kind.get(gvk).map(|at| &self.resources[*at])
    }

    /// The schema of a kind.
    pub fn schema(&self, gvk: &Gvk) -> Option<SchemaRef> {
        self.definition(self.named.get(gvk)?)
    }

    /// The name of a kind's definition (`io.k8s.api.core.v1.Pod`).
    pub fn definition_name(&self, gvk: &Gvk) -> Option<&'static str> {
        self.named.get(gvk).copied()
    }

    /// The schema of a definition (`io.k8s.api.core.v1.PodSpec`).
    pub fn definition(&self, name: &str) -> Option<SchemaRef> {
        let read = self.schemas.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(schema) = read.get(name) {
            return Some(schema.clone());
        }
        drop(read);
        // The lock is held until the whole tree is read, so that a node that is still pending is never seen.
        let mut cache = self.schemas.write().unwrap_or_else(PoisonError::into_inner);
        self.load(name, &mut cache)
    }

    /// The text of a definition; references are bare names.
    pub(crate) fn definition_json(&self, name: &str) -> Option<Value> {
        serde_json::from_str(self.definitions.get(name)?.get()).ok()
    }

    fn load(&self, name: &str, cache: &mut HashMap<&'static str, SchemaRef>) -> Option<SchemaRef> {
        if let Some(known) = cache.get(name) {
            return Some(known.clone());
        }
        let (name, text) = self.definitions.get_key_value(name)?;
        let json: Value = serde_json::from_str(text.get()).ok()?;
        let node = SchemaRef::pending();
        cache.insert(name, node.clone());
        let mut schema = Schema::read(&json, &mut |wanted: &str| self.load(wanted, cache)).ok()?;
        schema.definition = Some((*name).to_owned());
        // RawExtension, FieldsV1 and the like: an object of which nothing is said holds anything.
        if schema.kind == Some(Type::Object) && schema.properties.is_empty() && matches!(schema.additional, Additional::Unstated) {
            schema.preserve_unknown_fields = true;
        }
        node.fill(schema);
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// KAPI-REST-07, KAPI-REST-08: every resource has a schema, every definition can be read.
    #[test]
    fn every_resource_has_a_schema() {
        let registry = registry();
        for resource in registry.resources() {
            assert!(registry.schema(&resource.gvk()).is_some(), "{} has no schema", resource.gvk());
            for sub in &resource.subresources {
                assert!(!sub.kind.is_empty(), "{}/{}", resource.plural, sub.name);
            }
        }
        for name in registry.definitions.keys() {
            let schema = registry.definition(name).unwrap_or_else(|| panic!("{name} can not be read"));
            assert_eq!(schema.definition.as_deref(), Some(*name));
        }
    }

    /// KAPI-REST-08: merge keys and list types arrive, and recursion ends.
    #[test]
    fn facts_carry_merge_keys_and_recursion() {
        let pod = registry().schema(&Gvk::new("", "v1", "Pod")).unwrap();
        let containers = &pod.properties["spec"].properties["containers"];
        assert_eq!(containers.list_map_keys, ["name"]);
        assert_eq!(containers.patch_merge_key.as_deref(), Some("name"));
        let props = registry().definition("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps").unwrap();
        let Additional::Schema(inner) = &props.properties["properties"].additional else { panic!("no additionalProperties") };
        assert!(inner.properties.contains_key("properties"));
    }

    #[test]
    fn subresources_name_their_kind() {
        let registry = registry();
        let deployments = registry.resource("apps", "v1", "deployments").unwrap();
        assert_eq!(deployments.subresource("scale").unwrap().gvk(deployments), Gvk::new("autoscaling", "v1", "Scale"));
        assert_eq!(deployments.subresource("status").unwrap().gvk(deployments), deployments.gvk());
        let pods = registry.resource("", "v1", "pods").unwrap();
        assert_eq!(pods.subresource("eviction").unwrap().gvk(pods), Gvk::new("policy", "v1", "Eviction"));
        assert_eq!(registry.group("autoscaling").unwrap().preferred_version(), "v2");
    }
}
