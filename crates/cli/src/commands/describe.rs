//! `mainstay describe`: the status of an extension or operator, what it waits for, its objects and events (MS-CLI-05).

use std::fmt::Write as _;

use clap::Args;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mainstay_api::condition::{Condition, Status};
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_lifecycle::revision::History;
use mainstay_objects::{Health, ObjectRef, health};
use mainstay_operations::apply::named as title;
use mainstay_operations::classic::described;
use mainstay_operations::explain::{last_seen, raw_events};
use mainstay_operations::extensions::API_VERSION;
use mainstay_operations::{Session, extensions, not_written, simulated};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::output::{self, Format, Table};
use mainstay_terminal::printable::hanging;
use mainstay_terminal::runtime;
use serde_json::{Value, json};

use super::classic;
use crate::commands::listed::age;
use crate::named;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay describe beacon
  mainstay describe beacon --classic -n lights     Subscription, CSV, InstallPlan and OperatorGroup of OLM classic in one view
  mainstay describe beacon -o jsonpath={.waitsFor}")]
pub struct Arguments {
    /// The extension; with --classic the Subscription, package or CSV
    name: String,
    /// The Subscription's namespace, with --classic
    #[arg(long, short, value_name = "NAMESPACE", value_parser = named::namespace, requires = "classic")]
    namespace: Option<String>,
    /// Of OLM classic: the operator of this Subscription, package or CSV
    #[arg(long, requires = "namespace")]
    classic: bool,
    /// table, json, yaml or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json, yaml or jsonpath=PATH"))]
    output: Format,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Describes an extension.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        if let (true, Some(namespace)) = (arguments.classic, &arguments.namespace) {
            let found = described::describe(&session, namespace, &arguments.name).await?;
            return if arguments.output.is_table() {
                output::print(&classic::describe::text(&found))
            } else {
                output::value(&arguments.output, &classic::describe::value(&found)?)
            };
        }
        let found = Description::read(&session, &arguments.name).await?;
        if arguments.output.is_table() { output::print(&found.text()) } else { output::value(&arguments.output, &found.value()?) }
    })
}

/// Everything about one extension.
pub struct Description {
    extension: ClusterExtension,
    history: History,
    /// The reason why the history is not known.
    unknown: Option<String>,
    objects: Vec<(String, String)>,
    events: Vec<Event>,
    /// Warnings about a state that is not an error.
    warnings: Vec<String>,
}

impl Description {
    /// Reads the description from the cluster.
    pub async fn read(session: &Session, name: &str) -> Result<Self, Failure> {
        let extension = extensions::get(session, name).await?;
        let (history, unknown) = match extensions::history(session, &extension).await {
            Ok(history) => (history, None),
            // Its conditions and events are shown all the same.
            Err(failure) => (History::default(), Some(failure.to_line())),
        };
        let (mut objects, mut present) = (Vec::new(), Vec::new());
        for object in history.installed().or(history.latest()).into_iter().flat_map(|revision| &revision.record.objects) {
            let place = ObjectRef::of(object).map_err(|error| Failure::failed(title(object), &error))?;
            let state = match session.writer.get(&place).await.map_err(|error| not_written(&error))? {
                None => "missing".to_owned(),
                Some(live) => {
                    let state = match health(&live) {
                        Health::Ready => "ready".to_owned(),
                        Health::Waiting(why) => format!("waiting: {why}"),
                        Health::Failed(why) => format!("failed: {why}"),
                    };
                    present.push(live);
                    state
                }
            };
            objects.push((title(object), state));
        }
        let events = raw_events(session, "ClusterExtension", name).await?;
        let warnings = warnings(session, &present).await;
        Ok(Self { extension, history, unknown, objects, events, warnings })
    }

    /// A sentence that says what the extension waits for.
    fn waits_for(&self) -> String {
        let of = |kind: &str| extensions::condition(&self.extension, kind);
        let message = |condition: &Condition| condition.message.clone();
        if self.extension.metadata.deletion_timestamp.is_some() {
            return format!(
                "being removed; finalizers left: {}",
                self.extension.metadata.finalizers.clone().unwrap_or_default().join(", ")
            );
        }
        match (of("Progressing"), of("Installed")) {
            (Some(progressing), _) if progressing.reason == "Blocked" => format!("a user's action: {}", message(progressing)),
            (Some(progressing), _) if progressing.reason == "Retrying" => message(progressing),
            (_, Some(installed)) if installed.status == Status::True => {
                let waiting: Vec<String> =
                    self.objects.iter().filter(|(_, state)| state != "ready").map(|(name, state)| format!("{name} {state}")).collect();
                if waiting.is_empty() && self.unknown.is_some() {
                    "unknown: its objects are not known".to_owned()
                } else if waiting.is_empty() {
                    "nothing".to_owned()
                } else {
                    waiting.join("; ")
                }
            }
            (_, Some(installed)) => message(installed),
            (None, None) => "the controller, which has not looked at it yet".to_owned(),
            (Some(progressing), None) => message(progressing),
        }
    }

    /// The changes of the newest revision to each object, compared with the revision before: in the order of application, removals last.
    fn last_steps(&self) -> Vec<(&'static str, &Value)> {
        let mut newest = self.history.revisions.iter().rev();
        let Some(last) = newest.next() else { return Vec::new() };
        let before = newest.next().map(|revision| revision.record.objects.as_slice()).unwrap_or_default();
        let find = |objects: &'_ [Value], object: &Value| objects.iter().position(|other| title(other) == title(object));
        let mut steps = Vec::new();
        for object in &last.record.objects {
            let step = match find(before, object) {
                None => "create",
                Some(at) if before[at] == *object => "keep",
                Some(_) => "change",
            };
            steps.push((step, object));
        }
        steps.extend(before.iter().filter(|object| find(&last.record.objects, object).is_none()).map(|object| ("delete", object)));
        steps
    }

    /// The description as text.
    pub fn text(&self) -> String {
        let extension = &self.extension;
        let catalog = extension.spec.source.catalog.as_ref();
        let installed = extensions::installed(extension);
        let mut out = String::new();
        let mut say = |key: &str, value: String| {
            // A text of several lines stays below its beginning.
            let value = if value.is_empty() { "-".to_owned() } else { hanging(&value, 12).into_owned() };
            let key = format!("{key}:");
            // Writing to a string does not fail.
            let _written = writeln!(out, "{key:<12}{value}");
        };
        say("Name", extension.metadata.name.clone().unwrap_or_default());
        say("Package", extensions::package(extension).to_owned());
        say("Wanted", catalog.and_then(|catalog| catalog.version.clone()).unwrap_or_else(|| "the newest version".to_owned()));
        say(
            "Channels",
            catalog
                .map(|catalog| catalog.channels.iter().map(|channel| channel.0.as_str()).collect::<Vec<_>>().join(", "))
                .unwrap_or_default(),
        );
        say("Installed", installed.map(|bundle| format!("{} ({})", bundle.name, bundle.version)).unwrap_or_default());
        say("Namespace", extension.spec.namespace.clone());
        say("Account", extension.spec.service_account.as_ref().and_then(|account| account.name.clone()).unwrap_or_default());
        say("Age", age(extension.metadata.creation_timestamp.as_ref()));
        say("Waits for", self.waits_for());
        if !self.warnings.is_empty() {
            say("Warnings", self.warnings.join("\n"));
        }
        out.push_str("Conditions:\n");
        let mut table = Table::new(&["TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"]);
        for condition in extension.status.iter().flat_map(|status| &status.conditions) {
            table.row([
                condition.kind.clone(),
                format!("{:?}", condition.status),
                condition.reason.clone(),
                age(Some(&condition.last_transition_time)),
                condition.message.clone(),
            ]);
        }
        out.push_str(&table.render(2));
        if let Some(problem) = &self.unknown {
            // Writing to a string does not fail.
            let _written = writeln!(out, "Not known:  {}", hanging(problem, 12));
        }
        out.push_str("Objects:\n");
        let mut table = Table::new(&["OBJECT", "STATE"]);
        for (name, state) in &self.objects {
            table.row([name, state]);
        }
        out.push_str(&table.render(2));
        out.push_str("Revisions:\n");
        let mut table = Table::new(&["REVISION", "STATE", "BUNDLE", "OBJECTS"]);
        for revision in &self.history.revisions {
            let record = &revision.record;
            table.row([
                revision.number.to_string(),
                revision.state.as_str().to_owned(),
                record.bundle.name.clone(),
                record.objects.len().to_string(),
            ]);
        }
        out.push_str(&table.render(2));
        let steps = self.last_steps();
        out.push_str("Last change:\n");
        let mut table = Table::new(&["STEP", "OBJECT"]);
        for (step, object) in &steps {
            table.row([(*step).to_owned(), title(object)]);
        }
        out.push_str(&table.render(2));
        out.push_str("Events:\n");
        let mut table = Table::new(&["TYPE", "REASON", "AGE", "MESSAGE"]);
        for event in &self.events {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            table.row([text(&event.type_), text(&event.reason), age(last_seen(event).map(Time).as_ref()), text(&event.note)]);
        }
        out.push_str(&table.render(2));
        out
    }

    /// The description as a value: the extension with `waitsFor`, `objects`, `revisions`, `events` and `warnings` beside it.
    fn value(&self) -> Result<Value, Failure> {
        let failed = |error: serde_json::Error| Failure::failed("clusterextension", &error);
        let mut extension = serde_json::to_value(&self.extension).map_err(failed)?;
        extension["apiVersion"] = API_VERSION.into();
        extension["kind"] = "ClusterExtension".into();
        let objects: Vec<Value> = self.objects.iter().map(|(name, state)| json!({"object": name, "state": state})).collect();
        let revisions: Vec<Value> = self
            .history
            .revisions
            .iter()
            .map(|revision| json!({"revision": revision.number, "state": revision.state.as_str(), "bundle": revision.record.bundle.name, "version": revision.record.bundle.version}))
            .collect();
        Ok(json!({
            "extension": extension, "waitsFor": self.waits_for(), "objects": objects, "revisions": revisions,
            "events": serde_json::to_value(&self.events).map_err(failed)?, "historyUnknown": self.unknown, "warnings": self.warnings,
        }))
    }
}

/// Warnings about webhooks among the live objects that do not answer, since their pods are simulated.
async fn warnings(session: &Session, present: &[Value]) -> Vec<String> {
    if !present.iter().any(|object| object["kind"].as_str().is_some_and(|kind| kind.ends_with("WebhookConfiguration"))) {
        return Vec::new();
    }
    match simulated::read(session).await {
        Ok(simulation) => {
            simulation.unanswered(present).iter().map(|hook| format!("{}\n{}", hook.consequence(), hook.ways_out())).collect()
        }
        Err(failure) => vec![format!("whether its webhooks have simulated pods was not checked: {}", failure.to_line())],
    }
}
