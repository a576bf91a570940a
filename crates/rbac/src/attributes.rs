//! The question that rules answer: a user, a verb, and an object or URL.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The group whose members may do everything, regardless of the rules.
pub const MASTERS_GROUP: &str = "system:masters";
/// The group of every user who proved an identity.
pub const AUTHENTICATED_GROUP: &str = "system:authenticated";
/// The group of requests without credentials.
pub const UNAUTHENTICATED_GROUP: &str = "system:unauthenticated";
/// The user name of requests without credentials.
pub const ANONYMOUS_USER: &str = "system:anonymous";

/// An authenticated identity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct UserInfo {
    /// The user's name.
    #[serde(rename = "username", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// A unique id that outlives re-use of the name; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Groups, in the order the authenticator gave.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Further facts of the authenticator.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// A user of this name in these groups.
    pub fn new(name: impl Into<String>, groups: &[&str]) -> Self {
        Self { name: name.into(), groups: crate::rule::owned(groups), ..Self::default() }
    }

    /// The identity of a ServiceAccount, with the groups Kubernetes gives it.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            name: service_account_username(namespace, name),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                AUTHENTICATED_GROUP.to_owned(),
            ],
            ..Self::default()
        }
    }

    /// The identity of a request without credentials.
    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS_USER, &[UNAUTHENTICATED_GROUP])
    }

    /// Returns whether the user is a member of the group.
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// Returns whether the user needs no rule.
    pub fn is_master(&self) -> bool {
        self.in_group(MASTERS_GROUP)
    }
}

/// The user name of a ServiceAccount.
pub fn service_account_username(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// The namespace and name behind a ServiceAccount's user name.
pub fn split_service_account_username(username: &str) -> Option<(&str, &str)> {
    let (namespace, name) = username.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (is_label(namespace) && name.len() <= 253 && name.split('.').all(is_label_of_any_length)).then_some((namespace, name))
}

/// Returns whether the text can be the name of a namespace.
fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_label_of_any_length(text)
}

fn is_label_of_any_length(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte != b'-');
    text.bytes().all(inner) && edge(text.bytes().next()) && edge(text.bytes().last())
}

/// One question to the authorizer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The user who asks.
    pub user: UserInfo,
    /// `get`, `list`, ... for resources; the lower-case HTTP method otherwise.
    pub verb: String,
    /// The namespace, empty for cluster scope.
    pub namespace: String,
    /// The API group, empty for the core group.
    pub api_group: String,
    /// The API version; rules ignore it.
    pub api_version: String,
    /// The plural resource.
    pub resource: String,
    /// The subresource, empty for none.
    pub subresource: String,
    /// The object's name; empty if the request names none.
    pub name: String,
    /// True if this is about a resource; otherwise `path` counts.
    pub resource_request: bool,
    /// The URL path of a request that is not about a resource.
    pub path: String,
}

impl Attributes {
    /// A question about a resource.
    pub fn resource(user: UserInfo, verb: &str, namespace: &str, api_group: &str, resource: &str, name: &str) -> Self {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Self {
            user,
            verb: verb.to_owned(),
            namespace: namespace.to_owned(),
            api_group: api_group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            name: name.to_owned(),
            resource_request: true,
            ..Self::default()
        }
    }

    /// A question about a URL path.
    pub fn url(user: UserInfo, verb: &str, path: &str) -> Self {
        Self { user, verb: verb.to_owned(), path: path.to_owned(), ..Self::default() }
    }
}
