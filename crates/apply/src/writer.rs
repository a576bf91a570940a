//! The writer: every verb that controllers use, as one identity.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{TryStreamExt, pin_mut};
use http::{Method, Request};
use kube::core::{GroupVersionKind, WatchEvent};
use mainstay_objects::{Expect, Health, ObjectError, ObjectRef, Owner, Patch, Propagation, Until, asks_to_be_kept, health, meta};
use mainstay_runtime::{Kinds, Served};
use serde_json::{Value, json};

use crate::managed::{adopted, created_as_applied};
use crate::request::{Answer, Call, collection, path, with_query};
use crate::{Effect, Reason, Verb, WriteError};

/// Pause before another request to a server that ends watches at once, or does not name a kind yet.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// Number of attempts to write an object whose status changed meanwhile.
const LOOKS: usize = 5;
/// A version that no object has.
const NO_VERSION: &str = "9223372036854775807";

/// A writer with one identity. Cloning is cheap.
#[derive(Clone)]
pub struct Writer {
    client: kube::Client,
    kinds: Kinds,
    manager: String,
    dry_run: bool,
    warnings: Option<Warnings>,
}

/// The API server's warnings about the writes of a [`Writer`]. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Takes the warnings since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, warnings: Vec<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(warnings);
    }
}

/// The outcome of a prune.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Objects that were deleted.
    pub deleted: Vec<ObjectRef>,
    /// Objects that were left alone, with the reason.
    pub kept: Vec<(ObjectRef, String)>,
}

impl Writer {
    /// Creates a writer with the identity of `client`, whose applies own fields as `manager`.
    pub fn new(client: kube::Client, kinds: Kinds, manager: impl Into<String>) -> Self {
        Self { client, kinds, manager: manager.into(), dry_run: false, warnings: None }
    }

    /// Returns the same writer for dry runs: the server reports the outcome of its writes and does not keep them.
    #[must_use]
    pub fn dry(&self) -> Self {
        Self { dry_run: true, ..self.clone() }
    }

    /// Returns the same writer, which notes the server's warnings.
    #[must_use]
    pub fn noting(&self, warnings: &Warnings) -> Self {
        Self { warnings: Some(warnings.clone()), ..self.clone() }
    }

    /// Returns whether its writes are dry runs.
    pub fn is_dry(&self) -> bool {
        self.dry_run
    }

    /// Returns the client that it writes with.
    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    /// Returns the object as it is; `None` if it does not exist.
    pub async fn get(&self, object: &ObjectRef) -> Result<Option<Value>, WriteError> {
        let served = self.served(object).await?;
        match self.call(Verb::Get, Method::GET, object, &served, "", None).await {
            Ok(answer) => Ok(Some(answer.object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lists the objects of a kind in all namespaces, page by page, at most `most` of them.
    pub async fn list(&self, kind: &kube::api::GroupVersionKind, most: usize) -> Result<Vec<Value>, WriteError> {
        const PAGE: usize = 500;
        let version = if kind.group.is_empty() { kind.version.clone() } else { format!("{}/{}", kind.group, kind.version) };
        let place = ObjectRef { api_version: version, kind: kind.kind.clone(), namespace: String::new(), name: String::new() };
        let served = self.kinds.served(kind).await.map_err(|source| WriteError::Kind { object: Box::new(place.clone()), source })?;
        let mut all: Vec<Value> = Vec::new();
        let mut page: Option<String> = None;
        loop {
            let mut query = vec![("limit", PAGE.min(most.saturating_sub(all.len()).max(1)).to_string())];
            query.extend(page.take().map(|page| ("continue", page)));
            let call = Call {
                verb: Verb::List,
                method: Method::GET,
                object: &place,
                path: collection(&served),
                query,
                content_type: "",
                body: None,
            };
            let mut list = self.send(call).await?.object;
            page = list.pointer("/metadata/continue").and_then(Value::as_str).filter(|page| !page.is_empty()).map(str::to_owned);
            for mut item in list.get_mut("items").and_then(Value::as_array_mut).into_iter().flat_map(std::mem::take) {
                if let Value::Object(item) = &mut item {
                    // Items of a list omit the fields that they all share.
                    item.insert("kind".into(), Value::String(place.kind.clone()));
                    item.insert("apiVersion".into(), Value::String(place.api_version.clone()));
                }
                all.push(item);
            }
            if page.is_none() || all.len() >= most {
                return Ok(all);
            }
        }
    }

    /// Creates an object that must not exist yet. The server may make its name from `metadata.generateName`.
    pub async fn create(&self, object: &Value) -> Result<Value, WriteError> {
        let place = ObjectRef::to_create(object)?;
        let served = self.served(&place).await?;
        let call = self.prepared(Verb::Create, Method::POST, &place, &served, "", Some(object), true);
        Ok(self.send(call).await?.object)
    }

    /// Creates an object that must not exist yet by a request that names it, as server-side apply does. Authorizers see the name, which a
    /// POST does not have, so that permissions that are limited to it count.
    ///
    /// If the object exists, the server compares its version with one that no object has: the object is left as it is, and the answer is
    /// [`Reason::AlreadyExists`], as that of [`Writer::create`].
    pub async fn create_named(&self, object: &Value) -> Result<Value, WriteError> {
        let never = Expect { resource_version: Some(NO_VERSION.to_owned()), ..Expect::default() };
        match self.apply_once(object, true, &never).await {
            Ok((made, _)) => Ok(made),
            Err(WriteError::Refused { object, reason: Reason::Conflict, .. }) => {
                let message = format!("{} {:?} already exists", object.kind, object.name);
                Err(WriteError::Refused { verb: Verb::Create, object, reason: Reason::AlreadyExists, message })
            }
            Err(error) => Err(error),
        }
    }

    /// Creates the object, or sets its fields as given, by server-side apply. Fields that the same manager wrote by [`Writer::create`]
    /// count as applied: they are removed if they are no longer given.
    pub async fn apply(&self, object: &Value, force: bool, expect: &Expect) -> Result<(Value, Effect), WriteError> {
        let (applied, effect) = match self.apply_expecting(object, force, expect).await {
            Err(error) if matches!(error.reason(), Some(Reason::Invalid(_))) && !self.dry_run => {
                self.apply_over_created(object, force, expect, error).await?
            }
            outcome => outcome?,
        };
        let Some(managed) = adopted(&applied, &self.manager).filter(|_| !self.dry_run) else { return Ok((applied, effect)) };
        let live = self.manage(&applied, managed).await?;
        // Another process of the same manager may write in between: an apply that expects the object exactly would take its fields away.
        let expect = if expect.resource_version.is_some() { Expect::as_seen(&live) } else { Expect::uid_of(&live) };
        let (applied, _) = self.apply_expecting(object, force, &expect).await?;
        Ok((applied, Effect::Applied))
    }

    /// Applies once more with the fields that this manager created counted as applied. Otherwise fields that are no longer given stay
    /// beside those that replace them, and may make the object invalid, as a second port without a name does.
    async fn apply_over_created(
        &self,
        object: &Value,
        force: bool,
        expect: &Expect,
        refusal: WriteError,
    ) -> Result<(Value, Effect), WriteError> {
        let Some(live) = self.get(&ObjectRef::of(object)?).await? else { return Err(refusal) };
        let seen = match &expect.content {
            Some(_) => expect.renewed(&live).is_some(),
            None => expect.members().all(|(key, value)| meta(&live, key).as_ref() == Some(value)),
        };
        let (true, Some(managed)) = (seen, created_as_applied(&live, &self.manager)) else { return Err(refusal) };
        let live = self.manage(&live, managed).await?;
        let expect = if expect.content.is_some() { expect.renewed(&live).ok_or(refusal)? } else { Expect::uid_of(&live) };
        self.apply_expecting(object, force, &expect).await
    }

    /// Writes an object's managed fields, unless the object has changed since.
    async fn manage(&self, live: &Value, managed: Vec<Value>) -> Result<Value, WriteError> {
        let mut meta_patch = json!({"managedFields": managed});
        for (key, value) in Expect::exactly(live).members() {
            meta_patch[key] = Value::String(value.clone());
        }
        self.patch(&ObjectRef::of(live)?, "", &Patch::Merge(json!({"metadata": meta_patch}))).await
    }

    /// Applies an object; a conflict with only a status that was reported meanwhile is no conflict.
    async fn apply_expecting(&self, object: &Value, force: bool, expect: &Expect) -> Result<(Value, Effect), WriteError> {
        let mut expect = expect.clone();
        for _ in 0..LOOKS {
            match self.apply_once(object, force, &expect).await {
                Err(error) if error.reason() == Some(&Reason::Conflict) && expect.content.is_some() => {
                    let live = self.get(&ObjectRef::of(object)?).await?;
                    expect = live.as_ref().and_then(|live| expect.renewed(live)).ok_or(error)?;
                }
                outcome => return outcome,
            }
        }
        self.apply_once(object, force, &expect).await
    }

    async fn apply_once(&self, object: &Value, force: bool, expect: &Expect) -> Result<(Value, Effect), WriteError> {
        let place = ObjectRef::of(object)?;
        let served = self.served(&place).await?;
        // Only preconditions make the body differ from the object.
        let mut body = Cow::Borrowed(object);
        for (key, value) in expect.members() {
            if let Some(Value::Object(meta)) = body.to_mut().get_mut("metadata") {
                meta.insert(key.to_owned(), Value::String(value.clone()));
            }
        }
        let mut call = self.prepared(Verb::Apply, Method::PATCH, &place, &served, "", Some(&*body), false);
        call.content_type = "application/apply-patch+yaml";
        call.query.push(("force", force.to_string()));
        let answer = self.send(call).await?;
        let unchanged = expect.resource_version.is_some() && expect.resource_version == meta(&answer.object, "resourceVersion");
        let effect = match (answer.created, unchanged) {
            (true, _) => Effect::Created,
            (false, true) => Effect::Unchanged,
            (false, false) => Effect::Applied,
        };
        Ok((answer.object, effect))
    }

    /// Applies an object that must be the owner's or new: marks it, checks whether it exists, and refuses to take over an object of another
    /// owner (OLM1-OWN-01). Conflicts with other field managers are won.
    pub async fn apply_owned(&self, object: &Value, owner: &Owner) -> Result<(Value, Effect), WriteError> {
        let mut wanted = object.clone();
        owner.mark(&mut wanted);
        let live = self.get(&ObjectRef::of(object)?).await?;
        let Some(live) = live else {
            let (object, effect) = self.apply(&wanted, true, &Expect::default()).await?;
            return Ok((object, effect));
        };
        owner.check(&live)?;
        // The uid is expected: an object that was created since may have another owner.
        let (applied, effect) = self.apply(&wanted, true, &Expect::uid_of(&live)).await?;
        let unchanged = meta(&applied, "resourceVersion") == meta(&live, "resourceVersion");
        Ok((applied, if unchanged { Effect::Unchanged } else { effect }))
    }

    /// Patches an object or its subresource (empty for none).
    pub async fn patch(&self, object: &ObjectRef, subresource: &str, patch: &Patch) -> Result<Value, WriteError> {
        let served = self.served(object).await?;
        let (content_type, body) = match patch {
            Patch::Json(body) => ("application/json-patch+json", body),
            Patch::Merge(body) => ("application/merge-patch+json", body),
            Patch::Strategic(body) => ("application/strategic-merge-patch+json", body),
        };
        let mut call = self.prepared(Verb::Patch, Method::PATCH, object, &served, subresource, Some(body), false);
        call.content_type = content_type;
        Ok(self.send(call).await?.object)
    }

    /// Replaces an object by one that was made of it, which has the version that it was made from.
    pub async fn replace(&self, object: &Value) -> Result<Value, WriteError> {
        let place = ObjectRef::of(object)?;
        let served = self.served(&place).await?;
        let call = self.prepared(Verb::Replace, Method::PUT, &place, &served, "", Some(object), false);
        Ok(self.send(call).await?.object)
    }

    /// Deletes an object; `false` if it did not exist.
    pub async fn delete(&self, object: &ObjectRef, expect: &Expect, propagation: Propagation) -> Result<bool, WriteError> {
        let served = match self.served(object).await {
            Ok(served) => served,
            // The objects of a kind that is gone are gone with it.
            Err(WriteError::Kind { source: mainstay_runtime::KindError::NotServed { .. }, .. }) => return Ok(false),
            Err(other) => return Err(other),
        };
        let policy = match propagation {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        };
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy});
        if self.dry_run {
            // The server reads options from the body if there is one, and then not from the query.
            options["dryRun"] = json!(["All"]);
        }
        let mut expect = expect.clone();
        let mut looks = LOOKS;
        loop {
            let preconditions: serde_json::Map<String, Value> =
                expect.members().map(|(key, value)| (key.to_owned(), Value::String(value.clone()))).collect();
            if !preconditions.is_empty() {
                options["preconditions"] = Value::Object(preconditions);
            }
            match self.call(Verb::Delete, Method::DELETE, object, &served, "", Some(&options)).await {
                Ok(_) => return Ok(true),
                Err(error) if error.is_not_found() => return Ok(false),
                Err(error) if error.reason() == Some(&Reason::Conflict) && expect.content.is_some() && looks > 0 => {
                    looks -= 1;
                    let Some(live) = self.get(object).await? else { return Ok(false) };
                    expect = expect.renewed(&live).ok_or(error)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes a status if it differs from that of `live`, which must not have changed since; `None` if it does not differ.
    pub async fn update_status(&self, live: &Value, status: &Value) -> Result<Option<Value>, WriteError> {
        if live.get("status").unwrap_or(&Value::Null) == status {
            return Ok(None);
        }
        let place = ObjectRef::of(live)?;
        let served = self.served(&place).await?;
        let mut object = live.clone();
        if let Value::Object(map) = &mut object {
            map.insert("status".into(), status.clone());
        }
        let answer = self.call(Verb::UpdateStatus, Method::PUT, &place, &served, "status", Some(&object)).await?;
        Ok(Some(answer.object))
    }

    /// Writes the status of an object that is made if it is not there. Returns the object before and its status after; `None` if nothing changed.
    pub async fn keep_status(&self, own: &Value, status: impl FnOnce(&Value) -> Value) -> Result<Option<(Value, Value)>, WriteError> {
        let live = match self.get(&ObjectRef::of(own)?).await? {
            Some(live) => live,
            None => self.create(own).await?,
        };
        let status = status(&live);
        Ok(self.update_status(&live, &status).await?.map(|_| (live, status)))
    }

    /// Adds a finalizer at the end; `None` if it is there already.
    pub async fn add_finalizer(&self, live: &Value, finalizer: &str) -> Result<Option<Value>, WriteError> {
        let mut all = finalizers(live);
        if all.iter().any(|own| own == finalizer) {
            return Ok(None);
        }
        all.push(finalizer.to_owned());
        self.set_finalizers(live, &all).await.map(Some)
    }

    /// Removes a finalizer; `None` if it is not there, or the object is gone.
    pub async fn remove_finalizer(&self, live: &Value, finalizer: &str) -> Result<Option<Value>, WriteError> {
        let mut all = finalizers(live);
        let before = all.len();
        all.retain(|own| own != finalizer);
        if all.len() == before {
            return Ok(None);
        }
        match self.set_finalizers(live, &all).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn set_finalizers(&self, live: &Value, all: &[String]) -> Result<Value, WriteError> {
        // A merge patch replaces lists as a whole: the version protects finalizers of others.
        let mut meta_patch = json!({"finalizers": all});
        for (key, value) in Expect::exactly(live).members() {
            meta_patch[key] = Value::String(value.clone());
        }
        self.patch(&ObjectRef::of(live)?, "", &Patch::Merge(json!({"metadata": meta_patch}))).await
    }

    /// Deletes those of `objects` that exist and are the owner's, in the given order.
    pub async fn prune(&self, objects: &[ObjectRef], owner: &Owner) -> Result<Pruned, WriteError> {
        let mut done = Pruned::default();
        for object in objects {
            let live = match self.get(object).await {
                Ok(Some(live)) => live,
                Ok(None) | Err(WriteError::Kind { source: mainstay_runtime::KindError::NotServed { .. }, .. }) => continue,
                Err(error) => return Err(error),
            };
            if asks_to_be_kept(&live) {
                done.kept.push((object.clone(), "it asks to be kept (helm.sh/resource-policy)".into()));
            } else if let Err(other) = owner.check(&live) {
                let whose = other.owner.map_or_else(|| "nobody's".to_owned(), |(kind, name)| format!("of {kind} {name}"));
                done.kept.push((object.clone(), format!("it is {whose}")));
            } else if self.delete(object, &Expect::uid_of(&live), Propagation::Background).await? {
                done.deleted.push(object.clone());
            }
        }
        Ok(done)
    }

    /// Waits until the object is in the awaited state; returns its last state.
    pub async fn wait(&self, object: &ObjectRef, until: &Until, timeout: Duration) -> Result<Value, WriteError> {
        let mut state = "nothing is known of it".to_owned();
        let reached = async {
            let live = self.watch_until(object, until, &mut state).await?;
            if *until == Until::Healthy && object.kind == "CustomResourceDefinition" {
                self.named(&live, &mut state).await?;
            }
            Ok(live)
        };
        let outcome = tokio::time::timeout(timeout, reached).await;
        outcome.unwrap_or_else(|_| Err(WriteError::TimedOut { object: Box::new(object.clone()), seconds: timeout.as_secs(), state }))
    }

    /// Waits until discovery names the kinds of an established CRD. A server may write the condition a moment earlier, and one of several
    /// servers may lag behind the others.
    async fn named(&self, crd: &Value, state: &mut String) -> Result<(), WriteError> {
        let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
        for version in versions.filter(|version| version["served"] == true).filter_map(|version| version["name"].as_str()) {
            let gvk = GroupVersionKind::gvk(&text("/spec/group"), version, &text("/spec/names/kind"));
            while let Err(error) = self.kinds.served(&gvk).await {
                *state = error.to_string();
                tokio::time::sleep(ASK_AGAIN).await;
            }
        }
        Ok(())
    }

    async fn watch_until(&self, object: &ObjectRef, until: &Until, state: &mut String) -> Result<Value, WriteError> {
        let served = self.served(object).await?;
        let selector = ("fieldSelector", format!("metadata.name={}", object.name));
        loop {
            let list = Call {
                verb: Verb::Get,
                method: Method::GET,
                object,
                path: path(&served, &object.namespace, "", ""),
                query: vec![selector.clone()],
                content_type: "",
                body: None,
            };
            let mut list = self.send(list).await?.object;
            let version = list.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
            let mut live = list.get_mut("items").and_then(Value::as_array_mut).and_then(Vec::pop);
            if let Some(Value::Object(live)) = &mut live {
                // Items of a list omit the fields that they all share.
                live.insert("kind".into(), Value::String(object.kind.clone()));
                live.insert("apiVersion".into(), Value::String(object.api_version.clone()));
            }
            if let Some(done) = settled(object, live.as_ref(), until, state)? {
                return Ok(done);
            }
            let query = [selector.clone(), ("watch", "true".into()), ("resourceVersion", version), ("timeoutSeconds", "290".into())];
            let uri = with_query(path(&served, &object.namespace, "", ""), &query);
            let request = Request::get(uri).body(Vec::new()).map_err(|error| WriteError::Answer {
                verb: Verb::Watch,
                object: Box::new(object.clone()),
                problem: error.to_string(),
            })?;
            let unreachable = |source: kube::Error| WriteError::Unreachable {
                verb: Verb::Watch,
                object: Box::new(object.clone()),
                source: Box::new(source),
            };
            let events = self.client.request_events::<Value>(request).await.map_err(unreachable)?;
            pin_mut!(events);
            // After the end of a watch, or an event that cannot be read, the object is read again.
            while let Ok(Some(event)) = events.try_next().await {
                let live = match event {
                    WatchEvent::Added(live) | WatchEvent::Modified(live) => Some(live),
                    WatchEvent::Deleted(_) => None,
                    WatchEvent::Bookmark(_) => continue,
                    WatchEvent::Error(_) => break,
                };
                if let Some(done) = settled(object, live.as_ref(), until, state)? {
                    return Ok(done);
                }
            }
            // Without a pause, a server that ends watches at once would be asked continuously.
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    async fn send(&self, call: Call<'_>) -> Result<Answer, WriteError> {
        let mut answer = call.send(&self.client).await?;
        if let Some(warnings) = &self.warnings {
            warnings.add(std::mem::take(&mut answer.warnings));
        }
        Ok(answer)
    }

    async fn served(&self, object: &ObjectRef) -> Result<Served, WriteError> {
        let served =
            self.kinds.served(&crate::gvk(object)).await.map_err(|source| WriteError::Kind { object: Box::new(object.clone()), source })?;
        if served.namespaced && object.namespace.is_empty() {
            return Err(ObjectError("metadata.namespace, and its kind lives in namespaces").into());
        }
        Ok(served)
    }

    async fn call(
        &self,
        verb: Verb,
        method: Method,
        object: &ObjectRef,
        served: &Served,
        subresource: &str,
        body: Option<&Value>,
    ) -> Result<Answer, WriteError> {
        self.send(self.prepared(verb, method, object, served, subresource, body, false)).await
    }

    #[allow(clippy::too_many_arguments, reason = "one request has these parts")]
    fn prepared<'a>(
        &self,
        verb: Verb,
        method: Method,
        object: &'a ObjectRef,
        served: &Served,
        subresource: &str,
        body: Option<&'a Value>,
        collection: bool,
    ) -> Call<'a> {
        let mut query = Vec::new();
        if verb != Verb::Get {
            if verb != Verb::Delete {
                query.push(("fieldManager", self.manager.clone()));
            }
            if self.dry_run {
                query.push(("dryRun", "All".to_owned()));
            }
        }
        let name = if collection { "" } else { &object.name };
        Call {
            verb,
            method,
            object,
            path: path(served, &object.namespace, name, subresource),
            query,
            content_type: "application/json",
            body,
        }
    }
}

/// Returns the object if it is in the awaited state; otherwise `state` describes its present one.
fn settled(object: &ObjectRef, live: Option<&Value>, until: &Until, state: &mut String) -> Result<Option<Value>, WriteError> {
    let Some(live) = live else {
        "it does not exist".clone_into(state);
        return Ok((*until == Until::Gone).then_some(Value::Null));
    };
    match until {
        Until::Gone => {
            "it still exists".clone_into(state);
            Ok(None)
        }
        Until::Healthy => match health(live) {
            Health::Ready => Ok(Some(live.clone())),
            Health::Waiting(what) => {
                *state = what;
                Ok(None)
            }
            Health::Failed(what) => Err(WriteError::Unhealthy { object: Box::new(object.clone()), state: what }),
        },
        Until::Condition { name, status } => {
            let conditions = live.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
            let found = conditions.into_iter().find(|condition| condition.get("type").is_some_and(|kind| kind == name.as_str()));
            let own = found.and_then(|condition| condition.get("status")).and_then(Value::as_str);
            *state = format!("condition {name} is {}", own.unwrap_or("not reported"));
            Ok((own == Some(status.as_str())).then(|| live.clone()))
        }
    }
}

fn finalizers(object: &Value) -> Vec<String> {
    let all = object.pointer("/metadata/finalizers").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(Value::as_str).map(str::to_owned).collect()
}
