//! The steps of an operator at its start to get credentials of a cloud by its token (OLM0-TOKEN-13, OLM0-TOKEN-14): a library for operators in Rust.
//!
//! ```text
//!   environment ──► Identity ──► CredentialsRequest ──► the Secret appears ──► Credentials
//! ```

use std::time::{Duration, Instant};

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use mainstay_cloud_credential_core::{API_VERSION, Contents, NAMESPACE, TOKEN_PATH};
use serde_json::{Value, json};

/// The identity that the cloud knows the operator by, as its Subscription gives it (OLM0-TOKEN-12).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A role of AWS.
    Aws {
        /// `ROLEARN`.
        role: String,
    },
    /// A managed identity of Azure.
    Azure {
        /// `CLIENTID`.
        client: String,
        /// `TENANTID`.
        tenant: String,
        /// `SUBSCRIPTIONID`.
        subscription: String,
        /// The region, which the operator sets itself.
        region: String,
    },
    /// A service account of Google.
    Gcp {
        /// `AUDIENCE`.
        audience: String,
        /// `SERVICE_ACCOUNT_EMAIL`.
        email: String,
    },
}

/// Why there are no credentials. No message has a part of a Secret.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The Subscription lacks variables.
    #[error("the environment lacks {}: set spec.config.env of the Subscription", .0.join(", "))]
    Environment(Vec<&'static str>),
    /// The request could not be made, or the Secret not be read.
    #[error("credentialsrequest {NAMESPACE}/{name}")]
    Api {
        /// The request.
        name: String,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// The Secret did not come.
    #[error(
        "timed out waiting for secret {name} in namespace {namespace}: see kubectl get credentialsrequest -n {NAMESPACE} {request} -o yaml; on a \
         platform that makes no such Secrets, make it by hand, for instance with mainstay adm credentials render or ccoctl"
    )]
    TimedOut {
        /// The Secret.
        name: String,
        /// Its namespace.
        namespace: String,
        /// The request.
        request: String,
    },
    /// The Secret lacks a key.
    #[error("invalid secret for {cloud} credentials: key {key} is missing")]
    Invalid {
        /// The cloud.
        cloud: &'static str,
        /// The key.
        key: &'static str,
    },
}

impl Identity {
    /// The identity of AWS from the environment.
    ///
    /// # Errors
    /// A variable is missing or empty.
    pub fn aws(read: impl Fn(&str) -> Option<String>) -> Result<Self, CredentialsError> {
        let [role] = variables(["ROLEARN"], read)?;
        Ok(Self::Aws { role })
    }

    /// The identity of Azure from the environment.
    ///
    /// # Errors
    /// A variable is missing or empty.
    pub fn azure(region: &str, read: impl Fn(&str) -> Option<String>) -> Result<Self, CredentialsError> {
        let [client, tenant, subscription] = variables(["CLIENTID", "TENANTID", "SUBSCRIPTIONID"], read)?;
        Ok(Self::Azure { client, tenant, subscription, region: region.to_owned() })
    }

    /// The identity of Google from the environment.
    ///
    /// # Errors
    /// A variable is missing or empty.
    pub fn gcp(read: impl Fn(&str) -> Option<String>) -> Result<Self, CredentialsError> {
        let [audience, email] = variables(["AUDIENCE", "SERVICE_ACCOUNT_EMAIL"], read)?;
        Ok(Self::Gcp { audience, email })
    }

    fn cloud(&self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Aws { .. } => ("aws", &["credentials"]),
            Self::Azure { .. } => {
                ("azure", &["azure_client_id", "azure_tenant_id", "azure_region", "azure_subscription_id", "azure_federated_token_file"])
            }
            Self::Gcp { .. } => ("gcp", &["service_account.json"]),
        }
    }

    /// The provider specification; `permissions` are the fields that name what the operator wants to do.
    fn provider(&self, permissions: &Value) -> Value {
        let mut spec = json!({"apiVersion": API_VERSION});
        for (field, value) in permissions.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        match self {
            Self::Aws { role } => {
                spec["kind"] = json!("AWSProviderSpec");
                spec["stsIAMRoleARN"] = json!(role);
            }
            Self::Azure { client, tenant, subscription, region } => {
                spec["kind"] = json!("AzureProviderSpec");
                let fields =
                    [("azureClientID", client), ("azureTenantID", tenant), ("azureSubscriptionID", subscription), ("azureRegion", region)];
                for (field, value) in fields {
                    spec[field] = json!(value);
                }
            }
            Self::Gcp { audience, email } => {
                spec["kind"] = json!("GCPProviderSpec");
                spec["audience"] = json!(audience);
                spec["serviceAccountEmail"] = json!(email);
            }
        }
        spec
    }
}

fn variables<const N: usize>(names: [&'static str; N], read: impl Fn(&str) -> Option<String>) -> Result<[String; N], CredentialsError> {
    let values = names.map(|name| read(name).unwrap_or_default());
    let missing: Vec<&'static str> = names.into_iter().zip(&values).filter(|(_, value)| value.is_empty()).map(|(name, _)| name).collect();
    if missing.is_empty() { Ok(values) } else { Err(CredentialsError::Environment(missing)) }
}

/// The wish of an operator.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The name of the CredentialsRequest.
    pub name: String,
    /// The operator's namespace, where the Secret is to be.
    pub namespace: String,
    /// The name of the Secret.
    pub secret: String,
    /// The operator's account.
    pub account: String,
    /// The identity.
    pub identity: Identity,
    /// Fields of the provider specification that name permissions.
    pub permissions: Value,
}

impl Wanted {
    /// The CredentialsRequest (OLM0-TOKEN-16).
    pub fn request(&self) -> Value {
        json!({
            "apiVersion": API_VERSION, "kind": "CredentialsRequest", "metadata": {"name": self.name, "namespace": NAMESPACE},
            "spec": {
                "secretRef": {"name": self.secret, "namespace": self.namespace},
                "serviceAccountNames": [self.account],
                "cloudTokenPath": TOKEN_PATH,
                "providerSpec": self.identity.provider(&self.permissions),
            },
        })
    }
}

/// The patience of an operator.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// The interval between two looks.
    pub poll: Duration,
    /// The limit.
    pub limit: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { poll: Duration::from_secs(10), limit: Duration::from_secs(600) }
    }
}

/// Asks for credentials, waits for them, and reads them. A request that exists is left as it is.
///
/// # Errors
/// The request cannot be made, the Secret does not come in time, or lacks a key.
pub async fn obtain(client: &Client, wanted: &Wanted, patience: Patience) -> Result<Contents, CredentialsError> {
    let failed = |source| CredentialsError::Api { name: wanted.name.clone(), source: Box::new(source) };
    let resource =
        |group: &str, kind: &str, plural: &str| ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural);
    let requests: Api<DynamicObject> = Api::namespaced_with(
        client.clone(),
        NAMESPACE,
        &resource("cloudcredential.openshift.io", "CredentialsRequest", "credentialsrequests"),
    );
    let request: DynamicObject = serde_json::from_value(wanted.request()).map_err(|error| failed(kube::Error::SerdeError(error)))?;
    match requests.create(&PostParams::default(), &request).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => return Err(failed(error)),
    }
    let secrets: Api<DynamicObject> = Api::namespaced_with(client.clone(), &wanted.namespace, &resource("", "Secret", "secrets"));
    let begun = Instant::now();
    loop {
        if let Some(secret) = secrets.get_opt(&wanted.secret).await.map_err(failed)? {
            let contents = Contents::read(&secret.data);
            let (cloud, keys) = wanted.identity.cloud();
            return match keys.iter().copied().find(|key| !contents.has(key)) {
                Some(key) => Err(CredentialsError::Invalid { cloud, key }),
                None => Ok(contents),
            };
        }
        if begun.elapsed() >= patience.limit {
            let (name, namespace, request) = (wanted.secret.clone(), wanted.namespace.clone(), wanted.name.clone());
            return Err(CredentialsError::TimedOut { name, namespace, request });
        }
        tokio::time::sleep(patience.poll).await;
    }
}
