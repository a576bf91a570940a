//! Each step sent to the server as a dry run, as whoever will carry it out (MS-PLAN-03).

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use mainstay_apply::{Propagation, Step, Writer};
use mainstay_olm_v1::extension::act::FIELD_MANAGER;
use mainstay_olm_v1::extension::plan::{Change as How, Planned as ClusterStep};
use mainstay_olm_v1::extension::preview::Verification;
use mainstay_runtime::Kinds;

use super::{Change, Planned};
use crate::cluster::{Session, refused};
use crate::progress::Progress;

/// How long the token lives, in seconds; less than ten minutes the API does not give.
const LIFE: i64 = 600;

/// Adds to each step what the server said. Steps after the first are against a cluster on which the first was not done, so only the first
/// is asked.
pub async fn verify(session: &Session, planned: &mut Planned, progress: &mut Progress) {
    progress.doing("dry run");
    let (writer, asked_as) = acting(session, planned).await;
    let writer = writer.dry();
    let grants = !planned.preview.installer_rights.is_empty();
    for (index, (steps, shown)) in planned.path.iter().zip(&mut planned.preview.steps).enumerate() {
        for step in steps.iter().filter(|step| step.change != How::Wait) {
            let title = format!("{} {}", word(step), step.target);
            if index > 0 {
                let answer = "the steps before are not done in a dry run".to_owned();
                shown.verification.push(Verification { step: title, asked_as: asked_as.clone(), accepted: None, answer });
                continue;
            }
            let mut verified = asked(&writer, step, title.clone(), &asked_as, steps).await;
            // What the account may do only when the plan is applied; admission can be asked all the same.
            let user = if verified.refused_for_rights && grants {
                Some("you (the account gets the right with this plan)")
            } else if binds_what_is_made(step, steps) && verified.answer.accepted != Some(true) {
                Some("you (what it binds is made by an earlier step, so the server cannot tell whether the account may)")
            } else {
                None
            };
            if let Some(user) = user {
                verified = asked(&session.writer.dry(), step, title, user, steps).await;
            }
            shown.verification.push(verified.answer);
        }
    }
    planned.preview.doable &=
        planned.preview.steps.iter().flat_map(|step| &step.verification).all(|verified| verified.accepted != Some(false));
}

/// Who asks: the account where it exists and its token can be had, else the user, and why.
async fn acting(session: &Session, planned: &Planned) -> (Writer, String) {
    let (namespace, name) = &planned.account;
    let user = |why: String| (session.writer.clone(), format!("you ({why})"));
    if matches!(planned.change, Change::Uninstall { .. }) {
        return user("the garbage collector deletes".to_owned());
    }
    let api: Api<ServiceAccount> = Api::namespaced(session.client.clone(), namespace);
    match api.get_opt(name).await {
        Ok(Some(_)) => {}
        Ok(None) => return user(format!("service account {namespace}/{name} does not exist yet")),
        Err(error) => return user(format!("service account {namespace}/{name} cannot be looked at: {}", refused("", &error).to_line())),
    }
    let request = TokenRequest {
        spec: TokenRequestSpec { expiration_seconds: Some(LIFE), ..TokenRequestSpec::default() },
        ..TokenRequest::default()
    };
    let token = match api.create_token_request(name, &PostParams::default(), &request).await {
        Ok(answer) => answer.status.map(|status| status.token).unwrap_or_default(),
        Err(error) => return user(format!("no token for service account {namespace}/{name}: {}", refused("", &error).to_line())),
    };
    match session.cluster.client_with_token(&token) {
        Ok(client) => {
            let kinds = Kinds::new(client.clone());
            (Writer::new(client, kinds, FIELD_MANAGER), format!("service account {namespace}/{name}"))
        }
        Err(error) => user(error.to_string()),
    }
}

/// An answer, and whether it was no for want of rights.
struct Asked {
    answer: Verification,
    refused_for_rights: bool,
}

async fn asked(writer: &Writer, step: &ClusterStep, title: String, asked_as: &str, all: &[ClusterStep]) -> Asked {
    let outcome = match &step.step {
        Step::Apply { object, force, expect } => writer.apply(object, *force, expect).await.map(drop),
        Step::Delete { object, expect, .. } => writer.delete(object, expect, Propagation::Background).await.map(drop),
        other => writer.execute(std::slice::from_ref(other), |_| {}).await.map(drop).map_err(|failed| failed.error),
    };
    let mut answer = Verification { step: title, asked_as: asked_as.to_owned(), accepted: Some(outcome.is_ok()), answer: String::new() };
    let Err(error) = outcome else { return Asked { answer, refused_for_rights: false } };
    answer.answer = mainstay_olm_v1::text::chain(&error);
    if needs_another(step, all, &error) {
        answer.accepted = None;
        answer.answer = format!("it needs what an earlier step makes, which is not there in a dry run: {}", answer.answer);
    }
    Asked { answer, refused_for_rights: error.is_forbidden() }
}

/// Whether the step binds a role that another step makes.
fn binds_what_is_made(step: &ClusterStep, all: &[ClusterStep]) -> bool {
    let role = match step.target.kind.as_str() {
        "RoleBinding" => ["Role", "ClusterRole"].as_slice(),
        "ClusterRoleBinding" => &["ClusterRole"],
        _ => return false,
    };
    all.iter().any(|other| other.change == How::Create && role.contains(&other.target.kind.as_str()))
}

/// Whether a refusal comes from the dry run itself: the namespace, the kind or the role is made by a step before.
fn needs_another(step: &ClusterStep, all: &[ClusterStep], error: &mainstay_apply::WriteError) -> bool {
    let made = |kind: &str| all.iter().any(|other| other.change == How::Create && other.target.kind == kind);
    let text = error.to_string();
    match error {
        mainstay_apply::WriteError::Kind { .. } => made("CustomResourceDefinition"),
        _ if error.is_not_found() && binds_what_is_made(step, all) => true,
        _ if error.is_not_found() && !step.target.namespace.is_empty() => text.contains("namespaces") || made("Namespace"),
        _ => false,
    }
}

fn word(step: &ClusterStep) -> &'static str {
    match step.change {
        How::Create => "create",
        How::Update => "change",
        How::Same => "apply",
        How::Delete => "delete",
        How::Wait => "wait for",
        #[allow(unreachable_patterns, reason = "a gate that is waited for")]
        _ => "do",
    }
}
