//! The change that an advice proposes. It is rendered to commands in one place and tried on a copy of the snapshot in another, so that the
//! advice is the change that was tried (MS-EXPL-01).
//!
//! ```text
//!   Remedy ──┬── commands ──► the commands to type
//!            └── applied  ──► a copy of the Snapshot ── plan ── Outcome
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstay_api::lifecycle::{CRD_UPGRADE_SAFETY, LifecyclePolicySpec};
use mainstay_api::olm_v1::{ClusterExtension, OWNER_KIND_LABEL, OWNER_NAME_LABEL, WATCH_NAMESPACE};
use mainstay_lifecycle::Live;
use mainstay_lifecycle::policy::PolicyFact;
use mainstay_objects::ObjectRef;
use mainstay_rbac::PolicyIndex;
use serde_json::{Value, json};

use super::super::account_name;
use super::super::dependencies::following;
use super::super::facts::{CatalogContent, Snapshot};
use super::super::plan::WARN;
use super::{Action, name};

/// A change that a person can make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// This merge patch changes `spec.source.catalog` of the extension.
    Request(Value),
    /// Another package is installed instead, since the package of an extension cannot be changed.
    Package(String),
    /// Unsafe changes of CRDs are made with a warning, for this extension.
    AcceptedCrds,
    /// The extension watches this namespace; `None` is all namespaces.
    Watch(Option<String>),
    /// The extension names this account.
    Account(String),
    /// The account is created, with the permissions that the package needs; before it the extension's namespace, if that is missing.
    Grant {
        /// True if the namespace is created.
        namespace: bool,
    },
    /// A catalog is enabled or disabled.
    Switch {
        /// Its name.
        catalog: String,
        /// True if it is enabled.
        on: bool,
    },
    /// A catalog is removed.
    RemoveCatalog(String),
    /// A catalog takes precedence over the others.
    Prefer(String),
    /// An object is handed over to the extension.
    HandOver(ObjectRef),
    /// An object is deleted.
    Delete(ObjectRef),
    /// An extension is removed.
    Uninstall(String),
    /// Another package is installed, which provides this kind.
    Install {
        /// The package.
        package: String,
        /// Its catalog.
        catalog: String,
        /// An object of the kind.
        brings: ObjectRef,
    },
    /// A policy has the package's dependencies planned.
    FollowDependencies,
    /// A feature gate of the controller is turned on.
    Gate(&'static str),
    /// All of these, in order.
    All(Vec<Remedy>),
}

/// The reason why a remedy cannot be tried on a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untried {
    /// A disabled catalog has no content to read.
    #[error("what catalog {0} has is known only when it serves")]
    CatalogIsOff(String),
    /// The remedy does not concern this extension's plan.
    #[error("{0}")]
    Unknown(String),
}

/// Actions made from a remedy.
pub(super) trait ByRemedy {
    /// The action with the remedy's commands.
    #[must_use]
    fn by(self, extension: &ClusterExtension, remedy: Remedy) -> Self;
}

impl ByRemedy for Action {
    fn by(self, extension: &ClusterExtension, remedy: Remedy) -> Self {
        let commands = remedy.commands(extension);
        self.changing(commands, remedy)
    }
}

/// A word, quoted for a shell if necessary.
pub fn shell_word(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./:=@%+,".contains(character);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

impl Remedy {
    /// The commands that carry out the remedy, in order.
    pub fn commands(&self, extension: &ClusterExtension) -> Vec<String> {
        let own = name(extension);
        let patched = |kind: &str, name: &str, patch: &Value| {
            format!("kubectl patch {kind} {} --type merge -p {}", shell_word(name), shell_word(&patch.to_string()))
        };
        let object = |verb: &str, target: &ObjectRef| {
            let namespaced =
                if target.namespace.is_empty() { String::new() } else { format!(" --namespace {}", shell_word(&target.namespace)) };
            format!("kubectl {verb} {} {}{namespaced}", resource(target), shell_word(&target.name))
        };
        // The field takes precedence over the annotation.
        let in_field = watches_by_field(extension);
        let annotate = |value: &str| format!("kubectl annotate clusterextension {} {WATCH_NAMESPACE}{value}", shell_word(own));
        vec![match self {
            Self::Request(catalog) => patched("clusterextension", own, &json!({"spec": {"source": {"catalog": catalog}}})),
            Self::Package(near) => {
                return vec![format!("mainstay uninstall {}", shell_word(own)), format!("mainstay install {}", shell_word(near))];
            }
            Self::AcceptedCrds => {
                format!("kubectl annotate clusterextension {} {CRD_UPGRADE_SAFETY}={WARN} --overwrite", shell_word(own))
            }
            Self::Watch(namespace) if in_field => {
                patched("clusterextension", own, &json!({"spec": {"config": {"inline": {"watchNamespace": namespace}}}}))
            }
            Self::Watch(Some(namespace)) => annotate(&format!("={} --overwrite", shell_word(namespace))),
            Self::Watch(None) => annotate("-"),
            Self::Account(account) => patched("clusterextension", own, &json!({"spec": {"serviceAccount": {"name": account}}})),
            Self::Grant { namespace } => {
                let granted = format!("mainstay rbac {} | kubectl apply --server-side -f -", shell_word(own));
                if *namespace {
                    return vec![format!("kubectl create namespace {}", shell_word(&extension.spec.namespace)), granted];
                }
                granted
            }
            Self::Switch { catalog, on } => {
                let mode = if *on { "Available" } else { "Unavailable" };
                patched("clustercatalog", catalog, &json!({"spec": {"availabilityMode": mode}}))
            }
            Self::RemoveCatalog(catalog) => format!("mainstay catalog remove {}", shell_word(catalog)),
            Self::Prefer(catalog) => patched("clustercatalog", catalog, &json!({"spec": {"priority": 1}})),
            Self::HandOver(target) => {
                let owner = super::super::owner(extension);
                let labels: Vec<String> = owner.labels.iter().map(|(key, value)| shell_word(&format!("{key}={value}"))).collect();
                // The object may have labels of a deleted owner.
                format!("{} {} --overwrite", object("label", target), labels.join(" "))
            }
            Self::Delete(target) => object("delete", target),
            Self::Uninstall(extension) => format!("mainstay uninstall {}", shell_word(extension)),
            Self::Install { package, catalog, .. } => {
                format!("mainstay install {} --catalog {}", shell_word(package), shell_word(catalog))
            }
            Self::FollowDependencies => following(super::package(extension)),
            Self::Gate(gate) => format!("mainstay up --feature-gates={gate}=true"),
            Self::All(all) => return all.iter().flat_map(|remedy| remedy.commands(extension)).collect(),
        }]
    }

    /// Returns true if it requests another version, catalog or package, instead of removing an obstacle.
    pub(super) fn chooses(&self) -> bool {
        match self {
            Self::Request(_) | Self::Package(_) => true,
            Self::All(all) => all.iter().any(Self::chooses),
            _ => false,
        }
    }

    /// Returns true if it removes the extension itself.
    pub fn removes(&self, extension: &str) -> bool {
        match self {
            Self::Uninstall(name) => name == extension,
            Self::All(all) => all.iter().any(|remedy| remedy.removes(extension)),
            _ => false,
        }
    }

    /// A copy of the snapshot after the remedy. Permissions of the account count as granted: the question is the result of the advice, and a
    /// missing permission on the way has its own advice.
    pub fn applied(&self, snapshot: &Snapshot) -> Result<Snapshot, Untried> {
        let mut copy = snapshot.clone();
        self.apply(&mut copy)?;
        grant(&mut copy)?;
        Ok(copy)
    }

    fn apply(&self, snapshot: &mut Snapshot) -> Result<(), Untried> {
        match self {
            Self::Request(catalog) => patch(snapshot, &json!({"spec": {"source": {"catalog": catalog}}})),
            Self::Package(near) => patch(snapshot, &json!({"spec": {"source": {"catalog": {"packageName": near}}}})),
            Self::AcceptedCrds => patch(snapshot, &json!({"metadata": {"annotations": {CRD_UPGRADE_SAFETY: WARN}}})),
            Self::Watch(namespace) if watches_by_field(&snapshot.extension) => {
                patch(snapshot, &json!({"spec": {"config": {"inline": {"watchNamespace": namespace}}}}))
            }
            Self::Watch(namespace) => patch(snapshot, &json!({"metadata": {"annotations": {WATCH_NAMESPACE: namespace}}})),
            Self::Account(account) => patch(snapshot, &json!({"spec": {"serviceAccount": {"name": account}}})),
            // The account has the permissions in every copy.
            Self::Grant { .. } => Ok(()),
            Self::Switch { catalog, on } => {
                let found = snapshot.catalogs.iter_mut().find(|found| found.name == *catalog);
                let Some(found) = found else { return Err(Untried::CatalogIsOff(catalog.clone())) };
                match (on, &found.content) {
                    (true, CatalogContent::Unavailable) => Err(Untried::CatalogIsOff(catalog.clone())),
                    (true, _) => Ok(()),
                    (false, _) => {
                        found.content = CatalogContent::Unavailable;
                        Ok(())
                    }
                }
            }
            Self::RemoveCatalog(catalog) => {
                snapshot.catalogs.retain(|found| found.name != *catalog);
                Ok(())
            }
            Self::Prefer(catalog) => {
                for found in snapshot.catalogs.iter_mut().filter(|found| found.name == *catalog) {
                    found.priority = 1;
                }
                Ok(())
            }
            Self::HandOver(target) => {
                let owner = super::super::owner(&snapshot.extension);
                let Some(Live::Present(live)) = snapshot.known.live.get_mut(target) else {
                    return Err(Untried::Unknown(format!("{target} was not read")));
                };
                let live = Arc::make_mut(live);
                for (key, value) in &owner.labels {
                    live["metadata"]["labels"][key] = value.as_str().into();
                }
                Ok(())
            }
            Self::Delete(target) => {
                snapshot.known.live.insert(target.clone(), Live::Absent);
                Ok(())
            }
            Self::Uninstall(extension) => {
                let gone = |live: &Live| matches!(live, Live::Present(object) if belongs(object, extension));
                for live in snapshot.known.live.values_mut().filter(|live| gone(live)) {
                    *live = Live::Absent;
                }
                snapshot.known.lifecycle.peers.retain(|peer| name(peer) != extension);
                Ok(())
            }
            Self::Install { brings, .. } => {
                let same = |target: &ObjectRef| target.api_version == brings.api_version && target.kind == brings.kind;
                for (_, live) in snapshot.known.live.iter_mut().filter(|(target, live)| same(target) && **live == Live::NotServed) {
                    *live = Live::Absent;
                }
                Ok(())
            }
            Self::FollowDependencies => {
                let package = super::package(&snapshot.extension).to_owned();
                let spec: LifecyclePolicySpec = serde_json::from_value(json!({"packages": [package], "resolveDependencies": "Plan"}))
                    .map_err(|error| Untried::Unknown(error.to_string()))?;
                let policies = &mut snapshot.known.lifecycle.policies;
                policies.retain(|policy| policy.name != package);
                policies.push(PolicyFact { name: package, spec });
                Ok(())
            }
            Self::Gate(gate) => {
                snapshot.gates = snapshot.gates.with(gate).map_err(|error| Untried::Unknown(error.to_string()))?;
                Ok(())
            }
            Self::All(all) => all.iter().try_for_each(|remedy| remedy.apply(snapshot)),
        }
    }
}

fn watches_by_field(extension: &ClusterExtension) -> bool {
    let inline = extension.spec.config.as_ref().and_then(|config| config.inline.as_ref());
    inline.is_some_and(|inline| !inline["watchNamespace"].is_null())
}

fn patch(snapshot: &mut Snapshot, patch: &Value) -> Result<(), Untried> {
    let failed = |error: serde_json::Error| Untried::Unknown(error.to_string());
    let mut object = serde_json::to_value(&*snapshot.extension).map_err(failed)?;
    mainstay_merge::merge_patch(&mut object, patch);
    snapshot.extension = Arc::new(serde_json::from_value(object).map_err(failed)?);
    Ok(())
}

/// Gives the account all permissions, and makes it exist.
fn grant(snapshot: &mut Snapshot) -> Result<(), Untried> {
    let extension = &*snapshot.extension;
    let name = "mainstay-plan-everything";
    let account = json!({"kind": "ServiceAccount", "name": account_name(extension), "namespace": extension.spec.namespace});
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}]);
    let objects = [
        json!({"kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}),
        json!({"kind": "ClusterRoleBinding", "metadata": {"name": name}, "subjects": [account],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}}),
    ];
    let mut index: PolicyIndex = snapshot.known.policy.as_deref().cloned().unwrap_or_default();
    for object in &objects {
        index.apply(object).map_err(|error| Untried::Unknown(error.to_string()))?;
    }
    snapshot.known.policy = Some(Arc::new(index));
    snapshot.known.account = Some(Ok(true));
    Ok(())
}

/// Returns true if a live object is an extension's, by its controller or by its labels.
fn belongs(object: &Value, extension: &str) -> bool {
    let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let mut controllers = references.filter(|reference| reference["controller"] == true);
    if let Some(controller) = controllers.next() {
        return controller["kind"] == "ClusterExtension" && controller["name"] == extension;
    }
    let labels: BTreeMap<&str, &str> = object
        .pointer("/metadata/labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
        .collect();
    labels.get(OWNER_KIND_LABEL) == Some(&"ClusterExtension") && labels.get(OWNER_NAME_LABEL) == Some(&extension)
}

/// The kind as kubectl names it.
pub(super) fn resource(target: &ObjectRef) -> String {
    let kind = target.kind.to_lowercase();
    match target.group() {
        "" => kind,
        group => format!("{kind}.{group}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MS-EXPL-01, MS-CLI-06: names of others stay one word of a shell.
    #[test]
    fn names_of_others_are_quoted() {
        for (word, quoted) in [
            ("stable-1.x", "stable-1.x"),
            ("", "''"),
            ("$(id)", "'$(id)'"),
            ("it's", r"'it'\''s'"),
            (">=1.0.0, <2.0.0", "'>=1.0.0, <2.0.0'"),
        ] {
            assert_eq!(shell_word(word), quoted);
        }
    }
}
