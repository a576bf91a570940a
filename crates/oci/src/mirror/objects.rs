//! Configuration of mirrors: OpenShift's objects, and `registries.conf` for other clusters; written, and read again.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{By, Rule};
use crate::error::Error;
use crate::registries::Registries;

/// `ImageDigestMirrorSet` (OLM1-DISC-03).
pub fn digest_mirror_set(name: &str, rules: &[Rule]) -> Value {
    mirror_set("ImageDigestMirrorSet", "imageDigestMirrors", name, rules)
}

/// `ImageTagMirrorSet` (OLM1-DISC-03).
pub fn tag_mirror_set(name: &str, rules: &[Rule]) -> Value {
    mirror_set("ImageTagMirrorSet", "imageTagMirrors", name, rules)
}

/// `ImageContentSourcePolicy`, the kind before the mirror sets (CATLG-72).
pub fn image_content_source_policy(name: &str, rules: &[Rule]) -> Value {
    json!({
        "apiVersion": "operator.openshift.io/v1alpha1",
        "kind": "ImageContentSourcePolicy",
        "metadata": {"name": name, "labels": {"operators.openshift.org/catalog": "true"}},
        "spec": {"repositoryDigestMirrors": entries(rules)},
    })
}

fn mirror_set(kind: &str, key: &str, name: &str, rules: &[Rule]) -> Value {
    json!({"apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": {"name": name}, "spec": {key: entries(rules)}})
}

fn entries(rules: &[Rule]) -> Vec<Value> {
    rules.iter().map(|rule| json!({"source": rule.source, "mirrors": [rule.mirror]})).collect()
}

/// Returns `registries.conf` with the same mirrors, for container tools and for this program (OLM1-DISC-01).
pub fn registries_conf(by_digest: &[Rule], by_tag: &[Rule]) -> String {
    let mut sources: Vec<&str> = by_digest.iter().chain(by_tag).map(|rule| rule.source.as_str()).collect();
    sources.sort_unstable();
    sources.dedup();
    let mut text = String::new();
    for source in sources {
        // Writing to a string cannot fail. Names of repositories hold nothing that TOML would have to escape.
        let _ = write!(text, "[[registry]]\nprefix = \"{source}\"\nlocation = \"{source}\"\n\n");
        for (rules, pulls) in [(by_digest, "digest-only"), (by_tag, "tag-only")] {
            for rule in rules.iter().filter(|rule| rule.source == source) {
                let _ = write!(text, "[[registry.mirror]]\nlocation = \"{}\"\npull-from-mirror = \"{pulls}\"\n\n", rule.mirror);
            }
        }
    }
    text
}

impl Registries {
    /// Takes in the mirrors of `ImageDigestMirrorSet`, `ImageTagMirrorSet` and `ImageContentSourcePolicy` objects (OLM1-DISC-02). Other
    /// kinds are passed over. Mirrors of later objects come after those of earlier ones.
    pub fn add_mirror_sets<'a>(&mut self, objects: impl IntoIterator<Item = &'a Value>) -> Result<(), Error> {
        for object in objects {
            let (key, by) = match object["kind"].as_str() {
                Some("ImageDigestMirrorSet") => ("imageDigestMirrors", By::Digest),
                Some("ImageTagMirrorSet") => ("imageTagMirrors", By::Tag),
                Some("ImageContentSourcePolicy") => ("repositoryDigestMirrors", By::Digest),
                _ => continue,
            };
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let subject = format!("{} {name}", object["kind"].as_str().unwrap_or_default());
            let refuse = |problem: String| Error::Configuration { subject: subject.clone(), problem };
            let Some(list) = object["spec"].get(key) else { continue };
            let list = list.as_array().ok_or_else(|| refuse(format!("spec.{key} is no list")))?;
            for (number, entry) in list.iter().enumerate() {
                let source = entry["source"].as_str().filter(|source| !source.is_empty());
                let source = source.ok_or_else(|| refuse(format!("spec.{key}[{number}] has no source")))?;
                let mirrors = entry["mirrors"].as_array().into_iter().flatten();
                let mirrors: Option<Vec<&str>> = mirrors.map(Value::as_str).collect();
                let mirrors = mirrors.ok_or_else(|| refuse(format!("spec.{key}[{number}].mirrors holds what is no text")))?;
                let never = entry["mirrorSourcePolicy"] == "NeverContactSource";
                self.add_mirrors(source, &mirrors, by, never).map_err(|problem| refuse(problem.to_string()))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Reference;

    fn rule(source: &str, mirror: &str) -> Rule {
        Rule { source: source.to_owned(), mirror: mirror.to_owned() }
    }

    fn sources(registries: &Registries, text: &str) -> Vec<String> {
        let sources = registries.sources(&Reference::parse(text).unwrap()).unwrap();
        sources.iter().map(|source| source.reference.to_string()).collect()
    }

    /// OLM1-DISC-02, OLM1-DISC-03: what is written for clusters means the same as what is written for container tools.
    #[test]
    fn objects_and_files_mean_the_same() {
        let digests = [rule("quay.io/org/a", "m.example/org/a"), rule("quay.io/org/c", "m.example/org/c")];
        let tags = [rule("quay.io/org/b", "m.example/org/b"), rule("quay.io/org/a", "m.example/org/a")];
        let of_file = Registries::parse("registries.conf", &registries_conf(&digests, &tags)).unwrap();
        let mut of_objects = Registries::default();
        of_objects.add_mirror_sets([&digest_mirror_set("idms-operator-0", &digests), &tag_mirror_set("itms-operator-0", &tags)]).unwrap();
        let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        for name in ["a", "b", "c", "d", "ab"] {
            for text in [format!("quay.io/org/{name}@{digest}"), format!("quay.io/org/{name}:v1")] {
                assert_eq!(sources(&of_file, &text), sources(&of_objects, &text), "{text}");
            }
        }
        let image = format!("quay.io/org/a@{digest}");
        assert_eq!(sources(&of_file, &image), [format!("m.example/org/a@{digest}"), image.clone()]);
        let mut old = Registries::default();
        old.add_mirror_sets([&image_content_source_policy("a-0", &digests)]).unwrap();
        assert_eq!(sources(&old, &image), sources(&of_file, &image));
        assert_eq!(sources(&old, "quay.io/org/a:v1"), ["quay.io/org/a:v1"]);
    }

    /// OLM1-DISC-02: a policy that never contacts the source, and objects that make no sense.
    #[test]
    fn policies_and_mistakes() {
        let set = json!({"kind": "ImageTagMirrorSet", "metadata": {"name": "x"},
            "spec": {"imageTagMirrors": [{"source": "quay.io/org", "mirrors": ["m.example"], "mirrorSourcePolicy": "NeverContactSource"}]}});
        let mut registries = Registries::default();
        registries.add_mirror_sets([&set, &json!({"kind": "ConfigMap"})]).unwrap();
        assert_eq!(sources(&registries, "quay.io/org/a:v1"), ["m.example/a:v1"]);
        for (spec, problem) in [
            (json!({"imageTagMirrors": 1}), "ImageTagMirrorSet x: spec.imageTagMirrors is no list"),
            (json!({"imageTagMirrors": [{}]}), "ImageTagMirrorSet x: spec.imageTagMirrors[0] has no source"),
            (
                json!({"imageTagMirrors": [{"source": "a", "mirrors": [1]}]}),
                "ImageTagMirrorSet x: spec.imageTagMirrors[0].mirrors holds what is no text",
            ),
        ] {
            let object = json!({"kind": "ImageTagMirrorSet", "metadata": {"name": "x"}, "spec": spec});
            assert_eq!(Registries::default().add_mirror_sets([&object]).unwrap_err().to_string(), problem);
        }
    }
}
