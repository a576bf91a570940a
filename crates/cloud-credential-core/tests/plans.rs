//! Plans for requests.

use mainstay_cloud_credential_core::plan::{Answer, Need, Plan, SYNC, Snapshot, Write, plan};
use mainstay_cloud_credential_core::provider::{self, simulate};
use mainstay_cloud_credential_core::token::{Asked, asked, is_audience};
use mainstay_cloud_credential_core::{Contents, FINALIZER, REQUEST_MARK, Request, Settings};
use proptest::prelude::*;
use serde_json::{Value, json};

pub fn settings(mode: &str, issuer: &str, platform: &str) -> Settings {
    let credential = json!({"spec": {"credentialsMode": mode}});
    let authentication = json!({"spec": {"serviceAccountIssuer": issuer}});
    let infrastructure =
        json!({"metadata": {"resourceVersion": "7"}, "status": {"infrastructureName": "prod-x1", "platformStatus": {"type": platform}}});
    Settings::read(Some(&credential), Some(&authentication), Some(&infrastructure), None).unwrap()
}

pub fn request(kind: &str, fields: Value) -> Value {
    let mut provider = json!({"apiVersion": "cloudcredential.openshift.io/v1", "kind": kind});
    let Value::Object(fields) = fields else { panic!("fields are an object") };
    provider.as_object_mut().unwrap().extend(fields);
    json!({
        "metadata": {"name": "cache", "namespace": "openshift-cloud-credential-operator", "generation": 2, "finalizers": [FINALIZER]},
        "spec": {
            "secretRef": {"name": "creds", "namespace": "caches"}, "serviceAccountNames": ["cache"],
            "cloudTokenPath": "/var/run/secrets/openshift/serviceaccount/token", "providerSpec": provider,
        },
    })
}

struct World {
    settings: Settings,
    object: Value,
    has_namespace: bool,
    secret: Option<Value>,
    root: Option<Value>,
    can_mint: bool,
}

impl World {
    fn new(settings: Settings, object: Value) -> Self {
        Self { settings, object, has_namespace: true, secret: None, root: None, can_mint: true }
    }

    fn plan(&self, answer: Option<&Answer>, now: &str) -> Plan {
        let read = Request::read(&self.object).unwrap();
        plan(&Snapshot {
            object: &self.object,
            request: &read,
            settings: &self.settings,
            has_namespace: self.has_namespace,
            secret: self.secret.as_ref(),
            root: self.root.as_ref(),
            can_mint: self.can_mint,
            answer,
            now: now.parse().unwrap(),
        })
    }

    /// Carries plans out until one changes nothing, as the loop does.
    fn settle(&mut self, now: &str) -> Value {
        let mut answer = None;
        for turn in 0..10_u64 {
            match self.plan(answer.as_ref(), now) {
                Plan::Need(Need::Mint(order)) => {
                    let mut seed = turn * 1000 + self.object["metadata"]["generation"].as_u64().unwrap();
                    answer = Some(Answer::Minted(simulate(&order, || {
                        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        seed >> 33
                    })));
                    continue;
                }
                Plan::Need(Need::Release(_)) => {
                    answer = Some(Answer::Released(Ok(())));
                    continue;
                }
                Plan::Sync { secret, status, .. } => {
                    match secret {
                        Some(Write::Create(mut created)) => {
                            created["metadata"]["resourceVersion"] = json!("1");
                            self.secret = Some(created);
                        }
                        Some(Write::Patch(patch)) => {
                            let live = self.secret.as_mut().unwrap();
                            for (key, value) in patch["data"].as_object().into_iter().flatten() {
                                live["data"][key] = value.clone();
                            }
                            for part in ["labels", "annotations"] {
                                for (key, value) in patch["metadata"][part].as_object().into_iter().flatten() {
                                    live["metadata"][part][key] = value.clone();
                                }
                            }
                        }
                        None if self.object["status"] == status => return status,
                        None => {}
                    }
                    self.object["status"] = status;
                }
                other => panic!("{other:?}"),
            }
            answer = None;
        }
        panic!("it does not settle: {:#}", self.object["status"]);
    }

    fn text(&self, key: &str) -> String {
        Contents::read(self.secret.as_ref().unwrap()).text(key).unwrap_or_default().to_owned()
    }
}

fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let all = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

const NOW: &str = "2026-03-01T12:00:00Z";
const AUDIENCE: &str = "//iam.googleapis.com/projects/123/locations/global/workloadIdentityPools/pool/providers/provider";

/// OLM0-TOKEN-02, OLM0-TOKEN-04, OLM0-TOKEN-06, COP-CRED-02: in token mode a request with token fields gets its Secret, to the letter.
#[test]
fn secrets_refer_to_tokens() {
    let mut aws = World::new(
        settings("Manual", "https://issuer", "AWS"),
        request("AWSProviderSpec", json!({"stsIAMRoleARN": "arn:aws:iam::1:role/r"})),
    );
    let status = aws.settle(NOW);
    assert_eq!(
        (&status["provisioned"], &status["lastSyncGeneration"], &status["lastSyncTimestamp"]),
        (&json!(true), &json!(2), &json!(NOW))
    );
    assert_eq!(
        aws.text("credentials"),
        "[default]\nsts_regional_endpoints = regional\nrole_arn = arn:aws:iam::1:role/r\nweb_identity_token_file = /var/run/secrets/openshift/serviceaccount/token"
    );
    let secret = aws.secret.as_ref().unwrap();
    assert_eq!(secret["metadata"]["annotations"][REQUEST_MARK], "openshift-cloud-credential-operator/cache");
    assert_eq!((&secret["metadata"]["labels"][REQUEST_MARK], &secret["type"]), (&json!("true"), &json!("Opaque")));

    let fields = json!({"azureClientID": "c", "azureTenantID": "t", "azureRegion": "r", "azureSubscriptionID": "s"});
    let mut azure = World::new(settings("Manual", "https://issuer", "Azure"), request("AzureProviderSpec", fields));
    azure.settle(NOW);
    let keys = ["azure_client_id", "azure_tenant_id", "azure_region", "azure_subscription_id", "azure_federated_token_file"];
    assert_eq!(keys.map(|key| azure.text(key)), ["c", "t", "r", "s", "/var/run/secrets/openshift/serviceaccount/token"]);

    let fields = json!({"serviceAccountEmail": "a@p.iam.gserviceaccount.com", "audience": AUDIENCE});
    let mut google = World::new(settings("Manual", "https://issuer", "GCP"), request("GCPProviderSpec", fields));
    google.settle(NOW);
    let text = google.text("service_account.json");
    assert!(text.starts_with("{\n  \"type\": \"external_account\",\n  \"audience\": \"//iam.googleapis.com/"), "{text}");
    let file: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        file,
        json!({
            "type": "external_account", "audience": AUDIENCE, "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": "https://sts.googleapis.com/v1/token",
            "service_account_impersonation_url":
                "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/a@p.iam.gserviceaccount.com:generateAccessToken",
            "credential_source": {"file": "/var/run/secrets/openshift/serviceaccount/token", "format": {"type": "text"}},
        })
    );
    google.settings.universe = Some("example.goog".into());
    google.settle(NOW);
    assert!(google.text("service_account.json").ends_with("  },\n  \"universe_domain\": \"example.goog\"\n}"));
}

/// OLM0-TOKEN-07, OLM0-TOKEN-08: partial fields are told in upstream's words, no field asks for nothing, and each cloud has its default path.
#[test]
fn incomplete_requests() {
    let asks = |kind: &str, fields: Value, path: &str| {
        let mut object = request(kind, fields);
        object["spec"]["cloudTokenPath"] = json!(path);
        asked(&Request::read(&object).unwrap(), None)
    };
    assert_eq!(asks("AWSProviderSpec", json!({}), "/p"), Asked::Nothing);
    assert_eq!(asks("AzureProviderSpec", json!({"roleBindings": [{"role": "Reader"}]}), "/p"), Asked::Nothing);
    assert_eq!(asks("GCPProviderSpec", json!({"audience": AUDIENCE}), "/p"), Asked::Nothing);
    let wrong = |kind, fields| match asks(kind, fields, "/p") {
        Asked::Wrong(text) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        wrong("AzureProviderSpec", json!({"azureTenantID": "t"})),
        "error validating credentials request Azure AD Workload Identity fields: AzureProviderSpec validation failed: [AzureClientID must not be \
         empty AzureRegion must not be empty AzureSubscriptionID must not be empty]"
    );
    let google = "error validating credentials request GCP Workload Identity Federation fields: GCPProviderSpec validation failed: ";
    assert_eq!(wrong("GCPProviderSpec", json!({"serviceAccountEmail": "e"})), format!("{google}[Audience must not be empty]"));
    assert_eq!(
        wrong("GCPProviderSpec", json!({"serviceAccountEmail": "e", "audience": "openshift"})),
        format!("{google}[Audience is malformed]")
    );
    let path = |kind, fields, key: &str| match asks(kind, fields, "") {
        Asked::For(contents) => contents.text(key).unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    let aws = path("AWSProviderSpec", json!({"stsIAMRoleARN": "r"}), "credentials");
    assert!(aws.ends_with("web_identity_token_file = /var/run/secrets/kubernetes.io/serviceaccount/token"), "{aws}");
    let fields = json!({"azureClientID": "c", "azureTenantID": "t", "azureRegion": "r", "azureSubscriptionID": "s"});
    assert_eq!(path("AzureProviderSpec", fields, "azure_federated_token_file"), "/var/run/secrets/openshift/serviceaccount/token");

    let mut world = World::new(settings("Manual", "https://issuer", "Azure"), request("AzureProviderSpec", json!({"azureTenantID": "t"})));
    let Plan::Sync { secret: None, status, failure: Some(_), .. } = world.plan(None, NOW) else { panic!() };
    let failed = condition(&status, "CredentialsProvisionFailure");
    assert_eq!(
        (&failed["status"], &failed["reason"], &status["provisioned"]),
        (&json!("True"), &json!("CredentialsProvisionFailure"), &json!(false))
    );
    assert!(failed["message"].as_str().unwrap().starts_with("failed to grant creds: error validating credentials request Azure"));
    // Once it is complete, the condition is false and keeps the time of the change.
    world.object["status"] = status;
    let fields = json!({"azureClientID": "c", "azureTenantID": "t", "azureRegion": "r", "azureSubscriptionID": "s"});
    world.object["spec"] = request("AzureProviderSpec", fields)["spec"].clone();
    let status = world.settle("2026-03-01T12:05:00Z");
    let cleared = condition(&status, "CredentialsProvisionFailure");
    assert_eq!((&cleared["status"], &cleared["lastTransitionTime"]), (&json!("False"), &json!("2026-03-01T12:05:00Z")));
}

/// OLM0-TOKEN-03, COP-CRED-02: without an issuer Manual means that nothing is done; with one, and no token fields, no Secret is written.
#[test]
fn manual() {
    let fields = json!({"stsIAMRoleARN": "arn:aws:iam::1:role/r"});
    let mut world = World::new(settings("Manual", "", "AWS"), request("AWSProviderSpec", fields));
    assert_eq!(world.plan(None, NOW), Plan::Nothing);
    world.settings = settings("Manual", "https://issuer", "AWS");
    world.object = request("AWSProviderSpec", json!({}));
    let status = world.settle(NOW);
    assert_eq!((world.secret, &status["provisioned"]), (None, &json!(true)));
}

/// COP-CRED-01, COP-CRED-04: another platform's request is marked, loses its failures and is left alone; a missing namespace is waited for.
#[test]
fn ignored_and_waiting() {
    let mut world = World::new(settings("Manual", "https://issuer", "AWS"), request("GCPProviderSpec", json!({})));
    world.object["status"] = json!({"provisioned": false, "lastSyncGeneration": 0, "conditions": [
        {"type": "CredentialsProvisionFailure", "status": "True", "reason": "x", "message": "y", "lastTransitionTime": NOW},
    ]});
    world.object["metadata"]["finalizers"] = json!([]);
    let status = world.settle(NOW);
    let ignored = condition(&status, "Ignored");
    assert_eq!((&ignored["status"], &ignored["reason"]), (&json!("True"), &json!("InfrastructureMismatch")));
    assert_eq!(ignored["message"], "CredentialsRequest is not for platform AWS");
    assert_eq!(condition(&status, "CredentialsProvisionFailure")["status"], "False");

    let fields = json!({"stsIAMRoleARN": "arn:aws:iam::1:role/r"});
    let mut world = World::new(settings("Manual", "https://issuer", "AWS"), request("AWSProviderSpec", fields));
    world.object["metadata"]["finalizers"] = json!(["other"]);
    assert_eq!(world.plan(None, NOW), Plan::AddFinalizer);
    world.object["metadata"]["finalizers"] = json!(["other", FINALIZER]);
    world.has_namespace = false;
    let status = world.settle(NOW);
    let missing = condition(&status, "MissingTargetNamespace");
    assert_eq!(
        (&missing["status"], &missing["reason"], &missing["message"]),
        (&json!("True"), &json!("NamespaceMissing"), &json!("target namespace caches not found"))
    );
    world.has_namespace = true;
    assert_eq!(condition(&world.settle(NOW), "MissingTargetNamespace")["reason"], "NamespaceExists");
}

/// COP-CRED-01: a deletion takes the Secret that was written for the request, and no other.
#[test]
fn deletion() {
    let fields = json!({"stsIAMRoleARN": "arn:aws:iam::1:role/r"});
    let mut world = World::new(settings("Manual", "https://issuer", "AWS"), request("AWSProviderSpec", fields));
    world.settle(NOW);
    world.secret.as_mut().unwrap()["metadata"]["uid"] = json!("u");
    world.object["metadata"]["deletionTimestamp"] = json!(NOW);
    let Plan::Remove { secret: Some((place, uid)), .. } = world.plan(None, NOW) else { panic!() };
    assert_eq!((place.to_string().contains("caches"), uid.as_str()), (true, "u"));
    world.secret.as_mut().unwrap()["metadata"]["annotations"] = json!({});
    assert!(matches!(world.plan(None, NOW), Plan::Remove { secret: None, .. }));
    world.object["metadata"]["finalizers"] = json!([]);
    assert_eq!(world.plan(None, NOW), Plan::Nothing);
}

/// OLM0-TOKEN-04: a Secret that was not written for the request is never overwritten.
#[test]
fn a_secret_of_others() {
    let fields = json!({"stsIAMRoleARN": "arn:aws:iam::1:role/r"});
    let mut world = World::new(settings("Manual", "https://issuer", "AWS"), request("AWSProviderSpec", fields));
    world.secret = Some(json!({"metadata": {"name": "creds", "namespace": "caches"}, "data": {}}));
    let Plan::Sync { secret: None, failure: Some(failure), .. } = world.plan(None, NOW) else { panic!() };
    assert_eq!(failure, "error processing secret: secrets \"creds\" already exists");
}

fn root(annotation: Option<&str>, version: &str) -> Value {
    let mut metadata = json!({"name": "aws-creds", "namespace": "kube-system", "resourceVersion": version});
    if let Some(mode) = annotation {
        metadata["annotations"] = json!({"cloudcredential.openshift.io/mode": mode});
    }
    // "id" and "key"
    json!({"metadata": metadata, "data": {"aws_access_key_id": "aWQ=", "aws_secret_access_key": "a2V5"}})
}

/// COP-CRED-02, COP-CRED-03: Passthrough copies the root credentials in the wanted form, and follows them.
#[test]
fn passthrough() {
    let mut world = World::new(settings("Passthrough", "", "AWS"), request("AWSProviderSpec", json!({})));
    let Plan::Sync { failure: Some(failure), .. } = world.plan(None, NOW) else { panic!() };
    assert!(failure.starts_with("unable to fetch root cloud cred secret"), "{failure}");
    world.root = Some(root(None, "1"));
    let status = world.settle(NOW);
    assert_eq!(status["lastSyncCloudCredsSecretResourceVersion"], "1");
    assert_eq!(world.text("credentials"), "[default]\naws_access_key_id = id\naws_secret_access_key = key");
    assert_eq!((world.text("aws_access_key_id"), world.text("aws_secret_access_key")), ("id".into(), "key".into()));
    let mut changed = root(None, "2");
    changed["data"]["aws_secret_access_key"] = json!("bmV3");
    world.root = Some(changed);
    world.settle(NOW);
    assert_eq!(world.text("aws_secret_access_key"), "new");
    world.root = Some(root(Some("insufficient"), "3"));
    let Plan::Sync { status, .. } = world.plan(None, NOW) else { panic!() };
    assert_eq!(condition(&status, "InsufficientCloudCreds")["reason"], "CloudCredsInsufficient");
    world.root = Some(json!({"metadata": {"resourceVersion": "4"}, "data": {}}));
    let Plan::Sync { failure: Some(failure), .. } = world.plan(None, NOW) else { panic!() };
    assert_eq!(failure, "secret kube-system/aws-creds: key aws_access_key_id is missing or empty");
}

/// COP-CRED-03: Mint makes credentials, rotates the key when the request or the root credentials change, keeps the identity, and removes it at the end
/// or when the mode becomes Passthrough.
#[test]
fn mint() {
    let mut world = World::new(settings("Mint", "", "AWS"), request("AWSProviderSpec", json!({"statementEntries": []})));
    world.root = Some(root(None, "1"));
    let status = world.settle(NOW);
    let identity = provider::identity_of(&status["providerStatus"]).unwrap().to_owned();
    assert!(identity.starts_with("prod-x1-cache-"), "{identity}");
    let first = world.text("aws_access_key_id");
    assert!(
        first.starts_with("AKIA")
            && world.text("credentials").contains(&first)
            && !status.to_string().contains(&world.text("aws_secret_access_key"))
    );
    assert!(matches!(world.plan(None, NOW), Plan::Sync { secret: None, again: Some(SYNC), .. }));

    world.object["metadata"]["generation"] = json!(3);
    let status = world.settle(NOW);
    assert_ne!(world.text("aws_access_key_id"), first);
    assert_eq!(provider::identity_of(&status["providerStatus"]), Some(identity.as_str()));
    // The root credentials may be taken away.
    world.root = None;
    assert_eq!(world.settle(NOW)["provisioned"], true);

    world.object["metadata"]["deletionTimestamp"] = json!(NOW);
    assert!(matches!(world.plan(None, NOW), Plan::Need(Need::Release(_))));
    let refused = Answer::Released(Err("throttled".into()));
    let Plan::Sync { status, failure: Some(_), .. } = world.plan(Some(&refused), NOW) else { panic!() };
    assert_eq!(condition(&status, "CredentialsDeprovisionFailure")["message"], "failed to deprovision resource: throttled");
    assert!(matches!(world.plan(Some(&Answer::Released(Ok(()))), NOW), Plan::Remove { secret: Some(_), .. }));

    world.object["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
    world.settings = settings("Passthrough", "", "AWS");
    world.root = Some(root(None, "9"));
    let refused = Answer::Released(Err("throttled".into()));
    let Plan::Sync { status, failure: None, .. } = world.plan(Some(&refused), NOW) else { panic!() };
    assert_eq!((&condition(&status, "OrphanedCloudResource")["status"], &status["provisioned"]), (&json!("True"), &json!(true)));
    assert_eq!(world.settle(NOW)["providerStatus"], json!({}));
    assert_eq!(world.text("aws_access_key_id"), "id");
}

proptest! {
    /// Random requests and Secrets: no Secret of another is written, nothing is written twice, and a status always has what its kind requires.
    #[test]
    fn plans_are_safe(
        fields in prop::collection::btree_map("stsIAMRoleARN|azureClientID|azureTenantID|azureRegion|azureSubscriptionID|serviceAccountEmail|audience", "[a-z/]{0,6}", 0..7),
        kind in prop::sample::select(vec!["AWSProviderSpec", "AzureProviderSpec", "GCPProviderSpec", "OpenStackProviderSpec", "Odd"]),
        platform in prop::sample::select(vec!["AWS", "Azure", "GCP", "None"]),
        mode in prop::sample::select(vec!["", "Manual", "Mint", "Passthrough"]),
        has_namespace in any::<bool>(), foreign in any::<bool>(), can_mint in any::<bool>(), with_root in any::<bool>(),
    ) {
        let mut world = World::new(settings(mode, "https://issuer", platform), request(kind, json!(fields)));
        (world.has_namespace, world.can_mint) = (has_namespace, can_mint);
        world.root = with_root.then(|| root(None, "1"));
        let own = json!({"metadata": {"annotations": {REQUEST_MARK: "other/request"}}, "data": {"k": "dg=="}});
        world.secret = foreign.then(|| own.clone());
        let first = world.settle(NOW);
        prop_assert!(first["provisioned"].is_boolean() && first["lastSyncGeneration"].is_i64());
        prop_assert_eq!(world.settle(NOW), first);
        if foreign {
            prop_assert_eq!(world.secret.unwrap(), own);
        }
    }

    /// OLM0-TOKEN-12: the form of an audience.
    #[test]
    fn audiences(project in "[0-9]{1,12}", pool in "[a-z][a-z0-9-]{0,10}", odd in "[a-z/:0-9]{0,60}") {
        let good = format!("//iam.googleapis.com/projects/{project}/locations/global/workloadIdentityPools/{pool}/providers/{pool}");
        prop_assert!(is_audience(&good));
        prop_assert!(!is_audience(&odd) || odd.starts_with("//iam.googleapis.com/projects/"));
    }
}
