//! Whether the signatures that were found are enough (CVO-SIG-03), and what is said if they are not (CVO-SIG-09).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use mainstay_golang::quote;

use super::claim::check_claim;
use super::digest::ReleaseDigest;

/// The most causes that are kept.
const MAX_CAUSES: usize = 64;
/// The longest text of a cause, in characters; it may quote a store.
const MAX_CAUSE: usize = 1024;
/// The most signatures that are looked at; each costs processor time.
const MAX_OFFERED: usize = 256;

/// Public keys that can open signed messages.
pub trait Keyring {
    /// Why a message is not opened.
    type Error: fmt::Display;

    /// Returns the content that one of the keys signed.
    fn open(&self, message: &[u8], now: Timestamp) -> Result<Vec<u8>, Self::Error>;
}

/// A failure on the way to a verdict, and when it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    at: Timestamp,
    text: String,
}

impl fmt::Display for Cause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.at.strftime("%Y-%m-%dT%H:%M:%SZ"), self.text)
    }
}

/// A release that every keyring vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The digest.
    pub digest: ReleaseDigest,
    /// The signatures that did it, in the order in which they were found.
    pub signatures: Vec<Vec<u8>>,
}

/// A release that is not verified.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The running release does not say whose signatures it wants.
    #[error("verification is not possible")]
    NotPossible,
    /// There are no keys.
    #[error("the release verifier is incorrectly configured, unable to verify digests")]
    Misconfigured,
    /// The image is named by a tag.
    #[error("release images that are not accessed via digest cannot be verified")]
    NoDigest,
    /// The digest is none.
    #[error("the provided release image digest has an invalid format: {}", quote(.0))]
    Digest(String),
    /// No valid signature was found for some keyrings.
    #[error("unable to verify {digest} against keyrings: {}", .keyrings.join(", "))]
    Unverified {
        /// The digest.
        digest: ReleaseDigest,
        /// The keyrings, sorted.
        keyrings: Vec<String>,
        /// What failed on the way.
        causes: Vec<Cause>,
    },
}

impl VerifyError {
    /// The causes as one text, each once, as events and accepted risks add them to the sentence; `None` if there is none.
    pub fn causes(&self) -> Option<String> {
        let Self::Unverified { causes, .. } = self else { return None };
        let mut seen = BTreeSet::new();
        let texts: Vec<String> = causes.iter().map(ToString::to_string).filter(|text| seen.insert(text.clone())).collect();
        match texts.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            several => Some(format!("[{}]", several.join(", "))),
        }
    }
}

/// A verification under way: signatures are offered until it is done.
#[derive(Debug)]
pub struct Verification<'k, K> {
    digest: ReleaseDigest,
    remaining: BTreeMap<&'k str, &'k K>,
    signatures: Vec<Vec<u8>>,
    causes: Vec<Cause>,
    offered: usize,
}

impl<'k, K: Keyring> Verification<'k, K> {
    /// Begins the verification of an image's digest; keyrings are given by name.
    pub fn new(digest: &str, keyrings: &'k BTreeMap<String, K>) -> Result<Self, VerifyError> {
        if keyrings.is_empty() {
            return Err(VerifyError::Misconfigured);
        }
        if digest.is_empty() {
            return Err(VerifyError::NoDigest);
        }
        let digest = ReleaseDigest::parse(digest).ok_or_else(|| VerifyError::Digest(digest.to_owned()))?;
        let remaining = keyrings.iter().map(|(name, keyring)| (name.as_str(), keyring)).collect();
        Ok(Self { digest, remaining, signatures: Vec::new(), causes: Vec::new(), offered: 0 })
    }

    /// The digest.
    pub fn digest(&self) -> &ReleaseDigest {
        &self.digest
    }

    /// Looks at a signature; returns true when no more are needed.
    pub fn offer(&mut self, signature: &[u8], now: Timestamp) -> bool {
        self.offered += 1;
        if self.offered > MAX_OFFERED {
            self.missed(format_args!("more than {MAX_OFFERED} signatures"), now);
            return self.is_done();
        }
        for (name, keyring) in self.remaining.clone() {
            let content = match keyring.open(signature, now) {
                Ok(content) => content,
                Err(error) => {
                    self.missed(error, now);
                    continue;
                }
            };
            if let Err(error) = check_claim(&content, &self.digest) {
                self.missed(error, now);
                continue;
            }
            self.remaining.remove(name);
            self.signatures.push(signature.to_vec());
        }
        self.is_done()
    }

    /// Notes why a signature could not be had.
    pub fn missed(&mut self, why: impl fmt::Display, now: Timestamp) {
        if self.causes.len() < MAX_CAUSES {
            let text = why.to_string().chars().take(MAX_CAUSE).collect();
            self.causes.push(Cause { at: now, text });
        }
    }

    /// Returns true if every keyring is satisfied.
    pub fn is_done(&self) -> bool {
        self.remaining.is_empty()
    }

    /// Ends the verification.
    pub fn finish(self) -> Result<Verified, VerifyError> {
        if self.remaining.is_empty() {
            return Ok(Verified { digest: self.digest, signatures: self.signatures });
        }
        let keyrings = self.remaining.into_keys().map(str::to_owned).collect();
        Err(VerifyError::Unverified { digest: self.digest, keyrings, causes: self.causes })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// Opens messages that begin with its letter.
    #[derive(Debug)]
    struct Letter(u8);

    impl Keyring for Letter {
        type Error = String;

        fn open(&self, message: &[u8], _: Timestamp) -> Result<Vec<u8>, String> {
            message.strip_prefix(&[self.0]).map(<[u8]>::to_vec).ok_or_else(|| "other key".to_owned())
        }
    }

    fn claim(digest: &str) -> String {
        format!(
            r#"{{"critical": {{"type": "atomic container signature", "image": {{"docker-manifest-digest": "{digest}"}}, "identity": {{"docker-reference": "a"}}}}}}"#
        )
    }

    fn keyrings(letters: &[u8]) -> BTreeMap<String, Letter> {
        letters.iter().map(|letter| (char::from(*letter).to_string(), Letter(*letter))).collect()
    }

    /// CVO-SIG-03: every keyring needs one valid signature; one signature does not serve for another's.
    #[test]
    fn every_keyring_is_needed() {
        let (keyrings, now) = (keyrings(b"ab"), Timestamp::UNIX_EPOCH);
        let good = |letter: char| format!("{letter}{}", claim("sha256:ab")).into_bytes();
        let mut verification = Verification::new("sha256:ab", &keyrings).unwrap();
        assert!(!verification.offer(&good('a'), now));
        assert!(!verification.offer(&good('a'), now));
        assert!(verification.offer(&good('b'), now));
        assert_eq!(verification.finish().unwrap().signatures, [good('a'), good('b')]);
    }

    /// CVO-SIG-09, CVO-SIG-01, CVO-SIG-11: the sentence, and the causes that stand behind it, each once.
    #[test]
    fn what_is_said() {
        let (rings, now) = (keyrings(b"ab"), Timestamp::UNIX_EPOCH);
        let mut verification = Verification::new("sha256:ab", &rings).unwrap();
        verification.offer(format!("a{}", claim("sha256:cd")).as_bytes(), now);
        verification.missed("store is away", now);
        let error = verification.finish().unwrap_err();
        assert_eq!(error.to_string(), "unable to verify sha256:ab against keyrings: a, b");
        assert_eq!(
            error.causes().unwrap(),
            "[1970-01-01T00:00:00Z: signature digest does not match, 1970-01-01T00:00:00Z: other key, 1970-01-01T00:00:00Z: store is away]"
        );
        let mut many = Verification::new("sha256:ab", &rings).unwrap();
        for _ in 0..1000 {
            many.offer(b"x", now);
            many.missed("y".repeat(5000), now);
        }
        let VerifyError::Unverified { causes, .. } = many.finish().unwrap_err() else { panic!("unverified") };
        assert_eq!(causes.len(), MAX_CAUSES);
        let refused = |digest: &str, rings: &BTreeMap<String, Letter>| Verification::new(digest, rings).unwrap_err().to_string();
        assert_eq!(refused("", &rings), "release images that are not accessed via digest cannot be verified");
        assert_eq!(refused("sha256:a\"b", &rings), "the provided release image digest has an invalid format: \"sha256:a\\\"b\"");
        assert_eq!(refused("sha256:ab", &keyrings(b"")), "the release verifier is incorrectly configured, unable to verify digests");
        assert_eq!(VerifyError::NotPossible.to_string(), "verification is not possible");
        assert_eq!(VerifyError::NotPossible.causes(), None);
    }
}
