//! All files that Image configuration and mirror rules ask for.

use super::conf::RegistriesConf;
use super::edit::WildcardMirrors;
use super::payload::{PayloadError, SourceLists, source_lists};
use super::policy::{self, PolicyError};
use super::rules::{MirrorRules, RegistrySources};
use super::validate::{self, RuleError, SourceList};
use crate::toml::ReadError;

/// Path of registries.conf.
pub const REGISTRIES_CONF: &str = "/etc/containers/registries.conf";
/// Path of policy.json.
pub const POLICY_JSON: &str = "/etc/containers/policy.json";
/// Path of the file with registries that are searched.
pub const SEARCH_DROP_IN: &str = "/etc/containers/registries.conf.d/01-image-searchRegistries.conf";

/// The objects that the files are made from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// The release image.
    pub release_image: String,
    /// Lists of the Image configuration.
    pub registries: RegistrySources,
    /// Mirror rules.
    pub rules: MirrorRules,
    /// registries.conf before.
    pub registries_conf: String,
    /// policy.json before.
    pub policy_json: String,
}

/// Why registries.conf cannot be made, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfError {
    /// The file before cannot be read.
    #[error("error unmarshalling registries config: {0}")]
    Base(#[from] ReadError),
    /// Rules cannot be used.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// Mirrors cannot be handed down.
    #[error(transparent)]
    Mirrors(#[from] WildcardMirrors),
}

/// The files, each where something asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The lists after the payload's rule.
    pub lists: SourceLists,
    /// Why the lists are not as they were asked for.
    pub lists_error: Option<PayloadError>,
    /// registries.conf.
    pub registries_conf: Option<Result<String, ConfError>>,
    /// policy.json.
    pub policy_json: Option<Result<String, PolicyError>>,
    /// The file with registries that are searched.
    pub search: Option<String>,
}

/// Makes the files.
pub fn files(sources: &Sources) -> Files {
    let (lists, lists_error) = source_lists(&sources.release_image, &sources.registries, &sources.rules);
    let asked = sources.registries.insecure_registries.is_some() || !lists.registries_blocked.is_empty() || sources.rules.exist;
    let has_policy = !lists.policy_blocked.is_empty() || !lists.allowed.is_empty();
    let search = sources.registries.container_runtime_search_registries.clone();
    Files {
        registries_conf: asked.then(|| registries_conf(sources, &lists.registries_blocked)),
        policy_json: has_policy.then(|| policy::edit(&sources.policy_json, &lists, &sources.release_image)),
        search: search.map(|search| RegistriesConf { search: Some(search), ..RegistriesConf::default() }.write()),
        lists,
        lists_error,
    }
}

fn registries_conf(sources: &Sources, blocked: &[String]) -> Result<String, ConfError> {
    let insecure = sources.registries.insecure_registries.as_deref().unwrap_or_default();
    let mut conf = RegistriesConf::read(&sources.registries_conf)?;
    validate::scopes(SourceList::Insecure, insecure)?;
    validate::scopes(SourceList::Blocked, blocked)?;
    validate::rules(sources.rules.digest.iter().chain(&sources.rules.tag))?;
    conf.edit(insecure, blocked, &sources.rules)?;
    Ok(conf.write())
}
