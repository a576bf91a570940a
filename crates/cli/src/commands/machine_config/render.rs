//! `mainstay machine-config render`: the MachineConfigs of a pool as one (MACH-MC-02, MACH-MC-03, MACH-NODE-14).

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mainstay_machine_config_core::machine_config::{ControllerConfig, MachineConfig, WORKER};
use mainstay_machine_config_core::merge::{Rendered, render};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::files::{Placed, objects};

/// Arguments of `machine-config render`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay machine-config render machine-configs/
  mainstay machine-config render 50-motd.yaml 99-worker-ssh.yaml --pool worker -o json
  mainstay machine-config render machine-configs/ --pool infra -o ignition

MachineConfigs are taken by their label machineconfiguration.openshift.io/role: those of the pool, and for a custom pool those of worker before
them. The images of a ControllerConfig among the files are the ones of the release. Objects of other kinds are left out.

Exit codes: 0 done, 1 bad input.")]
pub struct Render {
    /// Files with MachineConfigs, or folders of such files
    #[arg(required = true, value_name = "DIR|FILE")]
    paths: Vec<PathBuf>,
    /// The pool
    #[arg(long, default_value = WORKER, value_name = "POOL")]
    pool: String,
    /// The form of the result
    #[arg(short, long, value_enum, default_value = "yaml", value_name = "FORMAT")]
    output: Form,
}

/// The form of a rendered MachineConfig.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    /// The MachineConfig as YAML
    Yaml,
    /// The MachineConfig as JSON
    Json,
    /// Its Ignition config alone
    Ignition,
}

pub(super) fn run(arguments: &Render) -> Result<(), Failure> {
    let found = objects(&arguments.paths)?;
    let mut configs = Vec::new();
    let mut places = Vec::new();
    for placed in found.iter().filter(|placed| placed.kind() == "MachineConfig") {
        let config = placed.machine_config()?;
        if belongs(&config, &arguments.pool) {
            places.push((config.name.clone(), placed.place()));
            configs.push(config);
        }
    }
    let subject = format!("pool {}", arguments.pool);
    let rendered = render(&arguments.pool, &configs, &controller(&found)?).map_err(|error| {
        let place = error.config().and_then(|config| places.iter().find(|(name, _)| name == config));
        let subject = place.map_or_else(|| subject.clone(), |(name, place)| format!("{place}: machineconfig {name}"));
        Failure::failed(subject, &error)
    })?;
    let Some(rendered) = rendered else {
        let message = format!("no MachineConfig of {} has the role {}", arguments_of(&arguments.paths), arguments.pool);
        return Err(Failure::new(Exit::Failed, subject, message));
    };
    match arguments.output {
        Form::Yaml => output::yaml(&[object(&arguments.pool, &rendered)]),
        Form::Json => output::json(&format!("{:#}\n", object(&arguments.pool, &rendered))),
        Form::Ignition => output::json(&format!("{}\n", rendered.spec.ignition.unwrap_or_default())),
    }
}

fn arguments_of(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Returns whether a pool takes a MachineConfig: its own, and a custom one those of workers.
fn belongs(config: &MachineConfig, pool: &str) -> bool {
    let is_custom = !matches!(pool, "master" | "arbiter");
    config.role().is_some_and(|role| role == pool || is_custom && role == WORKER)
}

/// The images of the ControllerConfig among the objects; none if there is none.
fn controller(found: &[Placed]) -> Result<ControllerConfig, Failure> {
    let Some(placed) = found.iter().find(|placed| placed.kind() == "ControllerConfig") else { return Ok(ControllerConfig::default()) };
    let spec = placed.object.get("spec").filter(|spec| !spec.is_null());
    let Some(spec) = spec else { return Ok(ControllerConfig::default()) };
    ControllerConfig::deserialize(spec).map_err(|error| Failure::failed(format!("{}: spec", placed.place()), &error))
}

fn object(pool: &str, rendered: &Rendered) -> Value {
    let mut object = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"name": rendered.name, "labels": {"machineconfiguration.openshift.io/role": pool}},
        "spec": rendered.spec.to_object(),
    });
    if rendered.os_image_overridden {
        object["metadata"]["annotations"] = json!({"machineconfiguration.openshift.io/os-image-url-overridden": "true"});
    }
    object
}
