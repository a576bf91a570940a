//! Facts of the explanation of a CredentialsRequest (OLM0-TOKEN-19, OLM0-TOKEN-21). The decisions are `cloud-credential-core`'s.

use http::Request as HttpRequest;
use jiff::Timestamp;
use mainstay_cloud_credential_core::explain::{self, Explanation, Facts, Verified};
use mainstay_cloud_credential_core::verify::{Expected, verify};
use mainstay_cloud_credential_core::{NAMESPACE, Request, Settings};
use mainstay_diagnostics::{Failure, FailureKind, chain};
use serde_json::{Value, json};

use crate::classic::objects::{Kind, NAMESPACE as NAMESPACES, find, get, list};
use crate::classic::platform::{AUTHENTICATION, CLOUD_CREDENTIAL, INFRASTRUCTURE, cluster};
use crate::session::Session;

/// The audience of the tokens that operators mount.
const AUDIENCE: &str = "openshift";
/// The most accounts of one request whose tokens are verified.
const MOST_ACCOUNTS: usize = 10;
/// The shortest life that a token can be asked for.
const SECONDS: u32 = 600;

const CREDENTIALS_REQUEST: Kind = Kind {
    group: "cloudcredential.openshift.io",
    version: "v1",
    kind: "CredentialsRequest",
    plural: "credentialsrequests",
    word: "credentialsrequest",
};
const SECRET: Kind = Kind { group: "", version: "v1", kind: "Secret", plural: "secrets", word: "secret" };
const CONFIG_MAP: Kind = Kind { group: "", version: "v1", kind: "ConfigMap", plural: "configmaps", word: "configmap" };

/// Explains a CredentialsRequest. Without a namespace, the only one of this name is taken. A token of each account is asked for and verified as a cloud
/// does it, at the time when it was issued: `clock` is read then. Nothing else is made.
///
/// # Errors
/// It is not there, several have the name, or the facts cannot be read.
pub async fn explain(session: &Session, namespace: Option<&str>, name: &str, clock: fn() -> Timestamp) -> Result<Explanation, Failure> {
    let object = object(session, namespace, name).await?;
    let legacy = find(session, CONFIG_MAP, NAMESPACE, "cloud-credential-operator-config").await?;
    let (credential, authentication, infrastructure) =
        (cluster(session, CLOUD_CREDENTIAL).await?, cluster(session, AUTHENTICATION).await?, cluster(session, INFRASTRUCTURE).await?);
    let settings = Settings::read(credential.as_ref(), authentication.as_ref(), infrastructure.as_ref(), legacy.as_ref());
    let (mut has_namespace, mut secret, mut tokens) = (false, None, Vec::new());
    if let Ok(request) = Request::read(&object) {
        has_namespace = find(session, NAMESPACES, "", &request.secret_namespace).await?.is_some();
        secret = find(session, SECRET, &request.secret_namespace, &request.secret_name).await?;
        let issuer = settings.as_ref().ok().filter(|settings| settings.is_token_mode()).and_then(|settings| settings.issuer.clone());
        if let Some(issuer) = issuer.filter(|_| has_namespace) {
            for account in request.accounts.iter().take(MOST_ACCOUNTS) {
                let verified = verified(session, &issuer, &request.secret_namespace, account, clock).await;
                tokens.push((format!("{}/{account}", request.secret_namespace), verified));
            }
        }
    }
    Ok(explain::explain(&Facts { object: &object, settings, has_namespace, secret: secret.as_ref(), tokens }))
}

async fn object(session: &Session, namespace: Option<&str>, name: &str) -> Result<Value, Failure> {
    if let Some(namespace) = namespace {
        return get(session, CREDENTIALS_REQUEST, namespace, name).await;
    }
    let mut all = list(session, CREDENTIALS_REQUEST, None).await?;
    all.retain(|object| object["metadata"]["name"] == name);
    match all.len() {
        0 => Err(CREDENTIALS_REQUEST.not_found("", name).hint("kubectl get credentialsrequests -A lists them")),
        1 => Ok(all.remove(0)),
        _ => {
            let namespaces: Vec<&str> = all.iter().filter_map(|object| object["metadata"]["namespace"].as_str()).collect();
            let failure = Failure::new(FailureKind::Usage, format!("credentialsrequest {name}"), "is in several namespaces");
            Err(failure
                .because(namespaces.join(", "))
                .hint(format!("-n {} takes that one", namespaces.first().copied().unwrap_or_default())))
        }
    }
}

/// A token of an account, verified against the key set of the issuer, as the cluster serves it.
async fn verified(session: &Session, issuer: &str, namespace: &str, account: &str, clock: fn() -> Timestamp) -> Verified {
    let body = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": [AUDIENCE], "expirationSeconds": SECONDS},
    });
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let request = HttpRequest::post(path).header("content-type", "application/json").body(body.to_string().into_bytes());
    let request = request.map_err(|error| error.to_string())?;
    let answer: Value = session.client.request(request).await.map_err(|error| chain(&error))?;
    let keys = HttpRequest::get("/openid/v1/jwks").body(Vec::new()).map_err(|error| error.to_string())?;
    let keys: Value =
        session.client.request(keys).await.map_err(|error| format!("the key set of the issuer cannot be read: {}", chain(&error)))?;
    let token = answer["status"]["token"].as_str().unwrap_or_default();
    let subject = format!("system:serviceaccount:{namespace}:{account}");
    Ok(verify(token, &keys, &Expected { issuer, audience: AUDIENCE, subject: &subject, now: clock().as_second() }))
}
