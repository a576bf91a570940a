//! patch: JSON, merge, strategic merge and apply (KAPI-PATCH-01, KAPI-SSA-01).

use std::sync::Arc;

use http::StatusCode;
use mainstay_merge::patch::{self, PatchError};
use mainstay_protobuf::Opened;
use serde_json::Value;

use super::checks;
use super::create::create_object;
use super::update::{Change, RETRIES, name_matches, update_object};
use crate::context::Context;
use crate::error::{ApiError, Cause, Details, Result};
use crate::fields::Owners;
use crate::object::{meta, metadata_mut};
use crate::request::negotiate::{self, Decoded};
use crate::request::options::{self, FieldValidation, WriteOptions};
use crate::request::{ApiRequest, RequestInfo};
use crate::respond::{self, Answer};
use crate::served::Served;
use crate::{strategy, strict};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
/// The media type of a server-side apply.
pub const APPLY: &str = "application/apply-patch+yaml";

/// A patch, read once.
pub enum Patch {
    Json(Vec<Value>),
    Merge(Value),
    Strategic(Value),
}

impl Patch {
    /// The objects that it goes into.
    fn opened(&self) -> Opened {
        let mut opened = Opened::default();
        match self {
            Self::Json(operations) => {
                let paths = operations.iter().flat_map(|operation| [&operation["path"], &operation["from"]]).filter_map(Value::as_str);
                for (above, _) in paths.filter_map(|path| path.rsplit_once('/')) {
                    let parts = above.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~"));
                    parts.fold(&mut opened, |at, part| at.open(&part));
                }
            }
            Self::Merge(patch) | Self::Strategic(patch) => open_members(patch, &mut opened),
        }
        opened
    }
}

fn open_members(patch: &Value, opened: &mut Opened) {
    for (name, value) in patch.as_object().into_iter().flatten().filter(|(_, value)| value.is_object()) {
        open_members(value, opened.open(name));
    }
}

/// Patches an object.
pub async fn patch(context: &Context, served: &Arc<Served>, sub: Option<&str>, body: &[u8]) -> Result<Answer> {
    let content_type = negotiate::content_type(&context.request.headers);
    let known = matches!(content_type, JSON | MERGE | APPLY) || content_type == STRATEGIC && served.custom.is_none();
    if !known {
        return Err(unsupported(served, content_type));
    }
    let options = WriteOptions::parse(&context.request.query, "PatchOptions", context.request.user_agent())?;
    options::check_patch(&context.request.query, content_type == APPLY)?;
    if content_type == APPLY {
        return apply(context, served, sub, body, &options).await;
    }
    // A patch that cannot be read is refused once its object is there.
    let (read, problems) = read(content_type, body);
    let read = read.ok_or_else(|| unsupported(served, content_type))?;
    let info = &context.request.info;
    let change = Change { sub, options: &options, namespace: &info.namespace, name: &info.name, patch: true, given: None };
    let owners = Owners::new(served, &options.field_manager, sub);
    let updated = update_object(context, served, &change, |live| {
        let (read, problems, options, owners) = (&read, &problems, &options, &owners);
        async move {
            let read = read.as_ref().map_err(ApiError::clone)?;
            let mut new = patched(&context.request, served, read, problems, &live.value, options)?;
            placed(&context.request.info, served, &mut new)?;
            owners.written(Some(&live.value), &mut new).await;
            // A patch that does not speak of a resourceVersion follows the object.
            if meta(&new, "resourceVersion") == meta(&live.value, "resourceVersion") {
                metadata_mut(&mut new).remove("resourceVersion");
            }
            Ok(new)
        }
    })
    .await?;
    respond::object(&context.request, served, StatusCode::OK, updated)
}

/// Reads a patch of a type, and the problems of its fields; `None` where the type is no patch that is read so.
pub fn read(content_type: &str, body: &[u8]) -> (Option<Result<Patch>>, Vec<String>) {
    let read = match content_type {
        JSON => patch::decode_json_patch(body).map(Patch::Json),
        MERGE => patch::decode_merge_patch(body).map(Patch::Merge),
        STRATEGIC => patch::decode_object_patch(body).map(Patch::Strategic),
        _ => return (None, Vec::new()),
    };
    let problems = if content_type == JSON { operation_problems(body) } else { duplicates(body) };
    (Some(read.map_err(|error| refused(&error))), problems)
}

/// Problems of the fields that a patch names twice (KAPI-REST-03).
fn duplicates(body: &[u8]) -> Vec<String> {
    // A body that does not parse was refused before.
    strict::parse(body).map(|(_, paths)| paths.iter().map(|path| format!("duplicate field {path:?}")).collect()).unwrap_or_default()
}

/// Problems of the fields of a JSON patch's operations: those that are there twice, and those that no operation has.
fn operation_problems(body: &[u8]) -> Vec<String> {
    let Ok((operations, twice)) = strict::parse(body) else { return Vec::new() };
    let mut problems: Vec<String> = twice.iter().map(|path| format!("json patch duplicate field {path:?}")).collect();
    for (index, operation) in operations.as_array().into_iter().flatten().enumerate() {
        let fields = operation.as_object().into_iter().flatten().map(|(field, _)| field);
        let unknown = fields.filter(|field| !matches!(field.as_str(), "op" | "from" | "path" | "value"));
        problems.extend(unknown.map(|field| format!("json patch unknown field \"[{index}].{field}\"")));
    }
    problems
}

/// The object that a patch makes, read as its kind.
pub fn patched(
    request: &ApiRequest,
    served: &Served,
    patch: &Patch,
    problems: &[String],
    live: &Value,
    options: &WriteOptions,
) -> Result<Value> {
    let mut new = live.clone();
    match patch {
        Patch::Json(operations) => patch::json_patch(&mut new, operations).map_err(|error| refused(&error))?,
        Patch::Merge(patch) => patch::merge_patch(&mut new, patch),
        Patch::Strategic(patch) => {
            let schema = strategy::schema(served).ok_or_else(|| unsupported(served, STRATEGIC))?;
            new = patch::strategic_merge_patch(live, patch, &schema).map_err(|error| refused(&error))?;
            // Kubernetes merges into a value of the kind's type: what the patch says of its type has no place there.
            for field in ["apiVersion", "kind"] {
                new[field] = live[field].clone();
            }
        }
    }
    if !new.is_object() {
        return Err(ApiError::bad_request("the patched document is not an object"));
    }
    if served.custom.is_some() {
        same_type(served, live, &new)?;
    }
    let shown = new.clone();
    let decoded = Decoded { value: new, problems: problems.to_vec(), ..Decoded::default() };
    let mut new = strategy::decode(request, served, &served.gvk(), decoded, options.field_validation)
        .map_err(|error| outcome(&error, patch, &shown, served))?;
    strategy::default(served, &mut new);
    Ok(new)
}

/// Custom resources are read with the kind they state, and refused afterwards.
fn same_type(served: &Served, live: &Value, new: &Value) -> Result<()> {
    let gvk = served.gvk();
    let text = |field: &str| new.get(field).and_then(Value::as_str).unwrap_or_default();
    let given = mainstay_kinds::Gvk::of(text("apiVersion"), text("kind"));
    let (field, found, wanted) = if given.kind != gvk.kind {
        ("kind", given.kind.clone(), gvk.kind.clone())
    } else if given.api_version() != gvk.api_version() {
        ("apiVersion", given.api_version(), gvk.api_version())
    } else {
        return Ok(());
    };
    if found.is_empty() {
        return Ok(());
    }
    let cause = Cause::invalid(field, &Value::from(found), &format!("must be {wanted}"));
    Err(ApiError::invalid(&given.group, &given.kind, meta(live, "name"), vec![cause]))
}

/// Checks the name of a patched object, and puts it into the namespace of the request.
pub fn placed(info: &RequestInfo, served: &Served, new: &mut Value) -> Result<()> {
    name_matches(info, new)?;
    strategy::place(info, served, new)
}

/// The patched document cannot be read as the kind: Kubernetes shows it as a whole.
fn outcome(error: &ApiError, patch: &Patch, shown: &Value, served: &Served) -> ApiError {
    if error.code != StatusCode::BAD_REQUEST {
        return error.clone();
    }
    let marker = format!(" cannot be handled as a {}: ", served.facts.kind);
    let why = error.message.split_once(&marker).map_or(error.message.as_str(), |(_, why)| why);
    let text = match patch {
        // Of what a strategic merge patch makes, Kubernetes has no text; it shows the patch.
        Patch::Strategic(patch) if why.starts_with("strict decoding error: ") => mainstay_golang::value::plain(patch),
        _ => {
            let gvk = served.gvk();
            let plain = mainstay_schema::field::go_json;
            // Custom resources have no structs: their text is in alphabetical order throughout.
            mainstay_protobuf::struct_text(&gvk.api_version(), &gvk.kind, shown, &patch.opened(), plain).unwrap_or_else(|| plain(shown))
        }
    };
    let text = mainstay_golang::quote(&text);
    let cause = Cause::new("FieldValueInvalid", format!("Invalid value: {text}: {why}"), "patch");
    ApiError::invalid("", "", "", vec![cause])
}

/// The Status of a refused patch.
pub fn refused(error: &PatchError) -> ApiError {
    let code = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::BAD_REQUEST);
    let refused = ApiError::new(code, error.reason(), error.to_string());
    match error {
        PatchError::Rejected { detail } => {
            tracing::debug!(%detail, "patch does not fit");
            ApiError { details: Some(Details::default()), ..refused }
        }
        _ => refused,
    }
}

/// Returns whether there is such a patch.
pub fn is_known(content_type: &str) -> bool {
    matches!(content_type, JSON | MERGE | STRATEGIC | APPLY)
}

/// 415 of Kubernetes' router.
pub fn no_such_patch() -> ApiError {
    let error = ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", "415: Unsupported Media Type");
    ApiError { details: Some(Details::default()), ..error }
}

fn unsupported(served: &Served, content_type: &str) -> ApiError {
    let (known, error) = (is_known(content_type), no_such_patch());
    if known && served.custom.is_some() {
        return ApiError {
            message: format!("the body of the request was in an unknown format - accepted media types include: {JSON}, {MERGE}, {APPLY}"),
            details: None,
            ..error
        };
    }
    error
}

async fn apply(context: &Context, served: &Arc<Served>, sub: Option<&str>, body: &[u8], options: &WriteOptions) -> Result<Answer> {
    let info = &context.request.info;
    if sub.is_some() {
        // Only what is there has subresources; the body is not read before.
        context.api.objects.require(served, &info.namespace, &info.name).await?;
    }
    let (wanted, repeated) = read_applied(body)?;
    let repeated = if options.field_validation == FieldValidation::Ignore { Vec::new() } else { repeated };
    let owners = Owners::new(served, &options.field_manager, sub);
    let apply = Apply { context, served, sub, options, wanted: &wanted, repeated: &repeated, owners };
    let is_there = || async { context.api.objects.load(served, &info.namespace, &info.name).await.map(|found| found.is_some()) };
    let mut there = is_there().await?;
    let mut attempt = 0;
    loop {
        let (code, applied) = if there { (StatusCode::OK, apply.update().await) } else { (StatusCode::CREATED, apply.create().await) };
        let error = match applied {
            Ok(value) => return respond::object(&context.request, served, code, value),
            Err(error) => error,
        };
        let overtaken = if there { error.code == StatusCode::NOT_FOUND } else { error.reason == "AlreadyExists" };
        if !overtaken || attempt == RETRIES {
            return Err(error);
        }
        // Webhooks say what they like: only the object itself tells that somebody else was faster.
        let now = is_there().await?;
        if now == there {
            return Err(error);
        }
        tracing::debug!(%error, "created or deleted by another client meanwhile");
        there = now;
        attempt += 1;
    }
}

/// The object of an apply, and the keys that stand twice in it, in the words of Go's YAML library.
pub fn read_applied(body: &[u8]) -> Result<(Value, Vec<String>)> {
    let refuse = |why: String| ApiError::bad_request(format!("error decoding YAML: {why}"));
    let text =
        std::str::from_utf8(body).map_err(|_| refuse("error converting YAML to JSON: yaml: invalid leading UTF-8 octet".to_owned()))?;
    let options = mainstay_yaml::Options::default();
    let document = mainstay_yaml::parse_with(text, &options)
        .map_err(|error| refuse(format!("error converting YAML to JSON: {}", negotiate::yaml_problem(&error))))?;
    let found = match document.value {
        Value::Object(_) => {
            let repeated = negotiate::yaml_duplicates(document.duplicates.iter());
            return Ok((document.value, repeated));
        }
        // Nothing at all is an object without members, of no type.
        Value::Null => return Ok((Value::Object(serde_json::Map::new()), Vec::new())),
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
    };
    Err(refuse(format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
    )))
}

/// An object as one manager wants it.
struct Apply<'a> {
    context: &'a Context,
    served: &'a Arc<Served>,
    sub: Option<&'a str>,
    options: &'a WriteOptions,
    wanted: &'a Value,
    /// The keys that the body has twice, where that is of interest.
    repeated: &'a [String],
    owners: Owners<'a>,
}

impl Apply<'_> {
    fn force(&self) -> bool {
        self.options.force == Some(true)
    }

    /// The object as the apply makes it. Only then are keys that stand twice of interest.
    async fn applied(&self, live: Option<&Value>) -> Result<Value> {
        let new = self.owners.applied(live, self.wanted, self.force()).await?;
        if self.repeated.is_empty() {
            return Ok(new);
        }
        if self.options.field_validation == FieldValidation::Strict {
            let lines = self.repeated.join("\n  ");
            let why = format!("error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {lines}");
            return Err(ApiError::bad_request(why));
        }
        for one in self.repeated {
            self.context.request.warn(one.clone());
        }
        Ok(new)
    }

    async fn create(&self) -> Result<Value> {
        let Self { context, served, options, wanted, .. } = *self;
        let (facts, name) = (&served.facts, &context.request.info.name);
        if self.sub.is_some() {
            return Err(ApiError::not_found(&facts.group, &facts.plural, name));
        }
        checks::may_create(context)?;
        let uid = meta(wanted, "uid");
        if !uid.is_empty() {
            let why = format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(ApiError::conflict(&facts.group, &facts.plural, name, &why));
        }
        let mut new = self.applied(None).await?;
        name_matches(&context.request.info, &new)?;
        strategy::place(&context.request.info, served, &mut new)?;
        create_object(context, served, new, options).await
    }

    async fn update(&self) -> Result<Value> {
        let Self { context, served, sub, options, wanted, .. } = *self;
        let info = &context.request.info;
        let change = Change { sub, options, namespace: &info.namespace, name: &info.name, patch: true, given: None };
        update_object(context, served, &change, |live| async move {
            let mut new = self.applied(Some(&live.value)).await?;
            placed(&context.request.info, served, &mut new)?;
            if meta(wanted, "resourceVersion").is_empty() {
                metadata_mut(&mut new).remove("resourceVersion");
            }
            Ok(new)
        })
        .await
    }
}
