//! The objects that each cluster has: the pools master and worker, the ControllerConfig, the MachineConfiguration with its policies, and the
//! MachineConfigs that pools begin with (MACH-MC-07).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainstay_machine_config_core::base::{Surroundings, configs, pool};
use mainstay_machine_config_core::generated::RELEASE_VERSION;
use mainstay_machine_config_core::policy::{Policies, merged};
use mainstay_machine_config_core::pool::{MASTER, WORKER};
use mainstay_objects::{Expect, ObjectRef};
use mainstay_runtime::{Key, Outcome};
use serde_json::{Value, json};

use crate::controller::Operator;
use crate::places::{CONTROLLER_CONFIG, ROOT_CA, V1, of_group};
use crate::release::{Release, VERSION};
use crate::{Error, NAMESPACE};

/// The annotation by which operator and controller of one version know each other.
const GENERATED_BY: &str = "machineconfiguration.openshift.io/generated-by-version";
/// Address of the cluster's DNS where nothing says it.
const DNS: &str = "10.96.0.10";

impl Operator {
    /// Keeps the objects, and reports in the status of the ControllerConfig that the MachineConfigs are made.
    pub(crate) async fn base(&self) -> Result<Outcome, Error> {
        let followed = [&self.pools, &self.configs, &self.controller_configs, &self.settings, &self.infrastructures, &self.proxies];
        let (known, served) = (followed.iter().all(|kind| kind.is_known()), self.pools.objects().is_some());
        if !known || !served || !self.maps.is_ready() || !self.nodes.is_ready() || !self.secrets.is_ready() {
            // The kinds that are served late wake this item.
            return Ok(Outcome::Done);
        }
        for name in [MASTER, WORKER] {
            self.writer.apply(&pool(name), true, &Expect::default()).await?;
        }
        self.policies().await?;
        let release = self.release()?;
        let Some((around, spec)) = self.surroundings(&release)? else {
            tracing::info!("waiting for ConfigMap {NAMESPACE}/{ROOT_CA}: nodes trust the API by it");
            return Ok(Outcome::Done);
        };
        let annotations = json!({GENERATED_BY: VERSION, RELEASE_VERSION: release.version});
        let wanted = json!({
            "apiVersion": V1, "kind": "ControllerConfig", "metadata": {"name": CONTROLLER_CONFIG, "annotations": annotations}, "spec": spec,
        });
        let Some(live) = self.keep_controller_config(&wanted).await? else { return Ok(Outcome::Done) };
        for pool in [MASTER, WORKER] {
            for mut config in configs(pool, &around, VERSION) {
                config["metadata"]["ownerReferences"] = crate::places::controlled_by(&live);
                self.keep(&config).await?;
            }
        }
        self.writer.update_status(&live, &completed(&live, &self.now())).await?;
        Ok(Outcome::Done)
    }

    /// Keeps the ControllerConfig; the object as it is now.
    async fn keep_controller_config(&self, wanted: &Value) -> Result<Option<Value>, Error> {
        let place = of_group("ControllerConfig", CONTROLLER_CONFIG);
        let before = self.writer.get(&place).await?;
        // The server fills in what the definition of a release has defaults for.
        let same = before.as_ref().is_some_and(|live| {
            covers(&live["spec"], &wanted["spec"]) && covers(&live["metadata"]["annotations"], &wanted["metadata"]["annotations"])
        });
        if !same {
            self.keep(wanted).await?;
            return Ok(self.writer.get(&place).await?);
        }
        Ok(before)
    }

    /// Keeps the MachineConfiguration, and writes the cluster's policies with the user's over them into its status (MACH-DISR-06).
    async fn policies(&self) -> Result<(), Error> {
        if self.settings.objects().is_none() {
            return Ok(());
        }
        let own = json!({
            "apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration", "metadata": {"name": "cluster"},
            "spec": {"managementState": "Managed", "logLevel": "Normal", "operatorLogLevel": "Normal"},
        });
        let live = match self.writer.get(&ObjectRef::of(&own)?).await? {
            Some(live) => live,
            None => self.writer.create(&own).await?,
        };
        let mut status = live.get("status").filter(|status| status.is_object()).cloned().unwrap_or_else(|| json!({}));
        status["observedGeneration"] = live["metadata"]["generation"].clone();
        status["nodeDisruptionPolicyStatus"] = json!({"clusterPolicies": merged(&user_policies(&live)?)});
        self.writer.update_status(&live, &status).await?;
        Ok(())
    }

    /// The policies that count; none while their status is not up to date.
    pub(crate) fn current_policies(&self) -> Result<Option<Policies>, Error> {
        let Some(live) = Self::named(&self.settings, "cluster")? else { return Ok(None) };
        let is_current = live["status"]["observedGeneration"] == live["metadata"]["generation"];
        Ok(if is_current { Some(merged(&user_policies(&live)?)) } else { None })
    }

    /// The facts that the configuration depends on, and the spec of the ControllerConfig; none while the cluster's authority is not published.
    fn surroundings(&self, release: &Release) -> Result<Option<(Surroundings, Value)>, Error> {
        let ca = self.map(ROOT_CA)?.and_then(|map| map["data"]["ca.crt"].as_str().map(str::to_owned));
        let Some(ca) = ca.filter(|ca| !ca.is_empty()) else { return Ok(None) };
        let secret = self.secrets.get(&Key::new("openshift-config", "pull-secret"));
        let docker = secret.as_ref().and_then(|secret| secret.data.pointer("/data/.dockerconfigjson")?.as_str());
        let docker = docker.and_then(|text| {
            let text = STANDARD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            if text.is_none() {
                tracing::warn!("secret openshift-config/pull-secret: .dockerconfigjson is no text; nodes get no credentials");
            }
            text
        });
        let proxy = Self::named(&self.proxies, "cluster")?;
        let said = |field: &str| {
            let value = proxy.as_ref().and_then(|proxy| proxy["status"].get(field)?.as_str());
            value.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let proxies = [("HTTP_PROXY", "httpProxy"), ("HTTPS_PROXY", "httpsProxy"), ("NO_PROXY", "noProxy")];
        let around = Surroundings {
            dns: DNS.to_owned(),
            pull_secret: docker,
            proxy: proxies.iter().filter_map(|(variable, field)| Some((*variable, said(field)?))).collect(),
            trusted: None,
        };
        let infra = Self::named(&self.infrastructures, "cluster")?;
        let status = infra.as_ref().and_then(|infra| infra.get("status")).filter(|status| status.is_object());
        let mut status = status.cloned().unwrap_or_else(|| json!({}));
        if status.get("controlPlaneTopology").is_none() {
            // A drain is of no use where the only node is drained.
            status["controlPlaneTopology"] = json!(if self.nodes.len() > 1 { "HighlyAvailable" } else { "SingleReplica" });
        }
        let mut shown = json!({});
        for field in ["controlPlaneTopology", "infrastructureName", "apiServerURL", "apiServerInternalURI", "platform"] {
            if let Some(value) = status.get(field) {
                shown[field] = value.clone();
            }
        }
        let kind = |kind: &str, spec: Value| json!({"apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": {"name": "cluster"}, "spec": spec});
        let mut infra = kind("Infrastructure", json!({"cloudConfig": {"name": ""}, "platformSpec": {}}));
        infra["status"] = shown;
        let mut spec = json!({
            "releaseImage": release.image, "baseOSContainerImage": release.os_image,
            "baseOSExtensionsContainerImage": release.extensions, "osImageURL": "",
            "kubeAPIServerServingCAData": STANDARD.encode(&ca), "rootCAData": STANDARD.encode(&ca),
            "additionalTrustBundle": null, "cloudProviderCAData": null, "cloudProviderConfig": "",
            "clusterDNSIP": around.dns, "ipFamilies": "IPv4", "images": {},
            "infra": infra, "dns": kind("DNS", json!({"baseDomain": "cluster.local"})),
            "proxy": null, "network": null,
        });
        if around.pull_secret.is_some() {
            spec["pullSecret"] = json!({"namespace": "openshift-config", "name": "pull-secret"});
        }
        if let Some(proxy) = proxy.as_ref().and_then(|proxy| proxy.get("status")).filter(|_| !around.proxy.is_empty()) {
            spec["proxy"] = proxy.clone();
        }
        Ok(Some((around, spec)))
    }
}

/// The policies that a user set.
fn user_policies(live: &Value) -> Result<Policies, Error> {
    Ok(serde_json::from_value::<Option<Policies>>(live["spec"]["nodeDisruptionPolicy"].clone())?.unwrap_or_default())
}

/// Returns whether an object has every wanted field; one that is null in `wanted` may be absent.
fn covers(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| live.get(key).map_or(value.is_null(), |live| covers(live, value)))
        }
        _ => live == wanted,
    }
}

/// The status of a ControllerConfig whose MachineConfigs are made.
fn completed(live: &Value, now: &str) -> Value {
    let (version, generation) = (VERSION, &live["metadata"]["generation"]);
    let before = live.pointer("/status/conditions").and_then(Value::as_array);
    let condition = |kind: &str, status: &str, message: String| {
        let same =
            before.into_iter().flatten().find(|one| one["type"] == kind && one["status"] == status && one["message"] == message.as_str());
        same.cloned().unwrap_or_else(|| json!({"type": kind, "status": status, "message": message, "lastTransitionTime": now}))
    };
    let mut status = live.get("status").filter(|status| status.is_object()).cloned().unwrap_or_else(|| json!({}));
    status["observedGeneration"] = generation.clone();
    status["conditions"] = json!([
        condition(
            "TemplateControllerCompleted",
            "True",
            format!("sync completed towards ({generation}) generation using controller version {version}")
        ),
        condition("TemplateControllerRunning", "False", String::new()),
        condition("TemplateControllerFailing", "False", String::new()),
    ]);
    status
}
