//! The removal of an operator: what goes, what goes with it, what stays, and who else needs it (OLM0-ADMIN-10, OLM0-ADMIN-11).
//!
//! Subscription and CSV are deleted by the command. What the CSV owns goes by the garbage collector and the CSV's finalizer. CRDs, custom
//! resources, the OperatorGroup and the Subscriptions of dependencies stay.

use std::collections::BTreeSet;

use mainstay_objects::{Expect, ObjectRef, Propagation, Step};
use serde::Serialize;
use serde_json::Value;

use crate::overview::{is_copy, place, text};
use crate::subscription::GENERATED_BY;

/// The choices of a removal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Choices {
    /// Deletes the CRDs, and so all custom resources of these kinds.
    pub delete_crds: bool,
    /// Also when others need its APIs.
    pub even_if_needed: bool,
}

/// A CRD that the CSV owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The namespaces of its custom resources, one for each, or why they are not known.
    pub instances: Result<Vec<String>, Unlisted>,
}

/// Why custom resources cannot be listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unlisted(pub String);

/// The state of the cluster, as far as a removal concerns it.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The Subscription.
    pub subscription: Option<&'a Value>,
    /// The CSV.
    pub csv: Option<&'a Value>,
    /// All CSVs of the cluster.
    pub csvs: &'a [Value],
    /// The Subscriptions of the namespace.
    pub subscriptions: &'a [Value],
    /// The objects that the CSV owns, beside copies.
    pub owned: &'a [Value],
    /// The CRDs that the CSV owns and that are there.
    pub definitions: &'a [Definition],
}

/// A removal as shown before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// The objects that the command deletes.
    pub deleted: Vec<String>,
    /// The objects that go with it, by the garbage collector and the finalizer of the CSV.
    pub follows: Vec<String>,
    /// Namespaces with a copy of the CSV, which go with it.
    pub copies: Vec<String>,
    /// The objects that stay.
    pub kept: Vec<String>,
    /// CRDs, with their custom resources.
    pub definitions: Vec<DefinitionPreview>,
    /// CSVs that need its APIs, or provide them, too.
    pub needed_by: Vec<String>,
    /// The other consequences.
    pub notes: Vec<String>,
}

/// A CRD as a preview shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionPreview {
    /// Its name.
    pub name: String,
    /// True if it is deleted.
    pub deleted: bool,
    /// The number of its custom resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_resources: Option<usize>,
    /// Why the number is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// Why a removal is not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Others need its APIs.
    #[error("other operators need its APIs")]
    Needed(Vec<String>),
    /// The number of custom resources that would go is not known.
    #[error("the custom resources of {0} are not known, and --delete-crds would delete them")]
    Unknown(String),
}

/// A planned removal.
#[derive(Debug, Clone, PartialEq)]
pub struct Removal {
    /// The preview that is shown.
    pub preview: Preview,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The objects that have to be gone at the end.
    pub gone: Vec<ObjectRef>,
    /// Why it is not done.
    pub refusal: Option<Refusal>,
}

/// Plans a removal.
pub fn plan(facts: &Facts<'_>, choices: Choices) -> Removal {
    let mut removal = Removal { preview: Preview::default(), steps: Vec::new(), gone: Vec::new(), refusal: None };
    for (kind, object) in [("Subscription", facts.subscription), ("ClusterServiceVersion", facts.csv)] {
        let Some(object) = object else { continue };
        let (namespace, name) = place(object);
        let target = ObjectRef { api_version: "operators.coreos.com/v1alpha1".to_owned(), kind: kind.to_owned(), namespace, name };
        removal.preview.deleted.push(target.to_string());
        let uid = object["metadata"]["uid"].as_str().map(str::to_owned);
        delete(&mut removal, target, uid);
    }
    let preview = &mut removal.preview;
    preview.follows = facts.owned.iter().map(named).collect::<BTreeSet<_>>().into_iter().collect();
    if let Some(csv) = facts.csv {
        let (namespace, name) = place(csv);
        let copies = facts.csvs.iter().filter(|other| is_copy(other) && other["metadata"]["labels"]["olm.copiedFrom"] == *namespace);
        preview.copies = copies.map(place).filter(|(_, copy)| *copy == name).map(|(namespace, _)| namespace).collect();
        preview.needed_by = needed_by(csv, facts.csvs);
        if csv["spec"]["cleanup"]["enabled"] == true {
            preview
                .notes
                .push("the CSV asks for clean-up: its custom resources in the target namespaces are deleted before it goes".to_owned());
        }
    }
    for definition in facts.definitions {
        let (custom_resources, unknown) = match &definition.instances {
            Ok(all) => (Some(all.len()), None),
            Err(why) => (None, Some(why.to_string())),
        };
        preview.definitions.push(DefinitionPreview {
            name: definition.name.clone(),
            deleted: choices.delete_crds,
            custom_resources,
            unknown,
        });
    }
    let dependencies = facts.subscriptions.iter().filter(|other| !other["metadata"]["annotations"][GENERATED_BY].is_null());
    let this = facts.subscription.map(|subscription| text(&subscription["metadata"]["name"]));
    let others = dependencies.filter(|other| Some(text(&other["metadata"]["name"])) != this);
    preview.kept = others.map(|other| format!("Subscription {}, which a dependency brought", placed(other))).collect();
    if facts.subscription.is_none() {
        preview.notes.push("no Subscription asks for the CSV".to_owned());
    }
    if !removal.preview.needed_by.is_empty() && !choices.even_if_needed {
        removal.refusal = Some(Refusal::Needed(removal.preview.needed_by.clone()));
    }
    if choices.delete_crds {
        for definition in facts.definitions {
            if definition.instances.is_err() && removal.refusal.is_none() {
                removal.refusal = Some(Refusal::Unknown(definition.name.clone()));
            }
            let target = ObjectRef {
                api_version: "apiextensions.k8s.io/v1".to_owned(),
                kind: "CustomResourceDefinition".to_owned(),
                namespace: String::new(),
                name: definition.name.clone(),
            };
            delete(&mut removal, target, Some(definition.uid.clone()));
        }
    }
    removal
}

fn delete(removal: &mut Removal, target: ObjectRef, uid: Option<String>) {
    let expect = Expect { uid: uid.filter(|uid| !uid.is_empty()), ..Expect::default() };
    removal.steps.push(Step::Delete { object: target.clone(), expect, propagation: Propagation::Background });
    removal.gone.push(target);
}

/// CSVs that require an API which this one owns, or own it, too. The one that it replaces, or that replaces it, does not count.
pub(crate) fn needed_by(csv: &Value, csvs: &[Value]) -> Vec<String> {
    let own: BTreeSet<String> = definitions(csv, "owned").collect();
    let (namespace, name) = place(csv);
    let is_kin = |other: &Value| {
        let (its_namespace, its_name) = place(other);
        its_namespace == namespace && (its_name == name || other["spec"]["replaces"] == *name || csv["spec"]["replaces"] == *its_name)
    };
    let mut needs = Vec::new();
    for other in csvs.iter().filter(|other| !is_copy(other) && !is_kin(other)) {
        for (field, verb) in [("required", "requires"), ("owned", "provides, too,")] {
            needs
                .extend(definitions(other, field).filter(|crd| own.contains(crd)).map(|crd| format!("CSV {} {verb} {crd}", placed(other))));
        }
    }
    needs
}

/// The CRDs that a CSV owns or requires.
pub fn definitions<'a>(csv: &'a Value, field: &'static str) -> impl Iterator<Item = String> + 'a {
    csv["spec"]["customresourcedefinitions"][field].as_array().into_iter().flatten().map(|crd| text(&crd["name"]))
}

fn placed(object: &Value) -> String {
    let (namespace, name) = place(object);
    if namespace.is_empty() { name } else { format!("{namespace}/{name}") }
}

fn named(object: &Value) -> String {
    format!("{} {}", text(&object["kind"]), placed(object))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn csv(namespace: &str, name: &str, field: &str) -> Value {
        json!({"metadata": {"namespace": namespace, "name": name, "uid": name},
            "spec": {"customresourcedefinitions": {field: [{"name": "gadgets.example.com"}]}}})
    }

    /// OLM0-ADMIN-10, OLM0-ADMIN-11: Subscription and CSV go, CRDs stay unless they are asked for, and others that need its APIs stop it.
    #[test]
    fn crds_stay_and_needs_stop() {
        let subscription = json!({"metadata": {"namespace": "a", "name": "gadget", "uid": "s"}});
        let dependency = json!({"metadata": {"namespace": "a", "name": "dep", "annotations": {GENERATED_BY: "install-x"}}});
        let own = csv("a", "gadget.v1", "owned");
        let mut copy = csv("b", "gadget.v1", "owned");
        copy["metadata"]["labels"] = json!({"olm.copiedFrom": "a"});
        let definitions = [Definition { name: "gadgets.example.com".to_owned(), uid: "d".to_owned(), instances: Ok(vec!["x".to_owned()]) }];
        let csvs = vec![own.clone(), copy];
        let subscriptions = [subscription.clone(), dependency];
        let facts = Facts {
            subscription: Some(&subscription),
            csv: Some(&own),
            csvs: &csvs,
            subscriptions: &subscriptions,
            owned: &[],
            definitions: &definitions,
        };
        let quiet = plan(&facts, Choices::default());
        assert_eq!(quiet.preview.deleted, ["Subscription a/gadget", "ClusterServiceVersion a/gadget.v1"]);
        assert_eq!((quiet.preview.copies.as_slice(), quiet.steps.len(), &quiet.refusal), (&["b".to_owned()][..], 2, &None));
        assert_eq!(quiet.preview.definitions[0].custom_resources, Some(1));
        assert_eq!(quiet.preview.kept, ["Subscription a/dep, which a dependency brought"]);
        let all = plan(&facts, Choices { delete_crds: true, even_if_needed: false });
        assert_eq!((all.steps.len(), all.gone[2].name.as_str()), (3, "gadgets.example.com"));
        let more = [csvs.as_slice(), &[csv("c", "harbour.v1", "required")]].concat();
        let facts = Facts { csvs: &more, ..facts };
        let needed = plan(&facts, Choices::default());
        assert_eq!(needed.refusal, Some(Refusal::Needed(vec!["CSV c/harbour.v1 requires gadgets.example.com".to_owned()])));
        assert_eq!(plan(&facts, Choices { even_if_needed: true, ..Choices::default() }).refusal, None);
    }
}
