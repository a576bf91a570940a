//! The verdict about a rollback to earlier content: its safety and the data that would be lost (MS-RB-01). Pure: facts in, a verdict out.
//!
//! ```text
//!   what is applied now ─┐
//!   what it goes back to ├─► judge ──► safe | unsafe: these objects | impossible: why
//!   live CRDs and their  │
//!   custom resources     ─┘
//! ```
//!
//! The command line asks before it changes anything, the controller before an automatic rollback; both get the same answer.

mod fields;

use std::collections::BTreeMap;
use std::fmt;

use mainstay_diagnostics::counted;
use mainstay_objects::ObjectRef;
use mainstay_schema::upgrade;
use serde::Serialize;
use serde_json::{Value, json};

use crate::live::Instances;
use crate::object;
use crate::preview::custom_resources::impact;

/// Maximum number of names in a risk.
const NAMED: usize = 10;

/// The facts from which a rollback is judged.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The objects that are applied now.
    pub from: &'a [Value],
    /// The objects that would be applied.
    pub to: &'a [Value],
    /// The live CRDs of both, by name.
    pub definitions: &'a BTreeMap<String, Value>,
    /// The custom resources of those CRDs that [`concerned`] names, by the CRD's name.
    pub instances: &'a BTreeMap<String, Instances>,
    /// Permissions that the installer lacks and that will not be granted.
    pub lacking: &'a [String],
}

/// The verdict about a rollback.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The verdict in one word.
    pub verdict: Class,
    /// The risks, impossible ones first.
    pub risks: Vec<Risk>,
    /// Changes of CRDs that the preflight refuses although no object is harmed: the check has to be off for this change (OLM1-CRD-07).
    pub preflight: Vec<String>,
}

/// The verdict in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Class {
    /// Nothing is lost.
    #[default]
    Safe,
    /// Data may be lost; the user has to confirm it.
    Unsafe,
    /// The rollback cannot be applied.
    Impossible,
}

impl fmt::Display for Class {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Safe => "safe",
            Self::Unsafe => "unsafe",
            Self::Impossible => "impossible",
        })
    }
}

/// One risk of a rollback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Risk {
    /// The severity: the risk makes the rollback impossible or unsafe.
    pub severity: Class,
    /// The subject of the risk.
    pub about: About,
    /// The object.
    pub object: String,
    /// The effect on the object.
    pub message: String,
    /// The names of the affected custom resources; if there are many, only the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// The subject of a risk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "named by what they are")]
pub enum About {
    Bundle,
    StoredVersion,
    ServedVersion,
    Conversion,
    RemovedField,
    Schema,
    Definition,
    Webhook,
    #[serde(rename = "rights")]
    Permissions,
}

impl fmt::Display for Risk {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.object, self.message)?;
        if !self.names.is_empty() {
            write!(out, ": {}", self.names.join(", "))?;
        }
        Ok(())
    }
}

impl Verdict {
    /// Returns the verdict on a rollback that is impossible because the older bundle is unavailable.
    pub fn unavailable(bundle: &str, problem: &str) -> Self {
        let risk = Risk {
            severity: Class::Impossible,
            about: About::Bundle,
            object: format!("bundle {bundle}"),
            message: problem.to_owned(),
            names: Vec::new(),
        };
        Self { verdict: Class::Impossible, risks: vec![risk], preflight: Vec::new() }
    }

    /// Returns the risks on one line.
    pub fn text(&self) -> String {
        self.risks.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }
}

/// Returns the CRDs whose custom resources decide the verdict: those whose schema loses something, and those that would be deleted.
pub fn concerned(from: &[Value], to: &[Value], definitions: &BTreeMap<String, Value>) -> Vec<(String, ObjectRef)> {
    definitions
        .iter()
        .filter(|(name, live)| match find(to, "CustomResourceDefinition", name) {
            Some(older) => upgrade::check(live, older).is_err(),
            None => find(from, "CustomResourceDefinition", name).is_some(),
        })
        .filter_map(|(name, live)| Some((name.clone(), kind(live)?)))
        .collect()
}

/// Judges a rollback.
pub fn judge(question: &Question<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    for (name, live) in question.definitions {
        let known = question.instances.get(name);
        match find(question.to, "CustomResourceDefinition", name) {
            Some(older) => definition(name, live, older, known, &mut verdict),
            None if find(question.from, "CustomResourceDefinition", name).is_some() => dropped(name, known, &mut verdict),
            None => {}
        }
    }
    for webhook in question.to.iter().filter(|object| is_webhook(object)) {
        let newer = find(question.from, text(&webhook["kind"]), text(&webhook["metadata"]["name"]));
        if newer.is_none_or(|newer| judged(newer) != judged(webhook)) {
            let message = "the older webhook judges objects that were made under other rules, and may refuse their next change";
            verdict.add(Class::Unsafe, About::Webhook, &object::place(webhook).to_string(), message.to_owned());
        }
    }
    for right in question.lacking {
        let message = format!("lacks what the older bundle needs: {right}");
        verdict.add(Class::Unsafe, About::Permissions, "the installer's account", message);
    }
    verdict.risks.sort_by_key(|risk| std::cmp::Reverse(risk.severity));
    verdict
}

impl Verdict {
    fn add(&mut self, severity: Class, about: About, object: &str, message: String) {
        self.add_named(severity, about, object, message, Vec::new());
    }

    fn add_named(&mut self, severity: Class, about: About, object: &str, message: String, names: Vec<String>) {
        self.verdict = self.verdict.max(severity);
        self.risks.push(Risk { severity, about, object: object.to_owned(), message, names });
    }
}

/// Judges a CRD that both contents have.
fn definition(name: &str, live: &Value, older: &Value, known: Option<&Instances>, verdict: &mut Verdict) {
    let subject = format!("CustomResourceDefinition {name}");
    let has = |crd: &Value, version: &str| versions(crd).iter().any(|each| each["name"] == version);
    let stored = live["status"]["storedVersions"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for version in stored.filter(|version| !has(older, version)) {
        let message = format!("objects are stored as {version}, which the older definition lacks; the API server refuses that");
        verdict.add(Class::Impossible, About::StoredVersion, &subject, message);
    }
    let (now, then) = (storage(live), storage(older));
    if now != then && has(older, now) {
        let message =
            format!("objects are stored as {now}; the older definition stores {then}, and what only {now} knows is lost on the way");
        verdict.add(Class::Unsafe, About::StoredVersion, &subject, message);
    }
    for version in versions(live).iter().filter(|version| version["served"] == true) {
        let version = text(&version["name"]);
        if !versions(older).iter().any(|each| each["name"] == version && each["served"] == true) {
            verdict.add(Class::Unsafe, About::ServedVersion, &subject, format!("{version} is no longer served; its clients fail"));
        }
    }
    let webhook = |crd: &Value| (crd["spec"]["conversion"]["strategy"] == "Webhook").then(|| crd["spec"]["conversion"]["webhook"].clone());
    match (webhook(live), webhook(older)) {
        (Some(_), None) => {
            let message = "the conversion webhook goes: objects in other versions are read without being converted".to_owned();
            verdict.add(Class::Unsafe, About::Conversion, &subject, message);
        }
        (_, Some(_)) if versions(live).len() > 1 || versions(older).len() > 1 => {
            let message = "the older operator's webhook has to convert objects that the newer one wrote".to_owned();
            verdict.add(Class::Unsafe, About::Conversion, &subject, message);
        }
        _ => {}
    }
    let Err(findings) = upgrade::check(live, older) else { return };
    let items = match known {
        Some(Instances::Known(items)) => items.as_slice(),
        Some(Instances::Unreadable(problem)) => {
            verdict.add(
                Class::Unsafe,
                About::Schema,
                &subject,
                format!("its custom resources cannot be read, so the losses are unknown: {problem}"),
            );
            return;
        }
        None => &[],
    };
    let removed = fields::removed(live, older, now);
    for field in &removed {
        let holding: Vec<String> = items.iter().filter(|item| field.is_set(item)).map(place).collect();
        if !holding.is_empty() {
            let count = custom_resources(holding.len());
            let have = if holding.len() == 1 { "has" } else { "have" };
            let message = format!("{field} is not in the older definition, and is lost; {count} {have} data in it");
            verdict.add_named(Class::Unsafe, About::RemovedField, &subject, message, few(holding));
        }
    }
    // A lost field covers the findings below it; the other findings matter to existing objects.
    let under_removed = |path: &str| removed.iter().any(|field| path.starts_with(&field.as_found()));
    let others: Vec<&upgrade::UpgradeFinding> =
        findings.iter().filter(|finding| finding.version.is_some() && !under_removed(&finding.path)).collect();
    if !items.is_empty() && !others.is_empty() && has(older, now) {
        satisfied(live, older, items, &others, &subject, verdict);
    }
    verdict.preflight.extend(findings.iter().map(|finding| format!("{subject}: {finding}")));
}

/// Checks that the custom resources satisfy the older definition, in which these findings are stricter or otherwise different.
fn satisfied(live: &Value, older: &Value, items: &[Value], findings: &[&upgrade::UpgradeFinding], subject: &str, verdict: &mut Verdict) {
    let held = impact(live, older, items);
    if !held.invalid.is_empty() {
        let does = if held.invalid.len() == 1 { "does" } else { "do" };
        let message = format!("{} {does} not satisfy the older definition", custom_resources(held.invalid.len()));
        verdict.add_named(Class::Unsafe, About::Schema, subject, message, few(held.invalid));
    }
    // If not everything could be checked, every finding may matter.
    for (finding, why) in findings.iter().filter_map(|finding| held.notes.first().map(|why| (finding, why))) {
        let message = format!("{finding}; {} may not satisfy the older definition ({why})", custom_resources(items.len()));
        verdict.add(Class::Unsafe, About::Schema, subject, message);
    }
}

/// Judges a CRD that the older content does not have.
fn dropped(name: &str, known: Option<&Instances>, verdict: &mut Verdict) {
    let subject = format!("CustomResourceDefinition {name}");
    match known {
        Some(Instances::Known(items)) if items.is_empty() => {}
        Some(Instances::Known(items)) => {
            let message = format!("is not in the older bundle and is deleted, with {}", custom_resources(items.len()));
            verdict.add_named(Class::Unsafe, About::Definition, &subject, message, few(items.iter().map(place).collect()));
        }
        Some(Instances::Unreadable(problem)) => {
            let message = format!("is not in the older bundle and is deleted; its custom resources cannot be read: {problem}");
            verdict.add(Class::Unsafe, About::Definition, &subject, message);
        }
        None => verdict.add(Class::Unsafe, About::Definition, &subject, "is not in the older bundle and is deleted".to_owned()),
    }
}

/// Returns the kind in which a CRD's custom resources are listed: in the stored version if it is served.
pub fn kind(crd: &Value) -> Option<ObjectRef> {
    let served = |version: &&Value| version["served"] == true;
    let stored = versions(crd).iter().filter(served).find(|version| version["storage"] == true);
    let version = stored.or_else(|| versions(crd).iter().find(served))?;
    Some(ObjectRef {
        api_version: format!("{}/{}", text(&crd["spec"]["group"]), text(&version["name"])),
        kind: text(&crd["spec"]["names"]["kind"]).to_owned(),
        namespace: String::new(),
        name: String::new(),
    })
}

fn custom_resources(count: usize) -> String {
    counted(count, "custom resource")
}

fn few(mut names: Vec<String>) -> Vec<String> {
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    names
}

fn place(item: &Value) -> String {
    let (namespace, name) = (text(&item["metadata"]["namespace"]), text(&item["metadata"]["name"]));
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> Option<&'a Value> {
    objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
}

fn is_webhook(object: &Value) -> bool {
    matches!(text(&object["kind"]), "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration")
}

/// Returns the requests that a webhook configuration covers, without the address of its server.
fn judged(configuration: &Value) -> Vec<Value> {
    let part = |webhook: &Value| {
        json!([
            webhook["name"],
            webhook["rules"],
            webhook["failurePolicy"],
            webhook["clientConfig"]["service"]["path"],
            webhook["objectSelector"],
            webhook["namespaceSelector"],
            webhook["matchPolicy"],
            webhook["sideEffects"]
        ])
    };
    configuration["webhooks"].as_array().into_iter().flatten().map(part).collect()
}

fn versions(crd: &Value) -> &[Value] {
    crd["spec"]["versions"].as_array().map_or(&[], Vec::as_slice)
}

fn storage(crd: &Value) -> &str {
    versions(crd).iter().find(|version| version["storage"] == true).map_or("", |version| text(&version["name"]))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
