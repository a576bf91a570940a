//! Why a CredentialsRequest is as it is, and the one thing to do (OLM0-TOKEN-19, OLM0-TOKEN-21).

use std::convert::Infallible;

use jiff::Timestamp;
use mainstay_lifecycle::explanation::{self, Evidence, State};
use serde_json::Value;

use crate::conditions::Condition;
use crate::token::{self, Asked};
use crate::verify::TokenError;
use crate::{FINALIZER, Mode, Request, Settings, SettingsError};

/// An explanation. Its actions are commands alone.
pub type Explanation = explanation::Explanation<Infallible>;
/// An action of an explanation.
pub type Action = explanation::Action<Infallible>;

/// The reason why a token could not be asked for or verified, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unverified(String);

impl From<String> for Unverified {
    fn from(problem: String) -> Self {
        Self(problem)
    }
}

impl From<&str> for Unverified {
    fn from(problem: &str) -> Self {
        Self(problem.to_owned())
    }
}

/// The token of an account, verified as a cloud does it; the outer error is why there is none.
pub type Verified = Result<Result<Value, TokenError>, Unverified>;

/// The facts about a request.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The CredentialsRequest.
    pub object: &'a Value,
    /// The settings of the cluster.
    pub settings: Result<Settings, SettingsError>,
    /// True if the namespace of the Secret is there.
    pub has_namespace: bool,
    /// The Secret; `None` if it is missing.
    pub secret: Option<&'a Value>,
    /// The accounts that use the credentials, each with its token.
    pub tokens: Vec<(String, Verified)>,
}

/// Explains a request.
pub fn explain(facts: &Facts<'_>) -> Explanation {
    let metadata = &facts.object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    let subject = format!("credentialsrequest {}/{}", text("namespace"), text("name"));
    let mut found = find(&subject, facts);
    let status = facts.object.get("status").cloned().unwrap_or_default();
    for condition in status["conditions"].as_array().into_iter().flatten() {
        let field = |name: &str| condition[name].as_str().unwrap_or_default();
        let says = format!("{} {} {}: {}", field("type"), field("status"), field("reason"), field("message"));
        found.evidence.push(Evidence { what: "condition".to_owned(), says, at: time(&condition["lastTransitionTime"]) });
    }
    for (account, token) in &facts.tokens {
        let says = match token {
            Err(problem) => format!("could not be asked for: {problem}"),
            Ok(Err(problem)) => format!("a cloud would refuse it: {problem}"),
            Ok(Ok(claims)) => format!(
                "verified against the key set of the issuer: iss {}, aud {}, sub {}, expires {}",
                claims["iss"],
                claims["aud"],
                claims["sub"],
                claims["exp"]
                    .as_i64()
                    .and_then(|seconds| Timestamp::from_second(seconds).ok())
                    .map_or_else(|| "never".to_owned(), |at| at.to_string())
            ),
        };
        found.evidence.push(Evidence { what: format!("token of serviceaccount {account}"), says, at: None });
    }
    if facts.settings.as_ref().is_ok_and(Settings::is_token_mode) {
        found.notes.push(
            "the exchange of the token with the cloud is not tried here: whether the role trusts this issuer and account is known to the cloud alone"
                .to_owned(),
        );
    }
    found
}

fn find(subject: &str, facts: &Facts<'_>) -> Explanation {
    let answer = |situation, state, summary: String| Explanation::new(subject.to_owned(), situation, state, summary);
    let status = facts.object.get("status").cloned().unwrap_or_default();
    let settings = match &facts.settings {
        Ok(settings) => settings,
        Err(problem) => return answer("no-settings", State::NotInstalled, format!("is not reconciled: {problem}")),
    };
    let request = match Request::read(facts.object) {
        Ok(request) => request,
        Err(problem) => return answer("unreadable", State::Degraded, format!("cannot be read: {problem}")),
    };
    let (namespace, name) = (&request.secret_namespace, &request.secret_name);
    let place = format!("secret {namespace}/{name}");
    let edit = format!("kubectl edit credentialsrequest {} -n {}", request.name, request.namespace);
    if facts.object.pointer("/metadata/deletionTimestamp").is_some() {
        let found = answer("removing", State::Removing, "is being removed".to_owned());
        return Explanation { waits_for: Some(format!("finalizer {FINALIZER}, which the cloud credential operator removes")), ..found };
    }
    if settings.cloud() != request.cloud() || settings.cloud().is_none() {
        let summary = format!("is for another platform: it has a {}, and the cluster is on platform {}", request.kind, settings.platform);
        return answer("ignored", State::NotInstalled, summary);
    }
    if settings.mode == Mode::Manual && !settings.is_token_mode() {
        let state = if facts.secret.is_some() { State::Healthy } else { State::NotInstalled };
        let found = answer("manual", state, format!("is not reconciled in mode Manual: {place} is made by hand"));
        let found = found.because("Authentication cluster has no spec.serviceAccountIssuer, so that tokens open no cloud".to_owned());
        let render = "mainstay adm credentials render --help".to_owned();
        return if facts.secret.is_some() {
            found
        } else {
            found.then(Action::new("Make the Secret, for instance from a rendered one").command(render))
        };
    }
    if !facts.has_namespace {
        let create = format!("kubectl create namespace {namespace}");
        let found = answer("no-namespace", State::NotInstalled, format!("waits for namespace {namespace}, where its Secret is to be"));
        return found.then(Action::new("Create the namespace").command(create));
    }
    if settings.is_token_mode() {
        match token::asked(&request, settings.universe.as_deref()) {
            Asked::Wrong(problem) => {
                let found = answer("incomplete", State::Degraded, "asks for a Secret, and its token fields are incomplete".to_owned());
                return found.because(problem).then(Action::new("Complete spec.providerSpec").command(edit));
            }
            Asked::Nothing => {
                let state = if facts.secret.is_some() { State::Healthy } else { State::NotInstalled };
                let found =
                    answer("not-asked", state, format!("has no token fields in spec.providerSpec, so that {place} is made by hand"));
                return found.then(Action::new("Give spec.providerSpec the role or identity of the operator").command(edit));
            }
            Asked::For(_) => {}
        }
    }
    if let Some(failing) = Condition::FAILURES.into_iter().find(|failure| failure.is_true(&status)) {
        let condition = failing.find(&status).cloned().unwrap_or_default();
        let found = answer("failing", State::Degraded, format!("cannot be granted: {}", failing.name()));
        let found = Explanation { since: time(&condition["lastTransitionTime"]), ..found };
        return found.because(condition["message"].as_str().unwrap_or_default().to_owned());
    }
    match facts.secret {
        None => {
            let found = answer("waiting", State::NotInstalled, format!("{place} was not written yet"));
            let found = Explanation { waits_for: Some("the cloud credential operator".to_owned()), ..found };
            found.then(Action::new(
                "See that the operator runs: the component cloud-credential of mainstay up, or mainstay run cloud-credential",
            ))
        }
        Some(secret) if !request.owns(secret) => answer("foreign-secret", State::Degraded, format!("{place} is not this request's")),
        Some(_) => match facts.tokens.iter().find_map(|(account, token)| Some((account, token.as_ref().ok()?.as_ref().err()?))) {
            Some((account, problem)) => {
                let found = answer(
                    "token-refused",
                    State::Degraded,
                    format!("{place} is written, and a cloud would refuse the token of {account}"),
                );
                found.because(problem.to_string())
            }
            None => answer("healthy", State::Healthy, format!("is granted: {place} is written")),
        },
    }
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}
