//! Matching of requests by webhooks, policies and bindings: rules, scopes, selectors, and other versions of the same resource
//! (`matchPolicy: Equivalent`).

use std::borrow::Cow;
use std::sync::Arc;

use mainstay_objects::{Requirements, labels_of};
use serde_json::Value;

use super::step::{Operation, Request};
use crate::error::{ApiError, Result};
use crate::served::Served;

/// The criteria that requests must meet.
pub(super) struct Matching {
    /// `None` where no rules mean every request.
    rules: Option<Vec<Rule>>,
    excluded: Vec<Rule>,
    namespaces: Requirements,
    objects: Requirements,
    /// Set if a rule for another version of the resource is a rule for this one, too.
    equivalent: bool,
}

struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    scope: Scope,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    Namespaced,
    Cluster,
}

fn texts(holder: &Value, field: &str) -> Vec<String> {
    holder.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn rules(holder: &Value, field: &str) -> Vec<Rule> {
    let read = |rule: &Value| Rule {
        operations: texts(rule, "operations"),
        groups: texts(rule, "apiGroups"),
        versions: texts(rule, "apiVersions"),
        resources: texts(rule, "resources"),
        names: texts(rule, "resourceNames"),
        scope: match rule.get("scope").and_then(Value::as_str) {
            Some("Namespaced") => Scope::Namespaced,
            Some("Cluster") => Scope::Cluster,
            _ => Scope::All,
        },
    };
    holder.get(field).and_then(Value::as_array).into_iter().flatten().map(read).collect()
}

/// Returns whether a resource is the namespaces themselves, which lie in no namespace but carry one's name.
fn is_namespaces(served: &Served) -> bool {
    served.is("", "namespaces")
}

/// The namespace of a request; a namespace is its own.
pub(super) fn namespace_of<'a>(request: &'a Request<'_>) -> &'a str {
    if is_namespaces(request.served) { &request.name } else { &request.namespace }
}

/// The name of an operation in admission.
pub(super) fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
    }
}

/// Returns whether webhooks and policies never see a request. Configurations of admission are not admitted by what they configure: a mistake could not be
/// undone. And that a pod is bound is told as the creation of a Binding, not as the update of the pod that follows.
pub(super) fn is_exempt(request: &Request<'_>) -> bool {
    let follows_binding = request.operation == Operation::Update && request.subresource == "binding";
    request.served.facts.group == "admissionregistration.k8s.io" || follows_binding
}

impl Matching {
    /// `rules` and selectors of a webhook; without rules it is about nothing.
    pub(super) fn of_webhook(hook: &Value) -> Self {
        Self { rules: Some(rules(hook, "rules")), ..Self::of_selectors(hook) }
    }

    /// `matchConstraints` of a policy, `matchResources` of a binding; without rules these are about everything.
    pub(super) fn of_resources(resources: &Value) -> Self {
        let rules = rules(resources, "resourceRules");
        Self { rules: (!rules.is_empty()).then_some(rules), ..Self::of_selectors(resources) }
    }

    fn of_selectors(holder: &Value) -> Self {
        let selector = |field: &str| holder.get(field).map(Requirements::of_selector).unwrap_or_default();
        Self {
            rules: None,
            excluded: rules(holder, "excludeResourceRules"),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            equivalent: holder.get("matchPolicy").and_then(Value::as_str) == Some("Equivalent"),
        }
    }

    /// The resource as which it is about a request: its own, or an equivalent one; `None` when it is not about it.
    pub(super) async fn matches(&self, request: &Request<'_>, object: Option<&Value>) -> Result<Option<Arc<Served>>> {
        // Rules and objects are looked at first: they need nobody else.
        if !self.selects_object(request, object) || self.by_rules(&self.excluded, request).is_some() {
            return Ok(None);
        }
        let found = match &self.rules {
            None => Some(request.served.clone()),
            Some(rules) => self.by_rules(rules, request),
        };
        match found {
            Some(found) if self.selects_namespace(request, object).await? => Ok(Some(found)),
            _ => Ok(None),
        }
    }

    fn selects_object(&self, request: &Request<'_>, object: Option<&Value>) -> bool {
        let selected = |object: Option<&Value>| object.is_some_and(|object| self.objects.matches(&labels_of(object)));
        self.objects.is_empty() || selected(object) || selected(request.old)
    }

    async fn selects_namespace(&self, request: &Request<'_>, object: Option<&Value>) -> Result<bool> {
        let name = namespace_of(request);
        if self.namespaces.is_empty() || name.is_empty() {
            return Ok(true);
        }
        // A namespace that is being written has the labels that it is going to have.
        let labels = match object {
            Some(object) if is_namespaces(request.served) && request.subresource.is_empty() => labels_of(object),
            _ => match request.find("", "namespaces", "", name).await? {
                Some(namespace) => labels_of(&namespace),
                None => return Err(ApiError::not_found("", "namespaces", name)),
            },
        };
        Ok(self.namespaces.matches(&labels))
    }

    fn by_rules(&self, rules: &[Rule], request: &Request<'_>) -> Option<Arc<Served>> {
        if rules.iter().any(|rule| rule.matches(request, request.served)) {
            return Some(request.served.clone());
        }
        if !self.equivalent || rules.is_empty() {
            return None;
        }
        let others = equivalents(request);
        rules.iter().find_map(|rule| others.iter().find(|other| rule.matches(request, other)).cloned())
    }
}

/// Other versions of the request's resource that have the same subresource.
fn equivalents(request: &Request<'_>) -> Vec<Arc<Served>> {
    let own = request.served;
    let snapshot = request.lookup.served();
    let has = |other: &Served| request.subresource.is_empty() || other.subresource(request.subresource).is_some();
    let mut others: Vec<Arc<Served>> = snapshot
        .all()
        .filter(|other| other.storage == own.storage && other.facts.gvk() != own.facts.gvk() && has(other))
        .cloned()
        .collect();
    others.sort_by(|left, right| (&left.facts.group, &left.facts.version).cmp(&(&right.facts.group, &right.facts.version)));
    others
}

impl Rule {
    fn matches(&self, request: &Request<'_>, served: &Served) -> bool {
        let named = |list: &[String], wanted: &str| list.iter().any(|one| one == "*" || one == wanted);
        let facts = &served.facts;
        self.in_scope(request)
            && named(&self.operations, operation_name(request.operation))
            && named(&self.groups, &facts.group)
            && named(&self.versions, &facts.version)
            && self.names_resource(&facts.plural, request.subresource)
            && (self.names.is_empty() || self.names.contains(&request.name))
    }

    fn in_scope(&self, request: &Request<'_>) -> bool {
        let cluster = is_namespaces(request.served) || request.namespace.is_empty();
        match self.scope {
            Scope::All => true,
            Scope::Namespaced => !cluster,
            Scope::Cluster => cluster,
        }
    }

    fn names_resource(&self, plural: &str, subresource: &str) -> bool {
        self.resources.iter().any(|entry| {
            let (resource, sub) = entry.split_once('/').unwrap_or((entry, ""));
            (resource == "*" || resource == plural) && (sub == "*" || sub == subresource)
        })
    }
}

/// An object of a request in the version that a webhook or a policy asked for.
pub(super) async fn in_version<'a>(object: &'a Value, own: &Served, wanted: &Served) -> Result<Cow<'a, Value>> {
    if own.facts.gvk() == wanted.facts.gvk() {
        return Ok(Cow::Borrowed(object));
    }
    converted(object.clone(), wanted).await.map(Cow::Owned)
}

/// An object in another version of its resource.
pub(super) async fn converted(mut object: Value, wanted: &Served) -> Result<Value> {
    let Some(converter) = wanted.converter() else {
        wanted.convert(&mut object)?;
        return Ok(object);
    };
    let mut answer = converter.convert(vec![object], &wanted.api_version()).await?;
    answer.pop().ok_or_else(|| ApiError::internal("a converter answered without an object"))
}
