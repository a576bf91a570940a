//! The account of an extension that install creates: its objects and its permissions.

use k8s_openapi::api::rbac::v1::{ClusterRole, Role};
use kube::api::{Api, ListParams};
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_bundle::permissions::{Grant, Scope};
use mainstay_diagnostics::Failure;
use mainstay_olm_v1::manifests::TOKEN_LABEL;
use mainstay_olm_v1_core::extension::account_name;
use mainstay_olm_v1_core::extension::permissions::Installer;
use mainstay_rbac::parse_rules;
use serde_json::{Value, json};

use crate::failure::refused;
use crate::session::Session;

/// The label of accounts and roles that install and upgrade created; its value is the name of their extension.
pub const INSTALLER_LABEL: &str = "lifecycle.mainstay.dev/installer-of";

/// Labels an object of the account as install writes it.
pub fn labelled(mut object: Value, extension: &str) -> Value {
    for (label, value) in [(INSTALLER_LABEL, extension), ("app.kubernetes.io/managed-by", "mainstay")] {
        object["metadata"]["labels"][label] = value.into();
    }
    object
}

/// Returns the objects of an account that may do everything.
pub(crate) fn administrator(installer: &Installer) -> Vec<Value> {
    let Installer { extension, service_account, namespace } = installer;
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": service_account, "namespace": namespace}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": format!("{extension}-installer-binding")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": service_account, "namespace": namespace}],
        }),
    ]
}

/// The permissions of the account that install created.
pub struct Granted {
    /// The account.
    pub installer: Installer,
    /// Its permissions.
    pub grants: Vec<Grant>,
}

impl Granted {
    /// Reads them from the cluster; `None` if install did not create the account, or made it an administrator.
    pub async fn read(session: &Session, extension: &ClusterExtension) -> Result<Option<Self>, Failure> {
        let name = extension.metadata.name.clone().unwrap_or_default();
        // The permission of the controller to act as the account is no permission of the account.
        let ours = ListParams::default().labels(&format!("{INSTALLER_LABEL}={name},!{TOKEN_LABEL}"));
        let subject = || format!("roles of the installer of {name}");
        let cluster_roles: Api<ClusterRole> = Api::all(session.client.clone());
        let roles: Api<Role> = Api::all(session.client.clone());
        let mut grants = Vec::new();
        for role in cluster_roles.list(&ours).await.map_err(|error| refused(subject(), &error))? {
            grants.extend(rules(&role, &Scope::Cluster)?);
        }
        for role in roles.list(&ours).await.map_err(|error| refused(subject(), &error))? {
            grants.extend(rules(&role, &Scope::Namespace(role.metadata.namespace.clone().unwrap_or_default()))?);
        }
        let account = account_name(extension).to_owned();
        let installer = Installer { extension: name, service_account: account, namespace: extension.spec.namespace.clone() };
        Ok((!grants.is_empty()).then_some(Self { installer, grants }))
    }
}

fn rules(role: &impl serde::Serialize, scope: &Scope) -> Result<Vec<Grant>, Failure> {
    let value = serde_json::to_value(role).map_err(|error| Failure::failed("role", &error))?;
    let rules = parse_rules(&value).map_err(|error| Failure::failed("role", &error))?;
    Ok(rules.into_iter().map(|rule| Grant { scope: scope.clone(), rule }).collect())
}
