//! A watch of etcd that survives its stream: it goes on after the last change it has handed out, at whichever member answers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tonic::{Code, Streaming};

use super::message::{Change, WatchCreate, WatchRequest, WatchResponse};
use super::{Shared, key_value, prefix_end};
use crate::watch::{Batch, Changes};
use crate::{Error, Event, Fate, Revision};

/// Pause between attempts to open the stream again.
const PAUSE: Duration = Duration::from_millis(250);

/// The watch.
pub struct Follow {
    shared: Arc<Shared>,
    prefix: String,
    /// The revision up to which everything was handed out.
    seen: Revision,
    stream: Option<(Streaming<WatchResponse>, usize)>,
    /// Events of an answer whose last piece has not come.
    pieces: Vec<Arc<Event>>,
    /// True once the loss of the stream was reported.
    reported: bool,
}

impl Follow {
    pub fn new(shared: Arc<Shared>, prefix: String, after: Revision) -> Self {
        Self { shared, prefix, seen: after, stream: None, pieces: Vec::new(), reported: false }
    }

    async fn open(&mut self) -> Result<(), Error> {
        self.pieces.clear();
        let key = self.shared.prefix.beginning(&self.prefix)?;
        let create = WatchCreate {
            range_end: prefix_end(&key),
            key,
            // One earlier than needed: etcd then reports a compaction that has gone past, which it may not if a deletion at exactly the compacted
            // revision was the next event.
            start_revision: self.seen.max(1) as i64,
            prev_kv: true,
            fragment: true,
        };
        self.stream = Some(self.shared.members.watch(WatchRequest { create: Some(create) }).await?);
        Ok(())
    }

    /// Adds a piece; returns a batch if the piece completes one.
    fn take(&mut self, answer: WatchResponse) -> Result<Option<Batch>, Error> {
        if answer.canceled {
            if answer.compact_revision > 0 {
                let oldest = answer.compact_revision as Revision;
                self.shared.learn_compacted(oldest);
                return Err(Error::Compacted { asked: self.seen, oldest });
            }
            return Err(Error::Remote { problem: format!("etcd ended a watch: {}", answer.cancel_reason), fate: Fate::Unavailable });
        }
        for change in answer.events {
            if let Some(event) = self.event(change)? {
                self.pieces.push(Arc::new(event));
            }
        }
        if answer.fragment || self.pieces.is_empty() {
            return Ok(None);
        }
        let events = std::mem::take(&mut self.pieces);
        // Not the header's revision: etcd may hold back events below it.
        self.seen = events.last().map_or(self.seen, |event| event.revision());
        self.shared.learn(self.seen);
        Ok(Some(Batch { events, revision: self.seen }))
    }

    fn event(&self, change: Change) -> Result<Option<Event>, Error> {
        let Some(kv) = change.kv else { return Ok(None) };
        let revision = kv.mod_revision as Revision;
        if revision <= self.seen {
            return Ok(None);
        }
        let prefix = &self.shared.prefix;
        let before = change.prev_kv.map(|before| key_value(prefix, before)).transpose()?;
        if change.kind == 0 {
            return Ok(Some(Event::Put { now: key_value(prefix, kv)?, before }));
        }
        // A deletion whose object is compacted cannot be described; the watcher starts again.
        let before = before.ok_or(Error::Compacted { asked: self.seen, oldest: revision })?;
        Ok(Some(Event::Delete { revision, before }))
    }
}

#[async_trait]
impl Changes for Follow {
    async fn next(&mut self) -> Result<Batch, Error> {
        let closing = self.shared.closing.clone();
        loop {
            let Some((stream, _)) = &mut self.stream else {
                let opened = tokio::select! {
                    () = closing.cancelled() => return Err(Error::Closed),
                    opened = self.open() => opened,
                };
                if let Err(error) = opened {
                    self.report(&error.to_string());
                    tokio::select! {
                        () = closing.cancelled() => return Err(Error::Closed),
                        () = tokio::time::sleep(PAUSE) => {}
                    }
                }
                continue;
            };
            let answer = tokio::select! {
                () = closing.cancelled() => return Err(Error::Closed),
                answer = stream.message() => answer,
            };
            let broken = match answer {
                Ok(Some(answer)) => match self.take(answer) {
                    Ok(Some(batch)) => {
                        self.reported = false;
                        return Ok(batch);
                    }
                    Ok(None) => continue,
                    Err(Error::Remote { problem, .. }) => problem,
                    Err(other) => return Err(other),
                },
                Ok(None) => "the stream ended".to_owned(),
                Err(status) if status.code() == Code::PermissionDenied => {
                    return Err(Error::Remote { problem: status.message().to_owned(), fate: Fate::Refused });
                }
                Err(status) => status.message().to_owned(),
            };
            self.report(&broken);
            if let Some((_, member)) = self.stream.take() {
                self.shared.members.leave(member);
            }
        }
    }
}

impl Follow {
    /// Reports once that the stream is gone; it is opened again until the store closes.
    fn report(&mut self, problem: &str) {
        if !std::mem::replace(&mut self.reported, true) {
            tracing::warn!(prefix = %self.prefix, after = self.seen, problem, "the watch of etcd broke off; opening it again");
        }
    }
}
