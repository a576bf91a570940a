//! Questions and answers in the form of the records of upstream's answers: one JSON object an input, one an answer.

mod bundle;
mod facts;
mod world;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::resolve::{self, ResolveError, Resolved, ResolvedSteps};
use crate::source::SourceKey;
use crate::steps::{self, Step};

pub use bundle::{BundleCaseError, deployments, permissions, plan};
pub use facts::{install_modes, intersection, maximum_platform, overridden, rule_satisfied};
pub use world::{InvalidCase, snapshot};

/// The answers `resolve` and `steps` for a world.
pub fn resolution(input: &Value) -> Result<Value, InvalidCase> {
    let snapshot = snapshot(input)?;
    let resolved = match resolve::resolve(&snapshot) {
        Ok(resolved) => {
            let mut install: Vec<Value> = resolved.iter().map(bundle).collect();
            install.sort_by_cached_key(|one| one["bundle"].as_str().unwrap_or_default().to_owned());
            json!({"install": install})
        }
        Err(error) => failure(&error),
    };
    let steps = match resolve::resolve_steps(&snapshot) {
        Ok(found) => contents(&found),
        Err(error) => failure(&error),
    };
    Ok(json!({"resolve": resolved, "steps": steps}))
}

fn bundle(bundle: &Resolved) -> Value {
    json!({
        "bundle": bundle.name, "version": bundle.version.as_ref().map_or_else(String::new, ToString::to_string),
        "package": bundle.package, "channel": bundle.channel, "catalog": key(&bundle.catalog),
        "defaultChannel": bundle.default_channel, "replaces": bundle.replaces, "startingCSV": bundle.starting_csv,
    })
}

fn key(key: &SourceKey) -> Value {
    json!({"name": key.name, "namespace": key.namespace})
}

fn failure(error: &ResolveError) -> Value {
    let text = error.to_string();
    match error {
        ResolveError::Unsatisfiable(conflict) => json!({"errorKind": "unsatisfiable", "constraints": conflict.found, "error": text}),
        ResolveError::Several(problems) => {
            let mut errors: Vec<String> = problems.iter().map(ToString::to_string).collect();
            errors.sort();
            json!({"errorKind": "aggregate", "errors": errors, "error": text})
        }
        ResolveError::One(_) | ResolveError::Undecided(_) => json!({"errorKind": "other", "error": text}),
    }
}

fn contents(found: &ResolvedSteps) -> Value {
    let lookups = found.lookups.iter().map(|lookup| {
        json!({
            "path": lookup.path, "identifier": lookup.identifier, "replaces": lookup.replaces,
            "catalogSourceRef": key(&lookup.catalog), "properties": lookup.properties,
        })
    });
    let updated = found.updated.iter().map(|one| json!({"name": one.name, "currentCSV": one.current_csv}));
    let mut steps: Vec<Value> = found.steps.iter().map(step).collect();
    // They are a set; the records have it in this order.
    let text = |step: &Value, field: &str| step[field].as_str().unwrap_or_default().to_owned();
    steps.sort_by_cached_key(|step| text(step, "resolving") + &text(step, "kind") + &text(step, "name"));
    let (mut lookups, mut updated): (Vec<Value>, Vec<Value>) = (lookups.collect(), updated.collect());
    lookups.sort_by_cached_key(|one| one["identifier"].to_string());
    updated.sort_by_cached_key(|one| one["name"].to_string());
    json!({"steps": steps, "bundleLookups": lookups, "updatedSubscriptions": updated})
}

fn step(step: &Step) -> Value {
    // What a step writes is JSON.
    let manifest: Value = serde_json::from_str(&step.manifest).unwrap_or_default();
    json!({
        "resolving": step.resolving, "kind": step.kind, "group": step.group, "version": step.version, "name": step.name,
        "catalogSource": step.catalog.name, "catalogSourceNamespace": step.catalog.namespace, "status": steps::UNKNOWN,
        "manifestSHA256": sha256(&manifest), "manifest": manifest,
    })
}

/// SHA-256 of canonical JSON: sorted keys, no blanks, no escapes for HTML.
pub fn sha256(value: &Value) -> String {
    hex(&Sha256::digest(mainstay_bundle::go::to_plain_string_as("", value).as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}
