//! Acting as someone else: `Impersonate-User` and its companions, each allowed by the verb `impersonate` (KAPI-AUTH-02).

use std::fmt::Write as _;

use http::HeaderMap;
use mainstay_rbac::{
    ANONYMOUS_USER, AUTHENTICATED_GROUP, Attributes, RoleView, UNAUTHENTICATED_GROUP, UserInfo, split_service_account_username,
};

use super::authz::require;
use crate::error::{ApiError, Result};
use crate::request::percent_decode;

const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";
const EXTRA_PREFIX: &str = "impersonate-extra-";

/// The user as whom the request is served; `None` if it asks for no other.
pub fn impersonate<V: RoleView + ?Sized>(view: &V, requestor: &UserInfo, headers: &HeaderMap) -> Result<Option<UserInfo>> {
    let wanted = Wanted::read(headers);
    if wanted.user.is_empty() {
        return if wanted.is_empty() { Ok(None) } else { Err(wanted.without_user()) };
    }
    let may = |group: &str, resource: &str, namespace: &str, name: &str| {
        require(view, &Attributes::resource(requestor.clone(), "impersonate", namespace, group, resource, name))
    };
    let mut user = UserInfo { name: wanted.user.clone(), ..UserInfo::default() };
    match split_service_account_username(&wanted.user) {
        Some((namespace, name)) => {
            may("", "serviceaccounts", namespace, name)?;
            if wanted.groups.is_empty() {
                user.groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
            }
        }
        None => may("", "users", "", &wanted.user)?,
    }
    for group in wanted.groups {
        may("", "groups", "", &group)?;
        user.groups.push(group);
    }
    for (key, value) in wanted.extra {
        may(AUTHENTICATION_GROUP, &format!("userextras/{key}"), "", &value)?;
        user.extra.entry(key).or_default().push(value);
    }
    if !wanted.uid.is_empty() {
        may(AUTHENTICATION_GROUP, "uids", "", &wanted.uid)?;
        user.uid = wanted.uid;
    }
    complete_groups(&mut user);
    Ok(Some(user))
}

/// Adds the group that says whether an identity was proven, unless it is there.
pub(super) fn complete_groups(user: &mut UserInfo) {
    if !user.in_group(AUTHENTICATED_GROUP) && !user.in_group(UNAUTHENTICATED_GROUP) {
        let group = if user.name == ANONYMOUS_USER { UNAUTHENTICATED_GROUP } else { AUTHENTICATED_GROUP };
        user.groups.push(group.to_owned());
    }
}

struct Wanted {
    user: String,
    groups: Vec<String>,
    extra: Vec<(String, String)>,
    uid: String,
}

impl Wanted {
    fn read(headers: &HeaderMap) -> Self {
        let all = |name: &str| -> Vec<String> {
            let values = headers.get_all(name).iter();
            values.map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned()).collect()
        };
        let first = |name: &str| all(name).into_iter().next().unwrap_or_default();
        let extra = headers.iter().filter_map(|(name, value)| {
            let key = name.as_str().strip_prefix(EXTRA_PREFIX)?;
            Some((percent_decode(key).to_lowercase(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        });
        Self { user: first("impersonate-user"), groups: all("impersonate-group"), extra: extra.collect(), uid: first("impersonate-uid") }
    }

    fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.extra.is_empty() && self.uid.is_empty()
    }

    /// The error prints the requested references as Go prints structs: kind, namespace, name, uid, apiVersion, resourceVersion,
    /// fieldPath.
    fn without_user(&self) -> ApiError {
        let mut list = String::new();
        let mut add = |kind: &str, name: &str, version: &str, field: &str| {
            let gap = if list.is_empty() { "" } else { " " };
            let _ = write!(list, "{gap}{{{kind}  {name}  {version}  {field}}}");
        };
        for group in &self.groups {
            add("Group", group, "", "");
        }
        for (key, value) in &self.extra {
            add("UserExtra", value, "authentication.k8s.io/v1", key);
        }
        if !self.uid.is_empty() {
            add("UID", &self.uid, "authentication.k8s.io/v1", "");
        }
        ApiError::bad_request(format!("requested [{list}] without impersonating a user"))
    }
}
