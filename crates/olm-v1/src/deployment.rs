//! The objects that run both controllers on a cluster (MS-CLI-04): what [`crate::manifests`] has, and Deployments, Services, policies.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::manifests::{Accounts, CATALOGD, COMBINED, OPERATOR_CONTROLLER, manifests_for, own_namespace};

/// The label by which everything is found again.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "mainstay-deploy");
/// The Service of catalogd.
pub const CATALOGD_SERVICE: &str = "catalogd-service";
/// The Service of operator-controller's metrics.
pub const OPERATOR_CONTROLLER_SERVICE: &str = "operator-controller-service";
/// The Service of catalogd's metrics.
pub const CATALOGD_METRICS: &str = "catalogd-metrics";
/// The Role, and its binding, that let the global pull secret be read; both are in the secret's namespace.
pub const PULL_SECRET_ROLE: &str = "mainstay-global-pull-secret";
/// The ConfigMap with the authorities that signed the serving certificates.
pub const AUTHORITIES: &str = "olmv1-ca";

const CERTIFICATES: &str = "/var/certs";
const TRUSTED: &str = "/var/ca-certs";
const CACHE: &str = "/var/cache";
const CATALOGS: u16 = 8443;
const CATALOGD_METRICS_PORT: u16 = 7443;
const OPERATOR_CONTROLLER_METRICS_PORT: u16 = 8443;
const HEALTH: u16 = 8081;
/// Accounts of nobody in particular; what runs as them has no rights on a node.
const USER: u32 = 65_532;

/// Who makes the serving certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificates {
    /// These, by `deploy`.
    Given {
        /// The authorities to trust, the newest first, as PEM.
        authorities: String,
        /// catalogd's certificate and key.
        catalogd: (String, String),
        /// operator-controller's certificate and key.
        operator_controller: (String, String),
    },
    /// The service CA of the cluster (OpenShift's, or this program's).
    ServiceCa,
}

/// How it is deployed.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// Where.
    pub namespace: String,
    /// The program's image.
    pub image: String,
    /// Whether both controllers are one program with one account.
    pub combined: bool,
    /// How many of each.
    pub replicas: u32,
    /// Who makes certificates.
    pub certificates: Certificates,
    /// Whether Prometheus is told by ServiceMonitors.
    pub service_monitor: bool,
    /// `NAMESPACE` and `NAME` of a Secret with credentials for every pull.
    pub pull_secret: Option<(String, String)>,
    /// The value of `--feature-gates`.
    pub feature_gates: String,
    /// Whether operator-controller installs as itself, for which it becomes cluster-admin (OLM1-API-07).
    pub own_service_account: bool,
}

/// One of the programs.
struct Program<'a> {
    name: &'a str,
    account: &'a str,
    component: &'a str,
    certificate: &'a str,
    metrics: u16,
    arguments: Vec<String>,
    ports: Vec<(&'a str, u16)>,
}

impl Deployment {
    /// Everything but the CRDs, in the order in which it is applied.
    pub fn objects(&self) -> Vec<Value> {
        let namespace = &self.namespace;
        let mut objects = manifests_for(namespace, self.accounts());
        for object in &mut objects {
            if object["kind"] == "Namespace" {
                // The pods keep to it, so the server may insist.
                object["metadata"]["labels"] = json!({"pod-security.kubernetes.io/enforce": "restricted"});
            }
        }
        objects.extend(own_namespace(namespace, self.accounts()));
        objects.extend(self.rights());
        objects.extend(self.secrets());
        objects.extend(self.services());
        objects.extend(self.network_policies());
        for program in self.programs() {
            objects.push(json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": program.name, "namespace": namespace},
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector(program.name)}},
            }));
            objects.push(self.workload(&program));
        }
        if self.service_monitor {
            objects.extend(self.service_monitors());
        }
        for object in &mut objects {
            object["metadata"]["labels"][MANAGED_BY.0] = MANAGED_BY.1.into();
        }
        objects
    }

    fn accounts(&self) -> Accounts {
        if self.combined { Accounts::COMBINED } else { Accounts::SEPARATE }
    }

    fn programs(&self) -> Vec<Program<'static>> {
        let (mut catalogd, operator_controller) = (self.catalogd(), self.operator_controller());
        if !self.combined {
            return vec![catalogd, operator_controller];
        }
        // It listens where catalogd does; operator-controller alone listens for metrics, which are the same ones.
        catalogd.arguments.extend(operator_controller.arguments);
        vec![Program { name: COMBINED, account: COMBINED, component: "olm-v1", ..catalogd }]
    }

    fn catalogd(&self) -> Program<'static> {
        Program {
            name: CATALOGD,
            account: CATALOGD,
            component: "catalogd",
            certificate: "catalogd-service-cert",
            metrics: CATALOGD_METRICS_PORT,
            arguments: vec![
                format!("--external-address={CATALOGD_SERVICE}.{}.svc", self.namespace),
                format!("--catalogs-server-addr=:{CATALOGS}"),
            ],
            ports: vec![("https", CATALOGS)],
        }
    }

    fn operator_controller(&self) -> Program<'static> {
        let mut arguments = vec![format!("--catalogd-cas-dir={TRUSTED}")];
        if self.own_service_account {
            arguments.push("--use-own-service-account".to_owned());
        }
        Program {
            name: OPERATOR_CONTROLLER,
            account: OPERATOR_CONTROLLER,
            component: "operator-controller",
            certificate: "operator-controller-cert",
            metrics: OPERATOR_CONTROLLER_METRICS_PORT,
            arguments,
            ports: Vec::new(),
        }
    }

    /// Rights beyond those that both controllers always have.
    fn rights(&self) -> Vec<Value> {
        let mut objects = Vec::new();
        if let Some((namespace, name)) = &self.pull_secret {
            let (role, subjects) = (PULL_SECRET_ROLE, self.accounts().subjects(&self.namespace));
            objects.push(json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": role, "namespace": namespace},
                "rules": [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [name], "verbs": ["get", "list", "watch"]}],
            }));
            objects.push(json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": role, "namespace": namespace},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
                "subjects": subjects,
            }));
        }
        if self.own_service_account {
            objects.push(json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": "operator-controller-cluster-admin"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"kind": "ServiceAccount", "name": self.accounts().operator_controller, "namespace": self.namespace}],
            }));
        }
        objects
    }

    fn secrets(&self) -> Vec<Value> {
        let namespace = &self.namespace;
        match &self.certificates {
            Certificates::Given { authorities, catalogd, operator_controller } => {
                let secret = |name: &str, (certificate, key): &(String, String)| {
                    json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
                        "metadata": {"name": name, "namespace": namespace}, "data": {"tls.crt": STANDARD.encode(certificate), "tls.key": STANDARD.encode(key)}})
                };
                let mut all = vec![
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": AUTHORITIES, "namespace": namespace},
                        "data": {"ca.crt": authorities}}),
                    secret("catalogd-service-cert", catalogd),
                ];
                if !self.combined {
                    all.push(secret("operator-controller-cert", operator_controller));
                }
                all
            }
            Certificates::ServiceCa => vec![json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": AUTHORITIES, "namespace": namespace, "annotations": {"service.beta.openshift.io/inject-cabundle": "true"}},
            })],
        }
    }

    fn services(&self) -> Vec<Value> {
        let service = |name: &str, selected: Option<&str>, ports: Value, certificate: Option<&str>| {
            let mut service = json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": self.namespace},
                "spec": {"type": "ClusterIP", "ports": ports},
            });
            if let Some(selected) = selected {
                service["spec"]["selector"] = selector(selected);
            }
            if let (Certificates::ServiceCa, Some(certificate)) = (&self.certificates, certificate) {
                service["metadata"]["annotations"] = json!({"service.beta.openshift.io/serving-cert-secret-name": certificate});
            }
            service
        };
        let port = |name: &str, port: u16, target: u16| json!({"name": name, "port": port, "targetPort": target, "protocol": "TCP"});
        let mut all = vec![
            // Without a selector: it leads to the leader, which says so itself.
            service(CATALOGD_SERVICE, None, json!([port("https", 443, CATALOGS)]), Some("catalogd-service-cert")),
            service(CATALOGD_METRICS, Some(self.programs()[0].name), json!([port("metrics", 7443, CATALOGD_METRICS_PORT)]), None),
        ];
        if !self.combined {
            let ports = json!([port("metrics", 8443, OPERATOR_CONTROLLER_METRICS_PORT)]);
            all.push(service(OPERATOR_CONTROLLER_SERVICE, Some(OPERATOR_CONTROLLER), ports, Some("operator-controller-cert")));
        }
        all
    }

    /// Nothing comes in but to the ports that are served; the way out is open, because registries may be anywhere.
    fn network_policies(&self) -> Vec<Value> {
        let policy = |name: &str, pods: Value, ports: &[u16]| {
            let ports: Vec<Value> = ports.iter().map(|port| json!({"port": port, "protocol": "TCP"})).collect();
            json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name, "namespace": self.namespace},
                "spec": {"podSelector": {"matchLabels": pods}, "policyTypes": ["Ingress", "Egress"], "ingress": [{"ports": ports}], "egress": [{}]},
            })
        };
        let nothing = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": "default-deny-all-traffic", "namespace": self.namespace},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
        });
        let of = |program: Program<'_>| {
            let ports: Vec<u16> = program.ports.iter().map(|(_, port)| *port).chain([program.metrics]).collect();
            policy(program.name, selector(program.name), &ports)
        };
        std::iter::once(nothing).chain(self.programs().into_iter().map(of)).collect()
    }

    fn workload(&self, program: &Program<'_>) -> Value {
        let mut arguments = vec![
            "run".to_owned(),
            program.component.to_owned(),
            "--leader-elect".to_owned(),
            format!("--system-namespace={}", self.namespace),
            format!("--cache-path={CACHE}"),
            format!("--health-probe-bind-address=:{HEALTH}"),
            format!("--metrics-bind-address=:{}", program.metrics),
            format!("--tls-cert={CERTIFICATES}/tls.crt"),
            format!("--tls-key={CERTIFICATES}/tls.key"),
            "--log-format=json".to_owned(),
        ];
        arguments.extend(program.arguments.iter().cloned());
        if let Some((namespace, name)) = &self.pull_secret {
            arguments.push(format!("--global-pull-secret={namespace}/{name}"));
        }
        if !self.feature_gates.is_empty() {
            arguments.push(format!("--feature-gates={}", self.feature_gates));
        }
        let probe = |path: &str| json!({"httpGet": {"path": path, "port": HEALTH}});
        let mut liveness = probe("/healthz");
        liveness["initialDelaySeconds"] = 15.into();
        liveness["periodSeconds"] = 20.into();
        let mut readiness = probe("/readyz");
        readiness["initialDelaySeconds"] = 5.into();
        readiness["periodSeconds"] = 10.into();
        let mut ports: Vec<Value> = program.ports.iter().map(|(name, port)| json!({"name": name, "containerPort": port})).collect();
        ports.push(json!({"name": "metrics", "containerPort": program.metrics}));
        ports.push(json!({"name": "health", "containerPort": HEALTH}));
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": program.name, "namespace": self.namespace},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": selector(program.name)},
                "template": {
                    "metadata": {"labels": selector(program.name), "annotations": {"kubectl.kubernetes.io/default-container": "manager"}},
                    "spec": {
                        "serviceAccountName": program.account,
                        "terminationGracePeriodSeconds": 30,
                        "securityContext": {"runAsNonRoot": true, "runAsUser": USER, "fsGroup": USER, "seccompProfile": {"type": "RuntimeDefault"}},
                        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": {
                            "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": selector(program.name)},
                        }}]}},
                        "containers": [{
                            "name": "manager", "image": self.image, "args": arguments, "ports": ports,
                            "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                            "livenessProbe": liveness, "readinessProbe": readiness,
                            "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
                            "terminationMessagePolicy": "FallbackToLogsOnError",
                            "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}},
                            "volumeMounts": [
                                {"name": "cache", "mountPath": CACHE}, {"name": "tmp", "mountPath": "/tmp"},
                                {"name": "certificates", "mountPath": CERTIFICATES, "readOnly": true},
                                {"name": "authorities", "mountPath": TRUSTED, "readOnly": true},
                            ],
                        }],
                        "volumes": [
                            {"name": "cache", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}},
                            {"name": "certificates", "secret": {"secretName": program.certificate}},
                            {"name": "authorities", "configMap": {"name": AUTHORITIES}},
                        ],
                    },
                },
            },
        })
    }

    fn service_monitors(&self) -> Vec<Value> {
        let namespace = &self.namespace;
        // The service that a certificate is for is the one with the catalogs, also where another one leads to the metrics.
        [(CATALOGD_METRICS, CATALOGD_SERVICE), (OPERATOR_CONTROLLER_SERVICE, OPERATOR_CONTROLLER_SERVICE)]
            .into_iter()
            .take(self.programs().len())
            .map(|(service, named)| {
                let authority = match self.certificates {
                    Certificates::Given { .. } => "ca.crt",
                    Certificates::ServiceCa => "service-ca.crt",
                };
                json!({
                    "apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": {"name": service, "namespace": namespace},
                    "spec": {
                        "namespaceSelector": {"matchNames": [namespace]},
                        "selector": {"matchLabels": {MANAGED_BY.0: MANAGED_BY.1}},
                        "endpoints": [{
                            "port": "metrics", "path": "/metrics", "scheme": "https", "interval": "30s",
                            "relabelings": [{"action": "keep", "sourceLabels": ["__meta_kubernetes_service_name"], "regex": service}],
                            "tlsConfig": {"serverName": format!("{named}.{namespace}.svc"), "ca": {"configMap": {"name": AUTHORITIES, "key": authority}}},
                        }],
                    },
                })
            })
            .collect()
    }
}

fn selector(name: &str) -> Value {
    json!({"app.kubernetes.io/name": name})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Deployment {
        let pair = || ("certificate".to_owned(), "key".to_owned());
        Deployment {
            namespace: "olm".into(),
            image: "registry.example/mainstay:1".into(),
            combined: false,
            replicas: 2,
            certificates: Certificates::Given { authorities: "ca".into(), catalogd: pair(), operator_controller: pair() },
            service_monitor: false,
            pull_secret: None,
            feature_gates: String::new(),
            own_service_account: false,
        }
    }

    fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
        objects.iter().filter(|object| object["kind"] == kind).collect()
    }

    /// MS-CLI-04, OLM1-GEN-01: two replicas of each controller with probes, Leases, limits and a restricted security context.
    #[test]
    fn two_deployments_of_two() {
        let objects = deployment().objects();
        let deployments = of_kind(&objects, "Deployment");
        assert_eq!(deployments.len(), 2);
        for deployment in deployments {
            assert_eq!(deployment["spec"]["replicas"], 2);
            let pod = &deployment["spec"]["template"]["spec"];
            let container = &pod["containers"][0];
            assert_eq!(
                (&pod["securityContext"]["runAsNonRoot"], &container["securityContext"]["readOnlyRootFilesystem"]),
                (&json!(true), &json!(true))
            );
            assert_eq!(container["securityContext"]["capabilities"], json!({"drop": ["ALL"]}));
            assert_eq!(
                (&container["livenessProbe"]["httpGet"]["path"], &container["readinessProbe"]["httpGet"]["path"]),
                (&json!("/healthz"), &json!("/readyz"))
            );
            assert!(container["args"].as_array().is_some_and(|all| all.contains(&json!("--leader-elect"))));
        }
        for kind in ["PodDisruptionBudget", "Service", "NetworkPolicy", "Namespace", "ServiceAccount"] {
            assert!(!of_kind(&objects, kind).is_empty(), "{kind}");
        }
        assert!(of_kind(&objects, "ServiceMonitor").is_empty());
        assert!(objects.iter().all(|object| object["metadata"]["labels"][MANAGED_BY.0] == MANAGED_BY.1));
    }

    /// MS-CLI-04, OLM1-GEN-01, OLM1-GEN-11: combined, there is one Deployment with one account, which has the roles of both and nothing else;
    /// every Service, policy and monitor is about its pods.
    #[test]
    fn one_deployment_with_one_account() {
        let both =
            Deployment { combined: true, service_monitor: true, pull_secret: Some(("config".into(), "pull".into())), ..deployment() };
        let objects = both.objects();
        let programs = of_kind(&objects, "Deployment");
        assert_eq!((programs.len(), &programs[0]["metadata"]["name"]), (1, &json!("mainstay-olm-v1")));
        let pod = &programs[0]["spec"]["template"]["spec"];
        assert_eq!((&programs[0]["spec"]["replicas"], &pod["serviceAccountName"]), (&json!(2), &json!("mainstay-olm-v1")));
        let arguments = pod["containers"][0]["args"].to_string();
        for argument in ["\"run\",\"olm-v1\"", "--catalogd-cas-dir=/var/ca-certs", "--external-address=catalogd-service.olm.svc"] {
            assert!(arguments.contains(argument), "{argument} is missing: {arguments}");
        }
        assert_eq!(of_kind(&objects, "ServiceAccount").len(), 1);
        let account = json!([{"kind": "ServiceAccount", "name": "mainstay-olm-v1", "namespace": "olm"}]);
        let mut bound: Vec<&str> = Vec::new();
        for binding in of_kind(&objects, "ClusterRoleBinding").into_iter().chain(of_kind(&objects, "RoleBinding")) {
            assert_eq!(binding["subjects"], account);
            bound.extend(binding["roleRef"]["name"].as_str());
        }
        bound.sort_unstable();
        let wanted = [
            "catalogd-manager-role",
            "catalogd-own-namespace",
            "mainstay-global-pull-secret",
            "operator-controller-manager-role",
            "operator-controller-manager-role",
            "operator-controller-own-namespace",
        ];
        assert_eq!(bound, wanted);
        let services: Vec<_> = of_kind(&objects, "Service").into_iter().map(|object| &object["spec"]["selector"]).collect();
        assert_eq!(services, [&Value::Null, &selector("mainstay-olm-v1")]);
        assert_eq!((of_kind(&objects, "ServiceMonitor").len(), of_kind(&objects, "Secret").len()), (1, 1));
        let policy = of_kind(&objects, "NetworkPolicy").into_iter().find(|policy| policy["metadata"]["name"] == "mainstay-olm-v1");
        assert_eq!(policy.map(|policy| policy["spec"]["ingress"][0]["ports"].to_string().matches("port\"").count()), Some(2));
    }

    /// OLM1-GEN-11: beyond the row, nobody may touch an object by any name but Leases and slices that do not exist yet.
    #[test]
    fn own_objects_are_named() {
        let objects = deployment().objects();
        let own = of_kind(&objects, "Role")
            .into_iter()
            .filter(|role| role["metadata"]["name"].as_str().is_some_and(|name| name.ends_with("own-namespace")));
        let rules: Vec<&Value> = own.flat_map(|role| role["rules"].as_array().into_iter().flatten()).collect();
        assert!(rules.len() >= 5, "{rules:?}");
        for rule in rules {
            assert!(rule["resourceNames"].is_array() || rule["verbs"] == json!(["create"]), "{rule}");
        }
    }

    /// OLM1-GEN-11, OLM1-API-07: nobody is cluster-admin, unless the named account is to be ignored.
    #[test]
    fn cluster_admin_only_on_demand() {
        let admins = |objects: &[Value]| objects.iter().filter(|object| object["roleRef"]["name"] == "cluster-admin").count();
        assert_eq!(admins(&deployment().objects()), 0);
        let own = Deployment { own_service_account: true, ..deployment() }.objects();
        assert_eq!(admins(&own), 1);
        let wildcards = |objects: &[Value]| objects.iter().any(|object| object["rules"].to_string().contains("\"*\""));
        assert!(!wildcards(&deployment().objects()));
    }

    /// MS-CLI-04, OLM1-GEN-10: the service CA makes certificates by annotations; the pull secret can be read, and nothing beside it.
    #[test]
    fn choices() {
        let other = Deployment {
            certificates: Certificates::ServiceCa,
            service_monitor: true,
            pull_secret: Some(("config".into(), "pull".into())),
            ..deployment()
        };
        let objects = other.objects();
        assert!(of_kind(&objects, "Secret").is_empty());
        let annotated = of_kind(&objects, "Service").into_iter().filter(|service| service["metadata"]["annotations"].is_object()).count();
        assert_eq!((annotated, of_kind(&objects, "ServiceMonitor").len()), (2, 2));
        let role = of_kind(&objects, "Role").into_iter().find(|role| role["metadata"]["namespace"] == "config");
        assert_eq!(role.map(|role| role["rules"][0]["resourceNames"].clone()), Some(json!(["pull"])));
    }
}
