//! What the API server of a given cluster calls on this machine, where it runs there, too: catalogd's webhook, served by a process beside the tests.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;

use crate::bundles::write;
use crate::cluster::Cluster;
use crate::given::GIVEN;
use crate::skip;

/// The variable that says that the API server of the given cluster runs on this machine.
const CALLS: &str = "MAINSTAY_E2E_CALLS_THIS_MACHINE";
/// The Service that a cluster calls the webhook by.
pub const WEBHOOK: &str = "catalogd-webhook";

/// Whether the API server of a given cluster can call what is served here.
pub(crate) fn are_possible() -> bool {
    std::env::var_os(CALLS).is_some()
}

/// Ends the test unless the API server can call what is served on this machine; to be written as [`crate::need_kubectl`].
pub fn need_calls() -> Option<()> {
    if std::env::var_os(GIVEN).is_none() || are_possible() {
        return Some(());
    }
    skip(&format!("the API server has to call a webhook on this machine, and {CALLS} is not set for the cluster of {GIVEN}"));
    None
}

/// Has a given API server call the webhook that was deployed into a namespace at a port: its Service becomes another name of this machine.
/// Deploying anew takes that back, and has to be forced to.
#[track_caller]
pub fn call_webhook_at(cluster: &Cluster, namespace: &str, port: u16) {
    let here =
        json!({"spec": {"type": "ExternalName", "externalName": "localhost", "clusterIP": null, "clusterIPs": null, "selector": null}});
    cluster.kubectl(&["patch", "service", "-n", namespace, WEBHOOK, "--type=merge", "-p", &here.to_string()]).ok();
    let at = json!([{"op": "replace", "path": "/webhooks/0/clientConfig/service/port", "value": port}]).to_string();
    let configuration = ["mutatingwebhookconfiguration", "catalogd-mutating-webhook-configuration"];
    cluster.kubectl(&[&["patch"], &configuration[..], &["--type=json", "-p", &at]].concat()).ok();
}

/// Writes the certificate of that webhook into a folder, as a pod finds it; the flags that name it.
#[track_caller]
pub fn mount_webhook_certificate(cluster: &Cluster, namespace: &str, folder: &Path) -> [String; 2] {
    let secret = ["secret", "-n", namespace, "catalogd-webhook-cert"];
    let secret = cluster.until("the certificate is there", &secret, |secret| secret["data"]["tls.crt"].is_string());
    for key in ["tls.crt", "tls.key"] {
        let pem = BASE64.decode(secret["data"][key].as_str().unwrap_or_default()).unwrap_or_default();
        write(&folder.join(key), &String::from_utf8_lossy(&pem));
    }
    [format!("--webhook-tls-cert={}", folder.join("tls.crt").display()), format!("--webhook-tls-key={}", folder.join("tls.key").display())]
}
