//! Commands that give permissions to a service account.

use serde_json::{Value, json};

/// The command that gives rules to an account by a role of this name and its binding: in a namespace, or cluster-wide.
pub(super) fn grant(role: &str, namespace: Option<&str>, account: (&str, &str), rules: &[Value]) -> String {
    let (prefix, mut metadata) = (if namespace.is_some() { "" } else { "Cluster" }, json!({"name": role}));
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{prefix}Role"), "metadata": metadata, "rules": rules},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{prefix}RoleBinding"), "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": format!("{prefix}Role"), "name": role},
            "subjects": [{"kind": "ServiceAccount", "namespace": account.0, "name": account.1}],
        },
    ]});
    // Names come from bundles; what a shell would read is quoted.
    format!("echo '{}' | kubectl apply -f -", list.to_string().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM0-ADMIN-33: the command holds role and binding, and text from a bundle cannot end its quotes.
    #[test]
    fn role_and_binding() {
        let command = grant("a", Some("lights"), ("ops", "installer"), &[json!({"resources": ["it's"]})]);
        assert!(command.starts_with("echo '{") && command.ends_with("}' | kubectl apply -f -"), "{command}");
        assert!(command.contains(r#""kind":"RoleBinding","metadata":{"name":"a","namespace":"lights"}"#), "{command}");
        assert!(command.contains(r#"["it'\''s"]"#), "{command}");
        let wide = grant("a", None, ("ops", "installer"), &[]);
        assert!(wide.contains(r#""kind":"ClusterRole","metadata":{"name":"a"}"#), "{wide}");
    }
}
