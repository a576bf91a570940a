//! Image configuration and mirror rules.

use serde::Deserialize;

/// When the source of a rule is contacted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum SourcePolicy {
    /// When no mirror has the image.
    #[default]
    AllowContactingSource,
    /// Never.
    NeverContactSource,
    /// Any other text, which means nothing and conflicts with everything.
    Other(String),
}

impl From<String> for SourcePolicy {
    fn from(text: String) -> Self {
        match text.as_str() {
            "" | "AllowContactingSource" => Self::AllowContactingSource,
            "NeverContactSource" => Self::NeverContactSource,
            _ => Self::Other(text),
        }
    }
}

/// Mirrors of one source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MirrorRule {
    /// The source.
    pub source: String,
    /// The mirrors, first to be tried first.
    pub mirrors: Vec<String>,
    /// When the source is contacted.
    pub policy: SourcePolicy,
}

/// All mirror rules of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MirrorRules {
    /// Rules for digests: those of ImageDigestMirrorSets, then those of ImageContentSourcePolicies.
    pub digest: Vec<MirrorRule>,
    /// Rules for tags, of ImageTagMirrorSets.
    pub tag: Vec<MirrorRule>,
    /// True if there is any object, even one without rules.
    pub exist: bool,
}

/// `spec.registrySources` of the Image configuration. A list that is there and empty is something else than none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistrySources {
    /// Registries without TLS, or with certificates that are not checked.
    pub insecure_registries: Option<Vec<String>>,
    /// Registries that nothing is pulled from.
    pub blocked_registries: Option<Vec<String>>,
    /// The only registries that something is pulled from.
    pub allowed_registries: Option<Vec<String>>,
    /// Registries in which short names are searched.
    pub container_runtime_search_registries: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RuleFields {
    source: String,
    mirrors: Option<Vec<String>>,
    mirror_source_policy: SourcePolicy,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SpecFields {
    #[serde(rename = "repositoryDigestMirrors")]
    content_sources: Option<Vec<RuleFields>>,
    #[serde(rename = "imageDigestMirrors")]
    digests: Option<Vec<RuleFields>>,
    #[serde(rename = "imageTagMirrors")]
    tags: Option<Vec<RuleFields>>,
}

/// An object with mirror rules of one kind: ImageContentSourcePolicy, ImageDigestMirrorSet or ImageTagMirrorSet.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct RuleObject {
    spec: SpecFields,
}

impl RuleFields {
    fn rule(self, policy: bool) -> MirrorRule {
        let policy = if policy { self.mirror_source_policy } else { SourcePolicy::default() };
        MirrorRule { source: self.source, mirrors: self.mirrors.unwrap_or_default(), policy }
    }
}

impl MirrorRules {
    /// Gathers the rules of all objects.
    pub fn of(policies: Vec<RuleObject>, digest_sets: Vec<RuleObject>, tag_sets: Vec<RuleObject>) -> Self {
        let exist = !(policies.is_empty() && digest_sets.is_empty() && tag_sets.is_empty());
        let all = |objects: Vec<RuleObject>, of: fn(SpecFields) -> Option<Vec<RuleFields>>, policy: bool| {
            objects.into_iter().flat_map(move |object| of(object.spec).unwrap_or_default()).map(move |fields| fields.rule(policy))
        };
        let digest = all(digest_sets, |spec| spec.digests, true).chain(all(policies, |spec| spec.content_sources, false));
        Self { digest: digest.collect(), tag: all(tag_sets, |spec| spec.tags, true).collect(), exist }
    }
}
