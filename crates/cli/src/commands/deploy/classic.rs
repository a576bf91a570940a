//! OLM classic on a cluster: one Deployment with both operators, the package server and the marketplace.
//!
//! ```text
//!   fresh::steps ──┬── kept: namespaces, who reads CSVs ──────────┐
//!                  └── made once: settings and groups ──► settled │
//!   accounts of the operators, package server, marketplace ───────┼──► objects
//!   Program, Service and APIService of the package server ────────┘
//! ```

use std::collections::BTreeMap;

use kube::api::GroupVersionKind;
use mainstay_api::classic_manifests;
use mainstay_apply::{Effect, Writer};
use mainstay_objects::Step;
use mainstay_olm_classic::olm;
use mainstay_olm_classic_core::{alerts, fresh};
use mainstay_olm_v1::deployment::{CommandLine, Frame, GRACE, METRICS, Mount, Program, Serving, labelled};
use mainstay_olm_v1::manifests::metrics_access;
use mainstay_operations::not_written;
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::output;
use serde_json::Value;

use super::{ESTABLISHED, NamespaceState, PLATFORM, is_there, name, namespace_state, place, remove};

/// The namespace of the Deployment.
pub const NAMESPACE: &str = olm::NAMESPACE;
/// The object with the authorities that signed its serving certificate.
pub const AUTHORITIES: &str = "olm-classic-ca";
/// The Deployment.
const NAME: &str = "mainstay-olm-classic";
/// The component of `mainstay run`, and what its roles for readers are called after.
const COMPONENT: &str = "olm-classic";
const METRICS_SERVICE: &str = "olm-classic-metrics";
const CACHE: &str = "/var/cache";
/// The name of upstream's Deployment, and the namespaces in which it is.
const UPSTREAM: (&str, [&str; 2]) = ("olm-operator", [olm::NAMESPACE, "olm"]);

/// The settings of its deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OlmClassic {
    /// The platform's release, which the default catalogs follow; the default of `mainstay run` if absent.
    pub release: Option<String>,
    /// True if the cluster starts with the default catalogs.
    pub default_catalogs: bool,
    /// True if pods serve catalogs and Jobs unpack bundles (OLM0-CAT-34).
    pub by_pods: bool,
    /// Namespace and name of the Secret with credentials for every pull (OLM0-CAT-10).
    pub pull_secret: Option<(String, String)>,
}

impl OlmClassic {
    /// The certificates that it needs. The package server makes its own at each start, and tells the API server of it.
    pub fn serving() -> Vec<Serving> {
        vec![Serving { secret: "olm-classic-serving-cert", services: vec![METRICS_SERVICE] }]
    }

    /// All objects that are kept as they must be, except CRDs, in the order in which they are applied.
    pub fn objects(&self, frame: &Frame) -> Vec<Value> {
        let (homes, kept): (Vec<Value>, Vec<Value>) = self
            .steps()
            .into_iter()
            .filter_map(|step| match step {
                Step::Apply { object, .. } => Some(object),
                _ => None,
            })
            .partition(|object| object["kind"] == "Namespace");
        // The other namespaces are made for pods of others, which need not comply with what this program's pods do.
        let (own, others): (Vec<Value>, Vec<Value>) = homes.into_iter().partition(|home| home["metadata"]["name"] == NAMESPACE);
        let accounts = [olm::manifests(), mainstay_package_server::manifests(), mainstay_marketplace::manifests()];
        let mut before = own;
        before.extend(kept);
        before.extend(accounts.into_iter().flatten().filter(|object| object["kind"] != "Namespace"));
        before.extend(metrics_access(COMPONENT, olm::ACCOUNT, NAMESPACE));
        let [service, api_service] = mainstay_package_server::declared();
        let mut objects = others;
        objects.extend(frame.around(before, vec![service], &[self.program()]));
        objects.push(api_service);
        if frame.service_monitor {
            objects.extend(alerts::rules());
        }
        labelled(objects)
    }

    /// The objects that are made once, and belong to the administrator from then on.
    pub fn settings(&self) -> Vec<Value> {
        let once = |step| match step {
            Step::CreateOnce(object) => Some(object),
            _ => None,
        };
        self.steps().into_iter().filter_map(once).collect()
    }

    fn steps(&self) -> Vec<Step> {
        fresh::steps(!self.default_catalogs)
    }

    fn program(&self) -> Program {
        let mut arguments = vec![format!("--cache-path={CACHE}"), format!("--package-server-address=:{}", mainstay_package_server::PORT)];
        if self.by_pods {
            arguments.extend(["--catalog-serving=pods".to_owned(), "--set-workload-user-id=true".to_owned()]);
        }
        arguments.extend(self.pull_secret.iter().map(|(namespace, name)| format!("--global-pull-secret={namespace}/{name}")));
        arguments.extend(self.release.iter().map(|release| format!("--release-version={release}")));
        Program {
            name: NAME,
            account: olm::ACCOUNT,
            component: COMPONENT,
            system_namespace: NAMESPACE.to_owned(),
            command: CommandLine::Shared,
            arguments,
            grace: GRACE,
            serving: Self::serving(),
            metrics: (METRICS_SERVICE, METRICS),
            ports: vec![("packages", mainstay_package_server::PORT)],
            mounts: vec![Mount::Folder { name: "cache", path: CACHE }],
        }
    }
}

/// The CRDs. Kinds of the platform are among them: they are made where they are not there.
pub fn definitions() -> Result<Vec<Value>, Failure> {
    let all = classic_manifests().map_err(|error| Failure::failed("manifests", &error))?;
    Ok(all.into_iter().map(|manifest| manifest.definition).collect())
}

/// Refuses if another OLM is there: two would work against each other.
pub async fn check(writer: &Writer) -> Result<(), Failure> {
    let (name, homes) = UPSTREAM;
    for home in homes {
        let found = writer.get(&place("apps/v1", "Deployment", name, home)).await.map_err(|error| not_written(&error))?;
        if found.is_some() {
            return Err(Failure::new(Exit::Impossible, COMPONENT, "another OLM classic is on this cluster")
                .because(format!("there is deployment {name} in namespace {home}")));
        }
    }
    Ok(())
}

/// Writes the CRDs, and waits until they are served.
pub async fn define(writer: &Writer, force: bool) -> Result<(), Failure> {
    let mut written = Vec::new();
    for object in definitions()? {
        // A platform's own definition of its kind is left as it is.
        if object["spec"]["group"] == PLATFORM && is_there(writer, &object).await? {
            continue;
        }
        super::apply(writer, &object, force).await?;
        written.push(object);
    }
    if writer.is_dry() {
        return Ok(());
    }
    for object in &written {
        let place = mainstay_objects::ObjectRef::of(object).map_err(|error| Failure::failed("manifests", &error))?;
        writer.wait(&place, &mainstay_objects::Until::Healthy, ESTABLISHED).await.map_err(|error| not_written(&error))?;
    }
    Ok(())
}

/// Makes the settings that are not there; `unasked` counts, by namespace, those that a dry run could not send to the server.
pub async fn settle(writer: &Writer, settings: Vec<Value>, unasked: &mut BTreeMap<String, usize>) -> Result<(), Failure> {
    for object in settings {
        let said = name(&object);
        if let (true, Some(namespace)) = (writer.is_dry(), object["metadata"]["namespace"].as_str())
            && namespace_state(writer, namespace).await? != Some(NamespaceState::Stays)
        {
            output::print(&format!("{said} not checked by the server (dry run)\n"))?;
            *unasked.entry(namespace.to_owned()).or_default() += 1;
            continue;
        }
        let done = match writer.execute(&[Step::CreateOnce(object)], |_| {}).await {
            Ok(done) if done.iter().any(|done| done.effect == Effect::Created) => "created",
            Ok(_) => "left as it is",
            // A dry run makes no CRDs.
            Err(failed) if writer.is_dry() && remove::not_served(&failed.error) => "not checked by the server",
            Err(failed) => return Err(Failure::from(not_written(&failed.error)).because(said)),
        };
        output::print(&format!("{said} {done}{}\n", if writer.is_dry() { " (dry run)" } else { "" }))?;
    }
    Ok(())
}

/// The operators that OLM classic installed or is to install, by kind, namespace and name; copies do not count.
pub async fn installed(writer: &Writer) -> Result<Vec<String>, Failure> {
    let mut all = Vec::new();
    for (kind, word) in [("Subscription", "subscription"), ("ClusterServiceVersion", "csv")] {
        let gvk = GroupVersionKind::gvk("operators.coreos.com", "v1alpha1", kind);
        let objects = match writer.list(&gvk, usize::MAX).await {
            Ok(objects) => objects,
            // Without the kind there are none.
            Err(error) if remove::not_served(&error) => continue,
            Err(error) => return Err(not_written(&error).into()),
        };
        let own = objects.iter().filter(|object| object["metadata"]["labels"]["olm.copiedFrom"].is_null());
        all.extend(own.map(|object| {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            format!("{word} {}/{}", text("namespace"), text("name"))
        }));
    }
    Ok(all)
}

/// Removes the CRDs, which no operator needs any more; those of the platform stay.
pub async fn delete_definitions(writer: &Writer) -> Result<(), Failure> {
    for definition in definitions()?.into_iter().filter(|definition| definition["spec"]["group"] != PLATFORM) {
        let place = mainstay_objects::ObjectRef::of(&definition).map_err(|error| Failure::failed("manifests", &error))?;
        remove::delete(writer, &place, true).await?;
    }
    note("the CRD of OperatorHub stays: it is a kind of the platform");
    Ok(())
}

#[cfg(test)]
mod tests {
    use mainstay_olm_v1::deployment::Certificates;
    use serde_json::json;

    use super::*;

    fn objects(service_monitor: bool) -> Vec<Value> {
        let frame = Frame {
            namespace: NAMESPACE.to_owned(),
            image: "registry.example/mainstay:1".to_owned(),
            replicas: 2,
            certificates: Certificates::ServiceCa,
            authorities: AUTHORITIES,
            service_monitor,
        };
        OlmClassic { release: Some("4.20.1".to_owned()), ..OlmClassic::default() }.objects(&frame)
    }

    fn find<'o>(objects: &'o [Value], kind: &str, name: &str) -> &'o Value {
        let found = objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        found.unwrap_or(&Value::Null)
    }

    /// OLM0-API-33, OLM0-API-01, MS-CLI-04: one Deployment with everything; each namespace is made once, before what is in it, and only that of the
    /// program is restricted.
    #[test]
    fn one_deployment() {
        let objects = objects(false);
        let deployment = find(&objects, "Deployment", NAME);
        let arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
        for argument in ["\"olm-classic\"", "--leader-elect", "--package-server-address=:5443", "--release-version=4.20.1"] {
            assert!(arguments.contains(argument), "{argument} is not in {arguments}");
        }
        for (at, object) in objects.iter().enumerate() {
            let Some(home) = object["metadata"]["namespace"].as_str().filter(|home| *home != "kube-system") else { continue };
            let made = |object: &Value| object["kind"] == "Namespace" && object["metadata"]["name"] == *home;
            assert_eq!(objects[..at].iter().filter(|object| made(object)).count(), 1, "{home} before {}", object["metadata"]["name"]);
        }
        let restricted =
            |home: &str| !find(&objects, "Namespace", home)["metadata"]["labels"]["pod-security.kubernetes.io/enforce"].is_null();
        assert!(restricted(NAMESPACE) && !restricted(fresh::GLOBAL_OPERATORS) && !restricted(fresh::SHARED));
        let service = find(&objects, "Service", mainstay_package_server::SERVICE);
        assert!(service["spec"]["selector"].is_null() && service["spec"]["ports"][0]["port"] == 5443);
        assert!(find(&objects, "APIService", "v1.packages.operators.coreos.com").is_object());
        assert!(find(&objects, "PodDisruptionBudget", NAME).is_object());
        assert!(
            objects.iter().all(|object| object["kind"] != "OperatorGroup" && object["kind"] != "OperatorHub"),
            "settings are no part of it"
        );
    }

    /// OLM0-CAT-34: the process serves catalogs itself unless pods are asked for.
    #[test]
    fn ways_to_serve_catalogs() {
        let arguments = |classic: OlmClassic| classic.program().arguments.join(" ");
        assert!(!arguments(OlmClassic::default()).contains("--catalog-serving"));
        let secret = Some(("config".to_owned(), "pull".to_owned()));
        let by_pods = arguments(OlmClassic { by_pods: true, pull_secret: secret, ..OlmClassic::default() });
        assert!(by_pods.contains("--catalog-serving=pods --set-workload-user-id=true --global-pull-secret=config/pull"), "{by_pods}");
    }

    /// OLM0-API-33: settings are made once, and are not marked as this program's.
    #[test]
    fn settings_belong_to_the_administrator() {
        let settings = OlmClassic::default().settings();
        let kinds: Vec<&str> = settings.iter().filter_map(|object| object["kind"].as_str()).collect();
        assert_eq!(kinds, ["OperatorGroup", "OperatorGroup", "OLMConfig", "OperatorHub", "ClusterRole"]);
        assert!(settings.iter().all(|object| object["metadata"]["labels"].is_null()));
        assert_eq!(settings[3]["spec"]["disableAllDefaultSources"], true);
        assert_ne!(
            OlmClassic { default_catalogs: true, ..OlmClassic::default() }.settings()[3]["spec"]["disableAllDefaultSources"],
            json!(true)
        );
    }

    /// MS-CLI-04: only the operators may do everything; the package server and the marketplace have roles of their own.
    #[test]
    fn permissions() {
        let objects = objects(false);
        let mighty: Vec<&Value> = objects.iter().filter(|object| object["rules"].to_string().contains("\"*\"")).collect();
        assert_eq!(mighty.len(), 1, "{mighty:?}");
        let bound = objects.iter().filter(|object| object["roleRef"]["name"] == mighty[0]["metadata"]["name"]);
        let subjects: Vec<&Value> = bound.flat_map(|binding| binding["subjects"].as_array().into_iter().flatten()).collect();
        assert_eq!(subjects, [&json!({"kind": "ServiceAccount", "name": olm::ACCOUNT, "namespace": NAMESPACE})]);
    }

    /// OLM0-MET-04: the rules are there where Prometheus is.
    #[test]
    fn alerts_where_prometheus_is() {
        assert!(find(&objects(true), "PrometheusRule", "olm-alert-rules").is_object());
        assert!(find(&objects(false), "PrometheusRule", "olm-alert-rules").is_null());
    }
}
