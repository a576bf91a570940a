//! Orders to a provider that mints credentials, and the simulated provider (COP-CRED-03).

use serde_json::{Value, json};

use crate::{Cloud, Contents, Request};

/// An order to a provider: credentials with the permissions of one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// The cloud.
    pub cloud: Cloud,
    /// The request, as namespace and name.
    pub request: String,
    /// The name of the identity, without what makes it unique.
    pub identity: String,
    /// The permissions: the provider specification of the request.
    pub permissions: Value,
    /// The provider's notes on what it made before; a new key of the same identity replaces that one's.
    pub held: Option<Value>,
    /// The root credentials.
    pub root: Contents,
}

/// Credentials that a provider made.
#[derive(Clone, Debug, PartialEq)]
pub struct Minted {
    /// The contents of the Secret.
    pub contents: Contents,
    /// The provider's notes, kept in the status of the request; without secrets.
    pub notes: Value,
}

/// A failure of a provider, in the words of the condition, without secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProviderError(String);

impl From<String> for ProviderError {
    fn from(problem: String) -> Self {
        Self(problem)
    }
}

impl From<&str> for ProviderError {
    fn from(problem: &str) -> Self {
        Self(problem.to_owned())
    }
}

/// The order that a request leads to.
pub fn order(request: &Request, cloud: Cloud, infrastructure: &str, held: Option<Value>, root: Contents) -> Order {
    Order {
        cloud,
        request: request.id(),
        identity: identity(infrastructure, &request.name),
        permissions: request.provider.clone(),
        held,
        root,
    }
}

/// The name of an identity: 12 characters of the cluster's name, 37 of the request's.
fn identity(infrastructure: &str, request: &str) -> String {
    let request: String = request.chars().take(37).collect();
    if infrastructure.is_empty() {
        return request;
    }
    let infrastructure: String = infrastructure.chars().take(12).collect();
    format!("{infrastructure}-{request}")
}

/// The identity that a provider's notes name.
pub fn identity_of(notes: &Value) -> Option<&str> {
    ["user", "name", "serviceAccountID"].iter().find_map(|field| notes.get(field)?.as_str()).filter(|name| !name.is_empty())
}

/// Makes credentials as the cloud would, which open nothing; `random` gives different ones each time.
///
/// # Errors
/// The cloud has no minting: the words are those of the condition.
pub fn simulate(order: &Order, mut random: impl FnMut() -> u64) -> Result<Minted, ProviderError> {
    let mut word = |length: usize| -> String {
        const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
        (0..length).map(|_| char::from(LETTERS[(random() % 32) as usize])).collect()
    };
    let held = order.held.as_ref().and_then(identity_of).map(str::to_owned);
    let identity = held.unwrap_or_else(|| format!("{}-{}", order.identity, word(5).to_lowercase()));
    let copied = |key: &str| order.root.text(key).unwrap_or_default().to_owned();
    let (contents, notes) = match order.cloud {
        Cloud::Aws => {
            let (id, key) = (format!("AKIA{}", word(16)), word(40));
            let notes = json!({
                "apiVersion": crate::API_VERSION, "kind": "AWSProviderStatus", "user": identity, "policy": format!("{identity}-policy"),
            });
            (aws_keys(&id, &key), notes)
        }
        Cloud::Gcp => {
            let email = format!("{}@simulated.iam.gserviceaccount.com", identity.chars().take(30).collect::<String>());
            let file = json!({
                "type": "service_account", "client_email": email, "private_key_id": word(20).to_lowercase(),
                "private_key": format!("simulated {}", word(40)),
            });
            let notes = json!({"apiVersion": crate::API_VERSION, "kind": "GCPProviderStatus", "serviceAccountID": identity});
            (Contents::of([("service_account.json", file.to_string())]), notes)
        }
        Cloud::Azure => {
            let contents = Contents::of([
                ("azure_client_id", word(32).to_lowercase()),
                ("azure_client_secret", word(40)),
                ("azure_tenant_id", copied("azure_tenant_id")),
                ("azure_subscription_id", copied("azure_subscription_id")),
                ("azure_region", copied("azure_region")),
            ]);
            (contents, json!({"apiVersion": crate::API_VERSION, "kind": "AzureProviderStatus", "name": identity}))
        }
        other => return Err(format!("credentials of platform {} cannot be minted", other.platform()).into()),
    };
    Ok(Minted { contents, notes })
}

/// The contents of a Secret with keys of AWS.
pub fn aws_keys(id: &str, key: &str) -> Contents {
    let file = format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = {key}");
    Contents::of([("aws_access_key_id", id.to_owned()), ("aws_secret_access_key", key.to_owned()), ("credentials", file)])
}
