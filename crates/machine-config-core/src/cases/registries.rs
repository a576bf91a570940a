//! Recorded form `registries-conf`.

use serde_json::{Map, Value, json};

use super::{CaseError, answered, field, optional};
use crate::registries::files::{SEARCH_DROP_IN, Sources, files};
use crate::registries::rules::{MirrorRules, RegistrySources, RuleObject};

/// Answers which files Image configuration and mirror rules ask for.
pub fn registries_conf(line: &Value) -> Result<Value, CaseError> {
    let input: Value = field(line, "in")?;
    let objects = |name| optional::<Vec<RuleObject>>(&input, name);
    let sources = Sources {
        release_image: optional(&input, "releaseImage")?,
        registries: optional::<RegistrySources>(&input, "registrySources")?,
        rules: MirrorRules::of(objects("icsp")?, objects("idms")?, objects("itms")?),
        registries_conf: optional(&input, "base")?,
        policy_json: optional(&input, "basePolicy")?,
    };
    let files = files(&sources);
    let list = |list: &Vec<String>| if list.is_empty() { Value::Null } else { json!(list) };
    let mut out = Map::new();
    let mut set = |name: &str, value: Value| out.insert(name.to_owned(), value);
    set("registriesBlocked", list(&files.lists.registries_blocked));
    set("policyBlocked", list(&files.lists.policy_blocked));
    set("allowed", list(&files.lists.allowed));
    set("blockedError", json!(files.lists_error.map(|error| error.to_string())));
    match files.registries_conf {
        Some(Ok(text)) => _ = set("registriesConf", json!(text)),
        Some(Err(error)) => _ = set("registriesConfError", json!(error.to_string())),
        None => {}
    }
    match files.policy_json {
        Some(Ok(text)) => _ = set("policyJson", json!(text)),
        Some(Err(error)) => _ = set("policyError", json!(error.to_string())),
        None => {}
    }
    if let Some(text) = files.search {
        set("search", json!({SEARCH_DROP_IN: text}));
    }
    answered(line, Value::Object(out))
}
