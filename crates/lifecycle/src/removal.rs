//! A removal: the objects that it deletes, those that it leaves, and the others that depend on them (MS-RB-02). Facts in, a preview out.

use std::collections::BTreeMap;

use mainstay_objects::{ObjectRef, delete_order};
use serde::Serialize;
use serde_json::Value;

use crate::object;
use crate::preview::NOT_ASKED;
use crate::revision::Record;

/// The facts that a preview of a removal rests on.
#[derive(Clone, Debug, Default)]
pub struct Facts<'a> {
    /// The kind of the removed subject, for messages about others of the same kind.
    pub kind: &'a str,
    /// Everything that is, or may be, removed with the subject: objects that it may have applied and objects that it owns on the cluster, each
    /// once.
    pub objects: &'a [Value],
    /// Objects that it applied or marked and that are not removed with it.
    pub remaining: &'a [Value],
    /// Its package.
    pub package: &'a str,
    /// True if its CRDs are kept.
    pub keep_definitions: bool,
    /// True if everything is kept.
    pub keep_everything: bool,
    /// The custom resources of each CRD, by the CRD's name: the namespace of each, empty for cluster-wide ones; or the reason why they are
    /// unknown.
    pub instances: BTreeMap<String, Result<Vec<String>, String>>,
    /// Objects of others that may have been created for custom resources: all objects that have an owner.
    pub operands: &'a [Value],
    /// The other subjects of the same kind: name, and the record of what they have installed.
    pub others: &'a [(String, Record)],
    /// The others that need it, as returned by [`needed_by`].
    pub needed_by: &'a [String],
    /// All webhook configurations of the cluster.
    pub webhooks: &'a [Value],
    /// Objects that install created for the account.
    pub installer: &'a [ObjectRef],
    /// The namespace that it is installed in.
    pub namespace: &'a str,
}

/// A subject of the same kind that needs the removed one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dependent {
    /// Its name.
    #[serde(rename = "extension")]
    pub name: String,
    /// The needs, in words.
    pub needs: Vec<String>,
}

/// The preview of a removal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// Objects that are deleted, in order, including CRDs unless they are kept.
    pub deleted: Vec<String>,
    /// Objects that stay.
    pub kept: Vec<String>,
    /// The CRDs and their custom resources.
    pub definitions: Vec<Definition>,
    /// Objects that were created for custom resources and are deleted or stay with them.
    pub operands: Vec<Counted>,
    /// Others that need it: its package or its APIs.
    pub needed_by: Vec<String>,
    /// Others that use its APIs.
    pub users: Vec<String>,
    /// The account and permissions that install created, deleted last.
    pub installer: Vec<String>,
}

/// A CRD and its custom resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// The kind.
    pub kind: String,
    /// Number of custom resources; none if it is unknown.
    pub instances: Option<usize>,
    /// The reason why the number is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// Number of custom resources by namespace; cluster-wide ones under the empty name.
    pub namespaces: BTreeMap<String, usize>,
}

/// Objects of a kind in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "named by what they are")]
pub struct Counted {
    pub kind: String,
    pub namespace: String,
    pub count: usize,
}

impl Preview {
    /// Returns the CRDs that have custom resources, or may have some.
    pub fn used(&self) -> impl Iterator<Item = &Definition> {
        self.definitions.iter().filter(|definition| definition.instances != Some(0))
    }
}

/// Builds the preview of a removal.
pub fn preview(facts: &Facts<'_>) -> Preview {
    let crds: Vec<&Value> = facts.objects.iter().filter(|object| is_crd(object)).collect();
    let asks_to_stay = |object: &Value| object["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep";
    let stays = |object: &Value| facts.keep_everything || asks_to_stay(object) || facts.keep_definitions && is_crd(object);
    let mut deleted: Vec<ObjectRef> = facts.objects.iter().filter(|object| !stays(object)).map(object::place).collect();
    delete_order(&mut deleted);
    let mut kept: Vec<String> = vec![format!("Namespace {}", facts.namespace)];
    let stay = facts.objects.iter().filter(|object| stays(object)).chain(facts.remaining);
    kept.extend(stay.map(|object| object::place(object).to_string()));
    let definitions = crds
        .iter()
        .map(|crd| {
            let name = text(&crd["metadata"]["name"]);
            let found = facts.instances.get(name).map_or(Err(NOT_ASKED), |found| found.as_deref().map_err(String::as_str));
            let mut namespaces = BTreeMap::new();
            for namespace in found.unwrap_or_default() {
                *namespaces.entry(namespace.clone()).or_insert(0) += 1;
            }
            Definition {
                name: name.to_owned(),
                kind: text(&crd["spec"]["names"]["kind"]).to_owned(),
                instances: found.ok().map(<[String]>::len),
                unknown: found.err().map(str::to_owned),
                namespaces,
            }
        })
        .collect();
    Preview {
        deleted: deleted.iter().map(ToString::to_string).collect(),
        kept,
        definitions,
        operands: operands(&crds, facts.operands),
        needed_by: facts.needed_by.to_vec(),
        users: users(&crds, facts),
        installer: facts.installer.iter().map(ToString::to_string).collect(),
    }
}

/// Counts the objects that are owned by custom resources of these CRDs.
fn operands(crds: &[&Value], dependents: &[Value]) -> Vec<Counted> {
    let owned_by = |reference: &Value| {
        let group = text(&reference["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
        crds.iter().any(|crd| crd["spec"]["group"] == group && crd["spec"]["names"]["kind"] == reference["kind"])
    };
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for object in dependents {
        if object["metadata"]["ownerReferences"].as_array().is_some_and(|all| all.iter().any(owned_by)) {
            let target = object::place(object);
            *counts.entry((target.kind, target.namespace)).or_default() += 1;
        }
    }
    counts.into_iter().map(|((kind, namespace), count)| Counted { kind, namespace, count }).collect()
}

/// Returns the others of this `kind` that need it, according to the catalogs or, for others that these do not cover, to the installed bundles
/// themselves.
pub fn needed_by(kind: &str, objects: &[Value], package: &str, others: &[(String, Record)], dependents: &[Dependent]) -> Vec<String> {
    let kind = kind.to_lowercase();
    let crds: Vec<&Value> = objects.iter().filter(|object| is_crd(object)).collect();
    let told = |each: &Dependent| each.needs.iter().map(|need| format!("{kind} {}: {need}", each.name)).collect::<Vec<_>>();
    let mut lines: Vec<String> = dependents.iter().flat_map(told).collect();
    for (name, record) in others.iter().filter(|(name, _)| !dependents.iter().any(|each| each.name == *name)) {
        let needs = needs(record, package, &crds);
        lines.extend(needs.into_iter().map(|what| format!("{kind} {name}: {} requires {what}", record.bundle.name)));
    }
    lines
}

/// Returns the others that use its APIs: subjects whose operators may access the custom resources, and webhooks.
fn users(crds: &[&Value], facts: &Facts<'_>) -> Vec<String> {
    let kind = facts.kind;
    let mut users = Vec::new();
    for (name, record) in facts.others {
        if needs(record, facts.package, crds).is_empty() {
            for crd in crds.iter().filter(|crd| record.objects.iter().any(|object| may_touch(object, crd))) {
                users.push(format!(
                    "{kind} {name} ({}): its operator may read or write {}",
                    record.bundle.name,
                    text(&crd["metadata"]["name"])
                ));
            }
        }
    }
    for configuration in facts.webhooks {
        let target = object::place(configuration);
        if facts.objects.iter().any(|object| object::place(object).same(&target)) {
            continue;
        }
        for crd in crds.iter().filter(|crd| calls_for(configuration, crd)) {
            users.push(format!("{target}: is called for {}", text(&crd["metadata"]["name"])));
        }
    }
    users
}

/// Returns the dependencies on this package and these APIs that a bundle declares.
fn needs(record: &Record, package: &str, crds: &[&Value]) -> Vec<String> {
    let properties: Vec<Value> =
        record.annotations.get("olm.properties").and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mut needs = Vec::new();
    for property in &properties {
        let value = &property["value"];
        match text(&property["type"]) {
            "olm.package.required" if value["packageName"] == package => {
                needs.push(format!("package {package} {}", text(&value["versionRange"])));
            }
            "olm.gvk.required"
                if crds.iter().any(|crd| crd["spec"]["group"] == value["group"] && crd["spec"]["names"]["kind"] == value["kind"]) =>
            {
                needs.push(format!("{}/{} {}", text(&value["group"]), text(&value["version"]), text(&value["kind"])));
            }
            _ => {}
        }
    }
    needs
}

/// Returns true if a role names a CRD's resource. A rule for all API groups does not show which CRD is needed, and does not count.
fn may_touch(role: &Value, crd: &Value) -> bool {
    let names = |list: &Value, wanted: &Value, any: bool| {
        list.as_array().is_some_and(|all| all.iter().any(|each| each == wanted || any && each == "*"))
    };
    matches!(text(&role["kind"]), "Role" | "ClusterRole")
        && role["rules"].as_array().is_some_and(|rules| {
            rules.iter().any(|rule| {
                names(&rule["apiGroups"], &crd["spec"]["group"], false) && names(&rule["resources"], &crd["spec"]["names"]["plural"], true)
            })
        })
}

fn calls_for(configuration: &Value, crd: &Value) -> bool {
    let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
    let mut rules = webhooks.flat_map(|webhook| webhook["rules"].as_array().into_iter().flatten());
    let names = |list: &Value, wanted: &Value| list.as_array().is_some_and(|all| all.contains(wanted));
    rules.any(|rule| names(&rule["apiGroups"], &crd["spec"]["group"]))
}

fn is_crd(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
