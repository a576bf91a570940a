//! Requirements of a policy for an image.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use super::Malformed;
use super::identity::SignedIdentity;
use super::strict::Object;

/// One requirement; all of a scope have to be met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Requirement {
    /// `insecureAcceptAnything`
    AcceptAnything,
    /// `reject`
    Reject,
    /// `signedBaseLayer`, which container tools do not implement either.
    SignedBaseLayer,
    /// `signedBy`: an OpenPGP signature.
    SignedBy(SignedBy),
    /// `sigstoreSigned`
    SigstoreSigned(Box<SigstoreSigned>),
}

/// An OpenPGP signature by one of these keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SignedBy {
    /// `GPGKeys`, or a type that no tool implements.
    pub(super) key_type: String,
    pub(super) keys: Vec<Material>,
    pub(super) identity: SignedIdentity,
}

/// A sigstore signature with the trust that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SigstoreSigned {
    pub(super) trust: Trust,
    pub(super) identity: SignedIdentity,
}

/// The reason for which the key of a sigstore signature is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trust {
    /// It is one of these; with keys of a log, the log has to hold the signature.
    Keys { keys: Vec<Material>, rekor: Vec<Material> },
    /// Fulcio certified it for a subject, and the log says when it was used.
    Fulcio { authorities: Material, issuer: String, email: String, rekor: Vec<Material> },
    /// An authority certified it for a subject.
    Pki { roots: Material, intermediates: Option<Material>, email: Option<String>, hostname: Option<String> },
}

/// Keys or certificates: in a file that is read when they are needed, or in the policy itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Material {
    File(PathBuf),
    Inline(Vec<u8>),
}

impl Requirement {
    pub(super) fn read(raw: &RawValue) -> Result<Self, Malformed> {
        let mut object = Object::of(raw)?;
        let kind: String = object.require("type")?;
        let found = match kind.as_str() {
            "insecureAcceptAnything" => Self::AcceptAnything,
            "reject" => Self::Reject,
            "signedBaseLayer" => {
                SignedIdentity::read(&object.require::<Box<RawValue>>("baseLayerIdentity")?)?;
                Self::SignedBaseLayer
            }
            "signedBy" => Self::SignedBy(SignedBy::read(&mut object)?),
            "sigstoreSigned" => Self::SigstoreSigned(Box::new(SigstoreSigned::read(&mut object)?)),
            other => return Err(Malformed(format!("Unknown policy requirement type \"{other}\""))),
        };
        object.end()?;
        Ok(found)
    }
}

impl SignedBy {
    fn read(object: &mut Object) -> Result<Self, Malformed> {
        let key_type: String = object.require("keyType")?;
        if !matches!(key_type.as_str(), "GPGKeys" | "signedByGPGKeys" | "X509Certificates" | "signedByX509CAs") {
            return Err(Malformed(format!("Unrecognized keyType value \"{key_type}\"")));
        }
        let keys = one_of(object, &["keyPath", "keyPaths", "keyData"])?
            .ok_or_else(|| Malformed("Exactly one of keyPath, keyPaths and keyData must be specified, none of them present".to_owned()))?;
        Ok(Self { key_type, keys, identity: identity(object)? })
    }
}

impl SigstoreSigned {
    fn read(object: &mut Object) -> Result<Self, Malformed> {
        const SOURCES: &str = "exactly one of keyPath, keyPaths, keyData, keyDatas, fulcio, and pki must be specified";
        let keys = one_of(object, &["keyPath", "keyPaths", "keyData", "keyDatas"])?;
        let rekor = one_of(object, &["rekorPublicKeyPath", "rekorPublicKeyPaths", "rekorPublicKeyData", "rekorPublicKeyDatas"])?;
        let fulcio: Option<Object> = object.take("fulcio")?;
        let pki: Option<Object> = object.take("pki")?;
        let trust = match (keys, fulcio, pki) {
            (Some(keys), None, None) => Trust::Keys { keys, rekor: rekor.unwrap_or_default() },
            (None, Some(fulcio), None) => {
                let rekor = rekor.ok_or_else(|| {
                    Malformed(
                        "At least one of rekorPublicKeyPath, rekorPublicKeyPaths, rekorPublicKeyData and rekorPublicKeyDatas must be \
                     specified if fulcio is used"
                            .to_owned(),
                    )
                })?;
                read_fulcio(fulcio, rekor).map_err(|problem| Malformed(format!("fulcio: {problem}")))?
            }
            (None, None, Some(_)) if rekor.is_some() => {
                return Err(Malformed(
                    "rekorPublicKeyPath, rekorPublicKeyPaths, rekorPublicKeyData and rekorPublicKeyDatas are not supported for pki"
                        .to_owned(),
                ));
            }
            (None, None, Some(pki)) => read_pki(pki).map_err(|problem| Malformed(format!("pki: {problem}")))?,
            _ => return Err(Malformed(SOURCES.to_owned())),
        };
        Ok(Self { trust, identity: identity(object)? })
    }
}

fn read_fulcio(mut object: Object, rekor: Vec<Material>) -> Result<Trust, Malformed> {
    let authorities = single(&mut object, "caPath", "caData")?
        .ok_or_else(|| Malformed("At least one of caPath and caData must be specified".to_owned()))?;
    let issuer = word(&mut object, "oidcIssuer")?.ok_or_else(|| Malformed("oidcIssuer not specified".to_owned()))?;
    let email = word(&mut object, "subjectEmail")?.ok_or_else(|| Malformed("subjectEmail not specified".to_owned()))?;
    object.end()?;
    Ok(Trust::Fulcio { authorities, issuer, email, rekor })
}

fn read_pki(mut object: Object) -> Result<Trust, Malformed> {
    let roots = single(&mut object, "caRootsPath", "caRootsData")?
        .ok_or_else(|| Malformed("At least one of caRootsPath and caRootsData must be specified".to_owned()))?;
    let intermediates = single(&mut object, "caIntermediatesPath", "caIntermediatesData")?;
    let (email, hostname) = (word(&mut object, "subjectEmail")?, word(&mut object, "subjectHostname")?);
    if email.is_none() && hostname.is_none() {
        return Err(Malformed("At least one of subjectEmail, subjectHostname must be specified".to_owned()));
    }
    object.end()?;
    Ok(Trust::Pki { roots, intermediates, email, hostname })
}

/// Reads a text. An empty one counts as absent; certificates without a subject would match it.
fn word(object: &mut Object, key: &str) -> Result<Option<String>, Malformed> {
    Ok(object.take::<String>(key)?.filter(|text| !text.is_empty()))
}

/// Reads the value of at most one of these keys: a path, paths, data in base64, or several such.
fn one_of(object: &mut Object, keys: &[&str]) -> Result<Option<Vec<Material>>, Malformed> {
    let mut found = None;
    for key in keys {
        let list = if key.ends_with("Paths") {
            object.take::<Vec<PathBuf>>(key)?.map(|paths| paths.into_iter().map(Material::File).collect())
        } else if key.ends_with("Path") {
            object.take::<PathBuf>(key)?.map(|path| vec![Material::File(path)])
        } else if key.ends_with("Datas") {
            object.take::<Vec<String>>(key)?.map(|texts| texts.iter().map(|text| inline(key, text)).collect()).transpose()?
        } else {
            object.take::<String>(key)?.map(|text| inline(key, &text).map(|data| vec![data])).transpose()?
        };
        let Some(list): Option<Vec<Material>> = list else { continue };
        if list.is_empty() {
            return Err(Malformed(format!("\"{key}\" contains no entries")));
        }
        if found.replace(list).is_some() {
            let (last, others) = keys.split_last().unwrap_or((key, &[]));
            return Err(Malformed(format!("at most one of {} and {last} can be used simultaneously", others.join(", "))));
        }
    }
    Ok(found)
}

fn single(object: &mut Object, path: &str, data: &str) -> Result<Option<Material>, Malformed> {
    Ok(one_of(object, &[path, data])?.and_then(|mut list| list.pop()))
}

fn inline(key: &str, text: &str) -> Result<Material, Malformed> {
    // Lines may be broken, as base64(1) breaks them.
    let text = text.replace(['\r', '\n'], "");
    STANDARD.decode(text).map(Material::Inline).map_err(|error| Malformed(format!("{key}: no base64: {error}")))
}

fn identity(object: &mut Object) -> Result<SignedIdentity, Malformed> {
    match object.take::<Box<RawValue>>("signedIdentity")? {
        Some(raw) => SignedIdentity::read(&raw).map_err(|problem| Malformed(format!("signedIdentity: {problem}"))),
        None => Ok(SignedIdentity::MatchRepoDigestOrExact),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn read(text: &str) -> Result<Requirement, Malformed> {
        Requirement::read(&RawValue::from_string(text.to_owned()).unwrap())
    }

    /// OLM1-GEN-12: each requirement with where its keys are.
    #[test]
    fn requirements_are_read() {
        let Requirement::SignedBy(signed) = read(r#"{"type": "signedBy", "keyType": "GPGKeys", "keyPaths": ["/a", "/b"]}"#).unwrap() else {
            panic!("signedBy")
        };
        assert_eq!(signed.keys, [Material::File("/a".into()), Material::File("/b".into())]);
        assert_eq!(signed.identity, SignedIdentity::MatchRepoDigestOrExact);
        let text = r#"{"type": "sigstoreSigned", "keyDatas": ["YQ==", "Y\ng==\n"], "rekorPublicKeyPath": "/r",
            "signedIdentity": {"type": "matchRepository"}}"#;
        let Requirement::SigstoreSigned(signed) = read(text).unwrap() else { panic!("sigstoreSigned") };
        let keys = vec![Material::Inline(b"a".to_vec()), Material::Inline(b"b".to_vec())];
        assert_eq!(signed.trust, Trust::Keys { keys, rekor: vec![Material::File("/r".into())] });
        assert_eq!(signed.identity, SignedIdentity::MatchRepository);
        let text = r#"{"type": "sigstoreSigned", "rekorPublicKeyData": "YQ==",
            "fulcio": {"caPath": "/ca", "oidcIssuer": "https://i.example", "subjectEmail": "a@b.example"}}"#;
        assert!(matches!(read(text).unwrap(), Requirement::SigstoreSigned(signed) if matches!(signed.trust, Trust::Fulcio { .. })));
        let text = r#"{"type": "sigstoreSigned", "pki": {"caRootsPath": "/ca", "subjectHostname": "h.example"}}"#;
        assert!(matches!(read(text).unwrap(), Requirement::SigstoreSigned(signed) if matches!(signed.trust, Trust::Pki { .. })));
        let text = r#"{"type": "signedBaseLayer", "baseLayerIdentity": {"type": "matchExact"}}"#;
        assert_eq!(read(text).unwrap(), Requirement::SignedBaseLayer);
    }

    #[test]
    fn what_is_no_requirement_is_refused() {
        for (text, problem) in [
            (r#"{"type": "signedBy", "keyPath": "/a"}"#, "Key \"keyType\" missing"),
            (r#"{"type": "signedBy", "keyType": "PGP", "keyPath": "/a"}"#, "Unrecognized keyType value \"PGP\""),
            (r#"{"type": "signedBy", "keyType": "GPGKeys"}"#, "none of them present"),
            (
                r#"{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "/a", "keyData": "YQ=="}"#,
                "at most one of keyPath, keyPaths and keyData can be used simultaneously",
            ),
            (r#"{"type": "signedBy", "keyType": "GPGKeys", "keyData": "?"}"#, "keyData: no base64"),
            (r#"{"type": "sigstoreSigned"}"#, "exactly one of keyPath, keyPaths, keyData, keyDatas, fulcio, and pki"),
            (r#"{"type": "sigstoreSigned", "keyPaths": []}"#, "\"keyPaths\" contains no entries"),
            (r#"{"type": "sigstoreSigned", "keyPath": "/a", "pki": {}}"#, "exactly one of"),
            (r#"{"type": "sigstoreSigned", "fulcio": {}}"#, "must be specified if fulcio is used"),
            (r#"{"type": "sigstoreSigned", "rekorPublicKeyPath": "/r", "fulcio": {"caPath": "/a"}}"#, "fulcio: oidcIssuer not specified"),
            (
                r#"{"type": "sigstoreSigned", "rekorPublicKeyPath": "/r",
                    "fulcio": {"caPath": "/a", "oidcIssuer": "https://i.example", "subjectEmail": ""}}"#,
                "fulcio: subjectEmail not specified",
            ),
            (r#"{"type": "sigstoreSigned", "rekorPublicKeyPath": "/r", "pki": {}}"#, "are not supported for pki"),
            (r#"{"type": "sigstoreSigned", "pki": {"caRootsPath": "/a"}}"#, "pki: At least one of subjectEmail, subjectHostname"),
            (r#"{"type": "sigstoreSigned", "keyPath": "/a", "signedIdentity": {"type": "x"}}"#, "signedIdentity: Unknown policy reference"),
            (r#"{"type": "insecureAcceptAnything", "x": 1}"#, "Unknown key \"x\""),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
