//! When updates are asked for, and what a failure keeps (CVO-USC-04 to CVO-USC-06, CVO-USC-13).

use std::time::Duration;

use jiff::Timestamp;
use mainstay_api::condition::Status;
use mainstay_api::config_v1::{ClusterVersion, ConditionalUpdate, Release};
use mainstay_versions::Version;

use crate::conditions::{self, Said};

/// The time for which an answer counts when every later attempt fails.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// The shortest time between two attempts, before chance is added.
const SHORTEST: Duration = Duration::from_secs(120);
/// The time after which risks that could not be evaluated are evaluated again.
pub const EVALUATE_AGAIN: Duration = Duration::from_secs(1);
const RECOMMENDED: &str = "Recommended";
const RETRIEVED_UPDATES: &str = "RetrievedUpdates";

/// The shortest time between two attempts; `chance` is drawn once a process, from 0 to 1.
pub fn interval(chance: f64) -> Duration {
    SHORTEST.mul_f64(1.0 + chance.clamp(0.0, 1.0))
}

/// The question about updates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// The update service; empty for the default one.
    pub service: String,
    /// The channel.
    pub channel: String,
    /// The architecture that is wanted.
    pub architecture: String,
}

/// The last answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The question.
    pub question: Question,
    /// When it was asked last.
    pub attempted: Option<Timestamp>,
    /// When there was an answer last, or the question changed.
    pub changed: Option<Timestamp>,
    /// The release in use, as the service knows it.
    pub current: Option<Release>,
    /// The recommended updates; `None` if they are not known.
    pub updates: Option<Vec<Release>>,
    /// The updates that are recommended to some clusters.
    pub conditional: Vec<ConditionalUpdate>,
    /// Condition RetrievedUpdates.
    pub condition: Option<Said>,
}

impl Answer {
    /// Knowledge before the first attempt: conditions of updates, so that their times do not move (CVO-RISK-07).
    pub fn remembered(cluster_version: &ClusterVersion) -> Self {
        Self { conditional: cluster_version.status.conditional_updates.clone(), ..Self::default() }
    }
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: the answer is fresh.
    Wait,
    /// Evaluate risks again.
    Evaluate,
    /// Ask.
    Ask(Why),
}

/// Why updates are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// They were never asked for.
    First,
    /// The channel is another.
    Channel,
    /// The architecture is another.
    Architecture,
    /// The update service is another.
    Service,
    /// There was no answer for too long.
    Outdated,
    /// It is time.
    Periodic,
}

impl Why {
    /// Returns whether the earlier answer stays when there is none.
    fn keeps(self) -> bool {
        self == Self::Periodic
    }
}

/// The next step now.
pub fn decide(last: Option<&Answer>, question: &Question, interval: Duration, now: Timestamp) -> Decision {
    let Some(last) = last else { return Decision::Ask(Why::First) };
    let within = |time: Option<Timestamp>, limit: Duration| {
        time.is_some_and(|time| now.duration_since(time).as_nanos() < i128::try_from(limit.as_nanos()).unwrap_or(i128::MAX))
    };
    if question.channel != last.question.channel {
        Decision::Ask(Why::Channel)
    } else if question.architecture != last.question.architecture {
        Decision::Ask(Why::Architecture)
    } else if !within(last.changed, LONGEST) {
        Decision::Ask(Why::Outdated)
    } else if !within(last.attempted, interval) {
        Decision::Ask(Why::Periodic)
    } else if question.service != last.question.service {
        Decision::Ask(Why::Service)
    } else if last.conditional.iter().any(is_unevaluated) {
        Decision::Evaluate
    } else {
        Decision::Wait
    }
}

/// Returns whether it is not known if an update is recommended.
pub fn is_unevaluated(update: &ConditionalUpdate) -> bool {
    let condition = update.conditions.iter().find(|condition| condition.kind == RECOMMENDED);
    condition.is_none_or(|condition| condition.status == Status::Unknown)
}

/// The outcome of a retrieval.
#[derive(Clone, Debug, PartialEq)]
pub struct Retrieved {
    /// The release in use, as the service knows it.
    pub current: Option<Release>,
    /// The recommended updates; `None` if they are not known.
    pub updates: Option<Vec<Release>>,
    /// The updates that are recommended to some clusters.
    pub conditional: Vec<ConditionalUpdate>,
    /// Condition RetrievedUpdates.
    pub condition: Said,
}

/// The answer that counts from now on. When a service that answered before does not answer, its lists stay (CVO-USC-05).
pub fn keep(last: Option<Answer>, why: Why, question: Question, mut retrieved: Retrieved, now: Timestamp) -> Answer {
    let last = last.unwrap_or_default();
    for update in &mut retrieved.conditional {
        if let Some(known) = last.conditional.iter().find(|known| known.release.image == update.release.image) {
            update.conditions.clone_from(&known.conditions);
        }
    }
    let Retrieved { current, updates, conditional, condition } = retrieved;
    let succeeded = condition.status == Status::True;
    let unanswered =
        condition.status == Status::False && matches!(condition.reason.as_str(), "RemoteFailed" | "ResponseFailed" | "ResponseInvalid");
    let changed = if why == Why::First || last.question != question || succeeded { Some(now) } else { last.changed };
    let mut answer = Answer { question, attempted: Some(now), changed, condition: Some(condition), ..last };
    if !(unanswered && why.keeps()) {
        (answer.current, answer.updates, answer.conditional) = (current, updates, conditional);
    }
    sort(&mut answer);
    answer
}

/// Highest version first (CVO-USC-13).
fn sort(answer: &mut Answer) {
    let order = |one: &Release, other: &Release| match (Version::parse(&one.version), Version::parse(&other.version)) {
        (Ok(one), Ok(other)) => other.cmp_precedence(&one),
        (one, other) => other.is_ok().cmp(&one.is_ok()),
    };
    if let Some(updates) = &mut answer.updates {
        updates.sort_by(order);
    }
    answer.conditional.sort_by(|one, other| order(&one.release, &other.release));
}

/// Puts an answer into a ClusterVersion, unless its question is no longer the one of the spec.
pub fn put(answer: &Answer, cluster_version: &mut ClusterVersion, shows_architecture: bool, now: Timestamp) {
    let Some(condition) = &answer.condition else { return };
    let spec = &cluster_version.spec;
    if answer.question.service != spec.upstream || answer.question.channel != spec.channel {
        return;
    }
    let shown = |release: &Release| Release { architecture: release.architecture.filter(|_| shows_architecture), ..release.clone() };
    let status = &mut cluster_version.status;
    debug_assert_eq!(condition.kind, RETRIEVED_UPDATES);
    conditions::set(&mut status.conditions, condition.clone(), now);
    status.available_updates = answer.updates.as_ref().map(|updates| updates.iter().map(shown).collect());
    status.conditional_updates =
        answer.conditional.iter().map(|update| ConditionalUpdate { release: shown(&update.release), ..update.clone() }).collect();
}
