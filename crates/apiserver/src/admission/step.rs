//! One write on its way through admission, and one step of that way.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::audit::{Annotations, NoteKind, Subject};
use super::charges::Charges;
use super::lookup::Lookup;
use super::reinvocation::Reinvocation;
use crate::error::{ApiError, Result};
use crate::request::ApiRequest;
use crate::request::options::DeleteOptions;
use crate::served::Served;

/// The change that a write makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of AdmissionReview")]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// One write on its way through admission.
pub struct Request<'a> {
    /// The request.
    pub api_request: &'a ApiRequest,
    /// The rest of the server.
    pub lookup: &'a Arc<dyn Lookup>,
    /// The resource.
    pub served: &'a Arc<Served>,
    /// The operation.
    pub operation: Operation,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The namespace, or empty.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The object before, for updates and deletions.
    pub old: Option<&'a Value>,
    /// Set if nothing will be stored.
    pub dry_run: bool,
    /// Charges of quotas for it.
    pub charges: Charges,
    /// The options of a deletion.
    pub deletion: Option<&'a DeleteOptions>,
    /// State of its mutating webhooks.
    pub reinvocation: Reinvocation,
    /// Notes for auditors.
    pub annotations: Annotations,
}

impl<'a> Request<'a> {
    /// A write by this request, of an object without a name and an old state; nothing was charged or noted for it.
    pub fn new(api_request: &'a ApiRequest, lookup: &'a Arc<dyn Lookup>, served: &'a Arc<Served>, operation: Operation) -> Self {
        Self {
            api_request,
            lookup,
            served,
            operation,
            subresource: "",
            namespace: String::new(),
            name: String::new(),
            old: None,
            dry_run: false,
            charges: Charges::default(),
            deletion: None,
            reinvocation: Reinvocation::default(),
            annotations: Annotations::default(),
        }
    }

    /// Returns whether this is a write of such a resource itself, not of a subresource.
    pub fn writes(&self, group: &str, plural: &str) -> bool {
        self.subresource.is_empty() && self.operation != Operation::Delete && self.served.is(group, plural)
    }

    /// Returns whether this is the creation of such a resource.
    pub fn creates(&self, group: &str, plural: &str) -> bool {
        self.operation == Operation::Create && self.writes(group, plural)
    }

    /// The 403 with the words after `is forbidden: `.
    pub fn forbidden(&self, why: impl AsRef<str>) -> ApiError {
        let facts = &self.served.facts;
        ApiError::forbidden(&facts.group, &facts.plural, &self.name, why)
    }

    /// A built-in object. The cache may lag behind one that was made a moment ago, so the store has the last word.
    pub async fn find(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Result<Option<Value>> {
        let served = self.lookup.built_in(group, plural)?;
        match self.lookup.cached(&served, namespace, name) {
            Some(entry) => Ok(Some(entry.value())),
            None => Ok(self.lookup.load(&served, namespace, name).await?.map(|loaded| loaded.value)),
        }
    }

    /// The objects of a built-in resource as the cache shows them; of all namespaces where none is named.
    pub fn list(&self, group: &str, plural: &str, namespace: &str) -> Result<Vec<Value>> {
        let served = self.lookup.built_in(group, plural)?;
        Ok(self.lookup.list(&served.storage, namespace).iter().map(|entry| entry.value()).collect())
    }

    /// Leaves a note for auditors. One that cannot be taken is warned of, and changes nothing for the request.
    pub(super) fn annotate(&self, kind: NoteKind, key: &str, value: &str) {
        let subject = Subject {
            user: &self.api_request.user.name,
            verb: &self.api_request.info.verb,
            resource: &self.served.facts.plural,
            namespace: &self.namespace,
            name: &self.name,
        };
        self.annotations.annotate(kind, key, value, &subject);
    }
}

/// One step of the chain.
#[async_trait]
pub trait AdmissionStep: Send + Sync {
    /// Changes or refuses what is written.
    async fn mutate(&self, _request: &Request<'_>, _object: &mut Value) -> Result<()> {
        Ok(())
    }

    /// Refuses what is written; `object` is absent for deletions.
    async fn validate(&self, _request: &Request<'_>, _object: Option<&Value>) -> Result<()> {
        Ok(())
    }

    /// Gives back what the step took for a write that was let in and is not stored after all.
    async fn abandon(&self, _request: &Request<'_>) {}
}

/// Steps that the composer of a server adds to those that every server has; clones share them.
#[derive(Clone, Default)]
pub struct Steps(pub(super) Vec<Arc<dyn AdmissionStep>>);

impl Steps {
    /// These, in this order.
    pub fn new(steps: Vec<Arc<dyn AdmissionStep>>) -> Self {
        Self(steps)
    }
}

impl std::fmt::Debug for Steps {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Steps").field(&self.0.len()).finish()
    }
}
