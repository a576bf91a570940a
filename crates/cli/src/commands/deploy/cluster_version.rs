//! The Cluster Version Operator on a cluster: one Deployment, whose account is a cluster administrator.
//!
//! A release may hold objects of any kind, roles among them, and the operator creates all of them: no smaller permission is enough, and upstream's
//! operator has the same. Releases are pulled by the process itself, so that its pods need neither privileges nor a folder of their node.

use mainstay_apply::Writer;
use mainstay_cluster_version::{ACCOUNT, NAMESPACE};
use mainstay_cluster_version_core::rival::{DEPLOYMENT, rival};
use mainstay_olm_v1::deployment::{CERTIFICATES, CommandLine, Frame, Program, Serving, labelled};
use mainstay_olm_v1::manifests::metrics_access;
use mainstay_operations::not_written;
use mainstay_terminal::errors::{Exit, Failure};
use serde_json::{Value, json};

use super::place;
use super::remove::not_served;

/// The object with the authorities that signed its serving certificate.
pub const AUTHORITIES: &str = "cluster-version-metrics-ca";
/// The Deployment; upstream's name belongs to releases.
const NAME: &str = "mainstay-cluster-version";
const COMPONENT: &str = "cluster-version";
const METRICS_SERVICE: &str = "cluster-version-metrics";
const CERTIFICATE: &str = "cluster-version-metrics-cert";
/// The port of metrics, as upstream has it.
const METRICS: u16 = 9099;
/// The time of a stop, and a moment more (CVO-RUN-04).
const GRACE: u32 = 130;

/// The certificates that it needs.
pub fn serving() -> Vec<Serving> {
    vec![Serving { secret: CERTIFICATE, services: vec![METRICS_SERVICE] }]
}

/// All objects in the order in which they are applied; the operator makes the kinds that it works on itself.
pub fn objects(frame: &Frame) -> Vec<Value> {
    let group = "rbac.authorization.k8s.io";
    let mut before = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": NAME, "annotations": {
                "kubernetes.io/description": "The Cluster Version Operator creates every object of a release, whatever it is.",
            }},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
        }),
    ];
    before.extend(metrics_access(COMPONENT, ACCOUNT, NAMESPACE));
    labelled(frame.around(before, Vec::new(), &[program()]))
}

fn program() -> Program {
    let own = [
        format!("--listen=0.0.0.0:{METRICS}"),
        format!("--serving-cert-file={CERTIFICATES}/tls.crt"),
        format!("--serving-key-file={CERTIFICATES}/tls.key"),
    ];
    Program {
        name: NAME,
        account: ACCOUNT,
        component: COMPONENT,
        system_namespace: NAMESPACE.to_owned(),
        command: CommandLine::Own(own.to_vec()),
        arguments: Vec::new(),
        grace: GRACE,
        serving: serving(),
        metrics: (METRICS_SERVICE, METRICS),
        ports: Vec::new(),
        mounts: Vec::new(),
    }
}

/// Refuses where another operator works (CVO-RUN-07).
pub async fn check(writer: &Writer) -> Result<(), Failure> {
    let read = async |api_version: &str, kind: &str, name: &str, namespace: &str| match writer
        .get(&place(api_version, kind, name, namespace))
        .await
    {
        Err(error) if not_served(&error) => Ok(None),
        found => found.map_err(|error| Failure::from(not_written(&error))),
    };
    let deployment = read("apps/v1", "Deployment", DEPLOYMENT, NAMESPACE).await?;
    let cluster_version = read("config.openshift.io/v1", "ClusterVersion", "version", "").await?;
    match rival(deployment.as_ref(), cluster_version.as_ref()) {
        Some(rival) => Err(Failure::of(Exit::Impossible, format!("deployment {NAMESPACE}/{DEPLOYMENT}"), &rival)),
        None => Ok(()),
    }
}

/// The reason why the namespace stays: a ClusterVersion has its events there, and perhaps manifests of its release.
pub async fn holds(writer: &Writer) -> Result<Option<String>, Failure> {
    match writer.get(&place("config.openshift.io/v1", "ClusterVersion", "version", "")).await {
        Ok(found) => Ok(found.map(|_| "the events of clusterversion version".to_owned())),
        Err(error) if not_served(&error) => Ok(None),
        Err(error) => Err(not_written(&error).into()),
    }
}

#[cfg(test)]
mod tests {
    use mainstay_olm_v1::deployment::Certificates;

    use super::*;

    /// CVO-RUN-03, CVO-RUN-04, CVO-MET-01, MS-CLI-04: the operator is an administrator by one binding that says why, has its time to stop, serves
    /// metrics with a certificate, and its flags are those of `mainstay run cluster-version`.
    #[test]
    fn deployed() {
        let frame = Frame {
            namespace: NAMESPACE.to_owned(),
            image: "registry.example/mainstay:1".to_owned(),
            replicas: 2,
            certificates: Certificates::CertManager,
            authorities: AUTHORITIES,
            service_monitor: false,
        };
        let objects = objects(&frame);
        let of = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).collect::<Vec<_>>();
        let admins: Vec<_> = of("ClusterRoleBinding").into_iter().filter(|binding| binding["roleRef"]["name"] == "cluster-admin").collect();
        assert_eq!(admins.len(), 1);
        assert_eq!(admins[0]["subjects"], json!([{"kind": "ServiceAccount", "name": "cluster-version-operator", "namespace": NAMESPACE}]));
        assert!(admins[0]["metadata"]["annotations"]["kubernetes.io/description"].is_string());
        let pod = &of("Deployment")[0]["spec"]["template"]["spec"];
        assert_eq!((&pod["terminationGracePeriodSeconds"], &pod["hostNetwork"]), (&json!(130), &Value::Null));
        let words: Vec<&str> = pod["containers"][0]["args"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let read = <crate::args::Cli as clap::Parser>::try_parse_from(std::iter::once("mainstay").chain(words.iter().copied()));
        assert!(read.is_ok(), "{words:?}: {:?}", read.err());
        let ports = &of("Service")[0]["spec"]["ports"][0];
        assert_eq!((&ports["port"], &pod["containers"][0]["ports"][0]["containerPort"]), (&json!(9099), &json!(9099)));
    }
}
