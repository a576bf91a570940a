//! The syntax of image references, with the words of upstream's parser.

/// Why a text is no image reference, in the words of upstream's parser.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidReference(String);

/// Checks that a text is an image reference; the error is upstream's.
pub fn check(text: &str) -> Result<(), InvalidReference> {
    if text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(InvalidReference(format!("invalid repository name ({text}), cannot specify 64-byte hexadecimal strings")));
    }
    let (domain, remainder) = match text.split_once('/') {
        Some((domain, rest)) if domain.contains(['.', ':']) || domain == "localhost" => (domain, rest.to_owned()),
        _ => ("docker.io", text.to_owned()),
    };
    let remainder = if matches!(domain, "docker.io" | "index.docker.io") && !remainder.contains('/') {
        format!("library/{remainder}")
    } else {
        remainder
    };
    let name = remainder.split(':').next().unwrap_or_default();
    if name.to_lowercase() != name {
        return Err(InvalidReference("invalid reference format: repository name must be lowercase".to_owned()));
    }
    if !is_domain(domain) || !is_rest(&remainder) {
        return Err(InvalidReference("invalid reference format".to_owned()));
    }
    if let Some(problem) = remainder.split_once('@').and_then(|(_, digest)| digest_problem(digest)) {
        return Err(InvalidReference(problem.to_owned()));
    }
    let repository = remainder.split(['@', ':']).next().unwrap_or_default();
    if domain.len() + 1 + repository.len() > 255 {
        return Err(InvalidReference("repository name must not be more than 255 characters".to_owned()));
    }
    Ok(())
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = domain.split_once(':').unwrap_or((domain, "0"));
    let label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    };
    host.split('.').all(label) && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether a text is `path[:tag][@digest]`.
fn is_rest(rest: &str) -> bool {
    let (named, digest) = match rest.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (rest, None),
    };
    let (path, tag) = match named.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (named, None),
    };
    let tag_fits = |tag: &str| {
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        tag.len() <= 128 && tag.bytes().next().is_some_and(word) && tag.bytes().all(|byte| word(byte) || b".-".contains(&byte))
    };
    path.split('/').all(is_component) && tag.is_none_or(tag_fits) && digest.is_none_or(is_digest)
}

/// Returns whether a text is words of lower-case letters and digits, joined by `.`, `_`, `__` or dashes.
fn is_component(component: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = component.as_bytes();
    if !(bytes.first().copied().is_some_and(word) && bytes.last().copied().is_some_and(word)) {
        return false;
    }
    let joins = |joint: &[u8]| matches!(joint, b"." | b"_" | b"__") || joint.iter().all(|byte| *byte == b'-');
    bytes.split(|byte| word(*byte)).all(joins)
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let part = |part: &str| {
        part.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    algorithm.split(['+', '.', '-', '_']).all(part) && hex.len() >= 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The problem of a text that looks like a digest.
fn digest_problem(digest: &str) -> Option<&'static str> {
    let (algorithm, hex) = digest.split_once(':')?;
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        other if other.bytes().any(|byte| byte.is_ascii_uppercase()) => return Some("invalid checksum digest format"),
        _ => return Some("unsupported digest algorithm"),
    };
    if hex.len() != length {
        return Some("invalid checksum digest length");
    }
    hex.bytes().any(|byte| byte.is_ascii_uppercase()).then_some("invalid checksum digest format")
}

#[cfg(test)]
mod tests {
    use super::{InvalidReference, check};

    #[test]
    fn references() {
        let digest = "a".repeat(64);
        for good in [
            "busybox",
            "quay.io/a/b:v1",
            "localhost/a__b/c-d.e",
            "h:5000/x",
            &format!("quay.io/a@sha256:{digest}"),
            &format!("a:v@sha256:{digest}"),
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "oci://quay.io/a:b",
            "quay.io/a@",
            "a b",
            "quay.io/a/",
            "a:",
            "quay.io/a@sha256:12",
            "-a",
            "a..b",
            "a___b",
            "h:x/y",
            "@sha256:x",
        ] {
            assert_eq!(check(bad), Err(InvalidReference("invalid reference format".to_owned())), "{bad}");
        }
        assert_eq!(check("quay.io/A/b"), Err(InvalidReference("invalid reference format: repository name must be lowercase".to_owned())));
        for (bad, problem) in [
            (format!("quay.io/a@sha256:{}", "A".repeat(64)), "invalid checksum digest format"),
            (format!("quay.io/a@sha256:{}", "a".repeat(63)), "invalid checksum digest length"),
            (format!("quay.io/a@md5:{}", "a".repeat(32)), "unsupported digest algorithm"),
        ] {
            assert_eq!(check(&bad), Err(InvalidReference(problem.to_owned())), "{bad}");
        }
        assert!(check(&digest).is_err_and(|problem| problem.to_string().ends_with("cannot specify 64-byte hexadecimal strings")));
        assert!(check(&format!("a.b/{}", "x".repeat(255))).is_err_and(|problem| problem.to_string().contains("255")));
    }
}
