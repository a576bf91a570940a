//! The namespace where OLM v1 is deployed already, and the accounts that its controller may act as.

use kube::api::GroupVersionKind;
use mainstay_apply::Writer;
use mainstay_diagnostics::counted;
use mainstay_objects::ObjectRef;
use mainstay_olm_v1::manifests::token_access;
use mainstay_operations::not_written;
use mainstay_terminal::errors::{Exit, Failure, note};
use serde_json::Value;

use super::components::Shape;
use super::{place, remove};

const RBAC: &str = "rbac.authorization.k8s.io/v1";
/// The bindings that give the controllers their cluster-wide permissions; they exist once in a cluster.
const BINDINGS: [&str; 2] = ["operator-controller-manager-rolebinding", "catalogd-manager-rolebinding"];

/// Refuses if OLM v1 is deployed in another namespace: its cluster-wide permissions would move to the new one, or half of it would stay.
pub async fn check(writer: &Writer, namespace: &str, uninstall: bool) -> Result<(), Failure> {
    for name in BINDINGS {
        let found = writer.get(&place(RBAC, "ClusterRoleBinding", name, "")).await.map_err(|error| not_written(&error))?;
        let Some(home) = found.as_ref().and_then(|binding| elsewhere(binding, namespace)) else { continue };
        let failure = Failure::new(Exit::Impossible, "olm-v1", format!("is deployed in namespace {home}, not in {namespace}"))
            .because(format!("clusterrolebinding {name} is for its account there"));
        let removal = format!("mainstay deploy --uninstall --components olm-v1 --namespace {home}");
        return Err(if uninstall {
            failure.hint(format!("{removal} removes that one"))
        } else {
            failure
                .hint(format!("{removal} removes that one first"))
                .hint(format!("--namespace {home} brings that one to what the flags say"))
        });
    }
    Ok(())
}

/// The namespace of the first subject of a binding, if none is in `namespace`.
fn elsewhere<'b>(binding: &'b Value, namespace: &str) -> Option<&'b str> {
    let subjects = binding["subjects"].as_array()?.iter().filter_map(|subject| subject["namespace"].as_str());
    let homes: Vec<&str> = subjects.collect();
    homes.first().copied().filter(|_| !homes.contains(&namespace))
}

/// The extensions whose accounts the controller may not act as yet, with these accounts: permissions that `mainstay install` made are left as they
/// are.
pub async fn not_lent(writer: &Writer, shape: &Shape) -> Result<Vec<(String, (String, String))>, Failure> {
    let gvk = GroupVersionKind::gvk("olm.operatorframework.io", "v1", "ClusterExtension");
    let all = match writer.list(&gvk, usize::MAX).await {
        Ok(all) => all,
        // A dry run creates no CRDs.
        Err(error) if remove::not_served(&error) => return Ok(Vec::new()),
        Err(error) => return Err(not_written(&error).into()),
    };
    let mut wanted = Vec::new();
    for extension in &all {
        let text = |pointer: &str| extension.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (name, namespace, account) = (text("/metadata/name"), text("/spec/namespace"), text("/spec/serviceAccount/name"));
        if account.is_empty() || super::namespace_state(writer, &namespace).await? != Some(super::NamespaceState::Stays) {
            continue;
        }
        let controller = (shape.system_namespace.as_str(), shape.olm_v1.controller());
        let [role, binding] = token_access(&name, (&namespace, &account), controller);
        let mut stands = true;
        for (object, field) in [(&role, "rules"), (&binding, "subjects")] {
            let target = ObjectRef::of(object).map_err(|error| Failure::failed("manifests", &error))?;
            let live = writer.get(&target).await.map_err(|error| not_written(&error))?;
            // Objects that this command made itself are still needed.
            stands &= live.is_some_and(|live| live[field] == object[field] && !remove::is_made(&live));
        }
        if !stands {
            wanted.push((name, (namespace, account)));
        }
    }
    if !wanted.is_empty() {
        note(format!("operator-controller is let act as the accounts of {}", counted(wanted.len(), "extension")));
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// MS-CLI-04: a deployment in another namespace is found by whom its cluster-wide permissions are for.
    #[test]
    fn where_it_is_deployed() {
        let binding = json!({"subjects": [{"kind": "ServiceAccount", "name": "c", "namespace": "one"}]});
        assert_eq!(elsewhere(&binding, "two"), Some("one"));
        assert_eq!(elsewhere(&binding, "one"), None);
        assert_eq!(elsewhere(&json!({}), "one"), None);
    }
}
