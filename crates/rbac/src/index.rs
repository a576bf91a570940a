//! A policy held in memory: fed with objects on one side, asked by the authorizer on the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::{Binding, Error, PolicyRule, RoleView, parse_binding, parse_rules};

/// Roles and bindings by namespace and name.
#[derive(Debug, Clone, Default)]
pub struct PolicyIndex {
    cluster_roles: BTreeMap<String, Arc<[PolicyRule]>>,
    cluster_role_bindings: BTreeMap<String, Arc<Binding>>,
    roles: BTreeMap<String, BTreeMap<String, Arc<[PolicyRule]>>>,
    role_bindings: BTreeMap<String, BTreeMap<String, Arc<Binding>>>,
}

impl PolicyIndex {
    /// Takes in an object by its kind, in place of an older one of the same name.
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
                self.cluster_role_bindings.insert(name, Arc::new(parse_binding(object)?));
            }
            "RoleBinding" => {
                self.role_bindings.entry(namespace).or_default().insert(name, Arc::new(parse_binding(object)?));
            }
            _ => return Err(Error::UnknownKind { kind }),
        }
        Ok(())
    }

    /// Forgets an object; an unknown one is no error.
    pub fn delete(&mut self, kind: &str, namespace: &str, name: &str) {
        match kind {
            "ClusterRole" => {
                self.cluster_roles.remove(name);
            }
            "ClusterRoleBinding" => {
                self.cluster_role_bindings.remove(name);
            }
            "Role" => remove_in(&mut self.roles, namespace, name),
            "RoleBinding" => remove_in(&mut self.role_bindings, namespace, name),
            _ => {}
        }
    }
}

impl RoleView for PolicyIndex {
    fn cluster_role_bindings(&self) -> Vec<Arc<Binding>> {
        self.cluster_role_bindings.values().cloned().collect()
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
