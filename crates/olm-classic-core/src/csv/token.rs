//! The service account's token for cloud providers in the pods of an operator (OLM0-TOKEN-20).

use mainstay_bundle::Csv;
use serde_json::{Value, json};

const VOLUME: &str = "bound-sa-token";
const PATH: &str = "/var/run/secrets/openshift/serviceaccount";
/// The annotations by which a CSV says that it can use such a token.
const DECLARED: [&str; 2] = ["features.operators.openshift.io/token-auth-aws", "features.operators.openshift.io/token-auth-azure"];

/// The CSV with the volume and its mounts in every Deployment, if it declares that it can use them; `None` if nothing changes.
pub fn with_token_volume(csv: &Csv) -> Option<Csv> {
    if !DECLARED.iter().any(|name| csv.annotations.get(*name).is_some_and(|value| value == "true")) {
        return None;
    }
    let mut csv = csv.clone();
    for deployment in &mut csv.deployments {
        add(&mut deployment.spec["template"]["spec"]);
    }
    Some(csv)
}

fn add(pod: &mut Value) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let containers = list(&pod["containers"]);
    let mounts = containers.iter().flat_map(|container| list(&container["volumeMounts"]));
    let mut volumes = list(&pod["volumes"]);
    if volumes.iter().any(|volume| volume["name"] == VOLUME) || mounts.into_iter().any(|mount| mount["mountPath"] == PATH) {
        return;
    }
    let token = json!({"serviceAccountToken": {"path": "token", "audience": "openshift", "expirationSeconds": 3600}});
    volumes.push(json!({"name": VOLUME, "projected": {"sources": [token]}}));
    pod["volumes"] = json!(volumes);
    for container in pod["containers"].as_array_mut().into_iter().flatten() {
        let mut mounts = list(&container["volumeMounts"]);
        mounts.push(json!({"name": VOLUME, "mountPath": PATH, "readOnly": true}));
        container["volumeMounts"] = json!(mounts);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// OLM0-TOKEN-20: the volume comes unless the operator has one of its own, and only if it is declared.
    #[test]
    fn volume() {
        let manifest = |declared: &str, mount: &str| {
            let container = json!({"name": "manager", "image": "i", "volumeMounts": [{"name": "own", "mountPath": mount}]});
            json!({"metadata": {"name": "a.v1", "annotations": {DECLARED[0]: declared}}, "spec": {"install": {"strategy": "deployment", "spec": {
                "deployments": [{"name": "a", "spec": {"template": {"spec": {"containers": [container]}}}}]}}}})
        };
        let csv = with_token_volume(&Csv::parse(&manifest("true", "/own")).unwrap()).unwrap();
        let pod = &csv.deployments[0].spec["template"]["spec"];
        assert_eq!(pod["volumes"][0]["name"], VOLUME);
        assert_eq!(pod["containers"][0]["volumeMounts"][1], json!({"name": VOLUME, "mountPath": PATH, "readOnly": true}));
        let own = Csv::parse(&manifest("true", PATH)).unwrap();
        assert_eq!(with_token_volume(&own).unwrap(), own);
        assert_eq!(with_token_volume(&Csv::parse(&manifest("false", "/own")).unwrap()), None);
    }
}
