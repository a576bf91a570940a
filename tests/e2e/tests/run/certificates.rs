//! Who makes the certificates of the controllers may change from one deployment to the next.

use std::fs::File;
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainstay_e2e::bundles::write;
use mainstay_e2e::{Cluster, Output, mainstay, need_kubectl};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use crate::run::world::{CATALOGD, OLM, Replica, kubeconfig};

const WEBHOOK: [&str; 2] = ["mutatingwebhookconfiguration", "catalogd-mutating-webhook-configuration"];
const SECRET: [&str; 4] = ["secret", "-n", OLM, "catalogd-webhook-cert"];
const DEPLOYMENT: [&str; 4] = ["deployment", "-n", OLM, CATALOGD.0];
const SERVICE_CA: &str = "openshift-service-ca";
/// The names of both authorities.
const SIGNERS: [&str; 2] = ["openshift-service-serving-signer", "mainstay-deploy"];

fn deploy(cluster: &Cluster, issuer: &str, flags: &[&str]) -> Output {
    let image = ["deploy", "--namespace", OLM, "--image", "example.com/mainstay:1", "--components", "olm-v1,service-ca"];
    cluster.mainstay(&[&image[..], &["--certificates", issuer], flags].concat())
}

/// The service CA with the account that it was deployed with.
fn service_ca(cluster: &Cluster) -> Replica {
    let token = cluster.kubectl(&["create", "token", "-n", SERVICE_CA, "service-ca"]).ok();
    let own: Value = mainstay_yaml::parse(&std::fs::read_to_string(cluster.kubeconfig()).unwrap()).unwrap();
    let server =
        json!({"server": cluster.server(), "certificate-authority-data": own["clusters"][0]["cluster"]["certificate-authority-data"]});
    let (config, log) = (cluster.folder().join("service-ca.kubeconfig"), cluster.folder().join("service-ca.log"));
    write(&config, &kubeconfig(&server, &json!({"token": token.trim()})));
    let mut command = cluster.command(mainstay());
    command.args(["run", "service-ca", "--health-probe-bind-address=0", "--kubeconfig"]).arg(&config);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
    Replica { child: command.spawn().unwrap(), log, health: 0, metrics: 0, external: String::new() }
}

fn bundle(webhook: &Value) -> &str {
    webhook["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap_or_default()
}

/// The place among the signers of who signed the certificate of a Secret.
fn signer(secret: &Value) -> Option<usize> {
    let pem = STANDARD.decode(secret["data"]["tls.crt"].as_str()?).unwrap();
    let certificate = CertificateDer::from_pem_slice(&pem).unwrap();
    SIGNERS.iter().position(|name| certificate.windows(name.len()).any(|part| part == name.as_bytes()))
}

/// The certificates become those of the service CA, and so do the authorities that are trusted.
fn made_by_service_ca(cluster: &Cluster, authorities: &str) {
    cluster.until("the bundle is put in", &WEBHOOK, |webhook| bundle(webhook) == authorities);
    cluster.until("the service CA signs", &SECRET, |secret| signer(secret) == Some(0));
    let alone = |trusted: &Value| trusted["data"]["ca.crt"].is_null() && trusted["data"]["service-ca.crt"].is_string();
    cluster.until("the service CA is trusted", &["configmap", "-n", OLM, "olmv1-ca"], alone);
}

/// The certificates are those of `deploy`, and the API server trusts them.
fn made_by_deploy(cluster: &Cluster) -> Value {
    let (webhook, secret) = (cluster.get(&WEBHOOK).unwrap(), cluster.get(&SECRET).unwrap());
    let trusted = cluster.get(&["configmap", "-n", OLM, "olmv1-ca"]).unwrap()["data"]["ca.crt"].as_str().unwrap_or_default().to_owned();
    assert_eq!(bundle(&webhook), STANDARD.encode(&trusted));
    assert_eq!(trusted.matches("BEGIN CERTIFICATE").count(), 2, "what was served before is trusted for one more time: {trusted}");
    assert_eq!(webhook["metadata"]["annotations"], Value::Null);
    assert_eq!(signer(&secret), Some(1), "{secret}");
    secret
}

/// MS-CLI-04, COP-SCA-01, COP-SCA-03: from the service CA's certificates to those of `deploy` and back without a flag, although the service CA wrote
/// the bundle and the Secrets; what somebody else wrote stays his until he is overruled. Settings that were handed on are taken back the same way.
#[test]
fn who_makes_the_certificates_changes() {
    let Some(()) = need_kubectl() else { return };
    let Some(cluster) = Cluster::without_olm() else { return };
    deploy(&cluster, "service-ca", &[]).ok();
    let _service_ca = service_ca(&cluster);
    let injected = cluster.until("the bundle is put in", &WEBHOOK, |webhook| !bundle(webhook).is_empty());
    made_by_service_ca(&cluster, bundle(&injected));

    deploy(&cluster, "deploy", &["--dry-run"]).ok();
    assert_eq!(bundle(&cluster.get(&WEBHOOK).unwrap()), bundle(&injected), "a dry run keeps nothing");
    deploy(&cluster, "deploy", &[]).ok();
    let secret = made_by_deploy(&cluster);
    // The service CA has looked since, and left the Secret alone.
    cluster.apply(
        &json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "asks", "namespace": OLM,
            "annotations": {"service.beta.openshift.io/serving-cert-secret-name": "asked"}}, "spec": {"ports": [{"port": 443}]}})
        .to_string(),
    );
    cluster.until("the service CA looks", &["secret", "-n", OLM, "asked"], |asked| signer(asked) == Some(0));
    assert_eq!(cluster.get(&SECRET).unwrap()["data"], secret["data"]);

    let other = json!([{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle(&injected)}]).to_string();
    cluster.kubectl(&["patch", WEBHOOK[0], WEBHOOK[1], "--type=json", "--field-manager=somebody", "-p", &other]).ok();
    let refused = deploy(&cluster, "deploy", &[]).refused();
    assert!(refused.contains("conflict with \"somebody\"") && refused.contains("--force-conflicts"), "{refused}");
    assert_eq!(bundle(&cluster.get(&WEBHOOK).unwrap()), bundle(&injected), "it stays his");
    deploy(&cluster, "deploy", &["--force-conflicts"]).ok();
    made_by_deploy(&cluster);

    deploy(&cluster, "service-ca", &[]).ok();
    made_by_service_ca(&cluster, bundle(&injected));
    deploy(&cluster, "deploy", &[]).ok();
    made_by_deploy(&cluster);

    let gates =
        json!([{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--feature-gates=APIV1MetasHandler=true"}]);
    let as_operator = ["--type=json", "--field-manager=cluster-olm-operator", "-p", &gates.to_string()];
    cluster.kubectl(&[&["patch"], &DEPLOYMENT[..], &as_operator].concat()).ok();
    deploy(&cluster, "deploy", &[]).ok();
    let container = &cluster.get(&DEPLOYMENT).unwrap()["spec"]["template"]["spec"]["containers"][0];
    assert!(!container["args"].to_string().contains("--feature-gates"), "{container}");
}
