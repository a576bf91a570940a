//! get and list (KAPI-REST-02).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, URL_SAFE_NO_PAD};
use bytes::{BufMut, BytesMut};
use http::StatusCode;
use mainstay_store::{Range, Revision};
use serde_json::{Map, Value, json};

use crate::cache::Scope;
use crate::context::Context;
use crate::entry::{Entry, ROOT};
use crate::error::{ApiError, Result, expired, store_error, too_large_version};
use crate::object;
use crate::request::RequestInfo;
use crate::request::negotiate::{Format, Shape};
use crate::request::options::{ListOptions, VersionMatch};
use crate::respond::{self, Answer};
use crate::served::Served;
use crate::stored::Loaded;

/// Reads one object.
pub async fn get(context: &Context, served: &Served) -> Result<Answer> {
    let info = &context.request.info;
    let version = context.request.query.first("resourceVersion").unwrap_or_default();
    let wanted = crate::request::options::resource_version(version).map_err(|why| ApiError::untyped(why.to_string()))?;
    if let Some(wanted) = wanted {
        not_in_the_future(context, wanted).await?;
    }
    // What is there now says about how large the answer becomes: its value, its text, and what that is encoded into.
    if !context.allocation.caller.exempt {
        let size = context.api.objects.cached(served, &info.namespace, &info.name).map_or(0, |entry| entry.stored.len());
        context.room(size.saturating_mul(3)).await?;
    }
    let Loaded { value, .. } = context.api.objects.require(served, &info.namespace, &info.name).await?;
    respond::object(&context.request, served, StatusCode::OK, value)
}

async fn not_in_the_future(context: &Context, wanted: Revision) -> Result<()> {
    let known = *context.api.objects.store.revision().borrow();
    if wanted <= known {
        return Ok(());
    }
    let latest = context.api.objects.store.latest().await.map_err(store_error)?;
    if wanted > latest { Err(too_large_version(wanted, latest)) } else { Ok(()) }
}

/// From so many objects on, to go through all of them takes long.
const MANY: usize = 500;

/// The objects that a list found.
pub struct Page {
    /// The objects, in key order.
    pub entries: Vec<Arc<Entry>>,
    /// The revision that the list shows.
    pub revision: Revision,
    /// The begin of the next page; empty for the last one.
    pub next: String,
    /// Number of the objects that follow, if it is known.
    pub remaining: Option<u64>,
}

/// Lists a collection.
pub async fn list(context: &Context, served: &Served) -> Result<Answer> {
    let mut options = ListOptions::parse(&context.request.query, false)?;
    check_fields(served, &options)?;
    let scope = scope(&context.request.info, served, &mut options)?;
    if context.api.objects.cache.resource(&served.storage).len() > MANY {
        context.allocation.long().await;
    }
    let page = find(context, served, &options, &scope).await?;
    context.room(page.entries.iter().map(|entry| entry.stored.len() + 64).sum()).await?;
    answer(context, served, &page)
}

/// The list of what was found, in the form that was asked for.
pub fn answer(context: &Context, served: &Served, page: &Page) -> Result<Answer> {
    let mut metadata = list_metadata(page);
    match context.request.agreed.shape {
        Shape::Object | Shape::Discovery => {
            if served.custom.is_some() && page.next.is_empty() {
                // Lists of custom resources are maps, which say that they do not go on.
                metadata["continue"] = "".into();
            }
            write_list(context, served, page, &metadata)
        }
        Shape::Table => Ok(match crate::table::page(&context.request, served, &page.entries, &metadata)? {
            crate::table::Page::Written(text) => Answer::bytes(StatusCode::OK, Format::Json.content_type(), text),
            crate::table::Page::Value(table) => Answer::value(StatusCode::OK, context.request.agreed.format, &table),
        }),
        Shape::Metadata => Err(respond::no_object(served)),
        Shape::MetadataList => {
            let meta = context.request.agreed.meta;
            let partial =
                |entry: &Arc<Entry>| served.read(&entry.stored, entry.revision).map(|mut loaded| object::partial(&mut loaded.value, meta));
            if context.request.agreed.format == Format::Protobuf {
                return write_protobuf(meta.api_version(), "PartialObjectMetadataList", &metadata, page.entries.iter().map(partial));
            }
            let items = page.entries.iter().map(partial).collect::<Result<Vec<Value>>>()?;
            let mut list = json!({"kind": "PartialObjectMetadataList", "apiVersion": meta.api_version(), "metadata": metadata});
            list["items"] = if items.is_empty() { Value::Null } else { items.into() };
            Ok(Answer::value(StatusCode::OK, context.request.agreed.format, &list))
        }
    }
}

/// The ListMeta of what was found.
fn list_metadata(page: &Page) -> Value {
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".into(), page.revision.to_string().into());
    if !page.next.is_empty() {
        metadata.insert("continue".into(), page.next.clone().into());
    }
    if let Some(remaining) = page.remaining.filter(|remaining| *remaining > 0) {
        metadata.insert("remainingItemCount".into(), remaining.into());
    }
    Value::Object(metadata)
}

fn write_list(context: &Context, served: &Served, page: &Page, metadata: &Value) -> Result<Answer> {
    let (kind, api_version) = (served.list_kind(), served.api_version());
    if context.request.agreed.format == Format::Protobuf {
        let values = page.entries.iter().map(|entry| served.read(&entry.stored, entry.revision).map(|loaded| loaded.value));
        return write_protobuf(&api_version, &kind, metadata, values);
    }
    let mut out = BytesMut::with_capacity(256 + page.entries.iter().map(|entry| entry.stored.len() + 64).sum::<usize>());
    out.put_slice(object::head(&api_version, &kind).as_bytes());
    out.put_slice(b"\"metadata\":");
    out.put_slice(metadata.to_string().as_bytes());
    out.put_slice(b",\"items\":[");
    // Items of built-in lists have no kind of their own; those of custom resources do.
    let head = if served.custom.is_some() { object::head(&api_version, &served.facts.kind) } else { "{".to_owned() };
    for (index, entry) in page.entries.iter().enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        if served.sends_stored_bytes() {
            object::write(&mut out, &head, &entry.stored, entry.offset, entry.revision);
        } else {
            let mut value = served.read(&entry.stored, entry.revision)?.value;
            if let (Value::Object(map), true) = (&mut value, served.custom.is_none()) {
                map.remove("apiVersion");
                map.remove("kind");
            }
            out.put_slice(value.to_string().as_bytes());
        }
    }
    out.put_slice(b"]}\n");
    if context.request.agreed.format == Format::Json {
        return Ok(Answer::bytes(StatusCode::OK, Format::Json.content_type(), out.freeze()));
    }
    let value: Value = serde_json::from_slice(&out).map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(Answer::value(StatusCode::OK, context.request.agreed.format, &value))
}

/// A list in protobuf; its items are values one after the other, never all at once.
fn write_protobuf(api_version: &str, kind: &str, metadata: &Value, items: impl Iterator<Item = Result<Value>>) -> Result<Answer> {
    let refused = |error| ApiError::internal(format!("the list cannot be encoded as protobuf: {error}"));
    let mut list = mainstay_protobuf::ListEncoder::new(api_version, kind, metadata).map_err(refused)?;
    for item in items {
        list.push(&item?).map_err(refused)?;
    }
    Ok(Answer::bytes(StatusCode::OK, Format::Protobuf.content_type(), list.finish()))
}

/// Refuses field selectors that the kind does not know.
pub fn check_fields(served: &Served, options: &ListOptions) -> Result<()> {
    for field in options.fields.fields() {
        crate::strategy::check_field(served, field)?;
    }
    Ok(())
}

/// Returns whether the selectors take an object.
pub fn selected(served: &Served, options: &ListOptions, entry: &Entry) -> bool {
    if !options.labels.matches(&entry.labels) {
        return false;
    }
    if options.fields.is_empty() {
        return true;
    }
    let parsed = std::cell::OnceCell::new();
    options.fields.matches(|field| match field {
        "metadata.name" => entry.name().to_owned(),
        "metadata.namespace" => entry.namespace().to_owned(),
        other => crate::strategy::field_value(
            served,
            parsed.get_or_init(|| served.read(&entry.stored, entry.revision).map(|loaded| loaded.value).unwrap_or_default()),
            other,
        ),
    })
}

/// The part of the resource that the request is about, narrowed by the selector. A request that was authorized for one name shows that
/// one: its selector must ask for it, and has it where it asks for nothing.
pub fn scope(info: &RequestInfo, served: &Served, options: &mut ListOptions) -> Result<Scope> {
    let authorized = &info.name;
    if !authorized.is_empty() {
        if options.fields.is_empty() {
            options.fields = crate::selector::FieldSelector::name(authorized);
        } else if options.fields.required("metadata.name") != Some(authorized) {
            return Err(ApiError::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
    }
    let namespace = if served.facts.namespaced {
        if info.namespace.is_empty() { options.fields.required("metadata.namespace").unwrap_or_default() } else { &info.namespace }
    } else {
        ""
    };
    let name = options.fields.required("metadata.name").unwrap_or_default();
    Ok(Scope { namespace: namespace.to_owned(), name: name.to_owned() })
}

/// The entries in the asked version, where a webhook converts between versions.
pub async fn in_version(served: &Served, entries: Vec<Arc<Entry>>) -> Result<Vec<Arc<Entry>>> {
    match served.converter() {
        Some(converter) => converter.entries(entries, &served.api_version()).await,
        None => Ok(entries),
    }
}

/// Finds the objects of a list in its [`scope`].
pub async fn find(context: &Context, served: &Served, options: &ListOptions, scope: &Scope) -> Result<Page> {
    let objects = &context.api.objects;
    if let Some(wanted) = options.resource_version {
        not_in_the_future(context, wanted).await?;
    }
    let exact = match (options.resource_version, options.resource_version_match) {
        (Some(wanted), Some(VersionMatch::Exact)) => Some(wanted),
        // A limit makes an unstated match exact, as Kubernetes has done since before the parameter.
        (Some(wanted), None) if wanted > 0 && options.limit > 0 => Some(wanted),
        _ => None,
    };
    // The cache ignores limits where any revision will do, and one object needs no pages.
    let one = !scope.name.is_empty() && (!served.facts.namespaced || !context.request.info.namespace.is_empty());
    let paged = options.limit > 0 && options.resource_version != Some(0) && !one;
    if exact.is_some() || paged || !options.continue_token.is_empty() {
        return page(context, served, options, exact).await;
    }
    let cache = objects.cache.resource(&served.storage);
    // "Any" revision is what the cache shows now.
    if options.resource_version != Some(0) {
        let waited = match options.resource_version {
            Some(wanted) => objects.cache.reach(wanted).await,
            None => objects.cache.catch_up().await,
        };
        waited.ok_or_else(|| too_large_version(options.resource_version.unwrap_or_default(), objects.cache.revision()))?;
    }
    let (found, revision) = cache.list_at(scope, &objects.cache);
    let mut entries = in_version(served, found).await?;
    entries.retain(|entry| selected(served, options, entry));
    Ok(Page { entries, revision, next: String::new(), remaining: None })
}

async fn page(context: &Context, served: &Served, options: &ListOptions, exact: Option<Revision>) -> Result<Page> {
    let prefix = if served.facts.namespaced && !context.request.info.namespace.is_empty() {
        format!("{ROOT}{}/{}/", served.storage, context.request.info.namespace)
    } else {
        format!("{ROOT}{}/", served.storage)
    };
    let (mut after, mut revision) = (None, exact);
    if !options.continue_token.is_empty() {
        let token = Token::read(&options.continue_token)?;
        if options.resource_version.is_some_and(|version| version > 0) {
            return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
        }
        after = Some(format!("{prefix}{}", token.after));
        revision = token.revision;
    }
    if revision.is_some_and(|revision| context.api.objects.horizon.is_past(revision)) {
        return Err(after.map_or_else(expired, |after| expired_token(&prefix, &after)));
    }
    let limit = usize::try_from(options.limit).unwrap_or(usize::MAX);
    let all_selected = options.labels.is_empty() && options.fields.is_empty();
    let mut entries: Vec<Arc<Entry>> = Vec::new();
    loop {
        let missing = if limit == 0 { 0 } else { limit - entries.len() };
        let wanted = if all_selected { missing } else { missing.saturating_mul(4).max(if limit == 0 { 0 } else { 500 }) };
        let range = Range { prefix: prefix.clone(), after: after.clone(), limit: wanted, revision };
        let listing = match context.api.objects.store.list(range).await {
            Err(mainstay_store::Error::Compacted { .. }) if !options.continue_token.is_empty() => {
                return Err(expired_token(&prefix, after.as_deref().unwrap_or_default()));
            }
            Err(mainstay_store::Error::Compacted { .. }) => return Err(expired()),
            other => other.map_err(store_error)?,
        };
        let shown = *revision.get_or_insert(listing.revision);
        let mut last = None;
        let mut left = listing.remaining;
        let count = listing.items.len();
        let key_of = |key: &str| key.get(ROOT.len() + served.storage.len() + 1..).map(str::to_owned);
        let (mut keys, mut found) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for item in listing.items {
            let entry = key_of(&item.key).and_then(|key| Entry::of(key, item.value, item.modified));
            if let Some(entry) = entry {
                keys.push(item.key);
                found.push(Arc::new(entry));
            }
        }
        let count = found.len();
        for (index, (key, entry)) in keys.into_iter().zip(in_version(served, found).await?).enumerate() {
            last = Some(key);
            if selected(served, options, &entry) {
                entries.push(entry);
                if limit > 0 && entries.len() == limit {
                    left += (count - index - 1) as u64;
                    break;
                }
            }
        }
        let full = limit > 0 && entries.len() == limit;
        if left == 0 || full {
            let next = match &last {
                Some(key) if left > 0 => Token { revision: Some(shown), after: key[prefix.len()..].to_owned() }.write(),
                _ => String::new(),
            };
            return Ok(Page { entries, revision: shown, next, remaining: (all_selected && left > 0).then_some(left) });
        }
        after = last;
    }
}

/// Go reads tokens without looking at the bits that are left over.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// The place where a paged list goes on.
struct Token {
    /// The revision that all pages show; `None` for whichever is the latest, which never expires.
    revision: Option<Revision>,
    after: String,
}

impl Token {
    fn write(&self) -> String {
        // Kubernetes names the first key that is wanted: the last one with a zero byte behind it.
        let value =
            json!({"v": "meta.k8s.io/v1", "rv": self.revision.map_or(-1, u64::cast_signed), "start": format!("{}\u{0}", self.after)});
        URL_SAFE_NO_PAD.encode(value.to_string())
    }

    fn read(text: &str) -> Result<Self> {
        let refuse = |why: String| ApiError::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = LENIENT.decode(text.trim_end_matches('=')).map_err(|error| refuse(error.to_string()))?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| {
            let first = bytes.first().copied().unwrap_or_default();
            let shown = if first.is_ascii_graphic() { (first as char).to_string() } else { format!("\\u{first:04x}") };
            refuse(format!("invalid character '{shown}' looking for beginning of value"))
        })?;
        let version = value["v"].as_str().unwrap_or_default();
        if version != "meta.k8s.io/v1" {
            return Err(refuse(format!("server does not recognize this encoded version {version}")));
        }
        let revision = value["rv"].as_i64().unwrap_or_default();
        if revision == 0 {
            return Err(refuse(format!("incorrect encoded start resourceVersion (version {version})")));
        }
        let start = value["start"].as_str().unwrap_or_default();
        if start.is_empty() || start.contains("..") {
            return Err(refuse("start key is not valid".into()));
        }
        // A negative revision is whichever one is the latest.
        Ok(Self { revision: Revision::try_from(revision).ok(), after: start.trim_end_matches('\u{0}').to_owned() })
    }
}

fn expired_token(prefix: &str, after: &str) -> ApiError {
    let fresh = Token { revision: None, after: after[prefix.len()..].to_owned() }.write();
    let mut error = ApiError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue \
         parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token \
         results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and \
         now may show up in the list.",
    );
    error.list_continue = fresh;
    error
}
