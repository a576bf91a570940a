//! Whose fields a deployment may take back (MS-CLI-04).
//!
//! Parts of this program write into objects that a deployment made, because it asked them to: the service CA puts its bundle where an annotation
//! asks for it, the cluster operator hands settings on. When the next deployment wants to write such a field itself, nobody's will is overridden.

use serde_json::Value;

use super::MANAGED_BY;

/// What a part of this program writes of objects that are deployed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writes {
    /// The part, as server-side apply knows it.
    pub manager: &'static str,
    /// The kind of the objects.
    pub kind: &'static str,
    /// How the paths of the fields begin.
    pub begins: &'static str,
    /// How they end.
    pub ends: &'static str,
    /// Whether it makes such objects itself; others are only lent to it.
    pub makes: bool,
}

/// Whether all of these conflicts, message and field of each, are about fields that `writers` wrote of an object of this deployment. One field of
/// anybody else is enough for nothing to be taken.
pub fn lent(live: &Value, conflicts: &[(String, String)], writers: &[Writes]) -> bool {
    let is_deployed = live["metadata"]["labels"][MANAGED_BY.0] == MANAGED_BY.1;
    let wrote = |(message, field): &(String, String)| {
        writers.iter().any(|writes| {
            // The name is quoted, so that none is the beginning of another.
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
