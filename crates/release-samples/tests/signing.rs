//! Keys of others: which part of one signs, and passphrases.

use mainstay_release_samples::SigningKey;
use pgp::composed::{
    ArmorOptions, Deserializable as _, DetachedSignature, KeyType, SecretKeyParamsBuilder, SignedPublicKey, SignedSecretKey,
    SubkeyParamsBuilder,
};
use pgp::types::Password;
use rand_core::OsRng;

/// A key that may sign, with a subkey that may, too, or only authenticates.
fn key(subkey_signs: bool) -> SignedSecretKey {
    let mut subkey = SubkeyParamsBuilder::default();
    subkey.key_type(KeyType::Ed25519Legacy).can_sign(subkey_signs).can_authenticate(!subkey_signs);
    let mut params = SecretKeyParamsBuilder::default();
    params.key_type(KeyType::Ed25519Legacy).can_certify(true).can_sign(true).primary_user_id("a <a@example.com>".to_owned());
    params.subkey(subkey.build().unwrap()).build().unwrap().generate(OsRng).unwrap()
}

fn read(key: &SignedSecretKey) -> SigningKey {
    SigningKey::read(&key.to_armored_string(ArmorOptions::default()).unwrap()).unwrap()
}

/// Returns whether the primary key, and the subkey, verify a signature.
fn verified(key: &SignedSecretKey, signer: &SigningKey) -> (bool, bool) {
    let (signature, _) = DetachedSignature::from_string(&signer.detached(b"content").unwrap()).unwrap();
    let public = SignedPublicKey::from(key.clone());
    (signature.verify(&public.primary_key, b"content").is_ok(), signature.verify(&public.public_subkeys[0], b"content").is_ok())
}

/// CVO-RELX-02: a subkey that may sign does, else the primary key.
#[test]
fn which_part_signs() {
    for (subkey_signs, expected) in [(true, (false, true)), (false, (true, false))] {
        let key = key(subkey_signs);
        assert_eq!(verified(&key, &read(&key)), expected, "{subkey_signs}");
    }
}

/// CVO-RELX-02: a key with a passphrase signs once it is unlocked by it, whichever part signs.
#[test]
fn passphrases() {
    for subkey_signs in [true, false] {
        let mut key = key(subkey_signs);
        key.primary_key.set_password(OsRng, &Password::from("right")).unwrap();
        key.secret_subkeys[0].key.set_password(OsRng, &Password::from("right")).unwrap();
        let mut signer = read(&key);
        assert!(signer.is_locked() && signer.detached(b"content").is_err());
        assert!(signer.unlock("wrong").is_err() && signer.is_locked());
        signer.unlock("right").unwrap();
        assert!(!signer.is_locked());
        assert_eq!(verified(&key, &signer), (!subkey_signs, subkey_signs));
    }
}
