//! `mainstay resolve --classic`: what OLM classic would install in a namespace (OLM0-RES-01 to OLM0-RES-27).

use std::path::Path;
use std::sync::Arc;

use mainstay_catalog_serve::cache::Cache;
use mainstay_olm_classic::catalog::resolver_content;
use mainstay_olm_classic_core::cases as classic;
use mainstay_olm_classic_core::resolve::{Catalog, Csv, OperatorGroup, ResolveError, Resolved, Snapshot, Subscription, resolve_components};
use mainstay_olm_classic_core::source::SourceKey;
use mainstay_terminal::catalogs;
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::output::{self, Format, Table};
use serde_json::{Value, json};

use super::Arguments;
use crate::cases;
use crate::commands::csv::answered;

/// The namespace of a question that names none.
const NAMESPACE: &str = "operators";

/// Answers recorded questions.
pub fn answer_cases(path: &Path, format: &Format) -> Result<(), Failure> {
    cases::check_format(format, &Format::Table)?;
    cases::answer(path, |case| {
        let answer = classic::resolution(&case["input"]).map_err(|error| Failure::failed("case", &error))?;
        Ok(answered(case, answer))
    })
}

/// Shows what Subscriptions for the packages would bring.
pub fn show(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.version.is_some() || arguments.resolve_dependencies || arguments.channel.len() > 1 {
        let message = "a Subscription knows no version range and one channel, and dependencies are always followed";
        return Err(
            Failure::new(Exit::Usage, "--classic", message).hint("leave out --version, --resolve-dependencies and further --channel")
        );
    }
    let mut resolved = Vec::new();
    let mut refused = Vec::new();
    for component in resolve_components(&snapshot(arguments)?) {
        match component.outcome {
            Ok(bundles) => resolved.extend(bundles.into_iter().map(|bundle| with_replaced(bundle, arguments.installed.as_deref()))),
            Err(error) => refused.push((component.subscriptions, error)),
        }
    }
    if !arguments.output.is_table() {
        let refused: Vec<Value> = refused.iter().map(|(subscriptions, error)| refusal(subscriptions, error)).collect();
        let exit = if refused.is_empty() { Ok(()) } else { Err(Failure::silent(Exit::Impossible)) };
        output::value(&arguments.output, &json!({"install": resolved.iter().map(bundle).collect::<Vec<_>>(), "refused": refused}))?;
        return exit;
    }
    if !resolved.is_empty() || refused.is_empty() {
        table(&resolved)?;
    }
    let mut failures = refused.iter().map(|(subscriptions, error)| {
        let least = least(error);
        let message = if least.is_empty() { error.to_string() } else { format!("cannot all hold:\n  {}", least.join("\n  ")) };
        Failure::new(Exit::Impossible, format!("subscription {}", subscriptions.join(", ")), message)
    });
    let Some(last) = failures.next_back() else { return Ok(()) };
    failures.for_each(|failure| failure.report());
    Err(last)
}

/// A bundle that replaces nothing but what is installed; what its catalog says it would replace is of no interest here.
fn with_replaced(mut bundle: Resolved, installed: Option<&str>) -> Resolved {
    let installed = installed.map(|text| text.split_once('=').map_or(text, |(name, _)| name));
    if installed != Some(&bundle.replaces) {
        bundle.replaces.clear();
    }
    bundle
}

/// The constraints of which none could be left out.
fn least(error: &ResolveError) -> &[String] {
    match error {
        ResolveError::Unsatisfiable(conflict) => &conflict.least,
        _ => &[],
    }
}

fn refusal(subscriptions: &[String], error: &ResolveError) -> Value {
    json!({"subscriptions": subscriptions, "error": {"message": error.to_string(), "causes": least(error)}})
}

fn snapshot(arguments: &Arguments) -> Result<Snapshot, Failure> {
    let mut catalogs = Vec::new();
    for place in &arguments.catalog {
        catalogs.push(catalog(place, catalogs.len())?);
    }
    let installed = match arguments.installed.as_deref().map(|text| text.split_once('=')) {
        None => None,
        Some(Some((name, version))) => Some((name.to_owned(), version.to_owned())),
        Some(None) => Some(find(&catalogs, arguments.installed.as_deref().unwrap_or_default())?),
    };
    let channel = arguments.channel.first().cloned().unwrap_or_default();
    let source = |package: &String| {
        let has = |catalog: &&Catalog| {
            catalog.content.as_ref().is_ok_and(|content| content.entries.iter().any(|entry| entry.package == *package))
        };
        catalogs.iter().find(has).or(catalogs.first()).map(|catalog| catalog.key.clone()).unwrap_or_default()
    };
    let subscriptions = arguments.packages.iter().map(|package| Subscription {
        name: package.clone(),
        package: package.clone(),
        channel: channel.clone(),
        catalog: source(package),
        installed_csv: installed.as_ref().map(|(name, _)| name.clone()).unwrap_or_default(),
        ..Subscription::default()
    });
    Ok(Snapshot {
        namespace: NAMESPACE.to_owned(),
        global_namespace: NAMESPACE.to_owned(),
        operator_groups: vec![OperatorGroup { name: "global-operators".to_owned(), ..OperatorGroup::default() }],
        subscriptions: subscriptions.collect(),
        csvs: installed.into_iter().map(|(name, version)| installed_csv(name, version)).collect(),
        catalogs,
    })
}

fn installed_csv(name: String, version: String) -> Csv {
    Csv { name, version, namespace: NAMESPACE.to_owned(), phase: "Succeeded".to_owned(), ..Csv::default() }
}

/// The version of an installed CSV, from the first catalog that has it.
fn find(catalogs: &[Catalog], name: &str) -> Result<(String, String), Failure> {
    let entries = catalogs.iter().filter_map(|catalog| catalog.content.as_ref().ok()).flat_map(|content| &content.entries);
    let version = entries.filter(|entry| entry.name == name).find_map(|entry| entry.version.as_ref());
    match version {
        Some(version) => Ok((name.to_owned(), version.to_string())),
        None => Err(Failure::new(Exit::Failed, format!("bundle {name}"), "no catalog has it, so its version is not known")
            .hint(format!("give its version, too: --installed {name}=VERSION"))),
    }
}

/// A catalog as its registry would list it. The first named goes before the others.
fn catalog(place: &str, before: usize) -> Result<Catalog, Failure> {
    let subject = format!("catalog {place}");
    let opened = catalogs::open(place, mainstay_catalog_refs::Kind::CATALOGS)?;
    let source = opened.source().map_err(|error| catalogs::failure(&subject, &error))?;
    let scratch = tempfile::tempdir().map_err(|error| Failure::failed(&subject, &error))?;
    let stored = Cache::open(scratch.path()).and_then(|cache| cache.build(source.as_ref()));
    let stored = stored.map_err(|error| Failure::failed(&subject, &error))?;
    let content = resolver_content(&stored).map_err(|error| Failure::failed(&subject, &error))?;
    for skipped in &content.skipped {
        note(format!("{subject}: bundle {} is passed over: {}", skipped.name, skipped.problem));
    }
    let key = SourceKey { name: catalogs::name(place), namespace: NAMESPACE.to_owned() };
    Ok(Catalog { key, priority: -(before as i64), content: Ok(Arc::new(content)) })
}

fn bundle(bundle: &Resolved) -> Value {
    json!({
        "package": bundle.package, "bundle": bundle.name, "version": bundle.version.as_ref().map(ToString::to_string),
        "channel": bundle.channel, "catalog": bundle.catalog.name, "image": bundle.bundle_path, "replaces": replaced(bundle),
    })
}

fn replaced(bundle: &Resolved) -> Option<&str> {
    Some(bundle.replaces.as_str()).filter(|name| !name.is_empty())
}

fn table(resolved: &[Resolved]) -> Result<(), Failure> {
    if resolved.is_empty() {
        return output::line("nothing to install: what is installed is the newest that the catalogs offer");
    }
    let mut table = Table::new(&["PACKAGE", "BUNDLE", "CHANNEL", "CATALOG", "REPLACES"]);
    for bundle in resolved {
        let replaces = replaced(bundle).unwrap_or_default();
        table.row([bundle.package.as_str(), &bundle.name, &bundle.channel, &bundle.catalog.name, replaces]);
    }
    table.print()
}
