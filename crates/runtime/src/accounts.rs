//! Clients that act as a ServiceAccount with short-lived tokens (OLM1-PERM-01).

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::cluster::bearing;
use crate::{Cluster, ConnectError, Env, Key};

/// The requested lifetime of a token, in seconds.
const LIFE: i64 = 3_600;
/// The remaining lifetime, in seconds, below which a token is renewed: a tenth.
const RENEW: i64 = LIFE / 10;

/// The tokens that are kept. Each takes a few KiB, and a request for a new one costs the server a signature.
const HELD: usize = 2_048;

/// An account that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The account was not found.
    #[error("service account {name:?} not found in namespace {namespace:?}: unable to authenticate with the Kubernetes cluster.", name = account.name, namespace = account.namespace)]
    NotFound {
        /// The account.
        account: Key,
    },
    /// This process lacks permission to request a token.
    #[error(
        "service account {name:?} in namespace {namespace:?} cannot be used: the controller lacks the permission to create serviceaccounts/token of it; mainstay explain says how to grant it",
        name = account.name, namespace = account.namespace
    )]
    Refused {
        /// The account.
        account: Key,
        /// The server's words.
        #[source]
        source: Box<kube::Error>,
    },
    /// The token request failed.
    #[error("no token for service account {account}")]
    Token {
        /// The account.
        account: Key,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// The server answered without a token.
    #[error("the answer to the token request for service account {account} has no token")]
    NoToken {
        /// The account.
        account: Key,
    },
    /// No client could be made with the token.
    #[error("no client for service account {account}")]
    Client {
        /// The account.
        account: Key,
        /// The cause.
        #[source]
        source: ConnectError,
    },
}

/// The clients of accounts. Each is made again when its token nears its end or when the account was replaced.
#[derive(Clone)]
pub struct Accounts {
    cluster: Cluster,
    client: Client,
    env: Env,
    /// The connections of all accounts.
    connections: Arc<OnceLock<Client>>,
    held: Arc<Mutex<HashMap<Key, CachedClient>>>,
}

struct CachedClient {
    client: Client,
    uid: Option<String>,
    /// The renewal time by the system clock, which continues while the machine sleeps.
    until: Timestamp,
    /// The renewal time by the monotonic clock: a system clock that was set back must not keep a token beyond its lifetime.
    lasts: Instant,
    used: Instant,
}

impl Accounts {
    /// Creates clients with tokens that `client` requests, whose identity may create them.
    pub fn new(cluster: Cluster, client: Client, env: Env) -> Self {
        Self { cluster, client, env, connections: Arc::default(), held: Arc::default() }
    }

    /// Returns a client that acts as the account.
    pub async fn client(&self, account: &Key) -> Result<Client, AccountError> {
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &account.namespace);
        let token_error = |source| AccountError::Token { account: account.clone(), source: Box::new(source) };
        let found = api.get_metadata_opt(&account.name).await.map_err(token_error)?;
        let Some(found) = found else {
            self.held.lock().await.remove(account);
            return Err(AccountError::NotFound { account: account.clone() });
        };
        let now = self.env.now();
        if let Some(client) = self.held_client(account, found.uid().as_deref(), now).await {
            return Ok(client);
        }
        // The lock is not held meanwhile: a slow answer must not block every other account.
        let request = TokenRequest {
            spec: TokenRequestSpec { expiration_seconds: Some(LIFE), ..TokenRequestSpec::default() },
            ..TokenRequest::default()
        };
        let answer = api.create_token_request(&account.name, &PostParams::default(), &request).await.map_err(|error| match error {
            kube::Error::Api(ref status) if status.code == 403 => {
                AccountError::Refused { account: account.clone(), source: Box::new(error) }
            }
            other => token_error(other),
        })?;
        let Some(status) = answer.status else {
            return Err(AccountError::NoToken { account: account.clone() });
        };
        let client = self.bearing(&status.token).map_err(|source| AccountError::Client { account: account.clone(), source })?;
        // A server may grant a shorter lifetime than requested.
        let until = status.expiration_timestamp.0;
        let until = until.checked_sub(SignedDuration::from_secs(RENEW)).unwrap_or(now);
        let granted = answer.spec.expiration_seconds.unwrap_or(LIFE).clamp(0, LIFE);
        let used = Instant::now();
        let lasts = used + Duration::from_secs(granted.saturating_sub(RENEW).max(0).unsigned_abs());
        let mut held = self.held.lock().await;
        if held.len() >= HELD
            && let Some(longest) = held.iter().min_by_key(|(_, held)| held.used).map(|(account, _)| account.clone())
        {
            held.remove(&longest);
        }
        held.insert(account.clone(), CachedClient { client: client.clone(), uid: found.uid(), until, lasts, used });
        Ok(client)
    }

    /// Returns a client that acts as the account for as long as it is used: each request is sent with a token that is valid then.
    pub fn acting_as(&self, account: Key) -> Client {
        let accounts = self.clone();
        let namespace = account.namespace.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (accounts, account) = (accounts.clone(), account.clone());
            async move {
                let client = accounts.client(&account).await?;
                client.send(request).await.map_err(tower::BoxError::from)
            }
        });
        Client::new(service, namespace)
    }

    fn bearing(&self, token: &str) -> Result<Client, ConnectError> {
        if let Some(connections) = self.connections.get() {
            return bearing(connections, token);
        }
        let made = self.cluster.anonymous()?;
        bearing(self.connections.get_or_init(|| made), token)
    }

    /// Returns the cached client of this same account, if its token is still valid.
    async fn held_client(&self, account: &Key, uid: Option<&str>, now: Timestamp) -> Option<Client> {
        let mut held = self.held.lock().await;
        let used = Instant::now();
        held.retain(|_, held| held.until > now && held.lasts > used);
        let held = held.get_mut(account).filter(|held| held.uid.as_deref() == uid)?;
        held.used = used;
        Some(held.client.clone())
    }
}
