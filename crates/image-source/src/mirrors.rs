//! Mirror rules in objects of the cluster: `ImageDigestMirrorSet`, `ImageTagMirrorSet` and `ImageContentSourcePolicy`
//! (OLM1-DISC-01, OLM1-DISC-02). They come after the rules of `registries.conf`, and are used from the next pull on, for every image.
//!
//! ```text
//!   definitions of the kinds ──► objects of those that are served ──► merge_rules ──► ImageSource, events
//! ```

pub mod watch;

use kube::api::{ApiResource, GroupVersionKind};
use mainstay_diagnostics::chain;
use mainstay_oci::Registries;
use serde_json::Value;

/// Kind whose objects have mirror rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MirrorKind {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
}

/// Kinds with mirror rules, in the order in which their mirrors are tried.
pub const KINDS: [MirrorKind; 3] = [
    MirrorKind { group: "config.openshift.io", version: "v1", kind: "ImageDigestMirrorSet", plural: "imagedigestmirrorsets" },
    MirrorKind { group: "config.openshift.io", version: "v1", kind: "ImageTagMirrorSet", plural: "imagetagmirrorsets" },
    MirrorKind {
        group: "operator.openshift.io",
        version: "v1alpha1",
        kind: "ImageContentSourcePolicy",
        plural: "imagecontentsourcepolicies",
    },
];

impl MirrorKind {
    /// Returns the API group.
    pub fn group(self) -> &'static str {
        self.group
    }

    /// Returns the plural, as in URLs and roles.
    pub fn plural(self) -> &'static str {
        self.plural
    }

    /// Returns the name of the kind's CustomResourceDefinition.
    pub fn definition(self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    fn resource(self) -> ApiResource {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(self.group, self.version, self.kind), self.plural)
    }
}

/// Mirror rules of files and objects together.
#[derive(Debug, Clone, PartialEq)]
pub struct MergedRules {
    /// The rules for the next pull.
    pub registries: Registries,
    /// Malformed objects; none of their rules is used.
    pub refused: Vec<RefusedRules>,
}

/// Object whose rules cannot be used.
#[derive(Debug, Clone, PartialEq)]
pub struct RefusedRules {
    /// The object.
    pub object: Value,
    /// The malformed field, and why it is malformed.
    pub problem: String,
}

impl RefusedRules {
    /// Reason of the event about such an object.
    pub const REASON: &str = "MirrorRulesRefused";

    /// Returns the note of the event about this object.
    pub fn note(&self) -> String {
        format!("{}; none of the object's rules is used", self.problem)
    }
}

/// Appends the rules of the objects, in their order, to those of `base`. An object is used as a whole or not at all.
pub fn merge_rules(base: &Registries, objects: &[Value]) -> MergedRules {
    let mut merged = MergedRules { registries: base.clone(), refused: Vec::new() };
    for object in objects {
        let mut with = merged.registries.clone();
        match with.add_mirror_sets([object]) {
            Ok(()) => merged.registries = with,
            Err(error) => merged.refused.push(RefusedRules { object: object.clone(), problem: chain(&error) }),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use mainstay_oci::Reference;
    use serde_json::json;

    use super::*;

    fn sources(registries: &Registries, text: &str) -> Vec<String> {
        let sources = registries.sources(&Reference::parse(text).unwrap()).unwrap();
        sources.iter().map(|source| source.reference.to_string()).collect()
    }

    fn tags(name: &str, entries: &Value) -> Value {
        json!({"kind": "ImageTagMirrorSet", "metadata": {"name": name}, "spec": {"imageTagMirrors": entries}})
    }

    /// OLM1-DISC-02, OLM1-GEN-12: mirrors of objects come after those of `registries.conf`; a malformed object gives none of its rules
    /// and takes none of the others'.
    #[test]
    fn rules_are_merged_and_a_malformed_object_harms_nobody() {
        let conf = "[[registry]]\nlocation = \"quay.io\"\n[[registry.mirror]]\nlocation = \"first.example/q\"\n";
        let base = Registries::parse("registries.conf", conf).unwrap();
        let objects = [
            tags("a", &json!([{"source": "quay.io", "mirrors": ["second.example"]}])),
            tags("b", &json!([{"source": "quay.io", "mirrors": ["never.example"]}, {"mirrors": ["x"]}])),
            tags("c", &json!([{"source": "docker.io/library", "mirrors": ["third.example/l"]}])),
        ];
        let merged = merge_rules(&base, &objects);
        assert_eq!(sources(&merged.registries, "quay.io/o/a:1"), ["first.example/q/o/a:1", "second.example/o/a:1", "quay.io/o/a:1"]);
        assert_eq!(sources(&merged.registries, "docker.io/library/a:1"), ["third.example/l/a:1", "docker.io/library/a:1"]);
        let refused: Vec<(&Value, &str)> = merged.refused.iter().map(|each| (&each.object, each.problem.as_str())).collect();
        assert_eq!(refused, [(&objects[1], "ImageTagMirrorSet b: spec.imageTagMirrors[1] has no source")]);
        assert_eq!(merge_rules(&base, &[]), MergedRules { registries: base, refused: Vec::new() });
    }
}
