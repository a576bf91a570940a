//! One rule of a Role or ClusterRole, and its matching of requests.

use serde::{Deserialize, Deserializer, Serialize};

use crate::Attributes;

/// The wildcard of verbs, API groups, resources and non-resource URLs.
pub const ALL: &str = "*";

/// A set of permissions: every verb on every combination of the listed groups, resources and names, or on the listed URL paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PolicyRule {
    /// Verbs, or `*`.
    #[serde(default, deserialize_with = "null_as_empty")]
    pub verbs: Vec<String>,
    /// API groups, `""` for the core group, or `*`.
    #[serde(rename = "apiGroups", default, deserialize_with = "null_as_empty", skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// Resources, `resource/subresource`, `*/subresource`, or `*`.
    #[serde(default, deserialize_with = "null_as_empty", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Object names; empty means every name.
    #[serde(rename = "resourceNames", default, deserialize_with = "null_as_empty", skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// URL paths outside resources; a trailing `*` matches every continuation.
    #[serde(rename = "nonResourceURLs", default, deserialize_with = "null_as_empty", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

fn null_as_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::<Vec<String>>::deserialize(deserializer)?.unwrap_or_default())
}

impl PolicyRule {
    /// A rule about resources.
    pub fn resources(verbs: &[&str], api_groups: &[&str], resources: &[&str]) -> Self {
        Self { verbs: owned(verbs), api_groups: owned(api_groups), resources: owned(resources), ..Self::default() }
    }

    /// A rule about URL paths outside resources.
    pub fn urls(verbs: &[&str], urls: &[&str]) -> Self {
        Self { verbs: owned(verbs), non_resource_urls: owned(urls), ..Self::default() }
    }

    /// The same rule restricted to objects of these names.
    #[must_use]
    pub fn named(mut self, names: &[&str]) -> Self {
        self.resource_names = owned(names);
        self
    }

    /// Returns whether this rule alone allows the request.
    pub fn allows(&self, request: &Attributes) -> bool {
        if !self.matches_verb(&request.verb) {
            return false;
        }
        if request.resource_request {
            self.matches_api_group(&request.api_group)
                && self.matches_resource(&request.resource, &request.subresource)
                && self.matches_name(&request.name)
        } else {
            self.matches_url(&request.path)
        }
    }

    /// Returns whether the verb is listed.
    pub fn matches_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == ALL || v == verb)
    }

    /// Returns whether the API group is listed.
    pub fn matches_api_group(&self, group: &str) -> bool {
        self.api_groups.iter().any(|g| g == ALL || g == group)
    }

    /// Returns whether the resource (with its subresource, empty for none) is listed.
    pub fn matches_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|listed| {
            if listed == ALL {
                return true;
            }
            if subresource.is_empty() {
                return listed == resource;
            }
            match listed.split_once('/') {
                Some((parent, sub)) => sub == subresource && (parent == resource || parent == ALL),
                None => false,
            }
        })
    }

    /// Returns whether the object's name is allowed; a rule without names allows every name, and a request without one.
    pub fn matches_name(&self, name: &str) -> bool {
        self.resource_names.is_empty() || self.resource_names.iter().any(|n| n == name)
    }

    /// Returns whether the URL path is listed.
    pub fn matches_url(&self, path: &str) -> bool {
        self.non_resource_urls.iter().any(|listed| url_covers(listed, path))
    }
}

/// Returns whether an owner's URL pattern covers the other path or pattern.
pub(crate) fn url_covers(owner: &str, path: &str) -> bool {
    owner == path || (owner.ends_with('*') && path.starts_with(owner.trim_end_matches('*')))
}

pub(crate) fn owned(list: &[&str]) -> Vec<String> {
    list.iter().map(|s| (*s).to_owned()).collect()
}
