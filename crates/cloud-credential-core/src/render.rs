//! Files that `ccoctl` writes in a dry run: the Secrets of requests and the documents for the cloud, without a call to it (COP-CRED-08, OLM0-TOKEN-17, OLM0-TOKEN-18).

use serde_json::{Value, json};

use crate::{Cloud, Request, RequestError, TOKEN_PATH, token};

/// The settings of a rendering.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The cloud.
    pub cloud: Cloud,
    /// The name with which everything in the cloud begins.
    pub name: String,
    /// The issuer of tokens, with or without `https://`.
    pub issuer: Option<String>,
    /// AWS: the identity provider.
    pub identity_provider: Option<String>,
    /// Azure: the region.
    pub region: Option<String>,
    /// Azure: the subscription.
    pub subscription: Option<String>,
    /// Azure: the tenant.
    pub tenant: Option<String>,
    /// Google: the project.
    pub project: Option<String>,
    /// Google: the number of the project.
    pub project_number: Option<String>,
    /// Google: the pool of workload identities, and its provider.
    pub pool: Option<String>,
}

/// A file that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path below the output folder.
    pub path: String,
    /// Its content.
    pub text: String,
    /// True if others must not read it.
    pub is_secret: bool,
    /// True for a script.
    pub is_script: bool,
}

/// Why a request cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// It cannot be read.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// It is for another cloud.
    #[error("credentialsrequest {request}: it is a {kind}, and --cloud is {cloud}")]
    Cloud {
        /// The request.
        request: String,
        /// Its kind.
        kind: String,
        /// The cloud.
        cloud: &'static str,
    },
    /// It names no account that may use the credentials.
    #[error("credentialsrequest {0}: spec.serviceAccountNames: it must name at least one account, to which the role is bound")]
    NoAccounts(String),
    /// A setting is missing.
    #[error("credentialsrequest {request}: --{flag} is needed for {cloud}")]
    Setting {
        /// The request.
        request: String,
        /// The flag.
        flag: &'static str,
        /// The cloud.
        cloud: &'static str,
    },
    /// A name would lead out of the output folder.
    #[error("credentialsrequest {0}: spec.secretRef: {1:?} is no name of an object")]
    Name(String, String),
}

/// Renders a request; `number` is its place among all.
///
/// # Errors
/// It cannot be rendered, with the field or flag.
pub fn render(object: &Value, number: usize, settings: &Settings) -> Result<Vec<File>, RenderError> {
    let request = Request::read(object)?;
    let id = request.id();
    if request.cloud() != Some(settings.cloud) {
        return Err(RenderError::Cloud { request: id, kind: request.kind, cloud: settings.cloud.metric() });
    }
    for name in [&request.secret_namespace, &request.secret_name] {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
        if name.starts_with('.') || name.len() > 253 || !name.bytes().all(fits) {
            return Err(RenderError::Name(id, name.clone()));
        }
    }
    if request.accounts.is_empty() {
        return Err(RenderError::NoAccounts(id));
    }
    match settings.cloud {
        Cloud::Aws => aws(&request, number, settings),
        Cloud::Azure => azure(&request, number, settings),
        Cloud::Gcp => google(&request, number, settings),
        other => Err(RenderError::Cloud { request: id, kind: request.kind, cloud: other.metric() }),
    }
}

fn needed<'a>(request: &Request, settings: &Settings, flag: &'static str, value: Option<&'a String>) -> Result<&'a str, RenderError> {
    let missing = || RenderError::Setting { request: request.id(), flag, cloud: settings.cloud.metric() };
    value.map(String::as_str).filter(|value| !value.is_empty()).ok_or_else(missing)
}

/// The issuer without its scheme.
fn provider(issuer: &str) -> &str {
    issuer.strip_prefix("https://").unwrap_or(issuer).trim_end_matches('/')
}

fn subjects(request: &Request) -> Vec<String> {
    request.accounts.iter().map(|account| format!("system:serviceaccount:{}:{account}", request.secret_namespace)).collect()
}

fn name(request: &Request, settings: &Settings, most: usize) -> String {
    let name = format!("{}-{}-{}", settings.name, request.secret_namespace, request.secret_name);
    name.chars().take(most).collect()
}

fn secret(request: &Request, contents: &crate::Contents) -> File {
    let manifest = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": request.secret_name, "namespace": request.secret_namespace},
        "stringData": contents.texts(),
    });
    File {
        path: format!("manifests/{}-{}-credentials.yaml", request.secret_namespace, request.secret_name),
        text: mainstay_yaml::to_string(&manifest),
        is_secret: true,
        is_script: false,
    }
}

fn document(path: String, value: &Value) -> File {
    File { path, text: format!("{value:#}\n"), is_secret: false, is_script: false }
}

fn script(path: String, lines: &[String]) -> File {
    File { path, text: format!("#!/bin/sh\nset -eu\n{}\n", lines.join("\n")), is_secret: false, is_script: true }
}

/// A word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn path(request: &Request) -> &str {
    request.token_path.as_deref().unwrap_or(TOKEN_PATH)
}

/// The trust policy of a role of AWS (OLM0-TOKEN-17).
pub fn trust_policy(identity_provider: &str, issuer: &str, subjects: &[String]) -> Value {
    json!({
        "Version": "2012-10-17",
        "Statement": [{
            "Effect": "Allow", "Principal": {"Federated": identity_provider}, "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": {"StringEquals": {format!("{}:sub", provider(issuer)): subjects}},
        }],
    })
}

fn aws(request: &Request, number: usize, settings: &Settings) -> Result<Vec<File>, RenderError> {
    let identity_provider = needed(request, settings, "identity-provider-arn", settings.identity_provider.as_ref())?;
    // The provider's name is the issuer's; the account is the provider's.
    let issuer = match settings.issuer.as_deref() {
        Some(issuer) => issuer,
        None => identity_provider.split_once(":oidc-provider/").map(|(_, issuer)| issuer).unwrap_or_default(),
    };
    let issuer = needed(request, settings, "issuer", Some(&issuer.to_owned()))?.to_owned();
    let (account, partition) =
        (identity_provider.split(':').nth(4).unwrap_or_default(), identity_provider.split(':').nth(1).unwrap_or("aws"));
    let role = name(request, settings, 64);
    let arn = match request.provider_text("stsIAMRoleARN") {
        "" => format!("arn:{partition}:iam::{account}:role/{role}"),
        arn => arn.to_owned(),
    };
    let statements = request.provider["statementEntries"].as_array().cloned().unwrap_or_default();
    let statements: Vec<Value> = statements
        .iter()
        .map(|entry| {
            let mut statement = json!({"Effect": entry["effect"], "Action": entry["action"], "Resource": entry["resource"]});
            if let Some(condition) =
                entry.get("policyCondition").filter(|condition| condition.as_object().is_some_and(|all| !all.is_empty()))
            {
                statement["Condition"] = condition.clone();
            }
            statement
        })
        .collect();
    let policy = json!({"Version": "2012-10-17", "Statement": statements});
    let trust = trust_policy(identity_provider, &issuer, &subjects(request));
    let description = format!("OpenShift role for {}/{}", request.secret_namespace, request.secret_name);
    let tags = json!([
        {"Key": format!("openshift.io/cloud-credential-operator/{}", settings.name), "Value": "owned"},
        {"Key": "Name", "Value": settings.name},
    ]);
    let files = (format!("05-{number}-{role}-role.json"), format!("06-{number}-{role}-policy.json"));
    let commands = [
        format!("aws iam create-role --cli-input-json file://{}", files.0),
        format!("aws iam put-role-policy --cli-input-json file://{}", files.1),
    ];
    Ok(vec![
        document(
            files.0,
            &json!({"RoleName": role, "Description": description, "AssumeRolePolicyDocument": trust.to_string(), "Tags": tags}),
        ),
        document(files.1, &json!({"PolicyDocument": policy.to_string(), "PolicyName": role, "RoleName": role})),
        script(format!("07-{number}-create-{role}-role.sh"), &commands),
        secret(request, &token::aws_contents(&arn, path(request))),
    ])
}

fn azure(request: &Request, number: usize, settings: &Settings) -> Result<Vec<File>, RenderError> {
    let region = needed(request, settings, "region", settings.region.as_ref())?;
    let subscription = needed(request, settings, "subscription-id", settings.subscription.as_ref())?;
    let tenant = needed(request, settings, "tenant-id", settings.tenant.as_ref())?;
    let issuer = needed(request, settings, "issuer", settings.issuer.as_ref())?;
    let identity = name(request, settings, 128);
    let list = |field: &str| request.provider[field].as_array().cloned().unwrap_or_default();
    let roles: Vec<String> = list("roleBindings").iter().filter_map(|binding| binding["role"].as_str().map(str::to_owned)).collect();
    let (actions, data_actions) = (list("permissions"), list("dataPermissions"));
    let scope = format!("/subscriptions/{subscription}");
    let custom = json!({"Name": identity, "Actions": actions, "DataActions": data_actions, "AssignableScopes": [scope]});
    let bindings = json!({"identity": identity, "roles": roles, "customRole": custom, "issuer": issuer, "subjects": subjects(request)});
    let bindings_file = format!("05-{number}-{identity}-roles.json");
    let group = format!("{}-oidc", settings.name);
    let mut commands = vec![format!(
        "az identity create --name {0} --resource-group {1} --location {2}\nprincipal=$(az identity show --name {0} --resource-group {1} --query principalId --output tsv)",
        quoted(&identity),
        quoted(&group),
        quoted(region)
    )];
    let mut all = roles;
    if !actions.is_empty() || !data_actions.is_empty() {
        commands.push(format!("az role definition create --role-definition {}", quoted(&custom.to_string())));
        all.push(identity.clone());
    }
    for role in &all {
        commands.push(format!(
            "az role assignment create --assignee-object-id \"$principal\" --assignee-principal-type ServicePrincipal --role {} --scope {}",
            quoted(role),
            quoted(&scope)
        ));
    }
    for (account, subject) in request.accounts.iter().zip(subjects(request)) {
        commands.push(format!(
            "az identity federated-credential create --name {} --identity-name {} --resource-group {} --issuer {} --subject {} --audiences openshift",
            quoted(account),
            quoted(&identity),
            quoted(&group),
            quoted(issuer),
            quoted(&subject)
        ));
    }
    commands.push(format!(
        "client=$(az identity show --name {} --resource-group {} --query clientId --output tsv)\nsed -i \"s/POPULATE_CLIENT_ID/$client/\" manifests/{}-{}-credentials.yaml",
        quoted(&identity),
        quoted(&group),
        request.secret_namespace,
        request.secret_name
    ));
    let client = match request.provider_text("azureClientID") {
        "" => "POPULATE_CLIENT_ID",
        client => client,
    };
    Ok(vec![
        document(bindings_file, &bindings),
        script(format!("06-{number}-create-{identity}.sh"), &commands),
        secret(request, &token::azure_contents(client, tenant, region, subscription, path(request))),
    ])
}

fn google(request: &Request, number: usize, settings: &Settings) -> Result<Vec<File>, RenderError> {
    let project = needed(request, settings, "project", settings.project.as_ref())?;
    let project_number = needed(request, settings, "project-number", settings.project_number.as_ref())?;
    let pool = needed(request, settings, "workload-identity-pool", settings.pool.as_ref())?;
    // Limits of the cloud: 6 to 30 characters for an account.
    let account: String =
        format!("{}-{}", settings.name.chars().take(12).collect::<String>(), request.name.chars().take(17).collect::<String>());
    let account = account.trim_end_matches('-').to_owned();
    let email = match request.provider_text("serviceAccountEmail") {
        "" => format!("{account}@{project}.iam.gserviceaccount.com"),
        email => email.to_owned(),
    };
    let audience = match request.provider_text("audience") {
        "" => format!("//iam.googleapis.com/projects/{project_number}/locations/global/workloadIdentityPools/{pool}/providers/{pool}"),
        audience => audience.to_owned(),
    };
    let texts = |field: &str| -> Vec<String> {
        let all = request.provider[field].as_array().into_iter().flatten();
        all.filter_map(|value| value.as_str().map(str::to_owned)).collect()
    };
    let (mut roles, permissions) = (texts("predefinedRoles"), texts("permissions"));
    let mut commands = vec![format!("gcloud iam service-accounts create {} --project={}", quoted(&account), quoted(project))];
    if !permissions.is_empty() {
        let role: String = format!("{}_{}", settings.name, request.name)
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .take(64)
            .collect();
        commands.push(format!(
            "gcloud iam roles create {} --project={} --permissions={}",
            quoted(&role),
            quoted(project),
            quoted(&permissions.join(","))
        ));
        roles.push(format!("projects/{project}/roles/{role}"));
    }
    let member = format!("serviceAccount:{email}");
    let members: Vec<String> = subjects(request)
        .iter()
        .map(|subject| {
            format!(
                "principal://iam.googleapis.com/projects/{project_number}/locations/global/workloadIdentityPools/{pool}/subject/{subject}"
            )
        })
        .collect();
    for role in &roles {
        commands.push(format!(
            "gcloud projects add-iam-policy-binding {} --member={} --role={}",
            quoted(project),
            quoted(&member),
            quoted(role)
        ));
    }
    for member in &members {
        commands.push(format!(
            "gcloud iam service-accounts add-iam-policy-binding {} --member={} --role=roles/iam.workloadIdentityUser",
            quoted(&email),
            quoted(member)
        ));
    }
    let bindings = json!({
        "serviceAccount": email,
        "projectRoles": roles,
        "permissions": permissions,
        "bindings": [{"role": "roles/iam.workloadIdentityUser", "members": members}],
    });
    Ok(vec![
        document(format!("06-{number}-{account}-bindings.json"), &bindings),
        script(format!("07-{number}-create-{account}-sa.sh"), &commands),
        secret(request, &token::gcp_contents(&audience, &email, path(request), None)),
    ])
}
