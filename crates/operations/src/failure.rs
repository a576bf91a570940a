//! Failures of requests that the API, a writer or the resolver refused.

use mainstay_apply::{Reason, WriteError};
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_objects::ObjectRef;
use mainstay_resolver::{Refusal, RefusalKind};

/// Returns the failure of a request that the API refused, or that did not reach it.
pub fn refused(subject: impl Into<String>, error: &kube::Error) -> Failure {
    let subject = subject.into();
    match error {
        kube::Error::Api(status) => {
            let kind = match status.code {
                404 => FailureKind::NotFound,
                401 | 403 | 409 | 422 => FailureKind::Impossible,
                408 | 504 => FailureKind::TimedOut,
                _ => FailureKind::Failed,
            };
            // The subject names the object already; the API would repeat it with its resource and group.
            let named = format!("{:?} not found", subject.split_once(' ').map_or("", |(_, name)| name));
            let message = if status.message.ends_with(&named) { "not found".to_owned() } else { status.message.clone() };
            if let Some((_, why)) = message.split_once(" is forbidden: ") {
                return Failure::new(kind, subject, "forbidden").because(why);
            }
            let failure = Failure::new(kind, subject, message);
            if status.code == 404 && status.message.contains("could not find the requested resource") {
                return failure
                    .because("the cluster does not serve this kind: OLM v1 is not installed on it")
                    .hint("mainstay deploy --image REGISTRY/mainstay:TAG installs it; mainstay up starts an embedded cluster that has it");
            }
            failure
        }
        other => Failure::failed(subject, other).hint("is the cluster running? mainstay status shows embedded ones"),
    }
}

/// Returns the failure of a write that did not happen.
pub fn not_written(error: &WriteError) -> Failure {
    let kind = match error {
        WriteError::Refused { reason, .. } => match reason {
            Reason::NotFound => FailureKind::NotFound,
            Reason::AlreadyExists
            | Reason::Conflict
            | Reason::FieldConflict(_)
            | Reason::Forbidden
            | Reason::Unauthorized
            | Reason::Invalid(_) => FailureKind::Impossible,
            _ => FailureKind::Failed,
        },
        WriteError::NotOurs(_) => FailureKind::Impossible,
        WriteError::TimedOut { .. } => FailureKind::TimedOut,
        _ => FailureKind::Failed,
    };
    match error {
        // The object comes first; the server's message says the rest.
        WriteError::Refused { object, message, .. } => {
            Failure::new(kind, format!("{} {}", object.kind.to_lowercase(), placed(object)), message.clone())
        }
        _ => Failure::of(kind, "cluster", error),
    }
}

fn placed(object: &ObjectRef) -> String {
    if object.namespace.is_empty() { object.name.clone() } else { format!("{}/{}", object.namespace, object.name) }
}

/// Returns the failure of a request that no bundle meets: what each catalog had to offer, and hints that were tried.
pub fn not_resolved(refusal: &Refusal) -> Failure {
    let (kind, subject) = match &refusal.kind {
        RefusalKind::InvalidVersionRange { .. } | RefusalKind::InvalidSelector { .. } => (FailureKind::Failed, "question".to_owned()),
        RefusalKind::NoSingleBundle { package, .. } | RefusalKind::CatalogFailed { package, .. } => {
            (FailureKind::Impossible, format!("package {package}"))
        }
        RefusalKind::InvalidInstalledVersion { bundle, .. }
        | RefusalKind::InvalidBundleVersion { bundle, .. }
        | RefusalKind::UnsupportedDependency { bundle, .. } => (FailureKind::Impossible, format!("bundle {bundle}")),
    };
    let failure = Failure::new(kind, subject, refusal.to_string());
    let failure = refusal.catalogs.iter().fold(failure, |failure, report| failure.because(report.to_string()));
    refusal.hints.iter().fold(failure, |failure, hint| failure.hint(hint.to_string()))
}
