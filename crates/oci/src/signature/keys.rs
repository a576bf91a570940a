//! Public keys of sigstore signatures: ECDSA over P-256 and P-384, Ed25519, RSA.

use super::Rejection;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::SubjectPublicKeyInfo;

/// A key that signatures are verified with. The message is hashed by SHA-256, except with Ed25519, which takes it whole.
#[derive(Clone)]
pub(super) struct PublicKey {
    algorithm: &'static dyn VerificationAlgorithm,
    /// The form that ring expects.
    bytes: Vec<u8>,
    /// The whole key as in certificates and PEM files.
    der: Vec<u8>,
    kind: Kind,
}

/// The sort of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Ecdsa,
    Ed25519,
    Rsa,
}

impl PublicKey {
    /// Reads a PEM file with one public key.
    pub(super) fn from_pem(text: &[u8]) -> Result<Self, Rejection> {
        let (_, block) = parse_x509_pem(text).map_err(|_| Rejection("PEM decoding failed".to_owned()))?;
        if block.label != "PUBLIC KEY" {
            return Err(Rejection(format!("unknown Public key PEM file type: {}; expected PUBLIC KEY (PKIX)", block.label)));
        }
        Self::from_der(&block.contents)
    }

    /// Reads a `SubjectPublicKeyInfo`.
    pub(super) fn from_der(der: &[u8]) -> Result<Self, Rejection> {
        let (rest, info) = SubjectPublicKeyInfo::from_der(der).map_err(|_| Rejection("no public key in PKIX form".to_owned()))?;
        if !rest.is_empty() {
            return Err(Rejection("trailing data after the public key".to_owned()));
        }
        let curve = || info.algorithm.parameters.as_ref().and_then(|parameters| parameters.as_oid().ok()).map(|oid| oid.to_id_string());
        let (algorithm, kind): (&'static dyn VerificationAlgorithm, Kind) = match info.algorithm.algorithm.to_id_string().as_str() {
            "1.2.840.10045.2.1" => match curve().as_deref() {
                Some("1.2.840.10045.3.1.7") => (&ECDSA_P256_SHA256_ASN1, Kind::Ecdsa),
                Some("1.3.132.0.34") => (&ECDSA_P384_SHA256_ASN1, Kind::Ecdsa),
                Some("1.3.132.0.35") => return Err(Rejection("ECDSA keys over P-521 are not supported; P-256 and P-384 are".to_owned())),
                other => {
                    return Err(Rejection(format!(
                        "ECDSA curve {} is not supported; P-256 and P-384 are",
                        other.unwrap_or("without a name")
                    )));
                }
            },
            "1.2.840.113549.1.1.1" => (&RSA_PKCS1_2048_8192_SHA256, Kind::Rsa),
            "1.3.101.112" => (&ED25519, Kind::Ed25519),
            other => return Err(Rejection(format!("public keys of algorithm {other} are not supported; ECDSA, Ed25519 and RSA are"))),
        };
        Ok(Self { algorithm, bytes: info.subject_public_key.data.to_vec(), der: der.to_vec(), kind })
    }

    /// Returns true if the key made the signature over the message.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(self.algorithm, &self.bytes).verify(message, signature).is_ok()
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// The `SubjectPublicKeyInfo`.
    pub(super) fn der(&self) -> &[u8] {
        &self.der
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    // Keys that openssl made for these tests, and its signatures over the word `signed` (`openssl dgst -sha256 -sign`).
    const P384: &str = "-----BEGIN PUBLIC KEY-----\nMHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEv4cyCQaSWVp4NNhSdiJKlBr4hi4ZwB/I\n\
        9GEWFScdsSQtI0tUYcUl6DZetIjgRn9D3kcdH5OK0q0Wf/RFu6f4ZmEh9dlTmm63\n\
        Y+XB4cHhVxxtJNb39YZUhdIEad6LUXhz\n-----END PUBLIC KEY-----\n";
    const P384_SIGNATURE: &str = "MGQCMFkfYcb1W63dMRl2i1StRYLz/wizRQ6GUPNfy7ikzW5rDvTHmSXpS0VXyoDw+r713wIwCVpGH1oWioQyDgmkC3cCKtS/+WOuJxVrdbd7zaPRYt5YQPmO\
        6ATHxykG04iUC0et";
    const RSA: &str = "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAu+wtcyrtsdrXaPjy25Au\n\
        Oit2SYQTS8uHYgFD2Uh23ZwUiigiuy3SK/nYRCLhIjXfCG0CFGwSnRZUYn9ZQKDh\n\
        BGzV7L4IsX0tHg9dAED044zLkKmdqMTzZiRNSoRxBnGJ9qaOfJjchm4bTBvMkVUT\n\
        WejICeDb8HlCrM3rKfLpqWofeyUZgkTLyMnwOSMuapzsDFiv13+nnO5lzJ5YLsjg\n\
        oJBWdfJX/GTUXWKFM3qtx30NSjXV0bEzWqcm0HOwj6npIeN9lDSskJN0KLOR7vAQ\n\
        r6+2HpUF0vh9weDhj1H/sOBKTITKyyX5saJqj3mVytTPlSCM4tsmmuaY8yGJadBL\n\
        eQIDAQAB\n-----END PUBLIC KEY-----\n";
    const RSA_SIGNATURE: &str = "BMJmO35h+PL1KvSZw6ysPzUjsfaupx+Gv/zDyUwOLlxegoGNRl/ffLrFC4TWj65fs5If00eIBS79EouFSRiw/0UxCkmnrQ04VCYxJmiedZLT6yZopwVKyRPL\
        RvZslhTFyEf/q1K0BcmAMiZk/lFeh+dwRDlY29omC6/8BOUHA9Hj+tOqaK0c/Nxn1ECZNRM7EMq29EWbpqYkLYOoTujwehjh4GUDBTQDE9/H4Yu9Zmpq8Wde\
        8arG4MFZzx5t3sAbcT01pdPyEwoLOwehpRhEmilaKVHBYVvbZLC92+1TbCgR51kzt+fFuNpzS7wPFg2WxgX5fj8uniueKGoKSzKJPw==";
    const P521: &str = "-----BEGIN PUBLIC KEY-----\nMIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQAZb5CU17G1VyTj2mZkKZQWhA6sDvK\n\
        rE5lYpCvOtdwA8dhLWIvS+8g8Kbnkv55SN1WmcRWjno+GZVncfwjauu3khQAHn5t\n\
        enu9VomzVMoUTxJ7YEja8MK7GT0ZRMGfjeHfUmWrT+kjppKOpJ1F9x0UKI2xEHMW\n\
        TUsQPnAJg/aEYDqM5Xc=\n-----END PUBLIC KEY-----\n";

    /// OLM1-GEN-12: keys over P-256 and P-384, Ed25519 and RSA.
    #[test]
    fn keys_verify() {
        let (mut cases, message) = (Vec::new(), b"signed".as_slice());
        for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ED25519] {
            let pair = rcgen::KeyPair::generate_for(algorithm).unwrap();
            let signature = rcgen::SigningKey::sign(&pair, message).unwrap();
            cases.push((pair.public_key_pem(), signature));
        }
        cases.push((P384.to_owned(), STANDARD.decode(P384_SIGNATURE).unwrap()));
        cases.push((RSA.to_owned(), STANDARD.decode(RSA_SIGNATURE).unwrap()));
        let keys: Vec<PublicKey> = cases.iter().map(|(pem, _)| PublicKey::from_pem(pem.as_bytes()).unwrap()).collect();
        assert_eq!(keys.iter().map(PublicKey::kind).collect::<Vec<_>>(), [Kind::Ecdsa, Kind::Ed25519, Kind::Ecdsa, Kind::Rsa]);
        for (maker, (_, signature)) in cases.iter().enumerate() {
            for (at, key) in keys.iter().enumerate() {
                assert_eq!(key.verifies(message, signature), at == maker, "key {at}, signature {maker}");
                assert!(!key.verifies(b"other", signature));
            }
        }
    }

    #[test]
    fn other_keys_are_refused() {
        for (text, problem) in [
            (P521, "ECDSA keys over P-521 are not supported; P-256 and P-384 are"),
            ("nothing", "PEM decoding failed"),
            (&P384.replace("PUBLIC KEY", "RSA PUBLIC KEY"), "unknown Public key PEM file type: RSA PUBLIC KEY"),
            ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "no public key in PKIX form"),
        ] {
            let error = PublicKey::from_pem(text.as_bytes()).err().unwrap();
            assert!(error.to_string().contains(problem), "{error}");
        }
    }
}
