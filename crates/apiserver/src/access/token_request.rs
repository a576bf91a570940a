//! `serviceaccounts/NAME/token`: a token for the asking (KAPI-AUTH-02).

use jiff::Timestamp;
use serde_json::{Value, json};

use super::tokens::{BoundObject, Claims, KubernetesClaims, TokenObjects, Tokens};
use crate::error::{ApiError, Cause, Result};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
const DEFAULT_SECONDS: i64 = 3600;
const SHORTEST_SECONDS: i64 = 600;
const LONGEST_SECONDS: i64 = 1 << 32;

/// Answers a TokenRequest for a ServiceAccount: the object with its defaults and the token in `status`.
pub fn request_token(
    tokens: &Tokens,
    objects: &dyn TokenObjects,
    namespace: &str,
    account: &str,
    request: &Value,
    now: Timestamp,
) -> Result<Value> {
    let live = objects.service_account(namespace, account).ok_or_else(|| ApiError::not_found("", "serviceaccounts", account))?;
    let mut answer = request.clone();
    if !answer.is_object() {
        return Err(ApiError::bad_request("not a TokenRequest"));
    }
    check_metadata(request, namespace, account)?;
    let seconds = expiration(request)?;
    let audiences: Vec<String> = match request.pointer("/spec/audiences").and_then(Value::as_array) {
        Some(list) if !list.is_empty() => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => tokens.audiences().to_vec(),
    };
    let mut kubernetes = KubernetesClaims {
        namespace: namespace.to_owned(),
        serviceaccount: BoundObject { name: account.to_owned(), uid: live.uid.clone() },
        ..KubernetesClaims::default()
    };
    if let Some(reference) = request.pointer("/spec/boundObjectRef").filter(|r| !r.is_null()) {
        bind(&mut kubernetes, objects, namespace, account, reference)?;
    }
    let issued = now.as_second();
    let claims = Claims {
        aud: audiences.clone(),
        exp: issued + seconds,
        iat: issued,
        iss: tokens.issuer().to_owned(),
        jti: uuid::Uuid::new_v4().to_string(),
        kubernetes,
        nbf: issued,
        sub: mainstay_rbac::service_account_username(namespace, account),
    };
    let token = tokens.sign(&claims).map_err(|e| ApiError::internal(format!("failed to generate token: {e}")))?;
    let expires = Timestamp::from_second(claims.exp).map_err(|e| ApiError::internal(e.to_string()))?;
    let issued = Timestamp::from_second(issued).map_err(|e| ApiError::internal(e.to_string()))?;
    answer["apiVersion"] = "authentication.k8s.io/v1".into();
    answer["kind"] = KIND.into();
    set(&mut answer, "metadata", "name", account.into());
    set(&mut answer, "metadata", "namespace", namespace.into());
    set(&mut answer, "metadata", "uid", live.uid.clone().into());
    set(&mut answer, "metadata", "creationTimestamp", issued.to_string().into());
    set(&mut answer, "spec", "audiences", json!(audiences));
    set(&mut answer, "spec", "expirationSeconds", seconds.into());
    if answer["spec"].get("boundObjectRef").is_none() {
        set(&mut answer, "spec", "boundObjectRef", Value::Null);
    }
    answer["status"] = json!({ "token": token, "expirationTimestamp": expires.to_string() });
    Ok(answer)
}

fn set(object: &mut Value, part: &str, field: &str, value: Value) {
    if !object[part].is_object() {
        object[part] = json!({});
    }
    object[part][field] = value;
}

fn check_metadata(request: &Value, namespace: &str, account: &str) -> Result<()> {
    let given = |field: &str| request.pointer(&format!("/metadata/{field}")).and_then(Value::as_str).filter(|text| !text.is_empty());
    if given("namespace").is_some_and(|given| given != namespace) {
        return Err(ApiError::bad_request("the namespace of the provided object does not match the namespace sent on the request"));
    }
    match given("name").filter(|given| *given != account) {
        Some(given) => {
            let cause = Cause::invalid("metadata.name", &json!(given), "must match the service account name if specified");
            Err(ApiError::invalid(GROUP, KIND, account, vec![cause]))
        }
        None => Ok(()),
    }
}

fn expiration(request: &Value) -> Result<i64> {
    let field = request.pointer("/spec/expirationSeconds").filter(|v| !v.is_null());
    let Some(value) = field else { return Ok(DEFAULT_SECONDS) };
    let refuse = |why| Err(ApiError::invalid(GROUP, KIND, "", vec![Cause::invalid("spec.expirationSeconds", value, why)]));
    match value.as_i64() {
        None => Err(ApiError::bad_request("spec.expirationSeconds: expected an integer")),
        Some(seconds) if seconds < SHORTEST_SECONDS => refuse("may not specify a duration less than 10 minutes"),
        Some(seconds) if seconds > LONGEST_SECONDS => refuse("may not specify a duration larger than 2^32 seconds"),
        Some(seconds) => Ok(seconds),
    }
}

fn bind(claims: &mut KubernetesClaims, objects: &dyn TokenObjects, namespace: &str, account: &str, reference: &Value) -> Result<()> {
    let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind, name, uid) = (text("apiVersion"), text("kind"), text("name"), text("uid"));
    let found = match (api_version, kind) {
        ("v1", "Pod") => {
            let pod = objects.pod(namespace, name).ok_or_else(|| ApiError::not_found("", "pods", name))?;
            if pod.service_account != account {
                return Err(ApiError::bad_request(format!(
                    "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
                )));
            }
            claims.pod = Some(BoundObject { name: name.to_owned(), uid: pod.object.uid.clone() });
            if !pod.node.is_empty() {
                let uid = objects.node(&pod.node).map(|n| n.uid).unwrap_or_default();
                claims.node = Some(BoundObject { name: pod.node, uid });
            }
            pod.object.uid
        }
        ("v1", "Secret") => {
            let secret = objects.secret(namespace, name).ok_or_else(|| ApiError::not_found("", "secrets", name))?;
            claims.secret = Some(BoundObject { name: name.to_owned(), uid: secret.uid.clone() });
            secret.uid
        }
        ("v1", "Node") => {
            let node = objects.node(name).ok_or_else(|| ApiError::not_found("", "nodes", name))?;
            claims.node = Some(BoundObject { name: name.to_owned(), uid: node.uid.clone() });
            node.uid
        }
        _ => {
            let gap = if api_version.contains('/') { "" } else { "/" };
            return Err(ApiError::bad_request(format!("cannot bind token to object of type {gap}{api_version}, Kind={kind}")));
        }
    };
    if !uid.is_empty() && uid != found {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then \
             recreated"
        );
        return Err(ApiError::conflict("", kind, name, &why));
    }
    Ok(())
}
