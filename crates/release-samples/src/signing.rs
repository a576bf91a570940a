//! A key that is made on the spot, and signatures of releases (CVO-SIG-04, CVO-SIG-05).

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use mainstay_oci::Digest;
use pgp::composed::{
    ArmorOptions, Deserializable as _, DetachedSignature, KeyType, MessageBuilder, SecretKeyParamsBuilder, SignedPublicKey,
    SignedSecretKey, SignedSecretSubKey,
};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::SignatureType;
use pgp::types::{KeyDetails as _, Password, SigningKey as Signs};
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

    /// Reads a key, in armour as `gpg --export-secret-keys --armor` writes it. One with a passphrase is locked.
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
        message.sign(self.signer(), Password::empty(), HashAlgorithm::Sha256);
        Ok(message.to_vec(OsRng)?)
    }

    /// Signs bytes apart from them: the signature in armour.
    ///
    /// # Errors
    /// The key is locked, or the library cannot sign.
    pub fn detached(&self, content: &[u8]) -> Result<String, Error> {
        let signer = Box::new(self.signer());
        let signature = DetachedSignature::sign_binary_data(OsRng, &signer, &Password::empty(), HashAlgorithm::Sha256, content)?;
        Ok(signature.to_armored_string(ArmorOptions::default())?)
    }
}

impl SigningKey {
    /// True if a passphrase protects the part that signs.
    pub fn is_locked(&self) -> bool {
        match self.subkey() {
            Some(index) => self.0.secret_subkeys.get(index).is_some_and(|subkey| subkey.key.secret_params().is_encrypted()),
            None => self.0.primary_key.secret_params().is_encrypted(),
        }
    }

    /// Opens the part that signs.
    ///
    /// # Errors
    /// The passphrase is another one.
    pub fn unlock(&mut self, passphrase: &str) -> Result<(), Error> {
        let passphrase = Password::from(passphrase);
        match self.subkey().and_then(|index| self.0.secret_subkeys.get_mut(index)) {
            Some(subkey) => subkey.key.remove_password(&passphrase)?,
            None => self.0.primary_key.remove_password(&passphrase)?,
        }
        Ok(())
    }

    fn signer(&self) -> &dyn Signs {
        match self.subkey().and_then(|index| self.0.secret_subkeys.get(index)) {
            Some(subkey) => &subkey.key,
            None => &self.0.primary_key,
        }
    }

    /// The first subkey that may sign; with none the primary key signs, as other programs choose.
    fn subkey(&self) -> Option<usize> {
        let now = Timestamp::now().as_second();
        self.0.secret_subkeys.iter().position(|subkey| may_sign(subkey, now))
    }
}

fn may_sign(subkey: &SignedSecretSubKey, now: i64) -> bool {
    let is_revoked = subkey.signatures.iter().any(|signature| signature.typ() == Some(SignatureType::SubkeyRevocation));
    let is_allowed = |signature: &pgp::packet::Signature| {
        let lives = signature.key_expiration_time().map(|lives| i64::from(lives.as_secs())).filter(|lives| *lives > 0);
        let ends = lives.map(|lives| i64::from(subkey.key.created_at().as_secs()) + lives);
        signature.key_flags().sign() && ends.is_none_or(|ends| ends > now)
    };
    !is_revoked && subkey.signatures.iter().any(is_allowed)
}

/// Returns the file of the first signature of an image, in the layout of a store.
pub fn signature_file(store: &Path, digest: &Digest) -> PathBuf {
    store.join(digest.as_str().replacen(':', "=", 1)).join("signature-1")
}
