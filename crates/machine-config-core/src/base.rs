//! The MachineConfigs that each pool begins with. They take the names of upstream's, whose content lies in an image that is not ours
//! (MACH-MC-07).

use serde_json::{Value, json};

use crate::generated::{File, Unit, machine_config};
use crate::kubelet::KUBELET_CONF;
use crate::policy::paths;

/// Path of the settings of containers' storage.
pub const STORAGE_CONF: &str = "/etc/containers/storage.conf";
/// Path of CRI-O's own settings.
const CRIO_CONF: &str = "/etc/crio/crio.conf.d/00-default";
/// Path of the settings of the journal.
const JOURNAL_CONF: &str = "/etc/systemd/journald.conf.d/00-mainstay.conf";
/// Path of the proxy that units use.
const PROXY_CONF: &str = "/etc/mco/proxy.env";

/// The facts of a cluster that the configuration of its nodes depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Address of the cluster's DNS.
    pub dns: String,
    /// Credentials of registries, as Docker's configuration.
    pub pull_secret: Option<String>,
    /// The proxy: variables and values.
    pub proxy: Vec<(&'static str, String)>,
    /// The certificates that the user trusts.
    pub trusted: Option<String>,
}

/// The kubelet's configuration that KubeletConfigs change.
pub fn kubelet(around: &Surroundings) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "x509": {"clientCAFile": paths::KUBELET_CA},
            "anonymous": {"enabled": false},
        },
        "cgroupDriver": "systemd",
        "clusterDNS": if around.dns.is_empty() { json!([]) } else { json!([around.dns]) },
        "clusterDomain": "cluster.local",
        "containerLogMaxSize": "50Mi",
        "maxPods": 250,
        "podPidsLimit": 4096,
        "protectKernelDefaults": true,
        "rotateCertificates": true,
        "serializeImagePulls": false,
        "serverTLSBootstrap": true,
        "staticPodPath": "/etc/kubernetes/manifests",
        "systemCgroups": "/system.slice",
    })
}

/// The settings of containers' storage that ContainerRuntimeConfigs change.
pub fn storage() -> &'static str {
    "[storage]\ndriver = \"overlay\"\nrunroot = \"/run/containers/storage\"\ngraphroot = \"/var/lib/containers/storage\"\n\n[storage.options]\n\
     additionalimagestores = []\n\n[storage.options.overlay]\nmountopt = \"nodev,metacopy=on\"\n"
}

/// The policy about signatures that Image configuration changes.
pub fn signature_policy() -> &'static str {
    "{\"default\":[{\"type\":\"insecureAcceptAnything\"}],\"transports\":{\"docker-daemon\":{\"\":[{\"type\":\"insecureAcceptAnything\"}]}}}\n"
}

/// The registries that mirror rules change.
pub fn registries() -> &'static str {
    "unqualified-search-registries = ['docker.io']\n"
}

/// Returns the MachineConfigs of a pool, made by this version of the controller.
pub fn configs(pool: &str, around: &Surroundings, version: &str) -> Vec<Value> {
    let mut first = vec![File::new(JOURNAL_CONF, "[Journal]\nRateLimitInterval=1s\nRateLimitBurst=10000\n")];
    if let Some(secret) = &around.pull_secret {
        first.push(File { mode: 0o600, ..File::new(paths::KUBELET_AUTH, secret) });
    }
    if !around.proxy.is_empty() {
        let lines: String = around.proxy.iter().map(|(name, value)| [*name, "=", value, "\n"].concat()).collect();
        first.push(File::new(PROXY_CONF, lines));
    }
    if let Some(trusted) = &around.trusted {
        first.push(File::new(paths::USER_CA, trusted));
    }
    let runtime = [
        File::new(STORAGE_CONF, storage()),
        File::new(paths::POLICY, signature_policy()),
        File::new(paths::REGISTRIES, registries()),
        File::new(CRIO_CONF, "[crio.runtime]\ndefault_runtime = \"crun\"\npids_limit = 0\n"),
    ];
    let kubelet_conf = [File::new(KUBELET_CONF, mainstay_yaml::to_string(&kubelet(around)))];
    let unit = Unit {
        name: "kubelet.service".to_owned(),
        text: format!(
            "[Unit]\nDescription=Kubernetes Kubelet\nRequires=crio.service\nAfter=crio.service\n\n[Service]\nType=notify\n\
             ExecStart=/usr/bin/kubelet --config={KUBELET_CONF} --node-labels=node-role.kubernetes.io/{pool}\nRestart=always\nRestartSec=10\n\n\
             [Install]\nWantedBy=multi-user.target\n"
        ),
    };
    vec![
        machine_config(&format!("00-{pool}"), pool, &first, &[], version),
        machine_config(&format!("01-{pool}-container-runtime"), pool, &runtime, &[], version),
        machine_config(&format!("01-{pool}-kubelet"), pool, &kubelet_conf, &[unit], version),
        machine_config(&format!("99-{pool}-ssh"), pool, &[], &[], version),
    ]
}

/// Returns a pool that each cluster has; only the fields that the operator decides.
pub fn pool(name: &str) -> Value {
    let mut labels = json!({
        "machineconfiguration.openshift.io/mco-built-in": "",
        (format!("pools.operator.machineconfiguration.openshift.io/{name}")): "",
    });
    if name == crate::pool::MASTER {
        labels["operator.machineconfiguration.openshift.io/required-for-upgrade"] = json!("");
    }
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "machineConfigSelector": {"matchLabels": {crate::machine_config::ROLE: name}},
            "nodeSelector": {"matchLabels": {(format!("node-role.kubernetes.io/{name}")): ""}},
        },
    })
}
