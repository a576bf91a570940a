//! The groups and versions that others serve, as the APIService objects say it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use mainstay_objects::{condition, is_condition_true};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::documents::Documents;
use crate::cache::{Change, Scope};
use crate::object::meta;
use crate::remote::{CallError, ClientConfig, Target, Trust};

/// The resource of APIServices.
pub const RESOURCE: &str = "apiregistration.k8s.io/apiservices";

/// The condition that says whether an API server answers.
pub const AVAILABLE: &str = "Available";

/// A version of a group that another server has.
#[derive(Debug)]
pub struct RemoteApi {
    /// `VERSION.GROUP`.
    pub name: String,
    /// The group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The way to call it; else why it cannot be called.
    pub config: Result<ClientConfig, CallError>,
    /// Groups with a higher one come first.
    pub group_priority: i64,
    /// Versions with a higher one come first.
    pub version_priority: i64,
    /// Set if its condition says that it answers.
    pub available: bool,
}

impl RemoteApi {
    /// Reads an APIService; `None` for one that is served here.
    fn parse(object: &Value) -> Option<Self> {
        let spec = &object["spec"];
        if !spec["service"].is_object() {
            return None;
        }
        let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
        let trust = if spec["insecureSkipTLSVerify"] == true { Ok(Trust::Any) } else { Trust::of_bundle(spec.get("caBundle")) };
        Some(Self {
            name: meta(object, "name").to_owned(),
            group: text("group"),
            version: text("version"),
            config: trust.map(|trust| ClientConfig { target: Target::of_service(&spec["service"]), trust }),
            group_priority: spec["groupPriorityMinimum"].as_i64().unwrap_or_default(),
            version_priority: spec["versionPriority"].as_i64().unwrap_or_default(),
            available: is_condition_true(object, AVAILABLE),
        })
    }

    /// Namespace and name of its Service.
    pub fn service(&self) -> Option<(&str, &str)> {
        match &self.config.as_ref().ok()?.target {
            Target::Service { namespace, name, .. } => Some((namespace, name)),
            Target::Url(_) => None,
        }
    }

    /// Returns whether the two are called in the same way.
    pub(super) fn same_place(&self, other: &Self) -> bool {
        match (&self.config, &other.config) {
            (Ok(one), Ok(two)) => one == two,
            (Err(one), Err(two)) => one.to_string() == two.to_string(),
            _ => false,
        }
    }
}

/// Every version that others serve, by group and version.
pub type Index = BTreeMap<(String, String), Arc<RemoteApi>>;

/// The API servers of others, as this one knows them.
#[derive(Default)]
pub struct Aggregation {
    index: RwLock<Arc<Index>>,
    documents: RwLock<BTreeMap<String, Arc<Documents>>>,
    /// APIServices that are served here and do not say so yet.
    unsettled: Mutex<BTreeSet<String>>,
    /// There are further ones of these.
    pub(super) unsettled_changed: Notify,
    /// Something that the availability of others depends on has changed.
    pub(super) changed: Notify,
}

impl Aggregation {
    /// Takes in what the cache shows, and every change of it from then on.
    pub fn follow(self: &Arc<Self>, cache: &crate::cache::Cache) {
        for entry in cache.resource(RESOURCE).list(&Scope::default()) {
            self.take(entry.name(), Some(&entry.value()));
        }
        let this = self.clone();
        cache.observe(Box::new(move |resource, change| this.observe(resource, change)));
    }

    fn observe(&self, resource: &str, change: &Change) {
        let Some(entry) = change.shown() else { return };
        match resource {
            RESOURCE => self.take(entry.name(), change.now.as_ref().map(|entry| entry.value()).as_ref()),
            "core/services" | "core/endpoints" => self.service_changed(entry.namespace(), entry.name()),
            "discovery.k8s.io/endpointslices" => {
                if let Some(name) = entry.labels.get("kubernetes.io/service-name") {
                    self.service_changed(entry.namespace(), name);
                }
            }
            _ => {}
        }
    }

    fn service_changed(&self, namespace: &str, name: &str) {
        if self.index().values().any(|remote| remote.service() == Some((namespace, name))) {
            self.changed.notify_one();
        }
    }

    fn take(&self, name: &str, object: Option<&Value>) {
        let remote = object.and_then(RemoteApi::parse);
        if let (Some(object), None) = (object, &remote) {
            let local = condition(object, AVAILABLE).is_some_and(|condition| condition["reason"] == "Local");
            if !local {
                self.put_back_unsettled(name);
                self.unsettled_changed.notify_one();
            }
        }
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let before = index.values().find(|known| known.name == name).cloned();
        if before.is_none() && remote.is_none() {
            return;
        }
        let moved = !matches!((&before, &remote), (Some(one), Some(two)) if one.same_place(two));
        let next = Arc::make_mut(&mut index);
        next.retain(|_, known| known.name != name);
        if let Some(remote) = remote {
            next.insert((remote.group.clone(), remote.version.clone()), Arc::new(remote));
        }
        drop(index);
        if moved {
            self.documents.write().unwrap_or_else(PoisonError::into_inner).remove(name);
            self.changed.notify_one();
        }
    }

    /// The versions that others serve now.
    pub fn index(&self) -> Arc<Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers one that does not say so yet.
    pub(super) fn put_back_unsettled(&self, name: &str) {
        self.unsettled.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
    }

    pub(super) fn take_unsettled(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.unsettled.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The documents of one, where they were fetched.
    pub fn documents(&self, name: &str) -> Option<Arc<Documents>> {
        self.documents.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// A version as aggregated discovery shows it; stale if its server does not answer.
    pub fn shown(&self, remote: &RemoteApi) -> Value {
        let mut version =
            self.documents(&remote.name).map_or_else(|| json!({"version": remote.version}), |documents| documents.version.clone());
        let fresh = remote.available && version["resources"].is_array();
        version["freshness"] = if fresh { "Current" } else { "Stale" }.into();
        version
    }

    pub(super) fn keep(&self, name: &str, documents: Documents) {
        self.documents.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Arc::new(documents));
    }

    /// The API server that answers this path, if it is not this one.
    pub fn route(&self, path: &str) -> Option<Arc<RemoteApi>> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        if index.is_empty() {
            return None;
        }
        let mut parts = path.trim_start_matches('/').splitn(4, '/');
        match (parts.next()?, parts.next()?, parts.next()?) {
            ("apis", group, version) => index.get(&(group.to_owned(), version.to_owned())).cloned(),
            ("openapi", "v3", "apis") => {
                let (group, version) = parts.next()?.split_once('/')?;
                index.get(&(group.to_owned(), version.to_owned())).cloned()
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    /// KAPI-AGG-01: APIServices with a Service are others'; those without are served here.
    #[test]
    fn routes() {
        let aggregation = Aggregation::default();
        let object =
            json!({"metadata": {"name": "v1.g"}, "spec": {"group": "g", "version": "v1", "service": {"name": "s", "namespace": "n"}}});
        assert!(aggregation.route("/apis/g/v1/things").is_none());
        aggregation.take("v1.g", Some(&object));
        for (path, ours) in [
            ("/apis/g/v1", false),
            ("/apis/g/v1/namespaces/a/things/b", false),
            ("/openapi/v3/apis/g/v1", false),
            ("/apis/g", true),
            ("/apis/g/v2", true),
            ("/api/v1/pods", true),
            ("/openapi/v3", true),
        ] {
            assert_eq!(aggregation.route(path).is_none(), ours, "{path}");
        }
        let local = json!({"metadata": {"name": "v1.g"}, "spec": {"group": "g", "version": "v1"}});
        aggregation.take("v1.g", Some(&local));
        assert!(aggregation.route("/apis/g/v1").is_none());
        assert_eq!(aggregation.take_unsettled().into_iter().collect::<Vec<_>>(), ["v1.g"]);
    }
}
