//! `mainstay crd check`: checks if a CRD can be replaced by another without harm to existing objects (MS-CLI-09, OLM1-CRD-02).

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use mainstay_schema::upgrade::{UpgradeFinding, check, message};
use mainstay_terminal::errors::{Exit, Failure, warn};
use mainstay_terminal::output::{self, Format, Table};
use serde_json::{Value, json};

use crate::cases;

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// May OLD be replaced by NEW without harm to the objects that exist?
    Check(Check),
}

/// Arguments of `crd check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay crd check old.yaml new.yaml
  mainstay crd check old.yaml new.yaml --stored-versions v1alpha1,v1
  mainstay crd check --cases pairs.jsonl --root crds/

A version in which objects are stored may not go. Which these are stands in the status of a CRD that was read from a cluster; of any other,
--stored-versions says it.

With --cases every line is {\"old\", \"new\"}, files below --root, and \"storedVersions\" where they are known; the answer is what
-o json gives.

-o json gives {\"safe\", \"findings\": [{\"version\", \"path\", \"rule\", \"severity\", \"message\"}], \"message\"}.

Exit codes: 0 safe, 4 not safe, 1 bad input.")]
pub struct Check {
    /// The CRD as it is
    #[arg(required_unless_present = "cases")]
    old: Option<PathBuf>,
    /// The CRD as it would be
    #[arg(required_unless_present = "cases")]
    new: Option<PathBuf>,
    /// The versions of OLD that objects are stored in, comma-separated
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    stored_versions: Vec<String>,
    /// Answer many questions: a file of JSON lines, - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["old", "stored_versions"])]
    cases: Option<PathBuf>,
    /// The directory that files of cases are below [default: .]
    #[arg(long, value_name = "DIR", conflicts_with = "old")]
    root: Option<PathBuf>,
    /// table, json, yaml or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json, yaml or jsonpath=PATH"))]
    output: Format,
}

/// Runs one of the commands.
pub fn run(command: Commands) -> Result<(), Failure> {
    let Commands::Check(arguments) = command;
    if let Some(path) = &arguments.cases {
        cases::check_format(&arguments.output, &Format::Table)?;
        return cases::answer(path, |case| {
            let root = arguments.root.as_deref().unwrap_or(Path::new("."));
            let file = |field| cases::required(case, field).map(|name| root.join(name));
            let compared = compare(&file("old")?, &file("new")?, &cases::list(case, "storedVersions")?.unwrap_or_default())?;
            Ok(answer(&compared.name, &compared.findings))
        });
    }
    let (Some(old), Some(new)) = (&arguments.old, &arguments.new) else {
        return Err(Failure::new(Exit::Usage, "crd check", "needs OLD and NEW"));
    };
    let Compared { name, findings, unknown } = compare(old, new, &arguments.stored_versions)?;
    if !arguments.output.is_table() {
        output::value(&arguments.output, &answer(&name, &findings))?;
    } else if findings.is_empty() {
        output::line(format!("{name}: safe to replace"))?;
    } else {
        let mut table = Table::new(&["VERSION", "PATH", "RULE", "FINDING"]);
        for finding in &findings {
            table.row([finding.version.as_deref().unwrap_or_default(), &finding.path, finding.rule, &finding.message]);
        }
        table.print()?;
    }
    if !unknown.is_empty() {
        let message = format!("{} no longer defined; --stored-versions says if objects are stored in it", of_versions(&unknown));
        warn(&format!("crd {name}"), &message);
    }
    if findings.is_empty() { Ok(()) } else { Err(Failure::no()) }
}

/// The verdict about two CRDs.
struct Compared {
    name: String,
    findings: Vec<UpgradeFinding>,
    /// Versions that are removed although it is unknown if objects are stored in them.
    unknown: Vec<String>,
}

/// Compares two files; `stored` are the versions that objects are stored in, if the caller knows them.
fn compare(old: &Path, new: &Path, stored: &[String]) -> Result<Compared, Failure> {
    let (mut old, new, place, old_place) = (crd(old)?, crd(new)?, new, old);
    let name = |crd: &Value| crd["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if name(&old) != name(&new) {
        let message = format!("defines {}, which cannot replace {}: a definition is replaced by one of its name", name(&new), name(&old));
        return Err(Failure::new(Exit::Failed, format!("crd {}", place.display()), message));
    }
    if let Some(missing) = stored.iter().find(|version| !versions(&old).contains(&version.as_str())) {
        let message = format!("defines no version {missing}, in which objects cannot be stored therefore");
        return Err(Failure::new(Exit::Failed, format!("crd {}", old_place.display()), message)
            .hint(format!("its versions are {}", versions(&old).join(", "))));
    }
    if !stored.is_empty() {
        old["status"]["storedVersions"] = stored.into();
    }
    let known = old["status"]["storedVersions"].as_array().is_some_and(|stored| !stored.is_empty());
    let gone = versions(&old).into_iter().filter(|version| !versions(&new).contains(version));
    let unknown = if known { Vec::new() } else { gone.map(str::to_owned).collect() };
    Ok(Compared { name: name(&new), findings: check(&old, &new).err().unwrap_or_default(), unknown })
}

/// The names of the versions of a CRD.
fn versions(crd: &Value) -> Vec<&str> {
    crd["spec"]["versions"].as_array().into_iter().flatten().filter_map(|version| version["name"].as_str()).collect()
}

fn of_versions(versions: &[String]) -> String {
    if let [one] = versions { format!("version {one} is") } else { format!("versions {} are", versions.join(", ")) }
}

fn crd(path: &Path) -> Result<Value, Failure> {
    let subject = format!("crd {}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| Failure::failed(&subject, &error))?;
    let refuse = |message: String| Failure::new(Exit::Failed, &subject, message);
    let documents = mainstay_yaml::stream(&text).map(|document| document.map(|document| document.value));
    let mut documents = documents.collect::<Result<Vec<Value>, _>>().map_err(|error| Failure::failed(&subject, &error))?;
    documents.retain(|document| !document.is_null());
    let object = match documents.len() {
        0 => return Err(refuse("holds no object".to_owned())),
        1 => documents.swap_remove(0),
        several => return Err(refuse(format!("holds {several} objects; one definition a file is compared"))),
    };
    if object["kind"] != "CustomResourceDefinition" || object["apiVersion"] != "apiextensions.k8s.io/v1" {
        let found =
            format!("{} {}", object["apiVersion"].as_str().unwrap_or("no apiVersion"), object["kind"].as_str().unwrap_or("no kind"));
        return Err(refuse(format!("expected a CustomResourceDefinition of apiextensions.k8s.io/v1, found {found}")));
    }
    // A definition that the API server would not accept has no upgrade that could be judged.
    mainstay_bundle::go::conform("apiextensions.CustomResourceDefinition", &object).map_err(|error| Failure::failed(&subject, &error))?;
    let named = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    if !named(&object["metadata"]["name"]) {
        return Err(refuse("metadata.name: is missing".to_owned()));
    }
    let versions = object["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if versions.is_empty() || !versions.iter().all(|version| named(&version["name"])) {
        return Err(refuse("spec.versions: expected a list of versions with names".to_owned()));
    }
    Ok(object)
}

fn answer(name: &str, findings: &[UpgradeFinding]) -> Value {
    let listed: Vec<Value> = findings
        .iter()
        .map(|finding| {
            json!({"version": finding.version, "path": finding.path, "rule": finding.rule, "severity": "error", "message": finding.message})
        })
        .collect();
    let text = if findings.is_empty() { String::new() } else { message(name, findings) };
    json!({"safe": findings.is_empty(), "findings": listed, "message": text})
}
