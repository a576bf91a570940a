//! The messages of etcd's v3 API that this engine sends and reads, field numbers as etcd's public interface states them. Fields that this engine does
//! not read are left out; protobuf skips them.

use prost::{Enumeration, Message, Oneof};

/// The head of every answer.
#[derive(Clone, PartialEq, Message)]
pub struct Header {
    #[prost(int64, tag = "3")]
    pub revision: i64,
}

/// A key with its value.
#[derive(Clone, PartialEq, Message)]
pub struct Pair {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: bytes::Bytes,
    #[prost(int64, tag = "2")]
    pub create_revision: i64,
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    #[prost(int64, tag = "4")]
    pub version: i64,
    #[prost(bytes = "bytes", tag = "5")]
    pub value: bytes::Bytes,
}

/// `KV.Range`: one key, or those from `key` up to `range_end`.
#[derive(Clone, PartialEq, Message)]
pub struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub limit: i64,
    #[prost(int64, tag = "4")]
    pub revision: i64,
    #[prost(bool, tag = "9")]
    pub count_only: bool,
}

/// The answer to a range request; `count` ignores the limit.
#[derive(Clone, PartialEq, Message)]
pub struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<Pair>,
    #[prost(int64, tag = "4")]
    pub count: i64,
}

/// `KV.Put`.
#[derive(Clone, PartialEq, Message)]
pub struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: bytes::Bytes,
    #[prost(bool, tag = "4")]
    pub prev_kv: bool,
}

/// The answer to a put, with the overwritten value.
#[derive(Clone, PartialEq, Message)]
pub struct PutResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    #[prost(message, optional, tag = "2")]
    pub prev_kv: Option<Pair>,
}

/// `KV.DeleteRange`.
#[derive(Clone, PartialEq, Message)]
pub struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bool, tag = "3")]
    pub prev_kv: bool,
}

/// The answer to a deletion, with the deleted values.
#[derive(Clone, PartialEq, Message)]
pub struct DeleteRangeResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    #[prost(message, repeated, tag = "3")]
    pub prev_kvs: Vec<Pair>,
}

/// One step of a transaction.
#[derive(Clone, PartialEq, Message)]
pub struct Op {
    #[prost(oneof = "OpKind", tags = "1, 2, 3")]
    pub kind: Option<OpKind>,
}

/// The operation of a step.
#[derive(Clone, PartialEq, Oneof)]
pub enum OpKind {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeRequest),
}

/// The answer to one step.
#[derive(Clone, PartialEq, Message)]
pub struct OpAnswer {
    #[prost(oneof = "OpAnswerKind", tags = "1, 2, 3")]
    pub kind: Option<OpAnswerKind>,
}

/// The result of a step.
#[derive(Clone, PartialEq, Oneof)]
pub enum OpAnswerKind {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    #[prost(message, tag = "2")]
    Put(PutResponse),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeResponse),
}

/// The property that a comparison looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum Target {
    Version = 0,
    Create = 1,
    Mod = 2,
}

/// A condition; `result` 0 is equality, the only one used here.
#[derive(Clone, PartialEq, Message)]
pub struct Compare {
    #[prost(enumeration = "Target", tag = "2")]
    pub target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    #[prost(oneof = "Wanted", tags = "4, 6")]
    pub wanted: Option<Wanted>,
}

/// The number that a condition requires.
#[derive(Clone, PartialEq, Oneof)]
pub enum Wanted {
    #[prost(int64, tag = "4")]
    Version(i64),
    #[prost(int64, tag = "6")]
    Mod(i64),
}

/// `KV.Txn`: one of two lists of steps, by the conditions.
#[derive(Clone, PartialEq, Message)]
pub struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<Op>,
    #[prost(message, repeated, tag = "3")]
    pub failure: Vec<Op>,
}

/// The answer to a transaction: the list that was taken, and the results of its steps.
#[derive(Clone, PartialEq, Message)]
pub struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub responses: Vec<OpAnswer>,
}

/// `KV.Compact`.
#[derive(Clone, PartialEq, Message)]
pub struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub revision: i64,
}

/// The answer to a compaction; nothing in it is used.
#[derive(Clone, PartialEq, Message)]
pub struct CompactionResponse {}

/// `Watch.Watch`: the client's messages; only the creation is used, the stream's end cancels.
#[derive(Clone, PartialEq, Message)]
pub struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    pub create: Option<WatchCreate>,
}

/// The changes that a watch selects.
#[derive(Clone, PartialEq, Message)]
pub struct WatchCreate {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub start_revision: i64,
    #[prost(bool, tag = "6")]
    pub prev_kv: bool,
    #[prost(bool, tag = "8")]
    pub fragment: bool,
}

/// A piece of a watch. With `fragment` the events go on in the next piece.
#[derive(Clone, PartialEq, Message)]
pub struct WatchResponse {
    #[prost(bool, tag = "3")]
    pub created: bool,
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    #[prost(int64, tag = "5")]
    pub compact_revision: i64,
    #[prost(string, tag = "6")]
    pub cancel_reason: String,
    #[prost(bool, tag = "7")]
    pub fragment: bool,
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Change>,
}

/// A change of one key; `kind` 1 is a deletion, whose `kv` is the key and the revision alone.
#[derive(Clone, PartialEq, Message)]
pub struct Change {
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(message, optional, tag = "2")]
    pub kv: Option<Pair>,
    #[prost(message, optional, tag = "3")]
    pub prev_kv: Option<Pair>,
}

/// `Maintenance.Status`.
#[derive(Clone, PartialEq, Message)]
pub struct StatusRequest {}

/// The status of one member.
#[derive(Clone, PartialEq, Message)]
pub struct StatusResponse {
    #[prost(string, tag = "2")]
    pub version: String,
    #[prost(int64, tag = "3")]
    pub db_size: i64,
    /// Alarms of the cluster, and the absence of a leader.
    #[prost(string, repeated, tag = "8")]
    pub errors: Vec<String>,
}
