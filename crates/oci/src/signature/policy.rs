//! `policy.json`: requirements of images, by their origin.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::Malformed;
use super::requirement::Requirement;
use super::strict::Object;
use crate::error::Error;
use crate::reference::Reference;

/// The transport that images of registries belong to.
const REGISTRIES: &str = "docker";
const MAX_SCOPES: usize = 10_000;
const MAX_REQUIREMENTS: usize = 100;

/// Requirements of images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Policy {
    subject: String,
    default: Vec<Requirement>,
    scopes: BTreeMap<String, Vec<Requirement>>,
}

impl Policy {
    /// Reads the text of a `policy.json`; `subject` names it in errors.
    pub(crate) fn parse(subject: &str, text: &[u8]) -> Result<Self, Error> {
        Self::read(subject, text)
            .map_err(|problem| Error::Configuration { subject: subject.to_owned(), problem: format!("invalid policy: {problem}") })
    }

    fn read(subject: &str, text: &[u8]) -> Result<Self, Malformed> {
        let mut whole = Object::parse(text)?;
        let default: Box<RawValue> = whole.take("default")?.ok_or_else(|| Malformed("Default policy is missing".to_owned()))?;
        let transports: Option<Object> = whole.take("transports")?;
        whole.end()?;
        let mut policy = Self { subject: subject.to_owned(), default: requirements("default", &default)?, scopes: BTreeMap::new() };
        for (transport, scopes) in transports.map(Object::into_members).unwrap_or_default() {
            let path = format!("transports.{transport}");
            let scopes = Object::of(&scopes).map_err(|problem| Malformed(format!("{path}: {problem}")))?.into_members();
            if scopes.len() > MAX_SCOPES {
                return Err(Malformed(format!("{path}: more than {MAX_SCOPES} scopes")));
            }
            for (scope, list) in scopes {
                // Requirements of other transports are not used here, but a mistake in them is a mistake of the file.
                let list = requirements(&format!("{path}[{scope:?}]"), &list)?;
                if transport == REGISTRIES {
                    policy.scopes.insert(scope, list);
                }
            }
        }
        Ok(policy)
    }

    /// Returns the file that it was read from.
    pub(crate) fn subject(&self) -> &str {
        &self.subject
    }

    /// Returns the requirements of the image: those of the narrowest scope that exists, else the default.
    pub(crate) fn requirements(&self, reference: &Reference) -> &[Requirement] {
        let found = scopes(reference).into_iter().find_map(|scope| self.scopes.get(&scope));
        found.or_else(|| self.scopes.get("")).unwrap_or(&self.default)
    }
}

/// Returns the scopes that may apply to an image, the narrowest first: the image itself, its repository and the levels above it, the
/// registry, wildcards of its host.
pub(super) fn scopes(reference: &Reference) -> Vec<String> {
    let mut scope = reference.name();
    let mut found = vec![reference.to_string(), scope.clone()];
    while let Some(at) = scope.rfind('/') {
        scope.truncate(at);
        found.push(scope.clone());
    }
    let mut host = scope.split(':').next().unwrap_or_default();
    while let Some((_, parent)) = host.split_once('.') {
        found.push(format!("*.{parent}"));
        host = parent;
    }
    found
}

fn requirements(path: &str, raw: &RawValue) -> Result<Vec<Requirement>, Malformed> {
    let list: Vec<Box<RawValue>> = serde_json::from_str(raw.get()).map_err(|error| Malformed(format!("{path}: {error}")))?;
    if list.is_empty() {
        return Err(Malformed(format!("{path}: List of verification policy requirements must not be empty")));
    }
    if list.len() > MAX_REQUIREMENTS {
        return Err(Malformed(format!("{path}: more than {MAX_REQUIREMENTS} requirements")));
    }
    let numbered = list.iter().enumerate();
    numbered.map(|(at, raw)| Requirement::read(raw).map_err(|problem| Malformed(format!("{path}[{at}]: {problem}")))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// OLM1-GEN-12: the narrowest scope of a policy decides: image, repository, namespace, registry, wildcard, transport, default.
    #[test]
    fn the_narrowest_scope_decides() {
        let scope = |name: &str, key: &str| format!(r#""{name}": [{{"type": "sigstoreSigned", "keyPath": "/{key}"}}]"#);
        let scopes: Vec<String> =
            ["q.example/org/a:1", "q.example/org/a", "q.example/org", "q.example:5000", "*.wild.example", "*.example"]
                .iter()
                .map(|name| scope(name, name))
                .collect();
        let text = |transport: &str| {
            let scopes = scopes.join(", ");
            format!(r#"{{"default": [{{"type": "reject"}}], "transports": {{"docker": {{{transport} {scopes}}}, "dir": {{}}}}}}"#)
        };
        let policy = Policy::parse("policy.json", text("").as_bytes()).unwrap();
        let found = |policy: &Policy, reference: &str| match policy.requirements(&Reference::parse(reference).unwrap()) {
            [Requirement::SigstoreSigned(signed)] => format!("{signed:?}").split('"').nth(1).unwrap_or_default().to_owned(),
            other => format!("{other:?}"),
        };
        for (reference, expected) in [
            ("q.example/org/a:1", "/q.example/org/a:1"),
            ("q.example/org/a:2", "/q.example/org/a"),
            ("q.example/org/b/c:1", "/q.example/org"),
            ("q.example/other:1", "/*.example"),
            ("q.example:5000/x:1", "/q.example:5000"),
            ("a.b.wild.example:99/x:1", "/*.wild.example"),
            ("wild.example/x:1", "/*.example"),
            ("example/x/y.test/z:1", "[Reject]"),
        ] {
            let reference = if reference.starts_with("example") { "other.test/x:1" } else { reference };
            assert_eq!(found(&policy, reference), expected, "{reference}");
        }
        let whole = Policy::parse("policy.json", text(r#""": [{"type": "insecureAcceptAnything"}],"#).as_bytes()).unwrap();
        assert_eq!(found(&whole, "other.test/x:1"), "[AcceptAnything]");
    }

    /// OLM1-GEN-12: policies as distributions have them: other transports, several keys, scopes that are no registries.
    #[test]
    fn policies_of_distributions() {
        let any = r#"[{"type": "insecureAcceptAnything"}]"#;
        let signed = r#"[{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "/etc/pki/rpm-gpg/RPM-GPG-KEY-redhat-release"}]"#;
        let several = r#"[{"type": "signedBy", "keyType": "GPGKeys", "keyPaths": ["/etc/pki/rpm-gpg/RPM-GPG-KEY-redhat-release",
            "/etc/pki/rpm-gpg/RPM-GPG-KEY-redhat-beta"]}]"#;
        let daemon = format!(r#""docker-daemon": {{"": {any}}}"#);
        for text in [
            format!(r#"{{"default": {any}}}"#),
            format!("{{\n\t\"default\": {any},\n\t\"transports\": {{\n\t\t{daemon}\n\t}}\n}}\n"),
            format!(
                r#"{{"default": {any}, "transports": {{"docker": {{"registry.access.redhat.com": {signed}, "registry.redhat.io": {several}}}, {daemon}}}}}"#
            ),
            format!(
                r#"{{"default": [{{"type": "reject"}}], "transports": {{"docker": {{"": {any}}}, "atomic": {{"h.example:8443/ns": {signed}}},
                    "dir": {{"": {any}}}, "oci": {{"/srv/images:v1": {any}}}, "oci-archive": {{"": {any}}}, "docker-archive": {{"": {any}}},
                    "tarball": {{"": {any}}}, "containers-storage": {{"[overlay@/var/lib/containers/storage]": {any}}},
                    "sif": {{"": {any}}}, "ostree": {{"fedora:": {any}}}, "yet-another": {{"what ever": {any}}}}}}}"#
            ),
        ] {
            let policy = Policy::parse("/etc/containers/policy.json", text.as_bytes()).unwrap();
            let asked = |name: &str| policy.requirements(&Reference::parse(name).unwrap());
            assert_eq!(asked("quay.io/org/a:1"), [Requirement::AcceptAnything], "{text}");
            let red_hat = asked("registry.redhat.io/redhat/redhat-operator-index:v4.19");
            assert_eq!(matches!(red_hat, [Requirement::SignedBy(_)]), text.contains("registry.redhat.io"), "{text}");
        }
    }

    /// OLM1-GEN-12: a policy with a mistake is refused, with the place of the mistake.
    #[test]
    fn mistakes_are_named() {
        let any = r#""default": [{"type": "insecureAcceptAnything"}]"#;
        for (text, problem) in [
            ("{}".to_owned(), "Default policy is missing"),
            (r#"{"default": []}"#.to_owned(), "default: List of verification policy requirements must not be empty"),
            (r#"{"default": [{"type": "maybe"}]}"#.to_owned(), "default[0]: Unknown policy requirement type \"maybe\""),
            (format!("{{{any}, \"transport\": {{}}}}"), "Unknown key \"transport\""),
            (format!("{{{any}, {any}}}"), "Duplicate key \"default\""),
            (
                format!(r#"{{{any}, "transports": {{"docker": {{"q.example": [{{"type": "reject", "keyPath": "/k"}}]}}}}}}"#),
                "transports.docker[\"q.example\"][0]: Unknown key \"keyPath\"",
            ),
            (format!(r#"{{{any}, "transports": {{"atomic": {{"": []}}}}}}"#), "transports.atomic[\"\"]: List of verification"),
        ] {
            let error = Policy::parse("/etc/containers/policy.json", text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("/etc/containers/policy.json: invalid policy: ") && error.contains(problem), "{text}: {error}");
        }
    }
}
