//! Secrets of token mode: a reference to a role or identity, and the path of the token; no keys (OLM0-TOKEN-04, OLM0-TOKEN-06 to OLM0-TOKEN-08).

use crate::{Cloud, Contents, Request, TOKEN_PATH};

/// The path of the token that Kubernetes itself mounts, the default of AWS (OLM0-TOKEN-08).
const KUBERNETES_TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/// The domain of Google's services.
const GOOGLE: &str = "googleapis.com";

/// The Secret that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A Secret with these contents.
    For(Contents),
    /// No Secret: the request has no token fields.
    Nothing,
    /// A Secret, but fields are missing or malformed; in upstream's words.
    Wrong(String),
}

/// Returns what a request asks for on a cluster in token mode; `universe` is the domain of Google's services.
pub fn asked(request: &Request, universe: Option<&str>) -> Asked {
    match request.cloud() {
        Some(Cloud::Aws) => aws(request),
        Some(Cloud::Azure) => azure(request),
        Some(Cloud::Gcp) => gcp(request, universe),
        _ => Asked::Nothing,
    }
}

fn path<'a>(request: &'a Request, default: &'a str) -> &'a str {
    request.token_path.as_deref().unwrap_or(default)
}

fn aws(request: &Request) -> Asked {
    let role = request.provider_text("stsIAMRoleARN");
    if role.is_empty() {
        return Asked::Nothing;
    }
    Asked::For(aws_contents(role, path(request, KUBERNETES_TOKEN_PATH)))
}

/// The contents of a Secret for AWS.
pub fn aws_contents(role: &str, path: &str) -> Contents {
    let text = format!("[default]\nsts_regional_endpoints = regional\nrole_arn = {role}\nweb_identity_token_file = {path}");
    Contents::of([("credentials", text)])
}

fn azure(request: &Request) -> Asked {
    // In the order in which upstream names what is missing.
    let fields = [
        ("AzureClientID", "azureClientID"),
        ("AzureTenantID", "azureTenantID"),
        ("AzureRegion", "azureRegion"),
        ("AzureSubscriptionID", "azureSubscriptionID"),
    ];
    let missing: Vec<String> = fields
        .iter()
        .filter(|(_, field)| request.provider_text(field).is_empty())
        .map(|(name, _)| format!("{name} must not be empty"))
        .collect();
    if missing.len() == fields.len() {
        return Asked::Nothing;
    }
    if !missing.is_empty() {
        return Asked::Wrong(format!(
            "error validating credentials request Azure AD Workload Identity fields: AzureProviderSpec validation failed: [{}]",
            missing.join(" ")
        ));
    }
    let [client, tenant, region, subscription] = fields.map(|(_, field)| request.provider_text(field));
    Asked::For(azure_contents(client, tenant, region, subscription, path(request, TOKEN_PATH)))
}

/// The contents of a Secret for Azure.
pub fn azure_contents(client: &str, tenant: &str, region: &str, subscription: &str, path: &str) -> Contents {
    Contents::of([
        ("azure_client_id", client.to_owned()),
        ("azure_tenant_id", tenant.to_owned()),
        ("azure_region", region.to_owned()),
        ("azure_subscription_id", subscription.to_owned()),
        ("azure_federated_token_file", path.to_owned()),
    ])
}

fn gcp(request: &Request, universe: Option<&str>) -> Asked {
    let (email, audience) = (request.provider_text("serviceAccountEmail"), request.provider_text("audience"));
    // Upstream looks at the account alone: an audience by itself asks for nothing.
    if email.is_empty() {
        return Asked::Nothing;
    }
    let problem = match audience {
        "" => "Audience must not be empty",
        audience if !is_audience(audience) => "Audience is malformed",
        _ => return Asked::For(gcp_contents(audience, email, path(request, TOKEN_PATH), universe)),
    };
    Asked::Wrong(format!(
        "error validating credentials request GCP Workload Identity Federation fields: GCPProviderSpec validation failed: [{problem}]"
    ))
}

/// The contents of a Secret for Google.
pub fn gcp_contents(audience: &str, email: &str, path: &str, universe: Option<&str>) -> Contents {
    let other = universe.filter(|domain| *domain != GOOGLE);
    let domain = other.unwrap_or(GOOGLE);
    let field = other.map(|domain| format!(",\n  \"universe_domain\": \"{domain}\"")).unwrap_or_default();
    // The text of upstream, to the letter; so values are put in as they are.
    let text = format!(
        r#"{{
  "type": "external_account",
  "audience": "{audience}",
  "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
  "token_url": "https://sts.{domain}/v1/token",
  "service_account_impersonation_url": "https://iamcredentials.{domain}/v1/projects/-/serviceAccounts/{email}:generateAccessToken",
  "credential_source": {{
    "file": "{path}",
    "format": {{
      "type": "text"
    }}
  }}{field}
}}"#
    );
    Contents::of([("service_account.json", text)])
}

/// Returns true if a text has the form of an audience of Google's workload identity (OLM0-TOKEN-12).
pub fn is_audience(text: &str) -> bool {
    let parts: Vec<&str> = text.split('/').collect();
    let ["", "", "iam.googleapis.com", "projects", project, "locations", "global", "workloadIdentityPools", pool, "providers", provider] =
        parts.as_slice()
    else {
        return false;
    };
    let is_number = !project.is_empty() && project.bytes().all(|byte| byte.is_ascii_digit());
    is_number && !pool.is_empty() && !provider.is_empty()
}
