//! Questions about MachineConfigs and Butane configs.

use super::{CaseError, answered, field};
use mainstay_ignition::butane::{self, NoFiles, Options};
use serde_json::{Map, Value, json};

use crate::difference::{self, difference, ignition_of};
use crate::disruption::{self, Drain, RegistryDrain, legacy_action, legacy_drain};
use crate::machine_config::{ControllerConfig, MachineConfig, MachineConfigSpec, ROLE};
use crate::merge::{self, render};
use crate::name::rendered_name;
use crate::policy::{self, Policies};
use crate::registries_conf::{self, RegistriesError};
use crate::validate::validate;
use crate::{kernel_arguments, reconcilable};

fn machine_config(value: &Value, field: &str) -> Result<MachineConfig, CaseError> {
    let failed = |inner: &'static str| move |source| CaseError::Field { field: format!("{field}.{inner}"), source };
    let spec = value.get("spec").unwrap_or(&Value::Null);
    let spec = serde_json::from_value::<MachineConfigSpec>(spec.clone()).map_err(failed("spec"))?;
    let name = serde_json::from_value::<String>(value["name"].clone()).map_err(failed("name"))?;
    let role = serde_json::from_value::<Option<String>>(value["role"].clone()).map_err(failed("role"))?;
    let labels = role.map(|role| [(ROLE.to_owned(), role)].into());
    Ok(MachineConfig { name, labels, spec })
}

fn pair(line: &Value) -> Result<(MachineConfig, MachineConfig), CaseError> {
    let side = |field: &str| machine_config(line.get(field).unwrap_or(&Value::Null), field);
    Ok((side("old")?, side("new")?))
}

/// A result's error as text, null if there is none.
fn error_text<T, E: std::fmt::Display>(result: &Result<T, E>) -> Value {
    result.as_ref().err().map_or(Value::Null, |error| Value::String(error.to_string()))
}

/// Answers a line of the recorded form `merge`.
pub fn merge(line: &Value) -> Result<Value, CaseError> {
    let pool: String = field(line, "pool")?;
    let controller: ControllerConfig = field(line, "controllerConfig")?;
    let configs: Option<Vec<Value>> = field(line, "configs")?;
    let Some(configs) = configs.filter(|configs| !configs.is_empty()) else {
        return answered(line, json!({"validate": null, "mergeError": null}));
    };
    let configs = configs.iter().enumerate().map(|(index, config)| machine_config(config, &format!("configs[{index}]")));
    let configs: Vec<MachineConfig> = configs.collect::<Result<_, _>>()?;
    let validate: Vec<Value> = configs.iter().map(|config| error_text(&validate(&config.spec))).collect();
    let merged = merge::merge(&configs, &controller);
    let rendered = render(&pool, &configs, &controller);
    let mut out = Map::from_iter([
        ("validate".to_owned(), Value::Array(validate)),
        ("mergeError".to_owned(), error_text(&merged)),
        ("renderError".to_owned(), error_text(&rendered)),
    ]);
    if let Ok(Some(spec)) = merged {
        out.insert("name".to_owned(), rendered_name(&pool, &spec).into());
        out.insert("merged".to_owned(), json!(spec));
    }
    if let Ok(Some(rendered)) = rendered {
        out.insert("osImageURLOverridden".to_owned(), rendered.os_image_overridden.into());
    }
    answered(line, Value::Object(out))
}

/// Answers a line of the recorded form `reconcilable`.
pub fn reconcilable(line: &Value) -> Result<Value, CaseError> {
    let (old, new) = pair(line)?;
    let mut out = json!({
        "error": error_text(&reconcilable::check(&old, &new)),
        "kargs": kernel_arguments::options(&old.spec.kernel_arguments, &new.spec.kernel_arguments),
    });
    match difference(&old, &new) {
        Ok(difference) => {
            out["diff"] = json!(difference);
            out["osChanges"] = difference.os_changes().into();
        }
        Err(error) => out["diffError"] = error.to_string().into(),
    }
    answered(line, out)
}

/// Answers a line of the recorded form `disruption`.
pub fn disruption(line: &Value) -> Result<Value, CaseError> {
    let (old, new) = pair(line)?;
    let user: Option<Policies> = field(line, "policy")?;
    let user = user.unwrap_or_default();
    let policies = policy::merged(&user);
    let difference = match difference(&old, &new) {
        Ok(difference) => difference,
        Err(error) => return answered(line, json!({"diffError": error.to_string()})),
    };
    let (Ok(old_ignition), Ok(new_ignition)) = (ignition_of(&old), ignition_of(&new)) else {
        // Both were read a moment ago.
        return answered(line, Value::Null);
    };
    let (files, units) = (difference::files(&old_ignition, &new_ignition), difference::units(&old_ignition, &new_ignition));
    let registries = registries_conf::check(&old_ignition, &new_ignition);
    let legacy = legacy_action(&difference, &files);
    let actions = disruption::actions(&difference, &files, &units, &policies);
    let overrides = |name: &str, drain: &dyn Fn(RegistryDrain) -> Result<Drain, RegistriesError>, actions: Value| {
        let verdict = |registries| {
            let drain = drain(registries);
            json!({"drain": drain.as_ref().is_ok_and(Drain::is_needed), "error": error_text(&drain)})
        };
        let answers = json!({
            "actions": actions,
            "drainOverridefalse": verdict(RegistryDrain::AsNeeded),
            "drainOverridetrue": verdict(RegistryDrain::Overridden),
        });
        (name.to_owned(), answers)
    };
    let legacy_drain = |registries| legacy_drain(legacy, &files, &old_ignition, &new_ignition, registries);
    let policy_drain = |registries| disruption::drain(&actions, &old_ignition, &new_ignition, registries);
    let mut out = json!({
        "diff": difference,
        "files": files,
        "units": units,
        "reconcilable": error_text(&reconcilable::check(&old, &new)),
        "registriesError": error_text(&registries),
        "registriesSafe": matches!(registries, Ok(None)),
    });
    let verdicts = [overrides("legacy", &legacy_drain, json!([legacy.to_string()])), overrides("policy", &policy_drain, json!(actions))];
    if let Value::Object(out) = &mut out {
        out.extend(verdicts);
        // Records show the policies only where a user has some.
        if user != Policies::default() {
            out.insert("mergedPolicies".to_owned(), json!(policies));
        }
    }
    answered(line, out)
}

/// Answers a line of the recorded form `butane`. No file beside the config is read.
pub fn butane(line: &Value) -> Result<Value, CaseError> {
    let text: String = field(line, "in")?;
    let flags: Option<Vec<String>> = field(line, "flags")?;
    let flags = flags.unwrap_or_default();
    let has = |names: [&str; 2]| flags.iter().any(|flag| names.contains(&flag.as_str()));
    let options = Options {
        pretty: has(["--pretty", "-p"]),
        raw: has(["--raw", "-r"]),
        strict: has(["--strict", "-s"]),
        check: has(["--check", "-c"]),
    };
    let answer = butane::answer(&text, options, &NoFiles);
    answered(line, json!({ "rc": answer.status, "stdout": answer.stdout, "stderr": answer.stderr }))
}
