//! The fields that a deployment may take back from other field managers (MS-CLI-04).
//!
//! Components of this program write into deployed objects because the deployment asks for it: the service CA injects its bundle into annotated
//! objects, and the cluster operator passes settings on. If the next deployment writes such a field itself, no other owner's decision is overridden.

use serde_json::Value;

use super::MANAGED_BY;

/// The fields of deployed objects that a component of this program writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writes {
    /// The field manager of the component.
    pub manager: &'static str,
    /// The kind of the objects.
    pub kind: &'static str,
    /// The prefix of the paths of the fields.
    pub begins: &'static str,
    /// The suffix of the paths of the fields.
    pub ends: &'static str,
    /// True if the component itself creates such objects. Otherwise the deployment creates them.
    pub makes: bool,
}

/// Returns true if all of these conflicts, each a message and a field, concern fields that `writers` wrote to an object of this deployment. A single
/// field of any other manager makes it false, and nothing is taken.
pub fn lent(live: &Value, conflicts: &[(String, String)], writers: &[Writes]) -> bool {
    let is_deployed = live["metadata"]["labels"][MANAGED_BY.0] == MANAGED_BY.1;
    let wrote = |(message, field): &(String, String)| {
        writers.iter().any(|writes| {
            // The quotes keep a name from matching as the prefix of another.
            let by = message.strip_prefix("conflict with ").is_some_and(|by| by.starts_with(&format!("{:?}", writes.manager)));
            let whole = writes.makes || is_deployed;
            by && whole && live["kind"] == writes.kind && field.starts_with(writes.begins) && field.ends_with(writes.ends)
        })
    };
    !conflicts.is_empty() && conflicts.iter().all(wrote)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const WRITERS: [Writes; 2] = [
        Writes { manager: "service-ca", kind: "Hook", begins: ".webhooks[", ends: "].clientConfig.caBundle", makes: false },
        Writes { manager: "service-ca", kind: "Secret", begins: ".data.", ends: "", makes: true },
    ];

    fn check(live: &Value, conflicts: &[(&str, &str)], expected: bool) {
        let conflicts: Vec<_> = conflicts.iter().map(|(message, field)| ((*message).to_owned(), (*field).to_owned())).collect();
        assert_eq!(lent(live, &conflicts, &WRITERS), expected, "{conflicts:?} of {live}");
    }

    /// MS-CLI-04: taken back is what our own parts wrote of our own objects, and nothing of anybody else.
    #[test]
    fn strangers_keep_their_fields() {
        let ours = json!({"kind": "Hook", "metadata": {"labels": {MANAGED_BY.0: MANAGED_BY.1}}});
        let bundle = ".webhooks[name=\"a.example.com\"].clientConfig.caBundle";
        let by = "conflict with \"service-ca\" using admissionregistration.k8s.io/v1";
        check(&ours, &[(by, bundle)], true);
        check(&ours, &[("conflict with \"service-ca\"", bundle)], true);
        check(&ours, &[], false);
        check(&ours, &[("conflict with \"service-ca-operator\" using v1", bundle)], false);
        check(&ours, &[("conflict with \"kubectl-edit\" using v1", bundle)], false);
        check(&ours, &[(by, bundle), ("conflict with \"kubectl-edit\" using v1", bundle)], false);
        check(&ours, &[(by, ".webhooks[name=\"a.example.com\"].failurePolicy")], false);
        check(&json!({"kind": "Hook", "metadata": {"labels": {}}}), &[(by, bundle)], false);
        check(&json!({"kind": "Secret"}), &[("conflict with \"service-ca\" using v1", ".data.tls.crt")], true);
        check(&json!({"kind": "Secret"}), &[("conflict with \"service-ca\" using v1", ".type")], false);
    }
}
