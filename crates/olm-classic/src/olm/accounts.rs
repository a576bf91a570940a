//! The service accounts of a CSV, and the roles and bindings that count for them.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_olm_classic_core::csv::{Member, PermissionFacts};
use mainstay_olm_classic_core::rules::{Demanding, Granted};
use mainstay_runtime::Key;
use serde_json::Value;

use super::state::{NamedByBinding, metadata, value};
use super::world::World;

impl World {
    /// Gathers what the accounts of a CSV may do: the bindings that name them, and the roles of these.
    pub(super) fn permission_facts(&self, member: &Member) -> PermissionFacts {
        let entries = member.csv.permissions.iter().chain(&member.csv.cluster_permissions);
        let names: BTreeSet<&String> = entries.map(|entry| &entry.service_account).collect();
        let mut facts = PermissionFacts { accounts: BTreeMap::new(), granted: Granted::default() };
        let (mut bindings, mut roles) = (BTreeSet::new(), BTreeSet::new());
        {
            let index = self.state.index();
            for name in names {
                let key = Key::new(&member.namespace, name);
                if let Some(account) = self.caches.accounts.get(&key) {
                    facts.accounts.insert(name.clone(), metadata(&account)["ownerReferences"].clone());
                }
                for binding in index.bindings.of(&NamedByBinding::Account(key)) {
                    bindings.insert(binding.clone());
                    roles.extend(index.bindings.named_by(binding).filter_map(|named| match named {
                        NamedByBinding::Role(role) => Some(role.clone()),
                        NamedByBinding::Account(_) => None,
                    }));
                }
            }
        }
        let demanding = Demanding { name: member.name(), uid: &member.uid };
        let mut add = |object: &Value| {
            if let Err(error) = facts.granted.add(object, demanding) {
                // The API server takes no such role; one that it does not take grants nothing.
                tracing::warn!(csv = member.name(), %error, "a role or binding cannot be read");
            }
        };
        for key in &bindings {
            let cache = if key.namespace.is_empty() { &self.caches.cluster_role_bindings } else { &self.caches.role_bindings };
            cache.get(key).iter().for_each(|object| add(&value(object)));
        }
        for key in &roles {
            let cache = if key.namespace.is_empty() { &self.caches.cluster_roles } else { &self.caches.roles };
            cache.get(key).iter().for_each(|object| add(&value(object)));
        }
        facts
    }
}
