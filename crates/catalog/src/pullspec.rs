//! Check of pull specs, with the messages of the reference grammar that container tools share (CATLG-23).

use std::sync::LazyLock;

use regex::Regex;

/// Why a text is no pull spec, in the usual words of the grammar.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidPullSpec(String);

const DOMAIN: &str = r"(?:(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?";
const PATH: &str = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*";

/// `domain/path`, optional tag, optional digest.
static REFERENCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let tag = r"[\w][\w.-]{0,127}";
    let digest = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*[:][[:xdigit:]]{32,}";
    Regex::new(&format!(r"^(?-u:(?:({DOMAIN})/)?({PATH})(?::({tag}))?(?:@({digest}))?)$")).ok()
});

/// Maximum length of a repository path, domain included.
const NAME_MAX: usize = 255;

/// Checks a non-empty pull spec.
pub fn check_pull_spec(spec: &str) -> Result<(), InvalidPullSpec> {
    let is_hex = |s: &str| s.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if spec.len() == 64 && is_hex(spec) {
        return Err(InvalidPullSpec(format!("invalid repository name ({spec}), cannot specify 64-byte hexadecimal strings")));
    }
    let (domain, remainder) = split_domain(spec);
    let repository = remainder.split(':').next().unwrap_or(&remainder);
    if repository.chars().any(char::is_uppercase) {
        return Err(InvalidPullSpec("invalid reference format: repository name must be lowercase".to_owned()));
    }
    let whole = format!("{domain}/{remainder}");
    let format_error = || InvalidPullSpec("invalid reference format".to_owned());
    let captures = REFERENCE.as_ref().and_then(|regex| regex.captures(&whole)).ok_or_else(format_error)?;
    let path = captures.get(2).map_or(0, |path| path.len());
    let name = path + captures.get(1).map_or(0, |domain| domain.len() + 1);
    if name > NAME_MAX {
        return Err(InvalidPullSpec(format!("repository name must not be more than {NAME_MAX} characters")));
    }
    captures.get(4).map_or(Ok(()), |digest| check_digest(digest.as_str()))
}

/// The registry host and the rest; short names belong to the default registry.
fn split_domain(spec: &str) -> (&str, String) {
    match spec.split_once('/') {
        Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" || host.to_lowercase() != host => (host, rest.to_owned()),
        Some(_) => ("docker.io", spec.to_owned()),
        None => ("docker.io", format!("library/{spec}")),
    }
}

fn check_digest(digest: &str) -> Result<(), InvalidPullSpec> {
    let (algorithm, hex) = digest.split_once(':').unwrap_or((digest, ""));
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return Err(InvalidPullSpec("unsupported digest algorithm".to_owned())),
    };
    if hex.len() != length {
        return Err(InvalidPullSpec("invalid checksum digest length".to_owned()));
    }
    if hex.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err(InvalidPullSpec("invalid checksum digest format".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CATLG-23: what counts as a pull spec, and the reason when it does not.
    #[test]
    fn pull_specs() {
        let digest = "a".repeat(64);
        let good = ["busybox", "quay.io/a/b:v1", "localhost/x", "localhost:5000/x/y", "[::1]:5000/x", "a/b"];
        for spec in
            good.into_iter().map(str::to_owned).chain([format!("quay.io/a/b@sha256:{digest}"), format!("q.io/a:v1@sha256:{digest}")])
        {
            assert_eq!(check_pull_spec(&spec), Ok(()), "{spec}");
        }
        let bad = [
            ("oci://quay.io/kuadrant/wasm-shim:v0.1.0", "invalid reference format"),
            ("quay.io/sosivio/draingo@", "invalid reference format"),
            ("quay.io/a b", "invalid reference format"),
            ("quay.io/A/b", "invalid reference format: repository name must be lowercase"),
            ("quay.io/a@sha256:abcd", "invalid reference format"),
        ];
        for (spec, reason) in bad {
            assert_eq!(check_pull_spec(spec), Err(InvalidPullSpec(reason.to_owned())), "{spec}");
        }
        assert_eq!(
            check_pull_spec(&format!("quay.io/a@ssha256:{digest}")),
            Err(InvalidPullSpec("unsupported digest algorithm".to_owned()))
        );
        assert_eq!(
            check_pull_spec(&format!("quay.io/a@sha512:{digest}")),
            Err(InvalidPullSpec("invalid checksum digest length".to_owned()))
        );
    }
}
