//! The pod that serves a source.

use mainstay_bundle::go::{Mismatch, conform, to_string_as};
use mainstay_schema::quantity::{QuantityError, written_in_binary};
use serde_json::{Value, json};

use super::{
    CONFIG_MAP_SERVER, EXTRACT, MANAGED, POD_HASH, PRIORITY_CLASS, SERVER, Tools, account_name, is_config_map, owner, pod_labels,
    pull_policy, text,
};
use crate::catalog_source::PORT;
use crate::hash;

/// Annotation that lets the autoscaler of the cluster move the pod, which no controller would make again.
const MAY_MOVE: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
const UTILITIES: &str = "/utilities";
const CONTENT: &str = "/extracted-catalog";
/// Seconds before the first probe of readiness.
const READY_AFTER: u64 = 5;

/// Part of a source of which no pod can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PodError {
    /// A part of `grpcPodConfig` has the wrong type.
    #[error("spec.grpcPodConfig: {0}")]
    Config(#[from] Mismatch),
    /// The memory target is no quantity.
    #[error("spec.grpcPodConfig.memoryTarget: {0}")]
    Memory(#[from] QuantityError),
}

/// The pod that serves a source. `account` is its ServiceAccount as it is, `restricted` the security context unless the source says another
/// (OLM0-CAT-11).
pub fn pod(source: &Value, tools: &Tools, account: Option<&Value>, restricted: bool) -> Result<Value, PodError> {
    let config_map = is_config_map(source);
    let image = if config_map { tools.config_map_server.as_str() } else { source["spec"]["image"].as_str().unwrap_or_default() };
    let (name, alive_after) = if config_map { (CONFIG_MAP_SERVER, READY_AFTER) } else { (SERVER, 2 * READY_AFTER) };
    let probe = || json!({"exec": {"command": ["grpc_health_probe", format!("-addr=:{PORT}"), "-rpc-timeout=5s"]}, "timeoutSeconds": 5});
    let delayed = |delay: u64| {
        let mut probe = probe();
        probe["initialDelaySeconds"] = json!(delay);
        probe
    };
    let mut startup = probe();
    startup["failureThreshold"] = json!(10);
    startup["periodSeconds"] = json!(10);
    let mut spec = json!({
        "containers": [{
            "name": name, "image": image, "ports": [{"name": "grpc", "containerPort": PORT}],
            "readinessProbe": delayed(READY_AFTER), "livenessProbe": delayed(alive_after), "startupProbe": startup,
            "resources": {"requests": {"cpu": "10m", "memory": "50Mi"}},
            "securityContext": {"readOnlyRootFilesystem": false},
            "imagePullPolicy": pull_policy(image), "terminationMessagePolicy": "FallbackToLogsOnError",
        }],
        "nodeSelector": {"kubernetes.io/os": "linux"},
    });
    if let Some(account) = account.filter(|_| !config_map) {
        spec["serviceAccountName"] = json!(text(account, "name"));
        if let Some(secrets) = account["imagePullSecrets"].as_array().filter(|secrets| !secrets.is_empty()) {
            spec["imagePullSecrets"] = json!(secrets);
        }
    }
    let config = &source["spec"]["grpcPodConfig"];
    configure(&mut spec, config, tools, image)?;
    let chosen = config["securityContextConfig"].as_str().filter(|chosen| !chosen.is_empty());
    if chosen.map_or(restricted, |chosen| chosen == "restricted") {
        restrict(&mut spec, tools.user);
    }
    let annotations = source["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    if let Some(class) = annotations.get(PRIORITY_CLASS).and_then(Value::as_str).filter(|class| !class.is_empty()) {
        spec["priorityClassName"] = json!(class);
    }
    let mut spec = conform("PodSpec", &spec)?;
    let mut labels = pod_labels(source);
    labels.insert(MANAGED.to_owned(), json!("true"));
    labels.insert(POD_HASH.to_owned(), json!(hash::of_encoded(&to_string_as("PodSpec", &spec))));
    if config_map {
        // Upstream sets these after it has made the hash.
        spec["serviceAccountName"] = json!(account_name(source));
        spec["containers"][0]["command"] = json!(["configmap-server", "-c", source["spec"]["configMap"], "-n", text(source, "namespace")]);
    }
    let mut metadata = json!({
        "generateName": format!("{}-", text(source, "name")), "namespace": text(source, "namespace"), "labels": labels,
        "annotations": annotations, "ownerReferences": owner(source, true, false),
    });
    metadata["annotations"][MAY_MOVE] = json!("true");
    Ok(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
}

/// Applies `grpcPodConfig` (OLM0-CAT-07, OLM0-CAT-14, OLM0-CAT-15).
fn configure(spec: &mut Value, config: &Value, tools: &Tools, image: &str) -> Result<(), PodError> {
    for field in ["nodeSelector", "priorityClassName", "tolerations", "affinity"] {
        if let Some(value) = config.get(field).filter(|value| !value.is_null()) {
            spec[field] = value.clone();
        }
    }
    if let Some(target) = config.get("memoryTarget").filter(|target| !target.is_null()) {
        let text = target.as_str().map_or_else(|| target.to_string(), str::to_owned);
        let limit = format!("{}B", written_in_binary(&text)?);
        let server = &mut spec["containers"][0];
        server["resources"]["requests"]["memory"] = target.clone();
        // The soft limit of Go's heap, which a server without one may read as well.
        server["env"] = json!([{"name": "GOMEMLIMIT", "value": limit}]);
    }
    if let Some(extract) = config.get("extractContent").filter(|extract| !extract.is_null()) {
        extract_content(spec, extract, tools, image);
    }
    Ok(())
}

/// Lets the platform's own `opm` serve the content of the image (OLM0-CAT-15).
fn extract_content(spec: &mut Value, extract: &Value, tools: &Tools, image: &str) {
    let text = |field: &str| extract[field].as_str().unwrap_or_default();
    let (catalog, cache) = (format!("{CONTENT}/catalog"), format!("{CONTENT}/cache"));
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
    let mut copied = vec![format!("--catalog.from={}", text("catalogDir")), format!("--catalog.to={catalog}")];
    let mut served = vec!["serve".to_owned(), catalog];
    let mut volumes = vec!["utilities", "catalog-content"];
    let mut mounts = Vec::new();
    if text("cacheDir").is_empty() {
        // `opm serve` makes a cache of its own below /tmp.
        volumes.push("tmpdir");
        mounts.push(mount("tmpdir", "/tmp/"));
    } else {
        copied.extend([format!("--cache.from={}", text("cacheDir")), format!("--cache.to={cache}")]);
        served.push(format!("--cache-dir={cache}"));
    }
    mounts.push(mount("catalog-content", CONTENT));
    spec["volumes"] = volumes.iter().map(|name| json!({"name": name, "emptyDir": {}})).collect();
    spec["initContainers"] = json!([
        {
            "name": "extract-utilities", "image": tools.util, "command": ["cp"],
            "args": ["/bin/copy-content", format!("{UTILITIES}/copy-content")], "volumeMounts": [mount("utilities", UTILITIES)],
            "terminationMessagePolicy": "FallbackToLogsOnError", "securityContext": {"readOnlyRootFilesystem": true},
        },
        {
            "name": EXTRACT, "image": image, "imagePullPolicy": pull_policy(image),
            "command": [format!("{UTILITIES}/copy-content")], "args": copied,
            "volumeMounts": [mount("utilities", UTILITIES), mount("catalog-content", CONTENT)],
            "terminationMessagePolicy": "FallbackToLogsOnError", "securityContext": {"readOnlyRootFilesystem": true},
        },
    ]);
    let server = &mut spec["containers"][0];
    server["securityContext"]["readOnlyRootFilesystem"] = json!(true);
    server["image"] = json!(tools.opm);
    server["imagePullPolicy"] = json!(pull_policy(&tools.opm));
    server["command"] = json!(["/bin/opm"]);
    server["args"] = json!(served);
    server["volumeMounts"] = json!(mounts);
}

/// Makes a pod fit a namespace that enforces `restricted` (OLM0-CAT-11).
fn restrict(spec: &mut Value, user: Option<i64>) {
    spec["securityContext"] = json!({"seccompProfile": {"type": "RuntimeDefault"}});
    if let Some(user) = user.filter(|user| *user > 0) {
        spec["securityContext"]["runAsUser"] = json!(user);
        spec["securityContext"]["runAsNonRoot"] = json!(true);
    }
    for list in ["initContainers", "containers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            container["securityContext"]["allowPrivilegeEscalation"] = json!(false);
            container["securityContext"]["capabilities"] = json!({"drop": ["ALL"]});
        }
    }
}
