//! `mainstay release`: what a release payload holds, in which order it is applied, and what becomes of a manifest on a cluster (CVO-INC-06,
//! CVO-GRAPH-11).

mod check;
mod merge;
mod plan;
pub mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use mainstay_release::{
    Capabilities, FileName, Files, Filter, Manifest, Mode, Payload, Reconcile, Task, TaskGraph, Values, cases as recorded,
};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output::{self, Format, Table};
use serde_json::{Value, json};

use crate::cases;

/// The profile of a cluster that says nothing else.
pub const PROFILE: &str = "self-managed-high-availability";
/// The pull spec that stands for the release where a folder does not say it.
const IMAGE: &str = "registry.example/release@sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// Which manifests of a payload belong to a cluster, and why others do not
    Include(Include),
    /// The order in which a payload is applied
    Order(Order),
    /// What an update from one release to another would do, in which order, and what it would wait for
    Plan(plan::Arguments),
    /// The object that applying a manifest leaves in the cluster
    Merge(merge::Merge),
    /// The faults of a ClusterVersion, and the reasons that keep it from an update
    Check(check::Check),
}

/// The payload, and the cluster it is for.
#[derive(Debug, Args)]
struct Place {
    /// A payload: an image, an OCI layout or archive, a tar file or - for a tar stream, or a folder
    #[arg(required_unless_present = "cases", value_name = "RELEASE")]
    payload: Option<String>,
    /// Answer many questions: a file of JSON lines, - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "payload", requires = "payloads")]
    cases: Option<PathBuf>,
    /// The folder with the payloads of the questions, each in a folder named by its version
    #[arg(long = "payload", id = "payloads", value_name = "DIR", requires = "cases")]
    payloads: Option<PathBuf>,
    #[command(flatten)]
    cluster: Cluster,
}

/// The cluster that a payload is for.
#[derive(Debug, Args)]
struct Cluster {
    /// The cluster profile
    #[arg(long, value_name = "PROFILE", default_value = PROFILE)]
    profile: String,
    /// The feature set [default: the default one]
    #[arg(long, value_name = "SET", default_value = "", hide_default_value = true)]
    feature_set: String,
    /// Leave out what is excluded from this kind of installation
    #[arg(long, value_name = "IDENTIFIER", default_value = "", hide_default_value = true)]
    exclude_identifier: String,
    /// The capabilities: a set (None, v4.11 ... v4.18, vCurrent) and more names, comma-separated
    #[arg(long, value_name = "SET,NAME", value_delimiter = ',', default_value = "vCurrent")]
    capabilities: Vec<String>,
}

/// Arguments of `release include`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay release include payload/4.19.44
  mainstay release include payload/4.19.44 --profile single-node-developer --capabilities None,Console
  mainstay release include payload/4.19.44 --excluded -o json
  mainstay release include --payload payload --cases questions.jsonl

With --cases every line is {\"type\": \"payload\", \"payload\": VERSION} or {\"type\": \"case\", \"payload\": VERSION, \"config\"}; the answers
have \"manifests\", or \"included\", \"includedSha256\" and \"excluded\" (positions by reason).

Exit codes: 0 done, 1 bad input.")]
pub struct Include {
    #[command(flatten)]
    place: Place,
    /// Show only what does not belong to the cluster, with the reasons
    #[arg(long, conflicts_with = "cases")]
    excluded: bool,
    /// table, json or yaml
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json or yaml"))]
    output: Format,
}

/// Arguments of `release order`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay release order payload/4.19.44
  mainstay release order payload/4.19.44 --mode initializing -o json
  mainstay release order --payload payload --cases questions.jsonl

A line of the table is a group of manifests that are applied one after the other; groups of the same step are applied at once.

With --cases a line {\"type\": \"tasks\", \"id\", \"tasks\"} gives tasks, and each later line {\"type\": \"graph\", \"id\", \"mode\", \"attempt\"} asks for
a graph of them; its \"nodes\" have \"t\" (positions of tasks), \"in\" and \"out\" (numbers of nodes).

Exit codes: 0 done, 1 bad input.")]
pub struct Order {
    #[command(flatten)]
    place: Place,
    /// Why the payload is applied
    #[arg(long, value_enum, default_value = "updating")]
    mode: OrderMode,
    /// The number of failed attempts before, with --mode reconciling
    #[arg(long, value_name = "N", default_value_t = 0)]
    attempt: u32,
    /// table, json or yaml
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json or yaml"))]
    output: Format,
}

/// Why a payload is applied.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OrderMode {
    /// The first release of a cluster: everything at once
    Initializing,
    /// From one release to another: runlevel by runlevel
    Updating,
    /// The same release again
    Reconciling,
}

/// Runs one of the commands.
pub fn run(command: Commands) -> Result<(), Failure> {
    match command {
        Commands::Include(arguments) => include(&arguments),
        Commands::Order(arguments) => order(&arguments),
        Commands::Plan(arguments) => plan::run(&arguments),
        Commands::Merge(arguments) => merge::run(&arguments),
        Commands::Check(arguments) => check::run(&arguments),
    }
}

/// Reads every manifest of a payload.
fn manifests(place: &str, profile: &str) -> Result<Vec<Manifest>, Failure> {
    of_files(&source::read(place)?.files, place, profile)
}

fn of_files(files: &Files, place: &str, profile: &str) -> Result<Vec<Manifest>, Failure> {
    let values = Values { release_image: IMAGE, cluster_profile: profile };
    Payload::all(files, values, place).map_err(|error| Failure::failed(format!("payload {place}"), &error))
}

impl Place {
    fn path(&self) -> Result<&str, Failure> {
        self.payload.as_deref().ok_or_else(|| Failure::new(Exit::Usage, "release", "needs a payload"))
    }
}

impl Cluster {
    fn capabilities(&self) -> Result<Capabilities, Failure> {
        let (set, more) = self.capabilities.split_first().map_or(("", &[][..]), |(set, more)| (set.as_str(), more));
        let spec = json!({"baselineCapabilitySet": set, "additionalEnabledCapabilities": more});
        Capabilities::of(&spec, Vec::<String>::new()).map_err(|error| Failure::of(Exit::Usage, "--capabilities", &error))
    }

    fn filter<'a>(&'a self, capabilities: &'a Capabilities) -> Filter<'a> {
        Filter {
            exclude_identifier: Some(&self.exclude_identifier),
            feature_set: Some(&self.feature_set),
            profile: Some(&self.profile),
            capabilities: Some(capabilities),
            ..Filter::default()
        }
    }
}

/// The payloads of questions, each read once per profile.
struct Payloads<'a> {
    root: &'a Path,
    read: BTreeMap<(String, String), Vec<Manifest>>,
}

impl<'a> Payloads<'a> {
    fn new(place: &'a Place) -> Self {
        Self { root: place.payloads.as_deref().unwrap_or(Path::new(".")), read: BTreeMap::new() }
    }

    fn get(&mut self, version: &str, profile: &str) -> Result<&[Manifest], Failure> {
        if version.is_empty() || version.contains(['/', '\\']) || version.starts_with('.') {
            return Err(Failure::new(Exit::Failed, "case", format!("field payload: {version:?} is not a version")));
        }
        let key = (version.to_owned(), profile.to_owned());
        if !self.read.contains_key(&key) {
            // The folder may hold the payloads, the folder of the archive, or be the only payload.
            let places = [self.root.join(version), self.root.join("payload").join(version), self.root.to_owned()];
            let place = places.iter().find(|place| place.is_dir()).unwrap_or(&places[0]);
            self.read.insert(key.clone(), manifests(&place.display().to_string(), profile)?);
        }
        Ok(self.read.get(&key).map_or(&[], Vec::as_slice))
    }
}

fn failed(error: &recorded::CaseError) -> Failure {
    Failure::failed("case", error)
}

fn include(arguments: &Include) -> Result<(), Failure> {
    if let Some(path) = &arguments.place.cases {
        cases::check_format(&arguments.output, &Format::Table)?;
        let mut payloads = Payloads::new(&arguments.place);
        return cases::answer(path, |case| {
            let manifests = payloads.get(&cases::required(case, "payload")?, PROFILE)?;
            recorded::include(case, manifests).map_err(|error| failed(&error))
        });
    }
    let cluster = &arguments.place.cluster;
    let capabilities = cluster.capabilities()?;
    let filter = cluster.filter(&capabilities);
    let all = manifests(arguments.place.path()?, &cluster.profile)?;
    let told: Vec<(&Manifest, Option<String>)> =
        all.iter().map(|manifest| (manifest, filter.exclusion(manifest).map(|reason| reason.to_string()))).collect();
    let shown = told.iter().filter(|(_, reason)| !arguments.excluded || reason.is_some());
    if arguments.output.is_table() {
        let mut table = Table::new(&["FILE", "OBJECT", if arguments.excluded { "REASON" } else { "INCLUDED" }]);
        for (manifest, reason) in shown {
            let reason = reason
                .as_ref()
                .map_or_else(|| "yes".to_owned(), |reason| if arguments.excluded { reason.clone() } else { format!("no: {reason}") });
            table.row([manifest.file().to_owned(), manifest.short().to_string(), reason]);
        }
        return table.print();
    }
    let told = shown.map(|(manifest, reason)| {
        let mut one = object(manifest);
        one["included"] = json!(reason.is_none());
        if let Some(reason) = reason {
            one["reason"] = json!(reason);
        }
        one
    });
    output::value(&arguments.output, &told.collect())
}

/// A manifest by its place and identity.
fn object(manifest: &Manifest) -> Value {
    let id = manifest.id();
    json!({"file": manifest.file(), "document": manifest.document(), "group": id.group, "version": manifest.version(), "kind": id.kind,
        "namespace": id.namespace, "name": id.name})
}

fn order(arguments: &Order) -> Result<(), Failure> {
    if let Some(path) = &arguments.place.cases {
        cases::check_format(&arguments.output, &Format::Table)?;
        let (mut payloads, mut orders) = (Payloads::new(&arguments.place), recorded::Orders::default());
        return cases::answer(path, |case| {
            let manifests = match (cases::text(case, "payload")?, cases::text(case, "profile")?) {
                (Some(version), Some(profile)) => payloads.get(&version, &profile)?,
                _ => &[],
            };
            orders.answer(case, manifests).map_err(|error| failed(&error))
        });
    }
    let cluster = &arguments.place.cluster;
    let capabilities = cluster.capabilities()?;
    let filter = cluster.filter(&capabilities);
    let mut included = manifests(arguments.place.path()?, &cluster.profile)?;
    included.retain(|manifest| filter.exclusion(manifest).is_none());
    let mode = match arguments.mode {
        OrderMode::Initializing => Mode::Initializing,
        OrderMode::Updating => Mode::Updating,
        OrderMode::Reconciling => Mode::Reconciling(Reconcile { attempt: arguments.attempt }),
    };
    let graph = TaskGraph::new(&included, mode);
    let tasks = Task::of(&included);
    let groups = graph.groups();
    if arguments.output.is_table() {
        let mut table = Table::new(&["STEP", "RUNLEVEL", "COMPONENT", "MANIFESTS"]);
        for (step, members) in &groups {
            table.row([
                step.to_string(),
                parts(&included, members, |name| name.level.to_string()),
                parts(&included, members, |name| name.component.to_owned()),
                listed(&tasks, members),
            ]);
        }
        return table.print();
    }
    let told = groups.iter().map(|(step, members)| {
        let manifests: Vec<Value> = members.iter().map(|&task| object(tasks[task].manifest)).collect();
        json!({"step": step, "runlevel": parts(&included, members, |name| name.level.to_string()),
            "component": parts(&included, members, |name| name.component.to_owned()), "manifests": manifests})
    });
    output::value(&arguments.output, &told.collect())
}

/// A part of the names of a group's files, each once; none of names that have another form.
fn parts(manifests: &[Manifest], members: &[usize], part: impl Fn(FileName<'_>) -> String) -> String {
    let names: BTreeSet<String> = members.iter().filter_map(|&task| FileName::parse(manifests[task].file()).map(&part)).collect();
    Vec::from_iter(names).join(",")
}

/// The first manifest of a group, and the number of others.
fn listed(tasks: &[Task<'_>], members: &[usize]) -> String {
    let first = members.first().map(|&task| tasks[task].manifest.short().to_string()).unwrap_or_default();
    match members.len() {
        0 | 1 => first,
        count => format!("{first} and {} more", count - 1),
    }
}
