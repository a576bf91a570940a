//! `mainstay release merge`: the write that a manifest needs (CVO-APPLY-01).

use std::path::{Path, PathBuf};

use clap::Args;
use mainstay_cluster_version_core::apply::{self, Change};
use mainstay_cluster_version_core::cases as recorded;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output::{self, Format, Table};
use serde_json::{Value, json};

use crate::cases;

/// Arguments of `release merge`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay release merge manifest.yaml --live live.yaml
  mainstay release merge manifest.yaml --live live.yaml -o yaml
  mainstay release merge --cases questions.jsonl

The object that would be written is merged by the rules of its kind, as the Cluster Version Operator does it; without --live it would be
created.

With --cases every line is {\"required\": MANIFEST, \"live\": OBJECT or null}; the answer has \"modified\", \"verbs\" and \"result\" besides.

Exit codes: 0 done, 1 bad input.")]
pub struct Merge {
    /// A file with the manifest
    #[arg(required_unless_present = "cases", value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// A file with the object in the cluster; none if there is none
    #[arg(long, value_name = "FILE", conflicts_with = "cases")]
    live: Option<PathBuf>,
    /// Answer many questions: a file of JSON lines, - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "manifest")]
    cases: Option<PathBuf>,
    /// table, json or yaml
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json or yaml"))]
    output: Format,
}

pub(super) fn run(arguments: &Merge) -> Result<(), Failure> {
    if let Some(path) = &arguments.cases {
        cases::check_format(&arguments.output, &Format::Table)?;
        return cases::answer(path, |case| recorded::merge(case).map_err(|error| Failure::failed("case", &error)));
    }
    let Some(path) = &arguments.manifest else { return Err(Failure::new(Exit::Usage, "release merge", "needs a manifest")) };
    let manifest = object(path)?;
    let live = arguments.live.as_deref().map(object).transpose()?;
    if let Some(live) = &live {
        let id = |object: &Value| ["apiVersion", "kind"].map(|field| object[field].clone());
        if id(live) != id(&manifest) || live["metadata"]["name"] != manifest["metadata"]["name"] {
            return Err(Failure::new(Exit::Failed, "release merge", "the live object is another than the manifest's"));
        }
    }
    let subject = format!("manifest {}", path.display());
    let (write, written) = match apply::change(live.as_ref(), &manifest).map_err(|error| Failure::failed(subject, &error))? {
        Change::None => ("none", None),
        Change::Create(object) => ("create", Some(object)),
        Change::Update(object) => ("update", Some(object)),
    };
    let mut changed = Vec::new();
    if let (Some(live), Some(written)) = (&live, &written) {
        differences(String::new(), live, written, &mut changed);
    }
    if arguments.output.is_table() {
        let mut table = Table::new(&["WRITE", "FIELD", "FROM", "TO"]);
        if changed.is_empty() {
            table.row([write.to_owned(), String::new(), String::new(), String::new()]);
        }
        for Changed { field, from, to } in &changed {
            table.row([write.to_owned(), field.clone(), short(from), short(to)]);
        }
        return table.print();
    }
    let changed: Vec<Value> = changed.iter().map(|one| json!({"field": one.field, "from": one.from, "to": one.to})).collect();
    output::value(&arguments.output, &json!({"write": write, "changed": changed, "object": written}))
}

/// A field that is written with another value.
struct Changed {
    field: String,
    from: Value,
    to: Value,
}

fn differences(at: String, from: &Value, to: &Value, out: &mut Vec<Changed>) {
    match (from, to) {
        (Value::Object(left), Value::Object(right)) => {
            for name in left.keys().chain(right.keys().filter(|name| !left.contains_key(*name))) {
                differences(format!("{at}.{name}"), &from[name], &to[name], out);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                differences(format!("{at}[{index}]"), left, right, out);
            }
        }
        _ if is_nothing(from) && is_nothing(to) || from == to => {}
        _ => out.push(Changed { field: at, from: from.clone(), to: to.clone() }),
    }
}

/// What is absent, empty or unset is written alike.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.values().all(is_nothing),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(true) => false,
    }
}

/// The most characters of a value that a table shows.
const SHOWN: usize = 60;

fn short(value: &Value) -> String {
    if value.is_null() {
        return "-".to_owned();
    }
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// The one object of a file.
pub(super) fn object(path: &Path) -> Result<Value, Failure> {
    let subject = format!("file {}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| Failure::failed(&subject, &error))?;
    let documents = mainstay_yaml::stream(&text).map(|document| document.map(|document| document.value));
    let mut documents = documents.collect::<Result<Vec<Value>, _>>().map_err(|error| Failure::failed(&subject, &error))?;
    documents.retain(|document| !document.is_null());
    match documents.as_slice() {
        [object] if object.is_object() => Ok(documents.swap_remove(0)),
        [_] => Err(Failure::new(Exit::Failed, subject, "holds no object")),
        several => Err(Failure::new(Exit::Failed, subject, format!("holds {} objects; expected one", several.len()))),
    }
}
