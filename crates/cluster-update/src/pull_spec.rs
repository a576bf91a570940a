//! Pull specs by the grammar that `oc` reads them with. A name is never completed: `4.0.1` is a registry here.

use std::sync::LazyLock;

use regex::Regex;

/// The parts of a pull spec; a part that is absent is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullSpec {
    /// The registry.
    pub registry: String,
    /// The repository without its last part.
    pub namespace: String,
    /// The last part of the repository.
    pub name: String,
    /// The tag.
    pub tag: String,
    /// The digest.
    pub digest: String,
}

/// The rule of the grammar that a text breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPullSpec {
    /// It is empty.
    #[error("repository name must have at least one component")]
    Empty,
    /// It has capital letters where none may be.
    #[error("repository name must be lowercase")]
    Uppercase,
    /// It has another form.
    #[error("invalid reference format")]
    Form,
    /// The name has more than 255 characters.
    #[error("repository name must not be more than 255 characters")]
    Long,
    /// The digest is of another algorithm than SHA-2.
    #[error("unsupported digest algorithm")]
    Algorithm,
    /// The digest has another length than its algorithm's.
    #[error("invalid checksum digest length")]
    DigestLength,
}

const COMPONENT: &str = "[a-z0-9]+(?:(?:[._]|__|[-]*)[a-z0-9]+)*";
const HOST: &str = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";

static GRAMMAR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let host = format!(r"{HOST}(?:\.{HOST})*(?::[0-9]+)?");
    let name = format!("(?:{host}/)?{COMPONENT}(?:/{COMPONENT})*");
    let digest = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*[:][[:xdigit:]]{32,}";
    Regex::new(&format!(r"^(?-u:({name})(?::([\w][\w.-]{{0,127}}))?(?:@({digest}))?)$")).ok()
});

/// The longest text that is looked at.
const MAX: usize = 4096;

impl PullSpec {
    /// Reads a pull spec.
    pub fn parse(spec: &str) -> Result<Self, InvalidPullSpec> {
        if spec.is_empty() {
            return Err(InvalidPullSpec::Empty);
        }
        if spec.len() > MAX {
            return Err(InvalidPullSpec::Form);
        }
        let grammar = GRAMMAR.as_ref().ok_or(InvalidPullSpec::Form)?;
        let Some(parts) = grammar.captures(spec) else {
            return Err(if grammar.is_match(&spec.to_lowercase()) { InvalidPullSpec::Uppercase } else { InvalidPullSpec::Form });
        };
        let part = |number: usize| parts.get(number).map_or("", |part| part.as_str());
        let (name, tag, digest) = (part(1), part(2), part(3));
        if name.len() > 255 {
            return Err(InvalidPullSpec::Long);
        }
        if let Some((algorithm, value)) = digest.split_once(':') {
            let length = match algorithm {
                "sha256" => 64,
                "sha384" => 96,
                "sha512" => 128,
                _ => return Err(InvalidPullSpec::Algorithm),
            };
            if value.len() != length {
                return Err(InvalidPullSpec::DigestLength);
            }
        }
        let mut parsed = Self { tag: tag.to_owned(), digest: digest.to_owned(), ..Self::default() };
        let repository = match name.split_once('/') {
            None if name.contains('.') || name.starts_with("localhost") => {
                name.clone_into(&mut parsed.registry);
                parsed.tag.clear();
                return Ok(parsed);
            }
            Some((host, rest)) if host.contains([':', '.']) || host == "localhost" => {
                host.clone_into(&mut parsed.registry);
                rest
            }
            _ => name,
        };
        match repository.split_once('/') {
            Some((namespace, name)) => (parsed.namespace, parsed.name) = (namespace.to_owned(), name.to_owned()),
            None => repository.clone_into(&mut parsed.name),
        }
        Ok(parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CVO-CLI-03: the parts of a pull spec, and each refusal.
    #[test]
    fn pull_specs() {
        let hex = "a".repeat(64);
        for (text, expected) in [
            ("4.0.1".to_owned(), Ok(["4.0.1", "", "", "", ""])),
            ("release:1".to_owned(), Ok(["", "", "release", "1", ""])),
            ("a/release".to_owned(), Ok(["", "a", "release", "", ""])),
            ("r.test:5000/a/b/c:v1".to_owned(), Ok(["r.test:5000", "a", "b/c", "v1", ""])),
            (format!("r.test/a@sha256:{hex}"), Ok(["r.test", "", "a", "", &format!("sha256:{hex}")])),
            (String::new(), Err(InvalidPullSpec::Empty)),
            ("r.test/A".to_owned(), Err(InvalidPullSpec::Uppercase)),
            ("a b".to_owned(), Err(InvalidPullSpec::Form)),
            ("r.test/a@sha256:12".to_owned(), Err(InvalidPullSpec::Form)),
            (format!("r.test/a@sha256:{hex}0"), Err(InvalidPullSpec::DigestLength)),
            (format!("r.test/a@md5:{hex}"), Err(InvalidPullSpec::Algorithm)),
            (format!("r.test/{}", "a".repeat(250)), Err(InvalidPullSpec::Long)),
        ] {
            let parsed = PullSpec::parse(&text);
            let parts = parsed.as_ref().map(|spec| [&*spec.registry, &*spec.namespace, &*spec.name, &*spec.tag, &*spec.digest]);
            assert_eq!(parts.map_err(|error| *error), expected, "{text}");
        }
    }
}
