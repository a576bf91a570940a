//! The commands, one file each: parse, call, print.

pub mod apply_plan;
pub mod approve;
pub mod backup;
pub mod bundle;
pub mod catalog;
pub mod complete;
pub mod completion;
pub mod crd;
pub mod demo;
pub mod deploy;
pub mod describe;
pub mod down;
pub mod explain;
pub mod flags;
pub mod graph;
pub mod history;
pub mod image;
pub mod install;
pub mod list;
pub mod log_level;
pub mod plan;
pub mod rbac;
pub mod reference;
pub mod registry;
pub mod resolve;
pub mod restore;
pub mod rollback;
pub mod run;
pub mod status;
pub mod uninstall;
pub mod up;
pub mod upgrade;
pub mod version;
pub mod versions;
pub mod wait;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{self, Command};
use crate::dispatch::not_there;
use crate::errors::Failure;

/// Whether a command writes nothing but what is for its owner alone: data directories, caches, backups.
pub fn is_private(command: &Command) -> bool {
    matches!(
        command,
        Command::Up(_)
            | Command::Down(_)
            | Command::Status(_)
            | Command::Run(_)
            | Command::Backup(_)
            | Command::Restore(_)
            | Command::Demo(_)
            | Command::Registry(_)
    )
}

/// Runs a command.
pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Resolve(arguments) => resolve::run(&arguments),
        Command::Bundle(command) => bundle::run(command),
        Command::Crd(command) => crd::run(command),
        Command::Version(arguments) => version::run(&arguments),
        Command::Versions(command) => versions::run(command),
        Command::Catalog(command) => catalog::run(command),
        Command::Graph(arguments) => graph::run(&arguments),
        Command::Registry(command) => registry::run(command),
        Command::Opm(command) => mainstay_opm::run(command, args::opm),
        Command::Install(arguments) => install::run(&arguments),
        Command::Upgrade(arguments) => upgrade::run(&arguments),
        Command::Uninstall(arguments) => uninstall::run(&arguments),
        Command::List(arguments) => list::run(&arguments),
        Command::Describe(arguments) => describe::run(&arguments),
        Command::Rbac(arguments) => rbac::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::ApplyPlan(arguments) => apply_plan::run(&arguments),
        Command::Approve(arguments) => approve::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::History(arguments) => history::run(&arguments),
        Command::Rollback(arguments) => rollback::run(&arguments),
        Command::Wait(arguments) => wait::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Deploy(arguments) => deploy::run(&arguments),
        Command::Image(arguments) => image::run(&arguments),
        Command::Up(arguments) => up::run(&arguments),
        Command::Down(arguments) => down::run(&arguments),
        Command::LogLevel(arguments) => log_level::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Restore(arguments) => restore::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Completion(arguments) => completion::run(&arguments),
        Command::Reference(arguments) => reference::run(&arguments),
        Command::Complete(arguments) => complete::run(&arguments),
        Command::OperatorSdk(tool) => Err(not_there("operator-sdk", &tool.words, "bundles can be rendered and built with mainstay bundle")),
        Command::Operator(tool) => {
            Err(not_there("kubectl operator", &tool.words, "mainstay catalog, install, upgrade, uninstall, list and describe do this work"))
        }
        Command::Adm(tool) => {
            Err(not_there("adm", &tool.words, "operators are installed and upgraded with mainstay install and mainstay upgrade"))
        }
    }
}

/// How long ago, as kubectl writes it.
pub fn age(time: Option<&Time>) -> String {
    let Some(time) = time else { return String::new() };
    let seconds = jiff::Timestamp::now().as_second().saturating_sub(time.0.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Typed objects as a `List`, each with its kind, which lists of the API leave out.
pub fn with_kind<T: Serialize>(objects: &[T], api_version: &str, kind: &str) -> Result<Value, Failure> {
    let mut items = serde_json::to_value(objects).map_err(|error| Failure::failed(kind.to_lowercase(), &error))?;
    for item in items.as_array_mut().into_iter().flatten() {
        item["apiVersion"] = api_version.into();
        item["kind"] = kind.into();
    }
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": items}))
}
