//! Verification of a plan: sends each step to the server as a dry run, as the identity that will carry it out (MS-PLAN-03).

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use mainstay_apply::{Reason, WriteError, Writer};
use mainstay_diagnostics::chain;
use mainstay_lifecycle::change::{Operation as How, PlannedStep as ClusterStep};
use mainstay_lifecycle::preview::Verification;
use mainstay_objects::{ObjectRef, Propagation, Step};
use mainstay_olm_v1_core::extension::FIELD_MANAGER;
use mainstay_runtime::Kinds;

use crate::change::Change;
use crate::failure::refused;
use crate::plan::Planned;
use crate::progress::Progress;
use crate::session::Session;

/// Lifetime of the token, in seconds; the API refuses less than ten minutes.
const LIFE: i64 = 600;

/// Sends each step as a dry run and adds the server's answer, also to the steps that this user writes. Every step is checked against the
/// cluster as it is. If a step depends on what an earlier one creates or deletes, the verification says so object by object.
pub async fn verify(session: &Session, planned: &mut Planned, progress: &mut dyn Progress) {
    progress.doing("dry run");
    planned.preview.verification = writes(session, &planned.writes).await;
    let (writer, asked_as) = acting(session, planned).await;
    let writer = writer.dry();
    let grants = !planned.preview.installer_permissions.is_empty();
    for (index, (steps, shown)) in planned.path.iter().zip(&mut planned.preview.steps).enumerate() {
        let around = Around { now: steps, before: &planned.path[..index] };
        for step in steps.iter().filter(|step| step.operation != How::Wait) {
            let title = format!("{} {}", word(step), step.target);
            if let Some(answer) = around.unaskable(step) {
                shown.verification.push(Verification { step: title, asked_as: asked_as.clone(), accepted: None, answer });
                continue;
            }
            let mut verified = asked(&writer, step, title.clone(), &asked_as, &around).await;
            // The account gets this permission only when the plan is applied; the user's identity can still ask admission.
            let user = if verified.lacks_permissions && grants {
                Some("you (the account gets the permission with this plan)")
            } else if around.binds_what_is_made(step) && verified.answer.accepted != Some(true) {
                Some("you (what it binds is made by an earlier step, so the server cannot tell whether the account may)")
            } else {
                None
            };
            if let Some(user) = user {
                verified = asked(&session.writer.dry(), step, title, user, &around).await;
            }
            shown.verification.push(verified.answer);
        }
    }
    let answers = planned.preview.verification.iter().chain(planned.preview.steps.iter().flat_map(|step| &step.verification));
    planned.preview.applicable &= answers.into_iter().all(|verified| verified.accepted != Some(false));
}

/// Verifies the steps that the command itself writes, as its user.
async fn writes(session: &Session, all: &[Step]) -> Vec<Verification> {
    let writer = session.writer.dry();
    let mut verified = Vec::new();
    let makes_namespace = |name: &str| {
        all.iter()
            .any(|step| matches!(step, Step::CreateOnce(object) if object["kind"] == "Namespace" && object["metadata"]["name"] == name))
    };
    for step in all {
        let (object, outcome) = match step {
            Step::CreateOnce(object) => match writer.create(object).await {
                Err(WriteError::Refused { reason: Reason::AlreadyExists, .. }) => continue,
                outcome => (object, outcome.map(drop)),
            },
            Step::Create(object) => (object, writer.create(object).await.map(drop)),
            Step::Apply { object, force, expect } => (object, writer.apply(object, *force, expect).await.map(drop)),
            Step::Patch { object: target, subresource, patch } => {
                let outcome = writer.patch(target, subresource, patch).await.map(drop);
                verified.push(written(format!("patch {target}"), outcome.err().as_ref(), false));
                continue;
            }
            // A plan has no other writes.
            _ => continue,
        };
        let title = match ObjectRef::of(object) {
            Ok(target) => format!("write {target}"),
            Err(error) => format!("write an object: {error}"),
        };
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let binds = object["kind"].as_str().is_some_and(|kind| kind.ends_with("RoleBinding"));
        let waits = (binds || makes_namespace(namespace)) && outcome.as_ref().is_err_and(WriteError::is_not_found);
        verified.push(written(title, outcome.err().as_ref(), waits));
    }
    verified
}

fn written(step: String, error: Option<&WriteError>, waits: bool) -> Verification {
    let said = error.map(|error| chain(error)).unwrap_or_default();
    let answer = if waits { format!("it needs what is written before it, which a dry run does not do: {said}") } else { said };
    Verification { step, asked_as: "you".to_owned(), accepted: (!waits).then_some(error.is_none()), answer }
}

/// Returns the identity that asks: the account if it exists and a token is available, else the user, with the reason.
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

/// An answer, with a mark if it was a refusal for missing permissions.
struct Asked {
    answer: Verification,
    lacks_permissions: bool,
}

async fn asked(writer: &Writer, step: &ClusterStep, title: String, asked_as: &str, around: &Around<'_>) -> Asked {
    let outcome = match &step.step {
        Step::Apply { object, force, expect } => writer.apply(object, *force, expect).await.map(drop),
        Step::Delete { object, expect, .. } => writer.delete(object, expect, Propagation::Background).await.map(drop),
        other => writer.execute(std::slice::from_ref(other), |_| {}).await.map(drop).map_err(|failed| failed.error),
    };
    let mut answer = Verification { step: title, asked_as: asked_as.to_owned(), accepted: Some(outcome.is_ok()), answer: String::new() };
    let made = around.made_before(&step.target);
    let Err(error) = outcome else {
        if let Some(number) = made {
            let what =
                if step.operation == How::Delete { "only the permission to delete it was checked" } else { "it was asked as a new object" };
            answer.answer = format!("step {number} makes it, which a dry run does not do; {what}");
        }
        return Asked { answer, lacks_permissions: false };
    };
    answer.answer = chain(&error);
    if let Some(needed) = around.needs_another(step, &error) {
        answer.accepted = None;
        answer.answer = format!("it needs {needed}, which is not there in a dry run: {}", answer.answer);
    } else if !around.before.is_empty() && !error.is_forbidden() {
        answer.answer = format!("asked of the cluster as it is now, before the steps above: {}", answer.answer);
    }
    Asked { answer, lacks_permissions: error.is_forbidden() }
}

/// The steps around a step.
struct Around<'a> {
    /// The steps of its own bundle.
    now: &'a [ClusterStep],
    /// The steps of earlier bundles, in order.
    before: &'a [Vec<ClusterStep>],
}

impl Around<'_> {
    /// Returns every step that may come before one of this bundle, with its number.
    fn all(&self) -> impl Iterator<Item = (usize, &ClusterStep)> {
        let own = self.before.len() + 1;
        let before = self.before.iter().enumerate().flat_map(|(index, steps)| steps.iter().map(move |step| (index + 1, step)));
        before.chain(self.now.iter().map(move |step| (own, step)))
    }

    /// Returns the last step of an object in earlier bundles, with its number.
    fn last_before(&self, target: &ObjectRef) -> Option<(usize, How)> {
        let before =
            self.all().filter(|(number, step)| *number <= self.before.len() && step.operation != How::Wait && step.target.same(target));
        before.last().map(|(number, step)| (number, step.operation))
    }

    /// Returns the number of the earlier step that creates an object that does not exist now.
    fn made_before(&self, target: &ObjectRef) -> Option<usize> {
        let mut before = self.all().filter(|(number, step)| *number <= self.before.len() && step.target.same(target));
        before.find(|(_, step)| step.operation == How::Create).map(|(number, _)| number)
    }

    /// Returns the reason why a dry run of a step would prove nothing.
    fn unaskable(&self, step: &ClusterStep) -> Option<String> {
        match self.last_before(&step.target) {
            Some((number, How::Delete)) if step.operation == How::Create => {
                Some(format!("step {number} deletes what is there now, which a dry run does not do, so creating it again cannot be asked"))
            }
            _ => None,
        }
    }

    /// Returns whether the step binds a role that another step creates.
    fn binds_what_is_made(&self, step: &ClusterStep) -> bool {
        let role = match step.target.kind.as_str() {
            "RoleBinding" => ["Role", "ClusterRole"].as_slice(),
            "ClusterRoleBinding" => &["ClusterRole"],
            _ => return false,
        };
        self.all().any(|(_, other)| other.operation == How::Create && role.contains(&other.target.kind.as_str()))
    }

    /// Returns the missing object behind a refusal that another step creates: the kind, the namespace or the role. `None` if the refusal
    /// has another reason.
    fn needs_another(&self, step: &ClusterStep, error: &WriteError) -> Option<String> {
        let named = |(number, other): (usize, &ClusterStep)| {
            let of = if self.before.is_empty() { String::new() } else { format!(" of step {number}") };
            format!("{}{of}", other.target)
        };
        let made =
            |fits: &dyn Fn(&ClusterStep) -> bool| self.all().find(|(_, other)| other.operation == How::Create && fits(other)).map(named);
        let namespace = &step.target.namespace;
        match error {
            WriteError::Kind { .. } => made(&|other| defines(other, &step.target)),
            _ if error.is_not_found() && self.binds_what_is_made(step) => Some("the role that it binds".to_owned()),
            _ if error.is_not_found() && !namespace.is_empty() => {
                made(&|other| other.target.kind == "Namespace" && other.target.name == *namespace)
                    .or_else(|| error.to_string().contains("namespaces").then(|| format!("namespace {namespace}")))
            }
            _ => None,
        }
    }
}

/// Returns whether a step creates the definition of an object's kind.
fn defines(step: &ClusterStep, target: &ObjectRef) -> bool {
    let (Step::Create(object) | Step::CreateOnce(object) | Step::Apply { object, .. }) = &step.step else { return false };
    let group = target.api_version.split_once('/').map_or("", |(group, _)| group);
    step.target.kind == "CustomResourceDefinition"
        && object["spec"]["names"]["kind"] == target.kind.as_str()
        && object["spec"]["group"] == group
}

fn word(step: &ClusterStep) -> &'static str {
    match step.operation {
        How::Create => "create",
        How::Update => "change",
        How::Same => "apply",
        How::Delete => "delete",
        How::Wait => "wait for",
        #[allow(unreachable_patterns, reason = "a gate that is waited for")]
        _ => "do",
    }
}
