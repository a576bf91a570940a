//! The objects that run one component of this program in its own pods.

use serde_json::{Value, json};

use super::{Frame, Serving, port, selector, service};

/// The folder of the serving certificate: `tls.crt` and `tls.key`.
pub const CERTIFICATES: &str = "/var/certs";
/// The time that a pod usually has to stop, in seconds.
pub const GRACE: u32 = 30;
const HEALTH: u16 = 8081;
/// The user and group ID of the pods, unprivileged on a node.
const USER: u32 = 65_532;
/// The default port of metrics.
pub const METRICS: u16 = 8443;

/// An entry in a program's file system besides its certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mount {
    /// An empty writable folder.
    Folder {
        /// Its name.
        name: &'static str,
        /// The path.
        path: &'static str,
    },
    /// The authorities that signed the serving certificates.
    Authorities {
        /// The path.
        path: &'static str,
    },
    /// A further certificate.
    Certificate {
        /// Its Secret.
        secret: &'static str,
        /// The path.
        path: &'static str,
    },
}

/// The flags of a program, beside those that say what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandLine {
    /// Those that the components of `mainstay run` share.
    Shared,
    /// Its own, which have the address of metrics and the certificate among them.
    Own(Vec<String>),
}

/// One program: a Deployment that runs some components as one account.
#[derive(Clone, Debug)]
pub struct Program {
    /// The name of the Deployment and of what belongs to it.
    pub name: &'static str,
    /// Its account.
    pub account: &'static str,
    /// The component, as `mainstay run` names it.
    pub component: &'static str,
    /// The namespace of its Lease and of its other state.
    pub system_namespace: String,
    /// Its common flags.
    pub command: CommandLine,
    /// Further flags.
    pub arguments: Vec<String>,
    /// The time that its pod has to stop, in seconds.
    pub grace: u32,
    /// Its certificates; the first one is that of `--tls-cert`.
    pub serving: Vec<Serving>,
    /// The Service of its metrics, and their port.
    pub metrics: (&'static str, u16),
    /// Its other ports, by name.
    pub ports: Vec<(&'static str, u16)>,
    /// Its mounts.
    pub mounts: Vec<Mount>,
}

impl Program {
    pub(super) fn metrics_service(&self, namespace: &str) -> Value {
        let (name, metrics) = self.metrics;
        service(namespace, name, Some(self.name), &json!([port("metrics", metrics, metrics)]))
    }

    /// Returns the network policy. Ingress is limited to the served ports. Egress is open, because registries and the API may be anywhere.
    pub(super) fn network_policy(&self, frame: &Frame) -> Value {
        let ports = self.ports.iter().map(|(_, port)| *port).chain([self.metrics.1]);
        let ports: Vec<Value> = ports.map(|port| json!({"port": port, "protocol": "TCP"})).collect();
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": self.name, "namespace": frame.namespace},
            "spec": {
                "podSelector": {"matchLabels": selector(self.name)}, "policyTypes": ["Ingress", "Egress"],
                "ingress": [{"ports": ports}], "egress": [{}],
            },
        })
    }

    pub(super) fn disruption_budget(&self, frame: &Frame) -> Value {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": self.name, "namespace": frame.namespace},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector(self.name)}},
        })
    }

    pub(super) fn workload(&self, frame: &Frame) -> Value {
        let probe = |path: &str, delay: u32, period: u32| json!({"httpGet": {"path": path, "port": HEALTH}, "initialDelaySeconds": delay, "periodSeconds": period});
        let mut ports: Vec<Value> = self.ports.iter().map(|(name, port)| json!({"name": name, "containerPort": port})).collect();
        ports.push(json!({"name": "metrics", "containerPort": self.metrics.1}));
        ports.push(json!({"name": "health", "containerPort": HEALTH}));
        let (mounts, volumes) = self.mounts(frame);
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": self.name, "namespace": frame.namespace},
            "spec": {
                "replicas": frame.replicas,
                "selector": {"matchLabels": selector(self.name)},
                "template": {
                    "metadata": {"labels": selector(self.name), "annotations": {"kubectl.kubernetes.io/default-container": "manager"}},
                    "spec": {
                        "serviceAccountName": self.account,
                        "terminationGracePeriodSeconds": self.grace,
                        "securityContext": {"runAsNonRoot": true, "runAsUser": USER, "fsGroup": USER, "seccompProfile": {"type": "RuntimeDefault"}},
                        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": {
                            "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": selector(self.name)},
                        }}]}},
                        "containers": [{
                            "name": "manager", "image": frame.image, "args": self.command_line(), "ports": ports,
                            "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                            "livenessProbe": probe("/healthz", 15, 20), "readinessProbe": probe("/readyz", 5, 10),
                            "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
                            "terminationMessagePolicy": "FallbackToLogsOnError",
                            "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}},
                            "volumeMounts": mounts,
                        }],
                        "volumes": volumes,
                    },
                },
            },
        })
    }

    fn command_line(&self) -> Vec<String> {
        let (mut arguments, health) = (vec!["run".to_owned(), self.component.to_owned()], format!("--health-probe-bind-address=:{HEALTH}"));
        match &self.command {
            CommandLine::Shared => arguments.extend([
                "--leader-elect".to_owned(),
                format!("--system-namespace={}", self.system_namespace),
                health,
                format!("--metrics-bind-address=:{}", self.metrics.1),
                format!("--tls-cert={CERTIFICATES}/tls.crt"),
                format!("--tls-key={CERTIFICATES}/tls.key"),
            ]),
            CommandLine::Own(own) => {
                arguments.push(health);
                arguments.extend(own.iter().cloned());
            }
        }
        arguments.push("--log-format=json".to_owned());
        arguments.extend(self.arguments.iter().cloned());
        arguments
    }

    /// Returns the mounts of the container and the volumes of the pod.
    fn mounts(&self, frame: &Frame) -> (Vec<Value>, Vec<Value>) {
        let volume = |name: &str, mut source: Value| {
            source["name"] = name.into();
            source
        };
        let empty = |name: &str, path: &str| (json!({"name": name, "mountPath": path}), volume(name, json!({"emptyDir": {}})));
        let read =
            |name: &str, path: &str, source: Value| (json!({"name": name, "mountPath": path, "readOnly": true}), volume(name, source));
        let secret = |name: &str| json!({"secret": {"secretName": name}});
        let own = self.serving.first();
        let certificate = own.map(|serving| read("certificates", CERTIFICATES, secret(serving.secret)));
        let more = self.mounts.iter().filter_map(|mount| match mount {
            Mount::Folder { name, path } => Some(empty(name, path)),
            Mount::Authorities { path } => own.map(|serving| read("authorities", path, frame.certificates.volume(frame, serving))),
            Mount::Certificate { secret: name, path } => Some(read(name, path, secret(name))),
        });
        std::iter::once(empty("tmp", "/tmp")).chain(certificate).chain(more).unzip()
    }

    pub(super) fn service_monitor(&self, frame: &Frame) -> Value {
        let namespace = &frame.namespace;
        let mut tls = json!({});
        if let Some(serving) = self.serving.first() {
            // The certificate names the Service that requested it, even if another Service leads to the metrics.
            let named = serving.services.first().copied().unwrap_or(self.metrics.0);
            tls = json!({"serverName": format!("{named}.{namespace}.svc"), "ca": frame.certificates.monitored(frame, serving)});
        }
        json!({
            "apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": {"name": self.metrics.0, "namespace": namespace},
            "spec": {
                "namespaceSelector": {"matchNames": [namespace]},
                "selector": {"matchLabels": {super::MANAGED_BY.0: super::MANAGED_BY.1}},
                "endpoints": [{
                    "port": "metrics", "path": "/metrics", "scheme": "https", "interval": "30s",
                    "relabelings": [{"action": "keep", "sourceLabels": ["__meta_kubernetes_service_name"], "regex": self.metrics.0}],
                    "tlsConfig": tls,
                    // Metrics need permission to read them; Prometheus' account gets ClusterRole NAME-metrics-reader.
                    "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
                }],
            },
        })
    }
}
