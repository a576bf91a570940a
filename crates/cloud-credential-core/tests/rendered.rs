//! Files for clouds.

use mainstay_cloud_credential_core::Cloud;
use mainstay_cloud_credential_core::render::{File, RenderError, Settings, render};
use serde_json::{Value, json};

use crate::plans::request;

fn settings(cloud: Cloud) -> Settings {
    let some = |text: &str| Some(text.to_owned());
    Settings {
        cloud,
        name: "prod".into(),
        issuer: some("https://issuer.example.com/prod"),
        identity_provider: some("arn:aws:iam::123456789012:oidc-provider/issuer.example.com/prod"),
        region: some("eastus"),
        subscription: some("sub"),
        tenant: some("ten"),
        project: some("p"),
        project_number: some("42"),
        pool: some("pool"),
    }
}

fn file<'a>(files: &'a [File], ending: &str) -> &'a File {
    files.iter().find(|file| file.path.ends_with(ending)).unwrap_or_else(|| panic!("{ending}: {files:#?}"))
}

fn parsed(file: &File) -> Value {
    mainstay_yaml::parse(&file.text).unwrap()
}

/// COP-CRED-08, OLM0-TOKEN-17, OLM0-TOKEN-18: AWS: the trust policy names the provider, the issuer without scheme and each account; the policy is the
/// request's; the Secret refers to the role that the script makes.
#[test]
fn aws() {
    let mut object = request("AWSProviderSpec", json!({"statementEntries": [{"effect": "Allow", "action": ["s3:*"], "resource": "*"}]}));
    object["spec"]["serviceAccountNames"] = json!(["cache", "backup"]);
    let files = render(&object, 3, &settings(Cloud::Aws)).unwrap();
    let role = parsed(file(&files, "05-3-prod-caches-creds-role.json"));
    let trust: Value = serde_json::from_str(role["AssumeRolePolicyDocument"].as_str().unwrap()).unwrap();
    let statement = &trust["Statement"][0];
    assert_eq!(statement["Principal"]["Federated"], "arn:aws:iam::123456789012:oidc-provider/issuer.example.com/prod");
    assert_eq!(statement["Action"], "sts:AssumeRoleWithWebIdentity");
    let subjects = json!(["system:serviceaccount:caches:cache", "system:serviceaccount:caches:backup"]);
    assert_eq!(statement["Condition"], json!({"StringEquals": {"issuer.example.com/prod:sub": subjects}}));
    let policy = parsed(file(&files, "06-3-prod-caches-creds-policy.json"));
    let policy: Value = serde_json::from_str(policy["PolicyDocument"].as_str().unwrap()).unwrap();
    assert_eq!(policy["Statement"], json!([{"Effect": "Allow", "Action": ["s3:*"], "Resource": "*"}]));
    let secret = file(&files, "manifests/caches-creds-credentials.yaml");
    assert!(secret.is_secret);
    let text = parsed(secret)["stringData"]["credentials"].as_str().unwrap().to_owned();
    assert!(text.contains("role_arn = arn:aws:iam::123456789012:role/prod-caches-creds\n"), "{text}");
    assert!(file(&files, ".sh").is_script);
}

/// COP-CRED-08: Azure and Google: Secrets to the letter, bindings as JSON, scripts.
#[test]
fn azure_and_google() {
    let files = render(&request("AzureProviderSpec", json!({"roleBindings": [{"role": "Reader"}]})), 0, &settings(Cloud::Azure)).unwrap();
    let secret = parsed(file(&files, "-credentials.yaml"));
    assert_eq!((&secret["stringData"]["azure_tenant_id"], &secret["stringData"]["azure_region"]), (&json!("ten"), &json!("eastus")));
    assert_eq!(parsed(file(&files, "-roles.json"))["roles"], json!(["Reader"]));
    let script = &file(&files, ".sh").text;
    assert!(script.contains("--role 'Reader'") && script.contains("--subject 'system:serviceaccount:caches:cache'"), "{script}");

    let mut object = request("GCPProviderSpec", json!({"predefinedRoles": ["roles/storage.admin"], "permissions": ["a.b", "c.d"]}));
    object["spec"].as_object_mut().unwrap().remove("cloudTokenPath");
    let files = render(&object, 0, &settings(Cloud::Gcp)).unwrap();
    let secret = parsed(file(&files, "-credentials.yaml"));
    let account: Value = serde_json::from_str(secret["stringData"]["service_account.json"].as_str().unwrap()).unwrap();
    assert_eq!(account["audience"], "//iam.googleapis.com/projects/42/locations/global/workloadIdentityPools/pool/providers/pool");
    assert_eq!(account["credential_source"]["file"], "/var/run/secrets/openshift/serviceaccount/token");
    let bindings = parsed(file(&files, "-bindings.json"));
    assert_eq!(bindings["projectRoles"], json!(["roles/storage.admin", "projects/p/roles/prod_cache"]));
}

/// COP-CRED-08: what cannot be rendered is named with its field or flag, and no name leads out of the folder.
#[test]
fn refusals() {
    let refused = |object: &Value, settings: &Settings| render(object, 0, settings).unwrap_err().to_string();
    let id = "openshift-cloud-credential-operator/cache";
    let aws = request("AWSProviderSpec", json!({}));
    assert_eq!(refused(&aws, &settings(Cloud::Azure)), format!("credentialsrequest {id}: it is a AWSProviderSpec, and --cloud is azure"));
    let none = Settings { identity_provider: None, ..settings(Cloud::Aws) };
    assert_eq!(refused(&aws, &none), format!("credentialsrequest {id}: --identity-provider-arn is needed for aws"));
    let mut unnamed = aws.clone();
    unnamed["spec"]["serviceAccountNames"] = json!([]);
    assert!(matches!(render(&unnamed, 0, &settings(Cloud::Aws)), Err(RenderError::NoAccounts(_))));
    for name in ["../x", "a/b", ".hidden", "A"] {
        let mut odd = aws.clone();
        odd["spec"]["secretRef"]["name"] = json!(name);
        assert!(matches!(render(&odd, 0, &settings(Cloud::Aws)), Err(RenderError::Name(..))), "{name}");
    }
    let mut nameless = aws;
    nameless["spec"]["secretRef"] = json!({"namespace": "x"});
    assert_eq!(refused(&nameless, &settings(Cloud::Aws)), format!("credentialsrequest {id}: spec.secretRef.name: required"));
}
