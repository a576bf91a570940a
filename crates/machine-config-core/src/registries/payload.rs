//! The release's own repository is never blocked, unless a mirror can stand for it.

use mainstay_golang::quoted_list;

use super::conf::{DIGEST_ONLY, RegistriesConf, Registry, TAG_ONLY};
use super::edit::WildcardMirrors;
use super::reference::Reference;
use super::rules::{MirrorRules, RegistrySources};
use super::scope::is_inside;

/// The lists after the rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceLists {
    /// What registries.conf blocks.
    pub registries_blocked: Vec<String>,
    /// What policy.json rejects.
    pub policy_blocked: Vec<String>,
    /// What policy.json accepts.
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
    #[error("rewriting reference: {0} is no reference of an image")]
    Rewritten(String),
}

/// Returns the lists, and why they are not as they were asked for.
pub fn source_lists(release_image: &str, sources: &RegistrySources, rules: &MirrorRules) -> (SourceLists, Option<PayloadError>) {
    let Some(payload) = Reference::full(release_image) else {
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
    Reference::full(release_image).map(|payload| payload.name)
}

/// Returns whether the release could be pulled from somewhere that is not blocked.
fn has_unblocked_mirror(payload: &Reference<'_>, sources: &RegistrySources, rules: &MirrorRules) -> Result<bool, PayloadError> {
    let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    let (insecure, blocked) = (list(&sources.insecure_registries), list(&sources.blocked_registries));
    let mut conf = RegistriesConf::default();
    let digest_rules = MirrorRules { tag: Vec::new(), ..rules.clone() };
    conf.edit(&insecure, &blocked, &digest_rules)?;
    let Some(registry) = found(&conf, payload.name) else { return Ok(false) };
    for place in places(registry, payload)? {
        let Some(place) = Reference::full(&place) else { return Err(PayloadError::Rewritten(place)) };
        if !blocked.iter().any(|scope| is_inside(place.name, scope)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The entry with the longest scope that a name lies in; of entries with one scope, the first.
fn found<'a>(conf: &'a RegistriesConf, name: &str) -> Option<&'a Registry> {
    let mut found: Option<&Registry> = None;
    for registry in conf.registries.iter().flatten() {
        let scope = registry.scope().trim_end_matches('/');
        let longer = found.is_none_or(|found| scope.len() > found.scope().trim_end_matches('/').len());
        if longer && prefix_length(name, scope).is_some() {
            found = Some(registry);
        }
    }
    found
}

/// The references of the release at the mirrors and at the source, in the order of trying.
fn places(registry: &Registry, payload: &Reference<'_>) -> Result<Vec<String>, PayloadError> {
    let unfit = if payload.digested { TAG_ONLY } else { DIGEST_ONLY };
    let mirrors = registry.mirrors.iter().filter(|mirror| mirror.pull_from_mirror != unfit);
    let length = prefix_length(payload.text, registry.scope().trim_end_matches('/'));
    let length = length.ok_or_else(|| PayloadError::Rewritten(payload.text.to_owned()))?;
    let rest = &payload.text[length..];
    let place = |location: &str| if location.is_empty() { payload.text.to_owned() } else { format!("{location}{rest}") };
    Ok(mirrors.chain([&registry.endpoint]).map(|endpoint| place(&endpoint.location)).collect())
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
