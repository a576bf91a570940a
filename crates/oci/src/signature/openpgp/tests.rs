//! Keys and messages that are made here.
#![allow(clippy::unwrap_used)]

use pgp::composed::{ArmorOptions, KeyType, MessageBuilder, SecretKeyParamsBuilder, SignedSecretKey, SubkeyParamsBuilder};
use pgp::packet::{RevocationCode, SignatureConfig, Subpacket};
use pgp::ser::Serialize as _;
use pgp::types::{CompressionAlgorithm, Password, SigningKey};
use rand_core::OsRng;

use super::*;

/// A moment after the keys below were made, in seconds since 1970.
fn now() -> u64 {
    u64::from(Timestamp::now().as_secs()) + 10
}

/// A key with a subkey, of which one or both may sign.
fn key(primary_signs: bool, subkey_signs: bool) -> SignedSecretKey {
    let mut subkey = SubkeyParamsBuilder::default();
    subkey.key_type(KeyType::Ed25519Legacy).can_sign(subkey_signs).can_authenticate(!subkey_signs);
    let mut params = SecretKeyParamsBuilder::default();
    params.key_type(KeyType::Ed25519Legacy).can_certify(true).can_sign(primary_signs).primary_user_id("Dev <dev@b.example>".into());
    params.subkey(subkey.build().unwrap()).build().unwrap().generate(OsRng).unwrap()
}

fn signed(by: &dyn SigningKey, hash: HashAlgorithm, compressed: Option<CompressionAlgorithm>) -> Vec<u8> {
    let mut message = MessageBuilder::from_bytes("", b"what is signed".as_slice());
    message.sign(by, Password::empty(), hash);
    if let Some(algorithm) = compressed {
        message.compression(algorithm);
    }
    message.to_vec(OsRng).unwrap()
}

fn ring(keys: &[&SignedPublicKey]) -> Keyring {
    let mut ring = Keyring::default();
    let armored: Vec<String> = keys.iter().map(|key| key.to_armored_string(ArmorOptions::default()).unwrap()).collect();
    ring.add(armored.concat().as_bytes()).unwrap();
    ring
}

/// OLM1-GEN-12: messages of a key and of its subkey, plain and compressed, with keys armoured and binary.
#[test]
fn good_messages_are_opened() {
    let (ours, other) = (key(true, true), key(true, true));
    let (public, foreign) = (ours.to_public_key(), other.to_public_key());
    let subkey = &ours.secret_subkeys[0].key;
    let both = ring(&[&foreign, &public]);
    for message in [
        signed(&ours.primary_key, HashAlgorithm::Sha256, None),
        signed(subkey, HashAlgorithm::Sha512, None),
        signed(&ours.primary_key, HashAlgorithm::Sha256, Some(CompressionAlgorithm::ZIP)),
        signed(subkey, HashAlgorithm::Sha256, Some(CompressionAlgorithm::ZLIB)),
    ] {
        assert_eq!(both.open(&message, now(), KeyExpiry::Now).unwrap(), b"what is signed");
        let mut binary = Keyring::default();
        binary.add(&public.to_bytes().unwrap()).unwrap();
        assert_eq!(binary.open(&message, now(), KeyExpiry::Now).unwrap(), b"what is signed");
        let error = ring(&[&foreign]).open(&message, now(), KeyExpiry::Now).unwrap_err();
        assert!(error.to_string().starts_with("Invalid GPG signature: it is not a good signature of any of the accepted keys"), "{error}");
    }
    let mut changed = signed(subkey, HashAlgorithm::Sha256, None);
    let at = changed.windows(4).position(|window| window == b"what").unwrap();
    changed[at..at + 4].copy_from_slice(b"this");
    assert!(both.open(&changed, now(), KeyExpiry::Now).unwrap_err().to_string().contains("it is not a good signature"));
    assert!(both.open(b"no message", now(), KeyExpiry::Now).is_err());
    let unsigned = MessageBuilder::from_bytes("", b"what is signed".as_slice()).to_vec(OsRng).unwrap();
    assert!(both.open(&unsigned, now(), KeyExpiry::Now).unwrap_err().to_string().contains("it is no signed OpenPGP message"));
    let mut empty = Keyring::default();
    empty.add(b"no key").unwrap();
    assert!(empty.is_empty());
}

/// OLM1-GEN-12: keys that are not for signing, or say so no more, do not count.
#[test]
fn keys_that_do_not_count() {
    let error = |public: &SignedPublicKey, message: &[u8]| ring(&[public]).open(message, now(), KeyExpiry::Now).unwrap_err();
    let certifies = key(false, true);
    let message = signed(&certifies.primary_key, HashAlgorithm::Sha256, None);
    assert!(error(&certifies.to_public_key(), &message).to_string().contains("is not meant for signing"));
    let authenticates = key(true, false);
    let message = signed(&authenticates.secret_subkeys[0].key, HashAlgorithm::Sha256, None);
    assert!(error(&authenticates.to_public_key(), &message).to_string().contains("is not meant for signing"));

    // A subkey that another key claims.
    let (honest, thief) = (key(true, true), key(true, true));
    let message = signed(&honest.secret_subkeys[0].key, HashAlgorithm::Sha256, None);
    let mut claimed = thief.to_public_key();
    claimed.public_subkeys = honest.to_public_key().public_subkeys;
    assert!(error(&claimed, &message).to_string().contains("is not bound to its key"));

    // Withdrawn: the key, and the subkey.
    let mut revoked = honest.to_public_key();
    let mut config = SignatureConfig::from_key(OsRng, &honest.primary_key, SignatureType::KeyRevocation).unwrap();
    config.hashed_subpackets = vec![
        Subpacket::regular(SubpacketData::SignatureCreationTime(Timestamp::now())).unwrap(),
        Subpacket::regular(SubpacketData::RevocationReason(RevocationCode::KeyCompromised, b"lost".as_slice().into())).unwrap(),
    ];
    let revocation = config.sign_key(&honest.primary_key, &Password::empty(), &honest.primary_key.public_key()).unwrap();
    revoked.details.revocation_signatures.push(revocation);
    assert!(error(&revoked, &message).to_string().contains("is revoked"));
    let mut revoked = honest.to_public_key();
    let mut config = SignatureConfig::from_key(OsRng, &honest.primary_key, SignatureType::SubkeyRevocation).unwrap();
    config.hashed_subpackets = vec![Subpacket::regular(SubpacketData::SignatureCreationTime(Timestamp::now())).unwrap()];
    let revocation = config
        .sign_subkey_binding(&honest.primary_key, &honest.primary_key.public_key(), &Password::empty(), &revoked.public_subkeys[0].key)
        .unwrap();
    revoked.public_subkeys[0].signatures.push(revocation);
    assert!(error(&revoked, &message).to_string().contains("is revoked"));

    // Over: one that ends a day after it was made.
    let mut short = honest.to_public_key();
    let mut config = SignatureConfig::from_key(OsRng, &honest.primary_key, SignatureType::CertPositive).unwrap();
    config.hashed_subpackets = vec![
        Subpacket::regular(SubpacketData::SignatureCreationTime(Timestamp::from_secs(Timestamp::now().as_secs() + 1))).unwrap(),
        Subpacket::regular(SubpacketData::KeyExpirationTime(Duration::from_secs(86_400))).unwrap(),
    ];
    let user = &mut short.details.users[0];
    let renewal = config
        .sign_certification(&honest.primary_key, &honest.primary_key.public_key(), &Password::empty(), Tag::UserId, &user.id)
        .unwrap();
    user.signatures.push(renewal);
    assert!(ring(&[&short]).open(&message, now(), KeyExpiry::Now).is_ok());
    let over = ring(&[&short]).open(&message, now() + 2 * 86_400, KeyExpiry::Now).unwrap_err();
    assert!(over.to_string().contains("has expired"), "{over}");
    assert!(ring(&[&short]).open(&message, now() + 2 * 86_400, KeyExpiry::WhenSigned).is_ok());

    let early = ring(&[&honest.to_public_key()]).open(&message, now() - 3600, KeyExpiry::WhenSigned).unwrap_err();
    assert!(early.to_string().contains("it was made in the future"), "{early}");
}

/// CVO-SIG-04: messages whose content comes in parts, the first of them shorter than the standard allows, as Go's library wrote them.
#[test]
fn content_in_parts() {
    let ours = key(true, true);
    let whole = signed(&ours.primary_key, HashAlgorithm::Sha256, None);
    // Three packets, each with one byte of length: what signs, the content, the signature.
    let first = 2 + usize::from(whole[1]);
    let (head, rest) = whole.split_at(first);
    let (content, signature) = rest.split_at(2 + usize::from(rest[1]));
    let body = &content[2..];
    let last = u8::try_from(body.len() - 3).unwrap();
    let parts = [head, &[content[0], 0xE1], &body[..2], &[0xE0], &body[2..3], &[last], &body[3..], signature].concat();
    assert_ne!(parts, whole);
    assert_eq!(ring(&[&ours.to_public_key()]).open(&parts, now(), KeyExpiry::Now).unwrap(), b"what is signed");
}

/// OLM1-GEN-12: several copies of a key are one key, whichever file comes first.
#[test]
fn copies_of_a_key_are_one() {
    let ours = key(true, true);
    let message = signed(&ours.primary_key, HashAlgorithm::Sha256, None);
    // As the key is exported after its owner moved its end.
    let ending = |said: u32, after: u32| {
        let mut public = ours.to_public_key();
        let mut config = SignatureConfig::from_key(OsRng, &ours.primary_key, SignatureType::CertPositive).unwrap();
        config.hashed_subpackets = vec![
            Subpacket::regular(SubpacketData::SignatureCreationTime(Timestamp::from_secs(Timestamp::now().as_secs() + said))).unwrap(),
            Subpacket::regular(SubpacketData::KeyExpirationTime(Duration::from_secs(after))).unwrap(),
        ];
        let (user, signer) = (&mut public.details.users[0], &ours.primary_key);
        user.signatures = vec![config.sign_certification(signer, &signer.public_key(), &Password::empty(), Tag::UserId, &user.id).unwrap()];
        public
    };
    let (old, renewed) = (ending(1, 86_400), ending(2, 30 * 86_400));
    let later = now() + 2 * 86_400;
    assert!(ring(&[&old]).open(&message, later, KeyExpiry::Now).unwrap_err().to_string().contains("has expired"));
    assert!(
        ring(&[&old, &renewed]).open(&message, later, KeyExpiry::Now).is_ok()
            && ring(&[&renewed, &old]).open(&message, later, KeyExpiry::Now).is_ok()
    );

    let mut revoked = ours.to_public_key();
    let mut config = SignatureConfig::from_key(OsRng, &ours.primary_key, SignatureType::KeyRevocation).unwrap();
    config.hashed_subpackets = vec![Subpacket::regular(SubpacketData::SignatureCreationTime(Timestamp::now())).unwrap()];
    let revocation = config.sign_key(&ours.primary_key, &Password::empty(), &ours.primary_key.public_key()).unwrap();
    revoked.details.revocation_signatures.push(revocation);
    for keys in [[&renewed, &revoked], [&revoked, &renewed]] {
        assert!(ring(&keys).open(&message, now(), KeyExpiry::Now).unwrap_err().to_string().contains("is revoked"));
    }
}
