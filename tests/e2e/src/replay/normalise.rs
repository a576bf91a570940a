//! Placeholders for what differs from run to run: collected over all answers of a scenario, then written into each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::json::Json;
use super::player::{Player, pattern};
use super::pointer::{ABSENT, locate, replace};

static UUID: LazyLock<Regex> = LazyLock::new(|| pattern("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"));
static TIME: LazyLock<Regex> = LazyLock::new(|| pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"));
static AGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?:(\d+[smhdy])+|<invalid>)$"));
static ADDRESS: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?:\d+\.\d+\.\d+\.\d+|[0-9a-f]*:[0-9a-f:]+)$"));
static GENERATED: LazyLock<Regex> = LazyLock::new(|| pattern(r#""generateName": "([^"]+)""#));
static TEXTS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let texts = [
        (r"eyJ[\w-]+\.[\w-]+\.[\w-]+", "<jwt>"),
        (r"ZXlK[\w+/=]{60,}", "<jwt>"),
        (r"-----BEGIN [\s\S]+-----\n?", "<pem>"),
        (r"LS0tLS1CRUdJTi[\w+/=]+", "<pem>"),
        (r"(too old resource version: )\d+ \(\d+\)", "${1}<rv> (<rv>)"),
        (r"(\?hash=)[0-9A-F]{40,}", "${1}<hash>"),
        (r"(Too large resource version: \d+, current: )\d+", "${1}<rv>"),
        (r#"(resourceVersion(?:\\*":\\*|: )")\d+"#, "${1}<rv>"),
        (r"(kube-api-access-)[a-z0-9]{5}\b", "${1}<name>"),
        (r"(ResourceVersion in (?:precondition: |object meta: |the precondition \(|record \())\d+", "${1}<rv>"),
        (r#"(range of valid IPs is )[^\s"]+"#, "${1}<cidr>"),
        (r#"((?:Post|Get) "[^"]+": ).*"#, "${1}<network error>"),
    ];
    texts.into_iter().map(|(text, placeholder)| (pattern(text), placeholder)).collect()
});
const VERSION_KEYS: [&str; 9] =
    ["major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"];
/// The time that Kubernetes writes as an example.
const EXAMPLE_TIME: &str = "2006-01-02T15:04:05";
const GENERATED_LETTERS: &str = "bcdfghjklmnpqrstvwxz2456789";

/// Replaces what differs from run to run in the answers of one scenario.
pub struct Normaliser<'a> {
    player: &'a Player<'a>,
    /// The scenario's steps as text: what stands there is never replaced.
    sent: String,
    uids: BTreeMap<String, String>,
    versions: BTreeSet<String>,
    order: BTreeMap<String, String>,
    /// Names and their placeholders, in order of appearance.
    names: Vec<(String, String)>,
    prefixes: Vec<(String, Regex)>,
}

impl<'a> Normaliser<'a> {
    /// Collects versions and generated names of all answers.
    pub fn new(player: &'a Player<'a>, steps: &Json, answers: &[Json]) -> Self {
        let sent = steps.spaced();
        let prefixes: BTreeSet<String> = GENERATED.captures_iter(&sent).map(|found| found[1].to_owned()).collect();
        let generated = |prefix: &str| pattern(&format!("{}[{GENERATED_LETTERS}]{{5}}", regex::escape(prefix)));
        let prefixes = prefixes.into_iter().map(|prefix| (prefix.clone(), generated(&prefix))).collect();
        let mut this =
            Self { player, sent, uids: BTreeMap::new(), versions: BTreeSet::new(), order: BTreeMap::new(), names: Vec::new(), prefixes };
        for answer in answers {
            this.collect(answer, None);
        }
        let mut ordered: Vec<_> = this.versions.iter().cloned().collect();
        ordered.sort_by_key(|version| (!digits(version), version.len(), version.clone()));
        this.order = ordered.into_iter().zip(1..).map(|(version, number)| (version, format!("<rv{number}>"))).collect();
        this.names.sort_by_key(|(name, _)| std::cmp::Reverse(name.chars().count()));
        this
    }

    fn collect(&mut self, node: &Json, parent: Option<&Json>) {
        for item in node.items() {
            self.collect(item, parent);
        }
        let text = |key: &str| node.get(key).and_then(Json::as_str);
        if let Some(version) = text("resourceVersion").filter(|version| !version.is_empty() && !of_store(parent)) {
            self.versions.insert(version.to_owned());
        }
        if let (Some(name), Some(prefix)) = (text("name"), text("generateName"))
            && !prefix.is_empty()
            && name != prefix
            && name.starts_with(prefix)
        {
            self.name(name, |number| format!("{prefix}<name{number}>"));
        }
        for label in ["pod-template-hash", "controller-revision-hash"] {
            if let Some(value) = text(label).filter(|value| !self.sent.contains(value)) {
                self.name(value.rsplit('-').next().unwrap_or(value), |number| format!("<hash{number}>"));
            }
        }
        for (_, value) in node.members() {
            self.collect(value, Some(node));
        }
    }

    fn name(&mut self, name: &str, placeholder: impl Fn(usize) -> String) {
        if self.names.iter().all(|(known, _)| known != name) {
            self.names.push((name.to_owned(), placeholder(self.names.len() + 1)));
        }
    }

    /// A text with placeholders.
    pub fn text(&mut self, value: &str) -> String {
        let mut value = value.to_owned();
        for (name, placeholder) in &self.names {
            value = value.replace(name, placeholder);
        }
        for (prefix, generated) in &self.prefixes {
            // Names that were generated and then refused; not the beginning of a longer word.
            let whole = value.clone();
            value = generated
                .replace_all(&whole, |found: &Captures<'_>| {
                    let end = found.get(0).map_or(0, |all| all.end());
                    let goes_on = whole[end..].chars().next().is_some_and(|next| next.is_alphanumeric() || "_<-".contains(next));
                    if goes_on { found[0].to_owned() } else { format!("{prefix}<name>") }
                })
                .into_owned();
        }
        let value = value.replace(&self.player.namespace, "${ns}").replace(&self.player.suffix, "${sfx}");
        let (sent, uids) = (&self.sent, &mut self.uids);
        let kept = |found: &str, placeholder: String| if sent.contains(found) { found.to_owned() } else { placeholder };
        let value = UUID.replace_all(&value, |found: &Captures<'_>| {
            let next = format!("<uid{}>", uids.len() + 1);
            kept(&found[0], uids.entry(found[0].to_owned()).or_insert(next).clone())
        });
        let value = TIME.replace_all(&value, |found: &Captures<'_>| {
            let precise = if found.get(1).is_some() { "<microtime>" } else { "<time>" };
            if found[0].starts_with(EXAMPLE_TIME) { found[0].to_owned() } else { kept(&found[0], precise.to_owned()) }
        });
        let mut value = value.into_owned();
        for (pattern, placeholder) in TEXTS.iter() {
            let expand = |found: &Captures<'_>| {
                let mut expanded = String::new();
                found.expand(placeholder, &mut expanded);
                kept(&found[0], expanded)
            };
            value = pattern.replace_all(&value, expand).into_owned();
        }
        value
    }

    /// A copy with placeholders. `owner` is the document that a value belongs to; for what is in metadata, the whole object.
    pub fn rewrite(&mut self, node: &Json, key: &str, owner: Option<&Json>) -> Json {
        match node {
            Json::Object(members) => {
                let below = if key == "metadata" { owner } else { Some(node) };
                let mut copy = Json::Object(Vec::with_capacity(members.len()));
                for (name, value) in members {
                    let written = self.text(name);
                    let value = self.rewrite(value, name, below);
                    copy.set(&written, value);
                }
                copy
            }
            Json::Array(items) => {
                let mut items: Vec<Json> = items.iter().map(|item| self.rewrite(item, key, owner)).collect();
                let text = |item: &Json, key: &str| item.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
                if key == "managedFields" {
                    // The server orders entries of one kind by time.
                    let keys = ["operation", "manager", "subresource", "apiVersion", "fieldsV1"];
                    items.sort_by_cached_key(|item| {
                        Json::Array(keys.iter().map(|key| item.get(key).cloned().unwrap_or_else(|| "".into())).collect()).spaced()
                    });
                } else if key == "causes" && items.iter().all(|item| text(item, "reason") == "FieldManagerConflict") {
                    // Several managers come in any order.
                    items.sort_by_cached_key(|item| (text(item, "message"), text(item, "field")));
                }
                Json::Array(items)
            }
            Json::Number(number) if matches!(key, "nodePort" | "healthCheckNodePort") => {
                let allocated = number.as_u64() != Some(0) && !self.sent.contains(&number.to_string());
                if allocated { format!("<{key}>").into() } else { node.clone() }
            }
            Json::String(text) => self.string(text, key, owner).into(),
            _ => node.clone(),
        }
    }

    fn string(&mut self, value: &str, key: &str, owner: Option<&Json>) -> String {
        match key {
            "resourceVersion" if !value.is_empty() => {
                if of_store(owner) {
                    "<rv>".to_owned()
                } else {
                    self.order.get(value).map_or(value, String::as_str).to_owned()
                }
            }
            "continue" if !value.is_empty() => "<continue>".to_owned(),
            "clusterIP" | "clusterIPs" if ADDRESS.is_match(value) && !self.sent.contains(value) => "<ip>".to_owned(),
            "cells" if AGE.is_match(value) => "<age>".to_owned(),
            _ if VERSION_KEYS.contains(&key) && owner.is_some_and(|owner| owner.has("gitVersion")) => format!("<{key}>"),
            _ => self.text(value),
        }
    }

    /// The part of an answer that a transcript holds.
    pub fn normalised(&mut self, step: &Json, answer: &Json) -> Json {
        let Some(status) = answer.get("status") else { return answer.clone() };
        let none = Json::Null;
        let raw = answer.get("body").unwrap_or(&none);
        let only = step.get("only").filter(|_| status.as_u64() < Some(400));
        let mut body = match only {
            Some(only) => self.picked(only, raw),
            None => self.rewrite(raw, "", None),
        };
        let ignored: Vec<&str> = step.get("ignore").map_or(&[][..], Json::items).iter().filter_map(Json::as_str).collect();
        for pointer in &ignored {
            if pointer.is_empty() {
                body = "<ignored>".into();
            } else {
                replace(&mut body, pointer, &"<ignored>".into());
            }
        }
        let headers = self.rewrite(answer.get("headers").unwrap_or(&none), "", None);
        let mut normalised = Json::object([("status", status.clone()), ("headers", headers), ("body", body)]);
        if let Some(error) = answer.get("error") {
            normalised.set("error", error.clone());
        }
        normalised
    }

    fn picked(&mut self, only: &Json, raw: &Json) -> Json {
        let mut picked = Json::Object(Vec::new());
        for pointer in only.items() {
            // What the step says was played with, so its variables are known; one that is not has no place in the answer either.
            let pointer = self.player.expand(pointer).unwrap_or_default();
            let pointer = pointer.as_str().unwrap_or_default();
            let found = locate(raw, pointer).into_iter().map(|found| {
                let owner = if pointer.starts_with("/metadata") { Some(raw) } else { found.parent };
                self.rewrite(found.value, found.key.unwrap_or_default(), owner)
            });
            let found: Vec<Json> = found.collect();
            let value = if pointer.contains('*') { Json::Array(found) } else { found.into_iter().next().unwrap_or_else(|| ABSENT.into()) };
            let name = self.text(pointer);
            picked.set(&name, value);
        }
        picked
    }
}

fn digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the resourceVersion in this document's metadata is the store's, not an object's: lists, tables, bookmarks.
fn of_store(node: Option<&Json>) -> bool {
    let Some(metadata) = node.and_then(|node| node.get("metadata")).filter(|metadata| matches!(metadata, Json::Object(_))) else {
        return false;
    };
    let named = |key: &str| metadata.get(key).is_some_and(|value| value.as_str() != Some("") && !matches!(value, Json::Null));
    let list = ["items", "columnDefinitions", "rows"].iter().any(|key| node.is_some_and(|node| node.has(key)));
    list || !named("name") && !named("uid")
}
