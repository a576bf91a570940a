//! The registration of the aggregated API: the Service that stands for the package server, and its APIService.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use kube::api::{ApiResource, GroupVersionKind};
use mainstay_apply::Writer;
use mainstay_objects::{Expect, Labels};
use mainstay_runtime::{Cache, Env, Kinds, Outcome, Queue, Scope};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::manifest::GROUP;
use crate::manifests::ACCOUNT;

/// The namespace of the Service.
pub const NAMESPACE: &str = "openshift-operator-lifecycle-manager";
/// The name of the Service.
pub const SERVICE: &str = "packageserver-service";
/// The port of the Service, and of the pods behind it on a real cluster.
pub const PORT: u16 = 5443;
/// The Lease of the package server, where several processes could serve.
pub const LEASE: &str = "packageserver-lock";
/// The interval at which the objects are looked at, beside their changes.
const LOOK: Duration = Duration::from_secs(600);

/// The content of the registration beside its names.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The CA that the APIService trusts, PEM; left to others if absent.
    pub ca: Option<String>,
    /// Selects the pods behind the Service; none in a cluster that reaches this process in another way.
    pub selector: Labels,
    /// The address to which a Service without a selector leads.
    pub endpoint: Option<SocketAddr>,
}

/// The Service without a selector, and the APIService that others make trust its certificate: what a deployment declares.
pub fn declared() -> [Value; 2] {
    let nothing = Registration { ca: None, selector: Labels::new(), endpoint: None };
    [service(&nothing), api_service(&nothing)]
}

/// The objects, in the order in which they are written.
fn objects(registration: &Registration) -> Vec<Value> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let endpoints = registration.endpoint.map(|endpoint| {
        // Endpoints rather than a slice: aggregators before Kubernetes 1.33 ask for them, and the cluster mirrors them into a slice.
        json!({
            "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": SERVICE, "namespace": NAMESPACE},
            "subsets": [{
                "addresses": [{"ip": endpoint.ip().to_string()}],
                "ports": [{"name": PORT.to_string(), "port": endpoint.port(), "protocol": "TCP"}],
            }],
        })
    });
    [Some(namespace), Some(service(registration)), endpoints, Some(api_service(registration))].into_iter().flatten().collect()
}

fn service(registration: &Registration) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        "spec": {"ports": [{"name": PORT.to_string(), "port": PORT, "protocol": "TCP", "targetPort": PORT}]},
    });
    if !registration.selector.is_empty() {
        service["spec"]["selector"] = json!(registration.selector);
    }
    service
}

fn api_service(registration: &Registration) -> Value {
    let version = "v1";
    let mut api_service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": format!("{version}.{GROUP}")},
        "spec": {
            "group": GROUP, "version": version, "groupPriorityMinimum": 2000, "versionPriority": 15,
            "service": {"name": SERVICE, "namespace": NAMESPACE, "port": PORT},
        },
    });
    if let Some(ca) = &registration.ca {
        api_service["spec"]["caBundle"] = json!(STANDARD.encode(ca));
    }
    api_service
}

/// Keeps the registration until `stop` is cancelled: an object that is changed or deleted is written again.
pub async fn keep(client: Client, env: Env, registration: Registration, stop: CancellationToken) {
    let queue: Queue<&'static str> = Queue::default();
    queue.add(GROUP);
    let watched = [
        (GroupVersionKind::gvk("apiregistration.k8s.io", "v1", "APIService"), "apiservices", format!("v1.{GROUP}"), None),
        (GroupVersionKind::gvk("", "v1", "Service"), "services", SERVICE.to_owned(), Some(NAMESPACE.to_owned())),
    ];
    let caches = watched.map(|(kind, plural, name, namespace)| {
        let scope = Scope { namespace, fields: Some(format!("metadata.name={name}")), ..Scope::default() };
        let cache = Cache::start(&client, &ApiResource::from_gvk_with_plural(&kind, plural), &scope, &stop);
        let woken = queue.clone();
        cache.on_change(move |_| woken.add(GROUP));
        cache
    });
    let writer = Writer::new(client.clone(), Kinds::new(client), ACCOUNT);
    mainstay_runtime::run("package-server", queue, 1, env, stop, move |_| {
        let (writer, objects) = (writer.clone(), objects(&registration));
        async move {
            for object in objects {
                writer.apply(&object, true, &Expect::default()).await?;
            }
            Ok::<_, crate::Error>(Outcome::After(LOOK))
        }
    })
    .await;
    drop(caches);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM0-API-27: the registration is that of upstream; what others keep is left out.
    #[test]
    fn what_is_registered() {
        let plain = Registration { ca: Some("pem".to_owned()), selector: Labels::new(), endpoint: None };
        let (service, api) = (service(&plain), api_service(&plain));
        assert_eq!((&service["spec"]["selector"], &api["spec"]["caBundle"]), (&Value::Null, &json!("cGVt")));
        assert_eq!(api["metadata"]["name"], "v1.packages.operators.coreos.com");
        assert_eq!(objects(&plain).len(), 3);
        let selector = Labels::from([("app".to_owned(), "packageserver".to_owned())]);
        let others = Registration { ca: None, selector, endpoint: None };
        let (service, api) = (super::service(&others), api_service(&others));
        assert_eq!((&service["spec"]["selector"]["app"], api["spec"].get("caBundle")), (&json!("packageserver"), None));
        assert_eq!(declared()[1], api, "a deployment leaves the authority to the process");
    }

    /// OLM0-API-27: where one process of several serves, the Service leads to it, by the port that the Service names.
    #[test]
    fn the_service_leads_to_one_process() {
        let endpoint = Some(SocketAddr::from(([10, 1, 2, 3], 6443)));
        let all = objects(&Registration { ca: None, selector: Labels::new(), endpoint });
        let kinds: Vec<&str> = all.iter().filter_map(|object| object["kind"].as_str()).collect();
        assert_eq!(kinds, ["Namespace", "Service", "Endpoints", "APIService"]);
        let (service, subset) = (&all[1]["spec"], &all[2]["subsets"][0]);
        assert_eq!(subset["addresses"], json!([{"ip": "10.1.2.3"}]));
        assert_eq!((&subset["ports"][0]["name"], &subset["ports"][0]["port"]), (&service["ports"][0]["name"], &json!(6443)));
    }
}
