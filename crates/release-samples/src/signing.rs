//! A key that is made on the spot, and signatures of releases (CVO-SIG-04, CVO-SIG-05).

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use mainstay_oci::Digest;
use pgp::composed::{
    ArmorOptions, Deserializable as _, DetachedSignature, KeyType, MessageBuilder, SecretKeyParamsBuilder, SignedPublicKey, SignedSecretKey,
};
use pgp::crypto::hash::HashAlgorithm;
use pgp::types::Password;
use rand_core::OsRng;
use serde_json::{Value, json};

use crate::error::Error;

/// A key pair for signatures.
pub struct SigningKey(SignedSecretKey);

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("SigningKey")
    }
}

/// Returns what a signature says of an image.
pub fn claim(digest: &Digest, repository: &str, now: Timestamp) -> Value {
    json!({
        "critical": {
            "image": {"docker-manifest-digest": digest.as_str()},
            "type": "atomic container signature",
            "identity": {"docker-reference": repository},
        },
        "optional": {"creator": "mainstay", "timestamp": now.as_second()},
    })
}

impl SigningKey {
    /// Makes a new key.
    ///
    /// # Errors
    /// The library refuses the parameters.
    pub fn generate() -> Result<Self, Error> {
        let mut params = SecretKeyParamsBuilder::default();
        let user = "Mainstay sample releases <sample@releases.example>".to_owned();
        params.key_type(KeyType::Ed25519Legacy).can_certify(true).can_sign(true).primary_user_id(user);
        let params = params.build().map_err(|error| pgp::errors::Error::from(error.to_string()))?;
        Ok(Self(params.generate(OsRng)?))
    }

    /// Reads a key without a passphrase, in armour as `gpg --export-secret-keys --armor` writes it.
    ///
    /// # Errors
    /// The text holds no secret key.
    pub fn read(armoured: &str) -> Result<Self, Error> {
        let (key, _) = SignedSecretKey::from_string(armoured)?;
        Ok(Self(key))
    }

    /// Returns the secret key, in armour.
    ///
    /// # Errors
    /// The library cannot write it.
    pub fn secret(&self) -> Result<String, Error> {
        Ok(self.0.to_armored_string(ArmorOptions::default())?)
    }

    /// Returns the public part, in armour.
    ///
    /// # Errors
    /// The library cannot write it.
    pub fn public(&self) -> Result<String, Error> {
        Ok(SignedPublicKey::from(self.0.clone()).to_armored_string(ArmorOptions::default())?)
    }

    /// Signs an image: a message that holds the claim and its signature.
    ///
    /// # Errors
    /// The library cannot sign.
    pub fn sign(&self, digest: &Digest, repository: &str, now: Timestamp) -> Result<Vec<u8>, Error> {
        let mut message = MessageBuilder::from_bytes("", claim(digest, repository, now).to_string().into_bytes());
        message.sign(&self.0.primary_key, Password::empty(), HashAlgorithm::Sha256);
        Ok(message.to_vec(OsRng)?)
    }
}

impl SigningKey {
    /// Signs bytes apart from them: the signature in armour.
    ///
    /// # Errors
    /// The key has a passphrase, or the library cannot sign.
    pub fn detached(&self, content: &[u8]) -> Result<String, Error> {
        let signature =
            DetachedSignature::sign_binary_data(OsRng, &self.0.primary_key, &Password::empty(), HashAlgorithm::Sha256, content)?;
        Ok(signature.to_armored_string(ArmorOptions::default())?)
    }
}

/// Returns the file of the first signature of an image, in the layout of a store.
pub fn signature_file(store: &Path, digest: &Digest) -> PathBuf {
    store.join(digest.as_str().replacen(':', "=", 1)).join("signature-1")
}
