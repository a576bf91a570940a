//! Health after an upgrade, and the way back where somebody asked for it (MS-RB-01).
//!
//! `lifecycle.mainstay.dev/on-unhealthy: RollBack` on a ClusterExtension gives every upgrade a time in which its Deployments have to become
//! available. When it ends, what the revision before applied is applied again, and the bundle is not tried again before somebody changes
//! the extension. Without the annotation nothing is rolled back (OLM1-CTRL-11).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use mainstay_objects::{Health, ObjectRef, health};
use serde_json::Value;

use super::super::facts::{Fact, Live};
use super::super::object;
use super::super::record::{History, Record, Revision, RolledBack, State};
use super::super::rollback::{self, Class, Instances, Question};
use super::{Action, Plan, Planner, Reason, Stop, Unhealthy, UnsafeWayBack, Verdict, steps};

/// The annotation that switches the rollback on.
pub const ON_UNHEALTHY: &str = "lifecycle.mainstay.dev/on-unhealthy";
/// Its only value.
pub const ROLL_BACK: &str = "RollBack";
/// The annotation that says how long Deployments may take.
pub const HEALTHY_WITHIN: &str = "lifecycle.mainstay.dev/healthy-within";
const DEFAULT_WITHIN: &str = "5m";
/// More is no gate any more.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);

/// What the wish for healthy upgrades means for a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// How long what is applied may take to become healthy; none where nothing is rolled back by itself.
    pub within: Option<SignedDuration>,
    /// When to look again.
    pub until: Option<Timestamp>,
    /// The newest revision has become healthy: nobody looks any more.
    pub passed: bool,
    /// This plan leads back from that revision.
    pub rolled_back: Option<RolledBack>,
}

/// How the newest revision stands.
pub(super) enum Outlook {
    /// As far as anybody asked, well.
    Well(Gate),
    /// It has to be rolled back, which is not safe; why, for the condition.
    Stuck(Gate, Unhealthy),
    /// It has to be rolled back.
    Back(Box<RolledBack>),
}

impl Planner<'_> {
    /// What the extension asks for: within what time, as written; and what is wrong with that wish.
    pub(super) fn healthy_within(&self) -> Result<Option<(SignedDuration, String)>, String> {
        let annotations = self.snapshot.extension.metadata.annotations.as_ref();
        let get = |key: &str| annotations.and_then(|all| all.get(key)).map(String::as_str);
        match get(ON_UNHEALTHY) {
            None => return Ok(None),
            Some(ROLL_BACK) => {}
            Some(other) => return Err(format!("annotation {ON_UNHEALTHY}: expected {ROLL_BACK}, found {other:?}; nothing is rolled back")),
        }
        let text = get(HEALTHY_WITHIN).unwrap_or(DEFAULT_WITHIN);
        match text.parse::<SignedDuration>() {
            Ok(within) if within > SignedDuration::ZERO && within <= LONGEST => Ok(Some((within, text.to_owned()))),
            Ok(_) => {
                Err(format!("annotation {HEALTHY_WITHIN}: expected more than 0 and at most 24h, found {text:?}; nothing is rolled back"))
            }
            Err(error) => Err(format!("annotation {HEALTHY_WITHIN}: {text:?} is no duration ({error}); nothing is rolled back")),
        }
    }

    /// How the newest revision stands, where the extension asks for that.
    pub(super) fn outlook(&self, history: &History, wish: Option<&(SignedDuration, String)>) -> Result<Outlook, Stop> {
        let (Some((within, text)), Some(latest)) = (wish, history.latest()) else { return Ok(Outlook::Well(Gate::default())) };
        let generation = self.snapshot.extension.metadata.generation.unwrap_or_default();
        if let (State::Pending | State::Failed, Some(back)) = (latest.state, &latest.notes.rolled_back)
            && back.generation == generation
        {
            // Begun, and left half-way.
            return Ok(Outlook::Back(Box::new(back.clone())));
        }
        let gate = Gate { within: history.installed().map(|_| *within), ..Gate::default() };
        let (Some(by), State::Deployed | State::Pending) = (latest.notes.healthy_by, latest.state) else { return Ok(Outlook::Well(gate)) };
        let unhealthy = self.unhealthy(&latest.record)?;
        if unhealthy.is_empty() {
            return Ok(Outlook::Well(Gate { passed: latest.state == State::Deployed, ..gate }));
        }
        // Without a clock (a plan that is only shown) no time ends.
        let Some(now) = self.snapshot.known.now.filter(|now| *now >= by) else {
            return Ok(Outlook::Well(Gate { until: Some(by), ..gate }));
        };
        tracing::debug!(%now, %by, "the time to become healthy is over");
        let bundle = &latest.record.bundle.name;
        let failed = format!("{bundle} did not become healthy within {text}: {}", unhealthy.join("; "));
        let Some(earlier) = history.before(latest.number).filter(|earlier| earlier.record.objects != latest.record.objects) else {
            return Ok(Outlook::Stuck(gate, Unhealthy { failed, earlier: None }));
        };
        let older = &earlier.record.bundle.name;
        let verdict = self.way_back(latest, earlier)?;
        if verdict.verdict != Class::Safe {
            let earlier = UnsafeWayBack { bundle: older.clone(), class: verdict.verdict, why: verdict.text() };
            return Ok(Outlook::Stuck(gate, Unhealthy { failed, earlier: Some(earlier) }));
        }
        let message = format!("{failed}; rolled back to {older}; change spec.source.catalog or the annotation to try again");
        let (digest, within) = (latest.record.digest(), text.clone());
        Ok(Outlook::Back(Box::new(RolledBack { from: latest.number, bundle: bundle.clone(), digest, generation, within, message })))
    }

    /// The Deployments of a revision that are not available, and why.
    fn unhealthy(&self, record: &Record) -> Result<Vec<String>, Stop> {
        let deployments: Vec<ObjectRef> =
            record.objects.iter().filter(|object| object["kind"] == "Deployment").map(object::place).collect();
        self.need(&deployments)?;
        let state = |target: &ObjectRef| match self.snapshot.known.live.get(target)? {
            Live::Present(live) => match health(live) {
                Health::Ready => None,
                Health::Waiting(why) | Health::Failed(why) => Some(format!("{target}: {why}")),
            },
            Live::Absent | Live::NotServed => Some(format!("{target}: it does not exist")),
            Live::Unreadable(problem) => Some(problem.clone()),
        };
        Ok(deployments.iter().filter_map(state).collect())
    }

    /// Whether the way back is safe.
    fn way_back(&self, latest: &Revision, earlier: &Revision) -> Result<rollback::Verdict, Stop> {
        let (from, to) = (&latest.record.objects, &earlier.record.objects);
        let targets: Vec<ObjectRef> =
            from.iter().chain(to).filter(|object| object["kind"] == "CustomResourceDefinition").map(object::place).collect();
        self.need(&targets)?;
        let mut definitions: BTreeMap<String, Value> = BTreeMap::new();
        for target in targets {
            if let Some(Live::Present(live)) = self.snapshot.known.live.get(&target) {
                definitions.insert(target.name, (**live).clone());
            }
        }
        let known = &self.snapshot.known.instances;
        let concerned = rollback::concerned(from, to, &definitions);
        let missing: Vec<Fact> =
            concerned.iter().filter(|(_, kind)| !known.contains_key(kind)).map(|(_, kind)| Fact::Instances(kind.clone())).collect();
        if !missing.is_empty() {
            return Err(Stop::Need(missing));
        }
        let instances: BTreeMap<String, Instances> =
            concerned.into_iter().filter_map(|(name, kind)| Some((name, known.get(&kind)?.clone()))).collect();
        Ok(rollback::judge(&Question { from, to, definitions: &definitions, instances: &instances, lacking: &[] }))
    }

    fn need(&self, targets: &[ObjectRef]) -> Result<(), Stop> {
        let missing: Vec<Fact> =
            targets.iter().filter(|target| !self.snapshot.known.live.contains_key(target)).cloned().map(Fact::Live).collect();
        if missing.is_empty() { Ok(()) } else { Err(Stop::Need(missing)) }
    }

    /// The plan that leads back.
    pub(super) fn back(&self, history: &History, back: RolledBack) -> Result<Plan, Stop> {
        let begun = history.latest().filter(|latest| latest.notes.rolled_back.as_ref() == Some(&back));
        let Some(earlier) = begun.or_else(|| history.before(back.from)) else {
            return Err(self.stop(Verdict::Blocked(Reason::NoEarlierRevision(Box::new(back)))));
        };
        let record = earlier.record.clone();
        let prefixed = |stop: Stop| match stop {
            Stop::Plan(mut plan) => {
                if let Verdict::Retrying(reason) = plan.verdict {
                    plan.verdict = Verdict::Retrying(Reason::RollingBack { bundle: record.bundle.name.clone(), reason: Box::new(reason) });
                }
                Stop::Plan(plan)
            }
            need @ Stop::Need(_) => need,
        };
        self.permitted(&record.objects).map_err(prefixed)?;
        let gone = steps::vanished(history, &record);
        let live = self.live(&record, &gone)?;
        // The verdict has looked at CRDs already, with an eye on what is stored.
        let warnings = self.checked(&Action::Reassert, &record, &live).map_err(prefixed)?;
        let at_gate = steps::stands_at_gate(history, &record);
        let steps = steps::steps(&Action::Upgrade, &record, &gone, &live, &self.owner(), at_gate);
        let verdict = Verdict::Blocked(Reason::RolledBack(Box::new(back.clone())));
        let gate = Gate { rolled_back: Some(back), ..Gate::default() };
        Ok(Plan { action: Action::Upgrade, steps, record: Some(record), warnings, gate, ..self.report(verdict) })
    }

    /// Why a record is not applied: it was rolled back, and nothing has changed since. With the record that stays.
    pub(super) fn held(&self, history: &History, record: &Record, wish: Option<&(SignedDuration, String)>) -> Option<(Record, Reason)> {
        let installed = history.installed()?;
        let back = installed.notes.rolled_back.as_ref()?;
        let same = back.bundle == record.bundle.name
            && back.generation == self.snapshot.extension.metadata.generation.unwrap_or_default()
            && wish.is_some_and(|(_, within)| *within == back.within)
            && back.digest == record.digest();
        same.then(|| (installed.record.clone(), Reason::RolledBack(Box::new(back.clone()))))
    }
}
