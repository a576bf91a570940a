//! Drains and uncordonings that daemons ask for (MACH-NODE-05): one pass a look, until nothing that must leave is left.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use mainstay_drain::{Drain, EVICTION_RETRY, Options, Progress as Passed, Why, cordon, told};
use mainstay_machine_config_core::daemon::Progress;
use mainstay_machine_config_core::daemon::progress::{State, step};
use mainstay_machine_config_core::pool::node::{Node, annotation};
use mainstay_node_agent::report::progress;
use mainstay_runtime::{Key, Outcome};
use serde_json::Value;

use crate::Error;
use crate::controller::Operator;
use crate::places::{node as node_place, value};

/// The time after which a drain is called failed, and goes on.
const FAILED: SignedDuration = SignedDuration::from_hours(1);
/// The time after which a drain that fails is told of.
const THRESHOLD: SignedDuration = SignedDuration::from_mins(10);
/// The time between two tellings.
const TELL_AGAIN: SignedDuration = SignedDuration::from_mins(5);
/// The time after which a pod that only ends is named as what keeps a drain.
const POD_ENDS: Duration = Duration::from_secs(90);
/// The look at pods that end.
const ENDING: Duration = Duration::from_secs(1);

impl Operator {
    /// Does what a node asks for, if it is not done.
    pub(crate) async fn drain(&self, node: &str) -> Result<Outcome, Error> {
        let Some(seen) = self.nodes.get(&Key::new("", node)) else {
            self.with(|state| state.drains.remove(node));
            self.measures.forget(node);
            return Ok(Outcome::Done);
        };
        let facts = Node::of(&value(&seen, "v1", "Node")?);
        if facts.filled(annotation::DESIRED_DRAIN).is_none_or(|wanted| facts.annotation(annotation::LAST_APPLIED_DRAIN) == Some(wanted)) {
            return Ok(Outcome::Done);
        }
        // The copy may be behind: a drain that was done must not be done again.
        let Some(live) = self.writer.get(&node_place(node)).await? else { return Ok(Outcome::Done) };
        let facts = Node::of(&live);
        let Some(wanted) =
            facts.filled(annotation::DESIRED_DRAIN).filter(|wanted| facts.annotation(annotation::LAST_APPLIED_DRAIN) != Some(*wanted))
        else {
            return Ok(Outcome::Done);
        };
        let pool = self.pool_of(&facts)?.unwrap_or_default();
        let outcome = match wanted.split('-').next() {
            Some("uncordon") => {
                cordon(&self.client, node, false).await?;
                self.with(|state| state.drains.remove(node));
                let text = "UnCordoned node. The node is reporting Unschedulable = false".to_owned();
                let parent = "Uncordoned Node as part of completing upgrade phase".to_owned();
                let steps = [Progress::part((step::COMPLETE, State::True, parent), (step::UNCORDONED, State::True, text))];
                progress(&self.writer, &live, &pool, &steps, &self.now()).await?;
                None
            }
            Some("drain") => self.pass(&live, &pool, wanted).await?,
            _ => {
                tracing::error!(node, wanted, "non-recognized drain verb detected");
                return Ok(Outcome::Blocked);
            }
        };
        if outcome.is_none() {
            self.measures.drain_failed(node, false);
            self.annotate(node, annotation::LAST_APPLIED_DRAIN, wanted).await?;
        }
        Ok(outcome.map_or(Outcome::Done, Outcome::After))
    }

    /// One pass of a drain; the time of the next, or none if it is done.
    async fn pass(&self, live: &Value, pool: &str, wanted: &str) -> Result<Option<Duration>, Error> {
        let node = live["metadata"]["name"].as_str().unwrap_or_default();
        let now = self.env.now();
        let since = self.with(|state| *state.drains.entry(node.to_owned()).or_insert(now));
        if cordon(&self.client, node, true).await? {
            let text = "Cordoned node. The node is reporting Unschedulable = true".to_owned();
            let parent = "Cordoned Node as part of update executed phase".to_owned();
            let steps = [Progress::part((step::EXECUTED, State::Unknown, parent), (step::CORDONED, State::True, text))];
            progress(&self.writer, live, pool, &steps, &self.now()).await?;
        }
        let passed = Drain::new(self.client.clone(), node, Options::default()).pass(now).await;
        let remaining = match passed {
            Ok(Passed::Done) => Vec::new(),
            Ok(Passed::Waiting { remaining }) => remaining,
            Err(error) => {
                self.blocked(live, pool, wanted, &error.to_string(), since, now).await?;
                return Ok(Some(EVICTION_RETRY));
            }
        };
        if remaining.is_empty() {
            // Uncordoned by another client meanwhile, it may have new pods: the next pass cordons it again.
            let is_cordoned = self.writer.get(&node_place(node)).await?.is_some_and(|node| node["spec"]["unschedulable"] == true);
            if !is_cordoned {
                return Ok(Some(ENDING));
            }
            self.with(|state| {
                state.drains.remove(node);
                state.told.remove(node);
            });
            let text = format!("Drained node. The drain is complete as the desired drainer matches current drainer: {wanted}");
            let parent = "Drained Node as part of update executed phase".to_owned();
            let steps = [Progress::part((step::EXECUTED, State::Unknown, parent), (step::DRAINED, State::True, text))];
            progress(&self.writer, live, pool, &steps, &self.now()).await?;
            return Ok(None);
        }
        if let Some(text) = told(&remaining, now, POD_ENDS) {
            self.blocked(live, pool, wanted, &text, since, now).await?;
        }
        let only_ends = remaining.iter().all(|(_, why)| matches!(why, Why::Ending { .. }));
        Ok(Some(if only_ends { ENDING } else { EVICTION_RETRY }))
    }

    /// Says what keeps a drain from its end.
    async fn blocked(&self, live: &Value, pool: &str, wanted: &str, text: &str, since: Timestamp, now: Timestamp) -> Result<(), Error> {
        let node = live["metadata"]["name"].as_str().unwrap_or_default();
        let applied = live["metadata"]["annotations"].get(annotation::LAST_APPLIED_DRAIN).and_then(Value::as_str).unwrap_or_default();
        let message = format!(
            "Error: Node Drain has not succeeded. Error is: {text} The drain will not be complete until desired drainer {wanted} matches \
             current drainer {applied}"
        );
        let parent = format!("Node Drain has not succeeded: {text}");
        let steps = [Progress::part((step::EXECUTED, State::Unknown, parent), (step::DRAINED, State::Unknown, message))];
        progress(&self.writer, live, pool, &steps, &self.now()).await?;
        let lasted = now.duration_since(since);
        if lasted > FAILED {
            self.measures.drain_failed(node, true);
        }
        let is_due = self.with(|state| {
            let due = state.told.get(node).is_none_or(|told| now.duration_since(*told) >= TELL_AGAIN);
            if due && lasted > THRESHOLD {
                state.told.insert(node.to_owned(), now);
            }
            due
        });
        if lasted > THRESHOLD && is_due {
            let note = format!(
                "Drain failed. Drain has been failing for more than 10 minutes. Waiting 5 minutes then retrying. Error message from drain: {text}"
            );
            self.tell(live, true, "DrainThresholdExceeded", &note);
            if lasted > FAILED {
                let note = format!("node {node}: drain exceeded timeout: 1h0m0s. Will continue to retry.");
                self.tell(live, true, "DrainFailed", &note);
            }
        }
        tracing::info!(node, text, "drain failed; it is tried again");
        Ok(())
    }
}
