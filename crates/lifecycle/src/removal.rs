//! A removal: what it takes away, what it leaves, and who else would miss it (MS-RB-02). Facts in, a preview out.

use std::collections::BTreeMap;

use mainstay_objects::{ObjectRef, delete_order};
use serde::Serialize;
use serde_json::Value;

use crate::object;
use crate::preview::NOT_ASKED;
use crate::revision::Record;

/// The facts.
#[derive(Clone, Debug, Default)]
pub struct Facts<'a> {
    /// The kind of what is removed, for messages about others of it.
    pub kind: &'a str,
    /// Everything that goes with the subject, or may: what it may have applied and what it owns on the cluster, each object once.
    pub objects: &'a [Value],
    /// What it applied or marked, and nothing deletes with it.
    pub remaining: &'a [Value],
    /// Its package.
    pub package: &'a str,
    /// Whether its CRDs are to be kept.
    pub keep_definitions: bool,
    /// Whether everything is to be kept.
    pub keep_everything: bool,
    /// The custom resources of each CRD, by its name: the namespace of each, empty for cluster-wide ones; or why they cannot be told.
    pub instances: BTreeMap<String, Result<Vec<String>, String>>,
    /// Objects of others that may have been made for custom resources: whatever has an owner.
    pub operands: &'a [Value],
    /// The others of its kind: name, and what they have installed.
    pub others: &'a [(String, Record)],
    /// The others that need it, as [`needed_by`] tells.
    pub needed_by: &'a [String],
    /// All webhook configurations of the cluster.
    pub webhooks: &'a [Value],
    /// What install made for the account.
    pub installer: &'a [ObjectRef],
    /// The namespace that it is installed in.
    pub namespace: &'a str,
}

/// Something of the same kind that needs what is removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dependent {
    /// Its name.
    #[serde(rename = "extension")]
    pub name: String,
    /// What it needs, in words.
    pub needs: Vec<String>,
}

/// The preview.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// What is deleted, in order; CRDs among them unless they are kept.
    pub deleted: Vec<String>,
    /// What stays.
    pub kept: Vec<String>,
    /// The CRDs and their custom resources.
    pub definitions: Vec<Definition>,
    /// What was made for custom resources, and goes and stays with them.
    pub operands: Vec<Counted>,
    /// Others that need it: its package or its APIs.
    pub needed_by: Vec<String>,
    /// Who else uses it.
    pub users: Vec<String>,
    /// The account and rights that install made, deleted at the end.
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
    /// How many there are; none where that is not known.
    pub instances: Option<usize>,
    /// Why it is not known how many there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// How many in which namespace; cluster-wide ones under the empty name.
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
    /// The CRDs that have custom resources, or may have some.
    pub fn used(&self) -> impl Iterator<Item = &Definition> {
        self.definitions.iter().filter(|definition| definition.instances != Some(0))
    }
}

/// Makes the preview.
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

/// What is owned by custom resources of these CRDs, counted.
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

/// Others of this `kind` that would miss it: as the catalogs tell, and where these are silent, as the installed bundles say themselves.
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

/// Who else uses its APIs: others whose operators may touch the custom resources, and webhooks.
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

/// The dependencies on this package and these APIs that a bundle declares.
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

/// Whether a role names a CRD's resource. One for everything says nothing about whom it needs.
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
