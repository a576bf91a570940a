//! The release's own repository is never blocked, unless a mirror can stand for it.

use mainstay_golang::quoted_list;

use super::conf::{DIGEST_ONLY, RegistriesConf, Registry, TAG_ONLY};
use super::edit::WildcardMirrors;
use super::reference::{Reference, ReferenceError};
use super::rules::{MirrorRules, RegistrySources};
use super::scope::is_inside;

/// The lists after the rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceLists {
    /// The registries that registries.conf blocks.
    pub registries_blocked: Vec<String>,
    /// The registries that policy.json rejects.
    pub policy_blocked: Vec<String>,
    /// The registries that policy.json accepts.
    pub allowed: Vec<String>,
}

/// Why lists are not as they were asked for, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The release image has no full reference; nothing is blocked and nothing allowed.
    #[error("error parsing reference of release image")]
    Reference,
    /// These are left out of the lists.
    #[error("error adding {} to blocked registries, cannot block the repository being used by the payload", quoted_list(.0))]
    Blocked(Vec<String>),
    /// The mirrors of the release cannot be found out.
    #[error(transparent)]
    Mirrors(#[from] WildcardMirrors),
    /// A mirror of the release is no place for it.
    #[error("rewriting reference: {0}")]
    Rewritten(#[from] ReferenceError),
    /// Rules make a file that cannot be read.
    #[error("loading registries configuration: {0}")]
    Unreadable(&'static str),
}

/// Returns the lists, and why they are not as they were asked for.
pub fn source_lists(release_image: &str, sources: &RegistrySources, rules: &MirrorRules) -> (SourceLists, Option<PayloadError>) {
    let Ok(payload) = Reference::full(release_image) else {
        return (SourceLists::default(), Some(PayloadError::Reference));
    };
    let mut lists = SourceLists::default();
    let mut refused = Vec::new();
    for scope in sources.blocked_registries.iter().flatten() {
        if !is_inside(payload.name, scope) {
            lists.registries_blocked.push(scope.clone());
            lists.policy_blocked.push(scope.clone());
            continue;
        }
        match has_unblocked_mirror(&payload, sources, rules) {
            Ok(true) => {}
            Ok(false) => {
                refused.push(scope.clone());
                continue;
            }
            Err(error) => return (SourceLists::default(), Some(error)),
        }
        lists.registries_blocked.push(scope.clone());
        // Other repositories in the scope stay rejected.
        if payload.name != scope {
            lists.policy_blocked.push(scope.clone());
        }
        lists.allowed.push(payload.name.to_owned());
    }
    lists.allowed.extend(sources.allowed_registries.iter().flatten().cloned());
    (lists, (!refused.is_empty()).then_some(PayloadError::Blocked(refused)))
}

/// Returns the registry and repository of a release image, if its reference is full.
pub(super) fn repository(release_image: &str) -> Option<&str> {
    Reference::full(release_image).ok().map(|payload| payload.name)
}

/// Returns whether the release could be pulled from somewhere that is not blocked.
fn has_unblocked_mirror(payload: &Reference<'_>, sources: &RegistrySources, rules: &MirrorRules) -> Result<bool, PayloadError> {
    let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    let (insecure, blocked) = (list(&sources.insecure_registries), list(&sources.blocked_registries));
    let mut conf = RegistriesConf::default();
    let digest_rules = MirrorRules { tag: Vec::new(), ..rules.clone() };
    conf.edit(&insecure, &blocked, &digest_rules)?;
    check(&conf)?;
    let Some(registry) = found(&conf, payload.name) else { return Ok(false) };
    let places = places(registry, payload)?;
    let places = places.iter().map(|place| Reference::full(place)).collect::<Result<Vec<_>, _>>()?;
    Ok(places.iter().any(|place| !blocked.iter().any(|scope| is_inside(place.name, scope))))
}

/// Checks what readers of the file check, as far as rules can break it.
fn check(conf: &RegistriesConf) -> Result<(), PayloadError> {
    for registry in conf.registries.iter().flatten() {
        if registry.scope().trim_end_matches('/').is_empty() {
            return Err(PayloadError::Unreadable("invalid condition: both location and prefix are unset"));
        }
        if registry.mirrors.iter().any(|mirror| mirror.location.trim_end_matches('/').is_empty()) {
            return Err(PayloadError::Unreadable("invalid condition: mirror location is unset"));
        }
    }
    Ok(())
}

/// The entry with the longest scope that a name lies in; of several, the first by name.
fn found<'a>(conf: &'a RegistriesConf, name: &str) -> Option<&'a Registry> {
    let scope = |registry: &'a Registry| registry.scope().trim_end_matches('/');
    let mut registries: Vec<&Registry> = conf.registries.iter().flatten().collect();
    registries.sort_by(|one, other| scope(other).len().cmp(&scope(one).len()).then_with(|| scope(one).cmp(scope(other))));
    registries.into_iter().find(|registry| prefix_length(name, scope(registry)).is_some())
}

/// The references of the release at the mirrors and at the source, in the order of trying.
fn places(registry: &Registry, payload: &Reference<'_>) -> Result<Vec<String>, PayloadError> {
    let unfit = if payload.digested { TAG_ONLY } else { DIGEST_ONLY };
    let mirrors = registry.mirrors.iter().filter(|mirror| mirror.pull_from_mirror != unfit).map(|mirror| mirror.location.as_str());
    let length = prefix_length(payload.text, registry.scope().trim_end_matches('/')).ok_or(ReferenceError::Format)?;
    let rest = &payload.text[length..];
    let place = |location: &str| if location.is_empty() { payload.text.to_owned() } else { format!("{location}{rest}") };
    Ok(mirrors.chain([registry.endpoint.location.trim_end_matches('/')]).map(place).collect())
}

/// The length of the part of a reference that a scope covers.
fn prefix_length(reference: &str, scope: &str) -> Option<usize> {
    let length = match scope.strip_prefix('*').filter(|domain| domain.starts_with('.')) {
        Some(domain) => reference.find(domain).filter(|at| !reference[..*at].contains('/'))? + domain.len(),
        None => reference.starts_with(scope).then_some(scope.len())?,
    };
    let rest = &reference[length..];
    (length > 0 && (rest.is_empty() || rest.starts_with([':', '/', '@']))).then_some(length)
}
