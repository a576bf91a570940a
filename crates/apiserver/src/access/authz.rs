//! From a request to a question for the policy, and from a denial to a 403.

use http::StatusCode;
use mainstay_rbac::{Attributes, RoleView, UserInfo, authorize, forbidden_message};

use crate::error::{ApiError, Details, Result};
use crate::request::RequestInfo;

/// The question that a request asks.
pub fn attributes(user: &UserInfo, info: &RequestInfo) -> Attributes {
    Attributes {
        user: user.clone(),
        verb: info.verb.clone(),
        namespace: info.namespace.clone(),
        api_group: info.group.clone(),
        api_version: info.version.clone(),
        resource: info.resource.clone(),
        subresource: info.subresource.clone(),
        name: info.name.clone(),
        resource_request: info.is_resource,
        path: info.path.clone(),
    }
}

/// The 403 of a denied request (KAPI-AUTHZ-03).
pub fn forbidden(request: &Attributes, reason: &str) -> ApiError {
    let details = if request.resource_request {
        Details { name: request.name.clone(), group: request.api_group.clone(), kind: request.resource.clone(), ..Details::default() }
    } else {
        Details::default()
    };
    ApiError { details: Some(details), ..ApiError::new(StatusCode::FORBIDDEN, "Forbidden", forbidden_message(request, reason)) }
}

/// Nothing, or the 403.
pub fn require<V: RoleView + ?Sized>(view: &V, request: &Attributes) -> Result<()> {
    let decision = authorize(view, request);
    if decision.allowed { Ok(()) } else { Err(forbidden(request, &decision.reason)) }
}
