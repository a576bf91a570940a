//! Settings of the cluster's controller that a plan depends on, because the same bundle installs otherwise with other feature gates. They
//! are read from the Deployment of the controller, or from the settings that `mainstay up` publishes. Settings that cannot be read are
//! assumed, with a note.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use mainstay_diagnostics::Failure;
use mainstay_olm_v1::manifests::{COMBINED, OPERATOR_CONTROLLER};
use mainstay_olm_v1_core::gates::{FeatureGates, GateError, Profile};
use serde_json::{Value, json};

use crate::failure::refused;
use crate::session::Session;

/// The namespace of the controllers, unless they are configured with another.
pub const SYSTEM_NAMESPACE: &str = "olmv1-system";
/// The ConfigMap in which `mainstay up` publishes the settings of its own controllers.
pub const PUBLISHED: &str = "mainstay-up";
const GATES: &str = "feature-gates";
/// The usual namespaces of the controller, searched if Deployments cannot be listed in all namespaces.
const NAMESPACES: [&str; 2] = [SYSTEM_NAMESPACE, "openshift-operator-controller"];

/// The controller's settings that a plan depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its feature gates.
    pub gates: FeatureGates,
    /// True if the controller installs as itself (OLM1-API-07).
    pub own_account: bool,
    /// The namespace of its records.
    pub system_namespace: String,
    /// The controller's own account: namespace and name.
    pub controller: (String, String),
    /// The object that the settings come from: `Deployment olmv1-system/operator-controller-controller-manager`; `None` if they are
    /// assumed.
    pub of: Option<String>,
    /// The assumptions, with their reasons.
    pub notes: Vec<String>,
}

impl Settings {
    fn defaults(profile: Profile) -> Self {
        Self {
            gates: FeatureGates::defaults(profile),
            own_account: false,
            system_namespace: SYSTEM_NAMESPACE.to_owned(),
            controller: (SYSTEM_NAMESPACE.to_owned(), OPERATOR_CONTROLLER.to_owned()),
            of: None,
            notes: Vec::new(),
        }
    }

    /// Returns the settings as a fact that a plan rests on.
    pub fn fact(&self) -> String {
        let own = if self.own_account { ", installs as itself" } else { "" };
        let of = self.of.as_deref().unwrap_or("assumed");
        format!("{} ({of}{own})", self.gates)
    }

    /// Reads the settings of the cluster that this user may read.
    pub async fn read(session: &Session) -> Self {
        let mut problems = Vec::new();
        let found = match deployments(session).await {
            Ok(found) => found,
            Err(failure) => {
                problems.push(failure.to_line());
                Vec::new()
            }
        };
        if let Some(settings) = chosen(&found) {
            return settings;
        }
        let api: Api<ConfigMap> = Api::namespaced(session.client.clone(), SYSTEM_NAMESPACE);
        match api.get_opt(PUBLISHED).await {
            Ok(Some(published)) => return of_up(&published),
            Ok(None) => {}
            Err(error) => problems.push(refused(format!("configmap {SYSTEM_NAMESPACE}/{PUBLISHED}"), &error).to_line()),
        }
        assumed(&problems)
    }
}

/// Returns the ConfigMap in which `mainstay up` publishes its settings.
pub fn published(gates: &FeatureGates) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": PUBLISHED, "namespace": SYSTEM_NAMESPACE},
        "data": {GATES: gates.to_string()}})
}

fn of_up(published: &ConfigMap) -> Settings {
    let given = published.data.as_ref().and_then(|data| data.get(GATES)).map(String::as_str).unwrap_or_default();
    let mut settings = Settings { of: Some("mainstay up".to_owned()), ..Settings::defaults(Profile::Up) };
    settings.gates = lenient(Profile::Up, given, &mut settings.notes);
    settings
}

fn assumed(problems: &[String]) -> Settings {
    let why = if problems.is_empty() { "no Deployment of operator-controller was found".to_owned() } else { problems.join("; ") };
    let settings = Settings::defaults(Profile::Up);
    let note = format!("the feature gates of operator-controller are not known ({why}); assumed: {}", settings.gates);
    Settings { notes: vec![note], ..settings }
}

async fn deployments(session: &Session) -> Result<Vec<Deployment>, Failure> {
    let everywhere: Api<Deployment> = Api::all(session.client.clone());
    let mut found = Vec::new();
    for name in [OPERATOR_CONTROLLER, COMBINED] {
        let named = ListParams::default().fields(&format!("metadata.name={name}"));
        match everywhere.list(&named).await {
            Ok(list) => found.extend(list.items),
            Err(kube::Error::Api(status)) if status.code == 403 => return usual(session).await,
            Err(error) => return Err(refused("deployments", &error)),
        }
    }
    Ok(found)
}

/// Lists the Deployments of the usual namespaces, for users who may not list those of all namespaces.
async fn usual(session: &Session) -> Result<Vec<Deployment>, Failure> {
    let mut found = Vec::new();
    for namespace in NAMESPACES {
        let api: Api<Deployment> = Api::namespaced(session.client.clone(), namespace);
        for name in [OPERATOR_CONTROLLER, COMBINED] {
            let got = api.get_opt(name).await.map_err(|error| refused(format!("deployment {namespace}/{name}"), &error))?;
            found.extend(got);
        }
    }
    Ok(found)
}

/// Returns the settings of the Deployment that runs; of several, those of the first, with a note.
fn chosen(found: &[Deployment]) -> Option<Settings> {
    let mut running = found.iter().filter(|one| one.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1) > 0);
    let first = running.next()?;
    let title = |one: &Deployment| format!("Deployment {}/{}", one.namespace().unwrap_or_default(), one.name_any());
    let mut settings =
        Settings { of: Some(title(first)), system_namespace: first.namespace().unwrap_or_default(), ..Settings::defaults(Profile::Run) };
    let pod = first.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let account = pod.and_then(|pod| pod.service_account_name.clone()).unwrap_or_else(|| "default".to_owned());
    settings.controller = (first.namespace().unwrap_or_default(), account);
    let others: Vec<String> = running.map(title).collect();
    if !others.is_empty() {
        settings.notes.push(format!("the settings are those of {}; there is {} besides", title(first), others.join(", ")));
    }
    let containers = pod.map(|pod| pod.containers.as_slice());
    let mut words = containers.into_iter().flatten().flat_map(|one| one.command.iter().chain(&one.args).flatten()).map(String::as_str);
    let mut gates = Vec::new();
    while let Some(word) = words.next() {
        let (flag, given) = word.split_once('=').map_or((word, None), |(flag, value)| (flag, Some(value)));
        match flag.trim_start_matches('-') {
            "feature-gates" => gates.extend(given.or_else(|| words.next())),
            "system-namespace" => {
                if let Some(namespace) = given.or_else(|| words.next()) {
                    namespace.clone_into(&mut settings.system_namespace);
                }
            }
            "use-own-service-account" => settings.own_account = given != Some("false"),
            _ => {}
        }
    }
    settings.gates = lenient(Profile::Run, &gates.join(","), &mut settings.notes);
    Some(settings)
}

/// Parses the gates that this program knows; another version of the controller may have others.
fn lenient(profile: Profile, given: &str, notes: &mut Vec<String>) -> FeatureGates {
    let mut known = Vec::new();
    for one in given.split(',').map(str::trim).filter(|one| !one.is_empty()) {
        match FeatureGates::parse(profile, one) {
            Ok(_) => known.push(one),
            Err(GateError::Unknown { name }) => notes.push(format!("the feature gate {name} of the controller is not known here")),
            Err(problem) => notes.push(format!("a feature gate of the controller cannot be read: {problem}")),
        }
    }
    FeatureGates::parse(profile, &known.join(",")).unwrap_or_else(|_| FeatureGates::defaults(profile))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn deployment(namespace: &str, replicas: i32, arguments: &[&str]) -> Deployment {
        serde_json::from_value(json!({"metadata": {"name": OPERATOR_CONTROLLER, "namespace": namespace},
            "spec": {"replicas": replicas, "selector": {}, "template": {"spec": {"serviceAccountName": OPERATOR_CONTROLLER, "containers": [
                {"name": "manager", "command": ["./operator-controller"], "args": arguments}]}}}}))
        .unwrap()
    }

    /// MS-PLAN-01: the gates that a plan counts with are those of the controller that will carry it out.
    #[test]
    fn the_deployment_says_it() {
        assert_eq!(chosen(&[]), None);
        let idle = deployment("old", 0, &["--feature-gates=PreflightPermissions=true"]);
        let upstream = deployment(
            "openshift-operator-controller",
            1,
            &[
                "--v=2",
                "--feature-gates=SingleOwnNamespaceInstallSupport=true,SomethingNew=true",
                "--feature-gates",
                "WebhookProviderCertManager=false",
            ],
        );
        let settings = chosen(&[idle.clone(), upstream]).unwrap();
        let on: Vec<_> = settings.gates.states().filter(|(_, on, _)| *on).map(|(name, ..)| name).collect();
        assert_eq!(on, ["SingleOwnNamespaceInstallSupport", "WebhookProviderOpenshiftServiceCA"]);
        assert_eq!(settings.notes, ["the feature gate SomethingNew of the controller is not known here"]);
        assert_eq!((settings.own_account, settings.system_namespace.as_str()), (false, "openshift-operator-controller"));
        assert_eq!(settings.controller, ("openshift-operator-controller".to_owned(), OPERATOR_CONTROLLER.to_owned()));
        let ours = deployment("olm", 2, &["run", "olm-v1", "--system-namespace=records", "--use-own-service-account"]);
        let settings = chosen(&[ours.clone(), idle]).unwrap();
        assert_eq!((settings.own_account, settings.system_namespace.as_str(), settings.notes.len()), (true, "records", 0));
        assert_eq!(chosen(&[ours.clone(), ours]).unwrap().notes.len(), 1);
    }

    /// MS-PLAN-01: `mainstay up` says its gates itself; otherwise the plan says what it assumes.
    #[test]
    fn nobody_says_it() {
        let gates = FeatureGates::parse(Profile::Up, "PreflightPermissions=false").unwrap();
        let told: ConfigMap = serde_json::from_value(published(&gates)).unwrap();
        let settings = of_up(&told);
        assert!(!settings.gates.on("PreflightPermissions") && settings.gates.on("SingleOwnNamespaceInstallSupport"));
        assert!(settings.fact().ends_with("(mainstay up)"), "{}", settings.fact());
        let settings = assumed(&["deployments is forbidden".to_owned()]);
        assert!(settings.notes[0].contains("(deployments is forbidden); assumed: APIV1MetasHandler=true"), "{:?}", settings.notes);
        assert!(settings.fact().ends_with("(assumed)"));
    }
}
