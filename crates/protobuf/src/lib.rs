//! Objects of built-in kinds in Kubernetes' protobuf form, from and to JSON values (KAPI-SRV-07).
//!
//! ```text
//! k8s\0 ─ Unknown ┬ typeMeta {apiVersion, kind}     says which message `raw` is
//!                 └ raw ── the object's message <──table of messages──> serde_json::Value
//! ```
//! Typed clients send this form and ask for it first. One table, generated from the declarations of Kubernetes' API types, drives both
//! directions: it knows number, JSON name and presence of every field. What is decoded is what Go's encoder would have written as JSON:
//! plain fields of no value vanish if the type says `omitempty`, embedded structs appear even when empty, pointers stay as they are.

mod decode;
mod encode;
mod error;
mod openapi;
mod order;
mod table;
mod wire;

pub use decode::{Limits, decode, decode_as};
pub use encode::{ListEncoder, encode, encode_watch_event};
pub use error::Error;
pub use openapi::{OPENAPI_V2_MEDIA_TYPE, OPENAPI_V2_MEDIA_TYPE_ASKED, encode_openapi_v2};
pub use order::{Opened, struct_text};

/// The media type of objects in this form.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// The media type of watch streams in this form.
pub const WATCH_MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// The first bytes of every enveloped object.
const MAGIC: &[u8] = b"k8s\0";

/// Returns true if objects of that kind have a protobuf form: all built-in kinds do, `Table` and custom resources do not.
pub fn has_message(api_version: &str, kind: &str) -> bool {
    table::table().kind(api_version, kind).is_some()
}
