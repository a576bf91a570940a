//! The health check after an upgrade, and the rollback if the subject asks for one (MS-RB-01).
//!
//! The annotation `lifecycle.mainstay.dev/on-unhealthy: RollBack` gives every upgrade a time in which its Deployments have to become available.
//! When the time ends, the objects of the previous revision are applied again, and the content is not tried again until the subject changes.
//! Without the annotation nothing is rolled back (OLM1-CTRL-11).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use mainstay_objects::{Health, ObjectRef, health};
use serde_json::Value;

use crate::live::{Fact, Instances, Live};
use crate::object;
use crate::reason::{Unhealthy, UnsafeRollback};
use crate::revision::{History, Record, Revision, RolledBack, State};
use crate::rollback::{self, Class};

/// The annotation that switches the rollback on.
pub const ON_UNHEALTHY: &str = "lifecycle.mainstay.dev/on-unhealthy";
/// Its only value.
pub const ROLL_BACK: &str = "RollBack";
/// The annotation that limits the time until Deployments are available.
pub const HEALTHY_WITHIN: &str = "lifecycle.mainstay.dev/healthy-within";
const DEFAULT_WITHIN: &str = "5m";
/// The longest time that is accepted.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);

/// The time that a subject gives every upgrade to become healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthLimit {
    /// The duration.
    pub within: SignedDuration,
    /// The duration as written in the annotation.
    pub text: String,
}

/// An annotation from which no limit can be read.
#[derive(Debug, thiserror::Error)]
pub enum InvalidHealthLimit {
    /// Nothing but a rollback can be asked for.
    #[error("annotation {ON_UNHEALTHY}: expected {ROLL_BACK}, found {0:?}; nothing is rolled back")]
    Action(String),
    /// The duration is out of range.
    #[error("annotation {HEALTHY_WITHIN}: expected more than 0 and at most 24h, found {0:?}; nothing is rolled back")]
    OutOfRange(String),
    /// The text is no duration.
    #[error("annotation {HEALTHY_WITHIN}: {text:?} is no duration ({source}); nothing is rolled back")]
    NoDuration {
        /// The text.
        text: String,
        /// The reason.
        source: jiff::Error,
    },
}

impl HealthLimit {
    /// Returns the limit that the annotations ask for; none without the annotation.
    ///
    /// # Errors
    /// An annotation cannot be read; then nothing is rolled back.
    pub fn of(annotations: Option<&BTreeMap<String, String>>) -> Result<Option<Self>, InvalidHealthLimit> {
        let get = |key: &str| annotations.and_then(|all| all.get(key)).map(String::as_str);
        match get(ON_UNHEALTHY) {
            None => return Ok(None),
            Some(ROLL_BACK) => {}
            Some(other) => return Err(InvalidHealthLimit::Action(other.to_owned())),
        }
        let text = get(HEALTHY_WITHIN).unwrap_or(DEFAULT_WITHIN);
        match text.parse::<SignedDuration>() {
            Ok(within) if within > SignedDuration::ZERO && within <= LONGEST => Ok(Some(Self { within, text: text.to_owned() })),
            Ok(_) => Err(InvalidHealthLimit::OutOfRange(text.to_owned())),
            Err(source) => Err(InvalidHealthLimit::NoDuration { text: text.to_owned(), source }),
        }
    }
}

/// The part of a plan that concerns the health of the applied content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthGate {
    /// The time that applied content has to become healthy; none if no automatic rollback applies.
    pub within: Option<SignedDuration>,
    /// The time of the next check.
    pub until: Option<Timestamp>,
    /// True if the newest revision has become healthy, so that it is not checked any more.
    pub passed: bool,
    /// The revision that this plan rolls back.
    pub rolled_back: Option<RolledBack>,
}

/// The outlook for the newest revision.
#[derive(Clone, Debug, PartialEq)]
pub enum Outlook {
    /// It is healthy or still has time, or the subject asks for no rollback.
    Well(HealthGate),
    /// It has to be rolled back, and that is not safe; with the reason for the condition.
    Stuck(HealthGate, Unhealthy),
    /// It has to be rolled back.
    Back(Box<RolledBack>),
}

/// The facts from which the outlook is computed.
#[derive(Clone, Copy)]
pub struct Situation<'a> {
    /// The revisions.
    pub history: &'a History,
    /// The limit that the subject asks for.
    pub limit: Option<&'a HealthLimit>,
    /// The subject's generation.
    pub generation: i64,
    /// The setting that a person changes to have the content tried again: `spec.source.catalog or the annotation`.
    pub to_try_again: &'a str,
    /// The current time; none if a plan is only shown, so that no time ends.
    pub now: Option<Timestamp>,
    /// Live objects that are known.
    pub live: &'a HashMap<ObjectRef, Live>,
    /// Custom resources that are known, by their kind.
    pub instances: &'a HashMap<ObjectRef, Instances>,
}

impl Situation<'_> {
    /// Returns the outlook for the newest revision, if the subject asks for a rollback.
    ///
    /// # Errors
    /// The facts that are missing.
    pub fn outlook(&self) -> Result<Outlook, Vec<Fact>> {
        let (Some(limit), Some(latest)) = (self.limit, self.history.latest()) else { return Ok(Outlook::Well(HealthGate::default())) };
        if let (State::Pending | State::Failed, Some(back)) = (latest.state, &latest.notes.rolled_back)
            && back.generation == self.generation
        {
            // The rollback was begun and left half-way.
            return Ok(Outlook::Back(Box::new(back.clone())));
        }
        let gate = HealthGate { within: self.history.installed().map(|_| limit.within), ..HealthGate::default() };
        let (Some(by), State::Deployed | State::Pending) = (latest.notes.healthy_by, latest.state) else { return Ok(Outlook::Well(gate)) };
        let unhealthy = self.unhealthy(&latest.record)?;
        if unhealthy.is_empty() {
            return Ok(Outlook::Well(HealthGate { passed: latest.state == State::Deployed, ..gate }));
        }
        if self.now.is_none_or(|now| now < by) {
            return Ok(Outlook::Well(HealthGate { until: Some(by), ..gate }));
        }
        let bundle = &latest.record.bundle.name;
        let failed = format!("{bundle} did not become healthy within {}: {}", limit.text, unhealthy.join("; "));
        let Some(earlier) = self.history.before(latest.number).filter(|earlier| earlier.record.objects != latest.record.objects) else {
            return Ok(Outlook::Stuck(gate, Unhealthy { failed, earlier: None }));
        };
        let older = &earlier.record.bundle.name;
        let verdict = self.way_back(latest, earlier)?;
        if verdict.verdict != Class::Safe {
            let earlier = UnsafeRollback { bundle: older.clone(), class: verdict.verdict, why: verdict.text() };
            return Ok(Outlook::Stuck(gate, Unhealthy { failed, earlier: Some(earlier) }));
        }
        let message = format!("{failed}; rolled back to {older}; change {} to try again", self.to_try_again);
        Ok(Outlook::Back(Box::new(RolledBack {
            from: latest.number,
            bundle: bundle.clone(),
            digest: latest.record.digest(),
            generation: self.generation,
            within: limit.text.clone(),
            message,
        })))
    }

    /// Returns the record that stays in place of one that was rolled back, if nothing has changed since.
    pub fn held(&self, record: &Record) -> Option<(&Arc<Record>, &RolledBack)> {
        let installed = self.history.installed()?;
        let back = installed.notes.rolled_back.as_ref()?;
        let same = back.bundle == record.bundle.name
            && back.generation == self.generation
            && self.limit.is_some_and(|limit| limit.text == back.within)
            && back.digest == record.digest();
        same.then_some((&installed.record, back))
    }

    /// Returns the Deployments of a revision that are not available, each with the reason.
    fn unhealthy(&self, record: &Record) -> Result<Vec<String>, Vec<Fact>> {
        let deployments: Vec<ObjectRef> =
            record.objects.iter().filter(|object| object["kind"] == "Deployment").map(object::place).collect();
        self.need(&deployments)?;
        let state = |target: &ObjectRef| match self.live.get(target)? {
            Live::Present(live) => match health(live) {
                Health::Ready => None,
                Health::Waiting(why) | Health::Failed(why) => Some(format!("{target}: {why}")),
            },
            Live::Absent | Live::NotServed => Some(format!("{target}: it does not exist")),
            Live::Unreadable(problem) => Some(problem.to_string()),
        };
        Ok(deployments.iter().filter_map(state).collect())
    }

    /// Returns the verdict about the rollback.
    fn way_back(&self, latest: &Revision, earlier: &Revision) -> Result<rollback::Verdict, Vec<Fact>> {
        let (from, to) = (&latest.record.objects, &earlier.record.objects);
        let targets: Vec<ObjectRef> =
            from.iter().chain(to).filter(|object| object["kind"] == "CustomResourceDefinition").map(object::place).collect();
        self.need(&targets)?;
        let mut definitions: BTreeMap<String, Value> = BTreeMap::new();
        for target in targets {
            if let Some(Live::Present(live)) = self.live.get(&target) {
                definitions.insert(target.name, (**live).clone());
            }
        }
        let concerned = rollback::concerned(from, to, &definitions);
        let missing: Vec<Fact> = concerned
            .iter()
            .filter(|(_, kind)| !self.instances.contains_key(kind))
            .map(|(_, kind)| Fact::Instances(kind.clone()))
            .collect();
        if !missing.is_empty() {
            return Err(missing);
        }
        let instances: BTreeMap<String, Instances> =
            concerned.into_iter().filter_map(|(name, kind)| Some((name, self.instances.get(&kind)?.clone()))).collect();
        Ok(rollback::judge(&rollback::Question { from, to, definitions: &definitions, instances: &instances, lacking: &[] }))
    }

    fn need(&self, targets: &[ObjectRef]) -> Result<(), Vec<Fact>> {
        let missing: Vec<Fact> = targets.iter().filter(|target| !self.live.contains_key(target)).cloned().map(Fact::Live).collect();
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    }
}
