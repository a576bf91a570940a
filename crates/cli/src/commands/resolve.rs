//! `mainstay resolve`: the bundle that is selected, and the reasons (MS-CLI-09, OLM1-SEL-01).

mod classic;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mainstay_operations::not_resolved;
use mainstay_resolver::joint::{Added, Component, Conflict, FactKind, Problem, Root, solve};
use mainstay_resolver::{CandidateCatalog, CatalogState, InstalledBundle, Refusal, Request, Resolution, UpgradeConstraintPolicy, resolve};
use mainstay_terminal::catalogs::{self, Catalog};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output::{self, Format, Table};
use serde_json::{Value, json};

use crate::cases;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay resolve beacon --catalog examples/catalog
  mainstay resolve beacon --catalog catalog.json.gz --version '>=1.2 <2' --channel stable
  mainstay resolve beacon --catalog REGISTRY/CATALOG:TAG --installed beacon.v1.1.0
  mainstay resolve beacon --catalog examples/catalog --resolve-dependencies
  mainstay resolve beacon harbor --catalog examples/catalog --resolve-dependencies
  mainstay resolve --cases questions.jsonl --catalog catalog.json
  mainstay resolve beacon --classic --catalog examples/catalog
  mainstay resolve --classic --cases worlds.jsonl

--classic resolves as OLM classic does: a namespace with a Subscription for each package, and what they need. With --cases every line is
then {\"input\": WORLD}, and the answer has \"resolve\" and \"steps\" besides; else -o json gives {\"install\": [{\"package\", \"bundle\", \"version\",
\"channel\", \"catalog\", \"image\", \"replaces\"}], \"refused\": [{\"subscriptions\", \"error\"}]}.

With --cases every line is {\"package\", \"version\", \"channels\", \"installed\": {\"name\", \"version\"}, \"upgradeConstraintPolicy\"};
the answer is what -o json gives.

-o json gives {\"package\", \"bundle\", \"version\", \"channels\", \"catalog\", \"image\", \"reasons\": [...]}, or
{\"error\": {\"message\", \"causes\": [...], \"hints\": [...]}}. With --resolve-dependencies there is \"added\" besides, what would have to be
installed first, in order: [{\"package\", \"bundle\", \"version\", \"catalog\", \"image\", \"because\": [...]}]; several packages give
{\"bundles\": [...], \"added\": [...], \"refused\": [{\"package\", \"error\"}]}.

Exit codes: 0 there is a bundle, 4 there is none, 1 bad input.")]
pub struct Arguments {
    /// The package; several only with --resolve-dependencies
    #[arg(required_unless_present = "cases", num_args = 1.., value_name = "PACKAGE")]
    packages: Vec<String>,
    /// A directory, a file or an image with a file-based catalog; can be repeated
    #[arg(long, required_unless_present = "classic", num_args = 1.., value_name = "PATH|REF")]
    catalog: Vec<String>,
    /// Resolve as OLM classic does
    #[arg(long)]
    classic: bool,
    /// The acceptable versions, as in a ClusterExtension
    #[arg(long, value_name = "RANGE")]
    version: Option<String>,
    /// A channel to follow; can be repeated
    #[arg(long, value_name = "CHANNEL")]
    channel: Vec<String>,
    /// The bundle that is installed: its name, or NAME=VERSION when no catalog has it
    #[arg(long, value_name = "BUNDLE")]
    installed: Option<String>,
    /// Whether the catalog's update edges bind
    #[arg(long, value_enum, default_value_t = Policy::CatalogProvided)]
    policy: Policy,
    /// Follow dependencies, and show what would have to be added
    #[arg(long)]
    resolve_dependencies: bool,
    /// Answer many questions: a file of JSON lines, - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["packages", "version", "channel", "installed"])]
    cases: Option<PathBuf>,
    /// table, json, yaml or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json, yaml or jsonpath=PATH"))]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Policy {
    #[value(name = "CatalogProvided")]
    CatalogProvided,
    #[value(name = "SelfCertified")]
    SelfCertified,
}

impl From<Policy> for UpgradeConstraintPolicy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::CatalogProvided => Self::CatalogProvided,
            Policy::SelfCertified => Self::SelfCertified,
        }
    }
}

/// Prints the answer.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match (&arguments.cases, arguments.classic) {
        (Some(path), true) => return classic::answer_cases(path, &arguments.output),
        (None, true) => return classic::show(arguments),
        (_, false) => {}
    }
    if arguments.cases.is_some() {
        cases::check_format(&arguments.output, &Format::Table)?;
    }
    let catalogs = catalogs::open_all(&arguments.catalog)?;
    let labels = BTreeMap::new();
    let candidates: Vec<CandidateCatalog<'_>> = catalogs
        .iter()
        .map(|catalog| CandidateCatalog { name: &catalog.name, labels: &labels, priority: 0, state: CatalogState::Content(&catalog.index) })
        .collect();
    if let Some(path) = &arguments.cases {
        return cases::answer(path, |case| {
            let request = case_request(case, arguments.policy)?;
            if arguments.resolve_dependencies {
                let question = Question { requests: vec![request], candidates: &candidates, catalogs: &catalogs };
                return Ok(question.one_answer());
            }
            match resolve(&request, &candidates) {
                Ok(resolution) => Ok(answer(&resolution, &request, &catalogs)),
                // A valid question has an answer, even if the answer is no.
                Err(refusal) => Ok(refused(&refusal).to_json()),
            }
        });
    }
    let requests = requests(arguments, &catalogs)?;
    if arguments.resolve_dependencies {
        return Question { requests, candidates: &candidates, catalogs: &catalogs }.show(&arguments.output);
    }
    let request = &requests[0];
    match resolve(request, &candidates) {
        Ok(resolution) => {
            if arguments.output.is_table() {
                table(&[(&resolution, request)], &catalogs)?;
                reasons(&resolution)
            } else {
                output::value(&arguments.output, &answer(&resolution, request, &catalogs))
            }
        }
        Err(refusal) => {
            let failure = refused(&refusal);
            if arguments.output.is_table() {
                return Err(failure);
            }
            output::value(&arguments.output, &failure.to_json())?;
            Err(Failure::silent(failure.exit))
        }
    }
}

/// The requests: one per package, at least one.
fn requests(arguments: &Arguments, catalogs: &[Catalog]) -> Result<Vec<Request>, Failure> {
    let mut packages: Vec<&String> = Vec::new();
    for package in &arguments.packages {
        if !packages.contains(&package) {
            packages.push(package);
        }
    }
    let several = packages.len() > 1;
    let bad = |message: &str| Failure::new(Exit::Failed, "question", message);
    if several && !arguments.resolve_dependencies {
        return Err(bad("several packages are resolved together only with --resolve-dependencies"));
    }
    if several && (arguments.version.is_some() || arguments.installed.is_some() || !arguments.channel.is_empty()) {
        return Err(bad("--version, --channel and --installed are about one package, but several are given"));
    }
    let one = |package: &&String| {
        Ok(Request {
            package: (*package).clone(),
            channels: arguments.channel.clone(),
            version: arguments.version.clone(),
            selector: None,
            policy: arguments.policy.into(),
            installed: arguments.installed.as_deref().map(|text| installed(text, package, catalogs)).transpose()?,
        })
    };
    packages.iter().map(one).collect()
}

/// A question whose answer may need more than the requested packages.
struct Question<'q> {
    requests: Vec<Request>,
    candidates: &'q [CandidateCatalog<'q>],
    catalogs: &'q [Catalog],
}

impl Question<'_> {
    fn components(&self) -> Vec<Component> {
        let roots: Vec<Root> = self
            .requests
            .iter()
            .map(|request| Root { subject: format!("package {}", request.package), request: request.clone() })
            .collect();
        solve(&Problem { roots: &roots, catalogs: self.candidates, provided: &[], add_missing: true, about: None })
    }

    fn request(&self, subject: &str) -> &Request {
        let of = |request: &&Request| subject.strip_prefix("package ") == Some(&request.package);
        self.requests.iter().find(of).unwrap_or(&self.requests[0])
    }

    /// The reason why there is no bundle for a package: the one without dependencies, if they have nothing to do with it.
    fn failure(&self, subject: &str, conflict: &Conflict) -> Failure {
        if let [fact] = conflict.facts.as_slice()
            && fact.kind == FactKind::Refused
            && let Err(refusal) = resolve(self.request(subject), self.candidates)
        {
            return refused(&refusal);
        }
        let failure = Failure::new(Exit::Impossible, subject, conflict.to_string());
        conflict.hints.iter().fold(failure, |failure, hint| failure.hint(hint.to_string()))
    }

    /// The answer to a question about one package.
    fn one_answer(&self) -> Value {
        let mut answers = self.answers();
        if let Some((_, failure)) = answers.refused.pop() {
            return failure.to_json();
        }
        let mut answer = answers.bundles.pop().map_or(Value::Null, |(resolution, request)| answer(&resolution, request, self.catalogs));
        answer["added"] = answers.added.iter().map(added).collect();
        answer
    }

    fn answers(&self) -> Answers<'_> {
        let mut answers = Answers { bundles: Vec::new(), added: Vec::new(), refused: Vec::new() };
        for component in self.components() {
            match component.outcome {
                Ok(solution) => {
                    let chosen = solution.chosen.into_iter();
                    answers.bundles.extend(chosen.map(|(subject, resolution)| (resolution, self.request(&subject))));
                    answers.added.extend(solution.added);
                }
                Err(conflict) => {
                    let subject = component.subjects.first().map_or("question", String::as_str);
                    answers.refused.push((self.request(subject).package.clone(), self.failure(subject, &conflict)));
                }
            }
        }
        answers
    }

    fn show(&self, format: &Format) -> Result<(), Failure> {
        if let ([_], false) = (self.requests.as_slice(), format.is_table()) {
            let exit = self.answers().refused.pop().map(|(_, failure)| failure.exit);
            output::value(format, &self.one_answer())?;
            return exit.map_or(Ok(()), |exit| Err(Failure::silent(exit)));
        }
        let mut answers = self.answers();
        if !format.is_table() {
            let bundles: Vec<Value> =
                answers.bundles.iter().map(|(resolution, request)| answer(resolution, request, self.catalogs)).collect();
            let refused = answers.refused.iter().map(|(package, failure)| json!({"package": package, "error": failure.to_json()["error"]}));
            let refused: Vec<Value> = refused.collect();
            let added: Vec<Value> = answers.added.iter().map(added).collect();
            output::value(format, &json!({"bundles": bundles, "added": added, "refused": refused}))?;
            return answers.refused.pop().map_or(Ok(()), |(_, failure)| Err(Failure::silent(failure.exit)));
        }
        if !answers.bundles.is_empty() {
            let rows: Vec<(&Resolution, &Request)> = answers.bundles.iter().map(|(resolution, request)| (resolution, *request)).collect();
            table(&rows, self.catalogs)?;
        }
        if !answers.added.is_empty() {
            output::line("\nadded before, in this order:")?;
            for Added { choice, because } in &answers.added {
                output::line(format!("  {choice}"))?;
                because.iter().try_for_each(|because| output::line(format!("    because {because}")))?;
            }
        }
        if let [(resolution, _)] = answers.bundles.as_slice() {
            reasons(resolution)?;
        }
        let last = answers.refused.pop();
        answers.refused.iter().for_each(|(_, failure)| failure.report());
        last.map_or(Ok(()), |(_, failure)| Err(failure))
    }
}

/// The answers to a question about several packages.
struct Answers<'q> {
    bundles: Vec<(Resolution, &'q Request)>,
    added: Vec<Added>,
    refused: Vec<(String, Failure)>,
}

fn added(added: &Added) -> Value {
    let choice = &added.choice;
    json!({
        "package": choice.package,
        "bundle": choice.bundle,
        "version": choice.version,
        "catalog": choice.catalog,
        "image": choice.image,
        "because": added.because,
    })
}

fn case_request(case: &Value, policy: Policy) -> Result<Request, Failure> {
    let bad = |message: String| Failure::new(Exit::Failed, "case", message);
    let policy = match cases::text(case, "upgradeConstraintPolicy")?.as_deref() {
        None | Some("") => policy,
        Some(name) => Policy::from_str(name, false)
            .map_err(|_| bad(format!("field upgradeConstraintPolicy: expected CatalogProvided or SelfCertified, found {name:?}")))?,
    };
    let installed = match &case["installed"] {
        Value::Null => None,
        bundle => Some(InstalledBundle { name: cases::required(bundle, "name")?, version: cases::required(bundle, "version")? }),
    };
    Ok(Request {
        package: cases::required(case, "package")?,
        channels: cases::list(case, "channels")?.unwrap_or_default(),
        version: cases::text(case, "version")?,
        selector: None,
        policy: policy.into(),
        installed,
    })
}

/// The installed bundle by name; its version comes from the first catalog that knows it.
fn installed(text: &str, package: &str, catalogs: &[Catalog]) -> Result<InstalledBundle, Failure> {
    if let Some((name, version)) = text.split_once('=') {
        return Ok(InstalledBundle { name: name.to_owned(), version: version.to_owned() });
    }
    let version = catalogs.iter().find_map(|catalog| catalog.index.package(package)?.bundle(text)?.version());
    match version {
        Some(version) => Ok(InstalledBundle { name: text.to_owned(), version: version.to_owned() }),
        None => Err(Failure::new(
            Exit::Failed,
            format!("bundle {text}"),
            format!("no catalog has it in package {package}, so its version is not known"),
        )
        .hint(format!("give its version, too: --installed {text}=VERSION"))),
    }
}

/// A refusal in the form of this command.
fn refused(refusal: &Refusal) -> Failure {
    not_resolved(refusal).into()
}

/// The channels of the chosen bundle; only requested ones, if channels were requested.
fn channels(resolution: &Resolution, request: &Request, catalogs: &[Catalog]) -> Vec<String> {
    let choice = &resolution.choice;
    let facts =
        catalogs.iter().find(|catalog| catalog.name == choice.catalog).and_then(|catalog| catalog.index.package_facts(&choice.package));
    let all = facts.into_iter().flat_map(|facts| facts.channels);
    all.filter(|channel| channel.entries.iter().any(|entry| entry.name == choice.bundle))
        .map(|channel| channel.name.to_owned())
        .filter(|name| request.channels.is_empty() || request.channels.contains(name))
        .collect()
}

fn answer(resolution: &Resolution, request: &Request, catalogs: &[Catalog]) -> Value {
    let choice = &resolution.choice;
    json!({
        "package": choice.package,
        "bundle": choice.bundle,
        "version": choice.version,
        "channels": channels(resolution, request, catalogs),
        "catalog": choice.catalog,
        "image": choice.image,
        "reasons": resolution.reasons,
    })
}

fn table(rows: &[(&Resolution, &Request)], catalogs: &[Catalog]) -> Result<(), Failure> {
    let mut table = Table::new(&["PACKAGE", "BUNDLE", "VERSION", "CHANNELS", "CATALOG"]);
    for (resolution, request) in rows {
        let choice = &resolution.choice;
        let channels = channels(resolution, request, catalogs).join(",");
        table.row([choice.package.as_str(), &choice.bundle, &choice.version, &channels, &choice.catalog]);
    }
    table.print()
}

fn reasons(resolution: &Resolution) -> Result<(), Failure> {
    output::line("\nwhy:")?;
    resolution.reasons.iter().try_for_each(|reason| output::line(format!("  {reason}")))
}
