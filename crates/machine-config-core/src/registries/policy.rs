//! policy.json: what images must be like, edited by lists of registries.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mainstay_golang::json::{self, Html};
use mainstay_golang::json_reader::{self, SyntaxError};
use serde_json::{Map, Value, json};

use super::payload::{SourceLists, repository};
use super::validate::{RuleError, SourceList, scopes};

/// Why policy.json cannot be made, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Two lists exclude each other.
    #[error("invalid images config: only one of AllowedRegistries or BlockedRegistries may be specified")]
    BothLists,
    /// The release image has no full reference.
    #[error("error parsing reference of release image")]
    Reference,
    /// An entry is no scope.
    #[error(transparent)]
    Scope(#[from] RuleError),
    /// The file before is no JSON.
    #[error("error decoding policy json: {0}")]
    Syntax(#[from] SyntaxError),
    /// The file before has another form.
    #[error("error decoding policy json: {0}")]
    Form(&'static str),
}

const TRANSPORTS: &str = "transports";
const DEFAULT: &str = "default";
/// The `atomic` transport knows no scopes with more parts.
const MOST_ATOMIC_SLASHES: usize = 2;

/// Returns the file with the lists in it. The file before is ours, made from templates: requirements are kept as they are.
///
/// # Errors
/// The lists exclude each other, an entry is no scope, or the file before has another form.
pub fn edit(base: &str, lists: &SourceLists, release_image: &str) -> Result<String, PolicyError> {
    let (allowed, blocked) = (&lists.allowed, &lists.policy_blocked);
    if !allowed.is_empty() && !blocked.is_empty() {
        let payload = repository(release_image).ok_or(PolicyError::Reference)?;
        if !matches!(allowed.as_slice(), [only] if only == payload) {
            return Err(PolicyError::BothLists);
        }
    }
    if allowed.is_empty() && blocked.is_empty() {
        return Ok(base.to_owned());
    }
    scopes(SourceList::Blocked, blocked)?;
    scopes(SourceList::Allowed, allowed)?;
    let (mut default, mut transports) = read(base)?;
    let requirement = |kind: &str| json!([{"type": kind}]);
    let mut scoped = BTreeMap::new();
    if !allowed.is_empty() {
        default = requirement("reject");
        scoped.extend(allowed.iter().map(|scope| (scope.clone(), requirement("insecureAcceptAnything"))));
    }
    if !blocked.is_empty() {
        default = requirement("insecureAcceptAnything");
        scoped.extend(blocked.iter().map(|scope| (scope.clone(), requirement("reject"))));
    }
    let atomic = scoped.iter().filter(|(scope, _)| scope.matches('/').count() <= MOST_ATOMIC_SLASHES);
    let atomic: Map<String, Value> = atomic.map(|(scope, requirement)| (scope.clone(), requirement.clone())).collect();
    transports.insert("docker".to_owned(), Value::Object(scoped.into_iter().collect()));
    transports.insert("atomic".to_owned(), Value::Object(atomic));
    let mut out = String::new();
    write(&mut out, &json!({DEFAULT: default, TRANSPORTS: transports}), 0);
    Ok(out)
}

fn read(base: &str) -> Result<(Value, Map<String, Value>), PolicyError> {
    let Value::Object(mut fields) = json_reader::parse_first(base.as_bytes())? else {
        return Err(PolicyError::Form("the file is no object"));
    };
    let default = fields.remove(DEFAULT).filter(|default| default.as_array().is_some_and(|all| !all.is_empty()));
    let default = default.ok_or(PolicyError::Form("default is missing, or no list of requirements"))?;
    let transports = match fields.remove(TRANSPORTS) {
        None => Map::new(),
        Some(Value::Object(transports)) => transports,
        Some(_) => return Err(PolicyError::Form("transports is no object")),
    };
    if fields.is_empty() { Ok((default, transports)) } else { Err(PolicyError::Form("there are fields that are not known")) }
}

/// Writes a value with two blanks a level, as `json.MarshalIndent` does.
fn write(out: &mut String, value: &Value, level: usize) {
    let (open, close, count) = match value {
        Value::Object(fields) => ('{', '}', fields.len()),
        Value::Array(items) => ('[', ']', items.len()),
        scalar => return out.push_str(&json::to_string(scalar, Html::Escaped)),
    };
    out.push(open);
    let item = |out: &mut String, index: usize, key: Option<&str>, value: &Value| {
        _ = write!(out, "{}\n{}", if index > 0 { "," } else { "" }, "  ".repeat(level + 1));
        if let Some(key) = key {
            json::write_string(out, key, Html::Escaped);
            out.push_str(": ");
        }
        write(out, value, level + 1);
    };
    match value {
        Value::Object(fields) => fields.iter().enumerate().for_each(|(index, (key, value))| item(out, index, Some(key), value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, value)| item(out, index, None, value)),
        _ => {}
    }
    if count > 0 {
        _ = write!(out, "\n{}", "  ".repeat(level));
    }
    out.push(close);
}
