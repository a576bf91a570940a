//! Operators that authenticate to a cloud by their token, without a cloud: the start-up steps of an operator of ours, as its own account.

use std::sync::LazyLock;
use std::time::Duration;

use kube::Client;
use mainstay_cloud_credential::operator::{CredentialsError, Identity, Patience, Wanted, obtain};
use mainstay_e2e::{Cluster, need_embedded, need_kubectl};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const AUDIENCE: &str = "//iam.googleapis.com/projects/42/locations/global/workloadIdentityPools/pool/providers/pool";
const EMAIL: &str = "cache@prod.iam.gserviceaccount.com";

/// The operator's namespace, account and permissions (OLM0-TOKEN-10).
fn install(cluster: &Cluster) {
    let rule = |group: &str, resource: &str, verbs: Value| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let rbac = "rbac.authorization.k8s.io";
    let subjects = json!([{"kind": "ServiceAccount", "name": "cache-operator", "namespace": "caches"}]);
    let verbs = json!(["create", "delete", "get", "list", "patch", "update", "watch"]);
    for object in [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "caches"}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "cache-operator", "namespace": "caches"}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "cache-operator"},
            "rules": [rule("cloudcredential.openshift.io", "credentialsrequests", verbs)]}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "cache-operator"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "cache-operator"}, "subjects": subjects}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "cache-operator", "namespace": "caches"},
            "rules": [rule("", "secrets", json!(["get"]))]}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "cache-operator", "namespace": "caches"},
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "cache-operator"}, "subjects": subjects}),
    ] {
        cluster.apply(&object.to_string());
    }
}

/// A client with the token of the operator's account.
fn operator(cluster: &Cluster) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let token = cluster.kubectl(&["create", "token", "cache-operator", "-n", "caches"]).ok();
    let mut kubeconfig = kube::config::Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    for user in &mut kubeconfig.auth_infos {
        let with_token = json!({"token": token.trim()});
        user.auth_info = Some(serde_json::from_value(with_token).unwrap());
    }
    let options = kube::config::KubeConfigOptions::default();
    let config = run(kube::Config::from_custom_kubeconfig(kubeconfig, &options)).unwrap();
    run(async { Client::try_from(config).unwrap() })
}

fn wanted(identity: Identity, permissions: Value) -> Wanted {
    Wanted {
        name: "cache-operator".into(),
        namespace: "caches".into(),
        secret: "cache-cloud-creds".into(),
        account: "cache-operator".into(),
        identity,
        permissions,
    }
}

/// One runtime for all tests: a client works as long as the runtime that it was made in.
fn run<T>(test: impl Future<Output = T>) -> T {
    static RUNTIME: LazyLock<Runtime> =
        LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());
    RUNTIME.block_on(test)
}

const PATIENCE: Patience = Patience { poll: Duration::from_millis(100), limit: Duration::from_secs(60) };

fn environment(name: &str) -> Option<String> {
    let all = [
        ("ROLEARN", "arn:aws:iam::123456789012:role/cache"),
        ("CLIENTID", "client"),
        ("TENANTID", "tenant"),
        ("SUBSCRIPTIONID", "subscription"),
        ("AUDIENCE", AUDIENCE),
        ("SERVICE_ACCOUNT_EMAIL", EMAIL),
    ];
    all.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
}

/// OLM0-TOKEN-13, OLM0-TOKEN-14, OLM0-TOKEN-16, OLM0-TOKEN-19, OLM0-TOKEN-21: on AWS an operator gets its Secret at the first and at every later start;
/// explain verifies its token against the keys that anybody may read, and says what a cloud would refuse.
#[test]
fn an_operator_on_aws() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let cluster = Cluster::up(&["--components", "controllers,cloud-credential", "--nodes", "0", "--platform", "aws-sts"]);
    install(&cluster);
    let client = operator(&cluster);
    let permissions = json!({"statementEntries": [{"effect": "Allow", "action": ["s3:*"], "resource": "arn:aws:s3:::*"}]});
    let wanted = wanted(Identity::aws(environment).unwrap(), permissions);
    for _ in 0..2 {
        let contents = run(obtain(&client, &wanted, PATIENCE)).unwrap();
        let text = contents.text("credentials").unwrap();
        assert!(text.contains(
            "role_arn = arn:aws:iam::123456789012:role/cache\nweb_identity_token_file = /var/run/secrets/openshift/serviceaccount/token"
        ));
    }
    let explained = cluster.mainstay(&["explain", "credentialsrequest", "cache-operator"]).ok();
    for line in
        ["is granted: secret caches/cache-cloud-creds is written", "verified against the key set of the issuer", "is not tried here"]
    {
        assert!(explained.contains(line), "{line}: {explained}");
    }
    assert!(explained.contains(&format!("iss \"{}\"", cluster.server())), "{explained}");
    // A verifier of tokens has no account here.
    let port = cluster.server().rsplit(':').next().unwrap().parse().unwrap();
    for path in ["/.well-known/openid-configuration", "/openid/v1/jwks"] {
        let answer = anonymous(port, path);
        assert!(answer.contains(if path.ends_with("jwks") { "\"keys\"" } else { "jwks_uri" }), "{answer}");
    }
    // A cluster whose issuer the token does not name.
    let other = json!({"spec": {"serviceAccountIssuer": "https://other.example.com"}}).to_string();
    cluster.kubectl(&["patch", "authentication.config.openshift.io", "cluster", "--type", "merge", "--patch", &other]).ok();
    let explained = cluster.mainstay(&["explain", "credentialsrequest/cache-operator"]).ok();
    assert!(explained.contains("a cloud would refuse"), "{explained}");
    // The request goes, and with it the Secret.
    cluster.kubectl(&["delete", "credentialsrequest", "cache-operator", "-n", "openshift-cloud-credential-operator"]).ok();
    cluster.until_gone(&["secret", "cache-cloud-creds", "-n", "caches"]);
}

/// An answer to a request without credentials.
fn anonymous(port: u16, path: &str) -> String {
    let output = std::process::Command::new("curl").args(["-sk", &format!("https://127.0.0.1:{port}{path}")]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// OLM0-TOKEN-12, OLM0-TOKEN-13, OLM0-TOKEN-14, OLM0-TOKEN-21: the same on Azure and on Google.
#[test]
fn operators_on_azure_and_google() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    for (platform, identity) in
        [("azure-wif", Identity::azure("eastus", environment).unwrap()), ("gcp-wif", Identity::gcp(environment).unwrap())]
    {
        let cluster = Cluster::up(&["--components", "controllers,cloud-credential", "--nodes", "0", "--platform", platform]);
        install(&cluster);
        let contents = run(obtain(&operator(&cluster), &wanted(identity, json!({})), PATIENCE)).unwrap();
        if platform == "azure-wif" {
            assert_eq!((contents.text("azure_tenant_id"), contents.text("azure_region")), (Some("tenant"), Some("eastus")));
        } else {
            let file: Value = serde_json::from_str(contents.text("service_account.json").unwrap()).unwrap();
            assert_eq!((&file["type"], &file["audience"]), (&json!("external_account"), &json!(AUDIENCE)));
        }
    }
}

/// OLM0-TOKEN-13, OLM0-TOKEN-18: an operator whose Secret never comes says which one, and what else can be done; one that lacks its variables says so at once;
/// a Secret made by hand is taken, and one without its key is refused.
#[test]
fn the_secret_never_comes() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    // The kinds are there, and no controller looks after the requests.
    let cluster = Cluster::up(&["--components", "controllers,network-extras", "--nodes", "0", "--platform", "aws-sts"]);
    install(&cluster);
    cluster.kubectl(&["create", "namespace", "openshift-cloud-credential-operator"]).ok();
    let client = operator(&cluster);
    let wanted = wanted(Identity::aws(environment).unwrap(), json!({}));
    let hasty = Patience { poll: Duration::from_millis(50), limit: Duration::from_millis(300) };
    let error = run(obtain(&client, &wanted, hasty)).unwrap_err();
    assert!(matches!(error, CredentialsError::TimedOut { .. }));
    let text = error.to_string();
    assert!(text.starts_with("timed out waiting for secret cache-cloud-creds in namespace caches") && text.contains("by hand"), "{text}");
    let missing = Identity::azure("eastus", |name| environment(name).filter(|_| name == "CLIENTID")).unwrap_err();
    assert_eq!(missing.to_string(), "the environment lacks TENANTID, SUBSCRIPTIONID: set spec.config.env of the Subscription");
    let explained = cluster.mainstay(&["explain", "credentialsrequest", "cache-operator"]).ok();
    assert!(explained.contains("was not written yet") && explained.contains("mainstay run cloud-credential"), "{explained}");

    let secret = |key: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cache-cloud-creds", "namespace": "caches"}, "stringData": {key: "x"}});
    cluster.apply(&secret("other").to_string());
    let error = run(obtain(&client, &wanted, hasty)).unwrap_err();
    assert_eq!(error.to_string(), "invalid secret for aws credentials: key credentials is missing");
    cluster.apply(&secret("credentials").to_string());
    assert_eq!(run(obtain(&client, &wanted, hasty)).unwrap().text("credentials"), Some("x"));
}
