//! The variables of admission's expressions: those of policies, and the match conditions of webhooks (KAPI-ADM-01, KAPI-ADM-02).

use std::sync::Arc;

use crate::library::authz::{AUTHORIZER, RESOURCE_CHECK};
use crate::program::Env;
use crate::types::{Record, Type};

/// The variables beside those that are always there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionVariables {
    /// `params`: the policy has a kind of parameters.
    pub params: bool,
    /// `authorizer` and `authorizer.requestResource`.
    pub authorizer: bool,
}

/// The environment of an expression of admission, with objects of any kind.
pub fn admission_env(variables: AdmissionVariables) -> Env {
    typed_admission_env(variables, Type::Dyn, Type::Dyn)
}

/// The same, with objects and parameters of these types.
pub fn typed_admission_env(variables: AdmissionVariables, object: Type, params: Type) -> Env {
    let env = Env::new()
        .variable("object", object.clone())
        .variable("oldObject", object)
        .variable("namespaceObject", namespace())
        .variable("request", request());
    let env = if variables.params { env.variable("params", params) } else { env };
    if !variables.authorizer {
        return env;
    }
    env.variable("authorizer", Type::Library(AUTHORIZER)).variable("authorizer.requestResource", Type::Library(RESOURCE_CHECK))
}

fn texts<'a>(names: &'a [&'a str]) -> impl Iterator<Item = (&'a str, Type)> {
    names.iter().map(|name| (*name, Type::String))
}

fn list(items: Type) -> Type {
    Type::List(Arc::new(items))
}

fn map(values: Type) -> Type {
    Type::Map(Arc::new(Type::String), Arc::new(values))
}

fn request() -> Type {
    let kind = Record::new("kubernetes.GroupVersionKind", texts(&["group", "version", "kind"])).kind();
    let resource = Record::new("kubernetes.GroupVersionResource", texts(&["group", "version", "resource"])).kind();
    let user = [("groups", list(Type::String)), ("extra", map(list(Type::String)))];
    let user = Record::new("kubernetes.UserInfo", texts(&["username", "uid"]).chain(user)).kind();
    let others = [
        ("kind", kind.clone()),
        ("resource", resource.clone()),
        ("requestKind", kind),
        ("requestResource", resource),
        ("userInfo", user),
        ("dryRun", Type::Bool),
        ("options", Type::Dyn),
    ];
    let own = texts(&["subResource", "requestSubResource", "name", "namespace", "operation"]);
    Record::new("kubernetes.AdmissionRequest", own.chain(others)).kind()
}

fn namespace() -> Type {
    let metadata = [
        ("labels", map(Type::String)),
        ("annotations", map(Type::String)),
        ("creationTimestamp", Type::Timestamp),
        ("deletionGracePeriodSeconds", Type::Int),
        ("deletionTimestamp", Type::Timestamp),
        ("generation", Type::Int),
        ("finalizers", list(Type::String)),
    ];
    let own = texts(&["name", "generateName", "namespace", "UID", "resourceVersion"]);
    let metadata = Record::new("kubernetes.NamespaceMetadata", own.chain(metadata)).kind();
    let spec = Record::new("kubernetes.NamespaceSpec", [("finalizers", list(Type::String))]).kind();
    let condition = texts(&["status", "type", "message", "reason"]).chain([("lastTransitionTime", Type::Timestamp)]);
    let condition = Record::new("kubernetes.NamespaceCondition", condition).kind();
    let status = [("conditions", list(condition)), ("phase", Type::String)];
    let status = Record::new("kubernetes.NamespaceStatus", status).kind();
    Record::new("kubernetes.Namespace", [("metadata", metadata), ("spec", spec), ("status", status)]).kind()
}
