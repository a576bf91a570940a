//! The components that can be deployed: those of `mainstay run`, each in a namespace of its own.

use mainstay_cluster_operators::storage_migration;
use mainstay_olm_v1::cluster_operator;
use mainstay_olm_v1::deployment::{
    Certificates, ClusterOperator, CommandLine, Frame, GRACE, METRICS, OlmV1, Program, Serving, labelled, lease_permissions,
};
use mainstay_olm_v1::manifests::metrics_access;
use serde_json::Value;

use super::classic::{self, OlmClassic};
use super::cluster_version;

const SERVICE_CA_METRICS: &str = "service-ca-metrics";
const CLOUD_CREDENTIAL_METRICS: &str = "cloud-credential-metrics";
const STORAGE_MIGRATOR_METRICS: &str = "storage-migrator-metrics";
const MACHINE_API_METRICS: &str = "machine-api-metrics";
const MACHINE_CONFIG_METRICS: &str = "machine-config-metrics";

/// A part that is deployed and removed by itself. Components are deployed in this order, and removed in the opposite one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// Serving certificates for Services: other components may need one.
    ServiceCa,
    /// Catalogs and extensions.
    OlmV1,
    /// The additions of OpenShift.
    ClusterOlmOperator,
    /// OLM classic.
    OlmClassic,
    /// Secrets for CredentialsRequests.
    CloudCredential,
    /// Objects that are stored in an old version.
    StorageMigrator,
    /// Machines, their sets and health checks.
    MachineApi,
    /// The configuration of nodes.
    MachineConfig,
    /// The release of the platform.
    ClusterVersion,
}

/// The settings of the flags for all components.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// The namespace of both controllers of OLM v1.
    pub system_namespace: String,
    /// The deployment of these controllers.
    pub olm_v1: OlmV1,
    /// The deployment of OLM classic.
    pub classic: OlmClassic,
    /// True if the process of the Machine API also scales sets.
    pub autoscaler: bool,
}

impl Component {
    /// All components.
    pub const ALL: [Self; 9] = [
        Self::ServiceCa,
        Self::OlmV1,
        Self::ClusterOlmOperator,
        Self::OlmClassic,
        Self::CloudCredential,
        Self::StorageMigrator,
        Self::MachineApi,
        Self::MachineConfig,
        Self::ClusterVersion,
    ];
    /// The components that `all` deploys: an operator that may do everything is asked for by its name.
    pub const USUAL: [Self; 3] = [Self::ServiceCa, Self::OlmV1, Self::ClusterOlmOperator];

    /// The name that `mainstay run` uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::ServiceCa => "service-ca",
            Self::OlmV1 => "olm-v1",
            Self::ClusterOlmOperator => "cluster-olm-operator",
            Self::OlmClassic => "olm-classic",
            Self::CloudCredential => "cloud-credential",
            Self::StorageMigrator => "storage-migrator",
            Self::MachineApi => "machine-api",
            Self::MachineConfig => "machine-config",
            Self::ClusterVersion => "cluster-version",
        }
    }

    /// The namespace of its pods.
    pub fn namespace(self, shape: &Shape) -> &str {
        match self {
            Self::ServiceCa => mainstay_service_ca::NAMESPACE,
            Self::OlmV1 => &shape.system_namespace,
            Self::ClusterOlmOperator => cluster_operator::NAMESPACE,
            Self::OlmClassic => classic::NAMESPACE,
            Self::CloudCredential => mainstay_cloud_credential::NAMESPACE,
            Self::StorageMigrator => storage_migration::NAMESPACE,
            Self::MachineApi => mainstay_machine_api::NAMESPACE,
            Self::MachineConfig => mainstay_machine_config::NAMESPACE,
            Self::ClusterVersion => mainstay_cluster_version::NAMESPACE,
        }
    }

    /// The object with the authorities that signed its serving certificates.
    pub fn authorities(self) -> &'static str {
        match self {
            Self::ServiceCa => "service-ca-metrics-ca",
            Self::OlmV1 => OlmV1::AUTHORITIES,
            Self::ClusterOlmOperator => ClusterOperator::AUTHORITIES,
            Self::OlmClassic => classic::AUTHORITIES,
            Self::CloudCredential => "cloud-credential-metrics-ca",
            Self::StorageMigrator => "storage-migrator-metrics-ca",
            Self::MachineApi => "machine-api-metrics-ca",
            Self::MachineConfig => "machine-config-metrics-ca",
            Self::ClusterVersion => cluster_version::AUTHORITIES,
        }
    }

    /// The certificates that it needs.
    pub fn serving(self, shape: &Shape) -> Vec<Serving> {
        match self {
            Self::ServiceCa => service_ca().serving,
            Self::OlmV1 => shape.olm_v1.serving(),
            Self::ClusterOlmOperator => cluster_operator_of(shape).serving(),
            Self::OlmClassic => OlmClassic::serving(),
            Self::CloudCredential => cloud_credential().serving,
            Self::StorageMigrator => storage_migrator().serving,
            Self::MachineApi => machine_api(shape).serving,
            Self::MachineConfig => machine_config().serving,
            Self::ClusterVersion => cluster_version::serving(),
        }
    }

    /// All objects except CRDs, in the order in which they are applied.
    pub fn objects(self, shape: &Shape, frame: &Frame) -> Vec<Value> {
        match self {
            Self::ServiceCa => {
                let mut before = mainstay_service_ca::manifests();
                let home = mainstay_service_ca::NAMESPACE;
                before.extend(lease_permissions(home, mainstay_service_ca::LEASE, (home, mainstay_service_ca::ACCOUNT)));
                before.extend(metrics_access(self.name(), mainstay_service_ca::ACCOUNT, &frame.namespace));
                labelled(frame.around(before, Vec::new(), &[service_ca()]))
            }
            Self::OlmV1 => shape.olm_v1.objects(frame),
            Self::ClusterOlmOperator => cluster_operator_of(shape).objects(frame),
            Self::OlmClassic => shape.classic.objects(frame),
            Self::CloudCredential => {
                let mut before = mainstay_cloud_credential::manifests();
                let (home, account) = (mainstay_cloud_credential::NAMESPACE, mainstay_cloud_credential::ACCOUNT);
                before.extend(lease_permissions(home, mainstay_cloud_credential::LEASE, (home, account)));
                before.extend(metrics_access(self.name(), account, &frame.namespace));
                let mut objects = frame.around(before, Vec::new(), &[cloud_credential()]);
                if frame.service_monitor {
                    objects.push(mainstay_cloud_credential::alerts::rule());
                }
                labelled(objects)
            }
            Self::StorageMigrator => {
                let mut before = storage_migration::manifests();
                let (home, account) = (storage_migration::NAMESPACE, storage_migration::ACCOUNT);
                before.extend(lease_permissions(home, storage_migration::LEASE, (home, account)));
                before.extend(metrics_access(self.name(), account, &frame.namespace));
                labelled(frame.around(before, Vec::new(), &[storage_migrator()]))
            }
            Self::MachineApi => {
                let mut before = mainstay_machine_api::manifests();
                let (home, account) = (mainstay_machine_api::NAMESPACE, mainstay_machine_api::ACCOUNT);
                before.extend(lease_permissions(home, mainstay_machine_api::LEASE, (home, account)));
                if shape.autoscaler {
                    before.extend(mainstay_autoscaler::permissions(account));
                    before.extend(lease_permissions(home, mainstay_autoscaler::LEASE, (home, account)));
                }
                before.extend(metrics_access(self.name(), account, &frame.namespace));
                labelled(frame.around(before, Vec::new(), &[machine_api(shape)]))
            }
            Self::MachineConfig => {
                let mut before = mainstay_machine_config::manifests();
                let (home, account) = (mainstay_machine_config::NAMESPACE, mainstay_machine_config::ACCOUNT);
                before.extend(lease_permissions(home, mainstay_machine_config::LEASE, (home, account)));
                before.extend(metrics_access(self.name(), account, &frame.namespace));
                labelled(frame.around(before, Vec::new(), &[machine_config()]))
            }
            Self::ClusterVersion => cluster_version::objects(frame),
        }
    }

    /// All objects that it may consist of, except those that lie beside the global pull secret.
    pub fn everything(self, system_namespace: &str) -> Vec<Value> {
        let mut all: Vec<Value> = Vec::new();
        for combined in [true, false] {
            let olm_v1 = OlmV1 {
                combined,
                own_service_account: true,
                any_service_account: true,
                create_namespaces: true,
                catalog_pull_secrets: vec![String::new()],
                ..OlmV1::default()
            };
            let shape = Shape { system_namespace: system_namespace.to_owned(), olm_v1, autoscaler: true, ..Shape::default() };
            let pairs = self.serving(&shape).into_iter().map(|serving| (serving.secret, Default::default())).collect();
            for certificates in [Certificates::Provided { authorities: String::new(), pairs }, Certificates::CertManager] {
                let frame = Frame {
                    namespace: self.namespace(&shape).to_owned(),
                    image: String::new(),
                    replicas: 0,
                    certificates,
                    authorities: self.authorities(),
                    service_monitor: true,
                };
                all.extend(self.objects(&shape, &frame));
            }
        }
        all
    }
}

fn cluster_operator_of(shape: &Shape) -> ClusterOperator {
    ClusterOperator { system_namespace: shape.system_namespace.clone() }
}

fn cloud_credential() -> Program {
    let (home, account) = (mainstay_cloud_credential::NAMESPACE, mainstay_cloud_credential::ACCOUNT);
    plain(Component::CloudCredential, home, account, "cloud-credential-metrics-cert", CLOUD_CREDENTIAL_METRICS)
}

fn service_ca() -> Program {
    let (home, account) = (mainstay_service_ca::NAMESPACE, mainstay_service_ca::ACCOUNT);
    plain(Component::ServiceCa, home, account, "service-ca-metrics-cert", SERVICE_CA_METRICS)
}

fn storage_migrator() -> Program {
    let (home, account) = (storage_migration::NAMESPACE, storage_migration::ACCOUNT);
    plain(Component::StorageMigrator, home, account, "storage-migrator-metrics-cert", STORAGE_MIGRATOR_METRICS)
}

fn machine_api(shape: &Shape) -> Program {
    let (home, account) = (mainstay_machine_api::NAMESPACE, mainstay_machine_api::ACCOUNT);
    let program = plain(Component::MachineApi, home, account, "machine-api-metrics-cert", MACHINE_API_METRICS);
    Program { component: if shape.autoscaler { "machine-api,autoscaler" } else { program.component }, ..program }
}

fn machine_config() -> Program {
    let (home, account) = (mainstay_machine_config::NAMESPACE, mainstay_machine_config::ACCOUNT);
    plain(Component::MachineConfig, home, account, "machine-config-metrics-cert", MACHINE_CONFIG_METRICS)
}

/// A program that serves nothing but its metrics.
fn plain(component: Component, home: &str, account: &'static str, certificate: &'static str, metrics: &'static str) -> Program {
    Program {
        name: account,
        account,
        component: component.name(),
        system_namespace: home.to_owned(),
        command: CommandLine::Shared,
        arguments: Vec::new(),
        grace: GRACE,
        serving: vec![Serving { secret: certificate, services: vec![metrics] }],
        metrics: (metrics, METRICS),
        ports: Vec::new(),
        mounts: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployed(component: Component) -> Vec<Value> {
        let shape = Shape { system_namespace: "olm".into(), ..Shape::default() };
        let frame = Frame {
            namespace: component.namespace(&shape).to_owned(),
            image: "registry.example/mainstay:1".into(),
            replicas: 2,
            certificates: Certificates::CertManager,
            authorities: component.authorities(),
            service_monitor: true,
        };
        component.objects(&shape, &frame)
    }

    /// MS-CLI-04, COP-SCA-05: each part runs twice, elects a leader, is probed, and lets in nobody but to what it serves.
    #[test]
    fn every_part_is_deployed_alike() {
        for component in Component::ALL {
            let objects = deployed(component);
            assert!(objects.iter().all(|object| object["metadata"]["labels"].is_object()));
            let of = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).collect::<Vec<_>>();
            for deployment in of("Deployment") {
                assert_eq!(deployment["spec"]["replicas"], 2);
                let container = &deployment["spec"]["template"]["spec"]["containers"][0];
                let arguments = container["args"].to_string();
                // The Cluster Version Operator always elects a leader.
                let (elects, serves) = match component {
                    Component::ClusterVersion => ("cluster-version", "--listen=0.0.0.0:9099"),
                    _ => ("--leader-elect", "--metrics-bind-address=:"),
                };
                assert!(arguments.contains(elects) && arguments.contains(serves), "{arguments}");
                assert!(container["livenessProbe"].is_object() && container["readinessProbe"].is_object());
                let named = |kind: &str| of(kind).iter().any(|object| object["metadata"]["name"] == deployment["metadata"]["name"]);
                assert!(named("NetworkPolicy") && named("PodDisruptionBudget"));
            }
            for kind in ["Namespace", "ServiceAccount", "Deployment", "Service", "ServiceMonitor", "Certificate"] {
                assert!(!of(kind).is_empty(), "{kind} of {}", component.name());
            }
            assert!(of("NetworkPolicy").iter().any(|policy| policy["spec"]["podSelector"] == json!({})));
        }
    }

    /// MS-CLI-04: nobody has a right to everything, and of named Leases each has its own.
    #[test]
    fn every_part_has_its_own_permissions() {
        for (component, lease) in [
            (Component::ServiceCa, "service-ca-controller-lock"),
            (Component::OlmV1, "catalogd-operator-lock"),
            (Component::ClusterOlmOperator, "cluster-olm-operator-lock"),
            (Component::CloudCredential, "cloud-credential-operator-leader"),
            (Component::StorageMigrator, "storage-version-migrator-lock"),
            (Component::MachineApi, "cluster-api-provider-machineset-leader"),
            (Component::MachineConfig, "machine-config-controller"),
        ] {
            let objects = deployed(component);
            let rules: Vec<&Value> = objects.iter().flat_map(|object| object["rules"].as_array().into_iter().flatten()).collect();
            // A migration is of any kind: it reads and updates, and makes nothing.
            let every = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "update"]});
            // The kinds of an infrastructure of Cluster API are its own; their group is one, in one namespace.
            let infrastructure =
                json!({"apiGroups": ["infrastructure.cluster.x-k8s.io"], "resources": ["*"], "verbs": ["get", "create", "delete"]});
            let unlimited: Vec<_> = rules.iter().filter(|rule| rule.to_string().contains("\"*\"")).collect();
            let is_known = |rule: &Value| match component {
                Component::StorageMigrator => *rule == every,
                Component::MachineApi => *rule == infrastructure,
                _ => false,
            };
            assert!(unlimited.iter().all(|rule| is_known(rule)), "{unlimited:?}");
            let named: Vec<_> =
                rules.iter().filter(|rule| rule["resources"] == json!(["leases"]) && rule["verbs"] != json!(["create"])).collect();
            assert!(!named.is_empty() && named.iter().all(|rule| rule["resourceNames"].is_array()), "{named:?}");
            assert!(named.iter().any(|rule| rule["resourceNames"] == json!([lease])), "{named:?}");
        }
    }

    /// COP-04: on request the process of the Machine API is the autoscaler, too, with the permissions and the Lease of both.
    #[test]
    fn with_the_autoscaler() {
        let frame = Frame {
            namespace: mainstay_machine_api::NAMESPACE.to_owned(),
            image: "registry.example/mainstay:1".into(),
            replicas: 2,
            certificates: Certificates::CertManager,
            authorities: Component::MachineApi.authorities(),
            service_monitor: false,
        };
        let objects = Component::MachineApi.objects(&Shape { autoscaler: true, ..Shape::default() }, &frame);
        let deployment = objects.iter().find(|object| object["kind"] == "Deployment").cloned().unwrap_or_default();
        assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["args"][1], "machine-api,autoscaler");
        let text = json!(objects).to_string();
        assert!(text.contains("cluster-autoscaler-operator-leader") && text.contains("clusterautoscalers.autoscaling.openshift.io"));
        let alone = json!(deployed(Component::MachineApi)).to_string();
        assert!(!alone.contains("clusterautoscaler"), "it is asked for");
    }

    /// COP-CRED-07: the alerts go where Prometheus is.
    #[test]
    fn alerts_of_credentials() {
        let rules = deployed(Component::CloudCredential).into_iter().find(|object| object["kind"] == "PrometheusRule").unwrap_or_default();
        assert_eq!(rules["metadata"]["namespace"], "openshift-cloud-credential-operator");
        assert_eq!(rules["spec"]["groups"][0]["rules"].as_array().map(Vec::len), Some(5));
    }

    /// MS-CLI-04: whatever a deployment consists of is found again.
    #[test]
    fn everything_is_known() {
        for component in Component::ALL {
            let everything = component.everything("olm");
            for object in deployed(component) {
                let place =
                    |object: &Value| (object["kind"].clone(), object["metadata"]["namespace"].clone(), object["metadata"]["name"].clone());
                assert!(everything.iter().any(|known| place(known) == place(&object)), "{:?}", place(&object));
            }
        }
    }
}
