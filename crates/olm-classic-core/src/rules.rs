//! Permissions that a CSV demands for an account, against the roles and bindings of the cluster (OLM0-CSV-09).

use mainstay_rbac::{Attributes, Error, PolicyIndex, PolicyRule, UserInfo, authorize, service_account_username};
use serde_json::Value;

/// Why a rule cannot be checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRule {
    /// It has no verbs.
    #[error("rule invalid: policy rule must have at least one verb")]
    NoVerbs,
    /// It is about resources and URLs at once.
    #[error("rule invalid: rule cannot apply to both regular resources and non-resource URLs")]
    Mixed,
}

/// The roles and bindings that count for a CSV.
#[derive(Debug, Default)]
pub struct Granted {
    index: PolicyIndex,
}

/// The CSV that demands permissions.
#[derive(Debug, Clone, Copy)]
pub struct Demanding<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
}

impl Granted {
    /// Adds a role or a binding. A role of another CSV grants nothing, and its bindings do not count.
    pub fn add(&mut self, object: &Value, csv: Demanding<'_>) -> Result<(), Error> {
        let foreign = is_foreign(object, csv);
        if foreign && object["kind"].as_str().is_some_and(|kind| kind.ends_with("Binding")) {
            return Ok(());
        }
        if foreign {
            let mut object = object.clone();
            object["rules"] = Value::Array(Vec::new());
            return self.index.apply(&object);
        }
        self.index.apply(object)
    }

    /// Returns whether a service account may do all that a rule says in a namespace; the empty name is the cluster.
    pub fn satisfies(&self, account: (&str, &str), namespace: &str, rule: &PolicyRule) -> Result<bool, InvalidRule> {
        if rule.verbs.is_empty() {
            return Err(InvalidRule::NoVerbs);
        }
        let on_resources = !(rule.api_groups.is_empty() && rule.resources.is_empty() && rule.resource_names.is_empty());
        if on_resources && !rule.non_resource_urls.is_empty() {
            return Err(InvalidRule::Mixed);
        }
        // Upstream asks as the account without its groups.
        let user = UserInfo::new(service_account_username(account.0, account.1), &[]);
        Ok(questions(&user, namespace, rule).iter().all(|question| authorize(&self.index, question).allowed))
    }
}

/// Returns whether an object is owned by another CSV. Upstream compares the owner's apiVersion with the version alone.
fn is_foreign(object: &Value, csv: Demanding<'_>) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array().map_or(&[][..], Vec::as_slice);
    let csvs = || owners.iter().filter(|owner| owner["kind"] == "ClusterServiceVersion" && owner["apiVersion"] == "v1alpha1");
    csvs().next().is_some() && !csvs().any(|owner| owner["name"] == csv.name && owner["uid"] == csv.uid)
}

/// Every single request that a rule covers.
fn questions(user: &UserInfo, namespace: &str, rule: &PolicyRule) -> Vec<Attributes> {
    let or_empty = |list: &[String]| if list.is_empty() { vec![String::new()] } else { list.to_vec() };
    let mut questions = Vec::new();
    for verb in &rule.verbs {
        for api_group in or_empty(&rule.api_groups) {
            for resource in or_empty(&rule.resources) {
                for name in or_empty(&rule.resource_names) {
                    for path in or_empty(&rule.non_resource_urls) {
                        questions.push(Attributes {
                            user: user.clone(),
                            verb: verb.clone(),
                            namespace: namespace.to_owned(),
                            api_group: api_group.clone(),
                            resource: resource.clone(),
                            name: name.clone(),
                            resource_request: path.is_empty(),
                            path,
                            ..Attributes::default()
                        });
                    }
                }
            }
        }
    }
    questions
}
