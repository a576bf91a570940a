//! The permission of operator-controller to act as the account of an extension (OLM1-PERM-01): the check for it, and the objects that grant
//! it.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{Api, PostParams};
use mainstay_olm_v1::manifests::token_access;
use mainstay_rbac::UserInfo;
use serde_json::Value;

use crate::session::Session;
use crate::settings::Settings;

/// Returns the role and the binding that let operator-controller act as the account, named by namespace and name; nothing if it may act as
/// every account there, or installs as itself. A permission that cannot be checked counts as missing: to grant it twice does no harm.
pub async fn needed(session: &Session, settings: &Settings, extension: &str, account: (&str, &str)) -> Vec<Value> {
    let (namespace, name) = account;
    if settings.own_account || name.is_empty() || allowed(session, settings, namespace, None).await == Some(true) {
        return Vec::new();
    }
    let (home, controller) = &settings.controller;
    token_access(extension, account, (home, controller)).into()
}

/// Returns whether operator-controller may act as the account; `None` if the user may not ask that.
pub async fn may_act_as(session: &Session, settings: &Settings, account: (&str, &str)) -> Option<bool> {
    if settings.own_account {
        return Some(true);
    }
    allowed(session, settings, account.0, Some(account.1)).await
}

async fn allowed(session: &Session, settings: &Settings, namespace: &str, name: Option<&str>) -> Option<bool> {
    let (home, controller) = &settings.controller;
    let user = UserInfo::service_account(home, controller);
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.name),
            groups: Some(user.groups),
            resource_attributes: Some(ResourceAttributes {
                verb: Some("create".to_owned()),
                namespace: Some(namespace.to_owned()),
                resource: Some("serviceaccounts".to_owned()),
                subresource: Some("token".to_owned()),
                name: name.map(str::to_owned),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    match Api::<SubjectAccessReview>::all(session.client.clone()).create(&PostParams::default(), &review).await {
        Ok(answer) => Some(answer.status.is_some_and(|status| status.allowed)),
        Err(error) => {
            tracing::debug!(%error, "whether operator-controller may act as an account cannot be asked");
            None
        }
    }
}
