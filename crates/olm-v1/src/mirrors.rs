//! Mirror rules that the cluster is told by objects: `ImageDigestMirrorSet`, `ImageTagMirrorSet` and `ImageContentSourcePolicy`
//! (OLM1-DISC-01, OLM1-DISC-02). They come after what `registries.conf` says, and count from the next pull on, for catalogs and bundles.
//!
//! ```text
//!   definitions of the kinds ──► objects of those that are served ──► plan ──► Images::mirror, Events
//! ```

pub mod watch;

use kube::api::{ApiResource, GroupVersionKind};
use mainstay_oci::Registries;
use serde_json::Value;

use mainstay_diagnostics::chain;

/// A kind whose objects hold mirror rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MirrorKind {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
}

/// The kinds, in the order in which their mirrors are tried.
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
    /// The API group.
    pub fn group(self) -> &'static str {
        self.group
    }

    /// The plural, as in URLs and roles.
    pub fn plural(self) -> &'static str {
        self.plural
    }

    /// The name of the definition that brings the kind.
    pub fn definition(self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    fn resource(self) -> ApiResource {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(self.group, self.version, self.kind), self.plural)
    }
}

/// What is to be done: nothing else is decided later.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The rules for the next pull.
    pub registries: Registries,
    /// Objects that make no sense; none of their rules is taken.
    pub refused: Vec<Refused>,
}

/// An object whose rules cannot be taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    /// The object.
    pub object: Value,
    /// Which of its fields, and why.
    pub problem: String,
}

/// Puts the rules of the objects, in their order, behind those of `base`. An object counts as a whole or not at all.
pub fn plan(base: &Registries, objects: &[Value]) -> Plan {
    let mut plan = Plan { registries: base.clone(), refused: Vec::new() };
    for object in objects {
        let mut with = plan.registries.clone();
        match with.add_mirror_sets([object]) {
            Ok(()) => plan.registries = with,
            Err(error) => plan.refused.push(Refused { object: object.clone(), problem: chain(&error) }),
        }
    }
    plan
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
        let plan = plan(&base, &objects);
        assert_eq!(sources(&plan.registries, "quay.io/o/a:1"), ["first.example/q/o/a:1", "second.example/o/a:1", "quay.io/o/a:1"]);
        assert_eq!(sources(&plan.registries, "docker.io/library/a:1"), ["third.example/l/a:1", "docker.io/library/a:1"]);
        let refused: Vec<(&Value, &str)> = plan.refused.iter().map(|each| (&each.object, each.problem.as_str())).collect();
        assert_eq!(refused, [(&objects[1], "ImageTagMirrorSet b: spec.imageTagMirrors[1] has no source")]);
        assert_eq!(super::plan(&base, &[]), Plan { registries: base, refused: Vec::new() });
    }
}
