//! Establishing: one task follows the CRDs, keeps their conditions, and replaces the snapshot of what is served.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainstay_kinds::{Resource, Subresource};
use mainstay_schema::crd::{self, Condition, Conversion, Definition, Names};
use mainstay_store::Expect;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::convert::Converter;
use super::deletion::{self, FINALIZER};
use super::version::CustomVersion;
use crate::cache::{Begin, Scope};
use crate::error::Result;
use crate::object::{self, meta, meta_list, metadata_mut};
use crate::object_store::ObjectStore;
use crate::remote::Remotes;
use crate::served::{Served, Snapshot};

/// The pause before a CRD whose instances are held is looked at again.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(250);
/// The pause before a pass that failed is tried again.
const AFTER_FAILURE: std::time::Duration = std::time::Duration::from_secs(1);

/// The task that makes CRDs served.
pub struct Establisher {
    objects: Arc<ObjectStore>,
    remotes: Arc<Remotes>,
    closing: CancellationToken,
    known: HashMap<String, Known>,
    /// Instances that something holds leave on their own: look again soon.
    again: std::sync::atomic::AtomicBool,
}

/// A CRD that is served.
struct Known {
    /// The revision that was read; 0 to read it again.
    revision: u64,
    stub: Value,
    served: Vec<Arc<Served>>,
}

/// A CRD that a pass looks at, because it changed or is not settled.
struct Item {
    name: String,
    revision: u64,
    /// Null once it is gone.
    crd: Value,
}

impl Establisher {
    /// A task over these objects; nothing happens before [`Establisher::run`].
    pub fn new(objects: Arc<ObjectStore>, remotes: Arc<Remotes>, closing: CancellationToken) -> Self {
        Self { objects, remotes, closing, known: HashMap::new(), again: false.into() }
    }

    /// Serves what the stored CRDs say; for the start, before the first request.
    pub async fn once(&mut self) -> Result<()> {
        self.pass().await
    }

    /// Follows the CRDs until the server ends.
    pub async fn run(mut self) {
        loop {
            let crds = match self.objects.built_in("apiextensions.k8s.io", "customresourcedefinitions") {
                Ok(crds) => crds,
                Err(error) => {
                    tracing::error!(%error, "cannot follow CRDs");
                    return;
                }
            };
            let cache = self.objects.cache.resource(&crds.storage);
            let Ok(mut subscription) = cache.subscribe(Scope::default(), Begin::Now, &self.objects.cache) else { continue };
            loop {
                let failed = self.pass().await.err();
                match &failed {
                    // Somebody else changed a CRD meanwhile.
                    Some(error) if error.code == http::StatusCode::CONFLICT => {
                        tracing::debug!(%error, "a CRD could not be established yet");
                    }
                    Some(error) => tracing::warn!(%error, "CRDs could not be established yet"),
                    None => {}
                }
                let closing = self.closing.clone();
                let again = self.again.swap(false, std::sync::atomic::Ordering::Relaxed);
                let pause = if failed.is_some() { AFTER_FAILURE } else { LOOK_AGAIN };
                tokio::select! {
                    () = tokio::time::sleep(pause), if again || failed.is_some() => {},
                    change = subscription.changes.recv() => if change.is_none() { break },
                    () = closing.cancelled() => return,
                }
                while subscription.changes.try_recv().is_some() {}
            }
            if self.closing.is_cancelled() {
                return;
            }
        }
    }

    async fn pass(&mut self) -> Result<()> {
        let crds = self.objects.built_in("apiextensions.k8s.io", "customresourcedefinitions")?;
        // What this task wrote a moment ago must be seen here, or an established CRD would look as if it were not.
        if self.objects.cache.catch_up().await.is_none() {
            return Err(crate::error::ApiError::internal("the watch cache does not follow the store"));
        }
        let entries = self.objects.cache.resource(&crds.storage).list(&Scope::default());
        let mut outcome = Ok(());
        // A cluster has a thousand CRDs and changes one: what did not change is not looked at.
        let mut items: Vec<Item> = entries
            .iter()
            .filter(|entry| self.known.get(&entry.key).is_none_or(|known| known.revision != entry.revision))
            .map(|entry| Item { name: entry.key.clone(), revision: entry.revision, crd: entry.value() })
            .collect();
        // The oldest CRD gets the names that several want.
        items.sort_by_cached_key(|item| (meta(&item.crd, "creationTimestamp").to_owned(), item.name.clone()));
        let looked_at: HashSet<String> = items.iter().map(|item| item.name.clone()).collect();
        let mut due = Vec::new();
        for index in 0..items.len() {
            let deleting = !meta(&items[index].crd, "deletionTimestamp").is_empty();
            if !deleting {
                let names = self.names_accepted(&items, &looked_at, index);
                if let Some(next) = settled(&items[index].crd, &names) {
                    due.push((index, std::mem::replace(&mut items[index].crd, next)));
                }
            } else if meta_list(&items[index].crd, "finalizers").iter().any(|one| one == FINALIZER) {
                match self.clean_up(&crds, items[index].revision, items[index].crd.clone()).await {
                    Ok(Some((revision, crd))) => (items[index].revision, items[index].crd) = (revision, crd),
                    Ok(None) => items[index].crd = Value::Null,
                    Err(error) => {
                        // What is served does not wait for it, and the next pass looks at it again.
                        items[index].revision = 0;
                        outcome = Err(error);
                    }
                }
            }
        }
        // A kind is served before its CRD says so: whoever waits for the condition asks for objects in the next moment.
        self.publish(&items, &entries.iter().map(|entry| entry.key.as_str()).collect());
        let listed = crate::apiservices::custom(&self.objects, &self.objects.served().custom_groups).await;
        for (index, before) in due {
            let Item { name, revision, crd } = &mut items[index];
            crate::fields::by_server(&crds, &before, crd, Some("status"));
            let saved = self.objects.save(&crds, crd, Expect::Revision(*revision)).await;
            // What could not be written is looked at again in the next pass.
            let now = saved.as_ref().map_or(0, |revision| *revision);
            if let Some(known) = self.known.get_mut(name).filter(|known| known.revision == *revision) {
                known.revision = now;
            }
            outcome = outcome.and(saved.map(|_| ()));
        }
        outcome.and(listed)
    }

    /// The names that one of the items gets beside all other CRDs of its group.
    fn names_accepted(&self, items: &[Item], looked_at: &HashSet<String>, index: usize) -> Names {
        let unchanged = self.known.iter().filter(|(name, _)| !looked_at.contains(*name)).map(|(_, known)| &known.stub);
        let changed = items.iter().enumerate().filter(|(at, _)| *at != index).map(|(_, item)| &item.crd);
        let group = &items[index].crd["spec"]["group"];
        crd::names_accepted(&items[index].crd, unchanged.chain(changed).filter(|other| other["spec"]["group"] == *group))
    }

    /// Deletes the instances of a CRD that is being deleted, then lets it go.
    async fn clean_up(&self, crds: &Arc<Served>, revision: u64, mut crd: Value) -> Result<Option<(u64, Value)>> {
        let storage = storage_of(&crd);
        let (group, plural) = (text(&crd, "/spec/group"), text(&crd, "/spec/names/plural"));
        let instances = self.objects.cache.resource(&storage).list(&Scope::default());
        let served = self.objects.served().any_version(&group, &plural).cloned();
        let mut left = 0;
        for entry in instances {
            let Some(served) = &served else { break };
            match self.end(served, &entry).await {
                Ok(true) => {}
                Ok(false) => left += 1,
                Err(error) if error.code == http::StatusCode::NOT_FOUND => {}
                Err(error) => {
                    tracing::debug!(%error, "an instance is not gone yet");
                    left += 1;
                }
            }
        }
        let established = served.is_some();
        if established && left > 0 {
            self.again.store(true, std::sync::atomic::Ordering::Relaxed);
            let condition = Condition {
                kind: "Terminating",
                status: true,
                reason: "InstanceDeletionInProgress",
                message: "CustomResource deletion is in progress".into(),
            };
            let before = crd.clone();
            deletion::set(&mut crd, &condition);
            if crd != before {
                let revision = self.objects.save(crds, &mut crd, Expect::Revision(revision)).await?;
                return Ok(Some((revision, crd)));
            }
            return Ok(Some((revision, crd)));
        }
        let mut finalizers = meta_list(&crd, "finalizers");
        finalizers.retain(|one| one != FINALIZER);
        if finalizers.is_empty() {
            self.objects.remove(crds, "", meta(&crd, "name"), revision).await?;
            return Ok(None);
        }
        metadata_mut(&mut crd).insert("finalizers".into(), finalizers.into());
        let revision = self.objects.save(crds, &mut crd, Expect::Revision(revision)).await?;
        Ok(Some((revision, crd)))
    }

    /// Deletes one instance; says whether it is gone.
    async fn end(&self, served: &Served, entry: &crate::entry::Entry) -> Result<bool> {
        let namespace = if served.facts.namespaced { entry.namespace() } else { "" };
        let mut value = entry.value();
        if meta_list(&value, "finalizers").is_empty() {
            self.objects.remove(served, namespace, entry.name(), entry.revision).await?;
            return Ok(true);
        }
        if meta(&value, "deletionTimestamp").is_empty() {
            let metadata = metadata_mut(&mut value);
            metadata.insert("deletionTimestamp".into(), crate::clock::now().into());
            metadata.insert("deletionGracePeriodSeconds".into(), 0.into());
            // Without conversion: a webhook that is gone must not hold what it served.
            let (api_version, kind) = (text(&value, "/apiVersion"), text(&value, "/kind"));
            let bytes = object::encode(&api_version, &kind, &value);
            let key = served.store_key(namespace, entry.name());
            self.objects.store.put(&key, bytes, Expect::Revision(entry.revision)).await.map_err(crate::error::store_error)?;
        }
        Ok(false)
    }

    /// Serves what these CRDs say, and what the others of those that are present said before.
    fn publish(&mut self, items: &[Item], present: &HashSet<&str>) {
        let before = self.known.len();
        self.known.retain(|name, _| present.contains(name.as_str()));
        let mut changed = self.objects.served().generation == 0 || self.known.len() != before;
        for Item { name, revision, crd } in items {
            let was_served = self.known.remove(name).is_some();
            if !crd::is_condition_true(crd, "Established") {
                changed |= was_served;
                continue;
            }
            changed = true;
            match Definition::parse(crd) {
                Ok(definition) => {
                    let served = serve(&definition, crd, &self.remotes).into_iter().map(Arc::new).collect();
                    // Names that were refused may become free, and a deletion has further steps: these are looked at each time.
                    let settled = crd::is_condition_true(crd, "NamesAccepted") && meta(crd, "deletionTimestamp").is_empty();
                    let revision = if settled { *revision } else { 0 };
                    self.known.insert(name.clone(), Known { revision, stub: stub(crd), served });
                }
                Err(error) => tracing::error!(crd = name, %error, "a stored CRD cannot be read"),
            }
        }
        if changed {
            self.replace_served();
        }
    }

    fn replace_served(&self) {
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for served in self.known.values().flat_map(|known| &known.served) {
            let Resource { group, version, .. } = &*served.facts;
            let versions = groups.entry(group.clone()).or_default();
            if !versions.contains(version) {
                versions.push(version.clone());
            }
        }
        for versions in groups.values_mut() {
            versions.sort_by(|left, right| crate::versions::compare(right, left));
        }
        let custom = self.known.values().flat_map(|known| known.served.iter().cloned()).collect();
        let next: Snapshot = self.objects.served().with_custom(custom, groups);
        self.objects.replace_served(next);
    }
}

/// A CRD with the status that it should have; `None` where it has it.
fn settled(crd: &Value, names: &Names) -> Option<Value> {
    let mut next = crd.clone();
    next["status"]["acceptedNames"] = names.accepted.to_json();
    let approval = crd::approval(crd);
    // A condition that was True before stays where it was, its time with it.
    for condition in [&names.names_accepted, &names.established].into_iter().chain(&approval) {
        deletion::set(&mut next, condition);
    }
    (next != *crd).then_some(next)
}

/// The part of a CRD that the names of others are weighed against.
fn stub(crd: &Value) -> Value {
    json!({
        "metadata": {"name": crd["metadata"]["name"], "creationTimestamp": crd["metadata"]["creationTimestamp"]},
        "spec": {"group": crd["spec"]["group"], "names": crd["spec"]["names"]},
        "status": {"acceptedNames": crd["status"]["acceptedNames"], "conditions": crd["status"]["conditions"]},
    })
}

fn storage_of(crd: &Value) -> String {
    format!("{}/{}", text(crd, "/spec/group"), text(crd, "/spec/names/plural"))
}

fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The hash that discovery shows of a kind's storage version.
fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let name = format!("{group}/{version}/{kind}");
    STANDARD.encode(&Sha256::digest(name.as_bytes())[..8])
}

fn serve(definition: &Definition, crd: &Value, remotes: &Arc<Remotes>) -> Vec<Served> {
    let converter = match &definition.conversion {
        Conversion::None => None,
        Conversion::Webhook(webhook) => Some(Arc::new(Converter::new(remotes.clone(), webhook))),
    };
    let schemas = super::version::schemas(definition);
    let storage: Arc<str> = format!("{}/{}", definition.group, definition.names.plural).into();
    let storage_version: Arc<str> = definition.storage_version().map_or("", |version| &version.name).into();
    let verbs = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    definition
        .versions
        .iter()
        .filter(|version| version.served)
        .map(|version| {
            let mut subresources = Vec::new();
            let sub_verbs = || ["get", "patch", "update"].map(str::to_owned).to_vec();
            if version.status {
                subresources.push(Subresource {
                    name: "status".into(),
                    kind: definition.names.kind.clone(),
                    verbs: sub_verbs(),
                    group: None,
                    version: None,
                });
            }
            if version.scale.is_some() {
                subresources.push(Subresource {
                    name: "scale".into(),
                    kind: "Scale".into(),
                    verbs: sub_verbs(),
                    group: Some("autoscaling".into()),
                    version: Some("v1".into()),
                });
            }
            let facts = Resource {
                group: definition.group.clone(),
                version: version.name.clone(),
                kind: definition.names.kind.clone(),
                plural: definition.names.plural.clone(),
                singular: definition.names.singular.clone(),
                short_names: definition.names.short_names.clone(),
                categories: definition.names.categories.clone(),
                namespaced: definition.namespaced,
                verbs: verbs.map(str::to_owned).to_vec(),
                subresources,
                storage_version_hash: Some(storage_version_hash(&definition.group, &storage_version, &definition.names.kind)),
            };
            let custom = CustomVersion::new(definition, version, crd, schemas.clone(), converter.clone());
            Served::new(facts, storage.clone(), storage_version.clone(), Some(Arc::new(custom)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Then, World};

    fn things() -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        })
    }

    /// KAPI-CRD-01: a CRD is established though the store fails in that moment; so is a further name of one that is served.
    #[tokio::test(flavor = "multi_thread")]
    async fn failures_are_not_the_end() {
        const KEY: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/things.example.com";
        let world = World::new(false).await;
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        // The first write is the client's.
        world.store.arrange(KEY, 1, Then::Refuse);
        world.store.arrange(KEY, 0, Then::Refuse);
        let (status, answer) = world.send("POST", crds, things()).await;
        assert_eq!(status, http::StatusCode::CREATED, "{answer}");
        let resource = "apiextensions.k8s.io/customresourcedefinitions";
        let is_established = |crd: Option<&Value>| crd.is_some_and(|crd| crd::is_condition_true(crd, "Established"));
        world.until(resource, "things.example.com", is_established).await;

        world.store.arrange(KEY, 1, Then::Refuse);
        world.store.arrange(KEY, 0, Then::Refuse);
        let (status, answer) =
            world.send("PATCH", &format!("{crds}/things.example.com"), json!({"spec": {"names": {"shortNames": ["th"]}}})).await;
        assert_eq!(status, http::StatusCode::OK, "{answer}");
        let is_accepted = |crd: Option<&Value>| crd.is_some_and(|crd| crd["status"]["acceptedNames"]["shortNames"] == json!(["th"]));
        world.until(resource, "things.example.com", is_accepted).await;
    }
    /// KAPI-CRD-01: whoever reads that a CRD is established can use its kind, even while the task that wrote it still waits for the answer.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_kind_is_served_before_its_crd_says_so() {
        const KEY: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/things.example.com";
        let world = World::new(false).await;
        let answer = Arc::new(tokio::sync::Semaphore::new(0));
        // The first write is the client's, the second one the status.
        world.store.arrange(KEY, 1, Then::AnswerLater(answer.clone()));
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let (status, told) = world.send("POST", crds, things()).await;
        assert_eq!(status, http::StatusCode::CREATED, "{told}");
        let is_established = |crd: Option<&Value>| crd.is_some_and(|crd| crd::is_condition_true(crd, "Established"));
        world.until("apiextensions.k8s.io/customresourcedefinitions", "things.example.com", is_established).await;
        let (status, told) = world.send("GET", "/apis/example.com/v1", Value::Null).await;
        assert_eq!((status, &told["resources"][0]["kind"]), (http::StatusCode::OK, &json!("Thing")), "{told}");
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "one"}});
        let (status, told) = world.send("POST", "/apis/example.com/v1/namespaces/default/things", thing).await;
        assert_eq!(status, http::StatusCode::CREATED, "{told}");
        answer.add_permits(1);
    }
}
