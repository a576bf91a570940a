//! Calls to the members of an etcd cluster: one connection each, one of them in use until it fails.
//!
//! A read is sent to the next member when one fails. A write is sent again only if it certainly was not carried out: the connection could not be
//! made, or the member had no leader to hand it to. If that is not known, the error says so.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use http::uri::PathAndQuery;
use prost::Message;
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, ConnectError, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::Options;
use crate::{Error, Fate};

/// Limit of one attempt; etcd itself gives up after seven seconds.
const ATTEMPT: Duration = Duration::from_secs(10);
/// Time for which a request may look for a member that takes it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Limit for making a connection.
const CONNECT: Duration = Duration::from_secs(2);
/// Pauses between attempts, the last for all that follow.
const PAUSES: [Duration; 5] =
    [Duration::ZERO, Duration::from_millis(50), Duration::from_millis(100), Duration::from_millis(250), Duration::from_millis(500)];
/// The largest answer that is accepted, in bytes; pages are made smaller long before.
const ANSWER_LIMIT: usize = 512 << 20;

/// The effect of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Read,
    Write,
}

/// A call's name: `/package.Service/Method`.
pub struct Method(&'static str);

pub const RANGE: Method = Method("/etcdserverpb.KV/Range");
pub const TXN: Method = Method("/etcdserverpb.KV/Txn");
pub const COMPACT: Method = Method("/etcdserverpb.KV/Compact");
pub const STATUS: Method = Method("/etcdserverpb.Maintenance/Status");
const WATCH: Method = Method("/etcdserverpb.Watch/Watch");

/// The members.
pub struct Members {
    channels: Vec<(String, Channel)>,
    current: AtomicUsize,
}

impl Members {
    /// Prepares connections; they are made when first used.
    pub fn new(options: &Options) -> Result<Self, Error> {
        let tls = options.tls.as_ref().map(|tls| {
            let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.authority));
            match &tls.identity {
                Some((certificate, key)) => config.identity(Identity::from_pem(certificate, key)),
                None => config,
            }
        });
        let channel = |address: &String| -> Result<(String, Channel), Error> {
            let wrong = |problem: tonic::transport::Error| Error::Setup { what: address.clone(), problem: chain(&problem) };
            let scheme = if tls.is_some() { "https" } else { "http" };
            let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))
                .map_err(wrong)?
                .connect_timeout(CONNECT)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(Duration::from_secs(10))
                .keep_alive_timeout(Duration::from_secs(5))
                .keep_alive_while_idle(true);
            if let Some(tls) = &tls {
                endpoint = endpoint.tls_config(tls.clone()).map_err(wrong)?;
            }
            Ok((address.clone(), endpoint.connect_lazy()))
        };
        let channels = options.endpoints.iter().map(channel).collect::<Result<Vec<_>, _>>()?;
        if channels.is_empty() {
            return Err(Error::Setup { what: "endpoints".into(), problem: "there are none".into() });
        }
        Ok(Self { channels, current: AtomicUsize::new(0) })
    }

    /// Sends a request to the member in use, or to the next if that is safe.
    pub async fn call<M, R>(&self, method: &Method, message: &M, effect: Effect) -> Result<R, Error>
    where
        M: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        let until = Instant::now() + PATIENCE;
        let mut attempts = 0;
        loop {
            let member = self.current.load(Ordering::Relaxed);
            let (address, channel) = &self.channels[member % self.channels.len()];
            let mut client = client(channel);
            let attempt = async {
                client.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
                let codec = ProstCodec::<M, R>::default();
                client.unary(with_leader(message.clone()), PathAndQuery::from_static(method.0), codec).await
            };
            let status = match tokio::time::timeout(ATTEMPT, attempt).await {
                Ok(Ok(answer)) => return Ok(answer.into_inner()),
                Ok(Err(status)) => status,
                Err(_) => Status::deadline_exceeded("no answer in time"),
            };
            let verdict = judge(&status, effect);
            if verdict.elsewhere {
                self.leave(member);
            }
            let pause = PAUSES[(attempts / self.channels.len()).min(PAUSES.len() - 1)];
            attempts += 1;
            if !verdict.again || Instant::now() + pause >= until {
                return Err(verdict.error(address, &status));
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Opens a watch at the member in use. Returns that member, too, so that the caller can leave it when the watch breaks off.
    pub async fn watch<M, R>(&self, message: M) -> Result<(Streaming<R>, usize), Error>
    where
        M: Message + 'static,
        R: Message + Default + 'static,
    {
        let member = self.current.load(Ordering::Relaxed);
        let (address, channel) = &self.channels[member % self.channels.len()];
        // The stream of requests stays open as long as the answers are needed.
        let requests = futures::stream::once(std::future::ready(message)).chain(futures::stream::pending());
        let mut client = client(channel);
        let attempt = async {
            client.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
            client.streaming(with_leader(requests), PathAndQuery::from_static(WATCH.0), ProstCodec::<M, R>::default()).await
        };
        let status = match tokio::time::timeout(ATTEMPT, attempt).await {
            Ok(Ok(answer)) => return Ok((answer.into_inner(), member)),
            Ok(Err(status)) => status,
            Err(_) => Status::deadline_exceeded("no answer in time"),
        };
        self.leave(member);
        Err(judge(&status, Effect::Read).error(address, &status))
    }

    /// Goes on to the next member, unless another caller has already.
    pub fn leave(&self, member: usize) {
        let next = (member + 1) % self.channels.len();
        let _ = self.current.compare_exchange(member, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

fn client(channel: &Channel) -> Grpc<Channel> {
    Grpc::new(channel.clone()).max_decoding_message_size(ANSWER_LIMIT)
}

/// Requires a leader: a member that is cut off from the others is to say so rather than to wait or to answer with old data.
fn with_leader<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    request
}

/// The meaning of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Verdict {
    fate: Fate,
    /// The same request may be sent once more.
    again: bool,
    /// Another member may succeed.
    elsewhere: bool,
}

impl Verdict {
    fn error(self, address: &str, status: &Status) -> Error {
        let message = status.message();
        match (status.code(), message) {
            (Code::OutOfRange, message) if message.contains("compacted") => Error::Compacted { asked: 0, oldest: 0 },
            (Code::OutOfRange, message) if message.contains("future revision") => Error::Future { asked: 0, latest: 0 },
            // A message of etcd begins with its name; others are about the connection to it.
            (_, message) if message.starts_with("etcdserver:") => Error::Remote { problem: message.to_owned(), fate: self.fate },
            _ => Error::Remote { problem: format!("etcd at {address}: {}", told(status)), fate: self.fate },
        }
    }
}

fn judge(status: &Status, effect: Effect) -> Verdict {
    let never_sent = causes(status).any(<Cause>::is::<ConnectError>);
    let fate = match status.code() {
        _ if never_sent => Fate::Unavailable,
        Code::Unavailable if status.message() == "etcdserver: no leader" => Fate::Unavailable,
        Code::ResourceExhausted if status.message() == "etcdserver: too many requests" => Fate::Busy,
        Code::Unavailable | Code::DeadlineExceeded | Code::Unknown | Code::Internal | Code::Cancelled | Code::Aborted => Fate::Unknown,
        _ => Fate::Refused,
    };
    let lost = matches!(fate, Fate::Unavailable | Fate::Unknown);
    // A read that was lost is no more than unavailable.
    let fate = if lost && effect == Effect::Read { Fate::Unavailable } else { fate };
    Verdict { fate, again: fate == Fate::Unavailable, elsewhere: lost }
}

type Cause = dyn std::error::Error + 'static;

fn causes<'a>(error: &'a Cause) -> impl Iterator<Item = &'a Cause> {
    let next = |cause: &&'a Cause| -> Option<&'a Cause> { (*cause).source() };
    std::iter::successors(error.source(), next)
}

fn told(status: &Status) -> String {
    // The last cause is the informative one: "connection refused".
    causes(status).last().map_or_else(|| status.message().to_owned(), ToString::to_string)
}

fn chain(error: &Cause) -> String {
    std::iter::once(error).chain(causes(error)).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KAPI-STORE-03: what a failure of etcd means for a read and for a write.
    #[test]
    fn only_what_certainly_was_not_done_is_done_again() {
        let connect = || Status::from_error(Box::new(ConnectError("connection refused".into())));
        let cases = [
            (connect(), Fate::Unavailable, true, Fate::Unavailable, true),
            (Status::unavailable("etcdserver: no leader"), Fate::Unavailable, true, Fate::Unavailable, true),
            (Status::unavailable("etcdserver: request timed out"), Fate::Unavailable, true, Fate::Unknown, false),
            (Status::unknown("h2 protocol error"), Fate::Unavailable, true, Fate::Unknown, false),
            (Status::deadline_exceeded("no answer in time"), Fate::Unavailable, true, Fate::Unknown, false),
            (Status::resource_exhausted("etcdserver: too many requests"), Fate::Busy, false, Fate::Busy, false),
            (Status::resource_exhausted("etcdserver: mvcc: database space exceeded"), Fate::Refused, false, Fate::Refused, false),
            (Status::invalid_argument("etcdserver: request is too large"), Fate::Refused, false, Fate::Refused, false),
        ];
        for (status, read, read_again, write, write_again) in cases {
            let (reading, writing) = (judge(&status, Effect::Read), judge(&status, Effect::Write));
            assert_eq!((reading.fate, reading.again), (read, read_again), "read: {status}");
            assert_eq!((writing.fate, writing.again), (write, write_again), "write: {status}");
        }
    }
}
