//! A policy held in memory: objects update it, and the authorizer queries it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::{Binding, Error, PolicyRule, RoleView, Subject, UserInfo, parse_binding, parse_rules, service_account_username};

/// Roles and bindings by namespace and name.
#[derive(Debug, Clone, Default)]
pub struct PolicyIndex {
    cluster_roles: BTreeMap<String, Arc<[PolicyRule]>>,
    cluster_role_bindings: BTreeMap<String, Arc<Binding>>,
    /// Names of cluster role bindings by subject: every request asks for these, and a cluster has thousands.
    by_subject: HashMap<Whom, BTreeSet<String>>,
    roles: BTreeMap<String, BTreeMap<String, Arc<[PolicyRule]>>>,
    role_bindings: BTreeMap<String, BTreeMap<String, Arc<Binding>>>,
}

/// A subject of a ClusterRoleBinding; a service account is the user that it signs in as.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Whom {
    User(String),
    Group(String),
}

impl Whom {
    fn of(subject: &Subject) -> Option<Self> {
        match subject.kind.as_str() {
            "User" => Some(Self::User(subject.name.clone())),
            "Group" => Some(Self::Group(subject.name.clone())),
            "ServiceAccount" if !subject.namespace.is_empty() => {
                Some(Self::User(service_account_username(&subject.namespace, &subject.name)))
            }
            _ => None,
        }
    }
}

impl PolicyIndex {
    /// Adds an object by its kind, in place of an older one of the same name.
    pub fn apply(&mut self, object: &Value) -> Result<(), Error> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, namespace, name) = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
        match kind.as_str() {
            "ClusterRole" => {
                self.cluster_roles.insert(name, parse_rules(object)?.into());
            }
            "Role" => {
                self.roles.entry(namespace).or_default().insert(name, parse_rules(object)?.into());
            }
            "ClusterRoleBinding" => {
                let binding = parse_binding(object)?;
                self.forget_subjects(&name);
                for whom in binding.subjects.iter().filter_map(Whom::of) {
                    self.by_subject.entry(whom).or_default().insert(name.clone());
                }
                self.cluster_role_bindings.insert(name, Arc::new(binding));
            }
            "RoleBinding" => {
                self.role_bindings.entry(namespace).or_default().insert(name, Arc::new(parse_binding(object)?));
            }
            _ => return Err(Error::UnknownKind { kind }),
        }
        Ok(())
    }

    /// Removes an object; an unknown one is not an error.
    pub fn delete(&mut self, kind: &str, namespace: &str, name: &str) {
        match kind {
            "ClusterRole" => {
                self.cluster_roles.remove(name);
            }
            "ClusterRoleBinding" => {
                self.forget_subjects(name);
                self.cluster_role_bindings.remove(name);
            }
            "Role" => remove_in(&mut self.roles, namespace, name),
            "RoleBinding" => remove_in(&mut self.role_bindings, namespace, name),
            _ => {}
        }
    }

    fn forget_subjects(&mut self, name: &str) {
        let Some(binding) = self.cluster_role_bindings.get(name) else { return };
        for whom in binding.subjects.iter().filter_map(Whom::of) {
            if let Some(names) = self.by_subject.get_mut(&whom) {
                names.remove(name);
                if names.is_empty() {
                    self.by_subject.remove(&whom);
                }
            }
        }
    }
}

impl RoleView for PolicyIndex {
    fn cluster_role_bindings(&self) -> Vec<Arc<Binding>> {
        self.cluster_role_bindings.values().cloned().collect()
    }

    fn cluster_role_bindings_of(&self, user: &UserInfo) -> Vec<Arc<Binding>> {
        let groups = user.groups.iter().map(|group| Whom::Group(group.clone()));
        let whom = std::iter::once(Whom::User(user.name.clone())).chain(groups);
        let names: BTreeSet<&String> = whom.filter_map(|whom| self.by_subject.get(&whom)).flatten().collect();
        names.into_iter().filter_map(|name| self.cluster_role_bindings.get(name).cloned()).collect()
    }

    fn role_bindings(&self, namespace: &str) -> Vec<Arc<Binding>> {
        self.role_bindings.get(namespace).map(|b| b.values().cloned().collect()).unwrap_or_default()
    }

    fn cluster_role(&self, name: &str) -> Option<Arc<[PolicyRule]>> {
        self.cluster_roles.get(name).cloned()
    }

    fn role(&self, namespace: &str, name: &str) -> Option<Arc<[PolicyRule]>> {
        self.roles.get(namespace)?.get(name).cloned()
    }
}

fn remove_in<T>(map: &mut BTreeMap<String, BTreeMap<String, T>>, namespace: &str, name: &str) {
    if let Some(objects) = map.get_mut(namespace) {
        objects.remove(name);
        if objects.is_empty() {
            map.remove(namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    /// KAPI-AUTHZ-01: the bindings that are looked at for a user are those that name it, a group of it, or it as a service account, also
    /// after a binding was changed or deleted.
    #[test]
    fn bindings_of_a_user() {
        let binding = |name: &str, subjects: Value| {
            let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"});
            json!({"kind": "ClusterRoleBinding", "metadata": {"name": name}, "roleRef": role, "subjects": subjects})
        };
        let account = json!({"kind": "ServiceAccount", "name": "a", "namespace": "n"});
        let mut index = PolicyIndex::default();
        index.apply(&binding("c-account", json!([account, account]))).unwrap();
        index.apply(&binding("b-group", json!([{"kind": "Group", "name": "system:serviceaccounts:n"}]))).unwrap();
        index.apply(&binding("a-user", json!([{"kind": "User", "name": "system:serviceaccount:n:a"}]))).unwrap();
        index.apply(&binding("other", json!([{"kind": "ServiceAccount", "name": "a"}, {"kind": "User", "name": "a"}]))).unwrap();
        let user = UserInfo::service_account("n", "a");
        let names =
            |index: &PolicyIndex| -> Vec<String> { index.cluster_role_bindings_of(&user).iter().map(|one| one.name.clone()).collect() };
        assert_eq!(names(&index), ["a-user", "b-group", "c-account"]);
        index.apply(&binding("c-account", json!([{"kind": "User", "name": "x"}]))).unwrap();
        index.delete("ClusterRoleBinding", "", "a-user");
        assert_eq!(names(&index), ["b-group"]);
    }
}
