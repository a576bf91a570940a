//! The objects that answers are made of, followed.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use mainstay_machine_config_core::NAMESPACE;
use mainstay_machine_config_core::config_server::Bootstrap;
use mainstay_runtime::{Cache, Key, Optional, Scope};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::manifests::{KUBECONFIG_DATA, TOKEN};
use crate::snapshot::{Common, Snapshot};

/// The time in which changes are gathered.
const GATHER: Duration = Duration::from_millis(50);
const GROUP: &str = "machineconfiguration.openshift.io";
const CONTROLLER_CONFIG: &str = "machine-config-controller";

/// The copies of the cluster.
pub(crate) struct Following {
    pools: Optional,
    configs: Optional,
    controllers: Optional,
    infrastructures: Optional,
    token: Cache,
    authority: Cache,
    api_url: Option<String>,
    changed: Arc<Notify>,
}

impl Following {
    pub(crate) fn start(client: &Client, api_url: Option<String>, stop: &CancellationToken) -> Self {
        let changed = Arc::new(Notify::new());
        let resource =
            |group: &str, kind: &str, plural: &str| ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural);
        let optional = |group: &str, kind: &str, plural: &str| {
            let wake = changed.clone();
            Optional::start(client, resource(group, kind, plural), stop, move || wake.notify_one())
        };
        let named = |kind: &str, plural: &str, name: &str| {
            let scope = Scope { namespace: Some(NAMESPACE.to_owned()), fields: Some(format!("metadata.name={name}")), ..Scope::default() };
            let cache = Cache::start(client, &resource("", kind, plural), &scope, stop);
            let wake = changed.clone();
            cache.on_change(move |_| wake.notify_one());
            cache
        };
        Self {
            pools: optional(GROUP, "MachineConfigPool", "machineconfigpools"),
            configs: optional(GROUP, "MachineConfig", "machineconfigs"),
            controllers: optional(GROUP, "ControllerConfig", "controllerconfigs"),
            infrastructures: optional("config.openshift.io", "Infrastructure", "infrastructures"),
            token: named("Secret", "secrets", TOKEN),
            authority: named("ConfigMap", "configmaps", KUBECONFIG_DATA),
            api_url,
            changed,
        }
    }

    /// Replaces the snapshot whenever something changes, until stopped.
    pub(crate) async fn run(self, snapshots: watch::Sender<Arc<Snapshot>>, stop: CancellationToken) {
        let following = async {
            tokio::join!(self.token.ready(), self.authority.ready());
            loop {
                let is_known = [&self.pools, &self.configs, &self.controllers, &self.infrastructures].iter().all(|kind| kind.is_known());
                if is_known {
                    let before = snapshots.borrow().clone();
                    snapshots.send_replace(Arc::new(self.snapshot(&before)));
                }
                self.changed.notified().await;
                tokio::time::sleep(GATHER).await;
            }
        };
        stop.run_until_cancelled(following).await;
    }

    fn snapshot(&self, before: &Snapshot) -> Snapshot {
        let controller = self.controllers.named(CONTROLLER_CONFIG).and_then(|controller| controller.data.get("spec").cloned());
        let common = Common { controller, bootstrap: self.bootstrap() };
        let pools = self.pools.objects().map(|pools| pools.all()).unwrap_or_default();
        Snapshot::new(before, common, &pools, |name| self.configs.named(name))
    }

    /// The way to the API; none while the token is not filled in.
    fn bootstrap(&self) -> Option<Bootstrap> {
        let secret = self.token.get(&Key::new(NAMESPACE, TOKEN))?;
        let token = String::from_utf8(decoded(&secret, "/data/token")?).ok()?;
        let published = self.authority.get(&Key::new(NAMESPACE, KUBECONFIG_DATA));
        let published = published.and_then(|map| decoded(&map, "/binaryData/ca-bundle.crt"));
        let authority = match published {
            Some(authority) => authority,
            None => decoded(&secret, "/data/ca.crt")?,
        };
        let internal = || {
            let infrastructure = self.infrastructures.named("cluster")?;
            infrastructure.data.pointer("/status/apiServerInternalURI")?.as_str().filter(|url| !url.is_empty()).map(str::to_owned)
        };
        Some(Bootstrap { server: self.api_url.clone().or_else(internal)?, authority, token })
    }
}

/// A value of a Secret or ConfigMap; none if it is absent, empty or no base64, which the API server does not let in.
fn decoded(object: &DynamicObject, pointer: &str) -> Option<Vec<u8>> {
    let text = object.data.pointer(pointer)?.as_str()?;
    STANDARD.decode(text).ok().filter(|bytes| !bytes.is_empty())
}
