//! Content digests.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256, Sha512};

/// The digest of some content: algorithm and lower-case hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

/// Text that is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDigest {
    /// Not of the form `algorithm:hex`.
    #[error("invalid checksum digest format")]
    Format,
    /// Not sha256 or sha512.
    #[error("unsupported digest algorithm")]
    Algorithm,
    /// The wrong number of digits.
    #[error("invalid checksum digest length")]
    Length,
}

impl Digest {
    /// The SHA-256 digest of the bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_sha256(&Sha256::digest(bytes))
    }

    pub(crate) fn from_sha256(hash: &[u8]) -> Self {
        Self(format!("sha256:{}", hex(hash)))
    }

    /// The digest of the bytes by this one's algorithm.
    pub(crate) fn of_same_kind(&self, bytes: &[u8]) -> Self {
        let mut hasher = Hasher::like(Some(self));
        hasher.update(bytes);
        hasher.finish()
    }

    /// `sha256` or `sha512`.
    pub fn algorithm(&self) -> &str {
        self.0.split_once(':').map_or("", |(algorithm, _)| algorithm)
    }

    /// The hexadecimal part.
    pub fn hex(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, hex)| hex)
    }

    /// The whole as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let (algorithm, hex) = text.split_once(':').ok_or(InvalidDigest::Format)?;
        if !hex.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c)) {
            return Err(InvalidDigest::Format);
        }
        let length = match algorithm {
            "sha256" => 64,
            "sha512" => 128,
            _ => return Err(InvalidDigest::Algorithm),
        };
        if hex.len() == length { Ok(Self(text.to_owned())) } else { Err(InvalidDigest::Length) }
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

/// Hashes content piece by piece with the algorithm of the digest it is compared with.
pub(crate) enum Hasher {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    pub(crate) fn like(digest: Option<&Digest>) -> Self {
        match digest.map(Digest::algorithm) {
            Some("sha512") => Self::Sha512(Sha512::new()),
            _ => Self::Sha256(Sha256::new()),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha512(hasher) => hasher.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> Digest {
        match self {
            Self::Sha256(hasher) => Digest::from_sha256(&hasher.finalize()),
            Self::Sha512(hasher) => Digest(format!("sha512:{}", hex(&hasher.finalize()))),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|nibble| char::from(DIGITS[usize::from(nibble)])).collect()
}
