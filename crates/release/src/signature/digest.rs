//! Digests of releases, as signatures name them.

use std::fmt;

/// A digest, such as `sha256:` with 64 hexadecimal digits (CVO-SIG-11).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReleaseDigest {
    text: String,
    colon: usize,
}

impl ReleaseDigest {
    /// Reads a digest: `^[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[a-zA-Z0-9=_-]+$`.
    pub fn parse(text: &str) -> Option<Self> {
        let (algorithm, hash) = text.split_once(':')?;
        let is_part = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let is_hash = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'=' | b'_' | b'-');
        let valid = algorithm.split(['.', '+', '_', '-']).all(is_part) && !hash.is_empty() && hash.bytes().all(is_hash);
        valid.then(|| Self { text: text.to_owned(), colon: algorithm.len() })
    }

    /// Returns what an image's reference has behind its last `@`; empty if it names no digest.
    pub fn text_of(image: &str) -> &str {
        image.rsplit_once('@').map_or("", |(_, digest)| digest)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text with another sign between algorithm and hash: `=` in stores, `-` in keys of ConfigMaps.
    pub(super) fn divided_by(&self, sign: char) -> String {
        format!("{}{sign}{}", &self.text[..self.colon], &self.text[self.colon + 1..])
    }
}

impl fmt::Display for ReleaseDigest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CVO-SIG-01, CVO-SIG-11: the syntax of digests, and images without one.
    #[test]
    fn digests() {
        for good in ["sha256:ab", "a:B_=-9", "sha2.x+y_z-1:0"] {
            assert_eq!(ReleaseDigest::parse(good).map(|digest| digest.to_string()).as_deref(), Some(good));
        }
        for bad in [
            "",
            "sha256",
            "sha256:",
            ":ab",
            "Sha256:ab",
            "sha256:a:b",
            "sha256:a b",
            "sha256.:ab",
            "a--b:c",
            "sha256:ab\n",
            "sha256:../x",
            "ä:b",
        ] {
            assert_eq!(ReleaseDigest::parse(bad), None, "{bad:?}");
        }
        assert_eq!(ReleaseDigest::text_of("q.example/a@b@sha256:ab"), "sha256:ab");
        assert_eq!(ReleaseDigest::text_of("q.example/a:4.19"), "");
        assert_eq!(ReleaseDigest::parse("sha256:ab").map(|digest| digest.divided_by('=')).as_deref(), Some("sha256=ab"));
    }
}
