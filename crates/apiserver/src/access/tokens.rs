//! ServiceAccount tokens: what they claim, and whether that still holds.

use jiff::Timestamp;
use mainstay_rbac::UserInfo;
use serde::{Deserialize, Serialize};

use super::jws::{self, SigningKey};
use super::known::Known;
use super::x509::CREDENTIAL_ID;

/// Why a bearer token is refused, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidToken(pub(super) String);

/// The issuer of our tokens, and their audience unless another is asked for.
pub const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The time for which an account or bound object vouches for tokens after its deletion began.
const DELETION_LEEWAY_SECONDS: i64 = 60;

/// An object that a token depends on, as it is now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveObject {
    /// Its uid.
    pub uid: String,
    /// The time at which its deletion was asked for, if it was.
    pub deletion_timestamp: Option<Timestamp>,
}

/// A pod that a token is bound to, as it is now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LivePod {
    /// The object's part.
    pub object: LiveObject,
    /// `spec.serviceAccountName`.
    pub service_account: String,
    /// `spec.nodeName`, empty before it is scheduled.
    pub node: String,
}

/// Lookup of the live objects that tokens are bound to.
pub trait TokenObjects: Send + Sync {
    /// A ServiceAccount.
    fn service_account(&self, namespace: &str, name: &str) -> Option<LiveObject>;
    /// A Pod.
    fn pod(&self, namespace: &str, name: &str) -> Option<LivePod>;
    /// A Secret.
    fn secret(&self, namespace: &str, name: &str) -> Option<LiveObject>;
    /// A Node.
    fn node(&self, name: &str) -> Option<LiveObject>;
}

/// An object named by a token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundObject {
    /// Its name.
    pub name: String,
    /// Its uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// The claims of a ServiceAccount token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Audiences.
    #[serde(default)]
    pub aud: Vec<String>,
    /// End of validity, seconds of the epoch.
    pub exp: i64,
    /// The time at which it was issued.
    pub iat: i64,
    /// The issuer.
    pub iss: String,
    /// The token's own id.
    #[serde(default)]
    pub jti: String,
    /// Kubernetes' part.
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: KubernetesClaims,
    /// Beginning of validity.
    pub nbf: i64,
    /// The user's name.
    pub sub: String,
}

/// The part of the claims that names objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the kinds that a token may name")]
pub struct KubernetesClaims {
    pub namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<BoundObject>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<BoundObject>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<BoundObject>,
    pub serviceaccount: BoundObject,
}

/// Issues tokens and tells whom they stand for.
#[derive(Debug)]
pub struct Tokens {
    key: SigningKey,
    issuer: String,
    /// Other issuers whose tokens, signed by the same key, are accepted.
    earlier: Vec<String>,
    audiences: Vec<String>,
    known: Known<std::sync::Arc<Claims>>,
}

impl Tokens {
    /// With the usual issuer and audience.
    pub fn new(key: SigningKey) -> Self {
        Self {
            key,
            issuer: DEFAULT_ISSUER.to_owned(),
            earlier: Vec::new(),
            audiences: vec![DEFAULT_ISSUER.to_owned()],
            known: Known::default(),
        }
    }

    /// The same with another issuer; tokens that the usual one issued are accepted further. Audiences stay.
    #[must_use]
    pub fn issued_by(self, issuer: String) -> Self {
        Self { earlier: vec![self.issuer], issuer, ..self }
    }

    fn is_ours(&self, issuer: &str) -> bool {
        issuer == self.issuer || self.earlier.iter().any(|earlier| earlier == issuer)
    }

    /// The audiences of this API server.
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// The issuer.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The key set for `/openid/v1/jwks`.
    pub fn jwks(&self) -> serde_json::Value {
        self.key.jwks()
    }

    /// The document at `/.well-known/openid-configuration`, by which others learn to verify tokens.
    pub fn configuration(&self) -> serde_json::Value {
        serde_json::json!({
            "issuer": self.issuer,
            "jwks_uri": format!("{}/openid/v1/jwks", self.issuer),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }

    /// Signs claims.
    pub(super) fn sign(&self, claims: &Claims) -> Result<String, super::pki::PkiError> {
        let claims = serde_json::to_value(claims).map_err(|e| super::pki::PkiError::Key { what: "token claims", detail: e.to_string() })?;
        self.key.sign(&claims)
    }

    /// Returns whether a token says that this server issued it; others may be known to another authenticator.
    pub(super) fn claims_to_be_ours(&self, token: &str) -> bool {
        jws::looks_signed(token) && jws::unverified_issuer(token).is_some_and(|issuer| self.is_ours(&issuer))
    }

    /// The user of a token that is ours, valid now, meant for one of the audiences (ours when none are given), and whose objects still
    /// exist; and the audiences it is good for.
    pub fn identify(
        &self,
        token: &str,
        audiences: &[String],
        objects: &dyn TokenObjects,
        now: Timestamp,
    ) -> Result<(UserInfo, Vec<String>), InvalidToken> {
        let claims = self.known.or_verify([token.as_bytes()], || {
            let claims = self.key.verify(token).ok_or_else(|| InvalidToken("invalid bearer token".to_owned()))?;
            serde_json::from_value(claims).map(std::sync::Arc::new).map_err(|e| InvalidToken(format!("invalid bearer token: {e}")))
        })?;
        if !self.is_ours(&claims.iss) {
            return Err(InvalidToken("invalid bearer token: it has another issuer".to_owned()));
        }
        let wanted = if audiences.is_empty() { &self.audiences } else { audiences };
        let good_for: Vec<String> = wanted.iter().filter(|a| claims.aud.contains(a)).cloned().collect();
        if good_for.is_empty() {
            return Err(InvalidToken(format!(
                "[invalid bearer token, token audiences {:?} is invalid for the target audiences {wanted:?}]",
                claims.aud
            )));
        }
        let seconds = now.as_second();
        if seconds >= claims.exp {
            return Err(InvalidToken("[invalid bearer token, service account token has expired]".to_owned()));
        }
        if seconds < claims.nbf {
            return Err(InvalidToken("[invalid bearer token, service account token is not valid yet]".to_owned()));
        }
        let kubernetes = &claims.kubernetes;
        let (namespace, account) = (kubernetes.namespace.as_str(), kubernetes.serviceaccount.name.as_str());
        if claims.sub != mainstay_rbac::service_account_username(namespace, account) {
            return Err(InvalidToken("invalid bearer token: its subject is not its service account".to_owned()));
        }
        let check = |what: &str, claimed: &BoundObject, live: Option<LiveObject>| match live {
            None => Err(InvalidToken(format!(
                "[invalid bearer token, service account token has been invalidated: {what} {:?} not found]",
                claimed.name
            ))),
            Some(live) if live.uid != claimed.uid => {
                Err(InvalidToken(format!("[invalid bearer token, {what} UID ({}) does not match claim ({})]", live.uid, claimed.uid)))
            }
            Some(live) if live.deletion_timestamp.is_some_and(|at| at.as_second() + DELETION_LEEWAY_SECONDS < seconds) => {
                Err(InvalidToken(format!(
                    "[invalid bearer token, service account token has been invalidated: {what} {:?} is being deleted]",
                    claimed.name
                )))
            }
            Some(_) => Ok(()),
        };
        check("service account", &kubernetes.serviceaccount, objects.service_account(namespace, account))?;
        if let Some(secret) = &kubernetes.secret {
            check("secret", secret, objects.secret(namespace, &secret.name))?;
        }
        if let Some(pod) = &kubernetes.pod {
            check("pod", pod, objects.pod(namespace, &pod.name).map(|p| p.object))?;
        } else if let Some(node) = &kubernetes.node {
            check("node", node, objects.node(&node.name))?;
        }
        Ok((user_of(&claims), good_for))
    }
}

fn user_of(claims: &Claims) -> UserInfo {
    let kubernetes = &claims.kubernetes;
    let mut user = UserInfo::service_account(&kubernetes.namespace, &kubernetes.serviceaccount.name);
    user.uid.clone_from(&kubernetes.serviceaccount.uid);
    let mut extra = |key: &str, value: String| {
        if !value.is_empty() {
            user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value]);
        }
    };
    for (kind, object) in [("pod", &kubernetes.pod), ("node", &kubernetes.node)] {
        if let Some(object) = object {
            extra(&format!("{kind}-name"), object.name.clone());
            extra(&format!("{kind}-uid"), object.uid.clone());
        }
    }
    if !claims.jti.is_empty() {
        user.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={}", claims.jti)]);
    }
    user
}
