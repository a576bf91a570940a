//! `mainstay bundle validate` (SDK-BUNDLE-20 to SDK-BUNDLE-24, in the scope of the library): upstream's validators, with file, line and fix.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use mainstay_bundle::validators::{self, Finding, ImagePlatform, IndexFileError, Level, Manifests, Options, Selection, Unavailable};
use mainstay_diagnostics::counted;
use mainstay_oci::Client;
use mainstay_terminal::bundles::{self, Files};
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::{images, output, runtime};
use serde::Deserialize;
use serde_json::{Value, json};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay bundle validate examples/bundles/beacon/1.0.0
  mainstay bundle validate REGISTRY/BUNDLE:TAG --select-optional suite=operatorframework
  mainstay bundle validate bundle/ --select-optional name=alpha-deprecated-apis --optional-values k8s-version=1.25
  mainstay bundle validate --list-optional

-o json is {\"passed\", \"findings\": [{\"level\", \"validator\", \"rule\", \"message\", \"text\", \"file\", \"line\", \"path\", \"fix\"}]}:
message is what is wrong, text the whole line of upstream's validators. -o json-alpha1 and text are operator-sdk's forms.
OPERATOR_BUNDLE_CATEGORIES names a JSON file with categories of your own.
Exit codes: 0 no errors (warnings are none), 1 errors or bad input.")]
pub struct Arguments {
    /// A bundle directory or image
    #[arg(required_unless_present = "list_optional", value_name = "DIR|REF")]
    bundle: Option<String>,
    /// Choose optional validators by label: name=good-practices, suite=operatorframework
    #[arg(long, value_name = "SELECTOR")]
    select_optional: Option<String>,
    /// Show the optional validators
    #[arg(long, exclusive = true)]
    list_optional: bool,
    /// Values for optional validators: k8s-version, index-path, container-tools
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    optional_values: Vec<String>,
    /// Programs to run as further validators, separated by colons
    #[arg(long, value_name = "PATH[:PATH]")]
    alpha_select_external: Option<String>,
    /// Accepted for operator-sdk's sake; images are pulled without an engine
    #[arg(short = 'b', long, value_name = "TOOL", default_value = "none", hide = true)]
    image_builder: String,
    /// How to write the findings
    #[arg(short, long, value_enum, default_value_t = Form::Table, value_name = "FORMAT")]
    output: Form,
}

/// How findings are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people.
    Table,
    /// Log lines, as operator-sdk writes them.
    Text,
    /// Everything that is known of each finding.
    Json,
    /// The same as YAML.
    Yaml,
    /// As operator-sdk writes it.
    #[value(name = "json-alpha1")]
    JsonAlpha1,
}

/// Validates the bundle.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.list_optional {
        return list_optional();
    }
    let place = arguments.bundle.clone().unwrap_or_default();
    let subject = format!("bundle {place}");
    if !["docker", "podman", "none"].contains(&arguments.image_builder.as_str()) {
        let message = format!("expected docker, podman or none, found {:?}", arguments.image_builder);
        return Err(Failure::new(Exit::Usage, "--image-builder", message));
    }
    let selection = arguments.select_optional.as_deref().map(selection).transpose()?;
    let values = values(&arguments.optional_values)?;
    let client = images::client()?;
    let inspect = |image: &str| platforms(&client, image);
    let options = Options { categories: categories(), index_file: index_file(&values), values, inspect: Some(&inspect) };
    let files = bundles::whole(&place)?;
    let manifests = Manifests::read(files.iter().map(|(path, bytes)| (path, bytes))).map_err(|error| Failure::failed(&subject, &error))?;
    let found = validators::run(&manifests, selection.as_ref(), &options);
    let mut outcomes: Vec<Outcome> = found.into_iter().map(Outcome::from).collect();
    if let Some(programs) = &arguments.alpha_select_external {
        for program in programs.split(':').filter(|program| !program.is_empty()) {
            outcomes.extend(external(program, &place)?);
        }
    }
    outcomes.extend(installation(&files, &outcomes));
    let passed = !outcomes.iter().any(|outcome| outcome.level == Level::Error);
    write(arguments.output, passed, &outcomes)?;
    if passed {
        note("All validation tests have completed successfully");
        return Ok(());
    }
    Err(Failure::silent(Exit::Failed))
}

/// Problems that keep the bundle from being built and installed, as the installer puts them: upstream's validators check other things, and a bundle
/// that passes here is one that `bundle build`, `catalog from-bundles` and an extension accept.
fn installation(files: &Files, found: &[Outcome]) -> Vec<Outcome> {
    let outcome = |validator: &str, rule: &str, message: String| Outcome {
        level: Level::Error,
        validator: validator.to_owned(),
        rule: rule.to_owned(),
        text: format!("Error: {message}"),
        message,
        place: None,
        fix: String::new(),
    };
    let not_installable = |message| outcome("installation", "not-installable", message);
    let not_listable = |message| outcome("catalog", "not-listable", message);
    if found.iter().any(|outcome| outcome.level == Level::Error) {
        // The verdict is clear, and most of this would be said twice.
        return Vec::new();
    }
    match bundles::read_for_catalog("bundle", files) {
        Ok(bundle) => {
            let listing = bundle.listing_problems().unwrap_or_else(|error| vec![error.to_string()]);
            let lost = |message| Outcome { level: Level::Warning, ..outcome("catalog", "not-in-catalogs", message) };
            let losses = bundle.listing_losses().into_iter().map(lost);
            bundle.check().into_iter().map(not_installable).chain(listing.into_iter().map(not_listable)).chain(losses).collect()
        }
        Err(failure) => vec![not_installable(failure.to_line())],
    }
}

fn selection(text: &str) -> Result<Selection, Failure> {
    let bad = |message: String| {
        let names: Vec<&str> = validators::optional_validators().map(|validator| validator.name).collect();
        Failure::new(Exit::Failed, "bundle validate", message).hint(format!("the optional validators are {}", names.join(", ")))
    };
    let selection = Selection::parse(text).map_err(|error| bad(format!("invalid command args: {error}")))?;
    if validators::optional_validators().any(|validator| selection.matches(&validator.labels())) {
        return Ok(selection);
    }
    Err(bad(format!("invalid command args: selector {text:?} does not match any validator labels")))
}

fn values(pairs: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let pair = |text: &String| {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| Failure::new(Exit::Usage, "--optional-values", format!("{text} must be formatted as key=value")))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    pairs.iter().map(pair).collect()
}

/// The categories of the file that the environment variable names.
fn categories() -> Option<Result<Vec<String>, Unavailable>> {
    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        categories: Vec<String>,
    }
    let path = std::env::var("OPERATOR_BUNDLE_CATEGORIES").ok().filter(|path| !path.is_empty())?;
    let read = || {
        let bytes = std::fs::read(&path).map_err(|error| format!("reading category file: open {path}: {}", os_words(&error)))?;
        let file: File = serde_json::from_slice(&bytes).map_err(|error| format!("unmarshaling category file: {error}"))?;
        Ok(file.categories)
    };
    Some(read())
}

fn index_file(values: &BTreeMap<String, String>) -> Option<Result<String, IndexFileError>> {
    let path = values.get("index-path").filter(|path| !path.is_empty())?;
    Some(match std::fs::metadata(path) {
        Err(error) => Err(IndexFileError::NotFound(format!("stat {path}: {}", os_words(&error)))),
        Ok(metadata) if metadata.is_dir() => Err(IndexFileError::Directory),
        Ok(_) => std::fs::read_to_string(path).map_err(|error| IndexFileError::Unreadable(format!("open {path}: {}", os_words(&error)))),
    })
}

/// The system's message, as Go shows it.
pub fn os_words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

fn platforms(client: &Client, image: &str) -> Result<Vec<ImagePlatform>, Unavailable> {
    let ask = async {
        let reference = client.reference(image)?;
        let workspace = client.workspace()?;
        let tree = client.survey(&reference, workspace.store()).await?;
        client.images(&reference, &tree, workspace.store()).await
    };
    let images = runtime::block_on(async { Ok(ask.await) }).map_err(|failure| failure.message().to_owned())??;
    let platforms = images.iter().map(|image| image.config.platform());
    let known = platforms.filter(|platform| platform.os != "unknown" && platform.architecture != "unknown");
    Ok(known.map(|platform| ImagePlatform { os: platform.os, architecture: platform.architecture }).collect())
}

/// A finding, of this program or of an external one.
struct Outcome {
    level: Level,
    validator: String,
    rule: String,
    message: String,
    text: String,
    place: Option<validators::Place>,
    fix: String,
}

impl From<Finding> for Outcome {
    fn from(finding: Finding) -> Self {
        Self {
            level: finding.level,
            validator: finding.validator.to_owned(),
            rule: finding.rule.id.to_owned(),
            message: finding.detail().to_owned(),
            text: finding.to_string(),
            fix: finding.rule.fix.to_owned(),
            place: finding.place,
        }
    }
}

impl Outcome {
    fn to_json(&self) -> Value {
        let mut value = json!({
            "level": self.level.as_str().to_lowercase(),
            "validator": self.validator,
            "rule": self.rule,
            "message": self.message,
            "text": self.text,
            "fix": self.fix,
        });
        if let Some(place) = &self.place {
            value["file"] = place.file.as_str().into();
            value["path"] = place.path.as_str().into();
            if let Some(line) = place.line {
                value["line"] = line.into();
            }
        }
        value
    }
}

/// Outcomes without repetitions: a finding that several validators share is reported once, except in operator-sdk's forms.
fn distinct(outcomes: &[Outcome]) -> Vec<&Outcome> {
    let mut seen: Vec<&Outcome> = Vec::new();
    for outcome in outcomes {
        if !seen.iter().any(|known| known.rule == outcome.rule && known.text == outcome.text && known.place == outcome.place) {
            seen.push(outcome);
        }
    }
    seen
}

fn write(form: Form, passed: bool, all: &[Outcome]) -> Result<(), Failure> {
    let outcomes = distinct(all);
    let whole = || json!({"passed": passed, "findings": outcomes.iter().map(|outcome| outcome.to_json()).collect::<Vec<_>>()});
    match form {
        Form::Json => output::value(&output::Format::Json, &whole()),
        Form::Yaml => output::value(&output::Format::Yaml, &whole()),
        Form::JsonAlpha1 => output::json(&json_alpha1(passed, all)),
        Form::Text => output::print(&all.iter().map(log_line).collect::<String>()),
        Form::Table => {
            let mut lines = Vec::new();
            for outcome in &outcomes {
                let place = outcome.place.as_ref().map_or_else(String::new, |place| format!("{place}: "));
                lines.push(format!("{}: {place}{} [{}]", outcome.level.as_str().to_lowercase(), outcome.message, outcome.rule));
                if !outcome.fix.is_empty() {
                    lines.push(format!("  fix: {}", outcome.fix));
                }
            }
            let count = |level| outcomes.iter().filter(|outcome| outcome.level == level).count();
            lines.push(format!("{}, {}", counted(count(Level::Error), "error"), counted(count(Level::Warning), "warning")));
            output::line(lines.join("\n"))
        }
    }
}

/// operator-sdk's form: four blanks, `passed` first, no findings are `null`.
fn json_alpha1(passed: bool, outcomes: &[Outcome]) -> String {
    let quoted = |text: &str| Value::from(text).to_string();
    let entry = |outcome: &Outcome| {
        let level = outcome.level.as_str().to_lowercase();
        format!("        {{\n            \"type\": \"{level}\",\n            \"message\": {}\n        }}", quoted(&outcome.text))
    };
    let entries: Vec<String> = outcomes.iter().map(entry).collect();
    let list = if entries.is_empty() { "null".to_owned() } else { format!("[\n{}\n    ]", entries.join(",\n")) };
    format!("{{\n    \"passed\": {passed},\n    \"outputs\": {list}\n}}\n")
}

fn log_line(outcome: &Outcome) -> String {
    let level = outcome.level.as_str().to_lowercase();
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
    format!("time=\"{now}\" level={level} msg={}\n", Value::from(outcome.text.as_str()))
}

/// The output of an external validator (SDK-BUNDLE-24); members that upstream does not know are refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct External {
    #[serde(default)]
    name: String,
    #[serde(default)]
    errors: Option<Vec<ExternalFinding>>,
    #[serde(default)]
    warnings: Option<Vec<ExternalFinding>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct ExternalFinding {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    level: String,
    #[serde(default)]
    field: String,
    #[serde(default)]
    bad_value: Value,
    #[serde(default)]
    detail: String,
}

fn external(program: &str, place: &str) -> Result<Vec<Outcome>, Failure> {
    let subject = format!("validator {program}");
    if !Path::new(place).is_dir() {
        return Err(Failure::new(Exit::Usage, subject, "external validators are given a bundle directory, not an image"));
    }
    let output = Command::new(program).arg(place).output().map_err(|error| Failure::failed(&subject, &error))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::new(Exit::Failed, subject, format!("ended with {}: {words}", output.status)));
    }
    let result: External = serde_json::from_slice(&output.stdout).map_err(|error| Failure::failed(&subject, &error))?;
    let outcome = |level: Level, finding: ExternalFinding| {
        let word = if finding.level.is_empty() { level.as_str().to_owned() } else { finding.level };
        let value = match &finding.bad_value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let named = match (finding.field.as_str(), value.as_str()) {
            ("", "") => String::new(),
            ("", value) => format!("Value {value}: "),
            (field, "") => format!("Field {field}: "),
            (field, value) => format!("Field {field}, Value {value}: "),
        };
        Outcome {
            level,
            validator: program.to_owned(),
            rule: format!("{}{}{}", result.name, if result.name.is_empty() { "" } else { "/" }, finding.r#type),
            text: format!("{word}: {named}{}", finding.detail),
            message: finding.detail,
            place: None,
            fix: String::new(),
        }
    };
    let errors = result.errors.into_iter().flatten().map(|finding| outcome(Level::Error, finding));
    let mut outcomes: Vec<Outcome> = errors.collect();
    outcomes.extend(result.warnings.into_iter().flatten().map(|finding| outcome(Level::Warning, finding)));
    Ok(outcomes)
}

fn list_optional() -> Result<(), Failure> {
    let mut table = output::Table::new(&["NAME", "LABELS", "DESCRIPTION"]);
    for validator in validators::optional_validators() {
        let labels: Vec<String> = validator.labels().iter().map(|(key, value)| format!("{key}={value}")).collect();
        table.row([validator.name, &labels.join(","), validator.description]);
    }
    table.print()
}
