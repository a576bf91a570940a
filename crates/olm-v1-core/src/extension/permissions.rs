//! The permissions that an extension's installer needs, and the objects that grant them (OLM1-PERM-03, OLM1-PERM-05).

use mainstay_bundle::permissions::{Account, Grant, Scope, derive};
use mainstay_rbac::PolicyRule;
use serde_json::Value;

/// The account that installs an extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installer {
    /// The extension's name; the roles and bindings are named after it.
    pub extension: String,
    /// The account's name.
    pub service_account: String,
    /// The account's namespace.
    pub namespace: String,
}

/// Returns the name of the account that an extension gets if the request names none; its roles always have this name.
pub fn default_account(extension: &str) -> String {
    format!("{extension}-installer")
}

/// Returns the permissions to install these objects as owned by an extension: to block its deletion, an owner reference needs its finalizers.
pub fn needed(objects: &[Value], extension: &str) -> Vec<Grant> {
    let finalizers = PolicyRule::resources(&["update"], &["olm.operatorframework.io"], &["clusterextensions/finalizers"]);
    derive(objects, [Grant { scope: Scope::Cluster, rule: finalizers.named(&[extension]) }])
}

/// Returns the account, its roles and their bindings as objects to apply.
pub fn manifests(grants: &[Grant], installer: &Installer) -> Vec<Value> {
    let Installer { extension, service_account, namespace } = installer;
    let roles = default_account(extension);
    mainstay_bundle::permissions::manifests(grants, Account { name: service_account, namespace, roles: &roles })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// OLM1-PERM-03, OLM1-PERM-05: an installer may update the finalizers of its extension, and its roles are named after the extension.
    #[test]
    fn of_an_extension() {
        let grants = needed(&[], "widgets");
        let finalizers = json!([{"apiGroups": ["olm.operatorframework.io"], "resources": ["clusterextensions/finalizers"],
            "resourceNames": ["widgets"], "verbs": ["update"]}]);
        let installer =
            Installer { extension: "widgets".to_owned(), service_account: "installer".to_owned(), namespace: "work".to_owned() };
        let objects = manifests(&grants, &installer);
        let named: Vec<(&Value, &Value)> = objects.iter().map(|object| (&object["kind"], &object["metadata"]["name"])).collect();
        assert_eq!(
            named,
            [
                (&json!("ServiceAccount"), &json!("installer")),
                (&json!("ClusterRole"), &json!("widgets-installer-clusterrole")),
                (&json!("ClusterRoleBinding"), &json!("widgets-installer-binding")),
            ]
        );
        assert_eq!(objects[1]["rules"], finalizers);
        assert_eq!(objects[2]["subjects"], json!([{"kind": "ServiceAccount", "name": "installer", "namespace": "work"}]));
    }
}
