//! catalogd and operator-controller, as two programs or as one.

use serde_json::{Value, json};

use super::{CommandLine, Frame, GRACE, METRICS, Mount, Program, catalog_webhook, labelled, port, service};
use crate::deployment::Serving;
use crate::manifests::{
    Accounts, CATALOGD, COMBINED, OPERATOR_CONTROLLER, any_account, make_namespaces, manifests_for, own_namespace, read_pull_secrets,
    token_access,
};

/// The Service of catalogd.
pub const CATALOGD_SERVICE: &str = "catalogd-service";
/// The Service of operator-controller's metrics.
pub const OPERATOR_CONTROLLER_SERVICE: &str = "operator-controller-service";
/// The Service of catalogd's metrics.
pub const CATALOGD_METRICS: &str = "catalogd-metrics";
/// The name of the Role and the RoleBinding that permit reading the global pull secret. Both are in the secret's namespace.
pub const PULL_SECRET_ROLE: &str = "mainstay-global-pull-secret";

const TRUSTED: &str = "/var/ca-certs";
const WEBHOOK_CERTIFICATES: &str = "/var/webhook-certs";
const CACHE: &str = "/var/cache";
const CATALOGS: u16 = 8443;
const CATALOGD_METRICS_PORT: u16 = 7443;

/// The settings of the deployment of both controllers.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a choice of the deployment")]
pub struct OlmV1 {
    /// True if both controllers are one program with one account.
    pub combined: bool,
    /// `NAMESPACE` and `NAME` of a Secret with credentials for every pull.
    pub pull_secret: Option<(String, String)>,
    /// The pull secrets of single catalogs, in the controllers' namespace, that catalogd may read.
    pub catalog_pull_secrets: Vec<String>,
    /// The value of `--feature-gates`.
    pub feature_gates: String,
    /// True if operator-controller installs with its own account, which becomes cluster-admin (OLM1-API-07).
    pub own_service_account: bool,
    /// True if operator-controller may act as every account of the cluster.
    pub any_service_account: bool,
    /// True if operator-controller may create the namespaces of extensions that ask for it.
    pub create_namespaces: bool,
    /// The existing extensions, with the namespace and name of their account. operator-controller may act as these accounts.
    pub extensions: Vec<(String, (String, String))>,
}

impl OlmV1 {
    /// The name of the object with the authorities that signed the serving certificates.
    pub const AUTHORITIES: &str = "olmv1-ca";

    /// Returns the certificates that both controllers need.
    pub fn serving(&self) -> Vec<Serving> {
        self.programs("").into_iter().flat_map(|program| program.serving).collect()
    }

    /// Returns everything but the CRDs, in the order in which it is applied. The webhook comes last, since no pod could serve it before.
    pub fn objects(&self, frame: &Frame) -> Vec<Value> {
        let namespace = &frame.namespace;
        let programs = self.programs(namespace);
        let mut before = manifests_for(namespace, self.accounts());
        before.extend(own_namespace(namespace, self.accounts()));
        before.extend(self.permissions(namespace));
        let services = vec![
            // Without a selector: it leads to the leader, which writes its endpoints itself.
            service(namespace, CATALOGD_SERVICE, None, &json!([port("https", 443, CATALOGS)])),
            catalog_webhook::leads_to(namespace, programs[0].name),
        ];
        let mut objects = frame.around(before, services, &programs);
        objects.push(catalog_webhook::configuration(frame));
        labelled(objects)
    }

    /// Returns the name of operator-controller's account.
    pub fn controller(&self) -> &'static str {
        self.accounts().operator_controller
    }

    fn accounts(&self) -> Accounts {
        if self.combined { Accounts::COMBINED } else { Accounts::SEPARATE }
    }

    /// Returns the programs, catalogd first.
    fn programs(&self, namespace: &str) -> Vec<Program> {
        let (mut catalogd, operator_controller) = (self.catalogd(namespace), self.operator_controller(namespace));
        if !self.combined {
            return vec![catalogd, operator_controller];
        }
        // It listens on catalogd's ports. operator-controller by itself listens only for metrics, and those are the same.
        let more = operator_controller.arguments.into_iter().filter(|argument| !catalogd.arguments.contains(argument)).collect::<Vec<_>>();
        catalogd.arguments.extend(more);
        catalogd.mounts.extend(operator_controller.mounts.into_iter().filter(|mount| matches!(mount, Mount::Authorities { .. })));
        vec![Program { name: COMBINED, account: COMBINED, component: "olm-v1", ..catalogd }]
    }

    fn catalogd(&self, namespace: &str) -> Program {
        let webhook = catalog_webhook::serving();
        let mut arguments = vec![
            format!("--external-address={CATALOGD_SERVICE}.{namespace}.svc"),
            format!("--catalogs-server-addr=:{CATALOGS}"),
            format!("--webhook-server-port={}", catalog_webhook::PORT),
            format!("--webhook-tls-cert={WEBHOOK_CERTIFICATES}/tls.crt"),
            format!("--webhook-tls-key={WEBHOOK_CERTIFICATES}/tls.key"),
        ];
        arguments.extend(self.shared());
        Program {
            name: CATALOGD,
            account: CATALOGD,
            component: "catalogd",
            system_namespace: namespace.to_owned(),
            command: CommandLine::Shared,
            arguments,
            grace: GRACE,
            mounts: vec![
                Mount::Folder { name: "cache", path: CACHE },
                Mount::Certificate { secret: webhook.secret, path: WEBHOOK_CERTIFICATES },
            ],
            serving: vec![Serving { secret: "catalogd-service-cert", services: vec![CATALOGD_SERVICE, CATALOGD_METRICS] }, webhook],
            metrics: (CATALOGD_METRICS, CATALOGD_METRICS_PORT),
            ports: vec![("https", CATALOGS), ("webhook", catalog_webhook::PORT)],
        }
    }

    fn operator_controller(&self, namespace: &str) -> Program {
        let mut arguments = vec![format!("--catalogd-cas-dir={TRUSTED}")];
        if self.own_service_account {
            arguments.push("--use-own-service-account".to_owned());
        }
        arguments.extend(self.shared());
        Program {
            name: OPERATOR_CONTROLLER,
            account: OPERATOR_CONTROLLER,
            component: "operator-controller",
            system_namespace: namespace.to_owned(),
            command: CommandLine::Shared,
            arguments,
            grace: GRACE,
            mounts: vec![Mount::Folder { name: "cache", path: CACHE }, Mount::Authorities { path: TRUSTED }],
            serving: vec![Serving { secret: "operator-controller-cert", services: vec![OPERATOR_CONTROLLER_SERVICE] }],
            metrics: (OPERATOR_CONTROLLER_SERVICE, METRICS),
            ports: Vec::new(),
        }
    }

    /// Returns the flags that both controllers share.
    fn shared(&self) -> Vec<String> {
        let mut arguments = vec![format!("--cache-path={CACHE}")];
        if let Some((namespace, name)) = &self.pull_secret {
            arguments.push(format!("--global-pull-secret={namespace}/{name}"));
        }
        if !self.feature_gates.is_empty() {
            arguments.push(format!("--feature-gates={}", self.feature_gates));
        }
        arguments
    }

    /// Returns the permissions beyond those that both controllers always have.
    fn permissions(&self, home: &str) -> Vec<Value> {
        let mut objects = Vec::new();
        if let Some((namespace, name)) = &self.pull_secret {
            let (role, subjects) = (PULL_SECRET_ROLE, self.accounts().subjects(home));
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
        if self.any_service_account {
            objects.extend(any_account(home, self.accounts()));
        } else {
            let controller = (home, self.accounts().operator_controller);
            let access =
                |(extension, (namespace, name)): &(String, (String, String))| token_access(extension, (namespace, name), controller);
            objects.extend(self.extensions.iter().flat_map(access));
        }
        if !self.catalog_pull_secrets.is_empty() {
            objects.extend(read_pull_secrets(home, self.accounts(), &self.catalog_pull_secrets));
        }
        if self.create_namespaces {
            objects.extend(make_namespaces(home, self.accounts()));
        }
        if self.own_service_account {
            objects.push(json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": "operator-controller-cluster-admin"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"kind": "ServiceAccount", "name": self.accounts().operator_controller, "namespace": home}],
            }));
        }
        objects
    }
}
