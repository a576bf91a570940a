//! Compaction as kube-apiserver does it: of all servers on one etcd, one drops the history older than an interval.
//!
//! The key `compact_rev_key` counts intervals by its version. A server that finds the version it expects writes the key and may
//! compact to the revision it noted one interval before; the others learn the new version and wait for the next interval.

use std::sync::Arc;
use std::time::Duration;

use super::members::{Effect, TXN};
use super::message::{Compare, Op, OpAnswerKind, OpKind, PutRequest, RangeRequest, Target, TxnRequest, TxnResponse, Wanted};
use super::{Shared, revision_of};
use crate::{Error, Revision};

/// The key on which the servers agree; kube-apiserver's own, since history is etcd's as a whole.
const KEY: &[u8] = b"compact_rev_key";

/// The state of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// The version of the key that it expects.
    time: i64,
    /// The latest revision when the interval began; 0 is none.
    revision: Revision,
}

/// Compacts every interval until the store closes.
pub async fn run(shared: Arc<Shared>, every: Duration) {
    let mut turn = Turn::default();
    loop {
        tokio::select! {
            () = shared.closing.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        turn = match take(&shared, turn).await {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the history in etcd was not compacted");
                turn
            }
        };
    }
}

/// Ends an interval: compacts if it is this server's turn, and returns the server's new state.
pub async fn take(shared: &Shared, turn: Turn) -> Result<Turn, Error> {
    let put = PutRequest { key: KEY.to_vec(), value: turn.revision.to_string().into_bytes().into(), prev_kv: false };
    let get = RangeRequest { key: KEY.to_vec(), ..RangeRequest::default() };
    let request = TxnRequest {
        compare: vec![Compare { target: Target::Version.into(), key: KEY.to_vec(), wanted: Some(Wanted::Version(turn.time)) }],
        success: vec![Op { kind: Some(OpKind::Put(put)) }],
        failure: vec![Op { kind: Some(OpKind::Range(get)) }],
    };
    let answer: TxnResponse = shared.members.call(&TXN, &request, Effect::Write).await?;
    let latest = revision_of(answer.header.as_ref());
    if answer.succeeded {
        if turn.revision > 0 {
            match shared.compact(turn.revision).await {
                // Another client compacted further.
                Ok(()) | Err(Error::Compacted { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        return Ok(Turn { time: turn.time + 1, revision: latest });
    }
    let found = answer.responses.into_iter().find_map(|answer| match answer.kind {
        Some(OpAnswerKind::Range(range)) => range.kvs.into_iter().next(),
        _ => None,
    });
    if let Some(compacted) = found.as_ref().and_then(|pair| std::str::from_utf8(&pair.value).ok()?.parse().ok()) {
        shared.learn_compacted(compacted);
    }
    Ok(Turn { time: found.map_or(0, |pair| pair.version), revision: latest })
}
