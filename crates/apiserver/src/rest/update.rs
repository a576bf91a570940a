//! update, and what every change of an object has in common: preconditions, preparation, admission, validation, finalizers.

use std::future::Future;
use std::sync::Arc;

use http::StatusCode;
use mainstay_store::Expect;
use serde_json::Value;

use super::create::create_object;
use super::{allocate, checks, devices};
use crate::admission::{Operation, Request};
use crate::api::Api;
use crate::context::Context;
use crate::error::{ApiError, Result};
use crate::object::{meta, metadata_mut};
use crate::request::RequestInfo;
use crate::request::negotiate;
use crate::request::options::WriteOptions;
use crate::respond::{self, Answer};
use crate::served::Served;
use crate::services::{Allocation, to_the_end};
use crate::stored::Loaded;
use crate::{fields, strategy};

/// The most further attempts of a change, if another request was faster each time.
pub(super) const RETRIES: usize = 5;

/// Replaces an object with the request's body.
pub async fn update(context: &Context, served: &Arc<Served>, sub: Option<&str>, body: &[u8]) -> Result<Answer> {
    let options = WriteOptions::parse(&context.request.query, "UpdateOptions", context.request.user_agent())?;
    let decoded = negotiate::decode(&context.request.headers, body, &served.facts.kind)?;
    let mut wanted = strategy::decode(&context.request, served, &served.gvk(), decoded, options.field_validation)?;
    name_matches(&context.request.info, &wanted)?;
    strategy::place(&context.request.info, served, &mut wanted)?;
    let given = strategy::given(served, &wanted);
    strategy::default(served, &mut wanted);
    if context.api.objects.load(served, &context.request.info.namespace, &context.request.info.name).await?.is_none()
        && sub.is_none()
        && strategy::created_by_update(served)
    {
        checks::may_create(context)?;
        fields::written(served, None, &mut wanted, &options.field_manager, None).await;
        let created = create_object(context, served, wanted, &options).await?;
        return respond::object(&context.request, served, StatusCode::CREATED, created);
    }
    let change = Change {
        sub,
        options: &options,
        name: &context.request.info.name,
        namespace: &context.request.info.namespace,
        patch: false,
        given: given.as_ref(),
    };
    let owners = fields::Owners::new(served, &options.field_manager, sub);
    let updated = update_object(context, served, &change, |live| {
        let (mut wanted, owners) = (wanted.clone(), &owners);
        async move {
            owners.written(Some(&live.value), &mut wanted).await;
            Ok(wanted)
        }
    })
    .await?;
    respond::object(&context.request, served, StatusCode::OK, updated)
}

/// Refuses an object that has no name, or another one than the path.
pub(super) fn name_matches(info: &RequestInfo, value: &Value) -> Result<()> {
    let name = meta(value, "name");
    if name.is_empty() {
        let shown = &info.name;
        return Err(ApiError::bad_request(format!(
            "the name of the object ({shown} based on URL) was undeterminable: name must be provided"
        )));
    }
    if name != info.name {
        return Err(ApiError::bad_request(format!("the name of the object ({name}) does not match the name on the URL ({})", info.name)));
    }
    Ok(())
}

/// A change of an object.
pub struct Change<'a> {
    /// The subresource.
    pub sub: Option<&'a str>,
    /// The options.
    pub options: &'a WriteOptions,
    /// The object.
    pub namespace: &'a str,
    /// The object.
    pub name: &'a str,
    /// Set for a patch: it follows the object wherever it does not name a revision.
    pub patch: bool,
    /// The new object as it came, for findings, if it has empty lists or maps.
    pub given: Option<&'a Value>,
}

/// Changes an object: `wanted` makes the new one from the live one, with its managed fields. Tried again when somebody else was
/// faster, unless the new object insists on a resourceVersion.
pub async fn update_object<F, W>(context: &Context, served: &Arc<Served>, change: &Change<'_>, wanted: F) -> Result<Value>
where
    F: Fn(Loaded) -> W,
    W: Future<Output = Result<Value>>,
{
    let mut attempt = 0;
    loop {
        let live = context.api.objects.require(served, change.namespace, change.name).await?;
        let new = wanted(live.clone()).await?;
        match apply(context, served, change, &live, new).await {
            Err(Refused { error, retry: true }) if attempt < RETRIES => {
                tracing::debug!(%error, "changed by another client meanwhile");
                attempt += 1;
            }
            Err(refused) => return Err(refused.error),
            Ok(value) => return Ok(value),
        }
    }
}

struct Refused {
    error: ApiError,
    /// Set if the same change may succeed on the object as it is now.
    retry: bool,
}

impl From<ApiError> for Refused {
    fn from(error: ApiError) -> Self {
        Self { error, retry: false }
    }
}

async fn apply(context: &Context, served: &Arc<Served>, change: &Change<'_>, live: &Loaded, mut new: Value) -> Result<Value, Refused> {
    let unconditional = preconditions(served, change, live, &new)?;
    inherit(&mut new, &live.value);
    let request = Request {
        subresource: change.sub.unwrap_or_default(),
        namespace: change.namespace.to_owned(),
        name: change.name.to_owned(),
        old: Some(&live.value),
        dry_run: change.options.dry_run,
        ..Request::new(&context.request, &context.api.lookup, served, Operation::Update)
    };
    context.api.admission.mutate(&request, &mut new).await?;
    strategy::prepare_update(&context.request.user, served, &mut new, &live.value, change.sub);
    let allocation = allocate::before_update(&context.api, served, &mut new, &live.value, change.options.dry_run).await?;
    let outcome = match check(context, &request, change, &new).await {
        Ok(()) => {
            let stored = store(context, served, change, live, new, allocation).await;
            stored.map_err(|error| Refused { retry: unconditional && error.code == StatusCode::CONFLICT, error })
        }
        Err(refusal) => {
            allocation.give_back().await;
            Err(refusal.into())
        }
    };
    if outcome.is_err() {
        context.api.admission.abandon(&request).await;
    }
    outcome
}

/// Checks whether what an update makes of an object may be stored.
async fn check(context: &Context, request: &Request<'_>, change: &Change<'_>, new: &Value) -> Result<()> {
    let served = request.served;
    let facts = &served.facts;
    checks::check_depth(new)?;
    if let Some(old) = request.old {
        let mut errors: Vec<_> = devices::admin_access(request, new, Some(old), change.sub).await?.into_iter().collect();
        errors.extend(strategy::validate_changed(served, new, old, change.sub, change.given));
        if !errors.is_empty() {
            return Err(ApiError::invalid_fields(facts.go_group(), &facts.kind, change.name, &errors));
        }
    }
    for warning in strategy::warnings(served, new, request.old, change.sub) {
        context.request.warn(warning);
    }
    context.api.admission.validate(request, Some(new)).await
}

/// Stores what was admitted, to the end where what it was given depends on it.
async fn store(
    context: &Context,
    served: &Arc<Served>,
    change: &Change<'_>,
    live: &Loaded,
    mut new: Value,
    allocation: Allocation,
) -> Result<Value> {
    if change.options.dry_run || !strategy::allocates(served) {
        let place = (change.namespace, change.name);
        replace(&context.api, served, place, live, &mut new, allocation, change.options.dry_run).await?;
        return Ok(new);
    }
    let (api, served, live) = (context.api.clone(), served.clone(), live.clone());
    let (namespace, name) = (change.namespace.to_owned(), change.name.to_owned());
    to_the_end(async move {
        replace(&api, &served, (&namespace, &name), &live, &mut new, allocation, false).await?;
        Ok(new)
    })
    .await
}

/// Puts an object in the place of what it was; what was waiting for its finalizers only goes.
async fn replace(
    api: &Api,
    served: &Served,
    (namespace, name): (&str, &str),
    live: &Loaded,
    new: &mut Value,
    allocation: Allocation,
    dry_run: bool,
) -> Result<()> {
    let version = live.revision.to_string();
    if super::delete::is_finished(served, new, &live.value) {
        allocation.give_back().await;
        if !dry_run {
            api.objects.remove(served, namespace, name, live.revision).await?;
            allocate::release(api, served, &live.value, None).await;
        }
        metadata_mut(new).insert("resourceVersion".into(), version.into());
        return Ok(());
    }
    strategy::stored_form(served, new);
    fields::keep_times(new, &live.value);
    metadata_mut(new).insert("resourceVersion".into(), version.into());
    if *new == live.value && !live.outdated || dry_run {
        return Ok(());
    }
    let saved = api.objects.save(served, new, Expect::Revision(live.revision)).await;
    allocation.settle(saved.as_ref().err()).await;
    saved?;
    allocate::release(api, served, &live.value, Some(new)).await;
    Ok(())
}

/// Checks the uid and the resourceVersion that the new object names; says whether it names no resourceVersion.
fn preconditions(served: &Served, change: &Change<'_>, live: &Loaded, new: &Value) -> Result<bool> {
    let facts = &served.facts;
    let name = meta(&live.value, "name");
    let uid = meta(new, "uid");
    if !change.patch && !uid.is_empty() && uid != meta(&live.value, "uid") {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            strategy::shown_key(served, &live.value),
            meta(&live.value, "uid")
        );
        return Err(ApiError::conflict(&facts.group, &facts.plural, name, &why));
    }
    let version = meta(new, "resourceVersion");
    if version.is_empty() || version == "0" {
        if !change.patch && !strategy::unconditional_update(served) {
            let cause = mainstay_schema::field::Error::invalid(
                &mainstay_schema::field::Path::new("metadata.resourceVersion"),
                serde_json::json!(0),
                "must be specified for an update",
            );
            return Err(ApiError::invalid_fields(&facts.group, &facts.plural, name, &[cause]));
        }
        return Ok(true);
    }
    match version.parse::<u64>() {
        Ok(version) if version == live.revision => Ok(false),
        Ok(_) => Err(ApiError::modified(&facts.group, &facts.plural, name)),
        Err(_) => Err(ApiError::untyped(format!("strconv.ParseUint: parsing {version:?}: invalid syntax"))),
    }
}

/// Keeps the fields that no writer may change.
fn inherit(new: &mut Value, live: &Value) {
    let before = |field: &'static str| (field, live["metadata"].get(field).cloned());
    let metadata = metadata_mut(new);
    metadata.remove("selfLink");
    if metadata.get("uid").is_none_or(|uid| uid == "") {
        metadata.insert("uid".into(), live["metadata"]["uid"].clone());
    }
    if let (field, Some(created)) = before("creationTimestamp") {
        metadata.insert(field.into(), created);
    }
    // Whether an object is being deleted is not for writers to say: where it is not, saying so is an error that validation finds.
    for (field, value) in [before("deletionTimestamp"), before("deletionGracePeriodSeconds")] {
        match value {
            Some(value) => metadata.insert(field.into(), value),
            None if metadata.get(field).is_some_and(Value::is_null) => metadata.remove(field),
            None => None,
        };
    }
    if metadata.get("generation").is_none_or(|generation| generation.as_i64() == Some(0))
        && let Some(generation) = live["metadata"].get("generation")
    {
        metadata.insert("generation".into(), generation.clone());
    }
}
