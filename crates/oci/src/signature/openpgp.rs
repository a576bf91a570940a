//! Signed OpenPGP messages, and the keys that may have signed them.
//!
//! A key counts while gpg calls it valid for signing: bound by a signature of its own primary key, meant for signing, neither revoked nor
//! expired. The owner of a key does not matter here: the caller names the keys.

mod packets;

use std::io::Read as _;

use super::Rejection;
use pgp::composed::{Deserializable as _, Message, SignedPublicKey, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureType, SubpacketData};
use pgp::types::{Duration, KeyDetails, Tag, Timestamp};

/// The largest content of a message, in bytes. Signed content has a few hundred bytes of JSON; a message may be compressed.
const MAX_CONTENT: u64 = 1 << 20;
const MAX_KEYS: usize = 1024;
const ARMOR: &[u8] = b"-----BEGIN PGP PUBLIC KEY BLOCK-----";
/// Clock difference, in seconds, up to which a signature does not count as one of the future.
const CLOCK_SKEW: u64 = 300;

/// The time at which a key must not have expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyExpiry {
    /// Now, as for images.
    Now,
    /// When it signed: a release stays what it is, and a cluster may be updated with the keys of an old one.
    WhenSigned,
}

/// OpenPGP public keys.
#[derive(Debug, Default)]
pub struct Keyring(Vec<SignedPublicKey>);

impl Keyring {
    /// Adds the keys of a file, armoured or binary. Other content, and keys of unknown kinds, are passed over, as in gpg.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), Rejection> {
        let blocks: Vec<&[u8]> = match armored_blocks(bytes) {
            blocks if blocks.is_empty() => vec![bytes],
            blocks => blocks,
        };
        for block in blocks {
            let keys = if block.starts_with(ARMOR) {
                SignedPublicKey::from_armor_many_buf(block).map(|(keys, _)| keys)
            } else {
                SignedPublicKey::from_bytes_many(block)
            };
            for key in keys.into_iter().flatten().take(MAX_KEYS + 1) {
                match key {
                    Ok(key) => self.take_in(key),
                    Err(error) => tracing::debug!(%error, "a part of a file of OpenPGP keys is passed over"),
                }
                if self.0.len() > MAX_KEYS {
                    return Err(Rejection(format!("more than {MAX_KEYS} OpenPGP keys")));
                }
            }
        }
        Ok(())
    }

    /// Merges the copies of one key: one file may know of a later date of expiry, or of a revocation.
    fn take_in(&mut self, key: SignedPublicKey) {
        let Some(known) = self.0.iter_mut().find(|known| known.primary_key == key.primary_key) else {
            self.0.push(key);
            return;
        };
        known.details.revocation_signatures.extend(key.details.revocation_signatures);
        known.details.direct_signatures.extend(key.details.direct_signatures);
        for user in key.details.users {
            match known.details.users.iter_mut().find(|known| known.id == user.id) {
                Some(known) => known.signatures.extend(user.signatures),
                None => known.details.users.push(user),
            }
        }
        for subkey in key.public_subkeys {
            match known.public_subkeys.iter_mut().find(|known| known.key == subkey.key) {
                Some(known) => known.signatures.extend(subkey.signatures),
                None => known.public_subkeys.push(subkey),
            }
        }
    }

    /// Returns true if there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the content that one of the keys signed. `now` is in seconds since 1970.
    pub fn open(&self, message: &[u8], now: u64, expiry: KeyExpiry) -> Result<Vec<u8>, Rejection> {
        let (content, signature) = take_apart(message).map_err(invalid)?;
        let used = match expiry {
            KeyExpiry::Now => now,
            KeyExpiry::WhenSigned => signature.created().map_or(now, seconds),
        };
        for key in &self.0 {
            if signature.verify(&key.primary_key, content.as_slice()).is_ok() {
                check_primary(key, used).and_then(|own| check_usage(&key.primary_key, own)).map_err(invalid)?;
                check_made(&signature, key.primary_key.created_at(), now).map_err(invalid)?;
                return Ok(content);
            }
            for subkey in &key.public_subkeys {
                if signature.verify(&subkey.key, content.as_slice()).is_ok() {
                    check_primary(key, used).and_then(|_| check_subkey(key, subkey, used)).map_err(invalid)?;
                    check_made(&signature, subkey.key.created_at(), now).map_err(invalid)?;
                    return Ok(content);
                }
            }
        }
        let issuers: Vec<String> = signature.issuer_key_id().iter().map(|id| id.to_string().to_uppercase()).collect();
        let by = if issuers.is_empty() { "an unnamed key".to_owned() } else { format!("key {}", issuers.join(", ")) };
        Err(invalid(format!("it is not a good signature of any of the accepted keys; it says that {by} made it")))
    }
}

fn invalid(problem: impl std::fmt::Display) -> Rejection {
    Rejection(format!("Invalid GPG signature: {problem}"))
}

fn armored_blocks(bytes: &[u8]) -> Vec<&[u8]> {
    let starts: Vec<usize> =
        bytes.windows(ARMOR.len()).enumerate().filter(|(_, window)| *window == ARMOR).map(|(at, _)| at).take(MAX_KEYS + 1).collect();
    let ends = starts.iter().skip(1).copied().chain([bytes.len()]);
    starts.iter().zip(ends).map(|(start, end)| &bytes[*start..end]).collect()
}

/// Returns the content of a message with exactly one signature over it, and the signature.
fn take_apart(bytes: &[u8]) -> Result<(Vec<u8>, Signature), Rejection> {
    let text = |error: pgp::errors::Error| Rejection(error.to_string());
    let joined = packets::join_parts(bytes);
    let mut message = Message::from_bytes(joined.as_ref()).map_err(text)?;
    if message.is_compressed() {
        message = message.decompress().map_err(text)?;
    }
    if !matches!(message, Message::Signed { .. }) {
        return Err(Rejection("it is no signed OpenPGP message".to_owned()));
    }
    let mut content = Vec::new();
    message.by_ref().take(MAX_CONTENT + 1).read_to_end(&mut content).map_err(|error| Rejection(error.to_string()))?;
    if content.len() as u64 > MAX_CONTENT {
        return Err(Rejection(format!("its content is longer than {MAX_CONTENT} bytes")));
    }
    let Message::Signed { reader, .. } = &message else {
        return Err(Rejection("it is no signed OpenPGP message".to_owned()));
    };
    if reader.num_signatures() != 1 || !reader.get_ref().is_literal() {
        return Err(Rejection("it holds more than one signature over one content".to_owned()));
    }
    let signature = reader.signature(0).ok_or_else(|| Rejection("it ends before its signature".to_owned()))?;
    Ok((content, signature.clone()))
}

/// Checks the signature itself: its type, its hash, and the time when it was made.
fn check_made(signature: &Signature, key_created: Timestamp, now: u64) -> Result<(), Rejection> {
    let Some(SignatureType::Binary | SignatureType::Text) = signature.typ() else {
        return Err(Rejection("it is no signature over data".to_owned()));
    };
    if let None | Some(HashAlgorithm::Md5 | HashAlgorithm::Sha1 | HashAlgorithm::Ripemd160) = signature.hash_alg() {
        return Err(Rejection("its hash is too weak to count".to_owned()));
    }
    let Some(created) = signature.created() else { return Err(Rejection("it does not say when it was made".to_owned())) };
    if created < key_created {
        return Err(Rejection("it was made before its key".to_owned()));
    }
    if seconds(created) > now + CLOCK_SKEW {
        return Err(Rejection("it was made in the future".to_owned()));
    }
    if has_ended(created, signature.signature_expiration_time(), now) {
        return Err(Rejection("it has expired".to_owned()));
    }
    Ok(())
}

/// Returns the newest self-signature of the primary key, if the key is neither revoked nor expired.
fn check_primary(key: &SignedPublicKey, now: u64) -> Result<&Signature, Rejection> {
    let (primary, name) = (&key.primary_key, key.primary_key.fingerprint());
    if key.details.revocation_signatures.iter().any(|signature| signature.verify_key(primary).is_ok()) {
        return Err(Rejection(format!("key {name} is revoked")));
    }
    let mut own: Vec<&Signature> = key.details.direct_signatures.iter().filter(|signature| signature.verify_key(primary).is_ok()).collect();
    for user in &key.details.users {
        let good = |signature: &&Signature| signature.verify_certification(primary, Tag::UserId, &user.id).is_ok();
        let (withdrawn, said): (Vec<&Signature>, Vec<&Signature>) =
            user.signatures.iter().filter(good).partition(|signature| signature.typ() == Some(SignatureType::CertRevocation));
        let last_withdrawn = withdrawn.iter().filter_map(|signature| signature.created()).max();
        own.extend(said.into_iter().filter(|signature| signature.created() > last_withdrawn));
    }
    let newest = own.into_iter().max_by_key(|signature| signature.created());
    let newest = newest.ok_or_else(|| Rejection(format!("key {name} has no valid signature of its own")))?;
    if has_ended(primary.created_at(), newest.key_expiration_time(), now) {
        return Err(Rejection(format!("key {name} has expired")));
    }
    Ok(newest)
}

/// Checks that the key may sign data: a key without usage flags may be used for everything.
fn check_usage(key: &impl KeyDetails, own: &Signature) -> Result<(), Rejection> {
    let says =
        own.config().is_some_and(|config| config.hashed_subpackets().any(|packet| matches!(packet.data, SubpacketData::KeyFlags(_))));
    if says && !own.key_flags().sign() { Err(Rejection(format!("key {} is not meant for signing", key.fingerprint()))) } else { Ok(()) }
}

/// Checks that the subkey belongs to the key, is meant for signing, and is neither revoked nor expired.
fn check_subkey(key: &SignedPublicKey, subkey: &SignedPublicSubKey, now: u64) -> Result<(), Rejection> {
    let (primary, name) = (&key.primary_key, subkey.key.fingerprint());
    let good = |signature: &&Signature| signature.verify_subkey_binding(primary, &subkey.key).is_ok();
    let (withdrawn, bound): (Vec<&Signature>, Vec<&Signature>) =
        subkey.signatures.iter().filter(good).partition(|signature| signature.typ() == Some(SignatureType::SubkeyRevocation));
    if !withdrawn.is_empty() {
        return Err(Rejection(format!("subkey {name} is revoked")));
    }
    let newest = bound.into_iter().max_by_key(|signature| signature.created());
    let newest = newest.ok_or_else(|| Rejection(format!("subkey {name} is not bound to its key")))?;
    if !newest.key_flags().sign() {
        return Err(Rejection(format!("subkey {name} is not meant for signing")));
    }
    // Without the subkey's own consent, an attacker could claim another user's key as a subkey of their own.
    let consent = newest.embedded_signature().is_some_and(|back| back.verify_primary_key_binding(&subkey.key, primary).is_ok());
    if !consent {
        return Err(Rejection(format!("subkey {name} is not bound to its key by a signature of its own")));
    }
    if has_ended(subkey.key.created_at(), newest.key_expiration_time(), now) {
        return Err(Rejection(format!("subkey {name} has expired")));
    }
    Ok(())
}

/// Returns true if a validity period has ended; zero or `None` means for ever.
fn has_ended(begun: Timestamp, lasts: Option<Duration>, now: u64) -> bool {
    lasts.is_some_and(|lasts| lasts.as_secs() > 0 && seconds(begun) + u64::from(lasts.as_secs()) <= now)
}

fn seconds(moment: Timestamp) -> u64 {
    u64::from(moment.as_secs())
}

#[cfg(test)]
mod tests;
