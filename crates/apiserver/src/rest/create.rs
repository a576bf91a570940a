//! create: from a body to a stored object.

use std::sync::Arc;

use http::StatusCode;
use mainstay_store::Expect;
use serde_json::Value;

use super::{allocate, checks, devices};
use crate::admission::{Operation, Request};
use crate::api::Api;
use crate::context::Context;
use crate::error::{ApiError, Result};
use crate::object::{generate_name, meta, metadata_mut};
use crate::request::negotiate;
use crate::request::options::WriteOptions;
use crate::respond::{self, Answer};
use crate::served::Served;
use crate::services::to_the_end;
use crate::{fields, strategy};

/// The most attempts to generate a name that is free.
const GENERATED: usize = 8;

/// Creates the object of a request's body.
pub async fn create(context: &Context, served: &Arc<Served>, body: &[u8]) -> Result<Answer> {
    let options = WriteOptions::parse(&context.request.query, "CreateOptions", context.request.user_agent())?;
    let decoded = negotiate::decode(&context.request.headers, body, &served.facts.kind)?;
    let mut value = strategy::decode(&context.request, served, &served.gvk(), decoded, options.field_validation)?;
    strategy::place(&context.request.info, served, &mut value)?;
    if !meta(&value, "resourceVersion").is_empty() {
        return Err(ApiError::untyped("resourceVersion should not be set on objects to be created"));
    }
    let given = strategy::given(served, &value);
    strategy::default(served, &mut value);
    not_for_writers(&mut value);
    fields::written(served, None, &mut value, &options.field_manager, None).await;
    let created = create_given(context, served, value, given.as_ref(), &options).await?;
    respond::object(&context.request, served, StatusCode::CREATED, created)
}

/// Admits, checks and stores an object that was decoded, defaulted and has its managed fields.
pub async fn create_object(context: &Context, served: &Arc<Served>, value: Value, options: &WriteOptions) -> Result<Value> {
    create_given(context, served, value, None, options).await
}

/// The same of an object that came as `given`.
async fn create_given(
    context: &Context,
    served: &Arc<Served>,
    mut value: Value,
    given: Option<&Value>,
    options: &WriteOptions,
) -> Result<Value> {
    let facts = &served.facts;
    checks::not_while_terminating(context, served, meta(&value, "name"))?;
    let generated = meta(&value, "name").is_empty() && !meta(&value, "generateName").is_empty();
    system_fields(&mut value);
    let allocation = value;
    let mut attempt = 0;
    loop {
        let mut value = allocation.clone();
        if generated {
            let name = generate_name(meta(&value, "generateName"));
            metadata_mut(&mut value).insert("name".into(), name.into());
        }
        let request = Request {
            namespace: meta(&value, "namespace").to_owned(),
            name: meta(&value, "name").to_owned(),
            dry_run: options.dry_run,
            ..Request::new(&context.request, &context.api.lookup, served, Operation::Create)
        };
        context.api.admission.mutate(&request, &mut value).await?;
        strategy::prepare_create(&context.request, served, &mut value);
        checks::check_depth(&value)?;
        let mut errors: Vec<_> = devices::admin_access(&request, &value, None, None).await?.into_iter().collect();
        errors.extend(strategy::validate_new(served, &value, given));
        if !errors.is_empty() {
            return Err(ApiError::invalid_fields(facts.go_group(), &facts.kind, meta(&value, "name"), &errors));
        }
        for warning in strategy::warnings(served, &value, None, None) {
            context.request.warn(warning);
        }
        context.api.admission.validate(&request, Some(&value)).await?;
        match store(context, served, &mut value, options.dry_run).await {
            Ok(()) => return Ok(value),
            Err(error) => {
                context.api.admission.abandon(&request).await;
                attempt += 1;
                if error.reason != "AlreadyExists" {
                    return Err(error);
                }
                if !generated || attempt == GENERATED {
                    return Err(taken(error, &allocation));
                }
            }
        }
    }
}

/// The refusal of a name that is taken; a generated one may be asked for again.
fn taken(error: ApiError, allocation: &Value) -> ApiError {
    if meta(allocation, "generateName").is_empty() {
        return error;
    }
    let message = format!("{}, the server was not able to generate a unique name for the object", error.message);
    ApiError { message, ..error }.retry_after(1)
}

/// Stores what was admitted, with the addresses and ports that it is allocation.
async fn store(context: &Context, served: &Arc<Served>, value: &mut Value, dry_run: bool) -> Result<()> {
    let allocation = allocate::before_create(&context.api, served, value, dry_run).await?;
    if dry_run || !strategy::allocates(served) {
        return insert(&context.api, served, value, dry_run).await;
    }
    let (api, served, mut object) = (context.api.clone(), served.clone(), value.clone());
    let stored = to_the_end(async move {
        let outcome = insert(&api, &served, &mut object, false).await;
        allocation.settle(outcome.as_ref().err()).await;
        outcome.map(|()| object)
    });
    *value = stored.await?;
    Ok(())
}

async fn insert(api: &Api, served: &Served, value: &mut Value, dry_run: bool) -> Result<()> {
    let (namespace, name) = (meta(value, "namespace").to_owned(), meta(value, "name").to_owned());
    let facts = &served.facts;
    strategy::stored_form(served, value);
    if dry_run {
        return match api.objects.load(served, &namespace, &name).await? {
            Some(_) => Err(ApiError::already_exists(&facts.group, &facts.plural, &name)),
            None => Ok(()),
        };
    }
    match api.objects.save(served, value, Expect::Absent).await {
        Ok(_) => Ok(()),
        Err(error) if error.code == StatusCode::CONFLICT => {
            let deleting =
                api.objects.load(served, &namespace, &name).await?.is_some_and(|found| !meta(&found.value, "deletionTimestamp").is_empty());
            if deleting {
                return Err(ApiError { message: format!("object is being deleted: {}", error.message), ..error });
            }
            Err(error)
        }
        Err(error) => Err(error),
    }
}

/// Removes what no writer decides.
fn not_for_writers(value: &mut Value) {
    let metadata = metadata_mut(value);
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"] {
        metadata.remove(field);
    }
}

fn system_fields(value: &mut Value) {
    not_for_writers(value);
    let metadata = metadata_mut(value);
    metadata.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".into(), crate::clock::now().into());
}
