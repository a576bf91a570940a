//! Available updates: when the update service is asked, and what its answer comes to on this cluster (CVO-USC-04 to CVO-USC-13, CVO-RISK-01 to
//! CVO-RISK-07).

use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mainstay_api::condition::{self, Condition, Status};
use mainstay_api::config_v1::{
    Architecture, ClusterMatchingRule, ClusterVersion, ConditionalUpdate, ConditionalUpdateRisk, PromQlCondition, Release,
};
use mainstay_cluster_version_core::conditions::Said;
use mainstay_cluster_version_core::retrieval::{self, Answer, Decision, EVALUATE_AGAIN, Question, Retrieved, Why, is_unevaluated};
use mainstay_update_graph::{
    Asked, ClusterRelease, EvaluationError, MatchingRule, Query, RetrievalError, RuleCache, Updates, evaluate, retrieved_condition,
};

use crate::accepted::go_architecture;
use crate::pace::Pace;

/// The update service and the metrics of a cluster. They may be slow and hostile: the implementation limits time and bytes.
pub trait UpdateService: Send + Sync {
    /// The endpoint where neither a flag nor the ClusterVersion names one.
    fn endpoint(&self) -> String;

    /// Asks for the updates of a release.
    fn ask<'a>(&'a self, query: &'a Query, proxy: &'a Proxy) -> BoxFuture<'a, Result<mainstay_update_graph::Retrieved, RetrievalError>>;

    /// Asks metrics whether a rule matches.
    fn evaluate<'a>(&'a self, rule: &'a MatchingRule) -> BoxFuture<'a, Result<bool, EvaluationError>>;
}

/// The proxy of the cluster, for requests to the outside (CVO-USC-03).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the Proxy's status")]
pub struct Proxy {
    pub http_proxy: String,
    pub https_proxy: String,
    pub no_proxy: String,
    /// The certificates that are trusted besides, as PEM; empty for none.
    pub trusted: String,
}

/// The state between two questions.
#[derive(Debug, Default)]
pub(crate) struct Retrieval {
    /// The last answer, as the ClusterVersion shows it.
    pub answer: Option<Answer>,
    /// The updates of the last answer that counts.
    updates: Option<Updates>,
    rules: RuleCache,
    /// The time of the first evaluation; the cache counts from there.
    started: Option<Timestamp>,
}

/// The release that updates are asked for, and the place where.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// The endpoint of `--update-service`, which wins.
    pub flag: Option<String>,
    /// The running release, as far as it is known.
    pub current: Release,
}

impl Subject {
    /// The question of a ClusterVersion, and the query that asks it.
    pub fn query(&self, service: &dyn UpdateService, cluster_version: &ClusterVersion) -> (Question, Query) {
        let spec = &cluster_version.spec;
        let wishes_multi = spec.desired_update.as_ref().is_some_and(|update| update.architecture == Some(Architecture::Multi));
        let name = |architecture: Option<Architecture>| match architecture {
            Some(Architecture::Multi) => "Multi".to_owned(),
            _ => go_architecture().to_owned(),
        };
        let current = name(self.current.architecture);
        let desired = if wishes_multi { "Multi".to_owned() } else { current.clone() };
        let upstream = Some(spec.upstream.clone()).filter(|upstream| !upstream.is_empty());
        let query = Query {
            update_service: self.flag.clone().or(upstream).unwrap_or_else(|| service.endpoint()),
            cluster_id: spec.cluster_id.clone(),
            desired_architecture: desired.clone(),
            current_architecture: current,
            channel: spec.channel.clone(),
            version: self.current.version.clone(),
        };
        (Question { service: spec.upstream.clone(), channel: spec.channel.clone(), architecture: desired }, query)
    }
}

impl Retrieval {
    /// What is known at the start: conditions of updates, so that their times do not move (CVO-RISK-07).
    pub fn remember(&mut self, cluster_version: &ClusterVersion) {
        if self.answer.is_none() && !cluster_version.status.conditional_updates.is_empty() {
            self.answer = Some(Answer::remembered(cluster_version));
        }
    }

    /// The next step now.
    pub fn decide(&self, question: &Question, pace: &Pace, now: Timestamp) -> Decision {
        // What was only remembered was never asked for.
        let last = self.answer.as_ref().filter(|answer| answer.attempted.is_some());
        retrieval::decide(last, question, pace.interval(), now)
    }

    /// Keeps the outcome of a question.
    pub fn keep(
        &mut self,
        why: Why,
        question: Question,
        outcome: Result<mainstay_update_graph::Retrieved, RetrievalError>,
        now: Timestamp,
    ) {
        let told = retrieved_condition(&outcome);
        let status = if told.retrieved { Status::True } else { Status::False };
        let condition = Said::new("RetrievedUpdates", status).because(told.reason).saying(told.message);
        let updates = outcome.ok().map(Updates::from);
        let retrieved = Retrieved {
            current: updates.as_ref().map(|updates| release(&updates.current)),
            updates: updates.as_ref().map(|updates| updates.available.iter().map(release).collect()),
            conditional: updates.iter().flat_map(|updates| &updates.conditional).map(conditional).collect(),
            condition,
        };
        let before = self.answer.as_ref().map(|answer| (answer.updates.clone(), answer.conditional.clone()));
        let had_failed = updates.is_none();
        let answer = retrieval::keep(self.answer.take(), why, question, retrieved, now);
        let stays = had_failed && before == Some((answer.updates.clone(), answer.conditional.clone()));
        if !stays {
            self.updates = updates;
        }
        self.answer = Some(answer);
    }

    /// Evaluates the risks by what is known of metrics, and returns the rule that metrics are to be asked for now.
    pub fn evaluate(&mut self, pace: &Pace, now: Timestamp) -> Option<MatchingRule> {
        let counted = self.counted(pace, now);
        let (Some(answer), Some(updates)) = (&mut self.answer, &mut self.updates) else { return None };
        let named = updates.conditional.iter().flat_map(|update| &update.risks).flat_map(|risk| &risk.matching_rules);
        self.rules.retain(named.collect::<Vec<_>>());
        let (rules, mut wanted) = (&mut self.rules, None);
        evaluate(updates, |rule| match rules.ask(rule, counted) {
            Asked::Known(result) => result,
            Asked::Throttled(error) => Err(error),
            Asked::Query(other) => {
                wanted.get_or_insert(other);
                rules.result(rule)
            }
        });
        answer.updates = Some(updates.available.iter().map(release).collect());
        let known = std::mem::take(&mut answer.conditional);
        answer.conditional = updates.conditional.iter().map(|update| evaluated(update, &known, now)).collect();
        wanted
    }

    /// Notes what metrics said of a rule.
    pub fn record(&mut self, rule: &MatchingRule, result: Result<bool, EvaluationError>, pace: &Pace, now: Timestamp) {
        let counted = self.counted(pace, now);
        self.rules.record(rule, result, counted);
    }

    fn counted(&mut self, pace: &Pace, now: Timestamp) -> Timestamp {
        pace.passed(*self.started.get_or_insert(now), now)
    }

    /// The time after which something is to be done again.
    pub fn again(&self, pace: &Pace) -> Duration {
        let unevaluated = self.answer.as_ref().is_some_and(|answer| answer.conditional.iter().any(is_unevaluated));
        if unevaluated { EVALUATE_AGAIN } else { pace.interval() }
    }
}

fn release(release: &ClusterRelease) -> Release {
    Release {
        architecture: (release.architecture == "Multi").then_some(Architecture::Multi),
        version: release.version.clone(),
        image: release.image.clone(),
        url: release.url.clone(),
        channels: release.channels.clone(),
    }
}

fn conditional(update: &mainstay_update_graph::ConditionalUpdate) -> ConditionalUpdate {
    let rule = |rule: &MatchingRule| ClusterMatchingRule {
        kind: rule.kind.clone(),
        promql: rule.promql.as_ref().map(|query| PromQlCondition { promql: query.promql.clone() }),
    };
    let risk = |risk: &mainstay_update_graph::Risk| ConditionalUpdateRisk {
        url: risk.url.clone(),
        name: risk.name.clone(),
        message: risk.message.clone(),
        matching_rules: risk.matching_rules.iter().map(rule).collect(),
    };
    ConditionalUpdate { release: release(&update.release), risks: update.risks.iter().map(risk).collect(), conditions: Vec::new() }
}

/// An update with its condition; its time is that of the one before, of the same image, if the status did not change.
fn evaluated(update: &mainstay_update_graph::ConditionalUpdate, known: &[ConditionalUpdate], now: Timestamp) -> ConditionalUpdate {
    let mut shown = conditional(update);
    if let Some(before) = known.iter().find(|before| before.release.image == shown.release.image) {
        shown.conditions.clone_from(&before.conditions);
    }
    if let Some(recommended) = &update.recommended {
        let status = match recommended.status {
            mainstay_update_graph::Status::True => Status::True,
            mainstay_update_graph::Status::False => Status::False,
            mainstay_update_graph::Status::Unknown => Status::Unknown,
        };
        let wanted = Condition {
            kind: "Recommended".to_owned(),
            status,
            reason: recommended.reason.clone(),
            message: recommended.message.clone(),
            last_transition_time: Time(now),
            observed_generation: None,
        };
        condition::set(&mut shown.conditions, wanted);
    }
    shown
}
