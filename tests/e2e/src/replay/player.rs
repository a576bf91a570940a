//! Playing one scenario in a namespace of its own.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use futures::future::BoxFuture;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use rand::Rng as _;
use regex::{Captures, Regex};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, timeout_at};

use super::client::{Answer, Session, Target, read};
use super::json::Json;
use super::pointer::{plain, value_at};

/// A watch listens this much longer, so that an event too many is noticed.
const LINGER: Duration = Duration::from_millis(300);

/// How often what must come true is looked at.
const POLL: Duration = Duration::from_millis(40);

/// Plays one scenario and collects the raw answers in step order.
pub struct Player<'a> {
    scenario: &'a Json,
    session: Session<'a>,
    /// What cluster-scoped names carry, and the namespace.
    pub suffix: String,
    /// The scenario's own namespace.
    pub namespace: String,
    variables: BTreeMap<String, Json>,
    /// Cluster-scoped objects, to be deleted in reverse order.
    created: Vec<String>,
}

impl<'a> Player<'a> {
    /// Nothing is sent yet.
    pub fn new(target: &'a Target, scenario: &'a Json) -> Self {
        let letters = b"bcdfghjkmnpqrstvwxz2456789";
        let mut random = rand::rng();
        let suffix: String =
            std::iter::once('q').chain((0..7).map(|_| char::from(letters[random.random_range(0..letters.len())]))).collect();
        let namespace = format!("kr-{suffix}");
        let variables = BTreeMap::from([("sfx".to_owned(), suffix.clone().into()), ("ns".to_owned(), namespace.clone().into())]);
        Self { scenario, session: Session::new(target), suffix, namespace, variables, created: Vec::new() }
    }

    /// The answers, one a step; an error when the scenario cannot begin.
    pub async fn play(&mut self) -> Result<Vec<Json>> {
        let begun = if self.has_namespace() { self.make_namespace().await } else { Ok(()) };
        let mut answers = Vec::new();
        if begun.is_ok() {
            for step in steps(self.scenario) {
                answers.push(self.attempt(step).await);
            }
        }
        if let Err(error) = self.clean_up().await {
            eprintln!("note: {}: cleaning up failed: {error:#}", super::name(self.scenario));
        }
        begun.map(|()| answers)
    }

    fn has_namespace(&self) -> bool {
        !matches!(self.scenario.get("namespace"), Some(Json::Bool(false)))
    }

    async fn make_namespace(&mut self) -> Result<()> {
        let mut metadata = Json::object([("name", self.namespace.as_str().into())]);
        for (key, value) in self.scenario.get("namespace").map_or(&[][..], Json::members) {
            metadata.set(key, value.clone());
        }
        let body = Json::object([("apiVersion", "v1".into()), ("kind", "Namespace".into()), ("metadata", metadata)]);
        let answer = self.session.ask("POST", "/api/v1/namespaces", [("body", body)]).await?;
        if answer.status != 201 {
            bail!("cannot create a namespace: {} {}", answer.status, answer.body);
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        let fills = &self.session.target.fills_namespaces;
        for path in ["/serviceaccounts/default", "/configmaps/kube-root-ca.crt"] {
            let path = format!("/api/v1/namespaces/{}{path}", self.namespace);
            while fills.load(Ordering::Relaxed) && self.session.ask("GET", &path, []).await?.status != 200 {
                if Instant::now() > deadline {
                    fills.store(false, Ordering::Relaxed);
                    eprintln!("note: a new namespace gets no default ServiceAccount or kube-root-ca.crt; not waiting again");
                }
                sleep(POLL).await;
            }
        }
        Ok(())
    }

    /// The answer to one step; its member `error` says why it cannot be played.
    fn attempt<'b>(&'b mut self, step: &'b Json) -> BoxFuture<'b, Json> {
        Box::pin(async move {
            if let Some(seconds) = step.get("sleep").and_then(Json::as_f64) {
                sleep(Duration::from_secs_f64(seconds)).await;
                return Json::Object(Vec::new());
            }
            self.answered(step).await.unwrap_or_else(|error| Json::object([("error", format!("{error:#}").into())]))
        })
    }

    async fn answered(&mut self, step: &Json) -> Result<Json> {
        let step = self.expand(step)?;
        let (answer, more) = if step.has("watch") { self.watch(&step).await? } else { self.request(&step).await? };
        for (variable, source) in step.get("save").map_or(&[][..], Json::members) {
            let source = source.as_str().unwrap_or_default();
            let value = match source.strip_prefix("header:") {
                Some(header) => answer.all.get(header).and_then(|value| value.to_str().ok()).map(Json::from),
                None => value_at(&answer.body, source).cloned(),
            };
            if let Some(value) = value {
                self.variables.insert(variable.clone(), value);
            }
        }
        let mut shown = Json::object([("status", Json::Number(answer.status.into())), ("headers", answer.headers), ("body", answer.body)]);
        for (key, value) in more {
            shown.set(key, value);
        }
        Ok(shown)
    }

    /// Puts variables in the place of `${name}`; a string that is one variable alone takes the variable's type.
    pub fn expand(&self, value: &Json) -> Result<Json> {
        static VARIABLE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\$\{(\w+)\}"));
        Ok(match value {
            Json::Object(members) => {
                let mut expanded = Json::Object(Vec::with_capacity(members.len()));
                for (key, value) in members {
                    let key = plain(&self.expand(&Json::from(key.as_str()))?);
                    // Inner steps take their turn; answers are what was recorded.
                    let value = if matches!(key.as_str(), "steps" | "answer") { value.clone() } else { self.expand(value)? };
                    expanded.set(&key, value);
                }
                expanded
            }
            Json::Array(items) => Json::Array(items.iter().map(|item| self.expand(item)).collect::<Result<_>>()?),
            Json::String(text) => {
                let names: Vec<&str> = VARIABLE.captures_iter(text).filter_map(|found| found.get(1)).map(|name| name.as_str()).collect();
                if let Some(missing) = names.iter().find(|name| !self.variables.contains_key(**name)) {
                    bail!("variable {missing} was not saved by an earlier step");
                }
                match names.as_slice() {
                    [] => value.clone(),
                    [name] if *text == format!("${{{name}}}") => self.variables[*name].clone(),
                    _ => VARIABLE.replace_all(text, |found: &Captures<'_>| plain(&self.variables[&found[1]])).into_owned().into(),
                }
            }
            _ => value.clone(),
        })
    }

    /// The last answer, and members that say more about it.
    async fn request(&mut self, step: &Json) -> Result<(Answer, Vec<(&'static str, Json)>)> {
        let mut answer = self.session.send(step).await?;
        let mut more = Vec::new();
        if let Some(until) = step.get("until") {
            let seconds = until.get("seconds").and_then(Json::as_f64).ok_or_else(|| anyhow!("an until without seconds"))?;
            let deadline = Instant::now() + Duration::from_secs_f64(seconds * self.session.target.patience);
            while !satisfied(until, &answer) {
                if Instant::now() > deadline {
                    more.push(("error", format!("not reached in {seconds} s: {until}").into()));
                    break;
                }
                sleep(POLL).await;
                answer = self.session.send(step).await?;
            }
        }
        let text = |key: &str| step.get(key).and_then(Json::as_str).unwrap_or_default();
        let dry = step.get("query").is_some_and(|query| query.has("dryRun"));
        if answer.status == 201
            && !dry
            && !text("path").contains(&format!("/namespaces/{}/", self.namespace))
            && let Some(name) = value_at(&answer.body, "/metadata/name")
        {
            let below = if text("method") == "POST" { format!("/{}", plain(name)) } else { String::new() };
            self.created.push(format!("{}{below}", text("path")));
        }
        Ok((answer, more))
    }

    /// Opens the stream, plays the inner steps, collects events; the answer's body is `{"events": [...]}`.
    async fn watch(&mut self, step: &Json) -> Result<(Answer, Vec<(&'static str, Json)>)> {
        let wanted = step.get("events").and_then(Json::as_u64);
        let seconds = step.get("seconds").and_then(Json::as_f64);
        let (response, sender) = self.session.stream(step.get("watch").unwrap_or(&Json::Null)).await?;
        if response.status() != 200 || wanted.is_none() && seconds.is_none() {
            return Ok((read(response).await?, Vec::new()));
        }
        let (parts, body) = response.into_parts();
        let (tell, mut told) = unbounded_channel();
        let reader = tokio::spawn(events(body, tell));
        let mut inner = Vec::new();
        for each in steps(step) {
            inner.push(self.attempt(each).await);
        }
        let mut deadline = Instant::now() + Duration::from_secs_f64(seconds.unwrap_or(10.0));
        let (mut seen, mut closed) = (Vec::new(), false);
        while !closed {
            if wanted.is_some_and(|wanted| seen.len() as u64 >= wanted) {
                deadline = deadline.min(Instant::now() + LINGER);
            }
            match timeout_at(deadline, told.recv()).await {
                Ok(Some(event)) => seen.push(event),
                Ok(None) => closed = true,
                Err(_) => break,
            }
        }
        reader.abort();
        drop(sender);
        let mut body = vec![("events", Json::Array(seen))];
        if wanted.is_none() {
            body.push(("closed", Json::Bool(closed)));
        }
        let content = parts.headers.get("content-type").and_then(|value| value.to_str().ok()).map_or(Json::Null, Json::from);
        let headers = Json::object([("content-type", content)]);
        let answer = Answer { status: 200, headers, all: parts.headers, body: Json::object(body) };
        Ok((answer, vec![("steps", Json::Array(inner))]))
    }

    async fn clean_up(&mut self) -> Result<()> {
        for path in std::mem::take(&mut self.created).iter().rev() {
            self.session.ask("DELETE", path, []).await?;
        }
        if self.has_namespace() {
            let base = format!("/api/v1/namespaces/{}", self.namespace);
            // No kubelet ends the grace period of a pod on a node.
            if self.scenario.get("steps").is_some_and(|steps| steps.spaced().contains("/pods")) {
                let query = Json::object([("gracePeriodSeconds", Json::Number(0.into()))]);
                self.session.ask("DELETE", &format!("{base}/pods"), [("query", query)]).await?;
            }
            self.session.ask("DELETE", &base, []).await?;
        }
        Ok(())
    }
}

/// The steps of a scenario, or of a watch.
pub fn steps(of: &Json) -> &[Json] {
    of.get("steps").map_or(&[], Json::items)
}

/// A pattern that stands in this program.
pub fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|error| panic!("{error}"))
}

/// Sends every event of a stream; its end closes the channel.
async fn events(mut body: Incoming, tell: UnboundedSender<Json>) {
    let mut buffer = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        buffer.extend_from_slice(frame.data_ref().map_or(&[][..], AsRef::as_ref));
        while let Some(end) = buffer.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let Ok(event) = serde_json::from_slice(&line) else { return };
            if tell.send(event).is_err() {
                return;
            }
        }
    }
}

/// `status` is the HTTP status; in `values` null means absent and `"*"` means present.
fn satisfied(until: &Json, answer: &Answer) -> bool {
    let status = until.get("status").and_then(Json::as_u64).is_none_or(|status| status == u64::from(answer.status));
    status
        && until.get("values").map_or(&[][..], Json::members).iter().all(|(pointer, want)| match (want, value_at(&answer.body, pointer)) {
            (Json::Null, got) => got.is_none(),
            (Json::String(any), got) if any == "*" => got.is_some(),
            (want, got) => got == Some(want),
        })
}
