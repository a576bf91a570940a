//! `authorizer`: questions about permissions, as expressions of admission ask them. The caller provides the [`Authorizer`].

use std::fmt;
use std::sync::Arc;

use super::names;
use crate::error::EvalError;
use crate::value::{Library, Value};

pub(crate) const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
pub(crate) const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
pub(crate) const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
pub(crate) const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
pub(crate) const DECISION: &str = "kubernetes.authorization.Decision";

/// The source of answers about users' permissions.
pub trait Authorizer: fmt::Debug + Send + Sync {
    /// Answers one question.
    fn decide(&self, question: &AccessQuestion) -> AccessDecision;
}

/// A question about permissions: is this allowed?
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccessQuestion {
    /// Namespace and name of a ServiceAccount; else it is the user of the request.
    pub service_account: Option<(Arc<str>, Arc<str>)>,
    /// The verb.
    pub verb: String,
    /// The path or resource that it is about.
    pub check: AccessCheck,
}

/// The subject of a permission.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AccessCheck {
    /// A path that is no resource's.
    Path(String),
    /// Resources.
    #[allow(missing_docs, reason = "the names are those of ResourceAttributes")]
    Resource {
        group: String,
        resource: String,
        subresource: String,
        namespace: String,
        name: String,
        field_selector: String,
        label_selector: String,
    },
}

impl Default for AccessCheck {
    fn default() -> Self {
        Self::Path(String::new())
    }
}

/// The answer to a question about permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessDecision {
    /// True if it is allowed.
    pub allowed: bool,
    /// The reason for the decision.
    pub reason: String,
    /// The error that occurred while deciding.
    pub error: Option<String>,
}

/// A value of this library.
#[derive(Clone, Debug)]
pub struct Authz {
    authorizer: Arc<dyn Authorizer>,
    service_account: Option<(Arc<str>, Arc<str>)>,
    step: Step,
}

#[derive(Clone, Debug)]
enum Step {
    Authorizer,
    Group(String),
    Check(AccessCheck),
    Decision(AccessDecision),
}

impl Value {
    /// `authorizer`: the permissions of the request's user.
    pub fn authorizer(authorizer: Arc<dyn Authorizer>) -> Self {
        Self::library(Library::Authz(Authz { authorizer, service_account: None, step: Step::Authorizer }))
    }

    /// `authorizer.requestResource`: the same, with the request's resource filled in.
    pub fn request_authorizer(authorizer: Arc<dyn Authorizer>, check: AccessCheck) -> Self {
        Self::library(Library::Authz(Authz { authorizer, service_account: None, step: Step::Check(check) }))
    }
}

impl Authz {
    pub(crate) fn type_name(&self) -> &'static str {
        match &self.step {
            Step::Authorizer => AUTHORIZER,
            Step::Group(_) => GROUP_CHECK,
            Step::Check(AccessCheck::Path(_)) => PATH_CHECK,
            Step::Check(AccessCheck::Resource { .. }) => RESOURCE_CHECK,
            Step::Decision(_) => DECISION,
        }
    }

    fn next(&self, step: Step) -> Value {
        Value::library(Library::Authz(Self { step, ..self.clone() }))
    }

    /// A member function with these texts.
    pub(crate) fn call(&self, name: &str, texts: &[&str]) -> Result<Value, EvalError> {
        match (&self.step, name, texts) {
            (Step::Authorizer, "path", [path]) => {
                if path.trim().is_empty() {
                    return Err(EvalError::new("path must not be empty"));
                }
                Ok(self.next(Step::Check(AccessCheck::Path((*path).to_owned()))))
            }
            (Step::Authorizer, "group", [group]) => Ok(self.next(Step::Group((*group).to_owned()))),
            (Step::Authorizer, "serviceAccount", [namespace, name]) => {
                if !names::subdomain(name).is_empty() {
                    return Err(EvalError::new("Invalid service account name"));
                }
                if !names::label(namespace).is_empty() {
                    return Err(EvalError::new("Invalid service account namespace"));
                }
                let account = Self { service_account: Some(((*namespace).into(), (*name).into())), ..self.clone() };
                Ok(Value::library(Library::Authz(account)))
            }
            (Step::Group(group), "resource", [resource]) => {
                if resource.trim().is_empty() {
                    return Err(EvalError::new("resource must not be empty"));
                }
                let empty = String::new;
                Ok(self.next(Step::Check(AccessCheck::Resource {
                    group: group.clone(),
                    resource: (*resource).to_owned(),
                    subresource: empty(),
                    namespace: empty(),
                    name: empty(),
                    field_selector: empty(),
                    label_selector: empty(),
                })))
            }
            (Step::Check(check), "check", [verb]) => {
                let question =
                    AccessQuestion { service_account: self.service_account.clone(), verb: (*verb).to_owned(), check: check.clone() };
                Ok(self.next(Step::Decision(self.authorizer.decide(&question))))
            }
            (Step::Check(check @ AccessCheck::Resource { .. }), field, [text]) => {
                let mut check = check.clone();
                let AccessCheck::Resource { subresource, namespace, name, field_selector, label_selector, .. } = &mut check else {
                    return Err(EvalError::overload());
                };
                let part = match field {
                    "subresource" => subresource,
                    "namespace" => namespace,
                    "name" => name,
                    "fieldSelector" => field_selector,
                    "labelSelector" => label_selector,
                    _ => return Err(EvalError::overload()),
                };
                (*text).clone_into(part);
                Ok(self.next(Step::Check(check)))
            }
            (Step::Decision(decision), "allowed", []) => Ok(Value::Bool(decision.allowed)),
            (Step::Decision(decision), "reason", []) => Ok(Value::text(decision.reason.as_str())),
            (Step::Decision(decision), "errored", []) => Ok(Value::Bool(decision.error.is_some())),
            (Step::Decision(decision), "error", []) => Ok(Value::text(decision.error.as_deref().unwrap_or_default())),
            _ => Err(EvalError::overload()),
        }
    }
}
