//! `mainstay csv`: what OLM classic makes of a ClusterServiceVersion (OLM0-API-21, OLM0-CSV-11 to OLM0-CSV-19, OLM0-API-16).

mod facts;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use mainstay_bundle::Csv;
use mainstay_bundle::go::fold;
use mainstay_olm_classic_core::deployments::Strategy;
use mainstay_olm_classic_core::overrides::{self, SubscriptionConfig};
use mainstay_olm_classic_core::owner::Owner;
use mainstay_olm_classic_core::source::SourceKey;
use mainstay_olm_classic_core::steps::{self, BundleContent, Loaded};
use mainstay_olm_classic_core::{cases as classic, permissions};
use mainstay_terminal::bundles;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output::{self, Format, Table};
use serde_json::{Value, json};

use crate::cases;

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// The steps of an InstallPlan that installs a bundle
    Steps(Steps),
    /// The accounts, roles and bindings of a CSV, as OLM names them
    Permissions(Granted),
    /// The Deployments of a CSV, as OLM writes them
    Deployments(Deployments),
    /// A Deployment with a Subscription's configuration
    Overrides(Overrides),
    /// Check rules of a CSV against the permissions of accounts
    Rules(facts::Rules),
    /// Check install modes against target namespaces
    InstallModes(facts::InstallModes),
    /// The newest OpenShift version that a CSV supports
    #[command(name = "max-openshift")]
    MaxOpenShift(facts::MaxOpenShift),
}

/// The bundle, or many of them.
#[derive(Debug, Args)]
pub struct Place {
    /// A bundle directory or image
    #[arg(required_unless_present = "cases", value_name = "DIR|REF")]
    bundle: Option<String>,
    /// The namespace of the operator
    #[arg(long, short, value_name = "NAMESPACE", default_value = "operators")]
    namespace: String,
    /// Answer many questions: a file of JSON lines, - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "bundle")]
    cases: Option<PathBuf>,
    /// The directory that folders of cases are below [default: .]
    #[arg(long, value_name = "DIR", conflicts_with = "bundle")]
    root: Option<PathBuf>,
}

/// Arguments of `csv steps`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay csv steps examples/bundles/beacon/1.1.0
  mainstay csv steps examples/bundles/beacon/1.1.0 --namespace lights -o yaml
  mainstay csv steps --cases questions.jsonl --root DATA

With --cases every line is {\"id\": FOLDER, \"input\": {\"namespace\", \"replaces\", \"catalogSource\", \"catalogSourceNamespace\", \"properties\"}};
the answer has \"steps\" besides, each with the hash of its manifest.

Exit codes: 0 done, 1 bad input.")]
pub struct Steps {
    #[command(flatten)]
    place: Place,
    /// The CSV that it replaces
    #[arg(long, value_name = "CSV", default_value = "")]
    replaces: String,
    /// table, json or yaml
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json or yaml"))]
    output: Format,
}

/// Arguments of `csv permissions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay csv permissions examples/bundles/beacon/1.1.0
  mainstay csv permissions examples/bundles/beacon/1.1.0 --namespace lights -o yaml
  mainstay csv permissions --cases questions.jsonl --root DATA

With --cases every line is {\"id\": FOLDER}; the answer has \"permissions\" besides, for the namespace op-ns.

Exit codes: 0 done, 1 bad input.")]
pub struct Granted {
    #[command(flatten)]
    place: Place,
    /// table, json or yaml
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json or yaml"))]
    output: Format,
}

/// Arguments of `csv deployments`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay csv deployments examples/bundles/beacon/1.1.0 --namespace lights
  mainstay csv deployments examples/bundles/beacon/1.1.0 --config config.yaml
  mainstay csv deployments --cases questions.jsonl --root DATA

With --cases every line is {\"id\": FOLDER}; the answer has \"plain\" besides, and \"withCertificates\" where there are webhooks or API
services.

Exit codes: 0 done, 1 bad input.")]
pub struct Deployments {
    #[command(flatten)]
    place: Place,
    /// A file with a Subscription's spec.config
    #[arg(long, value_name = "FILE", conflicts_with = "cases")]
    config: Option<PathBuf>,
    /// yaml or json
    #[arg(short, long, default_value = "yaml", value_name = "FORMAT", value_parser = output::among("yaml or json"))]
    output: Format,
}

/// Arguments of `csv overrides`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay csv overrides deployment.yaml --config config.yaml
  mainstay csv overrides --cases questions.jsonl

With --cases every line is {\"input\": {\"deployment\", \"config\", \"proxyEnv\", \"csv\", \"subscriptionInstalledCSV\"}}; the answer has
\"deployment\" besides.

Exit codes: 0 done, 1 bad input.")]
pub struct Overrides {
    /// A file with a Deployment
    #[arg(required_unless_present = "cases", value_name = "FILE")]
    deployment: Option<PathBuf>,
    /// A file with a Subscription's spec.config
    #[arg(long, value_name = "FILE", required_unless_present = "cases", conflicts_with = "cases")]
    config: Option<PathBuf>,
    /// Answer many questions: a file of JSON lines, - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "deployment")]
    cases: Option<PathBuf>,
    /// yaml or json
    #[arg(short, long, default_value = "yaml", value_name = "FORMAT", value_parser = output::among("yaml or json"))]
    output: Format,
}

/// Runs one of the commands.
pub fn run(command: Commands) -> Result<(), Failure> {
    match command {
        Commands::Steps(arguments) => plan_steps(&arguments),
        Commands::Permissions(arguments) => granted(&arguments),
        Commands::Deployments(arguments) => deployments(&arguments),
        Commands::Overrides(arguments) => overridden(&arguments),
        Commands::Rules(arguments) => facts::rules(&arguments),
        Commands::InstallModes(arguments) => facts::install_modes(&arguments),
        Commands::MaxOpenShift(arguments) => facts::max_openshift(&arguments),
    }
}

/// The answer to a recorded question: its line, with the answer's fields.
pub(super) fn answered(case: &Value, answer: Value) -> Value {
    let mut line = serde_json::Map::new();
    for field in ["id", "csv", "input"] {
        if let Some(value) = case.get(field) {
            line.insert(field.to_owned(), value.clone());
        }
    }
    if let Value::Object(fields) = answer {
        line.extend(fields);
    }
    Value::Object(line)
}

/// Answers recorded questions about the bundles of folders.
fn about_folders(
    place: &Place,
    format: (&Format, &Format),
    answer: impl Fn(&Loaded, &Value) -> Result<Value, Failure>,
) -> Result<bool, Failure> {
    let Some(path) = &place.cases else { return Ok(false) };
    cases::check_format(format.0, format.1)?;
    let root = place.root.as_deref().unwrap_or(Path::new("."));
    cases::answer(path, |case| {
        let id = cases::required(case, "id")?;
        let loaded = folder(&root.join(&id))?;
        let mut line = answered(case, answer(&loaded, &case["input"])?);
        line["csv"] = json!(loaded.name);
        Ok(line)
    })?;
    Ok(true)
}

fn folder(path: &Path) -> Result<Loaded, Failure> {
    let subject = format!("bundle {}", path.display());
    let files = bundles::whole_directory(path)?;
    let loaded = steps::load(files.iter().filter(|(name, _)| !name.contains('/')).map(|(name, bytes)| (name.as_str(), bytes.as_slice())));
    if loaded.csv_json.is_empty() {
        return Err(Failure::new(Exit::Failed, subject, "holds no ClusterServiceVersion"));
    }
    Ok(loaded)
}

/// The bundle that a person names.
fn bundle(place: &Place) -> Result<Loaded, Failure> {
    let name = place.bundle.as_deref().unwrap_or_default();
    let files = bundles::files(name)?;
    let manifests = files.iter().filter_map(|(path, bytes)| Some((path.strip_prefix("manifests/")?, bytes.as_slice())));
    let loaded = steps::load(manifests.filter(|(name, _)| !name.contains('/')));
    if loaded.csv_json.is_empty() {
        return Err(Failure::new(Exit::Failed, format!("bundle {name}"), "holds no ClusterServiceVersion in manifests/"));
    }
    Ok(loaded)
}

fn csv(loaded: &Loaded) -> Result<Csv, Failure> {
    let subject = format!("csv {}", loaded.name);
    let object: Value = serde_json::from_str(&loaded.csv_json).map_err(|error| Failure::failed(&subject, &error))?;
    Csv::parse(&fold("operators.ClusterServiceVersion", &object)).map_err(|error| Failure::failed(&subject, &error))
}

fn owner<'a>(csv: &'a Csv, namespace: &'a str) -> Owner<'a> {
    Owner { api_version: csv.api_version(), name: &csv.name, namespace, uid: "" }
}

fn plan_steps(arguments: &Steps) -> Result<(), Failure> {
    let failed = |error: classic::BundleCaseError| Failure::failed("case", &error);
    let answer = |loaded: &Loaded, input: &Value| Ok(json!({"steps": classic::plan(loaded, input).map_err(failed)?}));
    if about_folders(&arguments.place, (&arguments.output, &Format::Table), answer)? {
        return Ok(());
    }
    let loaded = bundle(&arguments.place)?;
    let content = BundleContent { name: &loaded.name, csv_json: &loaded.csv_json, objects: &loaded.objects, properties: &[] };
    let steps = steps::of_bundle(content, &arguments.place.namespace, &arguments.replaces, &SourceKey::default())
        .map_err(|error| Failure::failed(format!("bundle {}", loaded.name), &error))?;
    if arguments.output.is_table() {
        let mut table = Table::new(&["KIND", "NAME", "API"]);
        for step in &steps {
            let api = if step.group.is_empty() { step.version.clone() } else { format!("{}/{}", step.group, step.version) };
            table.row([step.kind.clone(), step.name.clone(), api]);
        }
        return table.print();
    }
    let told = steps.iter().map(|step| {
        // What a step writes is JSON.
        let manifest: Value = serde_json::from_str(&step.manifest).unwrap_or_default();
        json!({
            "resolving": step.resolving, "status": steps::UNKNOWN,
            "resource": {"group": step.group, "version": step.version, "kind": step.kind, "name": step.name, "manifest": manifest},
        })
    });
    output::value(&arguments.output, &told.collect())
}

/// An object as the API server takes it.
fn whole(kind: &str, object: &Value) -> Value {
    let api_version = if kind == "ServiceAccount" { "v1" } else { "rbac.authorization.k8s.io/v1" };
    let mut whole = json!({"apiVersion": api_version, "kind": kind});
    for (field, value) in object.as_object().into_iter().flatten() {
        whole[field] = value.clone();
    }
    whole
}

fn granted(arguments: &Granted) -> Result<(), Failure> {
    let failed = |error: classic::BundleCaseError| Failure::failed("case", &error);
    let answer = |loaded: &Loaded, _: &Value| Ok(json!({"permissions": classic::permissions(loaded).map_err(failed)?}));
    if about_folders(&arguments.place, (&arguments.output, &Format::Table), answer)? {
        return Ok(());
    }
    let csv = csv(&bundle(&arguments.place)?)?;
    let mut table = Table::new(&["ACCOUNT", "KIND", "NAME", "RULES"]);
    let mut objects = Vec::new();
    let granted = permissions::of(&csv, &owner(&csv, &arguments.place.namespace));
    for (account, granted) in granted.map_err(|error| Failure::failed(format!("csv {}", csv.name), &error))? {
        if account != "default" {
            objects.push(whole("ServiceAccount", &granted.service_account));
        }
        let lists = [
            ("Role", granted.roles),
            ("RoleBinding", granted.role_bindings),
            ("ClusterRole", granted.cluster_roles),
            ("ClusterRoleBinding", granted.cluster_role_bindings),
        ];
        for (kind, list) in lists {
            for object in list {
                let rules = object["rules"].as_array().map_or_else(String::new, |rules| rules.len().to_string());
                table.row([account.clone(), kind.to_owned(), object["metadata"]["name"].as_str().unwrap_or_default().to_owned(), rules]);
                objects.push(whole(kind, &object));
            }
        }
    }
    match &arguments.output {
        Format::Table => table.print(),
        Format::Yaml => output::yaml(&objects),
        format => output::value(format, &json!(objects)),
    }
}

fn deployments(arguments: &Deployments) -> Result<(), Failure> {
    let answer = |loaded: &Loaded, _: &Value| classic::deployments(loaded).map_err(|error| Failure::failed("case", &error));
    if about_folders(&arguments.place, (&arguments.output, &Format::Yaml), answer)? {
        return Ok(());
    }
    let csv = csv(&bundle(&arguments.place)?)?;
    let config = arguments.config.as_deref().map_or_else(|| Ok(SubscriptionConfig::default()), config)?;
    let strategy = Strategy { csv: &csv, owner: owner(&csv, &arguments.place.namespace), config: &config, proxy: &[] };
    let told =
        |object: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object["metadata"], "spec": object["spec"]});
    let objects: Vec<Value> = strategy.deployments().into_iter().map(told).collect();
    if arguments.output == Format::Yaml { output::yaml(&objects) } else { output::value(&arguments.output, &json!(objects)) }
}

fn overridden(arguments: &Overrides) -> Result<(), Failure> {
    if let Some(path) = &arguments.cases {
        cases::check_format(&arguments.output, &Format::Yaml)?;
        return cases::answer(path, |case| {
            let answer = classic::overridden(&case["input"]).map_err(|error| Failure::failed("case", &error))?;
            Ok(answered(case, answer))
        });
    }
    let (Some(place), Some(file)) = (&arguments.deployment, &arguments.config) else {
        return Err(Failure::new(Exit::Usage, "csv overrides", "needs a Deployment and --config"));
    };
    let subject = format!("deployment {}", place.display());
    let object = document(place, &subject)?;
    if object["kind"] != "Deployment" {
        return Err(Failure::new(Exit::Failed, subject, "expected an object of kind Deployment"));
    }
    let mut deployment = mainstay_bundle::go::conform("Deployment", &object).map_err(|error| Failure::failed(&subject, &error))?;
    overrides::apply(&mut deployment, &config(file)?, &[]);
    output::value(&arguments.output, &deployment)
}

/// Reads a Subscription's configuration, from a file of its own or from a Subscription.
fn config(path: &Path) -> Result<SubscriptionConfig, Failure> {
    let subject = format!("config {}", path.display());
    let document = document(path, &subject)?;
    let config = if document["kind"] == "Subscription" { &document["spec"]["config"] } else { &document };
    SubscriptionConfig::read(config).map_err(|error| Failure::failed(&subject, &error))
}

fn document(path: &Path, subject: &str) -> Result<Value, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::failed(subject, &error))?;
    mainstay_yaml::parse(&text).map_err(|error| Failure::failed(subject, &error))
}
