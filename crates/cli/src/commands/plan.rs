//! `mainstay plan`: the effects of a change, before it happens (MS-PLAN-01).
//!
//! As JSON, one document per change (a `List` if there are several):
//!
//! ```text
//!   {"kind": "Plan", "operation": install|upgrade|rollback|pin|uninstall|apply, "doable", "extension",
//!    "writes":  [Object]            what the command itself writes
//!    "installerRights": [text]      what the installer's account gets in addition
//!    "choices": [text]              what was decided without being requested: channel, watched namespace
//!    "notes": [text]                what could not be looked at
//!    "rollback": {"verdict": safe|unsafe|impossible, "from", "to", "risks", "preflight", "reasons"}
//!    "verification": as below       of what the command itself writes
//!    "steps": [{                    the update path: one bundle each
//!       "kind": Nothing|Install|Upgrade|Repair|Uninstall|Refused,
//!       "bundle", "from": {"package", "name", "version", "image", "catalog"}, "reasons": [text],
//!       "dependencies": [{"bundle", "because": [text]}]   what is installed in addition
//!       "approval": {"changePlan", "reasons": [text]}      what it waits for, if the change needs approval
//!       "problem": {"message", "causes", "hints", "unknownPackage"},
//!       "objects": [{"apiVersion", "kind", "namespace", "name", "owner", "note",
//!                    "change": Created|Changed|Adopted|Conflicting|Deleted|Kept|Unchanged|Unknown,
//!                    "fields": [{"path", "from", "to"}], "fieldsOmitted"}],
//!       "customResourceDefinitions": [{"name", "change", "findings", "versions", "existingUnknown",
//!          "existing": {"count", "checked", "invalid", "invalidCount", "losing", "losingCount", "notes"}}],
//!       "rightsGained", "rightsLost": [text], "images": [{"reference", "usedBy", "digest", "size", "sizeUnknown"}],
//!       "notServed": [text]            what roles and webhooks are for and the cluster does not serve now
//!       "apiExtensions": [text], "restarts": [{"workload", "because"}], "warnings": [text],
//!       "verification": [{"step", "askedAs", "accepted", "answer"}] }],
//!    "revisions": [{"fact", "was", "resourceVersion"}]}
//! ```
//!
//! What is empty or unknown is left out.

mod cluster_update;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use mainstay_lifecycle::removal::Choices;
use mainstay_olm_classic_core::removal;
use mainstay_operations::{Change, Destination, Planned, SavedPlans, verify};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::output::{self, Format};
use mainstay_terminal::progress::Progress;
use mainstay_terminal::runtime;
use serde_json::{Value, json};

use super::classic;
use super::classic::upgrade::Wanted;
use super::flags::{Consent, GrantFlag, Patience, SafetyFlag};
use super::install::RequestArguments;
use crate::{named, plan_text};

/// The largest file of objects that is read, in bytes.
const BYTES: u64 = 16 << 20;

/// Arguments.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  mainstay plan install beacon --version 1.0.x
  mainstay plan upgrade beacon --verify           each step is sent as a dry run, too
  mainstay plan upgrade beacon --out beacon.plan  then: mainstay apply-plan beacon.plan
  mainstay plan uninstall beacon
  mainstay plan rollback beacon --to-revision 2
  mainstay plan upgrade beacon --classic -n lights    what the next InstallPlan of OLM classic would write, made or not
  mainstay plan upgrade beacon --classic -n lights --to 1.2.0    and each one on the way to this version
  mainstay plan -f extensions.yaml -o json
  mainstay plan cluster-update --to 4.19.44           of the cluster itself to another release

Nothing is changed. Exit code 0: it can be applied, or there is nothing to do; 4: it cannot, and why; 3: no such package or extension."
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Verb>,
    /// A file with ClusterExtensions, and the accounts and roles beside them; - is standard input; can be repeated
    #[arg(long, short, value_name = "FILE")]
    file: Vec<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Of what there are plans.
#[derive(Debug, Subcommand)]
enum Verb {
    #[command(flatten)]
    Package(Operation),
    /// An update of the cluster to another release: each object that it changes, and what blocks it
    ClusterUpdate(cluster_update::Arguments),
}

/// Changes of packages.
#[derive(Debug, Subcommand)]
enum Operation {
    /// The plan of mainstay install
    Install {
        #[command(flatten)]
        request: Box<RequestArguments>,
        #[command(flatten)]
        common: Common,
    },
    /// The plan of mainstay upgrade
    Upgrade {
        /// The extension
        name: String,
        /// The acceptable versions, now and later
        #[arg(long, value_name = "RANGE")]
        version: Option<String>,
        /// A channel to follow; can be repeated
        #[arg(long, value_name = "CHANNEL")]
        channel: Vec<String>,
        /// The permissions of the account, also of one that install did not create
        #[arg(long, value_enum)]
        grant: Option<GrantFlag>,
        /// Whether CRDs may change although existing objects may lose data
        #[arg(long, value_enum)]
        crd_safety: Option<SafetyFlag>,
        /// The Subscription's namespace, with --classic
        #[arg(long, short, value_name = "NAMESPACE", value_parser = named::namespace, requires = "classic")]
        namespace: Option<String>,
        /// Of OLM classic: by the Subscription, package or CSV of this name
        #[arg(long, requires = "namespace")]
        classic: bool,
        /// All updates up to this version, with --classic [default: the next one]
        #[arg(long, value_name = "VERSION", requires = "classic")]
        to: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// The plan of mainstay rollback
    Rollback {
        /// The extension
        name: String,
        /// The revision of mainstay history to go back to
        #[arg(long, value_name = "N", conflicts_with = "to_version")]
        to_revision: Option<u32>,
        /// The version to go back to
        #[arg(long, value_name = "VERSION")]
        to_version: Option<String>,
        /// Also what is unsafe
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        common: Common,
    },
    /// The plan of mainstay pin
    Pin {
        /// The extension
        name: String,
        #[command(flatten)]
        common: Common,
    },
    /// The plan of mainstay uninstall
    Uninstall {
        /// The extension
        name: String,
        /// Delete its CRDs and so all custom resources of these kinds
        #[arg(long, conflicts_with = "keep_crds")]
        delete_crds: bool,
        /// Keep its CRDs and all custom resources
        #[arg(long)]
        keep_crds: bool,
        /// Also when other extensions need it
        #[arg(long)]
        even_if_needed: bool,
        /// Delete its namespace, too, unless another extension is in it
        #[arg(long)]
        delete_namespace: bool,
        /// The Subscription's namespace, with --classic
        #[arg(long, short, value_name = "NAMESPACE", value_parser = named::namespace, requires = "classic")]
        namespace: Option<String>,
        /// Of OLM classic: by the Subscription, package or CSV of this name
        #[arg(long, requires = "namespace")]
        classic: bool,
        #[command(flatten)]
        common: Common,
    },
}

/// What every plan can be asked.
#[derive(Clone, Debug, Default, Args)]
struct Common {
    /// Send each step to the server as a dry run, as the account that will act where that is possible
    #[arg(long)]
    verify: bool,
    /// Save the plan for mainstay apply-plan
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Do not ask registries for digests and sizes of images
    #[arg(long)]
    no_sizes: bool,
    /// table, wide, json, yaml or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, wide, json, yaml or jsonpath=PATH"))]
    output: Format,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Prints a plan.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (changes, common) = match &arguments.command {
        Some(Verb::ClusterUpdate(arguments)) => return cluster_update::run(arguments),
        Some(Verb::Package(operation)) => {
            if operation.is_classic() {
                return operation.plan_classic();
            }
            let (change, common) = operation.read()?;
            (vec![change], common)
        }
        None if arguments.file.is_empty() => {
            return Err(Failure::new(
                Exit::Usage,
                "plan",
                "say what is to be planned: install, upgrade, rollback, pin, uninstall, or -f FILE",
            ));
        }
        None => (objects(&arguments.file)?, &arguments.common),
    };
    runtime::block_on(async {
        let session = common.cluster.open().await?;
        let mut all = Vec::new();
        for change in &changes {
            let mut progress = Progress::start();
            let mut planned = mainstay_operations::plan(&session, change, !common.no_sizes, &mut progress).await?;
            if common.verify {
                verify(&session, &mut planned, &mut progress).await;
            }
            drop(progress);
            all.push(planned);
        }
        show(&common.output, &all)?;
        if let Some(path) = &common.out {
            SavedPlans::of(&all)?.write(path)?;
            note(format!("saved: {}; mainstay apply-plan {} does it", path.display(), path.display()));
        }
        verdict(&common.output, &all)
    })
}

impl Operation {
    fn read(&self) -> Result<(Change, &Common), Failure> {
        Ok(match self {
            Self::Install { request, common } => (Change::Install(request.read()?), common),
            Self::Upgrade { name, version, channel, grant, crd_safety, common, .. } => {
                let (name, version, channels) = (name.clone(), version.clone(), channel.clone());
                (Change::Upgrade { name, version, channels, grant: grant.map(Into::into), crd_safety: crd_safety.map(Into::into) }, common)
            }
            Self::Rollback { name, to_revision, to_version, force, common } => {
                let to = Destination { to_revision: *to_revision, to_version: to_version.clone() };
                (Change::Rollback { name: name.clone(), to, force: *force }, common)
            }
            Self::Pin { name, common } => (Change::Pin { name: name.clone() }, common),
            Self::Uninstall { name, delete_crds, keep_crds, even_if_needed, delete_namespace, common, .. } => {
                let keep_crds = (*delete_crds || *keep_crds).then_some(*keep_crds);
                let choices = Choices { keep_crds, even_if_needed: *even_if_needed, delete_namespace: *delete_namespace };
                (Change::Uninstall { name: name.clone(), choices }, common)
            }
        })
    }

    fn is_classic(&self) -> bool {
        match self {
            Self::Install { request, .. } => request.classic,
            Self::Upgrade { classic, .. } | Self::Uninstall { classic, .. } => *classic,
            Self::Rollback { .. } | Self::Pin { .. } => false,
        }
    }

    /// Prints the plan of an operation of OLM classic.
    fn plan_classic(&self) -> Result<(), Failure> {
        let (Self::Install { common, .. }
        | Self::Upgrade { common, .. }
        | Self::Rollback { common, .. }
        | Self::Pin { common, .. }
        | Self::Uninstall { common, .. }) = self;
        if common.verify || common.out.is_some() {
            return Err(Failure::new(Exit::Usage, "plan", "--verify and --out are for OLM v1, and not for --classic"));
        }
        let format = &common.output;
        runtime::block_on(async {
            let session = common.cluster.open().await?;
            match self {
                Self::Install { request, .. } => {
                    classic::install::dry_run(&session, &classic::install::request(request)?, request.audit, format).await
                }
                Self::Upgrade { name, channel, namespace, to, .. } => {
                    let namespace = classic::namespace("plan upgrade", namespace.as_deref())?;
                    let (channel, to) = (channel.first().map(String::as_str), to.as_deref());
                    Box::pin(classic::upgrade::dry_run(&session, &Wanted { namespace, name, channel, to }, format)).await
                }
                Self::Uninstall { name, delete_crds, even_if_needed, namespace, .. } => {
                    let namespace = classic::namespace("plan uninstall", namespace.as_deref())?;
                    let choices = removal::Choices { delete_crds: *delete_crds, even_if_needed: *even_if_needed };
                    let (consent, patience) = (Consent::default(), Patience::default());
                    let manner = classic::uninstall::Manner { is_dry: true, consent: &consent, patience, format };
                    classic::uninstall::uninstall(&session, namespace, name, choices, &manner).await
                }
                Self::Rollback { .. } => Err(Failure::new(Exit::Usage, "plan rollback", "OLM classic has no rollback")),
                Self::Pin { .. } => {
                    Err(Failure::new(Exit::Usage, "plan pin", "a Subscription stays where its InstallPlans are approved by hand"))
                }
            }
        })
    }
}

/// Prints the plans of a command's own `--dry-run`: the exit code says if they can be applied.
pub fn dry_run(format: &Format, all: &[Planned]) -> Result<(), Failure> {
    show(format, all)?;
    verdict(format, all)
}

fn show(format: &Format, all: &[Planned]) -> Result<(), Failure> {
    if format.is_table() {
        let texts: Vec<String> = all.iter().map(|planned| plan_text::painted(&plan_text::show(planned, *format == Format::Wide))).collect();
        return output::drawn(&texts.join("\n"));
    }
    let documents = all.iter().map(document).collect::<Result<Vec<_>, _>>()?;
    match documents.as_slice() {
        [only] => output::value(format, only),
        _ => output::value(format, &json!({"kind": "List", "items": documents})),
    }
}

fn document(planned: &Planned) -> Result<Value, Failure> {
    let failed = |error: serde_json::Error| Failure::failed("plan", &error);
    let mut document = serde_json::to_value(&planned.preview).map_err(failed)?;
    document["kind"] = "Plan".into();
    document["operation"] = planned.change.verb().into();
    if !planned.choices.is_empty() {
        document["choices"] = planned.choices.clone().into();
    }
    if !planned.notes.is_empty() {
        document["notes"] = planned.notes.clone().into();
    }
    if let Some(verdict) = &planned.rollback {
        document["rollback"] = verdict.document()?;
    }
    if let Some(removal) = &planned.removal {
        document["removal"] = serde_json::to_value(&removal.preview).map_err(failed)?;
    }
    document["revisions"] = serde_json::to_value(&planned.revisions).map_err(failed)?;
    Ok(document)
}

/// The exit code: if a change cannot be applied, the reason is printed on stderr, unless the plan was printed for programs.
fn verdict(format: &Format, all: &[Planned]) -> Result<(), Failure> {
    let refusal = all.iter().find_map(Planned::refusal).map(Failure::from);
    if let Some(first) = refusal {
        return Err(if format.is_table() { first } else { Failure::silent(first.exit) });
    }
    if all.iter().all(|planned| planned.preview.applicable) {
        return Ok(());
    }
    let failure = Failure::new(Exit::Impossible, "plan", "the server refuses a step; see its dry run above");
    Err(if format.is_table() { failure } else { Failure::no() })
}

/// The changes that files ask for.
fn objects(files: &[PathBuf]) -> Result<Vec<Change>, Failure> {
    let mut all = Vec::new();
    for file in files {
        let subject = || format!("file {}", file.display());
        let text = text(file)?;
        for document in mainstay_yaml::stream(&text) {
            let document = document.map_err(|error| Failure::failed(subject(), &error))?.value;
            match document["items"].as_array() {
                Some(items) => all.extend(items.clone()),
                None if document.is_null() => {}
                None => all.push(document),
            }
        }
    }
    let (extensions, with): (Vec<Value>, Vec<Value>) = all.into_iter().partition(|object| object["kind"] == "ClusterExtension");
    if extensions.is_empty() {
        return Err(Failure::new(Exit::Failed, "plan", "the files hold no ClusterExtension"));
    }
    let mut changes: Vec<Change> = extensions.into_iter().map(|extension| Change::Object { extension, with: Vec::new() }).collect();
    // Objects beside it belong to the first change: they are written once, before anything else.
    if let Some(Change::Object { with: first, .. }) = changes.first_mut() {
        first.clone_from(&with);
    }
    Ok(changes)
}

pub(super) fn text(file: &Path) -> Result<String, Failure> {
    use std::io::Read as _;
    let failed = |error: std::io::Error| Failure::failed(format!("file {}", file.display()), &error);
    let reader: Box<dyn std::io::Read> =
        if file == Path::new("-") { Box::new(std::io::stdin()) } else { Box::new(std::fs::File::open(file).map_err(failed)?) };
    let mut text = String::new();
    reader.take(BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > BYTES {
        return Err(Failure::new(Exit::Failed, format!("file {}", file.display()), format!("has more than {BYTES} bytes")));
    }
    Ok(text)
}
